#include "deliver/deliver.h"

#include "base/clock.h"
#include "base/log.h"
#include "deliver/check.h"
#include "deliver/state.h"

#include <assert.h>
#include <stdlib.h>

enum { FOLLOW_NAMES_MAX = 256, FOLLOW_AGAIN_MS = 1000 };

struct follow_name { /* a topic to read */
    struct list list;
    size_t len;
    char name[];
};

/* ---- following: pass a topic's extension to its dispatcher and to the worker ---- */

static void follow_dead_letter(struct deliver *deliver, struct slice topic, struct slice json)
{
    struct dead_letter rules = {0};
    char name[JOB_TOPIC_BYTES_MAX + 1], error[DELIVER_ERROR_BYTES] = "";
    bool has_rules = json.len > 0 && dead_letter_parse(json, &rules, error);
    if (json.len > 0 && !has_rules) {
        snprintf(name, sizeof name, "%.*s", (int)topic.len, topic.at);
        log_event(LOG_ERROR, "dead letters not processed", LOG_TEXT("topic", name),
                  LOG_TEXT("error", error));
    }
    dead_letter_worker_follow(deliver->worker, topic, has_rules ? &rules : NULL);
    dead_letter_fini(&rules);
}

/* Applies the topic's extension `text`; empty if it has no extension or was deleted. */
static void follow_topic(struct deliver *deliver, struct slice topic, struct slice text)
{
    struct extension extension;
    char error[DELIVER_ERROR_BYTES];
    bool is_understood = extension_parse(text, &extension, error);
    if (!is_understood)
        extension = (struct extension){0};
    struct dispatcher *dispatcher =
        dispatchers_follow(&deliver->dispatchers, topic, extension.deliver, text.len == 0);
    if (!dispatcher)
        return;
    if (!is_understood)
        log_event(LOG_ERROR, "invalid settings", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", error));
    dispatcher->seen = deliver->look;
    follow_dead_letter(deliver, dispatcher->entry.key, extension.dead_letter);
}

static void follow_next(struct deliver *deliver);

static void on_followed(struct deliver *deliver)
{
    deliver->is_following = false;
    follow_next(deliver);
    deliver_check_stopped(deliver);
}

static void follow_all_later(struct deliver *deliver)
{
    deliver->follows_all = deliver->follow_rests = true;
    deadline_set(deliver->follow_alarm, clock_inner_ms() + FOLLOW_AGAIN_MS);
}

static void on_follow_alarm(void *ctx)
{
    struct deliver *deliver = ctx;
    deliver->follow_rests = false;
    follow_next(deliver);
}

static struct follow_name *first_name(const struct deliver *deliver)
{
    return list_entry(deliver->names.next, struct follow_name, list);
}

static void follow_name_drop(struct deliver *deliver, struct follow_name *name)
{
    list_remove(&name->list);
    deliver->name_count--;
    free(name);
}

static void forget_names(struct deliver *deliver)
{
    while (!list_is_empty(&deliver->names))
        follow_name_drop(deliver, first_name(deliver));
}

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct deliver *deliver = owner;
    struct follow_name *name = first_name(deliver);
    struct slice topic = slice_make(name->name, name->len);
    (void)tag;
    if (deliver->is_stopping)
        ;
    else if (reply->status == QUEUE_OK && reply->topic_count == 1)
        follow_topic(deliver, topic, reply->topics[0].settings.extension);
    else if (reply->status == QUEUE_NOT_FOUND || reply->status == QUEUE_BAD_TOPIC)
        follow_topic(deliver, topic, slice_make(NULL, 0));
    else
        follow_all_later(deliver);
    follow_name_drop(deliver, name);
    on_followed(deliver);
}

/* Removes the extension of topics that were not found in this scan of all topics. */
static void follow_gone(struct deliver *deliver)
{
    const struct dispatcher_table *table = &deliver->dispatchers.table;
    for (struct dispatcher *at = dispatcher_table_first(table); at;
         at = dispatcher_table_next(table, at))
        if (at->seen != deliver->look)
            follow_topic(deliver, at->entry.key, slice_make(NULL, 0));
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct deliver *deliver = owner;
    (void)tag;
    if (reply->status == QUEUE_OK && !deliver->is_stopping) {
        deliver->look++;
        for (size_t i = 0; i < reply->topic_count; i++)
            follow_topic(deliver, reply->topics[i].name, reply->topics[i].settings.extension);
        follow_gone(deliver);
    } else if (!deliver->is_stopping) {
        follow_all_later(deliver);
    }
    on_followed(deliver);
}

/* Makes the next call. Only one call is in progress at a time, so answers never arrive out of
 * order. */
static void follow_next(struct deliver *deliver)
{
    struct queue *queue = deliver->options.queue;
    if (deliver->is_following || deliver->is_stopping || !deliver->has_started)
        return;
    if (deliver->follows_all && !deliver->follow_rests) {
        deliver->is_following = true;
        deliver->follows_all = false;
        forget_names(deliver);
        queue_topics(queue, (struct queue_reply_to){.done = on_topics, .owner = deliver});
    } else if (!list_is_empty(&deliver->names)) {
        const struct follow_name *name = first_name(deliver);
        struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET,
                                        .topic = slice_make(name->name, name->len)};
        deliver->is_following = true;
        queue_topic(queue, &call, (struct queue_reply_to){.done = on_topic, .owner = deliver});
    }
}

/* Returns true if the topic will be read anyway. The first name does not count while a call is in
 * progress, because the topic may have changed since. */
static bool is_listed(const struct deliver *deliver, struct slice topic)
{
    const struct list *first = deliver->names.next;
    for (const struct list *at = deliver->is_following ? first->next : first; at != &deliver->names;
         at = at->next) {
        const struct follow_name *name = list_entry(at, struct follow_name, list);
        if (slice_equals(slice_make(name->name, name->len), topic))
            return true;
    }
    return false;
}

/* Records that the topic's settings changed; an empty name means that any topic may have
 * changed. */
static void follow_changed(struct deliver *deliver, struct slice topic)
{
    struct follow_name *name = NULL;
    if (topic.len > 0 && is_listed(deliver, topic))
        return;
    if (topic.len > 0 && deliver->name_count < FOLLOW_NAMES_MAX)
        name = malloc(sizeof *name + topic.len);
    if (name) {
        name->len = topic.len;
        memcpy(name->name, topic.at, topic.len);
        list_add_last(&deliver->names, &name->list);
        deliver->name_count++;
    } else {
        deliver->follows_all = true;
    }
    follow_next(deliver);
}

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct deliver *deliver = owner;
    if (!deliver->has_started || deliver->is_stopping)
        return;
    if (event == QUEUE_EVENT_TOPIC)
        follow_changed(deliver, topic);
    else
        dead_letter_worker_on_dead(deliver->worker, topic);
}

void deliver_evaluate_all(struct deliver *deliver)
{
    dispatchers_evaluate(&deliver->dispatchers);
}

/* ---- stopping: take no more jobs, end deliveries, close the endpoints ---- */

static void on_endpoints_closed(void *ctx)
{
    struct deliver *deliver = ctx;
    deliver->endpoints_closed = true;
    deliver_check_stopped(deliver);
}

static void close_endpoints(struct deliver *deliver)
{
    if (deliver->endpoints.is_closing)
        return;
    if (!endpoints_close_all(&deliver->endpoints, on_endpoints_closed, deliver))
        on_endpoints_closed(deliver);
}

static void on_timeout(void *ctx)
{
    struct deliver *deliver = ctx;
    log_event(LOG_WARN, "deliveries abandoned", LOG_TEXT("reason", "stopping"));
    close_endpoints(deliver);
}

static void run_check_stopped(struct iteration_end_call *call)
{
    struct deliver *deliver = list_entry(call, struct deliver, stop_call);
    if (deliver->has_stopped || deliver->samples > 0 || deliver->is_following ||
        !dispatchers_are_idle(&deliver->dispatchers))
        return;
    close_endpoints(deliver);
    if (!deliver->endpoints_closed || !deliver->worker_stopped)
        return;
    deliver->has_stopped = true;
    deadline_set(deliver->timeout, INT64_MAX);
    deliver->stopped(deliver->stopped_ctx);
}

static void on_answered(void *owner)
{
    deliver_check_stopped(owner);
}

static void on_worker_stopped(void *ctx)
{
    struct deliver *deliver = ctx;
    deliver->worker_stopped = true;
    deliver_check_stopped(deliver);
}

void deliver_stop(struct deliver *deliver, int64_t timeout_ms, void (*stopped)(void *ctx),
                  void *ctx)
{
    assert(!deliver->is_stopping);
    deliver->is_stopping = true;
    deliver->stopped = stopped;
    deliver->stopped_ctx = ctx;
    dispatchers_halt(&deliver->dispatchers);
    dead_letter_worker_stop(deliver->worker, on_worker_stopped, deliver);
    deadline_set(deliver->timeout, clock_inner_ms() + timeout_ms);
    deliver_check_stopped(deliver);
}

/* ---- life ---- */

static struct deliver *deliver_make(const struct deliver_options *options)
{
    struct deliver *deliver = calloc(1, sizeof *deliver);
    if (!deliver)
        return NULL;
    deliver->options = *options;
    deliver->stop_call.run = run_check_stopped;
    list_init(&deliver->stop_call.list);
    list_init(&deliver->names);
    return deliver;
}

static bool deliver_make_parts(struct deliver *deliver)
{
    const struct deliver_options *options = &deliver->options;
    const struct dead_letter_worker_options worker = {.reactor = options->reactor,
                                                      .queue = options->queue,
                                                      .waiters = options->waiters,
                                                      .guard = options->guard,
                                                      .topics_max =
                                                          lateness_topics_max(options->lateness)};
    const struct dispatchers_env dispatchers = {.reactor = options->reactor,
                                                .queue = options->queue,
                                                .waiters = options->waiters,
                                                .guard = options->guard,
                                                .lateness = options->lateness,
                                                .endpoints = &deliver->endpoints,
                                                .tracer = options->tracer,
                                                .answered = on_answered,
                                                .owner = deliver};
    deliver->follow_alarm = deadline_new(options->reactor, on_follow_alarm, deliver);
    deliver->timeout = deadline_new(options->reactor, on_timeout, deliver);
    deliver->resolver = resolver_new(options->reactor, options->guard);
    deliver->worker = dead_letter_worker_new(&worker);
    const struct target_env targets = {.reactor = options->reactor,
                                       .guard = options->guard,
                                       .resolver = deliver->resolver,
                                       .store_name = options->store_name,
                                       .store = options->store,
                                       .version = options->version,
                                       .result_bytes_max = options->result_bytes_max};
    bool has_endpoints = endpoints_init(&deliver->endpoints, &targets);
    if (options->queue->clock)
        deliver->endpoints.clock = options->queue->clock;
    return dispatchers_init(&deliver->dispatchers, &dispatchers) && has_endpoints &&
           deliver->follow_alarm && deliver->timeout && deliver->resolver && deliver->worker;
}

int64_t deliver_next_ms(const struct deliver *deliver)
{
    return endpoints_next_ms(&deliver->endpoints);
}

void deliver_clock_moved(struct deliver *deliver)
{
    dispatchers_look_again(&deliver->dispatchers);
}

void deliver_clock_reset(struct deliver *deliver)
{
    endpoints_forgive(&deliver->endpoints);
}

struct deliver *deliver_new(const struct deliver_options *options)
{
    struct deliver *deliver = deliver_make(options);
    if (!deliver)
        return NULL;
    if (!deliver_make_parts(deliver)) {
        deliver_free(deliver);
        return NULL;
    }
    options->queue->on_event = on_event;
    options->queue->on_event_owner = deliver;
    return deliver;
}

void deliver_start(struct deliver *deliver)
{
    deliver->has_started = true;
    follow_changed(deliver, slice_make(NULL, 0));
}

void deliver_free(struct deliver *deliver)
{
    if (!deliver)
        return;
    deliver->is_stopping = deliver->dispatchers.is_ending = true;
    deliver->options.queue->on_event = NULL;
    reactor_cancel_at_iteration_end(&deliver->stop_call);
    endpoints_fini(&deliver->endpoints);
    dispatchers_fini(&deliver->dispatchers);
    forget_names(deliver);
    dead_letter_worker_free(deliver->worker);
    resolver_free(deliver->resolver);
    deadline_free(deliver->timeout);
    deadline_free(deliver->follow_alarm);
    free(deliver);
}
