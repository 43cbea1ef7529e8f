/*
 * test_wal_rig: a log of small files on a simulated disk, and what crashes and failing I/O at every
 * place leave of it.
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
 * A simulated disk of each test's own and a log of small files. wal_owner checks the recovered
 * batches: it aborts if a committed batch is missing, or a batch appears that was never
 * appended.
 */
enum { FILE_BYTES = 16384, HEAD_BYTES = 72, CHECK_BYTES = 4 };

static const char *const FIRST = "shard/wal/00000001.log";
static const char *const MANIFEST = "shard/wal/MANIFEST";

struct scene {
    struct sim_fs sim;
    struct wal_owner owner;
};

static inline struct scene *start(enum wal_sync sync, uint64_t seed)
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
                                   .sync_interval_ms = 50};
    wal_owner_init(&scene->owner, &options, seed);
    return scene;
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

/* Writes some batches over several files, then crashes. */
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

/* Continues until the log breaks (the power was cut) or there are enough records. */
static inline bool work(struct scene *scene, int rounds)
{
    for (int i = 0; i < rounds; i++)
        if (scene->owner.is_dead || (wal_owner_step(&scene->owner) < 0 && scene->sim.is_down))
            return false;
    return !scene->sim.is_down;
}

#endif
