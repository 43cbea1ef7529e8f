/*
 * backend: what keeps the jobs, as the server sees it: opened from the configuration, a handle for
 * each reactor, stopped, freed. Two kinds, chosen by --store.
 *
 * Life: backend_open; backend_attach for each part (0 to parts - 1); once the reactors run,
 * backend_stop on reactor 0, which calls `stopped` there; backend_free after they have ended.
 */
#ifndef TARRY_SERVER_BACKEND_H
#define TARRY_SERVER_BACKEND_H

#include "http/front.h"
#include "net/reactor.h"
#include "queue/queue.h"
#include "server/config.h"

enum { BACKEND_ERROR_BYTES = 512, BACKEND_PLACE_BYTES = OPTION_TEXT_BYTES };

/* Any thread, maybe more than once: what is pushed cannot be kept any more, the server must end. */
typedef void backend_failed(void *ctx);

struct backend {
    const struct backend_ops *ops;
    void *self;                      /* the kind's own; NULL: nothing open */
    uint32_t parts;                  /* reactors wanted */
    int64_t stop_ms;                 /* how long a stop may take at most */
    char place[BACKEND_PLACE_BYTES]; /* where the jobs are, for people: no secrets in it */
};

struct backend_ops {
    /* 0 or negative errno with `error` (BACKEND_ERROR_BYTES): what, where, what to do. */
    int (*open)(struct backend *backend, const struct config *config, backend_failed *failed,
                void *ctx, char *error);
    /* Before the reactor runs; each part on any thread. */
    int (*attach)(struct backend *backend, uint32_t part, struct reactor *reactor,
                  struct queue **out, char *error);
    void (*stop)(struct backend *backend, void (*stopped)(void *ctx), void *ctx);
    void (*free)(struct backend *backend);
    /* The store's own random name, the same at each of its servers; on the first reactor's thread. */
    const char *(*store_name)(struct backend *backend);
    /* Lines of a Prometheus page; any reactor's thread. */
    void (*emit_metrics)(struct backend *backend, struct buffer *out);
    /* As http_backup_hooks.backup; NULL: the store is backed up by other means. */
    void (*backup)(struct backend *backend, struct reactor *reactor, enum http_backup what,
                   struct slice id, http_tested *done, void *owner, uint64_t tag);
};

extern const struct backend_ops backend_embedded, backend_redis;

int backend_open(struct backend *backend, const struct config *config, backend_failed *failed,
                 void *ctx, char *error);
int backend_attach(struct backend *backend, uint32_t part, struct reactor *reactor,
                   struct queue **out, char *error);
void backend_stop(struct backend *backend, void (*stopped)(void *ctx), void *ctx);
void backend_free(struct backend *backend); /* of a zeroed one: nothing */
/* Fits deliver_options. */
const char *backend_store_name(void *backend);
/* Fits http_shared_add_metrics. */
void backend_emit_metrics(void *backend, struct buffer *out);

#endif
