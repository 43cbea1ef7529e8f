/*
 * wal_private: what the files of the log share. Nobody outside wal_*.c and fsck*.c includes it.
 *
 *   wal_manifest  which files count, which epoch is the newest
 *   wal_file      names, headers and the table of files; making one ready
 *   wal_batch     the stored form of a batch
 *   wal_reader    the chain of batches, and what ends it: a torn tail or corruption
 *   wal_open      recovery, what an opening removes, closing
 *   wal_append    the open batch, sealing, committing; batches kept for reading
 *   wal_read      records back from RAM and disk
 *   wal_space     checkpoints, and upkeep; what a backup copies
 *
 * The manifest and the batches are what the log itself commits by; where it begins the catalog may
 * know better (wal_options.first).
 */
#ifndef TARRY_STORE_WAL_PRIVATE_H
#define TARRY_STORE_WAL_PRIVATE_H

#include "store/wal.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>

enum {
    WAL_FORMAT = 1,          /* of files */
    WAL_HEADER_BYTES = 4096, /* of a file; the first batch follows */
    WAL_HEAD_BYTES = 72,     /* of a batch; the first record follows */
    WAL_CHECK_BYTES = 4,     /* behind records read by their place: a checksum of both */
    WAL_ALIGN = 8,           /* batches start at multiples of it */
    WAL_FILE_BYTES_MIN = 16384,
    WAL_SPARES_MAX = 3,
    WAL_RESERVE_PERCENT = 25, /* of a file, for answers when there is no next file */
    /* The first file of a new log is small: the start waits until it is filled with zeros. */
    WAL_FIRST_FILE_BYTES = 4 << 20,
    WAL_ERROR_BYTES = PATH_MAX + 512
};

/* Where a log lives, and the secret its checksums are made with. */
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
    uint64_t generation; /* rises with every writing */
    uint64_t seed;
    struct store_identity identity;
    uint32_t first;          /* the oldest file that counts */
    uint32_t newest;         /* the newest file that was made: no batch is in a newer one */
    uint64_t first_sequence; /* of the first batch in it */
    uint64_t epoch;          /* the newest ever used; 0: the log was made but never opened */
    uint64_t epoch_sequence; /* from this batch on only the newest epoch counts */
    uint64_t synced;         /* the newest batch known durable when this was written */
    bool is_clean;           /* closed in order: `synced` is the last batch there is */
    bool has_runs;           /* files went by a checkpoint: there must be a catalog */
};

/* -ENOENT: there is none. -EBADMSG: damaged. `fd` is open afterwards on success. *slots_bad (may be
 * NULL): how many of the two copies are not readable. */
int wal_manifest_open(struct wal_disk *disk, int flags, int *fd, struct wal_manifest *out,
                      int *slots_bad);
/* Makes it, atomically, and leaves it open. */
int wal_manifest_make(struct wal_disk *disk, int *fd, struct wal_manifest *manifest);
/* The log begins with `first`, whose first batch is first_sequence, as somebody says who keeps what
 * older files held. -EBADMSG with `error`: that cannot be true. Nothing is written. */
int wal_manifest_begin_at(const struct wal_disk *disk, struct wal_manifest *manifest,
                          uint32_t first, uint64_t first_sequence, char *error, size_t error_bytes);
/* The log is the one of the disk's identity, and not older than the epoch and the batch, which were
 * durable once; from now on the batch must be there. -EBADMSG with `error`: it is not. */
int wal_manifest_reaches(const struct wal_disk *disk, struct wal_manifest *manifest, uint64_t epoch,
                         uint64_t synced, char *error, size_t error_bytes);
/* Writes and syncs what was read once more: a process that died may have left it in the page cache
 * only, and the older copy is about to be written over. */
int wal_manifest_settle(const struct wal_disk *disk, int fd, const struct wal_manifest *manifest);
/* Writes and syncs the next generation over the older copy. */
int wal_manifest_write(const struct wal_disk *disk, int fd, struct wal_manifest *manifest);

/* ---- wal_file ---- */

struct wal_file {
    uint32_t number;
    uint32_t bytes;
    int fd;
    int64_t size;          /* as found at opening; what is beyond `bytes` is nobody's */
    struct fs_stamp stamp; /* the committer's, once it counts */
    /* As found at opening. */
    uint32_t end; /* where its batches end */
    uint64_t last_sequence;
    /* The owner's; the helper reads it under the lock, once a newer file was begun. */
    uint64_t first_sequence;
    /* Under the lock. */
    uint32_t pins; /* reads under way on helper threads */
    bool is_gone;
};

/* In the order of their numbers, without a gap (but for wal_files_open_any). */
struct wal_files {
    struct wal_file **at;
    uint32_t count, cap;
};

struct wal_file *wal_files_find(const struct wal_files *files, uint32_t number);
/* Takes the file. False: out of memory. */
bool wal_files_add(struct wal_files *files, struct wal_file *file);
void wal_files_drop_first(const struct wal_disk *disk, struct wal_files *files);
void wal_files_drop_last(const struct wal_disk *disk, struct wal_files *files);
void wal_files_fini(const struct wal_disk *disk, struct wal_files *files);

/* Opens every file from `first` on. Refuses a gap, a damaged header, no file at all, and an end
 * before `newest` (0: wherever). */
int wal_files_open(const struct wal_disk *disk, uint32_t first, uint32_t newest, int flags,
                   struct wal_files *files, char *error, size_t error_bytes);
/*
 * For whoever wants what can still be read: adds every file from `first` on that may hold batches
 * of this log, under the number for which these were written, whatever its name, header and size
 * are now. There may be gaps. 0 or -ENOMEM.
 */
int wal_files_open_any(const struct wal_disk *disk, uint32_t first, struct wal_files *files);
/* Of a table that may have gaps. */
struct wal_file *wal_files_search(const struct wal_files *files, uint32_t number);
void wal_file_name(uint32_t number, char out[32]);
/* The number of "00000012.log"; 0: it is something else. */
uint32_t wal_file_number(const char *name);

/* Makes file `number` out of zeros, or out of the older file `spare` (0: none). It counts from the
 * moment it has its name. *is_fatal: the directory failed to sync, so nothing is known about names
 * any more. */
int wal_file_make(const struct wal_disk *disk, uint32_t number, uint32_t bytes, uint64_t epoch,
                  uint32_t spare, struct wal_file **out, bool *is_fatal);
int wal_file_unlink(const struct wal_disk *disk, uint32_t number);
/* The file's header into WAL_HEADER_BYTES. */
void wal_file_header(const struct wal_disk *disk, uint32_t format, uint32_t number, uint32_t bytes,
                     uint64_t epoch, char *out);
/* What a header says, where it is one: its checksum needs no seed. */
struct wal_file_about {
    uint32_t format, number, bytes;
    struct store_identity identity;
    uint64_t seed, epoch;
};
bool wal_file_header_decode(const char *header, struct wal_file_about *out);
/* The header of a file in the log's directory. 0; -EBADMSG: it has none; or an errno of reading. */
int wal_file_look(const struct wal_disk *disk, const char *name, struct wal_file_about *out);

/* ---- wal_batch ---- */

struct wal_head {
    uint32_t bytes; /* the whole batch */
    uint32_t count;
    uint64_t epoch, sequence, synced_sequence;
    int64_t inner_ms, wall_ms;
    uint64_t body_sum;
};

/* Fills in the head of the batch of head->bytes at `batch`, its records being in place. */
void wal_head_encode(const struct wal_disk *disk, uint32_t file, uint32_t at, struct wal_head *head,
                     char *batch);
/* False: there is no head of this log for this very place. */
bool wal_head_decode(const struct wal_disk *disk, uint32_t file, uint32_t at, const char *bytes,
                     struct wal_head *out);
/* The eight bytes every head starts with. */
uint64_t wal_head_magic(void);
bool wal_body_is_whole(const struct wal_disk *disk, const struct wal_head *head, const char *batch);
void wal_check_put(const struct wal_disk *disk, uint32_t file, uint32_t at, char *record,
                   size_t bytes);
bool wal_check_holds(const struct wal_disk *disk, struct record_place place, const char *record);
/* How many bytes of check stand behind the record. */
size_t wal_check_bytes(struct slice record);
/* The record at *at of a batch's records; moves on. 1; 0 at the end; -EBADMSG. */
int wal_record_next(struct slice records, size_t *at, struct slice *record);
uint64_t wal_sum(const void *bytes, size_t len, uint64_t seed);

/* ---- wal_reader ---- */

struct wal_reader {
    const struct wal_disk *disk;
    const struct wal_manifest *manifest;
    struct wal_files *files;
    uint32_t index; /* of the file the chain has come to */
    uint32_t at;    /* where its next batch would start */
    uint64_t expected;
    uint64_t epoch; /* of the last batch */
    uint64_t torn_bytes;
    uint64_t synced;      /* the newest batch that any batch calls synced */
    struct wal_head last; /* zeroed: none yet */
    /* A window on one file. */
    char *window;
    size_t window_cap;
    uint32_t window_index, window_at, window_len;
    /* Where reading failed. */
    uint32_t bad_file, bad_at;
    char *error;
    size_t error_bytes;
};

struct wal_view {
    struct wal_head head;
    uint32_t file, at;
    struct slice records; /* good until the next call */
};

int wal_reader_init(struct wal_reader *reader, const struct wal_disk *disk,
                    const struct wal_manifest *manifest, struct wal_files *files, char *error,
                    size_t error_bytes);
void wal_reader_fini(struct wal_reader *reader);
/* 1: a batch; 0: the end, index and at say where; -EBADMSG: corruption; else an error of reading.
 */
int wal_reader_next(struct wal_reader *reader, struct wal_view *view);
/* Behind the end or damage: the next batch of the chain that is whole, for whoever wants what can
 * still be read. 1: it is as if it had come next; 0: there is none; -ENOMEM. */
int wal_reader_resume(struct wal_reader *reader, struct wal_view *view);
/* A whole batch that starts there, whatever the chain says. 1, 0, negative errno. For scans. */
int wal_reader_look(struct wal_reader *reader, uint32_t index, uint32_t at, struct wal_view *view);

/* ---- the log itself ---- */

struct wal_batch {
    char *at;
    size_t len, cap;
    uint32_t file, offset;
    uint32_t count;
};

/* Written batches, oldest first. */
struct wal_recent {
    struct wal_batch **ring;
    uint32_t cap, head, count;
    size_t bytes; /* allocated by them */
    struct wal_batch *spare;
};

/* What wal_seal hands to wal_commit, and wal_commit back to wal_committed. */
struct wal_flight {
    bool is_under_way, wants_sync;
    struct wal_batch *batch;        /* NULL: only sync */
    uint32_t sync_first, sync_last; /* files */
    uint64_t sequence;
    bool is_astray;
    int result;
};

/* What wal_upkeep found to do and did. Its thread's until wal_upkept. */
struct wal_chore {
    int manifest_fd;
    struct wal_manifest manifest;
    uint32_t first_needed; /* when wal_wants_upkeep was asked */
    bool is_held;          /* then */
    /* Files older than the manifest's first, to be used again: as many as a checkpoint lets go. */
    uint32_t spares[WAL_SPARES_MAX], spare_count;
    uint32_t spares_wanted; /* when wal_wants_upkeep was asked */
    uint64_t synced;        /* then */
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
    uint32_t current; /* number of the file the open batch goes to */
    uint32_t tail_at; /* where it starts there */
    uint64_t epoch, next_sequence, committed, synced;

    struct wal_batch *open;
    size_t first_room; /* what was asked of wal_has_room when it was empty, with the head */
    struct wal_flight flight;
    struct wal_recent recent;
    uint32_t dirty_first;   /* the oldest file with writes not synced; 0: none */
    int64_t dirty_since_ms; /* the first commit since the last sync; INT64_MAX: none */

    uint32_t held; /* wal_hold_back */
    uint64_t bytes_written, records_written, commits, syncs;
    bool is_broken, is_astray, spares_unwanted;
    int stuck; /* why there is no next file, as wal_has_room says it; 0: nothing failed */
    char error[WAL_ERROR_BYTES];

    struct wal_chore chore;
    /* Guards what a helper may look at: `files`, pins, `shared`, and where the batches are. The
     * owner takes it a few times a batch, never for a record. */
    pthread_mutex_t lock;
    struct {
        uint32_t first_needed; /* files before it may go */
        uint64_t synced;
    } shared;
};

const struct wal_batch *wal_recent_find(const struct wal_recent *recent, struct record_place place);
void wal_batch_free(struct wal_batch *batch);
void wal_recent_fini(struct wal_recent *recent);

/* For records that are read by their place. */
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
