/* A failed read of the disk is not damage: the data may be readable another time. */
#include "fsck_rig.h"
#include "unit/claim.h"
#include "unit/stand_before.h"

#include <sys/stat.h>
#include <time.h>

/* ---- a disk with a place that cannot be read ---- */

static struct {
    ino_t file;
    int64_t from, to;
    int64_t times; /* that it fails, from now on */
    bool
        spares_blocks; /* the few records share their block with the padding, which opening reads */
} bad;

static bool is_bad(int fd, size_t len, int64_t at)
{
    struct stat about;

    if (bad.times == 0 || at >= bad.to || at + (int64_t)len <= bad.from ||
        (bad.spares_blocks && len == 4096) || fstat(fd, &about) < 0 || about.st_ino != bad.file)
        return false;
    bad.times--;
    errno = EIO;
    return true;
}

STANDS_BEFORE(pread, ssize_t, -1, is_bad(fd, len, at), (int fd, void *into, size_t len, off_t at),
              (fd, into, len, at))
STANDS_BEFORE(pread64, ssize_t, -1, is_bad(fd, len, at), (int fd, void *into, size_t len, off_t at),
              (fd, into, len, at))

/* Returns without a pause: no test waits for the disk to come back. */
int bad_nanosleep(const struct timespec *pause, struct timespec *left) __asm__("nanosleep");
int bad_nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)pause;
    (void)left;
    return 0;
}

static void break_disk(const char *path, int64_t from, int64_t bytes, int64_t times)
{
    struct stat about;

    assert_int_equal(stat(path, &about), 0);
    bad.file = about.st_ino;
    bad.from = from < 0 ? from + about.st_size : from;
    bad.to = bad.from + bytes;
    bad.times = times;
    bad.spares_blocks = false;
}

static void break_run(int64_t from, int64_t bytes, int64_t times)
{
    char path[256];

    path_of("00000002.run", path);
    break_disk(path, from, bytes, times);
    bad.spares_blocks = true;
}

static void heal_disk(void)
{
    bad.times = 0;
}

static int remove_and_heal(void **state)
{
    heal_disk();
    return remove_scene(state);
}

/* ---- claims ---- */

CLAIM_BETWEEN(a_disk_that_is_away_for_a_moment_is_read_again, make_scene, remove_and_heal)
{
    for (int64_t times = 1; times <= 7; times++) { /* with its neighbours, then by itself */
        break_run(scene.second_at, 1, times);
        expect_clean();
    }
    assert_int_equal(scene.report.shard[0].cold, 18);
}

CLAIM_BETWEEN(unreadable_places_are_reported_as_unreadable, make_scene, remove_and_heal)
{
    const struct fsck_finding *finding;
    struct buffer text;

    break_run(scene.second_at, 1, INT64_MAX);
    examine();
    finding = the_finding("run/00000002.run", "cannot be read: a delayed job of topic 'orders'");
    assert_true(finding->is_unread);
    assert_int_equal(finding->slot, 1);
    buffer_init(&text, 1 << 20);
    fsck_emit_text(&text, &scene.report);
    fsck_emit_json(&text, &scene.report);
    buffer_append_byte(&text, '\0');
    assert_non_null(strstr(text.at, "the disk failed: repair it, or copy the directory"));
    assert_non_null(strstr(text.at, "\"cure\":\"read_again\""));
    buffer_fini(&text);
}

/* Wherever that is: once the disk can be read again, nothing is missing. */
CLAIM_BETWEEN(unreadable_places_are_not_treated_as_damage, make_scene, remove_and_heal)
{
    static const struct {
        const char *file;
        int64_t from, bytes;
    } places[] = {
        {"run/00000002.run", 4096, 1},     {"run/00000002.run", 0, 1 << 20},
        {"run/00000002.run", -12288, 1},   {"run/00000002.run", -1, 1},
        {"run/00000001.keys", 0, 1},       {"run/00000001.keys", -1, 1},
        {"run/00000001.keys", 4096, 1},    {"run/CATALOG-00000005", 10, 1},
        {"wal/MANIFEST", 0, 8192},         {"wal/00000001.log", 0, 1},
        {"wal/00000001.log", 4096 + 8, 1},
    };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[256];

        snprintf(path, sizeof path, "%s/shard-00/%s", scene.dir, places[i].file);
        break_disk(path, places[i].from, places[i].bytes, INT64_MAX);
        scene.output[0] = '\0';
        repair();
        assert_true(scene.report.finding_count > 0);
        assert_int_equal(scene.report.mended, 0);
        assert_non_null(strstr(scene.output, "is not changed"));
        heal_disk();
        expect_clean();
        assert_int_equal(scene.report.shard[0].generation, 5);
        assert_int_equal(scene.report.shard[0].cold, 18);
    }
}

CLAIM_BETWEEN(damage_next_to_an_unreadable_place_is_not_repaired, make_scene, remove_and_heal)
{
    flip("00000002.run", 4096 + 30);
    break_run(scene.second_at, 1, INT64_MAX);
    repair();
    assert_true(scene.report.finding_count >= 2);
    assert_int_equal(scene.report.mended, 0);
    heal_disk();
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 19);
}

CLAIM_BETWEEN(unreadable_jobs_are_not_saved, make_scene, remove_and_heal)
{
    break_run(scene.second_at, 1, INT64_MAX);
    save();
    the_finding("run/00000002.run", "cannot be read: a delayed job of topic 'orders'");
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 19);
}

static void break_when_the_table_is_written(void *ctx, const char *text)
{
    (void)ctx;
    if (strstr(text, "writes a new table of keys for run 2"))
        break_run(scene.second_at, 1, INT64_MAX);
}

/* A table without its key: the job would be there, and never be found. */
CLAIM_BETWEEN(no_table_is_rewritten_without_previously_readable_entries, make_scene,
              remove_and_heal)
{
    const struct fsck_options options = {.repair = true,
                                         .report_step = break_when_the_table_is_written};

    remove_file("00000002.keys");
    assert_int_equal(fsck_run_with(scene.dir, &options, &scene.report), -EIO);
    assert_non_null(strstr(scene.report.error, "cannot write a table of keys"));
    heal_disk();
    repair();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 18);
}

CLAIMS_MAIN(NULL, NULL)
