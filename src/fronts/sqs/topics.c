#include "sqs/topics.h"

#include "base/table.h"
#include "sqs/request.h"
#include "sqs/settings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct known_topic {
    struct table_entry entry;
    struct sqs_numbers numbers;
    char name[]; /* the entry's key */
};
TABLE_DECLARE(known_topics, struct known_topic, entry)

struct sqs_topics {
    pthread_mutex_t mutex;
    struct known_topics known;
    uint32_t changes;    /* number of removals */
    struct queue *queue; /* that it follows, or NULL */
    void (*on_event)(void *owner, enum queue_event event,
                     struct slice topic); /* of the previous listener */
    void *on_event_owner;
};

struct sqs_topics *sqs_topics_new(void)
{
    struct sqs_topics *topics = calloc(1, sizeof *topics);
    if (topics)
        pthread_mutex_init(&topics->mutex, NULL);
    return topics;
}

static void forget_one(struct sqs_topics *topics, struct known_topic *known)
{
    known_topics_remove(&topics->known, known);
    free(known);
}

static void forget_all(struct sqs_topics *topics)
{
    for (struct table_entry *at; (at = table_first(&topics->known.table));)
        forget_one(topics, known_topics_of(at));
}

void sqs_topics_forget(struct sqs_topics *topics, struct slice name)
{
    pthread_mutex_lock(&topics->mutex);
    struct known_topic *known = name.len ? known_topics_find(&topics->known, name) : NULL;
    topics->changes++;
    if (known)
        forget_one(topics, known);
    else if (!name.len)
        forget_all(topics);
    pthread_mutex_unlock(&topics->mutex);
}

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct sqs_topics *topics = owner;
    if (event == QUEUE_EVENT_TOPIC)
        sqs_topics_forget(topics, topic);
    if (topics->on_event)
        topics->on_event(topics->on_event_owner, event, topic);
}

void sqs_topics_follow(struct sqs_topics *topics, struct queue *queue)
{
    topics->queue = queue;
    topics->on_event = queue->on_event;
    topics->on_event_owner = queue->on_event_owner;
    queue->on_event = on_event;
    queue->on_event_owner = topics;
}

void sqs_topics_free(struct sqs_topics *topics)
{
    if (!topics)
        return;
    if (topics->queue && topics->queue->on_event == on_event) {
        topics->queue->on_event = topics->on_event;
        topics->queue->on_event_owner = topics->on_event_owner;
    }
    forget_all(topics);
    table_fini(&topics->known.table);
    pthread_mutex_destroy(&topics->mutex);
    free(topics);
}

bool sqs_topics_find(struct sqs_topics *topics, struct slice name, struct sqs_numbers *out)
{
    pthread_mutex_lock(&topics->mutex);
    const struct known_topic *known = known_topics_find(&topics->known, name);
    if (known)
        *out = known->numbers;
    pthread_mutex_unlock(&topics->mutex);
    return known != NULL;
}

uint32_t sqs_topics_now(struct sqs_topics *topics)
{
    pthread_mutex_lock(&topics->mutex);
    uint32_t now = topics->changes;
    pthread_mutex_unlock(&topics->mutex);
    return now;
}

static void add_known(struct sqs_topics *topics, struct slice name,
                      const struct sqs_numbers *numbers)
{
    struct known_topic *known = known_topics_find(&topics->known, name);
    if (!known && topics->known.table.count == SQS_TOPICS_MAX)
        forget_all(topics); /* the ones in use return soon */
    if (!known) {
        known = malloc(sizeof *known + name.len);
        if (!known)
            return; /* the next message asks again */
        memcpy(known->name, name.at, name.len);
        known->entry.key = slice_make(known->name, name.len);
        known_topics_add(&topics->known, known);
    }
    known->numbers = *numbers;
}

void sqs_topics_add(struct sqs_topics *topics, struct slice name, const struct sqs_numbers *numbers,
                    uint32_t asked)
{
    pthread_mutex_lock(&topics->mutex);
    if (asked == topics->changes)
        add_known(topics, name, numbers);
    pthread_mutex_unlock(&topics->mutex);
}

/* ---- look-ups ---- */

/* Runs an operation on messages, and keeps the settings for the next ones. */
static void run_on_messages(struct sqs_request *request, const struct queue_topic *topic)
{
    struct sqs_numbers numbers;
    sqs_numbers_read(&topic->settings, &numbers);
    if (!topic->deleting)
        sqs_topics_add(request->options->topics, request->queue, &numbers,
                       request->exchange->count);
    request->operation->message(request, &numbers);
}

static void on_looked_up(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    if (!sqs_request_find(front, tag, &request))
        return;
    bool is_there = reply->status == QUEUE_OK && reply->topic_count;
    if (is_there && request.operation->message)
        run_on_messages(&request, &reply->topics[0]);
    else if (is_there ||
             (reply->status == QUEUE_NOT_FOUND && request.operation->names == SQS_NAMES_NEW))
        request.operation->act(&request, is_there ? &reply->topics[0] : NULL);
    else if (!sqs_error_of(&error, reply->status ? reply->status : QUEUE_NOT_FOUND))
        sqs_answer_error(request.exchange, &error);
}

void sqs_look_up(struct sqs_request *request)
{
    struct sqs_topics *topics = request->options->topics;
    struct sqs_numbers numbers;
    bool is_message = request->operation->message;
    if (is_message && sqs_topics_find(topics, request->queue, &numbers)) {
        request->operation->message(request, &numbers);
        return;
    }
    if (is_message)
        request->exchange->count = sqs_topics_now(topics);
    const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = request->queue};
    queue_topic(request->exchange->front->queue, &get, sqs_reply_to(request, on_looked_up));
}
