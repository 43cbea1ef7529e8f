/*
 * Replies with jobs: a view knows where each job's record lies; what is in RAM or in the page cache
 * is read at once, the rest by the librarian, so that the loop never waits for the disk.
 */
#include "base/log.h"
#include "local/lease.h"
#include "local/preload.h"
#include "local/private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct reading {
    struct work work;
    struct shard *shard;
    struct engine_view *views;
    size_t count;
    struct depot_view *view; /* for those that lie in runs; NULL: none do */
    size_t *offsets;         /* of each record in `bytes`; or a mark */
    struct buffer bytes;
    struct buffer scratch;
    struct reading_options options;
    char cursor[QUEUE_CURSOR_BYTES_MAX];
    size_t cursor_bytes;
    struct queue_reply_to reply_to;
};

static void views_free(struct engine_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++)
        engine_view_fini(&views[i]);
    free(views);
}

static void reading_free(struct reading *reading)
{
    buffer_fini(&reading->bytes);
    buffer_fini(&reading->scratch);
    free(reading->offsets);
    views_free(reading->views, reading->count);
    if (reading->view)
        depot_let_go(reading->view);
    free(reading);
}

/* Marks in `offsets`. */
static const size_t failed_mark = SIZE_MAX, pending_mark = SIZE_MAX - 1;

static int read_one(struct reading *reading, size_t i, bool may_block)
{
    struct slice record;
    struct record_place place = reading->views[i].place;
    buffer_clear(&reading->scratch);
    int failed = 0;
    if (!record_place_is_run(place))
        failed = wal_read(reading->shard->wal, place, may_block, &reading->scratch, &record);
    else if (may_block || !preload_recent(reading->shard->preload, place, &record))
        failed = depot_read(reading->view, place, may_block, &reading->scratch, &record);
    if (failed == -EAGAIN && !may_block) {
        reading->offsets[i] = pending_mark;
        return -EAGAIN;
    }
    reading->offsets[i] = reading->bytes.len;
    if (!failed)
        buffer_append_slice(&reading->bytes, record);
    if (failed || reading->bytes.failed)
        reading->offsets[i] = failed_mark;
    return 0;
}

/* What is in RAM or the page cache. Returns whether anything is left for the librarian: it looks on
 * the disk only, so everything has to be asked for here first. */
static bool read_cached(struct reading *reading)
{
    bool pending = false;
    for (size_t i = 0; i < reading->count; i++)
        pending |= read_one(reading, i, false) != 0;
    return pending;
}

static void read_pending(struct reading *reading)
{
    for (size_t i = 0; i < reading->count; i++)
        if (reading->offsets[i] == pending_mark)
            read_one(reading, i, true);
}

/* False: the record cannot be read or is not what the engine believes. */
static bool fill_job(struct reading *reading, size_t i, struct queue_job *out, char *lease_text)
{
    const struct engine_view *view = &reading->views[i];
    struct record record;
    if (reading->offsets[i] == failed_mark ||
        !record_decode(slice_make(reading->bytes.at + reading->offsets[i], view->place.bytes),
                       &record) ||
        record.kind != RECORD_JOB) {
        log_event(LOG_ERROR, "job cannot be read",
                  LOG_NUMBER("shard", reading->shard->options.index),
                  LOG_NUMBER("file", view->place.file), LOG_NUMBER("at", view->place.at));
        return false;
    }
    *out = (struct queue_job){.job = record.job};
    engine_show(view, &out->job);
    if (!reading->options.with_body)
        out->job.body = (struct slice){0};
    if (reading->options.with_lease) {
        struct engine_lease lease = {.key_low = view->key.low, .delivery = view->delivery};
        lease_write(lease_text, &reading->shard->options.lease_key, &lease,
                    reading->shard->options.index);
        out->lease = slice_make(lease_text, LEASE_TEXT_BYTES);
    }
    return true;
}

static void reply(struct reading *reading)
{
    enum { FEW = 16 };
    struct queue_job few[FEW], *jobs = few;
    char few_leases[FEW][LEASE_TEXT_BYTES], (*leases)[LEASE_TEXT_BYTES] = few_leases;
    struct queue_reply reply = {.status = QUEUE_OK,
                                .cursor = slice_make(reading->cursor, reading->cursor_bytes)};
    if (reading->count > FEW) {
        jobs = malloc(reading->count * sizeof *jobs);
        leases = malloc(reading->count * sizeof *leases);
    }
    if (jobs && leases) {
        for (size_t i = 0; i < reading->count; i++)
            if (fill_job(reading, i, &jobs[reply.job_count], leases[i]))
                reply.job_count++;
        reply.jobs = jobs;
    }
    if (reading->count && !reply.job_count)
        reply =
            (struct queue_reply){.status = jobs && leases ? QUEUE_UNAVAILABLE : QUEUE_NO_MEMORY};
    reading->reply_to.done(reading->reply_to.owner, reading->reply_to.tag, &reply);
    if (jobs != few)
        free(jobs);
    if (leases != few_leases)
        free(leases);
}

static void on_librarian(struct work *work)
{
    read_pending((struct reading *)(void *)work);
}

static void on_back(struct work *work)
{
    struct reading *reading = (struct reading *)(void *)work;
    reading->shard->readings--;
    reply(reading);
    reading_free(reading);
}

/* At the end of the turn, through a completion of its own. */
static void on_turn_end(void *owner, uint64_t tag, const struct queue_reply *nothing)
{
    struct reading *reading = owner;
    (void)tag;
    (void)nothing;
    if (read_cached(reading)) {
        reading->shard->readings++;
        reading->work.perform = on_librarian;
        reading->work.done = on_back;
        worker_give(reading->shard->librarian, &reading->work);
        return;
    }
    reply(reading);
    reading_free(reading);
}

static bool any_in_run(const struct engine_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (record_place_is_run(views[i].place))
            return true;
    return false;
}

void reading_start(struct shard *shard, struct engine_view *views, size_t count,
                   struct reading_options options, struct slice cursor,
                   struct queue_reply_to reply_to)
{
    if (!count) {
        free(views);
        completion_status_soon(shard, QUEUE_OK, reply_to);
        return;
    }
    struct reading *reading = calloc(1, sizeof *reading);
    size_t *offsets = malloc(count * sizeof *offsets);
    if (reading && any_in_run(views, count))
        reading->view = depot_hold(shard->depot);
    if (!reading || !offsets || (!reading->view && any_in_run(views, count))) {
        if (reading && reading->view)
            depot_let_go(reading->view);
        free(reading);
        free(offsets);
        views_free(views, count);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    reading->shard = shard;
    reading->views = views;
    reading->count = count;
    reading->offsets = offsets;
    reading->options = options;
    reading->reply_to = reply_to;
    reading->cursor_bytes = cursor.len;
    if (cursor.len)
        memcpy(reading->cursor, cursor.at, cursor.len);
    buffer_init(&reading->bytes, SIZE_MAX / 2);
    buffer_init(&reading->scratch, SIZE_MAX / 2);
    struct completion *completion =
        completion_new(shard, 0, 0, (struct queue_reply_to){.done = on_turn_end, .owner = reading});
    assert(completion);
    completion_soon(shard, completion);
}
