/*
 * metrics_server: what /metrics says of the server as a whole: what keeps the jobs, which build it is,
 * what memory it uses, what became of its audit.
 *
 * Written at once, on any reactor's thread.
 */
#ifndef TARRY_HTTP_METRICS_SERVER_H
#define TARRY_HTTP_METRICS_SERVER_H

#include "base/metric.h"
#include "http/state.h"
#include "queue/queue.h"

#include <string.h>

/* Are the jobs in this process, so that looking at them costs no call to another? */
static inline bool http_store_is_embedded(const struct queue_info *info)
{
    return info->store && strcmp(info->store, "embedded") == 0;
}

void http_metrics_server_write_store(struct queue *queue, struct metric_page *page);
void http_metrics_server_write(struct http_shared *shared, struct metric_page *page);

#endif
