/*
 * follow: what the topics' settings say, now and after each change. One call of the queue is under
 * way at a time, so an older answer never comes after a newer one.
 */
#include "base/clock.h"
#include "base/log.h"
#include "deliver/private.h"

#include <stdlib.h>

enum { NAMES_MAX = 256, AGAIN_MS = 1000 };

/* ---- what one topic says ---- */

/* Also topics without delivery have one, if they have an extension: so it is noticed when they go.
 */
static struct dispatcher *make_dispatcher(struct deliver *deliver, struct slice topic)
{
    struct dispatcher *dispatcher = dispatcher_new(deliver, topic);
    if (!dispatcher) {
        log_event(LOG_ERROR, "delivery off", LOG_TEXT("error", "out of memory"));
        return NULL;
    }
    pthread_mutex_lock(&deliver->lock);
    table_add(&deliver->dispatchers, &dispatcher->entry);
    pthread_mutex_unlock(&deliver->lock);
    return dispatcher;
}

static bool is_same(const struct dispatcher *dispatcher, struct slice json)
{
    return dispatcher->said_bytes == json.len && dispatcher->said == hash_64(json.at, json.len);
}

static void follow_deliver(struct dispatcher *dispatcher, struct slice json)
{
    struct target_setting setting = {0};
    char error[TARGET_ERROR_BYTES] = "";
    if (json.len > 0 && is_same(dispatcher, json))
        return;
    bool is_on = json.len > 0 && guard_is_on(dispatcher->deliver->options.guard);
    if (json.len > 0 && !is_on)
        log_event(LOG_WARN, "delivery off", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", "no policy file, start the server with --deliver FILE"));
    if (is_on && !target_setting_parse(json, &setting, error)) {
        log_event(LOG_ERROR, "delivery off", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", error));
        is_on = false;
    }
    if (is_on || dispatcher->is_on)
        dispatcher_set(dispatcher, is_on ? &setting : NULL);
    target_setting_fini(&setting);
    dispatcher->said_bytes = json.len;
    dispatcher->said = hash_64(json.at, json.len);
}

static void follow_dead_letter(struct dispatcher *dispatcher, struct slice json)
{
    struct dead_letter rules = {0};
    char error[DELIVER_ERROR_BYTES] = "";
    bool has_rules = json.len > 0 && dead_letter_parse(json, &rules, error);
    if (json.len > 0 && !has_rules)
        log_event(LOG_ERROR, "dead letters left alone", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", error));
    dead_letter_worker_follow(dispatcher->deliver->worker, dispatcher->entry.key,
                              has_rules ? &rules : NULL);
    dead_letter_fini(&rules);
}

static void follow_one(struct deliver *deliver, struct slice topic, struct slice text)
{
    struct extension extension = {0};
    char error[DELIVER_ERROR_BYTES];
    struct dispatcher *dispatcher = (struct dispatcher *)table_find(&deliver->dispatchers, topic);
    if (!dispatcher && text.len == 0)
        return;
    if (!dispatcher && !(dispatcher = make_dispatcher(deliver, topic)))
        return;
    if (!extension_parse(text, &extension, error)) {
        log_event(LOG_ERROR, "settings not understood", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", error));
        extension = (struct extension){0};
    }
    dispatcher->is_gone = text.len == 0;
    follow_deliver(dispatcher, extension.deliver);
    follow_dead_letter(dispatcher, extension.dead_letter);
    if (dispatcher->is_gone)
        deliver_kick(deliver, dispatcher);
}

/* ---- asking ---- */

static void on_followed(struct deliver *deliver)
{
    deliver->is_following = false;
    follow_next(deliver);
    deliver_check_stopped(deliver);
}

static void ask_again(struct deliver *deliver)
{
    deliver->follows_all = true;
    deliver->follow_ms = clock_inner_ms() + AGAIN_MS;
    deliver_wake_by(deliver, deliver->follow_ms);
}

static void forget_names(struct deliver *deliver)
{
    while (!list_is_empty(&deliver->names)) {
        struct follow_name *name = list_entry(deliver->names.next, struct follow_name, list);
        list_remove(&name->list);
        free(name);
    }
    deliver->name_count = 0;
}

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct deliver *deliver = owner;
    struct follow_name *name = list_entry(deliver->names.next, struct follow_name, list);
    struct slice topic = slice_make(name->name, name->len);
    (void)tag;
    list_remove(&name->list);
    deliver->name_count--;
    if (deliver->is_stopping)
        ;
    else if (reply->status == QUEUE_OK && reply->topic_count == 1)
        follow_one(deliver, topic, reply->topics[0].settings.extension);
    else if (reply->status == QUEUE_NOT_FOUND || reply->status == QUEUE_BAD_TOPIC)
        follow_one(deliver, topic, slice_make(NULL, 0));
    else
        ask_again(deliver);
    free(name);
    on_followed(deliver);
}

/* Dispatchers whose topic is gone. */
static void follow_gone(struct deliver *deliver)
{
    for (size_t i = 0; i < TABLE_BUCKETS; i++)
        for (struct table_entry *entry = deliver->dispatchers.buckets[i]; entry;
             entry = entry->next) {
            const struct dispatcher *dispatcher = (struct dispatcher *)entry;
            if (dispatcher->seen != deliver->look)
                follow_one(deliver, dispatcher->entry.key, slice_make(NULL, 0));
        }
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct deliver *deliver = owner;
    (void)tag;
    if (reply->status == QUEUE_OK && !deliver->is_stopping) {
        deliver->look++;
        for (size_t i = 0; i < reply->topic_count; i++) {
            const struct queue_topic *topic = &reply->topics[i];
            follow_one(deliver, topic->name, topic->settings.extension);
            struct dispatcher *dispatcher =
                (struct dispatcher *)table_find(&deliver->dispatchers, topic->name);
            if (dispatcher)
                dispatcher->seen = deliver->look;
        }
        follow_gone(deliver);
    } else if (!deliver->is_stopping) {
        ask_again(deliver);
    }
    on_followed(deliver);
}

void follow_next(struct deliver *deliver)
{
    struct queue *queue = deliver->options.queue;
    if (deliver->is_following || deliver->is_stopping || !deliver->has_started)
        return;
    if (deliver->follows_all && deliver->follow_ms == INT64_MAX) {
        deliver->is_following = true;
        deliver->follows_all = false;
        forget_names(deliver);
        queue_topics(queue, (struct queue_reply_to){.done = on_topics, .owner = deliver});
    } else if (!list_is_empty(&deliver->names)) {
        struct follow_name *name = list_entry(deliver->names.next, struct follow_name, list);
        struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET,
                                        .topic = slice_make(name->name, name->len)};
        deliver->is_following = true;
        queue_topic(queue, &call, (struct queue_reply_to){.done = on_topic, .owner = deliver});
    }
}

/* The first of the names may be asked for right now: it may have changed since. */
static bool is_listed(struct deliver *deliver, struct slice topic)
{
    struct list *first = deliver->names.next;
    for (struct list *at = deliver->is_following ? first->next : first; at != &deliver->names;
         at = at->next) {
        struct follow_name *name = list_entry(at, struct follow_name, list);
        if (slice_equals(slice_make(name->name, name->len), topic))
            return true;
    }
    return false;
}

void follow_topic(struct deliver *deliver, struct slice topic)
{
    struct follow_name *name = NULL;
    if (deliver->is_stopping || (topic.len > 0 && is_listed(deliver, topic)))
        return;
    if (topic.len > 0 && deliver->name_count < NAMES_MAX)
        name = malloc(sizeof(*name) + topic.len);
    if (name) {
        name->len = topic.len;
        memcpy(name->name, topic.at, topic.len);
        list_add_last(&deliver->names, &name->list);
        deliver->name_count++;
    } else {
        deliver->follows_all = true;
    }
    follow_next(deliver);
}

void follow_forget(struct deliver *deliver)
{
    forget_names(deliver);
}
