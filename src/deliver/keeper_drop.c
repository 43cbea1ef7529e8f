/*
 * The last step of a pass: the oldest dead jobs are dropped where there are more than
 * `dead_letter.keep` allows. Each one is counted under its reason.
 *
 * What a job takes in the store is known as a sum only, so for `bytes` some are dropped, by the
 * average and rather too few, and the sum is looked at again.
 *
 * Where dead jobs are forwarded, no more are dropped than this pass could not forward: what died
 * since is for the next one.
 */
#include "base/clock.h"
#include "deliver/keeper_private.h"

#include <stdlib.h>

struct dropping { /* the step's own */
    enum keeper_reason reasons[KEEPER_PAGE];
    size_t count;
};

static void look(struct keeper *keeper);

/* ---- whom ---- */

static int64_t ended_ms(const struct job *job)
{
    struct job_attempt attempt;
    int64_t ms = job->due_ms; /* of one that never was tried */
    size_t at = 0;
    while (job_history_next(job->history, &at, &attempt))
        ms = attempt.started_ms + attempt.duration_ms;
    return ms;
}

static bool is_too_old(struct keeper *keeper, const struct job *job)
{
    int64_t keep_ms = keeper->pass.rules.keep_ms;
    if (!keep_ms)
        return false;
    int64_t left_ms = ended_ms(job) + keep_ms - clock_wall_ms();
    if (left_ms > 0)
        keeper_pass_again(keeper, clock_inner_ms() + (left_ms < keep_ms ? left_ms : keep_ms));
    return left_ms <= 0;
}

static uint64_t excess_by_bytes(const struct pass *pass)
{
    uint64_t jobs = pass->counts.dead, bytes = pass->counts.dead_bytes;
    if (!pass->rules.keep_bytes || bytes <= pass->rules.keep_bytes || !jobs)
        return 0;
    uint64_t each = bytes / jobs ? bytes / jobs : 1;
    uint64_t excess = (bytes - pass->rules.keep_bytes) / each / 2;
    return excess ? excess : 1;
}

static uint64_t excess_by_count(const struct pass *pass)
{
    uint64_t most = pass->rules.keep_count;
    return most && pass->counts.dead > most ? pass->counts.dead - most : 0;
}

/* ---- a page of them ---- */

static void on_dropped(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    struct dropping *step = keeper->pass.step;
    (void)tag;
    keeper_replied(keeper);
    if (reply->status != QUEUE_OK || reply->result_count != step->count) {
        keeper_pass_fail(keeper, "the queue did not drop dead jobs");
        return;
    }
    if (keeper->pass.droppable != UINT64_MAX)
        keeper->pass.droppable -= step->count;
    for (size_t i = 0; i < step->count && keeper->pass.kept; i++)
        if (reply->results[i].status == QUEUE_CANCELLED)
            keeper_count(keeper, &keeper->pass.kept->dropped[step->reasons[i]], 1);
    if (keeper_pass_is_over(keeper))
        keeper_pass_done(keeper);
    else
        look(keeper);
}

static size_t choose(struct keeper *keeper, const struct queue_reply *reply,
                     struct queue_change changes[KEEPER_PAGE])
{
    struct dropping *step = keeper->pass.step;
    uint64_t by_count = excess_by_count(&keeper->pass), by_bytes = excess_by_bytes(&keeper->pass);
    uint64_t most = keeper->pass.droppable < KEEPER_PAGE ? keeper->pass.droppable : KEEPER_PAGE;
    size_t count = 0;
    for (size_t i = 0; i < reply->job_count && count < most; i++) {
        const struct job *job = &reply->jobs[i].job;
        if (count < by_count)
            step->reasons[count] = KEEPER_COUNT;
        else if (count < by_bytes)
            step->reasons[count] = KEEPER_BYTES;
        else if (is_too_old(keeper, job))
            step->reasons[count] = KEEPER_AGE;
        else
            continue;
        changes[count++] = (struct queue_change){.verb = QUEUE_CANCEL,
                                                 .topic = pass_topic(&keeper->pass),
                                                 .id = job->id,
                                                 .priority = QUEUE_PRIORITY_UNSET,
                                                 .only_dead = true,
                                                 .delivery = job->delivery};
    }
    return step->count = count;
}

static void on_oldest(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    struct queue_change changes[KEEPER_PAGE];
    (void)tag;
    keeper_replied(keeper);
    if (reply->status != QUEUE_OK)
        keeper_pass_fail(keeper, "the queue did not show the dead jobs");
    else if (choose(keeper, reply, changes))
        keeper->options.queue->ops->change(keeper->options.queue, changes,
                                           ((struct dropping *)keeper->pass.step)->count,
                                           keeper_reply_to(keeper, on_dropped));
    else
        keeper_pass_done(keeper);
}

/* ---- as long as there are too many ---- */

static void on_counts(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    (void)tag;
    if (!keeper_pass_counts(keeper, reply))
        return;
    if (!keeper->pass.counts.dead) {
        keeper_pass_done(keeper);
        return;
    }
    struct queue_list list = {
        .topic = pass_topic(&keeper->pass), .state = JOB_DEAD, .limit = KEEPER_PAGE};
    keeper->options.queue->ops->list(keeper->options.queue, &list,
                                     keeper_reply_to(keeper, on_oldest));
}

static void look(struct keeper *keeper)
{
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = pass_topic(&keeper->pass)};
    keeper->options.queue->ops->topic(keeper->options.queue, &get,
                                      keeper_reply_to(keeper, on_counts));
}

void keeper_drop(struct keeper *keeper)
{
    struct pass *pass = &keeper->pass;
    bool has_limit = pass->rules.keep_count || pass->rules.keep_bytes || pass->rules.keep_ms;
    free(pass->step);
    pass->step = NULL;
    if (!has_limit || !pass->droppable || keeper_pass_is_over(keeper)) {
        keeper_pass_done(keeper);
        return;
    }
    pass->step = calloc(1, sizeof(struct dropping));
    if (!pass->step)
        keeper_pass_fail(keeper, "out of memory");
    else
        look(keeper);
}
