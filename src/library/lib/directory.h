/*
 * directory: a queue in a data directory, as the library runs it: the embedded store with its reactors and helper threads
 * inside the process. This room only.
 *
 * A call is a letter to the first reactor, where queue/queue.h is spoken; what it points at stays its caller's, who
 * sleeps until the reply was read, or who made a copy. Takes that wait stand in the lines of queue/waiter.h.
 *
 * All threads of it block all signals, and write to the log function that the queue was opened with.
 */
#ifndef TARRY_LIB_DIRECTORY_H
#define TARRY_LIB_DIRECTORY_H

#include "base/list.h"
#include "lib/state.h"
#include "net/reactor.h"
#include "queue/queue.h"

#include <stdatomic.h>

struct directory;

/* One call on its way there and back: in its caller's memory until it has ended. */
struct directory_call {
    struct letter letter;
    struct directory *directory; /* set by directory_post */
    struct command command;
    /* On the reactor's thread: takes out of the reply what the caller wants, and sets `code`. */
    void (*replied)(struct directory_call *call, const struct queue_reply *reply);
    /* On the reactor's thread, the last that is done to it. NULL: its caller sleeps in directory_wait. */
    void (*ended)(struct directory_call *call);
    int code;
    atomic_uint state; /* of who sleeps: directory.c */
};

/* A take or a pop; `command` is not looked at. */
struct directory_take {
    struct directory_call call;
    struct list list; /* of those that wait; the reactor's */
    struct waiter *waiter;
    int64_t wait_ms;
    uint64_t handle; /* the waiters' */
};

/* Opens options->dir for `queue` and starts its threads: TARRY_OK, or a code with `error` in words. */
int directory_open(struct tarry *queue, const struct tarry_options *options, char *error,
                   size_t error_bytes);
/* Every wait ends with TARRY_STOPPING, and so does each that comes later. */
void directory_end_waits(struct directory *directory);
/* What was answered is on the disk, all threads have ended, the directory is free. No call is under way. */
void directory_close(struct directory *directory);

/* In a forked child: the directory is the parent's alone. */
void directory_leave(struct directory *directory);

/* Sends a call on its way. */
void directory_post(struct directory *directory, struct directory_call *call);
void directory_post_take(struct directory *directory, struct directory_take *take);
/* Sleeps until it has ended; its code. */
int directory_wait(struct directory_call *call);
/* Post and wait in one. */
int directory_run(struct directory *directory, struct directory_call *call);
/* How many waits it ended. */
size_t directory_interrupt(struct directory *directory, uint64_t tag);

/* Jobs that nobody was given: they are ready again. */
void directory_return_jobs(struct directory *directory, struct memory_job *const *jobs,
                           size_t count);

#endif
