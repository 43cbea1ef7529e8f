/*
 * directory: the library's queue in a data directory: the embedded store with its reactors and
 * helper threads inside the process. Used only in this room.
 *
 * A call is a letter to the first reactor and uses the interface of queue/queue.h. The memory it
 * points at belongs to the caller, which sleeps until the reply has been read or has made a copy.
 * Waiting takes are kept in the lists of queue/waiter.h.
 *
 * All threads of a directory block all signals and write to the log function that the queue was
 * opened with.
 */
#ifndef TARRY_LIB_DIRECTORY_H
#define TARRY_LIB_DIRECTORY_H

#include "base/list.h"
#include "lib/state.h"
#include "net/reactor.h"
#include "queue/queue.h"

#include <stdatomic.h>

struct directory;

/* A call to a reactor. It stays in its caller's memory until it has ended. */
struct directory_call {
    struct letter letter;
    struct directory *directory; /* set by directory_post */
    struct command command;
    /* Copies the results out of the reply and sets `code`. Runs on the reactor's thread. */
    void (*replied)(struct directory_call *call, const struct queue_reply *reply);
    /* Last access to the call, on the reactor's thread. NULL: the caller sleeps in
     * directory_wait. */
    void (*ended)(struct directory_call *call);
    int code;
    atomic_uint state; /* of the sleeping caller; see directory.c */
};

/* A take or a pop; `command` is unused. */
struct directory_take {
    struct directory_call call;
    struct list list; /* in the list of waiting takes; used by the reactor */
    struct waiter *waiter;
    int64_t wait_ms;
    uint64_t handle; /* assigned by queue/waiter.h */
};

/* A wait for the end of a job; its command is the push, if any. */
struct directory_await {
    struct directory_call call;
    struct list list; /* in the list of waits; used by the reactor */
    struct waiter *waiter;
    int64_t wait_ms;
    struct ends_wait *wait;
    bool is_pushing; /* the reply of the push is still to come */
    int stopped;     /* code of an interrupt meanwhile; 0: none */
    struct queue_push push;
    struct queue_batch batch; /* of the push */
    struct command *copy;     /* of the push, if it outlives the caller's memory */
};

/* Opens options->dir for `queue` and starts its threads. Returns TARRY_OK, or a code with a
 * message in `error`. */
int directory_open(struct tarry *queue, const struct tarry_options *options, char *error,
                   size_t error_bytes);
/* Ends all current and future waits with TARRY_STOPPING. */
void directory_end_waits(struct directory *directory);
/* Writes everything that was answered to disk, ends all threads and releases the directory. No
 * call may be in progress. */
void directory_close(struct directory *directory);

/* Abandons the directory in a forked child, because it belongs to the parent. */
void directory_leave(struct directory *directory);

/* Sends a call to the reactor without waiting for its reply. */
void directory_post(struct directory *directory, struct directory_call *call);
void directory_post_take(struct directory *directory, struct directory_take *take);
void directory_post_await(struct directory *directory, struct directory_await *await);
/* Sleeps until the call has ended and returns its code. */
int directory_wait(struct directory_call *call);
/* Posts a call, waits for it and returns its code. */
int directory_run(struct directory *directory, struct directory_call *call);
/* Interrupts the waits with this tag and returns their number. */
size_t directory_interrupt(struct directory *directory, uint64_t tag);

/* await.c: converts the push of a wait, if it has one. Returns TARRY_OK, or why it is rejected. */
int lib_await_read_push(struct directory_await *await, struct tarry *queue);

/* Returns how many kept jobs all shards have dropped before their time. */
uint64_t directory_dropped(struct directory *directory);

/* Returns jobs that were not handed to a caller, so that they are ready again. */
void directory_return_jobs(struct directory *directory, struct memory_job *const *jobs,
                           size_t count);

#endif
