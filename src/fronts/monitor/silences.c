#include "monitor/silences.h"

#include "audit/change.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/vector.h"
#include "http/exchange.h"
#include "monitor/kept.h"
#include "monitor/problem.h"
#include "monitor/routes.h"
#include "monitor/state.h"

#include <errno.h>
#include <stdlib.h>

#define KEPT_NAME "silences"
#define SILENCE_MS_MAX (30LL * 24 * 3600 * 1000)
enum {
    SILENCES_MAX = 1000,
    NOTE_BYTES_MAX = 200,
    CODE_BYTES = 32,
    BY_BYTES = 128,
    KEPT_BYTES_MAX = 2 << 20
};

/* A text of limited length. */
#define TEXT_OF(FIELD, LEN) slice_make((FIELD), (LEN))

struct silence {
    int64_t since_ms, until_ms;
    uint8_t code_len, topic_len, note_len, by_len;
    char code[CODE_BYTES], topic[JOB_TOPIC_BYTES_MAX], note[NOTE_BYTES_MAX], by[BY_BYTES];
};
VECTOR_DECLARE(silence_list, struct silence *)

struct monitor_silences {
    pthread_mutex_t lock;
    struct silence_list list;
    char *directory; /* NULL: nothing is kept */
};

/* ---- the list ---- */

static uint8_t copy_text(char *out, size_t most, struct slice text)
{
    size_t len = text.len < most ? text.len : most;
    if (len)
        memcpy(out, text.at, len);
    return (uint8_t)len;
}

/* Returns NULL if out of memory. */
static struct silence *silence_new(struct slice code, struct slice topic, struct slice note,
                                   struct slice by, int64_t since_ms, int64_t until_ms)
{
    struct silence *silence = calloc(1, sizeof *silence);
    if (!silence)
        return NULL;
    silence->code_len = copy_text(silence->code, sizeof silence->code, code);
    silence->topic_len = copy_text(silence->topic, sizeof silence->topic, topic);
    silence->note_len = copy_text(silence->note, sizeof silence->note, note);
    silence->by_len = copy_text(silence->by, sizeof silence->by, by);
    silence->since_ms = since_ms;
    silence->until_ms = until_ms;
    return silence;
}

static bool is_of(const struct silence *silence, struct slice code, struct slice topic)
{
    return slice_equals(TEXT_OF(silence->code, silence->code_len), code) &&
           slice_equals(TEXT_OF(silence->topic, silence->topic_len), topic);
}

/* Removes the silence of a problem, and all that have ended. Returns whether it existed. */
static bool remove_of(struct monitor_silences *silences, struct slice code, struct slice topic,
                      int64_t wall_ms)
{
    bool was_there = false;
    for (size_t i = silences->list.count; i-- > 0;) {
        struct silence *one = silences->list.at[i];
        bool is_wanted = is_of(one, code, topic) && one->until_ms > wall_ms;
        if (!is_wanted && one->until_ms > wall_ms)
            continue;
        was_there |= is_wanted;
        silence_list_remove(&silences->list, i);
        free(one);
    }
    return was_there;
}

static void write_members(struct buffer *out, const struct silence *silence)
{
    json_write_member_time(out, "since", silence->since_ms);
    json_write_member_time(out, "until", silence->until_ms);
    json_write_member_text(out, "note", TEXT_OF(silence->note, silence->note_len));
    json_write_member_text(out, "by", TEXT_OF(silence->by, silence->by_len));
}

static void write_silence(struct buffer *out, const struct silence *silence)
{
    buffer_append_text(out, "{\"code\":");
    json_write_string(out, TEXT_OF(silence->code, silence->code_len));
    json_write_member(out, "topic");
    if (silence->topic_len)
        json_write_string(out, TEXT_OF(silence->topic, silence->topic_len));
    else
        buffer_append_text(out, "null");
    write_members(out, silence);
    buffer_append_byte(out, '}');
}

void monitor_silences_write_of(struct buffer *out, struct monitor_silences *silences,
                               struct slice code, struct slice topic, int64_t wall_ms)
{
    const struct silence *found = NULL;
    if (silences)
        pthread_mutex_lock(&silences->lock);
    for (size_t i = 0; silences && i < silences->list.count && !found; i++)
        if (is_of(silences->list.at[i], code, topic) && silences->list.at[i]->until_ms > wall_ms)
            found = silences->list.at[i];
    if (found) {
        buffer_append_text(out, "{\"code\":");
        json_write_string(out, code);
        write_members(out, found);
        buffer_append_byte(out, '}');
    } else {
        buffer_append_text(out, "null");
    }
    if (silences)
        pthread_mutex_unlock(&silences->lock);
}

/* ---- what is kept ---- */

/* Writes all silences, one JSON object per line with times in milliseconds. */
static void keep_silences(struct monitor_silences *silences)
{
    struct buffer text;
    if (!silences->directory)
        return;
    buffer_init(&text, KEPT_BYTES_MAX);
    for (size_t i = 0; i < silences->list.count; i++) {
        const struct silence *one = silences->list.at[i];
        buffer_append_format(&text, "{\"since_ms\":%lld,\"until_ms\":%lld",
                             (long long)one->since_ms, (long long)one->until_ms);
        json_write_member_text(&text, "code", TEXT_OF(one->code, one->code_len));
        json_write_member_text(&text, "topic", TEXT_OF(one->topic, one->topic_len));
        json_write_member_text(&text, "note", TEXT_OF(one->note, one->note_len));
        json_write_member_text(&text, "by", TEXT_OF(one->by, one->by_len));
        buffer_append_text(&text, "}\n");
    }
    int error = text.failed ? -ENOMEM
                            : monitor_kept_write(silences->directory, KEPT_NAME,
                                                 slice_make(text.at ? text.at : "", text.len));
    if (error)
        log_event(LOG_WARN, "silences are not kept", LOG_TEXT("error", strerror(-error)));
    buffer_fini(&text);
}

/* Adds the silence of a line; a line that cannot be read is skipped. */
static void read_line(struct monitor_silences *silences, struct slice line)
{
    static const char *const names[] = {"code", "topic", "note", "by"};
    struct json_value object;
    struct slice texts[4];
    struct buffer scratch;
    int64_t since_ms, until_ms;
    if (!json_check(line, &object, NULL) ||
        !json_number_i64(json_member(object, "since_ms").raw, &since_ms) ||
        !json_number_i64(json_member(object, "until_ms").raw, &until_ms) ||
        silences->list.count >= SILENCES_MAX)
        return;
    buffer_init(&scratch, KEPT_BYTES_MAX);
    bool is_good = buffer_reserve(&scratch, line.len + 1) != NULL;
    for (size_t i = 0; is_good && i < 4; i++) {
        struct json_value value = json_member(object, names[i]);
        is_good = value.kind == JSON_STRING && json_string_bytes(value.raw, &scratch, &texts[i]);
    }
    struct silence *silence =
        is_good ? silence_new(texts[0], texts[1], texts[2], texts[3], since_ms, until_ms) : NULL;
    if (silence && !silence_list_add(&silences->list, silence))
        free(silence);
    buffer_fini(&scratch);
}

static void read_kept(struct monitor_silences *silences)
{
    struct buffer text;
    buffer_init(&text, KEPT_BYTES_MAX);
    if (monitor_kept_read(silences->directory, KEPT_NAME, &text) == 0) {
        const char *at = text.at, *end = text.at + text.len;
        while (at < end) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            stop = stop ? stop : end;
            read_line(silences, slice_make(at, (size_t)(stop - at)));
            at = stop + 1;
        }
    }
    buffer_fini(&text);
}

struct monitor_silences *monitor_silences_new(const char *directory)
{
    struct monitor_silences *silences = calloc(1, sizeof *silences);
    if (!silences)
        return NULL;
    if (directory && !(silences->directory = strdup(directory))) {
        free(silences);
        return NULL;
    }
    pthread_mutex_init(&silences->lock, NULL);
    if (directory)
        read_kept(silences);
    return silences;
}

void monitor_silences_free(struct monitor_silences *silences)
{
    if (!silences)
        return;
    for (size_t i = 0; i < silences->list.count; i++)
        free(silences->list.at[i]);
    silence_list_fini(&silences->list);
    pthread_mutex_destroy(&silences->lock);
    free(silences->directory);
    free(silences);
}

/* ---- changes ---- */

/* Adds a silence in place of an earlier one of the same problem, and appends it as JSON. Takes the
 * silence; NULL: out of memory. Returns false if there are too many or out of memory. */
static bool silences_add(struct monitor_silences *silences, struct silence *silence,
                         struct buffer *out)
{
    if (!silence)
        return false;
    pthread_mutex_lock(&silences->lock);
    (void)remove_of(silences, TEXT_OF(silence->code, silence->code_len),
                    TEXT_OF(silence->topic, silence->topic_len), silence->since_ms);
    bool is_added =
        silences->list.count < SILENCES_MAX && silence_list_add(&silences->list, silence);
    if (is_added) {
        keep_silences(silences);
        write_silence(out, silence);
    }
    pthread_mutex_unlock(&silences->lock);
    if (!is_added)
        free(silence);
    return is_added;
}

/* Returns whether the problem was silenced. */
static bool silences_remove(struct monitor_silences *silences, struct slice code,
                            struct slice topic, int64_t wall_ms)
{
    pthread_mutex_lock(&silences->lock);
    bool was_there = remove_of(silences, code, topic, wall_ms);
    if (was_there)
        keep_silences(silences);
    pthread_mutex_unlock(&silences->lock);
    return was_there;
}

/* Returns whether the caller may see the silences of a topic, or those without a topic. */
static bool may_see(const struct access_caller *caller, struct slice topic)
{
    return caller->has_all_topics || (topic.len && access_may(caller, ACCESS_READ, topic));
}

/* Appends the silences that have not ended and that the caller may see, separated by commas. */
static void write_silences(struct buffer *out, struct monitor_silences *silences, int64_t wall_ms,
                           const struct access_caller *caller)
{
    bool follows = false;
    pthread_mutex_lock(&silences->lock);
    for (size_t i = 0; i < silences->list.count; i++) {
        const struct silence *one = silences->list.at[i];
        if (one->until_ms <= wall_ms || !may_see(caller, TEXT_OF(one->topic, one->topic_len)))
            continue;
        if (follows)
            buffer_append_byte(out, ',');
        follows = true;
        write_silence(out, one);
    }
    pthread_mutex_unlock(&silences->lock);
}

/* ---- calls ---- */

/* Returns the silences, or answers that this server has no figures. */
static struct monitor_silences *silences_of(struct http_call *call)
{
    struct monitor_silences *silences = monitor_silences_of(call->front->shared);
    if (!silences)
        http_answer_problem(call->exchange, PROBLEM_NOT_READY, 0,
                            "this server keeps no live figures: use /metrics");
    return silences;
}

static void list_silences(struct http_call *call)
{
    struct monitor_silences *silences = silences_of(call);
    if (!silences)
        return;
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append_text(body, "{\"silences\":[");
    write_silences(body, silences, clock_wall_ms(), call->caller);
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
    for (int i = 0; i < MONITOR_PROBLEMS && !code; i++)
        if (slice_equals(call->id, slice_of(monitor_problems[i].code)))
            code = monitor_problems[i].code;
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
    if (note->len > NOTE_BYTES_MAX)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, NOTE_BYTES_MAX,
                              "'note' has %zu bytes but may have %d", note->len,
                              (int)NOTE_BYTES_MAX);
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
    if (!http_fields_have(fields, OPTION_FOR) || fields->for_ms > SILENCE_MS_MAX) {
        http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, 0,
                            "'for' must be a time up to 30d, as in ?for=8h");
    } else if (!read_note(call, &scratch, &note, &fault)) {
        http_answer_fault(call->exchange, &fault);
    } else {
        int64_t now_ms = clock_wall_ms();
        struct silence *silence =
            silence_new(call->id, topic, note, call->caller->name, now_ms, now_ms + fields->for_ms);
        note_audit(call, fields->for_ms, note);
        if (silences_add(silences_of(call), silence, http_answer_start(call->exchange)))
            http_answer_end_json(call->exchange, 200);
        else
            http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, SILENCES_MAX,
                                "there are %d silences already: remove one", (int)SILENCES_MAX);
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
    bool was_there = silences_remove(silences, call->id, topic, clock_wall_ms());
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
