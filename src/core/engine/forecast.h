/*
 * forecast: how many jobs that wait in the engine's memory fall due in which minute. PURE.
 *
 * Counts are kept as jobs are hung and unhung, in pages of 64 minutes: one for each topic and hour or
 * so in which something is due. Memory is bounded, however many jobs and topics there are: a topic's
 * jobs that are far off, or for which there is no page any more, are counted in pages that all topics
 * share; where not even such a one is to be had, a job is in no page. Whoever asks for one topic is
 * then told by proportion, and that it is so.
 */
#ifndef TARRY_ENGINE_FORECAST_H
#define TARRY_ENGINE_FORECAST_H

#include "engine/engine.h"

/* Jobs by the minute in which they fall due, from a whole hour on. */
enum { TIMELINE_MINUTES = FORECAST_HOURS * 60 };
struct timeline {
    int64_t from_ms; /* wall clock: where the first hour begins */
    uint32_t first;  /* the minute before which nothing is shown: what is due earlier is in it */
    uint64_t minutes[TIMELINE_MINUTES];
    uint64_t later, total;
};

/* `from_ms` as in struct queue_forecast_call. */
void timeline_init(struct timeline *timeline, int64_t from_ms);
/* Inline: called for each slot that is looked at. */
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
/* So many jobs, in the proportions of `shape`; all in the first minute where that has none. */
void timeline_spread(struct timeline *timeline, const struct timeline *shape, uint64_t jobs);
void timeline_show(const struct timeline *timeline, struct queue_forecast *out);

/* What the engine can tell. */
struct engine_forecast {
    struct timeline timeline; /* of the jobs in memory; initialised by the caller */
    uint64_t cold;            /* jobs that wait too, of which the runs know when */
    uint64_t overdue;
    bool estimated;
};

/* Of one topic, or of all (an empty name). Bounded work: a millisecond. False: there is no such topic. */
bool engine_forecast(struct engine *engine, struct slice topic, struct engine_now now,
                     struct engine_forecast *out);

#endif
