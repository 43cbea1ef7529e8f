/*
 * state: the library's handle and what the files of this room share: entering and leaving, waiting
 * takes, and reading the caller's structs. Used only in this room.
 *
 * In memory, one lock guards the whole queue. Entering processes everything that is due. Leaving
 * serves the waiters and schedules a wake-up for the next event: either one of the waiting takes
 * (the leader) or the timer behind the descriptor. In a directory (directory.h), calls bypass the
 * lock, which then guards only the calls to be dispatched.
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

/* A waiting take, or a wait for the end of a job: on its caller's stack, or part of a submitted call. */
struct waiter {
    struct list list;
    const struct queue_take *take; /* NULL: a wait for the end of a job */
    bool pops;
    uint64_t tag;
    int64_t until_ms;         /* inner clock; INT64_MAX: no limit */
    struct memory_job **jobs; /* room for take->max; 1 for the end of a job */
    size_t count;
    int code;
    bool is_done;
    bool polls;           /* sleeps in poll instead of on `wake` */
    bool watches;         /* tries to watch the wall clock, if descriptors are available */
    pthread_cond_t *wake; /* condition of the sleeping caller; NULL: `ended` is called */
    void (*ended)(struct tarry *queue, struct waiter *waiter);
    /* Of a wait for the end of a job. */
    struct slice topic, id;        /* after a push: those of `push_id`, and of the push */
    const struct tarry_push *push; /* pushed when the wait begins; NULL: none */
    struct tarry *queue;
    struct memory_wait end; /* in memory */
    bool has_ended;         /* with end_code; lib_serve wakes the waiter */
    int end_code;
    char push_id[ULID_BYTES]; /* if the id was generated */
};

/* A thread that makes callbacks in tarry_dispatch; on its stack. */
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
    unsigned forks;           /* when the queue was made */
    volatile char *fork_mark; /* 1, and 0 in a child; NULL: unsupported, compare `pid` */
    pid_t pid;
    struct memory *memory; /* NULL: in a directory */
    struct memory_options options;
    struct engine_now now; /* time of the last entry or wake-up */
    struct ulid ulid;
    bool is_ready; /* a topic has ready jobs that have not been offered to the waiters */
    bool has_ends; /* a job has ended whose waiters have not been woken */
    struct list waiters;
    int64_t waits_ms;      /* lower bound of the next end of a wait; INT64_MAX: no wait ends */
    struct waiter *leader; /* waiter that wakes at leader_ms for the next event; NULL: no leader */
    int64_t leader_ms;
    atomic_uint callers; /* calls in progress, also those without the lock and in callbacks */
    atomic_bool is_closing;
    /* Submitted calls that wait for their callback; see submit.c. */
    struct list done;
    size_t done_count;
    struct list callback_threads;
    size_t submitted_waiters;
    int epoll_fd, event_fd, timer_fd; /* -1: not requested */
    int wall_fd;                      /* in the epoll set; readable when the wall clock was set */
    bool is_wall_watched;             /* wall_fd is armed */
    int wake_fd, watch_fd; /* the leader's, while jobs wait by the wall clock; -1: not opened */
    int64_t timer_ms;      /* INT64_MAX: not set */
};

/* ---- tarry.c ---- */

/* Implements tarry_open. If may_hold is set, a directory may have TARRY_TEST_CLOCK too, and then
 * the caller moves queue->clock itself; used by the contract suite. */
int lib_open(const struct tarry_options *options, bool may_hold, struct tarry **out, char *error,
             size_t error_bytes);

/* ---- lock.c ---- */

/* Takes the lock and processes everything that is due. Returns TARRY_OK, or another code without
 * holding the lock. */
int lib_enter(struct tarry *queue);
/* Serves the waiters and releases the lock. */
void lib_leave(struct tarry *queue);
/* Releases the lock without serving the waiters. */
void lib_unlock(struct tarry *queue);
/* Begins and ends a call of a queue in a directory, which needs no lock. */
int lib_begin(struct tarry *queue);
void lib_end(struct tarry *queue);
/* Returns whether this is a child of the process that opened the queue. */
bool lib_is_forked(const struct tarry *queue);
void lib_fork_mark_make(struct tarry *queue);
void lib_fork_mark_free(struct tarry *queue);

/* ---- wait.c ---- */

/* Takes or pops the jobs that are available now, without waiting. */
int lib_waiter_try(struct tarry *queue, struct waiter *waiter);
/* Adds the waiter to the waiting takes for `wait_ms`. */
void lib_waiter_add(struct tarry *queue, struct waiter *waiter, int64_t wait_ms);
/* Ends the wait with `code`: removes the waiter from the list and notifies its owner. */
void lib_waiter_end(struct tarry *queue, struct waiter *waiter, int code);
/* Adds a waiter and waits until its wait has ended. The caller holds the lock. */
void lib_waiter_wait(struct tarry *queue, struct waiter *waiter, int64_t wait_ms);
/* Gives available jobs to the waiters and ends the waits that have timed out, or whose job has ended. */
void lib_serve(struct tarry *queue);
/* Schedules a wake-up for the next event. */
void lib_set_alarm(struct tarry *queue);
/* Of a wait for the end of a job: */
/* Gives the job as it is now to the waiter. Returns TARRY_OK, NOT_FOUND or NO_MEMORY. */
int lib_await_show(struct tarry *queue, struct waiter *waiter);
/* Removes the wait from the queue, unless its job has ended. */
void lib_await_cancel(struct tarry *queue, struct waiter *waiter);

/* ---- descriptor.c: no effect if the descriptor was not requested ---- */

/* Opens the descriptors. Returns false and sets errno on failure. */
bool lib_descriptors_open(struct tarry *queue);
void lib_descriptors_close(struct tarry *queue);
void lib_event_set(struct tarry *queue);
void lib_event_clear(int fd);
/* Sets the timer to the queue's next event at `next_ms` (inner clock) or to the next end of a
 * wait, whichever is earlier. */
void lib_set_timer(struct tarry *queue, int64_t next_ms);

/* ---- wall_watch.c ---- */

/* Opens a descriptor that becomes readable when the wall clock is set while the watch is on.
 * Returns -1 on failure. */
int lib_wall_watch_open(void);
void lib_wall_watch_set(int fd, bool is_on);
void lib_wall_watch_clear(int fd);
/* Sleeps as the leader until `until_ms`, until it is woken, or until the wall clock is set.
 * Releases the lock meanwhile. Returns false without sleeping if the descriptors are
 * unavailable. */
bool lib_leader_sleep(struct tarry *queue, struct waiter *waiter, int64_t until_ms);
/* Wakes a caller that sleeps in a take. */
void lib_waiter_wake(struct tarry *queue, struct waiter *waiter);
void lib_leader_fds_close(struct tarry *queue);

/* ---- item.c ---- */

/* Reads a caller's struct that begins with its size. Shorter structs are filled up with zeroes;
 * longer ones are cut if the surplus is zero. Returns false if it is not such a struct, or is
 * NULL. */
bool lib_read(void *into, size_t bytes, const void *from);
/* Returns the size of an array's items, or 0 if it is NULL or not an array of such structs. */
size_t lib_stride(const void *items, size_t bytes_min);
/* Reads a backoff. Returns false if it has durations but no kind, or waits that do not match its kind. */
bool lib_backoff_read(struct backoff *out, uint32_t kind, int64_t first_ms, int64_t max_ms,
                      const uint32_t *steps_ms, size_t steps);
/* Carries out a call about items between enter and leave. Writes the results to `out` unless it
 * is NULL. */
int lib_run_items(struct tarry *queue, enum tarry_call_kind kind, const void *items, size_t n,
                  struct tarry_result *out);

/* Carries out the push of a wait and sets the topic and id of the waiter. Returns TARRY_OK, or why it was rejected. */
int lib_await_push(struct tarry *queue, struct waiter *waiter);
/* Converts the push of a wait for the queue, with its batches in `room`. Returns TARRY_OK, or why it is rejected. */
int lib_await_push_read(struct tarry *queue, const struct waiter *waiter, struct queue_push *out,
                        struct queue_batch *room);

/* ---- take.c ---- */

/* Reads the options of a take and copies its topics into `topics`. Returns TARRY_OK or the
 * error. */
int lib_read_take(const struct tarry_take *from, struct queue_take *out,
                  struct slice topics[TARRY_TAKE_TOPICS_MAX], uint64_t *tag);

/* ---- await.c: the waiter is for the end of a job; lib_await_begin in memory only ---- */

/* Reads the options of a wait into the waiter. Returns TARRY_OK or the error. */
int lib_read_await(const struct tarry_await *from, struct waiter *waiter);
/* Pushes, if requested, and begins the wait. *waits false: it has ended, with the code that is returned. */
int lib_await_begin(struct tarry *queue, struct waiter *waiter, bool *waits);

/* ---- topic.c ---- */

/* Validates and carries out a call about a topic. `write`, which may be NULL, receives the topic
 * and `into`. Returns a code, which may be CREATED. */
int lib_topic_call(struct tarry *queue, const struct queue_topic_call *call,
                   void (*write)(const struct queue_topic *, size_t, void *), void *into);

/* ---- submit.c ---- */

/* Returns whether this thread is in a callback of the queue. The caller holds the lock. */
bool lib_is_in_callback(const struct tarry *queue);
/* Frees the submitted calls that have ended. */
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
