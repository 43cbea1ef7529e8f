/* Thousands of jobs: more than the key index begins with, more than one step reads. */
#include "engine/stored.h"
#include "engine_rig.h"
#include "unit/claim.h"

enum { JOBS = 10000, AT_MS = 10000 };

static char id_text[16];

static struct slice id_of(unsigned job)
{
    snprintf(id_text, sizeof id_text, "job-%u", job);
    return slice_of(id_text);
}

static void open_crowd(struct world *world, struct queue_when when)
{
    *world = open_world(1);
    world->engine = open_engine(&world->log, world->now);
    engine_start(world->engine, 1);
    for (unsigned job = 0; job < JOBS; job++) {
        struct queue_result result = {0};
        const struct queue_push push = {.topic = topic_name(0),
                                        .id = id_of(job),
                                        .priority = QUEUE_PRIORITY_UNSET,
                                        .when = when};
        engine_push(world->engine, &push, world->now, &result);
        assert_int_equal(result.status, QUEUE_CREATED);
    }
}

static uint64_t ready_count(struct world *world)
{
    struct queue_topic shown;
    assert_true(engine_topic_show(world->engine, topic_name(0), world->now, &shown));
    assert_int_equal(shown.counts.ready + shown.counts.delayed, JOBS);
    return shown.counts.ready;
}

CLAIM(exactly_all_jobs_are_found_after_a_restart)
{
    static struct hash128 keys[JOBS];
    static bool knows[JOBS];
    struct world world;
    struct log own;
    open_crowd(&world, (struct queue_when){QUEUE_DUE_DELAY, AT_MS});
    struct engine *again = replay(&world.log, &own, world.now);
    for (unsigned job = 0; job < JOBS; job++) {
        struct engine_view view;
        assert_true(engine_find(again, topic_name(0), id_of(job), world.now, &view));
        assert_int_equal(view.place.at, job);
        engine_view_fini(&view);
        keys[job] = engine_key(again, topic_name(0), id_of(job % 2 ? job : JOBS + job));
    }
    engine_know(again, keys, JOBS, knows);
    for (unsigned job = 0; job < JOBS; job++)
        assert_int_equal(knows[job], job % 2);
    engine_free(again);
    log_free(&own);
    close_world(&world);
}

static void step_wall_clock(struct world *world, int64_t ms)
{
    world->now.wall_ms += ms;
    world->now.skew_ms += ms;
}

/* Jobs that were checked by then are checked again. */
CLAIM(a_second_clock_step_restarts_the_retiming)
{
    struct world world;
    open_crowd(&world, (struct queue_when){QUEUE_DUE_AT, START_MS + 500 + AT_MS});
    step_wall_clock(&world, 3 * AT_MS);
    engine_advance(world.engine, world.now, 0);
    uint64_t first = ready_count(&world);
    assert_true(first > 0 && first < JOBS);
    assert_int_equal(engine_next_ms(world.engine), 0); /* it continues */
    step_wall_clock(&world, -AT_MS);
    engine_advance(world.engine, world.now, 0);
    assert_true(ready_count(&world) < JOBS);
    catch_up(&world, world.engine);
    assert_int_equal(ready_count(&world), JOBS);
    assert_int_equal(engine_next_ms(world.engine), INT64_MAX);
    close_world(&world);
}

/* Also while jobs are retimed. */
CLAIM(a_step_back_makes_no_job_early)
{
    struct world world;
    open_crowd(&world, (struct queue_when){QUEUE_DUE_AT, START_MS + 500 + AT_MS});
    step_wall_clock(&world, -AT_MS);
    engine_advance(world.engine, world.now, 0);
    assert_int_equal(engine_next_ms(world.engine), 0); /* it continues */
    world.now.inner_ms += AT_MS;
    world.now.wall_ms += AT_MS;
    catch_up(&world, world.engine);
    assert_int_equal(ready_count(&world), 0);
    world.now.inner_ms += AT_MS;
    world.now.wall_ms += AT_MS;
    catch_up(&world, world.engine);
    assert_int_equal(ready_count(&world), JOBS);
    close_world(&world);
}

static size_t take_up_to(struct world *world, uint32_t max, size_t bytes_max)
{
    static struct engine_view views[JOBS];
    size_t taken = engine_take(world->engine, topic_name(0), max, bytes_max, 60000,
                               (struct slice){0}, world->now, views);
    for (size_t i = 0; i < taken; i++)
        engine_view_fini(&views[i]);
    return taken;
}

CLAIM(a_take_stops_at_its_byte_limit_except_for_the_first_job)
{
    struct world world;
    open_crowd(&world, (struct queue_when){QUEUE_DUE_NOW, 0});
    size_t bytes = world.log.bytes[0];
    assert_int_equal(take_up_to(&world, 10, 1), 1);
    assert_int_equal(take_up_to(&world, 10, 3 * bytes), 3);
    assert_int_equal(take_up_to(&world, 10, SIZE_MAX), 10);
    assert_int_equal(take_up_to(&world, 0, SIZE_MAX), 0);
    close_world(&world);
}

/* Its heap has given memory back meanwhile. */
CLAIM(a_crowd_that_drains_goes_in_its_order_to_the_last)
{
    struct world world;
    open_crowd(&world, (struct queue_when){QUEUE_DUE_NOW, 0});
    for (unsigned job = 0; job < JOBS; job++) {
        struct engine_view view;
        assert_int_equal(engine_take(world.engine, topic_name(0), 1, SIZE_MAX, 60000,
                                     (struct slice){0}, world.now, &view),
                         1);
        assert_int_equal(view.place.at, job);
        engine_view_fini(&view);
        struct engine_lease lease = {.key_low = view.key.low, .delivery = view.delivery};
        struct queue_answer ack = {.verb = QUEUE_ACK};
        struct queue_result result = {0};
        engine_answer(world.engine, &lease, &ack, world.now, &result);
        assert_int_equal(result.status, QUEUE_OK);
    }
    assert_false(engine_topic_has_ready(world.engine, topic_name(0)));
    close_world(&world);
}

CLAIMS_MAIN(NULL, NULL)
