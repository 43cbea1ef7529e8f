/* The operations on queues: create, get, list, delete, purge, attributes, tags, dead-letter
 * sources. */
#include "sqs/settings.h"

#include "api/settings.h"
#include "base/json_write.h"
#include "queue/cursor.h"

#include <stdlib.h>

enum {
    LIST_MAX = 1000,
    NAMES_BYTES = 64,
    TAGS_MAX = 50,
    PURGE_PAGE = 200,
    LIST_PAGE = 128,
    LIST_BYTES_MAX = 4 * 1024 * 1024
};

static void fail(const struct sqs_request *request, const struct sqs_error *error)
{
    sqs_answer_error(request->exchange, error);
}

/* Writes the queue's URL, as in `{"QueueUrl":…`, with the host name of the Host header. */
static void sqs_write_url(const struct http_exchange *exchange, struct slice host,
                          struct slice queue, struct buffer *out)
{
    const struct sqs_options *options = exchange->route->about;
    const struct http_connection *connection = exchange->connection; /* NULL: the client is gone */
    bool is_tls = connection && connection->socket.channel;
    buffer_append_format(out, "%s://%.*s/%s/%.*s", is_tls ? "https" : "http", (int)host.len,
                         host.at, options->account, (int)queue.len, queue.at);
}

static void write_url(const struct sqs_request *request, struct slice queue, struct buffer *out)
{
    struct buffer url;
    buffer_init(&url, 1024);
    sqs_write_url(request->exchange, request->host, queue, &url);
    json_write_string(out, buffer_slice(&url));
    buffer_fini(&url);
}

static void answer_url(const struct sqs_request *request)
{
    struct buffer *body = http_answer_start(request->exchange);
    buffer_append_text(body, "{\"QueueUrl\":");
    write_url(request, request->queue, body);
    buffer_append_byte(body, '}');
    sqs_answer(request);
}

static void sqs_answer_empty(const struct sqs_request *request)
{
    buffer_append_text(http_answer_start(request->exchange), "{}");
    sqs_answer(request);
}

/* ---- settings ---- */

static void on_settings_put(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    if (!sqs_request_find(front, tag, &request))
        return;
    sqs_topics_forget(request.options->topics, request.queue);
    if (!sqs_error_of(&error, reply->status))
        fail(&request, &error);
    else if (request.operation->names == SQS_NAMES_NEW)
        answer_url(&request);
    else
        sqs_answer_empty(&request);
}

/* Checks a changed RedrivePolicy: the resulting extension is validated as if set over the API. */
static bool check_redrive(const struct sqs_request *request, struct slice extension,
                          struct sqs_error *error)
{
    struct http_fault fault;
    return api_extension_check(request->exchange->front->shared->hooks, request->queue, extension,
                               &fault) ||
           sqs_error_set(error, SQS_BAD_VALUE,
                         "Value for parameter RedrivePolicy is invalid. Reason: %s.", fault.detail);
}

/* Writes the settings. `checks`: the RedrivePolicy has changed. */
static void put_settings(const struct sqs_request *request, struct sqs_queue *queue,
                         struct topic_settings settings, bool is_new, bool checks)
{
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT, .topic = request->queue};
    struct sqs_error error;
    struct buffer text;
    queue->modified_s = queue_wall_ms(request->exchange->front->queue) / 1000;
    if (!queue->created_s)
        queue->created_s = queue->modified_s;
    buffer_init(&text, 2 * TOPIC_EXTENSION_BYTES_MAX);
    put.settings = settings;
    if (sqs_queue_write(queue, is_new, &put.settings, &text, &error) &&
        (!checks || check_redrive(request, put.settings.extension, &error)))
        queue_topic(request->exchange->front->queue, &put, sqs_reply_to(request, on_settings_put));
    else
        fail(request, &error);
    buffer_fini(&text);
}

/* Checks access to the dead-letter queue: dead messages move to that topic, which requires the
 * right to push there. */
static bool may_forward(const struct sqs_request *request, const struct sqs_queue *queue,
                        struct sqs_error *error)
{
    return access_may(request->exchange->caller, ACCESS_ADMIN, queue->dead_letter) ||
           sqs_error_set(error, SQS_DENIED, "Access to the dead-letter queue is denied.");
}

/* Continues after the lookup of the dead-letter queue. */
static void on_dead_letter_seen(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error = {0};
    if (!sqs_request_find(front, tag, &request))
        return;
    if (reply->status == QUEUE_NOT_FOUND)
        (void)sqs_error_set(&error, SQS_BAD_VALUE,
                            "Value for parameter RedrivePolicy is invalid. Reason: Dead letter "
                            "target does not exist.");
    else if (sqs_error_of(&error, reply->status) && !sqs_request_learn(&request, slice_of("seen")))
        (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
    if (error.fault)
        fail(&request, &error);
    else
        sqs_look_up(&request);
}

/* Checks that the name, the attributes and the store of a new queue agree on FIFO. */
static bool check_fifo(const struct sqs_request *request, bool wants_fifo, struct sqs_error *error)
{
    struct queue_info info = {0};
    bool is_named = sqs_name_is_fifo(request->queue);
    if (wants_fifo && !is_named)
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "The name of a FIFO queue can only include alphanumeric characters, "
                             "hyphens, or underscores, must end with .fifo suffix and be 1 to 80 "
                             "in length.");
    if (!wants_fifo && is_named)
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "Can only include alphanumeric characters, hyphens, or underscores. 1 "
                             "to 80 in length; the name of a FIFO queue needs FifoQueue=true.");
    queue_info(request->exchange->front->queue, &info);
    return !wants_fifo || (info.groups && info.strict_groups) ||
           sqs_error_set(error, SQS_UNSUPPORTED,
                         "This server has no FIFO queues: its store has no strict order within "
                         "groups.");
}

/* Checks that a dead-letter queue has the type of the queue. */
static bool check_dead_letter_type(const struct sqs_queue *queue, struct sqs_error *error)
{
    return sqs_name_is_fifo(queue->dead_letter) == queue->is_fifo ||
           sqs_error_set(error, SQS_BAD_VALUE,
                         "Value for parameter RedrivePolicy is invalid. Reason: Dead letter queue "
                         "must be same type of queue as the source.");
}

/* Handles create and set. Creating an existing queue succeeds only with identical attributes. */
static void change_queue(const struct sqs_request *request, const struct queue_topic *topic)
{
    struct json_value attributes = sqs_member(request->fields, "Attributes"),
                      tags = sqs_member(request->fields, "tags");
    struct topic_settings settings = topic ? topic->settings : (struct topic_settings){0};
    struct sqs_queue queue, before;
    struct sqs_error error = {0};
    struct buffer scratch;
    bool creates = request->operation->names == SQS_NAMES_NEW, is_redriven;
    sqs_queue_read(&settings, &queue);
    if (!topic) {
        queue.visibility_s = SQS_VISIBILITY_S;
        queue.retention_s = SQS_RETENTION_S;
        queue.tags = tags;
    }
    before = queue;
    if (creates)
        queue.is_fifo = sqs_wants_fifo(attributes);
    buffer_init(&scratch, request->exchange->note.len);
    if (!buffer_reserve(&scratch, request->exchange->note.len))
        (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
    else if (!creates || check_fifo(request, queue.is_fifo, &error))
        (void)sqs_queue_change(&queue, attributes, &scratch, &error);
    is_redriven = queue.dead_letter.len && !slice_equals(queue.dead_letter, before.dead_letter);
    if (!error.fault && is_redriven && check_dead_letter_type(&queue, &error))
        (void)may_forward(request, &queue, &error);
    if (!error.fault && creates && topic && !sqs_queue_equals(&before, &queue))
        (void)sqs_error_set(&error, SQS_QUEUE_EXISTS,
                            "A queue already exists with the same name and a different value for "
                            "an attribute.");
    if (error.fault)
        fail(request, &error);
    else if (creates && topic)
        answer_url(request);
    else if (is_redriven && !request->learned.len &&
             !slice_equals(queue.dead_letter, request->queue))
        queue_topic(request->exchange->front->queue,
                    &(struct queue_topic_call){.verb = QUEUE_TOPIC_GET, .topic = queue.dead_letter},
                    sqs_reply_to(request, on_dead_letter_seen));
    else
        put_settings(request, &queue, settings, topic == NULL, is_redriven);
    buffer_fini(&scratch);
}

static void create_queue(struct sqs_request *request, const struct queue_topic *topic)
{
    change_queue(request, topic);
}

static void set_attributes(struct sqs_request *request, const struct queue_topic *topic)
{
    change_queue(request, topic);
}

static size_t count_items(struct json_value array)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    size_t count = 0;
    while (array.kind == JSON_ARRAY && json_next_item(array, &cursor, &item))
        count++;
    return count;
}

static bool check_names(struct json_value names, struct sqs_error *error)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    while (names.kind == JSON_ARRAY && json_next_item(names, &cursor, &item)) {
        struct slice name = item.kind == JSON_STRING ? slice_make(item.raw.at + 1, item.raw.len - 2)
                                                     : (struct slice){0};
        if (!sqs_attribute_name_is_known(name))
            return sqs_error_set(error, SQS_BAD_ATTRIBUTE_NAME, "Unknown Attribute %.*s.",
                                 (int)(name.len < NAMES_BYTES ? name.len : NAMES_BYTES),
                                 name.len ? name.at : "");
    }
    return true;
}

static void get_attributes(struct sqs_request *request, const struct queue_topic *topic)
{
    struct json_value names = sqs_member(request->fields, "AttributeNames");
    struct sqs_error error;
    if (!check_names(names, &error)) {
        fail(request, &error);
        return;
    }
    if (count_items(names) == 0) {
        sqs_answer_empty(request);
        return;
    }
    struct buffer *body = http_answer_start(request->exchange);
    buffer_append_text(body, "{\"Attributes\":");
    sqs_queue_show(request, topic, names, body);
    buffer_append_byte(body, '}');
    sqs_answer(request);
}

static void get_url(struct sqs_request *request, const struct queue_topic *topic)
{
    (void)topic;
    answer_url(request);
}

/* ---- tags ---- */

static bool is_key_in(struct json_value keys, struct slice key)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    while (keys.kind == JSON_ARRAY && json_next_item(keys, &cursor, &item))
        if (item.kind == JSON_STRING && slice_equals(item.raw, key))
            return true;
    return false;
}

static void add_tags(struct buffer *out, struct json_value tags, struct json_value without,
                     struct json_value replaced_by)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (tags.kind == JSON_OBJECT && json_next_member(tags, &cursor, &key, &value)) {
        struct json_cursor other = {0};
        struct json_value other_value;
        struct slice other_key;
        bool goes = is_key_in(without, key);
        while (replaced_by.kind == JSON_OBJECT &&
               json_next_member(replaced_by, &other, &other_key, &other_value))
            goes |= slice_equals(key, other_key);
        if (goes || value.kind != JSON_STRING)
            continue;
        buffer_append_text(out, out->len > 1 ? "," : "");
        buffer_append_slice(out, key);
        buffer_append_byte(out, ':');
        buffer_append_slice(out, value.raw);
    }
}

static size_t count_members(struct json_value object)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    size_t count = 0;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value))
        count++;
    return count;
}

static bool check_tags(const struct sqs_request *request, struct json_value added,
                       struct json_value removed, struct sqs_error *error)
{
    bool adds = request->operation->name[0] == 'T';
    if (adds && count_members(added) == 0)
        return sqs_error_set(error, SQS_MISSING, "The request must contain the parameter Tags.");
    if (!adds && count_items(removed) == 0)
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "Tag keys must be between 1 and 128 characters in length.");
    return true;
}

/* Handles tag and untag: adds the new tags, removes those named. */
static void change_tags(struct sqs_request *request, const struct queue_topic *topic)
{
    struct json_value added = sqs_member(request->fields, "Tags"),
                      removed = sqs_member(request->fields, "TagKeys");
    struct sqs_error error = {0};
    struct sqs_queue queue;
    struct buffer tags;
    if (!check_tags(request, added, removed, &error)) {
        fail(request, &error);
        return;
    }
    sqs_queue_read(&topic->settings, &queue);
    buffer_init(&tags, 4 * TOPIC_EXTENSION_BYTES_MAX);
    buffer_append_byte(&tags, '{');
    add_tags(&tags, queue.tags, removed, added);
    add_tags(&tags, added, (struct json_value){0}, (struct json_value){0});
    buffer_append_byte(&tags, '}');
    if (tags.failed || !json_check(buffer_slice(&tags), &queue.tags, NULL) ||
        count_members(queue.tags) > TAGS_MAX) {
        (void)sqs_error_set(&error, SQS_BAD_VALUE, "Too many tags added for queue %.*s.",
                            (int)request->queue.len, request->queue.at);
        fail(request, &error);
    } else {
        put_settings(request, &queue, topic->settings, false, false);
    }
    buffer_fini(&tags);
}

static void list_tags(struct sqs_request *request, const struct queue_topic *topic)
{
    struct sqs_queue queue;
    sqs_queue_read(&topic->settings, &queue);
    struct buffer *body = http_answer_start(request->exchange);
    buffer_append_text(body, "{\"Tags\":");
    buffer_append_slice(body, queue.tags.kind ? queue.tags.raw : slice_of("{}"));
    buffer_append_byte(body, '}');
    sqs_answer(request);
}

/* ---- delete and purge ---- */

static void on_done(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    if (!sqs_request_find(front, tag, &request))
        return;
    sqs_topics_forget(request.options->topics, request.queue);
    if (sqs_error_of(&error, reply->status))
        sqs_answer_empty(&request);
    else
        fail(&request, &error);
}

static void delete_queue(struct sqs_request *request, const struct queue_topic *topic)
{
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_DELETE, .topic = request->queue};
    (void)topic;
    queue_topic(request->exchange->front->queue, &call, sqs_reply_to(request, on_done));
}

/*
 * A purge in progress. SQS also deletes messages in flight. The queue never takes a job from its
 * consumer, so the consumers are requested to give these up, page by page: the jobs end with their
 * leases and are not received again.
 */
struct purging {
    struct http_front *front;
    uint64_t tag;
    char topic[JOB_TOPIC_BYTES_MAX], cursor[QUEUE_CURSOR_BYTES_MAX];
    size_t topic_bytes, cursor_bytes;
};

static void purge_end(struct purging *purging, enum queue_status status)
{
    struct sqs_request request;
    struct sqs_error error;
    if (!sqs_request_find(purging->front, purging->tag, &request))
        ; /* the client is gone */
    else if (sqs_error_of(&error, status))
        sqs_answer_empty(&request);
    else
        fail(&request, &error);
    free(purging);
}

static void purge_list(struct purging *purging);

static void on_page_purged(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct purging *purging = owner;
    (void)tag;
    if (reply->status == QUEUE_OK && purging->cursor_bytes)
        purge_list(purging);
    else
        purge_end(purging, reply->status);
}

static void on_page_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct purging *purging = owner;
    struct queue_change changes[PURGE_PAGE];
    (void)tag;
    if (reply->status != QUEUE_OK || !reply->job_count) {
        purge_end(purging, reply->status == QUEUE_NOT_FOUND ? QUEUE_OK : reply->status);
        return;
    }
    for (size_t i = 0; i < reply->job_count; i++)
        changes[i] = (struct queue_change){.verb = QUEUE_CANCEL,
                                           .topic = reply->jobs[i].job.topic,
                                           .id = reply->jobs[i].job.id,
                                           .priority = QUEUE_PRIORITY_UNSET,
                                           .request = true};
    purging->cursor_bytes = reply->cursor.len;
    if (reply->cursor.len)
        memcpy(purging->cursor, reply->cursor.at, reply->cursor.len);
    queue_change(purging->front->queue, changes, reply->job_count,
                 (struct queue_reply_to){.done = on_page_purged, .owner = purging});
}

static void purge_list(struct purging *purging)
{
    const struct queue_list list = {
        .topic = slice_make(purging->topic, purging->topic_bytes),
        .state = JOB_LEASED,
        .limit = PURGE_PAGE,
        .cursor = slice_make(purging->cursor, purging->cursor_bytes),
    };
    queue_list(purging->front->queue, &list,
               (struct queue_reply_to){.done = on_page_listed, .owner = purging});
}

static void on_purged(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error = {0};
    if (!sqs_request_find(front, tag, &request))
        return;
    struct purging *purging =
        sqs_error_of(&error, reply->status) ? calloc(1, sizeof *purging) : NULL;
    if (!purging) {
        if (!error.fault)
            (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
        fail(&request, &error);
        return;
    }
    purging->front = front;
    purging->tag = tag;
    memcpy(purging->topic, request.queue.at, request.queue.len);
    purging->topic_bytes = request.queue.len;
    purge_list(purging);
}

static void purge_queue(struct sqs_request *request, const struct queue_topic *topic)
{
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_PURGE, .topic = request->queue};
    (void)topic;
    queue_topic(request->exchange->front->queue, &call, sqs_reply_to(request, on_purged));
}

/* ---- lists ---- */

static bool begins_with(struct slice text, struct slice prefix)
{
    return text.len >= prefix.len &&
           (prefix.len == 0 || memcmp(text.at, prefix.at, prefix.len) == 0);
}

/* Returns whether a list includes this topic. For dead-letter sources: whether its dead letters go
 * to the call's queue. */
static bool is_listed(const struct sqs_request *request, const struct queue_topic *topic,
                      struct slice prefix)
{
    struct sqs_queue queue;
    if (!access_may_as_any(request->exchange->caller, request->operation->scopes, topic->name) ||
        job_topic_is_own(topic->name) || topic->deleting)
        return false;
    if (!request->queue.len)
        return begins_with(topic->name, prefix);
    sqs_queue_read(&topic->settings, &queue);
    return slice_equals(queue.dead_letter, request->queue);
}

/* A list in progress: topics are read page by page, so that a large number of them does not block
 * other calls. */
struct listing {
    struct http_front *front;
    uint64_t tag;
    int64_t count, most;
    bool has_more;
    struct buffer urls;
    char after[JOB_TOPIC_BYTES_MAX], last[JOB_TOPIC_BYTES_MAX]; /* last: the last name listed */
    size_t after_bytes, last_bytes;
};

static void listing_free(struct listing *listing)
{
    buffer_fini(&listing->urls);
    free(listing);
}

/* Sends the reply. NextToken is the last name of the page, unencoded. */
static void listing_answer(struct listing *listing, const struct sqs_request *request)
{
    struct buffer *body = http_answer_start(request->exchange);
    buffer_append_text(body, request->queue.len ? "{\"queueUrls\":[" : "{\"QueueUrls\":[");
    buffer_append_slice(body, buffer_slice(&listing->urls));
    buffer_append_byte(body, ']');
    if (listing->has_more) {
        buffer_append_text(body, ",\"NextToken\":");
        json_write_string(body, slice_make(listing->last, listing->last_bytes));
    }
    buffer_append_byte(body, '}');
    sqs_answer(request);
    listing_free(listing);
}

/* Returns false if the list is full. */
static bool listing_add(struct listing *listing, const struct sqs_request *request,
                        struct slice name)
{
    listing->has_more = listing->count == listing->most;
    if (listing->has_more)
        return false;
    buffer_append_text(&listing->urls, listing->count++ ? "," : "");
    write_url(request, name, &listing->urls);
    memcpy(listing->last, name.at, name.len);
    listing->last_bytes = name.len;
    return true;
}

static void listing_read(struct listing *listing);

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct listing *listing = owner;
    struct sqs_request request;
    struct sqs_error error;
    (void)tag;
    if (!sqs_request_find(listing->front, listing->tag, &request)) {
        listing_free(listing);
        return;
    }
    if (!sqs_error_of(&error, listing->urls.failed ? QUEUE_NO_MEMORY : reply->status)) {
        fail(&request, &error);
        listing_free(listing);
        return;
    }
    /* Beyond a full page, topics of other parts of the queue may be missing. */
    size_t at = queue_topics_after(reply->topics, reply->topic_count,
                                   slice_make(listing->after, listing->after_bytes));
    size_t end = reply->topic_count - at < LIST_PAGE ? reply->topic_count : at + LIST_PAGE;
    struct slice prefix = sqs_text(&request, sqs_member(request.fields, "QueueNamePrefix"));
    bool is_full = false;
    for (size_t i = at; i < end && !is_full; i++)
        if (is_listed(&request, &reply->topics[i], prefix))
            is_full = !listing_add(listing, &request, reply->topics[i].name);
    if (is_full || end - at < LIST_PAGE || !request.exchange->connection) {
        listing_answer(listing, &request);
        return;
    }
    listing->after_bytes = reply->topics[end - 1].name.len;
    memcpy(listing->after, reply->topics[end - 1].name.at, listing->after_bytes);
    listing_read(listing);
}

static void listing_read(struct listing *listing)
{
    queue_topics_page(
        listing->front->queue,
        (struct queue_topics_page){.after = slice_make(listing->after, listing->after_bytes),
                                   .limit = LIST_PAGE},
        (struct queue_reply_to){.done = on_listed, .owner = listing});
}

static void list_queues(struct sqs_request *request, const struct queue_topic *topic)
{
    struct json_value token = sqs_member(request->fields, "NextToken");
    struct sqs_error error = {0};
    struct listing *listing = calloc(1, sizeof *listing);
    (void)topic;
    if (!listing)
        (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
    else if (sqs_number(sqs_member(request->fields, "MaxResults"), "MaxResults", 1, LIST_MAX,
                        LIST_MAX, &listing->most, &error) &&
             token.kind == JSON_STRING && token.raw.len - 2 > sizeof listing->after)
        (void)sqs_error_set(&error, SQS_BAD_VALUE, "The parameter NextToken is invalid.");
    if (error.fault) {
        free(listing);
        fail(request, &error);
        return;
    }
    listing->front = request->exchange->front;
    listing->tag = http_exchange_tag(request->exchange);
    buffer_init(&listing->urls, LIST_BYTES_MAX);
    /* Names with the prefix sort after the prefix without its last byte. */
    struct slice prefix = sqs_text(request, sqs_member(request->fields, "QueueNamePrefix"));
    struct slice after = slice_make(prefix.at, prefix.len ? prefix.len - 1 : 0);
    if (token.kind == JSON_STRING)
        after = slice_make(token.raw.at + 1, token.raw.len - 2);
    if (after.len <= sizeof listing->after)
        listing->after_bytes = after.len;
    if (listing->after_bytes)
        memcpy(listing->after, after.at, after.len);
    listing_read(listing);
}

/* ---- the table ---- */

static const char no_permissions[] =
    "This server has no permissions of queues: its tokens contain the rights";

const struct sqs_operation sqs_queue_operations[] = {
    {"CreateQueue", SQS_NAMES_NEW, ACCESS_ADMIN, create_queue, NULL, NULL,
     "topic settings changed"},
    {"GetQueueUrl", SQS_NAMES_NAME, ACCESS_SCOPES_ALL, get_url, NULL, NULL, NULL},
    {"GetQueueAttributes", SQS_NAMES_URL, ACCESS_READ | ACCESS_CONSUME, get_attributes, NULL, NULL,
     NULL},
    {"SetQueueAttributes", SQS_NAMES_URL, ACCESS_ADMIN, set_attributes, NULL, NULL,
     "topic settings changed"},
    {"ListQueues", SQS_NAMES_NOTHING, ACCESS_READ, list_queues, NULL, NULL, NULL},
    {"DeleteQueue", SQS_NAMES_URL, ACCESS_ADMIN, delete_queue, NULL, NULL, "topic deleted"},
    {"PurgeQueue", SQS_NAMES_URL, ACCESS_ADMIN, purge_queue, NULL, NULL, "topic purged"},
    {"TagQueue", SQS_NAMES_URL, ACCESS_ADMIN, change_tags, NULL, NULL, "topic settings changed"},
    {"UntagQueue", SQS_NAMES_URL, ACCESS_ADMIN, change_tags, NULL, NULL, "topic settings changed"},
    {"ListQueueTags", SQS_NAMES_URL, ACCESS_READ, list_tags, NULL, NULL, NULL},
    {"ListDeadLetterSourceQueues", SQS_NAMES_URL, ACCESS_READ, list_queues, NULL, NULL, NULL},
    {"AddPermission", SQS_NAMES_URL, ACCESS_ADMIN, NULL, NULL, no_permissions,
     "topic settings changed"},
    {"RemovePermission", SQS_NAMES_URL, ACCESS_ADMIN, NULL, NULL, no_permissions,
     "topic settings changed"},
    {0},
};
