/*
 * wal: a shard's write-ahead log: all changes since the checkpoint that made its oldest files
 * unnecessary.
 *
 * Files DIR/wal/00000001.log, … have a fixed size, are zero-filled once, and are reused. A file
 * starts with a header, which identifies the owner and holds the log's seed. Then follow batches,
 * one per commit: {magic, bytes, count, epoch, sequence, synced_sequence, inner_ms, wall_ms, XXH3
 * of the records, XXH3 of the head} and `count` times: a record (job/record.h), and after a record
 * that is read by its place four bytes of XXH3 of both.
 * `epoch` increases with every opening of the log and `sequence` by one with every batch. They
 * distinguish valid batches from what a file held before its reuse and from what a crash left
 * half-written. `synced_sequence` is the newest batch that was known to be durable when this one
 * was written.
 *
 * Reading at open: batches are replayed in order up to the first that is not intact. If any valid
 * batch records that one as synced, the log is corrupt: opening fails and reports the position.
 * Otherwise it is the torn tail of a crash, and the log continues there in a new epoch. The tail is
 * synced again before wal_open returns.
 *
 * Life of a batch: wal_append encodes records into the open batch (in memory). wal_seal closes it
 * if no commit is in progress. wal_commit makes its checksums, and writes and syncs it; this blocks
 * and is the one function for a helper thread. wal_committed, back on the owner's thread, marks it
 * durable and returns its sequence. There is one commit in progress at a time; the next batch fills
 * meanwhile.
 *
 * Space: only a checkpoint makes a file unnecessary. The owner writes what still counts in the
 * oldest files elsewhere, commits that with a catalog that records where the log continues
 * (wal_checkpoint_before, wal_first_sequence), and only then calls wal_checkpointed. The next
 * opening receives the same position in options.first, which overrides the log's own MANIFEST if
 * that is older. Files are only dropped from the old end: a DONE is never dropped before the JOB
 * that it finishes.
 *
 * Threads: all functions belong to the owner's thread except those marked [helper], which may run
 * on one other thread at the same time. Errors: negative errno, and a message for the operator in
 * wal_error. After a failed write or sync of a commit the log is permanently broken: wal_commit
 * keeps failing and nothing is retried. The server has to stop, because the page cache cannot be
 * trusted after a failed sync.
 */
#ifndef TARRY_STORE_WAL_H
#define TARRY_STORE_WAL_H

#include "job/record.h"
#include "store/fs.h"
#include "store/identity.h"

struct wal;

/* The times of syncs. NEVER still syncs when the log is closed, and when the owner requests it
 * (wal_seal_sync). */
enum wal_sync { WAL_SYNC_ALWAYS = 1, WAL_SYNC_INTERVAL, WAL_SYNC_NEVER };

/* Called for every record in order. If it returns false, opening fails with an error (`record is
 * impossible`). */
typedef bool wal_replay(void *ctx, const struct record *record, struct record_place place);
/* Called before, for several records at a time, to prefetch the memory that they will access. */
typedef void wal_replay_soon(void *ctx, const struct record *records, size_t count);

struct clock;

struct wal_options {
    const struct fs *fs;
    const char *dir;        /* the shard's directory; created if missing */
    uint32_t file_bytes;    /* size of a log file; default 64 MiB */
    size_t batch_bytes_max; /* maximum size of the open batch; default 24 MiB, less than a file */
    /* memory of the latest writes, which stay in RAM for wal_read; default 16 MiB */
    size_t recent_bytes_max;
    enum wal_sync sync;
    /* WAL_SYNC_INTERVAL: at least one sync per this time, in ms, while there are commits */
    int64_t sync_interval_ms;
    struct clock *clock; /* for the batch headers, read by the next two functions */
    int64_t (*inner_ms)(struct clock *clock);
    int64_t (*wall_ms)(struct clock *clock);
    int64_t (*elapsed_ms)(void);    /* the clock for sync_interval_ms; NULL: the inner clock */
    uint64_t seed;                  /* for the checksums of a new log; 0: random. Set by tests */
    struct store_identity identity; /* logs of another store or shard are rejected */
    /* State that was durable once, from the directory's marks (marks.h): the newest epoch (0: the
     * log was never opened) and the newest synced batch. A log without them is rejected. */
    uint64_t epoch_min, synced_min;
    wal_replay_soon *replay_soon; /* or NULL; receives the ctx of wal_open */
    /* Start of the log from the catalog: earlier files do not count, whatever the log's own
     * manifest records (a crash may have separated the two). 0: only the manifest counts. Opening
     * fails if that file or that batch is missing, or if the manifest lists only older files. */
    uint32_t first;
    uint64_t first_sequence;
    /* No catalog exists: opening fails if files were dropped after a checkpoint, since their
     * contents are missing. */
    bool is_alone;
};

/* Results of an opening. */
struct wal_found {
    uint64_t batches, records, bytes;
    uint64_t torn_bytes;                 /* size of a half-written tail that was ignored */
    int64_t last_inner_ms, last_wall_ms; /* times of the newest batch; 0: no batch */
    uint64_t epoch;                      /* the new epoch */
};

/* Creates the directory of the log before wal_open, which does it otherwise: then one sync of `dir`
 * makes this name durable together with others. A failure is reported by wal_open. */
void wal_prepare_dir(const struct fs *fs, const char *dir);
/* Opens or creates the log and replays it. Returns 0 or a negative errno. On failure `error` (of
 * error_bytes) describes the problem, its position and what to do, and *out is NULL. */
int wal_open(const struct wal_options *options, wal_replay *replay, void *ctx, struct wal **out,
             struct wal_found *found, char *error, size_t error_bytes);

/* Seals and commits the open batch (blocking), then closes the log. NULL is allowed. */
void wal_close(struct wal *wal);

/* ---- appending ---- */

enum wal_need {
    WAL_FOR_PUSH = 1,
    WAL_FOR_ANSWER
}; /* pushes leave a reserve that only answers may use */

/*
 * Returns 0 if records of `bytes` more (the sum of their record_bytes_max) may be appended now.
 * -EAGAIN: the open batch or its file is full; retry after the next commit or upkeep. -ENOSPC: no
 * disk space. -EMSGSIZE: more than a batch can ever hold. -EIO: the log is broken. -ENOMEM. These
 * last two and any other errno can also be the reason why the next file cannot be created; upkeep
 * tries again.
 */
int wal_has_room(struct wal *wal, size_t bytes, enum wal_need need);

/* Returns the largest size that wal_has_room accepts; beyond it -EMSGSIZE. */
size_t wal_room_max(const struct wal *wal);

/* Appends a record and returns its place. Never fails if wal_has_room returned 0 for at least
 * record_bytes_max and nothing was sealed since. */
struct record_place wal_append(struct wal *wal, const struct record *record);

/* Returns the sequence that the open batch will have. Everything appended so far is durable once
 * wal_committed has returned it. */
uint64_t wal_open_sequence(const struct wal *wal);
bool wal_open_is_empty(const struct wal *wal);
bool wal_is_committing(const struct wal *wal);

/* Hands the open batch to wal_commit. Returns false if there is nothing to do (the batch is empty,
 * a commit is in progress, or the log is broken). Returns true if the batch is empty but a sync is
 * due; the commit then only syncs. */
bool wal_seal(struct wal *wal);
/* Works as wal_seal, and the commit syncs regardless of the sync class. Also returns false if
 * everything is synced. */
bool wal_seal_sync(struct wal *wal);
/* [helper] Writes and, depending on the class, syncs. Returns 0 or a negative errno. Writes nothing
 * and returns -EBADMSG if the batch was damaged in memory. */
int wal_commit(struct wal *wal);
/* Returns the sequence up to which everything is durable (or written, depending on the class). */
uint64_t wal_committed(struct wal *wal);

/* Returns whether the path of the log's file led elsewhere after the last commit was synced. The
 * log then continues in files that the next opening will not find unless they are moved back. */
bool wal_is_moved(const struct wal *wal);
/* Checks again whether the path of the log's file leads to it. Returns false if it leads
 * elsewhere. */
bool wal_look(struct wal *wal);
/* Returns whether the path of the log's directory leads to it. Any thread. */
bool wal_leads(const struct wal *wal);

/* Returns the time (inner clock) at which wal_seal should be called even if nothing was appended,
 * so that written data is synced within the interval. INT64_MAX: no call is needed. The time may be
 * in the past. Always INT64_MAX except with WAL_SYNC_INTERVAL. Call it again after
 * wal_committed. */
int64_t wal_sync_due_ms(const struct wal *wal);

/* ---- reading ---- */

/*
 * Reads the bytes of a record: from RAM if it is recent or still in the open batch (the slice is
 * then valid until the next append, wal_has_room, seal or wal_committed), else from the page cache
 * or the disk into `scratch`. Returns 0. Returns -EAGAIN if only the disk has it and `may_block` is
 * false: retry with may_block on a helper thread. Returns -ENOENT if its file was dropped, and -EIO
 * or another errno if it could not be read or is damaged (its own checksum is checked). Only for
 * records that have a checksum: a JOB, or a DONE that is remembered. With may_block the bytes are
 * always copied.
 */
int wal_read(struct wal *wal, struct record_place place, bool may_block, struct buffer *scratch,
             struct slice *out); /* [helper, only with may_block] */

/*
 * Reads records in the order of their places: reads the disk in large pieces, of which `window`
 * keeps the last. Always blocks; *out is valid until the next call. [helper]
 */
struct wal_window { /* zeroed: empty */
    char *bytes;    /* owned */
    uint32_t file, at, len;
};
int wal_read_next(struct wal *wal, struct record_place place, struct wal_window *window,
                  struct buffer *scratch, struct slice *out);
void wal_window_fini(struct wal_window *window);

/* ---- checkpoints: the oldest files may be dropped once their effects are stored elsewhere ---- */

/*
 * Returns the number of the file before which a checkpoint should make the log unnecessary now: at
 * least `files_min` and at most `files_max` files would be dropped, never the file being written or
 * newer ones. Returns 0 if there are fewer.
 */
uint32_t wal_checkpoint_before(const struct wal *wal, uint32_t files_min, uint32_t files_max);
/* Returns the sequence of the first batch in a file that counts (or the future sequence if the file
 * has no batch yet). For catalogs. */
uint64_t wal_first_sequence(const struct wal *wal, uint32_t file);
/* Marks files before `file` as unnecessary; upkeep drops them. The first batch of `file` must be
 * synced (wal_synced), and a catalog that names file and batch must be durable: from now on an
 * opening without them is rejected. */
void wal_checkpointed(struct wal *wal, uint32_t file);
/* Returns the newest batch of which the sync has ended. */
uint64_t wal_synced(const struct wal *wal);
/* Returns the epoch of this opening. */
uint64_t wal_epoch(const struct wal *wal);
/* Returns the file in which the last batch was begun. The next batch may begin a newer one. */
uint32_t wal_current_file(const struct wal *wal);
/* Prevents, for backups, that files are dropped and that files dropped before are reused or
 * unlinked. Calls nest. An upkeep in progress may still do so, but it takes only files that no
 * current catalog names. */
void wal_hold_back(struct wal *wal, bool on);
/* Sets whether dropped files are kept for reuse. If off, they are removed, because disk space is
 * short. */
void wal_want_spares(struct wal *wal, bool on);
/* The extent of a file that counts: `bytes` of `file_bytes` are written. wal_extents lists them,
 * oldest first; the last one ends after the newest batch whose commit has returned. It returns
 * their number and stores the first `max` in `out`. */
struct wal_extent {
    uint32_t file, bytes, file_bytes;
};
uint32_t wal_extents(const struct wal *wal, struct wal_extent *out, uint32_t max);
/* Returns the newest batch whose commit has returned, which is the last one in the extents. */
uint64_t wal_committed_sequence(const struct wal *wal);
/* Creates INTO/MANIFEST of a backup from FROM/MANIFEST, both log directories. The copied log ends
 * with file `newest` and batch `sequence`, and all of it is synced. Returns 0 or a negative
 * errno. */
int wal_copy_manifest(const struct fs *fs, const char *from, const char *into, uint32_t newest,
                      uint64_t sequence);

/* ---- space ---- */

/* Prepares the next file ahead of need and drops old files after a checkpoint. [helper] Call
 * wal_upkeep when wal_wants_upkeep returns true, then wal_upkept before either is called again.
 * Drops only files that were unnecessary when wal_wants_upkeep was called, so on a helper that
 * works sequentially, a read that is queued later still finds its file. May run concurrently with
 * wal_commit on another thread. On a full disk it fails with -ENOSPC and wal_wants_upkeep stays
 * true: retry after a second. */
bool wal_wants_upkeep(struct wal *wal);
int wal_upkeep(struct wal *wal);
/* Applies the results of wal_upkeep, on the owner's thread. */
void wal_upkept(struct wal *wal);

struct wal_stats {
    uint64_t bytes_on_disk, bytes_written, records_written, commits, syncs;
    uint32_t files;
    bool broken;
    bool stuck; /* the next file could not be created: for now there is little or no room */
    bool full;  /* stuck because of a full disk */
};
void wal_stats(const struct wal *wal, struct wal_stats *out);
/* Returns the space on the log's disk, or false if unknown. [helper, the one of wal_commit] */
bool wal_room(struct wal *wal, struct fs_room *out);
/* Returns why the log is broken or stuck, or NULL if it is not. */
const char *wal_error(const struct wal *wal);

#endif
