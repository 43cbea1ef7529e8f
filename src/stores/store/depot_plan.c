/* Selection of the runs that a checkpoint rewrites. Does no I/O. */
#include "store/depot_private.h"

#include <assert.h>

/*
 * Reasons to rewrite runs:
 *
 * Too much garbage on disk: more than a quarter of the alive bytes, beyond the slack. Then the runs
 * with the highest share of dead bytes are chosen first, because they require the least writing per
 * reclaimed byte. Dead slots at the start of a section are punched and require no writing, and a
 * run without alive slots is just removed.
 *
 * Too many small runs: each costs a descriptor, a topic list and a lookup for every slice that is
 * loaded. Then the smallest are merged into one; each job is thus moved about as often as the
 * logarithm of the number of jobs.
 */
enum { SMALL_RUNS_MAX = 16, SMALL_RUNS_LEFT = 8 };

bool depot_plan_is_due(uint64_t disk_bytes, uint64_t alive_bytes, uint64_t slack_bytes)
{
    return disk_bytes > alive_bytes + alive_bytes / 4 + slack_bytes;
}

struct chosen {
    size_t runs;
    uint64_t bytes, slots;
};

/* Returns whether the run fits into the limits. The first one does unless space is short, since
 * otherwise a run that is too large would never be rewritten. */
static bool fits(const struct chosen *chosen, const struct depot_plan_run *run,
                 const struct depot_plan_limits *limits)
{
    return (chosen->runs == 0 && !limits->is_short) ||
           (chosen->bytes + run->alive_bytes <= limits->victim_bytes_max &&
            chosen->slots + run->alive <= limits->victim_slots_max);
}

static void choose(struct chosen *chosen, struct depot_plan_run *run)
{
    run->is_victim = true;
    chosen->runs++;
    chosen->bytes += run->alive_bytes;
    chosen->slots += run->alive;
}

static uint64_t stays_on_disk(const struct depot_plan_run *run)
{
    return run->alive ? run->disk_bytes - run->prefix_bytes : 0;
}

static uint64_t garbage(const struct depot_plan_run *run)
{
    uint64_t stays = stays_on_disk(run);

    return stays > run->alive_bytes ? stays - run->alive_bytes : 0;
}

/* Returns the share of garbage of a run that has some. */
static double share(const struct depot_plan_run *run)
{
    return (double)garbage(run) / (double)stays_on_disk(run);
}

static void choose_deadest(struct depot_plan_run *runs, size_t count,
                           const struct depot_plan_limits *limits, struct chosen *chosen)
{
    uint64_t disk = 0, alive = 0;

    for (size_t i = 0; i < count; i++) {
        disk += stays_on_disk(&runs[i]);
        alive += runs[i].alive_bytes;
    }
    while (depot_plan_is_due(disk, alive, limits->slack_bytes)) {
        struct depot_plan_run *best = NULL;

        for (size_t i = 0; i < count; i++)
            if (!runs[i].is_victim && garbage(&runs[i]) > 0 && fits(chosen, &runs[i], limits) &&
                (!best || share(&runs[i]) > share(best)))
                best = &runs[i];
        if (!best)
            return;
        choose(chosen, best);
        disk -= garbage(best);
    }
}

static bool is_small(const struct depot_plan_run *run, const struct depot_plan_limits *limits)
{
    return run->alive > 0 && !run->is_victim && run->alive_bytes < limits->small_run_bytes;
}

static void choose_small(struct depot_plan_run *runs, size_t count,
                         const struct depot_plan_limits *limits, struct chosen *chosen)
{
    size_t small = 0;

    for (size_t i = 0; i < count; i++)
        small += is_small(&runs[i], limits);
    if (small <= SMALL_RUNS_MAX)
        return;
    for (; small > SMALL_RUNS_LEFT; small--) {
        struct depot_plan_run *least = NULL;

        for (size_t i = 0; i < count; i++)
            if (is_small(&runs[i], limits) && (!least || runs[i].alive_bytes < least->alive_bytes))
                least = &runs[i];
        assert(least);
        if (!fits(chosen, least, limits))
            return;
        choose(chosen, least);
    }
}

size_t depot_plan_victims(struct depot_plan_run *runs, size_t count,
                          const struct depot_plan_limits *limits)
{
    struct chosen chosen = {0};

    for (size_t i = 0; i < count; i++)
        runs[i].is_victim = false;
    choose_deadest(runs, count, limits, &chosen);
    if (!limits->is_short)
        choose_small(runs, count, limits, &chosen);
    return chosen.runs;
}
