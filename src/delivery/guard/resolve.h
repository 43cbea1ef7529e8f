/*
 * resolve: resolves names to addresses that may be reached. Connections use exactly these
 * addresses; names are not resolved a second time, so a name cannot change between the check and
 * the connection.
 */
#ifndef TARRY_GUARD_RESOLVE_H
#define TARRY_GUARD_RESOLVE_H

#include "guard/guard.h"
#include "net/reactor.h"

enum { RESOLVE_ADDRESSES_MAX = 8 };

struct resolved {
    size_t count; /* if 0, `decision` or `error` is the reason */
    /* only allowed ones, with the port set */
    struct sockaddr_storage addresses[RESOLVE_ADDRESSES_MAX];
    enum guard_decision decision; /* of the host, or of the first refused address */
    bool is_temporary;            /* the name server did not answer: retry later */
    bool is_unasked; /* the name server was not asked: too many lookups are in progress */
    char error[GUARD_ERROR_BYTES]; /* description without internal addresses; empty if count > 0 */
};

/* Resolves a host, blocking. If `host` is an address, it is used directly. */
void resolve_now(struct guard *guard, const char *host, uint16_t port, struct resolved *out);

/* Resolves names for a reactor, outside its loop's thread. A name is looked up again after five
 * seconds. Meanwhile, and while its name server does not answer, addresses found in the last five
 * minutes are returned. `done` is called once, on the reactor's thread, never inside the call. */
struct resolver;
struct resolver *resolver_new(struct reactor *reactor, struct guard *guard);
/* Frees the resolver and discards answers: `done` is not called any more. `done` may call this
 * function. Lookups in progress end with the loop. */
void resolver_free(struct resolver *resolver);
/* Looks up a host. `group` is a hash of the requester: one group cannot use all lookups, and
 * waiting names are scheduled group by group. */
void resolver_ask(struct resolver *resolver, const char *host, uint16_t port, uint64_t group,
                  void (*done)(void *owner, uint64_t tag, const struct resolved *resolved),
                  void *owner, uint64_t tag);
/* Adds another group to a pending question about `host`, so that it may be scheduled by that
 * group. */
void resolver_join(struct resolver *resolver, const char *host, uint64_t group);
/* Returns how long the current lookup of `host` has lasted; 0 if the host is not being looked up or
 * is still waiting. */
int64_t resolver_asked_ms(struct resolver *resolver, const char *host);

#endif
