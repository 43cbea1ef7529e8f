/*
 * Which slice is read next: what comes up first, and in turn with it the topics to refill. A slice
 * is read when its first job comes up within three quarters of the horizon, and then holds what
 * comes up within all of it: so jobs that trickle in come some at a time.
 */
#include "local/loading_private.h"

#include <errno.h>
#include <stdlib.h>

enum { RETRY_MS = 1000, TRIES = 3 };

int64_t loading_up_ms(const struct loading *loading, const struct loading_run *run,
                      enum job_part part)
{
    const struct loading_cursor *cursor = &run->cursors[part];

    if (cursor->next >= cursor->end)
        return INT64_MAX;
    return job_part_is_wall(part) ? cursor->when_ms - loading->shard->skew_ms : cursor->when_ms;
}

static struct loading_first look(const struct loading *loading)
{
    struct loading_first first = {
        .is_known = true, .skew_ms = loading->shard->skew_ms, .up_ms = INT64_MAX};

    for (uint32_t i = 0; i < loading->run_count; i++)
        for (enum job_part at = PART_DELAYED; at <= PART_REMEMBERED; at++) {
            int64_t up_ms = loading_up_ms(loading, loading->runs[i], at);
            if (up_ms >= first.up_ms)
                continue;
            first.up_ms = up_ms;
            first.run = loading->runs[i];
            first.part = at;
        }
    return first;
}

/* Every step of the shard asks for it, and there may be hundreds of runs. */
static const struct loading_first *first_up(struct loading *loading)
{
    if (!loading->first.is_known || loading->first.skew_ms != loading->shard->skew_ms)
        loading->first = look(loading);
    return &loading->first;
}

static int64_t lead_ms(const struct loading *loading)
{
    return loading->horizon_ms - loading->horizon_ms / 4;
}

int64_t loading_slice_ms(struct loading *loading)
{
    int64_t up_ms = first_up(loading)->up_ms;

    return up_ms == INT64_MAX ? up_ms : up_ms - lead_ms(loading);
}

/* ---- beginning ---- */

/* NULL: nothing comes up. */
static struct loading_slice *next_by_time(struct loading *loading, struct engine_now now)
{
    const struct loading_first *first = first_up(loading);

    if (first->up_ms == INT64_MAX || first->up_ms > now.inner_ms + lead_ms(loading)) {
        loading_topics_caught_up(loading, now);
        return NULL;
    }
    struct loading_slice *slice = loading_slice_new(loading, first->run, first->part);
    if (!slice) {
        loading->retry_ms = now.inner_ms + RETRY_MS;
        return NULL;
    }
    slice->first = first->run->cursors[first->part].next;
    slice->end = first->run->cursors[first->part].end;
    slice->limit_ms = now.inner_ms + loading->horizon_ms;
    if (job_part_is_wall(first->part))
        slice->limit_ms += now.skew_ms;
    return slice;
}

/* What of the topic was passed by comes up first. */
static struct loading_place *first_place(const struct loading *loading,
                                         const struct loading_topic *topic, enum job_part *part)
{
    struct loading_place *first = NULL;
    int64_t first_ms = INT64_MAX, up_ms = 0;

    for (struct list *at = topic->places.next; at != &topic->places; at = at->next) {
        struct loading_place *place = list_entry(at, struct loading_place, list);
        unsigned in = loading_place_first(loading, place, &up_ms);
        if (in == LOADING_WAITS || (first && up_ms >= first_ms))
            continue;
        first = place;
        first_ms = up_ms;
        *part = in + LOADING_WAIT_FIRST;
    }
    return first;
}

static struct loading_slice *next_to_refill(struct loading *loading, struct engine_now now)
{
    struct loading_topic *topic = loading_topic_to_refill(loading);
    enum job_part part;

    if (!topic)
        return NULL;
    struct loading_place *place = first_place(loading, topic, &part);
    if (!place)
        return NULL;
    struct loading_slice *slice = loading_slice_new(loading, place->run, part);
    if (!slice) {
        loading->retry_ms = now.inner_ms + RETRY_MS;
        return NULL;
    }
    uint64_t loaded = loading_topic_loaded(loading, topic), quota = loading_topic_quota(loading);
    uint64_t room = quota > loaded ? quota - loaded : 1;
    if (room < slice->jobs_max)
        slice->jobs_max = (uint32_t)room;
    slice->refill = place;
    slice->topic = place->number;
    slice->first = place->noted[part - LOADING_WAIT_FIRST].from;
    slice->end = place->run->cursors[part].next;
    slice->limit_ms = INT64_MAX;
    return slice;
}

void loading_read_next(struct loading *loading, struct engine_now now)
{
    struct loading_slice *slice = NULL;

    if (!loading->refilled_last)
        slice = next_to_refill(loading, now);
    if (!slice)
        slice = next_by_time(loading, now);
    if (!slice && loading->refilled_last)
        slice = next_to_refill(loading, now);
    if (!slice) {
        loading->refilled_last = false;
        return;
    }
    loading->refilled_last = slice->refill != NULL;
    loading->reading = slice;
    worker_give(loading->shard->scout, &slice->work);
}

/* ---- what was read ---- */

/* Whether it may go better next time: not where the same place failed some times already. */
static bool is_worth_a_try(struct loading *loading, const struct loading_slice *slice)
{
    if (loading->bad_run != slice->number || loading->bad_slot != slice->next)
        loading->tries = 0;
    loading->bad_run = slice->number;
    loading->bad_slot = slice->next;
    return slice->error != -EBADMSG && ++loading->tries < TRIES;
}

/* A directory that cannot be read is passed by slot after slot, where trying again does not help.
 */
static void took_error(struct loading *loading, struct loading_slice *slice, struct engine_now now)
{
    /* Of a block only the first one is logged, and tried again. */
    bool goes_on = loading->passed_run == slice->number && loading->passed_slot == slice->next;

    if (slice->error == -ENOMEM || (!goes_on && is_worth_a_try(loading, slice))) {
        loading->retry_ms = now.inner_ms + RETRY_MS;
        return;
    }
    if (slice->next >= slice->end)
        return;
    if (goes_on)
        loading->unreadable += !slice->refill; /* those were met before, when passed by */
    else
        loading_cannot_read(loading, slice->number, slice->next, strerror(-slice->error));
    slice->next++;
    loading->passed_run = slice->number;
    loading->passed_slot = slice->next;
}

static void advance_cursor(struct loading_slice *slice)
{
    struct loading_cursor *cursor = &slice->run->cursors[slice->part];

    slice->loading->first.is_known = false;
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

static bool make_places(const struct loading_slice *slice)
{
    for (uint32_t i = 0; i < slice->pass_count; i++)
        if (!loading_place_get(slice->run, slice->passes[i].topic))
            return false;
    return true;
}

static void note_passes(struct loading *loading, struct loading_slice *slice, struct engine_now now)
{
    for (uint32_t i = 0; i < slice->pass_count; i++) {
        const struct loading_pass *pass = &slice->passes[i];
        loading_place_note(loading, slice->run->places[pass->topic], slice->part, pass->slot,
                           pass->when_ms, now);
    }
}

static void advance_refill(struct loading_slice *slice)
{
    struct loading_place *place = slice->refill;
    unsigned at = slice->part - LOADING_WAIT_FIRST;
    const struct loading_cursor *cursor = &slice->run->cursors[slice->part];

    if (!place->noted[at].open)
        return;
    if (slice->item_count)
        place->noted[at].when_ms = slice->items[slice->item_count - 1].when_ms;
    place->noted[at].from = alive_next(&slice->depot_run->alive, slice->next, cursor->next);
}

/* Topics that have enough now are held before the next slice is read. */
static void count_items(struct loading *loading, struct loading_slice *slice)
{
    uint64_t quota;

    loading->slices++;
    for (uint32_t i = 0; i < slice->item_count; i++)
        slice->run->topics[slice->items[i].topic]->reading++;
    if (!loading_part_waits(slice->part))
        return;
    for (uint32_t i = 0; i < slice->item_count; i++) {
        struct loading_topic *topic = slice->run->topics[slice->items[i].topic];
        if (topic->slice == loading->slices)
            continue;
        topic->slice = loading->slices;
        loading_topic_use(loading, topic);
        quota = loading_topic_quota(loading);
        if (loading_topic_loaded(loading, topic) >= quota)
            loading_topic_hold(loading, topic);
    }
}

/* Jobs that were carried are met again. */
static void meet(struct loading *loading, struct loading_slice *slice)
{
    for (uint32_t i = 0; loading->carries && i < slice->item_count; i++) {
        struct loading_topic *topic = slice->run->topics[slice->items[i].topic];
        if (!topic->carried)
            continue;
        topic->carried--;
        loading_topic_changed(loading, topic);
    }
}

static void drop(struct loading *loading, struct loading_slice *slice)
{
    loading_slice_end(slice);
    loading_recent_give_spare(loading, slice);
}

void loading_took_in(struct loading *loading, struct loading_slice *slice, struct engine_now now)
{
    bool counts = !slice->run->is_gone && slice->epoch == slice->run->epoch;
    if (counts && !make_places(slice)) { /* nothing has counted yet: it is read once more */
        loading->retry_ms = now.inner_ms + RETRY_MS;
        drop(loading, slice);
        return;
    }
    if (slice->error)
        took_error(loading, slice, now);
    if (counts && slice->refill)
        advance_refill(slice);
    if (counts && !slice->refill) {
        note_passes(loading, slice, now);
        advance_cursor(slice);
        meet(loading, slice);
    }
    count_items(loading, slice);
    if (!slice->item_count) {
        drop(loading, slice);
        return;
    }
    loading->queue[loading->queue[0] ? 1 : 0] = slice;
    loading_recent_add(loading, slice);
}
