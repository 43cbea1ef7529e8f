/*
 * front: beanstalkd's protocol 1.13 in front of a queue: the public face of this room.
 *
 * One front, on one reactor, whose thread it belongs to. A tube is the topic of its name; a job's id is a
 * decimal number, dense over all servers of the store (numbers.h). What a command of the protocol means
 * for the queue stands in docs/beanstalk.md.
 *
 * Life: new before the reactor runs; start once it does; stop: no more connections come, those there are
 * end, jobs that they hold go back; free after the reactor has stopped.
 */
#ifndef TARRY_BEANSTALK_FRONT_H
#define TARRY_BEANSTALK_FRONT_H

#include "net/budget.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "queue/waiter.h"

enum { BEANSTALK_ERROR_BYTES = LISTENER_ERROR_BYTES, BEANSTALK_JOB_BYTES = 65535 };

struct beanstalk_front;
struct quota;

struct beanstalk_options {
    struct reactor *reactor;
    struct queue *queue; /* of that reactor */
    struct waiters *waiters;
    struct listener *listener; /* open; outlives the front */
    struct quota *quota;    /* what limits of pushes are held against; NULL: nothing; outlives it */
    struct budget *budget;  /* outlives it */
    uint32_t job_bytes_max; /* 0: BEANSTALK_JOB_BYTES */
    uint32_t connections_max;
    /* How long a client may be without a command that holds no job and waits for none; with an unfinished line;
     * with an unfinished body; without reading its answers. 0: an hour, 10 s, 120 s, 60 s. */
    int64_t idle_ms, line_ms, body_ms, write_ms;
};

/* NULL: `error` (BEANSTALK_ERROR_BYTES) says why. */
struct beanstalk_front *beanstalk_front_new(const struct beanstalk_options *options, char *error);
void beanstalk_front_start(struct beanstalk_front *front);
/* `stopped` once, never inside the call. */
void beanstalk_front_stop(struct beanstalk_front *front, void (*stopped)(void *ctx), void *ctx);
void beanstalk_front_free(struct beanstalk_front *front); /* NULL is fine */

#endif
