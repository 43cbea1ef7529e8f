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
#include "deliver/dead_letter_private.h"

#include <stdlib.h>

struct dropping { /* the step's own */
    enum dead_letter_worker_reason reasons[DEAD_LETTER_PAGE];
    size_t count;
};

static void look(struct dead_letter_worker *worker);

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

static bool is_too_old(struct dead_letter_worker *worker, const struct job *job)
{
    int64_t keep_ms = worker->pass.rules.keep_ms;
    if (!keep_ms)
        return false;
    int64_t left_ms = ended_ms(job) + keep_ms - clock_wall_ms();
    if (left_ms > 0)
        dead_letter_pass_again(worker, clock_inner_ms() + (left_ms < keep_ms ? left_ms : keep_ms));
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
    struct dead_letter_worker *worker = owner;
    struct dropping *step = worker->pass.step;
    (void)tag;
    dead_letter_worker_replied(worker);
    if (reply->status != QUEUE_OK || reply->result_count != step->count) {
        dead_letter_pass_fail(worker, "the queue did not drop dead jobs");
        return;
    }
    if (worker->pass.droppable != UINT64_MAX)
        worker->pass.droppable -= step->count;
    for (size_t i = 0; i < step->count && worker->pass.kept; i++)
        if (reply->results[i].status == QUEUE_CANCELLED)
            dead_letter_worker_count(worker, &worker->pass.kept->dropped[step->reasons[i]], 1);
    if (dead_letter_pass_is_over(worker))
        dead_letter_pass_done(worker);
    else
        look(worker);
}

static size_t choose(struct dead_letter_worker *worker, const struct queue_reply *reply,
                     struct queue_change changes[DEAD_LETTER_PAGE])
{
    struct dropping *step = worker->pass.step;
    uint64_t by_count = excess_by_count(&worker->pass), by_bytes = excess_by_bytes(&worker->pass);
    uint64_t most =
        worker->pass.droppable < DEAD_LETTER_PAGE ? worker->pass.droppable : DEAD_LETTER_PAGE;
    size_t count = 0;
    for (size_t i = 0; i < reply->job_count && count < most; i++) {
        const struct job *job = &reply->jobs[i].job;
        if (count < by_count)
            step->reasons[count] = DEAD_LETTER_COUNT;
        else if (count < by_bytes)
            step->reasons[count] = DEAD_LETTER_BYTES;
        else if (is_too_old(worker, job))
            step->reasons[count] = DEAD_LETTER_AGE;
        else
            continue;
        changes[count++] = (struct queue_change){.verb = QUEUE_CANCEL,
                                                 .topic = pass_topic(&worker->pass),
                                                 .id = job->id,
                                                 .priority = QUEUE_PRIORITY_UNSET,
                                                 .only_dead = true,
                                                 .delivery = job->delivery};
    }
    return step->count = count;
}

static void on_oldest(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct queue_change changes[DEAD_LETTER_PAGE];
    (void)tag;
    dead_letter_worker_replied(worker);
    if (reply->status != QUEUE_OK)
        dead_letter_pass_fail(worker, "the queue did not show the dead jobs");
    else if (choose(worker, reply, changes))
        queue_change(worker->options.queue, changes, ((struct dropping *)worker->pass.step)->count,
                     dead_letter_worker_reply_to(worker, on_dropped));
    else
        dead_letter_pass_done(worker);
}

/* ---- as long as there are too many ---- */

static void on_counts(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    if (!dead_letter_pass_counts(worker, reply))
        return;
    if (!worker->pass.counts.dead) {
        dead_letter_pass_done(worker);
        return;
    }
    struct queue_list list = {
        .topic = pass_topic(&worker->pass), .state = JOB_DEAD, .limit = DEAD_LETTER_PAGE};
    queue_list(worker->options.queue, &list, dead_letter_worker_reply_to(worker, on_oldest));
}

static void look(struct dead_letter_worker *worker)
{
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = pass_topic(&worker->pass)};
    queue_topic(worker->options.queue, &get, dead_letter_worker_reply_to(worker, on_counts));
}

void dead_letter_drop(struct dead_letter_worker *worker)
{
    struct pass *pass = &worker->pass;
    bool has_limit = pass->rules.keep_count || pass->rules.keep_bytes || pass->rules.keep_ms;
    free(pass->step);
    pass->step = NULL;
    if (!has_limit || !pass->droppable || dead_letter_pass_is_over(worker)) {
        dead_letter_pass_done(worker);
        return;
    }
    pass->step = calloc(1, sizeof(struct dropping));
    if (!pass->step)
        dead_letter_pass_fail(worker, "out of memory");
    else
        look(worker);
}
