/* Pushes: of one job, and of many in one message, which are decoded one by one. */
#include "grpc/answer.h"
#include "grpc/methods.h"
#include "grpc/wire.h"

#include "api/batch_push.h"

#include <stdlib.h>

#define MESSAGE(NAME) &tarry__v1__##NAME##__descriptor

/* ---- one job ---- */

static bool add_metas(const Tarry__V1__PushRequest *push, struct buffer *meta,
                      struct http_fault *fault)
{
    for (size_t i = 0; i < push->n_meta; i++)
        if (!http_meta_add(meta, slice_of(push->meta[i]->key), slice_of(push->meta[i]->value),
                           fault))
            return false;
    return true;
}

static bool read_options(const Tarry__V1__PushRequest *push, struct fields *fields)
{
    return fields_duration(fields, OPTION_DELAY, push->delay) &&
           fields_time(fields, OPTION_AT, push->at) && fields_priority(fields, push->priority) &&
           fields_conflict(fields, push->on_conflict) &&
           fields_text(fields, OPTION_ONCE, push->once) &&
           fields_duration(fields, OPTION_ONCE_FOR, push->once_for) &&
           fields_duration(fields, OPTION_TTL, push->ttl) &&
           fields_duration(fields, OPTION_LEASE_FOR, push->lease_for) &&
           fields_attempts(fields, push->max_attempts) &&
           fields_text(fields, OPTION_BACKOFF, push->backoff) &&
           fields_text(fields, OPTION_CALLBACK, push->callback) &&
           fields_text(fields, OPTION_GROUP, push->group) &&
           fields_duration(fields, OPTION_KEEP_FINISHED, push->keep_finished);
}

static bool read_batch(const Tarry__V1__PushRequest *push, struct fields *fields)
{
    const Tarry__V1__BatchName *batch = push->batch;
    return (!batch || (fields_text(fields, OPTION_BATCH_TOPIC, batch->topic) &&
                       fields_text(fields, OPTION_BATCH_ID, batch->id))) &&
           fields_text(fields, OPTION_PARENT, push->parent) &&
           fields_flag(fields, OPTION_WAITS, push->waits) &&
           fields_text(fields, OPTION_ON_DEAD, push->on_dead) &&
           fields_number(fields, OPTION_MEMBERS, push->members) &&
           fields_duration(fields, OPTION_WAIT_AT_MOST, push->wait_at_most) &&
           fields_duration(fields, OPTION_CLOSE_WITHIN, push->close_within);
}

/* Reads a job. Its metas go to `meta`, which is empty before, and its batches to `room`. */
static bool read_job(const struct http_hooks *hooks, const Tarry__V1__PushRequest *job,
                     struct queue_push *out, struct queue_batch *room, struct buffer *meta,
                     struct http_fault *fault)
{
    struct http_fields options = {0};
    struct fields fields = {.out = &options, .fault = fault};
    *out = (struct queue_push){
        .topic = slice_of(job->topic),
        .id = slice_of(job->id),
        .content_type = slice_of(job->content_type),
        .body = slice_make(job->body.data, job->body.len),
    };
    if (!out->topic.len)
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0, "'topic' is missing, name one");
    if (!read_options(job, &fields) || !read_batch(job, &fields) ||
        !http_fields_check(&options, fault) || !add_metas(job, meta, fault) ||
        !api_body_check(out->content_type, out->body, fault))
        return false;
    if (*job->callback && !api_callback_add(meta, slice_of(job->callback), hooks, fault))
        return false;
    api_fields_push(&options, out);
    api_fields_batch(&options, out, room);
    out->meta = buffer_slice(meta);
    return true;
}

static bool read_push(struct request *request, const void *message)
{
    const Tarry__V1__PushRequest *job = message;
    request->call->topic = slice_of(job->topic);
    request_body(request, (struct slice){0}, slice_make(job->body.data, job->body.len));
    return true;
}

static void push_one(struct request *request, const void *message)
{
    struct http_call *call = request->call;
    struct queue_push push;
    struct queue_batch room;
    if (read_job(call->front->shared->hooks, message, &push, &room, &call->front->meta,
                 request->fault))
        api_push(call, &push);
    else
        http_answer_fault(call->exchange, request->fault);
}

/* ---- many jobs ---- */

static bool is_job(const struct wire_field *field)
{
    enum { JOBS_FIELD = 1 };
    return field->number == JOBS_FIELD && field->is_bytes;
}

/* Counts the next job of the message. */
static enum api_batch_step many_check(struct api_batch_reader *reader, struct http_fault *fault)
{
    struct wire_field field;
    if (!wire_next(reader->body, &reader->at, &field)) {
        if (reader->at == reader->body.len)
            return API_BATCH_END;
        (void)request_refuse_malformed(MESSAGE(push_many_request), fault);
        return API_BATCH_REFUSED;
    }
    if (!is_job(&field))
        return API_BATCH_MORE; /* of a newer client */
    if (field.bytes.len > reader->item_bytes_most)
        reader->item_bytes_most = field.bytes.len;
    if (reader->item_count++ < QUEUE_BATCH_MAX)
        return API_BATCH_MORE;
    (void)http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                         "too many jobs in one call, at most %d: make several calls",
                         QUEUE_BATCH_MAX);
    return API_BATCH_REFUSED;
}

/* Prepares memory for decoded jobs of so many bytes. */
static bool many_make_room(struct api_batch *batch, size_t bytes)
{
    struct arena *arena = malloc(sizeof *arena);
    batch->room = arena;
    if (arena)
        arena_init(arena, bytes);
    return arena;
}

static void many_free_room(struct api_batch *batch)
{
    if (batch->room)
        arena_fini(batch->room);
    free(batch->room);
}

/* Copies the pairs of the job, which the next one overwrites. */
static bool keep_meta(struct api_batch *batch, struct queue_push *push, struct http_fault *fault)
{
    struct slice meta = buffer_slice(batch->meta);
    char *copy = arena_alloc(batch->room, meta.len);
    if (!copy)
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (meta.len)
        memcpy(copy, meta.at, meta.len);
    push->meta = slice_make(copy, meta.len);
    return true;
}

/* Decodes a job. A job that is rejected leaves its share of the arena to the others. */
static const Tarry__V1__PushRequest *decode_job(struct arena *arena, struct slice message,
                                                struct http_fault *fault)
{
    size_t used = arena->used;
    const Tarry__V1__PushRequest *job =
        request_decode(arena, MESSAGE(push_request), message, fault);
    if (!job) {
        arena->used = used;
        arena->is_full = false;
    }
    return job;
}

static bool add_job(struct api_batch *batch, struct slice message, struct http_fault *fault)
{
    struct queue_push *push = &batch->pushes[batch->push_count];
    const Tarry__V1__PushRequest *job = decode_job(batch->room, message, fault);
    buffer_clear(batch->meta);
    if (!job ||
        !read_job(batch->hooks, job, push, &batch->rooms[batch->push_count], batch->meta, fault) ||
        !batch->allows(batch->ctx, push->topic, fault))
        return false;
    api_batch_add_trace(batch);
    return keep_meta(batch, push, fault);
}

/* Reads the next field, which is a job or one of a newer client. */
static bool many_read(struct api_batch_reader *reader, struct api_batch *batch)
{
    struct wire_field field;
    struct http_fault fault;
    if (!wire_next(reader->body, &reader->at, &field))
        return false;
    if (!is_job(&field))
        return true;
    batch->item_count++;
    if (add_job(batch, field.bytes, &fault))
        batch->push_count++;
    else
        api_batch_set_aside(batch, &fault);
    return true;
}

static void many_end(struct http_exchange *exchange)
{
    answer_end(exchange, (struct slice){0});
}

static void push_many(struct http_call *call, struct slice message)
{
    static const struct api_batch_form form = {.check = many_check,
                                               .make_room = many_make_room,
                                               .read = many_read,
                                               .free_room = many_free_room,
                                               .begin = answer_begin,
                                               .add_result = answer_add_push,
                                               .add_fault = answer_add_fault,
                                               .between = "",
                                               .behind = "",
                                               .end = many_end};
    api_batch_push(call, &form, &(struct api_batch_reader){.body = message});
}

const struct method grpc_push_methods[] = {
    {.name = "Push",
     .rest = "push",
     .message = MESSAGE(push_request),
     .names_topic = true,
     .body = HTTP_BODY_MESSAGE,
     .read = read_push,
     .act = push_one},
    {.name = "PushMany",
     .rest = "batch",
     .message = MESSAGE(push_many_request),
     .body = HTTP_BODY_BATCH,
     .begin = push_many},
    {0},
};
