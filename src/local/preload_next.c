/*
 * Which slice is read next: what comes up first, and in turn with it the topics to refill. A slice
 * is read when its first job comes up within three quarters of the horizon, and then holds what
 * comes up within all of it: so jobs that trickle in come some at a time.
 */
#include "local/preload_private.h"

#include <errno.h>
#include <stdlib.h>

enum { RETRY_MS = 1000, TRIES = 3 };

int64_t preload_up_ms(const struct preload *preload, const struct preload_run *run,
                      enum job_section section)
{
    const struct preload_cursor *cursor = &run->cursors[section];

    if (cursor->next >= cursor->end)
        return INT64_MAX;
    return job_section_is_wall(section) ? cursor->when_ms - preload->shard->skew_ms
                                        : cursor->when_ms;
}

static struct preload_first look(const struct preload *preload)
{
    struct preload_first first = {
        .is_known = true, .skew_ms = preload->shard->skew_ms, .up_ms = INT64_MAX};

    for (uint32_t i = 0; i < preload->run_count; i++)
        for (enum job_section at = SECTION_DELAYED; at <= SECTION_REMEMBERED; at++) {
            int64_t up_ms = preload_up_ms(preload, preload->runs[i], at);
            if (up_ms >= first.up_ms)
                continue;
            first.up_ms = up_ms;
            first.run = preload->runs[i];
            first.section = at;
        }
    return first;
}

/* Every step of the shard asks for it, and there may be hundreds of runs. */
static const struct preload_first *first_up(struct preload *preload)
{
    if (!preload->first.is_known || preload->first.skew_ms != preload->shard->skew_ms)
        preload->first = look(preload);
    return &preload->first;
}

static int64_t lead_ms(const struct preload *preload)
{
    return preload->horizon_ms - preload->horizon_ms / 4;
}

int64_t preload_slice_ms(struct preload *preload)
{
    int64_t up_ms = first_up(preload)->up_ms;

    return up_ms == INT64_MAX ? up_ms : up_ms - lead_ms(preload);
}

/* ---- beginning ---- */

/* NULL: nothing comes up. */
static struct preload_slice *next_by_time(struct preload *preload, struct engine_now now)
{
    const struct preload_first *first = first_up(preload);

    if (first->up_ms == INT64_MAX || first->up_ms > now.inner_ms + lead_ms(preload)) {
        preload_topics_caught_up(preload, now);
        return NULL;
    }
    struct preload_slice *slice = preload_slice_new(preload, first->run, first->section);
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

/* What of the topic was passed by comes up first. */
static struct preload_place *first_place(const struct preload *preload,
                                         const struct preload_topic *topic,
                                         enum job_section *section)
{
    struct preload_place *first = NULL;
    int64_t first_ms = INT64_MAX, up_ms = 0;

    for (struct list *at = topic->places.next; at != &topic->places; at = at->next) {
        struct preload_place *place = list_entry(at, struct preload_place, list);
        unsigned in = preload_place_first(preload, place, &up_ms);
        if (in == PRELOAD_WAITS || (first && up_ms >= first_ms))
            continue;
        first = place;
        first_ms = up_ms;
        *section = in + PRELOAD_WAIT_FIRST;
    }
    return first;
}

static struct preload_slice *next_to_refill(struct preload *preload, struct engine_now now)
{
    struct preload_topic *topic = preload_topic_to_refill(preload);
    enum job_section section;

    if (!topic)
        return NULL;
    struct preload_place *place = first_place(preload, topic, &section);
    if (!place)
        return NULL;
    struct preload_slice *slice = preload_slice_new(preload, place->run, section);
    if (!slice) {
        preload->retry_ms = now.inner_ms + RETRY_MS;
        return NULL;
    }
    uint64_t loaded = preload_topic_loaded(preload, topic), quota = preload_topic_quota(preload);
    uint64_t room = quota > loaded ? quota - loaded : 1;
    if (room < slice->jobs_max)
        slice->jobs_max = (uint32_t)room;
    slice->refill = place;
    slice->topic = place->number;
    slice->first = place->noted[section - PRELOAD_WAIT_FIRST].from;
    slice->end = place->run->cursors[section].next;
    slice->limit_ms = INT64_MAX;
    return slice;
}

void preload_read_next(struct preload *preload, struct engine_now now)
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
    worker_give(preload->shard->scout, &slice->work);
}

/* ---- what was read ---- */

/* Whether it may go better next time: not where the same place failed some times already. */
static bool is_worth_a_try(struct preload *preload, const struct preload_slice *slice)
{
    if (preload->bad_run != slice->number || preload->bad_slot != slice->next)
        preload->tries = 0;
    preload->bad_run = slice->number;
    preload->bad_slot = slice->next;
    return slice->error != -EBADMSG && ++preload->tries < TRIES;
}

/* A directory that cannot be read is passed by slot after slot, where trying again does not help.
 */
static void took_error(struct preload *preload, struct preload_slice *slice, struct engine_now now)
{
    /* Of a block only the first one is logged, and tried again. */
    bool goes_on = preload->passed_run == slice->number && preload->passed_slot == slice->next;

    if (slice->error == -ENOMEM || (!goes_on && is_worth_a_try(preload, slice))) {
        preload->retry_ms = now.inner_ms + RETRY_MS;
        return;
    }
    if (slice->next >= slice->end)
        return;
    if (goes_on)
        preload->unreadable += !slice->refill; /* those were met before, when passed by */
    else
        preload_cannot_read(preload, slice->number, slice->next, strerror(-slice->error));
    slice->next++;
    preload->passed_run = slice->number;
    preload->passed_slot = slice->next;
}

static void advance_cursor(struct preload_slice *slice)
{
    struct preload_cursor *cursor = &slice->run->cursors[slice->section];

    slice->preload->first.is_known = false;
    if (slice->item_count && slice->items[slice->item_count - 1].when_ms > cursor->passed_ms)
        cursor->passed_ms = slice->items[slice->item_count - 1].when_ms;
    if (slice->pass_count && slice->passes[slice->pass_count - 1].when_ms > cursor->passed_ms)
        cursor->passed_ms = slice->passes[slice->pass_count - 1].when_ms;
    if (cursor->passed_ms > cursor->when_ms)
        cursor->when_ms = cursor->passed_ms;
    if (slice->stop_slot == slice->next)
        cursor->when_ms = slice->stop_ms;
    cursor->next = alive_next(&slice->depot_run->alive, slice->next, cursor->end);
}

static bool make_places(const struct preload_slice *slice)
{
    for (uint32_t i = 0; i < slice->pass_count; i++)
        if (!preload_place_get(slice->run, slice->passes[i].topic))
            return false;
    return true;
}

static void note_passes(struct preload *preload, struct preload_slice *slice, struct engine_now now)
{
    for (uint32_t i = 0; i < slice->pass_count; i++) {
        const struct preload_pass *pass = &slice->passes[i];
        preload_place_note(preload, slice->run->places[pass->topic], slice->section, pass->slot,
                           pass->when_ms, now);
    }
}

static void advance_refill(struct preload_slice *slice)
{
    struct preload_place *place = slice->refill;
    unsigned at = slice->section - PRELOAD_WAIT_FIRST;
    const struct preload_cursor *cursor = &slice->run->cursors[slice->section];

    if (!place->noted[at].open)
        return;
    if (slice->item_count)
        place->noted[at].when_ms = slice->items[slice->item_count - 1].when_ms;
    place->noted[at].from = alive_next(&slice->depot_run->alive, slice->next, cursor->next);
}

/* Topics that have enough now are held before the next slice is read. */
static void count_items(struct preload *preload, struct preload_slice *slice)
{
    uint64_t quota;

    preload->slices++;
    for (uint32_t i = 0; i < slice->item_count; i++)
        slice->run->topics[slice->items[i].topic]->reading++;
    if (!preload_part_waits(slice->section))
        return;
    for (uint32_t i = 0; i < slice->item_count; i++) {
        struct preload_topic *topic = slice->run->topics[slice->items[i].topic];
        if (topic->slice == preload->slices)
            continue;
        topic->slice = preload->slices;
        preload_topic_use(preload, topic);
        quota = preload_topic_quota(preload);
        if (preload_topic_loaded(preload, topic) >= quota)
            preload_topic_hold(preload, topic);
    }
}

/* Jobs that were carried are met again. */
static void meet(struct preload *preload, struct preload_slice *slice)
{
    for (uint32_t i = 0; preload->carries && i < slice->item_count; i++) {
        struct preload_topic *topic = slice->run->topics[slice->items[i].topic];
        if (!topic->carried)
            continue;
        topic->carried--;
        preload_topic_changed(preload, topic);
    }
}

static void drop(struct preload *preload, struct preload_slice *slice)
{
    preload_slice_end(slice);
    preload_recent_give_spare(preload, slice);
}

void preload_took_in(struct preload *preload, struct preload_slice *slice, struct engine_now now)
{
    bool counts = !slice->run->is_gone && slice->epoch == slice->run->epoch;
    if (counts && !make_places(slice)) { /* nothing has counted yet: it is read once more */
        preload->retry_ms = now.inner_ms + RETRY_MS;
        drop(preload, slice);
        return;
    }
    if (slice->error)
        took_error(preload, slice, now);
    if (counts && slice->refill)
        advance_refill(slice);
    if (counts && !slice->refill) {
        note_passes(preload, slice, now);
        advance_cursor(slice);
        meet(preload, slice);
    }
    count_items(preload, slice);
    if (!slice->item_count) {
        drop(preload, slice);
        return;
    }
    preload->queue[preload->queue[0] ? 1 : 0] = slice;
    preload_recent_add(preload, slice);
}
