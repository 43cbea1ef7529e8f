/* The power goes, or an operation fails, at every I/O the log and its checkpoints make. */
#include "test_wal_rig.h"
#include "unit/claim.h"

enum { ROUNDS = 100 }; /* some eight checkpoints, and files that were used before */

/* ---- crashes everywhere ---- */

static void crash_and_judge(enum wal_sync sync, uint64_t seed, uint64_t crash_at,
                            enum sim_damage damage, bool *reached)
{
    struct scene *scene = start(sync, seed);
    struct wal_owner *owner = &scene->owner;
    struct random random = {.state = seed * 31 + crash_at};
    uint64_t first_found, least;

    scene->sim.crash_at = crash_at;
    *reached = wal_owner_open(owner, 0) < 0 || !work(scene, ROUNDS);
    die(scene, damage);
    least = damage == SIM_KEEP_ALL ? owner->acked : owner->synced_acked;
    /* Again inside recovery, at any I/O it makes. Batches that an opening served must stay, others that it
     * found need not. */
    for (int i = 0; i < 3; i++) {
        damage = (enum sim_damage)(1 + random_below(&random, SIM_DAMAGES));
        scene->sim.crash_at = scene->sim.ios + 1 + random_below(&random, 20);
        if (wal_owner_open(owner, least) == 0)
            work(scene, 2);
        die(scene, damage);
        if (damage != SIM_KEEP_ALL || owner->acked < least)
            least = owner->synced_acked;
    }
    open_with(scene, least);
    first_found = owner->acked;
    die(scene, SIM_DROP_UNSYNCED);
    open_with(scene, first_found);
    assert_int_equal(owner->acked, first_found); /* recovering twice gives the same */
    assert_true(work(scene, 5));
    wal_owner_close(owner);
    open_well(scene);
    end(scene);
}

static void crash_at_every_io(enum wal_sync sync, const char *name)
{
    struct random random = seed_random(name);
    uint64_t seed = random_next(&random), runs = 0;

    for (int damage = 1; damage <= SIM_DAMAGES; damage++) {
        bool reached = true;

        for (uint64_t at = 1; reached; at++, runs++)
            crash_and_judge(sync, seed + at, at, (enum sim_damage)damage, &reached);
    }
    print_message("%" PRIu64 " crashes\n", runs);
}

/* ---- failing I/O ---- */

static void fail_and_judge(uint64_t seed, uint64_t fail_at, bool for_ever, int fault, bool *reached)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, seed);
    struct wal_owner *owner = &scene->owner;

    scene->sim.fail_at = fail_at;
    scene->sim.fail_for_ever = for_ever;
    scene->sim.fail_errno = fault;
    if (wal_owner_open(owner, 0) == 0) {
        for (int i = 0; i < ROUNDS; i++) {
            struct wal_stats stats;
            uint64_t acked = owner->acked;

            wal_owner_step(owner);
            if (owner->is_dead)
                break;
            wal_stats(owner->wal, &stats);
            assert_true(!stats.broken || wal_error(owner->wal));
            if (stats.broken) { /* permanently: nothing is promised from here on */
                acked = owner->acked;
                wal_owner_step(owner);
                assert_int_equal(owner->acked, acked);
                assert_false(wal_seal(owner->wal));
                assert_int_equal(wal_has_room(owner->wal, 100, WAL_FOR_ANSWER), -EIO);
                break;
            }
        }
    }
    *reached = scene->sim.ios >= fail_at;
    /* Data lost by a failed sync can still be read as long as the machine runs, and then no longer. */
    die(scene, SIM_KEEP_ALL);
    open_well(scene);
    die(scene, (enum sim_damage)(1 + seed % SIM_DAMAGES));
    open_well(scene);
    assert_true(work(scene, 3));
    end(scene);
}

static void fail_every_io(const char *name)
{
    struct random random = seed_random(name);
    uint64_t seed = random_next(&random) >> 8;
    const int faults[] = {EIO, ENOSPC};

    for (int i = 0; i < 4; i++) {
        bool reached = true;

        for (uint64_t at = 1; reached; at++)
            fail_and_judge(seed + at, at, i & 1, faults[i / 2], &reached);
    }
}

/* ---- what must hold ---- */

CLAIM(no_crash_loses_committed_records)
{
    crash_at_every_io(WAL_SYNC_ALWAYS, "always");
}

CLAIM(no_crash_loses_records_synced_by_interval)
{
    crash_at_every_io(WAL_SYNC_INTERVAL, "interval");
}

CLAIM(no_crash_brings_nonsense_without_syncs)
{
    crash_at_every_io(WAL_SYNC_NEVER, "never");
}

CLAIM(no_failed_io_loses_committed_records)
{
    fail_every_io("failing");
}

CLAIMS_MAIN(NULL, NULL)
