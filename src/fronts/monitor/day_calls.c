/* The call that shows the day of history of a topic, or of all topics. */
#include "base/clock.h"
#include "base/json_write.h"
#include "http/exchange.h"
#include "http/state.h"
#include "monitor/day_keeper.h"
#include "monitor/routes.h"
#include "monitor/sampler.h"
#include "monitor/state.h"

#include <stdlib.h>

static const struct figure_row {
    const char *name, *format;
} figure_rows[MONITOR_DAY_FIGURES] = {
    [MONITOR_DAY_PUSHED] = {"pushed_per_s", "%.4g"},
    [MONITOR_DAY_DELIVERED] = {"delivered_per_s", "%.4g"},
    [MONITOR_DAY_ACKED] = {"acked_per_s", "%.4g"},
    [MONITOR_DAY_NACKED] = {"nacked_per_s", "%.4g"},
    [MONITOR_DAY_READY] = {"ready", "%.0f"},
    [MONITOR_DAY_DEAD] = {"dead", "%.0f"},
    [MONITOR_DAY_LATE_P99] = {"lateness_p99_ms", "%.0f"},
    [MONITOR_DAY_OLDEST] = {"oldest_ready_age_ms", "%.0f"},
};

/* Writes a point as an array in the order of the figures; null if it does not exist. */
static void write_point(struct buffer *out, const struct monitor_day_point *point)
{
    if (!point->of[MONITOR_DAY_READY]) {
        buffer_append_text(out, "null");
        return;
    }
    for (size_t i = 0; i < MONITOR_DAY_FIGURES; i++) {
        buffer_append_byte(out, i ? ',' : '[');
        if (!point->of[i]) {
            buffer_append_text(out, "null");
            continue;
        }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        buffer_append_format(out, figure_rows[i].format, monitor_day_unpack(point->of[i]));
#pragma GCC diagnostic pop
    }
    buffer_append_byte(out, ']');
}

static void write_history(struct buffer *out, const struct monitor_day_point *points, size_t count,
                          int64_t minute, bool is_complete)
{
    buffer_append_text(out, "{\"from\":");
    json_write_time(out, minute * MONITOR_DAY_POINT_MS);
    json_write_member_number(out, "interval_ms", MONITOR_DAY_POINT_MS);
    json_write_member(out, "figures");
    for (size_t i = 0; i < MONITOR_DAY_FIGURES; i++) {
        buffer_append_byte(out, i ? ',' : '[');
        json_write_string(out, slice_of(figure_rows[i].name));
    }
    buffer_append_text(out, "],\"points\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_append_byte(out, ',');
        write_point(out, &points[i]);
    }
    buffer_append_text(out, is_complete ? "],\"complete\":true}" : "],\"complete\":false}");
}

static void answer_history(struct http_call *call, struct monitor_day *day, struct slice topic)
{
    const struct http_fields *fields = &call->query->fields;
    int64_t minutes = MONITOR_DAY_POINTS;
    if (http_fields_have(fields, OPTION_FOR))
        minutes = (fields->for_ms + MONITOR_DAY_POINT_MS - 1) / MONITOR_DAY_POINT_MS;
    if (minutes > MONITOR_DAY_POINTS) {
        http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, 0,
                            "'for' must be a time up to 24h, as in ?for=6h");
        return;
    }
    struct monitor_day_point *points = calloc((size_t)minutes, sizeof *points);
    if (!points) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    int64_t from = clock_wall_ms() / MONITOR_DAY_POINT_MS - minutes;
    bool is_complete = monitor_day_read(day, topic, from, (size_t)minutes, points);
    write_history(http_answer_start(call->exchange), points, (size_t)minutes, from, is_complete);
    free(points);
    http_answer_end_json(call->exchange, 200);
}

static void get_history(struct http_call *call)
{
    const struct http_query *query = call->query;
    struct slice topic = query->topic_count ? query->topics[0] : (struct slice){0};
    struct monitor_sampler *sampler = monitor_sampler_of(call->front->shared);
    struct http_fault fault;
    if (query->topic_count > 1) {
        http_answer_problem(
            call->exchange, PROBLEM_BAD_OPTION, 1,
            "'topic' may be given once: name one topic, or leave it out for all topics");
    } else if (!http_gate_allows(call->front, call->caller, call->exchange->route, topic, &fault)) {
        http_answer_fault(call->exchange, &fault);
    } else if (query->topic_count && !job_topic_is_valid(topic)) {
        http_answer_refusal(call->exchange, QUEUE_BAD_TOPIC, NULL, 0);
    } else if (!sampler) {
        http_answer_problem(call->exchange, PROBLEM_NOT_READY, 0,
                            "this server keeps no live figures: use /metrics");
    } else {
        answer_history(call, monitor_sampler_day(sampler), topic);
    }
}

const struct http_route monitor_day_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/history",
     .name = "day",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_EACH,
     .handle = get_history,
     .options = OPTION_BIT(OPTION_TOPIC) | OPTION_BIT(OPTION_FOR),
     .answer = HTTP_ANSWER_LONG},
    {0},
};
