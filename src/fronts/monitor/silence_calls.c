/* The calls that list, add and remove silences of problems. */
#include "audit/change.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json_read.h"
#include "http/exchange.h"
#include "http/state.h"
#include "monitor/routes.h"
#include "monitor/silences.h"
#include "monitor/state.h"
#include "monitor/status.h"

/* Returns the silences, or answers that this server has no figures. */
static struct monitor_silences *silences_of(struct http_call *call)
{
    struct monitor_silences *silences = monitor_silences_of(call->front->shared);
    if (!silences)
        http_answer_problem(call->exchange, PROBLEM_NOT_READY, 0,
                            "this server keeps no live figures: use /metrics");
    return silences;
}

/* Returns whether the caller may see the silences of a topic, or those without a topic. */
static bool shows_silence(const void *ctx, struct slice topic)
{
    const struct access_caller *caller = ctx;
    return caller->has_all_topics || (topic.len && access_may(caller, ACCESS_READ, topic));
}

static void list_silences(struct http_call *call)
{
    struct monitor_silences *silences = silences_of(call);
    if (!silences)
        return;
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append_text(body, "{\"silences\":[");
    monitor_silences_write(body, silences, clock_wall_ms(), shows_silence, call->caller);
    buffer_append_text(body, "]}");
    http_answer_end_json(call->exchange, 200);
}

/* Returns whether the problem of the path exists and the caller may silence it. Answers if not. */
static bool check_problem(struct http_call *call, struct slice topic)
{
    struct http_fault fault;
    const char *code = NULL;
    if (call->query->topic_count > 1) {
        http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, 1,
                            "'topic' may be given once: name one topic, or leave it out for a "
                            "problem without a topic");
        return false;
    }
    if (!http_gate_allows(call->front, call->caller, call->exchange->route, topic, &fault)) {
        http_answer_fault(call->exchange, &fault);
        return false;
    }
    for (uint32_t row = 0; (code = monitor_status_code(row)); row++)
        if (slice_equals(call->id, slice_of(code)))
            break;
    if (!code) {
        http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, 0,
                            "no problem has the code '%s': GET /v1/status shows the codes",
                            http_quotable(call->id, 60));
        return false;
    }
    if (topic.len && !job_topic_is_valid(topic)) {
        http_answer_refusal(call->exchange, QUEUE_BAD_TOPIC, NULL, 0);
        return false;
    }
    return true;
}

/* Reads the note from the body. Returns false with the fault set. */
static bool read_note(struct http_call *call, struct buffer *scratch, struct slice *note,
                      struct http_fault *fault)
{
    struct json_value object, value;
    size_t error_at;
    *note = (struct slice){0};
    if (!call->request->body.len)
        return true;
    if (!json_check(call->request->body, &object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    value = json_member(object, "note");
    if (object.kind != JSON_OBJECT || value.kind != JSON_STRING ||
        !json_string_bytes(value.raw, scratch, note))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be an object such as {\"note\":\"known, see 4711\"}");
    if (note->len > MONITOR_SILENCE_NOTE_BYTES_MAX)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, MONITOR_SILENCE_NOTE_BYTES_MAX,
                              "'note' has %zu bytes but may have %d", note->len,
                              (int)MONITOR_SILENCE_NOTE_BYTES_MAX);
    return true;
}

static struct slice topic_of(const struct http_call *call)
{
    return call->query->topic_count ? call->query->topics[0] : (struct slice){0};
}

/* Notes for the audit which kind of problem is silenced, for how long and why. */
static void note_audit(struct http_call *call, int64_t for_ms, struct slice note)
{
    struct buffer detail;
    buffer_init(&detail, 1024);
    buffer_append_slice(&detail, call->id);
    buffer_append_text(&detail, " for ");
    duration_emit(&detail, for_ms);
    buffer_append_text(&detail, note.len ? ": " : "");
    buffer_append_slice(&detail, note);
    if (!detail.failed)
        audit_change_detail(call->exchange->change, buffer_slice(&detail));
    buffer_fini(&detail);
}

static void put_silence(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct slice topic = topic_of(call), note;
    struct http_fault fault;
    struct buffer scratch;
    if (!silences_of(call) || !check_problem(call, topic))
        return;
    audit_change_name(call->exchange->change, topic, (struct slice){0});
    audit_change_detail(call->exchange->change, call->id);
    buffer_init(&scratch, HTTP_OUT_BYTES_MAX);
    if (!http_fields_have(fields, OPTION_FOR) || fields->for_ms > MONITOR_SILENCE_MS_MAX) {
        http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, 0,
                            "'for' must be a time up to 30d, as in ?for=8h");
    } else if (!read_note(call, &scratch, &note, &fault)) {
        http_answer_fault(call->exchange, &fault);
    } else {
        int64_t now_ms = clock_wall_ms();
        const struct monitor_silence silence = {.code = call->id,
                                                .topic = topic,
                                                .note = note,
                                                .by = call->caller->name,
                                                .since_ms = now_ms,
                                                .until_ms = now_ms + fields->for_ms};
        note_audit(call, fields->for_ms, note);
        if (monitor_silences_add(silences_of(call), &silence, http_answer_start(call->exchange)))
            http_answer_end_json(call->exchange, 200);
        else
            http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, MONITOR_SILENCES_MAX,
                                "there are %d silences already: remove one",
                                (int)MONITOR_SILENCES_MAX);
    }
    buffer_fini(&scratch);
}

static void delete_silence(struct http_call *call)
{
    struct monitor_silences *silences = silences_of(call);
    struct slice topic = topic_of(call);
    if (!silences || !check_problem(call, topic))
        return;
    audit_change_name(call->exchange->change, topic, (struct slice){0});
    audit_change_detail(call->exchange->change, call->id);
    bool was_there = monitor_silences_remove(silences, call->id, topic, clock_wall_ms());
    if (!was_there)
        http_change_drop(call->exchange);
    buffer_append_text(http_answer_start(call->exchange),
                       was_there ? "{\"removed\":true}" : "{\"removed\":false}");
    http_answer_end_json(call->exchange, 200);
}

const struct http_route monitor_silences_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/silences",
     .name = "silences",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN,
     .handle = list_silences,
     .answer = HTTP_ANSWER_LONG},
    {.method = HTTP_METHOD_PUT,
     .pattern = "/v1/silences/{id}",
     .name = "silence",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_EACH,
     .audit = "problem silenced",
     .handle = put_silence,
     .options = OPTION_BIT(OPTION_TOPIC) | OPTION_BIT(OPTION_FOR),
     .body = HTTP_BODY_SMALL},
    {.method = HTTP_METHOD_DELETE,
     .pattern = "/v1/silences/{id}",
     .name = "silence_end",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_EACH,
     .audit = "silence removed",
     .handle = delete_silence,
     .options = OPTION_BIT(OPTION_TOPIC)},
    {0},
};
