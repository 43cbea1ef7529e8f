/* Commands for all of a topic. Each of its jobs may have gone along already, or not yet. */
#include "oracle.h"

#include <assert.h>

static bool is_purged(const struct oracle_topic *topic, const struct guess *guess)
{
    if (topic->verb == QUEUE_TOPIC_DELETE)
        return guess->state != GUESS_ABSENT;
    if (guess->state == GUESS_DEAD)
        return !topic->state || topic->state == JOB_DEAD;
    return guess->state == GUESS_WAITING && topic->state != JOB_DEAD;
}

/* Delayed or ready: that is by the clock, which has gone on since. */
static bool is_surely_purged(const struct oracle_topic *topic, const struct guess *guess)
{
    return topic->verb == QUEUE_TOPIC_DELETE || guess->state != GUESS_WAITING || !topic->state;
}

static void add_both(struct oracle *oracle, struct oracle_job *job, uint32_t topic)
{
    const struct oracle_topic *of = &oracle->topics[topic];

    oracle_grow(oracle, job, topic);
    for (uint32_t i = 0, count = job->count; i < count; i++) {
        struct guess next = job->guesses[i];

        if (next.until != UINT32_MAX || next.op)
            continue;
        if (of->verb == QUEUE_TOPIC_REDRIVE && next.state == GUESS_DEAD) {
            next.state = GUESS_WAITING;
            next.attempt = 0;
            next.is_wall = false;
            next.due_least = next.first_ms = of->since_ms;
            next.due_most = INT64_MAX / 4;
        } else if (of->verb != QUEUE_TOPIC_REDRIVE && is_purged(of, &next)) {
            next = (struct guess){.state = GUESS_ABSENT, .until = UINT32_MAX};
        } else {
            continue;
        }
        next.op = UINT8_MAX; /* by the topic's command */
        next.by_time = false;
        next.grown = 0;
        oracle_add(oracle, job, &next);
    }
}

void oracle_topic_begin(struct oracle *oracle, uint32_t topic, enum queue_topic_verb verb,
                        enum job_state state, uint8_t row)
{
    struct oracle_topic *of = &oracle->topics[topic];

    assert(!of->verb && !of->commands);
    for (uint32_t id = 0; id < ORACLE_IDS; id++)
        oracle_grow(oracle, &oracle->jobs[topic][id], topic);
    of->verb = verb;
    of->since_ms = oracle->now_ms;
    of->state = state;
    of->row_wanted = row;
    oracle->event++;
    oracle_topic_grow(oracle, topic);
}

void oracle_topic_grow(struct oracle *oracle, uint32_t topic)
{
    enum queue_topic_verb verb = oracle->topics[topic].verb;

    if (verb == QUEUE_TOPIC_PURGE || verb == QUEUE_TOPIC_DELETE || verb == QUEUE_TOPIC_REDRIVE)
        for (uint32_t id = 0; id < ORACLE_IDS; id++)
            add_both(oracle, &oracle->jobs[topic][id], topic);
}

static bool goes_along(const struct oracle_topic *of, const struct guess *guess)
{
    if (guess->until != UINT32_MAX || guess->by_time)
        return false;
    if (of->verb == QUEUE_TOPIC_REDRIVE)
        return guess->state == GUESS_DEAD;
    return (of->verb == QUEUE_TOPIC_PURGE || of->verb == QUEUE_TOPIC_DELETE) &&
           is_purged(of, guess) && is_surely_purged(of, guess);
}

/* Settles a job that the topic's command included, unless the clock may have moved it out of the way. */
static void settle(struct oracle *oracle, struct oracle_job *job, uint32_t topic, bool done)
{
    for (uint32_t i = job->count; i-- > 0;) {
        struct guess *guess = &job->guesses[i];
        bool goes = guess->op ? !done : done && goes_along(&oracle->topics[topic], guess);

        guess->op = 0;
        if (goes && job->count > 1)
            *guess = job->guesses[--job->count];
    }
}

void oracle_topic_end(struct oracle *oracle, uint32_t topic, enum queue_status status)
{
    struct oracle_topic *of = &oracle->topics[topic];
    bool done = status == QUEUE_OK || status == QUEUE_CREATED;
    bool allowed =
        done || status == QUEUE_STOPPING || (status == QUEUE_NOT_FOUND && of->may_be_unknown) ||
        (status == QUEUE_NO_MEMORY && oracle->lenient) ||
        (status == QUEUE_NO_SPACE && oracle->full) ||
        (status == QUEUE_UNAVAILABLE && (oracle->broken || oracle->fileless || oracle->lenient));

    if (!allowed)
        oracle_violation(oracle, "what an answer may be", topic, UINT32_MAX,
                         "topic command %d was answered %d", (int)of->verb, (int)status);
    if (status == QUEUE_UNAVAILABLE)
        return; /* unknown until it has come back: the command stays in progress */
    oracle_topic_grow(oracle, topic); /* what time has brought within reach meanwhile */
    for (uint32_t id = 0; id < ORACLE_IDS; id++)
        settle(oracle, &oracle->jobs[topic][id], topic, done);
    if (done && of->verb == QUEUE_TOPIC_PUT)
        of->row = of->row_wanted;
    if (done && (of->verb == QUEUE_TOPIC_PAUSE || of->verb == QUEUE_TOPIC_RESUME))
        of->paused = of->verb == QUEUE_TOPIC_PAUSE;
    if (done)
        of->may_be_unknown = of->verb == QUEUE_TOPIC_DELETE;
    if (done && of->verb == QUEUE_TOPIC_DELETE) {
        of->row = 0;
        of->paused = false;
        of->pushed_least = of->pushed_most = 0;
    }
    /* Jobs due just before may be noticed only now, by the new settings. */
    for (uint32_t id = 0; done && of->verb == QUEUE_TOPIC_PUT && id < ORACLE_IDS; id++)
        for (uint32_t i = 0; i < oracle->jobs[topic][id].count; i++)
            oracle->jobs[topic][id].guesses[i].grown = 0;
    of->verb = 0;
    oracle->event++;
}
