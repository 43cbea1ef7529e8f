#include "server/schedules.h"

#include "cadence/cadence.h"

const bool schedules_are_built = true;

void schedules_open_calls(struct http_shared *shared, const char *zone_directory)
{
    cadence_open(shared, zone_directory);
}

bool schedules_open(struct schedules *schedules, const char *zone_directory,
                    const struct http_hooks *hooks, struct reactor *reactor, struct queue *queue,
                    struct waiters *waiters, struct feed_desk *desk)
{
    const struct cadence_worker_options options = {.reactor = reactor,
                                                   .queue = queue,
                                                   .waiters = waiters,
                                                   .zone_directory = zone_directory,
                                                   .hooks = hooks,
                                                   .desk = desk};
    schedules->worker = cadence_worker_new(&options);
    return schedules->worker != NULL;
}

void schedules_start(struct schedules *schedules)
{
    cadence_worker_start(schedules->worker);
}

void schedules_stop(struct schedules *schedules, void (*stopped)(void *ctx), void *ctx)
{
    cadence_worker_stop(schedules->worker, stopped, ctx);
}

void schedules_close(struct schedules *schedules)
{
    cadence_worker_free(schedules->worker);
    schedules->worker = NULL;
}

void schedules_emit_metrics(struct schedules *schedules, struct metric_page *page)
{
    cadence_worker_emit_metrics(schedules->worker, page);
}

const struct metric_table schedules_metrics = {"Schedules", cadence_metrics};
