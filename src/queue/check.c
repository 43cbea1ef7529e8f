#include "queue/check.h"

#include <assert.h>

static bool is_within(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static const char *bad_policy(const struct policy *policy)
{
    if (policy->lease_ms && !is_within(policy->lease_ms, POLICY_LEASE_MS_MIN, POLICY_LEASE_MS_MAX))
        return "lease_for";
    if (!is_within(policy->ttl_ms, 0, POLICY_DELAY_MS_MAX))
        return "ttl";
    if (policy->max_attempts > POLICY_ATTEMPTS_MAX)
        return "max_attempts";
    if (policy->backoff.kind &&
        !(policy->backoff.first_ms > 0 && policy->backoff.max_ms >= policy->backoff.first_ms &&
          policy->backoff.max_ms <= POLICY_DELAY_MS_MAX))
        return "backoff";
    return NULL;
}

/* `at` is held against its own limit, the far end of what a clock may say plus the longest delay.
 */
#define AT_MS_MAX (1LL << 47)

static const char *bad_when(const struct queue_when *when)
{
    switch (when->due) {
    case QUEUE_DUE_NOW:
    case QUEUE_DUE_UNCHANGED:
        return NULL;
    case QUEUE_DUE_DELAY:
        return is_within(when->ms, 0, POLICY_DELAY_MS_MAX) ? NULL : "delay";
    case QUEUE_DUE_AT:
        return is_within(when->ms, 0, AT_MS_MAX) ? NULL : "at";
    }
    return "delay";
}

static const char *bad_priority(int32_t priority)
{
    return is_within(priority, QUEUE_PRIORITY_UNSET, JOB_PRIORITY_MAX) ? NULL : "priority";
}

static enum queue_status refuse(const char *option, const char **detail)
{
    if (!option)
        return QUEUE_OK;
    *detail = option;
    return QUEUE_BAD_OPTION;
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
        return refuse("content_type", detail);
    if (push->meta.len > JOB_META_BYTES_MAX)
        return refuse("meta", detail);
    if (push->when.due == QUEUE_DUE_UNCHANGED)
        return refuse("delay", detail);
    const char *bad = bad_when(&push->when);
    if (!bad)
        bad = bad_priority(push->priority);
    if (!bad)
        bad = bad_policy(&push->policy);
    if (!bad && push->on_conflict > CONFLICT_REJECT)
        bad = "on_conflict";
    if (!bad && push->past.attempt > POLICY_ATTEMPTS_MAX)
        bad = "attempt";
    if (!bad && push->past.error.len > JOB_ERROR_BYTES_MAX)
        bad = "error";
    return refuse(bad, detail);
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
    return refuse(bad ? bad : bad_priority(change->priority), detail);
}

enum queue_status queue_check_answer(const struct queue_answer *answer, const char **detail)
{
    if ((answer->verb == QUEUE_NACK || answer->verb == QUEUE_RETURN) &&
        !is_within(answer->delay_ms, -1, POLICY_DELAY_MS_MAX))
        return refuse("delay", detail);
    if (answer->verb == QUEUE_EXTEND && answer->lease_ms &&
        !is_within(answer->lease_ms, POLICY_LEASE_MS_MIN, POLICY_LEASE_MS_MAX))
        return refuse("lease_for", detail);
    return QUEUE_OK;
}

enum queue_status queue_check_take(const struct queue_take *take, const char **detail)
{
    if (!is_within((int64_t)take->topic_count, 1, QUEUE_TAKE_TOPICS_MAX))
        return refuse("topic", detail);
    for (size_t i = 0; i < take->topic_count; i++)
        if (!job_topic_is_valid(take->topics[i]))
            return QUEUE_BAD_TOPIC;
    if (!is_within(take->max, 1, QUEUE_TAKE_MAX))
        return refuse("max", detail);
    if (take->lease_ms && !is_within(take->lease_ms, POLICY_LEASE_MS_MIN, POLICY_LEASE_MS_MAX))
        return refuse("lease_for", detail);
    return QUEUE_OK;
}

enum queue_status queue_check_list(const struct queue_list *list, const char **detail)
{
    if (!job_topic_is_valid(list->topic))
        return QUEUE_BAD_TOPIC;
    if (list->state > JOB_DEAD)
        return refuse("state", detail);
    if (!is_within(list->limit, 1, QUEUE_LIST_MAX))
        return refuse("limit", detail);
    return QUEUE_OK;
}

enum queue_status queue_check_topic(const struct queue_topic_call *call, const char **detail)
{
    if (!job_topic_is_valid(call->topic))
        return QUEUE_BAD_TOPIC;
    switch (call->verb) {
    case QUEUE_TOPIC_PUT: {
        const struct topic_settings *settings = &call->settings;
        const char *bad = bad_policy(&settings->policy);
        if (!bad && settings->has_priority && !is_within(settings->priority, 0, JOB_PRIORITY_MAX))
            bad = "priority";
        if (!bad && !is_within(settings->dedup_window_ms, 0, POLICY_DELAY_MS_MAX))
            bad = "dedup_window";
        if (!bad && settings->on_conflict > CONFLICT_REJECT)
            bad = "on_conflict";
        if (!bad && settings->extension.len > TOPIC_EXTENSION_BYTES_MAX)
            bad = "extension";
        return refuse(bad, detail);
    }
    case QUEUE_TOPIC_PURGE:
        if (call->state > JOB_DEAD || call->state == JOB_LEASED)
            return refuse("state", detail);
        return QUEUE_OK;
    case QUEUE_TOPIC_REDRIVE:
        if (call->id.len && !job_id_is_valid(call->id))
            return QUEUE_BAD_ID;
        return QUEUE_OK;
    case QUEUE_TOPIC_GET:
    case QUEUE_TOPIC_DELETE:
    case QUEUE_TOPIC_PAUSE:
    case QUEUE_TOPIC_RESUME:
    case QUEUE_TOPIC_MARK:
        return QUEUE_OK;
    }
    return QUEUE_OK;
}

/* ---- any call ---- */

/* What is wrong with one item; of a call without items, with the call. */
static enum queue_status check_item(const struct command *command, size_t i,
                                    uint64_t body_bytes_max, const char **detail)
{
    switch (command->kind) {
    case COMMAND_PUSH:
        return queue_check_push(&command->pushes[i], body_bytes_max, detail);
    case COMMAND_ANSWER:
        return queue_check_answer(&command->answers[i], detail);
    case COMMAND_CHANGE:
        return queue_check_change(&command->changes[i], detail);
    case COMMAND_TAKE:
        return queue_check_take(&command->take, detail);
    case COMMAND_GET:
        if (!job_topic_is_valid(command->get.topic))
            return QUEUE_BAD_TOPIC;
        return job_id_is_valid(command->get.id) ? QUEUE_OK : QUEUE_BAD_ID;
    case COMMAND_LIST:
        return queue_check_list(&command->list, detail);
    case COMMAND_TOPIC:
        return queue_check_topic(&command->topic, detail);
    case COMMAND_TOPICS:
        return QUEUE_OK;
    }
    assert(false); /* not a command */
    return QUEUE_OK;
}

static bool has_items(const struct command *command)
{
    return command->kind == COMMAND_PUSH || command->kind == COMMAND_ANSWER ||
           command->kind == COMMAND_CHANGE;
}

bool queue_check_command(const struct command *command, uint64_t body_bytes_max)
{
    size_t count = has_items(command) ? command->count : 1;
    const char *detail;
    for (size_t i = 0; i < count; i++)
        if (check_item(command, i, body_bytes_max, &detail) != QUEUE_OK)
            return false;
    return true;
}

void queue_check_note(struct command *command, uint64_t body_bytes_max,
                      struct queue_check checks[QUEUE_BATCH_MAX])
{
    const char *detail;
    if (!has_items(command)) {
        command->status = check_item(command, 0, body_bytes_max, &detail);
        return;
    }
    for (size_t i = 0; i < command->count; i++) {
        checks[i] = (struct queue_check){0};
        checks[i].status = check_item(command, i, body_bytes_max, &checks[i].detail);
    }
    command->checks = checks;
}
