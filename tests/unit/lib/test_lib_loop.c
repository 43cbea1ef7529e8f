/* The library under a foreign loop: a descriptor that is readable while there is something to do, and
 * callbacks that only come from tarry_dispatch. */
#include "lib_rig.h"
#include "unit/claim.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000 };

/* Arguments of the last callback. */
struct received {
    int count, code;
    size_t results, jobs;
    int first_code;
    char id[32];
    tarry *queue; /* the callback acks by it */
};

static void on_done(void *owner, const struct tarry_reply *reply)
{
    struct received *received = owner;

    received->count++;
    received->code = reply->code;
    received->results = reply->result_count;
    received->first_code = reply->result_count ? reply->results[0].code : -1;
    received->jobs = reply->job_count;
    for (size_t i = 0; i < reply->job_count; i++) {
        snprintf(received->id, sizeof received->id, "%s", tarry_job_id(reply->jobs[i]));
        if (received->queue)
            assert_int_equal(rig_answer(received->queue, tarry_ack, reply->jobs[i]), TARRY_OK);
        tarry_job_free(reply->jobs[i]);
    }
}

static bool is_readable(int fd, int wait_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, wait_ms) == 1;
}

static int submit_push(tarry *queue, const char *id, int64_t delay_ms, struct received *received)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    char topic[] = "t", name[32];

    snprintf(name, sizeof name, "%s", id);
    push.topic = topic;
    push.id = name;
    push.delay_ms = delay_ms;
    call.kind = TARRY_CALL_PUSH;
    call.items = &push;
    call.n = 1;
    int code = tarry_submit(queue, &call, on_done, received);
    memset(topic, '!', sizeof topic - 1); /* it is not read later */
    memset(name, '!', sizeof name - 1);
    return code;
}

static int submit_take(tarry *queue, int64_t wait_ms, struct received *received)
{
    struct tarry_take take = rig_take(5);
    struct tarry_call call = TARRY_CALL_INIT;
    char topic[] = "t";
    const char *topics[] = {topic};

    take.topics = topics;
    take.tag = 9;
    call.kind = TARRY_CALL_TAKE;
    call.items = &take;
    call.n = 1;
    call.wait_ms = wait_ms;
    int code = tarry_submit(queue, &call, on_done, received);
    topic[0] = '!';
    return code;
}

CLAIM(answers_come_only_from_dispatch)
{
    tarry *queue = rig_open(0);
    struct received received = {0};
    int fd = tarry_fd(queue);

    assert_true(fd >= 0);
    assert_int_equal(tarry_fd(queue), fd);
    assert_false(is_readable(fd, 0));
    assert_int_equal(submit_push(queue, "a", 0, &received), TARRY_OK);
    assert_int_equal(received.count, 0);
    assert_true(is_readable(fd, 0));
    assert_true(is_readable(fd, 0)); /* as long as it is not dispatched */
    assert_int_equal(tarry_dispatch(queue, 0), 1);
    assert_int_equal(received.code, TARRY_OK);
    assert_int_equal(received.results, 1);
    assert_int_equal(received.first_code, TARRY_CREATED);
    assert_false(is_readable(fd, 0));
    assert_int_equal(tarry_dispatch(queue, 0), 0);
    tarry_close(queue);
}

CLAIM(it_stays_readable_until_the_last_is_dispatched)
{
    tarry *queue = rig_open(0);
    struct received received = {0};
    char id[16];
    int fd = tarry_fd(queue);

    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "%d", i);
        submit_push(queue, id, 0, &received);
    }
    for (int i = 1; i <= 5; i++) {
        assert_true(is_readable(fd, 0));
        assert_int_equal(tarry_dispatch(queue, 1), 1);
        assert_int_equal(received.count, i);
    }
    assert_false(is_readable(fd, 0));
    tarry_close(queue);
}

CLAIM(a_submitted_take_waits_for_its_job)
{
    tarry *queue = rig_open(0);
    struct received received = {.queue = queue};
    int fd = tarry_fd(queue), rounds = 0;

    assert_int_equal(submit_take(queue, -1, &received), TARRY_OK);
    assert_false(is_readable(fd, 20));
    rig_push(queue, "a", 40);
    while (!received.count && rounds++ < 10) { /* the wheel may need a step on the way */
        assert_true(is_readable(fd, TIMEOUT_MS));
        tarry_dispatch(queue, 0);
    }
    assert_in_range(rounds, 1, 4);
    assert_string_equal(received.id, "a");
    assert_false(is_readable(fd, 50)); /* nothing is left that would wake the loop */
    assert_int_equal(rig_topic(queue).acked, 1);
    tarry_close(queue);
}

CLAIM(a_submitted_take_ends_after_its_wait_or_an_interruption)
{
    tarry *queue = rig_open(0);
    struct received received = {0};
    int fd = tarry_fd(queue);

    submit_take(queue, 30, &received);
    for (int rounds = 0; !received.count && rounds < 10; rounds++) {
        assert_true(is_readable(fd, TIMEOUT_MS));
        tarry_dispatch(queue, 0);
    }
    assert_int_equal(received.count, 1);
    assert_int_equal(received.code, TARRY_OK);
    assert_int_equal(received.jobs, 0);
    submit_take(queue, -1, &received);
    assert_int_equal(tarry_interrupt(queue, 9), 1);
    assert_true(is_readable(fd, 0));
    tarry_dispatch(queue, 0);
    assert_int_equal(received.code, TARRY_INTERRUPTED);
    submit_take(queue, 0, &received);
    tarry_dispatch(queue, 0);
    assert_int_equal(received.count, 3);
    tarry_close(queue);
}

/* The descriptor is asked for when takes wait and answers lie already: it shows them. */
CLAIM(a_descriptor_that_comes_late_has_missed_nothing)
{
    tarry *queue = rig_open(0);
    struct received received = {0};

    submit_push(queue, "a", 0, &received);
    assert_true(is_readable(tarry_fd(queue), 0));
    tarry_dispatch(queue, 0);
    tarry_close(queue);
    queue = rig_open(0);
    rig_push(queue, "a", 30);
    submit_take(queue, -1, &received);
    assert_true(is_readable(tarry_fd(queue), TIMEOUT_MS));
    tarry_dispatch(queue, 0);
    assert_string_equal(received.id, "a");
    tarry_close(queue);
}

static void *push_elsewhere(void *ctx)
{
    usleep(20000);
    rig_push(ctx, "b", 0);
    return NULL;
}

CLAIM(a_push_of_another_thread_wakes_the_loop)
{
    tarry *queue = rig_open(0);
    struct received received = {0};
    pthread_t thread;
    int fd = tarry_fd(queue);

    submit_take(queue, -1, &received);
    pthread_create(&thread, NULL, push_elsewhere, queue);
    assert_true(is_readable(fd, TIMEOUT_MS));
    tarry_dispatch(queue, 0);
    assert_string_equal(received.id, "b");
    pthread_join(thread, NULL);
    tarry_close(queue);
}

/* Submitted calls without a dispatch run no callback, and leave nothing behind. */
CLAIM(a_close_runs_no_callback)
{
    tarry *queue = rig_open(0);
    struct received received = {0};

    tarry_fd(queue);
    submit_take(queue, -1, &received);
    submit_push(queue, "a", 0, &received);
    submit_take(queue, -1, &received);
    submit_push(queue, "b", 10, &received);
    assert_int_equal(tarry_close(queue), TARRY_OK);
    assert_int_equal(received.count, 0);
}

/* ---- callbacks that go on ---- */

static void on_done_again(void *owner, const struct tarry_reply *reply)
{
    struct received *received = owner;
    struct tarry_take take = rig_take(1);
    struct tarry_call call = TARRY_CALL_INIT;

    (void)reply;
    call.kind = TARRY_CALL_TAKE;
    call.items = &take;
    call.n = 1;
    if (++received->count < 1000)
        assert_int_equal(tarry_submit(received->queue, &call, on_done_again, received), TARRY_OK);
}

/* Calls submitted by callbacks end immediately, again and again: the loop still continues. */
CLAIM(a_dispatch_ends_even_if_callbacks_submit_more)
{
    tarry *queue = rig_open(0);
    struct received received = {.queue = queue};
    int fd = tarry_fd(queue);

    received.count = -1;
    on_done_again(&received, NULL);
    on_done_again(&received, NULL);
    assert_int_equal(received.count, 1);
    assert_int_equal(tarry_dispatch(queue, 0), 2);
    assert_int_equal(received.count, 3);
    assert_true(is_readable(fd, 0));
    assert_int_equal(tarry_dispatch(queue, 5), 5);
    tarry_close(queue);
}

/* A callback that is there when another thread closes the queue, or tries to do so itself. */
struct closer {
    tarry *queue;
    pthread_t thread;
    atomic_bool is_closed;
    bool was_closed, tries;
    int code;
};

static void *close_elsewhere(void *ctx)
{
    struct closer *closer = ctx;
    tarry_close(closer->queue);
    atomic_store(&closer->is_closed, true);
    return NULL;
}

static void on_done_while_closing(void *owner, const struct tarry_reply *reply)
{
    struct closer *closer = owner;
    struct tarry_push push = TARRY_PUSH_INIT;

    (void)reply;
    if (closer->tries) {
        closer->code = tarry_close(closer->queue);
        return;
    }
    push.topic = "t";
    pthread_create(&closer->thread, NULL, close_elsewhere, closer);
    while (tarry_push(closer->queue, &push, 1, NULL) != TARRY_STOPPING)
        usleep(100);
    usleep(50000); /* time for a close that does not wait */
    closer->was_closed = atomic_load(&closer->is_closed);
}

static int submit_for_closer(struct closer *closer)
{
    struct tarry_call call = TARRY_CALL_INIT;
    call.kind = TARRY_CALL_PUSH;
    return tarry_submit(closer->queue, &call, on_done_while_closing, closer);
}

CLAIM(a_close_waits_for_the_callback_that_runs)
{
    struct closer closer = {.queue = rig_open(0)};

    assert_int_equal(submit_for_closer(&closer), TARRY_OK);
    assert_int_equal(tarry_dispatch(closer.queue, 0), 1);
    pthread_join(closer.thread, NULL);
    assert_false(closer.was_closed);
}

CLAIM(a_callback_cannot_close_its_queue)
{
    struct closer closer = {.queue = rig_open(0), .tries = true};

    assert_int_equal(submit_for_closer(&closer), TARRY_OK);
    assert_int_equal(tarry_dispatch(closer.queue, 0), 1);
    assert_int_equal(closer.code, TARRY_IN_CALLBACK);
    assert_int_equal(rig_push(closer.queue, "a", 0), TARRY_CREATED);
    assert_int_equal(tarry_close(closer.queue), TARRY_OK);
}

/* A program that forgets a size gets an error for each item. */
CLAIM(items_without_a_size_are_refused_each)
{
    tarry *queue = rig_open(0);
    struct received received = {0};
    struct tarry_push pushes[2] = {{0}, {0}};
    struct tarry_call call = TARRY_CALL_INIT;

    call.kind = TARRY_CALL_PUSH;
    call.items = pushes;
    call.n = 2;
    assert_int_equal(tarry_submit(queue, &call, on_done, &received), TARRY_OK);
    assert_int_equal(tarry_dispatch(queue, 0), 1);
    assert_int_equal(received.code, TARRY_BAD_OPTION);
    assert_int_equal(received.results, 2);
    assert_int_equal(received.first_code, TARRY_BAD_OPTION);
    tarry_close(queue);
}

CLAIM(invalid_submissions_are_rejected_immediately)
{
    tarry *queue = rig_open(0);
    struct tarry_call call = TARRY_CALL_INIT;
    struct tarry_take take = rig_take(1);
    struct received received = {0};

    assert_int_equal(tarry_submit(queue, &call, on_done, &received), TARRY_BAD_OPTION);
    call.kind = TARRY_CALL_POP + 1;
    assert_int_equal(tarry_submit(queue, &call, on_done, &received), TARRY_BAD_OPTION);
    call.kind = TARRY_CALL_POP;
    assert_int_equal(tarry_submit(queue, &call, on_done, &received), TARRY_BAD_OPTION);
    take.max = 0;
    call.items = &take;
    call.n = 1;
    assert_int_equal(tarry_submit(queue, &call, on_done, &received), TARRY_BAD_OPTION);
    take.max = 1;
    assert_int_equal(tarry_submit(queue, &call, NULL, &received), TARRY_BAD_OPTION);
    assert_int_equal(tarry_dispatch(queue, 0), 0);
    tarry_close(queue);
}

/* A program that sleeps that long and then checks gets each job when it is due. */
CLAIM(the_next_event_time_is_never_late)
{
    static const int64_t delays_ms[] = {0, 3, 1000, 30 * 60 * 1000, INT64_C(90) * 86400 * 1000};
    tarry *queue = rig_open(TARRY_TEST_CLOCK);

    assert_int_equal(tarry_next_ms(queue), -1);
    for (size_t i = 0; i < sizeof delays_ms / sizeof *delays_ms; i++) {
        int64_t start_ms = tarry_now_ms(queue), next_ms;
        int steps = 0;
        tarry_job *job;
        assert_int_equal(rig_push(queue, "a", delays_ms[i]), TARRY_CREATED);
        while (!(job = rig_take_one(queue, 0))) {
            next_ms = tarry_next_ms(queue);
            assert_in_range(next_ms, 1, delays_ms[i] + 1);
            assert_int_equal(tarry_advance(queue, next_ms), TARRY_OK);
            assert_true(steps++ < 20);
        }
        assert_int_equal(tarry_now_ms(queue) - start_ms, delays_ms[i] ? delays_ms[i] + 1 : 0);
        assert_in_range(tarry_next_ms(queue), 1, 60001); /* its lease ends */
        assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
        tarry_job_free(job);
        assert_int_equal(tarry_next_ms(queue), -1);
    }
    tarry_close(queue);
}

CLAIMS_MAIN(NULL, NULL)
