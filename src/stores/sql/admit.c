#include "sql/admit.h"

#include "base/log.h"
#include "base/trouble.h"

#include <stdio.h>

/* The largest value of the server option --max-body. */
#define BODY_BYTES_MAX ((size_t)16 << 20)
/* A year that times in answers can have (9999). */
#define TIME_MS_MAX INT64_C(253402300799999)

static bool is_printable(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < 0x20 || text.at[i] > 0x7e)
            return false;
    return true;
}

static bool is_time(int64_t ms)
{
    return ms >= 0 && ms <= TIME_MS_MAX;
}

/* A waiting job that is taken has one pair more than a push may give. */
static bool is_meta(struct slice meta)
{
    struct slice name, value;
    size_t at = 0;
    while (job_meta_next(meta, &at, &name, &value))
        ;
    return at == meta.len && meta.len <= JOB_META_BYTES_MAX + BATCH_META_BYTES_MAX;
}

const char *sql_admit_fault(const struct job *job)
{
    if (!job_topic_is_valid(job->topic))
        return "topic";
    if (!job_id_is_valid(job->id))
        return "id";
    if (job->body.len > BODY_BYTES_MAX)
        return "body";
    if (job->content_type.len > JOB_CONTENT_TYPE_BYTES_MAX || !is_printable(job->content_type))
        return "content_type";
    if (!is_meta(job->meta))
        return "meta";
    if (job->error.len > JOB_ERROR_BYTES_MAX)
        return "error";
    if (job->history.len > JOB_HISTORY_BYTES_MAX || !job_history_check(job->history))
        return "history";
    if (job->consumer.len && !job_consumer_is_valid(job->consumer))
        return "consumer";
    if (!is_time(job->due_ms) || !is_time(job->first_due_ms) || !is_time(job->lease_until_ms))
        return "due";
    return policy_fault(&job->policy);
}

static void note_row(const struct job *job, const char *fault)
{
    char topic[JOB_TOPIC_BYTES_MAX + 1], id[JOB_ID_BYTES_MAX + 1];
    (void)snprintf(topic, sizeof topic, "%.*s", (int)job->topic.len, job->topic.at);
    (void)snprintf(id, sizeof id, "%.*s", (int)job->id.len, job->id.at);
    trouble_note_call(TROUBLE_DATABASE_ROWS, 0);
    log_event(LOG_WARN, "a row breaks the rules of a push and is not delivered",
              LOG_TEXT("topic", topic), LOG_TEXT("id", id), LOG_TEXT("column", fault));
}

void sql_admit_jobs(struct sql_call *call)
{
    const struct command *command = call->command;
    size_t kept = 0;
    if (!command || !call->job_count || (command->kind == COMMAND_GET && command->get.history))
        return;
    for (size_t i = 0; i < call->job_count; i++) {
        const char *fault = sql_admit_fault(&call->jobs[i].job);
        if (fault)
            note_row(&call->jobs[i].job, fault);
        else
            call->jobs[kept++] = call->jobs[i];
    }
    bool is_of_one = !command_has_items(command) && command_name_count(command);
    if (is_of_one && !kept)
        call->status = QUEUE_NOT_FOUND;
    call->job_count = kept;
}
