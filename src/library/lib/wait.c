/*
 * Waiting takes, and waits for the end of a job. They are served in order of arrival by the thread that made the job ready: a push
 * serves them when it leaves, the leader when a time has come. Thus no thread wakes in vain.
 */
#include "lib/state.h"

/* Takes or pops the jobs that are available now. */
int lib_waiter_try(struct tarry *queue, struct waiter *waiter)
{
    enum queue_status status = (waiter->pops ? memory_pop : memory_take)(
        queue->memory, waiter->take, queue->now, waiter->jobs, &waiter->count);
    return lib_code(status);
}

int lib_await_show(struct tarry *queue, struct waiter *waiter)
{
    int code = lib_code(
        memory_get(queue->memory, waiter->topic, waiter->id, true, queue->now, &waiter->jobs[0]));
    waiter->count = code == TARRY_OK;
    return code;
}

void lib_await_cancel(struct tarry *queue, struct waiter *waiter)
{
    if (!waiter->has_ended)
        memory_await_cancel(queue->memory, waiter->topic, waiter->id, &waiter->end);
}

void lib_waiter_end(struct tarry *queue, struct waiter *waiter, int code)
{
    waiter->code = code;
    waiter->is_done = true;
    list_remove(&waiter->list);
    if (!waiter->take)
        lib_await_cancel(queue, waiter);
    if (queue->leader == waiter) {
        queue->leader = NULL;
        queue->leader_ms = INT64_MAX;
    }
    if (waiter->wake)
        lib_waiter_wake(queue, waiter);
    else
        waiter->ended(queue, waiter);
}

/* Serves one waiter. Returns whether its wait has ended, with this code. */
static bool waiter_serve(struct tarry *queue, struct waiter *waiter, int *code)
{
    bool is_late = waiter->until_ms <= queue->now.inner_ms;
    *code = TARRY_OK;
    if (!waiter->take) {
        if (waiter->has_ended)
            *code = waiter->end_code;
        else if (is_late)
            *code = lib_await_show(queue, waiter);
        return waiter->has_ended || is_late;
    }
    if (queue->is_ready)
        *code = lib_waiter_try(queue, waiter);
    return *code || waiter->count || is_late;
}

/* A pop of one waiter may end the job of another, so this repeats until no end is left. */
void lib_serve(struct tarry *queue)
{
    if (!queue->is_ready && !queue->has_ends && queue->now.inner_ms < queue->waits_ms)
        return;
    do {
        queue->has_ends = false;
        queue->waits_ms = INT64_MAX;
        for (struct list *at = queue->waiters.next, *next; at != &queue->waiters; at = next) {
            struct waiter *waiter = list_entry(at, struct waiter, list);
            int code;
            next = at->next;
            if (waiter_serve(queue, waiter, &code))
                lib_waiter_end(queue, waiter, code);
            else if (waiter->until_ms < queue->waits_ms)
                queue->waits_ms = waiter->until_ms;
        }
    } while (queue->has_ends);
    queue->is_ready = false;
}

void lib_waiter_add(struct tarry *queue, struct waiter *waiter, int64_t wait_ms)
{
    bool has_end = wait_ms > 0 && wait_ms < POLICY_DELAY_MS_MAX;
    waiter->until_ms = has_end ? queue->now.inner_ms + 1 + wait_ms : INT64_MAX;
    if (waiter->until_ms < queue->waits_ms)
        queue->waits_ms = waiter->until_ms;
    list_add_last(&queue->waiters, &waiter->list);
}

/* Returns the first waiter that sleeps in a take. */
static struct waiter *first_sleeper(const struct tarry *queue)
{
    for (struct list *at = queue->waiters.next; at != &queue->waiters; at = at->next) {
        struct waiter *waiter = list_entry(at, struct waiter, list);
        if (waiter->wake)
            return waiter;
    }
    return NULL;
}

void lib_set_alarm(struct tarry *queue)
{
    int64_t next_ms = memory_next_ms(queue->memory);
    if (queue->submitted_waiters)
        lib_set_timer(queue, next_ms);
    bool must_watch = memory_waits_for_wall(queue->memory, queue->now);
    bool is_led =
        queue->leader && queue->leader_ms <= next_ms && (queue->leader->watches || !must_watch);
    if (queue->has_test_clock || is_led || next_ms == INT64_MAX)
        return;
    struct waiter *leader = queue->leader ? queue->leader : first_sleeper(queue);
    if (!leader)
        return;
    queue->leader = leader;
    queue->leader_ms = next_ms;
    lib_waiter_wake(queue, leader); /* it sleeps until another time, or without a watch */
}
