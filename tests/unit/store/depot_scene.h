/* depot_scene: single steps of a depot's life, with nothing else happening between them. Include
 * after cmocka.h. */
#ifndef TARRY_TESTS_DEPOT_SCENE_H
#define TARRY_TESTS_DEPOT_SCENE_H

#include "depot_rig.h"

static inline struct rig *scene_start(struct sim_fs *sim, uint64_t seed)
{
    struct rig *rig = malloc(sizeof *rig);

    assert_non_null(rig);
    sim_fs_init(sim, seed);
    assert_int_equal(sim->fs.ops->mkdir(sim, "shard", 0700), 0);
    rig_init(rig, sim, seed);
    assert_int_equal(rig_open(rig), 0);
    return rig;
}

static inline void scene_end(struct rig *rig)
{
    depot_close(rig->depot);
    sim_fs_fini(rig->sim);
    free(rig);
}

static inline void scene_push_all(struct rig *rig, uint32_t first, uint32_t count)
{
    for (uint32_t job = first; job < first + count; job++)
        rig_push(rig, job);
}

/* A checkpoint of all that is in the log, with nothing else happening. */
static inline void scene_write_all(struct rig *rig, struct depot_build *build)
{
    *build = (struct depot_build){.read_log = rig_read_log, .apply = rig_apply, .ctx = rig};
    assert_int_equal(depot_plan(rig->depot, build), 0);
    rig_collect(rig, build, rig->log_count);
    assert_int_equal(depot_build(build), 0);
    rig_free_changed(build);
}

static inline void scene_settle_all(struct rig *rig, struct depot_build *build)
{
    uint32_t before = rig->log_count;

    assert_true(depot_install(rig->depot, build));
    for (uint32_t i = 0; i < build->slots; i++)
        rig_settle(rig, build, i, before);
    assert_true(depot_installed(rig->depot, build));
}

static inline void scene_commit_now(struct rig *rig)
{
    struct catalog catalog;
    bool fatal;

    assert_int_equal(depot_snapshot(rig->depot, 1, rig->log_count, NULL, 0, 5, 6, &catalog), 0);
    assert_int_equal(depot_commit(rig->depot, &catalog, &fatal), 0);
    depot_committed(rig->depot, &catalog);
    rig->log_first = rig->log_count;
}

static inline void scene_run(struct rig *rig)
{
    struct depot_build build;

    scene_write_all(rig, &build);
    scene_settle_all(rig, &build);
    scene_commit_now(rig);
    depot_build_fini(&build);
}

static inline bool scene_has_file(struct rig *rig, const char *path)
{
    return sim_fs_bytes(rig->sim, path, NULL) != NULL;
}

static inline int64_t scene_size_of(struct rig *rig, const char *path)
{
    int64_t size = -1;

    sim_fs_bytes(rig->sim, path, &size);
    return size;
}

#endif
