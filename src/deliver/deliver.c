#include "deliver/deliver.h"

#include "base/clock.h"
#include "base/log.h"
#include "deliver/private.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the end of a turn ---- */

static void drop_dispatcher(struct deliver *deliver, struct dispatcher *dispatcher)
{
    pthread_mutex_lock(&deliver->lock);
    table_remove(&deliver->dispatchers, &dispatcher->entry);
    pthread_mutex_unlock(&deliver->lock);
    dispatcher_free(dispatcher);
}

static void look(struct deliver *deliver, struct dispatcher *dispatcher, int64_t now_ms)
{
    list_remove(&dispatcher->kicked);
    if (dispatcher->is_gone && dispatcher_is_idle(dispatcher))
        drop_dispatcher(deliver, dispatcher);
    else
        dispatcher_look(dispatcher, now_ms);
}

static void run_turn_end(struct turn_end_call *call)
{
    struct deliver *deliver = list_entry(call, struct deliver, turn_end);
    /* What the queue is asked here its own hooks look at in the next turn only: it comes at once.
     */
    if (!list_is_empty(&deliver->answers) || !list_is_empty(&deliver->kicked))
        reactor_turn_again(deliver->options.reactor);
    answers_flush(deliver);
    while (!list_is_empty(&deliver->kicked))
        look(deliver, list_entry(deliver->kicked.next, struct dispatcher, kicked),
             clock_inner_ms());
    deliver_check_stopped(deliver);
}

void deliver_at_turn_end(struct deliver *deliver)
{
    if (!deliver->is_ending)
        reactor_once_at_turn_end(deliver->options.reactor, &deliver->turn_end);
}

void deliver_kick(struct deliver *deliver, struct dispatcher *dispatcher)
{
    list_remove(&dispatcher->kicked);
    list_add_last(&deliver->kicked, &dispatcher->kicked);
    deliver_at_turn_end(deliver);
}

/* ---- the alarm ---- */

void deliver_wake_by(struct deliver *deliver, int64_t at_ms)
{
    if (at_ms >= deliver->alarm_ms)
        return;
    deliver->alarm_ms = at_ms;
    deadline_set(deliver->alarm, at_ms);
}

static void wake_dispatchers(struct deliver *deliver, int64_t now_ms)
{
    for (size_t i = 0; i < TABLE_BUCKETS; i++)
        for (struct table_entry *entry = deliver->dispatchers.buckets[i]; entry;
             entry = entry->next) {
            struct dispatcher *dispatcher = (struct dispatcher *)entry;
            if (dispatcher->wake_ms <= now_ms)
                deliver_kick(deliver, dispatcher);
            else
                deliver_wake_by(deliver, dispatcher->wake_ms);
        }
}

static void close_all(struct deliver *deliver)
{
    if (deliver->is_closing)
        return;
    deliver->is_closing = true;
    deliver->endpoints_closed = !endpoints_close_all(&deliver->endpoints);
    deliver_check_stopped(deliver);
}

static void on_alarm(void *ctx)
{
    struct deliver *deliver = ctx;
    int64_t now_ms = clock_inner_ms();
    deliver->alarm_ms = INT64_MAX;
    if (deliver->again_ms <= now_ms)
        answers_again(deliver);
    deliver_wake_by(deliver, deliver->again_ms);
    if (deliver->follow_ms <= now_ms) {
        deliver->follow_ms = INT64_MAX;
        follow_next(deliver);
    }
    deliver_wake_by(deliver, deliver->follow_ms);
    wake_dispatchers(deliver, now_ms);
    if (deliver->patience_ms <= now_ms) {
        deliver->patience_ms = INT64_MAX;
        log_event(LOG_WARN, "deliveries given up", LOG_TEXT("reason", "stopping"));
        close_all(deliver);
    }
    deliver_wake_by(deliver, deliver->patience_ms);
}

/* ---- what others tell ---- */

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct deliver *deliver = owner;
    if (!deliver->has_started || deliver->is_stopping)
        return;
    if (event == QUEUE_EVENT_TOPIC)
        follow_topic(deliver, topic);
    else
        dead_letter_worker_on_dead(deliver->worker, topic);
}

/* Dispatchers that wait for it. */
static void on_changed(void *owner, struct endpoint *endpoint)
{
    struct deliver *deliver = owner;
    for (size_t i = 0; i < TABLE_BUCKETS; i++)
        for (struct table_entry *entry = deliver->dispatchers.buckets[i]; entry;
             entry = entry->next) {
            struct dispatcher *dispatcher = (struct dispatcher *)entry;
            if (dispatcher->is_on && strcmp(dispatcher->endpoint, endpoint->name) == 0)
                dispatcher_reschedule(dispatcher);
        }
}

/* ---- life ---- */

static struct deliver *make(const struct deliver_options *options)
{
    struct deliver *deliver = calloc(1, sizeof(*deliver));
    if (!deliver)
        return NULL;
    deliver->options = *options;
    deliver->turn_end.run = run_turn_end;
    list_init(&deliver->turn_end.list);
    list_init(&deliver->kicked);
    list_init(&deliver->answers);
    list_init(&deliver->again);
    list_init(&deliver->names);
    deliver->alarm_ms = deliver->again_ms = deliver->follow_ms = INT64_MAX;
    deliver->patience_ms = INT64_MAX;
    pthread_mutex_init(&deliver->lock, NULL);
    return deliver;
}

struct deliver *deliver_new(const struct deliver_options *options)
{
    struct deliver *deliver = make(options);
    if (!deliver)
        return NULL;
    const struct dead_letter_worker_options worker = {.reactor = options->reactor,
                                                      .queue = options->queue,
                                                      .waiters = options->waiters,
                                                      .guard = options->guard};
    deliver->alarm = deadline_new(options->reactor, on_alarm, deliver);
    deliver->resolver = resolver_new(options->reactor, options->guard);
    deliver->worker = dead_letter_worker_new(&worker);
    const struct target_env env = {.reactor = options->reactor,
                                   .guard = options->guard,
                                   .resolver = deliver->resolver,
                                   .store_name = options->store_name,
                                   .store = options->store,
                                   .version = options->version};
    if (!deliver->alarm || !deliver->resolver || !deliver->worker ||
        !endpoints_init(&deliver->endpoints, &env)) {
        deliver_free(deliver);
        return NULL;
    }
    deliver->endpoints.changed = on_changed;
    deliver->endpoints.owner = deliver;
    options->queue->on_event = on_event;
    options->queue->on_event_owner = deliver;
    return deliver;
}

void deliver_start(struct deliver *deliver)
{
    deliver->has_started = true;
    follow_topic(deliver, slice_make(NULL, 0));
}

void deliver_judge_all(struct deliver *deliver)
{
    for (size_t i = 0; i < TABLE_BUCKETS; i++)
        for (struct table_entry *entry = deliver->dispatchers.buckets[i]; entry;
             entry = entry->next)
            dispatcher_judge((struct dispatcher *)entry);
}

static void free_deliveries(struct list *deliveries)
{
    while (!list_is_empty(deliveries)) {
        struct delivery *delivery = list_entry(deliveries->next, struct delivery, list);
        list_remove(&delivery->list);
        delivery->dispatcher->unanswered--;
        free(delivery);
    }
}

static void free_dispatchers(struct deliver *deliver)
{
    for (size_t i = 0; i < TABLE_BUCKETS; i++)
        while (deliver->dispatchers.buckets[i]) {
            struct dispatcher *dispatcher = (struct dispatcher *)deliver->dispatchers.buckets[i];
            dispatcher_halt(dispatcher);
            drop_dispatcher(deliver, dispatcher);
        }
}

void deliver_free(struct deliver *deliver)
{
    if (!deliver)
        return;
    deliver->is_stopping = deliver->is_closing = deliver->is_ending = true;
    deliver->options.queue->on_event = NULL;
    reactor_cancel_at_turn_end(&deliver->turn_end);
    endpoints_fini(&deliver->endpoints);
    free_deliveries(&deliver->answers);
    free_deliveries(&deliver->again);
    free_dispatchers(deliver);
    follow_forget(deliver);
    dead_letter_worker_free(deliver->worker);
    resolver_free(deliver->resolver);
    deadline_free(deliver->alarm);
    pthread_mutex_destroy(&deliver->lock);
    free(deliver);
}

/* ---- stopping ---- */

static bool has_deliveries(const struct deliver *deliver)
{
    for (size_t i = 0; i < TABLE_BUCKETS; i++)
        for (struct table_entry *entry = deliver->dispatchers.buckets[i]; entry;
             entry = entry->next)
            if (!dispatcher_is_idle((struct dispatcher *)entry))
                return true;
    return false;
}

void deliver_check_stopped(struct deliver *deliver)
{
    if (!deliver->is_stopping || deliver->has_stopped)
        return;
    if (deliver->samples > 0 || deliver->answering > 0 || deliver->is_following ||
        has_deliveries(deliver))
        return;
    if (!deliver->is_closing) {
        close_all(deliver);
        return;
    }
    if (!deliver->endpoints_closed || !deliver->dead_letter_worker_stopped)
        return;
    deliver->has_stopped = true;
    deadline_set(deliver->alarm, INT64_MAX);
    deliver->stopped(deliver->stopped_ctx);
}

static void on_closed(void *owner)
{
    struct deliver *deliver = owner;
    deliver->endpoints_closed = true;
    deliver_check_stopped(deliver);
}

static void on_keeper_stopped(void *ctx)
{
    struct deliver *deliver = ctx;
    deliver->dead_letter_worker_stopped = true;
    deliver_check_stopped(deliver);
}

void deliver_stop(struct deliver *deliver, int64_t patience_ms, void (*stopped)(void *ctx),
                  void *ctx)
{
    assert(!deliver->is_stopping);
    deliver->is_stopping = true;
    deliver->stopped = stopped;
    deliver->stopped_ctx = ctx;
    deliver->endpoints.closed = on_closed;
    deliver->patience_ms = clock_inner_ms() + patience_ms;
    for (size_t i = 0; i < TABLE_BUCKETS; i++)
        for (struct table_entry *entry = deliver->dispatchers.buckets[i]; entry;
             entry = entry->next)
            dispatcher_halt((struct dispatcher *)entry);
    dead_letter_worker_stop(deliver->worker, on_keeper_stopped, deliver);
    deliver_wake_by(deliver, deliver->patience_ms);
    deliver_at_turn_end(deliver);
}
