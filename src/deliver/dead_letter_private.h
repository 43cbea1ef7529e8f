/*
 * The worker's own structures, shared by its files only.
 *
 * A pass is a chain of calls of the queue, one under way at a time: look at the topic, alert,
 * forward, drop; each step ends by calling the next one. It ends by answering the control job:
 * acked when all is done, given back with a delay when there will be more to do, nacked when the
 * queue failed.
 */
#ifndef TARRY_DELIVER_DEAD_LETTER_PRIVATE_H
#define TARRY_DELIVER_DEAD_LETTER_PRIVATE_H

#include "base/list.h"
#include "deliver/dead_letter_worker.h"
#include "net/reactor.h"

#include <pthread.h>

enum {
    DEAD_LETTER_LEASE_MS = 10 * 1000, /* extended by a pass that goes on; a crash costs so much */
    DEAD_LETTER_PASS_MS = 60 * 1000,  /* a longer pass gives way to other topics */
    DEAD_LETTER_SCHEDULE_MS = 1000,   /* a control job is pushed at most so often */
    DEAD_LETTER_PAGE = 100,           /* jobs looked at together */
    DEAD_LETTER_PAGE_WITH_BODIES = 16
};

enum dead_letter_worker_reason {
    DEAD_LETTER_COUNT = 0,
    DEAD_LETTER_AGE,
    DEAD_LETTER_BYTES,
    DEAD_LETTER_REASONS
};

struct kept { /* a topic with rules for its dead jobs */
    struct list node;
    char *name;
    bool is_followed; /* false: kept for its counts only */
    bool needs_callbacks;
    bool is_wanted;  /* a control job is to be pushed */
    bool is_telling; /* the push is under way */
    int64_t tell_ms; /* not before; inner clock */
    /* since the start of the server; under worker->lock */
    uint64_t forwarded, dropped[DEAD_LETTER_REASONS], alerts, alert_faults;
    uint64_t ringed; /* of its dead jobs, as of the last pass: not forwarded any more */
};

struct alert_note { /* what stands of a topic's alerts in its note */
    uint64_t died_before;
    int64_t last_ms, failed_ms; /* wall clock; 0: never */
    int64_t rest_ms;            /* after a failure */
};

struct pass {
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    struct kept *kept; /* the counts; NULL: another server's settings were not heard of yet */
    struct dead_letter rules;
    struct queue_counts counts;
    uint64_t died;              /* ever */
    uint64_t droppable;         /* where they are forwarded: those that could not be */
    uint64_t ringed;            /* of these: those that go round in a ring of topics */
    int64_t lease_until_ms;     /* inner clock, not later than it really ends */
    int64_t until_ms, again_ms; /* inner clock; again: INT64_MAX when there is no need */
    void *step;                 /* the step's own; given to free() at the end of the pass */
};

struct dead_letter_worker {
    struct dead_letter_worker_options options;
    struct list topics;
    struct deadline *alarm;
    int64_t alarm_ms; /* INT64_MAX: not set */
    struct pass pass;
    bool has_pass;
    uint64_t take;      /* handle of the waiting take; 0: none */
    int64_t take_ms;    /* not before */
    uint32_t calls;     /* of the queue under way */
    bool has_callbacks; /* the topic DEAD_LETTER_CALLBACKS_TOPIC is there, as far as was heard */
    bool wants_callbacks, asks_callbacks;
    bool is_stopping;
    struct turn_end_call stop_call;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    struct list alert_commands; /* under way */
    size_t alert_command_count;
    pthread_mutex_t lock; /* of the counts in `topics` */
};

/* ---- worker.c ---- */
struct queue_reply_to dead_letter_worker_reply_to(struct dead_letter_worker *worker,
                                                  queue_done *done);
/* First thing in each reply of a call made with dead_letter_reply_to. */
void dead_letter_worker_replied(struct dead_letter_worker *worker);
struct kept *dead_letter_worker_find(struct dead_letter_worker *worker, struct slice topic);
/* The alarm rings by then. */
void dead_letter_worker_wake_by(struct dead_letter_worker *worker, int64_t at_ms);
void dead_letter_worker_count(struct dead_letter_worker *worker, uint64_t *counter, uint64_t step);
/* The pass is over: take the next control job. */
void dead_letter_worker_next(struct dead_letter_worker *worker);
void dead_letter_worker_check_stopped(struct dead_letter_worker *worker);

/* ---- dead_letter_tell.c ---- */
void dead_letter_schedule(struct dead_letter_worker *worker, struct kept *kept);
/* Pushes the control jobs whose time has come. */
void dead_letter_schedule_due(struct dead_letter_worker *worker, int64_t now_ms);
/* Makes sure of DEAD_LETTER_CALLBACKS_TOPIC. */
void dead_letter_worker_need_callbacks(struct dead_letter_worker *worker);

/* ---- dead_letter_pass.c ---- */
void dead_letter_pass_begin(struct dead_letter_worker *worker, const struct queue_job *job);
struct slice pass_topic(const struct pass *pass);
/* The steps, in their order: each calls the next when it is done ... */
void dead_letter_alert(struct dead_letter_worker *worker);
void dead_letter_forward(struct dead_letter_worker *worker);
void dead_letter_drop(struct dead_letter_worker *worker);
/* ... and the last one this. */
void dead_letter_pass_done(struct dead_letter_worker *worker);
/* The reply to a look at the topic: its counts into the pass. False: the pass has ended by it. */
bool dead_letter_pass_counts(struct dead_letter_worker *worker, const struct queue_reply *reply);
/* The queue failed: the control job comes again. */
void dead_letter_pass_fail(struct dead_letter_worker *worker, const char *error);
/* Comes again by then. */
void dead_letter_pass_again(struct dead_letter_worker *worker, int64_t at_ms);
/* True: the server stops, or the pass has taken long enough; the step calls dead_letter_pass_done. */
bool dead_letter_pass_is_over(struct dead_letter_worker *worker);
/* The next `ms` are the pass's own, too. */
void dead_letter_pass_extend(struct dead_letter_worker *worker, int64_t ms);

/* ---- dead_letter_alert.c ---- */
void dead_letter_alert_note(struct dead_letter_worker *worker, struct slice topic,
                            const struct alert_note *note, queue_done *done);

/* ---- alert_command.c ---- */
enum {
    ALERT_COMMANDS_MAX = 8,    /* at a time */
    ALERT_REST_MS = 60 * 1000, /* until one that failed is run again; longer than it may run */
    ALERT_REST_KILLED_MS = 300 * 1000 /* ... or that had to be killed: ten times what it ran */
};

/* The command of an alert, which runs beside the passes. */
struct alert_command;
/* `text`: for its standard input; `note`: as it stood before. NULL: out of memory. */
struct alert_command *alert_command_new(struct dead_letter_worker *worker, const char *program,
                                        struct slice text, const struct alert_note *note);
void alert_command_free(struct alert_command *command);
/* Runs it, tells the topic's note and counts what came of it, and frees it. */
void alert_command_start(struct alert_command *command);
/* Kills those under way. */
void alert_commands_kill(struct dead_letter_worker *worker);

/* ---- alert_run.c ---- */
enum { ALERT_RUN_MS_MAX = 30 * 1000 };
enum alert_end { ALERT_END_WELL = 1, ALERT_END_FAILED, ALERT_END_TOO_LONG };
/* Runs `program` with `input` on its standard input and nothing but `environment` (NAME=VALUE, ends
 * by NULL); `done` once, never inside the call. NULL: it could not be started. */
struct alert_run *alert_run_start(struct reactor *reactor, const char *program,
                                  const char *const *environment, struct slice input,
                                  void (*done)(void *ctx, enum alert_end end), void *ctx);
/* Kills it; `done` comes nevertheless. */
void alert_run_kill(struct alert_run *run);

#endif
