/*
 * The scout reads slices of runs, the shard loads some hundreds of their jobs per step, and the
 * latest slices are kept for a while. The next slice is the one that falls due first, alternating
 * with topics to refill. A slice is read when its first job falls due within three quarters of the
 * horizon, and then contains the jobs that fall due within all of it: so jobs that trickle in are
 * read several at a time.
 */
#include "local/preload.h"

#include "base/log.h"
#include "base/trouble.h"
#include "local/preload_slice.h"
#include "net/activity.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HORIZON_MS = 10000,
    TOPIC_QUOTA = 100000,
    GRAINS = 512,        /* per horizon: the precision of the due times of skipped jobs */
    READY_SLACK = 16384, /* jobs that slices in progress may add beyond a quota */
    RETRY_MS = 1000,
    TRIES = 3, /* for a directory that cannot be read */
    LOGGED = 16,

    SLICE_JOBS_MAX = 4096,
    SLICE_LOOKED_MAX = 16384,  /* slots of the directory */
    SLICE_BYTES_MAX = 1 << 20, /* of records; the last may exceed it */
    SLICE_BYTES_KEPT = 2 << 20 /* memory kept for the next slice */,
    LOAD_AT_ONCE = 512,
    RECENT_SLICES = 64,
    RECENT_BYTES_MAX = 32 << 20
};

/* The cursor that falls due first; up_ms INT64_MAX: no cursor. */
struct preload_first {
    bool is_known; /* false: a cursor has moved since */
    int64_t skew_ms, up_ms;
    struct preload_run *run;
    enum job_section section;
};

struct preload {
    struct shard *shard;
    int64_t horizon_ms;
    struct preload_topics topics;
    struct preload_first first;

    struct preload_slice *reading;               /* on the scout */
    struct preload_slice *queue[2];              /* read, not completely loaded; the oldest first */
    struct preload_slice *recent[RECENT_SLICES]; /* a ring; includes those of `queue` */
    uint32_t recent_first, recent_count;
    size_t recent_bytes;
    struct preload_slice *spare;
    bool refilled_last;
    bool is_stale;    /* memory ran out while following the view */
    int64_t retry_ms; /* after an error; 0: no error */

    uint32_t bad_run, bad_slot, tries; /* a directory that could not be read */
    uint32_t passed_run, passed_slot;  /* after the last slot skipped for that */
    uint64_t unreadable;
    struct record_place unreadable_last[LOGGED]; /* already logged */
};

/* ---- the latest slices: a consumer that takes freshly loaded jobs finds the bodies here ---- */

/* Returns its size in memory. */
static size_t slice_bytes(const struct preload_slice *slice)
{
    return sizeof *slice + slice->bytes.cap + slice->items.cap * sizeof *slice->items.at;
}

static void slice_free(struct preload_slice *slice)
{
    if (!slice)
        return;
    buffer_fini(&slice->bytes);
    preload_items_fini(&slice->items);
    preload_passes_fini(&slice->passes);
    preload_wishes_fini(&slice->wishes);
    free(slice);
}

static struct preload_slice *recent_at(const struct preload *preload, uint32_t at)
{
    return preload->recent[(preload->recent_first + at) % RECENT_SLICES];
}

/* Keeps a slice for reuse, possibly with its memory. */
static void spare_give(struct preload *preload, struct preload_slice *slice)
{
    if (preload->spare)
        slice_free(slice);
    else
        preload->spare = slice;
}

/* Drops the oldest slice. Returns false if it is not loaded yet. */
static bool recent_let_oldest_go(struct preload *preload)
{
    struct preload_slice *oldest = recent_at(preload, 0);
    if (oldest->run)
        return false;
    preload->recent_bytes -= slice_bytes(oldest);
    preload->recent_first = (preload->recent_first + 1) % RECENT_SLICES;
    preload->recent_count--;
    spare_give(preload, oldest);
    return true;
}

/* Frees the data that only reading needed, and unused memory of items and bytes. */
static void slice_trim(struct preload_slice *slice)
{
    preload_passes_fini(&slice->passes);
    preload_wishes_fini(&slice->wishes);
    if (slice->items.count < slice->items.cap / 2) {
        struct preload_item *items =
            realloc(slice->items.at, slice->items.count * sizeof *slice->items.at);
        if (items) {
            slice->items.at = items;
            slice->items.cap = slice->items.count;
        }
    }
    if (slice->bytes.len < slice->bytes.cap / 2) {
        char *at = realloc(slice->bytes.at, slice->bytes.len ? slice->bytes.len : 1);
        if (at) {
            slice->bytes.at = at;
            slice->bytes.cap = slice->bytes.len ? slice->bytes.len : 1;
        }
    }
}

/* Adds a slice to the recent ones, and drops the oldest of them. */
static void recent_add(struct preload *preload, struct preload_slice *slice)
{
    slice_trim(slice);
    while (preload->recent_count && (preload->recent_count == RECENT_SLICES ||
                                     preload->recent_bytes + slice_bytes(slice) > RECENT_BYTES_MAX))
        if (!recent_let_oldest_go(preload))
            break; /* at most two wait to be loaded */
    uint32_t at = (preload->recent_first + preload->recent_count) % RECENT_SLICES;
    preload->recent[at] = slice;
    preload->recent_count++;
    preload->recent_bytes += slice_bytes(slice);
}

static const struct preload_item *slice_find(const struct preload_slice *slice, uint32_t slot)
{
    uint32_t low = 0, high = (uint32_t)slice->items.count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (slice->items.at[middle].slot < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low < slice->items.count && slice->items.at[low].slot == slot ? &slice->items.at[low]
                                                                         : NULL;
}

bool preload_recent(const struct preload *preload, struct record_place place, struct slice *out)
{
    if (!record_place_is_run(place))
        return false;
    for (uint32_t left = preload->recent_count; left; left--) {
        const struct preload_slice *slice = recent_at(preload, left - 1);
        if (slice->number != record_place_run(place) || !slice->items.count)
            continue;
        const struct preload_item *item = slice_find(slice, place.at);
        if (!item || !item->bytes || item->bytes != place.bytes)
            continue;
        *out = slice_make(slice->bytes.at + item->at, item->bytes);
        return true;
    }
    return false;
}

static void recent_fini(struct preload *preload)
{
    while (preload->recent_count) {
        slice_free(recent_at(preload, 0));
        preload->recent_first = (preload->recent_first + 1) % RECENT_SLICES;
        preload->recent_count--;
    }
    slice_free(preload->spare);
    preload->spare = NULL;
}

/*
 * ---- reading a slice, on the scout's thread ----
 *
 * The directory alone decides which records are read. Skipped slots are recorded, for the shard's
 * thread to note.
 */

/* Records that the slot is skipped. */
static int slice_pass_by(struct preload_slice *slice, uint32_t slot, const struct run_slot *entry)
{
    struct preload_pass pass = {.when_ms = entry->when_ms,
                                .slot = slot,
                                .topic = entry->topic & INT32_MAX,
                                .has_group = entry->group != 0};
    if (preload_passes_add(&slice->passes, pass))
        return 0;
    slice->no_memory = true;
    return -ENOMEM;
}

/* Returns whether jobs of this topic are skipped. */
static bool topic_is_held(const struct preload_slice *slice, uint32_t topic)
{
    return preload_section_waits(slice->section) && topic < slice->run->topic_count &&
           atomic_load_explicit(&slice->run->topics[topic]->is_held, memory_order_relaxed);
}

/* Returns the wish for jobs of a group. */
static struct preload_wish *slice_wish(struct preload_slice *slice, uint32_t mark)
{
    size_t low = 0, high = slice->wishes.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (slice->wishes.at[middle].mark < mark)
            low = middle + 1;
        else
            high = middle;
    }
    return low < slice->wishes.count && slice->wishes.at[low].mark == mark ? &slice->wishes.at[low]
                                                                           : &slice->rest;
}

/* Decides for a slot of the topic that is refilled, like slice_wants. */
static int slice_wants_group(struct preload_slice *slice, uint32_t slot,
                             const struct run_slot *entry)
{
    struct preload_wish *wish = slice_wish(slice, entry->group);
    if (!wish->max || slot < wish->from || slot > wish->stop)
        return 0;
    if (wish->got < wish->max) {
        wish->got++;
        return 1;
    }
    wish->stop = slot;
    wish->stop_ms = entry->when_ms;
    return --slice->wishes_open ? 0 : -EAGAIN;
}

/* Decides for run_scan. Returns 1 to read the record, 0 not to, -EAGAIN if this slice is full. */
static int slice_wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct preload_slice *slice = ctx;
    if (slice->looked == SLICE_LOOKED_MAX)
        return -EAGAIN;
    if (entry->when_ms > slice->limit_ms) {
        slice->stop_slot = slot;
        slice->stop_ms = entry->when_ms;
        return -EAGAIN;
    }
    slice->looked++;
    slice->looked_ms = entry->when_ms;
    if (!alive_test(&slice->depot_run->alive, slot) ||
        (slice->is_of_topic && entry->topic != slice->topic) ||
        (slice->is_of_kept && !slice->run->topics[entry->topic]->keeps_waiting))
        return 0;
    if (!slice->refill && topic_is_held(slice, entry->topic))
        return slice_pass_by(slice, slot, entry);
    if (slice->wanted == slice->jobs_max)
        return -EAGAIN;
    int wants = slice->refill ? slice_wants_group(slice, slot, entry) : 1;
    slice->wanted += wants == 1;
    return wants;
}

/* Stores a record for run_scan; 0 bytes if it is damaged. */
static bool slice_keep(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    struct preload_slice *slice = ctx;
    char *into = NULL;
    if (preload_items_reserve(&slice->items, slice->items.count + 1))
        into = buffer_reserve(&slice->bytes, record.len ? record.len : 1);
    if (!into) {
        slice->no_memory = true;
        slice->refused = slot;
        return false;
    }
    if (record.len)
        memcpy(into, record.at, record.len);
    slice->items.at[slice->items.count++] = (struct preload_item){.when_ms = entry->when_ms,
                                                                  .at = slice->bytes.len,
                                                                  .bytes = (uint32_t)record.len,
                                                                  .slot = slot,
                                                                  .topic = entry->topic};
    slice->bytes.len += record.len;
    return slice->bytes.len < SLICE_BYTES_MAX;
}

/* Drops the skips after the end of a scan that ended early: the next scan repeats them. */
static void slice_trim_passes(struct preload_slice *slice)
{
    while (slice->passes.count && slice->passes.at[slice->passes.count - 1].slot >= slice->next)
        slice->passes.count--;
}

/* Reads the slice. The result is in `error` and `next`. [scout] */
static void slice_read(struct preload_slice *slice)
{
    struct run_scan scan = {.first = slice->first,
                            .end = slice->end,
                            .wants = slice_wants,
                            .each = slice_keep,
                            .ctx = slice};
    slice->next = slice->first;
    slice->refused = UINT32_MAX;
    slice->stop_slot = UINT32_MAX;
    slice->error = depot_scan(slice->depot_run, &scan, &slice->next);
    if (slice->refused < slice->next)
        slice->next = slice->refused;
    if (!slice->error && slice->no_memory)
        slice->error = -ENOMEM;
    slice_trim_passes(slice);
}

static void slice_on_scout(struct work *work)
{
    slice_read((struct preload_slice *)(void *)work);
}

/* ---- creation and release of slices ---- */

/* Gives up a slice whose run has just left the view, or for which there is no memory. */
static void slice_give_up(struct preload_slice *slice)
{
    if (slice->view)
        depot_let_go(slice->view);
    slice->view = NULL;
    spare_give(slice->preload, slice);
}

/* Creates a slice. Returns NULL when out of memory, or if the run has just left the view. */
static struct preload_slice *slice_new(struct preload *preload, struct preload_run *run,
                                       enum job_section section)
{
    struct preload_slice *slice = preload->spare;
    preload->spare = NULL;
    if (!slice) {
        slice = calloc(1, sizeof *slice);
        if (!slice)
            return NULL;
        buffer_init(&slice->bytes, SIZE_MAX / 2);
    }
    buffer_clear_and_trim(&slice->bytes, SLICE_BYTES_KEPT);
    slice->work.perform = slice_on_scout;
    slice->preload = preload;
    slice->view = depot_hold(preload->shard->depot);
    slice->depot_run = slice->view ? depot_view_run(slice->view, run->number) : NULL;
    if (!slice->depot_run) {
        slice_give_up(slice);
        return NULL;
    }
    slice->run = run;
    run->holds++;
    slice->refill = NULL;
    slice->is_of_topic = slice->is_of_kept = false;
    slice->section = section;
    slice->number = run->number;
    slice->epoch = run->epoch;
    slice->jobs_max = SLICE_JOBS_MAX;
    slice->looked = slice->wanted = slice->loaded = 0;
    slice->items.count = slice->passes.count = slice->wishes.count = 0;
    slice->no_memory = false;
    slice->error = 0;
    return slice;
}

static bool is_refilling(const struct preload_slice *slice, const struct preload_place *place,
                         enum job_section section)
{
    return slice && slice->refill == place && slice->section == section;
}

/* Ends a slice that is loaded completely or no longer needed: its run may be released. */
static void slice_end(struct preload_slice *slice)
{
    struct preload *preload = slice->preload;
    struct preload_run *run = slice->run;
    struct preload_place *refilled = slice->refill;
    depot_let_go(slice->view);
    slice->view = NULL;
    slice->depot_run = NULL;
    slice->run = NULL;
    slice->refill = NULL;
    bool goes_on = is_refilling(preload->reading, refilled, slice->section) ||
                   is_refilling(preload->queue[0], refilled, slice->section) ||
                   is_refilling(preload->queue[1], refilled, slice->section);
    preload_run_let_go(&preload->topics, run, goes_on ? NULL : refilled, slice->section);
}

/* ---- choosing the next slice ---- */

/* Returns when (inner clock) a cursor's next slot falls due. */
static int64_t cursor_up_ms(const struct preload *preload, const struct preload_run *run,
                            enum job_section section)
{
    const struct preload_cursor *cursor = &run->cursors[section];
    if (cursor->next >= cursor->end)
        return INT64_MAX;
    return job_section_is_wall(section) ? cursor->when_ms - preload->shard->skew_ms
                                        : cursor->when_ms;
}

/* Finds the first cursor of all. */
static struct preload_first first_look(const struct preload *preload)
{
    struct preload_first first = {
        .is_known = true, .skew_ms = preload->shard->skew_ms, .up_ms = INT64_MAX};
    for (uint32_t i = 0; i < preload->topics.run_count; i++)
        for (enum job_section at = SECTION_DELAYED; at <= SECTION_REMEMBERED; at++) {
            int64_t up_ms = cursor_up_ms(preload, preload->topics.runs[i], at);
            if (up_ms >= first.up_ms)
                continue;
            first.up_ms = up_ms;
            first.run = preload->topics.runs[i];
            first.section = at;
        }
    return first;
}

/* Returns the first cursor. Cached, because every shard step needs it, and there may be hundreds of
 * runs. */
static const struct preload_first *first_up(struct preload *preload)
{
    if (!preload->first.is_known || preload->first.skew_ms != preload->shard->skew_ms)
        preload->first = first_look(preload);
    return &preload->first;
}

/* Returns how long before its jobs are due a slice is read. */
static int64_t lead_ms(const struct preload *preload)
{
    return preload->horizon_ms - preload->horizon_ms / 4;
}

/* Returns when (inner clock) the next slice is to be read by time. */
static int64_t next_slice_ms(struct preload *preload)
{
    int64_t up_ms = first_up(preload)->up_ms;
    return up_ms == INT64_MAX ? up_ms : up_ms - lead_ms(preload);
}

/* Creates a slice at the first cursor. Returns NULL if nothing falls due soon. */
static struct preload_slice *next_by_time(struct preload *preload, struct engine_now now)
{
    const struct preload_first *first = first_up(preload);
    if (first->up_ms == INT64_MAX || first->up_ms > now.inner_ms + lead_ms(preload)) {
        preload_topics_caught_up(&preload->topics, now);
        return NULL;
    }
    struct preload_slice *slice = slice_new(preload, first->run, first->section);
    if (!slice) {
        preload->retry_ms = now.inner_ms + RETRY_MS;
        return NULL;
    }
    slice->first = first->run->cursors[first->section].next;
    slice->end = first->run->cursors[first->section].end;
    slice->limit_ms = now.inner_ms + preload->horizon_ms;
    if (job_section_is_wall(first->section))
        slice->limit_ms += now.skew_ms;
    return slice;
}

/* Creates a slice of a held topic that has room again. Returns NULL if there is no such topic. */
static struct preload_slice *next_to_refill(struct preload *preload, struct engine_now now)
{
    enum job_section section;
    struct preload_place *place = preload_topics_refill(&preload->topics, &section, now);
    if (!place)
        return NULL;
    struct preload_slice *slice = slice_new(preload, place->run, section);
    if (!slice) {
        preload->retry_ms = now.inner_ms + RETRY_MS;
        return NULL;
    }
    if (!preload_place_wish(&preload->topics, place, slice)) {
        preload->retry_ms = now.inner_ms + RETRY_MS;
        slice_end(slice);
        spare_give(preload, slice);
        return NULL;
    }
    slice->refill = place;
    slice->is_of_topic = true;
    slice->topic = place->number;
    slice->end = place->run->cursors[section].next;
    slice->limit_ms = INT64_MAX;
    return slice;
}

/* ---- unreadable slots ---- */

/* Returns whether the slot has been logged, and remembers it: it may be met again. */
static bool slot_is_logged(struct preload *preload, uint32_t run, uint32_t slot)
{
    for (unsigned i = 0; i < LOGGED; i++)
        if (preload->unreadable_last[i].file == run && preload->unreadable_last[i].at == slot)
            return true;
    preload->unreadable_last[preload->unreadable % LOGGED] =
        (struct record_place){.file = run, .at = slot};
    return false;
}

/* Counts and logs a slot that is skipped permanently. */
static void slot_cannot_be_read(struct preload *preload, uint32_t run, uint32_t slot,
                                const char *why)
{
    if (slot_is_logged(preload, run, slot))
        return;
    preload->unreadable++;
    log_event(LOG_ERROR, "stored job cannot be read, skipped",
              LOG_NUMBER("shard", preload->shard->options.index), LOG_NUMBER("run", run),
              LOG_NUMBER("slot", slot), LOG_TEXT("error", why));
}

/* Returns whether a retry may succeed: not if the same place has failed several times. */
static bool is_worth_a_try(struct preload *preload, const struct preload_slice *slice)
{
    if (preload->bad_run != slice->number || preload->bad_slot != slice->next)
        preload->tries = 0;
    preload->bad_run = slice->number;
    preload->bad_slot = slice->next;
    return slice->error != -EBADMSG && ++preload->tries < TRIES;
}

/* Handles a read error. If retrying does not help, an unreadable directory is skipped slot by
 * slot. */
static void slice_took_error(struct preload *preload, struct preload_slice *slice,
                             struct engine_now now)
{
    /* Only the first slot of a block is logged and retried. */
    bool goes_on = preload->passed_run == slice->number && preload->passed_slot == slice->next;
    if (slice->error == -ENOMEM || (!goes_on && is_worth_a_try(preload, slice))) {
        preload->retry_ms = now.inner_ms + RETRY_MS;
        return;
    }
    if (slice->next >= slice->end)
        return;
    if (goes_on)
        preload->unreadable += !slice->refill; /* those were counted before, when skipped */
    else
        slot_cannot_be_read(preload, slice->number, slice->next, strerror(-slice->error));
    slice->next++;
    preload->passed_run = slice->number;
    preload->passed_slot = slice->next;
}

/* ---- after reading ---- */

/* Drops a slice that has nothing to load. */
static void slice_drop(struct preload *preload, struct preload_slice *slice)
{
    slice_end(slice);
    spare_give(preload, slice);
}

/* Processes a slice that the scout has read: moves cursors, notes the skipped slots, and queues it
 * for loading. */
static void slice_took_in(struct preload *preload, struct preload_slice *slice,
                          struct engine_now now)
{
    if (preload_slice_counts(slice) && !preload_run_make_places(slice)) {
        /* Nothing of the slice has been counted yet: read it again. */
        preload->retry_ms = now.inner_ms + RETRY_MS;
        slice_drop(preload, slice);
        return;
    }
    if (slice->error)
        slice_took_error(preload, slice, now);
    preload_topics_take_in(&preload->topics, slice, now);
    preload->first.is_known = false;
    if (!slice->items.count) {
        slice_drop(preload, slice);
        return;
    }
    preload->queue[preload->queue[0] ? 1 : 0] = slice;
    recent_add(preload, slice);
}

static void slice_on_back(struct work *work)
{
    struct preload_slice *slice = (struct preload_slice *)(void *)work;
    struct preload *preload = slice->preload;
    assert(preload->reading == slice);
    preload->reading = NULL;
    slice_took_in(preload, slice, shard_now(preload->shard));
}

/* Gives the scout the next slice, if there is one. */
static void read_next(struct preload *preload, struct engine_now now)
{
    struct preload_slice *slice = NULL;
    if (!preload->refilled_last)
        slice = next_to_refill(preload, now);
    if (!slice)
        slice = next_by_time(preload, now);
    if (!slice && preload->refilled_last)
        slice = next_to_refill(preload, now);
    if (!slice) {
        preload->refilled_last = false;
        return;
    }
    preload->refilled_last = slice->refill != NULL;
    preload->reading = slice;
    slice->work.done = slice_on_back;
    worker_give(preload->shard->scout, &slice->work);
}

/* ---- loading ---- */

/* Ends the oldest slice. */
static void queue_shift(struct preload *preload)
{
    slice_end(preload->queue[0]);
    preload->queue[0] = preload->queue[1];
    preload->queue[1] = NULL;
}

static struct preload_topic *item_topic(struct preload_slice *slice,
                                        const struct preload_item *item)
{
    return slice->run->topics[item->topic];
}

/* Drops everything that is not loaded yet. */
static void load_none(struct preload *preload)
{
    while (preload->queue[0]) {
        struct preload_slice *slice = preload->queue[0];
        for (uint32_t i = slice->loaded; i < slice->items.count; i++)
            item_topic(slice, &slice->items.at[i])->reading--;
        queue_shift(preload);
    }
}

/* Loads a job. Returns 0, also if it can never be loaded, or -ENOMEM. */
static int slice_load_one(struct preload_slice *slice, const struct preload_item *item,
                          struct engine_now now)
{
    struct record_place place = {
        .file = slice->number | RECORD_IN_RUN, .at = item->slot, .bytes = item->bytes};
    int failed = -EBADMSG;
    if (item->bytes)
        failed = shard_load(slice->preload->shard,
                            slice_make(slice->bytes.at + item->at, item->bytes), place, now);
    if (failed == -ENOMEM)
        return failed;
    if (failed && failed != -ENOENT)
        slot_cannot_be_read(slice->preload, slice->number, item->slot, "the record is damaged");
    return 0;
}

/* Loads some of the jobs that were read. Returns whether more can be loaded now. */
static bool load_some(struct preload *preload, struct engine_now now)
{
    int left = LOAD_AT_ONCE;
    while (preload->queue[0]) {
        struct preload_slice *slice = preload->queue[0];
        for (; slice->loaded < slice->items.count; slice->loaded++) {
            const struct preload_item *item = &slice->items.at[slice->loaded];
            if (!left--)
                return true;
            uint64_t before = engine_entries(preload->shard->engine);
            if (slice_load_one(slice, item, now) == -ENOMEM) {
                trouble_note(TROUBLE_LOAD, preload->shard->options.index, true);
                log_event(LOG_WARN, "no memory for jobs that are due soon, trying again",
                          LOG_NUMBER("shard", preload->shard->options.index));
                preload->retry_ms = now.inner_ms + RETRY_MS;
                return false;
            }
            preload_topics_count_loaded(&preload->topics, slice, item,
                                        engine_entries(preload->shard->engine) != before);
        }
        trouble_note(TROUBLE_LOAD, preload->shard->options.index, false);
        queue_shift(preload);
    }
    return false;
}

static int slice_load_all(struct preload_slice *slice, struct engine_now now)
{
    for (uint32_t i = 0; i < slice->items.count; i++) {
        int failed = slice_load_one(slice, &slice->items.at[i], now);
        if (failed)
            return failed;
    }
    return 0;
}

/* Loads a whole section, blocking. Returns 0 or a negative errno. */
static int load_section(struct preload *preload, struct preload_run *run, enum job_section section)
{
    struct preload_cursor *cursor = &run->cursors[section];
    int failed = 0;
    while (!failed && cursor->next < cursor->end) {
        struct preload_slice *slice = slice_new(preload, run, section);
        if (!slice)
            return -ENOMEM;
        slice->first = cursor->next;
        slice->end = cursor->end;
        slice->limit_ms = INT64_MAX;
        slice_read(slice);
        failed = slice->error ? slice->error : slice_load_all(slice, shard_now(preload->shard));
        cursor->next = slice->next;
        preload->first.is_known = false;
        slice_end(slice);
        slice_free(slice);
    }
    return failed;
}

/* Loads the waiting jobs of the topics that keep them in memory, blocking. The cursors stay, because the jobs of other topics are
 * loaded later. Returns 0 or a negative errno. */
static int load_kept_section(struct preload *preload, struct preload_run *run,
                             enum job_section section)
{
    const struct preload_cursor *cursor = &run->cursors[section];
    int failed = 0;
    for (uint32_t next = cursor->next; !failed && next < cursor->end;) {
        struct preload_slice *slice = slice_new(preload, run, section);
        if (!slice)
            return -ENOMEM;
        slice->first = next;
        slice->end = cursor->end;
        slice->limit_ms = INT64_MAX;
        slice->is_of_kept = true;
        slice_read(slice);
        failed = slice->error ? slice->error : slice_load_all(slice, shard_now(preload->shard));
        next = slice->next;
        slice_end(slice);
        slice_free(slice);
    }
    return failed;
}

/* Loads the waiting jobs of those topics of a run that keep all of them in memory. */
static int load_kept_topics(struct preload *preload, struct preload_run *run)
{
    bool has_some = false;
    int failed = 0;
    for (uint32_t i = 0; i < run->topic_count; i++) {
        struct preload_topic *topic = run->topics[i];
        topic->keeps_waiting = engine_keeps_waiting(preload->shard->engine, topic->entry.key);
        has_some |= topic->keeps_waiting;
    }
    for (enum job_section section = SECTION_DELAYED;
         has_some && !failed && section <= SECTION_RETRYING_WALL; section++)
        failed = load_kept_section(preload, run, section);
    return failed;
}

/* ---- creation ---- */

struct preload *preload_new(struct shard *shard)
{
    struct preload *preload = calloc(1, sizeof *preload);
    if (!preload)
        return NULL;
    const struct shard_limits *limits = &shard->options.limits;
    preload->shard = shard;
    preload->horizon_ms = limits->horizon_ms ? limits->horizon_ms : HORIZON_MS;
    preload->topics.grain_ms = preload->horizon_ms / GRAINS ? preload->horizon_ms / GRAINS : 1;
    preload->topics.quota = limits->topic_quota ? limits->topic_quota : TOPIC_QUOTA;
    preload->topics.shard = shard;
    preload->topics.due_next_ms = preload->topics.restart_ms = INT64_MAX;
    list_init(&preload->topics.held);
    list_init(&preload->topics.changed);
    return preload;
}

void preload_free(struct preload *preload)
{
    if (!preload)
        return;
    load_none(preload);
    if (preload->reading) { /* its thread has ended; its letter will not arrive */
        slice_end(preload->reading);
        slice_free(preload->reading);
    }
    preload_topics_fini(&preload->topics);
    recent_fini(preload);
    free(preload);
}

int preload_begin(struct preload *preload, char *error, size_t error_bytes)
{
    int failed = preload_topics_follow(&preload->topics) ? 0 : -ENOMEM;
    for (uint32_t i = 0; !failed && i < preload->topics.run_count; i++) {
        failed = load_section(preload, preload->topics.runs[i], SECTION_LEASED);
        if (!failed)
            failed = load_kept_topics(preload, preload->topics.runs[i]);
        if (failed)
            snprintf(error, error_bytes, "cannot read jobs of run %u: %s, check with 'tarry fsck'",
                     preload->topics.runs[i]->number, strerror(-failed));
    }
    if (failed == -ENOMEM)
        snprintf(error, error_bytes, "out of memory");
    preload->topics.has_begun = !failed;
    return failed;
}

/* ---- steps ---- */

/* Creates cursors for new runs and releases those of runs that left the view. */
static void follow_view(struct preload *preload, struct engine_now now)
{
    const struct depot_view *view = depot_view(preload->shard->depot);
    if (!preload->is_stale && view->generation == preload->topics.generation)
        return;
    preload->is_stale = !preload_topics_follow(&preload->topics);
    preload->first.is_known = false;
    if (preload->is_stale)
        preload->retry_ms = now.inner_ms + RETRY_MS;
}

bool preload_step(struct preload *preload, struct engine_now now)
{
    const struct shard *shard = preload->shard;
    if (!preload->topics.has_begun)
        return false;
    if (shard->stopping || shard->broken) {
        load_none(preload);
        return false;
    }
    if (now.inner_ms < preload->retry_ms)
        return false;
    preload->retry_ms = 0;
    activity_begin("loading of jobs");
    follow_view(preload, now);
    if (preload_topics_step(&preload->topics, now))
        preload->first.is_known = false;
    bool more = load_some(preload, now);
    if (!preload->retry_ms && !preload->reading && !preload->queue[1])
        read_next(preload, now);
    preload_topics_notify(&preload->topics, now);
    return more;
}

bool preload_is_busy(const struct preload *preload)
{
    return preload->reading || preload->queue[0];
}

int64_t preload_next_ms(struct preload *preload)
{
    if (!preload->topics.has_begun || preload->shard->stopping || preload->shard->broken)
        return INT64_MAX;
    if (preload->retry_ms)
        return preload->retry_ms;
    int64_t next_ms = preload->topics.due_next_ms;
    if (!preload->reading && !preload->queue[1]) {
        int64_t slice_ms = next_slice_ms(preload);
        if (slice_ms < next_ms)
            next_ms = slice_ms;
    }
    if (preload->topics.restart_ms < next_ms)
        next_ms = preload->topics.restart_ms;
    if (!preload->reading && !preload->queue[1] &&
        preload_topics_sort_ms(&preload->topics) < next_ms)
        next_ms = preload_topics_sort_ms(&preload->topics);
    return next_ms;
}

uint64_t preload_unreadable(const struct preload *preload)
{
    return preload->unreadable;
}

/* ---- eviction ---- */

/* Returns the time up to which a cursor has passed. Such jobs must not be evicted, since they would
 * not be met again, even if the wall clock has gone back since. */
static int64_t cursor_passed_ms(const struct preload *preload, const struct preload_run *run,
                                enum job_section section)
{
    int64_t at_ms = run->cursors[section].passed_ms;
    return at_ms == INT64_MIN || !job_section_is_wall(section) ? at_ms
                                                               : at_ms - preload->shard->skew_ms;
}

int64_t preload_keep_until_ms(const struct preload *preload, struct engine_now now)
{
    int64_t until_ms = now.inner_ms + preload->horizon_ms;
    const struct preload_slice *reading = preload->reading;
    for (uint32_t i = 0; i < preload->topics.run_count; i++)
        for (enum job_section section = SECTION_DELAYED; section <= SECTION_REMEMBERED; section++) {
            int64_t at_ms = cursor_passed_ms(preload, preload->topics.runs[i], section);
            if (at_ms > until_ms)
                until_ms = at_ms;
        }
    if (reading && !reading->refill) {
        int64_t at_ms = reading->limit_ms;
        if (job_section_is_wall(reading->section))
            at_ms -= preload->shard->skew_ms;
        if (at_ms > until_ms)
            until_ms = at_ms;
    }
    return until_ms + 1;
}

uint64_t preload_ready_max(struct preload *preload)
{
    uint64_t max = preload->topics.quota + READY_SLACK;
    if (engine_entries(preload->shard->engine) > max)
        preload_topics_over(&preload->topics, max, shard_now(preload->shard));
    return max;
}
