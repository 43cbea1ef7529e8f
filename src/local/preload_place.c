/*
 * What was passed by of a topic in a run, and how much of it is due.
 *
 * The count of a range is what was met alive when it was passed. Of these some die unseen (a cancel
 * brings the job to memory by its key, and ends it), and some were in memory all along. So it is an
 * upper bound, and right again once the range was read to its end; the engine shows no more as
 * ready than there are cold jobs.
 */
#include "local/preload_private.h"

#include <stdlib.h>

struct preload_place *preload_place_get(struct preload_run *run, uint32_t topic)
{
    if (!run->places)
        run->places = calloc(run->topic_count, sizeof *run->places);
    if (!run->places)
        return NULL;
    if (run->places[topic])
        return run->places[topic];
    struct preload_place *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->topic = run->topics[topic];
    place->run = run;
    place->number = topic;
    list_init(&place->list);
    return run->places[topic] = place;
}

static int64_t inner_of(const struct preload *preload, enum job_section section, int64_t when_ms)
{
    return job_section_is_wall(section) ? when_ms - preload->shard->skew_ms : when_ms;
}

static int64_t grain_of(const struct preload *preload, int64_t when_ms)
{
    int64_t over = when_ms % preload->grain_ms;

    return over ? when_ms - over + preload->grain_ms : when_ms;
}

/* The first at or after when_ms. */
static uint32_t find_due(const struct preload_dues *dues, int64_t when_ms)
{
    uint32_t low = 0, high = dues->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (dues->at[middle].when_ms < when_ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert_due(struct preload_dues *dues, uint32_t at, int64_t when_ms)
{
    if (dues->count == dues->cap) {
        uint32_t cap = dues->cap ? dues->cap * 2 : 16;
        struct preload_due *grown = realloc(dues->at, cap * sizeof *grown);
        if (!grown)
            return false;
        dues->at = grown;
        dues->cap = cap;
    }
    memmove(&dues->at[at + 1], &dues->at[at], (dues->count - at) * sizeof *dues->at);
    dues->at[at] = (struct preload_due){.when_ms = when_ms};
    dues->count++;
    return true;
}

/* False: out of memory; then it counts as due, a little early. */
static bool add_due(struct preload_place *place, int64_t when_ms)
{
    if (!place->dues)
        place->dues = calloc(1, sizeof *place->dues);
    if (!place->dues)
        return false;
    uint32_t at = find_due(place->dues, when_ms);
    if (at == place->dues->count || place->dues->at[at].when_ms != when_ms)
        if (!insert_due(place->dues, at, when_ms))
            return false;
    place->dues->at[at].count++;
    return true;
}

static void forget_dues(struct preload_place *place)
{
    if (!place->dues)
        return;
    for (uint32_t i = 0; i < place->dues->count; i++)
        place->topic->waiting -= place->dues->at[i].count;
    free(place->dues->at);
    free(place->dues);
    place->dues = NULL;
}

static bool is_noted(const struct preload_place *place)
{
    for (unsigned i = 0; i < PRELOAD_WAITS; i++)
        if (place->noted[i].open)
            return true;
    return false;
}

static void left(struct preload *preload, struct preload_place *place)
{
    if (!is_noted(place)) {
        forget_dues(place);
        list_remove(&place->list);
    }
    if (list_is_empty(&place->topic->places))
        place->topic->mixed = 0;
    preload_topic_changed(preload, place->topic);
}

void preload_place_note(struct preload *preload, struct preload_place *place,
                        enum job_section section, uint32_t slot, int64_t when_ms,
                        struct engine_now now)
{
    unsigned at = section - PRELOAD_WAIT_FIRST;
    struct preload_topic *topic = place->topic;
    int64_t due_ms = inner_of(preload, section, when_ms);

    if (!is_noted(place))
        list_add_last(&topic->places, &place->list);
    if (!place->noted[at].open) {
        place->noted[at].open = true;
        place->noted[at].from = slot;
        place->noted[at].when_ms = when_ms;
    }
    place->noted[at].count++;
    topic->noted++;
    if (due_ms <= now.inner_ms) {
        if (topic->carried)
            topic->carried--;
    } else if (add_due(place, grain_of(preload, due_ms))) {
        topic->waiting++;
        if (grain_of(preload, due_ms) < preload->due_next_ms)
            preload->due_next_ms = grain_of(preload, due_ms);
    }
    preload_topic_hold(preload, topic);
    preload_topic_changed(preload, topic);
}

/* After a step of the wall clock it may be another grain than the one it was noted in: then one
 * counts as due a little longer, and another a little shorter. */
static void unwait(struct preload_place *place, int64_t grain_ms)
{
    if (!place->dues)
        return;
    uint32_t at = find_due(place->dues, grain_ms);
    if (at == place->dues->count || place->dues->at[at].when_ms != grain_ms ||
        !place->dues->at[at].count)
        return;
    place->dues->at[at].count--;
    place->topic->waiting--;
}

void preload_place_unnote(struct preload *preload, struct preload_place *place,
                          enum job_section section, int64_t when_ms)
{
    unsigned at = section - PRELOAD_WAIT_FIRST;

    if (!place->noted[at].count)
        return;
    place->noted[at].count--;
    place->topic->noted--;
    unwait(place, grain_of(preload, inner_of(preload, section, when_ms)));
    preload_topic_changed(preload, place->topic);
}

static bool is_under_way(const struct preload_slice *slice, const struct preload_place *place,
                         enum job_section section)
{
    return slice && slice->refill == place && slice->section == section;
}

void preload_place_settle(struct preload *preload, struct preload_place *place,
                          enum job_section section)
{
    unsigned at = section - PRELOAD_WAIT_FIRST;

    if (!place->noted[at].open || place->noted[at].from < place->run->cursors[section].next ||
        is_under_way(preload->reading, place, section) ||
        is_under_way(preload->queue[0], place, section) ||
        is_under_way(preload->queue[1], place, section))
        return;
    uint32_t unmet = place->noted[at].count;
    place->topic->noted -= unmet;
    place->topic->mixed -= unmet < place->topic->mixed ? unmet : place->topic->mixed;
    place->noted[at].count = 0;
    place->noted[at].open = false;
    left(preload, place);
}

void preload_place_clear(struct preload *preload, struct preload_place *place)
{
    uint64_t noted = 0;

    if (!is_noted(place))
        return;
    for (unsigned i = 0; i < PRELOAD_WAITS; i++) {
        noted += place->noted[i].count;
        place->noted[i].count = 0;
        place->noted[i].open = false;
    }
    uint64_t waiting_before = place->topic->waiting;
    place->topic->noted -= noted;
    left(preload, place);
    uint64_t waited = waiting_before - place->topic->waiting;
    if (noted > waited) {
        place->topic->carried += noted - waited;
        preload->carries = true;
    }
}

int64_t preload_place_due(struct preload *preload, struct preload_place *place, int64_t now_ms)
{
    struct preload_dues *dues = place->dues;

    if (!dues)
        return INT64_MAX;
    uint32_t past = find_due(dues, now_ms + 1);
    for (uint32_t i = 0; i < past; i++)
        place->topic->waiting -= dues->at[i].count;
    if (past) {
        dues->count -= past;
        memmove(dues->at, dues->at + past, dues->count * sizeof *dues->at);
        preload_topic_changed(preload, place->topic);
    }
    return dues->count ? dues->at[0].when_ms : INT64_MAX;
}

bool preload_place_has_wall(const struct preload_place *place)
{
    return place->noted[SECTION_DELAYED_WALL - PRELOAD_WAIT_FIRST].open ||
           place->noted[SECTION_RETRYING_WALL - PRELOAD_WAIT_FIRST].open;
}

unsigned preload_place_first(const struct preload *preload, const struct preload_place *place,
                             int64_t *when_ms)
{
    unsigned first = PRELOAD_WAITS;

    for (unsigned i = 0; i < PRELOAD_WAITS; i++) {
        if (!place->noted[i].open ||
            place->noted[i].from >= place->run->cursors[i + PRELOAD_WAIT_FIRST].next)
            continue; /* what is left of it is on its way */
        int64_t up_ms = inner_of(preload, i + PRELOAD_WAIT_FIRST, place->noted[i].when_ms);
        if (first == PRELOAD_WAITS || up_ms < *when_ms) {
            first = i;
            *when_ms = up_ms;
        }
    }
    return first;
}
