/* Backend with jobs in Redis, shared with other servers: one reactor, regardless of the number of
 * shards in Redis. */
#include "server/backend.h"
#include "server/callers.h"
#include "server/config.h"
#include "server/secret.h"

#include "base/error.h"
#include "base/json_write.h"
#include "redis/redis.h"
#include "redis/tokens.h"
#include "redis/url.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- config redis ---- */

_Static_assert(REDIS_DURABILITY_MEMORY == CONFIG_DURABILITY_ANY + 1 &&
                   REDIS_DURABILITY_FSYNC_ALWAYS == 5,
               "the choices of require-durability");

bool config_redis_check(const char *store, char *error, size_t error_bytes)
{
    struct redis_url url;
    char why[CONFIG_ERROR_BYTES - 16];
    if (!redis_url_parse(store, &url, why, sizeof why))
        return error_text(error, error_bytes, "bad '--store', %s", why);
    explicit_bzero(&url, sizeof url);
    return true;
}

bool config_redis_holds_password(const char *store)
{
    struct redis_url url;
    char error[CONFIG_ERROR_BYTES];
    bool holds = redis_url_parse(store, &url, error, sizeof error) &&
                 (url.password[0] || url.sentinel_password[0]);
    explicit_bzero(&url, sizeof url);
    return holds;
}

int config_redis_url(const struct config *config, char *url, char *error, size_t error_bytes)
{
    char secret[REDIS_SECRET_BYTES];
    if (strlen(config->store) >= REDIS_URL_BYTES_MAX)
        return error_result(-EINVAL, error, error_bytes,
                            "'--store' is too long, give at most %d bytes",
                            REDIS_URL_BYTES_MAX - 1);
    strcpy(url, config->store);
    if (!config->redis_password_file[0])
        return 0;
    int result =
        secret_read(config->redis_password_file, secret, sizeof secret, error, error_bytes);
    if (result == 0)
        result =
            secret_into_url(config->store, secret, url, REDIS_URL_BYTES_MAX, error, error_bytes);
    explicit_bzero(secret, sizeof secret);
    return result;
}

/* stored_tokens: tokens in Redis. */

_Static_assert((int)REDIS_TOKENS_ERROR_BYTES <= (int)STORED_TOKENS_ERROR_BYTES,
               "errors are handed through");

static int on_open(const struct config *config, void **out, char *error)
{
    char url[REDIS_URL_BYTES_MAX];
    struct redis_tokens *tokens = NULL;
    int result = config_redis_url(config, url, error, STORED_TOKENS_ERROR_BYTES);
    if (result == 0)
        result = redis_tokens_open(url, &tokens, error);
    explicit_bzero(url, sizeof url);
    *out = tokens;
    return result;
}

static int on_read(void *self, struct buffer *out, bool *is_changed, char *error)
{
    return redis_tokens_read(self, out, is_changed, error);
}

static int on_write(void *self, struct slice text, char *error)
{
    return redis_tokens_write(self, text, error);
}

static void on_close(void *self)
{
    redis_tokens_close(self);
}

const struct stored_tokens_ops stored_tokens_redis = {
    .open = on_open, .read = on_read, .write = on_write, .close = on_close};

/* ---- backend redis ---- */

enum { STOP_MS = REDIS_STOP_MS + 5000 };

/* Reads the URL with the password from the file, and the part of it that may be shown. */
static int read_url(const struct config *config, char url[REDIS_URL_BYTES_MAX],
                    char place[BACKEND_PLACE_BYTES], char *error)
{
    struct redis_url parsed;
    int result = config_redis_url(config, url, error, BACKEND_ERROR_BYTES);
    if (result == 0 && !redis_url_parse(url, &parsed, error, BACKEND_ERROR_BYTES))
        result = -EINVAL;
    if (result == 0)
        redis_url_emit(&parsed, place, BACKEND_PLACE_BYTES);
    explicit_bzero(&parsed, sizeof parsed);
    return result;
}

static int redis_on_open(struct backend *backend, const struct config *config,
                         backend_failed *failed, void *ctx, char *error)
{
    char url[REDIS_URL_BYTES_MAX];
    const struct redis_options options = {
        .url = url,
        .shards = config->shards,
        .body_bytes_max = (uint64_t)config->max_body_bytes,
        .topics_max = config->max_topics,
        .wait_replicas = config->wait_replicas,
        .require_durability = config->require_durability == CONFIG_DURABILITY_ANY
                                  ? 0
                                  : (enum redis_durability)config->require_durability,
        .timeout_ms = config->store_timeout_ms,
        .test_clock_ms = config->test_clock_ms,
    };
    struct redis *redis = NULL;
    (void)failed; /* an unreachable Redis may come back: the server keeps running */
    (void)ctx;
    int result = read_url(config, url, backend->place, error);
    if (result == 0)
        result = redis_open(&options, &redis, error, BACKEND_ERROR_BYTES);
    explicit_bzero(url, sizeof url);
    backend->self = redis;
    backend->reactors = 1;
    backend->test_clock_start_ms = config->test_clock_ms;
    backend->stop_ms = STOP_MS;
    return result;
}

static int on_attach(struct backend *backend, uint32_t index, struct reactor *reactor,
                     struct queue **out, char *error)
{
    (void)index;
    return redis_attach(backend->self, reactor, out, error, BACKEND_ERROR_BYTES);
}

static void on_set_feed(struct backend *backend, struct feed *feed)
{
    redis_set_feed(backend->self, feed);
}

static void on_stop(struct backend *backend, void (*stopped)(void *ctx), void *ctx)
{
    redis_stop(backend->self, stopped, ctx);
}

static const char *on_store_name(struct backend *backend)
{
    return redis_store_name(backend->self);
}

static void on_free(struct backend *backend)
{
    redis_free(backend->self);
}

/* ---- metrics ---- */

enum {
    CALLS,
    ITEMS,
    RESENT,
    RECONNECTS,
    REDIRECTS,
    FAILOVERS,
    CLOCK_DISAGREEMENTS,
    LOSSES,
    NOTIFICATIONS_LOST,
    SENT_BYTES,
    RECEIVED_BYTES,
    ROUND_TRIP,
    SCRIPT_DURATION,
    CLOCK_ADJUST,
    SHARDS,
    SHARDS_UP
};

#define ON_REDIS .when = "with `--store redis://…`"

static const struct metric redis_metrics[] = {
    [CALLS] = {.name = "tarry_redis_calls_total",
               .type = PROMETHEUS_COUNTER,
               .help = "Scripts sent to Redis.",
               .meaning = "Each is one round trip; `tarry_redis_items_total` divided by it is the "
                          "number of items per script.",
               ON_REDIS},
    [ITEMS] = {.name = "tarry_redis_items_total",
               .type = PROMETHEUS_COUNTER,
               .help = "Jobs, answers and changes in those scripts.",
               .meaning = "The work that Redis does for this server.",
               ON_REDIS},
    [RESENT] = {.name = "tarry_redis_resent_total",
                .type = PROMETHEUS_COUNTER,
                .help = "Calls without a reply, settled by their tickets.",
                .meaning = "A connection was lost during a call. Nothing was done twice; find out "
                           "why Redis or the network closes it.",
                ON_REDIS},
    [RECONNECTS] = {.name = "tarry_redis_reconnects_total",
                    .type = PROMETHEUS_COUNTER,
                    .labels = {"shard"},
                    .help = "Reconnects to Redis.",
                    .meaning = "Rises again and again: see the runbook page *Redis away*.",
                    ON_REDIS},
    [REDIRECTS] = {.name = "tarry_redis_redirects_total",
                   .type = PROMETHEUS_COUNTER,
                   .help = "Redirects by a cluster because a slot has moved.",
                   .meaning = "Slots are moved, or a master has changed. Nothing to do.",
                   ON_REDIS},
    [FAILOVERS] = {.name = "tarry_redis_failovers_total",
                   .type = PROMETHEUS_COUNTER,
                   .help = "Times a shard had another master than before.",
                   .meaning =
                       "A master was restarted or replaced: check whether jobs may have been "
                       "lost ([redis.md](redis.md#what-an-answered-push-survives)).",
                   ON_REDIS},
    [CLOCK_DISAGREEMENTS] = {.name = "tarry_redis_clock_disagreements_total",
                             .type = PROMETHEUS_COUNTER,
                             .help = "Times a shard's clock deviated and was corrected.",
                             .meaning = "Run NTP on the hosts of Redis; the servers have corrected "
                                        "it.",
                             ON_REDIS},
    [LOSSES] = {.name = "tarry_redis_losses_total",
                .type = PROMETHEUS_COUNTER,
                .help = "Times a shard was gone: Redis lost its data.",
                .meaning = "Jobs are lost: `FLUSHALL`, or a restart that kept nothing. Set the "
                           "topics' settings again and check the persistence of Redis.",
                ON_REDIS},
    [NOTIFICATIONS_LOST] = {.name = "tarry_redis_notifications_lost_total",
                            .type = PROMETHEUS_COUNTER,
                            .help = "Checks that found an event without its message.",
                            .meaning =
                                "Rises steadily: messages between the servers do not arrive, and a "
                                "delivery may come up to a second late. Compare the ACL rule.",
                            ON_REDIS},
    [SENT_BYTES] = {.name = "tarry_redis_sent_bytes_total",
                    .type = PROMETHEUS_COUNTER,
                    .help = "Bytes sent to Redis.",
                    .meaning = "Mostly bodies of jobs that are pushed.",
                    ON_REDIS},
    [RECEIVED_BYTES] = {.name = "tarry_redis_received_bytes_total",
                        .type = PROMETHEUS_COUNTER,
                        .help = "Bytes received from Redis.",
                        .meaning =
                            "Mostly bodies of taken jobs. Grows without deliveries: a client lists "
                            "or scrapes much.",
                        ON_REDIS},
    [ROUND_TRIP] = {.name = "tarry_redis_round_trip_duration_seconds",
                    .type = PROMETHEUS_HISTOGRAM,
                    .labels = {"shard"},
                    .help = "From a call of a script sent to its reply.",
                    .meaning =
                        "The minimum wait of every push, take and ack: the network, the queue of "
                        "Redis, the script. Grows at one shard: its master is busy or far away. "
                        "Grows at all shards: the network, or this server's loop "
                        "(`tarry_loop_iteration_duration_seconds`).",
                    ON_REDIS},
    [SCRIPT_DURATION] = {.name = "tarry_redis_script_duration_seconds",
                         .type = PROMETHEUS_HISTOGRAM,
                         .labels = {"script"},
                         .help = "The same, by script, including the way to Redis and back.",
                         .meaning =
                             "One script much slower than the others, as `list` or `purge` "
                             "may be: it blocks Redis for all clients. `SLOWLOG GET` in Redis has "
                             "the time within Redis.",
                         ON_REDIS},
    [CLOCK_ADJUST] = {.name = "tarry_redis_clock_adjust_seconds",
                      .type = PROMETHEUS_GAUGE,
                      .labels = {"shard"},
                      .help = "Distance of a shard's clock to its master's; negative: behind.",
                      .meaning = "Other than 0: the masters of the shard disagreed about the time. "
                                 "The value stays and does no harm; NTP should prevent changes.",
                      ON_REDIS},
    [SHARDS] = {.name = "tarry_redis_shards",
                .type = PROMETHEUS_GAUGE,
                .help = "Shards in Redis.",
                .meaning = "As configured, or changed by `tarry reshard`.",
                ON_REDIS},
    [SHARDS_UP] = {.name = "tarry_redis_shards_up",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Shards whose master can be reached.",
                   .meaning = "Below `tarry_redis_shards`: see the runbook page *Redis away*.",
                   ON_REDIS},
    METRIC_END};

/* Appends the metrics of each shard: reconnects, clock difference, duration of calls. */
static void emit_shards(struct redis *redis, struct metric_page *page, int row)
{
    metric_begin(page, &redis_metrics[row]);
    for (uint32_t i = 0; i < redis_shard_count(redis); i++) {
        struct redis_shard_summary shard;
        char text[12];
        int len = snprintf(text, sizeof text, "%u", i);
        const struct slice *labels = METRIC_LABELS(slice_make(text, (size_t)len));
        redis_shard_figures(redis, i, &shard);
        if (row == RECONNECTS)
            metric_sample(page, labels, shard.reconnects);
        else if (row == CLOCK_ADJUST)
            metric_sample_time(page, labels, shard.adjust_ms, 1000);
        else
            metric_histogram(page, labels, shard.round_trip_us, &redis_call_bounds);
    }
}

/* Appends the metrics of the scripts that were called. */
static void emit_scripts(struct redis *redis, struct metric_page *page)
{
    metric_begin(page, &redis_metrics[SCRIPT_DURATION]);
    for (uint32_t i = 0; i < redis_script_count(); i++)
        if (buckets_total(redis_script_durations_us(redis, i)) > 0)
            metric_histogram(page, METRIC_LABELS(slice_of(redis_script_name_at(i))),
                             redis_script_durations_us(redis, i), &redis_call_bounds);
}

static void on_emit_metrics(struct backend *backend, struct metric_page *page)
{
    struct redis_figures figures = {0};
    redis_figures(backend->self, &figures);
    metric_write(page, &redis_metrics[CALLS], figures.calls);
    metric_write(page, &redis_metrics[ITEMS], figures.items);
    metric_write(page, &redis_metrics[RESENT], figures.resent);
    emit_shards(backend->self, page, RECONNECTS);
    metric_write(page, &redis_metrics[REDIRECTS], figures.redirects);
    metric_write(page, &redis_metrics[FAILOVERS], figures.failovers);
    metric_write(page, &redis_metrics[CLOCK_DISAGREEMENTS], figures.clock_disagreements);
    metric_write(page, &redis_metrics[LOSSES], figures.data_losses);
    metric_write(page, &redis_metrics[NOTIFICATIONS_LOST], figures.notifications_lost);
    metric_write(page, &redis_metrics[SENT_BYTES], figures.bytes_sent);
    metric_write(page, &redis_metrics[RECEIVED_BYTES], figures.bytes_received);
    metric_write(page, &redis_metrics[SHARDS], figures.shards);
    metric_write(page, &redis_metrics[SHARDS_UP], figures.shards_up);
    emit_shards(backend->self, page, ROUND_TRIP);
    emit_shards(backend->self, page, CLOCK_ADJUST);
    emit_scripts(backend->self, page);
}

/* ---- GET /v1/server ---- */

static void write_master(struct buffer *out, const struct redis_shard_summary *view)
{
    char master[300];
    bool is_v6 = strchr(view->host, ':') != NULL;
    json_write_member(out, "master");
    if (!view->host[0]) {
        buffer_append_text(out, "null");
        return;
    }
    if (view->port)
        (void)snprintf(master, sizeof master, is_v6 ? "[%s]:%u" : "%s:%u", view->host, view->port);
    else
        (void)snprintf(master, sizeof master, "%s", view->host);
    json_write_string(out, slice_of(master));
}

static void write_shard(struct buffer *out, uint32_t shard, const struct redis_shard_summary *view)
{
    buffer_append_byte(out, '{');
    json_write_member_number(out, "shard", shard);
    write_master(out, view);
    json_write_member_bool(out, "connected", view->is_up);
    json_write_member_bool(out, "accepting", !view->is_full);
    if (view->version && view->version[0])
        json_write_member_text(out, "redis_version", slice_of(view->version));
    json_write_member_number(out, "replicas", view->replicas);
    json_write_member_text(out, "durability", slice_of(redis_durability_name(view->durability)));
    json_write_member(out, "round_trip_us");
    if (view->last_round_trip_us)
        buffer_append_i64(out, view->last_round_trip_us);
    else
        buffer_append_text(out, "null");
    json_write_member_number(out, "waiting_calls", view->waiting);
    json_write_member_number(out, "reconnects", view->reconnects);
    json_write_member_number(out, "failovers", view->failovers);
    json_write_member(out, "clock_ahead_ms");
    buffer_append_i64(out, view->adjust_ms);
    buffer_append_byte(out, '}');
}

static void on_write_shards(struct backend *backend, struct buffer *out)
{
    const struct redis *redis = backend->self;
    for (uint32_t i = 0; i < redis_shard_count(redis); i++) {
        struct redis_shard_summary view = {0};
        redis_shard_figures(redis, i, &view);
        if (i)
            buffer_append_byte(out, ',');
        write_shard(out, i, &view);
    }
}

/* ---- test clock ---- */

static struct clock *on_clock(struct backend *backend)
{
    return redis_test_clock(backend->self);
}

static int64_t on_clock_start_ms(struct backend *backend)
{
    return backend->test_clock_start_ms;
}

/* Moves the clock. Inner and wall clock are the same in Redis, and Redis stores the time. */
static void on_clock_settle(struct backend *backend, const struct backend_clock_move *move,
                            backend_settled *settled, void *ctx)
{
    redis_settle(backend->self, move->restarts ? on_clock_start_ms(backend) : move->to_ms, settled,
                 ctx);
}

static void on_clock_on_active(struct backend *backend, void (*active)(void *ctx), void *ctx)
{
    redis_on_active(backend->self, active, ctx);
}

static const struct backend_clock redis_clock_ops = {.clock = on_clock,
                                                     .start_ms = on_clock_start_ms,
                                                     .settle = on_clock_settle,
                                                     .on_active = on_clock_on_active,
                                                     .is_shared = true};

const struct backend_ops backend_redis = {.open = redis_on_open,
                                          .set_feed = on_set_feed,
                                          .attach = on_attach,
                                          .stop = on_stop,
                                          .store_name = on_store_name,
                                          .free = on_free,
                                          .write_shards = on_write_shards,
                                          .emit_metrics = on_emit_metrics,
                                          .metrics = redis_metrics,
                                          .clock = &redis_clock_ops};
