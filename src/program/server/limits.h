/*
 * limits: what the server does for limits besides asking them: it hears of topics that have a
 * push_rate, counts the jobs of callers that have a limit of them once a second, and looks ten times
 * a second at how much memory the process uses.
 *
 * Memory is what is the process's own (without files that are mapped). Above the limit pushes are
 * refused until it is LIMITS_CALM percent below; what malloc keeps for later is given back to the
 * system meanwhile. All on reactor 0.
 */
#ifndef TARRY_SERVER_LIMITS_H
#define TARRY_SERVER_LIMITS_H

#include "access/quota.h"
#include "http/front.h"
#include "net/reactor.h"
#include "queue/queue.h"
#include "server/config.h"

enum { LIMITS_CALM = 5 };

struct limits {
    struct quota *quota;
    struct http_shared *http;
    struct queue *queue;
    struct deadline *alarm;
    uint64_t memory_bytes_max; /* 0: no limit */
    int statm;                 /* /proc/self/statm; -1: none */
    bool is_spent, is_looking, is_stopped;
    bool wants_again;  /* they may have changed meanwhile */
    bool is_following; /* all topics, page by page; the last page ended with `after` */
    size_t after_len;
    char after[JOB_TOPIC_BYTES_MAX];
    bool never_sleeps;          /* jobs come from elsewhere than HTTP, too */
    void (*on_look)(void *ctx); /* ten times a second while something happens; NULL: nobody */
    void *on_look_ctx;
    struct letter woken;
    struct reactor *reactor;
    uint64_t came; /* bytes at all fronts, at the last look */
    int64_t looked_ms, trimmed_ms, audited_ms, busy_ms;
    bool has_left_out; /* events of the audit, at the last look */
    void (*on_event)(void *owner, enum queue_event event,
                     struct slice topic); /* of who came before */
    void *on_event_owner;
};

/* The quota is there from then on. False: out of memory. */
bool limits_open(struct limits *limits, const struct config *config);
/* Before the reactors run, after everybody else who wants events of the queue. */
bool limits_attach(struct limits *limits, struct http_shared *http, struct queue *queue,
                   struct reactor *reactor);
void limits_start(struct limits *limits);
void limits_close(struct limits *limits);

#endif
