/*
 * depot: the jobs of a shard that outlived the log: the runs, the tables that find a job by its
 * key, the bitmaps of alive slots, and the catalog that lists which of these files count.
 *
 * A job that is in the depot but not in the engine's memory is a cold job. It is loaded by time
 * (slices of runs shortly before they are due) or by key, and is removed permanently when its slot
 * is released.
 *
 * Views. The owner (the shard's thread) changes the set of runs and tables. Helpers work on a view:
 * the runs and tables at one moment, which stay open and on disk as long as a view of them is held.
 *
 * Checkpoint, one at a time (driven by local/checkpoint.c):
 *   1. owner   depot_plan chooses the victims: runs that are mostly dead, or small
 *   2. owner   collects items: jobs in memory whose records are in the log files to be dropped,
 *              and those of victims
 *   3. helper  depot_build writes one new run of the items and of everything else alive in the
 *              victims, and its key table; the files do not count yet
 *   4. owner   depot_install: the new run can be read, and a place in a victim is translated
 *              (depot_moved). The owner processes the items in steps, passes the new places to
 *              the engine, and clears (depot_release) new slots whose job is gone or whose slot
 *              in a victim is dead. Then depot_installed: the jobs can be found by key and
 *              loaded by time; only now may the engine evict them
 *   5. owner   depot_snapshot copies the bitmaps and lists at one moment. The snapshot must not
 *              be committed before the log is synced up to that moment
 *   6. helper  depot_commit writes the catalog
 *   7. owner   depot_committed: victims and dead runs leave the view; the log may drop its files
 *              before log_first
 *   8. helper  depot_tidy removes files that left the view, once no view of them is held, and
 *              punches dead parts of runs. May be called at any time and repeatedly
 * A merge of key tables is a separate commit: depot_keys_wanted, depot_keys_merge,
 * depot_keys_install, then steps 5 to 8. Complete checkpoints may run between two calls of
 * depot_keys_merge; otherwise the two never run concurrently (asserted).
 *
 * A run number is never reused, not even after a crash, because the log may name a run that was
 * never committed. The file of such a run remains, empty, until a catalog is written that covers
 * its number.
 *
 * Threads: functions belong to the owner unless marked [helper]. Errors: negative errno.
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
    const char *dir;                      /* the shard's directory; DIR/run is created if missing */
    uint64_t hash_seed;                   /* seed of the hashes of job keys */
    uint64_t seed;                        /* for checksums of a new depot; 0: random */
    struct store_identity identity;       /* catalogs of another store or shard are rejected */
    int (*pace)(void *ctx, size_t bytes); /* [helper] as in run.h; may be NULL */
    void *ctx;
    /* Limits that tests reduce. 0: default. */
    uint64_t slack_bytes;      /* amount of garbage that is always accepted; default 256 MiB */
    uint64_t victim_bytes_max; /* alive bytes of victims of one checkpoint; default 256 MiB */
    uint64_t small_run_bytes;  /* runs with fewer alive bytes are small; default 16 MiB */
    uint64_t punch_bytes;      /* smallest amount to punch at a time; default 1 MiB */
    uint32_t keys_fan; /* number of tables of one size that are merged into one; default 6 */
    uint64_t keys_entries_max; /* tables of this size are not merged further; default 20 million */
};

/* Opens the files that the catalog names, and changes no file. Does not read filters (see
 * depot_load_filters) and does not punch (call depot_tidy once early). Returns 0 or a negative
 * errno, and describes in `error` what is damaged and what to do. */
int depot_open(const struct depot_options *options, struct depot **out, char *error,
               size_t error_bytes);
/* Removes the files that did not count at opening. Call it once, after the log on top was accepted:
 * if the log is rejected, the catalog may be the wrong one and these files the right ones. Removes
 * nothing if a newer catalog is damaged. */
void depot_remove_orphans(struct depot *depot);
void depot_close(struct depot *depot);
/* Returns the catalog as read or last committed. Its bitmaps and topics are available only until
 * the first depot_forget_catalog. */
const struct catalog *depot_catalog(const struct depot *depot);
void depot_forget_catalog(struct depot *depot);

/* ---- views ---- */

struct depot_run {
    struct run *run;
    struct alive alive;
    uint32_t number;
    _Atomic bool is_victim; /* victim of the current checkpoint */
    _Atomic bool is_new;    /* made by the current checkpoint; must not be loaded from yet */
    /* private below */
    struct depot *depot;
    uint32_t keys;        /* number of the table that holds its keys; 0: no table yet */
    uint64_t alive_bytes; /* total size of the records of alive slots */
    uint64_t file_bytes;
    _Atomic uint64_t freed; /* number of punched bytes of the file */
    /* A bit for each slot whose job is in memory; of a run that an earlier process made, allocated with the first. Written by the owner. */
    _Atomic uint64_t *_Atomic in_memory;
    uint32_t *moved; /* by slot: its slot in the new run plus 1, or 0. Only while a victim */
    /* Number of dead slots at the start of each section: as of the catalog being written, as of the
     * committed one (under the depot's lock), and those already punched (helper only). */
    uint32_t dead_written[SECTIONS], dead_committed[SECTIONS], punched[SECTIONS];
    _Atomic uint32_t holds;
    bool is_counted;    /* included in the depot's sums */
    bool was_committed; /* named by a catalog */
    bool is_gone;       /* the file is removed with the last hold */
    struct depot_run *next_gone;
};

struct depot_view {
    struct depot_run **runs; /* ascending by number */
    uint32_t run_count;
    struct depot_table **tables; /* private */
    uint32_t table_count;
    struct depot *depot;
    _Atomic uint32_t holds;
    uint64_t generation; /* increases with every change of the view */
};

/* Returns the owner's view, valid until the next call that changes it. */
const struct depot_view *depot_view(const struct depot *depot);
struct depot_view *depot_hold(struct depot *depot);
/* Releases a view. [any thread] */
void depot_let_go(struct depot_view *view);
/* Returns the run, or NULL if it is not in the view. */
struct depot_run *depot_view_run(const struct depot_view *view, uint32_t number);

/* ---- cold jobs: in alive slots, and not in memory ---- */

/* Allocates what depot_hold_slot needs for the run of a slot, which may have been made by an earlier process. False: out of memory. Owner only. */
bool depot_prepare_hold(struct depot *depot, struct record_place place);
/* Records that the slot's job entered or left memory. Ignores slots without a run. If a start that replays the log is out of memory, the
 * forecast counts the jobs of the run twice. */
void depot_hold_slot(struct depot *depot, struct record_place place, bool in_memory);
/* Returns whether cold slots of the run count: false while the run is being installed or if its
 * jobs are already in another run. Owner only. */
bool depot_run_counts(const struct depot_run *run);
/* Returns the number of cold slots in [first, end), or whether one slot is cold. Any thread, while
 * the view is held. */
uint32_t depot_cold_count(const struct depot_run *run, uint32_t first, uint32_t end);
bool depot_is_cold(const struct depot_run *run, uint32_t slot);

/* ---- directories: a damaged block without alive slots (given up, or all finished) is skipped,
 * since its contents are not needed. Any thread, while the view is held ---- */

/* Works as run_scan. */
int depot_scan(const struct depot_run *run, const struct run_scan *scan, uint32_t *next);
/* Works as run_slots with may_block. Skipped slots have the topic UINT32_MAX. */
int depot_slots(const struct depot_run *run, uint32_t first, uint32_t count, struct run_slot *out);

/* ---- slots ---- */

bool depot_is_alive(const struct depot *depot, struct record_place place);
enum depot_release { DEPOT_RELEASED = 0, DEPOT_WAS_DEAD, DEPOT_NEVER_COMMITTED };
/* Marks that the slot no longer counts; called after the record that causes this was appended.
 * Returns RELEASED and the slot's section; WAS_DEAD if it was already dead or its run was dropped;
 * NEVER_COMMITTED (replay only) for a run that was not committed because of a crash. */
enum depot_release depot_release(struct depot *depot, struct record_place place,
                                 enum job_section *section);
/* Returns the place of a slot after the current checkpoint: the place in the new run if it is in a
 * victim and depot_install was called, else the place itself. */
struct record_place depot_moved(const struct depot *depot, struct record_place place);
/*
 * Finds the slot that counts for a job that a helper found. Returns true and its place, in the new
 * run if the job is in a victim. Returns false if the job has ended or is in memory. Until
 * depot_installed, a slot of the new run counts only through an alive slot of a victim: its own bit
 * is already set, but the job may have ended since it was collected, and the owner does not count
 * the slot before it is installed.
 */
bool depot_find_counted(const struct depot *depot, struct record_place found,
                        struct record_place *out);
/* Reads the record into `scratch`. Returns -EAGAIN if it would block and may_block is false.
 * [helper with may_block] */
int depot_read(const struct depot_view *view, struct record_place place, bool may_block,
               struct buffer *scratch, struct slice *out);

/* ---- by key ---- */

/* Returns false if certainly no cold job has this key. */
bool depot_maybe(const struct depot *depot, struct hash128 key);
void depot_prefetch(const struct depot *depot, struct hash128 key);
/* Returns true if no cold job has this key although a filter matched: searches the tables as far as
 * the system has them in memory. Never blocks. */
bool depot_is_absent(const struct depot *depot, struct hash128 key);

struct depot_hit {
    struct record_place place;
    enum job_section section;
    size_t at; /* position of the record in `records` */
};
/* [helper] Finds an alive slot by key. Returns 1 and appends its record to `records`; 0 if not
 * found; or a negative errno. */
int depot_find(const struct depot_view *view, uint64_t hash_seed, struct hash128 key,
               struct buffer *records, struct depot_hit *out);
/* A key in a lookup of many, each at a fraction of the cost of depot_find. place: the expected
 * place of its record, bytes 0 if unknown; afterwards the place where it was found. */
struct depot_want {
    struct hash128 key;
    struct record_place place;
    uint32_t id; /* for the caller's use */
    bool is_met;
};
typedef void depot_met(void *ctx, const struct depot_want *want, const struct record *record);
/* [helper] Calls `met` for the alive ones in the order of their places. A key whose record cannot
 * be read, or whose hash is shared by many others, is left out as if it did not exist: look it up
 * individually. Returns 0, or -ENOMEM if only some were processed. */
int depot_find_many(const struct depot_view *view, uint64_t hash_seed, struct depot_want *wants,
                    size_t count, depot_met *met, void *ctx);
/* [helper] Reads filters that have not been read yet, newest tables first. Returns a negative errno
 * if one could not be read (its keys are then looked up on disk). */
int depot_load_filters(struct depot_view *view);

/* ---- checkpoint ---- */

struct depot_item {
    uint64_t when_ms : 48;
    uint64_t section : 8;
    uint64_t failed : 1; /* after building: its record could not be read and stays where it is */
    uint64_t sequence;
    struct record_place place; /* place of its record, in the log or in a run */
    uint32_t id;               /* the engine's; 0: from a victim */
    /* Current state of the job if the record is outdated, else NULL. The caller frees it, after
     * building or if the build never runs. */
    const void *changed;
    uint64_t key_low; /* set by building */
};

struct depot_build {
    /* Array owned by the build (malloc), sorted by building: item i is in slot i, failed ones last.
     * An item whose place has become empty stays in its victim after all; its new slot is dead. */
    struct depot_item *items;
    size_t count, cap;
    uint32_t run; /* number of the new run; 0: nothing to write */
    uint32_t slots;
    uint32_t *bytes; /* by slot: size of its record in the new run; owned */
    uint32_t failed; /* number of failed items */
    int64_t cold_ms; /* set before depot_build, see run_writing */
    bool no_victims; /* set before depot_plan: choose no victims */
    /* Set before depot_plan: disk space is short. All garbage counts, and a victim is chosen only if what is
     * alive in it fits into spare_bytes together with that of the others. */
    bool is_short;
    uint64_t spare_bytes;
    uint32_t kept; /* victims that stay because something in them could not be read */
    /* [helper] Reads the record of an item in the log. */
    int (*read_log)(void *ctx, struct record_place place, struct buffer *scratch,
                    struct slice *out);
    /* [helper] Applies item->changed to the decoded record. Called at most once per item. */
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

/* Returns the place in the new run of an item that did not fail. After building. */
struct record_place depot_build_place(const struct depot_build *build, size_t item);

/* Returns whether there is enough unreclaimed garbage for a checkpoint although the log is short: more than a fraction
 * of what is alive, and unless space is short (is_short) also more than slack_bytes. */
bool depot_wants_checkpoint(const struct depot *depot, bool is_short);
/* Chooses victims (depot_run.is_victim) and prepares `build`, which was zeroed before (read_log,
 * apply and ctx may be set before or after). It becomes the current checkpoint. */
int depot_plan(struct depot *depot, struct depot_build *build);
/* [helper] Adds the alive slots of the victims to the items and writes the run. Returns 0, or a
 * negative errno with `error`: then nothing is left on disk, and depot_abandon must follow. */
int depot_build(struct depot_build *build);
/* Adds the new run, if there is one, to the view without its key table. Returns false if out of
 * memory; then nothing has changed. */
bool depot_install(struct depot *depot, struct depot_build *build);
/* Adds the key table and ends depot_run.is_new. Returns false if out of memory; try again. */
bool depot_installed(struct depot *depot, struct depot_build *build);
/* Abandons the checkpoint and undoes it. Also called after a failed build. */
void depot_abandon(struct depot *depot, struct depot_build *build);
/* Frees the items but not their `changed`. Call it after commit or abandon, or during the
 * checkpoint if only depot_close follows. */
void depot_build_fini(struct depot_build *build);

/* Collects the data for a commit. `topics` are the owner's and are copied. */
int depot_snapshot(struct depot *depot, uint32_t log_first, uint64_t log_first_sequence,
                   const struct catalog_topic *topics, uint32_t topic_count, int64_t inner_ms,
                   int64_t wall_ms, struct catalog *out);
/* [helper] Writes the catalog. Returns -ESTALE, without writing, if the directory of the runs was
 * moved (depot_leads). */
int depot_commit(struct depot *depot, const struct catalog *catalog, bool *is_fatal);
/* Returns whether the path of runs and catalog still leads to them. Any thread. */
bool depot_leads(const struct depot *depot);
/* Takes ownership of the catalog's contents. */
void depot_committed(struct depot *depot, struct catalog *catalog);
/* [helper, the one of depot_commit] Unlinks files and punches dead slots that the committed catalog
 * no longer needs. Starts nothing while held back (depot_hold_back). */
void depot_tidy(struct depot *depot);
/* Returns whether depot_tidy has work left: files were held back since the last commit and no
 * longer are. */
bool depot_wants_tidying(const struct depot *depot);
/*
 * [helper, the one of depot_commit] Creates a file of zeros of `bytes` bytes if it is missing and
 * there is space. depot_spend_reserve returns it to the disk when space runs out, so that one more
 * checkpoint (with is_short) can be written, which lets log files and runs be dropped. Returns 0 or a
 * negative errno.
 */
int depot_make_reserve(struct depot *depot, uint64_t bytes);
void depot_spend_reserve(struct depot *depot);
/* Prevents, for backups, removal and punching of everything that counts or has counted. Calls
 * nest. */
void depot_hold_back(struct depot *depot, bool on);

/* ---- tables of keys ---- */
struct depot_keys_merge {
    struct depot_view *view;
    struct depot_table **tables; /* owned */
    uint32_t table_count, number;
    struct keys_merger *merger;
    struct keys *made; /* NULL after merging: no entry counts any longer */
};
bool depot_keys_wanted(struct depot *depot, struct depot_keys_merge *out);
/* [helper] Merges at most `entries` entries. Returns 1 if there are more; call it again. */
int depot_keys_merge(struct depot *depot, struct depot_keys_merge *merge, uint64_t entries);
/* Installs the merged table. Steps 5 to 7 follow. */
bool depot_keys_install(struct depot *depot, struct depot_keys_merge *merge);
void depot_keys_abandon(struct depot *depot, struct depot_keys_merge *merge);

/* ---- figures ---- */
struct depot_stats {
    uint32_t runs, tables;
    uint64_t slots_alive, alive_bytes, garbage_bytes, bytes_on_disk, filter_bytes;
    bool filters_loading;
};
void depot_stats(const struct depot *depot, struct depot_stats *out);
/* Asserts that the depot's bookkeeping is consistent. For tests. */
void depot_check(const struct depot *depot);
/* Slot counts by section: the slots that the owner must count, and those of them that it marked as
 * in memory. */
struct depot_counted {
    uint64_t slots[SECTIONS], in_memory[SECTIONS];
};
/* Counts the slots one by one, without I/O. `installed`: number of items of a run being installed
 * that the owner has processed. For tests. */
void depot_count_slots(const struct depot *depot, uint32_t installed, struct depot_counted *out);

#endif
