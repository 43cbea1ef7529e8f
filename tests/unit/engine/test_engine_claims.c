/* The engine, one claim after the other: clocks, attempts that end, topics, room. */
#include "engine/stored.h"
#include "engine_rig.h"
#include "unit/claim.h"

/* ---- clocks ---- */

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
    size_t got = engine_take(world->engine, topic_name(0), 8, SIZE_MAX, 0, (struct slice){0},
                             world->now, views);
    for (size_t i = 0; i < got; i++)
        engine_view_fini(&views[i]);
    return got;
}

CLAIM(a_step_of_the_wall_clock_moves_no_relative_delay)
{
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

CLAIM(an_absolute_due_follows_the_wall_clock_both_ways)
{
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
    /* Set forward by 10 s: that time of day has come. */
    world.now.wall_ms += 10000;
    world.now.skew_ms += 10000;
    assert_int_equal(take_count(&world), 1);
    close_world(&world);
}

CLAIM(a_delay_of_ten_years_and_one_above_2_to_the_32_ms_wait)
{
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

CLAIM(delivery_numbers_rise_over_a_restart_that_lost_the_last_records)
{
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    struct engine_view before, after;
    size_t durable = world.log.count;
    assert_int_equal(engine_take(world.engine, topic_name(0), 1, SIZE_MAX, 0, (struct slice){0},
                                 world.now, &before),
                     1);
    struct log cut = world.log, own;
    cut.count = durable; /* the take never reached the disk */
    struct engine *again = replay(&cut, &own, world.now);
    /* From here on the second engine appends for itself. */
    struct engine_lease old = {.key_low = before.key.low, .delivery = before.delivery};
    struct queue_answer ack = {.verb = QUEUE_ACK};
    struct queue_result result = {0};
    assert_int_equal(
        engine_take(again, topic_name(0), 1, SIZE_MAX, 0, (struct slice){0}, world.now, &after), 1);
    assert_true(after.delivery > before.delivery);
    engine_view_fini(&before);
    engine_view_fini(&after);
    engine_answer(again, &old, &ack, world.now, &result);
    assert_int_equal(result.status, QUEUE_LEASE_ENDED);
    engine_free(again);
    log_free(&own);
    close_world(&world);
}

/* ---- pops ---- */

static size_t pop_count(struct world *world, struct engine_view *last)
{
    size_t count = 0;
    uint32_t id;
    struct record_place place;
    engine_advance(world->engine, world->now, 100);
    while ((id = engine_first_ready(world->engine, topic_name(0), world->now, &place))) {
        engine_pop(world->engine, id, world->now, last);
        engine_view_fini(last);
        count++;
    }
    return count;
}

CLAIM(a_pop_is_a_take_and_an_ack_in_one)
{
    const struct topic_settings remembers = {.dedup_window_ms = 5000};
    struct world world = open_plain();
    struct engine_view view;
    struct queue_topic topic;
    struct record_place first;
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    assert_int_equal(pop_count(&world, &view), 0); /* no such topic */
    engine_topic_put(world.engine, topic_name(0), &remembers);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    push_at(&world, "b", (struct queue_when){QUEUE_DUE_DELAY, 1000});
    engine_topic_pause(world.engine, topic_name(0), 0);
    assert_int_equal(engine_first_ready(world.engine, topic_name(0), world.now, &first), 0);
    assert_int_equal(pop_count(&world, &view), 0); /* paused */
    engine_topic_resume(world.engine, topic_name(0));
    assert_true(engine_first_ready(world.engine, topic_name(0), world.now, &first));
    assert_int_equal(pop_count(&world, &view), 1);
    assert_true(view.attempt == 1 && view.state == JOB_FINISHED && view.place.at == first.at &&
                !view.lease_until_ms);
    uint64_t delivery = view.delivery;
    assert_int_equal(push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0}).status,
                     QUEUE_EXISTED);
    world.now.inner_ms += 1001;
    world.now.wall_ms += 1001;
    assert_int_equal(pop_count(&world, &view), 1);
    assert_true(view.delivery > delivery);
    assert_true(engine_topic_show(world.engine, topic_name(0), world.now, &topic));
    assert_true(topic.totals.delivered == 2 && topic.totals.acked == 2 && !topic.counts.leased);
    engine_check(world.engine);
    struct log own;
    struct engine *again = replay(&world.log, &own, world.now);
    assert_true(engine_topic_show(again, topic_name(0), world.now, &topic));
    assert_true(topic.totals.acked == 2 && !topic.counts.ready && !topic.counts.delayed);
    engine_check(again);
    engine_free(again);
    log_free(&own);
    close_world(&world);
}

CLAIM(a_pop_shows_earlier_attempts)
{
    struct world world = open_plain();
    struct engine_view view;
    struct queue_result result = {0};
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    assert_int_equal(engine_take(world.engine, topic_name(0), 1, SIZE_MAX, 0, (struct slice){0},
                                 world.now, &view),
                     1);
    struct engine_lease lease = {.key_low = view.key.low, .delivery = view.delivery};
    engine_view_fini(&view);
    engine_answer(world.engine, &lease,
                  &(struct queue_answer){.verb = QUEUE_NACK, .error = slice_of("no")}, world.now,
                  &result);
    struct record_place place;
    engine_pop(world.engine, engine_first_ready(world.engine, topic_name(0), world.now, &place),
               world.now, &view);
    assert_true(view.attempt == 2 && view.delivery > lease.delivery && view.history_bytes);
    engine_view_fini(&view);
    engine_check(world.engine);
    close_world(&world);
}

/* ---- attempts that end ---- */

static struct engine_lease take_for(struct world *world, int64_t lease_ms)
{
    struct engine_view view;
    engine_advance(world->engine, world->now, 100);
    assert_int_equal(engine_take(world->engine, topic_name(0), 1, SIZE_MAX, lease_ms,
                                 (struct slice){0}, world->now, &view),
                     1);
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

/* If the wall clock was set meanwhile, the start is shown by the new clock. */
CLAIM(an_attempt_s_start_is_shown_by_the_wall_clock_there_is)
{
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

/* Records of an older version do not contain the time of the take. */
CLAIM(a_lease_of_an_older_version_is_taken_for_one_of_the_usual_length)
{
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    take_for(&world, 0);
    struct log own;
    for (size_t at = 0; at < world.log.count; at++) {
        struct record_place place;
        struct record record = record_at(&world.log, at, &place);
        if (record.kind != RECORD_STATE)
            continue;
        assert_true(record.state.taken_ms > 0);
        record.state.taken_ms = 0;
        world.log.bytes[at] = record_encode(&record, world.log.records[at]);
    }
    struct engine *again = replay(&world.log, &own, world.now);
    engine_free(world.engine);
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
    log_free(&own);
    log_free(&world.log);
}

/* An older version wrote records again when it gave up an old file: the current job, the end that
 * is remembered. Both were counted before. */
CLAIM(jobs_carried_forward_by_an_older_version_are_not_counted_again)
{
    struct log own = {0};
    struct world world = open_plain();
    const struct slice topic = topic_name(0), ended = slice_of("ended");
    const struct record job = {.kind = RECORD_JOB,
                               .origin = RECORD_CARRIED,
                               .job = {.topic = topic,
                                       .id = slice_of("a"),
                                       .state = JOB_LEASED,
                                       .priority = JOB_PRIORITY,
                                       .attempt = 2,
                                       .delivery = 9,
                                       .lease_until_ms = START_MS + 60000,
                                       .taken_ms = START_MS,
                                       .sequence = 5}};
    struct queue_push push = {.topic = topic, .id = ended};
    struct record done = {.kind = RECORD_DONE,
                          .done = {.reason = RECORD_ACKED,
                                   .carried = true,
                                   .remember_until_ms = START_MS + 60000,
                                   .sequence = 6,
                                   .topic = topic}};
    const struct record counted = {
        .kind = RECORD_TOPIC,
        .topic = {
            .topic = topic, .exists = true, .carried = true, .totals = {.pushed = 2, .acked = 1}}};
    struct queue_topic shown;
    struct engine_view view;
    struct queue_result result = {0};

    world.engine = open_engine(&own, world.now);
    done.done.key = engine_key(world.engine, topic, ended);
    on_append(&world.log, &counted);
    on_append(&world.log, &job);
    on_append(&world.log, &done);
    for (size_t at = 0; at < world.log.count; at++) {
        struct record_place place;
        struct record record = record_at(&world.log, at, &place);
        assert_true(engine_replay(world.engine, &record, place));
    }
    engine_start(world.engine, 2);
    assert_true(engine_topic_show(world.engine, topic, world.now, &shown));
    assert_int_equal(shown.totals.pushed, 2);
    assert_int_equal(shown.totals.acked, 1);
    assert_int_equal(shown.counts.leased, 1);
    assert_true(engine_find(world.engine, topic, slice_of("a"), world.now, &view));
    assert_true(view.state == JOB_LEASED && view.attempt == 2 && view.delivery == 9);
    engine_view_fini(&view);
    engine_push(world.engine, &push, world.now, &result);
    assert_int_equal(result.status, QUEUE_EXISTED);
    close_world(&world);
    log_free(&own);
}

/* Writes a job whose record is out of date, as a checkpoint does. */
static bool write_changed(void *ctx, const struct engine_item *item)
{
    assert_int_equal(item->section, SECTION_LEASED);
    engine_changed_apply(item->changed, ctx);
    engine_changed_free(item->changed); /* there is no text the record would point to */
    return true;
}

CLAIM(a_leased_job_in_a_checkpoint_keeps_the_time_of_its_take)
{
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    int64_t taken_ms = world.now.wall_ms;
    struct engine_lease lease = take_for(&world, 5000);
    struct record_place place;
    struct record record = record_at(&world.log, 0, &place);
    assert_int_equal(record.kind, RECORD_JOB);
    struct engine_collect collect = {.before_file = 2, .each = write_changed, .ctx = &record};
    assert_int_equal(engine_collect(world.engine, &collect, world.now, 10), 0);
    engine_free(world.engine);
    struct log own = {0};
    uint64_t stored[SECTIONS] = {[SECTION_LEASED] = 1};
    world.engine = open_engine(&own, world.now);
    assert_true(engine_stored_begin(world.engine, record.job.topic, stored, 0, 0));
    engine_start(world.engine, 2);
    place.file = RECORD_IN_RUN | 1;
    assert_int_equal(engine_load(world.engine, &record, place, world.now), ENGINE_LOADED);
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
    log_free(&own);
    log_free(&world.log);
}

/* ---- topics, room ---- */

CLAIM(only_topics_with_an_extension_report_deaths)
{
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
        assert_int_equal(world.log.reported_died, 2 * round);
        settings.extension = slice_of("{}");
    }
    close_world(&world);
}

/* Memory that others think theirs: a put that hands in what a show gave out. */
CLAIM(a_shown_topic_extension_can_be_put_back)
{
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

/* `expected`: the names, a letter each. */
static void expect_page(struct world *world, const char *after, size_t limit, const char *expected)
{
    struct queue_topic *page;
    size_t count;
    assert_true(
        engine_topics_page(world->engine, slice_of(after), limit, world->now, &page, &count));
    assert_int_equal(count, strlen(expected));
    for (size_t i = 0; i < count; i++)
        assert_true(slice_equals(page[i].name, slice_make(expected + i, 1)));
    free(page);
}

CLAIM(topics_are_listed_by_name_in_pages)
{
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    expect_page(&world, "", 0, "");
    expect_page(&world, "", 3, "");
    for (const char *name = "dbeca"; *name; name++)
        engine_topic_put(world.engine, slice_make(name, 1), &(struct topic_settings){0});
    expect_page(&world, "", 0, "abcde");
    expect_page(&world, "", 2, "ab");
    expect_page(&world, "", 5, "abcde");
    expect_page(&world, "", 9, "abcde");
    expect_page(&world, "b", 2, "cd");
    expect_page(&world, "b0", 2, "cd");
    expect_page(&world, "b", 0, "cde");
    expect_page(&world, "e", 2, "");
    assert_int_equal(engine_topic_remove(world.engine, slice_of("c")), QUEUE_OK);
    assert_int_equal(engine_topic_remove(world.engine, slice_of("e")), QUEUE_OK);
    expect_page(&world, "", 0, "abd");
    expect_page(&world, "c", 0, "d");
    engine_topic_put(world.engine, slice_of("c"), &(struct topic_settings){0});
    expect_page(&world, "b", 1, "c");

    struct log own; /* and as well after a recovery */
    struct engine *engine = replay(&world.log, &own, world.now);
    engine_free(world.engine);
    world.engine = engine;
    expect_page(&world, "", 0, "abcd");
    expect_page(&world, "a", 2, "bc");
    log_free(&own);
    close_world(&world);
}

/* The loop may process it late; a push must not depend on that. */
CLAIM(an_id_is_new_directly_after_its_window)
{
    struct topic_settings settings = {.dedup_window_ms = 1000};
    struct world world = open_plain();
    world.engine = open_engine(&world.log, world.now);
    engine_start(world.engine, 1);
    engine_topic_put(world.engine, topic_name(0), &settings);
    push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0});
    struct engine_lease lease = take_for(&world, 1000);
    answer_with(&world, &lease, (struct queue_answer){.verb = QUEUE_ACK});
    world.now.inner_ms += 1000;
    assert_int_equal(push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0}).status,
                     QUEUE_EXISTED); /* acked within that millisecond: rounded up */
    world.now.inner_ms += 1;
    assert_int_equal(push_at(&world, "a", (struct queue_when){QUEUE_DUE_NOW, 0}).status,
                     QUEUE_CREATED);
    engine_check(world.engine);
    assert_int_equal(take_count(&world), 1);
    close_world(&world);
}

CLAIM(the_reserved_room_holds_the_largest_records)
{
    static char text[TOPIC_EXTENSION_BYTES_MAX], name[JOB_TOPIC_BYTES_MAX];
    struct record record = {.kind = RECORD_TOPIC};
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
    record.job.error = slice_make(text, JOB_ERROR_BYTES_MAX);
    struct queue_push push = {.topic = record.job.topic,
                              .past.error = slice_make(text, JOB_ERROR_BYTES_MAX)};
    record.job.id = slice_make(name, JOB_ID_BYTES_MAX);
    assert_true(record_bytes_max(&record) <= engine_room_push(&push));
}

CLAIMS_MAIN(NULL, NULL)
