/*
 * local: the delay queue on this machine: engine and embedded store, one shard per reactor.
 *
 * A shard lives on its reactor's thread. Each reactor has one handle (struct queue); a command goes
 * to the shard of its job by a call where the shard is at home, else as a letter, and the answers
 * are gathered on the reactor that asked.
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
    uint32_t shards; /* 0: what the directory has */
    enum wal_sync sync;
    int64_t sync_interval_ms;
    uint32_t wal_file_bytes; /* 0: default */
    uint64_t body_bytes_max;
    uint32_t topics_max;
    /* The log broke: every call is answered QUEUE_UNAVAILABLE from now on, and the process should
     * stop. Any shard's thread, maybe more than once. */
    void (*failed)(void *ctx);
    void *failed_ctx;
    struct clock *clock; /* what its jobs go by; outlives it. NULL: the process's */
    /* In place of that a test clock (local/test_clock.h), which begins then, wall clock: of a new directory, or
     * one that was made with it and goes on where it was. LOCAL_TEST_CLOCK_NOW: from now, or where the directory
     * says. 0: an ordinary clock. */
    int64_t test_clock_ms;
    int64_t lease_grace_ms; /* no lease from before ends sooner after the start; 0: it may */
    int64_t backup_hold_ms; /* how long a backup may go without a word; 0: 60 s */
    int64_t mark_pause_ms;  /* between two writings of the marks (store/marks.h); 0: 5 s */
};

/* Locks the directory and reads its manifest, starts the clock where its jobs left off. `*shards` is how many reactors
 * to make. 0 or negative errno with `error`. */
int local_open(const struct local_options *options, struct local **out, uint32_t *shards,
               char *error, size_t error_bytes);

/* The store's own name: 32 hex digits, drawn when its directory was made, the same in every copy of
 * it. Any thread, until local_free. */
const char *local_store_name(const struct local *local);

/* Where what happens is told: the desk of each reactor. Before local_attach; outlives the queue. */
struct feed;
void local_set_feed(struct local *local, struct feed *feed);

/* On each reactor's own thread or before it runs: recovers shard `index` (may take seconds;
 * `progress` may be NULL) and makes its handle. */
int local_attach(struct local *local, uint32_t index, struct reactor *reactor, struct queue **out,
                 char *error, size_t error_bytes);

/* Any thread, once: no new calls are accepted (QUEUE_STOPPING); what is under way is committed;
 * then `stopped` is called on reactor 0. */
void local_stop(struct local *local, void (*stopped)(void *ctx), void *ctx);

/*
 * Somebody copies the store while it works. From BEGIN on no shard drops, re-uses, unlinks or
 * punches a file, until END, or until backup_hold_ms go by without a RENEW: the disk fills up
 * meanwhile. At most LOCAL_BACKUPS_MAX at a time.
 *
 * BEGIN and RENEW are answered with a JSON object: the backup's id, the absolute path of the data
 * directory, the process, and for each shard the generation of its catalog (0: none) with the log's
 * files and how far each counts, as of one moment of that shard. A copy of that catalog, of the
 * runs and tables it names, and of the log up to there is the shard at that moment, with all that
 * had been answered. Shards are asked one by one: each has its own moment within the call.
 *
 * `done` is called on `reactor`, on whose thread this is called: once, and inside the call only
 * where there is no memory. QUEUE_NOT_FOUND: no such backup, or it went without a word for too
 * long, and the copy is worth nothing. QUEUE_CONFLICT: there are too many. The reactors run.
 */
enum { LOCAL_BACKUPS_MAX = 4 };
enum local_backup { LOCAL_BACKUP_BEGIN = 1, LOCAL_BACKUP_RENEW, LOCAL_BACKUP_END };
typedef void local_backed_up(void *owner, uint64_t tag, enum queue_status status,
                             struct slice json);
/* `id`: as BEGIN told it. */
void local_backup(struct local *local, struct reactor *reactor, enum local_backup what,
                  struct slice id, local_backed_up *done, void *owner, uint64_t tag);

/* What shard `shard` tells, and its histograms added to `sum`. Any thread, while the reactors run. */
uint32_t local_shards(const struct local *local);
void local_figures(const struct local *local, uint32_t shard, struct shard_figures *out);
void local_times(const struct local *local, uint32_t shard, struct shard_times *sum);

/* The same on a Prometheus page. */
void local_emit_metrics(const struct local *local, struct metric_page *page);
extern const struct metric local_metrics[];

/* Whether the log of any shard broke. Any thread. */
bool local_has_failed(const struct local *local);

/* After all reactors have stopped. */
void local_free(struct local *local);
/* All that a child which was forked may do: locks that it inherited would outlive its parent's. */
void local_leave(struct local *local);

#endif
