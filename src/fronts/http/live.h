/*
 * live: what a server sees of itself, told to who listens: `GET /v1/live`, once a second, and
 * `GET /v1/status`, once.
 *
 * Each front tells its own listeners, when a sample comes (sampler.h): what is the same for all who
 * may see all topics is written once. Where there is much to write it takes several turns. One
 * thread: the reactor's.
 */
#ifndef TARRY_HTTP_LIVE_H
#define TARRY_HTTP_LIVE_H

struct http_front;
struct http_live;

/* NULL: no memory. */
struct http_live *http_live_new(struct http_front *front);
/* When its streams have ended; NULL will do. */
void http_live_free(struct http_live *live);

#endif
