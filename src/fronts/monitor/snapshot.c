#include "monitor/snapshot.h"

#include "api/settings.h"
#include "base/heap.h"
#include "base/json_write.h"
#include "http/state.h"

/* ---- parts ---- */

static void write_null_or(struct buffer *out, const char *key, bool is_known, int64_t number)
{
    json_write_member(out, key);
    if (is_known)
        buffer_append_i64(out, number);
    else
        buffer_append_text(out, "null");
}

static void write_counts(struct buffer *out, const struct queue_counts *counts)
{
    json_write_member_number(out, "delayed", counts->delayed);
    json_write_member_number(out, "retrying", counts->retrying);
    json_write_member_number(out, "ready", counts->ready);
    json_write_member_number(out, "leased", counts->leased);
    json_write_member_number(out, "dead", counts->dead);
}

/* Writes a rate with one decimal place, or with three if it is below 1. */
static void write_rate(struct buffer *out, const char *key, double rate)
{
    json_write_member(out, key);
    if (rate == 0)
        buffer_append_byte(out, '0');
    else
        buffer_append_format(out, rate < 1 ? "%.3f" : "%.1f", rate);
}

static void write_rates(struct buffer *out, const double rates[MONITOR_RATES])
{
    static const char *const names[MONITOR_RATES] = {
        [MONITOR_RATE_PUSHED] = "pushed_per_s",   [MONITOR_RATE_DELIVERED] = "delivered_per_s",
        [MONITOR_RATE_ACKED] = "acked_per_s",     [MONITOR_RATE_NACKED] = "nacked_per_s",
        [MONITOR_RATE_DIED] = "died_per_s",       [MONITOR_RATE_CANCELLED] = "cancelled_per_s",
        [MONITOR_RATE_EXPIRED] = "expired_per_s",
    };
    json_write_member(out, "rates");
    buffer_append_byte(out, '{');
    for (size_t i = 0; i < MONITOR_RATES; i++)
        write_rate(out, names[i], rates[i]);
    buffer_append_byte(out, '}');
}

static void write_age(struct buffer *out, int64_t wall_ms, int64_t due_ms)
{
    write_null_or(out, "oldest_ready_age_ms", due_ms != 0, wall_ms > due_ms ? wall_ms - due_ms : 0);
}

static void write_lateness(struct buffer *out, struct monitor_lateness lateness)
{
    json_write_member(out, "lateness");
    buffer_append_byte(out, '{');
    write_null_or(out, "p50_ms", lateness.p50_ms >= 0, lateness.p50_ms);
    write_null_or(out, "p99_ms", lateness.p99_ms >= 0, lateness.p99_ms);
    json_write_member_number(out, "count", lateness.count);
    buffer_append_byte(out, '}');
}

/* Writes a topic without the end of its object. */
static void write_topic(struct buffer *out, const struct monitor_snapshot_input *input,
                        const struct monitor_sample_topic *topic, const struct queue_counts *counts)
{
    int64_t wall_ms = input->status.wall_ms;
    struct monitor_lateness lateness = monitor_sample_lateness(input->shared, topic->name);
    buffer_append_text(out, "{\"topic\":");
    json_write_string(out, topic->name);
    json_write_member_bool(out, "paused", topic->paused_ms);
    json_write_member_time(out, "paused_until", topic->paused_until_ms);
    json_write_member(out, "counts");
    buffer_append_byte(out, '{');
    write_counts(out, counts);
    if (counts->finished)
        json_write_member_number(out, "finished", counts->finished);
    buffer_append_byte(out, '}');
    write_rates(out, topic->figures.rates);
    write_null_or(out, "lateness_p99_ms", lateness.p99_ms >= 0, lateness.p99_ms);
    write_age(out, wall_ms, topic->figures.oldest_ready_due_ms);
    buffer_append_text(out, topic->delivers ? ",\"delivers\":true" : ",\"delivers\":false");
}

/* ---- selection of topics ---- */

static double activity_of(const struct monitor_sample_topic *topic)
{
    double sum = 0;
    for (size_t i = 0; i < MONITOR_RATES; i++)
        sum += topic->figures.rates[i];
    return sum;
}

/* Returns whether the first topic is dropped before the other. */
static inline bool is_less_busy(const struct monitor_sample_topic *const *one,
                                const struct monitor_sample_topic *const *other)
{
    double activity = activity_of(*one), others = activity_of(*other);
    if (activity < others || activity > others)
        return activity < others;
    uint64_t jobs = queue_counts_jobs(&(*one)->figures.counts),
             others_jobs = queue_counts_jobs(&(*other)->figures.counts);
    if (jobs != others_jobs)
        return jobs < others_jobs;
    return slice_compare((*one)->name, (*other)->name) > 0;
}
HEAP_DECLARE(busy_topics, const struct monitor_sample_topic *, is_less_busy, heap_place_unused)

static void offer_topic(struct busy_topics *busy, const struct monitor_sample_topic *topic)
{
    if (busy->count < MONITOR_SNAPSHOT_TOPICS_MAX) {
        (void)busy_topics_add(busy, topic);
    } else if (is_less_busy(&busy->at[0], &topic)) {
        busy->at[0] = topic;
        busy_topics_changed(busy, 0);
    }
}

/* Writes the topics of the heap, the busiest first, and empties the heap. */
static void write_topics(struct buffer *out, const struct monitor_snapshot_input *input,
                         struct busy_topics *busy)
{
    const struct monitor_sample_topic *topics[MONITOR_SNAPSHOT_TOPICS_MAX];
    size_t count = busy->count;
    for (size_t i = count; i > 0; i--)
        topics[i - 1] = busy_topics_take_first(busy);
    json_write_member(out, "topics");
    buffer_append_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_append_byte(out, ',');
        write_topic(out, input, topics[i], &topics[i]->figures.counts);
        buffer_append_byte(out, '}');
    }
    buffer_append_byte(out, ']');
}

/* ---- snapshots ---- */

static void write_start(struct buffer *out, const struct monitor_snapshot_input *input)
{
    buffer_append_text(out, "{\"at\":");
    json_write_time(out, input->status.wall_ms);
}

void monitor_snapshot_write(struct buffer *out, const struct monitor_snapshot_input *input)
{
    const struct monitor_sample *sample = input->status.sample;
    const struct access_caller *caller = input->status.caller;
    struct busy_topics busy = {0};
    struct monitor_figures sums = {0};
    struct monitor_status status;
    uint64_t seen = 0;
    (void)busy_topics_reserve(&busy, MONITOR_SNAPSHOT_TOPICS_MAX);
    for (size_t i = 0; i < sample->topic_count; i++) {
        const struct monitor_sample_topic *topic = &sample->topics[i];
        if (!caller->has_all_topics && !access_may(caller, ACCESS_READ, topic->name))
            continue;
        seen++;
        monitor_figures_add(&sums, &topic->figures);
        offer_topic(&busy, topic);
    }
    monitor_status_evaluate(&status, &input->status);
    write_start(out, input);
    json_write_member(out, "status");
    monitor_status_write(out, &status);
    json_write_member(out, "totals");
    buffer_append_byte(out, '{');
    write_counts(out, &sums.counts);
    json_write_member_number(out, "topics", seen);
    buffer_append_byte(out, '}');
    write_rates(out, sums.rates);
    write_lateness(out, input->status.lateness);
    write_age(out, input->status.wall_ms, sums.oldest_ready_due_ms);
    json_write_member_number(out, "waiting_takes", input->waiting_takes);
    json_write_member_number(out, "connections", input->connections);
    size_t shown = busy.count;
    write_topics(out, input, &busy);
    json_write_member_number(out, "topics_left_out", seen - shown);
    buffer_append_byte(out, '}');
    busy_topics_fini(&busy);
}

/* Returns the topic of that name, or NULL. */
static const struct monitor_sample_topic *topic_find(const struct monitor_sample *sample,
                                                     struct slice name)
{
    size_t low = 0, high = sample->topic_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = slice_compare(sample->topics[middle].name, name);
        if (order == 0)
            return &sample->topics[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void monitor_snapshot_topic_write(struct buffer *out, const struct monitor_snapshot_input *input,
                                  struct slice name, const struct queue_topic *shown)
{
    const struct monitor_sample_topic *topic = topic_find(input->status.sample, name);
    struct monitor_sample_topic fresh = {.name = name};
    write_start(out, input);
    json_write_member(out, "topic");
    if (!shown) {
        buffer_append_text(out, "null");
    } else {
        if (topic)
            fresh = *topic;
        fresh.paused_ms = shown->paused;
        fresh.paused_until_ms = shown->paused_until_ms;
        fresh.figures.oldest_ready_due_ms = shown->oldest_ready_due_ms;
        write_topic(out, input, &fresh, &shown->counts);
        const char *breaker = http_target_state(input->shared->hooks, shown->settings.extension);
        if (breaker)
            json_write_member_text(out, "breaker", slice_of(breaker));
        json_write_member(out, "settings");
        api_settings_write(out, &shown->settings);
        buffer_append_byte(out, '}');
    }
    write_lateness(out, monitor_sample_lateness(input->shared, name));
    buffer_append_byte(out, '}');
}

void monitor_history_write(struct buffer *out, const struct monitor_history_point *points,
                           size_t count)
{
    buffer_append_format(out, "{\"interval_ms\":%d,\"points\":[", MONITOR_HISTORY_MS);
    for (size_t i = 0; i < count; i++) {
        const struct monitor_history_point *point = &points[i];
        buffer_append_text(out, i ? ",{\"at\":" : "{\"at\":");
        json_write_time(out, point->wall_ms);
        write_rate(out, "pushed_per_s", point->sums.rates[MONITOR_RATE_PUSHED]);
        write_rate(out, "delivered_per_s", point->sums.rates[MONITOR_RATE_DELIVERED]);
        write_rate(out, "acked_per_s", point->sums.rates[MONITOR_RATE_ACKED]);
        json_write_member_number(out, "ready", point->sums.counts.ready);
        write_null_or(out, "lateness_p99_ms", point->lateness_p99_ms >= 0, point->lateness_p99_ms);
        write_age(out, point->wall_ms, point->sums.oldest_ready_due_ms);
        buffer_append_byte(out, '}');
    }
    buffer_append_text(out, "]}");
}
