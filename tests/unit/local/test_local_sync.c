/*
 * No answer overtakes the sync that makes it true. This program has an fdatasync of its own, which
 * every write of the log goes through: it can be held, and made to fail.
 */
#include "local/local.h"

#include "base/clock.h"
#include "base/log.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_MS = 40, TIMEOUT_MS = 30000, LARGE_BYTES = 256 << 10 };

static atomic_bool held, held_archivist, failing;
static atomic_uint begun;

static bool is_archivist(void)
{
    char name[16] = "";
    (void)prctl(PR_GET_NAME, name);
    return strcmp(name, "archivist") == 0;
}

int fdatasync(int fd)
{
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&held) || (atomic_load(&held_archivist) && is_archivist()))
        usleep(200);
    if (atomic_load(&failing)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

struct world {
    char dir[64];
    struct local *local;
    struct reactor *reactor;
    struct queue *queue;
    uint32_t answered;
    enum queue_status status; /* the last answer's, or that of its only item */
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    bool has_failed, has_stopped;
};

static void on_failed(void *ctx)
{
    ((struct world *)ctx)->has_failed = true;
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->has_stopped = true;
}

static int open_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    char error[512] = "";
    uint32_t shards;
    atomic_store(&held, false);
    atomic_store(&failing, false);
    assert_true(scratch_make(world->dir));
    struct local_options options = {.data_dir = world->dir,
                                    .sync = WAL_SYNC_ALWAYS,
                                    .wal_file_bytes = 4 << 20,
                                    .body_bytes_max = LARGE_BYTES,
                                    .topics_max = 10,
                                    .failed = on_failed,
                                    .failed_ctx = world};
    log_open("/dev/null", LOG_ERROR, false);
    world->reactor = reactor_new(0);
    if (local_open(&options, &world->local, &shards, error, sizeof error) ||
        local_attach(world->local, 0, world->reactor, &world->queue, error, sizeof error))
        fail_msg("%s", error);
    *state = world;
    return 0;
}

/* Turns the loop for `ms` of real time, or until so many answers came. Returns how many there are.
 */
static uint32_t pump(struct world *world, int64_t ms, uint32_t answers)
{
    int64_t until_us = clock_boot_us() + ms * 1000;
    while (world->answered < answers && clock_boot_us() < until_us) {
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
        usleep(100);
    }
    return world->answered;
}

static int close_world(void **state)
{
    struct world *world = *state;
    atomic_store(&held, false);
    atomic_store(&held_archivist, false);
    local_stop(world->local, on_stopped, world);
    while (!world->has_stopped)
        pump(world, 1, UINT32_MAX);
    local_free(world->local);
    reactor_free(world->reactor);
    int result = scratch_remove(world->dir);
    free(world);
    return result;
}

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct world *world = owner;
    (void)tag;
    world->answered++;
    world->status = reply->result_count ? reply->results[0].status : reply->status;
    if (reply->job_count && reply->jobs[0].lease.len) {
        world->lease_bytes = reply->jobs[0].lease.len;
        memcpy(world->lease, reply->jobs[0].lease.at, world->lease_bytes);
    }
}

static struct queue_reply_to to(struct world *world)
{
    return (struct queue_reply_to){.done = on_done, .owner = world};
}

/* ---- the calls that change something ---- */

static void push(struct world *world, const char *id, enum record_conflict on_conflict)
{
    struct queue_push job = {.topic = slice_of("t"),
                             .id = slice_of(id),
                             .body = slice_of("body"),
                             .when = {.due = QUEUE_DUE_NOW},
                             .priority = QUEUE_PRIORITY_UNSET,
                             .on_conflict = on_conflict};
    queue_push(world->queue, &job, 1, to(world));
}

static void push_new(struct world *world)
{
    push(world, "new", 0);
}

static void push_replacing(struct world *world)
{
    push(world, "kept", CONFLICT_REPLACE);
}

static void change(struct world *world, enum queue_change_verb verb)
{
    struct queue_change one = {.verb = verb,
                               .topic = slice_of("t"),
                               .id = slice_of("kept"),
                               .when = {.due = QUEUE_DUE_DELAY, .ms = 1000000},
                               .priority = QUEUE_PRIORITY_UNSET};
    queue_change(world->queue, &one, 1, to(world));
}

static void reschedule(struct world *world)
{
    change(world, QUEUE_RESCHEDULE);
}

static void run(struct world *world)
{
    change(world, QUEUE_RUN);
}

static void cancel(struct world *world)
{
    change(world, QUEUE_CANCEL);
}

static void take(struct world *world)
{
    struct slice topic = slice_of("t");
    struct queue_take one = {.topics = &topic, .topic_count = 1, .max = 1};
    queue_take(world->queue, &one, to(world));
}

static void answer(struct world *world, enum queue_verb verb)
{
    struct queue_answer one = {.verb = verb, .lease = slice_make(world->lease, world->lease_bytes)};
    queue_answer(world->queue, &one, 1, to(world));
}

static void extend(struct world *world)
{
    answer(world, QUEUE_EXTEND);
}

static void ack(struct world *world)
{
    answer(world, QUEUE_ACK);
}

static void topic(struct world *world, enum queue_topic_verb verb)
{
    struct queue_topic_call call = {.verb = verb, .topic = slice_of("t")};
    queue_topic(world->queue, &call, to(world));
}

static void put_topic(struct world *world)
{
    topic(world, QUEUE_TOPIC_PUT);
}

static void pause_topic(struct world *world)
{
    topic(world, QUEUE_TOPIC_PAUSE);
}

static void purge(struct world *world)
{
    topic(world, QUEUE_TOPIC_PURGE);
}

/* ---- the claims ---- */

CLAIM_BETWEEN(no_change_is_answered_before_its_sync, open_world, close_world)
{
    struct world *world = *state;
    static const struct {
        const char *what;
        void (*call)(struct world *world);
        bool waits;
    } rows[] = {
        {"a push", push_new, true},
        {"settings of a topic", put_topic, true},
        {"a take need not wait", take, false},
        {"an extended lease", extend, true},
        {"an ack", ack, true},
        {"a push that will be kept", push_replacing, true},
        {"a push that replaces", push_replacing, true},
        {"a new due", reschedule, true},
        {"a run", run, true},
        {"a cancel", cancel, true},
        {"a pause", pause_topic, true},
        {"another push", push_new, true},
        {"a purge", purge, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t answered = world->answered, before = atomic_load(&begun);
        atomic_store(&held, true);
        rows[i].call(world);
        uint32_t early = pump(world, LOOK_MS, answered + 1) - answered;
        atomic_store(&held, false);
        if (early != (rows[i].waits ? 0 : 1))
            fail_msg("%s: %u answers before the sync", rows[i].what, early);
        assert_int_equal(pump(world, TIMEOUT_MS, answered + 1), answered + 1);
        if (world->status > QUEUE_CANCELLED)
            fail_msg("%s: refused with status %d", rows[i].what, (int)world->status);
        if (rows[i].waits && atomic_load(&begun) == before)
            fail_msg("%s: answered without any sync", rows[i].what);
    }
}

/* The second push changes nothing, but its answer reports an existing job that is not on the disk yet. */
CLAIM_BETWEEN(undurable_jobs_are_not_reported_as_existing, open_world, close_world)
{
    struct world *world = *state;
    atomic_store(&held, true);
    push(world, "one", CONFLICT_KEEP);
    push(world, "one", CONFLICT_KEEP);
    assert_int_equal(pump(world, LOOK_MS, 1), 0);
    atomic_store(&held, false);
    assert_int_equal(pump(world, TIMEOUT_MS, 2), 2);
    assert_int_equal(world->status, QUEUE_EXISTED);
}

/* Whatever was under way or comes later: the page cache cannot be trusted after a failed sync. */
CLAIM_BETWEEN(after_a_failed_sync_no_call_succeeds_and_the_server_is_notified, open_world,
              close_world)
{
    struct world *world = *state;
    atomic_store(&failing, true);
    push(world, "one", 0);
    assert_int_equal(pump(world, TIMEOUT_MS, 1), 1);
    assert_int_equal(world->status, QUEUE_UNAVAILABLE);
    assert_true(world->has_failed);
    atomic_store(&failing, false); /* a retry that works proves nothing */
    push(world, "two", 0);
    assert_int_equal(pump(world, TIMEOUT_MS, 2), 2);
    assert_int_equal(world->status, QUEUE_UNAVAILABLE);
}

static void push_awaited(struct world *world, const char *id, struct queue_reply_to *ended)
{
    struct queue_push job = {.topic = slice_of("t"),
                             .id = slice_of(id),
                             .when = {.due = QUEUE_DUE_DELAY, .ms = 3600000},
                             .priority = QUEUE_PRIORITY_UNSET,
                             .ended = ended};
    queue_push(world->queue, &job, 1, to(world));
}

static void on_ended(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    *(int *)owner = (int)reply->status;
}

/* A front frees its wait with the reply of the push. */
CLAIM_BETWEEN(a_failed_push_ends_its_wait_without_a_reply, open_world, close_world)
{
    enum { NONE = 1000 };
    struct world *world = *state;
    int ends[] = {NONE, NONE, NONE};
    struct queue_reply_to ended[3];

    for (size_t i = 0; i < 3; i++)
        ended[i] = (struct queue_reply_to){.done = on_ended, .owner = &ends[i]};
    push_awaited(world, "stored", &ended[0]);
    assert_int_equal(pump(world, TIMEOUT_MS, 1), 1);
    assert_int_equal(world->status, QUEUE_CREATED);
    atomic_store(&failing, true);
    push_awaited(world, "lost", &ended[1]);
    push_awaited(world, "kept", &ended[2]);
    cancel(world); /* of the last one */
    assert_int_equal(pump(world, TIMEOUT_MS, 4), 4);
    assert_int_equal(world->status, QUEUE_UNAVAILABLE);
    (void)pump(world, LOOK_MS, 5);
    assert_int_equal(ends[0], QUEUE_UNAVAILABLE);
    assert_int_equal(ends[1], NONE);
    assert_int_equal(ends[2], NONE);
}

/* ---- large pushes that wait for a checkpoint ---- */

static void push_body(struct world *world, const char *topic, const char *body, size_t bytes)
{
    struct queue_push job = {.topic = slice_of(topic),
                             .id_is_made = true,
                             .body = slice_make(body, bytes),
                             .when = {.due = QUEUE_DUE_DELAY, .ms = 3600000},
                             .priority = QUEUE_PRIORITY_UNSET};
    char id[32];
    static uint32_t number;
    job.id = slice_make(id, (size_t)snprintf(id, sizeof id, "made-%u", number++));
    queue_push(world->queue, &job, 1, to(world));
}

/* The checkpoint does not advance, so the large pushes reach the limit of the log. */
CLAIM_BETWEEN(a_small_push_overtakes_large_ones_of_other_topics, open_world, close_world)
{
    enum { LARGE_MAX = 400, HELD_MS = 1000 };
    struct world *world = *state;
    char *body = calloc(1, LARGE_BYTES);
    uint32_t given = 0;
    atomic_store(&held_archivist, true);
    do
        push_body(world, "large", body, LARGE_BYTES);
    while (++given < LARGE_MAX && pump(world, HELD_MS, given) == given);
    assert_int_equal(world->answered, given - 1); /* the last one waits */
    push_body(world, "large", body, 10);
    assert_int_equal(pump(world, LOOK_MS, given), given - 1);
    push_body(world, "small", body, 10);
    assert_int_equal(pump(world, TIMEOUT_MS, given), given);
    atomic_store(&held_archivist, false);
    assert_int_equal(pump(world, TIMEOUT_MS, given + 2), given + 2);
    free(body);
}

/* ---- figures ---- */

CLAIM_BETWEEN(a_slow_sync_appears_in_the_figures, open_world, close_world)
{
    struct world *world = *state;
    struct shard_figures figures;
    static struct shard_times times;
    pump(world, LOOK_MS, UINT32_MAX); /* what the opening left to do */
    local_times(world->local, 0, &times);
    const uint64_t commits = times.batch_bytes.count, syncs = times.sync_us.count;
    local_figures(world->local, 0, &figures);
    const uint64_t records = figures.log_records, bytes = figures.log_written_bytes;
    const unsigned earlier = atomic_load(&begun);
    atomic_store(&held, true);
    push(world, "one", 0);
    push(world, "two", 0);
    while (atomic_load(&begun) == earlier)
        pump(world, LOOK_MS, 1);
    pump(world, LOOK_MS, 1);
    atomic_store(&held, false);
    pump(world, TIMEOUT_MS, 2);

    times = (struct shard_times){0};
    local_times(world->local, 0, &times);
    local_figures(world->local, 0, &figures);
    assert_int_equal(times.sync_us.count, syncs + 1);
    assert_int_equal(figures.log_syncs, times.sync_us.count);
    assert_true(times.sync_us.max >= LOOK_MS * 1000 / 2);
    assert_int_equal(times.batch_bytes.count, commits + 1);
    assert_int_equal(times.batch_records.count, commits + 1);
    assert_int_equal(times.batch_records.max, figures.log_records - records);
    assert_in_range(figures.log_records - records, 2, 4); /* the topic may also have one */
    assert_int_equal(times.batch_bytes.max, figures.log_written_bytes - bytes);
}

CLAIM_BETWEEN(the_figures_include_log_disk_and_opening, open_world, close_world)
{
    struct world *world = *state;
    struct shard_figures figures;
    struct statvfs room;
    push(world, "one", 0);
    pump(world, TIMEOUT_MS, 1);
    local_figures(world->local, 0, &figures);
    assert_int_equal(statvfs(world->dir, &room), 0);
    assert_int_equal(figures.disk_bytes, (uint64_t)room.f_blocks * room.f_frsize);
    assert_in_range(figures.disk_free_bytes, 1, figures.disk_bytes);
    assert_true(figures.log_files >= 1);
    assert_int_equal(figures.log_bytes, figures.log_files * (4 << 20));
    assert_true(figures.bytes_on_disk >= figures.log_bytes);
    assert_true(figures.recovery_ms >= 0 && figures.recovery_ms < TIMEOUT_MS);
    assert_int_equal(local_shards(world->local), 1);
}

CLAIM_BETWEEN(body_reads_are_counted_by_their_source, open_world, close_world)
{
    struct world *world = *state;
    struct shard_figures figures;
    push(world, "one", 0);
    pump(world, TIMEOUT_MS, 1);
    queue_get(world->queue, slice_of("t"), slice_of("one"), to(world));
    pump(world, TIMEOUT_MS, 2);
    local_figures(world->local, 0, &figures);
    assert_int_equal(figures.reads[SHARD_READ_MEMORY], 1);
    assert_int_equal(figures.reads[SHARD_READ_PAGE_CACHE], 0);
    assert_int_equal(figures.reads[SHARD_READ_DISK], 0);
}

CLAIMS_MAIN(NULL, NULL)
