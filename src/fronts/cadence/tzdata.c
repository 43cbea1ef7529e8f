#include "cadence/tzdata.h"

#include "base/clock.h"
#include "base/log.h"
#include "cadence/stored.h"
#include "queue/status.h"

#include <stdlib.h>

enum {
    PAGE = 100,
    PROBE = 16,    /* those that fire often come first, and are in time again soon after a step */
    LATE_MS = 1000 /* a schedule that is handled later than this has missed a step of the clock */
};

struct tzdata {
    struct queue *queue;
    struct zones *zones;
    const struct http_hooks *hooks;
    struct deadline *alarm;
    struct buffer cursor; /* of the next page */
    uint64_t changed;     /* schedules that this scan has found */
    int64_t look_ms;      /* of the alarm; 0: no alarm is set */
    bool is_scanning, is_stopping;
    bool is_outdated;                  /* a scan is needed */
    bool is_probe;                     /* the scan only reads the next schedules */
    bool has_schedules;                /* as far as this server knows */
    struct queue_change changes[PAGE]; /* of the page that was read */
};

static void scan_page(struct tzdata *tzdata);
static void scan_begin(struct tzdata *tzdata);

/* Sets the alarm, unless it is set earlier. */
static void look_later(struct tzdata *tzdata)
{
    bool is_busy = tzdata->is_outdated || !zones_is_empty(tzdata->zones);
    int64_t look_ms = clock_inner_ms() + (is_busy ? TZDATA_LOOK_MS : TZDATA_IDLE_MS);
    if (tzdata->is_stopping || (tzdata->look_ms && tzdata->look_ms <= look_ms))
        return;
    tzdata->look_ms = look_ms;
    deadline_set(tzdata->alarm, look_ms);
}

void tzdata_note(struct tzdata *tzdata)
{
    tzdata->has_schedules = true;
    look_later(tzdata);
}

static void scan_end(struct tzdata *tzdata)
{
    tzdata->is_scanning = false;
    if (tzdata->changed)
        log_event(LOG_INFO, "time zones or the clock changed, schedules are decided again",
                  LOG_NUMBER("schedules", (int64_t)tzdata->changed));
    look_later(tzdata);
}

/* Returns whether a schedule would be handled after its next fire: on shared stores a job keeps its delay if the clock
 * steps. */
static bool scan_is_late(const struct job *job, const struct stored *stored)
{
    int64_t next_ms = stored->state.next_ms;
    return job->state == JOB_DELAYED && next_ms && !stored->state.retry_ms &&
           job->due_ms > next_ms + spec_jitter(&stored->spec, job->id, next_ms) + LATE_MS;
}

/* Returns whether the next fire of a schedule was found with another file of its zone, or another clock. */
static bool scan_is_outdated(struct tzdata *tzdata, const struct job *job)
{
    struct stored *stored = stored_new();
    char error[ZONES_ERROR_BYTES];
    const struct zone *zone;
    bool is_outdated = stored && stored_read(stored, job->id, job->body, tzdata->hooks) &&
                       !zones_are_older(tzdata->zones, &stored->state) &&
                       zones_find(tzdata->zones, stored->spec.zone, &zone, error) &&
                       (zones_differ(zone, &stored->state) || scan_is_late(job, stored));
    stored_free(stored);
    return is_outdated;
}

static void scan_continue(struct tzdata *tzdata)
{
    if (tzdata->cursor.len && !tzdata->cursor.failed && !tzdata->is_stopping)
        scan_page(tzdata);
    else
        scan_end(tzdata);
}

/* A schedule that is leased meanwhile is decided with the new file anyway. */
static void on_run(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    scan_continue(owner);
}

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct tzdata *tzdata = owner;
    size_t count = 0;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        tzdata->is_outdated =
            tzdata->is_outdated || !tzdata->is_probe; /* the next look scans again */
        tzdata->is_scanning = tzdata->is_probe = false;
        look_later(tzdata);
        return;
    }
    tzdata->has_schedules = tzdata->has_schedules || reply->job_count;
    if (tzdata->is_probe) {
        bool is_late = false;
        for (size_t i = 0; i < reply->job_count && !is_late; i++)
            is_late = scan_is_outdated(tzdata, &reply->jobs[i].job);
        tzdata->is_probe = false;
        if (is_late && !tzdata->is_stopping)
            scan_begin(tzdata);
        else
            scan_end(tzdata);
        return;
    }
    buffer_clear(&tzdata->cursor);
    buffer_append_slice(&tzdata->cursor, reply->cursor);
    for (size_t i = 0; i < reply->job_count; i++)
        if (scan_is_outdated(tzdata, &reply->jobs[i].job))
            tzdata->changes[count++] = (struct queue_change){.verb = QUEUE_RUN,
                                                             .topic = slice_of(SCHEDULES_TOPIC),
                                                             .id = reply->jobs[i].job.id,
                                                             .priority = QUEUE_PRIORITY_UNSET};
    tzdata->changed += count;
    if (count)
        queue_change(tzdata->queue, tzdata->changes, count,
                     (struct queue_reply_to){.done = on_run, .owner = tzdata});
    else
        scan_continue(tzdata);
}

static void scan_page(struct tzdata *tzdata)
{
    const struct queue_list list = {.topic = slice_of(SCHEDULES_TOPIC),
                                    .limit = tzdata->is_probe ? PROBE : PAGE,
                                    .cursor = buffer_slice(&tzdata->cursor),
                                    .with_body = true};
    queue_list(tzdata->queue, &list, (struct queue_reply_to){.done = on_listed, .owner = tzdata});
}

static void scan_begin(struct tzdata *tzdata)
{
    tzdata->is_outdated = false;
    tzdata->is_scanning = true;
    tzdata->changed = 0;
    buffer_clear(&tzdata->cursor);
    scan_page(tzdata);
}

static void on_alarm(void *ctx)
{
    struct tzdata *tzdata = ctx;
    tzdata->look_ms = 0;
    if (tzdata->is_stopping)
        return;
    bool has_changed = zones_look(tzdata->zones);
    tzdata->is_outdated = tzdata->is_outdated || has_changed;
    if (tzdata->is_outdated && !tzdata->is_scanning) {
        scan_begin(tzdata);
    } else if (tzdata->has_schedules && !tzdata->is_scanning) {
        tzdata->is_probe = true;
        scan_begin(tzdata);
    } else {
        look_later(tzdata);
    }
}

/* ---- life ---- */

struct tzdata *tzdata_new(struct reactor *reactor, struct queue *queue, struct zones *zones,
                          const struct http_hooks *hooks)
{
    struct tzdata *tzdata = calloc(1, sizeof *tzdata);
    if (!tzdata)
        return NULL;
    tzdata->queue = queue;
    tzdata->zones = zones;
    tzdata->hooks = hooks;
    buffer_init(&tzdata->cursor, 1024);
    tzdata->alarm = deadline_new(reactor, on_alarm, tzdata);
    if (tzdata->alarm)
        return tzdata;
    tzdata_free(tzdata);
    return NULL;
}

void tzdata_start(struct tzdata *tzdata)
{
    scan_begin(tzdata);
}

void tzdata_stop(struct tzdata *tzdata)
{
    tzdata->is_stopping = true;
}

void tzdata_free(struct tzdata *tzdata)
{
    if (!tzdata)
        return;
    if (tzdata->alarm)
        deadline_free(tzdata->alarm);
    buffer_fini(&tzdata->cursor);
    free(tzdata);
}
