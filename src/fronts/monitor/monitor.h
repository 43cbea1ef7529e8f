/*
 * monitor: what the server reports about itself, as a part of the HTTP server: status, live figures,
 * metrics, the server's state, and the runbooks.
 */
#ifndef TARRY_MONITOR_MONITOR_H
#define TARRY_MONITOR_MONITOR_H

#include <stdbool.h>

struct http_shared;
struct queue;
struct reactor;

/* Adds the calls. Call it after api_open and before the first front is created. */
void monitor_open(struct http_shared *shared);
/* Starts the sampler (sampler.h) on this reactor and its queue. Without it there are no live
 * streams, no status and no silences. `directory` is where the monitor keeps its files (kept.h), or
 * NULL: then nothing survives a restart. Call it before the reactors run. Returns false if out of
 * memory. */
bool monitor_look(struct http_shared *shared, struct reactor *reactor, struct queue *queue,
                  const char *directory);

#endif
