/* Looks at jobs, and the state after a power cut. */
#include "oracle.h"

#include <stdio.h>

/* ---- one job as it is shown ---- */

/* Returns the serial number of a pushed body, compared to the byte; 0: this was never pushed. */
static uint32_t serial_of(struct oracle *oracle, const struct job *job, uint32_t topic, uint32_t id)
{
    static struct cargo cargo;
    char digits[9] = "";
    uint32_t serial = 0;

    if (job->body.len >= 9)
        memcpy(digits, job->body.at, 8);
    if (sscanf(digits, "%8u", &serial) == 1)
        oracle_cargo(serial, &cargo);
    if (!serial || !slice_equals(job->body, slice_make(cargo.body, cargo.body_bytes)) ||
        !slice_equals(job->meta, slice_make(cargo.meta, cargo.meta_bytes)) ||
        !slice_is(job->content_type, cargo.content_type)) {
        oracle_violation(oracle, "P: to the byte", topic, id, "a body of %zu bytes, serial %u",
                         job->body.len, serial);
        return 0;
    }
    return serial;
}

static bool is_in(int64_t ms, int64_t least, int64_t most)
{
    return ms >= least && ms <= most;
}

static const char *mismatch(const struct oracle *oracle, const struct guess *guess,
                            const struct job *job, uint32_t serial)
{
    int64_t due_ms = job->due_ms - (guess->is_wall ? 0 : oracle->skew_ms);
    char error[32];

    if (serial != guess->serial)
        return "body";
    if (job->attempt != guess->attempt)
        return "attempt";
    if (job->priority != guess->priority)
        return "priority";
    oracle_error_text(guess->error, error);
    if (!oracle->lenient && !slice_is(job->error, error))
        return "error";
    switch (job->state) {
    case JOB_DELAYED:
    case JOB_READY:
        if (guess->state != GUESS_WAITING)
            return "state";
        if (!is_in(due_ms, guess->due_least, guess->due_most))
            return "due";
        if (job->state == JOB_READY &&
            due_ms > oracle->now_ms + (guess->is_wall ? oracle->skew_ms : 0))
            return "never early";
        return NULL;
    case JOB_LEASED:
        if (guess->state != GUESS_LEASED || (guess->delivery && guess->delivery != job->delivery))
            return "state";
        if (!is_in(job->lease_until_ms - oracle->skew_ms, guess->end_least, guess->end_most))
            return "lease";
        return NULL;
    case JOB_DEAD:
        return guess->state == GUESS_DEAD ? NULL : "state";
    case JOB_FINISHED:
        break;
    }
    return "a state that is never shown";
}

static void pin(const struct oracle *oracle, struct guess *guess, const struct job *job)
{
    guess->grown &= GROWN_BY_OP; /* what time was thought to have done it may still do */
    if (guess->state == GUESS_WAITING)
        guess->due_least = guess->due_most = job->due_ms - (guess->is_wall ? 0 : oracle->skew_ms);
    if (guess->state == GUESS_LEASED) {
        guess->end_least = guess->end_most = job->lease_until_ms - oracle->skew_ms;
        guess->delivery = job->delivery;
    }
}

/* Rules out guesses by `fits`. A guess that does not fit has ended; if all seen states are durable it is
 * gone permanently, except one from which only time may have moved on. */
static void rule_out(struct oracle *oracle, struct oracle_job *job, const bool *fits, bool for_good)
{
    bool by_time = false, current = false;

    for (uint32_t i = 0; i < job->count; i++) {
        by_time |= fits[i] && job->guesses[i].by_time;
        current |= fits[i] && job->guesses[i].until == UINT32_MAX;
    }
    /* A look at the past; or the command in progress may have happened, or not yet. */
    if (!current || job->op)
        return;
    for (uint32_t i = job->count; i-- > 0;) {
        if (fits[i])
            continue;
        if (for_good && !by_time)
            job->guesses[i] = job->guesses[--job->count];
        else if (job->guesses[i].until == UINT32_MAX)
            job->guesses[i].until = oracle->event;
    }
}

static void see(struct oracle *oracle, uint32_t topic, uint32_t id, const struct job *job,
                uint32_t since, bool for_good)
{
    struct oracle_job *checked = &oracle->jobs[topic][id];
    bool fits[ORACLE_GUESSES] = {false}, any = false;
    const char *why = "nothing fits";
    uint32_t serial = serial_of(oracle, job, topic, id);

    if (!serial)
        return;
    oracle_grow(oracle, checked, topic);
    for (uint32_t i = 0; i < checked->count; i++) {
        const char *reason = checked->guesses[i].until > since
                                 ? mismatch(oracle, &checked->guesses[i], job, serial)
                                 : "past";
        fits[i] = !reason;
        any |= fits[i];
        if (reason && strcmp(reason, "state") != 0 && strcmp(reason, "past") != 0)
            why = reason;
    }
    if (!any) {
        oracle_violation(oracle, "what a job may be", topic, id,
                         "%s: seen %s, serial %u, attempt %u, priority %u, due %lld, lease %lld, "
                         "delivery %llu, error '%.*s'",
                         why, job_state_name(job->state), serial, job->attempt, job->priority,
                         (long long)(job->due_ms - oracle->skew_ms),
                         (long long)(job->lease_until_ms - oracle->skew_ms),
                         (unsigned long long)job->delivery, (int)job->error.len,
                         job->error.len ? job->error.at : "");
        return;
    }
    for (uint32_t i = 0; i < checked->count; i++)
        if (fits[i])
            pin(oracle, &checked->guesses[i], job);
    rule_out(oracle, checked, fits, for_good);
    oracle->event++;
}

static bool is_nothing(const struct guess *guess)
{
    return guess->state == GUESS_ABSENT || guess->state == GUESS_REMEMBERED;
}

static void see_nothing(struct oracle *oracle, uint32_t topic, uint32_t id, uint32_t since,
                        bool for_good)
{
    struct oracle_job *checked = &oracle->jobs[topic][id];
    bool fits[ORACLE_GUESSES] = {false}, any = false;

    oracle_grow(oracle, checked, topic);
    for (uint32_t i = 0; i < checked->count; i++) {
        fits[i] = checked->guesses[i].until > since && is_nothing(&checked->guesses[i]);
        any |= fits[i];
    }
    if (!any) {
        oracle_violation(oracle, "L: no loss", topic, id, "it is not there");
        return;
    }
    rule_out(oracle, checked, fits, for_good);
    oracle->event++;
}

void oracle_got(struct oracle *oracle, uint32_t topic, uint32_t id, const struct queue_job *job,
                uint32_t since)
{
    if (job)
        see(oracle, topic, id, &job->job, since, false);
    else
        see_nothing(oracle, topic, id, since, false);
}

/* ---- taken ---- */

static struct guess leased(const struct guess *from, const struct oracle *oracle, int64_t since_ms,
                           int64_t lease_ms, uint64_t delivery)
{
    struct guess next = *from;

    next.state = GUESS_LEASED;
    next.attempt++;
    next.delivery = delivery;
    next.until = UINT32_MAX;
    next.by_time = false;
    next.grown = 0;
    next.end_least = since_ms + lease_ms;
    next.end_most = oracle->now_ms + 1 + lease_ms;
    return next;
}

/* Returns the lease: 0 means the job's, the topic's, the default. */
static int64_t lease_of(const struct oracle *oracle, const struct guess *guess, uint32_t topic,
                        int64_t lease_ms)
{
    static struct cargo cargo;
    struct topic_settings settings = oracle_settings(oracle->topics[topic].row);

    oracle_cargo(guess->serial, &cargo);
    return lease_ms ? lease_ms : policy_resolve(&cargo.policy, &settings.policy).lease_ms;
}

void oracle_taken(struct oracle *oracle, const struct queue_job *taken, uint32_t since,
                  int64_t since_ms, int64_t lease_ms)
{
    uint32_t topic, id, serial, fit = 0;
    struct oracle_job *checked;
    struct job before = taken->job;

    if (!oracle_find(before.topic, before.id, &topic, &id)) {
        oracle_violation(oracle, "P: no phantom", UINT32_MAX, UINT32_MAX, "a job nobody pushed");
        return;
    }
    checked = &oracle->jobs[topic][id];
    serial = serial_of(oracle, &before, topic, id);
    if (oracle->topics[topic].paused)
        oracle_violation(oracle, "paused", topic, id, "taken");
    if (before.delivery <= checked->delivery)
        oracle_violation(oracle, "F: delivery rises", topic, id, "%llu after %llu",
                         (unsigned long long)before.delivery,
                         (unsigned long long)checked->delivery);
    checked->delivery = before.delivery;
    oracle->redelivered += before.attempt > 1;
    before.state = JOB_READY;
    before.attempt--;
    oracle_grow(oracle, checked, topic);
    for (uint32_t i = 0, count = checked->count; i < count; i++) {
        struct guess *guess = &checked->guesses[i], next;
        uint32_t was_until = guess->until;

        if (was_until <= since || mismatch(oracle, guess, &before, serial))
            continue;
        fit++;
        next = leased(guess, oracle, since_ms, lease_of(oracle, guess, topic, lease_ms),
                      before.delivery);
        pin(oracle, guess, &before);
        next.due_least = guess->due_least;
        next.due_most = guess->due_most;
        if (!is_in(before.lease_until_ms - oracle->skew_ms, next.end_least, next.end_most))
            oracle_violation(oracle, "X: the lease's end", topic, id, "%lld",
                             (long long)(before.lease_until_ms - oracle->skew_ms));
        next.end_least = next.end_most = before.lease_until_ms - oracle->skew_ms;
        oracle_add(oracle, checked, &next);
    }
    if (!fit)
        oracle_violation(oracle, "E, A, X, N: what may be taken", topic, id,
                         "serial %u, attempt %u, priority %u, due %lld, error '%.*s'", serial,
                         before.attempt + 1, before.priority,
                         (long long)(before.due_ms - oracle->skew_ms), (int)before.error.len,
                         before.error.len ? before.error.at : "");
    for (uint32_t i = 0; i < checked->count; i++) {
        struct guess *guess = &checked->guesses[i];

        if (guess->until == UINT32_MAX &&
            !(guess->state == GUESS_LEASED && guess->delivery == before.delivery))
            guess->until = oracle->event;
    }
    memcpy(checked->lease, taken->lease.at, taken->lease.len);
    checked->lease[taken->lease.len] = '\0';
    checked->lease_delivery = before.delivery;
    oracle->topics[topic].took = ++oracle->event;
}

void oracle_take_lost(struct oracle *oracle, uint32_t topic, int64_t since_ms, int64_t lease_ms)
{
    for (uint32_t id = 0; id < ORACLE_IDS; id++) {
        struct oracle_job *checked = &oracle->jobs[topic][id];

        oracle_grow(oracle, checked, topic);
        for (uint32_t i = 0, count = checked->count; i < count; i++) {
            struct guess *guess = &checked->guesses[i], next;

            if (guess->until != UINT32_MAX || guess->state != GUESS_WAITING ||
                guess->due_least > oracle->now_ms + (guess->is_wall ? oracle->skew_ms : 0))
                continue;
            next = leased(guess, oracle, since_ms, lease_of(oracle, guess, topic, lease_ms), 0);
            oracle_add(oracle, checked, &next);
        }
    }
}

/* ---- everything ---- */

void oracle_see(struct oracle *oracle, struct look *look, const struct queue_job *job)
{
    uint32_t topic, id;

    if (!oracle_find(job->job.topic, job->job.id, &topic, &id)) {
        oracle_violation(oracle, "P: no phantom", UINT32_MAX, UINT32_MAX, "a job nobody pushed");
        return;
    }
    if (look->found[topic][id])
        oracle_violation(oracle, "I: one job", topic, id, "listed twice");
    look->found[topic][id] = true;
    look->waiting[topic] += job->job.state == JOB_DELAYED || job->job.state == JOB_READY;
    look->leased[topic] += job->job.state == JOB_LEASED;
    look->dead[topic] += job->job.state == JOB_DEAD;
    see(oracle, topic, id, &job->job, look->recovered ? 0 : oracle->event - 1, look->recovered);
}

static void check_counts(struct oracle *oracle, const struct look *look, uint32_t t,
                         const struct queue_topic *topic)
{
    const struct queue_counts *counts = &topic->counts;
    const struct topic_totals *totals = &topic->totals;
    struct oracle_topic *checked = &oracle->topics[t];
    uint64_t waiting = counts->delayed + counts->retrying + counts->ready;
    uint64_t ended = totals->acked + totals->cancelled + totals->expired;

    if (waiting != look->waiting[t] || counts->leased != look->leased[t] ||
        counts->dead != look->dead[t])
        oracle_violation(oracle, "C: counts are what is listed", t, UINT32_MAX,
                         "counts %llu+%llu+%llu, %llu, %llu; listed %llu, %llu, %llu",
                         (unsigned long long)counts->delayed, (unsigned long long)counts->retrying,
                         (unsigned long long)counts->ready, (unsigned long long)counts->leased,
                         (unsigned long long)counts->dead, (unsigned long long)look->waiting[t],
                         (unsigned long long)look->leased[t], (unsigned long long)look->dead[t]);
    if (totals->pushed != waiting + counts->leased + counts->dead + ended)
        oracle_violation(oracle, "C: counts add up", t, UINT32_MAX,
                         "pushed %llu, there %llu, acked %llu cancelled %llu expired %llu",
                         (unsigned long long)totals->pushed,
                         (unsigned long long)(waiting + counts->leased + counts->dead),
                         (unsigned long long)totals->acked, (unsigned long long)totals->cancelled,
                         (unsigned long long)totals->expired);
    if (totals->pushed < checked->pushed_least || totals->pushed > checked->pushed_most)
        oracle_violation(oracle, "C: as many as were pushed", t, UINT32_MAX,
                         "pushed %llu, not %llu..%llu", (unsigned long long)totals->pushed,
                         (unsigned long long)checked->pushed_least,
                         (unsigned long long)checked->pushed_most);
    checked->pushed_least = checked->pushed_most = totals->pushed;
}

static bool is_row(const struct queue_topic *topic, uint8_t row)
{
    struct topic_settings settings = oracle_settings(row);

    return topic->settings.dedup_window_ms == settings.dedup_window_ms &&
           topic->settings.policy.lease_ms == settings.policy.lease_ms &&
           topic->settings.policy.max_attempts == settings.policy.max_attempts;
}

static void check_topic(struct oracle *oracle, uint32_t t, const struct queue_topic *topic)
{
    struct oracle_topic *checked = &oracle->topics[t];
    bool deleting = checked->verb == QUEUE_TOPIC_DELETE;

    if (is_row(topic, checked->row))
        ;
    else if (checked->verb == QUEUE_TOPIC_PUT && is_row(topic, checked->row_wanted))
        checked->row = checked->row_wanted;
    else if (deleting && is_row(topic, 0))
        checked->row = 0;
    else
        oracle_violation(oracle, "settings", t, UINT32_MAX, "neither the old nor the new ones");
    if (topic->paused != checked->paused && checked->verb != QUEUE_TOPIC_PAUSE &&
        checked->verb != QUEUE_TOPIC_RESUME && !(deleting && !topic->paused))
        oracle_violation(oracle, "paused", t, UINT32_MAX, "is %d", (int)topic->paused);
    checked->paused = topic->paused;
    checked->may_be_unknown = false;
}

/* Checks an unknown topic: it has no jobs, and lost its settings if that is possible. */
static void check_unknown(struct oracle *oracle, uint32_t t)
{
    struct oracle_topic *checked = &oracle->topics[t];

    if (!checked->may_be_unknown && checked->verb != QUEUE_TOPIC_DELETE)
        oracle_violation(oracle, "settings", t, UINT32_MAX, "the topic is not there");
    checked->row = 0;
    checked->paused = false;
    checked->pushed_least = checked->pushed_most = 0;
    checked->may_be_unknown = true;
}

void oracle_seen_all(struct oracle *oracle, const struct look *look,
                     const struct queue_topic *topics, size_t count)
{
    for (uint32_t t = 0; t < ORACLE_TOPICS; t++) {
        const struct queue_topic *topic = NULL;

        for (size_t i = 0; i < count; i++)
            if (slice_is(topics[i].name, oracle_topic_name(t)))
                topic = &topics[i];
        if (topic) {
            check_counts(oracle, look, t, topic);
            check_topic(oracle, t, topic);
        } else {
            check_unknown(oracle, t);
        }
        oracle->topics[t].verb = 0;
        for (uint32_t id = 0; id < ORACLE_IDS; id++)
            if (!look->found[t][id])
                see_nothing(oracle, t, id, look->recovered ? 0 : oracle->event - 1,
                            look->recovered);
    }
}

/* ---- the power goes ---- */

void oracle_crash(struct oracle *oracle)
{
    uint64_t in_flight = 0;

    for (uint32_t t = 0; t < ORACLE_TOPICS; t++) {
        oracle_topic_grow(oracle, t);
        for (uint32_t id = 0; id < ORACLE_IDS; id++) {
            struct oracle_job *job = &oracle->jobs[t][id];

            oracle_grow(oracle, job, t);
            in_flight += job->op != 0;
            for (uint32_t i = 0; i < job->count; i++) {
                job->guesses[i].until = UINT32_MAX;
                job->guesses[i].op = job->guesses[i].status = 0;
                job->guesses[i].grown = 0;
                oracle->seen[job->guesses[i].state]++;
            }
            job->op = 0;
        }
    }
    for (uint32_t i = 0; i < ORACLE_OPS; i++) {
        if (oracle->ops[i].kind == OP_PUSH)
            oracle->topics[oracle->ops[i].topic].pushed_most++;
        oracle->ops[i].kind = 0;
    }
    for (uint32_t t = 0; t < ORACLE_TOPICS; t++) {
        struct oracle_topic *topic = &oracle->topics[t];

        in_flight += topic->verb != 0;
        topic->commands = topic->takes = topic->took = 0;
        if (topic->verb == QUEUE_TOPIC_DELETE)
            topic->pushed_least = 0;
    }
    oracle->kills_in_flight += in_flight != 0;
    oracle->event++;
}
