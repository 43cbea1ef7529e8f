/*
 * metrics_server: the metrics of the server as a whole: its store, its build, its memory use and
 * its audit.
 *
 * Written in one call on any reactor's thread.
 */
#ifndef TARRY_MONITOR_METRICS_SERVER_H
#define TARRY_MONITOR_METRICS_SERVER_H

#include "base/metric.h"
#include "http/state.h"
#include "queue/queue.h"

#include <string.h>

/* Returns whether the jobs are in this process, so that reading their figures needs no call to
 * another one. */
static inline bool monitor_store_is_embedded(const struct queue_info *info)
{
    return info->store && strcmp(info->store, "embedded") == 0;
}

void monitor_metrics_server_write_store(struct http_shared *shared, struct queue *queue,
                                        struct metric_page *page);
void monitor_metrics_server_write(struct http_shared *shared, struct metric_page *page);

#endif
