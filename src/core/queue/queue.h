/*
 * queue: what a delay queue is, for everyone above.
 *
 * A call is a value, `struct command`; it goes in by one door, queue_submit, as which queue_push(),
 * queue_take() … are dressed for callers. Fronts and pushers know only this file; each
 * implementation (local, redis) is a table of three functions behind the door.
 *
 * Rules
 *   1. A `struct queue` is a handle that belongs to one thread (one reactor). Every call is made
 *      there, every callback comes there.
 *   2. Every call ends in exactly one reply, never inside the call itself; also while the queue
 *      stops.
 *   3. What a call points at (slices, arrays) need only be valid during the call. What a reply
 *      points at is valid only during the callback.
 *   4. A changing call is answered when the change is as durable as the queue promises. take, get,
 *      list and stats do not wait for the disk; get and list may show a change whose own answer is
 *      still on its way.
 *   5. Replies to different calls come in any order. Items of one call are carried out in their
 *      order where they name the same job.
 *   6. Times are milliseconds since 1970. Delays are relative and counted from the call, rounded
 *      up.
 *   7. The caller has checked nothing: topics, ids and limits are checked at the door, item by
 *      item, and refused with a status. So are the rules of the caller itself (queue/caller.h).
 */
#ifndef TARRY_QUEUE_QUEUE_H
#define TARRY_QUEUE_QUEUE_H

#include "base/clock.h"
#include "job/event.h"
#include "job/record.h"

/* ---- statuses: rows of queue/status.c, which gives each its stable code and a sentence ---- */

enum queue_status {
    /* Done (ack, nack, extend, settings, …); reschedule and run: the job has its new due. */
    QUEUE_OK = 0,
    QUEUE_CREATED,
    QUEUE_REPLACED,
    QUEUE_EXISTED, /* on_conflict keep, or the id finished within dedup_window: nothing changed */
    QUEUE_CANCELLED, /* cancel: it will not be delivered any more; nack, return: that had been asked for */

    QUEUE_NOT_FOUND,   /* no such job (or finished), or no such topic */
    QUEUE_CONFLICT,    /* on_conflict reject: the id exists; result.state says in which state */
    QUEUE_LEASED,      /* a leased job cannot be replaced, cancelled or rescheduled */
    QUEUE_DEAD_STATE,  /* a dead job cannot be rescheduled or run: redrive it */
    QUEUE_LEASE_ENDED, /* the lease is not (or no longer) the job's: over, answered, never given */
    QUEUE_BAD_TOPIC,
    QUEUE_BAD_ID,
    QUEUE_BAD_OPTION, /* a number out of its range; result.detail names it */
    QUEUE_BODY_TOO_BIG,
    QUEUE_TOO_MANY_TOPICS,
    QUEUE_BAD_CURSOR,
    QUEUE_NO_SPACE, /* the disk is full: pushes are refused (that of Redis: all changes) */
    QUEUE_NO_MEMORY,
    QUEUE_STOPPING, /* the server is going down */
    /* The path of the data directory leads elsewhere: what changes something is refused; what was
     * under way is not known to have happened. */
    QUEUE_DIRECTORY_MOVED,
    QUEUE_UNAVAILABLE, /* the store is out of reach or failed: whether it was done is not known */
    /* Of parts of a queue that goes over into another one (handover.h). A caller sees one where that
     * took too long: nothing was done. */
    QUEUE_ELSEWHERE, /* push: a part that takes no new jobs knows none of this id */
    QUEUE_MOVING,    /* the job is on its way to another part */
    /* push of a new job: the topic has as many as its max_jobs allows. Over several shards each
     * allows its share, rounded up. Nothing else is refused by it. */
    QUEUE_TOPIC_FULL,
    QUEUE_REQUESTED,   /* cancel of a leased job: it is cancelled unless its holder acks it */
    QUEUE_DRAINING,    /* push: the server takes no new jobs, since somebody asked for that */
    QUEUE_UNSUPPORTED, /* this store cannot do it */
    /* Of rules of the caller (queue/caller.h). */
    QUEUE_TOO_FAST,       /* push: faster than the caller's rate */
    QUEUE_TOPIC_TOO_FAST, /* push: faster than the topic's push_rate */
    QUEUE_CALLER_FULL,    /* push: the topics of the caller hold as many jobs as it may have */
    QUEUE_MEMORY_SPENT,   /* push: the process uses as much memory as it may */
    QUEUE_FORBIDDEN,      /* the caller lacks the scope that this takes, for this topic */
    QUEUE_OWN_TOPIC,      /* push: the topic is tarry's own */
    QUEUE_STATUSES        /* how many there are */
};

/* ---- what is asked ---- */

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

/* What a job went through before it was brought here (import). */
struct queue_past {
    uint32_t attempt;   /* deliveries so far; the next one is attempt + 1 */
    bool dead;          /* it gave up: it is kept as dead, its due is only shown */
    struct slice error; /* last error; at most JOB_ERROR_BYTES_MAX */
};

struct queue_push {
    struct slice topic;
    struct slice id; /* empty: the queue makes one */
    bool id_is_made; /* by a part of the queue for this push alone, so no job has it */
    bool
        is_own; /* tarry's own, for a job that it has: also while no new ones are taken, and to its own topics */
    struct slice content_type, meta, body;
    struct queue_when when;
    int32_t priority;                 /* or QUEUE_PRIORITY_UNSET */
    enum record_conflict on_conflict; /* 0: the topic's */
    struct policy policy;
    struct queue_past past; /* of a job that comes from another queue; zero: none */
};

enum queue_verb { QUEUE_ACK = 1, QUEUE_NACK, QUEUE_EXTEND, QUEUE_RETURN, QUEUE_AGAIN };

/* A consumer's answer. RETURN: nobody began to work on it, be it that the delivery never reached its
 * consumer or that he gives it back; the job is ready again and the attempt does not count. AGAIN: acked, and pushed anew
 * in one, or nothing is done (result CREATED); on this machine's stores alone. */
struct queue_answer {
    enum queue_verb verb;
    struct slice lease;
    int64_t delay_ms;  /* nack, return: wait so long. -1: nack: by backoff; return: not at all */
    bool final;        /* nack: no further attempt, it is dead at once */
    bool has_priority; /* nack: the job has this one from now on */
    uint16_t priority;
    struct slice error; /* nack: why; cut at JOB_ERROR_BYTES_MAX */
    /* extend: from now; 0: what it was taken with (after a restart: what the job or its topic
     * says). */
    int64_t lease_ms;
    const struct queue_push *again; /* again: of the same topic and id; no past */
};

#define QUEUE_DELIVERY_NONE UINT64_MAX /* of no job */

enum queue_change_verb { QUEUE_CANCEL = 1, QUEUE_RESCHEDULE, QUEUE_RUN };

struct queue_change {
    enum queue_change_verb verb;
    struct slice topic, id;
    struct queue_when when; /* reschedule */
    int32_t priority;       /* reschedule; or QUEUE_PRIORITY_UNSET */
    /* cancel: only while it is dead and `delivery` was its last one; else CONFLICT with its state,
     * nothing changed. */
    bool only_dead;
    uint64_t delivery;
    /* cancel: only while the job waits and this was the lease of its last delivery; else CONFLICT with its
     * state, nothing changed. A lease that the store has not given is none of any job. Empty: not asked for. */
    struct slice lease;
    /* cancel: where the job is leased this is asked of its holder, who is told when he extends; every
     * end of the lease but an ack cancels the job. */
    bool request;
};

struct queue_take {
    const struct slice *topics; /* first named, first served */
    size_t topic_count;
    struct slice id; /* only this job of the one topic, be it ready, delayed or dead; empty: any */
    /* The best of all topics first: by priority, then due, then push order, whichever topic has it. Over
     * several shards jobs of one priority come shard by shard. */
    bool by_priority;
    /* by_priority, for queues that hold a part of the jobs only: none behind this one. */
    bool is_bounded;
    uint16_t priority_max;
    uint32_t max;          /* 1..QUEUE_TAKE_MAX; of parts by_priority also 0: what is next? */
    int64_t lease_ms;      /* 0: the job's, the topic's, the default */
    struct slice consumer; /* what the taker calls himself, kept with the leases; empty: no name */
    enum job_way way;      /* what becomes of the jobs, for those who are told of it */
};

struct queue_find {
    struct slice topic, id;
};

struct queue_list {
    struct slice topic;
    enum job_state state; /* 0: all states */
    uint32_t limit;       /* 1..QUEUE_LIST_MAX */
    struct slice cursor;  /* empty: from the start; else from an earlier reply */
    bool with_body;
    /* Of READY: only the job that a take by priority hands out first is of interest. A store, or a shard, that
     * has it at hand shows it alone; the others ignore this. */
    bool first_only;
};

enum queue_topic_verb {
    QUEUE_TOPIC_GET = 1,
    QUEUE_TOPIC_PUT,    /* settings replaced as a whole; makes the topic where it is new */
    QUEUE_TOPIC_DELETE, /* the topic and all its jobs, leased ones too */
    QUEUE_TOPIC_PAUSE,  /* no deliveries until resumed, or for a time; jobs still fall due */
    QUEUE_TOPIC_RESUME,
    QUEUE_TOPIC_PURGE,   /* drop jobs in `state`; 0: all but leased ones, which are never purged */
    QUEUE_TOPIC_REDRIVE, /* dead jobs become ready with attempts starting again */
    /* `makes`: a delete in all parts begins; else it does not after all. For queues that hold a
     * part of the jobs only. */
    QUEUE_TOPIC_MARK
};

struct queue_topic_call {
    enum queue_topic_verb verb;
    struct slice topic;
    struct topic_settings settings; /* put */
    enum job_state state;           /* purge */
    struct slice id;                /* redrive: only this one; empty: all */
    uint64_t max;                   /* redrive: at most so many; 0: all */
    int64_t pause_ms;               /* pause: for so long; 0: until resumed */
    /* pause: until then, by the wall clock, in place of pause_ms; 0: not given. For queues that hold a
     * part of the jobs only: so they agree. */
    int64_t pause_until_ms;
    /* pause: also where the topic is not known yet. For queues that hold a part of the jobs only:
     * they must know of the pause before the first one comes. */
    bool makes;
};

enum {
    QUEUE_BATCH_MAX = 1000,
    QUEUE_TAKE_MAX = 1000,
    QUEUE_TAKE_TOPICS_MAX = 64,
    QUEUE_LIST_MAX = 1000,
    QUEUE_LEASE_TEXT_BYTES_MAX = 64
};

/* When the jobs that wait fall due. */
struct queue_forecast_call {
    struct slice topic; /* empty: all */
    /* Wall clock, a whole minute: where the first minute begins; the first hour begins with the whole
     * hour that it lies in. Given by the caller, so that all parts of a queue count by the same. */
    int64_t from_ms;
};

struct queue_topics_page {
    struct slice after; /* a name; empty: from the first on */
    uint32_t limit;     /* 0: all */
};

/* ---- one call, as a value ---- */

/* The kinds of calls. What each asks for, and with which statuses it ends:
 *   PUSH     one job each. Results CREATED, REPLACED, EXISTED or a refusal.
 *   ANSWER   ack, nack, extend, return. Results OK, LEASE_ENDED, CANCELLED (nack, return) or a
 *            refusal.
 *   CHANGE   cancel, reschedule, run. Results OK, CANCELLED, REQUESTED, NOT_FOUND, LEASED, DEAD_STATE
 *            or a refusal.
 *   FIND     whether there are such jobs, and in which state. Results OK or NOT_FOUND.
 *   TAKE     ready jobs under a lease, at most `max`, none when none are ready or all topics are
 *            paused. Does not wait. Topics that do not exist have no jobs. Of a job that is named: also
 *            while its topic is paused; NOT_FOUND, or LEASED where somebody has it.
 *   GET      one job with its body. Status OK or NOT_FOUND. With `history` of a store that keeps one:
 *            `jobs` is what happened, oldest first; of each entry attempt, taken_ms, consumer and
 *            error, due_ms is when, content_type what (acked, died, ...).
 *   LIST     jobs of a topic by due, then push order.
 *   TOPIC    settings, pause, purge, … of one topic. Status OK (put: CREATED where it was new) or
 *            NOT_FOUND.
 *   TOPICS   topics with counts, by name: all, or the first so many behind a name. A store may tell of
 *            others too, whose counts may then lack some.
 *   FORECAST when the delayed jobs of a topic, or of all, fall due: counts, never a scan of jobs. Status
 *            OK or NOT_FOUND. */
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
    COMMAND_FIND
};

/* What the door (queue_submit) found wrong with an item. */
struct queue_check {
    enum queue_status status; /* QUEUE_OK: nothing */
    uint32_t retry_s;         /* after so long it may be admitted; 0: not known */
    const char *detail;       /* which option, for QUEUE_BAD_OPTION; else NULL */
    uint64_t limit;           /* how much the caller may have, where that was the reason; else 0 */
};

/* Callers leave `status` and `checks` alone: the door sets them, and no layer behind it checks
 * again. */
struct command {
    enum command_kind kind;
    /* take, get, list, topic, forecast: QUEUE_OK, or why the call is refused as a whole. */
    enum queue_status status;
    size_t count; /* push, answer, change, find: of items, at most QUEUE_BATCH_MAX */
    const struct queue_check *checks; /* of each item; NULL: nothing is wrong with any of them */
    union {
        const struct queue_push *pushes;
        const struct queue_answer *answers;
        const struct queue_change *changes;
        const struct queue_find *finds;
        struct queue_take take;
        struct {
            struct slice topic, id;
            bool history; /* what became of it, in place of the job */
        } get;
        struct queue_list list;
        struct queue_topic_call topic;
        struct queue_topics_page topics;
        struct queue_forecast_call forecast;
    };
};

/* Whether it does more than look. */
static inline bool command_acts(const struct command *command)
{
    return command->kind <= COMMAND_TAKE ||
           (command->kind == COMMAND_TOPIC && command->topic.verb != QUEUE_TOPIC_GET);
}

/* ---- what is answered ---- */

struct queue_result { /* one per item of push, answer, change, find */
    enum queue_status status;
    enum job_state state; /* the job's state now, or the one that was in the way; 0: none */
    /* push, change and find: the job's. answer: the job's id where the lease was good and the queue need
     * not look it up, else empty. */
    struct slice topic, id;
    int64_t due_ms;         /* wall clock; 0 where there is none */
    int64_t lease_until_ms; /* extend; wall clock */
    bool cancel_requested;  /* extend: somebody asked to cancel the job */
    uint32_t retry_s;       /* as in queue_check, with the two that follow */
    const char *detail;
    uint64_t limit;
};

struct queue_job {      /* a job as take, get and list show it */
    struct job job;     /* due_ms and lease_until_ms are wall clock here; policy is the job's own */
    struct slice lease; /* take: the token; empty else */
};

struct queue_counts {
    uint64_t delayed;  /* never tried yet */
    uint64_t retrying; /* delayed after a failed attempt */
    uint64_t ready, leased, dead;
    uint64_t dead_bytes; /* what the dead ones take in the store, about: their bodies and names */
};

struct queue_topic {
    struct slice name;
    bool paused;
    bool deleting;           /* marked so; parts of a queue only */
    int64_t paused_until_ms; /* wall clock; it resumes by itself then. 0: not paused, or for ever */
    struct topic_settings settings;
    struct queue_counts counts;
    struct topic_totals totals;
    int64_t oldest_ready_due_ms; /* wall clock; 0: none ready */
};

enum { FORECAST_MINUTES = 60, FORECAST_HOURS = 168 };

/* Delayed and retrying jobs by their due. The hours and `later` are all of them; the minutes are a
 * closer look at the first. What should have fallen due before the first one begins is in it. */
struct queue_forecast {
    int64_t from_ms;  /* as it was asked for */
    uint64_t overdue; /* ready: due, and not handed out yet */
    uint64_t minutes[FORECAST_MINUTES];
    uint64_t hours[FORECAST_HOURS];
    uint64_t later;
    /* Some of it was sampled or shared out by proportion. The sum is right all the same. */
    bool estimated;
};

/* Which ready job comes before which. */
struct queue_rank {
    uint16_t priority;
    int64_t due_ms; /* wall clock */
    uint64_t sequence;
};

struct queue_reply {
    enum queue_status status; /* of the call; QUEUE_OK where `results` speak for the items */
    const struct queue_result *results; /* push, answer, change, find: one per item, in order */
    size_t result_count;
    const struct queue_job *jobs; /* take, get, list */
    size_t job_count;
    /* take: its topics had nothing more that is ready; where they are watched, on_ready comes when that
     * changes. A store that cannot tell leaves it false. */
    bool drained;
    /* take by priority: its topics have more that is ready, and which comes next. A store that is never a
     * part of a queue leaves it false. */
    bool has_next;
    struct queue_rank next;
    const struct queue_topic *topics; /* topic calls (one), topics */
    size_t topic_count;
    struct slice cursor; /* list: empty when there is no more */
    uint64_t
        affected; /* purge, redrive, delete: how many jobs; also of a call that stopped half-way */
    const struct queue_forecast *forecast; /* forecast; NULL where it is refused */
};

struct queue_caller; /* queue/caller.h */

/* `owner` and `tag` as given with the call. The tag is for finding one's request again without
 * holding a pointer to it. */
typedef void queue_done(void *owner, uint64_t tag, const struct queue_reply *reply);

struct queue_reply_to {
    queue_done *done;
    void *owner;
    uint64_t tag;
    const struct queue_caller *caller; /* who makes the call; NULL: tarry itself */
};

/* ---- the table ---- */

struct queue_info {
    const char *store;      /* "embedded", "redis" */
    const char *durability; /* one sentence: what an answered push survives */
    /* The same as one word: embedded "always", "interval", "never"; redis "always", "everysec",
     * "no", "memory", "unknown". NULL: the implementation has none. */
    const char *durability_class;
    const char *sync;       /* "always", "50ms", "never"; redis: appendfsync */
    uint32_t wait_replicas; /* an answered change has reached so many replicas */
    uint32_t shards;
    uint64_t body_bytes_max;
    uint64_t bytes_on_disk; /* sums over the shards, as of a moment ago */
    /* What the embedded store keeps out of memory, and its upkeep; 0 elsewhere. */
    uint64_t cold_jobs, runs, checkpoints, checkpoints_failed;
    uint64_t spare_bytes; /* memory that jobs had and the next ones get */
    bool keeps_history;   /* of topics whose settings say so */
    bool healthy;         /* false: every call would be answered QUEUE_UNAVAILABLE */
    bool accepting;       /* false: pushes are refused, for want of space or since it moved */
    bool moved;           /* the path of the data directory leads elsewhere: nothing may change */
    bool draining;        /* new jobs are refused, as was asked for */
};

enum queue_event {
    /* The topic's settings may have changed, or it is gone; an empty name: any topic's. */
    QUEUE_EVENT_TOPIC = 1,
    /* Jobs of a topic with an extension died; an empty name: maybe of any such. */
    QUEUE_EVENT_DEAD
};

struct queue {
    const struct queue_ops *ops;
    /* Of the handle that fronts get; NULL: a part of a queue, or a test's. */
    struct queue_door *door;
    /* What its jobs go by, of such a handle; NULL: the process's clock. */
    struct clock *clock;
    /* Set by the waiters (queue/waiter.h) before the first watch; called whenever a watched topic
     * may have ready jobs; an empty name: any of them. Never inside a call. */
    void (*on_ready)(void *owner, struct slice topic);
    void *on_ready_owner;
    /* Set by whoever follows what happens to topics: on one handle of a server, before its reactor
     * runs; NULL elsewhere. Called on the handle's thread, never inside a call; maybe once too
     * often, never more than a second late. Changes made through other servers count too. */
    void (*on_event)(void *owner, enum queue_event event, struct slice topic);
    void *on_event_owner;
};

/* What an implementation fills in. */
struct queue_ops {
    /* Carries out a call that came through the door: a command whose `status` is set is answered
     * with that, an item whose check is set with what that says; pushes have an id. */
    void (*submit)(struct queue *, const struct command *, struct queue_reply_to);

    /* Tell on_ready about this topic from now on (also at once if it has ready jobs), or stop
     * telling. On and off alternate for each topic. */
    void (*watch)(struct queue *, struct slice topic, bool on);

    /* What the queue promises. Answers at once; the strings live as long as the queue. */
    void (*info)(struct queue *, struct queue_info *out);
};

/* The time of its jobs, as they show it: by the wall clock, unless it is a test's. */
static inline int64_t queue_wall_ms(const struct queue *queue)
{
    return queue->clock ? clock_wall_ms_of(queue->clock) : clock_wall_ms();
}

/* A time of its jobs by the process's wall clock, from which ages are counted. */
static inline int64_t queue_process_wall_ms(const struct queue *queue, int64_t wall_ms)
{
    bool is_apart = wall_ms && queue->clock && clock_is_held(queue->clock);
    return is_apart ? wall_ms - queue_wall_ms(queue) + clock_wall_ms() : wall_ms;
}

/* ---- the door ---- */

/* Every call from above comes in here, once: what is wrong with it, or refused by a rule of its caller, is
 * written into the command, and pushes without an id get one; then it is the implementation's. */
void queue_submit(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to);

/* The same for those who call with what they have in hand. */

/* Items of any kind: they lie in the same place. The rest of the command is not even cleared. */
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

/* For an implementation: whether an item may be carried out; where not, its result says why. */
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

/* For an implementation, and for whoever joins the replies of several: one forecast into another.
 * `due_ms` by the clock of the call's from_ms. */
void queue_forecast_add(struct queue_forecast *forecast, int64_t from_ms, int64_t due_ms,
                        uint64_t jobs);
void queue_forecast_join(struct queue_forecast *sum, const struct queue_forecast *part);

/* For an implementation: what an item of a push, change or find names; how large an item is. */
struct queue_find queue_item_name(const struct command *command, size_t i);
size_t queue_item_bytes(enum command_kind kind);

/* For an implementation: the order in which TOPICS are answered. */
void queue_topics_sort(struct queue_topic *topics, size_t count);

/* In that order, the first one behind a name: a page may begin with others. */
size_t queue_topics_after(const struct queue_topic *topics, size_t count, struct slice name);

#endif
