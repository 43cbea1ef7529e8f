#include "api/topics.h"

#include "api/groups.h"
#include "api/json_shape.h"
#include "api/routes.h"
#include "audit/change.h"
#include "base/duration.h"
#include "base/json_write.h"
#include "base/url.h"
#include "http/exchange.h"
#include "http/route.h"
#include "job/json.h"
#include "queue/door.h"

#include <assert.h>
#include <stddef.h>

enum { PAGE_TOPICS = 1000 };

/* ---- extension: the settings of delivery ---- */

/* The members of an extension; kind JSON_NONE if not given. */
struct extension {
    struct json_value deliver, dead_letter, sqs;
};

static const struct extension_row {
    const char *name;
    size_t offset; /* offset in struct extension */
    const char *example;
} extension_rows[] = {
    {"deliver", offsetof(struct extension, deliver),
     "{\"to\":\"https://shop.example/close-order\"}"},
    {"dead_letter", offsetof(struct extension, dead_letter), "{\"keep\":{\"age\":\"30d\"}}"},
    {"sqs", offsetof(struct extension, sqs), "{\"delay\":60}"},
};
enum { EXTENSION_ROWS = sizeof extension_rows / sizeof extension_rows[0] };

static struct json_value *extension_member(const struct extension *extension,
                                           const struct extension_row *row)
{
    return (struct json_value *)(uintptr_t)((const char *)extension + row->offset);
}

/* Returns the row of a member, or NULL if the extension has no such member. */
static const struct extension_row *extension_find(struct slice raw_key)
{
    for (size_t i = 0; i < EXTENSION_ROWS; i++)
        if (json_string_is(raw_key, extension_rows[i].name))
            return &extension_rows[i];
    return NULL;
}

static bool extension_set(struct extension *extension, const struct extension_row *row,
                          struct json_value value, struct http_fault *fault)
{
    struct json_value *member = extension_member(extension, row);
    if (member->kind)
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "'%s' is given more than once",
                              row->name);
    if (value.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_DELIVERY, 0, "'%s' must be an object such as %s",
                              row->name, row->example);
    *member = value;
    return true;
}

static bool extension_write(const struct extension *extension, struct buffer *out,
                            struct http_fault *fault)
{
    size_t start = out->len;
    for (size_t i = 0; i < EXTENSION_ROWS; i++) {
        const struct json_value *member = extension_member(extension, &extension_rows[i]);
        if (!member->kind)
            continue;
        buffer_append_byte(out, out->len == start ? '{' : ',');
        json_write_key(out, extension_rows[i].name);
        json_shape_compact(member->raw, out);
    }
    if (out->len == start)
        return true;
    buffer_append_byte(out, '}');
    if (out->failed)
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (out->len - start > TOPIC_EXTENSION_BYTES_MAX)
        return http_fault_set(
            fault, PROBLEM_BAD_DELIVERY, TOPIC_EXTENSION_BYTES_MAX,
            "'deliver' and 'dead_letter' have %zu bytes together, but a topic stores at most %d",
            out->len - start, TOPIC_EXTENSION_BYTES_MAX);
    return true;
}

static bool begins_with_deliver(struct slice extension)
{
    static const char begin[] = "{\"deliver\":";
    return extension.len >= sizeof begin - 1 && memcmp(extension.at, begin, sizeof begin - 1) == 0;
}

bool api_extension_check(const struct http_hooks *hooks, struct slice topic, struct slice extension,
                         struct http_fault *fault)
{
    char error[HTTP_HOOK_ERROR_BYTES] = "";
    if (!extension.len)
        return true;
    if (!hooks || (begins_with_deliver(extension) && !http_delivery_is_on(hooks)))
        return http_delivery_refuse(fault,
                                    begins_with_deliver(extension) ? "'deliver'" : "'dead_letter'");
    return hooks->check_extension(hooks->ctx, topic, extension, error) ||
           http_fault_set(fault, PROBLEM_BAD_DELIVERY, 0, "%s", error);
}

/* ---- settings: parsing ---- */

static bool read_settings_members(struct json_value object, struct http_fields *fields,
                                  struct extension *extension, struct buffer *scratch,
                                  struct http_fault *fault)
{
    static const char *const beside[] = {"deliver", "dead_letter", NULL};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (json_next_member(object, &cursor, &key, &value)) {
        const struct extension_row *row = extension_find(key);
        if (!(row ? extension_set(extension, row, value, fault)
                  : http_option_set_member(fields, OPTIONS_TOPIC, beside, key, value, scratch,
                                           fault)))
            return false;
    }
    return true;
}

/* Parses an object of `what`, which is for the error. */
static bool read_object(struct slice json, struct json_value *object, const char *what,
                        struct http_fault *fault)
{
    size_t error_at;
    if (!json_check(json, object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object->kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "the body must be an object of %s", what);
    return true;
}

bool api_settings_read(struct slice json, struct http_fields *fields, struct buffer *scratch,
                       struct buffer *extension, struct http_fault *fault)
{
    struct extension members = {0};
    struct json_value object;
    return read_object(json, &object,
                       "settings such as {\"max_attempts\":5,\"backoff\":\"exp:1s..10m\"}",
                       fault) &&
           read_settings_members(object, fields, &members, scratch, fault) &&
           extension_write(&members, extension, fault);
}

/* ---- settings: writing ---- */

void api_settings_write(struct buffer *out, const struct topic_settings *settings)
{
    struct slice extension = settings->extension;
    buffer_append_byte(out, '{');
    json_write_member_bool(out, "dead_letter_expired", settings->dead_letter_expired);
    if (settings->dedup_window_ms) {
        buffer_append_text(out, ",\"dedup_window\":\"");
        duration_emit(out, settings->dedup_window_ms);
        buffer_append_byte(out, '"');
    }
    if (settings->history_ms) {
        buffer_append_text(out, ",\"history\":\"");
        duration_emit(out, settings->history_ms);
        buffer_append_byte(out, '"');
    }
    if (settings->keep_finished_ms) {
        buffer_append_text(out, ",\"keep_finished\":\"");
        duration_emit(out, settings->keep_finished_ms);
        buffer_append_byte(out, '"');
    }
    if (settings->keep_finished_max) {
        buffer_append_text(out, ",\"keep_finished_max\":");
        buffer_append_u64(out, settings->keep_finished_max);
    }
    if (settings->keep_finished_bytes) {
        buffer_append_text(out, ",\"keep_finished_bytes\":");
        buffer_append_u64(out, settings->keep_finished_bytes);
    }
    if (settings->keep_body)
        buffer_append_text(out, ",\"keep_body\":true");
    if (settings->has_priority) {
        buffer_append_text(out, ",\"priority\":");
        buffer_append_i64(out, settings->priority);
    }
    if (settings->on_conflict) {
        buffer_append_text(out, ",\"on_conflict\":\"");
        buffer_append_text(out, record_conflict_name(settings->on_conflict));
        buffer_append_byte(out, '"');
    }
    job_json_write_policy(out, &settings->policy);
    if (settings->max_jobs) {
        buffer_append_text(out, ",\"max_jobs\":");
        buffer_append_u64(out, settings->max_jobs);
    }
    if (settings->push_rate.count) {
        buffer_append_text(out, ",\"push_rate\":\"");
        frequency_emit(out, settings->push_rate);
        buffer_append_byte(out, '"');
    }
    job_json_write_flow(out, &settings->flow);
    if (extension.len > 2) { /* append its members without the braces */
        buffer_append_byte(out, ',');
        buffer_append(out, extension.at + 1, extension.len - 2);
    }
    buffer_append_byte(out, '}');
}

/* ---- settings: merge patch ---- */

static bool refuse_patch(struct http_fault *fault, struct slice twice)
{
    if (twice.len)
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "%s is given more than once",
                              http_quotable(twice, 60));
    return http_fault_set(fault, PROBLEM_BAD_JSON, JSON_SHAPE_MEMBERS_MAX,
                          "an object of the patch has more than %d members",
                          JSON_SHAPE_MEMBERS_MAX);
}

bool api_settings_patch(const struct topic_settings *settings, struct slice patch,
                        struct buffer *out, struct http_fault *fault)
{
    struct json_value target, change;
    struct buffer now;
    struct slice twice;
    if (!read_object(patch, &change,
                     "the settings to change such as {\"max_attempts\":5,\"ttl\":null}", fault))
        return false;
    buffer_init(&now, API_PATCH_BYTES_MAX);
    api_settings_write(&now, settings);
    bool done = json_check(buffer_slice(&now), &target, NULL);
    if (!done)
        (void)http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "the topic's settings cannot be read");
    else if (!(done = json_shape_merge(target, change, out, &twice)))
        (void)refuse_patch(fault, twice);
    else if (out->failed)
        done = http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    buffer_fini(&now);
    return done;
}

void api_fields_settings(const struct http_fields *fields, struct topic_settings *settings)
{
    *settings = (struct topic_settings){
        .policy = fields->policy,
        .on_conflict = fields->on_conflict,
        .priority = (int32_t)fields->priority,
        .has_priority = http_fields_have(fields, OPTION_PRIORITY),
        .dead_letter_expired = fields->dead_letter_expired,
        .dedup_window_ms = fields->dedup_window_ms,
        .history_ms = fields->history_ms,
        .keep_finished_ms = fields->keep_finished_ms,
        .keep_finished_max = (uint64_t)fields->keep_finished_max,
        .keep_finished_bytes = (uint64_t)fields->keep_finished_bytes,
        .keep_body = fields->keep_body,
        .max_jobs = (uint64_t)fields->max_jobs,
        .push_rate = fields->push_rate,
        .flow = {.topic = api_fields_limits(fields),
                 .group = {.limit = (uint32_t)fields->group_limit,
                           .rate = fields->group_rate,
                           .burst = (uint32_t)fields->group_burst},
                 .group_max_jobs = (uint64_t)fields->group_max_jobs,
                 .group_order = fields->is_strict ? FLOW_STRICT : FLOW_FREE,
                 .one_shard = fields->one_shard},
    };
}

/* ---- a topic as JSON ---- */

static void write_numbers(struct buffer *out, const char *key, const char *const *names,
                          const uint64_t *values, size_t count)
{
    buffer_append_byte(out, ',');
    json_write_key(out, key);
    for (size_t i = 0; i < count; i++) {
        buffer_append_byte(out, i ? ',' : '{');
        json_write_key(out, names[i]);
        buffer_append_u64(out, values[i]);
    }
    buffer_append_byte(out, '}');
}

/* Writes the number of held jobs by what holds them, if any are held. */
static void write_held_by(struct buffer *out, const uint64_t held_by[FLOW_HELD_REASONS])
{
    const char *names[FLOW_HELD_REASONS];
    uint64_t jobs[FLOW_HELD_REASONS];
    size_t count = 0;
    for (enum flow_held by = FLOW_HELD_LIMIT; by < FLOW_HELD_REASONS; by++) {
        if (!held_by[by])
            continue;
        names[count] = flow_held_name(by);
        jobs[count++] = held_by[by];
    }
    if (count)
        write_numbers(out, "held_by", names, jobs, count);
}

/* `soon`: the number of jobs that fall due within the next minute; NULL: not known. `hooks` know
 * the state of its target. */
static void write_topic(struct buffer *out, const struct queue_topic *topic, const uint64_t *soon,
                        const struct http_hooks *hooks)
{
    const char *breaker = http_target_state(hooks, topic->settings.extension);
    const char *states[] = {"delayed", "retrying", "ready", "leased", "dead", NULL, NULL};
    uint64_t jobs[] = {topic->counts.delayed,
                       topic->counts.retrying,
                       topic->counts.ready,
                       topic->counts.leased,
                       topic->counts.dead,
                       0,
                       0};
    size_t count = 5;
    static const char *const sums[] = {"pushed",    "acked",  "cancelled",   "expired", "replaced",
                                       "delivered", "nacked", "lease_ended", "died",    "redriven"};
    const struct queue_counts *counts = &topic->counts;
    const struct topic_totals *totals = &topic->totals;

    buffer_append_text(out, "{\"topic\":");
    json_write_string(out, topic->name);
    json_write_member_bool(out, "paused", topic->paused);
    json_write_member_time(out, "paused_until", topic->paused_until_ms);
    if (counts->finished || topic->settings.keep_finished_ms) {
        states[count] = "finished";
        jobs[count++] = counts->finished;
    }
    if (counts->held) { /* a part of the ready jobs */
        states[count] = "held";
        jobs[count++] = counts->held;
    }
    write_numbers(out, "counts", states, jobs, count);
    if (soon) {
        json_write_member(out, "soon");
        buffer_append_u64(out, *soon);
    }
    write_held_by(out, topic->held_by);
    if (topic->groups) {
        buffer_append_text(out, ",\"groups\":");
        buffer_append_u64(out, topic->groups);
    }
    if (breaker)
        json_write_member_text(out, "breaker", slice_of(breaker));

    buffer_append_text(out, ",\"dead_bytes\":");
    buffer_append_u64(out, counts->dead_bytes);
    write_numbers(out, "totals", sums,
                  (const uint64_t[]){totals->pushed, totals->acked, totals->cancelled,
                                     totals->expired, totals->replaced, totals->delivered,
                                     totals->nacked, totals->lease_ended, totals->died,
                                     totals->redriven},
                  sizeof sums / sizeof sums[0]);
    json_write_member_time(out, "oldest_ready_due_at", topic->oldest_ready_due_ms);
    buffer_append_text(out, ",\"settings\":");
    api_settings_write(out, &topic->settings);
    buffer_append_byte(out, '}');
}

/* ---- list of topics ---- */

/* Writes a page of the topics that the caller may see. Cursor, length and end of the page do not
 * reveal the others. */
static void write_topics(struct buffer *body, const struct http_exchange *exchange,
                         const struct queue_topic *topics, size_t count)
{
    uint32_t shown = 0;
    struct slice last = {0};
    for (size_t i = 0; i < count; i++) {
        if (!access_may(exchange->caller, exchange->route->scope, topics[i].name))
            continue;
        if (shown == exchange->count) {
            buffer_append_text(body, "],\"cursor\":");
            json_write_string(body, last);
            return;
        }
        if (shown++)
            buffer_append_byte(body, ',');
        write_topic(body, &topics[i], NULL, exchange->front->shared->hooks);
        last = topics[i].name;
    }
    buffer_append_text(body, "],\"cursor\":null");
}

/* The same in the format of the route. */
static void answer_topics(struct http_exchange *exchange, const struct queue_topic *topics,
                          size_t count)
{
    const struct http_format *format = exchange->route->format;
    struct buffer *body = format->begin(exchange);
    uint32_t shown = 0;
    struct slice last = {0};
    for (size_t i = 0; i < count; i++) {
        if (!access_may(exchange->caller, exchange->route->scope, topics[i].name))
            continue;
        if (shown++ == exchange->count) {
            format->end(exchange, last);
            return;
        }
        format->add_topic(body, &topics[i]);
        last = topics[i].name;
    }
    format->end(exchange, (struct slice){0});
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    if (!exchange)
        return;
    size_t at =
        queue_topics_after(reply->topics, reply->topic_count, buffer_slice(&exchange->note));
    if (exchange->route->format) {
        answer_topics(exchange, reply->topics + at, reply->topic_count - at);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"topics\":[");
    write_topics(body, exchange, reply->topics + at, reply->topic_count - at);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static void list_topics(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct http_exchange *exchange = call->exchange;
    if (fields->cursor.len && !job_topic_is_valid(fields->cursor)) {
        http_answer_refusal(exchange, QUEUE_BAD_CURSOR, NULL, 0);
        return;
    }
    exchange->count =
        http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : PAGE_TOPICS;
    http_front_lend(exchange->front, &exchange->note);
    buffer_append_slice(&exchange->note,
                        fields->cursor); /* the request is gone when the reply comes */
    http_gate_keep(exchange, call->caller);
    /* One topic more than shown reveals whether there are more. If the caller sees only some
     * topics, the number needed is unknown. */
    queue_topics_page(
        call->front->queue,
        (struct queue_topics_page){.after = fields->cursor,
                                   .limit = call->caller->has_all_topics ? exchange->count + 1 : 0},
        http_reply_to(call, on_topics));
}

/* ---- one topic ---- */

/* Answers get, put, pause or resume with the current state of the topic. */
static void answer_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if ((reply->status != QUEUE_OK && reply->status != QUEUE_CREATED) || reply->topic_count == 0) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
        return;
    }
    if (exchange->route->format) {
        exchange->route->format->topic(exchange, &reply->topics[0]);
        return;
    }
    write_topic(http_answer_start(exchange), &reply->topics[0],
                exchange->has_soon ? &exchange->soon : NULL, exchange->front->shared->hooks);
    http_answer_end_json(exchange, reply->status == QUEUE_CREATED ? 201 : 200);
}

/* ---- get, with the jobs that fall due soon ---- */

/* Reads the topic, now that the number is known. If it is not, the topic is answered without. */
static void on_soon(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    struct queue *queue = exchange->front->queue;
    if (reply->status == QUEUE_OK && reply->forecast) {
        exchange->soon = queue_forecast_soon(reply->forecast, queue_wall_ms(queue));
        exchange->has_soon = true;
    }
    const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET,
                                         .topic = buffer_slice(&exchange->note)};
    queue_topic(queue, &get, http_exchange_reply_to(exchange, answer_topic));
}

static void get_topic(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    struct queue *queue = call->front->queue;
    struct queue_info info = {0};
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    queue_info(queue, &info);
    if (!info.soon || exchange->route->format || exchange->note.failed) {
        const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = call->topic};
        queue_topic(queue, &get, http_reply_to(call, answer_topic));
        return;
    }
    http_gate_keep(exchange, call->caller);
    queue_count_soon(queue, call->topic, http_reply_to(call, on_soon));
}

/* Handles delete, pause and resume. The verb of the route is the enum queue_topic_verb. */
static void call_topic(struct http_call *call)
{
    uint8_t verb = call->exchange->route->verb;
    struct queue_topic_call topic = {.verb = (enum queue_topic_verb)verb,
                                     .topic = call->topic,
                                     .pause_ms = call->query->fields.for_ms};
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    queue_topic(
        call->front->queue, &topic,
        http_reply_to(call, verb == QUEUE_TOPIC_DELETE ? http_answer_affected : answer_topic));
}

/* ---- settings: calls ---- */

/* The data in the note while the topic is read; topic and text follow it. */
struct noted_settings {
    struct topic_settings settings; /* for put; the text is their extension */
    bool has_order;                 /* for put: group_order was given */
    size_t topic_bytes, text_bytes; /* for patch, the text is the patch */
};

static void send_put(struct http_exchange *exchange, struct slice topic,
                     const struct topic_settings *settings)
{
    struct queue *queue = exchange->front->queue;
    if (settings->history_ms && !http_keeps_history(exchange))
        return;
    if (settings->keep_finished_ms && !http_keeps_finished(exchange))
        return;
    if (topic_flow_is_set(&settings->flow) && !api_flow_check(exchange, topic, &settings->flow))
        return;
    if (settings->dedup_window_ms && !queue_topic_may_remember(topic)) {
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "the topic 'tarry.schedules' cannot have a 'dedup_window': a deleted "
                            "schedule could not be created again; leave the option out, nothing "
                            "was changed");
        return;
    }
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT, .topic = topic, .settings = *settings};
    queue_topic(queue, &put, http_exchange_reply_to(exchange, answer_topic));
}

/* Returns the member of an object by its raw name. */
static struct json_value member_of(struct json_value object, struct slice raw)
{
    struct json_cursor cursor = {0};
    struct slice key;
    struct json_value value;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value))
        if (slice_equals(key, raw))
            return value;
    return (struct json_value){0};
}

/* Returns scheme and hosts of a URL, without what may be secret. Returns an empty slice if there is
 * no value. */
static struct slice origin_of(struct json_value value)
{
    struct url url;
    if (value.kind != JSON_STRING)
        return (struct slice){0};
    if (url_parse(slice_make(value.raw.at + 1, value.raw.len - 2), &url) != URL_OK)
        return slice_of("another target");
    const char *end = url.authority.at + url.authority.len;
    return url.has_user ? url.authority : slice_make(url.scheme.at, (size_t)(end - url.scheme.at));
}

static void append_value(struct buffer *out, struct slice value)
{
    enum { VALUE_BYTES_MAX = 60 };
    if (value.len > VALUE_BYTES_MAX) {
        buffer_append(out, value.at, VALUE_BYTES_MAX);
        buffer_append_text(out, "...");
    } else {
        buffer_append_slice(out, value.len ? value : slice_of("unset"));
    }
}

static void append_difference(struct buffer *out, struct slice group, struct slice name,
                              struct json_value before, struct json_value after)
{
    struct slice from = before.raw, to = after.raw;
    if (out->len)
        buffer_append_text(out, "; ");
    if (group.len) {
        buffer_append_slice(out, group);
        buffer_append_byte(out, '.');
        from = slice_is(name, "to") ? origin_of(before) : (struct slice){0};
        to = slice_is(name, "to") ? origin_of(after) : (struct slice){0};
    }
    buffer_append_slice(out, name);
    buffer_append_text(out, ": ");
    if (slice_equals(from, to)) {
        buffer_append_text(out, "changed");
        return;
    }
    append_value(out, from);
    buffer_append_text(out, " -> ");
    append_value(out, to);
}

/*
 * Appends the members of `object` that differ in `other`, as `name: before -> after`. If
 * `is_before`, `object` has the values before, and only members that `other` lacks are appended.
 * Of the members of an object, called `group`, only the names are appended, and of a URL its
 * scheme and hosts: paths and headers of targets may be secret.
 */
static void append_differences(struct buffer *out, struct slice group, struct json_value object,
                               struct json_value other, bool is_before)
{
    struct json_cursor cursor = {0};
    struct slice key;
    struct json_value value;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value)) {
        struct json_value held = member_of(other, key);
        struct json_value before = is_before ? value : held, after = is_before ? held : value;
        struct slice name = slice_make(key.at + 1, key.len - 2);
        if (slice_equals(before.raw, after.raw) || (is_before && after.kind))
            continue;
        if (!group.len && (before.kind == JSON_OBJECT || after.kind == JSON_OBJECT)) {
            append_differences(out, name, after, before, false);
            append_differences(out, name, before, after, true);
        } else {
            append_difference(out, group, name, before, after);
        }
    }
}

/* Adds to the audit which settings change. */
static void note_differences(struct http_exchange *exchange, const struct topic_settings *held,
                             const struct topic_settings *settings)
{
    struct buffer before, after, out;
    struct json_value old = {0}, now = {0};
    buffer_init(&before, API_PATCH_BYTES_MAX);
    buffer_init(&after, API_PATCH_BYTES_MAX);
    buffer_init(&out, 2 * API_PATCH_BYTES_MAX);
    api_settings_write(&before, held);
    api_settings_write(&after, settings);
    if (json_check(buffer_slice(&before), &old, NULL) &&
        json_check(buffer_slice(&after), &now, NULL)) {
        append_differences(&out, (struct slice){0}, now, old, false);
        append_differences(&out, (struct slice){0}, old, now, true);
        audit_change_detail(exchange->change, buffer_slice(&out));
    }
    buffer_fini(&before);
    buffer_fini(&after);
    buffer_fini(&out);
}

/* Reads the current settings of the topic first. The content of the request is kept in the note. */
static void look_up(struct http_call *call, struct noted_settings noted, struct slice text,
                    queue_done *looked_up)
{
    struct queue *queue = call->front->queue;
    struct buffer *note = &call->exchange->note;
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = call->topic};
    noted.topic_bytes = call->topic.len;
    noted.text_bytes = text.len;
    http_gate_keep(call->exchange, call->caller);
    http_front_lend(call->front, note);
    buffer_append(note, &noted, sizeof noted);
    buffer_append_slice(note, call->topic);
    buffer_append_slice(note, text);
    if (note->failed) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    queue_topic(queue, &get, http_reply_to(call, looked_up));
}

/* Reads the note written by look_up. */
static struct noted_settings read_note(const struct http_exchange *exchange, struct slice *topic,
                                       struct slice *text)
{
    struct noted_settings noted;
    const char *at = exchange->note.at + sizeof noted;
    assert(exchange->note.len >= sizeof noted);
    memcpy(&noted, exchange->note.at, sizeof noted);
    *topic = slice_make(at, noted.topic_bytes);
    *text = slice_make(at + noted.topic_bytes, noted.text_bytes);
    return noted;
}

static bool names_other_topic(const struct http_hooks *hooks, struct slice extension, char *other)
{
    return extension.len && hooks && hooks->other_topic &&
           hooks->other_topic(hooks->ctx, extension, other);
}

/* Checks the right to the other topic if the settings move jobs there; not if they already do
 * so. */
static bool check_forward(struct http_exchange *exchange, struct slice extension, struct slice held,
                          struct http_fault *fault)
{
    const struct http_hooks *hooks = exchange->front->shared->hooks;
    char other[JOB_TOPIC_BYTES_MAX + 1], before[JOB_TOPIC_BYTES_MAX + 1];
    return !names_other_topic(hooks, extension, other) ||
           (names_other_topic(hooks, held, before) && strcmp(before, other) == 0) ||
           http_gate_allows(exchange->front, exchange->caller, exchange->route, slice_of(other),
                            fault);
}

/* Checks an extension unless the topic already has it. An existing one was checked when it was set;
 * a policy changed or removed since then does not affect other settings, or the same setting
 * again. */
static bool check_topic_extension(struct http_exchange *exchange, struct slice topic,
                                  const struct topic_settings *settings, struct slice held,
                                  struct http_fault *fault)
{
    return slice_equals(settings->extension, held) ||
           (check_forward(exchange, settings->extension, held, fault) &&
            api_extension_check(exchange->front->shared->hooks, topic, settings->extension, fault));
}

/* ---- topics that are FIFO queues of SQS ---- */

/* Returns whether the topic with this extension is a FIFO queue, by the mark that the calls of SQS keep there. */
static bool is_fifo(struct slice extension)
{
    struct json_value members = {0};
    if (extension.len)
        (void)json_check(extension, &members, NULL);
    return json_member(json_member(members, "sqs"), "fifo").kind == JSON_TRUE;
}

/* Only such a topic can be a FIFO queue, so a PUT of others need not read the topic first. */
static bool may_be_fifo(struct slice topic)
{
    static const char suffix[] = ".fifo";
    size_t bytes = sizeof suffix - 1;
    return topic.len > bytes && memcmp(topic.at + topic.len - bytes, suffix, bytes) == 0;
}

/* Rejects settings that would end a FIFO queue. */
static bool check_fifo(const struct topic_settings *held, const struct topic_settings *settings,
                       struct http_fault *fault)
{
    return !is_fifo(held->extension) ||
           (is_fifo(settings->extension) && settings->flow.group_order == held->flow.group_order) ||
           http_fault_set(fault, PROBLEM_FIFO_QUEUE, 0,
                          "the topic is a FIFO queue of SQS: 'group_order' and the mark in 'sqs' "
                          "cannot be changed, delete the queue instead; nothing was changed");
}

/* Keeps what makes the topic a FIFO queue, unless the PUT has another value. `extension`: of the PUT. The new one goes to `out`. */
static bool keep_fifo(const struct topic_settings *held, struct noted_settings *noted,
                      struct slice extension, struct buffer *out, struct http_fault *fault)
{
    struct extension members = {0};
    struct json_value given = {0}, before = {0};
    if (!is_fifo(held->extension))
        return true;
    if (!noted->has_order)
        noted->settings.flow.group_order = held->flow.group_order;
    if (extension.len)
        (void)json_check(extension, &given, NULL);
    (void)json_check(held->extension, &before, NULL);
    for (size_t i = 0; i < EXTENSION_ROWS; i++)
        *extension_member(&members, &extension_rows[i]) =
            json_member(given, extension_rows[i].name);
    if (!members.sqs.kind)
        members.sqs = json_member(before, "sqs");
    bool done = extension_write(&members, out, fault);
    noted->settings.extension = buffer_slice(out);
    return done && check_fifo(held, &noted->settings, fault);
}

/* ---- put ---- */

static void on_put_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    struct slice topic, extension;
    struct topic_settings held = {0};
    struct buffer kept;
    struct http_fault fault;
    if (!exchange)
        return;
    struct noted_settings noted = read_note(exchange, &topic, &extension);
    noted.settings.extension = extension;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return;
    }
    if (reply->status == QUEUE_OK && reply->topic_count)
        held = reply->topics[0].settings;
    buffer_init(&kept, API_EXTENSION_TEXT_MAX);
    if (keep_fifo(&held, &noted, extension, &kept, &fault) &&
        check_topic_extension(exchange, topic, &noted.settings, held.extension, &fault)) {
        note_differences(exchange, &held, &noted.settings);
        send_put(exchange, topic, &noted.settings);
    } else {
        http_answer_fault(exchange, &fault);
    }
    buffer_fini(&kept);
}

/* Reads settings from the query, or from a JSON object in the format of `GET`. */
static bool read_settings(struct http_call *call, struct buffer *extension,
                          struct http_fault *fault)
{
    struct slice body = call->request->body;
    struct buffer *arena = &call->front->arena;
    if (body.len == 0)
        return true;
    buffer_clear(arena);
    if (!buffer_reserve(arena, body.len + 1))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    return api_settings_read(body, &call->query->fields, arena, extension, fault);
}

static void put_topic(struct http_call *call)
{
    struct buffer extension;
    struct noted_settings noted = {0};
    struct http_fault fault;
    buffer_init(&extension, API_EXTENSION_TEXT_MAX);
    if (!read_settings(call, &extension, &fault)) {
        http_answer_fault(call->exchange, &fault);
    } else {
        api_fields_settings(&call->query->fields, &noted.settings);
        noted.has_order = http_fields_have(&call->query->fields, OPTION_GROUP_ORDER);
        if (extension.len || may_be_fifo(call->topic))
            look_up(call, noted, buffer_slice(&extension), on_put_looked_up);
        else
            send_put(call->exchange, call->topic, &noted.settings);
    }
    buffer_fini(&extension);
}

/* ---- patch ---- */

/* Merges the patch into the current settings. The resulting extension is in `extension`. */
static bool merge_settings(const struct topic_settings *held, struct slice patch,
                           struct buffer *merged, struct buffer *extension,
                           struct topic_settings *out, struct http_fault *fault)
{
    struct http_fields fields = {0};
    struct buffer scratch;
    buffer_init(&scratch, 2 * API_PATCH_BYTES_MAX);
    bool done = buffer_reserve(&scratch, 2 * API_PATCH_BYTES_MAX) != NULL ||
                http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    done = done && api_settings_patch(held, patch, merged, fault) &&
           api_settings_read(buffer_slice(merged), &fields, &scratch, extension, fault);
    if (done)
        api_fields_settings(&fields, out);
    buffer_fini(&scratch);
    return done;
}

static void send_patch(struct http_exchange *exchange, const struct topic_settings *held)
{
    struct slice topic, text;
    struct topic_settings settings;
    struct buffer merged, extension;
    struct http_fault fault;
    (void)read_note(exchange, &topic, &text);
    buffer_init(&merged, 2 * API_PATCH_BYTES_MAX);
    buffer_init(&extension, API_EXTENSION_TEXT_MAX);
    bool done = merge_settings(held, text, &merged, &extension, &settings, &fault);
    settings.extension = buffer_slice(&extension);
    if (done && check_fifo(held, &settings, &fault) &&
        check_topic_extension(exchange, topic, &settings, held->extension, &fault)) {
        note_differences(exchange, held, &settings);
        send_put(exchange, topic, &settings);
    } else {
        http_answer_fault(exchange, &fault);
    }
    buffer_fini(&merged);
    buffer_fini(&extension);
}

static void on_patch_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status == QUEUE_NOT_FOUND || (reply->status == QUEUE_OK && !reply->topic_count))
        http_answer_refusal(exchange, QUEUE_NOT_FOUND,
                            "there is no such topic; a PUT of its settings creates it", 0);
    else if (reply->status != QUEUE_OK)
        http_answer_refusal(exchange, reply->status, NULL, 0);
    else
        send_patch(exchange, &reply->topics[0].settings);
}

static void patch_topic(struct http_call *call)
{
    struct slice body = call->request->body;
    if (body.len > API_PATCH_BYTES_MAX) {
        http_answer_problem(call->exchange, PROBLEM_BODY_TOO_BIG, API_PATCH_BYTES_MAX,
                            "a patch of settings has at most %d bytes", API_PATCH_BYTES_MAX);
        return;
    }
    look_up(call, (struct noted_settings){0}, body, on_patch_looked_up);
}

/* ---- sending a sample to the target ---- */

static void on_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (status == QUEUE_NOT_FOUND) {
        http_answer_problem(
            exchange, PROBLEM_NO_TARGET, 0,
            "there is no such topic, or it names no target: set 'deliver' in its settings, "
            "such as {\"deliver\":{\"to\":\"https://shop.example/close-order\"}}");
    } else if (status != QUEUE_OK) {
        http_answer_refusal(exchange, status, NULL, 0);
    } else {
        buffer_append_slice(http_answer_start(exchange), json);
        http_answer_end_json(exchange, 200);
    }
}

static void test_delivery(struct http_call *call)
{
    struct http_front *front = call->front;
    const struct http_hooks *hooks = front->shared->hooks;
    if (!http_delivery_is_on(hooks) || !hooks->test) {
        http_answer_problem(call->exchange, PROBLEM_NO_DELIVERY, 0,
                            "this server does not deliver: start it with --deliver FILE, a policy "
                            "file with the allowed hosts");
        return;
    }
    call->exchange->waits = true; /* not in request durations: waits for the target */
    hooks->test(hooks->ctx, front->reactor, call->topic, call->request->body, on_tested, front,
                http_exchange_tag(call->exchange));
}

#define TOPIC_ROUTE(METHOD, PATTERN, NAME, VERB, AUDIT)                                            \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = (NAME), .audit = (AUDIT),    \
        .scope = ACCESS_ADMIN, .topics = HTTP_TOPICS_PATH, .handle = call_topic,                   \
        .verb = QUEUE_TOPIC_##VERB                                                                 \
    }

const struct http_route api_topics_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/topics",
     .name = "topics",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN,
     .handle = list_topics,
     .options = OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_CURSOR),
     .answer = HTTP_ANSWER_LONG},
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_TOPIC_PATH,
     .name = "topic",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = get_topic},
    {.method = HTTP_METHOD_PUT,
     .pattern = HTTP_TOPIC_PATH,
     .name = "topic_put",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "topic settings changed",
     .handle = put_topic,
     .options = OPTIONS_TOPIC,
     .body = HTTP_BODY_SMALL},
    {.method = HTTP_METHOD_PATCH,
     .pattern = HTTP_TOPIC_PATH,
     .name = "topic_patch",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "topic settings changed",
     .handle = patch_topic,
     .body = HTTP_BODY_SMALL},
    TOPIC_ROUTE(DELETE, HTTP_TOPIC_PATH, "topic_delete", DELETE, "topic deleted"),
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_TOPIC_PATH "/pause",
     .name = "pause",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "topic paused",
     .handle = call_topic,
     .verb = QUEUE_TOPIC_PAUSE,
     .options = OPTION_BIT(OPTION_FOR)},
    TOPIC_ROUTE(POST, HTTP_TOPIC_PATH "/resume", "resume", RESUME, "topic resumed"),
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_TOPIC_PATH "/deliver-test",
     .name = "deliver_test",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "sample sent",
     .handle = test_delivery,
     .body = HTTP_BODY_JOB},
    {0},
};
