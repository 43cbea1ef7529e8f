/* Sweeps over the dead or delayed jobs of a queue that lists, redrives and changes, and answers at the
 * test's command. */
#include "queue/sweep.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>

enum { JOBS_MAX = 2500, CALLS_MAX = 300, IDS_BYTES = 32 };

struct dead {
    char id[IDS_BYTES], error[32];
    char history[64];
    size_t history_len;
    bool is_gone;
    bool is_another; /* than on the page: it was redriven and died again meanwhile */
    uint64_t delivery;
    int redriven; /* how often */
};

struct call {
    struct queue_reply_to to;
    struct queue_list list;
    char cursor[32];
    bool is_list;
    uint64_t affected;
    struct queue_result *results; /* those of the fake: one change at a time */
    size_t result_count;
    enum queue_status status;
};

struct fake {
    struct queue queue;
    struct dead jobs[JOBS_MAX];
    size_t job_count;
    struct call calls[CALLS_MAX];
    size_t call_count, most_calls, lists;
    enum queue_status fails; /* what redrives end in; 0: they do not fail */
    bool dies_again;         /* redriven jobs are dead immediately, behind the others */
    bool is_wanted;
    bool is_waiting;    /* the jobs are delayed, not dead; the place is the due */
    size_t changes_max; /* further changes fail with NO_SPACE; 0: no limit */
    size_t changes;
    struct queue_result results[QUEUE_LIST_MAX];
    int done;
    struct sweep_result result;
};

static struct call *add_call(struct fake *fake, struct queue_reply_to to)
{
    assert_true(fake->call_count < CALLS_MAX);
    struct call *call = &fake->calls[fake->call_count++];
    *call = (struct call){.to = to};
    if (fake->call_count > fake->most_calls)
        fake->most_calls = fake->call_count;
    return call;
}

static void fake_list(struct queue *queue, const struct queue_list *list, struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct call *call = add_call(fake, to);
    assert_true(slice_is(list->topic, "t"));
    assert_int_equal(list->state, fake->is_waiting ? JOB_DELAYED : JOB_DEAD);
    call->is_list = true;
    call->list = *list;
    (void)snprintf(call->cursor, sizeof call->cursor, "%.*s", (int)list->cursor.len,
                   list->cursor.len ? list->cursor.at : "");
}

static struct dead *find(struct fake *fake, struct slice id)
{
    for (size_t i = 0; i < fake->job_count; i++)
        if (!fake->jobs[i].is_gone && slice_is(id, fake->jobs[i].id))
            return &fake->jobs[i];
    return NULL;
}

static void fake_topic(struct queue *queue, const struct queue_topic_call *asked,
                       struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct call *call = add_call(fake, to);
    struct dead *job = find(fake, asked->id);
    assert_int_equal(asked->verb, QUEUE_TOPIC_REDRIVE);
    assert_true(slice_is(asked->topic, "t") && asked->id.len);
    call->status = fake->fails ? fake->fails : job ? QUEUE_OK : QUEUE_NOT_FOUND;
    if (call->status != QUEUE_OK)
        return;
    call->affected = 1;
    job->is_gone = true;
    if (fake->dies_again) {
        struct dead *again = &fake->jobs[fake->job_count++];
        *again = *job;
        again->is_gone = false;
        again->redriven++;
        assert_int_equal(again->redriven, 1);
    }
}

/* Moves a job behind the others. */
static void move_job(struct fake *fake, struct dead *job)
{
    assert_true(fake->job_count < JOBS_MAX);
    struct dead *moved = &fake->jobs[fake->job_count++];
    *moved = *job;
    job->is_gone = true;
    moved->redriven++;
}

static enum queue_status change_waiting(struct fake *fake, const struct queue_change *change)
{
    struct dead *job = find(fake, change->id);
    assert_false(change->only_dead);
    if (fake->changes_max && fake->changes == fake->changes_max)
        return QUEUE_NO_SPACE;
    fake->changes++;
    if (!job)
        return QUEUE_NOT_FOUND;
    if (change->verb == QUEUE_RESCHEDULE)
        move_job(fake, job);
    else
        job->is_gone = true;
    return change->verb == QUEUE_CANCEL ? QUEUE_CANCELLED : QUEUE_OK;
}

static void fake_change(struct queue *queue, const struct queue_change *changes, size_t count,
                        struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct call *call = add_call(fake, to);
    call->results = fake->results;
    memset(fake->results, 0, sizeof fake->results);
    for (size_t i = 0; i < count; i++) {
        if (fake->is_waiting) {
            call->results[i].status = change_waiting(fake, &changes[i]);
            continue;
        }
        struct dead *job = find(fake, changes[i].id);
        assert_int_equal(changes[i].verb, QUEUE_CANCEL);
        assert_true(changes[i].only_dead);
        bool is_same = job && !job->is_another && changes[i].delivery == job->delivery;
        call->results[i].status = !job      ? QUEUE_NOT_FOUND
                                  : is_same ? QUEUE_CANCELLED
                                            : QUEUE_CONFLICT;
        if (is_same)
            job->is_gone = true;
    }
    call->result_count = count;
}

static void fake_submit(struct queue *queue, const struct command *command,
                        struct queue_reply_to to)
{
    if (command->kind == COMMAND_LIST) {
        fake_list(queue, &command->list, to);
    } else if (command->kind == COMMAND_TOPIC) {
        fake_topic(queue, &command->topic, to);
    } else {
        assert_int_equal(command->kind, COMMAND_CHANGE);
        fake_change(queue, command->changes, command->count, to);
    }
}

static const struct queue_ops fake_ops = {.submit = fake_submit};

/* Places are indices: as with due and sequence, removed jobs do not change the others' places. */
static void answer_list(struct fake *fake, const struct call *call)
{
    static struct queue_job jobs[QUEUE_LIST_MAX];
    char cursor[32];
    size_t count = 0, i = (size_t)atoi(call->cursor);
    fake->lists++;
    for (; i < fake->job_count && count < call->list.limit; i++) {
        const struct dead *job = &fake->jobs[i];
        if (job->is_gone)
            continue;
        jobs[count++] =
            (struct queue_job){.job = {.state = fake->is_waiting ? JOB_DELAYED : JOB_DEAD,
                                       .due_ms = (int64_t)i,
                                       .id = slice_of(job->id),
                                       .delivery = job->delivery,
                                       .error = slice_of(job->error),
                                       .history = slice_make(job->history, job->history_len)}};
    }
    (void)snprintf(cursor, sizeof cursor, "%zu", i);
    struct queue_reply reply = {.jobs = jobs, .job_count = count};
    if (i < fake->job_count)
        reply.cursor = slice_of(cursor);
    call->to.done(call->to.owner, call->to.tag, &reply);
}

/* The last one first. */
static void run(struct fake *fake)
{
    while (fake->call_count) {
        struct call call = fake->calls[--fake->call_count];
        struct queue_reply reply = {.status = call.status,
                                    .affected = call.affected,
                                    .results = call.results,
                                    .result_count = call.result_count};
        if (call.is_list)
            answer_list(fake, &call);
        else
            call.to.done(call.to.owner, call.to.tag, &reply);
    }
}

static bool is_wanted(void *owner, uint64_t tag)
{
    assert_int_equal(tag, 7);
    return ((struct fake *)owner)->is_wanted;
}

static void on_done(void *owner, uint64_t tag, const struct sweep_result *result)
{
    struct fake *fake = owner;
    assert_int_equal(tag, 7);
    fake->done++;
    fake->result = *result;
}

static struct fake *fake_new(size_t count)
{
    struct fake *fake = calloc(1, sizeof *fake);
    fake->queue.ops = &fake_ops;
    fake->is_wanted = true;
    fake->job_count = count;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(fake->jobs[i].id, IDS_BYTES, "%s%zu", i % 2 ? "odd-" : "even-", i);
        fake->jobs[i].delivery = i;
        (void)snprintf(fake->jobs[i].error, sizeof fake->jobs[i].error,
                       i % 4 == 0 ? "http 500" : "timed out after 10s");
    }
    return fake;
}

static void sweep(struct fake *fake, struct sweep_order order)
{
    char topic[] = "t";
    order.topic = slice_of(topic);
    order.scope = fake->is_waiting ? SWEEP_DELAYED : SWEEP_DEAD;
    assert_true(sweep_start(&fake->queue, &order, is_wanted, on_done, fake, 7));
    topic[0] = 'x'; /* the order is gone with the call */
    assert_int_equal(fake->done, 0);
    run(fake);
    assert_int_equal(fake->done, 1);
}

/* ---- claims ---- */

CLAIM(counts_matching_jobs_and_changes_nothing)
{
    struct fake *fake = fake_new(450);
    sweep(fake, (struct sweep_order){.verb = SWEEP_COUNT, .filter.error = slice_of("500")});
    assert_int_equal(fake->result.status, QUEUE_OK);
    assert_int_equal(fake->result.jobs, 113);
    assert_int_equal(fake->result.seen, 450);
    assert_true(fake->result.is_complete);
    assert_int_equal(fake->lists, 3);
    assert_int_equal(fake->most_calls, 1);
    free(fake);
}

CLAIM(redrives_matching_jobs_page_by_page)
{
    struct fake *fake = fake_new(900);
    sweep(fake, (struct sweep_order){.verb = SWEEP_REDRIVE,
                                     .filter.error = slice_of("timed out"),
                                     .filter.id_prefix = slice_of("odd-")});
    assert_int_equal(fake->result.jobs, 450);
    assert_true(fake->result.is_complete);
    assert_true(fake->most_calls <= 200);
    for (size_t i = 0; i < fake->job_count; i++)
        assert_true(fake->jobs[i].is_gone == (i % 2 == 1));
    free(fake);
}

CLAIM(jobs_that_die_again_are_not_redriven_twice)
{
    struct fake *fake = fake_new(450);
    fake->dies_again = true;
    sweep(fake, (struct sweep_order){.verb = SWEEP_REDRIVE, .filter.id_prefix = slice_of("odd-")});
    assert_int_equal(fake->result.jobs, 225);
    assert_true(fake->result.is_complete);
    free(fake);
}

CLAIM(cancels_matching_jobs)
{
    struct fake *fake = fake_new(450);
    sweep(fake, (struct sweep_order){.verb = SWEEP_CANCEL, .filter.error = slice_of("500")});
    assert_int_equal(fake->result.jobs, 113);
    for (size_t i = 0; i < 450; i++)
        assert_true(fake->jobs[i].is_gone == (i % 4 == 0));
    free(fake);
}

CLAIM(a_replaced_job_is_not_cancelled)
{
    struct fake *fake = fake_new(10);
    fake->jobs[4].is_another = true;
    sweep(fake, (struct sweep_order){.verb = SWEEP_CANCEL});
    assert_int_equal(fake->result.status, QUEUE_OK);
    assert_int_equal(fake->result.jobs, 9);
    assert_false(fake->jobs[4].is_gone);
    free(fake);
}

CLAIM(a_maximum_is_respected_and_reported)
{
    static const struct {
        const char *sentence;
        uint64_t max, jobs;
        bool is_complete;
    } rows[] = {
        {"fewer than there are", 10, 10, false},
        {"up to the end of a page", 200, 200, false},
        {"all but the last", 449, 449, false},
        {"exactly as many", 450, 450, true},
        {"more", 451, 450, true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fake *fake = fake_new(450);
        sweep(fake, (struct sweep_order){.verb = SWEEP_REDRIVE, .max = rows[i].max});
        CASE_HOLDS(rows[i].sentence, fake->result.jobs == rows[i].jobs);
        CASE_HOLDS(rows[i].sentence, fake->result.is_complete == rows[i].is_complete);
        free(fake);
    }
}

CLAIM(ends_when_cancelled)
{
    struct fake *fake = fake_new(450);
    fake->is_wanted = false;
    sweep(fake, (struct sweep_order){.verb = SWEEP_COUNT});
    assert_int_equal(fake->lists, 1);
    assert_int_equal(fake->result.jobs, 200);
    assert_false(fake->result.is_complete);
    free(fake);
}

CLAIM(a_rejection_ends_the_sweep_and_is_returned_with_the_count)
{
    struct fake *fake = fake_new(450);
    fake->fails = QUEUE_UNAVAILABLE;
    sweep(fake, (struct sweep_order){.verb = SWEEP_REDRIVE});
    assert_int_equal(fake->result.status, QUEUE_UNAVAILABLE);
    assert_int_equal(fake->result.jobs, 0);
    assert_int_equal(fake->lists, 1);
    free(fake);
}

CLAIM(jobs_that_are_no_longer_dead_are_skipped)
{
    struct fake *fake = fake_new(3);
    fake->fails = QUEUE_NOT_FOUND;
    sweep(fake, (struct sweep_order){.verb = SWEEP_REDRIVE});
    assert_int_equal(fake->result.status, QUEUE_OK);
    assert_int_equal(fake->result.jobs, 0);
    assert_true(fake->result.is_complete);
    free(fake);
}

CLAIM(each_waiting_job_is_moved_once)
{
    struct fake *fake = fake_new(1450);
    fake->is_waiting = true;
    sweep(fake,
          (struct sweep_order){.verb = SWEEP_RESCHEDULE, .filter.id_prefix = slice_of("odd-")});
    assert_int_equal(fake->result.status, QUEUE_OK);
    assert_int_equal(fake->result.jobs, 725);
    assert_true(fake->result.is_complete);
    for (size_t i = 1450; i < fake->job_count; i++)
        assert_int_equal(fake->jobs[i].redriven, 1);
    free(fake);
}

CLAIM(a_full_disk_ends_the_sweep_and_the_changes_so_far_are_counted)
{
    struct fake *fake = fake_new(1450);
    fake->is_waiting = true;
    fake->changes_max = 1250;
    sweep(fake, (struct sweep_order){.verb = SWEEP_CANCEL});
    assert_int_equal(fake->result.status, QUEUE_NO_SPACE);
    assert_int_equal(fake->result.jobs, 1250);
    assert_false(fake->result.is_complete);
    assert_int_equal(fake->lists, 2);
    free(fake);
}

CLAIM(jobs_due_later_than_the_filter_allows_are_not_listed)
{
    struct fake *fake = fake_new(2500);
    fake->is_waiting = true;
    sweep(fake, (struct sweep_order){
                    .verb = SWEEP_RUN, .filter.due_after_ms = 10, .filter.due_before_ms = 1210});
    assert_int_equal(fake->result.jobs, 1200);
    assert_true(fake->result.is_complete);
    assert_int_equal(fake->lists, 2);
    free(fake);
}

static void set_history(struct dead *job, int64_t started_ms, int64_t duration_ms)
{
    struct job_attempt attempt = {.attempt = 1,
                                  .started_ms = started_ms,
                                  .duration_ms = duration_ms,
                                  .outcome = JOB_OUTCOME_FAILED};
    char into[JOB_HISTORY_BYTES_MAX];
    job->history_len = job_history_add(slice_make(job->history, job->history_len), &attempt, into);
    assert_true(job->history_len <= sizeof job->history);
    memcpy(job->history, into, job->history_len);
}

/* Malformed ones are ignored. */
CLAIM(the_time_of_death_is_the_end_of_the_last_attempt)
{
    static const struct {
        const char *sentence;
        int64_t after_ms, before_ms;
        uint64_t jobs;
    } rows[] = {
        {"any time", 0, 0, 4},          {"from then on", 1100, 0, 2}, {"later", 1101, 0, 1},
        {"before then", 0, 1100, 0},    {"up to then", 0, 1101, 1},   {"between", 1000, 2000, 1},
        {"between, nobody", 10, 20, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fake *fake = fake_new(4);
        set_history(&fake->jobs[0], 500, 1);
        set_history(&fake->jobs[0], 1000, 100);
        set_history(&fake->jobs[1], 5000, 0);
        fake->jobs[2].history_len = 3;
        memset(fake->jobs[2].history, 0xff, 3);
        sweep(fake, (struct sweep_order){.verb = SWEEP_COUNT,
                                         .filter.died_after_ms = rows[i].after_ms,
                                         .filter.died_before_ms = rows[i].before_ms});
        CASE_HOLDS(rows[i].sentence, fake->result.jobs == rows[i].jobs);
        free(fake);
    }
}

CLAIMS_MAIN(NULL, NULL)
