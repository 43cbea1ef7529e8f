#include "engine/walk.h"

#include "engine/state.h"

#include <assert.h>
#include <stdlib.h>

bool walk_init(struct walk *walk, struct engine *engine)
{
    const struct topic *topic =
        engine_topic_find(engine, slice_make(walk->topic, walk->topic_bytes));
    if (!topic)
        return false;
    walk->until_sequence = engine->sequence;
    walk->changes = topic->changes;
    if (walk->kind == WALK_LIST)
        return walk_views_reserve(&walk->found, walk->limit);
    return true;
}

void walk_fini(struct walk *walk)
{
    for (size_t i = 0; i < walk->found.count; i++)
        engine_view_fini(&walk->found.at[i]);
    walk_views_fini(&walk->found);
}

/* ---- list: keeps the first `limit` by due in a heap whose first element is the last of them ---- */

bool walk_is_past_cursor(const struct walk *walk, int64_t due_ms, uint64_t sequence)
{
    return !walk->has_cursor || queue_cursor_is_before(&walk->after, due_ms, sequence, walk->shard);
}

/* Adds a job that matches the list. */
static void list_one(struct walk *walk, const struct engine *engine, uint32_t id,
                     struct engine_now now)
{
    const struct entry *entry = entry_at(engine, id);
    bool is_kept = walk->state == JOB_FINISHED;
    struct engine_view bare = {.due_ms = entry_due_wall_ms(entry, now.skew_ms),
                               .sequence = entry->sequence};
    if (is_kept)
        bare = (struct engine_view){.due_ms =
                                        queue_finished_rank((int64_t)entry->due_ms + now.skew_ms),
                                    .sequence = queue_finished_rank_sequence(entry->sequence)};
    walk->seen++;
    if (!walk_is_past_cursor(walk, bare.due_ms, bare.sequence))
        return;
    if (walk->found.count < walk->limit) {
        struct engine_view view;
        (is_kept ? kept_view : entry_view)(engine, id, now, &view);
        (void)walk_views_add(&walk->found, view);
        return;
    }
    walk->more = true;
    if (walk_view_is_behind(&walk->found.at[0], &bare)) {
        engine_view_fini(&walk->found.at[0]);
        (is_kept ? kept_view : entry_view)(engine, id, now, &walk->found.at[0]);
        walk_views_changed(&walk->found, 0);
    }
}

/* Sorts the found jobs, by repeated removal of the last from the heap. */
static void list_finish(struct walk *walk)
{
    size_t count = walk->found.count;
    while (walk->found.count) {
        struct engine_view last = walk_views_take_first(&walk->found);
        walk->found.at[walk->found.count] = last;
    }
    walk->found.count = count;
    /* A job that was evicted and loaded again meanwhile may be in the list twice. */
    size_t kept = 0;
    for (size_t i = 0; i < walk->found.count; i++) {
        if (kept && walk->found.at[i].sequence == walk->found.at[kept - 1].sequence)
            engine_view_fini(&walk->found.at[i]);
        else
            walk->found.at[kept++] = walk->found.at[i];
    }
    walk->found.count = kept;
}

/* Returns how many jobs of the topic match the list. */
static uint64_t count_matching(const struct walk *walk, const struct topic *topic)
{
    const struct queue_counts *counts = &topic->counts;
    uint64_t delayed = counts->delayed + counts->retrying;
    switch (walk->state) {
    case JOB_DELAYED:
        return delayed;
    case JOB_READY:
        return counts->ready;
    case JOB_LEASED:
        return counts->leased;
    case JOB_DEAD:
        return counts->dead;
    case JOB_FINISHED:
        return topic->kept;
    default:
        return delayed + counts->ready + counts->leased + counts->dead;
    }
}

/* ---- purge, delete, redrive ---- */

/* Returns whether the purge includes the entry: pushed before the purge began, and in the requested state. */
static bool is_purged(const struct walk *walk, const struct entry *entry)
{
    if (entry->sequence > walk->until_sequence)
        return false;
    if (walk->kind == WALK_DELETE)
        return true;
    if (entry->state == JOB_FINISHED)
        return walk->state == JOB_FINISHED && entry_is_kept(entry);
    if (entry->state == JOB_LEASED)
        return false;
    return !walk->state || walk->state == (enum job_state)entry->state;
}

/* Forgets a remembered id, or a kept job, without a change of the totals. */
static void forget_remembered(struct engine *engine, uint32_t id)
{
    const struct entry *entry = entry_at(engine, id);
    struct record record = {.kind = RECORD_DONE,
                            .from = entry_slot(entry),
                            .done = {.key = entry->key,
                                     .reason = RECORD_PURGED,
                                     .sequence = entry->sequence,
                                     .topic = entry_topic(engine, entry)->name,
                                     .carried = true}};
    engine->sink.append(engine->sink.ctx, &record);
    entry_unhang(engine, id);
    entry_forget(engine, id);
}

static void purge_one(struct walk *walk, struct engine *engine, uint32_t id, struct engine_now now)
{
    if (entry_at(engine, id)->state == JOB_FINISHED && walk->kind == WALK_PURGE) {
        kept_drop(engine, id, now);
        walk->affected++;
        return;
    }
    if (entry_at(engine, id)->state == JOB_FINISHED) {
        forget_remembered(engine, id);
        return;
    }
    entry_unhang(engine, id);
    entry_finish(engine, id, RECORD_PURGED, now);
    walk->affected++;
}

static void begin_redrive(struct walk *walk, const struct topic *topic, struct engine_now now)
{
    if (walk->has_begun)
        return;
    walk->has_begun = true;
    walk->began_ms = now.inner_ms;
    walk->was_dead = topic->counts.dead;
}

/* Returns whether the job certainly died after the redrive began: it was pushed or delivered since, or it became
 * ready since and expired without a take. A job that was imported as dead may have any due, but did not expire
 * here. */
static bool has_died_since(const struct walk *walk, const struct engine *engine,
                           const struct entry *entry, struct engine_now now)
{
    const struct extra *extra = entry_extra(engine, entry);
    int64_t due_ms = (int64_t)entry->due_ms;
    if (entry->sequence > walk->until_sequence || (extra && extra->delivery > walk->until_sequence))
        return true;
    return !entry_attempt(engine, entry) && slice_is(entry_error(extra), "expired") &&
           !(entry->flags & ENTRY_DUE_IS_WALL) && due_ms > walk->began_ms && due_ms <= now.inner_ms;
}

/* Redrives jobs from the list of dead jobs, without examining other entries. */
static bool redrive_step(struct walk *walk, struct engine *engine, struct topic *topic,
                         struct engine_now now, size_t changes)
{
    while (changes-- && topic->dead_first) {
        if (walk->max && walk->affected >= walk->max)
            return true;
        /* Jobs that died later are at the end of the list, and are left to the next redrive. Otherwise the walk
         * might never end. */
        if (walk->seen++ >= walk->was_dead)
            return true;
        engine_redrive_entry(engine, topic->dead_first, now);
        walk->affected++;
    }
    return !topic->dead_first;
}

bool walk_step(struct walk *walk, struct engine *engine, struct engine_now now, size_t steps,
               size_t changes)
{
    struct topic *topic = engine_topic_find(engine, slice_make(walk->topic, walk->topic_bytes));
    if (!topic)
        return true;
    if (walk->kind == WALK_TRIM)
        return true; /* those in memory are newer */
    if (walk->kind == WALK_REDRIVE) {
        begin_redrive(walk, topic, now);
        return redrive_step(walk, engine, topic, now, changes);
    }
    while (walk->at < engine->entries.top) {
        bool is_list = walk->kind == WALK_LIST;
        if (is_list && topic->changes == walk->changes && walk->seen >= count_matching(walk, topic))
            break;
        if (!steps-- || !changes)
            return false;
        uint32_t id = ++walk->at;
        const struct entry *entry = entry_at(engine, id);
        if (!entry->state || entry->topic != topic->id)
            continue;
        if (is_list && entry->extra && batch_is_leftover(engine, entry))
            continue;
        if (is_list) {
            if ((entry->state != JOB_FINISHED ||
                 (walk->state == JOB_FINISHED && entry_is_kept(entry) &&
                  (int64_t)entry->due_ms > now.inner_ms)) &&
                (!walk->state || walk->state == (enum job_state)entry->state))
                list_one(walk, engine, id, now);
        } else if (is_purged(walk, entry)) {
            purge_one(walk, engine, id, now);
            changes--;
        }
    }
    if (walk->kind == WALK_LIST)
        list_finish(walk);
    return true;
}

void walk_one(struct walk *walk, struct engine *engine, struct hash128 key, struct engine_now now)
{
    uint32_t id = engine_index_find(engine, key);
    const struct topic *topic =
        engine_topic_find(engine, slice_make(walk->topic, walk->topic_bytes));
    const struct entry *entry = id ? entry_at(engine, id) : NULL;
    assert(walk->kind != WALK_LIST);
    if (walk->kind == WALK_TRIM) {
        walk->more = walk->more || !engine_trim_one(engine, key, now);
        return;
    }
    if (!entry || !topic || entry->topic != topic->id)
        return;
    if (walk->kind != WALK_REDRIVE) {
        if (is_purged(walk, entry))
            purge_one(walk, engine, id, now);
        return;
    }
    begin_redrive(walk, topic, now);
    if (entry->state == JOB_DEAD && (!walk->max || walk->affected < walk->max) &&
        !has_died_since(walk, engine, entry, now)) {
        engine_redrive_entry(engine, id, now);
        walk->affected++;
    }
}

bool walk_has_enough(const struct walk *walk, struct engine *engine)
{
    if (walk->kind == WALK_TRIM)
        return walk->more;
    if (walk->kind != WALK_REDRIVE)
        return false;
    const struct topic *topic =
        engine_topic_find(engine, slice_make(walk->topic, walk->topic_bytes));
    return (walk->max && walk->affected >= walk->max) || !topic ||
           !(topic->counts.dead + topic->stored[SECTION_DEAD] - topic->loaded[SECTION_DEAD]);
}
