/*
 * dispatchers: the data of a dispatcher (dispatcher.h) and of all of them, and their scheduling, for
 * this room.
 */
#ifndef TARRY_DELIVER_DISPATCHERS_H
#define TARRY_DELIVER_DISPATCHERS_H

#include "base/buckets.h"
#include "base/table.h"
#include "deliver/endpoint.h"
#include "deliver/rate.h"
#include "queue/lateness.h"
#include "queue/waiter.h"

#include <pthread.h>

enum {
    DISPATCHER_LEASE_MARGIN_MS = 20 * 1000, /* lease time in addition to the timeout */
    DISPATCHER_RETRY_MS = 250               /* after a queue error */
};

enum dispatcher_return { /* reason why a job was given back */
                         DISPATCHER_RETURN_RESTS = 0,
                         DISPATCHER_RETURN_CONGESTED,
                         DISPATCHER_RETURN_LATER,
                         DISPATCHER_RETURN_SHORT_LEASE,
                         DISPATCHER_RETURN_UNSENT,
                         DISPATCHER_RETURN_STOPPING,
                         DISPATCHER_RETURNS
};

/* Counters for metrics, of one topic or of all topics without their own. */
struct dispatcher_tally {
    uint64_t attempts[TARGET_UNSENT + 1]; /* by outcome */
    uint64_t returned[DISPATCHER_RETURNS];
    uint64_t results_lost[TARGET_LOSSES];
    uint64_t lease_ended, in_flight;
};

struct dispatcher {
    struct table_entry entry; /* by topic */
    struct dispatchers *all;
    char *topic;
    struct target_setting setting; /* no delivery if `to` is NULL and allows_callback is false */
    bool is_on;
    bool is_counted;   /* counted in metrics, by its name or among the others */
    bool is_forbidden; /* by the policy file */
    bool is_gone; /* the topic was deleted: the dispatcher is freed when nothing is in progress */
    uint64_t setting_hash; /* hash of the JSON of the setting, and its size */
    size_t setting_bytes;
    uint32_t seen; /* number of the last scan of all topics that found it; for deliver.c */
    char endpoint[ENDPOINT_BYTES_MAX]; /* of setting.to */
    struct rate rate;
    /* in dispatchers.kicked if it looks for work at the end of the loop iteration */
    struct list kicked;
    uint64_t take;   /* handle of the waiting take, or 0 */
    int64_t wake_ms; /* time of the next look for work; INT64_MAX: on the next event */
    int64_t lag_ms;  /* typical difference between requested and remaining lease time on arrival */
    bool knows_lag;
    uint32_t in_flight, unanswered;
    uint64_t bytes_in_flight;       /* bytes of bodies, and reserved for results */
    int64_t loss_logged_ms;         /* process clock; the last log line on a lost result */
    struct dispatcher_tally *tally; /* `own` if in `shown`, otherwise that of the others */
    struct dispatcher_tally own;
    struct list shown; /* in dispatchers.shown */
};

TABLE_DECLARE(dispatcher_table, struct dispatcher, entry)

struct dispatchers_env { /* outlives the dispatchers */
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct guard *guard;
    struct lateness *lateness;
    struct tracer *tracer;       /* NULL if tracing is off */
    struct endpoints *endpoints; /* dispatchers_init sets its `changed` */
    /* called after an answer of the queue: possibly nothing is in progress any more */
    void (*answered)(void *owner);
    void *owner;
};

struct dispatchers { /* the dispatchers of a server */
    struct dispatchers_env env;
    struct dispatcher_table table;
    struct iteration_end_call iteration_end;
    struct list kicked;  /* dispatchers that have to look for work */
    struct list answers; /* deliveries whose result is known */
    struct list again;   /* deliveries whose answer the queue could not accept */
    uint32_t unanswered; /* total of all dispatchers */
    uint32_t answering;  /* batches of answers in progress */
    struct deadline *alarm;
    int64_t alarm_ms, again_ms; /* INT64_MAX if not set */
    bool is_ending;             /* the queue is gone and must not be called any more */

    pthread_mutex_t lock; /* protects the following fields, `table`, and the dispatchers' tallies */
    struct list shown;    /* dispatchers with their own tally, oldest first */
    uint32_t shown_count;
    bool has_others;
    struct dispatcher_tally others;
};

/* ---- scheduling of dispatchers and their deliveries ---- */

/* Schedules the work at the end of the loop iteration. */
static inline void dispatchers_at_iteration_end(struct dispatchers *dispatchers)
{
    if (!dispatchers->is_ending)
        reactor_once_at_iteration_end(dispatchers->env.reactor, &dispatchers->iteration_end);
}

/* Makes the dispatcher look for work at the end of this loop iteration. */
static inline void dispatcher_kick(struct dispatcher *dispatcher)
{
    list_remove(&dispatcher->kicked);
    list_add_last(&dispatcher->all->kicked, &dispatcher->kicked);
    dispatchers_at_iteration_end(dispatcher->all);
}

/* Sets the alarm to that time unless it is earlier. */
static inline void dispatchers_wake_by(struct dispatchers *dispatchers, int64_t at_ms)
{
    if (at_ms >= dispatchers->alarm_ms)
        return;
    dispatchers->alarm_ms = at_ms;
    deadline_set(dispatchers->alarm, at_ms);
}

#endif
