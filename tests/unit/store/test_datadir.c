#include "store/datadir.h"
#include "store/manifest.h"

#include "base/hash.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[128];
static char error[512];
static struct datadir_manifest manifest;

static int make_root(void **state)
{
    int result = scratch_setup(state);
    snprintf(dir, sizeof dir, "%s/data", scratch_root);
    *error = '\0';
    return result;
}

static struct datadir *open_well(uint32_t shards)
{
    struct datadir *datadir = NULL;
    int result = datadir_open(dir, shards, &datadir, &manifest, error, sizeof error);

    if (result < 0)
        print_error("%s\n", error);
    assert_int_equal(result, 0);
    return datadir;
}

static int open_badly(uint32_t shards)
{
    struct datadir *datadir = NULL;
    int result = datadir_open(dir, shards, &datadir, &manifest, error, sizeof error);

    assert_true(result < 0);
    assert_null(datadir);
    assert_true(*error);
    return result;
}

static void write_manifest(const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

CLAIM_BETWEEN(is_created_for_its_owner_only, make_root, scratch_teardown)
{
    struct datadir *datadir = open_well(4);
    struct stat about;
    char path[256];

    assert_int_equal(stat(dir, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_true(manifest.is_new);
    assert_int_equal(manifest.shards, 4);
    assert_true(manifest.hash_seed != 0);
    datadir_shard_path(datadir, 3, path, sizeof path);
    assert_string_equal(path + strlen(dir), "/shard-03");
    datadir_close(datadir);
}

CLAIM_BETWEEN(keeps_fixed_and_written_values, make_root, scratch_teardown)
{
    struct datadir *datadir = open_well(0);
    uint64_t hash_seed = manifest.hash_seed;

    assert_int_equal(manifest.shards, 1);
    snprintf(manifest.boot_id, sizeof manifest.boot_id, "0123-4567");
    manifest.boot_offset_ms = -1234567890123;
    manifest.skew_ms = -987654321;
    assert_int_equal(datadir_write(datadir, &manifest), 0);
    datadir_close(datadir);
    datadir = open_well(1);
    assert_false(manifest.is_new);
    assert_true(manifest.hash_seed == hash_seed);
    assert_string_equal(manifest.boot_id, "0123-4567");
    assert_true(manifest.boot_offset_ms == -1234567890123);
    assert_true(manifest.skew_ms == -987654321);
    datadir_close(datadir);
}

CLAIM_BETWEEN(second_opening_is_refused_with_the_pid_of_the_first, make_root, scratch_teardown)
{
    struct datadir *datadir = open_well(1), *other;
    char pid[32];

    snprintf(pid, sizeof pid, "process %d, which is this one;", (int)getpid());
    assert_int_equal(open_badly(1), -EBUSY);
    assert_non_null(strstr(error, pid));
    assert_int_equal(datadir_open_existing(dir, &other, &manifest, error, sizeof error), -EBUSY);
    assert_non_null(strstr(error, pid));
    datadir_close(datadir);
    datadir_close(open_well(1));
}

CLAIM_BETWEEN(another_number_of_shards_is_refused, make_root, scratch_teardown)
{
    datadir_close(open_well(2));
    assert_int_equal(open_badly(3), -EINVAL);
    assert_non_null(strstr(error, "created with 2 shards, not 3"));
    assert_int_equal(open_badly(DATADIR_SHARDS_MAX + 1), -EINVAL);
    datadir_close(open_well(0));
    assert_int_equal(manifest.shards, 2);
}

#define HEAD "# written by tarry; do not edit\n"
#define CLOCKS "boot_id=abc\nboot_offset_ms=-5\nskew_ms=7\n"
#define SEED "hash_seed=0x0000000000000010\n"
#define NAME "name=0123456789abcdef0123456789abcdef\nopened=1\n"

static size_t read_manifest(char *text, size_t text_bytes)
{
    char path[256];
    FILE *file;
    size_t len;

    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    file = fopen(path, "r");
    assert_non_null(file);
    len = fread(text, 1, text_bytes - 1, file);
    fclose(file);
    text[len] = '\0';
    return len;
}

/* The text with a name, and the checksum of all of it. */
static void sign(char out[768], const char *text)
{
    size_t len = (size_t)snprintf(out, 768, "%s" NAME, text);

    snprintf(out + len, 768 - len, "check=%016" PRIx64 "\n", hash_64(out, len));
}

CLAIM_BETWEEN(an_invalid_manifest_is_rejected_and_kept, make_root, scratch_teardown)
{
    static const char *const bad[] = {
        "",
        "nonsense\n",
        "format=1\n",
        HEAD "format\n",
        HEAD "shards=1\n" SEED CLOCKS,
        HEAD "format=0\nshards=1\n" SEED CLOCKS,
        HEAD "format=x\nshards=1\n" SEED CLOCKS,
        HEAD "format=1x\nshards=1\n" SEED CLOCKS,
        HEAD "format=99999999999\nshards=1\n" SEED CLOCKS,
        HEAD "format=1\n" SEED CLOCKS,
        HEAD "format=1\nshards=0\n" SEED CLOCKS,
        HEAD "format=1\nshards=65\n" SEED CLOCKS,
        HEAD "format=1\nshards=4096\n" SEED CLOCKS,
        HEAD "format=1\nshards=one\n" SEED CLOCKS,
        HEAD "format=1\nshards=1\n" CLOCKS,
        HEAD "format=1\nshards=1\nhash_seed=16\n" CLOCKS,
        HEAD "format=1\nshards=1\nhash_seed=-1\n" CLOCKS,
        HEAD "format=1\nshards=1\nhash_seed=99999999999999999999999\n" CLOCKS,
        HEAD "format=1\nshards=1\n" SEED "boot_offset_ms=-5\nskew_ms=7\n",
        HEAD "format=1\nshards=1\n" SEED "boot_id=abc\nskew_ms=7\n",
        HEAD "format=1\nshards=1\n" SEED "boot_id=abc\nboot_offset_ms=\nskew_ms=7\n",
        HEAD "format=1\nshards=1\n" SEED "boot_id=abc\nboot_offset_ms=1z\nskew_ms=7\n",
        HEAD "format=1\nshards=1\n" SEED "boot_id=abc\nboot_offset_ms=-5\n",
        HEAD "format=1\nshards=1\n" SEED "boot_id=abc\nboot_offset_ms=-5\nskew_ms=\n",
        HEAD "format=1\nshards=1\n" SEED "boot_id=abc\nboot_offset_ms=-5\nskew_ms=2y\n",
        HEAD "format=1\nshards=1\n" SEED
             "boot_id=01234567890123456789012345678901234567890\nboot_offset_ms=-5\nskew_ms=7\n",
        /* Twice, or of a later version. */
        HEAD "format=1\nshards=1\nshards=1\n" SEED CLOCKS,
        HEAD "format=1\nshards=1\n" SEED CLOCKS "skew_ms=7\n",
        HEAD "format=1\nshards=1\n" SEED CLOCKS "of_a_later_version=5\n",
        HEAD "format=1\nshards=1\n" SEED CLOCKS NAME,
    };

    char signed_text[768];

    datadir_close(open_well(1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char written[768], text[768];

        sign(written, bad[i]);
        write_manifest(written);
        if (open_badly(1) != -EBADMSG)
            fail_msg("taken: %s", written);
        assert_non_null(strstr(error, "MANIFEST"));
        assert_int_equal(read_manifest(text, sizeof text), strlen(written));
        assert_string_equal(text, written);
    }
    write_manifest(HEAD "format=1\nshards=1\n" SEED CLOCKS NAME); /* without its checksum */
    assert_int_equal(open_badly(1), -EBADMSG);
    sign(signed_text, HEAD "format=1\nshards=1\n" SEED CLOCKS);
    write_manifest(signed_text);
    datadir_close(open_well(1));
    assert_int_equal(manifest.hash_seed, 16);
}

/* Opens a directory after the first completed start. */
static struct datadir *open_opened(void)
{
    struct datadir *datadir = open_well(3);

    manifest.is_opened = true;
    manifest.boot_offset_ms = 1790000000000;
    assert_int_equal(datadir_write(datadir, &manifest), 0);
    return datadir;
}

CLAIM_BETWEEN(a_lost_or_damaged_manifest_is_read_from_its_copy, make_root, scratch_teardown)
{
    char path[256], copy[256], text[768];
    struct datadir *datadir = open_opened();
    const struct datadir_manifest was = manifest;

    datadir_close(datadir);
    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    snprintf(copy, sizeof copy, "%s/MANIFEST.copy", dir);
    for (int round = 0; round < 4; round++) {
        if (round == 0)
            assert_int_equal(unlink(path), 0);
        else
            write_manifest(round == 1 ? "" : round == 2 ? "nonsense\n" : HEAD "format=1\n");
        datadir = open_well(0);
        assert_string_equal(manifest.fault, round == 0 ? "is missing" : "is damaged");
        assert_string_equal(manifest.name, was.name);
        assert_true(manifest.hash_seed == was.hash_seed && manifest.is_opened);
        assert_int_equal(manifest.shards, 3);
        assert_true(manifest.boot_offset_ms == was.boot_offset_ms);
        assert_int_equal(datadir_write(datadir, &manifest), 0);
        datadir_close(datadir);
        datadir = open_well(0);
        assert_null(manifest.fault);
        assert_null(manifest.copy_fault);
        datadir_close(datadir);
    }
    assert_true(read_manifest(text, sizeof text) > 100);
    assert_int_equal(unlink(copy), 0);
    datadir = open_well(0);
    assert_null(manifest.fault);
    assert_non_null(manifest.copy_fault);
    datadir_close(datadir);
}

CLAIM_BETWEEN(every_single_bit_of_the_manifest_counts, make_root, scratch_teardown)
{
    char text[512];
    size_t len, bits = 0;
    struct datadir *datadir;

    datadir = open_well(3);
    snprintf(manifest.boot_id, sizeof manifest.boot_id, "01234567-89ab-cdef-0123-456789abcdef");
    manifest.boot_offset_ms = 1790000000000;
    manifest.skew_ms = -1;
    assert_int_equal(datadir_write(datadir, &manifest), 0);
    datadir_close(datadir);
    len = read_manifest(text, sizeof text);
    for (size_t bit = 0; bit < len * 8; bit++) {
        char path[256];
        FILE *file;

        text[bit / 8] ^= (char)(1 << bit % 8);
        snprintf(path, sizeof path, "%s/MANIFEST", dir);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, len, file), len);
        fclose(file);
        text[bit / 8] ^= (char)(1 << bit % 8);
        if (datadir_open_existing(dir, &datadir, &manifest, error, sizeof error) == 0)
            fail_msg("bit %zu of byte %zu ('%c') may be wrong unseen", bit % 8, bit / 8,
                     text[bit / 8]);
        assert_true(open_badly(0) < 0);
        bits++;
    }
    assert_true(bits > 1500);
    write_manifest(text);
    datadir_close(open_well(3));
}

CLAIM_BETWEEN(its_name_is_drawn_once, make_root, scratch_teardown)
{
    char name[DATADIR_NAME_BYTES + 1], text[512], whole[512];

    datadir_close(open_well(1));
    strcpy(name, manifest.name);
    assert_int_equal(strspn(name, "0123456789abcdef"), 32);
    datadir_close(open_well(1));
    assert_string_equal(manifest.name, name);
    read_manifest(text, sizeof text);
    snprintf(whole, sizeof whole, "\nname=%s\nopened=0\ncheck=", name);
    assert_non_null(strstr(text, whole));
}

static void shard_name(char *path, size_t path_bytes, int shard, const char *more)
{
    snprintf(path, path_bytes, "%s/shard-%02d%s", dir, shard, more);
}

CLAIM_BETWEEN(the_shards_are_the_existing_directories, make_root, scratch_teardown)
{
    char path[256], aside[256];
    struct datadir *datadir;

    datadir_close(open_well(3));
    for (int shard = 0; shard < 3; shard++) {
        shard_name(path, sizeof path, shard, "");
        shard_name(aside, sizeof aside, shard, ".aside");
        assert_int_equal(rename(path, aside), 0);
        assert_int_equal(open_badly(0), -EBADMSG);
        assert_non_null(strstr(error, "lacks 'shard-0"));
        assert_int_equal(access(path, F_OK), -1);
        /* For read-only access. */
        assert_int_equal(datadir_open_existing(dir, &datadir, &manifest, error, sizeof error), 0);
        datadir_close(datadir);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(rename(aside, path), 0);
    }
    shard_name(path, sizeof path, 3, "");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_badly(0), -EBADMSG);
    assert_non_null(strstr(error, "has a 'shard-03' and its MANIFEST has 3 shards"));
    assert_int_equal(rmdir(path), 0);
    datadir_close(open_well(3));
}

CLAIM_BETWEEN(newer_format_is_refused_as_such, make_root, scratch_teardown)
{
    datadir_close(open_well(1));
    write_manifest("format=2\nfuture=yes\n");
    assert_int_equal(open_badly(1), -EPROTONOSUPPORT);
    assert_non_null(strstr(error, "format 2"));
}

CLAIM_BETWEEN(shards_without_a_manifest_are_not_recreated, make_root, scratch_teardown)
{
    char path[256];

    datadir_close(open_well(1));
    shard_name(path, sizeof path, 0, "/wal");
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_badly(1), -EBADMSG);
    assert_int_equal(access(path, F_OK), -1);
    /* An empty one is what a start leaves that was cut short. */
    shard_name(path, sizeof path, 0, "/wal");
    assert_int_equal(rmdir(path), 0);
    /* With fewer shards the rest would be taken for lost ones at every later start. */
    shard_name(path, sizeof path, 1, "");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_badly(1), -EEXIST);
    assert_non_null(
        strstr(error, "shard-01' is empty and was left by a first start with more shards"));
    datadir_close(open_well(2));
    assert_true(manifest.is_new);
}

CLAIM_BETWEEN(half_written_manifest_of_a_crash_does_not_matter, make_root, scratch_teardown)
{
    char path[256];
    FILE *file;

    datadir_close(open_well(1));
    snprintf(path, sizeof path, "%s/MANIFEST.tmp", dir);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("form", file);
    fclose(file);
    datadir_close(open_well(1));
    assert_false(manifest.is_new);
}

CLAIM_BETWEEN(opening_for_reading_makes_nothing, make_root, scratch_teardown)
{
    struct datadir *datadir;

    assert_int_equal(datadir_open_existing(dir, &datadir, &manifest, error, sizeof error), -ENOENT);
    assert_int_equal(access(dir, F_OK), -1);
    datadir_close(open_well(1));
    assert_int_equal(datadir_open_existing(dir, &datadir, &manifest, error, sizeof error), 0);
    /* Two may read in parallel, and no program may write meanwhile. */
    struct datadir *second;
    assert_int_equal(datadir_open_existing(dir, &second, &manifest, error, sizeof error), 0);
    assert_int_equal(open_badly(1), -EBUSY);
    datadir_close(second);
    datadir_close(datadir);
}

CLAIM_BETWEEN(a_path_that_is_not_a_directory_is_rejected, make_root, scratch_teardown)
{
    FILE *file = fopen(dir, "w");

    assert_non_null(file);
    fclose(file);
    assert_int_equal(open_badly(1), -ENOTDIR);
    assert_non_null(strstr(error, dir));
}

CLAIM_BETWEEN(an_empty_or_overlong_path_is_rejected, make_root, scratch_teardown)
{
    static char path[8192];
    struct datadir *datadir = NULL;

    assert_int_equal(datadir_open("", 1, &datadir, &manifest, error, sizeof error), -ENAMETOOLONG);
    memset(path, 'x', sizeof path - 1);
    assert_int_equal(datadir_open(path, 1, &datadir, &manifest, error, sizeof error),
                     -ENAMETOOLONG);
    assert_null(datadir);
    snprintf(path, sizeof path, "%s///", dir);
    assert_int_equal(datadir_open(path, 1, &datadir, &manifest, error, sizeof error), 0);
    datadir_shard_path(datadir, 3, path, sizeof path);
    assert_null(strstr(path, "//"));
    datadir_close(datadir);
}

CLAIM_BETWEEN(too_many_shards_are_rejected_and_nothing_is_created, make_root, scratch_teardown)
{
    assert_int_equal(open_badly(DATADIR_SHARDS_MAX + 1), -EINVAL);
    assert_int_equal(access(dir, F_OK), -1);
}

CLAIM_BETWEEN(a_manifest_that_cannot_be_read_or_locked_is_named, make_root, scratch_teardown)
{
    char path[200];

    datadir_close(open_well(1));
    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_badly(1), -EISDIR);
    assert_non_null(strstr(error, "MANIFEST"));
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/LOCK", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_badly(1), -EISDIR);
    assert_non_null(strstr(error, "LOCK"));
}

/* If the new manifest cannot be written, nothing is begun. */
CLAIM_BETWEEN(a_directory_with_an_unwritable_manifest_is_rejected, make_root, scratch_teardown)
{
    char path[200];

    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/MANIFEST.tmp", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_badly(1), -EISDIR);
    assert_non_null(strstr(error, "MANIFEST"));
    assert_int_equal(rmdir(path), 0);
    datadir_close(open_well(1));
}

CLAIMS_MAIN(NULL, NULL)
