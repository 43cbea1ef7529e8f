/*
 * local: the delay queue on this machine: engine and embedded store, one shard per reactor.
 *
 * A shard belongs to its reactor's thread. Each reactor has one handle (struct queue). A command
 * reaches the shard of its job by a call if the shard is on the same reactor, else as a letter. The
 * answers are gathered on the calling reactor.
 */
#ifndef TARRY_LOCAL_LOCAL_H
#define TARRY_LOCAL_LOCAL_H

#include "base/metric.h"
#include "local/figures.h"
#include "net/reactor.h"
#include "queue/queue.h"
#include "store/wal.h"

struct local;
struct clock;

#define LOCAL_TEST_CLOCK_NOW (-1)

struct local_options {
    const char *data_dir;
    uint32_t shards; /* 0: as stored in the directory */
    enum wal_sync sync;
    int64_t sync_interval_ms;
    uint32_t wal_file_bytes; /* 0: default */
    uint64_t body_bytes_max;
    uint32_t topics_max;
    /* Called when the log has failed: from then on, every call is answered with QUEUE_UNAVAILABLE,
     * and the process should stop. Called on any shard's thread, possibly more than once. */
    void (*failed)(void *ctx);
    void *failed_ctx;
    struct clock *clock; /* the clock of its jobs; outlives the queue. NULL: the process's */
    /* Instead of `clock`, the start of a test clock (local/test_clock.h), wall clock, for a new
     * directory, or for one that was created with a test clock, which then continues from its
     * stored time. LOCAL_TEST_CLOCK_NOW: from now, or from the stored time. 0: an ordinary
     * clock. */
    int64_t test_clock_ms;
    int64_t lease_grace_ms; /* leases from before the start end no sooner than this after it; 0: no
                             * such limit */
    int64_t backup_hold_ms; /* how long a backup is kept without a renewal; 0: 60 s */
    int64_t mark_pause_ms;  /* between two writes of the marks (store/marks.h); 0: 5 s */
};

/* Locks the directory, reads its manifest, and starts the clock where its jobs left off. Sets
 * *shards to the number of reactors to create. Returns 0 or a negative errno with `error`. */
int local_open(const struct local_options *options, struct local **out, uint32_t *shards,
               char *error, size_t error_bytes);

/* Returns the store's id: 32 hex digits, drawn when its directory was created and equal in every
 * copy of it. Any thread, until local_free. */
const char *local_store_name(const struct local *local);

/* Sets the destination of events: the desk of each reactor. Before local_attach; outlives the
 * queue. */
struct feed;
void local_set_feed(struct local *local, struct feed *feed);

/* Recovers shard `index` (may take seconds) and creates its handle, on each reactor's own thread or
 * before it runs. */
int local_attach(struct local *local, uint32_t index, struct reactor *reactor, struct queue **out,
                 char *error, size_t error_bytes);

/* Stops the queue: accepts no new calls (QUEUE_STOPPING), commits the calls in progress, then calls
 * `stopped` on reactor 0. Any thread, once. */
void local_stop(struct local *local, void (*stopped)(void *ctx), void *ctx);

/*
 * A backup copies the store while it works. From BEGIN on, no shard drops, reuses, unlinks or
 * punches a file, until END or until backup_hold_ms pass without a RENEW. The disk fills up
 * meanwhile. At most LOCAL_BACKUPS_MAX at a time.
 *
 * BEGIN and RENEW are answered with a JSON object: the backup's id, the absolute path of the data
 * directory, the process, and for each shard the generation of its catalog (0: no catalog) with the
 * log's files and the valid length of each, as of one moment of that shard. A copy of that catalog,
 * of the runs and tables that it lists, and of the log up to those lengths is the shard at that
 * moment, with everything that had been answered. Shards are queried one by one: each has its own
 * moment within the call.
 *
 * `done` is called once, on `reactor`, on whose thread this function is called, and before it
 * returns only when out of memory. QUEUE_NOT_FOUND: there is no such backup, or it was not renewed
 * in time, so the copy is useless. QUEUE_CONFLICT: there are too many backups. The reactors must be
 * running.
 */
enum { LOCAL_BACKUPS_MAX = 4 };
enum local_backup { LOCAL_BACKUP_BEGIN = 1, LOCAL_BACKUP_RENEW, LOCAL_BACKUP_END };
typedef void local_backed_up(void *owner, uint64_t tag, enum queue_status status,
                             struct slice json);
/* Executes a step of a backup. `id` is as returned by BEGIN. */
void local_backup(struct local *local, struct reactor *reactor, enum local_backup what,
                  struct slice id, local_backed_up *done, void *owner, uint64_t tag);

/* Return the number of shards, a shard's figures, and its histograms added to `sum`. Any thread,
 * while the reactors run. */
uint32_t local_shards(const struct local *local);
void local_figures(const struct local *local, uint32_t shard, struct shard_figures *out);
void local_times(const struct local *local, uint32_t shard, struct shard_times *sum);

/* Writes the figures to a Prometheus page. */
void local_emit_metrics(const struct local *local, struct metric_page *page);
extern const struct metric local_metrics[];

/* Returns whether the log of any shard has failed. Any thread. */
bool local_has_failed(const struct local *local);

/* Frees the queue, after all reactors have stopped. */
void local_free(struct local *local);
/* Releases the locks in a forked child, which may do nothing else: inherited locks would outlive
 * those of its parent. */
void local_leave(struct local *local);

#endif
