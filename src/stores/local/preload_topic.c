/*
 * The loaded and skipped jobs of each topic, and the runs with their cursors.
 *
 * A topic with its maximum of loaded jobs is held: further jobs of it are skipped. It is refilled
 * with them when half of the loaded jobs are gone, and no longer held once no skipped jobs are
 * left. Topics share the memory for waiting jobs evenly.
 *
 * The count of a range is the number of live jobs at the time of skipping. Some of these die unseen
 * (a cancel loads the job by its key and ends it), and some were in memory all the time. So the
 * count is an upper bound, and exact again once the range has been read to its end. The engine
 * never shows more jobs as ready than there are cold jobs.
 */
#include "local/preload_topic.h"

#include "local/preload_slice.h"

#include <stdlib.h>

enum { WAITING_MAX = 1000000, QUOTA_MIN = 1024, USE_AT_ONCE = 16, RESTART_AFTER_MS = 1000 };
enum {
    APART_MAX = 1024, /* groups of a topic */
    APART_MIN = 16,   /* jobs in memory of each */
    SORT_EVERY_MS = 20,
    JOIN_AT_ONCE = 16
};

/* ---- topics, by name ---- */

static struct preload_topic *topic_new(struct slice name)
{
    struct preload_topic *topic = calloc(1, sizeof *topic + name.len);
    if (!topic)
        return NULL;
    char *text = (char *)(topic + 1);
    memcpy(text, name.at, name.len);
    topic->entry.key = slice_make(text, name.len);
    list_init(&topic->list);
    list_init(&topic->changed);
    list_init(&topic->places);
    return topic;
}

/* Returns the topic of that name for another run, and creates it if necessary. NULL: out of
 * memory. */
static struct preload_topic *topic_get(struct preload_topics *topics, struct slice name)
{
    struct preload_topic *topic = topic_table_find(&topics->table, name);
    if (!topic) {
        topic = topic_new(name);
        if (!topic)
            return NULL;
        topic_table_add(&topics->table, topic);
    }
    topic->run_count++;
    return topic;
}

/* Releases a run's reference to the topic. */
static void topic_put(struct preload_topics *topics, struct preload_topic *topic)
{
    if (--topic->run_count)
        return;
    if (topics->use_next == topic)
        topics->use_next = topic_table_next(&topics->table, topic);
    topic_table_remove(&topics->table, topic);
    if (topic->is_in_use)
        topics->in_use--;
    if (topic->cold_ready)
        engine_set_cold_ready(topics->shard->engine, topic->entry.key, 0);
    list_remove(&topic->list);
    list_remove(&topic->changed);
    preload_aparts_fini(&topic->aparts);
    free(topic);
}

/* ---- the quota ---- */

/* Returns how many waiting jobs of a topic may be in memory. */
static uint64_t topic_quota(const struct preload_topics *topics)
{
    uint64_t share = WAITING_MAX / (topics->in_use ? topics->in_use : 1);
    if (share < QUOTA_MIN)
        share = QUOTA_MIN;
    return share < topics->quota ? share : topics->quota;
}

/* Returns its waiting jobs in memory and those about to be loaded. */
static uint64_t topic_loaded(struct preload_topics *topics, struct preload_topic *topic)
{
    return engine_loaded_of(topics->shard->engine, topic->entry.key) + topic->reading;
}

/* Returns whether the topic has at least so many waiting jobs in memory that further ones are skipped. */
static bool topic_is_over(struct preload_topics *topics, struct preload_topic *topic)
{
    return topic_loaded(topics, topic) >= topic_quota(topics) &&
           !engine_keeps_waiting(topics->shard->engine, topic->entry.key);
}

/* Counts the topic among those that share the memory. */
static void topic_use(struct preload_topics *topics, struct preload_topic *topic)
{
    if (!topic->is_in_use)
        topics->in_use++;
    topic->is_in_use = true;
}

/* Holds the topic: its further jobs are skipped. */
static void topic_hold(struct preload_topics *topics, struct preload_topic *topic)
{
    if (topic->is_held)
        return;
    topic->is_held = true;
    topic->is_refilling = false;
    topic->sorted_at = UINT64_MAX;
    list_add_last(&topics->held, &topic->list);
    topic_use(topics, topic);
}

/* Searches for topics that no longer have jobs in memory: a few per call. */
static void look_for_unused(struct preload_topics *topics)
{
    for (int left = USE_AT_ONCE; left; left--) {
        struct preload_topic *topic = topics->use_next;
        if (!topic && !(topic = topic_table_first(&topics->table)))
            return;
        if (topic->is_in_use && !topic->is_held && !topic_loaded(topics, topic)) {
            topic->is_in_use = false;
            topics->in_use--;
        }
        topics->use_next = topic_table_next(&topics->table, topic);
    }
}

/* Returns the quota of the groups of a topic that are not read apart. */
static uint64_t rest_quota(const struct preload_topics *topics, const struct preload_topic *topic)
{
    return topic->aparts.count ? topic_quota(topics) / 2 : topic_quota(topics);
}

static uint64_t rest_loaded(struct preload_topics *topics, struct preload_topic *topic)
{
    uint64_t loaded = topic_loaded(topics, topic);
    return loaded > topic->apart_loaded ? loaded - topic->apart_loaded : 0;
}

/* Decides whether the rest of a held topic is refilled, and releases the topic if it has no skipped jobs left. Returns
 * whether anything may be read. */
static bool topic_wants_refill(struct preload_topics *topics, struct preload_topic *topic)
{
    uint64_t loaded = rest_loaded(topics, topic), quota = rest_quota(topics, topic);
    bool was_refilling = topic->is_refilling;
    if (loaded >= quota)
        topic->is_refilling = false;
    else if (loaded < (quota + 1) / 2)
        topic->is_refilling = true;
    if (topic->is_refilling && !was_refilling)
        topic->is_idle = false;
    if (!topic->is_refilling || !list_is_empty(&topic->places))
        return (topic->is_refilling || topic->aparts.count) && !topic->is_idle;
    topic->is_held = false;
    topic->aparts.count = 0;
    topic->apart_loaded = 0;
    list_remove(&topic->list);
    return false;
}

/* Marks the topic to be reported to the engine at the end of the step. */
static void topic_changed(struct preload_topics *topics, struct preload_topic *topic)
{
    if (list_is_empty(&topic->changed))
        list_add_last(&topics->changed, &topic->changed);
}

/* ---- places: the skipped jobs of a topic in a run ---- */

/* Returns the place of the run's topic, and creates it if necessary. NULL: out of memory. */
static struct preload_place *place_get(struct preload_run *run, uint32_t topic)
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

static void place_free(struct preload_place *place)
{
    for (unsigned i = 0; place && i < PRELOAD_WAITING_SECTIONS; i++)
        preload_froms_fini(&place->ranges[i].aparts);
    free(place);
}

/* Returns when a slot falls due by the inner clock. */
static int64_t inner_ms_of(const struct preload_topics *topics, enum job_section section,
                           int64_t when_ms)
{
    return job_section_is_wall(section) ? when_ms - topics->shard->skew_ms : when_ms;
}

/* Returns the end of the grain of time that contains `when_ms`. */
static int64_t grain_of(const struct preload_topics *topics, int64_t when_ms)
{
    int64_t over = when_ms % topics->grain_ms;
    return over ? when_ms - over + topics->grain_ms : when_ms;
}

/* Returns the index of the first one at or after when_ms. */
static size_t dues_find(const struct preload_dues *dues, int64_t when_ms)
{
    size_t low = 0, high = dues->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (dues->at[middle].when_ms < when_ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds a skipped job that is not due yet. Returns false when out of memory; the job then counts as
 * due, a little early. */
static bool place_add_due(struct preload_place *place, int64_t when_ms)
{
    if (!place->dues)
        place->dues = calloc(1, sizeof *place->dues);
    if (!place->dues)
        return false;
    size_t at = dues_find(place->dues, when_ms);
    if (at == place->dues->count || place->dues->at[at].when_ms != when_ms)
        if (!preload_dues_insert(place->dues, at, (struct preload_due){.when_ms = when_ms}))
            return false;
    place->dues->at[at].count++;
    return true;
}

static void place_forget_dues(struct preload_place *place)
{
    if (!place->dues)
        return;
    for (uint32_t i = 0; i < place->dues->count; i++)
        place->topic->waiting -= place->dues->at[i].count;
    preload_dues_fini(place->dues);
    free(place->dues);
    place->dues = NULL;
}

static bool place_is_noted(const struct preload_place *place)
{
    for (unsigned i = 0; i < PRELOAD_WAITING_SECTIONS; i++)
        if (place->ranges[i].is_open)
            return true;
    return false;
}

/* Updates the place after a range was closed. */
static void place_range_left(struct preload_topics *topics, struct preload_place *place)
{
    if (!place_is_noted(place)) {
        place_forget_dues(place);
        list_remove(&place->list);
    }
    if (list_is_empty(&place->topic->places))
        place->topic->noted_not_cold = 0;
    topic_changed(topics, place->topic);
}

/* Opens a range, whose memory is reserved. */
static void range_open(const struct preload_topic *topic, struct preload_range *range,
                       struct preload_from from)
{
    range->is_open = true;
    range->rest = from;
    range->aparts.count = 0;
    for (size_t i = 0; i < topic->aparts.count; i++)
        (void)preload_froms_add(&range->aparts, from);
}

static void range_close(struct preload_range *range)
{
    range->count = 0;
    range->is_open = false;
    preload_froms_fini(&range->aparts);
}

/* Returns whether a slot before `end` has not been read. */
static bool range_has_unread(const struct preload_range *range, uint32_t end)
{
    if (range->rest.slot < end)
        return true;
    for (size_t i = 0; i < range->aparts.count; i++)
        if (range->aparts.at[i].slot < end)
            return true;
    return false;
}

/* Notes that the slot is skipped: its job stays on the disk for now. */
static void place_note(struct preload_topics *topics, struct preload_place *place,
                       enum job_section section, uint32_t slot, int64_t when_ms,
                       struct engine_now now)
{
    unsigned at = section - PRELOAD_WAITING_FIRST;
    struct preload_topic *topic = place->topic;
    int64_t due_ms = inner_ms_of(topics, section, when_ms);
    if (!place_is_noted(place))
        list_add_last(&topic->places, &place->list);
    if (!place->ranges[at].is_open)
        range_open(topic, &place->ranges[at],
                   (struct preload_from){.slot = slot, .when_ms = when_ms});
    place->ranges[at].count++;
    topic->is_idle = false;
    topic->sorted_at = UINT64_MAX;
    topic->noted++;
    if (due_ms <= now.inner_ms) {
        if (topic->due_of_gone_runs)
            topic->due_of_gone_runs--;
    } else if (place_add_due(place, grain_of(topics, due_ms))) {
        topic->waiting++;
        if (grain_of(topics, due_ms) < topics->due_next_ms)
            topics->due_next_ms = grain_of(topics, due_ms);
    }
    topic_hold(topics, topic);
    topic_changed(topics, topic);
}

/* Removes a waiting job. After a step of the wall clock, its grain may differ from the one in which
 * it was noted: then one job counts as due a little longer, and another a little shorter. */
static void place_unwait(struct preload_place *place, int64_t grain_ms)
{
    if (!place->dues)
        return;
    size_t at = dues_find(place->dues, grain_ms);
    if (at == place->dues->count || place->dues->at[at].when_ms != grain_ms ||
        !place->dues->at[at].count)
        return;
    place->dues->at[at].count--;
    place->topic->waiting--;
}

/* Removes the note of a slot that has been read. */
static void place_unnote(struct preload_topics *topics, struct preload_place *place,
                         enum job_section section, int64_t when_ms)
{
    unsigned at = section - PRELOAD_WAITING_FIRST;
    if (!place->ranges[at].count)
        return;
    place->ranges[at].count--;
    place->topic->noted--;
    place_unwait(place, grain_of(topics, inner_ms_of(topics, section, when_ms)));
    topic_changed(topics, place->topic);
}

/* Closes the range of a section that has been completely read and loaded. */
static void place_settle(struct preload_topics *topics, struct preload_place *place,
                         enum job_section section)
{
    unsigned at = section - PRELOAD_WAITING_FIRST;
    if (!place->ranges[at].is_open ||
        range_has_unread(&place->ranges[at], place->run->cursors[section].next))
        return;
    uint32_t unmet = place->ranges[at].count;
    place->topic->noted -= unmet;
    place->topic->noted_not_cold -=
        unmet < place->topic->noted_not_cold ? unmet : place->topic->noted_not_cold;
    range_close(&place->ranges[at]);
    place_range_left(topics, place);
}

/* Removes all notes of the place. Its due jobs still count as due until they are met again. */
static void place_clear(struct preload_topics *topics, struct preload_place *place)
{
    uint64_t noted = 0;
    if (!place_is_noted(place))
        return;
    for (unsigned i = 0; i < PRELOAD_WAITING_SECTIONS; i++) {
        noted += place->ranges[i].count;
        range_close(&place->ranges[i]);
    }
    uint64_t waiting_before = place->topic->waiting;
    place->topic->noted -= noted;
    place_range_left(topics, place);
    uint64_t waited = waiting_before - place->topic->waiting;
    if (noted > waited) {
        place->topic->due_of_gone_runs += noted - waited;
        topics->has_due_of_gone_runs = true;
    }
}

/*
 * ---- the groups of a held topic ----
 *
 * Jobs of a group that is not delivered must not keep jobs of other groups on the disk. If the number of the topic's jobs in
 * memory does not fall, the groups that have more than their share of them are read separately ("apart"): each has a position
 * and a quota of its own, and the scan of the other groups skips their slots. A slot names its group by a mark. A group joins
 * the others again when its position has reached theirs.
 */

static size_t aparts_find(const struct preload_aparts *aparts, uint32_t mark)
{
    size_t low = 0, high = aparts->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (aparts->at[middle].mark < mark)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the group if it is read apart, or NULL. */
static struct preload_apart *topic_apart(const struct preload_topic *topic, uint32_t mark)
{
    size_t at = aparts_find(&topic->aparts, mark);
    return at < topic->aparts.count && topic->aparts.at[at].mark == mark ? &topic->aparts.at[at]
                                                                         : NULL;
}

/* Calls `each` for the open ranges of a topic, until it returns false. Returns whether it never did. */
static bool topic_each_range(struct preload_topic *topic,
                             bool (*each)(struct preload_range *range, uint32_t end, size_t at),
                             size_t at)
{
    for (struct list *in = topic->places.next; in != &topic->places; in = in->next) {
        struct preload_place *place = list_entry(in, struct preload_place, list);
        for (unsigned i = 0; i < PRELOAD_WAITING_SECTIONS; i++)
            if (place->ranges[i].is_open &&
                !each(&place->ranges[i], place->run->cursors[PRELOAD_WAITING_FIRST + i].next, at))
                return false;
    }
    return true;
}

static bool range_reserve_apart(struct preload_range *range, uint32_t end, size_t at)
{
    (void)end, (void)at;
    return preload_froms_reserve(&range->aparts, range->aparts.count + 1);
}

static bool range_set_apart(struct preload_range *range, uint32_t end, size_t at)
{
    (void)end;
    return preload_froms_insert(&range->aparts, at, range->rest);
}

static bool range_join(struct preload_range *range, uint32_t end, size_t at)
{
    (void)end;
    preload_froms_remove(&range->aparts, at);
    return true;
}

/* Returns whether the group is not behind the rest. */
static bool range_may_join(struct preload_range *range, uint32_t end, size_t at)
{
    (void)end;
    return range->aparts.at[at].slot >= range->rest.slot;
}

static bool range_rest_is_read(struct preload_range *range, uint32_t end, size_t at)
{
    (void)at;
    return range->rest.slot >= end;
}

/* Has a group read apart. If memory runs out, it stays with the rest. */
static void topic_set_apart(struct preload_topic *topic, uint32_t mark, uint64_t loaded)
{
    size_t at = aparts_find(&topic->aparts, mark);
    if (topic->aparts.count >= APART_MAX || !topic_each_range(topic, range_reserve_apart, at) ||
        !preload_aparts_insert(&topic->aparts, at,
                               (struct preload_apart){.mark = mark, .loaded = loaded}))
        return;
    (void)topic_each_range(topic, range_set_apart, at);
    topic->apart_loaded += loaded;
    topic->is_idle = false;
}

/* Lets groups join the rest again. */
static void topic_join(struct preload_topic *topic)
{
    size_t left = topic->aparts.count < JOIN_AT_ONCE ? topic->aparts.count : JOIN_AT_ONCE;
    for (; left; left--) {
        size_t at = topic->join_next++ % topic->aparts.count;
        const struct preload_apart *apart = &topic->aparts.at[at];
        if (apart->loaded > topic->apart_share / 2 || !topic_each_range(topic, range_may_join, at))
            continue;
        topic->apart_loaded -= apart->loaded;
        (void)topic_each_range(topic, range_join, at);
        preload_aparts_remove(&topic->aparts, at);
        topic->is_idle = false;
    }
}

/* Counts the jobs in memory of the groups that are read apart. Returns the number of all groups with jobs in memory. */
static uint64_t topic_count_groups(struct preload_topics *topics, struct preload_topic *topic)
{
    uint32_t at = 0, mark;
    uint64_t groups = 0, waiting;
    topic->apart_loaded = 0;
    for (size_t i = 0; i < topic->aparts.count; i++)
        topic->aparts.at[i].loaded = 0;
    while (engine_waiting_next(topics->shard->engine, topic->entry.key, &at, &mark, &waiting)) {
        struct preload_apart *apart = topic_apart(topic, mark);
        groups++;
        if (apart) {
            apart->loaded += waiting;
            topic->apart_loaded += waiting;
        }
    }
    return groups;
}

/* Sets groups apart until the rest has room: those with less than an even part of a quarter of the quota have less than
 * that together. */
static void topic_make_room(struct preload_topics *topics, struct preload_topic *topic,
                            uint64_t groups)
{
    uint32_t at = 0, mark;
    uint64_t waiting, share = topic_quota(topics) / 8 / groups;
    while (engine_waiting_next(topics->shard->engine, topic->entry.key, &at, &mark, &waiting))
        if (waiting > share && !topic_apart(topic, mark))
            topic_set_apart(topic, mark, waiting);
}

/* Decides which of the groups that are read apart are refilled, like topic_wants_refill. */
static void topic_refill_aparts(struct preload_topic *topic)
{
    uint64_t share = topic->apart_share;
    for (size_t i = 0; i < topic->aparts.count; i++) {
        struct preload_apart *apart = &topic->aparts.at[i];
        bool wants = apart->loaded < (apart->wants ? share : (share + 1) / 2);
        topic->is_idle &= !wants || apart->wants;
        apart->wants = wants ? (uint32_t)(share - apart->loaded) : 0;
    }
}

/* Adapts the groups that are read apart to the jobs in memory. */
static void topic_sort(struct preload_topics *topics, struct preload_topic *topic)
{
    topic->sorted_at = engine_loaded_of(topics->shard->engine, topic->entry.key);
    uint64_t groups = topic_count_groups(topics, topic);
    if (!groups)
        groups = 1;
    if (rest_loaded(topics, topic) >= (rest_quota(topics, topic) + 1) / 2 &&
        !topic_each_range(topic, range_rest_is_read, 0))
        topic_make_room(topics, topic, groups);
    topic->apart_share = topic_quota(topics) / 2 / groups;
    if (topic->apart_share < APART_MIN)
        topic->apart_share = APART_MIN;
    topic_refill_aparts(topic);
    if (topic->aparts.count)
        topic_join(topic);
}

/* Sorts the groups of the held topics whose jobs in memory have changed, now and then. */
static void topics_sort(struct preload_topics *topics, struct engine_now now)
{
    bool may_sort = now.inner_ms >= topics->sorted_ms + SORT_EVERY_MS;
    topics->wants_sort = false;
    for (struct list *at = topics->held.next; at != &topics->held; at = at->next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        if (!topic->has_groups ||
            topic->sorted_at == engine_loaded_of(topics->shard->engine, topic->entry.key))
            continue;
        topics->wants_sort |= !may_sort;
        if (may_sort)
            topic_sort(topics, topic);
        topics->sorted_ms = may_sort ? now.inner_ms : topics->sorted_ms;
    }
}

int64_t preload_topics_sort_ms(const struct preload_topics *topics)
{
    return topics->wants_sort ? topics->sorted_ms + SORT_EVERY_MS : INT64_MAX;
}

/* ---- refilling ---- */

/* Returns when (inner clock) the first job that is to be read in a range falls due, or earlier; INT64_MAX: nothing is to be
 * read. */
static int64_t range_first_ms(const struct preload_topics *topics,
                              const struct preload_place *place, enum job_section section)
{
    const struct preload_range *range = &place->ranges[section - PRELOAD_WAITING_FIRST];
    const struct preload_topic *topic = place->topic;
    uint32_t end = place->run->cursors[section].next;
    int64_t first_ms = INT64_MAX;
    if (!range->is_open)
        return first_ms;
    if (topic->is_refilling && range->rest.slot < end)
        first_ms = range->rest.when_ms;
    for (size_t i = 0; i < range->aparts.count; i++)
        if (topic->aparts.at[i].wants && range->aparts.at[i].slot < end &&
            range->aparts.at[i].when_ms < first_ms)
            first_ms = range->aparts.at[i].when_ms;
    return first_ms == INT64_MAX ? first_ms : inner_ms_of(topics, section, first_ms);
}

/* Returns the place of the topic whose jobs to be read fall due first, and its section; NULL: nothing is to be read. */
static struct preload_place *topic_first_place(const struct preload_topics *topics,
                                               const struct preload_topic *topic,
                                               enum job_section *section)
{
    struct preload_place *first = NULL;
    int64_t first_ms = INT64_MAX;
    for (struct list *at = topic->places.next; at != &topic->places; at = at->next) {
        struct preload_place *place = list_entry(at, struct preload_place, list);
        for (unsigned i = 0; i < PRELOAD_WAITING_SECTIONS; i++) {
            int64_t up_ms = range_first_ms(topics, place, PRELOAD_WAITING_FIRST + i);
            if (up_ms >= first_ms)
                continue;
            first = place;
            first_ms = up_ms;
            *section = PRELOAD_WAITING_FIRST + i;
        }
    }
    return first;
}

/* Checks the held topics: releases those that need not be held any longer, and returns the place of
 * the next one to refill. */
struct preload_place *preload_topics_refill(struct preload_topics *topics,
                                            enum job_section *section, struct engine_now now)
{
    struct preload_place *found = NULL;
    look_for_unused(topics);
    topics_sort(topics, now);
    for (struct list *at = topics->held.next, *next; at != &topics->held; at = next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        next = at->next;
        if (!topic_wants_refill(topics, topic) || found)
            continue;
        found = topic_first_place(topics, topic, section);
        topic->is_idle = !found;
    }
    if (found) { /* behind the others */
        list_remove(&found->topic->list);
        list_add_last(&topics->held, &found->topic->list);
    }
    return found;
}

/* Adds a wish to the slice. */
static void slice_add_wish(struct preload_slice *slice, struct preload_wish *wish, uint32_t end)
{
    wish->stop = UINT32_MAX;
    if (wish->from >= end)
        wish->max = 0;
    if (!wish->max)
        return;
    if (!slice->wishes_open++ || wish->from < slice->first)
        slice->first = wish->from;
}

bool preload_place_wish(struct preload_topics *topics, const struct preload_place *place,
                        struct preload_slice *slice)
{
    struct preload_topic *topic = place->topic;
    const struct preload_range *range = &place->ranges[slice->section - PRELOAD_WAITING_FIRST];
    uint64_t loaded = rest_loaded(topics, topic), quota = rest_quota(topics, topic);
    uint32_t end = place->run->cursors[slice->section].next;
    if (!preload_wishes_reserve(&slice->wishes, topic->aparts.count))
        return false;
    slice->wishes_open = 0;
    slice->rest = (struct preload_wish){.from = range->rest.slot};
    if (topic->is_refilling)
        slice->rest.max = loaded < quota ? (uint32_t)(quota - loaded) : 1;
    slice_add_wish(slice, &slice->rest, end);
    for (size_t i = 0; i < topic->aparts.count; i++) {
        struct preload_wish wish = {.mark = topic->aparts.at[i].mark,
                                    .from = range->aparts.at[i].slot,
                                    .max = topic->aparts.at[i].wants};
        slice_add_wish(slice, &wish, end);
        (void)preload_wishes_add(&slice->wishes, wish);
    }
    return true;
}

/* ---- due skipped jobs ---- */

/* Counts the jobs that have fallen due by now. Returns when the next one is due; INT64_MAX: no job
 * waits. */
static int64_t place_come_due(struct preload_topics *topics, struct preload_place *place,
                              int64_t now_ms)
{
    struct preload_dues *dues = place->dues;
    if (!dues)
        return INT64_MAX;
    size_t past = dues_find(dues, now_ms + 1);
    for (uint32_t i = 0; i < past; i++)
        place->topic->waiting -= dues->at[i].count;
    if (past) {
        dues->count -= past;
        memmove(dues->at, dues->at + past, dues->count * sizeof *dues->at);
        topic_changed(topics, place->topic);
    }
    return dues->count ? dues->at[0].when_ms : INT64_MAX;
}

/* Counts the skipped jobs of all held topics that have fallen due. */
static void topics_come_due(struct preload_topics *topics, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    for (struct list *at = topics->held.next; at != &topics->held; at = at->next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        for (struct list *in = topic->places.next; in != &topic->places; in = in->next) {
            struct preload_place *place = list_entry(in, struct preload_place, list);
            int64_t place_ms = place_come_due(topics, place, now_ms);
            if (place_ms < next_ms)
                next_ms = place_ms;
        }
    }
    topics->due_next_ms = next_ms;
}

void preload_topics_notify(struct preload_topics *topics, struct engine_now now)
{
    if (topics->due_next_ms <= now.inner_ms)
        topics_come_due(topics, now.inner_ms);
    while (!list_is_empty(&topics->changed)) {
        struct preload_topic *topic =
            list_entry(topics->changed.next, struct preload_topic, changed);
        uint64_t due = topic->noted - topic->waiting + topic->due_of_gone_runs;
        due -= topic->noted_not_cold < due ? topic->noted_not_cold : due;
        list_remove(&topic->changed);
        engine_set_cold_ready(topics->shard->engine, topic->entry.key, due);
        topic->cold_ready = due;
    }
}

/* Schedules all slots of the topic to be processed again at the given time. */
static void restart_at(struct preload_topics *topics, struct preload_topic *topic, int64_t at_ms)
{
    topic->wants_restart = true;
    topics->restart_ms = at_ms;
}

void preload_topics_caught_up(struct preload_topics *topics, struct engine_now now)
{
    if (!topics->has_due_of_gone_runs && !topics->has_new_runs)
        return;
    topics->has_due_of_gone_runs = topics->has_new_runs = false;
    for (struct preload_topic *topic = topic_table_first(&topics->table); topic;
         topic = topic_table_next(&topics->table, topic)) {
        if (topic->due_of_gone_runs)
            topic_changed(topics, topic);
        topic->due_of_gone_runs = 0;
        if (topic->is_in_new_run && topic->is_held)
            restart_at(topics, topic, now.inner_ms);
        topic->is_in_new_run = false;
    }
}

/* Reads what the engine has counted by itself since the last report: jobs loaded by their key, or
 * evicted. Before anything is loaded. */
static void ask_engine(struct preload_topics *topics)
{
    for (struct list *at = topics->held.next; at != &topics->held; at = at->next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        uint64_t counted = engine_cold_ready(topics->shard->engine, topic->entry.key);
        if (counted < topic->cold_ready)
            topic->noted_not_cold += topic->cold_ready - counted;
        else
            topic->noted_not_cold -= counted - topic->cold_ready < topic->noted_not_cold
                                         ? counted - topic->cold_ready
                                         : topic->noted_not_cold;
        topic->cold_ready = counted;
    }
}

/* ---- runs ---- */

static void cursor_begin(const struct depot_run *depot_run, struct preload_cursor *cursor,
                         enum job_section section)
{
    const struct run_info *info = run_info(depot_run->run);
    cursor->end = info->sections[section].first + info->sections[section].count;
    cursor->next = alive_next(&depot_run->alive, info->sections[section].first, cursor->end);
    cursor->when_ms = info->sections[section].first_when_ms;
}

static bool run_get_topics(struct preload_topics *topics, struct preload_run *run,
                           const struct run *of)
{
    uint32_t count = run_info(of)->topics;
    for (; run->topic_count < count; run->topic_count++) {
        struct slice name = run_topic_name(of, run->topic_count);
        run->topics[run->topic_count] = topic_get(topics, name);
        if (!run->topics[run->topic_count])
            return false;
    }
    return true;
}

static void run_clear_places(struct preload_topics *topics, struct preload_run *run)
{
    for (uint32_t i = 0; run->places && i < run->topic_count; i++)
        if (run->places[i])
            place_clear(topics, run->places[i]);
}

static void run_free(struct preload_topics *topics, struct preload_run *run)
{
    run_clear_places(topics, run);
    for (uint32_t i = 0; i < run->topic_count; i++) {
        if (run->places)
            place_free(run->places[i]);
        topic_put(topics, run->topics[i]);
    }
    free((void *)run->places);
    free(run);
}

/* Adds a run written by a checkpoint: its jobs may be in memory. */
static void run_join(struct preload_topics *topics, struct preload_run *run)
{
    if (!topics->has_begun)
        return;
    for (uint32_t i = 0; i < run->topic_count; i++)
        run->topics[i]->is_in_new_run = topics->has_new_runs = true;
}

/* Creates a run. The leased jobs of a run written by a checkpoint are already in memory, and dead
 * jobs stay on the disk. */
static struct preload_run *run_new(struct preload_topics *topics, const struct depot_run *depot_run)
{
    size_t bytes = run_info(depot_run->run)->topics * sizeof(struct preload_topic *);
    struct preload_run *run = calloc(1, sizeof *run + bytes);
    if (!run)
        return NULL;
    run->number = depot_run->number;
    for (enum job_section section = 0; section < SECTIONS; section++) {
        cursor_begin(depot_run, &run->cursors[section], section);
        run->cursors[section].passed_ms = INT64_MIN;
        if (section == SECTION_DEAD || (section == SECTION_LEASED && topics->has_begun))
            run->cursors[section].next = run->cursors[section].end;
    }
    if (run_get_topics(topics, run, depot_run->run)) {
        run_join(topics, run);
        return run;
    }
    run_free(topics, run);
    return NULL;
}

/* Frees a run that has left the view, unless slices of it are in progress. */
static void run_free_where_gone(struct preload_topics *topics, struct preload_run *run)
{
    if (run->is_gone && !run->holds)
        run_free(topics, run);
}

void preload_run_let_go(struct preload_topics *topics, struct preload_run *run,
                        struct preload_place *refilled, enum job_section section)
{
    if (refilled && !run->is_gone)
        place_settle(topics, refilled, section);
    run->holds--;
    run_free_where_gone(topics, run);
}

/* ---- following the view ---- */

static struct preload_run *run_find(const struct preload_topics *topics, uint32_t number)
{
    for (uint32_t i = 0; i < topics->run_count; i++)
        if (topics->runs[i]->number == number)
            return topics->runs[i];
    return NULL;
}

/* Returns whether cursors of the run are needed. A victim's jobs are loaded from the run that
 * replaces it, once that can be read. */
static bool run_counts(const struct depot_view *view, const struct depot_run *depot_run)
{
    if (depot_run->is_new)
        return false;
    if (!depot_run->is_victim || !depot_run->moved)
        return true;
    for (uint32_t i = 0; i < view->run_count; i++)
        if (view->runs[i]->is_new)
            return true;
    return false;
}

/* Releases the runs that have left the view, which are not among `kept`. */
static void let_other_runs_go(struct preload_topics *topics, struct preload_run **kept,
                              uint32_t count)
{
    for (uint32_t i = 0; i < topics->run_count; i++) {
        struct preload_run *run = topics->runs[i];
        uint32_t at = 0;
        while (at < count && kept[at] != run)
            at++;
        if (at < count)
            continue;
        run->is_gone = true;
        run_clear_places(topics, run);
        run_free_where_gone(topics, run);
    }
}

bool preload_topics_follow(struct preload_topics *topics)
{
    const struct depot_view *view = depot_view(topics->shard->depot);
    struct preload_run **runs =
        malloc((view->run_count ? view->run_count : 1) * sizeof(struct preload_run *));
    uint32_t count = 0;
    bool all = true;
    if (!runs)
        return false;
    for (uint32_t i = 0; i < view->run_count; i++) {
        if (!run_counts(view, view->runs[i]))
            continue;
        struct preload_run *run = run_find(topics, view->runs[i]->number);
        if (!run)
            run = run_new(topics, view->runs[i]);
        if (run)
            runs[count++] = run;
        else
            all = false;
    }
    let_other_runs_go(topics, runs, count);
    free((void *)topics->runs);
    topics->runs = runs;
    topics->run_count = count;
    topics->generation = view->generation;
    return all;
}

void preload_topics_fini(struct preload_topics *topics)
{
    for (uint32_t i = 0; i < topics->run_count; i++)
        run_free(topics, topics->runs[i]);
    free((void *)topics->runs);
    topic_table_fini(&topics->table);
}

/* ---- restarting: the cursors of a run begin at the start again ---- */

/* Restarts the cursors of waiting jobs. */
static void restart_run(struct preload_topics *topics, struct preload_run *run)
{
    const struct depot_run *depot_run =
        depot_view_run(depot_view(topics->shard->depot), run->number);
    if (!depot_run)
        return; /* about to leave */
    run->epoch++;
    for (unsigned i = 0; i < PRELOAD_WAITING_SECTIONS; i++)
        cursor_begin(depot_run, &run->cursors[PRELOAD_WAITING_FIRST + i],
                     PRELOAD_WAITING_FIRST + i);
    run_clear_places(topics, run);
}

/* Returns whether any of its topics is restarting. */
static bool run_wants_restart(const struct preload_run *run)
{
    for (uint32_t i = 0; i < run->topic_count; i++)
        if (run->topics[i]->is_restarting)
            return true;
    return false;
}

static void restart_runs(struct preload_topics *topics)
{
    for (uint32_t i = 0; i < topics->run_count; i++)
        if (run_wants_restart(topics->runs[i]))
            restart_run(topics, topics->runs[i]);
}

/* Uses the number shown as ready, which is larger than the number of ready jobs in memory that the
 * engine uses: an unnecessary restart does no harm. */
void preload_topics_over(struct preload_topics *topics, uint64_t max, struct engine_now now)
{
    struct queue_topic shown;
    for (struct preload_topic *topic = topic_table_first(&topics->table); topic;
         topic = topic_table_next(&topics->table, topic))
        if (engine_topic_show(topics->shard->engine, topic->entry.key, now, &shown) &&
            shown.counts.ready > max &&
            !engine_keeps_waiting(topics->shard->engine, topic->entry.key))
            restart_at(topics, topic, now.inner_ms + RESTART_AFTER_MS);
}

static bool place_has_wall(const struct preload_place *place)
{
    return place->ranges[SECTION_DELAYED_WALL - PRELOAD_WAITING_FIRST].is_open ||
           place->ranges[SECTION_RETRYING_WALL - PRELOAD_WAITING_FIRST].is_open;
}

/* Returns whether any of its skipped jobs is due by the wall clock. */
static bool topic_has_wall(const struct preload_topic *topic)
{
    for (struct list *at = topic->places.next; at != &topic->places; at = at->next)
        if (place_has_wall(list_entry(at, struct preload_place, list)))
            return true;
    return false;
}

/* Recounts the jobs that wait by the wall clock after it was set. */
static void restart_waits_by_wall(struct preload_topics *topics, struct engine_now now)
{
    for (struct list *at = topics->held.next; at != &topics->held; at = at->next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        if (!topic_has_wall(topic))
            continue;
        restart_at(topics, topic, now.inner_ms);
    }
}

/* Recounts a restarted topic. If it is held, all its jobs in memory are among those that will be
 * noted. */
static void topic_restarted(struct preload_topics *topics, struct preload_topic *topic)
{
    topic->noted_not_cold = 0;
    topic->sorted_at = UINT64_MAX;
    topic->is_idle = false;
    if (topic_is_over(topics, topic))
        topic_hold(topics, topic);
    if (topic->is_held)
        topic->noted_not_cold = engine_loaded_of(topics->shard->engine, topic->entry.key);
}

/* Restarts topics whose time has come. Returns whether cursors restarted. */
static bool restart_topics(struct preload_topics *topics, struct engine_now now)
{
    if (now.inner_ms < topics->restart_ms)
        return false;
    for (struct preload_topic *topic = topic_table_first(&topics->table); topic;
         topic = topic_table_next(&topics->table, topic)) {
        topic->is_restarting = topic->wants_restart;
        topic->wants_restart = false;
    }
    topics->restart_ms = INT64_MAX;
    restart_runs(topics);
    for (struct preload_topic *topic = topic_table_first(&topics->table); topic;
         topic = topic_table_next(&topics->table, topic)) {
        if (topic->is_restarting)
            topic_restarted(topics, topic);
        topic->is_restarting = false;
    }
    return true;
}

bool preload_topics_step(struct preload_topics *topics, struct engine_now now)
{
    if (now.skew_ms != topics->skew_ms)
        restart_waits_by_wall(topics, now);
    topics->skew_ms = now.skew_ms;
    bool restarted = restart_topics(topics, now);
    ask_engine(topics);
    return restarted;
}

/* ---- updating cursors and notes from a slice ---- */

/* Moves the cursor to the end of the slice. */
static void cursor_advance(struct preload_slice *slice)
{
    struct preload_cursor *cursor = &slice->run->cursors[slice->section];
    if (slice->items.count && slice->items.at[slice->items.count - 1].when_ms > cursor->passed_ms)
        cursor->passed_ms = slice->items.at[slice->items.count - 1].when_ms;
    if (slice->passes.count &&
        slice->passes.at[slice->passes.count - 1].when_ms > cursor->passed_ms)
        cursor->passed_ms = slice->passes.at[slice->passes.count - 1].when_ms;
    if (cursor->passed_ms > cursor->when_ms)
        cursor->when_ms = cursor->passed_ms;
    if (slice->stop_slot == slice->next)
        cursor->when_ms = slice->stop_ms;
    cursor->next = alive_next(&slice->depot_run->alive, slice->next, cursor->end);
}

bool preload_run_make_places(const struct preload_slice *slice)
{
    unsigned in = slice->section - PRELOAD_WAITING_FIRST;
    for (uint32_t i = 0; i < slice->passes.count; i++) {
        struct preload_place *place = place_get(slice->run, slice->passes.at[i].topic);
        if (!place || !preload_froms_reserve(&place->ranges[in].aparts, place->topic->aparts.count))
            return false;
    }
    return true;
}

static void note_passes(struct preload_topics *topics, struct preload_slice *slice,
                        struct engine_now now)
{
    for (uint32_t i = 0; i < slice->passes.count; i++) {
        const struct preload_pass *pass = &slice->passes.at[i];
        slice->run->topics[pass->topic]->has_groups |= pass->has_group;
        place_note(topics, slice->run->places[pass->topic], slice->section, pass->slot,
                   pass->when_ms, now);
    }
}

/* Moves a place to read from past the slots that were read. */
static void from_advance(const struct preload_slice *slice, const struct preload_wish *wish,
                         struct preload_from *from)
{
    uint32_t end = slice->run->cursors[slice->section].next;
    if (!wish->max)
        return;
    if (wish->stop < slice->next) {
        *from = (struct preload_from){.slot = wish->stop, .when_ms = wish->stop_ms};
    } else if (from->slot < slice->next) {
        from->when_ms =
            slice->items.count ? slice->items.at[slice->items.count - 1].when_ms : slice->looked_ms;
        from->slot = alive_next(&slice->depot_run->alive, slice->next, end);
    }
}

/* Moves the places to read from, and counts what was read for groups that are read apart. */
static void range_advance(struct preload_slice *slice)
{
    struct preload_topic *topic = slice->refill->topic;
    struct preload_range *range = &slice->refill->ranges[slice->section - PRELOAD_WAITING_FIRST];
    topic->is_idle = false;
    if (!range->is_open)
        return;
    from_advance(slice, &slice->rest, &range->rest);
    for (size_t i = 0; i < slice->wishes.count; i++) {
        const struct preload_wish *wish = &slice->wishes.at[i];
        struct preload_apart *apart = topic_apart(topic, wish->mark);
        if (!apart)
            continue;
        from_advance(slice, wish, &range->aparts.at[apart - topic->aparts.at]);
        apart->wants -= wish->got < apart->wants ? wish->got : apart->wants;
        apart->loaded += wish->got;
        topic->apart_loaded += wish->got;
    }
}

/* Counts the jobs that were read. Topics that have enough are held before the next slice is
 * read. */
static void count_items(struct preload_topics *topics, struct preload_slice *slice)
{
    topics->slices++;
    for (uint32_t i = 0; i < slice->items.count; i++)
        slice->run->topics[slice->items.at[i].topic]->reading++;
    if (!preload_section_waits(slice->section))
        return;
    for (uint32_t i = 0; i < slice->items.count; i++) {
        struct preload_topic *topic = slice->run->topics[slice->items.at[i].topic];
        if (topic->slice == topics->slices)
            continue;
        topic->slice = topics->slices;
        topic_use(topics, topic);
        if (topic_is_over(topics, topic))
            topic_hold(topics, topic);
    }
}

/* Counts jobs that were due in runs that are gone, and are now met again. */
static void meet_again(struct preload_topics *topics, struct preload_slice *slice)
{
    for (uint32_t i = 0; topics->has_due_of_gone_runs && i < slice->items.count; i++) {
        struct preload_topic *topic = slice->run->topics[slice->items.at[i].topic];
        if (!topic->due_of_gone_runs)
            continue;
        topic->due_of_gone_runs--;
        topic_changed(topics, topic);
    }
}

void preload_topics_take_in(struct preload_topics *topics, struct preload_slice *slice,
                            struct engine_now now)
{
    bool counts = preload_slice_counts(slice);
    if (counts && slice->refill)
        range_advance(slice);
    if (counts && !slice->refill) {
        note_passes(topics, slice, now);
        cursor_advance(slice);
        meet_again(topics, slice);
    }
    count_items(topics, slice);
}

void preload_topics_count_loaded(struct preload_topics *topics, struct preload_slice *slice,
                                 const struct preload_item *item, bool was_cold)
{
    struct preload_topic *topic = slice->run->topics[item->topic];
    topic->reading--;
    if (topic->cold_ready)
        topic_changed(topics, topic); /* the engine has also counted it */
    if (!slice->refill || !preload_slice_counts(slice))
        return;
    place_unnote(topics, slice->refill, slice->section, item->when_ms);
    if (topic->noted_not_cold && !was_cold)
        topic->noted_not_cold--;
}
