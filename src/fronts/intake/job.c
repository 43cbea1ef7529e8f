#include "intake/job.h"

#include "base/hash.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "targets/amqp/message.h"
#include "trace/carry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RETURNED_MS = 1000, /* minimum delay of a message that comes back without a new delay */
    PART_BYTES = 1024,  /* maximum size of a meta value */
    MESSAGE_ID_BYTES = 100
};
#define SUFFIX ".delayed"

const char *amqp_in_refusal_name(enum amqp_in_refusal refusal)
{
    static const char *const names[] = {
        [AMQP_IN_TAKEN] = "taken",
        [AMQP_IN_BAD_DELAY] = "bad_delay",
        [AMQP_IN_BAD_DESTINATION] = "bad_destination",
        [AMQP_IN_PROPERTIES_TOO_BIG] = "properties_too_big",
        [AMQP_IN_UNDECODABLE] = "undecodable",
        [AMQP_IN_NO_MEMORY] = "no_memory",
        [AMQP_IN_BODY_TOO_BIG] = "body_too_big",
        [AMQP_IN_BAD_JOB] = "bad_job",
    };
    assert((size_t)refusal < sizeof names / sizeof names[0]);
    return names[refusal];
}

/* ---- due time ---- */

/* The limit of numbers that a double represents exactly; longer delays do not exist. */
#define NUMBER_MAX (1LL << 53)

/* Returns the header of that name, or NULL. */
static amqp_table_entry_t *find_header(const amqp_table_t *headers, const char *name)
{
    for (int i = 0; i < headers->num_entries; i++)
        if (slice_is(slice_make(headers->entries[i].key.bytes, headers->entries[i].key.len), name))
            return &headers->entries[i];
    return NULL;
}

/* Converts a number, rounded up and limited to NUMBER_MAX. */
static bool clip_number(double number, int64_t *out)
{
    if (number != number)
        return false;
    if (number >= (double)NUMBER_MAX || number <= -(double)NUMBER_MAX) {
        *out = number > 0 ? NUMBER_MAX : -NUMBER_MAX;
        return true;
    }
    *out = (int64_t)number;
    *out += (double)*out < number;
    return true;
}

static bool read_number_text(struct slice text, int64_t *out)
{
    bool is_negative = text.len > 0 && text.at[0] == '-';
    uint64_t number;
    if (is_negative)
        text = slice_make(text.at + 1, text.len - 1);
    if (!text_parse_u64(text, INT64_MAX, &number))
        return false;
    *out = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool read_number(const amqp_field_value_t *field, int64_t *out)
{
    switch (field->kind) {
    case AMQP_FIELD_KIND_I8:
        *out = field->value.i8;
        return true;
    case AMQP_FIELD_KIND_U8:
        *out = field->value.u8;
        return true;
    case AMQP_FIELD_KIND_I16:
        *out = field->value.i16;
        return true;
    case AMQP_FIELD_KIND_U16:
        *out = field->value.u16;
        return true;
    case AMQP_FIELD_KIND_I32:
        *out = field->value.i32;
        return true;
    case AMQP_FIELD_KIND_U32:
        *out = field->value.u32;
        return true;
    case AMQP_FIELD_KIND_I64:
        *out = field->value.i64;
        return true;
    case AMQP_FIELD_KIND_U64:
        *out = field->value.u64 > INT64_MAX ? INT64_MAX : (int64_t)field->value.u64;
        return true;
    case AMQP_FIELD_KIND_F32:
        return clip_number((double)field->value.f32, out);
    case AMQP_FIELD_KIND_F64:
        return clip_number(field->value.f64, out);
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
        return read_number_text(slice_make(field->value.bytes.bytes, field->value.bytes.len), out);
    default:
        return false;
    }
}

/* Reads a time. A plain number before 1973 is read as seconds, which only an AMQP timestamp may
 * be. */
static bool read_time(const amqp_field_value_t *field, int64_t *out)
{
    if (field->kind == AMQP_FIELD_KIND_TIMESTAMP) { /* in seconds */
        if (field->value.u64 > INT64_MAX / 1000)
            return false;
        *out = (int64_t)field->value.u64 * 1000;
        return true;
    }
    if (read_number(field, out))
        return *out >= TIMESTAMP_BARE_MS_MIN;
    return (field->kind == AMQP_FIELD_KIND_UTF8 || field->kind == AMQP_FIELD_KIND_BYTES) &&
           timestamp_parse(slice_make(field->value.bytes.bytes, field->value.bytes.len), out);
}

bool amqp_in_delay_read(const amqp_table_t *headers, struct queue_when *out, char *why)
{
    const amqp_table_entry_t *at = find_header(headers, AMQP_IN_HEADER_AT);
    const amqp_table_entry_t *delay = find_header(headers, AMQP_IN_HEADER_DELAY);
    int64_t ms = 0;
    if (at && !read_time(&at->value, &ms)) {
        snprintf(why, AMQP_IN_ERROR_BYTES,
                 "header '%s' is not a time from 1973 on, give milliseconds (not seconds) since "
                 "1970, RFC 3339 or an AMQP timestamp",
                 AMQP_IN_HEADER_AT);
        return false;
    }
    if (!at && delay && !read_number(&delay->value, &ms)) {
        snprintf(why, AMQP_IN_ERROR_BYTES, "header '%s' is not a number, give milliseconds",
                 AMQP_IN_HEADER_DELAY);
        return false;
    }
    if (!at && ms > POLICY_DELAY_MS_MAX) {
        snprintf(why, AMQP_IN_ERROR_BYTES, "header '%s' is beyond 10 years", AMQP_IN_HEADER_DELAY);
        return false;
    }
    *out = (struct queue_when){.due = at       ? QUEUE_DUE_AT
                                      : ms > 0 ? QUEUE_DUE_DELAY
                                               : QUEUE_DUE_NOW,
                               .ms = at || ms > 0 ? ms : 0};
    return true;
}

/* Negates x-delay, as it is published. */
static void delay_negate(amqp_table_t *headers)
{
    amqp_table_entry_t *delay = find_header(headers, AMQP_IN_HEADER_DELAY);
    int64_t ms;
    if (!delay || !read_number(&delay->value, &ms) || ms <= 0)
        return;
    delay->value.kind = ms <= INT32_MAX ? AMQP_FIELD_KIND_I32 : AMQP_FIELD_KIND_I64;
    if (ms <= INT32_MAX)
        delay->value.value.i32 = -(int32_t)ms;
    else
        delay->value.value.i64 = -ms;
}

/* ---- destination ---- */

static struct slice slice_from(amqp_bytes_t bytes)
{
    return slice_make(bytes.bytes, bytes.len);
}

static struct slice text_header(const amqp_table_t *headers, const char *name, bool *found)
{
    const amqp_table_entry_t *entry = find_header(headers, name);
    *found = entry && (entry->value.kind == AMQP_FIELD_KIND_UTF8 ||
                       entry->value.kind == AMQP_FIELD_KIND_BYTES);
    return *found ? slice_from(entry->value.value.bytes) : (struct slice){0};
}

static struct slice without_suffix(struct slice exchange)
{
    size_t len = strlen(SUFFIX);
    if (exchange.len <= len || memcmp(exchange.at + exchange.len - len, SUFFIX, len) != 0)
        return (struct slice){0};
    return slice_make(exchange.at, exchange.len - len);
}

static bool find_destination(const struct amqp_in_source *source, const amqp_envelope_t *envelope,
                             const amqp_table_t *headers, struct slice *exchange, struct slice *key,
                             char *why)
{
    bool found;
    *exchange = text_header(headers, "x-exchange", &found);
    if (!found)
        *exchange = source->has_exchange ? slice_of(source->exchange)
                                         : without_suffix(slice_from(envelope->exchange));
    *exchange = target_amqp_exchange(*exchange);
    *key = text_header(headers, "x-routing-key", &found);
    if (!found)
        *key = slice_from(envelope->routing_key);
    if (exchange->len == 0 && slice_is(*key, source->queue)) {
        snprintf(why, AMQP_IN_ERROR_BYTES,
                 "it would return to queue '%s', give it the headers x-exchange and x-routing-key",
                 source->queue);
        return false;
    }
    if (exchange->len <= TARGET_AMQP_TEXT_BYTES_MAX && key->len <= TARGET_AMQP_TEXT_BYTES_MAX)
        return true;
    snprintf(why, AMQP_IN_ERROR_BYTES, "an exchange or a routing key is longer than 255 bytes");
    return false;
}

/* ---- meta ---- */

static bool add_meta(struct buffer *meta, const char *name, struct slice value)
{
    return value.len == 0 || job_meta_add(meta, slice_of(name), value) == JOB_META_OK;
}

static bool add_properties(struct buffer *meta, struct slice encoded)
{
    struct buffer text; /* json_write_base64 adds quotes */
    char name[sizeof(TARGET_AMQP_META_PROPERTIES) + 4];
    unsigned number = 0;
    buffer_init(&text, 2 * JOB_META_BYTES_MAX);
    json_write_base64(&text, encoded);
    bool ok = !text.failed;
    for (size_t at = 1; ok && at + 1 < text.len; at += PART_BYTES) {
        size_t left = text.len - 1 - at;
        snprintf(name, sizeof name, TARGET_AMQP_META_PROPERTIES "%u", ++number % 100);
        ok = add_meta(meta, name, slice_make(text.at + at, left < PART_BYTES ? left : PART_BYTES));
    }
    buffer_fini(&text);
    return ok;
}

/* Removes a header. job.h documents which properties are removed, and why. */
static void drop_header(amqp_table_t *headers, const char *name)
{
    amqp_table_entry_t *entry = find_header(headers, name);
    if (entry)
        *entry = headers->entries[--headers->num_entries];
}

/* Encodes the properties in wire format into `out`. Returns 0 if they do not fit. */
static size_t encode_properties(amqp_basic_properties_t *properties, char *out, size_t out_bytes)
{
    properties->_flags &= ~(amqp_flags_t)AMQP_BASIC_USER_ID_FLAG;
    if (properties->_flags & AMQP_BASIC_HEADERS_FLAG) {
        drop_header(&properties->headers, "x-delivery-count");
        delay_negate(&properties->headers);
    }
    int bytes = amqp_encode_properties(AMQP_BASIC_CLASS, properties,
                                       (amqp_bytes_t){.len = out_bytes, .bytes = out});
    return bytes > 0 ? (size_t)bytes : 0;
}

static enum amqp_in_refusal make_meta(amqp_basic_properties_t *properties, struct slice exchange,
                                      struct slice key, struct buffer *meta, char *why)
{
    char encoded[JOB_META_BYTES_MAX];
    size_t bytes = encode_properties(properties, encoded, sizeof encoded);
    if (!add_meta(meta, TARGET_AMQP_META_EXCHANGE, exchange) ||
        !add_meta(meta, TARGET_AMQP_META_ROUTING_KEY, key)) {
        snprintf(why, AMQP_IN_ERROR_BYTES, "its exchange or routing key is not UTF-8");
        return AMQP_IN_BAD_DESTINATION;
    }
    if (bytes > 0 && add_properties(meta, slice_make(encoded, bytes)))
        return AMQP_IN_TAKEN;
    snprintf(why, AMQP_IN_ERROR_BYTES, "its properties and headers are longer than about 2.5 KiB");
    return AMQP_IN_PROPERTIES_TOO_BIG;
}

/* Finds the trace context of the message; `at` is NULL for a missing part. */
static void find_trace(const amqp_table_t *headers, struct slice *parent, struct slice *state)
{
    bool found;
    *parent = text_header(headers, "traceparent", &found);
    *state = text_header(headers, "tracestate", &found);
}

/* Adds the trace context to the meta if it fits. */
static void add_trace(struct buffer *meta, struct slice parent, struct slice state)
{
    struct trace_carry carry;
    if (parent.len && trace_carry_set(&carry, parent, state))
        (void)trace_meta_add(meta, &carry);
}

/* ---- the job ---- */

/* Makes a job id for a message that has an id. A redelivered message gets the same job id;
 * different content gets a different one, even if a publisher reuses a message id. */
static size_t make_id(const amqp_basic_properties_t *properties, struct slice meta,
                      struct slice body, char out[JOB_ID_BYTES_MAX + 1])
{
    struct slice given = slice_from(properties->message_id);
    size_t len = given.len < MESSAGE_ID_BYTES ? given.len : MESSAGE_ID_BYTES;
    if (!(properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) || given.len == 0)
        return 0;
    const uint64_t hashes[] = {hash_64(meta.at, meta.len), hash_64(body.at, body.len)};
    for (size_t i = 0; i < len; i++)
        out[i] = given.at[i] > ' ' && given.at[i] <= '~' ? given.at[i] : '_';
    return len + (size_t)snprintf(out + len, JOB_ID_BYTES_MAX + 1 - len, "-%016llx",
                                  (unsigned long long)hash_64(hashes, sizeof hashes));
}

static struct slice copy_to(char **at, struct slice text)
{
    struct slice copied = slice_make(*at, text.len);
    if (text.len)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copied;
}

/* Allocates a job. The first `hashed` bytes of the meta are hashed into its id. */
static struct amqp_in_job *new_job(const amqp_envelope_t *envelope, struct slice meta,
                                   size_t hashed)
{
    const amqp_basic_properties_t *properties = &envelope->message.properties;
    char id[JOB_ID_BYTES_MAX + 1];
    struct slice body = slice_from(envelope->message.body), type = {0};
    if (properties->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG &&
        properties->content_type.len <= JOB_CONTENT_TYPE_BYTES_MAX)
        type = slice_from(properties->content_type);
    for (size_t i = 0; i < type.len; i++)
        if (type.at[i] < ' ' || type.at[i] > '~')
            type.len = 0;
    size_t id_bytes = make_id(properties, slice_make(meta.at, hashed), body, id);
    struct amqp_in_job *job = malloc(sizeof *job + id_bytes + type.len + meta.len + body.len);
    if (!job)
        return NULL;
    *job = (struct amqp_in_job){.delivery_tag = envelope->delivery_tag,
                                .may_be_there = envelope->redelivered};
    list_init(&job->list);
    char *at = job->bytes;
    job->id = copy_to(&at, slice_make(id, id_bytes));
    job->content_type = copy_to(&at, type);
    job->meta = copy_to(&at, meta);
    job->body = copy_to(&at, body);
    return job;
}

static bool was_here(const struct amqp_in_source *source, const amqp_table_t *headers)
{
    bool found;
    struct slice topic = text_header(headers, TARGET_AMQP_HEADER_TOPIC, &found);
    return found && slice_is(topic, source->topic);
}

enum amqp_in_refusal amqp_in_job_make(const struct amqp_in_source *source,
                                      const amqp_envelope_t *envelope, struct amqp_in_job **out,
                                      char *why)
{
    static const amqp_table_t none;
    amqp_basic_properties_t properties = envelope->message.properties;
    const amqp_table_t *headers =
        properties._flags & AMQP_BASIC_HEADERS_FLAG ? &properties.headers : &none;
    struct slice exchange, key, parent, state;
    struct queue_when when;
    struct buffer meta;
    if (!amqp_in_delay_read(headers, &when, why))
        return AMQP_IN_BAD_DELAY;
    if (!find_destination(source, envelope, headers, &exchange, &key, why))
        return AMQP_IN_BAD_DESTINATION;
    if (when.due == QUEUE_DUE_NOW && was_here(source, headers))
        when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = RETURNED_MS};
    buffer_init(&meta, JOB_META_BYTES_MAX);
    find_trace(headers, &parent, &state);
    /* Modifies the memory of the headers, which is not read afterwards. */
    enum amqp_in_refusal refusal = make_meta(&properties, exchange, key, &meta, why);
    if (refusal == AMQP_IN_TAKEN) {
        size_t hashed = meta.len;
        add_trace(&meta, parent, state);
        *out = new_job(envelope, buffer_slice(&meta), hashed);
        refusal = *out ? AMQP_IN_TAKEN : AMQP_IN_NO_MEMORY;
        if (*out)
            (*out)->when = when;
        else
            snprintf(why, AMQP_IN_ERROR_BYTES, "out of memory");
    }
    buffer_fini(&meta);
    return refusal;
}
