/*
 * queue: the interface of a delay queue for all rooms above it.
 *
 * A call is a value, a `struct command`. All calls enter through one function, queue_submit; queue_push(),
 * queue_take() … wrap it for callers. Fronts and pushers include only this file. Each implementation (local, redis)
 * is a table of three functions behind the door.
 *
 * Rules
 *   1. A `struct queue` is a handle that belongs to one thread (one reactor). Every call is made there, and every
 *   callback comes there.
 *   2. Every call ends in exactly one reply, also while the queue stops. The reply never comes inside the call
 *   itself.
 *   3. Arguments behind pointers (slices, arrays) need only be valid during the call. Pointers in a reply are valid
 *   only during the callback.
 *   4. A change is answered when it is as durable as the queue promises. take, get, list and stats do not wait for
 *   the disk; get and list may show a change whose own answer is not sent yet.
 *   5. Replies to different calls come in any order. Items of one call that name the same job are carried out in
 *   their order.
 *   6. Times are milliseconds since 1970. Delays are relative, counted from the call and rounded up.
 *   7. Callers need not check anything: the door checks topics, ids and limits item by item and rejects bad items
 *   with a status. It also applies the rules of the caller (queue/caller.h).
 */
#ifndef TARRY_QUEUE_QUEUE_H
#define TARRY_QUEUE_QUEUE_H

#include "base/clock.h"
#include "job/batch.h"
#include "job/event.h"
#include "job/record.h"

/* ---- statuses: rows of queue/status.c, which defines a stable code and a sentence for each ---- */

enum queue_status {
    /* Done (ack, nack, extend, settings, …); reschedule and run: the job has its new due. */
    QUEUE_OK = 0,
    QUEUE_CREATED,
    QUEUE_REPLACED,
    /* Unchanged: on_conflict keep, the id finished within dedup_window, or `once` was used within its time. */
    QUEUE_EXISTED,
    /* cancel: the job will not be delivered; nack, return, again: a cancel had been requested */
    QUEUE_CANCELLED,

    QUEUE_NOT_FOUND,   /* no such job (or finished), or no such topic */
    QUEUE_CONFLICT,    /* on_conflict reject: the id exists; result.state is its state */
    QUEUE_LEASED,      /* a leased job cannot be replaced, cancelled or rescheduled */
    QUEUE_DEAD_STATE,  /* a dead job cannot be rescheduled or run: redrive it */
    QUEUE_LEASE_ENDED, /* the lease ended, was answered, or never existed */
    QUEUE_BAD_TOPIC,
    QUEUE_BAD_ID,
    QUEUE_BAD_OPTION, /* value out of range; result.detail names the option */
    QUEUE_BODY_TOO_BIG,
    QUEUE_TOO_MANY_TOPICS,
    QUEUE_BAD_CURSOR,
    QUEUE_NO_SPACE, /* the disk is full: pushes are rejected (Redis: all changes) */
    QUEUE_NO_MEMORY,
    QUEUE_STOPPING, /* the server is shutting down */
    /* The path of the data directory leads elsewhere: changes are rejected. Whether calls in progress took effect
     * is not certain. */
    QUEUE_DIRECTORY_MOVED,
    QUEUE_UNAVAILABLE, /* the store is unreachable or failed: the outcome is unknown */
    /* Statuses of the parts of a queue that is moved into another queue (handover.h). A caller receives one only
     * if the move took too long; nothing was done. */
    QUEUE_ELSEWHERE, /* push: the part accepts no new jobs and has no job of this id, or the topic was moved to or from one shard meanwhile */
    QUEUE_MOVING,    /* the job is being moved to another part */
    /* Push of a new job: the topic has max_jobs jobs. With several shards each allows its share, rounded up. No
     * other call ends with this status. */
    QUEUE_TOPIC_FULL,
    QUEUE_REQUESTED,   /* cancel of a leased job: it is cancelled unless its holder acks it */
    QUEUE_DRAINING,    /* push: the server accepts no new jobs, as requested */
    QUEUE_UNSUPPORTED, /* the store does not support this */
    /* Statuses of the rules of the caller (queue/caller.h). */
    QUEUE_TOO_FAST,       /* push: the rate of the caller is exceeded */
    QUEUE_TOPIC_TOO_FAST, /* push: the push_rate of the topic is exceeded */
    QUEUE_CALLER_FULL,    /* push: the topics of the caller have the maximum number of jobs */
    QUEUE_MEMORY_SPENT,   /* push: the process has reached its memory limit */
    QUEUE_FORBIDDEN,      /* the caller lacks the required scope for this topic */
    QUEUE_OWN_TOPIC,      /* push: the topic is reserved for tarry */
    QUEUE_RESULT_TOO_BIG, /* ack, nack: the result is above the limit; the job stays leased */
    QUEUE_GROUP_FULL,     /* push of a new job: its group has the maximum number of jobs */
    QUEUE_TOO_MANY_GROUPS, /* settings of a group: the topic has GROUP_SETTINGS_MAX groups with settings */
    QUEUE_BATCH_CLOSED, /* push of a member: the batch is closed, and `parent` is not the lease of one of its members */
    QUEUE_NO_BATCH,         /* push of a member: no job of this topic and id waits for members */
    QUEUE_WAITS,            /* push: a job that waits for its members cannot be replaced */
    QUEUE_TOO_MANY_BATCHES, /* push: BATCHES_MAX jobs of the store wait for members */
    QUEUE_TOO_MANY_MEMBERS, /* push: the batch has BATCH_MEMBERS_MAX members */
    QUEUE_NOT_EMPTY, /* settings: group_order and one_shard change only while no job waits or is leased; Redis counts
                      * the jobs of groups only if few are delayed */
    QUEUE_STATUSES /* number of statuses */
};

/* ---- calls ---- */

enum queue_due {
    QUEUE_DUE_NOW = 1,
    QUEUE_DUE_DELAY,
    QUEUE_DUE_AT,
    QUEUE_DUE_UNCHANGED /* reschedule only */
};

struct queue_when {
    enum queue_due due;
    int64_t ms; /* DELAY: from now, 0..10 years. AT: wall clock; in the past means now */
};

enum { QUEUE_PRIORITY_UNSET = -1 };
enum { QUEUE_ONCE_MS = 5 * 60 * 1000 }; /* how long a `once` is remembered by default */

/* The history of a job before it was brought here (import). */
struct queue_past {
    uint32_t attempt;   /* deliveries so far; the next one is attempt + 1 */
    bool dead;          /* the job is kept as dead; its due is informational */
    struct slice error; /* last error; at most JOB_ERROR_BYTES_MAX */
};

/* The batches of a push (job/batch.h). A push with `waits` is a waiting job; a push with a topic and an id is a member of the
 * batch of that waiting job; both are possible. Only in stores with queue_info.batches. */
struct queue_batch {
    struct slice topic, id; /* of the waiting job; empty: not a member */
    struct slice
        parent; /* the lease of a member of the batch: adds a member after the close; or empty */
    bool waits;
    enum batch_on_dead on_dead; /* 0: BATCH_GO */
    uint32_t members;           /* the batch closes itself when it has so many; 0: by a close */
    int64_t wait_at_most_ms;    /* 0: BATCH_WAIT_MS */
    int64_t close_within_ms;    /* 0: BATCH_CLOSE_MS */
    /* Of a waiting job from another queue: the outcomes of members that ended there. Those that are dead or unfinished come as
     * jobs. */
    struct batch_counts past;
    /* For implementations: the delivery of `parent`, if it is a lease of theirs; 0: it is not. */
    uint64_t parent_key, parent_delivery;
    /* For parts of a queue: the number of the batch (0: it does not exist), the depth of its waiting job, what a dead member does,
     * whether a new member may join, and the number of the join, as a join returned them (queue_batch_call). `was_asked`: a join was
     * sent, for a push to `part`; no other part stores it. `is_home`: that part answered the join. */
    uint64_t number, join;
    uint32_t part;
    uint8_t depth;
    enum batch_on_dead dead_member;
    enum queue_status joined;
    bool was_asked, is_home;
};

/* A push. `once` makes it idempotent: if the same `once` was used in the topic within its time, the push changes nothing
 * and its result is EXISTED, also if that job has ended. Only a push that stores its job is remembered. Each part of a
 * queue remembers by itself (queue_ops.same_part). */
struct queue_push {
    struct slice topic;
    struct slice id; /* empty: the queue generates one */
    bool id_is_made; /* the id was generated by the queue for this push, so no job has it */
    /* Push by tarry itself for an existing job: allowed also while draining, and to reserved topics. */
    bool is_own;
    struct slice group; /* of its job (job/flow.h); empty: no group */
    struct slice content_type, meta, body;
    struct queue_when when;
    int32_t priority;                 /* or QUEUE_PRIORITY_UNSET */
    enum record_conflict on_conflict; /* 0: the topic's setting */
    struct policy policy;
    struct queue_past past; /* of a job from another queue; zero: no past */
    struct slice once;   /* 1 to JOB_ONCE_BYTES_MAX printable ASCII characters; empty: no group */
    int64_t once_for_ms; /* how long `once` is remembered; 0: QUEUE_ONCE_MS */
    bool has_keep_finished; /* keep_finished_ms overrides the setting of the topic */
    int64_t keep_finished_ms;
    /* Push and wait; NULL: no wait. After the reply of the call, if the result is CREATED or REPLACED, or EXISTED with
     * a job that has not finished, one more reply comes here when that job ends: that of COMMAND_AWAIT. The wait
     * begins in the step of the push, so it misses no end. Only in stores with queue_info.awaits. */
    const struct queue_reply_to *ended;
    const struct queue_batch
        *batch; /* NULL: the job does not wait for others and is not a member of a batch */
};

/* The new values of a job that is acked and pushed again. Its topic, id, meta and policy stay the same; its attempts start
 * again. */
struct queue_again {
    struct queue_when when;
    int32_t priority;          /* QUEUE_PRIORITY_UNSET: as before */
    bool has_body;             /* else body and content type stay the same */
    struct slice content_type; /* of the new body; empty: as before */
    struct slice body;
};

enum queue_verb { QUEUE_ACK = 1, QUEUE_NACK, QUEUE_EXTEND, QUEUE_RETURN, QUEUE_AGAIN };

/* The answer of a consumer. RETURN: the job was not worked on, because the delivery did not reach its consumer or
 * the consumer returned it; the job is ready again and the attempt does not count. AGAIN: acks the job and pushes it
 * again in one step (result CREATED), or changes nothing. The job may come in place of itself in a full topic, and its
 * id is not remembered. */
struct queue_answer {
    enum queue_verb verb;
    struct slice lease;
    /* nack, return: delay before the next delivery. -1: nack: the backoff; return: no delay. */
    int64_t delay_ms;
    bool final;        /* nack: no further attempt, the job is dead immediately */
    bool has_priority; /* nack: the job gets this priority */
    uint16_t priority;
    struct slice error; /* nack: reason; cut at JOB_ERROR_BYTES_MAX */
    /* extend: from now; 0: the lease time of the take (after a restart: of the job or its topic). */
    int64_t lease_ms;
    const struct queue_again *again; /* again; else NULL */
    /* ack, final nack: the result, for the kept job and those who wait for its end; at most JOB_RESULT_BYTES_MAX. The
     * type may be empty. */
    struct slice result, result_type;
    struct slice progress; /* extend: at most JOB_PROGRESS_BYTES_MAX of UTF-8; empty: unchanged */
    /* ack, nack, return: no job of the group of this job is delivered for this time; without a group: of its topic. 0: no hold. If
     * a hold is in force, the later end holds. Only in stores with queue_info.groups. */
    int64_t hold_ms;
};

#define QUEUE_DELIVERY_NONE UINT64_MAX /* the delivery of no job */

/* CLOSE: the batch of this waiting job gets no more members. OK also if it is closed already; NOT_FOUND: no such job, or it
 * does not wait for members. */
enum queue_change_verb { QUEUE_CANCEL = 1, QUEUE_RESCHEDULE, QUEUE_RUN, QUEUE_CLOSE };

struct queue_change {
    enum queue_change_verb verb;
    struct slice topic, id;
    struct queue_when when; /* reschedule */
    int32_t priority;       /* reschedule; or QUEUE_PRIORITY_UNSET */
    /* cancel: only if the job is dead and `delivery` was its last one; else CONFLICT with its state, and nothing
     * is changed. */
    bool only_dead;
    uint64_t delivery;
    /* cancel: only if the job waits and this was the lease of its last delivery; else CONFLICT with its state, and
     * nothing is changed. A lease from elsewhere matches no job. Empty: no condition. */
    struct slice lease;
    /* cancel: if the job is leased, requests the cancel from its holder, who receives the request with the next
     * extend. Every end of the lease other than an ack cancels the job, including `again`. */
    bool request;
    bool members; /* cancel of a waiting job: also of its members, as BATCH_STOP does */
};

struct queue_take {
    const struct slice *topics; /* in order of preference */
    size_t topic_count;
    struct slice id; /* only this job, if it is ready, delayed or dead; one topic; empty: any */
    /* Order over all topics: by priority, then due, then push order. Over several shards, jobs of one priority
     * come shard by shard. */
    bool by_priority;
    /* by_priority, only for parts of a queue: no job with a higher number than priority_max. */
    bool is_bounded;
    uint16_t priority_max;
    uint32_t max;          /* 1..QUEUE_TAKE_MAX; parts, by_priority: also 0, for `next` only */
    int64_t lease_ms;      /* 0: the job's, else the topic's, else the default */
    struct slice consumer; /* name of the consumer, stored with the leases; empty: no name */
    enum job_way way;      /* how the jobs are delivered, for events and figures */
};

struct queue_find {
    struct slice topic, id;
};

struct queue_list {
    struct slice topic;
    enum job_state state; /* 0: all states of jobs; JOB_FINISHED: the kept jobs, newest first */
    uint32_t limit;       /* 1..QUEUE_LIST_MAX */
    struct slice cursor;  /* empty: from the start; else from an earlier reply */
    bool with_body;
    /* READY: only the job that a take by priority would return first is needed. A store or shard that has it
     * available returns only this job; others ignore the flag. */
    bool first_only;
};

/* How a part treats settings that move the topic to one shard, or spread it over all again (flow_is_one_shard). The queue of all parts decides
 * this; callers leave it 0. */
enum queue_place {
    QUEUE_PLACE_ANY = 0, /* a queue with one part */
    QUEUE_PLACE_KEPT,  /* rejected with QUEUE_ELSEWHERE, because another call has moved the topic */
    QUEUE_PLACE_MOVED, /* NOT_EMPTY if the part has jobs of the topic, also dead or finished ones */
    QUEUE_PLACE_UNDONE /* always; ends a move that another part has rejected */
};

enum queue_topic_verb {
    QUEUE_TOPIC_GET = 1,
    QUEUE_TOPIC_PUT,    /* replaces all settings; creates the topic if it does not exist */
    QUEUE_TOPIC_DELETE, /* deletes the topic and all its jobs, including leased ones */
    QUEUE_TOPIC_PAUSE,  /* no deliveries until resumed, or for a time; jobs still fall due */
    QUEUE_TOPIC_RESUME,
    /* Drops jobs in `state`; 0: all but leased ones, which are never purged, and kept ones. */
    QUEUE_TOPIC_PURGE,
    QUEUE_TOPIC_REDRIVE, /* dead jobs become ready, and their attempts start again */
    /* `makes`: a delete in all parts begins; otherwise it is called off. Only for parts of a queue. */
    QUEUE_TOPIC_MARK
};

struct queue_topic_call {
    enum queue_topic_verb verb;
    struct slice topic;
    struct topic_settings settings; /* put */
    enum queue_place place;         /* put; only for parts of a queue */
    enum job_state state;           /* purge */
    struct slice id;                /* redrive: only this one; empty: all */
    uint64_t max;                   /* redrive: maximum number; 0: all */
    int64_t pause_ms;               /* pause: duration; 0: until resumed */
    /* pause: end by the wall clock, in place of pause_ms, so that all parts use the same time; 0: not given. Only
     * for parts of a queue. */
    int64_t pause_until_ms;
    /* pause: creates the topic if it does not exist. Only for parts of a queue: each needs the pause before its
     * first job of the topic. */
    bool makes;
};

enum queue_group_verb {
    QUEUE_GROUP_GET = 1,
    QUEUE_GROUP_PUT, /* replaces all settings of the group; creates the topic if it does not exist */
    QUEUE_GROUP_DELETE, /* the group has the settings of its topic again, and no hold; NOT_FOUND only without the topic */
    /* Between parts of a queue: holds the group, or with an empty name the topic, as an answer does (queue_answer.hold_ms). Creates the
     * topic if it does not exist. */
    QUEUE_GROUP_HOLD
};

struct queue_group_call {
    enum queue_group_verb verb;
    struct slice topic, group;      /* the group may be empty: the jobs without a group */
    struct group_settings settings; /* put */
    int64_t hold_ms;                /* hold */
};

enum queue_groups_order {
    QUEUE_GROUPS_BY_NAME = 0,
    QUEUE_GROUPS_BY_READY, /* most first, then by name */
    QUEUE_GROUPS_BY_LEASED,
    QUEUE_GROUPS_HELD /* by name, only groups that are held */
};

struct queue_groups_call {
    struct slice topic;
    enum queue_groups_order order;
    uint32_t limit;      /* 1..QUEUE_LIST_MAX */
    struct slice cursor; /* empty: from the start; else from an earlier reply */
};

enum {
    QUEUE_BATCH_MAX = 1000,
    QUEUE_TAKE_MAX = 1000,
    QUEUE_TAKE_TOPICS_MAX = 64,
    QUEUE_LIST_MAX = 1000,
    QUEUE_LEASE_TEXT_BYTES_MAX = 64
};

/* A request for the number of waiting jobs by due. */
struct queue_forecast_call {
    struct slice topic; /* empty: all */
    /* Wall clock, a whole minute: the start of the first minute. The first hour starts at the whole hour before
     * it. Given by the caller, so that all parts of a queue use the same time. */
    int64_t from_ms;
    /* Only the first FORECAST_SOON minutes are needed; the others and the hours are undefined. A store with
     * queue_info.soon then neither samples jobs nor reads those that are due later. */
    bool soon;
};

enum queue_batch_verb {
    QUEUE_BATCH_JOIN = 1, /* whether a new member may join; OK: it is under way */
    QUEUE_BATCH_LEAVE,    /* that push has ended */
    QUEUE_BATCH_VERSION,  /* the version of the counts of the asked part */
    QUEUE_BATCH_LEASE,    /* which batch the holder of a lease is a member of */
    QUEUE_BATCH_REPORT,   /* the counts of another part */
    QUEUE_BATCH_ORDER     /* orders to a part with members */
};

/* A call about a batch, from one part of a queue to another (queue/batch_parts.h). */
struct queue_batch_call {
    enum queue_batch_verb verb;
    uint32_t part;              /* join, leave: of the member; report: the reporting one */
    struct slice topic, id;     /* join, lease: the waiting job */
    struct slice lease;         /* lease */
    uint64_t join;              /* leave: the number of the join */
    uint64_t number;            /* join: the batch of the parent, or 0; otherwise of the batch */
    uint64_t version;           /* leave, report */
    struct batch_counts counts; /* report */
    bool is_stopped;            /* report */
    uint8_t orders;             /* order */
};

/* The highest byte of the number of a batch is that of its home, if a queue has several parts: the part plus 1. */
enum { QUEUE_BATCH_HOME_SHIFT = 56 };

struct queue_topics_page {
    struct slice after; /* a name; empty: from the first topic */
    uint32_t limit;     /* 0: all */
};

/* ---- a call as a value ---- */

/* The kinds of calls, with their results:
 *   PUSH     one job each. Results CREATED, REPLACED, EXISTED or a rejection.
 *   ANSWER   ack, nack, extend, return, again. Results OK, CREATED (again), LEASE_ENDED, CANCELLED (nack, return,
 * again) or a rejection.
 *   CHANGE   cancel, reschedule, run. Results OK, CANCELLED, REQUESTED, NOT_FOUND, LEASED, DEAD_STATE or a
 * rejection.
 *   FIND     whether such jobs exist, and their state. Results OK or NOT_FOUND.
 *   TAKE     ready jobs under a lease, at most `max`; no jobs if there is no ready job or all topics are paused. Does not
 * wait. Topics that do not exist have no jobs. With an id: also while its topic is paused; NOT_FOUND, or LEASED if
 * a consumer holds the job.
 *   GET      one job with its body. Status OK or NOT_FOUND. With `history`, in a store that keeps one: `jobs` are
 * the events, oldest first; of each event attempt, taken_ms, consumer and error are set, due_ms is its time and
 * content_type its kind (acked, died, ...). With `finished`: kept jobs are also found.
 *   LIST     jobs of a topic by due, then push order; kept jobs by their end, newest first.
 *   TOPIC    settings, pause, purge, … of one topic. Status OK (put: CREATED for a new topic) or NOT_FOUND.
 *   TOPICS   topics with counts, by name: all, or a limited number after a name. A store may return further
 * topics, whose counts may be incomplete.
 *   AWAIT    one job, when it has ended: OK with the job, which is finished or dead, once its end is durable. At once:
 * NOT_FOUND for an unknown job, OK with a job that is dead or kept. NOT_FOUND also if the job is purged, replaced or
 * deleted. With `cancels`: ends the wait with that destination, whose reply is then CANCELLED. Only in stores with
 * queue_info.awaits; the caller cancels every wait that it does not need.
 *   GROUP    settings of one group of a topic. Status OK with the group, or NOT_FOUND.
 *   GROUPS   the groups of a topic with ready or leased jobs, a hold or settings. Status OK or NOT_FOUND. Only in stores with queue_info.groups,
 * as GROUP.
 *   BATCH    calls between the parts of a queue about a batch (queue/batch_parts.h). Results OK or a rejection; of a join
 * and a lease also the batch.
 *   FORECAST when the delayed jobs of a topic, or of all topics, fall due: from counts, never by a scan of jobs.
 * Status OK or NOT_FOUND. */
enum command_kind {
    COMMAND_PUSH = 1,
    COMMAND_ANSWER,
    COMMAND_CHANGE,
    COMMAND_TAKE,
    COMMAND_GET,
    COMMAND_LIST,
    COMMAND_TOPIC,
    COMMAND_TOPICS,
    COMMAND_FORECAST,
    COMMAND_FIND,
    COMMAND_AWAIT,
    COMMAND_GROUP,
    COMMAND_GROUPS,
    COMMAND_BATCH /* only between parts of a queue */
};

/* The result of the check of an item by the door (queue_submit). */
struct queue_check {
    enum queue_status status; /* QUEUE_OK: the item is valid */
    uint32_t retry_s;         /* seconds after which the item may be admitted; 0: unknown */
    const char *detail;       /* the bad option, for QUEUE_BAD_OPTION; else NULL */
    uint64_t limit;           /* limit of the caller that was exceeded; else 0 */
};

/* A call. Callers do not set `status` and `checks`: the door sets them, and no layer behind it checks again. */
struct command {
    enum command_kind kind;
    /* take, get, list, topic, forecast: QUEUE_OK, or why the whole call is rejected. */
    enum queue_status status;
    size_t count; /* push, answer, change, find, batch: number of items, at most QUEUE_BATCH_MAX */
    const struct queue_check *checks; /* of each item; NULL: all items are valid */
    union {
        const struct queue_push *pushes;
        const struct queue_answer *answers;
        const struct queue_change *changes;
        const struct queue_find *finds;
        const struct queue_batch_call *batches;
        struct queue_take take;
        struct {
            struct slice topic, id;
            bool history;  /* the history of the job, in place of the job */
            bool finished; /* a kept job is also found */
        } get;
        struct {
            struct slice topic, id;
            const struct queue_reply_to *cancels; /* NULL: begins a wait */
        } await;
        struct queue_list list;
        struct queue_topic_call topic;
        struct queue_topics_page topics;
        struct queue_forecast_call forecast;
        struct queue_group_call group;
        struct queue_groups_call groups;
    };
};

/* ---- replies ---- */

struct queue_result { /* one per item of push, answer, change, find */
    enum queue_status status;
    enum job_state state; /* of the job now, or of the job in conflict; 0: no state */
    /* push, change and find: the job's. answer: the id of the job if the lease was valid and the queue has the id
     * at hand, else empty. */
    struct slice topic, id;
    int64_t due_ms;         /* wall clock; 0: no due */
    int64_t lease_until_ms; /* extend; wall clock */
    bool cancel_requested;  /* extend: a cancel has been requested */
    uint32_t retry_s;       /* as in queue_check, with the two next fields */
    const char *detail;
    uint64_t limit;
    /* Between parts of a queue: of an answer whose hold has begun, the group of its job, which may be empty, and above the topic. Else
     * the topic of an answer is empty. */
    struct slice group;
    /* Between parts of a queue: of a join or a lease the number of the batch; of a join, the depth of its waiting job and what a
     * dead member does, and as version the number of the join, or 0; of a push that joined, the version of the counts of its part. */
    uint64_t batch, version;
    uint8_t depth;
    enum batch_on_dead on_dead;
};

/* How a job finished. */
enum job_end { JOB_END_ACKED = 1, JOB_END_CANCELLED, JOB_END_EXPIRED };
const char *job_end_name(enum job_end end); /* "acked", … */

/* The end of a job. */
struct queue_end {
    enum job_end outcome; /* 0: the job is dead */
    int64_t finished_ms;  /* wall clock */
    int64_t duration_ms;  /* of the last attempt; 0: unknown, or no attempt */
    struct slice result, result_type;
    size_t omitted_bytes; /* of a result that is left out for lack of memory */
    bool has_body;        /* the body was kept with the job; it may be empty */
};

/* The batch of a waiting job. */
struct queue_waiting {
    struct batch_counts counts;
    enum batch_on_dead on_dead;
    bool is_closed;
    bool
        has_ended; /* the wait has ended: the counts stay as they are, and the job is an ordinary one */
    /* While it waits: when it is due after the end of the wait. DELAY: so long after it; AT: not before, wall clock; else
     * at once. */
    struct queue_when when;
};

struct queue_job {      /* a job as returned by take, get, list and await */
    struct job job;     /* due_ms and lease_until_ms are wall clock here; policy is the job's own */
    struct slice lease; /* take: the lease token; else empty */
    enum flow_held held_by; /* get, list: why a ready job is not delivered now */
    int64_t held_until_ms;  /* wall clock; 0: unknown */
    const struct queue_end
        *end; /* of a finished job, or of one that died with a result; else NULL */
    const struct queue_waiting *waiting; /* of a job with a batch of its own; else NULL */
};

/* The due and the sequence of kept jobs in a list: the order of these numbers is newest first. */
static inline int64_t queue_finished_rank(int64_t ended_ms)
{
    return JOB_AT_MS_MAX * 2 - ended_ms;
}
static inline uint64_t queue_finished_rank_sequence(uint64_t sequence)
{
    return (UINT64_C(1) << 56) - 1 - sequence;
}

struct queue_counts {
    uint64_t delayed;  /* never tried yet */
    uint64_t retrying; /* delayed after a failed attempt */
    uint64_t ready, leased, dead;
    uint64_t dead_bytes; /* approximate size of the dead jobs in the store: bodies and names */
    uint64_t finished;   /* kept jobs, which are not among the states above */
    uint64_t
        held; /* ready jobs that a limit, a rate, a pause of their group or a hold keeps from delivery */
};
/* Returns the number of jobs in all states, without kept ones. */
uint64_t queue_counts_jobs(const struct queue_counts *counts);

/* Why a kept job was dropped before its time. */
enum queue_drop { QUEUE_DROP_NUMBER = 0, QUEUE_DROP_BYTES, QUEUE_DROP_UNREADABLE, QUEUE_DROPS };
extern const char *const queue_drop_names[QUEUE_DROPS]; /* "max", "bytes", "unreadable" */

struct queue_topic {
    struct slice name;
    bool paused;
    bool deleting;           /* marked for deletion; parts of a queue only */
    int64_t paused_until_ms; /* wall clock, when it resumes by itself; 0: not paused, or for ever */
    struct topic_settings settings;
    struct queue_counts counts;
    struct topic_totals totals;
    int64_t oldest_ready_due_ms;         /* wall clock; 0: no job is ready */
    uint64_t held_by[FLOW_HELD_REASONS]; /* the parts of counts.held; the first is 0 */
    uint64_t groups; /* groups with ready or leased jobs; 0: the topic has no groups */
};

struct queue_group {
    struct slice name; /* empty: the jobs without a group */
    bool has_settings;
    struct group_settings settings;
    uint64_t ready, leased;
    enum flow_held held_by;
    int64_t held_until_ms;       /* wall clock; 0: unknown, or not held */
    int64_t oldest_ready_due_ms; /* wall clock; 0: no job is ready */
};

enum { FORECAST_MINUTES = 60, FORECAST_HOURS = 168, FORECAST_SOON = 2 };

/* Delayed and retrying jobs by their due. The hours and `later` cover all of them; the minutes show the first part
 * in detail. Overdue jobs are counted in the first minute. */
struct queue_forecast {
    int64_t from_ms;  /* from the call */
    uint64_t overdue; /* jobs that are ready: due, and not delivered yet */
    uint64_t minutes[FORECAST_MINUTES];
    uint64_t hours[FORECAST_HOURS];
    uint64_t later;
    /* Some counts were sampled or distributed in proportion. The sum is exact nevertheless. */
    bool estimated;
};

/* The rank of a ready job in a take by priority. */
struct queue_rank {
    uint16_t priority;
    int64_t due_ms; /* wall clock */
    uint64_t sequence;
};

struct queue_reply {
    enum queue_status status; /* of the call; QUEUE_OK if each item has its own in `results` */
    const struct queue_result *results; /* push, answer, change, find: one per item, in order */
    size_t result_count;
    const struct queue_job *jobs; /* take, get, list */
    size_t job_count;
    /* take: its topics had no further ready jobs; if they are watched, on_ready reports new ones. A store that
     * cannot determine this leaves it false. */
    bool drained;
    /* take by priority: its topics have more ready jobs, and `next` is the rank of the first. A store that is
     * never a part of a queue leaves it false. */
    bool has_next;
    struct queue_rank next;
    const struct queue_topic *topics; /* topic calls (one), topics */
    size_t topic_count;
    struct slice cursor;              /* list, groups: empty at the end */
    const struct queue_group *groups; /* group (one), groups */
    size_t group_count;
    uint64_t affected; /* purge, redrive, delete: number of jobs; also of a partial call */
    const struct queue_forecast *forecast; /* forecast; NULL if it is rejected */
};

struct queue_caller; /* queue/caller.h */

/* Receives a reply. `owner` and `tag` are those of the call. The tag identifies a request without a pointer to it. */
typedef void queue_done(void *owner, uint64_t tag, const struct queue_reply *reply);

struct queue_reply_to {
    queue_done *done;
    void *owner;
    uint64_t tag;
    const struct queue_caller *caller; /* on whose behalf the call is made; NULL: tarry itself */
    /* Of a call that only reads: returns whether its reply is still wanted. Called on the thread of `done`. If not, a
     * store may reply with QUEUE_UNAVAILABLE without reading the jobs. NULL: the reply is wanted. */
    bool (*is_wanted)(void *owner, uint64_t tag);
};

/* ---- the table ---- */

struct queue_info {
    const char *store;      /* "embedded", "redis" */
    const char *durability; /* one sentence: what an answered push survives */
    /* The same as one word: embedded "always", "interval", "never"; redis "always", "everysec", "no", "memory",
     * "unknown". NULL: not supported by the implementation. */
    const char *durability_class;
    const char *sync;       /* "always", "50ms", "never"; redis: appendfsync */
    uint32_t wait_replicas; /* number of replicas that an answered change has reached */
    uint32_t shards;
    uint64_t body_bytes_max;
    uint64_t bytes_on_disk; /* sums over the shards, slightly out of date */
    /* Cold jobs of the embedded store and its maintenance; 0 in other stores. */
    uint64_t cold_jobs, runs, checkpoints, checkpoints_failed;
    uint64_t spare_bytes; /* memory of former jobs, reserved for new ones */
    bool batches;         /* waiting jobs and their members (queue_push.batch), and QUEUE_CLOSE */
    bool keeps_history;   /* for topics whose settings enable it */
    bool keeps_finished;  /* keep_finished of topics and pushes, and lists of kept jobs */
    bool awaits;          /* COMMAND_AWAIT and queue_push.ended */
    bool groups;          /* groups, limits, rates and holds */
    bool soon; /* counts the jobs due soon without those due later: queue_forecast_call.soon */
    bool strict_groups, one_shard,
        group_max_jobs; /* the settings of the same names; each only with groups */
    /* Of several shards: strict_groups and one_shard only for topics whose name is for them (flow_name_is_one_shard), and all jobs of these are in one
     * shard, with or without the settings. */
    bool one_shard_by_name;
    uint64_t finished_dropped[QUEUE_DROPS]; /* since the start; sums over the shards */
    bool healthy;   /* false: every call would be answered with QUEUE_UNAVAILABLE */
    bool accepting; /* false: pushes are rejected: no space, or the directory moved */
    bool moved;     /* the path of the data directory leads elsewhere: changes are rejected */
    bool draining;  /* new jobs are rejected, as requested */
};

enum queue_event {
    /* The settings of the topic may have changed, or it was deleted; an empty name: any topic. */
    QUEUE_EVENT_TOPIC = 1,
    /* Jobs of a topic with an extension died; an empty name: possibly of any such topic. */
    QUEUE_EVENT_DEAD
};

struct queue {
    const struct queue_ops *ops;
    /* The door of the handle that fronts use; NULL: a part of a queue, or a test. */
    struct queue_door *door;
    /* The clock of its jobs, on such a handle; NULL: the clock of the process. */
    struct clock *clock;
    /* Set by the waiters (queue/waiter.h) before the first watch. Called whenever a watched topic may have ready
     * jobs; an empty name: any of them. Never called inside a call. */
    void (*on_ready)(void *owner, struct slice topic);
    void *on_ready_owner;
    /* Listener for topic events, set on one handle of a server before its reactor runs; NULL elsewhere. Called on
     * the thread of the handle, never inside a call. It may be called once too often, and is never called more
     * than a second late. Changes made through other servers also count. */
    void (*on_event)(void *owner, enum queue_event event, struct slice topic);
    void *on_event_owner;
};

/* The functions of an implementation. */
struct queue_ops {
    /* Carries out a call that came through the door. A command whose `status` is set is answered with that status,
     * and an item whose check failed with the status of its check. Every push has an id. */
    void (*submit)(struct queue *, const struct command *, struct queue_reply_to);

    /* Starts or stops the calls of on_ready for this topic. If the topic already has ready jobs, on_ready is
     * called soon after the start. On and off alternate for each topic. */
    void (*watch)(struct queue *, struct slice topic, bool on);

    /* Returns the properties of the queue, without waiting; the strings live as long as the queue. */
    void (*info)(struct queue *, struct queue_info *out);

    /* Returns whether a job with this id, and a `once`, are stored in the same part of the queue. The door generates
     * ids for which this is true. NULL: the queue has one part. */
    bool (*same_part)(const struct queue *, struct slice topic, struct slice id, struct slice once);
};

/* Returns the time of the jobs of the queue: the wall clock, or the clock of a test. */
static inline int64_t queue_wall_ms(const struct queue *queue)
{
    return queue->clock ? clock_wall_ms_of(queue->clock) : clock_wall_ms();
}

/* Converts a time of the jobs to the wall clock of the process, which ages are counted from. */
static inline int64_t queue_process_wall_ms(const struct queue *queue, int64_t wall_ms)
{
    bool is_apart = wall_ms && queue->clock && clock_is_held(queue->clock);
    return is_apart ? wall_ms - queue_wall_ms(queue) + clock_wall_ms() : wall_ms;
}

/* ---- for implementations ---- */

/* Report to the listener of the queue, if it has one (queue.on_ready, queue.on_event). */
static inline void queue_report_ready(struct queue *queue, struct slice topic)
{
    if (queue->on_ready)
        queue->on_ready(queue->on_ready_owner, topic);
}

static inline void queue_report_event(struct queue *queue, enum queue_event event,
                                      struct slice topic)
{
    if (queue->on_event)
        queue->on_event(queue->on_event_owner, event, topic);
}

/* Reports to the listener of `outer` what `inner` reports from now on. */
void queue_report_as(struct queue *inner, struct queue *outer);

/* Returns whether a job with this id, and a `once`, are stored in the same part of the queue. */
static inline bool queue_is_same_part(const struct queue *queue, struct slice topic,
                                      struct slice id, struct slice once)
{
    return !queue->ops->same_part || queue->ops->same_part(queue, topic, id, once);
}

/* ---- the door ---- */

/* Submits a call. Every call from above enters here, once. The door writes check failures and rejections by the
 * rules of the caller into the command, and generates missing ids of pushes. Then it passes the command to the
 * implementation. */
void queue_submit(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to);

/* The following functions build the command from their arguments. */

/* Submits items of any kind, whose pointers share one place in the union. The rest of the command is not cleared. */
static inline void queue_submit_items(struct queue *queue, enum command_kind kind,
                                      const void *items, size_t count,
                                      struct queue_reply_to reply_to)
{
    struct command command;
    command.kind = kind;
    command.status = QUEUE_OK;
    command.count = count;
    command.checks = NULL;
    command.pushes = (const struct queue_push *)items;
    queue_submit(queue, &command, reply_to);
}

static inline void queue_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                              struct queue_reply_to reply_to)
{
    queue_submit_items(queue, COMMAND_PUSH, pushes, count, reply_to);
}

static inline void queue_answer(struct queue *queue, const struct queue_answer *answers,
                                size_t count, struct queue_reply_to reply_to)
{
    queue_submit_items(queue, COMMAND_ANSWER, answers, count, reply_to);
}

static inline void queue_change(struct queue *queue, const struct queue_change *changes,
                                size_t count, struct queue_reply_to reply_to)
{
    queue_submit_items(queue, COMMAND_CHANGE, changes, count, reply_to);
}

static inline void queue_take(struct queue *queue, const struct queue_take *take,
                              struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TAKE, .take = *take};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_find(struct queue *queue, const struct queue_find *finds, size_t count,
                              struct queue_reply_to reply_to)
{
    queue_submit_items(queue, COMMAND_FIND, finds, count, reply_to);
}

static inline void queue_get(struct queue *queue, struct slice topic, struct slice id,
                             struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_GET, .get = {.topic = topic, .id = id}};
    queue_submit(queue, &command, reply_to);
}

/* As queue_get; a kept job is also found. */
static inline void queue_get_finished(struct queue *queue, struct slice topic, struct slice id,
                                      struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_GET,
                              .get = {.topic = topic, .id = id, .finished = true}};
    queue_submit(queue, &command, reply_to);
}

/* Waits for the end of a job. `cancels`: ends the wait with that destination instead; NULL: begins a wait. */
static inline void queue_await(struct queue *queue, struct slice topic, struct slice id,
                               const struct queue_reply_to *cancels, struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_AWAIT,
                              .await = {.topic = topic, .id = id, .cancels = cancels}};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_history(struct queue *queue, struct slice topic, struct slice id,
                                 struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_GET,
                              .get = {.topic = topic, .id = id, .history = true}};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_list(struct queue *queue, const struct queue_list *list,
                              struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_LIST, .list = *list};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_topic(struct queue *queue, const struct queue_topic_call *call,
                               struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPIC, .topic = *call};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_topics(struct queue *queue, struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPICS};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_topics_page(struct queue *queue, struct queue_topics_page page,
                                     struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPICS, .topics = page};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_forecast(struct queue *queue, const struct queue_forecast_call *call,
                                  struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_FORECAST, .forecast = *call};
    queue_submit(queue, &command, reply_to);
}

static inline void queue_watch(struct queue *queue, struct slice topic, bool on)
{
    queue->ops->watch(queue, topic, on);
}

static inline void queue_info(struct queue *queue, struct queue_info *out)
{
    queue->ops->info(queue, out);
}

/* Returns whether a push with this result waits for the end of its job (queue_push.ended). */
static inline bool queue_push_awaits(const struct queue_result *result)
{
    return result->status == QUEUE_CREATED || result->status == QUEUE_REPLACED ||
           (result->status == QUEUE_EXISTED && result->state && result->state != JOB_FINISHED);
}

/* Returns whether the push had happened before, by its `once` or a window of ended ids. Its job may still be there. */
static inline bool queue_push_is_known(const struct queue_result *result)
{
    return result->status == QUEUE_EXISTED && (!result->state || result->state == JOB_FINISHED);
}

/* Returns whether an item is valid, for implementations. If not, *result receives the reason. */
static inline bool command_item_is_good(const struct command *command, size_t i,
                                        struct queue_result *result)
{
    if (!command->checks)
        return true;
    result->status = command->checks[i].status;
    result->retry_s = command->checks[i].retry_s;
    result->detail = command->checks[i].detail;
    result->limit = command->checks[i].limit;
    return result->status == QUEUE_OK;
}

static inline bool queue_rank_before(const struct queue_rank *a, const struct queue_rank *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->sequence < b->sequence;
}

/* Add jobs, or another forecast, to a forecast; for implementations and for queues that join several replies.
 * `due_ms` is by the clock of from_ms. */
void queue_forecast_add(struct queue_forecast *forecast, int64_t from_ms, int64_t due_ms,
                        uint64_t jobs);
void queue_forecast_join(struct queue_forecast *sum, const struct queue_forecast *part);

/* Counts the jobs of a topic that fall due soon; the reply's figure is queue_forecast_soon. Only if queue_info.soon. */
void queue_count_soon(struct queue *queue, struct slice topic, struct queue_reply_to reply_to);
/* Returns the number of jobs that fall due within the next minute: those of the rest of this minute, and a share of
 * those of the next one, rounded up. So it is never 0 if a job falls due within a minute. */
uint64_t queue_forecast_soon(const struct queue_forecast *forecast, int64_t now_ms);

/* Writes the name under which a `once` is remembered: with a leading blank, which no id has. */
enum { QUEUE_ONCE_ID_BYTES_MAX = 1 + JOB_ONCE_BYTES_MAX };
struct slice queue_once_id(struct slice once, char room[QUEUE_ONCE_ID_BYTES_MAX]);

/* Sorts topics in the order of replies to TOPICS; for implementations. */
void queue_topics_sort(struct queue_topic *topics, size_t count);

/* Returns the index of the first topic after a name, in that order, since a page may begin with others. */
size_t queue_topics_after(const struct queue_topic *topics, size_t count, struct slice name);

#endif
