/*
 * stored: the engine and the jobs that lie in runs (store/depot.h). PURE as the rest of the room.
 *
 * A job is in the engine's memory (an entry) or cold: only in a slot of a run. An entry may have its
 * record in the log or in a slot. Changed means: the log holds a state of it that is newer than its
 * record. Counts a topic shows are of both: the engine keeps for each topic how many slots of each
 * section are alive (`stored`) and how many of these have an entry (`loaded`); cold = stored - loaded.
 *
 * Rules
 *   - Nothing is done to a cold job: it is loaded first, then treated as any other.
 *   - Only entries that are unchanged and lie in a slot are evicted; so eviction forgets nothing.
 *   - A record about an entry in a slot names that slot (record.from).
 */
#ifndef TARRY_ENGINE_STORED_H
#define TARRY_ENGINE_STORED_H

#include "engine/engine.h"
#include "job/section.h"

/* ---- coming back ---- */

/* Before the replay: what the catalog says of a topic. False: out of memory. */
bool engine_stored_begin(struct engine *engine, struct slice topic, const uint64_t stored[SECTIONS],
                         uint64_t dead_bytes);
/*
 * After the replay, before engine_start: jobs of which the log told a new state but not the job
 * itself lie in a run. Start with *at = 0; false: no more. `place`: their slot as of the log, bytes
 * 0: not known; *at is then its id. For each the owner finds the record and calls engine_stub_fill;
 * false there: the record is not that job's, or out of memory.
 */
bool engine_stub_next(const struct engine *engine, uint32_t *at, struct hash128 *key,
                      struct record_place *place);
bool engine_stub_fill(struct engine *engine, uint32_t id, const struct record *record,
                      struct record_place place);
/* The same for ends whose slot is in a run that was never committed: the owner finds the slot by
 * the key and calls engine_release_stored; there may be none. */
bool engine_unresolved_next(struct engine *engine, uint32_t *at, struct hash128 *key);
void engine_release_stored(struct engine *engine, struct slice topic, struct record_place place);

/* What the engine has under a key while it comes back: for whoever judges a replay. */
enum engine_known {
    ENGINE_KNOWN_NOT = 1,
    ENGINE_KNOWN_JOB,
    ENGINE_KNOWN_STATE,   /* a state, and the job itself lies in a run or nowhere */
    ENGINE_KNOWN_FINISHED /* an id that is remembered */
};
enum engine_known engine_known(const struct engine *engine, struct hash128 key);

/* ---- loading ---- */

enum engine_loaded { ENGINE_LOADED = 1, ENGINE_IS_IN_MEMORY, ENGINE_NO_MEMORY };
/* A cold job into memory; `record` JOB or DONE as it lies in the slot, which is alive. */
enum engine_loaded engine_load(struct engine *engine, const struct record *record,
                               struct record_place place, struct engine_now now);
bool engine_knows(const struct engine *engine, struct hash128 key); /* it is in memory */
/* The same of many, at a fraction of the cost each: their memory is asked for ahead. */
void engine_know(const struct engine *engine, const struct hash128 *keys, size_t count,
                 bool *knows);
struct hash128 engine_key(const struct engine *engine, struct slice topic, struct slice id);
/* How many of the topic's entries lie in slots and are ready, or delayed and never tried; for the
 * loader's quota. */
uint64_t engine_loaded_of(struct engine *engine, struct slice topic);
/* So many cold jobs of the topic are due: they are shown as ready, not delayed. Set by the loader.
 */
void engine_set_cold_ready(struct engine *engine, struct slice topic, uint64_t count);
/* As it was set, less those that were loaded and ready since, more those evicted. */
uint64_t engine_cold_ready(struct engine *engine, struct slice topic);
uint64_t engine_entries(const struct engine *engine);

/* ---- checkpoint ---- */

/* What is true of a job where its record does not say so. malloc'd; engine_changed_free. */
struct engine_changed;
void engine_changed_free(struct engine_changed *changed);
/* Overlays it on the decoded record, whose error, history and consumer then point into it. [any thread] */
void engine_changed_apply(const struct engine_changed *changed, struct record *record);

/* One entry that a checkpoint must write: its record, its newest state, or the end of an attempt
 * that its record does not know lies in a log file before `before_file`, or its slot is in a run
 * for which is_victim says so. */
struct engine_item {
    enum job_section section;
    int64_t when_ms;
    uint64_t sequence;
    struct record_place place;
    uint32_t id;
    struct engine_changed *changed; /* NULL: the record is right as it is */
};
struct engine_collect {
    uint32_t at; /* start with 0 */
    uint32_t before_file;
    bool (*is_victim)(void *ctx, uint32_t run);
    /* False: out of memory, collecting ends; what is behind item->changed stays the engine's. Else
     * it is the owner's. */
    bool (*each)(void *ctx, const struct engine_item *item);
    void *ctx;
};
/* Looks at `steps` entries. 1: more to come, 0: the end, -ENOMEM. Entries added meanwhile may be
 * missed: their records lie in `before_file` or later. */
int engine_collect(struct engine *engine, struct engine_collect *collect, struct engine_now now,
                   size_t steps);

/* Asks for the memory a later engine_install will touch. */
void engine_install_soon(const struct engine *engine, uint32_t id);
/*
 * The item's record now lies in slot `place` of a run, in section `section`. True: it is the same job
 * still, in the place it had when collected (`old`), and from now on it lies in the new one; an old
 * slot is released. What changed after collecting was written to `before_file` or later and still
 * counts. False: gone or replaced; the owner clears the new slot.
 */
bool engine_install(struct engine *engine, uint32_t id, struct record_place old,
                    struct record_place place, enum job_section section, uint32_t before_file);
/* An item's record in a slot cannot be read, so it stays there; what has changed of it since is
 * written to the log once more, so that no older file is needed for it. An append. */
void engine_keep(struct engine *engine, uint32_t id, struct record_place place);
/* A slot of a victim that had no entry when collected lies elsewhere now: where it has one by now,
 * that one is told. Its record was copied as it was. Stored counts do not change. */
void engine_relocate(struct engine *engine, uint64_t key_low, struct record_place old,
                     struct record_place place);

/* Evicts unchanged entries in slots that nobody will want before keep_until_ms (inner clock), the
 * dead, and ready ones beyond `ready_max` of their topic; looks at `steps` from *at (start with 0).
 * True: the end was reached, and *at is 0 again. Never leased ones, nor those that were collected
 * and not yet installed. The owner does not call it while it installs: what was told its new slot
 * could not be found there yet. */
bool engine_evict_some(struct engine *engine, uint32_t *at, int64_t keep_until_ms,
                       uint64_t ready_max, struct engine_now now, size_t steps);

/* Sums over all topics, by section: living slots of runs, and those of them that have an entry. For
 * tests. */
void engine_stored_sum(const struct engine *engine, uint64_t stored[SECTIONS],
                       uint64_t loaded[SECTIONS]);
/* For the catalog: topics with anything stored. As engine_topic_next; `name` lives as long as the
 * topic. */
bool engine_stored_next(const struct engine *engine, uint32_t *at, struct slice *name,
                        uint64_t stored[SECTIONS], uint64_t *dead_bytes);

#endif
