/*
 * live: sends samples of the server to listeners: `GET /v1/live` once a second, `GET /v1/status`
 * once.
 *
 * Each front serves its own listeners when a sample arrives (sampler.h). The text for all callers
 * that may see all topics is written once. Large amounts are written over several loop iterations.
 * Runs on the reactor thread.
 */
#ifndef TARRY_MONITOR_LIVE_H
#define TARRY_MONITOR_LIVE_H

struct http_front;
struct monitor_live;

/* Creates the live state of a front. Returns NULL if out of memory. */
struct monitor_live *monitor_live_new(struct http_front *front);
/* Frees it after its streams have ended; NULL is allowed. */
void monitor_live_free(struct monitor_live *live);

#endif
