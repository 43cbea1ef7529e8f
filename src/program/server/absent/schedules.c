/* Stubs for a build without schedules: the calls under /v1/schedules do not exist. */
#include "server/schedules.h"

const bool schedules_are_built = false;

void schedules_open_calls(struct http_shared *shared, const char *zone_directory)
{
    (void)shared;
    (void)zone_directory;
}

bool schedules_open(struct schedules *schedules, const char *zone_directory,
                    const struct http_hooks *hooks, struct reactor *reactor, struct queue *queue,
                    struct waiters *waiters, struct feed_desk *desk)
{
    (void)schedules;
    (void)zone_directory;
    (void)hooks;
    (void)reactor;
    (void)queue;
    (void)waiters;
    (void)desk;
    return true;
}

void schedules_start(struct schedules *schedules)
{
    (void)schedules;
}

void schedules_stop(struct schedules *schedules, void (*stopped)(void *ctx), void *ctx)
{
    (void)schedules;
    (void)stopped;
    (void)ctx;
}

void schedules_close(struct schedules *schedules)
{
    (void)schedules;
}

void schedules_emit_metrics(struct schedules *schedules, struct metric_page *page)
{
    (void)schedules;
    (void)page;
}

const struct metric_table schedules_metrics;
