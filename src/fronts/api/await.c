#include "api/await.h"

#include "api/job_json.h"
#include "api/routes.h"
#include "base/json_write.h"
#include "http/quota.h"
#include "http/route.h"
#include "queue/ends.h"
#include "queue/status.h"

#include <assert.h>
#include <stdlib.h>

enum {
    AWAIT_BYTES = 1024,      /* of a wait for one job, counted in the budget */
    RESULTS_BYTES = 16 << 20 /* of the answer about many jobs, after which results are left out */
};

/* ---- beginning a wait ---- */

static void refuse_to_wait(struct http_exchange *exchange)
{
    uint32_t max = exchange->front->options.waiting_max;
    http_answer_problem(exchange, PROBLEM_TOO_MANY_WAITING, max,
                        "already %u calls wait, which is the limit: call without wait, or try "
                        "again later",
                        max);
}

/* Returns whether the call may wait; if not, it is answered. */
static bool may_wait(struct http_call *call, size_t bytes)
{
    struct http_exchange *exchange = call->exchange;
    struct http_fault fault;
    struct queue_info info = {0};
    queue_info(call->front->queue, &info);
    if (!info.awaits) {
        http_answer_refusal(exchange, QUEUE_UNSUPPORTED, NULL, 0);
        return false;
    }
    if (http_budget_is_spent(call->front)) {
        http_answer_problem(exchange, PROBLEM_TOO_MUCH_MEMORY, 0,
                            "requests use as much memory as they may: call without wait, or try "
                            "again later");
        return false;
    }
    if (!http_quota_wait(exchange, &fault)) {
        http_answer_fault(exchange, &fault);
        return false;
    }
    http_gate_wait(exchange, call->caller, bytes);
    return true;
}

static struct ends_order order_of(struct http_call *call, const struct queue_find *names,
                                  size_t count, int64_t wait_ms, ends_done *done)
{
    return (struct ends_order){
        .names = names,
        .count = count,
        /* A started millisecond counts as a whole one, so that no wait ends too early. */
        .wait_ms = wait_ms + 1,
        .done = done,
        .owner = call->front,
        .tag = http_exchange_tag(call->exchange)};
}

static void begin(struct http_call *call, const struct ends_order *order)
{
    struct http_exchange *exchange = call->exchange;
    int64_t now_ms = http_front_now_ms(call->front);
    exchange->ends = ends_wait(call->front->ends, order, now_ms);
    if (exchange->ends)
        http_front_wake_by(call->front, now_ms + order->wait_ms);
    else
        refuse_to_wait(exchange);
}

/* Returns the exchange of a wait that has ended, or NULL: it is gone, or its caller may no longer see the answer. */
static struct http_exchange *ended_exchange(struct http_front *front, uint64_t tag)
{
    struct http_exchange *exchange = http_exchange_find(front, tag);
    if (!exchange)
        return NULL;
    exchange->ends = NULL;
    if (exchange->caller && !http_gate_holds(exchange)) {
        http_gate_refuse_ended(exchange);
        return NULL;
    }
    return exchange;
}

/* ---- one job ---- */

/* At the end of the note, after the topic and the id. The note begins with the subject of the call. */
struct noted_job {
    queue_done *on_got;
    size_t topic_bytes, id_bytes;
};

static bool note_job(struct http_call *call, queue_done *on_got)
{
    struct buffer *note = &call->exchange->note;
    struct noted_job noted = {on_got, call->topic.len, call->id.len};
    http_front_lend(call->front, note);
    buffer_append_slice(note, call->topic);
    buffer_append_slice(note, call->id);
    buffer_append(note, &noted, sizeof noted);
    return !note->failed;
}

/* Takes the job off the note, so that a refusal quotes only the subject. The name stays valid until
 * something is appended to the note. */
static struct queue_find take_noted(struct http_exchange *exchange, queue_done **on_got)
{
    struct buffer *note = &exchange->note;
    struct noted_job noted;
    assert(note->len >= sizeof noted);
    const char *end = note->at + note->len - sizeof noted;
    memcpy(&noted, end, sizeof noted);
    const char *id = end - noted.id_bytes, *topic = id - noted.topic_bytes;
    note->len = (size_t)(topic - note->at);
    *on_got = noted.on_got;
    return (struct queue_find){slice_make(topic, noted.topic_bytes),
                               slice_make(id, noted.id_bytes)};
}

/* Answers with the present state of the job. */
static void get_noted(struct http_exchange *exchange)
{
    queue_done *on_got;
    struct queue_find name = take_noted(exchange, &on_got);
    queue_get_finished(exchange->front->queue, name.topic, name.id,
                       http_exchange_reply_to(exchange, on_got));
}

static void refuse_noted(struct http_exchange *exchange, enum queue_status status)
{
    queue_done *on_got;
    (void)take_noted(exchange, &on_got);
    http_answer_refusal(exchange, status, NULL, 0);
}

static enum api_view view_of(const struct http_exchange *exchange)
{
    return exchange->bodies == HTTP_BODIES_BASE64 ? API_VIEW_EXACT
           : exchange->bodies == HTTP_BODIES_NONE ? API_VIEW_LISTED
                                                  : API_VIEW_WHOLE;
}

static void on_job_ended(void *owner, uint64_t tag, const struct ends_job *jobs, size_t count)
{
    struct http_exchange *exchange = ended_exchange(owner, tag);
    (void)count;
    if (!exchange)
        return;
    if (jobs->job && jobs->job->end) {
        api_job_write(http_answer_start(exchange), jobs->job, view_of(exchange));
        http_answer_end_json(exchange, 200);
    } else if (jobs->status == QUEUE_OK || jobs->status == QUEUE_CANCELLED) {
        get_noted(exchange); /* dead, or the end of the wait */
    } else {
        refuse_noted(exchange, jobs->status);
    }
}

void api_await_job(struct http_call *call, queue_done *on_got)
{
    const struct queue_find name = {call->topic, call->id};
    struct ends_order order = order_of(call, &name, 1, call->query->fields.wait_ms, on_job_ended);
    if (!note_job(call, on_got))
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    else if (!job_topic_is_valid(name.topic) || !job_id_is_valid(name.id))
        get_noted(call->exchange); /* its refusal */
    else if (may_wait(call, AWAIT_BYTES))
        begin(call, &order);
}

/* ---- push and wait ---- */

/* A push with a wait, from its call to the reply of the queue. */
struct push_waiting {
    struct http_front *front;
    uint64_t tag;
    struct ends_wait *wait;
};

/*
 * The rule of what a producer sees of the job for which its push waits. The job of this id may be another producer's, and a
 * job that replaces it may be, too. So meta, errors, consumer and result need the scope to read or to consume the topic;
 * the scope to push is enough for the state and the outcome. The body is left out in any case.
 */
static enum api_view view_of_pushed(const struct http_call *call, struct slice topic)
{
    return access_may_as_any(call->caller, ACCESS_READ | ACCESS_CONSUME, topic) ? API_VIEW_RESULT
                                                                                : API_VIEW_OUTCOME;
}

static void write_pushed(struct http_exchange *exchange, const struct queue_job *job,
                         enum api_view view)
{
    struct buffer *out = http_answer_start(exchange);
    api_job_write(out, job, view);
    http_answer_end_json(exchange, job->end ? 201 : 202);
}

/* Answers with the present state, after the wait. */
static void answer_pushed(struct http_front *front, uint64_t tag, const struct queue_reply *reply,
                          enum api_view view)
{
    struct http_exchange *exchange = http_exchange_find(front, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK || !reply->job_count)
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
    else
        write_pushed(exchange, &reply->jobs[0], view);
}

static void on_pushed_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    answer_pushed(owner, tag, reply, API_VIEW_RESULT);
}

static void on_pushed_got_outcome(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    answer_pushed(owner, tag, reply, API_VIEW_OUTCOME);
}

/* Answers that the push had happened before. Its job is gone. */
static void answer_known(struct http_exchange *exchange)
{
    queue_done *on_got;
    struct queue_find name = take_noted(exchange, &on_got);
    struct buffer *body = http_answer_start(exchange);
    buffer_append_byte(body, '{');
    api_result_members_write(
        body, &(struct queue_result){.status = QUEUE_EXISTED, .topic = name.topic, .id = name.id});
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static void answer_ended(struct http_front *front, uint64_t tag, const struct ends_job *job,
                         enum api_view view)
{
    struct http_exchange *exchange = ended_exchange(front, tag);
    if (!exchange)
        return;
    if (job->job && job->job->end)
        write_pushed(exchange, job->job, view);
    else if (job->status == QUEUE_EXISTED)
        answer_known(exchange);
    else if (job->status == QUEUE_OK || job->status == QUEUE_CANCELLED)
        get_noted(exchange);
    else
        refuse_noted(exchange, job->status);
}

static void on_pushed_ended(void *owner, uint64_t tag, const struct ends_job *jobs, size_t count)
{
    (void)count;
    answer_ended(owner, tag, jobs, API_VIEW_RESULT);
}

static void on_pushed_ended_outcome(void *owner, uint64_t tag, const struct ends_job *jobs,
                                    size_t count)
{
    (void)count;
    answer_ended(owner, tag, jobs, API_VIEW_OUTCOME);
}

static void on_push_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct push_waiting *waiting = owner;
    struct http_front *front = waiting->front;
    const struct queue_result *result = reply->result_count ? reply->results : NULL;
    bool awaits = result && queue_push_awaits(result);
    struct http_exchange *exchange = http_exchange_find(front, waiting->tag);
    bool is_waiting = exchange && exchange->ends == waiting->wait; /* not answered yet */
    (void)tag;
    if (result && queue_push_is_known(result)) {
        ends_pushed_before(waiting->wait);
        free(waiting);
        return;
    }
    if (is_waiting && !awaits)
        exchange->ends = NULL;
    ends_pushed(waiting->wait, awaits);
    free(waiting);
    if (!is_waiting || awaits)
        return;
    if (!result)
        refuse_noted(exchange, reply->status);
    else if (result->status == QUEUE_EXISTED)
        get_noted(exchange); /* finished already */
    else
        http_answer_result(exchange, result);
}

void api_await_push(struct http_call *call, struct queue_push *push)
{
    const struct queue_find name = {push->topic, push->id};
    struct http_exchange *exchange = call->exchange;
    bool sees_results = view_of_pushed(call, push->topic) == API_VIEW_RESULT;
    struct ends_order order = order_of(call, &name, 1, call->query->fields.wait_ms,
                                       sees_results ? on_pushed_ended : on_pushed_ended_outcome);
    if (!job_topic_is_valid(push->topic) || !job_id_is_valid(push->id)) {
        http_answer_refusal(
            exchange, job_topic_is_valid(push->topic) ? QUEUE_BAD_ID : QUEUE_BAD_TOPIC, NULL, 0);
        return;
    }
    struct push_waiting *waiting = malloc(sizeof *waiting);
    if (!waiting || !note_job(call, sees_results ? on_pushed_got : on_pushed_got_outcome)) {
        free(waiting);
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    if (!may_wait(call, AWAIT_BYTES)) {
        free(waiting);
        return;
    }
    int64_t now_ms = http_front_now_ms(call->front);
    struct ends_wait *wait = ends_wait_push(call->front->ends, &order, now_ms, &push->ended);
    if (!wait) {
        free(waiting);
        refuse_to_wait(exchange);
        return;
    }
    exchange->ends = wait;
    *waiting = (struct push_waiting){call->front, http_exchange_tag(exchange), wait};
    http_front_wake_by(call->front, now_ms + order.wait_ms);
    struct queue_reply_to reply_to = http_reply_to(call, on_push_reply);
    reply_to.owner = waiting;
    queue_push(call->front->queue, push, 1, reply_to);
}

/* ---- many jobs: POST /v1/wait ---- */

struct wait_request {
    struct queue_find names[ENDS_JOBS_MAX];
    size_t count;
    bool any;
};

static bool bad_item(struct http_fault *fault)
{
    return http_fault_set(fault, PROBLEM_BAD_ITEM, 0,
                          "an item of 'jobs' must be an object such as "
                          "{\"topic\":\"mail\",\"id\":\"1\"}");
}

static bool read_name(struct http_call *call, struct json_value item, struct queue_find *out,
                      struct http_fault *fault)
{
    struct buffer *arena = &call->front->arena;
    struct json_value topic = {0}, id = {0};
    if (item.kind != JSON_OBJECT)
        return bad_item(fault);
    topic = json_member(item, "topic");
    id = json_member(item, "id");
    if (topic.kind != JSON_STRING || id.kind != JSON_STRING)
        return bad_item(fault);
    if (!json_string_bytes(topic.raw, arena, &out->topic) ||
        !json_string_bytes(id.raw, arena, &out->id))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!job_topic_is_valid(out->topic) || !job_id_is_valid(out->id))
        return http_fault_set(fault, PROBLEM_BAD_ITEM, 0,
                              "an item of 'jobs' has an invalid topic or id");
    return http_gate_allows(call->front, call->caller, call->exchange->route, out->topic, fault);
}

static bool read_names(struct http_call *call, struct json_value jobs, struct wait_request *request,
                       struct http_fault *fault)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    if (jobs.kind != JSON_ARRAY)
        return http_fault_set(
            fault, PROBLEM_BAD_JSON, 0,
            "'jobs' must be an array such as [{\"topic\":\"mail\",\"id\":\"1\"}]");
    while (json_next_item(jobs, &cursor, &item)) {
        if (request->count == ENDS_JOBS_MAX)
            return http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, ENDS_JOBS_MAX,
                                  "too many jobs in one call, at most %d: make several calls",
                                  ENDS_JOBS_MAX);
        if (!read_name(call, item, &request->names[request->count], fault))
            return false;
        request->count++;
    }
    return request->count ||
           http_fault_set(fault, PROBLEM_OPTION_MISSING, 0, "'jobs' is empty, name at least one");
}

static bool read_request(struct http_call *call, struct wait_request *request,
                         struct http_fault *fault)
{
    static const char *const beside[] = {"jobs", "for", NULL};
    struct slice body = call->request->body, key;
    struct buffer *arena = &call->front->arena;
    struct json_value object, value, jobs = {0};
    struct json_cursor cursor = {0};
    size_t error_at;
    buffer_clear(arena);
    if (!buffer_reserve(arena, body.len + 1))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!json_check(body, &object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "the body must be {\"jobs\":[...]}");
    while (json_next_member(object, &cursor, &key, &value)) {
        if (json_string_is(key, "jobs") && !jobs.kind) {
            jobs = value;
        } else if (json_string_is(key, "for")) {
            request->any = value.kind == JSON_STRING && json_string_is(value.raw, "any");
            if (!request->any && !(value.kind == JSON_STRING && json_string_is(value.raw, "all")))
                return http_fault_set(fault, PROBLEM_BAD_OPTION, 0, "'for' must be all or any");
        } else if (!http_option_set_member(&call->query->fields, OPTION_BIT(OPTION_WAIT), beside,
                                           key, value, arena, fault)) {
            return false;
        }
    }
    if (!jobs.kind)
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0,
                              "'jobs' is missing, write {\"jobs\":[{\"topic\":\"mail\","
                              "\"id\":\"1\"}]}");
    return read_names(call, jobs, request, fault);
}

/* Adds a job that has not ended. `state` is 0 if it is unknown. */
static void add_state(struct http_exchange *exchange, struct slice topic, struct slice id,
                      enum job_state state)
{
    struct buffer *note = &exchange->note;
    if (exchange->route->format) {
        exchange->route->format->add_job(
            note, &(struct queue_job){.job = {.topic = topic, .id = id, .state = state}}, false);
        return;
    }
    buffer_append_text(note, note->len ? ",{\"topic\":" : "{\"topic\":");
    json_write_string(note, topic);
    buffer_append_text(note, ",\"id\":");
    json_write_string(note, id);
    buffer_append_text(note, ",\"state\":\"");
    buffer_append_text(note, state ? job_state_name(state) : "unknown");
    buffer_append_text(note, "\"}");
}

static void add_job(struct http_exchange *exchange, const struct queue_job *job)
{
    struct buffer *note = &exchange->note;
    const struct http_format *format = exchange->route->format;
    if (format) {
        size_t before = note->len;
        if (exchange->bodies == HTTP_BODIES_BASE64)
            format->add_job(note, job, true);
        else
            format->add_ended(note, job);
        if (!http_format_keeps(format, note, before))
            format->add_job(note, job, false);
        return;
    }
    if (note->len)
        buffer_append_byte(note, ',');
    api_job_write(note, job, note->len < RESULTS_BYTES ? view_of(exchange) : API_VIEW_LISTED);
}

static void answer_with_note(struct http_exchange *exchange)
{
    const struct http_format *format = exchange->route->format;
    struct buffer *body = format ? format->begin(exchange) : http_answer_start(exchange);
    if (format) {
        buffer_append_slice(body, buffer_slice(&exchange->note));
        body->failed |= exchange->note.failed;
        format->end(exchange, (struct slice){0});
        return;
    }
    buffer_append_text(body, "{\"jobs\":[");
    buffer_append_slice(body, buffer_slice(&exchange->note));
    buffer_append_text(body, "]}");
    body->failed |= exchange->note.failed;
    http_answer_end_json(exchange, 200);
}

/* The look-ups of jobs that do not live: each is kept, or unknown. Freed with the last reply. */
struct kept_lookup {
    struct http_front *front;
    uint64_t tag;
    size_t left;
    size_t counted; /* of the answer so far, in the budget */
    struct kept_name {
        struct kept_lookup *lookup;
        size_t topic_bytes, id_bytes;
        char text[JOB_TOPIC_BYTES_MAX + JOB_ID_BYTES_MAX];
    } names[];
};

static void on_kept(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    const struct kept_name *name = owner;
    struct kept_lookup *lookup = name->lookup;
    struct http_exchange *exchange = http_exchange_find(lookup->front, lookup->tag);
    (void)tag;
    if (exchange && reply->job_count)
        add_job(exchange, &reply->jobs[0]);
    else if (exchange)
        add_state(exchange, slice_make(name->text, name->topic_bytes),
                  slice_make(name->text + name->topic_bytes, name->id_bytes), (enum job_state)0);
    budget_recount(&lookup->front->shared->budget, &lookup->counted,
                   exchange && lookup->left > 1 ? exchange->note.cap : 0);
    if (--lookup->left)
        return;
    free(lookup);
    if (exchange)
        answer_with_note(exchange);
}

static void look_up_kept(struct http_exchange *exchange, struct kept_lookup *lookup)
{
    struct queue *queue = exchange->front->queue;
    size_t count = lookup->left;
    for (size_t i = 0; i < count; i++) { /* the last reply frees it, and may come at once */
        struct kept_name *name = &lookup->names[i];
        queue_get_finished(queue, slice_make(name->text, name->topic_bytes),
                           slice_make(name->text + name->topic_bytes, name->id_bytes),
                           (struct queue_reply_to){.done = on_kept, .owner = name});
    }
}

static void note_kept(struct kept_lookup *lookup, const struct queue_result *result)
{
    struct kept_name *name = &lookup->names[lookup->left++];
    name->lookup = lookup;
    name->topic_bytes = result->topic.len;
    name->id_bytes = result->id.len;
    memcpy(name->text, result->topic.at, result->topic.len);
    memcpy(name->text + result->topic.len, result->id.at, result->id.len);
}

/* Adds the states of the jobs that have not ended behind the others, which are in the note. */
static void on_found(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    size_t absent = 0;
    if (!exchange)
        return;
    for (size_t i = 0; i < reply->result_count; i++)
        absent += reply->results[i].status != QUEUE_OK;
    struct kept_lookup *lookup =
        absent ? malloc(sizeof *lookup + absent * sizeof lookup->names[0]) : NULL;
    if (absent && !lookup) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    if (lookup)
        *lookup =
            (struct kept_lookup){.front = exchange->front, .tag = http_exchange_tag(exchange)};
    for (size_t i = 0; i < reply->result_count; i++) {
        const struct queue_result *result = &reply->results[i];
        if (result->status == QUEUE_OK)
            add_state(exchange, result->topic, result->id, result->state);
        else
            note_kept(lookup, result);
    }
    if (lookup)
        look_up_kept(exchange, lookup);
    else
        answer_with_note(exchange);
}

static void on_jobs_ended(void *owner, uint64_t tag, const struct ends_job *jobs, size_t count)
{
    struct http_exchange *exchange = ended_exchange(owner, tag);
    struct queue_find *left = exchange ? malloc(count * sizeof *left) : NULL;
    size_t left_count = 0;
    if (!exchange)
        return;
    if (!left) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    struct buffer *note = &exchange->note;
    http_front_lend(exchange->front, note);
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].job) {
            add_job(exchange, jobs[i].job);
        } else {
            left[left_count++] = (struct queue_find){jobs[i].topic, jobs[i].id};
        }
    }
    if (left_count)
        queue_find(exchange->front->queue, left, left_count,
                   http_exchange_reply_to(exchange, on_found));
    else
        on_found(exchange->front, tag, &(struct queue_reply){0});
    free(left);
}

void api_await_jobs(struct http_call *call, const struct queue_find *names, size_t count, bool any)
{
    struct ends_order order =
        order_of(call, names, count, call->query->fields.wait_ms, on_jobs_ended);
    order.any = any;
    if (may_wait(call, AWAIT_BYTES + count * (AWAIT_BYTES / 2)))
        begin(call, &order);
}

static void await_jobs(struct http_call *call)
{
    struct http_fault fault;
    struct wait_request *request = calloc(1, sizeof *request);
    call->exchange->bodies = call->query->fields.bodies;
    if (!request) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    if (!read_request(call, request, &fault))
        http_answer_fault(call->exchange, &fault);
    else
        api_await_jobs(call, request->names, request->count, request->any);
    free(request);
}

const struct http_route api_await_routes[] = {
    {.method = HTTP_METHOD_POST,
     .pattern = "/v1/wait",
     .name = "wait",
     .handle = await_jobs,
     .options = OPTION_BIT(OPTION_WAIT) | OPTION_BIT(OPTION_BODY),
     .body = HTTP_BODY_SMALL,
     .answer = HTTP_ANSWER_TAKE,
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_EACH},
    {0},
};
