/*
 * consumers: who takes from which topic, by the name that takes give (`consumer`), as this server saw
 * it; of several servers each knows its own. GET /v1/topics/{topic}/consumers joins to that the leases
 * that stand, whichever server gave them.
 *
 * One for a server, shared by its fronts; any thread, under a lock of its own. A consumer that did not
 * ask for HTTP_CONSUMERS_FORGOTTEN_MS is forgotten; a take waits for less. Where there are HTTP_CONSUMERS_MAX, or
 * so many of one topic, or no memory, new ones are not noted. Times are wall clock, in milliseconds.
 */
#ifndef TARRY_HTTP_CONSUMERS_H
#define TARRY_HTTP_CONSUMERS_H

#include "base/metric.h"
#include "base/slice.h"

enum {
    HTTP_CONSUMERS_MAX = 10000,
    HTTP_CONSUMERS_OF_TOPIC_MAX =
        1000, /* so that who invents names for one hides no other topic's */
    HTTP_CONSUMERS_FORGOTTEN_MS = 5 * 60 * 1000
};

struct http_consumers;

/* NULL: out of memory. */
struct http_consumers *http_consumers_new(void);
void http_consumers_free(struct http_consumers *consumers);

/* It asked for jobs of the topic, or was given so many. */
void http_consumers_note(struct http_consumers *consumers, struct slice topic,
                         struct slice consumer, uint64_t taken, int64_t now_ms);

/* Writes how many each topic has. `shows`: whether the page tells of a topic, then there are no others
 * either; NULL: it tells of all. */
typedef bool http_consumers_shows(void *ctx, struct slice topic);
void http_consumers_emit(struct http_consumers *consumers, struct metric_page *page, int64_t now_ms,
                         http_consumers_shows *shows, void *ctx);
extern const struct metric http_consumers_metrics[];

#endif
