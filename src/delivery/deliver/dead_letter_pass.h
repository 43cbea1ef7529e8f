/*
 * dead_letter_pass: one pass over a topic's dead jobs, from its control job to that one's answer;
 * and the worker's own structures, shared by its files only.
 *
 * A pass is a chain of calls of the queue, one under way at a time: look at the topic, alert,
 * forward, drop. Each step ends by dead_letter_pass_next, which begins the one after it. The pass
 * ends by answering the control job: acked when all is done, given back with a delay when there will
 * be more to do, nacked when the queue failed.
 */
#ifndef TARRY_DELIVER_DEAD_LETTER_PASS_H
#define TARRY_DELIVER_DEAD_LETTER_PASS_H

#include "base/list.h"
#include "base/table.h"
#include "deliver/dead_letter_worker.h"

#include <assert.h>
#include <pthread.h>

enum {
    DEAD_LETTER_LEASE_MS = 10 * 1000, /* extended by a pass that goes on; a crash costs so much */
    DEAD_LETTER_PASS_MS = 60 * 1000,  /* a longer pass gives way to other topics */
    DEAD_LETTER_PAGE = 100,           /* jobs looked at together */
    DEAD_LETTER_PAGE_WITH_BODIES = 16
};

enum dead_letter_drop_reason {
    DEAD_LETTER_COUNT = 0,
    DEAD_LETTER_AGE,
    DEAD_LETTER_BYTES,
    DEAD_LETTER_REASONS
};

/* What metrics show: of a topic, or of all that have none of their own. Under worker.lock. */
struct dead_letter_tally {
    uint64_t forwarded, dropped[DEAD_LETTER_REASONS], alerts, alert_faults; /* since the start */
    uint64_t ringed; /* as of the last pass: not forwarded any more */
};

struct dead_letter_topic {    /* a topic with rules for its dead jobs; stays for its counts */
    struct table_entry entry; /* by name */
    struct list wanted;       /* in worker.wanted: a control job is to be pushed */
    char *name;
    bool has_rules, needs_callbacks;
    bool is_pushing; /* its control job is on its way to the queue */
    bool is_out;     /* its last control job has not been worked off by this server */
    int64_t push_ms; /* while it is out: no other one before; inner clock */
    uint64_t ringed; /* what it has in the tally */
    struct dead_letter_tally *tally; /* `own`, where it is in worker.shown; else the others' */
    struct dead_letter_tally own;
    struct list shown;
};

TABLE_DECLARE(dead_letter_topics, struct dead_letter_topic, entry)

typedef void dead_letter_step(struct dead_letter_worker *worker);

struct dead_letter_pass {
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    bool is_done;                      /* its control job is acked, not put off */
    struct dead_letter_topic *figures; /* NULL: another server's settings were not heard of yet */
    struct dead_letter rules;
    struct queue_counts counts;
    uint64_t died;              /* ever */
    uint64_t droppable;         /* where they are forwarded: those that could not be */
    uint64_t ringed;            /* of these: those that go round in a ring of topics */
    int64_t lease_until_ms;     /* inner clock, not later than it really ends */
    int64_t until_ms, again_ms; /* inner clock; again: INT64_MAX when there is no need */
    dead_letter_step *const *next_step;
    void *step; /* the step's own memory; given to free() at its end */
};

struct alert_runs { /* commands of alerts that run beside the passes */
    struct list list;
    size_t count;
    int64_t next_room_ms; /* when the next one that finds too many is to look again */
};

struct dead_letter_worker {
    struct dead_letter_worker_options options;
    struct dead_letter_topics topics;
    struct list
        shown; /* topics with a tally of their own; like all that metrics read under `lock` */
    uint32_t shown_count;
    bool has_others;
    struct dead_letter_tally others;
    struct list wanted;
    struct deadline *alarm;
    int64_t alarm_ms; /* INT64_MAX: not set */
    struct dead_letter_pass pass;
    bool has_pass;
    void (*pass_ended)(struct dead_letter_worker *worker);
    uint64_t take;      /* handle of the waiting take; 0: none */
    int64_t take_ms;    /* not before */
    uint32_t calls;     /* of the queue under way */
    bool has_callbacks; /* the topic DEAD_LETTER_CALLBACKS_TOPIC is there, as far as was heard */
    bool wants_callbacks, asks_callbacks;
    bool is_stopping;
    struct turn_end_call stop_call;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    struct alert_runs alert_runs;
    pthread_mutex_t lock; /* of `topics` and the counts in them */
};

/* ---- calls of the queue ---- */

static inline struct queue_reply_to dead_letter_reply_to(struct dead_letter_worker *worker,
                                                         queue_done *done)
{
    worker->calls++;
    return (struct queue_reply_to){.done = done, .owner = worker};
}

/* First thing in each reply of a call made with dead_letter_reply_to. */
static inline void dead_letter_replied(struct dead_letter_worker *worker)
{
    assert(worker->calls > 0);
    worker->calls--;
}
/* Has the queue kept the one job that was pushed? */
bool dead_letter_is_pushed(const struct queue_reply *reply);
/* `counter`: of a dead_letter_topic. */
void dead_letter_count(struct dead_letter_worker *worker, uint64_t *counter, uint64_t step);
/* Something ended: is all of it over, when stopping? */
void dead_letter_check_stopped(struct dead_letter_worker *worker);

/* ---- the pass ---- */

/* Takes `job`, a control job, and makes the steps one after the other; the last one is NULL. Then
 * worker->pass_ended. */
void dead_letter_pass_begin(struct dead_letter_worker *worker, const struct queue_job *job,
                            dead_letter_step *const *steps);
static inline struct slice dead_letter_pass_topic(const struct dead_letter_pass *pass)
{
    return slice_make(pass->topic, pass->topic_bytes);
}
/* A step has done its work. */
void dead_letter_pass_next(struct dead_letter_worker *worker);
/* The reply to a look at the topic: its counts into the pass. False: the pass has ended by it. */
bool dead_letter_pass_read_counts(struct dead_letter_worker *worker,
                                  const struct queue_reply *reply);
/* The queue failed: the control job comes again. */
void dead_letter_pass_fail(struct dead_letter_worker *worker, const char *error);
/* Comes again by then. */
void dead_letter_pass_again(struct dead_letter_worker *worker, int64_t at_ms);
/* True: the server stops, or the pass has taken long enough; the step ends with what it has done. */
bool dead_letter_pass_is_over(struct dead_letter_worker *worker);

/* ---- the steps ---- */

/* dead_letter_alert.c */
dead_letter_step dead_letter_alert;
/* Kills the commands under way. */
void dead_letter_alert_stop(struct dead_letter_worker *worker);
/* dead_letter_forward.c */
dead_letter_step dead_letter_forward, dead_letter_drop;

#endif
