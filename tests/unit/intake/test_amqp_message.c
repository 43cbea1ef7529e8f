#include "intake/amqp/message.h"
#include "intake/amqp/source.h"
#include "targets/amqp/message.h"
#include "targets/target.h"
#include "trace/carry.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <amqp.h>
#include <stdlib.h>

/* ---- addresses ---- */

CLAIM(a_source_is_a_url_with_a_queue)
{
    static const char text[] = "AMQP://MQ.example:5673/a%2Fb?queue=in%20box&topic=t&prefetch=7";
    struct amqp_in_source source;
    char error[INTAKE_ERROR_BYTES];
    assert_true(amqp_in_source_parse(slice_of(text), &source, error));
    assert_string_equal(source.broker.at.host, "mq.example");
    assert_int_equal(source.broker.at.port, 5673);
    assert_string_equal(source.broker.vhost, "a/b");
    assert_string_equal(source.broker.at.origin, "amqp://mq.example:5673");
    assert_string_equal(source.queue, "in box");
    assert_string_equal(source.topic, "t");
    assert_int_equal(source.prefetch, 7);
    assert_false(source.has_exchange);
    assert_true(slice_is(source.place, "AMQP://MQ.example:5673/a%2Fb"));
}

CLAIM(missing_parts_have_defaults)
{
    struct amqp_in_source source;
    char error[INTAKE_ERROR_BYTES];
    assert_true(amqp_in_source_parse(slice_of("amqps://[::1]?queue=q&exchange="), &source, error));
    assert_true(source.broker.at.is_tls);
    assert_int_equal(source.broker.at.port, 5671);
    assert_string_equal(source.broker.at.host, "::1");
    assert_string_equal(source.broker.at.origin, "amqps://[::1]:5671");
    assert_string_equal(source.broker.vhost, "/");
    assert_string_equal(source.topic, "amqp-in");
    assert_int_equal(source.prefetch, AMQP_IN_PREFETCH);
    assert_true(source.has_exchange);
}

CLAIM(an_invalid_source_is_rejected_with_advice)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"amqp://h/", "add ?queue=NAME"},
        {"amqp://h/?queue=", "name of a queue"},
        {"amqp://h/?queue=q&colour=red", "unknown parameter"},
        {"amqp://h/?queue=q&prefetch=0", "from 1 to 4096"},
        {"amqp://h/?queue=q&prefetch=4097", "from 1 to 4096"},
        {"amqp://h/?queue=q&topic=.x", "name of a topic"},
        {"amqp://h/?queue", "NAME=VALUE"},
        {"amqp://h/?queue=%zz", "percent-encoded"},
        {"amqp://u:p@h/?queue=q", "policy file"},
        {"amqp://h:0/?queue=q", "1 to 65535"},
        {"amqp:///?queue=q", "no host in it"},
        {"amqp://[::1/?queue=q", "IPv6 address is malformed"},
        {"amqp://h/a/b?queue=q", "virtual host"},
        {"http://h/?queue=q", "not a URL of amqp or amqps"},
    };
    struct amqp_in_source source;
    char error[INTAKE_ERROR_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        error[0] = '\0';
        if (amqp_in_source_parse(slice_of(cases[i].text), &source, error) ||
            !strstr(error, cases[i].word))
            fail_msg("'%s': '%s' does not say '%s'", cases[i].text, error, cases[i].word);
    }
}

/* ---- delays ---- */

#define YEAR_MS (365LL * 24 * 3600 * 1000)
#define FIELD(KIND, MEMBER, VALUE)                                                                 \
    {                                                                                              \
        .kind = AMQP_FIELD_KIND_##KIND, .value.MEMBER = (VALUE)                                    \
    }
#define TEXT(VALUE) FIELD(UTF8, bytes, ((amqp_bytes_t){sizeof(VALUE) - 1, (void *)(VALUE)}))

CLAIM(a_delay_may_be_any_number)
{
    static const struct {
        amqp_field_value_t field;
        enum queue_due due; /* 0: refused */
        int64_t ms;
    } cases[] = {
        {FIELD(I8, i8, 100), QUEUE_DUE_DELAY, 100},
        {FIELD(U8, u8, 200), QUEUE_DUE_DELAY, 200},
        {FIELD(I16, i16, 30000), QUEUE_DUE_DELAY, 30000},
        {FIELD(U16, u16, 60000), QUEUE_DUE_DELAY, 60000},
        {FIELD(I32, i32, 2000000000), QUEUE_DUE_DELAY, 2000000000},
        {FIELD(U32, u32, 4000000000), QUEUE_DUE_DELAY, 4000000000},
        {FIELD(I64, i64, 10 * YEAR_MS), QUEUE_DUE_DELAY, 10 * YEAR_MS},
        {FIELD(I64, i64, 11 * YEAR_MS), 0, 0},
        {FIELD(I64, i64, INT64_MAX), 0, 0},
        {FIELD(U64, u64, UINT64_MAX), 0, 0},
        {FIELD(I64, i64, INT64_MIN), QUEUE_DUE_NOW, 0},
        {FIELD(I32, i32, -1), QUEUE_DUE_NOW, 0},
        {FIELD(I32, i32, 0), QUEUE_DUE_NOW, 0},
        {FIELD(F64, f64, 700.2), QUEUE_DUE_DELAY, 701},
        {FIELD(F32, f32, 0.5F), QUEUE_DUE_DELAY, 1},
        {FIELD(F64, f64, 1e300), 0, 0},
        {FIELD(F64, f64, -1e300), QUEUE_DUE_NOW, 0},
        {FIELD(F64, f64, __builtin_nan("")), 0, 0},
        {TEXT("1500"), QUEUE_DUE_DELAY, 1500},
        {TEXT("-1500"), QUEUE_DUE_NOW, 0},
        {TEXT("1.5"), 0, 0},
        {TEXT(""), 0, 0},
        {TEXT("99999999999999999999"), 0, 0},
        {FIELD(BOOLEAN, boolean, 1), 0, 0},
        {FIELD(VOID, u8, 0), 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        amqp_table_entry_t entry = {amqp_cstring_bytes(INTAKE_HEADER_DELAY), cases[i].field};
        const amqp_table_t headers = {1, &entry};
        struct queue_when when = {0};
        char why[INTAKE_ERROR_BYTES];
        bool ok = amqp_in_delay_read(&headers, &when, why);
        if (ok != (cases[i].due != 0) ||
            (ok && (when.due != cases[i].due || when.ms != cases[i].ms)))
            fail_msg("case %zu: %d, due %d after %lld ms", i, ok, (int)when.due,
                     (long long)when.ms);
    }
}

CLAIM(a_time_beats_a_delay)
{
    static const struct {
        amqp_field_value_t field;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {FIELD(I64, i64, 1700000000123), 1700000000123},
        {FIELD(TIMESTAMP, u64, 1700000000), 1700000000000},
        {TEXT("2023-11-14T22:13:20.123Z"), 1700000000123},
        {TEXT("1700000000123"), 1700000000123},
        {TEXT("tomorrow"), -1},
        {FIELD(I64, i64, -5), -1},
        {FIELD(I64, i64, 1700000000), -1}, /* seconds, it seems */
        {TEXT("1700000000"), -1},
        {FIELD(TIMESTAMP, u64, UINT64_MAX), -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        amqp_table_entry_t entries[] = {
            {amqp_cstring_bytes(INTAKE_HEADER_DELAY), FIELD(I32, i32, 5)},
            {amqp_cstring_bytes(INTAKE_HEADER_AT), cases[i].field}};
        const amqp_table_t headers = {2, entries};
        struct queue_when when = {0};
        char why[INTAKE_ERROR_BYTES];
        bool ok = amqp_in_delay_read(&headers, &when, why);
        if (ok != (cases[i].ms >= 0) ||
            (ok && (when.due != QUEUE_DUE_AT || when.ms != cases[i].ms)))
            fail_msg("case %zu: %d, %lld", i, ok, (long long)when.ms);
    }
}

/* ---- messages ---- */

/* A message that is made into a job and published again, in memory. */
struct rig {
    struct amqp_in_source source;
    amqp_envelope_t envelope;
    amqp_table_entry_t headers[4];
    struct intake_job *job;
};

static void rig_make(struct rig *rig, const char *exchange)
{
    char error[INTAKE_ERROR_BYTES];
    *rig = (struct rig){0};
    assert_true(amqp_in_source_parse(slice_of("amqp://h/?queue=q"), &rig->source, error));
    rig->headers[0] = (amqp_table_entry_t){amqp_cstring_bytes("x-delay"), FIELD(I32, i32, 50)};
    rig->headers[1] =
        (amqp_table_entry_t){amqp_cstring_bytes("x-delivery-count"), FIELD(I64, i64, 1)};
    rig->headers[2] = (amqp_table_entry_t){amqp_cstring_bytes("mine"), TEXT("kept")};
    rig->envelope = (amqp_envelope_t){
        .delivery_tag = 1,
        .exchange = amqp_cstring_bytes(exchange),
        .routing_key = amqp_cstring_bytes("key"),
        .message = {.body = amqp_cstring_bytes("body"),
                    .properties = {._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                                             AMQP_BASIC_USER_ID_FLAG,
                                   .message_id = amqp_cstring_bytes("the id"),
                                   .user_id = amqp_cstring_bytes("somebody"),
                                   .headers = {3, rig->headers}}}};
}

static void rig_take(struct rig *rig)
{
    char why[INTAKE_ERROR_BYTES];
    assert_int_equal(amqp_in_message_take(&rig->source, &rig->envelope, &rig->job, why),
                     INTAKE_TAKEN);
}

CLAIM(a_message_once_more_has_the_same_id_and_any_other_another)
{
    struct rig first, again, other;
    rig_make(&first, "e.delayed");
    rig_make(&again, "e.delayed");
    rig_make(&other, "e.delayed");
    again.headers[1].value.value.i64 = 2; /* a quorum queue counts */
    other.envelope.message.body = amqp_cstring_bytes("other");
    rig_take(&first);
    rig_take(&again);
    rig_take(&other);
    assert_true(job_id_is_valid(first.job->id));
    assert_memory_equal(first.job->id.at, "the_id-", 7);
    assert_true(slice_equals(first.job->id, again.job->id));
    assert_false(slice_equals(first.job->id, other.job->id));
    free(first.job);
    free(again.job);
    free(other.job);
}

static const amqp_table_entry_t *find_header(const amqp_table_t *headers, const char *name)
{
    for (int i = 0; i < headers->num_entries; i++)
        if (slice_is(slice_make(headers->entries[i].key.bytes, headers->entries[i].key.len), name))
            return &headers->entries[i];
    return NULL;
}

CLAIM(a_message_is_published_with_its_properties)
{
    struct rig rig;
    amqp_pool_t pool;
    amqp_basic_properties_t out;
    rig_make(&rig, "e.delayed");
    rig_take(&rig);
    const struct job job = {.topic = slice_of("amqp-in"),
                            .id = rig.job->id,
                            .attempt = 1,
                            .meta = rig.job->meta,
                            .body = rig.job->body};
    struct target_amqp_message *message =
        target_amqp_message_new(&job, (struct slice){0}, slice_of("e"), slice_of("key"));
    init_amqp_pool(&pool, 4096);
    assert_true(target_amqp_message_properties(message, &pool, &out));
    assert_int_equal(out._flags, AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG);
    assert_int_equal(out.headers.num_entries, 2 + 4);
    assert_int_equal(find_header(&out.headers, "x-delay")->value.value.i32, -50);
    assert_non_null(find_header(&out.headers, "mine"));
    assert_null(find_header(&out.headers, "x-delivery-count"));
    assert_true(target_amqp_message_is(message, &out));
    empty_amqp_pool(&pool);
    free(message);
    free(rig.job);
}

#define PARENT(SPAN) "00-4bf92f3577b34da6a3ce929d0e0e4736-" SPAN "-01"

CLAIM(the_context_of_its_trace_goes_along)
{
    struct rig plain, traced;
    amqp_pool_t pool;
    amqp_basic_properties_t out;
    struct trace_context context;
    struct slice states;
    struct buffer meta;
    rig_make(&plain, "e.delayed");
    rig_make(&traced, "e.delayed");
    traced.headers[2] =
        (amqp_table_entry_t){amqp_cstring_bytes("traceparent"), TEXT(PARENT("00f067aa0ba902b7"))};
    rig_take(&plain);
    rig_take(&traced);
    assert_false(trace_meta_find(plain.job->meta, &context, &states));
    assert_true(trace_meta_find(traced.job->meta, &context, &states));
    assert_true(context.span == UINT64_C(0x00f067aa0ba902b7) && context.is_sampled);

    /* A span of tarry's own is the parent by now. */
    buffer_init(&meta, JOB_META_BYTES_MAX);
    struct slice name, value;
    for (size_t at = 0; job_meta_next(traced.job->meta, &at, &name, &value);)
        assert_int_equal(job_meta_add(&meta, name,
                                      slice_is(name, JOB_META_TRACEPARENT)
                                          ? slice_of(PARENT("1111111111111111"))
                                          : value),
                         JOB_META_OK);
    const struct job job = {.topic = slice_of("amqp-in"),
                            .id = traced.job->id,
                            .attempt = 1,
                            .meta = buffer_slice(&meta),
                            .body = traced.job->body};
    struct target_amqp_message *message =
        target_amqp_message_new(&job, (struct slice){0}, slice_of("e"), slice_of("key"));
    init_amqp_pool(&pool, 4096);
    assert_true(target_amqp_message_properties(message, &pool, &out));
    const amqp_table_entry_t *header = find_header(&out.headers, "traceparent");
    assert_non_null(header);
    assert_true(slice_is(slice_make(header->value.value.bytes.bytes, header->value.value.bytes.len),
                         PARENT("1111111111111111")));
    empty_amqp_pool(&pool);
    buffer_fini(&meta);
    free(message);
    free(plain.job);
    free(traced.job);
}

CLAIM(invalid_properties_are_rejected)
{
    static const char *const spoiled[] = {"", "AA==", "////////", "no base64"};
    for (size_t i = 0; i < sizeof spoiled / sizeof spoiled[0]; i++) {
        struct buffer meta;
        amqp_pool_t pool;
        amqp_basic_properties_t out;
        buffer_init(&meta, JOB_META_BYTES_MAX);
        assert_int_equal(
            job_meta_add(&meta, slice_of(TARGET_AMQP_META_PROPERTIES "1"), slice_of(spoiled[i])),
            JOB_META_OK);
        const struct job job = {
            .topic = slice_of("t"), .id = slice_of("i"), .meta = buffer_slice(&meta)};
        struct target_amqp_message *message =
            target_amqp_message_new(&job, (struct slice){0}, slice_of(""), slice_of(""));
        init_amqp_pool(&pool, 4096);
        assert_false(target_amqp_message_properties(message, &pool, &out));
        empty_amqp_pool(&pool);
        free(message);
        buffer_fini(&meta);
    }
}

CLAIMS_MAIN(NULL, NULL)
