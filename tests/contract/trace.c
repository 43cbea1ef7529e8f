/* Prints the commands of a sequence, to find the fault. */
#include "queue/status.h"
#include "world.h"

#include <inttypes.h>
#include <stdarg.h>

void trace_line(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (!world->trace)
        return;
    fprintf(world->trace, "  %+9" PRId64 "  ", world->model.now_ms - world->start_ms);
    va_start(arguments, format);
    vfprintf(world->trace, format, arguments);
    va_end(arguments);
    fputc('\n', world->trace);
}

static const char *slice_text(char into[64], struct slice slice)
{
    snprintf(into, 64, "%.*s", (int)(slice.len < 60 ? slice.len : 60), slice.len ? slice.at : "");
    return into;
}

static const char *when_text(struct world *world, char into[64], const struct queue_when *when)
{
    switch (when->due) {
    case QUEUE_DUE_NOW:
        return "now";
    case QUEUE_DUE_UNCHANGED:
        return "unchanged";
    case QUEUE_DUE_DELAY:
        snprintf(into, 64, "in %" PRId64 "ms", when->ms);
        return into;
    case QUEUE_DUE_AT:
        snprintf(into, 64, "at %+" PRId64, when->ms - world->start_ms);
        return into;
    }
    return "?";
}

static const char *policy_text(char into[160], const struct policy *policy)
{
    into[0] = '\0';
    if (policy->lease_ms || policy->ttl_ms || policy->max_attempts || policy->backoff.kind)
        snprintf(into, 160,
                 " lease=%" PRId64 " ttl=%" PRId64 " attempts=%u backoff=%s:%" PRId64 "..%" PRId64,
                 policy->lease_ms, policy->ttl_ms, policy->max_attempts,
                 policy->backoff.kind == 0               ? "-"
                 : policy->backoff.kind == BACKOFF_FIXED ? "fixed"
                 : policy->backoff.kind == BACKOFF_NONE  ? "none"
                 : policy->backoff.kind == BACKOFF_LIST  ? "list"
                                                         : "exp",
                 policy->backoff.first_ms, policy->backoff.max_ms);
    return into;
}

static const char *result_text(struct world *world, char into[128],
                               const struct queue_result *result)
{
    snprintf(into, 128, "%s%s%s due=%+" PRId64, queue_status_code(result->status),
             result->state ? " " : "", result->state ? job_state_name(result->state) : "",
             result->due_ms ? result->due_ms - world->start_ms : 0);
    return into;
}

static const char *conflict_text(enum record_conflict on_conflict)
{
    static const char *const texts[] = {"", " replace", " keep", " reject", " after"};

    return on_conflict <= CONFLICT_AFTER ? texts[on_conflict] : " ?";
}

void trace_push(struct world *world, const struct queue_push *push,
                const struct queue_result *result)
{
    char topic[64], id[64], when[64], policy[160], text[128], once[64];

    trace_line(world,
               "push %s/%s %s priority=%d%s%s body=%zu attempt=%u%s error=%zu once=%s for=%" PRId64
               " -> %s",
               slice_text(topic, push->topic), slice_text(id, push->id),
               when_text(world, when, &push->when), push->priority,
               conflict_text(push->on_conflict), policy_text(policy, &push->policy), push->body.len,
               push->past.attempt, push->past.dead ? " dead" : "", push->past.error.len,
               slice_text(once, push->once), push->once_for_ms, result_text(world, text, result));
}

void trace_take(struct world *world, const struct queue_take *take, const struct queue_reply *reply)
{
    char topics[256] = "", jobs[512] = "", one[64], other[64];
    size_t used = 0;

    for (size_t i = 0; i < take->topic_count && used < 180; i++)
        used += (size_t)snprintf(topics + used, sizeof topics - used, " %s",
                                 slice_text(one, take->topics[i]));
    used = 0;
    for (size_t i = 0; i < reply->job_count && used < 350; i++)
        used += (size_t)snprintf(
            jobs + used, sizeof jobs - used, " %s/%s#%u", slice_text(one, reply->jobs[i].job.topic),
            slice_text(other, reply->jobs[i].job.id), reply->jobs[i].job.attempt);
    trace_line(world, "take%s%s%s%s max=%u lease=%" PRId64 " -> %s%s", topics,
               take->id.len ? " id=" : "", take->id.len ? slice_text(one, take->id) : "",
               take->by_priority ? " by priority" : "", take->max, take->lease_ms,
               queue_status_code(reply->status), jobs);
}

void trace_answer(struct world *world, const struct queue_answer *answer,
                  const struct queue_result *result)
{
    static const char *const verbs[] = {"?", "ack", "nack", "extend", "return", "again"};
    char lease[64], id[64], text[128];

    trace_line(
        world, "%s%s '%s' delay=%" PRId64 " priority=%d error=%zu lease=%" PRId64 " -> %s %s",
        verbs[answer->verb], answer->final ? " for good" : "", slice_text(lease, answer->lease),
        answer->delay_ms, answer->has_priority ? answer->priority : -1, answer->error.len,
        answer->lease_ms, slice_text(id, result->id), result_text(world, text, result));
}

void trace_change(struct world *world, const struct queue_change *change,
                  const struct queue_result *result)
{
    static const char *const verbs[] = {"?", "cancel", "reschedule", "run"};
    char topic[64], id[64], when[64], text[128];

    trace_line(world, "%s %s/%s %s priority=%d -> %s", verbs[change->verb],
               slice_text(topic, change->topic), slice_text(id, change->id),
               change->verb == QUEUE_RESCHEDULE ? when_text(world, when, &change->when) : "",
               change->priority, result_text(world, text, result));
}

void trace_topic(struct world *world, const struct queue_topic_call *call,
                 const struct queue_reply *reply)
{
    static const char *const verbs[] = {"?",     "get",    "put",   "delete",
                                        "pause", "resume", "purge", "redrive"};
    char topic[64], id[64], policy[160];

    trace_line(world,
               "topic %s %s state=%d id=%s max=%" PRIu64 " pause=%" PRId64 "%s dedup=%" PRId64
               "%s%s extension=%zu -> %s %" PRIu64,
               verbs[call->verb], slice_text(topic, call->topic), (int)call->state,
               slice_text(id, call->id), call->max, call->pause_ms,
               policy_text(policy, &call->settings.policy), call->settings.dedup_window_ms,
               conflict_text(call->settings.on_conflict),
               call->settings.dead_letter_expired ? " dead-letters" : "",
               call->settings.extension.len, queue_status_code(reply->status), reply->affected);
}
