#include "sql/audience.h"

#include "base/clock.h"
#include "sql/effect.h"

void sql_audience_init(struct sql_audience *audience, struct feed_desk *desk, bool looks)
{
    *audience = (struct sql_audience){.desk = desk, .watch = feed_watch_of(desk), .looks = looks};
    audience->kinds = feed_wants(desk, &audience->watch);
    buffer_init(&audience->error, SQL_EVENT_BYTES_MAX);
}

void sql_audience_fini(struct sql_audience *audience)
{
    buffer_fini(&audience->error);
}

bool sql_audience_look(struct sql_audience *audience)
{
    if (feed_has_changed(&audience->watch))
        audience->kinds = feed_wants(audience->desk, &audience->watch);
    return audience->kinds && !audience->is_known;
}

void sql_audience_known(struct sql_audience *audience, bool is_here, int64_t others,
                        bool is_elsewhere)
{
    if (is_here && audience->was_cut)
        feed_lose(audience->desk, 1);
    audience->is_known = is_here;
    audience->was_cut = false;
    audience->is_alone = others == 0;
    audience->others_until_ms = is_elsewhere ? clock_boot_ms() + SQL_AUDIENCE_MS : 0;
}

void sql_audience_elsewhere(struct sql_audience *audience)
{
    audience->others_until_ms = clock_boot_ms() + SQL_AUDIENCE_MS;
}

static bool is_elsewhere(const struct sql_audience *audience)
{
    return audience->others_until_ms && clock_boot_ms() < audience->others_until_ms;
}

bool sql_audience_is_looking(const struct sql_audience *audience)
{
    return audience->looks && audience->kinds && audience->is_known;
}

bool sql_audience_is_by_database(const struct sql_audience *audience)
{
    return is_elsewhere(audience) || (sql_audience_is_looking(audience) && !audience->is_alone);
}

bool sql_audience_is_there(const struct sql_audience *audience)
{
    return audience->kinds || is_elsewhere(audience);
}

void sql_audience_publish(struct sql_audience *audience, struct slice lines, int64_t at_ms,
                          int64_t adjust_ms, uint64_t lost)
{
    struct job_event event;
    if (!audience->kinds)
        return;
    if (lost)
        feed_lose(audience->desk, lost);
    while (lines.len && sql_event_take(&lines, &audience->error, &event)) {
        event.at_ms = at_ms - adjust_ms;
        event.due_ms -= event.due_ms ? adjust_ms : 0;
        event.lease_until_ms -= event.lease_until_ms ? adjust_ms : 0;
        if (feed_admit(audience->desk, event.kind, event.topic))
            feed_publish(audience->desk, &event);
    }
}

void sql_audience_receive(struct sql_audience *audience, struct slice message, int64_t adjust_ms)
{
    uint64_t at_ms, lost;
    if (sql_event_take_number(&message, ' ', &at_ms) &&
        sql_event_take_number(&message, '\n', &lost))
        sql_audience_publish(audience, message, (int64_t)at_ms, adjust_ms, lost);
}

void sql_audience_miss(struct sql_audience *audience)
{
    if (audience->kinds && audience->is_known)
        feed_lose(audience->desk, 1);
}

void sql_audience_cut(struct sql_audience *audience)
{
    audience->was_cut = audience->was_cut || (audience->kinds && audience->is_known);
    audience->is_known = false;
}
