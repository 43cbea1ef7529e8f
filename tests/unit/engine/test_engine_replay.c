/* Records that replay must refuse, ignore, or take twice: an older file, a crash or a bit gone
 * wrong left them. */
#include "engine_rig.h"

#include "engine/stored.h"
#include "unit/claim.h"

static struct {
    struct engine *engine;
    struct log log;
    uint32_t at;
    bool has_stubs; /* never filled: the engine does not start */
    bool
        is_partial; /* older files are gone, and with them the topic's record that lists their content */
} scene;

static int open_scene(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.engine = open_engine(&scene.log, (struct engine_now){START_MS, START_MS + 500, 500});
    return scene.engine ? 0 : -1;
}

static int close_scene(void **state)
{
    (void)state;
    if (!scene.has_stubs) {
        engine_start(scene.engine, 2);
        if (!scene.is_partial)
            engine_check(scene.engine);
    }
    engine_free(scene.engine);
    log_free(&scene.log);
    return 0;
}

static struct record_place next_place(void)
{
    return (struct record_place){.file = 1, .at = ++scene.at, .bytes = 50};
}

static struct record job_of(const char *topic, const char *id)
{
    return (struct record){.kind = RECORD_JOB,
                           .origin = RECORD_PUSHED,
                           .job = {.topic = slice_of(topic),
                                   .id = slice_of(id),
                                   .body = slice_of("body"),
                                   .state = JOB_DELAYED,
                                   .due_ms = START_MS + 1000,
                                   .first_due_ms = START_MS + 1000,
                                   .sequence = 10}};
}

static struct hash128 key_of(const char *topic, const char *id)
{
    return hash_pair(slice_of(topic), slice_of(id), 7);
}

static struct record state_of(const char *id, enum job_state state)
{
    return (struct record){.kind = RECORD_STATE,
                           .state = {.key = key_of("orders", id),
                                     .state = state,
                                     .due_ms = START_MS + 9000,
                                     .first_due_ms = START_MS + 9000}};
}

static struct record done_of(const char *topic, const char *id)
{
    return (struct record){.kind = RECORD_DONE,
                           .done = {.key = key_of("orders", id),
                                    .reason = RECORD_ACKED,
                                    .topic = slice_of(topic),
                                    .sequence = 11}};
}

static bool replay_one(const struct record *record)
{
    return engine_replay(scene.engine, record, next_place());
}

static bool replay_job(const char *id)
{
    struct record record = job_of("orders", id);

    return replay_one(&record);
}

static struct queue_topic shown(void)
{
    struct queue_topic topic = {0};
    struct engine_now now = {START_MS, START_MS + 500, 500};

    assert_true(engine_topic_show(scene.engine, slice_of("orders"), now, &topic));
    return topic;
}

static uint64_t jobs(void)
{
    struct queue_counts counts = shown().counts;

    return counts.delayed + counts.retrying + counts.ready + counts.leased + counts.dead;
}

static bool knows(const char *id)
{
    return engine_knows(scene.engine, key_of("orders", id));
}

/* ---- refused ---- */

CLAIM_BETWEEN(a_job_that_cannot_be_is_refused, open_scene, close_scene)
{
    static char long_id[JOB_ID_BYTES_MAX + 2];
    struct record record;

    memset(long_id, 'x', sizeof long_id - 1);
    record = job_of("no topic, for its spaces", "a");
    assert_false(replay_one(&record));
    record = job_of("orders", "");
    assert_false(replay_one(&record));
    record = job_of("orders", long_id);
    assert_false(replay_one(&record));
    record = job_of("orders", "a");
    record.job.state = JOB_READY;
    assert_false(replay_one(&record));
    record.job.state = JOB_FINISHED;
    assert_false(replay_one(&record));
    assert_int_equal(engine_entries(scene.engine), 0);
    assert_int_equal(engine_topic_count(scene.engine), 0);
}

CLAIM_BETWEEN(a_record_of_no_kind_is_refused, open_scene, close_scene)
{
    struct record record = job_of("orders", "a");

    record.kind = (enum record_kind)9;
    assert_false(replay_one(&record));
}

CLAIM_BETWEEN(a_state_that_is_never_stored_is_refused, open_scene, close_scene)
{
    struct record record;

    assert_true(replay_job("a"));
    record = state_of("a", JOB_READY);
    assert_false(replay_one(&record));
    record = state_of("a", JOB_FINISHED);
    assert_false(replay_one(&record));
    record = state_of("nobody", JOB_READY);
    assert_false(replay_one(&record));
    record = state_of("nobody", JOB_FINISHED);
    assert_false(replay_one(&record));
    assert_int_equal(shown().counts.delayed, 1);
}

CLAIM_BETWEEN(a_state_after_the_end_of_a_job_is_rejected, open_scene, close_scene)
{
    struct record done = done_of("orders", "a"), later = state_of("a", JOB_LEASED);

    done.done.remember_until_ms = START_MS + 5000;
    assert_true(replay_job("a"));
    assert_true(replay_one(&done));
    assert_false(replay_one(&later));
    assert_int_equal(jobs(), 0);
}

CLAIM_BETWEEN(an_end_without_an_id_is_rejected_if_it_must_be_remembered, open_scene, close_scene)
{
    struct record record = done_of("", "a");

    record.done.remember_until_ms = START_MS + 5000;
    assert_false(replay_one(&record));
    assert_int_equal(engine_entries(scene.engine), 0);
}

static struct record topic_record(bool exists)
{
    return (struct record){.kind = RECORD_TOPIC,
                           .topic = {.topic = slice_of("orders"), .exists = exists}};
}

CLAIM_BETWEEN(a_topic_with_jobs_is_not_removed, open_scene, close_scene)
{
    struct record removal = topic_record(false);

    assert_true(replay_job("a"));
    assert_false(replay_one(&removal));
    assert_int_equal(shown().counts.delayed, 1);
}

CLAIM_BETWEEN(more_topics_than_allowed_are_refused, open_scene, close_scene)
{
    unsigned taken = 0;

    for (int i = 0; i < 20; i++) {
        char name[32];
        struct record record;

        snprintf(name, sizeof name, "topic-%d", i);
        record = job_of(name, "a");
        taken += replay_one(&record);
    }
    assert_true(taken == 10 || taken == 20); /* rejected at the first excess, or accepted */
    assert_int_equal(engine_entries(scene.engine), taken);
    assert_int_equal(engine_topic_count(scene.engine), taken);
}

/* ---- ignored ---- */

CLAIM_BETWEEN(the_end_of_a_job_that_is_nowhere_ends_nothing, open_scene, close_scene)
{
    struct record record = done_of("orders", "nobody");

    scene.is_partial = true;
    assert_true(replay_job("a"));
    assert_true(replay_one(&record));
    assert_int_equal(shown().counts.delayed, 1);
    assert_true(knows("a"));
    assert_int_equal(shown().totals.acked, 1); /* it was in a file that is gone */
}

CLAIM_BETWEEN(an_end_carried_on_is_not_counted_again, open_scene, close_scene)
{
    struct record record = done_of("orders", "a");

    record.done.carried = true;
    record.done.remember_until_ms = START_MS + 5000;
    assert_true(replay_one(&record));
    assert_int_equal(shown().totals.acked, 0);
    assert_true(knows("a"));
}

CLAIM_BETWEEN(the_removal_of_a_topic_that_is_nowhere_is_fine, open_scene, close_scene)
{
    struct record removal = topic_record(false);

    assert_true(replay_one(&removal));
    assert_int_equal(engine_topic_count(scene.engine), 0);
}

/* Remembered ids whose time ran out leave no record. */
CLAIM_BETWEEN(a_removed_topic_takes_its_remembered_ids_along, open_scene, close_scene)
{
    struct record removal = topic_record(false), done;
    struct record other = job_of("mails", "stays");
    char id[] = "a";

    assert_true(replay_one(&other));
    for (; *id < 'f'; ++*id) {
        done = done_of("orders", id);
        done.done.remember_until_ms = START_MS + 5000;
        assert_true(replay_job(id));
        assert_true(replay_one(&done));
    }
    assert_int_equal(engine_entries(scene.engine), 6);
    assert_true(replay_one(&removal));
    assert_int_equal(engine_entries(scene.engine), 1);
    assert_int_equal(engine_topic_count(scene.engine), 1);
    assert_false(knows("a"));
}

/* ---- twice ---- */

CLAIM_BETWEEN(a_record_that_comes_twice_changes_nothing, open_scene, close_scene)
{
    struct record leased = state_of("a", JOB_LEASED), retried = state_of("a", JOB_DELAYED);
    struct queue_topic once, twice;

    leased.state.delivery = 77;
    leased.state.attempt = 1;
    leased.state.lease_until_ms = START_MS + 9000;
    retried.state.delivery = 77;
    retried.state.attempt = 1;
    retried.state.error = slice_of("no luck");
    retried.state.ended = (struct record_ended){
        .outcome = JOB_OUTCOME_LEASE_ENDED, .started_ms = 1, .duration_ms = 1};
    assert_true(replay_job("a"));
    assert_true(replay_one(&leased) && replay_one(&leased));
    assert_int_equal(shown().counts.leased, 1);
    assert_int_equal(shown().totals.delivered, 1);
    assert_true(replay_one(&retried));
    once = shown();
    assert_true(replay_one(&retried));
    twice = shown();
    assert_int_equal(once.totals.lease_ended, 1);
    assert_int_equal(twice.totals.lease_ended, 1);
    assert_int_equal(twice.totals.nacked, 0);
    assert_memory_equal(&once.counts, &twice.counts, sizeof once.counts);
}

CLAIM_BETWEEN(a_job_pushed_again_takes_the_place_of_the_one_before, open_scene, close_scene)
{
    struct record leased = state_of("a", JOB_LEASED), again = job_of("orders", "a");

    again.origin = RECORD_PUSHED_REPLACING;
    assert_true(replay_job("a"));
    assert_true(replay_one(&leased));
    assert_true(replay_one(&again));
    assert_int_equal(jobs(), 1);
    assert_int_equal(shown().counts.delayed, 1);
    assert_int_equal(shown().totals.pushed, 1);
    assert_int_equal(shown().totals.replaced, 1);
}

/* ---- states of jobs that are not here ---- */

/* It may lie in a run; who finds it nowhere knows that the log has lost something. */
CLAIM_BETWEEN(a_state_of_a_job_that_is_not_here_waits_for_it, open_scene, close_scene)
{
    struct record leased = state_of("far", JOB_LEASED);
    struct record_place place;
    struct hash128 key;
    uint32_t at = 0;

    leased.state.delivery = 5;
    leased.from = (struct record_place){.file = 3 | RECORD_IN_RUN, .at = 9, .bytes = 70};
    assert_true(replay_one(&leased));
    assert_true(replay_one(&leased));
    assert_true(engine_stub_next(scene.engine, &at, &key, &place));
    assert_int_equal(key.low, key_of("orders", "far").low);
    assert_int_equal(place.at, 9);
    assert_false(engine_stub_next(scene.engine, &at, &key, &place));
    scene.has_stubs = true;
}

static bool something_waits(void)
{
    struct record_place place;
    struct hash128 key;
    uint32_t at = 0;

    return engine_stub_next(scene.engine, &at, &key, &place);
}

CLAIM_BETWEEN(a_pending_state_is_settled_by_the_job_end, open_scene, close_scene)
{
    struct record leased = state_of("far", JOB_LEASED), done = done_of("orders", "far");

    scene.is_partial = true;
    leased.state.delivery = 5;
    assert_true(replay_one(&leased));
    assert_true(something_waits());
    assert_true(replay_one(&done));
    assert_false(something_waits());
    assert_false(knows("far"));
    assert_int_equal(shown().totals.acked, 1);
}

CLAIM_BETWEEN(a_pending_state_is_settled_by_a_new_push, open_scene, close_scene)
{
    struct record leased = state_of("far", JOB_LEASED);

    assert_true(replay_one(&leased));
    assert_true(something_waits());
    assert_true(replay_job("far"));
    assert_false(something_waits());
    assert_int_equal(shown().counts.delayed, 1);
    assert_int_equal(shown().counts.leased, 0);
}

CLAIMS_MAIN(NULL, NULL)
