#include "engine/forecast.h"

#include "engine/state.h"

#include <string.h>

/* ---- timelines ---- */

enum { MINUTE_MS = 60000, HOUR_MS = 3600000 };

void timeline_init(struct timeline *timeline, int64_t from_ms)
{
    memset(timeline, 0, sizeof *timeline);
    timeline->from_ms = from_ms - from_ms % HOUR_MS;
    timeline->first = (uint32_t)(from_ms % HOUR_MS / MINUTE_MS);
}

void timeline_init_soon(struct timeline *timeline, int64_t from_ms)
{
    timeline->from_ms = from_ms - from_ms % HOUR_MS;
    timeline->first = (uint32_t)(from_ms % HOUR_MS / MINUTE_MS);
    memset(timeline->minutes + timeline->first, 0, FORECAST_SOON * sizeof timeline->minutes[0]);
    timeline->later = timeline->total = 0;
}

/* Rounds as a running sum, so that the sum is exact and no minute is off by more than one job. */
void timeline_spread(struct timeline *timeline, const struct timeline *shape, uint64_t jobs)
{
    uint64_t seen = 0, given = 0;
    for (uint32_t i = 0; i < TIMELINE_MINUTES; i++) {
        seen += shape->minutes[i];
        if (!shape->minutes[i] || !jobs)
            continue;
        uint64_t due = (uint64_t)((double)seen / (double)shape->total * (double)jobs + 0.5);
        timeline->minutes[i] += due - given;
        given = due;
    }
    if (shape->total)
        timeline->later += jobs - given;
    else
        timeline->minutes[timeline->first] += jobs;
    timeline->total += jobs;
}

void timeline_show(const struct timeline *timeline, struct queue_forecast *out)
{
    for (uint32_t i = 0; i < FORECAST_MINUTES; i++)
        out->minutes[i] = timeline->minutes[timeline->first + i];
    for (uint32_t i = 0; i < TIMELINE_MINUTES; i++)
        out->hours[i / 60] += timeline->minutes[i];
    out->later = timeline->later;
}

void timeline_show_soon(const struct timeline *timeline, struct queue_forecast *out)
{
    for (uint32_t i = 0; i < FORECAST_SOON; i++)
        out->minutes[i] = timeline->minutes[timeline->first + i];
}

/* ---- the forecast of the engine ---- */

/* Counts in whole pages, whose first minute may be earlier than that of the timeline. */
struct page_sum {
    int64_t first; /* page */
    uint64_t later;
    uint32_t minutes[TIMELINE_MINUTES + 2 * FORECAST_PAGE_MINUTES];
};

/* Returns the page minute at which the timeline starts; while jobs are counted again after a step of the wall clock
 * the nearest. */
static int64_t minute_of_timeline(const struct engine *engine, const struct timeline *timeline,
                                  struct engine_now now)
{
    int64_t from_ms = timeline->from_ms - now.skew_ms + engine->forecast.phase_ms;
    return (from_ms + MINUTE_MS / 2) / MINUTE_MS;
}

static void page_sum_add(struct page_sum *sum, const struct forecast_page *page)
{
    int64_t at = (int64_t)page->number - sum->first;
    if (at < 0) {
        sum->minutes[0] += page->jobs;
    } else if (at > TIMELINE_MINUTES / FORECAST_PAGE_MINUTES + 1) {
        sum->later += page->jobs;
    } else {
        uint32_t *into = &sum->minutes[at * FORECAST_PAGE_MINUTES];
        for (uint32_t i = 0; i < FORECAST_PAGE_MINUTES; i++)
            into[i] += page->minutes[i];
    }
}

/* Adds the counts to a timeline that starts at `minute`. */
static void page_sum_show(const struct page_sum *sum, int64_t minute, struct timeline *out)
{
    int64_t before = minute - sum->first * FORECAST_PAGE_MINUTES;
    for (int64_t i = 0; i < TIMELINE_MINUTES + 2 * FORECAST_PAGE_MINUTES; i++) {
        if (sum->minutes[i])
            timeline_add(out, out->from_ms + (i - before) * MINUTE_MS, sum->minutes[i]);
    }
    out->later += sum->later;
    out->total += sum->later;
}

/* Adds the pages of the topic; 0: shared pages; UINT32_MAX: all pages. */
static void sum_pages(const struct engine *engine, uint32_t topic, struct engine_now now,
                      struct timeline *out)
{
    const struct forecast_pages *pages = &engine->forecast;
    int64_t minute = minute_of_timeline(engine, out, now);
    struct page_sum sum = {.first = minute / FORECAST_PAGE_MINUTES};
    for (uint32_t id = 1; id <= pages->top; id++) {
        const struct forecast_page *page = &pages->pages[id];
        if (page->number != FORECAST_PAGE_UNUSED && page->jobs &&
            (topic == UINT32_MAX || page->topic == topic))
            page_sum_add(&sum, page);
    }
    page_sum_show(&sum, minute, out);
}

static void add_counts(const struct topic *topic, struct engine_forecast *out, uint64_t *warm)
{
    uint64_t remembered;
    struct queue_counts all = engine_topic_counts(topic, &remembered);
    *warm += topic->counts.delayed + topic->counts.retrying;
    out->cold += all.delayed + all.retrying - topic->counts.delayed - topic->counts.retrying;
    out->overdue += all.ready;
}

/* Adds jobs that no page of the topic counts. They are spread like the jobs in shared pages, most of which are due
 * far ahead. */
static void add_uncounted(const struct engine *engine, const struct topic *topic,
                          struct engine_now now, uint64_t jobs, struct engine_forecast *out)
{
    struct timeline shared;
    timeline_init(&shared, out->timeline.from_ms + (int64_t)out->timeline.first * MINUTE_MS);
    if (topic)
        sum_pages(engine, 0, now, &shared);
    if (!shared.total)
        shared.later = shared.total = 1;
    out->estimated |= shared.later < shared.total || shared.total < jobs;
    timeline_spread(&out->timeline, &shared, jobs);
}

bool engine_forecast(struct engine *engine, struct slice name, struct engine_now now,
                     struct engine_forecast *out)
{
    const struct topic *topic = name.len ? engine_topic_find(engine, name) : NULL;
    struct timeline *timeline = &out->timeline;
    uint64_t warm = 0;
    if (name.len && !topic)
        return false;
    for (uint32_t id = 1; id <= engine->topic_top && !topic; id++)
        if (engine->topics[id])
            add_counts(engine->topics[id], out, &warm);
    if (topic)
        add_counts(topic, out, &warm);
    sum_pages(engine, topic ? topic->id : UINT32_MAX, now, timeline);
    /* After a step of the wall clock, until all jobs have been counted again. */
    out->estimated |= engine->retime_at || now.skew_ms != engine->skew_ms;
    if (timeline->total < warm)
        add_uncounted(engine, topic, now, warm - timeline->total, out);
    return true;
}

bool engine_soon(struct engine *engine, struct slice name, struct engine_now now,
                 struct engine_forecast *out)
{
    const struct forecast_pages *pages = &engine->forecast;
    struct timeline *timeline = &out->timeline;
    const struct topic *topic = name.len ? engine_topic_find(engine, name) : NULL;
    if (name.len && !topic)
        return false;
    if (!topic || pages->top >= FORECAST_OWN_MAX) {
        timeline_init(timeline, timeline->from_ms + (int64_t)timeline->first * MINUTE_MS);
        return engine_forecast(engine, name, now, out);
    }
    int64_t minute = minute_of_timeline(engine, timeline, now) + timeline->first;
    for (int64_t end = minute + FORECAST_SOON, at = timeline->first; minute < end; minute++, at++)
        timeline->minutes[at] += forecast_pages_jobs(pages, topic->id, (uint64_t)minute);
    return true;
}
