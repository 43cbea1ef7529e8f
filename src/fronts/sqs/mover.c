#include "sqs/mover.h"

#include "base/clock.h"
#include "sqs/move.h"
#include "sqs/move_task.h"

#include <stdlib.h>

static const int64_t TAKE_WAIT_MS = 24LL * 3600 * 1000;

enum {
    TASKS_MAX = 8, /* at a time, on one server */
    RETRY_MS = 1000
};

struct sqs_mover {
    struct sqs_move_owner owner;
    struct reactor *reactor;
    struct waiters *waiters;
    struct deadline *alarm;
    size_t count;  /* of tasks */
    uint64_t take; /* handle of the waiting take; 0: no take */
    int64_t take_ms;
    bool is_started;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    struct iteration_end_call stop_call;
};

/* ---- taking tasks ---- */

static void mover_take(struct sqs_mover *mover);

static void on_declined(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

static void mover_start_task(struct sqs_mover *mover, const struct queue_job *taken)
{
    const struct queue_answer decline = {.verb = QUEUE_RETURN, .lease = taken->lease};
    mover->count++;
    if (sqs_move_task_start(&mover->owner, taken))
        return;
    mover->count--;
    queue_answer(mover->owner.queue, &decline, 1, (struct queue_reply_to){.done = on_declined});
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct sqs_mover *mover = owner;
    (void)tag;
    mover->take = 0;
    if (reply->status == QUEUE_OK && reply->job_count == 1)
        mover_start_task(mover, &reply->jobs[0]);
    else if (reply->status != QUEUE_OK || refused)
        mover->take_ms = clock_inner_ms() + RETRY_MS;
    mover_take(mover);
}

static bool mover_wants_task(const struct sqs_mover *mover)
{
    return mover->is_started && !mover->owner.is_stopping && !mover->take &&
           mover->count < TASKS_MAX;
}

static void mover_take(struct sqs_mover *mover)
{
    struct slice topic = slice_of(SQS_MOVES_TOPIC);
    int64_t now_ms = clock_inner_ms();
    const struct queue_take take = {
        .topics = &topic, .topic_count = 1, .max = 1, .lease_ms = SQS_MOVE_TASK_LEASE_MS};
    if (!mover_wants_task(mover))
        return;
    if (now_ms >= mover->take_ms)
        mover->take = waiter_take(mover->waiters, &take, TAKE_WAIT_MS, now_ms, on_taken, mover, 0);
    if (mover->take)
        return;
    if (mover->take_ms <= now_ms)
        mover->take_ms = now_ms + RETRY_MS;
    deadline_set(mover->alarm, now_ms);
}

/* ---- callbacks of tasks ---- */

static void check_stopped(struct sqs_mover *mover)
{
    if (mover->owner.is_stopping && !mover->count && mover->stopped)
        reactor_once_at_iteration_end(mover->reactor, &mover->stop_call);
}

static void on_task_rested(struct sqs_move_owner *owner)
{
    struct sqs_mover *mover = list_entry(owner, struct sqs_mover, owner);
    deadline_set(mover->alarm, clock_inner_ms()); /* on_alarm computes the next time */
}

static void on_task_ended(struct sqs_move_owner *owner)
{
    struct sqs_mover *mover = list_entry(owner, struct sqs_mover, owner);
    mover->count--;
    mover_take(mover);
    check_stopped(mover);
}

/* ---- time ---- */

/* Continues tasks whose pause has ended, and sets the alarm for the next one. */
static void on_alarm(void *ctx)
{
    struct sqs_mover *mover = ctx;
    struct list *tasks = &mover->owner.tasks;
    int64_t now_ms = clock_inner_ms(), next_ms = INT64_MAX;
    for (struct list *at = tasks->next, *after; at != tasks; at = after) {
        int64_t wake_ms = sqs_move_task_wake_ms(at);
        after = at->next;
        if (!wake_ms)
            continue;
        if (wake_ms > now_ms && !mover->owner.is_stopping)
            next_ms = wake_ms < next_ms ? wake_ms : next_ms;
        else
            sqs_move_task_go_on(at);
    }
    if (mover_wants_task(mover)) {
        if (mover->take_ms <= now_ms)
            mover_take(mover);
        else
            next_ms = mover->take_ms < next_ms ? mover->take_ms : next_ms;
    }
    if (next_ms != INT64_MAX)
        deadline_set(mover->alarm, next_ms);
}

/* ---- life cycle ---- */

static void run_stopped(struct iteration_end_call *call)
{
    struct sqs_mover *mover = list_entry(call, struct sqs_mover, stop_call);
    void (*stopped)(void *ctx) = mover->stopped;
    mover->stopped = NULL;
    if (stopped)
        stopped(mover->stopped_ctx);
}

struct sqs_mover *sqs_mover_new(struct reactor *reactor, struct queue *queue,
                                struct waiters *waiters)
{
    struct sqs_mover *mover = calloc(1, sizeof *mover);
    if (!mover)
        return NULL;
    *mover = (struct sqs_mover){
        .owner = {.queue = queue, .rested = on_task_rested, .ended = on_task_ended},
        .reactor = reactor,
        .waiters = waiters};
    list_init(&mover->owner.tasks);
    list_init(&mover->stop_call.list);
    mover->stop_call.run = run_stopped;
    mover->alarm = deadline_new(reactor, on_alarm, mover);
    if (mover->alarm)
        return mover;
    free(mover);
    return NULL;
}

void sqs_mover_start(struct sqs_mover *mover)
{
    mover->is_started = true;
    mover_take(mover);
}

void sqs_mover_stop(struct sqs_mover *mover, void (*stopped)(void *ctx), void *ctx)
{
    mover->owner.is_stopping = true;
    mover->stopped = stopped;
    mover->stopped_ctx = ctx;
    if (mover->take)
        waiter_cancel(mover->waiters, mover->take);
    mover->take = 0;
    on_alarm(mover); /* paused tasks are returned */
    check_stopped(mover);
}

void sqs_mover_free(struct sqs_mover *mover)
{
    if (!mover)
        return;
    reactor_cancel_at_iteration_end(&mover->stop_call);
    deadline_free(mover->alarm);
    sqs_move_tasks_free(&mover->owner);
    free(mover);
}
