/*
 * depot_private: what the files of the depot share. Nobody outside depot*.c includes it.
 *
 *   depot            open, close, figures; files that do not count
 *   depot_view       views, and when what left them is closed
 *   depot_slots      slots: alive, read, moved; by key, one job or many at once
 *   depot_plan       which runs to write anew. Pure
 *   depot_build      what goes into a new run, sorted; its records; the new run and its table
 *   depot_install    a checkpoint's steps on the owner's thread
 *   depot_commit     snapshot, commit, what goes afterwards
 *   depot_merge      tables of keys
 *   depot_reserve    disk space for when there is none
 *   depot_check      invariants
 */
#ifndef TARRY_STORE_DEPOT_PRIVATE_H
#define TARRY_STORE_DEPOT_PRIVATE_H

#include "store/depot.h"

#include <limits.h>
#include <pthread.h>

struct depot_table {
    struct keys *keys;
    struct depot *depot;
    uint32_t number;
    _Atomic uint32_t holds;
    bool is_gone;
    struct depot_table *next_gone;
};

/* Of all runs in the owner's view; of victims only until their jobs lie in the new run. */
struct depot_sums {
    uint64_t slots_alive, alive_bytes, file_bytes;
    _Atomic uint64_t freed;
};

struct depot {
    struct depot_options options;
    char dir[PATH_MAX]; /* DIR/run */
    struct catalog catalog;
    uint32_t next_run, next_keys;
    struct depot_orphans *orphans; /* that are to go; NULL: none any more */
    struct depot_view *spare;      /* room for the view after the commit */
    struct depot_build *build;
    bool is_installed; /* the build's run is in the view */
    bool is_merging;
    struct depot_sums sums;
    _Atomic uint32_t held_back, views;
    _Atomic bool is_tidy_due; /* since a commit */

    pthread_mutex_t lock; /* of what follows, and of depot_run.dead_* */
    struct depot_view *view;
    struct depot_run *gone_runs;
    struct depot_table *gone_tables;
    struct depot_run *markers; /* files of runs that never counted, emptied */
    uint32_t committed_next_run;
};

/* What a slot costs beside its record: checksum, directory; and its key with its bits in the
 * filter. */
enum { DEPOT_SLOT_BYTES = 28, DEPOT_KEY_BYTES = 18 };

/* ---- depot_view ---- */

/* Room for so many. NULL: out of memory. */
struct depot_view *depot_view_new(struct depot *depot, size_t runs, size_t tables);
/* Fills in what is in the owner's view for which `keeps` says yes (NULL: everything). */
typedef bool depot_keeps_run(void *ctx, const struct depot_run *run);
typedef bool depot_keeps_table(void *ctx, const struct depot_table *table);
void depot_view_fill(struct depot_view *view, depot_keeps_run *keeps_run,
                     depot_keeps_table *keeps_table, void *ctx);
void depot_view_add_run(struct depot_view *view, struct depot_run *run);
void depot_view_add_table(struct depot_view *view, struct depot_table *table);
/* It takes the place of the owner's, which is let go. */
void depot_view_set(struct depot *depot, struct depot_view *view);
void depot_view_free(struct depot_view *view);           /* one that was never set; NULL is fine */
struct depot_view *depot_view_hold(struct depot *depot); /* [any thread] */

/* Takes over `run` and `keys`, also where there is no memory (then they are closed). */
struct depot_run *depot_run_new(struct depot *depot, struct run *run, uint32_t number);
struct depot_table *depot_table_new(struct depot *depot, struct keys *keys);
uint64_t depot_run_freed(const struct run *run); /* bytes of its file that are holes */
void depot_run_free(struct depot_run *run);
void depot_table_free(struct depot_table *table);
void depot_path(const struct depot *depot, const char *name, char out[PATH_MAX]);
void depot_unlink_run(struct depot *depot, uint32_t number);
void depot_unlink_keys(struct depot *depot, uint32_t number);
/* An empty file under the run's name: the number is taken. */
struct depot_run *depot_marker_new(struct depot *depot, uint32_t number);
void depot_put_away(struct depot *depot); /* what left all views [helper] */

/* ---- depot_slots ---- */

void depot_count_in(struct depot *depot,
                    struct depot_run *run); /* into the sums, and out of them */
void depot_count_out(struct depot *depot, struct depot_run *run);

/* ---- depot_plan ---- */

struct depot_plan_run {
    uint64_t disk_bytes;   /* what its file takes */
    uint64_t alive_bytes;  /* what a file of its alive slots would take */
    uint64_t prefix_bytes; /* of disk_bytes: dead, and the next commit gives it back anyway */
    uint32_t alive;
    bool is_victim; /* out */
};
struct depot_plan_limits {
    uint64_t slack_bytes, victim_bytes_max, small_run_bytes;
    uint32_t victim_slots_max;
};
/* Whether the disk holds too much that is dead. */
bool depot_plan_is_due(uint64_t disk_bytes, uint64_t alive_bytes, uint64_t slack_bytes);
/* Returns how many were chosen. */
size_t depot_plan_victims(struct depot_plan_run *runs, size_t count,
                          const struct depot_plan_limits *limits);

/* ---- depot_build ---- */

struct depot_victim {
    struct depot_run *run;
    uint32_t *moved; /* for depot_run.moved */
    bool stays;      /* something in it cannot be read */
};

#endif
