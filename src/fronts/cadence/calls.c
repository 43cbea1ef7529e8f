/* The calls that change one schedule: put, patch, delete, pause, resume, run, backfill. */
#include "base/json_write.h"
#include "cadence/change.h"
#include "cadence/view.h"
#include "queue/status.h"

#include <stdio.h>
#include <stdlib.h>

enum { BACKFILL_MAX = 1000, ONCE_FOR_MS = 3600 * 1000 };

/* ---- names, rights, answers ---- */

/* Keeps the name and the caller for later steps. Answers a call with an invalid name. */
static bool begin(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    if (!spec_name_is_valid(call->id)) {
        http_answer_problem(exchange, PROBLEM_BAD_SCHEDULE, 0,
                            "bad name '%s' of a schedule: use 1 to %d printable ASCII characters "
                            "without blanks and '@'",
                            http_quotable(call->id, 60), (int)SPEC_NAME_BYTES_MAX);
        return false;
    }
    http_front_lend(exchange->front, &exchange->note);
    buffer_append_slice(&exchange->note, call->id);
    http_gate_keep(exchange, call->caller);
    return true;
}

static struct slice name_of(const struct http_exchange *exchange)
{
    return buffer_slice(&exchange->note);
}

static bool allows(void *ctx, uint64_t tag, struct slice topic, struct http_fault *fault)
{
    struct http_front *front = ctx;
    struct http_exchange *exchange = http_exchange_find(front, tag);
    if (!exchange)
        return http_fault_set(fault, PROBLEM_CONNECTION_ENDED, 0, "the client is gone");
    return http_gate_allows(front, exchange->caller, exchange->route, topic, fault);
}

static void on_changed(void *ctx, uint64_t tag, const struct change_result *result)
{
    struct http_exchange *exchange = http_exchange_find(ctx, tag);
    if (!exchange)
        return;
    if (result->has_fault) {
        http_answer_fault(exchange, &result->fault);
    } else if (result->status == QUEUE_NOT_FOUND) {
        cadence_answer_no_schedule(exchange, name_of(exchange));
    } else if (!queue_status_is_success(result->status)) {
        http_answer_refusal(exchange, result->status, NULL, 0);
    } else {
        if (result->status == QUEUE_EXISTED)
            http_change_drop(exchange);
        struct buffer *body = http_answer_start(exchange);
        bool is_deleted = exchange->route->verb == CHANGE_DELETE;
        buffer_append_text(body, "{\"name\":");
        json_write_string(body, name_of(exchange));
        buffer_append_text(body, ",\"result\":\"");
        buffer_append_text(body, is_deleted ? "deleted" : queue_status_code(result->status));
        buffer_append_byte(body, '"');
        if (!is_deleted) {
            buffer_append_text(body, ",\"next\":");
            if (result->next_ms)
                json_write_time(body, result->next_ms);
            else
                buffer_append_text(body, "null");
            buffer_append_text(body, result->is_paused ? ",\"paused\":true" : ",\"paused\":false");
        }
        buffer_append_byte(body, '}');
        http_answer_end_json(exchange, result->status == QUEUE_CREATED ? 201 : 200);
    }
}

/* Handles put, patch, delete, pause and resume. The verb of the route is the enum change_verb. */
static void change_schedule(struct http_call *call)
{
    if (!begin(call))
        return;
    const struct change_order order = {.verb = (enum change_verb)call->exchange->route->verb,
                                       .name = call->id,
                                       .text = call->request->body,
                                       .pause_ms = call->query->fields.for_ms,
                                       .take_over = call->query->fields.take_over,
                                       .allows = allows,
                                       .done = on_changed,
                                       .ctx = call->front,
                                       .tag = http_exchange_tag(call->exchange)};
    if (!change_begin(call->front, &order))
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0,
                            "out of memory, nothing was changed");
}

/* ---- run and backfill: pushes besides the plan ---- */

static void on_run(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    if (!exchange)
        return;
    const struct queue_result *result = reply->results;
    if (!queue_status_is_success(result->status)) {
        http_answer_result(exchange, result);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"name\":");
    json_write_string(body, name_of(exchange));
    buffer_append_text(body, ",\"result\":\"");
    buffer_append_text(body, result->status == QUEUE_EXISTED ? "overlap" : "fired");
    buffer_append_text(body, "\",\"topic\":");
    json_write_string(body, result->topic);
    buffer_append_text(body, ",\"job\":");
    json_write_string(body, result->id);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static void on_run_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    struct stored *stored = exchange ? cadence_read_reply(exchange, reply) : NULL;
    if (!stored)
        return;
    int64_t now_ms = queue_wall_ms(exchange->front->queue);
    const struct decision_fire now = {
        .at_ms = now_ms, .due_ms = now_ms, .once_for_ms = ONCE_FOR_MS};
    struct stored_fire fire;
    stored_fire_init(&fire, stored, name_of(exchange), &now);
    if (fire.push.on_conflict == CONFLICT_REPLACE) /* no holder is asked to end */
        fire.push.on_conflict = CONFLICT_AFTER;
    queue_push(exchange->front->queue, &fire.push, 1, http_exchange_reply_to(exchange, on_run));
    stored_fire_fini(&fire);
    stored_free(stored);
}

static void run_schedule(struct http_call *call)
{
    if (begin(call))
        queue_get(call->front->queue, slice_of(SCHEDULES_TOPIC), call->id,
                  http_reply_to(call, on_run_looked_up));
}

/* The values of a backfill while the schedule is read, after the name in the note. */
struct backfill {
    int64_t from_ms, to_ms, pace_ms;
};

static void on_backfilled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    uint64_t pushed = 0, existed = 0;
    if (!exchange)
        return;
    for (size_t i = 0; i < reply->result_count; i++) {
        enum queue_status status = reply->results[i].status;
        if (!queue_status_is_success(status)) {
            http_answer_stopped(exchange, status, pushed);
            return;
        }
        pushed += status != QUEUE_EXISTED;
        existed += status == QUEUE_EXISTED;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"result\":\"ok\",\"pushed\":");
    buffer_append_u64(body, pushed);
    buffer_append_text(body, ",\"existed\":");
    buffer_append_u64(body, existed);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

/* Finds the fires of the span. Returns their number, or BACKFILL_MAX + 1 if there are more. */
static size_t backfill_find(const struct schedule *schedule, const struct backfill *backfill,
                            struct decision_fire *out)
{
    int64_t after_ms = backfill->from_ms - 1;
    struct timetable_fire fire;
    enum timetable_found found;
    size_t count = 0;
    while ((found = timetable_next(&schedule->spec->table, schedule->zone, after_ms, &fire)) !=
               TIMETABLE_NONE &&
           fire.at_ms <= backfill->to_ms) {
        after_ms = found == TIMETABLE_FIRE ? fire.at_ms : fire.at_ms - 1;
        if (found == TIMETABLE_LATER)
            continue;
        if (count == BACKFILL_MAX)
            return BACKFILL_MAX + 1;
        out[count++] = (struct decision_fire){.at_ms = fire.at_ms, .once_for_ms = ONCE_FOR_MS};
    }
    return count;
}

static void backfill_push(struct http_exchange *exchange, const struct stored *stored,
                          struct slice name, struct decision_fire *decided, size_t count,
                          int64_t pace_ms)
{
    struct stored_fire *fires = calloc(count, sizeof *fires);
    struct queue_push *pushes = calloc(count, sizeof *pushes);
    int64_t now_ms = queue_wall_ms(exchange->front->queue);
    if (!fires || !pushes) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory, nothing was pushed");
        free(fires);
        free(pushes);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        decided[i].due_ms = now_ms + (int64_t)i * pace_ms;
        stored_fire_init(&fires[i], stored, name, &decided[i]);
        fires[i].push.id = slice_of(fires[i].id); /* each fire is a job of its own */
        fires[i].push.on_conflict = CONFLICT_KEEP;
        pushes[i] = fires[i].push;
    }
    queue_push(exchange->front->queue, pushes, count,
               http_exchange_reply_to(exchange, on_backfilled));
    for (size_t i = 0; i < count; i++)
        stored_fire_fini(&fires[i]);
    free(fires);
    free(pushes);
}

static void on_backfill_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    char error[ZONES_ERROR_BYTES];
    struct backfill backfill;
    if (!exchange)
        return;
    memcpy(&backfill, exchange->note.at + exchange->note.len - sizeof backfill, sizeof backfill);
    exchange->note.len -= sizeof backfill; /* the name is left */
    struct stored *stored = cadence_read_reply(exchange, reply);
    if (!stored)
        return;
    struct schedule schedule = {.name = name_of(exchange), .spec = &stored->spec};
    struct decision_fire *fires = calloc(BACKFILL_MAX, sizeof *fires);
    size_t count = 0;
    if (!fires)
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory, nothing was pushed");
    else if (!zones_find(cadence_front_of(exchange->front)->zones, stored->spec.zone,
                         &schedule.zone, error))
        http_answer_problem(exchange, PROBLEM_BAD_SCHEDULE, 0, "%s", error);
    else if ((count = backfill_find(&schedule, &backfill, fires)) > BACKFILL_MAX)
        http_answer_problem(exchange, PROBLEM_TOO_MANY_ITEMS, BACKFILL_MAX,
                            "the span has more than %d fires: make it shorter, nothing was pushed",
                            BACKFILL_MAX);
    else if (!count)
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "no fire of the schedule is from 'from' to 'to': choose another span");
    else
        backfill_push(exchange, stored, schedule.name, fires, count, backfill.pace_ms);
    free(fires);
    stored_free(stored);
}

static void backfill_schedule(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct backfill backfill = {.from_ms = fields->from_ms,
                                .to_ms = fields->to_ms,
                                .pace_ms =
                                    http_fields_have(fields, OPTION_PACE) ? fields->pace_ms : 1000};
    if (!http_fields_have(fields, OPTION_FROM) || !http_fields_have(fields, OPTION_TO)) {
        http_answer_problem(call->exchange, PROBLEM_OPTION_MISSING, 0,
                            "'from' and 'to' are required: give two times such as "
                            "2026-11-20T09:00:00Z");
        return;
    }
    if (backfill.to_ms < backfill.from_ms || backfill.to_ms > queue_wall_ms(call->front->queue)) {
        http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, 0,
                            "'to' must be after 'from' and not in the future");
        return;
    }
    if (!begin(call))
        return;
    buffer_append(&call->exchange->note, &backfill, sizeof backfill);
    if (call->exchange->note.failed)
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    else
        queue_get(call->front->queue, slice_of(SCHEDULES_TOPIC), call->id,
                  http_reply_to(call, on_backfill_looked_up));
}

/* ---- routes ---- */

#define PATH "/v1/schedules/{id}"
#define CHANGE(METHOD, PATTERN, NAME, VERB, AUDIT)                                                 \
    .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = (NAME), .audit = (AUDIT),        \
    .scope = ACCESS_PUSH, .topics = HTTP_TOPICS_EACH, .handle = change_schedule,                   \
    .verb = CHANGE_##VERB

const struct http_route cadence_call_routes[] = {
    {CHANGE(PUT, PATH, "schedule_put", PUT, "schedule set"),
     .options = OPTION_BIT(OPTION_TAKE_OVER), .body = HTTP_BODY_SMALL},
    {CHANGE(PATCH, PATH, "schedule_patch", PATCH, "schedule changed"),
     .options = OPTION_BIT(OPTION_TAKE_OVER), .body = HTTP_BODY_SMALL},
    {CHANGE(DELETE, PATH, "schedule_delete", DELETE, "schedule deleted")},
    {CHANGE(POST, PATH "/pause", "schedule_pause", PAUSE, "schedule paused"),
     .options = OPTION_BIT(OPTION_FOR)},
    {CHANGE(POST, PATH "/resume", "schedule_resume", RESUME, "schedule resumed")},
    {.method = HTTP_METHOD_POST,
     .pattern = PATH "/run",
     .name = "schedule_run",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_EACH,
     .handle = run_schedule},
    {.method = HTTP_METHOD_POST,
     .pattern = PATH "/backfill",
     .name = "schedule_backfill",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_EACH,
     .handle = backfill_schedule,
     .options = OPTION_BIT(OPTION_FROM) | OPTION_BIT(OPTION_TO) | OPTION_BIT(OPTION_PACE)},
    {0},
};
