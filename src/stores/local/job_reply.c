/*
 * A reply with jobs. A view has the place of each job's record. Records in memory or in the page
 * cache are read by the loop, a piece in each iteration, the others by the librarian, so that the
 * loop never waits for the disk.
 */
#include "local/job_reply.h"

#include "base/log.h"
#include "engine/lease.h"
#include "local/preload.h"
#include "local/shard_feed.h"
#include "queue/life.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    READ_BYTES = 128 * 1024, /* of records, in one iteration of the loop */
    FEW_BYTES = 1024         /* of records for which no separate memory is allocated */
};

struct job_reply {
    struct work work;
    struct shard *shard;
    struct engine_view *views;
    size_t count, tried; /* how many records were looked for in memory and in the page cache */
    bool has_pending;    /* some of them are left for the librarian */
    bool holds_log; /* log files that have records are not dropped before all of them were tried */
    struct depot_view *view; /* for records in runs; NULL: no records in runs */
    struct buffer bytes;     /* if `has_few`, its memory is a part of this one */
    bool has_few;
    struct buffer scratch;
    struct job_reply_options options;
    size_t cursor_bytes;
    struct queue_reply_to reply_to;
    size_t offsets[]; /* of each record in `bytes`, or a mark; then the cursor, then few bytes */
};

static char *cursor_of(struct job_reply *job_reply)
{
    return (char *)(job_reply->offsets + job_reply->count);
}

static void views_free(struct engine_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++)
        engine_view_fini(&views[i]);
    free(views);
}

static void job_reply_free(struct job_reply *job_reply)
{
    if (!job_reply->has_few)
        buffer_fini(&job_reply->bytes);
    buffer_fini(&job_reply->scratch);
    views_free(job_reply->views, job_reply->count);
    if (job_reply->view)
        depot_let_go(job_reply->view);
    free(job_reply);
}

/* Marks in `offsets`. */
static const size_t failed_mark = SIZE_MAX, pending_mark = SIZE_MAX - 1;

static void job_reply_count(struct job_reply *job_reply, struct slice record, bool may_block)
{
    enum shard_read from = record.at != job_reply->scratch.at ? SHARD_READ_MEMORY
                           : may_block                        ? SHARD_READ_DISK
                                                              : SHARD_READ_PAGE_CACHE;
    counter_add(&job_reply->shard->tally.reads[from], 1);
}

static int job_reply_read_one(struct job_reply *job_reply, size_t i, bool may_block)
{
    struct slice record;
    struct record_place place = job_reply->views[i].place;
    buffer_clear(&job_reply->scratch);
    int failed = 0;
    if (!record_place_is_run(place))
        failed = wal_read(job_reply->shard->wal, place, may_block, &job_reply->scratch, &record);
    else if (may_block || !preload_recent(job_reply->shard->preload, place, &record))
        failed = depot_read(job_reply->view, place, may_block, &job_reply->scratch, &record);
    if (failed == -EAGAIN && !may_block) {
        job_reply->offsets[i] = pending_mark;
        return -EAGAIN;
    }
    job_reply->offsets[i] = job_reply->bytes.len;
    if (!failed) {
        job_reply_count(job_reply, record, may_block);
        buffer_append_slice(&job_reply->bytes, record);
    }
    if (failed || job_reply->bytes.failed)
        job_reply->offsets[i] = failed_mark;
    return 0;
}

/* Reads some records in memory and the page cache. Returns whether more are left. The librarian reads only from the disk,
 * so every record must be tried here first. */
static bool job_reply_read_cached(struct job_reply *job_reply)
{
    size_t before = job_reply->bytes.len;
    while (job_reply->tried < job_reply->count && job_reply->bytes.len - before < READ_BYTES)
        job_reply->has_pending |= job_reply_read_one(job_reply, job_reply->tried++, false) != 0;
    return job_reply->tried < job_reply->count;
}

static void job_reply_read_pending(struct job_reply *job_reply)
{
    for (size_t i = 0; i < job_reply->count; i++)
        if (job_reply->offsets[i] == pending_mark)
            job_reply_read_one(job_reply, i, true);
}

/* Fills in a kept job. Returns false if the record is not that of one. */
static bool job_reply_fill_kept(const struct record *record, const struct engine_view *view,
                                bool with_body, struct queue_job *out, struct queue_end *end)
{
    struct record_kept kept;
    if (record->kind != RECORD_DONE || !record->done.keep_until_ms ||
        !record_kept_decode(record->done.kept, &kept))
        return false;
    *end = (struct queue_end){.outcome = life_end(record->done.reason),
                              .finished_ms = kept.finished_ms,
                              .duration_ms = kept.duration_ms,
                              .result = kept.result,
                              .result_type = kept.result_type,
                              .has_body = kept.has_body};
    *out = (struct queue_job){.job = {.topic = record->done.topic,
                                      .id = kept.id,
                                      .group = kept.group,
                                      .batch = kept.batch,
                                      .content_type = kept.content_type,
                                      .meta = kept.meta,
                                      .history = kept.history,
                                      .consumer = kept.consumer,
                                      .progress = kept.progress,
                                      .state = JOB_FINISHED,
                                      .priority = JOB_PRIORITY,
                                      .attempt = kept.attempt,
                                      .due_ms = view->due_ms,
                                      .sequence = view->sequence},
                              .end = end};
    if (with_body)
        out->job.body = kept.body;
    return end->outcome != 0;
}

/* Shows the batch of a job. If the job was taken, its meta gets the outcome, in the text of the view, which other texts of the
 * view precede. Without memory it has none. */
static void job_reply_fill_batch(const struct job_reply *job_reply, struct engine_view *view,
                                 struct queue_job *out)
{
    size_t before = (size_t)view->history_bytes + view->error_bytes + view->consumer_bytes +
                    view->progress_bytes;
    out->waiting = &view->waiting;
    if (!job_reply->options.with_lease)
        return;
    char *text = realloc(view->text, before + out->job.meta.len + BATCH_META_BYTES_MAX);
    if (!text)
        return;
    view->text = text;
    out->job.meta = batch_meta_join(out->job.meta, &view->waiting.counts, text + before);
}

/* Fills in a job. Returns false if the record cannot be read or is not a job. */
static bool job_reply_fill(struct job_reply *job_reply, size_t i, struct queue_job *out,
                           struct queue_end *end, char *lease_text)
{
    const struct engine_view *view = &job_reply->views[i];
    struct record record;
    if (job_reply->offsets[i] == failed_mark ||
        !record_decode(slice_make(job_reply->bytes.at + job_reply->offsets[i], view->place.bytes),
                       &record) ||
        (record.kind != RECORD_JOB &&
         !job_reply_fill_kept(&record, view, job_reply->options.with_body, out, end))) {
        log_event(LOG_ERROR, "job cannot be read",
                  LOG_NUMBER("shard", job_reply->shard->options.index),
                  LOG_NUMBER("file", view->place.file), LOG_NUMBER("at", view->place.at));
        return false;
    }
    if (record.kind != RECORD_JOB)
        return true;
    *out = (struct queue_job){.job = record.job};
    if (__builtin_expect(view->has_batch, 0))
        job_reply_fill_batch(job_reply, &job_reply->views[i], out);
    engine_show(view, &out->job);
    if (!job_reply->options.with_body)
        out->job.body = (struct slice){0};
    if (out->job.state == JOB_READY)
        out->held_by = engine_held(job_reply->shard->engine, out->job.topic, out->job.group,
                                   shard_now(job_reply->shard), &out->held_until_ms);
    if (job_reply->options.with_lease) {
        struct engine_lease lease = {.key_low = view->key.low, .delivery = view->delivery};
        lease_write(lease_text, &job_reply->shard->options.lease_key, &lease,
                    job_reply->shard->options.index);
        out->lease = slice_make(lease_text, LEASE_TEXT_BYTES);
        shard_feed_delivered(job_reply->shard, &out->job, job_reply->options.way);
    }
    return true;
}

static void job_reply_send(struct job_reply *job_reply)
{
    enum { FEW = 16 };
    struct queue_job few[FEW], *jobs = few;
    char few_leases[FEW][LEASE_TEXT_BYTES], (*leases)[LEASE_TEXT_BYTES] = few_leases;
    struct queue_end few_ends[FEW], *ends = few_ends;
    struct queue_reply reply = {.status = QUEUE_OK,
                                .has_next = job_reply->options.has_next,
                                .next = job_reply->options.next,
                                .cursor =
                                    slice_make(cursor_of(job_reply), job_reply->cursor_bytes)};
    if (job_reply->count > FEW) {
        jobs = malloc(job_reply->count * sizeof *jobs);
        leases = malloc(job_reply->count * sizeof *leases);
        ends = malloc(job_reply->count * sizeof *ends);
    }
    if (jobs && leases && ends) {
        for (size_t i = 0; i < job_reply->count; i++)
            if (job_reply_fill(job_reply, i, &jobs[reply.job_count], &ends[i], leases[i]))
                reply.job_count++;
        reply.jobs = jobs;
    }
    if (job_reply->count && !reply.job_count)
        reply = (struct queue_reply){.status = reply.jobs ? QUEUE_UNAVAILABLE : QUEUE_NO_MEMORY};
    job_reply->reply_to.done(job_reply->reply_to.owner, job_reply->reply_to.tag, &reply);
    if (jobs != few)
        free(jobs);
    if (leases != few_leases)
        free(leases);
    if (ends != few_ends)
        free(ends);
}

static void job_reply_on_librarian(struct work *work)
{
    job_reply_read_pending((struct job_reply *)(void *)work);
}

static void job_reply_on_back(struct work *work)
{
    struct job_reply *job_reply = (struct job_reply *)(void *)work;
    job_reply->shard->readings--;
    job_reply_send(job_reply);
    job_reply_free(job_reply);
}

static void job_reply_on_iteration_end(void *owner, uint64_t tag,
                                       const struct queue_reply *nothing);

/* Schedules the next piece of the reading. */
static void job_reply_schedule(struct job_reply *job_reply, size_t bytes)
{
    struct completion *completion = completion_new(
        job_reply->shard, 0, 0,
        (struct queue_reply_to){.done = job_reply_on_iteration_end, .owner = job_reply});
    assert(completion);
    completion_soon_of(job_reply->shard, completion, bytes);
}

/* Holds back the drop of log files while the reading pauses. The marks behind replies (shard_checkpointed) pass a reply
 * that is scheduled again. */
static void job_reply_hold_log(struct job_reply *job_reply, bool on)
{
    if (job_reply->holds_log != on)
        wal_hold_back(job_reply->shard->wal, on);
    job_reply->holds_log = on;
}

/* Returns whether the jobs need to be read. The reply to a take is always wanted, because its jobs are leased. */
static bool job_reply_is_wanted(const struct job_reply *job_reply)
{
    const struct queue_reply_to *to = &job_reply->reply_to;
    return job_reply->options.with_lease || !to->is_wanted || to->is_wanted(to->owner, to->tag);
}

static void job_reply_drop(struct job_reply *job_reply)
{
    const struct queue_reply_to to = job_reply->reply_to;
    job_reply_hold_log(job_reply, false);
    job_reply_free(job_reply);
    to.done(to.owner, to.tag, &(struct queue_reply){.status = QUEUE_UNAVAILABLE});
}

/* Reads a piece of the jobs at the end of the step, and sends them after the last piece. Called through a separate
 * completion. */
static void job_reply_on_iteration_end(void *owner, uint64_t tag, const struct queue_reply *nothing)
{
    struct job_reply *job_reply = owner;
    (void)tag;
    (void)nothing;
    if (!job_reply_is_wanted(job_reply)) {
        job_reply_drop(job_reply);
        return;
    }
    bool has_more = job_reply_read_cached(job_reply);
    job_reply_hold_log(job_reply, has_more);
    if (has_more) {
        job_reply_schedule(job_reply, SIZE_MAX);
        return;
    }
    if (job_reply->has_pending) {
        job_reply->shard->readings++;
        job_reply->work.perform = job_reply_on_librarian;
        job_reply->work.done = job_reply_on_back;
        worker_give(job_reply->shard->librarian, &job_reply->work);
        return;
    }
    job_reply_send(job_reply);
    job_reply_free(job_reply);
}

/* Returns whether any record is in a run, whose files must then be held. */
static bool any_in_run(const struct engine_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (record_place_is_run(views[i].place))
            return true;
    return false;
}

void job_reply_start(struct shard *shard, struct engine_view *views, size_t count,
                     struct job_reply_options options, struct slice cursor,
                     struct queue_reply_to reply_to)
{
    if (!count) {
        free(views);
        completion_status_soon(shard, QUEUE_OK, reply_to);
        return;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += views[i].place.bytes;
    size_t few_bytes = bytes <= FEW_BYTES ? bytes : 0;
    struct job_reply *job_reply =
        malloc(sizeof *job_reply + count * sizeof job_reply->offsets[0] + cursor.len + few_bytes);
    if (job_reply)
        memset(job_reply, 0, sizeof *job_reply);
    if (job_reply && any_in_run(views, count))
        job_reply->view = depot_hold(shard->depot);
    if (!job_reply || (!job_reply->view && any_in_run(views, count))) {
        if (job_reply && job_reply->view)
            depot_let_go(job_reply->view);
        free(job_reply);
        views_free(views, count);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    job_reply->shard = shard;
    job_reply->views = views;
    job_reply->count = count;
    job_reply->options = options;
    job_reply->reply_to = reply_to;
    job_reply->cursor_bytes = cursor.len;
    if (cursor.len)
        memcpy(cursor_of(job_reply), cursor.at, cursor.len);
    buffer_init(&job_reply->bytes, few_bytes ? few_bytes : SIZE_MAX / 2);
    buffer_init(&job_reply->scratch, SIZE_MAX / 2);
    job_reply->has_few = few_bytes > 0;
    if (few_bytes) {
        job_reply->bytes.at = cursor_of(job_reply) + cursor.len;
        job_reply->bytes.cap = few_bytes;
    }
    job_reply_schedule(job_reply, bytes);
}
