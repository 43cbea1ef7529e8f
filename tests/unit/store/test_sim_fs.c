
#include "unit/claim.h"

#include "support/sim_fs.h"
#include "unit/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The simulated disk implements holes correctly: other tests depend on it. */

enum { SECTORS = 64, BYTES = SECTORS * SIM_SECTOR_BYTES };

static int make(struct sim_fs *sim, uint64_t seed, bool sync)
{
    char bytes[BYTES];
    size_t done = 0;
    int fd;

    sim_fs_init(sim, seed);
    memset(bytes, 'x', sizeof bytes);
    fd = sim->fs.ops->open(sim, "d/file", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    while (done < sizeof bytes) {
        ssize_t put =
            sim->fs.ops->pwrite(sim, fd, bytes + done, sizeof bytes - done, (int64_t)done);

        assert_true(put > 0);
        done += (size_t)put;
    }
    if (sync) {
        assert_int_equal(sim->fs.ops->fdatasync(sim, fd), 0);
        assert_int_equal(sim->fs.ops->fsync_dir(sim, "d"), 0);
    }
    return fd;
}

CLAIM(a_hole_reads_as_zeros_and_takes_no_space)
{
    struct sim_fs sim;
    int fd = make(&sim, 1, true);
    char bytes[BYTES];

    assert_int_equal(sim.fs.ops->disk_bytes(&sim, fd), BYTES);
    /* From the middle of sector 2 to the middle of 10: the 7 between are free. */
    assert_int_equal(sim.fs.ops->punch(&sim, fd, 2 * 512 + 100, 8 * 512), 0);
    assert_int_equal(sim.fs.ops->disk_bytes(&sim, fd), BYTES - 7 * 512);
    assert_int_equal(sim.fs.ops->size(&sim, fd), BYTES);
    assert_int_equal(sim.fs.ops->pread(&sim, fd, bytes, BYTES, 0), BYTES);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(bytes[i], i >= 2 * 512 + 100 && i < 10 * 512 + 100 ? 0 : 'x');
    assert_int_equal(sim.fs.ops->pwrite(&sim, fd, "y", 1, 4 * 512), 1);
    assert_int_equal(sim.fs.ops->disk_bytes(&sim, fd), BYTES - 6 * 512);
    sim_fs_fini(&sim);
}

CLAIM(a_hole_makes_room_on_a_full_disk)
{
    struct sim_fs sim;
    int fd = make(&sim, 1, true);

    sim.bytes_max = BYTES;
    assert_int_equal(sim.fs.ops->pwrite(&sim, fd, "y", 1, BYTES), -ENOSPC);
    assert_int_equal(sim.fs.ops->punch(&sim, fd, 0, 512), 0);
    assert_int_equal(sim.fs.ops->pwrite(&sim, fd, "y", 1, BYTES), 1);
    assert_int_equal(sim.fs.ops->pwrite(&sim, fd, "y", 1, 0), -ENOSPC);
    sim_fs_fini(&sim);
}

/* Returns the number of sectors that are holes; each is a hole completely or not at all. */
static int holes_after(uint64_t seed, enum sim_damage damage, bool sync)
{
    struct sim_fs sim;
    int fd = make(&sim, seed, true), holes = 0;
    const char *bytes;

    assert_int_equal(sim.fs.ops->punch(&sim, fd, 0, BYTES), 0);
    if (sync)
        assert_int_equal(sim.fs.ops->fdatasync(&sim, fd), 0);
    sim_fs_crash(&sim, damage);
    bytes = sim_fs_bytes(&sim, "d/file", NULL);
    for (int sector = 0; sector < SECTORS; sector++) {
        const char *at = bytes + sector * 512;

        assert_true(*at == 0 || *at == 'x');
        assert_memory_equal(at, at + 1, 511);
        holes += *at == 0;
    }
    fd = sim.fs.ops->open(&sim, "d/file", O_RDONLY, 0);
    assert_int_equal(sim.fs.ops->disk_bytes(&sim, fd), BYTES - holes * 512);
    sim_fs_fini(&sim);
    return holes;
}

CLAIM(a_power_cut_keeps_a_hole_sector_by_sector)
{
    struct random random = seed_random(__func__);
    int partly = 0;

    for (int i = 0; i < 20; i++) {
        int holes = holes_after(random_next(&random), SIM_SOME_SECTORS, false);

        partly += holes > 0 && holes < SECTORS;
        assert_int_equal(holes_after(random_next(&random), SIM_SOME_SECTORS, true), SECTORS);
        assert_int_equal(holes_after(random_next(&random), SIM_DROP_UNSYNCED, true), SECTORS);
        assert_int_equal(holes_after(random_next(&random), SIM_KEEP_ALL, false), SECTORS);
        assert_true(holes_after(random_next(&random), SIM_DROP_UNSYNCED, false) < SECTORS);
    }
    assert_true(partly > 10);
}

CLAIM(a_clone_has_holes_of_its_own)
{
    struct sim_fs sim, clone;
    int fd = make(&sim, 1, true), twin;

    assert_int_equal(sim.fs.ops->punch(&sim, fd, 0, 1024), 0);
    sim_fs_clone(&clone, &sim, 2);
    assert_int_equal(sim.fs.ops->punch(&sim, fd, 0, 4096), 0);
    twin = clone.fs.ops->open(&clone, "d/file", O_RDONLY, 0);
    assert_int_equal(clone.fs.ops->disk_bytes(&clone, twin), BYTES - 1024);
    assert_int_equal(sim.fs.ops->disk_bytes(&sim, fd), BYTES - 4096);
    sim_fs_fini(&clone);
    sim_fs_fini(&sim);
}

CLAIM(unsupported_punching_is_reported)
{
    struct sim_fs sim;
    int fd = make(&sim, 1, true);

    sim.no_punch = true;
    assert_int_equal(sim.fs.ops->punch(&sim, fd, 0, BYTES), -EOPNOTSUPP);
    assert_int_equal(sim.fs.ops->disk_bytes(&sim, fd), BYTES);
    sim_fs_fini(&sim);
}

CLAIMS_MAIN(NULL, NULL)
