/* depot_rig_checkpoint: checkpoints, with a shard's life between any two of their steps. */
#ifndef TARRY_TESTS_DEPOT_RIG_CHECKPOINT_H
#define TARRY_TESTS_DEPOT_RIG_CHECKPOINT_H

#include "depot_rig_helper.h"
#include "depot_rig_jobs.h"

#include <errno.h>
#include <stdlib.h>

/* ---- what the depot asks for ---- */

/* Encodes a job as the log has it: with the slot it replaced. */
static inline size_t rig_encode_logged(const struct rig_entry *entry, char into[2048])
{
    struct record record;
    char text[512];

    rig_record(entry->job, entry->version, 0, &record, text);
    record.from = entry->from;
    return record_encode(&record, into);
}

static inline int rig_read_log(void *ctx, struct record_place place, struct buffer *scratch,
                               struct slice *out)
{
    struct rig *rig = ctx;
    const struct rig_entry *entry = &rig->log[place.file - 1];
    char bytes[2048];
    size_t len;

    assert_true(entry->kind == RIG_PUSH);
    if (entry->job + 1 == rig->unreadable)
        return -EBADMSG;
    len = rig_encode_logged(entry, bytes);
    buffer_clear(scratch);
    buffer_append(scratch, bytes, len);
    *out = buffer_slice(scratch);
    return scratch->failed ? -ENOMEM : 0;
}

static inline void rig_apply(void *ctx, const void *changed, struct record *record)
{
    (void)ctx;
    record->job.attempt = *(const uint32_t *)changed;
}

/* ---- collecting ---- */

static inline bool rig_in_victim(const struct rig *rig, struct record_place place)
{
    const struct depot_run *run =
        record_place_is_run(place) ? depot_view_run(depot_view(rig->depot), record_place_run(place))
                                   : NULL;

    return run && run->is_victim;
}

/* Chooses jobs like the engine: those in the log before `before`, changed there, or in a victim and, by
 * chance, in memory. */
static inline bool rig_is_wanted(struct rig *rig, const struct rig_job *truth, uint32_t before)
{
    bool in_log = !record_place_is_run(truth->place);

    if (!truth->is_alive)
        return false;
    return (in_log && truth->place.file <= before) ||
           (truth->state_at && truth->state_at <= before) ||
           (rig_in_victim(rig, truth->place) && random_below(&rig->random, 2));
}

static inline struct depot_item rig_item_of(uint32_t job, const struct rig_job *truth)
{
    struct depot_item item = {.sequence = truth->version, .place = truth->place, .id = job + 1};
    struct record record;
    char text[512];
    int64_t when_ms;

    rig_record(job, truth->version, truth->attempt, &record, text);
    item.section = job_section_of_record(&record, 0, &when_ms) & 0xff;
    item.when_ms = (uint64_t)when_ms & 0xffffffffffff;
    if (truth->state_at) {
        uint32_t *changed = malloc(sizeof *changed);

        assert_non_null(changed);
        *changed = truth->attempt;
        item.changed = changed;
    }
    return item;
}

static inline void rig_collect(struct rig *rig, struct depot_build *build, uint32_t before)
{
    build->items = calloc(RIG_JOBS, sizeof *build->items);
    assert_non_null(build->items);
    build->cap = RIG_JOBS;
    for (uint32_t job = 0; job < RIG_JOBS; job++) {
        struct rig_job *truth = &rig->jobs[job];

        truth->item_version = 0;
        if (!rig_is_wanted(rig, truth, before))
            continue;
        build->items[build->count++] = rig_item_of(job, truth);
        truth->item_version = truth->version;
    }
}

static inline void rig_free_changed(struct depot_build *build)
{
    for (size_t i = 0; i < build->count; i++)
        free((void *)build->items[i].changed);
}

/* ---- installing ---- */

static inline bool rig_same_place(struct record_place a, struct record_place b)
{
    return a.file == b.file && a.at == b.at;
}

static inline uint32_t rig_job_of(uint64_t key_low)
{
    for (uint32_t job = 0; job < RIG_JOBS; job++)
        if (rig_key(job).low == key_low)
            return job;
    fail();
    return 0;
}

static inline void rig_settle_moved(struct rig *rig, struct rig_job *truth,
                                    struct record_place from, struct record_place to)
{
    assert_true(rig_same_place(depot_moved(rig->depot, from), to));
    assert_true(truth->is_alive && rig_same_place(truth->place, from));
    truth->place = to;
}

static inline void rig_settle_written(struct rig *rig, struct rig_job *truth,
                                      struct record_place from, struct record_place to,
                                      uint32_t before)
{
    enum job_section section;

    if (record_place_is_run(from) && !rig_in_victim(rig, from))
        assert_int_equal(depot_release(rig->depot, from, &section), DEPOT_RELEASED);
    truth->place = to;
    if (truth->state_at <= before)
        truth->state_at = 0;
}

/* Moves one item to its new place, like engine_install and engine_relocate. */
static inline void rig_settle(struct rig *rig, const struct depot_build *build, size_t i,
                              uint32_t before)
{
    const struct depot_item *item = &build->items[i];
    struct record_place to = depot_build_place(build, i);
    uint32_t job = item->id ? item->id - 1 : rig_job_of(item->key_low);
    struct rig_job *truth = &rig->jobs[job];
    enum job_section section;

    assert_true(item->key_low == rig_key(job).low);
    if (item->id == 0 && depot_is_alive(rig->depot, item->place))
        rig_settle_moved(rig, truth, item->place, to);
    else if (item->id && truth->is_alive && truth->version == truth->item_version &&
             rig_same_place(truth->place, item->place))
        rig_settle_written(rig, truth, item->place, to, before);
    else
        depot_release(rig->depot, to, &section);
}

static inline void rig_install(struct rig *rig, struct depot_build *build, uint32_t before)
{
    rig->kept += build->kept;
    assert_true(depot_install(rig->depot, build));
    depot_check(rig->depot);
    for (uint32_t i = 0; i < build->slots; i++) {
        if (random_below(&rig->random, 16) == 0)
            rig_live(rig, 2);
        rig_settle(rig, build, i, before);
    }
    depot_check(rig->depot);
    assert_true(depot_installed(rig->depot, build));
}

/* ---- committing ---- */

static inline int rig_commit(struct rig *rig, uint32_t before, bool *fatal)
{
    const struct catalog_topic topic = {.name = slice_of("orders"), .stored = {1, 2}};
    struct catalog catalog;
    int result = depot_snapshot(rig->depot, 1, before, &topic, 1, 5, 6, &catalog);

    *fatal = false;
    if (result < 0)
        return result;
    rig->log_synced = rig->log_count; /* waited for */
    rig_live(rig, 5);
    result = rig_let_help(rig, rig_do_commit, &(struct rig_committing){&catalog, fatal});
    rig_live(rig, 5);
    if (result < 0) {
        catalog_fini(&catalog);
        return result;
    }
    depot_committed(rig->depot, &catalog);
    rig->log_first = before;
    depot_check(rig->depot);
    rig_let_help(rig, rig_do_tidy, NULL);
    depot_check(rig->depot);
    return 0;
}

/* Runs until it has ended or its outcome is unknown. */
static inline int rig_commit_well(struct rig *rig, uint32_t before)
{
    bool fatal;
    int result = rig_commit(rig, before, &fatal);

    for (int i = 0; result < 0 && !fatal && !rig->sim->is_down && i < 3; i++)
        result = rig_commit(rig, before, &fatal);
    return result;
}

/* ---- all of it ---- */

static inline int rig_build(struct rig *rig, struct depot_build *build, uint32_t before)
{
    int result;

    assert_int_equal(depot_plan(rig->depot, build), 0);
    rig->victims += build->victim_count;
    rig_live(rig, 10);
    rig_collect(rig, build, before);
    rig_live(rig, 20);
    result = rig_let_help(rig, rig_do_build, build);
    rig_free_changed(build);
    rig_live(rig, 20);
    assert_true(result == 0 || *build->error);
    return result == 0 && build->failed > 0 ? -EBADMSG : result;
}

static inline void rig_give_up(struct rig *rig, struct depot_build *build)
{
    depot_abandon(rig->depot, build);
    rig->gave_up++;
    depot_tidy(rig->depot);
    depot_check(rig->depot);
}

static inline int rig_checkpoint(struct rig *rig)
{
    struct depot_build build = {.read_log = rig_read_log, .apply = rig_apply, .ctx = rig};
    uint32_t log = rig->log_count - rig->log_first;
    uint32_t before = rig->log_count - (uint32_t)random_below(&rig->random, log / 2 + 1);
    int result = rig_build(rig, &build, before);

    if (result < 0) {
        rig_give_up(rig, &build);
    } else {
        rig_install(rig, &build, before);
        rig_live(rig, 10);
        result = rig_commit_well(rig, before);
        rig->checkpoints += result == 0;
    }
    depot_build_fini(&build); /* where the commit failed the depot is closed next */
    return result;
}

#endif
