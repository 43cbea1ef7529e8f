/*
 * lane: a topic on its way out. Takes due jobs, hands them to their endpoints, tells the queue what
 * became of each.
 *
 * A lane has one take outstanding at most, for as many jobs as its window and its rate have room
 * for; what is taken is handed over at once or given back, never stored. Answers go to the queue
 * together, once a turn; one that the queue could not take is tried again as long as the lease
 * lasts. So a job is lost in no case, and comes twice only where its lease ended first.
 *
 * One thread, the reactor's. What metrics read is in `tally`, under the lock of deliver.
 */
#ifndef TARRY_DELIVER_LANE_H
#define TARRY_DELIVER_LANE_H

#include "deliver/endpoint.h"
#include "deliver/rate.h"
#include "queue/waiter.h"

struct deliver;

enum {
    LANE_LEASE_MARGIN_MS = 20 * 1000,    /* of a lease, beyond the timeout */
    LANE_BYTES_MAX = 64 << 20,           /* of bodies in flight, and of one take beyond */
    LANE_WAIT_MS = 3600 * 1000,          /* of a take: nobody is woken for nothing */
    LANE_RETRY_MS = 250,                 /* where the queue could not */
    LANE_UNSENT_MS = 1000,               /* a job that could not leave comes back in so long */
    LANE_PATIENCE_MS = 3600 * 1000,      /* then an attempt counts though it did not leave */
    LANE_DELAY_MS_MAX = 24 * 3600 * 1000 /* Retry-After beyond is cut */
};

enum lane_return { /* why a job was given back */
                   LANE_RETURN_RESTS = 0,
                   LANE_RETURN_CROWDED,
                   LANE_RETURN_LATER,
                   LANE_RETURN_SHORT_LEASE,
                   LANE_RETURN_UNSENT,
                   LANE_RETURN_STOPPING,
                   LANE_RETURNS
};

struct lane_tally {
    bool is_told;                         /* it has delivered: metrics show it */
    uint64_t attempts[TARGET_UNSENT + 1]; /* by outcome */
    uint64_t returned[LANE_RETURNS];
    uint64_t lease_ended, in_flight;
};

struct lane {
    struct table_entry entry; /* by topic; the first member */
    struct deliver *deliver;
    char *topic;
    struct target_setting setting; /* to NULL and !allows_callback: none any more */
    bool is_on;
    bool is_forbidden; /* by the policy file */
    bool is_gone;      /* the topic is no more: the lane goes when nothing is under way */
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
    struct lane_tally tally;
};

/* NULL: out of memory. */
struct lane *lane_new(struct deliver *deliver, struct slice topic);
/* Nothing of it is under way. */
void lane_free(struct lane *lane);
/* Follows new settings, which become the lane's; NULL: delivers no more. What is under way ends
 * with the old ones. */
void lane_set(struct lane *lane, struct target_setting *setting);
/* Takes nothing where the policy does not let it deliver, and says so in the log: its jobs would
 * all fail, and another server may have the right one. */
void lane_judge(struct lane *lane);
/* Takes if there is room. At the end of a turn. */
void lane_look(struct lane *lane, int64_t now_ms);
/* Its endpoint changed: it opened, closed, or a probe has ended. */
void lane_rethink(struct lane *lane);
/* Takes no more. */
void lane_halt(struct lane *lane);
bool lane_is_idle(const struct lane *lane);

/* errand: a job between its take and the end of its answer. */
struct errand {
    struct list list; /* in deliver.answers or deliver.again */
    struct lane *lane;
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

/* ---- errand.c ---- */

/* NULL: out of memory. Ends by an answer of the queue. */
struct errand *errand_new(struct lane *lane, const struct queue_job *taken);
/* Hands the job to where it goes, or answers why not. It must stay until endpoints_flush. */
void errand_send(struct errand *errand, const struct job *job);
void errand_give_back(struct errand *errand, enum lane_return why, int64_t delay_ms);

/* ---- answers.c ---- */

/* The errand's answer is known: it goes with the others at the end of the turn. */
void answers_add(struct errand *errand);
/* Hands over what was gathered. At the end of a turn. */
void answers_flush(struct deliver *deliver);
/* Those that the queue could not take once more. */
void answers_again(struct deliver *deliver);

#endif
