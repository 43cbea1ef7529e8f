/* Applies a whole set of schedules: each is created, replaced or left as it is; with `prune`, those
 * of the owner that are missing from the set are deleted. If one belongs to another owner, nothing is
 * changed, unless the call takes it over. */
#include "base/json_write.h"
#include "cadence/change.h"
#include "queue/status.h"

#include <stdlib.h>

/* A change waits for the store several times, so many changes of a set run side by side. */
enum { SET_MAX = 1000, PAGE = 100, SET_RUNNING_MAX = 100 };

struct set_item {
    char name[SPEC_NAME_BYTES_MAX + 1];
    size_t text_at, text_bytes;     /* in `texts` */
    size_t result_at, result_bytes; /* in `results`; no bytes: none */
    bool is_deleted;
    bool is_new, is_same; /* the look-up found no schedule, or the same one */
};

struct set {
    struct http_front *front;
    uint64_t tag;
    struct buffer texts, results, cursor;
    struct set_item *items;
    size_t count, room;
    size_t seen;           /* schedules whose owner is looked up, before the first change */
    size_t begun, running; /* changes, or look-ups */
    char owner[SPEC_OWNER_BYTES_MAX + 1];
    bool prune, take_over;
    struct http_fault fault;   /* of a look-up */
    enum queue_status refusal; /* of a look-up that failed, or 0 */
    uint64_t faults;
};

static void set_next(struct set *set);

static void set_free(struct set *set)
{
    buffer_fini(&set->texts);
    buffer_fini(&set->results);
    buffer_fini(&set->cursor);
    free(set->items);
    free(set);
}

/* ---- reading the set ---- */

static struct set_item *set_find(const struct set *set, struct slice name)
{
    for (size_t i = 0; i < set->count; i++)
        if (slice_is(name, set->items[i].name))
            return &set->items[i];
    return NULL;
}

static struct set_item *set_add(struct set *set, struct slice name)
{
    if (set->count == set->room) {
        size_t room = set->room ? 2 * set->room : 64;
        struct set_item *items = realloc(set->items, room * sizeof *items);
        if (!items)
            return NULL;
        set->items = items;
        set->room = room;
    }
    struct set_item *item = &set->items[set->count++];
    *item = (struct set_item){0};
    memcpy(item->name, name.at, name.len);
    return item;
}

/* Appends the object, with the owner of the set unless it has one. */
static void set_add_text(struct set *set, struct set_item *item, struct json_value object)
{
    struct slice raw = object.raw;
    bool has_owner = json_member(object, "owner").kind != JSON_NONE;
    item->text_at = set->texts.len;
    if (set->owner[0] && !has_owner) {
        struct json_cursor cursor = {0};
        struct json_value value;
        struct slice key;
        bool is_empty = !json_next_member(object, &cursor, &key, &value);
        buffer_append_text(&set->texts, "{\"owner\":");
        json_write_string(&set->texts, slice_of(set->owner));
        if (!is_empty)
            buffer_append_byte(&set->texts, ',');
        raw = slice_make(raw.at + 1, raw.len - 1);
    }
    buffer_append_slice(&set->texts, raw);
    item->text_bytes = set->texts.len - item->text_at;
}

/* Puts the name of a schedule before a fault. */
static bool set_name_fault(struct slice name, struct http_fault *fault)
{
    struct http_fault why = *fault;
    return http_fault_set(fault, why.problem, why.limit, "schedule '%s': %.400s",
                          http_quotable(name, 60), why.detail);
}

/* Checks a schedule as a put does. */
static bool set_check(struct set *set, struct http_exchange *exchange, const struct set_item *item,
                      struct stored *stored, struct http_fault *fault)
{
    struct slice text = slice_make(set->texts.at + item->text_at, item->text_bytes);
    struct slice name = slice_of(item->name);
    struct json_value object;
    const struct zone *zone;
    char error[SPEC_ERROR_BYTES] = "";
    if (!json_check(text, &object, NULL))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "it is nested too deeply");
    if (!stored_accept(stored, name, object, set->front->shared->hooks, fault))
        return false;
    if (set->owner[0] && !slice_is(stored->spec.owner, set->owner))
        return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0,
                              "'owner' differs from the owner '%s' of the set, use one",
                              set->owner);
    if (!zones_find(cadence_front_of(set->front)->zones, stored->spec.zone, &zone, error) ||
        !spec_check(&stored->spec, zone, queue_wall_ms(set->front->queue), error))
        return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0, "%s", error);
    return http_gate_allows(set->front, exchange->caller, exchange->route, stored->push.topic,
                            fault);
}

static bool set_read_item(struct set *set, struct http_exchange *exchange, struct json_value value,
                          struct http_fault *fault)
{
    struct json_value given = json_member(value, "name");
    struct slice name = {0};
    struct buffer scratch;
    struct set_item *item = NULL;
    bool done;
    buffer_init(&scratch, 4096);
    if (given.kind != JSON_STRING || given.raw.len > 1000 ||
        !json_string_bytes(given.raw, &scratch, &name) || !spec_name_is_valid(name))
        done = http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0,
                              "schedule %zu of the set lacks a valid 'name': use 1 to %d printable "
                              "ASCII characters without blanks and '@'",
                              set->count + 1, (int)SPEC_NAME_BYTES_MAX);
    else if (set_find(set, name))
        done = http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0,
                              "the set has two schedules with the name '%s': give each its own "
                              "name, nothing was changed",
                              http_quotable(name, 60));
    else if (set->count == SET_MAX || !(item = set_add(set, name)))
        done = http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, SET_MAX,
                              "a set has at most %d schedules: apply several sets with owners of "
                              "their own",
                              SET_MAX);
    else {
        struct stored *stored = stored_new();
        set_add_text(set, item, value);
        done = stored && !set->texts.failed
                   ? set_check(set, exchange, item, stored, fault) || set_name_fault(name, fault)
                   : http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
        stored_free(stored);
    }
    buffer_fini(&scratch);
    return done;
}

static bool set_read(struct set *set, struct http_exchange *exchange, struct slice body,
                     struct http_fault *fault)
{
    struct json_value list, item;
    struct json_cursor cursor = {0};
    size_t error_at = 0;
    if (!json_check(body, &list, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (list.kind == JSON_OBJECT)
        list = json_member(list, "schedules");
    if (list.kind != JSON_ARRAY)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be {\"schedules\":[…]}, each with its 'name'");
    while (json_next_item(list, &cursor, &item))
        if (!set_read_item(set, exchange, item, fault))
            return false;
    return true;
}

/* ---- applying it ---- */

static bool set_allows(void *ctx, uint64_t tag, struct slice topic, struct http_fault *fault)
{
    struct set *set = ctx;
    struct http_exchange *exchange = http_exchange_find(set->front, set->tag);
    (void)tag;
    if (!exchange)
        return http_fault_set(fault, PROBLEM_CONNECTION_ENDED, 0, "the client is gone");
    return http_gate_allows(set->front, exchange->caller, exchange->route, topic, fault);
}

/* Appends the results in the order of the set. */
static void set_append_results(const struct set *set, struct buffer *body)
{
    bool is_first = true;
    for (size_t i = 0; i < set->count; i++) {
        const struct set_item *item = &set->items[i];
        if (!item->result_bytes)
            continue;
        if (!is_first)
            buffer_append_byte(body, ',');
        buffer_append(body, set->results.at + item->result_at, item->result_bytes);
        is_first = false;
    }
}

static void set_answer(struct set *set)
{
    struct http_exchange *exchange = http_exchange_find(set->front, set->tag);
    if (exchange && set->results.failed) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    } else if (exchange) {
        struct buffer *body = http_answer_start(exchange);
        buffer_append_text(body, "{\"results\":[");
        set_append_results(set, body);
        buffer_append_text(body, "],\"failed\":");
        buffer_append_u64(body, set->faults);
        buffer_append_byte(body, '}');
        http_answer_end_json(exchange, set->faults ? 409 : 200);
    }
    set_free(set);
}

/* Stores the result of an item. */
static void set_note(struct set *set, struct set_item *item, const struct change_result *result)
{
    bool is_good = !result->has_fault && queue_status_is_success(result->status);
    item->result_at = set->results.len;
    buffer_append_text(&set->results, "{\"name\":");
    json_write_string(&set->results, slice_of(item->name));
    buffer_append_text(&set->results, ",\"result\":\"");
    buffer_append_text(&set->results, result->has_fault ? http_problem_code(result->fault.problem)
                                      : item->is_deleted && is_good
                                          ? "deleted"
                                          : queue_status_code(result->status));
    buffer_append_byte(&set->results, '"');
    if (!is_good) {
        buffer_append_text(&set->results, ",\"detail\":");
        json_write_string(&set->results,
                          slice_of(result->has_fault ? result->fault.detail
                                                     : queue_status_sentence(result->status)));
        set->faults++;
    }
    buffer_append_byte(&set->results, '}');
    item->result_bytes = set->results.len - item->result_at;
}

static void on_changed(void *ctx, uint64_t tag, const struct change_result *result)
{
    struct set *set = ctx;
    struct set_item *item = &set->items[tag];
    set->running--;
    if (!item->is_deleted || result->status != QUEUE_NOT_FOUND)
        set_note(set, item, result);
    set_next(set);
}

static bool set_begin(struct set *set, size_t i)
{
    const struct set_item *item = &set->items[i];
    const struct change_order order = {
        .verb = item->is_deleted ? CHANGE_DELETE : CHANGE_PUT,
        .name = slice_of(item->name),
        .text = slice_make(set->texts.at + item->text_at, item->text_bytes),
        .owner = item->is_deleted ? set->owner : NULL,
        .is_new = item->is_new,
        .take_over = set->take_over,
        .allows = set_allows,
        .done = on_changed,
        .ctx = set,
        .tag = i};
    return change_begin(set->front, &order);
}

/* Begins the next changes. Answers after the last one. */
static void set_next(struct set *set)
{
    const struct change_result same = {.status = QUEUE_EXISTED};
    while (!set->results.failed && set->begun < set->count && set->running < SET_RUNNING_MAX) {
        if (set->items[set->begun].is_same)
            set_note(set, &set->items[set->begun], &same);
        else if (!set_begin(set, set->begun))
            set->results.failed = true;
        else
            set->running++;
        set->begun++;
    }
    if (!set->running)
        set_answer(set);
}

/* ---- schedules of other owners ---- */

static void set_list(struct set *set);
static void set_look(struct set *set);

/* Returns whether a look-up has failed or found another owner, so that nothing may be changed. */
static bool set_is_refused(const struct set *set)
{
    return set->refusal || set->fault.problem;
}

/* Compares a schedule with the item, and its owner. A caller that may not use its topic learns nothing here; the change
 * is rejected later. */
static void set_compare(struct set *set, struct set_item *item, struct slice body)
{
    const struct http_hooks *hooks = set->front->shared->hooks;
    struct stored *before = stored_new(), *after = stored_new();
    struct http_fault ignored, *fault = &set->fault;
    struct json_value object;
    struct slice text = slice_make(set->texts.at + item->text_at, item->text_bytes);
    if (!before || !after)
        (void)http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory, nothing was changed");
    else if (!stored_read(before, slice_of(item->name), body, hooks))
        (void)change_refuse_unreadable(slice_of(item->name), fault);
    else if (json_check(text, &object, NULL) &&
             stored_accept(after, slice_of(item->name), object, hooks, fault) &&
             set_allows(set, 0, before->push.topic, &ignored))
        item->is_same = change_keeps_owner(slice_of(item->name), before, after, fault) &&
                        stored_equals(before, after);
    stored_free(before);
    stored_free(after);
}

static void on_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct set *set = owner;
    set->running--;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND)
        set->refusal = reply->status;
    else if (reply->status == QUEUE_NOT_FOUND || !reply->job_count)
        set->items[tag].is_new = true;
    else if (!set_is_refused(set))
        set_compare(set, &set->items[tag], reply->jobs[0].job.body);
    set_look(set);
}

/* Looks up the schedules of the set. Afterwards the changes begin, unless one belongs to another owner or could not be
 * looked up. */
static void set_look(struct set *set)
{
    while (!set_is_refused(set) && set->seen < set->count && set->running < SET_RUNNING_MAX) {
        set->running++;
        set->seen++;
        queue_get(
            set->front->queue, slice_of(SCHEDULES_TOPIC), slice_of(set->items[set->seen - 1].name),
            (struct queue_reply_to){.done = on_looked_up, .owner = set, .tag = set->seen - 1});
    }
    if (set->running)
        return;
    struct http_exchange *exchange = http_exchange_find(set->front, set->tag);
    if (set_is_refused(set) || !exchange) {
        if (exchange && set->refusal)
            http_answer_refusal(exchange, set->refusal, NULL, 0);
        else if (exchange)
            http_answer_fault(exchange, &set->fault);
        set_free(set);
    } else if (set->prune) {
        set_list(set);
    } else {
        set_next(set);
    }
}

/* ---- schedules of the owner that are missing from the set ---- */

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct set *set = owner;
    struct http_exchange *exchange = http_exchange_find(set->front, set->tag);
    (void)tag;
    if (!exchange || (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND)) {
        if (exchange)
            http_answer_refusal(exchange, reply->status, NULL, 0);
        set_free(set);
        return;
    }
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct job *job = &reply->jobs[i].job;
        struct stored *stored = stored_new();
        struct set_item *item = NULL;
        bool is_left = stored &&
                       stored_read(stored, job->id, job->body, set->front->shared->hooks) &&
                       slice_is(stored->spec.owner, set->owner) && !set_find(set, job->id);
        if (is_left && (item = set_add(set, job->id)))
            item->is_deleted = true;
        set->results.failed |= !stored || (is_left && !item);
        stored_free(stored);
    }
    buffer_clear(&set->cursor);
    buffer_append_slice(&set->cursor, reply->cursor);
    if (set->results.failed)
        set_answer(set);
    else if (set->cursor.len)
        set_list(set);
    else
        set_next(set);
}

static void set_list(struct set *set)
{
    const struct queue_list list = {.topic = slice_of(SCHEDULES_TOPIC),
                                    .limit = PAGE,
                                    .cursor = buffer_slice(&set->cursor),
                                    .with_body = true};
    queue_list(set->front->queue, &list, (struct queue_reply_to){.done = on_listed, .owner = set});
}

/* ---- the call ---- */

static struct set *set_new(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->front = call->front;
    set->tag = http_exchange_tag(call->exchange);
    set->prune = fields->prune;
    set->take_over = fields->take_over;
    (void)slice_copy(fields->owner, set->owner, sizeof set->owner);
    buffer_init(&set->texts, 4 * (call->request->body.len + 1) + 256 * SET_MAX);
    buffer_init(&set->results, 1 << 20);
    buffer_init(&set->cursor, 1024);
    return set;
}

static void apply_set(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    struct http_fault fault = {0};
    if (call->query->fields.prune && !call->query->fields.owner.len) {
        http_answer_problem(exchange, PROBLEM_OPTION_MISSING, 0,
                            "'prune' requires 'owner': name the application whose schedules are "
                            "the set");
        return;
    }
    http_gate_keep(exchange, call->caller);
    struct set *set = set_new(call);
    if (!set) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    } else if (!set_read(set, exchange, call->request->body, &fault)) {
        http_answer_fault(exchange, &fault);
        set_free(set);
    } else {
        if (set->take_over) /* their owners do not matter */
            set->seen = set->count;
        set_look(set);
    }
}

const struct http_route cadence_set_routes[] = {
    {.method = HTTP_METHOD_PUT,
     .pattern = "/v1/schedules",
     .name = "schedules_put",
     .audit = "schedules applied",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_EACH,
     .handle = apply_set,
     .options = OPTION_BIT(OPTION_OWNER) | OPTION_BIT(OPTION_PRUNE) | OPTION_BIT(OPTION_TAKE_OVER),
     .body = HTTP_BODY_BATCH},
    {0},
};
