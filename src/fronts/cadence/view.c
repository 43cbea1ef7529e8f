#include "cadence/view.h"

#include "base/json_write.h"
#include "schedule/calendar.h"

#include <stdio.h>
#include <stdlib.h>

static void write_last(struct buffer *out, struct slice name, const struct stored *stored)
{
    const struct state *state = &stored->state;
    char id[STORED_ID_BYTES_MAX];
    buffer_append_text(out, ",\"last\":[");
    for (size_t i = state->last_count; i-- > 0;) {
        const struct state_fire *fire = &state->last[i];
        buffer_append_text(out, i + 1 < state->last_count ? ",{\"at\":" : "{\"at\":");
        json_write_time(out, fire->at_ms);
        if (fire->reason) {
            buffer_append_format(out, ",\"result\":\"skipped\",\"reason\":\"%s\"}",
                                 skip_reason_name(fire->reason));
            continue;
        }
        buffer_append_text(out, ",\"result\":\"fired\",\"job\":");
        json_write_string(out, stored->spec.overlap == OVERLAP_ALLOW
                                   ? stored_fire_id(name, fire->at_ms, id)
                                   : name);
        buffer_append_byte(out, '}');
    }
    buffer_append_byte(out, ']');
}

static void write_totals(struct buffer *out, const struct state *state)
{
    buffer_append_text(out, ",\"totals\":{\"fired\":");
    buffer_append_u64(out, state->fired);
    buffer_append_text(out, ",\"skipped\":{");
    for (int i = 1; i < SKIP_REASONS; i++) {
        if (i > 1)
            buffer_append_byte(out, ',');
        json_write_key(out, skip_reason_name((enum skip_reason)i));
        buffer_append_u64(out, state->skipped[i]);
    }
    buffer_append_text(out, "}}");
}

void view_write(struct buffer *out, struct slice name, const struct stored *stored, int64_t now_ms)
{
    const struct state *state = &stored->state;
    bool is_held = state->paused && (!state->paused_until_ms || state->paused_until_ms > now_ms);
    buffer_append_text(out, "{\"name\":");
    json_write_string(out, name);
    buffer_append_text(out, ",\"spec\":");
    stored_write_spec(out, stored);
    json_write_member_time(out, "next", state->next_ms);
    json_write_member_bool(out, "paused", stored->spec.paused || is_held);
    json_write_member_time(out, "paused_until", is_held ? state->paused_until_ms : 0);
    write_last(out, name, stored);
    write_totals(out, state);
    buffer_append_byte(out, '}');
}

/* ---- fires ---- */

static void write_local(struct buffer *out, int64_t local_s, bool with_date)
{
    int64_t day = calendar_day_of(local_s);
    int32_t second = (int32_t)(local_s - day * CALENDAR_DAY_S);
    struct calendar_date date = calendar_date(day);
    if (with_date)
        buffer_append_format(out, "%04d-%02d-%02dT", (int)date.year, (int)date.month,
                             (int)date.day);
    buffer_append_format(out, "%02d:%02d:%02d", (int)second / 3600, (int)second / 60 % 60,
                         (int)second % 60);
}

static void write_remark(struct buffer *out, const struct timetable_fire *fire)
{
    switch (fire->remark) {
    case REMARK_MOVED:
        buffer_append_text(out, ",\"remark\":\"moved to the end of the gap: ");
        write_local(out, fire->local_s, false);
        buffer_append_text(out, " does not exist on this day\"");
        break;
    case REMARK_FIRST:
        buffer_append_text(out, ",\"remark\":\"this local time occurs twice, this is the first\"");
        break;
    case REMARK_SECOND:
        buffer_append_text(out, ",\"remark\":\"this local time occurs twice, this is the second\"");
        break;
    case REMARK_DROPPED:
        buffer_append_text(out, ",\"remark\":\"the fire before it was dropped: ");
        write_local(out, fire->local_s, true);
        buffer_append_text(out, " does not exist\"");
        break;
    default:
        break;
    }
}

static void write_fire(struct buffer *out, const struct schedule *schedule,
                       const struct timetable_fire *fire)
{
    int32_t minutes = abs(fire->offset_s) / 60;
    buffer_append_text(out, "{\"at\":");
    json_write_time(out, fire->at_ms);
    buffer_append_text(out, ",\"local\":\"");
    write_local(out, fire->at_ms / 1000 + fire->offset_s, true);
    buffer_append_format(out, "%c%02d:%02d\"", fire->offset_s < 0 ? '-' : '+', (int)minutes / 60,
                         (int)minutes % 60);
    if (schedule->spec->jitter_ms) {
        buffer_append_text(out, ",\"due_at\":");
        json_write_time(out,
                        fire->at_ms + spec_jitter(schedule->spec, schedule->name, fire->at_ms));
    }
    write_remark(out, fire);
    buffer_append_byte(out, '}');
}

void view_write_fires(struct buffer *out, const struct schedule *schedule, int64_t after_ms,
                      uint32_t count)
{
    enum { SEARCHES = 50 }; /* through long exceptions */
    enum timetable_found found = TIMETABLE_NONE;
    struct timetable_fire fire;
    buffer_append_text(out, "\"fires\":[");
    for (uint32_t i = 0, searches = 0; i < count && searches < SEARCHES;) {
        found = timetable_next(&schedule->spec->table, schedule->zone, after_ms, &fire);
        if (found == TIMETABLE_NONE)
            break;
        after_ms = found == TIMETABLE_FIRE ? fire.at_ms : fire.at_ms - 1;
        if (found == TIMETABLE_LATER) {
            searches++;
            continue;
        }
        if (i++)
            buffer_append_byte(out, ',');
        write_fire(out, schedule, &fire);
    }
    buffer_append_text(out, "],\"more\":");
    buffer_append_text(out, found == TIMETABLE_NONE ? "false" : "true");
}

/* ---- the schedule of a reply ---- */

void cadence_answer_no_schedule(struct http_exchange *exchange, struct slice name)
{
    char detail[SPEC_NAME_BYTES_MAX + 80];
    (void)snprintf(detail, sizeof detail,
                   "there is no schedule '%s': `tarry schedule list` shows all",
                   http_quotable(name, SPEC_NAME_BYTES_MAX));
    http_answer_refusal(exchange, QUEUE_NOT_FOUND, detail, 0);
}

struct stored *cadence_read_reply(struct http_exchange *exchange, const struct queue_reply *reply)
{
    struct slice name = buffer_slice(&exchange->note);
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return NULL;
    }
    if (reply->status == QUEUE_NOT_FOUND || !reply->job_count) {
        cadence_answer_no_schedule(exchange, name);
        return NULL;
    }
    struct stored *stored = stored_new();
    if (!stored ||
        !stored_read(stored, name, reply->jobs[0].job.body, exchange->front->shared->hooks)) {
        stored_free(stored);
        http_answer_problem(exchange, PROBLEM_BAD_SCHEDULE, 0,
                            "this server cannot read the schedule, use a server of the version "
                            "that stored it");
        return NULL;
    }
    if (access_may(exchange->caller, exchange->route->scope, stored->push.topic))
        return stored;
    stored_free(stored); /* a schedule of a topic of others is hidden */
    cadence_answer_no_schedule(exchange, name);
    return NULL;
}
