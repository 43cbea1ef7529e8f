/* The calls that show schedules: a list, one, and upcoming fires. */
#include "base/clock.h"
#include "base/json_write.h"
#include "cadence/front.h"
#include "cadence/view.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRES = 10, LIMIT = 100, PAGE = 100, SEEN_MAX = 20000, LIST_BYTES_MAX = 4 << 20 };

/* ---- one ---- */

static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    struct stored *stored = exchange ? cadence_read_reply(exchange, reply) : NULL;
    if (!stored)
        return;
    view_write(http_answer_start(exchange), reply->jobs[0].job.id, stored,
               queue_wall_ms(exchange->front->queue));
    http_answer_end_json(exchange, 200);
    stored_free(stored);
}

static void look_up(struct http_call *call, queue_done *done)
{
    struct http_exchange *exchange = call->exchange;
    http_front_lend(call->front, &exchange->note);
    buffer_append_slice(&exchange->note, call->id);
    http_gate_keep(exchange, call->caller);
    if (spec_name_is_valid(call->id))
        queue_get(call->front->queue, slice_of(SCHEDULES_TOPIC), call->id,
                  http_reply_to(call, done));
    else
        cadence_answer_no_schedule(exchange, call->id);
}

static void show_schedule(struct http_call *call)
{
    look_up(call, on_got);
}

/* ---- upcoming fires ---- */

/* The options of the call, after the name in the note. */
struct preview {
    int64_t from_ms;
    uint32_t count;
};

static struct preview preview_of(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    return (struct preview){
        .from_ms = http_fields_have(fields, OPTION_FROM) ? fields->from_ms
                                                         : queue_wall_ms(call->front->queue),
        .count = http_fields_have(fields, OPTION_N) ? (uint32_t)fields->n : FIRES};
}

static void answer_fires(struct http_exchange *exchange, struct slice name, const struct spec *spec,
                         const struct preview *preview)
{
    struct schedule schedule = {.name = name, .spec = spec};
    char error[ZONES_ERROR_BYTES];
    if (!zones_find(cadence_front_of(exchange->front)->zones, spec->zone, &schedule.zone, error)) {
        http_answer_problem(exchange, PROBLEM_BAD_SCHEDULE, 0, "%s", error);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"zone\":");
    json_write_string(body, spec->zone.len ? spec->zone : slice_of("UTC"));
    buffer_append_byte(body, ',');
    view_write_fires(body, &schedule, preview->from_ms, preview->count);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static void on_next_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    struct preview preview;
    if (!exchange)
        return;
    memcpy(&preview, exchange->note.at + exchange->note.len - sizeof preview, sizeof preview);
    exchange->note.len -= sizeof preview; /* the name is left */
    struct stored *stored = cadence_read_reply(exchange, reply);
    if (!stored)
        return;
    answer_fires(exchange, reply->jobs[0].job.id, &stored->spec, &preview);
    stored_free(stored);
}

static void show_next(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    struct preview preview = preview_of(call);
    if (!spec_name_is_valid(call->id)) {
        cadence_answer_no_schedule(exchange, call->id);
        return;
    }
    http_front_lend(call->front, &exchange->note);
    buffer_append_slice(&exchange->note, call->id);
    buffer_append(&exchange->note, &preview, sizeof preview);
    http_gate_keep(exchange, call->caller);
    if (exchange->note.failed)
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    else
        queue_get(call->front->queue, slice_of(SCHEDULES_TOPIC), call->id,
                  http_reply_to(call, on_next_got));
}

/* Shows the fires of a specification that is not saved. */
static void preview_next(struct http_call *call)
{
    struct stored *stored = stored_new();
    struct json_value object;
    struct http_fault fault;
    struct slice name = slice_of("preview");
    struct preview preview = preview_of(call);
    size_t error_at = 0;
    bool done = stored || http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (done &&
        (!json_check(call->request->body, &object, &error_at) || object.kind != JSON_OBJECT))
        done = http_fault_set(&fault, PROBLEM_BAD_JSON, 0,
                              "the body must be an object such as {\"cron\":\"0 9 * * *\"}; "
                              "malformed JSON at byte %zu",
                              error_at);
    if (done && stored_preview(stored, object, &name, &fault))
        answer_fires(call->exchange, name, &stored->spec, &preview);
    else
        http_answer_fault(call->exchange, &fault);
    stored_free(stored);
}

/* ---- a list ---- */

struct listing {
    struct http_front *front;
    uint64_t tag;
    struct buffer out, cursor, texts;
    struct slice prefix, topic, owner; /* in `texts` */
    uint32_t left, seen, count;
};

static void listing_free(struct listing *listing)
{
    buffer_fini(&listing->out);
    buffer_fini(&listing->cursor);
    buffer_fini(&listing->texts);
    free(listing);
}

static void listing_answer(struct listing *listing)
{
    struct http_exchange *exchange = http_exchange_find(listing->front, listing->tag);
    if (exchange && listing->out.failed) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    } else if (exchange) {
        struct buffer *body = http_answer_start(exchange);
        buffer_append_text(body, "{\"schedules\":[");
        buffer_append_slice(body, buffer_slice(&listing->out));
        buffer_append_text(body, "],\"cursor\":");
        json_write_string_or_null(body, buffer_slice(&listing->cursor));
        buffer_append_byte(body, '}');
        http_answer_end_json(exchange, 200);
    }
    listing_free(listing);
}

static bool listing_wants(const struct listing *listing, const struct http_exchange *exchange,
                          struct slice name, const struct stored *stored)
{
    struct slice prefix = listing->prefix;
    return access_may(exchange->caller, ACCESS_READ, stored->push.topic) &&
           (!prefix.len ||
            (name.len >= prefix.len && memcmp(name.at, prefix.at, prefix.len) == 0)) &&
           (!listing->topic.len || slice_equals(stored->push.topic, listing->topic)) &&
           (!listing->owner.len || slice_equals(stored->spec.owner, listing->owner));
}

static void listing_add(struct listing *listing, const struct http_exchange *exchange,
                        const struct job *job)
{
    struct stored *stored = stored_new();
    if (!stored)
        listing->out.failed = true;
    else if (stored_read(stored, job->id, job->body, listing->front->shared->hooks) &&
             listing_wants(listing, exchange, job->id, stored)) {
        if (listing->count++)
            buffer_append_byte(&listing->out, ',');
        view_write(&listing->out, job->id, stored, queue_wall_ms(listing->front->queue));
        listing->left--;
    }
    stored_free(stored);
}

static void listing_page(struct listing *listing);

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct listing *listing = owner;
    struct http_exchange *exchange = http_exchange_find(listing->front, listing->tag);
    (void)tag;
    if (!exchange) {
        listing_free(listing);
        return;
    }
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        listing_free(listing);
        return;
    }
    for (size_t i = 0; i < reply->job_count; i++)
        listing_add(listing, exchange, &reply->jobs[i].job);
    listing->seen += (uint32_t)reply->job_count;
    buffer_clear(&listing->cursor);
    buffer_append_slice(&listing->cursor, reply->cursor);
    if (listing->left && listing->cursor.len && listing->seen < SEEN_MAX && !listing->out.failed &&
        listing->out.len < LIST_BYTES_MAX / 2)
        listing_page(listing);
    else
        listing_answer(listing);
}

static void listing_page(struct listing *listing)
{
    const struct queue_list list = {.topic = slice_of(SCHEDULES_TOPIC),
                                    .limit = listing->left < PAGE ? listing->left : PAGE,
                                    .cursor = buffer_slice(&listing->cursor),
                                    .with_body = true};
    queue_list(listing->front->queue, &list,
               (struct queue_reply_to){.done = on_listed, .owner = listing});
}

static void list_schedules(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct listing *listing = calloc(1, sizeof *listing);
    struct slice topic = call->query->topic_count ? call->query->topics[0] : (struct slice){0};
    if (!listing) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    *listing = (struct listing){
        .front = call->front,
        .tag = http_exchange_tag(call->exchange),
        .left = http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : LIMIT};
    buffer_init(&listing->out, LIST_BYTES_MAX);
    buffer_init(&listing->cursor, 1024);
    buffer_init(&listing->texts, 4096);
    buffer_append_slice(&listing->cursor, fields->cursor);
    if (buffer_reserve(&listing->texts, fields->prefix.len + topic.len + fields->owner.len + 1)) {
        listing->prefix = buffer_append_copy(&listing->texts, fields->prefix);
        listing->topic = buffer_append_copy(&listing->texts, topic);
        listing->owner = buffer_append_copy(&listing->texts, fields->owner);
    }
    http_gate_keep(call->exchange, call->caller);
    listing_page(listing);
}

/* ---- routes ---- */

const struct http_route cadence_view_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/schedules",
     .name = "schedules",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN,
     .handle = list_schedules,
     .options = OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_CURSOR) | OPTION_BIT(OPTION_PREFIX) |
                OPTION_BIT(OPTION_TOPIC) | OPTION_BIT(OPTION_OWNER),
     .answer = HTTP_ANSWER_LONG},
    {.method = HTTP_METHOD_POST,
     .pattern = "/v1/schedules/next",
     .name = "schedule_preview",
     .scope = HTTP_FOR_CALLERS,
     .topics = HTTP_TOPICS_NONE,
     .handle = preview_next,
     .options = OPTION_BIT(OPTION_N) | OPTION_BIT(OPTION_FROM),
     .body = HTTP_BODY_SMALL},
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/schedules/{id}",
     .name = "schedule",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_EACH,
     .handle = show_schedule},
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/schedules/{id}/next",
     .name = "schedule_next",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_EACH,
     .handle = show_next,
     .options = OPTION_BIT(OPTION_N) | OPTION_BIT(OPTION_FROM)},
    {0},
};
