#include "redis/shard_parts.h"

#include "redis/command.h"
#include "redis/id.h"

#include <assert.h>
#include <stdlib.h>

/* ---- packing ---- */

struct redis_part_text redis_part_begin(enum redis_part_verb verb)
{
    struct redis_part_text text = {.len = 0};
    redis_part_number(&text, verb, 1);
    return text;
}

void redis_part_number(struct redis_part_text *text, uint64_t number, size_t bytes)
{
    assert(text->len + bytes <= sizeof text->at);
    for (size_t i = bytes; i--; number >>= 8)
        text->at[text->len + i] = (char)(number & 255);
    text->len += bytes;
}

void redis_part_name(struct redis_part_text *text, struct slice name)
{
    assert(text->len + name.len <= sizeof text->at);
    memcpy(text->at + text->len, name.at, name.len);
    text->len += name.len;
}

static void put_job(struct redis_part_text *text, struct slice topic, struct slice id)
{
    char room[REDIS_ID_PACKED_BYTES];
    redis_part_name(text, topic);
    redis_part_number(text, 0, 1);
    redis_part_name(text, redis_id_store(id, room));
}

/* ---- calls ---- */

static bool read_answer(struct slice *rest, struct redis_part_answer *out)
{
    uint8_t status;
    if (!redis_unpack_u8(rest, &status) || status >= QUEUE_STATUSES ||
        !redis_unpack_u48(rest, &out->number) || !redis_unpack_u8(rest, &out->depth) ||
        !redis_unpack_u8(rest, &out->on_dead) || !redis_unpack_u48(rest, &out->version) ||
        !redis_unpack_u8(rest, &out->orders))
        return false;
    out->status = (enum queue_status)status;
    return true;
}

static void calls_done(struct redis_batch *batch, enum queue_status status,
                       const struct redis_batch_answer *answer)
{
    bool malformed = false;
    for (size_t i = 0; i < batch->count; i++) {
        struct redis_part_call *call = batch->items[i].owner;
        struct redis_part_answer one;
        malformed = malformed || (status == QUEUE_OK && !read_answer(answer->rest, &one));
        enum queue_status end = malformed ? QUEUE_UNAVAILABLE : status;
        call->done(call, end, end == QUEUE_OK ? &one : NULL);
    }
    if (malformed)
        redis_shard_log_malformed(batch->shard, REDIS_BATCH);
}

static const struct redis_batch_kind calls = {
    .script = REDIS_BATCH, .item_args = 1, .done = calls_done};

bool redis_part_send(struct redis_shard *to, struct redis_part_call *call,
                     const struct redis_part_text *text)
{
    struct redis_batch *batch =
        redis_batch_need(to, &calls, (struct slice){.at = ""}, (struct redis_take_terms){0});
    if (!batch)
        return false;
    redis_command_arg(&batch->call.args, slice_make(text->at, text->len));
    redis_batch_add(batch, call, 0);
    return true;
}

/* ---- joins, leaves and leases, for the queue of all shards (queue/sharded.h) ---- */

struct parts_request;

struct parts_item {
    struct redis_part_call call;
    struct parts_request *request;
};

struct parts_request {
    struct redis_soon soon;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    size_t left, count;
    struct queue_result *results;
    struct parts_item items[];
};

static void request_reply(struct redis_soon *soon)
{
    struct parts_request *request = list_entry(soon, struct parts_request, soon);
    const struct queue_reply reply = {
        .status = QUEUE_OK, .results = request->results, .result_count = request->count};
    redis_shard_reply(request->shard, request->reply_to, &reply);
    free(request->results);
    free(request);
}

static void item_done(struct redis_part_call *call, enum queue_status status,
                      const struct redis_part_answer *answer)
{
    struct parts_item *item = list_entry(call, struct parts_item, call);
    struct parts_request *request = item->request;
    struct queue_result *result = &request->results[item - request->items];
    result->status = status;
    if (answer) {
        uint64_t home = (uint64_t)(request->shard->options.place + 1) << QUEUE_BATCH_HOME_SHIFT;
        *result = (struct queue_result){.status = answer->status,
                                        .batch = answer->number ? home | answer->number : 0,
                                        .version = answer->version,
                                        .depth = answer->depth,
                                        .on_dead = (enum batch_on_dead)answer->on_dead};
    }
    if (--request->left == 0)
        request_reply(&request->soon);
}

/* Packs a call. Returns QUEUE_OK, or why it is not sent. */
static enum queue_status pack_call(const struct redis_shard *shard,
                                   const struct queue_batch_call *call,
                                   struct redis_part_text *text)
{
    const struct mac_key *key = redis_session_lease_key(shard->session);
    uint32_t number;
    uint64_t delivery;
    switch (call->verb) {
    case QUEUE_BATCH_JOIN:
        *text = redis_part_begin(REDIS_PART_JOIN);
        redis_part_number(text, call->number & REDIS_BATCH_NUMBER_MASK, 6);
        redis_part_number(text, call->part, 2);
        put_job(text, call->topic, call->id);
        return QUEUE_OK;
    case QUEUE_BATCH_LEAVE:
        *text = redis_part_begin(REDIS_PART_LEAVE);
        redis_part_number(text, call->join, 6);
        redis_part_number(text, call->version, 6);
        return QUEUE_OK;
    case QUEUE_BATCH_LEASE:
        if (!key) /* before the first connection, leases cannot be checked */
            return QUEUE_UNAVAILABLE;
        if (!redis_lease_parse(call->lease, key, &number, &delivery) ||
            number != shard->options.index)
            return QUEUE_LEASE_ENDED;
        *text = redis_part_begin(REDIS_PART_LEASE);
        redis_part_number(text, delivery, 6);
        put_job(text, call->topic, call->id);
        return QUEUE_OK;
    case QUEUE_BATCH_VERSION: /* joins expire */
    case QUEUE_BATCH_REPORT:
    case QUEUE_BATCH_ORDER: /* carried by shard_mail.c */
        break;
    }
    return QUEUE_UNSUPPORTED;
}

static struct parts_request *request_new(struct redis_shard *shard, size_t count,
                                         struct queue_reply_to reply_to)
{
    struct parts_request *request = calloc(1, sizeof *request + count * sizeof request->items[0]);
    struct queue_result *results = calloc(count, sizeof *results);
    if (!request || !results) {
        free(request);
        free(results);
        return NULL;
    }
    *request = (struct parts_request){.soon = {.run = request_reply},
                                      .shard = shard,
                                      .reply_to = reply_to,
                                      .left = count + 1, /* one more until all were sent */
                                      .count = count,
                                      .results = results};
    shard->calls++;
    return request;
}

void redis_submit_parts(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to)
{
    enum queue_status status = redis_shard_accepts(shard);
    struct parts_request *request =
        status == QUEUE_OK ? request_new(shard, command->count, reply_to) : NULL;
    if (!request) {
        redis_shard_refuse(shard, status == QUEUE_OK ? QUEUE_NO_MEMORY : status, reply_to);
        return;
    }
    for (size_t i = 0; i < command->count; i++) {
        struct parts_item *item = &request->items[i];
        struct redis_part_text text;
        *item = (struct parts_item){.call = {.done = item_done}, .request = request};
        status = pack_call(shard, &command->batches[i], &text);
        if (status == QUEUE_OK && !redis_part_send(shard, &item->call, &text))
            status = QUEUE_NO_MEMORY;
        if (status != QUEUE_OK) {
            request->results[i].status = status;
            request->left--;
        }
    }
    if (--request->left == 0)
        redis_soon_add(shard, &request->soon);
}
