/* Push, answer, change: calls with a result for each item. The items of a step travel in batches:
 * pushes and changes by topic, answers of all topics together. */
#include "queue/traits.h"
#include "redis/id.h"
#include "redis/shard_core.h"
#include "redis/shard_mail.h"
#include "redis/shard_notifications.h"

#include "redis/command.h"

#include <stdlib.h>

/* As in scripts/common/base.lua and topics.lua. */
_Static_assert(QUEUE_TOPIC_FULL == 23 && QUEUE_GROUP_FULL == 34 && QUEUE_BATCH_CLOSED == 36 &&
                   QUEUE_NO_BATCH == 37 && QUEUE_WAITS == 38 && QUEUE_TOO_MANY_BATCHES == 39 &&
                   QUEUE_TOO_MANY_MEMBERS == 40,
               "statuses of the scripts");
enum { FAR_MS = 60000 /* as in scripts/common/base.lua: later jobs are packed */ };

/* ---- a call: replied to once each item has a result ---- */

struct request {
    struct redis_soon soon; /* queued when all items have results */
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    bool has_mail; /* the reply waits until the mail of the call was carried */
    size_t left;   /* items without a result */
    size_t count;
    size_t text_bytes, text_used;
    struct queue_result results[];
    /* followed by the text of topics, groups and ids */
};

static void request_reply(struct redis_soon *soon)
{
    struct request *request = list_entry(soon, struct request, soon);
    struct queue_reply reply = {.status = QUEUE_OK};
    if (request->count) {
        reply.results = request->results;
        reply.result_count = request->count;
    }
    redis_shard_reply(request->shard, request->reply_to, &reply);
    free(request);
}

/* Returns NULL if memory runs out. */
static struct request *request_new(struct redis_shard *shard, size_t count, size_t text_bytes,
                                   struct queue_reply_to reply_to)
{
    struct request *request =
        malloc(sizeof *request + count * sizeof(struct queue_result) + text_bytes);
    if (!request)
        return NULL;
    memset(request, 0, sizeof *request + count * sizeof(struct queue_result));
    request->soon.run = request_reply;
    request->shard = shard;
    request->reply_to = reply_to;
    request->count = count;
    request->text_bytes = text_bytes;
    request->left = count + 1; /* plus one, until all items were submitted */
    shard->calls++;
    return request;
}

/* Keeps a copy of the text. Returns an empty slice if no room is reserved for it, because the reply to an item is malformed. */
static struct slice request_text(struct request *request, struct slice text)
{
    char *at = (char *)(request->results + request->count) + request->text_used;
    if (text.len > request->text_bytes - request->text_used)
        return (struct slice){.at = ""};
    if (text.len)
        memcpy(at, text.at, text.len);
    request->text_used += text.len;
    return slice_make(at, text.len);
}

static void request_item_done(struct request *request)
{
    if (--request->left)
        return;
    if (request->has_mail)
        redis_mail_hold(request->shard, &request->soon);
    else
        request_reply(&request->soon);
}

/* Sets the status on every item of a failed batch. Returns true if it did; false for QUEUE_OK. */
static bool batch_fail(struct redis_batch *batch, enum queue_status status)
{
    for (size_t i = 0; status != QUEUE_OK && i < batch->count; i++) {
        struct request *request = batch->items[i].owner;
        request->results[batch->items[i].index].status = status;
        request_item_done(request);
    }
    return status != QUEUE_OK;
}

static void begin_with_topic(struct redis_batch *batch, struct slice topic)
{
    redis_command_arg(&batch->call.args, topic);
}

/* ---- push ---- */

static void push_begin(struct redis_batch *batch, struct slice topic)
{
    redis_command_arg(&batch->call.args, topic);
    redis_command_number(&batch->call.args, batch->shard->options.topics_max);
}

/* Reads the result of a push. Returns false if the reply is malformed. */
static bool push_unpack(const struct redis_item *item, const struct redis_head *head,
                        struct slice *rest, struct queue_result *result)
{
    int64_t made_ms;
    if (redis_unpack_all_made(head->rest, &made_ms)) {
        redis_result_of_made(&item->when, made_ms, head->adjust_ms, result);
        return true;
    }
    return redis_unpack_result(rest, head->adjust_ms, result);
}

/* Returns the version of the counts of members that the new jobs of a call made, which is behind the results, or 0. */
static uint64_t push_version(const struct slice *rest, size_t count)
{
    size_t at = count * REDIS_RESULT_BYTES;
    uint64_t version;
    struct slice behind = slice_make(rest->at + at, rest->len > at ? rest->len - at : 0);
    return redis_unpack_u48(&behind, &version) ? version : 0;
}

/* Returns whether the waiters were notified of the push when it was sent. If calls were sent again since, a take may have
 * come before the push, so the waiters are notified once more. */
static bool was_announced(const struct redis_batch *batch)
{
    return batch->is_announced && batch->resent == batch->shard->options.figures->resent;
}

/* Ends the items of a batch of pushes or changes, whose results have the same form; only pushes can
 * be `made`. */
static void topic_items_done(struct redis_batch *batch, const struct redis_batch_answer *answer,
                             bool is_push)
{
    struct redis_shard *shard = batch->shard;
    const struct redis_head *head = answer->head;
    bool any_ready = false, malformed = false;
    uint64_t version = is_push ? push_version(answer->rest, batch->count) : 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct request *request = batch->items[i].owner;
        struct queue_result *result = &request->results[batch->items[i].index];
        /* If all jobs are new, the reply has only the time instead of the results. */
        bool is_held =
            answer->rest->len >= REDIS_RESULT_BYTES && redis_result_is_held(*answer->rest);
        request->has_mail |= head->has_mail;
        malformed =
            malformed || !(is_push ? push_unpack(&batch->items[i], head, answer->rest, result)
                                   : redis_unpack_result(answer->rest, head->adjust_ms, result));
        if (malformed) {
            result->status = QUEUE_UNAVAILABLE;
        } else if (is_push && result->due_ms > head->now_ms - head->adjust_ms + FAR_MS) {
            shard->may_pack = true;
            shard->unpacked++;
        }
        result->version = result->status == QUEUE_CREATED ? version : 0;
        any_ready |= result->state == JOB_READY && !is_held;
        request_item_done(request);
    }
    if (malformed)
        redis_shard_log_malformed(shard, batch->call.script);
    if (any_ready && !was_announced(batch))
        redis_notification_ready(shard, redis_batch_topic(batch));
    if (is_push && batch->is_due)
        redis_notification_hold(shard, redis_batch_topic(batch), !any_ready);
}

static void push_done(struct redis_batch *batch, enum queue_status status,
                      const struct redis_batch_answer *answer)
{
    redis_shard_note_space(batch->shard, status);
    if (!batch_fail(batch, status))
        topic_items_done(batch, answer, true);
}

static bool push_has_waiters(const struct redis_batch *batch)
{
    return redis_notification_reaches(batch->shard, redis_batch_topic(batch));
}

/* Notifies the waiters for the jobs of a push that is about to be sent. */
static void push_announce(struct redis_batch *batch)
{
    batch->is_announced = true;
    batch->resent = batch->shard->options.figures->resent;
    redis_notification_ready(batch->shard, redis_batch_topic(batch));
}

static const struct redis_batch_kind pushes = {.script = REDIS_PUSH,
                                               .args = 2,
                                               .item_args = REDIS_PUSH_ARGS,
                                               .begin = push_begin,
                                               .has_waiters = push_has_waiters,
                                               .announce = push_announce,
                                               .done = push_done};

/* Sets the delivery of the parent from its lease, if it is valid. Returns false before the first connection, when leases
 * cannot be checked. */
static bool prove_parent(struct redis_shard *shard, struct queue_batch *batch)
{
    const struct mac_key *key = redis_session_lease_key(shard->session);
    uint32_t number;
    uint64_t delivery;
    if (key && redis_lease_parse(batch->parent, key, &number, &delivery) &&
        number == shard->options.index)
        batch->parent_delivery = delivery;
    return key != NULL;
}

/* Returns whether the job is due as soon as it is stored. */
static bool is_due(const struct queue_push *push)
{
    const struct queue_when *when = &push->when;
    bool is_now = when->due == QUEUE_DUE_NOW || (when->due == QUEUE_DUE_DELAY && when->ms == 0);
    return is_now && !push->past.dead && !(push->batch && push->batch->waits);
}

static enum queue_status push_add(struct redis_shard *shard, const struct queue_push *push,
                                  struct request *request, uint32_t index)
{
    struct redis_batch *batch =
        redis_batch_need(shard, &pushes, push->topic, (struct redis_take_terms){0});
    if (!batch)
        return QUEUE_NO_MEMORY;
    struct queue_push proved = *push;
    struct queue_batch batches;
    if (push->batch && push->batch->parent.len) {
        batches = *push->batch;
        if (!prove_parent(shard, &batches))
            return QUEUE_UNAVAILABLE;
        proved.batch = &batches;
    }
    redis_pack_push(&batch->call.args, &proved, push->id_is_made);
    redis_batch_add(batch, request, index)->when = push->when;
    batch->is_due |= is_due(push);
    return QUEUE_OK;
}

/* ---- change ---- */

static void change_done(struct redis_batch *batch, enum queue_status status,
                        const struct redis_batch_answer *answer)
{
    if (!batch_fail(batch, status))
        topic_items_done(batch, answer, false);
}

static const struct redis_batch_kind changes = {.script = REDIS_CHANGE,
                                                .args = 1,
                                                .item_args = REDIS_CHANGE_ARGS,
                                                .begin = begin_with_topic,
                                                .done = change_done};

/* Sets the change's delivery from its lease, if the lease is valid. Returns false before the first
 * connection, when leases cannot be checked. */
static bool prove_lease(struct redis_shard *shard, struct queue_change *change)
{
    const struct mac_key *key = redis_session_lease_key(shard->session);
    uint32_t number;
    if (key && (!redis_lease_parse(change->lease, key, &number, &change->delivery) ||
                number != shard->options.index))
        change->delivery = QUEUE_DELIVERY_NONE;
    return key != NULL;
}

static enum queue_status change_add(struct redis_shard *shard, const struct queue_change *change,
                                    struct request *request, uint32_t index)
{
    struct queue_change proved = *change;
    if (change->lease.len && !prove_lease(shard, &proved))
        return QUEUE_UNAVAILABLE;
    struct redis_batch *batch =
        redis_batch_need(shard, &changes, change->topic, (struct redis_take_terms){0});
    if (!batch)
        return QUEUE_NO_MEMORY;
    redis_pack_change(&batch->call.args, &proved);
    redis_batch_add(batch, request, index);
    return QUEUE_OK;
}

/* ---- answer ---- */

/* Takes "byte 1, group, NUL" off a name, which an answer has whose hold began. Returns whether it was there. */
static bool take_held(struct slice *name, struct slice *group)
{
    const char *nul = name->len && *name->at == 1 ? memchr(name->at, 0, name->len) : NULL;
    if (!nul)
        return false;
    *group = slice_make(name->at + 1, (size_t)(nul - name->at) - 1);
    *name = slice_make(nul + 1, name->len - group->len - 2);
    return true;
}

/* Splits "topic NUL id", with the id as stored. Returns false if the name is empty, because the
 * lease was invalid. */
static bool split_name(struct slice name, struct slice *topic, struct slice *stored)
{
    const char *nul = name.len ? memchr(name.at, 0, name.len) : NULL;
    if (!nul)
        return false;
    *topic = slice_make(name.at, (size_t)(nul - name.at));
    *stored = slice_make(nul + 1, name.len - topic->len - 1);
    return true;
}

static bool is_one_shard(const struct redis_shard *shard)
{
    return shard->options.generation.shards == 1;
}

/* Keeps copies of the topic and the group that the other shards must hold too. */
static void keep_held(struct request *request, uint32_t index, struct slice topic,
                      struct slice group)
{
    if (is_one_shard(request->shard) || topic.len > JOB_TOPIC_BYTES_MAX ||
        group.len > JOB_GROUP_BYTES_MAX)
        return;
    request->results[index].group = request_text(request, group);
    request->results[index].topic = request_text(request, topic);
}

/* Keeps a copy of the id, which outlives the reply: other items of the request may still be in
 * progress. */
static void keep_id(struct request *request, uint32_t index, struct slice stored)
{
    char room[REDIS_ID_ROOM_BYTES];
    struct slice id;
    if (redis_id_show(stored, room, &id) && id.len <= JOB_ID_BYTES_MAX)
        request->results[index].id = request_text(request, id);
}

static bool answer_item_done(struct redis_batch *batch, size_t i,
                             const struct redis_batch_answer *answer)
{
    struct request *request = batch->items[i].owner;
    uint32_t index = batch->items[i].index;
    request->has_mail |= answer->head->has_mail;
    struct queue_result *result = &request->results[index];
    struct slice name, topic, stored, group;
    bool is_held = redis_result_is_held(*answer->rest);
    bool good = redis_unpack_answered(answer->rest, answer->head->adjust_ms, result) &&
                redis_element(answer->reply, answer->at + i, &name);
    bool holds = good && take_held(&name, &group);
    if (good && split_name(name, &topic, &stored)) {
        keep_id(request, index, stored);
        if (holds)
            keep_held(request, index, topic, group);
        if (result->state == JOB_READY && !is_held)
            redis_notification_ready(batch->shard, topic);
    }
    if (!good)
        result->status = QUEUE_UNAVAILABLE;
    request_item_done(request);
    return good;
}

static void answer_done(struct redis_batch *batch, enum queue_status status,
                        const struct redis_batch_answer *answer)
{
    bool malformed = false;
    if (batch_fail(batch, status))
        return;
    for (size_t i = 0; i < batch->count; i++)
        malformed |= !answer_item_done(batch, i, answer);
    if (malformed)
        redis_shard_log_malformed(batch->shard, REDIS_STEP);
}

static const struct redis_batch_kind answers = {
    .script = REDIS_STEP, .item_args = REDIS_ANSWER_ARGS, .done = answer_done};

static enum queue_status answer_add(struct redis_shard *shard, const struct queue_answer *answer,
                                    struct request *request, uint32_t index)
{
    uint32_t number;
    uint64_t delivery;
    if (!redis_lease_find_shard(answer->lease, &number) || number != shard->options.index)
        return QUEUE_LEASE_ENDED;
    const struct mac_key *key = redis_session_lease_key(shard->session);
    if (answer->verb == QUEUE_AGAIN && !shard->has_space)
        return QUEUE_NO_SPACE; /* the script may exceed the memory, because acks must not fail */
    if (!key)                  /* before the first connection, leases cannot be checked */
        return QUEUE_UNAVAILABLE;
    if (!redis_lease_parse(answer->lease, key, &number, &delivery))
        return QUEUE_LEASE_ENDED;
    struct redis_batch *batch =
        redis_batch_need(shard, &answers, (struct slice){.at = ""}, (struct redis_take_terms){0});
    if (!batch)
        return QUEUE_NO_MEMORY;
    redis_pack_answer(&batch->call.args, answer, delivery);
    redis_batch_add(batch, request, index);
    return QUEUE_OK;
}

/* ---- all items ---- */

/* Returns how many bytes of text the result of an answer may contain. */
static size_t text_bytes_of_answer(const struct redis_shard *shard,
                                   const struct queue_answer *answer)
{
    bool is_kept = answer->hold_ms && !is_one_shard(shard); /* keep_held */
    return JOB_ID_BYTES_MAX + (is_kept ? JOB_TOPIC_BYTES_MAX + JOB_GROUP_BYTES_MAX : 0);
}

/* Returns how many bytes of text the results may contain. */
static size_t text_bytes_of(const struct redis_shard *shard, const struct command *command)
{
    size_t bytes = 0;
    for (size_t i = 0; i < command->count; i++) {
        if (command->kind == COMMAND_ANSWER) {
            bytes += text_bytes_of_answer(shard, &command->answers[i]);
            continue;
        }
        struct queue_find name = command_item_name(command, i);
        bytes += name.topic.len + name.id.len;
    }
    return bytes;
}

static void name_result(const struct command *command, size_t i, struct request *request)
{
    struct queue_find name = command_item_name(command, i);
    request->results[i].topic = request_text(request, name.topic);
    request->results[i].id = request_text(request, name.id);
}

static enum queue_status item_add(struct redis_shard *shard, const struct command *command,
                                  struct request *request, uint32_t i)
{
    switch (command->kind) {
    case COMMAND_PUSH:
        return push_add(shard, &command->pushes[i], request, i);
    case COMMAND_CHANGE:
        return change_add(shard, &command->changes[i], request, i);
    default:
        return answer_add(shard, &command->answers[i], request, i);
    }
}

void redis_submit_items(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to)
{
    enum queue_status status = redis_shard_accepts(shard);
    struct request *request = NULL;
    if (status == QUEUE_OK &&
        !(request = request_new(shard, command->count, text_bytes_of(shard, command), reply_to)))
        status = QUEUE_NO_MEMORY;
    if (!request) {
        redis_shard_refuse(shard, status, reply_to);
        return;
    }
    for (size_t i = 0; i < command->count; i++) {
        struct queue_result *result = &request->results[i];
        if (command->kind != COMMAND_ANSWER)
            name_result(command, i, request);
        if (command_item_is_good(command, i, result))
            result->status = item_add(shard, command, request, (uint32_t)i);
        if (result->status != QUEUE_OK)
            request_item_done(request);
    }
    if (--request->left == 0)
        redis_soon_add(shard, &request->soon);
}
