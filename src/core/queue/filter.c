#include "queue/filter.h"

#include "job/batch.h"

#include <string.h>

int64_t queue_last_attempt_end_ms(struct slice history)
{
    struct job_attempt attempt;
    int64_t ms = 0;
    size_t at = 0;
    while (job_history_next(history, &at, &attempt))
        if (__builtin_add_overflow(attempt.started_ms, attempt.duration_ms, &ms))
            ms = 0;
    return ms;
}

static bool matches_time(const struct queue_filter *filter, const struct job *job)
{
    if (!filter->died_after_ms && !filter->died_before_ms)
        return true;
    int64_t ms = queue_last_attempt_end_ms(job->history);
    return ms && ms >= filter->died_after_ms &&
           (!filter->died_before_ms || ms < filter->died_before_ms);
}

static bool matches_due(const struct queue_filter *filter, const struct job *job)
{
    return job->due_ms >= filter->due_after_ms &&
           (!filter->due_before_ms || job->due_ms < filter->due_before_ms);
}

static bool matches_meta(const struct queue_filter *filter, struct slice meta)
{
    struct slice name, value;
    size_t at = 0;
    if (!filter->meta_name.len)
        return true;
    while (job_meta_next(meta, &at, &name, &value))
        if (slice_equals(name, filter->meta_name))
            return !filter->meta_value.len || slice_equals(value, filter->meta_value);
    return false;
}

static bool begins_with(struct slice text, struct slice prefix)
{
    return text.len >= prefix.len && (!prefix.len || memcmp(text.at, prefix.at, prefix.len) == 0);
}

static bool holds(struct slice text, struct slice part)
{
    return !part.len || (text.len && memmem(text.at, text.len, part.at, part.len));
}

static bool matches_batch(const struct queue_filter *filter, struct slice batch)
{
    struct job_batch own;
    if (!filter->batch_id.len)
        return true;
    return batch.len && job_batch_decode(batch, &own) &&
           slice_equals(own.topic, filter->batch_topic) && slice_equals(own.id, filter->batch_id);
}

bool queue_filter_matches(const struct queue_filter *filter, const struct job *job)
{
    return begins_with(job->id, filter->id_prefix) && holds(job->error, filter->error) &&
           matches_due(filter, job) && matches_meta(filter, job->meta) &&
           matches_time(filter, job) && matches_batch(filter, job->batch);
}

/* ---- copies that outlive the call ---- */

struct slice queue_text_copy(char **at, struct slice text)
{
    char *kept = *at;
    if (text.len)
        memcpy(kept, text.at, text.len);
    *at += text.len;
    return slice_make(kept, text.len);
}

size_t queue_filter_bytes(const struct queue_filter *filter)
{
    return filter->id_prefix.len + filter->error.len + filter->meta_name.len +
           filter->meta_value.len + filter->batch_topic.len + filter->batch_id.len;
}

char *queue_filter_copy_texts(struct queue_filter *filter, char *at)
{
    filter->id_prefix = queue_text_copy(&at, filter->id_prefix);
    filter->error = queue_text_copy(&at, filter->error);
    filter->meta_name = queue_text_copy(&at, filter->meta_name);
    filter->meta_value = queue_text_copy(&at, filter->meta_value);
    filter->batch_topic = queue_text_copy(&at, filter->batch_topic);
    filter->batch_id = queue_text_copy(&at, filter->batch_id);
    return at;
}
