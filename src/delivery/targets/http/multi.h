/*
 * http_multi: a libcurl multi handle on the reactor's loop: its sockets, its timer, its completed
 * transfers.
 *
 * Used on the reactor's thread. Sockets are opened only to addresses that the guard allows. A
 * socket stays registered in the loop as long as its connection exists, so a connection with many
 * requests causes no changes there.
 */
#ifndef TARRY_TARGETS_HTTP_MULTI_H
#define TARRY_TARGETS_HTTP_MULTI_H

#include "guard/guard.h"
#include "net/reactor.h"
#include "targets/http/traffic.h"

#include <curl/curl.h>

struct target_multi;

struct target_opening { /* for an easy handle's socket */
    struct target_multi *multi;
    int error;  /* errno if no socket was opened; reset by the reader */
    int fds[2]; /* the two most recently opened descriptors, or -1 */
};

/* The state of a connection just before a request was sent: the traffic of its peer up to that
 * time. */
struct target_mark {
    uint16_t port;   /* local port */
    uint32_t serial; /* of the connection; 0 if unknown */
    bool is_first;   /* no earlier request used the connection */
    struct target_traffic traffic;
};

/* Called when a transfer has ended and is removed from the multi handle; only from the loop, never
 * inside a call. */
typedef void target_multi_ended(void *ctx, CURL *easy, CURLcode code);

/* Returns NULL without memory or descriptors. */
struct target_multi *target_multi_new(struct reactor *reactor, struct guard *guard,
                                      target_multi_ended *ended, void *ctx);
/* Closes all connections. All transfers have to be removed before; not to be called from
 * `ended`. */
void target_multi_free(struct target_multi *multi);

/* Adds a transfer, which begins at the end of this loop iteration. `opening` records the sockets of
 * the handle and has to live as long. Returns false when out of memory. */
bool target_multi_add(struct target_multi *multi, CURL *easy, struct target_opening *opening);
/* Records the state of the connection for the next request, which will be sent from local `port` to
 * the address `peer`. Called in CURLOPT_PREREQFUNCTION. */
void target_multi_mark(struct target_multi *multi, const struct target_opening *opening,
                       const char *peer, int port, struct target_mark *mark);
/* Checks a marked connection that was closed without an answer. Returns true if the peer certainly
 * received nothing of the request, so that it may be sent again; false if it may have. */
bool target_multi_took_nothing(const struct target_multi *multi, const struct target_mark *mark);
/* Removes a transfer before its end; closes its connection. */
void target_multi_remove(struct target_multi *multi, CURL *easy);

#endif
