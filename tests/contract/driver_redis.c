/*
 * The queue on Redis: on a real redis-server with one shard and with three, and on a cluster.
 *
 * The suite's clock is a fake one, so Redis' must be the same: support/fake_time.c is preloaded
 * into it, and gets the time before every step. But if the suite steps the wall clock of the
 * machine it is on, Redis' clock continues as before: it is another machine's. One server for the whole
 * program; a new world finds it empty.
 */
#include "driver.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/redis.h"
#include "support/redis_cluster.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATIENCE_US = 20 * 1000 * 1000, MASTERS = 3, RESTS = 20 };

struct redis_driver {
    struct redis *redis;
    struct reactor *reactor;
    struct queue *queue;
    bool stopped;
};

/* ---- the servers, and their time ---- */

static _Atomic int64_t *servers_us;
static struct redis_server *single;
static struct redis_cluster *cluster;

static void share_time(void)
{
    char path[] = "/tmp/tarry-time-XXXXXX";
    int fd = mkstemp(path);

    if (fd < 0 || ftruncate(fd, sizeof *servers_us) != 0 ||
        setenv("TARRY_TEST_FAKE_TIME", path, 1) != 0)
        abort();
    servers_us = mmap(NULL, sizeof *servers_us, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert(servers_us != MAP_FAILED);
    close(fd);
}

static void forget_time(void)
{
    (void)unlink(getenv("TARRY_TEST_FAKE_TIME"));
}

static void report_time(void)
{
    atomic_store(servers_us, clock_inner_ms() * 1000);
}

static void end_single(void)
{
    redis_server_free(single);
}

static void begin_single(void)
{
    static const struct redis_server_options options = {.preload = TARRY_FAKE_TIME_LIBRARY};

    single = redis_server_new(&options);
    atexit(end_single);
}

static void end_cluster(void)
{
    redis_cluster_free(cluster);
}

/* Its nodes are brought together by the real clock; then no jump shall make them doubt each other.
 */
static void begin_cluster(void)
{
    atomic_store(servers_us, 0);
    if (setenv("LD_PRELOAD", TARRY_FAKE_TIME_LIBRARY, 1) != 0)
        abort();
    cluster = redis_cluster_new(MASTERS, 0, NULL);
    (void)unsetenv("LD_PRELOAD");
    for (uint32_t i = 0; i < MASTERS; i++)
        redis_server_do(cluster->nodes[i], "CONFIG SET cluster-node-timeout 1000000000000000");
    atexit(end_cluster);
}

/* ---- open ---- */

/* The same directory again is a restart of ours, which Redis does not notice. */
static bool is_new(const char *dir)
{
    static char last[4096];
    bool same = strcmp(last, dir) == 0;

    snprintf(last, sizeof last, "%s", dir);
    return !same;
}

static void *open_at(const struct driver_options *options, const char *url, uint32_t shards)
{
    struct redis_driver *self = calloc(1, sizeof *self);
    struct redis_options redis = {.url = url,
                                  .shards = shards,
                                  .body_bytes_max = options->body_bytes_max,
                                  .topics_max = options->topics_max};
    char error[512] = "";

    assert(self);
    self->reactor = reactor_new(0);
    if (self->reactor && redis_open(&redis, &self->redis, error, sizeof error) == 0 &&
        redis_attach(self->redis, self->reactor, &self->queue, error, sizeof error) == 0)
        return self;
    fprintf(stderr, "redis: %s\n", error);
    return NULL;
}

static void begin_time(void)
{
    log_open(NULL, LOG_ERROR, false);
    if (!servers_us) {
        share_time();
        atexit(forget_time);
    }
    report_time();
}

static void *open_single(const struct driver_options *options, uint32_t shards)
{
    char url[256];

    begin_time();
    if (!single)
        begin_single();
    if (is_new(options->dir))
        redis_server_do(single, "FLUSHALL");
    snprintf(url, sizeof url, "unix://%s", single->path);
    return open_at(options, url, shards);
}

static void *open_1(const struct driver_options *options)
{
    return open_single(options, 1);
}

static void *open_3(const struct driver_options *options)
{
    return open_single(options, 3);
}

/* Opens a cluster with one shard on each master. */
static void *open_cluster(const struct driver_options *options)
{
    char url[256];

    begin_time();
    if (!cluster)
        begin_cluster();
    report_time();
    if (is_new(options->dir))
        for (uint32_t i = 0; i < MASTERS; i++)
            redis_server_do(cluster->nodes[i], "FLUSHALL");
    snprintf(url, sizeof url, "redis-cluster://127.0.0.1:%u", (unsigned)cluster->nodes[0]->port);
    return open_at(options, url, MASTERS);
}

/* ---- steps ---- */

static struct queue *queue_of(void *ctx)
{
    struct redis_driver *self = ctx;

    return self->queue;
}

/* An iteration waits for nothing, and Redis is another process: it is let run as well. */
static void pump(void *ctx)
{
    struct redis_driver *self = ctx;

    report_time();
    uv_run(reactor_loop(self->reactor), UV_RUN_NOWAIT);
    for (int i = 0; i < RESTS && !redis_is_quiet(self->redis); i++)
        driver_rest();
}

static void moved(void *ctx)
{
    struct redis_driver *self = ctx;
    int64_t until_us = clock_boot_us() + PATIENCE_US;

    do {
        pump(self);
        if (redis_is_quiet(self->redis))
            return;
        driver_rest();
    } while (clock_boot_us() < until_us);
    fprintf(stderr, "redis: something stays due, or under way, for ever\n");
    abort();
}

static void stopped(void *ctx)
{
    struct redis_driver *self = ctx;

    self->stopped = true;
}

static void close_redis(void *ctx)
{
    struct redis_driver *self = ctx;

    redis_stop(self->redis, stopped, self);
    while (!self->stopped) {
        pump(self);
        driver_rest();
    }
    redis_free(self->redis);
    reactor_free(self->reactor);
    free(self);
}

extern const struct driver driver_redis_1, driver_redis_3, driver_redis_cluster;

#define REDIS_DRIVER                                                                               \
    .forecasts_exactly = true, .clock_is_elsewhere = true, .keeps_finished = true, .awaits = true, \
    .groups = true, .batches = true, .queue = queue_of, .pump = pump, .moved = moved,              \
    .close = close_redis

const struct driver driver_redis_1 = {
    .name = "redis_1",
    .lacks = DRIVER_LACKS_ORDER_OF_TOPICS,
    .shards = 1,
    .strict_groups = true,
    .open = open_1,
    REDIS_DRIVER,
};

const struct driver driver_redis_3 = {
    .name = "redis_3",
    .shards = 3,
    .strict_groups = true,
    .one_shard_by_name = true,
    .open = open_3,
    REDIS_DRIVER,
};

const struct driver driver_redis_cluster = {
    .name = "redis_cluster",
    .shards = 3,
    .runs = 20, /* three masters find what three shards find */
    .strict_groups = true,
    .one_shard_by_name = true,
    .open = open_cluster,
    REDIS_DRIVER,
};
