#include "deliver/lane.h"

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
static bool is_stale(struct lane *lane, const struct job *first, int64_t lease_ms)
{
    int64_t lag_ms = lease_ms - (first->lease_until_ms - clock_wall_ms());
    if (!lane->knows_lag || lag_ms < lane->lag_ms)
        lane->lag_ms = lag_ms;
    else
        lane->lag_ms += (lag_ms - lane->lag_ms + 7) / 8;
    lane->knows_lag = true;
    return lag_ms - lane->lag_ms > LANE_LEASE_MARGIN_MS * 2 / 3;
}

static void wake_by(struct lane *lane, int64_t at_ms)
{
    if (at_ms < lane->wake_ms)
        lane->wake_ms = at_ms;
    deliver_wake_by(lane->deliver, lane->wake_ms);
}

static void send_all(struct lane *lane, const struct queue_reply *reply)
{
    int64_t lease_ms = lane->setting.timeout_ms + LANE_LEASE_MARGIN_MS;
    bool stale = reply->job_count > 0 && is_stale(lane, &reply->jobs[0].job, lease_ms);
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct queue_job *taken = &reply->jobs[i];
        struct errand *errand = errand_new(lane, taken);
        if (!errand)
            continue; /* its lease ends: nothing can be done without memory */
        if (!lane->is_on)
            errand_give_back(errand, LANE_RETURN_STOPPING, 0);
        else if (stale)
            errand_give_back(errand, LANE_RETURN_SHORT_LEASE, 0);
        else
            errand_send(errand, &taken->job);
    }
    endpoints_flush(&lane->deliver->endpoints);
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct lane *lane = owner;
    (void)tag;
    lane->take = 0;
    rate_spend(&lane->rate, (uint32_t)reply->job_count);
    send_all(lane, reply);
    if (refused || reply->status != QUEUE_OK)
        wake_by(lane, clock_inner_ms() + LANE_RETRY_MS);
    else
        deliver_kick(lane->deliver, lane);
}

static void take(struct lane *lane, uint32_t max, int64_t now_ms)
{
    const struct slice topic = lane->entry.key;
    const struct queue_take call = {.topics = &topic,
                                    .topic_count = 1,
                                    .max = max,
                                    .lease_ms = lane->setting.timeout_ms + LANE_LEASE_MARGIN_MS};
    lane->take_max = max;
    lane->take =
        waiter_take(lane->deliver->options.waiters, &call, LANE_WAIT_MS, now_ms, on_taken, lane, 0);
    if (!lane->take)
        wake_by(lane, now_ms + LANE_RETRY_MS);
}

/* Of a lane with one endpoint only: a job taken for one that rests would wait under a lease. */
static uint32_t endpoint_room(struct lane *lane, uint32_t want)
{
    int64_t next_ms = INT64_MAX;
    if (!lane->setting.to || lane->setting.allows_callback)
        return want;
    switch (endpoints_ask(&lane->deliver->endpoints, slice_of(lane->endpoint), &next_ms)) {
    case BREAKER_PASS:
        return want;
    case BREAKER_PROBE:
        return 1;
    case BREAKER_WAIT:
        break;
    }
    if (next_ms != INT64_MAX)
        wake_by(lane, next_ms);
    return 0;
}

static uint32_t window_room(const struct lane *lane)
{
    uint32_t max = lane->setting.max_in_flight;
    /* Bodies are held in memory; answers that the queue does not take must not pile up. */
    if (lane->in_flight >= max || lane->bytes_in_flight >= LANE_BYTES_MAX ||
        lane->unanswered >= lane->in_flight + 2 * QUEUE_BATCH_MAX)
        return 0;
    return max - lane->in_flight < QUEUE_TAKE_MAX ? max - lane->in_flight : QUEUE_TAKE_MAX;
}

void lane_look(struct lane *lane, int64_t now_ms)
{
    lane->wake_ms = INT64_MAX;
    if (!lane->is_on || lane->take || (lane->is_forbidden && !lane->setting.allows_callback))
        return;
    uint32_t room = window_room(lane);
    if (room > 0)
        room = endpoint_room(lane, room);
    if (room == 0)
        return;
    uint32_t free = rate_free(&lane->rate, room, now_ms);
    if (free == 0)
        wake_by(lane, rate_next_ms(&lane->rate));
    else
        take(lane, free, now_ms);
}

void lane_halt(struct lane *lane)
{
    lane->is_on = false;
    if (lane->take)
        waiter_cancel(lane->deliver->options.waiters, lane->take);
    lane->take = 0;
}

/* ---- life ---- */

struct lane *lane_new(struct deliver *deliver, struct slice topic)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->topic = strndup(topic.at, topic.len);
    if (!lane->topic) {
        free(lane);
        return NULL;
    }
    lane->deliver = deliver;
    lane->entry.key = slice_of(lane->topic);
    lane->wake_ms = INT64_MAX;
    list_init(&lane->kicked);
    return lane;
}

void lane_free(struct lane *lane)
{
    assert(lane_is_idle(lane));
    list_remove(&lane->kicked);
    target_setting_fini(&lane->setting);
    free(lane->topic);
    free(lane);
}

bool lane_is_idle(const struct lane *lane)
{
    return !lane->take && lane->unanswered == 0;
}

static void log_lane(const struct lane *lane, const char *event)
{
    log_event(LOG_INFO, event, LOG_TEXT("topic", lane->topic),
              LOG_TEXT("endpoint", lane->setting.to ? lane->endpoint : "of each job"),
              LOG_NUMBER("max_in_flight", lane->setting.max_in_flight),
              LOG_NUMBER("timeout_ms", lane->setting.timeout_ms));
}

/* Some of the jobs' own callbacks may be allowed where the topic's destination is not. */
void lane_judge(struct lane *lane)
{
    char error[DELIVER_ERROR_BYTES] = "";
    bool was_forbidden = lane->is_forbidden;
    if (!lane->is_on)
        return;
    lane->is_forbidden = !check_setting(lane->deliver->options.guard, &lane->setting, error);
    if (lane->is_forbidden)
        log_event(LOG_ERROR, "policy forbids delivery", LOG_TEXT("topic", lane->topic),
                  LOG_TEXT("error", error));
    else if (was_forbidden)
        log_event(LOG_INFO, "policy allows delivery again", LOG_TEXT("topic", lane->topic));
    if (lane->is_forbidden != was_forbidden)
        lane_rethink(lane);
}

static bool find_endpoint(struct lane *lane)
{
    char error[TARGET_ERROR_BYTES] = "too long";
    struct buffer name;
    lane->endpoint[0] = '\0';
    if (!lane->setting.to)
        return true;
    buffer_init(&name, sizeof(lane->endpoint) - 1);
    bool ok = target_endpoint(slice_of(lane->setting.to), &name, error) && !name.failed;
    if (ok)
        snprintf(lane->endpoint, sizeof(lane->endpoint), "%.*s", (int)name.len, name.at);
    else
        log_event(LOG_ERROR, "delivery off", LOG_TEXT("topic", lane->topic),
                  LOG_TEXT("error", error));
    buffer_fini(&name);
    return ok;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

void lane_set(struct lane *lane, struct target_setting *setting)
{
    bool was_on = lane->is_on;
    bool same = setting && is_same_text(setting->to, lane->setting.to);
    lane_halt(lane); /* the take is for the old window and the old timeout */
    if (was_on && !setting)
        log_lane(lane, "delivery stopped");
    target_setting_fini(&lane->setting);
    lane->setting = setting ? *setting : (struct target_setting){0};
    if (setting) {
        *setting = (struct target_setting){0};
        rate_set(&lane->rate, lane->setting.rate_per_s, clock_inner_ms());
        lane->is_on = find_endpoint(lane);
        pthread_mutex_lock(&lane->deliver->lock);
        lane->tally.is_told = true;
        pthread_mutex_unlock(&lane->deliver->lock);
        if (lane->is_on && (!was_on || !same))
            log_lane(lane, "delivery started");
        lane_judge(lane);
    }
    deliver_kick(lane->deliver, lane);
}

/* Its endpoint may be sent to again, or only for a probe: a waiting take may be for too many. */
void lane_rethink(struct lane *lane)
{
    if (lane->take && !lane->setting.allows_callback) {
        waiter_cancel(lane->deliver->options.waiters, lane->take);
        lane->take = 0;
    }
    deliver_kick(lane->deliver, lane);
}
