/*
 * shard: one engine and its log on one reactor: takes commands and sends replies when they are
 * durable.
 *
 * A shard step (a hook at the end of the reactor's loop iteration) does, in this order:
 *   - runs due events; advances scans, the topics' records, preload and the checkpoint by a step;
 *   - executes commands that waited and no longer need to;
 *   - sends replies that need no disk or whose batch is durable, and events;
 *   - hands the appended records to the committer, one batch at a time.
 * There are four helper threads: the committer writes and syncs the log; the librarian reads cold
 * records and keeps log files ready; the scout looks up cold jobs by key and by time; the archivist
 * does slow work: checkpoints, merging, reading filters.
 *
 * All functions run on the reactor's thread, except shard_figures and shard_times. Errors: after a
 * failed write or sync the log is broken. Then every call is answered with QUEUE_UNAVAILABLE and
 * `failed` is called once: the process should stop. If the path of the directory leads elsewhere
 * (it was moved, or a file system was mounted over it), calls that change something are answered
 * with QUEUE_DIRECTORY_MOVED until it leads back.
 */
#ifndef TARRY_LOCAL_SHARD_H
#define TARRY_LOCAL_SHARD_H

#include "base/mac.h"
#include "local/local.h"
#include "queue/queue.h"

struct shard;
struct feed_desk;

struct shard_options {
    const struct local_options *local;
    const char *dir; /* copied */
    uint32_t index;
    uint32_t shards; /* total number */
    uint64_t hash_seed;
    struct mac_key lease_key;
    struct store_identity identity;
    uint64_t epoch_min, synced_min; /* wal_options */
    int64_t skew_ms; /* wall minus inner at the end of the last run; used if it is still right */
    /* Called when a watched topic has ready jobs, for each reactor whose bit is set. On the shard's
     * thread, at the end of a step. */
    void (*ready)(void *ctx, struct slice topic, uint64_t reactors);
    /* Called for an event of a topic, also at the end of a step. */
    void (*event)(void *ctx, enum queue_event event, struct slice topic);
    void (*failed)(void *ctx);
    /* Sends a call about batches to another shard. Its reply arrives on the thread of this shard. Returns false if there is no
     * such shard. */
    bool (*call)(void *ctx, uint32_t shard, const struct command *command,
                 struct queue_reply_to reply_to);
    const struct fs *fs; /* NULL: the real one */
    /* Limits that tests make small; 0: default. */
    struct shard_limits {
        uint32_t checkpoint_files_min, checkpoint_files_max; /* of the log; 2, 3 */
        int64_t horizon_ms;                                  /* 10 s */
        uint64_t topic_quota; /* loaded jobs of a topic that wait; 100,000 */
        uint64_t slack_bytes, victim_bytes_max, keys_entries_max; /* depot_options */
        uint32_t keys_fan;
        uint64_t
            merge_entries; /* of tables of keys between two chances for a checkpoint; 2,000,000 */
        /* Jobs per step: processed by each step of a checkpoint; changed by a scan, 512; of timers,
         * 512. A batch of the log must have room for them. */
        uint32_t checkpoint_jobs, scan_changes, timers;
    } limits;
    struct feed_desk *desk; /* destination of events; NULL: not reported */
    /* Called with the newest batch after it has been synced. On the shard's thread. May be NULL. */
    void (*synced)(void *ctx, uint64_t sequence);
    /* Called on a helper thread after each step of the wall clock. May be NULL. */
    void (*stepped)(void *ctx);
    /* Called at the end of a shard step in which commands arrived that do not only read. May be
     * NULL. */
    void (*active)(void *ctx);
    void *ctx;
};

/* The result of recovery. */
struct shard_recovered {
    struct queue_counts counts;
    uint64_t records, torn_bytes;
    uint64_t epoch, sequence; /* of the log, and its last batch, which is synced */
    int64_t took_ms;
};

int shard_open(const struct shard_options *options, struct reactor *reactor, struct shard **out,
               struct shard_recovered *recovered, char *error, size_t error_bytes);

/* Submits a command. Its memory needs to be valid only during the call. The reply comes at the end
 * of this step or a later one. */
void shard_submit(struct shard *shard, const struct command *command,
                  struct queue_reply_to reply_to);

/* Starts or stops notifying `reactor` (its bit) about the topic's ready jobs, including those ready
 * now. An empty topic: all topics, from now on. */
void shard_watch(struct shard *shard, struct slice topic, uint32_t reactor, bool on);

/* Calls `settled` once, in a step in which nothing more is due by the current clock and all ready
 * jobs have been reported. It receives the time (inner) before which nothing will happen
 * (INT64_MAX: nothing to wait for) and the number of changes since the shard was opened. With
 * `keeps`, shard_options.stepped has also stored the clock. One call at a time. */
typedef void shard_settled(void *ctx, int64_t next_ms, uint64_t happened);
void shard_settle(struct shard *shard, bool keeps, shard_settled *settled, void *ctx);

/* Returns a helper for work that is not urgent. */
struct worker *shard_helper(const struct shard *shard);

/* Stops the shard: answers new commands with QUEUE_STOPPING. Calls `stopped` once all accepted
 * commands are answered and durable. */
void shard_stop(struct shard *shard, void (*stopped)(void *ctx), void *ctx);

/* Frees the shard, after shard_stop has finished and the loop has ended, or directly after
 * shard_open. */
void shard_free(struct shard *shard);

/* Returns the figures as of the last step. Any thread. */
void shard_figures(struct shard *shard, struct shard_figures *out);
/* Adds the shard's histograms to *sum. Any thread. */
void shard_times(const struct shard *shard, struct shard_times *sum);

#endif
