/* A lease is one delivery of one job, and ends when it was to end. */
#include "engine_rig.h"
#include "unit/claim.h"

enum { LEASE_MS = 100 };

static void start(struct world *world)
{
    *world = open_world(1);
    struct queue_result result = {0};
    world->engine = open_engine(&world->log, world->now);
    engine_start(world->engine, 1);
    struct queue_push push = {
        .topic = topic_name(0), .id = slice_of("job"), .priority = QUEUE_PRIORITY_UNSET};
    engine_push(world->engine, &push, world->now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
}

static struct engine_lease take(struct world *world)
{
    struct engine_view view;
    catch_up(world, world->engine);
    assert_int_equal(engine_take(world->engine, topic_name(0), 1, SIZE_MAX, LEASE_MS,
                                 (struct slice){0}, world->now, &view),
                     1);
    engine_view_fini(&view);
    return (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
}

static enum queue_status answer(struct world *world, struct engine_lease lease,
                                enum queue_verb verb)
{
    struct queue_result result = {0};
    struct queue_answer answer = {.verb = verb, .delay_ms = 0, .error = slice_of("no")};
    engine_answer(world->engine, &lease, &answer, world->now, &result);
    return result.status;
}

static void pass(struct world *world, int64_t ms)
{
    world->now.inner_ms += ms;
    world->now.wall_ms += ms;
}

static struct queue_counts counts(struct world *world)
{
    struct engine_stats stats;
    engine_stats(world->engine, &stats);
    return stats.counts;
}

static const enum queue_verb verbs[] = {QUEUE_ACK, QUEUE_NACK, QUEUE_EXTEND, QUEUE_RETURN};

/* The wheel has not run since, so the job is still leased. */
CLAIM(an_answer_after_the_lease_end_has_no_effect_before_the_end_is_processed)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct world world;
        start(&world);
        struct engine_lease lease = take(&world);
        pass(&world, LEASE_MS); /* taken within its millisecond: rounded up */
        assert_int_equal(counts(&world).leased, 1);
        pass(&world, 1);
        assert_int_equal(counts(&world).leased, 1);
        assert_int_equal(answer(&world, lease, verbs[i]), QUEUE_LEASE_ENDED);
        catch_up(&world, world.engine);
        assert_int_equal(counts(&world).retrying, 1);
        close_world(&world);
    }
}

CLAIM(an_answer_in_a_lease_s_last_millisecond_counts)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct world world;
        start(&world);
        struct engine_lease lease = take(&world);
        pass(&world, LEASE_MS);
        assert_int_equal(answer(&world, lease, verbs[i]), QUEUE_OK);
        close_world(&world);
    }
}

CLAIM(an_answer_to_an_earlier_delivery_counts_for_nothing)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct world world;
        start(&world);
        struct engine_lease first = take(&world);
        assert_int_equal(answer(&world, first, QUEUE_RETURN), QUEUE_OK);
        struct engine_lease second = take(&world);
        assert_int_equal(answer(&world, first, verbs[i]), QUEUE_LEASE_ENDED);
        assert_int_equal(counts(&world).leased, 1);
        assert_int_equal(answer(&world, second, verbs[i]), QUEUE_OK);
        close_world(&world);
    }
}

/* A second engine, of the same log, `ms` later; leases from before last until `grace_ms` from then. */
static struct engine *restart(struct world *world, struct log *own, int64_t ms, int64_t grace_ms)
{
    pass(world, ms);
    struct engine *again = replay(&world->log, own, world->now);
    engine_keep_leases(again, world->now.inner_ms + grace_ms);
    return again;
}

CLAIM(a_lease_that_ended_while_the_server_was_away_lasts_as_long_as_its_grace)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct world world;
        struct log own;
        struct queue_result result = {0};
        start(&world);
        struct engine_lease lease = take(&world);
        struct engine *again = restart(&world, &own, 10 * LEASE_MS, 50);
        pass(&world, 49);
        catch_up(&world, again);
        struct queue_answer answer = {.verb = verbs[i], .error = slice_of("no"), .lease_ms = 7};
        engine_answer(again, &lease, &answer, world.now, &result);
        assert_int_equal(result.status, QUEUE_OK);
        engine_check(again);
        engine_free(again);
        log_free(&own);
        close_world(&world);
    }
}

CLAIM(it_ends_with_its_grace_and_is_shown_so)
{
    struct world world;
    struct log own;
    struct engine_view view;
    struct engine_stats stats;
    start(&world);
    take(&world);
    struct engine *again = restart(&world, &own, 10 * LEASE_MS, 50);
    int64_t until_ms = world.now.wall_ms + 50;
    assert_true(engine_find(again, topic_name(0), slice_of("job"), world.now, &view));
    assert_int_equal(view.lease_until_ms, until_ms);
    engine_view_fini(&view);
    pass(&world, 50);
    catch_up(&world, again);
    engine_stats(again, &stats);
    assert_int_equal(stats.counts.retrying, 1);
    engine_free(again);
    log_free(&own);
    close_world(&world);
}

CLAIM(leases_given_after_the_start_get_no_grace)
{
    struct world world;
    struct log own;
    struct engine_view view;
    struct engine_stats stats;
    start(&world);
    struct engine *again = restart(&world, &own, 10, 10 * LEASE_MS);
    catch_up(&world, again);
    assert_int_equal(engine_take(again, topic_name(0), 1, SIZE_MAX, LEASE_MS, (struct slice){0},
                                 world.now, &view),
                     1);
    assert_int_equal(view.lease_until_ms, world.now.wall_ms + 1 + LEASE_MS);
    engine_view_fini(&view);
    pass(&world, LEASE_MS + 1);
    catch_up(&world, again);
    engine_stats(again, &stats);
    assert_int_equal(stats.counts.retrying, 1);
    engine_free(again);
    log_free(&own);
    close_world(&world);
}

CLAIMS_MAIN(NULL, NULL)
