#include "net/reactor.h"
#include "net/worker.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- mailbox ---- */

enum { SENDERS = 4, LETTERS = 20000 };

struct post {
    struct letter letter;
    struct box *box;
    int sender, number;
};

struct box {
    struct reactor *reactor;
    int next[SENDERS];
    int arrived;
    bool in_order;
};

static void run_post(struct letter *letter)
{
    struct post *post = (struct post *)(void *)letter;
    struct box *box = post->box;
    if (box->next[post->sender]++ != post->number)
        box->in_order = false;
    free(post);
    if (++box->arrived == SENDERS * LETTERS)
        reactor_stop(box->reactor);
}

struct sender {
    struct box *box;
    int number;
    pthread_t thread;
};

static void *send_all(void *arg)
{
    struct sender *sender = arg;
    for (int i = 0; i < LETTERS; i++) {
        struct post *post = calloc(1, sizeof *post);
        post->letter.run = run_post;
        post->box = sender->box;
        post->sender = sender->number;
        post->number = i;
        reactor_post(sender->box->reactor, &post->letter);
    }
    return NULL;
}

CLAIM(letters_of_one_sender_arrive_in_order)
{
    struct box box = {.reactor = reactor_new(3), .in_order = true};
    struct sender senders[SENDERS];
    assert_int_equal(reactor_index(box.reactor), 3);
    assert_int_equal(reactor_start(box.reactor), 0);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.box = &box, .number = i};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    reactor_join(box.reactor);
    assert_true(box.in_order);
    assert_int_equal(box.arrived, SENDERS * LETTERS);
    reactor_free(box.reactor);
}

/* ---- ends of iterations ---- */

struct iterations {
    struct reactor *reactor;
    char order[16];
    size_t len;
    int again, calls;
};

static bool first_hook(void *ctx)
{
    struct iterations *iterations = ctx;
    if (iterations->len < sizeof iterations->order)
        iterations->order[iterations->len++] = 'a';
    return false;
}

static bool second_hook(void *ctx)
{
    struct iterations *iterations = ctx;
    if (iterations->len < sizeof iterations->order)
        iterations->order[iterations->len++] = 'b';
    iterations->calls++;
    return iterations->again-- > 0;
}

CLAIM(hooks_run_in_order_and_again_on_request)
{
    struct iterations iterations = {.reactor = reactor_new(0), .again = 3};
    reactor_at_iteration_end(iterations.reactor, first_hook, &iterations);
    reactor_at_iteration_end(iterations.reactor, second_hook, &iterations);
    for (int i = 0; i < 4; i++)
        (void)uv_run(reactor_loop(iterations.reactor),
                     UV_RUN_ONCE); /* would sleep for ever otherwise */
    assert_memory_equal(iterations.order, "abababab", 8);
    reactor_remove_at_iteration_end(iterations.reactor, first_hook, &iterations);
    iterations.len = 0;
    (void)uv_run(reactor_loop(iterations.reactor), UV_RUN_NOWAIT);
    assert_memory_equal(iterations.order, "b", 1);
    reactor_free(iterations.reactor);
}

/* The first hook leaves work for the second iteration although its own call has ended. */
static bool asking_hook(void *ctx)
{
    struct iterations *iterations = ctx;
    if (iterations->calls++ < 2)
        reactor_iterate_again(iterations->reactor);
    else
        reactor_stop(iterations->reactor);
    return false;
}

CLAIM(another_iteration_can_be_requested)
{
    struct iterations iterations = {.reactor = reactor_new(0)};
    reactor_at_iteration_end(iterations.reactor, asking_hook, &iterations);
    reactor_run(iterations.reactor); /* would never return otherwise */
    assert_true(iterations.calls >= 3);
    reactor_free(iterations.reactor);
}

struct once {
    struct iteration_end_call call;
    struct iterations *iterations;
    struct once *cancels, *asks;
    char name;
};

static void run_once(struct iteration_end_call *call)
{
    struct once *once = list_entry(call, struct once, call);
    struct iterations *iterations = once->iterations;
    iterations->order[iterations->len++] = once->name;
    if (once->cancels)
        reactor_cancel_at_iteration_end(&once->cancels->call);
    if (once->asks)
        reactor_once_at_iteration_end(iterations->reactor, &once->asks->call);
    once->asks = NULL;
}

CLAIM(a_call_at_iteration_end_is_made_once_and_after_the_hooks)
{
    struct iterations iterations = {.reactor = reactor_new(0)};
    struct once c = {.iterations = &iterations, .name = 'c'},
                d = {.iterations = &iterations, .name = 'd'},
                e = {.iterations = &iterations, .name = 'e', .cancels = &d};
    struct once *all[] = {&e, &c, &d};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        all[i]->call.run = run_once;
        list_init(&all[i]->call.list);
        reactor_once_at_iteration_end(iterations.reactor, &all[i]->call);
        reactor_once_at_iteration_end(iterations.reactor, &all[i]->call);
    }
    c.asks = &e;
    reactor_at_iteration_end(iterations.reactor, first_hook, &iterations);
    (void)uv_run(reactor_loop(iterations.reactor), UV_RUN_ONCE);
    (void)uv_run(reactor_loop(iterations.reactor),
                 UV_RUN_ONCE); /* would sleep for ever otherwise */
    (void)uv_run(reactor_loop(iterations.reactor), UV_RUN_NOWAIT);
    assert_int_equal(iterations.len, 6);
    assert_memory_equal(iterations.order, "aecaea", 6);
    reactor_free(iterations.reactor);
}

/* ---- tasks in pieces ---- */

struct task {
    struct reactor_task task;
    struct iterations *iterations;
    int pieces, busy_ms;
    char name;
};

static bool run_piece(struct reactor_task *reactor_task)
{
    struct task *task = list_entry(reactor_task, struct task, task);
    const int64_t until_us = clock_awake_us() + task->busy_ms * 1000;
    task->iterations->order[task->iterations->len++] = task->name;
    while (clock_awake_us() < until_us)
        ;
    return --task->pieces > 0;
}

static void add_task(struct task *task)
{
    task->task.piece = run_piece;
    list_init(&task->task.list);
    reactor_add_task(task->iterations->reactor, &task->task);
}

CLAIM(long_pieces_of_tasks_alternate_one_in_each_iteration)
{
    struct iterations iterations = {.reactor = reactor_new(0)};
    struct task c = {.iterations = &iterations, .name = 'c', .pieces = 3, .busy_ms = 1},
                d = {.iterations = &iterations, .name = 'd', .pieces = 1, .busy_ms = 1};
    add_task(&c);
    add_task(&d);
    for (size_t i = 1; i <= 4; i++) {
        (void)uv_run(reactor_loop(iterations.reactor),
                     UV_RUN_ONCE); /* would sleep for ever otherwise */
        assert_int_equal(iterations.len, i);
    }
    assert_memory_equal(iterations.order, "cdcc", 4);
    (void)uv_run(reactor_loop(iterations.reactor), UV_RUN_NOWAIT);
    assert_int_equal(iterations.len, 4);
    reactor_free(iterations.reactor);
}

CLAIM(a_task_that_is_left_is_finished_before_the_reactor_is_freed)
{
    struct iterations iterations = {.reactor = reactor_new(0)};
    struct task left = {.iterations = &iterations, .name = 'l', .pieces = 3};
    add_task(&left);
    reactor_free(iterations.reactor);
    assert_int_equal(left.pieces, 0);
}

CLAIM(a_removed_task_has_no_further_piece)
{
    struct iterations iterations = {.reactor = reactor_new(0)};
    struct task c = {.iterations = &iterations, .name = 'c', .pieces = 9, .busy_ms = 1};
    add_task(&c);
    (void)uv_run(reactor_loop(iterations.reactor), UV_RUN_ONCE);
    reactor_remove_task(&c.task);
    (void)uv_run(reactor_loop(iterations.reactor), UV_RUN_NOWAIT);
    assert_int_equal(iterations.len, 1);
    reactor_free(iterations.reactor);
}

/* ---- deadlines ---- */

struct wake {
    struct reactor *reactor;
    struct deadline *deadline;
    int64_t at_ms;
    int rings, early, rounds;
};

static void on_wake(void *ctx)
{
    struct wake *wake = ctx;
    wake->rings++;
    if (clock_inner_ms() < wake->at_ms)
        wake->early++;
    if (wake->rings == wake->rounds) {
        reactor_stop(wake->reactor);
        return;
    }
    wake->at_ms = clock_inner_ms() + wake->rings % 4;
    deadline_set(wake->deadline, wake->at_ms);
}

CLAIM(never_fires_early)
{
    struct wake wake = {.reactor = reactor_new(0), .rounds = 300};
    wake.deadline = deadline_new(wake.reactor, on_wake, &wake);
    wake.at_ms = clock_inner_ms() + 2;
    deadline_set(wake.deadline, wake.at_ms);
    reactor_run(wake.reactor);
    assert_int_equal(wake.rings, 300);
    assert_int_equal(wake.early, 0);
    deadline_free(wake.deadline);
    reactor_free(wake.reactor);
}

CLAIM(fires_between_two_milliseconds)
{
    struct wake wake = {.reactor = reactor_new(0), .rounds = 1};
    int64_t at_us = clock_inner_us() + 1500;
    wake.deadline = deadline_new(wake.reactor, on_wake, &wake);
    deadline_set(wake.deadline, clock_inner_ms() + 3600 * 1000);
    deadline_set_us(wake.deadline, at_us);
    reactor_run(wake.reactor);
    assert_int_equal(wake.rings, 1);
    assert_true(clock_inner_us() >= at_us);
    deadline_free(wake.deadline);
    reactor_free(wake.reactor);
}

/* A thread that stands still while a deadline passes and then, before it continues, input arrives. */
struct still {
    struct wake wake;
    struct letter letter;
    uv_poll_t input;
    int ends[2];
    bool is_read, was_read_first;
};

static void stand_still(struct letter *letter)
{
    struct still *still = (struct still *)(void *)((char *)letter - offsetof(struct still, letter));
    usleep(300 * 1000);
    assert_int_equal(write(still->ends[1], "x", 1), 1);
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    struct still *still = poll->data;
    (void)status;
    (void)events;
    still->is_read = true;
    uv_poll_stop(poll);
}

static void on_late(void *ctx)
{
    struct still *still = ctx;
    still->was_read_first = still->is_read;
    uv_close((uv_handle_t *)&still->input, NULL);
    reactor_stop(still->wake.reactor);
}

CLAIM(after_a_pause_input_is_read_before_deadlines_fire)
{
    struct still still = {.wake.reactor = reactor_new(0), .letter.run = stand_still};
    still.input.data = &still;
    assert_int_equal(pipe(still.ends), 0);
    assert_int_equal(uv_poll_init(reactor_loop(still.wake.reactor), &still.input, still.ends[0]),
                     0);
    assert_int_equal(uv_poll_start(&still.input, UV_READABLE, on_input), 0);
    still.wake.deadline = deadline_new(still.wake.reactor, on_late, &still);
    deadline_set(still.wake.deadline, clock_inner_ms() + 50);
    reactor_post(still.wake.reactor, &still.letter);
    reactor_run(still.wake.reactor);
    assert_true(still.was_read_first);
    deadline_free(still.wake.deadline);
    reactor_free(still.wake.reactor);
    close(still.ends[0]);
    close(still.ends[1]);
}

CLAIM(moves_earlier_later_and_away)
{
    struct wake wake = {.reactor = reactor_new(0), .rounds = 1};
    int64_t start_ms = clock_inner_ms();
    wake.deadline = deadline_new(wake.reactor, on_wake, &wake);
    struct deadline *never = deadline_new(wake.reactor, on_wake, &wake);
    deadline_set(never, start_ms + 1);
    deadline_set(never, INT64_MAX);
    deadline_set(wake.deadline, start_ms + 3600 * 1000); /* earlier */
    deadline_set(wake.deadline, start_ms + 2);
    wake.at_ms = start_ms + 10; /* and later again */
    deadline_set(wake.deadline, wake.at_ms);
    reactor_run(wake.reactor);
    assert_int_equal(wake.rings, 1);
    assert_int_equal(wake.early, 0);
    assert_true(clock_inner_ms() >= start_ms + 10);
    deadline_free(wake.deadline);
    deadline_free(never);
    reactor_free(wake.reactor);
}

/* ---- worker ---- */

struct chore {
    struct work work;
    struct chores *all;
    int number;
};

struct chores {
    struct reactor *reactor;
    struct worker *worker;
    struct chore chores[100];
    pthread_t home;
    int performed, done;
    bool in_order, elsewhere;
};

static void perform(struct work *work)
{
    struct chore *chore = (struct chore *)(void *)work;
    if (chore->all->performed++ != chore->number)
        chore->all->in_order = false;
    if (pthread_equal(pthread_self(), chore->all->home))
        chore->all->elsewhere = false;
}

static void done(struct work *work)
{
    struct chore *chore = (struct chore *)(void *)work;
    struct chores *all = chore->all;
    if (all->done++ != chore->number || !pthread_equal(pthread_self(), all->home))
        all->in_order = false;
    if (all->done == 100)
        reactor_stop(all->reactor);
}

CLAIM(work_comes_home_in_order)
{
    struct chores *all = calloc(1, sizeof *all);
    all->reactor = reactor_new(0);
    all->worker = worker_new(all->reactor, "chores");
    all->in_order = all->elsewhere = true;
    all->home = pthread_self();
    for (int i = 0; i < 100; i++) {
        all->chores[i] =
            (struct chore){.work = {.perform = perform, .done = done}, .all = all, .number = i};
        worker_give(all->worker, &all->chores[i].work);
    }
    reactor_run(all->reactor);
    worker_free(all->worker);
    assert_true(all->in_order);
    assert_true(all->elsewhere);
    assert_int_equal(all->done, 100);
    reactor_free(all->reactor);
    free(all);
}

CLAIM(given_work_is_performed_before_the_end)
{
    struct chores *all = calloc(1, sizeof *all);
    all->reactor = reactor_new(0);
    all->worker = worker_new(all->reactor, "chores");
    all->in_order = true;
    for (int i = 0; i < 100; i++) {
        all->chores[i] =
            (struct chore){.work = {.perform = perform, .done = done}, .all = all, .number = i};
        worker_give(all->worker, &all->chores[i].work);
    }
    worker_free(all->worker);
    assert_int_equal(all->performed, 100);
    reactor_free(all->reactor); /* the letters are dropped */
    free(all);
}

CLAIMS_MAIN(NULL, NULL)
