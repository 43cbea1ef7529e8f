/*
 * shard: one engine and its log on one reactor: commands in, replies out when they are durable.
 *
 * A turn of the shard (a hook at the end of the reactor's turn), in this order:
 *   - what is due happens; scans, the topics' records, preload and the checkpoint go a step;
 *   - commands that waited, and need not any more, are carried out;
 *   - replies that need no disk or whose batch is durable go out, and events;
 *   - what was appended is handed to the committer, one batch at a time.
 * Four helper threads: the committer writes and syncs the log; the librarian reads cold records and
 * keeps log files ready; the scout looks for cold jobs by key and by time; the archivist does what takes
 * long: checkpoints, merging, reading filters.
 *
 * All functions on the reactor's thread but shard_figures and shard_times. Errors: the log is broken after a failed
 * write or sync: then every call is answered QUEUE_UNAVAILABLE and `failed` is called once: the
 * process should stop. Where the path of the directory leads elsewhere (it was moved, or something
 * was mounted over it), what changes something is answered QUEUE_DIRECTORY_MOVED until it leads
 * back.
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
    uint32_t shards; /* that there are */
    uint64_t hash_seed;
    struct mac_key lease_key;
    struct store_identity identity;
    uint64_t epoch_min, synced_min; /* wal_options */
    /* A watched topic has ready jobs: for each reactor whose bit is set. On the shard's thread, at
     * the end of a turn. */
    void (*ready)(void *ctx, struct slice topic, uint64_t reactors);
    /* What happened to a topic; at the end of a turn as well. */
    void (*event)(void *ctx, enum queue_event event, struct slice topic);
    void (*failed)(void *ctx);
    const struct fs *fs; /* NULL: the real one */
    /* Tests make them small; 0: default. */
    struct shard_limits {
        uint32_t checkpoint_files_min, checkpoint_files_max; /* of the log; 2, 3 */
        int64_t horizon_ms;                                  /* 10 s */
        uint64_t topic_quota; /* loaded jobs of a topic that wait; 100,000 */
        uint64_t slack_bytes, victim_bytes_max, keys_entries_max; /* depot_options */
        uint32_t keys_fan;
        uint64_t merge_entries; /* of tables of keys before a checkpoint may come in; 2,000,000 */
        /* Of jobs gone over in a turn: by a checkpoint, in each of its steps; and changed by a scan, 512.
         */
        uint32_t checkpoint_jobs, scan_changes;
    } limits;
    struct feed_desk *desk; /* where what happens is told; NULL: nowhere */
    /* NULL, or called when a batch was synced, which is the newest that was. The shard's thread. */
    void (*synced)(void *ctx, uint64_t sequence);
    /* NULL, or called on a helper thread after each step of the wall clock. */
    void (*stepped)(void *ctx);
    /* NULL, or called at the end of a turn in which commands came that do not only look. */
    void (*active)(void *ctx);
    void *ctx;
};

/* What recovery found. */
struct shard_recovered {
    struct queue_counts counts;
    uint64_t records, torn_bytes;
    uint64_t epoch, sequence; /* of the log, and its last batch, which is synced */
    int64_t took_ms;
};

int shard_open(const struct shard_options *options, struct reactor *reactor, struct shard **out,
               struct shard_recovered *recovered, char *error, size_t error_bytes);

/* Everything a command points at need only be valid during the call. The reply comes at the end of
 * this turn or a later one. */
void shard_submit(struct shard *shard, const struct command *command,
                  struct queue_reply_to reply_to);

/* Tell `reactor` (its bit) about the topic's ready jobs, also at once; or stop. An empty topic: about all, from now on. */
void shard_watch(struct shard *shard, struct slice topic, uint32_t reactor, bool on);

/* `settled` once, in a turn in which nothing more is due by the clock as it stands, and all that became ready was
 * told: with the moment (inner) before which nothing will happen, INT64_MAX: there is nothing to wait for; and how
 * much has happened since the shard was opened. `keeps`: and shard_options.stepped has written the clock down. One
 * at a time. */
typedef void shard_settled(void *ctx, int64_t next_ms, uint64_t happened);
void shard_settle(struct shard *shard, bool keeps, shard_settled *settled, void *ctx);

/* A helper that does what need not be done soon. */
struct worker *shard_helper(const struct shard *shard);

/* From now on QUEUE_STOPPING; `stopped` once all that was accepted is answered and durable. */
void shard_stop(struct shard *shard, void (*stopped)(void *ctx), void *ctx);

/* After shard_stop has finished and the loop has ended, or straight after shard_open. */
void shard_free(struct shard *shard);

/* As of the last turn. Any thread. */
void shard_figures(struct shard *shard, struct shard_figures *out);
/* Adds its histograms to those there. Any thread. */
void shard_times(const struct shard *shard, struct shard_times *sum);

#endif
