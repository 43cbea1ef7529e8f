#include "redis/shard.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/private.h"
#include "redis/slot.h"

#include <assert.h>
#include <stdlib.h>

enum {
    ROUNDS_MAX = 8,  /* of replies in one turn: what they ask for may be answered at once */
    MISSED_MS = 1000 /* out of reach for so long: not healthy any more */
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

void redis_shard_reply_status(struct redis_shard *shard, struct queue_reply_to reply_to,
                              enum queue_status status)
{
    struct queue_reply reply = {.status = status};
    redis_shard_reply(shard, reply_to, &reply);
}

void redis_shard_refuse(struct redis_shard *shard, enum queue_status status,
                        struct queue_reply_to reply_to)
{
    struct redis_request *request = redis_request_new(shard, 0, 0, reply_to);
    assert(request); /* without memory even for a refusal there is no honest way on */
    request->status = status;
    redis_request_begun(request);
}

enum queue_status redis_shard_accepts(const struct redis_shard *shard)
{
    if (shard->stopping)
        return QUEUE_STOPPING;
    return shard->waiting_bytes > REDIS_WAITING_BYTES_MAX ? QUEUE_UNAVAILABLE : QUEUE_OK;
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

/* ---- calls of scripts ---- */

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

void redis_shard_say_malformed(const struct redis_shard *shard, enum redis_script script)
{
    log_event(LOG_ERROR, "answer of a script cannot be read",
              LOG_TEXT("script", redis_script_name(script)),
              LOG_NUMBER("shard", shard->options.index));
}

/* ---- what the session tells ---- */

void redis_shard_hear(struct redis_shard *shard, const struct redis_head *head)
{
    shard->next_ms = head->next_ms;
    shard->adjust_ms = head->adjust_ms;
    shard->known = true;
}

static void on_due(void *ctx, int64_t at_ms)
{
    struct redis_shard *shard = ctx;
    if (at_ms < shard->news_ms)
        shard->news_ms = at_ms;
}

static void on_ready(void *ctx, struct slice topic)
{
    redis_watch_tell(ctx, topic);
}

static void on_told(void *ctx, enum queue_event event, uint64_t number, struct slice topic,
                    bool own)
{
    redis_event_heard(ctx, event, number, topic, own);
}

static void on_learned(void *ctx, const struct redis_master *master)
{
    struct redis_shard *shard = ctx;
    const struct redis_shard_options *options = &shard->options;
    if (!options->asks)
        return;
    if (master->is_full)
        redis_push_note_full(shard);
    options->learned(options->learned_ctx, options->index, master);
}

/* News may have been missed while it was down. */
static void on_turned(void *ctx, bool up)
{
    struct redis_shard *shard = ctx;
    shard->options.figures->shards_up += (uint32_t)up - (uint32_t)shard->up;
    shard->up = up;
    shard->known = false;
    shard->turned_ms = clock_inner_ms();
    shard->may_pack |= up; /* what another server left */
    if (up)
        redis_watches_look(shard, true);
}

/* ---- the turn ---- */

int64_t redis_shard_to_inner(const struct redis_shard *shard, int64_t at_ms)
{
    const struct redis_clock *clock = redis_session_clock(shard->session);
    return clock->known ? redis_clock_to_inner(clock, at_ms) : INT64_MAX;
}

/* The earlier of what the last answer and the news say; INT64_MAX: none. */
static int64_t next_event_ms(const struct redis_shard *shard)
{
    return shard->next_ms < shard->news_ms ? shard->next_ms : shard->news_ms;
}

static int64_t next_event(const struct redis_shard *shard)
{
    return redis_shard_to_inner(shard, next_event_ms(shard));
}

/* Nothing can be due before time goes on. */
static bool nothing_is_due(const struct redis_shard *shard, int64_t now_ms)
{
    return next_event(shard) > now_ms ||
           (shard->in_vain_ms == now_ms && shard->in_vain_event_ms == next_event_ms(shard));
}

static bool may_advance(const struct redis_shard *shard)
{
    return shard->up && shard->known && !shard->advancing && !shard->stopping;
}

static void advance(struct redis_shard *shard, int64_t now_ms)
{
    if (may_advance(shard) && next_event(shard) <= now_ms && !redis_advance_pause_ms(shard))
        redis_advance(shard);
}

static bool has_to_tell(const struct redis_shard *shard)
{
    return !list_is_empty(&shard->ready) || !list_is_empty(&shard->soon) || shard->event_count;
}

int64_t redis_shard_turn(struct redis_shard *shard, int64_t now_ms)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (!has_to_tell(shard))
            break;
        redis_watches_tell(shard);
        redis_events_tell(shard);
        redis_requests_run(shard);
    }
    advance(shard, now_ms);
    redis_watches_look(shard, false);
    redis_batches_send(shard);
    int64_t pack_ms = redis_pack_turn(shard, now_ms);
    if (has_to_tell(shard))
        return now_ms;
    if (!may_advance(shard))
        return pack_ms;
    int64_t at_ms = next_event(shard), free_ms = now_ms + redis_advance_pause_ms(shard);
    if (at_ms < free_ms)
        at_ms = free_ms;
    return at_ms < pack_ms ? at_ms : pack_ms;
}

void redis_shard_look(struct redis_shard *shard)
{
    if (!shard->up || shard->stopping)
        return;
    if (!shard->looking)
        redis_watches_look(shard, true);
    if (shard->options.asks)
        redis_session_look(shard->session);
    redis_push_probe(shard);
}

/* ---- what it is ---- */

bool redis_shard_is_missed(const struct redis_shard *shard)
{
    return !shard->up && clock_inner_ms() - shard->turned_ms >= MISSED_MS;
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    struct redis_shard *shard = redis_shard_of(queue);
    const struct redis_inspection *inspection = shard->options.inspection;
    *out = (struct queue_info){.store = "redis",
                               .durability = inspection->durability_says,
                               .durability_class = redis_durability_name(inspection->durability),
                               .sync = inspection->sync,
                               .shards = 1,
                               .body_bytes_max = shard->options.body_bytes_max,
                               .wait_replicas = shard->options.wait_replicas,
                               /* One that is lost takes no server out of service: the others
                                * go on. */
                               .healthy = shard->options.figures->shards_up > 0 ||
                                          !redis_shard_is_missed(shard),
                               .accepting = shard->has_space && !inspection->evicts};
}

struct queue *redis_shard_queue(struct redis_shard *shard)
{
    return &shard->queue;
}

bool redis_shard_is_up(const struct redis_shard *shard)
{
    return shard->up;
}

bool redis_shard_is_done(const struct redis_shard *shard)
{
    return shard->calls == 0;
}

bool redis_shard_is_quiet(const struct redis_shard *shard, int64_t now_ms)
{
    return shard->calls == 0 && !has_to_tell(shard) && list_is_empty(&shard->fresh) &&
           redis_session_calls(shard->session) == 0 && shard->up && shard->known &&
           nothing_is_due(shard, now_ms);
}

/* ---- life ---- */

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    static void (*const calls[])(struct redis_shard * shard, const struct command *command,
                                 struct queue_reply_to reply_to) = {
        [COMMAND_PUSH] = redis_push,     [COMMAND_ANSWER] = redis_answer,
        [COMMAND_CHANGE] = redis_change, [COMMAND_TAKE] = redis_take,
        [COMMAND_GET] = redis_get,       [COMMAND_LIST] = redis_list,
        [COMMAND_TOPIC] = redis_topic,   [COMMAND_TOPICS] = redis_topics,
    };
    calls[command->kind](redis_shard_of(queue), command, reply_to);
}

static const struct queue_ops ops = {
    .submit = on_submit, .watch = redis_watch_set, .info = on_info};

static struct redis_session *session_new(struct redis_shard *shard)
{
    const struct redis_shard_options *options = &shard->options;
    struct redis_session_options session = {.reactor = options->reactor,
                                            .topology = options->topology,
                                            .url = options->url,
                                            .name = options->index == 0 ? options->name : NULL,
                                            .shards = options->shards,
                                            .wait_replicas = options->wait_replicas,
                                            .patience_ms = options->patience_ms,
                                            .figures = options->figures,
                                            .due = on_due,
                                            .ready = on_ready,
                                            .told = on_told,
                                            .turned = on_turned,
                                            .learned = on_learned,
                                            .require_durability = options->require_durability,
                                            .ctx = shard};
    redis_slot_tag(options->url->prefix, options->index, options->shards, session.tag);
    memcpy(session.server, options->server, sizeof session.server);
    return redis_session_new(&session);
}

struct redis_shard *redis_shard_new(const struct redis_shard_options *options)
{
    struct redis_shard *shard = calloc(1, sizeof *shard);
    if (!shard)
        return NULL;
    shard->queue.ops = &ops;
    shard->options = *options;
    shard->random.state = random_u64();
    shard->next_ms = shard->news_ms = INT64_MAX;
    shard->turned_ms = clock_inner_ms();
    shard->has_space = !options->inspection->is_full;
    list_init(&shard->open);
    list_init(&shard->sent);
    list_init(&shard->soon);
    list_init(&shard->events);
    for (size_t i = 0; i < REDIS_BATCH_BUCKETS; i++)
        list_init(&shard->buckets[i]);
    if (redis_watches_init(shard) && (shard->session = session_new(shard)))
        return shard;
    redis_shard_free(shard);
    return NULL;
}

void redis_shard_stop(struct redis_shard *shard)
{
    shard->stopping = true;
    redis_session_stop(shard->session, clock_inner_ms() + REDIS_STOP_MS);
}

void redis_shard_free(struct redis_shard *shard)
{
    if (!shard)
        return;
    shard->freeing = true;
    if (shard->session)
        redis_session_free(shard->session);
    shard->session = NULL;
    redis_batches_free(shard);
    redis_requests_run(shard);
    redis_watches_fini(shard);
    redis_events_fini(shard);
    free(shard);
}
