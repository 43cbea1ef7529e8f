/* engine_rig_checkpoint: checkpoints of engine_rig_runs.h in single steps, and a crash between any
 * two of them. */
#ifndef TARRY_TESTS_ENGINE_RIG_CHECKPOINT_H
#define TARRY_TESTS_ENGINE_RIG_CHECKPOINT_H

#include "engine_rig_runs.h"

/* ---- a checkpoint, step by step ---- */

static inline bool rig_is_victim(void *ctx, uint32_t run)
{
    return ((struct rig *)ctx)->runs[run].is_victim;
}

static inline struct rig_item *rig_add_item(struct rig *rig)
{
    if (rig->item_count == rig->item_cap) {
        rig->item_cap = rig->item_cap ? rig->item_cap * 2 : 64;
        rig->items = realloc(rig->items, rig->item_cap * sizeof *rig->items);
    }
    rig->items[rig->item_count] = (struct rig_item){0};
    return &rig->items[rig->item_count++];
}

static inline bool rig_each(void *ctx, const struct engine_item *item)
{
    rig_add_item(ctx)->item = *item;
    return true;
}

static inline void rig_begin(struct rig *rig, struct random *random)
{
    rig->file++;
    for (uint32_t i = 1; i < RIG_RUNS; i++)
        rig->runs[i].is_victim = rig->runs[i].there && !random_below(random, 3);
    /* A file or two are left to the next one now and then. */
    uint32_t left = (uint32_t)random_below(random, 3);
    uint32_t before = rig->file > left ? rig->file - left : 1;
    if (before < rig->catalog.log_first)
        before = rig->catalog.log_first;
    rig->collect = (struct engine_collect){
        .before_file = before, .is_victim = rig_is_victim, .each = rig_each, .ctx = rig};
    rig->stage = RIG_COLLECTING;
}

static inline int rig_by_order(const void *left, const void *right)
{
    const struct rig_slot *a = &((const struct rig_item *)left)->slot;
    const struct rig_slot *b = &((const struct rig_item *)right)->slot;
    if (a->section != b->section)
        return a->section < b->section ? -1 : 1;
    if (a->when_ms != b->when_ms)
        return a->when_ms < b->when_ms ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static inline bool rig_has_item(const struct rig *rig, size_t count, uint32_t run, uint32_t at)
{
    for (size_t i = 0; i < count; i++)
        if (rig->items[i].item.place.file == (RECORD_IN_RUN | run) &&
            rig->items[i].item.place.at == at)
            return true;
    return false;
}

/* Adds the live jobs of victims that were not collected. */
static inline void rig_add_victims(struct rig *rig)
{
    size_t own = rig->item_count;
    for (uint32_t n = 1; n < RIG_RUNS; n++)
        for (uint32_t at = 0; rig->runs[n].is_victim && at < rig->runs[n].count; at++) {
            struct rig_slot *slot = &rig->runs[n].slots[at];
            if (slot->alive && !rig_has_item(rig, own, n, at))
                rig_add_item(rig)->item =
                    (struct engine_item){.section = slot->section,
                                         .when_ms = slot->when_ms,
                                         .sequence = slot->sequence,
                                         .place = rig_place(n, at, slot->record)};
        }
}

static inline void rig_write(struct rig *rig, struct rig_item *it, struct engine_now now)
{
    struct record record = rig_decode(rig_read(rig, it->item.place));
    int64_t when_ms;
    if (it->item.changed)
        engine_changed_apply(it->item.changed, &record);
    assert_int_equal(job_section_of_record(&record, now.skew_ms, &when_ms), it->item.section);
    if (it->item.section != SECTION_DEAD) /* the wall clock may have stepped since */
        assert_int_equal(when_ms, it->item.when_ms);
    it->slot =
        (struct rig_slot){.record = rig_encode(&record),
                          .key = record.kind == RECORD_DONE
                                     ? record.done.key
                                     : hash_pair(record.job.topic, record.job.id, RIG_HASH_SEED),
                          .section = it->item.section,
                          .when_ms = it->item.when_ms,
                          .sequence = it->item.sequence,
                          .alive = true};
    engine_changed_free(it->item.changed);
    it->item.changed = NULL;
}

static inline void rig_build(struct rig *rig, struct engine_now now)
{
    uint32_t number = ++rig->run_top;
    struct rig_run *run = &rig->runs[number];
    assert_true(number < RIG_RUNS);
    rig_add_victims(rig);
    for (size_t i = 0; i < rig->item_count; i++)
        rig_write(rig, &rig->items[i], now);
    if (rig->item_count)
        qsort(rig->items, rig->item_count, sizeof *rig->items, rig_by_order);
    *run = (struct rig_run){.slots = calloc(rig->item_count + 1, sizeof *run->slots),
                            .count = (uint32_t)rig->item_count,
                            .there = true,
                            .is_new = true};
    for (uint32_t i = 0; i < run->count; i++) {
        struct record_place old = rig->items[i].item.place;
        run->slots[i] = rig->items[i].slot;
        if (record_place_is_run(old) && rig->runs[record_place_run(old)].is_victim) {
            rig_slot(rig, old)->moves = true;
            rig_slot(rig, old)->moved = rig_place(number, i, run->slots[i].record);
        }
    }
    rig->installed = 0;
    rig->stage = RIG_INSTALLING;
}

static inline void rig_install_one(struct rig *rig, uint32_t at)
{
    const struct rig_item *it = &rig->items[at];
    struct rig_slot *fresh = &rig->runs[rig->run_top].slots[at];
    struct record_place old = it->item.place;
    struct record_place place = rig_place(rig->run_top, at, fresh->record);
    if (it->item.id) {
        if (!engine_install(rig->engine, it->item.id, old, place, fresh->section,
                            rig->collect.before_file))
            fresh->alive = false;
    } else if (rig_slot(rig, old)->alive) {
        engine_relocate(rig->engine, fresh->key.low, old, place);
    } else {
        fresh->alive = false;
    }
}

static inline void rig_catalog_fini(struct rig_catalog *catalog)
{
    for (uint32_t i = 0; i < RIG_RUNS; i++)
        free(catalog->alive[i]);
    *catalog = (struct rig_catalog){0};
}

static inline void rig_snapshot(struct rig *rig, struct rig_catalog *out)
{
    *out =
        (struct rig_catalog){.log_first = rig->collect.before_file, .next_run = rig->run_top + 1};
    for (uint32_t n = 1; n < RIG_RUNS; n++) {
        const struct rig_run *run = &rig->runs[n];
        for (uint32_t at = 0; run->is_victim && at < run->count; at++)
            assert_true(!run->slots[at].alive || run->slots[at].moves);
        if (!run->there || run->is_victim)
            continue;
        out->there[n] = true;
        out->alive[n] = calloc(run->count + 1, sizeof(bool));
        for (uint32_t at = 0; at < run->count; at++)
            out->alive[n][at] = run->slots[at].alive;
    }
    struct slice name;
    uint32_t at = 0;
    struct rig_topic *topic = &out->topics[0];
    while (engine_stored_next(rig->engine, &at, &name, topic->stored, &topic->dead_bytes,
                              &topic->kept_bytes)) {
        memcpy(topic->name, name.at, name.len);
        topic->bytes = name.len;
        topic++;
        out->topic_count++;
    }
}

static inline void rig_commit(struct rig *rig)
{
    rig_catalog_fini(&rig->catalog);
    rig->catalog = rig->pending;
    rig->pending = (struct rig_catalog){0};
    rig->next_run = rig->catalog.next_run;
    for (uint32_t n = 1; n < RIG_RUNS; n++)
        if (rig->runs[n].there && rig->runs[n].is_victim)
            rig_drop_run(rig, n);
    for (uint32_t n = 1; n < rig->catalog.log_first; n++)
        rig_drop_file(rig, n);
    rig->stage = RIG_IDLE;
}

static inline void rig_install_some(struct rig *rig, struct random *random)
{
    for (uint64_t n = 1 + random_below(random, 10); n-- && rig->installed < rig->item_count;)
        rig_install_one(rig, (uint32_t)rig->installed++);
    if (rig->installed < rig->item_count)
        return;
    rig->runs[rig->run_top].is_new = false;
    rig->item_count = 0;
    rig->topics_at = 0;
    rig->stage = RIG_CARRYING;
}

static inline void rig_checkpoint_step(struct rig *rig, struct random *random,
                                       struct engine_now now)
{
    switch (rig->stage) {
    case RIG_IDLE:
        rig_begin(rig, random);
        break;
    case RIG_COLLECTING:
        if (!engine_collect(rig->engine, &rig->collect, now, 1 + random_below(random, 20)))
            rig->stage = RIG_BUILDING;
        break;
    case RIG_BUILDING:
        rig_build(rig, now);
        break;
    case RIG_INSTALLING:
        rig_install_some(rig, random);
        break;
    case RIG_CARRYING:
        if (engine_carry_topics(rig->engine, &rig->topics_at, 1))
            rig->stage = RIG_SNAPSHOT;
        break;
    case RIG_SNAPSHOT:
        rig_snapshot(rig, &rig->pending);
        rig->stage = RIG_COMMIT;
        break;
    case RIG_COMMIT:
        rig_commit(rig);
        break;
    }
}

/* ---- the crash ---- */

/* Loses everything that was not committed. */
static inline void rig_lose(struct rig *rig)
{
    engine_free(rig->engine);
    for (size_t i = 0; i < rig->item_count; i++)
        engine_changed_free(rig->items[i].item.changed); /* NULL once the run was built */
    rig->item_count = 0;
    rig_catalog_fini(&rig->pending);
    for (uint32_t n = 1; n < RIG_RUNS; n++) {
        struct rig_run *run = &rig->runs[n];
        run->is_victim = run->is_new = false;
        if (run->there && !rig->catalog.there[n])
            rig_drop_run(rig, n);
        for (uint32_t at = 0; run->there && at < run->count; at++) {
            run->slots[at].alive = rig->catalog.alive[n][at];
            run->slots[at].moves = false;
        }
    }
    rig->stage = RIG_IDLE; /* the numbers of lost runs are never given again: the log names them */
}

static inline void rig_resolve(struct rig *rig)
{
    struct hash128 key;
    struct record_place place;
    for (uint32_t at = 0; engine_stub_next(rig->engine, &at, &key, &place);) {
        rig->reported_stubs++;
        struct rig_slot *slot = NULL;
        if (place.bytes && rig->runs[record_place_run(place)].there)
            slot = rig_slot(rig, place);
        if (!slot || !slot->alive || slot->key.low != key.low)
            slot = rig_find(rig, key, &place);
        assert_non_null(slot);
        struct record record = rig_decode(slot->record);
        assert_true(engine_stub_fill(rig->engine, at, &record, place));
    }
    for (uint32_t at = 0; engine_unresolved_next(rig->engine, &at, &key);) {
        struct rig_slot *slot = rig_find(rig, key, &place);
        if (!slot)
            continue;
        struct record record = rig_decode(slot->record);
        engine_release_stored(
            rig->engine, record.kind == RECORD_JOB ? record.job.topic : record.done.topic, place);
    }
}

static inline void rig_replay(struct rig *rig)
{
    uint32_t first = rig->catalog.log_first ? rig->catalog.log_first : 1;
    for (uint32_t file = first; file <= rig->file; file++)
        for (uint32_t at = 0; at < rig->files[file].count; at++) {
            struct rig_record bytes = rig->files[file].records[at];
            struct record record = rig_decode(bytes);
            struct record_place place = {.file = file, .at = at, .bytes = (uint32_t)bytes.len};
            assert_true(engine_replay(rig->engine, &record, place));
        }
}

static inline void rig_crash(struct rig *rig, uint64_t epoch, struct engine_now now)
{
    rig_lose(rig);
    rig->engine = rig_open(rig, now);
    for (size_t i = 0; i < rig->catalog.topic_count; i++) {
        const struct rig_topic *topic = &rig->catalog.topics[i];
        assert_true(engine_stored_begin(rig->engine, slice_make(topic->name, topic->bytes),
                                        topic->stored, topic->dead_bytes, topic->kept_bytes));
    }
    rig->replaying = true;
    rig_replay(rig);
    rig_resolve(rig);
    rig->replaying = false;
    engine_start(rig->engine, epoch);
    rig->file++;
    rig_load_due(rig, 0, false, now); /* the leased */
}

static inline void rig_fini(struct rig *rig)
{
    rig_lose(rig);
    for (uint32_t n = 1; n < RIG_RUNS; n++)
        if (rig->runs[n].there)
            rig_drop_run(rig, n);
    rig_catalog_fini(&rig->catalog);
    for (uint32_t n = 0; n <= rig->file; n++)
        rig_drop_file(rig, n);
    free(rig->items);
}

#endif
