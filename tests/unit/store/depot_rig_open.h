/* depot_rig_open: openings. The log is replayed over the depot; then both must agree. */
#ifndef TARRY_TESTS_DEPOT_RIG_OPEN_H
#define TARRY_TESTS_DEPOT_RIG_OPEN_H

#include "depot_rig_jobs.h"

#include <stdlib.h>

/* The content found by an opening. */
struct rig_found {
    struct record_place places[RIG_JOBS]; /* alive slots; without bytes: no slot */
    uint32_t versions[RIG_JOBS], attempts[RIG_JOBS];
    uint32_t in_log[RIG_JOBS], states[RIG_JOBS]; /* newest push and state in the log, plus 1 */
};

/* ---- what is in the depot ---- */

static inline void rig_find_slot(struct rig *rig, struct record_place place, struct buffer *scratch,
                                 struct rig_found *out)
{
    uint32_t job, version, attempt;
    struct slice bytes;

    assert_int_equal(depot_read(depot_view(rig->depot), place, true, scratch, &bytes), 0);
    job = rig_judge(bytes, &version, &attempt);
    assert_int_equal(out->places[job].bytes, 0); /* no job has two */
    place.bytes = (uint32_t)bytes.len;
    out->places[job] = place;
    out->versions[job] = version;
    out->attempts[job] = attempt;
}

static inline void rig_find_slots_of(struct rig *rig, const struct depot_run *run,
                                     struct buffer *scratch, struct rig_found *out)
{
    for (uint32_t slot = 0; slot < run->alive.slots; slot++) {
        struct record_place place = {.file = run->number | RECORD_IN_RUN, .at = slot};

        if (depot_is_alive(rig->depot, place))
            rig_find_slot(rig, place, scratch, out);
    }
}

static inline void rig_find_slots(struct rig *rig, struct rig_found *out)
{
    const struct depot_view *view = depot_view(rig->depot);
    struct buffer scratch;

    buffer_init(&scratch, 1 << 20);
    for (uint32_t i = 0; i < view->run_count; i++)
        if (!view->runs[i]->moved)
            rig_find_slots_of(rig, view->runs[i], &scratch, out);
    buffer_fini(&scratch);
}

/* ---- replay ---- */

static inline void rig_replay_end(struct rig *rig, struct rig_found *found,
                                  const struct rig_entry *entry)
{
    struct record_place *place = &found->places[entry->job];
    enum job_section section;

    if (entry->from.bytes == 0)
        return;
    if (depot_release(rig->depot, entry->from, &section) == DEPOT_NEVER_COMMITTED) {
        rig->never_committed++;
        if (place->bytes)
            depot_release(rig->depot, *place, &section);
    }
    if (!depot_is_alive(rig->depot, *place))
        place->bytes = 0;
}

static inline void rig_replay_log(struct rig *rig, struct rig_found *found)
{
    rig->log_first = (uint32_t)depot_catalog(rig->depot)->log_first_sequence;
    for (uint32_t at = rig->log_first; at < rig->log_count; at++) {
        const struct rig_entry *entry = &rig->log[at];

        if (entry->kind == RIG_STATE) {
            found->states[entry->job] = at + 1;
            continue;
        }
        rig_replay_end(rig, found, entry);
        found->in_log[entry->job] = entry->kind == RIG_PUSH ? at + 1 : 0;
        found->states[entry->job] = 0;
    }
}

/* Checks that a job is exactly in its place, once, in its last state. */
static inline void rig_judge_job(struct rig *rig, const struct rig_found *found, uint32_t job)
{
    const struct record_place place = found->places[job];
    uint32_t in_log = found->in_log[job], state = found->states[job];
    struct rig_job *truth = &rig->jobs[job];
    char bytes[2048];

    assert_int_equal((place.bytes > 0) + (in_log > 0), truth->is_alive);
    truth->state_at = state;
    truth->place = place;
    if (!truth->is_alive)
        return;
    assert_int_equal(in_log ? rig->log[in_log - 1].version : found->versions[job], truth->version);
    if (state)
        assert_int_equal(rig->log[state - 1].attempt, truth->attempt);
    else
        assert_int_equal(in_log ? 0 : found->attempts[job], truth->attempt);
    if (in_log)
        truth->place = (struct record_place){
            .file = in_log, .bytes = (uint32_t)rig_encode(job, truth->version, 0, bytes)};
}

/* Replays the log over the depot; then both match the history. */
static inline void rig_replay(struct rig *rig)
{
    struct rig_found *found = calloc(1, sizeof *found);

    assert_non_null(found);
    rig_find_slots(rig, found);
    rig_replay_log(rig, found);
    for (uint32_t job = 0; job < RIG_JOBS; job++)
        rig_judge_job(rig, found, job);
    free(found);
    depot_check(rig->depot);
}

/* Loses the part of the log that a crash may lose, and so of the truth. */
static inline void rig_lose(struct rig *rig)
{
    rig->log_count =
        rig->log_synced +
        (uint32_t)random_below(&rig->random, (uint64_t)rig->log_count - rig->log_synced + 1);
    memset(rig->jobs, 0, sizeof rig->jobs);
    for (uint32_t at = 0; at < rig->log_count; at++) {
        struct rig_job *job = &rig->jobs[rig->log[at].job];

        job->is_alive = rig->log[at].kind != RIG_DONE;
        job->version = rig->log[at].version;
        job->attempt = rig->log[at].attempt;
    }
}

static inline int rig_open(struct rig *rig)
{
    int result = depot_open(&rig->options, &rig->depot, rig->error, sizeof rig->error);

    if (result < 0) {
        rig->depot = NULL;
        return result;
    }
    rig->opened++;
    rig_replay(rig);
    depot_remove_orphans(rig->depot);
    depot_forget_catalog(rig->depot);
    return 0;
}

/* ---- the rig ---- */

static inline void rig_init(struct rig *rig, struct sim_fs *sim, uint64_t seed)
{
    memset(rig, 0, sizeof *rig);
    rig->sim = sim;
    rig->random.state = seed;
    rig->options = (struct depot_options){.fs = &sim->fs,
                                          .dir = "shard",
                                          .hash_seed = RIG_SEED,
                                          .seed = 5,
                                          .slack_bytes = 60000,
                                          .small_run_bytes = 6000,
                                          .punch_bytes = 8192,
                                          .keys_fan = 3};
}

#endif
