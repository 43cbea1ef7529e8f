/*
 * dead_letter_pass: one pass over a topic's dead jobs, from its control job to the answer of that
 * job; and the worker's structures, which only its own files use.
 *
 * A pass is a chain of queue calls, one at a time: read the topic's counts, alert, forward, drop.
 * Each step ends with dead_letter_pass_next, which begins the next step. The pass ends by answering
 * the control job: it is acked when all work is done, given back with a delay if there will be more
 * to do, and nacked if the queue failed.
 */
#ifndef TARRY_DELIVER_DEAD_LETTER_PASS_H
#define TARRY_DELIVER_DEAD_LETTER_PASS_H

#include "base/list.h"
#include "base/table.h"
#include "deliver/dead_letter_worker.h"

#include <assert.h>
#include <pthread.h>

enum {
    DEAD_LETTER_LEASE_MS = 10 * 1000, /* extended during long passes; the delay after a crash */
    DEAD_LETTER_PASS_MS = 60 * 1000,  /* a longer pass yields to other topics */
    DEAD_LETTER_PAGE = 100,           /* jobs per page */
    DEAD_LETTER_PAGE_WITH_BODIES = 16
};

enum dead_letter_drop_reason {
    DEAD_LETTER_COUNT = 0,
    DEAD_LETTER_AGE,
    DEAD_LETTER_BYTES,
    DEAD_LETTER_REASONS
};

/* Counters for metrics, of one topic or of all topics without their own. Protected by
 * worker.lock. */
struct dead_letter_tally {
    uint64_t forwarded, dropped[DEAD_LETTER_REASONS], alerts, alert_faults; /* since the start */
    uint64_t ringed; /* as of the last pass: jobs that are no longer forwarded */
};

struct dead_letter_topic {    /* a topic with rules for its dead jobs; kept for its counters */
    struct table_entry entry; /* by name */
    struct list wanted;       /* in worker.wanted if a control job has to be pushed */
    char *name;
    bool has_rules, needs_callbacks;
    bool is_pushing; /* its control job is being pushed */
    bool is_out;     /* this server has not processed its last control job yet */
    int64_t push_ms; /* while is_out: earliest time of the next one; inner clock */
    uint64_t ringed; /* its part of the tally */
    /* `own` if the topic is in worker.shown, otherwise that of the others */
    struct dead_letter_tally *tally;
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
    bool is_done;                      /* the control job is to be acked, not delayed */
    struct dead_letter_topic *figures; /* NULL if another server's settings have not arrived yet */
    struct dead_letter rules;
    struct queue_counts counts;
    uint64_t died;          /* total number of jobs that died */
    uint64_t droppable;     /* if dead jobs are forwarded: those that could not be */
    uint64_t ringed;        /* those of them that are in a cycle of topics */
    int64_t lease_until_ms; /* inner clock, not later than the actual end */
    /* inner clock; again_ms is INT64_MAX if no further pass is needed */
    int64_t until_ms, again_ms;
    dead_letter_step *const *next_step;
    void *step; /* memory of the step, freed with free() at its end */
};

struct alert_runs { /* alert commands that run independently of the passes */
    struct list list;
    size_t count;
    int64_t next_room_ms; /* time of the next attempt of a pass that finds too many */
};

struct dead_letter_worker {
    struct dead_letter_worker_options options;
    struct dead_letter_topics topics;
    /* topics with their own tally; protected by `lock`, like everything that metrics read */
    struct list shown;
    uint32_t shown_count;
    bool has_others;
    struct dead_letter_tally others;
    struct list wanted;
    struct deadline *alarm;
    int64_t alarm_ms; /* INT64_MAX if not set */
    struct dead_letter_pass pass;
    bool has_pass;
    void (*pass_ended)(struct dead_letter_worker *worker);
    uint64_t take;      /* handle of the waiting take, or 0 */
    int64_t take_ms;    /* earliest time of the next take */
    uint32_t calls;     /* queue calls in progress */
    bool has_callbacks; /* the topic DEAD_LETTER_CALLBACKS_TOPIC exists, as far as known */
    bool wants_callbacks, asks_callbacks;
    bool is_stopping;
    struct iteration_end_call stop_call;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    struct alert_runs alert_runs;
    pthread_mutex_t lock; /* protects `topics` and their counters */
};

/* ---- queue calls ---- */

static inline struct queue_reply_to dead_letter_reply_to(struct dead_letter_worker *worker,
                                                         queue_done *done)
{
    worker->calls++;
    return (struct queue_reply_to){.done = done, .owner = worker};
}

/* Has to be called first in each reply of a call made with dead_letter_reply_to. */
static inline void dead_letter_replied(struct dead_letter_worker *worker)
{
    assert(worker->calls > 0);
    worker->calls--;
}
/* Returns true if the queue has stored the one pushed job. */
bool dead_letter_is_pushed(const struct queue_reply *reply);
/* Adds to a counter of a dead_letter_topic. */
void dead_letter_count(struct dead_letter_worker *worker, uint64_t *counter, uint64_t step);
/* Completes the stop if everything has ended; called whenever something ends. */
void dead_letter_check_stopped(struct dead_letter_worker *worker);

/* ---- the pass ---- */

/* Begins a pass with a control job and runs the steps in order; the last one is NULL. Calls
 * worker->pass_ended at the end. */
void dead_letter_pass_begin(struct dead_letter_worker *worker, const struct queue_job *job,
                            dead_letter_step *const *steps);
static inline struct slice dead_letter_pass_topic(const struct dead_letter_pass *pass)
{
    return slice_make(pass->topic, pass->topic_bytes);
}
/* Begins the next step; called when a step is complete. */
void dead_letter_pass_next(struct dead_letter_worker *worker);
/* Copies the counts from a reply about the topic into the pass. Returns false if this ended the
 * pass. */
bool dead_letter_pass_read_counts(struct dead_letter_worker *worker,
                                  const struct queue_reply *reply);
/* Ends the pass after a queue error; the control job will be retried. */
void dead_letter_pass_fail(struct dead_letter_worker *worker, const char *error);
/* Requests another pass by that time. */
void dead_letter_pass_again(struct dead_letter_worker *worker, int64_t at_ms);
/* Returns true if the server stops or the pass has taken too long; the step then ends with what it
 * has done. */
bool dead_letter_pass_is_over(struct dead_letter_worker *worker);

/* ---- the steps ---- */

/* dead_letter_alert.c */
dead_letter_step dead_letter_alert;
/* Kills the running commands. */
void dead_letter_alert_stop(struct dead_letter_worker *worker);
/* dead_letter_forward.c */
dead_letter_step dead_letter_forward, dead_letter_drop;

#endif
