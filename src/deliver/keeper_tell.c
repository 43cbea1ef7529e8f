/* Control jobs pushed, and the topic for callbacks made. */
#include "base/clock.h"
#include "base/log.h"
#include "deliver/keeper_private.h"
#include "deliver/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CONTROL_ATTEMPTS = POLICY_ATTEMPTS_MAX,
    CONTROL_BACKOFF_MS = 1000,
    CONTROL_BACKOFF_MS_MAX = 60 * 1000,
    CALLBACKS_DEDUP_MS = 24 * 3600 * 1000
};

/* ---- control jobs ---- */

/* Ids are shorter than topics may be. ':' is in no topic's name. */
static struct slice control_id(struct slice topic, char out[JOB_ID_BYTES_MAX + 1])
{
    if (topic.len <= JOB_ID_BYTES_MAX)
        return topic;
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "hash:%016" PRIx64, hash_64(topic.at, topic.len));
    return slice_make(out, (size_t)len);
}

struct telling { /* a push under way: by name, the topic's memory may go meanwhile */
    struct keeper *keeper;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
};

static void on_told(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct telling *telling = owner;
    struct keeper *keeper = telling->keeper;
    struct kept *kept = keeper_find(keeper, slice_of(telling->topic));
    (void)tag;
    free(telling);
    keeper->calls--;
    bool ok =
        reply->status == QUEUE_OK && reply->result_count == 1 &&
        (reply->results[0].status == QUEUE_CREATED || reply->results[0].status == QUEUE_REPLACED ||
         reply->results[0].status == QUEUE_EXISTED);
    if (kept) {
        kept->is_telling = false;
        /* A pass that is under way may have seen the dead jobs already, or not: another one. */
        if (!ok && kept->is_followed) {
            kept->is_wanted = true;
            keeper_wake_by(keeper, kept->tell_ms);
        }
    }
    keeper_check_stopped(keeper);
}

static void push_control(struct keeper *keeper, struct kept *kept)
{
    char text[JOB_ID_BYTES_MAX + 1];
    struct slice topic = slice_of(kept->name);
    struct telling *telling = calloc(1, sizeof *telling);
    if (!telling) {
        keeper_wake_by(keeper, kept->tell_ms);
        return;
    }
    telling->keeper = keeper;
    memcpy(telling->topic, topic.at, topic.len);
    struct queue_push push = {.topic = slice_of(KEEPER_TOPIC),
                              .id = control_id(topic, text),
                              .content_type = slice_of("text/plain"),
                              .body = topic,
                              .when = {.due = QUEUE_DUE_NOW},
                              .priority = QUEUE_PRIORITY_UNSET,
                              .on_conflict = CONFLICT_REPLACE,
                              .policy = {.max_attempts = CONTROL_ATTEMPTS,
                                         .backoff = {.kind = BACKOFF_EXPONENTIAL,
                                                     .first_ms = CONTROL_BACKOFF_MS,
                                                     .max_ms = CONTROL_BACKOFF_MS_MAX}}};
    kept->is_wanted = false;
    kept->is_telling = true;
    keeper->calls++;
    keeper->options.queue->ops->push(keeper->options.queue, &push, 1,
                                     (struct queue_reply_to){.done = on_told, .owner = telling});
}

void keeper_tell_due(struct keeper *keeper, int64_t now_ms)
{
    for (struct list *node = keeper->topics.next; node != &keeper->topics; node = node->next) {
        struct kept *kept = list_entry(node, struct kept, node);
        if (!kept->is_wanted || kept->is_telling || keeper->is_stopping)
            continue;
        if (kept->tell_ms > now_ms) {
            keeper_wake_by(keeper, kept->tell_ms);
            continue;
        }
        kept->tell_ms = now_ms + KEEPER_TELL_MS;
        push_control(keeper, kept);
    }
}

void keeper_tell(struct keeper *keeper, struct kept *kept)
{
    kept->is_wanted = true;
    keeper_tell_due(keeper, clock_inner_ms());
}

/* ---- the topic for callbacks ---- */

static void on_callbacks_put(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    (void)tag;
    keeper_replied(keeper);
    keeper->asks_callbacks = false;
    keeper->has_callbacks = reply->status == QUEUE_OK || reply->status == QUEUE_CREATED;
    if (!keeper->has_callbacks)
        keeper_wake_by(keeper, clock_inner_ms() + KEEPER_TELL_MS);
    keeper_check_stopped(keeper);
}

/* `there`: as it stands now, or NULL. What it says of dead letters and of attempts stays. */
static void put_callbacks(struct keeper *keeper, const struct queue_topic *there,
                          const struct extension *says)
{
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT,
                                   .topic = slice_of(KEEPER_CALLBACKS_TOPIC)};
    struct buffer text;
    buffer_init(&text, TOPIC_EXTENSION_BYTES_MAX);
    buffer_append_text(&text, "{\"deliver\":{\"callback\":true}");
    if (says->dead_letter.len) {
        buffer_append_text(&text, ",\"dead_letter\":");
        buffer_append_slice(&text, says->dead_letter);
    }
    buffer_append_byte(&text, '}');
    if (there)
        put.settings = there->settings;
    if (!put.settings.dedup_window_ms)
        put.settings.dedup_window_ms = CALLBACKS_DEDUP_MS;
    put.settings.extension = buffer_slice(&text);
    keeper->asks_callbacks = !text.failed;
    if (text.failed)
        keeper_wake_by(keeper, clock_inner_ms() + KEEPER_TELL_MS);
    else
        keeper->options.queue->ops->topic(keeper->options.queue, &put,
                                          keeper_reply_to(keeper, on_callbacks_put));
    buffer_fini(&text);
}

/* Whatever somebody has set of its delivery stays. */
static void on_callbacks_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    const struct queue_topic *there = reply->topic_count == 1 ? reply->topics : NULL;
    struct extension says = {0};
    char error[DELIVER_ERROR_BYTES];
    (void)tag;
    keeper_replied(keeper);
    keeper->asks_callbacks = false;
    if (there && !extension_parse(there->settings.extension, &says, error))
        says = (struct extension){0};
    if (reply->status == QUEUE_OK && says.deliver.len)
        keeper->has_callbacks = true;
    else if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        put_callbacks(keeper, there, &says);
    else
        keeper_wake_by(keeper, clock_inner_ms() + KEEPER_TELL_MS);
    keeper_check_stopped(keeper);
}

void keeper_need_callbacks(struct keeper *keeper)
{
    keeper->wants_callbacks = true;
    if (keeper->has_callbacks || keeper->asks_callbacks || keeper->is_stopping)
        return;
    keeper->asks_callbacks = true;
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET,
                                   .topic = slice_of(KEEPER_CALLBACKS_TOPIC)};
    keeper->options.queue->ops->topic(keeper->options.queue, &get,
                                      keeper_reply_to(keeper, on_callbacks_seen));
}
