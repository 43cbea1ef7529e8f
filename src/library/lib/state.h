/*
 * state: what a handle of the library is, and what the files of this room share: coming in and going out, takes that
 * wait, and what callers pass in their structs. This room only.
 *
 * In memory one lock guards all of it. Who comes in lets happen what is due; who goes out serves those who wait and
 * sees to it that somebody wakes for what comes next: one of those who wait in a take (the leader) or the
 * timer behind the descriptor. In a directory (directory.h) calls go their own way, and the lock guards what is to be
 * dispatched.
 */
#ifndef TARRY_LIB_STATE_H
#define TARRY_LIB_STATE_H

#include "base/clock.h"
#include "base/list.h"
#include "job/ulid.h"
#include "memory/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tarry.h>

/* A take that waits: on its caller's stack, or behind a call that was submitted. */
struct waiter {
    struct list list;
    const struct queue_take *take;
    bool pops;
    uint64_t tag;
    int64_t until_ms;         /* inner clock; INT64_MAX: for ever */
    struct memory_job **jobs; /* room for take->max */
    size_t count;
    int code;
    bool is_done;
    bool polls;           /* it sleeps in poll, not by `wake` */
    bool watches;         /* it wants to; where there are no descriptors it does without */
    pthread_cond_t *wake; /* of who sleeps in it; NULL: `ended` is called */
    void (*ended)(struct tarry *queue, struct waiter *waiter);
};

/* A thread in tarry_dispatch, which makes callbacks: on its stack. */
struct callback_thread {
    struct list list;
    pthread_t thread;
};

struct directory;

struct tarry {
    pthread_mutex_t lock;
    struct directory *directory; /* NULL: in memory */
    struct clock clock;
    bool has_test_clock;
    volatile char *fork_mark; /* 1, and 0 in a child; NULL: the kernel cannot, `pid` tells */
    pid_t pid;
    struct memory *memory; /* NULL: in a directory */
    struct memory_options options;
    struct engine_now now; /* as of the last coming in or waking */
    struct ulid ulid;
    bool is_ready; /* a topic has ready jobs that nobody was asked about */
    struct list waiters;
    int64_t waits_ms;      /* no wait among them ends before; INT64_MAX: none ends */
    struct waiter *leader; /* who wakes at leader_ms, when what is next is due; NULL: nobody */
    int64_t leader_ms;
    atomic_uint callers; /* calls under way, before and behind the lock and in callbacks, too */
    atomic_bool is_closing;
    /* Calls that were submitted and wait for their callback: submit.c. */
    struct list done;
    size_t done_count;
    struct list callback_threads;
    size_t submitted_waiters;
    int epoll_fd, event_fd, timer_fd; /* -1: not asked for */
    int wall_fd;                      /* in the epoll: readable when the wall clock was set */
    bool is_wall_watched;             /* by it */
    int wake_fd,
        watch_fd; /* the leader's, while jobs wait by the wall clock; -1: there was no need yet */
    int64_t timer_ms; /* INT64_MAX: not set */
};

/* ---- tarry.c ---- */

/* As tarry_open. may_hold: a directory, too, may have TARRY_TEST_CLOCK, and then whoever asked moves queue->clock himself: for
 * the contract suite. */
int lib_open(const struct tarry_options *options, bool may_hold, struct tarry **out, char *error,
             size_t error_bytes);

/* ---- lock.c ---- */

/* Holds the lock, and what is due has happened: TARRY_OK. Else why not, and nothing is held. */
int lib_enter(struct tarry *queue);
/* Serves those who wait, and lets the lock go. */
void lib_leave(struct tarry *queue);
/* Lets it go, and nothing else. */
void lib_unlock(struct tarry *queue);
/* The same without the lock: calls of a queue in a directory. */
int lib_begin(struct tarry *queue);
void lib_end(struct tarry *queue);
/* In a child of the process that opened it. */
bool lib_is_forked(const struct tarry *queue);
void lib_fork_mark_make(struct tarry *queue);
void lib_fork_mark_free(struct tarry *queue);

/* ---- wait.c ---- */

/* What there is for it just now. */
int lib_waiter_try(struct tarry *queue, struct waiter *waiter);
/* It stands in line from now on. */
void lib_waiter_add(struct tarry *queue, struct waiter *waiter, int64_t wait_ms);
/* It ends so: it is taken off the line, and told. */
void lib_waiter_end(struct tarry *queue, struct waiter *waiter, int code);
/* Gives those who wait what there is; ends waits that are over. */
void lib_serve(struct tarry *queue);
/* Sees to it that somebody wakes for what comes next. */
void lib_set_alarm(struct tarry *queue);

/* ---- descriptor.c: all do nothing where it was not asked for ---- */

/* False, with errno: there is none to be had. */
bool lib_descriptors_open(struct tarry *queue);
void lib_descriptors_close(struct tarry *queue);
void lib_event_set(struct tarry *queue);
void lib_event_clear(int fd);
/* What comes next in the queue, inner clock: the timer is set by it and by the ends of waits. */
void lib_set_timer(struct tarry *queue, int64_t next_ms);

/* ---- wall_watch.c ---- */

/* A descriptor that becomes readable when the wall clock is set while it is on; -1: there is none to be had. */
int lib_wall_watch_open(void);
void lib_wall_watch_set(int fd, bool is_on);
void lib_wall_watch_clear(int fd);
/* The leader sleeps until then, until it is woken, or until the wall clock is set; the lock is free meanwhile. False: there are no
 * descriptors for that, and it has not slept. */
bool lib_leader_sleep(struct tarry *queue, struct waiter *waiter, int64_t until_ms);
/* One that sleeps in a take of its own. */
void lib_waiter_wake(struct tarry *queue, struct waiter *waiter);
void lib_leader_fds_close(struct tarry *queue);

/* ---- item.c ---- */

/* A struct of the caller's whose size comes first, as this library knows it: shorter ones filled with zeroes, longer
 * ones cut where what is cut is zero. False: not such a struct, or NULL. */
bool lib_read(void *into, size_t bytes, const void *from);
/* The size of the items of an array. 0: not an array of such structs, or NULL. */
size_t lib_stride(const void *items, size_t bytes_min);
/* Whether one says how long a backoff is and not of which kind. */
bool lib_backoff_lacks_kind(uint32_t backoff, int64_t first_ms, int64_t max_ms);
/* Carries out a call of items, inside enter and leave. Results are written to `out` where it is given. */
int lib_run_items(struct tarry *queue, enum tarry_call_kind kind, const void *items, size_t n,
                  struct tarry_result *out);

/* ---- take.c ---- */

/* What the call says; the topics are copied into `topics`. TARRY_OK or what is wrong. */
int lib_read_take(const struct tarry_take *from, struct queue_take *out,
                  struct slice topics[TARRY_TAKE_TOPICS_MAX], uint64_t *tag);

/* ---- topic.c ---- */

/* A call that was not checked; `write`, which may be NULL, shows the topic to `into`. A code, CREATED too. */
int lib_topic_call(struct tarry *queue, const struct queue_topic_call *call,
                   void (*write)(const struct queue_topic *, size_t, void *), void *into);

/* ---- submit.c ---- */

/* Whether this thread is in a callback of the queue. Under the lock. */
bool lib_is_in_callback(const struct tarry *queue);
/* Frees what was submitted and has ended. */
void lib_submitted_free(struct tarry *queue);

static inline int lib_code(enum queue_status status)
{
    return (int)status;
}

static inline struct slice lib_text(const char *text)
{
    return text ? slice_of(text) : (struct slice){0};
}

#endif
