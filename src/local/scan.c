#include "local/scan.h"

#include "base/log.h"
#include "local/cold_list.h"
#include "local/cold_scan.h"
#include "local/lookup.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    LIST_BYTES_MAX = 8 << 20,
    WALK_STEPS = 16384, /* jobs looked at in a turn, about a millisecond */
    WALK_CHANGES = 512
};

/* One under way. */
struct scan {
    struct list list;
    struct walk walk;
    bool with_body;              /* list */
    bool is_memory_done;         /* the engine's part */
    struct cold_list *cold_list; /* list */
    struct cold_scan *cold_scan; /* the others, once memory is done */
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

static void refuse(struct shard *shard, struct scan *scan, enum queue_status status)
{
    completion_status_soon(shard, status, scan->reply_to);
    scan_free(shard, scan);
}

/* ---- beginning ---- */

static void start(struct shard *shard, const struct walk *walk, bool with_body,
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
        shard->listings++; /* until it ends no job becomes cold: none is missed */
        if (depot_view(shard->depot)->run_count &&
            !(scan->cold_list = cold_list_new(shard, &scan->walk)))
            refuse(shard, scan, QUEUE_NO_MEMORY);
    }
    reactor_turn_again(shard->reactor); /* this one's walks may have had theirs */
}

static struct walk walk_of(enum walk_kind kind, struct slice topic, enum job_state state)
{
    struct walk walk = {.kind = kind, .state = state, .topic_bytes = topic.len};
    memcpy(walk.topic, topic.at, topic.len);
    return walk;
}

void scan_list(struct shard *shard, const struct queue_list *list, struct queue_reply_to reply_to)
{
    struct walk walk = walk_of(WALK_LIST, list->topic, list->state);
    walk.limit = list->limit;
    walk.shard = shard->options.index;
    walk.has_cursor = list->cursor.len > 0;
    if (walk.has_cursor && !queue_cursor_parse(list->cursor, &walk.after))
        completion_status_soon(shard, QUEUE_BAD_CURSOR, reply_to);
    else
        start(shard, &walk, list->with_body, reply_to);
}

void scan_topic(struct shard *shard, const struct queue_topic_call *call,
                struct queue_reply_to reply_to)
{
    enum walk_kind kind = call->verb == QUEUE_TOPIC_PURGE    ? WALK_PURGE
                          : call->verb == QUEUE_TOPIC_DELETE ? WALK_DELETE
                                                             : WALK_REDRIVE;
    struct walk walk = walk_of(kind, call->topic, kind == WALK_PURGE ? call->state : 0);
    walk.max = call->max;
    start(shard, &walk, false, reply_to);
}

/* ---- cold jobs ---- */

/* A bit for each section that may hold what is to be changed. */
static unsigned parts_of(const struct walk *walk)
{
    const unsigned waiting = 1u << SECTION_DELAYED | 1u << SECTION_DELAYED_WALL |
                             1u << SECTION_RETRYING | 1u << SECTION_RETRYING_WALL;
    if (walk->kind == WALK_REDRIVE)
        return 1u << SECTION_DEAD;
    if (walk->kind == WALK_DELETE)
        return (1u << SECTIONS) - 1;
    if (walk->state == JOB_DEAD)
        return 1u << SECTION_DEAD;
    if (walk->state == JOB_LEASED)
        return 0;
    return walk->state ? waiting : waiting | 1u << SECTION_DEAD;
}

static struct hash128 key_of(const struct shard *shard, const struct record *record)
{
    if (record->kind == RECORD_DONE)
        return record->done.key;
    return engine_key(shard->engine, record->job.topic, record->job.id);
}

/* 1: through; 0: waits for the scout; -EAGAIN: had its share of this turn; else what failed. */
static int change_cold(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    struct engine_now now = shard_now(shard);
    if (!scan->cold_scan &&
        !(scan->cold_scan =
              cold_scan_new(shard, slice_make(walk->topic, walk->topic_bytes), parts_of(walk))))
        return -ENOMEM;
    for (int left = WALK_CHANGES; left; left--) {
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
            walk_one(walk, shard->engine, key_of(shard, &record), now);
        else if (failed && failed != -ENOENT)
            return failed;
    }
    return -EAGAIN;
}

/* ---- the end ---- */

/* As many as fit into one reply; the cursor then says where to go on. */
static void finish_list(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    char text[QUEUE_CURSOR_BYTES_MAX];
    struct slice cursor = {0};
    size_t count = 0, bytes = 0;
    while (count < walk->found_count &&
           (!count || bytes + walk->found[count].place.bytes <= LIST_BYTES_MAX))
        bytes += walk->found[count++].place.bytes;
    if (count && (walk->more || count < walk->found_count)) {
        const struct engine_view *last = &walk->found[count - 1];
        struct queue_cursor at = {
            .due_ms = last->due_ms, .sequence = last->sequence, .shard = walk->shard};
        cursor = slice_make(text, queue_cursor_write(text, &at));
    }
    struct engine_view *views = walk->found;
    for (size_t i = count; i < walk->found_count; i++)
        engine_view_fini(&views[i]);
    walk->found = NULL;
    reading_start(shard, views, count, (struct reading_options){.with_body = scan->with_body},
                  cursor, scan->reply_to);
}

/* False: it begins again. */
static bool finish_change(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    struct slice topic = slice_make(walk->topic, walk->topic_bytes);
    enum queue_status status = QUEUE_OK;
    if (walk->kind == WALK_DELETE) {
        status = engine_topic_remove(shard->engine, topic);
        if (status == QUEUE_CONFLICT && cold_scan_met_damage(scan->cold_scan)) {
            status = QUEUE_UNAVAILABLE;        /* nor would it be empty the next time */
        } else if (status == QUEUE_CONFLICT) { /* pushed to meanwhile: once more over all */
            walk->at = 0;
            walk->until_sequence = UINT64_MAX;
            scan->is_memory_done = false;
            cold_scan_free(scan->cold_scan);
            scan->cold_scan = NULL;
            return false;
        }
        if (status != QUEUE_UNAVAILABLE)
            shard_tell(shard, QUEUE_EVENT_TOPIC, topic);
    }
    struct completion *completion = completion_new(shard, 0, 0, scan->reply_to);
    assert(completion);
    completion->reply.status = status;
    completion->reply.affected = walk->affected;
    completion_when_durable(shard, completion);
    return true;
}

/* ---- steps ---- */

static enum queue_status status_of(int failed)
{
    return failed == -ENOMEM ? QUEUE_NO_MEMORY : QUEUE_UNAVAILABLE;
}

/* From walk->after on. -ENOENT: the topic has gone meanwhile. */
static int list_again(struct shard *shard, struct scan *scan)
{
    struct walk *walk = &scan->walk;
    struct queue_topic topic;
    cold_list_free(scan->cold_list);
    scan->cold_list = NULL;
    walk_fini(walk);
    walk->at = 0;
    walk->seen = walk->found_count = 0;
    walk->more = false;
    if (!engine_topic_show(shard->engine, slice_make(walk->topic, walk->topic_bytes),
                           shard_now(shard), &topic))
        return -ENOENT;
    if (!walk_init(walk, shard->engine) || !(scan->cold_list = cold_list_new(shard, walk)))
        return -ENOMEM;
    return 0;
}

/* Whether there is more to do now. It may end. */
static bool step_list(struct shard *shard, struct scan *scan)
{
    struct engine_now now = shard_now(shard);
    if (cold_list_is_reading(scan->cold_list))
        return false;
    if (!walk_step(&scan->walk, shard->engine, now, WALK_STEPS, WALK_CHANGES))
        return true;
    int failed = scan->cold_list ? cold_list_merge(scan->cold_list, &scan->walk, now) : 0;
    if (failed == -EAGAIN && !(failed = list_again(shard, scan)))
        return false;
    if (failed && failed != -ENOENT) {
        log_event(LOG_ERROR, "jobs cannot be listed", LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("error", strerror(-failed)));
        refuse(shard, scan, status_of(failed));
        return false;
    }
    finish_list(shard, scan);
    scan_free(shard, scan);
    return false;
}

static bool step_change(struct shard *shard, struct scan *scan)
{
    if (!scan->is_memory_done) {
        scan->is_memory_done =
            walk_step(&scan->walk, shard->engine, shard_now(shard), WALK_STEPS, WALK_CHANGES);
        return true;
    }
    bool has_cold = depot_view(shard->depot)->run_count > 0;
    if (has_cold && shard->stopping) { /* there may be any number: no stop waits for all of them */
        refuse(shard, scan, QUEUE_STOPPING);
        return false;
    }
    int result = has_cold ? change_cold(shard, scan) : 1;
    if (result == 0 || result == -EAGAIN)
        return result == -EAGAIN;
    if (result < 0)
        refuse(shard, scan, status_of(result));
    else if (!finish_change(shard, scan))
        return true;
    else
        scan_free(shard, scan);
    return false;
}

/* What a walk leaves behind must be writable even on a full disk: purging is how space comes back.
 * -EAGAIN: not yet. Else 0, and *status as of command_ask_room. */
static int ask_room(struct shard *shard, const struct scan *scan, enum queue_status *status)
{
    *status = QUEUE_OK;
    if (scan->walk.kind == WALK_LIST)
        return 0;
    return command_ask_room(shard, (size_t)(WALK_CHANGES + 1) * ENGINE_STATE_BYTES_MAX,
                            WAL_FOR_ANSWER, status);
}

static bool is_reading(const struct scan *scan)
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
        if (is_reading(scan))
            continue;
        if (!shard->broken) {
            if (share++ == SHARES)
                return true;
            if (ask_room(shard, scan, &status) == -EAGAIN)
                continue;
        }
        if (status != QUEUE_OK)
            refuse(shard, scan, status);
        else if (scan->walk.kind == WALK_LIST)
            more |= step_list(shard, scan);
        else
            more |= step_change(shard, scan);
    }
    return more;
}
