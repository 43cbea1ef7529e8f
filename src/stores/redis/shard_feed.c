#include "redis/shard_feed.h"

#include "feed/feed.h"
#include "redis/command.h"
#include "redis/id.h"

#include <stdlib.h>

enum {
    LISTEN_MS = 1000,       /* interval at which the scripts are informed of a listener, */
    LISTENED_FOR_MS = 3000, /* and how long they rely on it, because servers may be delayed */
};

/* ---- informing the scripts ---- */

struct listening {
    struct redis_call call;
    struct redis_shard *shard;
};

static void on_listen_reply(struct redis_call *call, enum redis_call_end end,
                            const struct redis_head *head, const redisReply *reply)
{
    struct listening *listening = list_entry(call, struct listening, call);
    (void)reply;
    if (end == REDIS_CALL_OK)
        redis_shard_note_head(listening->shard, head);
    buffer_fini(&listening->call.args);
    free(listening);
}

/* Informs the scripts of a listener. If memory runs out, the next second's call suffices. */
static void send_listen(struct redis_shard *shard)
{
    struct listening *listening = calloc(1, sizeof *listening);
    if (!listening)
        return;
    listening->shard = shard;
    redis_shard_call_init(&listening->call, REDIS_LISTEN, false, on_listen_reply);
    redis_command_number(&listening->call.args, LISTENED_FOR_MS);
    if (redis_shard_send(shard, &listening->call, 1))
        return;
    buffer_fini(&listening->call.args);
    free(listening);
}

int64_t redis_feed_step(struct redis_shard *shard, int64_t now_ms)
{
    bool had_listener = shard->has_listener;
    shard->has_listener = feed_wants(shard->options.desk, NULL) != 0;
    if (!shard->has_listener || shard->stopping)
        return INT64_MAX;
    if (!had_listener)
        shard->listen_ms = 0;
    if (!shard->up)
        return INT64_MAX; /* coming up triggers a step */
    if (now_ms >= shard->listen_ms) {
        send_listen(shard);
        shard->listen_ms = now_ms + LISTEN_MS;
    }
    return shard->listen_ms;
}

/* ---- reporting to the feed ---- */

static void feed_offer(struct feed_desk *desk, const struct job_event *event)
{
    if (feed_admit(desk, event->kind, event->topic))
        feed_publish(desk, event);
}

void redis_feed_cut(struct redis_shard *shard)
{
    shard->listen_ms = 0;
    if (shard->has_listener)
        feed_lose(shard->options.desk, 1);
}

/* ---- messages ---- */

static bool take_bytes(struct slice *rest, size_t len, struct slice *out)
{
    if (rest->len < len)
        return false;
    *out = slice_make(rest->at, len);
    *rest = slice_make(rest->at + len, rest->len - len);
    return true;
}

static bool take_text(struct slice *rest, struct slice *out)
{
    uint8_t len;
    return redis_unpack_u8(rest, &len) && take_bytes(rest, len, out);
}

static bool take_error(struct slice *rest, struct slice *out)
{
    uint8_t high, low;
    return redis_unpack_u8(rest, &high) && redis_unpack_u8(rest, &low) &&
           take_bytes(rest, (size_t)high << 8 | low, out);
}

/* Converts shard time to wall-clock time; 0 stays 0. */
static int64_t wall_ms_of(const struct redis_shard *shard, uint64_t ms)
{
    return ms ? (int64_t)ms - shard->adjust_ms : 0;
}

/* Reads the next event. Returns false if it is malformed. */
static bool take_event(struct redis_shard *shard, struct slice *rest,
                       char room[REDIS_ID_ROOM_BYTES], struct job_event *out)
{
    uint8_t kind;
    uint64_t due, lease_until;
    struct slice stored;
    *out = (struct job_event){0};
    if (!redis_unpack_u8(rest, &kind) || kind < JOB_EVENT_PUSHED || kind >= JOB_EVENT_KINDS_END ||
        !redis_unpack_u32(rest, &out->attempt) || !redis_unpack_u48(rest, &due) ||
        !redis_unpack_u48(rest, &lease_until) || !redis_unpack_u48(rest, &out->count) ||
        !take_text(rest, &out->topic) || !take_text(rest, &stored) ||
        !take_error(rest, &out->error))
        return false;
    out->kind = (enum job_event_kind)kind;
    out->due_ms = wall_ms_of(shard, due);
    out->lease_until_ms = wall_ms_of(shard, lease_until);
    if (out->kind == JOB_EVENT_DELIVERED) {
        out->way = out->count <= JOB_WAY_BROKER ? (enum job_way)out->count : JOB_WAY_UNKNOWN;
        out->count = 0;
    }
    if (stored.len && !redis_id_show(stored, room, &out->id))
        out->id = (struct slice){0};
    return true;
}

/* Returns whether this shard reports the event. Events that occur in all shards alike are reported
 * by the first one. */
static bool must_publish(const struct redis_shard *shard, struct job_event *event)
{
    bool is_first = shard->options.place == 0;
    switch (event->kind) {
    case JOB_EVENT_SETTINGS:
    case JOB_EVENT_PAUSED:
    case JOB_EVENT_RESUMED:
        return is_first;
    case JOB_EVENT_DELETED:
        if (!is_first)
            event->kind = JOB_EVENT_PURGED;
        return is_first || event->count;
    default:
        return true;
    }
}

void redis_feed_receive(struct redis_shard *shard, struct slice message)
{
    struct feed_desk *desk = shard->options.desk;
    struct job_event event;
    char room[REDIS_ID_ROOM_BYTES];
    uint64_t at_ms;
    uint32_t lost;
    if (!feed_wants(desk, NULL) || !redis_unpack_u48(&message, &at_ms) ||
        !redis_unpack_u32(&message, &lost))
        return;
    if (lost)
        feed_lose(desk, lost);
    while (message.len && take_event(shard, &message, room, &event)) {
        event.at_ms = (int64_t)at_ms;
        if (must_publish(shard, &event))
            feed_offer(desk, &event);
    }
}
