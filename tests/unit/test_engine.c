/* The engine over a log in memory: its invariants after every step, and the same state again from
 * its records. */
#include "engine/walk.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { IDS = 40, TOPICS = 3, START_MS = 1000000 };

/* Every record ever appended, each at the place that its number in the row makes. */
struct log {
    struct engine *engine;
    char **records;
    size_t *bytes;
    bool *kept;
    size_t count, cap;
    size_t told_ready;
    size_t told_died;
};

static struct record_place on_append(void *ctx, const struct record *record)
{
    struct log *log = ctx;
    if (log->count == log->cap) {
        log->cap = log->cap ? log->cap * 2 : 256;
        log->records = realloc(log->records, log->cap * sizeof *log->records);
        log->bytes = realloc(log->bytes, log->cap * sizeof *log->bytes);
        log->kept = realloc(log->kept, log->cap * sizeof *log->kept);
    }
    size_t at = log->count++;
    log->records[at] = malloc(record_bytes_max(record));
    log->bytes[at] = record_encode(record, log->records[at]);
    log->kept[at] = record->kind == RECORD_JOB;
    return (struct record_place){.file = 1, .at = (uint32_t)at, .bytes = (uint32_t)log->bytes[at]};
}

static void on_release(void *ctx, struct record_place place)
{
    struct log *log = ctx;
    assert_true(log->kept[place.at]);
    log->kept[place.at] = false;
}

static void on_retain(void *ctx, struct record_place place)
{
    struct log *log = ctx;
    assert_false(log->kept[place.at]);
    log->kept[place.at] = true;
}

static void on_ready(void *ctx, struct slice topic)
{
    (void)topic;
    ((struct log *)ctx)->told_ready++;
}

static void on_died(void *ctx, struct slice topic)
{
    (void)topic;
    ((struct log *)ctx)->told_died++;
}

static struct engine *open_engine(struct log *log, struct engine_now now)
{
    struct engine_options options = {.sink = {.append = on_append,
                                              .release = on_release,
                                              .retain = on_retain,
                                              .ready = on_ready,
                                              .died = on_died,
                                              .ctx = log},
                                     .hash_seed = 7,
                                     .body_bytes_max = 1000,
                                     .topics_max = 10,
                                     .random_seed = 1,
                                     .now = now};
    return engine_new(&options);
}

static void log_free(struct log *log)
{
    for (size_t i = 0; i < log->count; i++)
        free(log->records[i]);
    free(log->records);
    free(log->bytes);
    free(log->kept);
}

static struct record record_at(const struct log *log, size_t at, struct record_place *place)
{
    struct record record;
    *place =
        (struct record_place){.file = 1, .at = (uint32_t)at, .bytes = (uint32_t)log->bytes[at]};
    assert_true(record_decode(slice_make(log->records[at], log->bytes[at]), &record));
    return record;
}

/* A second engine from the records `from` and later, states `times` times; its sink sees what it
 * keeps. */
static struct engine *replay_often(const struct log *log, size_t from, struct log *kept,
                                   struct engine_now now, int times)
{
    *kept = (struct log){.count = log->count, .kept = calloc(log->count + 1, sizeof *kept->kept)};
    struct engine *engine = open_engine(kept, now);
    for (size_t at = from; at < log->count; at++) {
        struct record_place place;
        struct record record = record_at(log, at, &place);
        if (record.kind == RECORD_JOB)
            kept->kept[at] = true;
        for (int i = 0; i < (record.kind == RECORD_STATE ? times : 1); i++)
            assert_true(engine_replay(engine, &record, place));
    }
    assert_int_equal(kept->told_died, 0);
    engine_start(engine, 2);
    engine_check(engine);
    return engine;
}

static struct engine *replay(const struct log *log, size_t from, struct log *kept,
                             struct engine_now now)
{
    return replay_often(log, from, kept, now, 1);
}

static struct slice topic_name(unsigned number)
{
    static const char *const names[TOPICS] = {"orders", "mails", "calls"};
    return slice_of(names[number % TOPICS]);
}

static struct slice id_name(unsigned number, char text[8])
{
    snprintf(text, 8, "id-%u", number % IDS);
    return slice_of(text);
}

/* ---- a world of random commands ---- */

struct world {
    struct log log;
    struct engine *engine;
    struct engine_now now;
    struct random random;
    struct engine_lease leases[64];
    size_t lease_count;
};

static unsigned below(struct world *world, unsigned bound)
{
    return (unsigned)random_below(&world->random, bound);
}

static void push_one(struct world *world)
{
    char id[8];
    struct queue_result result = {0};
    struct queue_push push = {.topic = topic_name(below(world, TOPICS)),
                              .id = id_name(below(world, IDS), id),
                              .body = slice_of("body"),
                              .priority =
                                  below(world, 2) ? (int32_t)below(world, 3) : QUEUE_PRIORITY_UNSET,
                              .on_conflict = (enum record_conflict)below(world, 4),
                              .when = {QUEUE_DUE_NOW, 0}};
    if (below(world, 3))
        push.when = (struct queue_when){QUEUE_DUE_DELAY, below(world, 500)};
    else if (below(world, 2))
        push.when = (struct queue_when){QUEUE_DUE_AT, world->now.wall_ms + below(world, 500)};
    if (!below(world, 4))
        push.policy =
            (struct policy){.max_attempts = 1 + below(world, 2), .ttl_ms = 1 + below(world, 300)};
    engine_push(world->engine, &push, world->now, &result);
}

static void take_some(struct world *world)
{
    struct engine_view views[8];
    size_t got = engine_take(world->engine, topic_name(below(world, TOPICS)), 1 + below(world, 8),
                             SIZE_MAX, 200, world->now, views);
    for (size_t i = 0; i < got; i++) {
        if (world->lease_count < 64)
            world->leases[world->lease_count++] =
                (struct engine_lease){.key_low = views[i].key.low, .delivery = views[i].delivery};
        engine_view_fini(&views[i]);
    }
}

static void answer_one(struct world *world)
{
    static const enum queue_verb verbs[] = {QUEUE_ACK, QUEUE_NACK, QUEUE_EXTEND, QUEUE_RETURN};
    struct queue_result result = {0};
    if (!world->lease_count)
        return;
    size_t at = below(world, (unsigned)world->lease_count);
    struct queue_answer answer = {.verb = verbs[below(world, 4)],
                                  .delay_ms = below(world, 2) ? -1 : (int64_t)below(world, 100),
                                  .final = !below(world, 8),
                                  .error = slice_of("no")};
    engine_answer(world->engine, &world->leases[at], &answer, world->now, &result);
    if (answer.verb != QUEUE_EXTEND)
        world->leases[at] = world->leases[--world->lease_count];
}

static void change_one(struct world *world)
{
    static const enum queue_change_verb verbs[] = {QUEUE_CANCEL, QUEUE_RESCHEDULE, QUEUE_RUN};
    char id[8];
    struct queue_result result = {0};
    struct queue_change change = {.verb = verbs[below(world, 3)],
                                  .topic = topic_name(below(world, TOPICS)),
                                  .id = id_name(below(world, IDS), id),
                                  .when = {QUEUE_DUE_DELAY, below(world, 300)},
                                  .priority = QUEUE_PRIORITY_UNSET};
    engine_change(world->engine, &change, world->now, &result);
}

static void walk_all(struct world *world, enum walk_kind kind)
{
    struct slice topic = topic_name(below(world, TOPICS));
    struct walk walk = {.kind = kind, .topic_bytes = topic.len, .limit = 5};
    memcpy(walk.topic, topic.at, topic.len);
    if (walk_init(&walk, world->engine))
        while (!walk_step(&walk, world->engine, world->now, 7, 3))
            engine_check(world->engine);
    walk_fini(&walk);
    if (kind == WALK_DELETE)
        engine_topic_remove(world->engine, topic);
}

static void set_topic(struct world *world)
{
    struct topic_settings settings = {.dedup_window_ms = below(world, 2) ? 300 : 0,
                                      .dead_letter_expired = below(world, 2),
                                      .extension = slice_of(below(world, 2) ? "{\"a\":1}" : "")};
    struct slice topic = topic_name(below(world, TOPICS));
    engine_topic_put(world->engine, topic, &settings);
    engine_topic_pause(world->engine, topic, !below(world, 4));
}

static void step(struct world *world)
{
    unsigned what = below(world, 100);
    if (what < 35)
        push_one(world);
    else if (what < 55)
        take_some(world);
    else if (what < 75)
        answer_one(world);
    else if (what < 85)
        change_one(world);
    else if (what < 88)
        set_topic(world);
    else if (what < 90)
        walk_all(world, WALK_LIST);
    else if (what < 91)
        walk_all(world, WALK_REDRIVE);
    else if (what < 92)
        walk_all(world, below(world, 2) ? WALK_PURGE : WALK_DELETE);
    else {
        int64_t ms = below(world, 120);
        world->now.inner_ms += ms;
        world->now.wall_ms += ms;
        while (engine_next_ms(world->engine) <= world->now.inner_ms)
            engine_advance(world->engine, world->now, 1 + below(world, 20));
    }
}

static struct world open_world(uint64_t seed)
{
    struct world world = {.now = {START_MS, START_MS + 500, 500}, .random = {seed}};
    return world;
}

static void assert_same(struct world *world, struct engine *other)
{
    for (unsigned t = 0; t < TOPICS; t++) {
        struct queue_topic a = {0}, b = {0};
        bool has_a = engine_topic_show(world->engine, topic_name(t), world->now, &a);
        assert_int_equal(has_a, engine_topic_show(other, topic_name(t), world->now, &b));
        assert_memory_equal(&a.counts, &b.counts, sizeof a.counts);
        assert_int_equal(a.totals.pushed, b.totals.pushed);
        assert_int_equal(a.totals.acked, b.totals.acked);
        assert_int_equal(a.totals.cancelled, b.totals.cancelled);
        assert_int_equal(a.totals.expired, b.totals.expired);
        assert_int_equal(a.paused, b.paused);
        assert_true(slice_equals(a.settings.extension, b.settings.extension));
        for (unsigned i = 0; i < IDS; i++) {
            char text[8];
            struct engine_view x, y;
            bool has_x =
                engine_find(world->engine, topic_name(t), id_name(i, text), world->now, &x);
            assert_int_equal(has_x,
                             engine_find(other, topic_name(t), id_name(i, text), world->now, &y));
            if (!has_x)
                continue;
            assert_int_equal(x.state, y.state);
            assert_int_equal(x.attempt, y.attempt);
            assert_int_equal(x.due_ms, y.due_ms);
            assert_int_equal(x.lease_until_ms, y.lease_until_ms);
            assert_int_equal(x.delivery, y.delivery);
            assert_int_equal(x.priority, y.priority);
            assert_int_equal(x.place.at, y.place.at);
            assert_int_equal(x.error_bytes, y.error_bytes);
            assert_int_equal(x.history_bytes, y.history_bytes);
            if (x.text)
                assert_memory_equal(x.text, y.text, x.history_bytes + x.error_bytes);
            engine_view_fini(&x);
            engine_view_fini(&y);
        }
    }
}

static void catch_up(struct world *world, struct engine *engine)
{
    while (engine_next_ms(engine) <= world->now.inner_ms)
        engine_advance(engine, world->now, 100);
}

static void random_commands_keep_every_invariant_and_replay_to_the_same_state(void **state)
{
    (void)state;
    uint64_t seed = seed_random(__func__).state;
    for (unsigned run = 0; run < 60; run++) {
        struct world world = open_world(seed + run);
        world.engine = open_engine(&world.log, world.now);
        engine_start(world.engine, 1);
        for (unsigned i = 0; i < 400; i++) {
            step(&world);
            engine_check(world.engine);
        }
        catch_up(&world, world.engine);
        struct log kept;
        struct engine *again = replay(&world.log, 0, &kept, world.now);
        catch_up(&world, again); /* remembered ids whose time is over */
        assert_same(&world, again);
        /* What the engine still needs is what a replay finds it needs. */
        for (size_t at = 0; at < world.log.count; at++)
            assert_int_equal(world.log.kept[at], kept.kept[at]);
        engine_free(again);
        free(kept.kept);
        again = replay_often(&world.log, 0, &kept, world.now, 2);
        catch_up(&world, again);
        assert_same(&world, again);
        engine_free(again);
        free(kept.kept);
        engine_free(world.engine);
        log_free(&world.log);
    }
}

/* The older half of the log is carried forward and dropped, as the store does with an old file. */
static void old_records_can_go_once_they_are_carried_forward(void **state)
{
    (void)state;
    uint64_t seed = seed_random(__func__).state;
    for (unsigned run = 0; run < 60; run++) {
        struct world world = open_world(seed + 1000 + run);
        world.engine = open_engine(&world.log, world.now);
        engine_start(world.engine, 1);
        for (unsigned i = 0; i < 200; i++)
            step(&world);
        size_t half = world.log.count;
        /* as at the beginning of a new file */
        bool through = false;
        uint32_t topics_at = 0;
        for (unsigned i = 0; i < 100 || !through; i++) {
            if (!through)
                through = engine_carry_topics(world.engine, &topics_at, 1 + run % 3);
            step(&world);
        }
        for (size_t at = 0; at < half; at++) {
            struct record_place place;
            struct record record = record_at(&world.log, at, &place);
            engine_carry(world.engine, &record, place);
            engine_check(world.engine);
        }
        for (size_t at = 0; at < half; at++)
            assert_false(world.log.kept[at]);
        catch_up(&world, world.engine);
        struct log kept;
        struct engine *again = replay(&world.log, half, &kept, world.now);
        assert_same(&world, again);
        engine_free(again);
        free(kept.kept);
        engine_free(world.engine);
        log_free(&world.log);
    }
}

/* ---- single claims ---- */

static struct world open_plain(void)
{
    return open_world(1);
}

static struct queue_result push_at(struct world *world, const char *id, struct queue_when when)
{
    struct queue_result result = {0};
    struct queue_push push = {
        .topic = topic_name(0), .id = slice_of(id), .priority = QUEUE_PRIORITY_UNSET, .when = when};
    engine_push(world->engine, &push, world->now, &result);
    return result;
}

static size_t take_count(struct world *world)
{
    struct engine_view views[8];
    engine_advance(world->engine, world->now, 100);
    size_t got = engine_take(world->engine, topic_name(0), 8, SIZE_MAX, 0, world->now, views);
    for (size_t i = 0; i < got; i++)
        engine_view_fini(&views[i]);
    return got;
}

static void close_world(struct world *world)
{
    engine_check(world->engine);
    engine_free(world->engine);
    log_free(&world->log);
}

static void a_step_of_the_wall_clock_moves_no_relative_delay(void **state)
{
    (void)state;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_DELAY, 1000});
    world.now.wall_ms += 3600 * 1000;
    world.now.skew_ms += 3600 * 1000;
    assert_int_equal(take_count(&world), 0);
    world.now.wall_ms -= 7200 * 1000;
    world.now.skew_ms -= 7200 * 1000;
    world.now.inner_ms += 1000;
    world.now.wall_ms += 1000;
    assert_int_equal(take_count(&world), 0); /* pushed within this millisecond: rounded up */
    world.now.inner_ms += 1;
    world.now.wall_ms += 1;
    assert_int_equal(take_count(&world), 1);
    close_world(&world);
}

static void an_absolute_due_follows_the_wall_clock_both_ways(void **state)
{
    (void)state;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_AT, world.now.wall_ms + 10000});
    push_at(&world, "b", (struct queue_when){QUEUE_DUE_AT, world.now.wall_ms + 20000});
    /* Set back by 5 s: after 10 s of elapsed time it is not yet that time of day. */
    world.now.wall_ms -= 5000;
    world.now.skew_ms -= 5000;
    world.now.inner_ms += 10000;
    world.now.wall_ms += 10000;
    assert_int_equal(take_count(&world), 0);
    world.now.inner_ms += 5000;
    world.now.wall_ms += 5000;
    assert_int_equal(take_count(&world), 1);
    /* Set forward by 10 s: it is that time of day at once. */
    world.now.wall_ms += 10000;
    world.now.skew_ms += 10000;
    assert_int_equal(take_count(&world), 1);
    close_world(&world);
}

static void a_delay_of_ten_years_and_one_above_2_to_the_32_ms_wait(void **state)
{
    (void)state;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "years", (struct queue_when){QUEUE_DUE_DELAY, POLICY_DELAY_MS_MAX});
    push_at(&world, "weeks", (struct queue_when){QUEUE_DUE_DELAY, (1LL << 32) + 5});
    assert_int_equal(
        push_at(&world, "far",
                (struct queue_when){QUEUE_DUE_AT, world.now.wall_ms + POLICY_DELAY_MS_MAX + 1})
            .status,
        QUEUE_BAD_OPTION);
    world.now.inner_ms += 1LL << 32;
    world.now.wall_ms += 1LL << 32;
    catch_up(&world, world.engine);
    assert_int_equal(take_count(&world), 0);
    world.now.inner_ms += 6;
    catch_up(&world, world.engine);
    assert_int_equal(take_count(&world), 1);
    world.now.inner_ms = START_MS + POLICY_DELAY_MS_MAX;
    catch_up(&world, world.engine);
    assert_int_equal(take_count(&world), 0);
    world.now.inner_ms += 1;
    catch_up(&world, world.engine);
    assert_int_equal(take_count(&world), 1);
    close_world(&world);
}

static void delivery_numbers_rise_over_a_restart_that_lost_the_last_records(void **state)
{
    (void)state;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    struct engine_view before, after;
    size_t durable = world.log.count;
    assert_int_equal(engine_take(world.engine, topic_name(0), 1, SIZE_MAX, 0, world.now, &before),
                     1);
    struct log cut = world.log, kept;
    cut.count = durable; /* the take never reached the disk */
    struct engine *again = replay(&cut, 0, &kept, world.now);
    free(kept.kept);
    kept = (struct log){0};
    /* From here on the second engine appends for itself. */
    struct engine_lease old = {.key_low = before.key.low, .delivery = before.delivery};
    struct queue_answer ack = {.verb = QUEUE_ACK};
    struct queue_result result = {0};
    assert_int_equal(engine_take(again, topic_name(0), 1, SIZE_MAX, 0, world.now, &after), 1);
    assert_true(after.delivery > before.delivery);
    engine_view_fini(&before);
    engine_view_fini(&after);
    engine_answer(again, &old, &ack, world.now, &result);
    assert_int_equal(result.status, QUEUE_LEASE_ENDED);
    engine_free(again);
    log_free(&kept);
    close_world(&world);
}

/* ---- attempts that end ---- */

static struct engine_lease take_for(struct world *world, int64_t lease_ms)
{
    struct engine_view view;
    engine_advance(world->engine, world->now, 100);
    assert_int_equal(
        engine_take(world->engine, topic_name(0), 1, SIZE_MAX, lease_ms, world->now, &view), 1);
    engine_view_fini(&view);
    return (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
}

static void answer_with(struct world *world, const struct engine_lease *lease,
                        struct queue_answer answer)
{
    struct queue_result result = {0};
    engine_answer(world->engine, lease, &answer, world->now, &result);
    assert_int_equal(result.status, QUEUE_OK);
}

/* The only attempt in the history of "a". */
static struct job_attempt first_attempt(struct world *world)
{
    struct engine_view view;
    struct job_attempt attempt = {0};
    struct job job;
    size_t at = 0;
    assert_true(engine_find(world->engine, topic_name(0), slice_of("a"), world->now, &view));
    engine_show(&view, &job);
    assert_true(job_history_next(job.history, &at, &attempt));
    assert_int_equal(at, job.history.len);
    attempt.error = (struct slice){0};
    engine_view_fini(&view);
    return attempt;
}

/* Where the wall clock was set meanwhile the start is told as that clock would have had it. */
static void an_attempt_s_start_is_shown_by_the_wall_clock_there_is(void **state)
{
    (void)state;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    int64_t taken_ms = world.now.wall_ms;
    struct engine_lease lease = take_for(&world, 60000);
    world.now.inner_ms += 2500;
    world.now.wall_ms += 2500 + 3600 * 1000;
    world.now.skew_ms += 3600 * 1000;
    answer_with(&world, &lease, (struct queue_answer){.verb = QUEUE_NACK, .delay_ms = -1});
    struct job_attempt attempt = first_attempt(&world);
    assert_int_equal(attempt.started_ms, taken_ms + 3600 * 1000);
    assert_int_equal(attempt.duration_ms, 2500);
    close_world(&world);
}

/* As an older version left it: its records do not say when a job was taken. */
static void a_lease_of_an_older_version_is_taken_for_one_of_the_usual_length(void **state)
{
    (void)state;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    take_for(&world, 0);
    struct log kept;
    for (size_t at = 0; at < world.log.count; at++) {
        struct record_place place;
        struct record record = record_at(&world.log, at, &place);
        if (record.kind != RECORD_STATE)
            continue;
        assert_true(record.state.taken_ms > 0);
        record.state.taken_ms = 0;
        world.log.bytes[at] = record_encode(&record, world.log.records[at]);
    }
    struct engine *again = replay(&world.log, 0, &kept, world.now);
    engine_free(world.engine);
    free(kept.kept);
    kept = (struct log){0};
    world.engine = again;
    int64_t taken_ms = world.now.wall_ms;
    world.now.inner_ms += 100000;
    world.now.wall_ms += 100000;
    engine_advance(world.engine, world.now, 10);
    struct job_attempt attempt = first_attempt(&world);
    assert_int_equal(attempt.outcome, JOB_OUTCOME_LEASE_ENDED);
    assert_int_equal(attempt.started_ms, taken_ms);
    assert_int_equal(attempt.duration_ms, POLICY_LEASE_MS + 1);
    engine_free(world.engine);
    log_free(&kept);
    log_free(&world.log);
}

static void a_leased_job_carried_forward_knows_when_it_was_taken(void **state)
{
    (void)state;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    int64_t taken_ms = world.now.wall_ms;
    struct engine_lease lease = take_for(&world, 5000);
    struct record_place place;
    struct record record = record_at(&world.log, 0, &place);
    assert_int_equal(record.kind, RECORD_JOB);
    size_t before = world.log.count;
    uint32_t topics_at = 0;
    assert_true(engine_carry_topics(world.engine, &topics_at, 10));
    engine_carry(world.engine, &record, place);
    struct log kept;
    struct engine *again = replay(&world.log, before, &kept, world.now);
    engine_free(world.engine);
    free(kept.kept);
    kept = (struct log){0};
    world.engine = again;
    world.now.inner_ms += 700;
    world.now.wall_ms += 700;
    struct queue_result result = {0};
    struct queue_answer nack = {.verb = QUEUE_NACK, .delay_ms = -1};
    engine_answer(world.engine, &lease, &nack, world.now, &result);
    assert_int_equal(result.status, QUEUE_OK);
    struct job_attempt attempt = first_attempt(&world);
    assert_int_equal(attempt.started_ms, taken_ms);
    assert_int_equal(attempt.duration_ms, 700);
    engine_free(world.engine);
    log_free(&kept);
    log_free(&world.log);
}

static void only_topics_with_an_extension_tell_of_their_dead(void **state)
{
    (void)state;
    struct topic_settings settings = {.policy.max_attempts = 1};
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    for (size_t round = 0; round < 2; round++) {
        engine_topic_put(world.engine, topic_name(0), &settings);
        push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
        struct engine_lease lease = take_for(&world, 1000);
        answer_with(&world, &lease, (struct queue_answer){.verb = QUEUE_NACK});
        push_at(&world, "b", (struct queue_when){QUEUE_DUE_NOW, 0});
        take_for(&world, 1000);
        world.now.inner_ms += 2000;
        engine_advance(world.engine, world.now, 10);
        assert_int_equal(world.log.told_died, 2 * round);
        settings.extension = slice_of("{}");
    }
    close_world(&world);
}

/* Memory that others think theirs: a put that hands in what a show gave out. */
static void a_topic_s_extension_may_be_put_from_what_was_shown(void **state)
{
    (void)state;
    struct topic_settings settings = {.extension = slice_of("{\"kept\":true}")};
    struct queue_topic shown;
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    engine_topic_put(world.engine, topic_name(0), &settings);
    for (int i = 0; i < 2; i++) {
        assert_true(engine_topic_show(world.engine, topic_name(0), world.now, &shown));
        assert_true(slice_is(shown.settings.extension, "{\"kept\":true}"));
        shown.settings.dedup_window_ms = 1000;
        assert_int_equal(engine_topic_put(world.engine, topic_name(0), &shown.settings), QUEUE_OK);
    }
    close_world(&world);
}

static void the_room_asked_for_holds_the_largest_records(void **state)
{
    static char text[TOPIC_EXTENSION_BYTES_MAX], name[JOB_TOPIC_BYTES_MAX];
    struct record record = {.kind = RECORD_TOPIC};
    (void)state;
    memset(text, 'x', sizeof text);
    memset(name, 't', sizeof name);
    record.topic.topic = slice_make(name, sizeof name);
    record.topic.settings.extension = slice_make(text, sizeof text);
    assert_true(record_bytes_max(&record) <= ENGINE_TOPIC_BYTES_MAX);
    record = (struct record){.kind = RECORD_STATE};
    record.state.error = slice_make(text, JOB_ERROR_BYTES_MAX);
    assert_true(record_bytes_max(&record) <= ENGINE_STATE_BYTES_MAX);
    record = (struct record){.kind = RECORD_JOB};
    record.job.topic = slice_make(name, sizeof name);
    size_t room = engine_room_carry(&record);
    record.job.error = slice_make(text, JOB_ERROR_BYTES_MAX);
    record.job.history = slice_make(text, JOB_HISTORY_BYTES_MAX);
    assert_true(record_bytes_max(&record) <= room);
    struct queue_push push = {.topic = record.job.topic,
                              .past.error = slice_make(text, JOB_ERROR_BYTES_MAX)};
    record.job.history = (struct slice){0};
    record.job.id = slice_make(name, JOB_ID_BYTES_MAX);
    assert_true(record_bytes_max(&record) <= engine_room_push(&push));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_commands_keep_every_invariant_and_replay_to_the_same_state),
        cmocka_unit_test(old_records_can_go_once_they_are_carried_forward),
        cmocka_unit_test(a_step_of_the_wall_clock_moves_no_relative_delay),
        cmocka_unit_test(an_absolute_due_follows_the_wall_clock_both_ways),
        cmocka_unit_test(a_delay_of_ten_years_and_one_above_2_to_the_32_ms_wait),
        cmocka_unit_test(delivery_numbers_rise_over_a_restart_that_lost_the_last_records),
        cmocka_unit_test(an_attempt_s_start_is_shown_by_the_wall_clock_there_is),
        cmocka_unit_test(a_lease_of_an_older_version_is_taken_for_one_of_the_usual_length),
        cmocka_unit_test(a_leased_job_carried_forward_knows_when_it_was_taken),
        cmocka_unit_test(only_topics_with_an_extension_tell_of_their_dead),
        cmocka_unit_test(a_topic_s_extension_may_be_put_from_what_was_shown),
        cmocka_unit_test(the_room_asked_for_holds_the_largest_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
