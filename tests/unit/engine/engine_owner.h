/* engine_owner: what a shard does with its engine, in words: pushes, takes, answers, checkpoints of
 * engine_rig_checkpoint.h in one go, a crash. One topic, failed attempts wait long. */
#ifndef TARRY_TESTS_ENGINE_OWNER_H
#define TARRY_TESTS_ENGINE_OWNER_H

#include "engine_rig_checkpoint.h"

enum { COLD_MS = 100000, WINDOW_MS = 50 };

struct owner {
    struct rig *rig;
    struct engine_now now;
    uint64_t epoch;
};

static inline void put_topic(struct owner *owner, int64_t window_ms)
{
    struct topic_settings settings = {
        .policy = {.backoff = {.kind = BACKOFF_FIXED, .first_ms = COLD_MS, .max_ms = COLD_MS},
                   .max_attempts = 3},
        .dedup_window_ms = window_ms};
    enum queue_status status = engine_topic_put(owner->rig->engine, topic_name(0), &settings);
    assert_true(status == QUEUE_OK || status == QUEUE_CREATED);
}

static inline void open_owner(struct owner *owner)
{
    *owner = (struct owner){
        .rig = calloc(1, sizeof(struct rig)), .now = {START_MS, START_MS + 500, 500}, .epoch = 1};
    owner->rig->file = owner->rig->next_run = 1;
    owner->rig->engine = rig_open(owner->rig, owner->now);
    engine_start(owner->rig->engine, 1);
    put_topic(owner, 0);
}

static inline void close_owner(struct owner *owner)
{
    engine_check(owner->rig->engine);
    rig_fini(owner->rig);
    free(owner->rig);
}

static inline void push(struct owner *owner, const char *id, int64_t delay_ms)
{
    struct queue_result result = {0};
    struct queue_push push = {.topic = topic_name(0),
                              .id = slice_of(id),
                              .body = slice_of("body"),
                              .priority = QUEUE_PRIORITY_UNSET,
                              .when = {QUEUE_DUE_DELAY, delay_ms}};
    engine_push(owner->rig->engine, &push, owner->now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
}

static inline void reschedule(struct owner *owner, const char *id, int64_t delay_ms)
{
    struct queue_result result = {0};
    struct queue_change change = {.verb = QUEUE_RESCHEDULE,
                                  .topic = topic_name(0),
                                  .id = slice_of(id),
                                  .priority = QUEUE_PRIORITY_UNSET,
                                  .when = {QUEUE_DUE_DELAY, delay_ms}};
    engine_change(owner->rig->engine, &change, owner->now, &result);
    assert_int_equal(result.status, QUEUE_OK);
}

static inline struct engine_lease take(struct owner *owner)
{
    struct engine_view view;
    while (engine_next_ms(owner->rig->engine) <= owner->now.inner_ms)
        engine_advance(owner->rig->engine, owner->now, 10);
    assert_int_equal(engine_take(owner->rig->engine, topic_name(0), 1, SIZE_MAX, COLD_MS,
                                 (struct slice){0}, owner->now, &view),
                     1);
    engine_view_fini(&view);
    return (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
}

static inline void answer(struct owner *owner, struct engine_lease lease,
                          struct queue_answer answer)
{
    struct queue_result result = {0};
    engine_answer(owner->rig->engine, &lease, &answer, owner->now, &result);
    assert_int_equal(result.status, QUEUE_OK);
}

static inline void fail_once(struct owner *owner)
{
    answer(owner, take(owner),
           (struct queue_answer){.verb = QUEUE_NACK, .delay_ms = -1, .error = slice_of("no")});
}

/* Runs a checkpoint that moves all of the log files before `before_file` to runs. */
static inline void checkpoint(struct owner *owner, uint32_t before_file)
{
    struct rig *rig = owner->rig;
    struct random random = {1};
    rig->collect = (struct engine_collect){
        .before_file = before_file, .is_victim = rig_is_victim, .each = rig_each, .ctx = rig};
    rig->stage = RIG_COLLECTING;
    while (rig->stage != RIG_IDLE)
        rig_checkpoint_step(rig, &random, owner->now);
    engine_check(rig->engine);
}

static inline void evict_all(struct owner *owner)
{
    uint32_t at = 0;
    while (!engine_evict_some(owner->rig->engine, &at, owner->now.inner_ms, 0, owner->now, 7))
        ;
}

static inline void crash(struct owner *owner)
{
    rig_crash(owner->rig, ++owner->epoch, owner->now);
    engine_check(owner->rig->engine);
}

static inline size_t attempts_of(struct owner *owner, const char *id)
{
    struct engine_view view;
    struct job_attempt attempt;
    size_t count = 0;
    rig_load_due(owner->rig, 0, true, owner->now);
    assert_true(engine_find(owner->rig->engine, topic_name(0), slice_of(id), owner->now, &view));
    for (size_t at = 0; job_history_next(slice_make(view.text, view.history_bytes), &at, &attempt);)
        count++;
    engine_view_fini(&view);
    return count;
}

static inline struct queue_topic shown(struct owner *owner)
{
    struct queue_topic topic;
    assert_true(engine_topic_show(owner->rig->engine, topic_name(0), owner->now, &topic));
    return topic;
}

#endif
