/* Looks at jobs, and the state after a power cut. */
#include "judge.h"

#include <stdio.h>

/* ---- one job as it is shown ---- */

/* Returns the serial number of a pushed body, compared to the byte; 0: this was never pushed. */
static uint32_t serial_of(struct judge *judge, const struct job *job, uint32_t topic, uint32_t id)
{
    static struct cargo cargo;
    char digits[9] = "";
    uint32_t serial = 0;

    if (job->body.len >= 9)
        memcpy(digits, job->body.at, 8);
    if (sscanf(digits, "%8u", &serial) == 1)
        judge_cargo(serial, &cargo);
    if (!serial || !slice_equals(job->body, slice_make(cargo.body, cargo.body_bytes)) ||
        !slice_equals(job->meta, slice_make(cargo.meta, cargo.meta_bytes)) ||
        !slice_is(job->content_type, cargo.content_type)) {
        judge_violation(judge, "P: to the byte", topic, id, "a body of %zu bytes, serial %u",
                        job->body.len, serial);
        return 0;
    }
    return serial;
}

static bool is_in(int64_t ms, int64_t least, int64_t most)
{
    return ms >= least && ms <= most;
}

static const char *mismatch(const struct judge *judge, const struct guess *guess,
                            const struct job *job, uint32_t serial)
{
    int64_t due_ms = job->due_ms - (guess->is_wall ? 0 : judge->skew_ms);
    char error[32];

    if (serial != guess->serial)
        return "body";
    if (job->attempt != guess->attempt)
        return "attempt";
    if (job->priority != guess->priority)
        return "priority";
    judge_error_text(guess->error, error);
    if (!judge->lenient && !slice_is(job->error, error))
        return "error";
    switch (job->state) {
    case JOB_DELAYED:
    case JOB_READY:
        if (guess->state != GUESS_WAITING)
            return "state";
        if (!is_in(due_ms, guess->due_least, guess->due_most))
            return "due";
        if (job->state == JOB_READY &&
            due_ms > judge->now_ms + (guess->is_wall ? judge->skew_ms : 0))
            return "never early";
        return NULL;
    case JOB_LEASED:
        if (guess->state != GUESS_LEASED || (guess->delivery && guess->delivery != job->delivery))
            return "state";
        if (!is_in(job->lease_until_ms - judge->skew_ms, guess->end_least, guess->end_most))
            return "lease";
        return NULL;
    case JOB_DEAD:
        return guess->state == GUESS_DEAD ? NULL : "state";
    case JOB_FINISHED:
        break;
    }
    return "a state that is never shown";
}

static void pin(const struct judge *judge, struct guess *guess, const struct job *job)
{
    guess->grown &= GROWN_BY_OP; /* what time was thought to have done it may still do */
    if (guess->state == GUESS_WAITING)
        guess->due_least = guess->due_most = job->due_ms - (guess->is_wall ? 0 : judge->skew_ms);
    if (guess->state == GUESS_LEASED) {
        guess->end_least = guess->end_most = job->lease_until_ms - judge->skew_ms;
        guess->delivery = job->delivery;
    }
}

/* Rules out guesses by `fits`. A guess that does not fit has ended; if all seen states are durable it is
 * gone permanently, except one from which only time may have moved on. */
static void rule_out(struct judge *judge, struct judged *job, const bool *fits, bool for_good)
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
            job->guesses[i].until = judge->event;
    }
}

static void see(struct judge *judge, uint32_t topic, uint32_t id, const struct job *job,
                uint32_t since, bool for_good)
{
    struct judged *judged = &judge->jobs[topic][id];
    bool fits[JUDGE_GUESSES] = {false}, any = false;
    const char *why = "nothing fits";
    uint32_t serial = serial_of(judge, job, topic, id);

    if (!serial)
        return;
    judge_grow(judge, judged, topic);
    for (uint32_t i = 0; i < judged->count; i++) {
        const char *reason = judged->guesses[i].until > since
                                 ? mismatch(judge, &judged->guesses[i], job, serial)
                                 : "past";
        fits[i] = !reason;
        any |= fits[i];
        if (reason && strcmp(reason, "state") != 0 && strcmp(reason, "past") != 0)
            why = reason;
    }
    if (!any) {
        judge_violation(judge, "what a job may be", topic, id,
                        "%s: seen %s, serial %u, attempt %u, priority %u, due %lld, lease %lld, "
                        "delivery %llu, error '%.*s'",
                        why, job_state_name(job->state), serial, job->attempt, job->priority,
                        (long long)(job->due_ms - judge->skew_ms),
                        (long long)(job->lease_until_ms - judge->skew_ms),
                        (unsigned long long)job->delivery, (int)job->error.len,
                        job->error.len ? job->error.at : "");
        return;
    }
    for (uint32_t i = 0; i < judged->count; i++)
        if (fits[i])
            pin(judge, &judged->guesses[i], job);
    rule_out(judge, judged, fits, for_good);
    judge->event++;
}

static bool is_nothing(const struct guess *guess)
{
    return guess->state == GUESS_ABSENT || guess->state == GUESS_REMEMBERED;
}

static void see_nothing(struct judge *judge, uint32_t topic, uint32_t id, uint32_t since,
                        bool for_good)
{
    struct judged *judged = &judge->jobs[topic][id];
    bool fits[JUDGE_GUESSES] = {false}, any = false;

    judge_grow(judge, judged, topic);
    for (uint32_t i = 0; i < judged->count; i++) {
        fits[i] = judged->guesses[i].until > since && is_nothing(&judged->guesses[i]);
        any |= fits[i];
    }
    if (!any) {
        judge_violation(judge, "L: no loss", topic, id, "it is not there");
        return;
    }
    rule_out(judge, judged, fits, for_good);
    judge->event++;
}

void judge_got(struct judge *judge, uint32_t topic, uint32_t id, const struct queue_job *job,
               uint32_t since)
{
    if (job)
        see(judge, topic, id, &job->job, since, false);
    else
        see_nothing(judge, topic, id, since, false);
}

/* ---- taken ---- */

static struct guess leased(const struct guess *from, const struct judge *judge, int64_t since_ms,
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
    next.end_most = judge->now_ms + 1 + lease_ms;
    return next;
}

/* Returns the lease: 0 means the job's, the topic's, the default. */
static int64_t lease_of(const struct judge *judge, const struct guess *guess, uint32_t topic,
                        int64_t lease_ms)
{
    static struct cargo cargo;
    struct topic_settings settings = judge_settings(judge->topics[topic].row);

    judge_cargo(guess->serial, &cargo);
    return lease_ms ? lease_ms : policy_resolve(&cargo.policy, &settings.policy).lease_ms;
}

void judge_taken(struct judge *judge, const struct queue_job *taken, uint32_t since,
                 int64_t since_ms, int64_t lease_ms)
{
    uint32_t topic, id, serial, fit = 0;
    struct judged *judged;
    struct job before = taken->job;

    if (!judge_find(before.topic, before.id, &topic, &id)) {
        judge_violation(judge, "P: no phantom", UINT32_MAX, UINT32_MAX, "a job nobody pushed");
        return;
    }
    judged = &judge->jobs[topic][id];
    serial = serial_of(judge, &before, topic, id);
    if (judge->topics[topic].paused)
        judge_violation(judge, "paused", topic, id, "taken");
    if (before.delivery <= judged->delivery)
        judge_violation(judge, "F: delivery rises", topic, id, "%llu after %llu",
                        (unsigned long long)before.delivery, (unsigned long long)judged->delivery);
    judged->delivery = before.delivery;
    judge->redelivered += before.attempt > 1;
    before.state = JOB_READY;
    before.attempt--;
    judge_grow(judge, judged, topic);
    for (uint32_t i = 0, count = judged->count; i < count; i++) {
        struct guess *guess = &judged->guesses[i], next;
        uint32_t was_until = guess->until;

        if (was_until <= since || mismatch(judge, guess, &before, serial))
            continue;
        fit++;
        next = leased(guess, judge, since_ms, lease_of(judge, guess, topic, lease_ms),
                      before.delivery);
        pin(judge, guess, &before);
        next.due_least = guess->due_least;
        next.due_most = guess->due_most;
        if (!is_in(before.lease_until_ms - judge->skew_ms, next.end_least, next.end_most))
            judge_violation(judge, "X: the lease's end", topic, id, "%lld",
                            (long long)(before.lease_until_ms - judge->skew_ms));
        next.end_least = next.end_most = before.lease_until_ms - judge->skew_ms;
        judge_add(judge, judged, &next);
    }
    if (!fit)
        judge_violation(judge, "E, A, X, N: what may be taken", topic, id,
                        "serial %u, attempt %u, priority %u, due %lld, error '%.*s'", serial,
                        before.attempt + 1, before.priority,
                        (long long)(before.due_ms - judge->skew_ms), (int)before.error.len,
                        before.error.len ? before.error.at : "");
    for (uint32_t i = 0; i < judged->count; i++) {
        struct guess *guess = &judged->guesses[i];

        if (guess->until == UINT32_MAX &&
            !(guess->state == GUESS_LEASED && guess->delivery == before.delivery))
            guess->until = judge->event;
    }
    memcpy(judged->lease, taken->lease.at, taken->lease.len);
    judged->lease[taken->lease.len] = '\0';
    judged->lease_delivery = before.delivery;
    judge->topics[topic].took = ++judge->event;
}

void judge_take_lost(struct judge *judge, uint32_t topic, int64_t since_ms, int64_t lease_ms)
{
    for (uint32_t id = 0; id < JUDGE_IDS; id++) {
        struct judged *judged = &judge->jobs[topic][id];

        judge_grow(judge, judged, topic);
        for (uint32_t i = 0, count = judged->count; i < count; i++) {
            struct guess *guess = &judged->guesses[i], next;

            if (guess->until != UINT32_MAX || guess->state != GUESS_WAITING ||
                guess->due_least > judge->now_ms + (guess->is_wall ? judge->skew_ms : 0))
                continue;
            next = leased(guess, judge, since_ms, lease_of(judge, guess, topic, lease_ms), 0);
            judge_add(judge, judged, &next);
        }
    }
}

/* ---- everything ---- */

void judge_see(struct judge *judge, struct look *look, const struct queue_job *job)
{
    uint32_t topic, id;

    if (!judge_find(job->job.topic, job->job.id, &topic, &id)) {
        judge_violation(judge, "P: no phantom", UINT32_MAX, UINT32_MAX, "a job nobody pushed");
        return;
    }
    if (look->found[topic][id])
        judge_violation(judge, "I: one job", topic, id, "listed twice");
    look->found[topic][id] = true;
    look->waiting[topic] += job->job.state == JOB_DELAYED || job->job.state == JOB_READY;
    look->leased[topic] += job->job.state == JOB_LEASED;
    look->dead[topic] += job->job.state == JOB_DEAD;
    see(judge, topic, id, &job->job, look->recovered ? 0 : judge->event - 1, look->recovered);
}

static void check_counts(struct judge *judge, const struct look *look, uint32_t t,
                         const struct queue_topic *topic)
{
    const struct queue_counts *counts = &topic->counts;
    const struct topic_totals *totals = &topic->totals;
    struct judged_topic *judged = &judge->topics[t];
    uint64_t waiting = counts->delayed + counts->retrying + counts->ready;
    uint64_t ended = totals->acked + totals->cancelled + totals->expired;

    if (waiting != look->waiting[t] || counts->leased != look->leased[t] ||
        counts->dead != look->dead[t])
        judge_violation(judge, "C: counts are what is listed", t, UINT32_MAX,
                        "counts %llu+%llu+%llu, %llu, %llu; listed %llu, %llu, %llu",
                        (unsigned long long)counts->delayed, (unsigned long long)counts->retrying,
                        (unsigned long long)counts->ready, (unsigned long long)counts->leased,
                        (unsigned long long)counts->dead, (unsigned long long)look->waiting[t],
                        (unsigned long long)look->leased[t], (unsigned long long)look->dead[t]);
    if (totals->pushed != waiting + counts->leased + counts->dead + ended)
        judge_violation(judge, "C: counts add up", t, UINT32_MAX,
                        "pushed %llu, there %llu, acked %llu cancelled %llu expired %llu",
                        (unsigned long long)totals->pushed,
                        (unsigned long long)(waiting + counts->leased + counts->dead),
                        (unsigned long long)totals->acked, (unsigned long long)totals->cancelled,
                        (unsigned long long)totals->expired);
    if (totals->pushed < judged->pushed_least || totals->pushed > judged->pushed_most)
        judge_violation(judge, "C: as many as were pushed", t, UINT32_MAX,
                        "pushed %llu, not %llu..%llu", (unsigned long long)totals->pushed,
                        (unsigned long long)judged->pushed_least,
                        (unsigned long long)judged->pushed_most);
    judged->pushed_least = judged->pushed_most = totals->pushed;
}

static bool is_row(const struct queue_topic *topic, uint8_t row)
{
    struct topic_settings settings = judge_settings(row);

    return topic->settings.dedup_window_ms == settings.dedup_window_ms &&
           topic->settings.policy.lease_ms == settings.policy.lease_ms &&
           topic->settings.policy.max_attempts == settings.policy.max_attempts;
}

static void check_topic(struct judge *judge, uint32_t t, const struct queue_topic *topic)
{
    struct judged_topic *judged = &judge->topics[t];
    bool deleting = judged->verb == QUEUE_TOPIC_DELETE;

    if (is_row(topic, judged->row))
        ;
    else if (judged->verb == QUEUE_TOPIC_PUT && is_row(topic, judged->row_wanted))
        judged->row = judged->row_wanted;
    else if (deleting && is_row(topic, 0))
        judged->row = 0;
    else
        judge_violation(judge, "settings", t, UINT32_MAX, "neither the old nor the new ones");
    if (topic->paused != judged->paused && judged->verb != QUEUE_TOPIC_PAUSE &&
        judged->verb != QUEUE_TOPIC_RESUME && !(deleting && !topic->paused))
        judge_violation(judge, "paused", t, UINT32_MAX, "is %d", (int)topic->paused);
    judged->paused = topic->paused;
    judged->may_be_unknown = false;
}

/* Checks an unknown topic: it has no jobs, and lost its settings if that is possible. */
static void check_unknown(struct judge *judge, uint32_t t)
{
    struct judged_topic *judged = &judge->topics[t];

    if (!judged->may_be_unknown && judged->verb != QUEUE_TOPIC_DELETE)
        judge_violation(judge, "settings", t, UINT32_MAX, "the topic is not there");
    judged->row = 0;
    judged->paused = false;
    judged->pushed_least = judged->pushed_most = 0;
    judged->may_be_unknown = true;
}

void judge_seen_all(struct judge *judge, const struct look *look, const struct queue_topic *topics,
                    size_t count)
{
    for (uint32_t t = 0; t < JUDGE_TOPICS; t++) {
        const struct queue_topic *topic = NULL;

        for (size_t i = 0; i < count; i++)
            if (slice_is(topics[i].name, judge_topic_name(t)))
                topic = &topics[i];
        if (topic) {
            check_counts(judge, look, t, topic);
            check_topic(judge, t, topic);
        } else {
            check_unknown(judge, t);
        }
        judge->topics[t].verb = 0;
        for (uint32_t id = 0; id < JUDGE_IDS; id++)
            if (!look->found[t][id])
                see_nothing(judge, t, id, look->recovered ? 0 : judge->event - 1, look->recovered);
    }
}

/* ---- the power goes ---- */

void judge_crash(struct judge *judge)
{
    uint64_t in_flight = 0;

    for (uint32_t t = 0; t < JUDGE_TOPICS; t++) {
        judge_topic_grow(judge, t);
        for (uint32_t id = 0; id < JUDGE_IDS; id++) {
            struct judged *job = &judge->jobs[t][id];

            judge_grow(judge, job, t);
            in_flight += job->op != 0;
            for (uint32_t i = 0; i < job->count; i++) {
                job->guesses[i].until = UINT32_MAX;
                job->guesses[i].op = job->guesses[i].status = 0;
                job->guesses[i].grown = 0;
                judge->seen[job->guesses[i].state]++;
            }
            job->op = 0;
        }
    }
    for (uint32_t i = 0; i < JUDGE_OPS; i++) {
        if (judge->ops[i].kind == OP_PUSH)
            judge->topics[judge->ops[i].topic].pushed_most++;
        judge->ops[i].kind = 0;
    }
    for (uint32_t t = 0; t < JUDGE_TOPICS; t++) {
        struct judged_topic *topic = &judge->topics[t];

        in_flight += topic->verb != 0;
        topic->commands = topic->takes = topic->took = 0;
        if (topic->verb == QUEUE_TOPIC_DELETE)
            topic->pushed_least = 0;
    }
    judge->kills_in_flight += in_flight != 0;
    judge->event++;
}
