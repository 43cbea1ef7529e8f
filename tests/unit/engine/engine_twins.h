/* engine_twins: an engine whose jobs go to a naive depot and come back, beside one that has all of
 * them in memory. Both are given the same commands, and must answer and show the same. */
#ifndef TARRY_TESTS_ENGINE_TWINS_H
#define TARRY_TESTS_ENGINE_TWINS_H

#include "engine_rig_checkpoint.h"

enum { IDS = 16, STEPS = 700, HORIZON_MS = 30 };

/* The same commands go to both. */
struct twins {
    struct rig *rig;
    struct log log; /* of the other: all of its records */
    struct engine *plain;
    struct engine_now now;
    struct random random;
    struct engine_lease leases[64];
    size_t lease_count;
    uint64_t epoch;
    bool steps;                         /* the wall clock does, forward */
    bool forgets;                       /* a crash takes what was not synced */
    uint32_t synced_file, synced_count; /* of the rig's log */
    size_t synced;                      /* of the other's */
    size_t lost, stepped;               /* what a test has met */
};

static inline unsigned below(struct twins *twins, unsigned bound)
{
    return (unsigned)random_below(&twins->random, bound);
}

static inline struct slice id_name(unsigned number, char text[8])
{
    snprintf(text, 8, "id-%u", number % IDS);
    return slice_of(text);
}

static inline void load_key(struct twins *twins, struct slice topic, struct slice id)
{
    rig_load_key(twins->rig, engine_key(twins->rig->engine, topic, id), twins->now);
}

/* ---- commands ---- */

/* Makes an engine deterministic: a jitter of 20 % of this is 0. */
static inline void put_topic(struct twins *twins, struct slice topic)
{
    struct topic_settings settings = {
        .policy.backoff = {.kind = BACKOFF_FIXED, .first_ms = 2, .max_ms = 2},
        .dedup_window_ms = below(twins, 2) ? 1 + below(twins, 300) : 0,
        .dead_letter_expired = below(twins, 2)};
    assert_int_equal(engine_topic_put(twins->rig->engine, topic, &settings),
                     engine_topic_put(twins->plain, topic, &settings));
    if (below(twins, 6))
        assert_int_equal(engine_topic_resume(twins->rig->engine, topic),
                         engine_topic_resume(twins->plain, topic));
    else
        assert_int_equal(engine_topic_pause(twins->rig->engine, topic, 0),
                         engine_topic_pause(twins->plain, topic, 0));
}

static inline void assert_same_result(const struct queue_result *a, const struct queue_result *b)
{
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->due_ms, b->due_ms);
    assert_int_equal(a->lease_until_ms, b->lease_until_ms);
    assert_int_equal(a->cancel_requested, b->cancel_requested);
}

static inline struct queue_when any_time(struct twins *twins)
{
    switch (below(twins, 4)) {
    case 0:
        return (struct queue_when){QUEUE_DUE_NOW, 0};
    case 1:
        return (struct queue_when){QUEUE_DUE_AT, twins->now.wall_ms + below(twins, 600)};
    default:
        return (struct queue_when){QUEUE_DUE_DELAY, below(twins, 600)};
    }
}

static inline void push_one(struct twins *twins)
{
    char id[8];
    struct queue_result a = {0}, b = {0};
    struct queue_topic shown;
    struct queue_push push = {.topic = topic_name(below(twins, TOPICS)),
                              .id = id_name(below(twins, IDS), id),
                              .body = slice_of("some body"),
                              .priority =
                                  below(twins, 2) ? (int32_t)below(twins, 3) : QUEUE_PRIORITY_UNSET,
                              .on_conflict = (enum record_conflict)below(twins, 4),
                              .when = any_time(twins)};
    push.body.len = below(twins, 9);
    if (!below(twins, 4))
        push.policy =
            (struct policy){.max_attempts = 1 + below(twins, 3), .ttl_ms = 1 + below(twins, 300)};
    if (!below(twins, 12))
        push.past = (struct queue_past){
            .attempt = 1 + below(twins, 3), .dead = below(twins, 2), .error = slice_of("before")};
    if (!engine_topic_show(twins->plain, push.topic, twins->now, &shown))
        put_topic(twins, push.topic);
    load_key(twins, push.topic, push.id);
    engine_push(twins->rig->engine, &push, twins->now, &a);
    engine_push(twins->plain, &push, twins->now, &b);
    assert_same_result(&a, &b);
}

static inline void assert_same_view(const struct engine_view *a, const struct engine_view *b)
{
    assert_true(a->key.low == b->key.low && a->key.high == b->key.high);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->attempt, b->attempt);
    assert_int_equal(a->due_ms, b->due_ms);
    assert_int_equal(a->lease_until_ms, b->lease_until_ms);
    assert_int_equal(a->delivery, b->delivery);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->history_bytes, b->history_bytes);
    assert_int_equal(a->error_bytes, b->error_bytes);
    assert_int_equal(a->consumer_bytes, b->consumer_bytes);
    assert_int_equal(a->cancel_requested, b->cancel_requested);
    if (a->text)
        assert_memory_equal(a->text, b->text,
                            (size_t)a->history_bytes + a->error_bytes + a->consumer_bytes);
}

static inline void take_some(struct twins *twins)
{
    struct engine_view a[8], b[8];
    struct slice topic = topic_name(below(twins, TOPICS));
    unsigned max = 1 + below(twins, 8);
    struct slice consumer = slice_of(below(twins, 2) ? "worker 1" : "");
    rig_load_due(twins->rig, twins->now.inner_ms, false, twins->now);
    size_t got =
        engine_take(twins->rig->engine, topic, max, SIZE_MAX, 200, consumer, twins->now, a);
    assert_int_equal(got,
                     engine_take(twins->plain, topic, max, SIZE_MAX, 200, consumer, twins->now, b));
    for (size_t i = 0; i < got; i++) {
        assert_same_view(&a[i], &b[i]);
        if (twins->lease_count < 64)
            twins->leases[twins->lease_count++] =
                (struct engine_lease){.key_low = a[i].key.low, .delivery = a[i].delivery};
        engine_view_fini(&a[i]);
        engine_view_fini(&b[i]);
    }
}

static inline void answer_one(struct twins *twins)
{
    static const enum queue_verb verbs[] = {QUEUE_ACK, QUEUE_NACK, QUEUE_EXTEND, QUEUE_RETURN,
                                            QUEUE_NACK};
    struct queue_result a = {0}, b = {0};
    if (!twins->lease_count)
        return;
    size_t at = below(twins, (unsigned)twins->lease_count);
    struct queue_answer answer = {.verb = verbs[below(twins, 5)],
                                  .delay_ms = below(twins, 2) ? -1 : (int64_t)below(twins, 400),
                                  .final = !below(twins, 5),
                                  .error = slice_of(below(twins, 2) ? "no" : "not at all")};
    engine_answer(twins->rig->engine, &twins->leases[at], &answer, twins->now, &a);
    engine_answer(twins->plain, &twins->leases[at], &answer, twins->now, &b);
    assert_same_result(&a, &b);
    if (answer.verb != QUEUE_EXTEND)
        twins->leases[at] = twins->leases[--twins->lease_count];
}

static inline void change_one(struct twins *twins)
{
    static const enum queue_change_verb verbs[] = {QUEUE_CANCEL, QUEUE_RESCHEDULE, QUEUE_RUN};
    char id[8];
    struct queue_result a = {0}, b = {0};
    struct queue_change change = {.verb = verbs[below(twins, 3)],
                                  .topic = topic_name(below(twins, TOPICS)),
                                  .id = id_name(below(twins, IDS), id),
                                  .when = any_time(twins),
                                  .priority = QUEUE_PRIORITY_UNSET,
                                  .request = below(twins, 2)};
    load_key(twins, change.topic, change.id);
    engine_change(twins->rig->engine, &change, twins->now, &a);
    engine_change(twins->plain, &change, twins->now, &b);
    assert_same_result(&a, &b);
    if (!below(twins, 3))
        assert_int_equal(engine_redrive(twins->rig->engine, change.topic, change.id, twins->now),
                         engine_redrive(twins->plain, change.topic, change.id, twins->now));
}

static inline uint64_t walk_all(struct engine *engine, enum walk_kind kind, struct slice topic,
                                struct engine_now now)
{
    struct walk walk = {.kind = kind, .topic_bytes = topic.len, .limit = 5};
    memcpy(walk.topic, topic.at, topic.len);
    if (walk_init(&walk, engine))
        while (!walk_step(&walk, engine, now, 7, 3))
            engine_check(engine);
    walk_fini(&walk);
    return walk.affected;
}

static inline void walk_both(struct twins *twins, enum walk_kind kind)
{
    struct slice topic = topic_name(below(twins, TOPICS));
    rig_load_due(twins->rig, 0, true, twins->now);
    assert_int_equal(walk_all(twins->rig->engine, kind, topic, twins->now),
                     walk_all(twins->plain, kind, topic, twins->now));
    if (kind == WALK_DELETE)
        assert_int_equal(engine_topic_remove(twins->rig->engine, topic),
                         engine_topic_remove(twins->plain, topic));
}

static inline bool evict(struct twins *twins, size_t steps)
{
    uint32_t at = 0;
    if (twins->rig->stage == RIG_INSTALLING) /* no look-up could find them in the new run */
        return false;
    int64_t keep_until_ms = twins->now.inner_ms + (int64_t)below(twins, 2) * HORIZON_MS;
    /* Ready jobs keep the order they have in memory when the wall clock steps; reloaded, they
     * would be in that of the new time. */
    uint64_t ready_max = twins->steps ? UINT64_MAX : below(twins, 3) * 2;
    return engine_evict_some(twins->rig->engine, &at, keep_until_ms, ready_max, twins->now, steps);
}

/* Jobs come and go during the walk: each found job is whole and met once. */
static inline void list_meanwhile(struct twins *twins)
{
    struct slice topic = topic_name(below(twins, TOPICS));
    struct walk walk = {.kind = WALK_LIST, .topic_bytes = topic.len, .limit = 1 + below(twins, 9)};
    memcpy(walk.topic, topic.at, topic.len);
    if (walk_init(&walk, twins->rig->engine))
        while (!walk_step(&walk, twins->rig->engine, twins->now, 5, 3)) {
            evict(twins, 1 + below(twins, 50));
            rig_load_due(twins->rig, twins->now.inner_ms + below(twins, 300), false, twins->now);
        }
    for (size_t i = 0; i < walk.found.count; i++)
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(walk.found.at[i].sequence, walk.found.at[j].sequence);
    walk_fini(&walk);
}

static inline void pass(struct twins *twins, struct engine *engine)
{
    while (engine_next_ms(engine) <= twins->now.inner_ms)
        engine_advance(engine, twins->now, 1 + below(twins, 20));
}

static inline void let_time_pass(struct twins *twins, int64_t ms)
{
    rig_load_due(twins->rig, twins->now.inner_ms + ms, false, twins->now);
    twins->now.inner_ms += ms;
    twins->now.wall_ms += ms;
    pass(twins, twins->rig->engine);
    pass(twins, twins->plain);
}

/* Cold jobs due by the wall clock come up earlier, and near ones are filed again. */
static inline void step_wall(struct twins *twins)
{
    int64_t step_ms = 1 + below(twins, 200);
    twins->now.wall_ms += step_ms;
    twins->now.skew_ms += step_ms;
    twins->stepped++;
    engine_advance(twins->rig->engine, twins->now, 1 + below(twins, 20));
    engine_advance(twins->plain, twins->now, 1 + below(twins, 20));
    let_time_pass(twins, below(twins, 2));
}

/* ---- the same state ---- */

static inline void assert_same_far_job(struct rig *rig, const struct engine_view *plain,
                                       struct engine_now now)
{
    struct record_place place;
    struct rig_slot *slot = rig_find(rig, plain->key, &place);
    assert_non_null(slot);
    struct record record = rig_decode(slot->record);
    const struct job *job = &record.job;
    assert_int_equal(record.kind, RECORD_JOB);
    assert_int_equal(job->state, plain->state == JOB_READY ? JOB_DELAYED : plain->state);
    assert_int_equal(job->due_ms + (job->due_is_wall ? 0 : now.skew_ms), plain->due_ms);
    assert_int_equal(job->priority, plain->priority);
    assert_int_equal(job->attempt, plain->attempt);
    assert_int_equal(job->delivery, plain->delivery);
    assert_int_equal(job->sequence, plain->sequence);
    assert_true(slice_equals(job->history, slice_make(plain->text, plain->history_bytes)));
    assert_int_equal(job->error.len, plain->error_bytes);
    assert_int_equal(job->consumer.len, plain->consumer_bytes);
    assert_int_equal(job->cancel_requested, plain->cancel_requested);
}

/* The engine's place of a job's record leads to that job. */
static inline void assert_same_body(struct twins *twins, const struct engine_view *a,
                                    const struct engine_view *b)
{
    struct record x = rig_decode(rig_read(twins->rig, a->place));
    struct record y;
    assert_true(record_decode(
        slice_make(twins->log.records[b->place.at], twins->log.bytes[b->place.at]), &y));
    assert_int_equal(x.kind, RECORD_JOB);
    assert_true(slice_equals(x.job.id, y.job.id) && slice_equals(x.job.body, y.job.body));
    assert_memory_equal(&x.job.policy, &y.job.policy, sizeof x.job.policy);
    assert_int_equal(x.job.sequence, y.job.sequence);
}

/* Returns the bytes of its record if it is dead. */
static inline uint64_t assert_same_job(struct twins *twins, struct slice topic, struct slice id)
{
    struct rig *rig = twins->rig;
    struct hash128 key = engine_key(rig->engine, topic, id);
    struct record_place place = {0};
    struct engine_view a, b;
    uint64_t bytes = 0;
    bool has = engine_find(twins->plain, topic, id, twins->now, &b);
    bool is_near = engine_find(rig->engine, topic, id, twins->now, &a);
    struct rig_slot *slot = rig_find(rig, key, &place);
    assert_true(has || !is_near);
    assert_true(has || !slot || slot->section == SECTION_REMEMBERED);
    if (is_near) {
        assert_same_view(&a, &b);
        assert_same_body(twins, &a, &b);
        bytes = a.state == JOB_DEAD ? a.place.bytes : 0;
        engine_view_fini(&a);
    } else if (has) {
        assert_same_far_job(rig, &b, twins->now);
        bytes = b.state == JOB_DEAD ? slot->record.len : 0;
    }
    if (has)
        engine_view_fini(&b);
    return bytes;
}

static inline void assert_same_totals(const struct topic_totals *a, const struct topic_totals *b)
{
    assert_int_equal(a->pushed, b->pushed);
    assert_int_equal(a->acked, b->acked);
    assert_int_equal(a->cancelled, b->cancelled);
    assert_int_equal(a->expired, b->expired);
    assert_int_equal(a->replaced, b->replaced);
    assert_int_equal(a->delivered, b->delivered);
    assert_int_equal(a->nacked, b->nacked);
    assert_int_equal(a->lease_ended, b->lease_ended);
    assert_int_equal(a->died, b->died);
}

static inline bool has_cold_ready(struct twins *twins)
{
    struct rig_slot *slot;
    struct record_place place;
    for (uint32_t run = 0, at = 0; (slot = rig_next(twins->rig, &run, &at, &place));) {
        int64_t now_ms =
            job_section_is_wall(slot->section) ? twins->now.wall_ms : twins->now.inner_ms;
        if (slot->when_ms <= now_ms && !engine_knows(twins->rig->engine, slot->key))
            return true;
    }
    return false;
}

static inline void assert_same(struct twins *twins)
{
    struct engine_stats x, y;
    for (unsigned t = 0; t < TOPICS; t++) {
        struct queue_topic a, b;
        char text[8];
        uint64_t dead_bytes = 0;
        bool has = engine_topic_show(twins->plain, topic_name(t), twins->now, &b);
        assert_int_equal(has, engine_topic_show(twins->rig->engine, topic_name(t), twins->now, &a));
        for (unsigned i = 0; i < IDS; i++)
            dead_bytes += assert_same_job(twins, topic_name(t), id_name(i, text));
        if (!has)
            continue;
        assert_int_equal(a.counts.dead_bytes, dead_bytes);
        a.counts.dead_bytes = b.counts.dead_bytes;
        /* Which of the cold ones are ready is not known, only how many. */
        if (has_cold_ready(twins)) {
            assert_int_equal(a.counts.delayed + a.counts.retrying,
                             b.counts.delayed + b.counts.retrying);
            a.counts.delayed = b.counts.delayed;
            a.counts.retrying = b.counts.retrying;
        }
        assert_memory_equal(&a.counts, &b.counts, sizeof a.counts);
        assert_same_totals(&a.totals, &b.totals);
        assert_int_equal(a.paused, b.paused);
        assert_int_equal(a.settings.dedup_window_ms, b.settings.dedup_window_ms);
    }
    engine_stats(twins->rig->engine, &x);
    engine_stats(twins->plain, &y);
    assert_int_equal(x.remembered, y.remembered);
    assert_int_equal(x.counts.delayed + x.counts.retrying, y.counts.delayed + y.counts.retrying);
    assert_int_equal(x.counts.dead, y.counts.dead);
}

/* ---- twins ---- */

static inline struct engine *open_plain(struct twins *twins)
{
    struct engine_options options = {
        .sink = {.append = on_append, .ready = on_ready, .died = on_died, .ctx = &twins->log},
        .hash_seed = RIG_HASH_SEED,
        .body_bytes_max = 1000,
        .topics_max = 10,
        .random_seed = 1,
        .now = twins->now};
    return engine_new(&options);
}

static inline void sync_logs(struct twins *twins)
{
    twins->synced_file = twins->rig->file;
    twins->synced_count = twins->rig->files[twins->rig->file].count;
    twins->synced = twins->log.count;
}

/* The end of both logs that was not synced. */
static inline void lose_tail(struct twins *twins)
{
    struct rig *rig = twins->rig;
    if (!below(twins, 3))
        sync_logs(twins);
    twins->lost += twins->log.count - twins->synced;
    while (twins->log.count > twins->synced)
        free(twins->log.records[--twins->log.count]);
    for (uint32_t file = rig->file; file >= twins->synced_file && file; file--)
        while (rig->files[file].count > (file == twins->synced_file ? twins->synced_count : 0))
            free(rig->files[file].records[--rig->files[file].count].bytes);
}

static inline void crash(struct twins *twins)
{
    if (twins->forgets)
        lose_tail(twins);
    engine_free(twins->plain);
    twins->plain = open_plain(twins);
    for (size_t at = 0; at < twins->log.count; at++) {
        struct record_place place;
        struct record record = record_at(&twins->log, at, &place);
        assert_true(engine_replay(twins->plain, &record, place));
    }
    engine_start(twins->plain, ++twins->epoch);
    rig_crash(twins->rig, twins->epoch, twins->now);
    sync_logs(twins);
    let_time_pass(twins, 0); /* remembered ids after their window */
}

/* A catalog is committed when the log is synced up to its snapshot, and not before. */
static inline void step_checkpoint(struct twins *twins)
{
    bool was_snapshot = twins->rig->stage == RIG_SNAPSHOT;
    rig_checkpoint_step(twins->rig, &twins->random, twins->now);
    if (was_snapshot)
        sync_logs(twins);
}

static inline void step(struct twins *twins)
{
    unsigned what = below(twins, 1000);
    if (twins->steps && !below(twins, 30))
        step_wall(twins);
    if (twins->forgets && !below(twins, 20))
        sync_logs(twins);
    if (what < 250)
        push_one(twins);
    else if (what < 380)
        take_some(twins);
    else if (what < 520)
        answer_one(twins);
    else if (what < 600)
        change_one(twins);
    else if (what < 615)
        put_topic(twins, topic_name(below(twins, TOPICS)));
    else if (what < 620)
        walk_both(twins, below(twins, 2) ? WALK_REDRIVE : WALK_LIST);
    else if (what < 625)
        walk_both(twins, below(twins, 2) ? WALK_PURGE : WALK_DELETE);
    else if (what < 640)
        list_meanwhile(twins);
    else if (what < 760)
        let_time_pass(twins, below(twins, 60));
    else if (what < 820)
        evict(twins, 1 + below(twins, 100));
    else if (what < 835)
        rig_load_due(twins->rig, twins->now.inner_ms + below(twins, 500), below(twins, 2),
                     twins->now);
    else if (what < 990)
        step_checkpoint(twins);
    else
        crash(twins);
}

static inline void open_twins(struct twins *twins, uint64_t seed)
{
    *twins = (struct twins){.rig = calloc(1, sizeof(struct rig)),
                            .now = {START_MS, START_MS + 500, 500},
                            .random = {seed},
                            .epoch = 1};
    twins->rig->file = twins->rig->next_run = 1;
    twins->rig->engine = rig_open(twins->rig, twins->now);
    twins->plain = open_plain(twins);
    engine_start(twins->rig->engine, 1);
    engine_start(twins->plain, 1);
    for (unsigned t = 0; t < TOPICS; t++)
        put_topic(twins, topic_name(t));
}

static inline void close_twins(struct twins *twins)
{
    rig_fini(twins->rig);
    free(twins->rig);
    engine_free(twins->plain);
    log_free(&twins->log);
}

#endif
