#include "monitor/day.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/table.h"
#include "http/exchange.h"
#include "monitor/kept.h"
#include "monitor/routes.h"
#include "monitor/state.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HOUR_POINTS = 60,
    NAME_BYTES_MAX = 255,
    KEPT_EVERY_MINUTES = 10,
    FILE_NAME_BYTES = 24,
    FILE_BYTES_MAX = MONITOR_DAY_BYTES_MAX
};

struct hour {
    int64_t hour; /* since 1970 */
    struct monitor_day_point points[HOUR_POINTS];
};

struct day_topic {
    struct table_entry entry;              /* by name */
    int64_t left_out_hour;                 /* the newest hour without room; 0: never */
    struct hour *hours[MONITOR_DAY_FILES]; /* that of an hour is `hour % MONITOR_DAY_FILES` */
    char name[];
};
TABLE_DECLARE(day_topics, struct day_topic, entry)

struct monitor_day {
    pthread_mutex_t lock;
    struct day_topics topics;
    size_t bytes, bytes_max;
    int64_t left_out_hour;

    /* Of the thread that records: */
    struct http_shared *shared;
    struct monitor_sample *before; /* the sample of the last point, or NULL */
    int64_t minute;                /* of that sample */
    bool is_failing;               /* the last file was not written, which was logged */
    char *directory;               /* NULL: nothing is kept */
};

/* ---- figures in 16 bits ---- */

/* 0: unknown, 1: zero, then steps of the logarithm from LEAST to beyond 10^12. */
#define LEAST 1e-3
#define STEP 0.00053

uint16_t monitor_day_pack(double value)
{
    if (!(value >= 0))
        return 0;
    if (value < LEAST)
        return 1;
    double code = 2 + log(value / LEAST) / STEP + 0.5;
    return code < UINT16_MAX ? (uint16_t)code : UINT16_MAX;
}

double monitor_day_unpack(uint16_t code)
{
    return code == 0 ? -1 : code == 1 ? 0 : LEAST * exp((code - 2) * STEP);
}

static bool point_is_set(const struct monitor_day_point *point)
{
    return point->of[MONITOR_DAY_READY] != 0;
}

/* ---- topics and hours ---- */

static size_t bytes_of(const struct day_topic *topic)
{
    return sizeof *topic + topic->entry.key.len;
}

/* Frees the hours of the topic before `hour`, and the topic if it has no other. */
static void topic_sweep(struct monitor_day *day, struct day_topic *topic, int64_t hour)
{
    bool is_empty = true;
    for (size_t i = 0; i < MONITOR_DAY_FILES; i++) {
        struct hour *one = topic->hours[i];
        if (one && one->hour < hour) {
            free(one);
            day->bytes -= sizeof *one;
            topic->hours[i] = NULL;
        }
        is_empty &= !topic->hours[i];
    }
    if (!is_empty)
        return;
    day_topics_remove(&day->topics, topic);
    day->bytes -= bytes_of(topic);
    free(topic);
}

static void sweep(struct monitor_day *day, int64_t hour)
{
    struct day_topic *next;
    for (struct day_topic *at = day_topics_first(&day->topics); at; at = next) {
        next = day_topics_next(&day->topics, at);
        topic_sweep(day, at, hour);
    }
}

void monitor_day_sweep(struct monitor_day *day, int64_t minute)
{
    pthread_mutex_lock(&day->lock);
    sweep(day, (minute - MONITOR_DAY_POINTS) / HOUR_POINTS);
    pthread_mutex_unlock(&day->lock);
}

/* Returns the topic, created if necessary, or NULL if it has no room. */
static struct day_topic *topic_of(struct monitor_day *day, struct slice name)
{
    struct day_topic *topic = day_topics_find(&day->topics, name);
    if (topic || day->bytes + sizeof *topic + name.len > day->bytes_max ||
        !(topic = calloc(1, sizeof *topic + name.len)))
        return topic;
    if (name.len)
        memcpy(topic->name, name.at, name.len);
    topic->entry.key = slice_make(topic->name, name.len);
    day->bytes += bytes_of(topic);
    day_topics_add(&day->topics, topic);
    return topic;
}

/* Returns an hour of the topic, created if necessary, or NULL if it has no room. */
static struct hour *hour_of(struct monitor_day *day, struct day_topic *topic, int64_t hour)
{
    struct hour **place = &topic->hours[hour % MONITOR_DAY_FILES];
    if (!*place) {
        if (day->bytes + sizeof **place > day->bytes_max || !(*place = malloc(sizeof **place))) {
            *place = NULL;
            topic->left_out_hour = hour;
            return NULL;
        }
        day->bytes += sizeof **place;
        (*place)->hour = -1;
    }
    if ((*place)->hour != hour)
        **place = (struct hour){.hour = hour};
    return *place;
}

/* Returns an hour that the topic has, or NULL. */
static const struct hour *hour_find(const struct day_topic *topic, int64_t hour)
{
    const struct hour *found = topic ? topic->hours[hour % MONITOR_DAY_FILES] : NULL;
    return found && found->hour == hour ? found : NULL;
}

static bool is_quiet(const struct monitor_day_values *values)
{
    for (size_t i = 0; i < MONITOR_DAY_FIGURES; i++)
        if (values->of[i] > 0)
            return false;
    return true;
}

void monitor_day_add(struct monitor_day *day, struct slice topic_name, int64_t minute,
                     const struct monitor_day_values *values)
{
    int64_t at_hour = minute / HOUR_POINTS;
    pthread_mutex_lock(&day->lock);
    struct day_topic *topic = day_topics_find(&day->topics, topic_name);
    bool is_stored = !topic_name.len || !is_quiet(values) || hour_find(topic, at_hour);
    if (is_stored && !topic)
        topic = topic_of(day, topic_name);
    struct hour *hour = is_stored && topic ? hour_of(day, topic, at_hour) : NULL;
    if (hour) {
        struct monitor_day_point *point = &hour->points[minute % HOUR_POINTS];
        for (size_t i = 0; i < MONITOR_DAY_FIGURES; i++)
            point->of[i] = monitor_day_pack(values->of[i]);
        if (!point_is_set(point))
            point->of[MONITOR_DAY_READY] = monitor_day_pack(0);
    } else if (is_stored) {
        day->left_out_hour = at_hour;
    }
    pthread_mutex_unlock(&day->lock);
}

bool monitor_day_read(struct monitor_day *day, struct slice name, int64_t minute, size_t count,
                      struct monitor_day_point *out)
{
    static const struct monitor_day_point none;
    const struct monitor_day_point zeros = {.of = {1, 1, 1, 1, 1, 1, 0, 0}};
    pthread_mutex_lock(&day->lock);
    const struct day_topic *topic = day_topics_find(&day->topics, name),
                           *all = day_topics_find(&day->topics, (struct slice){0});
    int64_t left_out_hour = topic ? topic->left_out_hour : day->left_out_hour;
    for (size_t i = 0; i < count; i++) {
        int64_t at = minute + (int64_t)i;
        const struct hour *own = hour_find(topic, at / HOUR_POINTS),
                          *total = hour_find(all, at / HOUR_POINTS);
        out[i] = own ? own->points[at % HOUR_POINTS] : none;
        if (!point_is_set(&out[i]) && total && point_is_set(&total->points[at % HOUR_POINTS]))
            out[i] = zeros;
    }
    pthread_mutex_unlock(&day->lock);
    return !left_out_hour || left_out_hour < minute / HOUR_POINTS;
}

size_t monitor_day_bytes(struct monitor_day *day)
{
    pthread_mutex_lock(&day->lock);
    size_t bytes = day->bytes;
    pthread_mutex_unlock(&day->lock);
    return bytes;
}

/* ---- files ---- */

/*
 * The bytes of a machine: a head, then a record per topic (length of the name, name, points), then
 * a hash of all before it. A file of another machine has another mark or hash and is ignored.
 */
struct file_head {
    char mark[8];
    int64_t hour;
    uint32_t point_bytes, hour_points;
};
#define FILE_MARK "tarryday"

void monitor_day_emit(struct monitor_day *day, int64_t hour, struct buffer *out)
{
    struct file_head head = {
        .hour = hour, .point_bytes = sizeof(struct monitor_day_point), .hour_points = HOUR_POINTS};
    size_t start = out->len;
    memcpy(head.mark, FILE_MARK, sizeof head.mark);
    buffer_append(out, (const char *)&head, sizeof head);
    pthread_mutex_lock(&day->lock);
    for (struct day_topic *at = day_topics_first(&day->topics); at;
         at = day_topics_next(&day->topics, at)) {
        const struct hour *found = hour_find(at, hour);
        if (!found || at->entry.key.len > NAME_BYTES_MAX)
            continue;
        buffer_append_byte(out, (char)(uint8_t)at->entry.key.len);
        buffer_append_slice(out, at->entry.key);
        buffer_append(out, (const char *)found->points, sizeof found->points);
    }
    pthread_mutex_unlock(&day->lock);
    if (out->failed)
        return;
    uint64_t hash = hash_64(out->at + start, out->len - start);
    buffer_append(out, (const char *)&hash, sizeof hash);
}

void monitor_day_take(struct monitor_day *day, struct slice file, int64_t minute)
{
    struct file_head head;
    uint64_t hash;
    if (file.len < sizeof head + sizeof hash)
        return;
    size_t end = file.len - sizeof hash;
    memcpy(&head, file.at, sizeof head);
    memcpy(&hash, file.at + end, sizeof hash);
    if (memcmp(head.mark, FILE_MARK, sizeof head.mark) != 0 || hash_64(file.at, end) != hash ||
        head.point_bytes != sizeof(struct monitor_day_point) || head.hour_points != HOUR_POINTS ||
        head.hour < (minute - MONITOR_DAY_POINTS) / HOUR_POINTS || head.hour > minute / HOUR_POINTS)
        return;
    pthread_mutex_lock(&day->lock);
    for (size_t at = sizeof head; at < end;) {
        size_t len = (uint8_t)file.at[at++];
        if (len + sizeof(struct hour){0}.points > end - at)
            break;
        struct day_topic *topic = topic_of(day, slice_make(file.at + at, len));
        struct hour *hour = topic ? hour_of(day, topic, head.hour) : NULL;
        at += len;
        if (hour)
            memcpy(hour->points, file.at + at, sizeof hour->points);
        at += sizeof(struct hour){0}.points;
    }
    pthread_mutex_unlock(&day->lock);
}

static void name_file(char out[FILE_NAME_BYTES], int64_t hour)
{
    (void)snprintf(out, FILE_NAME_BYTES, "history-%02d", (int)(hour % MONITOR_DAY_FILES));
}

static void keep_hour(struct monitor_day *day, int64_t hour)
{
    char name[FILE_NAME_BYTES];
    struct buffer file;
    if (!day->directory)
        return;
    name_file(name, hour);
    buffer_init(&file, FILE_BYTES_MAX);
    monitor_day_emit(day, hour, &file);
    int error =
        file.failed ? -ENOMEM : monitor_kept_write(day->directory, name, buffer_slice(&file));
    if (error && !day->is_failing)
        log_event(LOG_WARN, "history is not kept", LOG_TEXT("error", strerror(-error)));
    day->is_failing = error != 0;
    buffer_fini(&file);
}

static void read_kept(struct monitor_day *day, int64_t minute)
{
    for (int i = 0; i < MONITOR_DAY_FILES; i++) {
        char name[FILE_NAME_BYTES];
        struct buffer file;
        name_file(name, i);
        buffer_init(&file, FILE_BYTES_MAX);
        if (monitor_kept_read(day->directory, name, &file) == 0)
            monitor_day_take(day, buffer_slice(&file), minute);
        buffer_fini(&file);
    }
}

/* ---- points of samples ---- */

/* Sets the rates from the totals of two samples. */
static void set_rates(struct monitor_day_values *values, const struct topic_totals *now,
                      const struct topic_totals *before, int64_t ms)
{
    values->of[MONITOR_DAY_PUSHED] = monitor_rate_of(now->pushed, before->pushed, ms);
    values->of[MONITOR_DAY_DELIVERED] = monitor_rate_of(now->delivered, before->delivered, ms);
    values->of[MONITOR_DAY_ACKED] = monitor_rate_of(now->acked, before->acked, ms);
    values->of[MONITOR_DAY_NACKED] = monitor_rate_of(now->nacked, before->nacked, ms);
}

/* Sets the counts and ages. Lateness is that of jobs handed out in the last minute. */
static void set_state(struct monitor_day_values *values, struct monitor_day *day,
                      struct slice topic, const struct monitor_figures *figures, int64_t wall_ms)
{
    int64_t due_ms = figures->oldest_ready_due_ms;
    values->of[MONITOR_DAY_READY] = (double)figures->counts.ready;
    values->of[MONITOR_DAY_DEAD] = (double)figures->counts.dead;
    values->of[MONITOR_DAY_OLDEST] = !due_ms            ? -1
                                     : wall_ms > due_ms ? (double)(wall_ms - due_ms)
                                                        : 0;
    values->of[MONITOR_DAY_LATE_P99] =
        values->of[MONITOR_DAY_DELIVERED] > 0
            ? (double)monitor_sample_lateness(day->shared, topic).p99_ms
            : -1;
}

/* Records the minute before `minute`, which the sample ends. */
static void record_minute(struct monitor_day *day, const struct monitor_sample *sample,
                          int64_t minute)
{
    static const struct topic_totals none;
    const struct monitor_sample *before = day->before;
    struct monitor_day_values values, all = {0};
    int64_t ms = sample->inner_ms - before->inner_ms;
    for (size_t i = 0, k = 0; i < sample->topic_count; i++) {
        const struct monitor_sample_topic *topic = &sample->topics[i];
        while (k < before->topic_count && slice_compare(before->topics[k].name, topic->name) < 0)
            k++;
        bool was_there =
            k < before->topic_count && slice_equals(before->topics[k].name, topic->name);
        set_rates(&values, &topic->totals, was_there ? &before->topics[k].totals : &none, ms);
        set_state(&values, day, topic->name, &topic->figures, sample->wall_ms);
        for (size_t figure = MONITOR_DAY_PUSHED; figure <= MONITOR_DAY_NACKED; figure++)
            all.of[figure] += values.of[figure];
        monitor_day_add(day, topic->name, minute - 1, &values);
    }
    set_state(&all, day, (struct slice){0}, &sample->sums, sample->wall_ms);
    monitor_day_add(day, (struct slice){0}, minute - 1, &all);
}

void monitor_day_record(struct monitor_day *day, struct monitor_sample *sample)
{
    int64_t minute = sample->wall_ms / MONITOR_DAY_POINT_MS;
    if (day->before && minute == day->minute)
        return;
    if (day->before && minute > day->minute) {
        record_minute(day, sample, minute);
        if (minute / KEPT_EVERY_MINUTES != day->minute / KEPT_EVERY_MINUTES) {
            monitor_day_sweep(day, minute);
            keep_hour(day, (minute - 1) / HOUR_POINTS);
        }
    }
    monitor_sample_release(day->before);
    day->before = monitor_sample_hold(sample);
    day->minute = minute;
}

/* ---- life ---- */

struct monitor_day *monitor_day_new(struct http_shared *shared, const char *directory,
                                    size_t bytes_max)
{
    struct monitor_day *day = calloc(1, sizeof *day);
    if (!day)
        return NULL;
    day->shared = shared;
    day->bytes_max = bytes_max;
    if (directory && !(day->directory = strdup(directory))) {
        free(day);
        return NULL;
    }
    pthread_mutex_init(&day->lock, NULL);
    if (directory)
        read_kept(day, clock_wall_ms() / MONITOR_DAY_POINT_MS);
    return day;
}

void monitor_day_free(struct monitor_day *day)
{
    if (!day)
        return;
    if (day->before)
        keep_hour(day, day->minute / HOUR_POINTS);
    monitor_sample_release(day->before);
    sweep(day, INT64_MAX);
    day_topics_fini(&day->topics);
    pthread_mutex_destroy(&day->lock);
    free(day->directory);
    free(day);
}

/* ---- the call ---- */

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
    if (!point_is_set(point)) {
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
    struct monitor_day *day = monitor_day_of(call->front->shared);
    struct http_fault fault;
    if (query->topic_count > 1) {
        http_answer_problem(
            call->exchange, PROBLEM_BAD_OPTION, 1,
            "'topic' may be given once: name one topic, or leave it out for all topics");
    } else if (!http_gate_allows(call->front, call->caller, call->exchange->route, topic, &fault)) {
        http_answer_fault(call->exchange, &fault);
    } else if (query->topic_count && !job_topic_is_valid(topic)) {
        http_answer_refusal(call->exchange, QUEUE_BAD_TOPIC, NULL, 0);
    } else if (!day) {
        http_answer_problem(call->exchange, PROBLEM_NOT_READY, 0,
                            "this server keeps no live figures: use /metrics");
    } else {
        answer_history(call, day, topic);
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
