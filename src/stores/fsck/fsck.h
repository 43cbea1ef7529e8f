/*
 * fsck: checks a data directory that no server uses. On request it rewrites derived files, or
 * salvages everything readable into a new directory.
 *
 * For each shard it checks the catalog; every run with all its blocks, slots and alive records;
 * every key table, and that each alive slot is found under its key; the counts of the topics; then
 * every log file, batch and record, replayed on top through the engine, as a server does at start.
 * It needs the engine's memory for the jobs in the log, and two bits per job in a run. A torn tail
 * is left by a crash and is not a fault, nor are unreferenced files: these are notes.
 *
 * Without `repair` and `salvage` no byte is changed, and no option loses data in place.
 *
 *   repair    rewrites key tables that are damaged, missing or incomplete from the runs, recounts,
 *             removes a damaged catalog if there is an intact one before it, and removes
 *             unreferenced files. All of it takes effect with the next catalog, or not at all: it
 *             may be interrupted at any time, and repeated
 *   salvage   copies everything readable into a new directory, and only reads the old one. A job
 *             whose record cannot be read is omitted. If batches of the log are damaged, the
 *             batches after them are still used, so a job that ended in a damaged one comes back
 *
 * Data that the disk fails to read, after several tries, is not damage: a later read may succeed.
 * Repair leaves a shard with such data unchanged.
 */
#ifndef TARRY_FSCK_H
#define TARRY_FSCK_H

#include "base/buffer.h"
#include "job/job.h"
#include "store/datadir.h"

enum { FSCK_FINDINGS_MAX = 100, FSCK_NOTES_MAX = 50, FSCK_TEXT_BYTES = 512 };

/* Remedy for a finding. */
enum fsck_cure {
    FSCK_RESTORE = 1, /* a backup, or salvage: how much that saves is uncertain */
    FSCK_REPAIR,      /* repair */
    FSCK_SALVAGE      /* a backup, or salvage: which saves everything else */
};

struct fsck_finding {
    uint32_t shard;
    bool is_of_directory; /* it concerns no shard */
    char file[48];        /* path within the shard: "wal/00000001.log"; or empty */
    uint64_t at;          /* byte offset in it */
    uint32_t slot;        /* slot of a run */
    bool has_slot;
    enum fsck_cure cure;
    bool is_unread; /* the disk failed to read it: the data may be intact */
    bool is_mended;
    char text[FSCK_TEXT_BYTES];
};

struct fsck_note {
    uint32_t shard;
    char text[200];
};

struct fsck_shard {
    /* first file and number of files of the log; files 0: never opened */
    uint32_t first_file, files;
    /* number of bad copies, of two; one may be bad after a power cut */
    uint32_t manifest_copies_bad;
    uint64_t batches, records, bytes, torn_bytes;
    uint64_t topics, delayed, leased, dead; /* delayed: due or not; leases end by themselves */
    uint64_t generation;                    /* generation of the catalog; 0: no catalog */
    uint32_t runs, tables;
    uint64_t cold, remembered; /* alive slots of runs: jobs, and finished ids */
    uint64_t finished;         /* and kept jobs */
};

/* Salvaged jobs of one topic. */
struct fsck_kept {
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    uint64_t jobs, remembered;
};

/* A report; zeroed is valid and empty. */
struct fsck_report {
    uint32_t shards;
    struct fsck_shard shard[DATADIR_SHARDS_MAX];
    uint64_t finding_count; /* total; the first FSCK_FINDINGS_MAX are kept */
    uint64_t mended;        /* number of these that were repaired */
    struct fsck_finding finding[FSCK_FINDINGS_MAX];
    /* Topics in the state that a crash leaves: not findings, but each has a note. */
    uint64_t half_changed;
    uint64_t note_count;
    struct fsck_note note[FSCK_NOTES_MAX];
    bool is_salvaged; /* the new directory is complete */
    uint64_t kept_jobs, kept_remembered;
    struct fsck_kept *kept; /* by topic; owned */
    size_t kept_count;
    char error[FSCK_TEXT_BYTES]; /* why the directory could not be examined */
};

/* Options; zeroed: check only. */
struct fsck_options {
    bool repair;
    const char *salvage; /* the new directory, or NULL. Excludes repair */
    size_t lot_jobs;     /* jobs per run of the new directory. 0: default; reduced by tests */
    /* NULL, or receives the number of records examined and the total (0: unknown). */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    /* NULL, or receives a description of what repair is about to do. */
    void (*report_step)(void *ctx, const char *text);
    void *ctx;
};

/* Examines a directory. Returns 0 with the result in finding_count and mended, or a negative errno
 * with the reason in `error` (in use, not a data directory, out of memory, no space for the
 * repair). */
int fsck_run(const char *data_dir, struct fsck_report *report);
int fsck_run_with(const char *data_dir, const struct fsck_options *options,
                  struct fsck_report *report);
void fsck_report_fini(struct fsck_report *report);

/* Appends the report: as text, one line per shard and one per finding, or as one JSON object. Also
 * after a failed run. */
void fsck_emit_text(struct buffer *out, const struct fsck_report *report);
void fsck_emit_json(struct buffer *out, const struct fsck_report *report);

#endif
