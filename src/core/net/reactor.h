/*
 * reactor: one thread with an event loop, a mailbox, and hooks at the end of a turn.
 *
 * A turn: the loop polls, runs what became ready (sockets, timers, mail), then the end-of-turn
 * hooks in the order they were added, then sleeps until the next event or deadline. An idle reactor
 * makes no wake-ups. Everything of a reactor runs on its thread but reactor_post, reactor_stop and
 * reactor_figures.
 */
#ifndef TARRY_NET_REACTOR_H
#define TARRY_NET_REACTOR_H

#include "base/list.h"
#include "base/metric.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct reactor;

/* A letter to a reactor: embed it as the first member; `run` gets it on the reactor's thread and
 * owns it from then on. */
struct letter {
    struct letter *next;
    void (*run)(struct letter *letter);
};

/* NULL when out of descriptors or memory. Signals are left alone: a process that writes to sockets ignores
 * SIGPIPE, so that a peer that is gone shows as an error of the write. */
struct reactor *reactor_new(uint32_t index);
/* After its run has returned, and after everything that put handles on its loop has asked for them
 * to be closed. Letters still in the mailbox are dropped. */
void reactor_free(struct reactor *reactor);

uv_loop_t *reactor_loop(struct reactor *reactor);
uint32_t reactor_index(const struct reactor *reactor);

/* Any thread. Letters of one sender arrive in order. Costs one wake-up however many letters wait.
 */
void reactor_post(struct reactor *reactor, struct letter *letter);

/* `hook` is called at the end of every turn. At most 8. A hook that wants another turn at once
 * returns true. */
void reactor_at_turn_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx);
/* Takes a hook away, for an owner that goes. Not from within a hook. */
void reactor_remove_at_turn_end(struct reactor *reactor, bool (*hook)(void *ctx), void *ctx);
/* The next turn polls without sleeping, so the hooks are called again soon: for work that was left
 * for a hook which had its call in this turn already. */
void reactor_turn_again(struct reactor *reactor);

/*
 * Once, after the hooks of this turn: for the many that now and then have something to finish
 * there, such as what they gathered to send. Embed it, list_init its list. Asking twice is asking
 * once; asking while such calls are made means the next turn, which then comes at once. It may go
 * after reactor_cancel_at_turn_end, and from within its `run`.
 */
struct turn_end_call {
    struct list list; /* the reactor's */
    void (*run)(struct turn_end_call *call);
};
void reactor_once_at_turn_end(struct reactor *reactor, struct turn_end_call *call);
void reactor_cancel_at_turn_end(struct turn_end_call *call);

/* A deadline: `fire` is called once when the inner clock (base/clock.h) has reached `at_ms`, or
 * `at_us` of its microseconds, never before. Setting it again moves it; INT64_MAX: never. */
struct deadline;
struct deadline *deadline_new(struct reactor *reactor, void (*fire)(void *ctx), void *ctx);
void deadline_set(struct deadline *deadline, int64_t at_ms);
void deadline_set_us(struct deadline *deadline, int64_t at_us);
void deadline_free(struct deadline *deadline);

/* clock_awake_us (base/clock.h) as of the first who asked in this turn: the clock is read once a
 * turn. For durations. */
int64_t reactor_now_us(struct reactor *reactor);

/* Has this turn lasted so long, since the first reactor_now_us in it, that whoever can wait shall wait for the
 * next one? All that clients can ask for in any number asks this before each step, so that one client does not
 * hold up the others. Reads the clock. */
enum { REACTOR_SHARE_US = 500 };
bool reactor_is_late(struct reactor *reactor);

/*
 * How a reactor fares. A turn is what it does from the return of a poll to the next poll. It counts
 * from the first reactor_now_us, letter or deadline in it; what comes before those is known by the
 * loop's own clock, to a millisecond, by which a turn may be taken for shorter than it was.
 */
struct reactor_figures {
    uint64_t turns, letters; /* letters that arrived */
    uint64_t longest_us, longest_of_minute_us;
    struct histogram turn_us;
    struct histogram late_us; /* deadlines: from their time, or from being set later, to `fire` */
};
/* Any thread. Adds up over several reactors: zero it before the first. */
void reactor_figures(const struct reactor *reactor, struct reactor_figures *sum);
/* On a Prometheus page; any thread. */
void reactor_emit_metrics(struct reactor *const *reactors, uint32_t count,
                          struct metric_page *page);
extern const struct metric reactor_metrics[];
/* For deadlines. */
void reactor_note_late(struct reactor *reactor, int64_t late_us);

/* Runs the loop on the calling thread until reactor_stop. */
void reactor_run(struct reactor *reactor);
/* Starts a thread that runs it / waits for that thread's end. */
int reactor_start(struct reactor *reactor);
void reactor_join(struct reactor *reactor);
/* Any thread: reactor_run returns after the current turn. */
void reactor_stop(struct reactor *reactor);

#endif
