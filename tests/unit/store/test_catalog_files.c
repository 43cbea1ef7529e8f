/* The files of catalogs: how many may exist, how they are distinguished, which are invalid. */
#include "store/alive.h"
#include "store/catalog.h"
#include "support/sim_fs.h"
#include "unit/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { DAMAGED = 100 };

static struct sim_fs sim;
static char error[8192];

static void start(void)
{
    sim_fs_init(&sim, 1);
    assert_int_equal(sim.fs.ops->mkdir(&sim, "s", 0700), 0);
}

static struct catalog catalog_of(uint64_t generation)
{
    return (struct catalog){
        .generation = generation, .seed = 5, .next_run = 1, .next_keys = 1, .log_first = 1};
}

static int write_one(const struct fs *fs, const char *dir, uint64_t generation)
{
    const struct catalog catalog = catalog_of(generation);
    bool is_fatal = true;
    int result = catalog_write(fs, dir, &catalog, &is_fatal);

    assert_false(is_fatal);
    return result;
}

static int read_one(const char *dir, uint64_t *generation, uint32_t *damaged)
{
    struct catalog catalog;
    int result = catalog_read(&sim.fs, dir, &catalog, damaged, error, sizeof error);

    if (result == 0) {
        *generation = catalog.generation;
        catalog_fini(&catalog);
    }
    return result;
}

static void make_file(const char *path)
{
    int fd = sim.fs.ops->open(&sim, path, O_RDWR | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fs_pwrite_whole(&sim.fs, fd, "damaged", 7, 0), 0);
    sim.fs.ops->close(&sim, fd);
}

static void make_damaged(uint64_t from)
{
    char name[32], path[64];

    for (uint64_t generation = from; generation < from + DAMAGED; generation++) {
        catalog_file_name(generation, name);
        snprintf(path, sizeof path, "s/%s", name);
        make_file(path);
    }
}

static uint32_t catalogs(void)
{
    uint32_t count = 0;

    for (int i = 0; i < sim.now.count; i++)
        count += strstr(sim.now.entries[i].name, "CATALOG-") != NULL;
    return count;
}

/* ---- claims ---- */

CLAIM(however_many_older_ones_there_are_the_newest_is_read)
{
    uint64_t generation = 0;
    uint32_t damaged = 0;

    start();
    make_damaged(1);
    assert_int_equal(write_one(&sim.fs, "s", 1000), 0);
    assert_true(catalogs() < DAMAGED); /* some went with it */
    assert_int_equal(read_one("s", &generation, &damaged), 0);
    assert_int_equal(generation, 1000);
    assert_int_equal(damaged, 0);
    assert_int_equal(write_one(&sim.fs, "s", 1001), 0);
    assert_int_equal(catalogs(), 2); /* and the others with the next */
    sim_fs_fini(&sim);
}

/* After so many damaged ones the search ends. */
CLAIM(very_many_damaged_newer_ones_are_refused_by_the_newest_s_name)
{
    uint64_t generation = 0;
    uint32_t damaged = 0;

    start();
    make_damaged(1000);
    assert_int_equal(read_one("s", &generation, &damaged), -EBADMSG);
    assert_non_null(strstr(error, "'s/CATALOG-00001099' is damaged"));
    sim_fs_fini(&sim);
}

CLAIM(a_catalog_under_another_name_is_ignored)
{
    uint64_t generation = 0;
    uint32_t damaged = 0;

    start();
    assert_int_equal(write_one(&sim.fs, "s", 3), 0);
    assert_int_equal(sim.fs.ops->rename(&sim, "s/CATALOG-00000003", "s/CATALOG-00000007"), 0);
    assert_int_equal(sim.fs.ops->rename(&sim, "s/CATALOG-00000003.2", "s/CATALOG-00000007.2"), 0);
    assert_int_equal(read_one("s", &generation, &damaged), -EBADMSG);
    assert_non_null(strstr(error, "CATALOG-00000007"));
    assert_int_equal(write_one(&sim.fs, "s", 2), 0); /* an older one that is whole */
    assert_int_equal(read_one("s", &generation, &damaged), 0);
    assert_int_equal(generation, 2);
    assert_int_equal(damaged, 1);
    sim_fs_fini(&sim);
}

CLAIM(names_longer_than_any_of_ours_are_not_ours)
{
    assert_int_equal(catalog_file_generation("CATALOG-00000003"), 3);
    assert_int_equal(catalog_file_generation("CATALOG-00000003.2"), 3);
    assert_int_equal(catalog_file_generation("CATALOG-00000003.3"), 0);
    assert_int_equal(catalog_file_generation("CATALOG-18446744073709551615"), UINT64_MAX);
    assert_int_equal(catalog_file_generation("CATALOG-00000000000000000000000000000003"), 0);
    assert_int_equal(catalog_file_generation("CATALOG-3"), 0);
    assert_int_equal(catalog_file_generation("CATALOG-"), 0);
    assert_int_equal(catalog_file_generation("catalog-00000003"), 0);
}

static int list_fails(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                      void *each_ctx)
{
    (void)ctx;
    (void)path;
    (void)each;
    (void)each_ctx;
    return -EIO;
}

/* The older ones are the next writing's. */
CLAIM(an_unlistable_directory_does_not_prevent_writing)
{
    struct fs_ops ops;
    const struct fs fs = {.ops = &ops, .ctx = &sim};
    uint64_t generation = 0;
    uint32_t damaged = 0;

    start();
    ops = *sim.fs.ops;
    ops.list = list_fails;
    assert_int_equal(write_one(&sim.fs, "s", 1), 0);
    assert_int_equal(write_one(&fs, "s", 2), 0);
    assert_int_equal(catalogs(), 4);
    assert_int_equal(read_one("s", &generation, &damaged), 0);
    assert_int_equal(generation, 2);
    assert_int_equal(write_one(&sim.fs, "s", 3), 0);
    assert_int_equal(catalogs(), 2);
    sim_fs_fini(&sim);
}

static int64_t huge_size(void *ctx, int fd)
{
    (void)ctx;
    (void)fd;
    return INT64_C(1) << 40;
}

CLAIM(an_oversized_catalog_is_damaged)
{
    struct fs_ops ops;
    const struct fs fs = {.ops = &ops, .ctx = &sim};
    struct catalog catalog;
    uint32_t damaged = 0;

    start();
    ops = *sim.fs.ops;
    ops.size = huge_size;
    assert_int_equal(write_one(&sim.fs, "s", 1), 0);
    assert_int_equal(catalog_read(&fs, "s", &catalog, &damaged, error, sizeof error), -EBADMSG);
    sim_fs_fini(&sim);
}

/* The directory's name leaves no room for the file's. */
CLAIM(an_overlong_path_is_rejected)
{
    static char dir[PATH_MAX + 10];
    const struct catalog catalog = catalog_of(1);
    bool is_fatal = true;

    start();
    memset(dir, 'd', PATH_MAX - 10);
    assert_int_equal(catalog_write(&sim.fs, dir, &catalog, &is_fatal), -ENAMETOOLONG);
    assert_false(is_fatal);
    sim_fs_fini(&sim);
}

CLAIMS_MAIN(NULL, NULL)
