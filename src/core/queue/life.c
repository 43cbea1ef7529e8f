#include "queue/life.h"

struct life life_push(enum job_state state, enum record_conflict on_conflict, bool is_full,
                      bool has_next)
{
    if (state == JOB_FINISHED)
        return (struct life){QUEUE_EXISTED, LIFE_STAYS};
    if (!state)
        return is_full ? (struct life){QUEUE_TOPIC_FULL, LIFE_STAYS}
                       : (struct life){QUEUE_CREATED, LIFE_CREATED};
    if (on_conflict == CONFLICT_KEEP)
        return (struct life){QUEUE_EXISTED, LIFE_STAYS};
    if (on_conflict == CONFLICT_REJECT)
        return (struct life){QUEUE_CONFLICT, LIFE_STAYS};
    if (state == JOB_LEASED && on_conflict == CONFLICT_AFTER)
        return (struct life){has_next ? QUEUE_REPLACED : QUEUE_CREATED, LIFE_NEXT};
    if (state == JOB_LEASED)
        return (struct life){QUEUE_LEASED, LIFE_STAYS};
    return (struct life){QUEUE_REPLACED, LIFE_REPLACED};
}

/* Returns whether the job meets the conditions of the change on state and delivery. */
static bool is_meant(const struct queue_change *change, enum job_state state, uint64_t delivery,
                     uint64_t meant)
{
    bool waits = state == JOB_DELAYED || state == JOB_READY;
    if (!change->only_dead && !change->lease.len)
        return true;
    return (change->only_dead ? state == JOB_DEAD : waits) && delivery == meant;
}

struct life life_change(const struct queue_change *change, enum job_state state, uint64_t delivery,
                        uint64_t meant)
{
    bool is_cancel = change->verb == QUEUE_CANCEL;
    if (!state || state == JOB_FINISHED)
        return (struct life){QUEUE_NOT_FOUND, LIFE_STAYS};
    if (!is_meant(change, state, delivery, meant))
        return (struct life){QUEUE_CONFLICT, LIFE_STAYS};
    if (state == JOB_LEASED)
        return is_cancel && change->request ? (struct life){QUEUE_REQUESTED, LIFE_REQUESTED}
                                            : (struct life){QUEUE_LEASED, LIFE_STAYS};
    if (is_cancel)
        return (struct life){QUEUE_CANCELLED, LIFE_CANCELLED};
    if (state == JOB_DEAD)
        return (struct life){QUEUE_DEAD_STATE, LIFE_STAYS};
    if (change->verb == QUEUE_RUN && state == JOB_READY)
        return (struct life){QUEUE_OK, LIFE_STAYS};
    return (struct life){QUEUE_OK, LIFE_MOVED};
}

bool life_drops_next(const struct queue_change *change, enum job_state state, uint64_t delivery,
                     uint64_t meant)
{
    return change->verb == QUEUE_CANCEL && state == JOB_LEASED &&
           is_meant(change, state, delivery, meant);
}

enum record_next life_next(enum life_step step, enum queue_verb verb)
{
    switch (step) {
    case LIFE_ACKED:
    case LIFE_AGAIN:
        return RECORD_NEXT_AFTER_ACK;
    case LIFE_CANCELLED:
        return RECORD_NEXT_AFTER_CANCEL;
    case LIFE_RETURNED:
        return RECORD_NEXT_AFTER_RETURN;
    case LIFE_RETRIED:
    case LIFE_DIED:
        return verb ? RECORD_NEXT_AFTER_NACK : RECORD_NEXT_AFTER_LEASE;
    default:
        return RECORD_NEXT_STAYS;
    }
}

enum queue_status life_next_status(struct life answer)
{
    return answer.step == LIFE_AGAIN ? QUEUE_REPLACED : answer.status;
}

struct life life_pick(enum job_state state)
{
    if (!state || state == JOB_FINISHED)
        return (struct life){QUEUE_NOT_FOUND, LIFE_STAYS};
    if (state == JOB_LEASED)
        return (struct life){QUEUE_LEASED, LIFE_STAYS};
    return (struct life){QUEUE_OK, state == JOB_READY ? LIFE_LEASED : LIFE_LEASED_NOW};
}

struct life life_answer(const struct queue_answer *answer, bool cancel_requested)
{
    bool wants_more =
        answer->verb == QUEUE_NACK || answer->verb == QUEUE_RETURN || answer->verb == QUEUE_AGAIN;
    if (wants_more && cancel_requested)
        return (struct life){QUEUE_CANCELLED, LIFE_CANCELLED};
    switch (answer->verb) {
    case QUEUE_ACK:
        return (struct life){QUEUE_OK, LIFE_ACKED};
    case QUEUE_NACK:
        return (struct life){QUEUE_OK, LIFE_RETRIED};
    case QUEUE_RETURN:
        return (struct life){QUEUE_OK, LIFE_RETURNED};
    case QUEUE_AGAIN:
        return (struct life){QUEUE_CREATED, LIFE_AGAIN};
    case QUEUE_EXTEND:
        break;
    }
    return (struct life){QUEUE_OK, LIFE_EXTENDED};
}

struct queue_push life_again(const struct job *job, const struct queue_again *again)
{
    bool has_type = again->has_body && again->content_type.len;
    return (struct queue_push){
        .topic = job->topic,
        .id = job->id,
        .group = job->group,
        .content_type = has_type ? again->content_type : job->content_type,
        .meta = job->meta,
        .body = again->has_body ? again->body : job->body,
        .when = again->when,
        .priority = again->priority == QUEUE_PRIORITY_UNSET ? job->priority : again->priority,
        .policy = job->policy,
        .has_keep_finished = job->has_keep,
        .keep_finished_ms = job->keep_ms};
}

enum life_step life_fail(enum job_outcome outcome, uint32_t attempt, const struct policy *policy)
{
    bool is_final = outcome == JOB_OUTCOME_REFUSED || policy_is_used_up(policy, attempt);
    return is_final ? LIFE_DIED : LIFE_RETRIED;
}

enum life_step life_lease_end(bool cancel_requested)
{
    return cancel_requested ? LIFE_CANCELLED : LIFE_RETRIED;
}

enum life_step life_expire(const struct topic_settings *settings)
{
    return settings->dead_letter_expired ? LIFE_DIED : LIFE_EXPIRED;
}

int64_t life_expire_ms(int64_t first_due_ms, int64_t due_ms, int64_t ttl_ms)
{
    int64_t expire_ms = first_due_ms + ttl_ms;
    if (!ttl_ms)
        return 0;
    return expire_ms > due_ms ? expire_ms : due_ms;
}

/* ---- kept jobs ---- */

enum job_end life_end(enum record_reason reason)
{
    switch (reason) {
    case RECORD_ACKED:
        return JOB_END_ACKED;
    case RECORD_CANCELLED:
        return JOB_END_CANCELLED;
    case RECORD_EXPIRED:
        return JOB_END_EXPIRED;
    case RECORD_PURGED:
    case RECORD_REPLACED:
        break;
    }
    return 0;
}

int64_t life_keep_ms(enum job_end end, bool has_own, int64_t own_ms,
                     const struct topic_settings *settings)
{
    if (!end)
        return 0;
    return has_own ? own_ms : settings->keep_finished_ms;
}

/* ---- batches ---- */

struct job_batch life_batch_of(const struct queue_batch *batch)
{
    struct job_batch own = {.topic = batch->topic, .id = batch->id, .waits = batch->waits};
    if (!batch->waits)
        return own;
    own.on_dead = batch->on_dead ? batch->on_dead : BATCH_GO;
    own.members = batch->members;
    own.wait_ms = batch->wait_at_most_ms ? batch->wait_at_most_ms : BATCH_WAIT_MS;
    own.close_ms = batch->close_within_ms ? batch->close_within_ms : BATCH_CLOSE_MS;
    return own;
}

enum batch_outcome life_outcome(enum job_state state)
{
    return state == JOB_DEAD ? BATCH_DEAD : BATCH_UNFINISHED;
}

enum batch_outcome life_outcome_of(enum job_end end)
{
    return end == JOB_END_ACKED     ? BATCH_ACKED
           : end == JOB_END_EXPIRED ? BATCH_EXPIRED
                                    : BATCH_CANCELLED;
}

void life_batch_count(struct life_batch *batch, bool is_new, enum batch_outcome before,
                      enum batch_outcome after)
{
    if (batch->has_ended)
        return;
    if (!is_new)
        batch->counts.of[before]--;
    batch->counts.of[after]++;
    life_batch_close_if_full(batch);
}

void life_batch_close_if_full(struct life_batch *batch)
{
    if (batch->members && batch_members(&batch->counts) >= batch->members)
        batch->is_closed = true;
}

bool life_batch_is_over(const struct life_batch *batch)
{
    return !batch->has_ended && batch->is_closed &&
           batch_waits_for(&batch->counts, batch->on_dead) == 0;
}

bool life_batch_stops(const struct life_batch *batch, enum batch_outcome after)
{
    return batch->on_dead == BATCH_STOP && after == BATCH_DEAD && !batch->has_ended &&
           !batch->is_stopped;
}

enum queue_status life_batch_join(const struct life_batch *batch, bool has_parent)
{
    if (!batch)
        return QUEUE_NO_BATCH;
    if (batch->has_ended || batch->is_stopped || (batch->is_closed && !has_parent))
        return QUEUE_BATCH_CLOSED;
    if (batch_members(&batch->counts) >= BATCH_MEMBERS_MAX)
        return QUEUE_TOO_MANY_MEMBERS;
    return batch->depth >= BATCH_DEPTH_MAX ? QUEUE_BAD_OPTION : QUEUE_OK;
}

enum queue_status life_batch_replace(bool waits, bool names_other)
{
    if (waits)
        return QUEUE_WAITS;
    return names_other ? QUEUE_CONFLICT : QUEUE_OK;
}
