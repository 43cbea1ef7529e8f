/* Control jobs pushed, and the topic for callbacks made. */
#include "base/clock.h"
#include "base/log.h"
#include "deliver/check.h"
#include "deliver/dead_letter_private.h"

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
    struct dead_letter_worker *worker;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
};

static void on_told(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct telling *telling = owner;
    struct dead_letter_worker *worker = telling->worker;
    struct kept *kept = dead_letter_worker_find(worker, slice_of(telling->topic));
    (void)tag;
    free(telling);
    worker->calls--;
    bool ok =
        reply->status == QUEUE_OK && reply->result_count == 1 &&
        (reply->results[0].status == QUEUE_CREATED || reply->results[0].status == QUEUE_REPLACED ||
         reply->results[0].status == QUEUE_EXISTED);
    if (kept) {
        kept->is_telling = false;
        /* A pass that is under way may have seen the dead jobs already, or not: another one. */
        if (!ok && kept->is_followed) {
            kept->is_wanted = true;
            dead_letter_worker_wake_by(worker, kept->tell_ms);
        }
    }
    dead_letter_worker_check_stopped(worker);
}

static void push_control(struct dead_letter_worker *worker, struct kept *kept)
{
    char text[JOB_ID_BYTES_MAX + 1];
    struct slice topic = slice_of(kept->name);
    struct telling *telling = calloc(1, sizeof *telling);
    if (!telling) {
        dead_letter_worker_wake_by(worker, kept->tell_ms);
        return;
    }
    telling->worker = worker;
    memcpy(telling->topic, topic.at, topic.len);
    struct queue_push push = {.topic = slice_of(DEAD_LETTER_TOPIC),
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
    worker->calls++;
    queue_push(worker->options.queue, &push, 1,
               (struct queue_reply_to){.done = on_told, .owner = telling});
}

void dead_letter_schedule_due(struct dead_letter_worker *worker, int64_t now_ms)
{
    for (struct list *node = worker->topics.next; node != &worker->topics; node = node->next) {
        struct kept *kept = list_entry(node, struct kept, node);
        if (!kept->is_wanted || kept->is_telling || worker->is_stopping)
            continue;
        if (kept->tell_ms > now_ms) {
            dead_letter_worker_wake_by(worker, kept->tell_ms);
            continue;
        }
        kept->tell_ms = now_ms + DEAD_LETTER_SCHEDULE_MS;
        push_control(worker, kept);
    }
}

void dead_letter_schedule(struct dead_letter_worker *worker, struct kept *kept)
{
    kept->is_wanted = true;
    dead_letter_schedule_due(worker, clock_inner_ms());
}

/* ---- the topic for callbacks ---- */

static void on_callbacks_put(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    dead_letter_worker_replied(worker);
    worker->asks_callbacks = false;
    worker->has_callbacks = reply->status == QUEUE_OK || reply->status == QUEUE_CREATED;
    if (!worker->has_callbacks)
        dead_letter_worker_wake_by(worker, clock_inner_ms() + DEAD_LETTER_SCHEDULE_MS);
    dead_letter_worker_check_stopped(worker);
}

/* `there`: as it stands now, or NULL. What it says of dead letters and of attempts stays. */
static void put_callbacks(struct dead_letter_worker *worker, const struct queue_topic *there,
                          const struct extension *says)
{
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT,
                                   .topic = slice_of(DEAD_LETTER_CALLBACKS_TOPIC)};
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
    worker->asks_callbacks = !text.failed;
    if (text.failed)
        dead_letter_worker_wake_by(worker, clock_inner_ms() + DEAD_LETTER_SCHEDULE_MS);
    else
        queue_topic(worker->options.queue, &put,
                    dead_letter_worker_reply_to(worker, on_callbacks_put));
    buffer_fini(&text);
}

/* Whatever somebody has set of its delivery stays. */
static void on_callbacks_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    const struct queue_topic *there = reply->topic_count == 1 ? reply->topics : NULL;
    struct extension says = {0};
    char error[DELIVER_ERROR_BYTES];
    (void)tag;
    dead_letter_worker_replied(worker);
    worker->asks_callbacks = false;
    if (there && !extension_parse(there->settings.extension, &says, error))
        says = (struct extension){0};
    if (reply->status == QUEUE_OK && says.deliver.len)
        worker->has_callbacks = true;
    else if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        put_callbacks(worker, there, &says);
    else
        dead_letter_worker_wake_by(worker, clock_inner_ms() + DEAD_LETTER_SCHEDULE_MS);
    dead_letter_worker_check_stopped(worker);
}

void dead_letter_worker_need_callbacks(struct dead_letter_worker *worker)
{
    worker->wants_callbacks = true;
    if (worker->has_callbacks || worker->asks_callbacks || worker->is_stopping)
        return;
    worker->asks_callbacks = true;
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET,
                                   .topic = slice_of(DEAD_LETTER_CALLBACKS_TOPIC)};
    queue_topic(worker->options.queue, &get,
                dead_letter_worker_reply_to(worker, on_callbacks_seen));
}
