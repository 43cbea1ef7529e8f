/*
 * depot_private: declarations shared by the files of the depot. Included only by depot*.c.
 *
 *   depot            open, close, figures; files that do not count
 *   depot_view       views, and closing what left them
 *   depot_slots      slots: alive, read, moved; by key, one job or many at a time
 *   depot_plan       which runs to rewrite. Does no I/O
 *   depot_build      collecting and sorting the items; the new run and its table
 *   depot_install    the steps of a checkpoint on the owner's thread
 *   depot_commit     snapshot, commit, cleaning up afterwards
 *   depot_merge      key tables
 *   depot_reserve    disk space for when the disk is full
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

/* Sums over all runs in the owner's view. Victims are included only until their jobs are in the new
 * run. */
struct depot_sums {
    uint64_t slots_alive, alive_bytes, file_bytes;
    _Atomic uint64_t freed;
};

struct depot {
    struct depot_options options;
    char dir[PATH_MAX]; /* DIR/run */
    struct catalog catalog;
    uint32_t next_run, next_keys;
    struct depot_orphans *orphans; /* to be removed, or NULL */
    struct depot_view *spare;      /* memory for the view after the commit */
    struct depot_build *build;
    bool is_installed; /* the build's run is in the view */
    bool is_merging;
    struct depot_sums sums;
    _Atomic uint32_t held_back, views;
    _Atomic bool is_tidy_due; /* work for depot_tidy since a commit */

    pthread_mutex_t lock; /* protects the following fields and depot_run.dead_* */
    struct depot_view *view;
    struct depot_run *gone_runs;
    struct depot_table *gone_tables;
    struct depot_run *markers; /* emptied files of runs that were never committed */
    uint32_t committed_next_run;
};

/* Cost of a slot beside its record (checksum, directory), and of its key with its bits in the
 * filter. */
enum { DEPOT_SLOT_BYTES = 28, DEPOT_KEY_BYTES = 18 };

/* ---- depot_view ---- */

/* Allocates a view with room for the given numbers. Returns NULL if out of memory. */
struct depot_view *depot_view_new(struct depot *depot, size_t runs, size_t tables);
/* Copies the parts of the owner's view for which the callback returns true (NULL: all). */
typedef bool depot_keeps_run(void *ctx, const struct depot_run *run);
typedef bool depot_keeps_table(void *ctx, const struct depot_table *table);
void depot_view_fill(struct depot_view *view, depot_keeps_run *keeps_run,
                     depot_keeps_table *keeps_table, void *ctx);
void depot_view_add_run(struct depot_view *view, struct depot_run *run);
void depot_view_add_table(struct depot_view *view, struct depot_table *table);
/* Replaces the owner's view and releases the previous one. */
void depot_view_set(struct depot *depot, struct depot_view *view);
/* Frees a view that was never set. NULL is allowed. */
void depot_view_free(struct depot_view *view);
/* Holds the owner's view. [any thread] */
struct depot_view *depot_view_hold(struct depot *depot);

/* Takes ownership of `run` or `keys`, and closes it if out of memory. */
struct depot_run *depot_run_new(struct depot *depot, struct run *run, uint32_t number);
struct depot_table *depot_table_new(struct depot *depot, struct keys *keys);
/* Returns the number of bytes of the run's file that are holes. */
uint64_t depot_run_freed(const struct run *run);
void depot_run_free(struct depot_run *run);
/* Allocates the marks of jobs in memory. False: out of memory. */
bool depot_run_prepare_hold(struct depot_run *run);
void depot_table_free(struct depot_table *table);
void depot_path(const struct depot *depot, const char *name, char out[PATH_MAX]);
void depot_unlink_run(struct depot *depot, uint32_t number);
void depot_unlink_keys(struct depot *depot, uint32_t number);
/* Creates an empty file under the run's name, to mark the number as used. */
struct depot_run *depot_marker_new(struct depot *depot, uint32_t number);
/* Closes what left all views. [helper] */
void depot_put_away(struct depot *depot);

/* ---- depot_slots ---- */

/* Adds a run to the sums, or subtracts it from them. */
void depot_count_in(struct depot *depot, struct depot_run *run);
void depot_count_out(struct depot *depot, struct depot_run *run);

/* ---- depot_plan ---- */

struct depot_plan_run {
    uint64_t disk_bytes;   /* size of its file on disk */
    uint64_t alive_bytes;  /* size of a file of only its alive slots */
    uint64_t prefix_bytes; /* dead part of disk_bytes that the next commit reclaims anyway */
    uint32_t alive;
    bool is_victim; /* result */
};
struct depot_plan_limits {
    uint64_t slack_bytes, victim_bytes_max, small_run_bytes;
    uint32_t victim_slots_max;
    bool
        is_short; /* victim_bytes_max also holds for the first victim, and small runs are not joined */
};
/* Returns whether the disk holds too much garbage. */
bool depot_plan_is_due(uint64_t disk_bytes, uint64_t alive_bytes, uint64_t slack_bytes);
/* Chooses victims. Returns their number. */
size_t depot_plan_victims(struct depot_plan_run *runs, size_t count,
                          const struct depot_plan_limits *limits);

/* ---- depot_build ---- */

struct depot_victim {
    struct depot_run *run;
    uint32_t *moved; /* becomes depot_run.moved */
    bool stays;      /* something in the run cannot be read */
};

#endif
