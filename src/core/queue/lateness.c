#include "queue/lateness.h"

#include "base/table.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    WAYS = JOB_WAY_BROKER + 1,
    SLICE_MS = 10 * 1000, /* the last minute is stored in slices */
    SLICES = 6,
    IDLE_MS = 3600 * 1000, /* a topic without a delivery for this time makes room */
    LOOK_MS = 1000         /* minimum interval of searches for such a topic */
};

const struct bucket_bounds lateness_bounds = {.units = 1000,
                                              .count = 17,
                                              .at = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000,
                                                     5000, 10000, 30000, 60000, 300000, 3600000}};

static const struct bucket_bounds attempt_bounds = {
    .units = 1, .count = 7, .at = {1, 2, 3, 5, 10, 20, 50}};

struct recent {
    int64_t number; /* number of the slice of time */
    uint64_t max_ms;
    struct buckets late;
};

struct figures {
    struct table_entry entry; /* by topic */
    int64_t used_ms;
    struct way {
        struct buckets late, attempts;
        bool is_used;
    } ways[WAYS];
    struct recent recent[SLICES];
    char topic[JOB_TOPIC_BYTES_MAX];
};

TABLE_DECLARE(figures_table, struct figures, entry)

struct lateness {
    pthread_mutex_t lock; /* of all fields below */
    uint32_t topics_max, count;
    int64_t look_ms; /* time of the last search for an idle topic */
    struct figures_table table;
    struct figures others;
    struct recent all[SLICES];
    struct figures *at[]; /* in order of creation */
};

struct lateness *lateness_new(uint32_t topics_max)
{
    struct lateness *lateness = calloc(1, sizeof *lateness + topics_max * sizeof *lateness->at);
    if (!lateness)
        return NULL;
    pthread_mutex_init(&lateness->lock, NULL);
    lateness->topics_max = topics_max;
    lateness->others.entry.key = slice_of(METRIC_OTHERS);
    return lateness;
}

void lateness_free(struct lateness *lateness)
{
    if (!lateness)
        return;
    for (uint32_t i = 0; i < lateness->count; i++)
        free(lateness->at[i]);
    figures_table_fini(&lateness->table);
    pthread_mutex_destroy(&lateness->lock);
    free(lateness);
}

uint32_t lateness_topics_max(const struct lateness *lateness)
{
    return lateness->topics_max;
}

/* ---- the figures of a topic ---- */

static void figures_begin(struct lateness *lateness, struct figures *figures, struct slice topic)
{
    assert(topic.len <= sizeof figures->topic);
    *figures = (struct figures){.used_ms = 0};
    memcpy(figures->topic, topic.at, topic.len);
    figures->entry.key = slice_make(figures->topic, topic.len);
    figures_table_add(&lateness->table, figures);
}

/* Returns the figures of a topic without a delivery for a long time. Searches only now and then; NULL: not found. */
static struct figures *find_idle(struct lateness *lateness, int64_t now_ms)
{
    if (now_ms - lateness->look_ms < LOOK_MS && now_ms >= lateness->look_ms)
        return NULL;
    lateness->look_ms = now_ms;
    for (uint32_t i = 0; i < lateness->count; i++)
        if (now_ms - lateness->at[i]->used_ms >= IDLE_MS)
            return lateness->at[i];
    return NULL;
}

static struct figures *figures_of(struct lateness *lateness, struct slice topic, int64_t now_ms)
{
    struct figures *figures = figures_table_find(&lateness->table, topic);
    if (!figures && lateness->count < lateness->topics_max) {
        figures = malloc(sizeof *figures);
        if (figures) {
            lateness->at[lateness->count++] = figures;
            figures_begin(lateness, figures, topic);
        }
    } else if (!figures && lateness->topics_max) {
        figures = find_idle(lateness, now_ms);
        if (figures) {
            figures_table_remove(&lateness->table, figures);
            figures_begin(lateness, figures, topic);
        }
    }
    return figures ? figures : &lateness->others;
}

/* ---- counting ---- */

static void recent_add(struct recent recent[SLICES], int64_t number, uint32_t bucket,
                       uint64_t late_ms)
{
    struct recent *slice = &recent[(uint64_t)number % SLICES];
    if (slice->number != number)
        *slice = (struct recent){.number = number};
    if (late_ms > slice->max_ms)
        slice->max_ms = late_ms;
    buckets_add_to(&slice->late, bucket, late_ms);
}

static void figures_add(struct lateness *lateness, struct figures *figures, enum job_way way,
                        const struct job *job, int64_t now_ms)
{
    struct way *counts = &figures->ways[way];
    int64_t late_ms = now_ms - job->due_ms;
    counts->is_used = true;
    figures->used_ms = now_ms;
    buckets_add(&counts->attempts, &attempt_bounds, job->attempt);
    if (job->attempt != 1)
        return;
    if (late_ms < 0)
        late_ms = 0;
    uint32_t bucket = buckets_place(&lateness_bounds, (uint64_t)late_ms);
    buckets_add_to(&counts->late, bucket, (uint64_t)late_ms);
    recent_add(figures->recent, now_ms / SLICE_MS, bucket, (uint64_t)late_ms);
    recent_add(lateness->all, now_ms / SLICE_MS, bucket, (uint64_t)late_ms);
}

void lateness_add(struct lateness *lateness, enum job_way way, const struct queue_job *jobs,
                  size_t count, int64_t now_ms)
{
    struct figures *figures = NULL;
    pthread_mutex_lock(&lateness->lock);
    for (size_t i = 0; i < count; i++) {
        const struct job *job = &jobs[i].job;
        if (!figures || !slice_equals(job->topic, jobs[i - 1].job.topic))
            figures = figures_of(lateness, job->topic, now_ms);
        figures_add(lateness, figures, way, job, now_ms);
    }
    pthread_mutex_unlock(&lateness->lock);
}

void lateness_add_job(struct lateness *lateness, enum job_way way, const struct job *job,
                      int64_t now_ms)
{
    pthread_mutex_lock(&lateness->lock);
    figures_add(lateness, figures_of(lateness, job->topic, now_ms), way, job, now_ms);
    pthread_mutex_unlock(&lateness->lock);
}

/* ---- the last minute ---- */

uint64_t lateness_recent(struct lateness *lateness, struct slice topic, int64_t now_ms,
                         struct buckets *into)
{
    uint64_t max_ms = 0;
    int64_t number = now_ms / SLICE_MS;
    pthread_mutex_lock(&lateness->lock);
    struct figures *figures = topic.len ? figures_table_find(&lateness->table, topic) : NULL;
    const struct recent *recent = topic.len ? NULL : lateness->all;
    if (figures)
        recent = figures->recent;
    for (size_t i = 0; recent && i < SLICES; i++) {
        if (recent[i].number > number || recent[i].number <= number - SLICES)
            continue;
        buckets_merge(into, &recent[i].late);
        if (recent[i].max_ms > max_ms)
            max_ms = recent[i].max_ms;
    }
    pthread_mutex_unlock(&lateness->lock);
    return max_ms;
}

/* ---- metrics ---- */

enum { LATE, ATTEMPTS, METRICS };

static void emit_figures(const struct figures *figures, uint32_t which, struct metric_page *page)
{
    for (int way = JOB_WAY_TAKE; way < WAYS; way++) {
        const struct way *counts = &figures->ways[way];
        const struct slice *labels =
            METRIC_LABELS(figures->entry.key, slice_of(job_way_name((enum job_way)way)));
        if (!counts->is_used)
            continue;
        if (which == LATE)
            metric_histogram(page, labels, &counts->late, &lateness_bounds);
        else
            metric_histogram(page, labels, &counts->attempts, &attempt_bounds);
    }
}

/* Writes one step. *at counts topics, then the sum of the others, then the same for the second metric. */
bool lateness_emit_some(struct lateness *lateness, struct metric_page *page, uint32_t *at,
                        lateness_shows *shows, void *ctx)
{
    uint32_t rows = lateness->topics_max + 1, which = *at / rows, row = *at % rows;
    if (row == 0)
        metric_begin(page, &lateness_metrics[which]);
    pthread_mutex_lock(&lateness->lock);
    if (row < lateness->count) {
        if (!shows || shows(ctx, lateness->at[row]->entry.key))
            emit_figures(lateness->at[row], which, page);
        *at += 1;
    } else {
        if (!shows)
            emit_figures(&lateness->others, which, page);
        *at = (which + 1) * rows;
    }
    pthread_mutex_unlock(&lateness->lock);
    return *at == METRICS * rows;
}

const struct metric lateness_metrics[] = {
    [LATE] = {.name = "tarry_lateness_seconds",
              .type = PROMETHEUS_HISTOGRAM,
              .labels = {"topic", "way"},
              .help = "Time from a job's due time to its delivery, first attempts only.",
              .meaning = "The main figure of a delay queue. Way `take`: a consumer took the job; "
                         "it grows if consumers are too few or slow "
                         "(`tarry_jobs{state=\"ready\"}` also grows). `callback`, `broker`: the "
                         "server sent it; it grows if the target is slow or down "
                         "(`tarry_endpoint_duration_seconds`, `tarry_deliver_endpoints`), or "
                         "`max_in_flight` or `rate` is reached. Late in all topics: the server "
                         "itself (`tarry_loop_iteration_longest_seconds`).",
              .when = "once a job was delivered"},
    [ATTEMPTS] = {.name = "tarry_delivery_attempts",
                  .type = PROMETHEUS_HISTOGRAM,
                  .labels = {"topic", "way"},
                  .help = "Number of the attempt, for each delivery.",
                  .meaning = "The share of 1 is first attempts. The share above 1 grows: jobs fail "
                             "or their leases end; `tarry_jobs_nacked_total` and "
                             "`tarry_jobs_lease_ended_total` show which.",
                  .when = "once a job was delivered"},
    METRIC_END};
