/* Intake of RabbitMQ messages as jobs: --amqp-in. */
#include "base/error.h"
#include "intake/in.h"
#include "server/intake.h"

_Static_assert((int)AMQP_IN_ERROR_BYTES <= (int)INTAKE_ERROR_BYTES, "errors are handed through");

static bool on_check(const char *url, bool delivers, char *error)
{
    struct amqp_in_source source;
    return delivers ? amqp_in_source_parse(slice_of(url), &source, error)
                    : error_text(error, INTAKE_ERROR_BYTES,
                                 "'--amqp-in' without '--deliver', its messages could not be "
                                 "published again, also give --deliver FILE");
}

static void *on_open(const struct intake_options *options, char *error)
{
    const struct amqp_in_options in = {.reactor = options->reactor,
                                       .queue = options->queue,
                                       .guard = options->guard,
                                       .caller = options->caller,
                                       .version = options->version,
                                       .url = options->url};
    return on_check(options->url, guard_is_on(in.guard), error) ? amqp_in_new(&in, error) : NULL;
}

static void on_start(void *self)
{
    amqp_in_start(self);
}

static void on_stop(void *self, void (*stopped)(void *ctx), void *ctx)
{
    amqp_in_stop(self, stopped, ctx);
}

static void on_free(void *self)
{
    amqp_in_free(self);
}

static void on_emit_metrics(void *self, struct metric_page *page)
{
    amqp_in_emit_metrics(self, page);
}

const struct intake_ops intake_amqp = {.check = on_check,
                                       .open = on_open,
                                       .start = on_start,
                                       .stop = on_stop,
                                       .free = on_free,
                                       .emit_metrics = on_emit_metrics,
                                       .metrics = amqp_in_metrics};
