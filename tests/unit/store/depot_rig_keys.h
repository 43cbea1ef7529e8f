/* depot_rig_keys: tables of keys: merged in steps, with checkpoints between them, and asked. */
#ifndef TARRY_TESTS_DEPOT_RIG_KEYS_H
#define TARRY_TESTS_DEPOT_RIG_KEYS_H

#include "depot_rig_checkpoint.h"
#include "depot_rig_helper.h"

/* Checkpoints between two steps of a merge of tables, at most. */
enum { RIG_BETWEEN_MAX = 2 };

/* Merges in steps, with whole checkpoints between them: they rewrite, or let go, runs whose keys are
 * being merged. 0; negative: the merge has ended. */
static inline int rig_merge_steps(struct rig *rig, struct rig_merging *merging)
{
    int result, between = 0;

    while ((result = rig_let_help(rig, rig_do_merge, merging)) == 1) {
        rig_live(rig, 5);
        rig->merge_steps++;
        if (between >= RIG_BETWEEN_MAX || random_below(&rig->random, 3))
            continue;
        if (random_below(&rig->random, 4) == 0)
            for (uint32_t job = 0; job < RIG_JOBS; job++)
                rig_finish(rig, job);
        result = rig_checkpoint(rig);
        if (result < 0)
            return result;
        between++;
        rig->between_steps++;
    }
    return result;
}

/* Merges tables of keys. Returns 1 if there was something to merge. */
static inline int rig_merge(struct rig *rig)
{
    struct rig_merging merging = {.step = UINT64_MAX};
    int result;

    if (!depot_keys_wanted(rig->depot, &merging.merge))
        return 0;
    if (random_below(&rig->random, 4))
        merging.step = 20 + random_below(&rig->random, 200);
    rig_live(rig, 5);
    result = rig_merge_steps(rig, &merging);
    if (result == 0) /* else a checkpoint between two steps may have broken */
        rig_live(rig, 5);
    if (result < 0 || random_below(&rig->random, 8) == 0) {
        depot_keys_abandon(rig->depot, &merging.merge);
        rig->merges_given_up++;
        return result < 0 ? result : 1;
    }
    assert_true(depot_keys_install(rig->depot, &merging.merge));
    depot_check(rig->depot);
    rig_live(rig, 5);
    result = rig_commit_well(rig, rig->log_first);
    rig->merges += result == 0;
    return result < 0 ? result : 1;
}

/* ---- by key ---- */

static inline void rig_find_one(struct rig *rig, const struct depot_view *view, uint32_t job,
                                struct buffer *records)
{
    const struct rig_job *truth = &rig->jobs[job];
    bool cold = truth->is_alive && record_place_is_run(truth->place);
    uint32_t version, attempt;
    struct depot_hit hit;

    assert_int_equal(depot_find(view, RIG_SEED, rig_key(job), records, &hit), cold);
    if (!cold)
        return;
    assert_true(depot_maybe(rig->depot, rig_key(job)));
    assert_true(rig_same_place(hit.place, truth->place));
    assert_int_equal(
        rig_judge(slice_make(records->at + hit.at, hit.place.bytes), &version, &attempt), job);
    assert_int_equal(version, truth->version);
}

static inline void rig_find_all(struct rig *rig)
{
    struct depot_view *view = depot_hold(rig->depot);
    struct buffer records;

    buffer_init(&records, 1 << 20);
    assert_int_equal(depot_load_filters(view), 0);
    for (uint32_t job = 0; job < RIG_JOBS; job++)
        rig_find_one(rig, view, job, &records);
    buffer_fini(&records);
    depot_let_go(view);
}

#endif
