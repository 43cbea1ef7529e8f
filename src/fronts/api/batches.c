/*
 * batches: POST /v1/batches, a waiting job with its members in one call, and the list of members.
 *
 * The push is made of ordinary calls of the queue: the waiting job, then its members, then the members of these, each after the
 * reply to the level above; then the closes. So it works with every store that has batches, and a call that stopped
 * half-way may be repeated.
 */
#include "api/consumers.h"
#include "api/job_json.h"
#include "api/push.h"
#include "api/routes.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/json_levels.h"
#include "base/json_write.h"
#include "http/exchange.h"
#include "http/route.h"
#include "queue/copy.h"
#include "queue/members.h"
#include "queue/status.h"

#include <stdlib.h>

/* ---- reading ---- */

enum { LEVELS_MAX = BATCH_DEPTH_MAX + 1, BATCHED_MAX = QUEUE_BATCH_MAX, NO_PARENT = UINT16_MAX };

/* A job of the call, in the order of the body: each waiting job before its members. */
struct batched_job {
    uint64_t mark;   /* hash of its members and their members, whatever their order */
    uint16_t parent; /* index of the waiting job; NO_PARENT: the first job */
    uint16_t level;
    uint16_t members;
    bool is_done;      /* pushed, or it was there */
    bool is_known;     /* it was there */
    bool is_repeated;  /* it was there, pushed with the same members */
    bool is_unchecked; /* it was there, and its members have not been compared */
    bool is_other;     /* it was there, pushed with other members, and its batch is open */
    bool is_unmade;    /* a member of it was rejected */
    bool is_doubted; /* its batch was closed before this call: it may be a member that has ended */
    bool is_ended;   /* it is such a member */
    struct queue_result result;
};

struct batched {
    struct http_front *front;
    uint64_t tag;
    uint32_t count;
    struct batched_job jobs[BATCHED_MAX];
    struct queue_push pushes[BATCHED_MAX];
    struct queue_batch rooms[BATCHED_MAX];
    /* after the reading */
    struct buffer marks;             /* the meta of waiting jobs, until they are copied */
    struct command *copy;            /* the pushes with their texts */
    uint16_t level;                  /* that is being pushed */
    uint16_t looked_up;              /* the waiting job that is being read */
    uint16_t sent_jobs[BATCHED_MAX]; /* jobs of the call in progress */
    struct queue_push level_pushes[BATCHED_MAX];
    struct queue_change closes[BATCHED_MAX];
};

struct batched_reading {
    struct batched *batched;
    struct http_call *call;
    struct http_fault *fault;
};

/* The text of a mark: 16 digits. */
enum { MARK_BYTES = 16 };

static bool refuse_item(struct batched_reading *reading, const char *text)
{
    return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0, "%s", text);
}

/* Adds the mark of the members to the meta of a waiting job. */
static bool mark_job(struct batched_reading *reading, uint32_t index)
{
    struct queue_push *push = &reading->batched->pushes[index];
    struct buffer *meta = &reading->call->front->meta, *marks = &reading->batched->marks;
    char mark[MARK_BYTES];
    hex_emit_u64(mark, reading->batched->jobs[index].mark, MARK_BYTES);
    buffer_clear(meta);
    buffer_append_slice(meta, push->meta);
    if (job_meta_add(meta, slice_of(JOB_META_MEMBERS), slice_make(mark, sizeof mark)))
        return http_fault_set(reading->fault, PROBLEM_BAD_META, JOB_META_BYTES_MAX,
                              "the meta of a waiting job may hold at most %d pairs and %d bytes",
                              JOB_META_PAIRS_MAX - 1,
                              JOB_META_BYTES_MAX - (int)(sizeof JOB_META_MEMBERS + MARK_BYTES + 1));
    push->meta = slice_make(marks->at + marks->len, meta->len);
    buffer_append_slice(marks, buffer_slice(meta));
    return true;
}

/* Adds the marks of all waiting jobs. Their texts stay in one place, which therefore gets its room first. */
static bool mark_jobs(struct batched_reading *reading)
{
    struct batched *batched = reading->batched;
    size_t bytes = 1;
    for (uint32_t i = 0; i < batched->count; i++)
        if (batched->rooms[i].waits)
            bytes += batched->pushes[i].meta.len + sizeof JOB_META_MEMBERS + MARK_BYTES + 1;
    if (!buffer_reserve(&batched->marks, bytes))
        return http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    for (uint32_t i = 0; i < batched->count; i++)
        if (batched->rooms[i].waits && !mark_job(reading, i))
            return false;
    return true;
}

/* Sets what the place of a job in the body determines. Members are few in a chain, where a dead job stops it. */
static void place_job(struct batched *batched, uint32_t index, uint32_t members)
{
    struct batched_job *job = &batched->jobs[index];
    struct queue_push *push = &batched->pushes[index];
    struct queue_batch *room = &batched->rooms[index];
    bool is_waiting = members || index == 0;
    if (!push->batch)
        *room = (struct queue_batch){0};
    push->batch = room;
    room->waits = is_waiting;
    if (is_waiting && !room->on_dead)
        room->on_dead = members == 1 ? BATCH_HOLD : BATCH_GO;
    if (!push->on_conflict)
        push->on_conflict = CONFLICT_KEEP;
    job->members = (uint16_t)members;
    if (job->parent != NO_PARENT) {
        room->topic = batched->pushes[job->parent].topic;
        room->id = batched->pushes[job->parent].id;
    }
}

static bool read_members(struct batched_reading *reading, struct json_value members,
                         uint32_t parent, uint16_t level, uint32_t *count);

/* Reads a job and its members. `nested` are its members if they are not in the object itself. */
static bool read_batched(struct batched_reading *reading, struct json_value value,
                         struct json_value nested, uint32_t parent, uint16_t level)
{
    struct batched *batched = reading->batched;
    struct http_call *call = reading->call;
    uint32_t index = batched->count, members = 0;
    if (index == BATCHED_MAX)
        return http_fault_set(reading->fault, PROBLEM_TOO_MANY_ITEMS, BATCHED_MAX,
                              "a call has at most %d jobs: push more members with POST /v1/jobs",
                              BATCHED_MAX);
    if (level >= LEVELS_MAX)
        return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, BATCH_DEPTH_MAX,
                              "'members' are nested deeper than %d levels", BATCH_DEPTH_MAX);
    struct queue_push *push = &batched->pushes[index];
    if (!api_item_parse_nested(value, push, &batched->rooms[index], &call->front->arena,
                               &call->front->meta, call->front->shared->hooks,
                               nested.kind ? NULL : &nested, reading->fault))
        return false;
    if (!push->id.len)
        return refuse_item(reading, "'id' is missing: every job of this call needs one, so that "
                                    "the call can be repeated");
    if (push->batch && push->batch->topic.len)
        return refuse_item(reading, "'batch' follows from the place of a job in this call");
    if (!http_gate_allows(call->front, call->caller, call->exchange->route, push->topic,
                          reading->fault))
        return false;
    batched->count++;
    batched->jobs[index] = (struct batched_job){.parent = (uint16_t)parent, .level = level};
    if (nested.kind && !read_members(reading, nested, index, (uint16_t)(level + 1), &members))
        return false;
    place_job(batched, index, members);
    if (parent != NO_PARENT)
        batched->jobs[parent].mark +=
            hash_pair(push->topic, push->id, batched->jobs[index].mark).low;
    return true;
}

static bool read_members(struct batched_reading *reading, struct json_value members,
                         uint32_t parent, uint16_t level, uint32_t *count)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    if (members.kind != JSON_ARRAY)
        return refuse_item(reading, "'members' must be an array of jobs");
    while (json_next_item(members, &cursor, &item)) {
        if (!read_batched(reading, item, (struct json_value){0}, parent, level))
            return false;
        ++*count;
    }
    return true;
}

/* Reads {"job":{…},"members":[…]}. */
static bool read_body(struct batched_reading *reading)
{
    struct slice body = reading->call->request->body;
    struct buffer *arena = &reading->call->front->arena;
    struct json_value object;
    size_t error_at = 0;
    buffer_clear(arena);
    if (!buffer_reserve(arena, body.len + 1))
        return http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    enum json_finding finding = json_check_levels(body, JSON_LEVELS_MAX, &object, &error_at);
    if (finding == JSON_MALFORMED)
        return http_fault_set(reading->fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu",
                              error_at);
    if (finding == JSON_TOO_DEEP)
        return api_depth_refuse(reading->fault);
    struct json_value job = json_member(object, "job"), members = json_member(object, "members");
    if (object.kind != JSON_OBJECT || job.kind != JSON_OBJECT || members.kind != JSON_ARRAY)
        return refuse_item(reading, "the body must be an object with the waiting job and its "
                                    "members: {\"job\":{...},\"members\":[...]}");
    return read_batched(reading, job, members, NO_PARENT, 0) && mark_jobs(reading);
}

/* ---- pushing ---- */

static void batched_free(struct batched *batched)
{
    buffer_fini(&batched->marks);
    free(batched->copy);
    free(batched);
}

/* Returns whether all members of the waiting job are there, so that its batch is closed. */
static bool is_closed(const struct batched *batched)
{
    return batched->jobs[0].is_done && !batched->jobs[0].is_unmade;
}

static void write_batched(struct buffer *out, const struct batched *batched)
{
    buffer_append_text(out, "{\"results\":[");
    for (uint32_t i = 0; i < batched->count; i++) {
        const struct queue_result *result = &batched->jobs[i].result;
        if (i)
            buffer_append_byte(out, ',');
        buffer_append_byte(out, '{');
        api_result_members_write(out, result);
        if (!queue_status_is_success(result->status))
            http_refusal_members_write(out, result->status, result->detail, 0, result->limit);
        buffer_append_byte(out, '}');
    }
    buffer_append_text(out, "],\"closed\":");
    buffer_append_text(out, is_closed(batched) ? "true}" : "false}");
}

/* The same in the format of the route. */
static void answer_in_format(struct http_exchange *exchange, const struct batched *batched)
{
    const struct http_format *format = exchange->route->format;
    struct buffer *out = format->begin(exchange);
    for (uint32_t i = 0; i < batched->count; i++)
        format->add_push(exchange, out, &batched->jobs[i].result);
    format->add_closed(out, is_closed(batched));
    format->end(exchange, (struct slice){0});
}

static void batched_answer(struct batched *batched)
{
    struct http_exchange *exchange = http_exchange_find(batched->front, batched->tag);
    if (exchange) {
        http_exchange_let_go(exchange);
        if (exchange->route->format) {
            answer_in_format(exchange, batched);
        } else {
            write_batched(http_answer_start(exchange), batched);
            http_answer_end_json(exchange, 200);
        }
    }
    batched_free(batched);
}

/* Answers a call whose reply refused it as a whole. */
static void batched_refuse(struct batched *batched, enum queue_status status)
{
    struct http_exchange *exchange = http_exchange_find(batched->front, batched->tag);
    if (exchange) {
        http_exchange_let_go(exchange);
        http_answer_refusal(exchange, status, NULL, (enum job_state)0);
    }
    batched_free(batched);
}

static struct queue_reply_to reply_to_of(struct batched *batched, queue_done *done)
{
    struct http_exchange *exchange = http_exchange_find(batched->front, batched->tag);
    struct queue_reply_to reply_to = {0};
    if (exchange)
        reply_to = http_exchange_reply_to(exchange, done);
    reply_to.done = done;
    reply_to.owner = batched;
    reply_to.tag = 0;
    return reply_to;
}

static void on_closed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batched *batched = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        batched_refuse(batched, reply->status);
        return;
    }
    for (size_t i = 0; i < reply->result_count; i++) {
        struct batched_job *job = &batched->jobs[batched->sent_jobs[i]];
        /* The job may have ended since: its batch was closed by an earlier call. */
        if (reply->results[i].status != QUEUE_OK && !job->is_known)
            job->is_unmade = true;
    }
    batched_answer(batched);
}

/* Closes the batches whose members are all there, the deepest first, since a close may end the wait of a member. */
static void close_all(struct batched *batched)
{
    uint32_t count = 0;
    for (uint32_t i = batched->count; i-- > 0;) {
        const struct batched_job *job = &batched->jobs[i];
        bool waits = batched->copy->pushes[i].batch->waits;
        if (!waits || !job->is_done || job->is_unmade)
            continue;
        batched->sent_jobs[count] = (uint16_t)i;
        batched->closes[count++] = (struct queue_change){.verb = QUEUE_CLOSE,
                                                         .topic = batched->copy->pushes[i].topic,
                                                         .id = batched->copy->pushes[i].id,
                                                         .when = {.due = QUEUE_DUE_UNCHANGED},
                                                         .priority = QUEUE_PRIORITY_UNSET};
    }
    if (count)
        queue_change(batched->front->queue, batched->closes, count,
                     reply_to_of(batched, on_closed));
    else
        batched_answer(batched);
}

static void push_level(struct batched *batched);

/* Sets what follows from the result of a job. A batch that is closed already lacks no member. */
static void job_conclude(struct batched *batched, struct batched_job *job)
{
    job->is_done = queue_status_is_success(job->result.status);
    job->is_known = job->result.status == QUEUE_EXISTED;
    if (!job->is_done && job->parent != NO_PARENT && job->result.status != QUEUE_BATCH_CLOSED)
        batched->jobs[job->parent].is_unmade = true;
}

/* Notes the result of a job. */
static void note_result(struct batched *batched, uint32_t index, const struct queue_result *result)
{
    struct batched_job *job = &batched->jobs[index];
    const struct queue_push *push = &batched->copy->pushes[index];
    struct batched_job *parent = job->parent == NO_PARENT ? NULL : &batched->jobs[job->parent];
    job->result = *result;
    job->result.topic = push->topic;
    job->result.id = push->id;
    job->is_doubted = result->status == QUEUE_BATCH_CLOSED && parent && parent->is_repeated;
    job_conclude(batched, job);
    job->is_unchecked = job->is_known && push->batch->waits;
}

/* Returns whether this call repeats the one that closed the batch: the batch has as many members as the call, and as many of them
 * have ended as are missing. */
static bool is_repeat(const struct queue_waiting *waiting, uint32_t members, uint32_t missing)
{
    const uint32_t *of = waiting->counts.of;
    return batch_members(&waiting->counts) >= members &&
           (uint64_t)of[BATCH_ACKED] + of[BATCH_CANCELLED] + of[BATCH_EXPIRED] >= missing;
}

static void resolve_doubts(struct batched *batched);

#define OTHER_MEMBERS                                                                              \
    "this batch is open and was pushed with other members; push those that are missing with POST " \
    "/v1/jobs, then close it, or use a new id for the waiting job"

/* Compares the members of this call with those that a job was pushed with which was there. Other members would join an open batch
 * and close it; a repeat of the first call could not find out then which of its own have ended. So this is a conflict. */
static void job_compare(struct batched *batched, struct batched_job *job,
                        const struct queue_job *found)
{
    struct slice mark = job_meta_find(found->job.meta, slice_of(JOB_META_MEMBERS));
    char own[MARK_BYTES];
    hex_emit_u64(own, job->mark, MARK_BYTES);
    job->is_repeated = mark.len == sizeof own && memcmp(mark.at, own, sizeof own) == 0;
    if (!mark.len || job->is_repeated || found->waiting->is_closed || found->waiting->has_ended)
        return;
    job->is_other = true;
    job->result.status = QUEUE_CONFLICT;
    job->result.detail = OTHER_MEMBERS;
    job_conclude(batched, job);
}

/* Receives a waiting job that was there. */
static void on_found(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batched *batched = owner;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        batched_refuse(batched, reply->status);
        return;
    }
    if (reply->job_count && reply->jobs[0].waiting)
        job_compare(batched, &batched->jobs[batched->looked_up], &reply->jobs[0]);
    resolve_doubts(batched);
}

/* Looks up the next waiting job of this level that was there. Returns false after the last one. */
static bool check_known(struct batched *batched)
{
    for (uint32_t i = 0; i < batched->count; i++) {
        struct batched_job *job = &batched->jobs[i];
        if (!job->is_unchecked)
            continue;
        job->is_unchecked = false;
        batched->looked_up = (uint16_t)i;
        queue_get(batched->front->queue, batched->copy->pushes[i].topic,
                  batched->copy->pushes[i].id, reply_to_of(batched, on_found));
        return true;
    }
    return false;
}

/* Receives a waiting job, and decides whether its missing members have ended or are new. */
static void on_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batched *batched = owner;
    const struct queue_waiting *waiting = reply->job_count ? reply->jobs[0].waiting : NULL;
    uint32_t missing = 0;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        batched_refuse(batched, reply->status);
        return;
    }
    for (uint32_t i = 0; i < batched->count; i++)
        missing += batched->jobs[i].is_doubted && batched->jobs[i].parent == batched->looked_up;
    struct batched_job *parent = &batched->jobs[batched->looked_up];
    bool is_ended = waiting && is_repeat(waiting, parent->members, missing);
    for (uint32_t i = 0; i < batched->count; i++) {
        struct batched_job *job = &batched->jobs[i];
        if (!job->is_doubted || job->parent != batched->looked_up)
            continue;
        job->is_doubted = false;
        job->is_ended = is_ended;
        if (is_ended)
            job->result.status = QUEUE_EXISTED;
        job_conclude(batched, job);
    }
    resolve_doubts(batched);
}

/* Looks up the waiting job of the next doubted member; continues with the next level if there is none. */
static void resolve_doubts(struct batched *batched)
{
    for (uint32_t i = 0; i < batched->count; i++) {
        const struct batched_job *job = &batched->jobs[i];
        if (!job->is_doubted)
            continue;
        batched->looked_up = job->parent;
        queue_get(batched->front->queue, batched->copy->pushes[job->parent].topic,
                  batched->copy->pushes[job->parent].id, reply_to_of(batched, on_looked_up));
        return;
    }
    if (check_known(batched))
        return;
    batched->level++;
    push_level(batched);
}

static void on_level_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batched *batched = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        batched_refuse(batched, reply->status);
        return;
    }
    for (size_t i = 0; i < reply->result_count; i++)
        note_result(batched, batched->sent_jobs[i], &reply->results[i]);
    resolve_doubts(batched);
}

/* Returns the result of a job that is not pushed because of the result of its waiting job. */
static enum queue_status status_under(const struct batched_job *parent)
{
    if (parent->is_ended)
        return QUEUE_EXISTED;
    return parent->is_other ? QUEUE_CONFLICT : QUEUE_NO_BATCH;
}

/* Pushes the jobs of a level whose waiting jobs are there. */
static void push_level(struct batched *batched)
{
    uint32_t count = 0;
    bool has_more = false;
    for (uint32_t i = 0; i < batched->count; i++) {
        struct batched_job *job = &batched->jobs[i];
        if (job->level < batched->level)
            continue;
        has_more = true;
        if (job->level > batched->level)
            continue;
        const struct batched_job *parent =
            job->parent == NO_PARENT ? NULL : &batched->jobs[job->parent];
        if (parent && (!parent->is_done || parent->is_ended)) {
            job->is_ended =
                parent->is_ended; /* the members of a member that has ended have ended */
            job->result = (struct queue_result){.status = status_under(parent),
                                                .detail = parent->is_other ? OTHER_MEMBERS : NULL,
                                                .topic = batched->copy->pushes[i].topic,
                                                .id = batched->copy->pushes[i].id};
            job_conclude(batched, job);
            continue;
        }
        batched->sent_jobs[count] = (uint16_t)i;
        batched->level_pushes[count++] = batched->copy->pushes[i];
    }
    if (count) {
        queue_push(batched->front->queue, batched->level_pushes, count,
                   reply_to_of(batched, on_level_pushed));
    } else if (has_more) {
        batched->level++;
        push_level(batched);
    } else {
        close_all(batched);
    }
}

static bool begin_batch(struct http_call *call, struct http_fault *fault)
{
    struct batched *batched = calloc(1, sizeof *batched);
    if (!batched)
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    struct batched_reading reading = {.batched = batched, .call = call, .fault = fault};
    buffer_init(&batched->marks, SIZE_MAX / 4);
    batched->front = call->front;
    batched->tag = http_exchange_tag(call->exchange);
    if (!read_body(&reading)) {
        batched_free(batched);
        return false;
    }
    const struct command whole = {
        .kind = COMMAND_PUSH, .count = batched->count, .pushes = batched->pushes};
    if (!(batched->copy = copy_command(&whole))) {
        batched_free(batched);
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    }
    http_gate_keep(call->exchange, call->caller);
    http_exchange_hold_back(call->exchange);
    api_pushers_note(call->exchange, batched->copy->pushes, batched->count);
    push_level(batched);
    return true;
}

static void push_batch(struct http_call *call)
{
    struct http_fault fault;
    if (!begin_batch(call, &fault))
        http_answer_fault(call->exchange, &fault);
}

/* ---- the list of members ---- */

enum { MEMBERS_ANSWER_BYTES_MAX = 512 << 10 }; /* the rest goes to the next page */

/* The members of a list so far. */
struct member_list {
    struct http_front *front;
    struct buffer jobs;
    enum api_view view;
    const struct http_format *format; /* of the route; NULL: JSON */
};

static bool members_allows(void *owner, uint64_t tag, struct slice topic)
{
    const struct member_list *list = owner;
    const struct http_exchange *exchange = http_exchange_find(list->front, tag);
    return exchange && access_may(exchange->caller, ACCESS_READ, topic);
}

static void members_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct member_list *list = owner;
    (void)tag;
    if (list->format && list->view == API_VIEW_RESULT) {
        list->format->add_ended(&list->jobs, job);
        return;
    }
    if (list->format) {
        list->format->add_job(&list->jobs, job, false);
        return;
    }
    if (list->jobs.len)
        buffer_append_byte(&list->jobs, ',');
    api_job_write(&list->jobs, job, list->view);
}

static bool members_wanted(void *owner, uint64_t tag)
{
    const struct member_list *list = owner;
    return list->jobs.len < MEMBERS_ANSWER_BYTES_MAX && !list->jobs.failed &&
           http_exchange_is_wanted(list->front, tag);
}

static void members_done(void *owner, uint64_t tag, const struct members_result *result)
{
    struct member_list *list = owner;
    struct http_exchange *exchange = http_exchange_find(list->front, tag);
    if (exchange && result->status != QUEUE_OK) {
        http_answer_refusal(exchange, result->status, NULL, (enum job_state)0);
    } else if (exchange && list->format) {
        struct buffer *body = list->format->begin(exchange);
        buffer_append_slice(body, buffer_slice(&list->jobs));
        body->failed |= list->jobs.failed;
        list->format->end(exchange, result->cursor);
    } else if (exchange) {
        struct buffer *body = http_answer_start(exchange);
        buffer_append_text(body, "{\"members\":[");
        buffer_append_slice(body, buffer_slice(&list->jobs));
        buffer_append_text(body, "],\"cursor\":");
        json_write_string_or_null(body, result->cursor);
        buffer_append_byte(body, '}');
        body->failed |= list->jobs.failed;
        http_answer_end_json(exchange, 200);
    }
    buffer_fini(&list->jobs);
    free(list);
}

static void list_members(struct http_call *call)
{
    enum { LIMIT = 100 };
    const struct http_fields *fields = &call->query->fields;
    struct http_exchange *exchange = call->exchange;
    struct queue_info info = {0};
    queue_info(call->front->queue, &info);
    if (!info.batches || !job_id_is_valid(call->id)) {
        http_answer_refusal(exchange, info.batches ? QUEUE_BAD_ID : QUEUE_UNSUPPORTED, NULL,
                            (enum job_state)0);
        return;
    }
    struct member_list *list = calloc(1, sizeof *list);
    if (!list) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    list->front = call->front;
    list->format = exchange->route->format;
    list->view = fields->results ? API_VIEW_RESULT : API_VIEW_LISTED;
    buffer_init(&list->jobs, HTTP_OUT_BYTES_MAX);
    http_gate_keep(exchange, call->caller);
    const struct members_order order = {
        .topic = call->topic,
        .id = call->id,
        .has_outcome = http_fields_have(fields, OPTION_OUTCOME),
        .outcome = fields->outcome,
        .cursor = fields->cursor,
        .limit = http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : LIMIT,
        .with_results = fields->results};
    enum queue_status status =
        members_start(call->front->queue, &order,
                      &(struct members_listener){.allows = members_allows,
                                                 .found = members_found,
                                                 .wanted = members_wanted,
                                                 .done = members_done,
                                                 .owner = list,
                                                 .tag = http_exchange_tag(exchange)});
    if (status == QUEUE_OK)
        return;
    buffer_fini(&list->jobs);
    free(list);
    http_answer_refusal(exchange, status, NULL, (enum job_state)0);
}

const struct http_route api_batches_routes[] = {
    {.method = HTTP_METHOD_POST,
     .pattern = "/v1/batches",
     .name = "push_batch",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_EACH,
     .handle = push_batch,
     .body = HTTP_BODY_BATCH},
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_JOB_PATH "/members",
     .name = "members",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = list_members,
     .options = OPTION_BIT(OPTION_OUTCOME) | OPTION_BIT(OPTION_RESULTS) | OPTION_BIT(OPTION_LIMIT) |
                OPTION_BIT(OPTION_CURSOR),
     .answer = HTTP_ANSWER_LONG},
    {0},
};
