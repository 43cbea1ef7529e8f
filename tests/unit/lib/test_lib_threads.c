/* Many threads on one queue: those who wait, who is woken, who is interrupted, who closes; a fork. */
#include "lib/state.h"
#include "lib_rig.h"
#include "unit/claim.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, EACH = 200 };

/* A thread that waits in a take. */
struct taker {
    pthread_t thread;
    tarry *queue;
    uint64_t tag;
    int64_t wait_ms;
    int code;
    tarry_job *job;
    size_t n;
    atomic_bool is_back;
};

static void *taker_run(void *ctx)
{
    struct taker *taker = ctx;
    struct tarry_take take = rig_take(1);
    take.tag = taker->tag;
    taker->code = tarry_take(taker->queue, &take, taker->wait_ms, &taker->job, &taker->n);
    atomic_store(&taker->is_back, true);
    return NULL;
}

static void taker_start(struct taker *taker, tarry *queue, uint64_t tag, int64_t wait_ms)
{
    *taker = (struct taker){.queue = queue, .tag = tag, .wait_ms = wait_ms};
    assert_int_equal(pthread_create(&taker->thread, NULL, taker_run, taker), 0);
}

/* Detects a waiting thread by an interrupt of its tag, which interrupts nothing without one. */
static void wait_until_it_waits(tarry *queue, uint64_t tag)
{
    for (int i = 0; i < 100000; i++) {
        if (tarry_interrupt(queue, tag))
            return;
        usleep(100);
    }
    fail_msg("nobody waits with tag %u", (unsigned)tag);
}

CLAIM(a_push_wakes_a_waiting_take)
{
    tarry *queue = rig_open(0);
    struct taker taker;

    taker_start(&taker, queue, 1, -1);
    usleep(2000);
    assert_int_equal(rig_push(queue, "a", 0), TARRY_CREATED);
    pthread_join(taker.thread, NULL);
    assert_int_equal(taker.code, TARRY_OK);
    assert_int_equal(taker.n, 1);
    tarry_job_free(taker.job);
    tarry_close(queue);
}

static int64_t real_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Only the leader can notice: a due time, a nearer one that comes later, the end of a lease. */
CLAIM(waiting_takes_notice_clock_steps)
{
    tarry *queue = rig_open(0);
    struct tarry_take take = rig_take(1);
    struct taker takers[2];
    int64_t began_ms = real_ms();
    tarry_job *job;
    size_t n;

    rig_push(queue, "far", 3600000);
    taker_start(&takers[0], queue, 1, -1);
    taker_start(&takers[1], queue, 2, -1);
    usleep(2000);
    rig_push(queue, "near", 60);
    for (int i = 0; i < 20000 && !takers[0].is_back && !takers[1].is_back; i++)
        usleep(1000);
    int first = takers[0].is_back ? 0 : 1;
    pthread_join(takers[first].thread, NULL);
    assert_int_equal(takers[first].n, 1);
    assert_string_equal(tarry_job_id(takers[first].job), "near");
    assert_true(real_ms() - began_ms >= 60);
    assert_int_equal(rig_answer(queue, tarry_ack, takers[first].job), TARRY_OK);
    tarry_job_free(takers[first].job);
    assert_int_equal(tarry_interrupt(queue, (uint64_t)(2 - first)), 1);
    pthread_join(takers[1 - first].thread, NULL);
    assert_int_equal(takers[1 - first].code, TARRY_INTERRUPTED);

    take.lease_ms = 100;
    rig_push(queue, "short", 0);
    assert_int_equal(tarry_take(queue, &take, 0, &job, &n), TARRY_OK);
    tarry_job_free(job);
    job = rig_take_one(queue, -1); /* its lease ends, and a second later it is tried again */
    assert_string_equal(tarry_job_id(job), "short");
    assert_int_equal(tarry_job_attempt(job), 2);
    tarry_job_free(job);
    tarry_close(queue);
}

CLAIM(a_wait_has_an_end)
{
    tarry *queue = rig_open(0);
    int64_t began_ms = real_ms();

    assert_null(rig_take_one(queue, 30));
    assert_true(real_ms() - began_ms >= 30);
    tarry_close(queue);
}

CLAIM(an_interrupt_ends_the_waits_of_its_tag)
{
    tarry *queue = rig_open(0);
    struct taker mine, other;

    taker_start(&mine, queue, 7, -1);
    taker_start(&other, queue, 8, -1);
    wait_until_it_waits(queue, 7);
    pthread_join(mine.thread, NULL);
    assert_int_equal(mine.code, TARRY_INTERRUPTED);
    assert_false(atomic_load(&other.is_back));
    assert_int_equal(tarry_interrupt(queue, 0), 0);
    rig_push(queue, "a", 0);
    pthread_join(other.thread, NULL);
    assert_int_equal(other.code, TARRY_OK);
    tarry_job_free(other.job);
    tarry_close(queue);
}

CLAIM(a_close_ends_every_wait)
{
    tarry *queue = rig_open(0);
    struct taker takers[THREADS];

    for (int i = 0; i < THREADS; i++)
        taker_start(&takers[i], queue, (uint64_t)i + 1, -1);
    while (atomic_load(&queue->callers) < THREADS) /* no call may begin after the close has */
        usleep(100);
    assert_int_equal(tarry_close(queue), TARRY_OK);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(takers[i].thread, NULL);
        assert_int_equal(takers[i].code, TARRY_STOPPING);
        assert_int_equal(takers[i].n, 0);
    }
}

CLAIM(the_test_clock_serves_waiting_takes)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct taker taker, patient;

    taker_start(&taker, queue, 1, 500);
    wait_until_it_waits(queue, 1);
    pthread_join(taker.thread, NULL);
    taker_start(&taker, queue, 1, 500);
    taker_start(&patient, queue, 2, -1);
    usleep(20000);
    tarry_advance(queue, 1000);
    pthread_join(taker.thread, NULL); /* its wait has ended */
    assert_int_equal(taker.n, 0);
    rig_push(queue, "a", 3600000);
    tarry_advance(queue, 3600001);
    pthread_join(patient.thread, NULL);
    assert_int_equal(patient.n, 1);
    tarry_job_free(patient.job);
    tarry_close(queue);
}

/* ---- 16 threads ---- */

static atomic_uint seen[THREADS * EACH], left;

struct pusher {
    pthread_t thread;
    tarry *queue;
    unsigned first;
};

static void *pusher_run(void *ctx)
{
    struct pusher *pusher = ctx;
    char id[16];

    for (unsigned i = 0; i < EACH; i++) {
        snprintf(id, sizeof id, "%u", pusher->first + i);
        assert_int_equal(rig_push(pusher->queue, id, i % 20), TARRY_CREATED);
    }
    return NULL;
}

static void *popper_run(void *ctx)
{
    tarry *queue = ctx;
    struct tarry_take take = rig_take(3);
    tarry_job *jobs[3];
    size_t n;

    while (atomic_load(&left)) {
        assert_int_equal(tarry_pop(queue, &take, 20, jobs, &n), TARRY_OK);
        for (size_t i = 0; i < n; i++) {
            atomic_fetch_add(&seen[strtoul(tarry_job_id(jobs[i]), NULL, 10)], 1);
            atomic_fetch_sub(&left, 1);
            tarry_job_free(jobs[i]);
        }
    }
    return NULL;
}

/* Half of the threads push, the others pop: each job comes out once. */
CLAIM(of_many_threads_each_job_goes_to_one)
{
    tarry *queue = rig_open(0);
    struct pusher pushers[THREADS / 2];
    pthread_t poppers[THREADS / 2];

    atomic_store(&left, THREADS / 2 * EACH);
    for (unsigned i = 0; i < THREADS / 2; i++) {
        pushers[i] = (struct pusher){.queue = queue, .first = i * EACH};
        pthread_create(&poppers[i], NULL, popper_run, queue);
        pthread_create(&pushers[i].thread, NULL, pusher_run, &pushers[i]);
    }
    for (unsigned i = 0; i < THREADS / 2; i++) {
        pthread_join(pushers[i].thread, NULL);
        pthread_join(poppers[i], NULL);
    }
    for (unsigned i = 0; i < THREADS / 2 * EACH; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    struct tarry_topic topic = rig_topic(queue);
    assert_int_equal(topic.pushed, THREADS / 2 * EACH);
    assert_int_equal(topic.acked, THREADS / 2 * EACH);
    tarry_close(queue);
}

/* ---- idle, fork ---- */

/* A take without a near event sleeps, and there is no other thread. */
CLAIM(an_idle_queue_wakes_no_thread)
{
    tarry *queue = rig_open(0);
    struct taker takers[4];
    struct rusage before, after;

    rig_push(queue, "far", 3600000);
    for (int i = 0; i < 4; i++)
        taker_start(&takers[i], queue, (uint64_t)i + 1, -1);
    usleep(50000);
    getrusage(RUSAGE_SELF, &before);
    struct timespec pause = {.tv_nsec = 300000000};
    nanosleep(&pause, NULL);
    getrusage(RUSAGE_SELF, &after);
    tarry_close(queue);
    for (int i = 0; i < 4; i++)
        pthread_join(takers[i].thread, NULL);
#ifndef __SANITIZE_THREAD__                                  /* which has a thread of its own */
    assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 0, 1); /* this thread's own */
#endif
}

CLAIM(a_fork_is_noticed)
{
    tarry *queue = rig_open(0);
    int status;

    rig_push(queue, "a", 0);
    pid_t child = fork();
    if (child == 0) {
        struct tarry_take take = rig_take(1);
        struct tarry_push push = TARRY_PUSH_INIT;
        tarry_job *job;
        tarry *own;
        size_t n;
        push.topic = "t";
        bool is_good = tarry_push(queue, &push, 1, NULL) == TARRY_FORKED &&
                       tarry_take(queue, &take, -1, &job, &n) == TARRY_FORKED &&
                       tarry_dispatch(queue, 0) == -1 && tarry_fd(queue) == -1 &&
                       tarry_close(queue) == TARRY_FORKED &&
                       tarry_open(NULL, &own, NULL, 0) == TARRY_OK &&
                       tarry_push(own, &push, 1, NULL) == TARRY_OK && tarry_close(own) == TARRY_OK;
        _exit(is_good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tarry_job *job = rig_take_one(queue, 0);
    assert_non_null(job);
    tarry_job_free(job);
    tarry_close(queue);
}

static pid_t forked;

static void on_done_fork(void *owner, const struct tarry_reply *reply)
{
    tarry *queue = owner;
    (void)reply;
    pthread_mutex_lock(&queue->lock); /* as another thread may have just then */
    forked = fork();
    if (forked)
        pthread_mutex_unlock(&queue->lock);
}

CLAIM(a_dispatch_returns_in_a_forked_child)
{
    tarry *queue = rig_open(0);
    struct tarry_call call = TARRY_CALL_INIT;
    int status;

    call.kind = TARRY_CALL_PUSH;
    assert_int_equal(tarry_submit(queue, &call, on_done_fork, queue), TARRY_OK);
    int count = tarry_dispatch(queue, 0);
    if (!forked)
        _exit(count == 1 ? 0 : 1);
    assert_int_equal(count, 1);
    assert_int_equal(waitpid(forked, &status, 0), forked);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tarry_close(queue);
}

CLAIMS_MAIN(NULL, NULL)
