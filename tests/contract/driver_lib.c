/*
 * The queue of libtarry, in memory and in a directory with one shard and with three, through the functions of tarry.h, on a
 * test clock. Values that these do not return (a
 * job's own policy, forecasts) are read from the queue below; values of a topic for rooms above (the
 * extension, the push rate) are kept here, as such a room would. Reopening finds the queue in memory itself again.
 */
#include "driver.h"

#include "base/clock.h"
#include "base/list.h"
#include "job/ulid.h"
#include "lib/directory.h"
#include "queue/copy.h"
#include "queue/door.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOTES_MAX = 64, TEXT_BYTES = 256 };

/* Data of one topic that the library does not store, and its last reported figures. */
struct note {
    char topic[TEXT_BYTES];
    struct slice extension; /* malloc'd */
    struct frequency push_rate;
    uint64_t changes;
    bool is_watched, is_ready;
};

struct answer {
    struct list list;
    struct queue_reply_to reply_to;
    struct queue_reply *reply; /* NULL: an event of the topic */
    char topic[TEXT_BYTES];
};

struct lib_driver {
    struct queue queue;
    tarry *tarry;
    struct driver_options options;
    uint32_t shards; /* 0: in memory */
    char dir[TEXT_BYTES];
    struct list answers;
    struct list awaits; /* waits for the end of a job */
    struct note notes[NOTES_MAX];
    size_t note_count;
    bool by_events; /* it is moved by tarry_advance */
};

static struct lib_driver kept;

/* ---- what goes in ---- */

/* The bytes of a slice as the text that the API takes; texts last until the end of the call. */
static char *texts[4096];
static size_t text_count;

static const char *text_of(struct slice slice)
{
    char *text = malloc(slice.len + 1);
    assert(text && text_count < sizeof texts / sizeof texts[0]);
    if (slice.len)
        memcpy(text, slice.at, slice.len);
    text[slice.len] = '\0';
    return texts[text_count++] = text;
}

static const char *text_or_null(struct slice slice)
{
    return slice.len ? text_of(slice) : NULL;
}

static void texts_free(void)
{
    while (text_count)
        free(texts[--text_count]);
}

static struct tarry_push push_of(const struct queue_push *from)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    bool has_at = from->when.due == QUEUE_DUE_AT;
    push.flags = (from->priority != QUEUE_PRIORITY_UNSET ? TARRY_HAS_PRIORITY : 0u) |
                 (has_at ? TARRY_HAS_AT : 0u) | (from->past.dead ? TARRY_IS_DEAD : 0u) |
                 (from->has_keep_finished ? TARRY_HAS_KEEP_FINISHED : 0u);
    push.keep_finished_ms = from->keep_finished_ms;
    push.topic = text_of(from->topic);
    /* The door of this driver knows no shards: the library makes the id of a push with a `once`. */
    bool is_made = from->once.len && from->id.len == ULID_BYTES;
    push.id = is_made ? NULL : text_or_null(from->id);
    push.body = from->body.at;
    push.body_bytes = from->body.len;
    push.content_type = text_or_null(from->content_type);
    push.meta = from->meta.at;
    push.meta_bytes = from->meta.len;
    push.delay_ms = has_at ? 0 : from->when.ms;
    push.at_ms = has_at ? from->when.ms : 0;
    push.priority = from->priority == QUEUE_PRIORITY_UNSET ? 0 : from->priority;
    push.on_conflict = (uint32_t)from->on_conflict;
    push.lease_ms = from->policy.lease_ms;
    push.ttl_ms = from->policy.ttl_ms;
    push.max_attempts = from->policy.max_attempts;
    push.backoff = (uint32_t)from->policy.backoff.kind;
    push.backoff_first_ms = from->policy.backoff.first_ms;
    push.backoff_max_ms = from->policy.backoff.max_ms;
    push.backoff_steps_ms = from->policy.backoff.steps_ms;
    push.backoff_step_count = from->policy.backoff.step_count;
    push.error = text_or_null(from->past.error);
    push.error_bytes = (uint32_t)from->past.error.len;
    push.attempt = from->past.attempt;
    push.once = text_or_null(from->once);
    push.once_for_ms = from->once_for_ms;
    return push;
}

static struct tarry_change change_of(const struct queue_change *from)
{
    struct tarry_change change = TARRY_CHANGE_INIT;
    change.topic = text_of(from->topic);
    change.id = text_of(from->id);
    change.delivery = from->delivery;
    change.flags = (from->only_dead ? TARRY_ONLY_DEAD : 0u) | (from->request ? TARRY_REQUEST : 0u);
    if (from->verb != QUEUE_RESCHEDULE)
        return change;
    if (from->when.due == QUEUE_DUE_AT)
        change.flags |= TARRY_HAS_AT;
    else if (from->when.due != QUEUE_DUE_UNCHANGED)
        change.flags |= TARRY_HAS_DELAY;
    if (from->when.due == QUEUE_DUE_AT)
        change.at_ms = from->when.ms;
    else if (from->when.due == QUEUE_DUE_DELAY)
        change.delay_ms = from->when.ms;
    if (from->priority != QUEUE_PRIORITY_UNSET)
        change.flags |= TARRY_HAS_PRIORITY;
    change.priority = from->priority == QUEUE_PRIORITY_UNSET ? 0 : from->priority;
    return change;
}

static struct tarry_answer answer_of(const struct queue_answer *from)
{
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    bool may_wait = from->verb == QUEUE_NACK || from->verb == QUEUE_RETURN;
    answer.lease = text_of(from->lease);
    answer.flags = (from->final ? TARRY_FINAL : 0u) |
                   (may_wait && from->delay_ms != -1 ? TARRY_HAS_DELAY : 0u);
    answer.delay_ms = from->delay_ms;
    answer.lease_ms = from->lease_ms;
    answer.error = text_or_null(from->error);
    answer.error_bytes = from->error.len;
    answer.result = from->result.at;
    answer.result_bytes = from->result.len;
    answer.result_type = text_or_null(from->result_type);
    answer.progress = text_or_null(from->progress);
    return answer;
}

static int run_item(tarry *queue, const struct command *command, size_t i,
                    struct tarry_result *result)
{
    static int (*const changes[])(tarry *, const struct tarry_change *, size_t,
                                  struct tarry_result *) = {[QUEUE_CANCEL] = tarry_cancel,
                                                            [QUEUE_RESCHEDULE] = tarry_reschedule,
                                                            [QUEUE_RUN] = tarry_run};
    static int (*const answers[])(tarry *, const struct tarry_answer *, size_t,
                                  struct tarry_result *) = {[QUEUE_ACK] = tarry_ack,
                                                            [QUEUE_NACK] = tarry_nack,
                                                            [QUEUE_EXTEND] = tarry_extend,
                                                            [QUEUE_RETURN] = tarry_return};
    if (command->kind == COMMAND_CHANGE) {
        struct tarry_change change = change_of(&command->changes[i]);
        return changes[command->changes[i].verb](queue, &change, 1, result);
    }
    struct tarry_answer answer = answer_of(&command->answers[i]);
    return answers[command->answers[i].verb](queue, &answer, 1, result);
}

static void await_begin(struct lib_driver *self, struct slice topic, struct slice id,
                        struct queue_reply_to reply_to);

/* ---- what comes out ---- */

static void reply_add(struct lib_driver *self, const struct queue_reply *reply,
                      struct queue_reply_to reply_to)
{
    struct answer *answer = calloc(1, sizeof *answer);
    assert(answer);
    answer->reply_to = reply_to;
    answer->reply = copy_reply(reply);
    assert(answer->reply);
    list_add_last(&self->answers, &answer->list);
}

/* The fields of tarry.h have names of their own. */
static const char *detail_of(const char *field)
{
    static const char *const names[][2] = {{"delay_ms", "delay"},
                                           {"at_ms", "at"},
                                           {"lease_ms", "lease_for"},
                                           {"ttl_ms", "ttl"},
                                           {"once_for_ms", "once_for"}};
    for (size_t i = 0; field && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(field, names[i][0]) == 0)
            return names[i][1];
    return field;
}

static void run_items(struct lib_driver *self, const struct command *command,
                      struct queue_reply_to reply_to)
{
    size_t count = command->count;
    struct tarry_push *pushes = calloc(count + 1, sizeof *pushes);
    struct tarry_result *reported = calloc(count + 1, sizeof *reported);
    struct queue_result *results = calloc(count + 1, sizeof *results);
    assert(pushes && reported && results);
    reported[0].size = sizeof *reported;
    if (command->kind == COMMAND_PUSH) {
        for (size_t i = 0; i < count; i++)
            pushes[i] = push_of(&command->pushes[i]);
        tarry_push(self->tarry, pushes, count, reported);
    }
    for (size_t i = 0; i < count; i++) {
        reported[i].size = sizeof *reported;
        if (command->kind != COMMAND_PUSH)
            run_item(self->tarry, command, i, &reported[i]);
        results[i] = (struct queue_result){.status = (enum queue_status)reported[i].code,
                                           .state = (enum job_state)reported[i].state,
                                           .due_ms = reported[i].due_ms,
                                           .lease_until_ms = reported[i].lease_until_ms,
                                           .cancel_requested = reported[i].cancel_requested,
                                           .detail = detail_of(reported[i].detail),
                                           .id = slice_of(reported[i].id)};
        if (command->kind == COMMAND_PUSH)
            results[i].topic = command->pushes[i].topic;
        else if (command->kind == COMMAND_CHANGE)
            results[i].topic = command->changes[i].topic;
    }
    reply_add(self, &(struct queue_reply){.results = results, .result_count = count}, reply_to);
    for (size_t i = 0; i < count && command->kind == COMMAND_PUSH; i++)
        if (command->pushes[i].ended && queue_push_awaits(&results[i]))
            await_begin(self, command->pushes[i].topic, results[i].id, *command->pushes[i].ended);
    free(pushes);
    free(reported);
    free(results);
}

static struct slice bytes_of(const void *at, size_t bytes)
{
    return slice_make(at, bytes);
}

/* The end of a job from its accessors. */
static struct queue_end end_of(const tarry_job *from)
{
    struct queue_end end = {.outcome = (enum job_end)tarry_job_outcome(from),
                            .finished_ms = tarry_job_finished_ms(from),
                            .duration_ms = tarry_job_duration_ms(from),
                            .result_type = slice_of(tarry_job_result_type(from))};
    size_t bytes;
    const void *at = tarry_job_result(from, &bytes);
    end.result = bytes_of(at, bytes);
    (void)tarry_job_body(from, &bytes);
    end.has_body = bytes > 0;
    return end;
}

/* A job from its accessors. `history` has room for JOB_HISTORY_BYTES_MAX, twice. */
static struct queue_job shown(tarry_job *from, char *history, struct queue_end *end)
{
    struct queue_job out = {0};
    struct job *job = &out.job;
    struct tarry_attempt attempt = TARRY_ATTEMPT_INIT;
    size_t bytes;
    job->topic = slice_of(tarry_job_topic(from));
    job->id = slice_of(tarry_job_id(from));
    job->content_type = slice_of(tarry_job_content_type(from));
    const void *at = tarry_job_body(from, &bytes);
    job->body = bytes_of(at, bytes);
    at = tarry_job_meta(from, &bytes);
    job->meta = bytes_of(at, bytes);
    at = tarry_job_error(from, &bytes);
    job->error = bytes_of(at, bytes);
    at = tarry_job_consumer(from, &bytes);
    job->consumer = bytes_of(at, bytes);
    at = tarry_job_progress(from, &bytes);
    job->progress = bytes_of(at, bytes);
    job->cancel_requested = tarry_job_cancel_requested(from);
    job->state = (enum job_state)tarry_job_state(from);
    job->attempt = tarry_job_attempt(from);
    job->delivery = tarry_job_delivery(from);
    job->priority = (uint16_t)tarry_job_priority(from);
    job->due_ms = tarry_job_due_ms(from);
    job->lease_until_ms = tarry_job_lease_until_ms(from);
    job->policy = ((const struct memory_job *)(const void *)from)->shown.job.policy;
    out.lease = slice_of(tarry_job_lease(from));
    for (size_t i = 0; tarry_job_history(from, i, &attempt) == TARRY_OK; i++) {
        char *into = history + (i % 2 ? JOB_HISTORY_BYTES_MAX : 0);
        struct job_attempt reported = {.attempt = attempt.number,
                                       .started_ms = attempt.started_ms,
                                       .duration_ms = attempt.duration_ms,
                                       .outcome = (enum job_outcome)attempt.outcome,
                                       .error = slice_make(attempt.error, attempt.error_bytes)};
        job->history = slice_make(into, job_history_add(job->history, &reported, into));
    }
    *end = end_of(from);
    if (end->outcome || end->result.len)
        out.end = end;
    return out;
}

static void reply_jobs(struct lib_driver *self, int code, tarry_job **found, size_t count,
                       const char *cursor, struct queue_reply_to reply_to)
{
    struct queue_job *jobs = calloc(count + 1, sizeof *jobs);
    char *histories = malloc((count + 1) * 2 * JOB_HISTORY_BYTES_MAX);
    struct queue_end *ends = calloc(count + 1, sizeof *ends);
    assert(jobs && histories && ends);
    for (size_t i = 0; i < count; i++)
        jobs[i] = shown(found[i], histories + i * 2 * JOB_HISTORY_BYTES_MAX, &ends[i]);
    reply_add(self,
              &(struct queue_reply){.status = (enum queue_status)code,
                                    .jobs = jobs,
                                    .job_count = count,
                                    .cursor = slice_of(cursor)},
              reply_to);
    for (size_t i = 0; i < count; i++)
        tarry_job_free(found[i]);
    free(jobs);
    free(ends);
    free(histories);
}

static void run_take(struct lib_driver *self, const struct queue_take *from,
                     struct queue_reply_to reply_to)
{
    static tarry_job *found[TARRY_BATCH_MAX];
    const char *topics[QUEUE_TAKE_TOPICS_MAX];
    struct tarry_take take = TARRY_TAKE_INIT;
    size_t count;
    for (size_t i = 0; i < from->topic_count && i < QUEUE_TAKE_TOPICS_MAX; i++)
        topics[i] = text_of(from->topics[i]);
    take.topics = topics;
    take.topic_count = (uint32_t)from->topic_count;
    take.max = from->max;
    take.lease_ms = from->lease_ms;
    take.consumer = text_or_null(from->consumer);
    int code = tarry_take(self->tarry, &take, 0, found, &count);
    reply_jobs(self, code, found, count, "", reply_to);
}

static void run_list(struct lib_driver *self, const struct queue_list *from,
                     struct queue_reply_to reply_to)
{
    static tarry_job *found[TARRY_BATCH_MAX];
    struct tarry_list list = TARRY_LIST_INIT;
    size_t count = 0;
    int code = TARRY_BAD_CURSOR;
    list.topic = text_of(from->topic);
    list.state = (int32_t)from->state;
    list.limit = from->limit;
    list.flags = from->with_body ? TARRY_WITH_BODY : 0u;
    if (from->cursor.len < sizeof list.cursor) {
        if (from->cursor.len)
            memcpy(list.cursor, from->cursor.at, from->cursor.len);
        code = tarry_list(self->tarry, &list, found, &count);
    }
    reply_jobs(self, code, found, count, code ? "" : list.cursor, reply_to);
}

/* ---- topics ---- */

static struct note *note_find(struct lib_driver *self, const char *topic, bool makes)
{
    for (size_t i = 0; i < self->note_count; i++)
        if (strcmp(self->notes[i].topic, topic) == 0)
            return &self->notes[i];
    if (!makes)
        return NULL;
    assert(self->note_count < NOTES_MAX);
    struct note *note = &self->notes[self->note_count++];
    *note = (struct note){0};
    snprintf(note->topic, sizeof note->topic, "%s", topic);
    return note;
}

static void note_keep(struct note *note, const struct topic_settings *settings)
{
    free((char *)(uintptr_t)note->extension.at);
    note->extension = (struct slice){0};
    note->push_rate = settings ? settings->push_rate : (struct frequency){0};
    if (!settings || !settings->extension.len)
        return;
    char *copy = malloc(settings->extension.len);
    assert(copy);
    memcpy(copy, settings->extension.at, settings->extension.len);
    note->extension = slice_make(copy, settings->extension.len);
}

static struct queue_topic topic_of(struct lib_driver *self, const struct tarry_topic *from)
{
    struct tarry_settings reported = TARRY_SETTINGS_INIT, *settings = &reported;
    const struct note *note = note_find(self, from->name, false);
    int code = tarry_topic_settings(self->tarry, from->name, settings);
    assert(!code);
    (void)code;
    struct queue_topic topic = {
        .name = slice_of(from->name),
        .paused = from->is_paused,
        .paused_until_ms = from->paused_until_ms,
        .counts = {.delayed = from->delayed,
                   .retrying = from->retrying,
                   .ready = from->ready,
                   .leased = from->leased,
                   .dead = from->dead,
                   .dead_bytes = from->dead_bytes,
                   .finished = from->finished},
        .totals = {.pushed = from->pushed,
                   .acked = from->acked,
                   .cancelled = from->cancelled,
                   .expired = from->expired,
                   .replaced = from->replaced,
                   .delivered = from->delivered,
                   .nacked = from->nacked,
                   .lease_ended = from->lease_ended,
                   .died = from->died,
                   .redriven = from->redriven},
        .oldest_ready_due_ms = from->oldest_ready_due_ms,
        .settings = {.policy = {.lease_ms = settings->lease_ms,
                                .ttl_ms = settings->ttl_ms,
                                .max_attempts = settings->max_attempts,
                                .backoff = {.kind = (enum backoff_kind)settings->backoff,
                                            .step_count = settings->backoff_step_count,
                                            .first_ms = settings->backoff_first_ms,
                                            .max_ms = settings->backoff_max_ms}},
                     .on_conflict = (enum record_conflict)settings->on_conflict,
                     .has_priority = settings->flags & TARRY_HAS_PRIORITY,
                     .priority = settings->priority,
                     .dead_letter_expired = settings->flags & TARRY_DEAD_LETTER_EXPIRED,
                     .dedup_window_ms = settings->dedup_window_ms,
                     .max_jobs = settings->max_jobs,
                     .keep_finished_ms = settings->keep_finished_ms,
                     .keep_finished_max = settings->keep_finished_max,
                     .keep_finished_bytes = settings->keep_finished_bytes,
                     .keep_body = settings->flags & TARRY_KEEP_BODY,
                     .push_rate = note ? note->push_rate : (struct frequency){0},
                     .extension = note ? note->extension : (struct slice){0}}};
    memcpy(topic.settings.policy.backoff.steps_ms, settings->backoff_steps_ms,
           sizeof settings->backoff_steps_ms);
    return topic;
}

static int topic_put(struct lib_driver *self, const char *topic, const struct topic_settings *from)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    settings.flags = (from->has_priority ? TARRY_HAS_PRIORITY : 0u) |
                     (from->dead_letter_expired ? TARRY_DEAD_LETTER_EXPIRED : 0u);
    settings.lease_ms = from->policy.lease_ms;
    settings.ttl_ms = from->policy.ttl_ms;
    settings.max_attempts = from->policy.max_attempts;
    settings.backoff = (uint32_t)from->policy.backoff.kind;
    settings.backoff_first_ms = from->policy.backoff.first_ms;
    settings.backoff_max_ms = from->policy.backoff.max_ms;
    settings.backoff_step_count = from->policy.backoff.step_count;
    memcpy(settings.backoff_steps_ms, from->policy.backoff.steps_ms,
           sizeof settings.backoff_steps_ms);
    settings.priority = from->priority;
    settings.on_conflict = (uint32_t)from->on_conflict;
    settings.dedup_window_ms = from->dedup_window_ms;
    settings.max_jobs = from->max_jobs;
    settings.flags |= from->keep_body ? TARRY_KEEP_BODY : 0u;
    settings.keep_finished_ms = from->keep_finished_ms;
    settings.keep_finished_max = from->keep_finished_max;
    settings.keep_finished_bytes = from->keep_finished_bytes;
    return tarry_topic_put(self->tarry, topic, &settings);
}

static void event_add(struct lib_driver *self, const char *topic)
{
    struct answer *answer = calloc(1, sizeof *answer);
    assert(answer);
    snprintf(answer->topic, sizeof answer->topic, "%s", topic);
    list_add_last(&self->answers, &answer->list);
}

static void run_topic(struct lib_driver *self, const struct queue_topic_call *call,
                      struct queue_reply_to reply_to)
{
    const char *topic = text_of(call->topic);
    struct tarry_topic reported = {.size = sizeof reported};
    struct queue_topic figures = {0};
    struct queue_reply reply = {0};
    bool shows = call->verb == QUEUE_TOPIC_GET || call->verb == QUEUE_TOPIC_PUT ||
                 call->verb == QUEUE_TOPIC_PAUSE || call->verb == QUEUE_TOPIC_RESUME;
    int code = TARRY_OK;
    switch (call->verb) {
    case QUEUE_TOPIC_GET:
    case QUEUE_TOPIC_MARK: /* of one part among several: not this queue's */
        break;
    case QUEUE_TOPIC_PUT:
        code = topic_put(self, topic, &call->settings);
        if (code <= TARRY_CREATED)
            note_keep(note_find(self, topic, true), &call->settings);
        break;
    case QUEUE_TOPIC_DELETE:
        code = tarry_topic_delete(self->tarry, topic, &reply.affected);
        if (!code && note_find(self, topic, false))
            note_keep(note_find(self, topic, false), NULL);
        break;
    case QUEUE_TOPIC_PAUSE:
        assert(!call->pause_until_ms && !call->makes);
        code = tarry_topic_pause(self->tarry, topic, call->pause_ms);
        break;
    case QUEUE_TOPIC_RESUME:
        code = tarry_topic_resume(self->tarry, topic);
        break;
    case QUEUE_TOPIC_PURGE:
        code = tarry_topic_purge(self->tarry, topic, (int)call->state, &reply.affected);
        break;
    case QUEUE_TOPIC_REDRIVE:
        code = tarry_topic_redrive(self->tarry, topic, text_or_null(call->id), call->max,
                                   &reply.affected);
        break;
    }
    if (code <= TARRY_CREATED && shows) {
        int found = tarry_topic_get(self->tarry, topic, &reported);
        if (found)
            code = found;
        else
            figures = topic_of(self, &reported);
        reply.topics = &figures;
        reply.topic_count = !found;
    }
    if (code <= TARRY_CREATED &&
        (call->verb == QUEUE_TOPIC_PUT || call->verb == QUEUE_TOPIC_DELETE))
        event_add(self, topic);
    reply.status = (enum queue_status)code;
    reply_add(self, &reply, reply_to);
}

static void run_topics(struct lib_driver *self, const struct queue_topics_page *page,
                       struct queue_reply_to reply_to)
{
    size_t n = page->limit ? page->limit : 10000;
    struct tarry_topic *reported = calloc(n, sizeof *reported);
    struct queue_topic *topics = calloc(n, sizeof *topics);
    struct queue_reply reply = {.topics = topics};
    assert(reported && topics);
    reported[0].size = sizeof *reported;
    reply.status =
        (enum queue_status)tarry_topics(self->tarry, text_or_null(page->after), reported, &n);
    for (size_t i = 0; i < n; i++)
        topics[i] = topic_of(self, &reported[i]);
    reply.topic_count = n;
    reply_add(self, &reply, reply_to);
    free(reported);
    free(topics);
}

struct forecast_call {
    struct directory_call call;
    struct lib_driver *self;
    struct queue_reply_to reply_to;
};

static void forecast_replied(struct directory_call *call, const struct queue_reply *reply)
{
    struct forecast_call *forecast = (struct forecast_call *)(void *)call;
    reply_add(forecast->self, reply, forecast->reply_to);
}

static void run_forecast(struct lib_driver *self, const struct queue_forecast_call *call,
                         struct queue_reply_to reply_to)
{
    if (self->shards) {
        struct forecast_call asked = {
            .call = {.command = {.kind = COMMAND_FORECAST, .forecast = *call},
                     .replied = forecast_replied},
            .self = self,
            .reply_to = reply_to};
        directory_run(self->tarry->directory, &asked.call);
        return;
    }
    struct queue_forecast forecast;
    struct queue_reply reply = {0};
    assert(!lib_enter(self->tarry));
    reply.status = memory_forecast(self->tarry->memory, call, self->tarry->now, &forecast);
    lib_leave(self->tarry);
    if (reply.status == QUEUE_OK)
        reply.forecast = &forecast;
    reply_add(self, &reply, reply_to);
}

/* ---- waits for the end of a job ---- */

/* A submitted wait; its address is its tag. */
struct await {
    struct list list;
    struct lib_driver *self;
    struct queue_reply_to reply_to;
};

static void await_ended(void *owner, const struct tarry_reply *reply)
{
    struct await *await = owner;
    int code = reply->code == TARRY_INTERRUPTED ? QUEUE_CANCELLED : reply->code;
    if (code == TARRY_STOPPING) /* the driver is closed */
        code = QUEUE_STOPPING;
    reply_jobs(await->self, code, (tarry_job **)(void *)(uintptr_t)reply->jobs, reply->job_count,
               "", await->reply_to);
    list_remove(&await->list);
    free(await);
}

static void await_begin(struct lib_driver *self, struct slice topic, struct slice id,
                        struct queue_reply_to reply_to)
{
    struct await *await = malloc(sizeof *await);
    struct tarry_await asked = TARRY_AWAIT_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    assert(await);
    *await = (struct await){.self = self, .reply_to = reply_to};
    asked.topic = text_of(topic);
    asked.id = text_of(id);
    asked.tag = (uintptr_t)await;
    call.kind = TARRY_CALL_AWAIT;
    call.items = &asked;
    call.n = 1;
    call.wait_ms = -1;
    list_add_last(&self->awaits, &await->list);
    int code = tarry_submit(self->tarry, &call, await_ended, await);
    if (code)
        await_ended(await, &(struct tarry_reply){.code = code});
}

static void run_await(struct lib_driver *self, const struct command *command,
                      struct queue_reply_to reply_to)
{
    const struct queue_reply_to *cancels = command->await.cancels;
    if (!cancels) {
        await_begin(self, command->await.topic, command->await.id, reply_to);
        return;
    }
    for (struct list *at = self->awaits.next; at != &self->awaits; at = at->next) {
        const struct await *await = list_entry(at, struct await, list);
        if (await->reply_to.owner == cancels->owner && await->reply_to.tag == cancels->tag)
            tarry_interrupt(self->tarry, (uintptr_t)await);
    }
    reply_add(self, &(struct queue_reply){.status = QUEUE_OK}, reply_to);
}

/* ---- the queue ---- */

/* Moves the clock in one leap, like the model's clock; or by tarry_advance, which goes from event to event, so that
 * follow-up events come earlier: then the model's clock is moved in the same steps. */
static void lib_driver_moved(void *ctx)
{
    enum { ROUNDS = 4 };
    struct lib_driver *self = ctx;
    int64_t ms = clock_inner_ms() - tarry_now_ms(self->tarry);
    if (self->by_events) {
        if (tarry_advance(self->tarry, ms))
            abort();
        return;
    }
    clock_advance(&self->tarry->clock, ms);
    /* In a directory it happens in iterations of the shards; all shards run one for this. */
    for (int i = 0; self->shards && ms && i < ROUNDS; i++) {
        struct tarry_topic reported = {.size = sizeof reported};
        size_t n = 1;
        tarry_topics(self->tarry, NULL, &reported, &n);
    }
}

static int64_t lib_driver_next_ms(void *ctx)
{
    return memory_next_ms(((struct lib_driver *)ctx)->tarry->memory);
}

/* The library checks for itself: of what the door found only what has no place in the API counts. */
static void lib_driver_submit(struct queue *queue, const struct command *command,
                              struct queue_reply_to reply_to)
{
    struct lib_driver *self = (struct lib_driver *)(void *)queue;
    bool has_place = command->kind != COMMAND_TOPIC || command->topic.verb != QUEUE_TOPIC_PUT ||
                     command->status == QUEUE_BAD_TOPIC;
    lib_driver_moved(self);
    if (command->status != QUEUE_OK && (!has_place || command->kind == COMMAND_FORECAST)) {
        reply_add(self, &(struct queue_reply){.status = command->status}, reply_to);
        return;
    }
    if (command->kind == COMMAND_GET) {
        tarry_job *found;
        int code =
            tarry_get(self->tarry, text_of(command->get.topic), text_of(command->get.id), &found);
        if (!code && !command->get.finished && tarry_job_state(found) == TARRY_STATE_FINISHED) {
            tarry_job_free(found);
            code = TARRY_NOT_FOUND; /* the library has no look-up without kept jobs */
        }
        reply_jobs(self, code, &found, code == TARRY_OK, "", reply_to);
    } else if (command->kind == COMMAND_AWAIT) {
        run_await(self, command, reply_to);
    } else if (command->kind == COMMAND_TAKE) {
        run_take(self, &command->take, reply_to);
    } else if (command->kind == COMMAND_LIST) {
        run_list(self, &command->list, reply_to);
    } else if (command->kind == COMMAND_TOPIC) {
        run_topic(self, &command->topic, reply_to);
    } else if (command->kind == COMMAND_TOPICS) {
        run_topics(self, &command->topics, reply_to);
    } else if (command->kind == COMMAND_FORECAST) {
        run_forecast(self, &command->forecast, reply_to);
    } else {
        run_items(self, command, reply_to);
    }
    texts_free();
}

static void lib_driver_watch(struct queue *queue, struct slice topic, bool on)
{
    struct note *note = note_find((struct lib_driver *)(void *)queue, text_of(topic), true);
    note->is_watched = on;
    note->is_ready = false;
    texts_free();
}

static void lib_driver_info(struct queue *queue, struct queue_info *out)
{
    const struct lib_driver *self = (struct lib_driver *)(void *)queue;
    *out = (struct queue_info){.store = self->shards ? "embedded" : "memory",
                               .durability = "nothing survives the process",
                               .sync = "never",
                               .shards = self->shards ? self->shards : 1,
                               .body_bytes_max = self->options.body_bytes_max,
                               .keeps_finished = true,
                               .awaits = true,
                               .healthy = true,
                               .accepting = true};
    out->finished_dropped[QUEUE_DROP_NUMBER] = tarry_finished_dropped(self->tarry);
}

static const struct queue_ops lib_driver_ops = {
    .submit = lib_driver_submit, .watch = lib_driver_watch, .info = lib_driver_info};

static void report_ready(struct lib_driver *self, struct note *note,
                         const struct tarry_topic *reported)
{
    bool was_ready = note->is_ready;
    note->is_ready = reported->ready && !reported->is_paused;
    if (note->is_watched && note->is_ready && !was_ready)
        self->queue.on_ready(self->queue.on_ready_owner, slice_of(note->topic));
}

/* Reports changes like a room above that reads the figures: deaths in topics with an extension, ready jobs
 * in topics that it watches. */
static void report_changes(struct lib_driver *self)
{
    for (size_t i = 0; i < self->note_count; i++) {
        struct note *note = &self->notes[i];
        struct tarry_topic reported = {.size = sizeof reported};
        if (tarry_topic_get(self->tarry, note->topic, &reported))
            continue;
        report_ready(self, note, &reported);
        /* Rather once too often: jobs may come dead, and be gone again. */
        uint64_t changes = reported.died + reported.pushed + reported.replaced;
        bool is_notification = reported.dead || changes != note->changes;
        note->changes = changes;
        if (is_notification && note->extension.len && self->queue.on_event)
            self->queue.on_event(self->queue.on_event_owner, QUEUE_EVENT_DEAD,
                                 slice_of(note->topic));
    }
}

/* Collects the waits that have ended. In a directory their replies come from another thread; a call to all shards comes
 * after them. */
static void await_ends(struct lib_driver *self)
{
    struct tarry_topic reported = {.size = sizeof reported};
    size_t n = 1;
    if (list_is_empty(&self->awaits))
        return;
    if (self->shards)
        tarry_topics(self->tarry, NULL, &reported, &n);
    tarry_dispatch(self->tarry, 0);
}

static void lib_driver_pump(void *ctx)
{
    struct lib_driver *self = ctx;
    struct list round;
    await_ends(self);
    list_take_all(&round, &self->answers);
    list_init(&self->answers);
    report_changes(self);
    while (!list_is_empty(&round)) {
        struct answer *answer = list_entry(round.next, struct answer, list);
        list_remove(&answer->list);
        if (answer->reply)
            answer->reply_to.done(answer->reply_to.owner, answer->reply_to.tag, answer->reply);
        else if (self->queue.on_event)
            self->queue.on_event(self->queue.on_event_owner, QUEUE_EVENT_TOPIC,
                                 slice_of(answer->topic));
        free(answer->reply);
        free(answer);
    }
    if (self->tarry->memory)
        memory_check(self->tarry->memory);
}

static void lib_driver_forget(struct lib_driver *self)
{
    for (size_t i = 0; i < self->note_count; i++)
        note_keep(&self->notes[i], NULL);
    queue_door_free(self->queue.door);
    if (!self->shards)
        tarry_close(self->tarry);
}

static void lib_driver_forget_kept(void)
{
    lib_driver_forget(&kept);
}

static int tarry_reopen(struct lib_driver *self)
{
    struct tarry_options asked = TARRY_OPTIONS_INIT;
    char error[256];
    asked.flags = TARRY_TEST_CLOCK;
    asked.test_clock_ms = clock_inner_ms();
    asked.body_max = self->options.body_bytes_max;
    asked.topics_max = self->options.topics_max;
    asked.dir = self->shards ? self->dir : NULL;
    asked.sync = self->shards ? TARRY_SYNC_NEVER : 0;
    asked.shards = self->shards;
    asked.wal_file_bytes = self->shards ? 4 << 20 : 0;
    int code = lib_open(&asked, true, &self->tarry, error, sizeof error);
    if (code)
        fprintf(stderr, "lib: %s\n", error);
    return code;
}

static void *lib_driver_open(const struct driver_options *options, uint32_t shards)
{
    if (kept.tarry && kept.shards == shards && strcmp(kept.dir, options->dir) == 0) {
        for (size_t i = 0; i < kept.note_count; i++)
            kept.notes[i].is_watched = false;
        return !shards || !tarry_reopen(&kept) ? &kept : NULL;
    }
    static bool will_forget;
    if (!will_forget)
        will_forget = atexit(lib_driver_forget_kept) == 0;
    lib_driver_forget(&kept);
    kept = (struct lib_driver){.queue.ops = &lib_driver_ops, .options = *options, .shards = shards};
    snprintf(kept.dir, sizeof kept.dir, "%s", options->dir);
    list_init(&kept.answers);
    list_init(&kept.awaits);
    int code = tarry_reopen(&kept);
    kept.queue.door = code ? NULL : queue_door_new(options->body_bytes_max, 1, clock_wall_ms);
    return code ? NULL : &kept;
}

static void *open_memory(const struct driver_options *options)
{
    return lib_driver_open(options, 0);
}

static void *open_1(const struct driver_options *options)
{
    return lib_driver_open(options, 1);
}

static void *open_3(const struct driver_options *options)
{
    return lib_driver_open(options, 3);
}

static struct queue *lib_driver_queue(void *self)
{
    return &((struct lib_driver *)self)->queue;
}

/* Closes the queue; one in memory stays for a reopening. */
static void lib_driver_close(void *ctx)
{
    struct lib_driver *self = ctx;
    lib_driver_pump(self);
    if (self->shards)
        tarry_close(self->tarry);
}

static void *lib_driver_open_by_events(const struct driver_options *options)
{
    struct lib_driver *self = lib_driver_open(options, 0);
    if (self)
        self->by_events = true;
    return self;
}

extern const struct driver driver_lib, driver_lib_clock, driver_lib_dir_1, driver_lib_dir_3;

#define LIB_DRIVER                                                                                 \
    .lacks = DRIVER_LACKS_CHOICE | DRIVER_LACKS_FIND | DRIVER_LACKS_NACK_PRIORITY |                \
             DRIVER_LACKS_AGAIN | DRIVER_LACKS_CANCEL_BY_LEASE | DRIVER_HIDES_NEXT |               \
             DRIVER_LACKS_END_BY_REPLACE,                                                          \
    .keeps_finished = true, .awaits = true, .is_at_once = true, .forecasts_exactly = true,         \
    .clock_is_elsewhere = true, .queue = lib_driver_queue, .pump = lib_driver_pump,                \
    .moved = lib_driver_moved, .close = lib_driver_close

const struct driver driver_lib = {.name = "lib", .shards = 1, .open = open_memory, LIB_DRIVER};

const struct driver driver_lib_dir_1 = {
    .name = "lib_dir_1", .runs = 20, .shards = 1, .open = open_1, LIB_DRIVER};

const struct driver driver_lib_dir_3 = {
    .name = "lib_dir_3", .runs = 10, .shards = 3, .open = open_3, LIB_DRIVER};

const struct driver driver_lib_clock = {
    .name = "lib_clock",
    .shards = 1,
    .open = lib_driver_open_by_events,
    .next_ms = lib_driver_next_ms,
    LIB_DRIVER,
};
