/* Running a sequence, and finding a short one that still fails. */
#include "base/clock.h"
#include "steps.h"

#include <stdlib.h>

enum { PATIENCE_US = 30 * 1000 * 1000 };

bool steps_run(const struct driver *driver, const struct step *steps, size_t count, FILE *trace,
               char fault[1024])
{
    static struct world world;
    bool is_good;

    world_open(&world, driver, 16, trace);
    for (size_t i = 0; i < count && !world.fault[0]; i++)
        step_perform(&world, &steps[i]);
    memcpy(fault, world.fault, 1024);
    is_good = !world.fault[0];
    world_close(&world);
    return is_good;
}

/* Leaves out the steps from `from` on, `bytes` of them. */
static size_t leave_out(const struct step *steps, size_t count, size_t from, size_t some,
                        struct step *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (i < from || i >= from + some)
            out[kept++] = steps[i];
    return kept;
}

/* Runs one round with pieces of this size. True: something could be left out. */
static bool shrink_by(const struct driver *driver, struct step *steps, size_t *count, size_t some,
                      int64_t until_us)
{
    struct step *shorter = calloc(*count + 1, sizeof *shorter);
    bool found = false;
    char fault[1024];

    for (size_t from = 0; from < *count && clock_boot_us() < until_us;) {
        size_t left = leave_out(steps, *count, from, some, shorter);

        if (steps_run(driver, shorter, left, NULL, fault)) {
            from += some;
            continue;
        }
        memcpy(steps, shorter, left * sizeof *steps);
        *count = left;
        found = true;
    }
    free(shorter);
    return found;
}

size_t steps_shrink(const struct driver *driver, struct step *steps, size_t count)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;
    bool found = true;

    for (size_t some = count / 2; some > 1; some /= 2)
        shrink_by(driver, steps, &count, some, until_us);
    while (found && clock_boot_us() < until_us)
        found = shrink_by(driver, steps, &count, 1, until_us);
    return count;
}
