/* The kind of --amqp-in: a consumer with its source. */
#include "base/json_write.h"
#include "intake/amqp/consumer.h"
#include "targets/amqp/message.h"

#include <stdio.h>
#include <stdlib.h>

struct amqp_in {
    struct amqp_in_source source;
    struct amqp_in_consumer *consumer;
};

static bool on_check(struct slice url, char *error)
{
    struct amqp_in_source source;
    return amqp_in_source_parse(url, &source, error);
}

static void *on_open(const struct intake_consumer_options *options, char *error)
{
    struct amqp_in_source source;
    if (!amqp_in_source_parse(slice_of(options->url), &source, error))
        return NULL;
    snprintf(error, INTAKE_ERROR_BYTES, "out of memory or file descriptors");
    struct amqp_in *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->source = source;
    if (amqp_in_consumer_new(options->guard, &in->source, options->version, options->counts,
                             options->events, options->ctx, &in->consumer) == 0)
        return in;
    free(in);
    return NULL;
}

static const char *on_topic(const void *self)
{
    return ((const struct amqp_in *)self)->source.topic;
}

static void on_emit_deliver(const void *self, struct buffer *out)
{
    buffer_append_text(out, "{\"to\":");
    json_write_string(out, ((const struct amqp_in *)self)->source.place);
    buffer_append_text(out, ",\"exchange\":\"{meta." TARGET_AMQP_META_EXCHANGE
                            "}\",\"routing_key\":\"{meta." TARGET_AMQP_META_ROUTING_KEY
                            "}\",\"max_in_flight\":1000}");
}

static bool on_start(void *self)
{
    return amqp_in_consumer_start(((struct amqp_in *)self)->consumer);
}

static void on_settle(void *self, struct intake_batch *batch)
{
    amqp_in_consumer_settle(((struct amqp_in *)self)->consumer, batch);
}

static void on_stop(void *self, bool at_once)
{
    amqp_in_consumer_stop(((struct amqp_in *)self)->consumer, at_once);
}

static void on_free(void *self)
{
    struct amqp_in *in = self;
    if (in)
        amqp_in_consumer_free(in->consumer);
    free(in);
}

static const struct metric metrics[] = INTAKE_METRICS(
    "amqp_in", "--amqp-in", "RabbitMQ",
    "RabbitMQ dead-letters them if their queue has a dead letter exchange, otherwise "
    "they are lost.");

const struct intake_kind intake_amqp = {.name = "amqp-in",
                                        .metrics = metrics,
                                        .check = on_check,
                                        .open = on_open,
                                        .topic = on_topic,
                                        .emit_deliver = on_emit_deliver,
                                        .start = on_start,
                                        .settle = on_settle,
                                        .stop = on_stop,
                                        .free = on_free};
