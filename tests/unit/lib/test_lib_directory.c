/* A queue in a directory: what outlives the handle and what does not, who may open it, threads, waits and callbacks, and
 * that the process around it notices nothing. Real time. */
#include "lib/state.h"
#include "lib_rig.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, EACH = 60, TIMEOUT_MS = 20000 };

static struct tarry_options options_of(const char *dir)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    options.dir = dir;
    options.wal_file_bytes = 4 << 20;
    return options;
}

static tarry *open_with(const struct tarry_options *options)
{
    tarry *queue;
    char error[300] = "";
    if (tarry_open(options, &queue, error, sizeof error))
        fail_msg("%s", error);
    return queue;
}

static atomic_bool syncs_fail;

/* Stands before the system's. */
int fdatasync(int fd)
{
    if (!atomic_load(&syncs_fail))
        return (int)syscall(SYS_fdatasync, fd);
    errno = EIO;
    return -1;
}

/* Returns a directory of the test's own, by its name. */
static const char *path_of(const char *name)
{
    static char path[SCRATCH_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", scratch_root, name);
    return path;
}

static tarry *open_dir(const char *name)
{
    struct tarry_options options = options_of(path_of(name));
    return open_with(&options);
}

/* ---- what outlives the handle ---- */

CLAIM(answered_changes_survive_a_restart)
{
    tarry *queue = open_dir("again");
    assert_int_equal(rig_push(queue, "a", 0), TARRY_CREATED);
    assert_int_equal(tarry_next_ms(queue), -1);
    assert_int_equal(tarry_advance(queue, 1), TARRY_BAD_OPTION);
    assert_in_range(time(NULL) + 5 - tarry_now_ms(queue) / 1000, 4,
                    7); /* time() may lag by a tick */
    assert_int_equal(rig_push(queue, "b", 3600000), TARRY_CREATED);
    assert_int_equal(tarry_close(queue), TARRY_OK);

    queue = open_dir("again");
    assert_int_equal(rig_push(queue, "b", 3600000), TARRY_REPLACED);
    tarry_job *job = rig_take_one(queue, -1);
    size_t bytes;
    assert_string_equal(tarry_job_id(job), "a");
    assert_memory_equal(tarry_job_body(job, &bytes), "body", 4);
    assert_int_equal(bytes, 4);
    assert_int_equal(tarry_job_attempt(job), 1);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_LEASE_ENDED);
    tarry_job_free(job);
    tarry_close(queue);

    queue = open_dir("again");
    struct tarry_topic topic = rig_topic(queue);
    assert_int_equal(topic.delayed, 1);
    assert_int_equal(topic.ready + topic.leased, 0);
    tarry_close(queue);
}

CLAIM(a_job_in_hand_outlives_the_queue_and_its_lease_a_reopening)
{
    tarry *queue = open_dir("in-hand");
    rig_push(queue, "a", 0);
    tarry_job *job = rig_take_one(queue, -1);
    tarry_close(queue);
    assert_string_equal(tarry_job_id(job), "a");

    queue = open_dir("in-hand");
    assert_int_equal(rig_topic(queue).leased, 1);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
    tarry_close(queue);
}

CLAIM(a_job_comes_again_in_one_step)
{
    tarry *queue = open_dir("anew");
    struct tarry_again again = TARRY_AGAIN_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    size_t bytes;
    rig_push(queue, "a", 0);
    tarry_job *job = rig_take_one(queue, -1);
    again.job = job;
    again.body = "other body";
    again.body_bytes = 10;
    assert_int_equal(tarry_again(queue, &again, 1, &result), TARRY_OK);
    assert_int_equal(result.code, TARRY_CREATED);
    assert_string_equal(result.id, "a");
    assert_int_equal(tarry_again(queue, &again, 1, &result), TARRY_LEASE_ENDED);
    tarry_job_free(job);
    tarry_close(queue);

    queue = open_dir("anew");
    job = rig_take_one(queue, -1);
    assert_memory_equal(tarry_job_body(job, &bytes), "other body", 10);
    assert_int_equal(tarry_job_attempt(job), 1);
    settings.dedup_window_ms = 60000;
    assert_int_equal(tarry_topic_put(queue, "t", &settings), TARRY_OK);
    again.job = job;
    again.body = NULL;
    assert_int_equal(tarry_again(queue, &again, 1, &result), TARRY_OK); /* not remembered */
    tarry_job_free(job);
    job = rig_take_one(queue, -1);
    assert_memory_equal(tarry_job_body(job, &bytes), "other body", 10);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
    tarry_close(queue);
}

CLAIM(a_pop_takes_for_good)
{
    tarry *queue = open_dir("pop");
    struct tarry_take take = rig_take(10);
    tarry_job *jobs[10];
    size_t n;
    for (int i = 0; i < 3; i++)
        rig_push(queue, i == 0 ? "a" : i == 1 ? "b" : "c", 0);
    size_t found = 0;
    while (found < 3) {
        assert_int_equal(tarry_pop(queue, &take, -1, jobs, &n), TARRY_OK);
        for (size_t i = 0; i < n; i++) {
            assert_string_equal(tarry_job_lease(jobs[i]), "");
            assert_int_equal(rig_answer(queue, tarry_ack, jobs[i]), TARRY_LEASE_ENDED);
            tarry_job_free(jobs[i]);
        }
        found += n;
    }
    tarry_close(queue);
    queue = open_dir("pop");
    struct tarry_topic topic = rig_topic(queue);
    assert_int_equal(topic.ready + topic.leased + topic.delayed, 0);
    tarry_close(queue);
}

CLAIM(items_that_are_refused_keep_their_places)
{
    tarry *queue = open_dir("items");
    struct tarry_push pushes[5] = {TARRY_PUSH_INIT, TARRY_PUSH_INIT, TARRY_PUSH_INIT,
                                   TARRY_PUSH_INIT, TARRY_PUSH_INIT};
    struct tarry_result results[5] = {TARRY_RESULT_INIT};
    const char *const ids[] = {"a", "b", "c", "d", NULL};
    for (int i = 0; i < 5; i++) {
        pushes[i].topic = i == 3 ? "no topic" : "t";
        pushes[i].id = ids[i];
    }
    pushes[1].flags = 1u << 31; /* seen before it is sent */
    pushes[2].delay_ms = -1;    /* and behind the door */
    assert_int_equal(tarry_push(queue, pushes, 5, results), TARRY_BAD_OPTION);
    assert_int_equal(results[0].code, TARRY_CREATED);
    assert_int_equal(results[1].code, TARRY_BAD_OPTION);
    assert_string_equal(results[1].detail, "flags");
    assert_int_equal(results[2].code, TARRY_BAD_OPTION);
    assert_string_equal(results[2].detail, "delay_ms");
    assert_int_equal(results[3].code, TARRY_BAD_TOPIC);
    assert_int_equal(results[4].code, TARRY_CREATED);
    assert_string_equal(results[0].id, "a");
    assert_int_equal(strlen(results[4].id), 26);
    assert_int_equal(rig_topic(queue).pushed, 2);
    tarry_close(queue);
}

/* ---- who may open it ---- */

CLAIM(a_directory_has_one_opener)
{
    tarry *queue = open_dir("one"), *other;
    struct tarry_options options = options_of(path_of("one"));
    char error[300] = "";
    assert_int_equal(tarry_open(&options, &other, error, sizeof error), TARRY_IN_USE);
    assert_null(other);
    assert_non_null(strstr(error, "which is this one; close it first"));
    tarry_close(queue);
    tarry_close(open_with(&options));
}

CLAIM(unsupported_directory_options_are_rejected_with_a_message)
{
    static const struct {
        const char *field;
        struct tarry_options options;
    } cases[] = {
#define OPTIONS .size = sizeof(struct tarry_options)
        {"'dir'", {OPTIONS, .dir = ""}},
        {"'memory_max'", {OPTIONS, .dir = "/tmp", .memory_max = 1}},
        {"'flags'", {OPTIONS, .dir = "/tmp", .flags = TARRY_TEST_CLOCK}},
        {"'sync'", {OPTIONS, .sync = TARRY_SYNC_NEVER}},
        {"'sync'", {OPTIONS, .dir = "/tmp", .sync = 4}},
        {"'sync_interval_ms'", {OPTIONS, .dir = "/tmp", .sync = TARRY_SYNC_INTERVAL}},
        {"'sync_interval_ms'", {OPTIONS, .dir = "/tmp", .sync_interval_ms = 5}},
        {"'shards'", {OPTIONS, .dir = "/tmp", .shards = 65}},
        {"'wal_file_bytes'", {OPTIONS, .dir = "/tmp", .wal_file_bytes = 4096}},
#undef OPTIONS
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char error[300] = "";
        tarry *queue;
        assert_int_equal(tarry_open(&cases[i].options, &queue, error, sizeof error),
                         TARRY_BAD_OPTION);
        assert_null(queue);
        CASE_HOLDS(cases[i].field, strstr(error, cases[i].field));
    }
    struct tarry_options options = options_of("/proc/no-such-place/q");
    char error[300] = "";
    tarry *queue;
    assert_int_equal(tarry_open(&options, &queue, error, sizeof error), TARRY_UNAVAILABLE);
    assert_non_null(strstr(error, "/proc/no-such-place"));
}

CLAIM(shards_are_kept_and_waited_for_together)
{
    struct tarry_options options = options_of(path_of("shards"));
    struct tarry_take take = rig_take(10);
    tarry_job *jobs[10];
    size_t n, found = 0;
    char id[32];
    options.shards = 3;
    options.sync = TARRY_SYNC_INTERVAL;
    options.sync_interval_ms = 20;
    tarry *queue = open_with(&options);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "%d", i);
        rig_push(queue, id, i * 3);
    }
    tarry_close(queue);
    options.shards = 0;
    queue = open_with(&options);
    while (found < 20) {
        assert_int_equal(tarry_take(queue, &take, -1, jobs, &n), TARRY_OK);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(rig_answer(queue, tarry_ack, jobs[i]), TARRY_OK);
            tarry_job_free(jobs[i]);
        }
        found += n;
    }
    assert_int_equal(rig_topic(queue).acked, 20);
    tarry_close(queue);
}

static atomic_int errors_received;

static void on_error(void *owner, int level, const char *line)
{
    (void)owner;
    if (level == TARRY_LOG_ERROR && strstr(line, "log failed"))
        atomic_fetch_add(&errors_received, 1);
}

CLAIM(a_disk_that_fails_is_an_answer_and_a_close_ends)
{
    struct tarry_options options = options_of(path_of("failed"));
    struct tarry_take take = rig_take(1);
    tarry_job *job;
    size_t n;
    options.log = on_error;
    tarry *queue = open_with(&options);
    assert_int_equal(rig_push(queue, "a", 0), TARRY_CREATED);
    atomic_store(&syncs_fail, true);
    assert_int_equal(rig_push(queue, "b", 0), TARRY_UNAVAILABLE);
    assert_int_equal(rig_push(queue, "c", 0), TARRY_UNAVAILABLE);
    assert_int_equal(tarry_take(queue, &take, -1, &job, &n), TARRY_UNAVAILABLE);
    assert_int_equal(n, 0);
    assert_int_equal(tarry_pop(queue, &take, -1, &job, &n), TARRY_UNAVAILABLE);
    assert_int_equal(atomic_load(&errors_received), 1);
    assert_int_equal(tarry_close(queue), TARRY_OK);
    atomic_store(&syncs_fail, false);

    queue = open_with(&options);
    job = rig_take_one(queue, -1);
    assert_string_equal(tarry_job_id(job), "a");
    tarry_job_free(job);
    assert_int_equal(rig_push(queue, "c", 0), TARRY_CREATED);
    tarry_close(queue);
}

/* ---- threads ---- */

struct taker {
    pthread_t thread;
    tarry *queue;
    uint64_t tag;
    int64_t wait_ms;
    int code;
    tarry_job *job;
    size_t n;
};

static void *taker_run(void *ctx)
{
    struct taker *taker = ctx;
    struct tarry_take take = rig_take(1);
    take.tag = taker->tag;
    taker->code = tarry_take(taker->queue, &take, taker->wait_ms, &taker->job, &taker->n);
    return NULL;
}

static void taker_start(struct taker *taker, tarry *queue, uint64_t tag, int64_t wait_ms)
{
    *taker = (struct taker){.queue = queue, .tag = tag, .wait_ms = wait_ms};
    assert_int_equal(pthread_create(&taker->thread, NULL, taker_run, taker), 0);
}

CLAIM(a_wait_ends_by_a_job_its_time_or_an_interrupt)
{
    tarry *queue = open_dir("waits");
    struct taker taker[3];
    struct tarry_take take = rig_take(1);
    tarry_job *job;
    size_t n, count = 0;
    assert_int_equal(tarry_take(queue, &take, 30, &job, &n), TARRY_OK);
    assert_int_equal(n, 0);

    taker_start(&taker[0], queue, 7, -1);
    while (!tarry_interrupt(queue, 7))
        usleep(100);
    pthread_join(taker[0].thread, NULL);
    assert_int_equal(taker[0].code, TARRY_INTERRUPTED);
    assert_int_equal(tarry_interrupt(queue, 7), 0);
    assert_int_equal(tarry_interrupt(queue, 0), 0);

    taker_start(&taker[0], queue, 8, -1);
    rig_push(queue, "a", 20);
    pthread_join(taker[0].thread, NULL);
    assert_int_equal(taker[0].code, TARRY_OK);
    assert_int_equal(taker[0].n, 1);
    assert_int_equal(rig_answer(queue, tarry_ack, taker[0].job), TARRY_OK);
    tarry_job_free(taker[0].job);

    for (int i = 0; i < 3; i++)
        taker_start(&taker[i], queue, 9, -1);
    while (count < 3) {
        count += tarry_interrupt(queue, 9);
        usleep(100);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(taker[i].thread, NULL);
        assert_int_equal(taker[i].code, TARRY_INTERRUPTED);
    }
    tarry_close(queue);
}

/* Calls that began before it get that code, whether they wait already or not. */
CLAIM(a_close_ends_every_wait)
{
    for (int round = 0; round < 10; round++) {
        tarry *queue = open_dir("close-waits");
        struct taker takers[THREADS];
        for (int i = 0; i < THREADS; i++)
            taker_start(&takers[i], queue, 0, -1);
        while (atomic_load(&queue->callers) < THREADS)
            usleep(100);
        assert_int_equal(tarry_close(queue), TARRY_OK);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(takers[i].thread, NULL);
            assert_int_equal(takers[i].code, TARRY_STOPPING);
        }
    }
}

static atomic_int submitted_ends;

static void on_end(void *owner, const struct tarry_reply *reply)
{
    *(int *)owner = reply->code;
    for (size_t i = 0; i < reply->job_count; i++)
        tarry_job_free(reply->jobs[i]);
    atomic_fetch_add(&submitted_ends, 1);
}

/* One that waits for certain is one whose submission came before. */
CLAIM(a_close_ends_waits_and_returns_undelivered_jobs)
{
    tarry *queue = open_dir("close");
    struct taker taker;
    struct tarry_take take = rig_take(1);
    struct tarry_call call = TARRY_CALL_INIT;
    int code = -1;
    rig_push(queue, "a", 0);
    call.kind = TARRY_CALL_TAKE;
    call.items = &take;
    call.n = 1;
    call.wait_ms = -1;
    int fd = tarry_fd(queue);
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    assert_int_equal(tarry_submit(queue, &call, on_end, &code), TARRY_OK);
    assert_int_equal(poll(&poller, 1, TIMEOUT_MS),
                     1); /* it has its job, and no thread dispatches */
    assert_int_equal(tarry_submit(queue, &call, on_end, &code), TARRY_OK); /* waits */
    taker_start(&taker, queue, 1, -1);
    while (rig_topic(queue).leased != 1)
        usleep(100);
    for (;;) { /* the take waits: interrupted, it returns with that */
        if (tarry_interrupt(queue, 1))
            break;
        usleep(100);
    }
    pthread_join(taker.thread, NULL);
    assert_int_equal(tarry_close(queue), TARRY_OK);
    assert_int_equal(code, -1);

    queue = open_dir("close");
    tarry_job *job = rig_take_one(queue, -1);
    assert_int_equal(tarry_job_attempt(job), 1); /* the first one did not count */
    tarry_job_free(job);
    tarry_close(queue);
}

struct worker {
    pthread_t thread;
    tarry *queue;
    int index;
    atomic_int *seen; /* of each job */
    atomic_int *left;
};

static void *worker_push_and_take(void *ctx)
{
    struct worker *worker = ctx;
    struct tarry_take take = rig_take(4);
    char id[32];
    for (int i = 0; i < EACH; i++) {
        snprintf(id, sizeof id, "%d", worker->index * EACH + i);
        rig_push(worker->queue, id, i % 5);
    }
    while (atomic_load(worker->left) > 0) {
        tarry_job *jobs[4];
        size_t n;
        if (tarry_take(worker->queue, &take, 20, jobs, &n))
            return NULL;
        for (size_t i = 0; i < n; i++) {
            atomic_fetch_add(&worker->seen[atoi(tarry_job_id(jobs[i]))], 1);
            if (rig_answer(worker->queue, tarry_ack, jobs[i]) == TARRY_OK)
                atomic_fetch_sub(worker->left, 1);
            tarry_job_free(jobs[i]);
        }
    }
    return NULL;
}

CLAIM(of_many_threads_each_job_goes_to_one)
{
    static atomic_int seen[THREADS * EACH], left = THREADS * EACH;
    tarry *queue = open_dir("threads");
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.queue = queue, .index = i, .seen = seen, .left = &left};
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, worker_push_and_take, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(atomic_load(&left), 0);
    for (int i = 0; i < THREADS * EACH; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    assert_int_equal(rig_topic(queue).acked, THREADS * EACH);
    tarry_close(queue);
}

/* ---- loops of others ---- */

CLAIM(answers_come_only_from_dispatch)
{
    tarry *queue = open_dir("loop");
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    struct pollfd poller = {.fd = tarry_fd(queue), .events = POLLIN};
    int codes[20];
    char id[32], topic[] = "t";
    assert_int_equal(poll(&poller, 1, 0), 0);
    atomic_store(&submitted_ends, 0);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "%d", i);
        push.topic = topic;
        push.id = id;
        push.flags = i == 7 ? 1u << 31 : 0;
        call.kind = TARRY_CALL_PUSH;
        call.items = &push;
        call.n = 1;
        topic[0] = 't';
        assert_int_equal(tarry_submit(queue, &call, on_end, &codes[i]), TARRY_OK);
        topic[0] = '!'; /* it is not read later */
    }
    int count = 0;
    while (count < 20) {
        assert_int_equal(poll(&poller, 1, TIMEOUT_MS), 1);
        count += tarry_dispatch(queue, 0);
        assert_int_equal(atomic_load(&submitted_ends), count);
    }
    assert_int_equal(poll(&poller, 1, 0), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(codes[i], i == 7 ? TARRY_BAD_OPTION : TARRY_OK);
    assert_int_equal(rig_topic(queue).pushed, 19);
    tarry_close(queue);
}

/* ---- the process around it ---- */

CLAIM(a_fork_is_noticed_and_holds_nothing)
{
    tarry *queue = open_dir("fork");
    int status, gate[2], word[2];
    char byte;
    rig_push(queue, "a", 0);
    assert_int_equal(pipe(gate) | pipe(word), 0);
    pid_t child = fork();
    if (child == 0) {
        struct tarry_take take = rig_take(1);
        struct tarry_push push = TARRY_PUSH_INIT;
        tarry_job *job;
        size_t n;
        push.topic = "t";
        bool is_good = tarry_push(queue, &push, 1, NULL) == TARRY_FORKED &&
                       tarry_take(queue, &take, -1, &job, &n) == TARRY_FORKED &&
                       tarry_dispatch(queue, 0) == -1 && tarry_fd(queue) == -1 &&
                       tarry_interrupt(queue, 1) == 0 && tarry_close(queue) == TARRY_FORKED;
        close(gate[1]);
        is_good &= write(word[1], "", 1) == 1;
        is_good &= read(gate[0], &byte, 1) == 0; /* until the parent has done */
        _exit(is_good ? 0 : 1);
    }
    close(gate[0]);
    tarry_job *job = rig_take_one(queue, -1);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
    tarry_close(queue);
    assert_int_equal(read(word[0], &byte, 1), 1);
    tarry_close(open_dir("fork")); /* though the child lives */
    close(gate[1]);
    close(word[0]);
    close(word[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

CLAIM(two_directories_are_independent)
{
    tarry *one = open_dir("two-a"), *other = open_dir("two-b");
    rig_push(one, "a", 0);
    assert_null(rig_take_one(other, 20));
    tarry_close(other);
    tarry_job *job = rig_take_one(one, -1);
    assert_int_equal(rig_answer(one, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
    tarry_close(one);
}

static atomic_long storms, strays;
static pid_t main_thread;

static void on_storm(int number)
{
    (void)number;
    atomic_fetch_add(syscall(SYS_gettid) == main_thread ? &storms : &strays, 1);
}

/* Reads the process's handler of each signal. */
static void handlers_read(struct sigaction *handlers)
{
    for (int number = 1; number < 32; number++)
        sigaction(number, NULL, &handlers[number]);
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(tasks);
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count - 2;
}

CLAIM(a_storm_of_signals_reaches_no_thread_of_the_library)
{
    static struct sigaction before[32], after[32];
    struct sigaction action = {.sa_handler = on_storm}, old; /* without SA_RESTART */
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {0};
    sigset_t mask, mask_after;
    char id[32];
    main_thread = (pid_t)syscall(SYS_gettid);
    sigaction(SIGALRM, &action, &old);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    handlers_read(before);
    int threads = count_threads();
    setitimer(ITIMER_REAL, &often, NULL);
    tarry *queue = open_dir("storm");
    for (int i = 0; i < 300 || atomic_load(&storms) < 100; i++) {
        snprintf(id, sizeof id, "%d", i);
        rig_push(queue, id, i % 3);
        tarry_job *job = rig_take_one(queue, -1);
        assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
        tarry_job_free(job);
    }
    handlers_read(after);
    tarry_close(queue);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    for (int number = 1; number < 32; number++)
        assert_true(before[number].sa_handler == after[number].sa_handler);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&mask, number), sigismember(&mask_after, number));
    assert_int_equal(atomic_load(&strays), 0);
    assert_int_equal(count_threads(), threads);
}

static atomic_int lines_received;

static void on_log(void *owner, int level, const char *line)
{
    assert_ptr_equal(owner, &lines_received);
    assert_in_range(level, TARRY_LOG_INFO, TARRY_LOG_ERROR);
    if (strncmp(line, "event=\"shard recovered\" shard=0 jobs=0", 38) == 0 && !strchr(line, '\n'))
        atomic_fetch_add(&lines_received, 1);
}

CLAIM(events_go_only_to_listeners)
{
    struct tarry_options options = options_of(path_of("log"));
    int streams = dup(STDERR_FILENO);
    char file[SCRATCH_PATH_BYTES];
    struct stat about;
    snprintf(file, sizeof file, "%s/stderr", scratch_root);
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    tarry_close(open_with(&options));
    assert_int_equal(atomic_load(&lines_received), 0);
    options.log = on_log;
    options.log_owner = &lines_received;
    tarry_close(open_with(&options));
    dup2(streams, STDERR_FILENO);
    close(streams);
    assert_int_equal(fstat(fd, &about), 0);
    close(fd);
    assert_int_equal(about.st_size, 0);
    assert_int_equal(atomic_load(&lines_received), 1);
}

/* Descriptors that libuv has once for a process are counted out by the openings before. */
CLAIM(an_opening_and_a_closing_leave_no_descriptor)
{
    tarry_close(open_dir("descriptors"));
    int before = dup(STDERR_FILENO);
    close(before);
    for (int i = 0; i < 3; i++) {
        tarry *queue = open_dir("descriptors");
        assert_true(tarry_fd(queue) >= 0);
        tarry_close(queue);
    }
    int after = dup(STDERR_FILENO);
    close(after);
    assert_int_equal(before, after);
}

CLAIMS_MAIN(scratch_setup, scratch_teardown)
