/*
 * figures: statistics of a shard's store, for metrics and for people. Counters are since the start.
 */
#ifndef TARRY_LOCAL_FIGURES_H
#define TARRY_LOCAL_FIGURES_H

#include "base/histogram.h"
#include "queue/queue.h"

enum shard_read {                        /* the place from which a reply read the body of a job */
                  SHARD_READ_MEMORY = 0, /* tarry's own */
                  SHARD_READ_PAGE_CACHE,
                  SHARD_READ_DISK, /* by the librarian: not in the page cache */
                  SHARD_READS
};

struct shard_figures {
    uint64_t bytes_on_disk, log_bytes; /* all files; those of the log */
    uint64_t log_files;
    /* Of the file system, for an ordinary user, as of a recent commit; 0: unknown. */
    uint64_t disk_free_bytes, disk_bytes;
    uint64_t log_records, log_written_bytes, log_syncs;
    uint64_t cold_jobs; /* in runs, whether also in memory or not */
    uint64_t runs, keys_merges;
    uint64_t checkpoints, checkpoints_failed;
    /* The last one: its duration, and when it finished (inner clock); 0: no checkpoint since the
     * start. */
    int64_t checkpoint_took_ms, checkpoint_at_ms;
    /* Jobs looked up in runs by a helper thread: found, and absent although a filter matched.
     * filter_misses counts matches that the tables in memory refuted immediately. */
    uint64_t lookups_found, lookups_absent, filter_misses;
    uint64_t reads[SHARD_READS];
    uint64_t spare_bytes;          /* of memory, for new jobs */
    int64_t recovery_ms;           /* duration of opening */
    uint64_t dropped[QUEUE_DROPS]; /* kept jobs, before their time */
    bool healthy, accepting;
    bool moved; /* the path of the shard's files now leads elsewhere */
};

struct shard_times {
    struct histogram sync_us;                    /* synced commits: write and sync */
    struct histogram batch_bytes, batch_records; /* of each commit */
    struct histogram checkpoint_ms;
};

#endif
