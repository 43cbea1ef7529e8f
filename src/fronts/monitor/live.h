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
struct http_live;

/* Creates the live state of a front. Returns NULL if out of memory. */
struct http_live *http_live_new(struct http_front *front);
/* Frees it after its streams have ended; NULL is allowed. */
void http_live_free(struct http_live *live);

#endif
