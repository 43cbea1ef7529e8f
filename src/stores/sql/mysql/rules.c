/* The transitions of jobs: pushes, changes and answers, item by item, on the rows that the
 * transaction has locked. */
#include "base/random.h"
#include "base/text.h"
#include "queue/life.h"
#include "sql/mysql/calls.h"
#include "sql/mysql/link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { DEAD_ROW_BYTES = 64 };

/* ---- common functions ---- */

static enum job_state state_of(const struct mysql_row *row, int64_t now_ms)
{
    if (row->state != JOB_DELAYED)
        return row->state;
    return row->due_ms <= now_ms ? JOB_READY : JOB_DELAYED;
}

/* Returns the state for the rules (queue/life.h). */
static enum job_state seen_state(const struct mysql_row *row, int64_t now_ms)
{
    return row->exists ? state_of(row, now_ms) : 0;
}

static bool is_far(int64_t now_ms, const struct queue_when *when)
{
    return when->due == QUEUE_DUE_AT && when->ms - now_ms > POLICY_DELAY_MS_MAX;
}

static int64_t expire_of(const struct mysql_row *row)
{
    int64_t ttl_ms = row->policy.ttl_ms ? row->policy.ttl_ms : row->topic->settings.policy.ttl_ms;
    return row->state == JOB_DEAD ? 0 : life_expire_ms(row->first_due_ms, row->due_ms, ttl_ms);
}

static void count_row(const struct mysql_row *row, int64_t counts[SQL_COUNTS], int64_t sign)
{
    if (row->state == JOB_LEASED) {
        counts[SQL_COUNT_LEASED] += sign;
    } else if (row->state == JOB_DEAD) {
        counts[SQL_COUNT_DEAD] += sign;
        counts[SQL_COUNT_DEAD_BYTES] +=
            sign * (int64_t)(row->body_bytes + row->meta_bytes + row->id_bytes + DEAD_ROW_BYTES);
    } else {
        counts[row->attempt ? SQL_COUNT_RETRY : SQL_COUNT_FRESH] += sign;
    }
}

static void remember(struct mysql_row *row, int64_t now_ms)
{
    int64_t window_ms = row->topic->settings.dedup_window_ms;
    if (window_ms <= 0)
        return;
    row->finished_until_ms = now_ms + window_ms + 1;
    row->finishes_again = true;
}

/* Ends a job. `answer`: that ended it, with its result, or NULL. */
static void row_end(struct mysql_link *link, struct mysql_row *row, enum job_end end,
                    const struct queue_answer *answer, int64_t counts[SQL_COUNTS])
{
    mysql_row_ends(row, (int)end, answer, counts);
    mysql_batch_job_ends(link, row, life_outcome_of(end));
    row->exists = row->fresh = false;
    row->topic->jobs--;
    remember(row, link->now_ms);
}

static void row_changed(struct mysql_row *row)
{
    row->changed = true;
    row->extended = row->requested = false;
}

/* Records the effects that are sent to other servers and applied by this one after the commit. */
static void note(struct mysql_link *link, const struct mysql_row *row,
                 const int64_t counts[SQL_COUNTS], bool waits, bool died)
{
    struct sql_effects *effects = &link->context->effects;
    sql_effects_count(effects, row->topic->number, counts);
    if (row->exists)
        sql_effects_expire(effects, row->expire_ms);
    if (waits && row->state == JOB_DELAYED && !mysql_row_waits(row))
        sql_effects_due(effects, slice_of(row->topic->name), row->due_ms);
    if (died && row->topic->has_extension) {
        struct sql_notification *notification =
            sql_effects_notification(effects, slice_of(row->topic->name));
        if (notification)
            notification->died = true;
    }
}

/* The consumer of a history entry that has no consumer. */
static const struct slice nobody = {0};

static struct slice holder(const struct mysql_row *row)
{
    return slice_make(row->consumer, row->consumer_bytes);
}

static void show(const struct mysql_row *row, int64_t now_ms, struct queue_result *out)
{
    out->state = state_of(row, now_ms);
    out->due_ms = out->state == JOB_LEASED ? 0 : mysql_row_shown_due(row);
}

/* ---- push ---- */

static int32_t priority_of(const struct mysql_row *row, const struct queue_push *push)
{
    const struct topic_settings *settings = &row->topic->settings;
    return push->priority != QUEUE_PRIORITY_UNSET ? push->priority
           : settings->has_priority               ? settings->priority
                                                  : JOB_PRIORITY;
}

/* Returns the number of the group of a push; 0: it has no group. */
static int64_t group_of(struct mysql_link *link, const struct mysql_topic *topic,
                        const struct queue_push *push)
{
    const struct mysql_name *name =
        push->group.len ? mysql_flow_name(link, topic, push->group) : NULL;
    return name ? name->number : 0;
}

static void fill(struct mysql_link *link, struct mysql_row *row, const struct queue_push *push)
{
    row->exists = row->fresh = true;
    row->push = push;
    row->state = push->past.dead ? JOB_DEAD : JOB_DELAYED;
    row->priority = priority_of(row, push);
    row->level = push->past.dead ? MYSQL_LEVEL_DEAD : row->priority;
    row->due_ms = row->first_due_ms = sql_call_due_ms(link->now_ms, &push->when);
    row->attempt = push->past.attempt;
    row->policy = push->policy;
    row->error = push->past.error;
    row->body_bytes = push->body.len;
    row->meta_bytes = push->meta.len;
    row->history_bytes = 0;
    row->lease_until_ms = row->taken_ms = row->lease_span_ms = row->server = 0;
    row->delivery = 0;
    row->cancel_requested = false;
    row->has_keep = push->has_keep_finished;
    row->keep_ms = push->keep_finished_ms;
    row->group = group_of(link, row->topic, push);
    row->progress = (struct slice){0};
    row->next = (struct mysql_next){0};
    row->next_push = NULL;
    row->next_change = 0;
    row->sequence = link->rows.number + link->rows.numbers_used++;
    row->expire_ms = expire_of(row);
    row_changed(row);
}

/* Returns whether the row of the job fits into a packet of the database. */
static bool fits_packet(const struct mysql_link *link, const struct queue_push *push,
                        struct queue_result *out)
{
    enum { STATEMENT_BYTES = 4096 }; /* everything but texts */
    const struct slice texts[] = {push->content_type, push->meta, push->past.error, push->body};
    size_t bytes = STATEMENT_BYTES;
    if (push->body.len < link->packet_bytes_max / 4)
        return true; /* in the worst case every byte is escaped */
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        bytes += mysql_quoted_bytes(texts[i]);
    if (bytes <= link->packet_bytes_max)
        return true;
    out->detail = "max_allowed_packet";
    out->limit = link->packet_bytes_max - STATEMENT_BYTES;
    return false;
}

/* Returns whether a new body of a job fits into a packet. */
static bool again_fits_packet(const struct mysql_link *link, const struct queue_again *again,
                              struct queue_result *out)
{
    const struct queue_push push = {.content_type = again->content_type, .body = again->body};
    return !again->has_body || fits_packet(link, &push, out);
}

static void remember_once(const struct mysql_link *link, struct mysql_row *once,
                          const struct queue_push *push)
{
    if (!once)
        return;
    once->finished_until_ms =
        link->now_ms + (push->once_for_ms ? push->once_for_ms : QUEUE_ONCE_MS) + 1;
    once->finishes_again = once->is_once = true;
}

/* Stores the push as the successor of a leased job. */
static void set_next(struct mysql_link *link, struct mysql_row *row, const struct queue_push *push,
                     struct queue_result *out)
{
    row->next = (struct mysql_next){.waits = true,
                                    .due_ms = sql_call_due_ms(link->now_ms, &push->when),
                                    .ttl_ms = push->policy.ttl_ms,
                                    .sequence = link->rows.number + link->rows.numbers_used++,
                                    .priority = priority_of(row, push),
                                    .has_keep = push->has_keep_finished,
                                    .keep_ms = push->keep_finished_ms,
                                    .group = group_of(link, row->topic, push)};
    row->next_push = push;
    row->next_change = MYSQL_NEXT_SET;
    row->requested = row->changed = true;
    out->state = JOB_LEASED;
    out->due_ms = row->next.due_ms;
}

static struct mysql_row *leased_row(struct mysql_link *link, const struct sql_lease *lease);

/* Returns the batch of the member whose lease a push has, or 0. */
static int64_t parent_batch(struct mysql_link *link, const struct queue_push *push)
{
    struct sql_lease lease;
    if (!push->batch || !push->batch->parent.len ||
        !sql_lease_parse(push->batch->parent, &link->context->key, &lease))
        return 0;
    const struct mysql_row *row = leased_row(link, &lease);
    return row && row->lease_until_ms > link->now_ms ? row->batch : 0;
}

static enum queue_status push_one(struct mysql_link *link, const struct queue_push *push,
                                  struct queue_result *out)
{
    struct mysql_topic *topic = mysql_names_find(&link->topics.names, push->topic);
    int64_t counts[SQL_COUNTS] = {0};
    struct mysql_row *row, *once = NULL;
    enum job_state state;
    struct life life;
    if (is_far(link->now_ms, &push->when)) {
        out->detail = "at";
        return QUEUE_BAD_OPTION;
    }
    if (!fits_packet(link, push, out))
        return QUEUE_BODY_TOO_BIG;
    if (!topic || !topic->number)
        return QUEUE_TOO_MANY_TOPICS;
    row = mysql_row_need(link, topic, push->id);
    if (push->once.len)
        once = mysql_row_of_once(link, topic, push->once);
    if (!row || (push->once.len && !once))
        return QUEUE_NO_MEMORY;
    if (once && once->finished_until_ms > link->now_ms)
        return QUEUE_EXISTED;
    state = row->finished_until_ms > link->now_ms ? JOB_FINISHED : seen_state(row, link->now_ms);
    life = life_push(state, push->on_conflict ? push->on_conflict : topic->settings.on_conflict,
                     topic->settings.max_jobs && topic->jobs >= (int64_t)topic->settings.max_jobs,
                     row->exists && row->next.waits);
    if (life.step == LIFE_STAYS) {
        if (row->exists && state != JOB_FINISHED)
            show(row, link->now_ms, out);
        if (push->batch && row->exists && state != JOB_FINISHED && life.status == QUEUE_EXISTED &&
            mysql_batch_is_other(link, push->batch, row))
            return QUEUE_CONFLICT;
        return life.status;
    }
    struct mysql_batch_push batches = {0};
    if (push->batch || row->own) {
        enum queue_status status = mysql_batch_admit(link, push, row, life.step == LIFE_NEXT,
                                                     parent_batch(link, push), &batches, out);
        if (status) {
            if (row->exists)
                show(row, link->now_ms, out);
            return status;
        }
    }
    if (life.step == LIFE_NEXT) {
        set_next(link, row, push, out);
        remember_once(link, once, push);
        return life.status;
    }
    struct mysql_name *group = mysql_flow_name(link, topic, push->group);
    if (push->group.len && (!group || !group->number))
        return QUEUE_UNAVAILABLE; /* the group was deleted at this moment */
    if (life.step != LIFE_REPLACED && group && group->jobs_max) {
        if (group->jobs >= group->jobs_max)
            return QUEUE_GROUP_FULL;
        group->jobs++;
    }
    if (life.step == LIFE_REPLACED) {
        count_row(row, counts, -1);
        mysql_history_note(link, row, "replaced", nobody, (struct slice){0});
        counts[SQL_COUNT_REPLACED] = 1;
    } else {
        counts[SQL_COUNT_PUSHED] = 1;
        topic->jobs++;
        mysql_row_takes_id(row, counts);
    }
    topic->sets_kept = topic->sets_kept || (push->has_keep_finished && push->keep_finished_ms > 0 &&
                                            !mysql_topic_keeps(topic));
    enum job_state was = life.step == LIFE_REPLACED ? row->state : 0;
    fill(link, row, push);
    if (push->batch || row->batch || row->own)
        mysql_batch_pushed(link, row, push, &batches, was);
    remember_once(link, once, push);
    count_row(row, counts, 1);
    show(row, link->now_ms, out);
    note(link, row, counts, true, push->past.dead);
    return life.status;
}

/* Marks topics that pushes must create. A push whose time is too far ahead does not create its
 * topic. */
void mysql_mark_new_topics(struct mysql_link *link)
{
    EACH_CALL(link, call)
    for (size_t i = 0; sql_call_writes_items(call) && call->command->kind == COMMAND_PUSH &&
                       i < call->command->count;
         i++) {
        const struct queue_push *push = &call->command->pushes[i];
        struct queue_result unused;
        struct mysql_topic *topic = mysql_names_find(&link->topics.names, push->topic);
        if (topic && command_item_is_good(call->command, i, &unused) &&
            !is_far(link->now_ms, &push->when))
            topic->is_to_be_made = true;
    }
}

/* ---- cancel, reschedule, run ---- */

static void cancel(struct mysql_link *link, struct mysql_row *row)
{
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_CANCELLED] = 1};
    count_row(row, counts, -1);
    mysql_history_note(link, row, "cancelled", nobody, (struct slice){0});
    row_end(link, row, JOB_END_CANCELLED, NULL, counts);
    note(link, row, counts, false, false);
}

void mysql_row_cancel(struct mysql_link *link, struct mysql_row *row)
{
    cancel(link, row);
}

static void drop_next(struct mysql_row *row)
{
    row->next = (struct mysql_next){0};
    row->next_push = NULL;
    row->next_change = MYSQL_NEXT_DROPPED;
    row->requested = row->changed = true;
}

void mysql_row_request_cancel(struct mysql_row *row)
{
    if (row->next.waits)
        drop_next(row);
    row->cancel_requested = row->requested = row->changed = true;
}

void mysql_row_wait_ends(struct mysql_link *link, struct mysql_row *row, bool is_run)
{
    static const int64_t none[SQL_COUNTS];
    int64_t later_ms = row->first_due_ms, now_ms = link->now_ms;
    row->due_ms = is_run              ? now_ms
                  : later_ms < 0      ? now_ms - later_ms + 1
                  : later_ms > now_ms ? later_ms
                                      : now_ms;
    row->first_due_ms = row->due_ms;
    row->expire_ms = expire_of(row);
    row_changed(row);
    note(link, row, none, true, false);
}

static void move(struct mysql_link *link, struct mysql_row *row, const struct queue_change *change)
{
    if (change->verb == QUEUE_RUN && row->due_ms > link->now_ms) {
        row->due_ms = row->first_due_ms = link->now_ms;
    } else if (change->verb == QUEUE_RESCHEDULE) {
        if (change->priority != QUEUE_PRIORITY_UNSET)
            row->priority = row->level = change->priority;
        if (change->when.due != QUEUE_DUE_UNCHANGED)
            row->due_ms = row->first_due_ms = sql_call_due_ms(link->now_ms, &change->when);
    }
    row->expire_ms = expire_of(row);
    row_changed(row);
}

/* Changes a job that waits for members. */
static enum queue_status change_waiting(struct mysql_link *link, struct mysql_row *row,
                                        const struct queue_change *change, struct queue_result *out)
{
    const struct queue_when *when = &change->when;
    if (change->verb == QUEUE_RUN) {
        struct mysql_batch *batch = mysql_batch_own(link, row);
        if (batch)
            batch->runs = true;
        out->state = JOB_READY;
        out->due_ms = link->now_ms;
        return QUEUE_OK;
    }
    if (is_far(link->now_ms, when)) {
        out->detail = "at";
        return QUEUE_BAD_OPTION;
    }
    if (change->priority != QUEUE_PRIORITY_UNSET)
        row->priority = row->level = change->priority;
    if (when->due != QUEUE_DUE_UNCHANGED)
        row->first_due_ms = when->due == QUEUE_DUE_AT      ? when->ms
                            : when->due == QUEUE_DUE_DELAY ? -when->ms
                                                           : 0;
    row_changed(row);
    show(row, link->now_ms, out);
    return QUEUE_OK;
}

static enum queue_status close_one(struct mysql_link *link, const struct mysql_row *row,
                                   struct queue_result *out)
{
    struct mysql_batch *batch = row && row->exists && row->own ? mysql_batch_own(link, row) : NULL;
    if (!batch)
        return QUEUE_NOT_FOUND;
    batch->closes = true;
    show(row, link->now_ms, out);
    return QUEUE_OK;
}

static enum queue_status change_one(struct mysql_link *link, const struct queue_change *change,
                                    struct queue_result *out)
{
    static const int64_t none[SQL_COUNTS];
    struct mysql_topic *topic = mysql_names_find(&link->topics.names, change->topic);
    struct mysql_row *row = topic && topic->number ? mysql_row_need(link, topic, change->id) : NULL;
    enum job_state state = row ? seen_state(row, link->now_ms) : 0;
    uint64_t meant = sql_change_delivery(change, &link->context->key);
    if (change->verb == QUEUE_CLOSE)
        return close_one(link, row, out);
    if (row && change->verb != QUEUE_CANCEL && mysql_row_waits(row))
        return change_waiting(link, row, change, out);
    struct life life = life_change(change, state, row ? row->delivery : 0, meant);
    if (life.status == QUEUE_NOT_FOUND)
        return life.status;
    if (row->next.waits && life_drops_next(change, state, row->delivery, meant))
        drop_next(row);
    switch (life.step) {
    case LIFE_CANCELLED:
        if (change->members && mysql_row_waits(row)) {
            struct mysql_batch *batch = mysql_batch_own(link, row);
            if (batch)
                batch->stops = true;
        }
        cancel(link, row);
        return life.status;
    case LIFE_REQUESTED:
        row->cancel_requested = row->requested = row->changed = true;
        break;
    case LIFE_MOVED:
        if (change->verb == QUEUE_RESCHEDULE && is_far(link->now_ms, &change->when)) {
            out->detail = "at";
            return QUEUE_BAD_OPTION;
        }
        move(link, row, change);
        note(link, row, none, true, false);
        break;
    default:
        assert(life.step == LIFE_STAYS);
    }
    show(row, link->now_ms, out);
    return life.status;
}

/* ---- answers ---- */

static struct mysql_row *leased_row(struct mysql_link *link, const struct sql_lease *lease)
{
    struct mysql_place place = {.topic = lease->topic,
                                .level = lease->level,
                                .due_ms = lease->due_ms,
                                .sequence = lease->sequence};
    struct mysql_row *row = mysql_row_at(link, &place);
    bool is_it = row && row->topic && row->exists && !row->fresh && row->state == JOB_LEASED &&
                 row->delivery == lease->delivery && row->taken_ms == lease->taken_ms;
    return is_it ? row : NULL;
}

static void wait_again(struct mysql_link *link, struct mysql_row *row, int64_t wait_ms)
{
    row->state = JOB_DELAYED;
    row->due_ms = wait_ms > 0 ? link->now_ms + wait_ms + 1 : link->now_ms;
}

/* Ends a failed attempt. The job waits for another attempt or dies. */
static void fail(struct mysql_link *link, struct mysql_row *row, const struct queue_answer *answer,
                 enum job_outcome outcome, int64_t counts[SQL_COUNTS])
{
    struct policy policy = policy_resolve(&row->policy, &row->topic->settings.policy);
    int64_t ended_ms = outcome == JOB_OUTCOME_LEASE_ENDED ? row->lease_until_ms : link->now_ms;
    char history[JOB_HISTORY_BYTES_MAX];
    const struct job_attempt attempt = {
        .attempt = row->attempt,
        .started_ms = row->taken_ms,
        .duration_ms = ended_ms > row->taken_ms ? ended_ms - row->taken_ms : 0,
        .outcome = outcome,
        .error = text_cut(answer->error, JOB_HISTORY_ERROR_BYTES_MAX)};
    row->history_bytes =
        job_history_add(slice_make(row->history, row->history_bytes), &attempt, history);
    memcpy(row->history, history, row->history_bytes);
    row->error = text_cut(answer->error, JOB_ERROR_BYTES_MAX);
    row->has_error = true;
    counts[outcome == JOB_OUTCOME_LEASE_ENDED ? SQL_COUNT_LEASE_ENDED : SQL_COUNT_NACKED] = 1;
    if (answer->has_priority)
        row->priority = row->level = answer->priority;
    if (life_fail(outcome, row->attempt, &policy) == LIFE_DIED) {
        row->state = JOB_DEAD;
        row->level = MYSQL_LEVEL_DEAD;
        counts[SQL_COUNT_DIED] = 1;
        mysql_row_ends(row, MYSQL_END_DEAD, answer, counts);
        mysql_member_moves(link, row, BATCH_UNFINISHED, BATCH_DEAD);
        mysql_history_note(link, row, "died", holder(row), row->error);
    } else {
        wait_again(link, row,
                   answer->delay_ms < 0
                       ? policy_backoff_ms(&policy.backoff, row->attempt, random_u64())
                       : answer->delay_ms);
    }
}

static void unlease(struct mysql_row *row)
{
    row->lease_until_ms = row->taken_ms = row->server = 0;
    row->cancel_requested = false;
    row->progress = (struct slice){0};
    row->expire_ms = expire_of(row);
    row_changed(row);
}

/* Returns the end by a push again: the successor of the job wins, or it was cancelled. */
static const char *again_end(const struct mysql_row *row)
{
    return row->cancel_requested ? "nacked" : "acked";
}

/* Records the end of an attempt in the history, and a cancellation that follows from it. */
static void note_end(struct mysql_link *link, const struct mysql_row *row,
                     const struct queue_answer *answer, bool by_itself)
{
    const char *event = by_itself                      ? "lease_ended"
                        : answer->verb == QUEUE_ACK    ? "acked"
                        : answer->verb == QUEUE_AGAIN  ? again_end(row)
                        : answer->verb == QUEUE_RETURN ? "returned"
                                                       : "nacked";
    bool is_acked = !by_itself && answer->verb == QUEUE_ACK;
    mysql_history_note(link, row, event, holder(row),
                       is_acked ? (struct slice){0} : text_cut(answer->error, JOB_ERROR_BYTES_MAX));
    if (!is_acked && row->cancel_requested)
        mysql_history_note(link, row, "cancelled", nobody, (struct slice){0});
}

/* Starts the successor of a job whose lease ended. */
static enum queue_status start_next(struct mysql_link *link, struct mysql_row *row,
                                    struct life life, enum queue_verb verb)
{
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_LEASED] = -1};
    struct topic_totals sum = {0};
    record_next_count(&sum, life_next(life.step, verb));
    counts[SQL_COUNT_PUSHED] = (int64_t)sum.pushed;
    counts[SQL_COUNT_ACKED] = (int64_t)sum.acked;
    counts[SQL_COUNT_CANCELLED] = (int64_t)sum.cancelled;
    counts[SQL_COUNT_REPLACED] = (int64_t)sum.replaced;
    counts[SQL_COUNT_NACKED] = (int64_t)sum.nacked;
    counts[SQL_COUNT_LEASE_ENDED] = (int64_t)sum.lease_ended;
    row->acked_attempt = row->attempt;
    row->has_started_next = true;
    mysql_batch_drop_own(link, row);
    if (row->next_push) { /* the database does not have it yet */
        fill(link, row, row->next_push);
    } else {
        row->state = JOB_DELAYED;
        row->attempt = 0;
        row->delivery = 0;
        row->lease_span_ms = 0;
        row->due_ms = row->first_due_ms = row->next.due_ms;
        row->priority = row->level = row->next.priority;
        row->sequence = row->next.sequence;
        row->group = row->next.group;
        row->policy = (struct policy){.ttl_ms = row->next.ttl_ms};
        row->has_keep = row->next.has_keep;
        row->keep_ms = row->next.keep_ms;
        row->history_bytes = 0;
        row->error = (struct slice){0};
        row->has_error = true;
        row->next = (struct mysql_next){0};
        row->next_change = MYSQL_NEXT_STARTED;
        unlease(row);
    }
    count_row(row, counts, 1);
    note(link, row, counts, true, false);
    return life_next_status(life);
}

/* Ends a valid lease with `answer`, or because it expired (`by_itself`). */
static enum queue_status end_lease(struct mysql_link *link, struct mysql_row *row,
                                   const struct queue_answer *answer, bool by_itself)
{
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_LEASED] = -1};
    struct life life = by_itself ? (struct life){QUEUE_OK, life_lease_end(row->cancel_requested)}
                                 : life_answer(answer, row->cancel_requested);
    note_end(link, row, answer, by_itself);
    if (row->next.waits)
        return start_next(link, row, life, by_itself ? 0 : answer->verb);
    if (life.step == LIFE_ACKED || life.step == LIFE_CANCELLED) {
        counts[life.step == LIFE_ACKED ? SQL_COUNT_ACKED : SQL_COUNT_CANCELLED] = 1;
        if (life.step == LIFE_ACKED)
            row_end(link, row, JOB_END_ACKED, answer, counts);
        else
            row_end(link, row, JOB_END_CANCELLED, NULL, counts);
        note(link, row, counts, false, false);
        return life.status;
    }
    if (life.step == LIFE_RETURNED) {
        row->attempt--;
        row->state = JOB_DELAYED;
        if (answer->delay_ms > 0)
            row->due_ms = link->now_ms + answer->delay_ms + 1;
    } else {
        fail(link, row, answer,
             by_itself       ? JOB_OUTCOME_LEASE_ENDED
             : answer->final ? JOB_OUTCOME_REFUSED
                             : JOB_OUTCOME_FAILED,
             counts);
    }
    unlease(row);
    count_row(row, counts, 1);
    note(link, row, counts, true, row->state == JOB_DEAD);
    return life.status;
}

/* Acks a leased job and pushes it again in its row. */
static enum queue_status again_one(struct mysql_link *link, struct mysql_row *row,
                                   const struct queue_answer *answer, struct queue_result *out)
{
    const struct queue_again *again = answer->again;
    int64_t counts[SQL_COUNTS] = {
        [SQL_COUNT_LEASED] = -1, [SQL_COUNT_ACKED] = 1, [SQL_COUNT_PUSHED] = 1};
    if (is_far(link->now_ms, &again->when)) {
        out->detail = "at";
        return QUEUE_BAD_OPTION;
    }
    if (!again_fits_packet(link, again, out))
        return QUEUE_BODY_TOO_BIG;
    struct life life = life_answer(answer, row->cancel_requested);
    if (life.step != LIFE_AGAIN || row->next.waits)
        return end_lease(link, row, answer, false);
    mysql_history_note(link, row, "acked", holder(row), (struct slice){0});
    row->again = again;
    mysql_batch_drop_own(link, row);
    row->acked_attempt = row->attempt;
    row->state = JOB_DELAYED;
    row->attempt = 0;
    row->delivery = 0;
    row->lease_span_ms = 0;
    row->due_ms = row->first_due_ms = sql_call_due_ms(link->now_ms, &again->when);
    if (again->priority != QUEUE_PRIORITY_UNSET)
        row->priority = again->priority;
    row->level = row->priority;
    row->sequence = link->rows.number + link->rows.numbers_used++;
    row->history_bytes = 0;
    row->error = (struct slice){0};
    row->has_error = true;
    if (again->has_body)
        row->body_bytes = again->body.len;
    unlease(row);
    count_row(row, counts, 1);
    note(link, row, counts, true, false);
    return life.status;
}

static enum queue_status answer_one(struct mysql_link *link, const struct queue_answer *answer,
                                    const struct sql_lease *lease, struct queue_result *out)
{
    struct mysql_row *row = leased_row(link, lease);
    if (!row || row->lease_until_ms <= link->now_ms)
        return QUEUE_LEASE_ENDED;
    out->topic = slice_of(row->topic->name);
    out->id = mysql_row_id(row);
    if (answer->verb == QUEUE_EXTEND) {
        row->lease_until_ms =
            link->now_ms + (answer->lease_ms > 0 ? answer->lease_ms : row->lease_span_ms) + 1;
        row->server = link->context->server;
        if (answer->progress.len)
            row->progress = answer->progress;
        row->changed = row->extended = true;
        out->state = JOB_LEASED;
        out->lease_until_ms = row->lease_until_ms;
        out->cancel_requested = row->cancel_requested;
        sql_effects_hold(&link->context->effects, lease, row->lease_until_ms);
        return QUEUE_OK;
    }
    enum queue_status status = answer->verb == QUEUE_AGAIN ? again_one(link, row, answer, out)
                                                           : end_lease(link, row, answer, false);
    if (status != QUEUE_BAD_OPTION && status != QUEUE_BODY_TOO_BIG) {
        sql_effects_hold(&link->context->effects, lease, 0);
        if (answer->hold_ms > 0)
            mysql_flow_hold(link, row, answer->hold_ms);
    }
    if (row->exists)
        show(row, link->now_ms, out);
    return status;
}

/* ---- calls ---- */

/* Copies texts, since those of the link are freed before the reply is sent. */
static void own_texts(struct sql_call *call)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->command->count; i++)
        bytes += call->items[i].topic.len + call->items[i].id.len;
    char *at = call->tokens = malloc(bytes + 1);
    for (size_t i = 0; i < call->command->count; i++) {
        struct slice *texts[] = {&call->items[i].topic, &call->items[i].id};
        for (size_t k = 0; k < 2; k++) {
            if (at && texts[k]->len)
                memcpy(at, texts[k]->at, texts[k]->len);
            *texts[k] = at ? slice_make(at, texts[k]->len) : (struct slice){0};
            at = at ? at + texts[k]->len : NULL;
        }
    }
}

/* Appends the event of an item. The item's row still exists even if its job was deleted. */
static void notify_item(struct mysql_link *link, const struct sql_call *call, size_t i)
{
    const struct command *command = call->command;
    const struct queue_result *result = &call->items[i];
    struct sql_effects *effects = &link->context->effects;
    struct mysql_topic *topic;
    struct mysql_row *row = NULL;
    bool is_return = command->kind == COMMAND_ANSWER && command->answers[i].verb == QUEUE_RETURN;
    if (!effects->has_listener ||
        (result->status != QUEUE_OK && result->status != QUEUE_CREATED &&
         result->status != QUEUE_REPLACED && result->status != QUEUE_CANCELLED))
        return;
    topic = mysql_names_find(&link->topics.names, result->topic);
    if (topic)
        row = mysql_row_need(link, topic, result->id);
    bool is_again = row && command->kind == COMMAND_ANSWER && (row->again || row->has_started_next);
    if (row)
        sql_effects_publish_item(effects, command, i, result,
                                 is_again
                                     ? row->acked_attempt
                                     : row->attempt + (is_return && result->status == QUEUE_OK),
                                 mysql_row_shown_due(row), row->has_started_next);
}

static void decide_items(struct mysql_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    for (size_t i = 0; i < command->count; i++) {
        struct queue_result *out = &call->items[i];
        struct sql_lease lease;
        if (!command_item_is_good(command, i, out))
            continue;
        *out = (struct queue_result){0};
        if (command->kind != COMMAND_ANSWER) {
            struct queue_find name = command_item_name(command, i);
            out->topic = name.topic;
            out->id = name.id;
        }
        if (command->kind == COMMAND_PUSH) {
            out->status = push_one(link, &command->pushes[i], out);
        } else if (command->kind == COMMAND_CHANGE) {
            out->status = change_one(link, &command->changes[i], out);
        } else if (sql_lease_parse(command->answers[i].lease, &link->context->key, &lease)) {
            out->status = answer_one(link, &command->answers[i], &lease, out);
        } else {
            out->status = QUEUE_LEASE_ENDED;
        }
        notify_item(link, call, i);
    }
    if (command->kind == COMMAND_ANSWER)
        own_texts(call);
}

static void end_by_itself(struct mysql_link *link, struct mysql_row *row)
{
    const struct queue_answer answer = {.delay_ms = -1, .error = slice_of("lease ended")};
    struct queue_result result = {.topic = slice_of(row->topic->name), .id = mysql_row_id(row)};
    result.status = end_lease(link, row, &answer, true);
    if (row->exists)
        show(row, link->now_ms, &result);
    sql_effects_publish_end(&link->context->effects, &result,
                            row->has_started_next ? row->acked_attempt : row->attempt,
                            row->has_started_next);
}

static void decide_ends(struct mysql_link *link, struct sql_call *call)
{
    for (size_t i = 0; i < call->ends.count; i++) {
        const struct sql_lease *lease = &call->ends.at[i];
        struct mysql_row *row = leased_row(link, lease);
        if (!row || row->server != link->context->server)
            continue;
        if (row->lease_until_ms > link->now_ms) /* it was extended in the meantime */
            sql_effects_hold(&link->context->effects, lease, row->lease_until_ms);
        else
            end_by_itself(link, row);
    }
}

/* Prepares the job that a take names. If it is not ready, makes it ready and due now, so that the
 * take finds it. */
static enum queue_status pick_one(struct mysql_link *link, const struct queue_take *take)
{
    int64_t counts[SQL_COUNTS] = {0};
    struct mysql_topic *topic = mysql_names_find(&link->topics.names, take->topics[0]);
    struct mysql_row *row = topic && topic->number ? mysql_row_need(link, topic, take->id) : NULL;
    struct life life = life_pick(row ? seen_state(row, link->now_ms) : 0);
    if (life.step == LIFE_STAYS)
        return life.status;
    if (row->picked)
        return QUEUE_LEASED;
    if (row->state != JOB_DEAD && row->expire_ms && row->expire_ms <= link->now_ms &&
        !mysql_row_waits(row))
        return QUEUE_NOT_FOUND;
    row->picked = true;
    if (life.step == LIFE_LEASED)
        return life.status;
    count_row(row, counts, -1);
    if (row->own) {
        struct mysql_batch *batch = mysql_batch_own(link, row);
        if (batch)
            batch->ends = true;
    }
    if (row->state == JOB_DEAD)
        mysql_member_revives(link, row);
    row->state = JOB_DELAYED;
    row->due_ms = row->first_due_ms = link->now_ms;
    row->level = row->priority;
    row->expire_ms = expire_of(row);
    row_changed(row);
    count_row(row, counts, 1);
    note(link, row, counts, false, false);
    return life.status;
}

/* A waiting job dies, because its batch was not closed. It keeps when it is due after the wait. */
static void die_unclosed(struct mysql_link *link, struct mysql_row *row)
{
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_DIED] = 1};
    struct job_event event = {.kind = JOB_EVENT_DEAD,
                              .topic = slice_of(row->topic->name),
                              .id = mysql_row_id(row),
                              .attempt = row->attempt,
                              .error = slice_of(BATCH_NOT_CLOSED)};
    sql_effects_publish(&link->context->effects, &event);
    count_row(row, counts, -1);
    mysql_history_note(link, row, "died", nobody, (struct slice){0});
    row->state = JOB_DEAD;
    row->level = MYSQL_LEVEL_DEAD;
    row->due_ms = link->now_ms;
    row->expire_ms = 0;
    row->error = event.error;
    row->has_error = true;
    row_changed(row);
    count_row(row, counts, 1);
    mysql_row_ends(row, MYSQL_END_DEAD, NULL, counts);
    mysql_member_moves(link, row, BATCH_UNFINISHED, BATCH_DEAD);
    note(link, row, counts, false, true);
}

/* The time for the close of a batch, or for its wait, may have ended. */
static void expire_waiting(struct mysql_link *link, struct mysql_row *row)
{
    struct mysql_batch *batch = mysql_batch_own(link, row);
    if (!batch)
        return;
    bool is_closed = !batch->is_known || mysql_batch_is_closed(batch);
    int64_t until_ms = batch->is_known ? batch->wait_until_ms : 0;
    if (!is_closed && batch->close_by_ms < until_ms) {
        if (batch->close_by_ms <= link->now_ms) {
            die_unclosed(link, row);
            return;
        }
        until_ms = batch->close_by_ms;
    }
    row->expire_ms = until_ms > link->now_ms ? until_ms : 0;
    row_changed(row);
    if (row->expire_ms)
        return;
    if (batch->is_known)
        batch->ends = true;
    else
        mysql_row_wait_ends(link, row, false);
}

static void notify_expiry(struct mysql_link *link, const struct mysql_row *row)
{
    struct job_event event = {.kind = JOB_EVENT_EXPIRED,
                              .topic = slice_of(row->topic->name),
                              .id = mysql_row_id(row),
                              .attempt = row->attempt,
                              .due_ms = row->due_ms};
    sql_effects_publish(&link->context->effects, &event);
    if (!row->topic->settings.dead_letter_expired)
        return;
    event.kind = JOB_EVENT_DEAD;
    event.due_ms = 0;
    event.error = slice_of("expired");
    sql_effects_publish(&link->context->effects, &event);
}

static void expire_one(struct mysql_link *link, struct mysql_row *row)
{
    int64_t counts[SQL_COUNTS] = {0};
    row->topic = mysql_numbers_find(&link->topics.numbers, slice_make(row->key, sizeof(uint32_t)));
    if (!row->topic || !row->topic->number || row->topic->name[0] == '?') { /* topic was deleted */
        row->exists = false;
        return;
    }
    if (mysql_row_waits(row)) {
        expire_waiting(link, row);
        return;
    }
    count_row(row, counts, -1);
    mysql_history_note(link, row, "expired", nobody, (struct slice){0});
    notify_expiry(link, row);
    if (life_expire(&row->topic->settings) == LIFE_DIED) {
        mysql_history_note(link, row, "died", nobody, (struct slice){0});
        row->state = JOB_DEAD;
        row->level = MYSQL_LEVEL_DEAD;
        row->expire_ms = 0;
        row->error = slice_of("expired");
        row->has_error = true;
        row_changed(row);
        count_row(row, counts, 1);
        counts[SQL_COUNT_DIED] = 1;
        mysql_row_ends(row, MYSQL_END_DEAD, NULL, counts);
        mysql_member_moves(link, row, BATCH_UNFINISHED, BATCH_DEAD);
        note(link, row, counts, false, true);
        return;
    }
    counts[SQL_COUNT_EXPIRED] = 1;
    row_end(link, row, JOB_END_EXPIRED, NULL, counts);
    note(link, row, counts, false, false);
}

static void purge_one(struct mysql_link *link, struct mysql_row *row)
{
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_CANCELLED] = 1};
    count_row(row, counts, -1);
    mysql_history_note(link, row, "purged", nobody, (struct slice){0});
    mysql_row_ends(row, MYSQL_END_PURGED, NULL, counts);
    mysql_batch_job_ends(link, row, BATCH_CANCELLED);
    row->exists = row->fresh = false;
    note(link, row, counts, false, false);
}

/* Closes the batch of a job that died because it was not closed, and lets the job wait on. Returns false for all others. */
static bool wait_on(struct mysql_link *link, struct mysql_row *row)
{
    struct mysql_batch *batch = row->own ? mysql_batch_own(link, row) : NULL;
    if (!batch || !batch->is_known || batch->rules.has_ended)
        return false;
    batch->closes = true;
    row->due_ms = MYSQL_WAIT_DUE;
    row->expire_ms = batch->wait_until_ms;
    return true;
}

static void redrive_one(struct mysql_link *link, struct mysql_row *row)
{
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_REDRIVEN] = 1};
    count_row(row, counts, -1);
    mysql_history_note(link, row, "redriven", nobody, (struct slice){0});
    row->state = JOB_DELAYED;
    row->attempt = 0;
    row->level = row->priority;
    mysql_member_revives(link, row);
    if (!wait_on(link, row)) {
        row->due_ms = row->first_due_ms = link->now_ms;
        row->expire_ms = expire_of(row);
    }
    row_changed(row);
    count_row(row, counts, 1);
    note(link, row, counts, true, false);
}

/* Applies a purge, redrive or expire to a row that it has selected. */
static void decide_own(struct mysql_link *link, struct sql_call *call, struct mysql_row *row)
{
    call->step_affected++;
    if (call->kind == SQL_CALL_EXPIRE) {
        expire_one(link, row);
        return;
    }
    if (call->command->topic.verb == QUEUE_TOPIC_PURGE)
        purge_one(link, row);
    else
        redrive_one(link, row);
}

static void decide_call(struct mysql_link *link, struct sql_call *call)
{
    if (call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TAKE &&
        call->command->take.id.len)
        call->status = pick_one(link, &call->command->take);
    if (call->kind == SQL_CALL_END_LEASES)
        decide_ends(link, call);
    else if (sql_call_writes_items(call))
        decide_items(link, call);
}

void mysql_decide(struct mysql_link *link)
{
    EACH_CALL(link, call)
    {
        decide_call(link, call);
        for (size_t i = 0; i < link->rows.list.count; i++)
            if (link->rows.list.at[i]->owner == call)
                decide_own(link, call, link->rows.list.at[i]);
        if (mysql_is_step(call))
            mysql_call_steps_on(link, call);
    }
    if (link->rows.numbers_used > MYSQL_NUMBERS)
        mysql_note_no_memory(link);
}
