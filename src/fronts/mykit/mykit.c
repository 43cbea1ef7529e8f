#include "mykit/mykit.h"

#include "base/json_write.h"
#include "base/text.h"
#include "base/url.h"
#include "http/connection.h"
#include "http/unsent.h"
#include "queue/locate.h"
#include "queue/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STATUS_NEW = 0, /* status of a pushed job; jobs pushed with another status are already done */
    STATUS_RESTORED = 5,
    STATUS_READY = 2,
    TOPICS_MAX = 16, /* topics that are searched for a job of one id */
    TOPIC_PAGE = 100,
    MESSAGE_BYTES = 512,
    WAIT_MS = 10000, /* default timeout of a take */
    WAIT_BYTES = 1024,
    FRAME_BYTES = 256 /* more than an answer has around its data */
};

/* Messages of the original: "this function is not open yet" and "there is no such job". */
static const char not_open[] = "功能暂未开放", no_such_job[] = "Job不存在!";

static const struct mykit_options *options_of(const struct http_exchange *exchange)
{
    return exchange->route->about;
}

/* ---- answers ---- */

/* Answers the call. `data` is JSON or empty; `message` may be NULL. */
static void answer(struct http_exchange *exchange, bool success, struct slice data,
                   const char *message)
{
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body,
                       success ? "{\"success\":true,\"data\":" : "{\"success\":false,\"data\":");
    buffer_append_slice(body, data.len ? data : slice_of("null"));
    buffer_append_text(body, success ? ",\"code\":200,\"message\":" : ",\"code\":500,\"message\":");
    if (message)
        json_write_string(body, slice_of(message));
    else
        buffer_append_text(body, "null");
    buffer_append_text(
        body, ",\"includes\":null,\"excludes\":null,\"onlyData\":false,\"callback\":null}");
    http_answer_end(exchange, 200, "application/json;charset=UTF-8");
}

static void answer_ok(struct http_exchange *exchange)
{
    answer(exchange, true, (struct slice){0}, NULL);
}

static void answer_error(struct http_exchange *exchange, const char *message)
{
    answer(exchange, false, (struct slice){0}, message);
}

static void answer_text(struct http_exchange *exchange, struct slice text)
{
    struct buffer json;
    buffer_init(&json, 8 * text.len + 64);
    json_write_string(&json, text);
    answer(exchange, true, buffer_slice(&json), NULL);
    buffer_fini(&json);
}

static void answer_status(struct http_exchange *exchange, enum queue_status status,
                          const char *detail)
{
    char message[MESSAGE_BYTES];
    (void)snprintf(message, sizeof message, "bad '%s', a job must be due within 10 years",
                   detail ? detail : "");
    answer_error(exchange, status == QUEUE_BAD_OPTION ? message : queue_status_sentence(status));
}

/* ---- calls ---- */

/* Returns whether a page in a browser makes the request. Some requests of a page, such as images
 * and frames of a server without TLS, do not name their origin. But a browser's User-Agent contains
 * Mozilla, which no page can change, or the request accepts an image or a page. */
static bool is_of_page(const struct http_request *request)
{
    static const char java[] =
        "text/html, image/gif, image/jpeg, *"; /* Accept of Java's HttpURLConnection */
    struct slice accept = request->accept;
    bool is_java = accept.len >= sizeof java - 1 && memcmp(accept.at, java, sizeof java - 1) == 0;
    return request->has_origin || request->has_fetch_site ||
           http_request_field(request, "referer").at ||
           http_begins(http_request_field(request, "user-agent"), "mozilla/") ||
           http_begins(accept, "image/") || (http_begins(accept, "text/html") && !is_java);
}

/* Returns whether the call may be made, and answers it if not. Calls on other listeners are not
 * found. Since GET requests change data here, requests of browser pages are refused. */
static bool may_call(struct http_call *call)
{
    const struct http_request *request = call->request;
    struct http_exchange *exchange = call->exchange;
    if (exchange->connection->listener->about->options.protocol != options_of(exchange)->protocol) {
        http_answer_problem(
            exchange, PROBLEM_NO_SUCH_PATH, 0,
            "unknown path '%s'; the calls of mykit-delay are at the address of --mykit",
            http_quotable(request->path, 80));
        return false;
    }
    if (is_of_page(request)) {
        http_answer_problem(
            exchange, PROBLEM_CROSS_SITE, 0,
            "a page in a browser made this call: calls of mykit-delay are for programs");
        return false;
    }
    return true;
}

/* Returns a parameter of the query, unescaped into the front's arena, or an empty slice. */
static struct slice query_value(const struct http_call *call, const char *wanted)
{
    struct slice query = call->request->query, name, value;
    struct buffer *arena = &call->front->arena;
    bool has_value;
    buffer_clear(arena);
    while (url_next_pair(&query, &name, &value, &has_value)) {
        if (!has_value || !slice_is(name, wanted))
            continue;
        if (!text_percent_decode(value, true, arena))
            break;
        return buffer_slice(arena);
    }
    return (struct slice){0};
}

/* ---- push ---- */

struct push_fields {
    struct slice topic, id, biz_key, subtopic, body;
    int64_t delay_ms, created_ms, status, priority;
    bool has_created, has_priority;
};

/* Reads a string, or a number as its digits, as the original's JSON reader does. null is read as an
 * empty string. */
static bool read_text(struct json_value value, struct buffer *scratch, struct slice *out)
{
    if (value.kind == JSON_STRING)
        return json_string_bytes(value.raw, scratch, out);
    *out = value.kind == JSON_NUMBER ? value.raw : (struct slice){0};
    return value.kind == JSON_NUMBER || value.kind == JSON_NULL;
}

static bool read_number(struct json_value value, struct buffer *scratch, int64_t *out)
{
    struct slice text;
    if (value.kind == JSON_NULL)
        return true;
    return read_text(value, scratch, &text) && json_number_i64(text, out);
}

/* Reads the members of a push; like the original, ignores unknown members. Returns NULL, or the
 * name of the member that cannot be read. */
static const char *read_push(struct json_value object, struct buffer *scratch,
                             struct push_fields *out)
{
    const struct {
        const char *name;
        struct slice *text;
        int64_t *number;
    } members[] = {
        {"topic", &out->topic, NULL},
        {"id", &out->id, NULL},
        {"bizKey", &out->biz_key, NULL},
        {"subtopic", &out->subtopic, NULL},
        {"body", &out->body, NULL},
        {"delay", NULL, &out->delay_ms},
        {"createTime", NULL, &out->created_ms},
        {"status", NULL, &out->status},
        {"priority", NULL, &out->priority},
    };
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (json_next_member(object, &cursor, &key, &value))
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
            if (!json_string_is(key, members[i].name))
                continue;
            if (members[i].text ? !read_text(value, scratch, members[i].text)
                                : !read_number(value, scratch, members[i].number))
                return members[i].name;
            bool has_number = members[i].number && value.kind != JSON_NULL;
            out->has_created |= has_number && members[i].number == &out->created_ms;
            out->has_priority |= has_number && members[i].number == &out->priority;
        }
    return NULL;
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK)
        answer_status(exchange, reply->status, NULL);
    else if (!queue_status_is_success(reply->results[0].status))
        answer_status(exchange, reply->results[0].status, reply->results[0].detail);
    else
        answer_text(exchange, reply->results[0].id);
}

static bool add_meta(struct buffer *meta, const char *name, struct slice value)
{
    return value.len == 0 || job_meta_add(meta, slice_of(name), value) == JOB_META_OK;
}

/* Returns when the job is due. The delay counts from the creation of the job. */
static struct queue_when when_of(const struct push_fields *fields)
{
    if (!fields->has_created)
        return (struct queue_when){QUEUE_DUE_DELAY, fields->delay_ms > 0 ? fields->delay_ms : 0};
    int64_t due_ms;
    if (__builtin_add_overflow(fields->created_ms, fields->delay_ms, &due_ms))
        due_ms = fields->delay_ms > 0 ? INT64_MAX : 0;
    return (struct queue_when){QUEUE_DUE_AT, due_ms > 0 ? due_ms : 0};
}

static void submit_push(struct http_call *call, const struct push_fields *fields)
{
    struct http_front *front = call->front;
    struct http_fault fault;
    const struct queue_push push = {.topic = fields->topic,
                                    .id = fields->id,
                                    .content_type = slice_of("text/plain"),
                                    .meta = buffer_slice(&front->meta),
                                    .body = fields->body,
                                    .when = when_of(fields),
                                    .priority = fields->has_priority ? (int32_t)fields->priority
                                                                     : QUEUE_PRIORITY_UNSET,
                                    .on_conflict = CONFLICT_REPLACE};
    if (http_gate_allows(front, call->caller, call->exchange->route, push.topic, &fault))
        queue_push(front->queue, &push, 1, http_reply_to(call, on_pushed));
    else
        http_answer_fault(call->exchange, &fault);
}

static void push_job(struct http_call *call)
{
    struct push_fields fields = {0};
    struct json_value object;
    struct buffer *arena = &call->front->arena, *meta = &call->front->meta;
    const char *bad;
    char message[MESSAGE_BYTES];
    if (!may_call(call))
        return;
    buffer_clear(arena);
    buffer_clear(meta);
    if (!json_check(call->request->body, &object, NULL) || object.kind != JSON_OBJECT) {
        answer_error(call->exchange, "the body is not a JSON object, send a job as one");
    } else if (!buffer_reserve(arena, call->request->body.len + 1)) {
        answer_status(call->exchange, QUEUE_NO_MEMORY, NULL);
    } else if ((bad = read_push(object, arena, &fields))) {
        (void)snprintf(message, sizeof message, "bad '%s', see docs/moving/mykit-delay.md", bad);
        answer_error(call->exchange, message);
    } else if (fields.topic.len == 0) {
        answer_error(call->exchange, "参数topic错误");
    } else if (fields.status != STATUS_NEW && fields.status != STATUS_RESTORED) {
        answer_error(call->exchange, "bad 'status', a pushed job has 0 or 5");
    } else if (!job_limit_holds(LIMIT_PRIORITY, fields.priority)) {
        (void)snprintf(message, sizeof message, "bad 'priority', give %s",
                       job_limits[LIMIT_PRIORITY].values);
        answer_error(call->exchange, message);
    } else if (!add_meta(meta, "bizkey", fields.biz_key) ||
               !add_meta(meta, "subtopic", fields.subtopic)) {
        answer_error(call->exchange, "bad 'bizKey' or 'subtopic', each is text of at most 1024 "
                                     "bytes without control characters");
    } else {
        submit_push(call, &fields);
    }
}

/* ---- calls about an id ---- */

/* The topics in which an id was found. */
struct id_call {
    struct http_front *front;
    char id[JOB_ID_BYTES_MAX];
    size_t id_bytes, count;
    struct found_job {
        char topic[JOB_TOPIC_BYTES_MAX];
        size_t topic_bytes;
        enum job_state state;
    } found[TOPICS_MAX];
    void (*act)(struct http_exchange *exchange, const struct id_call *call);
};

static struct slice topic_of(const struct found_job *found)
{
    return slice_make(found->topic, found->topic_bytes);
}

static bool id_looks_at(void *owner, uint64_t tag, struct slice topic)
{
    const struct id_call *call = owner;
    const struct http_exchange *exchange = http_exchange_find(call->front, tag);
    return exchange && access_may(exchange->caller, exchange->route->scope, topic);
}

static void id_on_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct id_call *call = owner;
    struct found_job *found = &call->found[call->count];
    (void)tag;
    if (call->count == TOPICS_MAX)
        return;
    memcpy(found->topic, job->job.topic.at, job->job.topic.len);
    found->topic_bytes = job->job.topic.len;
    found->state = job->job.state;
    call->count++;
}

static bool id_is_wanted(void *owner, uint64_t tag)
{
    const struct id_call *call = owner;
    return http_exchange_is_wanted(call->front, tag);
}

static void id_on_done(void *owner, uint64_t tag, const struct locate_result *result)
{
    struct id_call *call = owner;
    struct http_exchange *exchange = http_exchange_find(call->front, tag);
    if (exchange && result->status != QUEUE_OK)
        answer_status(exchange, result->status, NULL);
    else if (exchange)
        call->act(exchange, call);
    free(call);
}

/* Finds the jobs of the id, then calls the action. The original documents the id as `jobId`, as
 * `id` and as a part of the path. */
static void find_id(struct http_call *http,
                    void (*act)(struct http_exchange *exchange, const struct id_call *call))
{
    struct http_exchange *exchange = http->exchange;
    if (!may_call(http))
        return;
    struct slice id = http->id;
    if (id.len == 0)
        id = query_value(http, "jobId");
    if (id.len == 0)
        id = query_value(http, "id");
    if (id.len == 0) {
        answer_error(exchange, "JobId 不能为空");
        return;
    }
    struct id_call *call = job_id_is_valid(id) ? calloc(1, sizeof *call) : NULL;
    if (!call) {
        answer_status(exchange, job_id_is_valid(id) ? QUEUE_NO_MEMORY : QUEUE_BAD_ID, NULL);
        return;
    }
    call->front = http->front;
    call->act = act;
    memcpy(call->id, id.at, id.len);
    call->id_bytes = id.len;
    http_gate_keep(exchange, http->caller);
    const struct locate_listener listener = {.looks_at = id_looks_at,
                                             .found = id_on_found,
                                             .wanted = id_is_wanted,
                                             .done = id_on_done,
                                             .owner = call,
                                             .tag = http_exchange_tag(exchange)};
    if (locate_start(http->front->queue, id, TOPICS_MAX, &listener))
        return;
    free(call);
    answer_status(exchange, QUEUE_NO_MEMORY, NULL);
}

/* Answers a delete. A job that disappeared in the meantime counts as deleted. */
static void on_deleted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    enum queue_status status = reply->status;
    for (size_t i = 0; i < reply->result_count && status == QUEUE_OK; i++)
        if (!queue_status_is_success(reply->results[i].status) &&
            reply->results[i].status != QUEUE_REQUESTED &&
            reply->results[i].status != QUEUE_NOT_FOUND)
            status = reply->results[i].status;
    if (exchange && status == QUEUE_OK)
        answer_ok(exchange);
    else if (exchange)
        answer_status(exchange, status, NULL);
}

/* Cancels the jobs found. For a leased job the cancel is requested: an ack still completes it; any
 * other end of its lease cancels it. */
static void act_delete(struct http_exchange *exchange, const struct id_call *call)
{
    struct queue_change changes[TOPICS_MAX];
    if (call->count == 0) {
        answer_ok(exchange);
        return;
    }
    for (size_t i = 0; i < call->count; i++)
        changes[i] = (struct queue_change){.verb = QUEUE_CANCEL,
                                           .topic = topic_of(&call->found[i]),
                                           .id = slice_make(call->id, call->id_bytes),
                                           .request = true};
    queue_change(exchange->front->queue, changes, call->count,
                 http_exchange_reply_to(exchange, on_deleted));
}

static void delete_job(struct http_call *call)
{
    find_id(call, act_delete);
}

static void on_restored(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (exchange && reply->status == QUEUE_OK)
        answer_ok(exchange);
    else if (exchange)
        answer_status(exchange, reply->status, NULL);
}

/* Redrives dead jobs. A waiting or leased job needs no change. */
static void act_restore(struct http_exchange *exchange, const struct id_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                                 .topic = topic_of(&call->found[i]),
                                                 .id = slice_make(call->id, call->id_bytes)};
        if (call->found[i].state != JOB_DEAD)
            continue;
        queue_topic(exchange->front->queue, &redrive,
                    http_exchange_reply_to(exchange, on_restored));
        return;
    }
    if (call->count)
        answer_ok(exchange);
    else
        answer_error(exchange, no_such_job);
}

static void restore_job(struct http_call *call)
{
    find_id(call, act_restore);
}

/* ---- calls that need no queue ---- */

static void finish_job(struct http_call *call)
{
    if (may_call(call))
        answer_error(call->exchange, not_open);
}

/* Answers with success: no job was lost, so there is nothing to restore. */
static void restore_all(struct http_call *call)
{
    if (may_call(call))
        answer_text(call->exchange, slice_of("花费了0 ms，恢复 0 行数据"));
}

/* ---- clearAll ---- */

/* A clearAll in progress, which visits the topics in order of name. */
struct clearing {
    struct http_front *front;
    uint64_t tag, jobs;
    int64_t began_ms;
    struct buffer names; /* topic names of a page, each preceded by its length in one byte */
    size_t at;
    char last[JOB_TOPIC_BYTES_MAX];
    size_t last_bytes;
};

static void clear_next(struct clearing *clearing);

static void clear_end(struct clearing *clearing, enum queue_status status)
{
    struct http_exchange *exchange = http_exchange_find(clearing->front, clearing->tag);
    char text[128];
    if (exchange && status != QUEUE_OK) {
        answer_status(exchange, status, NULL);
    } else if (exchange) {
        int len = snprintf(text, sizeof text, "花费了%" PRId64 " ms，删除 %" PRIu64 " 行数据",
                           clock_wall_ms() - clearing->began_ms, clearing->jobs);
        answer_text(exchange, slice_make(text, (size_t)len));
    }
    buffer_fini(&clearing->names);
    free(clearing);
}

static void on_purged(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct clearing *clearing = owner;
    (void)tag;
    clearing->jobs += reply->affected;
    if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        clear_next(clearing);
    else
        clear_end(clearing, reply->status);
}

/* Collects the topics of a page, except tarry's internal topics, which hold pending work. */
static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct clearing *clearing = owner;
    (void)tag;
    if (reply->status != QUEUE_OK || reply->topic_count == 0) {
        clear_end(clearing, reply->status);
        return;
    }
    buffer_clear(&clearing->names);
    clearing->at = 0;
    for (size_t i = 0; i < reply->topic_count; i++) {
        struct slice name = reply->topics[i].name;
        memcpy(clearing->last, name.at, name.len);
        clearing->last_bytes = name.len;
        if (job_topic_is_own(name))
            continue;
        buffer_append_byte(&clearing->names, (char)name.len);
        buffer_append_slice(&clearing->names, name);
    }
    if (clearing->names.failed)
        clear_end(clearing, QUEUE_NO_MEMORY);
    else
        clear_next(clearing);
}

static void clear_next(struct clearing *clearing)
{
    struct queue *queue = clearing->front->queue;
    if (clearing->at < clearing->names.len) {
        size_t len = (unsigned char)clearing->names.at[clearing->at];
        const struct queue_topic_call purge = {
            .verb = QUEUE_TOPIC_PURGE,
            .topic = slice_make(clearing->names.at + clearing->at + 1, len)};
        struct http_exchange *exchange = http_exchange_find(clearing->front, clearing->tag);
        clearing->at += 1 + len;
        queue_topic(
            queue, &purge,
            (struct queue_reply_to){.done = on_purged,
                                    .owner = clearing,
                                    .caller = exchange ? http_exchange_caller(exchange) : NULL});
        return;
    }
    queue_topics_page(
        queue,
        (struct queue_topics_page){slice_make(clearing->last, clearing->last_bytes), TOPIC_PAGE},
        (struct queue_reply_to){.done = on_topics, .owner = clearing});
}

static void clear_all(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    if (!may_call(call))
        return;
    if (!options_of(exchange)->clears) {
        answer_error(exchange, "clearAll is off, start the server with --mykit-clear");
        return;
    }
    struct clearing *clearing = calloc(1, sizeof *clearing);
    if (!clearing) {
        answer_status(exchange, QUEUE_NO_MEMORY, NULL);
        return;
    }
    http_gate_keep(exchange, call->caller);
    clearing->front = call->front;
    clearing->tag = http_exchange_tag(exchange);
    clearing->began_ms = clock_wall_ms();
    buffer_init(&clearing->names, TOPIC_PAGE * (JOB_TOPIC_BYTES_MAX + 1));
    clear_next(clearing);
}

/* ---- get/topic ---- */

static void write_text(struct buffer *out, const char *key, struct slice text)
{
    json_write_member(out, key);
    if (text.len)
        json_write_string(out, text);
    else
        buffer_append_text(out, "null");
}

/* Writes a job as the original does. The original delay is not stored, so the delay counts from the
 * due time. */
static void write_job(struct buffer *out, const struct job *job)
{
    buffer_append_byte(out, '{');
    write_text(out, "id", job->id);
    write_text(out, "bizKey", job_meta_find(job->meta, slice_of("bizkey")));
    write_text(out, "topic", job->topic);
    write_text(out, "subtopic", job_meta_find(job->meta, slice_of("subtopic")));
    buffer_append_format(out, ",\"delay\":0,\"createTime\":%" PRId64 ",\"status\":%d,\"ttl\":0",
                         job->due_ms, STATUS_READY);
    json_write_member(out, "body");
    json_write_string(out, job->body);
    buffer_append_byte(out, '}');
}

/* Answers with the job, which is leased to the caller. Returns 0 if there is no memory for the
 * answer. If the response cannot be delivered the job goes back. */
static size_t answer_job(struct http_exchange *exchange, const struct queue_job *taken)
{
    struct buffer json;
    buffer_init(&json, 8 * (taken->job.body.len + taken->job.meta.len) + 4096);
    write_job(&json, &taken->job);
    bool has_memory = http_budget_has(exchange->front, json.len + FRAME_BYTES);
    bool good = has_memory && !json.failed && http_lease_note(exchange, taken, 1);
    if (!has_memory) {
        struct http_fault fault;
        http_budget_refuse(exchange->front, &fault);
        http_answer_fault(exchange, &fault);
    } else if (good) {
        answer(exchange, true, buffer_slice(&json), NULL);
    } else {
        answer_status(exchange, QUEUE_NO_MEMORY, NULL);
    }
    buffer_fini(&json);
    return good;
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct http_front *front = owner;
    struct http_exchange *exchange = http_exchange_find(front, tag);
    size_t used = 0;
    (void)refused;
    if (exchange)
        exchange->waiter = 0;
    if (exchange && exchange->caller && !http_gate_holds(exchange))
        http_gate_refuse_ended(exchange);
    else if (exchange && reply->status != QUEUE_OK)
        answer_status(exchange, reply->status, NULL);
    else if (exchange && reply->job_count)
        used = answer_job(exchange, &reply->jobs[0]);
    else if (exchange)
        answer_ok(exchange);
    for (size_t i = used; i < reply->job_count; i++)
        http_lease_return(front, &reply->jobs[i].lease, 1);
}

/* Returns how long the call waits for a job; 0 if the call may not wait. */
static int64_t wait_of(const struct http_call *call)
{
    bool is_given = http_fields_have(&call->query->fields, OPTION_WAIT);
    int64_t wait_ms = is_given ? call->query->fields.wait_ms : WAIT_MS;
    return http_budget_is_spent(call->front) || call->exchange->connection->socket.peer_ended
               ? 0
               : wait_ms;
}

static void get_topic(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    struct http_front *front = call->front;
    struct http_fault fault;
    struct queue_take take = {
        .topics = call->query->topics, .topic_count = 1, .max = 1, .way = JOB_WAY_TAKE};
    if (!may_call(call))
        return;
    if (call->query->topic_count != 1) {
        answer_error(exchange, "参数topic错误");
        return;
    }
    if (!http_gate_allows(front, call->caller, exchange->route, take.topics[0], &fault)) {
        http_answer_fault(exchange, &fault);
        return;
    }
    int64_t wait_ms = wait_of(call), now_ms = http_front_now_ms(front);
    if (wait_ms && !http_quota_wait(exchange, &fault)) {
        http_answer_fault(exchange, &fault);
        return;
    }
    if (wait_ms) {
        wait_ms++; /* rounds a started millisecond up */
        http_gate_wait(exchange, call->caller, WAIT_BYTES);
    }
    exchange->waiter = waiter_take(front->waiters, &take, wait_ms, now_ms, on_taken, front,
                                   http_exchange_tag(exchange));
    if (!exchange->waiter)
        answer_status(exchange, QUEUE_NO_MEMORY, NULL);
    else if (wait_ms)
        http_front_wake_by(front, now_ms + wait_ms);
}

/* ---- the table ---- */

#define CALL(METHOD, PATTERN, HANDLE, SCOPE, TOPICS)                                               \
    .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = "mykit", .handle = (HANDLE),     \
    .scope = (SCOPE), .topics = HTTP_TOPICS_##TOPICS

static const struct http_route mykit_routes[] = {
    {CALL(POST, "/push", push_job, ACCESS_PUSH, EACH), .body = HTTP_BODY_BATCH,
     .options = OPTION_BIT(OPTION_FOREIGN)},
    {CALL(GET, "/delete", delete_job, ACCESS_PUSH, SHOWN), .options = OPTION_BIT(OPTION_FOREIGN),
     .answer = HTTP_ANSWER_LONG},
    {CALL(GET, "/finish", finish_job, ACCESS_PUSH, SHOWN), .options = OPTION_BIT(OPTION_FOREIGN)},
    {CALL(GET, "/reStoreJob", restore_job, ACCESS_ADMIN, SHOWN),
     .options = OPTION_BIT(OPTION_FOREIGN), .answer = HTTP_ANSWER_LONG, .audit = "topic redriven"},
    {CALL(GET, "/reStore/{id}", restore_job, ACCESS_ADMIN, SHOWN),
     .options = OPTION_BIT(OPTION_FOREIGN), .answer = HTTP_ANSWER_LONG, .audit = "topic redriven"},
    {CALL(GET, "/reStore", restore_all, ACCESS_PUSH, SHOWN), .options = OPTION_BIT(OPTION_FOREIGN)},
    {CALL(GET, "/clearAll", clear_all, ACCESS_ADMIN, ALL), .options = OPTION_BIT(OPTION_FOREIGN),
     .audit = "topic purged"},
    {CALL(GET, "/get/topic", get_topic, ACCESS_CONSUME, EACH),
     .options = OPTION_BIT(OPTION_FOREIGN) | OPTION_BIT(OPTION_TOPIC) | OPTION_BIT(OPTION_WAIT),
     .answer = HTTP_ANSWER_TAKE},
    {0},
};

void mykit_add(struct http_shared *shared, const struct mykit_options *options)
{
    http_shared_add_routes(shared, mykit_routes, options);
}
