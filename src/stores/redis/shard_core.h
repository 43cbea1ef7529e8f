/*
 * shard_core: what a shard (shard.h) consists of, and what all its files stand on: its clock, sending a
 * call, replying to the queue's callers. The ground of redis/shard*.c, and for them only:
 *
 *   shard_core    this
 *   shard_news    what is told of topics: something is ready, something happened; the look
 *   shard_batch   what is asked in a turn travels together
 *   shard_items   push, answer, change: calls with a result for each item, in batches
 *   shard_take    takes, in batches
 *   shard_feed    what happens, from the scripts to who listens
 *   shard_turn    answers, takes and what is due, in one call
 *   shard_move    the way to the next generation
 *   shard_ask     get, list, topic, topics: calls that travel alone
 *   shard         the turn, what happens as time passes, life
 */
#ifndef TARRY_REDIS_SHARD_CORE_H
#define TARRY_REDIS_SHARD_CORE_H

#include "base/list.h"
#include "base/random.h"
#include "base/table.h"
#include "redis/codec.h"
#include "redis/session.h"
#include "redis/shard.h"

enum {
    REDIS_BATCH_BUCKETS = 64,
    REDIS_WAITING_BYTES_MAX = 256 << 20 /* of batches not answered yet: then no more are taken */
};

/* ---- a topic somebody watches ---- */

struct redis_watch {
    struct table_entry entry;
    struct list fresh; /* shard->fresh: nobody has looked yet */
    struct list ready; /* shard->ready: to be told */
    uint64_t count;    /* ons without an off */
    uint64_t look;     /* the last one that asked for it */
    bool seen;         /* a look at it has come back */
    bool told;         /* since it was seen without ready jobs */
    bool found;        /* by the look that is coming back */
    char topic[];
};

TABLE_DECLARE(redis_watches, struct redis_watch, entry)

/* ---- how far a kind of event has come, as far as it was heard of ---- */

struct redis_heard {
    bool known;
    uint64_t number;
};

struct redis_events_heard {
    struct redis_heard changes, deaths;
};

/* ---- when something happens next, on the shard's clock, and to which topic ---- */

struct redis_next {
    int64_t ms; /* INT64_MAX: never */
    size_t topic_bytes;
    char topic[JOB_TOPIC_BYTES_MAX]; /* none: to a lease, or nobody knows */
};

static inline struct slice redis_next_topic(const struct redis_next *next)
{
    return slice_make(next->topic, next->topic_bytes);
}
void redis_next_set(struct redis_next *next, int64_t ms, struct slice topic);

/* ---- its way to the next generation (shard_move.c) ---- */

struct redis_move {
    enum redis_move_state state;
    struct redis_generation target;
    uint64_t number;  /* the last it gave out, as a look or a step said */
    int64_t next_ms;  /* inner: when the next page may be asked for */
    int64_t began_us; /* inner: when this one was */
    bool is_under_way;
    uint32_t left;   /* shards that this page has not come to yet */
    bool has_failed; /* with one of them */
    uint64_t page;
};

struct redis_shard {
    struct queue queue; /* first: handed out as such */
    struct redis_shard_options options;
    struct redis_session *session;
    struct random random;

    struct list open, sent; /* batches */
    struct list buckets[REDIS_BATCH_BUCKETS];
    size_t batches_under_way, turns_under_way, waiting_bytes;
    struct list soon; /* replies that are ready */
    size_t calls;     /* of the queue, without a reply */

    struct redis_watches watches;
    struct list fresh, ready;
    uint64_t looks;

    int64_t hear_ms; /* inner: when the scripts are told again that somebody listens */
    bool is_heard;   /* somebody did at the last turn */

    struct list events; /* to be told */
    size_t event_count;
    struct redis_events_heard heard;

    struct redis_next next, news; /* the next event: as the last answer said; as news did since */
    int64_t adjust_ms;            /* the shard's clock - its wall clock */
    int64_t pause_until_us;       /* boot: what is due is not asked for again at once */
    int64_t other_until_us;       /* boot: so long another server is counted on to come first */
    /* inner: when a turn found that this event, which seemed to be due, is not yet */
    int64_t in_vain_us;
    int64_t in_vain_event_ms;
    /* the event that is due; boot: since when it was seen to be */
    int64_t due_event_ms;
    int64_t due_seen_us;
    struct redis_next told;        /* those who wait for its topic were told of this event; */
    bool told_in_vain;             /* and none of them came */
    int64_t turned_ms;             /* inner: since when it is up, or is not */
    bool up, known;                /* known: an answer came since it is up */
    int64_t busy_ms;               /* inner: the last turn that saw a batch */
    size_t record_bytes;           /* of a job that was taken of late, about */
    uint64_t unpacked;             /* far jobs pushed through here and not packed yet, about */
    int64_t answers_wait_since_us; /* boot: answers alone wait for a turn; 0: none do */
    bool lets_due, due_under_way;  /* the next turn, and one that is with Redis */
    bool looking, packing, probing;
    struct redis_move move;
    bool may_pack; /* there may be far jobs among the fresh */
    bool stopping, freeing, has_space;
};

static inline struct redis_shard *redis_shard_of(struct queue *queue)
{
    return (struct redis_shard *)(void *)queue;
}

/* ---- replies ---- */

/* A reply that goes out at the end of the turn: none goes out inside its call. Embed it. */
struct redis_soon {
    struct list list;
    void (*run)(struct redis_soon *soon); /* replies, and frees what it is embedded in */
};
static inline void redis_soon_add(struct redis_shard *shard, struct redis_soon *soon)
{
    list_add_last(&shard->soon, &soon->list);
}

/* Every reply goes out here. `reply_to` may be gone afterwards. */
void redis_shard_reply(struct redis_shard *shard, struct queue_reply_to reply_to,
                       const struct queue_reply *reply);
static inline void redis_shard_reply_status(struct redis_shard *shard,
                                            struct queue_reply_to reply_to,
                                            enum queue_status status)
{
    redis_shard_reply(shard, reply_to, &(struct queue_reply){.status = status});
}
/* QUEUE_OK, or why nothing is taken on now. */
enum queue_status redis_shard_accepts(const struct redis_shard *shard);
/* Out of reach for longer than a connection takes to be made anew. */
bool redis_shard_is_missed(const struct redis_shard *shard);

/* ---- calls of scripts ---- */

/* Prepares a call: its buffer, what it does and who hears of it. */
void redis_shard_call_init(struct redis_call *call, enum redis_script script, bool changes,
                           void (*done)(struct redis_call *call, enum redis_call_end end,
                                        const struct redis_head *head, const redisReply *reply));
/* Sends it; `argc` arguments were appended. False: memory ran out over them, nothing is sent. */
bool redis_shard_send(struct redis_shard *shard, struct redis_call *call, size_t argc);
enum queue_status redis_shard_status(enum redis_call_end end);

/* The next event and the adjustment that came with any answer. */
static inline void redis_shard_hear(struct redis_shard *shard, const struct redis_head *head)
{
    redis_next_set(&shard->next, head->next_ms, head->next_topic);
    shard->adjust_ms = head->adjust_ms;
    shard->known = true;
}
/* A time of the shard's on the inner clock, in microseconds; INT64_MAX stays what it is. */
int64_t redis_shard_to_inner_us(const struct redis_shard *shard, int64_t at_ms);
/* A turn is back; what it says of what is due. `asked_us`: inner, when it was asked to let due things
 * happen; INT64_MIN: it was not. */
struct redis_due {
    bool has_more;  /* more is due now */
    bool has_other; /* another server comes for it */
    bool was_taken; /* some of it was */
};
void redis_shard_note_due(struct redis_shard *shard, int64_t asked_us, const struct redis_due *due);

/* One element of an answer; empty where it is nil. False: not a text. */
bool redis_element(const redisReply *reply, size_t at, struct slice *out);
void redis_shard_say_malformed(const struct redis_shard *shard, enum redis_script script);

/* A push was tried: whether there was room for it. */
void redis_shard_note_space(struct redis_shard *shard, enum queue_status status);

#endif
