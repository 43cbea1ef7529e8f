#include "deliver/keeper_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/prometheus.h"

#include <assert.h>
#include <stdlib.h>

static const int64_t TAKE_WAIT_MS = 24LL * 3600 * 1000;

/* ---- calls of the queue ---- */

struct queue_reply_to keeper_reply_to(struct keeper *keeper, queue_done *done)
{
    keeper->calls++;
    return (struct queue_reply_to){.done = done, .owner = keeper};
}

void keeper_replied(struct keeper *keeper)
{
    assert(keeper->calls);
    keeper->calls--;
}

/* ---- control jobs taken, one at a time ---- */

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct keeper *keeper = owner;
    (void)tag;
    keeper->take = 0;
    if (reply->status == QUEUE_OK && reply->job_count == 1) {
        keeper_pass_begin(keeper, &reply->jobs[0]);
        return;
    }
    if (reply->status != QUEUE_OK || refused)
        keeper->take_ms = clock_inner_ms() + KEEPER_TELL_MS;
    keeper_next(keeper);
}

static bool has_rules(const struct keeper *keeper)
{
    for (const struct list *node = keeper->topics.next; node != &keeper->topics; node = node->next)
        if (list_entry(node, struct kept, node)->is_followed)
            return true;
    return false;
}

void keeper_next(struct keeper *keeper)
{
    int64_t now_ms = clock_inner_ms();
    keeper_check_stopped(keeper);
    if (keeper->is_stopping || keeper->has_pass || keeper->take || !has_rules(keeper))
        return;
    if (now_ms < keeper->take_ms) {
        keeper_wake_by(keeper, keeper->take_ms);
        return;
    }
    struct slice topic = slice_of(KEEPER_TOPIC);
    struct queue_take take = {
        .topics = &topic, .topic_count = 1, .max = 1, .lease_ms = KEEPER_LEASE_MS};
    keeper->take =
        waiter_take(keeper->options.waiters, &take, TAKE_WAIT_MS, now_ms, on_taken, keeper, 0);
    if (!keeper->take) {
        keeper->take_ms = now_ms + KEEPER_TELL_MS;
        keeper_wake_by(keeper, keeper->take_ms);
    }
}

/* ---- time ---- */

static void on_alarm(void *ctx)
{
    struct keeper *keeper = ctx;
    if (keeper->is_stopping)
        return;
    keeper->alarm_ms = INT64_MAX;
    if (keeper->wants_callbacks)
        keeper_need_callbacks(keeper);
    keeper_tell_due(keeper, clock_inner_ms());
    keeper_next(keeper);
}

void keeper_wake_by(struct keeper *keeper, int64_t at_ms)
{
    if (at_ms >= keeper->alarm_ms || keeper->is_stopping)
        return;
    keeper->alarm_ms = at_ms;
    deadline_set(keeper->alarm, at_ms);
}

/* ---- topics ---- */

struct kept *keeper_find(struct keeper *keeper, struct slice topic)
{
    for (struct list *node = keeper->topics.next; node != &keeper->topics; node = node->next) {
        struct kept *kept = list_entry(node, struct kept, node);
        if (slice_is(topic, kept->name))
            return kept;
    }
    return NULL;
}

static struct kept *add_kept(struct keeper *keeper, struct slice topic)
{
    struct kept *kept = calloc(1, sizeof *kept);
    if (!kept)
        return NULL;
    kept->name = strndup(topic.at, topic.len);
    if (!kept->name) {
        free(kept);
        return NULL;
    }
    pthread_mutex_lock(&keeper->lock);
    list_add_last(&keeper->topics, &kept->node);
    pthread_mutex_unlock(&keeper->lock);
    return kept;
}

static bool needs_callbacks(const struct keeper *keeper)
{
    for (const struct list *node = keeper->topics.next; node != &keeper->topics; node = node->next)
        if (list_entry(node, struct kept, node)->needs_callbacks)
            return true;
    return false;
}

void keeper_follow(struct keeper *keeper, struct slice topic, const struct dead_letter *rules)
{
    struct kept *kept = keeper_find(keeper, topic);
    if (slice_is(topic, KEEPER_CALLBACKS_TOPIC)) { /* somebody may have deleted it */
        keeper->has_callbacks = false;
        keeper->wants_callbacks = needs_callbacks(keeper);
        if (keeper->wants_callbacks)
            keeper_need_callbacks(keeper);
    }
    if (!rules) {
        if (kept)
            kept->is_followed = kept->is_wanted = kept->needs_callbacks = false;
        return;
    }
    if (!kept)
        kept = add_kept(keeper, topic);
    if (!kept) {
        log_event(LOG_ERROR, "dead letters not followed", LOG_TEXT("error", "out of memory"));
        return;
    }
    kept->is_followed = true;
    kept->needs_callbacks = rules->to_url || rules->alert_to;
    if (kept->needs_callbacks)
        keeper_need_callbacks(keeper);
    /* New rules are for jobs that are dead already, too; and a crash may have come between a death
     * and its control job. */
    keeper_tell(keeper, kept);
    keeper_next(keeper);
}

void keeper_on_dead(struct keeper *keeper, struct slice topic)
{
    for (struct list *node = keeper->topics.next; node != &keeper->topics; node = node->next) {
        struct kept *kept = list_entry(node, struct kept, node);
        if (kept->is_followed && (!topic.len || slice_is(topic, kept->name)))
            kept->is_wanted = true;
    }
    keeper_tell_due(keeper, clock_inner_ms());
}

/* ---- life ---- */

static void run_stopped(struct turn_end_call *call)
{
    struct keeper *keeper = list_entry(call, struct keeper, stop_call);
    void (*stopped)(void *ctx) = keeper->stopped;
    keeper->stopped = NULL;
    if (stopped)
        stopped(keeper->stopped_ctx);
}

void keeper_check_stopped(struct keeper *keeper)
{
    if (keeper->is_stopping && keeper->stopped && !keeper->has_pass && !keeper->calls &&
        !keeper->alert_command_count)
        reactor_once_at_turn_end(keeper->options.reactor, &keeper->stop_call);
}

struct keeper *keeper_new(const struct keeper_options *options)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return NULL;
    keeper->options = *options;
    keeper->alarm_ms = INT64_MAX;
    keeper->alarm = deadline_new(options->reactor, on_alarm, keeper);
    if (!keeper->alarm) {
        free(keeper);
        return NULL;
    }
    list_init(&keeper->topics);
    list_init(&keeper->alert_commands);
    list_init(&keeper->stop_call.list);
    keeper->stop_call.run = run_stopped;
    pthread_mutex_init(&keeper->lock, NULL);
    return keeper;
}

void keeper_stop(struct keeper *keeper, void (*stopped)(void *ctx), void *ctx)
{
    keeper->is_stopping = true;
    keeper->stopped = stopped;
    keeper->stopped_ctx = ctx;
    if (keeper->take) {
        waiter_cancel(keeper->options.waiters, keeper->take);
        keeper->take = 0;
    }
    alert_commands_kill(keeper);
    keeper_check_stopped(keeper);
}

void keeper_free(struct keeper *keeper)
{
    if (!keeper)
        return;
    reactor_cancel_at_turn_end(&keeper->stop_call);
    deadline_free(keeper->alarm);
    dead_letter_fini(&keeper->pass.rules);
    free(keeper->pass.step);
    while (!list_is_empty(&keeper->topics)) {
        struct kept *kept = list_entry(keeper->topics.next, struct kept, node);
        list_remove(&kept->node);
        free(kept->name);
        free(kept);
    }
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

/* ---- figures ---- */

void keeper_count(struct keeper *keeper, uint64_t *counter, uint64_t step)
{
    pthread_mutex_lock(&keeper->lock);
    *counter += step;
    pthread_mutex_unlock(&keeper->lock);
}

static void emit_topic(struct buffer *out, const char *name, const struct kept *kept,
                       uint64_t value)
{
    const struct prometheus_label labels[] = {{"topic", slice_of(kept->name)}, {NULL, {0}}};
    prometheus_sample(out, name, labels, (int64_t)value);
}

static void emit_dropped(struct buffer *out, const char *name, const struct kept *kept)
{
    static const char *const reasons[KEEPER_REASONS] = {
        [KEEPER_COUNT] = "count", [KEEPER_AGE] = "age", [KEEPER_BYTES] = "bytes"};
    for (int i = 0; i < KEEPER_REASONS; i++) {
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

void keeper_emit_metrics(struct keeper *keeper, struct buffer *out)
{
    pthread_mutex_lock(&keeper->lock);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const struct figure *figure = &figures[i];
        prometheus_family(out, figure->name,
                          figure->is_gauge ? PROMETHEUS_GAUGE : PROMETHEUS_COUNTER, figure->help);
        for (struct list *node = keeper->topics.next; node != &keeper->topics; node = node->next) {
            const struct kept *kept = list_entry(node, struct kept, node);
            if (figure->offset)
                emit_topic(out, figure->name, kept,
                           *(const uint64_t *)(const void *)((const char *)kept + figure->offset));
            else
                emit_dropped(out, figure->name, kept);
        }
    }
    pthread_mutex_unlock(&keeper->lock);
}
