/* Single records, replayed: what is out of the ordinary comes back, what cannot be is refused; and
 * what becomes of slots that records name. */
#include "engine/stored.h"
#include "engine_rig.h"
#include "unit/claim.h"

static struct world world;

static void open_records(void)
{
    world = open_world(1);
    world.engine = open_engine(&world.log, world.now);
}

static bool replay_one(struct record record, uint32_t at)
{
    return engine_replay(world.engine, &record,
                         (struct record_place){.file = 1, .at = at, .bytes = 100});
}

static struct record job_record(void)
{
    return (struct record){.kind = RECORD_JOB,
                           .origin = RECORD_PUSHED,
                           .job = {.topic = topic_name(0),
                                   .id = slice_of("a"),
                                   .state = JOB_DELAYED,
                                   .priority = JOB_PRIORITY,
                                   .due_ms = START_MS + 1000,
                                   .first_due_ms = START_MS + 1000,
                                   .sequence = 5}};
}

/* The topic's own record counts jobs whose records have gone. */
static void report_pushed(uint64_t pushed)
{
    const struct record record = {
        .kind = RECORD_TOPIC,
        .topic = {
            .topic = topic_name(0), .exists = true, .carried = true, .totals = {.pushed = pushed}}};
    assert_true(replay_one(record, 1));
}

static struct hash128 key_of_job(void)
{
    return engine_key(world.engine, topic_name(0), slice_of("a"));
}

static struct record state_record(void)
{
    return (struct record){.kind = RECORD_STATE,
                           .state = {.key = key_of_job(),
                                     .state = JOB_DELAYED,
                                     .priority = JOB_PRIORITY,
                                     .due_ms = START_MS + 2000,
                                     .first_due_ms = START_MS + 2000}};
}

static struct engine_view find(void)
{
    struct engine_view view;
    assert_true(engine_find(world.engine, topic_name(0), slice_of("a"), world.now, &view));
    return view;
}

/* ---- one thing out of the ordinary ---- */

CLAIM(a_job_comes_back_with_the_one_thing_it_has)
{
    char history[JOB_HISTORY_BYTES_MAX];
    const struct job_attempt attempt = {
        .attempt = 1, .started_ms = 1, .duration_ms = 2, .outcome = JOB_OUTCOME_FAILED};
    for (int thing = 0; thing < 4; thing++) {
        struct record record = job_record();
        open_records();
        if (thing == 0)
            record.job.delivery = 9; /* given back before its first attempt ended */
        if (thing == 1)
            record.job.error = slice_of("no");
        if (thing == 2)
            record.job.history =
                slice_make(history, job_history_add((struct slice){0}, &attempt, history));
        if (thing == 3)
            record.job.attempt = 2;
        assert_true(replay_one(record, 1));
        engine_start(world.engine, 2);
        struct engine_view view = find();
        assert_int_equal(view.delivery, thing == 0 ? 9 : 0);
        assert_int_equal(view.error_bytes, thing == 1 ? 2 : 0);
        assert_int_equal(view.history_bytes > 0, thing == 2);
        assert_int_equal(view.attempt, thing == 3 ? 2 : 0);
        engine_view_fini(&view);
        close_world(&world);
    }
}

/* Its time to live counts from when it was first due. */
CLAIM(a_job_comes_back_with_its_first_due)
{
    struct record record = job_record();
    const struct topic_settings settings = {.policy.ttl_ms = 500};
    struct queue_topic shown;
    open_records();
    record.job.first_due_ms = START_MS + 100;
    assert_true(replay_one(record, 1));
    engine_start(world.engine, 2);
    assert_int_equal(engine_topic_put(world.engine, topic_name(0), &settings), QUEUE_OK);
    world.now.inner_ms += 1000;
    catch_up(&world, world.engine);
    assert_true(engine_topic_show(world.engine, topic_name(0), world.now, &shown));
    assert_int_equal(shown.totals.expired, 1);
    close_world(&world);
}

CLAIM(a_state_comes_back_with_the_one_thing_it_has)
{
    for (int thing = 0; thing < 4; thing++) {
        open_records();
        struct record record = state_record();
        if (thing == 0)
            record.state.delivery = 9;
        if (thing == 1)
            record.state.error = slice_of("no");
        if (thing == 2)
            record.state.attempt = 2;
        if (thing == 3)
            record.state.first_due_ms = START_MS + 100;
        assert_true(replay_one(job_record(), 1));
        assert_true(replay_one(record, 2));
        engine_start(world.engine, 2);
        struct engine_view view = find();
        assert_int_equal(view.due_ms, START_MS + 2000 + 500);
        assert_int_equal(view.delivery, thing == 0 ? 9 : 0);
        assert_int_equal(view.error_bytes, thing == 1 ? 2 : 0);
        assert_int_equal(view.attempt, thing == 2 ? 2 : 0);
        engine_view_fini(&view);
        close_world(&world);
    }
}

/* ---- what cannot be ---- */

CLAIM(a_record_that_contradicts_earlier_ones_is_rejected)
{
    struct record record = job_record();
    open_records();
    record.job.topic = slice_of(".hidden");
    assert_false(replay_one(record, 1));
    record = job_record();
    record.job.id = slice_of("");
    assert_false(replay_one(record, 1));
    record = job_record();
    record.job.state = JOB_READY;
    assert_false(replay_one(record, 1));
    record.job.state = JOB_FINISHED;
    assert_false(replay_one(record, 1));
    assert_true(replay_one(job_record(), 1));
    record = state_record();
    record.state.state = JOB_READY;
    assert_false(replay_one(record, 2));
    record.state.state = JOB_FINISHED;
    assert_false(replay_one(record, 2));
    record = (struct record){.kind = RECORD_DONE, .done = {.key = key_of_job()}};
    assert_false(replay_one(record, 3)); /* of no topic */
    engine_start(world.engine, 2);
    close_world(&world);
}

CLAIM(a_topic_that_has_jobs_cannot_have_been_removed)
{
    const struct record removed = {.kind = RECORD_TOPIC, .topic = {.topic = topic_name(0)}};
    open_records();
    assert_true(replay_one(removed, 1)); /* it was already gone */
    assert_true(replay_one(job_record(), 2));
    assert_false(replay_one(removed, 3));
    engine_start(world.engine, 2);
    close_world(&world);
}

/* Their time may have run out without a record. */
CLAIM(remembered_ids_go_with_their_topic)
{
    const struct record removed = {.kind = RECORD_TOPIC, .topic = {.topic = topic_name(0)}};
    open_records();
    struct record other = job_record();
    other.job.topic = topic_name(1);
    assert_true(replay_one(other, 1));
    struct record done = {.kind = RECORD_DONE,
                          .done = {.key = key_of_job(),
                                   .reason = RECORD_ACKED,
                                   .remember_until_ms = START_MS + 5000,
                                   .sequence = 3,
                                   .topic = topic_name(0)}};
    assert_true(replay_one(done, 2));
    assert_true(replay_one(removed, 3));
    engine_start(world.engine, 2);
    assert_int_equal(engine_topic_count(world.engine), 1);
    close_world(&world);
}

/* ---- slots ---- */

/* A record of an end names the slot that it frees. */
CLAIM(without_runs_every_slot_is_dead)
{
    struct record record = job_record();
    uint32_t at = 0;
    struct hash128 key;
    open_records();
    record.from = (struct record_place){.file = RECORD_IN_RUN | 3, .at = 1, .bytes = 10};
    assert_true(replay_one(record, 1));
    assert_false(engine_unresolved_next(world.engine, &at, &key));
    engine_start(world.engine, 2);
    struct engine_view view = find();
    engine_view_fini(&view);
    close_world(&world);
}

static enum engine_slot never_committed(void *ctx, struct record_place place,
                                        enum job_section *section)
{
    (void)ctx;
    (void)place;
    (void)section;
    return SLOT_UNKNOWN;
}

static enum engine_slot released(void *ctx, struct record_place place, enum job_section *section)
{
    (void)ctx;
    (void)place;
    *section = SECTION_DELAYED;
    return SLOT_RELEASED;
}

static void open_with_slots(enum engine_slot (*release)(void *ctx, struct record_place place,
                                                        enum job_section *section))
{
    const struct engine_options options = {.sink = {.append = on_append,
                                                    .release_slot = release,
                                                    .ready = on_ready,
                                                    .died = on_died,
                                                    .ctx = &world.log},
                                           .hash_seed = 7,
                                           .topics_max = 10,
                                           .random_seed = 1,
                                           .now = {START_MS, START_MS + 500, 500}};
    world = open_world(1);
    world.engine = engine_new(&options);
    assert_non_null(world.engine);
}

/* More than there is room for at first. */
CLAIM(ends_with_unknown_slots_are_reported_in_order)
{
    enum { ENDS = 3000 };
    uint32_t at = 0, count = 0;
    struct hash128 key;
    open_with_slots(never_committed);
    report_pushed(ENDS);
    for (uint64_t i = 1; i <= ENDS; i++) {
        struct record done = {
            .kind = RECORD_DONE,
            .from = {.file = RECORD_IN_RUN | 3, .at = (uint32_t)i, .bytes = 10},
            .done = {.key = {i, i}, .reason = RECORD_ACKED, .sequence = i, .topic = topic_name(0)}};
        assert_true(replay_one(done, (uint32_t)i));
    }
    while (engine_unresolved_next(world.engine, &at, &key))
        assert_int_equal(key.low, ++count);
    assert_int_equal(count, ENDS);
    engine_start(world.engine, 2);
    close_world(&world);
}

/* The log has a state of a job in a run; the slot there may hold another job. */
CLAIM(a_stub_is_filled_by_its_own_job_and_no_other)
{
    const uint64_t stored[SECTIONS] = {[SECTION_DELAYED] = 1};
    const struct record_place slot = {.file = RECORD_IN_RUN | 1, .at = 0, .bytes = 50};
    uint32_t at = 0;
    struct hash128 key;
    struct record_place place;
    open_with_slots(released);
    assert_true(engine_stored_begin(world.engine, topic_name(0), stored, 0, 0));
    report_pushed(1);
    struct record change = state_record();
    change.from = slot;
    assert_true(replay_one(change, 1));
    assert_true(engine_stub_next(world.engine, &at, &key, &place));
    struct record record = job_record();
    record.job.topic = topic_name(1); /* an unknown topic */
    assert_false(engine_stub_fill(world.engine, at, &record, slot));
    record = job_record();
    record.job.id = slice_of("b");
    assert_false(engine_stub_fill(world.engine, at, &record, slot));
    record =
        (struct record){.kind = RECORD_DONE, .done = {.key = key_of_job(), .topic = topic_name(0)}};
    assert_false(engine_stub_fill(world.engine, at, &record, slot));
    record = job_record();
    record.job.sequence = UINT64_C(1) << 40; /* numbers go on behind it */
    assert_true(engine_stub_fill(world.engine, at, &record, slot));
    assert_false(engine_stub_next(world.engine, &at, &key, &place));
    engine_start(world.engine, 2);
    struct engine_view view = find();
    assert_int_equal(view.due_ms, START_MS + 2000 + 500);
    engine_view_fini(&view);
    struct queue_push push = {.topic = topic_name(0),
                              .id = slice_of("later"),
                              .priority = QUEUE_PRIORITY_UNSET,
                              .when = {QUEUE_DUE_DELAY, 1000}};
    struct queue_result result = {0};
    engine_push(world.engine, &push, world.now, &result);
    assert_true(engine_find(world.engine, topic_name(0), slice_of("later"), world.now, &view));
    assert_true(view.sequence > UINT64_C(1) << 40);
    engine_view_fini(&view);
    close_world(&world);
}

/* ---- clocks that differ ---- */

/* The wall clock runs a little behind its last step. */
CLAIM(a_job_due_by_the_wall_clock_waits_for_it_although_the_wheel_is_ahead)
{
    struct queue_result result = {0};
    open_records();
    engine_start(world.engine, 1);
    world.now.wall_ms -= 100;
    const int64_t at_ms = world.now.wall_ms + 50;
    const struct queue_push push = {.topic = topic_name(0),
                                    .id = slice_of("a"),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .when = {QUEUE_DUE_AT, at_ms}};
    engine_push(world.engine, &push, world.now, &result);
    assert_int_equal(result.state, JOB_DELAYED);
    for (; world.now.wall_ms < at_ms; world.now.wall_ms++, world.now.inner_ms++) {
        engine_advance(world.engine, world.now, 10);
        assert_false(engine_topic_has_ready(world.engine, topic_name(0)));
        assert_true(engine_next_ms(world.engine) > world.now.inner_ms); /* no busy loop */
    }
    catch_up(&world, world.engine);
    assert_true(engine_topic_has_ready(world.engine, topic_name(0)));
    assert_int_equal(engine_topic_pause(world.engine, topic_name(0), 0), QUEUE_OK);
    assert_false(engine_topic_has_ready(world.engine, topic_name(0)));
    close_world(&world);
}

/* As an older version left it; its guess at when it was taken lies behind its end. */
CLAIM(an_attempt_of_unknown_beginning_takes_no_less_than_no_time)
{
    open_records();
    struct record record = state_record();
    record.state.state = JOB_LEASED;
    record.state.attempt = 1;
    record.state.delivery = 9;
    record.state.lease_until_ms = START_MS + 10 * POLICY_LEASE_MS;
    assert_true(replay_one(job_record(), 1));
    assert_true(replay_one(record, 2));
    engine_start(world.engine, 2);
    const struct engine_lease lease = {.key_low = key_of_job().low, .delivery = 9};
    const struct queue_answer nack = {.verb = QUEUE_NACK, .delay_ms = 0, .error = slice_of("no")};
    struct queue_result result = {0};
    world.now.inner_ms += 100;
    world.now.wall_ms += 100;
    engine_answer(world.engine, &lease, &nack, world.now, &result);
    assert_int_equal(result.status, QUEUE_OK);
    struct engine_view view = find();
    struct job_attempt attempt = {0};
    size_t at = 0;
    assert_true(job_history_next(slice_make(view.text, view.history_bytes), &at, &attempt));
    assert_int_equal(attempt.duration_ms, 0);
    assert_int_equal(attempt.started_ms, world.now.wall_ms);
    engine_view_fini(&view);
    close_world(&world);
}

CLAIMS_MAIN(NULL, NULL)
