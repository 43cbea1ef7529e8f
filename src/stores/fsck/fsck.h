/*
 * fsck: looks a data directory over that no server uses; writes derived files anew, or saves what can
 * be read into a new directory, where asked to.
 *
 * For each shard: the catalog; every run with all its blocks, slots and records that are alive;
 * every table of keys, and that each alive slot is found under its key; the topics' counts; then
 * every log file, batch and record, replayed over that through the engine, as a server does at its
 * start. The engine's memory for the jobs the log speaks of, and two bits a job in a run. A torn
 * tail is what a crash leaves and no fault, nor are files that nothing names: these are notes.
 *
 * Without `repair` and `salvage` no byte is changed, and no option makes a directory poorer in place.
 *
 *   repair    tables of keys that are damaged, missing or incomplete are written anew from the runs,
 *             counts are counted anew, a damaged catalog that has a whole one before it is removed,
 *             and files that nothing names go. All of it counts with the next catalog, or not at all:
 *             it may be interrupted at any time, and done again
 *   salvage   all that can be read goes to a new directory; the old one is only read. A job whose
 *             record cannot be read is left out; where batches of the log are damaged the ones behind
 *             them are taken all the same, so a job that ended in one of those comes back
 *
 * What the disk fails to read, after some tries, is not damage: it may be there another time. Repair
 * leaves a shard with such a thing as it is.
 */
#ifndef TARRY_FSCK_H
#define TARRY_FSCK_H

#include "base/buffer.h"
#include "job/job.h"
#include "store/datadir.h"

enum { FSCK_FINDINGS_MAX = 100, FSCK_NOTES_MAX = 50, FSCK_TEXT_BYTES = 512 };

/* What helps. */
enum fsck_cure {
    FSCK_RESTORE = 1, /* a backup, or salvage: of what that saves nothing certain is known */
    FSCK_REPAIR,      /* repair */
    FSCK_SALVAGE      /* a backup, or salvage: which saves all but this */
};

struct fsck_finding {
    uint32_t shard;
    char file[48]; /* within the shard: "wal/00000001.log"; empty: not about one */
    uint64_t at;   /* byte in it */
    uint32_t slot; /* of a run */
    bool has_slot;
    enum fsck_cure cure;
    bool is_unread; /* the disk failed to read it: perhaps nothing is wrong with it */
    bool is_mended;
    char text[FSCK_TEXT_BYTES];
};

struct fsck_note {
    uint32_t shard;
    char text[200];
};

struct fsck_shard {
    uint32_t first_file, files;   /* of the log; files 0: never opened */
    uint32_t manifest_copies_bad; /* of two; one may be after a power cut */
    uint64_t batches, records, bytes, torn_bytes;
    uint64_t topics, delayed, leased, dead; /* delayed: due or not; leases end on their own time */
    uint64_t generation;                    /* of the catalog; 0: there is none */
    uint32_t runs, tables;
    uint64_t cold, remembered; /* alive slots of runs: jobs, finished ids */
};

/* What salvage wrote of a topic. */
struct fsck_kept {
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    uint64_t jobs, remembered;
};

/* Zeroed: a valid nothing. */
struct fsck_report {
    uint32_t shards;
    struct fsck_shard shard[DATADIR_SHARDS_MAX];
    uint64_t finding_count; /* all of them; the first FSCK_FINDINGS_MAX are kept */
    uint64_t mended;        /* of these */
    struct fsck_finding finding[FSCK_FINDINGS_MAX];
    uint64_t half_changed; /* topics; each has a note. As a crash leaves them: no finding */
    uint64_t note_count;
    struct fsck_note note[FSCK_NOTES_MAX];
    bool is_salvaged; /* the new directory is whole */
    uint64_t kept_jobs, kept_remembered;
    struct fsck_kept *kept; /* by topic; own memory */
    size_t kept_count;
    char error[FSCK_TEXT_BYTES]; /* why it could not be examined */
};

/* Zeroed: look only. */
struct fsck_options {
    bool repair;
    const char *salvage; /* the new directory; NULL: none. Not with repair */
    size_t lot_jobs;     /* jobs to a run of it. 0: default; tests make it small */
    /* NULL, or how many records were looked at, of how many (0: not known). */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    /* NULL, or what repair is about to do. */
    void (*say)(void *ctx, const char *text);
    void *ctx;
};

/* 0: examined, finding_count and mended say with what result. Negative errno: it could not be (in
 * use, not a data directory, out of memory, no space to mend it); then `error` says why. */
int fsck_run(const char *data_dir, struct fsck_report *report);
int fsck_run_with(const char *data_dir, const struct fsck_options *options,
                  struct fsck_report *report);
void fsck_report_fini(struct fsck_report *report);

/* For people, a line a shard and a line a finding; for programs, one JSON object. Also after a
 * failed run. */
void fsck_emit_text(struct buffer *out, const struct fsck_report *report);
void fsck_emit_json(struct buffer *out, const struct fsck_report *report);

#endif
