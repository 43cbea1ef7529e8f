#include "deliver/endpoint.h"

#include "base/clock.h"
#include "base/log.h"
#include "targets/target.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LATER_MS = 1000,
    USUAL_WEIGHT = 8,
    CONGESTION_MS = 20,
    CLOSE_ROUNDS_MAX = 10000,
    CLOSE_ROUND_US = 1000,
    ATTRIBUTE_BYTES_MAX = 16 * 1024
};

/* A request in flight, found by its handle, because targets are not trusted with pointers. */
struct sent_message {
    uint64_t handle;
    struct endpoint_request *request;
};

/* ---- congestion ---- */

static void congestion_learn(struct endpoint_congestion *congestion, double took_ms, int64_t now_ms)
{
    if (congestion->usual_ms <= 0)
        congestion->usual_ms = took_ms;
    congestion->usual_ms += (took_ms - congestion->usual_ms) / USUAL_WEIGHT;
    congestion->reported_ms = now_ms;
}

/* Returns the recent duration of a message, or the time since the last report if that is longer. */
static double congestion_pace_ms(const struct endpoint_congestion *congestion, int64_t now_ms)
{
    double quiet_ms = (double)(now_ms - congestion->reported_ms);
    return congestion->usual_ms > quiet_ms ? congestion->usual_ms : quiet_ms;
}

/* Returns the wait time of a message that found the window full. Each gets a slightly later time
 * than the one before, approximately when it can be sent. So rejected messages return about as fast
 * as messages are sent. */
static int64_t congestion_wait_ms(struct endpoint_congestion *congestion, uint32_t window,
                                  int64_t now_ms)
{
    double pace = congestion_pace_ms(congestion, now_ms);
    double least_ms = (double)now_ms + (pace > CONGESTION_MS ? pace : CONGESTION_MS);
    double most_ms = (double)now_ms + ENDPOINT_CONGESTION_MS_MAX;
    congestion->next_ms += (pace > 1 ? pace : 1) / window;
    if (congestion->next_ms < least_ms)
        congestion->next_ms = least_ms;
    if (congestion->next_ms > most_ms)
        congestion->next_ms = most_ms;
    return (int64_t)congestion->next_ms - now_ms;
}

/* ---- opening and closing ---- */

static void endpoints_set_sweep(struct endpoints *endpoints)
{
    if (list_is_empty(&endpoints->idle)) {
        deadline_set(endpoints->sweep, INT64_MAX);
        return;
    }
    struct endpoint *first = list_entry(endpoints->idle.next, struct endpoint, idle);
    deadline_set(endpoints->sweep, first->idle_since_ms + ENDPOINT_IDLE_MS);
}

static bool endpoints_are_closed(const struct endpoints *endpoints)
{
    return endpoints->closing == 0 && endpoints->table.table.count == 0;
}

static void on_target_closed(void *ctx)
{
    struct endpoints *endpoints = ctx;
    endpoints->closing--;
    if (endpoints_are_closed(endpoints) && endpoints->closed)
        endpoints->closed(endpoints->closed_ctx);
}

/* Closes the target. Messages in flight are reported before the target is closed and still find
 * their endpoint: the calling code frees it only after the last one. */
static void endpoint_close_target(struct endpoints *endpoints, struct endpoint *endpoint)
{
    struct target *target = endpoint->target;
    endpoints->closing++;
    endpoint->target = NULL;
    target->ops->close(target, on_target_closed, endpoints);
}

static void endpoint_free(struct endpoints *endpoints, struct endpoint *endpoint)
{
    endpoints->open--;
    endpoints->resting -= endpoint->breaker.is_open;
    list_remove(&endpoint->idle);
    endpoint_tally_close(&endpoints->tallies, endpoint->tally, clock_inner_ms());
    endpoint_table_remove(&endpoints->table, endpoint);
    free(endpoint->name);
    free(endpoint);
}

static void endpoint_drop(struct endpoints *endpoints, struct endpoint *endpoint)
{
    assert(endpoint->in_flight == 0 && endpoints->pending_for != endpoint);
    if (endpoint->target)
        endpoint_close_target(endpoints, endpoint);
    endpoint_free(endpoints, endpoint);
}

/* Returns true if the endpoint may be closed. One with an open breaker is kept until it may be
 * retried. */
static bool endpoint_may_go(const struct endpoints *endpoints, const struct endpoint *endpoint,
                            int64_t now_ms)
{
    return now_ms >= endpoint->idle_since_ms + ENDPOINT_IDLE_MS &&
           clock_inner_ms_of(endpoints->clock) >= endpoint->breaker.wait_until_ms;
}

static void on_sweep(void *ctx)
{
    struct endpoints *endpoints = ctx;
    int64_t now_ms = clock_inner_ms();
    while (!list_is_empty(&endpoints->idle)) {
        struct endpoint *first = list_entry(endpoints->idle.next, struct endpoint, idle);
        if (now_ms < first->idle_since_ms + ENDPOINT_IDLE_MS)
            break;
        if (endpoint_may_go(endpoints, first, now_ms)) {
            endpoint_drop(endpoints, first);
        } else {
            list_remove(&first->idle);
            first->idle_since_ms = now_ms;
            list_add_last(&endpoints->idle, &first->idle);
        }
    }
    endpoints_set_sweep(endpoints);
}

/* Returns the idle endpoint to drop, preferably one whose breaker state need not be remembered. */
static struct endpoint *longest_idle(const struct endpoints *endpoints)
{
    int64_t now_ms = clock_inner_ms_of(endpoints->clock);
    for (const struct list *at = endpoints->idle.next; at != &endpoints->idle; at = at->next) {
        struct endpoint *endpoint = list_entry(at, struct endpoint, idle);
        if (breaker_ask(&endpoint->breaker, now_ms) == BREAKER_PASS)
            return endpoint;
    }
    return list_entry(endpoints->idle.next, struct endpoint, idle);
}

/* Opens an endpoint. If there are too many, drops an idle one, which has to exist. Returns NULL
 * when out of memory. */
static struct endpoint *endpoint_open(struct endpoints *endpoints, struct slice name,
                                      const struct target_message *message,
                                      const struct target_ops *ops)
{
    if (endpoints->table.table.count >= ENDPOINTS_MAX)
        endpoint_drop(endpoints, longest_idle(endpoints));
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return NULL;
    list_init(&endpoint->idle);
    endpoint->name = strndup(name.at, name.len);
    endpoint->idle_since_ms = clock_inner_ms();
    if (endpoint->name)
        endpoint->tally = endpoint_tally_open(&endpoints->tallies, name, ops->schemes[0],
                                              endpoint->idle_since_ms);
    if (endpoint->tally)
        endpoint->target = ops->open(&endpoints->env, message->setting, message->to);
    if (!endpoint->target) {
        if (endpoint->tally)
            endpoint_tally_close(&endpoints->tallies, endpoint->tally, endpoint->idle_since_ms);
        free(endpoint->name);
        free(endpoint);
        return NULL;
    }
    endpoints->open++;
    endpoint->entry.key = slice_of(endpoint->name);
    endpoint_table_add(&endpoints->table, endpoint);
    list_add_last(&endpoints->idle, &endpoint->idle);
    endpoints_set_sweep(endpoints);
    return endpoint;
}

/* ---- sending ---- */

static int64_t breaker_rest_wait_ms(struct endpoints *endpoints, const struct breaker *breaker,
                                    int64_t now_ms)
{
    int64_t next_ms = breaker_next_ms(breaker, now_ms);
    int64_t wait_ms = next_ms == INT64_MAX ? 0 : next_ms - now_ms;
    /* Spread the retries over the pause, so that they do not arrive simultaneously. */
    uint64_t spread_ms = (uint64_t)(breaker->pause_ms > 500 ? breaker->pause_ms : 500);
    return wait_ms + 50 + (int64_t)random_below(&endpoints->random, spread_ms);
}

/* Updates the tally; all its times are on the process clock. */
static void endpoint_show(const struct endpoints *endpoints, const struct endpoint *endpoint)
{
    struct breaker shown = endpoint->breaker;
    int64_t now_ms = clock_inner_ms();
    shown.wait_until_ms += now_ms - clock_inner_ms_of(endpoints->clock);
    endpoint_tally_show(endpoint->tally, &shown, endpoint->in_flight, now_ms);
}

/* A message in another form than its job: the whole job as JSON, or an event. */
struct endpoint_form {
    struct job job; /* a copy with another body */
    struct buffer body, json, attributes;
};

static void form_free(struct endpoint_form *form)
{
    if (!form)
        return;
    buffer_fini(&form->body);
    buffer_fini(&form->json);
    buffer_fini(&form->attributes);
    free(form);
}

static void form_set_body(struct endpoint_form *form, const struct buffer *body, const char *type)
{
    form->job.body = buffer_slice(body);
    form->job.content_type = slice_of(type);
}

/* Makes the message an event. Returns NULL, or why the job cannot be one. */
static const char *form_make_event(struct endpoints *endpoints, struct endpoint_form *form,
                                   const struct target_message *message)
{
    const struct target_event_setting *event = &message->setting->event;
    const struct target_ops *ops = target_find(message->to);
    char id[MESSAGE_ID_BYTES];
    if (!message_id_write(&endpoints->ids, message->job, id)) {
        form->attributes.failed = true;
        return NULL;
    }
    if (event->mode == TARGET_EVENT_BINARY && ops && ops->event.prefix)
        return target_event_attributes(event, &ops->event, &form->job, slice_of(id),
                                       &form->attributes);
    form->json.bytes_max = target_event_json_bytes_max(&form->job);
    const char *fault = target_event_json(event, &form->job, slice_of(id), &form->json);
    form_set_body(form, &form->json, TARGET_EVENT_CONTENT_TYPE);
    return fault;
}

/* Makes the form that the setting asks for; *out is NULL if that is the job's own. */
static enum endpoint_decision form_new(struct endpoints *endpoints,
                                       const struct target_message *message,
                                       struct endpoint_form **out)
{
    const struct target_setting *setting = message->setting;
    *out = NULL;
    if (!setting->sends_job && !setting->event.mode)
        return ENDPOINT_SENT;
    struct endpoint_form *form = malloc(sizeof *form);
    if (!form)
        return ENDPOINT_LATER;
    *form = (struct endpoint_form){.job = *message->job};
    buffer_init(&form->body, target_job_body_bytes_max(message->job));
    buffer_init(&form->json, 0);
    buffer_init(&form->attributes, ATTRIBUTE_BYTES_MAX);
    if (setting->sends_job) {
        target_job_body_write(&form->body, message->job);
        form_set_body(form, &form->body, "application/json");
    }
    endpoints->invalid = setting->event.mode ? form_make_event(endpoints, form, message) : NULL;
    bool is_lost = form->body.failed || form->json.failed || form->attributes.failed;
    if (!endpoints->invalid && !is_lost) {
        *out = form;
        return ENDPOINT_SENT;
    }
    form_free(form);
    return endpoints->invalid ? ENDPOINT_INVALID : ENDPOINT_LATER;
}

/* Adds the message to those that endpoints_flush passes on: ENDPOINT_SENT, or the reason why not. */
static enum endpoint_decision endpoint_load(struct endpoints *endpoints, struct endpoint *endpoint,
                                            struct endpoint_request *request,
                                            const struct target_message *message)
{
    if (endpoints->sent_messages.live == 0)
        endpoints->congestion = (struct endpoint_congestion){
            .usual_ms = endpoints->congestion.usual_ms, .reported_ms = clock_inner_ms()};
    struct endpoint_form *form;
    enum endpoint_decision decision = form_new(endpoints, message, &form);
    uint32_t id = decision == ENDPOINT_SENT ? slab_add(&endpoints->sent_messages) : 0;
    if (!id) {
        form_free(form);
        return decision == ENDPOINT_SENT ? ENDPOINT_LATER : decision;
    }
    struct sent_message *sent = slab_at(&endpoints->sent_messages, id);
    *sent = (struct sent_message){.handle = (uint64_t)++endpoints->generation << 32 | id,
                                  .request = request};
    request->endpoint = endpoint;
    request->sent_us = clock_boot_us();
    if (endpoints->pending_count > 0 &&
        (endpoints->pending_for != endpoint || endpoints->pending_count == ENDPOINTS_PENDING))
        endpoints_flush(endpoints);
    list_remove(&endpoint->idle);
    if (endpoint->in_flight++ == 0)
        endpoint->congestion.reported_ms = clock_inner_ms();
    counter_set(&endpoint->tally->in_flight, endpoint->in_flight);
    endpoint->windowed += request->window > 0;
    endpoints->pending_for = endpoint;
    endpoints->pending[endpoints->pending_count] = *message;
    endpoints->forms[endpoints->pending_count] = form;
    if (form) {
        endpoints->pending[endpoints->pending_count].job = &form->job;
        endpoints->pending[endpoints->pending_count].attributes = buffer_slice(&form->attributes);
    }
    endpoints->pending[endpoints->pending_count++].tag = sent->handle;
    return ENDPOINT_SENT;
}

enum breaker_decision endpoints_ask(struct endpoints *endpoints, struct slice name, struct slice to,
                                    int64_t *next_ms)
{
    int64_t now_ms = clock_inner_ms_of(endpoints->clock);
    const struct endpoint *endpoint = endpoint_table_find(&endpoints->table, name);
    const struct path *path = paths_find(&endpoints->paths, path_key(to));
    const struct breaker *breakers[] = {endpoint ? &endpoint->breaker : NULL,
                                        path ? &path->breaker : NULL};
    enum breaker_decision decision = BREAKER_PASS;
    *next_ms = now_ms;
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        enum breaker_decision one = breakers[i] ? breaker_ask(breakers[i], now_ms) : BREAKER_PASS;
        decision = one > decision ? one : decision; /* they are ordered */
        int64_t one_ms = one == BREAKER_WAIT ? breaker_next_ms(breakers[i], now_ms) : now_ms;
        *next_ms = one_ms > *next_ms ? one_ms : *next_ms;
    }
    return decision;
}

/* Decides whether the request may be sent now; sets whether it is a probe. */
static enum endpoint_decision endpoint_evaluate(struct endpoints *endpoints,
                                                struct endpoint *endpoint,
                                                struct endpoint_request *request, int64_t *wait_ms)
{
    int64_t now_ms = clock_inner_ms_of(endpoints->clock);
    const struct path *path = paths_find(&endpoints->paths, request->path);
    enum breaker_decision decision =
        request->insists ? BREAKER_PASS : breaker_ask(&endpoint->breaker, now_ms);
    enum breaker_decision path_decision =
        request->insists || !path ? BREAKER_PASS : breaker_ask(&path->breaker, now_ms);
    request->is_probe = decision == BREAKER_PROBE;
    request->is_path_probe = path_decision == BREAKER_PROBE;
    if (decision == BREAKER_WAIT || path_decision == BREAKER_WAIT) {
        *wait_ms = breaker_rest_wait_ms(
            endpoints, decision == BREAKER_WAIT ? &endpoint->breaker : &path->breaker, now_ms);
        return ENDPOINT_RESTS;
    }
    if (request->window > 0 && endpoint->windowed >= request->window) {
        *wait_ms = congestion_wait_ms(&endpoint->congestion, request->window, clock_inner_ms());
        return ENDPOINT_CONGESTED;
    }
    return ENDPOINT_SENT;
}

enum endpoint_decision endpoints_give(struct endpoints *endpoints, struct endpoint_request *request,
                                      struct slice name, const struct target_message *message,
                                      int64_t *wait_ms)
{
    *wait_ms = LATER_MS;
    struct endpoint *endpoint = endpoint_table_find(&endpoints->table, name);
    if (!endpoint) {
        const struct target_ops *ops = target_find(message->to);
        if (!ops)
            return ENDPOINT_UNKNOWN;
        if (endpoints->table.table.count >= ENDPOINTS_MAX && list_is_empty(&endpoints->idle)) {
            int64_t congestion_ms =
                congestion_wait_ms(&endpoints->congestion, ENDPOINTS_MAX, clock_inner_ms());
            *wait_ms = congestion_ms > LATER_MS ? congestion_ms : LATER_MS;
            return ENDPOINT_LATER;
        }
        endpoint = endpoint_open(endpoints, name, message, ops);
        if (!endpoint)
            return ENDPOINT_LATER;
    }
    request->path = path_key(message->to);
    enum endpoint_decision decision = endpoint_evaluate(endpoints, endpoint, request, wait_ms);
    if (decision != ENDPOINT_SENT)
        return decision;
    decision = endpoint_load(endpoints, endpoint, request, message);
    if (decision != ENDPOINT_SENT)
        return decision;
    if (request->is_probe)
        breaker_probe(&endpoint->breaker);
    if (request->is_path_probe)
        breaker_probe(&paths_find(&endpoints->paths, request->path)->breaker);
    if (request->is_probe)
        endpoint_show(endpoints, endpoint);
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
    for (size_t i = 0; i < count; i++)
        form_free(endpoints->forms[i]);
}

/* ---- reports ---- */

static void endpoint_log_change(struct endpoints *endpoints, const struct endpoint *endpoint,
                                const struct target_report *report, int64_t now_ms)
{
    if (endpoint->breaker.is_open)
        endpoints->resting++;
    else
        endpoints->resting--;
    if (endpoint->breaker.is_open)
        log_event(LOG_WARN, "endpoint paused", LOG_TEXT("endpoint", endpoint->name),
                  LOG_TEXT("error", report->error),
                  LOG_NUMBER("probe_in_ms", endpoint->breaker.wait_until_ms - now_ms));
    else
        log_event(LOG_INFO, "endpoint works again", LOG_TEXT("endpoint", endpoint->name));
}

/* Rests after a report, if the peer asked for it. */
static void breaker_learn_rest(struct breaker *breaker, const struct target_report *report,
                               int64_t now_ms)
{
    if (report->retry_after_ms > 0)
        breaker_rest(breaker, now_ms + (report->retry_after_ms < ENDPOINT_REST_MS_MAX
                                            ? report->retry_after_ms
                                            : ENDPOINT_REST_MS_MAX));
}

/* Updates the breaker of the URL. Returns true if it opened, closed or was probed. */
static bool path_learn(struct endpoints *endpoints, const struct endpoint_request *request,
                       const struct target_report *report, int64_t now_ms)
{
    struct path *path = report->is_limited ? paths_claim(&endpoints->paths, request->path)
                                           : paths_find(&endpoints->paths, request->path);
    if (!path)
        return false;
    /* Another URL may have had its place meanwhile. */
    bool was_probe = request->is_path_probe && path->breaker.is_probing, changed = false;
    if (report->outcome != TARGET_UNSENT)
        changed = breaker_report(&path->breaker, was_probe, report->is_limited, now_ms,
                                 &endpoints->random);
    else if (was_probe)
        breaker_void_probe(&path->breaker, now_ms);
    if (report->is_limited)
        breaker_learn_rest(&path->breaker, report, now_ms);
    return changed || was_probe;
}

/* Updates the breakers and the pace from a report. */
static void endpoint_learn(struct endpoints *endpoints, struct endpoint *endpoint,
                           const struct endpoint_request *request,
                           const struct target_report *report, double took_ms)
{
    bool was_probe = request->is_probe;
    int64_t now_ms = clock_inner_ms_of(endpoints->clock), process_ms = clock_inner_ms();
    bool changed = false;
    /* A message that was not sent, without a fault of the endpoint, does not count as a success. */
    if (report->outcome != TARGET_UNSENT || report->is_ailing)
        changed = breaker_report(&endpoint->breaker, was_probe, report->is_ailing, now_ms,
                                 &endpoints->random);
    else if (was_probe)
        breaker_void_probe(&endpoint->breaker, now_ms);
    if (report->is_ailing)
        breaker_learn_rest(&endpoint->breaker, report, now_ms);
    if (changed)
        endpoint_log_change(endpoints, endpoint, report, now_ms);
    if (path_learn(endpoints, request, report, now_ms) || changed || was_probe)
        endpoints->changed(endpoints->owner, endpoint);
    endpoint_show(endpoints, endpoint);
    congestion_learn(&endpoint->congestion, took_ms, process_ms);
    congestion_learn(&endpoints->congestion, took_ms, process_ms);
}

/* Removes a request in flight. A closing endpoint is freed with its last request. */
static void endpoint_unload(struct endpoints *endpoints, struct endpoint *endpoint,
                            bool was_windowed)
{
    assert(endpoint->in_flight > 0);
    endpoint->windowed -= was_windowed;
    if (endpoint->windowed == 0)
        endpoint->congestion.next_ms = 0;
    counter_set(&endpoint->tally->in_flight, --endpoint->in_flight);
    if (endpoint->in_flight > 0)
        return;
    if (!endpoint->target) {
        endpoint_free(endpoints, endpoint);
        return;
    }
    endpoint->idle_since_ms = clock_inner_ms();
    bool was_none = list_is_empty(&endpoints->idle);
    list_add_last(&endpoints->idle, &endpoint->idle);
    if (was_none)
        endpoints_set_sweep(endpoints);
}

static void on_reported(void *owner, uint64_t tag, const struct target_report *report)
{
    struct endpoints *endpoints = owner;
    uint32_t id = (uint32_t)tag;
    assert(id > 0 && id <= endpoints->sent_messages.top);
    const struct sent_message *sent = slab_at(&endpoints->sent_messages, id);
    assert(sent->handle == tag); /* otherwise it was reported twice */
    struct endpoint_request *request = sent->request;
    slab_remove(&endpoints->sent_messages, id);
    int64_t took_us = clock_boot_us() - request->sent_us;
    double took_ms = (double)took_us / 1000;
    endpoint_tally_report(&endpoints->tallies, request->endpoint->tally, report, took_us,
                          clock_inner_ms());
    if (request->endpoint->target)
        endpoint_learn(endpoints, request->endpoint, request, report, took_ms);
    endpoint_unload(endpoints, request->endpoint, request->window > 0);
    request->reported(request, report, (int64_t)took_ms);
}

/* ---- all endpoints ---- */

bool endpoints_init(struct endpoints *endpoints, const struct target_env *env)
{
    *endpoints =
        (struct endpoints){.env = *env, .clock = &clock_process, .random.state = random_u64()};
    endpoints->env.reported = on_reported;
    endpoints->env.owner = endpoints;
    list_init(&endpoints->idle);
    endpoint_tallies_init(&endpoints->tallies);
    slab_init(&endpoints->sent_messages, sizeof(struct sent_message));
    endpoints->sweep = deadline_new(env->reactor, on_sweep, endpoints);
    return message_id_init(&endpoints->ids, env->store_name, env->store) && endpoints->sweep;
}

int64_t endpoints_next_ms(const struct endpoints *endpoints)
{
    int64_t now_ms = clock_inner_ms_of(endpoints->clock), next_ms = INT64_MAX;
    for (struct endpoint *at = endpoint_table_first(&endpoints->table); at;
         at = endpoint_table_next(&endpoints->table, at))
        if (at->breaker.wait_until_ms > now_ms && at->breaker.wait_until_ms < next_ms)
            next_ms = at->breaker.wait_until_ms;
    for (size_t i = 0; i < PATHS_MAX; i++) {
        int64_t until_ms = endpoints->paths.at[i].breaker.wait_until_ms;
        if (until_ms > now_ms && until_ms < next_ms)
            next_ms = until_ms;
    }
    return next_ms;
}

void endpoints_forgive(struct endpoints *endpoints)
{
    memset(&endpoints->paths, 0, sizeof endpoints->paths);
    for (struct endpoint *at = endpoint_table_first(&endpoints->table); at;
         at = endpoint_table_next(&endpoints->table, at)) {
        endpoints->resting -= at->breaker.is_open;
        at->breaker = (struct breaker){0};
        endpoint_show(endpoints, at);
        endpoints->changed(endpoints->owner, at);
    }
}

bool endpoints_close_all(struct endpoints *endpoints, void (*closed)(void *ctx), void *ctx)
{
    struct endpoint *next;
    assert(endpoints->pending_count == 0);
    endpoints->is_closing = true;
    endpoints->closed = closed;
    endpoints->closed_ctx = ctx;
    endpoints->closing++; /* so that the count cannot reach 0 yet */
    for (struct endpoint *at = endpoint_table_first(&endpoints->table); at; at = next) {
        next = endpoint_table_next(&endpoints->table, at);
        at->in_flight++; /* keeps it during the loop */
        if (at->target)
            endpoint_close_target(endpoints, at);
        if (--at->in_flight == 0)
            endpoint_free(endpoints, at);
    }
    endpoints->closing--;
    endpoints_set_sweep(endpoints);
    return !endpoints_are_closed(endpoints);
}

void endpoints_fini(struct endpoints *endpoints)
{
    message_id_fini(&endpoints->ids);
    if (!endpoints->sweep)
        return;
    endpoints_close_all(endpoints, NULL, NULL);
    /* A closing target may be waiting for a thread, for which the loop has nothing to wait for. */
    for (int i = 0; i < CLOSE_ROUNDS_MAX && !endpoints_are_closed(endpoints); i++) {
        uv_run(reactor_loop(endpoints->env.reactor), UV_RUN_NOWAIT);
        usleep(endpoints_are_closed(endpoints) ? 0 : CLOSE_ROUND_US);
    }
    deadline_free(endpoints->sweep);
    endpoint_table_fini(&endpoints->table);
    endpoint_tallies_fini(&endpoints->tallies);
    slab_fini(&endpoints->sent_messages);
}
