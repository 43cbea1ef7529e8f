/* wal_files_rig: a log of some files, of which the oldest were let go by a checkpoint. */
#ifndef TARRY_TESTS_WAL_FILES_RIG_H
#define TARRY_TESTS_WAL_FILES_RIG_H

#include "test_wal_rig.h"

static inline void commit(struct scene *scene)
{
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    assert_int_equal(wal_owner_upkeep(&scene->owner), 0);
}

static inline void push_up_to_file(struct scene *scene, uint32_t number)
{
    while (wal_current_file(scene->owner.wal) < number) {
        wal_owner_push(&scene->owner, 2000);
        commit(scene);
    }
}

static inline void checkpoint(struct scene *scene)
{
    uint64_t before = scene->owner.checkpoints;

    for (int i = 0; i < 100 && scene->owner.checkpoints == before; i++)
        assert_int_equal(wal_owner_checkpoint(&scene->owner, 1), 0);
    assert_int_equal(scene->owner.checkpoints, before + 1);
}

/* Six files, three of them let go; the next is made ahead. */
static inline struct scene *some_files(void)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

    open_well(scene);
    push_up_to_file(scene, 6);
    checkpoint(scene);
    wal_owner_push(&scene->owner, 2000);
    commit(scene);
    return scene;
}

/* An operation of the test's own stands before the disk. */
static inline void put_before(struct scene *scene, const struct fs_ops *ops)
{
    static struct fs fs;

    fs = (struct fs){.ops = ops, .ctx = &scene->sim};
    scene->owner.options.fs = &fs;
}

#endif
