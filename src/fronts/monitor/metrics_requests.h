/*
 * metrics_requests: the metrics of requests and connections. Sums up the counters of all fronts,
 * then writes them in short steps.
 *
 * Each page has one, zeroed at first. It belongs to one thread, while the fronts continue to count.
 */
#ifndef TARRY_MONITOR_METRICS_REQUESTS_H
#define TARRY_MONITOR_METRICS_REQUESTS_H

#include "base/metric.h"
#include "http/state.h"

struct monitor_metrics_requests {
    uint64_t requests[HTTP_ROUTES_MAX][HTTP_STATUSES];
    struct buckets durations[HTTP_ROUTES_MAX][HTTP_CLASSES];
    uint64_t denied[HTTP_DENIALS];
    uint64_t refused, bytes_in, bytes_out, connections, waiting, streams, events_lost;
    struct {
        const char *name;
        uint64_t accepted, ungreeted;
    } listeners[LISTENERS_MAX];
    uint32_t listener_count;
};

/* Each function below makes one step from `*at` on, 0 at first. Returns true after the last
 * step. */

/* Adds the counters of one front per step. */
bool monitor_metrics_requests_gather(struct monitor_metrics_requests *sums,
                                     struct http_shared *shared, uint32_t *at);
/* Writes one route per step. */
bool monitor_metrics_requests_write_counts(const struct monitor_metrics_requests *sums,
                                           const struct http_shared *shared,
                                           struct metric_page *page, uint32_t *at);
bool monitor_metrics_requests_write_durations(const struct monitor_metrics_requests *sums,
                                              const struct http_shared *shared,
                                              struct metric_page *page, uint32_t *at);
/* Writes the metrics without a route in one call. */
void monitor_metrics_requests_write_rest(const struct monitor_metrics_requests *sums,
                                         struct http_shared *shared, struct metric_page *page);

#endif
