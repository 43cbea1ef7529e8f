#include "intake/amqp/message.h"

#include "base/hash.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "targets/amqp/message.h"
#include "targets/parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RETURNED_MS = 1000, /* minimum delay of a message that comes back without a new delay */
    MESSAGE_ID_BYTES = 100
};
#define SUFFIX ".delayed"

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
        return intake_number_read(slice_make(field->value.bytes.bytes, field->value.bytes.len),
                                  out);
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
    const amqp_table_entry_t *at = find_header(headers, INTAKE_HEADER_AT);
    const amqp_table_entry_t *delay = find_header(headers, INTAKE_HEADER_DELAY);
    int64_t ms = 0;
    if (at && !read_time(&at->value, &ms)) {
        snprintf(why, INTAKE_ERROR_BYTES,
                 "header '%s' is not a time from 1973 on, give milliseconds (not seconds) since "
                 "1970, RFC 3339 or an AMQP timestamp",
                 INTAKE_HEADER_AT);
        return false;
    }
    if (!at && delay && !read_number(&delay->value, &ms)) {
        snprintf(why, INTAKE_ERROR_BYTES, "header '%s' is not a number, give milliseconds",
                 INTAKE_HEADER_DELAY);
        return false;
    }
    return intake_when_set(out, at != NULL, ms, why);
}

/* Negates x-delay, as it is published. */
static void delay_negate(amqp_table_t *headers)
{
    amqp_table_entry_t *delay = find_header(headers, INTAKE_HEADER_DELAY);
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
        snprintf(why, INTAKE_ERROR_BYTES,
                 "it would return to queue '%s', give it the headers x-exchange and x-routing-key",
                 source->queue);
        return false;
    }
    if (exchange->len <= TARGET_AMQP_TEXT_BYTES_MAX && key->len <= TARGET_AMQP_TEXT_BYTES_MAX)
        return true;
    snprintf(why, INTAKE_ERROR_BYTES, "an exchange or a routing key is longer than 255 bytes");
    return false;
}

/* ---- meta ---- */

static bool add_meta(struct buffer *meta, const char *name, struct slice value)
{
    return value.len == 0 || job_meta_add(meta, slice_of(name), value) == JOB_META_OK;
}

/* Removes a header. message.h documents which properties are removed, and why. */
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

static enum intake_refusal make_meta(amqp_basic_properties_t *properties, struct slice exchange,
                                     struct slice key, struct buffer *meta, char *why)
{
    char encoded[JOB_META_BYTES_MAX];
    size_t bytes = encode_properties(properties, encoded, sizeof encoded);
    if (!add_meta(meta, TARGET_AMQP_META_EXCHANGE, exchange) ||
        !add_meta(meta, TARGET_AMQP_META_ROUTING_KEY, key)) {
        snprintf(why, INTAKE_ERROR_BYTES, "its exchange or routing key is not UTF-8");
        return INTAKE_BAD_DESTINATION;
    }
    if (bytes > 0 &&
        target_parts_add(meta, TARGET_AMQP_META_PROPERTIES, slice_make(encoded, bytes)))
        return INTAKE_TAKEN;
    snprintf(why, INTAKE_ERROR_BYTES, "its properties and headers are longer than about 2.5 KiB");
    return INTAKE_PROPERTIES_TOO_BIG;
}

/* Finds the trace context of the message; `at` is NULL for a missing part. */
static void find_trace(const amqp_table_t *headers, struct slice *parent, struct slice *state)
{
    bool found;
    *parent = text_header(headers, "traceparent", &found);
    *state = text_header(headers, "tracestate", &found);
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

/* Allocates a job. The first `hashed` bytes of the meta are hashed into its id. */
static struct intake_job *new_job(const amqp_envelope_t *envelope, struct slice meta, size_t hashed)
{
    const amqp_basic_properties_t *properties = &envelope->message.properties;
    char id[JOB_ID_BYTES_MAX + 1];
    struct slice body = slice_from(envelope->message.body), type = {0};
    if (properties->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG)
        type = slice_from(properties->content_type);
    size_t id_bytes = make_id(properties, slice_make(meta.at, hashed), body, id);
    struct intake_job *job = intake_job_new(slice_make(id, id_bytes), type, meta, body);
    if (job) {
        job->tag = envelope->delivery_tag;
        job->may_be_there = envelope->redelivered;
    }
    return job;
}

static bool was_here(const struct amqp_in_source *source, const amqp_table_t *headers)
{
    bool found;
    struct slice topic = text_header(headers, TARGET_AMQP_HEADER_TOPIC, &found);
    return found && slice_is(topic, source->topic);
}

enum intake_refusal amqp_in_message_take(const struct amqp_in_source *source,
                                         const amqp_envelope_t *envelope, struct intake_job **out,
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
        return INTAKE_BAD_DELAY;
    if (!find_destination(source, envelope, headers, &exchange, &key, why))
        return INTAKE_BAD_DESTINATION;
    if (when.due == QUEUE_DUE_NOW && was_here(source, headers))
        when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = RETURNED_MS};
    buffer_init(&meta, JOB_META_BYTES_MAX);
    find_trace(headers, &parent, &state);
    /* Modifies the memory of the headers, which is not read afterwards. */
    enum intake_refusal refusal = make_meta(&properties, exchange, key, &meta, why);
    if (refusal == INTAKE_TAKEN) {
        size_t hashed = meta.len;
        intake_trace_add(&meta, parent, state);
        *out = new_job(envelope, buffer_slice(&meta), hashed);
        refusal = *out ? INTAKE_TAKEN : INTAKE_NO_MEMORY;
        if (*out)
            (*out)->when = when;
        else
            snprintf(why, INTAKE_ERROR_BYTES, "out of memory");
    }
    buffer_fini(&meta);
    return refusal;
}
