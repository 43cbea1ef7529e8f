/*
 * dispatcher: a topic on its way out. It takes the topic's due jobs, hands them to their endpoints,
 * and tells the queue what became of each.
 *
 * A dispatcher has one take outstanding at most, for as many jobs as its window and its rate have
 * room for; what is taken is handed over at once or given back, never stored. Answers of all
 * dispatchers go to the queue together, once a turn; one that the queue could not take is tried
 * again as long as the lease lasts. So a job is lost in no case, and comes twice only where its
 * lease ended first.
 *
 * A topic without delivery has a dispatcher, too, where it has an extension: so its end is noticed.
 *
 * One thread, the reactor's. `table` and what metrics read are under `lock`.
 */
#ifndef TARRY_DELIVER_DISPATCHER_H
#define TARRY_DELIVER_DISPATCHER_H

#include "base/buckets.h"
#include "base/table.h"
#include "deliver/endpoint.h"
#include "deliver/rate.h"
#include "queue/lateness.h"
#include "queue/waiter.h"

#include <pthread.h>

enum {
    DISPATCHER_LEASE_MARGIN_MS = 20 * 1000, /* of a lease, beyond the timeout */
    DISPATCHER_RETRY_MS = 250               /* where the queue could not */
};

enum dispatcher_return { /* why a job was given back */
                         DISPATCHER_RETURN_RESTS = 0,
                         DISPATCHER_RETURN_CROWDED,
                         DISPATCHER_RETURN_LATER,
                         DISPATCHER_RETURN_SHORT_LEASE,
                         DISPATCHER_RETURN_UNSENT,
                         DISPATCHER_RETURN_STOPPING,
                         DISPATCHER_RETURNS
};

/* What metrics show: of a topic, or of all that have none of their own. */
struct dispatcher_tally {
    uint64_t attempts[TARGET_UNSENT + 1]; /* by outcome */
    uint64_t returned[DISPATCHER_RETURNS];
    uint64_t lease_ended, in_flight;
};

struct dispatcher {
    struct table_entry entry; /* by topic */
    struct dispatchers *all;
    char *topic;
    struct target_setting setting; /* to NULL and !allows_callback: none any more */
    bool is_on;
    bool is_counted;       /* metrics tell of it, by its name or as one of the others */
    bool is_forbidden;     /* by the policy file */
    bool is_gone;          /* the topic is no more: the dispatcher goes when nothing is under way */
    uint64_t setting_hash; /* of the JSON it was set from, and its size */
    size_t setting_bytes;
    uint32_t seen;                     /* the last look at all topics that found it; of deliver.c */
    char endpoint[ENDPOINT_BYTES_MAX]; /* of setting.to */
    struct rate rate;
    struct list kicked; /* in dispatchers.kicked: looks for work at the end of the turn */
    uint64_t take;      /* handle of the waiting take; 0: none */
    int64_t wake_ms;    /* look for work then; INT64_MAX: when something happens */
    int64_t lag_ms;     /* how much shorter than asked for leases usually are when they come here */
    bool knows_lag;
    uint32_t in_flight, unanswered;
    uint64_t bytes_in_flight;       /* of bodies */
    struct dispatcher_tally *tally; /* `own`, where it is in `shown`; else the others' */
    struct dispatcher_tally own;
    struct list shown; /* in dispatchers.shown */
};

TABLE_DECLARE(dispatcher_table, struct dispatcher, entry)

struct dispatchers_env { /* outlives them */
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct guard *guard;
    struct lateness *lateness;
    struct tracer *tracer;         /* NULL: none */
    struct endpoints *endpoints;   /* its `changed` is set by dispatchers_init */
    void (*answered)(void *owner); /* the queue has answered: maybe nothing is under way any more */
    void *owner;
};

struct dispatchers { /* those of one server */
    struct dispatchers_env env;
    struct dispatcher_table table;
    struct turn_end_call turn_end;
    struct list kicked;  /* dispatchers that look for work */
    struct list answers; /* deliveries whose answer is known */
    struct list again;   /* deliveries whose answer the queue could not take */
    uint32_t unanswered; /* deliveries of all dispatchers */
    uint32_t answering;  /* batches of answers under way */
    struct deadline *alarm;
    int64_t alarm_ms, again_ms; /* INT64_MAX: not set */
    bool is_ending;             /* the queue is gone: nothing is asked of it any more */

    pthread_mutex_t lock; /* of what is below, of `table`, and of the dispatchers' tallies */
    struct list shown;    /* dispatchers with a tally of their own, the oldest first */
    uint32_t shown_count;
    bool has_others;
    struct dispatcher_tally others;
};

/* False: out of memory; dispatchers_fini is fine then, too. */
bool dispatchers_init(struct dispatchers *dispatchers, const struct dispatchers_env *env);
/* After the reactor has stopped and the endpoints are closed. */
void dispatchers_fini(struct dispatchers *dispatchers);

/* The topic's setting `deliver` is this JSON now; empty: it delivers no more. What is under way
 * ends with the old setting. `is_gone`: the topic has no extension at all, or is no more. Returns
 * the topic's dispatcher; NULL: there is no need of one, or no memory. */
struct dispatcher *dispatchers_follow(struct dispatchers *dispatchers, struct slice topic,
                                      struct slice json, bool is_gone);
/* The policy file was read again. A dispatcher takes nothing where the policy does not let it
 * deliver, and says so in the log: its jobs would all fail, and another server may have the right
 * one. */
void dispatchers_judge(struct dispatchers *dispatchers);
/* All look for work when this turn ends: the queue's clock was moved. */
void dispatchers_look_again(struct dispatchers *dispatchers);
/* Takes no more. */
void dispatchers_halt(struct dispatchers *dispatchers);
/* Is nothing under way? Once halted it stays so. */
static inline bool dispatchers_are_idle(const struct dispatchers *dispatchers)
{
    return dispatchers->answering == 0 && dispatchers->unanswered == 0;
}

/* ---- for dispatchers and their deliveries: when there is something to do ---- */

/* What is left for the end of the turn is done there. */
static inline void dispatchers_at_turn_end(struct dispatchers *dispatchers)
{
    if (!dispatchers->is_ending)
        reactor_once_at_turn_end(dispatchers->env.reactor, &dispatchers->turn_end);
}

/* The dispatcher looks for work when this turn ends. */
static inline void dispatcher_kick(struct dispatcher *dispatcher)
{
    list_remove(&dispatcher->kicked);
    list_add_last(&dispatcher->all->kicked, &dispatcher->kicked);
    dispatchers_at_turn_end(dispatcher->all);
}

/* The alarm rings by then. */
static inline void dispatchers_wake_by(struct dispatchers *dispatchers, int64_t at_ms)
{
    if (at_ms >= dispatchers->alarm_ms)
        return;
    dispatchers->alarm_ms = at_ms;
    deadline_set(dispatchers->alarm, at_ms);
}

#endif
