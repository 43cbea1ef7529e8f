#include "fsck/fsck.h"

#include "base/vector.h"
#include "fsck/replay.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/*
 * ---- topics that a crash left partly changed across shards ----
 *
 * The first shard is authoritative: the next start makes the other shards match it (settings,
 * pause), and continues a delete that is marked there.
 */

struct half {
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    uint32_t shard;
    uint64_t settings;
    bool paused; /* without an end: a timed pause may have ended, which is not recorded */
    bool deleting;
};

/* State of the topics in all shards; zeroed: empty. */
struct halves {
    struct half *at; /* state of each topic in each shard */
    size_t count, cap;
    uint32_t shards; /* number examined */
};

static uint64_t settings_hash(const struct topic_settings *settings)
{
    enum { BESIDE_BYTES = 640 };
    const struct record record = {
        .kind = RECORD_TOPIC,
        .topic = {.topic = slice_of("t"), .exists = true, .settings = *settings}};
    char bytes[TOPIC_EXTENSION_BYTES_MAX + BESIDE_BYTES];

    assert(record_bytes_max(&record) <= sizeof bytes);
    return hash_64(bytes, record_encode(&record, bytes));
}

static bool add_half(void *ctx, const struct queue_topic *topic)
{
    struct halves *halves = ctx;
    struct half *at = halves->at;

    if (halves->count == halves->cap) {
        at = vector_grow(at, sizeof *at, halves->count + 1, &halves->cap);
        if (!at)
            return false;
        halves->at = at;
    }
    at += halves->count++;
    *at = (struct half){.shard = halves->shards,
                        .settings = settings_hash(&topic->settings),
                        .paused = topic->paused && !topic->paused_until_ms,
                        .deleting = topic->deleting};
    snprintf(at->topic, sizeof at->topic, "%.*s", (int)topic->name.len, topic->name.at);
    return true;
}

/* Adds the topics of one shard, in the order of shards. Returns false if out of memory. */
static bool halves_add(struct halves *halves, const struct fsck_replay *replay)
{
    bool done = fsck_replay_topics(replay, add_half, halves);

    halves->shards++;
    return done;
}

static int half_by_topic(const void *a, const void *b)
{
    const struct half *one = a, *other = b;
    int order = strcmp(one->topic, other->topic);

    return order ? order : (one->shard > other->shard) - (one->shard < other->shard);
}

static bool has_content(const struct half *half)
{
    return half->paused || half->settings != settings_hash(&(struct topic_settings){0});
}

/* Returns whether a topic is partly changed, from its state in `count` shards. */
static bool is_half_changed(const struct half *halves, size_t count, uint32_t shards)
{
    bool agrees = true, something = false;

    for (size_t i = 0; i < count; i++) {
        something |= has_content(&halves[i]);
        agrees &= halves[i].settings == halves[0].settings && halves[i].paused == halves[0].paused;
    }
    if (halves[0].shard != 0)
        return something;
    return halves[0].deleting || !agrees || (something && count < shards);
}

/* Counts and notes the partly changed topics, if all shards were examined. */
static void halves_report(struct halves *halves, struct fsck_report *report)
{
    if (halves->shards != report->shards || halves->shards < 2 || !halves->count)
        return;
    qsort(halves->at, halves->count, sizeof *halves->at, half_by_topic);
    for (size_t i = 0, next; i < halves->count; i = next) {
        const struct half *first = &halves->at[i];

        for (next = i + 1; next < halves->count && !strcmp(first->topic, halves->at[next].topic);)
            next++;
        if (!is_half_changed(first, next - i, halves->shards))
            continue;
        report->half_changed++;
        if (report->note_count++ >= FSCK_NOTES_MAX)
            continue;
        report->note[report->note_count - 1].shard = first->shard;
        snprintf(report->note[report->note_count - 1].text, sizeof report->note[0].text,
                 "topic '%.100s' is half %s, as a crash leaves it; the next start completes that",
                 first->topic, first->deleting ? "deleted" : "changed");
    }
}

static void halves_fini(struct halves *halves)
{
    free(halves->at);
    *halves = (struct halves){0};
}

/* ---- a shard ---- */

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

/* Examines the log. If nothing is known about the runs, records that refer to them are
 * meaningless. */
static int look_at_log(struct fsck_exam *exam)
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

static int look_at_runs(struct fsck_exam *exam)
{
    int result = fsck_catalog_read(exam);

    if (result == 0)
        result = fsck_runs(exam);
    if (result == 0)
        result = fsck_keys(exam);
    if (result == 0)
        fsck_topics_compare(exam);
    if (result == 0)
        result = fsck_catalog_orphans(exam);
    return result;
}

static int set_paths(struct fsck_exam *exam, const struct datadir *datadir)
{
    char path[sizeof exam->disk.dir];
    size_t len;

    datadir_shard_path(datadir, exam->shard, path, sizeof path);
    exam->disk.fs = &exam->reading.fs;
    len = (size_t)snprintf(exam->disk.dir, sizeof exam->disk.dir, "%s/wal", path);
    len |= (size_t)snprintf(exam->run_dir, sizeof exam->run_dir, "%s/run", path);
    return len < sizeof path ? 0 : -ENAMETOOLONG; /* both have the same length */
}

static void ignore_name(void *ctx, const char *name)
{
    (void)ctx, (void)name;
}

static void check_folder(struct fsck_exam *exam, const struct datadir *datadir)
{
    char path[PATH_MAX];

    datadir_shard_path(datadir, exam->shard, path, sizeof path);
    if (exam->reading.fs.ops->list(&exam->reading, path, ignore_name, NULL) == -ENOENT)
        find(exam, 0, 0, "the shard's directory is missing");
    else
        fsck_unread(exam, path);
}

static void report_owner(struct fsck_exam *exam, const struct store_identity *expected)
{
    const struct store_identity *owner = &exam->disk.identity;

    if (!store_identity_equals(owner, expected))
        find(exam, 0, 0,
             "the files in 'shard-%02" PRIu32 "' belong to shard %02" PRIu32 " of %s store",
             exam->shard, owner->shard,
             strcmp(owner->store, expected->store) == 0 ? "this" : "another");
}

static int examine_files(struct fsck_exam *exam, struct halves *halves)
{
    int result = look_at_runs(exam);

    if (result == 0)
        result = look_at_log(exam);
    if (result == 0 && exam->replay && !halves_add(halves, exam->replay))
        result = -ENOMEM;
    if (result == 0 && exam->options->salvage && !exam->is_foreign)
        result = fsck_salvage_shard(exam);
    return result;
}

static int examine_shard(struct fsck_exam *exam, const struct datadir *datadir,
                         const struct store_identity *expected, struct halves *halves)
{
    int result = set_paths(exam, datadir);

    if (result == 0) {
        check_folder(exam, datadir);
        report_owner(exam, expected);
        result = examine_files(exam, halves);
    }
    wal_reader_fini(&exam->reader);
    wal_files_fini(&exam->disk, &exam->files);
    if (result == 0 && exam->options->repair)
        result = fsck_repair(exam);
    fsck_replay_free(exam->replay);
    fsck_exam_fini(exam);
    return result;
}

/* ---- the directory ---- */

/* Opens the directory. For a repair it is opened as by a server, so that no server can open it
 * meanwhile. */
static int open_dir(const char *path, bool for_repair, struct datadir **datadir,
                    struct datadir_manifest *manifest, struct fsck_report *report)
{
    int result =
        datadir_open_existing(path, datadir, manifest, report->error, sizeof report->error);

    if (result < 0 || !for_repair)
        return result;
    datadir_close(*datadir);
    return datadir_open(path, 0, datadir, manifest, report->error, sizeof report->error);
}

/* A directory under examination. */
struct visit {
    const struct fsck_options *options;
    struct fsck_report *report;
    struct datadir *datadir;
    struct datadir_manifest manifest;
    struct marks marks; /* zeroed if missing */
    struct marks saved; /* marks of the new directory */
    /* owner of the files in each shard's directory */
    struct store_identity owners[DATADIR_SHARDS_MAX];
    struct halves halves;
};

/* Reads the marks. Marks of another store are ignored. */
static void visit_read_marks(struct visit *visit)
{
    const struct fs *fs = datadir_fs(visit->datadir);

    if (marks_read(fs, datadir_path(visit->datadir), &visit->marks) < 0 ||
        strcmp(visit->marks.store, visit->manifest.name) != 0)
        visit->marks = (struct marks){0};
    visit->saved = (struct marks){.generation = 1, .shards = visit->manifest.shards};
    memcpy(visit->saved.store, visit->manifest.name, sizeof visit->saved.store);
}

static struct store_identity visit_expects(const struct visit *visit, uint32_t shard)
{
    struct store_identity identity = {.shard = shard};

    memcpy(identity.store, visit->manifest.name, sizeof identity.store);
    return identity;
}

static struct fsck_exam *exam_new(struct visit *visit, uint32_t shard)
{
    struct fsck_exam *exam = calloc(1, sizeof *exam);

    if (!exam)
        return NULL;
    exam->options = visit->options;
    exam->report = visit->report;
    exam->shard = shard;
    exam->shards = visit->manifest.shards;
    exam->hash_seed = visit->manifest.hash_seed;
    exam->skew_ms = visit->manifest.skew_ms;
    exam->was_opened = visit->manifest.is_opened;
    exam->saved = &visit->saved;
    fsck_reading_init(&exam->reading, datadir_fs(visit->datadir));
    return exam;
}

/* Determines the owner of the files in each shard's directory. */
static int visit_find_owners(struct visit *visit)
{
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < visit->manifest.shards; i++) {
        const struct store_identity expected = visit_expects(visit, i);
        struct fsck_exam *exam = exam_new(visit, i);

        result = exam ? set_paths(exam, visit->datadir) : -ENOMEM;
        if (result == 0)
            result = fsck_owner_find(exam, &expected, &visit->owners[i]);
        free(exam);
    }
    return result;
}

/* Returns whether the files are not salvaged: those of another store, and copies of a shard. Of
 * several copies the one in its own place counts, else the first. */
static bool visit_is_foreign(const struct visit *visit, uint32_t shard)
{
    const struct store_identity *owner = &visit->owners[shard];

    if (strcmp(owner->store, visit->manifest.name) != 0 || owner->shard >= visit->manifest.shards)
        return true;
    if (owner->shard == shard)
        return false;
    for (uint32_t i = 0; i < visit->manifest.shards; i++)
        if (i != shard && store_identity_equals(&visit->owners[i], owner) &&
            (i == owner->shard || i < shard))
            return true;
    return false;
}

static int visit_shard(struct visit *visit, uint32_t shard)
{
    const struct store_identity expected = visit_expects(visit, shard);
    const struct store_identity *owner = &visit->owners[shard];
    struct fsck_exam *exam = exam_new(visit, shard);
    int result;

    if (!exam)
        return -ENOMEM;
    exam->disk.identity = *owner;
    exam->is_foreign = visit_is_foreign(visit, shard);
    if (strcmp(owner->store, expected.store) == 0 && owner->shard < visit->marks.shards)
        exam->mark = visit->marks.shard[owner->shard];
    result = examine_shard(exam, visit->datadir, &expected, &visit->halves);
    free(exam);
    return result;
}

/* Reports that a manifest of the directory is missing or damaged. Repair writes both again. */
static int visit_manifests(struct visit *visit)
{
    const struct datadir_manifest *manifest = &visit->manifest;
    struct fsck_report *report = visit->report;
    struct fsck_finding *finding;
    int result;

    if (!manifest->fault && !manifest->copy_fault)
        return 0;
    finding = &report->finding[report->finding_count++];
    *finding = (struct fsck_finding){.is_of_directory = true, .cure = FSCK_REPAIR};
    snprintf(finding->file, sizeof finding->file, "%s",
             manifest->fault ? "MANIFEST" : DATADIR_MANIFEST_COPY);
    if (manifest->fault)
        snprintf(finding->text, sizeof finding->text, "it %s, and its copy was read",
                 manifest->fault);
    else
        snprintf(finding->text, sizeof finding->text, "it %s", manifest->copy_fault);
    if (!visit->options->repair)
        return 0;
    result = datadir_write(visit->datadir, manifest);
    finding->is_mended = result == 0;
    report->mended += finding->is_mended;
    return result;
}

int fsck_run_with(const char *data_dir, const struct fsck_options *options,
                  struct fsck_report *report)
{
    struct visit visit = {.options = options, .report = report};
    int result;

    *report = (struct fsck_report){0};
    result = open_dir(data_dir, options->repair, &visit.datadir, &visit.manifest, report);
    if (result < 0)
        return result;
    report->shards = visit.manifest.shards;
    visit_read_marks(&visit);
    result = visit_manifests(&visit);
    if (result == 0)
        result = visit_find_owners(&visit);
    if (result == 0 && options->salvage)
        result = fsck_salvage_begin(options, data_dir, visit.manifest.shards, report);
    for (uint32_t i = 0; result == 0 && i < visit.manifest.shards; i++)
        result = visit_shard(&visit, i);
    if (result == 0)
        halves_report(&visit.halves, report);
    halves_fini(&visit.halves);
    if (result == 0 && options->salvage)
        result = fsck_salvage_end(options, &visit.manifest, &visit.saved, report);
    if (result < 0 && !*report->error)
        snprintf(report->error, sizeof report->error, "cannot examine '%s': %s", data_dir,
                 strerror(-result));
    datadir_close(visit.datadir);
    return result;
}

int fsck_run(const char *data_dir, struct fsck_report *report)
{
    return fsck_run_with(data_dir, &(struct fsck_options){0}, report);
}

void fsck_report_fini(struct fsck_report *report)
{
    free(report->kept);
    report->kept = NULL;
    report->kept_count = 0;
}
