/*
 * wal_private: declarations shared by the files of the log. Included only by wal_*.c and fsck*.c.
 *
 *   wal_manifest  the files that count, and the newest epoch
 *   wal_file      names, headers and the table of files; creating a file
 *   wal_batch     the stored form of a batch
 *   wal_reader    the chain of batches and its end: a torn tail or corruption
 *   wal_open      recovery, removal of unneeded files at opening, closing
 *   wal_append    the open batch, sealing, committing; batches kept for reading
 *   wal_read      reading records from RAM and disk
 *   wal_space     checkpoints and upkeep; the files for a backup
 *
 * The log commits by its manifest and its batches. For the start of the log, the catalog may be
 * newer (wal_options.first).
 */
#ifndef TARRY_STORE_WAL_PRIVATE_H
#define TARRY_STORE_WAL_PRIVATE_H

#include "store/wal.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>

enum {
    WAL_FORMAT = 1,          /* format of the files */
    WAL_HEADER_BYTES = 4096, /* size of a file's header; the first batch follows */
    WAL_HEAD_BYTES = 72,     /* size of a batch's head; the first record follows */
    WAL_CHECK_BYTES = 4,     /* after records that are read by place: a checksum of both */
    WAL_ALIGN = 8,           /* batches start at multiples of this */
    WAL_FILE_BYTES_MIN = 16384,
    WAL_SPARES_MAX = 3,
    WAL_RECENT_BATCHES_MAX = 4096, /* written batches that are kept for reading */
    WAL_RESERVE_PERCENT = 25,      /* share of a file, for answers if there is no next file */
    /* Size of a new log's first file. It is small because the start waits until it is
     * zero-filled. */
    WAL_FIRST_FILE_BYTES = 4 << 20,
    WAL_ERROR_BYTES = PATH_MAX + 512
};

/* Location of a log, and the secret seed of its checksums. */
struct wal_disk {
    const struct fs *fs;
    char dir[PATH_MAX - 64]; /* DIR/wal */
    uint64_t seed;
    struct store_identity identity;
};

static inline uint32_t wal_aligned(uint32_t at)
{
    return (at + (WAL_ALIGN - 1u)) & ~(WAL_ALIGN - 1u);
}

void wal_path(const struct wal_disk *disk, const char *name, char out[PATH_MAX]);
int wal_complain(char *error, size_t error_bytes, int result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- wal_manifest ---- */

struct wal_manifest {
    uint64_t generation; /* increases with every write */
    uint64_t seed;
    struct store_identity identity;
    uint32_t first;          /* the oldest file that counts */
    uint32_t newest;         /* the newest file created: no batch is in a newer one */
    uint64_t first_sequence; /* sequence of the first batch in `first` */
    uint64_t epoch;          /* the newest ever used; 0: created but never opened */
    uint64_t epoch_sequence; /* from this batch on, only the newest epoch counts */
    uint64_t synced;         /* the newest batch known to be durable at the time of writing */
    bool is_clean;           /* closed properly: `synced` is the last batch */
    bool has_runs;           /* files were dropped after a checkpoint: a catalog must exist */
};

/* Opens and reads the manifest. Returns -ENOENT if it does not exist, -EBADMSG if it is damaged. On
 * success `fd` stays open. *slots_bad (may be NULL): number of unreadable copies, of two. */
int wal_manifest_open(struct wal_disk *disk, int flags, int *fd, struct wal_manifest *out,
                      int *slots_bad);
/* Creates the manifest atomically and leaves it open. */
int wal_manifest_make(struct wal_disk *disk, int *fd, struct wal_manifest *manifest);
/* Sets the start of the log to `first`, whose first batch is first_sequence, as recorded by the
 * catalog, which holds the contents of older files. Returns -EBADMSG with `error` if this is
 * impossible. Writes nothing. */
int wal_manifest_begin_at(const struct wal_disk *disk, struct wal_manifest *manifest,
                          uint32_t first, uint64_t first_sequence, char *error, size_t error_bytes);
/* Checks that the log has the disk's identity and is not older than the epoch and the batch, which
 * were durable once. From now on the batch must exist. Returns -EBADMSG with `error` if the check
 * fails. */
int wal_manifest_reaches(const struct wal_disk *disk, struct wal_manifest *manifest, uint64_t epoch,
                         uint64_t synced, char *error, size_t error_bytes);
/* Writes and syncs the manifest as it was read: a process that died may have left it only in the
 * page cache, and the older copy is about to be overwritten. */
int wal_manifest_settle(const struct wal_disk *disk, int fd, const struct wal_manifest *manifest);
/* Writes and syncs the next generation over the older copy. */
int wal_manifest_write(const struct wal_disk *disk, int fd, struct wal_manifest *manifest);

/* ---- wal_file ---- */

struct wal_file {
    uint32_t number;
    uint32_t bytes;
    int fd;
    int64_t size;          /* at opening; the part beyond `bytes` is unused */
    struct fs_stamp stamp; /* for the committer, once the file counts */
    /* State at opening. */
    uint32_t end; /* end of its batches */
    uint64_t last_sequence;
    /* Owned by the owner's thread; the helper reads it under the lock after a newer file was
     * begun. */
    uint64_t first_sequence;
    /* Protected by the lock. */
    uint32_t pins; /* reads in progress on helper threads */
    bool is_gone;
};

/* Files ordered by number, without gaps (except from wal_files_open_any). */
struct wal_files {
    struct wal_file **at;
    uint32_t count, cap;
};

struct wal_file *wal_files_find(const struct wal_files *files, uint32_t number);
/* Takes ownership of the file. Returns false if out of memory. */
bool wal_files_add(struct wal_files *files, struct wal_file *file);
void wal_files_drop_first(const struct wal_disk *disk, struct wal_files *files);
void wal_files_drop_last(const struct wal_disk *disk, struct wal_files *files);
void wal_files_fini(const struct wal_disk *disk, struct wal_files *files);

/* Opens every file from `first` on. Fails if there is a gap, a damaged header, no file at all, or
 * if the last file is before `newest` (0: not checked). */
int wal_files_open(const struct wal_disk *disk, uint32_t first, uint32_t newest, int flags,
                   struct wal_files *files, char *error, size_t error_bytes);
/*
 * Adds, for salvage, every file from `first` on that may hold batches of this log, under the number
 * for which the batches were written, regardless of its current name, header and size. There may be
 * gaps. Returns 0 or -ENOMEM.
 */
int wal_files_open_any(const struct wal_disk *disk, uint32_t first, struct wal_files *files);
/* Adds, for salvage, the files of this log that are in the log's directory `dir` of another shard.
 * Only files with an intact header are recognised. Returns 0 or -ENOMEM. */
int wal_files_open_moved(const struct wal_disk *disk, const char *dir, uint32_t first,
                         struct wal_files *files);
/* Finds a file in a table that may have gaps. */
struct wal_file *wal_files_search(const struct wal_files *files, uint32_t number);
void wal_file_name(uint32_t number, char out[32]);
/* Returns the number of "00000012.log"; 0: not a log file. */
uint32_t wal_file_number(const char *name);

/* Creates file `number` from zeros, or from the older file `spare` if it is not 0. It counts from
 * the moment it has its name. *is_fatal: syncing the directory failed, so the state of the names is
 * unknown. */
int wal_file_make(const struct wal_disk *disk, uint32_t number, uint32_t bytes, uint64_t epoch,
                  uint32_t spare, struct wal_file **out, bool *is_fatal);
int wal_file_unlink(const struct wal_disk *disk, uint32_t number);
/* Writes the file's header into `out`, of WAL_HEADER_BYTES. */
void wal_file_header(const struct wal_disk *disk, uint32_t format, uint32_t number, uint32_t bytes,
                     uint64_t epoch, char *out);
/* Contents of a valid header. Its checksum needs no seed. */
struct wal_file_about {
    uint32_t format, number, bytes;
    struct store_identity identity;
    uint64_t seed, epoch;
};
bool wal_file_header_decode(const char *header, struct wal_file_about *out);
/* Reads the header of a file in the log's directory. Returns 0, -EBADMSG if it has no valid header,
 * or the errno of the read. */
int wal_file_look(const struct wal_disk *disk, const char *name, struct wal_file_about *out);

/* ---- wal_batch ---- */

struct wal_head {
    uint32_t bytes; /* the whole batch */
    uint32_t count;
    uint64_t epoch, sequence, synced_sequence;
    int64_t inner_ms, wall_ms;
    uint64_t body_sum;
};

/* Fills in the head of the batch of head->bytes at `batch`, whose records are in place. */
void wal_head_encode(const struct wal_disk *disk, uint32_t file, uint32_t at, struct wal_head *head,
                     char *batch);
/* Decodes a head. Returns false if there is no head of this log for this exact position. */
bool wal_head_decode(const struct wal_disk *disk, uint32_t file, uint32_t at, const char *bytes,
                     struct wal_head *out);
/* Returns the eight bytes with which every head starts. */
uint64_t wal_head_magic(void);
bool wal_body_is_whole(const struct wal_disk *disk, const struct wal_head *head, const char *batch);
void wal_check_put(const struct wal_disk *disk, uint32_t file, uint32_t at, char *record,
                   size_t bytes);
bool wal_check_holds(const struct wal_disk *disk, struct record_place place, const char *record);
/* Returns the number of checksum bytes after the record. */
size_t wal_check_bytes(struct slice record);
/* Returns the record at *at of a batch's records and advances *at. Returns 1, 0 at the end, or
 * -EBADMSG. */
int wal_record_next(struct slice records, size_t *at, struct slice *record);
uint64_t wal_sum(const void *bytes, size_t len, uint64_t seed);

/* ---- wal_reader ---- */

struct wal_reader {
    const struct wal_disk *disk;
    const struct wal_manifest *manifest;
    struct wal_files *files;
    uint32_t index; /* index of the current file of the chain */
    uint32_t at;    /* start of the next batch in that file */
    uint64_t expected;
    uint64_t epoch; /* epoch of the last batch */
    uint64_t torn_bytes;
    uint64_t synced;      /* the newest batch that any batch records as synced */
    struct wal_head last; /* head of the last batch; zeroed: no batch yet */
    /* Buffered part of one file. */
    char *window;
    size_t window_cap;
    uint32_t window_index, window_at, window_len;
    /* Position of a failed read. */
    uint32_t bad_file, bad_at;
    char *error;
    size_t error_bytes;
};

struct wal_view {
    struct wal_head head;
    uint32_t file, at;
    struct slice records; /* valid until the next call */
};

int wal_reader_init(struct wal_reader *reader, const struct wal_disk *disk,
                    const struct wal_manifest *manifest, struct wal_files *files, char *error,
                    size_t error_bytes);
void wal_reader_fini(struct wal_reader *reader);
/* Reads the next batch. Returns 1; 0 at the end, at position index and at; -EBADMSG for corruption;
 * or the errno of the read. */
int wal_reader_next(struct wal_reader *reader, struct wal_view *view);
/* Finds, for salvage, the next intact batch of the chain after the end or damage. Returns 1 as if
 * it were the next one, 0 if no batch follows, or -ENOMEM. */
int wal_reader_resume(struct wal_reader *reader, struct wal_view *view);
/* Reads an intact batch that starts at the position, regardless of the chain. Returns 1, 0 or a
 * negative errno. For scans. */
int wal_reader_look(struct wal_reader *reader, uint32_t index, uint32_t at, struct wal_view *view);

/* ---- the log itself ---- */

struct wal_batch {
    char *at;
    size_t len, cap;
    uint32_t file, offset;
    uint32_t count;
    bool has_late_checks; /* a record is large: the commit makes its check */
    char copied[];        /* the bytes of a written batch that was copied; `at` is here */
};

/* Written batches, oldest first. */
struct wal_recent {
    struct wal_batch **ring;
    uint32_t cap, head, count;
    size_t bytes; /* their memory */
    struct wal_batch *spare;
};

/* A commit in progress: passed from wal_seal to wal_commit, and back to wal_committed. */
struct wal_running_commit {
    bool is_under_way, wants_sync;
    struct wal_batch *batch;        /* NULL: sync only */
    struct wal_head head;           /* of the batch; its checksums are made by the commit */
    uint32_t sync_first, sync_last; /* first and last file to sync */
    uint64_t sequence;
    bool is_moved;
    int result;
};

/* Work and results of an upkeep. Owned by the upkeep's thread until wal_upkept. */
struct wal_chore {
    int manifest_fd;
    struct wal_manifest manifest;
    uint32_t first_needed; /* value as of wal_wants_upkeep */
    bool is_held;          /* value as of wal_wants_upkeep */
    /* Files older than the manifest's first, to be reused: as many as a checkpoint drops. */
    uint32_t spares[WAL_SPARES_MAX], spare_count;
    uint32_t spares_wanted; /* value as of wal_wants_upkeep */
    uint64_t synced;        /* value as of wal_wants_upkeep */
    struct wal_file *made;
    uint32_t dropped_before;
    int result;
    bool is_fatal;
    char error[WAL_ERROR_BYTES];
};

struct wal {
    struct wal_options options;
    struct wal_disk disk;

    struct wal_files files;
    uint32_t current; /* number of the open batch's file */
    uint32_t tail_at; /* start of the open batch in it */
    uint64_t epoch, next_sequence, committed, synced;

    struct wal_batch *open;
    size_t first_room; /* size given to wal_has_room when the batch was empty, plus the head */
    struct wal_running_commit running;
    struct wal_recent recent;
    uint32_t dirty_first;   /* the oldest file with unsynced writes; 0: none */
    int64_t dirty_since_ms; /* time of the first commit since the last sync; INT64_MAX: none */

    uint32_t held; /* number of wal_hold_back calls in effect */
    uint64_t bytes_written, records_written, commits, syncs;
    bool is_broken, is_moved, spares_unwanted;
    int stuck; /* why there is no next file, as returned by wal_has_room; 0: no failure */
    char error[WAL_ERROR_BYTES];

    struct wal_chore chore;
    /* Protects the fields that a helper may read: `files`, pins, `shared`, and the positions of the
     * batches. The owner takes it a few times per batch, never per record. */
    pthread_mutex_t lock;
    struct {
        uint32_t first_needed; /* earlier files may be dropped */
        uint64_t synced;
    } shared;
};

const struct wal_batch *wal_recent_find(const struct wal_recent *recent, struct record_place place);
void wal_batch_free(struct wal_batch *batch);
void wal_recent_fini(struct wal_recent *recent);

/* Returns whether the batch contains a record that is read by its place. */
static inline bool wal_batch_has(const struct wal_batch *batch, struct record_place place)
{
    return batch && batch->file == place.file && place.at >= batch->offset &&
           place.at - batch->offset + (size_t)place.bytes + WAL_CHECK_BYTES <= batch->len;
}

static inline struct wal_file *wal_current(const struct wal *wal)
{
    return wal_files_find(&wal->files, wal->current);
}

static inline bool wal_next_is_ready(const struct wal *wal)
{
    return wal->files.at[wal->files.count - 1]->number > wal->current;
}

#endif
