#include "grpc/methods.h"

#include "grpc/answer.h"
#include "grpc/settle.h"
#include "grpc/timeout.h"

#include "api/consumers.h"
#include "api/push.h"
#include "api/state.h"
#include "api/trace.h"
#include "base/clock.h"
#include "http/query.h"
#include "queue/status.h"

#include <stdlib.h>

#define MESSAGE(NAME) &tarry__v1__##NAME##__descriptor

static void set_topic(struct request *request, const char *topic)
{
    request->call->topic = slice_of(topic);
}

/* ---- take ---- */

static bool read_take(struct request *request, const void *message)
{
    const Tarry__V1__TakeRequest *take = message;
    struct http_query *query = request->call->query;
    if (take->n_topics > QUEUE_TAKE_TOPICS_MAX)
        return http_fault_set(request->fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_TAKE_TOPICS_MAX,
                              "too many topics, at most %d", QUEUE_TAKE_TOPICS_MAX);
    for (size_t i = 0; i < take->n_topics; i++)
        query->topics[query->topic_count++] = slice_of(take->topics[i]);
    if (*take->id && take->n_topics != 1)
        return http_fault_set(request->fault, PROBLEM_OPTION_CLASH, 0,
                              "'id' is given: give exactly one topic");
    request->call->id = slice_of(take->id);
    query->fields.by_priority = take->by_priority;
    if (!fields_number(&request->fields, OPTION_MAX, take->max) ||
        !fields_duration(&request->fields, OPTION_WAIT, take->wait) ||
        !fields_duration(&request->fields, OPTION_LEASE_FOR, take->lease_for) ||
        !fields_text(&request->fields, OPTION_CONSUMER, take->consumer))
        return false;
    query->fields.wait_ms = *take->id ? 0 : request_wait_ms(request, take->wait != NULL);
    return true;
}

/* ---- answers of consumers ---- */

static bool read_leases(struct request *request, const Tarry__V1__AnswerRequest *answer)
{
    struct http_query *query = request->call->query;
    bool is_plural = answer->n_leases > 0;
    if (is_plural && *answer->lease)
        return http_fault_set(request->fault, PROBLEM_OPTION_CLASH, 0,
                              "'lease' and 'leases' are both given: choose one");
    if (answer->n_leases > QUEUE_BATCH_MAX)
        return http_fault_set(request->fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                              "too many leases in one call, at most %d: make several calls",
                              QUEUE_BATCH_MAX);
    for (size_t i = 0; i < answer->n_leases; i++)
        query->leases[query->lease_count++] = slice_of(answer->leases[i]);
    if (*answer->lease)
        query->leases[query->lease_count++] = slice_of(answer->lease);
    request->call->exchange->is_plural = is_plural;
    return true;
}

static bool read_answer(struct request *request, const void *message)
{
    const Tarry__V1__AnswerRequest *answer = message;
    enum queue_verb verb = (enum queue_verb)request->call->exchange->route->verb;
    if (answer->body && verb == QUEUE_AGAIN)
        request_body(request, slice_of(answer->body->content_type),
                     slice_make(answer->body->data.data, answer->body->data.len));
    if (answer->result)
        request_body(request, slice_of(answer->result->content_type),
                     slice_make(answer->result->data.data, answer->result->data.len));
    if (answer->result && answer->n_leases)
        return http_fault_set(request->fault, PROBLEM_OPTION_CLASH, 0,
                              "'result' belongs to one job: give its 'lease' instead of 'leases'");
    return read_leases(request, answer) && settle_read(answer, verb, &request->fields);
}

/* ---- one job, and lists ---- */

static bool read_get(struct request *request, const void *message)
{
    const Tarry__V1__GetRequest *get = message;
    set_topic(request, get->topic);
    request->call->id = slice_of(get->id);
    return true;
}

static bool read_list(struct request *request, const void *message)
{
    const Tarry__V1__ListRequest *list = message;
    set_topic(request, list->topic);
    request->call->query->fields.bodies = list->with_body ? HTTP_BODIES_BASE64 : HTTP_BODIES_NONE;
    return fields_state(&request->fields, list->state) &&
           fields_number(&request->fields, OPTION_LIMIT, list->limit) &&
           fields_text(&request->fields, OPTION_CURSOR, list->cursor) &&
           fields_text(&request->fields, OPTION_ID_PREFIX, list->id_prefix) &&
           fields_text(&request->fields, OPTION_ERROR, list->error) &&
           fields_text(&request->fields, OPTION_META, list->meta);
}

static bool read_list_members(struct request *request, const void *message)
{
    const Tarry__V1__ListMembersRequest *list = message;
    set_topic(request, list->topic);
    request->call->id = slice_of(list->id);
    return fields_text(&request->fields, OPTION_OUTCOME, list->outcome) &&
           fields_number(&request->fields, OPTION_LIMIT, list->limit) &&
           fields_text(&request->fields, OPTION_CURSOR, list->cursor) &&
           fields_flag(&request->fields, OPTION_RESULTS, list->results);
}

/* ---- changes ---- */

static bool read_change(struct request *request, const void *message)
{
    const Tarry__V1__ChangeRequest *change = message;
    uint8_t verb = request->call->exchange->route->verb;
    bool is_reschedule = verb != QUEUE_CANCEL && verb != QUEUE_RUN && verb != QUEUE_CLOSE;
    set_topic(request, change->topic);
    request->call->id = slice_of(change->id);
    if (change->n_ids && *change->id)
        return http_fault_set(request->fault, PROBLEM_OPTION_CLASH, 0,
                              "'id' and 'ids' are both given: choose one");
    if (change->n_ids > QUEUE_BATCH_MAX)
        return http_fault_set(request->fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                              "too many ids in one call, at most %d: make several calls",
                              QUEUE_BATCH_MAX);
    return settle_lacks(change->delay && !is_reschedule, "delay", request->fault) &&
           settle_lacks(change->at && !is_reschedule, "at", request->fault) &&
           settle_lacks(change->priority && !is_reschedule, "priority", request->fault) &&
           settle_lacks(change->request && verb != QUEUE_CANCEL, "request", request->fault) &&
           settle_lacks(change->members && verb != QUEUE_CANCEL, "members", request->fault) &&
           fields_duration(&request->fields, OPTION_DELAY, change->delay) &&
           fields_time(&request->fields, OPTION_AT, change->at) &&
           fields_priority(&request->fields, change->priority) &&
           fields_flag(&request->fields, OPTION_REQUEST, change->request) &&
           fields_flag(&request->fields, OPTION_CANCEL_MEMBERS, change->members);
}

static void on_many_changed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    if (!exchange)
        return;
    struct buffer *out = answer_begin(exchange);
    for (size_t i = 0; i < reply->result_count; i++)
        answer_add_push(exchange, out, &reply->results[i]);
    answer_end(exchange, (struct slice){0});
}

/* Carries out a change: of one job as REST does, else of all that are named. */
static void change(struct request *request, const void *message)
{
    const Tarry__V1__ChangeRequest *named = message;
    struct http_call *call = request->call;
    const struct http_fields *fields = &call->query->fields;
    if (!named->n_ids) {
        request_rest(call);
        return;
    }
    struct queue_change *changes = arena_alloc(request->arena, named->n_ids * sizeof *changes);
    if (!changes) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    uint8_t verb = call->exchange->route->verb;
    for (size_t i = 0; i < named->n_ids; i++)
        changes[i] = (struct queue_change){
            .verb = verb ? (enum queue_change_verb)verb : QUEUE_RESCHEDULE,
            .topic = call->topic,
            .id = slice_of(named->ids[i]),
            .when = http_fields_when(fields, QUEUE_DUE_UNCHANGED),
            .priority = http_fields_have(fields, OPTION_PRIORITY) ? (int32_t)fields->priority
                                                                  : QUEUE_PRIORITY_UNSET,
            .request = fields->request,
            .members = fields->cancel_members};
    queue_change(call->front->queue, changes, named->n_ids, http_reply_to(call, on_many_changed));
}

/* ---- topics ---- */

static bool read_topic(struct request *request, const void *message)
{
    const Tarry__V1__TopicRequest *topic = message;
    set_topic(request, topic->topic);
    return true;
}

static bool read_pause(struct request *request, const void *message)
{
    const Tarry__V1__PauseRequest *pause = message;
    set_topic(request, pause->topic);
    return fields_duration(&request->fields, OPTION_FOR, pause->duration);
}

/* Reads the limits and rates of a topic and its groups. */
static bool read_flow(struct fields *fields, const Tarry__V1__Settings *settings)
{
    return fields_number(fields, OPTION_FLOW_LIMIT, settings->limit) &&
           fields_text(fields, OPTION_RATE, settings->rate) &&
           fields_number(fields, OPTION_BURST, settings->burst) &&
           fields_number(fields, OPTION_GROUP_LIMIT, settings->group_limit) &&
           fields_text(fields, OPTION_GROUP_RATE, settings->group_rate) &&
           fields_number(fields, OPTION_GROUP_BURST, settings->group_burst) &&
           fields_number(fields, OPTION_GROUP_MAX_JOBS, settings->group_max_jobs) &&
           fields_text(fields, OPTION_GROUP_ORDER, settings->group_order) &&
           fields_flag(fields, OPTION_ONE_SHARD, settings->one_shard);
}

static bool read_keep(struct fields *fields, const Tarry__V1__Settings *settings)
{
    return fields_duration(fields, OPTION_KEEP_FINISHED, settings->keep_finished) &&
           fields_number(fields, OPTION_KEEP_FINISHED_MAX, settings->keep_finished_max) &&
           fields_number(fields, OPTION_KEEP_FINISHED_BYTES, settings->keep_finished_bytes) &&
           fields_flag(fields, OPTION_KEEP_BODY, settings->keep_body);
}

static bool read_put_topic(struct request *request, const void *message)
{
    const Tarry__V1__PutTopicRequest *put = message;
    const Tarry__V1__Settings *settings = put->settings;
    struct fields *fields = &request->fields;
    set_topic(request, put->topic);
    if (!settings)
        return true;
    request_body(request, (struct slice){0}, slice_of(settings->extension));
    return fields_priority(fields, settings->priority) &&
           fields_duration(fields, OPTION_TTL, settings->ttl) &&
           fields_duration(fields, OPTION_LEASE_FOR, settings->lease_for) &&
           fields_attempts(fields, settings->max_attempts) &&
           fields_text(fields, OPTION_BACKOFF, settings->backoff) &&
           fields_conflict(fields, settings->on_conflict) &&
           fields_duration(fields, OPTION_DEDUP_WINDOW, settings->dedup_window) &&
           fields_duration(fields, OPTION_HISTORY, settings->history) &&
           fields_flag(fields, OPTION_DEAD_LETTER_EXPIRED, settings->dead_letter_expired) &&
           fields_number(fields, OPTION_MAX_JOBS, settings->max_jobs) &&
           fields_text(fields, OPTION_PUSH_RATE, settings->push_rate) &&
           read_flow(fields, settings) && read_keep(fields, settings);
}

static bool read_list_topics(struct request *request, const void *message)
{
    const Tarry__V1__ListTopicsRequest *list = message;
    return fields_number(&request->fields, OPTION_LIMIT, list->limit) &&
           fields_text(&request->fields, OPTION_CURSOR, list->cursor);
}

static bool read_purge(struct request *request, const void *message)
{
    const Tarry__V1__PurgeRequest *purge = message;
    set_topic(request, purge->topic);
    return fields_state(&request->fields, purge->state);
}

static bool read_redrive(struct request *request, const void *message)
{
    const Tarry__V1__RedriveRequest *redrive = message;
    set_topic(request, redrive->topic);
    return fields_text(&request->fields, OPTION_ID, redrive->id) &&
           fields_number(&request->fields, OPTION_MAX, redrive->max);
}

/* ---- the table ---- */

#define ANSWER(NAME, REST)                                                                         \
    {                                                                                              \
        .name = (NAME), .rest = (REST), .message = MESSAGE(answer_request),                        \
        .body = HTTP_BODY_MESSAGE, .read = read_answer                                             \
    }
#define CHANGE(NAME, REST)                                                                         \
    {                                                                                              \
        .name = (NAME), .rest = (REST), .message = MESSAGE(change_request), .names_topic = true,   \
        .body = HTTP_BODY_MESSAGE, .read = read_change, .act = change                              \
    }
#define TOPIC(NAME, REST, MESSAGE_NAME, READ)                                                      \
    {                                                                                              \
        .name = (NAME), .rest = (REST), .message = MESSAGE(MESSAGE_NAME), .names_topic = true,     \
        .body = HTTP_BODY_SMALL, .read = (READ)                                                    \
    }

const struct method grpc_methods[] = {
    {.name = "Take",
     .rest = "take",
     .pattern = "/v1/take",
     .message = MESSAGE(take_request),
     .body = HTTP_BODY_SMALL,
     .read = read_take},
    ANSWER("Ack", "ack"),
    ANSWER("Nack", "nack"),
    ANSWER("Extend", "extend"),
    ANSWER("Return", "return"),
    ANSWER("Again", "again"),
    TOPIC("Get", "get", get_request, read_get),
    TOPIC("List", "list", list_request, read_list),
    CHANGE("Cancel", "cancel"),
    CHANGE("Reschedule", "reschedule"),
    CHANGE("Run", "run"),
    CHANGE("CloseBatch", "close"),
    TOPIC("ListMembers", "members", list_members_request, read_list_members),
    TOPIC("GetTopic", "topic", topic_request, read_topic),
    TOPIC("PutTopic", "topic_put", put_topic_request, read_put_topic),
    {.name = "ListTopics",
     .rest = "topics",
     .message = MESSAGE(list_topics_request),
     .body = HTTP_BODY_SMALL,
     .read = read_list_topics},
    TOPIC("Pause", "pause", pause_request, read_pause),
    TOPIC("Resume", "resume", topic_request, read_topic),
    TOPIC("Purge", "purge", purge_request, read_purge),
    TOPIC("Redrive", "redrive", redrive_request, read_redrive),
    {0},
};
