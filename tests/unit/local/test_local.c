/* The queue on this machine when what is under it or around it goes wrong: files, descriptors,
 * clocks. */
#include "local/local.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/datadir.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20, BODY_BYTES_MAX = 64 << 10, TIMEOUT_MS = 30000 };

struct world {
    char dir[64];
    struct local *local;
    struct reactor *reactor;
    struct queue *queue;
    struct clock *clock; /* NULL: the process's */
    uint32_t answered;
    enum queue_status status; /* the last answer's, or that of its last item */
    size_t jobs, job_bytes;
    int64_t due_ms;      /* of the last answer's first job */
    uint32_t file_bytes; /* 0: FILE_BYTES, or the default for large bodies */
    uint64_t batch;      /* of the last answer's first item */
    bool paused, has_failed, has_stopped;
    char *body;
};

static void on_failed(void *ctx)
{
    ((struct world *)ctx)->has_failed = true;
}

static void open_local(struct world *world, uint64_t body_bytes_max)
{
    char error[512] = "";
    uint32_t shards;
    struct local_options options = {.data_dir = world->dir,
                                    .sync = WAL_SYNC_NEVER,
                                    .wal_file_bytes = world->file_bytes ? world->file_bytes
                                                      : body_bytes_max > FILE_BYTES / 4
                                                          ? 0
                                                          : FILE_BYTES,
                                    .body_bytes_max = body_bytes_max,
                                    .topics_max = 100000,
                                    .clock = world->clock,
                                    .failed = on_failed,
                                    .failed_ctx = world};
    log_open(NULL, LOG_ERROR, false);
    world->has_failed = world->has_stopped = false;
    world->reactor = reactor_new(0);
    if (local_open(&options, &world->local, &shards, error, sizeof error) ||
        local_attach(world->local, 0, world->reactor, &world->queue, error, sizeof error))
        fail_msg("%s", error);
}

static bool pump_until(struct world *world, const bool *flag, uint32_t answered)
{
    int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;
    while (!(flag && *flag) && world->answered < answered) {
        if (clock_boot_us() > until_us)
            return false;
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
        usleep(50);
    }
    return true;
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->has_stopped = true;
}

static void close_local(struct world *world)
{
    local_stop(world->local, on_stopped, world);
    assert_true(pump_until(world, &world->has_stopped, UINT32_MAX));
    local_free(world->local);
    reactor_free(world->reactor);
}

static int make_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_true(scratch_make(world->dir));
    world->body = calloc(1, 1 << 20);
    *state = world;
    return 0;
}

static int remove_world(void **state)
{
    struct world *world = *state;
    int result = scratch_remove(world->dir);
    free(world->body);
    free(world);
    return result;
}

/* ---- calls, each waited for ---- */

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct world *world = owner;
    (void)tag;
    world->status =
        reply->result_count ? reply->results[reply->result_count - 1].status : reply->status;
    world->batch = reply->result_count ? reply->results[0].batch : 0;
    world->jobs = reply->job_count;
    world->job_bytes = 0;
    world->due_ms = reply->job_count ? reply->jobs[0].job.due_ms : 0;
    for (size_t i = 0; i < reply->job_count; i++)
        world->job_bytes += reply->jobs[i].job.body.len;
    world->paused = reply->topic_count && reply->topics[0].paused;
    world->answered++;
}

static struct queue_reply_to to(struct world *world)
{
    return (struct queue_reply_to){.done = on_done, .owner = world};
}

static enum queue_status wait_for_answer(struct world *world)
{
    if (!pump_until(world, NULL, world->answered + 1))
        fail_msg("no answer came");
    return world->status;
}

static enum queue_status push(struct world *world, const char *topic, const char *id,
                              int64_t delay_ms, size_t body_bytes)
{
    struct queue_push push = {.topic = slice_of(topic),
                              .id = slice_of(id),
                              .body = slice_make(world->body, body_bytes),
                              .when = {.due = QUEUE_DUE_DELAY, .ms = delay_ms},
                              .priority = QUEUE_PRIORITY_UNSET};
    queue_push(world->queue, &push, 1, to(world));
    return wait_for_answer(world);
}

/* The same `times` in one call. */
static enum queue_status change(struct world *world, enum queue_change_verb verb, const char *id,
                                size_t times)
{
    struct queue_change changes[100];
    for (size_t i = 0; i < times; i++)
        changes[i] = (struct queue_change){.verb = verb,
                                           .topic = slice_of("t"),
                                           .id = slice_of(id),
                                           .when = {.due = QUEUE_DUE_DELAY, .ms = 1000000},
                                           .priority = QUEUE_PRIORITY_UNSET};
    queue_change(world->queue, changes, times, to(world));
    return wait_for_answer(world);
}

static enum queue_status call_topic(struct world *world, enum queue_topic_verb verb,
                                    const char *topic)
{
    struct queue_topic_call call = {.verb = verb, .topic = slice_of(topic)};
    queue_topic(world->queue, &call, to(world));
    return wait_for_answer(world);
}

/* ---- the claims ---- */

/* More topics than a file holds: newer files take them over in pieces, and older ones wait
 * for that. */
CLAIM_BETWEEN(many_topics_outlive_the_files_they_were_written_to, make_world, remove_world)
{
    enum { TOPICS = 6000, PUSHES = 200, NAME_BYTES = 200 };
    struct world *world = *state;
    char name[NAME_BYTES + 1], first_file[128];

    open_local(world, BODY_BYTES_MAX);
    for (int i = 0; i < TOPICS; i++) {
        snprintf(name, sizeof name, "%0*d", NAME_BYTES, i);
        assert_int_equal(call_topic(world, QUEUE_TOPIC_PUT, name), QUEUE_CREATED);
        assert_int_equal(call_topic(world, QUEUE_TOPIC_PAUSE, name), QUEUE_OK);
    }
    for (int i = 0; i < PUSHES; i++) {
        assert_int_equal(push(world, "t", "a", 1000000, BODY_BYTES_MAX), QUEUE_CREATED);
        assert_int_equal(change(world, QUEUE_CANCEL, "a", 1), QUEUE_CANCELLED);
    }
    close_local(world);
    snprintf(first_file, sizeof first_file, "%s/shard-00/wal/00000001.log", world->dir);
    assert_int_not_equal(access(first_file, F_OK), 0);
    open_local(world, BODY_BYTES_MAX);
    for (int i = 0; i < TOPICS; i++) {
        snprintf(name, sizeof name, "%0*d", NAME_BYTES, i);
        assert_int_equal(call_topic(world, QUEUE_TOPIC_GET, name), QUEUE_OK);
        assert_true(world->paused);
    }
    close_local(world);
}

/* The C library's, for the directories' sake: nothing else of the store calls it. */
static atomic_bool fsync_fails;

int fsync(int fd)
{
    if (atomic_load(&fsync_fails)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

/* The next file is made ahead. */
static void wait_for_upkeep(struct world *world)
{
    struct queue_info info = {0};
    uint64_t file_bytes = world->file_bytes ? world->file_bytes : FILE_BYTES;
    for (int i = 0; i < TIMEOUT_MS && info.bytes_on_disk < 2 * file_bytes; i++) {
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
        queue_info(world->queue, &info);
        usleep(1000);
    }
    assert_int_equal(info.bytes_on_disk, 2 * file_bytes);
}

/* Leaves the process `spare` descriptors. Returns the limit to set again. */
static struct rlimit take_descriptors(rlim_t spare)
{
    struct rlimit before, few;
    int next = open("/dev/null", O_RDONLY);
    assert_true(next >= 0);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)next + spare;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    return before;
}

static enum queue_status push_until_refused(struct world *world, size_t body_bytes)
{
    enum queue_status status = QUEUE_CREATED;
    char id[32];
    for (int i = 0; i < 1000 && status == QUEUE_CREATED; i++) {
        snprintf(id, sizeof id, "%d", i);
        status = push(world, "t", id, 1000000, body_bytes);
    }
    return status;
}

/* The next log file has its name, but its directory cannot be synced: the content of the
 * disk is unknown. */
CLAIM_BETWEEN(a_log_that_breaks_in_its_upkeep_answers_everybody_and_stops, make_world, remove_world)
{
    struct world *world = *state;

    open_local(world, BODY_BYTES_MAX);
    wait_for_upkeep(world);
    log_open(NULL, LOG_ERROR + 1, false);
    atomic_store(&fsync_fails, true);
    assert_int_equal(push_until_refused(world, BODY_BYTES_MAX), QUEUE_UNAVAILABLE);
    atomic_store(&fsync_fails, false);
    assert_true(world->has_failed);
    assert_true(local_has_failed(world->local));
    close_local(world);
}

static enum queue_status push_until_accepted(struct world *world)
{
    enum queue_status status = QUEUE_UNAVAILABLE;
    for (int i = 0; i < TIMEOUT_MS / 10 && status == QUEUE_UNAVAILABLE; i++) {
        status = push(world, "t", "last", 1000000, BODY_BYTES_MAX);
        usleep(10000);
    }
    return status;
}

/* With one, the next log file is made and its directory cannot be opened to be synced. */
CLAIM_BETWEEN(a_log_without_descriptors_refuses_pushes_until_there_are_some, make_world,
              remove_world)
{
    struct world *world = *state;
    for (rlim_t spare = 0; spare < 2; spare++) {
        open_local(world, BODY_BYTES_MAX);
        wait_for_upkeep(world);
        struct rlimit before = take_descriptors(spare);
        log_open(NULL, LOG_ERROR + 1, false);
        enum queue_status status = push_until_refused(world, BODY_BYTES_MAX);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(status, QUEUE_UNAVAILABLE);
        assert_int_equal(push_until_accepted(world), QUEUE_CREATED);
        assert_int_equal(call_topic(world, QUEUE_TOPIC_DELETE, "t"), QUEUE_OK);
        assert_false(world->has_failed);
        close_local(world);
        assert_int_equal(scratch_remove(world->dir), 0);
    }
}

/* No next log file can be made, and the last one is full almost to its end. */
CLAIM_BETWEEN(a_purge_without_room_is_refused_until_there_is_some, make_world, remove_world)
{
    struct world *world = *state;
    enum queue_status status = QUEUE_OK;

    open_local(world, BODY_BYTES_MAX);
    assert_int_equal(push(world, "t", "first", 1000000, 10), QUEUE_CREATED);
    wait_for_upkeep(world);
    struct rlimit before = take_descriptors(0);
    log_open(NULL, LOG_ERROR + 1, false);
    assert_int_equal(push_until_refused(world, BODY_BYTES_MAX / 4), QUEUE_UNAVAILABLE);
    for (int i = 0; i < 1000 && status == QUEUE_OK; i++) /* from the reserve */
        status = change(world, QUEUE_RESCHEDULE, "first", 100);
    assert_int_equal(status, QUEUE_UNAVAILABLE);
    assert_int_equal(change(world, QUEUE_RESCHEDULE, "first", 1), QUEUE_OK); /* a little is left */
    assert_int_equal(call_topic(world, QUEUE_TOPIC_PURGE, "t"), QUEUE_UNAVAILABLE);

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0;
         i < 1000 && (status = call_topic(world, QUEUE_TOPIC_PURGE, "t")) == QUEUE_UNAVAILABLE; i++)
        usleep(10000);
    assert_int_equal(status, QUEUE_OK); /* by itself */
    close_local(world);
}

static enum queue_status call_batch(struct world *world, const struct queue_batch_call *call)
{
    const struct command command = {.kind = COMMAND_BATCH, .count = 1, .batches = call};
    world->queue->ops->submit(world->queue, &command, to(world));
    return wait_for_answer(world);
}

static size_t take_waiting(struct world *world)
{
    const struct slice topic = slice_of("batches");
    const struct queue_take take = {
        .topics = &topic, .topic_count = 1, .max = 1, .lease_ms = 1000000};
    queue_take(world->queue, &take, to(world));
    (void)wait_for_answer(world);
    return world->jobs;
}

/* As above. The push of a member leaves meanwhile, and the wait ends when there is room. */
CLAIM_BETWEEN(a_leave_needs_no_room, make_world, remove_world)
{
    struct world *world = *state;
    const struct queue_batch batch = {.waits = true};
    const struct queue_push waiting = {.topic = slice_of("batches"),
                                       .id = slice_of("last"),
                                       .when = {.due = QUEUE_DUE_NOW},
                                       .batch = &batch,
                                       .priority = QUEUE_PRIORITY_UNSET};
    const struct queue_change close = {.verb = QUEUE_CLOSE,
                                       .topic = waiting.topic,
                                       .id = waiting.id,
                                       .priority = QUEUE_PRIORITY_UNSET};
    struct queue_batch_call call = {
        .verb = QUEUE_BATCH_JOIN, .part = 1, .topic = waiting.topic, .id = waiting.id};

    world->file_bytes = 4 * FILE_BYTES; /* as small as a server allows */
    open_local(world, BODY_BYTES_MAX);
    queue_push(world->queue, &waiting, 1, to(world));
    assert_int_equal(wait_for_answer(world), QUEUE_CREATED);
    assert_int_equal(call_batch(world, &call), QUEUE_OK);
    call.verb = QUEUE_BATCH_LEAVE;
    call.number = world->batch;
    queue_change(world->queue, &close, 1, to(world));
    assert_int_equal(wait_for_answer(world), QUEUE_OK);
    assert_int_equal(push(world, "t", "first", 1000000, 10), QUEUE_CREATED);
    wait_for_upkeep(world);
    struct rlimit before = take_descriptors(0);
    log_open(NULL, LOG_ERROR + 1, false);
    assert_int_equal(push_until_refused(world, BODY_BYTES_MAX / 4), QUEUE_UNAVAILABLE);
    for (size_t times = 100; times; times /= 2)
        while (change(world, QUEUE_RESCHEDULE, "first", times) == QUEUE_OK)
            ;
    assert_int_equal(call_batch(world, &call), QUEUE_OK);
    assert_int_equal(take_waiting(world), 0);

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 1000 && !take_waiting(world); i++)
        usleep(10000);
    assert_int_equal(world->jobs, 1);
    close_local(world);
}

/* Big jobs in many topics: a reply holds so many bytes, not so many of each topic. */
CLAIM_BETWEEN(a_take_of_many_topics_is_bounded_in_bytes, make_world, remove_world)
{
    enum { TOPICS = 24, BODY_BYTES = 1 << 20, REPLY_BYTES_MAX = 17 << 20 };
    struct world *world = *state;
    char names[TOPICS][16];
    struct slice topics[TOPICS];
    size_t taken = 0;

    open_local(world, BODY_BYTES);
    for (int i = 0; i < TOPICS; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        topics[i] = slice_of(names[i]);
        assert_int_equal(push(world, names[i], "a", 0, BODY_BYTES), QUEUE_CREATED);
    }
    for (int i = 0; i < TOPICS && taken < TOPICS; i++) {
        struct queue_take take = {.topics = topics, .topic_count = TOPICS, .max = TOPICS};
        queue_take(world->queue, &take, to(world));
        assert_int_equal(wait_for_answer(world), QUEUE_OK);
        assert_in_range(world->job_bytes, 1, REPLY_BYTES_MAX);
        taken += world->jobs;
    }
    assert_int_equal(taken, TOPICS);
    close_local(world);
}

/* ---- clocks ---- */

static void read_manifest(struct world *world, struct datadir_manifest *manifest,
                          struct datadir **datadir)
{
    char error[256] = "";
    if (datadir_open(world->dir, 0, datadir, manifest, error, sizeof error))
        fail_msg("%s", error);
}

/* The wall clock was set forward by an hour while the server ran, or a day: a delay also uses elapsed
 * time across a reboot. */
CLAIM_BETWEEN(a_step_of_the_wall_clock_before_a_reboot_shortens_no_delay, make_world, remove_world)
{
    struct world *world = *state;
    const int64_t hour_ms = 3600000;
    struct datadir_manifest manifest;
    struct datadir *datadir;
    int64_t inner_ms = clock_wall_ms();

    clock_fake_start(inner_ms, inner_ms);
    open_local(world, BODY_BYTES_MAX);
    assert_int_equal(push(world, "t", "a", hour_ms, 10), QUEUE_CREATED);
    clock_fake_step_wall(2 * hour_ms);
    assert_int_equal(push(world, "t", "b", hour_ms, 10), QUEUE_CREATED);
    close_local(world);

    read_manifest(world, &manifest, &datadir);
    snprintf(manifest.boot_id, sizeof manifest.boot_id, "another boot");
    assert_int_equal(datadir_write(datadir, &manifest), 0);
    datadir_close(datadir);
    clock_fake_end();

    /* The machine's real clocks are those after the reboot: two hours behind what was the wall
     * clock. */
    int64_t skew_ms = manifest.skew_ms;
    assert_in_range(skew_ms, 2 * hour_ms, 2 * hour_ms + 10);
    clock_fake_start(inner_ms, inner_ms + 2 * hour_ms + 1000);
    open_local(world, BODY_BYTES_MAX);
    clock_fake_end();
    assert_in_range(clock_inner_ms(), inner_ms, inner_ms + 1000 + TIMEOUT_MS);
    clock_start(&clock_process, clock_wall_ms());
    close_local(world);
}

static int64_t due_of(struct world *world, const char *topic, const char *id)
{
    queue_get(world->queue, slice_of(topic), slice_of(id), to(world));
    assert_int_equal(wait_for_answer(world), QUEUE_OK);
    return world->due_ms;
}

/* Both clocks are truncated to milliseconds, so their difference may be read one larger or smaller.
 * A cursor of a list from before the restart depends on the due times. */
CLAIM_BETWEEN(a_restart_changes_no_due_time, make_world, remove_world)
{
    struct world *world = *state;
    int64_t inner_ms = clock_wall_ms(), due_ms = 0;

    clock_fake_start(inner_ms, inner_ms + 500);
    for (int step_ms = -1; step_ms <= 1; step_ms++) {
        clock_fake_step_wall(step_ms);
        open_local(world, BODY_BYTES_MAX);
        if (!due_ms)
            assert_int_equal(push(world, "t", "a", 3600000, 10), QUEUE_CREATED);
        due_ms = due_ms ? due_ms : due_of(world, "t", "a");
        assert_true(due_of(world, "t", "a") == due_ms);
        close_local(world);
    }
    clock_fake_end();
    clock_start(&clock_process, clock_wall_ms());
}

static size_t take(struct world *world, const char *topic)
{
    const struct slice name = slice_of(topic);
    for (int i = 0; i < 4; i++) /* what is due happens in a round */
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
    queue_take(world->queue, &(struct queue_take){.topics = &name, .topic_count = 1, .max = 10},
               to(world));
    assert_int_equal(wait_for_answer(world), QUEUE_OK);
    return world->jobs;
}

/* An hour passes for one queue of a process, and for no other: neither while they work nor by opening
 * one whose jobs have seen later times. */
CLAIM_BETWEEN(two_queues_of_a_process_have_two_clocks, make_world, remove_world)
{
    const int64_t hour_ms = 3600000, process_ms = clock_inner_ms();
    struct world *world = *state, *other;
    struct clock clock = CLOCK_INIT;

    assert_int_equal(make_world((void **)&other), 0);
    clock_hold(&clock, process_ms + 24 * hour_ms, process_ms);
    other->clock = &clock;
    open_local(world, BODY_BYTES_MAX);
    open_local(other, BODY_BYTES_MAX);
    assert_int_equal(push(world, "t", "a", hour_ms, 1), QUEUE_CREATED);
    assert_int_equal(push(other, "t", "a", hour_ms, 1), QUEUE_CREATED);
    clock_advance(&clock, hour_ms);
    assert_int_equal(take(other, "t"), 0);
    clock_advance(&clock, 1); /* delays are rounded up */
    assert_int_equal(take(other, "t"), 1);
    assert_int_equal(take(world, "t"), 0);
    close_local(other);

    struct clock again = CLOCK_INIT;
    other->clock = &again;
    open_local(other, BODY_BYTES_MAX);
    assert_in_range(clock_inner_ms_of(&again), process_ms + 25 * hour_ms,
                    process_ms + 25 * hour_ms + TIMEOUT_MS);
    assert_in_range(clock_inner_ms(), process_ms, process_ms + TIMEOUT_MS);
    assert_int_equal(take(world, "t"), 0);
    close_local(other);
    close_local(world);
    assert_int_equal(remove_world((void **)&other), 0);
}

/* ---- replies share the loop ---- */

/* A client whose replies take the loop longer than the share of a step. */
struct slow_client {
    uint32_t answered, small, large, failed;
};

static void on_slow_done(void *owner, uint64_t is_large, const struct queue_reply *reply)
{
    struct slow_client *client = owner;
    int64_t until_us = clock_awake_us() + REACTOR_SHARE_US;
    client->answered++;
    *(is_large ? &client->large : &client->small) += 1;
    client->failed += reply->status != QUEUE_OK || reply->job_count != 1;
    while (clock_awake_us() < until_us)
        ;
}

static void get_slowly(struct world *world, struct slow_client *client, const char *id,
                       bool is_large)
{
    queue_get(world->queue, slice_of("t"), slice_of(id),
              (struct queue_reply_to){.done = on_slow_done, .owner = client, .tag = is_large});
}

CLAIM_BETWEEN(an_iteration_sends_one_slow_reply_of_each_size, make_world, remove_world)
{
    enum { GETS = 20 };
    struct world *world = *state;
    struct slow_client client = {0};
    open_local(world, BODY_BYTES_MAX);
    assert_int_equal(push(world, "t", "small", 1000000, 100), QUEUE_CREATED);
    assert_int_equal(push(world, "t", "large", 1000000, BODY_BYTES_MAX), QUEUE_CREATED);
    for (uint32_t i = 0; i < GETS; i++)
        get_slowly(world, &client, "large", true);
    for (uint32_t i = 0; i < GETS; i++)
        get_slowly(world, &client, "small", false);
    uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
    for (uint32_t i = 1; client.answered < 2 * GETS && i < 10 * GETS; i++) {
        assert_int_equal(client.small, client.large);
        assert_in_range(client.small, 0, i);
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
    }
    assert_int_equal(client.small, GETS);
    assert_int_equal(client.large, GETS);
    assert_int_equal(client.failed, 0);
    close_local(world);
}

/* The loop reads a piece of a reply in each iteration. */
CLAIM_BETWEEN(a_reply_with_large_jobs_is_read_in_pieces, make_world, remove_world)
{
    enum { JOBS = 16, JOB_BYTES = 60 << 10, PIECE_BYTES = 128 << 10 };
    struct world *world = *state;
    struct slice topic = slice_of("t");
    struct queue_take take = {.topics = &topic, .topic_count = 1, .max = JOBS};
    char id[16];
    open_local(world, BODY_BYTES_MAX);
    for (int i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "j%d", i);
        assert_int_equal(push(world, "t", id, 0, JOB_BYTES), QUEUE_CREATED);
    }
    uint32_t before = world->answered;
    int iterations = 0;
    queue_take(world->queue, &take, to(world));
    for (; world->answered == before && iterations < 1000; iterations++)
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
    assert_int_equal(world->jobs, JOBS);
    assert_int_equal(world->job_bytes, JOBS * JOB_BYTES);
    assert_in_range(iterations, JOBS * JOB_BYTES / (PIECE_BYTES + JOB_BYTES), 999);
    close_local(world);
}

/* Runs an iteration, and replaces another job again and again, which fills the log. */
static void fill_log(struct world *world, uint32_t *sent)
{
    struct queue_push others[4];
    for (size_t k = 0; k < COUNT_OF(others); k++)
        others[k] = (struct queue_push){.topic = slice_of("u"),
                                        .id = slice_of("a"),
                                        .body = slice_make(world->body, 16 << 10),
                                        .when = {.due = QUEUE_DUE_DELAY, .ms = 1000000},
                                        .priority = QUEUE_PRIORITY_UNSET,
                                        .on_conflict = CONFLICT_REPLACE};
    if (world->answered == *sent) {
        queue_push(world->queue, others, COUNT_OF(others), to(world));
        ++*sent;
    }
    uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
}

static bool has_file(const struct world *world, uint32_t number)
{
    char path[128];
    snprintf(path, sizeof path, "%s/shard-00/wal/%08u.log", world->dir, number);
    return access(path, F_OK) == 0;
}

/* Replies wait for their turn while checkpoints move their job out of the oldest files of the log. */
CLAIM_BETWEEN(no_file_is_dropped_before_the_replies_that_read_it, make_world, remove_world)
{
    enum { GETS = 1000 };
    struct world *world = *state;
    struct slow_client client = {0};
    open_local(world, BODY_BYTES_MAX);
    assert_int_equal(push(world, "t", "large", 1000000, BODY_BYTES_MAX), QUEUE_CREATED);
    for (uint32_t i = 0; i < GETS; i++)
        get_slowly(world, &client, "large", true);
    /* The second file disappears at last; the first one may stay as a spare. */
    for (uint32_t i = 0, sent = world->answered; i < 100 * GETS; i++) {
        fill_log(world, &sent);
        if (client.answered == GETS && !has_file(world, 2))
            break;
    }
    assert_int_equal(client.answered, GETS);
    assert_int_equal(client.failed, 0);
    assert_false(has_file(world, 2));
    close_local(world);
}

struct taker {
    size_t jobs;
    bool is_answered;
};

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct taker *taker = owner;
    (void)tag;
    taker->jobs = reply->job_count;
    taker->is_answered = true;
}

/* A reply pauses between its pieces, behind slow ones, while checkpoints move its jobs out of the log. */
CLAIM_BETWEEN(no_file_is_dropped_before_the_last_piece_of_a_reply, make_world, remove_world)
{
    enum { JOBS = 40, JOB_BYTES = 60 << 10, GETS = 100 };
    struct world *world = *state;
    struct slow_client client = {0};
    struct taker taker = {0};
    struct slice topic = slice_of("v");
    struct queue_take take = {.topics = &topic, .topic_count = 1, .max = JOBS};
    char id[16];
    open_local(world, BODY_BYTES_MAX);
    assert_int_equal(push(world, "t", "large", 1000000, BODY_BYTES_MAX), QUEUE_CREATED);
    for (int i = 0; i < 2 * JOBS;
         i++) { /* the first file of the log holds none of the jobs to be taken */
        snprintf(id, sizeof id, "j%d", i);
        assert_int_equal(push(world, i < JOBS ? "u" : "v", id, 0, JOB_BYTES), QUEUE_CREATED);
    }
    queue_take(world->queue, &take, (struct queue_reply_to){.done = on_taken, .owner = &taker});
    uint32_t sent = world->answered, gets = GETS;
    for (uint32_t i = 0; i < GETS; i++)
        get_slowly(world, &client, "large", true);
    for (; !taker.is_answered; gets++) {
        get_slowly(world, &client, "large", true);
        fill_log(world, &sent);
    }
    assert_int_equal(taker.jobs, JOBS);
    while (client.answered < gets || world->answered < sent)
        fill_log(world, &sent);
    close_local(world);
}

CLAIMS_MAIN(NULL, NULL)
