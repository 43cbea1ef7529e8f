#include "unit/claim.h"
#include "unit/seed.h"

#include "depot_rig.h"

static struct rig *start(struct sim_fs *sim, uint64_t seed)
{
    struct rig *rig = malloc(sizeof *rig);

    assert_non_null(rig);
    sim_fs_init(sim, seed);
    assert_int_equal(sim->fs.ops->mkdir(sim, "shard", 0700), 0);
    rig_init(rig, sim, seed);
    return rig;
}

static void open_well(struct rig *rig)
{
    int result = rig_open(rig);

    if (result < 0)
        print_error("%s\n", rig->error);
    assert_int_equal(result, 0);
}

static void end(struct rig *rig)
{
    depot_close(rig->depot);
    sim_fs_fini(rig->sim);
    free(rig);
}

CLAIM(an_empty_depot_finds_nothing)
{
    static struct sim_fs sim;
    struct rig *rig = start(&sim, 1);
    struct depot_stats stats;

    open_well(rig);
    assert_false(depot_maybe(rig->depot, rig_key(1)));
    assert_false(depot_wants_checkpoint(rig->depot, false));
    depot_stats(rig->depot, &stats);
    assert_int_equal(stats.runs + stats.tables + stats.bytes_on_disk, 0);
    rig_find_all(rig);
    end(rig);
}

CLAIM(long_histories_lose_nothing)
{
    struct random random = seed_random("long_histories_lose_nothing");
    uint64_t checkpoints = 0, merges = 0, victims = 0, between = 0, given_up = 0;

    for (int history = 0; history < 6; history++) {
        static struct sim_fs sim;
        struct rig *rig = start(&sim, random_next(&random));

        open_well(rig);
        for (int round = 0; round < 40; round++) {
            rig_live(rig, 120);
            assert_int_equal(rig_checkpoint(rig), 0);
            for (int i = 0; depot_wants_checkpoint(rig->depot, false) && i < 4; i++)
                assert_int_equal(rig_checkpoint(rig), 0);
            while (rig_merge(rig) > 0)
                ;
            rig_find_all(rig);
            if (random_below(&random, 4) == 0) {
                depot_close(rig->depot);
                open_well(rig);
            }
        }
        checkpoints += rig->checkpoints;
        merges += rig->merges;
        victims += rig->victims;
        between += rig->between_steps;
        given_up += rig->merges_given_up;
        end(rig);
    }
    printf("%llu checkpoints, %llu of them between two steps of a merge, %llu victims, %llu merges "
           "of keys, %llu given up\n",
           (unsigned long long)checkpoints, (unsigned long long)between,
           (unsigned long long)victims, (unsigned long long)merges, (unsigned long long)given_up);
    assert_true(checkpoints >= 240 && merges > 20 && victims > 50);
    assert_true(between > 10 && given_up > 0);
}

CLAIM(the_owner_continues_while_helpers_read)
{
    struct random random = seed_random("the_owner_continues_while_helpers_read");
    static struct sim_fs sim;
    struct rig *rig = start(&sim, random_next(&random));

    rig->has_helper = true;
    open_well(rig);
    for (int round = 0; round < 40; round++) {
        rig_live(rig, 120);
        assert_int_equal(rig_checkpoint(rig), 0);
        while (rig_merge(rig) > 0)
            ;
        rig_find_all(rig);
    }
    end(rig);
}

/* Cuts the power at I/O number `crash_at` of a short history, then continues. Returns whether it was cut. */
static bool crash_once(uint64_t seed, uint64_t crash_at, enum sim_damage damage, uint64_t *never)
{
    static struct sim_fs sim;
    struct rig *rig = start(&sim, seed);
    bool went;

    sim.crash_at = crash_at;
    if (rig_open(rig) == 0)
        for (int round = 0; round < 4 && !sim.is_down; round++) {
            rig_live(rig, 60);
            if (rig_checkpoint(rig) == 0)
                rig_merge(rig);
        }
    went = sim.is_down;
    depot_close(rig->depot);
    sim_fs_crash(&sim, damage);
    rig_lose(rig);
    open_well(rig);
    for (int round = 0; round < 2; round++) {
        rig_live(rig, 30);
        assert_int_equal(rig_checkpoint(rig), 0);
        if (round == 0) { /* the log still names what never counted */
            depot_close(rig->depot);
            open_well(rig);
        }
    }
    rig_find_all(rig);
    *never += rig->never_committed;
    end(rig);
    return went;
}

CLAIM(a_crash_at_any_io_loses_nothing)
{
    struct random random = seed_random("a_crash_at_any_io_loses_nothing");
    uint64_t never = 0, crashes = 0;

    for (int damage = 1; damage <= SIM_DAMAGES; damage++) {
        uint64_t seed = random_next(&random);

        for (uint64_t io = 1; crash_once(seed, io, (enum sim_damage)damage, &never); io++)
            crashes++;
    }
    printf("%llu crashes, %llu ends named a run that never counted\n", (unsigned long long)crashes,
           (unsigned long long)never);
    assert_true(never > 0);
}

static bool fail_once(uint64_t seed, uint64_t fail_at, bool for_ever, int error)
{
    static struct sim_fs sim;
    struct rig *rig = start(&sim, seed);
    bool happened;

    open_well(rig);
    sim.fail_at = sim.ios + fail_at;
    sim.fail_for_ever = for_ever;
    sim.fail_errno = error;
    for (int round = 0; round < 3; round++) {
        rig_live(rig, 60);
        if (rig_checkpoint(rig) < 0) {
            if (for_ever)
                break;
            if (rig->depot && rig->gave_up == 0) /* fatal, or given up permanently */
                break;
        }
    }
    happened = sim.ios >= sim.fail_at;
    sim.fail_at = 0;
    depot_close(rig->depot);
    sim_fs_crash(&sim, SIM_DROP_UNSYNCED);
    rig_lose(rig);
    open_well(rig);
    rig_live(rig, 30);
    assert_int_equal(rig_checkpoint(rig), 0);
    rig_find_all(rig);
    end(rig);
    return happened;
}

CLAIM(a_failed_io_loses_nothing)
{
    struct random random = seed_random("a_failed_io_loses_nothing");
    uint64_t failures = 0;

    for (int i = 0; i < 4; i++) {
        uint64_t seed = random_next(&random);

        for (uint64_t io = 1; fail_once(seed, io, i % 2, i < 2 ? EIO : ENOSPC); io++)
            failures++;
    }
    printf("%llu failures\n", (unsigned long long)failures);
}

CLAIMS_MAIN(NULL, NULL)
