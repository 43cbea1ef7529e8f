/* When the jobs in memory fall due: counts against a list of all dues. */
#include "engine/forecast.h"
#include "engine/state.h"

#include "engine_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum { MINUTE_MS = 60000, JOBS = 6000 };
static const int64_t hour_ms = 60 * INT64_C(60000), skew_ms = 123456789;

static size_t appended;

static struct record_place append_nothing(void *ctx, const struct record *record)
{
    (void)ctx;
    return (struct record_place){
        .file = 1, .at = (uint32_t)++appended, .bytes = (uint32_t)record_bytes_max(record)};
}

static struct engine *start(struct engine_now now, uint32_t topics_max)
{
    static struct log reported;
    const struct engine_options options = {
        .sink = {.append = append_nothing, .ready = on_ready, .died = on_died, .ctx = &reported},
        .hash_seed = 7,
        .body_bytes_max = 1000,
        .topics_max = topics_max,
        .random_seed = 1,
        .now = now};
    struct engine *engine = engine_new(&options);
    assert_non_null(engine);
    engine_start(engine, 1);
    return engine;
}

static struct engine_now now_at(int64_t inner_ms)
{
    return (struct engine_now){inner_ms, inner_ms + skew_ms, skew_ms};
}

struct name {
    char text[24];
};

static struct slice name_of(struct name *name, const char *what, uint64_t number)
{
    snprintf(name->text, sizeof name->text, "%s%u", what, (unsigned)number);
    return slice_of(name->text);
}

/* Pushes, or replaces. Returns the due, by the wall clock. */
static int64_t push_at(struct engine *engine, struct slice topic, uint64_t id, int64_t at_ms,
                       bool is_wall, struct engine_now now)
{
    struct name name;
    struct queue_push push = {.topic = topic,
                              .id = name_of(&name, "j", id),
                              .when = {.due = is_wall ? QUEUE_DUE_AT : QUEUE_DUE_DELAY,
                                       .ms = is_wall ? at_ms : at_ms - now.wall_ms},
                              .priority = QUEUE_PRIORITY_UNSET};
    struct queue_result result = {0};
    engine_push(engine, &push, now, &result);
    assert_true(result.status == QUEUE_CREATED || result.status == QUEUE_REPLACED);
    return result.due_ms;
}

static struct engine_forecast *ask(struct engine *engine, struct slice topic, struct engine_now now)
{
    struct engine_forecast *found = calloc(1, sizeof *found);
    timeline_init(&found->timeline, now.wall_ms - now.wall_ms % MINUTE_MS);
    assert_true(engine_forecast(engine, topic, now, found));
    return found;
}

/* ---- exact ---- */

struct due {
    uint64_t topic;
    int64_t due_ms;
    bool waits, is_wall;
};

/* The first minutes are those of the whole forecast. */
static void check_soon(struct engine *engine, struct slice topic, struct engine_now now,
                       const struct timeline *whole)
{
    struct engine_forecast *soon = malloc(sizeof *soon);
    assert_non_null(soon);
    memset(soon, 0xff, sizeof *soon); /* only what is initialised may count */
    timeline_init_soon(&soon->timeline, now.wall_ms - now.wall_ms % MINUTE_MS);
    soon->cold = soon->overdue = 0;
    soon->estimated = false;
    assert_true(engine_soon(engine, topic, now, soon));
    struct queue_forecast shown = {0};
    timeline_show_soon(&soon->timeline, &shown);
    for (uint32_t i = 0; i < FORECAST_SOON; i++)
        assert_int_equal(shown.minutes[i], whole->minutes[whole->first + i]);
    free(soon);
}

static void check_all(struct engine *engine, const struct due *dues, uint64_t topic,
                      struct engine_now now)
{
    struct name name;
    int64_t from_ms = now.wall_ms - now.wall_ms % MINUTE_MS;
    struct slice which = topic == UINT64_MAX ? slice_of("") : name_of(&name, "t", topic);
    struct engine_forecast *found = ask(engine, which, now);
    struct queue_forecast is = {0}, should = {0};
    uint64_t ready = 0;
    for (size_t i = 0; i < JOBS; i++) {
        if (topic != UINT64_MAX && dues[i].topic != topic)
            continue;
        ready += dues[i].waits && dues[i].due_ms <= now.wall_ms;
        if (dues[i].waits && dues[i].due_ms > now.wall_ms)
            queue_forecast_add(&should, from_ms, dues[i].due_ms, 1);
    }
    timeline_show(&found->timeline, &is);
    assert_false(found->estimated);
    assert_int_equal(found->overdue, ready);
    assert_memory_equal(is.minutes, should.minutes, sizeof is.minutes);
    assert_memory_equal(is.hours, should.hours, sizeof is.hours);
    assert_int_equal(is.later, should.later);
    check_soon(engine, which, now, &found->timeline);
    free(found);
}

CLAIM(every_job_is_counted_in_its_minute)
{
    static struct due dues[JOBS];
    enum { TOPICS_OF_THIS = 20 };
    struct engine_now now = now_at(1750000000123);
    struct engine *engine = start(now, 100);
    struct random random = seed_random(__func__);
    struct name topic_text, id_text;

    memset(dues, 0, sizeof dues);
    for (int step = 0; step < 4 * JOBS; step++) {
        size_t i = random_below(&random, JOBS);
        struct due *due = &dues[i];
        struct slice topic = name_of(&topic_text, "t", i % TOPICS_OF_THIS);
        due->topic = i % TOPICS_OF_THIS;
        if (due->waits && random_below(&random, 3) == 0) {
            struct queue_change change = {
                .verb = QUEUE_CANCEL, .topic = topic, .id = name_of(&id_text, "j", i)};
            struct queue_result result = {0};
            engine_change(engine, &change, now, &result);
            assert_int_equal(result.status, QUEUE_CANCELLED);
            due->waits = false;
        } else {
            int64_t spread = random_below(&random, 2) ? hour_ms : 10 * 24 * hour_ms;
            due->due_ms = push_at(engine, topic, i,
                                  now.wall_ms + (int64_t)random_below(&random, (uint64_t)spread),
                                  random_below(&random, 2), now);
            due->waits = true;
        }
        if (step % 500 == 499) {
            now = now_at(now.inner_ms + (int64_t)random_below(&random, 7 * MINUTE_MS));
            while (engine_next_ms(engine) <= now.inner_ms)
                engine_advance(engine, now, 1000);
            check_all(engine, dues, UINT64_MAX, now);
            check_all(engine, dues, (uint64_t)step / 500 % TOPICS_OF_THIS, now);
            engine_check(engine);
        }
    }
    engine_free(engine);
}

/* ---- bounded ---- */

/* Far more pairs of topic and hour than there are pages. */
CLAIM(memory_is_bounded_and_the_sums_are_right)
{
    enum { MANY = 400, EACH = 60 };
    struct engine_now now = now_at(1750000000123);
    struct engine *engine = start(now, MANY + 1);
    struct random random = seed_random(__func__);
    struct name text;
    uint64_t estimated = 0;

    for (uint64_t i = 0; i < MANY * EACH; i++) {
        /* The last of each topic is due soon, and no page of its own is left for it. */
        int64_t spread = i < MANY * (EACH - 1) ? 10 * 24 * hour_ms : 2 * MINUTE_MS;
        push_at(engine, name_of(&text, "t", i % MANY), i,
                now.wall_ms + 1000 + (int64_t)random_below(&random, (uint64_t)(spread - 1000)),
                true, now);
    }
    assert_true(engine->forecast.top < FORECAST_PAGES_MAX);
    engine_check(engine);
    for (uint64_t i = 0; i <= MANY; i++) {
        struct engine_forecast *found =
            ask(engine, i == MANY ? slice_of("") : name_of(&text, "t", i), now);
        struct queue_forecast shown = {0};
        uint64_t sum = 0;
        timeline_show(&found->timeline, &shown);
        for (size_t hour = 0; hour < FORECAST_HOURS; hour++)
            sum += shown.hours[hour];
        assert_int_equal(sum + shown.later, i == MANY ? MANY * EACH : EACH);
        estimated += found->estimated;
        check_soon(engine, i == MANY ? slice_of("") : name_of(&text, "t", i), now,
                   &found->timeline);
        if (i == MANY)
            assert_false(found->estimated); /* all of them are counted, wherever */
        free(found);
    }
    assert_in_range(estimated, MANY / 4, MANY);
    engine_free(engine);
}

/* Passed pages make room for later ones. */
CLAIM(pages_of_the_past_serve_again)
{
    struct engine_now now = now_at(1750000000123);
    struct engine *engine = start(now, 10);
    struct name text;

    for (uint64_t i = 0; i < 3 * FORECAST_PAGES_MAX; i++) {
        struct slice topic = name_of(&text, "t", i % 5);
        push_at(engine, topic, i, now.wall_ms + hour_ms, true, now);
        now = now_at(now.inner_ms + hour_ms);
        while (engine_next_ms(engine) <= now.inner_ms)
            engine_advance(engine, now, 1000);
        struct engine_view view;
        while (engine_take(engine, topic, 1, SIZE_MAX, 0, (struct slice){0}, now, &view)) {
            struct engine_lease lease = {view.key.low, view.delivery};
            struct queue_answer ack = {.verb = QUEUE_ACK};
            struct queue_result result = {0};
            engine_answer(engine, &lease, &ack, now, &result);
            engine_view_fini(&view);
        }
    }
    assert_in_range(engine->forecast.cap, 1, 128);
    engine_check(engine);
    engine_free(engine);
}

/* ---- steps of the wall clock ---- */

/* Steps the wall clock: only jobs with a relative due move with it. */
static void step_wall(struct engine_now *now, struct due *dues, int64_t ms)
{
    now->wall_ms += ms;
    now->skew_ms += ms;
    for (size_t i = 0; i < JOBS; i++)
        dues[i].due_ms += dues[i].is_wall ? 0 : ms;
}

static void push_due(struct engine *engine, struct due *dues, size_t i, struct random *random,
                     struct engine_now now)
{
    struct name name;
    int64_t after_ms = 2 * hour_ms + (int64_t)random_below(random, (uint64_t)(9 * 24 * hour_ms));
    int64_t at_ms = now.wall_ms + after_ms;

    /* Many are due at the boundary of a minute, where a step of one millisecond counts. */
    if (i % 3 == 0)
        at_ms -= at_ms % MINUTE_MS;
    dues[i].topic = i % 20;
    dues[i].is_wall = random_below(random, 2);
    dues[i].waits = true;
    dues[i].due_ms = push_at(engine, name_of(&name, "t", i % 20), i, at_ms, dues[i].is_wall, now);
}

static void is_estimated(struct engine *engine, struct engine_now now)
{
    struct engine_forecast *found = ask(engine, slice_of(""), now);
    assert_true(found->estimated);
    assert_int_equal(found->timeline.total, JOBS);
    free(found);
}

static void retime_all(struct engine *engine, struct engine_now now)
{
    while (engine_next_ms(engine) <= now.inner_ms)
        engine_advance(engine, now, 1000);
}

/* Steps the wall clock forward and back. */
static void step_again_and_again(struct engine_now now)
{
    static const int64_t steps_ms[] = {
        5, -7, 1, 90001, -3 * 24 * 3600 * 1000, 2 * 24 * 3600 * 1000};
    static struct due dues[JOBS];
    struct engine *engine = start(now, 100);
    struct random random = seed_random(__func__);

    memset(dues, 0, sizeof dues);
    for (size_t i = 0; i < JOBS; i++)
        push_due(engine, dues, i, &random, now);
    check_all(engine, dues, UINT64_MAX, now);
    for (size_t i = 0; i < sizeof steps_ms / sizeof *steps_ms; i++) {
        step_wall(&now, dues, steps_ms[i]);
        is_estimated(engine, now);
        engine_advance(engine, now, 1000);
        retime_all(engine, now);
        engine_check(engine);
        check_all(engine, dues, UINT64_MAX, now);
        check_all(engine, dues, i % 20, now);
    }
    engine_free(engine);
}

CLAIM(after_a_step_of_the_wall_clock_the_forecast_becomes_exact_again)
{
    step_again_and_again(now_at(1750000000123));
}

/* The clock was in 1970 when the store was created, an hour ago. */
CLAIM(a_step_back_may_be_larger_than_the_age_of_the_store)
{
    const int64_t wall_ms = 1750000000123, age_ms = 3600 * 1000;

    step_again_and_again((struct engine_now){age_ms, wall_ms, wall_ms - age_ms});
}

CLAIM(changes_and_a_second_step_while_jobs_are_counted_again_keep_the_forecast_right)
{
    static struct due dues[JOBS];
    struct engine_now now = now_at(1750000000123);
    struct engine *engine = start(now, 100);
    struct random random = seed_random(__func__);

    memset(dues, 0, sizeof dues);
    for (size_t i = 0; i < JOBS; i++)
        push_due(engine, dues, i, &random, now);
    step_wall(&now, dues, 20005);
    engine_advance(engine, now, 1000);
    assert_int_equal(engine_next_ms(engine), 0); /* not all of them */
    for (int i = 0; i < 1000; i++)
        push_due(engine, dues, random_below(&random, JOBS), &random, now);
    engine_check(engine);
    is_estimated(engine, now);
    step_wall(&now, dues, -50006);
    for (int i = 0; i < 1000; i++)
        push_due(engine, dues, random_below(&random, JOBS), &random, now);
    engine_advance(engine, now, 1000);
    engine_check(engine);
    retime_all(engine, now);
    engine_check(engine);
    check_all(engine, dues, UINT64_MAX, now);
    engine_free(engine);
}

CLAIM(an_unknown_topic_has_no_forecast)
{
    struct engine_now now = now_at(1750000000123);
    struct engine *engine = start(now, 10);
    struct engine_forecast *found = calloc(1, sizeof *found);

    assert_false(engine_forecast(engine, slice_of("t"), now, found));
    assert_false(engine_soon(engine, slice_of("t"), now, found));
    free(found);
    engine_free(engine);
}

/* ---- within the next minute ---- */

CLAIM(soon_is_the_rest_of_this_minute_and_a_share_of_the_next_rounded_up)
{
    static const struct {
        uint64_t now, next;
        int64_t passed_ms;
        uint64_t soon;
    } cases[] = {{0, 0, 59999, 0},
                 {3, 7, 0, 3},
                 {3, 1, 1, 4},
                 {3, 60, 30000, 33},
                 {0, 60, 60000, 60},
                 {5, 60, 90000, 65},
                 {5, 60, -1, 5},
                 {0, UINT64_C(1) << 47, 30000, UINT64_C(1) << 46},
                 {0, 60001, 59999, 60000},
                 {1, 59999, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct queue_forecast forecast = {.from_ms = 1750000020000,
                                          .minutes = {cases[i].now, cases[i].next, 1000}};
        assert_int_equal(queue_forecast_soon(&forecast, forecast.from_ms + cases[i].passed_ms),
                         cases[i].soon);
    }
}

/* ---- shared out ---- */

CLAIM(a_share_has_the_right_sum_and_the_shape)
{
    static struct timeline shape, out;
    struct random random = seed_random(__func__);

    for (int round = 0; round < 50; round++) {
        uint64_t jobs = random_below(&random, 1000000), sum = 0;
        timeline_init(&shape, 0);
        timeline_init(&out, 0);
        for (int i = 0; i < 300; i++)
            timeline_add(&shape, (int64_t)random_below(&random, 200) * hour_ms,
                         random_below(&random, 1000000000));
        timeline_spread(&out, &shape, jobs);
        for (uint32_t i = 0; i < TIMELINE_MINUTES; i++) {
            double share = (double)shape.minutes[i] / (double)shape.total * (double)jobs;
            assert_true((double)out.minutes[i] - share < 1.5 &&
                        share - (double)out.minutes[i] < 1.5);
            sum += out.minutes[i];
        }
        assert_int_equal(sum + out.later, jobs);
        assert_int_equal(out.total, jobs);
    }
}

CLAIMS_MAIN(NULL, NULL)
