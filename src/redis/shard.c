#include "redis/shard.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/command.h"
#include "redis/shard_batch.h"
#include "redis/shard_calls.h"
#include "redis/shard_news.h"

#include <stdlib.h>

enum {
    ROUNDS_MAX = 8,    /* of replies in one turn: what they ask for may be answered at once */
    ADVANCE_JOBS = 500 /* a call */
};

/* Between two advances. Where many fall due one after the other, some go together; and one server is
 * enough for that. In vain: its clock is not quite where we believe. */
enum { IN_VAIN_PAUSE_MS = 1, ADVANCE_PAUSE_MS = 2, OTHER_PAUSE_MS = 15 };

enum {
    PACK_IDLE_MS = 50,    /* without a batch: then there is time */
    PACK_JOBS = 100,      /* a call: others wait about a millisecond for it */
    UNPACKED_MAX = 200000 /* pushed without an idle moment: then packing does not wait for one */
};

/* A call that the shard makes by itself, for nobody. */
struct upkeep {
    struct redis_call call;
    struct redis_shard *shard;
    int64_t asked_ms; /* inner */
};

/* NULL: no memory. */
static struct upkeep *upkeep_new(struct redis_shard *shard, enum redis_script script,
                                 void (*done)(struct redis_call *call, enum redis_call_end end,
                                              const struct redis_head *head,
                                              const redisReply *reply))
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);
    if (!upkeep)
        return NULL;
    upkeep->shard = shard;
    upkeep->asked_ms = clock_inner_ms();
    redis_shard_call_init(&upkeep->call, script, false, done);
    return upkeep;
}

static void upkeep_free(struct upkeep *upkeep)
{
    buffer_fini(&upkeep->call.args);
    free(upkeep);
}

/* Sends it, or lets go of it: then false, memory ran out. */
static bool upkeep_send(struct upkeep *upkeep, size_t argc)
{
    if (redis_shard_send(upkeep->shard, &upkeep->call, argc))
        return true;
    upkeep_free(upkeep);
    return false;
}

/* ---- advance: what is due happens ---- */

/* A time of the shard's on the inner clock; INT64_MAX stays what it is. */
static int64_t to_inner(const struct redis_shard *shard, int64_t at_ms)
{
    const struct redis_clock *clock = redis_session_clock(shard->session);
    return clock->known ? redis_clock_to_inner(clock, at_ms) : INT64_MAX;
}

static void advance_pause(struct redis_shard *shard, int64_t ms)
{
    shard->pause_until_us = clock_boot_us() + ms * 1000;
}

/* How long it is left alone after the last time. */
static int64_t advance_pause_left_ms(const struct redis_shard *shard)
{
    int64_t left_us = shard->pause_until_us - clock_boot_us();
    return left_us > 0 ? (left_us + 999) / 1000 : 0;
}

static int64_t pause_after_ms(struct redis_shard *shard, int64_t asked_ms, bool more,
                              bool has_other)
{
    if (more)
        return 0;
    bool in_vain = to_inner(shard, shard->next_ms) <= asked_ms;
    if (in_vain) {
        shard->in_vain_ms = asked_ms;
        shard->in_vain_event_ms = shard->next_ms;
    }
    return has_other ? OTHER_PAUSE_MS : in_vain ? IN_VAIN_PAUSE_MS : ADVANCE_PAUSE_MS;
}

static void on_advanced(struct redis_call *call, enum redis_call_end end,
                        const struct redis_head *head, const redisReply *reply)
{
    struct upkeep *upkeep = list_entry(call, struct upkeep, call);
    struct redis_shard *shard = upkeep->shard;
    uint8_t more = 0, has_other = 0;
    shard->advancing = false;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest, topic;
        redis_shard_hear(shard, head);
        if (!redis_unpack_u8(&rest, &more) || !redis_unpack_u8(&rest, &has_other))
            redis_shard_say_malformed(shard, REDIS_ADVANCE);
        for (size_t i = 1; i < reply->elements; i++)
            if (redis_element(reply, i, &topic))
                redis_news_ready(shard, topic);
    }
    advance_pause(shard, pause_after_ms(shard, upkeep->asked_ms, more, has_other));
    upkeep_free(upkeep);
}

static void advance(struct redis_shard *shard)
{
    struct upkeep *upkeep = upkeep_new(shard, REDIS_ADVANCE, on_advanced);
    if (upkeep) {
        struct buffer *args = &upkeep->call.args;
        upkeep->call.is_timed = true;
        redis_command_text(args, shard->options.server);
        redis_command_number(args, (int64_t)random_below(&shard->random, UINT64_C(1) << 48));
        redis_command_number(args, ADVANCE_JOBS);
        shard->news_ms = INT64_MAX;
        shard->advancing = upkeep_send(upkeep, 3);
    }
    if (!shard->advancing)
        advance_pause(shard, ADVANCE_PAUSE_MS);
}

/* ---- packing jobs that are due far from now (scripts/README.md, "Fresh and packed") ---- */

static void on_packed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct upkeep *upkeep = list_entry(call, struct upkeep, call);
    struct redis_shard *shard = upkeep->shard;
    uint8_t more = 0;
    (void)reply;
    shard->packing = false;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest;
        redis_shard_hear(shard, head);
        if (!redis_unpack_u8(&rest, &more))
            redis_shard_say_malformed(shard, REDIS_PACK);
        shard->may_pack = more != 0;
        shard->unpacked -= more && shard->unpacked > PACK_JOBS ? PACK_JOBS : shard->unpacked;
    }
    upkeep_free(upkeep);
}

/* In each turn, after the batches were sent, when the shard has nothing else to do. Returns the inner
 * time of the turn it wants. */
static int64_t pack_turn(struct redis_shard *shard, int64_t now_ms)
{
    if (shard->batches_under_way || !list_is_empty(&shard->open))
        shard->busy_ms = now_ms;
    if (!shard->may_pack || shard->packing || shard->advancing || !shard->up || shard->stopping)
        return INT64_MAX;
    if (now_ms - shard->busy_ms < PACK_IDLE_MS && shard->unpacked < UNPACKED_MAX)
        return shard->busy_ms + PACK_IDLE_MS;
    struct upkeep *upkeep = upkeep_new(shard, REDIS_PACK, on_packed);
    if (upkeep) { /* without memory: it saves some, and nothing depends on it */
        redis_command_number(&upkeep->call.args, PACK_JOBS);
        shard->packing = upkeep_send(upkeep, 1);
    }
    return INT64_MAX; /* its answer brings the next turn */
}

/* ---- whether there is room ---- */

static void on_probed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct upkeep *upkeep = list_entry(call, struct upkeep, call);
    (void)head;
    (void)reply;
    upkeep->shard->probing = false;
    redis_shard_note_space(upkeep->shard, redis_shard_status(end));
    upkeep_free(upkeep);
}

/* Where a push found no room, one of no jobs asks whether there is some: nobody may send another,
 * since a server that has no room is not ready. */
static void probe(struct redis_shard *shard)
{
    struct upkeep *upkeep =
        shard->has_space || shard->probing ? NULL : upkeep_new(shard, REDIS_PUSH, on_probed);
    if (!upkeep)
        return;
    redis_command_text(&upkeep->call.args, ""); /* no ticket */
    redis_command_text(&upkeep->call.args, ""); /* of no topic */
    redis_command_number(&upkeep->call.args, 0);
    shard->probing = upkeep_send(upkeep, 3);
}

/* The master says that it refuses what grows. */
static void note_full(struct redis_shard *shard)
{
    if (shard->has_space)
        log_event(LOG_WARN, "redis is full", LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("why", "maxmemory is met, or it cannot write to its disk"));
    shard->has_space = false;
}

/* ---- what the session tells ---- */

static void on_message(void *ctx, struct slice message)
{
    redis_news_hear(ctx, message);
}

static void on_learned(void *ctx, const struct redis_master *master)
{
    struct redis_shard *shard = ctx;
    const struct redis_shard_options *options = &shard->options;
    if (!options->asks)
        return;
    if (master->is_full)
        note_full(shard);
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
        redis_news_look(shard, true);
}

/* ---- the turn ---- */

/* The earlier of what the last answer and the news say; INT64_MAX: none. */
static int64_t next_event_ms(const struct redis_shard *shard)
{
    return shard->next_ms < shard->news_ms ? shard->next_ms : shard->news_ms;
}

static int64_t next_event(const struct redis_shard *shard)
{
    return to_inner(shard, next_event_ms(shard));
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

static void advance_if_due(struct redis_shard *shard, int64_t now_ms)
{
    if (may_advance(shard) && next_event(shard) <= now_ms && !advance_pause_left_ms(shard))
        advance(shard);
}

/* Those added by the callbacks wait for the next round. */
static void replies_run(struct redis_shard *shard)
{
    struct list round;
    list_take_all(&round, &shard->soon);
    while (!list_is_empty(&round)) {
        struct redis_soon *soon = list_entry(round.next, struct redis_soon, list);
        list_remove(&soon->list);
        soon->run(soon);
    }
}

static bool has_to_tell(const struct redis_shard *shard)
{
    return redis_news_has_some(shard) || !list_is_empty(&shard->soon);
}

/* Asks whether there is anything that no message told. */
static void shard_look(struct redis_shard *shard)
{
    if (!shard->up || shard->stopping)
        return;
    if (!shard->looking)
        redis_news_look(shard, true);
    redis_session_look(shard->session);
    probe(shard);
}

int64_t redis_shard_turn(struct redis_shard *shard, int64_t now_ms, bool looks)
{
    if (looks)
        shard_look(shard);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (!has_to_tell(shard))
            break;
        redis_news_tell(shard);
        replies_run(shard);
    }
    advance_if_due(shard, now_ms);
    redis_news_look(shard, false);
    redis_batches_send(shard);
    int64_t pack_ms = pack_turn(shard, now_ms);
    if (has_to_tell(shard))
        return now_ms;
    if (!may_advance(shard))
        return pack_ms;
    int64_t at_ms = next_event(shard), free_ms = now_ms + advance_pause_left_ms(shard);
    if (at_ms < free_ms)
        at_ms = free_ms;
    return at_ms < pack_ms ? at_ms : pack_ms;
}

/* ---- what it is ---- */

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
    struct redis_shard *shard = redis_shard_of(queue);
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_ANSWER:
    case COMMAND_CHANGE:
        redis_submit_items(shard, command, reply_to);
        break;
    case COMMAND_TAKE:
        redis_submit_take(shard, command, reply_to);
        break;
    case COMMAND_GET:
    case COMMAND_LIST:
    case COMMAND_TOPIC:
    case COMMAND_TOPICS:
        redis_submit_ask(shard, command, reply_to);
        break;
    }
}

static const struct queue_ops ops = {
    .submit = on_submit, .watch = redis_news_watch, .info = on_info};

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
                                            .message = on_message,
                                            .turned = on_turned,
                                            .learned = on_learned,
                                            .require_durability = options->require_durability,
                                            .ctx = shard};
    redis_slot_tag(options->url->prefix, options->index, options->shards, session.tag);
    memcpy(session.server, options->server, sizeof session.server);
    return redis_session_new(&session);
}

struct redis_shard *redis_shard_new(const struct redis_shard_options *options, struct queue **queue)
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
    for (size_t i = 0; i < REDIS_BATCH_BUCKETS; i++)
        list_init(&shard->buckets[i]);
    redis_news_init(shard);
    if (!(shard->session = session_new(shard))) {
        redis_shard_free(shard);
        return NULL;
    }
    *queue = &shard->queue;
    return shard;
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
    replies_run(shard);
    redis_news_fini(shard);
    free(shard);
}
