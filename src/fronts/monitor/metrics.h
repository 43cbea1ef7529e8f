/*
 * metrics: the page of GET /metrics, built over many short loop iterations. Topics are read page by
 * page; then the metrics of topics, of the server (metrics_server.h) and of the server's other rooms
 * are written piece by piece into a buffer of the page.
 */
#ifndef TARRY_MONITOR_METRICS_H
#define TARRY_MONITOR_METRICS_H

struct http_front;

/* Cancels pages in progress when the front ends. */
void monitor_metrics_end(struct http_front *front);

#endif
