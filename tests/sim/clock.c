/* The clocks of the current machine. Doubles of base/clock.h. */
#include "base/clock.h"

#include "machine.h"

#include <assert.h>
#include <string.h>

static struct machine *current;

struct machine *machine_switch(struct machine *machine)
{
    struct machine *before = current;

    current = machine;
    return before;
}

void machine_advance(struct machine *machine, int64_t elapsed_ms)
{
    assert(elapsed_ms >= 0);
    machine->inner_ms += elapsed_ms;
    machine->wall_ms += elapsed_ms;
}

struct clock clock_process = CLOCK_INIT;

void clock_start(struct clock *clock, int64_t inner_ms)
{
    (void)clock;
    current->inner_ms = inner_ms;
}

void clock_raise(struct clock *clock, int64_t inner_ms)
{
    (void)clock;
    if (current->inner_ms < inner_ms)
        current->inner_ms = inner_ms;
}

int64_t clock_inner_ms(void)
{
    return current->inner_ms;
}

int64_t clock_inner_us(void)
{
    return current->inner_ms * 1000;
}

int64_t clock_wall_ms(void)
{
    return current->wall_ms;
}

int64_t clock_inner_us_of(struct clock *clock)
{
    (void)clock;
    return clock_inner_us();
}

int64_t clock_inner_ms_of(struct clock *clock)
{
    (void)clock;
    return clock_inner_ms();
}

int64_t clock_wall_ms_of(struct clock *clock)
{
    (void)clock;
    return clock_wall_ms();
}

void clock_both_ms_of(struct clock *clock, int64_t *inner_ms, int64_t *wall_ms)
{
    *inner_ms = clock_inner_ms_of(clock);
    *wall_ms = clock_wall_ms_of(clock);
}

int64_t clock_skew_ms_of(struct clock *clock)
{
    (void)clock;
    return clock_skew_ms();
}

int64_t clock_process_ms(struct clock *clock, int64_t inner_ms)
{
    (void)clock;
    return inner_ms;
}

bool clock_is_held(const struct clock *clock)
{
    (void)clock;
    return false;
}

int64_t clock_boot_us(void)
{
    return current->inner_ms * 1000;
}

int64_t clock_awake_us(void)
{
    return clock_boot_us();
}

void clock_note_step(int64_t step_ms)
{
    (void)step_ms;
}

void clock_steps(struct clock_steps *out)
{
    *out = (struct clock_steps){0};
}

int64_t clock_skew_ms(void)
{
    return current->wall_ms - current->inner_ms;
}

void clock_boot_id(char id[37])
{
    memset(id, '0', 36);
    id[36] = '\0';
}

/* ---- chance ---- */

uint64_t __wrap_random_u64(void);
uint64_t __real_random_u64(void);

uint64_t __wrap_random_u64(void)
{
    return current ? random_next(&current->random) : __real_random_u64();
}
