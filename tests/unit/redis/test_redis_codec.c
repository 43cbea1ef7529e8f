/* Jobs and topics on their way to the scripts and back: what goes in comes out, and nothing else
 * gets in. The scripts' part, putting a record together, is played here. */
#include "redis/codec.h"
#include "redis/id.h"

#include "redis_args.h"
#include "unit/mutate.h"
#include "unit/seed.h"

#include "unit/claim.h"

#include "unit/random_record.h"

enum { ROUNDS = 5000, BROKEN_ROUNDS = 200 };

static const int64_t adjust_ms = -7;

/* ---- arguments ---- */

static uint64_t number_at(struct slice text, size_t at, size_t bytes)
{
    uint64_t value = 0;

    assert_true(at + bytes <= text.len);
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | (unsigned char)text.at[at + i];
    return value;
}

static void put(struct buffer *out, uint64_t value, size_t bytes)
{
    while (bytes--)
        buffer_append_byte(out, (char)(value >> (8 * bytes)));
}

static uint64_t below_48_bits(struct random *random)
{
    return random_number(random, 47);
}

/* ---- jobs ---- */

static struct policy a_policy(struct random *random)
{
    struct policy policy = {.lease_ms = (int64_t)below_48_bits(random),
                            .ttl_ms = (int64_t)below_48_bits(random),
                            .max_attempts = (uint32_t)random_number(random, 14)};

    policy.backoff.kind = (enum backoff_kind)random_below(random, 5);
    if (policy.backoff.kind == BACKOFF_LIST) {
        policy.backoff.step_count = 1 + (uint32_t)random_below(random, BACKOFF_STEPS_MAX);
        for (uint32_t i = 0; i < policy.backoff.step_count; i++)
            policy.backoff.steps_ms[i] = 1 + (uint32_t)random_below(random, BACKOFF_STEP_MS_MAX);
    } else if (policy.backoff.kind) {
        policy.backoff.first_ms = (int64_t)below_48_bits(random);
        policy.backoff.max_ms = (int64_t)below_48_bits(random);
    }
    return policy;
}

static struct queue_push a_push(struct random *random)
{
    struct queue_push push = {
        .topic = random_text(random, 0, 1, JOB_TOPIC_BYTES_MAX),
        .id = random_text(random, 1, 1, JOB_ID_BYTES_MAX),
        .body = random_text(random, 2, 0, 4000),
        .content_type = random_text(random, 3, 0, random_below(random, 2) ? 128 : 0),
        .meta = random_below(random, 2) ? random_meta(random, 4) : slice_of(""),
        .when = {.due = (enum queue_due)(QUEUE_DUE_NOW + random_below(random, 3))},
        .priority = (int32_t)random_below(random, JOB_PRIORITY_MAX + 2) - 1,
        .on_conflict = (enum record_conflict)random_below(random, 4)};

    if (push.when.due != QUEUE_DUE_NOW)
        push.when.ms = (int64_t)below_48_bits(random);
    if (random_below(random, 2))
        push.policy = a_policy(random);
    if (random_below(random, 2))
        push.group = random_text(random, 6, 1, JOB_GROUP_BYTES_MAX);
    push.has_keep_finished = random_below(random, 2);
    if (push.has_keep_finished)
        push.keep_finished_ms = (int64_t)below_48_bits(random);
    if (random_below(random, 3) == 0)
        push.past = (struct queue_past){.attempt = (uint32_t)random_number(random, 14),
                                        .dead = random_below(random, 2),
                                        .error = random_text(random, 5, 0, JOB_ERROR_BYTES_MAX)};
    return push;
}

struct packed_push {
    struct slice id, spec, tail;
    unsigned flags;
};

static struct packed_push packed_push(struct buffer *args, const struct queue_push *push,
                                      bool id_is_made)
{
    struct packed_push packed;
    struct slice rest;

    buffer_clear(args);
    redis_pack_push(args, push, id_is_made);
    rest = buffer_slice(args);
    packed.id = next_arg(&rest);
    packed.spec = next_arg(&rest);
    packed.tail = next_arg(&rest);
    assert_int_equal(rest.len, 0);
    assert_int_equal(packed.spec.len, 11);
    packed.flags = (unsigned)number_at(packed.spec, 2, 1);
    return packed;
}

/* Makes a record of the arguments like push.lua. */
static void make_record(struct buffer *record, const struct packed_push *packed, unsigned priority,
                        uint64_t sequence, int64_t due_ms)
{
    struct slice tail = packed->tail;

    if (packed->flags & 16) {
        size_t past = 7 + (size_t)number_at(tail, 5, 2);

        tail = slice_make(tail.at + past, tail.len - past);
    }
    buffer_clear(record);
    put(record, (packed->flags & 103) | (number_at(packed->spec, 1, 1) == QUEUE_DUE_AT ? 8 : 0), 1);
    put(record, priority, 2);
    put(record, sequence, 6);
    put(record, (uint64_t)due_ms, 6);
    buffer_append_slice(record, tail);
}

CLAIM(a_pushed_job_is_shown)
{
    struct random random = seed_random(__func__);
    struct buffer args, record;

    buffer_init(&args, SIZE_MAX / 2);
    buffer_init(&record, SIZE_MAX / 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct queue_push push = a_push(&random);
        bool id_is_made = random_below(&random, 2) == 1;
        struct packed_push packed = packed_push(&args, &push, id_is_made);
        unsigned priority = push.priority < 0 ? JOB_PRIORITY : (unsigned)push.priority;
        int64_t due_ms = (int64_t)below_48_bits(&random);
        struct job job;

        assert_true(slice_equals(packed.id, push.id));
        assert_int_equal(number_at(packed.spec, 0, 1), (unsigned)push.on_conflict |
                                                           (push.priority >= 0 ? 4 : 0) |
                                                           (id_is_made ? 8 : 0));
        assert_int_equal(number_at(packed.spec, 1, 1), push.when.due);
        assert_int_equal(number_at(packed.spec, 3, 2), push.priority < 0 ? 0 : push.priority);
        assert_int_equal(number_at(packed.spec, 5, 6), push.when.ms);
        make_record(&record, &packed, priority, (uint64_t)round, due_ms);
        assert_true(
            redis_unpack_job(buffer_slice(&record), slice_of(""), JOB_DELAYED, adjust_ms, &job));
        assert_true(slice_equals(job.body, push.body));
        assert_true(slice_equals(job.content_type, push.content_type));
        assert_true(slice_equals(job.meta, push.meta));
        same_policy(&job.policy, &push.policy);
        assert_int_equal(job.has_keep, push.has_keep_finished);
        assert_int_equal(job.keep_ms, push.keep_finished_ms);
        assert_true(slice_equals(job.group, push.group));
        assert_int_equal(job.priority, priority);
        assert_int_equal(job.sequence, round);
        assert_int_equal(job.due_ms, due_ms - adjust_ms);
        assert_int_equal(job.first_due_ms, job.due_ms);
        assert_int_equal(job.due_is_wall, push.when.due == QUEUE_DUE_AT);
        assert_int_equal(job.state, JOB_DELAYED);
        assert_int_equal(job.attempt, 0);
    }
    buffer_fini(&args);
    buffer_fini(&record);
}

CLAIM(a_past_travels_before_the_rest)
{
    struct queue_push push = {.topic = slice_of("t"),
                              .id = slice_of("a"),
                              .body = slice_of("body"),
                              .when.due = QUEUE_DUE_NOW,
                              .priority = QUEUE_PRIORITY_UNSET,
                              .past = {.attempt = 258, .dead = true, .error = slice_of("why")}};
    struct packed_push packed;
    struct buffer args;

    buffer_init(&args, SIZE_MAX / 2);
    packed = packed_push(&args, &push, false);
    assert_int_equal(packed.flags, 16);
    assert_true(slice_equals(packed.tail, slice_make("\x01\0\0\x01\x02\0\x03whybody", 14)));
    buffer_fini(&args);
}

CLAIM(a_try_overrides_the_record)
{
    struct random random = seed_random(__func__);
    struct queue_push push = {.topic = slice_of("t"),
                              .id = slice_of("a"),
                              .body = slice_of("b"),
                              .when.due = QUEUE_DUE_NOW,
                              .priority = 3};
    struct buffer args, record, attempt;

    buffer_init(&args, SIZE_MAX / 2);
    buffer_init(&record, SIZE_MAX / 2);
    buffer_init(&attempt, SIZE_MAX / 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct packed_push packed = packed_push(&args, &push, false);
        enum job_state is = (enum job_state)(JOB_DELAYED + random_below(&random, 4));
        unsigned priority = (unsigned)random_below(&random, 65536);
        uint64_t number = random_number(&random, 14), due = 1 + below_48_bits(&random),
                 first = 1 + below_48_bits(&random), until = 1 + below_48_bits(&random),
                 delivery = below_48_bits(&random);
        struct slice error = random_text(&random, 5, 0, JOB_ERROR_BYTES_MAX);
        struct job job;

        make_record(&record, &packed, 3, 1, 1000);
        buffer_clear(&attempt);
        put(&attempt, is, 1);
        put(&attempt, priority, 2);
        put(&attempt, number, 4);
        put(&attempt, due, 6);
        put(&attempt, first, 6);
        put(&attempt, until, 6);
        put(&attempt, delivery, 6);
        put(&attempt, 60000, 6);
        buffer_append_slice(&attempt, error);
        assert_true(
            redis_unpack_job(buffer_slice(&record), buffer_slice(&attempt), 0, adjust_ms, &job));
        assert_int_equal(job.state, is);
        assert_int_equal(job.priority, priority);
        assert_int_equal(job.attempt, number);
        assert_int_equal(job.due_ms, (int64_t)due - adjust_ms);
        assert_int_equal(job.first_due_ms, (int64_t)first - adjust_ms);
        assert_int_equal(job.lease_until_ms, is == JOB_LEASED ? (int64_t)until - adjust_ms : 0);
        assert_int_equal(job.delivery, delivery);
        assert_true(slice_equals(job.error, error));
        assert_true(slice_is(job.body, "b"));
    }
    buffer_fini(&args);
    buffer_fini(&record);
    buffer_fini(&attempt);
}

/* A try with a history behind, as answers show it. */
static void put_shown(struct buffer *out, struct slice error, struct slice history)
{
    buffer_clear(out);
    put(out, 128 + JOB_DEAD, 1);
    put(out, 100, 2);
    put(out, 3, 4);
    for (int i = 0; i < 5; i++)
        put(out, 0, 6);
    put(out, error.len, 2);
    buffer_append_slice(out, error);
    buffer_append_slice(out, history);
}

static bool unpack_shown(struct buffer *attempt, struct slice error, struct slice history,
                         struct job *out)
{
    struct slice record = slice_make("\0\0\x64\0\0\0\0\0\1\0\0\0\0\0\1b", 16);

    put_shown(attempt, error, history);
    return redis_unpack_job(record, buffer_slice(attempt), 0, 0, out);
}

CLAIM(a_history_follows_the_error)
{
    struct job_attempt first = {.attempt = 1,
                                .started_ms = 1700000000000,
                                .duration_ms = 30,
                                .outcome = JOB_OUTCOME_LEASE_ENDED,
                                .error = slice_of("lease ended")};
    char one[JOB_HISTORY_BYTES_MAX], two[JOB_HISTORY_BYTES_MAX], long_error[257];
    struct slice history = slice_make(one, job_history_add((struct slice){0}, &first, one));
    struct buffer attempt;
    struct job job;

    first.attempt = 2;
    history = slice_make(two, job_history_add(history, &first, two));
    buffer_init(&attempt, SIZE_MAX / 2);
    assert_true(unpack_shown(&attempt, slice_of("why"), history, &job));
    assert_int_equal(job.state, JOB_DEAD);
    assert_int_equal(job.attempt, 3);
    assert_true(slice_is(job.error, "why"));
    assert_true(slice_equals(job.history, history));
    assert_true(unpack_shown(&attempt, slice_of(""), history, &job));
    assert_int_equal(job.error.len, 0);
    /* Unreadable parts of it do not prevent access to the job. */
    assert_true(unpack_shown(&attempt, slice_of("why"), slice_make(two, history.len - 1), &job));
    assert_int_equal(job.history.len, history.len / 2);
    memset(long_error, 'e', sizeof long_error);
    assert_true(unpack_shown(&attempt, slice_make(long_error, 256), history, &job));
    assert_false(unpack_shown(&attempt, slice_make(long_error, 257), history, &job));
    buffer_fini(&attempt);
}

/* Unpacks a copy in memory that ends with the text, so that the sanitizer detects a read beyond it. */
static bool unpack_copy(struct slice record, struct slice attempt, struct job *out)
{
    char *a = malloc(record.len + 1), *b = malloc(attempt.len + 1);
    bool good;

    assert_true(a && b);
    a = realloc(a, record.len ? record.len : 1);
    b = realloc(b, attempt.len ? attempt.len : 1);
    if (record.len)
        memcpy(a, record.at, record.len);
    if (attempt.len)
        memcpy(b, attempt.at, attempt.len);
    good = redis_unpack_job(slice_make(a, record.len), slice_make(b, attempt.len), 0, 0, out);
    free(a);
    free(b);
    return good;
}

CLAIM(truncated_or_damaged_input_is_never_read_past_its_end)
{
    struct random random = seed_random(__func__);
    struct buffer args, record, attempt;
    struct job job;

    buffer_init(&args, SIZE_MAX / 2);
    buffer_init(&record, 1 << 20);
    buffer_init(&attempt, 1 << 20);
    for (int round = 0; round < BROKEN_ROUNDS; round++) {
        struct queue_push push = a_push(&random);
        struct packed_push packed = packed_push(&args, &push, false);
        size_t fixed;

        make_record(&record, &packed, 100, 1, 1000);
        buffer_clear(&attempt);
        for (int i = 0; i < 37; i++)
            put(&attempt, i ? random_next(&random) & 255 : JOB_LEASED, 1);
        assert_true(unpack_copy(buffer_slice(&record), buffer_slice(&attempt), &job));
        fixed = record.len - push.body.len;
        for (size_t len = 0; len < fixed; len++)
            assert_false(unpack_copy(slice_make(record.at, len), buffer_slice(&attempt), &job));
        for (size_t len = 1; len < attempt.len; len++)
            assert_false(unpack_copy(buffer_slice(&record), slice_make(attempt.at, len), &job));
        mutate(&record, &random, slice_of(""));
        mutate(&attempt, &random, slice_of(""));
        (void)unpack_copy(buffer_slice(&record), buffer_slice(&attempt), &job);
    }
    buffer_fini(&args);
    buffer_fini(&record);
    buffer_fini(&attempt);
}

CLAIM(a_job_must_be_in_a_state)
{
    struct job job;
    char record[16] = {0};

    assert_true(redis_unpack_job(slice_make(record, 15), slice_of(""), JOB_READY, 0, &job));
    assert_false(redis_unpack_job(slice_make(record, 15), slice_of(""), 0, 0, &job));
    assert_false(redis_unpack_job(slice_make(record, 15), slice_of(""), JOB_FINISHED, 0, &job));
    assert_false(redis_unpack_job(slice_make(record, 15), slice_of(""), 9, 0, &job));
    record[0] = 16; /* a past is not stored */
    assert_false(redis_unpack_job(slice_make(record, 15), slice_of(""), JOB_READY, 0, &job));
}

CLAIM(a_common_content_type_takes_one_byte)
{
    static const struct {
        const char *type;
        size_t bytes; /* with its length or number */
    } cases[] = {{"application/json", 1},
                 {"text/plain", 1},
                 {"application/msgpack", 1},
                 {"Text/plain", 11},
                 {"text/plain;a=b", 15},
                 {"application/jso", 16},
                 {"", 0},
                 {"application/json ", 18}};
    struct buffer args, record;

    buffer_init(&args, SIZE_MAX / 2);
    buffer_init(&record, SIZE_MAX / 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct queue_push push = {.topic = slice_of("t"),
                                  .id = slice_of("a"),
                                  .content_type = slice_of(cases[i].type),
                                  .body = slice_of("body"),
                                  .priority = QUEUE_PRIORITY_UNSET,
                                  .when = {.due = QUEUE_DUE_NOW}};
        struct packed_push packed = packed_push(&args, &push, false);
        struct job job;

        assert_int_equal(packed.tail.len, cases[i].bytes + 4);
        make_record(&record, &packed, 100, 1, 1);
        assert_true(redis_unpack_job(buffer_slice(&record), slice_of(""), JOB_READY, 0, &job));
        assert_true(slice_equals(job.content_type, push.content_type));
        assert_true(slice_equals(job.body, push.body));
    }
    buffer_fini(&args);
    buffer_fini(&record);
}

/* ---- topics ---- */

static struct flow_limits some_limits(struct random *random)
{
    struct flow_limits limits = {.limit = (uint32_t)random_below(random, 1000000),
                                 .burst = (uint32_t)random_below(random, 1000)};
    if (random_below(random, 2))
        limits.rate = (struct frequency){1 + (uint32_t)random_below(random, 1000000),
                                         (enum frequency_unit)(1 + random_below(random, 3))};
    return limits;
}

static void same_flow_limits(const struct flow_limits *a, const struct flow_limits *b)
{
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->burst, b->burst);
    assert_true(frequency_equal(a->rate, b->rate));
}

static struct topic_settings some_settings(struct random *random)
{
    struct topic_settings settings = {.policy = a_policy(random),
                                      .on_conflict = (enum record_conflict)random_below(random, 4),
                                      .has_priority = random_below(random, 2),
                                      .dead_letter_expired = random_below(random, 2),
                                      .dedup_window_ms = (int64_t)below_48_bits(random)};

    if (settings.has_priority)
        settings.priority = (int32_t)random_below(random, JOB_PRIORITY_MAX + 1);
    if (random_below(random, 2))
        settings.max_jobs = random_below(random, TOPIC_JOBS_MAX + 1);
    if (random_below(random, 2))
        settings.push_rate = (struct frequency){1 + (uint32_t)random_below(random, 1000000),
                                                (enum frequency_unit)(1 + random_below(random, 3))};
    if (random_below(random, 2))
        settings.flow = (struct topic_flow){
            .topic = some_limits(random), .group = some_limits(random), .group_max_jobs = 7};
    return settings;
}

CLAIM(settings_come_back_with_the_topic)
{
    struct random random = seed_random(__func__);
    static char long_text[TOPIC_EXTENSION_BYTES_MAX];
    struct buffer args, text;

    memset(long_text, '{', sizeof long_text);
    buffer_init(&args, SIZE_MAX / 2);
    buffer_init(&text, SIZE_MAX / 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct topic_settings settings = some_settings(&random);
        struct slice extension = slice_make(long_text, round % 2 ? sizeof long_text : 0);
        struct queue_topic topic;
        struct slice rest, packed;

        buffer_clear(&args);
        redis_pack_settings(&args, &settings);
        rest = buffer_slice(&args);
        packed = next_arg(&rest);
        buffer_clear(&text);
        put(&text, 1, 1);
        put(&text, 500000, 6);
        for (uint64_t i = 1; i <= 17; i++)
            put(&text, i * 1000, 6);
        put(&text, packed.len, 1);
        buffer_append_slice(&text, packed);
        size_t bare = text.len;
        buffer_append_slice(&text, extension);
        assert_true(redis_unpack_topic(buffer_slice(&text), adjust_ms, &topic));
        assert_true(topic.paused);
        assert_int_equal(topic.paused_until_ms, 500000 - adjust_ms);
        assert_int_equal(topic.counts.delayed, 1000);
        assert_int_equal(topic.counts.dead, 5000);
        assert_int_equal(topic.counts.dead_bytes, 6000);
        assert_int_equal(topic.totals.pushed, 7000);
        assert_int_equal(topic.totals.redriven, 16000);
        assert_int_equal(topic.oldest_ready_due_ms, 17000 - adjust_ms);
        assert_true(slice_equals(topic.settings.extension, extension));
        same_policy(&topic.settings.policy, &settings.policy);
        assert_int_equal(topic.settings.on_conflict, settings.on_conflict);
        assert_int_equal(topic.settings.has_priority, settings.has_priority);
        assert_int_equal(topic.settings.priority, settings.priority);
        assert_int_equal(topic.settings.dead_letter_expired, settings.dead_letter_expired);
        assert_int_equal(topic.settings.dedup_window_ms, settings.dedup_window_ms);
        assert_int_equal(topic.settings.max_jobs, settings.max_jobs);
        assert_true(frequency_equal(topic.settings.push_rate, settings.push_rate));
        same_flow_limits(&topic.settings.flow.topic, &settings.flow.topic);
        same_flow_limits(&topic.settings.flow.group, &settings.flow.group);
        assert_int_equal(topic.settings.flow.group_max_jobs, settings.flow.group_max_jobs);
        for (size_t len = 0; len < bare; len++)
            assert_false(redis_unpack_topic(slice_make(text.at, len), 0, &topic));
        if (extension.len == TOPIC_EXTENSION_BYTES_MAX) {
            buffer_append_byte(&text, ' ');
            assert_false(redis_unpack_topic(buffer_slice(&text), 0, &topic));
        }
    }
    buffer_fini(&args);
    buffer_fini(&text);
}

CLAIM(a_topic_shows_how_many_jobs_are_held)
{
    struct buffer text;
    struct queue_topic topic;

    buffer_init(&text, SIZE_MAX / 2);
    put(&text, 4, 1);
    put(&text, 0, 6);
    for (uint64_t i = 1; i <= 17; i++)
        put(&text, i, 6);
    put(&text, 9, 4);
    put(&text, 2, 1);
    put(&text, FLOW_HELD_GROUP_LIMIT, 1);
    put(&text, 3, 6);
    put(&text, FLOW_HELD_HOLD, 1);
    put(&text, 2, 6);
    put(&text, 0, 1);
    assert_true(redis_unpack_topic(buffer_slice(&text), 0, &topic));
    assert_int_equal(topic.groups, 9);
    assert_int_equal(topic.counts.held, 5);
    assert_int_equal(topic.held_by[FLOW_HELD_GROUP_LIMIT], 3);
    assert_int_equal(topic.held_by[FLOW_HELD_HOLD], 2);
    assert_int_equal(topic.counts.finished, 0);
    buffer_fini(&text);
}

/* ---- groups ---- */

CLAIM(settings_of_a_group_come_back_with_it)
{
    struct random random = seed_random(__func__);
    struct buffer args, text;

    buffer_init(&args, SIZE_MAX / 2);
    buffer_init(&text, SIZE_MAX / 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct group_settings settings = {.weight =
                                              (uint32_t)random_below(&random, GROUP_WEIGHT_MAX + 1),
                                          .limits = some_limits(&random),
                                          .paused = random_below(&random, 2),
                                          .paused_until_ms = (int64_t)below_48_bits(&random)};
        struct queue_group group;

        buffer_clear(&args);
        redis_pack_group(&args, &settings);
        struct slice rest = buffer_slice(&args);
        buffer_clear(&text);
        put(&text, 11, 6);
        put(&text, 22, 6);
        put(&text, FLOW_HELD_HOLD, 1);
        put(&text, 500000, 6);
        put(&text, 600000, 6);
        size_t bare = text.len;
        buffer_append_slice(&text, next_arg(&rest));
        assert_true(redis_unpack_group(buffer_slice(&text), adjust_ms, &group));
        assert_int_equal(group.ready, 11);
        assert_int_equal(group.leased, 22);
        assert_int_equal(group.held_by, FLOW_HELD_HOLD);
        assert_int_equal(group.held_until_ms, 500000 - adjust_ms);
        assert_int_equal(group.oldest_ready_due_ms, 600000 - adjust_ms);
        assert_true(group.has_settings);
        assert_int_equal(group.settings.weight, settings.weight);
        same_flow_limits(&group.settings.limits, &settings.limits);
        assert_int_equal(group.settings.paused, settings.paused);
        assert_int_equal(group.settings.paused_until_ms, settings.paused_until_ms);
        for (size_t len = 0; len < text.len; len++)
            assert_int_equal(redis_unpack_group(slice_make(text.at, len), 0, &group), len == bare);
    }
    buffer_fini(&args);
    buffer_fini(&text);
}

CLAIM(an_unknown_reason_of_a_held_job_is_rejected)
{
    struct queue_job job = {0};

    assert_true(redis_unpack_held(slice_of(""), adjust_ms, &job));
    assert_int_equal(job.held_by, FLOW_NOT_HELD);
    assert_true(redis_unpack_held(slice_make("\2\0\0\0\0\0\0", 7), adjust_ms, &job));
    assert_int_equal(job.held_by, FLOW_HELD_RATE);
    assert_int_equal(job.held_until_ms, 0);
    assert_false(redis_unpack_held(slice_make("\10\0\0\0\0\0\0", 7), adjust_ms, &job));
}

CLAIMS_MAIN(NULL, NULL)
