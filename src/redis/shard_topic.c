/* Topic calls. Purge, delete and redrive go in bounded steps until the script says there is no
 * more. */
#include "redis/command.h"
#include "redis/id.h"
#include "redis/private.h"

#include <stdlib.h>

enum { STEP = 500 };

struct topic_asking {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    struct queue_topic_call topic_call; /* its slices are the two below */
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    uint64_t affected;
    bool stepped;     /* a step was carried out */
    int64_t topology; /* purge: sequence up to which; redrive: how many are left to do */
};

static void asking_free(struct topic_asking *asking)
{
    buffer_fini(&asking->call.args);
    free(asking);
}

static void finish(struct topic_asking *asking, const struct queue_reply *reply)
{
    redis_shard_reply(asking->shard, asking->reply_to, reply);
    asking_free(asking);
}

static void finish_status(struct topic_asking *asking, enum queue_status status)
{
    struct queue_reply reply = {.status = status, .affected = asking->affected};
    finish(asking, &reply);
}

static void finish_malformed(struct topic_asking *asking)
{
    redis_shard_say_malformed(asking->shard, asking->call.script);
    finish_status(asking, QUEUE_UNAVAILABLE);
}

/* ---- get, put, pause, resume: one call ---- */

static void on_topic(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct topic_asking *asking = list_entry(call, struct topic_asking, call);
    struct queue_topic topic;
    struct slice text;
    uint8_t status;
    if (end != REDIS_CALL_OK) {
        finish_status(asking, redis_shard_status(end));
        return;
    }
    redis_shard_hear(asking->shard, head);
    struct slice rest = head->rest;
    if (!redis_unpack_u8(&rest, &status) || status > QUEUE_UNAVAILABLE) {
        finish_malformed(asking);
        return;
    }
    if (status != QUEUE_OK && status != QUEUE_CREATED) {
        finish_status(asking, (enum queue_status)status);
        return;
    }
    if (!redis_element(reply, 1, &text) || !redis_unpack_topic(text, head->adjust_ms, &topic)) {
        finish_malformed(asking);
        return;
    }
    topic.name = asking->topic_call.topic;
    if (asking->topic_call.verb == QUEUE_TOPIC_PUT)
        redis_event_note(asking->shard, QUEUE_EVENT_TOPIC, topic.name);
    if (topic.counts.ready && !topic.paused)
        redis_watch_tell(asking->shard, topic.name);
    struct queue_reply answer = {
        .status = (enum queue_status)status, .topics = &topic, .topic_count = 1};
    finish(asking, &answer);
}

static bool ask_topic(struct topic_asking *asking)
{
    const struct queue_topic_call *call = &asking->topic_call;
    bool changes = call->verb != QUEUE_TOPIC_GET;
    struct buffer *args = &asking->call.args;
    redis_shard_call_init(&asking->call, REDIS_TOPIC, changes, on_topic);
    if (!changes)
        redis_command_text(args, ""); /* no ticket */
    redis_command_number(args, (int64_t)call->verb);
    redis_command_arg(args, call->topic);
    redis_command_number(args, asking->shard->options.topics_max);
    redis_command_number(args, call->makes);
    if (call->verb == QUEUE_TOPIC_PUT)
        redis_pack_settings(args, &call->settings);
    else
        redis_command_text(args, "");
    redis_command_arg(args,
                      call->verb == QUEUE_TOPIC_PUT ? call->settings.extension : (struct slice){0});
    return redis_shard_send(asking->shard, &asking->call, changes ? 6 : 7);
}

/* ---- purge, delete, redrive: step by step ---- */

static bool ask_step(struct topic_asking *asking);

static void step_done(struct topic_asking *asking, const struct redis_head *head)
{
    const struct queue_topic_call *call = &asking->topic_call;
    struct slice rest = head->rest;
    uint8_t status, more;
    uint64_t affected, topology;
    if (!redis_unpack_u8(&rest, &status) || !redis_unpack_u8(&rest, &more) ||
        !redis_unpack_u48(&rest, &affected) || !redis_unpack_u48(&rest, &topology) ||
        (status != QUEUE_OK && status != QUEUE_NOT_FOUND)) {
        finish_malformed(asking);
        return;
    }
    asking->affected += affected;
    asking->topology = (int64_t)topology;
    if (affected && call->verb == QUEUE_TOPIC_REDRIVE)
        redis_watch_tell(asking->shard, call->topic);
    if (status == QUEUE_NOT_FOUND && asking->stepped)
        status = QUEUE_OK; /* somebody deleted the topic meanwhile */
    asking->stepped = true;
    bool enough = call->verb == QUEUE_TOPIC_REDRIVE && call->max && asking->affected >= call->max;
    if (status == QUEUE_OK && !more && call->verb == QUEUE_TOPIC_DELETE)
        redis_event_note(asking->shard, QUEUE_EVENT_TOPIC, call->topic);
    if (status != QUEUE_OK || !more || enough)
        finish_status(asking, (enum queue_status)status);
    else if (!ask_step(asking))
        finish_status(asking, QUEUE_NO_MEMORY);
}

static void on_step(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                    const redisReply *reply)
{
    struct topic_asking *asking = list_entry(call, struct topic_asking, call);
    (void)reply;
    if (end != REDIS_CALL_OK) {
        finish_status(asking, redis_shard_status(end));
        return;
    }
    redis_shard_hear(asking->shard, head);
    step_done(asking, head);
}

static int64_t redrive_step(const struct topic_asking *asking)
{
    uint64_t left = asking->topic_call.max - asking->affected;
    return asking->topic_call.max && left < STEP ? (int64_t)left : STEP;
}

static bool ask_step(struct topic_asking *asking)
{
    const struct queue_topic_call *call = &asking->topic_call;
    bool is_redrive = call->verb == QUEUE_TOPIC_REDRIVE;
    struct buffer *args = &asking->call.args;
    char room[REDIS_ID_PACKED_BYTES];
    buffer_fini(args);
    redis_shard_call_init(&asking->call, is_redrive ? REDIS_REDRIVE : REDIS_PURGE, true, on_step);
    if (is_redrive) {
        redis_command_arg(args, call->topic);
        redis_command_arg(args, redis_id_store(call->id, room));
        redis_command_number(args, redrive_step(asking));
        redis_command_number(args, asking->topology);
        return redis_shard_send(asking->shard, &asking->call, 4);
    }
    redis_command_text(args, call->verb == QUEUE_TOPIC_DELETE ? "delete" : "purge");
    redis_command_arg(args, call->topic);
    redis_command_number(args, call->verb == QUEUE_TOPIC_DELETE ? 0 : (int64_t)call->state);
    redis_command_number(args, asking->topology);
    redis_command_number(args, STEP);
    return redis_shard_send(asking->shard, &asking->call, 5);
}

/* ---- all ---- */

static struct topic_asking *asking_new(struct redis_shard *shard,
                                       const struct queue_topic_call *call,
                                       struct queue_reply_to reply_to)
{
    struct topic_asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return NULL;
    asking->shard = shard;
    asking->reply_to = reply_to;
    asking->topic_call = *call;
    memcpy(asking->topic, call->topic.at, call->topic.len);
    asking->topic_call.topic = slice_make(asking->topic, call->topic.len);
    asking->topic_call.id = slice_make(asking->id, 0);
    if (call->verb == QUEUE_TOPIC_REDRIVE && call->id.len) {
        memcpy(asking->id, call->id.at, call->id.len);
        asking->topic_call.id = slice_make(asking->id, call->id.len);
    }
    asking->topology = call->verb == QUEUE_TOPIC_REDRIVE ? -1 : 0;
    return asking;
}

static bool begin(struct topic_asking *asking)
{
    switch (asking->topic_call.verb) {
    case QUEUE_TOPIC_GET:
    case QUEUE_TOPIC_PUT:
    case QUEUE_TOPIC_PAUSE:
    case QUEUE_TOPIC_RESUME:
        return ask_topic(asking);
    case QUEUE_TOPIC_DELETE:
    case QUEUE_TOPIC_PURGE:
    case QUEUE_TOPIC_REDRIVE:
        return ask_step(asking);
    case QUEUE_TOPIC_MARK: /* nobody asks: sharded_options.leads is not set */
        break;
    }
    return false;
}

void redis_topic(struct redis_shard *shard, const struct command *command,
                 struct queue_reply_to reply_to)
{
    enum queue_status status = shard->stopping ? QUEUE_STOPPING : command->status;
    struct topic_asking *asking =
        status == QUEUE_OK ? asking_new(shard, &command->topic, reply_to) : NULL;
    if (asking && begin(asking)) {
        shard->calls++;
        return;
    }
    if (asking)
        asking_free(asking);
    redis_shard_refuse(shard, status == QUEUE_OK ? QUEUE_NO_MEMORY : status, reply_to);
}
