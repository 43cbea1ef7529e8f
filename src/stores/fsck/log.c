/* The log of a shard: its manifest and files, then every batch and record, replayed on top of the runs. */
#include "fsck/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Adds a finding about the log; file 0: about no file. */
static void find_in_log(struct fsck_exam *exam, uint32_t file, uint32_t at, enum fsck_cure cure,
                        const char *text)
{
    char name[32], path[48];

    wal_file_name(file, name);
    snprintf(path, sizeof path, "wal/%s", name);
    fsck_find(exam, (struct fsck_where){.file = file ? path : NULL, .at = at, .slot = FSCK_NO_SLOT},
              cure, "%s", text);
}

/* Adds a finding whose remedy is a backup, or salvage. */
static void find(struct fsck_exam *exam, uint32_t file, uint32_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void find(struct fsck_exam *exam, uint32_t file, uint32_t at, const char *format, ...)
{
    char text[FSCK_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    find_in_log(exam, file, at, FSCK_RESTORE, text);
}

/* ---- records ---- */

/* Examines the records of a batch. Returns false if out of memory. */
static bool examine_batch(struct fsck_exam *exam, const struct wal_view *view)
{
    uint32_t count = 0;
    size_t at = 0;
    struct slice bytes;
    int result;

    while ((result = wal_record_next(view->records, &at, &bytes)) == 1) {
        struct record_place place = {.file = view->file,
                                     .at = view->at + WAL_HEAD_BYTES +
                                           (uint32_t)(bytes.at - view->records.at),
                                     .bytes = (uint32_t)bytes.len};
        struct record record;

        count++;
        if (wal_check_bytes(bytes) && !wal_check_holds(&exam->disk, place, bytes.at))
            find(exam, place.file, place.at, "the record's checksum is wrong");
        else if (!record_decode(bytes, &record))
            find(exam, place.file, place.at, "the record cannot be decoded");
        else if (exam->replay &&
                 (!fsck_replay_record(exam->replay, &record, place) || exam->has_no_memory))
            return false;
    }
    if (result < 0 || count != view->head.count)
        find(exam, view->file, view->at, "the batch does not contain its %" PRIu32 " records",
             view->head.count);
    exam->report->shard[exam->shard].records += count;
    return true;
}

static int examine_view(struct fsck_exam *exam, const struct wal_view *view)
{
    struct fsck_shard *shard = &exam->report->shard[exam->shard];

    shard->batches++;
    shard->bytes += view->head.bytes;
    return examine_batch(exam, view) ? 0 : -ENOMEM;
}

/* Examines every batch up to the end or to damage. Returns 0, -ENOMEM, or the reason for the
 * end. */
static int examine_chain(struct fsck_exam *exam)
{
    struct wal_view view;
    int result;

    while ((result = wal_reader_next(&exam->reader, &view)) == 1)
        if (examine_view(exam, &view) < 0)
            return -ENOMEM;
    return result;
}

/* Examines the intact parts after damage, which was already reported. */
static int examine_rest(struct fsck_exam *exam)
{
    struct wal_view view;
    int result;

    fsck_replay_gap(exam->replay);
    while ((result = wal_reader_resume(&exam->reader, &view)) == 1) {
        result = examine_view(exam, &view);
        if (result == 0)
            result = examine_chain(exam);
        if (result == -ENOMEM)
            return result;
    }
    return result;
}

static int examine_log(struct fsck_exam *exam)
{
    struct fsck_shard *shard = &exam->report->shard[exam->shard];
    int result = wal_reader_init(&exam->reader, &exam->disk, &exam->manifest, &exam->files,
                                 exam->error, sizeof exam->error);
    bool is_whole;

    if (result < 0)
        return result;
    result = examine_chain(exam);
    if (result == -ENOMEM)
        return result;
    shard->torn_bytes = exam->reader.torn_bytes;
    is_whole = result == 0 && !exam->has_log_gap;
    if (result < 0 && !exam->has_log_gap) /* missing files were already reported */
        find(exam, exam->reader.bad_file, exam->reader.bad_at, "%s", exam->error);
    if (!is_whole && exam->options->salvage && exam->replay && examine_rest(exam) < 0)
        return -ENOMEM;
    exam->last_inner_ms = exam->reader.last.inner_ms;
    exam->last_wall_ms = exam->reader.last.wall_ms;
    exam->log_file_bytes = exam->files.at[exam->files.count - 1]->bytes;
    if ((is_whole || exam->options->salvage) && exam->replay &&
        !fsck_replay_end(exam->replay, shard))
        return -ENOMEM;
    return 0;
}

/* ---- manifest and files ---- */

static void note_log(void *ctx, const char *name)
{
    if (wal_file_number(name))
        *(bool *)ctx = true;
}

/* Returns whether the log was never opened, as after an interrupted start. In that case there are
 * no runs. */
static bool was_never_opened(struct fsck_exam *exam)
{
    bool has_files = exam->catalog.generation != 0;

    (void)exam->reading.fs.ops->list(&exam->reading, exam->disk.dir, note_log, &has_files);
    fsck_unread(exam, "the log's directory");
    return !has_files;
}

/* Checks that there is a catalog if the log begins at one. Only that catalog recorded which jobs of
 * the runs had ended: a catalog rebuilt from the contents of the runs would bring all of them
 * back. */
static void check_catalog_is_there(struct fsck_exam *exam)
{
    if (exam->catalog.generation || exam->is_catalog_bad || !exam->manifest.has_runs)
        return;
    exam->is_catalog_bad = true;
    find(exam, 0, 0,
         "the catalog is missing: the log continues one, and only the catalog has the list of "
         "pending jobs in runs");
}

/* Checks that the log, by its manifest, begins where the catalog records it. */
static int check_manifest(struct fsck_exam *exam)
{
    int result = wal_manifest_reaches(&exam->disk, &exam->manifest, exam->mark.epoch,
                                      exam->mark.synced, exam->error, sizeof exam->error);

    check_catalog_is_there(exam);
    if (result < 0 || exam->catalog.log_first == 0)
        return result;
    return wal_manifest_begin_at(&exam->disk, &exam->manifest, exam->catalog.log_first,
                                 exam->catalog.log_first_sequence, exam->error, sizeof exam->error);
}

/* Opens the files of this log that are in the directories of other shards. */
static int open_moved(struct fsck_exam *exam)
{
    char dir[sizeof exam->disk.dir];
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < exam->shards; i++) {
        if (i == exam->shard)
            continue;
        /* the directory's path ends with "shard-NN/wal" */
        snprintf(dir, sizeof dir, "%.*sshard-%02" PRIu32 "/wal",
                 (int)(strlen(exam->disk.dir) - sizeof "shard-00/wal" + 1), exam->disk.dir, i);
        result = wal_files_open_moved(&exam->disk, dir, exam->manifest.first, &exam->files);
    }
    exam->reading.error = 0; /* a missing directory is reported by its own examination */
    return result;
}

/* Opens, for salvage, every file with intact batches, regardless of other problems. Returns 1 if
 * there are files, else 0, or -ENOMEM. */
static int open_rest(struct fsck_exam *exam)
{
    const struct catalog *catalog = &exam->catalog;

    exam->has_log_gap = true;
    if (!exam->options->salvage)
        return 0;
    if (!store_identity_equals(&exam->manifest.identity, &exam->disk.identity) &&
        !fsck_owner_rebuild(exam))
        return 0;
    if (catalog->log_first) {
        exam->manifest.first = catalog->log_first;
        exam->manifest.first_sequence = catalog->log_first_sequence;
    }
    wal_files_fini(&exam->disk, &exam->files);
    if (wal_files_open_any(&exam->disk, exam->manifest.first, &exam->files) < 0 ||
        open_moved(exam) < 0)
        return -ENOMEM;
    return exam->files.count > 0;
}

/* Reports that the log existed and is missing. */
static int miss_log(struct fsck_exam *exam)
{
    exam->has_log_gap = true;
    find(exam, 0, 0,
         "the log of the shard is missing: this directory was started successfully before");
    return 0;
}

/* Reads the log's manifest. Returns 1 if it is valid; 0 if there is no log, or no readable one. */
static int open_manifest(struct fsck_exam *exam)
{
    struct fsck_shard *shard = &exam->report->shard[exam->shard];
    const bool had_log = exam->was_opened || exam->mark.epoch;
    int fd, slots_bad = 0;
    int result = wal_manifest_open(&exam->disk, O_RDONLY, &fd, &exam->manifest, &slots_bad);

    if (result == -ENOENT && was_never_opened(exam))
        return had_log ? miss_log(exam) : 0;
    if (result == -ENOMEM)
        return result;
    if (result < 0) {
        find(exam, 0, 0, "'%s/MANIFEST' %s", exam->disk.dir,
             result == -EBADMSG  ? "is damaged"
             : result == -ENOENT ? "is missing"
                                 : strerror(-result));
        exam->manifest = (struct wal_manifest){0};
        return open_rest(exam);
    }
    (void)exam->reading.fs.ops->close(&exam->reading, fd);
    shard->manifest_copies_bad = (uint32_t)slots_bad;
    if (exam->manifest.epoch == 0 && was_never_opened(exam))
        return had_log ? miss_log(exam) : 0;
    return 1;
}

static void note_excess(struct fsck_exam *exam)
{
    for (uint32_t i = 0; i < exam->files.count; i++) {
        const struct wal_file *file = exam->files.at[i];

        if (file->size > file->bytes)
            fsck_note(exam,
                      "log file %" PRIu32 " is %" PRId64
                      " bytes longer than its size; these bytes are ignored",
                      file->number, file->size - file->bytes);
    }
}

/* Opens the log. Returns 1 if there is a log to read, else 0. */
static int open_log(struct fsck_exam *exam)
{
    struct fsck_shard *shard = &exam->report->shard[exam->shard];
    int result = open_manifest(exam);

    if (result == 1 && !exam->has_log_gap && check_manifest(exam) < 0) {
        find(exam, 0, 0, "%s", exam->error);
        result = open_rest(exam);
    }
    if (result == 1 && !exam->has_log_gap) {
        result = wal_files_open(&exam->disk, exam->manifest.first,
                                exam->manifest.epoch ? exam->manifest.newest : 0, O_RDONLY,
                                &exam->files, exam->error, sizeof exam->error);
        if (result == -ENOMEM)
            return result;
        if (result < 0) {
            find(exam, exam->manifest.first + exam->files.count, 0, "%s", exam->error);
            result = open_rest(exam);
        } else {
            note_excess(exam);
            result = 1;
        }
    }
    shard->first_file = exam->files.count ? exam->files.at[0]->number : exam->manifest.first;
    shard->files = exam->files.count;
    return result;
}

int fsck_log(struct fsck_exam *exam)
{
    const bool has_runs = exam->catalog.generation != 0;
    const bool salvages = exam->options->salvage && !exam->is_foreign;
    int result = open_log(exam);

    if (result < 0 || (result == 0 && !(salvages && has_runs)))
        return result;
    if (!exam->is_catalog_bad || salvages) {
        exam->replay =
            fsck_replay_new(exam, exam->manifest.first == 1 && !has_runs && !exam->is_catalog_bad);
        if (!exam->replay)
            return -ENOMEM;
        if (exam->is_catalog_bad) {
            fsck_note(exam, "no jobs of the runs are saved: only the catalog had the list of those "
                            "that had ended");
            fsck_replay_gap(exam->replay);
        }
    }
    return result == 1 ? examine_log(exam) : 0;
}
