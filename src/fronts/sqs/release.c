/* release: deletes messages that were received, or changes their visibility. */
#include "sqs/message.h"
#include "sqs/request.h"
#include "sqs/settings.h"

#include <stdlib.h>

static bool is_change(const struct sqs_operation *operation)
{
    return operation->name[0] == 'C';
}

static bool refuse_handle(struct slice handle, bool is_batch, struct sqs_error *error)
{
    if (!is_batch)
        return sqs_error_set(error, SQS_BAD_HANDLE, "The input receipt handle is invalid.");
    return sqs_error_set(error, SQS_BAD_HANDLE,
                         "The input receipt handle \"%.*s\" is not a valid receipt handle.",
                         (int)(handle.len < 80 ? handle.len : 80), handle.at);
}

static bool read_answer(struct json_value entry, const struct sqs_operation *operation,
                        struct queue_answer *out, struct sqs_error *error)
{
    struct json_value handle = sqs_member(entry, "ReceiptHandle"),
                      timeout = sqs_member(entry, "VisibilityTimeout");
    int64_t seconds = 0;
    *out = (struct queue_answer){.verb = QUEUE_ACK, .delay_ms = -1};
    if (handle.kind != JSON_STRING)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter ReceiptHandle.");
    struct slice text = slice_make(handle.raw.at + 1, handle.raw.len - 2);
    struct sqs_handle parts;
    if (!sqs_handle_read(text, &parts))
        return refuse_handle(text, operation->why != NULL, error);
    out->lease = parts.lease;
    if (!is_change(operation))
        return true;
    if (timeout.kind == JSON_NONE)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter VisibilityTimeout.");
    if (!sqs_number(timeout, "VisibilityTimeout", 0, SQS_VISIBILITY_S_MAX, 0, &seconds, error))
        return false;
    out->verb = seconds ? QUEUE_EXTEND : QUEUE_NACK;
    out->delay_ms = 0;
    out->lease_ms = seconds * 1000;
    return true;
}

static size_t read_answers(const struct sqs_request *request, struct sqs_entries *entries,
                           struct queue_answer answers[SQS_BATCH_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < entries->count; i++)
        count +=
            read_answer(entries->at[i], request->operation, &answers[count], &entries->errors[i]);
    return count;
}

/* ---- delete with a handle whose lease has ended ---- */

/*
 * A late delete. SQS deletes a message by its newest handle even after its visibility timeout, if
 * no other consumer has received it since. So the store cancels such a job if the handle's lease
 * was that of its last delivery: only a lease that the store has issued can delete anything. If the
 * job has changed, the call still succeeds.
 */
struct late_delete {
    struct http_front *front;
    uint64_t tag;
    struct sqs_error errors[SQS_BATCH_MAX]; /* of the entries */
    size_t count, entries[SQS_BATCH_MAX];   /* of the changes: the index of the entry of each */
    char ids[SQS_BATCH_MAX][JOB_ID_BYTES_MAX];
};

static void on_late_deleted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct late_delete *late = owner;
    struct sqs_request request;
    struct sqs_entries entries;
    struct sqs_error error = {0};
    (void)tag;
    for (size_t i = 0; i < late->count; i++) {
        enum queue_status status = reply->status;
        if (status == QUEUE_OK && i < reply->result_count)
            status = reply->results[i].status;
        if (status != QUEUE_CONFLICT && status != QUEUE_NOT_FOUND && status != QUEUE_BAD_ID)
            (void)sqs_error_of(&late->errors[late->entries[i]], status);
    }
    if (!sqs_request_find(late->front, late->tag, &request)) {
        free(late);
        return;
    }
    if (sqs_entries_read(&request, &entries, &error)) {
        memcpy(entries.errors, late->errors, sizeof entries.errors);
        sqs_entries_answer(&request, &entries, NULL, NULL);
    } else {
        sqs_answer_error(request.exchange, &error);
    }
    free(late);
}

/* Builds the change for an entry's handle; returns false if the handle has no job id. */
static bool late_delete_add(struct late_delete *late, const struct sqs_request *request,
                            struct json_value entry, struct queue_change *out)
{
    struct json_value sent = sqs_member(entry, "ReceiptHandle");
    struct slice text = sqs_text(request, sent);
    struct sqs_handle handle;
    char *id = late->ids[late->count];
    if (!text.len || !sqs_handle_read(text, &handle) || handle.id.len == 0 ||
        handle.id.len > JOB_ID_BYTES_MAX)
        return false;
    memcpy(id, handle.id.at, handle.id.len);
    *out = (struct queue_change){
        .verb = QUEUE_CANCEL,
        .topic = request->queue,
        .id = slice_make(id, handle.id.len),
        .lease = slice_make(sent.raw.at + 1, handle.lease.len), /* contains no escapes */
        .priority = QUEUE_PRIORITY_UNSET};
    return true;
}

/* Starts the late delete of the entries whose lease has ended. Returns false if there is nothing to
 * do. */
static bool late_delete_begin(const struct sqs_request *request, const struct sqs_entries *entries,
                              const bool has_ended[SQS_BATCH_MAX])
{
    struct queue_change changes[SQS_BATCH_MAX];
    struct late_delete *late = calloc(1, sizeof *late);
    if (!late)
        return false;
    late->front = request->exchange->front;
    late->tag = http_exchange_tag(request->exchange);
    memcpy(late->errors, entries->errors, sizeof late->errors);
    for (size_t i = 0; i < entries->count; i++) {
        if (!has_ended[i] || !late_delete_add(late, request, entries->at[i], &changes[late->count]))
            continue;
        late->entries[late->count++] = i;
    }
    bool has_jobs = late->count != 0;
    if (has_jobs)
        queue_change(late->front->queue, changes, late->count,
                     (struct queue_reply_to){.done = on_late_deleted,
                                             .owner = late,
                                             .caller = http_exchange_caller(request->exchange)});
    else
        free(late);
    return has_jobs;
}

/* Handles the results. With an old handle, a delete succeeds even if nothing is left to delete, but
 * the visibility cannot be changed. */
static void on_answered(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct queue_answer answers[SQS_BATCH_MAX];
    struct sqs_request request;
    struct sqs_error error = {0};
    struct sqs_entries entries;
    size_t next = 0;
    bool has_ended[SQS_BATCH_MAX] = {false}, has_late = false;
    if (!sqs_request_find(front, tag, &request))
        return;
    if (!sqs_error_of(&error, reply->status) || !sqs_entries_read(&request, &entries, &error)) {
        sqs_answer_error(request.exchange, &error);
        return;
    }
    (void)read_answers(&request, &entries, answers);
    for (size_t i = 0; i < entries.count; i++) {
        if (entries.errors[i].fault || next == reply->result_count)
            continue;
        enum queue_status status = reply->results[next++].status;
        if (status == QUEUE_LEASE_ENDED && is_change(request.operation))
            (void)sqs_error_set(&entries.errors[i], SQS_NOT_IN_FLIGHT,
                                "The message referred to isn't in flight.");
        else if (status != QUEUE_LEASE_ENDED)
            (void)sqs_error_of(&entries.errors[i], status);
        else
            has_late = has_ended[i] = true;
    }
    if (has_late && late_delete_begin(&request, &entries, has_ended))
        return;
    sqs_entries_answer(&request, &entries, NULL, NULL);
}

void sqs_release(struct sqs_request *request, const struct sqs_numbers *queue)
{
    struct queue_answer answers[SQS_BATCH_MAX];
    struct sqs_error error = {0};
    struct sqs_entries entries;
    (void)queue;
    if (!sqs_entries_read(request, &entries, &error)) {
        sqs_answer_error(request->exchange, &error);
        return;
    }
    size_t count = read_answers(request, &entries, answers);
    if (count)
        queue_answer(request->exchange->front->queue, answers, count,
                     sqs_reply_to(request, on_answered));
    else
        sqs_entries_answer(request, &entries, NULL, NULL);
}
