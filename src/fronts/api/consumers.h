/*
 * consumers: which consumer takes from which topic, by the name given with a take (`consumer`), as
 * seen by this server only. GET /v1/topics/{topic}/consumers joins this with the current leases,
 * regardless of the server that granted them.
 *
 * One per server, shared by its fronts. Thread-safe by a lock of its own. A consumer is removed
 * HTTP_CONSUMERS_FORGOTTEN_MS after its last take, which is longer than any take waits. Above
 * HTTP_CONSUMERS_MAX, above the limit per topic, or without memory, new consumers are not recorded.
 * Times are wall clock in milliseconds.
 */
#ifndef TARRY_API_CONSUMERS_H
#define TARRY_API_CONSUMERS_H

#include "base/metric.h"
#include "base/slice.h"

enum {
    HTTP_CONSUMERS_MAX = 10000,
    HTTP_CONSUMERS_OF_TOPIC_MAX = 1000, /* so that one topic does not displace others */
    HTTP_CONSUMERS_FORGOTTEN_MS = 5 * 60 * 1000
};

struct http_consumers;

/* Creates the table. Returns NULL if out of memory. */
struct http_consumers *http_consumers_new(void);
void http_consumers_free(struct http_consumers *consumers);

/* Records a take from the topic and the number of jobs taken. */
void http_consumers_note(struct http_consumers *consumers, struct slice topic,
                         struct slice consumer, uint64_t taken, int64_t now_ms);

/* Writes the number of consumers per topic. If `shows` is given, it decides which topics are
 * listed, and the others are not summed up. NULL: all topics. */
typedef bool http_consumers_shows(void *ctx, struct slice topic);
void http_consumers_emit(struct http_consumers *consumers, struct metric_page *page, int64_t now_ms,
                         http_consumers_shows *shows, void *ctx);
extern const struct metric http_consumers_metrics[];

#endif
