/*
 * day: a day of history, one point per minute for each topic and for all topics together.
 *
 * A point has the rates of its minute, and the counts and ages at its end. A minute of a topic in
 * which nothing moved and nothing was ready or dead is not stored; readers get zeros. A minute
 * without a sample has no point: the server was away, or idle.
 *
 * Memory: a figure is stored in 16 bits, within 0.03 %; a point has 16 bytes, an hour of a topic
 * 1,000 bytes, a day 25 KB. MONITOR_DAY_BYTES_MAX bounds all of them; hours that have no room are
 * left out, busy topics first served.
 *
 * Files: with the embedded store, an hour is a file (kept.h), which is replaced every ten minutes
 * and at the end, without a sync. So a crash loses ten minutes at most.
 *
 * GET /v1/history shows it. Guarded by a lock; any thread. Only the sampler's thread records and
 * frees. Except for `monitor_day_new` and its reading of files the caller gives the time.
 */
#ifndef TARRY_MONITOR_DAY_H
#define TARRY_MONITOR_DAY_H

#include "monitor/sample.h"

enum {
    MONITOR_DAY_POINT_MS = 60 * 1000,
    MONITOR_DAY_POINTS = 24 * 60,
    MONITOR_DAY_BYTES_MAX = 32 << 20
};

enum monitor_day_figure {
    MONITOR_DAY_PUSHED = 0, /* per second, like the next three */
    MONITOR_DAY_DELIVERED,
    MONITOR_DAY_ACKED,
    MONITOR_DAY_NACKED,
    MONITOR_DAY_READY,
    MONITOR_DAY_DEAD,
    MONITOR_DAY_LATE_P99, /* milliseconds, like the next */
    MONITOR_DAY_OLDEST,
    MONITOR_DAY_FIGURES
};

/* The figures of a point; negative: unknown. */
struct monitor_day_values {
    double of[MONITOR_DAY_FIGURES];
};

/* A stored point; all zero: no point. */
struct monitor_day_point {
    uint16_t of[MONITOR_DAY_FIGURES];
};

struct monitor_day;

/* Creates a history of at most `bytes_max` with what is kept in the directory; NULL: nothing is
 * kept. Returns NULL if out of memory. */
struct monitor_day *monitor_day_new(struct http_shared *shared, const char *directory,
                                    size_t bytes_max);
/* Writes the current hour, and frees the history; NULL is allowed. */
void monitor_day_free(struct monitor_day *day);

/* Records a whole sample if a minute has passed. Holds the sample, for the changes of the next
 * minute. */
void monitor_day_record(struct monitor_day *day, struct monitor_sample *sample);

/* Adds the point of a topic; empty name: of all topics. `minute` counts from 1970. */
void monitor_day_add(struct monitor_day *day, struct slice topic, int64_t minute,
                     const struct monitor_day_values *values);
/* Removes hours that are older than a day. */
void monitor_day_sweep(struct monitor_day *day, int64_t minute);

/* Copies the points of `count` minutes from `minute` on. A stored minute in which the topic has no
 * point becomes a point of zeros. Returns false if hours of the topic were left out. */
bool monitor_day_read(struct monitor_day *day, struct slice topic, int64_t minute, size_t count,
                      struct monitor_day_point *out);

/* Appends an hour of all topics as a file, and adds the hours of such a file. A damaged file and an
 * hour that is older than a day before `minute` are ignored. */
void monitor_day_emit(struct monitor_day *day, int64_t hour, struct buffer *out);
void monitor_day_take(struct monitor_day *day, struct slice file, int64_t minute);
/* The number of different files: that of an hour is `hour % MONITOR_DAY_FILES`. */
enum { MONITOR_DAY_FILES = 25 };

size_t monitor_day_bytes(struct monitor_day *day);

/* Converts a figure; 0 is an unknown one. */
uint16_t monitor_day_pack(double value);
double monitor_day_unpack(uint16_t code);

#endif
