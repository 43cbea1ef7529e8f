/* The door: checks each call once, and generates missing ids of pushes. Most calls pass unchanged; only those with
 * a fault or without an id are copied. */
#include "queue/door.h"

#include "job/ulid.h"
#include "queue/caller.h"
#include "queue/groups.h"
#include "queue/traits.h"

#include <assert.h>
#include <stdlib.h>

/* ---- checks of an item ---- */

static bool is_within(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

/* Returns the name of the option if the value is out of its limits, else NULL. */
static const char *limit_fault(enum job_limit_id id, int64_t value)
{
    return job_limit_holds(id, value) ? NULL : job_limits[id].option;
}

static const char *bad_when(const struct queue_when *when)
{
    switch (when->due) {
    case QUEUE_DUE_NOW:
    case QUEUE_DUE_UNCHANGED:
        return NULL;
    case QUEUE_DUE_DELAY:
        return limit_fault(LIMIT_DELAY, when->ms);
    case QUEUE_DUE_AT:
        return limit_fault(LIMIT_AT, when->ms);
    }
    return "delay";
}

static const char *bad_priority(int32_t priority)
{
    return priority == QUEUE_PRIORITY_UNSET ? NULL : limit_fault(LIMIT_PRIORITY, priority);
}

static const char *lease_fault(int64_t lease_ms)
{
    return lease_ms ? limit_fault(LIMIT_LEASE_FOR, lease_ms) : NULL;
}

static enum queue_status bad_option(const char *option, const char **detail)
{
    if (!option)
        return QUEUE_OK;
    *detail = option;
    return QUEUE_BAD_OPTION;
}

static const char *bad_once(const struct queue_push *push)
{
    if (push->once.len && !job_id_is_valid(push->once))
        return "once";
    if (!push->once_for_ms)
        return NULL;
    return push->once.len ? limit_fault(LIMIT_ONCE_FOR, push->once_for_ms) : "once_for";
}

/* Checks the batches of a push. */
static const char *bad_batch(const struct queue_batch *batch)
{
    bool is_member = batch->topic.len || batch->id.len;
    if (is_member && (!job_topic_is_valid(batch->topic) || !job_id_is_valid(batch->id)))
        return "batch";
    if (batch->parent.len && (!is_member || batch->parent.len > QUEUE_LEASE_TEXT_BYTES_MAX))
        return "parent";
    if (!batch->waits)
        return batch->on_dead           ? "on_dead"
               : batch->members         ? "members"
               : batch->wait_at_most_ms ? "wait_at_most"
               : batch->close_within_ms ? "close_within"
                                        : NULL;
    if (batch->on_dead > BATCH_STOP)
        return "on_dead";
    if (!job_limit_holds_or_unset(LIMIT_MEMBERS, batch->members))
        return "members";
    /* A batch is complete by the end of a member, so one that is complete at its push would wait in vain. */
    uint64_t ended = batch_members(&batch->past);
    if (batch->past.of[BATCH_UNFINISHED] || batch->past.of[BATCH_DEAD] ||
        ended > BATCH_MEMBERS_MAX || (ended && batch->members && ended >= batch->members))
        return "ended";
    if (!job_limit_holds_or_unset(LIMIT_WAIT_AT_MOST, batch->wait_at_most_ms))
        return "wait_at_most";
    return job_limit_holds_or_unset(LIMIT_CLOSE_WITHIN, batch->close_within_ms) ? NULL
                                                                                : "close_within";
}

enum queue_status queue_check_push(const struct queue_push *push, uint64_t body_bytes_max,
                                   const char **detail)
{
    if (!job_topic_is_valid(push->topic))
        return QUEUE_BAD_TOPIC;
    if (push->id.len && (!job_id_is_valid(push->id) || job_id_is_dots(push->id)))
        return QUEUE_BAD_ID;
    if (push->body.len > body_bytes_max)
        return QUEUE_BODY_TOO_BIG;
    if (push->content_type.len > JOB_CONTENT_TYPE_BYTES_MAX)
        return bad_option("content_type", detail);
    if (push->meta.len > JOB_META_BYTES_MAX)
        return bad_option("meta", detail);
    if (push->when.due == QUEUE_DUE_UNCHANGED)
        return bad_option("delay", detail);
    const char *bad = bad_when(&push->when);
    if (!bad)
        bad = bad_priority(push->priority);
    if (!bad)
        bad = policy_fault(&push->policy);
    if (!bad && push->on_conflict > CONFLICT_AFTER)
        bad = "on_conflict";
    if (!bad)
        bad = limit_fault(LIMIT_ATTEMPT, push->past.attempt);
    if (!bad && push->past.error.len > JOB_ERROR_BYTES_MAX)
        bad = "error";
    if (!bad && (push->once.len || push->once_for_ms))
        bad = bad_once(push);
    if (!bad && push->has_keep_finished)
        bad = limit_fault(LIMIT_KEEP_FINISHED, push->keep_finished_ms);
    if (!bad && push->group.len && !flow_group_is_valid(push->group))
        bad = "group";
    if (!bad && push->batch)
        bad = bad_batch(push->batch);
    if (!bad && push->batch && push->batch->waits && push->past.dead)
        bad = "waits";
    return bad_option(bad, detail);
}

enum queue_status queue_check_change(const struct queue_change *change, const char **detail)
{
    if (!job_topic_is_valid(change->topic))
        return QUEUE_BAD_TOPIC;
    if (!job_id_is_valid(change->id))
        return QUEUE_BAD_ID;
    if (change->verb != QUEUE_RESCHEDULE)
        return QUEUE_OK;
    const char *bad = bad_when(&change->when);
    return bad_option(bad ? bad : bad_priority(change->priority), detail);
}

static enum queue_status check_again(const struct queue_again *again, uint64_t body_bytes_max,
                                     const char **detail)
{
    if (again->has_body && again->body.len > body_bytes_max)
        return QUEUE_BODY_TOO_BIG;
    if (again->content_type.len > JOB_CONTENT_TYPE_BYTES_MAX)
        return bad_option("content_type", detail);
    const char *bad = again->when.due == QUEUE_DUE_UNCHANGED ? "delay" : bad_when(&again->when);
    return bad_option(bad ? bad : bad_priority(again->priority), detail);
}

enum queue_status queue_check_answer(const struct queue_answer *answer, uint64_t body_bytes_max,
                                     const char **detail)
{
    if (answer->result.len > JOB_RESULT_BYTES_MAX)
        return QUEUE_RESULT_TOO_BIG;
    if (answer->hold_ms && (answer->verb == QUEUE_AGAIN || answer->verb == QUEUE_EXTEND ||
                            !job_limit_holds(LIMIT_HOLD, answer->hold_ms)))
        return bad_option(job_limits[LIMIT_HOLD].option, detail);
    if (answer->verb == QUEUE_AGAIN)
        return check_again(answer->again, body_bytes_max, detail);
    if ((answer->verb == QUEUE_NACK || answer->verb == QUEUE_RETURN) && answer->delay_ms != -1)
        return bad_option(limit_fault(LIMIT_DELAY, answer->delay_ms), detail);
    if (answer->verb == QUEUE_EXTEND)
        return bad_option(answer->progress.len > JOB_PROGRESS_BYTES_MAX
                              ? "progress"
                              : lease_fault(answer->lease_ms),
                          detail);
    return QUEUE_OK;
}

enum queue_status queue_check_take(const struct queue_take *take, const char **detail)
{
    if (!is_within((int64_t)take->topic_count, 1, QUEUE_TAKE_TOPICS_MAX))
        return bad_option("topic", detail);
    for (size_t i = 0; i < take->topic_count; i++)
        if (!job_topic_is_valid(take->topics[i]))
            return QUEUE_BAD_TOPIC;
    if (!is_within(take->max, 1, QUEUE_TAKE_MAX))
        return bad_option("max", detail);
    if (lease_fault(take->lease_ms))
        return bad_option(lease_fault(take->lease_ms), detail);
    if (take->consumer.len && !job_consumer_is_valid(take->consumer))
        return bad_option("consumer", detail);
    if (take->id.len && take->topic_count != 1)
        return bad_option("topic", detail);
    return take->id.len && !job_id_is_valid(take->id) ? QUEUE_BAD_ID : QUEUE_OK;
}

enum queue_status queue_check_list(const struct queue_list *list, const char **detail)
{
    if (!job_topic_is_valid(list->topic))
        return QUEUE_BAD_TOPIC;
    if (list->state > JOB_FINISHED)
        return bad_option("state", detail);
    if (!is_within(list->limit, 1, QUEUE_LIST_MAX))
        return bad_option("limit", detail);
    return QUEUE_OK;
}

bool queue_topic_may_remember(struct slice topic)
{
    return !slice_is(topic, "tarry.schedules");
}

enum queue_status queue_check_topic(const struct queue_topic_call *call, const char **detail)
{
    if (!job_topic_is_valid(call->topic))
        return QUEUE_BAD_TOPIC;
    switch (call->verb) {
    case QUEUE_TOPIC_PUT: {
        const struct topic_settings *settings = &call->settings;
        const char *bad = policy_fault(&settings->policy);
        if (!bad && settings->has_priority)
            bad = limit_fault(LIMIT_PRIORITY, settings->priority);
        if (!bad)
            bad = limit_fault(LIMIT_DEDUP_WINDOW, settings->dedup_window_ms);
        if (!bad && settings->dedup_window_ms && !queue_topic_may_remember(call->topic))
            bad = job_limits[LIMIT_DEDUP_WINDOW].option;
        if (!bad)
            bad = limit_fault(LIMIT_HISTORY, settings->history_ms);
        if (!bad)
            bad = limit_fault(LIMIT_KEEP_FINISHED, settings->keep_finished_ms);
        if (!bad && settings->keep_finished_max)
            bad = limit_fault(LIMIT_KEEP_FINISHED_MAX, (int64_t)settings->keep_finished_max);
        if (!bad && settings->keep_finished_bytes)
            bad = limit_fault(LIMIT_KEEP_FINISHED_BYTES, (int64_t)settings->keep_finished_bytes);
        if (!bad && settings->max_jobs)
            bad = limit_fault(LIMIT_MAX_JOBS, (int64_t)settings->max_jobs);
        if (!bad && !frequency_is_valid(settings->push_rate))
            bad = "push_rate";
        if (!bad && settings->on_conflict > CONFLICT_REJECT)
            bad = "on_conflict";
        if (!bad && settings->extension.len > TOPIC_EXTENSION_BYTES_MAX)
            bad = "extension";
        if (!bad)
            bad = topic_flow_fault(&settings->flow);
        return bad_option(bad, detail);
    }
    case QUEUE_TOPIC_PURGE:
        if (call->state > JOB_FINISHED || call->state == JOB_LEASED)
            return bad_option("state", detail);
        return QUEUE_OK;
    case QUEUE_TOPIC_REDRIVE:
        if (call->id.len && !job_id_is_valid(call->id))
            return QUEUE_BAD_ID;
        return QUEUE_OK;
    case QUEUE_TOPIC_GET:
    case QUEUE_TOPIC_PAUSE:
        return bad_option(call->pause_until_ms >= 0 &&
                                  job_limit_holds_or_unset(LIMIT_PAUSE, call->pause_ms)
                              ? NULL
                              : job_limits[LIMIT_PAUSE].option,
                          detail);
    case QUEUE_TOPIC_DELETE:
    case QUEUE_TOPIC_RESUME:
    case QUEUE_TOPIC_MARK:
        return QUEUE_OK;
    }
    return QUEUE_OK;
}

static enum queue_status check_group_name(struct slice topic, struct slice group,
                                          const char **detail)
{
    if (!job_topic_is_valid(topic))
        return QUEUE_BAD_TOPIC;
    return bad_option(!group.len || flow_group_is_valid(group) ? NULL : "group", detail);
}

enum queue_status queue_check_group(const struct queue_group_call *call, const char **detail)
{
    enum queue_status status = check_group_name(call->topic, call->group, detail);
    if (!status && call->verb == QUEUE_GROUP_HOLD)
        return bad_option("verb", detail);
    if (status || call->verb != QUEUE_GROUP_PUT)
        return status;
    return bad_option(group_settings_fault(&call->settings), detail);
}

enum queue_status queue_check_groups(const struct queue_groups_call *call, const char **detail)
{
    struct groups_place place;
    if (!job_topic_is_valid(call->topic))
        return QUEUE_BAD_TOPIC;
    if (call->order > QUEUE_GROUPS_HELD)
        return bad_option("order", detail);
    if (!is_within(call->limit, 1, QUEUE_LIST_MAX))
        return bad_option("limit", detail);
    return groups_place_parse(call, &place) ? QUEUE_OK : QUEUE_BAD_CURSOR;
}

static enum queue_status check_name(struct slice topic, struct slice id)
{
    if (!job_topic_is_valid(topic))
        return QUEUE_BAD_TOPIC;
    return job_id_is_valid(id) ? QUEUE_OK : QUEUE_BAD_ID;
}

static enum queue_status check_forecast(const struct queue_forecast_call *call, const char **detail)
{
    if (call->topic.len && !job_topic_is_valid(call->topic))
        return QUEUE_BAD_TOPIC;
    bool is_minute = job_limit_holds(LIMIT_AT, call->from_ms) && call->from_ms % 60000 == 0;
    return bad_option(is_minute ? NULL : "from", detail);
}

/* ---- features that not every store has ---- */

/* Returns whether each of several shards can have a share of these limits: a share of less than 1 would be none. */
static bool can_share(const struct flow_limits *limits, uint32_t shards, bool *is_rate)
{
    *is_rate = !limits->limit || limits->limit >= shards;
    return *is_rate && (!limits->rate.count || limits->rate.count >= shards);
}

/* Returns whether all jobs of the topic are in one shard, if the store has several. */
static bool name_is_one_shard(const struct queue_info *info, struct slice topic)
{
    return info->one_shard_by_name && flow_name_is_one_shard(topic);
}

enum queue_status queue_check_topic_flow(const struct queue_info *info, struct slice topic,
                                         const struct topic_flow *flow, const char **detail)
{
    bool is_rate;
    const char *lacking = flow->group_order == FLOW_STRICT && !info->strict_groups ? "group_order"
                          : flow->one_shard && !info->one_shard                    ? "one_shard"
                          : flow->group_max_jobs && !info->group_max_jobs ? "group_max_jobs"
                                                                          : NULL;
    if (!topic_flow_is_set(flow))
        return QUEUE_OK;
    if (!info->groups || lacking) {
        *detail = lacking;
        return QUEUE_UNSUPPORTED;
    }
    if (info->shards <= 1 || name_is_one_shard(info, topic))
        return QUEUE_OK;
    if (flow_is_one_shard(flow)) {
        *detail = flow->one_shard ? "one_shard" : "group_order";
        return info->one_shard_by_name ? QUEUE_UNSUPPORTED : QUEUE_OK;
    }
    if (!can_share(&flow->topic, info->shards, &is_rate))
        return bad_option(is_rate ? "rate" : "limit", detail);
    if (!can_share(&flow->group, info->shards, &is_rate))
        return bad_option(is_rate ? "group_rate" : "group_limit", detail);
    return QUEUE_OK;
}

enum queue_status queue_check_group_flow(const struct queue_info *info, struct slice topic,
                                         const struct group_settings *settings, const char **detail)
{
    bool is_rate;
    if (!info->groups || (settings->max_jobs && !info->group_max_jobs)) {
        *detail = info->groups ? "max_jobs" : NULL;
        return QUEUE_UNSUPPORTED;
    }
    /* With one_shard, only the store knows whether the topic has several shards, unless the name decides. */
    if (info->shards <= 1 || (info->one_shard && !info->one_shard_by_name) ||
        name_is_one_shard(info, topic) || can_share(&settings->limits, info->shards, &is_rate))
        return QUEUE_OK;
    return bad_option(is_rate ? "rate" : "limit", detail);
}

static bool push_needs_feature(const struct queue_push *push)
{
    return push->has_keep_finished || push->ended || push->group.len || push->batch;
}

/* Checks the settings of a topic or a group against the store. */
static enum queue_status check_flow(const struct queue_info *info, const struct command *command,
                                    const char **detail)
{
    if (command->kind == COMMAND_TOPIC && command->topic.verb == QUEUE_TOPIC_PUT)
        return queue_check_topic_flow(info, command->topic.topic, &command->topic.settings.flow,
                                      detail);
    if (command->kind == COMMAND_GROUP && command->group.verb == QUEUE_GROUP_PUT)
        return queue_check_group_flow(info, command->group.topic, &command->group.settings, detail);
    return QUEUE_OK;
}

/* Returns UNSUPPORTED if the call needs a feature that the store lacks. */
static __attribute__((noinline)) enum queue_status check_features(const struct queue *queue,
                                                                  const struct command *command,
                                                                  size_t i, const char **detail)
{
    struct queue_info info = {0};
    const struct queue_push *push = command->kind == COMMAND_PUSH ? &command->pushes[i] : NULL;
    if (!queue->ops->info)
        return QUEUE_OK;
    queue->ops->info((struct queue *)(uintptr_t)queue, &info);
    bool keeps = push ? push->has_keep_finished
                      : command->kind == COMMAND_TOPIC && command->topic.settings.keep_finished_ms;
    bool awaits = push ? push->ended != NULL : command->kind == COMMAND_AWAIT;
    bool groups = push ? push->group.len != 0
                  : command->kind == COMMAND_ANSWER
                      ? command->answers[i].hold_ms != 0
                      : command->kind == COMMAND_GROUP || command->kind == COMMAND_GROUPS;
    bool batches = push ? push->batch != NULL : command->kind == COMMAND_CHANGE;
    return (keeps && !info.keeps_finished) || (awaits && !info.awaits) ||
                   (groups && !info.groups) || (batches && !info.batches)
               ? QUEUE_UNSUPPORTED
               : check_flow(&info, command, detail);
}

/* ---- any call ---- */

/* Checks one item; if a call has no items, the call. Inline, because every call passes here. */
static inline __attribute__((always_inline)) enum queue_status check_item(
    const struct queue *queue, const struct command *command, size_t i, uint64_t body_bytes_max,
    const char **detail)
{
    enum queue_status status;
    switch (command->kind) {
    case COMMAND_PUSH:
        status = queue_check_push(&command->pushes[i], body_bytes_max, detail);
        return __builtin_expect(push_needs_feature(&command->pushes[i]), 0) && !status
                   ? check_features(queue, command, i, detail)
                   : status;
    case COMMAND_ANSWER:
        status = queue_check_answer(&command->answers[i], body_bytes_max, detail);
        return __builtin_expect(command->answers[i].hold_ms != 0, 0) && !status
                   ? check_features(queue, command, i, detail)
                   : status;
    case COMMAND_CHANGE:
        status = queue_check_change(&command->changes[i], detail);
        return (command->changes[i].verb == QUEUE_CLOSE || command->changes[i].members) && !status
                   ? check_features(queue, command, i, detail)
                   : status;
    case COMMAND_TAKE:
        return queue_check_take(&command->take, detail);
    case COMMAND_GET:
        return check_name(command->get.topic, command->get.id);
    case COMMAND_AWAIT:
        status = check_name(command->await.topic, command->await.id);
        return status ? status : check_features(queue, command, i, detail);
    case COMMAND_FIND:
        return check_name(command->finds[i].topic, command->finds[i].id);
    case COMMAND_LIST:
        return queue_check_list(&command->list, detail);
    case COMMAND_TOPIC:
        status = queue_check_topic(&command->topic, detail);
        return command->topic.verb == QUEUE_TOPIC_PUT && !status &&
                       (command->topic.settings.keep_finished_ms ||
                        topic_flow_is_set(&command->topic.settings.flow))
                   ? check_features(queue, command, i, detail)
                   : status;
    case COMMAND_TOPICS:
        return QUEUE_OK;
    case COMMAND_GROUP:
        status = queue_check_group(&command->group, detail);
        return status ? status : check_features(queue, command, i, detail);
    case COMMAND_GROUPS:
        status = queue_check_groups(&command->groups, detail);
        return status ? status : check_features(queue, command, i, detail);
    case COMMAND_FORECAST:
        return check_forecast(&command->forecast, detail);
    case COMMAND_BATCH: /* does not pass the door */
        break;
    }
    assert(false); /* not a command */
    return QUEUE_OK;
}

enum found { FOUND_GOOD = 1, FOUND_UNNAMED, FOUND_FAULT };

/* Checks a call. FOUND_UNNAMED: all items are valid, but a push has no id. */
static enum found look_at(const struct queue *queue, const struct command *command,
                          uint64_t body_bytes_max)
{
    enum found found = FOUND_GOOD;
    size_t count = command_item_count(command);
    const char *detail;
    for (size_t i = 0; i < count; i++) {
        if (check_item(queue, command, i, body_bytes_max, &detail) != QUEUE_OK)
            return FOUND_FAULT;
        if (command->kind == COMMAND_PUSH && !command->pushes[i].id.len)
            found = FOUND_UNNAMED;
    }
    return found;
}

/* ---- the rules of the caller ---- */

static bool changes_topic(const struct command *command)
{
    return (command->kind == COMMAND_TOPIC || command->kind == COMMAND_GROUP) &&
           command_writes(command);
}

struct queue_door {
    uint64_t body_bytes_max;
    const struct queue_ops *drained; /* the original operations; NULL: not draining */
    int64_t (*wall_ms)(void);
    const struct queue_callback_rule *callbacks; /* NULL: no job of a caller may have one */
    struct ulid ulid;
    /* Room for a batch with generated ids. */
    struct queue_push pushes[QUEUE_BATCH_MAX];
    char ids[QUEUE_BATCH_MAX][ULID_BYTES];
};

/* Returns whether the push may have its callback, if it has one. */
static __attribute__((noinline)) bool may_call_back(const struct queue *queue,
                                                    const struct queue_push *push,
                                                    struct queue_check *out)
{
    struct slice url = job_meta_find(push->meta, slice_of(JOB_META_CALLBACK));
    const struct queue_callback_rule *rule = queue->door ? queue->door->callbacks : NULL;
    if (!url.at || (rule && rule->allows(rule->ctx, url)))
        return true;
    *out = (struct queue_check){.status = QUEUE_BAD_OPTION, .detail = "callback"};
    return false;
}

/* Submits a valid item to the rules of its caller. */
static bool admit_one(const struct queue *queue, const struct queue_caller *caller,
                      const struct command *command, size_t i, struct queue_check *out)
{
    const bool has_meta = command->kind == COMMAND_PUSH && command->pushes[i].meta.len;
    return (!has_meta || may_call_back(queue, &command->pushes[i], out)) &&
           caller->rules->admit(caller, command, i, out);
}

/* The decisions of the rules so far: `admitted` items, and the reason against the next one. Each item is submitted
 * to the rules only once, because that charges it. */
struct admission {
    const struct queue_caller *caller; /* NULL: no rules apply */
    size_t admitted;
    struct queue_check refused; /* status QUEUE_OK: no rejection yet */
};

/* Submits all items of a valid call. False: one was rejected. */
static bool admit_all(const struct queue *queue, struct admission *admission,
                      const struct command *command)
{
    size_t count = command_item_count(command);
    const struct queue_caller *caller = admission->caller;
    for (; admission->admitted < count; admission->admitted++)
        if (!admit_one(queue, caller, command, admission->admitted, &admission->refused))
            return false;
    return true;
}

/* Submits one valid item of a call that has a fault in another one. */
static void admit_item(const struct queue *queue, const struct admission *admission,
                       const struct command *command, size_t i, struct queue_check *out)
{
    if (!admission->caller || i < admission->admitted)
        return;
    if (i == admission->admitted && admission->refused.status)
        *out = admission->refused;
    else
        (void)admit_one(queue, admission->caller, command, i, out);
}

/* A call that changes a topic, from the door to its reply. */
struct passage {
    const struct queue_rules *rules;
    void *begun;
    struct queue_reply_to reply_to;
};

static void on_passed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct passage *passage = owner;
    const struct queue_reply_to reply_to = passage->reply_to;
    (void)tag;
    passage->rules->end(passage->begun, reply);
    free(passage);
    reply_to.done(reply_to.owner, reply_to.tag, reply);
}

/* Returns where to send the reply first. Without memory, or if the rules need no end, it goes to the caller. */
static __attribute__((noinline)) struct queue_reply_to begin_passage(const struct command *command,
                                                                     struct queue_reply_to reply_to)
{
    struct passage *passage = malloc(sizeof *passage);
    if (!passage)
        return reply_to;
    const struct queue_rules *rules = reply_to.caller->rules;
    *passage = (struct passage){rules, rules->begin(reply_to.caller, command), reply_to};
    if (!passage->begun) {
        free(passage);
        return reply_to;
    }
    return (struct queue_reply_to){.done = on_passed, .owner = passage, .caller = reply_to.caller};
}

/* ---- the door ---- */

struct queue_door *queue_door_new(uint64_t body_bytes_max, uint64_t seed, int64_t (*wall_ms)(void))
{
    struct queue_door *door = malloc(sizeof *door); /* this room is touched only when it is used */
    if (!door)
        return NULL;
    door->body_bytes_max = body_bytes_max;
    door->wall_ms = wall_ms;
    door->drained = NULL;
    door->callbacks = NULL;
    ulid_init(&door->ulid, seed);
    return door;
}

void queue_door_free(struct queue_door *door)
{
    free(door);
}

void queue_rule_callbacks(struct queue *queue, const struct queue_callback_rule *rule)
{
    queue->door->callbacks = rule;
}

/* Generates ids until one belongs to the part that remembers the `once`. With 64 parts, 4,000 tries fail once in 10^27
 * pushes; the job is then stored in another part. */
static __attribute__((noinline)) void make_id_of_once(const struct queue *queue, int64_t wall_ms,
                                                      const struct queue_push *push,
                                                      char id[ULID_BYTES])
{
    enum { TRIES_MAX = 4000 };
    if (!job_topic_is_valid(push->topic) || !job_id_is_valid(push->once))
        return;
    bool is_found = !queue->ops->same_part;
    for (int i = 0; i < TRIES_MAX && !is_found; i++) {
        is_found = queue->ops->same_part(queue, push->topic, push->id, push->once);
        if (!is_found)
            ulid_write(&queue->door->ulid, wall_ms, id);
    }
}

/* Copies the pushes and generates missing ids. Later layers need them, because the id determines the shard of a
 * job. */
static const struct queue_push *with_ids(const struct queue *queue, const struct command *command)
{
    struct queue_door *door = queue->door;
    int64_t wall_ms = door->wall_ms();
    memcpy(door->pushes, command->pushes, command->count * sizeof *command->pushes);
    for (size_t i = 0; i < command->count; i++) {
        struct queue_push *push = &door->pushes[i];
        if (push->id.len)
            continue;
        ulid_write(&door->ulid, wall_ms, door->ids[i]);
        push->id = slice_make(door->ids[i], ULID_BYTES);
        push->id_is_made = !push->once.len;
        if (push->once.len)
            make_id_of_once(queue, wall_ms, push, door->ids[i]);
    }
    return door->pushes;
}

static void submit_with_ids(struct queue *queue, const struct command *command,
                            struct queue_reply_to reply_to)
{
    struct command named = {
        .kind = COMMAND_PUSH, .count = command->count, .checks = command->checks};
    named.pushes = queue->door ? with_ids(queue, command) : command->pushes;
    queue->ops->submit(queue, &named, reply_to);
}

/* Submits a call with a fault, together with its checks. A separate function, because no other call needs its
 * stack space. */
static __attribute__((noinline)) void submit_faulty(struct queue *queue,
                                                    const struct command *command,
                                                    uint64_t body_bytes_max,
                                                    const struct admission *admission,
                                                    struct queue_reply_to reply_to)
{
    struct queue_check checks[QUEUE_BATCH_MAX];
    struct command faulty = *command;
    size_t count = command_item_count(command);
    for (size_t i = 0; i < count; i++) {
        checks[i] = (struct queue_check){0};
        checks[i].status = check_item(queue, command, i, body_bytes_max, &checks[i].detail);
        if (checks[i].status == QUEUE_OK)
            admit_item(queue, admission, command, i, &checks[i]);
    }
    if (command_has_items(command))
        faulty.checks = checks;
    else
        faulty.status = checks[0].status;
    if (command->kind == COMMAND_PUSH)
        submit_with_ids(queue, &faulty, reply_to);
    else
        queue->ops->submit(queue, &faulty, reply_to);
}

void queue_submit(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to)
{
    uint64_t body_bytes_max = queue->door ? queue->door->body_bytes_max : UINT64_MAX;
    struct admission admission;
    assert(command->count <= QUEUE_BATCH_MAX);
    enum found found = look_at(queue, command, body_bytes_max);
    admission.caller = NULL;
    if (reply_to.caller && command_traits_of(command)->is_ruled) {
        admission.caller = reply_to.caller;
        admission.admitted = 0;
        admission.refused.status = QUEUE_OK;
        if (found != FOUND_FAULT && !admit_all(queue, &admission, command))
            found = FOUND_FAULT;
        if (changes_topic(command))
            reply_to = begin_passage(command, reply_to);
    }
    switch (found) {
    case FOUND_GOOD:
        queue->ops->submit(queue, command, reply_to);
        return;
    case FOUND_UNNAMED:
        submit_with_ids(queue, command, reply_to);
        return;
    case FOUND_FAULT:
        submit_faulty(queue, command, body_bytes_max, &admission, reply_to);
        return;
    }
}

/* ---- draining: another table of functions, so that draining costs nothing while it is off ---- */

/* Rejects all pushes of new jobs; items that are invalid for another reason keep that status. */
static __attribute__((noinline)) void submit_push_drained(struct queue *queue,
                                                          const struct command *command,
                                                          struct queue_reply_to reply_to)
{
    struct queue_check checks[QUEUE_BATCH_MAX];
    struct command refused = *command;
    refused.checks = checks;
    for (size_t i = 0; i < command->count; i++) {
        checks[i] = command->checks ? command->checks[i] : (struct queue_check){0};
        if (checks[i].status == QUEUE_OK && !command->pushes[i].is_own)
            checks[i].status = QUEUE_DRAINING;
    }
    queue->door->drained->submit(queue, &refused, reply_to);
}

static void drained_submit(struct queue *queue, const struct command *command,
                           struct queue_reply_to reply_to)
{
    if (command->kind == COMMAND_PUSH)
        submit_push_drained(queue, command, reply_to);
    else
        queue->door->drained->submit(queue, command, reply_to);
}

static void drained_watch(struct queue *queue, struct slice topic, bool on)
{
    queue->door->drained->watch(queue, topic, on);
}

static void drained_info(struct queue *queue, struct queue_info *out)
{
    queue->door->drained->info(queue, out);
    out->draining = true;
}

static bool drained_same_part(const struct queue *queue, struct slice topic, struct slice id,
                              struct slice once)
{
    const struct queue_ops *ops = queue->door->drained;
    return !ops->same_part || ops->same_part(queue, topic, id, once);
}

static const struct queue_ops drained_ops = {.submit = drained_submit,
                                             .watch = drained_watch,
                                             .info = drained_info,
                                             .same_part = drained_same_part};

void queue_drain(struct queue *queue, bool on)
{
    struct queue_door *door = queue->door;
    assert(door);
    if (on == (door->drained != NULL))
        return;
    const struct queue_ops *ops = on ? &drained_ops : door->drained;
    door->drained = on ? queue->ops : NULL;
    queue->ops = ops;
}
