/*
 * random_record: records of every kind with all their fields at random, and whether two are the
 * same.
 *
 * Texts are in static buffers: valid until the next record is made. Include after cmocka.h.
 */
#ifndef TARRY_TESTS_RANDOM_RECORD_H
#define TARRY_TESTS_RANDOM_RECORD_H

#include "base/random.h"
#include "job/record.h"

static char text_room[11][8192];

static inline struct slice random_text(struct random *random, int room, size_t least, size_t most)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ._-";
    size_t len = least + random_below(random, most - least + 1);

    for (size_t i = 0; i < len; i++) /* the first is not a dot */
        text_room[room][i] = letters[random_below(random, i ? sizeof letters - 1 : 62)];
    return slice_make(text_room[room], len);
}

static inline struct slice random_meta(struct random *random, int room)
{
    char *at = text_room[room];

    for (uint64_t pairs = random_below(random, 4); pairs; pairs--) {
        *at++ = (char)('a' + pairs);
        *at++ = '\0';
        for (uint64_t len = random_below(random, 20); len; len--)
            *at++ = (char)('0' + random_below(random, 70));
        *at++ = '\0';
    }
    return slice_make(text_room[room], (size_t)(at - text_room[room]));
}

/* Half the time nothing, as most fields are most of the time; else every size as likely. */
static inline uint64_t random_number(struct random *random, unsigned bits_max)
{
    uint64_t bits = random_below(random, 2) ? 0 : 1 + random_below(random, bits_max);

    return bits ? random_next(random) >> (64 - bits) : 0;
}

static inline int64_t random_ms(struct random *random)
{
    return (int64_t)random_number(random, 63);
}

static inline struct policy random_policy(struct random *random)
{
    struct policy policy = {
        .lease_ms = random_ms(random),
        .ttl_ms = random_ms(random),
        .max_attempts = (uint32_t)random_number(random, 32),
    };

    policy.backoff.kind = (enum backoff_kind)random_below(random, 5);
    if (policy.backoff.kind == BACKOFF_LIST) {
        policy.backoff.step_count = 1 + (uint32_t)random_below(random, BACKOFF_STEPS_MAX);
        for (uint32_t i = 0; i < policy.backoff.step_count; i++)
            policy.backoff.steps_ms[i] = 1 + (uint32_t)random_below(random, BACKOFF_STEP_MS_MAX);
    } else if (policy.backoff.kind && policy.backoff.kind != BACKOFF_NONE) {
        policy.backoff.first_ms = 1 + (random_ms(random) >> 1);
        policy.backoff.max_ms = policy.backoff.first_ms;
        if (policy.backoff.kind == BACKOFF_EXPONENTIAL)
            policy.backoff.max_ms += random_ms(random) >> 1;
    }
    return policy;
}

static inline struct slice random_history(struct random *random, int room)
{
    char into[JOB_HISTORY_BYTES_MAX], *history = text_room[room] + 4096;
    size_t bytes = 0;

    for (uint64_t count = random_below(random, JOB_HISTORY_MAX + 3); count; count--) {
        struct job_attempt attempt = {
            .attempt = 1 + (uint32_t)random_number(random, 31),
            .started_ms = random_ms(random),
            .duration_ms = random_ms(random),
            .outcome = (enum job_outcome)(1 + random_below(random, 3)),
            .error = random_text(random, room, 0, random_below(random, 2) * 150)};

        bytes = job_history_add(slice_make(history, bytes), &attempt, into);
        memcpy(history, into, bytes);
    }
    return slice_make(history, bytes);
}

/* Returns a time before the lease's end; 0 half the time, and if there is no room for it. */
static inline int64_t random_taken(struct random *random, int64_t lease_until_ms)
{
    if (lease_until_ms < 2 || random_below(random, 2))
        return 0;
    return 1 + (int64_t)random_below(random, (uint64_t)lease_until_ms - 1);
}

static inline struct job random_job(struct random *random)
{
    struct job job = {
        .topic = random_text(random, 0, 1, JOB_TOPIC_BYTES_MAX),
        .id = random_text(random, 1, 1, JOB_ID_BYTES_MAX),
        .content_type = random_text(random, 2, 0, random_below(random, 2) * 128),
        .meta = random_meta(random, 3),
        .error = random_text(random, 4, 0, random_below(random, 2) * 256),
        .body = random_text(random, 5, 0, random_below(random, 300)),
        .state = (enum job_state)(1 + random_below(random, 5)),
        .due_is_wall = random_below(random, 2),
        .priority = random_below(random, 2) ? JOB_PRIORITY : (uint16_t)random_number(random, 16),
        .attempt = (uint32_t)random_number(random, 32),
        .due_ms = random_ms(random),
        .lease_until_ms = random_ms(random),
        .sequence = random_number(random, 64),
        .delivery = random_number(random, 64),
    };

    job.first_due_ms = random_below(random, 2) ? job.due_ms : random_ms(random);
    job.taken_ms = random_taken(random, job.lease_until_ms);
    if (random_below(random, 2))
        job.history = random_history(random, 6);
    if (job.state == JOB_LEASED && random_below(random, 2))
        job.consumer = random_text(random, 8, 1, JOB_CONSUMER_BYTES_MAX);
    if (job.state == JOB_LEASED && random_below(random, 2))
        job.progress = random_text(random, 9, 1, JOB_PROGRESS_BYTES_MAX);
    if (random_below(random, 2)) {
        job.has_keep = true;
        job.keep_ms = random_ms(random);
    }
    if (random_below(random, 2))
        job.group = random_text(random, 10, 1, JOB_GROUP_BYTES_MAX);
    job.cancel_requested = job.state == JOB_LEASED && random_below(random, 2);
    if (random_below(random, 2))
        job.policy = random_policy(random);
    return job;
}

/* Gives a leased job a successor. Its texts are those of the job, so that no further room is needed. */
static inline void random_successor(struct random *random, struct job *job)
{
    static char room[4 * 8192];
    struct record next = {
        .kind = RECORD_JOB,
        .origin = RECORD_CARRIED,
        .job = {.topic = job->topic,
                .id = job->id,
                .content_type = job->content_type,
                .meta = job->meta,
                .body = job->body,
                .state = JOB_DELAYED,
                .due_is_wall = random_below(random, 2),
                .priority = random_below(random, 2) ? JOB_PRIORITY : 7,
                .due_ms = random_ms(random),
                .sequence = random_number(random, 64),
                .policy = random_below(random, 2) ? random_policy(random) : (struct policy){0}}};

    next.job.first_due_ms = next.job.due_ms;
    job->next = slice_make(room, record_encode(&next, room));
}

static inline struct record_state random_state(struct random *random)
{
    const struct job job = random_job(random);
    struct record_ended ended = {0};

    if (job.attempt && random_below(random, 2))
        ended = (struct record_ended){.outcome = (enum job_outcome)(1 + random_below(random, 3)),
                                      .started_ms = random_ms(random),
                                      .duration_ms = random_ms(random)};
    return (struct record_state){.key = {random_next(random), random_next(random)},
                                 .state = job.state,
                                 .due_is_wall = job.due_is_wall,
                                 .priority = job.priority,
                                 .attempt = job.attempt,
                                 .due_ms = job.due_ms,
                                 .first_due_ms = job.first_due_ms,
                                 .lease_until_ms = job.lease_until_ms,
                                 .taken_ms = job.taken_ms,
                                 .delivery = job.delivery,
                                 .error = job.error,
                                 .consumer = job.consumer,
                                 .cancel_requested = job.cancel_requested,
                                 .progress = job.progress,
                                 .ended = ended,
                                 .next = random_below(random, 2)
                                             ? (enum record_next)random_below(random, 8)
                                             : RECORD_NEXT_STAYS};
}

/* Returns a kept job, encoded. */
static inline struct slice random_kept(struct random *random)
{
    static char room[16 * 8192];
    const struct job job = random_job(random);
    struct record_kept kept = {.finished_ms = random_ms(random),
                               .duration_ms = random_ms(random),
                               .attempt = job.attempt,
                               .has_body = random_below(random, 2),
                               .id = job.id,
                               .consumer = job.consumer,
                               .meta = job.meta,
                               .history = job.history,
                               .progress = job.progress,
                               .result = random_text(random, 7, 0, random_below(random, 2) * 4000),
                               .result_type =
                                   random_text(random, 4, 0, random_below(random, 2) * 128),
                               .content_type = job.content_type,
                               .group = job.group};
    if (kept.has_body)
        kept.body = job.body;
    assert_true(record_kept_bytes_max(&kept) <= sizeof room);
    return slice_make(room, record_kept_encode(&kept, room));
}

static inline struct record_done random_done(struct random *random)
{
    const bool is_kept = random_below(random, 2);
    const struct slice kept = is_kept ? random_kept(random) : (struct slice){0};
    return (struct record_done){
        .keep_until_ms = is_kept ? 1 + (random_ms(random) >> 1) : 0,
        .kept = kept,
        .key = {random_next(random), random_next(random)},
        .reason = (enum record_reason)(1 + random_below(random, 5)),
        .remember_until_ms = random_ms(random),
        .sequence = random_number(random, 64),
        .topic = random_below(random, 2) ? random_text(random, 0, 1, 200) : (struct slice){0},
        .carried = random_below(random, 2),
    };
}

static inline struct frequency random_frequency(struct random *random)
{
    return (struct frequency){1 + (uint32_t)random_below(random, FREQUENCY_COUNT_MAX),
                              (enum frequency_unit)(1 + random_below(random, 3))};
}

static inline struct flow_limits random_limits(struct random *random)
{
    struct flow_limits limits = {.limit = (uint32_t)random_number(random, 32),
                                 .burst = (uint32_t)random_number(random, 32)};

    if (random_below(random, 2))
        limits.rate = random_frequency(random);
    return limits;
}

static inline struct topic_flow random_flow(struct random *random)
{
    return (struct topic_flow){.topic = random_limits(random),
                               .group = random_limits(random),
                               .group_max_jobs = random_number(random, 64),
                               .group_order = (enum flow_order)random_below(random, 2),
                               .one_shard = random_below(random, 2)};
}

static inline struct record_group random_group(struct random *random)
{
    struct record_group group = {.topic = random_text(random, 0, 1, JOB_TOPIC_BYTES_MAX),
                                 .group = random_text(random, 10, 0, JOB_GROUP_BYTES_MAX),
                                 .exists = random_below(random, 2),
                                 .carried = random_below(random, 2)};

    if (!group.exists)
        return group;
    group.settings =
        (struct group_settings){.weight = (uint32_t)random_below(random, GROUP_WEIGHT_MAX + 1),
                                .limits = random_limits(random),
                                .max_jobs = random_number(random, 64),
                                .paused = random_below(random, 2)};
    if (group.settings.paused)
        group.settings.paused_until_ms = random_ms(random);
    return group;
}

static inline struct record_topic random_topic(struct random *random)
{
    struct record_topic topic = {
        .topic = random_text(random, 0, 1, JOB_TOPIC_BYTES_MAX),
        .exists = random_below(random, 2),
        .paused = random_below(random, 2),
        .deleting = random_below(random, 2),
        .carried = random_below(random, 2),
        .sequence = random_number(random, 64),
        .settings = {.policy = random_policy(random),
                     .on_conflict = (enum record_conflict)random_below(random, 4),
                     .has_priority = random_below(random, 2),
                     .dead_letter_expired = random_below(random, 2),
                     .dedup_window_ms = random_ms(random),
                     .keep_finished_ms = random_ms(random),
                     .keep_finished_max = random_number(random, 40),
                     .keep_finished_bytes = random_number(random, 50),
                     .keep_body = random_below(random, 2),
                     .max_jobs = random_number(random, 40)},
        .totals = {.pushed = random_number(random, 64),
                   .delivered = random_number(random, 64),
                   .redriven = random_number(random, 64)},
    };

    if (random_below(random, 2))
        topic.settings.extension =
            random_text(random, 7, 0, random_below(random, 2) ? 100 : TOPIC_EXTENSION_BYTES_MAX);
    if (random_below(random, 2))
        topic.settings.push_rate = random_frequency(random);
    if (random_below(random, 2))
        topic.settings.flow = random_flow(random);
    if (topic.settings.has_priority)
        topic.settings.priority = (int32_t)random_number(random, 16);
    if (topic.paused && random_below(random, 2))
        topic.paused_until_ms = random_ms(random);
    return topic;
}

/* Half the time nowhere. */
static inline struct record_place random_from(struct random *random)
{
    if (random_below(random, 2))
        return (struct record_place){0};
    return (struct record_place){.file = RECORD_IN_RUN |
                                         (1 + (uint32_t)random_below(random, RECORD_IN_RUN - 1)),
                                 .at = (uint32_t)random_number(random, 32),
                                 .bytes = 1 + (uint32_t)random_number(random, 31)};
}

static inline struct record random_record(struct random *random)
{
    struct record record = {.kind = (enum record_kind)(1 + random_below(random, 5))};

    if (record.kind < RECORD_TOPIC)
        record.from = random_from(random);
    if (record.kind == RECORD_JOB) {
        record.origin = (enum record_job_origin)(1 + random_below(random, 3));
        record.job = random_job(random);
        if (record.job.state == JOB_LEASED && random_below(random, 2))
            random_successor(random, &record.job);
    } else if (record.kind == RECORD_STATE) {
        record.state = random_state(random);
    } else if (record.kind == RECORD_DONE) {
        record.done = random_done(random);
    } else if (record.kind == RECORD_TOPIC) {
        record.topic = random_topic(random);
    } else {
        record.group = random_group(random);
    }
    return record;
}

/* ---- comparing field by field ---- */

#define SAME(FIELD) assert_true(a->FIELD == b->FIELD)
#define SAME_TEXT(FIELD) assert_true(slice_equals(a->FIELD, b->FIELD))

static inline void same_policy(const struct policy *a, const struct policy *b)
{
    SAME(lease_ms);
    SAME(ttl_ms);
    SAME(max_attempts);
    SAME(backoff.kind);
    SAME(backoff.first_ms);
    SAME(backoff.max_ms);
    SAME(backoff.step_count);
    assert_memory_equal(a->backoff.steps_ms, b->backoff.steps_ms, sizeof a->backoff.steps_ms);
}

static inline void same_job(const struct job *a, const struct job *b)
{
    SAME_TEXT(topic);
    SAME_TEXT(id);
    SAME_TEXT(content_type);
    SAME_TEXT(meta);
    SAME_TEXT(body);
    SAME_TEXT(error);
    SAME_TEXT(history);
    SAME_TEXT(consumer);
    SAME_TEXT(next);
    SAME_TEXT(progress);
    SAME_TEXT(group);
    SAME(has_keep);
    SAME(keep_ms);
    SAME(cancel_requested);
    SAME(taken_ms);
    SAME(state);
    SAME(due_is_wall);
    SAME(priority);
    SAME(attempt);
    SAME(due_ms);
    SAME(first_due_ms);
    SAME(lease_until_ms);
    SAME(sequence);
    SAME(delivery);
    same_policy(&a->policy, &b->policy);
}

static inline void same_state(const struct record_state *a, const struct record_state *b)
{
    SAME(key.high);
    SAME(key.low);
    SAME(state);
    SAME(due_is_wall);
    SAME(priority);
    SAME(attempt);
    SAME(due_ms);
    SAME(first_due_ms);
    SAME(lease_until_ms);
    SAME(taken_ms);
    SAME(delivery);
    SAME_TEXT(error);
    SAME_TEXT(consumer);
    SAME_TEXT(progress);
    SAME(cancel_requested);
    SAME(ended.outcome);
    SAME(ended.started_ms);
    SAME(ended.duration_ms);
    SAME(next);
}

static inline void same_done(const struct record_done *a, const struct record_done *b)
{
    SAME(key.high);
    SAME(key.low);
    SAME(reason);
    SAME(remember_until_ms);
    SAME(sequence);
    SAME_TEXT(topic);
    SAME(carried);
    SAME(keep_until_ms);
    SAME_TEXT(kept);
}

static inline void same_limits(const struct flow_limits *a, const struct flow_limits *b)
{
    SAME(limit);
    SAME(rate.count);
    SAME(rate.unit);
    SAME(burst);
}

static inline void same_group(const struct record_group *a, const struct record_group *b)
{
    SAME_TEXT(topic);
    SAME_TEXT(group);
    SAME(exists);
    SAME(carried);
    SAME(settings.weight);
    SAME(settings.max_jobs);
    SAME(settings.paused);
    SAME(settings.paused_until_ms);
    same_limits(&a->settings.limits, &b->settings.limits);
}

static inline void same_topic(const struct record_topic *a, const struct record_topic *b)
{
    SAME_TEXT(topic);
    SAME(exists);
    SAME(paused);
    SAME(deleting);
    SAME(paused_until_ms);
    SAME(carried);
    SAME(sequence);
    SAME(settings.on_conflict);
    SAME(settings.has_priority);
    SAME(settings.priority);
    SAME(settings.dead_letter_expired);
    SAME(settings.dedup_window_ms);
    SAME(settings.max_jobs);
    SAME(settings.keep_finished_ms);
    SAME(settings.keep_finished_max);
    SAME(settings.keep_finished_bytes);
    SAME(settings.keep_body);
    SAME(settings.push_rate.count);
    SAME(settings.push_rate.unit);
    SAME_TEXT(settings.extension);
    SAME(settings.flow.group_max_jobs);
    SAME(settings.flow.group_order);
    SAME(settings.flow.one_shard);
    same_limits(&a->settings.flow.topic, &b->settings.flow.topic);
    same_limits(&a->settings.flow.group, &b->settings.flow.group);
    same_policy(&a->settings.policy, &b->settings.policy);
    assert_memory_equal(&a->totals, &b->totals, sizeof a->totals);
}

static inline void same_record(const struct record *a, const struct record *b)
{
    SAME(kind);
    SAME(from.file);
    SAME(from.at);
    SAME(from.bytes);
    if (a->kind == RECORD_JOB) {
        SAME(origin);
        same_job(&a->job, &b->job);
    } else if (a->kind == RECORD_STATE) {
        same_state(&a->state, &b->state);
    } else if (a->kind == RECORD_DONE) {
        same_done(&a->done, &b->done);
    } else if (a->kind == RECORD_TOPIC) {
        same_topic(&a->topic, &b->topic);
    } else {
        same_group(&a->group, &b->group);
    }
}

#undef SAME
#undef SAME_TEXT

#endif
