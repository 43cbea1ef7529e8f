#include "deliver/dead_letter_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/prometheus.h"

#include <assert.h>
#include <stdlib.h>

static const int64_t TAKE_WAIT_MS = 24LL * 3600 * 1000;

/* ---- calls of the queue ---- */

struct queue_reply_to dead_letter_worker_reply_to(struct dead_letter_worker *worker,
                                                  queue_done *done)
{
    worker->calls++;
    return (struct queue_reply_to){.done = done, .owner = worker};
}

void dead_letter_worker_replied(struct dead_letter_worker *worker)
{
    assert(worker->calls);
    worker->calls--;
}

/* ---- control jobs taken, one at a time ---- */

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    worker->take = 0;
    if (reply->status == QUEUE_OK && reply->job_count == 1) {
        dead_letter_pass_begin(worker, &reply->jobs[0]);
        return;
    }
    if (reply->status != QUEUE_OK || refused)
        worker->take_ms = clock_inner_ms() + DEAD_LETTER_SCHEDULE_MS;
    dead_letter_worker_next(worker);
}

static bool has_rules(const struct dead_letter_worker *worker)
{
    for (const struct list *node = worker->topics.next; node != &worker->topics; node = node->next)
        if (list_entry(node, struct kept, node)->is_followed)
            return true;
    return false;
}

void dead_letter_worker_next(struct dead_letter_worker *worker)
{
    int64_t now_ms = clock_inner_ms();
    dead_letter_worker_check_stopped(worker);
    if (worker->is_stopping || worker->has_pass || worker->take || !has_rules(worker))
        return;
    if (now_ms < worker->take_ms) {
        dead_letter_worker_wake_by(worker, worker->take_ms);
        return;
    }
    struct slice topic = slice_of(DEAD_LETTER_TOPIC);
    struct queue_take take = {
        .topics = &topic, .topic_count = 1, .max = 1, .lease_ms = DEAD_LETTER_LEASE_MS};
    worker->take =
        waiter_take(worker->options.waiters, &take, TAKE_WAIT_MS, now_ms, on_taken, worker, 0);
    if (!worker->take) {
        worker->take_ms = now_ms + DEAD_LETTER_SCHEDULE_MS;
        dead_letter_worker_wake_by(worker, worker->take_ms);
    }
}

/* ---- time ---- */

static void on_alarm(void *ctx)
{
    struct dead_letter_worker *worker = ctx;
    if (worker->is_stopping)
        return;
    worker->alarm_ms = INT64_MAX;
    if (worker->wants_callbacks)
        dead_letter_worker_need_callbacks(worker);
    dead_letter_schedule_due(worker, clock_inner_ms());
    dead_letter_worker_next(worker);
}

void dead_letter_worker_wake_by(struct dead_letter_worker *worker, int64_t at_ms)
{
    if (at_ms >= worker->alarm_ms || worker->is_stopping)
        return;
    worker->alarm_ms = at_ms;
    deadline_set(worker->alarm, at_ms);
}

/* ---- topics ---- */

struct kept *dead_letter_worker_find(struct dead_letter_worker *worker, struct slice topic)
{
    for (struct list *node = worker->topics.next; node != &worker->topics; node = node->next) {
        struct kept *kept = list_entry(node, struct kept, node);
        if (slice_is(topic, kept->name))
            return kept;
    }
    return NULL;
}

static struct kept *add_kept(struct dead_letter_worker *worker, struct slice topic)
{
    struct kept *kept = calloc(1, sizeof *kept);
    if (!kept)
        return NULL;
    kept->name = strndup(topic.at, topic.len);
    if (!kept->name) {
        free(kept);
        return NULL;
    }
    pthread_mutex_lock(&worker->lock);
    list_add_last(&worker->topics, &kept->node);
    pthread_mutex_unlock(&worker->lock);
    return kept;
}

static bool needs_callbacks(const struct dead_letter_worker *worker)
{
    for (const struct list *node = worker->topics.next; node != &worker->topics; node = node->next)
        if (list_entry(node, struct kept, node)->needs_callbacks)
            return true;
    return false;
}

void dead_letter_worker_follow(struct dead_letter_worker *worker, struct slice topic,
                               const struct dead_letter *rules)
{
    struct kept *kept = dead_letter_worker_find(worker, topic);
    if (slice_is(topic, DEAD_LETTER_CALLBACKS_TOPIC)) { /* somebody may have deleted it */
        worker->has_callbacks = false;
        worker->wants_callbacks = needs_callbacks(worker);
        if (worker->wants_callbacks)
            dead_letter_worker_need_callbacks(worker);
    }
    if (!rules) {
        if (kept)
            kept->is_followed = kept->is_wanted = kept->needs_callbacks = false;
        return;
    }
    if (!kept)
        kept = add_kept(worker, topic);
    if (!kept) {
        log_event(LOG_ERROR, "dead letters not followed", LOG_TEXT("error", "out of memory"));
        return;
    }
    kept->is_followed = true;
    kept->needs_callbacks = rules->to_url || rules->alert_to;
    if (kept->needs_callbacks)
        dead_letter_worker_need_callbacks(worker);
    /* New rules are for jobs that are dead already, too; and a crash may have come between a death
     * and its control job. */
    dead_letter_schedule(worker, kept);
    dead_letter_worker_next(worker);
}

void dead_letter_worker_on_dead(struct dead_letter_worker *worker, struct slice topic)
{
    for (struct list *node = worker->topics.next; node != &worker->topics; node = node->next) {
        struct kept *kept = list_entry(node, struct kept, node);
        if (kept->is_followed && (!topic.len || slice_is(topic, kept->name)))
            kept->is_wanted = true;
    }
    dead_letter_schedule_due(worker, clock_inner_ms());
}

/* ---- life ---- */

static void run_stopped(struct turn_end_call *call)
{
    struct dead_letter_worker *worker = list_entry(call, struct dead_letter_worker, stop_call);
    void (*stopped)(void *ctx) = worker->stopped;
    worker->stopped = NULL;
    if (stopped)
        stopped(worker->stopped_ctx);
}

void dead_letter_worker_check_stopped(struct dead_letter_worker *worker)
{
    if (worker->is_stopping && worker->stopped && !worker->has_pass && !worker->calls &&
        !worker->alert_command_count)
        reactor_once_at_turn_end(worker->options.reactor, &worker->stop_call);
}

struct dead_letter_worker *dead_letter_worker_new(const struct dead_letter_worker_options *options)
{
    struct dead_letter_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    worker->options = *options;
    worker->alarm_ms = INT64_MAX;
    worker->alarm = deadline_new(options->reactor, on_alarm, worker);
    if (!worker->alarm) {
        free(worker);
        return NULL;
    }
    list_init(&worker->topics);
    list_init(&worker->alert_commands);
    list_init(&worker->stop_call.list);
    worker->stop_call.run = run_stopped;
    pthread_mutex_init(&worker->lock, NULL);
    return worker;
}

void dead_letter_worker_stop(struct dead_letter_worker *worker, void (*stopped)(void *ctx),
                             void *ctx)
{
    worker->is_stopping = true;
    worker->stopped = stopped;
    worker->stopped_ctx = ctx;
    if (worker->take) {
        waiter_cancel(worker->options.waiters, worker->take);
        worker->take = 0;
    }
    alert_commands_kill(worker);
    dead_letter_worker_check_stopped(worker);
}

void dead_letter_worker_free(struct dead_letter_worker *worker)
{
    if (!worker)
        return;
    reactor_cancel_at_turn_end(&worker->stop_call);
    deadline_free(worker->alarm);
    dead_letter_fini(&worker->pass.rules);
    free(worker->pass.step);
    while (!list_is_empty(&worker->topics)) {
        struct kept *kept = list_entry(worker->topics.next, struct kept, node);
        list_remove(&kept->node);
        free(kept->name);
        free(kept);
    }
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

/* ---- figures ---- */

void dead_letter_worker_count(struct dead_letter_worker *worker, uint64_t *counter, uint64_t step)
{
    pthread_mutex_lock(&worker->lock);
    *counter += step;
    pthread_mutex_unlock(&worker->lock);
}

static void emit_topic(struct buffer *out, const char *name, const struct kept *kept,
                       uint64_t value)
{
    const struct prometheus_label labels[] = {{"topic", slice_of(kept->name)}, {NULL, {0}}};
    prometheus_sample(out, name, labels, (int64_t)value);
}

static void emit_dropped(struct buffer *out, const char *name, const struct kept *kept)
{
    static const char *const reasons[DEAD_LETTER_REASONS] = {
        [DEAD_LETTER_COUNT] = "count", [DEAD_LETTER_AGE] = "age", [DEAD_LETTER_BYTES] = "bytes"};
    for (int i = 0; i < DEAD_LETTER_REASONS; i++) {
        const struct prometheus_label labels[] = {
            {"topic", slice_of(kept->name)}, {"reason", slice_of(reasons[i])}, {NULL, {0}}};
        prometheus_sample(out, name, labels, (int64_t)kept->dropped[i]);
    }
}

struct figure {
    const char *name, *help;
    size_t offset; /* in struct kept; 0: the dropped ones */
    bool is_gauge;
};

static const struct figure figures[] = {
    {"tarry_dead_forwarded_total", "Dead jobs forwarded to where 'dead_letter.to' says.",
     offsetof(struct kept, forwarded), false},
    {"tarry_dead_ringed",
     "Dead jobs that stay because topics name each other as 'dead_letter.to' in a ring.",
     offsetof(struct kept, ringed), true},
    {"tarry_dead_dropped_total", "Dead jobs dropped because 'dead_letter.keep' was met.", 0, false},
    {"tarry_alerts_total", "Alerts of dead jobs given to their callback or command.",
     offsetof(struct kept, alerts), false},
    {"tarry_alert_failures_total", "Alerts that could not be given, and will be tried again.",
     offsetof(struct kept, alert_faults), false},
};

void dead_letter_worker_emit_metrics(struct dead_letter_worker *worker, struct buffer *out)
{
    pthread_mutex_lock(&worker->lock);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const struct figure *figure = &figures[i];
        prometheus_family(out, figure->name,
                          figure->is_gauge ? PROMETHEUS_GAUGE : PROMETHEUS_COUNTER, figure->help);
        for (struct list *node = worker->topics.next; node != &worker->topics; node = node->next) {
            const struct kept *kept = list_entry(node, struct kept, node);
            if (figure->offset)
                emit_topic(out, figure->name, kept,
                           *(const uint64_t *)(const void *)((const char *)kept + figure->offset));
            else
                emit_dropped(out, figure->name, kept);
        }
    }
    pthread_mutex_unlock(&worker->lock);
}
