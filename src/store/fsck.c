#include "store/fsck.h"

#include "store/fsck_model.h"
#include "store/wal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct examining {
    struct fsck_report *report;
    uint32_t shard;
    uint64_t hash_seed;
    struct wal_disk disk;
    struct wal_manifest manifest;
    struct wal_files files;
    struct wal_reader reader;
    struct fsck_model *model;
    char error[WAL_ERROR_BYTES];
};

static void find(struct examining *examining, uint32_t file, uint32_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void find(struct examining *examining, uint32_t file, uint32_t at, const char *format, ...)
{
    struct fsck_report *report = examining->report;
    struct fsck_finding *finding;
    va_list args;

    if (report->finding_count++ >= FSCK_FINDINGS_MAX)
        return;
    finding = &report->finding[report->finding_count - 1];
    finding->shard = examining->shard;
    finding->file = file;
    finding->at = at;
    va_start(args, format);
    vsnprintf(finding->text, sizeof finding->text, format, args);
    va_end(args);
}

static void on_nonsense(void *ctx, struct record_place place, const char *text)
{
    find(ctx, place.file, place.at, "%s", text);
}

/* ---- records ---- */

/* False: out of memory. */
static bool examine_batch(struct examining *examining, const struct wal_view *view)
{
    uint32_t count = 0;
    size_t at = 0;
    struct slice bytes;
    int result;

    while ((result = wal_record_next(view->records, view->format, &at, &bytes)) == 1) {
        struct record_place place = {.file = view->file,
                                     .at = view->at + WAL_HEAD_BYTES +
                                           (uint32_t)(bytes.at - view->records.at),
                                     .bytes = (uint32_t)bytes.len};
        struct record record;

        count++;
        if (wal_check_bytes(view->format, bytes) &&
            !wal_check_holds(&examining->disk, place, bytes.at))
            find(examining, place.file, place.at, "the record's checksum is wrong");
        else if (!record_decode(bytes, &record))
            find(examining, place.file, place.at, "the record cannot be decoded");
        else if (!fsck_model_apply(examining->model, &record, place))
            return false;
    }
    if (result < 0 || count != view->head.count)
        find(examining, view->file, view->at,
             "the batch does not hold the %" PRIu32 " records it says", view->head.count);
    examining->report->shard[examining->shard].records += count;
    return true;
}

static int examine_log(struct examining *examining)
{
    struct fsck_shard *shard = &examining->report->shard[examining->shard];
    struct wal_view view;
    int result = wal_reader_init(&examining->reader, &examining->disk, &examining->manifest,
                                 &examining->files, examining->error, sizeof examining->error);

    if (result < 0)
        return result;
    while ((result = wal_reader_next(&examining->reader, &view)) == 1) {
        shard->batches++;
        shard->bytes += view.head.bytes;
        if (!examine_batch(examining, &view))
            return -ENOMEM;
    }
    shard->torn_bytes = examining->reader.torn_bytes;
    if (result == 0)
        fsck_model_end(examining->model, shard);
    else if (result != -ENOMEM)
        find(examining, examining->reader.bad_file, examining->reader.bad_at, "%s",
             examining->error);
    return result == -ENOMEM ? result : 0;
}

/* ---- a shard ---- */

static void note_log(void *ctx, const char *name)
{
    if (wal_file_number(name))
        *(bool *)ctx = true;
}

/* A start may have been cut short before the log was first opened. */
static bool was_never_opened(const struct examining *examining)
{
    bool has_files = false;

    (void)fs_posix.ops->list(NULL, examining->disk.dir, note_log, &has_files);
    return !has_files;
}

/* 1: there is a log to be read; 0: there is not. */
static int open_log(struct examining *examining)
{
    struct fsck_shard *shard = &examining->report->shard[examining->shard];
    int fd, slots_bad = 0;
    int result =
        wal_manifest_open(&examining->disk, O_RDONLY, &fd, &examining->manifest, &slots_bad);

    if (result == -ENOENT && was_never_opened(examining))
        return 0;
    if (result < 0) {
        find(examining, 0, 0, "'%s/MANIFEST' %s", examining->disk.dir,
             result == -EBADMSG  ? "is damaged"
             : result == -ENOENT ? "is missing"
                                 : strerror(-result));
        return 0;
    }
    fs_posix.ops->close(NULL, fd);
    shard->manifest_copies_bad = (uint32_t)slots_bad;
    if (examining->manifest.epoch == 0 && was_never_opened(examining))
        return 0;
    result = wal_files_open(&examining->disk, examining->manifest.first, O_RDONLY,
                            &examining->files, examining->error, sizeof examining->error);
    shard->first_file = examining->manifest.first;
    shard->files = examining->files.count;
    if (result == -ENOMEM)
        return result;
    if (result < 0) {
        find(examining, examining->manifest.first + examining->files.count, 0, "%s",
             examining->error);
        return 0;
    }
    return 1;
}

static int examine_shard(struct examining *examining, const struct datadir *datadir)
{
    char path[PATH_MAX - 64];
    int result;

    datadir_shard_path(datadir, examining->shard, path, sizeof path);
    examining->disk.fs = &fs_posix;
    if ((size_t)snprintf(examining->disk.dir, sizeof examining->disk.dir, "%s/wal", path) >=
        sizeof examining->disk.dir)
        return -ENAMETOOLONG;
    result = open_log(examining);
    if (result == 1) {
        examining->model = fsck_model_new(examining->hash_seed, examining->manifest.first == 1,
                                          on_nonsense, examining);
        result = examining->model ? examine_log(examining) : -ENOMEM;
    }
    wal_reader_fini(&examining->reader);
    wal_files_fini(&examining->disk, &examining->files);
    fsck_model_free(examining->model);
    return result;
}

int fsck_run(const char *data_dir, struct fsck_report *report)
{
    struct datadir *datadir;
    struct datadir_manifest manifest;
    int result;

    *report = (struct fsck_report){0};
    result =
        datadir_open_existing(data_dir, &datadir, &manifest, report->error, sizeof report->error);
    if (result < 0)
        return result;
    report->shards = manifest.shards;
    for (uint32_t i = 0; result == 0 && i < manifest.shards; i++) {
        struct examining *examining = calloc(1, sizeof *examining);

        if (examining) {
            examining->report = report;
            examining->shard = i;
            examining->hash_seed = manifest.hash_seed;
        }
        result = examining ? examine_shard(examining, datadir) : -ENOMEM;
        free(examining);
    }
    if (result < 0)
        snprintf(report->error, sizeof report->error, "cannot examine '%s': %s", data_dir,
                 strerror(-result));
    datadir_close(datadir);
    return result;
}
