/* Reading past damage: skips blocks of a run's directory that cannot be read and are not needed. */
#include "store/depot.h"

#include <errno.h>

/* Returns whether the rest of the directory block of `slot`, up to `after`, has no alive slots. */
static bool is_of_no_use(const struct depot_run *run, uint32_t slot, uint32_t after)
{
    return alive_next(&run->alive, slot, after) >= after;
}

int depot_scan(const struct depot_run *run, const struct run_scan *scan, uint32_t *next)
{
    struct run_scan rest = *scan;
    for (;;) {
        int result = run_scan(run->run, &rest, next);
        if (result != -EBADMSG)
            return result;
        uint32_t after = run_after_damage(run->run, *next);
        if (after > rest.end)
            after = rest.end;
        if (!is_of_no_use(run, *next, after))
            return result;
        *next = rest.first = after;
        if (after == rest.end)
            return 0;
    }
}

int depot_slots(const struct depot_run *run, uint32_t first, uint32_t count, struct run_slot *out)
{
    uint32_t end = first + count;
    int result = run_slots(run->run, first, count, true, out);
    if (result != -EBADMSG)
        return result;
    /* Retries block by block. */
    for (uint32_t after; first < end; out += after - first, first = after) {
        after = run_after_damage(run->run, first);
        if (after > end)
            after = end;
        result = run_slots(run->run, first, after - first, true, out);
        if (result == -EBADMSG && is_of_no_use(run, first, after))
            for (uint32_t i = 0; i < after - first; i++)
                out[i] = (struct run_slot){.topic = UINT32_MAX};
        else if (result < 0)
            return result;
    }
    return 0;
}
