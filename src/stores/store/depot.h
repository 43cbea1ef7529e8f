/*
 * depot: a shard's jobs that outlived the log: its runs, the tables that find a job by its key,
 * what is alive of them, and the catalog that says which of it counts.
 *
 * What is here and not in the engine's memory is a cold job. It comes back by time (slices of runs
 * just ahead of due) or by key, and goes for good when its slot is released.
 *
 * Views. The owner (the shard's thread) changes what there is; helpers work on a view: the runs and
 * tables of one moment, which stay open and on the disk as long as a view of them is held.
 *
 * Checkpoint, one at a time (local/checkpoint.c drives it):
 *   1. owner   depot_plan chooses runs that are mostly dead, or small: the victims
 *   2. owner   collects items: jobs in memory whose records lie in the log files to be given up,
 *              and those of victims
 *   3. helper  depot_build writes one new run of the items and of all else alive in the victims,
 *              and its table of keys; nothing counts yet
 *   4. owner   depot_install: the new run can be read, and a place in a victim is translated
 *              (depot_moved). The owner goes over the items in steps, tells the engine, and clears
 *              (depot_release) new slots whose job is gone or whose slot in a victim is dead.
 *              Then depot_installed: its jobs can be found by key and loaded by time; only now may
 *              the engine evict them
 *   5. owner   depot_snapshot: one moment's bitmaps and lists. It must not be committed before the
 *              log is synced up to that moment
 *   6. helper  depot_commit: the catalog is written
 *   7. owner   depot_committed: victims and dead runs leave the view; the log may drop its files
 *              before log_first
 *   8. helper  depot_tidy: what left the view is removed once nobody holds a view of it, dead parts
 *              of runs are punched. May be called at any time, and again
 * Merging tables of keys is a commit of its own: depot_keys_wanted, depot_keys_merge,
 * depot_keys_install, then 5 to 8. Between two calls of depot_keys_merge whole checkpoints may be
 * made, else the two never go on at once (asserted).
 *
 * The number of a run is never used twice, nor after a crash: the log may name a run that never
 * came to count. Such a run's file stays, empty, until a catalog is written that says so.
 *
 * Threads: functions belong to the owner but those marked [helper]. Errors: negative errno.
 */
#ifndef TARRY_STORE_DEPOT_H
#define TARRY_STORE_DEPOT_H

#include "store/alive.h"
#include "store/catalog.h"
#include "store/keys.h"
#include "store/run.h"

struct depot;

struct depot_options {
    const struct fs *fs;
    const char *dir;                      /* the shard's directory; DIR/run is made where missing */
    uint64_t hash_seed;                   /* of job keys */
    uint64_t seed;                        /* for checksums of a new depot; 0: drawn by chance */
    struct store_identity identity;       /* a catalog of another store or shard is refused */
    int (*pace)(void *ctx, size_t bytes); /* [helper] as in run.h; NULL: none */
    void *ctx;
    /* Tests make them small. 0: default. */
    uint64_t slack_bytes;      /* garbage that is always fine; default 256 MiB */
    uint64_t victim_bytes_max; /* alive bytes of victims of one checkpoint; default 256 MiB */
    uint64_t small_run_bytes;  /* runs with less alive are small; default 16 MiB */
    uint64_t punch_bytes;      /* punched at least so much at a time; default 1 MiB */
    uint32_t keys_fan;         /* tables of one size that are merged into one; default 6 */
    uint64_t keys_entries_max; /* a table with so many is merged no more; default 20 million */
};

/* Opens what the catalog names, and changes no file. Filters are not read yet (depot_load_filters),
 * nothing is punched (depot_tidy: call it once early). 0 or negative errno with `error`: what is
 * damaged and what to do. */
int depot_open(const struct depot_options *options, struct depot **out, char *error,
               size_t error_bytes);
/* Removes the files that did not count when it was opened. Call it once, when the log over it was
 * taken: where that is refused, the catalog may be the wrong one and these files the right ones.
 * Beside a damaged newer catalog nothing goes. */
void depot_remove_orphans(struct depot *depot);
void depot_close(struct depot *depot);
/* The catalog as it was read or last committed; its bitmaps and topics are there only until the
 * first depot_forget_catalog. */
const struct catalog *depot_catalog(const struct depot *depot);
void depot_forget_catalog(struct depot *depot);

/* ---- views ---- */

struct depot_run {
    struct run *run;
    struct alive alive;
    uint32_t number;
    _Atomic bool is_victim; /* of the checkpoint under way */
    _Atomic bool is_new;    /* of the checkpoint under way, not yet to be loaded from */
    /* private below */
    struct depot *depot;
    uint32_t keys;        /* number of the table its keys are in; 0: none has joined yet */
    uint64_t alive_bytes; /* of the alive slots' records */
    uint64_t file_bytes;
    _Atomic uint64_t freed; /* bytes of the file that were punched */
    /* A bit for each slot whose job is in memory; made with the first. The owner writes it. */
    _Atomic uint64_t *_Atomic in_memory;
    uint32_t *moved; /* by slot: its slot in the new run plus 1; 0: none. While a victim */
    /* Slots of each section, from its first, that are dead: as of the catalog being written, as of the
     * committed one (under the depot's lock), and those whose space went (the helper's). */
    uint32_t dead_written[SECTIONS], dead_committed[SECTIONS], punched[SECTIONS];
    _Atomic uint32_t holds;
    bool is_counted;    /* in the depot's sums */
    bool was_committed; /* a catalog named it */
    bool is_gone;       /* its file goes with the last hold */
    struct depot_run *next_gone;
};

struct depot_view {
    struct depot_run **runs; /* by number, rising */
    uint32_t run_count;
    struct depot_table **tables; /* private */
    uint32_t table_count;
    struct depot *depot;
    _Atomic uint32_t holds;
    uint64_t generation; /* rises with every change of the view */
};

/* The owner's own view: good until the next call that changes it. */
const struct depot_view *depot_view(const struct depot *depot);
struct depot_view *depot_hold(struct depot *depot);
void depot_let_go(struct depot_view *view); /* [any thread] */
/* NULL: not in the view. */
struct depot_run *depot_view_run(const struct depot_view *view, uint32_t number);

/* ---- cold jobs: in slots that are alive, and not in memory ---- */

/* The slot's job came to memory, or left it. A slot of no run is passed over; so is the note where there
 * is no memory for it. */
void depot_hold_slot(struct depot *depot, struct record_place place, bool in_memory);
/* Whether what is cold in the run counts: not in one that is being installed, or whose jobs lie elsewhere
 * by now. The owner's. */
bool depot_run_counts(const struct depot_run *run);
/* How many of the slots [first, end) are cold; whether one is. Any thread, while the view is held. */
uint32_t depot_cold_count(const struct depot_run *run, uint32_t first, uint32_t end);
bool depot_is_cold(const struct depot_run *run, uint32_t slot);

/* ---- directories, where a damaged block in which nothing is alive (it was given up, or all of it
 * is done) is passed over: nobody misses what stands there. Any thread, while the view is held ---- */

/* As run_scan. */
int depot_scan(const struct depot_run *run, const struct run_scan *scan, uint32_t *next);
/* As run_slots, may_block. What is passed over has no topic: UINT32_MAX. */
int depot_slots(const struct depot_run *run, uint32_t first, uint32_t count, struct run_slot *out);

/* ---- slots ---- */

bool depot_is_alive(const struct depot *depot, struct record_place place);
enum depot_release { DEPOT_RELEASED = 0, DEPOT_WAS_DEAD, DEPOT_NEVER_COMMITTED };
/* The slot holds nothing that counts any more; told after the record that makes it so was appended.
 * RELEASED with its section; WAS_DEAD: it is dead already or its run was dropped; NEVER_COMMITTED
 * (replay only): a run that a crash kept from counting. */
enum depot_release depot_release(struct depot *depot, struct record_place place,
                                 enum job_section *section);
/* Returns the place of a slot after the checkpoint under way: the place in the new run if it is in a
 * victim and depot_install was called, else the place itself. */
struct record_place depot_moved(const struct depot *depot, struct record_place place);
/*
 * Finds the slot that counts for a job that a helper found: true with its place, in the new run if the
 * job is in a victim. False: the job has ended, or it is in memory. Until depot_installed a slot of the
 * new run counts only through a living slot of a victim: its own bit is set already, but the job may
 * have ended since it was collected, and its owner does not count the slot before it is installed.
 */
bool depot_find_counted(const struct depot *depot, struct record_place found,
                        struct record_place *out);
/* The record, copied to scratch. may_block false: -EAGAIN. [helper with may_block] */
int depot_read(const struct depot_view *view, struct record_place place, bool may_block,
               struct buffer *scratch, struct slice *out);

/* ---- by key ---- */

/* False: no cold job has this key, for certain. */
bool depot_maybe(const struct depot *depot, struct hash128 key);
void depot_prefetch(const struct depot *depot, struct hash128 key);
/* True: no cold job has this key, although a filter said maybe: the tables were asked, as far as
 * the system has them in memory. Waits for nothing. */
bool depot_is_absent(const struct depot *depot, struct hash128 key);

struct depot_hit {
    struct record_place place;
    enum job_section section;
    size_t at; /* of the record in `records` */
};
/* [helper] 1: found alive, its record appended to `records`; 0: there is none; negative errno. */
int depot_find(const struct depot_view *view, uint64_t hash_seed, struct hash128 key,
               struct buffer *records, struct depot_hit *out);
/* The same of many at once, at a fraction of the cost each. place: where its record lies as far as
 * is known, bytes 0: not known; afterwards where it was found. */
struct depot_want {
    struct hash128 key;
    struct record_place place;
    uint32_t id; /* the caller's */
    bool is_met;
};
typedef void depot_met(void *ctx, const struct depot_want *want, const struct record *record);
/* [helper] Calls `met` for those that are alive, in the order in which they lie. One that cannot be
 * read, or whose hash is that of many others, is left out like those there are none of: ask for it
 * by itself. 0 or -ENOMEM: then some of them were met. */
int depot_find_many(const struct depot_view *view, uint64_t hash_seed, struct depot_want *wants,
                    size_t count, depot_met *met, void *ctx);
/* [helper] Reads filters not read yet, newest tables first. Negative: one could not be read (its
 * keys are looked for on the disk). */
int depot_load_filters(struct depot_view *view);

/* ---- checkpoint ---- */

struct depot_item {
    uint64_t when_ms : 48;
    uint64_t section : 8;
    uint64_t failed : 1; /* its record could not be read: it stays where it is. After building */
    uint64_t sequence;
    struct record_place place; /* of its record, in the log or in a run */
    uint32_t id;               /* the engine's; 0: from a victim */
    const void *changed; /* what is true of it now, where the record does not say so; else NULL.
                            Whoever gave it frees it: after building, or where that never came */
    uint64_t key_low;    /* after building */
};

struct depot_build {
    /* Own memory (malloc); sorted by building: item i lies in slot i, failed ones last. An item
     * whose place has become nowhere stays in its victim after all; its new slot is dead. */
    struct depot_item *items;
    size_t count, cap;
    uint32_t run; /* number of the new run; 0: nothing to write */
    uint32_t slots;
    uint32_t *bytes; /* by slot: of its record, as it is in the new run. Own memory */
    uint32_t failed; /* items */
    int64_t cold_ms; /* set before depot_build, as in run_writing */
    bool no_victims; /* set before depot_plan: none is chosen, for want of disk space */
    uint32_t kept;   /* victims that stay: something in them could not be read */
    /* [helper] The record of an item in the log. */
    int (*read_log)(void *ctx, struct record_place place, struct buffer *scratch,
                    struct slice *out);
    /* [helper] Overlays item->changed on the decoded record. Once for an item at most. */
    void (*apply)(void *ctx, const void *changed, struct record *record);
    void *ctx;
    char error[256];
    /* private below */
    struct depot *depot;
    struct depot_view *view;
    struct run *made_run;
    struct keys *made_keys;
    uint32_t keys_number;
    uint64_t record_bytes;
    struct depot_victim *victims;
    size_t victim_count;
};

/* The place of an item that did not fail, in the new run. After building. */
struct record_place depot_build_place(const struct depot_build *build, size_t item);

/* Whether what is dead and not given back is worth a checkpoint although the log is short. */
bool depot_wants_checkpoint(const struct depot *depot);
/* Chooses victims (depot_run.is_victim) and readies `build` (zeroed before; read_log, apply and ctx
 * may be set before or after); it is then the checkpoint under way. */
int depot_plan(struct depot *depot, struct depot_build *build);
/* [helper] Adds what is alive in the victims to the items and writes the run. 0; negative errno
 * with `error`: nothing is left on the disk, and depot_abandon is what follows. */
int depot_build(struct depot_build *build);
/* The new run joins the view, without its table of keys. Also where there is none. False: out of
 * memory; nothing has happened. */
bool depot_install(struct depot *depot, struct depot_build *build);
/* Its table joins; depot_run.is_new ends. False: out of memory, try again. */
bool depot_installed(struct depot *depot, struct depot_build *build);
/* Gives it up: nothing has happened. Also after a failed build. */
void depot_abandon(struct depot *depot, struct depot_build *build);
/* After commit or abandoning, or with it still under way where nothing but depot_close follows.
 * Frees items but not their `changed`. */
void depot_build_fini(struct depot_build *build);

/* What a commit writes. topics: the owner's; copied. */
int depot_snapshot(struct depot *depot, uint32_t log_first, uint64_t log_first_sequence,
                   const struct catalog_topic *topics, uint32_t topic_count, int64_t inner_ms,
                   int64_t wall_ms, struct catalog *out);
/* [helper] -ESTALE: the runs' directory is astray (depot_leads); nothing was written. */
int depot_commit(struct depot *depot, const struct catalog *catalog, bool *is_fatal);
/* Whether the path of runs and catalog still leads to them. Any thread. */
bool depot_leads(const struct depot *depot);
/* Takes the catalog over. */
void depot_committed(struct depot *depot, struct catalog *catalog);
/* [helper, the one of depot_commit] What the committed catalog lets go: files unlinked, dead slots
 * punched. While held back (depot_hold_back) it begins nothing. */
void depot_tidy(struct depot *depot);
/* Whether it left something to do: files were held back since the last commit, and are no more. */
bool depot_wants_tidying(const struct depot *depot);
/*
 * [helper, the one of depot_commit] A file of zeros of so many bytes, made where it is missing and
 * there is space; and given back to the disk where there is none, so that one more checkpoint (with
 * no_victims) can be written, which lets log files go. 0 or negative errno.
 */
int depot_make_reserve(struct depot *depot, uint64_t bytes);
void depot_spend_reserve(struct depot *depot);
/* For backups: while held back nothing that counts or counted is removed or punched. Counted. */
void depot_hold_back(struct depot *depot, bool on);

/* ---- tables of keys ---- */
struct depot_keys_merge {
    struct depot_view *view;
    struct depot_table **tables; /* own memory */
    uint32_t table_count, number;
    struct keys_merger *merger;
    struct keys *made; /* NULL after merging: nothing in them counts any more */
};
bool depot_keys_wanted(struct depot *depot, struct depot_keys_merge *out);
/* [helper] At most so many entries; 1: there are more, call again. */
int depot_keys_merge(struct depot *depot, struct depot_keys_merge *merge, uint64_t entries);
bool depot_keys_install(struct depot *depot, struct depot_keys_merge *merge); /* then 5 to 7 */
void depot_keys_abandon(struct depot *depot, struct depot_keys_merge *merge);

/* ---- figures ---- */
struct depot_stats {
    uint32_t runs, tables;
    uint64_t slots_alive, alive_bytes, garbage_bytes, bytes_on_disk, filter_bytes;
    bool filters_loading;
};
void depot_stats(const struct depot *depot, struct depot_stats *out);
/* Whether all that is kept about it goes together; asserts. For tests. */
void depot_check(const struct depot *depot);
/* By section: the slots that the owner must count, and those of them that it told to be in memory. */
struct depot_counted {
    uint64_t slots[SECTIONS], in_memory[SECTIONS];
};
/* Counts them one by one, without I/O. `installed`: how many items of a run that is being installed the
 * owner has gone over. For tests. */
void depot_count_slots(const struct depot *depot, uint32_t installed, struct depot_counted *out);

#endif
