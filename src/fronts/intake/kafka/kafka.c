/* The kind of --kafka-in: a consumer with its source. */
#include "base/json_write.h"
#include "intake/kafka/consumer.h"
#include "targets/kafka/record.h"

#include <stdio.h>
#include <stdlib.h>

struct kafka_in {
    struct kafka_in_source source;
    struct kafka_in_consumer *consumer;
};

static bool on_check(struct slice url, char *error)
{
    struct kafka_in_source source;
    return kafka_in_source_parse(url, &source, error);
}

static void *on_open(const struct intake_consumer_options *options, char *error)
{
    struct kafka_in *in = calloc(1, sizeof *in);
    snprintf(error, INTAKE_ERROR_BYTES, "out of memory");
    if (in && kafka_in_source_parse(slice_of(options->url), &in->source, error) &&
        (in->consumer = kafka_in_consumer_new(&in->source, options)))
        return in;
    free(in);
    return NULL;
}

static const char *on_topic(const void *self)
{
    return ((const struct kafka_in *)self)->source.topic;
}

static void on_emit_deliver(const void *self, struct buffer *out)
{
    buffer_append_text(out, "{\"to\":");
    json_write_string(out, ((const struct kafka_in *)self)->source.place);
    buffer_append_text(out,
                       ",\"topic\":\"{meta." TARGET_KAFKA_META_TOPIC "}\",\"max_in_flight\":1000}");
}

static bool on_start(void *self)
{
    return kafka_in_consumer_start(((struct kafka_in *)self)->consumer);
}

static void on_settle(void *self, struct intake_batch *batch)
{
    kafka_in_consumer_settle(((struct kafka_in *)self)->consumer, batch);
}

static void on_stop(void *self, bool at_once)
{
    kafka_in_consumer_stop(((struct kafka_in *)self)->consumer, at_once);
}

static void on_free(void *self)
{
    struct kafka_in *in = self;
    if (in)
        kafka_in_consumer_free(in->consumer);
    free(in);
}

static const struct metric metrics[] =
    INTAKE_METRICS("kafka_in", "--kafka-in", "Kafka",
                   "The log has the place of each, and Kafka keeps them in their topic for its "
                   "retention time.");

const struct intake_kind intake_kafka = {.name = "kafka-in",
                                         .metrics = metrics,
                                         .check = on_check,
                                         .open = on_open,
                                         .topic = on_topic,
                                         .emit_deliver = on_emit_deliver,
                                         .start = on_start,
                                         .settle = on_settle,
                                         .stop = on_stop,
                                         .free = on_free};
