/*
 * stored: the engine and the jobs in runs (store/depot.h). PURE, as the rest of the room.
 *
 * A job is in the memory of the engine (an entry) or cold: only in a slot of a run. The record of an entry may be in
 * the log or in a slot. Changed means that the log holds a newer state of the entry than its record. The counts of a
 * topic include both: the engine keeps for each topic how many slots of each section are alive (`stored`) and how
 * many of these have an entry (`loaded`); cold = stored - loaded.
 *
 * Rules
 *   - A cold job is first loaded, then treated as any other.
 *   - Only unchanged entries in slots are evicted, so an eviction loses nothing.
 *   - A record about an entry in a slot names that slot (record.from).
 */
#ifndef TARRY_ENGINE_STORED_H
#define TARRY_ENGINE_STORED_H

#include "engine/engine.h"
#include "job/section.h"

/* ---- recovery ---- */

/* Sets the counts of a topic from the catalog, before the replay. False: out of memory. */
bool engine_stored_begin(struct engine *engine, struct slice topic, const uint64_t stored[SECTIONS],
                         uint64_t dead_bytes, uint64_t kept_bytes);
/*
 * Iterates, after the replay and before engine_start, over jobs of which the log holds a new state but not the job
 * itself, which is in a run. Start with *at = 0; false: no more. `place` is their slot according to the log, bytes 0:
 * unknown; *at is then the id. For each job the owner finds the record and calls engine_stub_fill, which returns
 * false if the record is not that of the job, or out of memory.
 */
bool engine_stub_next(const struct engine *engine, uint32_t *at, struct hash128 *key,
                      struct record_place *place);
bool engine_stub_fill(struct engine *engine, uint32_t id, const struct record *record,
                      struct record_place place);
/* Iterates over finished jobs whose slot is in a run that was never committed. The owner finds the slot by the key
 * and calls engine_release_stored; the slot may be missing. */
bool engine_unresolved_next(struct engine *engine, uint32_t *at, struct hash128 *key);
void engine_release_stored(struct engine *engine, struct slice topic, struct record_place place);

/* The state of a key during recovery, for the owner's checks of a replay. */
enum engine_known {
    ENGINE_KNOWN_NOT = 1,
    ENGINE_KNOWN_JOB,
    ENGINE_KNOWN_STATE,   /* a state; the job itself is in a run or lost */
    ENGINE_KNOWN_FINISHED /* a remembered id */
};
enum engine_known engine_known(const struct engine *engine, struct hash128 key);

/* ---- loading ---- */

enum engine_loaded { ENGINE_LOADED = 1, ENGINE_IS_IN_MEMORY, ENGINE_NO_MEMORY };
/* Loads a cold job into memory; `record` is the JOB or DONE of its slot, which is alive. */
enum engine_loaded engine_load(struct engine *engine, const struct record *record,
                               struct record_place place, struct engine_now now);
bool engine_knows(const struct engine *engine, struct hash128 key); /* it is in memory */
/* Looks up many keys, at a fraction of the cost each, with prefetches of their memory. */
void engine_know(const struct engine *engine, const struct hash128 *keys, size_t count,
                 bool *knows);
struct hash128 engine_key(const struct engine *engine, struct slice topic, struct slice id);
/* Returns how many entries of the topic are in slots and are ready, or delayed and never tried; for the quota of
 * the loader. */
uint64_t engine_loaded_of(struct engine *engine, struct slice topic);
/* Iterates over the parts of this number by group: the mark of the group (job/flow.h), and how many. Start with *at = 0.
 * False: no more. */
bool engine_waiting_next(struct engine *engine, struct slice topic, uint32_t *at, uint32_t *mark,
                         uint64_t *waiting);
/* Sets how many cold jobs of the topic are due: they are shown as ready, not delayed. Called by the loader. */
void engine_set_cold_ready(struct engine *engine, struct slice topic, uint64_t count);
/* Returns the number that was set, less the ready jobs loaded since, plus those evicted. */
uint64_t engine_cold_ready(struct engine *engine, struct slice topic);
uint64_t engine_entries(const struct engine *engine);

/* ---- checkpoint ---- */

/* The state of a job that its record does not contain. malloc'd; freed by engine_changed_free. */
struct engine_changed;
void engine_changed_free(struct engine_changed *changed);
/* Overlays the state on the decoded record, whose error, history and consumer then point into it. [any thread] */
void engine_changed_apply(const struct engine_changed *changed, struct record *record);

/* An entry that a checkpoint must write, for one of two reasons: its record, its newest state, or the end of an
 * attempt that its record does not include is in a log file before `before_file`; or its slot is in a run for
 * which is_victim returns true. */
struct engine_item {
    enum job_section section;
    int64_t when_ms;
    uint64_t sequence;
    struct record_place place;
    uint32_t id;
    struct engine_changed *changed; /* NULL: the record is up to date */
};
struct engine_collect {
    uint32_t at; /* start with 0 */
    uint32_t before_file;
    bool (*is_victim)(void *ctx, uint32_t run);
    /* Receives an item. False: out of memory, the collection ends, and item->changed stays with the engine.
     * Otherwise it passes to the owner. */
    bool (*each)(void *ctx, const struct engine_item *item);
    void *ctx;
};
/* Examines `steps` entries. 1: more to come, 0: the end, -ENOMEM. Entries added meanwhile may be missed: their
 * records are in `before_file` or later. */
int engine_collect(struct engine *engine, struct engine_collect *collect, struct engine_now now,
                   size_t steps);

/* Prefetches the memory that a later engine_install will touch. */
void engine_install_soon(const struct engine *engine, uint32_t id);
/*
 * Moves the item's record to slot `place` of a run, in section `section`. True: it is still the same job, in the
 * place where it was collected (`old`), and it now uses the new place; an old slot is released. Changes after the
 * collection were written to `before_file` or later and still apply. False: the job is gone or replaced, and the
 * owner clears the new slot.
 */
bool engine_install(struct engine *engine, uint32_t id, struct record_place old,
                    struct record_place place, enum job_section section, uint32_t before_file);
/* Keeps an item whose record in a slot cannot be read where it is. Its changes are written to the log again, so
 * that it needs no older file. An append. */
void engine_keep(struct engine *engine, uint32_t id, struct record_place place);
/* Reports that the record of a victim's slot, which had no entry when collected, was moved unchanged. If an entry
 * for it exists by now, its place is updated. Stored counts do not change. */
void engine_relocate(struct engine *engine, uint64_t key_low, struct record_place old,
                     struct record_place place);

/* Evicts unchanged entries in slots: those that are not due before keep_until_ms (inner clock), the dead, and
 * ready ones beyond `ready_max` of their topic. Examines `steps` from *at (start with 0). True: the end was
 * reached, and *at is 0 again. Never evicts leased entries, nor those that were collected and not yet installed.
 * The owner does not call it while it installs: an entry could not be found in its new slot yet. */
bool engine_evict_some(struct engine *engine, uint32_t *at, int64_t keep_until_ms,
                       uint64_t ready_max, struct engine_now now, size_t steps);

/* Sums over all topics, by section: live slots of runs, and those with an entry. For tests. */
void engine_stored_sum(const struct engine *engine, uint64_t stored[SECTIONS],
                       uint64_t loaded[SECTIONS]);
/* Iterates over topics with stored jobs, for the catalog. As engine_topic_next; `name` lives as long as the topic. */
bool engine_stored_next(const struct engine *engine, uint32_t *at, struct slice *name,
                        uint64_t stored[SECTIONS], uint64_t *dead_bytes, uint64_t *kept_bytes);

#endif
