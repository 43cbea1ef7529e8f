#include "redis/shard_core.h"

#include "base/clock.h"
#include "base/log.h"

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
