/* metrics: GET /metrics, written page by page over several loop iterations. */
#ifndef TARRY_MONITOR_METRICS_H
#define TARRY_MONITOR_METRICS_H

struct http_front;

/* Cancels pages in progress when the front ends. */
void monitor_metrics_end(struct http_front *front);

#endif
