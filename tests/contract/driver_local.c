/* The queue on this machine, with one shard and with three. All reactors are pumped on the suite's
 * thread; their helper threads really run. */
#include "driver.h"

#include "base/log.h"
#include "local/local.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHARDS_MAX = 3, ROUNDS = 4, FILE_BYTES = 4 << 20 };

struct local_driver {
    struct local *local;
    struct reactor *reactors[SHARDS_MAX];
    struct queue *queues[SHARDS_MAX];
    uint32_t count, asked;
    bool stopped;
};

static uint32_t opened; /* so that every reactor's handle is used now and then */

static void pump(void *ctx)
{
    struct local_driver *self = ctx;

    for (uint32_t i = 0; i < self->count; i++)
        uv_run(reactor_loop(self->reactors[i]), UV_RUN_NOWAIT);
}

static bool attach(struct local_driver *self, char *error, size_t error_bytes)
{
    for (uint32_t i = 0; i < self->count; i++) {
        self->reactors[i] = reactor_new(i);
        if (!self->reactors[i] || local_attach(self->local, i, self->reactors[i], &self->queues[i],
                                               error, error_bytes) != 0)
            return false;
    }
    return true;
}

static void *open_with(const struct driver_options *options, uint32_t shards)
{
    struct local_driver *self = calloc(1, sizeof *self);
    struct local_options local = {.data_dir = options->dir,
                                  .shards = shards,
                                  .sync = WAL_SYNC_NEVER,
                                  .wal_file_bytes = FILE_BYTES,
                                  .body_bytes_max = options->body_bytes_max,
                                  .topics_max = options->topics_max};
    char error[256] = "";

    assert(self);
    log_open(NULL, LOG_ERROR, false);
    if (local_open(&local, &self->local, &self->count, error, sizeof error) == 0 &&
        self->count == shards && attach(self, error, sizeof error)) {
        self->asked = opened++ % shards;
        return self;
    }
    fprintf(stderr, "local: %s\n", error);
    return NULL;
}

static void *open_1(const struct driver_options *options)
{
    return open_with(options, 1);
}

static void *open_3(const struct driver_options *options)
{
    return open_with(options, 3);
}

static struct queue *queue_of(void *ctx)
{
    struct local_driver *self = ctx;

    return self->queues[self->asked];
}

static struct queue *queue_at(void *ctx, uint32_t reactor)
{
    struct local_driver *self = ctx;

    return self->queues[reactor % self->count];
}

/* Runs the shards' steps, in which due events happen. */
static void moved(void *ctx)
{
    for (int i = 0; i < ROUNDS; i++)
        pump(ctx);
}

static void stopped(void *ctx)
{
    struct local_driver *self = ctx;

    self->stopped = true;
}

static void close_local(void *ctx)
{
    struct local_driver *self = ctx;

    local_stop(self->local, stopped, self);
    while (!self->stopped) {
        pump(self);
        driver_rest();
    }
    local_free(self->local);
    for (uint32_t i = 0; i < self->count; i++)
        reactor_free(self->reactors[i]);
    free(self);
}

extern const struct driver driver_local_1, driver_local_3;

const struct driver driver_local_1 = {
    .name = "local_1",
    .shards = 1,
    .forecasts_exactly = true,
    .keeps_finished = true,
    .awaits = true,
    .groups = true,
    .batches = true,
    .strict_groups = true,
    .lacks = DRIVER_LACKS_END_BY_REPLACE,
    .open = open_1,
    .queue = queue_of,
    .pump = pump,
    .moved = moved,
    .close = close_local,
};

const struct driver driver_local_3 = {
    .name = "local_3",
    .shards = 3,
    .forecasts_exactly = true,
    .keeps_finished = true,
    .awaits = true,
    .batches = true,
    .groups = true,
    .strict_groups = true,
    .one_shard = true,
    .lacks = DRIVER_LACKS_END_BY_REPLACE,
    .open = open_3,
    .queue = queue_of,
    .queue_at = queue_at,
    .pump = pump,
    .moved = moved,
    .close = close_local,
};
