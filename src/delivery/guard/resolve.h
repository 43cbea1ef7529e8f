/*
 * resolve: names to addresses that may be reached. What it answers is what is connected to: nobody
 * resolves a second time, so a name cannot point elsewhere between the check and the connection.
 */
#ifndef TARRY_GUARD_RESOLVE_H
#define TARRY_GUARD_RESOLVE_H

#include "guard/guard.h"
#include "net/reactor.h"

enum { RESOLVE_ADDRESSES_MAX = 8 };

struct resolved {
    size_t count; /* 0: none, then `verdict` or `error` say why */
    struct sockaddr_storage addresses[RESOLVE_ADDRESSES_MAX]; /* only allowed ones, port set */
    enum guard_verdict verdict;    /* of the host, or of the first address refused */
    bool is_temporary;             /* the name server did not answer: try again later */
    bool is_unasked;               /* it was not even asked: too many look-ups are under way */
    char error[GUARD_ERROR_BYTES]; /* in words, without inner addresses; empty where count > 0 */
};

/* Blocks; for threads that may. An address among `host` is taken as it is. */
void resolve_now(struct guard *guard, const char *host, uint16_t port, struct resolved *out);

/* On the reactor, off its loop's thread. After five seconds a name is asked for anew; meanwhile,
 * and while its name server is silent, what was found in the last five minutes is answered. `done`
 * comes on the reactor's thread, never inside the call, once. */
struct resolver;
struct resolver *resolver_new(struct reactor *reactor, struct guard *guard);
/* Answers under way are dropped: no `done` after this. May be called by a `done`. Look-ups under
 * way end with the loop. */
void resolver_free(struct resolver *resolver);
/* `group`: on whose behalf (a hash): one does not take all look-ups for itself, and names wait for
 * their turn group by group. */
void resolver_ask(struct resolver *resolver, const char *host, uint16_t port, uint64_t group,
                  void (*done)(void *owner, uint64_t tag, const struct resolved *resolved),
                  void *owner, uint64_t tag);
/* Another group wants `host` as well, about which a question is under way: it may have that one's
 * turn. */
void resolver_join(struct resolver *resolver, const char *host, uint64_t group);
/* For how long the name server has been asked about `host` now; 0: it is not being asked, or the
 * question waits for its turn. */
int64_t resolver_asked_ms(struct resolver *resolver, const char *host);

#endif
