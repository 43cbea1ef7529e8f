#include "redis/shard_core.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/vector.h"
#include "queue/filter.h"

#include <assert.h>
#include <stdlib.h>

enum {
    MISSED_MS = 1000,       /* unreachable for this long: unhealthy */
    OTHER_COUNTS_US = 50000 /* how long another server is expected to act */
};

/* ---- replies ---- */

void redis_shard_reply(struct redis_shard *shard, struct queue_reply_to reply_to,
                       const struct queue_reply *reply)
{
    assert(shard->calls);
    shard->calls--;
    if (!shard->freeing)
        reply_to.done(reply_to.owner, reply_to.tag, reply);
}

struct refusal {
    struct redis_soon soon;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    enum queue_status status;
};

static void refusal_run(struct redis_soon *soon)
{
    struct refusal *refusal = list_entry(soon, struct refusal, soon);
    redis_shard_reply_status(refusal->shard, refusal->reply_to, refusal->status);
    free(refusal);
}

void redis_shard_refuse(struct redis_shard *shard, enum queue_status status,
                        struct queue_reply_to reply_to)
{
    struct refusal *refusal = malloc(sizeof *refusal);
    assert(refusal); /* without memory even for a refusal, the server cannot continue correctly */
    *refusal = (struct refusal){{.run = refusal_run}, shard, reply_to, status};
    shard->calls++;
    redis_soon_add(shard, &refusal->soon);
}

enum queue_status redis_shard_accepts(const struct redis_shard *shard)
{
    if (shard->stopping)
        return QUEUE_STOPPING;
    return shard->waiting_bytes > REDIS_WAITING_BYTES_MAX ? QUEUE_UNAVAILABLE : QUEUE_OK;
}

bool redis_shard_is_missed(const struct redis_shard *shard)
{
    return !shard->up && clock_inner_ms() - shard->changed_ms >= MISSED_MS;
}

/* ---- the next event ---- */

void redis_next_set(struct redis_next *next, int64_t ms, struct slice topic)
{
    next->ms = ms;
    next->topic_bytes = topic.len <= sizeof next->topic ? topic.len : 0;
    if (next->topic_bytes)
        memcpy(next->topic, topic.at, next->topic_bytes);
}

int64_t redis_shard_to_inner_us(const struct redis_shard *shard, int64_t at_ms)
{
    const struct peer_clock *clock = redis_session_clock(shard->session);
    return clock->known || clock->is_held ? peer_clock_to_inner(clock, at_ms) : INT64_MAX;
}

void redis_shard_note_due(struct redis_shard *shard, int64_t asked_us, const struct redis_due *due)
{
    if (redis_shard_to_inner_us(shard, shard->next.ms) <= asked_us) {
        shard->in_vain_us = asked_us;
        shard->in_vain_event_ms = shard->next.ms;
    }
    if (due->has_more)
        shard->pause_until_us = 0;
    if (due->was_taken)
        shard->notified.ms = INT64_MAX;
    shard->other_until_us = due->has_other ? clock_boot_us() + OTHER_COUNTS_US : 0;
}

/* ---- script calls ---- */

void redis_shard_call_init(struct redis_call *call, enum redis_script script, bool changes,
                           void (*done)(struct redis_call *call, enum redis_call_end end,
                                        const struct redis_head *head, const redisReply *reply))
{
    *call = (struct redis_call){.script = script, .changes = changes, .done = done};
    buffer_init(&call->args, SIZE_MAX / 2);
}

bool redis_shard_send(struct redis_shard *shard, struct redis_call *call, size_t argc)
{
    if (call->args.failed)
        return false;
    call->argc = argc;
    redis_session_submit(shard->session, call);
    return true;
}

enum queue_status redis_shard_status(enum redis_call_end end)
{
    switch (end) {
    case REDIS_CALL_OK:
        return QUEUE_OK;
    case REDIS_CALL_NO_SPACE:
        return QUEUE_NO_SPACE;
    case REDIS_CALL_UNAVAILABLE:
        return QUEUE_UNAVAILABLE;
    case REDIS_CALL_STOPPING:
        return QUEUE_STOPPING;
    }
    return QUEUE_UNAVAILABLE;
}

bool redis_element(const redisReply *reply, size_t at, struct slice *out)
{
    *out = (struct slice){0};
    if (at >= reply->elements)
        return false;
    const redisReply *element = reply->element[at];
    if (element->type == REDIS_REPLY_STRING)
        *out = slice_make(element->str, element->len);
    return element->type == REDIS_REPLY_STRING || element->type == REDIS_REPLY_NIL;
}

void redis_shard_log_malformed(const struct redis_shard *shard, enum redis_script script)
{
    log_event(LOG_ERROR, "answer of a script cannot be read",
              LOG_TEXT("script", redis_script_name(script)),
              LOG_NUMBER("shard", shard->options.index));
}

void redis_shard_note_space(struct redis_shard *shard, enum queue_status status)
{
    if (status != QUEUE_OK && status != QUEUE_NO_SPACE)
        return;
    if (!shard->has_space && status == QUEUE_OK)
        log_event(LOG_INFO, "redis has room again", LOG_NUMBER("shard", shard->options.index));
    shard->has_space = status == QUEUE_OK;
}

/* ---- shard batch ---- */

enum {
    ITEMS_GROWN = 128,    /* above this, it no longer waits for more items */
    BYTES_FULL = 1 << 20, /* above this, no items join; a single larger item is allowed */
    ITEMS_FIRST = 16
};

static void batch_free(struct redis_batch *batch)
{
    list_remove(&batch->list);
    list_remove(&batch->bucket);
    batch->shard->waiting_bytes -= batch->bytes;
    buffer_fini(&batch->call.args);
    free(batch->items);
    free(batch);
}

void redis_batch_end(struct redis_batch *batch, enum queue_status status,
                     const struct redis_batch_answer *answer)
{
    batch->kind->done(batch, status, answer);
    batch_free(batch);
}

static void on_done(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                    const redisReply *reply)
{
    struct redis_batch *batch = list_entry(call, struct redis_batch, call);
    batch->shard->batches_under_way--;
    if (end != REDIS_CALL_OK) {
        redis_batch_end(batch, redis_shard_status(end), NULL);
        return;
    }
    struct slice rest = head->rest;
    redis_shard_note_head(batch->shard, head);
    redis_batch_end(
        batch, QUEUE_OK,
        &(struct redis_batch_answer){
            .head = head, .reply = reply, .rest = &rest, .at = 1, .count = reply->elements - 1});
}

/* ---- filling ---- */

static struct list *bucket_of(struct redis_shard *shard, struct slice topic)
{
    return &shard->buckets[hash_64(topic.at, topic.len) % REDIS_BATCH_BUCKETS];
}

static bool is_like(const struct redis_batch *batch, const struct redis_batch_kind *kind,
                    struct slice topic, const struct redis_take_terms *terms)
{
    return batch->kind == kind && batch->terms.lease_ms == terms->lease_ms &&
           slice_equals(redis_batch_topic(batch), topic) &&
           slice_equals(batch->terms.consumer, terms->consumer);
}

static struct redis_batch *batch_find(struct list *bucket, const struct redis_batch_kind *kind,
                                      struct slice topic, const struct redis_take_terms *terms)
{
    for (struct list *at = bucket->next; at != bucket; at = at->next) {
        struct redis_batch *batch = list_entry(at, struct redis_batch, bucket);
        if (is_like(batch, kind, topic, terms))
            return batch;
    }
    return NULL;
}

static struct redis_batch *batch_new(struct redis_shard *shard, struct list *bucket,
                                     const struct redis_batch_kind *kind, struct slice topic,
                                     const struct redis_take_terms *terms)
{
    struct redis_batch *batch = calloc(1, sizeof *batch + topic.len + terms->consumer.len);
    if (!batch)
        return NULL;
    batch->shard = shard;
    batch->kind = kind;
    batch->terms.lease_ms = terms->lease_ms;
    batch->topic_bytes = topic.len;
    char *text = batch->topic;
    queue_text_copy(&text, topic);
    batch->terms.consumer = queue_text_copy(&text, terms->consumer);
    redis_shard_call_init(&batch->call, kind->script, true, on_done);
    if (kind->begin)
        kind->begin(batch, topic);
    list_add_last(&shard->open, &batch->list);
    list_add_last(bucket, &batch->bucket);
    return batch;
}

static bool is_full(const struct redis_batch *batch)
{
    return batch->count >= REDIS_BATCH_ITEMS_MAX || batch->wanted >= REDIS_BATCH_ITEMS_MAX ||
           batch->bytes >= BYTES_FULL;
}

static bool has_room(struct redis_batch *batch)
{
    if (batch->count < batch->cap)
        return true;
    struct redis_item *items = vector_grow(batch->items, sizeof *items,
                                           batch->cap ? batch->cap + 1 : ITEMS_FIRST, &batch->cap);
    if (items)
        batch->items = items;
    return items != NULL;
}

struct redis_batch *redis_batch_need(struct redis_shard *shard, const struct redis_batch_kind *kind,
                                     struct slice topic, struct redis_take_terms terms)
{
    struct list *bucket = bucket_of(shard, topic);
    struct redis_batch *batch = batch_find(bucket, kind, topic, &terms);
    if (batch && is_full(batch)) {
        list_remove(&batch->bucket);
        batch = NULL;
    }
    if (!batch)
        batch = batch_new(shard, bucket, kind, topic, &terms);
    return batch && has_room(batch) ? batch : NULL;
}

struct redis_item *redis_batch_add(struct redis_batch *batch, void *owner, uint32_t index)
{
    assert(batch->count < batch->cap);
    struct redis_item *item = &batch->items[batch->count++];
    *item = (struct redis_item){.owner = owner, .index = index};
    batch->shard->waiting_bytes += batch->call.args.len - batch->bytes;
    batch->bytes = batch->call.args.len;
    return item;
}

/* ---- sending ---- */

void redis_batch_close(struct redis_batch *batch)
{
    list_remove(&batch->list);
    list_remove(&batch->bucket);
    if (batch->kind->finish)
        batch->kind->finish(batch);
}

/* Returns whether the batch is announced when it is sent. */
static bool is_to_announce(const struct redis_batch *batch)
{
    return batch->is_due && batch->shard->up && batch->kind->has_waiters(batch);
}

bool redis_batches_will_announce(const struct redis_shard *shard)
{
    for (const struct list *at = shard->open.next; at != &shard->open; at = at->next)
        if (is_to_announce(list_entry(at, struct redis_batch, list)))
            return true;
    return false;
}

static void batch_send(struct redis_batch *batch)
{
    struct redis_shard *shard = batch->shard;
    const struct redis_batch_kind *kind = batch->kind;
    if (is_to_announce(batch))
        kind->announce(batch);
    redis_batch_close(batch);
    list_add_last(&shard->sent, &batch->list);
    shard->batches_under_way++;
    shard->options.figures->items += kind->is_take ? 0 : batch->count;
    if (redis_shard_send(shard, &batch->call, kind->args + batch->count * kind->item_args))
        return;
    shard->batches_under_way--;
    redis_batch_end(batch, QUEUE_NO_MEMORY, NULL);
}

bool redis_batch_is_grown(const struct redis_batch *batch)
{
    return batch->count >= ITEMS_GROWN || is_full(batch);
}

/* Returns whether the batch may keep growing: a similar one is in progress, and until its reply
 * arrives more items can join (decision 13). */
static bool may_grow(const struct redis_batch *batch)
{
    const struct list *sent = &batch->shard->sent;
    if (redis_batch_is_grown(batch))
        return false;
    for (const struct list *at = sent->next; at != sent; at = at->next)
        if (is_like(list_entry(at, struct redis_batch, list), batch->kind, redis_batch_topic(batch),
                    &batch->terms))
            return true;
    return false;
}

static struct redis_batch *first_to_send(struct redis_shard *shard)
{
    for (struct list *at = shard->open.next; at != &shard->open; at = at->next) {
        struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (!redis_batch_is_of_step(batch) && (!shard->up || !may_grow(batch)))
            return batch;
    }
    return NULL;
}

/* Sends batches. While the shard is unreachable, they are passed to the session, which handles the
 * timeout. */
void redis_batches_send(struct redis_shard *shard)
{
    struct redis_batch *batch;
    while ((!shard->up || shard->batches_under_way < REDIS_SESSION_SLOTS) &&
           (batch = first_to_send(shard)))
        batch_send(batch);
}

void redis_batches_free(struct redis_shard *shard)
{
    while (!list_is_empty(&shard->open))
        redis_batch_end(list_entry(shard->open.next, struct redis_batch, list), QUEUE_STOPPING,
                        NULL);
}
