/* A whole shard with cold jobs, held at one step of a checkpoint: what is asked of it meanwhile. */
#include "base/clock.h"
#include "base/log.h"
#include "local/checkpoint.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_BYTES = 1 << 20,
    BODY_BYTES = 16384,
    JOBS_MAX = 4000,
    TIMEOUT_MS = 30000, /* of a test on a busy machine */
    HELD_MS = 200,
    DUE_MS = 3600000
};

struct world {
    char dir[64], shard_dir[96];
    struct local_options local;
    struct shard_options options;
    struct reactor *reactor;
    struct shard *shard;
    uint32_t answered;
    enum queue_status status;
    bool has_stopped;
};

static void ignore_ready(void *ctx, struct slice topic, uint64_t reactors)
{
    (void)ctx;
    (void)topic;
    (void)reactors;
}

static void ignore_event(void *ctx, enum queue_event event, struct slice topic)
{
    (void)ctx;
    (void)event;
    (void)topic;
}

static void on_failed(void *ctx)
{
    (void)ctx;
    fail_msg("the shard failed");
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->has_stopped = true;
}

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct world *world = owner;
    (void)tag;
    world->status =
        reply->result_count ? reply->results[reply->result_count - 1].status : reply->status;
    world->answered++;
}

/* ---- open, run, close ---- */

static int try_open(struct world *world, char *error, size_t error_bytes)
{
    struct shard_recovered recovered;
    world->reactor = reactor_new(0);
    world->has_stopped = false;
    int failed =
        shard_open(&world->options, world->reactor, &world->shard, &recovered, error, error_bytes);
    if (failed)
        reactor_free(world->reactor);
    return failed;
}

static void open_shard(struct world *world)
{
    char error[512] = "";
    if (try_open(world, error, sizeof error))
        fail_msg("%s", error);
}

static bool run_until(struct world *world, const bool *flag, uint32_t answered, int64_t timeout_ms)
{
    int64_t until_us = clock_boot_us() + timeout_ms * 1000;
    while (!(flag && *flag) && world->answered < answered) {
        if (clock_boot_us() > until_us)
            return false;
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
        usleep(20);
    }
    return true;
}

static void run_until_idle(struct world *world)
{
    int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;
    int idle = 0;
    while (idle < 10) { /* some rounds one after the other */
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
        usleep(20);
        idle = checkpoint_is_busy(world->shard->checkpoint) ? 0 : idle + 1;
        if (clock_boot_us() > until_us)
            fail_msg("the checkpoint does not come to an end");
    }
}

static void close_shard(struct world *world)
{
    shard_stop(world->shard, on_stopped, world);
    if (!run_until(world, &world->has_stopped, UINT32_MAX, TIMEOUT_MS))
        fail_msg("the shard does not stop");
    shard_free(world->shard);
    reactor_free(world->reactor);
}

static int make_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_true(scratch_make(world->dir));
    snprintf(world->shard_dir, sizeof world->shard_dir, "%s/shard-00", world->dir);
    log_open(NULL, LOG_ERROR + 1, false);
    world->local = (struct local_options){.data_dir = world->dir,
                                          .sync = WAL_SYNC_NEVER,
                                          .wal_file_bytes = FILE_BYTES,
                                          .body_bytes_max = BODY_BYTES,
                                          .topics_max = 1000};
    world->options = (struct shard_options){.local = &world->local,
                                            .dir = world->shard_dir,
                                            .hash_seed = 7,
                                            .ready = ignore_ready,
                                            .event = ignore_event,
                                            .failed = on_failed,
                                            .limits = {.checkpoint_files_min = 1,
                                                       .checkpoint_files_max = 2,
                                                       .slack_bytes = 256 << 10,
                                                       .victim_bytes_max = 8 << 20},
                                            .ctx = world};
    *state = world;
    return 0;
}

static int remove_world(void **state)
{
    struct world *world = *state;
    int result = scratch_remove(world->dir);
    free(world);
    return result;
}

/* ---- commands ---- */

static struct queue_reply_to to(struct world *world)
{
    return (struct queue_reply_to){.done = on_done, .owner = world};
}

static enum queue_status answer(struct world *world, const char *what)
{
    if (!run_until(world, NULL, world->answered + 1, TIMEOUT_MS))
        fail_msg("no answer to a %s", what);
    return world->status;
}

static void submit_push(struct world *world, struct slice id)
{
    static char body[BODY_BYTES];
    const struct queue_push push = {.topic = slice_of("t"),
                                    .id = id,
                                    .body = slice_make(body, sizeof body),
                                    .when = {.due = QUEUE_DUE_DELAY, .ms = DUE_MS},
                                    .priority = QUEUE_PRIORITY_UNSET};
    const struct command command = {.kind = COMMAND_PUSH, .count = 1, .pushes = &push};
    shard_submit(world->shard, &command, to(world));
}

static enum queue_status push(struct world *world, struct slice id)
{
    submit_push(world, id);
    return answer(world, "push");
}

/* Waits for the checkpoint, and not for a disk that is slow. */
static bool push_is_held(struct world *world, struct slice id)
{
    uint32_t answered = world->answered + 1;
    submit_push(world, id);
    for (int tries = 0; tries < TIMEOUT_MS / HELD_MS; tries++) {
        if (run_until(world, NULL, answered, HELD_MS))
            return false;
        if (!list_is_empty(&world->shard->held))
            return true;
    }
    fail_msg("a push is neither answered nor held");
    return false;
}

static enum queue_status cancel(struct world *world, struct slice id)
{
    const struct queue_change change = {.verb = QUEUE_CANCEL, .topic = slice_of("t"), .id = id};
    const struct command command = {.kind = COMMAND_CHANGE, .count = 1, .changes = &change};
    shard_submit(world->shard, &command, to(world));
    return answer(world, "cancel");
}

static struct slice name(char room[16], unsigned number)
{
    return slice_make(room, (size_t)snprintf(room, 16, "job-%u", number));
}

/* ---- a checkpoint with a victim, held before it evicts ---- */

static struct depot_run *find_victim(struct world *world)
{
    const struct depot_view *view = depot_view(world->shard->depot);
    for (uint32_t i = 0; i < view->run_count; i++)
        if (view->runs[i]->moved && view->runs[i]->alive.count)
            return view->runs[i];
    return NULL;
}

static void let_checkpoint_go(struct world *world)
{
    world->shard->listings--;
    reactor_iterate_again(world->reactor);
}

/* Runs iterations, if a listing is in progress, until it is waited for. */
static void run_until_held(struct world *world)
{
    const struct checkpoint *checkpoint = world->shard->checkpoint;
    int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;
    while (checkpoint_is_busy(checkpoint) && checkpoint_phase(checkpoint) != CHECKPOINT_EVICTING) {
        uv_run(reactor_loop(world->reactor), UV_RUN_NOWAIT);
        usleep(20);
        if (clock_boot_us() > until_us)
            fail_msg("the checkpoint does not come to an end");
    }
}

static struct depot_run *hold_checkpoint(struct world *world)
{
    char room[16];
    for (unsigned i = 0; i < JOBS_MAX; i++) {
        world->shard->listings++; /* what holds it */
        push(world, name(room, i));
        run_until_held(world);
        if (i > 150 && i % 4)
            cancel(world, name(room, i - 150));
        struct depot_run *victim = find_victim(world);
        if (victim)
            return victim;
        let_checkpoint_go(world);
        run_until_idle(world);
    }
    fail_msg("no checkpoint had a victim");
    return NULL;
}

/* The id of a job that is cold, in this run. */
static struct slice far_id(struct world *world, const struct depot_run *run, char room[16])
{
    struct buffer scratch;
    struct slice id = {0};
    buffer_init(&scratch, SIZE_MAX / 2);
    for (uint32_t slot = 0; slot < run->alive.slots && !id.len; slot++) {
        struct slice bytes;
        struct record record;
        if (!alive_test(&run->alive, slot))
            continue;
        assert_int_equal(run_read(run->run, slot, 0, true, &scratch, &bytes), 0);
        assert_true(record_decode(bytes, &record) && record.kind == RECORD_JOB);
        struct hash128 key = engine_key(world->shard->engine, record.job.topic, record.job.id);
        if (engine_knows(world->shard->engine, key))
            continue;
        memcpy(room, record.job.id.at, record.job.id.len);
        id = slice_make(room, record.job.id.len);
    }
    buffer_fini(&scratch);
    assert_true(id.len > 0);
    return id;
}

/* ---- the claims ---- */

/* Its slot in the victim is found again, and it has ended in the new run. */
CLAIM_BETWEEN(an_id_that_ended_during_a_checkpoint_is_free_immediately, make_world, remove_world)
{
    struct world *world = *state;
    char room[16];
    open_shard(world);
    struct slice id = far_id(world, hold_checkpoint(world), room);
    assert_int_equal(cancel(world, id), QUEUE_CANCELLED);
    assert_int_equal(cancel(world, id), QUEUE_NOT_FOUND);
    assert_int_equal(push(world, id), QUEUE_CREATED);
    assert_int_equal(cancel(world, id), QUEUE_CANCELLED);
    let_checkpoint_go(world);
    run_until_idle(world);
    assert_int_equal(cancel(world, id), QUEUE_NOT_FOUND);
    close_shard(world);
}

static uint32_t count_run_files(const struct world *world)
{
    char path[128];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/run", world->shard_dir);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += run_file_number(entry->d_name) != 0;
    closedir(dir);
    return count;
}

CLAIM_BETWEEN(the_files_of_victims_go_with_their_checkpoint, make_world, remove_world)
{
    struct world *world = *state;
    open_shard(world);
    hold_checkpoint(world);
    let_checkpoint_go(world);
    run_until_idle(world);
    assert_int_equal(count_run_files(world), depot_view(world->shard->depot)->run_count);
    close_shard(world);
}

/* Pushes wait for a checkpoint that is behind, which a stop gives up. */
CLAIM_BETWEEN(a_stop_answers_pushes_that_wait_for_a_checkpoint, make_world, remove_world)
{
    struct world *world = *state;
    char room[16];
    open_shard(world);
    world->shard->listings++; /* what holds it */
    bool is_held = false;
    for (unsigned i = 0; i < JOBS_MAX && !is_held; i++)
        is_held = push_is_held(world, name(room, i));
    assert_true(is_held);
    close_shard(world);
    assert_int_equal(world->status, QUEUE_CREATED);
}

/* ---- damage ---- */

static void push_far(struct world *world)
{
    char room[16], path[160];
    snprintf(path, sizeof path, "%s/wal/00000001.log", world->shard_dir);
    for (unsigned i = 0; i < JOBS_MAX && access(path, F_OK) == 0; i++) {
        push(world, name(room, i));
        run_until_idle(world);
    }
    assert_int_not_equal(access(path, F_OK), 0);
    assert_true(depot_view(world->shard->depot)->run_count > 0);
}

static void damage_one(struct world *world)
{
    const struct depot_run *run = depot_view(world->shard->depot)->runs[0];
    char path[160];
    struct run_slot slot;
    uint32_t first = alive_next(&run->alive, 0, run->alive.slots);
    assert_int_equal(run_slots(run->run, first, 1, true, &slot), 0);
    snprintf(path, sizeof path, "%s/run/%08u.run", world->shard_dir, run->number);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)slot.offset + 6, SEEK_SET), 0);
    assert_int_equal(fwrite("rot", 3, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

CLAIM_BETWEEN(deleting_a_topic_with_a_damaged_job_is_rejected, make_world, remove_world)
{
    struct world *world = *state;
    open_shard(world);
    push_far(world);
    damage_one(world);
    const struct command command = {.kind = COMMAND_TOPIC,
                                    .topic = {.verb = QUEUE_TOPIC_DELETE, .topic = slice_of("t")}};
    shard_submit(world->shard, &command, to(world));
    assert_int_equal(answer(world, "delete"), QUEUE_UNAVAILABLE);
    close_shard(world);
}

static enum queue_status reschedule(struct world *world, struct slice id)
{
    const struct queue_change change = {.verb = QUEUE_RESCHEDULE,
                                        .topic = slice_of("t"),
                                        .id = id,
                                        .when = {.due = QUEUE_DUE_DELAY, .ms = 2 * DUE_MS},
                                        .priority = QUEUE_PRIORITY_UNSET};
    const struct command command = {.kind = COMMAND_CHANGE, .count = 1, .changes = &change};
    shard_submit(world->shard, &command, to(world));
    return answer(world, "reschedule");
}

/* Its state is written to the log again, and again. */
CLAIM_BETWEEN(a_damaged_job_with_a_newer_state_keeps_no_checkpoint_from_ending, make_world,
              remove_world)
{
    struct world *world = *state;
    struct checkpoint_figures before, after;
    char room[16];
    open_shard(world);
    push_far(world);
    struct slice id = far_id(world, depot_view(world->shard->depot)->runs[0], room);
    assert_int_equal(reschedule(world, id), QUEUE_OK);
    damage_one(world);
    checkpoint_figures(world->shard->checkpoint, &before);
    for (unsigned i = 0; i < 400; i++) {
        push(world, name(room, JOBS_MAX + i));
        run_until_idle(world);
    }
    checkpoint_figures(world->shard->checkpoint, &after);
    assert_int_equal(after.failed, 0);
    assert_true(after.checkpoints > before.checkpoints + 2);
    close_shard(world);
}

static void remove_in_run(const struct world *world, const char *what)
{
    char command[192];
    snprintf(command, sizeof command, "rm -rf %s/run%s", world->shard_dir, what);
    assert_int_equal(system(command), 0);
}

/* Otherwise it would begin with the rest of the log, and the missing jobs would not be noticed. */
CLAIM_BETWEEN(a_log_with_checkpointed_files_is_rejected_without_a_catalog, make_world, remove_world)
{
    static const char *const removed[] = {"/CATALOG-*", ""};
    struct world *world = *state;
    open_shard(world);
    push_far(world);
    close_shard(world);
    open_shard(world);
    close_shard(world);
    for (size_t i = 0; i < COUNT_OF(removed); i++) {
        char error[512] = "";
        remove_in_run(world, removed[i]);
        assert_int_not_equal(try_open(world, error, sizeof error), 0);
        CASE_HOLDS(error, strstr(error, "catalog"));
    }
}

static void in_run(const struct world *world, const char *command)
{
    char line[320];
    snprintf(line, sizeof line, "cd %s/run && %s", world->shard_dir, command);
    assert_int_equal(system(line), 0);
}

/* The catalog that was mislaid is put back: all that it names is still there. */
CLAIM_BETWEEN(a_start_that_is_refused_removes_no_run, make_world, remove_world)
{
    struct world *world = *state;
    char error[512] = "";
    open_shard(world);
    push_far(world);
    close_shard(world);
    in_run(world, "touch half.tmp && mkdir ../aside && mv CATALOG-* ../aside && "
                  "find . -type f -size +0 | sort > ../before");
    assert_int_not_equal(try_open(world, error, sizeof error), 0);
    CASE_HOLDS(error, strstr(error, "nothing was changed"));
    in_run(world, "find . -type f -size +0 | sort | cmp - ../before && test -e half.tmp");
    in_run(world, "mv ../aside/CATALOG-* .");
    open_shard(world);
    assert_true(depot_view(world->shard->depot)->run_count > 0);
    close_shard(world);
    in_run(world, "test ! -e half.tmp");
}

/* ---- figures ---- */

static void get(struct world *world, struct slice id)
{
    const struct command command = {.kind = COMMAND_GET, .get = {.topic = slice_of("t"), .id = id}};
    shard_submit(world->shard, &command, to(world));
    (void)answer(world, "get");
}

static uint64_t reads_of(const struct shard_figures *figures)
{
    return figures->reads[SHARD_READ_MEMORY] + figures->reads[SHARD_READ_PAGE_CACHE] +
           figures->reads[SHARD_READ_DISK];
}

CLAIM_BETWEEN(checkpoints_and_looks_for_cold_jobs_are_counted, make_world, remove_world)
{
    struct world *world = *state;
    struct shard_figures before, after;
    static struct shard_times times;
    char room[16];
    open_shard(world);
    push_far(world);
    shard_figures(world->shard, &before);
    shard_times(world->shard, &times);
    assert_true(before.checkpoints > 0 && before.runs > 0 && before.cold_jobs > 0);
    assert_int_equal(times.checkpoint_ms.count, before.checkpoints);
    assert_true(before.checkpoint_at_ms > 0 && before.checkpoint_at_ms <= clock_inner_ms());
    assert_in_range(before.checkpoint_took_ms, 0, times.checkpoint_ms.max);

    get(world, far_id(world, depot_view(world->shard->depot)->runs[0], room));
    assert_int_equal(world->status, QUEUE_OK);
    shard_figures(world->shard, &after);
    assert_int_equal(after.lookups_found, before.lookups_found + 1);
    assert_int_equal(reads_of(&after), reads_of(&before) + 1);
    for (unsigned i = 0; i < 2000; i++)
        get(world, name(room, JOBS_MAX + i)); /* an unknown id */
    shard_figures(world->shard, &before);
    assert_int_equal(before.lookups_found, after.lookups_found);
    assert_int_equal(reads_of(&before), reads_of(&after));
    assert_true(before.filter_misses + before.lookups_absent >
                0); /* a filter errs for one in 500 */
    assert_in_range(before.filter_misses + before.lookups_absent, 1, 200);
    close_shard(world);
}

CLAIMS_MAIN(NULL, NULL)
