/* depot_rig_jobs: jobs of which each change goes to the log first, as a shard makes them. */
#ifndef TARRY_TESTS_DEPOT_RIG_JOBS_H
#define TARRY_TESTS_DEPOT_RIG_JOBS_H

#include "base/random.h"
#include "support/sim_fs.h"

#include "depot_rig_record.h"

enum { RIG_LOG = 40000, RIG_ERROR_BYTES = 512 };

struct rig_entry {
    enum rig_kind { RIG_PUSH = 1, RIG_DONE, RIG_STATE } kind;
    uint32_t job, version, attempt;
    struct record_place from;
};

struct rig_job {
    bool is_alive;
    uint32_t version, attempt;
    struct record_place place; /* of its record */
    uint32_t state_at;         /* of its newest state in the log, plus 1; 0: it is in the record */
    uint32_t item_version;
};

struct rig {
    struct sim_fs *sim;
    struct depot_options options;
    struct depot *depot;
    char error[RIG_ERROR_BYTES];
    struct random random;
    struct rig_entry log[RIG_LOG];
    uint32_t log_count, log_first, log_synced;
    struct rig_job jobs[RIG_JOBS];
    bool has_helper;     /* helper work runs on a helper, while the owner continues */
    uint32_t unreadable; /* job whose record in the log cannot be read, plus 1 */
    uint64_t checkpoints, merges, gave_up, opened, victims, never_committed, kept;
    uint64_t merge_steps, between_steps, merges_given_up; /* merges in steps, checkpoints between */
};

static inline struct rig_entry *rig_append(struct rig *rig, enum rig_kind kind, uint32_t job)
{
    struct rig_entry *entry = &rig->log[rig->log_count++];

    assert_true(rig->log_count < RIG_LOG);
    *entry = (struct rig_entry){.kind = kind,
                                .job = job,
                                .version = rig->jobs[job].version,
                                .attempt = rig->jobs[job].attempt};
    if (record_place_is_run(rig->jobs[job].place))
        entry->from = rig->jobs[job].place;
    return entry;
}

static inline void rig_release(struct rig *rig, uint32_t job)
{
    struct record_place place = rig->jobs[job].place;
    enum job_section section;

    if (rig->jobs[job].is_alive && record_place_is_run(place)) {
        assert_true(depot_is_alive(rig->depot, place));
        assert_int_equal(depot_release(rig->depot, place, &section), DEPOT_RELEASED);
    }
    rig->jobs[job].place = (struct record_place){0};
}

static inline void rig_push(struct rig *rig, uint32_t job)
{
    char bytes[2048];
    struct rig_entry *entry = rig_append(rig, RIG_PUSH, job);

    rig_release(rig, job);
    entry->version = rig->jobs[job].version = rig->log_count;
    entry->attempt = 0;
    rig->jobs[job].attempt = 0;
    rig->jobs[job].is_alive = true;
    rig->jobs[job].state_at = 0;
    rig->jobs[job].place = (struct record_place){
        .file = rig->log_count, .bytes = (uint32_t)rig_encode(job, entry->version, 0, bytes)};
}

static inline void rig_finish(struct rig *rig, uint32_t job)
{
    if (!rig->jobs[job].is_alive)
        return;
    rig_append(rig, RIG_DONE, job);
    rig_release(rig, job);
    rig->jobs[job].is_alive = false;
    rig->jobs[job].state_at = 0;
}

static inline void rig_change(struct rig *rig, uint32_t job)
{
    if (!rig->jobs[job].is_alive)
        return;
    rig->jobs[job].attempt++;
    rig_append(rig, RIG_STATE, job);
    rig->jobs[job].state_at = rig->log_count;
}

static inline void rig_live_on(struct rig *rig, int changes)
{
    for (int i = 0; i < changes; i++) {
        uint32_t job = (uint32_t)random_below(&rig->random, RIG_JOBS);
        uint64_t what = random_below(&rig->random, 10);

        if (what < 4)
            rig_push(rig, job);
        else if (what < 8)
            rig_finish(rig, job);
        else
            rig_change(rig, job);
    }
}

static inline void rig_live(struct rig *rig, int changes)
{
    rig_live_on(rig, changes);
    depot_check(rig->depot);
}

#endif
