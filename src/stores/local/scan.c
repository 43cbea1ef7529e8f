#include "local/scan.h"

#include "base/log.h"
#include "local/cold_list.h"
#include "local/job_reply.h"
#include "local/shard_feed.h"
#include "net/activity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    LIST_BYTES_MAX = 256 << 10, /* of a page, which is written in one step */
    WALK_STEPS = 16384,         /* jobs processed per step, about a millisecond */
    WALK_CHANGES = 512,
    SLICE_JOBS = 1024,
    SLICE_BYTES = 4 << 20,
    SLICE_SLOTS = 1 << 19 /* examined before other work of the scout */
};

/* ---- the cold jobs of a topic, slice by slice and run by run, including runs created meanwhile
 * ---- */

struct cold_found {
    uint32_t slot, bytes;
    size_t at;
};

struct cold_scan {
    struct work work;
    struct shard *shard;
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    unsigned sections;
    /* The current position: a run, a section of it, a slot. */
    uint32_t run, section, slot;
    bool is_reading, is_through; /* with this run */
    bool met_damage;
    int result;
    struct depot_view *view;
    struct cold_found found[SLICE_JOBS];
    size_t count, given;
    uint32_t looked_at, topic_number;
    struct buffer records;
};

/* Creates a scan of jobs in these sections (a bit each). Returns NULL when out of memory. */
static struct cold_scan *cold_scan_new(struct shard *shard, struct slice topic, unsigned sections)
{
    struct cold_scan *cold = calloc(1, sizeof *cold);
    if (!cold)
        return NULL;
    cold->shard = shard;
    cold->topic_bytes = topic.len;
    memcpy(cold->topic, topic.at, topic.len);
    cold->sections = sections;
    cold->is_through = true;
    buffer_init(&cold->records, SIZE_MAX / 2);
    return cold;
}

static void cold_scan_free(struct cold_scan *cold)
{
    if (!cold)
        return;
    assert(!cold->is_reading);
    buffer_fini(&cold->records);
    free(cold);
}

static bool cold_scan_is_reading(const struct cold_scan *cold)
{
    return cold && cold->is_reading;
}

/* Returns for run_scan whether the slot's job belongs to the topic and is live. -EAGAIN: let other
 * work run. */
static int cold_scan_wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct cold_scan *cold = ctx;
    const struct depot_run *run = depot_view_run(cold->view, cold->run);
    if (cold->looked_at++ >= SLICE_SLOTS)
        return -EAGAIN;
    return entry->topic == cold->topic_number && alive_test(&run->alive, slot);
}

static bool cold_scan_keep(void *ctx, uint32_t slot, const struct run_slot *entry,
                           struct slice record)
{
    struct cold_scan *cold = ctx;
    (void)entry;
    struct cold_found *found = &cold->found[cold->count++];
    *found =
        (struct cold_found){.slot = slot, .bytes = (uint32_t)record.len, .at = cold->records.len};
    buffer_append_slice(&cold->records, record);
    return cold->count < SLICE_JOBS && cold->records.len < SLICE_BYTES;
}

static bool cold_scan_is_full(const struct cold_scan *cold)
{
    return cold->count == SLICE_JOBS || cold->records.len >= SLICE_BYTES ||
           cold->looked_at >= SLICE_SLOTS;
}

/* Reads the next slice of the run. [scout] */
static void cold_scan_on_scout(struct work *work)
{
    struct cold_scan *cold = (struct cold_scan *)(void *)work;
    const struct depot_run *depot_run = depot_view_run(cold->view, cold->run);
    const struct run *run = depot_run->run;
    const struct run_info *info = run_info(run);
    cold->topic_number = run_find_topic(run, slice_make(cold->topic, cold->topic_bytes));
    cold->result = 0;
    while (cold->topic_number != UINT32_MAX && cold->section < SECTIONS &&
           !cold_scan_is_full(cold)) {
        uint32_t first = info->sections[cold->section].first,
                 end = first + info->sections[cold->section].count;
        if (cold->slot < first)
            cold->slot = first;
        if (cold->sections & 1u << cold->section && cold->slot < end) {
            struct run_scan scan = {.first = cold->slot,
                                    .end = end,
                                    .wants = cold_scan_wants,
                                    .each = cold_scan_keep,
                                    .ctx = cold};
            cold->result = depot_scan(depot_run, &scan, &cold->slot);
            if (cold->result < 0)
                return;
            if (cold->slot < end)
                continue;
        }
        cold->section++;
    }
    cold->is_through = cold->topic_number == UINT32_MAX || cold->section == SECTIONS;
    if (cold->records.failed)
        cold->result = -ENOMEM;
}

static void cold_scan_on_back(struct work *work)
{
    struct cold_scan *cold = (struct cold_scan *)(void *)work;
    cold->is_reading = false;
    cold->shard->readings--;
    depot_let_go(cold->view);
    cold->view = NULL;
}

/* Moves to the next run. Returns false at the end. */
static bool cold_scan_next_run(struct cold_scan *cold)
{
    const struct depot_view *view = depot_view(cold->shard->depot);
    for (uint32_t i = 0; i < view->run_count; i++)
        if (view->runs[i]->number > cold->run) {
            cold->run = view->runs[i]->number;
            cold->section = cold->slot = 0;
            return true;
        }
    return false;
}

/* Returns whether the run is still in the view. If not, its jobs have moved to a newer run. */
static bool cold_scan_is_in_view(const struct cold_scan *cold)
{
    return depot_view_run(depot_view(cold->shard->depot), cold->run) != NULL;
}

/* Schedules the next read on the scout. Returns 0, or -ENOENT at the end. */
static int cold_scan_read_slice(struct cold_scan *cold)
{
    if ((cold->is_through || !cold_scan_is_in_view(cold)) && !cold_scan_next_run(cold))
        return -ENOENT;
    buffer_clear(&cold->records);
    cold->count = cold->given = 0;
    cold->looked_at = 0;
    cold->view = depot_hold(cold->shard->depot);
    if (!cold->view)
        return -ENOMEM;
    cold->is_reading = true;
    cold->is_through = false;
    cold->shard->readings++;
    cold->work.perform = cold_scan_on_scout;
    cold->work.done = cold_scan_on_back;
    worker_give(cold->shard->scout, &cold->work);
    return 0;
}

/* Returns 1 with a record and its place, valid until the next call; 0 if no record is available now
 * (a slice is being read); -ENOENT at the end; another negative errno on failure. */
static int cold_scan_next(struct cold_scan *cold, struct slice *record, struct record_place *place)
{
    if (cold->is_reading)
        return 0;
    if (cold->result < 0)
        return cold->result;
    while (cold->given < cold->count) {
        const struct cold_found *found = &cold->found[cold->given++];
        if (!found->bytes) { /* damaged: it stays in place */
            cold->met_damage = true;
            log_event(LOG_ERROR, "job cannot be read",
                      LOG_NUMBER("shard", cold->shard->options.index), LOG_NUMBER("run", cold->run),
                      LOG_NUMBER("slot", found->slot));
            continue;
        }
        *record = slice_make(cold->records.at + found->at, found->bytes);
        *place = (struct record_place){
            .file = cold->run | RECORD_IN_RUN, .at = found->slot, .bytes = found->bytes};
        return 1;
    }
    return cold_scan_read_slice(cold);
}

/* ---- scans ---- */

/* A scan in progress. */
struct scan {
    struct list list;
    struct walk walk;
    bool with_body;              /* list */
    bool is_memory_done;         /* the part in the engine */
    struct cold_list *cold_list; /* list */
    struct cold_scan *cold_scan; /* other kinds, after the part in memory */
    struct queue_reply_to reply_to;
};

static void scan_free(struct shard *shard, struct scan *scan)
{
    list_remove(&scan->list);
    if (scan->walk.kind == WALK_LIST)
        shard->listings--;
    walk_fini(&scan->walk);
    cold_list_free(scan->cold_list);
    cold_scan_free(scan->cold_scan);
    free(scan);
}

/* Reports the change. Each shard reports its own jobs; the first one reports the deletion of the
 * topic. */
static void notify_change(struct shard *shard, const struct walk *walk, bool is_finished)
{
    if (walk->kind == WALK_TRIM)
        return;
    enum job_event_kind kind = walk->kind == WALK_REDRIVE ? JOB_EVENT_REDRIVEN : JOB_EVENT_PURGED;
    if (walk->kind == WALK_DELETE && is_finished && shard->options.index == 0)
        kind = JOB_EVENT_DELETED;
    if (walk->affected || kind == JOB_EVENT_DELETED)
        shard_feed_topic(shard, kind, slice_make(walk->topic, walk->topic_bytes), walk->affected);
}

/* Ends the scan with this status. Its changes so far are reported once they are durable. */
static void scan_refuse(struct shard *shard, struct scan *scan, enum queue_status status)
{
    const struct walk *walk = &scan->walk;
    struct completion *completion =
        walk->affected && !shard->broken ? completion_new(shard, 0, 0, scan->reply_to) : NULL;
    if (completion) {
        notify_change(shard, walk, false);
        completion->reply.status = status;
        completion->reply.affected = walk->affected;
        completion_when_durable(shard, completion);
    } else {
        completion_status_soon(shard, status, scan->reply_to);
    }
    scan_free(shard, scan);
}

/* ---- starting ---- */

/* Starts a scan, which runs step by step from this iteration on. */
static void scan_begin(struct shard *shard, const struct walk *walk, bool with_body,
                       struct queue_reply_to reply_to)
{
    struct scan *scan = calloc(1, sizeof *scan);
    if (!scan) {
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    scan->walk = *walk;
    scan->with_body = with_body;
    scan->reply_to = reply_to;
    if (!walk_init(&scan->walk, shard->engine)) {
        free(scan);
        completion_status_soon(shard, QUEUE_NOT_FOUND, reply_to);
        return;
    }
    list_add_last(&shard->scans, &scan->list);
    if (walk->kind == WALK_LIST) {
        shard->listings++; /* no job becomes cold until it ends, so that the list misses no job */
        if (depot_view(shard->depot)->run_count &&
            !(scan->cold_list = cold_list_new(shard, &scan->walk)))
            scan_refuse(shard, scan, QUEUE_NO_MEMORY);
    }
    reactor_iterate_again(shard->reactor); /* the scans of this iteration may already have run */
}

static struct walk scan_walk(enum walk_kind kind, struct slice topic, enum job_state state)
{
    struct walk walk = {.kind = kind, .state = state, .topic_bytes = topic.len};
    memcpy(walk.topic, topic.at, topic.len);
    return walk;
}

/* Answers with the first ready job only. Returns false if there is no such job in memory. */
static bool list_first(struct shard *shard, const struct queue_list *list,
                       struct queue_reply_to reply_to)
{
    struct engine_view first, *views = NULL;
    if (list->state != JOB_READY ||
        !engine_show_first(shard->engine, list->topic, shard_now(shard), &first))
        return false;
    views = malloc(sizeof *views);
    if (!views) {
        engine_view_fini(&first);
        return false;
    }
    *views = first;
    job_reply_start(shard, views, 1, (struct job_reply_options){.with_body = list->with_body},
                    (struct slice){0}, reply_to);
    return true;
}

static void list_begin(struct shard *shard, const struct queue_list *list,
                       struct queue_reply_to reply_to)
{
    struct walk walk = scan_walk(WALK_LIST, list->topic, list->state);
    walk.limit = list->limit;
    walk.shard = shard->options.index;
    walk.has_cursor = list->cursor.len > 0;
    if (list->first_only && !walk.has_cursor && list_first(shard, list, reply_to))
        return;
    if (walk.has_cursor && !queue_cursor_parse(list->cursor, &walk.after)) {
        completion_status_soon(shard, QUEUE_BAD_CURSOR, reply_to);
        return;
    }
    queue_cursor_follow(&walk.after, shard_now(shard).skew_ms, list->state == JOB_FINISHED);
    scan_begin(shard, &walk, list->with_body, reply_to);
}

/* Starts a purge, a delete, or a redrive of all jobs. */
static void change_begin(struct shard *shard, const struct queue_topic_call *call,
                         struct queue_reply_to reply_to)
{
    enum walk_kind kind = call->verb == QUEUE_TOPIC_PURGE    ? WALK_PURGE
                          : call->verb == QUEUE_TOPIC_DELETE ? WALK_DELETE
                                                             : WALK_REDRIVE;
    struct walk walk = scan_walk(kind, call->topic, kind == WALK_PURGE ? call->state : 0);
    walk.max = call->max;
    scan_begin(shard, &walk, false, reply_to);
}

static void on_trimmed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    ((struct shard *)owner)->is_trimming = false;
}

void scan_trim(struct shard *shard)
{
    struct slice topic;
    if (shard->is_trimming || shard->stopping || shard->broken ||
        !engine_trim_next(shard->engine, &topic))
        return;
    struct walk walk = scan_walk(WALK_TRIM, topic, 0);
    shard->is_trimming = true;
    scan_begin(shard, &walk, false, (struct queue_reply_to){.done = on_trimmed, .owner = shard});
}

void scan_start(struct shard *shard, const struct command *command, struct queue_reply_to reply_to)
{
    if (command->kind == COMMAND_LIST)
        list_begin(shard, &command->list, reply_to);
    else
        change_begin(shard, &command->topic, reply_to);
}

/* ---- cold jobs ---- */

/* Returns the sections (a bit each) that may contain jobs to change. */
static unsigned walk_sections(const struct walk *walk)
{
    const unsigned waiting = 1u << SECTION_DELAYED | 1u << SECTION_DELAYED_WALL |
                             1u << SECTION_RETRYING | 1u << SECTION_RETRYING_WALL;
    if (walk->kind == WALK_REDRIVE)
        return 1u << SECTION_DEAD;
    if (walk->kind == WALK_DELETE)
        return (1u << SECTIONS) - 1;
    if (walk->kind == WALK_TRIM || walk->state == JOB_FINISHED)
        return 1u << SECTION_KEPT;
    if (walk->state == JOB_DEAD)
        return 1u << SECTION_DEAD;
    if (walk->state == JOB_LEASED)
        return 0;
    return walk->state ? waiting : waiting | 1u << SECTION_DEAD;
}

/* Returns how many jobs a scan changes per step. */
static uint32_t changes_per_step(const struct shard *shard)
{
    uint32_t limit = shard->options.limits.scan_changes;
    return limit ? limit : WALK_CHANGES;
}

/* Changes cold jobs. Returns 1 when finished, 0 while it waits for the scout, -EAGAIN if its share
 * of this step is used up, or another negative errno. */
static int change_cold(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    struct engine_now now = shard_now(shard);
    if (!scan->cold_scan &&
        !(scan->cold_scan = cold_scan_new(shard, slice_make(walk->topic, walk->topic_bytes),
                                          walk_sections(walk))))
        return -ENOMEM;
    for (uint32_t left = changes_per_step(shard); left; left--) {
        struct slice bytes;
        struct record_place place;
        struct record record;
        if (walk_has_enough(walk, shard->engine))
            return cold_scan_is_reading(scan->cold_scan) ? 0 : 1;
        int result = cold_scan_next(scan->cold_scan, &bytes, &place);
        if (result != 1)
            return result == -ENOENT ? 1 : result;
        int failed = shard_load(shard, bytes, place, now);
        if (!failed && record_decode(bytes, &record))
            walk_one(walk, shard->engine, shard_record_key(shard, &record), now);
        else if (failed && failed != -ENOENT)
            return failed;
    }
    return -EAGAIN;
}

/* ---- finishing ---- */

/* Replies with as many jobs as fit into one reply, and a cursor from which to continue. */
static void list_finish(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    char text[QUEUE_CURSOR_BYTES_MAX];
    struct slice cursor = {0};
    size_t count = 0, bytes = 0;
    while (count < walk->found.count &&
           (!count || bytes + walk->found.at[count].place.bytes <= LIST_BYTES_MAX))
        bytes += walk->found.at[count++].place.bytes;
    if (count && (walk->more || count < walk->found.count)) {
        const struct engine_view *last = &walk->found.at[count - 1];
        struct queue_cursor at = {.due_ms = last->due_ms,
                                  .sequence = last->sequence,
                                  .shard = walk->shard,
                                  .has_skew = true,
                                  .skew_ms = shard_now(shard).skew_ms};
        cursor = slice_make(text, queue_cursor_write(text, &at));
    }
    struct engine_view *views = walk->found.at;
    for (size_t i = count; i < walk->found.count; i++)
        engine_view_fini(&views[i]);
    walk->found = (struct walk_views){0};
    job_reply_start(shard, views, count, (struct job_reply_options){.with_body = scan->with_body},
                    cursor, scan->reply_to);
}

/* Finishes a change. Returns false if it starts again. */
static bool change_finish(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    struct slice topic = slice_make(walk->topic, walk->topic_bytes);
    enum queue_status status = QUEUE_OK;
    if (walk->kind == WALK_DELETE) {
        status = engine_topic_remove(shard->engine, topic);
        if (status == QUEUE_CONFLICT && scan->cold_scan && scan->cold_scan->met_damage) {
            status = QUEUE_UNAVAILABLE;        /* it would not be empty the next time either */
        } else if (status == QUEUE_CONFLICT) { /* pushed to meanwhile: start again */
            walk->at = 0;
            walk->until_sequence = UINT64_MAX;
            scan->is_memory_done = false;
            cold_scan_free(scan->cold_scan);
            scan->cold_scan = NULL;
            return false;
        }
        if (status != QUEUE_UNAVAILABLE)
            shard_event(shard, QUEUE_EVENT_TOPIC, topic);
    }
    if (status == QUEUE_OK)
        notify_change(shard, walk, true);
    struct completion *completion = completion_new(shard, 0, 0, scan->reply_to);
    assert(completion);
    completion->reply.status = status;
    completion->reply.affected = walk->affected;
    completion_when_durable(shard, completion);
    return true;
}

/* ---- steps ---- */

static enum queue_status status_of_error(int failed)
{
    return failed == -ENOMEM ? QUEUE_NO_MEMORY : QUEUE_UNAVAILABLE;
}

/* Restarts the list from walk->after. Returns -ENOENT if the topic has been deleted meanwhile. */
static int list_again(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    struct queue_topic topic;
    cold_list_free(scan->cold_list);
    scan->cold_list = NULL;
    walk_fini(walk);
    walk->at = 0;
    walk->seen = 0;
    walk->more = false;
    if (!engine_topic_show(shard->engine, slice_make(walk->topic, walk->topic_bytes),
                           shard_now(shard), &topic))
        return -ENOENT;
    if (!walk_init(walk, shard->engine) || !(scan->cold_list = cold_list_new(shard, walk)))
        return -ENOMEM;
    return 0;
}

/* Executes a step of a list, which may end. Returns whether more can be done now. */
static bool list_step(struct shard *shard, struct scan *scan)
{
    struct engine_now now = shard_now(shard);
    if (cold_list_is_reading(scan->cold_list))
        return false;
    if (!walk_step(&scan->walk, shard->engine, now, WALK_STEPS, changes_per_step(shard)))
        return true;
    int failed = scan->cold_list ? cold_list_merge(scan->cold_list, &scan->walk, now) : 0;
    if (failed == -EAGAIN && !(failed = list_again(shard, scan)))
        return false;
    if (failed && failed != -ENOENT) {
        log_event(LOG_ERROR, "jobs cannot be listed", LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("error", strerror(-failed)));
        scan_refuse(shard, scan, status_of_error(failed));
        return false;
    }
    list_finish(shard, scan);
    scan_free(shard, scan);
    return false;
}

/* Executes a step of a change, which may end: first in memory, then cold jobs. Returns whether more
 * can be done now. */
static bool change_step(struct shard *shard, struct scan *scan)
{
    if (!scan->is_memory_done) {
        scan->is_memory_done = walk_step(&scan->walk, shard->engine, shard_now(shard), WALK_STEPS,
                                         changes_per_step(shard));
        return true;
    }
    bool has_cold = depot_view(shard->depot)->run_count > 0;
    if (has_cold &&
        shard->stopping) { /* possibly very many: a stop does not wait for all of them */
        scan_refuse(shard, scan, QUEUE_STOPPING);
        return false;
    }
    int result = has_cold ? change_cold(shard, scan) : 1;
    if (result == 0 || result == -EAGAIN)
        return result == -EAGAIN;
    if (result < 0)
        scan_refuse(shard, scan, status_of_error(result));
    else if (!change_finish(shard, scan))
        return true;
    else
        scan_free(shard, scan);
    return false;
}

/* Requests room for the records of a step. They must be writable even on a full disk, because
 * purging frees space. Returns -EAGAIN if there is no room yet, else 0 with *status as from
 * shard_ask_room. */
static int scan_ask_room(struct shard *shard, const struct scan *scan, enum queue_status *status)
{
    *status = QUEUE_OK;
    if (scan->walk.kind == WALK_LIST)
        return 0;
    return shard_ask_room(shard, (changes_per_step(shard) + 1) * engine_room_change(shard->engine),
                          WAL_FOR_ANSWER, status);
}

static bool scan_is_reading(const struct scan *scan)
{
    return cold_list_is_reading(scan->cold_list) || cold_scan_is_reading(scan->cold_scan);
}

bool scans_step(struct shard *shard)
{
    enum { SHARES = 10 };
    int share = 0;
    bool more = false;
    for (struct list *at = shard->scans.next, *next; at != &shard->scans; at = next) {
        struct scan *scan = list_entry(at, struct scan, list);
        enum queue_status status = QUEUE_UNAVAILABLE;
        next = at->next;
        if (scan_is_reading(scan))
            continue;
        if (!shard->broken) {
            if (share++ == SHARES)
                return true;
            activity_begin("lists");
            if (scan_ask_room(shard, scan, &status) == -EAGAIN)
                continue;
        }
        if (status != QUEUE_OK)
            scan_refuse(shard, scan, status);
        else if (scan->walk.kind == WALK_LIST)
            more |= list_step(shard, scan);
        else
            more |= change_step(shard, scan);
    }
    return more;
}
