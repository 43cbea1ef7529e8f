/*
 * backend: what keeps the jobs, as the server sees it: opened from the configuration, a handle for
 * each reactor, stopped, freed. Three kinds, chosen by --store.
 *
 * Each kind is a table of functions. Life: open; attach for each reactor (0 to reactors - 1); once
 * they run, stop on reactor 0, which calls `stopped` there; free after they have ended, where
 * `self` is set.
 */
#ifndef TARRY_SERVER_BACKEND_H
#define TARRY_SERVER_BACKEND_H

#include "base/metric.h"
#include "feed/feed.h"
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
    uint32_t reactors;               /* how many it wants */
    int64_t stop_ms;                 /* how long a stop may take at most */
    int64_t test_clock_start_ms;     /* where the store cannot tell; else 0 */
    char place[BACKEND_PLACE_BYTES]; /* where the jobs are, for people: no secrets in it */
};

/* Of one that goes by a test clock. All on reactor 0's thread. */
struct backend_clock_move {
    int64_t to_ms; /* inner; -1: it stays */
    bool restarts; /* there are no jobs: its wall clock goes back to where it began */
    bool keeps;    /* what it shows outlives a crash from then on */
};
typedef void backend_settled(void *ctx, bool is_good, int64_t next_ms, uint64_t happened);
struct backend_clock {
    struct clock *(*clock)(struct backend *backend); /* NULL: an ordinary one was asked for */
    int64_t (*start_ms)(struct backend *backend);
    /* Moves the clock, then as local_settle (local/test_clock.h). One at a time; never inside the call. */
    void (*settle)(struct backend *backend, const struct backend_clock_move *move,
                   backend_settled *settled, void *ctx);
    /* As local_on_active. */
    void (*on_active)(struct backend *backend, void (*active)(void *ctx), void *ctx);
    bool is_shared; /* other servers' jobs are in it, too: of what they do nobody hears at once */
};

struct backend_ops {
    /* 0 or negative errno with `error` (BACKEND_ERROR_BYTES): what, where, what to do. */
    int (*open)(struct backend *backend, const struct config *config, backend_failed *failed,
                void *ctx, char *error);
    /* Where what happens is told; after open, before attach. */
    void (*set_feed)(struct backend *backend, struct feed *feed);
    /* Before the reactor runs, on any thread. */
    int (*attach)(struct backend *backend, uint32_t index, struct reactor *reactor,
                  struct queue **out, char *error);
    void (*stop)(struct backend *backend, void (*stopped)(void *ctx), void *ctx);
    void (*free)(struct backend *backend);
    /* The store's own random name, the same at each of its servers; on the first reactor's
     * thread. */
    const char *(*store_name)(struct backend *backend);
    /* Any reactor's thread. NULL: it has none. */
    void (*emit_metrics)(struct backend *backend, struct metric_page *page);
    const struct metric *metrics; /* the rows of these; NULL likewise */
    /* An object for each shard, with commas between: what GET /v1/server says of it. Any reactor's
     * thread. */
    void (*write_shards)(struct backend *backend, struct buffer *out);
    /* What the jobs take on this machine's disk, and what is free there; 0: not known. Any thread.
     * NULL: they are elsewhere. */
    void (*disk)(struct backend *backend, uint64_t *used_bytes, uint64_t *free_bytes);
    /* As http_backup_hooks.backup; NULL: the store is backed up by other means. */
    void (*backup)(struct backend *backend, struct reactor *reactor, enum http_backup what,
                   struct slice id, http_tested *done, void *owner, uint64_t tag);
    const struct backend_clock *clock; /* NULL: it never goes by a test clock */
};

/* In a build without one of the shared stores, absent/redis.c and absent/sql.c stand where
 * backend_redis.c and backend_sql.c would. */
extern const struct backend_ops backend_embedded, backend_redis, backend_sql;

#endif
