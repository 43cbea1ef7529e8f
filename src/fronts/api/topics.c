/* Topics: their list, one of them, pausing, resuming and deleting; replacing settings, or changing them by a merge patch. */
#include "api/groups.h"
#include "api/jobs.h"
#include "api/routes.h"
#include "api/settings.h"
#include "audit/change.h"
#include "base/json_write.h"
#include "http/exchange.h"
#include "http/route.h"
#include "queue/door.h"

#include <assert.h>

enum { PAGE_TOPICS = 1000 };

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

/* Returns whether the store keeps finished jobs; answers if not. */
static bool keeps_finished(struct http_exchange *exchange)
{
    struct queue_info info = {0};
    queue_info(exchange->front->queue, &info);
    if (!info.keeps_finished)
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "this store keeps no finished jobs, leave 'keep_finished' out");
    return info.keeps_finished;
}

static void send_put(struct http_exchange *exchange, struct slice topic,
                     const struct topic_settings *settings)
{
    struct queue *queue = exchange->front->queue;
    if (settings->history_ms && !api_keeps_history(exchange))
        return;
    if (settings->keep_finished_ms && !keeps_finished(exchange))
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

/* Adds to the audit which settings change. */
static void note_differences(struct http_exchange *exchange, const struct topic_settings *held,
                             const struct topic_settings *settings)
{
    struct buffer out;
    buffer_init(&out, 2 * API_PATCH_BYTES_MAX);
    api_settings_write_differences(&out, held, settings);
    if (out.len)
        audit_change_detail(exchange->change, buffer_slice(&out));
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

/* ---- put ---- */

/* Only such a topic can be a FIFO queue, so a PUT of others need not read the topic first. */
static bool may_be_fifo(struct slice topic)
{
    static const char suffix[] = ".fifo";
    size_t bytes = sizeof suffix - 1;
    return topic.len > bytes && memcmp(topic.at + topic.len - bytes, suffix, bytes) == 0;
}

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
    if (api_settings_keep_fifo(&held, &noted.settings, noted.has_order, &kept, &fault) &&
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

static void send_patch(struct http_exchange *exchange, const struct topic_settings *held)
{
    struct slice topic, text;
    struct topic_settings settings;
    struct buffer extension;
    struct http_fault fault;
    (void)read_note(exchange, &topic, &text);
    buffer_init(&extension, API_EXTENSION_TEXT_MAX);
    if (api_settings_merge(held, text, &extension, &settings, &fault) &&
        check_topic_extension(exchange, topic, &settings, held->extension, &fault)) {
        note_differences(exchange, held, &settings);
        send_put(exchange, topic, &settings);
    } else {
        http_answer_fault(exchange, &fault);
    }
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
    {0},
};
