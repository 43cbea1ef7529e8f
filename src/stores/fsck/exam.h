/*
 * exam: the examination of a shard, and declarations shared by the files of this room.
 *
 *   fsck      a directory, its shards one after the other, whether they agree about topics
 *   log       the log: its manifest and files, every batch and record
 *   owner     the shard that the files of a directory belong to
 *   read      reading, with retries if the disk fails
 *   catalog   the catalog, and unreferenced files
 *   runs      runs: every slot in order, every alive record; key tables: in order, complete
 *   topics    recounting the topics
 *   replay    replaying the log on top of the runs, through the engine
 *   repair    rewriting derived files
 *   salvage   copying everything readable into a new directory
 *   findings  the findings; the report as text and as JSON
 *
 * Memory: two bits per cold job, one block of each table and run at a time, and the engine's memory
 * for the jobs in the log.
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
    struct run *run;      /* NULL: cannot be opened */
    struct alive alive;   /* from the catalog, minus lost slots */
    struct alive pending; /* alive slots not yet found in a key table */
    uint64_t sum;         /* over hash and slot of alive slots; tables reduce it to 0 */
    uint64_t bytes;       /* total size of the records of alive slots, minus lost ones */
    uint32_t lost;        /* alive slots that cannot be read */
    bool wants_table;
    uint32_t *topics; /* by number in the run: index + 1 in fsck_topics */
};

struct fsck_topic {
    char name[JOB_TOPIC_BYTES_MAX + 1];
    uint64_t stored[SECTIONS]; /* alive slots, counted */
    uint64_t cold[SECTIONS];   /* stored ones that were not ended by the log */
    uint64_t dead_bytes, kept_bytes;
    /* Alive slots with a damaged record; given_up is not included in `stored`. */
    uint64_t lost, given_up[SECTIONS];
    uint64_t catalog[SECTIONS]; /* from the catalog */
    uint64_t catalog_dead_bytes, catalog_kept_bytes;
};

/* A set of topics; empty if zeroed. */
struct fsck_topics {
    struct fsck_topic *at;
    uint32_t count, cap;
    uint32_t *table; /* index + 1, open addressing */
    uint32_t mask;
};

/* State of the reader of the shard's files. */
struct fsck_reading {
    struct fs fs;
    const struct fs *below; /* the directory's; used for writes */
    int error;              /* errno of the last operation if the disk failed, else 0 */
    uint32_t pauses;
};

struct fsck_exam {
    const struct fsck_options *options;
    struct fsck_report *report;
    uint32_t shard; /* number of its directory; disk.identity names the shard that owns the files */
    uint32_t shards;
    uint64_t hash_seed;
    bool was_opened;         /* from the directory's MANIFEST */
    struct marks_shard mark; /* its progress */
    struct marks *saved;     /* marks of the new directory, during salvage */
    bool is_foreign; /* its files belong to another store, or to a shard that has its own files */
    uint64_t misplaced; /* records of jobs that belong to another shard */
    struct fsck_reading reading;
    /* Findings, including those beyond the kept ones. */
    bool has_unread, has_no_memory;
    uint64_t found[FSCK_SALVAGE + 1]; /* by cure */
    uint64_t done, total;             /* records, for the progress report */

    char run_dir[PATH_MAX - 64];
    struct catalog catalog;     /* zeroed if there is no catalog */
    bool is_catalog_bad;        /* nothing is known about the runs */
    bool is_copy_bad;           /* one of the two copies of the catalog is damaged */
    uint32_t newer_damaged;     /* newer catalogs that were skipped */
    struct fsck_run_exam *runs; /* parallel to catalog.runs */
    bool *is_table_bad;         /* parallel to catalog.keys */
    struct keys **tables;       /* parallel to catalog.keys; NULL if bad */
    struct fsck_topics topics;
    bool are_counts_wrong, are_counts_unknown, has_lost, has_orphans;
    uint64_t cold[SECTIONS]; /* sum over the topics */

    struct wal_disk disk;
    struct wal_manifest manifest;
    struct wal_files files;
    struct wal_reader reader;
    struct fsck_replay *replay;          /* NULL: the log cannot be read */
    int64_t skew_ms;                     /* wall clock minus inner clock */
    int64_t last_inner_ms, last_wall_ms; /* times of the log's newest batch */
    bool has_log_gap;                    /* files of the log are missing */
    uint32_t log_file_bytes;             /* size of the newest file */
    /* Receives the engine's records during salvage. NULL: records are discarded. */
    struct record_place (*append)(void *ctx, const struct record *record);
    void *append_ctx;
    char error[WAL_ERROR_BYTES];
};

/* ---- fsck ---- */
enum { FSCK_NO_SLOT = UINT32_MAX };
struct fsck_where {
    const char *file; /* "run/00000001.run"; NULL: no file */
    uint64_t at;
    uint32_t slot; /* or FSCK_NO_SLOT */
};
void fsck_find(struct fsck_exam *exam, struct fsck_where where, enum fsck_cure cure,
               const char *format, ...) __attribute__((format(printf, 4, 5)));
void fsck_note(struct fsck_exam *exam, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fsck_advance(struct fsck_exam *exam, uint64_t records);

/* ---- owner ---- */
/* Finds the shard that most files below disk.dir and run_dir belong to, or `expected` if they do
 * not record it. Returns 0 or -ENOMEM. */
int fsck_owner_find(struct fsck_exam *exam, const struct store_identity *expected,
                    struct store_identity *out);
/* Checks the shard of a job's key that was read from a record at that place. */
void fsck_owner_check(struct fsck_exam *exam, struct fsck_where where, struct hash128 key,
                      struct slice topic);
/* Rebuilds the log's manifest from the headers of its files, for salvage. Returns false if no file
 * has a header. */
bool fsck_owner_rebuild(struct fsck_exam *exam);

/* ---- read ---- */
void fsck_reading_init(struct fsck_reading *reading, const struct fs *below);
/* Adds a finding if the last read failed and was not reported yet. */
void fsck_unread(struct fsck_exam *exam, const char *what);

/* ---- catalog ---- Functions return 0, or -ENOMEM or similar if the examination cannot continue */
int fsck_catalog_read(struct fsck_exam *exam);
int fsck_catalog_orphans(struct fsck_exam *exam);
/* Calls `each` with every unreferenced file in the shard's folders that may be removed. */
int fsck_orphans(struct fsck_exam *exam, void (*each)(struct fsck_exam *exam, const char *name));
/* Returns the examination of a run, or NULL if it is not in the catalog. */
struct fsck_run_exam *fsck_run_of(const struct fsck_exam *exam, uint32_t number);

/* ---- log ---- */
/* Examines the log. If nothing is known about the runs, records that refer to them are
 * meaningless. Returns 0 or -ENOMEM or similar. */
int fsck_log(struct fsck_exam *exam);

/* ---- runs ---- */
/* Examines the runs, then their key tables. */
int fsck_runs(struct fsck_exam *exam);
/* Decodes a record. Returns false if it is damaged or not the record of a job. */
bool fsck_decode(struct slice bytes, struct record *out);
/* Returns the hash of a record's key. */
struct hash128 fsck_key_of(const struct fsck_exam *exam, const struct record *record);

/* ---- topics ---- */
struct fsck_topic *fsck_topics_find(const struct fsck_topics *topics, struct slice name);
/* Finds or adds a topic. Returns NULL if out of memory. */
struct fsck_topic *fsck_topics_of(struct fsck_topics *topics, struct slice name);
/* Reads the counts from the catalog. Returns 0 or -ENOMEM. */
int fsck_topics_load(struct fsck_exam *exam);
void fsck_topics_compare(struct fsck_exam *exam);
/* Reports the topics of the jobs that cannot be read. Call it after the runs. */
void fsck_topics_report_lost(struct fsck_exam *exam);
void fsck_topics_fini(struct fsck_topics *topics);

/* ---- repair ---- */
int fsck_repair(struct fsck_exam *exam);

/* ---- salvage ---- */
/* Creates the new directory, marked as incomplete. Returns 0, or a negative errno with
 * report->error. */
int fsck_salvage_begin(const struct fsck_options *options, const char *data_dir, uint32_t shards,
                       struct fsck_report *report);
/* Salvages a shard after its examination. */
int fsck_salvage_shard(struct fsck_exam *exam);
/* Marks the new directory as complete. */
int fsck_salvage_end(const struct fsck_options *options, const struct datadir_manifest *manifest,
                     struct marks *saved, struct fsck_report *report);

#endif
