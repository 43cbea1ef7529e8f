#include "access/call.h"

#include "base/clock.h"
#include "queue/status.h"

#include <assert.h>

/* Returns the call that contains the `queue_caller`. */
static const struct access_call *call_of(const struct queue_caller *caller)
{
    return (const struct access_call *)(const void *)caller;
}
_Static_assert(offsetof(struct access_call, queue) == 0, "a queue_caller is the begin of its call");

/* ---- refusals ---- */

static bool refuse(struct queue_check *out, enum queue_status status)
{
    *out = (struct queue_check){.status = status};
    return false;
}

/* Refuses with the exceeded limit and the time to wait. */
static bool refuse_by_limit(const struct access_call *call, struct queue_check *out,
                            enum quota_limit limit, uint64_t most, int64_t wait_ns)
{
    static const enum queue_status statuses[QUOTA_LIMITS] = {
        [QUOTA_RATE] = QUEUE_TOO_FAST,
        [QUOTA_TOPIC_RATE] = QUEUE_TOPIC_TOO_FAST,
        [QUOTA_JOBS] = QUEUE_CALLER_FULL,
        [QUOTA_MEMORY] = QUEUE_MEMORY_SPENT,
    };
    quota_refused(call->quota, limit);
    *out = (struct queue_check){.status = statuses[limit],
                                .limit = most,
                                .retry_s = (uint32_t)((wait_ns + 999999999) / 1000000000)};
    if (out->retry_s == 0)
        out->retry_s = 1;
    return false;
}

/* ---- a push ---- */

static int64_t now_ns(void)
{
    return clock_awake_us() * 1000;
}

static bool charge_account(const struct access_call *call, struct quota_account *account,
                           struct queue_check *out)
{
    const struct access_limits *limits = &call->caller->limits;
    int64_t wait_ns;
    if (limits->jobs_max && !quota_has_jobs_left(account, limits->jobs_max))
        return refuse_by_limit(call, out, QUOTA_JOBS, limits->jobs_max, 0);
    if (limits->push_rate.count &&
        !quota_bucket_take(&account->pushes, limits->push_rate, now_ns(), &wait_ns))
        return refuse_by_limit(call, out, QUOTA_RATE, limits->push_rate.count, wait_ns);
    if (limits->jobs_max)
        atomic_fetch_add_explicit(&account->pushed, 1, memory_order_relaxed);
    return true;
}

static __attribute__((noinline)) bool charge_caller(const struct access_call *call,
                                                    struct queue_check *out)
{
    if (call->account)
        return charge_account(call, call->account, out);
    struct quota_account *account = quota_account_of_caller(call->quota, call->caller);
    bool is_admitted = charge_account(call, account, out);
    quota_account_release(call->quota, account);
    return is_admitted;
}

static bool has_push_limits(const struct access_caller *caller)
{
    return caller->limits.jobs_max || caller->limits.push_rate.count;
}

/* Returns whether the caller may push jobs to tarry's own topics. Only an administrator may, to move
 * them from another store. */
static bool may_push_own(const struct access_call *call, const struct queue_push *push)
{
    return push->is_own && access_may(call->caller, ACCESS_ADMIN, push->topic);
}

/* The counted limits: memory first, which charges no caller. */
static __attribute__((noinline)) bool charge_push(const struct access_call *call,
                                                  struct slice topic, struct queue_check *out)
{
    uint64_t bytes_max;
    int64_t wait_ns;
    if (quota_memory_is_spent(call->quota, &bytes_max))
        return refuse_by_limit(call, out, QUOTA_MEMORY, bytes_max, 0);
    if (has_push_limits(call->caller) && !charge_caller(call, out))
        return false;
    return !quota_has_topics(call->quota) ||
           quota_topic_take(call->quota, topic, now_ns(), &wait_ns) ||
           refuse_by_limit(call, out, QUOTA_TOPIC_RATE, 0, wait_ns);
}

/* Returns whether the caller may push to the topic of the waiting job of a member: a member delays that job, and its death
 * may cancel others. */
static bool may_join(const struct access_call *call, const struct queue_batch *batch)
{
    return !batch || !batch->topic.len || access_may(call->caller, ACCESS_PUSH, batch->topic);
}

static bool admit_push(const struct access_call *call, const struct queue_push *push,
                       struct queue_check *out)
{
    const struct slice topic = push->topic;
    if (!access_may(call->caller, ACCESS_PUSH, topic) || !may_join(call, push->batch))
        return refuse(out, QUEUE_FORBIDDEN);
    if (topic.at[0] == 't' && job_topic_is_own(topic) && !may_push_own(call, push))
        return refuse(out, QUEUE_OWN_TOPIC);
    return !call->quota || (!has_push_limits(call->caller) && !quota_limits_pushes(call->quota)) ||
           charge_push(call, topic, out);
}

/* ---- the rules ---- */

/* Allows a change. A lease of the job proves that its consumer may change it. */
static bool admit_change(const struct access_call *call, const struct queue_change *change,
                         struct queue_check *out)
{
    return access_may(call->caller, change->lease.len ? ACCESS_CONSUME : ACCESS_PUSH,
                      change->topic) ||
           refuse(out, QUEUE_FORBIDDEN);
}

static bool admit(const struct queue_caller *caller, const struct command *command, size_t i,
                  struct queue_check *out)
{
    const struct access_call *call = call_of(caller);
    switch (command->kind) {
    case COMMAND_PUSH:
        return admit_push(call, &command->pushes[i], out);
    case COMMAND_CHANGE:
        return admit_change(call, &command->changes[i], out);
    case COMMAND_TOPIC:
        return access_may(call->caller, ACCESS_ADMIN, command->topic.topic) ||
               refuse(out, QUEUE_FORBIDDEN);
    case COMMAND_GROUP:
        return access_may(call->caller, ACCESS_ADMIN, command->group.topic) ||
               refuse(out, QUEUE_FORBIDDEN);
    default:
        return true;
    }
}

/* Returns the name of the action as in the HTTP API. */
static const char *action_of(enum queue_topic_verb verb)
{
    switch (verb) {
    case QUEUE_TOPIC_PUT:
        return "topic settings changed";
    case QUEUE_TOPIC_DELETE:
        return "topic deleted";
    case QUEUE_TOPIC_PAUSE:
        return "topic paused";
    case QUEUE_TOPIC_RESUME:
        return "topic resumed";
    case QUEUE_TOPIC_PURGE:
        return "topic purged";
    case QUEUE_TOPIC_REDRIVE:
        return "topic redriven";
    case QUEUE_TOPIC_GET:
    case QUEUE_TOPIC_MARK:
        break;
    }
    assert(false); /* changes nothing, or is never called for a caller */
    return "";
}

static bool counts_jobs(enum queue_topic_verb verb)
{
    return verb == QUEUE_TOPIC_DELETE || verb == QUEUE_TOPIC_PURGE || verb == QUEUE_TOPIC_REDRIVE;
}

static void *begin(const struct queue_caller *caller, const struct command *command)
{
    const struct access_call *call = call_of(caller);
    const struct queue_topic_call *topic = &command->topic;
    bool is_group = command->kind == COMMAND_GROUP;
    struct audit_change *change = audit_change_hold(call->change);
    const struct audit_who who = {.name = call->caller->name,
                                  .kind = access_kind_name(call->caller->kind)};
    if (!change)
        change =
            audit_change_begin(is_group ? "group settings changed" : action_of(topic->verb), &who);
    audit_change_name(change, is_group ? command->group.topic : topic->topic,
                      is_group ? (struct slice){0} : topic->id);
    if (is_group)
        audit_change_detail(change, command->group.group);
    if (!is_group && counts_jobs(topic->verb))
        audit_change_count(change, 0);
    return change;
}

static void end(void *begun, const struct queue_reply *reply)
{
    bool is_done = queue_status_is_success(reply->status);
    if (reply->affected) /* also for a call that stopped half-way */
        audit_change_count(begun, reply->affected);
    audit_change_note(begun, is_done ? NULL : queue_status_code(reply->status));
    audit_change_end(begun, NULL);
}

const struct queue_rules access_rules = {.admit = admit, .begin = begin, .end = end};
