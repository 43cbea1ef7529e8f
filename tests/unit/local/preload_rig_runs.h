/* preload_rig_runs: checkpoints, eviction and restarts for the loader's rig. */
#ifndef TARRY_TESTS_PRELOAD_RIG_RUNS_H
#define TARRY_TESTS_PRELOAD_RIG_RUNS_H

#include "preload_rig.h"

/* ---- checkpoints, as local/checkpoint.c makes them, in one step ---- */

static inline int rig_read_log(void *ctx, struct record_place place, struct buffer *scratch,
                               struct slice *out)
{
    struct rig *rig = ctx;
    (void)scratch;
    *out = slice_make(rig->log.at + rig->offsets[place.at], place.bytes);
    return 0;
}

static inline void rig_apply(void *ctx, const void *changed, struct record *record)
{
    (void)ctx;
    engine_changed_apply(changed, record);
}

struct rig_collecting {
    struct rig *rig;
    struct depot_build *build;
};

static inline bool rig_each(void *ctx, const struct engine_item *item)
{
    struct depot_build *build = ((struct rig_collecting *)ctx)->build;
    if (build->count == build->cap) {
        build->cap = build->cap ? build->cap * 2 : 1024;
        build->items = realloc(build->items, build->cap * sizeof *build->items);
    }
    build->items[build->count++] =
        (struct depot_item){.when_ms = (uint64_t)item->when_ms & 0xffffffffffffu,
                            .section = item->section & 0xffu,
                            .sequence = item->sequence,
                            .place = item->place,
                            .id = item->id,
                            .changed = item->changed};
    return true;
}

static inline bool rig_is_victim(void *ctx, uint32_t number)
{
    struct rig *rig = ((struct rig_collecting *)ctx)->rig;
    const struct depot_run *run = depot_view_run(depot_view(rig->shard.depot), number);
    return run && run->is_victim;
}

static inline void rig_install(struct rig *rig, struct depot_build *build, size_t i,
                               uint32_t before_file)
{
    const struct depot_item *item = &build->items[i];
    struct record_place place = depot_build_place(build, i);
    enum job_section section = (enum job_section)item->section;
    if (!item->failed && item->id &&
        engine_install(rig->shard.engine, item->id, item->place, place, section, before_file))
        return;
    if (record_place_is_run(item->place) && depot_is_alive(rig->shard.depot, item->place))
        engine_relocate(rig->shard.engine, item->key_low, item->place, place);
    else
        depot_release(rig->shard.depot, place, &section);
}

static inline void rig_snapshot(struct rig *rig)
{
    struct catalog_topic topics[2000] = {0};
    struct catalog catalog = {0};
    uint32_t count = 0, at = 0;
    bool is_fatal;
    while (engine_stored_next(rig->shard.engine, &at, &topics[count].name, topics[count].stored,
                              &topics[count].dead_bytes, &topics[count].kept_bytes))
        count++;
    assert_int_equal(depot_snapshot(rig->shard.depot, rig->file, 1, topics, count, clock_inner_ms(),
                                    clock_wall_ms(), &catalog),
                     0);
    assert_int_equal(depot_commit(rig->shard.depot, &catalog, &is_fatal), 0);
    depot_committed(rig->shard.depot, &catalog);
    catalog_fini(&catalog);
}

/* Moves everything in the log to a run, or (`victims`) into one with the jobs that the depot rewrites.
 * `between` is called when the new run can be read, while the victims still exist. */
static inline void rig_checkpoint(struct rig *rig, void (*between)(struct rig *rig))
{
    struct depot_build build = {.read_log = rig_read_log, .apply = rig_apply, .ctx = rig};
    struct rig_collecting collecting = {.rig = rig, .build = &build};
    struct engine_collect collect = {.before_file = ++rig->file,
                                     .is_victim = rig_is_victim,
                                     .each = rig_each,
                                     .ctx = &collecting};
    assert_int_equal(depot_plan(rig->shard.depot, &build), 0);
    while (engine_collect(rig->shard.engine, &collect, rig_now(rig), 1000) == 1)
        ;
    if (depot_build(&build))
        fail_msg("%s", build.error);
    if (between)
        between(rig);
    assert_true(depot_install(rig->shard.depot, &build));
    for (size_t i = 0; i < build.count; i++) {
        engine_changed_free((struct engine_changed *)build.items[i].changed);
        rig_install(rig, &build, i, collect.before_file);
    }
    if (between)
        between(rig);
    assert_true(depot_installed(rig->shard.depot, &build));
    if (between)
        between(rig);
    rig_snapshot(rig);
    depot_build_fini(&build);
    depot_tidy(rig->shard.depot);
}

static inline void rig_evict(struct rig *rig)
{
    uint32_t at = 0;
    for (;;) {
        struct engine_now now = rig_now(rig);
        int64_t keep_ms = preload_keep_until_ms(rig->shard.preload, now);
        uint64_t ready_max = preload_ready_max(rig->shard.preload);
        if (engine_evict_some(rig->shard.engine, &at, keep_ms, ready_max, now, 5000))
            return;
    }
}

static inline void rig_replay(struct rig *rig, uint32_t at)
{
    size_t bytes =
        record_next(slice_make(rig->log.at + rig->offsets[at], rig->log.len - rig->offsets[at]));
    struct record record;
    struct record_place place = {.file = rig->file, .at = at, .bytes = (uint32_t)bytes};
    assert_true(record_decode(slice_make(rig->log.at + rig->offsets[at], bytes), &record));
    assert_true(engine_replay(rig->shard.engine, &record, place));
}

/* Restarts after a checkpoint: memory only holds leased jobs. */
static inline void rig_restart(struct rig *rig)
{
    rig_checkpoint(rig, NULL);
    uint32_t first = rig->records, at = 0;
    while (!engine_carry_topics(rig->shard.engine, &at, 100))
        ;
    uint32_t end = rig->records;
    worker_free(rig->shard.scout);
    preload_free(rig->shard.preload);
    engine_free(rig->shard.engine);
    depot_close(rig->shard.depot);
    rig_open_depot(rig);
    rig_open_engine(rig);
    const struct catalog *catalog = depot_catalog(rig->shard.depot);
    for (uint32_t i = 0; i < catalog->topic_count; i++)
        assert_true(engine_stored_begin(rig->shard.engine, catalog->topics[i].name,
                                        catalog->topics[i].stored, catalog->topics[i].dead_bytes,
                                        catalog->topics[i].kept_bytes));
    for (uint32_t i = first; i < end; i++)
        rig_replay(rig, i);
    engine_start(rig->shard.engine, 2);
    rig->shard.scout = worker_new(rig->reactor, "scout");
    rig_open_preload(rig);
    rig->entries_most = 0;
}

#endif
