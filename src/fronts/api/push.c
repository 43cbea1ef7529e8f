#include "api/push.h"

#include "api/await.h"
#include "api/consumers.h"
#include "api/job_json.h"
#include "api/media.h"
#include "api/routes.h"
#include "api/trace.h"
#include "base/clock.h"
#include "base/json_levels.h"
#include "base/json_write.h"
#include "base/text.h"
#include "http/connection.h"
#include "http/exchange.h"
#include "http/query.h"
#include "http/route.h"
#include "job/json.h"
#include "queue/status.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- options and callback ---- */

void api_fields_push(const struct http_fields *fields, struct queue_push *push)
{
    push->when = http_fields_when(fields, QUEUE_DUE_NOW);
    push->priority = http_fields_have(fields, OPTION_PRIORITY) ? (int32_t)fields->priority
                                                               : QUEUE_PRIORITY_UNSET;
    push->on_conflict = fields->on_conflict;
    push->policy = fields->policy;
    push->once = fields->once;
    push->once_for_ms = fields->once_for_ms;
    push->group = fields->group;
    push->has_keep_finished = http_fields_have(fields, OPTION_KEEP_FINISHED);
    push->keep_finished_ms = fields->keep_finished_ms;
    push->batch = NULL;
    push->past = (struct queue_past){.attempt = fields->attempt,
                                     .dead = fields->state == JOB_DEAD,
                                     .error = text_cut(fields->error, JOB_ERROR_BYTES_MAX)};
}

void api_fields_batch(const struct http_fields *fields, struct queue_push *push,
                      struct queue_batch *room)
{
    if (!(fields->set & OPTIONS_BATCH))
        return;
    *room = fields->batch;
    room->members = (uint32_t)fields->members;
    if (room->waits || fields->set & (OPTIONS_BATCH & ~OPTION_BIT(OPTION_WAITS)))
        push->batch = room;
}

bool api_callback_add(struct buffer *meta, struct slice url, const struct http_hooks *hooks,
                      struct http_fault *fault)
{
    char error[HTTP_HOOK_ERROR_BYTES] = "";
    if (!http_delivery_is_on(hooks))
        return http_delivery_refuse(fault, "a callback");
    if (!hooks->check_callback(hooks->ctx, url, error))
        return http_fault_set(fault, PROBLEM_BAD_CALLBACK, 0, "%s", error);
    switch (job_meta_add(meta, slice_of(JOB_META_CALLBACK), url)) {
    case JOB_META_OK:
        return true;
    case JOB_META_TOO_MUCH:
        return http_fault_set(fault, PROBLEM_BAD_META, JOB_META_BYTES_MAX,
                              "meta and the callback together may hold at most %d pairs and %d "
                              "bytes",
                              JOB_META_PAIRS_MAX, JOB_META_BYTES_MAX);
    default:
        return http_fault_set(fault, PROBLEM_BAD_CALLBACK, HTTP_CALLBACK_BYTES_MAX,
                              "'callback' must be UTF-8 without control characters, at most %d "
                              "bytes",
                              HTTP_CALLBACK_BYTES_MAX);
    }
}

/* ---- one item of a batch ---- */

static bool check_item_fields(const struct http_fields *fields, struct http_fault *fault)
{
    if (http_fields_have(fields, OPTION_STATE) && fields->state != JOB_DEAD)
        return http_fault_set(
            fault, PROBLEM_BAD_OPTION, 0,
            "'state' is '%s' but can only be dead: the other states follow from the due time",
            job_state_name(fields->state));
    return http_fields_check(fields, fault);
}

/* Adds all members of {"name":"value",...}. Unescapes into `scratch`. */
static bool add_meta_object(struct buffer *meta, struct json_value object, struct buffer *scratch,
                            struct http_fault *fault)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key, name, text;
    if (object.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_META, 0, "'meta' must be an object of strings");
    while (json_next_member(object, &cursor, &key, &value)) {
        if (value.kind != JSON_STRING)
            return http_fault_set(fault, PROBLEM_BAD_META, 0,
                                  "the value of meta %s must be a string", http_quotable(key, 64));
        if (!json_string_bytes(key, scratch, &name) ||
            !json_string_bytes(value.raw, scratch, &text))
            return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
        if (!http_meta_add(meta, name, text, fault))
            return false;
    }
    return true;
}

enum member {
    MEMBER_TOPIC = 1,
    MEMBER_ID = 2,
    MEMBER_BODY = 4,
    MEMBER_BODY_BASE64 = 8,
    MEMBER_CONTENT_TYPE = 16,
    MEMBER_META = 32,
    MEMBER_CALLBACK = 64,
    MEMBER_BATCH = 128,
    MEMBER_ENDED = 256
};

struct item {
    struct queue_push *push;
    struct buffer *arena, *meta;
    const struct http_hooks *hooks;
    struct http_fault *fault;
    struct json_value body;
    struct batch_counts ended; /* of the members of its batch */
    bool has_all_ended;
    struct json_value *nested; /* receives an array `members`, or NULL */
    struct http_fields fields;
    uint32_t seen; /* bit set of enum member */
};

static const struct {
    const char *quoted;
    size_t len;
    enum member member;
} members[] = {
#define MEMBER(NAME, BIT)                                                                          \
    {                                                                                              \
        "\"" NAME "\"", sizeof(NAME) + 1, BIT                                                      \
    }
    MEMBER("topic", MEMBER_TOPIC),       MEMBER("id", MEMBER_ID),
    MEMBER("body", MEMBER_BODY),         MEMBER("content_type", MEMBER_CONTENT_TYPE),
    MEMBER("meta", MEMBER_META),         MEMBER("body_base64", MEMBER_BODY_BASE64),
    MEMBER("callback", MEMBER_CALLBACK), MEMBER("batch", MEMBER_BATCH),
    MEMBER("ended", MEMBER_ENDED),
#undef MEMBER
};

static uint32_t member_of(struct slice key)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i].len == key.len && memcmp(members[i].quoted, key.at, key.len) == 0)
            return members[i].member;
    return 0;
}

static bool refuse_item_memory(struct item *item)
{
    return http_fault_set(item->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

static bool read_item_text(struct item *item, struct slice key, struct json_value value,
                           struct slice *out)
{
    if (value.kind != JSON_STRING)
        return http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0, "%s must be a string",
                              http_quotable(key, 40));
    return json_string_bytes(value.raw, item->arena, out) || refuse_item_memory(item);
}

/* Decodes a base64 body in place. The arena has only room for the length of the item, so the
 * unescaped text is overwritten: the output position never passes the input position. */
static bool read_base64(struct item *item, struct slice key, struct json_value value)
{
    struct slice text;
    size_t start = item->arena->len;
    if (!read_item_text(item, key, value, &text))
        return false;
    item->arena->len = start;
    if (!text_base64_decode(text, item->arena))
        return item->arena->failed
                   ? refuse_item_memory(item)
                   : http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                                    "'body_base64' is not base64 (RFC 4648, padded)");
    item->push->body = slice_make(item->arena->at + start, item->arena->len - start);
    return true;
}

/* Reads the pairs into a separate buffer, which detects duplicates. */
static bool read_item_meta(struct item *item, struct json_value value)
{
    size_t start = item->arena->len;
    bool done = add_meta_object(item->meta, value, item->arena, item->fault);
    item->arena->len = start;
    return done;
}

static bool read_item_callback(struct item *item, struct slice key, struct json_value value)
{
    struct slice url;
    size_t start = item->arena->len;
    bool done = read_item_text(item, key, value, &url) &&
                api_callback_add(item->meta, url, item->hooks, item->fault);
    item->arena->len = start;
    return done;
}

/* Copies the pairs to the arena. The stored name of a callback is longer than its member, but an
 * item always has a topic, which leaves enough room. */
static bool keep_item_meta(struct item *item)
{
    size_t start = item->arena->len;
    if (!item->meta->len)
        return true;
    buffer_append_slice(item->arena, buffer_slice(item->meta));
    if (item->arena->failed)
        return refuse_item_memory(item);
    item->push->meta = slice_make(item->arena->at + start, item->arena->len - start);
    return true;
}

/* Reads {"topic":…,"id":…}, the waiting job of the item's batch. */
static bool read_item_batch(struct item *item, struct json_value object)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    struct queue_batch *batch = &item->fields.batch;
    item->fields.set |= OPTION_BIT(OPTION_BATCH_TOPIC) | OPTION_BIT(OPTION_BATCH_ID);
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value)) {
        struct slice *into = slice_is(key, "\"topic\"") ? &batch->topic
                             : slice_is(key, "\"id\"")  ? &batch->id
                                                        : NULL;
        if (!into)
            return http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                                  "'batch' has no member %s, only topic and id",
                                  http_quotable(key, 40));
        if (!read_item_text(item, key, value, into))
            return false;
    }
    return (batch->topic.len && batch->id.len) ||
           http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                          "'batch' must name a waiting job, such as "
                          "{\"topic\":\"reports\",\"id\":\"import-7\"}");
}

static bool read_item_member(struct item *item, struct slice key, struct json_value value)
{
    static const char *const beside[] = {"topic", "id",    "body",  "body_base64", "content_type",
                                         "meta",  "batch", "ended", NULL};
    struct queue_push *push = item->push;
    uint32_t member = member_of(key);
    if (item->nested && value.kind == JSON_ARRAY && slice_is(key, "\"members\"")) {
        *item->nested = value;
        return true;
    }
    if (member & item->seen)
        return http_fault_set(item->fault, PROBLEM_OPTION_TWICE, 0, "%s is given more than once",
                              http_quotable(key, 40));
    item->seen |= member;
    switch (member) {
    case MEMBER_TOPIC:
        return read_item_text(item, key, value, &push->topic);
    case MEMBER_ID:
        return read_item_text(item, key, value, &push->id);
    case MEMBER_CONTENT_TYPE:
        return read_item_text(item, key, value, &push->content_type) &&
               (api_media_is_valid(push->content_type) ||
                http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                               "'content_type' must be printable ASCII"));
    case MEMBER_META:
        return read_item_meta(item, value);
    case MEMBER_CALLBACK:
        return read_item_callback(item, key, value);
    case MEMBER_BATCH:
        return read_item_batch(item, value);
    case MEMBER_ENDED:
        return job_json_read_outcomes(value, &item->ended, &item->has_all_ended) ||
               http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                              "'ended' must have numbers of members, such as {\"acked\":3}");
    case MEMBER_BODY_BASE64:
        return read_base64(item, key, value);
    case MEMBER_BODY:
        item->body = value;
        return true;
    default:
        return http_option_set_member(&item->fields, OPTIONS_ITEM, beside, key, value, item->arena,
                                      item->fault);
    }
}

/* Stores the outcomes of members that ended in another queue: of a waiting job as counts; else its wait has ended, and they
 * are in its meta. All five names are needed then, because the arena has only room for the length of the item. */
static bool keep_item_ended(struct item *item)
{
    char pair[BATCH_META_BYTES_MAX];
    if (!(item->seen & MEMBER_ENDED))
        return true;
    if (item->fields.batch.waits) {
        item->fields.batch.past = item->ended;
        return true;
    }
    if (!item->has_all_ended)
        return http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                              "'ended' of a job that does not wait needs acked, dead, cancelled, "
                              "expired and missing");
    buffer_append(item->meta, pair, batch_meta_write(&item->ended, pair));
    return !item->meta->failed || refuse_item_memory(item);
}

static bool read_item_body(struct item *item)
{
    struct queue_push *push = item->push;
    if (!(item->seen & MEMBER_BODY))
        return true;
    if (item->seen & MEMBER_BODY_BASE64)
        return http_fault_set(item->fault, PROBLEM_OPTION_CLASH, 0,
                              "'body' and 'body_base64' are both given, choose one");
    return job_json_read_body(item->body, item->arena, &push->content_type, &push->body) ||
           refuse_item_memory(item);
}

/* Checks the nesting of a body: a taken job would show a deeper one as text. `above` is the number
 * of enclosing levels. */
static enum json_finding check_levels(struct slice text, int above, struct json_value *value,
                                      size_t *error_at)
{
    return json_check_levels(text, JSON_DEPTH_MAX + above, value, error_at);
}

bool api_depth_refuse(struct http_fault *fault)
{
    return http_fault_set(
        fault, PROBLEM_BAD_ITEM, JSON_DEPTH_MAX,
        "a JSON body is nested deeper than %d levels, make it flatter or push it as "
        "text or bytes",
        JSON_DEPTH_MAX);
}

/* Checks the nesting of a JSON body, whichever member or call it came in. */
static bool check_body_levels(struct slice content_type, struct slice body,
                              struct http_fault *fault)
{
    struct json_value ignored;
    return !job_type_is_json(content_type) ||
           check_levels(body, 0, &ignored, NULL) != JSON_TOO_DEEP || api_depth_refuse(fault);
}

static bool check_content_type(struct slice content_type, struct http_fault *fault)
{
    return api_media_is_valid(content_type) ||
           http_fault_set(
               fault, PROBLEM_BAD_OPTION, 0,
               "the Content-Type must be printable ASCII; write other letters as %%XX, as in "
               "name*=UTF-8''%%C3%%A4");
}

bool api_body_check(struct slice content_type, struct slice body, struct http_fault *fault)
{
    return check_content_type(content_type, fault) && check_body_levels(content_type, body, fault);
}

/* Parses an item. `topic` is that of the call, or empty if the item names its own. `meta` may
 * contain pairs of the call. `room` receives its batches; NULL: batches are rejected. */
static bool parse_item(struct json_value value, struct slice topic, struct queue_push *out,
                       struct queue_batch *room, struct json_value *nested, struct buffer *arena,
                       struct buffer *meta, const struct http_hooks *hooks,
                       struct http_fault *fault)
{
    struct item item = {.push = out,
                        .arena = arena,
                        .meta = meta,
                        .hooks = hooks,
                        .nested = nested,
                        .fault = fault};
    struct json_cursor cursor = {0};
    struct json_value member;
    struct slice key;
    *out = (struct queue_push){0};
    if (value.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_ITEM, 0,
                              "an item must be an object such as "
                              "{\"topic\":\"mail\",\"delay\":\"30m\",\"body\":\"...\"}");
    while (json_next_member(value, &cursor, &key, &member))
        if (!read_item_member(&item, key, member))
            return false;
    if (!(item.seen & MEMBER_TOPIC))
        out->topic = topic;
    if (!out->topic.len && !(item.seen & MEMBER_TOPIC))
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0, "'topic' is missing, name one");
    if (!check_item_fields(&item.fields, fault) || !read_item_body(&item) ||
        !keep_item_ended(&item) || !keep_item_meta(&item))
        return false;
    /* A job of an export is accepted as it was stored: it may have come by another protocol. */
    bool is_restored = http_fields_have(&item.fields, OPTION_ATTEMPT);
    if (item.seen & MEMBER_BODY_BASE64 && !is_restored &&
        !check_body_levels(out->content_type, out->body, fault))
        return false;
    api_fields_push(&item.fields, out);
    if (room)
        api_fields_batch(&item.fields, out, room);
    else if (item.fields.set & OPTIONS_BATCH)
        return http_fault_set(fault, PROBLEM_BAD_ITEM, 0,
                              "this job can neither wait for others nor be a member of a batch");
    return true;
}

bool api_item_parse(struct json_value value, struct queue_push *out, struct queue_batch *room,
                    struct buffer *arena, struct buffer *meta, const struct http_hooks *hooks,
                    struct http_fault *fault)
{
    return api_item_parse_nested(value, out, room, arena, meta, hooks, NULL, fault);
}

bool api_item_parse_nested(struct json_value value, struct queue_push *out,
                           struct queue_batch *room, struct buffer *arena, struct buffer *meta,
                           const struct http_hooks *hooks, struct json_value *nested,
                           struct http_fault *fault)
{
    buffer_clear(meta);
    return parse_item(value, (struct slice){0}, out, room, nested, arena, meta, hooks, fault);
}

/* ---- push of one job ---- */

/* Writes the URL of the job. */
static void write_location(struct http_exchange *exchange, const struct queue_result *result)
{
    static const char hex[] = "0123456789ABCDEF";
    char path[64 + JOB_TOPIC_BYTES_MAX + 3 * JOB_ID_BYTES_MAX];
    struct slice topic = result->topic, id = result->id;
    size_t len = 0;
    if (topic.len > JOB_TOPIC_BYTES_MAX || id.len > JOB_ID_BYTES_MAX)
        return;
    memcpy(path, "/v1/topics/", 11);
    memcpy(path + 11, topic.at, topic.len);
    len = 11 + topic.len;
    memcpy(path + len, "/jobs/", 6);
    len += 6;
    for (size_t i = 0; i < id.len; i++) {
        unsigned char c = (unsigned char)id.at[i];
        if (text_is_unreserved(id.at[i])) {
            path[len++] = id.at[i];
        } else {
            path[len++] = '%';
            path[len++] = hex[c >> 4];
            path[len++] = hex[c & 15];
        }
    }
    http_answer_field(exchange, "Location", slice_make(path, len));
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    const struct queue_result *result = reply->results;
    if (!exchange)
        return;
    if (exchange->span)
        api_trace_pushed(exchange, result, 1);
    if (!queue_status_is_success(result->status)) {
        http_answer_result(exchange, result);
        return;
    }
    if (exchange->route->format) {
        exchange->route->format->result(exchange, result);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    bool is_new = result->status != QUEUE_EXISTED;
    buffer_append_byte(body, '{');
    api_result_members_write(body, result);
    buffer_append_byte(body, '}');
    if (is_new)
        write_location(exchange, result);
    http_answer_end_json(exchange, is_new ? 201 : 200);
}

enum shape { SHAPE_BODY = 1, SHAPE_ENVELOPE, SHAPE_MISTAKE };

static enum shape refuse_unknown_beside(struct slice name, struct http_fault *fault)
{
    static const char *const names[] = {
        "delay",   "at",          "priority", "ttl",      "lease_for", "max_attempts",
        "backoff", "on_conflict", "callback", "id",       "topic",     "content_type",
        "meta",    "body_base64", "once",     "once_for", NULL};
    const char *quoted = http_quotable(name, 40), *nearest = text_nearest(quoted, names);
    (void)http_fault_set(
        fault, PROBLEM_UNKNOWN_OPTION, 0,
        "unknown option '%s' beside 'body'%s%s%s; to push the object itself as the "
        "body add an option, as in ?delay=0",
        quoted, nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'" : "");
    return SHAPE_MISTAKE;
}

/* Finds the members by which an object may be an envelope: a body, and a delay or a time. *due becomes the last name
 * of the latter. Most bodies lack these members, and their other members need no look-up then. */
static bool has_envelope_members(struct json_value object, const char **due)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    bool has_body = false;
    *due = NULL;
    while (json_next_member(object, &cursor, &key, &value)) {
        has_body |= slice_is(key, "\"body\"") || slice_is(key, "\"body_base64\"");
        *due = slice_is(key, "\"delay\"") ? "delay" : slice_is(key, "\"at\"") ? "at" : *due;
    }
    return has_body;
}

/* Decides whether the object is an envelope or a body. All members of an envelope are those of a
 * batch item, with a body, and with a member that no plain body has: an id or an option. An
 * object that may be an envelope with a mistake is rejected, because its delay would be lost. On SHAPE_MISTAKE
 * *fault is set. */
static enum shape shape_of(struct json_value object, struct http_fault *fault)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key, unknown = {0};
    const char *due;
    bool is_envelope = false;
    if (!has_envelope_members(object, &due)) {
        if (!due)
            return SHAPE_BODY;
        (void)http_fault_set(
            fault, PROBLEM_BAD_OPTION, 0,
            "'%s' in a body without 'body': give it in the query, as in ?delay=30m, or "
            "put the job's body into 'body'; to push the object itself as the body "
            "add an option, as in ?delay=0",
            due);
        return SHAPE_MISTAKE;
    }
    while (json_next_member(object, &cursor, &key, &value)) {
        struct slice name = slice_make(key.at + 1, key.len - 2);
        uint32_t member = member_of(key);
        if (member)
            is_envelope |= member == MEMBER_ID;
        else if (http_option_is_allowed(OPTIONS_ITEM, name))
            is_envelope = true;
        else if (!unknown.at)
            unknown = name;
    }
    if (unknown.at)
        return refuse_unknown_beside(unknown, fault);
    return is_envelope ? SHAPE_ENVELOPE : SHAPE_BODY;
}

/* Checks the topic of an envelope, which must be that of the path. */
static bool check_envelope(const struct http_call *call, struct queue_push *push,
                           struct http_fault *fault)
{
    bool is_same_topic = slice_equals(push->topic, call->topic);
    if (!is_same_topic || (push->id.len && call->id.len && !slice_equals(push->id, call->id)))
        return http_fault_set(
            fault, PROBLEM_OPTION_CLASH, 0,
            "'%s' in the body is not the one in the path, leave it out of the body",
            is_same_topic ? "id" : "topic");
    if (call->id.len)
        push->id = call->id;
    return true;
}

static bool refuse_form(struct http_fault *fault)
{
    return http_fault_set(
        fault, PROBLEM_BAD_OPTION, 0,
        "the body is a form, whose fields are not options of a push: give options in the "
        "query, as in ?delay=30m, or as JSON with 'Content-Type: application/json'; to push "
        "the form itself give an option, as in ?delay=0");
}

static inline bool begins(const char *at, const char *end, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(end - at) >= len && memcmp(at, text, len) == 0;
}

/* Returns whether the text has a quoted name by which an object may be an envelope, at any level. Most bodies
 * have none, and are then not read as JSON. */
static bool has_envelope_name(struct slice body)
{
    const char *at = body.at, *end = body.at + body.len;
    for (; (at = memchr(at, '"', (size_t)(end - at))) != NULL; at++)
        if (begins(at, end, "\"body") || begins(at, end, "\"delay\"") || begins(at, end, "\"at\""))
            return true;
    return false;
}

/* Reads an envelope: a job without options in the request may have them in its body, as an item of
 * a batch. Storing the envelope as a body, or JSON that is cut, would silently lose the delay. On
 * false, *fault is set. *is_sound: the body is JSON of permitted depth. */
static bool read_envelope(struct http_call *call, struct queue_push *push, struct queue_batch *room,
                          bool *is_sound, struct http_fault *fault)
{
    struct http_front *front = call->front;
    struct slice type = push->content_type, body = push->body;
    bool is_form = type.len && api_media_is_form(type), is_json = job_type_is_json(type);
    struct json_value object;
    size_t error_at = 0;
    *is_sound = false;
    if (call->query->fields.set || !body.len || (type.len && !is_form && !is_json))
        return true;
    bool may_be_envelope = has_envelope_name(body);
    if (!type.len && !may_be_envelope)
        return true;
    enum json_finding finding =
        check_levels(body, is_json && !may_be_envelope ? 0 : 1, &object, &error_at);
    if (finding == JSON_MALFORMED && (is_json || (is_form && body.at[0] == '{')))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "malformed JSON at byte %zu; to push the text itself add an option, "
                              "as in ?delay=0",
                              error_at);
    if (finding != JSON_SOUND || object.kind != JSON_OBJECT)
        return !is_form || !memchr(body.at, '=', body.len) || refuse_form(fault);
    *is_sound = !may_be_envelope;
    if (!may_be_envelope)
        return true;
    enum shape shape = shape_of(object, fault);
    if (shape != SHAPE_ENVELOPE)
        return shape == SHAPE_BODY;
    buffer_clear(&front->arena);
    if (!buffer_reserve(&front->arena, body.len + front->meta.len + 1))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!parse_item(object, call->topic, push, room, NULL, &front->arena, &front->meta,
                    front->shared->hooks, fault))
        return false;
    push->meta = buffer_slice(&front->meta);
    return check_envelope(call, push, fault);
}

/* Reads the job from query, headers and body. */
static bool read_push(struct http_call *call, struct queue_push *push, struct queue_batch *room,
                      struct http_fault *fault)
{
    if (!check_content_type(push->content_type, fault))
        return false;
    api_fields_push(&call->query->fields, push);
    api_fields_batch(&call->query->fields, push, room);
    if (http_fields_have(&call->query->fields, OPTION_CALLBACK)) {
        if (!api_callback_add(&call->front->meta, call->query->fields.callback,
                              call->front->shared->hooks, fault))
            return false;
        push->meta = buffer_slice(&call->front->meta);
    }
    bool is_sound;
    return read_envelope(call, push, room, &is_sound, fault) &&
           (is_sound || check_body_levels(push->content_type, push->body, fault));
}

void api_push(struct http_call *call, struct queue_push *push)
{
    api_pushers_note(call->exchange, push, 1);
    if (api_trace_is_on(call)) {
        api_trace_push(call, &call->front->meta);
        push->meta = buffer_slice(&call->front->meta);
    }
    if (call->query->fields.wait_ms > 0)
        api_await_push(call, push);
    else
        queue_push(call->front->queue, push, 1, http_reply_to(call, on_pushed));
}

/* Handles PUT or POST of one job, whose options are in the query, in headers or in an envelope. */
static void push_one(struct http_call *call)
{
    struct queue_push push = {.topic = call->topic,
                              .id = call->id,
                              .content_type = call->request->content_type,
                              .meta = buffer_slice(&call->front->meta),
                              .body = call->request->body};
    struct queue_batch room;
    struct http_fault fault;
    if (read_push(call, &push, &room, &fault))
        api_push(call, &push);
    else
        http_answer_fault(call->exchange, &fault);
}

#define PUSH(METHOD, PATTERN, OPTIONS)                                                             \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = "push", .handle = push_one,  \
        .options = (OPTIONS), .takes_meta = true, .body = HTTP_BODY_JOB, .scope = ACCESS_PUSH,     \
        .topics = HTTP_TOPICS_PATH                                                                 \
    }

const struct http_route api_push_routes[] = {
    PUSH(PUT, HTTP_JOB_PATH, OPTIONS_PUSH | OPTION_BIT(OPTION_WAIT)),
    PUSH(POST, HTTP_JOBS_PATH, OPTIONS_PUSH),
    {0},
};
