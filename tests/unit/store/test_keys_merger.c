/* Tables of keys made one in steps. */
#include "keys_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <errno.h>

enum { TABLES = 4, MADE = 9 };

static struct sim_fs sim;

static struct {
    struct keys *keys[TABLES];
    uint64_t entries;
} scene;

static bool keeps_two_of_three(void *ctx, const struct keys_entry *entry)
{
    (void)ctx;
    return entry->slot % 3 != 0;
}

static void make_tables(struct random *random)
{
    sim_fs_init(&sim, 1);
    scene.entries = 0;
    for (uint32_t i = 0; i < TABLES; i++) {
        struct keys_rig_list list = keys_rig_make(i * 700); /* the first is empty */

        for (size_t n = 0; n < list.count; n++)
            list.at[n] =
                (struct keys_entry){.hash = random_next(random), .run = i + 1, .slot = (uint32_t)n};
        keys_rig_sort(&list);
        scene.keys[i] = keys_rig_table(&sim, i + 1, list);
        scene.entries += list.count;
        free(list.at);
    }
}

static void end_tables(void)
{
    for (uint32_t i = 0; i < TABLES; i++)
        keys_close(scene.keys[i]);
    sim_fs_fini(&sim);
}

static struct keys_merger *new_merger(void)
{
    const struct keys_writing writing = keys_rig_writing(&sim, MADE, scene.entries);
    struct keys_merger *merger = NULL;

    assert_int_equal(
        keys_merger_new(&writing, scene.keys, TABLES, keeps_two_of_three, NULL, &merger), 0);
    return merger;
}

/* Own memory. */
static char *take_made(int64_t *bytes)
{
    const char *made = sim_fs_bytes(&sim, "run/00000009.keys", bytes);
    char *copy;

    assert_non_null(made);
    copy = malloc((size_t)*bytes);
    assert_non_null(copy);
    memcpy(copy, made, (size_t)*bytes);
    assert_int_equal(sim.fs.ops->unlink(&sim, "run/00000009.keys"), 0);
    return copy;
}

static void ask_between(struct random *random)
{
    struct keys_entry found;
    struct keys *keys = scene.keys[random_below(random, TABLES)];

    assert_true(keys_find(keys, random_next(random), true, &found, 1) >= 0);
}

CLAIM(any_size_of_steps_gives_the_same_table)
{
    static const uint64_t sizes[] = {1, 7, 1399, 4200, UINT64_MAX};
    struct random random = seed_random(__func__);
    const struct keys_writing writing = keys_rig_writing(&sim, MADE, 3 * 1400);
    int64_t bytes, its_bytes;
    uint64_t kept = 0;
    char *whole, *stepped;

    make_tables(&random);
    assert_int_equal(scene.entries, 3 * 1400);
    assert_int_equal(merge_whole(&writing, scene.keys, TABLES, keeps_two_of_three, NULL, &kept), 0);
    assert_in_range(kept, scene.entries / 2, scene.entries * 3 / 4);
    whole = take_made(&bytes);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct keys_merger *merger = new_merger();
        uint64_t steps = 1;

        for (; keys_merger_step(merger, sizes[i]) == 1; steps++)
            ask_between(&random);
        assert_int_equal(steps, (scene.entries - 1) / sizes[i] + 1);
        assert_int_equal(keys_merger_kept(merger), kept);
        keys_merger_free(merger);
        stepped = take_made(&its_bytes);
        assert_int_equal(its_bytes, bytes);
        assert_memory_equal(stepped, whole, (size_t)bytes);
        free(stepped);
    }
    free(whole);
    end_tables();
}

CLAIM(one_left_in_the_middle_leaves_no_file)
{
    struct random random = seed_random(__func__);
    int files;

    make_tables(&random);
    files = sim.now.count;
    for (uint64_t entries = 0; entries < scene.entries; entries += 523) {
        struct keys_merger *merger = new_merger();

        if (entries > 0)
            assert_int_equal(keys_merger_step(merger, entries), 1);
        assert_int_equal(sim.now.count, files + 1);
        keys_merger_free(merger);
        assert_int_equal(sim.now.count, files);
    }
    keys_merger_free(NULL);
    end_tables();
}

static int give_up(void *ctx, size_t bytes)
{
    (void)bytes;
    return *(bool *)ctx ? -ECANCELED : 0;
}

CLAIM(a_cancelled_merge_reports_that_and_leaves_no_file)
{
    struct random random = seed_random(__func__);
    struct keys_writing writing;
    struct keys_merger *merger;
    bool is_cancelled = false;
    int files, result;

    make_tables(&random);
    files = sim.now.count;
    writing = keys_rig_writing(&sim, MADE, scene.entries);
    writing.pace = give_up;
    writing.ctx = &is_cancelled;
    assert_int_equal(
        keys_merger_new(&writing, scene.keys, TABLES, keeps_two_of_three, NULL, &merger), 0);
    assert_int_equal(keys_merger_step(merger, 100), 1);
    is_cancelled = true;
    while ((result = keys_merger_step(merger, 100)) == 1)
        ;
    assert_int_equal(result, -ECANCELED);
    keys_merger_free(merger);
    assert_int_equal(sim.now.count, files);
    end_tables();
}

CLAIM(a_table_with_damage_ends_the_merge_at_its_step)
{
    struct random random = seed_random(__func__);
    struct keys_merger *merger;
    int files;

    make_tables(&random);
    files = sim.now.count;
    merger = new_merger();
    assert_int_equal(keys_merger_step(merger, 10), 1);
    keys_merger_free(merger);
    sim_fs_damage(&sim, "run/00000004.keys", 100, 1);
    {
        const struct keys_writing writing = keys_rig_writing(&sim, MADE, scene.entries);

        assert_int_equal(
            keys_merger_new(&writing, scene.keys, TABLES, keeps_two_of_three, NULL, &merger),
            -EBADMSG);
    }
    assert_int_equal(sim.now.count, files);
    end_tables();
}

CLAIMS_MAIN(NULL, NULL)
