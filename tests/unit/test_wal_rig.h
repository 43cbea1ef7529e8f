/*
 * test_wal_rig: a log of small files on a simulated disk, and what crashes and failing I/O at every
 * place leave of it. For test_wal_recovery and test_wal_checkpoint.
 */
#ifndef TARRY_TESTS_WAL_RIG_H
#define TARRY_TESTS_WAL_RIG_H

#include "support/wal_owner.h"

#include "unit/seed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/*
 * Each test has a simulated disk of its own and a log of small files. What comes back is judged by
 * wal_owner: it aborts where a committed batch is missing, or anything is there that was never
 * appended.
 */
enum { FILE_BYTES = 16384, HEAD_BYTES = 72, CHECK_BYTES = 4, TURNS = 200 };

static const char *const FIRST = "shard/wal/00000001.log";
static const char *const MANIFEST = "shard/wal/MANIFEST";

struct scene {
    struct sim_fs sim;
    struct wal_owner owner;
};

static inline struct scene *start_with(enum wal_sync sync, bool by_checkpoint, uint64_t seed)
{
    struct scene *scene = malloc(sizeof *scene);
    struct wal_options options;

    assert_non_null(scene);
    sim_fs_init(&scene->sim, seed);
    options = (struct wal_options){.fs = &scene->sim.fs,
                                   .dir = "shard",
                                   .file_bytes = FILE_BYTES,
                                   .batch_bytes_max = 6000,
                                   .recent_bytes_max = 20000,
                                   .sync = sync,
                                   .sync_interval_ms = 50,
                                   .by_checkpoint = by_checkpoint};
    wal_owner_init(&scene->owner, &options, seed);
    return scene;
}

static inline struct scene *start(enum wal_sync sync, uint64_t seed)
{
    return start_with(sync, false, seed);
}

static inline void end(struct scene *scene)
{
    wal_owner_fini(&scene->owner);
    sim_fs_fini(&scene->sim);
    free(scene);
}

/* The process dies, or the power goes. */
static inline void die(struct scene *scene, enum sim_damage damage)
{
    scene->sim.is_down = true;
    wal_owner_close(&scene->owner);
    sim_fs_crash(&scene->sim, damage);
}

static inline void open_with(struct scene *scene, uint64_t least)
{
    int result = wal_owner_open(&scene->owner, least);

    if (result < 0)
        print_error("%s\n", scene->owner.error);
    assert_int_equal(result, 0);
}

static inline void open_well(struct scene *scene)
{
    open_with(scene, scene->owner.synced_acked);
}

/* Batches of one job each; where each begins and ends. */
static inline void push_batches(struct scene *scene, uint32_t count, uint32_t *begins,
                                uint32_t *ends)
{
    for (uint32_t i = 0; i < count; i++) {
        struct wal_owner *owner = &scene->owner;

        wal_owner_push(owner, 60 + i);
        begins[i] = owner->places[owner->jobs].at - HEAD_BYTES;
        ends[i] = owner->places[owner->jobs].at + owner->places[owner->jobs].bytes + CHECK_BYTES;
        assert_int_equal(wal_owner_commit(owner), 0);
    }
}

/* Some batches over several files, then a crash. */
static inline struct scene *several_files(void)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 11);

    open_well(scene);
    for (int i = 0; i < 30; i++) {
        wal_owner_push(&scene->owner, 2000);
        assert_int_equal(wal_owner_commit(&scene->owner), 0);
        wal_owner_upkeep(&scene->owner);
    }
    die(scene, SIM_KEEP_ALL);
    return scene;
}

/* ---- crashes and failures everywhere ---- */

/* Goes on until the log breaks (the power went) or it was enough. */
static inline bool work(struct scene *scene, int turns)
{
    for (int i = 0; i < turns; i++)
        if (scene->owner.is_dead || (wal_owner_turn(&scene->owner) < 0 && scene->sim.is_down))
            return false;
    return !scene->sim.is_down;
}

static inline void crash_and_judge(enum wal_sync sync, bool by_checkpoint, uint64_t seed,
                                   uint64_t crash_at, enum sim_damage damage, bool *reached)
{
    struct scene *scene = start_with(sync, by_checkpoint, seed);
    struct wal_owner *owner = &scene->owner;
    struct random random = {.state = seed * 31 + crash_at};
    uint64_t first_found, least;

    scene->sim.crash_at = crash_at;
    *reached = wal_owner_open(owner, 0) < 0 || !work(scene, TURNS);
    die(scene, damage);
    least = damage == SIM_KEEP_ALL ? owner->acked : owner->synced_acked;
    /* Again inside recovery, at any I/O it makes. What an opening served must stay, what it only
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

static inline void crash_at_every_io(enum wal_sync sync, bool by_checkpoint, const char *name)
{
    struct random random = seed_random(name);
    uint64_t seed = random_next(&random), runs = 0;

    for (int damage = 1; damage <= SIM_DAMAGES; damage++) {
        bool reached = true;

        for (uint64_t at = 1; reached; at++, runs++)
            crash_and_judge(sync, by_checkpoint, seed + at, at, (enum sim_damage)damage, &reached);
    }
    print_message("%" PRIu64 " crashes\n", runs);
}

static inline void fail_and_judge(bool by_checkpoint, uint64_t seed, uint64_t fail_at,
                                  bool for_ever, int fault, bool *reached)
{
    struct scene *scene = start_with(WAL_SYNC_ALWAYS, by_checkpoint, seed);
    struct wal_owner *owner = &scene->owner;

    scene->sim.fail_at = fail_at;
    scene->sim.fail_for_ever = for_ever;
    scene->sim.fail_errno = fault;
    if (wal_owner_open(owner, 0) == 0) {
        for (int i = 0; i < TURNS; i++) {
            struct wal_stats stats;
            uint64_t acked = owner->acked;

            wal_owner_turn(owner);
            if (owner->is_dead)
                break;
            wal_stats(owner->wal, &stats);
            assert_true(!stats.broken || wal_error(owner->wal));
            if (stats.broken) { /* for good: nothing is promised any more */
                acked = owner->acked;
                wal_owner_turn(owner);
                assert_int_equal(owner->acked, acked);
                assert_false(wal_seal(owner->wal));
                assert_int_equal(wal_has_room(owner->wal, 100, WAL_FOR_ANSWER), -EIO);
                break;
            }
        }
    }
    *reached = scene->sim.ios >= fail_at;
    /* What a failed sync lost is still to be read as long as the machine runs, and then is not. */
    die(scene, SIM_KEEP_ALL);
    open_well(scene);
    die(scene, (enum sim_damage)(1 + seed % SIM_DAMAGES));
    open_well(scene);
    assert_true(work(scene, 3));
    end(scene);
}

static inline void fail_every_io(bool by_checkpoint, const char *name)
{
    struct random random = seed_random(name);
    uint64_t seed = random_next(&random) >> 8;
    const int faults[] = {EIO, ENOSPC};

    for (int i = 0; i < 4; i++) {
        bool reached = true;

        for (uint64_t at = 1; reached; at++)
            fail_and_judge(by_checkpoint, seed + at, at, i & 1, faults[i / 2], &reached);
    }
}

#endif
