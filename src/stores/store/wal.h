/*
 * wal: a shard's write-ahead log: what happened since the checkpoint that its oldest files went by.
 *
 * Files DIR/wal/00000001.log, … of a fixed size, zero-filled once and re-used. A file starts with a
 * header, which says whose it is and holds the log's seed; then batches, one per commit: {magic, bytes, count, epoch, sequence, synced_sequence,
 * inner_ms, wall_ms, XXH3 of the records, XXH3 of the head} + `count` times: a record
 *   (job/record.h), and where it is one that is read by its place four bytes of XXH3 of both
 * `epoch` rises with every opening of the log, `sequence` by one with every batch: what a file held
 * before it was re-used, and what a crash left half-written, is told apart from what counts.
 * `synced_sequence` is the newest batch that was known durable when this one was written.
 *
 * Reading at open: batches are replayed in order up to the first that is not whole. If any valid
 * batch says that one was synced, that is corruption: opening fails and says where. Else it is the
 * torn tail of a crash, and the log goes on there in a new epoch. The tail is synced again before
 * wal_open returns.
 *
 * Life of a batch: wal_append encodes records into the open batch (memory). wal_seal closes it if
 * none is under way. wal_commit writes and syncs it: it blocks and is the one function for a helper
 * thread. wal_committed, back on the owner's thread, makes it durable and returns its sequence. One
 * commit in flight; the next batch fills meanwhile.
 *
 * Space: a file goes by a checkpoint and by nothing else. The owner writes what still counts of the
 * oldest files elsewhere, makes that the truth by a catalog which says where the log goes on
 * (wal_checkpoint_before, wal_first_sequence), and only then says wal_checkpointed. The next
 * opening is told the same by options.first: it is what counts, should the log's own MANIFEST not
 * have come so far. Files are only ever dropped from the old end: a DONE never goes before the JOB
 * it finishes.
 *
 * Threads: all functions belong to the owner's thread but those marked [helper], which may run on
 * one other thread while the owner goes on. Errors: negative errno, and text for people through
 * wal_error. After a failed write or sync of a commit the log is broken for good: wal_commit keeps
 * failing, nothing is retried; the server has to stop (the page cache cannot be trusted after a
 * failed sync).
 */
#ifndef TARRY_STORE_WAL_H
#define TARRY_STORE_WAL_H

#include "job/record.h"
#include "store/fs.h"
#include "store/identity.h"

struct wal;

/* NEVER still syncs when it is closed, and where the owner asks for it (wal_seal_sync). */
enum wal_sync { WAL_SYNC_ALWAYS = 1, WAL_SYNC_INTERVAL, WAL_SYNC_NEVER };

/* Called for every record in order. False stops the opening with an error (`record is impossible`).
 */
typedef bool wal_replay(void *ctx, const struct record *record, struct record_place place);
/* Called before for some of them at once: a chance to ask for the memory they will touch. */
typedef void wal_replay_soon(void *ctx, const struct record *records, size_t count);

struct clock;

struct wal_options {
    const struct fs *fs;
    const char *dir;         /* the shard's directory; made where missing */
    uint32_t file_bytes;     /* size of a log file; default 64 MiB */
    size_t batch_bytes_max;  /* the open batch never grows beyond it; default 24 MiB, less than a
                                file */
    size_t recent_bytes_max; /* how much of what was written last stays in RAM for wal_read; default
                                16 MiB */
    enum wal_sync sync;
    int64_t sync_interval_ms; /* WAL_SYNC_INTERVAL: at least one sync per so many ms of commits */
    struct clock *clock;      /* for the batch headers, read by these two */
    int64_t (*inner_ms)(struct clock *clock);
    int64_t (*wall_ms)(struct clock *clock);
    int64_t (*elapsed_ms)(void); /* what sync_interval_ms is counted by; NULL: the inner clock */
    uint64_t seed; /* for the checksums of a new log; 0: drawn by chance. Tests set it */
    struct store_identity identity; /* a log of another store or shard is refused */
    /* What was durable once, as the directory's marks have it (marks.h): the newest epoch (0: the
     * log was never opened) and the newest synced batch. A log without them is refused. */
    uint64_t epoch_min, synced_min;
    wal_replay_soon *replay_soon; /* or NULL; its ctx is wal_open's */
    /* What the catalog says: files before this one do not count, whatever the log's own manifest
     * says (a crash came between the two). 0: the manifest alone counts. Opening is refused where
     * that file or that batch is not there, or older files are all the log says it has. */
    uint32_t first;
    uint64_t first_sequence;
    bool is_alone; /* there is no catalog: refused where files went by a checkpoint, for what was in
                      them is missing */
};

/* What was found while opening. */
struct wal_found {
    uint64_t batches, records, bytes;
    uint64_t torn_bytes;                 /* of a half-written tail that was left out */
    int64_t last_inner_ms, last_wall_ms; /* of the newest batch; 0: none */
    uint64_t epoch;                      /* the new one */
};

/* Opens or makes the log and replays it. 0 or negative errno; then `error` (of error_bytes) says
 * what, where, and what to do; *out is NULL. */
int wal_open(const struct wal_options *options, wal_replay *replay, void *ctx, struct wal **out,
             struct wal_found *found, char *error, size_t error_bytes);

/* Seals and commits what is open (blocking), then closes. free(NULL) is fine. */
void wal_close(struct wal *wal);

/* ---- appending ---- */

enum wal_need {
    WAL_FOR_PUSH = 1,
    WAL_FOR_ANSWER
}; /* pushes leave a reserve that answers may still use */

/*
 * 0 where records of `bytes` more (the sum of their record_bytes_max) may be appended now. -EAGAIN:
 * the open batch or its file is full, come back after the next commit or upkeep. -ENOSPC: no disk
 * space for it. -EMSGSIZE: more than a batch can hold, ever. -EIO: broken. -ENOMEM. Any
 * other errno, and those two: what keeps the next file from being made; upkeep tries again.
 */
int wal_has_room(struct wal *wal, size_t bytes, enum wal_need need);

/* The most that wal_has_room may be asked for: beyond it -EMSGSIZE. */
size_t wal_room_max(const struct wal *wal);

/* Never fails after wal_has_room said 0 for at least record_bytes_max and nothing was sealed since.
 * Returns the record's place. */
struct record_place wal_append(struct wal *wal, const struct record *record);

/* The sequence the open batch will have: what was appended up to now is durable when wal_committed
 * has returned it. */
uint64_t wal_open_sequence(const struct wal *wal);
bool wal_open_is_empty(const struct wal *wal);
bool wal_is_committing(const struct wal *wal);

/* Hands the open batch over to wal_commit. False: nothing to do (empty, or a commit is under way,
 * or the log is broken). Where the batch is empty but a sync is due, true: the commit then only
 * syncs. */
bool wal_seal(struct wal *wal);
/* The same, and the commit syncs whatever the class says. False also where all is synced. */
bool wal_seal_sync(struct wal *wal);
int wal_commit(
    struct wal *wal); /* [helper] write, sync as the class demands; 0 or negative errno */
uint64_t wal_committed(
    struct wal *wal); /* the sequence up to which all is now durable (or written, by class) */

/* Whether, when the last commit had been synced, the path of its file led elsewhere: then the log
 * goes on as it was, in files that the next opening will not find unless somebody puts them back.
 */
bool wal_is_astray(const struct wal *wal);
bool wal_look(struct wal *wal); /* looks again; false: astray */
/* Whether the path of its directory leads to it. Any thread. */
bool wal_leads(const struct wal *wal);

/* When (inner clock) wal_seal should be called even if nothing was appended, so that what was
 * written is synced within the interval. INT64_MAX: need not. May have passed already. Always
 * INT64_MAX but with WAL_SYNC_INTERVAL. Ask again after wal_committed. */
int64_t wal_sync_due_ms(const struct wal *wal);

/* ---- reading ---- */

/*
 * The bytes of a record. From RAM where it is recent or still in the open batch (the slice is then
 * good until the next append, wal_has_room, seal or wal_committed), else read into `scratch`. 0;
 * -EAGAIN with `may_block` false: it is not in RAM, ask again with may_block on a helper thread;
 * -ENOENT: its file was let go; -EIO and others: it could not be read or is damaged (its
 * own checksum is checked). Only of records that have one: a JOB, a DONE that is remembered. With
 * may_block the bytes are always copied.
 */
int wal_read(struct wal *wal, struct record_place place, bool may_block, struct buffer *scratch,
             struct slice *out); /* [helper, only with may_block] */

/*
 * The same for many records in the order of their places: reads the disk in large pieces, of which
 * `window` keeps the last. Always blocks; *out is good until the next call. [helper]
 */
struct wal_window { /* zeroed: empty */
    char *bytes;    /* own memory */
    uint32_t file, at, len;
};
int wal_read_next(struct wal *wal, struct record_place place, struct wal_window *window,
                  struct buffer *scratch, struct slice *out);
void wal_window_fini(struct wal_window *window);

/* ---- checkpoints: the oldest files may go once their effects lie elsewhere ---- */

/*
 * The number of the file up to which (not including it) a checkpoint should make the log
 * unnecessary now: at least `files_min` files would go, at most `files_max`; never the file being
 * written, nor newer ones. 0: there are not so many.
 */
uint32_t wal_checkpoint_before(const struct wal *wal, uint32_t files_min, uint32_t files_max);
/* The sequence of the first batch in a file that counts (or will have, where it has none yet). For
 * catalogs. */
uint64_t wal_first_sequence(const struct wal *wal, uint32_t file);
/* Files before this one are not needed any more; upkeep lets them go. Its first batch is synced
 * (wal_synced), and a catalog that names file and batch is durable: from now on an opening without
 * them is refused. */
void wal_checkpointed(struct wal *wal, uint32_t file);
/* The newest batch that is known to be synced. */
uint64_t wal_synced(const struct wal *wal);
/* The epoch of this opening. */
uint64_t wal_epoch(const struct wal *wal);
/* The file in which the last batch was begun. The next may begin a newer one. */
uint32_t wal_current_file(const struct wal *wal);
/* While held, no file is dropped, and none that was dropped before is used again or unlinked: for
 * backups. Counted. An upkeep under way may still do so: it takes only files that no catalog of now
 * names. */
void wal_hold_back(struct wal *wal, bool on);
/* Off: files that are let go are removed, not kept to be used again: for want of disk space. */
void wal_want_spares(struct wal *wal, bool on);
/* The files that count, oldest first, and up to where each holds what was written: the last one
 * ends behind the newest batch whose commit has come back. Returns how many there are; the first
 * `max` are put into `out`. */
struct wal_extent {
    uint32_t file, bytes, file_bytes;
};
uint32_t wal_extents(const struct wal *wal, struct wal_extent *out, uint32_t max);
/* The newest batch whose commit has come back: the last one of the extents. */
uint64_t wal_committed_sequence(const struct wal *wal);
/* Makes INTO/MANIFEST of a backup from FROM/MANIFEST, both log directories: the log ends with file
 * `newest` and batch `sequence`, all of which is synced. 0 or negative errno. */
int wal_copy_manifest(const struct fs *fs, const char *from, const char *into, uint32_t newest,
                      uint64_t sequence);

/* ---- space ---- */

/* File upkeep: makes the next file ready ahead of need, drops old files that were checkpointed.
 * [helper]; call when wal_wants_upkeep, then wal_upkept before either is called again. Only what
 * nobody needed when wal_wants_upkeep was asked goes: on a helper that does one thing after the
 * other, a read that is given to it later finds its file. May run beside wal_commit on another
 * thread. On a full disk it fails with -ENOSPC and wal_wants_upkeep stays
 * true: try again in a second. */
bool wal_wants_upkeep(struct wal *wal);
int wal_upkeep(struct wal *wal);
/* Back on the owner's thread after wal_upkeep: its results count from now on. */
void wal_upkept(struct wal *wal);

struct wal_stats {
    uint64_t bytes_on_disk, bytes_written, records_written, commits, syncs;
    uint32_t files;
    bool broken;
    bool stuck; /* the next file could not be made: for now there is room for little or nothing */
    bool full;  /* that, for want of disk space */
};
void wal_stats(const struct wal *wal, struct wal_stats *out);
/* The room on the disk that the log is on. False: not known. [helper, the one of wal_commit] */
bool wal_room(struct wal *wal, struct fs_room *out);
const char *wal_error(const struct wal *wal); /* why it is broken or stuck; NULL: it is not */

#endif
