#include "server/server.h"

#include "access/call.h"
#include "api/api.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/timestamp.h"
#include "base/trouble.h"
#include "http/front.h"
#include "intake/intake.h"
#include "monitor/monitor.h"
#include "net/thread.h"
#include "queue/door.h"
#include "server/backend.h"
#include "server/callers.h"
#include "server/certificates.h"
#include "server/config.h"
#include "server/delivery.h"
#include "server/drain.h"
#include "server/grpc_calls.h"
#include "server/limits.h"
#include "server/listening.h"
#include "server/live_config.h"
#include "server/process.h"
#include "server/protocol.h"
#include "server/schedules.h"
#include "server/sign_in.h"
#include "server/store_state.h"
#include "server/test_clock.h"
#include "server/traces.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    KEEP_MS = 3000,       /* maximum part of the stop time that is reserved for the store */
    FREE_S = 3,           /* time for the cleanup after all data is stored */
    WATCH_KEPT_MS = 1000, /* after the last waiting take of a topic */
    FILES_BESIDE = 200,   /* descriptors other than connections */
    REACTORS_MAX = 64,
    ERROR_BYTES = BACKEND_ERROR_BYTES
};

enum phase { STARTING = 1, SERVING, DRAINING, STOPPING, STOPPED };

struct per_reactor {
    struct letter drain, drained;
    struct server *server;
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct http_front *front;
    uint32_t index;
    int attached; /* 0, or negative errno with `error` */
    char error[ERROR_BYTES];
};

/* New options for a front. Heap-allocated; freed when they are applied. */
struct change {
    struct letter letter;
    struct http_front *front;
    struct http_options options;
};

struct server {
    struct letter broken;
    atomic_bool is_broken; /* the store failed */
    struct live_config config;
    struct listening listening;
    enum phase phase;
    struct backend backend;
    struct http_shared *http;
    struct lateness *lateness;
    struct http_backup_hooks backup_hooks;
    struct test_clock_keeper *test_clock; /* NULL: ordinary clock */
    struct reactor *reactors[REACTORS_MAX];
    struct http_drain_hooks drain_hooks;
    struct drain drained; /* true while new jobs are refused */
    struct delivery delivery;
    struct schedules schedules;
    struct callers callers;
    struct http_sign_in sign_in;
    struct limits limits;
    struct store_state store_state;
    struct certificates certificates;
    struct traces traces;
    struct watchdog watchdog;
    struct intake *intakes[INTAKES]; /* NULL if not configured */
    struct access_call intake_call;  /* caller for which the intake pushes */
    void *mykit, *sqs; /* of protocol_mykit and protocol_sqs; NULL if not configured */
    void *side_front;  /* of side_front_beanstalk; NULL if not configured */
    struct feed *feed;
    struct per_reactor *per_reactor;
    uint32_t reactor_count, draining; /* draining: remaining fronts, delivery, intake, SQS */
    uv_signal_t signals[4];
    size_t signals_open;
    struct deadline *stop_timer; /* timeout of a stop */
    int64_t started_us, recovered_ms;
    uint64_t files; /* descriptors that may be open */
};

/* Logs why the server does not start. */
static bool start_failed(const char *error)
{
    log_event(LOG_ERROR, "start failed", LOG_TEXT("error", error));
    return false;
}

/* ---- stopping, on reactor 0 ---- */

static void stop_reactors(struct server *server)
{
    for (uint32_t i = 0; i < server->reactor_count; i++)
        reactor_stop(server->per_reactor[i].reactor);
}

static void on_stopped(void *ctx)
{
    struct server *server = ctx;
    server->phase = STOPPED;
    stop_reactors(server);
}

/* Returns the time for current requests and deliveries; the rest is reserved for the store. */
static int64_t drain_ms(const struct server *server)
{
    int64_t grace_ms = server->config.now->grace_ms;
    return grace_ms - (grace_ms / 4 < KEEP_MS ? grace_ms / 4 : KEEP_MS);
}

static void stop_queue(struct server *server)
{
    if (server->phase != DRAINING)
        return;
    server->phase = STOPPING;
    traces_stop(&server->traces, server->config.now->grace_ms - drain_ms(server));
    deadline_set(server->stop_timer, clock_inner_ms() + server->backend.stop_ms);
    server->backend.ops->stop(&server->backend, on_stopped, server);
}

static void on_stop_timeout(void *ctx)
{
    struct server *server = ctx;
    if (server->phase == DRAINING) {
        log_event(LOG_WARN, "connections cut", LOG_NUMBER("after_ms", drain_ms(server)));
        stop_queue(server);
        return;
    }
    log_event(LOG_ERROR, "stop failed", LOG_TEXT("error", "the store did not finish in time"),
              LOG_NUMBER("after_ms", server->backend.stop_ms));
    _exit(1);
}

static void one_is_drained(void *ctx)
{
    struct server *server = ctx;
    if (--server->draining == 0)
        stop_queue(server);
}

static void run_drained(struct letter *letter)
{
    struct per_reactor *per =
        (struct per_reactor *)(void *)((char *)letter - offsetof(struct per_reactor, drained));
    one_is_drained(per->server);
}

/* The functions from here run on the reactor's own thread ... */
static void on_drained(void *ctx)
{
    struct per_reactor *per = ctx;
    per->drained.run = run_drained;
    reactor_post(per->server->per_reactor[0].reactor, &per->drained);
}

static void run_drain(struct letter *letter)
{
    struct per_reactor *per = (struct per_reactor *)(void *)letter;
    http_front_drain(per->front, on_drained, per);
    waiters_drain(per->waiters);
}
/* ... up to here. */

static void drain(struct server *server, const char *why)
{
    log_event(LOG_INFO, "stopping", LOG_TEXT("reason", why));
    audit_event(&(struct audit_event){
        .action = "drain begun", .kind = "server", .detail = why, .outcome = AUDIT_OUTCOME_OK});
    process_notify("STOPPING=1");
    server->phase = DRAINING;
    http_shared_set_ready(server->http, false);
    listening_close(&server->listening);
    deadline_set(server->stop_timer, clock_inner_ms() + drain_ms(server));
    if (server->test_clock)
        test_clock_keeper_stop(server->test_clock);
    server->draining = server->reactor_count + 1 + (server->side_front != NULL) +
                       (server->sqs != NULL) + schedules_are_built;
    for (size_t i = 0; i < INTAKES; i++)
        server->draining += server->intakes[i] != NULL;
    schedules_stop(&server->schedules, one_is_drained, server);
    if (server->sqs)
        protocol_sqs.stop(server->sqs, one_is_drained, server);
    if (server->side_front)
        side_front_beanstalk.stop(server->side_front, one_is_drained, server);
    for (size_t i = 0; i < INTAKES; i++)
        if (server->intakes[i])
            intake_stop(server->intakes[i], one_is_drained, server);
    delivery_stop(&server->delivery, drain_ms(server) * 4 / 5, one_is_drained, server);
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        server->per_reactor[i].drain.run = run_drain;
        reactor_post(server->per_reactor[i].reactor, &server->per_reactor[i].drain);
    }
}

static void run_broken(struct letter *letter)
{
    struct server *server = (struct server *)(void *)letter;
    if (server->phase == SERVING)
        drain(server, "the store failed");
}

/* Starts a stop when jobs can no longer be stored. Called on any shard's thread, possibly more than
 * once. */
static void on_broken(void *ctx)
{
    struct server *server = ctx;
    if (atomic_exchange(&server->is_broken, true))
        return;
    server->broken.run = run_broken;
    reactor_post(server->per_reactor[0].reactor, &server->broken);
}

/* ---- reloading the configuration ---- */

static struct http_options front_options(struct server *server)
{
    const struct config *config = server->config.now;
    uint32_t reactors = server->reactor_count;
    return (struct http_options){
        .listeners = &server->listening.api,
        .allowed_hosts = config->allowed_host,
        .cors_origins = config->cors_origin[0] ? config->cors_origin : NULL,
        .body_bytes_max = (uint64_t)config->max_body_bytes,
        .result_bytes_max = (uint64_t)config->max_result_bytes,
        .connections_max = (config->max_connections + reactors - 1) / reactors,
        .waiting_max = (config->max_waiting + reactors - 1) / reactors,
        .idle_ms = config->idle_timeout_ms,
    };
}

/* Applies the options on the reactor's own thread. */
static void run_change(struct letter *letter)
{
    struct change *change = (struct change *)(void *)letter;
    http_front_change(change->front, &change->options);
    free(change);
}

/* Applies the current configuration to all parts. */
static void take_over(struct server *server)
{
    server->certificates.config = server->config.now;
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        struct change *change = malloc(sizeof *change);
        if (!change) {
            log_event(LOG_ERROR, "configuration not applied by all threads",
                      LOG_TEXT("error", "out of memory"));
            return;
        }
        *change = (struct change){.letter.run = run_change,
                                  .front = server->per_reactor[i].front,
                                  .options = front_options(server)};
        reactor_post(server->per_reactor[i].reactor, &change->letter);
    }
}

/* Notifies systemd of the reload. For units of Type=notify-reload, systemd then waits for
 * READY=1. */
static void notify_reloading(void)
{
    char state[80];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    process_notify(state);
}

/* Reads everything again that was read at the start, each part independently. If a part is invalid,
 * its previous state stays in force. */
static void reload(struct server *server)
{
    char detail[CONFIG_NAMES_BYTES] = "";
    notify_reloading();
    bool is_open = log_reopen();
    trouble_note(TROUBLE_LOG_FILE, 0, !is_open);
    if (!is_open)
        log_event(LOG_ERROR, "log not reopened", LOG_TEXT("error", strerror(errno)));
    else
        log_event(LOG_INFO, "log reopened");
    is_open = audit_reopen();
    trouble_note(TROUBLE_AUDIT_FILE, 1, !is_open);
    if (!is_open)
        log_event(LOG_ERROR, "audit file not reopened", LOG_TEXT("error", strerror(errno)));
    bool is_changed, is_good = live_config_reload(&server->config, &is_changed, detail);
    if (is_changed)
        take_over(server);
    audit_event(&(struct audit_event){.action = "configuration reloaded",
                                      .kind = "server",
                                      .detail = detail[0] ? detail : "SIGHUP",
                                      .outcome = is_good ? AUDIT_OUTCOME_OK : "bad_configuration"});
    delivery_reload(&server->delivery);
    callers_reload(&server->callers);
    certificates_reload(&server->certificates);
    process_notify("READY=1");
}

/* Refuses new jobs, or accepts them again. Any reactor's thread. */
static bool on_drain(void *ctx, bool on, struct reactor *reactor,
                     void (*done)(void *owner, uint64_t tag), void *owner, uint64_t tag)
{
    const struct server *server = ctx;
    log_event(LOG_INFO, on ? "new jobs refused" : "new jobs accepted again");
    return drain_set(&server->drained, on, reactor, done, owner, tag);
}

static void drain_by_signal(struct server *server)
{
    bool is_done = on_drain(server, true, server->per_reactor[0].reactor, NULL, NULL, 0);
    audit_event(&(struct audit_event){.action = "new jobs refused",
                                      .kind = "server",
                                      .detail = "SIGUSR1",
                                      .outcome = is_done ? AUDIT_OUTCOME_OK : "no_memory"});
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *server = handle->data;
    if (number == SIGUSR1) {
        if (server->phase == SERVING)
            drain_by_signal(server);
        return;
    }
    if (number == SIGHUP) {
        if (server->phase == SERVING)
            reload(server);
        return;
    }
    if (server->phase != SERVING) {
        log_event(LOG_WARN, "stopped immediately", LOG_TEXT("signal", strsignal(number)));
        _exit(1);
    }
    drain(server, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* ---- starting ---- */

static bool open_watchdog(struct server *server)
{
    if (!watchdog_open(&server->watchdog, server->per_reactor[0].reactor))
        return start_failed("out of memory");
    for (uint32_t i = 1; i < server->reactor_count; i++)
        watchdog_add(&server->watchdog, server->per_reactor[i].reactor);
    return true;
}

/* Opens the listeners before any long operation, so that a port in use is reported immediately. */
static bool open_listeners(struct server *server)
{
    char error[LISTENER_ERROR_BYTES];
    return listening_open(&server->listening, server->config.now, error) || start_failed(error);
}

/* Opens the callers. The store may contain tokens that are not configured; they are required
 * then. */
static bool open_callers(struct server *server)
{
    char error[ACCESS_ERROR_BYTES] = "";
    if (!callers_open(&server->callers, server->config.now, server->per_reactor[0].reactor, error))
        return start_failed(error);
    if (access_is_on(server->callers.access))
        listening_require_tokens(&server->listening);
    return true;
}

static bool open_feed(struct server *server)
{
    server->feed = feed_new(server->reactor_count);
    if (!server->feed)
        return start_failed("out of memory");
    for (uint32_t i = 0; i < server->reactor_count; i++)
        if (!feed_desk_open(server->feed, i, server->per_reactor[i].reactor))
            return start_failed("cannot make a timer, out of memory or file descriptors");
    server->backend.ops->set_feed(&server->backend, server->feed);
    return true;
}

static bool open_queue(struct server *server)
{
    char error[ERROR_BYTES] = "";
    struct backend *backend = &server->backend;
    backend->ops = config_is_sql(server->config.now)     ? &backend_sql
                   : config_is_redis(server->config.now) ? &backend_redis
                                                         : &backend_embedded;
    if (backend->ops->open(backend, server->config.now, on_broken, server, error) != 0)
        return start_failed(error);
    server->reactor_count = server->backend.reactors;
    assert(server->reactor_count <= REACTORS_MAX);
    server->per_reactor = calloc(server->reactor_count, sizeof *server->per_reactor);
    if (!server->per_reactor)
        return start_failed("out of memory");
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        struct per_reactor *per = &server->per_reactor[i];
        per->server = server;
        per->index = i;
        per->reactor = reactor_new(i);
        if (!per->reactor)
            return start_failed("cannot make an event loop, out of memory or file descriptors");
    }
    return open_feed(server);
}

static void attach(void *ctx)
{
    struct per_reactor *per = ctx;
    struct backend *backend = &per->server->backend;
    per->attached =
        backend->ops->attach(backend, per->index, per->reactor, &per->queue, per->error);
}

/* Recovers all shards in parallel, each on a thread. */
static bool recover(struct server *server)
{
    pthread_t threads[REACTORS_MAX];
    bool started[REACTORS_MAX] = {false};
    for (uint32_t i = 1; i < server->reactor_count; i++)
        started[i] = thread_start(&threads[i], "recover", attach, &server->per_reactor[i]) == 0;
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        if (started[i])
            thread_join(threads[i]);
        else
            attach(&server->per_reactor[i]);
    }
    for (uint32_t i = 0; i < server->reactor_count; i++)
        if (server->per_reactor[i].attached != 0)
            return start_failed(server->per_reactor[i].error);
    server->recovered_ms = (clock_boot_us() - server->started_us) / 1000;
    return true;
}

static bool open_front(struct server *server, struct per_reactor *per)
{
    char error[LISTENER_ERROR_BYTES] = "";
    struct http_options options = front_options(server);
    options.desk = feed_desk_at(server->feed, per->index);
    per->waiters = waiters_new(per->queue, options.waiting_max);
    if (!per->waiters)
        return start_failed("out of memory");
    if (config_is_redis(server->config.now)) /* an empty take is a round trip */
        waiters_keep(per->waiters, WATCH_KEPT_MS, clock_inner_ms);
    return http_front_new(per->reactor, per->queue, per->waiters, &options, server->http,
                          &per->front, error) == 0 ||
           start_failed(error);
}

static void emit_loops(const struct server *server, struct metric_page *page)
{
    struct reactor *reactors[REACTORS_MAX];
    for (uint32_t i = 0; i < server->reactor_count; i++)
        reactors[i] = server->per_reactor[i].reactor;
    reactor_emit_metrics(reactors, server->reactor_count, page);
}

static bool emit_metrics(void *ctx, struct metric_page *page, uint32_t part)
{
    struct server *server = ctx;
    struct backend *backend = &server->backend;
    switch (part) {
    case 0:
        if (backend->ops->emit_metrics)
            backend->ops->emit_metrics(backend, page);
        return true;
    case 1:
        delivery_emit_metrics(&server->delivery, page);
        schedules_emit_metrics(&server->schedules, page);
        return true;
    case 2:
        for (size_t i = 0; i < INTAKES; i++)
            intake_emit_metrics(server->intakes[i], page);
        access_emit_metrics(server->callers.access, page);
        quota_emit_metrics(server->limits.quota, page);
        certificates_emit_metrics(&server->certificates, page);
        tracer_emit_metrics(server->traces.tracer, page);
        return true;
    case 3:
        emit_loops(server, page);
        return true;
    case 4:
        process_emit_metrics(page);
        return true;
    default:
        return false;
    }
}

static void on_backup(void *ctx, struct reactor *reactor, enum http_backup what, struct slice id,
                      http_tested *done, void *owner, uint64_t tag)
{
    struct server *server = ctx;
    server->backend.ops->backup(&server->backend, reactor, what, id, done, owner, tag);
}

/* Returns the limit of the memory for client requests. */
static uint64_t memory_bytes_max(const struct config *config)
{
    uint64_t least = (uint64_t)config_memory_bytes_least(config);
    uint64_t quarter = machine_memory_bytes("") / 4;
    if (config->max_request_memory_bytes)
        return (uint64_t)config->max_request_memory_bytes;
    return quarter > least ? quarter : least;
}

/* Opens the test clock if it is configured. */
static bool open_test_clock(struct server *server)
{
    struct backend *backend = &server->backend;
    if (!backend->ops->clock || !backend->ops->clock->clock(backend))
        return true;
    for (uint32_t i = 0; i < server->reactor_count; i++)
        server->reactors[i] = server->per_reactor[i].reactor;
    server->test_clock =
        test_clock_keeper_new(backend, server->per_reactor[0].queue, &server->delivery,
                              server->reactors, server->reactor_count);
    if (!server->test_clock)
        return start_failed("out of memory");
    http_shared_set_clock_hooks(server->http, test_clock_keeper_hooks(server->test_clock));
    return true;
}

/* Opens the other APIs on the fronts' connections. */
static bool open_protocols(struct server *server)
{
    char error[PROTOCOL_ERROR_BYTES] = "";
    const struct config *config = server->config.now;
    if (config->mykit[0])
        server->mykit = protocol_mykit.open(config, server->http, error);
    if (config->sqs[0] && !error[0])
        server->sqs = protocol_sqs.open(config, server->http, error);
    return !error[0] || start_failed(error);
}

/* Starts their background work after the fronts are open. */
static bool attach_protocols(struct server *server)
{
    const struct per_reactor *per = &server->per_reactor[0];
    return !server->sqs ||
           protocol_sqs.attach(server->sqs, per->reactor, per->queue, per->waiters) ||
           start_failed("out of memory");
}

static bool open_fronts(struct server *server)
{
    char error[TLS_ERROR_BYTES] = "";
    server->http = http_shared_new(TARRY_VERSION);
    server->lateness = lateness_new(server->config.now->metrics_topics);
    if (!server->http || !server->lateness || !api_open(server->http))
        return start_failed("out of memory");
    schedules_open_calls(server->http, server->config.now->tzdir);
    monitor_open(server->http);
    grpc_calls_open(server->http);
    http_shared_set_access(server->http, server->callers.access);
    if (sign_in_read(server->config.now, &server->sign_in))
        http_shared_set_sign_in(server->http, &server->sign_in);
    http_shared_set_trace_url(server->http, server->config.now->trace_url);
    if (!limits_open(&server->limits, server->config.now))
        return start_failed("out of memory");
    http_shared_set_quota(server->http, server->limits.quota);
    http_shared_set_tracer(server->http, server->traces.tracer);
    http_shared_set_memory(server->http, memory_bytes_max(server->config.now));
    http_shared_set_lateness(server->http, server->lateness);
    http_shared_add_metrics(server->http, emit_metrics, server);
    store_state_open(&server->store_state, &server->backend);
    http_shared_set_server_hooks(server->http, &server->store_state.hooks);
    if (!certificates_open(&server->certificates, server->config.now, server->http,
                           server->per_reactor[0].reactor, error))
        return start_failed(error);
    server->backup_hooks = (struct http_backup_hooks){.ctx = server, .backup = on_backup};
    if (server->backend.ops->backup)
        http_shared_set_backup_hooks(server->http, &server->backup_hooks);
    if (!open_test_clock(server) || !open_protocols(server))
        return false;
    server->drain_hooks = (struct http_drain_hooks){.ctx = server, .drain = on_drain};
    http_shared_set_drain_hooks(server->http, &server->drain_hooks);
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        drain_add(&server->drained, server->per_reactor[i].reactor, server->per_reactor[i].queue);
        if (server->config.now->drain) /* no reactor is running yet */
            queue_drain(server->per_reactor[i].queue, true);
    }
    for (uint32_t i = 0; i < server->reactor_count; i++)
        if (!open_front(server, &server->per_reactor[i]))
            return false;
    const char *kept = server->backend.ops->disk ? server->config.now->data : NULL;
    return monitor_look(server->http, server->per_reactor[0].reactor, server->per_reactor[0].queue,
                        kept) ||
           start_failed("out of memory");
}

static bool open_delivery(struct server *server)
{
    const struct per_reactor *per = &server->per_reactor[0];
    char error[DELIVERY_ERROR_BYTES] = "";
    if (!delivery_open(&server->delivery, server->config.now, &server->backend, per->reactor,
                       per->queue, per->waiters, server->lateness, server->traces.tracer, error))
        return start_failed(error);
    http_shared_set_hooks(server->http, &server->delivery.hooks);
    for (uint32_t i = 0; i < server->reactor_count; i++)
        queue_rule_callbacks(server->per_reactor[i].queue, &server->delivery.callbacks);
    return schedules_open(&server->schedules, server->config.now->tzdir, &server->delivery.hooks,
                          per->reactor, per->queue, per->waiters,
                          feed_desk_at(server->feed, per->index)) ||
           start_failed("out of memory");
}

static void look_at_store(void *ctx)
{
    store_state_look(ctx);
}

/* Attaches the limits after the delivery, which forwards its topic events. */
static bool attach_limits(struct server *server)
{
    const struct per_reactor *per = &server->per_reactor[0];
    server->limits.on_look = look_at_store;
    server->limits.on_look_ctx = &server->store_state;
    return limits_attach(&server->limits, server->http, per->queue, per->reactor) ||
           start_failed("out of memory");
}

static bool open_intakes(struct server *server)
{
    const struct per_reactor *per = &server->per_reactor[0];
    const struct config *config = server->config.now;
    const struct {
        const struct intake_kind *kind;
        const char *url;
    } given[INTAKES] = {{&intake_amqp, config->amqp_in}, {&intake_kafka, config->kafka_in}};
    server->intake_call = (struct access_call){
        .queue.rules = &access_rules, .quota = server->limits.quota, .caller = access_anyone()};
    for (size_t i = 0; i < INTAKES; i++) {
        const struct intake_options options = {.reactor = per->reactor,
                                               .queue = per->queue,
                                               .guard = server->delivery.guard,
                                               .caller = &server->intake_call.queue,
                                               .version = TARRY_VERSION,
                                               .url = given[i].url};
        char error[INTAKE_ERROR_BYTES] = "";
        if (!given[i].url[0])
            continue;
        server->intakes[i] = intake_new(given[i].kind, &options, error);
        if (!server->intakes[i])
            return start_failed(error);
    }
    return true;
}

static bool open_side_front(struct server *server)
{
    const struct per_reactor *per = &server->per_reactor[0];
    const struct config *config = server->config.now;
    int64_t job_bytes = config->beanstalk_job_bytes < config->max_body_bytes
                            ? config->beanstalk_job_bytes
                            : config->max_body_bytes;
    const struct side_front_options options = {.reactor = per->reactor,
                                               .queue = per->queue,
                                               .waiters = per->waiters,
                                               .listener = &server->listening.side.at[0],
                                               .quota = server->limits.quota,
                                               .budget = http_shared_budget(server->http),
                                               .job_bytes_max = (uint32_t)job_bytes,
                                               .connections_max = config->max_connections};
    char error[SIDE_FRONT_ERROR_BYTES] = "";
    if (!server->listening.side.count)
        return true;
    server->side_front = side_front_beanstalk.open(&options, error);
    return server->side_front || start_failed(error);
}

static bool watch_signals(struct server *server)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    uv_loop_t *loop = reactor_loop(server->per_reactor[0].reactor);
    server->stop_timer = deadline_new(server->per_reactor[0].reactor, on_stop_timeout, server);
    if (!server->stop_timer)
        return start_failed("out of memory");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uv_signal_t *handle = &server->signals[i];
        if (uv_signal_init(loop, handle) != 0)
            return start_failed("cannot watch for signals");
        handle->data = server;
        server->signals_open++;
        if (uv_signal_start(handle, on_signal, numbers[i]) != 0)
            return start_failed("cannot watch for signals");
    }
    return true;
}

static void log_listening(struct server *server, size_t topics, uint64_t jobs)
{
    const struct listener *first = &server->listening.api.at[0];
    const char *kind = config_is_mysql(server->config.now)   ? "mysql"
                       : config_is_sql(server->config.now)   ? "postgres"
                       : config_is_redis(server->config.now) ? "redis"
                                                             : "data";
    struct queue *queue = server->per_reactor[0].queue;
    struct queue_info info = {0};
    char words[LISTENER_WORDS_BYTES];
    queue_info(queue, &info);
    listening_log_others(&server->listening);
    listener_words(first, words);
    char shown[TIMESTAMP_BYTES + 1] = "";
    if (queue->clock && clock_is_held(queue->clock)) {
        timestamp_write(shown, queue_wall_ms(queue));
        log_event(LOG_WARN, "test clock: no job falls due until the clock is moved",
                  LOG_TEXT("shows", shown));
    }
    if (info.draining)
        log_event(LOG_INFO, "new jobs refused");
    log_event(LOG_INFO, "listening", LOG_TEXT("address", first->name),
              LOG_TEXT("store", info.store), LOG_TEXT(kind, server->backend.place),
              LOG_NUMBER("shards", info.shards), LOG_TEXT("sync", info.sync),
              LOG_TEXT("durability", info.durability_class),
              LOG_NUMBER("wait_replicas", info.wait_replicas), LOG_NUMBER("topics", topics),
              LOG_NUMBER("jobs", jobs), LOG_NUMBER("recovered_ms", server->recovered_ms),
              LOG_TEXT("version", TARRY_VERSION),
              words[0]   ? LOG_TEXT("words", words)
              : shown[0] ? LOG_TEXT("test_clock", shown)
                         : (struct log_field){0},
              words[0] && shown[0] ? LOG_TEXT("test_clock", shown) : (struct log_field){0});
}

/* Logs that the server is ready. Called with all topics when the loop runs, so the number of
 * recovered jobs is known. */
static void log_ready(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct server *server = owner;
    uint64_t jobs = 0;
    (void)tag;
    for (size_t i = 0; i < reply->topic_count; i++)
        jobs += queue_counts_jobs(&reply->topics[i].counts);
    log_listening(server, reply->topic_count, jobs);
    http_shared_set_ready(server->http, true);
    process_notify("READY=1");
}

static bool open_traces(struct server *server)
{
    char error[TRACER_ERROR_BYTES] = "";
    return traces_open(&server->traces, server->config.now, error) || start_failed(error);
}

static bool start(struct server *server)
{
    const struct config *config = server->config.now;
    static const char *const few = "raise the limit (ulimit -n) or lower --max-connections";
    if (server->files < (uint64_t)config->max_connections + FILES_BESIDE)
        log_event(LOG_WARN, "few file descriptors", LOG_NUMBER("limit", server->files),
                  LOG_NUMBER("max_connections", config->max_connections), LOG_TEXT("advice", few));
    return open_listeners(server) && open_queue(server) && open_callers(server) &&
           open_traces(server) && recover(server) && open_fronts(server) && open_delivery(server) &&
           attach_limits(server) && attach_protocols(server) && open_intakes(server) &&
           open_side_front(server) && watch_signals(server) && open_watchdog(server);
}

static void run(struct server *server)
{
    server->phase = SERVING;
    struct queue *queue = server->per_reactor[0].queue;
    for (uint32_t i = 1; i < server->reactor_count; i++)
        if (reactor_start(server->per_reactor[i].reactor) != 0) {
            start_failed("cannot start a thread");
            _exit(1);
        }
    queue_topics(queue, (struct queue_reply_to){.done = log_ready, .owner = server});
    delivery_start(&server->delivery);
    schedules_start(&server->schedules);
    callers_start(&server->callers);
    limits_start(&server->limits);
    certificates_start(&server->certificates);
    watchdog_start(&server->watchdog);
    for (size_t i = 0; i < INTAKES; i++)
        if (server->intakes[i])
            intake_start(server->intakes[i]);
    if (server->side_front)
        side_front_beanstalk.start(server->side_front);
    if (server->sqs)
        protocol_sqs.start(server->sqs);
    reactor_run(server->per_reactor[0].reactor);
    for (uint32_t i = 1; i < server->reactor_count; i++)
        reactor_join(server->per_reactor[i].reactor);
    traces_wait(&server->traces);
}

/* Frees everything, also after a start that failed half-way. */
static void fini(struct server *server)
{
    for (size_t i = 0; i < server->signals_open; i++)
        uv_close((uv_handle_t *)&server->signals[i], NULL);
    deadline_free(server->stop_timer);
    watchdog_close(&server->watchdog);
    for (size_t i = 0; i < INTAKES; i++)
        intake_free(server->intakes[i]);
    side_front_beanstalk.free(server->side_front);
    schedules_close(&server->schedules);
    delivery_close(&server->delivery);
    test_clock_keeper_free(server->test_clock);
    for (uint32_t i = 0; server->per_reactor && i < server->reactor_count; i++) {
        struct per_reactor *per = &server->per_reactor[i];
        if (per->front)
            http_front_free(per->front);
        if (per->waiters)
            waiters_free(per->waiters);
    }
    listening_close(&server->listening);
    http_shared_free(server->http);
    protocol_mykit.free(server->mykit);
    protocol_sqs.free(server->sqs);
    lateness_free(server->lateness);
    limits_close(&server->limits);
    store_state_close(&server->store_state);
    callers_close(&server->callers);
    certificates_close(&server->certificates);
    if (server->backend.self)
        server->backend.ops->free(&server->backend);
    feed_free(server->feed);
    traces_close(&server->traces);
    for (uint32_t i = 0; server->per_reactor && i < server->reactor_count; i++)
        if (server->per_reactor[i].reactor)
            reactor_free(server->per_reactor[i].reactor);
    free(server->per_reactor);
    live_config_close(&server->config);
}

bool server_run(const struct config *config, int arg_count, char *const *args)
{
    struct server server = {.config = {.now = config, .arg_count = arg_count, .args = args},
                            .phase = STARTING,
                            .started_us = clock_boot_us()};
    server.files = process_prepare(config->core_dumps);
    if (!log_open(config->log[0] ? config->log : NULL, (enum log_level)config->log_level,
                  config->log_format == CONFIG_LOG_JSON)) {
        char error[ERROR_BYTES];
        snprintf(error, sizeof error, "cannot write the log '%.300s', %s", config->log,
                 strerror(errno));
        return start_failed(error);
    }
    if (config->audit[0] && !audit_open(config->audit)) {
        char error[ERROR_BYTES];
        snprintf(error, sizeof error, "cannot write the audit file '%.300s', %s", config->audit,
                 strerror(errno));
        return start_failed(error);
    }
    bool ok = start(&server);
    if (ok) {
        run(&server);
        ok = server.phase == STOPPED && !server.is_broken;
        if (ok)
            log_event(LOG_INFO, "stopped");
        process_exit_by(FREE_S, ok ? 0 : 1);
    }
    fini(&server);
    process_exit_by(0, 0);
    return ok;
}
