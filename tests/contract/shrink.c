/* Running a sequence, and finding a short one that still fails. */
#include "base/clock.h"
#include "commands.h"

#include <stdlib.h>

enum { PATIENCE_US = 30 * 1000 * 1000 };

bool commands_run(const struct driver *driver, const struct command *commands, size_t count,
                  FILE *trace, char fault[1024])
{
    static struct world world;
    bool is_good;

    world_open(&world, driver, 16, trace);
    for (size_t i = 0; i < count && !world.fault[0]; i++)
        command_perform(&world, &commands[i]);
    memcpy(fault, world.fault, 1024);
    is_good = !world.fault[0];
    world_close(&world);
    return is_good;
}

/* Without the commands from `from` on, `bytes` of them. */
static size_t leave_out(const struct command *commands, size_t count, size_t from, size_t some,
                        struct command *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (i < from || i >= from + some)
            out[kept++] = commands[i];
    return kept;
}

/* One round with pieces of this size. True: something could be left out. */
static bool shrink_by(const struct driver *driver, struct command *commands, size_t *count,
                      size_t some, int64_t until_us)
{
    struct command *shorter = calloc(*count + 1, sizeof *shorter);
    bool found = false;
    char fault[1024];

    for (size_t from = 0; from < *count && clock_boot_us() < until_us;) {
        size_t left = leave_out(commands, *count, from, some, shorter);

        if (commands_run(driver, shorter, left, NULL, fault)) {
            from += some;
            continue;
        }
        memcpy(commands, shorter, left * sizeof *commands);
        *count = left;
        found = true;
    }
    free(shorter);
    return found;
}

size_t commands_shrink(const struct driver *driver, struct command *commands, size_t count)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;
    bool found = true;

    for (size_t some = count / 2; some > 1; some /= 2)
        shrink_by(driver, commands, &count, some, until_us);
    while (found && clock_boot_us() < until_us)
        found = shrink_by(driver, commands, &count, 1, until_us);
    return count;
}
