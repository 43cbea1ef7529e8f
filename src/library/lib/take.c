/* Blocking takes and pops, and interrupts. */
#include "base/clock.h"
#include "lib/directory.h"
#include "queue/door.h"

int lib_read_take(const struct tarry_take *from, struct queue_take *out,
                  struct slice topics[TARRY_TAKE_TOPICS_MAX], uint64_t *tag)
{
    struct tarry_take take;
    const char *detail;
    if (!lib_read(&take, sizeof take, from) || take.reserved || !take.topics || !take.topic_count ||
        take.topic_count > TARRY_TAKE_TOPICS_MAX)
        return TARRY_BAD_OPTION;
    for (uint32_t i = 0; i < take.topic_count; i++)
        topics[i] = lib_text(take.topics[i]);
    *out = (struct queue_take){.topics = topics,
                               .topic_count = take.topic_count,
                               .max = take.max,
                               .lease_ms = take.lease_ms,
                               .consumer = lib_text(take.consumer)};
    *tag = take.tag;
    return lib_code(queue_check_take(out, &detail));
}

/* Converts a time of the inner clock to the clock of condition variables. */
static struct timespec awake_time(struct tarry *queue, int64_t inner_ms)
{
    int64_t left_us = inner_ms * 1000 - clock_inner_us_of(&queue->clock);
    int64_t at_us = clock_awake_us() + (left_us > 0 ? left_us : 0);
    return (struct timespec){.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
}

/* Sleeps until the waiter is woken, its wait ends, or the leader's event is due. */
static void waiter_sleep(struct tarry *queue, struct waiter *waiter)
{
    int64_t until_ms = waiter->until_ms;
    if (queue->leader == waiter && queue->leader_ms < until_ms)
        until_ms = queue->leader_ms;
    if (queue->has_test_clock || until_ms == INT64_MAX) {
        pthread_cond_wait(waiter->wake, &queue->lock);
        return;
    }
    waiter->watches = queue->leader == waiter && memory_waits_for_wall(queue->memory, queue->now);
    if (waiter->watches && lib_leader_sleep(queue, waiter, until_ms))
        return;
    struct timespec at = awake_time(queue, until_ms);
    pthread_cond_timedwait(waiter->wake, &queue->lock, &at);
}

void lib_waiter_wait(struct tarry *queue, struct waiter *waiter, int64_t wait_ms)
{
    pthread_cond_t wake;
    pthread_condattr_t by;
    pthread_condattr_init(&by);
    pthread_condattr_setclock(&by, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &by);
    pthread_condattr_destroy(&by);
    waiter->wake = &wake;
    lib_waiter_add(queue, waiter, wait_ms);
    lib_serve(queue); /* a push that waits may have made its job ready for others */
    lib_set_alarm(queue);
    while (!waiter->is_done) {
        waiter_sleep(queue, waiter);
        if (waiter->is_done)
            break;
        if (queue->leader == waiter) {
            queue->leader = NULL;
            queue->leader_ms = INT64_MAX;
        }
        queue->now = memory_now(queue->memory);
        memory_advance(queue->memory, queue->now);
        lib_serve(queue);
        if (!list_is_empty(&queue->waiters))
            lib_set_alarm(queue);
    }
    pthread_cond_destroy(&wake);
}

static int directory_take_or_pop(struct tarry *queue, struct waiter *waiter, int64_t wait_ms)
{
    struct directory_take take = {.waiter = waiter, .wait_ms = wait_ms};
    int code = lib_begin(queue);
    if (code)
        return code;
    directory_post_take(queue->directory, &take);
    code = directory_wait(&take.call);
    lib_end(queue);
    return code;
}

static int take_or_pop(struct tarry *queue, const struct tarry_take *from, bool pops,
                       int64_t wait_ms, tarry_job **out, size_t *n)
{
    struct slice topics[TARRY_TAKE_TOPICS_MAX];
    struct queue_take take;
    struct waiter waiter = {.take = &take, .pops = pops, .jobs = (struct memory_job **)(void *)out};
    *n = 0;
    int code = lib_read_take(from, &take, topics, &waiter.tag);
    if (!code && queue->directory) {
        code = directory_take_or_pop(queue, &waiter, wait_ms);
        *n = waiter.count;
        return code;
    }
    if (!code)
        code = lib_enter(queue);
    if (code)
        return code;
    code = lib_waiter_try(queue, &waiter);
    if (!code && !waiter.count && wait_ms) {
        lib_waiter_wait(queue, &waiter, wait_ms);
        code = waiter.code;
        lib_unlock(queue);
    } else {
        lib_leave(queue);
    }
    *n = waiter.count;
    return code;
}

int tarry_take(tarry *queue, const struct tarry_take *take, int64_t wait_ms, tarry_job **out,
               size_t *n)
{
    return take_or_pop(queue, take, false, wait_ms, out, n);
}

int tarry_pop(tarry *queue, const struct tarry_take *take, int64_t wait_ms, tarry_job **out,
              size_t *n)
{
    return take_or_pop(queue, take, true, wait_ms, out, n);
}

size_t tarry_interrupt(tarry *queue, uint64_t tag)
{
    size_t count = 0;
    if (tag && queue->directory && !lib_begin(queue)) {
        count = directory_interrupt(queue->directory, tag);
        lib_end(queue);
        return count;
    }
    if (!tag || queue->directory || lib_enter(queue))
        return 0;
    for (struct list *at = queue->waiters.next, *next; at != &queue->waiters; at = next) {
        struct waiter *waiter = list_entry(at, struct waiter, list);
        next = at->next;
        if (waiter->tag != tag)
            continue;
        lib_waiter_end(queue, waiter, TARRY_INTERRUPTED);
        count++;
    }
    lib_leave(queue);
    return count;
}
