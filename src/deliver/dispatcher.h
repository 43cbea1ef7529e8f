/*
 * dispatcher: a topic on its way out. Takes due jobs, hands them to their endpoints, tells the queue what
 * became of each.
 *
 * A dispatcher has one take outstanding at most, for as many jobs as its window and its rate have room
 * for; what is taken is handed over at once or given back, never stored. Answers go to the queue
 * together, once a turn; one that the queue could not take is tried again as long as the lease
 * lasts. So a job is lost in no case, and comes twice only where its lease ended first.
 *
 * One thread, the reactor's. What metrics read is in `tally`, under the lock of deliver.
 */
#ifndef TARRY_DELIVER_DISPATCHER_H
#define TARRY_DELIVER_DISPATCHER_H

#include "deliver/endpoint.h"
#include "deliver/rate.h"
#include "queue/waiter.h"

struct deliver;

enum {
    DISPATCHER_LEASE_MARGIN_MS = 20 * 1000, /* of a lease, beyond the timeout */
    DISPATCHER_BYTES_MAX = 64 << 20,        /* of bodies in flight, and of one take beyond */
    DISPATCHER_WAIT_MS = 3600 * 1000,       /* of a take: nobody is woken for nothing */
    DISPATCHER_RETRY_MS = 250,              /* where the queue could not */
    DISPATCHER_UNSENT_MS = 1000,            /* a job that could not leave comes back in so long */
    DISPATCHER_PATIENCE_MS = 3600 * 1000,   /* then an attempt counts though it did not leave */
    DISPATCHER_DELAY_MS_MAX = 24 * 3600 * 1000 /* Retry-After beyond is cut */
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

struct dispatcher_tally {
    bool is_told;                         /* it has delivered: metrics show it */
    uint64_t attempts[TARGET_UNSENT + 1]; /* by outcome */
    uint64_t returned[DISPATCHER_RETURNS];
    uint64_t lease_ended, in_flight;
};

struct dispatcher {
    struct table_entry entry; /* by topic; the first member */
    struct deliver *deliver;
    char *topic;
    struct target_setting setting; /* to NULL and !allows_callback: none any more */
    bool is_on;
    bool is_forbidden; /* by the policy file */
    bool is_gone;      /* the topic is no more: the dispatcher goes when nothing is under way */
    uint64_t said;     /* hash of the JSON it was set from, and its size */
    size_t said_bytes;
    uint32_t seen;                     /* the last look at all topics that found it */
    char endpoint[ENDPOINT_BYTES_MAX]; /* of setting.to */
    struct rate rate;
    struct list kicked; /* in deliver.kicked: looks for work at the end of the turn */
    uint64_t take;      /* handle; 0: none */
    uint32_t take_max;
    int64_t wake_ms; /* look for work then; INT64_MAX: when something happens */
    int64_t lag_ms;  /* how much shorter than asked for leases usually look when they come here */
    bool knows_lag;
    uint32_t in_flight, unanswered;
    uint64_t bytes_in_flight; /* of bodies */
    struct dispatcher_tally tally;
};

/* NULL: out of memory. */
struct dispatcher *dispatcher_new(struct deliver *deliver, struct slice topic);
/* Nothing of it is under way. */
void dispatcher_free(struct dispatcher *dispatcher);
/* Follows new settings, which become the dispatcher's; NULL: delivers no more. What is under way ends
 * with the old ones. */
void dispatcher_set(struct dispatcher *dispatcher, struct target_setting *setting);
/* Takes nothing where the policy does not let it deliver, and says so in the log: its jobs would
 * all fail, and another server may have the right one. */
void dispatcher_judge(struct dispatcher *dispatcher);
/* Takes if there is room. At the end of a turn. */
void dispatcher_look(struct dispatcher *dispatcher, int64_t now_ms);
/* Its endpoint changed: it opened, closed, or a probe has ended. */
void dispatcher_reschedule(struct dispatcher *dispatcher);
/* Takes no more. */
void dispatcher_halt(struct dispatcher *dispatcher);
bool dispatcher_is_idle(const struct dispatcher *dispatcher);

/* delivery: a job between its take and the end of its answer. */
struct delivery {
    struct list list; /* in deliver.answers or deliver.again */
    struct dispatcher *dispatcher;
    enum queue_verb verb;
    bool final;
    bool is_again; /* the queue could not take the answer before */
    uint16_t lease_bytes;
    uint32_t body_bytes;
    int64_t delay_ms;
    int64_t lease_until_ms; /* inner clock, about */
    int64_t waiting_ms;     /* since it was due first, when it was taken */
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    char error[JOB_ERROR_BYTES_MAX + 1];
};

/* ---- delivery.c ---- */

/* NULL: out of memory. Ends by an answer of the queue. */
struct delivery *delivery_new(struct dispatcher *dispatcher, const struct queue_job *taken);
/* Hands the job to where it goes, or answers why not. It must stay until endpoints_flush. */
void delivery_send(struct delivery *delivery, const struct job *job);
void delivery_return(struct delivery *delivery, enum dispatcher_return why, int64_t delay_ms);

/* ---- answers.c ---- */

/* The delivery's answer is known: it goes with the others at the end of the turn. */
void answers_add(struct delivery *delivery);
/* Hands over what was gathered. At the end of a turn. */
void answers_flush(struct deliver *deliver);
/* Those that the queue could not take once more. */
void answers_again(struct deliver *deliver);

#endif
