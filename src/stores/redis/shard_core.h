/*
 * shard_core: the state of a shard (shard.h) and the functions common to all its files: its clock,
 * sending calls, replying to callers of the queue. Used only by redis/shard*.c:
 *
 *  shard_core    this file
 *  shard_notifications    notifications about topics: ready jobs, events; the periodic check
 *  shard_batch   requests of one step that travel together
 *  shard_items   push, answer, change: calls with a result for each item, in batches
 *  shard_take    takes, in batches
 *  shard_feed    events, from the scripts to the listeners
 *  shard_step    answers, takes and due jobs, in one call
 *  shard_move    the way to the next generation
 *  shard_ask     get, list, topic, topics: calls that travel separately
 *  shard_parts   calls between the shards about batches
 *  shard_mail    carries what a shard has for others
 *  shard_await   look-ups of jobs whose end a call waits for (waits.h)
 *  shard         the step, timed actions, life cycle
 */
#ifndef TARRY_REDIS_SHARD_CORE_H
#define TARRY_REDIS_SHARD_CORE_H

#include "redis/codec.h"
#include "redis/session.h"
#include "redis/shard.h"

#include "base/list.h"
#include "base/random.h"
#include "base/table.h"

enum {
    REDIS_BATCH_BUCKETS = 64,
    REDIS_WAITING_BYTES_MAX = 256 << 20 /* in unanswered batches; then new calls are refused */
};

/* ---- a watched topic ---- */

struct redis_watch {
    struct table_entry entry;
    struct list fresh; /* in shard->fresh: not checked yet */
    struct list ready; /* in shard->ready: to be notified */
    uint64_t count;    /* watch calls without an unwatch */
    uint64_t look;     /* the last look that requested it */
    bool seen;         /* returned by the script look */
    bool notified;     /* notified since it was last seen without ready jobs */
    bool found;        /* found by the look that is returning */
    bool is_held;      /* the last jobs that were pushed here cannot be delivered now */
    char topic[];
};

TABLE_DECLARE(redis_watches, struct redis_watch, entry)

/* ---- the last number of a kind of event, as received ---- */

struct redis_event_number {
    bool known;
    uint64_t number;
};

struct redis_event_numbers {
    struct redis_event_number changes, deaths, ends;
};

/* ---- the next event, on the shard's clock, and its topic ---- */

struct redis_next {
    int64_t ms; /* INT64_MAX: never */
    size_t topic_bytes;
    char topic[JOB_TOPIC_BYTES_MAX]; /* empty: a lease's event, or unknown */
};

static inline struct slice redis_next_topic(const struct redis_next *next)
{
    return slice_make(next->topic, next->topic_bytes);
}
void redis_next_set(struct redis_next *next, int64_t ms, struct slice topic);

/* ---- the way to the next generation (shard_move.c) ---- */

struct redis_move {
    enum redis_move_state state;
    struct redis_generation target;
    uint64_t number;  /* the last number assigned, as last reported */
    uint32_t batches; /* open ones, as last asked */
    char batch[JOB_TOPIC_BYTES_MAX + JOB_ID_BYTES_MAX + 32]; /* a job that waits, as shown */
    int64_t next_ms;  /* inner: when the next page may be requested */
    int64_t began_us; /* inner: when the current page was requested */
    bool is_under_way;
    uint32_t left;   /* target shards that this page has not reached yet */
    bool has_failed; /* for one of them */
    uint64_t page;
};

/* ---- mail: what a shard has for others (shard_mail.c) ---- */

struct redis_mail {
    bool is_due;           /* an answer reported mail */
    bool is_asking;        /* the call that returns it is in progress */
    struct list letters;   /* in progress */
    uint32_t arrived;      /* letters of this round that have reached the other shard */
    uint32_t dropped;      /* those that have not */
    int64_t retry_us;      /* boot: no round begins before, as none of the last letters arrived */
    struct list held;      /* replies that wait for the next round */
    int64_t held_since_us; /* boot: since when the first of them waits */
    struct list leaving;   /* replies that wait for this round */
    int64_t leaving_since_us; /* boot: since when the first of them waits */
};

struct redis_shard {
    struct queue queue; /* first: the queue that callers get */
    struct redis_shard_options options;
    struct redis_session *session;
    struct random random;

    struct list open, sent; /* lists of batches */
    struct list buckets[REDIS_BATCH_BUCKETS];
    size_t batches_under_way, step_calls, waiting_bytes;
    struct list soon; /* replies ready to send */
    size_t calls;     /* queue calls without a reply */

    struct redis_watches watches;
    struct list fresh, ready;
    uint64_t looks;

    int64_t listen_ms; /* inner: when to announce again to the scripts that there is a listener */
    bool has_listener; /* there was a listener at the last step */

    struct list events; /* to be reported */
    size_t event_count;
    struct redis_event_numbers event_numbers;
    uint64_t finished_dropped[QUEUE_DROPS]; /* kept jobs, by calls of this server */

    struct redis_next next,
        notified_next;      /* the next event as in the last reply, and as notified since */
    int64_t adjust_ms;      /* the shard's clock - its wall clock */
    int64_t pause_until_us; /* boot: before this, due jobs are not requested again */
    int64_t other_until_us; /* boot: until then, another server is expected to act first */
    /* inner: when a step found that this event, expected to be due, was not due yet */
    int64_t in_vain_us;
    int64_t in_vain_event_ms;
    /* the event that is due; boot: since when it was seen to be due */
    int64_t due_event_ms;
    int64_t due_seen_us;
    struct redis_next notified;    /* the event of which the waiters for its topic were notified; */
    bool notified_in_vain;         /* and no waiter took it */
    int64_t changed_ms;            /* inner: since when it is up, or down */
    bool up, known;                /* known: a reply has come since it is up */
    int64_t busy_ms;               /* inner: the last step with a batch */
    size_t record_bytes;           /* of jobs taken recently, approximate */
    uint64_t unpacked;             /* far jobs pushed here and not packed yet, about */
    int64_t answers_wait_since_us; /* boot: since when only answers wait; 0: not waiting */
    bool lets_due, due_under_way;  /* the next step does so; a step with Redis does so */
    bool looking, packing, probing;
    struct redis_move move;
    struct redis_mail mail;
    bool may_pack; /* recently pushed jobs may include far ones */
    bool stopping, freeing, has_space;
};

static inline struct redis_shard *redis_shard_of(struct queue *queue)
{
    return (struct redis_shard *)(void *)queue;
}

/* ---- replies ---- */

/* A reply to be sent at the end of the step, because no reply is sent inside its call. Embed it. */
struct redis_soon {
    struct list list;
    void (*run)(struct redis_soon *soon); /* replies, and frees the object that embeds it */
};
static inline void redis_soon_add(struct redis_shard *shard, struct redis_soon *soon)
{
    list_add_last(&shard->soon, &soon->list);
}

/* Sends a reply to the caller. All replies pass through here. `reply_to` may be gone afterwards. */
void redis_shard_reply(struct redis_shard *shard, struct queue_reply_to reply_to,
                       const struct queue_reply *reply);
static inline void redis_shard_reply_status(struct redis_shard *shard,
                                            struct queue_reply_to reply_to,
                                            enum queue_status status)
{
    redis_shard_reply(shard, reply_to, &(struct queue_reply){.status = status});
}
/* Returns QUEUE_OK, or the reason why no call is accepted now. */
enum queue_status redis_shard_accepts(const struct redis_shard *shard);
/* Returns whether the shard is unreachable for longer than a reconnect takes. */
bool redis_shard_is_missed(const struct redis_shard *shard);

/* ---- script calls ---- */

/* Prepares a call: its buffer, its script, and the callback for its reply. */
void redis_shard_call_init(struct redis_call *call, enum redis_script script, bool changes,
                           void (*done)(struct redis_call *call, enum redis_call_end end,
                                        const struct redis_head *head, const redisReply *reply));
/* Sends a call with `argc` appended arguments. Returns false, and sends nothing, if memory ran out
 * while they were appended. */
bool redis_shard_send(struct redis_shard *shard, struct redis_call *call, size_t argc);
enum queue_status redis_shard_status(enum redis_call_end end);

/* Takes over the next event and the adjustment from the head of any reply. */
static inline void redis_shard_note_head(struct redis_shard *shard, const struct redis_head *head)
{
    redis_next_set(&shard->next, head->next_ms, head->next_topic);
    shard->adjust_ms = head->adjust_ms;
    shard->mail.is_due |= head->has_mail;
    shard->known = true;
}
/* Converts a time of the shard to the inner clock, in microseconds; INT64_MAX stays INT64_MAX. */
int64_t redis_shard_to_inner_us(const struct redis_shard *shard, int64_t at_ms);
/* Takes in what a step's reply reports about due jobs. `asked_us`: inner time at which the step was
 * asked to make jobs due; INT64_MIN: it was not. */
struct redis_due {
    bool has_more;  /* more is due now */
    bool has_other; /* another server handles it */
    bool was_taken; /* some was taken */
};
void redis_shard_note_due(struct redis_shard *shard, int64_t asked_us, const struct redis_due *due);

/* Reads one element of a reply; empty if it is nil. Returns false if it is not a string. */
bool redis_element(const redisReply *reply, size_t at, struct slice *out);
void redis_shard_log_malformed(const struct redis_shard *shard, enum redis_script script);

/* Notes whether a push found room. */
void redis_shard_note_space(struct redis_shard *shard, enum queue_status status);

/*
 * shard_batch: sends the requests of one step together.
 *
 * A batch has one kind, one topic (answers: any topics), and for takes the same terms. Items are
 * added until the end of the step. Pushes and changes are separate calls: while a similar batch is
 * with Redis, and at most REDIS_SESSION_SLOTS are, the batch keeps growing, as in a group commit.
 * Answers and takes travel together (shard.h). Only the kind defines the layout of the
 * arguments and how to read the reply.
 */

enum { REDIS_BATCH_ITEMS_MAX = 500 };

struct redis_batch;

/* The part of a reply that belongs to a batch. Its results are next in `rest`, and the batch takes
 * them off. Its elements of the reply are `count` from `at` on; for takes, three per job.
 * `leaves_some`: of a take, its topic may have more ready jobs. */
struct redis_batch_answer {
    const struct redis_head *head;
    const redisReply *reply;
    struct slice *rest;
    size_t at, count;
    bool leaves_some;
};

struct redis_batch_kind {
    enum redis_script script;
    size_t args, item_args; /* script arguments of the batch, and of each item */
    bool is_take;           /* figures count the jobs returned, not the items */
    /* Append the arguments before those of the items; and, unless NULL, those after them. */
    void (*begin)(struct redis_batch *batch, struct slice topic);
    void (*finish)(struct redis_batch *batch);
    /* Returns whether takes wait for the jobs of a push; notifies them. NULL: never `is_due`. */
    bool (*has_waiters)(const struct redis_batch *batch);
    void (*announce)(struct redis_batch *batch);
    /* Ends each item. `answer` is set only with QUEUE_OK. The batch is freed afterwards. */
    void (*done)(struct redis_batch *batch, enum queue_status status,
                 const struct redis_batch_answer *answer);
};

/* The terms of takes; zeroed for other kinds. Takes with different terms do not share a batch. */
struct redis_take_terms {
    int64_t lease_ms;
    struct slice consumer;
};

struct redis_item {
    void *owner;            /* for use by the kind */
    uint32_t index;         /* of its result; or the number of jobs wanted */
    struct queue_when when; /* for pushes */
};

struct redis_batch {
    struct list
        list; /* shard->open, in order of creation; then shard->sent, or the list of its step */
    struct list bucket; /* linked while items may be added */
    struct redis_shard *shard;
    struct redis_call call;
    const struct redis_batch_kind *kind;
    struct redis_take_terms terms; /* the consumer is stored after the topic */
    enum job_way way;              /* take: if the same for all items, else unknown */
    size_t wanted;                 /* take: jobs wanted */
    bool is_due;                   /* push: some of its jobs are due immediately */
    bool is_announced;             /* push: the waiters were notified when it was sent, */
    uint64_t resent;               /* calls resent before it was sent */
    size_t count, cap;
    struct redis_item *items;
    size_t bytes; /* counted in shard->waiting_bytes */
    size_t topic_bytes;
    char topic[]; /* followed by the consumer */
};

static inline struct slice redis_batch_topic(const struct redis_batch *batch)
{
    return slice_make(batch->topic, batch->topic_bytes);
}

/* Returns an open batch that this item may join, or a new one, with room for the item. NULL if
 * memory runs out. */
struct redis_batch *redis_batch_need(struct redis_shard *shard, const struct redis_batch_kind *kind,
                                     struct slice topic, struct redis_take_terms terms);
/* Adds an item, after its arguments were appended. */
struct redis_item *redis_batch_add(struct redis_batch *batch, void *owner, uint32_t index);

/* Returns whether the batch is no longer held back to collect more items. */
bool redis_batch_is_grown(const struct redis_batch *batch);
/* Removes the batch from the open ones; its arguments are then complete. */
void redis_batch_close(struct redis_batch *batch);
/* Ends the batch's items and frees the batch. */
void redis_batch_end(struct redis_batch *batch, enum queue_status status,
                     const struct redis_batch_answer *answer);
static inline bool redis_batch_is_of_step(const struct redis_batch *batch)
{
    return batch->kind->script == REDIS_STEP;
}

/* Sends those batches of separate calls that may be sent now. Pushes of jobs for which takes wait are announced: the
 * waiters are notified before the reply, and their takes leave right behind the push. Redis carries out the calls of a
 * connection in order, so a job is stored before it is taken. */
void redis_batches_send(struct redis_shard *shard);
/* Returns whether a batch that is not sent yet will be announced. */
bool redis_batches_will_announce(const struct redis_shard *shard);
/* Ends the open batches. */
void redis_batches_free(struct redis_shard *shard);

/*
 * shard_calls: the calls of the queue (queue.h), as a shard carries them out: each reports to
 * `reply_to` once, never inside the call.
 */

/* Submits push, answer, change: in batches, with a result for each item. */
void redis_submit_items(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to);
/* Submits take: in batches. A take by id, or by priority, is a separate call. */
void redis_submit_take(struct redis_shard *shard, const struct command *command,
                       struct queue_reply_to reply_to);
/* Submits get, list, topic, topics, forecast, find: each as a separate call. */
void redis_submit_ask(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to);

/* Notes that the end of a job is awaited, and looks the job up: the reply has the state, and the job if it is kept. In
 * batches. */
void redis_submit_await(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to);

/* Submits joins, leaves and leases (queue_batch_call), in batches. */
void redis_submit_parts(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to);

/* ---- shard_take.c, shard_ask.c: return false without a reply if memory runs out ---- */
bool redis_pick_begin(struct redis_shard *shard, const struct queue_take *take,
                      struct queue_reply_to reply_to);
bool redis_find_begin(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to);

#endif
