#include "intake/amqp/source.h"

#include "base/text.h"
#include "intake/source.h"
#include "targets/target.h"

_Static_assert((int)INTAKE_ERROR_BYTES >= (int)TARGET_ERROR_BYTES, "room for the URL's errors");

static bool set_parameter(void *ctx, struct slice name, struct slice value, char *error)
{
    struct amqp_in_source *out = ctx;
    uint64_t number;
    if (slice_is(name, "queue"))
        return (value.len > 0 && intake_source_copy(value, out->queue, sizeof out->queue)) ||
               intake_source_fail(error, "malformed parameter", name, "give the name of a queue");
    if (slice_is(name, "exchange")) {
        out->has_exchange = true;
        return intake_source_copy(value, out->exchange, sizeof out->exchange) ||
               intake_source_fail(error, "malformed parameter", name,
                                  "give the name of an exchange");
    }
    if (slice_is(name, "topic"))
        return intake_source_topic(name, value, out->topic, error);
    if (slice_is(name, "prefetch")) {
        bool ok = text_parse_u64(value, AMQP_IN_PREFETCH_MAX, &number) && number > 0;
        out->prefetch = ok ? (uint32_t)number : 0;
        return ok || intake_source_fail(error, "malformed parameter", name,
                                        "give a number from 1 to 4096");
    }
    return intake_source_fail(error, "unknown parameter", name,
                              "give queue, topic, exchange or prefetch");
}

bool amqp_in_source_parse(struct slice text, struct amqp_in_source *out, char *error)
{
    struct amqp_in_source source = {.topic = "amqp-in", .prefetch = AMQP_IN_PREFETCH};
    struct slice query;
    if (!target_amqp_place_parse(text, &source.broker, &query, error))
        return false;
    source.place = slice_make(text.at, text.len - query.len - (query.at ? 1 : 0));
    if (!intake_source_read(query, set_parameter, &source, error))
        return false;
    if (!source.queue[0])
        return intake_source_fail(error, "no queue in", text, "add ?queue=NAME");
    *out = source;
    return true;
}
