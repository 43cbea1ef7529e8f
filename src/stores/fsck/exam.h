/*
 * exam: a shard that is being examined, and what the files of this room share.
 *
 *   fsck      a directory, its shards one after the other, whether they agree about topics; the log
 *   owner     which shard the files of a directory belong to
 *   read      reading, more than once where the disk fails
 *   catalog   the catalog, and files that nothing names
 *   runs      runs: every slot in order, every record that is alive
 *   keys      tables of keys: in order, complete
 *   topics    topics' counts, counted anew
 *   replay    the log over the runs, through the engine
 *   repair    derived files, written anew
 *   salvage   what can be read, into a new directory
 *   findings  what was found; the report as text and as JSON
 *
 * Memory: two bits a cold job, a block of each table and run at a time, and the engine's of what the
 * log speaks of.
 */
#ifndef TARRY_FSCK_EXAM_H
#define TARRY_FSCK_EXAM_H

#include "fsck/fsck.h"
#include "job/section.h"
#include "store/alive.h"
#include "store/catalog.h"
#include "store/keys.h"
#include "store/marks.h"
#include "store/run.h"
#include "store/wal_private.h"

struct fsck_run_exam {
    struct run *run;      /* NULL: it cannot be opened */
    struct alive alive;   /* as the catalog has it, less what turned out lost */
    struct alive pending; /* alive ones not yet found in a table of keys */
    uint64_t sum;         /* over hash and slot of alive ones; tables take it back to 0 */
    uint64_t bytes;       /* of alive ones' records, less what turned out lost */
    uint32_t lost;        /* alive ones that cannot be read */
    bool wants_table;
    uint32_t *topics; /* by number in the run: index + 1 in fsck_topics */
};

struct fsck_topic {
    char name[JOB_TOPIC_BYTES_MAX + 1];
    uint64_t stored[SECTIONS]; /* alive slots, counted */
    uint64_t cold[SECTIONS];   /* of these, not ended by the log */
    uint64_t dead_bytes;
    uint64_t lost,
        given_up[SECTIONS];     /* alive ones whose record is damaged; of these, not `stored` */
    uint64_t catalog[SECTIONS]; /* as the catalog says */
    uint64_t catalog_dead_bytes;
};

/* Zeroed: empty. */
struct fsck_topics {
    struct fsck_topic *at;
    uint32_t count, cap;
    uint32_t *table; /* index + 1, open addressing */
    uint32_t mask;
};

/* What reads the shard's files. */
struct fsck_reading {
    struct fs fs;
    const struct fs *below; /* the directory's: what writes goes there */
    int error;              /* of the last operation, where the disk failed; 0: it did not */
    uint32_t pauses;
};

struct fsck_exam {
    const struct fsck_options *options;
    struct fsck_report *report;
    uint32_t shard; /* the number of its directory; whose files lie there says disk.identity */
    uint32_t shards;
    uint64_t hash_seed;
    bool was_opened;         /* as the directory's MANIFEST has it */
    struct marks_shard mark; /* how far it had come */
    struct marks *saved;     /* of the new directory, while it is salvaged */
    bool is_foreign;         /* its files belong to another store, or to a shard that has its own */
    uint64_t misplaced;      /* records of jobs that belong to another shard */
    struct fsck_reading reading;
    /* what was found, also beyond the findings that are kept */
    bool has_unread, has_no_memory;
    uint64_t found[FSCK_SALVAGE + 1]; /* by what helps */
    uint64_t done, total;             /* records, for progress */

    char run_dir[PATH_MAX - 64];
    struct catalog catalog;     /* zeroed: there is none */
    bool is_catalog_bad;        /* nothing is known of runs */
    bool is_copy_bad;           /* of the catalog's two */
    uint32_t newer_damaged;     /* catalogs passed over */
    struct fsck_run_exam *runs; /* as catalog.runs */
    bool *is_table_bad;         /* as catalog.keys */
    struct keys **tables;       /* as catalog.keys; NULL where bad */
    struct fsck_topics topics;
    bool are_counts_wrong, are_counts_unknown, has_lost, has_orphans;
    uint64_t cold[SECTIONS]; /* as in the topics, of all */

    struct wal_disk disk;
    struct wal_manifest manifest;
    struct wal_files files;
    struct wal_reader reader;
    struct fsck_replay *replay;          /* NULL: the log cannot be read */
    int64_t skew_ms;                     /* wall clock minus inner clock */
    int64_t last_inner_ms, last_wall_ms; /* of the log's newest batch */
    bool has_log_gap;                    /* files of it are missing */
    uint32_t log_file_bytes;             /* of its newest file */
    /* Where the engine's records go while the shard is salvaged. NULL: nowhere. */
    struct record_place (*append)(void *ctx, const struct record *record);
    void *append_ctx;
    char error[WAL_ERROR_BYTES];
};

/* ---- fsck ---- */
enum { FSCK_NO_SLOT = UINT32_MAX };
struct fsck_where {
    const char *file; /* "run/00000001.run"; NULL: about no file */
    uint64_t at;
    uint32_t slot; /* FSCK_NO_SLOT */
};
void fsck_find(struct fsck_exam *exam, struct fsck_where where, enum fsck_cure cure,
               const char *format, ...) __attribute__((format(printf, 4, 5)));
void fsck_note(struct fsck_exam *exam, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fsck_advance(struct fsck_exam *exam, uint64_t records);

/* ---- owner ---- */
/* Whose the files below disk.dir and run_dir are, by most of them; `expected` where they do not say.
 * 0 or -ENOMEM. */
int fsck_owner_find(struct fsck_exam *exam, const struct store_identity *expected,
                    struct store_identity *out);
/* A job's key was seen, in a record at that place. */
void fsck_owner_check(struct fsck_exam *exam, struct fsck_where where, struct hash128 key);
/* Makes the log's manifest from the headers of its files, for salvage. False: none has one. */
bool fsck_owner_rebuild(struct fsck_exam *exam);

/* ---- read ---- */
void fsck_reading_init(struct fsck_reading *reading, const struct fs *below);
/* Where the last reading failed and nobody was told of it: a finding. */
void fsck_unread(struct fsck_exam *exam, const char *what);

/* ---- catalog ---- 0, or -ENOMEM and the like: the examination cannot go on */
int fsck_catalog_read(struct fsck_exam *exam);
int fsck_catalog_orphans(struct fsck_exam *exam);
/* Calls `each` with every file in the shard's folders that nothing names and that may go. */
int fsck_orphans(struct fsck_exam *exam, void (*each)(struct fsck_exam *exam, const char *name));
struct fsck_run_exam *fsck_run_of(const struct fsck_exam *exam, uint32_t number); /* NULL: none */
void fsck_exam_fini(struct fsck_exam *exam);

/* ---- runs ---- */
int fsck_runs(struct fsck_exam *exam);
uint64_t fsck_mix(uint64_t hash, uint32_t slot);
/* False: it is none of a job, or damaged. */
bool fsck_decode(struct slice bytes, struct record *out);
/* Where a record's key is hashed to. */
struct hash128 fsck_key_of(const struct fsck_exam *exam, const struct record *record);

/* ---- keys ---- */
int fsck_keys(struct fsck_exam *exam);

/* ---- topics ---- */
struct fsck_topic *fsck_topics_find(const struct fsck_topics *topics, struct slice name);
/* Made where missing; NULL: out of memory. */
struct fsck_topic *fsck_topics_of(struct fsck_topics *topics, struct slice name);
int fsck_topics_load(struct fsck_exam *exam); /* what the catalog says */
void fsck_topics_compare(struct fsck_exam *exam);
/* Whose the jobs are in what cannot be read: after the runs. */
void fsck_topics_tell_lost(struct fsck_exam *exam);
void fsck_topics_fini(struct fsck_topics *topics);

/* ---- repair ---- */
int fsck_repair(struct fsck_exam *exam);

/* ---- salvage ---- */
/* Makes the new directory, marked as not complete. 0 or negative errno with report->error. */
int fsck_salvage_begin(const struct fsck_options *options, const char *data_dir, uint32_t shards,
                       struct fsck_report *report);
/* After the shard was examined. */
int fsck_salvage_shard(struct fsck_exam *exam);
/* Now it is complete. */
int fsck_salvage_end(const struct fsck_options *options, const struct datadir_manifest *manifest,
                     struct marks *saved, struct fsck_report *report);

#endif
