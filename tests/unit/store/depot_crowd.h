/*
 * depot_crowd: a depot with any number of similar jobs. Job n is due at n ms
 * and its record is at n in a log that never loses anything; the content of each place in that
 * log is computed. Include after cmocka.h.
 */
#ifndef TARRY_TESTS_DEPOT_CROWD_H
#define TARRY_TESTS_DEPOT_CROWD_H

#include "store/depot.h"
#include "support/sim_fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { CROWD_SEED = 7, CROWD_DISK_SEED = 5, CROWD_RECORD_BYTES_MAX = 512 };

struct crowd {
    struct sim_fs sim;
    struct fs fs; /* the depot's: `sim`, where a test puts nothing before it */
    struct depot_options options;
    struct depot *depot;
    char error[512];
    uint32_t commits;
};

static inline void crowd_record(uint32_t job, struct record *record, char id[32])
{
    int len = snprintf(id, 32, "job-%u", job);

    *record = (struct record){.kind = RECORD_JOB,
                              .origin = RECORD_PUSHED,
                              .job = {.topic = slice_of("orders"),
                                      .id = slice_make(id, (size_t)len),
                                      .body = slice_of("body"),
                                      .state = JOB_DELAYED,
                                      .priority = JOB_PRIORITY,
                                      .due_ms = job,
                                      .first_due_ms = job,
                                      .sequence = job}};
}

static inline struct hash128 crowd_key(uint32_t job)
{
    struct record record;
    char id[32];

    crowd_record(job, &record, id);
    return hash_pair(record.job.topic, record.job.id, CROWD_SEED);
}

static inline int crowd_read_log(void *ctx, struct record_place place, struct buffer *scratch,
                                 struct slice *out)
{
    struct record record;
    char id[32], bytes[CROWD_RECORD_BYTES_MAX];

    (void)ctx;
    crowd_record(place.at, &record, id);
    assert_true(record_bytes_max(&record) <= sizeof bytes);
    buffer_clear(scratch);
    buffer_append(scratch, bytes, record_encode(&record, bytes));
    *out = buffer_slice(scratch);
    return scratch->failed ? -ENOMEM : 0;
}

static inline void crowd_apply(void *ctx, const void *changed, struct record *record)
{
    (void)ctx;
    record->job.attempt = *(const uint32_t *)changed;
}

static inline int crowd_open(struct crowd *crowd)
{
    int result = depot_open(&crowd->options, &crowd->depot, crowd->error, sizeof crowd->error);

    if (result < 0)
        crowd->depot = NULL;
    else
        depot_remove_orphans(crowd->depot);
    return result;
}

static inline void crowd_start(struct crowd *crowd)
{
    memset(crowd, 0, sizeof *crowd);
    sim_fs_init(&crowd->sim, 1);
    crowd->fs = crowd->sim.fs;
    assert_int_equal(crowd->fs.ops->mkdir(crowd->fs.ctx, "shard", 0700), 0);
    crowd->options = (struct depot_options){
        .fs = &crowd->fs, .dir = "shard", .hash_seed = CROWD_SEED, .seed = CROWD_DISK_SEED};
    assert_int_equal(crowd_open(crowd), 0);
}

static inline void crowd_end(struct crowd *crowd)
{
    if (crowd->depot) {
        depot_check(crowd->depot);
        depot_close(crowd->depot);
    }
    sim_fs_fini(&crowd->sim);
}

static inline void crowd_reopen(struct crowd *crowd)
{
    depot_close(crowd->depot);
    if (crowd_open(crowd) < 0)
        fail_msg("%s", crowd->error);
}

/* ---- checkpoints ---- */

/* Begun, with these jobs of the log as its items. */
static inline void crowd_plan(struct crowd *crowd, struct depot_build *build, uint32_t first,
                              uint32_t count)
{
    build->read_log = crowd_read_log;
    build->apply = crowd_apply;
    assert_int_equal(depot_plan(crowd->depot, build), 0);
    build->items = count ? calloc(count, sizeof *build->items) : NULL;
    assert_true(count == 0 || build->items);
    build->count = build->cap = count;
    for (uint32_t i = 0; i < count; i++)
        build->items[i] = (struct depot_item){.section = SECTION_DELAYED,
                                              .when_ms = first + i,
                                              .sequence = first + i,
                                              .place = {.file = 1, .at = first + i, .bytes = 40},
                                              .id = first + i + 1};
}

/* Settles a build: no job changes meanwhile, but a dead one in a victim is dead in the new
 * run. */
static inline void crowd_settle(struct crowd *crowd, struct depot_build *build)
{
    enum job_section section;

    assert_true(depot_install(crowd->depot, build));
    for (uint32_t i = 0; i < build->slots; i++) {
        struct record_place from = build->items[i].place;

        if (from.bytes == 0 || (record_place_is_run(from) && !depot_is_alive(crowd->depot, from)))
            depot_release(crowd->depot, depot_build_place(build, i), &section);
    }
    assert_true(depot_installed(crowd->depot, build));
}

static inline void crowd_commit(struct crowd *crowd)
{
    struct catalog catalog;
    bool fatal;

    assert_int_equal(depot_snapshot(crowd->depot, 1, ++crowd->commits, NULL, 0, 5, 6, &catalog), 0);
    assert_int_equal(depot_commit(crowd->depot, &catalog, &fatal), 0);
    depot_committed(crowd->depot, &catalog);
    depot_tidy(crowd->depot);
    depot_check(crowd->depot);
}

static inline void crowd_finish(struct crowd *crowd, struct depot_build *build)
{
    assert_int_equal(depot_build(build), 0);
    assert_int_equal(build->failed, 0);
    crowd_settle(crowd, build);
    crowd_commit(crowd);
    depot_build_fini(build);
    depot_tidy(crowd->depot);
}

/* A run of these jobs, in this order, and nothing else. */
static inline void crowd_write(struct crowd *crowd, uint32_t first, uint32_t count)
{
    struct depot_build build = {0};

    crowd_plan(crowd, &build, first, count);
    crowd_finish(crowd, &build);
}

/* ---- slots ---- */

static inline struct record_place crowd_place(uint32_t run, uint32_t slot)
{
    return (struct record_place){.file = run | RECORD_IN_RUN, .at = slot};
}

static inline void crowd_release(struct crowd *crowd, uint32_t run, uint32_t first, uint32_t count,
                                 uint32_t step)
{
    enum job_section section;

    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(depot_release(crowd->depot, crowd_place(run, first + i * step), &section),
                         DEPOT_RELEASED);
    depot_check(crowd->depot);
}

/* Finds a job like depot_find, in the owner's view; *place is nowhere if nothing was found. */
static inline int crowd_find(struct crowd *crowd, uint32_t job, struct record_place *place)
{
    struct depot_view *view = depot_hold(crowd->depot);
    struct buffer records;
    struct depot_hit hit;
    int result;

    *place = (struct record_place){0};
    buffer_init(&records, 1 << 16);
    result = depot_find(view, CROWD_SEED, crowd_key(job), &records, &hit);
    if (result == 1) {
        struct record record;

        assert_true(record_decode(slice_make(records.at + hit.at, hit.place.bytes), &record));
        assert_int_equal(record.job.sequence, job);
        *place = hit.place;
    }
    buffer_fini(&records);
    depot_let_go(view);
    return result;
}

#endif
