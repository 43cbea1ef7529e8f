#include "outcome.h"

#include <assert.h>
#include <stdlib.h>

struct outcome_block {
    struct outcome_block *next;
    max_align_t bytes[];
};

void *outcome_bytes(struct outcome *outcome, size_t bytes)
{
    struct outcome_block *block = calloc(1, sizeof *block + bytes + 1);

    assert(block);
    block->next = outcome->blocks;
    outcome->blocks = block;
    return block->bytes;
}

struct slice outcome_slice(struct outcome *outcome, struct slice slice)
{
    char *bytes = outcome_bytes(outcome, slice.len);

    if (slice.len)
        memcpy(bytes, slice.at, slice.len);
    return slice_make(bytes, slice.len);
}

static const struct queue_result *copy_results(struct outcome *outcome,
                                               const struct queue_reply *reply)
{
    struct queue_result *results =
        outcome_bytes(outcome, reply->result_count * sizeof(struct queue_result));

    for (size_t i = 0; i < reply->result_count; i++) {
        results[i] = reply->results[i];
        results[i].topic = outcome_slice(outcome, results[i].topic);
        results[i].id = outcome_slice(outcome, results[i].id);
        if (results[i].detail)
            results[i].detail = outcome_slice(outcome, slice_of(results[i].detail)).at;
    }
    return results;
}

static const struct queue_end *copy_end(struct outcome *outcome, const struct queue_end *end)
{
    struct queue_end *copy = outcome_bytes(outcome, sizeof *copy);

    *copy = *end;
    copy->result = outcome_slice(outcome, end->result);
    copy->result_type = outcome_slice(outcome, end->result_type);
    return copy;
}

static const struct queue_job *copy_jobs(struct outcome *outcome, const struct queue_reply *reply)
{
    struct queue_job *jobs = outcome_bytes(outcome, reply->job_count * sizeof(struct queue_job));

    for (size_t i = 0; i < reply->job_count; i++) {
        struct job *job = &jobs[i].job;

        jobs[i] = reply->jobs[i];
        job->topic = outcome_slice(outcome, job->topic);
        job->id = outcome_slice(outcome, job->id);
        job->content_type = outcome_slice(outcome, job->content_type);
        job->meta = outcome_slice(outcome, job->meta);
        job->body = outcome_slice(outcome, job->body);
        job->error = outcome_slice(outcome, job->error);
        job->history = outcome_slice(outcome, job->history);
        job->consumer = outcome_slice(outcome, job->consumer);
        job->progress = outcome_slice(outcome, job->progress);
        job->group = outcome_slice(outcome, job->group);
        jobs[i].lease = outcome_slice(outcome, jobs[i].lease);
        job->batch = outcome_slice(outcome, job->batch);
        if (jobs[i].waiting) {
            struct queue_waiting *waiting = outcome_bytes(outcome, sizeof *waiting);
            *waiting = *jobs[i].waiting;
            jobs[i].waiting = waiting;
        }
        if (jobs[i].end)
            jobs[i].end = copy_end(outcome, jobs[i].end);
    }
    return jobs;
}

static const struct queue_topic *copy_topics(struct outcome *outcome,
                                             const struct queue_reply *reply)
{
    struct queue_topic *topics =
        outcome_bytes(outcome, reply->topic_count * sizeof(struct queue_topic));

    for (size_t i = 0; i < reply->topic_count; i++) {
        topics[i] = reply->topics[i];
        topics[i].name = outcome_slice(outcome, topics[i].name);
        topics[i].settings.extension = outcome_slice(outcome, topics[i].settings.extension);
    }
    return topics;
}

static const struct queue_group *copy_groups(struct outcome *outcome,
                                             const struct queue_reply *reply)
{
    struct queue_group *groups =
        outcome_bytes(outcome, reply->group_count * sizeof(struct queue_group));

    for (size_t i = 0; i < reply->group_count; i++) {
        groups[i] = reply->groups[i];
        groups[i].name = outcome_slice(outcome, groups[i].name);
    }
    return groups;
}

void outcome_copy(struct outcome *outcome, const struct queue_reply *reply)
{
    *outcome = (struct outcome){.reply = *reply};
    outcome->reply.results = copy_results(outcome, reply);
    outcome->reply.jobs = copy_jobs(outcome, reply);
    outcome->reply.topics = copy_topics(outcome, reply);
    outcome->reply.groups = copy_groups(outcome, reply);
    outcome->reply.cursor = outcome_slice(outcome, reply->cursor);
    if (reply->forecast)
        outcome->reply.forecast =
            (const struct queue_forecast *)(const void *)outcome_slice(
                outcome, slice_make((const char *)reply->forecast, sizeof *reply->forecast))
                .at;
}

void outcome_free(struct outcome *outcome)
{
    while (outcome->blocks) {
        struct outcome_block *block = outcome->blocks;

        outcome->blocks = block->next;
        free(block);
    }
    *outcome = (struct outcome){0};
}
