/* Stubs for a build without push delivery: --deliver accepts no file, and topics cannot have a
 * target. */
#include "server/delivery.h"
#include "base/feature.h"

static bool is_delivery_on(void *ctx)
{
    (void)ctx;
    return false;
}

static bool allows_callback(void *ctx, struct slice url)
{
    (void)ctx;
    (void)url;
    return false;
}

/* Rejects every extension, because deliver also handles dead letters. */
static bool check_extension(void *ctx, struct slice topic, struct slice extension, char *error)
{
    (void)ctx;
    (void)topic;
    (void)extension;
    return feature_missing("delivery", error, HTTP_HOOK_ERROR_BYTES);
}

bool delivery_open(struct delivery *delivery, const struct config *config, struct backend *backend,
                   struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   struct lateness *lateness, struct tracer *tracer,
                   char error[DELIVERY_ERROR_BYTES])
{
    (void)backend;
    (void)reactor;
    (void)queue;
    (void)waiters;
    (void)lateness;
    (void)tracer;
    delivery->hooks = (struct http_hooks){
        .ctx = delivery, .is_on = is_delivery_on, .check_extension = check_extension};
    delivery->callbacks = (struct queue_callback_rule){.allows = allows_callback, .ctx = delivery};
    return !config->deliver[0] || feature_missing("delivery", error, DELIVERY_ERROR_BYTES);
}

bool delivery_check(const char *path, char error[DELIVERY_ERROR_BYTES])
{
    return !path[0] || feature_missing("delivery", error, DELIVERY_ERROR_BYTES);
}

void delivery_start(struct delivery *delivery)
{
    (void)delivery;
}

int64_t delivery_next_ms(const struct delivery *delivery)
{
    (void)delivery;
    return INT64_MAX;
}

void delivery_clock_moved(struct delivery *delivery)
{
    (void)delivery;
}

void delivery_clock_reset(struct delivery *delivery)
{
    (void)delivery;
}

void delivery_reload(struct delivery *delivery)
{
    (void)delivery;
}

void delivery_emit_metrics(struct delivery *delivery, struct metric_page *page)
{
    (void)delivery;
    (void)page;
}

const struct metric_table delivery_metrics, delivery_dead_metrics;

void delivery_stop(struct delivery *delivery, int64_t timeout_ms, void (*stopped)(void *ctx),
                   void *ctx)
{
    (void)delivery;
    (void)timeout_ms;
    stopped(ctx);
}

void delivery_close(struct delivery *delivery)
{
    *delivery = (struct delivery){0};
}
