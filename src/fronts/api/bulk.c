#include "api/bulk.h"

#include "api/job_json.h"
#include "api/routes.h"
#include "api/state.h"
#include "api/sweep.h"
#include "net/reactor.h"
#include "queue/filter.h"
#include "queue/status.h"

#include <stdlib.h>

enum { REDRIVES_AT_ONCE = 200, CHANGES_AT_ONCE = 200 };

/* ---- the body: {"ids":[…]}, and next to it the options of the call ---- */

bool api_bulk_is_named(struct slice body)
{
    struct json_value object;
    return body.len && json_check(body, &object, NULL) && json_member(object, "ids").kind;
}

struct ids_reading {
    struct http_call *call;
    struct slice *ids; /* room for QUEUE_BATCH_MAX */
    uint32_t count;
    struct http_fault *fault;
};

static bool read_id(struct ids_reading *reading, struct json_value value)
{
    if (reading->count == QUEUE_BATCH_MAX)
        return http_fault_set(reading->fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                              "too many ids in one call, at most %d: make several calls",
                              QUEUE_BATCH_MAX);
    if (value.kind != JSON_STRING)
        return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0, "an id must be a string");
    return json_string_bytes(value.raw, &reading->call->front->arena,
                             &reading->ids[reading->count++]) ||
           http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

static bool read_ids(struct ids_reading *reading, struct json_value ids)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    if (!ids.kind)
        return http_fault_set(reading->fault, PROBLEM_OPTION_MISSING, 0,
                              "'ids' is missing, write {\"ids\":[\"...\"]}");
    if (ids.kind != JSON_ARRAY)
        return http_fault_set(reading->fault, PROBLEM_BAD_JSON, 0,
                              "'ids' must be an array such as [\"...\"]");
    while (json_next_item(ids, &cursor, &item))
        if (!read_id(reading, item))
            return false;
    return true;
}

static bool read_body(struct ids_reading *reading)
{
    static const char *const beside[] = {"ids", NULL};
    struct http_call *call = reading->call;
    struct json_value object, value, ids = {0};
    struct json_cursor cursor = {0};
    struct slice key, body = call->request->body;
    size_t error_at;
    struct buffer *arena = &call->front->arena;

    buffer_clear(arena);
    if (!buffer_reserve(arena, body.len + 1))
        return http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!body.len)
        return read_ids(reading, ids);
    if (!json_check(body, &object, &error_at))
        return http_fault_set(reading->fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu",
                              error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(reading->fault, PROBLEM_BAD_JSON, 0,
                              "the body must be {\"ids\":[\"...\"]}");
    while (json_next_member(object, &cursor, &key, &value)) {
        if (json_string_is(key, "ids") && !ids.kind)
            ids = value;
        else if (!http_option_set_member(&call->query->fields, call->exchange->route->options,
                                         beside, key, value, arena, reading->fault))
            return false;
    }
    return http_fields_check(&call->query->fields, reading->fault) && read_ids(reading, ids);
}

static bool read_call(struct ids_reading *reading)
{
    struct api_front *api = api_front_of(reading->call->front);
    if (!api->ids)
        api->ids = calloc(QUEUE_BATCH_MAX, sizeof *api->ids);
    reading->ids = api->ids;
    return reading->ids ? read_body(reading)
                        : http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

/* ---- results, in the order of the ids ---- */

static void write_result(struct buffer *out, const struct queue_result *result)
{
    buffer_append_byte(out, '{');
    api_result_members_write(out, result);
    if (!queue_status_is_success(result->status))
        http_refusal_members_write(out, result->status, result->detail, 0, 0);
    buffer_append_byte(out, '}');
}

static void answer_results(struct http_exchange *exchange, const struct queue_result *results,
                           size_t count)
{
    struct buffer *out = http_answer_start(exchange);
    buffer_append_text(out, "{\"results\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_append_byte(out, ',');
        write_result(out, &results[i]);
    }
    buffer_append_text(out, "]}");
    http_answer_end_json(exchange, 200);
}

/* ---- cancel, run, reschedule ---- */

/* Fills in the change that applies to each job. */
static bool change_of(const struct http_call *call, struct queue_change *out,
                      struct http_fault *fault)
{
    const struct http_fields *fields = &call->query->fields;
    *out = (struct queue_change){
        .verb = (enum queue_change_verb)call->exchange->route->verb,
        .topic = call->topic,
        .when = http_fields_when(fields, QUEUE_DUE_UNCHANGED),
        .priority = http_fields_have(fields, OPTION_PRIORITY) ? (int32_t)fields->priority
                                                              : QUEUE_PRIORITY_UNSET,
        .request = fields->request,
    };
    static const http_options moves =
        OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_AT) | OPTION_BIT(OPTION_PRIORITY);
    return out->verb != QUEUE_RESCHEDULE || (fields->set & moves) ||
           http_fault_set(fault, PROBLEM_OPTION_MISSING, 0,
                          "nothing to change: give 'delay', 'at' or 'priority'");
}

/* A change of many jobs in progress. The queue gets CHANGES_AT_ONCE of them at a time, the next ones after the reply, so
 * that other clients of the loop do not wait for all of them. Each group of a large call is a piece of a task, so
 * several groups are carried out in one iteration only while it is not late. */
struct bulk_change {
    struct reactor_task task;
    struct list list; /* in api_front.changes, while a piece waits */
    struct http_front *front;
    bool is_submitting;        /* within a piece, so a reply does not free it */
    bool is_replied;           /* within that piece */
    enum queue_status refusal; /* of the call as a whole; QUEUE_OK if the call was valid */
    uint64_t tag;
    struct queue_change change;
    uint32_t count, next; /* `next` of them are done */
    struct slice *ids;
    struct buffer results;
    char text[];
};

static void bulk_change_free(struct bulk_change *bulk)
{
    buffer_fini(&bulk->results);
    free(bulk->ids);
    free(bulk);
}

/* Adds the results of a group, and of the rest if the queue refused the group as a whole. */
static void note_changed(struct bulk_change *bulk, const struct queue_reply *reply)
{
    const struct queue_result refused = {.status = reply->status};
    size_t count = reply->status == QUEUE_OK ? reply->result_count : bulk->count - bulk->next;
    for (size_t i = 0; i < count; i++) {
        if (bulk->results.len)
            buffer_append_byte(&bulk->results, ',');
        write_result(&bulk->results, reply->status == QUEUE_OK ? &reply->results[i] : &refused);
    }
    bulk->next += (uint32_t)count;
}

static void bulk_change_answer(struct bulk_change *bulk, struct http_exchange *exchange)
{
    struct buffer *out = http_answer_start(exchange);
    buffer_append_text(out, "{\"results\":[");
    buffer_append_slice(out, buffer_slice(&bulk->results));
    buffer_append_text(out, "]}");
    out->failed |= bulk->results.failed;
    http_answer_end_json(exchange, 200);
    bulk_change_free(bulk);
}

/* Answers the call if all of its groups are done. Returns whether more is left; if not, the call is freed. */
static bool bulk_change_has_more(struct bulk_change *bulk)
{
    struct http_exchange *exchange = http_exchange_find(bulk->front, bulk->tag);
    bulk->is_replied = false;
    if (bulk->refusal != QUEUE_OK) {
        http_exchange_let_go(exchange);
        http_answer_refusal(exchange, bulk->refusal, NULL, 0);
        bulk_change_free(bulk);
        return false;
    }
    if (bulk->next < bulk->count)
        return true;
    bulk_change_answer(bulk, exchange);
    return false;
}

/* Gives the next group to the queue at the end of the iteration. */
static void bulk_change_add(struct bulk_change *bulk)
{
    list_add_last(&api_front_of(bulk->front)->changes, &bulk->list);
    reactor_add_task(bulk->front->reactor, &bulk->task);
}

static void on_changed(void *owner, uint64_t tag, const struct queue_reply *reply);

static void change_some(struct bulk_change *bulk)
{
    struct queue_change changes[CHANGES_AT_ONCE];
    struct http_exchange *exchange = http_exchange_find(bulk->front, bulk->tag);
    uint32_t left = bulk->count - bulk->next;
    uint32_t count = left < CHANGES_AT_ONCE ? left : CHANGES_AT_ONCE;
    for (uint32_t i = 0; i < count; i++) {
        changes[i] = bulk->change;
        changes[i].id = bulk->ids[bulk->next + i];
    }
    if (count == left)
        http_exchange_let_go(exchange);
    struct queue_reply_to reply_to = http_exchange_reply_to(exchange, on_changed);
    reply_to.owner = bulk;
    queue_change(bulk->front->queue, changes, count, reply_to);
}

static bool bulk_change_piece(struct reactor_task *task)
{
    struct bulk_change *bulk = list_entry(task, struct bulk_change, task);
    list_remove(&bulk->list);
    bulk->is_submitting = true;
    change_some(bulk);
    bulk->is_submitting = false;
    if (!bulk->is_replied || !bulk_change_has_more(bulk))
        return false;
    list_add_last(&api_front_of(bulk->front)->changes, &bulk->list);
    return true;
}

void api_changes_end(struct http_front *front)
{
    struct list *changes = &api_front_of(front)->changes;
    while (!list_is_empty(changes)) {
        struct bulk_change *bulk = list_entry(changes->next, struct bulk_change, list);
        list_remove(&bulk->list);
        reactor_remove_task(&bulk->task);
        bulk_change_free(bulk);
    }
}

static void on_changed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct bulk_change *bulk = owner;
    (void)tag;
    if (!bulk->next && reply->status != QUEUE_OK)
        bulk->refusal = reply->status;
    else
        note_changed(bulk, reply);
    if (bulk->is_submitting)
        bulk->is_replied = true;
    else if (bulk_change_has_more(bulk))
        bulk_change_add(bulk);
}

/* Copies the topic and the ids, which are needed after the handler. Returns NULL if out of memory. */
static struct bulk_change *bulk_change_new(const struct ids_reading *reading,
                                           const struct queue_change *change)
{
    size_t bytes = change->topic.len;
    for (uint32_t i = 0; i < reading->count; i++)
        bytes += reading->ids[i].len;
    struct bulk_change *bulk = calloc(1, sizeof *bulk + bytes);
    struct slice *ids = calloc(reading->count, sizeof *ids);
    if (!bulk || !ids) {
        free(bulk);
        free(ids);
        return NULL;
    }
    char *at = bulk->text;
    bulk->task.piece = bulk_change_piece;
    list_init(&bulk->task.list);
    list_init(&bulk->list);
    bulk->refusal = QUEUE_OK;
    bulk->front = reading->call->front;
    bulk->tag = http_exchange_tag(reading->call->exchange);
    bulk->change = *change;
    bulk->change.topic = queue_text_copy(&at, change->topic);
    bulk->count = reading->count;
    bulk->ids = ids;
    buffer_init(&bulk->results, SIZE_MAX / 2);
    for (uint32_t i = 0; i < reading->count; i++)
        ids[i] = queue_text_copy(&at, reading->ids[i]);
    return bulk;
}

static bool change_all(const struct ids_reading *reading)
{
    struct http_call *call = reading->call;
    struct queue_change change;
    if (!change_of(call, &change, reading->fault))
        return false;
    if (!reading->count) {
        answer_results(call->exchange, NULL, 0);
        return true;
    }
    struct bulk_change *bulk = bulk_change_new(reading, &change);
    if (!bulk)
        return http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (reading->count <= CHANGES_AT_ONCE) {
        change_some(bulk);
        return true;
    }
    http_gate_keep(call->exchange, call->caller);
    http_exchange_hold_back(call->exchange);
    bulk_change_add(bulk);
    return true;
}

#define OPTIONS_SWEEP (OPTIONS_WAITING | OPTION_BIT(OPTION_MAX) | OPTION_BIT(OPTION_DRY_RUN))

/* A filter may also be a member of the body, next to the ids. */
static bool check_no_filter(const struct ids_reading *reading)
{
    return !(reading->call->query->fields.set & OPTIONS_SWEEP) ||
           http_fault_set(reading->fault, PROBLEM_OPTION_CLASH, 0,
                          "'ids' and a filter are both given: choose one");
}

/* ---- by a filter ---- */

static enum sweep_verb sweep_verb_of(enum queue_change_verb verb)
{
    return verb == QUEUE_CANCEL       ? SWEEP_CANCEL
           : verb == QUEUE_RESCHEDULE ? SWEEP_RESCHEDULE
                                      : SWEEP_RUN;
}

/* Sets which jobs are examined, by `state`. A ready job needs no run. */
static bool read_scope(const struct http_call *call, struct sweep_order *order,
                       struct http_fault *fault)
{
    enum job_state state = call->query->fields.state;
    bool is_run = order->verb == SWEEP_RUN;
    if (!state)
        order->scope = is_run ? SWEEP_DELAYED : SWEEP_WAITING;
    else if (state == JOB_DELAYED)
        order->scope = SWEEP_DELAYED;
    else if (state == JOB_READY && !is_run)
        order->scope = SWEEP_READY;
    else
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0, "'state' is '%s' but must be %s: %s",
                              job_state_name(state), is_run ? "delayed" : "delayed or ready",
                              state == JOB_READY  ? "a ready job needs no run"
                              : state == JOB_DEAD ? "redrive or purge dead jobs"
                                                  : "leased jobs are changed by their ids");
    return true;
}

/* Checks a change by a filter. The numbers in its answer show which jobs exist, so it needs the scope of a list. */
static bool check_sweep(const struct http_call *call, struct http_fault *fault)
{
    static const struct http_route list = {.scope = ACCESS_READ};
    const struct http_fields *fields = &call->query->fields;
    if (!http_gate_allows(call->front, call->caller, &list, call->topic, fault))
        return false;
    if (fields->request)
        return http_fault_set(fault, PROBLEM_OPTION_CLASH, 0,
                              "'request' and a filter are both given: a filter selects waiting "
                              "jobs, so give the ids of leased ones");
    return (fields->set & OPTIONS_WAITING) ||
           http_fault_set(fault, PROBLEM_OPTION_MISSING, 0,
                          "a filter is missing: give 'id_prefix', 'meta', 'due_after', "
                          "'due_before' or 'state'");
}

static void sweep_jobs(struct http_call *call)
{
    static const char *const actions[] = {[QUEUE_CANCEL] = "jobs cancelled",
                                          [QUEUE_RESCHEDULE] = "jobs rescheduled",
                                          [QUEUE_RUN] = "jobs run"};
    struct http_fault fault;
    struct queue_change change;
    http_change_begin(call->exchange, actions[call->exchange->route->verb], call->caller,
                      call->topic);
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    if (!check_sweep(call, &fault) || !change_of(call, &change, &fault)) {
        http_answer_fault(call->exchange, &fault);
        return;
    }
    struct sweep_order order = {
        .verb = sweep_verb_of(change.verb), .when = change.when, .priority = change.priority};
    if (read_scope(call, &order, &fault))
        api_sweep(call, order);
    else
        http_answer_fault(call->exchange, &fault);
}

/* ---- calls ---- */

/* Handles changes to many jobs. The verb of the route is the enum queue_change_verb. */
static void change_jobs(struct http_call *call)
{
    struct http_fault fault;
    struct ids_reading reading = {.call = call, .fault = &fault};
    bool has_filter = call->query->fields.set & OPTIONS_SWEEP;
    if (!job_topic_is_valid(call->topic)) { /* the queue checks the topic only if there are ids */
        http_answer_refusal(call->exchange, QUEUE_BAD_TOPIC, NULL, 0);
    } else if (has_filter && !api_bulk_is_named(call->request->body)) {
        if (api_sweep_has_no_body(call))
            sweep_jobs(call);
    } else if (!read_call(&reading) || !check_no_filter(&reading) || !change_all(&reading)) {
        http_answer_fault(call->exchange, &fault);
    }
}

/* ---- redrive ---- */

/* A redrive in progress. A queue redrives one job by its id, or all jobs. So the jobs are redriven
 * one by one, a few at the same time. */
struct bulk_redrive {
    struct http_front *front;
    uint64_t tag;
    struct slice topic;
    uint32_t count, next, under_way;
    struct queue_result *results;
    char text[];
};

static void redrive_some(struct bulk_redrive *redrive);

static void redrive_finish(struct bulk_redrive *redrive)
{
    struct http_exchange *exchange = http_exchange_find(redrive->front, redrive->tag);
    uint64_t jobs = 0;
    for (uint32_t i = 0; i < redrive->count; i++)
        jobs += redrive->results[i].status == QUEUE_OK;
    if (exchange) {
        http_change_count(exchange, jobs);
        answer_results(exchange, redrive->results, redrive->count);
    }
    free(redrive->results);
    free(redrive);
}

/* Records the result of one job. The tag is the index of the job. */
static void on_redriven(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct bulk_redrive *redrive = owner;
    struct queue_result *result = &redrive->results[tag];
    result->status = reply->status;
    if (reply->status == QUEUE_OK && !reply->affected)
        result->status = QUEUE_NOT_FOUND;
    if (result->status == QUEUE_OK)
        result->state = JOB_READY;
    if (--redrive->under_way)
        return;
    if (redrive->next < redrive->count)
        redrive_some(redrive);
    else
        redrive_finish(redrive);
}

static void redrive_some(struct bulk_redrive *redrive)
{
    uint32_t end = redrive->count - redrive->next < REDRIVES_AT_ONCE
                       ? redrive->count
                       : redrive->next + REDRIVES_AT_ONCE;
    redrive->under_way = end - redrive->next;
    for (; redrive->next < end; redrive->next++) {
        struct queue_topic_call call = {.verb = QUEUE_TOPIC_REDRIVE,
                                        .topic = redrive->topic,
                                        .id = redrive->results[redrive->next].id};
        queue_topic(
            redrive->front->queue, &call,
            (struct queue_reply_to){.done = on_redriven, .owner = redrive, .tag = redrive->next});
    }
}

static bool redrive_begin(const struct ids_reading *reading)
{
    struct http_call *call = reading->call;
    size_t bytes = call->topic.len;
    for (uint32_t i = 0; i < reading->count; i++)
        bytes += reading->ids[i].len;
    struct bulk_redrive *redrive = calloc(1, sizeof *redrive + bytes);
    struct queue_result *results = calloc(reading->count, sizeof *results);
    if (!redrive || !results) {
        free(redrive);
        free(results);
        return http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    }
    char *at = redrive->text;
    redrive->front = call->front;
    redrive->tag = http_exchange_tag(call->exchange);
    redrive->topic = queue_text_copy(&at, call->topic);
    redrive->count = reading->count;
    redrive->results = results;
    for (uint32_t i = 0; i < reading->count; i++)
        results[i] = (struct queue_result){.topic = redrive->topic,
                                           .id = queue_text_copy(&at, reading->ids[i])};
    redrive_some(redrive);
    return true;
}

/* Returns whether all jobs have ids; a redrive without an id would apply to all jobs. */
static bool ids_are_named(const struct ids_reading *reading)
{
    for (uint32_t i = 0; i < reading->count; i++)
        if (!reading->ids[i].len)
            return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0,
                                  "an id is empty: give the ids of dead jobs");
    return true;
}

void api_bulk_redrive(struct http_call *call)
{
    struct http_fault fault;
    struct ids_reading reading = {.call = call, .fault = &fault};
    if (!job_topic_is_valid(call->topic)) {
        http_answer_refusal(call->exchange, QUEUE_BAD_TOPIC, NULL, 0);
        return;
    }
    bool done = read_call(&reading) && ids_are_named(&reading);
    if (done && call->query->fields.set)
        done = http_fault_set(&fault, PROBLEM_OPTION_CLASH, 0,
                              "'ids' and other options are both given: choose one");
    if (done && !reading.count) {
        http_change_count(call->exchange, 0);
        answer_results(call->exchange, NULL, 0);
    } else if (!done || !redrive_begin(&reading)) {
        http_answer_fault(call->exchange, &fault);
    }
}

#define BULK(PATTERN, NAME, VERB, OPTIONS)                                                         \
    {                                                                                              \
        .method = HTTP_METHOD_POST, .pattern = HTTP_TOPIC_PATH PATTERN, .name = (NAME),            \
        .handle = change_jobs, .verb = (VERB), .options = (OPTIONS) | OPTIONS_SWEEP,               \
        .body = HTTP_BODY_SMALL, .scope = ACCESS_PUSH, .topics = HTTP_TOPICS_PATH                  \
    }

const struct http_route api_bulk_routes[] = {
    BULK("/cancel", "cancel_many", QUEUE_CANCEL, OPTION_BIT(OPTION_REQUEST)),
    BULK("/run", "run_many", QUEUE_RUN, 0),
    BULK("/reschedule", "reschedule_many", QUEUE_RESCHEDULE,
         OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_AT) | OPTION_BIT(OPTION_PRIORITY)),
    {0},
};
