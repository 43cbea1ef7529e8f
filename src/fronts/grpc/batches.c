/* A batch in one call, and the wait for the end of jobs. */
#include "api/await.h"
#include "grpc/methods.h"
#include "grpc/transcode.h"
#include "queue/ends.h"

#define MESSAGE(NAME) &tarry__v1__##NAME##__descriptor

/* ---- PushBatch: as the body of POST /v1/batches ---- */

/* Checks that each member names a job before it, and that they are not nested too deeply, so that all of them are written. */
static bool check_places(const Tarry__V1__PushBatchRequest *batch, struct http_fault *fault)
{
    uint8_t depths[QUEUE_BATCH_MAX];
    if (batch->n_members >= QUEUE_BATCH_MAX)
        return http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                              "a call has at most %d jobs: push more members with PushMany",
                              QUEUE_BATCH_MAX);
    for (size_t i = 0; i < batch->n_members; i++) {
        uint32_t of = batch->members[i]->of;
        if (of > i)
            return http_fault_set(fault, PROBLEM_BAD_ITEM, 0,
                                  "'of' of a member must be the number of an earlier member, or 0 "
                                  "for the waiting job");
        depths[i] = of ? (uint8_t)(depths[of - 1] + 1) : 1;
        if (depths[i] > BATCH_DEPTH_MAX)
            return http_fault_set(fault, PROBLEM_BAD_ITEM, BATCH_DEPTH_MAX,
                                  "'members' are nested deeper than %d levels", BATCH_DEPTH_MAX);
    }
    return true;
}

/* Writes the members of a job without its braces. */
static bool write_job(struct request *request, const Tarry__V1__PushRequest *job)
{
    if (!job)
        return http_fault_set(request->fault, PROBLEM_BAD_ITEM, 0, "'job' is missing");
    if (job->members)
        return http_fault_set(
            request->fault, PROBLEM_BAD_ITEM, 0,
            "'members' of a job follows from the list of this call: leave it out");
    return transcode_members(&request->text, &job->base, NULL, request->fault);
}

/* Writes the members of the job with this number in the list, each with its own members. Its depth is limited by
 * check_places. */
static bool write_members(struct request *request, const Tarry__V1__PushBatchRequest *batch,
                          size_t of)
{
    const char *before = ",\"members\":[{";
    for (size_t i = of; i < batch->n_members; i++) {
        if (batch->members[i]->of != of)
            continue;
        buffer_append_text(&request->text, before);
        before = ",{";
        if (!write_job(request, batch->members[i]->job) || !write_members(request, batch, i + 1))
            return false;
        buffer_append_byte(&request->text, '}');
    }
    if (before[1] == '{')
        buffer_append_byte(&request->text, ']');
    return true;
}

static bool read_batch(struct request *request, const void *message)
{
    const Tarry__V1__PushBatchRequest *batch = message;
    if (!check_places(batch, request->fault))
        return false;
    buffer_append_text(&request->text, "{\"job\":{");
    if (!write_job(request, batch->job))
        return false;
    buffer_append_byte(&request->text, '}');
    if (!batch->n_members)
        buffer_append_text(&request->text, ",\"members\":[]");
    if (!write_members(request, batch, 0))
        return false;
    buffer_append_byte(&request->text, '}');
    return request_text_is_body(request);
}

/* ---- Wait ---- */

static bool read_name(struct request *request, const Tarry__V1__BatchName *name,
                      struct queue_find *out)
{
    const struct http_call *call = request->call;
    *out = (struct queue_find){slice_of(name->topic), slice_of(name->id)};
    if (!job_topic_is_valid(out->topic) || !job_id_is_valid(out->id))
        return http_fault_set(request->fault, PROBLEM_BAD_ITEM, 0,
                              "an item of 'jobs' has an invalid topic or id");
    return http_gate_allows(call->front, call->caller, call->exchange->route, out->topic,
                            request->fault);
}

static bool read_wait(struct request *request, const void *message)
{
    const Tarry__V1__WaitRequest *wait = message;
    struct http_fields *fields = &request->call->query->fields;
    if (!wait->n_jobs)
        return http_fault_set(request->fault, PROBLEM_OPTION_MISSING, 0,
                              "'jobs' is empty, name at least one");
    if (wait->n_jobs > ENDS_JOBS_MAX)
        return http_fault_set(request->fault, PROBLEM_TOO_MANY_ITEMS, ENDS_JOBS_MAX,
                              "too many jobs in one call, at most %d: make several calls",
                              ENDS_JOBS_MAX);
    if (!fields_duration(&request->fields, OPTION_WAIT, wait->wait))
        return false;
    fields->wait_ms = request_wait_ms(request, wait->wait != NULL);
    request->call->exchange->bodies = wait->with_body ? HTTP_BODIES_BASE64 : HTTP_BODIES_NONE;
    return true;
}

static void wait_jobs(struct request *request, const void *message)
{
    const Tarry__V1__WaitRequest *wait = message;
    struct queue_find *names = arena_alloc(request->arena, wait->n_jobs * sizeof *names);
    bool done = names || http_fault_set(request->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    for (size_t i = 0; done && i < wait->n_jobs; i++)
        done = read_name(request, wait->jobs[i], &names[i]);
    if (done)
        api_await_jobs(request->call, names, wait->n_jobs, wait->any);
    else
        http_answer_fault(request->call->exchange, request->fault);
}

const struct method grpc_batch_methods[] = {
    {.name = "PushBatch",
     .rest = "push_batch",
     .message = MESSAGE(push_batch_request),
     .body = HTTP_BODY_BATCH,
     .read = read_batch},
    {.name = "Wait",
     .rest = "wait",
     .message = MESSAGE(wait_request),
     .body = HTTP_BODY_SMALL,
     .read = read_wait,
     .act = wait_jobs},
    {0},
};
