/* A shard's own structures, shared by redis/shard*.c only. */
#ifndef TARRY_REDIS_PRIVATE_H
#define TARRY_REDIS_PRIVATE_H

#include "base/list.h"
#include "base/random.h"
#include "redis/codec.h"
#include "redis/session.h"
#include "redis/shard.h"

enum {
    REDIS_BATCH_ITEMS_MAX = 500,
    REDIS_BATCH_ITEMS_GROWN = 128, /* then it no longer waits for more */
    REDIS_BATCH_BYTES = 1 << 20,   /* then no more join; one bigger item alone is fine */
    REDIS_TAKE_BYTES_MAX = 16 << 20,
    REDIS_WAITING_BYTES_MAX = 256 << 20, /* of batches not answered yet: then no more are taken */
    REDIS_BATCH_BUCKETS = 64
};

/* ---- a call with one result per item: push, answer, change; or one that is refused ---- */

struct redis_request {
    struct list list; /* shard->soon, once nothing is left */
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    size_t left; /* items that have no result yet */
    enum queue_status status;
    size_t count;
    struct queue_result results[];
    /* then the text of topics and ids */
};

/* ---- what travels together ---- */

enum redis_batch_kind {
    REDIS_BATCH_PUSH = 1,
    REDIS_BATCH_TAKE,
    REDIS_BATCH_ANSWER,
    REDIS_BATCH_CHANGE
};

struct redis_item {
    void *owner;            /* a redis_request, or a redis_taking */
    uint32_t index;         /* of its result; or how many jobs are wanted */
    struct queue_when when; /* of a push */
};

struct redis_batch {
    struct list list;   /* shard->open, in the order they were begun; then shard->sent */
    struct list bucket; /* as long as more may be added */
    struct redis_shard *shard;
    struct redis_call call;
    enum redis_batch_kind kind;
    int64_t lease_ms; /* take */
    size_t wanted;    /* take */
    size_t count, cap;
    struct redis_item *items;
    size_t bytes; /* counted in shard->waiting_bytes */
    size_t topic_bytes;
    char topic[];
};

/* ---- a topic somebody watches ---- */

struct redis_watch {
    struct list bucket, all;
    struct list fresh; /* shard->fresh: nobody has looked yet */
    struct list ready; /* shard->ready: to be told */
    uint64_t count;    /* ons without an off */
    uint64_t look;     /* the last one that asked for it */
    bool seen;         /* a look at it has come back */
    bool told;         /* since it was seen without ready jobs */
    bool found;        /* by the look that is coming back */
    size_t topic_bytes;
    char topic[];
};

/* ---- how far a kind of event has come, as far as it was heard of ---- */

struct redis_heard {
    bool known;
    uint64_t number;
};

struct redis_events_heard {
    struct redis_heard changes, deaths;
};

struct redis_shard {
    struct queue queue; /* first: handed out as such */
    struct redis_shard_options options;
    struct redis_session *session;
    struct random random;

    struct list open, sent; /* batches */
    struct list buckets[REDIS_BATCH_BUCKETS];
    size_t batches_under_way, waiting_bytes;
    struct list soon; /* requests whose reply is ready */
    size_t calls;     /* of the queue, without a reply */

    struct list *watch_buckets;
    size_t watch_bucket_count, watch_count;
    struct list watched, fresh, ready;
    uint64_t looks;

    struct list events; /* to be told */
    size_t event_count;
    struct redis_events_heard heard;

    int64_t next_ms, news_ms; /* the next event: as the last answer said; as news did since */
    int64_t adjust_ms;        /* the shard's clock - its wall clock */
    int64_t pause_until_us;   /* boot: an advance is not repeated at once */
    int64_t in_vain_ms; /* inner: when an advance found that this event, which seemed to be due, */
    int64_t in_vain_event_ms; /* is not yet */
    int64_t turned_ms;        /* inner: since when it is up, or is not */
    bool up, known;           /* known: an answer came since it is up */
    int64_t busy_ms;          /* inner: the last turn that saw a batch */
    uint64_t unpacked;        /* far jobs pushed through here and not packed yet, about */
    bool advancing, looking, packing, probing;
    bool may_pack; /* there may be far jobs among the fresh */
    bool stopping, freeing, has_space;
};

static inline struct redis_shard *redis_shard_of(struct queue *queue)
{
    return (struct redis_shard *)(void *)queue;
}

/* ---- shard.c ---- */
/* Time and adjustment that came with any answer. */
void redis_shard_hear(struct redis_shard *shard, const struct redis_head *head);
/* A time of the shard's on the inner clock; INT64_MAX stays what it is. */
int64_t redis_shard_to_inner(const struct redis_shard *shard, int64_t at_ms);
enum queue_status redis_shard_status(enum redis_call_end end);
/* Every reply goes out here. `reply_to` may be gone afterwards. */
void redis_shard_reply(struct redis_shard *shard, struct queue_reply_to reply_to,
                       const struct queue_reply *reply);
void redis_shard_reply_status(struct redis_shard *shard, struct queue_reply_to reply_to,
                              enum queue_status status);
/* QUEUE_OK, or why nothing is taken on now. */
enum queue_status redis_shard_accepts(const struct redis_shard *shard);
/* Out of reach for longer than a connection takes to be made anew. */
bool redis_shard_is_missed(const struct redis_shard *shard);
/* Prepares a call: its buffer, what it does and who hears of it. */
void redis_shard_call_init(struct redis_call *call, enum redis_script script, bool changes,
                           void (*done)(struct redis_call *call, enum redis_call_end end,
                                        const struct redis_head *head, const redisReply *reply));
/* Sends it; `argc` arguments were appended. False: memory ran out over them, nothing is sent. */
bool redis_shard_send(struct redis_shard *shard, struct redis_call *call, size_t argc);
/* One element of an answer; empty where it is nil. False: not a text. */
bool redis_element(const redisReply *reply, size_t at, struct slice *out);
void redis_shard_say_malformed(const struct redis_shard *shard, enum redis_script script);

/* ---- shard_batch.c ---- */
/* The open batch this item may join, or a new one; with room for it. NULL: out of memory. */
struct redis_batch *redis_batch_need(struct redis_shard *shard, enum redis_batch_kind kind,
                                     struct slice topic, int64_t lease_ms);
/* After the item's arguments were appended. */
void redis_batch_add(struct redis_batch *batch, void *owner, uint32_t index);
/* Sends what may be sent now. */
void redis_batches_send(struct redis_shard *shard);
void redis_batches_free(struct redis_shard *shard);
/* Room for `count` results whose text takes `text_bytes`; counted as a call. NULL: no memory. */
struct redis_request *redis_request_new(struct redis_shard *shard, size_t count, size_t text_bytes,
                                        struct queue_reply_to reply_to);
/* The same where the shard takes calls. NULL: has been answered. */
struct redis_request *redis_request_open(struct redis_shard *shard, size_t count, size_t text_bytes,
                                         struct queue_reply_to reply_to);
struct slice redis_request_text(struct redis_request *request, size_t *used, struct slice text);
/* All items of this call have been handed out; those without a batch have their result. */
void redis_request_begun(struct redis_request *request);
/* One item less. Replies with the last one. */
void redis_request_item_done(struct redis_request *request);
void redis_requests_run(struct redis_shard *shard);

/* ---- what becomes of a batch: in shard_push.c, … ---- */
void redis_push_done(struct redis_batch *batch, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply);
void redis_take_done(struct redis_batch *batch, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply);
void redis_answer_done(struct redis_batch *batch, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply);
void redis_change_done(struct redis_batch *batch, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply);
void redis_take_fail(struct redis_batch *batch, enum queue_status status);
/* The same for every item; not for takes. */
void redis_batch_fail(struct redis_batch *batch, enum queue_status status);

/* ---- shard_push.c ---- */
/* Where a push found no room, one of no jobs asks whether there is some: nobody may send another,
 * since a server that has no room is not ready. */
void redis_push_probe(struct redis_shard *shard);
/* The master says that it refuses what grows. */
void redis_push_note_full(struct redis_shard *shard);

/* ---- shard_watch.c ---- */
bool redis_watches_init(struct redis_shard *shard);
void redis_watches_fini(struct redis_shard *shard);
void redis_watch_set(struct queue *queue, struct slice topic, bool on);
/* The topic has ready jobs: whoever watches it is told at the end of the turn. */
void redis_watch_tell(struct redis_shard *shard, struct slice topic);
void redis_watches_tell(struct redis_shard *shard);
/* Looks at those watched only just now; or at all, which also asks for the next event. */
void redis_watches_look(struct redis_shard *shard, bool all);

/* ---- shard_event.c ---- */
void redis_events_fini(struct redis_shard *shard);
/* Is told at the end of the turn; an empty name: any topic. */
void redis_event_note(struct redis_shard *shard, enum queue_event kind, struct slice topic);
void redis_events_tell(struct redis_shard *shard);
/* A message, the number-th of its kind; `own`: of a call from here, whose answer notes it. */
void redis_event_heard(struct redis_shard *shard, enum queue_event kind, uint64_t number,
                       struct slice topic, bool own);
/* What a look found; `before`: what was known when it was sent. */
void redis_events_counted(struct redis_shard *shard, uint64_t changes, uint64_t deaths,
                          const struct redis_events_heard *before);

/* ---- shard_advance.c ---- */
/* Moves what is due. */
void redis_advance(struct redis_shard *shard);
/* How long it is left alone after the last time. */
int64_t redis_advance_pause_ms(const struct redis_shard *shard);

/* ---- shard_pack.c ---- */
/* A job was pushed. Both times on the same clock. */
void redis_pack_note(struct redis_shard *shard, int64_t due_ms, int64_t now_ms);
/* In each turn, after the batches were sent. Returns the inner time of the turn it wants. */
int64_t redis_pack_turn(struct redis_shard *shard, int64_t now_ms);

/* ---- the calls of the queue, each kind's: in shard_push.c, … ---- */
void redis_push(struct redis_shard *, const struct command *, struct queue_reply_to);
void redis_answer(struct redis_shard *, const struct command *, struct queue_reply_to);
void redis_change(struct redis_shard *, const struct command *, struct queue_reply_to);
void redis_take(struct redis_shard *, const struct command *, struct queue_reply_to);
void redis_get(struct redis_shard *, const struct command *, struct queue_reply_to);
void redis_list(struct redis_shard *, const struct command *, struct queue_reply_to);
void redis_topic(struct redis_shard *, const struct command *, struct queue_reply_to);
void redis_topics(struct redis_shard *, const struct command *, struct queue_reply_to);

#endif
