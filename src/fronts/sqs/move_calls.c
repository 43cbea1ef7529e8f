/* The operations on message move tasks: start, list, cancel. The mover carries them out. */
#include "sqs/move.h"
#include "sqs/settings.h"

#include "base/json_write.h"

#include <inttypes.h>
#include <stdio.h>

enum { RATE_MAX = 500 };

static void fail(const struct sqs_request *request, const struct sqs_error *error)
{
    sqs_answer_error(request->exchange, error);
}

/* Returns the queue that an ARN names, in the front's arena; empty if invalid. */
static struct slice queue_of_arn(const struct sqs_request *request, const char *member)
{
    struct slice arn = sqs_text(request, sqs_member(request->fields, member));
    const char *colon = arn.len ? memrchr(arn.at, ':', arn.len) : NULL;
    struct slice name =
        colon ? slice_make(colon + 1, arn.len - (size_t)(colon + 1 - arn.at)) : (struct slice){0};
    return job_topic_is_valid(name) ? name : (struct slice){0};
}

/* Checks access to a source or destination. Topics of tarry's own are never allowed. */
static bool may(const struct sqs_request *request, unsigned scopes, struct slice topic,
                struct sqs_error *error)
{
    return (access_may(request->exchange->caller, scopes, topic) && !job_topic_is_own(topic)) ||
           sqs_error_set(error, SQS_DENIED, "Access to the resource %.*s is denied.",
                         (int)topic.len, topic.at);
}

static bool find_source(const struct sqs_request *request, unsigned scopes, char *out,
                        struct sqs_error *error)
{
    struct slice name = queue_of_arn(request, "SourceArn");
    if (!name.len)
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "You must use this format to specify the SourceArn: "
                             "arn:aws:sqs:<region>:<account-id>:<queue>");
    (void)snprintf(out, JOB_TOPIC_BYTES_MAX + 1, "%.*s", (int)name.len, name.at);
    audit_change_name(request->exchange->change, name, (struct slice){0});
    return may(request, scopes, name, error);
}

static bool is_answered(const struct queue_reply *reply, struct sqs_error *error)
{
    return reply->status == QUEUE_NOT_FOUND || sqs_error_of(error, reply->status);
}

static void get_job(const struct sqs_request *request, const char *kind, const char *source,
                    queue_done *done)
{
    char id[JOB_ID_BYTES_MAX + 1];
    queue_get(request->exchange->front->queue, slice_of(SQS_MOVES_TOPIC),
              sqs_move_id(kind, slice_of(source), id), sqs_reply_to(request, done));
}

/* ---- start ---- */

static const struct queue_topic *find_topic(const struct queue_reply *reply, const char *name)
{
    for (size_t i = 0; i < reply->topic_count; i++)
        if (!reply->topics[i].deleting && slice_is(reply->topics[i].name, name))
            return &reply->topics[i];
    return NULL;
}

/* Appends `,"sources":[…]`: the queues that have this one as dead-letter queue. */
static bool write_sources(const struct sqs_request *request, const struct queue_reply *reply,
                          const struct sqs_move *move, struct buffer *out, struct sqs_error *error)
{
    size_t count = 0;
    buffer_append_text(out, ",\"sources\":[");
    for (size_t i = 0; i < reply->topic_count; i++) {
        const struct queue_topic *topic = &reply->topics[i];
        struct sqs_queue queue;
        sqs_queue_read(&topic->settings, &queue);
        if (!slice_is(queue.dead_letter, move->source) || topic->deleting)
            continue;
        if (!move->to[0] && !may(request, ACCESS_PUSH, topic->name, error))
            return false;
        if (!move->to[0] && count == SQS_MOVE_SOURCES_MAX)
            return sqs_error_set(error, SQS_UNSUPPORTED,
                                 "More than %d queues have this dead-letter queue: give a "
                                 "DestinationArn.",
                                 SQS_MOVE_SOURCES_MAX);
        if (count++ < SQS_MOVE_SOURCES_MAX) {
            buffer_append_text(out, count > 1 ? "," : "");
            json_write_string(out, topic->name);
        }
    }
    buffer_append_text(out, "]}");
    return count || sqs_error_set(error, SQS_BAD_VALUE,
                                  "Source queue must be configured as a Dead Letter Queue.");
}

/* Reads the parameters of a new task and writes the body of its job. */
static bool read_start(const struct sqs_request *request, const struct queue_reply *reply,
                       struct sqs_move *move, struct buffer *out, struct sqs_error *error)
{
    struct json_value destination = sqs_member(request->fields, "DestinationArn"),
                      rate = sqs_member(request->fields, "MaxNumberOfMessagesPerSecond");
    *move = (struct sqs_move){.status = SQS_MOVE_RUNNING,
                              .started_ms = queue_wall_ms(request->exchange->front->queue)};
    if (!find_source(request, ACCESS_CONSUME, move->source, error) ||
        !sqs_number(rate, "MaxNumberOfMessagesPerSecond", 1, RATE_MAX, 0, &move->rate, error))
        return false;
    const struct queue_topic *source = find_topic(reply, move->source);
    if (!source)
        return sqs_error_set(
            error, SQS_NO_RESOURCE,
            "The resource that you specified for the SourceArn parameter doesn't exist.");
    move->total = source->counts.ready;
    if (destination.kind) {
        struct slice name = queue_of_arn(request, "DestinationArn");
        (void)snprintf(move->to, sizeof move->to, "%.*s", (int)name.len, name.len ? name.at : "");
        if (name.len && !may(request, ACCESS_PUSH, name, error))
            return false;
        if (!find_topic(reply, move->to))
            return sqs_error_set(
                error, SQS_NO_RESOURCE,
                "The resource that you specified for the DestinationArn parameter doesn't exist.");
        if (strcmp(move->to, move->source) == 0)
            return sqs_error_set(error, SQS_BAD_VALUE,
                                 "Source and destination queues must be different.");
    }
    sqs_move_handle(source->name, move->handle);
    sqs_move_write(move, out);
    return write_sources(request, reply, move, out, error) &&
           (!out->failed || sqs_error_set(error, SQS_BUSY, "out of memory"));
}

static void on_started(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    if (!sqs_request_find(front, tag, &request))
        return;
    enum queue_status status =
        reply->status || !reply->result_count ? reply->status : reply->results[0].status;
    if (status == QUEUE_CONFLICT || status == QUEUE_LEASED)
        (void)sqs_error_set(&error, SQS_UNSUPPORTED,
                            "There is already a task running. Only one active task is allowed for "
                            "a source queue arn at a given time.");
    else if (sqs_error_of(&error, status)) {
        struct buffer *body = http_answer_start(request.exchange);
        buffer_append_text(body, "{\"TaskHandle\":");
        json_write_string(body, request.learned);
        buffer_append_byte(body, '}');
        sqs_answer(&request);
        return;
    }
    fail(&request, &error);
}

/* Returns the reply target of an internal step, to which no rules for the caller apply. */
static struct queue_reply_to sqs_own_reply_to(const struct sqs_request *request, queue_done *done)
{
    return (struct queue_reply_to){.done = done,
                                   .owner = request->exchange->front,
                                   .tag = http_exchange_tag(request->exchange)};
}

static void on_start_topics(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error = {0};
    struct sqs_move move;
    struct buffer body;
    char id[JOB_ID_BYTES_MAX + 1];
    if (!sqs_request_find(front, tag, &request))
        return;
    buffer_init(&body, SQS_MOVE_TEXT_BYTES_MAX);
    bool good =
        sqs_error_of(&error, reply->status) && read_start(&request, reply, &move, &body, &error);
    if (good && !sqs_request_learn(&request, slice_of(move.handle)))
        good = sqs_error_set(&error, SQS_BUSY, "out of memory");
    const struct queue_push push = {
        .topic = slice_of(SQS_MOVES_TOPIC),
        .id = sqs_move_id(SQS_MOVE_RUN, slice_of(move.source), id),
        .content_type = slice_of("application/json"),
        .meta = sqs_move_meta,
        .body = buffer_slice(&body),
        .when = {.due = QUEUE_DUE_NOW},
        .priority = QUEUE_PRIORITY_UNSET,
        .on_conflict = CONFLICT_REJECT,
        .policy = {.max_attempts = POLICY_ATTEMPTS_NONE, .backoff = {.kind = BACKOFF_NONE}}};
    if (good)
        queue_push(request.exchange->front->queue, &push, 1,
                   sqs_own_reply_to(&request, on_started));
    else
        fail(&request, &error);
    buffer_fini(&body);
}

static void start_task(struct sqs_request *request, const struct queue_topic *topic)
{
    (void)topic;
    queue_topics(request->exchange->front->queue, sqs_reply_to(request, on_start_topics));
}

/* ---- list ---- */

static void write_task(const struct sqs_request *request, const struct sqs_move *move,
                       struct buffer *out)
{
    struct buffer arn;
    buffer_append_byte(out, '{');
    if (move->status == SQS_MOVE_RUNNING)
        json_write_member_text(out, "TaskHandle", slice_of(move->handle));
    json_write_member_text(out, "Status", slice_of(sqs_move_status_name(move->status)));
    buffer_init(&arn, 1024);
    sqs_write_arn(request->options, slice_of(move->source), &arn);
    json_write_member_text(out, "SourceArn", buffer_slice(&arn));
    buffer_clear(&arn);
    sqs_write_arn(request->options, slice_of(move->to), &arn);
    if (move->to[0])
        json_write_member_text(out, "DestinationArn", buffer_slice(&arn));
    buffer_fini(&arn);
    if (move->rate)
        json_write_member_number(out, "MaxNumberOfMessagesPerSecond", (uint64_t)move->rate);
    json_write_member_number(out, "ApproximateNumberOfMessagesMoved", move->moved);
    json_write_member_number(out, "ApproximateNumberOfMessagesToMove", move->total);
    json_write_member_number(out, "StartedTimestamp", (uint64_t)move->started_ms);
    if (move->status == SQS_MOVE_FAILED)
        json_write_member_text(out, "FailureReason", slice_of(move->reason));
    buffer_append_byte(out, '}');
}

/* Returns the tasks in the log. */
static struct json_value tasks_of(const struct queue_reply *reply)
{
    bool is_log = reply->job_count == 1 && sqs_move_is_own(reply->jobs[0].job.meta);
    return is_log ? sqs_move_log_tasks(reply->jobs[0].job.body) : (struct json_value){0};
}

/* Writes the tasks, including one that no server has taken yet, which is not in the log. */
static void write_tasks(const struct sqs_request *request, const struct queue_reply *reply,
                        int64_t most, struct buffer *out)
{
    struct json_value tasks = tasks_of(reply), entry, started = {0};
    struct json_cursor cursor = {0};
    struct sqs_move move, newest = {0};
    int64_t count = 0;
    bool is_new = request->learned.len && json_check(request->learned, &started, NULL) &&
                  sqs_move_read(started, &newest);
    while (is_new && tasks.kind == JSON_ARRAY && json_next_item(tasks, &cursor, &entry))
        is_new = !(sqs_move_read(entry, &move) && strcmp(move.handle, newest.handle) == 0);
    buffer_append_text(out, "{\"Results\":[");
    if (is_new) {
        write_task(request, &newest, out);
        count++;
    }
    cursor = (struct json_cursor){0};
    while (tasks.kind == JSON_ARRAY && count < most && json_next_item(tasks, &cursor, &entry)) {
        if (!sqs_move_read(entry, &move))
            continue;
        buffer_append_text(out, count++ ? "," : "");
        write_task(request, &move, out);
    }
    buffer_append_text(out, "]}");
}

static void on_list_log(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    int64_t most;
    if (!sqs_request_find(front, tag, &request))
        return;
    if (!is_answered(reply, &error) ||
        !sqs_number(sqs_member(request.fields, "MaxResults"), "MaxResults", 1, SQS_MOVES_KEPT, 1,
                    &most, &error)) {
        fail(&request, &error);
        return;
    }
    write_tasks(&request, reply, most, http_answer_start(request.exchange));
    sqs_answer(&request);
}

static void on_list_task(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    char source[JOB_TOPIC_BYTES_MAX + 1];
    if (!sqs_request_find(front, tag, &request))
        return;
    if (!is_answered(reply, &error) || !find_source(&request, ACCESS_READ, source, &error)) {
        fail(&request, &error);
        return;
    }
    if (reply->job_count == 1 && !sqs_request_learn(&request, reply->jobs[0].job.body)) {
        (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
        fail(&request, &error);
        return;
    }
    get_job(&request, SQS_MOVE_LOG, source, on_list_log);
}

static void on_list_queue(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    char source[JOB_TOPIC_BYTES_MAX + 1];
    if (!sqs_request_find(front, tag, &request))
        return;
    if (reply->status == QUEUE_NOT_FOUND)
        (void)sqs_error_set(
            &error, SQS_NO_RESOURCE,
            "The resource that you specified for the SourceArn parameter doesn't exist.");
    else if (sqs_error_of(&error, reply->status) &&
             find_source(&request, ACCESS_READ, source, &error)) {
        get_job(&request, SQS_MOVE_RUN, source, on_list_task);
        return;
    }
    fail(&request, &error);
}

static void list_tasks(struct sqs_request *request, const struct queue_topic *topic)
{
    struct sqs_error error;
    char source[JOB_TOPIC_BYTES_MAX + 1];
    (void)topic;
    if (!find_source(request, ACCESS_READ, source, &error)) {
        fail(request, &error);
        return;
    }
    const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = slice_of(source)};
    queue_topic(request->exchange->front->queue, &get, sqs_reply_to(request, on_list_queue));
}

/* ---- cancel ---- */

/* Reads the handle, and the source of its task. */
static bool find_handle(const struct sqs_request *request, char handle[SQS_MOVE_HANDLE_BYTES],
                        char *source, struct sqs_error *error)
{
    struct slice text = sqs_text(request, sqs_member(request->fields, "TaskHandle"));
    struct slice name = sqs_move_handle_source(text);
    if (!text.len)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter "
                             "TaskHandle.");
    if (!name.len)
        return sqs_error_set(error, SQS_BAD_VALUE, "Value for parameter TaskHandle is invalid.");
    (void)snprintf(handle, SQS_MOVE_HANDLE_BYTES, "%.*s", (int)text.len, text.at);
    (void)snprintf(source, JOB_TOPIC_BYTES_MAX + 1, "%.*s", (int)name.len, name.at);
    audit_change_name(request->exchange->change, name, (struct slice){0});
    return may(request, ACCESS_CONSUME, slice_of(source), error);
}

static void on_stop_pushed(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    if (!sqs_request_find(front, tag, &request))
        return;
    if (!sqs_error_of(&error, reply->status || !reply->result_count ? reply->status
                                                                    : reply->results[0].status)) {
        fail(&request, &error);
        return;
    }
    struct buffer *body = http_answer_start(request.exchange);
    buffer_append_text(body, "{\"ApproximateNumberOfMessagesMoved\":");
    buffer_append_slice(body, request.learned);
    buffer_append_byte(body, '}');
    sqs_answer(&request);
}

/* Returns how many messages the task has moved so far, and whether it has ended. */
static uint64_t moved_of(const struct queue_reply *reply, const char *handle, bool *has_ended)
{
    struct json_value tasks = tasks_of(reply), entry;
    struct json_cursor cursor = {0};
    struct sqs_move move;
    while (tasks.kind == JSON_ARRAY && json_next_item(tasks, &cursor, &entry))
        if (sqs_move_read(entry, &move) && strcmp(move.handle, handle) == 0) {
            *has_ended = move.status != SQS_MOVE_RUNNING;
            return move.moved;
        }
    return 0;
}

static bool refuse_task(struct sqs_error *error)
{
    return sqs_error_set(error, SQS_NO_RESOURCE,
                         "The resource that you specified for the TaskHandle parameter doesn't "
                         "exist: there is no such task, or it has ended.");
}

static void on_cancel_log(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    char handle[SQS_MOVE_HANDLE_BYTES], source[JOB_TOPIC_BYTES_MAX + 1];
    char id[JOB_ID_BYTES_MAX + 1], moved[24];
    bool has_ended = false;
    if (!sqs_request_find(front, tag, &request))
        return;
    bool good = is_answered(reply, &error) && find_handle(&request, handle, source, &error);
    if (good)
        (void)snprintf(moved, sizeof moved, "%" PRIu64, moved_of(reply, handle, &has_ended));
    if (good && has_ended)
        good = refuse_task(&error);
    if (good && !sqs_request_learn(&request, slice_of(moved)))
        good = sqs_error_set(&error, SQS_BUSY, "out of memory");
    if (!good) {
        fail(&request, &error);
        return;
    }
    const struct queue_push push = {.topic = slice_of(SQS_MOVES_TOPIC),
                                    .is_own = true,
                                    .id = sqs_move_id(SQS_MOVE_STOP, slice_of(source), id),
                                    .content_type = slice_of("text/plain"),
                                    .meta = sqs_move_meta,
                                    .body = slice_of(handle),
                                    .when = {QUEUE_DUE_DELAY, POLICY_DELAY_MS_MAX},
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .on_conflict = CONFLICT_REPLACE};
    queue_push(request.exchange->front->queue, &push, 1,
               sqs_own_reply_to(&request, on_stop_pushed));
}

static void on_cancel_task(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error;
    struct json_value task = {0};
    struct sqs_move move;
    char handle[SQS_MOVE_HANDLE_BYTES], source[JOB_TOPIC_BYTES_MAX + 1];
    if (!sqs_request_find(front, tag, &request))
        return;
    bool good = is_answered(reply, &error) && find_handle(&request, handle, source, &error);
    if (good && (reply->job_count != 1 || !json_check(reply->jobs[0].job.body, &task, NULL) ||
                 !sqs_move_read(task, &move) || strcmp(move.handle, handle) != 0))
        good = refuse_task(&error);
    if (good)
        get_job(&request, SQS_MOVE_LOG, source, on_cancel_log);
    else
        fail(&request, &error);
}

static void cancel_task(struct sqs_request *request, const struct queue_topic *topic)
{
    struct sqs_error error;
    char handle[SQS_MOVE_HANDLE_BYTES], source[JOB_TOPIC_BYTES_MAX + 1];
    (void)topic;
    if (find_handle(request, handle, source, &error))
        get_job(request, SQS_MOVE_RUN, source, on_cancel_task);
    else
        fail(request, &error);
}

/* ---- the table: the topics are in the call's parameters ---- */

const struct sqs_operation sqs_move_operations[] = {
    {"StartMessageMoveTask", SQS_NAMES_NOTHING, ACCESS_CONSUME, start_task, NULL, NULL,
     "message move started"},
    {"ListMessageMoveTasks", SQS_NAMES_NOTHING, ACCESS_READ, list_tasks, NULL, NULL, NULL},
    {"CancelMessageMoveTask", SQS_NAMES_NOTHING, ACCESS_CONSUME, cancel_task, NULL, NULL,
     "message move cancelled"},
    {0},
};
