/* The catalog, and unreferenced files in the folder of runs. */
#include "fsck/exam.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct fsck_where NOWHERE = {.slot = FSCK_NO_SLOT};

struct fsck_run_exam *fsck_run_of(const struct fsck_exam *exam, uint32_t number)
{
    uint32_t low = 0, high = exam->catalog.run_count;

    while (low < high) { /* numbers ascend */
        uint32_t middle = low + (high - low) / 2;

        if (exam->catalog.runs[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < exam->catalog.run_count && exam->catalog.runs[low].number == number
               ? &exam->runs[low]
               : NULL;
}

/* ---- runs without a catalog ---- */

struct listing {
    struct fsck_exam *exam;
    void (*each)(struct fsck_exam *exam, const char *name);
    uint32_t full_runs;
};

static int64_t size_of(struct fsck_exam *exam, const char *name)
{
    const struct fs *fs = &exam->reading.fs;
    char path[PATH_MAX];
    int64_t size;
    int fd;

    snprintf(path, sizeof path, "%s/%s", exam->run_dir, name);
    fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
    fsck_unread(exam, path);
    if (fd < 0)
        return 0;
    size = fs->ops->size(fs->ctx, fd);
    fsck_unread(exam, path);
    fs->ops->close(fs->ctx, fd);
    return size;
}

static void count_full(void *ctx, const char *name)
{
    struct listing *listing = ctx;

    listing->full_runs += run_file_number(name) && size_of(listing->exam, name) > 0;
}

/* Returns whether the complete state is in the log: no checkpoint has dropped any of it, and runs
 * are left over from crashes before the first catalog. */
static bool is_all_in_log(struct fsck_exam *exam)
{
    struct wal_manifest manifest;
    int fd, result = wal_manifest_open(&exam->disk, O_RDONLY, &fd, &manifest, NULL);

    fsck_unread(exam, "the log's MANIFEST");
    if (result < 0)
        return false;
    (void)exam->reading.fs.ops->close(&exam->reading, fd);
    return manifest.epoch > 0 && manifest.first == 1 && !manifest.has_runs;
}

/* Checks for runs without a catalog. If the log is also missing, a crash before the first catalog
 * leaves at most one run. */
static void check_none_is_lost(struct fsck_exam *exam)
{
    struct listing listing = {.exam = exam};

    if (is_all_in_log(exam))
        return;
    (void)exam->reading.fs.ops->list(&exam->reading, exam->run_dir, count_full, &listing);
    fsck_unread(exam, "the directory of runs");
    if (listing.full_runs < 2)
        return;
    exam->is_catalog_bad = true;
    fsck_find(exam, NOWHERE, FSCK_RESTORE,
              "there are %" PRIu32 " runs, but no catalog that lists their current jobs",
              listing.full_runs);
}

/* ---- reading ---- */

static int make_room(struct fsck_exam *exam)
{
    exam->runs = calloc(exam->catalog.run_count + 1, sizeof *exam->runs);
    exam->tables = calloc(exam->catalog.key_count + 1, sizeof *exam->tables);
    exam->is_table_bad = calloc(exam->catalog.key_count + 1, sizeof *exam->is_table_bad);
    return exam->runs && exam->tables && exam->is_table_bad ? fsck_topics_load(exam) : -ENOMEM;
}

/* Checks one copy. Returns 0, or the reason why it does not count. */
static int look_at_copy(struct fsck_exam *exam, const char *name)
{
    struct store_identity identity;
    int result = catalog_look(&exam->reading.fs, exam->run_dir, name, &identity);

    fsck_unread(exam, name);
    return result == 0 && !store_identity_equals(&identity, &exam->disk.identity) ? -EBADMSG
                                                                                  : result;
}

/* Checks both copies. A crash may leave the second one missing. Returns 0 or -ENOMEM. */
static int look_at_copies(struct fsck_exam *exam)
{
    char first[32], second[32];
    int one, other;

    catalog_file_name(exam->catalog.generation, first);
    catalog_copy_name(exam->catalog.generation, second);
    one = look_at_copy(exam, first);
    other = look_at_copy(exam, second);
    if (one == -ENOMEM || other == -ENOMEM)
        return -ENOMEM;
    exam->is_copy_bad = one == -EBADMSG || one == -ENOENT || other == -EBADMSG;
    if (exam->is_copy_bad)
        fsck_find(exam, NOWHERE, FSCK_REPAIR,
                  "one of the two copies of catalog %" PRIu64
                  " is damaged or missing; the other one is used",
                  exam->catalog.generation);
    else if (other == -ENOENT)
        fsck_note(exam,
                  "run/%s, the second copy of the catalog, is missing; the next checkpoint writes "
                  "both again",
                  second);
    return 0;
}

int fsck_catalog_read(struct fsck_exam *exam)
{
    struct fsck_shard *shard = &exam->report->shard[exam->shard];
    int result =
        catalog_read_of(&exam->reading.fs, exam->run_dir, &exam->disk.identity, &exam->catalog,
                        &exam->newer_damaged, exam->error, sizeof exam->error);

    if (result == -ENOMEM)
        return result;
    if (result == -ENOENT) {
        exam->catalog = (struct catalog){0};
        check_none_is_lost(exam);
        return 0;
    }
    if (result < 0) {
        exam->catalog = (struct catalog){0};
        exam->is_catalog_bad = true;
        fsck_find(exam, NOWHERE, FSCK_RESTORE, "%s", exam->error);
        return 0;
    }
    shard->generation = exam->catalog.generation;
    shard->runs = exam->catalog.run_count;
    shard->tables = exam->catalog.key_count;
    if (exam->newer_damaged)
        fsck_find(exam, NOWHERE, FSCK_REPAIR,
                  "%" PRIu32 " catalog%s newer than generation %" PRIu64 " cannot be read",
                  exam->newer_damaged, exam->newer_damaged == 1 ? "" : "s",
                  exam->catalog.generation);
    result = look_at_copies(exam);
    return result < 0 ? result : make_room(exam);
}

/* ---- unreferenced files ---- */

static bool is_named_table(const struct fsck_exam *exam, uint32_t number)
{
    for (uint32_t i = 0; i < exam->catalog.key_count; i++)
        if (exam->catalog.keys[i] == number)
            return true;
    return false;
}

/* Returns whether the file may be removed. The number of a run that was never committed is used
 * nevertheless, because the log may name it. Its file stays until the server has handled that. */
static bool may_go(const struct fsck_exam *exam, const char *name)
{
    const uint32_t run = run_file_number(name), table = keys_file_number(name);
    const uint64_t generation = catalog_file_generation(name);
    const size_t len = strlen(name);

    if (run)
        return run < exam->catalog.next_run && !fsck_run_of(exam, run);
    if (table)
        return !is_named_table(exam, table);
    if (generation)
        return generation != exam->catalog.generation;
    return len > 4 && strcmp(name + len - 4, ".tmp") == 0;
}

static void on_name(void *ctx, const char *name)
{
    struct listing *listing = ctx;

    if (may_go(listing->exam, name))
        listing->each(listing->exam, name);
}

int fsck_orphans(struct fsck_exam *exam, void (*each)(struct fsck_exam *exam, const char *name))
{
    struct listing listing = {.exam = exam, .each = each};

    if (exam->is_catalog_bad || exam->catalog.generation == 0)
        return 0;
    return exam->reading.below->ops->list(exam->reading.below->ctx, exam->run_dir, on_name,
                                          &listing);
}

static void note_orphan(struct fsck_exam *exam, const char *name)
{
    if (catalog_file_generation(name) > exam->catalog.generation)
        return; /* already reported */
    exam->has_orphans = true;
    fsck_note(exam, "run/%s is not in the catalog; the next start removes it", name);
}

int fsck_catalog_orphans(struct fsck_exam *exam)
{
    return fsck_orphans(exam, note_orphan);
}
