/* The engine under random commands: its invariants after every step, and the same state again from
 * its records. */
#include "engine_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum { IDS = 40 };

static struct slice id_name(unsigned number, char text[8])
{
    snprintf(text, 8, "id-%u", number % IDS);
    return slice_of(text);
}

/* ---- random commands ---- */

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
                             SIZE_MAX, 200, (struct slice){0}, world->now, views);
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
    if (below(world, 4))
        engine_topic_resume(world->engine, topic);
    else
        engine_topic_pause(world->engine, topic,
                           below(world, 2) ? world->now.inner_ms + 1 + (int64_t)below(world, 500)
                                           : 0);
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

/* ---- claims ---- */

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

CLAIM(random_commands_keep_every_invariant_and_replay_to_the_same_state)
{
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
        struct log own;
        struct engine *again = replay(&world.log, &own, world.now);
        catch_up(&world, again); /* remembered ids after their window */
        assert_same(&world, again);
        engine_free(again);
        log_free(&own);
        again = replay_often(&world.log, &own, world.now, 2);
        catch_up(&world, again);
        assert_same(&world, again);
        engine_free(again);
        log_free(&own);
        engine_free(world.engine);
        log_free(&world.log);
    }
}

CLAIMS_MAIN(NULL, NULL)
