/* The loop and the helper threads of a machine. Doubles of net/reactor.h and net/worker.h, and of
 * local/clock_watch.c, which needs a real loop. */
#include "base/clock.h"
#include "local/shard_core.h"
#include "machine.h"

#include <assert.h>
#include <stdlib.h>

enum { HOOKS_MAX = 8, DEADLINES_MAX = 8, SHARE_CHECKS = 5 };

struct worker {
    struct reactor *home;
    struct work *first, **last;
};

struct deadline {
    struct reactor *reactor;
    void (*fire)(void *ctx);
    void *ctx;
    int64_t at_ms;
};

struct reactor {
    struct letter *first, **last;
    struct {
        bool (*run)(void *ctx);
        void *ctx;
    } hooks[HOOKS_MAX];
    uint32_t hook_count, worker_count, deadline_count;
    struct worker *workers[MACHINE_WORKERS_MAX];
    struct deadline *deadlines[DEADLINES_MAX];
    struct list calls;
    bool needs_iteration;
};

/* ---- the reactor ---- */

struct reactor *reactor_new(uint32_t index)
{
    struct reactor *reactor = calloc(1, sizeof *reactor);

    (void)index;
    assert(reactor);
    reactor->last = &reactor->first;
    list_init(&reactor->calls);
    return reactor;
}

void reactor_free(struct reactor *reactor)
{
    free(reactor);
}

uv_loop_t *reactor_loop(struct reactor *reactor)
{
    (void)reactor;
    assert(false && "there is no loop");
    return NULL;
}

uint32_t reactor_index(const struct reactor *reactor)
{
    (void)reactor;
    return 0;
}

void reactor_post(struct reactor *reactor, struct letter *letter)
{
    letter->next = NULL;
    *reactor->last = letter;
    reactor->last = &letter->next;
}

void reactor_at_iteration_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx)
{
    assert(reactor->hook_count < HOOKS_MAX);
    reactor->hooks[reactor->hook_count].run = hook;
    reactor->hooks[reactor->hook_count++].ctx = ctx;
    reactor->needs_iteration = true;
}

void reactor_remove_at_iteration_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < reactor->hook_count; i++)
        if (reactor->hooks[i].run != hook || reactor->hooks[i].ctx != ctx)
            reactor->hooks[kept++] = reactor->hooks[i];
    reactor->hook_count = kept;
}

void reactor_iterate_again(struct reactor *reactor)
{
    reactor->needs_iteration = true;
}

void reactor_once_at_iteration_end(struct reactor *reactor, struct iteration_end_call *call)
{
    if (list_is_empty(&call->list))
        list_add_last(&reactor->calls, &call->list);
}

void reactor_cancel_at_iteration_end(struct iteration_end_call *call)
{
    list_remove(&call->list);
}

/* The clock does not advance in an iteration, so shares end after some checks. */
static uint32_t share_checks;

struct reactor_share reactor_share_begin(void)
{
    return (struct reactor_share){.until_us = 0};
}

bool reactor_share_is_over(const struct reactor_share *share)
{
    (void)share;
    return ++share_checks % SHARE_CHECKS == 0;
}

static void run_calls(struct reactor *reactor)
{
    struct list *last = reactor->calls.prev;
    bool more = !list_is_empty(&reactor->calls);

    while (more) {
        struct iteration_end_call *call =
            list_entry(reactor->calls.next, struct iteration_end_call, list);

        more = &call->list != last;
        list_remove(&call->list);
        call->run(call);
    }
    if (!list_is_empty(&reactor->calls))
        reactor->needs_iteration = true;
}

static void ring(struct reactor *reactor)
{
    for (uint32_t i = 0; i < reactor->deadline_count; i++) {
        struct deadline *deadline = reactor->deadlines[i];

        if (deadline->at_ms > clock_inner_ms())
            continue;
        deadline->at_ms = INT64_MAX;
        deadline->fire(deadline->ctx);
    }
}

void machine_iterate(struct machine *machine)
{
    struct reactor *reactor = machine->reactor;
    struct letter *letter = reactor->first;

    reactor->first = NULL;
    reactor->last = &reactor->first;
    ring(reactor);
    while (letter) {
        struct letter *next = letter->next;

        letter->run(letter);
        letter = next;
    }
    reactor->needs_iteration = false;
    for (uint32_t i = 0; i < reactor->hook_count; i++)
        if (reactor->hooks[i].run(reactor->hooks[i].ctx))
            reactor->needs_iteration = true;
    run_calls(reactor);
}

bool machine_needs_iteration(const struct machine *machine)
{
    const struct reactor *reactor = machine->reactor;

    return reactor->first || reactor->needs_iteration ||
           machine_deadline_ms(machine) <= machine->inner_ms;
}

/* ---- deadlines ---- */

struct deadline *deadline_new(struct reactor *reactor, void (*fire)(void *ctx), void *ctx)
{
    struct deadline *deadline = calloc(1, sizeof *deadline);

    if (!deadline)
        return NULL;
    assert(reactor->deadline_count < DEADLINES_MAX);
    *deadline = (struct deadline){.reactor = reactor, .fire = fire, .ctx = ctx, .at_ms = INT64_MAX};
    reactor->deadlines[reactor->deadline_count++] = deadline;
    return deadline;
}

void deadline_set(struct deadline *deadline, int64_t at_ms)
{
    deadline->at_ms = at_ms;
}

void deadline_free(struct deadline *deadline)
{
    struct reactor *reactor;

    if (!deadline)
        return;
    reactor = deadline->reactor;
    for (uint32_t i = 0; i < reactor->deadline_count; i++)
        if (reactor->deadlines[i] == deadline)
            reactor->deadlines[i] = reactor->deadlines[--reactor->deadline_count];
    free(deadline);
}

int64_t machine_deadline_ms(const struct machine *machine)
{
    const struct reactor *reactor = machine->reactor;
    int64_t first_ms = INT64_MAX;

    for (uint32_t i = 0; i < reactor->deadline_count; i++)
        if (reactor->deadlines[i]->at_ms < first_ms)
            first_ms = reactor->deadlines[i]->at_ms;
    return first_ms;
}

/* ---- helper threads ---- */

static void on_done(struct letter *letter)
{
    struct work *work = (struct work *)(void *)letter;

    work->done(work);
}

struct worker *worker_new(struct reactor *home, const char *name)
{
    struct worker *worker = calloc(1, sizeof *worker);

    (void)name;
    if (!worker)
        return NULL;
    worker->home = home;
    worker->last = &worker->first;
    assert(home->worker_count < MACHINE_WORKERS_MAX);
    home->workers[home->worker_count++] = worker;
    return worker;
}

void worker_give(struct worker *worker, struct work *work)
{
    work->letter.run = on_done;
    work->reactor = worker->home;
    work->next = NULL;
    *worker->last = work;
    worker->last = &work->next;
}

static void perform(struct worker *worker)
{
    struct work *work = worker->first;

    worker->first = work->next;
    if (!worker->first)
        worker->last = &worker->first;
    work->perform(work);
    reactor_post(worker->home, &work->letter);
}

void worker_free(struct worker *worker)
{
    struct reactor *home;

    if (!worker)
        return;
    home = worker->home;
    while (worker->first)
        perform(worker);
    for (uint32_t i = 0; i < home->worker_count; i++)
        if (home->workers[i] == worker)
            home->workers[i] = home->workers[--home->worker_count];
    free(worker);
}

uint32_t machine_busy_workers(const struct machine *machine)
{
    uint32_t busy = 0;

    for (uint32_t i = 0; i < machine->reactor->worker_count; i++)
        busy += machine->reactor->workers[i]->first != NULL;
    return busy;
}

void machine_perform(struct machine *machine, uint32_t nth)
{
    for (uint32_t i = 0; i < machine->reactor->worker_count; i++)
        if (machine->reactor->workers[i]->first && nth-- == 0) {
            perform(machine->reactor->workers[i]);
            return;
        }
    assert(false);
}

/* ---- life ---- */

void machine_init(struct machine *machine, uint64_t seed, int64_t inner_ms, int64_t wall_ms)
{
    *machine =
        (struct machine){.inner_ms = inner_ms, .wall_ms = wall_ms, .random = {.state = seed}};
    machine->reactor = reactor_new(0);
    share_checks = 0;
}

void machine_fini(struct machine *machine)
{
    reactor_free(machine->reactor);
    machine->reactor = NULL;
}

/* ---- the wall clock is read in each iteration ---- */

struct clock_watch *clock_watch_new(struct reactor *reactor)
{
    (void)reactor;
    return NULL;
}

void clock_watch_free(struct clock_watch *watch)
{
    (void)watch;
}
