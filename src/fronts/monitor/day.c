#include "monitor/day.h"

#include "base/hash.h"
#include "base/table.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { HOUR_POINTS = 60, NAME_BYTES_MAX = 255 };

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

struct monitor_day *monitor_day_new(size_t bytes_max)
{
    struct monitor_day *day = calloc(1, sizeof *day);
    if (!day)
        return NULL;
    day->bytes_max = bytes_max;
    pthread_mutex_init(&day->lock, NULL);
    return day;
}

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

void monitor_day_free(struct monitor_day *day)
{
    if (!day)
        return;
    sweep(day, INT64_MAX);
    day_topics_fini(&day->topics);
    pthread_mutex_destroy(&day->lock);
    free(day);
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
