/* Commands without memory: a refused command leaves nothing behind; one that may not be refused continues
 * with less. */
#include "unit/claim.h"
#include "unit/fault_calls.h"

#include "engine_rig.h"

enum { TRIES_MAX = 50 };

static size_t appended;
static struct engine_now now;

/* A log that needs no memory of its own. */
static struct record_place append_nothing(void *ctx, const struct record *record)
{
    (void)ctx;
    return (struct record_place){
        .file = 1, .at = (uint32_t)++appended, .bytes = (uint32_t)record_bytes_max(record)};
}

static struct engine *new_engine(void)
{
    static struct log reported; /* counts only */
    const struct engine_options options = {
        .sink = {.append = append_nothing, .ready = on_ready, .died = on_died, .ctx = &reported},
        .hash_seed = 7,
        .body_bytes_max = 1000,
        .topics_max = 100,
        .random_seed = 1,
        .now = now};

    return engine_new(&options);
}

static struct engine *start(void)
{
    struct engine *engine;

    now = (struct engine_now){START_MS, START_MS + 500, 500};
    engine = new_engine();
    assert_non_null(engine);
    engine_start(engine, 1);
    return engine;
}

static void end(struct engine *engine)
{
    engine_check(engine);
    engine_free(engine);
}

/* Only the n-th allocation from here on fails. */
#define SCARCE(N, CALL)                                                                            \
    ({                                                                                             \
        calls_left = (N);                                                                          \
        __auto_type scarce_result = (CALL);                                                        \
        calls_left = -1;                                                                           \
        scarce_result;                                                                             \
    })

static enum queue_status push_with(struct engine *engine, const char *id,
                                   const struct policy *policy)
{
    struct queue_result result = {0};
    const struct queue_push push = {.topic = topic_name(0),
                                    .id = slice_of(id),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .policy = *policy,
                                    .when = {QUEUE_DUE_NOW, 0}};

    engine_push(engine, &push, now, &result);
    return result.status;
}

static const struct policy no_policy;

static size_t take_into(struct engine *engine, struct engine_view *view)
{
    return engine_take(engine, topic_name(0), 1, SIZE_MAX, 1000, (struct slice){0}, now, view);
}

static struct engine_lease take(struct engine *engine)
{
    struct engine_view view;

    assert_int_equal(take_into(engine, &view), 1);
    engine_view_fini(&view);
    return (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
}

static enum queue_status nack(struct engine *engine, struct engine_lease lease)
{
    const struct queue_answer answer = {
        .verb = QUEUE_NACK, .delay_ms = 0, .error = slice_of("no luck")};
    struct queue_result result = {0};

    engine_answer(engine, &lease, &answer, now, &result);
    return result.status;
}

/* ---- claims ---- */

CLAIM(creation_without_memory_leaves_no_engine)
{
    struct engine *engine = NULL;
    int refused = 0;

    for (int n = 0; !engine; n++) {
        assert_true(n < TRIES_MAX);
        engine = SCARCE(n, new_engine());
        refused += !engine;
    }
    assert_true(refused >= 2);
    end(engine);
}

CLAIM(a_rejected_topic_is_not_created)
{
    const struct topic_settings settings = {.extension = slice_of("{\"kept\":true}")};
    enum queue_status status = QUEUE_NO_MEMORY;
    int refused = 0;

    for (int n = 0; status == QUEUE_NO_MEMORY; n++) {
        struct engine *engine = start();
        size_t before = appended;

        status = SCARCE(n, engine_topic_put(engine, topic_name(0), &settings));
        refused += status == QUEUE_NO_MEMORY;
        assert_int_equal(engine_topic_count(engine), status == QUEUE_CREATED);
        assert_int_equal(appended - before, status == QUEUE_CREATED);
        end(engine);
    }
    assert_int_equal(status, QUEUE_CREATED);
    assert_int_equal(refused, 6);
}

CLAIM(settings_that_were_refused_change_nothing)
{
    const struct topic_settings before = {.extension = slice_of("{}"), .dedup_window_ms = 1000};
    const struct topic_settings after = {.extension = slice_of("{\"a\":1}")};
    struct engine *engine = start();
    struct queue_topic shown;

    assert_int_equal(engine_topic_put(engine, topic_name(0), &before), QUEUE_CREATED);
    assert_int_equal(SCARCE(0, engine_topic_put(engine, topic_name(0), &after)), QUEUE_NO_MEMORY);
    assert_true(engine_topic_show(engine, topic_name(0), now, &shown));
    assert_true(slice_is(shown.settings.extension, "{}"));
    assert_int_equal(shown.settings.dedup_window_ms, 1000);
    end(engine);
}

/* Also where the push would have made its topic. */
CLAIM(a_push_that_was_refused_has_left_nothing)
{
    const struct policy policy = {.max_attempts = 3};
    int refused = 0;

    for (int exists = 0; exists < 2; exists++) {
        enum queue_status status = QUEUE_NO_MEMORY;

        for (int n = 0; status == QUEUE_NO_MEMORY; n++) {
            struct engine *engine = start();
            size_t before;

            if (exists)
                assert_int_equal(
                    engine_topic_put(engine, topic_name(0), &(struct topic_settings){0}),
                    QUEUE_CREATED);
            before = appended;
            status = SCARCE(n, push_with(engine, "a", &policy));
            refused += status == QUEUE_NO_MEMORY;
            assert_int_equal(engine_topic_count(engine), exists || status == QUEUE_CREATED);
            assert_int_equal(appended - before, status == QUEUE_CREATED);
            end(engine);
        }
        assert_int_equal(status, QUEUE_CREATED);
    }
    assert_true(refused > 10);
}

/* Its heap has no room: it is looked at again soon. */
CLAIM(a_job_without_memory_to_be_ready_is_so_a_second_later)
{
    struct engine *engine = start();
    struct queue_topic shown;

    assert_int_equal(engine_topic_put(engine, topic_name(0), &(struct topic_settings){0}),
                     QUEUE_CREATED);
    struct queue_push push = {.topic = topic_name(0),
                              .id = slice_of("a"),
                              .priority = QUEUE_PRIORITY_UNSET,
                              .when = {QUEUE_DUE_DELAY, 100}};
    struct queue_result result = {0};
    engine_push(engine, &push, now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
    now.inner_ms += 101;
    assert_int_equal(SCARCE(0, engine_advance(engine, now, 10)), 1);
    assert_true(engine_topic_show(engine, topic_name(0), now, &shown));
    assert_int_equal(shown.counts.delayed, 1);
    now.inner_ms += 1000;
    engine_advance(engine, now, 10);
    assert_true(engine_topic_show(engine, topic_name(0), now, &shown));
    assert_int_equal(shown.counts.ready, 1);
    end(engine);
}

CLAIM(jobs_that_cannot_be_leased_stay_ready)
{
    struct engine *engine = start();
    struct engine_view view;
    size_t taken = 0;
    int refused = 0;

    assert_int_equal(push_with(engine, "a", &no_policy), QUEUE_CREATED);
    for (int n = 0; taken == 0; n++) {
        taken = SCARCE(n, take_into(engine, &view));
        assert_int_equal(engine_topic_has_ready(engine, topic_name(0)), taken == 0);
        refused += taken == 0;
        engine_check(engine);
    }
    assert_true(refused > 0);
    assert_int_equal(view.attempt, 1);
    engine_view_fini(&view);
    end(engine);
}

/* With its error, where the texts are copied; without, where they cannot be. */
CLAIM(a_job_is_shown_without_texts_if_memory_runs_out)
{
    struct engine *engine = start();
    struct engine_view view;
    bool found;

    assert_int_equal(push_with(engine, "a", &no_policy), QUEUE_CREATED);
    assert_int_equal(nack(engine, take(engine)), QUEUE_OK);
    for (int scarce = 0; scarce < 2; scarce++) {
        found =
            SCARCE(scarce ? 0 : -1, engine_find(engine, topic_name(0), slice_of("a"), now, &view));
        assert_true(found);
        assert_int_equal(view.attempt, 1);
        assert_int_equal(view.error_bytes, scarce ? 0 : strlen("no luck"));
        assert_int_equal(view.history_bytes == 0, scarce);
        engine_view_fini(&view);
    }
    end(engine);
}

/* An answer is never rejected because of missing memory. */
CLAIM(an_error_without_memory_for_it_is_not_kept)
{
    struct engine *engine = start();
    struct engine_view view;

    assert_int_equal(push_with(engine, "a", &no_policy), QUEUE_CREATED);
    struct engine_lease lease = take(engine);
    assert_int_equal(SCARCE(0, nack(engine, lease)), QUEUE_OK);
    assert_true(engine_find(engine, topic_name(0), slice_of("a"), now, &view));
    assert_int_equal(view.error_bytes, 0);
    assert_int_equal(view.attempt, 1);
    engine_view_fini(&view);
    end(engine);
}

CLAIM(an_expired_job_without_memory_to_be_dead_is_gone)
{
    for (int scarce = 0; scarce < 2; scarce++) {
        const struct topic_settings settings = {.policy.ttl_ms = 1000, .dead_letter_expired = true};
        struct engine *engine = start();
        struct queue_topic shown;

        assert_int_equal(engine_topic_put(engine, topic_name(0), &settings), QUEUE_CREATED);
        assert_int_equal(push_with(engine, "a", &no_policy), QUEUE_CREATED);
        now.inner_ms += 2000;
        assert_int_equal(SCARCE(scarce ? 0 : -1, engine_advance(engine, now, 10)), 1);
        assert_true(engine_topic_show(engine, topic_name(0), now, &shown));
        assert_int_equal(shown.counts.dead, !scarce);
        assert_int_equal(shown.totals.expired, scarce);
        assert_int_equal(shown.counts.ready, 0);
        end(engine);
    }
}

CLAIM(a_list_without_memory_is_not_begun)
{
    struct engine *engine = start();
    struct slice name = topic_name(0);
    struct walk walk = {.kind = WALK_LIST, .topic_bytes = name.len, .limit = 5};

    memcpy(walk.topic, name.at, name.len);
    assert_int_equal(push_with(engine, "a", &no_policy), QUEUE_CREATED);
    assert_false(SCARCE(0, walk_init(&walk, engine)));
    walk_fini(&walk);
    assert_true(walk_init(&walk, engine));
    assert_true(walk_step(&walk, engine, now, 10, 1));
    assert_int_equal(walk.found.count, 1);
    walk_fini(&walk);
    end(engine);
}

/* ---- coming back ---- */

static enum engine_slot never_committed(void *ctx, struct record_place place,
                                        enum job_section *section)
{
    (void)ctx;
    (void)place;
    (void)section;
    return SLOT_UNKNOWN;
}

enum story { PLAIN_THEN_STATE, WITH_POLICY, END, REMEMBERED, FROM_A_SLOT, SETTINGS, STORIES };

/* False: it was refused. */
static bool replay_story(struct engine *engine, enum story story)
{
    const struct record_place place = {.file = 1, .at = 1, .bytes = 100};
    const struct record_place slot = {.file = RECORD_IN_RUN | 3, .at = 1, .bytes = 50};
    struct record job = {.kind = RECORD_JOB,
                         .origin = RECORD_PUSHED,
                         .job = {.topic = topic_name(0),
                                 .id = slice_of("a"),
                                 .state = JOB_DELAYED,
                                 .due_ms = START_MS + 1000,
                                 .first_due_ms = START_MS + 1000,
                                 .sequence = 5}};
    const struct hash128 key = hash_pair(job.job.topic, job.job.id, 7);
    const struct record retry = {.kind = RECORD_STATE,
                                 .state = {.key = key,
                                           .state = JOB_DELAYED,
                                           .attempt = 1,
                                           .delivery = 9,
                                           .due_ms = START_MS + 2000,
                                           .first_due_ms = START_MS + 1000}};
    struct record done = {
        .kind = RECORD_DONE,
        .done = {.key = key, .reason = RECORD_ACKED, .sequence = 5, .topic = topic_name(0)}};
    const struct record settings = {.kind = RECORD_TOPIC,
                                    .topic = {.topic = topic_name(0),
                                              .exists = true,
                                              .settings = {.extension = slice_of("{\"a\":1}")}}};

    switch (story) {
    case PLAIN_THEN_STATE:
        return engine_replay(engine, &job, place) && engine_replay(engine, &retry, place);
    case WITH_POLICY:
        job.job.policy.max_attempts = 2;
        return engine_replay(engine, &job, place);
    case FROM_A_SLOT:
        job.from = slot;
        return engine_replay(engine, &job, place);
    case REMEMBERED:
        done.done.remember_until_ms = START_MS + 1000;
        return engine_replay(engine, &done, place);
    case END:
        done.from = slot;
        return engine_replay(engine, &done, place);
    default:
        return engine_replay(engine, &settings, place);
    }
}

/* The opening is then refused; the next may find memory. */
CLAIM(a_record_is_rejected_if_memory_runs_out)
{
    for (enum story story = 0; story < STORIES; story++) {
        bool done = false;
        int refused = 0;

        for (int n = 0; !done; n++) {
            struct engine_options options = {
                .sink = {.append = append_nothing, .release_slot = never_committed},
                .hash_seed = 7,
                .topics_max = 100,
                .random_seed = 1,
                .now = {START_MS, START_MS + 500, 500}};
            struct engine *engine = engine_new(&options);

            assert_non_null(engine);
            done = SCARCE(n, replay_story(engine, story));
            refused += !done;
            assert_true(n < TRIES_MAX);
            engine_free(engine);
        }
        assert_true(refused >= 4); /* a topic takes as many */
    }
}

CLAIMS_MAIN(NULL, NULL)
