#include "schedule/timetable.h"

#include "schedule/calendar.h"

enum { SEARCH_MAX = 20000 }; /* excepted fires of one search */

static int64_t seconds_of(int64_t ms)
{
    return ms >= 0 ? ms / 1000 : -((-ms + 999) / 1000);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- expressions ---- */

/* Finds the first match of an expression in a span, from the second `from_s` on. Sets *found. */
static bool next_in_span(const struct cron *cron, const struct timetable *table,
                         const struct zone_span *span, int64_t from_s, struct timetable_fire *found)
{
    int64_t from = from_s + span->offset_s, before = INT64_MAX, local;
    int64_t twice_start = INT64_MIN, twice_end = INT64_MIN; /* the second time */
    int64_t once_start = INT64_MAX; /* from here to the end: the first time of two */
    if (span->end_s != INT64_MAX)
        before = span->end_s + span->offset_s;
    if (span->start_s != INT64_MIN && span->before_s > span->offset_s) {
        twice_start = span->start_s + span->offset_s;
        twice_end = span->start_s + span->before_s;
    }
    if (span->end_s != INT64_MAX && span->after_s < span->offset_s)
        once_start = span->end_s + span->after_s;
    if (!cron->is_interval && table->fold == FOLD_FIRST && from < twice_end)
        from = larger(from, twice_end);
    if (!cron->is_interval && table->fold == FOLD_LAST && before > once_start)
        before = once_start;
    if (!cron_next(cron, from, before, &local))
        return false;
    found->at_ms = (local - span->offset_s) * 1000;
    found->offset_s = span->offset_s;
    found->remark = local >= once_start                         ? REMARK_FIRST
                    : local >= twice_start && local < twice_end ? REMARK_SECOND
                                                                : 0;
    return true;
}

/* Finds the fire of a fixed expression whose local time is in the gap at the start of the span. Sets
 * *out for a fire, and *dropped to the local time of a dropped one. */
static bool next_in_gap(const struct cron *cron, const struct timetable *table,
                        const struct zone_span *span, struct timetable_fire *out, int64_t *dropped)
{
    int64_t local, gap_s = span->offset_s - span->before_s;
    if (cron->is_interval || gap_s <= 0 || span->start_s == INT64_MIN ||
        !cron_next(cron, span->start_s + span->before_s, span->start_s + span->offset_s, &local))
        return false;
    if (gap_s > TIMETABLE_GAP_MAX_S || table->gap == GAP_SKIP) {
        *dropped = local;
        return false;
    }
    *out = (struct timetable_fire){.at_ms = span->start_s * 1000,
                                   .offset_s = span->offset_s,
                                   .remark = REMARK_MOVED,
                                   .local_s = local};
    return true;
}

static bool next_of_cron(const struct cron *cron, const struct timetable *table,
                         const struct zone *zone, int64_t after_ms, struct timetable_fire *out)
{
    int64_t from_s = seconds_of(after_ms) + 1, dropped = INT64_MIN;
    struct timetable_fire found = {0};
    while (from_s < TIMETABLE_END_MS / 1000) {
        struct zone_span span;
        zone_span_at(zone, from_s, &span);
        if (span.start_s == from_s && next_in_gap(cron, table, &span, out, &dropped))
            return true;
        if (next_in_span(cron, table, &span, from_s, &found)) {
            if (dropped != INT64_MIN && !found.remark) {
                found.remark = REMARK_DROPPED;
                found.local_s = dropped;
            }
            *out = found;
            return true;
        }
        if (span.end_s == INT64_MAX)
            return false;
        from_s = span.end_s;
    }
    return false;
}

/* ---- intervals ---- */

static bool next_of_interval(const struct timetable *table, const struct zone *zone,
                             int64_t after_ms, struct timetable_fire *out)
{
    int64_t origin_ms = table->start_ms + table->phase_ms, at_ms = origin_ms;
    struct zone_span span;
    if (after_ms >= origin_ms)
        at_ms = origin_ms + ((after_ms - origin_ms) / table->every_ms + 1) * table->every_ms;
    zone_span_at(zone, seconds_of(at_ms), &span);
    *out = (struct timetable_fire){.at_ms = at_ms, .offset_s = span.offset_s};
    return true;
}

/* ---- all together ---- */

/* Finds the first fire without exceptions. */
static bool next_of_any(const struct timetable *table, const struct zone *zone, int64_t after_ms,
                        struct timetable_fire *out)
{
    struct timetable_fire found;
    bool any = false;
    if (!table->cron_count)
        return next_of_interval(table, zone, after_ms, out);
    for (size_t i = 0; i < table->cron_count; i++)
        if (next_of_cron(&table->crons[i], table, zone, after_ms, &found) &&
            (!any || found.at_ms < out->at_ms)) {
            *out = found;
            any = true;
        }
    return any;
}

/* Returns whether the fire is excepted. Sets *resume_ms to a time before which all fires are
 * excepted for the same reason. */
static bool is_excepted(const struct timetable *table, const struct zone *zone,
                        const struct timetable_fire *fire, int64_t *resume_ms)
{
    int64_t local_s = seconds_of(fire->at_ms) + fire->offset_s;
    int64_t day = calendar_day_of(local_s);
    *resume_ms = fire->at_ms + 1;
    for (size_t i = 0; i < table->day_count; i++)
        if (table->days[i] == day) {
            struct zone_span span;
            int64_t end_s = (day + 1) * CALENDAR_DAY_S - fire->offset_s;
            zone_span_at(zone, seconds_of(fire->at_ms), &span);
            if (span.end_s > end_s) /* the offset stays until the end of the day */
                *resume_ms = end_s * 1000;
            return true;
        }
    for (size_t i = 0; i < table->except_count; i++)
        if (cron_covers(&table->except[i], local_s))
            return true;
    return false;
}

/* Finds the first fire after one time and not after another one. */
static enum timetable_found next_until(const struct timetable *table, const struct zone *zone,
                                       int64_t after_ms, int64_t end_ms, struct timetable_fire *out)
{
    struct timetable_fire fire;
    after_ms = larger(after_ms, table->start_ms - 1);
    for (int i = 0; i < SEARCH_MAX; i++) {
        int64_t resume_ms;
        if (!next_of_any(table, zone, after_ms, &fire) || fire.at_ms > end_ms)
            return TIMETABLE_NONE;
        if (!is_excepted(table, zone, &fire, &resume_ms)) {
            *out = fire;
            return TIMETABLE_FIRE;
        }
        after_ms = resume_ms - 1;
    }
    *out = (struct timetable_fire){.at_ms = after_ms + 1};
    return TIMETABLE_LATER;
}

enum timetable_found timetable_next(const struct timetable *table, const struct zone *zone,
                                    int64_t after_ms, struct timetable_fire *out)
{
    bool ends = table->end_ms && table->end_ms < TIMETABLE_END_MS;
    return next_until(table, zone, after_ms, ends ? table->end_ms : TIMETABLE_END_MS - 1, out);
}

enum timetable_found timetable_next_endless(const struct timetable *table, const struct zone *zone,
                                            int64_t after_ms, struct timetable_fire *out)
{
    return next_until(table, zone, after_ms, TIMETABLE_END_MS - 1, out);
}
