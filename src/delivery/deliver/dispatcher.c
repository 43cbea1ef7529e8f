#include "deliver/dispatcher.h"

#include "base/clock.h"
#include "base/log.h"
#include "deliver/check.h"
#include "deliver/delivery.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BYTES_MAX = 64 << 20,      /* bodies in flight; one take may exceed it */
    TAKE_WAIT_MS = 3600 * 1000 /* wait time of a take; long, to avoid needless wake-ups */
};

static void dispatcher_wake_by(struct dispatcher *dispatcher, int64_t at_ms)
{
    if (at_ms < dispatcher->wake_ms)
        dispatcher->wake_ms = at_ms;
    dispatchers_wake_by(dispatcher->all, dispatcher->wake_ms);
}

/* ---- taking jobs ---- */

/* Returns true if the jobs took so long to arrive that their leases could end before they are
 * answered. Lease times are based on the queue's clock, which may be that of another machine. So
 * the typical difference between requested and remaining lease time is the clock difference, and
 * anything beyond it is transfer time. */
static bool dispatcher_is_late(struct dispatcher *dispatcher, const struct job *first,
                               int64_t lease_ms)
{
    int64_t lag_ms = lease_ms - (first->lease_until_ms - queue_wall_ms(dispatcher->all->env.queue));
    if (!dispatcher->knows_lag || lag_ms < dispatcher->lag_ms)
        dispatcher->lag_ms = lag_ms;
    else
        dispatcher->lag_ms += (lag_ms - dispatcher->lag_ms + 7) / 8;
    dispatcher->knows_lag = true;
    return lag_ms - dispatcher->lag_ms > DISPATCHER_LEASE_MARGIN_MS * 2 / 3;
}

static void dispatcher_send_all(struct dispatcher *dispatcher, const struct queue_reply *reply)
{
    int64_t lease_ms = dispatcher->setting.timeout_ms + DISPATCHER_LEASE_MARGIN_MS;
    bool is_late =
        reply->job_count > 0 && dispatcher_is_late(dispatcher, &reply->jobs[0].job, lease_ms);
    for (size_t i = 0; i < reply->job_count; i++)
        delivery_begin(dispatcher, &reply->jobs[i], is_late);
    endpoints_flush(dispatcher->all->env.endpoints);
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct dispatcher *dispatcher = owner;
    (void)tag;
    dispatcher->take = 0;
    rate_spend(&dispatcher->rate, (uint32_t)reply->job_count);
    dispatcher_send_all(dispatcher, reply);
    if (refused || reply->status != QUEUE_OK)
        dispatcher_wake_by(dispatcher, clock_inner_ms() + DISPATCHER_RETRY_MS);
    else
        dispatcher_kick(dispatcher);
}

/* Returns the kind of delivery. A topic without its own destination delivers to callbacks. */
static enum job_way dispatcher_way(const struct dispatcher *dispatcher)
{
    const char *to = dispatcher->setting.to;
    return !to || target_find(slice_of(to)) == &target_http ? JOB_WAY_CALLBACK : JOB_WAY_BROKER;
}

static void dispatcher_take(struct dispatcher *dispatcher, uint32_t max, int64_t now_ms)
{
    const struct slice topic = dispatcher->entry.key;
    const struct queue_take call = {.topics = &topic,
                                    .topic_count = 1,
                                    .max = max,
                                    .lease_ms =
                                        dispatcher->setting.timeout_ms + DISPATCHER_LEASE_MARGIN_MS,
                                    .way = dispatcher_way(dispatcher)};
    dispatcher->take = waiter_take(dispatcher->all->env.waiters, &call, TAKE_WAIT_MS, now_ms,
                                   on_taken, dispatcher, 0);
    if (!dispatcher->take)
        dispatcher_wake_by(dispatcher, now_ms + DISPATCHER_RETRY_MS);
}

static void dispatcher_cancel_take(struct dispatcher *dispatcher)
{
    if (dispatcher->take)
        waiter_cancel(dispatcher->all->env.waiters, dispatcher->take);
    dispatcher->take = 0;
}

/* Returns how many of `want` the endpoint accepts now. Only for a dispatcher with a single
 * endpoint: a job taken for a resting endpoint would hold a lease while it waits. */
static uint32_t endpoint_room(struct dispatcher *dispatcher, uint32_t want)
{
    int64_t next_ms = INT64_MAX;
    if (!dispatcher->setting.to || dispatcher->setting.allows_callback)
        return want;
    switch (endpoints_ask(dispatcher->all->env.endpoints, slice_of(dispatcher->endpoint),
                          slice_of(dispatcher->setting.to), &next_ms)) {
    case BREAKER_PASS:
        return want;
    case BREAKER_PROBE:
        return 1;
    case BREAKER_WAIT:
        break;
    }
    if (next_ms != INT64_MAX)
        dispatcher_wake_by(dispatcher,
                           clock_process_ms(dispatcher->all->env.endpoints->clock, next_ms));
    return 0;
}

static uint32_t window_room(const struct dispatcher *dispatcher)
{
    uint32_t max = dispatcher->setting.max_in_flight;
    /* Limits the memory for bodies, and the number of answers that the queue has not accepted. */
    if (dispatcher->in_flight >= max || dispatcher->bytes_in_flight >= BYTES_MAX ||
        dispatcher->unanswered >= dispatcher->in_flight + 2 * QUEUE_BATCH_MAX)
        return 0;
    return max - dispatcher->in_flight < QUEUE_TAKE_MAX ? max - dispatcher->in_flight
                                                        : QUEUE_TAKE_MAX;
}

/* Takes jobs if there is room; called at the end of a loop iteration. */
static void dispatcher_look(struct dispatcher *dispatcher, int64_t now_ms)
{
    dispatcher->wake_ms = INT64_MAX;
    if (!dispatcher->is_on || dispatcher->take ||
        (dispatcher->is_forbidden && !dispatcher->setting.allows_callback))
        return;
    uint32_t room = window_room(dispatcher);
    if (room > 0)
        room = endpoint_room(dispatcher, room);
    if (room == 0)
        return;
    uint32_t free = rate_free(&dispatcher->rate, room, now_ms);
    if (free == 0)
        dispatcher_wake_by(dispatcher, rate_next_ms(&dispatcher->rate));
    else
        dispatcher_take(dispatcher, free, now_ms);
}

/* Reschedules the take after a change of the endpoint or the policy. If the breaker is half-open,
 * the outstanding take is reduced to one probe. If it opened, there is no take. If it closed, jobs
 * are taken again. */
static void dispatcher_reschedule(struct dispatcher *dispatcher)
{
    if (!dispatcher->setting.allows_callback)
        dispatcher_cancel_take(dispatcher);
    dispatcher_kick(dispatcher);
}

static void dispatcher_halt(struct dispatcher *dispatcher)
{
    dispatcher->is_on = false;
    dispatcher_cancel_take(dispatcher);
}

/* ---- settings ---- */

static void dispatcher_log(const struct dispatcher *dispatcher, const char *event)
{
    log_event(LOG_INFO, event, LOG_TEXT("topic", dispatcher->topic),
              LOG_TEXT("endpoint", dispatcher->setting.to ? dispatcher->endpoint : "of each job"),
              LOG_NUMBER("max_in_flight", dispatcher->setting.max_in_flight),
              LOG_NUMBER("timeout_ms", dispatcher->setting.timeout_ms));
}

static void dispatcher_log_off(const struct dispatcher *dispatcher, enum log_level level,
                               const char *error)
{
    log_event(level, "delivery off", LOG_TEXT("topic", dispatcher->topic),
              LOG_TEXT("error", error));
}

/* Checks the policy. It may allow the callbacks of some jobs even if it does not allow the topic's
 * destination. */
static void dispatcher_evaluate(struct dispatcher *dispatcher)
{
    char error[DELIVER_ERROR_BYTES] = "";
    bool was_forbidden = dispatcher->is_forbidden;
    if (!dispatcher->is_on)
        return;
    dispatcher->is_forbidden =
        !check_target_setting(dispatcher->all->env.guard, &dispatcher->setting, error);
    if (dispatcher->is_forbidden)
        log_event(LOG_ERROR, "policy forbids delivery", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", error));
    else if (was_forbidden)
        log_event(LOG_INFO, "policy allows delivery again", LOG_TEXT("topic", dispatcher->topic));
    if (dispatcher->is_forbidden != was_forbidden)
        dispatcher_reschedule(dispatcher);
}

static bool dispatcher_find_endpoint(struct dispatcher *dispatcher)
{
    char error[TARGET_ERROR_BYTES] = "too long";
    struct buffer name;
    dispatcher->endpoint[0] = '\0';
    if (!dispatcher->setting.to)
        return true;
    buffer_init(&name, sizeof dispatcher->endpoint - 1);
    bool ok = target_endpoint(slice_of(dispatcher->setting.to), &name, error) && !name.failed;
    if (ok)
        snprintf(dispatcher->endpoint, sizeof dispatcher->endpoint, "%.*s", (int)name.len, name.at);
    else
        dispatcher_log_off(dispatcher, LOG_ERROR, error);
    buffer_fini(&name);
    return ok;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Shows the dispatcher in metrics from its first delivery setting on, by name if there is room. */
static void dispatcher_show(struct dispatcher *dispatcher)
{
    struct dispatchers *all = dispatcher->all;
    if (dispatcher->is_counted)
        return;
    dispatcher->is_counted = true;
    pthread_mutex_lock(&all->lock);
    if (all->shown_count < lateness_topics_max(all->env.lateness)) {
        dispatcher->tally = &dispatcher->own;
        list_add_last(&all->shown, &dispatcher->shown);
        all->shown_count++;
    } else {
        all->has_others = true;
    }
    pthread_mutex_unlock(&all->lock);
}

/* Applies a setting; NULL means no delivery. Deliveries in progress end with the old setting. */
static void dispatcher_set(struct dispatcher *dispatcher, struct target_setting *setting)
{
    bool was_on = dispatcher->is_on;
    bool same = setting && is_same_text(setting->to, dispatcher->setting.to);
    dispatcher_halt(dispatcher); /* the outstanding take uses the old window and timeout */
    if (was_on && !setting)
        dispatcher_log(dispatcher, "delivery stopped");
    target_setting_fini(&dispatcher->setting);
    dispatcher->setting = setting ? *setting : (struct target_setting){0};
    if (setting) {
        *setting = (struct target_setting){0};
        rate_set(&dispatcher->rate, dispatcher->setting.rate_per_s, clock_inner_ms());
        dispatcher->is_on = dispatcher_find_endpoint(dispatcher);
        dispatcher_show(dispatcher);
        if (dispatcher->is_on && (!was_on || !same))
            dispatcher_log(dispatcher, "delivery started");
        dispatcher_evaluate(dispatcher);
    }
    dispatcher_kick(dispatcher);
}

/* Applies the setting `json`, as in dispatchers_follow; does nothing if the text has not
 * changed. */
static void dispatcher_follow(struct dispatcher *dispatcher, struct slice json)
{
    struct target_setting setting = {0};
    char error[TARGET_ERROR_BYTES] = "";
    uint64_t hash = hash_64(json.at, json.len);
    if (json.len > 0 && dispatcher->setting_bytes == json.len && dispatcher->setting_hash == hash)
        return;
    bool is_on = json.len > 0 && guard_is_on(dispatcher->all->env.guard);
    if (json.len > 0 && !is_on)
        dispatcher_log_off(dispatcher, LOG_WARN,
                           "no policy file, start the server with --deliver FILE");
    if (is_on && !target_setting_parse(json, &setting, error)) {
        dispatcher_log_off(dispatcher, LOG_ERROR, error);
        is_on = false;
    }
    if (is_on || dispatcher->is_on)
        dispatcher_set(dispatcher, is_on ? &setting : NULL);
    target_setting_fini(&setting);
    dispatcher->setting_bytes = json.len;
    dispatcher->setting_hash = hash;
}

/* ---- one dispatcher ---- */

/* Returns NULL when out of memory. */
static struct dispatcher *dispatcher_new(struct dispatchers *all, struct slice topic)
{
    struct dispatcher *dispatcher = calloc(1, sizeof *dispatcher);
    if (dispatcher)
        dispatcher->topic = strndup(topic.at, topic.len);
    if (!dispatcher || !dispatcher->topic) {
        free(dispatcher);
        log_event(LOG_ERROR, "delivery off", LOG_TEXT("error", "out of memory"));
        return NULL;
    }
    dispatcher->all = all;
    dispatcher->entry.key = slice_of(dispatcher->topic);
    dispatcher->wake_ms = INT64_MAX;
    dispatcher->tally = &all->others;
    list_init(&dispatcher->kicked);
    list_init(&dispatcher->shown);
    pthread_mutex_lock(&all->lock);
    dispatcher_table_add(&all->table, dispatcher);
    pthread_mutex_unlock(&all->lock);
    return dispatcher;
}

static bool dispatcher_is_idle(const struct dispatcher *dispatcher)
{
    return !dispatcher->take && dispatcher->unanswered == 0;
}

static void dispatcher_free(struct dispatcher *dispatcher)
{
    struct dispatchers *all = dispatcher->all;
    assert(dispatcher_is_idle(dispatcher));
    pthread_mutex_lock(&all->lock);
    dispatcher_table_remove(&all->table, dispatcher);
    all->shown_count -= !list_is_empty(&dispatcher->shown);
    list_remove(&dispatcher->shown);
    pthread_mutex_unlock(&all->lock);
    list_remove(&dispatcher->kicked);
    target_setting_fini(&dispatcher->setting);
    free(dispatcher->topic);
    free(dispatcher);
}

/* ---- all dispatchers ---- */

static void list_move_all(struct list *from, struct list *to)
{
    while (!list_is_empty(from)) {
        struct list *first = from->next;
        list_remove(first);
        list_add_last(to, first);
    }
}

static struct dispatcher *dispatcher_next(const struct dispatcher *dispatcher)
{
    return dispatcher_table_next(&dispatcher->all->table, dispatcher);
}

static void run_iteration_end(struct iteration_end_call *call)
{
    struct dispatchers *dispatchers = list_entry(call, struct dispatchers, iteration_end);
    /* The queue's hooks handle these calls only in the next loop iteration, so request it
     * immediately. */
    if (!list_is_empty(&dispatchers->answers) || !list_is_empty(&dispatchers->kicked))
        reactor_iterate_again(dispatchers->env.reactor);
    deliveries_answer(dispatchers);
    while (!list_is_empty(&dispatchers->kicked)) {
        struct dispatcher *dispatcher =
            list_entry(dispatchers->kicked.next, struct dispatcher, kicked);
        list_remove(&dispatcher->kicked);
        if (dispatcher->is_gone && dispatcher_is_idle(dispatcher))
            dispatcher_free(dispatcher);
        else
            dispatcher_look(dispatcher, clock_inner_ms());
    }
}

static void on_alarm(void *ctx)
{
    struct dispatchers *dispatchers = ctx;
    int64_t now_ms = clock_inner_ms();
    dispatchers->alarm_ms = INT64_MAX;
    if (dispatchers->again_ms <= now_ms) {
        dispatchers->again_ms = INT64_MAX;
        list_move_all(&dispatchers->again, &dispatchers->answers);
        dispatchers_at_iteration_end(dispatchers);
    }
    dispatchers_wake_by(dispatchers, dispatchers->again_ms);
    for (struct dispatcher *at = dispatcher_table_first(&dispatchers->table); at;
         at = dispatcher_next(at)) {
        if (at->wake_ms <= now_ms)
            dispatcher_kick(at);
        else
            dispatchers_wake_by(dispatchers, at->wake_ms);
    }
}

/* Reschedules the dispatchers that use the endpoint. */
static void on_endpoint_changed(void *owner, struct endpoint *endpoint)
{
    struct dispatchers *dispatchers = owner;
    for (struct dispatcher *at = dispatcher_table_first(&dispatchers->table); at;
         at = dispatcher_next(at))
        if (at->is_on && strcmp(at->endpoint, endpoint->name) == 0)
            dispatcher_reschedule(at);
}

bool dispatchers_init(struct dispatchers *dispatchers, const struct dispatchers_env *env)
{
    *dispatchers = (struct dispatchers){.env = *env,
                                        .iteration_end.run = run_iteration_end,
                                        .alarm_ms = INT64_MAX,
                                        .again_ms = INT64_MAX};
    list_init(&dispatchers->iteration_end.list);
    list_init(&dispatchers->kicked);
    list_init(&dispatchers->shown);
    list_init(&dispatchers->answers);
    list_init(&dispatchers->again);
    pthread_mutex_init(&dispatchers->lock, NULL);
    env->endpoints->changed = on_endpoint_changed;
    env->endpoints->owner = dispatchers;
    dispatchers->alarm = deadline_new(env->reactor, on_alarm, dispatchers);
    return dispatchers->alarm != NULL;
}

void dispatchers_fini(struct dispatchers *dispatchers)
{
    struct dispatcher *dispatcher;
    reactor_cancel_at_iteration_end(&dispatchers->iteration_end);
    deliveries_forget(&dispatchers->answers);
    deliveries_forget(&dispatchers->again);
    while ((dispatcher = dispatcher_table_first(&dispatchers->table))) {
        dispatcher_halt(dispatcher);
        dispatcher_free(dispatcher);
    }
    dispatcher_table_fini(&dispatchers->table);
    deadline_free(dispatchers->alarm);
    pthread_mutex_destroy(&dispatchers->lock);
}

struct dispatcher *dispatchers_follow(struct dispatchers *dispatchers, struct slice topic,
                                      struct slice json, bool is_gone)
{
    struct dispatcher *dispatcher = dispatcher_table_find(&dispatchers->table, topic);
    if (!dispatcher && (is_gone || !(dispatcher = dispatcher_new(dispatchers, topic))))
        return NULL;
    dispatcher->is_gone = is_gone;
    dispatcher_follow(dispatcher, json);
    if (is_gone)
        dispatcher_kick(dispatcher);
    return dispatcher;
}

void dispatchers_evaluate(struct dispatchers *dispatchers)
{
    for (struct dispatcher *at = dispatcher_table_first(&dispatchers->table); at;
         at = dispatcher_next(at))
        dispatcher_evaluate(at);
}

void dispatchers_look_again(struct dispatchers *dispatchers)
{
    for (struct dispatcher *at = dispatcher_table_first(&dispatchers->table); at;
         at = dispatcher_next(at))
        dispatcher_kick(at);
}

void dispatchers_halt(struct dispatchers *dispatchers)
{
    for (struct dispatcher *at = dispatcher_table_first(&dispatchers->table); at;
         at = dispatcher_next(at))
        dispatcher_halt(at);
}
