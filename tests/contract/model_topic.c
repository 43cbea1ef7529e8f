/* The model's topics: settings, counts, and what is done to all jobs of one. */
#include "model.h"
#include "queue/door.h"

#include <assert.h>
#include <stdlib.h>

struct model_topic *model_find_topic(struct model *model, struct slice topic)
{
    for (size_t i = 0; i < model->topic_count; i++)
        if (slice_is(topic, model->topics[i].name))
            return &model->topics[i];
    return NULL;
}

struct model_topic *model_need_topic(struct model *model, struct slice name)
{
    struct model_topic *topic = model_find_topic(model, name);

    if (topic || model->topic_count >= model->topics_max)
        return topic;
    model->topics =
        model_grow(model->topics, model->topic_count, &model->topic_cap, sizeof *model->topics);
    topic = &model->topics[model->topic_count++];
    *topic = (struct model_topic){0};
    memcpy(topic->name, name.at, name.len);
    return topic;
}

bool model_listed_before(const struct model_job *a, const struct model_job *b)
{
    if (a->due.most_ms != b->due.most_ms)
        return a->due.most_ms < b->due.most_ms;
    return a->sequence < b->sequence;
}

struct queue_counts model_count(const struct model *model, const char *topic)
{
    struct queue_counts counts = {0};

    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];

        if (strcmp(job->topic, topic) != 0)
            continue;
        counts.delayed += job->state == JOB_DELAYED && job->attempt == 0;
        counts.retrying += job->state == JOB_DELAYED && job->attempt > 0;
        counts.ready += job->state == JOB_READY;
        counts.leased += job->state == JOB_LEASED;
        counts.dead += job->state == JOB_DEAD;
        counts.dead_bytes += job->state == JOB_DEAD ? job->body.len : 0;
    }
    return counts;
}

enum queue_status model_forecast(struct model *model, const struct queue_forecast_call *call,
                                 struct queue_forecast *out)
{
    if (call->topic.len && !job_topic_is_valid(call->topic))
        return QUEUE_BAD_TOPIC;
    if (call->from_ms < 0 || call->from_ms % 60000)
        return QUEUE_BAD_OPTION;
    if (call->topic.len && !model_find_topic(model, call->topic))
        return QUEUE_NOT_FOUND;
    out->from_ms = call->from_ms;
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        int64_t minute = (job->due.most_ms - call->from_ms) / 60000;
        int64_t hour = (job->due.most_ms - call->from_ms / 3600000 * 3600000) / 3600000;

        if (call->topic.len && !slice_is(call->topic, job->topic))
            continue;
        out->overdue += job->state == JOB_READY;
        if (job->state != JOB_DELAYED)
            continue;
        if (minute < FORECAST_MINUTES)
            out->minutes[minute < 0 ? 0 : minute]++;
        if (hour < FORECAST_HOURS)
            out->hours[hour < 0 ? 0 : hour]++;
        else
            out->later++;
    }
    return QUEUE_OK;
}

void model_report(struct model *model, enum queue_event event, const char *topic)
{
    struct model_event reported = {.event = event};

    memcpy(reported.topic, topic, strlen(topic));
    model->events =
        model_grow(model->events, model->event_count, &model->event_cap, sizeof *model->events);
    model->events[model->event_count++] = reported;
}

void model_redrive(struct model *model, struct model_job *job)
{
    assert(job->state == JOB_DEAD);
    job->state = JOB_READY;
    job->attempt = 0;
    job->due = (struct span){model->now_ms, model->now_ms};
    job->first_due = job->due;
    job->due_is_first = true;
    model_find_topic(model, slice_of(job->topic))->totals.redriven++;
}

static bool is_purged(const struct queue_topic_call *call, const struct model_job *job)
{
    if (!slice_is(call->topic, job->topic))
        return false;
    if (call->verb == QUEUE_TOPIC_DELETE)
        return true;
    return job->state != JOB_LEASED && (!call->state || job->state == call->state);
}

static uint64_t purge(struct model *model, const struct queue_topic_call *call)
{
    uint64_t count = 0;

    for (size_t i = 0; i < model->job_count;) {
        if (is_purged(call, &model->jobs[i])) {
            model_finish(model, &model->jobs[i], MODEL_PURGED);
            count++;
        } else {
            i++;
        }
    }
    return count;
}

static uint64_t redrive(struct model *model, const struct queue_topic_call *call)
{
    uint64_t count = 0;

    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *job = &model->jobs[i];

        if (slice_is(call->topic, job->topic) && job->state == JOB_DEAD &&
            (call->id.len == 0 || slice_is(call->id, job->id)) &&
            (call->max == 0 || count < call->max)) {
            model_redrive(model, job);
            count++;
        }
    }
    return count;
}

static void drop_extension(struct model_topic *topic)
{
    free((char *)(uintptr_t)topic->settings.extension.at);
    topic->settings.extension = (struct slice){0};
}

static void keep_settings(struct model_topic *topic, const struct topic_settings *settings)
{
    char *extension = calloc(1, settings->extension.len + 1);

    assert(extension);
    if (settings->extension.len)
        memcpy(extension, settings->extension.at, settings->extension.len);
    drop_extension(topic);
    topic->settings = *settings;
    topic->settings.extension.at = extension;
}

static enum queue_status put(struct model *model, const struct queue_topic_call *call)
{
    bool is_new = !model_find_topic(model, call->topic);
    struct model_topic *topic = model_need_topic(model, call->topic);

    if (!topic)
        return QUEUE_TOO_MANY_TOPICS;
    keep_settings(topic, &call->settings);
    model_report(model, QUEUE_EVENT_TOPIC, topic->name);
    return is_new ? QUEUE_CREATED : QUEUE_OK;
}

enum queue_status model_topic_call(struct model *model, const struct queue_topic_call *call,
                                   uint64_t *affected)
{
    const char *detail;
    enum queue_status status = queue_check_topic(call, &detail);
    struct model_topic *topic = model_find_topic(model, call->topic);

    *affected = 0;
    if (status)
        return status;
    if (call->verb == QUEUE_TOPIC_PUT)
        return put(model, call);
    if (!topic)
        return QUEUE_NOT_FOUND;
    switch (call->verb) {
    case QUEUE_TOPIC_DELETE:
        *affected = purge(model, call);
        model_forget_topic(model, topic->name);
        model_report(model, QUEUE_EVENT_TOPIC, topic->name);
        drop_extension(topic);
        *topic = model->topics[--model->topic_count];
        break;
    case QUEUE_TOPIC_PAUSE:
    case QUEUE_TOPIC_RESUME:
        topic->paused = call->verb == QUEUE_TOPIC_PAUSE;
        topic->paused_until = (struct span){0};
        if (topic->paused && call->pause_ms)
            topic->paused_until =
                (struct span){model->now_ms + call->pause_ms, model->now_ms + call->pause_ms + 1};
        break;
    case QUEUE_TOPIC_PURGE:
        *affected = purge(model, call);
        break;
    case QUEUE_TOPIC_REDRIVE:
        *affected = redrive(model, call);
        if (call->id.len && !*affected)
            return QUEUE_NOT_FOUND;
        break;
    case QUEUE_TOPIC_GET:
    case QUEUE_TOPIC_PUT:
    case QUEUE_TOPIC_MARK: /* of parts only */
        break;
    }
    return QUEUE_OK;
}
