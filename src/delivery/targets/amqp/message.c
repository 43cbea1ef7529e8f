#include "targets/amqp/message.h"

#include "base/clock.h"
#include "base/timestamp.h"
#include "targets/meta.h"
#include "targets/parts.h"
#include "trace/carry.h"

#include <stdio.h>
#include <stdlib.h>

enum { OWN_HEADERS = 4 };

static struct slice copy_to(char **at, struct slice text)
{
    struct slice copied = slice_make(*at, text.len);
    if (text.len)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copied;
}

struct slice target_amqp_exchange(struct slice name)
{
    return slice_is(name, "amq.default") ? (struct slice){0} : name;
}

struct target_amqp_message *target_amqp_message_new(const struct job *job, struct slice attributes,
                                                    struct slice exchange, struct slice routing_key)
{
    exchange = target_amqp_exchange(exchange);
    size_t bytes = job->topic.len + job->id.len + job->content_type.len + job->meta.len +
                   attributes.len + job->body.len + exchange.len + routing_key.len;
    struct target_amqp_message *message = malloc(sizeof *message + bytes);
    if (!message)
        return NULL;
    *message = (struct target_amqp_message){
        .is_queued = true, .attempt = job->attempt, .due_ms = job->due_ms};
    list_init(&message->list);
    char *at = message->bytes;
    message->topic = copy_to(&at, job->topic);
    message->id = copy_to(&at, job->id);
    message->content_type = copy_to(&at, job->content_type);
    message->meta = copy_to(&at, job->meta);
    message->attributes = copy_to(&at, attributes);
    message->body = copy_to(&at, job->body);
    message->exchange = copy_to(&at, exchange);
    message->routing_key = copy_to(&at, routing_key);
    return message;
}

static amqp_bytes_t bytes_of(struct slice text)
{
    return (amqp_bytes_t){.len = text.len, .bytes = (void *)(uintptr_t)text.at};
}

static amqp_table_entry_t text_header(struct slice name, struct slice value)
{
    return (amqp_table_entry_t){
        .key = bytes_of(name),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = bytes_of(value)}};
}

/* ---- original properties ---- */

/* Decodes the original properties of a message from RabbitMQ into the pool. */
static bool restore(struct slice encoded, amqp_pool_t *pool, amqp_basic_properties_t *out)
{
    void *decoded = NULL;
    /* The pool keeps the bytes, because the decoded properties point into them. */
    amqp_bytes_t kept;
    amqp_pool_alloc_bytes(pool, encoded.len, &kept);
    if (!kept.bytes || encoded.len == 0)
        return false;
    memcpy(kept.bytes, encoded.at, encoded.len);
    if (amqp_decode_properties(AMQP_BASIC_CLASS, pool, kept, &decoded) != 0)
        return false;
    *out = *(amqp_basic_properties_t *)decoded;
    return true;
}

/* ---- properties of pushed jobs ---- */

/* Builds the properties of a pushed job; its meta become headers. */
static bool describe(const struct target_amqp_message *message, amqp_pool_t *pool,
                     amqp_basic_properties_t *out)
{
    struct slice name, value;
    int count = 0;
    amqp_table_entry_t *entries =
        amqp_pool_alloc(pool, JOB_META_PAIRS_MAX * sizeof(amqp_table_entry_t));
    if (!entries)
        return false;
    for (size_t at = 0;
         count < JOB_META_PAIRS_MAX && target_meta_next(message->meta, &at, &name, &value);)
        entries[count++] = text_header(name, value);
    *out = (amqp_basic_properties_t){
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                  AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_HEADERS_FLAG,
        .content_type = message->content_type.len ? bytes_of(message->content_type)
                                                  : amqp_cstring_bytes("application/octet-stream"),
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .message_id = bytes_of(message->id),
        .timestamp = (uint64_t)(clock_wall_ms() / 1000),
        .headers = {.num_entries = count, .entries = entries}};
    return true;
}

/* Returns true for tarry's headers, which replace original ones of the same name. */
static bool is_own(amqp_bytes_t key, bool is_event)
{
    static const char prefix[] = TARGET_AMQP_EVENT_PREFIX;
    static const char *const own[OWN_HEADERS] = {TARGET_AMQP_HEADER_TOPIC, TARGET_AMQP_HEADER_ID,
                                                 TARGET_AMQP_HEADER_ATTEMPT,
                                                 TARGET_AMQP_HEADER_DUE_AT};
    for (size_t i = 0; i < OWN_HEADERS; i++)
        if (slice_is(slice_make(key.bytes, key.len), own[i]))
            return true;
    return is_event && key.len >= sizeof prefix - 1 &&
           memcmp(key.bytes, prefix, sizeof prefix - 1) == 0;
}

/* Appends tarry's headers, which identify a returned message, and those of an event. */
static bool add_own_headers(const struct target_amqp_message *message, amqp_pool_t *pool,
                            amqp_basic_properties_t *out)
{
    amqp_table_t given = out->_flags & AMQP_BASIC_HEADERS_FLAG ? out->headers : (amqp_table_t){0};
    size_t most = (size_t)given.num_entries + OWN_HEADERS;
    struct slice name, value;
    for (size_t at = 0; job_meta_next(message->attributes, &at, &name, &value);)
        most++;
    amqp_table_entry_t *entries = amqp_pool_alloc(pool, most * sizeof *entries);
    char *due_at = amqp_pool_alloc(pool, TIMESTAMP_BYTES);
    int count = 0;
    if (!entries || !due_at)
        return false;
    for (int i = 0; i < given.num_entries; i++)
        if (!is_own(given.entries[i].key, message->attributes.len > 0))
            entries[count++] = given.entries[i];
    timestamp_write(due_at, message->due_ms);
    entries[count++] = text_header(slice_of(TARGET_AMQP_HEADER_TOPIC), message->topic);
    entries[count++] = text_header(slice_of(TARGET_AMQP_HEADER_ID), message->id);
    entries[count++] =
        (amqp_table_entry_t){.key = amqp_cstring_bytes(TARGET_AMQP_HEADER_ATTEMPT),
                             .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = message->attempt}};
    entries[count++] =
        text_header(slice_of(TARGET_AMQP_HEADER_DUE_AT), slice_make(due_at, TIMESTAMP_BYTES));
    for (size_t at = 0; job_meta_next(message->attributes, &at, &name, &value);)
        entries[count++] = text_header(name, value);
    out->headers = (amqp_table_t){.num_entries = count, .entries = entries};
    out->_flags |= AMQP_BASIC_HEADERS_FLAG;
    return true;
}

/* Replaces the trace context of the original message with the current one of the job. */
static void renew_trace(struct slice meta, amqp_basic_properties_t *out)
{
    struct slice parent = trace_meta_parent(meta);
    amqp_table_t *headers = &out->headers;
    if (!parent.at || !(out->_flags & AMQP_BASIC_HEADERS_FLAG))
        return;
    for (int i = 0; i < headers->num_entries; i++)
        if (slice_is(slice_make(headers->entries[i].key.bytes, headers->entries[i].key.len),
                     JOB_META_TRACEPARENT))
            headers->entries[i] = text_header(slice_of(JOB_META_TRACEPARENT), parent);
}

bool target_amqp_message_properties(const struct target_amqp_message *message, amqp_pool_t *pool,
                                    amqp_basic_properties_t *out)
{
    struct buffer encoded;
    bool is_restored;
    buffer_init(&encoded, JOB_META_BYTES_MAX);
    bool ok =
        target_parts_join(message->meta, TARGET_AMQP_META_PROPERTIES, &encoded, &is_restored) &&
        (is_restored ? restore(buffer_slice(&encoded), pool, out) : describe(message, pool, out));
    if (ok && is_restored)
        renew_trace(message->meta, out);
    ok = ok && add_own_headers(message, pool, out);
    buffer_fini(&encoded);
    return ok;
}

static bool header_is(const amqp_table_entry_t *entry, const char *name, struct slice text)
{
    return slice_is(slice_make(entry->key.bytes, entry->key.len), name) &&
           entry->value.kind == AMQP_FIELD_KIND_UTF8 &&
           slice_equals(slice_make(entry->value.value.bytes.bytes, entry->value.value.bytes.len),
                        text);
}

bool target_amqp_message_is(const struct target_amqp_message *message,
                            const amqp_basic_properties_t *properties)
{
    unsigned alike = 0;
    if (!(properties->_flags & AMQP_BASIC_HEADERS_FLAG))
        return false;
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        alike +=
            header_is(entry, TARGET_AMQP_HEADER_TOPIC, message->topic) ||
            header_is(entry, TARGET_AMQP_HEADER_ID, message->id) ||
            (slice_is(slice_make(entry->key.bytes, entry->key.len), TARGET_AMQP_HEADER_ATTEMPT) &&
             entry->value.kind == AMQP_FIELD_KIND_I64 &&
             entry->value.value.i64 == message->attempt);
    }
    return alike == 3;
}
