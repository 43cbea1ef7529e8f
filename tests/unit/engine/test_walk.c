/* Walks: what they meet and in which order, what they leave alone, and that a job which comes to
 * memory alone is treated as the walk would have. */
#include "engine/stored.h"
#include "engine_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum { JOBS = 60, DUES = 12, STEPS_MAX = 10000, WINDOW_MS = 60000 };

/* Jobs give up after one attempt, and ids are remembered. */
static void open_topics(struct world *world)
{
    const struct topic_settings settings = {.policy.max_attempts = 1, .dedup_window_ms = WINDOW_MS};

    *world = open_world(1);
    world->engine = open_engine(&world->log, world->now);
    engine_start(world->engine, 1);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(engine_topic_put(world->engine, topic_name(i), &settings), QUEUE_CREATED);
}

static void push_to(struct world *world, unsigned topic, const char *id, int64_t delay_ms)
{
    struct queue_result result = {0};
    const struct queue_push push = {.topic = topic_name(topic),
                                    .id = slice_of(id),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .when = {QUEUE_DUE_DELAY, delay_ms}};

    engine_push(world->engine, &push, world->now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
}

static struct engine_lease take_of(struct world *world, unsigned topic)
{
    struct engine_view view;

    assert_int_equal(engine_take(world->engine, topic_name(topic), 1, SIZE_MAX, 1000,
                                 (struct slice){0}, world->now, &view),
                     1);
    engine_view_fini(&view);
    return (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
}

static void answer_of(struct world *world, struct engine_lease lease, enum queue_verb verb)
{
    const struct queue_answer answer = {.verb = verb, .error = slice_of("no")};
    struct queue_result result = {0};

    engine_answer(world->engine, &lease, &answer, world->now, &result);
    assert_int_equal(result.status, QUEUE_OK);
}

static void push_dead(struct world *world, unsigned topic, const char *id)
{
    push_to(world, topic, id, 0);
    answer_of(world, take_of(world, topic), QUEUE_NACK);
}

/* Adds one job of each state: "delayed", "ready", "leased", "dead", and the id "finished" remembered. */
static void fill(struct world *world)
{
    push_dead(world, 0, "dead");
    push_to(world, 0, "finished", 0);
    answer_of(world, take_of(world, 0), QUEUE_ACK);
    push_to(world, 0, "leased", 0);
    take_of(world, 0);
    push_to(world, 0, "ready", 0);
    push_to(world, 0, "delayed", 5000);
    push_to(world, 1, "other", 0);
}

static struct walk walk_of(enum walk_kind kind, unsigned topic)
{
    const struct slice name = topic_name(topic);
    struct walk walk = {.kind = kind, .topic_bytes = name.len, .limit = JOBS};

    memcpy(walk.topic, name.at, name.len);
    return walk;
}

static void finish(struct world *world, struct walk *walk, size_t steps)
{
    size_t calls = 0;

    while (!walk_step(walk, world->engine, world->now, steps, 3)) {
        assert_true(calls++ < STEPS_MAX);
        engine_check(world->engine);
    }
    engine_check(world->engine);
}

static uint64_t walk_all(struct world *world, struct walk walk)
{
    assert_true(walk_init(&walk, world->engine));
    finish(world, &walk, 2);
    walk_fini(&walk);
    return walk.affected;
}

/* Returns the job's state, or 0 if it does not exist. */
static enum job_state state_of(struct world *world, unsigned topic, const char *id)
{
    struct engine_view view;

    if (!engine_find(world->engine, topic_name(topic), slice_of(id), world->now, &view))
        return 0;
    engine_view_fini(&view);
    return view.state;
}

static bool is_remembered(struct world *world, unsigned topic, const char *id)
{
    struct queue_result result = {0};
    const struct queue_push push = {.topic = topic_name(topic),
                                    .id = slice_of(id),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .when = {QUEUE_DUE_NOW, 0}};

    engine_push(world->engine, &push, world->now, &result);
    return result.status == QUEUE_EXISTED;
}

static struct queue_topic shown(struct world *world, unsigned topic)
{
    struct queue_topic out;

    assert_true(engine_topic_show(world->engine, topic_name(topic), world->now, &out));
    return out;
}

/* ---- lists ---- */

static struct walk list_of(struct world *world, struct walk walk, size_t steps)
{
    assert_true(walk_init(&walk, world->engine));
    finish(world, &walk, steps);
    return walk;
}

static bool comes_before(const struct queue_cursor *a, const struct engine_view *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->sequence < b->sequence;
}

CLAIM(list_pages_are_ordered_by_due_and_push_and_complete)
{
    struct random random = seed_random(__func__);
    struct queue_cursor last = {0};
    struct world world;
    size_t count = 0;
    bool more = true;
    char id[16];

    open_topics(&world);
    for (unsigned i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "id-%u", i);
        push_to(&world, 0, id, (int64_t)(1 + random_below(&random, DUES)) * 1000);
    }
    while (more) {
        struct walk walk = walk_of(WALK_LIST, 0);
        walk.limit = 1 + (uint32_t)random_below(&random, 9);
        walk.has_cursor = count > 0;
        walk.after = last;
        walk = list_of(&world, walk, 1 + random_below(&random, 20));
        for (size_t i = 0; i < walk.found.count; i++) {
            assert_true(comes_before(&last, &walk.found.at[i]));
            last = (struct queue_cursor){.due_ms = walk.found.at[i].due_ms,
                                         .sequence = walk.found.at[i].sequence};
        }
        count += walk.found.count;
        assert_true(walk.found.count == walk.limit || !walk.more);
        more = walk.more;
        walk_fini(&walk);
    }
    assert_int_equal(count, JOBS);
    close_world(&world);
}

/* Jobs of different shards may agree in due and number. */
CLAIM(a_cursor_of_a_lower_shard_precedes_the_job_of_the_same_place)
{
    struct world world;
    struct walk walk;

    open_topics(&world);
    push_to(&world, 0, "a", 1000);
    walk = list_of(&world, walk_of(WALK_LIST, 0), 10);
    assert_int_equal(walk.found.count, 1);
    struct walk next = walk_of(WALK_LIST, 0);
    next.has_cursor = true;
    next.after = (struct queue_cursor){
        .due_ms = walk.found.at[0].due_ms, .sequence = walk.found.at[0].sequence, .shard = 3};
    walk_fini(&walk);
    for (next.shard = 2; next.shard <= 4; next.shard++) {
        walk = list_of(&world, next, 10);
        assert_int_equal(walk.found.count, next.shard > 3);
        walk_fini(&walk);
    }
    close_world(&world);
}

CLAIM(a_list_of_a_state_shows_the_jobs_in_that_state)
{
    static const enum job_state states[] = {JOB_DELAYED, JOB_READY, JOB_LEASED, JOB_DEAD};
    struct world world;

    open_topics(&world);
    fill(&world);
    for (size_t i = 0; i <= sizeof states / sizeof states[0]; i++) {
        bool is_all = i == sizeof states / sizeof states[0];
        struct walk walk = walk_of(WALK_LIST, 0);
        walk.state = is_all ? 0 : states[i];
        walk = list_of(&world, walk, 3);
        assert_int_equal(walk.found.count, is_all ? 4 : 1);
        for (size_t at = 0; at < walk.found.count; at++)
            assert_true(is_all || walk.found.at[at].state == states[i]);
        walk_fini(&walk);
    }
    close_world(&world);
}

/* The topic's own count shows when all were met; after a change it no longer does. */
CLAIM(a_list_ends_with_the_last_job_there_is_to_meet)
{
    const struct queue_change cancel = {
        .verb = QUEUE_CANCEL, .topic = topic_name(0), .id = slice_of("a")};
    struct queue_result result = {0};
    struct world world;
    struct walk walk = walk_of(WALK_LIST, 0);
    char id[16];

    open_topics(&world);
    push_to(&world, 0, "a", 1000);
    for (unsigned i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "id-%u", i);
        push_to(&world, 1, id, 1000);
    }
    assert_true(walk_init(&walk, world.engine));
    assert_true(walk_step(&walk, world.engine, world.now, 1, 3)); /* spared the others */
    assert_int_equal(walk.found.count, 1);
    walk_fini(&walk);
    push_to(&world, 0, "b", 2000);
    walk = walk_of(WALK_LIST, 0);
    assert_true(walk_init(&walk, world.engine));
    assert_false(walk_step(&walk, world.engine, world.now, 1, 3));
    engine_change(world.engine, &cancel, world.now, &result);
    assert_int_equal(result.status, QUEUE_CANCELLED); /* as many are left as were met */
    finish(&world, &walk, 10);
    assert_int_equal(walk.found.count, 2);
    walk_fini(&walk);
    close_world(&world);
}

CLAIM(a_topic_that_goes_ends_the_walk_over_it)
{
    struct world world;
    struct walk walk = walk_of(WALK_PURGE, 2);

    open_topics(&world);
    assert_false(walk_init(&walk, world.engine)); /* never was */
    push_to(&world, 1, "stays", 1000);
    for (enum walk_kind kind = WALK_LIST; kind <= WALK_DELETE; kind++) {
        assert_true(engine_topic_put(world.engine, topic_name(2), &(struct topic_settings){0}) ==
                    QUEUE_CREATED);
        walk = walk_of(kind, 2);
        assert_true(walk_init(&walk, world.engine));
        assert_int_equal(engine_topic_remove(world.engine, topic_name(2)), QUEUE_OK);
        assert_true(walk_step(&walk, world.engine, world.now, 1, 3));
        assert_int_equal(walk.affected + walk.found.count, 0);
        walk_fini(&walk);
    }
    close_world(&world);
}

/* ---- purge, delete ---- */

CLAIM(a_purge_leaves_leased_jobs_remembered_ids_and_other_topics)
{
    struct world world;

    open_topics(&world);
    fill(&world);
    assert_int_equal(walk_all(&world, walk_of(WALK_PURGE, 0)), 3);
    assert_int_equal(state_of(&world, 0, "delayed"), 0);
    assert_int_equal(state_of(&world, 0, "ready"), 0);
    assert_int_equal(state_of(&world, 0, "dead"), 0);
    assert_int_equal(state_of(&world, 0, "leased"), JOB_LEASED);
    assert_int_equal(state_of(&world, 1, "other"), JOB_READY);
    assert_true(is_remembered(&world, 0, "finished"));
    assert_int_equal(shown(&world, 0).totals.cancelled, 3);
    close_world(&world);
}

CLAIM(a_purge_of_a_state_leaves_the_others)
{
    struct world world;
    struct walk walk = walk_of(WALK_PURGE, 0);

    open_topics(&world);
    fill(&world);
    walk.state = JOB_DEAD;
    assert_int_equal(walk_all(&world, walk), 1);
    assert_int_equal(state_of(&world, 0, "dead"), 0);
    assert_int_equal(state_of(&world, 0, "ready"), JOB_READY);
    assert_int_equal(state_of(&world, 0, "delayed"), JOB_DELAYED);
    close_world(&world);
}

CLAIM(a_purge_spares_later_pushes)
{
    struct world world;
    struct walk walk = walk_of(WALK_PURGE, 0);

    open_topics(&world);
    push_to(&world, 0, "a", 1000);
    push_to(&world, 0, "b", 1000);
    assert_true(walk_init(&walk, world.engine));
    push_to(&world, 0, "late", 1000);
    assert_false(walk_step(&walk, world.engine, world.now, 10, 1)); /* one change at most */
    assert_int_equal(walk.affected, 1);
    finish(&world, &walk, 10);
    walk_fini(&walk);
    assert_int_equal(walk.affected, 2);
    assert_int_equal(state_of(&world, 0, "late"), JOB_DELAYED);
    close_world(&world);
}

/* Also its remembered ids, which are no longer jobs and are counted only once. */
CLAIM(a_delete_leaves_nothing_of_the_topic)
{
    struct world world;

    open_topics(&world);
    fill(&world);
    assert_int_equal(engine_topic_remove(world.engine, topic_name(0)), QUEUE_CONFLICT);
    assert_int_equal(walk_all(&world, walk_of(WALK_DELETE, 0)), 4);
    assert_int_equal(shown(&world, 0).totals.acked, 1);
    assert_int_equal(engine_topic_remove(world.engine, topic_name(0)), QUEUE_OK);
    assert_int_equal(state_of(&world, 1, "other"), JOB_READY);
    struct log own;
    struct engine *again = replay(&world.log, &own, world.now);
    assert_int_equal(engine_topic_count(again), 1);
    engine_free(again);
    log_free(&own);
    close_world(&world);
}

/* ---- redrive ---- */

CLAIM(a_redrive_takes_the_requested_number)
{
    struct world world;
    struct walk walk = walk_of(WALK_REDRIVE, 0);

    open_topics(&world);
    push_dead(&world, 0, "a");
    push_dead(&world, 0, "b");
    push_dead(&world, 0, "c");
    walk.max = 2;
    assert_int_equal(walk_all(&world, walk), 2);
    assert_int_equal(state_of(&world, 0, "a"), JOB_READY); /* those that died first */
    assert_int_equal(state_of(&world, 0, "b"), JOB_READY);
    assert_int_equal(state_of(&world, 0, "c"), JOB_DEAD);
    assert_int_equal(walk_all(&world, walk), 1);
    assert_int_equal(shown(&world, 0).totals.redriven, 3);
    close_world(&world);
}

/* Or it might never end. */
CLAIM(jobs_that_die_again_during_a_redrive_wait_for_the_next)
{
    struct world world;
    struct walk walk = walk_of(WALK_REDRIVE, 0);

    open_topics(&world);
    push_dead(&world, 0, "a");
    push_dead(&world, 0, "b");
    assert_true(walk_init(&walk, world.engine));
    for (int i = 0; i < 2; i++) {
        assert_false(walk_step(&walk, world.engine, world.now, 10, 1));
        answer_of(&world, take_of(&world, 0), QUEUE_NACK);
    }
    assert_true(walk_step(&walk, world.engine, world.now, 10, 1));
    walk_fini(&walk);
    assert_int_equal(walk.affected, 2);
    assert_int_equal(state_of(&world, 0, "a"), JOB_DEAD);
    assert_int_equal(state_of(&world, 0, "b"), JOB_DEAD);
    close_world(&world);
}

/* ---- one job alone ---- */

static uint64_t one(struct world *world, struct walk *walk, unsigned topic, const char *id)
{
    uint64_t before = walk->affected;

    walk_one(walk, world->engine, engine_key(world->engine, topic_name(topic), slice_of(id)),
             world->now);
    engine_check(world->engine);
    return walk->affected - before;
}

CLAIM(a_job_loaded_separately_is_purged)
{
    struct world world;
    struct walk walk = walk_of(WALK_PURGE, 0);

    open_topics(&world);
    fill(&world);
    assert_true(walk_init(&walk, world.engine));
    push_to(&world, 0, "late", 1000);
    assert_int_equal(one(&world, &walk, 0, "nobody"), 0);
    assert_int_equal(one(&world, &walk, 1, "other"), 0); /* not of this topic */
    assert_int_equal(one(&world, &walk, 0, "late"), 0);
    assert_int_equal(one(&world, &walk, 0, "leased"), 0);
    assert_int_equal(one(&world, &walk, 0, "ready"), 1);
    assert_int_equal(state_of(&world, 0, "ready"), 0);
    walk.topic_bytes = 1; /* of no topic any more */
    assert_int_equal(one(&world, &walk, 0, "delayed"), 0);
    assert_int_equal(state_of(&world, 0, "delayed"), JOB_DELAYED);
    close_world(&world);
}

CLAIM(a_dead_job_loaded_separately_is_redriven)
{
    struct world world;
    struct walk walk = walk_of(WALK_REDRIVE, 0);

    open_topics(&world);
    push_dead(&world, 0, "a");
    push_dead(&world, 0, "b");
    push_dead(&world, 0, "c");
    push_to(&world, 0, "alive", 1000);
    assert_true(walk_init(&walk, world.engine));
    assert_int_equal(one(&world, &walk, 0, "alive"), 0);
    assert_int_equal(one(&world, &walk, 0, "b"), 1);
    assert_int_equal(state_of(&world, 0, "b"), JOB_READY);
    walk.max = 2;
    assert_int_equal(one(&world, &walk, 0, "a"), 1);
    assert_int_equal(one(&world, &walk, 0, "c"), 0); /* as many as were asked for */
    assert_int_equal(state_of(&world, 0, "c"), JOB_DEAD);
    close_world(&world);
}

CLAIMS_MAIN(NULL, NULL)
