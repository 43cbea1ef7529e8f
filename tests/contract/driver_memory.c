/* The queue in the memory of this process. A reopen finds the queue itself, because
 * nothing else stores it. */
#include "driver.h"

#include "base/clock.h"
#include "memory/handle.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_driver {
    struct memory_handle *handle;
    char dir[256];
};

static struct memory_driver kept;

static void memory_driver_forget(void)
{
    memory_handle_free(kept.handle);
}

static void *memory_driver_open(const struct driver_options *options)
{
    if (kept.handle && strcmp(kept.dir, options->dir) == 0)
        return &kept;
    static bool will_forget;
    if (!will_forget)
        will_forget = atexit(memory_driver_forget) == 0;
    memory_handle_free(kept.handle);
    kept.handle =
        memory_handle_new(&(struct memory_options){.body_bytes_max = options->body_bytes_max,
                                                   .topics_max = options->topics_max,
                                                   .clock = &clock_process});
    snprintf(kept.dir, sizeof kept.dir, "%s", options->dir);
    return kept.handle ? &kept : NULL;
}

static struct queue *memory_driver_queue(void *self)
{
    return memory_handle_queue(((struct memory_driver *)self)->handle);
}

static void memory_driver_iterate(void *self)
{
    struct memory_driver *driver = self;
    memory_handle_step(driver->handle);
    memory_check(memory_handle_memory(driver->handle));
}

static void memory_driver_close(void *self)
{
    memory_driver_iterate(self);
}

extern const struct driver driver_memory;

const struct driver driver_memory = {
    .name = "memory",
    .lacks = DRIVER_LACKS_END_BY_REPLACE,
    .shards = 1,
    .keeps_finished = true,
    .awaits = true,
    .groups = true,
    .batches = true,
    .strict_groups = true,
    .is_at_once = true,
    .forecasts_exactly = true,
    .open = memory_driver_open,
    .queue = memory_driver_queue,
    .pump = memory_driver_iterate,
    .moved = memory_driver_iterate,
    .close = memory_driver_close,
};
