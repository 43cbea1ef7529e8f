/*
 * consumers: which consumer takes from which topic, by the name given with a take (`consumer`), as
 * seen by this server only. GET /v1/topics/{topic}/consumers joins this with the current leases,
 * regardless of the server that granted them.
 *
 * One per server, shared by its fronts. Thread-safe by a lock of its own. A consumer is listed for
 * API_CONSUMERS_KEPT_MS after its last take, and counted as active for API_CONSUMERS_ACTIVE_MS, which
 * is longer than any take waits. If the table or its topic has used more than half of its room, only
 * active consumers are kept. Above API_CONSUMERS_MAX, above the limit per topic, or without memory,
 * new consumers are not recorded.
 * Times are wall clock in milliseconds.
 *
 * The callers that push are recorded in the same way, by name or address: the first push of a
 * connection, then at most one request of it in API_PUSHERS_PAUSE_MS, so that it costs next to
 * nothing.
 */
#ifndef TARRY_API_CONSUMERS_H
#define TARRY_API_CONSUMERS_H

#include "base/metric.h"
#include "base/slice.h"

enum {
    API_CONSUMERS_MAX = 10000,
    API_CONSUMERS_OF_TOPIC_MAX = 1000, /* so that one topic does not displace others */
    API_CONSUMERS_ACTIVE_MS = 5 * 60 * 1000,
    API_CONSUMERS_KEPT_MS = 24 * 60 * 60 * 1000,
    API_PUSHERS_PAUSE_MS = 100,
    API_PUSHERS_SHOWN = 20 /* the latest */
};

struct api_consumers;

/* Creates the table. Returns NULL if out of memory. */
struct api_consumers *api_consumers_new(void);
void api_consumers_free(struct api_consumers *consumers);

/* Records a take from the topic and the number of jobs taken. */
void api_consumers_note(struct api_consumers *consumers, struct slice topic, struct slice consumer,
                        uint64_t taken, int64_t now_ms);

/* Records the caller of a request that pushes these jobs, or tries to. */
struct http_exchange;
struct queue_push;
void api_pushers_note(struct http_exchange *exchange, const struct queue_push *pushes,
                      size_t count);

/* Writes the number of consumers per topic. If `shows` is given, it decides which topics are
 * listed, and the others are not summed up. NULL: all topics. */
typedef bool api_consumers_shows(void *ctx, struct slice topic);
void api_consumers_emit(struct api_consumers *consumers, struct metric_page *page, int64_t now_ms,
                        api_consumers_shows *shows, void *ctx);
extern const struct metric api_consumers_metrics[];

#endif
