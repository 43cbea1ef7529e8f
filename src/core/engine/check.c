/* A check of every invariant of the engine, for tests. */
#include "engine/state.h"

#include <assert.h>

/* Checks that the page of a delayed job counts it. */
static void check_forecast(const struct engine *engine, uint32_t id)
{
    const struct entry *entry = entry_at(engine, id);
    const struct forecast_page *page = &engine->forecast.pages[entry->ready_at];
    uint64_t minute = forecast_minute(entry_phase_ms(engine, id), entry->timer.when_ms);
    if (!entry->ready_at)
        return;
    assert(page->number == minute / FORECAST_PAGE_MINUTES && page->jobs);
    assert(page->topic == entry->topic || !page->topic);
    assert(page->minutes[minute % FORECAST_PAGE_MINUTES]);
}

/* Checks that the pages count each job once, and nothing else. */
static void check_pages(const struct engine *engine, uint64_t delayed)
{
    uint64_t jobs = 0, empty = 0;
    for (uint32_t id = 1; id <= engine->forecast.top; id++) {
        const struct forecast_page *page = &engine->forecast.pages[id];
        uint64_t sum = 0;
        if (page->number == FORECAST_PAGE_UNUSED)
            continue;
        for (uint32_t i = 0; i < FORECAST_PAGE_MINUTES; i++)
            sum += page->minutes[i];
        assert(sum == page->jobs);
        jobs += sum;
        empty += !sum;
    }
    assert(jobs <= delayed && empty == engine->forecast.empty);
}

static void check_entry(const struct engine *engine, uint32_t id, struct queue_counts *sum,
                        uint64_t *remembered, uint64_t *kept)
{
    const struct entry *entry = entry_at(engine, id);
    const struct topic *topic = entry_topic(engine, entry);
    const struct extra *extra = entry_extra(engine, entry);
    assert(topic && topic->id == entry->topic);
    assert(engine_index_find(engine, entry->key) == id);
    assert(entry->place.bytes && !entry->is_stub);
    assert(entry->state != JOB_FINISHED || !entry->state_file);
    assert(!extra || job_history_check(entry_history(extra)));
    assert(!extra ||
           !extra->successor == !(entry->state == JOB_LEASED && extra->next == NEXT_WAITS));
    bool in_wheel = entry->timer.place != 0;
    switch ((enum job_state)entry->state) {
    case JOB_DELAYED:
        *(entry_attempt(engine, entry) ? &sum->retrying : &sum->delayed) += 1;
        assert(in_wheel);
        check_forecast(engine, id);
        break;
    case JOB_READY:
        sum->ready++;
        if (!topic->flow || !topic->flow->is_grouped)
            assert(entry->ready_at < topic->ready.count &&
                   topic->ready.items[entry->ready_at].id == id);
        break;
    case JOB_LEASED:
        sum->leased++;
        assert(in_wheel && extra && extra->delivery && extra->attempt);
        break;
    case JOB_DEAD:
        sum->dead++;
        sum->dead_bytes += entry->place.bytes;
        assert(!in_wheel);
        break;
    case JOB_FINISHED:
        ++*(entry_is_kept(entry) ? kept : remembered);
        assert(in_wheel && !extra);
        break;
    }
}

/* Checks the counts of jobs in slots by a recount. */
static void check_stored(const struct engine *engine, const struct topic *topic)
{
    uint64_t loaded[SECTIONS] = {0}, dead_bytes = 0, kept_bytes = 0, waiting = 0;
    for (uint32_t id = 1; id <= engine->entries.top; id++) {
        const struct entry *entry = entry_at(engine, id);
        if (!entry->state || entry->topic != topic->id || !record_place_is_run(entry->place))
            continue;
        loaded[entry->section]++;
        dead_bytes += entry->section == SECTION_DEAD ? entry->place.bytes : 0;
        kept_bytes += entry->section == SECTION_KEPT ? entry->place.bytes : 0;
        waiting += entry_waits(engine, entry);
        assert(entry->state_file || entry->section == entry_section(engine, entry));
    }
    for (int section = 0; section < SECTIONS; section++)
        assert(loaded[section] == topic->loaded[section] &&
               topic->stored[section] >= loaded[section]);
    assert(dead_bytes == topic->loaded_dead_bytes && topic->stored_dead_bytes >= dead_bytes);
    assert(kept_bytes == topic->loaded_kept_bytes && topic->stored_kept_bytes >= kept_bytes);
    assert(waiting == topic->waiting);
}

static void check_ready(const struct ready_heap *heap)
{
    for (uint32_t at = 1; at < heap->count; at++)
        assert(ready_comes_before(&heap->items[(at - 1) / 2], &heap->items[at]));
}

static void check_topic(const struct engine *engine, const struct topic *topic)
{
    const struct topic_totals *totals = &topic->totals;
    const struct queue_counts *counts = &topic->counts;
    uint64_t remembered;
    struct queue_counts all = engine_topic_counts(topic, &remembered);
    assert(totals->pushed == all.delayed + all.retrying + all.ready + all.leased + all.dead +
                                 totals->acked + totals->cancelled + totals->expired);
    check_stored(engine, topic);
    assert(flow_ready_count(topic) == counts->ready);
    check_ready(&topic->ready);
    if (topic->flow)
        flow_check(engine, topic);
    uint64_t dead = 0, dead_bytes = 0;
    for (uint32_t id = topic->dead_first; id; id = entry_at(engine, id)->timer.next) {
        assert(entry_at(engine, id)->state == JOB_DEAD && entry_at(engine, id)->topic == topic->id);
        dead++;
        dead_bytes += entry_at(engine, id)->place.bytes;
    }
    assert(dead == counts->dead && dead_bytes == counts->dead_bytes);
}

void engine_check(const struct engine *engine)
{
    struct queue_counts sum = {0};
    struct engine_stats stats;
    uint64_t remembered = 0, kept = 0, live = 0;
    wheel_check(&engine->wheel);
    for (uint32_t id = 1; id <= engine->entries.top; id++)
        if (entry_at(engine, id)->state) {
            check_entry(engine, id, &sum, &remembered, &kept);
            live++;
        }
    check_pages(engine, sum.delayed + sum.retrying);
    assert(live == engine->index.count && live == engine->entries.live);
    for (uint32_t id = 1; id <= engine->topic_top; id++)
        if (engine->topics[id])
            check_topic(engine, engine->topics[id]);
    for (uint32_t i = 1; i < engine->topic_count && !engine->recovering; i++)
        assert(slice_compare(engine->topics_by_name[i - 1]->name, engine->topics_by_name[i]->name) <
               0);
    /* The figures also include cold jobs. */
    engine_stats(engine, &stats);
    assert(stats.counts.ready + stats.counts.delayed + stats.counts.retrying >=
           sum.ready + sum.delayed + sum.retrying);
    assert(stats.counts.leased >= sum.leased && stats.counts.dead >= sum.dead);
    assert(stats.counts.dead_bytes >= sum.dead_bytes && stats.remembered >= remembered);
    assert(stats.counts.finished >= kept);
    assert(!engine->stubs);
}

void engine_stored_sum(const struct engine *engine, uint64_t stored[SECTIONS],
                       uint64_t loaded[SECTIONS])
{
    for (int section = 0; section < SECTIONS; section++) {
        stored[section] = loaded[section] = 0;
        for (uint32_t id = 1; id <= engine->topic_top; id++) {
            const struct topic *topic = engine->topics[id];
            stored[section] += topic ? topic->stored[section] : 0;
            loaded[section] += topic ? topic->loaded[section] : 0;
        }
    }
}
