/* Jobs in runs: an engine whose jobs go to a naive depot and come back, with checkpoints, eviction,
 * loading and crashes between any two steps, answers as one that has all of them in memory, and
 * shows the same. */
#include "engine_twins.h"
#include "unit/claim.h"
#include "unit/seed.h"

struct met {
    size_t unknown, stubs, lost, stepped;
};

static struct met run_twins(uint64_t seed, unsigned runs, bool steps, bool forgets)
{
    struct met met = {0};
    for (unsigned run = 0; run < runs; run++) {
        struct twins twins;
        open_twins(&twins, seed + run);
        twins.steps = steps;
        twins.forgets = forgets;
        for (unsigned i = 0; i < STEPS; i++) {
            step(&twins);
            engine_check(twins.rig->engine);
            assert_same(&twins);
        }
        met.unknown += twins.rig->reported_unknown;
        met.stubs += twins.rig->reported_stubs;
        met.lost += twins.lost;
        met.stepped += twins.stepped;
        close_twins(&twins);
    }
    printf("met: %zu slots of lost runs, %zu stubs, %zu records lost, %zu steps of the clock\n",
           met.unknown, met.stubs, met.lost, met.stepped);
    return met;
}

CLAIM(far_jobs_are_answered_for_as_if_they_were_in_memory)
{
    struct met met = run_twins(seed_random(__func__).state, 10, false, false);
    assert_true(met.unknown && met.stubs);
}

CLAIM(far_jobs_follow_the_wall_clock_when_it_steps)
{
    struct met met = run_twins(seed_random(__func__).state, 6, true, false);
    assert_true(met.stepped);
}

CLAIM(log_records_lost_in_a_crash_do_not_affect_runs)
{
    struct met met = run_twins(seed_random(__func__).state, 8, false, true);
    assert_true(met.lost && met.unknown && met.stubs);
}

CLAIMS_MAIN(NULL, NULL)
