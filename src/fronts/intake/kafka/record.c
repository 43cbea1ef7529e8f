#include "intake/kafka/record.h"

#include "base/hash.h"
#include "base/timestamp.h"
#include "targets/kafka/record.h"
#include "targets/parts.h"

#include <stdio.h>

enum { RETURNED_MS = 1000 /* minimum delay of a record that comes back without a new delay */ };

/* Returns the last header of that name; `at` is NULL if it is missing or has no value. */
static struct slice find_header(const rd_kafka_headers_t *headers, const char *name)
{
    const void *value;
    size_t bytes;
    if (!headers || rd_kafka_header_get_last(headers, name, &value, &bytes) || !value)
        return (struct slice){0};
    return slice_make(value, bytes);
}

/* ---- due time ---- */

/* Returns the record's timestamp, limited to now; now if it is missing. */
static int64_t sent_ms(const rd_kafka_message_t *record, int64_t now_ms)
{
    rd_kafka_timestamp_type_t type;
    int64_t at_ms = rd_kafka_message_timestamp(record, &type);
    return type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE || at_ms < 0 || at_ms > now_ms ? now_ms : at_ms;
}

static bool read_time(struct slice text, int64_t *out)
{
    if (intake_number_read(text, out))
        return *out >= TIMESTAMP_BARE_MS_MIN;
    return timestamp_parse(text, out);
}

static bool read_when(const rd_kafka_message_t *record, const rd_kafka_headers_t *headers,
                      int64_t now_ms, struct queue_when *out, char *why)
{
    struct slice at = find_header(headers, INTAKE_HEADER_AT);
    struct slice delay = find_header(headers, INTAKE_HEADER_DELAY);
    int64_t ms = 0;
    if (at.at && !read_time(at, &ms)) {
        snprintf(why, INTAKE_ERROR_BYTES,
                 "header '%s' is not a time from 1973 on, give milliseconds (not seconds) since "
                 "1970 or RFC 3339",
                 INTAKE_HEADER_AT);
        return false;
    }
    if (!at.at && delay.at && !intake_number_read(delay, &ms)) {
        snprintf(why, INTAKE_ERROR_BYTES, "header '%s' is not a number, give milliseconds",
                 INTAKE_HEADER_DELAY);
        return false;
    }
    if (!intake_when_set(out, at.at != NULL, ms, why))
        return false;
    if (out->due == QUEUE_DUE_DELAY)
        *out = (struct queue_when){.due = QUEUE_DUE_AT, .ms = sent_ms(record, now_ms) + ms};
    return true;
}

/* ---- destination ---- */

static bool find_destination(const struct kafka_in_source *source,
                             const rd_kafka_headers_t *headers, struct slice *out, char *why)
{
    struct slice named = find_header(headers, KAFKA_IN_HEADER_TOPIC);
    *out = named.at ? named : slice_of(source->to);
    if (slice_is(*out, source->from))
        snprintf(why, INTAKE_ERROR_BYTES, "it would return to topic '%s', give it the header %s",
                 source->from, KAFKA_IN_HEADER_TOPIC);
    else if (out->len == 0)
        snprintf(why, INTAKE_ERROR_BYTES,
                 "it has no destination, give it the header %s, or the source the parameter 'to'",
                 KAFKA_IN_HEADER_TOPIC);
    else if (!kafka_in_topic_is_valid(*out))
        snprintf(why, INTAKE_ERROR_BYTES, "header '%s' is not the name of a topic",
                 KAFKA_IN_HEADER_TOPIC);
    else
        return true;
    return false;
}

/* ---- meta ---- */

static bool is_read(struct slice name)
{
    static const char *const names[] = {INTAKE_HEADER_DELAY, INTAKE_HEADER_AT,
                                        KAFKA_IN_HEADER_TOPIC};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (slice_is(name, names[i]))
            return true;
    return false;
}

static bool make_meta(const rd_kafka_message_t *record, const rd_kafka_headers_t *headers,
                      struct slice destination, struct buffer *meta)
{
    const struct kafka_record_parts parts = {.key = slice_make(record->key, record->key_len),
                                             .has_body = record->payload};
    struct buffer encoded;
    buffer_init(&encoded, JOB_META_BYTES_MAX);
    kafka_record_encode(&encoded, &parts, headers, is_read);
    bool good = !encoded.failed &&
                job_meta_add(meta, slice_of(TARGET_KAFKA_META_TOPIC), destination) == JOB_META_OK &&
                target_parts_add(meta, TARGET_KAFKA_META_RECORD, buffer_slice(&encoded));
    buffer_fini(&encoded);
    return good;
}

/* ---- the job ---- */

/* Returns the id: the place of the record, and a hash of its content, because a topic that is deleted
 * and created again has the same places for other records. */
static struct slice make_id(const rd_kafka_message_t *record, const char *topic, struct slice meta,
                            struct slice body, char out[JOB_ID_BYTES_MAX + 1])
{
    rd_kafka_timestamp_type_t type;
    const uint64_t hashes[] = {hash_64(topic, strlen(topic)), hash_64(meta.at, meta.len),
                               hash_64(body.at, body.len),
                               (uint64_t)rd_kafka_message_timestamp(record, &type)};
    int bytes =
        snprintf(out, JOB_ID_BYTES_MAX + 1, "%.60s-%d-%lld-%016llx", topic, (int)record->partition,
                 (long long)record->offset, (unsigned long long)hash_64(hashes, sizeof hashes));
    return slice_make(out, (size_t)bytes);
}

static struct intake_job *make_job(const struct kafka_in_source *source,
                                   const rd_kafka_message_t *record,
                                   const rd_kafka_headers_t *headers, struct buffer *meta)
{
    char id[JOB_ID_BYTES_MAX + 1];
    struct slice body = slice_make(record->payload, record->len);
    struct slice named = make_id(record, source->from, buffer_slice(meta), body, id);
    intake_trace_add(meta, find_header(headers, JOB_META_TRACEPARENT),
                     find_header(headers, JOB_META_TRACESTATE));
    return intake_job_new(named, find_header(headers, "content-type"), buffer_slice(meta), body);
}

static bool was_here(const struct kafka_in_source *source, const rd_kafka_headers_t *headers)
{
    return slice_is(find_header(headers, TARGET_KAFKA_HEADER_TOPIC), source->topic);
}

enum intake_refusal kafka_in_record_take(const struct kafka_in_source *source,
                                         const rd_kafka_message_t *record, int64_t now_ms,
                                         struct intake_job **out, char *why)
{
    rd_kafka_headers_t *headers = NULL;
    struct slice destination;
    struct queue_when when;
    struct buffer meta;
    if (rd_kafka_message_headers(record, &headers))
        headers = NULL;
    if (!read_when(record, headers, now_ms, &when, why))
        return INTAKE_BAD_DELAY;
    if (!find_destination(source, headers, &destination, why))
        return INTAKE_BAD_DESTINATION;
    if (when.due == QUEUE_DUE_NOW && was_here(source, headers))
        when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = RETURNED_MS};
    buffer_init(&meta, JOB_META_BYTES_MAX);
    enum intake_refusal refusal = INTAKE_PROPERTIES_TOO_BIG;
    snprintf(why, INTAKE_ERROR_BYTES, "its key and headers are longer than about 2.5 KiB");
    if (make_meta(record, headers, destination, &meta)) {
        *out = make_job(source, record, headers, &meta);
        refusal = *out ? INTAKE_TAKEN : INTAKE_NO_MEMORY;
        if (*out)
            (*out)->when = when;
        else
            snprintf(why, INTAKE_ERROR_BYTES, "out of memory");
    }
    buffer_fini(&meta);
    return refusal;
}
