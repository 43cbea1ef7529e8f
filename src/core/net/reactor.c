#include "net/reactor.h"

#include "base/clock.h"
#include "base/peak.h"
#include "net/activity.h"
#include "net/thread.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOOKS_MAX = 8, KIND_SHARE_US = 250, SLOW_US = 2000 };

struct hook {
    bool (*run)(void *ctx);
    void *ctx;
};

struct reactor {
    uv_loop_t loop;
    uv_async_t mail;
    uv_prepare_t iteration_end;
    uv_check_t polled;
    uv_idle_t again;                  /* active: the next poll does not sleep */
    _Atomic(struct letter *) mailbox; /* newest first */
    atomic_bool stopping;
    struct hook hooks[HOOKS_MAX];
    struct list calls; /* at the end of this iteration */
    struct list tasks; /* next one first */
    uint32_t hook_count;
    uint32_t index;
    bool in_hooks, needs_iteration;
    pthread_t thread;
    int64_t now_us;            /* of this iteration; 0: not read yet */
    int64_t polled_us;         /* an upper bound of when the poll returned */
    int64_t ended_us;          /* end of the previous iteration */
    int64_t read_processor_us; /* processor time of the thread when it was last read */
    uint64_t unread_us;        /* duration of the iterations since then */
    _Atomic uint64_t iterations, letters;
    struct peak longest_us, longest_processor_us;
    struct shared_histogram iteration_us, processor_us, late_us;
    struct slow_activity {
        _Atomic(const char *) name; /* NULL: a free place */
        _Atomic uint64_t iterations;
    } slow
        [REACTOR_ACTIVITIES_MAX]; /* activities of slow iterations, in the order in which they were first seen */
};

/* ---- mailbox ---- */

/* Adds a letter. Only the sender that finds the mailbox empty wakes the reactor, which then
 * receives all later letters as well. */
void reactor_post(struct reactor *reactor, struct letter *letter)
{
    struct letter *head = atomic_load_explicit(&reactor->mailbox, memory_order_relaxed);
    do {
        letter->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&reactor->mailbox, &head, letter,
                                                    memory_order_acq_rel, memory_order_relaxed));
    if (!head)
        uv_async_send(&reactor->mail);
}

static struct letter *take_mail(struct reactor *reactor)
{
    struct letter *newest = atomic_exchange_explicit(&reactor->mailbox, NULL, memory_order_acq_rel);
    struct letter *oldest = NULL;
    while (newest) {
        struct letter *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void on_mail(uv_async_t *mail)
{
    struct reactor *reactor = mail->data;
    struct letter *letter = take_mail(reactor);
    uint64_t letters = 0;
    (void)reactor_now_us(reactor);
    activity_begin("messages");
    for (; letter; letters++) {
        struct letter *next = letter->next;
        letter->run(letter);
        letter = next;
    }
    counter_add(&reactor->letters, letters);
    if (atomic_load_explicit(&reactor->stopping, memory_order_acquire))
        uv_stop(&reactor->loop);
}

/* ---- durations of iterations ---- */

int64_t reactor_now_us(struct reactor *reactor)
{
    if (!reactor->now_us)
        reactor->now_us = clock_awake_us();
    return reactor->now_us;
}

bool reactor_is_late(struct reactor *reactor)
{
    int64_t began_us = reactor_now_us(reactor);
    return clock_awake_us() - began_us >= REACTOR_SHARE_US;
}

struct reactor_share reactor_share_begin(void)
{
    return (struct reactor_share){.until_us = clock_awake_us() + KIND_SHARE_US};
}

bool reactor_share_is_over(const struct reactor_share *share)
{
    return clock_awake_us() >= share->until_us;
}

/* Notes the end of a poll: the loop's own time is still the one at which it returned, truncated to
 * milliseconds. */
static void on_polled(uv_check_t *polled)
{
    struct reactor *reactor = polled->data;
    reactor->polled_us = ((int64_t)uv_now(&reactor->loop) + 1) * 1000;
}

/* Returns the processor time of an iteration that took `took_us`. Reading that clock is a system
 * call, so it is read once for many short iterations, which count with their duration. */
static uint64_t processor_time_of(struct reactor *reactor, uint64_t took_us)
{
    reactor->unread_us += took_us;
    if (reactor->unread_us < REACTOR_SHARE_US)
        return took_us;
    int64_t processor_us = clock_thread_us();
    uint64_t used_us = (uint64_t)(processor_us - reactor->read_processor_us);
    reactor->read_processor_us = processor_us;
    reactor->unread_us = 0;
    return used_us < took_us ? used_us : took_us;
}

/* Counts a slow iteration by the activity that took the longest. More of them than there are places for count as the last one. */
static void note_slow(struct reactor *reactor, const char *activity)
{
    struct slow_activity *slow = reactor->slow;
    const char *name;
    while ((name = atomic_load_explicit(&slow->name, memory_order_relaxed)) &&
           strcmp(name, activity) != 0 && slow < reactor->slow + REACTOR_ACTIVITIES_MAX - 1)
        slow++;
    if (!name)
        atomic_store_explicit(&slow->name, activity, memory_order_release);
    counter_add(&slow->iterations, 1);
}

/* Records the iteration. The loop polls next. */
static void iteration_note(struct reactor *reactor)
{
    int64_t began_us = reactor->polled_us, ended_us = clock_awake_us();
    if (reactor->now_us && reactor->now_us < began_us)
        began_us = reactor->now_us;
    if (began_us < reactor->ended_us)
        began_us = reactor->ended_us;
    if (began_us > ended_us)
        began_us = ended_us;
    uint64_t took_us = (uint64_t)(ended_us - began_us);
    reactor->now_us = 0;
    reactor->ended_us = ended_us;
    counter_add(&reactor->iterations, 1);
    shared_histogram_add(&reactor->iteration_us, took_us);
    peak_note(&reactor->longest_us, took_us, ended_us);
    uint64_t used_us = processor_time_of(reactor, took_us);
    const char *activity = activity_end_iteration();
    if (used_us >= SLOW_US)
        note_slow(reactor, activity);
    shared_histogram_add(&reactor->processor_us, used_us);
    peak_note(&reactor->longest_processor_us, used_us, ended_us);
}

void reactor_note_late(struct reactor *reactor, int64_t late_us)
{
    shared_histogram_add(&reactor->late_us, late_us > 0 ? (uint64_t)late_us : 0);
}

void reactor_figures(const struct reactor *reactor, struct reactor_figures *sum)
{
    uint64_t longest_us = counter_get(&reactor->longest_us.greatest);
    int64_t now_us = clock_awake_us();
    uint64_t lately_us = peak_of_minute(&reactor->longest_us, now_us);
    uint64_t processor_us = peak_of_minute(&reactor->longest_processor_us, now_us);
    sum->iterations += counter_get(&reactor->iterations);
    sum->letters += counter_get(&reactor->letters);
    if (longest_us > sum->longest_us)
        sum->longest_us = longest_us;
    if (lately_us > sum->longest_of_minute_us)
        sum->longest_of_minute_us = lately_us;
    if (processor_us > sum->longest_processor_us)
        sum->longest_processor_us = processor_us;
    shared_histogram_merge(&sum->iteration_us, &reactor->iteration_us);
    shared_histogram_merge(&sum->processor_us, &reactor->processor_us);
    shared_histogram_merge(&sum->late_us, &reactor->late_us);
}

bool reactor_slow_activity(const struct reactor *reactor, uint32_t place, const char **name,
                           uint64_t *iterations)
{
    if (place >= REACTOR_ACTIVITIES_MAX)
        return false;
    const struct slow_activity *slow = &reactor->slow[place];
    *name = atomic_load_explicit(&slow->name, memory_order_acquire);
    *iterations = counter_get(&slow->iterations);
    return *name != NULL;
}

/* ---- end of an iteration ---- */

static void on_again(uv_idle_t *again)
{
    (void)again;
}

void reactor_iterate_again(struct reactor *reactor)
{
    reactor->needs_iteration = true;
    if (!reactor->in_hooks)
        (void)uv_idle_start(&reactor->again, on_again);
}

/* Runs the current calls. Calls that they request run in the next iteration. */
static void run_calls(struct reactor *reactor)
{
    struct list now;
    if (list_is_empty(&reactor->calls))
        return;
    now = reactor->calls;
    now.next->prev = now.prev->next = &now;
    list_init(&reactor->calls);
    while (!list_is_empty(&now)) {
        struct iteration_end_call *call = list_entry(now.next, struct iteration_end_call, list);
        list_remove(&call->list);
        call->run(call);
    }
    if (!list_is_empty(&reactor->calls))
        reactor->needs_iteration = true;
}

/* Carries out one piece of a task, and more while there is time. The hooks must see what they did: another iteration
 * follows. */
static void run_tasks(struct reactor *reactor)
{
    if (list_is_empty(&reactor->tasks))
        return;
    (void)reactor_now_us(reactor);
    activity_begin("pieces");
    do {
        struct reactor_task *task = list_entry(reactor->tasks.next, struct reactor_task, list);
        list_remove(&task->list);
        if (task->piece(task))
            list_add_last(&reactor->tasks, &task->list);
    } while (!list_is_empty(&reactor->tasks) && !reactor_is_late(reactor));
    reactor->needs_iteration = true;
}

static void run_hooks(struct reactor *reactor)
{
    reactor->in_hooks = true;
    reactor->needs_iteration = false;
    for (uint32_t i = 0; i < reactor->hook_count; i++)
        if (reactor->hooks[i].run(reactor->hooks[i].ctx))
            reactor->needs_iteration = true;
    run_calls(reactor);
    run_tasks(reactor);
    reactor->in_hooks = false;
    if (reactor->needs_iteration)
        (void)uv_idle_start(&reactor->again, on_again);
    else
        (void)uv_idle_stop(&reactor->again);
}

static void on_iteration_end(uv_prepare_t *iteration_end)
{
    run_hooks(iteration_end->data);
    iteration_note(iteration_end->data);
}

void reactor_at_iteration_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx)
{
    assert(reactor->hook_count < HOOKS_MAX);
    reactor->hooks[reactor->hook_count++] = (struct hook){.run = hook, .ctx = ctx};
}

void reactor_remove_at_iteration_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx)
{
    assert(!reactor->in_hooks);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < reactor->hook_count; i++)
        if (reactor->hooks[i].run != hook || reactor->hooks[i].ctx != ctx)
            reactor->hooks[kept++] = reactor->hooks[i];
    reactor->hook_count = kept;
}

void reactor_once_at_iteration_end(struct reactor *reactor, struct iteration_end_call *call)
{
    if (list_is_empty(&call->list))
        list_add_last(&reactor->calls, &call->list);
}

void reactor_cancel_at_iteration_end(struct iteration_end_call *call)
{
    list_remove(&call->list);
}

void reactor_add_task(struct reactor *reactor, struct reactor_task *task)
{
    assert(list_is_empty(&task->list));
    list_add_last(&reactor->tasks, &task->list);
    reactor_iterate_again(reactor);
}

void reactor_remove_task(struct reactor_task *task)
{
    list_remove(&task->list);
}

/* ---- life cycle ---- */

struct reactor *reactor_new(uint32_t index)
{
    struct reactor *reactor = calloc(1, sizeof *reactor);
    if (!reactor)
        return NULL;
    if (uv_loop_init(&reactor->loop) != 0) {
        free(reactor);
        return NULL;
    }
    if (uv_async_init(&reactor->loop, &reactor->mail, on_mail) != 0) {
        (void)uv_loop_close(&reactor->loop);
        free(reactor);
        return NULL;
    }
    list_init(&reactor->calls);
    list_init(&reactor->tasks);
    (void)uv_prepare_init(&reactor->loop, &reactor->iteration_end);
    (void)uv_check_init(&reactor->loop, &reactor->polled);
    (void)uv_idle_init(&reactor->loop, &reactor->again);
    reactor->mail.data = reactor->iteration_end.data = reactor->again.data = reactor;
    reactor->polled.data = reactor;
    (void)uv_prepare_start(&reactor->iteration_end, on_iteration_end);
    (void)uv_check_start(&reactor->polled, on_polled);
    reactor->index = index;
    atomic_init(&reactor->slow[0].name, ACTIVITY_SEVERAL);
    reactor->ended_us = clock_awake_us();
    reactor->read_processor_us = clock_thread_us();
    return reactor;
}

void reactor_free(struct reactor *reactor)
{
    if (!reactor)
        return;
    reactor->hook_count = 0;
    assert(list_is_empty(&reactor->calls));
    while (!list_is_empty(&reactor->tasks)) /* tasks without an owner, which free memory */
        run_tasks(reactor);
    uv_close((uv_handle_t *)&reactor->mail, NULL);
    uv_close((uv_handle_t *)&reactor->iteration_end, NULL);
    uv_close((uv_handle_t *)&reactor->polled, NULL);
    uv_close((uv_handle_t *)&reactor->again, NULL);
    (void)uv_run(&reactor->loop, UV_RUN_DEFAULT);
    int left = uv_loop_close(&reactor->loop);
    assert(left == 0);
    (void)left;
    free(reactor);
}

uv_loop_t *reactor_loop(struct reactor *reactor)
{
    return &reactor->loop;
}

uint32_t reactor_index(const struct reactor *reactor)
{
    return reactor->index;
}

void reactor_run(struct reactor *reactor)
{
    if (atomic_load_explicit(&reactor->stopping, memory_order_acquire))
        uv_stop(&reactor->loop);
    reactor->now_us = 0;
    reactor->ended_us = clock_awake_us(); /* earlier time does not belong to an iteration */
    reactor->read_processor_us = clock_thread_us();
    (void)uv_run(&reactor->loop, UV_RUN_DEFAULT);
    run_hooks(reactor); /* for what the last iteration left behind */
}

static void run_thread(void *ctx)
{
    reactor_run(ctx);
}

int reactor_start(struct reactor *reactor)
{
    char name[32];
    (void)snprintf(name, sizeof name, "reactor %u", reactor->index);
    return thread_start(&reactor->thread, name, run_thread, reactor);
}

void reactor_join(struct reactor *reactor)
{
    thread_join(reactor->thread);
}

void reactor_stop(struct reactor *reactor)
{
    atomic_store_explicit(&reactor->stopping, true, memory_order_release);
    uv_async_send(&reactor->mail);
}
