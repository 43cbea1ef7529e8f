/*
 * forecast: how many waiting jobs in the memory of the engine fall due in which minute. PURE.
 *
 * The counts are updated when delayed jobs are linked and unlinked, in pages of 64 minutes: about one for each topic
 * and hour in which jobs are due. Memory is bounded for any number of jobs and topics. Jobs of a topic that are due
 * far ahead, or that find no free page, are counted in pages shared by all topics; if no shared page is free, a job
 * is in no page. The forecast of one topic is then shared out in proportion, and marked as estimated.
 */
#ifndef TARRY_ENGINE_FORECAST_H
#define TARRY_ENGINE_FORECAST_H

#include "engine/engine.h"

/* Jobs by the minute in which they fall due, starting at a whole hour. */
enum { TIMELINE_MINUTES = FORECAST_HOURS * 60 };
struct timeline {
    int64_t from_ms; /* wall clock: the start of the first hour */
    uint32_t first;  /* first minute shown: jobs that are due earlier are counted in it */
    uint64_t minutes[TIMELINE_MINUTES];
    uint64_t later, total;
};

/* `from_ms` as in struct queue_forecast_call. */
void timeline_init(struct timeline *timeline, int64_t from_ms);
/* The same for the first FORECAST_SOON minutes only; the others stay undefined. A week has 10,080 minutes, whose zeros and sums would cost more than the
 * rest of a call. */
void timeline_init_soon(struct timeline *timeline, int64_t from_ms);
/* Adds jobs. Inline, because it is called for each slot that is examined. */
static inline void timeline_add(struct timeline *timeline, int64_t due_ms, uint64_t jobs)
{
    int64_t minute = (due_ms - timeline->from_ms) / 60000;
    timeline->total += jobs;
    if (due_ms < timeline->from_ms || minute < timeline->first)
        minute = timeline->first;
    if (minute < TIMELINE_MINUTES)
        timeline->minutes[minute] += jobs;
    else
        timeline->later += jobs;
}
/* Adds jobs in the proportions of `shape`; all in the first minute if that is empty. */
void timeline_spread(struct timeline *timeline, const struct timeline *shape, uint64_t jobs);
void timeline_show(const struct timeline *timeline, struct queue_forecast *out);
void timeline_show_soon(const struct timeline *timeline, struct queue_forecast *out);

/* The result of a forecast by the engine. */
struct engine_forecast {
    struct timeline timeline; /* of the jobs in memory; initialised by the caller */
    uint64_t cold;            /* further waiting jobs, whose due is stored in the runs */
    uint64_t overdue;
    bool estimated;
};

/* Forecasts one topic, or all (an empty name). Bounded work: a millisecond. False: there is no such topic. */
bool engine_forecast(struct engine *engine, struct slice topic, struct engine_now now,
                     struct engine_forecast *out);

/* The same for the first FORECAST_SOON minutes only; the rest is undefined, so are `cold` and `overdue`. One topic
 * takes two lookups after timeline_init_soon, unless there are so many pages that topics share them. */
bool engine_soon(struct engine *engine, struct slice topic, struct engine_now now,
                 struct engine_forecast *out);

#endif
