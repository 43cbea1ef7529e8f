/* get, list, topics: calls that only look. */
#include "redis/command.h"
#include "redis/id.h"
#include "redis/private.h"

#include "queue/cursor.h"

#include <stdlib.h>

enum { LIST_ELEMENTS = 4, TOPIC_ELEMENTS = 2, TOPICS_PAGE = 500 };

/* ---- get ---- */

struct getting {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    size_t topic_bytes, id_bytes;
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
};

/* Of get and list: status first, then a byte more. */
static enum queue_status read_status(const struct redis_head *head, uint8_t *more)
{
    struct slice rest = head->rest;
    uint8_t status;
    if (!redis_unpack_u8(&rest, &status) || !redis_unpack_u8(&rest, more) ||
        (status != QUEUE_OK && status != QUEUE_NOT_FOUND))
        return QUEUE_UNAVAILABLE;
    return (enum queue_status)status;
}

static enum queue_status read_got(struct getting *getting, const struct redis_head *head,
                                  const redisReply *reply, struct queue_job *out)
{
    struct slice record, attempt;
    uint8_t state;
    enum queue_status status = read_status(head, &state);
    if (status != QUEUE_OK)
        return status;
    if (!redis_element(reply, 1, &record) || !redis_element(reply, 2, &attempt) ||
        !redis_unpack_job(record, attempt, (enum job_state)state, head->adjust_ms, &out->job))
        return QUEUE_UNAVAILABLE;
    out->job.topic = slice_make(getting->topic, getting->topic_bytes);
    out->job.id = slice_make(getting->id, getting->id_bytes);
    return QUEUE_OK;
}

static void on_got(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                   const redisReply *reply)
{
    struct getting *getting = list_entry(call, struct getting, call);
    struct queue_job job = {0};
    struct queue_reply answer = {.status = redis_shard_status(end)};
    if (end == REDIS_CALL_OK) {
        redis_shard_hear(getting->shard, head);
        answer.status = read_got(getting, head, reply, &job);
        if (answer.status == QUEUE_OK) {
            answer.jobs = &job;
            answer.job_count = 1;
        } else if (answer.status != QUEUE_NOT_FOUND) {
            redis_shard_say_malformed(getting->shard, REDIS_GET);
        }
    }
    redis_shard_reply(getting->shard, getting->reply_to, &answer);
    buffer_fini(&call->args);
    free(getting);
}

static bool get_begin(struct redis_shard *shard, struct slice topic, struct slice id,
                      struct queue_reply_to reply_to)
{
    struct getting *getting = calloc(1, sizeof *getting);
    char room[REDIS_ID_PACKED_BYTES];
    if (!getting)
        return false;
    getting->shard = shard;
    getting->reply_to = reply_to;
    getting->topic_bytes = topic.len;
    getting->id_bytes = id.len;
    memcpy(getting->topic, topic.at, topic.len);
    memcpy(getting->id, id.at, id.len);
    redis_shard_call_init(&getting->call, REDIS_GET, false, on_got);
    redis_command_arg(&getting->call.args, topic);
    redis_command_arg(&getting->call.args, redis_id_store(id, room));
    if (redis_shard_send(shard, &getting->call, 2))
        return true;
    buffer_fini(&getting->call.args);
    free(getting);
    return false;
}

/* OK, or why a call that only looks is not made. */
static enum queue_status look_status(const struct redis_shard *shard, const struct command *command)
{
    return shard->stopping ? QUEUE_STOPPING : command->status;
}

void redis_get(struct redis_shard *shard, const struct command *command,
               struct queue_reply_to reply_to)
{
    enum queue_status status = look_status(shard, command);
    if (status != QUEUE_OK)
        redis_shard_refuse(shard, status, reply_to);
    else if (get_begin(shard, command->get.topic, command->get.id, reply_to))
        shard->calls++;
    else
        redis_shard_refuse(shard, QUEUE_NO_MEMORY, reply_to);
}

/* ---- list ---- */

struct listing {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    size_t topic_bytes;
    char topic[JOB_TOPIC_BYTES_MAX];
};

static bool read_listed(struct listing *listing, const struct redis_head *head,
                        const redisReply *reply, size_t at, struct queue_job *out,
                        char room[REDIS_ID_ROOM_BYTES])
{
    struct slice stored, state, record, attempt, id;
    uint8_t number;
    *out = (struct queue_job){0};
    if (!redis_element(reply, at, &stored) || !redis_element(reply, at + 1, &state) ||
        !redis_element(reply, at + 2, &record) || !redis_element(reply, at + 3, &attempt) ||
        !redis_unpack_u8(&state, &number) || !redis_id_show(stored, room, &id) ||
        !redis_unpack_job(record, attempt, (enum job_state)number, head->adjust_ms, &out->job))
        return false;
    out->job.topic = slice_make(listing->topic, listing->topic_bytes);
    out->job.id = id;
    return true;
}

static void reply_listed(struct listing *listing, const struct redis_head *head,
                         const redisReply *reply, bool more)
{
    size_t count = (reply->elements - 1) / LIST_ELEMENTS;
    struct queue_job *jobs = malloc((count + 1) * sizeof *jobs);
    char(*rooms)[REDIS_ID_ROOM_BYTES] = malloc((count + 1) * sizeof *rooms);
    char cursor[QUEUE_CURSOR_BYTES_MAX];
    struct queue_reply answer = {.status = jobs && rooms ? QUEUE_OK : QUEUE_NO_MEMORY};
    for (size_t i = 0; jobs && rooms && i < count; i++) {
        if (read_listed(listing, head, reply, 1 + i * LIST_ELEMENTS, &jobs[answer.job_count],
                        rooms[i]))
            answer.job_count++;
        else
            redis_shard_say_malformed(listing->shard, REDIS_LIST);
    }
    if (answer.job_count) {
        const struct job *last = &jobs[answer.job_count - 1].job;
        struct queue_cursor at = {last->due_ms, last->sequence, listing->shard->options.index};
        answer.jobs = jobs;
        if (more)
            answer.cursor = slice_make(cursor, queue_cursor_write(cursor, &at));
    }
    redis_shard_reply(listing->shard, listing->reply_to, &answer);
    free(jobs);
    free(rooms);
}

static void on_listed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct listing *listing = list_entry(call, struct listing, call);
    enum queue_status status = redis_shard_status(end);
    uint8_t more = 0;
    if (end == REDIS_CALL_OK) {
        redis_shard_hear(listing->shard, head);
        status = read_status(head, &more);
    }
    if (status == QUEUE_OK)
        reply_listed(listing, head, reply, more);
    else
        redis_shard_reply_status(listing->shard, listing->reply_to, status);
    buffer_fini(&call->args);
    free(listing);
}

/* Behind a job of a part with a lower number comes ours with the same due and sequence. */
static void put_cursor(struct redis_shard *shard, struct buffer *args,
                       const struct queue_cursor *after, bool has_cursor)
{
    bool ours_too = has_cursor && shard->options.index > after->shard;
    int64_t due_ms = after->due_ms;
    if (due_ms <= INT64_MAX - (1LL << 48)) /* farther than any job's */
        due_ms += shard->adjust_ms;
    redis_command_number(args, has_cursor ? due_ms : -1);
    redis_command_number(args, (int64_t)(after->sequence & INT64_MAX) - ours_too);
}

static bool list_begin(struct redis_shard *shard, const struct queue_list *list,
                       const struct queue_cursor *after, struct queue_reply_to reply_to)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing)
        return false;
    listing->shard = shard;
    listing->reply_to = reply_to;
    listing->topic_bytes = list->topic.len;
    memcpy(listing->topic, list->topic.at, list->topic.len);
    redis_shard_call_init(&listing->call, REDIS_LIST, false, on_listed);
    struct buffer *args = &listing->call.args;
    redis_command_arg(args, list->topic);
    redis_command_number(args, (int64_t)list->state);
    redis_command_number(args, list->limit);
    put_cursor(shard, args, after, list->cursor.len > 0);
    redis_command_number(args, list->with_body);
    if (redis_shard_send(shard, &listing->call, 6))
        return true;
    buffer_fini(args);
    free(listing);
    return false;
}

void redis_list(struct redis_shard *shard, const struct command *command,
                struct queue_reply_to reply_to)
{
    const struct queue_list *list = &command->list;
    struct queue_cursor after = {0};
    enum queue_status status = look_status(shard, command);
    if (status == QUEUE_OK && list->cursor.len && !queue_cursor_parse(list->cursor, &after))
        status = QUEUE_BAD_CURSOR;
    if (status == QUEUE_OK && !list_begin(shard, list, &after, reply_to))
        status = QUEUE_NO_MEMORY;
    if (status == QUEUE_OK)
        shard->calls++;
    else
        redis_shard_refuse(shard, status, reply_to);
}

/* ---- topics: page after page, then all at once ---- */

struct showing {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    struct queue_topic *topics; /* their names are put in at the end, `names` may move */
    size_t *name_at;
    size_t count, cap;
    struct buffer names;
};

static void showing_free(struct showing *showing)
{
    buffer_fini(&showing->call.args);
    buffer_fini(&showing->names);
    free(showing->topics);
    free(showing->name_at);
    free(showing);
}

static void showing_end(struct showing *showing, enum queue_status status)
{
    struct queue_reply answer = {.status = status};
    if (status == QUEUE_OK) {
        for (size_t i = 0; i < showing->count; i++)
            showing->topics[i].name.at = showing->names.at + showing->name_at[i];
        queue_topics_sort(showing->topics, showing->count);
        answer.topics = showing->topics;
        answer.topic_count = showing->count;
    }
    redis_shard_reply(showing->shard, showing->reply_to, &answer);
    showing_free(showing);
}

static bool has_room(struct showing *showing)
{
    if (showing->count < showing->cap)
        return true;
    size_t cap = showing->cap ? showing->cap * 2 : 64;
    struct queue_topic *topics = realloc(showing->topics, cap * sizeof *topics);
    if (topics)
        showing->topics = topics;
    size_t *name_at = realloc(showing->name_at, cap * sizeof *name_at);
    if (name_at)
        showing->name_at = name_at;
    if (!topics || !name_at)
        return false;
    showing->cap = cap;
    return true;
}

static enum queue_status add_topic(struct showing *showing, const redisReply *reply, size_t at,
                                   int64_t adjust_ms)
{
    struct slice name, text;
    if (!has_room(showing))
        return QUEUE_NO_MEMORY;
    struct queue_topic *topic = &showing->topics[showing->count];
    if (!redis_element(reply, at, &name) || !redis_element(reply, at + 1, &text) || !name.len ||
        !redis_unpack_topic(text, adjust_ms, topic))
        return QUEUE_UNAVAILABLE;
    showing->name_at[showing->count] = showing->names.len;
    topic->name.len = name.len;
    buffer_append_slice(&showing->names, name);
    showing->count++;
    return showing->names.failed ? QUEUE_NO_MEMORY : QUEUE_OK;
}

static void on_shown(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply);

static bool ask_page(struct showing *showing)
{
    struct slice after = {.at = ""};
    if (showing->count) {
        size_t last = showing->count - 1;
        after =
            slice_make(showing->names.at + showing->name_at[last], showing->topics[last].name.len);
    }
    buffer_fini(&showing->call.args);
    redis_shard_call_init(&showing->call, REDIS_TOPICS, false, on_shown);
    redis_command_arg(&showing->call.args, after);
    redis_command_number(&showing->call.args, TOPICS_PAGE);
    return redis_shard_send(showing->shard, &showing->call, 2);
}

static void on_shown(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct showing *showing = list_entry(call, struct showing, call);
    enum queue_status status = redis_shard_status(end);
    size_t before = showing->count;
    uint8_t more = 0;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest;
        redis_shard_hear(showing->shard, head);
        if (!redis_unpack_u8(&rest, &more))
            status = QUEUE_UNAVAILABLE;
        for (size_t at = 1; status == QUEUE_OK && at < reply->elements; at += TOPIC_ELEMENTS)
            status = add_topic(showing, reply, at, head->adjust_ms);
        if (status == QUEUE_UNAVAILABLE)
            redis_shard_say_malformed(showing->shard, REDIS_TOPICS);
    }
    if (status == QUEUE_OK && more && showing->count > before) {
        if (ask_page(showing))
            return;
        status = QUEUE_NO_MEMORY;
    }
    showing_end(showing, status);
}

void redis_topics(struct redis_shard *shard, const struct command *command,
                  struct queue_reply_to reply_to)
{
    (void)command;
    struct showing *showing = shard->stopping ? NULL : calloc(1, sizeof *showing);
    if (!showing) {
        redis_shard_refuse(shard, shard->stopping ? QUEUE_STOPPING : QUEUE_NO_MEMORY, reply_to);
        return;
    }
    showing->shard = shard;
    showing->reply_to = reply_to;
    buffer_init(&showing->names, SIZE_MAX / 2);
    if (ask_page(showing)) {
        shard->calls++;
        return;
    }
    showing_free(showing);
    redis_shard_refuse(shard, QUEUE_NO_MEMORY, reply_to);
}
