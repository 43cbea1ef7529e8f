/*
 * life: the rules of a job's life: what a push, a change, a take or an answer makes of a job in a given state. PURE.
 *
 * Stores written in C call these functions. The scripts of Redis (stores/redis/scripts) and the functions of PostgreSQL
 * (stores/sql/postgres/migration_1.sql) follow the same rules in their own languages. tests/support/life_cases.h lists
 * every case with its outcome; tests/unit/queue/test_life.c replays the cases here, tests/contract/directed_life.c in
 * every store.
 *
 * A state is the one that a caller sees: a waiting job whose due has passed is JOB_READY. JOB_FINISHED: no job, but
 * the id is remembered (dedup_window). 0: no job.
 */
#ifndef TARRY_QUEUE_LIFE_H
#define TARRY_QUEUE_LIFE_H

#include "queue/queue.h"

/* The effect of a call on the job. */
enum life_step {
    LIFE_STAYS = 1,  /* nothing changes */
    LIFE_CREATED,    /* push: a new job */
    LIFE_REPLACED,   /* push: a new job in place of the old one */
    LIFE_NEXT,       /* push: the successor of the leased job, in place of an earlier one */
    LIFE_MOVED,      /* change: the job waits with another due or priority */
    LIFE_REQUESTED,  /* change: the holder is asked to cancel */
    LIFE_LEASED,     /* take: the job is leased as it is */
    LIFE_LEASED_NOW, /* take: the job is leased, and its due and first due become now */
    LIFE_EXTENDED,   /* answer: the lease continues */
    LIFE_RETURNED,   /* answer: the job waits, and the attempt does not count */
    LIFE_RETRIED,    /* answer, end of a lease: the attempt failed, and the job waits for another */
    LIFE_DIED,       /* answer, end of a lease, end of the ttl: the job is dead */
    LIFE_ACKED,      /* answer: the job ends */
    LIFE_AGAIN,      /* answer: the job ends and is pushed again, if that push is valid */
    LIFE_CANCELLED,  /* change, answer, end of a lease: the job ends */
    LIFE_EXPIRED     /* end of the ttl: the job ends */
};

struct life {
    enum queue_status status; /* for the caller */
    enum life_step step;
};

/* Returns the outcome of a push onto an id. `on_conflict` is the choice of the push, else of the topic; 0: replace.
 * `is_full`: the topic has no room for another job. `has_next`: the job has a successor. */
struct life life_push(enum job_state state, enum record_conflict on_conflict, bool is_full,
                      bool has_next);

/* Returns the outcome of a cancel, reschedule or run. `delivery` is the last delivery of the job; `meant` the one
 * that the change names by its lease or number (0: no delivery). The due is not checked. */
struct life life_change(const struct queue_change *change, enum job_state state, uint64_t delivery,
                        uint64_t meant);

/* Returns whether the change also removes the successor of the job: a cancel whose conditions hold. */
bool life_drops_next(const struct queue_change *change, enum job_state state, uint64_t delivery,
                     uint64_t meant);

/*
 * The successor of a leased job becomes the job at every end of the lease, with attempt 0. An ack, and a cancel that was
 * requested, count as usual, and the successor as pushed. Every other end counts the successor as a replacement, also
 * a final nack: the job does not die. The id is not remembered as finished.
 *
 * Returns how the lease ended. `step` is from life_answer, with that verb, or from life_lease_end, with verb 0.
 */
enum record_next life_next(enum life_step step, enum queue_verb verb);

/* Returns the outcome of an answer that ends the lease of a job with a successor: `again` pushes nothing. */
enum queue_status life_next_status(struct life answer);

/* Returns the outcome of a take of one job by its id. */
struct life life_pick(enum job_state state);

/* Returns the outcome of an answer with a valid lease. A nack ends as LIFE_RETRIED: life_fail decides whether the
 * job dies. */
struct life life_answer(const struct queue_answer *answer, bool cancel_requested);

/* Returns the push of a job that is acked and pushed again. It points into the job and the answer. */
struct queue_push life_again(const struct job *job, const struct queue_again *again);

/* Returns whether a failed attempt is retried: LIFE_RETRIED or LIFE_DIED. `attempt` counts this one. The outcome is
 * that of the attempt. `policy` is resolved (policy_resolve). */
enum life_step life_fail(enum job_outcome outcome, uint32_t attempt, const struct policy *policy);

/* Returns what becomes of a job whose lease ended without an answer; LIFE_RETRIED as in life_answer. */
enum life_step life_lease_end(bool cancel_requested);

/* Returns what becomes of a ready job at the end of its ttl. */
enum life_step life_expire(const struct topic_settings *settings);

/* Returns when a ready job expires; 0: never. `ttl_ms` is resolved: the job's, else the topic's; 0: no limit. The ttl
 * counts from the first due, but a job can expire only once it is due. */
int64_t life_expire_ms(int64_t first_due_ms, int64_t due_ms, int64_t ttl_ms);

/*
 * Kept jobs. A job that ends as acked, cancelled or expired is kept for life_keep_ms, with
 *
 *   its id, group, batches, meta, history and attempt  always
 *   the holder and the progress of its lease           if it was leased
 *   the result and its type                            if its ack has them
 *   its body and content type                          if the topic has keep_body
 *
 * A job that is purged or replaced is not kept, nor one whose id is a job again at once: after `again`, or because a
 * successor starts. A dead job stays a job. A push of the id removes the kept job.
 */

/* Returns how a job that ends for this reason is kept; 0: it is not kept, and its id is not remembered. */
enum job_end life_end(enum record_reason reason);
/* Returns how long a job that ended so (0: in another way) is kept, after the step of its end; 0: not at all. `has_own`: its
 * push decided, with `own_ms`; else the topic decides. */
int64_t life_keep_ms(enum job_end end, bool has_own, int64_t own_ms,
                     const struct topic_settings *settings);

/*
 * The batches of jobs (job/batch.h). A batch counts its members by their outcome, each member once:
 *
 *   change of a member                                     its outcome
 *   push of a new job                                      → unfinished
 *   push in place of a waiting job, or after a leased one  unchanged: the job stays the member
 *   push in place of a dead job                            dead → unfinished
 *   take; nack, end of a lease with a retry; extend;
 *   return; again; reschedule; run                         unchanged
 *   ack                                                    unfinished → acked
 *   final nack, last attempt, expiry with
 *   dead_letter_expired                                    unfinished → dead
 *   cancel, also of a dead job; requested cancel           unfinished or dead → cancelled
 *   expiry                                                 unfinished → expired
 *   purge; deletion of its topic                           unfinished or dead → cancelled
 *   redrive; take of a dead job by its id                  dead → unfinished
 *   any end of a lease that starts a successor             unchanged: the successor is the member
 *   an answer whose lease has ended                        unchanged
 *
 * The wait ends when the batch is closed and life_batch_waits_for is 0, in the step that makes this true; when wait_at_most
 * has passed since the push; or by a run. From then on the counts stay as they are, whatever becomes of the members:
 * the waiting job is an ordinary job, due `delay` after the end of the wait, or at `at` if that is later.
 *
 *   change of a waiting job       while it waits
 *   push onto its id              QUEUE_WAITS; on_conflict keep: EXISTED, reject: CONFLICT
 *   close                         closed; OK again if it is closed already, also after the wait has ended
 *   the number of members is `members`  closed, in the step of that push
 *   close_within has passed       dead with the error BATCH_NOT_CLOSED, if it is not closed
 *   redrive after that            closed; it waits again
 *   reschedule                    sets the delay after the end of the wait, or the earliest time
 *   run; take by its id           ends the wait now
 *   cancel, purge, deletion       the batch is gone: its members are ordinary jobs
 *
 * A stop (BATCH_STOP at the first death; cancel of the waiting job with its members) closes the batch, counts all waiting members as
 * cancelled, and requests the cancel of the leased ones; their successors are dropped. A dead member that is redriven after a stop is an
 * ordinary job; one that is cancelled or purged counts as cancelled.
 *
 * A push with on_conflict=keep that names a batch of which the job is not a member is a CONFLICT, so that no batch is closed
 * without it.
 *
 * A batch is gone when its waiting job has ended. A job that is pushed with the same id has another batch, which is not that of the
 * earlier members: a batch has a number of its own.
 */
struct life_batch {
    struct batch_counts counts;
    enum batch_on_dead on_dead;
    uint32_t members; /* expected; 0: not given */
    uint8_t depth;    /* of the waiting job as a member; 0: not a member */
    bool is_closed, has_ended;
    bool
        is_stopped; /* its waiting members were cancelled; leased ones are, unless they are acked */
};
/* Returns the batches of a push, with the defaults of a waiting job. Number and depth are those of the store: 0. */
struct job_batch life_batch_of(const struct queue_batch *batch);

#define BATCH_NOT_CLOSED "batch was not closed"

/* Returns the outcome of a member in this state. */
enum batch_outcome life_outcome(enum job_state state);
/* Returns the outcome of a member that ended so (0: it was purged). */
enum batch_outcome life_outcome_of(enum job_end end);
/* Changes the outcome of a member, and closes the batch if it has the expected members. `is_new`: it is a new member, and
 * `before` does not matter. Nothing changes after the end of the wait. */
void life_batch_count(struct life_batch *batch, bool is_new, enum batch_outcome before,
                      enum batch_outcome after);
/* Closes the batch if it has the expected members. */
void life_batch_close_if_full(struct life_batch *batch);
/* Returns whether the wait ends now. */
bool life_batch_is_over(const struct life_batch *batch);
/* Returns whether the death of a member cancels the others: with BATCH_STOP, while the wait lasts. */
bool life_batch_stops(const struct life_batch *batch, enum batch_outcome after);
/* Returns whether a new member may join: QUEUE_OK, NO_BATCH, BATCH_CLOSED, TOO_MANY_MEMBERS, BAD_OPTION (too deep).
 * `batch` NULL: the batch does not exist. `has_parent`: the push has the lease of a member of it. */
enum queue_status life_batch_join(const struct life_batch *batch, bool has_parent);
/* Returns the outcome of a push onto a member, or onto the waiting job of a batch: QUEUE_OK, CONFLICT (the push names another
 * batch), or WAITS. `names_other`: it names a batch that is not that of the job. */
enum queue_status life_batch_replace(bool waits, bool names_other);

#endif
