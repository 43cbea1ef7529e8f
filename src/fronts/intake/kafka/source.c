#include "intake/kafka/source.h"

#include "base/text.h"

#include "intake/source.h"
#include "targets/target.h"

_Static_assert((int)INTAKE_ERROR_BYTES >= (int)TARGET_ERROR_BYTES, "room for the URL's errors");

#define SUFFIX ".delayed"

bool kafka_in_topic_is_valid(struct slice name)
{
    return name.len > 0 && name.len < KAFKA_IN_NAME_BYTES && !slice_is(name, ".") &&
           !slice_is(name, "..") && text_is_word(name, "._-");
}

static bool set_parameter(void *ctx, struct slice name, struct slice value, char *error)
{
    struct kafka_in_source *out = ctx;
    char *kafka_topic = slice_is(name, "from") ? out->from : slice_is(name, "to") ? out->to : NULL;
    if (kafka_topic)
        return (kafka_in_topic_is_valid(value) &&
                intake_source_copy(value, kafka_topic, KAFKA_IN_NAME_BYTES)) ||
               intake_source_fail(error, "malformed parameter", name,
                                  "give the name of a topic in Kafka");
    if (slice_is(name, "group"))
        return (value.len > 0 && intake_source_copy(value, out->group, sizeof out->group)) ||
               intake_source_fail(error, "malformed parameter", name,
                                  "give the name of a consumer group");
    if (slice_is(name, "topic"))
        return intake_source_topic(name, value, out->topic, error);
    return intake_source_fail(error, "unknown parameter", name, "give from, group, topic or to");
}

/* Sets the destination to the source's name without its suffix. */
static void set_default_destination(struct kafka_in_source *source)
{
    size_t len = strlen(source->from), suffix = sizeof SUFFIX - 1;
    if (!source->to[0] && len > suffix && strcmp(source->from + len - suffix, SUFFIX) == 0)
        memcpy(source->to, source->from, len - suffix);
}

bool kafka_in_source_parse(struct slice text, struct kafka_in_source *out, char *error)
{
    struct kafka_in_source source = {.topic = "kafka-in", .group = "tarry"};
    struct slice query;
    if (!kafka_place_parse(text, &source.cluster, &query, error))
        return false;
    source.place = slice_make(text.at, text.len - query.len - (query.at ? 1 : 0));
    if (!intake_source_read(query, set_parameter, &source, error))
        return false;
    if (!source.from[0])
        return intake_source_fail(error, "no topic of Kafka in", text, "add ?from=NAME");
    if (strcmp(source.from, source.to) == 0)
        return intake_source_fail(error, "its messages would return to the topic",
                                  slice_of(source.to), "give another one in 'to'");
    set_default_destination(&source);
    *out = source;
    return true;
}
