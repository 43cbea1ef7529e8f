#include "deliver/dispatcher.h"

#include "base/clock.h"
#include "base/log.h"
#include "deliver/private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- taking ---- */

/* Did the jobs take so long to come here that their leases could end before they are answered?
 * Leases are told by the queue's clock, which may be another machine's: what they usually lack is
 * the difference of the clocks, what they lack beyond is the time under way. */
static bool is_stale(struct dispatcher *dispatcher, const struct job *first, int64_t lease_ms)
{
    int64_t lag_ms = lease_ms - (first->lease_until_ms - clock_wall_ms());
    if (!dispatcher->knows_lag || lag_ms < dispatcher->lag_ms)
        dispatcher->lag_ms = lag_ms;
    else
        dispatcher->lag_ms += (lag_ms - dispatcher->lag_ms + 7) / 8;
    dispatcher->knows_lag = true;
    return lag_ms - dispatcher->lag_ms > DISPATCHER_LEASE_MARGIN_MS * 2 / 3;
}

static void wake_by(struct dispatcher *dispatcher, int64_t at_ms)
{
    if (at_ms < dispatcher->wake_ms)
        dispatcher->wake_ms = at_ms;
    deliver_wake_by(dispatcher->deliver, dispatcher->wake_ms);
}

static void send_all(struct dispatcher *dispatcher, const struct queue_reply *reply)
{
    int64_t lease_ms = dispatcher->setting.timeout_ms + DISPATCHER_LEASE_MARGIN_MS;
    bool stale = reply->job_count > 0 && is_stale(dispatcher, &reply->jobs[0].job, lease_ms);
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct queue_job *taken = &reply->jobs[i];
        struct delivery *delivery = delivery_new(dispatcher, taken);
        if (!delivery)
            continue; /* its lease ends: nothing can be done without memory */
        if (!dispatcher->is_on)
            delivery_return(delivery, DISPATCHER_RETURN_STOPPING, 0);
        else if (stale)
            delivery_return(delivery, DISPATCHER_RETURN_SHORT_LEASE, 0);
        else
            delivery_send(delivery, &taken->job);
    }
    endpoints_flush(&dispatcher->deliver->endpoints);
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct dispatcher *dispatcher = owner;
    (void)tag;
    dispatcher->take = 0;
    rate_spend(&dispatcher->rate, (uint32_t)reply->job_count);
    send_all(dispatcher, reply);
    if (refused || reply->status != QUEUE_OK)
        wake_by(dispatcher, clock_inner_ms() + DISPATCHER_RETRY_MS);
    else
        deliver_kick(dispatcher->deliver, dispatcher);
}

static void take(struct dispatcher *dispatcher, uint32_t max, int64_t now_ms)
{
    const struct slice topic = dispatcher->entry.key;
    const struct queue_take call = {.topics = &topic,
                                    .topic_count = 1,
                                    .max = max,
                                    .lease_ms = dispatcher->setting.timeout_ms +
                                                DISPATCHER_LEASE_MARGIN_MS};
    dispatcher->take_max = max;
    dispatcher->take = waiter_take(dispatcher->deliver->options.waiters, &call, DISPATCHER_WAIT_MS,
                                   now_ms, on_taken, dispatcher, 0);
    if (!dispatcher->take)
        wake_by(dispatcher, now_ms + DISPATCHER_RETRY_MS);
}

/* Of a dispatcher with one endpoint only: a job taken for one that rests would wait under a lease. */
static uint32_t endpoint_room(struct dispatcher *dispatcher, uint32_t want)
{
    int64_t next_ms = INT64_MAX;
    if (!dispatcher->setting.to || dispatcher->setting.allows_callback)
        return want;
    switch (
        endpoints_ask(&dispatcher->deliver->endpoints, slice_of(dispatcher->endpoint), &next_ms)) {
    case BREAKER_PASS:
        return want;
    case BREAKER_PROBE:
        return 1;
    case BREAKER_WAIT:
        break;
    }
    if (next_ms != INT64_MAX)
        wake_by(dispatcher, next_ms);
    return 0;
}

static uint32_t window_room(const struct dispatcher *dispatcher)
{
    uint32_t max = dispatcher->setting.max_in_flight;
    /* Bodies are held in memory; answers that the queue does not take must not pile up. */
    if (dispatcher->in_flight >= max || dispatcher->bytes_in_flight >= DISPATCHER_BYTES_MAX ||
        dispatcher->unanswered >= dispatcher->in_flight + 2 * QUEUE_BATCH_MAX)
        return 0;
    return max - dispatcher->in_flight < QUEUE_TAKE_MAX ? max - dispatcher->in_flight
                                                        : QUEUE_TAKE_MAX;
}

void dispatcher_look(struct dispatcher *dispatcher, int64_t now_ms)
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
        wake_by(dispatcher, rate_next_ms(&dispatcher->rate));
    else
        take(dispatcher, free, now_ms);
}

void dispatcher_halt(struct dispatcher *dispatcher)
{
    dispatcher->is_on = false;
    if (dispatcher->take)
        waiter_cancel(dispatcher->deliver->options.waiters, dispatcher->take);
    dispatcher->take = 0;
}

/* ---- life ---- */

struct dispatcher *dispatcher_new(struct deliver *deliver, struct slice topic)
{
    struct dispatcher *dispatcher = calloc(1, sizeof(*dispatcher));
    if (!dispatcher)
        return NULL;
    dispatcher->topic = strndup(topic.at, topic.len);
    if (!dispatcher->topic) {
        free(dispatcher);
        return NULL;
    }
    dispatcher->deliver = deliver;
    dispatcher->entry.key = slice_of(dispatcher->topic);
    dispatcher->wake_ms = INT64_MAX;
    list_init(&dispatcher->kicked);
    return dispatcher;
}

void dispatcher_free(struct dispatcher *dispatcher)
{
    assert(dispatcher_is_idle(dispatcher));
    list_remove(&dispatcher->kicked);
    target_setting_fini(&dispatcher->setting);
    free(dispatcher->topic);
    free(dispatcher);
}

bool dispatcher_is_idle(const struct dispatcher *dispatcher)
{
    return !dispatcher->take && dispatcher->unanswered == 0;
}

static void log_dispatcher(const struct dispatcher *dispatcher, const char *event)
{
    log_event(LOG_INFO, event, LOG_TEXT("topic", dispatcher->topic),
              LOG_TEXT("endpoint", dispatcher->setting.to ? dispatcher->endpoint : "of each job"),
              LOG_NUMBER("max_in_flight", dispatcher->setting.max_in_flight),
              LOG_NUMBER("timeout_ms", dispatcher->setting.timeout_ms));
}

/* Some of the jobs' own callbacks may be allowed where the topic's destination is not. */
void dispatcher_judge(struct dispatcher *dispatcher)
{
    char error[DELIVER_ERROR_BYTES] = "";
    bool was_forbidden = dispatcher->is_forbidden;
    if (!dispatcher->is_on)
        return;
    dispatcher->is_forbidden =
        !check_setting(dispatcher->deliver->options.guard, &dispatcher->setting, error);
    if (dispatcher->is_forbidden)
        log_event(LOG_ERROR, "policy forbids delivery", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", error));
    else if (was_forbidden)
        log_event(LOG_INFO, "policy allows delivery again", LOG_TEXT("topic", dispatcher->topic));
    if (dispatcher->is_forbidden != was_forbidden)
        dispatcher_reschedule(dispatcher);
}

static bool find_endpoint(struct dispatcher *dispatcher)
{
    char error[TARGET_ERROR_BYTES] = "too long";
    struct buffer name;
    dispatcher->endpoint[0] = '\0';
    if (!dispatcher->setting.to)
        return true;
    buffer_init(&name, sizeof(dispatcher->endpoint) - 1);
    bool ok = target_endpoint(slice_of(dispatcher->setting.to), &name, error) && !name.failed;
    if (ok)
        snprintf(dispatcher->endpoint, sizeof(dispatcher->endpoint), "%.*s", (int)name.len,
                 name.at);
    else
        log_event(LOG_ERROR, "delivery off", LOG_TEXT("topic", dispatcher->topic),
                  LOG_TEXT("error", error));
    buffer_fini(&name);
    return ok;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

void dispatcher_set(struct dispatcher *dispatcher, struct target_setting *setting)
{
    bool was_on = dispatcher->is_on;
    bool same = setting && is_same_text(setting->to, dispatcher->setting.to);
    dispatcher_halt(dispatcher); /* the take is for the old window and the old timeout */
    if (was_on && !setting)
        log_dispatcher(dispatcher, "delivery stopped");
    target_setting_fini(&dispatcher->setting);
    dispatcher->setting = setting ? *setting : (struct target_setting){0};
    if (setting) {
        *setting = (struct target_setting){0};
        rate_set(&dispatcher->rate, dispatcher->setting.rate_per_s, clock_inner_ms());
        dispatcher->is_on = find_endpoint(dispatcher);
        pthread_mutex_lock(&dispatcher->deliver->lock);
        dispatcher->tally.is_told = true;
        pthread_mutex_unlock(&dispatcher->deliver->lock);
        if (dispatcher->is_on && (!was_on || !same))
            log_dispatcher(dispatcher, "delivery started");
        dispatcher_judge(dispatcher);
    }
    deliver_kick(dispatcher->deliver, dispatcher);
}

/* Its endpoint may be sent to again, or only for a probe: a waiting take may be for too many. */
void dispatcher_reschedule(struct dispatcher *dispatcher)
{
    if (dispatcher->take && !dispatcher->setting.allows_callback) {
        waiter_cancel(dispatcher->deliver->options.waiters, dispatcher->take);
        dispatcher->take = 0;
    }
    deliver_kick(dispatcher->deliver, dispatcher);
}
