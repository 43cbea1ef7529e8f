/* Jobs in Redis, shared with other servers: one reactor, whatever the number of shards there. */
#include "base/error.h"
#include "base/prometheus.h"
#include "redis/redis.h"
#include "redis/url.h"
#include "server/backend.h"
#include "server/config_redis.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { STOP_MS = REDIS_STOP_MS + 5000 };

/* The URL with the password of the file; and what of it may be shown. */
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

static int on_open(struct backend *backend, const struct config *config, backend_failed *failed,
                   void *ctx, char *error)
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
        .patience_ms = config->redis_patience_ms,
    };
    struct redis *redis = NULL;
    (void)failed; /* a Redis out of reach may come back: the server stays */
    (void)ctx;
    int result = read_url(config, url, backend->place, error);
    if (result == 0)
        result = redis_open(&options, &redis, error, BACKEND_ERROR_BYTES);
    explicit_bzero(url, sizeof url);
    backend->self = redis;
    backend->reactors = 1;
    backend->stop_ms = STOP_MS;
    return result;
}

static int on_attach(struct backend *backend, uint32_t index, struct reactor *reactor,
                     struct queue **out, char *error)
{
    (void)index;
    return redis_attach(backend->self, reactor, out, error, BACKEND_ERROR_BYTES);
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

static const struct row {
    const char *name, *help;
    size_t offset;
} rows[] = {
#define ROW(FIELD, HELP)                                                                           \
    {                                                                                              \
        "tarry_redis_" #FIELD "_total", HELP, offsetof(struct redis_figures, FIELD)                \
    }
    ROW(calls, "Scripts sent to Redis."),
    ROW(jobs, "Jobs, answers and changes in those scripts."),
    ROW(resent, "Calls whose fate had to be settled by asking again."),
    ROW(reconnects, "Connections to Redis made again."),
    ROW(redirects, "Times a cluster said that a slot is elsewhere."),
    ROW(failovers, "Times a shard had another master than before."),
    ROW(clock_disagreements, "Times a shard's clock was not as it ran and put right."),
    ROW(losses, "Times a shard was gone: Redis lost its data."),
    ROW(news_lost, "Looks that found what no message had told."),
#undef ROW
};

static void emit_gauge(struct buffer *out, const char *name, const char *help, int64_t value)
{
    prometheus_family(out, name, PROMETHEUS_GAUGE, help);
    prometheus_sample(out, name, NULL, value);
}

static void on_emit_metrics(struct backend *backend, struct buffer *out)
{
    struct redis_figures figures = {0};
    redis_figures(backend->self, &figures);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *field = (const char *)&figures + rows[i].offset;
        uint64_t value;
        memcpy(&value, field, sizeof value);
        prometheus_family(out, rows[i].name, PROMETHEUS_COUNTER, rows[i].help);
        prometheus_sample(out, rows[i].name, NULL, (int64_t)value);
    }
    emit_gauge(out, "tarry_redis_shards", "Shards in Redis.", figures.shards);
    emit_gauge(out, "tarry_redis_shards_up", "Shards whose master is reached.", figures.shards_up);
}

const struct backend_ops backend_redis = {.open = on_open,
                                          .attach = on_attach,
                                          .stop = on_stop,
                                          .store_name = on_store_name,
                                          .free = on_free,
                                          .emit_metrics = on_emit_metrics};
