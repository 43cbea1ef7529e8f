/* Several shards, and a crash between two of them: what the start makes of a topic that is half changed. */
#include "local/handle.h"

#include "base/clock.h"
#include "base/log.h"
#include "fsck/fsck.h"
#include "unit/cases.h"
#include "unit/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SHARDS = 3, TIMEOUT_MS = 30000, JOBS = 30 };

struct world {
    char dir[64];
    struct local *local;
    struct reactor *reactors[SHARDS];
    struct queue *queue; /* of the first reactor */
    char name[16];       /* of the topic */
    uint32_t answered;
    enum queue_status status;
    struct queue_topic topic; /* of the last answer; no slices */
    bool has_stopped;
};

static void on_failed(void *ctx)
{
    (void)ctx;
    fail_msg("the log failed");
}

static void open_local(struct world *world)
{
    char error[512] = "";
    uint32_t shards;
    struct queue *queues[SHARDS];
    struct local_options options = {.data_dir = world->dir,
                                    .shards = SHARDS,
                                    .sync = WAL_SYNC_NEVER,
                                    .wal_file_bytes = 1 << 20,
                                    .body_bytes_max = 1 << 10,
                                    .topics_max = 1000,
                                    .failed = on_failed};
    log_open(NULL, LOG_ERROR, false);
    world->has_stopped = false;
    if (local_open(&options, &world->local, &shards, error, sizeof error))
        fail_msg("%s", error);
    for (uint32_t i = 0; i < SHARDS; i++)
        world->reactors[i] = reactor_new(i);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (local_attach(world->local, i, world->reactors[i], &queues[i], error, sizeof error))
            fail_msg("%s", error);
    world->queue = queues[0];
}

static void pump(struct world *world, const bool *flag, uint32_t answered)
{
    int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;
    while (!(flag && *flag) && world->answered < answered) {
        assert_true(clock_boot_us() < until_us);
        for (uint32_t i = 0; i < SHARDS; i++)
            uv_run(reactor_loop(world->reactors[i]), UV_RUN_NOWAIT);
        usleep(50);
    }
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->has_stopped = true;
}

static void close_local(struct world *world)
{
    local_stop(world->local, on_stopped, world);
    pump(world, &world->has_stopped, UINT32_MAX);
    local_free(world->local);
    for (uint32_t i = 0; i < SHARDS; i++)
        reactor_free(world->reactors[i]);
}

static void reopen(struct world *world)
{
    close_local(world);
    open_local(world);
}

static int make_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_true(scratch_make(world->dir));
    snprintf(world->name, sizeof world->name, "t");
    open_local(world);
    *state = world;
    return 0;
}

static int remove_world(void **state)
{
    struct world *world = *state;
    close_local(world);
    int result = scratch_remove(world->dir);
    free(world);
    return result;
}

/* ---- calls, to the whole or to one shard alone ---- */

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct world *world = owner;
    (void)tag;
    world->status = reply->result_count ? reply->results[0].status : reply->status;
    world->topic = reply->topic_count ? reply->topics[0] : (struct queue_topic){0};
    world->answered++;
}

static enum queue_status call(struct world *world, struct queue *queue,
                              struct queue_topic_call topic_call)
{
    topic_call.topic = slice_of(world->name);
    queue_topic(queue, &topic_call, (struct queue_reply_to){.done = on_done, .owner = world});
    pump(world, NULL, world->answered + 1);
    return world->status;
}

static struct queue *shard_of(struct world *world, uint32_t shard)
{
    return &world->local->handles[0]->parts[shard].queue;
}

static enum queue_status call_shard(struct world *world, uint32_t shard,
                                    struct queue_topic_call topic_call)
{
    return call(world, shard_of(world, shard), topic_call);
}

static enum queue_status push_job(struct world *world, const char *id)
{
    struct queue_push push = {.topic = slice_of(world->name),
                              .id = slice_of(id),
                              .when = {.due = QUEUE_DUE_DELAY, .ms = 1000000},
                              .priority = QUEUE_PRIORITY_UNSET};
    queue_push(world->queue, &push, 1, (struct queue_reply_to){.done = on_done, .owner = world});
    pump(world, NULL, world->answered + 1);
    return world->status;
}

static void push_jobs(struct world *world)
{
    char id[16];
    for (int i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "j%d", i);
        assert_int_equal(push_job(world, id), QUEUE_CREATED);
    }
}

static struct queue_topic_call settings(int64_t lease_ms)
{
    return (struct queue_topic_call){.verb = QUEUE_TOPIC_PUT,
                                     .settings = {.policy.lease_ms = lease_ms}};
}

static struct queue_topic_call verb(enum queue_topic_verb what)
{
    return (struct queue_topic_call){.verb = what, .makes = what == QUEUE_TOPIC_PAUSE};
}

static void all_have(struct world *world, int64_t lease_ms, bool paused)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(call_shard(world, i, verb(QUEUE_TOPIC_GET)), QUEUE_OK);
        assert_int_equal(world->topic.settings.policy.lease_ms, lease_ms);
        assert_int_equal(world->topic.paused, paused);
    }
}

static uint64_t half_changed(struct world *world)
{
    struct fsck_report *report = calloc(1, sizeof *report);
    close_local(world);
    assert_int_equal(fsck_run(world->dir, report), 0);
    assert_int_equal(report->finding_count, 0);
    uint64_t found = report->half_changed;
    free(report);
    open_local(world);
    return found;
}

/* ---- claims ---- */

static void settings_that_reached_the_first_shard_reach_all(void **state)
{
    struct world *world = *state;
    push_jobs(world);
    assert_int_equal(call(world, world->queue, settings(5000)), QUEUE_OK);
    assert_int_equal(half_changed(world), 0);
    call_shard(world, 0, settings(7000));
    assert_int_equal(half_changed(world), 1);
    all_have(world, 7000, false);
    assert_int_equal(half_changed(world), 0);
    call_shard(world, 0, settings(8000));
    call_shard(world, 1, settings(8000));
    assert_int_equal(half_changed(world), 1);
    all_have(world, 8000, false);
}

static void a_new_topic_that_reached_the_first_shard_reaches_all(void **state)
{
    struct world *world = *state;
    call_shard(world, 0, settings(7000));
    reopen(world);
    all_have(world, 7000, false);
}

static void a_pause_and_its_end_that_reached_the_first_shard_reach_all(void **state)
{
    struct world *world = *state;
    push_jobs(world);
    call_shard(world, 0, verb(QUEUE_TOPIC_PAUSE));
    assert_int_equal(half_changed(world), 1);
    all_have(world, 0, true);
    call_shard(world, 0, verb(QUEUE_TOPIC_RESUME));
    assert_int_equal(half_changed(world), 1);
    all_have(world, 0, false);
    assert_int_equal(half_changed(world), 0);
}

static void a_pause_applies_to_shards_without_jobs_of_the_topic(void **state)
{
    struct world *world = *state;
    call_shard(world, 2, settings(0));
    assert_int_equal(call(world, world->queue, verb(QUEUE_TOPIC_PAUSE)), QUEUE_OK);
    all_have(world, 0, true);
    reopen(world);
    all_have(world, 0, true);
}

/* A crash after the mark, and after each of the shards. */
static void a_delete_that_began_ends(void **state)
{
    struct world *world = *state;
    for (uint32_t until = 1; until < SHARDS; until++) {
        push_jobs(world);
        assert_int_equal(call(world, world->queue, settings(5000)), QUEUE_OK);
        call_shard(world, 0, (struct queue_topic_call){.verb = QUEUE_TOPIC_MARK, .makes = true});
        for (uint32_t i = 1; i < until; i++)
            assert_int_equal(call_shard(world, i, verb(QUEUE_TOPIC_DELETE)), QUEUE_OK);
        assert_int_equal(half_changed(world), 1);
        while (call(world, world->queue, verb(QUEUE_TOPIC_GET)) == QUEUE_OK)
            usleep(1000);
        assert_int_equal(world->status, QUEUE_NOT_FOUND);
        assert_int_equal(half_changed(world), 0);
        for (uint32_t i = 0; i < SHARDS; i++)
            assert_int_equal(call_shard(world, i, verb(QUEUE_TOPIC_GET)), QUEUE_NOT_FOUND);
    }
}

static void an_answered_delete_leaves_nothing_to_settle(void **state)
{
    struct world *world = *state;
    push_jobs(world);
    assert_int_equal(call(world, world->queue, verb(QUEUE_TOPIC_DELETE)), QUEUE_OK);
    push_jobs(world); /* as a new topic */
    assert_int_equal(half_changed(world), 0);
    assert_int_equal(call(world, world->queue, verb(QUEUE_TOPIC_GET)), QUEUE_OK);
    assert_int_equal(world->topic.counts.delayed, JOBS);
}

/* Opens a store of a version without a first shard, which did not have the topic. */
static void settings_that_the_first_shard_lacks_reach_it(void **state)
{
    struct world *world = *state;
    call_shard(world, 1, settings(7000));
    assert_int_equal(half_changed(world), 1);
    all_have(world, 7000, false);
}

/* ---- a crash in the middle of a move to one shard, or back ---- */

static const struct topic_flow one_shard = {.one_shard = true},
                               strict = {.group_order = FLOW_STRICT}, spread;

static uint32_t shard_of_hash(struct world *world, const char *id)
{
    uint64_t seed = world->local->manifest.hash_seed;
    return datadir_shard_of(hash_pair(slice_of(world->name), slice_of(id), seed), SHARDS);
}

/* Writes the name of a topic whose home is the shard. */
static void name_topic(struct world *world, uint32_t home)
{
    for (int i = 0; !i || shard_of_hash(world, "") != home; i++)
        snprintf(world->name, sizeof world->name, "t%d", i);
}

/* Pushes a job whose id belongs to the shard if the topic is spread; `which` distinguishes such ids. */
static enum queue_status push_of_shard(struct world *world, uint32_t shard, char which)
{
    char id[16];
    for (int i = 0;; i++) {
        snprintf(id, sizeof id, "%c%d", which, i);
        if (shard_of_hash(world, id) == shard)
            return push_job(world, id);
    }
}

static enum queue_status put_flow(struct world *world, struct queue *queue, struct topic_flow flow,
                                  enum queue_place place)
{
    return call(world, queue,
                (struct queue_topic_call){
                    .verb = QUEUE_TOPIC_PUT, .settings = {.flow = flow}, .place = place});
}

static void move_in_shard(struct world *world, uint32_t shard, struct topic_flow flow)
{
    enum queue_status put = put_flow(world, shard_of(world, shard), flow, QUEUE_PLACE_MOVED);
    assert_true(put == QUEUE_OK || put == QUEUE_CREATED);
}

/* Starts again. All shards then have the flow (or do not have the topic), each shard accepts jobs, and all jobs are found. */
static void settles(struct world *world, struct topic_flow flow, const bool *has_job)
{
    uint64_t jobs = 0;
    reopen(world);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (call_shard(world, i, verb(QUEUE_TOPIC_GET)) == QUEUE_OK)
            assert_true(topic_flow_equal(&world->topic.settings.flow, &flow));
    assert_int_equal(half_changed(world), 0);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(push_of_shard(world, i, 'a'), has_job[i] ? QUEUE_REPLACED : QUEUE_CREATED);
        assert_int_equal(push_of_shard(world, i, 'b'), QUEUE_CREATED);
        jobs += 2;
    }
    assert_int_equal(call(world, world->queue, verb(QUEUE_TOPIC_GET)), QUEUE_OK);
    assert_int_equal(world->topic.counts.delayed, jobs);
    assert_true(topic_flow_equal(&world->topic.settings.flow, &flow));
}

/* The home changes first, and accepts its own jobs from then on. */
static void a_move_from_one_shard_that_began_is_undone(void **state)
{
    struct world *world = *state;
    const struct topic_flow flows[] = {one_shard, strict};
    for (uint32_t home = 0; home < SHARDS; home++)
        for (int i = 0; i < 2; i++) {
            bool has_job[SHARDS] = {[0] = false};
            name_topic(world, home);
            put_flow(world, world->queue, flows[i], 0);
            move_in_shard(world, home, spread);
            assert_int_equal(push_of_shard(world, home, 'a'), QUEUE_CREATED);
            has_job[home] = true;
            /* If the first shard is the home, it has changed, and all others follow it. */
            settles(world, home ? flows[i] : spread, has_job);
            assert_int_equal(call(world, world->queue, verb(QUEUE_TOPIC_DELETE)), QUEUE_OK);
        }
}

/* The first shard changes last, and the others have jobs from before their change or, in the home, after it. */
static void a_move_to_one_shard_that_began_is_undone(void **state)
{
    struct world *world = *state;
    const struct topic_flow flows[] = {one_shard, strict};
    for (int i = 0; i < 2; i++)
        for (int first_has_jobs = 0; first_has_jobs < 2; first_has_jobs++) {
            bool has_job[SHARDS] = {first_has_jobs, true, true};
            name_topic(world, 1);
            if (first_has_jobs)
                assert_int_equal(push_of_shard(world, 0, 'a'), QUEUE_CREATED);
            move_in_shard(world, 1, flows[i]);
            assert_int_equal(push_of_shard(world, 1, 'a'), QUEUE_CREATED);
            assert_int_equal(push_of_shard(world, 2, 'a'), QUEUE_CREATED);
            settles(world, spread, has_job);
            assert_int_equal(call(world, world->queue, verb(QUEUE_TOPIC_DELETE)), QUEUE_OK);
        }
}

/* The first shard does not have the topic, so it has no settings that apply to all. */
static void a_move_of_a_new_topic_to_one_shard_is_completed_if_only_its_home_has_jobs(void **state)
{
    struct world *world = *state;
    bool has_job[SHARDS] = {false, true, false};
    name_topic(world, 1);
    move_in_shard(world, 1, strict);
    assert_int_equal(push_of_shard(world, 1, 'a'), QUEUE_CREATED);
    settles(world, strict, has_job);
}

int main(void)
{
#define CLAIM(NAME) cmocka_unit_test_setup_teardown(NAME, make_world, remove_world)
    const struct CMUnitTest tests[] = {
        CLAIM(settings_that_reached_the_first_shard_reach_all),
        CLAIM(a_new_topic_that_reached_the_first_shard_reaches_all),
        CLAIM(a_pause_and_its_end_that_reached_the_first_shard_reach_all),
        CLAIM(a_pause_applies_to_shards_without_jobs_of_the_topic),
        CLAIM(a_delete_that_began_ends),
        CLAIM(an_answered_delete_leaves_nothing_to_settle),
        CLAIM(settings_that_the_first_shard_lacks_reach_it),
        CLAIM(a_move_from_one_shard_that_began_is_undone),
        CLAIM(a_move_to_one_shard_that_began_is_undone),
        CLAIM(a_move_of_a_new_topic_to_one_shard_is_completed_if_only_its_home_has_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
