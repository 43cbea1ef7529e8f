/*
 * where: which server is master of a slot, now: a single server, Sentinel's word, or a cluster's
 * map. Shared by all links of a reactor; one thread.
 *
 * Asking is lazy: the map is learned when first asked for, and again when a link says it was wrong
 * (MOVED, READONLY, a refused connection), at most once every REDIS_WHERE_PAUSE_MS; all who ask
 * meanwhile share the one question. Under Sentinel those who listen are told when another server
 * was made master (see watch.h).
 */
#ifndef TARRY_REDIS_WHERE_H
#define TARRY_REDIS_WHERE_H

#include "base/list.h"
#include "net/reactor.h"
#include "redis/url.h"

enum { REDIS_WHERE_PAUSE_MS = 200 };

struct redis_where;

struct redis_where *redis_where_new(struct reactor *reactor, const struct redis_url *url);
/* Questions under way are not answered any more. */
void redis_where_free(struct redis_where *where);

/* `endpoint` NULL: nobody could be asked, or nobody serves the slot; `why` says so. Never inside
 * the call. Valid during the callback. */
typedef void redis_where_found(void *ctx, const struct redis_endpoint *endpoint, const char *why);
/* `fresh`: what is known was found wrong; ask again. */
void redis_where_ask(struct redis_where *where, uint16_t slot, bool fresh, redis_where_found *found,
                     void *ctx);
/* The asker is gone. */
void redis_where_forget(struct redis_where *where, void *ctx);
/* Embed it; it must stay until redis_where_unlisten. */
struct redis_where_listener {
    struct list list;
    /* `from` is master no more; asking now tells who is. May ask, forget and unlisten itself. */
    void (*deposed)(void *ctx, const struct redis_endpoint *from);
    void *ctx;
};
void redis_where_listen(struct redis_where *where, struct redis_where_listener *listener);
void redis_where_unlisten(struct redis_where_listener *listener);
/* A MOVED: the slot's master is there. */
void redis_where_moved(struct redis_where *where, uint16_t slot,
                       const struct redis_endpoint *endpoint);

#endif
