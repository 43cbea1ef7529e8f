#include "amqp/source.h"

#include "base/text.h"
#include "targets/target.h"

#include <stdio.h>

_Static_assert((int)AMQP_IN_ERROR_BYTES >= (int)TARGET_ERROR_BYTES, "room for the URL's errors");

static bool fail(char *error, const char *what, struct slice subject, const char *advice)
{
    snprintf(error, AMQP_IN_ERROR_BYTES, "%s '%.*s', %s", what,
             (int)(subject.len < 80 ? subject.len : 80), subject.at ? subject.at : "", advice);
    return false;
}

static bool set_name(struct slice value, char *out, size_t out_bytes)
{
    if (value.len >= out_bytes || (value.len && memchr(value.at, 0, value.len)))
        return false;
    if (value.len)
        memcpy(out, value.at, value.len);
    out[value.len] = '\0';
    return true;
}

static bool set_parameter(struct slice name, struct slice value, struct amqp_in_source *out,
                          char *error)
{
    uint64_t number;
    if (slice_is(name, "queue"))
        return (value.len > 0 && set_name(value, out->queue, sizeof(out->queue))) ||
               fail(error, "malformed parameter", name, "give the name of a queue");
    if (slice_is(name, "exchange")) {
        out->has_exchange = true;
        return set_name(value, out->exchange, sizeof(out->exchange)) ||
               fail(error, "malformed parameter", name, "give the name of an exchange");
    }
    if (slice_is(name, "topic"))
        return (job_topic_is_valid(value) && set_name(value, out->topic, sizeof(out->topic))) ||
               fail(error, "malformed parameter", name, "give the name of a topic");
    if (slice_is(name, "prefetch")) {
        bool ok = text_parse_u64(value, AMQP_IN_PREFETCH_MAX, &number) && number > 0;
        out->prefetch = ok ? (uint32_t)number : 0;
        return ok || fail(error, "malformed parameter", name, "give a number from 1 to 4096");
    }
    return fail(error, "unknown parameter", name, "give queue, topic, exchange or prefetch");
}

/* NAME=VALUE, the value percent-decoded. */
static bool take_parameter(struct slice text, struct amqp_in_source *out, char *error)
{
    const char *equals = text.len ? memchr(text.at, '=', text.len) : NULL;
    if (!equals)
        return fail(error, "malformed parameter", text, "give NAME=VALUE");
    struct buffer value;
    buffer_init(&value, 1024);
    struct slice name = slice_make(text.at, (size_t)(equals - text.at));
    struct slice given = slice_make(equals + 1, text.len - name.len - 1);
    bool ok = text_percent_decode(given, false, &value)
                  ? set_parameter(name, buffer_slice(&value), out, error)
                  : fail(error, "malformed parameter", name, "write it percent-encoded");
    buffer_fini(&value);
    return ok;
}

bool amqp_in_source_parse(struct slice text, struct amqp_in_source *out, char *error)
{
    struct amqp_in_source source = {.topic = "amqp-in", .prefetch = AMQP_IN_PREFETCH};
    struct slice query;
    if (!target_amqp_url_parse(text, &source.url, &query, error))
        return false;
    source.place = slice_make(text.at, text.len - query.len - (query.at ? 1 : 0));
    while (query.len > 0) {
        const char *end = memchr(query.at, '&', query.len);
        size_t len = end ? (size_t)(end - query.at) : query.len;
        if (!take_parameter(slice_make(query.at, len), &source, error))
            return false;
        query = end ? slice_make(end + 1, query.len - len - 1) : (struct slice){0};
    }
    if (!source.queue[0])
        return fail(error, "no queue in", text, "add ?queue=NAME");
    *out = source;
    return true;
}
