/* Export: writes topics with their settings and jobs as lines of JSON, in the format of `tarry
 * export`. */
#include "base/duration.h"
#include "base/json_write.h"
#include "job/json.h"
#include "lib/transfer.h"

#include <stdlib.h>

enum { PAGE_JOBS = 100, PAGE_TOPICS = 100 };

struct export
{
    struct tarry *queue;
    struct transfer *transfer;
    struct buffer lines;
    struct tarry_topic *topics;
    size_t topic_count;
};

static int lines_write(struct export *export)
{
    struct buffer *lines = &export->lines;
    int code = lines->failed ? TARRY_NO_MEMORY : transfer_write(export->transfer, lines);
    buffer_clear(lines);
    return code;
}

/* ---- the lines ---- */

static void write_duration(struct buffer *out, const char *key, int64_t ms)
{
    if (!ms)
        return;
    json_write_member(out, key);
    buffer_append_byte(out, '"');
    duration_emit(out, ms);
    buffer_append_byte(out, '"');
}

static void write_settings(struct buffer *out, const struct topic_settings *settings)
{
    buffer_append_byte(out, '{');
    json_write_member_bool(out, "dead_letter_expired", settings->dead_letter_expired);
    write_duration(out, "dedup_window", settings->dedup_window_ms);
    if (settings->has_priority)
        json_write_member_number(out, "priority", (uint64_t)settings->priority);
    if (settings->on_conflict)
        json_write_member_text(out, "on_conflict",
                               slice_of(record_conflict_name(settings->on_conflict)));
    job_json_write_policy(out, &settings->policy);
    if (settings->max_jobs)
        json_write_member_number(out, "max_jobs", settings->max_jobs);
    if (settings->push_rate.count) {
        json_write_member(out, "push_rate");
        buffer_append_byte(out, '"');
        frequency_emit(out, settings->push_rate);
        buffer_append_byte(out, '"');
    }
    job_json_write_flow(out, &settings->flow);
    /* The server's delivery settings, stored as the members of an object. */
    if (settings->extension.len > 2) {
        buffer_append_byte(out, ',');
        buffer_append_slice(out,
                            slice_make(settings->extension.at + 1, settings->extension.len - 2));
    }
    buffer_append_byte(out, '}');
}

/* Appends a topic's line. Runs on the thread that owns the topic. */
static void write_topic(const struct queue_topic *topic, size_t stride, void *into)
{
    struct buffer *out = into;
    (void)stride;
    buffer_append_text(out, "{\"topic\":");
    json_write_string(out, topic->name);
    buffer_append_text(out, ",\"settings\":");
    write_settings(out, &topic->settings);
    buffer_append_text(out, topic->paused ? ",\"paused\":true" : ",\"paused\":false");
    if (topic->paused && topic->paused_until_ms) {
        buffer_append_text(out, ",\"paused_until\":");
        buffer_append_i64(out, topic->paused_until_ms);
    }
    buffer_append_text(out, "}\n");
}

/* ---- parts of an export ---- */

static int learn_topics(struct export *export)
{
    size_t n = PAGE_TOPICS;
    while (n == PAGE_TOPICS) {
        size_t count = export->topic_count;
        struct tarry_topic *more =
            realloc(export->topics, (count + PAGE_TOPICS) * sizeof *export->topics);
        if (!more)
            return TARRY_NO_MEMORY;
        export->topics = more;
        more[count].size = sizeof *more;
        int code =
            tarry_topics(export->queue, count ? more[count - 1].name : NULL, more + count, &n);
        if (code)
            return code;
        export->topic_count += n;
    }
    return TARRY_OK;
}

static void write_head(struct export *export)
{
    struct buffer *out = &export->lines;
    uint64_t jobs = 0;
    buffer_append_text(out, "{\"tarry_export\":1,\"at\":");
    json_write_time(out, clock_wall_ms_of(&export->queue->clock));
    buffer_append_text(out, ",\"topics\":[");
    for (size_t i = 0; i < export->topic_count; i++) {
        const struct tarry_topic *topic = &export->topics[i];
        jobs += topic->delayed + topic->retrying + topic->ready + topic->leased + topic->dead;
        if (i)
            buffer_append_byte(out, ',');
        json_write_string(out, slice_of(topic->name));
    }
    buffer_append_text(out, "],\"jobs\":");
    buffer_append_u64(out, jobs);
    buffer_append_text(out, "}\n");
}

/* Encodes the batches of a waiting job for the place that imports it: a closed batch expects all of its members, so that it closes itself
 * with the last of them. A job whose wait has ended is an ordinary one. */
static struct slice batch_exported(const struct queue_job *shown, char into[JOB_BATCH_BYTES_MAX])
{
    struct job_batch batch;
    if (!job_batch_decode(shown->job.batch, &batch))
        return shown->job.batch;
    if (shown->waiting->is_closed)
        batch.members = (uint32_t)batch_members(&shown->waiting->counts);
    batch.waits = !shown->waiting->has_ended;
    return slice_make(into, job_batch_encode(&batch, into));
}

/* Appends the members of a waiting job that its line has beside those of other jobs. */
static void write_waiting(struct buffer *out, const struct queue_waiting *waiting)
{
    out->len--; /* the brace */
    if (!waiting->has_ended && waiting->when.due == QUEUE_DUE_DELAY)
        write_duration(out, "delay", waiting->when.ms);
    if (!waiting->has_ended && waiting->when.due == QUEUE_DUE_AT) {
        json_write_member(out, "at");
        json_write_time(out, waiting->when.ms);
    }
    job_json_write_outcomes(out, &waiting->counts, !waiting->has_ended);
    buffer_append_byte(out, '}');
}

static void write_job(struct buffer *out, const struct queue_job *shown)
{
    char batch[JOB_BATCH_BYTES_MAX];
    struct job job = shown->job;
    if (shown->waiting)
        job.batch = batch_exported(shown, batch);
    job_json_write(out, &job, (struct slice){0}, JOB_FORM_EXPORTED, JOB_BODY_EXACT);
    if (shown->waiting && !out->failed)
        write_waiting(out, shown->waiting);
    buffer_append_byte(out, '\n');
}

static int export_jobs(struct export *export, const char *topic)
{
    tarry_job *jobs[PAGE_JOBS];
    struct tarry_list list = TARRY_LIST_INIT;
    size_t n;
    list.topic = topic;
    list.limit = PAGE_JOBS;
    list.flags = TARRY_WITH_BODY;
    do {
        int code = tarry_list(export->queue, &list, jobs, &n);
        if (code)
            return code == TARRY_NOT_FOUND ? TARRY_OK : code; /* deleted meanwhile */
        for (size_t i = 0; i < n; i++) {
            const struct memory_job *job = (const struct memory_job *)(void *)jobs[i];
            write_job(&export->lines, &job->shown);
            tarry_job_free(jobs[i]);
        }
        code = lines_write(export);
        if (code)
            return code;
        export->transfer->report.jobs += n;
    } while (list.cursor[0]);
    return TARRY_OK;
}

static int export_topic(struct export *export, const char *name)
{
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET, .topic = slice_of(name)};
    int code = lib_topic_call(export->queue, &call, write_topic, &export->lines);
    if (code)
        return code == TARRY_NOT_FOUND ? TARRY_OK : code;
    code = lines_write(export);
    if (!code)
        code = export_jobs(export, name);
    if (!code)
        export->transfer->report.topics++;
    return code;
}

static int export_all(struct export *export)
{
    int code = learn_topics(export);
    if (code)
        return code;
    write_head(export);
    code = lines_write(export);
    for (size_t i = 0; i < export->topic_count && !code; i++)
        code = export_topic(export, export->topics[i].name);
    if (code)
        return code;
    buffer_append_format(&export->lines, "{\"tarry_export_end\":1,\"topics\":%llu,\"jobs\":%llu}\n",
                         (unsigned long long)export->transfer->report.topics,
                         (unsigned long long)export->transfer->report.jobs);
    return lines_write(export);
}

int tarry_export(tarry *queue, struct tarry_transfer *transfer)
{
    struct transfer mine;
    int code = transfer_begin(&mine, transfer, false);
    if (code)
        return code;
    struct export export = {.queue = queue, .transfer = &mine};
    buffer_init(&export.lines, SIZE_MAX / 2);
    code = export_all(&export);
    buffer_fini(&export.lines);
    free(export.topics);
    return transfer_end(&mine, transfer, code);
}
