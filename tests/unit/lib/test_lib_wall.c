/* The wall clock is set while takes wait for jobs that are due by it. The clock and the kernel's notification are this
 * program's own: functions of the C library, defined here. */
#include "lib_rig.h"
#include "unit/claim.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { HOUR_MS = 3600 * 1000, TIMEOUT_MS = 20000, WATCHES_MAX = 64 };

/* ---- the wall clock, and its watches: events that stand for the kernel's timers ---- */

static _Atomic int64_t ahead_ms;
static pthread_mutex_t watches_lock = PTHREAD_MUTEX_INITIALIZER;
static struct watch {
    int fd;
    bool is_on;
} watches[WATCHES_MAX];
static int watch_count;

int clock_gettime(clockid_t which, struct timespec *out)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, out);
    if (which == CLOCK_REALTIME)
        out->tv_sec += (time_t)(atomic_load(&ahead_ms) / 1000);
    return failed;
}

int timerfd_create(int which, int flags)
{
    static int (*real)(int, int);
    if (!real)
        real = (int (*)(int, int))dlsym(RTLD_NEXT, "timerfd_create");
    if (which != CLOCK_REALTIME)
        return real(which, flags);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&watches_lock);
    assert_true(watch_count < WATCHES_MAX);
    watches[watch_count++] = (struct watch){.fd = fd};
    pthread_mutex_unlock(&watches_lock);
    return fd;
}

static struct watch *watch_of(int fd)
{
    for (int i = watch_count; i > 0; i--) /* the latest: numbers come again */
        if (watches[i - 1].fd == fd)
            return &watches[i - 1];
    return NULL;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
    static int (*real)(int, int, const struct itimerspec *, struct itimerspec *);
    if (!real)
        real = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(
            RTLD_NEXT, "timerfd_settime");
    pthread_mutex_lock(&watches_lock);
    struct watch *watch = watch_of(fd);
    bool cancels = flags & TFD_TIMER_CANCEL_ON_SET;
    if (watch)
        watch->is_on = cancels && at->it_value.tv_sec;
    pthread_mutex_unlock(&watches_lock);
    return watch && cancels ? 0 : watch ? 0 : real(fd, flags, at, old);
}

static int watches_on(void)
{
    int count = 0;
    pthread_mutex_lock(&watches_lock);
    for (int i = 0; i < watch_count; i++)
        count += watches[i].is_on;
    pthread_mutex_unlock(&watches_lock);
    return count;
}

static void set_wall_clock(int64_t step_ms)
{
    uint64_t one = 1;
    atomic_fetch_add(&ahead_ms, step_ms);
    pthread_mutex_lock(&watches_lock);
    for (int i = 0; i < watch_count; i++)
        if (watches[i].is_on && write(watches[i].fd, &one, sizeof one) < 0)
            assert_int_equal(errno, EAGAIN);
    pthread_mutex_unlock(&watches_lock);
}

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int forget_watches(void **state)
{
    (void)state;
    watch_count = 0;
    atomic_store(&ahead_ms, 0);
    return 0;
}

static void push_at(tarry *queue, const char *id, int64_t at_ms)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    push.topic = "t";
    push.id = id;
    push.flags = TARRY_HAS_AT;
    push.at_ms = at_ms;
    assert_int_equal(tarry_push(queue, &push, 1, NULL), TARRY_OK);
}

/* ---- who waits in a take ---- */

struct taker {
    pthread_t thread;
    tarry *queue;
    _Atomic(tarry_job *) job;
};

static void *taker_run(void *ctx)
{
    struct taker *taker = ctx;
    atomic_store(&taker->job, rig_take_one(taker->queue, -1));
    return NULL;
}

/* Waits until a thread sleeps with a watch. */
static void wait_for_watch(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < TIMEOUT_MS && !watches_on(); i++)
        nanosleep(&pause, NULL);
    assert_true(watches_on());
}

CLAIM_BETWEEN(a_waiting_take_gets_the_job_when_the_wall_clock_passes_its_due, forget_watches, NULL)
{
    struct taker taker = {.queue = rig_open(0)};
    push_at(taker.queue, "a", wall_ms() + HOUR_MS);
    assert_int_equal(pthread_create(&taker.thread, NULL, taker_run, &taker), 0);
    wait_for_watch();
    set_wall_clock(HOUR_MS / 2);
    set_wall_clock(HOUR_MS / 2 + 1000);
    pthread_join(taker.thread, NULL);
    assert_string_equal(tarry_job_id(taker.job), "a");
    tarry_job_free(taker.job);
    tarry_close(taker.queue);
}

/* The job comes while a thread waits for another one without a watch. */
CLAIM_BETWEEN(a_take_that_waits_already_watches_from_the_first_such_job_on, forget_watches, NULL)
{
    struct taker taker = {.queue = rig_open(0)};
    rig_push(taker.queue, "first", 30);
    assert_int_equal(pthread_create(&taker.thread, NULL, taker_run, &taker), 0);
    pthread_join(taker.thread, NULL);
    assert_int_equal(watches_on(), 0); /* no job with a time waits: no thread watches */
    tarry_job_free(taker.job);
    rig_push(taker.queue, "late", 10 * HOUR_MS);
    assert_int_equal(pthread_create(&taker.thread, NULL, taker_run, &taker), 0);
    push_at(taker.queue, "a", wall_ms() + HOUR_MS);
    wait_for_watch();
    set_wall_clock(2 * HOUR_MS);
    pthread_join(taker.thread, NULL);
    assert_string_equal(tarry_job_id(taker.job), "a");
    tarry_job_free(taker.job);
    tarry_close(taker.queue);
}

CLAIM_BETWEEN(a_watching_take_can_be_interrupted_and_served, forget_watches, NULL)
{
    struct taker taker = {.queue = rig_open(0)};
    push_at(taker.queue, "a", wall_ms() + HOUR_MS);
    assert_int_equal(pthread_create(&taker.thread, NULL, taker_run, &taker), 0);
    wait_for_watch();
    rig_push(taker.queue, "now", 0);
    pthread_join(taker.thread, NULL);
    assert_string_equal(tarry_job_id(taker.job), "now");
    tarry_job_free(taker.job);
    tarry_close(taker.queue);
}

/* ---- the descriptor ---- */

static void on_taken(void *owner, const struct tarry_reply *reply)
{
    for (size_t i = 0; i < reply->job_count; i++)
        tarry_job_free(reply->jobs[i]);
    *(size_t *)owner += reply->job_count;
}

static bool is_readable(int fd, int wait_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, wait_ms) == 1;
}

CLAIM_BETWEEN(the_descriptor_reports_clock_steps_only_while_a_timed_job_waits, forget_watches, NULL)
{
    tarry *queue = rig_open(0);
    struct tarry_take take = rig_take(1);
    struct tarry_call call = TARRY_CALL_INIT;
    size_t taken = 0;
    int fd = tarry_fd(queue);
    call.kind = TARRY_CALL_TAKE;
    call.items = &take;
    call.n = 1;
    call.wait_ms = -1;
    assert_int_equal(tarry_submit(queue, &call, on_taken, &taken), TARRY_OK);
    rig_push(queue, "late", 10 * HOUR_MS);
    assert_int_equal(watches_on(), 0);
    set_wall_clock(1000);
    assert_false(is_readable(fd, 0));
    push_at(queue, "a", wall_ms() + HOUR_MS);
    assert_int_equal(watches_on(), 1);
    set_wall_clock(HOUR_MS / 2);
    assert_true(is_readable(fd, TIMEOUT_MS));
    assert_int_equal(tarry_dispatch(queue, 0), 0);
    assert_false(is_readable(fd, 0)); /* it was noticed, and nothing is due */
    set_wall_clock(HOUR_MS / 2 + 1000);
    assert_true(is_readable(fd, TIMEOUT_MS));
    assert_int_equal(tarry_dispatch(queue, 0), 1);
    assert_int_equal(taken, 1);
    assert_false(is_readable(fd, 0));
    assert_int_equal(watches_on(), 0);
    tarry_close(queue);
}

CLAIMS_MAIN(NULL, NULL)
