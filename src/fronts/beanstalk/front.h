/*
 * front: beanstalkd's protocol 1.13 in front of a queue. This is the public interface of the room.
 *
 * A front runs on one reactor and belongs to its thread. A tube is the topic of the same name. A
 * job's id is a decimal number, dense over all servers of the store (put.h). docs/beanstalk.md
 * documents how each command maps to the queue.
 *
 * Life cycle: new before the reactor runs; start once it runs; stop closes all connections, accepts
 * no more and returns the jobs that they hold; free after the reactor has stopped.
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
    struct queue *queue; /* a queue of the same reactor */
    struct waiters *waiters;
    struct listener *listener; /* open; must outlive the front */
    struct quota
        *quota; /* enforces the limits of pushes; NULL: no limits; must outlive the front */
    struct budget *budget;  /* must outlive the front */
    uint32_t job_bytes_max; /* 0: BEANSTALK_JOB_BYTES */
    uint32_t connections_max;
    /* Time limits for a client that holds no job, awaits no job and sends no command; for an
     * unfinished line; for an unfinished body; for answers that the client does not read. 0 selects
     * the default: an hour, 10 s, 120 s, 60 s. */
    int64_t idle_ms, line_ms, body_ms, write_ms;
};

/* Returns NULL on failure, with the reason in `error` (BEANSTALK_ERROR_BYTES). */
struct beanstalk_front *beanstalk_front_new(const struct beanstalk_options *options, char *error);
void beanstalk_front_start(struct beanstalk_front *front);
/* Calls `stopped` once, never before this function returns. */
void beanstalk_front_stop(struct beanstalk_front *front, void (*stopped)(void *ctx), void *ctx);
void beanstalk_front_free(struct beanstalk_front *front); /* accepts NULL */

#endif
