/* What is asked in a turn, gathered into few calls of the scripts. */
#include "redis/private.h"

#include "base/hash.h"
#include "redis/command.h"

#include <assert.h>
#include <stdlib.h>

/* ---- requests ---- */

struct redis_request *redis_request_new(struct redis_shard *shard, size_t count, size_t text_bytes,
                                        struct queue_reply_to reply_to)
{
    struct redis_request *request =
        malloc(sizeof *request + count * sizeof(struct queue_result) + text_bytes);
    if (!request)
        return NULL;
    memset(request, 0, sizeof *request + count * sizeof(struct queue_result));
    request->shard = shard;
    request->reply_to = reply_to;
    request->count = count;
    request->left = count + 1; /* one more, until all are handed out */
    shard->calls++;
    return request;
}

struct redis_request *redis_request_open(struct redis_shard *shard, size_t count, size_t text_bytes,
                                         struct queue_reply_to reply_to)
{
    enum queue_status status = redis_shard_accepts(shard);
    struct redis_request *request = NULL;
    if (status == QUEUE_OK && !(request = redis_request_new(shard, count, text_bytes, reply_to)))
        status = QUEUE_NO_MEMORY;
    if (!request)
        redis_shard_refuse(shard, status, reply_to);
    return request;
}

struct slice redis_request_text(struct redis_request *request, size_t *used, struct slice text)
{
    char *at = (char *)(request->results + request->count) + *used;
    if (text.len)
        memcpy(at, text.at, text.len);
    *used += text.len;
    return slice_make(at, text.len);
}

static void request_reply(struct redis_request *request)
{
    struct queue_reply reply = {.status = request->status};
    if (request->count) {
        reply.results = request->results;
        reply.result_count = request->count;
    }
    redis_shard_reply(request->shard, request->reply_to, &reply);
    free(request);
}

void redis_request_begun(struct redis_request *request)
{
    if (--request->left == 0)
        list_add_last(&request->shard->soon, &request->list);
}

void redis_request_item_done(struct redis_request *request)
{
    if (--request->left == 0)
        request_reply(request);
}

/* Those added by the callbacks wait for the next round. */
void redis_requests_run(struct redis_shard *shard)
{
    struct list round;
    list_init(&round);
    while (!list_is_empty(&shard->soon)) {
        struct list *first = shard->soon.next;
        list_remove(first);
        list_add_last(&round, first);
    }
    while (!list_is_empty(&round)) {
        struct redis_request *request = list_entry(round.next, struct redis_request, list);
        list_remove(&request->list);
        request_reply(request);
    }
}

/* ---- batches ---- */

static const enum redis_script scripts[] = {[REDIS_BATCH_PUSH] = REDIS_PUSH,
                                            [REDIS_BATCH_TAKE] = REDIS_TAKE,
                                            [REDIS_BATCH_ANSWER] = REDIS_ANSWER,
                                            [REDIS_BATCH_CHANGE] = REDIS_CHANGE};

static void batch_free(struct redis_batch *batch)
{
    list_remove(&batch->list);
    list_remove(&batch->bucket);
    batch->shard->waiting_bytes -= batch->bytes;
    buffer_fini(&batch->call.args);
    free(batch->items);
    free(batch);
}

static void end(struct redis_batch *batch, enum redis_call_end how, const struct redis_head *head,
                const redisReply *reply)
{
    switch (batch->kind) {
    case REDIS_BATCH_PUSH:
        redis_push_done(batch, how, head, reply);
        break;
    case REDIS_BATCH_TAKE:
        redis_take_done(batch, how, head, reply);
        break;
    case REDIS_BATCH_ANSWER:
        redis_answer_done(batch, how, head, reply);
        break;
    case REDIS_BATCH_CHANGE:
        redis_change_done(batch, how, head, reply);
        break;
    }
    batch_free(batch);
}

static void on_done(struct redis_call *call, enum redis_call_end how, const struct redis_head *head,
                    const redisReply *reply)
{
    struct redis_batch *batch = list_entry(call, struct redis_batch, call);
    batch->shard->batches_under_way--;
    if (how == REDIS_CALL_OK)
        redis_shard_hear(batch->shard, head);
    end(batch, how, head, reply);
}

void redis_batch_fail(struct redis_batch *batch, enum queue_status status)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct redis_request *request = batch->items[i].owner;
        request->results[batch->items[i].index].status = status;
        redis_request_item_done(request);
    }
}

static struct list *bucket_of(struct redis_shard *shard, struct slice topic)
{
    return &shard->buckets[hash_64(topic.at, topic.len) % REDIS_BATCH_BUCKETS];
}

static struct redis_batch *batch_find(struct redis_shard *shard, enum redis_batch_kind kind,
                                      struct slice topic, int64_t lease_ms)
{
    struct list *bucket = bucket_of(shard, topic);
    for (struct list *at = bucket->next; at != bucket; at = at->next) {
        struct redis_batch *batch = list_entry(at, struct redis_batch, bucket);
        if (batch->kind == kind && batch->lease_ms == lease_ms &&
            slice_equals(slice_make(batch->topic, batch->topic_bytes), topic))
            return batch;
    }
    return NULL;
}

/* What comes before the items. A take's arguments are written when it is sent. */
static void begin_args(struct redis_batch *batch, struct slice topic)
{
    struct redis_shard *shard = batch->shard;
    struct buffer *args = &batch->call.args;
    if (batch->kind == REDIS_BATCH_ANSWER) {
        redis_command_number(args, (int64_t)random_below(&shard->random, 1ull << 48));
        return;
    }
    redis_command_arg(args, topic);
    if (batch->kind == REDIS_BATCH_PUSH)
        redis_command_number(args, shard->options.topics_max);
}

static size_t args_of(const struct redis_batch *batch)
{
    switch (batch->kind) {
    case REDIS_BATCH_PUSH:
        return 2 + batch->count * REDIS_PUSH_ARGS;
    case REDIS_BATCH_TAKE:
        return 4;
    case REDIS_BATCH_ANSWER:
        return 1 + batch->count * REDIS_ANSWER_ARGS;
    case REDIS_BATCH_CHANGE:
        return 1 + batch->count * REDIS_CHANGE_ARGS;
    }
    return 0;
}

static struct redis_batch *batch_new(struct redis_shard *shard, enum redis_batch_kind kind,
                                     struct slice topic, int64_t lease_ms)
{
    struct redis_batch *batch = calloc(1, sizeof *batch + topic.len);
    if (!batch)
        return NULL;
    batch->shard = shard;
    batch->kind = kind;
    batch->lease_ms = lease_ms;
    batch->topic_bytes = topic.len;
    if (topic.len)
        memcpy(batch->topic, topic.at, topic.len);
    redis_shard_call_init(&batch->call, scripts[kind], true, on_done);
    begin_args(batch, topic);
    list_add_last(&shard->open, &batch->list);
    list_add_last(bucket_of(shard, topic), &batch->bucket);
    return batch;
}

static bool is_full(const struct redis_batch *batch)
{
    return batch->count >= REDIS_BATCH_ITEMS_MAX || batch->wanted >= REDIS_BATCH_ITEMS_MAX ||
           batch->bytes >= REDIS_BATCH_BYTES;
}

static bool has_room(struct redis_batch *batch)
{
    if (batch->count < batch->cap)
        return true;
    size_t cap = batch->cap ? batch->cap * 2 : 16;
    struct redis_item *items = realloc(batch->items, cap * sizeof *items);
    if (!items)
        return false;
    batch->items = items;
    batch->cap = cap;
    return true;
}

struct redis_batch *redis_batch_need(struct redis_shard *shard, enum redis_batch_kind kind,
                                     struct slice topic, int64_t lease_ms)
{
    struct redis_batch *batch = batch_find(shard, kind, topic, lease_ms);
    if (batch && is_full(batch)) {
        list_remove(&batch->bucket);
        batch = NULL;
    }
    if (!batch)
        batch = batch_new(shard, kind, topic, lease_ms);
    return batch && has_room(batch) ? batch : NULL;
}

void redis_batch_add(struct redis_batch *batch, void *owner, uint32_t index)
{
    assert(batch->count < batch->cap);
    batch->items[batch->count++] = (struct redis_item){.owner = owner, .index = index};
    batch->shard->waiting_bytes += batch->call.args.len - batch->bytes;
    batch->bytes = batch->call.args.len;
}

static void end_take_args(struct redis_batch *batch)
{
    struct buffer *args = &batch->call.args;
    redis_command_number(args, (int64_t)batch->wanted);
    redis_command_number(args, REDIS_TAKE_BYTES_MAX);
    redis_command_number(args, batch->lease_ms);
}

static void batch_send(struct redis_batch *batch)
{
    struct redis_shard *shard = batch->shard;
    list_remove(&batch->list);
    list_remove(&batch->bucket);
    if (batch->kind == REDIS_BATCH_TAKE)
        end_take_args(batch);
    list_add_last(&shard->sent, &batch->list);
    shard->batches_under_way++;
    shard->options.figures->jobs += batch->kind == REDIS_BATCH_TAKE ? 0 : batch->count;
    if (redis_shard_send(shard, &batch->call, args_of(batch)))
        return;
    shard->batches_under_way--;
    if (batch->kind == REDIS_BATCH_TAKE)
        redis_take_fail(batch, QUEUE_NO_MEMORY);
    else
        redis_batch_fail(batch, QUEUE_NO_MEMORY);
    batch_free(batch);
}

static bool is_alike(const struct redis_batch *a, const struct redis_batch *b)
{
    return a->kind == b->kind && a->lease_ms == b->lease_ms &&
           slice_equals(slice_make(a->topic, a->topic_bytes), slice_make(b->topic, b->topic_bytes));
}

/* One of its kind is under way: until that is back more can join this one (decision 13). */
static bool may_grow(const struct redis_batch *batch)
{
    const struct list *sent = &batch->shard->sent;
    if (batch->count >= REDIS_BATCH_ITEMS_GROWN || is_full(batch))
        return false;
    for (const struct list *at = sent->next; at != sent; at = at->next)
        if (is_alike(batch, list_entry(at, struct redis_batch, list)))
            return true;
    return false;
}

static struct redis_batch *first_to_send(struct redis_shard *shard)
{
    for (struct list *at = shard->open.next; at != &shard->open; at = at->next) {
        struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (!shard->up || !may_grow(batch))
            return batch;
    }
    return NULL;
}

/* While the shard is out of reach they are left to the session, which knows when to give up. */
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
        end(list_entry(shard->open.next, struct redis_batch, list), REDIS_CALL_STOPPING, NULL,
            NULL);
}
