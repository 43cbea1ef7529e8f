/* Stubs for a build without AMQP: --amqp-in is refused. */
#include "base/feature.h"
#include "server/intake.h"

static bool on_check(const char *url, bool delivers, char *error)
{
    (void)url;
    (void)delivers;
    return feature_missing("amqp", error, INTAKE_ERROR_BYTES);
}

static void *on_open(const struct intake_options *options, char *error)
{
    (void)options;
    (void)feature_missing("amqp", error, INTAKE_ERROR_BYTES);
    return NULL;
}

static void on_free(void *self)
{
    (void)self;
}

static void on_emit_metrics(void *self, struct metric_page *page)
{
    (void)self;
    (void)page;
}

const struct intake_ops intake_amqp = {
    .check = on_check, .open = on_open, .free = on_free, .emit_metrics = on_emit_metrics};
