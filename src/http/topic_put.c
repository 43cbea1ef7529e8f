/* A topic's settings: replaced as a whole, or changed by a merge patch. */
#include "http/delivery.h"
#include "http/private.h"
#include "http/settings.h"

#include <assert.h>

/* What an exchange keeps in its note while the topic is looked up; behind it topic and text. */
struct noted {
    struct topic_settings settings; /* put; its extension is the text */
    size_t topic_bytes, text_bytes; /* patch: the text is the patch */
};

static void fail(struct http_exchange *exchange, const struct http_fault *fault)
{
    http_answer_fault(exchange, fault);
}

static void send_put(struct http_exchange *exchange, struct slice topic,
                     const struct topic_settings *settings)
{
    struct queue *queue = exchange->front->queue;
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT, .topic = topic, .settings = *settings};
    queue_topic(queue, &put,
                (struct queue_reply_to){.done = http_answer_topic,
                                        .owner = exchange->front,
                                        .tag = http_exchange_tag(exchange)});
}

static void look_up(struct http_call *call, struct noted noted, struct slice text,
                    queue_done *looked_up)
{
    struct queue *queue = call->front->queue;
    struct buffer *note = &call->exchange->note;
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = call->topic};
    struct http_fault fault;
    noted.topic_bytes = call->topic.len;
    noted.text_bytes = text.len;
    http_front_lend(call->front, note);
    buffer_append(note, &noted, sizeof noted);
    buffer_append_slice(note, call->topic);
    buffer_append_slice(note, text);
    if (note->failed) {
        (void)http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
        fail(call->exchange, &fault);
        return;
    }
    queue_topic(queue, &get, http_reply_to(call, looked_up));
}

static struct noted read_note(const struct http_exchange *exchange, struct slice *topic,
                              struct slice *text)
{
    struct noted noted;
    const char *at = exchange->note.at + sizeof noted;
    assert(exchange->note.len >= sizeof noted);
    memcpy(&noted, exchange->note.at, sizeof noted);
    *topic = slice_make(at, noted.topic_bytes);
    *text = slice_make(at + noted.topic_bytes, noted.text_bytes);
    return noted;
}

/* What the topic has already is right: it was checked when it came, and a policy that changed since
 * (or is missing) is no reason to refuse another setting, or the same once more. */
static bool check_extension(struct http_exchange *exchange, struct slice topic,
                            const struct topic_settings *settings, struct slice held,
                            struct http_fault *fault)
{
    return slice_equals(settings->extension, held) ||
           http_extension_check(exchange->front->shared->hooks, topic, settings->extension, fault);
}

/* ---- put ---- */

static void on_put_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    struct slice topic, extension, held = {0};
    struct http_fault fault;
    if (!exchange)
        return;
    struct noted noted = read_note(exchange, &topic, &extension);
    noted.settings.extension = extension;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return;
    }
    if (reply->status == QUEUE_OK && reply->topic_count)
        held = reply->topics[0].settings.extension;
    if (check_extension(exchange, topic, &noted.settings, held, &fault))
        send_put(exchange, topic, &noted.settings);
    else
        fail(exchange, &fault);
}

/* Settings may stand in the query, or in a JSON object as `GET` shows them. */
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
    return http_settings_read(body, &call->query->fields, arena, extension, fault);
}

void http_topic_put(struct http_call *call)
{
    struct buffer extension;
    struct noted noted = {0};
    struct http_fault fault;
    buffer_init(&extension, HTTP_EXTENSION_TEXT_MAX);
    http_change_begin(call, "topic settings changed", false);
    if (!read_settings(call, &extension, &fault)) {
        fail(call->exchange, &fault);
    } else {
        http_fields_settings(&call->query->fields, &noted.settings);
        if (extension.len)
            look_up(call, noted, buffer_slice(&extension), on_put_looked_up);
        else
            send_put(call->exchange, call->topic, &noted.settings);
    }
    buffer_fini(&extension);
}

/* ---- patch ---- */

/* The settings as they will be. Their extension is in `extension`. */
static bool merge(const struct topic_settings *held, struct slice patch, struct buffer *merged,
                  struct buffer *extension, struct topic_settings *out, struct http_fault *fault)
{
    struct http_fields fields = {0};
    struct buffer scratch;
    buffer_init(&scratch, 2 * HTTP_PATCH_BYTES_MAX);
    bool done = buffer_reserve(&scratch, 2 * HTTP_PATCH_BYTES_MAX) != NULL ||
                http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    done = done && http_settings_patch(held, patch, merged, fault) &&
           http_settings_read(buffer_slice(merged), &fields, &scratch, extension, fault);
    if (done)
        http_fields_settings(&fields, out);
    buffer_fini(&scratch);
    return done;
}

static void patch(struct http_exchange *exchange, const struct topic_settings *held)
{
    struct slice topic, text;
    struct topic_settings settings;
    struct buffer merged, extension;
    struct http_fault fault;
    (void)read_note(exchange, &topic, &text);
    buffer_init(&merged, 2 * HTTP_PATCH_BYTES_MAX);
    buffer_init(&extension, HTTP_EXTENSION_TEXT_MAX);
    bool done = merge(held, text, &merged, &extension, &settings, &fault);
    settings.extension = buffer_slice(&extension);
    if (done && check_extension(exchange, topic, &settings, held->extension, &fault))
        send_put(exchange, topic, &settings);
    else
        fail(exchange, &fault);
    buffer_fini(&merged);
    buffer_fini(&extension);
}

static void on_patch_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK || !reply->topic_count)
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
    else
        patch(exchange, &reply->topics[0].settings);
}

void http_topic_patch(struct http_call *call)
{
    struct slice body = call->request->body;
    struct http_fault fault;
    if (body.len > HTTP_PATCH_BYTES_MAX) {
        (void)http_fault_set(&fault, PROBLEM_BODY_TOO_BIG, HTTP_PATCH_BYTES_MAX,
                             "a patch of settings has at most %d bytes", HTTP_PATCH_BYTES_MAX);
        fail(call->exchange, &fault);
        return;
    }
    http_change_begin(call, "topic settings changed", false);
    look_up(call, (struct noted){0}, body, on_patch_looked_up);
}
