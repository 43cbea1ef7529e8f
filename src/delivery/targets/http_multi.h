/*
 * http_multi: one libcurl multi handle on the reactor's loop: its sockets, its time, what ended.
 *
 * The reactor's thread. Sockets are opened only to addresses that the guard allows. A socket's
 * place in the loop is kept for as long as its connection lives: one that carries request after
 * request costs no changes there.
 */
#ifndef TARRY_TARGETS_HTTP_MULTI_H
#define TARRY_TARGETS_HTTP_MULTI_H

#include "guard/guard.h"
#include "net/reactor.h"
#include "targets/http_traffic.h"

#include <curl/curl.h>

struct target_multi;

struct target_opening { /* of an easy handle's socket */
    struct target_multi *multi;
    int error;  /* why there is none: an errno; the reader clears it */
    int fds[2]; /* the last ones that were opened; -1: none */
};

/* A connection when a request was about to be sent by it: what its peer had until then. */
struct target_mark {
    uint16_t port;   /* on our side */
    uint32_t serial; /* of the connection; 0: not known */
    bool is_first;   /* no request went by it before */
    struct target_traffic traffic;
};

/* A transfer is over; it is no longer the multi's. Not inside a call, but for the loop's. */
typedef void target_multi_ended(void *ctx, CURL *easy, CURLcode code);

/* NULL: out of memory or descriptors. */
struct target_multi *target_multi_new(struct reactor *reactor, struct guard *guard,
                                      target_multi_ended *ended, void *ctx);
/* Closes all connections. Every transfer has been removed; not from within `ended`. */
void target_multi_free(struct target_multi *multi);

/* Begins at the end of this turn; `opening` lives as long as the handle, whose sockets are noted there.
 * False: out of memory. */
bool target_multi_add(struct target_multi *multi, CURL *easy, struct target_opening *opening);
/* Within CURLOPT_PREREQFUNCTION: the request goes out next, from `port` of this
 * machine to the address `peer`. */
void target_multi_mark(struct target_multi *multi, const struct target_opening *opening,
                       const char *peer, int port, struct target_mark *mark);
/* The marked connection is closed, without an answer. True: the peer certainly took nothing of the
 * request, which may be sent again. False: it may have. */
bool target_multi_took_nothing(const struct target_multi *multi, const struct target_mark *mark);
/* Before its end. Its connection is closed. */
void target_multi_remove(struct target_multi *multi, CURL *easy);

#endif
