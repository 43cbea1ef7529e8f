/* The groups of a topic: their list, and their settings. */
#include "api/groups.h"

#include "api/routes.h"
#include "base/json_write.h"
#include "http/exchange.h"
#include "job/json.h"
#include "queue/door.h"

#include <assert.h>

enum { PAGE_GROUPS = 100 };

/* ---- what the store can do ---- */

/* Answers a call whose settings the store cannot have. */
static void refuse_flow(struct http_exchange *exchange, enum queue_status status,
                        const char *setting, const struct queue_info *info)
{
    char text[300];
    uint32_t shards = info->shards;
    if (status == QUEUE_BAD_OPTION) {
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, shards,
                            "'%s' is lower than the number of shards, which is %u: each shard "
                            "would need a share of less than 1; give at least %u%s",
                            setting, (unsigned)shards, (unsigned)shards,
                            strstr(setting, "rate") ? ", or the same rate per minute or hour" : "");
        return;
    }
    bool is_for_some = info->one_shard_by_name && setting &&
                       (!strcmp(setting, "one_shard") || !strcmp(setting, "group_order"));
    (void)snprintf(
        text, sizeof text,
        "the server's store does not have %s%s%s%s; docs/flow.md lists what each store has",
        setting ? "the setting '" : "groups, limits and rates", setting ? setting : "",
        setting ? "'" : "",
        is_for_some ? " for this topic, because Redis with several shards needs a topic whose name "
                      "ends in .one or .fifo"
                    : "");
    http_answer_refusal(exchange, QUEUE_UNSUPPORTED, text, (enum job_state)0);
}

bool api_flow_check(struct http_exchange *exchange, struct slice topic,
                    const struct topic_flow *flow)
{
    struct queue_info info = {0};
    const char *setting = topic_flow_fault(flow);
    if (setting) {
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "'%s' is given without its rate: give both or none", setting);
        return false;
    }
    queue_info(exchange->front->queue, &info);
    enum queue_status status = queue_check_topic_flow(&info, topic, flow, &setting);
    if (status)
        refuse_flow(exchange, status, setting, &info);
    return status == QUEUE_OK;
}

static bool check_group(struct http_exchange *exchange, struct slice topic,
                        const struct group_settings *settings)
{
    struct queue_info info = {0};
    const char *setting = group_settings_fault(settings);
    if (setting) {
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "'%s' is given without 'paused': give both or none", setting);
        return false;
    }
    queue_info(exchange->front->queue, &info);
    enum queue_status status = queue_check_group_flow(&info, topic, settings, &setting);
    if (status)
        refuse_flow(exchange, status, setting, &info);
    return status == QUEUE_OK;
}

struct flow_limits api_fields_limits(const struct http_fields *fields)
{
    return (struct flow_limits){.limit = (uint32_t)fields->flow_limit,
                                .rate = fields->rate,
                                .burst = (uint32_t)fields->burst};
}

/* ---- a group as JSON ---- */

static void write_settings(struct buffer *out, const struct group_settings *settings)
{
    size_t start = out->len;
    job_json_write_group(out, settings);
    if (out->len == start)
        buffer_append_byte(out, '{');
    else if (!out->failed)
        out->at[start] = '{'; /* in place of the comma */
    buffer_append_byte(out, '}');
}

static void write_group(struct buffer *out, const struct queue_group *group)
{
    buffer_append_text(out, "{\"group\":");
    json_write_string(out, group->name);
    buffer_append_text(out, ",\"ready\":");
    buffer_append_u64(out, group->ready);
    buffer_append_text(out, ",\"leased\":");
    buffer_append_u64(out, group->leased);
    if (group->held_by) {
        buffer_append_text(out, ",\"held_by\":\"");
        buffer_append_text(out, flow_held_name(group->held_by));
        buffer_append_byte(out, '"');
        if (group->held_until_ms) {
            buffer_append_text(out, ",\"held_until\":");
            json_write_time(out, group->held_until_ms);
        }
    }
    json_write_member_time(out, "oldest_ready_due_at", group->oldest_ready_due_ms);
    buffer_append_text(out, ",\"settings\":");
    write_settings(out, &group->settings);
    buffer_append_byte(out, '}');
}

/* ---- list ---- */

static void on_groups(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    if (!exchange)
        return;
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"groups\":[");
    for (size_t i = 0; i < reply->group_count; i++) {
        if (i)
            buffer_append_byte(body, ',');
        write_group(body, &reply->groups[i]);
    }
    buffer_append_text(body, "],\"cursor\":");
    json_write_string_or_null(body, reply->cursor);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static void list_groups(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct command command = {.kind = COMMAND_GROUPS,
                              .groups = {.topic = call->topic,
                                         .order = fields->groups_order,
                                         .limit = http_fields_have(fields, OPTION_LIMIT)
                                                      ? (uint32_t)fields->limit
                                                      : PAGE_GROUPS,
                                         .cursor = fields->cursor}};
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    queue_submit(call->front->queue, &command, http_reply_to(call, on_groups));
}

/* ---- one group ---- */

/* Returns whether a list of the groups of its topic has the group. */
static bool is_listed(const struct queue_group *group)
{
    return group->ready || group->leased || group->has_settings || group->held_by;
}

static void on_group(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if ((reply->status != QUEUE_OK && reply->status != QUEUE_CREATED) || !reply->group_count) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL,
                            (enum job_state)0);
        return;
    }
    write_group(http_answer_start(exchange), &reply->groups[0]);
    http_answer_end_json(exchange, 200);
}

/* Any name may be that of a group, so the store replies with zeros for one that it does not have. */
static void on_read(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (reply->status || !reply->group_count || is_listed(&reply->groups[0]))
        on_group(owner, tag, reply);
    else if (exchange)
        http_answer_refusal(exchange, QUEUE_NOT_FOUND,
                            "no ready or leased job of the topic is in this group, and it has no "
                            "settings and no hold",
                            (enum job_state)0);
}

/* Returns whether the name in the path is one of a group, and answers the call if not. */
static bool check_name(struct http_call *call)
{
    if (flow_group_is_valid(call->id))
        return true;
    http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, JOB_GROUP_BYTES_MAX,
                        "the name of a group must be %s", http_option_values("group"));
    return false;
}

/* Handles get and delete. The verb of the route is the enum queue_group_verb. */
static void call_group(struct http_call *call)
{
    struct command command = {.kind = COMMAND_GROUP,
                              .group = {.verb = (enum queue_group_verb)call->exchange->route->verb,
                                        .topic = call->topic,
                                        .group = call->id}};
    if (!check_name(call))
        return;
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    queue_submit(call->front->queue, &command,
                 http_reply_to(call, command.group.verb == QUEUE_GROUP_GET ? on_read : on_group));
}

/* Reads the settings from the query, or from a JSON object. */
static bool read_settings(struct http_call *call, struct http_fault *fault)
{
    struct slice body = call->request->body, key;
    struct buffer *arena = &call->front->arena;
    struct json_value object, value;
    struct json_cursor cursor = {0};
    size_t error_at;
    if (body.len == 0)
        return true;
    buffer_clear(arena);
    if (!buffer_reserve(arena, 2 * body.len + 1))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!json_check(body, &object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be an object of settings such as "
                              "{\"weight\":2,\"limit\":5}");
    while (json_next_member(object, &cursor, &key, &value))
        if (!http_option_set_member(&call->query->fields, OPTIONS_GROUP, NULL, key, value, arena,
                                    fault))
            return false;
    return true;
}

static void send_put(struct http_exchange *exchange, struct slice topic, struct slice group,
                     const struct group_settings *settings)
{
    struct command command = {
        .kind = COMMAND_GROUP,
        .group = {.verb = QUEUE_GROUP_PUT, .topic = topic, .group = group, .settings = *settings}};
    queue_submit(exchange->front->queue, &command, http_exchange_reply_to(exchange, on_group));
}

static void put_group(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct http_fault fault;
    if (!check_name(call))
        return;
    if (!read_settings(call, &fault)) {
        http_answer_fault(call->exchange, &fault);
        return;
    }
    struct group_settings settings = {.weight = (uint32_t)fields->weight,
                                      .limits = api_fields_limits(fields),
                                      .max_jobs = (uint64_t)fields->max_jobs,
                                      .paused = fields->paused,
                                      .paused_until_ms = fields->paused_until_ms};
    if (!check_group(call->exchange, call->topic, &settings))
        return;
    http_gate_keep(call->exchange, call->caller);
    send_put(call->exchange, call->topic, call->id, &settings);
}

/* ---- pause and resume: the settings are read and written back ---- */

/* The data in the note while the group is read; topic and group follow it. */
struct noted_pause {
    bool pauses;
    int64_t until_ms;
    size_t topic_bytes, group_bytes;
};

static void on_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    struct noted_pause noted;
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK || !reply->group_count) {
        http_answer_refusal(
            exchange, reply->status ? reply->status : QUEUE_NOT_FOUND,
            reply->status == QUEUE_NOT_FOUND
                ? "the topic does not exist; a push or a PUT of its settings creates it"
                : NULL,
            (enum job_state)0);
        return;
    }
    assert(exchange->note.len >= sizeof noted);
    memcpy(&noted, exchange->note.at, sizeof noted);
    const char *at = exchange->note.at + sizeof noted;
    struct group_settings settings = reply->groups[0].settings;
    settings.paused = noted.pauses;
    settings.paused_until_ms = noted.until_ms;
    send_put(exchange, slice_make(at, noted.topic_bytes),
             slice_make(at + noted.topic_bytes, noted.group_bytes), &settings);
}

enum { PAUSE = 1, RESUME };

static void pause_group(struct http_call *call)
{
    bool pauses = call->exchange->route->verb == PAUSE;
    int64_t for_ms = call->query->fields.for_ms;
    struct noted_pause noted = {
        .pauses = pauses,
        .until_ms = pauses && for_ms ? queue_wall_ms(call->front->queue) + for_ms : 0,
        .topic_bytes = call->topic.len,
        .group_bytes = call->id.len};
    struct buffer *note = &call->exchange->note;
    struct command command = {
        .kind = COMMAND_GROUP,
        .group = {.verb = QUEUE_GROUP_GET, .topic = call->topic, .group = call->id}};
    if (!check_name(call))
        return;
    http_gate_keep(call->exchange, call->caller);
    http_front_lend(call->front, note);
    buffer_append(note, &noted, sizeof noted);
    buffer_append_slice(note, call->topic);
    buffer_append_slice(note, call->id);
    if (note->failed) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    queue_submit(call->front->queue, &command, http_reply_to(call, on_looked_up));
}

#define GROUPS_PATH HTTP_TOPIC_PATH "/groups"
#define GROUP_PATH GROUPS_PATH "/{group}"
#define PAUSE_ROUTE(WORD, NAME, VERB, OPTIONS, AUDIT)                                              \
    {                                                                                              \
        .method = HTTP_METHOD_POST, .pattern = GROUP_PATH WORD, .name = (NAME), .audit = (AUDIT),  \
        .scope = ACCESS_ADMIN, .topics = HTTP_TOPICS_PATH, .handle = pause_group, .verb = (VERB),  \
        .options = (OPTIONS)                                                                       \
    }

const struct http_route api_groups_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = GROUPS_PATH,
     .name = "groups",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = list_groups,
     .options =
         OPTION_BIT(OPTION_GROUPS_ORDER) | OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_CURSOR),
     .answer = HTTP_ANSWER_LONG},
    {.method = HTTP_METHOD_GET,
     .pattern = GROUP_PATH,
     .name = "group",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = call_group,
     .verb = QUEUE_GROUP_GET},
    {.method = HTTP_METHOD_PUT,
     .pattern = GROUP_PATH,
     .name = "group_put",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "group settings changed",
     .handle = put_group,
     .options = OPTIONS_GROUP,
     .body = HTTP_BODY_SMALL},
    {.method = HTTP_METHOD_DELETE,
     .pattern = GROUP_PATH,
     .name = "group_delete",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "group settings deleted",
     .handle = call_group,
     .verb = QUEUE_GROUP_DELETE},
    PAUSE_ROUTE("/pause", "group_pause", PAUSE, OPTION_BIT(OPTION_FOR), "group paused"),
    PAUSE_ROUTE("/resume", "group_resume", RESUME, 0, "group resumed"),
    {0},
};
