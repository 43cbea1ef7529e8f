/* The naive queue: looking, and topics. */
#include "naive.h"

#include "queue/door.h"
#include "queue/status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- looking ---- */

void naive_get(struct queue *queue, struct slice topic, struct slice id, struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    const struct model_job *job = model_find(&naive->model, topic, id);
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND};
    struct queue_job shown;
    struct outcome texts = {0};

    if (job) {
        shown = naive_show(naive, job, true, &texts);
        reply = (struct queue_reply){.jobs = &shown, .job_count = 1};
    }
    naive_end(naive, to, &reply);
    outcome_free(&texts);
}

void naive_find(struct queue *queue, const struct queue_find *finds, size_t count,
                struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    struct queue_result *results = calloc(count + 1, sizeof *results);

    for (size_t i = 0; i < count; i++) {
        const struct model_job *job = model_find(&naive->model, finds[i].topic, finds[i].id);
        bool is_there = job && !(naive->fault == FAULT_FIND_BLIND && job->state == JOB_LEASED);

        results[i] = (struct queue_result){.status = is_there ? QUEUE_OK : QUEUE_NOT_FOUND,
                                           .state = is_there ? job->state : 0,
                                           .due_ms = is_there ? job->due.most_ms : 0,
                                           .topic = finds[i].topic,
                                           .id = finds[i].id};
        if (!job_topic_is_valid(finds[i].topic))
            results[i].status = QUEUE_BAD_TOPIC;
    }
    naive_end(naive, to, &(struct queue_reply){.results = results, .result_count = count});
    free(results);
}

static int by_listed(const void *a, const void *b)
{
    return model_listed_before(*(struct model_job *const *)a, *(struct model_job *const *)b) ? -1
                                                                                             : 1;
}

static bool is_past(const struct model_job *job, struct slice cursor)
{
    int64_t due_ms = 0;
    uint64_t sequence = 0;

    if (cursor.len == 0 || sscanf(cursor.at, "%" SCNd64 ":%" SCNu64, &due_ms, &sequence) != 2)
        return true;
    return job->due.most_ms > due_ms || (job->due.most_ms == due_ms && job->sequence > sequence);
}

void naive_list(struct queue *queue, const struct queue_list *list, struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    const char *detail;
    struct queue_reply reply = {.status = queue_check_list(list, &detail)};
    struct model_job **found = calloc(naive->model.job_count + 1, sizeof *found);
    struct queue_job *jobs = calloc(QUEUE_LIST_MAX, sizeof *jobs);
    char cursor[64], text[64] = "";
    size_t count = 0;
    struct outcome texts = {0};

    if (!reply.status && list->cursor.len < sizeof text)
        snprintf(text, sizeof text, "%.*s", (int)list->cursor.len, list->cursor.at);
    for (size_t i = 0; i < naive->model.job_count && !reply.status; i++) {
        struct model_job *job = &naive->model.jobs[i];

        if (slice_is(list->topic, job->topic) && (!list->state || list->state == job->state) &&
            is_past(job, slice_of(text)))
            found[count++] = job;
    }
    if (count > 1)
        qsort(found, count, sizeof *found, by_listed);
    if (naive->fault == FAULT_LIST_SHORT && count > 2)
        count--;
    for (size_t i = 0; i < count && i < list->limit; i++)
        jobs[reply.job_count++] = naive_show(naive, found[i], list->with_body, &texts);
    if (count > reply.job_count) {
        const struct model_job *last = found[reply.job_count - 1];

        snprintf(cursor, sizeof cursor, "%" PRId64 ":%" PRIu64, last->due.most_ms, last->sequence);
        reply.cursor = slice_of(cursor);
    }
    if (!reply.status && !model_find_topic(&naive->model, list->topic))
        reply.status = QUEUE_NOT_FOUND;
    reply.jobs = jobs;
    naive_end(naive, to, &reply);
    outcome_free(&texts);
    free(jobs);
    free(found);
}

/* ---- topics ---- */

static struct queue_topic show_topic(struct naive *naive, const struct model_topic *topic)
{
    struct queue_topic shown = {.name = slice_of(topic->name),
                                .paused = topic->paused,
                                .paused_until_ms = topic->paused_until.most_ms,
                                .settings = topic->settings,
                                .counts = model_count(&naive->model, topic->name),
                                .totals = topic->totals};

    for (size_t i = 0; i < naive->model.job_count; i++) {
        const struct model_job *job = &naive->model.jobs[i];

        if (strcmp(job->topic, topic->name) == 0 && job->state == JOB_READY &&
            (!shown.oldest_ready_due_ms || job->due.most_ms < shown.oldest_ready_due_ms))
            shown.oldest_ready_due_ms = job->due.most_ms;
        if (strcmp(job->topic, topic->name) == 0 && job->state == JOB_DEAD)
            shown.counts.dead_bytes += strlen(job->id) + 1;
    }
    if (naive->fault == FAULT_DEAD_BYTES_KEPT)
        shown.counts.dead_bytes += topic->totals.died;
    return shown;
}

void naive_topic(struct queue *queue, const struct queue_topic_call *call, struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    struct queue_reply reply = {0};
    struct model_topic *topic;
    struct queue_topic shown;

    reply.status = model_topic_call(&naive->model, call, &reply.affected);
    topic = model_find_topic(&naive->model, call->topic);
    if (topic && queue_status_is_success(reply.status)) {
        shown = show_topic(naive, topic);
        reply.topics = &shown;
        reply.topic_count = 1;
    }
    naive_end(naive, to, &reply);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct model_topic *)a)->name, ((const struct model_topic *)b)->name);
}

void naive_topics(struct queue *queue, struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    struct model *model = &naive->model;
    struct queue_topic *topics = calloc(model->topic_count + 1, sizeof *topics);

    if (model->topic_count)
        qsort(model->topics, model->topic_count, sizeof *model->topics, by_name);
    for (size_t i = 0; i < model->topic_count; i++)
        topics[i] = show_topic(naive, &model->topics[i]);
    naive_end(naive, to,
              &(struct queue_reply){.topics = topics, .topic_count = model->topic_count});
    free(topics);
}

void naive_forecast(struct queue *queue, const struct queue_forecast_call *call,
                    struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    struct queue_forecast forecast = {0};
    struct queue_reply reply = {.status = model_forecast(&naive->model, call, &forecast)};

    if (naive->fault == FAULT_FORECAST_LATE)
        forecast.minutes[0] = 0;
    if (!reply.status)
        reply.forecast = &forecast;
    naive_end(naive, to, &reply);
}

void naive_watch(struct queue *queue, struct slice topic, bool on)
{
    struct naive *naive = naive_of(queue);
    size_t at = 0;

    while (at < naive->watched_count && !slice_is(topic, naive->watched[at].name))
        at++;
    assert(at < sizeof naive->watched / sizeof naive->watched[0]);
    if (at == naive->watched_count) {
        naive->watched[at] = (struct watched){.count = 0};
        memcpy(naive->watched[at].name, topic.at, topic.len);
        naive->watched_count++;
    }
    assert(on || naive->watched[at].count > 0);
    naive->watched[at].count += on ? 1 : (uint32_t)-1;
    naive->watched[at].report = on && model_first_ready_of_topic(&naive->model, topic);
}
