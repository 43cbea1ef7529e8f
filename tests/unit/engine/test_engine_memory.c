/* Every allocation that the engine makes for cold jobs fails once: the failure is reported, nothing is half done,
 * and with memory it continues as if nothing had happened. (Allocations of the rig do not count, so they
 * are made before.) */
#include "unit/claim.h"
#include "unit/fault_calls.h"

#include "engine_owner.h"

enum { JOBS = 30, ROUNDS_MAX = 500 };

static const char *name_of(unsigned number, char text[16])
{
    snprintf(text, 16, "job-%u", number);
    return text;
}

/* Fills a run with all that it can hold: plain jobs, failed ones, a leased one, dead ones, remembered ids; and
 * the log with states, ends and a replacement of some of them. */
static void fill(struct owner *owner)
{
    char text[16];
    open_owner(owner);
    put_topic(owner, 10 * COLD_MS);
    for (unsigned i = 0; i < JOBS; i++)
        push(owner, name_of(i, text), i % 3 ? COLD_MS : 0);
    for (unsigned i = 0; i < 5; i++)
        fail_once(owner);
    take(owner);
    answer(owner, take(owner), (struct queue_answer){.verb = QUEUE_ACK});
    checkpoint(owner, ++owner->rig->file);
    reschedule(owner, name_of(1, text), 0);
    fail_once(owner);
    reschedule(owner, name_of(2, text), 2 * COLD_MS);
}

static struct queue_counts counts(struct owner *owner)
{
    struct engine_stats stats;
    engine_stats(owner->rig->engine, &stats);
    /* Which of the cold ones are ready is not checked here. */
    stats.counts.delayed += stats.counts.ready + stats.counts.retrying;
    stats.counts.ready = stats.counts.retrying = 0;
    return stats.counts;
}

static void assert_same_counts(struct owner *owner, const struct queue_counts *before)
{
    struct queue_counts after = counts(owner);
    engine_check(owner->rig->engine);
    assert_memory_equal(&after, before, sizeof after);
}

/* ---- claims ---- */

static bool replay_all(struct rig *rig)
{
    const struct rig_topic *topic = &rig->catalog.topics[0];
    if (!engine_stored_begin(rig->engine, slice_make(topic->name, topic->bytes), topic->stored,
                             topic->dead_bytes, 0))
        return false;
    for (uint32_t file = rig->catalog.log_first; file <= rig->file; file++)
        for (uint32_t at = 0; at < rig->files[file].count; at++) {
            struct rig_record bytes = rig->files[file].records[at];
            struct record record = rig_decode(bytes);
            struct record_place place = {.file = file, .at = at, .bytes = (uint32_t)bytes.len};
            if (!engine_replay(rig->engine, &record, place))
                return false;
        }
    return true;
}

/* Opens again: memory holds only what the log's records bring there. */
static void open_again(struct owner *owner)
{
    rig_lose(owner->rig);
    owner->rig->engine = rig_open(owner->rig, owner->now);
    owner->rig->replaying = true;
    assert_true(replay_all(owner->rig));
    owner->rig->replaying = false;
    engine_start(owner->rig->engine, ++owner->epoch);
}

static bool load_all(struct owner *owner)
{
    struct rig_slot *slot;
    struct record_place place;
    for (uint32_t run = 0, at = 0; (slot = rig_next(owner->rig, &run, &at, &place));) {
        struct record record = rig_decode(slot->record);
        enum engine_loaded loaded = engine_load(owner->rig->engine, &record, place, owner->now);
        assert_true(engine_knows(owner->rig->engine, slot->key) == (loaded != ENGINE_NO_MEMORY));
        if (loaded == ENGINE_NO_MEMORY)
            return false;
    }
    return true;
}

CLAIM(a_far_job_without_memory_for_it_stays_far)
{
    struct owner owner;
    int n = 0;
    bool done = false;
    fill(&owner);
    checkpoint(&owner, ++owner.rig->file);
    struct queue_counts before = counts(&owner);
    for (; !done && n < ROUNDS_MAX; n++) {
        open_again(&owner);
        calls_left = n;
        done = load_all(&owner);
        calls_left = -1;
        assert_same_counts(&owner, &before);
        assert_true(load_all(&owner));
        assert_same_counts(&owner, &before);
    }
    assert_true(done && n > 1);
    close_owner(&owner);
}

static void make_room_for_items(struct rig *rig)
{
    rig->item_cap = 2 * JOBS;
    rig->items = realloc(rig->items, rig->item_cap * sizeof *rig->items);
    assert_non_null(rig->items);
}

static void drop_items(struct rig *rig)
{
    for (size_t i = 0; i < rig->item_count; i++) {
        engine_changed_free(rig->items[i].item.changed);
        rig->items[i].item.changed = NULL;
    }
    rig->item_count = 0;
}

static int collect_all(struct owner *owner, struct engine_collect *collect)
{
    int result = 1;
    while (result == 1)
        result = engine_collect(owner->rig->engine, collect, owner->now, 7);
    return result;
}

CLAIM(a_checkpoint_without_memory_is_given_up_and_made_later)
{
    struct owner owner;
    int result = -ENOMEM, n = 0;
    fill(&owner);
    load_all(&owner);
    make_room_for_items(owner.rig);
    struct queue_counts before = counts(&owner);
    uint32_t before_file = ++owner.rig->file;
    for (; result && n < ROUNDS_MAX; n++) {
        struct engine_collect collect = {.before_file = before_file,
                                         .is_victim = rig_is_victim,
                                         .each = rig_each,
                                         .ctx = owner.rig};
        calls_left = n;
        result = collect_all(&owner, &collect);
        calls_left = -1;
        assert_true(result == 0 || result == -ENOMEM);
        drop_items(owner.rig);
        assert_same_counts(&owner, &before);
    }
    assert_true(result == 0 && n > 1);
    checkpoint(&owner, before_file);
    assert_same_counts(&owner, &before);
    crash(&owner);
    load_all(&owner);
    assert_same_counts(&owner, &before);
    close_owner(&owner);
}

static bool refuses_items(void *ctx, const struct engine_item *item)
{
    size_t *left = ctx;
    if (!*left)
        return false; /* what is behind the item stays the engine's */
    --*left;
    engine_changed_free(item->changed);
    return true;
}

CLAIM(an_item_that_the_owner_cannot_take_ends_the_collecting)
{
    struct owner owner;
    int result = -ENOMEM;
    fill(&owner);
    load_all(&owner);
    uint32_t before_file = ++owner.rig->file;
    for (size_t n = 0; result && n < JOBS; n++) {
        size_t left = n;
        struct engine_collect collect = {
            .before_file = before_file, .each = refuses_items, .ctx = &left};
        result = collect_all(&owner, &collect);
        engine_check(owner.rig->engine);
    }
    assert_int_equal(result, 0);
    close_owner(&owner);
}

/* Then the opening is refused; the next, with memory, finds everything. */
CLAIM(a_replay_without_memory_is_refused)
{
    struct owner owner;
    bool done = false;
    int n = 0;
    fill(&owner);
    struct queue_counts before = counts(&owner);
    for (; !done && n < ROUNDS_MAX; n++) {
        rig_lose(owner.rig);
        owner.rig->replaying = true;
        owner.rig->engine = rig_open(owner.rig, owner.now);
        calls_left = n;
        done = replay_all(owner.rig);
        calls_left = -1;
        owner.rig->replaying = false;
    }
    assert_true(done && n > 1);
    crash(&owner);
    assert_same_counts(&owner, &before);
    close_owner(&owner);
}

/* ---- a slot that cannot be rewritten ---- */

static struct engine_item kept;

static bool keep_item(void *ctx, const struct engine_item *item)
{
    size_t *count = ctx;
    ++*count;
    kept = *item;
    engine_changed_free(item->changed);
    return true;
}

static size_t wanted_before(struct owner *owner, uint32_t before_file)
{
    size_t count = 0;
    struct engine_collect collect = {.before_file = before_file, .each = keep_item, .ctx = &count};
    assert_int_equal(collect_all(owner, &collect), 0);
    return count;
}

/* Its newest state is in the log, its record in a run, and that cannot be read: the content of the state
 * is written once more, so that the older files may go. */
CLAIM(kept_jobs_need_no_older_file)
{
    struct owner owner;
    open_owner(&owner);
    push(&owner, "a", COLD_MS);
    push(&owner, "b", COLD_MS);
    checkpoint(&owner, ++owner.rig->file);
    struct rig_file *file = &owner.rig->files[++owner.rig->file];
    reschedule(&owner, "a", 0);
    fail_once(&owner);
    uint32_t before_file = ++owner.rig->file;
    assert_int_equal(wanted_before(&owner, before_file), 1);
    uint32_t states = file->count;
    struct engine *engine = owner.rig->engine;
    file = &owner.rig->files[owner.rig->file];
    engine_keep(engine, 0, kept.place);
    engine_keep(engine, 1000, kept.place);
    engine_keep(engine, kept.id, (struct record_place){.file = 1, .bytes = 1});
    engine_keep(engine, 3 - kept.id, kept.place); /* the other's, which nothing has changed */
    assert_int_equal(file->count, 0);
    engine_keep(engine, kept.id, kept.place);
    assert_int_equal(file->count, 1);
    assert_true(states > 0);
    assert_int_equal(wanted_before(&owner, before_file), 0);
    checkpoint(&owner, before_file);
    crash(&owner);
    struct engine_view view;
    assert_int_equal(attempts_of(&owner, "a"), 0); /* its history went with the older file */
    assert_true(engine_find(owner.rig->engine, topic_name(0), slice_of("a"), owner.now, &view));
    assert_int_equal(view.attempt, 1);
    engine_view_fini(&view);
    close_owner(&owner);
}

CLAIMS_MAIN(NULL, NULL)
