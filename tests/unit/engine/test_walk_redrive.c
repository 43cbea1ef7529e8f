/* A redrive, job by job as they come to memory: whom it takes, whom it leaves to the next one, and
 * when it has enough. */
#include "engine/stored.h"
#include "engine_rig.h"
#include "unit/claim.h"

enum { AT_ONCE = 100 };

/* Jobs give up after one attempt. */
static void open_topic(struct world *world)
{
    const struct topic_settings settings = {.policy.max_attempts = 1};

    *world = open_world(1);
    world->engine = open_engine(&world->log, world->now);
    engine_start(world->engine, 1);
    assert_int_equal(engine_topic_put(world->engine, topic_name(0), &settings), QUEUE_CREATED);
}

static void push_to(struct world *world, const char *id)
{
    struct queue_result result = {0};
    const struct queue_push push = {.topic = topic_name(0),
                                    .id = slice_of(id),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .when = {QUEUE_DUE_NOW, 0}};

    engine_push(world->engine, &push, world->now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
}

static struct engine_lease take_of(struct world *world)
{
    struct engine_view view;

    assert_int_equal(engine_take(world->engine, topic_name(0), 1, SIZE_MAX, 1000, (struct slice){0},
                                 world->now, &view),
                     1);
    engine_view_fini(&view);
    return (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
}

static void nack(struct world *world, struct engine_lease lease)
{
    const struct queue_answer answer = {.verb = QUEUE_NACK, .error = slice_of("no")};
    struct queue_result result = {0};

    engine_answer(world->engine, &lease, &answer, world->now, &result);
    assert_int_equal(result.status, QUEUE_OK);
}

static void push_dead(struct world *world, const char *id)
{
    push_to(world, id);
    nack(world, take_of(world));
}

static void push_imported(struct world *world, const char *id, int64_t delay_ms)
{
    struct queue_result result = {0};
    const struct queue_push push = {.topic = topic_name(0),
                                    .id = slice_of(id),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .when = {QUEUE_DUE_DELAY, delay_ms},
                                    .past = {.dead = true}};

    engine_push(world->engine, &push, world->now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
}

static struct walk begin(struct world *world)
{
    const struct slice name = topic_name(0);
    struct walk walk = {.kind = WALK_REDRIVE, .topic_bytes = name.len};

    memcpy(walk.topic, name.at, name.len);
    assert_true(walk_init(&walk, world->engine));
    return walk;
}

static bool takes(struct world *world, struct walk *walk, const char *id)
{
    uint64_t before = walk->affected;

    walk_one(walk, world->engine, engine_key(world->engine, topic_name(0), slice_of(id)),
             world->now);
    engine_check(world->engine);
    return walk->affected != before;
}

static void pass(struct world *world, int64_t ms)
{
    world->now.inner_ms += ms;
    world->now.wall_ms += ms;
    engine_advance(world->engine, world->now, AT_ONCE);
}

CLAIM(jobs_pushed_or_delivered_since_the_start_are_left_to_the_next_redrive)
{
    struct engine_lease lease;
    struct world world;
    struct walk walk;

    open_topic(&world);
    push_dead(&world, "a");
    push_to(&world, "leased");
    lease = take_of(&world);
    walk = begin(&world);
    push_dead(&world, "delivered");
    push_imported(&world, "pushed", 0);
    assert_false(takes(&world, &walk, "delivered"));
    assert_false(takes(&world, &walk, "pushed"));
    nack(&world, lease);
    assert_true(takes(&world, &walk, "leased")); /* it may: once */
    nack(&world, take_of(&world));
    assert_false(takes(&world, &walk, "leased"));
    assert_true(takes(&world, &walk, "a"));
    close_world(&world);
}

CLAIM(jobs_that_expired_again_are_left_to_the_next_redrive)
{
    const struct topic_settings settings = {.policy.ttl_ms = 100, .dead_letter_expired = true};
    struct world world;
    struct walk walk;

    open_topic(&world);
    assert_int_equal(engine_topic_put(world.engine, topic_name(0), &settings), QUEUE_OK);
    push_to(&world, "a");
    push_to(&world, "b");
    pass(&world, 101);
    walk = begin(&world);
    assert_true(takes(&world, &walk, "a"));
    pass(&world, 101);
    assert_true(takes(&world, &walk, "a")); /* it was ready the moment the redrive began */
    pass(&world, 101);
    assert_false(takes(&world, &walk, "a"));
    assert_true(takes(&world, &walk, "b"));
    close_world(&world);
}

CLAIM(the_due_time_of_an_imported_job_is_ignored)
{
    struct world world;
    struct walk walk;

    open_topic(&world);
    push_imported(&world, "a", 5000);
    push_imported(&world, "b", 0);
    walk = begin(&world);
    assert_true(takes(&world, &walk, "b"));
    pass(&world, 5001);
    assert_true(takes(&world, &walk, "a")); /* though that passed meanwhile */
    close_world(&world);
}

CLAIM(ends_without_dead_jobs_or_after_the_requested_number)
{
    struct world world;
    struct walk walk;

    open_topic(&world);
    walk = begin(&world);
    assert_true(walk_has_enough(&walk, world.engine));
    walk.kind = WALK_PURGE;
    assert_false(walk_has_enough(&walk, world.engine));
    push_dead(&world, "a");
    push_dead(&world, "b");
    walk = begin(&world);
    assert_false(walk_has_enough(&walk, world.engine));
    walk.max = 1;
    assert_true(takes(&world, &walk, "a"));
    assert_true(walk_has_enough(&walk, world.engine));
    walk.max = 0;
    assert_false(walk_has_enough(&walk, world.engine));
    assert_true(takes(&world, &walk, "b"));
    assert_true(walk_has_enough(&walk, world.engine));
    close_world(&world);
}

CLAIMS_MAIN(NULL, NULL)
