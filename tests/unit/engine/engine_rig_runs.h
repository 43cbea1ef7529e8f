/* engine_rig_runs: what store/depot.h and store/wal.h promise an engine, in memory and as plain as
 * can be: a log in files, runs with a bit for each slot, and what loads from them. Its checkpoints
 * and crashes: engine_rig_checkpoint.h. */
#ifndef TARRY_TESTS_ENGINE_RIG_RUNS_H
#define TARRY_TESTS_ENGINE_RIG_RUNS_H

#include "engine/stored.h"
#include "engine_rig.h"

enum { RIG_FILES = 4096, RIG_RUNS = 1024, RIG_HASH_SEED = 7 };

struct rig_record {
    char *bytes;
    size_t len;
};

struct rig_file {
    struct rig_record *records;
    uint32_t count, cap;
};

struct rig_slot {
    struct rig_record record;
    struct hash128 key;
    enum job_section section;
    int64_t when_ms;
    uint64_t sequence;
    bool alive;
    bool moves;                /* it is in a victim and goes to `moved` */
    struct record_place moved; /* in the new run */
};

struct rig_run {
    struct rig_slot *slots;
    uint32_t count;
    bool there, is_victim, is_new;
};

struct rig_topic {
    char name[JOB_TOPIC_BYTES_MAX];
    size_t bytes;
    uint64_t stored[SECTIONS], dead_bytes, kept_bytes;
};

struct rig_catalog {
    uint32_t log_first, next_run;
    bool there[RIG_RUNS];
    bool *alive[RIG_RUNS];
    struct rig_topic topics[16];
    size_t topic_count;
};

struct rig_item {
    struct engine_item item;
    struct rig_slot slot;
};

enum rig_stage {
    RIG_IDLE,
    RIG_COLLECTING,
    RIG_BUILDING,
    RIG_INSTALLING,
    RIG_CARRYING,
    RIG_SNAPSHOT,
    RIG_COMMIT
};

struct rig {
    struct engine *engine;
    struct rig_file files[RIG_FILES];
    uint32_t file; /* the one written to, from 1 */
    struct rig_run runs[RIG_RUNS];
    uint32_t run_top, next_run;
    struct rig_catalog catalog, pending;
    bool replaying;
    /* the checkpoint under way */
    enum rig_stage stage;
    struct engine_collect collect;
    struct rig_item *items;
    size_t item_count, item_cap, installed;
    uint32_t topics_at;
    size_t reported_unknown, reported_stubs; /* what a test has met */
};

static inline struct record rig_decode(struct rig_record bytes)
{
    struct record record;
    assert_true(record_decode(slice_make(bytes.bytes, bytes.len), &record));
    return record;
}

static inline struct rig_record rig_encode(const struct record *record)
{
    struct rig_record bytes = {.bytes = malloc(record_bytes_max(record))};
    bytes.len = record_encode(record, bytes.bytes);
    return bytes;
}

/* ---- the log ---- */

static inline struct record_place rig_append(void *ctx, const struct record *record)
{
    struct rig *rig = ctx;
    struct rig_file *file = &rig->files[rig->file];
    assert_false(rig->replaying);
    if (file->count == file->cap) {
        file->cap = file->cap ? file->cap * 2 : 16;
        file->records = realloc(file->records, file->cap * sizeof *file->records);
    }
    struct rig_record bytes = rig_encode(record);
    file->records[file->count] = bytes;
    return (struct record_place){
        .file = rig->file, .at = file->count++, .bytes = (uint32_t)bytes.len};
}

static inline void rig_drop_file(struct rig *rig, uint32_t number)
{
    struct rig_file *file = &rig->files[number];
    for (uint32_t i = 0; i < file->count; i++)
        free(file->records[i].bytes);
    free(file->records);
    *file = (struct rig_file){0};
}

/* ---- runs ---- */

static inline struct rig_slot *rig_slot(struct rig *rig, struct record_place place)
{
    struct rig_run *run = &rig->runs[record_place_run(place)];
    assert_true(record_place_is_run(place) && run->there && place.at < run->count);
    return &run->slots[place.at];
}

static inline struct record_place rig_place(uint32_t run, uint32_t at, struct rig_record record)
{
    return (struct record_place){
        .file = RECORD_IN_RUN | run, .at = at, .bytes = (uint32_t)record.len};
}

static inline enum engine_slot rig_release(void *ctx, struct record_place place,
                                           enum job_section *section)
{
    struct rig *rig = ctx;
    uint32_t number = record_place_run(place);
    if (rig->replaying && number >= rig->next_run) {
        rig->reported_unknown++;
        return SLOT_UNKNOWN;
    }
    if (!rig->runs[number].there)
        return SLOT_WAS_DEAD;
    struct rig_slot *slot = rig_slot(rig, place);
    *section = slot->section;
    if (!slot->alive)
        return SLOT_WAS_DEAD;
    assert_int_equal(place.bytes, slot->record.len);
    slot->alive = false;
    return SLOT_RELEASED;
}

/* The record, wherever it lies. */
static inline struct rig_record rig_read(struct rig *rig, struct record_place place)
{
    if (record_place_is_run(place))
        return rig_slot(rig, place)->record;
    assert_true(place.at < rig->files[place.file].count);
    return rig->files[place.file].records[place.at];
}

/* Iterates over the live slots and their present places. Start with *run = *at = 0. */
static inline struct rig_slot *rig_next(struct rig *rig, uint32_t *run, uint32_t *at,
                                        struct record_place *place)
{
    for (; *run < RIG_RUNS; ++*run, *at = 0) {
        struct rig_run *in = &rig->runs[*run];
        while (in->there && !in->is_new && *at < in->count) {
            struct rig_slot *slot = &in->slots[(*at)++];
            if (!slot->alive)
                continue;
            *place = rig_place(*run, *at - 1, slot->record);
            if (!slot->moves)
                return slot;
            *place = slot->moved;
            slot = rig_slot(rig, *place);
            if (slot->alive)
                return slot;
        }
    }
    return NULL;
}

static inline struct rig_slot *rig_find(struct rig *rig, struct hash128 key,
                                        struct record_place *place)
{
    struct rig_slot *slot, *found = NULL;
    struct record_place at_place;
    for (uint32_t run = 0, at = 0; (slot = rig_next(rig, &run, &at, &at_place));)
        if (slot->key.low == key.low && slot->key.high == key.high) {
            assert_true(!found || found == slot); /* a job is in one slot */
            found = slot;
            *place = at_place;
        }
    return found;
}

static inline void rig_drop_run(struct rig *rig, uint32_t number)
{
    struct rig_run *run = &rig->runs[number];
    for (uint32_t i = 0; i < run->count; i++)
        free(run->slots[i].record.bytes);
    free(run->slots);
    *run = (struct rig_run){0};
}

/* ---- the engine over it ---- */

static inline void rig_reported(void *ctx, struct slice topic)
{
    (void)ctx;
    (void)topic;
}

static inline struct engine *rig_open(struct rig *rig, struct engine_now now)
{
    struct engine_options options = {.sink = {.append = rig_append,
                                              .release_slot = rig_release,
                                              .ready = rig_reported,
                                              .died = rig_reported,
                                              .ctx = rig},
                                     .hash_seed = RIG_HASH_SEED,
                                     .body_bytes_max = 1000,
                                     .topics_max = 10,
                                     .random_seed = 1,
                                     .now = now};
    return engine_new(&options);
}

static inline void rig_load(struct rig *rig, struct rig_slot *slot, struct record_place place,
                            struct engine_now now)
{
    struct record record = rig_decode(slot->record);
    engine_load(rig->engine, &record, place, now);
}

/* Loads what comes up by `until_ms`, or (all) everything. */
static inline void rig_load_due(struct rig *rig, int64_t until_ms, bool all, struct engine_now now)
{
    struct rig_slot *slot;
    struct record_place place;
    for (uint32_t run = 0, at = 0; (slot = rig_next(rig, &run, &at, &place));) {
        int64_t when_ms = slot->when_ms - (job_section_is_wall(slot->section) ? now.skew_ms : 0);
        if (all || slot->section == SECTION_LEASED ||
            (slot->section != SECTION_DEAD && when_ms <= until_ms))
            rig_load(rig, slot, place, now);
    }
}

static inline void rig_load_key(struct rig *rig, struct hash128 key, struct engine_now now)
{
    struct record_place place;
    struct rig_slot *slot = engine_knows(rig->engine, key) ? NULL : rig_find(rig, key, &place);
    if (slot)
        rig_load(rig, slot, place, now);
}

#endif
