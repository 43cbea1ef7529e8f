/* Functions shared by all implementations of queue.h. */
#include "queue/queue.h"

#include <assert.h>
#include <stdlib.h>

const char *const queue_drop_names[QUEUE_DROPS] = {[QUEUE_DROP_NUMBER] = "max",
                                                   [QUEUE_DROP_BYTES] = "bytes",
                                                   [QUEUE_DROP_UNREADABLE] = "unreadable"};

const char *job_end_name(enum job_end end)
{
    static const char *const names[] = {[JOB_END_ACKED] = "acked",
                                        [JOB_END_CANCELLED] = "cancelled",
                                        [JOB_END_EXPIRED] = "expired"};
    assert(end >= JOB_END_ACKED && end <= JOB_END_EXPIRED);
    return names[end];
}

struct slice queue_once_id(struct slice once, char room[QUEUE_ONCE_ID_BYTES_MAX])
{
    assert(once.len && once.len <= JOB_ONCE_BYTES_MAX);
    room[0] = ' ';
    memcpy(room + 1, once.at, once.len);
    return slice_make(room, 1 + once.len);
}

static void on_inner_ready(void *owner, struct slice topic)
{
    queue_report_ready(owner, topic);
}

static void on_inner_event(void *owner, enum queue_event event, struct slice topic)
{
    queue_report_event(owner, event, topic);
}

void queue_report_as(struct queue *inner, struct queue *outer)
{
    inner->on_ready = on_inner_ready;
    inner->on_event = on_inner_event;
    inner->on_ready_owner = inner->on_event_owner = outer;
}

uint64_t queue_counts_jobs(const struct queue_counts *counts)
{
    return counts->delayed + counts->retrying + counts->ready + counts->leased + counts->dead;
}

static int compare_names(const void *a, const void *b)
{
    return slice_compare(((const struct queue_topic *)a)->name,
                         ((const struct queue_topic *)b)->name);
}

void queue_topics_sort(struct queue_topic *topics, size_t count)
{
    if (count)
        qsort(topics, count, sizeof *topics, compare_names);
}

size_t queue_topics_after(const struct queue_topic *topics, size_t count, struct slice name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_compare(topics[middle].name, name) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum { MINUTE_MS = 60000 };

void queue_forecast_add(struct queue_forecast *forecast, int64_t from_ms, int64_t due_ms,
                        uint64_t jobs)
{
    int64_t minute = due_ms > from_ms ? (due_ms - from_ms) / MINUTE_MS : 0;
    int64_t hour = (minute + from_ms / MINUTE_MS % 60) / 60;
    if (minute < FORECAST_MINUTES)
        forecast->minutes[minute] += jobs;
    if (hour < FORECAST_HOURS)
        forecast->hours[hour] += jobs;
    else
        forecast->later += jobs;
}

void queue_count_soon(struct queue *queue, struct slice topic, struct queue_reply_to reply_to)
{
    int64_t now_ms = queue_wall_ms(queue);
    const struct queue_forecast_call call = {
        .topic = topic, .from_ms = now_ms - now_ms % MINUTE_MS, .soon = true};
    queue_forecast(queue, &call, reply_to);
}

uint64_t queue_forecast_soon(const struct queue_forecast *forecast, int64_t now_ms)
{
    int64_t passed_ms = now_ms - forecast->from_ms;
    if (passed_ms < 0)
        passed_ms = 0;
    if (passed_ms > MINUTE_MS)
        passed_ms = MINUTE_MS;
    uint64_t next = forecast->minutes[1], share = (uint64_t)passed_ms;
    return forecast->minutes[0] + next / MINUTE_MS * share +
           (next % MINUTE_MS * share + MINUTE_MS - 1) / MINUTE_MS;
}

void queue_forecast_join(struct queue_forecast *sum, const struct queue_forecast *part)
{
    sum->from_ms = part->from_ms;
    sum->overdue += part->overdue;
    sum->later += part->later;
    sum->estimated |= part->estimated;
    for (size_t i = 0; i < FORECAST_MINUTES; i++)
        sum->minutes[i] += part->minutes[i];
    for (size_t i = 0; i < FORECAST_HOURS; i++)
        sum->hours[i] += part->hours[i];
}
