#include "base/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BOOT_ID_CHARS = 36 };

/* Added to boot time, in microseconds, gives inner time. Not yet fixed: OFFSET_NONE. */
#define OFFSET_NONE INT64_MIN
static _Atomic int64_t inner_offset_us = OFFSET_NONE;

static atomic_bool fake;
static _Atomic int64_t fake_inner_ms, fake_wall_ms;

static int64_t read_us(clockid_t which)
{
    struct timespec now;
    int failed = clock_gettime(which, &now);
    assert(!failed);
    (void)failed;
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The offset; the first thread that asks fixes it for all. */
static int64_t offset_us(void)
{
    int64_t offset = atomic_load_explicit(&inner_offset_us, memory_order_relaxed);
    if (offset != OFFSET_NONE)
        return offset;
    int64_t fresh = read_us(CLOCK_REALTIME) - read_us(CLOCK_BOOTTIME);
    if (atomic_compare_exchange_strong(&inner_offset_us, &offset, fresh))
        return fresh;
    return offset;
}

/* Whole milliseconds: so the next start can be told the offset without losing or gaining a part of
 * one. */
static int64_t offset_for(int64_t inner_ms)
{
    return (inner_ms - read_us(CLOCK_BOOTTIME) / 1000) * 1000;
}

void clock_start(int64_t inner_ms)
{
    assert(inner_ms >= 0);
    atomic_store(&inner_offset_us, offset_for(inner_ms));
}

void clock_raise(int64_t inner_ms)
{
    int64_t offset = offset_us();
    int64_t wanted = offset_for(inner_ms);
    while (offset < wanted && !atomic_compare_exchange_weak(&inner_offset_us, &offset, wanted))
        ;
}

int64_t clock_inner_us(void)
{
    if (atomic_load_explicit(&fake, memory_order_relaxed))
        return atomic_load_explicit(&fake_inner_ms, memory_order_relaxed) * 1000;
    /* The offset comes first: read later, it could be fixed by a wall clock that boot time is
     * behind. */
    int64_t offset = offset_us();
    return read_us(CLOCK_BOOTTIME) + offset;
}

int64_t clock_inner_ms(void)
{
    return clock_inner_us() / 1000;
}

int64_t clock_wall_us(void)
{
    if (atomic_load_explicit(&fake, memory_order_relaxed))
        return atomic_load_explicit(&fake_wall_ms, memory_order_relaxed) * 1000;
    return read_us(CLOCK_REALTIME);
}

int64_t clock_wall_ms(void)
{
    return clock_wall_us() / 1000;
}

int64_t clock_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t clock_awake_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t clock_skew_ms(void)
{
    int64_t inner_ms = clock_inner_ms();
    return clock_wall_ms() - inner_ms;
}

static _Atomic uint64_t step_count;
static _Atomic int64_t step_last_ms, step_last_at_ms;

void clock_note_step(int64_t step_ms)
{
    atomic_store(&step_last_ms, step_ms);
    atomic_store(&step_last_at_ms, clock_inner_ms());
    atomic_fetch_add(&step_count, 1);
}

void clock_steps(struct clock_steps *out)
{
    *out = (struct clock_steps){.count = atomic_load(&step_count),
                                .last_ms = atomic_load(&step_last_ms),
                                .last_at_ms = atomic_load(&step_last_at_ms)};
}

void clock_boot_id(char id[BOOT_ID_CHARS + 1])
{
    memset(id, 0, BOOT_ID_CHARS + 1);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, id, BOOT_ID_CHARS) != BOOT_ID_CHARS)
        id[0] = '\0';
    close(fd);
}

void clock_fake_start(int64_t inner_ms, int64_t wall_ms)
{
    atomic_store(&fake_inner_ms, inner_ms);
    atomic_store(&fake_wall_ms, wall_ms);
    atomic_store(&fake, true);
}

void clock_fake_advance(int64_t elapsed_ms)
{
    assert(atomic_load(&fake) && elapsed_ms >= 0);
    atomic_fetch_add(&fake_inner_ms, elapsed_ms);
    atomic_fetch_add(&fake_wall_ms, elapsed_ms);
}

void clock_fake_step_wall(int64_t step_ms)
{
    assert(atomic_load(&fake));
    atomic_fetch_add(&fake_wall_ms, step_ms);
}

void clock_fake_end(void)
{
    atomic_store(&fake, false);
}
