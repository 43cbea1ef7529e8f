/*
 * figures: what a shard tells of its store, for metrics and for people. Counters are since the start.
 */
#ifndef TARRY_LOCAL_FIGURES_H
#define TARRY_LOCAL_FIGURES_H

#include "base/histogram.h"

enum shard_read {                        /* where the body of a job was read from, for a reply */
                  SHARD_READ_MEMORY = 0, /* tarry's own */
                  SHARD_READ_PAGE_CACHE,
                  SHARD_READ_DISK, /* by the librarian: the system did not have it at hand */
                  SHARD_READS
};

struct shard_figures {
    uint64_t bytes_on_disk, log_bytes; /* all files; those of the log */
    uint64_t log_files;
    /* Of the file system, for an ordinary user, as a commit saw it a moment ago; 0: not known. */
    uint64_t disk_free_bytes, disk_bytes;
    uint64_t log_records, log_written_bytes, log_syncs;
    uint64_t cold_jobs; /* in runs, whether in memory too or not */
    uint64_t runs, keys_merges;
    uint64_t checkpoints, checkpoints_failed;
    /* The last one: how long it took, and when it was done (inner clock); 0: none since the start. */
    int64_t checkpoint_took_ms, checkpoint_at_ms;
    /* Jobs that were looked for in runs, on a helper thread: found; not there although a filter said
     * maybe. And maybes that the tables in memory took back at once. */
    uint64_t lookups_found, lookups_absent, filter_misses;
    uint64_t reads[SHARD_READS];
    uint64_t spare_bytes; /* of memory, for the next jobs */
    int64_t recovery_ms;  /* how long the opening took */
    bool healthy, accepting;
    bool astray; /* the path of the shard's files leads elsewhere: as of this moment */
};

struct shard_times {
    struct histogram sync_us;                    /* commits that were synced: write and sync */
    struct histogram batch_bytes, batch_records; /* of each commit */
    struct histogram checkpoint_ms;
};

#endif
