/* Answers, decoded by the generated code, and requests as options. */
#include "grpc/arena.h"
#include "grpc/encode.h"
#include "grpc/fields.h"
#include "grpc/wire.h"

#include "unit/claim.h"

#include <stdlib.h>
#include <string.h>

static struct buffer out;

static int set_up(void **state)
{
    (void)state;
    buffer_init(&out, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buffer_fini(&out);
    return 0;
}

static void *decode(const ProtobufCMessageDescriptor *message)
{
    void *decoded = protobuf_c_message_unpack(message, NULL, out.len, (const uint8_t *)out.at);
    assert_non_null(decoded);
    return decoded;
}

static struct slice meta_of(struct buffer *into, const char *name, const char *value)
{
    buffer_init(into, 1000);
    assert_int_equal(job_meta_add(into, slice_of(name), slice_of(value)), JOB_META_OK);
    return buffer_slice(into);
}

CLAIM_BETWEEN(writes_a_taken_job, set_up, tear_down)
{
    struct buffer meta;
    const struct queue_job job = {.job = {.topic = slice_of("mail"),
                                          .id = slice_of("a"),
                                          .body = slice_make("x\0y", 3),
                                          .content_type = slice_of("text/plain"),
                                          .meta = meta_of(&meta, "kind", "caf\xc3\xa9"),
                                          .attempt = 2,
                                          .delivery = 300,
                                          .priority = 7,
                                          .due_ms = 1700000000123,
                                          .lease_until_ms = 1700000060000},
                                  .lease = slice_of("L1")};
    encode_job(&out, &job, true);
    Tarry__V1__Job *read = decode(&tarry__v1__job__descriptor);
    assert_string_equal(read->topic, "mail");
    assert_string_equal(read->id, "a");
    assert_string_equal(read->lease, "L1");
    assert_int_equal(read->body.len, 3);
    assert_memory_equal(read->body.data, "x\0y", 3);
    assert_string_equal(read->content_type, "text/plain");
    assert_int_equal(read->attempt, 2);
    assert_int_equal(read->delivery, 300);
    assert_int_equal(read->priority, 7);
    assert_int_equal(read->due_at->seconds, 1700000000);
    assert_int_equal(read->due_at->nanos, 123000000);
    assert_int_equal(read->lease_until->seconds, 1700000060);
    assert_int_equal(read->n_meta, 1);
    assert_string_equal(read->meta[0]->key, "kind");
    assert_string_equal(read->meta[0]->value, "caf\xc3\xa9");
    assert_int_equal(read->state, 0);
    protobuf_c_message_free_unpacked(&read->base, NULL);
    buffer_fini(&meta);
}

CLAIM_BETWEEN(writes_a_kept_job, set_up, tear_down)
{
    const struct queue_job job = {
        .job = {.topic = slice_of("mail"),
                .id = slice_of("a"),
                .state = JOB_DEAD,
                .error = slice_of("bad \xff byte"),
                .consumer = slice_of("w1"),
                .cancel_requested = true,
                .policy = {
                    .ttl_ms = 1500,
                    .lease_ms = 60000,
                    .max_attempts = POLICY_ATTEMPTS_NONE,
                    .backoff = {.kind = BACKOFF_EXPONENTIAL, .first_ms = 1000, .max_ms = 600000}}}};
    encode_job(&out, &job, false);
    Tarry__V1__Job *read = decode(&tarry__v1__job__descriptor);
    assert_int_equal(read->state, TARRY__V1__STATE__STATE_DEAD);
    assert_string_equal(read->error, "bad ? byte");
    assert_string_equal(read->consumer, "w1");
    assert_true(read->cancel_requested);
    assert_int_equal(read->ttl->nanos, 500000000);
    assert_int_equal(read->lease_for->seconds, 60);
    assert_true(read->max_attempts->unlimited);
    assert_string_equal(read->backoff, "exp:1s..10m");
    protobuf_c_message_free_unpacked(&read->base, NULL);
}

CLAIM_BETWEEN(writes_the_batches_of_a_job, set_up, tear_down)
{
    char encoded[JOB_BATCH_BYTES_MAX];
    const struct job_batch member = {
        .topic = slice_of("reports"), .id = slice_of("r"), .number = 7, .depth = 1};
    const struct queue_waiting waiting = {
        .counts = {.of = {3, 4, 2, 5, 6}}, .on_dead = BATCH_HOLD, .is_closed = true};
    const struct queue_job job = {
        .job = {.topic = slice_of("mail"),
                .id = slice_of("a"),
                .batch = slice_make(encoded, job_batch_encode(&member, encoded))},
        .waiting = &waiting};
    encode_job(&out, &job, false);
    Tarry__V1__Job *read = decode(&tarry__v1__job__descriptor);
    assert_string_equal(read->batch->topic, "reports");
    assert_string_equal(read->batch->id, "r");
    assert_int_equal(read->waiting->waits_for, 5);
    assert_true(read->waiting->closed);
    assert_false(read->waiting->ended);
    assert_int_equal(read->waiting->unfinished, 3);
    assert_int_equal(read->waiting->acked, 4);
    assert_int_equal(read->waiting->dead, 2);
    assert_int_equal(read->waiting->cancelled, 5);
    assert_int_equal(read->waiting->expired, 6);
    protobuf_c_message_free_unpacked(&read->base, NULL);
}

CLAIM_BETWEEN(writes_the_size_of_a_result_that_is_left_out, set_up, tear_down)
{
    const struct queue_end end = {.outcome = JOB_END_ACKED, .omitted_bytes = 300};
    const struct queue_job job = {
        .job = {.topic = slice_of("sums"), .id = slice_of("a"), .state = JOB_FINISHED},
        .end = &end};
    encode_ended(&out, &job);
    Tarry__V1__Job *read = decode(&tarry__v1__job__descriptor);
    assert_string_equal(read->outcome, "acked");
    assert_int_equal(read->result_bytes, 300);
    assert_null(read->result);
    protobuf_c_message_free_unpacked(&read->base, NULL);
}

CLAIM_BETWEEN(writes_results, set_up, tear_down)
{
    static const struct {
        enum queue_status status;
        Tarry__V1__Result result;
    } rows[] = {
        {QUEUE_OK, TARRY__V1__RESULT__RESULT_OK},
        {QUEUE_CREATED, TARRY__V1__RESULT__RESULT_CREATED},
        {QUEUE_REPLACED, TARRY__V1__RESULT__RESULT_REPLACED},
        {QUEUE_EXISTED, TARRY__V1__RESULT__RESULT_EXISTED},
        {QUEUE_CANCELLED, TARRY__V1__RESULT__RESULT_CANCELLED},
        {QUEUE_REQUESTED, TARRY__V1__RESULT__RESULT_REQUESTED},
        {QUEUE_LEASED, TARRY__V1__RESULT__RESULT_UNSPECIFIED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct queue_result result = {.status = rows[i].status,
                                            .state = JOB_READY,
                                            .topic = slice_of("mail"),
                                            .id = slice_of("a"),
                                            .due_ms = 5000};
        buffer_clear(&out);
        encode_push_result(&out, &result);
        Tarry__V1__PushResult *pushed = decode(&tarry__v1__push_result__descriptor);
        assert_int_equal(pushed->result, rows[i].result);
        assert_true((pushed->problem != NULL) == !rows[i].result);
        if (pushed->problem)
            assert_string_equal(pushed->problem->code, "leased");
        assert_string_equal(pushed->id, "a");
        protobuf_c_message_free_unpacked(&pushed->base, NULL);

        buffer_clear(&out);
        encode_answer_result(&out, &result);
        Tarry__V1__AnswerResult *answered = decode(&tarry__v1__answer_result__descriptor);
        assert_int_equal(answered->result, rows[i].result);
        assert_int_equal(answered->state, TARRY__V1__STATE__STATE_READY);
        assert_int_equal(answered->due_at->seconds, 5);
        assert_true((answered->problem != NULL) == !rows[i].result);
        protobuf_c_message_free_unpacked(&answered->base, NULL);
    }
}

CLAIM_BETWEEN(writes_a_topic, set_up, tear_down)
{
    const struct queue_topic topic = {.name = slice_of("mail"),
                                      .paused = true,
                                      .paused_until_ms = 9000,
                                      .counts = {1, 2, 3, 4, 5, 6},
                                      .totals = {.pushed = 10, .redriven = 20},
                                      .oldest_ready_due_ms = 8000,
                                      .settings = {.policy = {.max_attempts = 3},
                                                   .on_conflict = CONFLICT_KEEP,
                                                   .has_priority = true,
                                                   .priority = 0,
                                                   .dead_letter_expired = true,
                                                   .dedup_window_ms = 60000,
                                                   .max_jobs = 1000,
                                                   .extension = slice_of("{\"deliver\":{}}")}};
    encode_topic(&out, &topic);
    Tarry__V1__Topic *read = decode(&tarry__v1__topic__descriptor);
    assert_string_equal(read->topic, "mail");
    assert_true(read->paused);
    assert_int_equal(read->paused_until->seconds, 9);
    assert_int_equal(read->counts->delayed, 1);
    assert_int_equal(read->counts->dead_bytes, 6);
    assert_int_equal(read->totals->pushed, 10);
    assert_int_equal(read->totals->redriven, 20);
    assert_int_equal(read->oldest_ready_due_at->seconds, 8);
    assert_int_equal(read->settings->max_attempts->value, 3);
    assert_int_equal(read->settings->on_conflict, TARRY__V1__ON_CONFLICT__ON_CONFLICT_KEEP);
    assert_non_null(read->settings->priority);
    assert_int_equal(read->settings->priority->value, 0);
    assert_true(read->settings->dead_letter_expired);
    assert_int_equal(read->settings->dedup_window->seconds, 60);
    assert_int_equal(read->settings->max_jobs, 1000);
    assert_string_equal(read->settings->extension, "{\"deliver\":{}}");
    protobuf_c_message_free_unpacked(&read->base, NULL);
}

CLAIM_BETWEEN(a_nested_message_has_its_length_whatever_was_expected, set_up, tear_down)
{
    static const size_t sizes[] = {0, 1, 127, 128, 300, 20000};
    char text[20000];
    memset(text, 'x', sizeof text);
    for (size_t expected = 0; expected < 6; expected++) {
        for (size_t i = 0; i < 6; i++) {
            struct wire_field field;
            size_t at = 0;
            buffer_clear(&out);
            size_t begin = wire_begin(&out, 9, sizes[expected]);
            buffer_append(&out, text, sizes[i]);
            wire_end(&out, begin);
            assert_true(wire_next(buffer_slice(&out), &at, &field));
            assert_int_equal(field.number, 9);
            assert_int_equal(field.bytes.len, sizes[i]);
            assert_int_equal(at, out.len);
        }
    }
}

/* ---- requests ---- */

static struct http_fields options;
static struct http_fault fault;

static struct fields fresh(void)
{
    options = (struct http_fields){0};
    return (struct fields){.out = &options, .fault = &fault};
}

CLAIM(a_started_millisecond_counts)
{
    static const struct {
        int64_t seconds;
        int32_t nanos;
        int64_t ms; /* -1: refused */
    } rows[] = {{0, 0, 0},          {0, 1, 1},         {0, 1000000, 1}, {0, 1000001, 2},
                {90, 0, 90000},     {-1, 0, -1},       {0, -1, -1},     {0, 1000000000, -1},
                {INT64_MAX, 0, -1}, {400000000, 0, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fields fields = fresh();
        Google__Protobuf__Duration duration = GOOGLE__PROTOBUF__DURATION__INIT;
        duration.seconds = rows[i].seconds;
        duration.nanos = rows[i].nanos;
        assert_int_equal(fields_duration(&fields, OPTION_DELAY, &duration), rows[i].ms >= 0);
        if (rows[i].ms >= 0)
            assert_int_equal(options.delay_ms, rows[i].ms);
        else
            assert_int_equal(fault.problem, PROBLEM_BAD_OPTION);
    }
}

CLAIM(reads_a_time)
{
    struct fields fields = fresh();
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    time.seconds = 1700000000;
    time.nanos = 1;
    assert_true(fields_time(&fields, OPTION_AT, &time));
    assert_int_equal(options.at_ms, 1700000000001);
    fields = fresh();
    time.seconds = -1;
    assert_false(fields_time(&fields, OPTION_AT, &time));
}

CLAIM(a_value_of_zero_differs_from_none)
{
    struct fields fields = fresh();
    Tarry__V1__Priority priority = TARRY__V1__PRIORITY__INIT;
    assert_true(fields_priority(&fields, NULL));
    assert_false(http_fields_have(&options, OPTION_PRIORITY));
    assert_true(fields_priority(&fields, &priority));
    assert_true(http_fields_have(&options, OPTION_PRIORITY));
    assert_int_equal(options.priority, 0);
}

CLAIM(rejects_numbers_of_unknown_enums)
{
    struct fields fields = fresh();
    assert_false(fields_conflict(&fields, (Tarry__V1__OnConflict)9));
    assert_false(fields_state(&fields, (Tarry__V1__State)-1));
    assert_true(fields_conflict(&fields, TARRY__V1__ON_CONFLICT__ON_CONFLICT_AFTER));
    assert_int_equal(options.on_conflict, CONFLICT_AFTER);
}

CLAIM(unknown_fields_are_ignored)
{
    /* Field 200, a text, beside the topic. */
    static const uint8_t bytes[] = {0x0a, 1, 't', 0xc2, 0x0c, 2, 'h', 'i'};
    struct arena arena;
    arena_init(&arena, sizeof bytes);
    Tarry__V1__TopicRequest *read = (void *)protobuf_c_message_unpack(
        &tarry__v1__topic_request__descriptor, &arena.allocator, sizeof bytes, bytes);
    assert_non_null(read);
    assert_string_equal(read->topic, "t");
    arena_fini(&arena);
}

CLAIM(a_message_of_empty_items_meets_the_limit_of_its_memory)
{
    enum { ITEMS = 500000 };
    uint8_t *bytes = malloc(2 * ITEMS);
    struct arena arena;
    assert_non_null(bytes);
    for (size_t i = 0; i < ITEMS; i++) {
        bytes[2 * i] = 0x0a;
        bytes[2 * i + 1] = 0;
    }
    arena_init(&arena, 2 * ITEMS);
    assert_null(protobuf_c_message_unpack(&tarry__v1__push_many_request__descriptor,
                                          &arena.allocator, 2 * ITEMS, bytes));
    assert_true(arena.is_full);
    arena_fini(&arena);
    free(bytes);
}

CLAIMS_MAIN(NULL, NULL)
