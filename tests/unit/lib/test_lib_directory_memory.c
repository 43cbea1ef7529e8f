/* A queue in a directory while the process has no memory: every call is answered, each answer is true, waiting takes are
 * woken, and afterwards everything works again. */
#include "unit/claim.h"
#include "unit/scratch.h"
#include "unit/short_memory.h"

#include "lib_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { TAKERS = 6 };

static tarry *open_dir(const char *name, uint32_t shards)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    char path[SCRATCH_PATH_BYTES], error[300];
    tarry *queue;
    snprintf(path, sizeof path, "%s/%s", scratch_root, name);
    options.dir = path;
    options.shards = shards;
    options.sync = TARRY_SYNC_NEVER;
    options.wal_file_bytes = 4 << 20;
    if (tarry_open(&options, &queue, error, sizeof error))
        fail_msg("%s", error);
    return queue;
}

static bool is_honest(int code)
{
    bool is_good = code <= TARRY_CANCELLED || code == TARRY_NO_MEMORY;
    if (!is_good)
        print_error("%s\n", tarry_code_name(code));
    return is_good;
}

/* A life in small under want: what is pushed is counted in `pushed`, what is acked in `acked`. */
static void live_short(tarry *queue, int *pushed, int *acked)
{
    struct tarry_take take = rig_take(3);
    struct tarry_push pushes[3] = {TARRY_PUSH_INIT, TARRY_PUSH_INIT, TARRY_PUSH_INIT};
    struct tarry_result results[3] = {TARRY_RESULT_INIT};
    struct tarry_list list = TARRY_LIST_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    tarry_job *jobs[10], *job;
    char ids[3][48];
    size_t n;
    for (int i = 0; i < 3; i++) {
        snprintf(ids[i], sizeof ids[i], "short-%d-%d", *pushed, i);
        pushes[i].topic = "t";
        pushes[i].id = ids[i];
    }
    int code = tarry_push(queue, pushes, 3, results);
    assert_true(is_honest(code));
    for (int i = 0; i < 3; i++)
        *pushed += code == TARRY_OK || results[i].code == TARRY_CREATED;
    for (int i = 0; i < 3; i++) {
        code = tarry_push(queue, &pushes[i], 1, NULL);
        assert_true(is_honest(code));
    }
    assert_true(is_honest(tarry_topic_put(queue, "t", &settings)));
    code = tarry_get(queue, "t", "before-0", &job);
    assert_true(is_honest(code) || code == TARRY_NOT_FOUND);
    if (!code)
        tarry_job_free(job);
    list.topic = "t";
    code = tarry_list(queue, &list, jobs, &n);
    assert_true(is_honest(code));
    for (size_t i = 0; i < n; i++)
        tarry_job_free(jobs[i]);
    code = tarry_take(queue, &take, 0, jobs, &n);
    assert_true(is_honest(code));
    for (size_t i = 0; i < n; i++) {
        code = rig_answer(queue, tarry_ack, jobs[i]);
        assert_true(is_honest(code));
        *acked += code == TARRY_OK;
        tarry_job_free(jobs[i]);
    }
    call.kind = TARRY_CALL_TAKE;
    call.items = &take;
    call.n = 1;
    assert_int_equal(tarry_submit(queue, &call, (tarry_done *)(void (*)(void))abort, NULL),
                     TARRY_NO_MEMORY);
}

struct taker {
    pthread_t thread;
    tarry *queue;
    int code;
    size_t n;
};

/* Waits as long as necessary; missing memory does not end the wait. */
static void *taker_run(void *ctx)
{
    struct taker *taker = ctx;
    struct tarry_take take = rig_take(1);
    tarry_job *job;
    take.tag = 5;
    do
        taker->code = tarry_take(taker->queue, &take, -1, &job, &taker->n);
    while (taker->code == TARRY_NO_MEMORY);
    if (taker->n) {
        rig_answer(taker->queue, tarry_ack, job);
        tarry_job_free(job);
    }
    return NULL;
}

static void is_survived(const char *name, uint32_t shards)
{
    tarry *queue = open_dir(name, shards);
    struct taker takers[TAKERS];
    int pushed = 0, acked = 0, code;
    char id[32];
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "before-%d", i);
        rig_push(queue, id, 0);
    }
    for (int round = 0; round < 20; round++) {
        atomic_store(&memory_is_short, true);
        live_short(queue, &pushed, &acked);
        atomic_store(&memory_is_short, false);
        assert_in_range(rig_push(queue, "between", 3600000), TARRY_CREATED, TARRY_REPLACED);
    }
    assert_true(atomic_load(&allocations_refused) > 20);
    /* All that is there comes out, whatever became of the wake-ups. */
    struct tarry_topic topic = rig_topic(queue);
    while (topic.ready + topic.leased) {
        tarry_job *job = rig_take_one(queue, 50);
        code = job ? rig_answer(queue, tarry_ack, job) : TARRY_OK;
        assert_int_equal(code, TARRY_OK);
        tarry_job_free(job);
        topic = rig_topic(queue);
        if (!job && !topic.ready)
            break; /* jobs that were handed out without memory belong to no consumer until their lease ends */
    }
    /* A waiting take is also woken by a job that arrives without memory. */
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){.queue = queue};
        assert_int_equal(pthread_create(&takers[i].thread, NULL, taker_run, &takers[i]), 0);
    }
    usleep(20000);
    for (int i = 0; i < TAKERS; i++) {
        snprintf(id, sizeof id, "wake-%d", i);
        atomic_store(&memory_is_short, i % 2);
        code = rig_push(queue, id, 5);
        atomic_store(&memory_is_short, false);
        if (code == TARRY_NO_MEMORY)
            rig_push(queue, id, 5);
    }
    for (int i = 0; i < TAKERS; i++) {
        pthread_join(takers[i].thread, NULL);
        assert_int_equal(takers[i].code, TARRY_OK);
        assert_int_equal(takers[i].n, 1);
    }
    atomic_store(&memory_is_short, true);
    assert_int_equal(tarry_close(queue), TARRY_OK);
    atomic_store(&memory_is_short, false);
    tarry_close(open_dir(name, 0));
}

CLAIM(one_shard_survives_that_memory_is_short)
{
    is_survived("one", 1);
}

CLAIM(three_shards_survive_that_memory_is_short)
{
    is_survived("three", 3);
}

CLAIMS_MAIN(scratch_setup, scratch_teardown)
