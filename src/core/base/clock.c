#include "base/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BOOT_ID_CHARS = 36 };

struct clock clock_process = CLOCK_INIT;

static int64_t read_us(clockid_t which)
{
    struct timespec now;
    int failed = clock_gettime(which, &now);
    assert(!failed);
    (void)failed;
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Returns the offset. The first thread that calls it fixes it for all. */
static int64_t offset_us(struct clock *clock)
{
    int64_t offset = atomic_load_explicit(&clock->offset_us, memory_order_relaxed);
    if (offset != CLOCK_OFFSET_NONE)
        return offset;
    int64_t fresh = read_us(CLOCK_REALTIME) - read_us(CLOCK_BOOTTIME);
    if (atomic_compare_exchange_strong(&clock->offset_us, &offset, fresh))
        return fresh;
    return offset;
}

/* Returns the offset in whole milliseconds, so that the next start can restore it without losing or
 * gaining part of one. */
static int64_t offset_for(int64_t inner_ms)
{
    return (inner_ms - read_us(CLOCK_BOOTTIME) / 1000) * 1000;
}

bool clock_is_held(const struct clock *clock)
{
    return atomic_load_explicit(&clock->is_held, memory_order_relaxed);
}

void clock_start(struct clock *clock, int64_t inner_ms)
{
    assert(inner_ms >= 0);
    atomic_store(&clock->offset_us, offset_for(inner_ms));
}

/* Raises both times of a held clock: the difference between wall and inner time stays the same. */
static void raise_held(struct clock *clock, int64_t inner_ms)
{
    int64_t held_ms = atomic_load(&clock->held_inner_ms);
    while (held_ms < inner_ms &&
           !atomic_compare_exchange_weak(&clock->held_inner_ms, &held_ms, inner_ms))
        ;
}

void clock_raise(struct clock *clock, int64_t inner_ms)
{
    if (clock_is_held(clock)) {
        raise_held(clock, inner_ms);
        return;
    }
    int64_t offset = offset_us(clock);
    int64_t wanted = offset_for(inner_ms);
    while (offset < wanted && !atomic_compare_exchange_weak(&clock->offset_us, &offset, wanted))
        ;
}

int64_t clock_inner_us_of(struct clock *clock)
{
    if (clock_is_held(clock))
        return atomic_load_explicit(&clock->held_inner_ms, memory_order_relaxed) * 1000;
    /* Read the offset first: read later, it could be fixed by a wall clock reading that is ahead of
     * the boot time. */
    int64_t offset = offset_us(clock);
    return read_us(CLOCK_BOOTTIME) + offset;
}

int64_t clock_inner_ms_of(struct clock *clock)
{
    return clock_inner_us_of(clock) / 1000;
}

static int64_t wall_us(struct clock *clock)
{
    if (clock_is_held(clock))
        return (atomic_load_explicit(&clock->held_inner_ms, memory_order_relaxed) +
                atomic_load_explicit(&clock->held_skew_ms, memory_order_relaxed)) *
               1000;
    return read_us(CLOCK_REALTIME);
}

int64_t clock_wall_ms_of(struct clock *clock)
{
    return wall_us(clock) / 1000;
}

int64_t clock_skew_ms_of(struct clock *clock)
{
    if (clock_is_held(clock))
        return atomic_load_explicit(&clock->held_skew_ms, memory_order_relaxed);
    int64_t inner_ms = clock_inner_ms_of(clock);
    return clock_wall_ms_of(clock) - inner_ms;
}

void clock_both_ms_of(struct clock *clock, int64_t *inner_ms, int64_t *wall_ms)
{
    enum { TRIES = 5 };
    if (clock_is_held(clock)) {
        *inner_ms = atomic_load_explicit(&clock->held_inner_ms, memory_order_relaxed);
        *wall_ms = *inner_ms + atomic_load_explicit(&clock->held_skew_ms, memory_order_relaxed);
        return;
    }
    for (int i = 0; i < TRIES; i++) {
        *inner_ms = clock_inner_ms_of(clock);
        *wall_ms = clock_wall_ms_of(clock);
        /* With the usual difference there was no pause between the two readings. A third reading
         * confirms any other difference. */
        int64_t skew_ms = *wall_ms - *inner_ms;
        int64_t beyond_ms =
            skew_ms - atomic_load_explicit(&clock->usual_skew_ms, memory_order_relaxed);
        if (beyond_ms >= -1 && beyond_ms <= 1)
            break;
        if (clock_inner_ms_of(clock) - *inner_ms <= 1) {
            atomic_store_explicit(&clock->usual_skew_ms, skew_ms, memory_order_relaxed);
            break;
        }
    }
}

int64_t clock_process_ms(struct clock *clock, int64_t inner_ms)
{
    if (clock == &clock_process || inner_ms == INT64_MAX)
        return inner_ms;
    int64_t now_ms = clock_inner_ms_of(clock);
    if (clock_is_held(clock))
        return inner_ms <= now_ms ? clock_inner_ms() : INT64_MAX;
    int64_t process_ms;
    if (__builtin_add_overflow(inner_ms, clock_inner_ms() - now_ms, &process_ms))
        return INT64_MAX; /* a time that never comes */
    return process_ms;
}

void clock_hold(struct clock *clock, int64_t inner_ms, int64_t wall_ms)
{
    atomic_store(&clock->held_inner_ms, inner_ms);
    atomic_store(&clock->held_skew_ms, wall_ms - inner_ms);
    atomic_store(&clock->is_held, true);
}

void clock_advance(struct clock *clock, int64_t elapsed_ms)
{
    assert(clock_is_held(clock) && elapsed_ms >= 0);
    atomic_fetch_add(&clock->held_inner_ms, elapsed_ms);
}

void clock_step_wall(struct clock *clock, int64_t step_ms)
{
    assert(clock_is_held(clock));
    atomic_fetch_add(&clock->held_skew_ms, step_ms);
}

int64_t clock_inner_us(void)
{
    return clock_inner_us_of(&clock_process);
}

int64_t clock_inner_ms(void)
{
    return clock_inner_us() / 1000;
}

int64_t clock_wall_us(void)
{
    return wall_us(&clock_process);
}

int64_t clock_wall_ms(void)
{
    return clock_wall_us() / 1000;
}

int64_t clock_skew_ms(void)
{
    return clock_skew_ms_of(&clock_process);
}

int64_t clock_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t clock_awake_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t clock_thread_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
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
    clock_hold(&clock_process, inner_ms, wall_ms);
}

void clock_fake_advance(int64_t elapsed_ms)
{
    clock_advance(&clock_process, elapsed_ms);
}

void clock_fake_step_wall(int64_t step_ms)
{
    clock_step_wall(&clock_process, step_ms);
}

void clock_fake_end(void)
{
    atomic_store(&clock_process.is_held, false);
}
