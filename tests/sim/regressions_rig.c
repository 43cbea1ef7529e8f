#include "regressions.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH = 20 /* more has no room in so small a file */
};

struct rig rig;

const struct scenario rig_small = {.file_bytes = FILE_BYTES,
                                   .limits = {.checkpoint_files_min = 1,
                                              .checkpoint_files_max = 2,
                                              .horizon_ms = 300,
                                              .topic_quota = 50,
                                              .slack_bytes = SLACK_BYTES,
                                              .victim_bytes_max = 1 << 20,
                                              .keys_entries_max = 100000,
                                              .keys_fan = 2,
                                              .scan_changes = 128,
                                              .timers = 128}};

const struct scenario rig_large = {.file_bytes = 1 << 22,
                                   .limits = {.checkpoint_files_min = 1,
                                              .checkpoint_files_max = 2,
                                              .topic_quota = 5000,
                                              .scan_changes = 512,
                                              .timers = 512}};

/* A power cut frees nothing that was under way. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:quarantine_size_mb=8";
}

/* Satisfies oracle.c, which needs a report. */
void sim_report(void);
void sim_report(void)
{
    machine_log_show();
    fail_msg("the oracle is not asked here");
}

/* ---- opening, and the ends ---- */

void rig_power_up(int64_t now_ms)
{
    world_init(&rig.world, rig.world.scenario, &rig.disk, &rig.oracle, 7, now_ms, now_ms);
}

void rig_begin(const struct scenario *scenario, size_t body_bytes)
{
    memset(&rig, 0, sizeof rig);
    rig.body_bytes = body_bytes;
    rig.world.scenario = scenario;
    sim_fs_init(&rig.disk, 1);
    oracle_init(&rig.oracle);
    machine_log_clear();
    rig_power_up(1700000000000);
    if (world_open(&rig.world))
        fail_msg("%s", rig.world.error);
}

void rig_end(void)
{
    world_drop(&rig.world);
    sim_fs_fini(&rig.disk);
}

int64_t rig_now_ms(void)
{
    return rig.world.machine.wall_ms;
}

/* The power goes, and comes back after a while. */
void rig_restart(int64_t down_ms)
{
    int64_t at_ms = rig_now_ms() + down_ms;

    world_drop(&rig.world);
    sim_fs_crash(&rig.disk, SIM_DROP_UNSYNCED);
    rig_power_up(at_ms);
    if (world_open(&rig.world))
        fail_msg("%s", rig.world.error);
    assert_true(world_settle(&rig.world));
}

/* However long: nothing falls due meanwhile. */
void rig_skip_to(int64_t wall_ms)
{
    machine_advance(&rig.world.machine, wall_ms - rig_now_ms());
    assert_true(world_settle(&rig.world));
}

/* ---- asking ---- */

static void body_of(uint32_t id, char out[ORACLE_BODY_MAX])
{
    int at = snprintf(out, ORACLE_BODY_MAX, "<body of %u>", id);
    memset(out + at, 'a' + (int)(id % 26), ORACLE_BODY_MAX - (size_t)at);
}

static bool is_body(struct slice body, uint32_t id)
{
    char wanted[ORACLE_BODY_MAX];

    body_of(id, wanted);
    return body.len == rig.body_bytes && memcmp(body.at, wanted, body.len) == 0;
}

static uint32_t id_of(const struct queue_job *job)
{
    char text[16] = "";

    assert_in_range(job->job.id.len, 1, sizeof text - 1);
    memcpy(text, job->job.id.at, job->job.id.len);
    return (uint32_t)strtoul(text, NULL, 10);
}

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    rig.status = reply->status;
    rig.affected = reply->affected;
    for (size_t i = 0; i < reply->result_count; i++)
        if (reply->results[i].status > QUEUE_CANCELLED)
            rig.status = reply->results[i].status;
    rig.taken = reply->job_count;
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct queue_job *job = &reply->jobs[i];

        rig.ids[i] = id_of(job);
        rig.due_ms[i] = job->job.due_ms;
        rig.body_is_right[i] = is_body(job->job.body, rig.ids[i]);
        memcpy(rig.leases[i], job->lease.at ? job->lease.at : "", job->lease.len);
        rig.leases[i][job->lease.len] = '\0';
    }
}

void rig_ask(const struct command *command)
{
    world_submit(&rig.world, command, on_reply, NULL);
    if (!world_quiet(&rig.world)) {
        machine_log_show();
        fail_msg("a call is not answered");
    }
}

/* Pushes one batch. */
static void push_batch(uint32_t first, uint32_t count, int64_t delay_ms, int64_t step_ms)
{
    static char ids[BATCH][16], bodies[BATCH][ORACLE_BODY_MAX];
    static struct queue_push pushes[BATCH];

    for (uint32_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "%u", first + i);
        body_of(first + i, bodies[i]);
        pushes[i] =
            (struct queue_push){.topic = slice_of("t"),
                                .id = slice_of(ids[i]),
                                .body = slice_make(bodies[i], rig.body_bytes),
                                .priority = QUEUE_PRIORITY_UNSET,
                                .when = {.due = QUEUE_DUE_DELAY, .ms = delay_ms + i * step_ms}};
    }
    rig_ask(&(struct command){.kind = COMMAND_PUSH, .count = count, .pushes = pushes});
}

/* Pushes so many from the id on, all after `delay_ms`. False: refused. */
bool rig_try_push(uint32_t first, uint32_t count, int64_t delay_ms)
{
    for (uint32_t from = 0; from < count; from += BATCH) {
        push_batch(first + from, count - from < BATCH ? count - from : BATCH, delay_ms, 0);
        if (rig.status != QUEUE_OK)
            return false;
    }
    return true;
}

/* Pushes jobs from the id on, the i-th after `delay_ms` and i times `step_ms`. */
void rig_push(uint32_t first, uint32_t count, int64_t delay_ms, int64_t step_ms)
{
    for (uint32_t from = 0; from < count; from += BATCH) {
        push_batch(first + from, count - from < BATCH ? count - from : BATCH,
                   delay_ms + from * step_ms, step_ms);
        assert_int_equal(rig.status, QUEUE_OK);
    }
}

size_t rig_take(uint32_t max)
{
    struct slice topic = slice_of("t");

    rig_ask(&(struct command){
        .kind = COMMAND_TAKE,
        .take = {.topics = &topic, .topic_count = 1, .max = max, .lease_ms = HOUR_MS}});
    assert_int_equal(rig.status, QUEUE_OK);
    return rig.taken;
}

/* Takes all ready jobs, also those that have to be loaded first. */
size_t rig_take_ready(uint32_t max)
{
    for (int i = 0; i < 20 && !rig_take(max); i++)
        world_wait(&rig.world, 50);
    return rig.taken;
}

/* Answers all jobs of the last take, some at a time. */
void rig_answer(enum queue_verb verb, int64_t delay_ms)
{
    static struct queue_answer answers[BATCH];
    size_t taken = rig.taken;

    for (size_t from = 0; from < taken; from += BATCH) {
        size_t many = taken - from < BATCH ? taken - from : BATCH;

        for (size_t i = 0; i < many; i++)
            answers[i] = (struct queue_answer){
                .verb = verb, .lease = slice_of(rig.leases[from + i]), .delay_ms = delay_ms};
        rig_ask(&(struct command){.kind = COMMAND_ANSWER, .count = many, .answers = answers});
        assert_int_equal(rig.status, QUEUE_OK);
    }
}

void rig_give_up_after_one_attempt(void)
{
    rig_ask(&(struct command){.kind = COMMAND_TOPIC,
                              .topic = {.verb = QUEUE_TOPIC_PUT,
                                        .topic = slice_of("t"),
                                        .settings = {.policy.max_attempts = 1}}});
    assert_int_equal(rig.status, QUEUE_CREATED);
}

/* Returns the job's due time; rig.status has the result. */
int64_t rig_get(uint32_t id)
{
    char text[16];

    snprintf(text, sizeof text, "%u", id);
    rig_ask(&(struct command){.kind = COMMAND_GET,
                              .get = {.topic = slice_of("t"), .id = slice_of(text)}});
    return rig.status == QUEUE_OK ? rig.due_ms[0] : 0;
}

uint64_t rig_far_jobs(void)
{
    struct shard_figures figures;

    shard_figures(rig.world.shard, &figures);
    return figures.cold_jobs;
}

/* Short jobs come and go until what was there before has left the log. */
void rig_age(void)
{
    for (uint32_t round = 0; round < 15; round++) {
        rig_push(90000, ROUND, 0, 0);
        while (rig_take_ready(ROUND))
            rig_answer(QUEUE_ACK, 0);
    }
}
