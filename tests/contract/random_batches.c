/*
 * Random calls about batches, beside a naive model: each member has an outcome, and the counts of a batch are those of its members. Some
 * waiting jobs are members themselves. After each call every job and every batch is compared.
 */
#include "directed.h"

#include "base/clock.h"
#include "base/random.h"
#include "queue/life.h"
#include "unit/cases.h"
#include "unit/repetitions.h"

#include <inttypes.h>
#include <stdlib.h>

enum { WAITING = 4, MEMBERS = 6, JOBS = WAITING + MEMBERS, STEPS = 80, RUNS = 12, NACKS_MAX = 3 };
enum { LEASE_MS = 24 * 3600 * 1000, DELAY_MS = 3600 * 1000, CALLS_MAX = 16 };
enum { PATIENCE_US = 20 * 1000 * 1000 };

/* A batch. Batches and members of the past stay, so that numbers are not used again. */
struct set {
    enum batch_on_dead on_dead;
    uint32_t expected;
    bool is_closed, has_ended, is_stopped, is_gone;
    struct batch_counts final; /* after the end of the wait */
};

struct member {
    int set;
    enum batch_outcome outcome;
};

struct job_now {
    enum job_state state; /* 0: no job */
    int member;           /* -1: none */
    int own;              /* its batch; -1: none */
    bool is_asked;        /* to cancel */
    int nacks;
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX + 1];
};

static struct set sets[STEPS + 1];
static struct member members[STEPS + 1];
static struct job_now jobs[JOBS];
static int set_count, member_count;
static struct random luck;

static int below(int bound)
{
    return (int)random_below(&luck, (uint64_t)bound);
}

static const char *topic_of(int at)
{
    return at < WAITING ? "t" : "m";
}

static const char *id_of(int at)
{
    static const char *const ids[JOBS] = {"w0", "w1", "w2", "w3", "a", "b", "c", "d", "e", "f"};
    return ids[at];
}

/* ---- the model ---- */

static bool waits(const struct job_now *job)
{
    return job->state == JOB_DELAYED && job->own >= 0 && !sets[job->own].has_ended;
}

static struct batch_counts counts_of(int set)
{
    struct batch_counts counts = {0};
    if (sets[set].has_ended)
        return sets[set].final;
    for (int i = 0; i < member_count; i++)
        counts.of[members[i].outcome] += members[i].set == set;
    return counts;
}

static void end_wait(int set)
{
    sets[set].final = counts_of(set);
    sets[set].has_ended = true;
    for (int at = 0; at < WAITING; at++)
        if (jobs[at].own == set)
            jobs[at].state = JOB_READY;
}

static void look(int set)
{
    struct batch_counts counts = counts_of(set);
    if (sets[set].expected && batch_members(&counts) >= sets[set].expected)
        sets[set].is_closed = true;
    if (!sets[set].is_gone && !sets[set].has_ended && sets[set].is_closed &&
        batch_waits_for(&counts, sets[set].on_dead) == 0)
        end_wait(set);
}

static void job_ends(struct job_now *job, enum batch_outcome outcome);

static void stop(int set)
{
    if (sets[set].is_stopped)
        return;
    sets[set].is_closed = sets[set].is_stopped = true;
    for (int at = 0; at < JOBS; at++) {
        struct job_now *job = &jobs[at];
        if (job->member < 0 || members[job->member].set != set)
            continue;
        if (job->state == JOB_LEASED)
            job->is_asked = true;
        else if (job->state != JOB_DEAD)
            job_ends(job, BATCH_CANCELLED);
    }
}

static void outcome_is(const struct job_now *job, enum batch_outcome outcome)
{
    if (job->member < 0)
        return;
    int set = members[job->member].set;
    members[job->member].outcome = outcome;
    if (outcome == BATCH_DEAD && sets[set].on_dead == BATCH_STOP && !sets[set].has_ended &&
        !sets[set].is_gone)
        stop(set);
    look(set);
}

static void job_ends(struct job_now *job, enum batch_outcome outcome)
{
    struct job_now ended = *job;
    if (job->own >= 0)
        sets[job->own].is_gone = true;
    *job = (struct job_now){.member = -1, .own = -1};
    outcome_is(&ended, outcome);
}

/* A dead job lives again. That of a stopped batch is an ordinary one. */
static void job_revives(struct job_now *job)
{
    if (job->member >= 0 && sets[members[job->member].set].is_stopped)
        job->member = -1;
    job->nacks = 0;
    outcome_is(job, BATCH_UNFINISHED);
}

static int set_new(enum batch_on_dead on_dead, uint32_t expected)
{
    sets[set_count] = (struct set){.on_dead = on_dead, .expected = expected};
    return set_count++;
}

/* ---- calls ---- */

static const char *called; /* for the report of a difference */

static void expect(enum queue_status status, enum queue_status expected)
{
    if (status != expected)
        fail_msg("%s: %s, expected %s", called, queue_status_code(status),
                 queue_status_code(expected));
}

/* Returns the result of a push by the model: what it makes of the job and its batches. `named`: a set that exists; -1: none. */
static enum queue_status pushed_by_model(int at, const struct queue_push *push, int named,
                                         bool has_parent)
{
    struct job_now *job = &jobs[at];
    bool is_other = named >= 0 && (job->member < 0 || members[job->member].set != named);
    struct life life = life_push(job->state, push->on_conflict, false, false);
    if (life.step == LIFE_STAYS)
        return life.status == QUEUE_EXISTED && is_other ? QUEUE_CONFLICT : life.status;
    if (job->state && waits(job))
        return QUEUE_WAITS;
    if (job->state && is_other)
        return QUEUE_CONFLICT;
    if (!job->state && push->batch && push->batch->topic.len) {
        if (named < 0)
            return QUEUE_NO_BATCH;
        if (sets[named].has_ended || sets[named].is_stopped ||
            (sets[named].is_closed && !has_parent))
            return QUEUE_BATCH_CLOSED;
    }
    bool was_dead = job->state == JOB_DEAD, is_new = !job->state;
    if (job->own >= 0)
        sets[job->own].is_gone = true;
    job->own = push->batch && push->batch->waits
                   ? set_new(push->batch->on_dead, push->batch->members)
                   : -1;
    job->state = push->when.due == QUEUE_DUE_NOW && job->own < 0 ? JOB_READY : JOB_DELAYED;
    job->is_asked = false;
    if (is_new && named >= 0) {
        members[member_count] = (struct member){.set = named};
        job->member = member_count++;
        look(named);
    } else if (was_dead) {
        job_revives(job);
    }
    job->nacks = 0;
    return life.status;
}

/* Finds the batch that a job would join, and sometimes the lease of one of its members. */
static void name_batch(struct queue_batch *batch, int waiting, int *named, bool *has_parent)
{
    batch->topic = slice_of("t");
    batch->id = slice_of(id_of(waiting));
    *named = jobs[waiting].state ? jobs[waiting].own : -1;
    int parent = below(JOBS);
    if (jobs[parent].state != JOB_LEASED || below(4) == 0)
        return;
    batch->parent = slice_of(jobs[parent].lease);
    *has_parent =
        *named >= 0 && jobs[parent].member >= 0 && members[jobs[parent].member].set == *named;
}

static void call_push(void)
{
    static const enum record_conflict conflicts[] = {0, 0, CONFLICT_KEEP, CONFLICT_REJECT};
    int at = below(JOBS), waiting = below(WAITING), named = -1;
    bool has_parent = false;
    struct queue_push push = below(4) ? a_push(id_of(at)) : a_push_in(id_of(at), DELAY_MS);
    struct queue_batch batch = {0};
    push.topic = slice_of(topic_of(at));
    push.on_conflict = conflicts[below(COUNT_OF(conflicts))];
    if (at < WAITING) { /* always a waiting job */
        push.when = (struct queue_when){.due = QUEUE_DUE_NOW};
        batch.waits = true;
        batch.on_dead = (enum batch_on_dead)(BATCH_GO + below(3));
        batch.members = below(3) ? 0 : 1 + (uint32_t)below(3);
    }
    if (waiting != at && below(3) < (at < WAITING ? 1 : 2))
        name_batch(&batch, waiting, &named, &has_parent);
    /* Whether a job is a member of a batch that is gone, or that does not exist, is not specified for a push onto it. */
    bool is_vague =
        batch.topic.len && jobs[at].state &&
        (named < 0 || (jobs[at].member >= 0 && sets[members[jobs[at].member].set].is_gone));
    if (is_vague)
        return;
    if (batch.topic.len || batch.waits)
        push.batch = &batch;
    called = "push";
    enum queue_status status = client_push(&w->client, &push, 1)->results[0].status;
    expect(status, pushed_by_model(at, &push, named, has_parent));
}

static void call_take(void)
{
    int at = below(JOBS);
    struct job_now *job = &jobs[at];
    struct slice topic = slice_of(topic_of(at));
    if (job->state != JOB_READY ||
        (driver_find(w->client.driver->name)->lacks & DRIVER_LACKS_CHOICE))
        return;
    const struct queue_reply *reply =
        client_take(&w->client, &(struct queue_take){.topics = &topic,
                                                     .topic_count = 1,
                                                     .max = 1,
                                                     .lease_ms = LEASE_MS,
                                                     .id = slice_of(id_of(at))});
    called = "take";
    expect(reply->status, QUEUE_OK);
    assert_int_equal(reply->job_count, 1);
    snprintf(job->lease, sizeof job->lease, "%.*s", (int)reply->jobs[0].lease.len,
             reply->jobs[0].lease.at);
    job->state = JOB_LEASED;
}

static void call_answer(void)
{
    struct job_now *job = &jobs[below(JOBS)];
    static const enum queue_verb verbs[] = {QUEUE_ACK, QUEUE_ACK, QUEUE_NACK, QUEUE_RETURN};
    struct queue_answer answer = {
        .verb = verbs[below(COUNT_OF(verbs))], .lease = slice_of(job->lease), .delay_ms = -1};
    if (job->state != JOB_LEASED)
        return;
    answer.final = answer.verb == QUEUE_NACK && (below(2) || job->nacks >= NACKS_MAX);
    if (answer.verb == QUEUE_NACK && !answer.final)
        answer.delay_ms = DELAY_MS;
    enum queue_status status = client_answer(&w->client, &answer, 1)->results[0].status;
    struct life life = life_answer(&answer, job->is_asked);
    called = "answer";
    expect(status, life.status);
    job->nacks += answer.verb == QUEUE_NACK;
    if (life.step == LIFE_ACKED || life.step == LIFE_CANCELLED) {
        job_ends(job, life.step == LIFE_ACKED ? BATCH_ACKED : BATCH_CANCELLED);
    } else if (answer.final) {
        job->state = JOB_DEAD;
        outcome_is(job, BATCH_DEAD);
    } else {
        job->state = answer.verb == QUEUE_NACK ? JOB_DELAYED : JOB_READY;
    }
}

static void call_change(void)
{
    static const enum queue_change_verb verbs[] = {QUEUE_CANCEL, QUEUE_RUN, QUEUE_RUN, QUEUE_CLOSE};
    int at = below(JOBS);
    struct job_now *job = &jobs[at];
    struct queue_change change = {.verb = verbs[below(COUNT_OF(verbs))],
                                  .topic = slice_of(topic_of(at)),
                                  .id = slice_of(id_of(at)),
                                  .priority = QUEUE_PRIORITY_UNSET,
                                  .members = false};
    if (change.verb == QUEUE_CLOSE && at >= WAITING)
        return;
    change.members = change.verb == QUEUE_CANCEL && waits(job) && below(2);
    enum queue_status status = client_change(&w->client, &change, 1)->results[0].status;
    called = change.verb == QUEUE_CANCEL ? "cancel" : change.verb == QUEUE_RUN ? "run" : "close";
    if (change.verb == QUEUE_CLOSE) {
        expect(status, job->state ? QUEUE_OK : QUEUE_NOT_FOUND);
        if (job->state && !sets[job->own].is_closed) {
            sets[job->own].is_closed = true;
            look(job->own);
        }
        return;
    }
    struct life life = life_change(&change, job->state, 0, 0);
    expect(status, life.status);
    if (life.step == LIFE_CANCELLED) {
        int own = job->own;
        bool is_stop = change.members;
        job_ends(job, BATCH_CANCELLED);
        if (is_stop)
            stop(own);
    } else if (life.step == LIFE_MOVED && waits(job)) {
        end_wait(job->own);
    } else if (life.step == LIFE_MOVED) {
        job->state = JOB_READY;
    }
}

/* Redrives a dead job, or purges or deletes a topic. */
static void call_topic(void)
{
    int at = below(JOBS), kind = below(8);
    struct queue_topic_call call = {.verb = kind == 0   ? QUEUE_TOPIC_DELETE
                                            : kind == 1 ? QUEUE_TOPIC_PURGE
                                                        : QUEUE_TOPIC_REDRIVE,
                                    .topic = slice_of(topic_of(at))};
    bool redrives = call.verb == QUEUE_TOPIC_REDRIVE;
    if (redrives && jobs[at].state != JOB_DEAD)
        return;
    if (redrives)
        call.id = slice_of(id_of(at));
    (void)client_topic(&w->client, &call);
    for (int i = 0; i < JOBS; i++) {
        struct job_now *job = &jobs[i];
        if (!job->state || topic_of(i) != topic_of(at) || (redrives && i != at))
            continue;
        if (redrives) {
            job->state = JOB_READY;
            job_revives(job);
        } else if (call.verb == QUEUE_TOPIC_DELETE || job->state != JOB_LEASED) {
            job_ends(job, BATCH_CANCELLED);
        }
    }
}

/* ---- comparing ---- */

/* Returns why the job differs from the model; NULL: it does not. */
static const char *difference(int at)
{
    const struct job_now *job = &jobs[at];
    const struct queue_reply *reply =
        client_get(&w->client, slice_of(topic_of(at)), slice_of(id_of(at)));
    const struct queue_job *shown = reply->job_count ? &reply->jobs[0] : NULL;
    if ((shown ? shown->job.state : 0) != job->state)
        return "state";
    if (!shown)
        return NULL;
    if (job->state == JOB_LEASED && shown->job.cancel_requested != job->is_asked)
        return "request to cancel";
    if (!shown->waiting != (job->own < 0))
        return "batch";
    if (job->own < 0)
        return NULL;
    const struct set *set = &sets[job->own];
    struct batch_counts counts = counts_of(job->own);
    if (shown->waiting->is_closed != set->is_closed && !set->has_ended)
        return "close";
    if (shown->waiting->has_ended != set->has_ended)
        return "end of the wait";
    return memcmp(&counts, &shown->waiting->counts, sizeof counts) ? "counts" : NULL;
}

/* With several shards, a stop and an expiry reach the others a moment later. */
static void compare(void)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;
    for (int at = 0; at < JOBS; at++) {
        const char *what = difference(at);
        while (what && w->client.driver->shards > 1 && clock_boot_us() < until_us) {
            driver_rest();
            what = difference(at);
        }
        if (what)
            fail_msg("after %s: %s of %s, expected state %d", called, what, id_of(at),
                     (int)jobs[at].state);
    }
}

static void run_one(uint64_t seed)
{
    luck = (struct random){seed};
    set_count = member_count = 0;
    for (int at = 0; at < JOBS; at++)
        jobs[at] = (struct job_now){.member = -1, .own = -1};
    for (int i = 0; i < STEPS; i++) {
        switch (below(CALLS_MAX)) {
        case 0:
            call_topic();
            break;
        case 1:
        case 2:
            call_change();
            break;
        case 3:
            if (below(4) == 0) {
                client_begin(&w->client);
                assert_true(client_reopen(&w->client));
            }
            break;
        case 4:
        case 5:
        case 6:
        case 7:
            call_answer();
            break;
        case 8:
        case 9:
        case 10:
        case 11:
            call_take();
            break;
        default:
            call_push();
        }
        compare();
    }
}

static void random_calls_match_the_model_of_batches(void **state)
{
    if (!w->client.driver->batches)
        skip();
    const char *given = getenv("TARRY_TEST_SEED"), *runs = getenv("TARRY_TEST_RUNS");
    uint64_t seed = given ? strtoull(given, NULL, 0) : random_u64();
    uint64_t count = runs ? strtoull(runs, NULL, 0) : repetitions(RUNS, 1);
    for (uint64_t i = 0; i < count; i++, seed++) {
        printf("batches: TARRY_TEST_SEED=%" PRIu64 " TARRY_TEST_RUNS=1\n", seed);
        fflush(stdout);
        run_one(seed);
        (void)directed_end(state);
        (void)directed_begin(state);
    }
}

const struct CMUnitTest random_batches[] = {CLAIM(random_calls_match_the_model_of_batches)};
