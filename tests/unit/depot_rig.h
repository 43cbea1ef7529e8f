/*
 * depot_rig: what a shard does with its depot, in small, and a judge of what comes back.
 *
 * Its log is an array, of which a crash may lose what no commit of the catalog had to wait for.
 * Jobs are pushed, replaced, changed and finished by chance, between the steps of checkpoints too.
 * After every opening the log is replayed over the depot as the design says, and what is alive must
 * be just what was pushed and not finished: each body, each attempt. Include after cmocka.h.
 */
#ifndef TARRY_TESTS_DEPOT_RIG_H
#define TARRY_TESTS_DEPOT_RIG_H

#include "base/random.h"
#include "store/depot.h"
#include "support/sim_fs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Checkpoints between two steps of a merge of tables, at most. */
enum { RIG_BETWEEN_MAX = 2 };

enum { RIG_JOBS = 400, RIG_LOG = 40000, RIG_SEED = 7, RIG_ERROR_BYTES = 512 };

struct rig_entry {
    enum rig_kind { RIG_PUSH = 1, RIG_DONE, RIG_STATE } kind;
    uint32_t job, version, attempt;
    struct record_place from;
};

struct rig_job {
    bool is_alive;
    uint32_t version, attempt;
    struct record_place place; /* of its record */
    uint32_t state_at;         /* of its newest state in the log, plus 1; 0: the record says it */
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
    bool has_helper;     /* what is a helper's is done by one, while the owner goes on */
    uint32_t unreadable; /* job whose record in the log cannot be read, plus 1 */
    uint64_t checkpoints, merges, gave_up, opened, victims, never_committed, kept;
    uint64_t merge_steps, between_steps, merges_given_up; /* merges in steps, checkpoints between */
};

/* ---- records ---- */

static inline uint64_t rig_mix(uint32_t job, uint32_t version)
{
    struct random random = {.state = (uint64_t)job << 32 | version};

    return random_next(&random);
}

static inline void rig_record(uint32_t job, uint32_t version, uint32_t attempt,
                              struct record *record, char text[512])
{
    static const char *const topics[] = {"orders", "mail", "a.rather-long_topic"};
    uint64_t mix = rig_mix(job, version);
    int id = snprintf(text, 64, "job-%u", job);
    int body = snprintf(text + 64, 64, "%u:%u:", job, version);
    size_t more = mix >> 40 & 255;

    memset(text + 64 + body, 'x', more);
    *record = (struct record){.kind = RECORD_JOB,
                              .origin = RECORD_PUSHED,
                              .job = {.topic = slice_of(topics[job % 3]),
                                      .id = slice_make(text, (size_t)id),
                                      .body = slice_make(text + 64, (size_t)body + more),
                                      .state = mix % 20 == 0 ? JOB_DEAD : JOB_DELAYED,
                                      .due_is_wall = mix % 7 == 0,
                                      .priority = JOB_PRIORITY,
                                      .attempt = attempt,
                                      .due_ms = (int64_t)(mix >> 20 & 0xfffff),
                                      .first_due_ms = (int64_t)(mix >> 20 & 0xfffff),
                                      .sequence = (uint64_t)version}};
}

/* As the log has it: with the slot it replaced. */
static inline size_t rig_encode_logged(const struct rig_entry *entry, char into[2048])
{
    struct record record;
    char text[512];

    rig_record(entry->job, entry->version, 0, &record, text);
    record.from = entry->from;
    return record_encode(&record, into);
}

static inline size_t rig_encode(uint32_t job, uint32_t version, uint32_t attempt, char into[2048])
{
    struct record record;
    char text[512];

    rig_record(job, version, attempt, &record, text);
    assert_true(record_bytes_max(&record) <= 2048);
    return record_encode(&record, into);
}

static inline struct hash128 rig_key(uint32_t job)
{
    struct record record;
    char text[512];

    rig_record(job, 0, 0, &record, text);
    return hash_pair(record.job.topic, record.job.id, RIG_SEED);
}

/* Whose it is; the record must be whole. */
static inline uint32_t rig_judge(struct slice bytes, uint32_t *version, uint32_t *attempt)
{
    struct record record, wanted;
    char text[512], body[512];
    unsigned job;

    assert_true(record_decode(bytes, &record) && record.kind == RECORD_JOB);
    assert_true(record.job.body.len < sizeof body);
    memcpy(body, record.job.body.at, record.job.body.len);
    body[record.job.body.len] = '\0'; /* a record ends without one, maybe at a page's end */
    assert_int_equal(sscanf(body, "%u:%u:", &job, version), 2);
    assert_true(job < RIG_JOBS);
    rig_record(job, *version, record.job.attempt, &wanted, text);
    assert_true(slice_equals(record.job.body, wanted.job.body));
    assert_true(slice_equals(record.job.id, wanted.job.id));
    assert_true(slice_equals(record.job.topic, wanted.job.topic));
    assert_true(record.from.bytes == 0 && record.job.due_ms == wanted.job.due_ms);
    *attempt = record.job.attempt;
    return job;
}

/* ---- what happens to jobs ---- */

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
    enum job_part part;

    if (rig->jobs[job].is_alive && record_place_is_run(place)) {
        assert_true(depot_is_alive(rig->depot, place));
        assert_int_equal(depot_release(rig->depot, place, &part), DEPOT_RELEASED);
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

/* ---- helpers ---- */

struct rig_work {
    struct rig *rig;
    int (*work)(struct rig *rig, void *of);
    void *of;
    int result;
};

static inline void *rig_help(void *ctx)
{
    struct rig_work *work = ctx;

    work->result = work->work(work->rig, work->of);
    return NULL;
}

static inline int rig_let_help(struct rig *rig, int (*work)(struct rig *rig, void *of), void *of)
{
    struct rig_work help = {.rig = rig, .work = work, .of = of};
    pthread_t helper;

    if (!rig->has_helper)
        return work(rig, of);
    assert_int_equal(pthread_create(&helper, NULL, rig_help, &help), 0);
    for (int i = 0; i < 20; i++) {
        rig_live_on(rig, 1);
        depot_maybe(rig->depot, rig_key(0));
        depot_wants_checkpoint(rig->depot);
        depot_let_go(depot_hold(rig->depot));
        sched_yield();
    }
    assert_int_equal(pthread_join(helper, NULL), 0);
    return help.result;
}

static inline int rig_do_build(struct rig *rig, void *of)
{
    (void)rig;
    return depot_build(of);
}

struct rig_committing {
    struct catalog *catalog;
    bool *fatal;
};

static inline int rig_do_commit(struct rig *rig, void *of)
{
    struct rig_committing *committing = of;

    return depot_commit(rig->depot, committing->catalog, committing->fatal);
}

static inline int rig_do_tidy(struct rig *rig, void *of)
{
    (void)of;
    depot_tidy(rig->depot);
    return 0;
}

struct rig_merging {
    struct depot_keys_merge merge;
    uint64_t step; /* entries */
};

static inline int rig_do_merge(struct rig *rig, void *of)
{
    struct rig_merging *merging = of;

    return depot_keys_merge(rig->depot, &merging->merge, merging->step);
}

/* ---- opening ---- */

struct rig_slots {
    struct record_place places[RIG_JOBS];
    uint32_t versions[RIG_JOBS], attempts[RIG_JOBS];
    bool stub[RIG_JOBS];
};

/* Every alive slot, and that no job has two. */
static inline void rig_slots_of(struct rig *rig, struct rig_slots *out)
{
    const struct depot_view *view = depot_view(rig->depot);
    struct buffer scratch;

    memset(out, 0, sizeof *out);
    buffer_init(&scratch, 1 << 20);
    for (uint32_t i = 0; i < view->run_count; i++) {
        const struct depot_run *run = view->runs[i];

        if (run->moved)
            continue;
        for (uint32_t slot = 0; slot < run->alive.slots; slot++) {
            struct record_place place = {.file = run->number | RECORD_IN_RUN, .at = slot};
            struct slice bytes;
            uint32_t job, version, attempt;

            if (!depot_is_alive(rig->depot, place))
                continue;
            assert_int_equal(depot_read(view, place, true, &scratch, &bytes), 0);
            job = rig_judge(bytes, &version, &attempt);
            assert_int_equal(out->places[job].bytes, 0);
            place.bytes = (uint32_t)bytes.len;
            out->places[job] = place;
            out->versions[job] = version;
            out->attempts[job] = attempt;
        }
    }
    buffer_fini(&scratch);
}

static inline void rig_replay_end(struct rig *rig, struct rig_slots *slots,
                                  const struct rig_entry *entry)
{
    enum job_part part;
    enum depot_release result;

    if (entry->from.bytes == 0)
        return;
    result = depot_release(rig->depot, entry->from, &part);
    if (result == DEPOT_NEVER_COMMITTED) {
        rig->never_committed++;
        if (slots->places[entry->job].bytes)
            depot_release(rig->depot, slots->places[entry->job], &part);
    }
    if (!depot_is_alive(rig->depot, slots->places[entry->job]))
        slots->places[entry->job].bytes = 0;
}

/* The log over the depot; then both say the same as what happened. */
static inline void rig_replay(struct rig *rig)
{
    struct rig_slots *slots = malloc(sizeof *slots);
    uint32_t in_log[RIG_JOBS] = {0}, states[RIG_JOBS] = {0};

    assert_non_null(slots);
    rig_slots_of(rig, slots);
    rig->log_first = (uint32_t)depot_catalog(rig->depot)->log_first_sequence;
    for (uint32_t at = rig->log_first; at < rig->log_count; at++) {
        const struct rig_entry *entry = &rig->log[at];

        if (entry->kind == RIG_STATE) {
            states[entry->job] = at + 1;
            continue;
        }
        rig_replay_end(rig, slots, entry);
        in_log[entry->job] = entry->kind == RIG_PUSH ? at + 1 : 0;
        states[entry->job] = 0;
    }
    for (uint32_t job = 0; job < RIG_JOBS; job++) {
        struct rig_job *truth = &rig->jobs[job];
        bool in_slot = slots->places[job].bytes > 0;
        uint32_t attempt = in_slot ? slots->attempts[job] : 0;
        char bytes[2048];

        if (states[job])
            attempt = rig->log[states[job] - 1].attempt;
        assert_int_equal(in_slot + (in_log[job] > 0), truth->is_alive);
        truth->state_at = states[job];
        truth->place = slots->places[job];
        if (!truth->is_alive)
            continue;
        assert_int_equal(in_slot ? slots->versions[job] : rig->log[in_log[job] - 1].version,
                         truth->version);
        assert_int_equal(attempt, truth->attempt);
        if (!in_slot)
            truth->place = (struct record_place){
                .file = in_log[job], .bytes = (uint32_t)rig_encode(job, truth->version, 0, bytes)};
    }
    free(slots);
    depot_check(rig->depot);
}

/* What a crash leaves of the log, and so of the truth. */
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
    depot_forget_catalog(rig->depot);
    return 0;
}

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

/* ---- checkpoints ---- */

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

static inline bool rig_in_victim(const struct rig *rig, struct record_place place)
{
    const struct depot_run *run =
        record_place_is_run(place) ? depot_view_run(depot_view(rig->depot), record_place_run(place))
                                   : NULL;

    return run && run->is_victim;
}

/* As the engine: what lies in the log before `before`, changed there, or in a victim and, by
 * chance, in memory. */
static inline void rig_collect(struct rig *rig, struct depot_build *build, uint32_t before)
{
    build->items = calloc(RIG_JOBS, sizeof *build->items);
    assert_non_null(build->items);
    build->cap = RIG_JOBS;
    for (uint32_t job = 0; job < RIG_JOBS; job++) {
        struct rig_job *truth = &rig->jobs[job];
        bool in_log = !record_place_is_run(truth->place);
        struct depot_item *item = &build->items[build->count];
        struct record record;
        char text[512];
        int64_t when_ms;

        truth->item_version = 0;
        if (!truth->is_alive)
            continue;
        if (!(in_log && truth->place.file <= before) &&
            !(truth->state_at && truth->state_at <= before) &&
            !(rig_in_victim(rig, truth->place) && random_below(&rig->random, 2)))
            continue;
        rig_record(job, truth->version, truth->attempt, &record, text);
        *item = (struct depot_item){.part = job_part_of_record(&record, 0, &when_ms) & 0xff,
                                    .sequence = truth->version,
                                    .place = truth->place,
                                    .id = job + 1};
        item->when_ms = (uint64_t)when_ms & 0xffffffffffff;
        if (truth->state_at) {
            uint32_t *changed = malloc(sizeof *changed);

            assert_non_null(changed);
            *changed = truth->attempt;
            item->changed = changed;
        }
        truth->item_version = truth->version;
        build->count++;
    }
}

static inline void rig_free_changed(struct depot_build *build)
{
    for (size_t i = 0; i < build->count; i++)
        free((void *)build->items[i].changed);
}

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

/* One item goes over: as engine_install and engine_relocate. */
static inline void rig_settle(struct rig *rig, const struct depot_build *build, size_t i,
                              uint32_t before)
{
    const struct depot_item *item = &build->items[i];
    struct record_place to = depot_build_place(build, i);
    uint32_t job = item->id ? item->id - 1 : rig_job_of(item->key_low);
    struct rig_job *truth = &rig->jobs[job];
    enum job_part part;

    assert_true(item->key_low == rig_key(job).low);
    if (item->id == 0 && depot_is_alive(rig->depot, item->place)) {
        assert_true(rig_same_place(depot_moved(rig->depot, item->place), to));
        assert_true(truth->is_alive && rig_same_place(truth->place, item->place));
        truth->place = to;
        return;
    }
    if (item->id && truth->is_alive && truth->version == truth->item_version &&
        rig_same_place(truth->place, item->place)) {
        if (record_place_is_run(item->place) && !rig_in_victim(rig, item->place))
            assert_int_equal(depot_release(rig->depot, item->place, &part), DEPOT_RELEASED);
        truth->place = to;
        if (truth->state_at <= before)
            truth->state_at = 0;
        return;
    }
    depot_release(rig->depot, to, &part);
}

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

/* Until it is through or nobody knows what counts. */
static inline int rig_commit_well(struct rig *rig, uint32_t before)
{
    bool fatal;
    int result = rig_commit(rig, before, &fatal);

    for (int i = 0; result < 0 && !fatal && !rig->sim->is_down && i < 3; i++)
        result = rig_commit(rig, before, &fatal);
    return result;
}

static inline int rig_checkpoint(struct rig *rig)
{
    struct depot_build build = {.read_log = rig_read_log, .apply = rig_apply, .ctx = rig};
    uint32_t log = rig->log_count - rig->log_first;
    uint32_t before = rig->log_count - (uint32_t)random_below(&rig->random, log / 2 + 1);
    int result = depot_plan(rig->depot, &build);

    assert_int_equal(result, 0);
    rig->victims += build.victim_count;
    rig_live(rig, 10);
    rig_collect(rig, &build, before);
    rig_live(rig, 20);
    result = rig_let_help(rig, rig_do_build, &build);
    rig_free_changed(&build);
    rig_live(rig, 20);
    if (result < 0 || build.failed > 0) {
        assert_true(result == 0 || *build.error);
        depot_abandon(rig->depot, &build);
        depot_build_fini(&build);
        rig->gave_up++;
        depot_tidy(rig->depot);
        depot_check(rig->depot);
        return result < 0 ? result : -EBADMSG;
    }
    rig->kept += build.kept;
    assert_true(depot_install(rig->depot, &build));
    depot_check(rig->depot);
    for (uint32_t i = 0; i < build.slots; i++) {
        if (random_below(&rig->random, 16) == 0)
            rig_live(rig, 2);
        rig_settle(rig, &build, i, before);
    }
    depot_check(rig->depot);
    assert_true(depot_installed(rig->depot, &build));
    rig_live(rig, 10);
    result = rig_commit_well(rig, before);
    rig->checkpoints += result == 0;
    depot_build_fini(&build); /* where it failed the depot is closed next */
    return result;
}

/* Whole checkpoints come between two steps of it: they write anew, or let go, runs whose keys are
 * being merged. 0; negative: it is over. */
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

/* 1: there was one. */
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
    if (result ==
        0) /* else the depot is closed next: a checkpoint between two steps may have broken */
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

static inline void rig_find_all(struct rig *rig)
{
    struct depot_view *view = depot_hold(rig->depot);
    struct buffer records;

    buffer_init(&records, 1 << 20);
    assert_int_equal(depot_load_filters(view), 0);
    for (uint32_t job = 0; job < RIG_JOBS; job++) {
        const struct rig_job *truth = &rig->jobs[job];
        bool far = truth->is_alive && record_place_is_run(truth->place);
        struct depot_hit hit;
        uint32_t version, attempt;
        int found = depot_find(view, RIG_SEED, rig_key(job), &records, &hit);

        assert_int_equal(found, far);
        if (!far)
            continue;
        assert_true(depot_maybe(rig->depot, rig_key(job)));
        assert_true(rig_same_place(hit.place, truth->place));
        assert_int_equal(
            rig_judge(slice_make(records.at + hit.at, hit.place.bytes), &version, &attempt), job);
        assert_int_equal(version, truth->version);
    }
    buffer_fini(&records);
    depot_let_go(view);
}

#endif
