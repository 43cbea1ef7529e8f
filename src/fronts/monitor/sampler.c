#include "monitor/sampler.h"

#include "base/clock.h"
#include "base/vector.h"
#include "http/state.h"
#include "monitor/day.h"
#include "monitor/state.h"

#include <stdlib.h>

enum {
    BREAKER_LATE_MS = 10000, /* jobs that have been due for longer wait for the breaker */
    PERIOD_MS = 1000,        /* while a client listens */
    WANTED_MS = 100,         /* minimum interval of requested samples */
    TIMEOUT_MS = 2000,       /* timeout of a sample of a store that was healthy at its start */
    LOAD = 10,               /* sampling takes at most 1/LOAD of the time */
    QUIET_MS_MAX = 60 * 1000,
    PAGE_TOPICS = 250
};

struct monitor_sampler {
    struct letter call;
    struct letter more; /* requests the next page in a separate loop iteration */
    atomic_bool is_called;
    struct http_shared *shared;
    struct reactor *reactor;
    struct queue *queue;
    struct deadline *alarm;
    atomic_uint listeners;
    atomic_bool is_wanted, is_due;
    _Atomic uint64_t begun; /* serial of the newest sample, complete or in progress */
    /* When an iteration that happens anyway makes a sample for the history: one with requests, or
     * another one. */
    _Atomic int64_t due_ms, quiet_due_ms;
    bool is_redis;
    bool is_more_posted; /* the letter is in transit, perhaps for an abandoned sample */

    struct monitor_day *day;
    struct monitor_sample *last;   /* newest complete sample, or NULL */
    struct monitor_sample *making; /* sample in progress, or NULL */
    size_t last_at;                /* index of the next topic in `last` */
    size_t after_len;
    char after[JOB_TOPIC_BYTES_MAX]; /* start of the next page */
    int64_t began_ms, ended_ms;
    bool has_notifications; /* differs from `last` */
    uint32_t quiet;         /* consecutive samples without changes */

    double moved[MONITOR_RATES]; /* changes since the last point of the history */
    int64_t moved_ms;
    int64_t recorded_ms;  /* time of that point, inner clock */
    pthread_mutex_t lock; /* guards the history */
    struct monitor_history_point points[MONITOR_HISTORY_POINTS];
    size_t point_count, point_at; /* point_at: index of the next one */
};

/* ---- figures ---- */

static void set_rates(double rates[MONITOR_RATES], const struct topic_totals *now,
                      const struct topic_totals *before, int64_t ms)
{
    rates[MONITOR_RATE_PUSHED] = monitor_rate_of(now->pushed, before->pushed, ms);
    rates[MONITOR_RATE_DELIVERED] = monitor_rate_of(now->delivered, before->delivered, ms);
    rates[MONITOR_RATE_ACKED] = monitor_rate_of(now->acked, before->acked, ms);
    rates[MONITOR_RATE_NACKED] = monitor_rate_of(now->nacked, before->nacked, ms);
    rates[MONITOR_RATE_DIED] = monitor_rate_of(now->died, before->died, ms);
    rates[MONITOR_RATE_CANCELLED] = monitor_rate_of(now->cancelled, before->cancelled, ms);
    rates[MONITOR_RATE_EXPIRED] = monitor_rate_of(now->expired, before->expired, ms);
}

/* ---- samples ---- */

/* Returns the topic in the previous sample, or NULL if it is new. Topics must be looked up in
 * order. */
static const struct monitor_sample_topic *topic_before(struct monitor_sampler *sampler,
                                                       struct slice name)
{
    const struct monitor_sample *last = sampler->last;
    while (last && sampler->last_at < last->topic_count) {
        const struct monitor_sample_topic *topic = &last->topics[sampler->last_at];
        int order = slice_compare(topic->name, name);
        if (order == 0)
            return topic;
        if (order > 0)
            break;
        sampler->last_at++;
    }
    return NULL;
}

static bool topic_is_as_before(const struct monitor_sample_topic *topic,
                               const struct monitor_sample_topic *before)
{
    return memcmp(&topic->totals, &before->totals, sizeof topic->totals) == 0 &&
           memcmp(&topic->figures.counts, &before->figures.counts, sizeof topic->figures.counts) ==
               0 &&
           !topic->paused_ms == !before->paused_ms && !topic->stopped_ms == !before->stopped_ms &&
           topic->paused_until_ms == before->paused_until_ms;
}

static bool begins_with_deliver(struct slice extension)
{
    static const char begin[] = "{\"deliver\":";
    return extension.len >= sizeof begin - 1 && memcmp(extension.at, begin, sizeof begin - 1) == 0;
}

/* Returns the number of jobs that left the topic. A target that fails receives attempts as well, so
 * only those that it accepted count. */
static uint64_t taken_of(const struct monitor_sample_topic *topic)
{
    return topic->delivers ? topic->totals.acked : topic->totals.delivered;
}

/* Returns the state of the breaker of the topic's target if it is not closed and ready jobs wait for it; else NULL. */
static const char *awaited_breaker(const struct monitor_sampler *sampler,
                                   const struct monitor_sample_topic *topic, struct slice extension)
{
    int64_t due_ms = topic->figures.oldest_ready_due_ms;
    if (!topic->delivers || !due_ms || sampler->making->wall_ms - due_ms < BREAKER_LATE_MS)
        return NULL;
    const char *state = http_target_state(sampler->shared->hooks, extension);
    return state && strcmp(state, "closed") != 0 ? state : NULL;
}

/* Adds a topic. Returns false if out of memory. Until the sample is complete names have only a
 * length, since their memory may move. */
static bool add_topic(struct monitor_sampler *sampler, const struct queue_topic *shown)
{
    static const struct topic_totals none;
    struct monitor_sample *sample = sampler->making;
    const struct monitor_sample_topic *before = topic_before(sampler, shown->name);
    if (sample->topic_count == sample->topic_cap) {
        void *grown = vector_grow(sample->topics, sizeof *sample->topics, sample->topic_count + 1,
                                  &sample->topic_cap);
        if (!grown)
            return false;
        sample->topics = grown;
    }
    struct monitor_sample_topic *topic = &sample->topics[sample->topic_count];
    int64_t now_ms = sample->inner_ms;
    *topic =
        (struct monitor_sample_topic){.name = slice_make(NULL, shown->name.len),
                                      .figures = {.counts = shown->counts,
                                                  .oldest_ready_due_ms = queue_process_wall_ms(
                                                      sampler->queue, shown->oldest_ready_due_ms)},
                                      .totals = shown->totals,
                                      .max_jobs = shown->settings.max_jobs,
                                      .taken_ms = now_ms,
                                      .paused_ms = shown->paused ? now_ms : 0,
                                      .paused_until_ms = shown->paused_until_ms,
                                      .delivers = begins_with_deliver(shown->settings.extension)};
    topic->breaker = awaited_breaker(sampler, topic, shown->settings.extension);
    if (sampler->last)
        set_rates(topic->figures.rates, &topic->totals, before ? &before->totals : &none,
                  now_ms - sampler->last->inner_ms);
    if (before && taken_of(before) == taken_of(topic))
        topic->taken_ms = before->taken_ms;
    if (before && before->paused_ms && topic->paused_ms)
        topic->paused_ms = before->paused_ms;
    if (shown->held_by[FLOW_HELD_GROUP_PAUSED] || shown->held_by[FLOW_HELD_HOLD])
        topic->stopped_ms = before && before->stopped_ms ? before->stopped_ms : now_ms;
    sampler->has_notifications |= !before || !topic_is_as_before(topic, before);
    monitor_figures_add(&sample->sums, &topic->figures);
    buffer_append_slice(&sample->names, shown->name);
    sample->topic_count++;
    return !sample->names.failed;
}

static void set_names(struct monitor_sample *sample)
{
    size_t at = 0;
    for (size_t i = 0; i < sample->topic_count; i++) {
        sample->topics[i].name.at = sample->names.at + at;
        at += sample->topics[i].name.len;
    }
}

/* ---- history ---- */

static void record_history(struct monitor_sampler *sampler, const struct monitor_sample *sample,
                           int64_t past_ms)
{
    int64_t since_ms = sample->inner_ms - sampler->recorded_ms;
    for (size_t i = 0; i < MONITOR_RATES; i++)
        sampler->moved[i] += sample->sums.rates[i] * (double)past_ms / 1000;
    sampler->moved_ms += past_ms;
    if (since_ms < MONITOR_HISTORY_MS)
        return;
    struct monitor_history_point point = {
        .wall_ms = sample->wall_ms,
        .sums = sample->sums,
        .lateness_p99_ms = monitor_sample_lateness(sampler->shared, (struct slice){0}).p99_ms};
    for (size_t i = 0; i < MONITOR_RATES; i++) {
        point.sums.rates[i] =
            sampler->moved_ms ? sampler->moved[i] * 1000 / (double)sampler->moved_ms : 0;
        sampler->moved[i] = 0;
    }
    sampler->moved_ms = 0;
    /* Points are at multiples of the period, regardless of the duration of samples. */
    sampler->recorded_ms = since_ms < 2 * MONITOR_HISTORY_MS
                               ? sampler->recorded_ms + MONITOR_HISTORY_MS
                               : sample->inner_ms;
    pthread_mutex_lock(&sampler->lock);
    sampler->points[sampler->point_at] = point;
    sampler->point_at = (sampler->point_at + 1) % MONITOR_HISTORY_POINTS;
    sampler->point_count += sampler->point_count < MONITOR_HISTORY_POINTS;
    pthread_mutex_unlock(&sampler->lock);
}

size_t monitor_sampler_history(struct monitor_sampler *sampler,
                               struct monitor_history_point out[MONITOR_HISTORY_POINTS])
{
    int64_t oldest_ms = clock_wall_ms() - MONITOR_HISTORY_POINTS * (int64_t)MONITOR_HISTORY_MS;
    size_t count = 0;
    pthread_mutex_lock(&sampler->lock);
    for (size_t i = sampler->point_count; i > 0; i--) {
        size_t at = (sampler->point_at + MONITOR_HISTORY_POINTS - i) % MONITOR_HISTORY_POINTS;
        if (sampler->points[at].wall_ms >= oldest_ms)
            out[count++] = sampler->points[at];
    }
    pthread_mutex_unlock(&sampler->lock);
    return count;
}

/* ---- making a sample ---- */

static void ask_page(struct monitor_sampler *sampler);

/* Sends the sample to each front that requested it, replacing an earlier one that the front has not
 * read. */
static void publish(struct monitor_sampler *sampler, struct monitor_sample *sample)
{
    struct http_shared *shared = sampler->shared;
    pthread_mutex_lock(&shared->lock);
    for (uint32_t i = 0; i < shared->front_count; i++) {
        struct monitor_sample_box *box = monitor_front_of(shared->fronts[i])->samples;
        if (!atomic_load_explicit(&box->is_open, memory_order_acquire))
            continue;
        struct monitor_sample *unseen = atomic_exchange(&box->next, monitor_sample_hold(sample));
        if (unseen)
            monitor_sample_release(unseen);
        else
            reactor_post(shared->fronts[i]->reactor, &box->letter);
    }
    pthread_mutex_unlock(&shared->lock);
}

/* Plans the next sample by the requests for it. */
static void plan_next(struct monitor_sampler *sampler)
{
    int64_t at_ms = INT64_MAX, due_ms = INT64_MAX, quiet_ms = INT64_MAX;
    int64_t rest_ms = (sampler->ended_ms - sampler->began_ms) * LOAD;
    int64_t pause_ms = rest_ms < MONITOR_HISTORY_MS ? MONITOR_HISTORY_MS
                       : rest_ms < QUIET_MS_MAX     ? rest_ms
                                                    : QUIET_MS_MAX; /* of the history */
    bool keeps_history = !sampler->is_redis;
    if (atomic_load(&sampler->is_wanted))
        at_ms = sampler->began_ms + (rest_ms > WANTED_MS ? rest_ms : WANTED_MS);
    else if (atomic_load(&sampler->listeners))
        at_ms = sampler->began_ms + (rest_ms > PERIOD_MS ? rest_ms : PERIOD_MS);
    else if (keeps_history && sampler->has_notifications)
        at_ms = due_ms = sampler->began_ms + pause_ms;
    else if (keeps_history) {
        int64_t quiet = (int64_t)MONITOR_HISTORY_MS << (sampler->quiet < 4 ? sampler->quiet : 4);
        quiet = quiet < pause_ms ? pause_ms : quiet;
        due_ms = sampler->began_ms + pause_ms;
        quiet_ms = sampler->began_ms + (quiet < QUIET_MS_MAX ? quiet : QUIET_MS_MAX);
    } else
        due_ms = sampler->began_ms + MONITOR_DAY_POINT_MS;
    atomic_store(&sampler->due_ms, due_ms);
    atomic_store(&sampler->quiet_due_ms, quiet_ms);
    deadline_set(sampler->alarm, at_ms);
}

static void finish_sample(struct monitor_sampler *sampler, bool is_whole)
{
    struct monitor_sample *sample = sampler->making, *last = sampler->last;
    sampler->making = NULL;
    sampler->ended_ms = clock_inner_ms();
    sample->is_whole = is_whole;
    set_names(sample);
    if (is_whole) {
        sampler->has_notifications |= !last || last->topic_count != sample->topic_count;
        sampler->quiet = sampler->has_notifications ? 0 : sampler->quiet + 1;
        monitor_day_record(sampler->day, sample);
        record_history(sampler, sample, last ? sample->inner_ms - last->inner_ms : 0);
        sampler->last = monitor_sample_hold(sample);
        monitor_sample_release(last);
    } else {
        sampler->has_notifications = false;
    }
    publish(sampler, sample);
    monitor_sample_release(sample);
    plan_next(sampler);
}

/* Handles a page of topics. A store may return all topics for any request, so the sample ends when
 * a page has no new topic. */
static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct monitor_sampler *sampler = owner;
    struct slice after = slice_make(sampler->after, sampler->after_len), last = {0};
    if (!sampler->making || sampler->making->serial != tag)
        return;
    bool is_good = reply->status == QUEUE_OK;
    for (size_t i = 0; is_good && i < reply->topic_count; i++) {
        last = reply->topics[i].name;
        if (!after.len || slice_compare(last, after) > 0)
            is_good = add_topic(sampler, &reply->topics[i]);
    }
    bool has_more = is_good && reply->topic_count == PAGE_TOPICS &&
                    last.len <= sizeof sampler->after && slice_compare(last, after) > 0;
    if (!has_more) {
        finish_sample(sampler, is_good);
        return;
    }
    memcpy(sampler->after, last.at, last.len);
    sampler->after_len = last.len;
    sampler->is_more_posted = true;
    reactor_post(sampler->reactor, &sampler->more);
}

static void ask_page(struct monitor_sampler *sampler)
{
    const struct queue_topics_page page = {.after = slice_make(sampler->after, sampler->after_len),
                                           .limit = PAGE_TOPICS};
    queue_topics_page(
        sampler->queue, page,
        (struct queue_reply_to){.done = on_page, .owner = sampler, .tag = sampler->making->serial});
}

static void run_more(struct letter *letter)
{
    struct monitor_sampler *sampler =
        (struct monitor_sampler *)(void *)((char *)letter - offsetof(struct monitor_sampler, more));
    sampler->is_more_posted = false;
    if (sampler->making)
        ask_page(sampler);
    else
        plan_next(sampler);
}

static void begin_sample(struct monitor_sampler *sampler)
{
    struct queue_info info = {0};
    struct monitor_sample *sample = calloc(1, sizeof *sample);
    sampler->began_ms = sampler->ended_ms = clock_inner_ms();
    atomic_store(&sampler->is_wanted, false);
    if (!sample) { /* clients that wait for it get the next one */
        atomic_store(&sampler->is_wanted, true);
        plan_next(sampler);
        return;
    }
    queue_info(sampler->queue, &info);
    atomic_init(&sample->holders, 1);
    buffer_init(&sample->names, SIZE_MAX / 2);
    sample->serial = atomic_fetch_add(&sampler->begun, 1) + 1;
    sample->inner_ms = sampler->began_ms;
    sample->wall_ms = clock_wall_ms();
    sample->is_redis = sampler->is_redis;
    sample->is_healthy = info.healthy;
    sample->is_accepting = info.accepting;
    sample->is_moved = info.moved;
    sampler->making = sample;
    sampler->last_at = sampler->after_len = 0;
    sampler->has_notifications = false;
    deadline_set(sampler->alarm, sampler->began_ms + TIMEOUT_MS);
    if (info.healthy)
        ask_page(sampler);
    else
        finish_sample(sampler, false);
}

/* Begins a sample, or ends the one in progress if its store has become unreachable. */
static void on_alarm(void *ctx)
{
    struct monitor_sampler *sampler = ctx;
    struct queue_info info = {0};
    if (!sampler->making && !sampler->is_more_posted) {
        begin_sample(sampler);
        return;
    }
    if (!sampler->making)
        return;
    queue_info(sampler->queue, &info);
    sampler->making->is_healthy = info.healthy;
    if (!info.healthy)
        finish_sample(sampler, false);
    else
        deadline_set(sampler->alarm, clock_inner_ms() + TIMEOUT_MS);
}

/* ---- calls of the fronts ---- */

/* Handles calls of the fronts on the home reactor. A sample in progress plans the next one itself
 * when it ends. */
static void run_call(struct letter *letter)
{
    struct monitor_sampler *sampler = (struct monitor_sampler *)(void *)letter;
    bool is_due = atomic_exchange(&sampler->is_due, false);
    atomic_store(&sampler->is_called, false);
    if (sampler->making || sampler->is_more_posted)
        return;
    if (is_due)
        begin_sample(sampler);
    else
        plan_next(sampler);
}

static void call_sampler(struct monitor_sampler *sampler)
{
    if (!atomic_exchange(&sampler->is_called, true))
        reactor_post(sampler->reactor, &sampler->call);
}

void monitor_sampler_listen(struct monitor_sampler *sampler)
{
    if (atomic_fetch_add(&sampler->listeners, 1) == 0)
        call_sampler(sampler);
}

void monitor_sampler_leave(struct monitor_sampler *sampler)
{
    atomic_fetch_sub(&sampler->listeners, 1);
}

uint64_t monitor_sampler_want(struct monitor_sampler *sampler)
{
    uint64_t serial = atomic_load(&sampler->begun) + 1;
    atomic_store(&sampler->is_wanted, true);
    call_sampler(sampler);
    return serial;
}

void monitor_sampler_look(struct monitor_sampler *sampler, const struct http_front *front)
{
    _Atomic int64_t *due = front->now_ms ? &sampler->due_ms : &sampler->quiet_due_ms;
    int64_t due_ms = atomic_load_explicit(due, memory_order_relaxed);
    if (due_ms == INT64_MAX || (front->now_ms ? front->now_ms : clock_inner_ms()) < due_ms)
        return;
    atomic_store(&sampler->due_ms, INT64_MAX);
    atomic_store(&sampler->quiet_due_ms, INT64_MAX);
    atomic_store(&sampler->is_due, true);
    call_sampler(sampler);
}

/* ---- life ---- */

struct monitor_sampler *monitor_sampler_new(struct http_shared *shared, struct reactor *reactor,
                                            struct queue *queue, struct monitor_day *day)
{
    struct monitor_sampler *sampler = calloc(1, sizeof *sampler);
    struct queue_info info = {0};
    if (!sampler)
        return NULL;
    queue_info(queue, &info);
    sampler->call.run = run_call;
    sampler->more.run = run_more;
    sampler->shared = shared;
    sampler->reactor = reactor;
    sampler->queue = queue;
    sampler->is_redis = info.store && strcmp(info.store, "redis") == 0;
    sampler->recorded_ms = clock_inner_ms();
    atomic_init(&sampler->due_ms,
                sampler->is_redis ? sampler->recorded_ms + MONITOR_DAY_POINT_MS : 0);
    atomic_init(&sampler->quiet_due_ms, INT64_MAX);
    sampler->day = day;
    sampler->alarm = deadline_new(reactor, on_alarm, sampler);
    if (!sampler->alarm) {
        free(sampler);
        return NULL;
    }
    pthread_mutex_init(&sampler->lock, NULL);
    return sampler;
}

void monitor_sampler_free(struct monitor_sampler *sampler)
{
    if (!sampler)
        return;
    deadline_free(sampler->alarm);
    monitor_sample_release(sampler->last);
    monitor_sample_release(sampler->making);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}
