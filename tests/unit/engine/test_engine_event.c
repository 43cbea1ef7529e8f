/* Each event is reported once and correctly, with a place from which the job's id can be read; and only the
 * requested kinds. */
#include "engine_rig.h"

#include "engine/stored.h"
#include "unit/claim.h"

enum { LEASE_MS = 100, EVENTS_MAX = 32, WORDS_BYTES = 400 };

struct ear {
    struct log log; /* first: the sink's context */
    struct engine *engine;
    size_t count;
    struct job_event events[EVENTS_MAX];
    char words[WORDS_BYTES]; /* "pushed due …" */
};

/* The id is the pushed one, or the one in the record. */
static void on_event(void *ctx, const struct job_event *event, struct hash128 key,
                     struct record_place place)
{
    struct ear *ear = ctx;
    struct record_place at;
    struct record record = record_at(&ear->log, place.at, &at);
    assert_int_equal(record.kind, RECORD_JOB);
    assert_true(slice_is(record.job.id, "job"));
    assert_true(!event->id.len || slice_is(event->id, "job"));
    assert_true(slice_equals(event->topic, topic_name(0)));
    assert_true(engine_key(ear->engine, record.job.topic, record.job.id).low == key.low);
    assert_true(ear->count < EVENTS_MAX);
    ear->events[ear->count++] = *event;
    strcat(ear->words, ear->words[0] ? " " : "");
    strcat(ear->words, job_event_name(event->kind));
}

struct stage {
    struct ear ear;
    struct engine_now now;
};

static void stage_open(struct stage *stage, uint32_t kinds)
{
    *stage = (struct stage){.now = {START_MS, START_MS + 500, 500}};
    struct engine_options options = {.sink = {.append = on_append,
                                              .ready = on_ready,
                                              .died = on_died,
                                              .event = on_event,
                                              .ctx = &stage->ear},
                                     .hash_seed = 7,
                                     .body_bytes_max = 1000,
                                     .topics_max = 10,
                                     .random_seed = 1,
                                     .now = stage->now};
    stage->ear.engine = engine_new(&options);
    engine_start(stage->ear.engine, 1);
    engine_notify(stage->ear.engine, kinds);
}

static void stage_close(struct stage *stage)
{
    engine_check(stage->ear.engine);
    engine_free(stage->ear.engine);
    log_free(&stage->ear.log);
}

static void pass(struct stage *stage, int64_t ms)
{
    stage->now.inner_ms += ms;
    stage->now.wall_ms += ms;
    while (engine_next_ms(stage->ear.engine) <= stage->now.inner_ms)
        engine_advance(stage->ear.engine, stage->now, 100);
}

static void push(struct stage *stage, int64_t delay_ms, struct policy policy)
{
    struct queue_result result = {0};
    struct queue_push push = {.topic = topic_name(0),
                              .id = slice_of("job"),
                              .when = {.due = QUEUE_DUE_DELAY, .ms = delay_ms},
                              .policy = policy,
                              .priority = QUEUE_PRIORITY_UNSET};
    engine_push(stage->ear.engine, &push, stage->now, &result);
}

static struct engine_lease take(struct stage *stage)
{
    struct engine_view view;
    assert_int_equal(engine_take(stage->ear.engine, topic_name(0), 1, SIZE_MAX, LEASE_MS,
                                 (struct slice){0}, stage->now, &view),
                     1);
    struct engine_lease lease = {.key_low = view.key.low, .delivery = view.delivery};
    engine_view_fini(&view);
    return lease;
}

static void answer(struct stage *stage, struct engine_lease lease, enum queue_verb verb)
{
    struct queue_result result = {0};
    struct queue_answer answer = {.verb = verb, .delay_ms = 10, .error = slice_of("no luck")};
    engine_answer(stage->ear.engine, &lease, &answer, stage->now, &result);
    assert_int_equal(result.status, QUEUE_OK);
}

static void change(struct stage *stage, enum queue_change_verb verb)
{
    struct queue_result result = {0};
    struct queue_change change = {.verb = verb,
                                  .topic = topic_name(0),
                                  .id = slice_of("job"),
                                  .when = {.due = QUEUE_DUE_DELAY, .ms = 1000},
                                  .priority = QUEUE_PRIORITY_UNSET};
    engine_change(stage->ear.engine, &change, stage->now, &result);
}

static const struct job_event *last(const struct stage *stage)
{
    return &stage->ear.events[stage->ear.count - 1];
}

CLAIM(each_change_sends_one_event)
{
    struct stage stage;
    stage_open(&stage, JOB_EVENTS_ALL);
    push(&stage, 20, (struct policy){0});
    push(&stage, 10, (struct policy){0});
    assert_int_equal(last(&stage)->due_ms, stage.now.wall_ms + 1 + 10);
    pass(&stage, 11);
    assert_int_equal(last(&stage)->kind, JOB_EVENT_DUE);
    struct engine_lease lease = take(&stage);
    answer(&stage, lease, QUEUE_EXTEND);
    assert_int_equal(last(&stage)->lease_until_ms, stage.now.wall_ms + 1 + LEASE_MS);
    answer(&stage, lease, QUEUE_RETURN);
    assert_int_equal(last(&stage)->attempt, 1);
    pass(&stage, 11);
    answer(&stage, take(&stage), QUEUE_NACK);
    assert_true(slice_is(last(&stage)->error, "no luck") && last(&stage)->attempt == 1);
    pass(&stage, 11);
    take(&stage);
    pass(&stage, LEASE_MS + 1);
    assert_int_equal(last(&stage)->attempt, 2);
    change(&stage, QUEUE_RESCHEDULE);
    change(&stage, QUEUE_RUN);
    answer(&stage, take(&stage), QUEUE_ACK);
    assert_int_equal(last(&stage)->attempt, 3);
    push(&stage, 0, (struct policy){0});
    change(&stage, QUEUE_CANCEL);
    push(&stage, 0, (struct policy){0});
    struct engine_view view;
    struct record_place place;
    engine_pop(stage.ear.engine,
               engine_first_ready(stage.ear.engine, topic_name(0), stage.now, &place), stage.now,
               &view);
    engine_view_fini(&view);
    assert_int_equal(last(&stage)->attempt, 1);
    assert_string_equal(stage.ear.words,
                        "pushed replaced due extended returned due nacked due lease_ended "
                        "rescheduled run acked pushed cancelled pushed acked");
    stage_close(&stage);
}

CLAIM(death_and_redrive_of_a_job_send_events)
{
    struct stage stage;
    stage_open(&stage, JOB_EVENTS_ALL);
    push(&stage, 0, (struct policy){.max_attempts = 1});
    answer(&stage, take(&stage), QUEUE_NACK);
    assert_true(slice_is(last(&stage)->error, "no luck"));
    assert_int_equal(engine_redrive(stage.ear.engine, topic_name(0), slice_of("job"), stage.now),
                     QUEUE_OK);
    take(&stage);
    pass(&stage, LEASE_MS + 1);
    assert_true(slice_is(last(&stage)->error, "lease ended"));
    assert_string_equal(stage.ear.words, "pushed nacked dead redriven lease_ended dead");
    stage_close(&stage);
}

CLAIM(a_job_that_is_not_taken_in_time_expires)
{
    struct stage stage;
    stage_open(&stage, JOB_EVENTS_ALL);
    push(&stage, 0, (struct policy){.ttl_ms = 5});
    pass(&stage, 10);
    assert_string_equal(stage.ear.words, "pushed expired");
    stage_close(&stage);
}

CLAIM(only_requested_kinds_send_events)
{
    struct stage stage;
    stage_open(&stage, job_event_bit(JOB_EVENT_DUE));
    push(&stage, 10, (struct policy){0});
    pass(&stage, 11);
    engine_notify(stage.ear.engine, 0);
    answer(&stage, take(&stage), QUEUE_NACK);
    pass(&stage, 11);
    assert_string_equal(stage.ear.words, "due");
    stage_close(&stage);
}

CLAIMS_MAIN(NULL, NULL)
