/*
 * limits: background work for the limits. It follows the topics that have a push_rate, counts once
 * a second the jobs of callers that have a job limit, and checks the memory use of the process ten
 * times a second.
 *
 * Memory is the private memory of the process (without mapped files). Above the limit, pushes are
 * refused until the use is LIMITS_CALM percent below it. Meanwhile, memory that malloc keeps in
 * reserve is returned to the system. Everything runs on reactor 0.
 */
#ifndef TARRY_SERVER_LIMITS_H
#define TARRY_SERVER_LIMITS_H

#include "server/config.h"

#include "access/quota.h"
#include "http/front.h"
#include "net/reactor.h"
#include "queue/queue.h"

#include <stdint.h>

/* machine: the memory available to this process. */

/*
 * Returns the minimum of the machine's memory, the limits of the process's control group and its
 * ancestors (versions 2 and 1), and the process's own address space limit. `root` is prepended to
 * the paths of proc and sys; it is "" except in tests. Returns 0 if the size is unknown.
 */
uint64_t machine_memory_bytes(const char *root);

struct limits {
    struct quota *quota;
    struct http_shared *http;
    struct queue *queue;
    struct deadline *alarm;
    uint64_t memory_bytes_max; /* 0: no limit */
    int statm;                 /* descriptor of /proc/self/statm; -1 if not open */
    bool is_spent, is_looking, is_stopped;
    bool wants_again;  /* the topics may have changed meanwhile */
    bool is_following; /* reading all topics, page by page; the last page ended with `after` */
    size_t after_len;
    char after[JOB_TOPIC_BYTES_MAX];
    bool never_sleeps;          /* true if jobs also arrive other than by HTTP */
    void (*on_look)(void *ctx); /* called ten times a second during activity; may be NULL */
    void *on_look_ctx;
    struct letter woken;
    struct reactor *reactor;
    uint64_t came; /* bytes received by all fronts, at the last check */
    int64_t looked_ms, trimmed_ms, audited_ms, busy_ms;
    bool has_left_out; /* the audit had omitted events at the last check */
    void (*on_event)(void *owner, enum queue_event event,
                     struct slice topic); /* of the previous listener */
    void *on_event_owner;
};

/* Creates the quota. Returns false when out of memory. */
bool limits_open(struct limits *limits, const struct config *config);
/* Subscribes to events of the queue, before the reactors run and after all other listeners. */
bool limits_attach(struct limits *limits, struct http_shared *http, struct queue *queue,
                   struct reactor *reactor);
void limits_start(struct limits *limits);
void limits_close(struct limits *limits);

#endif
