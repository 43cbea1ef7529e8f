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

static int look_at_runs(struct fsck_exam *exam)
{
    int result = fsck_catalog_read(exam);

    if (result == 0)
        result = fsck_runs(exam);
    if (result == 0)
        fsck_topics_compare(exam);
    if (result == 0)
        result = fsck_catalog_orphans(exam);
    return result;
}

/* The place of a finding about a shard as a whole. */
static const struct fsck_where nowhere = {.slot = FSCK_NO_SLOT};

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
        fsck_find(exam, nowhere, FSCK_RESTORE, "the shard's directory is missing");
    else
        fsck_unread(exam, path);
}

static void report_owner(struct fsck_exam *exam, const struct store_identity *expected)
{
    const struct store_identity *owner = &exam->disk.identity;

    if (!store_identity_equals(owner, expected))
        fsck_find(exam, nowhere, FSCK_RESTORE,
                  "the files in 'shard-%02" PRIu32 "' belong to shard %02" PRIu32 " of %s store",
                  exam->shard, owner->shard,
                  strcmp(owner->store, expected->store) == 0 ? "this" : "another");
}

static int examine_files(struct fsck_exam *exam, struct halves *halves)
{
    int result = look_at_runs(exam);

    if (result == 0)
        result = fsck_log(exam);
    if (result == 0 && exam->replay && !halves_add(halves, exam->replay))
        result = -ENOMEM;
    if (result == 0 && exam->options->salvage && !exam->is_foreign)
        result = fsck_salvage_shard(exam);
    return result;
}

static void exam_fini(struct fsck_exam *exam)
{
    for (uint32_t i = 0; exam->runs && i < exam->catalog.run_count; i++) {
        run_close(exam->runs[i].run);
        alive_fini(&exam->runs[i].alive);
        alive_fini(&exam->runs[i].pending);
        free(exam->runs[i].topics);
    }
    for (uint32_t i = 0; exam->tables && i < exam->catalog.key_count; i++)
        keys_close(exam->tables[i]);
    free(exam->runs);
    free(exam->tables);
    free(exam->is_table_bad);
    fsck_topics_fini(&exam->topics);
    catalog_fini(&exam->catalog);
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
    exam_fini(exam);
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
