/* engine_rig: an engine over a log in memory, a clock that a test sets, and a second engine from
 * the records of the first. */
#ifndef TARRY_TESTS_ENGINE_RIG_H
#define TARRY_TESTS_ENGINE_RIG_H

#include "base/random.h"
#include "engine/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TOPICS = 3, START_MS = 1000000 };

/* Every record ever appended, each at the place that its number in the row makes. */
struct log {
    struct engine *engine;
    char **records;
    size_t *bytes;
    size_t count, cap;
    size_t reported_ready, reported_died;
};

static inline struct record_place on_append(void *ctx, const struct record *record)
{
    struct log *log = ctx;
    if (log->count == log->cap) {
        log->cap = log->cap ? log->cap * 2 : 256;
        log->records = realloc(log->records, log->cap * sizeof *log->records);
        log->bytes = realloc(log->bytes, log->cap * sizeof *log->bytes);
    }
    size_t at = log->count++;
    log->records[at] = malloc(record_bytes_max(record));
    log->bytes[at] = record_encode(record, log->records[at]);
    return (struct record_place){.file = 1, .at = (uint32_t)at, .bytes = (uint32_t)log->bytes[at]};
}

static inline void on_ready(void *ctx, struct slice topic)
{
    (void)topic;
    ((struct log *)ctx)->reported_ready++;
}

static inline void on_died(void *ctx, struct slice topic)
{
    (void)topic;
    ((struct log *)ctx)->reported_died++;
}

static inline struct engine *open_engine(struct log *log, struct engine_now now)
{
    struct engine_options options = {
        .sink = {.append = on_append, .ready = on_ready, .died = on_died, .ctx = log},
        .hash_seed = 7,
        .body_bytes_max = 1000,
        .topics_max = 10,
        .random_seed = 1,
        .now = now};
    return engine_new(&options);
}

static inline void log_free(struct log *log)
{
    for (size_t i = 0; i < log->count; i++)
        free(log->records[i]);
    free(log->records);
    free(log->bytes);
}

static inline struct record record_at(const struct log *log, size_t at, struct record_place *place)
{
    struct record record;
    *place =
        (struct record_place){.file = 1, .at = (uint32_t)at, .bytes = (uint32_t)log->bytes[at]};
    assert_true(record_decode(slice_make(log->records[at], log->bytes[at]), &record));
    return record;
}

/* Makes a second engine from the log's records, states `times` times. Its appends go to `own`. */
static inline struct engine *replay_often(const struct log *log, struct log *own,
                                          struct engine_now now, int times)
{
    *own = (struct log){0};
    struct engine *engine = open_engine(own, now);
    for (size_t at = 0; at < log->count; at++) {
        struct record_place place;
        struct record record = record_at(log, at, &place);
        for (int i = 0; i < (record.kind == RECORD_STATE ? times : 1); i++)
            assert_true(engine_replay(engine, &record, place));
    }
    assert_int_equal(own->reported_died, 0);
    engine_start(engine, 2);
    engine_check(engine);
    return engine;
}

static inline struct engine *replay(const struct log *log, struct log *own, struct engine_now now)
{
    return replay_often(log, own, now, 1);
}

static inline struct slice topic_name(unsigned number)
{
    static const char *const names[TOPICS] = {"orders", "mails", "calls"};
    return slice_of(names[number % TOPICS]);
}

/* ---- an engine with its log and clock ---- */

struct world {
    struct log log;
    struct engine *engine;
    struct engine_now now;
    struct random random;
    struct engine_lease leases[64];
    size_t lease_count;
};

static inline struct world open_world(uint64_t seed)
{
    struct world world = {.now = {START_MS, START_MS + 500, 500}, .random = {seed}};
    return world;
}

static inline void catch_up(struct world *world, struct engine *engine)
{
    while (engine_next_ms(engine) <= world->now.inner_ms)
        engine_advance(engine, world->now, 100);
}

static inline void close_world(struct world *world)
{
    engine_check(world->engine);
    engine_free(world->engine);
    log_free(&world->log);
}

#endif
