/*
 * metrics_server: the metrics of the server as a whole: its store, its requests and connections, its
 * build, its memory use and its audit.
 *
 * Each page has one, zeroed except for `shared` and `queue`. It belongs to one thread, while the
 * fronts continue to count.
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

/* The counters of requests and connections, summed up over all fronts. */
struct monitor_requests {
    uint64_t counts[HTTP_ROUTES_MAX][HTTP_STATUSES];
    struct buckets durations[HTTP_ROUTES_MAX][HTTP_CLASSES];
    uint64_t denied[HTTP_DENIALS];
    uint64_t refused, bytes_in, bytes_out, connections, waiting, streams, events_lost;
    struct {
        const char *name;
        uint64_t accepted, ungreeted;
    } listeners[LISTENERS_MAX];
    uint32_t listener_count;
};

struct monitor_metrics_server {
    struct http_shared *shared;
    struct queue *queue;
    uint32_t step, at; /* at: position within the step */
    struct monitor_requests requests;
};

/* Makes one step, which reads one front or writes about one route. Returns true after the last. */
bool monitor_metrics_server_write(struct monitor_metrics_server *server, struct metric_page *page);

#endif
