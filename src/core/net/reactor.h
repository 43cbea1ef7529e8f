/*
 * reactor: a thread with an event loop, a mailbox, and hooks at the end of a loop iteration.
 *
 * In an iteration, the loop polls, runs the ready events (sockets, timers, mail), then the
 * end-of-iteration hooks in the order in which they were added, then sleeps until the next event or
 * deadline. An idle reactor does not wake up. Everything of a reactor runs on its thread, except
 * reactor_post, reactor_stop and reactor_figures.
 */
#ifndef TARRY_NET_REACTOR_H
#define TARRY_NET_REACTOR_H

#include "base/list.h"
#include "base/metric.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct reactor;

/* A message to a reactor. Embed it as the first member. `run` receives it on the reactor's thread
 * and owns it from then on. */
struct letter {
    struct letter *next;
    void (*run)(struct letter *letter);
};

/* Creates a reactor. Returns NULL when out of descriptors or memory. Leaves signals unchanged: a
 * process that writes to sockets must ignore SIGPIPE, so that a closed peer appears as a write
 * error. */
struct reactor *reactor_new(uint32_t index);
/* Frees a reactor, after its run has returned and after the close of every handle on its loop has
 * been requested. Letters still in the mailbox are dropped. */
void reactor_free(struct reactor *reactor);

uv_loop_t *reactor_loop(struct reactor *reactor);
uint32_t reactor_index(const struct reactor *reactor);

/* Sends a letter. Any thread. Letters of one sender arrive in order. Costs one wake-up for any
 * number of waiting letters. */
void reactor_post(struct reactor *reactor, struct letter *letter);

/* Adds a hook, which is called at the end of every iteration. At most 8. A hook returns true to
 * request another iteration immediately. */
void reactor_at_iteration_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx);
/* Removes a hook, for an owner that ends. Not from within a hook. */
void reactor_remove_at_iteration_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx);
/* Makes the next iteration poll without sleeping, so that the hooks are called again soon: for work
 * that was left for a hook that has already run in this iteration. */
void reactor_iterate_again(struct reactor *reactor);

/*
 * A single call after the hooks of this iteration: for the many objects that sometimes have work at
 * that point, such as sending what they gathered. Embed it and list_init its list. Requesting it
 * twice has the effect of once. A request while such calls run means the next iteration, which then
 * follows immediately. It may be freed after reactor_cancel_at_iteration_end, and from within its `run`.
 */
struct iteration_end_call {
    struct list list; /* the reactor's */
    void (*run)(struct iteration_end_call *call);
};
void reactor_once_at_iteration_end(struct reactor *reactor, struct iteration_end_call *call);
void reactor_cancel_at_iteration_end(struct iteration_end_call *call);

/*
 * A task that is carried out in pieces, so that the other clients of the reactor do not wait for all of it. At the end
 * of an iteration the tasks alternate: the first one carries out a piece, and further pieces follow while the
 * iteration is not late. `piece` returns whether more is left; if not, it may have freed the task. A piece should take
 * less than REACTOR_SHARE_US. reactor_free finishes the tasks that are left, so their owners have removed all others.
 */
struct reactor_task {
    struct list list; /* the reactor's; list_init it */
    bool (*piece)(struct reactor_task *task);
};
/* Adds a task that is not added yet. Not from within its `piece`. */
void reactor_add_task(struct reactor *reactor, struct reactor_task *task);
/* Removes a task that may have been added. Not from within its `piece`. */
void reactor_remove_task(struct reactor_task *task);

/* A deadline: `fire` is called once when the inner clock (base/clock.h) has reached `at_ms` (or
 * `at_us` in microseconds), never before. Setting it again moves it; INT64_MAX: never. If the thread
 * stood still, input that arrived meanwhile is read first. */
struct deadline;
struct deadline *deadline_new(struct reactor *reactor, void (*fire)(void *ctx), void *ctx);
void deadline_set(struct deadline *deadline, int64_t at_ms);
void deadline_set_us(struct deadline *deadline, int64_t at_us);
void deadline_free(struct deadline *deadline);

/* Returns clock_awake_us (base/clock.h) as of the first call in this iteration: the clock is read
 * once per iteration. For durations. */
int64_t reactor_now_us(struct reactor *reactor);

/* Returns whether this iteration has lasted longer than REACTOR_SHARE_US since its first
 * reactor_now_us, so that work that can wait should wait for the next one. Work that clients can
 * request in any amount checks this before each step, so that one client does not delay the others.
 * Reads the clock. */
enum { REACTOR_SHARE_US = 500 };
bool reactor_is_late(struct reactor *reactor);

/*
 * A share of an iteration for one kind of work that clients can cause in any amount, such as replies: it begins when
 * the work begins, whatever the iteration has done before, so every kind of work advances in every iteration. The
 * worker does one step, then checks reactor_share_is_over before each further step, and leaves the rest for the next
 * iteration.
 */
struct reactor_share {
    int64_t until_us;
};
struct reactor_share reactor_share_begin(void);
bool reactor_share_is_over(const struct reactor_share *share);

/*
 * The statistics of a reactor. An iteration is the time from the return of a poll to the next poll. It is
 * measured from its first reactor_now_us, letter or deadline. The part before those is known only
 * from the loop's own clock, to a millisecond, so an iteration may be measured too short.
 */
struct reactor_figures {
    uint64_t iterations, letters; /* received letters */
    uint64_t longest_us, longest_of_minute_us;
    uint64_t longest_processor_us; /* of the last minute */
    struct histogram iteration_us;
    struct histogram processor_us; /* processor time of iterations; short ones: their duration */
    struct histogram late_us; /* deadlines: from their time, or from being set later, to `fire` */
};
/* Adds the statistics to *sum, over several reactors: zero it before the first. Any thread. */
void reactor_figures(const struct reactor *reactor, struct reactor_figures *sum);
/* Reads how many slow iterations, with at least 2 ms of processor time, spent the longest part of it in an
 * activity (net/activity.h). Activities have places from 0 on. Returns false if the place is free. Any thread. */
enum { REACTOR_ACTIVITIES_MAX = 64 };
bool reactor_slow_activity(const struct reactor *reactor, uint32_t place, const char **name,
                           uint64_t *iterations);
/* Writes the metrics on a Prometheus page. Any thread. */
void reactor_emit_metrics(struct reactor *const *reactors, uint32_t count,
                          struct metric_page *page);
extern const struct metric reactor_metrics[];
/* Notes a late deadline. For deadlines. */
void reactor_note_late(struct reactor *reactor, int64_t late_us);

/* Runs the loop on the calling thread until reactor_stop. */
void reactor_run(struct reactor *reactor);
/* Start a thread that runs the reactor, and wait for the end of that thread. */
int reactor_start(struct reactor *reactor);
void reactor_join(struct reactor *reactor);
/* Makes reactor_run return after the current iteration. Any thread. */
void reactor_stop(struct reactor *reactor);

#endif
