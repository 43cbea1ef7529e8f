/* Promises that other delay queues have broken: each test names the bug it would have found. A
 * whole shard on a virtual clock and a simulated disk. */
#include "world.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    SECOND_MS = 1000,
    HOUR_MS = 3600 * SECOND_MS,
    YEAR_S = 365 * 24 * 3600,
    FILE_BYTES = 1 << 18,
    SLACK_BYTES = 1 << 20, /* more than the fixed parts of some runs */
    JOBS_MAX = 100000,
    BATCH = 20, /* more has no room in so small a file */
    ROUND = 100,
    RECORD_BYTES = 200, /* of a job besides its body, at most */
    LOG_FILES = 8       /* in use, being given up, and kept ready */
};

static const struct scenario small = {.file_bytes = FILE_BYTES,
                                      .limits = {.checkpoint_files_min = 1,
                                                 .checkpoint_files_max = 2,
                                                 .horizon_ms = 300,
                                                 .topic_quota = 50,
                                                 .slack_bytes = SLACK_BYTES,
                                                 .victim_bytes_max = 1 << 20,
                                                 .keys_entries_max = 100000,
                                                 .keys_fan = 2}};

static const struct scenario large = {
    .file_bytes = 1 << 22,
    .limits = {.checkpoint_files_min = 1, .checkpoint_files_max = 2, .topic_quota = 5000}};

static struct rig {
    struct sim_fs disk;
    struct judge judge;
    struct world world;
    size_t body_bytes;
    /* The last take. */
    size_t taken;
    char leases[QUEUE_TAKE_MAX][QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    uint32_t ids[QUEUE_TAKE_MAX];
    int64_t due_ms[QUEUE_TAKE_MAX];
    bool body_is_right[QUEUE_TAKE_MAX];
    /* The last get. */
    enum queue_status status;
    uint32_t seen[JOBS_MAX];
    uint32_t reported, harmed_most; /* of damage */
} rig;

/* A power cut frees nothing that was under way. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:quarantine_size_mb=8";
}

/* What judge.c asks for. */
void sim_report(void);
void sim_report(void)
{
    machine_log_show();
    fail_msg("the judge is not asked here");
}

/* ---- opening, and the ends ---- */

static void power_up(int64_t now_ms)
{
    world_init(&rig.world, rig.world.scenario, &rig.disk, &rig.judge, 7, now_ms, now_ms);
}

static void begin(const struct scenario *scenario, size_t body_bytes)
{
    memset(&rig, 0, sizeof rig);
    rig.body_bytes = body_bytes;
    rig.world.scenario = scenario;
    sim_fs_init(&rig.disk, 1);
    judge_init(&rig.judge);
    machine_log_clear();
    power_up(1700000000000);
    if (world_open(&rig.world))
        fail_msg("%s", rig.world.error);
}

static void end(void)
{
    world_drop(&rig.world);
    sim_fs_fini(&rig.disk);
}

static int64_t now_ms(void)
{
    return rig.world.machine.wall_ms;
}

/* The power goes, and comes back after a while. */
static void restart(int64_t down_ms)
{
    int64_t at_ms = now_ms() + down_ms;

    world_drop(&rig.world);
    sim_fs_crash(&rig.disk, SIM_DROP_UNSYNCED);
    power_up(at_ms);
    if (world_open(&rig.world))
        fail_msg("%s", rig.world.error);
    assert_true(world_settle(&rig.world));
}

/* However long: nothing falls due meanwhile. */
static void skip_to(int64_t wall_ms)
{
    machine_advance(&rig.world.machine, wall_ms - now_ms());
    assert_true(world_settle(&rig.world));
}

static int64_t disk_bytes(void)
{
    int64_t bytes = 0;

    for (int i = 0; i < rig.disk.now.count; i++) {
        const struct sim_inode *inode = rig.disk.now.entries[i].inode;
        bytes += inode->size - inode->holes * SIM_SECTOR_BYTES;
    }
    return bytes;
}

static void assert_disk_holds_little_more_than(uint32_t jobs)
{
    int64_t live = (int64_t)jobs * (int64_t)(rig.body_bytes + RECORD_BYTES);
    int64_t bytes = disk_bytes();

    if (bytes > live * 13 / 10 + LOG_FILES * FILE_BYTES + SLACK_BYTES)
        fail_msg("%lld bytes on the disk for %lld", (long long)bytes, (long long)live);
}

/* ---- asking ---- */

static void body_of(uint32_t id, char out[JUDGE_BODY_MAX])
{
    int at = snprintf(out, JUDGE_BODY_MAX, "<body of %u>", id);
    memset(out + at, 'a' + (int)(id % 26), JUDGE_BODY_MAX - (size_t)at);
}

static bool is_body(struct slice body, uint32_t id)
{
    char wanted[JUDGE_BODY_MAX];

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

static void ask(const struct command *command)
{
    world_submit(&rig.world, command, on_reply, NULL);
    if (!world_quiet(&rig.world)) {
        machine_log_show();
        fail_msg("a call is not answered");
    }
}

/* So many from the id on, the i-th after `delay_ms` and i times `step_ms`. */
static void push(uint32_t first, uint32_t count, int64_t delay_ms, int64_t step_ms)
{
    static char ids[BATCH][16], bodies[BATCH][JUDGE_BODY_MAX];
    static struct queue_push pushes[BATCH];

    for (uint32_t from = 0; from < count; from += BATCH) {
        uint32_t many = count - from < BATCH ? count - from : BATCH;

        for (uint32_t i = 0; i < many; i++) {
            snprintf(ids[i], sizeof ids[i], "%u", first + from + i);
            body_of(first + from + i, bodies[i]);
            pushes[i] = (struct queue_push){
                .topic = slice_of("t"),
                .id = slice_of(ids[i]),
                .body = slice_make(bodies[i], rig.body_bytes),
                .priority = QUEUE_PRIORITY_UNSET,
                .when = {.due = QUEUE_DUE_DELAY, .ms = delay_ms + (from + i) * step_ms}};
        }
        ask(&(struct command){.kind = COMMAND_PUSH, .count = many, .pushes = pushes});
        assert_int_equal(rig.status, QUEUE_OK);
    }
}

static size_t take(uint32_t max)
{
    struct slice topic = slice_of("t");

    ask(&(struct command){
        .kind = COMMAND_TAKE,
        .take = {.topics = &topic, .topic_count = 1, .max = max, .lease_ms = HOUR_MS}});
    assert_int_equal(rig.status, QUEUE_OK);
    return rig.taken;
}

/* What there is, also where it has to be loaded first. */
static size_t take_ready(uint32_t max)
{
    for (int i = 0; i < 20 && !take(max); i++)
        world_wait(&rig.world, 50);
    return rig.taken;
}

/* All of the last take, some at a time. */
static void answer(enum queue_verb verb, int64_t delay_ms)
{
    static struct queue_answer answers[BATCH];
    size_t taken = rig.taken;

    for (size_t from = 0; from < taken; from += BATCH) {
        size_t many = taken - from < BATCH ? taken - from : BATCH;

        for (size_t i = 0; i < many; i++)
            answers[i] = (struct queue_answer){
                .verb = verb, .lease = slice_of(rig.leases[from + i]), .delay_ms = delay_ms};
        ask(&(struct command){.kind = COMMAND_ANSWER, .count = many, .answers = answers});
        assert_int_equal(rig.status, QUEUE_OK);
    }
}

/* Its due; rig.status says what came of it. */
static int64_t get(uint32_t id)
{
    char text[16];

    snprintf(text, sizeof text, "%u", id);
    ask(&(struct command){.kind = COMMAND_GET,
                          .get = {.topic = slice_of("t"), .id = slice_of(text)}});
    return rig.status == QUEUE_OK ? rig.due_ms[0] : 0;
}

static uint64_t far_jobs(void)
{
    struct shard_figures figures;

    shard_figures(rig.world.shard, &figures);
    return figures.far_jobs;
}

/* Short jobs come and go until what was there before has left the log. */
static void age(void)
{
    for (uint32_t round = 0; round < 15; round++) {
        push(90000, ROUND, 0, 0);
        while (take_ready(ROUND))
            answer(QUEUE_ACK, 0);
    }
}

/* ---- the disk ---- */

/* beanstalkd 622: every release of a job with a delay grew its binlog, for ever. */
static void test_jobs_released_for_ever_do_not_grow_the_disk(void **state)
{
    enum { JOBS = 300, ROUNDS = 150 };
    struct scenario scenario = small;
    (void)state;

    scenario.limits.topic_quota = 1000; /* all of them stay in memory */
    begin(&scenario, 200);
    push(0, JOBS, 0, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t released = 0;

        while (take_ready(ROUND)) {
            released += (uint32_t)rig.taken;
            answer(round < 10 ? QUEUE_NACK : QUEUE_RETURN, 5 * SECOND_MS);
        }
        assert_int_equal(released, JOBS);
        world_wait(&rig.world, 6 * SECOND_MS);
        assert_disk_holds_little_more_than(JOBS);
    }
    end();
}

/* The same binlog kept every file back to the oldest job's. */
static void test_a_few_jobs_years_away_do_not_keep_the_short_ones(void **state)
{
    enum { ROUNDS = 150 };
    (void)state;

    begin(&small, 400);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        push(round, 1, (int64_t)YEAR_S * SECOND_MS, 0);
        push(1000 + round * ROUND, ROUND, 100, 1);
        world_wait(&rig.world, 300);
        while (take_ready(ROUND))
            answer(QUEUE_ACK, 0);
        assert_disk_holds_little_more_than(round + 1 + ROUND);
    }
    for (uint32_t round = 0; round < ROUNDS; round++)
        assert_true(get(round) > 0);
    end();
}

/* ---- time ---- */

/* etcd 17529: a consumer that fell behind lost events that were dropped from memory. */
static void test_a_stalled_consumer_loses_nothing(void **state)
{
    enum { JOBS = 2000 };
    uint32_t came = 0;
    int64_t last_ms = 0;
    (void)state;

    begin(&small, 100);
    push(0, JOBS, 1000, 2);
    world_wait(&rig.world, 20 * SECOND_MS); /* all are ready, forty times the quota */
    assert_in_range(far_jobs(), JOBS / 2, JOBS);
    restart(HOUR_MS);
    world_wait(&rig.world, 5 * SECOND_MS);
    while (take_ready(37)) {
        for (size_t i = 0; i < rig.taken; i++) {
            assert_true(rig.body_is_right[i]);
            assert_true(rig.due_ms[i] >= last_ms);
            last_ms = rig.due_ms[i];
            assert_int_equal(rig.seen[rig.ids[i]]++, 0);
        }
        came += (uint32_t)rig.taken;
        answer(QUEUE_ACK, 0);
        world_wait(&rig.world, 10);
    }
    assert_int_equal(came, JOBS);
    end();
}

/* RabbitMQ's delayed message plugin 71: such a delay wrapped, and the message came at once. */
static void test_a_delay_above_2_to_the_32_is_not_cut(void **state)
{
    const int64_t delay_ms = (1LL << 32) + 5 * SECOND_MS;
    int64_t due_ms;
    (void)state;

    begin(&small, 100);
    push(1, 1, delay_ms, 0);
    due_ms = now_ms() + delay_ms;
    world_wait(&rig.world, 60 * SECOND_MS);
    assert_int_equal(take(10), 0);
    age(); /* to a run */
    assert_int_equal(far_jobs(), 1);
    restart(60 * SECOND_MS);
    world_wait(&rig.world, 60 * SECOND_MS);
    assert_int_equal(take(10), 0);
    skip_to(due_ms - SECOND_MS);
    world_wait(&rig.world, SECOND_MS - 100);
    assert_int_equal(take(10), 0);
    world_wait(&rig.world, SECOND_MS);
    assert_int_equal(take(10), 1);
    end();
}

/* beanstalkd 62: after a restart a delay began anew. */
static void test_a_restart_adds_nothing_to_a_delay(void **state)
{
    int64_t near_ms, far_ms;
    (void)state;

    begin(&small, 100);
    push(2, 1, 1000LL * HOUR_MS, 0);
    age();
    assert_int_equal(far_jobs(), 1);
    push(1, 1, 2LL * HOUR_MS, 0);
    near_ms = get(1);
    far_ms = get(2);
    assert_in_range(near_ms, now_ms() + 2LL * HOUR_MS - 100, now_ms() + 2LL * HOUR_MS + 1);
    for (int i = 0; i < 3; i++) {
        restart(HOUR_MS / 4);
        assert_int_equal(get(1), near_ms);
        assert_int_equal(get(2), far_ms);
    }
    skip_to(near_ms - SECOND_MS);
    assert_int_equal(take(10), 0);
    world_wait(&rig.world, 2 * SECOND_MS);
    assert_int_equal(take(10), 1);
    assert_int_equal(rig.ids[0], 1);
    answer(QUEUE_ACK, 0);
    restart(HOUR_MS);
    skip_to(far_ms - SECOND_MS);
    world_wait(&rig.world, SECOND_MS - 100);
    assert_int_equal(take(10), 0);
    world_wait(&rig.world, SECOND_MS);
    assert_int_equal(take(10), 1);
    assert_int_equal(rig.ids[0], 2);
    end();
}

/* RabbitMQ's delayed message plugin 72: with a hundred thousand timers they became late. */
static void test_a_hundred_thousand_timers_are_not_late(void **state)
{
    int64_t until_ms, late_ms = 0;
    uint32_t came = 0;
    (void)state;

    begin(&large, 20);
    push(0, JOBS_MAX, 60 * SECOND_MS, 1); /* a thousand a second */
    until_ms = now_ms() + 200 * SECOND_MS;
    while (came < JOBS_MAX && now_ms() < until_ms) {
        while (take(QUEUE_TAKE_MAX)) {
            for (size_t i = 0; i < rig.taken; i++) {
                assert_int_equal(rig.seen[rig.ids[i]]++, 0);
                if (now_ms() - rig.due_ms[i] > late_ms)
                    late_ms = now_ms() - rig.due_ms[i];
            }
            came += (uint32_t)rig.taken;
        }
        world_wait(&rig.world, 250);
    }
    assert_int_equal(came, JOBS_MAX);
    assert_in_range(late_ms, 0, SECOND_MS);
    end();
}

/* ---- damage ---- */

/* Bits that flip in what was synced long ago: every job comes as it was, or somebody says why not.
 *  */
static void open_damaged(const struct sim_fs *whole, const char *path, int64_t at)
{
    enum { JOBS = 300 };
    uint32_t harmed = 0;

    sim_fs_clone(&rig.disk, whole, 3);
    sim_fs_damage(&rig.disk, path, at, (unsigned char)(1 << at % 8));
    machine_log_clear();
    power_up(1700000000000 + HOUR_MS);
    if (world_open(&rig.world)) {
        assert_true(strlen(rig.world.error) > 0);
        rig.reported++;
    } else {
        for (uint32_t id = 0; id < JOBS; id++)
            if (!get(id) || !rig.body_is_right[0] || rig.ids[0] != id) {
                assert_int_equal(rig.status, QUEUE_UNAVAILABLE); /* never a wrong one, nor none */
                harmed++;
            }
        if (harmed && !machine_log_says("cannot be") && !machine_log_says("damaged"))
            fail_msg("%s: byte %lld: %u jobs are gone and nothing was said", path, (long long)at,
                     harmed);
        if (harmed > rig.harmed_most)
            rig.harmed_most = harmed;
        rig.reported += harmed != 0;
    }
    end();
}

static void flip_bits_of(const struct sim_fs *whole, const char *part)
{
    enum { PLACES = 40 };

    rig.reported = rig.harmed_most = 0;
    for (int i = 0; i < whole->now.count; i++) {
        const struct sim_entry *entry = &whole->now.entries[i];
        int64_t size = entry->inode->size;

        if (size > 0 && strstr(entry->name, part))
            for (int64_t place = 0; place < PLACES; place++)
                open_damaged(whole, entry->name, size * place / PLACES);
    }
    assert_true(rig.reported > 0);
}

/* In a job's body: that job and no other. */
static void flip_a_bit_of_a_body(struct sim_fs *whole)
{
    for (int i = 0; i < whole->now.count; i++) {
        const char *name = whole->now.entries[i].name;
        int64_t size;
        const char *bytes = sim_fs_bytes(whole, name, &size);
        const char *body =
            strstr(name, ".run") ? memmem(bytes, (size_t)size, "<body of 77>", 12) : NULL;

        if (!body)
            continue;
        rig.reported = rig.harmed_most = 0;
        open_damaged(whole, name, body - bytes + 100);
        assert_int_equal(rig.harmed_most, 1);
        return;
    }
    fail_msg("the job is in no run");
}

static void test_a_flipped_bit_is_told_and_one_in_a_job_harms_no_other(void **state)
{
    static struct sim_fs whole;
    (void)state;

    begin(&small, 700);
    push(0, 300, 1000LL * HOUR_MS, 0);
    age();
    assert_int_equal(far_jobs(), 300);
    sim_fs_clone(&whole, &rig.disk, 2);
    sim_fs_crash(&whole, SIM_DROP_UNSYNCED);
    end();
    flip_bits_of(&whole, ".run");
    flip_bits_of(&whole, ".keys");
    flip_bits_of(&whole, "CATALOG-");
    flip_a_bit_of_a_body(&whole);
    sim_fs_fini(&whole);
}

#define RUN(NAME) cmocka_unit_test(NAME)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(test_jobs_released_for_ever_do_not_grow_the_disk),
        RUN(test_a_few_jobs_years_away_do_not_keep_the_short_ones),
        RUN(test_a_stalled_consumer_loses_nothing),
        RUN(test_a_delay_above_2_to_the_32_is_not_cut),
        RUN(test_a_restart_adds_nothing_to_a_delay),
        RUN(test_a_hundred_thousand_timers_are_not_late),
        RUN(test_a_flipped_bit_is_told_and_one_in_a_job_harms_no_other),
    };

    return cmocka_run_group_tests_name("regressions", tests, NULL, NULL);
}
