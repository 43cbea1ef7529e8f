/* A leave of a batch over several shards stores nothing: without room in the log the wait ends later. */
#include "unit/claim.h"

#include "engine_rig.h"

static struct log reported; /* counts only */
static size_t appended;
static struct engine_now now;

static struct record_place append_nothing(void *ctx, const struct record *record)
{
    (void)ctx;
    return (struct record_place){
        .file = 1, .at = (uint32_t)++appended, .bytes = (uint32_t)record_bytes_max(record)};
}

static struct engine *start(void)
{
    now = (struct engine_now){START_MS, START_MS + 500, 500};
    struct engine *engine = engine_new(&(struct engine_options){
        .sink = {.append = append_nothing, .ready = on_ready, .died = on_died, .ctx = &reported},
        .hash_seed = 7,
        .body_bytes_max = 1000,
        .topics_max = 100,
        .shards = 3,
        .random_seed = 1,
        .now = now});
    assert_non_null(engine);
    engine_start(engine, 1);
    return engine;
}

static struct queue_result call(struct engine *engine, struct queue_batch_call about, bool has_room)
{
    struct queue_result result = {0};
    engine_batch_call(engine, &about, NULL, has_room, now, &result);
    return result;
}

/* Creates a closed batch for which one push is under way. Returns its number. */
static uint64_t close_while_a_push_is_under_way(struct engine *engine)
{
    struct queue_result result = {0};
    const struct queue_batch batch = {.waits = true};
    const struct queue_push push = {.topic = topic_name(0),
                                    .id = slice_of("last"),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .batch = &batch,
                                    .when = {QUEUE_DUE_NOW, 0}};
    engine_push(engine, &push, now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
    result = call(engine,
                  (struct queue_batch_call){
                      .verb = QUEUE_BATCH_JOIN, .part = 1, .topic = push.topic, .id = push.id},
                  false);
    assert_int_equal(result.status, QUEUE_OK);
    const struct queue_change close = {.verb = QUEUE_CLOSE, .topic = push.topic, .id = push.id};
    uint64_t number = result.batch;
    engine_change(engine, &close, now, &result);
    assert_int_equal(result.status, QUEUE_OK);
    return number;
}

static size_t take(struct engine *engine)
{
    struct engine_view view;
    return engine_take(engine, topic_name(0), 1, SIZE_MAX, 1000, (struct slice){0}, now, &view);
}

CLAIM(a_leave_ends_the_wait)
{
    struct engine *engine = start();
    const struct queue_batch_call leave = {
        .verb = QUEUE_BATCH_LEAVE, .part = 1, .number = close_while_a_push_is_under_way(engine)};
    assert_int_equal(take(engine), 0);
    assert_int_equal(call(engine, leave, true).status, QUEUE_OK);
    assert_int_equal(take(engine), 1);
    engine_check(engine);
    engine_free(engine);
}

CLAIM(a_leave_without_room_ends_the_wait_later)
{
    struct engine *engine = start();
    const struct queue_batch_call leave = {
        .verb = QUEUE_BATCH_LEAVE, .part = 1, .number = close_while_a_push_is_under_way(engine)};
    size_t before = appended;
    assert_int_equal(call(engine, leave, false).status, QUEUE_OK);
    assert_int_equal(appended, before);
    assert_int_equal(take(engine), 0);
    engine_check(engine);
    now.inner_ms += 2;
    now.wall_ms += 2;
    assert_true(engine_next_ms(engine) <= now.inner_ms);
    engine_advance(engine, now, 10);
    assert_true(appended > before);
    assert_int_equal(take(engine), 1);
    engine_check(engine);
    engine_free(engine);
}

CLAIM(a_push_that_joins_after_a_leave_without_room_keeps_the_wait)
{
    struct engine *engine = start();
    struct queue_batch_call leave = {
        .verb = QUEUE_BATCH_LEAVE, .part = 1, .number = close_while_a_push_is_under_way(engine)};
    const struct queue_batch_call join = {.verb = QUEUE_BATCH_JOIN,
                                          .part = 2,
                                          .topic = topic_name(0),
                                          .id = slice_of("last"),
                                          .number = leave.number}; /* by a member */
    assert_int_equal(call(engine, leave, false).status, QUEUE_OK);
    assert_int_equal(call(engine, join, false).status, QUEUE_OK);
    now.inner_ms += 2;
    now.wall_ms += 2;
    engine_advance(engine, now, 10);
    assert_int_equal(take(engine), 0);
    leave.part = 2;
    assert_int_equal(call(engine, leave, true).status, QUEUE_OK);
    assert_int_equal(take(engine), 1);
    engine_check(engine);
    engine_free(engine);
}

/* Pushes a member to the engine, which is part 0. Returns its result. */
static struct queue_result push_member(struct engine *engine, uint32_t part)
{
    struct queue_result result = {0};
    const struct queue_batch batch = {.topic = topic_name(0),
                                      .id = slice_of("elsewhere"),
                                      .number = UINT64_C(2) << QUEUE_BATCH_HOME_SHIFT | 7,
                                      .part = part,
                                      .was_asked = true};
    const struct queue_push push = {.topic = topic_name(1),
                                    .id = slice_of("member"),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .batch = &batch,
                                    .when = {QUEUE_DUE_NOW, 0}};
    engine_push(engine, &push, now, &result);
    return result;
}

CLAIM(only_the_part_of_its_join_stores_a_member)
{
    struct engine *engine = start();
    const struct queue_batch_call ask = {.verb = QUEUE_BATCH_VERSION,
                                         .number = UINT64_C(2) << QUEUE_BATCH_HOME_SHIFT | 7};
    assert_int_equal(push_member(engine, 1).status, QUEUE_ELSEWHERE);
    assert_int_equal(call(engine, ask, false).version, 0);
    struct queue_result stored = push_member(engine, 0);
    assert_int_equal(stored.status, QUEUE_CREATED);
    assert_true(stored.version > 0);
    assert_int_equal(call(engine, ask, false).version, stored.version);
    engine_check(engine);
    engine_free(engine);
}

CLAIMS_MAIN(NULL, NULL)
