/*
 * Speed of the wheel, with items of a cache line as an engine would keep them. Due times are
 * spread over an hour; firing steps through that hour millisecond by millisecond or jumps over it.
 */
#include "wheel/wheel.h"

#include "base/random.h"
#include "measure.h"

#include <stdlib.h>

#define HOUR_MS INT64_C(3600000)
#define START_MS INT64_C(1790000000000)

enum { TAKE_MAX = 256 };

struct item {
    struct wheel_node node;
    char rest[48];
};

static void fill(struct slab *slab, size_t count)
{
    slab_init(slab, sizeof(struct item));
    for (size_t i = 0; i < count; i++)
        if (!slab_add(slab))
            abort();
}

static void add_all(struct wheel *wheel, size_t count)
{
    struct random random = {.state = 1};

    for (uint32_t id = 1; id <= count; id++)
        wheel_add(wheel, id, START_MS + (int64_t)random_below(&random, (uint64_t)HOUR_MS));
}

static void take_all(struct wheel *wheel, int64_t now_ms)
{
    uint32_t ids[TAKE_MAX];

    do
        wheel_take_due(wheel, now_ms, ids, TAKE_MAX);
    while (wheel_next_ms(wheel) <= now_ms);
}

static void run(size_t count)
{
    struct slab slab;
    struct wheel wheel;
    int64_t since_ns;

    fill(&slab, count);
    wheel_init(&wheel, &slab, START_MS);
    since_ns = measure_ns();
    add_all(&wheel, count);
    measure_print("add", count, since_ns);

    since_ns = measure_ns();
    for (uint32_t id = 1; id <= count; id++)
        wheel_remove(&wheel, id);
    measure_print("cancel", count, since_ns);

    add_all(&wheel, count);
    since_ns = measure_ns();
    for (int64_t now_ms = START_MS; wheel.count; now_ms++)
        take_all(&wheel, now_ms);
    measure_print("fire, every millisecond", count, since_ns);

    wheel_init(&wheel, &slab, START_MS);
    add_all(&wheel, count);
    since_ns = measure_ns();
    take_all(&wheel, START_MS + HOUR_MS);
    measure_print("fire, after a jump of an hour", count, since_ns);
    slab_fini(&slab);
}

int main(void)
{
    run(1000000);
    run(10000000);
    return 0;
}
