/*
 * backend: the job store as the server uses it. It is opened from the configuration, gives each
 * reactor a handle, and is stopped and freed. There are three kinds, selected by --store.
 *
 * Each kind is a table of functions. Life: open; attach for each reactor (0 to reactors - 1); once
 * they run, stop on reactor 0, which calls `stopped` there; free after the reactors have ended, if
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

/* Called on any thread, possibly more than once, when jobs can no longer be stored, so that the
 * server has to stop. */
typedef void backend_failed(void *ctx);

struct backend {
    const struct backend_ops *ops;
    void *self;                      /* state of the kind; NULL if not open */
    uint32_t reactors;               /* number of reactors required */
    int64_t stop_ms;                 /* maximum duration of a stop */
    int64_t test_clock_start_ms;     /* if the store does not know the start; otherwise 0 */
    char place[BACKEND_PLACE_BYTES]; /* location of the jobs for display, without secrets */
};

/* Functions of a backend with a test clock. All run on reactor 0's thread. */
struct backend_clock_move {
    int64_t to_ms; /* inner clock; -1: do not move */
    bool restarts; /* if there are no jobs: the wall clock returns to its start */
    bool keeps;    /* the time survives a crash from then on */
};
typedef void backend_settled(void *ctx, bool is_good, int64_t next_ms, uint64_t happened);
struct backend_clock {
    /* returns NULL if an ordinary clock is configured */
    struct clock *(*clock)(struct backend *backend);
    int64_t (*start_ms)(struct backend *backend);
    /* Moves the clock, then does the same as local_settle (local/test_clock.h). One call at a time;
     * never completes inside the call. */
    void (*settle)(struct backend *backend, const struct backend_clock_move *move,
                   backend_settled *settled, void *ctx);
    /* Like local_on_active. */
    void (*on_active)(struct backend *backend, void (*active)(void *ctx), void *ctx);
    /* true if the store also holds other servers' jobs, whose changes are not reported
     * immediately */
    bool is_shared;
};

/* The space of a disk; 0: unknown. */
struct backend_disk {
    uint64_t used_bytes;        /* by the jobs */
    uint64_t free_bytes, bytes; /* of the file system */
};

struct backend_ops {
    /* Returns 0, or negative errno with `error` (BACKEND_ERROR_BYTES), which names the problem, the
     * place and the remedy. */
    int (*open)(struct backend *backend, const struct config *config, backend_failed *failed,
                void *ctx, char *error);
    /* Sets the receiver of events; called after open, before attach. */
    void (*set_feed)(struct backend *backend, struct feed *feed);
    /* Called before the reactor runs, on any thread. */
    int (*attach)(struct backend *backend, uint32_t index, struct reactor *reactor,
                  struct queue **out, char *error);
    void (*stop)(struct backend *backend, void (*stopped)(void *ctx), void *ctx);
    void (*free)(struct backend *backend);
    /* Returns the random name of the store, which is the same on all its servers. On the first
     * reactor's thread. */
    const char *(*store_name)(struct backend *backend);
    /* On any reactor's thread. NULL if there are no metrics. */
    void (*emit_metrics)(struct backend *backend, struct metric_page *page);
    const struct metric *metrics; /* rows of these metrics; may be NULL */
    /* Writes an object for each shard, separated by commas, for GET /v1/server. On any reactor's
     * thread. */
    void (*write_shards)(struct backend *backend, struct buffer *out);
    /* Reads the space of the disk on this machine. Any thread. NULL if the jobs are on another
     * machine. */
    void (*disk)(struct backend *backend, struct backend_disk *out);
    /* Like http_backup_hooks.backup. NULL if the store is backed up by other means. */
    void (*backup)(struct backend *backend, struct reactor *reactor, enum http_backup what,
                   struct slice id, http_tested *done, void *owner, uint64_t tag);
    const struct backend_clock *clock; /* NULL if there is no test clock */
};

/* In a build without one of the shared stores, absent/redis.c or absent/sql.c replaces
 * backend_redis.c or backend_sql.c. */
extern const struct backend_ops backend_embedded, backend_redis, backend_sql;

#endif
