#include "redis/shard_notifications.h"

#include "redis/command.h"
#include "redis/id.h"
#include "redis/shard_move.h"
#include "redis/waits.h"

#include "base/text.h"
#include "feed/feed.h"

#include <assert.h>
#include <stdlib.h>

/* ---- shard feed ---- */

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

/* Handles a script's message, from any server. */
static void redis_feed_receive(struct redis_shard *shard, struct slice message)
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

/* ---- shard notifications ---- */

enum {
    LOOK_TOPICS_MAX = 500,
    EVENTS_MAX = 64, /* not reported yet; above this, they are reported for any topic */
    SERVER_BYTES = 8 /* of a server's name, in a message */
};

/* ---- watches: the watched topics, which need not exist ---- */

static void watch_free(struct redis_shard *shard, struct redis_watch *watch)
{
    redis_watches_remove(&shard->watches, watch);
    list_remove(&watch->fresh);
    list_remove(&watch->ready);
    free(watch);
}

static struct redis_watch *watch_new(struct redis_shard *shard, struct slice topic)
{
    struct redis_watch *watch = calloc(1, sizeof *watch + topic.len);
    assert(watch); /* a wake-up must not be lost */
    memcpy(watch->topic, topic.at, topic.len);
    watch->entry.key = slice_make(watch->topic, topic.len);
    redis_watches_add(&shard->watches, watch);
    list_init(&watch->fresh);
    list_init(&watch->ready);
    return watch;
}

void redis_notifications_watch(struct queue *queue, struct slice topic, bool on)
{
    struct redis_shard *shard = redis_shard_of(queue);
    struct redis_watch *watch = redis_watches_find(&shard->watches, topic);
    if (on) {
        if (!watch)
            watch = watch_new(shard, topic);
        watch->count++;
        list_remove(&watch->fresh);
        list_add_last(&shard->fresh, &watch->fresh);
        reactor_iterate_again(shard->options.reactor);
    } else if (watch && --watch->count == 0) {
        watch_free(shard, watch);
    }
}

void redis_notification_ready(struct redis_shard *shard, struct slice topic)
{
    struct redis_watch *watch =
        shard->watches.table.count ? redis_watches_find(&shard->watches, topic) : NULL;
    if (!watch)
        return;
    watch->notified = true;
    list_remove(&watch->ready);
    list_add_last(&shard->ready, &watch->ready);
}

bool redis_notification_reaches(const struct redis_shard *shard, struct slice topic)
{
    const struct redis_watch *watch =
        shard->watches.table.count ? redis_watches_find(&shard->watches, topic) : NULL;
    return watch && !watch->is_held;
}

void redis_notification_hold(struct redis_shard *shard, struct slice topic, bool is_held)
{
    struct redis_watch *watch =
        shard->watches.table.count ? redis_watches_find(&shard->watches, topic) : NULL;
    if (watch)
        watch->is_held = is_held;
}

static void watches_notify(struct redis_shard *shard)
{
    size_t left = shard->watches.table.count;
    while (left-- && !list_is_empty(&shard->ready)) {
        struct redis_watch *watch = list_entry(shard->ready.next, struct redis_watch, ready);
        char topic[JOB_TOPIC_BYTES_MAX];
        struct slice name = slice_make(topic, watch->entry.key.len);
        assert(name.len <= sizeof topic);
        memcpy(topic, watch->topic, name.len); /* the watch may be freed by the callback */
        list_remove(&watch->ready);
        queue_report_ready(&shard->queue, name);
    }
}

/* ---- events: what happened to topics ---- */

struct topic_event {
    struct list list;
    enum queue_event event;
    size_t topic_bytes;
    char topic[]; /* empty: any topic */
};

static struct slice event_topic(const struct topic_event *event)
{
    return slice_make(event->topic, event->topic_bytes);
}

static void event_free(struct redis_shard *shard, struct topic_event *event)
{
    list_remove(&event->list);
    shard->event_count--;
    free(event);
}

/* Returns whether the same event, or one for any topic, is already noted. */
static bool event_is_noted(const struct redis_shard *shard, enum queue_event kind,
                           struct slice topic)
{
    for (const struct list *at = shard->events.next; at != &shard->events; at = at->next) {
        const struct topic_event *event = list_entry(at, struct topic_event, list);
        if (event->event == kind &&
            (!event->topic_bytes || slice_equals(event_topic(event), topic)))
            return true;
    }
    return false;
}

void redis_notification_event(struct redis_shard *shard, enum queue_event kind, struct slice topic)
{
    if (shard->event_count >= EVENTS_MAX)
        topic.len = 0;
    if (event_is_noted(shard, kind, topic))
        return;
    struct topic_event *event = calloc(1, sizeof *event + topic.len);
    assert(event); /* an event must not be lost */
    event->event = kind;
    event->topic_bytes = topic.len;
    if (topic.len)
        memcpy(event->topic, topic.at, topic.len);
    list_add_last(&shard->events, &event->list);
    shard->event_count++;
}

static void events_notify(struct redis_shard *shard)
{
    size_t left = shard->event_count;
    while (left-- && !list_is_empty(&shard->events)) {
        struct topic_event *event = list_entry(shard->events.next, struct topic_event, list);
        list_remove(&event->list);
        queue_report_event(&shard->queue, event->event, event_topic(event));
        event_free(shard, event);
    }
}

void redis_notifications_deliver(struct redis_shard *shard)
{
    watches_notify(shard);
    events_notify(shard);
}

/* ---- numbers: each message carries the count of its kind, so that lost messages are detected
 * ---- */

static struct redis_event_number *event_number_of(struct redis_shard *shard, enum queue_event kind)
{
    return kind == QUEUE_EVENT_TOPIC ? &shard->event_numbers.changes : &shard->event_numbers.deaths;
}

/* Handles a message with the count of its kind; `own`: caused by a call from here, whose reply
 * notes the event. */
static void event_note(struct redis_shard *shard, enum queue_event kind, uint64_t number,
                       struct slice topic, bool own)
{
    struct redis_event_number *seen = event_number_of(shard, kind);
    if (seen->known && number <= seen->number)
        return; /* a reply of the script look came first */
    bool missed = !seen->known || number > seen->number + 1;
    *seen = (struct redis_event_number){.known = true, .number = number};
    if (missed)
        redis_notification_event(shard, kind, (struct slice){0});
    else if (!own)
        redis_notification_event(shard, kind, topic);
}

static void event_count_note(struct redis_shard *shard, enum queue_event kind, uint64_t number,
                             struct redis_event_number before)
{
    struct redis_event_number *seen = event_number_of(shard, kind);
    /* A lower number than was known when the look was sent: Redis lost the last changes. A lower
     * number than is known only now: a message came first. */
    bool went_back = before.known && number < before.number;
    if (seen->known && number <= seen->number && !went_back)
        return;
    *seen = (struct redis_event_number){.known = true, .number = number};
    redis_notification_event(shard, kind, (struct slice){0});
}

/* Takes in the counters returned by the script look; `before`: what was known when it was sent. */
static void events_counted(struct redis_shard *shard, uint64_t changes, uint64_t deaths,
                           const struct redis_event_numbers *before)
{
    event_count_note(shard, QUEUE_EVENT_TOPIC, changes, before->changes);
    event_count_note(shard, QUEUE_EVENT_DEAD, deaths, before->deaths);
}

/* ---- ends of awaited jobs ---- */

/* Has all waits looked up again, because a message may have been lost. */
static void ends_missed(struct redis_shard *shard)
{
    if (shard->options.waits)
        redis_waits_check(shard->options.waits);
}

static void end_receive(struct redis_shard *shard, struct slice message)
{
    struct redis_event_number *seen = &shard->event_numbers.ends;
    struct redis_ended ended;
    if (!redis_unpack_ended(message, &ended))
        return;
    bool missed = !seen->known || ended.number > seen->number + 1;
    if (!seen->known || ended.number > seen->number)
        *seen = (struct redis_event_number){.known = true, .number = ended.number};
    if (shard->options.waits)
        redis_waits_ended(shard->options.waits, &ended, shard->adjust_ms);
    if (missed)
        ends_missed(shard);
}

/* Takes in the number returned by the script look. */
static void ends_counted(struct redis_shard *shard, uint64_t number)
{
    struct redis_event_number *seen = &shard->event_numbers.ends;
    if (!number || (seen->known && number <= seen->number))
        return;
    *seen = (struct redis_event_number){.known = true, .number = number};
    ends_missed(shard);
}

/* Counts kept jobs that a call of this server dropped. */
static void drops_receive(struct redis_shard *shard, struct slice text)
{
    uint32_t by_number, by_bytes;
    if (!redis_unpack_u32(&text, &by_number) || !redis_unpack_u32(&text, &by_bytes))
        return;
    shard->finished_dropped[QUEUE_DROP_NUMBER] += by_number;
    shard->finished_dropped[QUEUE_DROP_BYTES] += by_bytes;
}

/* ---- messages ---- */

static struct slice before_space(struct slice text)
{
    const char *space = text.len ? memchr(text.at, ' ', text.len) : NULL;
    return space ? slice_make(text.at, (size_t)(space - text.at)) : text;
}

static struct slice after_space(struct slice text)
{
    size_t before = before_space(text).len;
    return before < text.len ? slice_make(text.at + before + 1, text.len - before - 1)
                             : (struct slice){0};
}

/* Parses NUMBER, a space, the topic. */
static void read_event(struct redis_shard *shard, enum queue_event event, struct slice text,
                       bool own)
{
    uint64_t number;
    if (after_space(text).len && text_parse_u64(before_space(text), INT64_MAX, &number))
        event_note(shard, event, number, after_space(text), own);
}

static void read_server_message(struct redis_shard *shard, char kind, struct slice rest)
{
    bool own = memcmp(rest.at, shard->options.server, SERVER_BYTES) == 0;
    struct slice text = slice_make(rest.at + SERVER_BYTES, rest.len - SERVER_BYTES);
    uint64_t held_ms;
    if (kind == 'e')
        redis_feed_receive(shard, text);
    else if (kind == 's')
        read_event(shard, QUEUE_EVENT_TOPIC, text, own);
    else if (kind == 'k' && own)
        drops_receive(shard, text);
    else if (kind == 'r' && !own)
        redis_notification_ready(shard, text);
    else if (kind == 'c' && !own && text_parse_u64(text, INT64_MAX, &held_ms))
        redis_session_hold_clock(shard->session, (int64_t)held_ms);
}

struct look {
    struct redis_call call;
    struct redis_shard *shard;
    uint64_t number;
    bool all;                                 /* regular: finds changes whose message was lost */
    struct redis_event_numbers event_numbers; /* as known before it was sent */
};

/* Marks the topics found. Topics that are no longer watched are ignored. */
static void mark_found(struct redis_shard *shard, const redisReply *reply)
{
    for (size_t i = 1; i < reply->elements; i++) {
        struct slice topic;
        struct redis_watch *watch =
            redis_element(reply, i, &topic) ? redis_watches_find(&shard->watches, topic) : NULL;
        if (watch)
            watch->found = true;
    }
}

static void notify_found(struct redis_shard *shard, const struct look *look)
{
    for (struct redis_watch *watch = redis_watches_first(&shard->watches); watch;
         watch = redis_watches_next(&shard->watches, watch)) {
        if (watch->look != look->number)
            continue;
        if (watch->found) {
            shard->options.figures->notifications_lost +=
                look->all && watch->seen && !watch->notified;
            redis_notification_ready(shard, watch->entry.key);
        } else {
            watch->notified = false;
        }
        watch->seen = true;
        watch->found = false;
    }
}

static void read_counters(const struct look *look, const struct redis_head *head)
{
    uint64_t changes, deaths, ends;
    struct slice rest = head->rest;
    if (redis_unpack_counters(&rest, &changes, &deaths, &ends)) {
        events_counted(look->shard, changes, deaths, &look->event_numbers);
        ends_counted(look->shard, ends);
        redis_move_receive(look->shard, rest);
    } else
        redis_shard_log_malformed(look->shard, REDIS_LOOK);
}

static void on_looked(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct look *look = list_entry(call, struct look, call);
    struct redis_shard *shard = look->shard;
    if (look->all)
        shard->looking = false;
    if (end == REDIS_CALL_OK) {
        bool was_notified =
            head->next_ms >= shard->next.ms || head->next_ms >= shard->notified_next.ms;
        shard->options.figures->notifications_lost += look->all && shard->known && !was_notified;
        redis_shard_note_head(shard, head);
        read_counters(look, head);
        mark_found(shard, reply);
        notify_found(shard, look);
    }
    buffer_fini(&look->call.args);
    free(look);
}

static struct look *look_new(struct redis_shard *shard, bool all)
{
    struct look *look = calloc(1, sizeof *look);
    if (!look)
        return NULL; /* the next second's look suffices */
    redis_shard_call_init(&look->call, REDIS_LOOK, false, on_looked);
    look->shard = shard;
    look->number = ++shard->looks;
    look->all = all;
    look->event_numbers = shard->event_numbers;
    return look;
}

static void look_send(struct look *look, size_t topics)
{
    if (redis_shard_send(look->shard, &look->call, topics))
        return;
    buffer_fini(&look->call.args);
    free(look);
}

static void look_add_topic(struct look *look, struct redis_watch *watch)
{
    redis_command_arg(&look->call.args, watch->entry.key);
    watch->look = look->number;
    list_remove(&watch->fresh);
}

static void look_at_fresh(struct redis_shard *shard)
{
    while (!list_is_empty(&shard->fresh)) {
        struct look *look = look_new(shard, false);
        size_t count = 0;
        if (!look)
            return;
        while (!list_is_empty(&shard->fresh) && count++ < LOOK_TOPICS_MAX)
            look_add_topic(look, list_entry(shard->fresh.next, struct redis_watch, fresh));
        look_send(look, count);
    }
}

static void look_at_all(struct redis_shard *shard)
{
    struct redis_watch *watch = redis_watches_first(&shard->watches);
    do {
        struct look *look = look_new(shard, true);
        size_t count = 0;
        if (!look)
            return;
        for (; watch && count < LOOK_TOPICS_MAX; count++) {
            look_add_topic(look, watch);
            watch = redis_watches_next(&shard->watches, watch);
        }
        shard->looking = true;
        look_send(look, count);
    } while (watch);
}

void redis_notifications_check(struct redis_shard *shard, bool all)
{
    if (!shard->up)
        return;
    if (all)
        look_at_all(shard);
    else
        look_at_fresh(shard);
}

void redis_notification_receive(struct redis_shard *shard, struct slice message)
{
    uint64_t at_ms;
    if (message.len == 0)
        return;
    struct slice rest = slice_make(message.at + 1, message.len - 1);
    if (message.at[0] == 'd' && text_parse_u64(before_space(rest), INT64_MAX, &at_ms)) {
        if ((int64_t)at_ms < shard->notified_next.ms)
            redis_next_set(&shard->notified_next, (int64_t)at_ms, after_space(rest));
    } else if (message.at[0] == 'g') {
        redis_notifications_check(shard, true);
    } else if (message.at[0] == 'w') {
        end_receive(shard, rest);
    } else if (message.at[0] == 'x') {
        read_event(shard, QUEUE_EVENT_DEAD, rest, false);
    } else if (rest.len > SERVER_BYTES) {
        read_server_message(shard, message.at[0], rest);
    }
}

/* ---- the look ---- */

/* ---- life cycle ---- */

void redis_notifications_fini(struct redis_shard *shard)
{
    struct redis_watch *watch;
    while ((watch = redis_watches_first(&shard->watches)))
        watch_free(shard, watch);
    redis_watches_fini(&shard->watches);
    while (!list_is_empty(&shard->events))
        event_free(shard, list_entry(shard->events.next, struct topic_event, list));
}
