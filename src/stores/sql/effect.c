#include "sql/effect.h"

#include "base/text.h"

/* ---- events ---- */

void sql_event_emit(struct buffer *out, const struct job_event *event)
{
    size_t error_bytes =
        event->error.len < JOB_ERROR_BYTES_MAX ? event->error.len : JOB_ERROR_BYTES_MAX;
    buffer_append_format(out, "%d %u %lld %lld %llu %d ", (int)event->kind, event->attempt,
                         (long long)event->due_ms, (long long)event->lease_until_ms,
                         (unsigned long long)event->count, (int)event->way);
    buffer_append_slice(out, event->topic);
    buffer_append_byte(out, ' ');
    buffer_append_slice(out, event->id);
    buffer_append_byte(out, ' ');
    text_percent_encode(slice_make(event->error.at, error_bytes), "", out);
    buffer_append_byte(out, '\n');
}

/* Takes the text up to `end` and skips `end`. Returns false if `end` is missing. */
static bool take_text(struct slice *rest, char end, struct slice *out)
{
    const char *at = rest->len ? memchr(rest->at, end, rest->len) : NULL;
    if (!at)
        return false;
    *out = slice_make(rest->at, (size_t)(at - rest->at));
    *rest = slice_make(at + 1, rest->len - out->len - 1);
    return true;
}

bool sql_event_take_number(struct slice *rest, char end, uint64_t *out)
{
    struct slice digits;
    uint64_t number = 0;
    if (!take_text(rest, end, &digits) || !digits.len || digits.len > 18)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(digits.at[i] - '0');
    }
    *out = number;
    return true;
}

bool sql_event_take(struct slice *lines, struct buffer *error, struct job_event *out)
{
    uint64_t kind, attempt, due, until, way;
    struct slice text;
    *out = (struct job_event){0};
    buffer_clear(error);
    if (!sql_event_take_number(lines, ' ', &kind) || kind < JOB_EVENT_PUSHED ||
        kind >= JOB_EVENT_KINDS_END || !sql_event_take_number(lines, ' ', &attempt) ||
        !sql_event_take_number(lines, ' ', &due) || !sql_event_take_number(lines, ' ', &until) ||
        !sql_event_take_number(lines, ' ', &out->count) ||
        !sql_event_take_number(lines, ' ', &way) || !take_text(lines, ' ', &out->topic) ||
        !take_text(lines, ' ', &out->id) || !take_text(lines, '\n', &text) ||
        !text_percent_decode(text, false, error) || error->failed)
        return false;
    out->kind = (enum job_event_kind)kind;
    out->way = way <= JOB_WAY_BROKER ? (enum job_way)way : JOB_WAY_UNKNOWN;
    out->attempt = (uint32_t)attempt;
    out->due_ms = (int64_t)due;
    out->lease_until_ms = (int64_t)until;
    out->error = buffer_slice(error);
    return true;
}

struct slice sql_event_take_lines(struct slice *lines, size_t bytes_max)
{
    size_t len = lines->len < bytes_max ? lines->len : bytes_max;
    while (len && lines->at[len - 1] != '\n')
        len--;
    struct slice taken = slice_make(lines->at, len);
    *lines = slice_make(lines->at + len, lines->len - len);
    return taken;
}

size_t sql_event_count(struct slice lines)
{
    size_t count = 0;
    for (size_t i = 0; i < lines.len; i++)
        count += lines.at[i] == '\n';
    return count;
}

/* ---- effects ---- */

enum { EVENTS_BYTES_MAX = 1 << 20 }; /* per transaction */

void sql_effects_init(struct sql_effects *effects)
{
    buffer_init(&effects->events, EVENTS_BYTES_MAX);
    sql_effects_clear(effects);
}

void sql_effects_clear(struct sql_effects *effects)
{
    effects->tallies.count = effects->notifications.count = effects->holds.count = 0;
    effects->batches.count = 0;
    effects->has_batches = false;
    effects->expire_ms = INT64_MAX;
    effects->failed = false;
    buffer_clear(&effects->events);
    effects->events_lost = 0;
    effects->events_return = false;
}

void sql_effects_fini(struct sql_effects *effects)
{
    sql_tallies_fini(&effects->tallies);
    sql_notification_list_fini(&effects->notifications);
    sql_holds_fini(&effects->holds);
    sql_batch_changes_fini(&effects->batches);
    buffer_fini(&effects->events);
}

void sql_effects_count(struct sql_effects *effects, int64_t topic, const int64_t counts[SQL_COUNTS])
{
    struct sql_tallies *tallies = &effects->tallies;
    size_t i = tallies->count;
    bool is_nothing = true;
    for (int k = 0; k < SQL_COUNTS; k++)
        is_nothing = is_nothing && counts[k] == 0;
    if (is_nothing)
        return;
    while (i > 0 && tallies->at[i - 1].topic != topic)
        i--;
    if (i == 0) {
        if (!sql_tallies_add(tallies, (struct sql_tally){.topic = topic})) {
            effects->failed = true;
            return;
        }
        i = tallies->count;
    }
    for (int k = 0; k < SQL_COUNTS; k++)
        tallies->at[i - 1].counts[k] += counts[k];
}

struct sql_notification *sql_effects_notification(struct sql_effects *effects, struct slice topic)
{
    struct sql_notification_list *list = &effects->notifications;
    struct sql_notification notification = {.due_ms = INT64_MAX};
    for (size_t i = list->count; i > 0; i--)
        if (slice_is(topic, list->at[i - 1].name))
            return &list->at[i - 1];
    if (topic.len >= sizeof notification.name)
        return NULL;
    memcpy(notification.name, topic.at, topic.len);
    if (!sql_notification_list_add(list, notification)) {
        effects->failed = true;
        return NULL;
    }
    return &list->at[list->count - 1];
}

void sql_effects_due(struct sql_effects *effects, struct slice topic, int64_t due_ms)
{
    struct sql_notification *notification = sql_effects_notification(effects, topic);
    if (notification && due_ms < notification->due_ms)
        notification->due_ms = due_ms;
}

void sql_effects_hold(struct sql_effects *effects, const struct sql_lease *lease, int64_t until_ms)
{
    struct sql_hold hold = {.lease = *lease, .until_ms = until_ms};
    if (!sql_holds_add(&effects->holds, hold))
        effects->failed = true;
}

/* Returns the changes of a batch, or NULL if out of memory. */
static struct sql_batch_change *change_of(struct sql_effects *effects, int64_t batch)
{
    struct sql_batch_changes *changes = &effects->batches;
    for (size_t i = changes->count; i > 0; i--)
        if (changes->at[i - 1].batch == batch)
            return &changes->at[i - 1];
    if (!sql_batch_changes_add(changes, (struct sql_batch_change){.batch = batch})) {
        effects->failed = true;
        return NULL;
    }
    return &changes->at[changes->count - 1];
}

void sql_effects_member(struct sql_effects *effects, int64_t batch, enum batch_outcome before,
                        enum batch_outcome after)
{
    struct sql_batch_change *change = change_of(effects, batch);
    if (change && before < BATCH_OUTCOMES)
        change->counts[before]--;
    if (change && after < BATCH_OUTCOMES)
        change->counts[after]++;
}

void sql_effects_look_at_batch(struct sql_effects *effects, int64_t batch)
{
    struct sql_batch_change *change = change_of(effects, batch);
    if (change)
        change->looks = true;
}

static int batch_change_compare(const void *left, const void *right)
{
    const struct sql_batch_change *a = left, *b = right;
    return a->batch < b->batch ? -1 : a->batch > b->batch;
}

void sql_effects_sort_batches(struct sql_effects *effects)
{
    struct sql_batch_changes *changes = &effects->batches;
    if (changes->count > 1)
        qsort(changes->at, changes->count, sizeof *changes->at, batch_change_compare);
}

void sql_effects_expire(struct sql_effects *effects, int64_t expire_ms)
{
    if (expire_ms && expire_ms < effects->expire_ms)
        effects->expire_ms = expire_ms;
}

/* ---- events ---- */

void sql_effects_publish(struct sql_effects *effects, const struct job_event *event)
{
    if (!effects->has_listener)
        return;
    if (effects->events.failed || effects->events.len + SQL_EVENT_BYTES_MAX > EVENTS_BYTES_MAX) {
        effects->events_lost++;
        return;
    }
    sql_event_emit(&effects->events, event);
}

static void publish_push(struct sql_effects *effects, const struct queue_push *push,
                         const struct queue_result *result)
{
    bool is_new = result->status == QUEUE_CREATED;
    if ((!is_new && result->status != QUEUE_REPLACED) || result->state == JOB_LEASED)
        return; /* a successor, whose event comes when it starts */
    sql_effects_publish(effects,
                        &(struct job_event){.kind = is_new ? JOB_EVENT_PUSHED : JOB_EVENT_REPLACED,
                                            .topic = push->topic,
                                            .id = push->id,
                                            .attempt = push->past.attempt,
                                            .due_ms = result->due_ms});
}

static void notify_change(struct sql_effects *effects, const struct queue_change *change,
                          const struct queue_result *result, uint32_t attempt, int64_t was_due_ms)
{
    struct job_event event = {
        .topic = change->topic, .id = change->id, .attempt = attempt, .due_ms = result->due_ms};
    if (result->status == QUEUE_CANCELLED) {
        event.kind = JOB_EVENT_CANCELLED;
        event.due_ms = was_due_ms;
    } else if (result->status == QUEUE_OK) {
        event.kind = change->verb == QUEUE_RUN ? JOB_EVENT_RUN : JOB_EVENT_RESCHEDULED;
    } else {
        return;
    }
    sql_effects_publish(effects, &event);
}

/* Appends the event of a failed attempt, and a second one if the job died. */
static void publish_failure(struct sql_effects *effects, struct job_event event,
                            const struct queue_result *result, struct slice error)
{
    event.error = event.kind == JOB_EVENT_NACKED ? error : (struct slice){0};
    event.due_ms = result->state == JOB_DEAD ? 0 : result->due_ms;
    sql_effects_publish(effects, &event);
    if (result->state != JOB_DEAD)
        return;
    event.kind = JOB_EVENT_DEAD;
    event.error = error;
    sql_effects_publish(effects, &event);
}

/* Appends the event of a job, or a successor, that came in place of the one that ended. */
static void publish_next(struct sql_effects *effects, const struct queue_result *result)
{
    struct queue_result next = *result;
    next.status = QUEUE_CREATED;
    if (result->state == JOB_DELAYED || result->state == JOB_READY)
        publish_push(effects, &(struct queue_push){.topic = result->topic, .id = result->id},
                     &next);
}

/* Appends the event of an attempt that did not end its job, and that of the successor that starts. */
static void publish_end_with_next(struct sql_effects *effects, struct job_event event,
                                  const struct queue_result *result)
{
    event.due_ms = 0;
    sql_effects_publish(effects, &event);
    sql_effects_publish(effects, &(struct job_event){.kind = JOB_EVENT_REPLACED,
                                                     .topic = result->topic,
                                                     .id = result->id,
                                                     .due_ms = result->due_ms});
}

static void publish_answer(struct sql_effects *effects, const struct queue_answer *answer,
                           const struct queue_result *result, uint32_t attempt, bool has_next)
{
    static const enum job_event_kind kinds[] = {[QUEUE_ACK] = JOB_EVENT_ACKED,
                                                [QUEUE_NACK] = JOB_EVENT_NACKED,
                                                [QUEUE_EXTEND] = JOB_EVENT_EXTENDED,
                                                [QUEUE_RETURN] = JOB_EVENT_RETURNED};
    struct job_event event = {.topic = result->topic, .id = result->id, .attempt = attempt};
    if (result->status == QUEUE_CANCELLED)
        event.kind = JOB_EVENT_CANCELLED;
    else if (result->status == QUEUE_CREATED || result->status == QUEUE_REPLACED)
        event.kind = JOB_EVENT_ACKED;
    else if (result->status == QUEUE_OK && answer->verb <= QUEUE_RETURN)
        event.kind = kinds[answer->verb];
    else
        return;
    if (has_next && (event.kind == JOB_EVENT_NACKED || event.kind == JOB_EVENT_RETURNED)) {
        event.error = event.kind == JOB_EVENT_NACKED ? answer->error : (struct slice){0};
        publish_end_with_next(effects, event, result);
        return;
    }
    if (event.kind == JOB_EVENT_NACKED) {
        publish_failure(effects, event, result, answer->error);
        return;
    }
    if (event.kind == JOB_EVENT_EXTENDED)
        event.lease_until_ms = result->lease_until_ms;
    if (event.kind == JOB_EVENT_EXTENDED && answer->progress.len) {
        event.kind = JOB_EVENT_PROGRESS;
        event.error = answer->progress;
    }
    if (event.kind == JOB_EVENT_RETURNED)
        event.due_ms = result->due_ms;
    sql_effects_publish(effects, &event);
    if (event.kind == JOB_EVENT_ACKED || event.kind == JOB_EVENT_CANCELLED)
        publish_next(effects, result);
}

void sql_effects_publish_item(struct sql_effects *effects, const struct command *command,
                              size_t item, const struct queue_result *result, uint32_t attempt,
                              int64_t was_due_ms, bool has_next)
{
    if (!effects->has_listener)
        return;
    if (command->kind == COMMAND_PUSH)
        publish_push(effects, &command->pushes[item], result);
    else if (command->kind == COMMAND_CHANGE)
        notify_change(effects, &command->changes[item], result, attempt, was_due_ms);
    else
        publish_answer(effects, &command->answers[item], result, attempt, has_next);
}

void sql_effects_publish_end(struct sql_effects *effects, const struct queue_result *result,
                             uint32_t attempt, bool has_next)
{
    struct job_event event = {.topic = result->topic, .id = result->id, .attempt = attempt};
    if (!effects->has_listener)
        return;
    if (result->status == QUEUE_CANCELLED) {
        event.kind = JOB_EVENT_CANCELLED;
        sql_effects_publish(effects, &event);
        publish_next(effects, result);
    } else if (result->status == QUEUE_OK) {
        event.kind = JOB_EVENT_LEASE_ENDED;
        if (has_next)
            publish_end_with_next(effects, event, result);
        else
            publish_failure(effects, event, result, slice_of("lease ended"));
    }
}

void sql_effects_publish_topic(struct sql_effects *effects, const struct queue_topic_call *call,
                               uint64_t jobs)
{
    static const enum job_event_kind kinds[] = {
        [QUEUE_TOPIC_PUT] = JOB_EVENT_SETTINGS,   [QUEUE_TOPIC_PAUSE] = JOB_EVENT_PAUSED,
        [QUEUE_TOPIC_RESUME] = JOB_EVENT_RESUMED, [QUEUE_TOPIC_DELETE] = JOB_EVENT_DELETED,
        [QUEUE_TOPIC_PURGE] = JOB_EVENT_PURGED,   [QUEUE_TOPIC_REDRIVE] = JOB_EVENT_REDRIVEN};
    struct job_event event = {.topic = call->topic, .id = call->id};
    bool is_of_jobs = call->verb == QUEUE_TOPIC_PURGE || call->verb == QUEUE_TOPIC_REDRIVE;
    if (call->verb < QUEUE_TOPIC_PUT || call->verb > QUEUE_TOPIC_REDRIVE || (is_of_jobs && !jobs))
        return;
    event.kind = kinds[call->verb];
    event.count = call->id.len ? 0 : jobs;
    sql_effects_publish(effects, &event);
}

void sql_effects_publish_taken(struct sql_effects *effects, const struct job *job, enum job_way way)
{
    sql_effects_publish(effects, &(struct job_event){.kind = JOB_EVENT_DELIVERED,
                                                     .way = way,
                                                     .topic = job->topic,
                                                     .id = job->id,
                                                     .attempt = job->attempt,
                                                     .due_ms = job->due_ms,
                                                     .lease_until_ms = job->lease_until_ms});
}

void sql_effects_publish_lines(struct sql_effects *effects, struct slice lines)
{
    if (effects->events.len + lines.len > EVENTS_BYTES_MAX)
        effects->events_lost += sql_event_count(lines);
    else if (effects->has_listener)
        buffer_append_slice(&effects->events, lines);
}
