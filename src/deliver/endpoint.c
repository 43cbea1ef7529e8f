#include "deliver/endpoint.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LATER_MS = 1000,
    USUAL_WEIGHT = 8,
    CROWD_MS = 20,
    CLOSE_TURNS_MAX = 10000,
    CLOSE_TURN_US = 1000
};

struct flight { /* one message under way; named by a handle, as targets are not trusted with
                   pointers */
    uint64_t handle;
    struct endpoint *endpoint;
    endpoint_reported *reported;
    void *owner;
    int64_t sent_us;
    bool is_probe, is_windowed;
};

struct closing {
    struct endpoints *endpoints;
};

/* ---- opening and closing ---- */

static void set_sweep(struct endpoints *endpoints)
{
    if (list_is_empty(&endpoints->idle)) {
        deadline_set(endpoints->sweep, INT64_MAX);
        return;
    }
    struct endpoint *first = list_entry(endpoints->idle.next, struct endpoint, idle);
    deadline_set(endpoints->sweep, first->idle_since_ms + ENDPOINT_IDLE_MS);
}

static void on_target_closed(void *ctx)
{
    struct closing *closing = ctx;
    struct endpoints *endpoints = closing->endpoints;
    free(closing);
    endpoints->closing--;
    if (endpoints->closing == 0 && endpoints->table.count == 0 && endpoints->closed)
        endpoints->closed(endpoints->owner);
}

/* What is under way is reported before the target is closed, and finds its endpoint: the caller
 * frees it only when nothing is. */
static void close_target(struct endpoints *endpoints, struct endpoint *endpoint)
{
    struct closing *closing = malloc(sizeof(*closing));
    if (!closing)
        abort(); /* a target that cannot be closed would be called back for ever */
    closing->endpoints = endpoints;
    endpoints->closing++;
    struct target *target = endpoint->target;
    endpoint->target = NULL;
    target->ops->close(target, on_target_closed, closing);
}

static void free_endpoint(struct endpoints *endpoints, struct endpoint *endpoint)
{
    endpoints->open--;
    endpoints->resting -= endpoint->breaker.is_open;
    list_remove(&endpoint->idle);
    table_remove(&endpoints->table, &endpoint->entry);
    free(endpoint->name);
    free(endpoint);
}

static void drop_endpoint(struct endpoints *endpoints, struct endpoint *endpoint)
{
    assert(endpoint->in_flight == 0 && endpoints->pending_for != endpoint);
    if (endpoint->target)
        close_target(endpoints, endpoint);
    free_endpoint(endpoints, endpoint);
}

/* One whose breaker is open is remembered until it would be asked again. */
static bool may_go(const struct endpoint *endpoint, int64_t now_ms)
{
    return now_ms >= endpoint->idle_since_ms + ENDPOINT_IDLE_MS &&
           now_ms >= endpoint->breaker.wait_until_ms;
}

static void on_sweep(void *ctx)
{
    struct endpoints *endpoints = ctx;
    int64_t now_ms = clock_inner_ms();
    while (!list_is_empty(&endpoints->idle)) {
        struct endpoint *first = list_entry(endpoints->idle.next, struct endpoint, idle);
        if (now_ms < first->idle_since_ms + ENDPOINT_IDLE_MS)
            break;
        if (may_go(first, now_ms)) {
            drop_endpoint(endpoints, first);
        } else {
            list_remove(&first->idle);
            first->idle_since_ms = now_ms;
            list_add_last(&endpoints->idle, &first->idle);
        }
    }
    set_sweep(endpoints);
}

static struct endpoint *open_endpoint(struct endpoints *endpoints,
                                      const struct endpoint_request *request,
                                      const struct target_ops *ops)
{
    if (endpoints->table.count >= ENDPOINTS_MAX) {
        if (list_is_empty(&endpoints->idle))
            return NULL;
        drop_endpoint(endpoints, list_entry(endpoints->idle.next, struct endpoint, idle));
    }
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (!endpoint)
        return NULL;
    list_init(&endpoint->idle);
    endpoint->name = strndup(request->endpoint.at, request->endpoint.len);
    if (endpoint->name)
        endpoint->target =
            ops->open(&endpoints->env, request->message.setting, request->message.to);
    if (!endpoint->target) {
        free(endpoint->name);
        free(endpoint);
        return NULL;
    }
    endpoints->open++;
    endpoint->entry.key = slice_of(endpoint->name);
    table_add(&endpoints->table, &endpoint->entry);
    endpoint->idle_since_ms = clock_inner_ms();
    list_add_last(&endpoints->idle, &endpoint->idle);
    set_sweep(endpoints);
    return endpoint;
}

/* ---- sending ---- */

/* What one message takes there lately; of one that has not been heard of for longer, that long. */
static double pace_ms(const struct endpoint *endpoint, int64_t now_ms)
{
    double quiet_ms = (double)(now_ms - endpoint->heard_ms);
    return endpoint->usual_ms > quiet_ms ? endpoint->usual_ms : quiet_ms;
}

/* Each that finds the window full is told to come a little later than the one before: about when
 * it will be its turn. So what is turned away comes back about as often as something is sent. */
static int64_t crowd_wait_ms(struct endpoint *endpoint, uint32_t window, int64_t now_ms)
{
    double pace = pace_ms(endpoint, now_ms);
    double least_ms = (double)now_ms + (pace > CROWD_MS ? pace : CROWD_MS);
    double most_ms = (double)now_ms + ENDPOINT_CROWD_MS_MAX;
    endpoint->crowd_ms += (pace > 1 ? pace : 1) / window;
    if (endpoint->crowd_ms < least_ms)
        endpoint->crowd_ms = least_ms;
    if (endpoint->crowd_ms > most_ms)
        endpoint->crowd_ms = most_ms;
    return (int64_t)endpoint->crowd_ms - now_ms;
}

static int64_t rest_wait_ms(struct endpoints *endpoints, const struct endpoint *endpoint,
                            int64_t now_ms)
{
    const struct breaker *breaker = &endpoint->breaker;
    int64_t next_ms = breaker_next_ms(breaker, now_ms);
    int64_t wait_ms = next_ms == INT64_MAX ? 0 : next_ms - now_ms;
    /* Spread over the pause, that they do not all come at once. */
    uint64_t spread_ms = (uint64_t)(breaker->pause_ms > 500 ? breaker->pause_ms : 500);
    return wait_ms + 50 + (int64_t)random_below(&endpoints->random, spread_ms);
}

static struct flight *add_flight(struct endpoints *endpoints,
                                 const struct endpoint_request *request)
{
    uint32_t id = slab_add(&endpoints->flights);
    if (!id)
        return NULL;
    struct flight *flight = slab_at(&endpoints->flights, id);
    *flight = (struct flight){.handle = (uint64_t)++endpoints->generation << 32 | id,
                              .reported = request->reported,
                              .owner = request->owner,
                              .sent_us = clock_boot_us(),
                              .is_windowed = request->window > 0};
    return flight;
}

static void load(struct endpoints *endpoints, struct endpoint *endpoint,
                 const struct target_message *message, struct flight *flight)
{
    if (endpoints->pending_count > 0 &&
        (endpoints->pending_for != endpoint || endpoints->pending_count == ENDPOINTS_PENDING))
        endpoints_flush(endpoints);
    list_remove(&endpoint->idle);
    if (endpoint->in_flight++ == 0)
        endpoint->heard_ms = clock_inner_ms();
    endpoint->windowed += flight->is_windowed;
    flight->endpoint = endpoint;
    endpoints->pending_for = endpoint;
    endpoints->pending[endpoints->pending_count] = *message;
    endpoints->pending[endpoints->pending_count++].tag = flight->handle;
}

static enum endpoint_verdict judge(struct endpoints *endpoints, struct endpoint *endpoint,
                                   const struct endpoint_request *request, bool *is_probe,
                                   int64_t *wait_ms)
{
    int64_t now_ms = clock_inner_ms();
    enum breaker_verdict verdict =
        request->insists ? BREAKER_PASS : breaker_ask(&endpoint->breaker, now_ms);
    *is_probe = verdict == BREAKER_PROBE;
    if (verdict == BREAKER_WAIT) {
        *wait_ms = rest_wait_ms(endpoints, endpoint, now_ms);
        return ENDPOINT_RESTS;
    }
    if (request->window > 0 && endpoint->windowed >= request->window) {
        *wait_ms = crowd_wait_ms(endpoint, request->window, now_ms);
        return ENDPOINT_CROWDED;
    }
    return ENDPOINT_SENT;
}

enum endpoint_verdict endpoints_give(struct endpoints *endpoints,
                                     const struct endpoint_request *request, int64_t *wait_ms)
{
    bool is_probe;
    *wait_ms = LATER_MS;
    struct endpoint *endpoint = (struct endpoint *)table_find(&endpoints->table, request->endpoint);
    if (!endpoint) {
        const struct target_ops *ops = target_find(request->message.to);
        if (!ops)
            return ENDPOINT_UNKNOWN;
        endpoint = open_endpoint(endpoints, request, ops);
        if (!endpoint)
            return ENDPOINT_LATER;
    }
    enum endpoint_verdict verdict = judge(endpoints, endpoint, request, &is_probe, wait_ms);
    if (verdict != ENDPOINT_SENT)
        return verdict;
    struct flight *flight = add_flight(endpoints, request);
    if (!flight)
        return ENDPOINT_LATER;
    flight->is_probe = is_probe;
    if (is_probe)
        breaker_probe(&endpoint->breaker);
    load(endpoints, endpoint, &request->message, flight);
    return ENDPOINT_SENT;
}

void endpoints_flush(struct endpoints *endpoints)
{
    struct endpoint *endpoint = endpoints->pending_for;
    size_t count = endpoints->pending_count;
    endpoints->pending_for = NULL;
    endpoints->pending_count = 0;
    if (count > 0)
        endpoint->target->ops->send(endpoint->target, endpoints->pending, count);
}

enum breaker_verdict endpoints_ask(struct endpoints *endpoints, struct slice name, int64_t *next_ms)
{
    int64_t now_ms = clock_inner_ms();
    struct endpoint *endpoint = (struct endpoint *)table_find(&endpoints->table, name);
    if (!endpoint)
        return BREAKER_PASS;
    *next_ms = breaker_next_ms(&endpoint->breaker, now_ms);
    return breaker_ask(&endpoint->breaker, now_ms);
}

/* ---- reports ---- */

static void note_change(struct endpoints *endpoints, const struct endpoint *endpoint,
                        const struct target_report *report, int64_t now_ms)
{
    if (endpoint->breaker.is_open)
        endpoints->resting++;
    else
        endpoints->resting--;
    if (endpoint->breaker.is_open)
        log_event(LOG_WARN, "endpoint rests", LOG_TEXT("endpoint", endpoint->name),
                  LOG_TEXT("error", report->error),
                  LOG_NUMBER("probe_in_ms", endpoint->breaker.wait_until_ms - now_ms));
    else
        log_event(LOG_INFO, "endpoint works again", LOG_TEXT("endpoint", endpoint->name));
}

static void learn(struct endpoints *endpoints, struct endpoint *endpoint,
                  const struct flight *flight, const struct target_report *report, double took_ms)
{
    int64_t now_ms = clock_inner_ms();
    bool changed = breaker_report(&endpoint->breaker, flight->is_probe, report->is_ailing, now_ms,
                                  &endpoints->random);
    if (report->is_ailing && report->retry_after_ms > 0)
        breaker_rest(&endpoint->breaker, now_ms + (report->retry_after_ms < ENDPOINT_REST_MS_MAX
                                                       ? report->retry_after_ms
                                                       : ENDPOINT_REST_MS_MAX));
    if (changed)
        note_change(endpoints, endpoint, report, now_ms);
    if (changed || flight->is_probe)
        endpoints->changed(endpoints->owner, endpoint);
    if (endpoint->usual_ms <= 0)
        endpoint->usual_ms = took_ms;
    endpoint->usual_ms += (took_ms - endpoint->usual_ms) / USUAL_WEIGHT;
    endpoint->heard_ms = now_ms;
}

static void land(struct endpoints *endpoints, struct endpoint *endpoint,
                 const struct flight *flight)
{
    assert(endpoint->in_flight > 0);
    endpoint->windowed -= flight->is_windowed;
    if (endpoint->windowed == 0)
        endpoint->crowd_ms = 0;
    if (--endpoint->in_flight > 0)
        return;
    if (!endpoint->target) { /* closing: that was the last one */
        free_endpoint(endpoints, endpoint);
        return;
    }
    endpoint->idle_since_ms = clock_inner_ms();
    bool was_none = list_is_empty(&endpoints->idle);
    list_add_last(&endpoints->idle, &endpoint->idle);
    if (was_none)
        set_sweep(endpoints);
}

static void on_reported(void *owner, uint64_t tag, const struct target_report *report)
{
    struct endpoints *endpoints = owner;
    uint32_t id = (uint32_t)tag;
    assert(id > 0 && id <= endpoints->flights.top);
    struct flight *found = slab_at(&endpoints->flights, id);
    assert(found->handle == tag); /* else it was reported twice */
    struct flight flight = *found;
    slab_remove(&endpoints->flights, id);
    double took_ms = (double)(clock_boot_us() - flight.sent_us) / 1000;
    if (flight.endpoint->target)
        learn(endpoints, flight.endpoint, &flight, report, took_ms);
    land(endpoints, flight.endpoint, &flight);
    flight.reported(flight.owner, report, (int64_t)took_ms);
}

/* ---- the whole ---- */

bool endpoints_init(struct endpoints *endpoints, const struct target_env *env)
{
    *endpoints = (struct endpoints){.env = *env, .random.state = random_u64()};
    endpoints->env.reported = on_reported;
    endpoints->env.owner = endpoints;
    list_init(&endpoints->idle);
    slab_init(&endpoints->flights, sizeof(struct flight));
    endpoints->sweep = deadline_new(env->reactor, on_sweep, endpoints);
    return endpoints->sweep != NULL;
}

static bool is_closed(const struct endpoints *endpoints)
{
    return endpoints->closing == 0 && endpoints->table.count == 0;
}

bool endpoints_close_all(struct endpoints *endpoints)
{
    assert(endpoints->pending_count == 0);
    endpoints->closing++; /* so that none of them is the last one yet */
    for (size_t i = 0; i < TABLE_BUCKETS; i++) {
        struct table_entry *next;
        for (struct table_entry *entry = endpoints->table.buckets[i]; entry; entry = next) {
            struct endpoint *endpoint = (struct endpoint *)entry;
            next = entry->next;
            endpoint->in_flight++; /* it stays while it is looked at */
            if (endpoint->target)
                close_target(endpoints, endpoint);
            if (--endpoint->in_flight == 0)
                free_endpoint(endpoints, endpoint);
        }
    }
    endpoints->closing--;
    set_sweep(endpoints);
    return !is_closed(endpoints);
}

void endpoints_fini(struct endpoints *endpoints)
{
    if (!endpoints->sweep)
        return;
    endpoints->closed = NULL;
    endpoints_close_all(endpoints);
    /* What closes may be a thread that ends: nothing of the loop's to wait for. */
    for (int i = 0; i < CLOSE_TURNS_MAX && !is_closed(endpoints); i++) {
        uv_run(reactor_loop(endpoints->env.reactor), UV_RUN_NOWAIT);
        usleep(is_closed(endpoints) ? 0 : CLOSE_TURN_US);
    }
    deadline_free(endpoints->sweep);
    slab_fini(&endpoints->flights);
}
