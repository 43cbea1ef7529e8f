#include "deliver/dead_letter_worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "deliver/check.h"
#include "deliver/dead_letter_pass.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t TAKE_WAIT_MS = 24LL * 3600 * 1000;

enum {
    RETRY_MS = 1000,   /* after a queue error */
    CONTROL_MS = 1000, /* distance to a previous control job that another server may have */
    CONTROL_ATTEMPTS = POLICY_ATTEMPTS_MAX,
    CONTROL_BACKOFF_MS = 1000,
    CONTROL_BACKOFF_MS_MAX = 60 * 1000,
    CALLBACKS_DEDUP_MS = 24 * 3600 * 1000
};

/* Sets the alarm to that time unless it is earlier. */
static void worker_wake_by(struct dead_letter_worker *worker, int64_t at_ms)
{
    if (at_ms >= worker->alarm_ms || worker->is_stopping)
        return;
    worker->alarm_ms = at_ms;
    deadline_set(worker->alarm, at_ms);
}

/* ---- taking control jobs, one at a time ---- */

static bool worker_has_rules(const struct dead_letter_worker *worker)
{
    const struct dead_letter_topic *at = dead_letter_topics_first(&worker->topics);
    while (at && !at->has_rules)
        at = dead_letter_topics_next(&worker->topics, at);
    return at;
}

static void worker_take(struct dead_letter_worker *worker);

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    static dead_letter_step *const steps[] = {dead_letter_alert, dead_letter_forward,
                                              dead_letter_drop, NULL};
    struct dead_letter_worker *worker = owner;
    (void)tag;
    worker->take = 0;
    if (reply->status == QUEUE_OK && reply->job_count == 1) {
        dead_letter_pass_begin(worker, &reply->jobs[0], steps);
        return;
    }
    if (reply->status != QUEUE_OK || refused)
        worker->take_ms = clock_inner_ms() + RETRY_MS;
    worker_take(worker);
}

/* Takes the next control job unless a pass is running. */
static void worker_take(struct dead_letter_worker *worker)
{
    int64_t now_ms = clock_inner_ms();
    dead_letter_check_stopped(worker);
    if (worker->is_stopping || worker->has_pass || worker->take || !worker_has_rules(worker))
        return;
    if (now_ms < worker->take_ms) {
        worker_wake_by(worker, worker->take_ms);
        return;
    }
    struct slice topic = slice_of(DEAD_LETTER_TOPIC);
    struct queue_take take = {
        .topics = &topic, .topic_count = 1, .max = 1, .lease_ms = DEAD_LETTER_LEASE_MS};
    worker->take =
        waiter_take(worker->options.waiters, &take, TAKE_WAIT_MS, now_ms, on_taken, worker, 0);
    if (!worker->take) {
        worker->take_ms = now_ms + RETRY_MS;
        worker_wake_by(worker, worker->take_ms);
    }
}

/* ---- pushing control jobs ---- */

/* Returns the ID of a topic's control job. IDs are shorter than topics may be, so long names are
 * hashed. No topic name contains ':'. */
static struct slice control_id(struct slice topic, char out[JOB_ID_BYTES_MAX + 1])
{
    if (topic.len <= JOB_ID_BYTES_MAX)
        return topic;
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "hash:%016" PRIx64, hash_64(topic.at, topic.len));
    return slice_make(out, (size_t)len);
}

/* Schedules a control job for the topic. */
static void control_want(struct dead_letter_worker *worker, struct dead_letter_topic *topic)
{
    if (list_is_empty(&topic->wanted))
        list_add_last(&worker->wanted, &topic->wanted);
}

struct control_push { /* in progress */
    struct dead_letter_worker *worker;
    struct dead_letter_topic *topic;
};

static void on_control_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct control_push *push = owner;
    struct dead_letter_worker *worker = push->worker;
    struct dead_letter_topic *topic = push->topic;
    (void)tag;
    free(push);
    dead_letter_replied(worker);
    topic->is_pushing = false;
    /* Push another one, because the current pass may have read the dead jobs before. */
    if (!dead_letter_is_pushed(reply) && topic->has_rules)
        control_want(worker, topic);
    if (!list_is_empty(&topic->wanted))
        worker_wake_by(worker, topic->is_out ? topic->push_ms : clock_inner_ms());
    dead_letter_check_stopped(worker);
}

static void control_push(struct dead_letter_worker *worker, struct dead_letter_topic *topic)
{
    char id[JOB_ID_BYTES_MAX + 1];
    struct control_push *under_way = malloc(sizeof *under_way);
    if (!under_way) {
        worker_wake_by(worker, topic->push_ms);
        return;
    }
    *under_way = (struct control_push){.worker = worker, .topic = topic};
    struct queue_push push = {.topic = slice_of(DEAD_LETTER_TOPIC),
                              .is_own = true,
                              .id = control_id(topic->entry.key, id),
                              .content_type = slice_of("text/plain"),
                              .body = topic->entry.key,
                              .when = {.due = QUEUE_DUE_NOW},
                              .priority = QUEUE_PRIORITY_UNSET,
                              .on_conflict = CONFLICT_REPLACE,
                              .policy = {.max_attempts = CONTROL_ATTEMPTS,
                                         .backoff = {.kind = BACKOFF_EXPONENTIAL,
                                                     .first_ms = CONTROL_BACKOFF_MS,
                                                     .max_ms = CONTROL_BACKOFF_MS_MAX}}};
    list_remove(&topic->wanted);
    topic->is_pushing = true;
    worker->calls++;
    queue_push(worker->options.queue, &push, 1,
               (struct queue_reply_to){.done = on_control_pushed, .owner = under_way});
}

/* Pushes the control jobs that are due, one after another. */
static void controls_push(struct dead_letter_worker *worker)
{
    int64_t now_ms = clock_inner_ms();
    for (struct list *at = worker->wanted.next, *next; at != &worker->wanted; at = next) {
        struct dead_letter_topic *topic = list_entry(at, struct dead_letter_topic, wanted);
        next = at->next;
        if (topic->is_pushing || worker->is_stopping)
            continue;
        if (topic->is_out && topic->push_ms > now_ms) {
            worker_wake_by(worker, topic->push_ms);
            continue;
        }
        topic->is_out = true;
        topic->push_ms = now_ms + CONTROL_MS;
        control_push(worker, topic);
    }
}

static void on_pass_ended(struct dead_letter_worker *worker)
{
    controls_push(worker);
    worker_take(worker);
}

/* ---- the topic for callbacks ---- */

static void on_callbacks_put(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    dead_letter_replied(worker);
    worker->asks_callbacks = false;
    worker->has_callbacks = reply->status == QUEUE_OK || reply->status == QUEUE_CREATED;
    if (!worker->has_callbacks)
        worker_wake_by(worker, clock_inner_ms() + RETRY_MS);
    dead_letter_check_stopped(worker);
}

/* Creates or updates the topic. `there` is its current state, or NULL. Its settings for dead
 * letters and attempts are preserved. */
static void callbacks_put(struct dead_letter_worker *worker, const struct queue_topic *there,
                          const struct extension *settings)
{
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT,
                                   .topic = slice_of(DEAD_LETTER_CALLBACKS_TOPIC)};
    struct buffer text;
    buffer_init(&text, TOPIC_EXTENSION_BYTES_MAX);
    buffer_append_text(&text, "{\"deliver\":{\"callback\":true}");
    if (settings->dead_letter.len) {
        buffer_append_text(&text, ",\"dead_letter\":");
        buffer_append_slice(&text, settings->dead_letter);
    }
    buffer_append_byte(&text, '}');
    if (there)
        put.settings = there->settings;
    if (!put.settings.dedup_window_ms)
        put.settings.dedup_window_ms = CALLBACKS_DEDUP_MS;
    put.settings.extension = buffer_slice(&text);
    worker->asks_callbacks = !text.failed;
    if (text.failed)
        worker_wake_by(worker, clock_inner_ms() + RETRY_MS);
    else
        queue_topic(worker->options.queue, &put, dead_letter_reply_to(worker, on_callbacks_put));
    buffer_fini(&text);
}

/* Preserves the delivery settings that a user has made. */
static void on_callbacks_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    const struct queue_topic *there = reply->topic_count == 1 ? reply->topics : NULL;
    struct extension settings = {0};
    char error[DELIVER_ERROR_BYTES];
    (void)tag;
    dead_letter_replied(worker);
    worker->asks_callbacks = false;
    if (there && !extension_parse(there->settings.extension, &settings, error))
        settings = (struct extension){0};
    if (reply->status == QUEUE_OK && settings.deliver.len)
        worker->has_callbacks = true;
    else if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        callbacks_put(worker, there, &settings);
    else
        worker_wake_by(worker, clock_inner_ms() + RETRY_MS);
    dead_letter_check_stopped(worker);
}

/* Ensures that DEAD_LETTER_CALLBACKS_TOPIC exists. */
static void callbacks_need(struct dead_letter_worker *worker)
{
    worker->wants_callbacks = true;
    if (worker->has_callbacks || worker->asks_callbacks || worker->is_stopping)
        return;
    worker->asks_callbacks = true;
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET,
                                   .topic = slice_of(DEAD_LETTER_CALLBACKS_TOPIC)};
    queue_topic(worker->options.queue, &get, dead_letter_reply_to(worker, on_callbacks_seen));
}

/* ---- topics ---- */

/* Shows the topic in metrics by name, if there is room. */
static void topic_show(struct dead_letter_worker *worker, struct dead_letter_topic *topic)
{
    topic->tally = &worker->others;
    if (worker->shown_count == worker->options.topics_max) {
        worker->has_others = true;
        return;
    }
    topic->tally = &topic->own;
    list_add_last(&worker->shown, &topic->shown);
    worker->shown_count++;
}

static struct dead_letter_topic *topic_add(struct dead_letter_worker *worker, struct slice name)
{
    struct dead_letter_topic *topic = calloc(1, sizeof *topic);
    if (topic)
        topic->name = strndup(name.at, name.len);
    if (!topic || !topic->name) {
        free(topic);
        log_event(LOG_ERROR, "dead letters not processed", LOG_TEXT("error", "out of memory"));
        return NULL;
    }
    topic->entry.key = slice_of(topic->name);
    list_init(&topic->wanted);
    list_init(&topic->shown);
    pthread_mutex_lock(&worker->lock);
    dead_letter_topics_add(&worker->topics, topic);
    topic_show(worker, topic);
    pthread_mutex_unlock(&worker->lock);
    return topic;
}

static bool worker_needs_callbacks(const struct dead_letter_worker *worker)
{
    const struct dead_letter_topic *at = dead_letter_topics_first(&worker->topics);
    while (at && !at->needs_callbacks)
        at = dead_letter_topics_next(&worker->topics, at);
    return at;
}

void dead_letter_worker_follow(struct dead_letter_worker *worker, struct slice name,
                               const struct dead_letter *rules)
{
    struct dead_letter_topic *topic = dead_letter_topics_find(&worker->topics, name);
    if (slice_is(name, DEAD_LETTER_CALLBACKS_TOPIC)) { /* it may have been deleted */
        worker->has_callbacks = false;
        worker->wants_callbacks = worker_needs_callbacks(worker);
        if (worker->wants_callbacks)
            callbacks_need(worker);
    }
    if (!rules) {
        if (topic) {
            topic->has_rules = topic->needs_callbacks = false;
            list_remove(&topic->wanted);
        }
        return;
    }
    if (!topic && !(topic = topic_add(worker, name)))
        return;
    topic->has_rules = true;
    topic->needs_callbacks = rules->to_url || rules->alert_to;
    if (topic->needs_callbacks)
        callbacks_need(worker);
    /* New rules also apply to jobs that are already dead. Besides, a crash may have occurred
     * between a death and its control job. */
    control_want(worker, topic);
    controls_push(worker);
    worker_take(worker);
}

void dead_letter_worker_on_dead(struct dead_letter_worker *worker, struct slice name)
{
    struct dead_letter_topic *topic = dead_letter_topics_find(&worker->topics, name);
    if (topic && topic->has_rules)
        control_want(worker, topic);
    struct dead_letter_topic *at = name.len ? NULL : dead_letter_topics_first(&worker->topics);
    for (; at; at = dead_letter_topics_next(&worker->topics, at))
        if (at->has_rules)
            control_want(worker, at);
    controls_push(worker);
}

/* ---- life ---- */

static void run_stopped(struct iteration_end_call *call)
{
    struct dead_letter_worker *worker = list_entry(call, struct dead_letter_worker, stop_call);
    void (*stopped)(void *ctx) = worker->stopped;
    worker->stopped = NULL;
    if (stopped)
        stopped(worker->stopped_ctx);
}

static void on_alarm(void *ctx)
{
    struct dead_letter_worker *worker = ctx;
    if (worker->is_stopping)
        return;
    worker->alarm_ms = INT64_MAX;
    if (worker->wants_callbacks)
        callbacks_need(worker);
    controls_push(worker);
    worker_take(worker);
}

struct dead_letter_worker *dead_letter_worker_new(const struct dead_letter_worker_options *options)
{
    struct dead_letter_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    list_init(&worker->shown);
    worker->options = *options;
    worker->alarm_ms = INT64_MAX;
    worker->alarm = deadline_new(options->reactor, on_alarm, worker);
    if (!worker->alarm) {
        free(worker);
        return NULL;
    }
    worker->pass_ended = on_pass_ended;
    list_init(&worker->wanted);
    list_init(&worker->alert_runs.list);
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
    dead_letter_alert_stop(worker);
    dead_letter_check_stopped(worker);
}

void dead_letter_worker_free(struct dead_letter_worker *worker)
{
    if (!worker)
        return;
    reactor_cancel_at_iteration_end(&worker->stop_call);
    deadline_free(worker->alarm);
    dead_letter_fini(&worker->pass.rules);
    free(worker->pass.step);
    struct dead_letter_topic *topic;
    while ((topic = dead_letter_topics_first(&worker->topics))) {
        dead_letter_topics_remove(&worker->topics, topic);
        free(topic->name);
        free(topic);
    }
    dead_letter_topics_fini(&worker->topics);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
