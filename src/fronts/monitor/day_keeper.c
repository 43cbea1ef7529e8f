#include "monitor/day_keeper.h"

#include "base/clock.h"
#include "base/log.h"
#include "monitor/kept.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_EVERY_MINUTES = 10, NAME_BYTES = 24, FILE_BYTES_MAX = MONITOR_DAY_BYTES_MAX };

struct monitor_day_keeper {
    struct http_shared *shared;
    struct monitor_day *day;
    struct monitor_sample *before; /* the sample of the last point, or NULL */
    int64_t minute;                /* of that sample */
    bool is_failing;               /* the last file was not written, which was logged */
    char *directory;               /* NULL: nothing is kept */
};

/* ---- files ---- */

static void name_file(char out[NAME_BYTES], int64_t hour)
{
    (void)snprintf(out, NAME_BYTES, "history-%02d", (int)(hour % MONITOR_DAY_FILES));
}

static void keep_hour(struct monitor_day_keeper *keeper, int64_t hour)
{
    char name[NAME_BYTES];
    struct buffer file;
    if (!keeper->directory)
        return;
    name_file(name, hour);
    buffer_init(&file, FILE_BYTES_MAX);
    monitor_day_emit(keeper->day, hour, &file);
    int error =
        file.failed ? -ENOMEM : monitor_kept_write(keeper->directory, name, buffer_slice(&file));
    if (error && !keeper->is_failing)
        log_event(LOG_WARN, "history is not kept", LOG_TEXT("error", strerror(-error)));
    keeper->is_failing = error != 0;
    buffer_fini(&file);
}

static void read_kept(struct monitor_day_keeper *keeper, int64_t minute)
{
    for (int i = 0; i < MONITOR_DAY_FILES; i++) {
        char name[NAME_BYTES];
        struct buffer file;
        name_file(name, i);
        buffer_init(&file, FILE_BYTES_MAX);
        if (monitor_kept_read(keeper->directory, name, &file) == 0)
            monitor_day_take(keeper->day, buffer_slice(&file), minute);
        buffer_fini(&file);
    }
}

/* ---- points ---- */

static double rise_of(uint64_t now, uint64_t before, int64_t ms)
{
    return now > before && ms > 0 ? (double)(now - before) * 1000 / (double)ms : 0;
}

/* Sets the rates from the totals of two samples. */
static void set_rates(struct monitor_day_values *values, const struct topic_totals *now,
                      const struct topic_totals *before, int64_t ms)
{
    values->of[MONITOR_DAY_PUSHED] = rise_of(now->pushed, before->pushed, ms);
    values->of[MONITOR_DAY_DELIVERED] = rise_of(now->delivered, before->delivered, ms);
    values->of[MONITOR_DAY_ACKED] = rise_of(now->acked, before->acked, ms);
    values->of[MONITOR_DAY_NACKED] = rise_of(now->nacked, before->nacked, ms);
}

/* Sets the counts and ages. Lateness is that of jobs handed out in the last minute. */
static void set_state(struct monitor_day_values *values, struct monitor_day_keeper *keeper,
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
            ? (double)monitor_sample_lateness(keeper->shared, topic).p99_ms
            : -1;
}

/* Records the minute before `minute`, which the sample ends. */
static void record(struct monitor_day_keeper *keeper, const struct monitor_sample *sample,
                   int64_t minute)
{
    static const struct topic_totals none;
    const struct monitor_sample *before = keeper->before;
    struct monitor_day_values values, all = {0};
    int64_t ms = sample->inner_ms - before->inner_ms;
    for (size_t i = 0, k = 0; i < sample->topic_count; i++) {
        const struct monitor_sample_topic *topic = &sample->topics[i];
        while (k < before->topic_count && slice_compare(before->topics[k].name, topic->name) < 0)
            k++;
        bool was_there =
            k < before->topic_count && slice_equals(before->topics[k].name, topic->name);
        set_rates(&values, &topic->totals, was_there ? &before->topics[k].totals : &none, ms);
        set_state(&values, keeper, topic->name, &topic->figures, sample->wall_ms);
        for (size_t figure = MONITOR_DAY_PUSHED; figure <= MONITOR_DAY_NACKED; figure++)
            all.of[figure] += values.of[figure];
        monitor_day_add(keeper->day, topic->name, minute - 1, &values);
    }
    set_state(&all, keeper, (struct slice){0}, &sample->sums, sample->wall_ms);
    monitor_day_add(keeper->day, (struct slice){0}, minute - 1, &all);
}

void monitor_day_keeper_note(struct monitor_day_keeper *keeper, struct monitor_sample *sample)
{
    int64_t minute = sample->wall_ms / MONITOR_DAY_POINT_MS;
    if (keeper->before && minute == keeper->minute)
        return;
    if (keeper->before && minute > keeper->minute) {
        record(keeper, sample, minute);
        if (minute / KEPT_EVERY_MINUTES != keeper->minute / KEPT_EVERY_MINUTES) {
            monitor_day_sweep(keeper->day, minute);
            keep_hour(keeper, (minute - 1) / 60);
        }
    }
    monitor_sample_release(keeper->before);
    keeper->before = monitor_sample_hold(sample);
    keeper->minute = minute;
}

struct monitor_day *monitor_day_keeper_day(struct monitor_day_keeper *keeper)
{
    return keeper->day;
}

/* ---- life ---- */

struct monitor_day_keeper *monitor_day_keeper_new(struct http_shared *shared, const char *directory)
{
    struct monitor_day_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return NULL;
    keeper->shared = shared;
    keeper->day = monitor_day_new(MONITOR_DAY_BYTES_MAX);
    keeper->directory = directory ? strdup(directory) : NULL;
    if (!keeper->day || (directory && !keeper->directory)) {
        monitor_day_free(keeper->day);
        free(keeper);
        return NULL;
    }
    if (directory)
        read_kept(keeper, clock_wall_ms() / MONITOR_DAY_POINT_MS);
    return keeper;
}

void monitor_day_keeper_free(struct monitor_day_keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->before)
        keep_hour(keeper, keeper->minute / 60);
    monitor_sample_release(keeper->before);
    monitor_day_free(keeper->day);
    free(keeper->directory);
    free(keeper);
}
