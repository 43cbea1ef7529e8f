/* preload_rig: the loader on a real engine, a real depot and a real scout; a log in memory, a clock
 * that the test sets, and iterations of a loop that continue until nothing is left to do. */
#ifndef TARRY_TESTS_PRELOAD_RIG_H
#define TARRY_TESTS_PRELOAD_RIG_H

#include "base/clock.h"
#include "engine/stored.h"
#include "local/preload.h"
#include "unit/cases.h"
#include "unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    RIG_START_MS = 1000000,
    RIG_SKEW_MS = 500,
    RIG_HASH_SEED = 7,
    RIG_ITERATIONS_MAX = 10000000
};

struct rig {
    char dir[64];
    struct reactor *reactor;
    struct shard shard;
    struct buffer log; /* every record ever appended; a place's `at` counts records */
    size_t *offsets;
    uint32_t records, cap, file;
    uint32_t rounds;
    bool quiet;
    uint64_t entries_most;
    int (*consume)(struct rig *rig); /* once per step; NULL: no consumer */
    uint64_t taken;
    const struct fs *fs;  /* of the depot, from the next opening on; NULL: fs_posix */
    uint64_t slack_bytes; /* of the depot, from the next opening on; 0: it rewrites nothing */
};

static inline struct engine_now rig_now(struct rig *rig)
{
    return shard_now(&rig->shard);
}

/* ---- the engine's sink ---- */

static inline struct record_place rig_append(void *ctx, const struct record *record)
{
    struct rig *rig = ctx;
    if (rig->records == rig->cap) {
        rig->cap = rig->cap ? rig->cap * 2 : 1024;
        rig->offsets = realloc(rig->offsets, rig->cap * sizeof *rig->offsets);
    }
    char *into = buffer_reserve(&rig->log, record_bytes_max(record));
    uint32_t bytes = (uint32_t)record_encode(record, into);
    rig->offsets[rig->records] = rig->log.len;
    rig->log.len += bytes;
    return (struct record_place){.file = rig->file, .at = rig->records++, .bytes = bytes};
}

static inline void rig_ignore_topic(void *ctx, struct slice topic)
{
    (void)ctx;
    (void)topic;
}

static inline enum engine_slot rig_release_slot(void *ctx, struct record_place place,
                                                enum job_section *section)
{
    struct rig *rig = ctx;
    return (enum engine_slot)depot_release(rig->shard.depot, place, section);
}

/* ---- open and close ---- */

static inline void rig_open_depot(struct rig *rig)
{
    char error[256] = "";
    struct depot_options options = {.fs = rig->fs ? rig->fs : &fs_posix,
                                    .dir = rig->dir,
                                    .hash_seed = RIG_HASH_SEED,
                                    .seed = 11,
                                    .slack_bytes = rig->slack_bytes ? rig->slack_bytes : 1u << 30};
    int failed = depot_open(&options, &rig->shard.depot, error, sizeof error);
    if (failed)
        fail_msg("%s", error);
}

static inline void rig_open_engine(struct rig *rig)
{
    struct engine_options options = {.sink = {.append = rig_append,
                                              .release_slot = rig_release_slot,
                                              .ready = rig_ignore_topic,
                                              .died = rig_ignore_topic,
                                              .ctx = rig},
                                     .hash_seed = RIG_HASH_SEED,
                                     .body_bytes_max = 4096,
                                     .topics_max = 2000,
                                     .random_seed = 1,
                                     .now = rig_now(rig)};
    rig->shard.engine = engine_new(&options);
    assert_non_null(rig->shard.engine);
}

static inline void rig_open_preload(struct rig *rig)
{
    char error[256] = "";
    rig->shard.preload = preload_new(&rig->shard);
    assert_non_null(rig->shard.preload);
    if (preload_begin(rig->shard.preload, error, sizeof error))
        fail_msg("%s", error);
}

static inline bool rig_iterate(void *ctx);

static inline void rig_open(struct rig *rig, int64_t horizon_ms, uint64_t topic_quota)
{
    *rig = (struct rig){.file = 1};
    assert_true(scratch_make(rig->dir));
    buffer_init(&rig->log, SIZE_MAX / 2);
    clock_fake_start(RIG_START_MS, RIG_START_MS + RIG_SKEW_MS);
    rig->shard.clock = &clock_process;
    rig->shard.skew_ms = rig->shard.engine_skew_ms = RIG_SKEW_MS;
    rig->shard.options.limits.horizon_ms = horizon_ms;
    rig->shard.options.limits.topic_quota = topic_quota;
    rig->reactor = reactor_new(0);
    rig->shard.scout = worker_new(rig->reactor, "scout");
    reactor_at_iteration_end(rig->reactor, rig_iterate, rig);
    rig_open_depot(rig);
    rig_open_engine(rig);
    engine_start(rig->shard.engine, 1);
    rig_open_preload(rig);
}

static inline void rig_close_shard(struct rig *rig)
{
    worker_free(rig->shard.scout);
    preload_free(rig->shard.preload);
    engine_check(rig->shard.engine);
    engine_free(rig->shard.engine);
    depot_close(rig->shard.depot);
}

static inline void rig_close(struct rig *rig)
{
    rig_close_shard(rig);
    reactor_free(rig->reactor);
    buffer_fini(&rig->log);
    free(rig->offsets);
    assert_int_equal(scratch_remove(rig->dir), 0);
    clock_fake_end();
}

/* ---- steps ---- */

static inline void rig_advance_engine(struct rig *rig)
{
    struct engine_now now = rig_now(rig);
    bool stepped = now.skew_ms != rig->shard.engine_skew_ms;
    rig->shard.engine_skew_ms = now.skew_ms;
    while (stepped || engine_next_ms(rig->shard.engine) <= now.inner_ms) {
        engine_advance(rig->shard.engine, now, 512);
        stepped = false;
    }
}

static inline bool rig_iterate(void *ctx)
{
    struct rig *rig = ctx;
    struct preload *preload = rig->shard.preload;
    struct engine_now now = rig_now(rig);
    bool more = preload_step(preload, now);
    rig_advance_engine(rig);
    bool took = rig->consume && rig->consume(rig) > 0;
    if (engine_entries(rig->shard.engine) > rig->entries_most)
        rig->entries_most = engine_entries(rig->shard.engine);
    assert_true(rig->rounds++ < RIG_ITERATIONS_MAX); /* it spins */
    rig->quiet =
        !more && !took && !preload_is_busy(preload) && preload_next_ms(preload) > now.inner_ms;
    return false;
}

/* Runs until nothing is left to do at this time. */
static inline void rig_settle(struct rig *rig)
{
    rig->rounds = 0;
    rig->quiet = false;
    while (!rig->quiet) {
        uv_run(reactor_loop(rig->reactor), UV_RUN_NOWAIT);
        sched_yield();
    }
}

/* Time passes; what comes up meanwhile is done when it comes up. */
static inline void rig_pass(struct rig *rig, int64_t ms)
{
    int64_t until_ms = clock_inner_ms() + ms;
    for (rig_settle(rig); clock_inner_ms() < until_ms; rig_settle(rig)) {
        int64_t next_ms = preload_next_ms(rig->shard.preload);
        int64_t engine_ms = engine_next_ms(rig->shard.engine);
        if (engine_ms < next_ms)
            next_ms = engine_ms;
        if (next_ms > until_ms)
            next_ms = until_ms;
        clock_fake_advance(next_ms - clock_inner_ms());
    }
}

/* ---- jobs ---- */

static inline void rig_push_grouped(struct rig *rig, const char *topic, const char *group,
                                    unsigned number, struct queue_when when)
{
    char id[32], body[64];
    snprintf(id, sizeof id, "%u", number);
    snprintf(body, sizeof body, "body of %s %u", topic, number);
    struct queue_result result = {0};
    struct queue_push push = {.topic = slice_of(topic),
                              .id = slice_of(id),
                              .body = slice_of(body),
                              .group = slice_of(group),
                              .priority = QUEUE_PRIORITY_UNSET,
                              .when = when};
    engine_push(rig->shard.engine, &push, rig_now(rig), &result);
    assert_int_equal(result.status, QUEUE_CREATED);
}

static inline void rig_push(struct rig *rig, const char *topic, unsigned number,
                            struct queue_when when)
{
    rig_push_grouped(rig, topic, "", number, when);
}

static inline void rig_push_in(struct rig *rig, const char *topic, unsigned number, int64_t ms)
{
    /* The engine rounds up. */
    rig_push(rig, topic, number, (struct queue_when){QUEUE_DUE_DELAY, ms ? ms - 1 : 0});
}

static inline bool rig_knows(struct rig *rig, const char *topic, unsigned number)
{
    char id[32];
    snprintf(id, sizeof id, "%u", number);
    return engine_knows(rig->shard.engine,
                        engine_key(rig->shard.engine, slice_of(topic), slice_of(id)));
}

static inline struct queue_counts rig_counts(struct rig *rig, const char *topic)
{
    struct queue_topic shown;
    assert_true(engine_topic_show(rig->shard.engine, slice_of(topic), rig_now(rig), &shown));
    return shown.counts;
}

/* Takes up to `max` and acks them. Returns how many; in `ids` (may be NULL) their numbers. */
static inline size_t rig_take(struct rig *rig, const char *topic, uint32_t max, unsigned *ids)
{
    struct engine_view *views = malloc(max * sizeof *views);
    struct engine_now now = rig_now(rig);
    size_t got = engine_take(rig->shard.engine, slice_of(topic), max, SIZE_MAX, 1000,
                             (struct slice){0}, now, views);
    for (size_t i = 0; i < got; i++) {
        struct slice bytes;
        struct record record;
        struct buffer scratch;
        buffer_init(&scratch, 1 << 20);
        if (ids) {
            if (record_place_is_run(views[i].place)) {
                if (!preload_recent(rig->shard.preload, views[i].place, &bytes))
                    assert_int_equal(depot_read(depot_view(rig->shard.depot), views[i].place, true,
                                                &scratch, &bytes),
                                     0);
            } else {
                bytes =
                    slice_make(rig->log.at + rig->offsets[views[i].place.at], views[i].place.bytes);
            }
            assert_true(record_decode(bytes, &record) && record.kind == RECORD_JOB);
            ids[i] = (unsigned)strtoul(record.job.id.at, NULL, 10);
        }
        buffer_fini(&scratch);
        struct engine_lease lease = {.key_low = views[i].key.low, .delivery = views[i].delivery};
        struct queue_answer answer = {.verb = QUEUE_ACK};
        struct queue_result result = {0};
        engine_answer(rig->shard.engine, &lease, &answer, now, &result);
        assert_int_equal(result.status, QUEUE_OK);
        engine_view_fini(&views[i]);
    }
    free(views);
    return got;
}

static inline void rig_cancel(struct rig *rig, const char *topic, unsigned number)
{
    char id[32];
    struct queue_result result = {0};
    snprintf(id, sizeof id, "%u", number);
    struct queue_change change = {.verb = QUEUE_CANCEL,
                                  .topic = slice_of(topic),
                                  .id = slice_of(id),
                                  .priority = QUEUE_PRIORITY_UNSET};
    engine_change(rig->shard.engine, &change, rig_now(rig), &result);
    assert_int_equal(result.status, QUEUE_CANCELLED);
}

/* A job comes to memory by its key, as local/admission.c brings it. */
static inline void rig_find(struct rig *rig, const char *topic, unsigned number)
{
    char id[32];
    struct buffer records;
    struct depot_hit hit;
    snprintf(id, sizeof id, "%u", number);
    struct hash128 key = engine_key(rig->shard.engine, slice_of(topic), slice_of(id));
    if (engine_knows(rig->shard.engine, key))
        return;
    buffer_init(&records, 1 << 20);
    assert_int_equal(depot_find(depot_view(rig->shard.depot), RIG_HASH_SEED, key, &records, &hit),
                     1);
    assert_int_equal(shard_load(&rig->shard, slice_make(records.at + hit.at, hit.place.bytes),
                                hit.place, rig_now(rig)),
                     0);
    buffer_fini(&records);
}

static inline void rig_flip(struct rig *rig, uint64_t offset)
{
    char name[32], path[128], byte;
    run_file_name(depot_view(rig->shard.depot)->runs[0]->number, name);
    snprintf(path, sizeof path, "%s/run/%s", rig->dir, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

/* Flips a bit in the record of a slot of the oldest run. */
static inline void rig_damage(struct rig *rig, uint32_t slot)
{
    struct run_slot entry;
    assert_int_equal(run_slots(depot_view(rig->shard.depot)->runs[0]->run, slot, 1, true, &entry),
                     0);
    rig_flip(rig, entry.offset + 9);
}

static inline void rig_assert_counts(struct rig *rig, const char *topic, uint64_t delayed,
                                     uint64_t ready)
{
    struct queue_counts counts = rig_counts(rig, topic);
    assert_int_equal(counts.delayed, delayed);
    assert_int_equal(counts.ready, ready);
}

#endif
