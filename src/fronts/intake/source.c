#include "intake/source.h"

#include "base/error.h"
#include "base/text.h"
#include "base/url.h"
#include "targets/target.h"

_Static_assert((int)AMQP_IN_ERROR_BYTES >= (int)TARGET_ERROR_BYTES, "room for the URL's errors");

static bool source_fail(char *error, const char *what, struct slice subject, const char *advice)
{
    return error_text(error, AMQP_IN_ERROR_BYTES, "%s '%.*s', %s", what, ERROR_SHOWN(subject, 80),
                      advice);
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
        return (value.len > 0 && set_name(value, out->queue, sizeof out->queue)) ||
               source_fail(error, "malformed parameter", name, "give the name of a queue");
    if (slice_is(name, "exchange")) {
        out->has_exchange = true;
        return set_name(value, out->exchange, sizeof out->exchange) ||
               source_fail(error, "malformed parameter", name, "give the name of an exchange");
    }
    if (slice_is(name, "topic"))
        return (job_topic_is_valid(value) && !job_topic_is_own(value) &&
                set_name(value, out->topic, sizeof out->topic)) ||
               source_fail(error, "malformed parameter", name, "give the name of a topic");
    if (slice_is(name, "prefetch")) {
        bool ok = text_parse_u64(value, AMQP_IN_PREFETCH_MAX, &number) && number > 0;
        out->prefetch = ok ? (uint32_t)number : 0;
        return ok ||
               source_fail(error, "malformed parameter", name, "give a number from 1 to 4096");
    }
    return source_fail(error, "unknown parameter", name, "give queue, topic, exchange or prefetch");
}

/* Decodes a parameter; `given` is percent-encoded. */
static bool decode_parameter(struct slice name, struct slice given, struct amqp_in_source *out,
                             char *error)
{
    struct buffer value;
    buffer_init(&value, 1024);
    bool ok = text_percent_decode(given, false, &value)
                  ? set_parameter(name, buffer_slice(&value), out, error)
                  : source_fail(error, "malformed parameter", name, "write it percent-encoded");
    buffer_fini(&value);
    return ok;
}

bool amqp_in_source_parse(struct slice text, struct amqp_in_source *out, char *error)
{
    struct amqp_in_source source = {.topic = "amqp-in", .prefetch = AMQP_IN_PREFETCH};
    struct slice query, name, value;
    bool has_value;
    if (!target_amqp_place_parse(text, &source.broker, &query, error))
        return false;
    source.place = slice_make(text.at, text.len - query.len - (query.at ? 1 : 0));
    while (url_next_pair(&query, &name, &value, &has_value)) {
        if (!has_value)
            return source_fail(error, "malformed parameter", name, "give NAME=VALUE");
        if (!decode_parameter(name, value, &source, error))
            return false;
    }
    if (!source.queue[0])
        return source_fail(error, "no queue in", text, "add ?queue=NAME");
    *out = source;
    return true;
}
