/* Guesses: made, ruled out, brought back by a power cut. */
#include "oracle.h"
#include "sim.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- violations ---- */

static void show_guess(const struct guess *guess)
{
    static const char *const names[GUESS_STATES] = {"?",      "absent", "waiting",
                                                    "leased", "dead",   "remembered"};

    printf("    %s serial %u attempt %u priority %u error %u delivery %llu due %lld..%lld%s "
           "first %lld end %lld..%lld until %d op %u%s\n",
           names[guess->state], guess->serial, guess->attempt, guess->priority, guess->error,
           (unsigned long long)guess->delivery, (long long)guess->due_least,
           (long long)guess->due_most, guess->is_wall ? " wall" : "", (long long)guess->first_ms,
           (long long)guess->end_least, (long long)guess->end_most, (int)guess->until, guess->op,
           guess->by_time ? " by time" : "");
}

void oracle_violation(struct oracle *oracle, const char *rule, uint32_t topic, uint32_t id,
                      const char *format, ...)
{
    va_list arguments;

    oracle->violations++;
    sim_report();
    printf("VIOLATION of %s, now %lld, skew %lld, event %u: ", rule, (long long)oracle->now_ms,
           (long long)oracle->skew_ms, oracle->event);
    if (topic < ORACLE_TOPICS)
        printf("%s", oracle_topic_name(topic));
    if (id < ORACLE_IDS)
        printf("/j%u", id);
    printf(": ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    if (topic < ORACLE_TOPICS && id < ORACLE_IDS)
        for (uint32_t i = 0; i < oracle->jobs[topic][id].count; i++)
            show_guess(&oracle->jobs[topic][id].guesses[i]);
    fflush(stdout);
}

/* ---- life ---- */

void oracle_init(struct oracle *oracle)
{
    *oracle = (struct oracle){.event = 1};
    for (uint32_t t = 0; t < ORACLE_TOPICS; t++) {
        oracle->topics[t].may_be_unknown = true;
        for (uint32_t i = 0; i < ORACLE_IDS; i++) {
            oracle->jobs[t][i].count = 1;
            oracle->jobs[t][i].guesses[0] =
                (struct guess){.state = GUESS_ABSENT, .until = UINT32_MAX};
        }
    }
}

/* Copies only the guesses in use. */
void oracle_copy(struct oracle *to, const struct oracle *from)
{
    memcpy(to, from, offsetof(struct oracle, jobs));
    for (uint32_t t = 0; t < ORACLE_TOPICS; t++)
        for (uint32_t i = 0; i < ORACLE_IDS; i++)
            memcpy(&to->jobs[t][i], &from->jobs[t][i],
                   offsetof(struct oracle_job, guesses) +
                       from->jobs[t][i].count * sizeof(struct guess));
}

void oracle_tick(struct oracle *oracle, int64_t now_ms, int64_t wall_ms)
{
    oracle->now_ms = now_ms;
    oracle->skew_ms = wall_ms - now_ms;
}

/* ---- guesses ---- */

static bool is_same(const struct guess *a, const struct guess *b)
{
    return a->state == b->state && a->op == b->op && a->status == b->status &&
           a->is_wall == b->is_wall && a->priority == b->priority && a->attempt == b->attempt &&
           a->serial == b->serial && a->error == b->error && a->delivery == b->delivery &&
           a->due_least == b->due_least && a->due_most == b->due_most &&
           a->first_ms == b->first_ms && a->end_least == b->end_least && a->end_most == b->end_most;
}

struct guess *oracle_add(struct oracle *oracle, struct oracle_job *job, const struct guess *guess)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (is_same(&job->guesses[i], guess)) {
            if (guess->until > job->guesses[i].until) {
                job->guesses[i].until = guess->until;
                job->guesses[i].grown = 0;
            }
            return &job->guesses[i];
        }
    if (job->count == ORACLE_GUESSES) {
        for (uint32_t i = 0; i < job->count; i++)
            show_guess(&job->guesses[i]);
        oracle_violation(oracle, "the oracle's own limits", UINT32_MAX, UINT32_MAX,
                         "too many guesses about one job");
        job->count--;
    }
    job->guesses[job->count] = *guess;
    job->guesses[job->count].made_ms = oracle->now_ms;
    return &job->guesses[job->count++];
}

static void drop(struct oracle_job *job, uint32_t i)
{
    job->guesses[i] = job->guesses[--job->count];
}

static void add_derived(struct oracle *oracle, struct oracle_job *job, const struct guess *from,
                        struct guess next)
{
    next.until = UINT32_MAX;
    next.op = from->op;
    next.status = from->status;
    next.by_time = true;
    next.grown = 0;
    oracle_add(oracle, job, &next);
}

static void end_lease(struct oracle *oracle, struct oracle_job *job,
                      const struct oracle_topic *topic, uint32_t i)
{
    struct guess from = job->guesses[i];

    job->guesses[i].grown |= GROWN_BY_END;
    add_derived(
        oracle, job, &from,
        oracle_failed(oracle, &from, topic->row, from.end_least, -1, false, ERROR_LEASE_ENDED));
    if (topic->verb == QUEUE_TOPIC_PUT)
        add_derived(oracle, job, &from,
                    oracle_failed(oracle, &from, topic->row_wanted, from.end_least, -1, false,
                                  ERROR_LEASE_ENDED));
}

static void expire(struct oracle *oracle, struct oracle_job *job, const struct oracle_topic *topic,
                   uint32_t i)
{
    struct guess from = job->guesses[i];
    uint8_t some[2] = {topic->row, topic->verb == QUEUE_TOPIC_PUT ? topic->row_wanted : topic->row};

    job->guesses[i].grown |= GROWN_BY_TTL;
    for (int k = 0; k < 2; k++) {
        struct guess next = from;

        next.state = GUESS_DEAD;
        next.error = ERROR_EXPIRED;
        if (!oracle_settings(some[k]).dead_letter_expired)
            next = oracle_finished(oracle, some[k], from.first_ms);
        if (next.state == GUESS_REMEMBERED)
            next.end_most = INT64_MAX / 4; /* however late it came to notice */
        add_derived(oracle, job, &from, next);
    }
}

static bool has_expired(const struct oracle *oracle, const struct guess *guess)
{
    static struct cargo cargo;
    int64_t first_ms = guess->is_wall ? guess->first_ms - oracle->skew_ms : guess->first_ms;

    oracle_cargo(guess->serial, &cargo);
    return cargo.policy.ttl_ms && first_ms + cargo.policy.ttl_ms <= oracle->now_ms &&
           (guess->is_wall || guess->due_least <= oracle->now_ms);
}

static void apply_op(struct oracle *oracle, struct oracle_job *job, uint32_t i)
{
    struct outcome outcomes[3];
    size_t count = oracle_outcomes(oracle, &oracle->ops[job->op - 1], &job->guesses[i], outcomes);

    job->guesses[i].grown |= GROWN_BY_OP;
    for (size_t k = 0; k < count; k++) {
        struct guess next = outcomes[k].guess;

        if (!outcomes[k].changes)
            continue;
        next.until = UINT32_MAX;
        next.op = job->op;
        next.status = (uint8_t)outcomes[k].status;
        next.by_time = false;
        next.grown = 0;
        oracle_add(oracle, job, &next);
    }
}

void oracle_grow(struct oracle *oracle, struct oracle_job *job, uint32_t topic)
{
    const struct oracle_topic *of = &oracle->topics[topic];

    for (uint32_t i = 0; i < job->count; i++) {
        const struct guess *guess = &job->guesses[i];

        if (guess->until == UINT32_MAX && guess->state == GUESS_LEASED &&
            !(guess->grown & GROWN_BY_END) && guess->end_least <= oracle->now_ms)
            end_lease(oracle, job, of, i);
        if (guess->until == UINT32_MAX && guess->state == GUESS_WAITING &&
            !(guess->grown & GROWN_BY_TTL) && has_expired(oracle, guess))
            expire(oracle, job, of, i);
        if (job->op && !guess->op && !(guess->grown & GROWN_BY_OP) &&
            guess->until > oracle->ops[job->op - 1].since)
            apply_op(oracle, job, i);
    }
}

/* ---- commands that name one job ---- */

static struct oracle_job *job_of(struct oracle *oracle, const struct op *op)
{
    return &oracle->jobs[op->topic][op->id];
}

uint32_t oracle_begin(struct oracle *oracle, const struct op *op)
{
    uint32_t i = 0;
    struct oracle_job *job = job_of(oracle, op);

    assert(!job->op && !oracle->topics[op->topic].verb);
    oracle_grow(oracle, job, op->topic);
    while (oracle->ops[i].kind)
        i++;
    assert(i < ORACLE_OPS);
    oracle->ops[i] = *op;
    oracle->ops[i].since = oracle->event++;
    oracle->topics[op->topic].commands++;
    job->op = (uint8_t)(i + 1);
    for (uint32_t k = 0; k < job->count; k++)
        job->guesses[k].grown &= (uint8_t)~GROWN_BY_OP;
    return i;
}

static void forget_op(struct oracle *oracle, uint32_t i)
{
    struct op *op = &oracle->ops[i];

    job_of(oracle, op)->op = 0;
    oracle->topics[op->topic].commands--;
    op->kind = 0;
    oracle->event++;
}

static bool has_changed(enum queue_status status)
{
    return status == QUEUE_OK || status == QUEUE_CREATED || status == QUEUE_REPLACED ||
           status == QUEUE_CANCELLED;
}

/* Returns true if the result is possible, and pins it. */
static bool pin(const struct oracle *oracle, const struct op *op, struct guess *guess,
                const struct queue_result *result)
{
    int64_t due_ms = result->due_ms - (guess->is_wall ? 0 : oracle->skew_ms);
    int64_t end_ms = result->lease_until_ms - oracle->skew_ms;
    int64_t since_ms = oracle->now_ms - guess->made_ms;

    if (guess->by_time)
        return true;
    if (guess->state == GUESS_WAITING && result->due_ms) {
        if (due_ms < guess->due_least || due_ms > guess->due_most + since_ms)
            return false;
        if (guess->first_ms == guess->due_least)
            guess->first_ms = due_ms;
        guess->due_least = guess->due_most = due_ms;
    }
    if (op->kind == OP_EXTEND && guess->state == GUESS_LEASED && result->lease_until_ms) {
        if (end_ms < guess->end_least || end_ms > guess->end_most + since_ms)
            return false;
        guess->end_least = guess->end_most = end_ms;
    }
    return true;
}

static void end_changed(struct oracle *oracle, uint32_t number, const struct queue_result *result)
{
    const struct op *op = &oracle->ops[number];
    struct oracle_job *job = job_of(oracle, op);
    uint32_t matching = 0;

    bool fits[ORACLE_GUESSES] = {false};

    for (uint32_t i = 0; i < job->count; i++) {
        fits[i] = job->guesses[i].op && job->guesses[i].status == (uint8_t)result->status &&
                  pin(oracle, op, &job->guesses[i], result);
        matching += fits[i];
    }
    if (!matching) {
        oracle_violation(oracle, "what an answer may be", op->topic, op->id,
                         "command %d was answered %d, due %lld, lease until %lld", (int)op->kind,
                         (int)result->status, (long long)(result->due_ms - oracle->skew_ms),
                         (long long)(result->lease_until_ms - oracle->skew_ms));
        return;
    }
    for (uint32_t i = job->count; i-- > 0;) {
        struct guess *guess = &job->guesses[i];

        if (!fits[i]) {
            drop(job, i);
            continue;
        }
        guess->op = guess->status = 0;
        guess->grown &= (uint8_t)~GROWN_BY_OP;
    }
    if (op->kind == OP_PUSH && result->status == QUEUE_CREATED) {
        oracle->topics[op->topic].pushed_least++;
        oracle->topics[op->topic].pushed_most++;
    }
    if (op->kind == OP_PUSH)
        oracle->topics[op->topic].may_be_unknown = false;
}

static bool is_explained(const struct oracle *oracle, const struct op *op,
                         const struct oracle_job *job, enum queue_status status)
{
    const struct oracle_topic *topic = &oracle->topics[op->topic];
    struct outcome outcomes[3];

    if (status == QUEUE_STOPPING || (status == QUEUE_NO_MEMORY && oracle->lenient) ||
        (status == QUEUE_UNAVAILABLE && (oracle->broken || oracle->fileless || oracle->lenient)) ||
        (status == QUEUE_NO_SPACE && oracle->full))
        return true;
    if (status == QUEUE_LEASED && (topic->takes || topic->took >= op->since))
        return true;
    for (uint32_t i = 0; i < job->count; i++) {
        size_t count = 0;

        if (!job->guesses[i].op && job->guesses[i].until > op->since)
            count = oracle_outcomes(oracle, op, &job->guesses[i], outcomes);
        for (size_t k = 0; k < count; k++)
            if (!outcomes[k].changes && outcomes[k].status == status)
                return true;
    }
    return false;
}

/* Ends a refused command; after a failed log its effect is unknown: it may have been stored. */
static void end_refused(struct oracle *oracle, uint32_t number, enum queue_status status)
{
    const struct op *op = &oracle->ops[number];
    struct oracle_job *job = job_of(oracle, op);

    if (!is_explained(oracle, op, job, status))
        oracle_violation(oracle, "what a refusal may be", op->topic, op->id,
                         "command %d was answered %d", (int)op->kind, (int)status);
    for (uint32_t i = job->count; i-- > 0;) {
        if (!job->guesses[i].op)
            continue;
        if (status == QUEUE_UNAVAILABLE)
            job->guesses[i].op = job->guesses[i].status = 0;
        else
            drop(job, i);
    }
    if (status == QUEUE_UNAVAILABLE && op->kind == OP_PUSH)
        oracle->topics[op->topic].pushed_most++;
}

void oracle_end(struct oracle *oracle, uint32_t number, const struct queue_result *result)
{
    const struct op *op = &oracle->ops[number];

    oracle_grow(oracle, job_of(oracle, op), op->topic);
    if (has_changed(result->status))
        end_changed(oracle, number, result);
    else
        end_refused(oracle, number, result->status);
    forget_op(oracle, number);
}

void oracle_refused(struct oracle *oracle, uint32_t number, enum queue_status status)
{
    const struct queue_result result = {.status = status};

    oracle_end(oracle, number, &result);
}

void oracle_durable(struct oracle *oracle, uint32_t event)
{
    for (uint32_t t = 0; t < ORACLE_TOPICS; t++)
        for (uint32_t k = 0; k < ORACLE_IDS; k++) {
            struct oracle_job *job = &oracle->jobs[t][k];

            for (uint32_t i = job->count; job->count > 1 && i-- > 0;)
                if (job->guesses[i].until <= event)
                    drop(job, i);
        }
}
