/*
 * Salvage: writes everything readable of a shard into a new data directory, through its own depot
 * and log. The old directory is only read.
 *
 * The new directory is marked INCOMPLETE from before its first file until after its last, and gets
 * its MANIFEST at the very end: no server and no fsck mistakes an incomplete one for a complete
 * one.
 */
#include "base/vector.h"
#include "fsck/replay.h"
#include "store/depot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LOT_JOBS = 1 << 20,
    COLLECT_STEPS = 4096,
    /* file size of a log if the old one is unknown; a server creates the next files */
    LOG_BYTES = 1 << 20
};

/* Place of the record of a salvaged job in the old directory. */
struct saved_job {
    struct record_place place;
    uint32_t topic; /* index + 1 in `kept`, after its record was read */
};
VECTOR_DECLARE(saved_jobs, struct saved_job)
VECTOR_DECLARE(saved_items, struct depot_item)
VECTOR_DECLARE(saved_changes, struct engine_changed *)

struct saving {
    struct fsck_exam *exam;
    const struct fs *fs;
    struct engine *engine;
    struct depot *depot;
    struct wal *wal;
    struct fsck_topics kept; /* written jobs by topic */
    struct saved_jobs jobs;  /* jobs of the current run, as are the next two */
    struct saved_items items;
    struct saved_changes changes;
};

/* ---- the new directory ---- */

static int salvage_failed(struct fsck_report *report, const char *into, int result)
{
    if (!*report->error)
        snprintf(report->error, sizeof report->error,
                 "cannot write '%.300s': %s; it is not complete, remove it and try again (the old "
                 "directory was not changed)",
                 into, strerror(-result));
    return result;
}

static void note_name(void *ctx, const char *name)
{
    (void)name;
    *(bool *)ctx = true;
}

/* Returns whether `into`, which may not exist yet, is inside `data_dir`. */
static bool lies_inside(const char *into, const char *data_dir)
{
    char old[PATH_MAX], parent[PATH_MAX], real[PATH_MAX];
    char *slash;
    size_t len;

    snprintf(parent, sizeof parent, "%s", into);
    for (len = strlen(parent); len > 1 && parent[len - 1] == '/';)
        parent[--len] = '\0';
    if (!realpath(parent, real)) {
        slash = strrchr(parent, '/');
        if (!slash)
            snprintf(parent, sizeof parent, ".");
        else
            slash[slash == parent] = '\0';
        if (!realpath(parent, real))
            return false;
    }
    if (!realpath(data_dir, old))
        return false;
    len = strlen(old);
    return strncmp(real, old, len) == 0 && (real[len] == '/' || real[len] == '\0');
}

static int make_mark(const struct fs *fs, const char *into)
{
    char path[PATH_MAX];
    int fd, result;

    snprintf(path, sizeof path, "%s/" DATADIR_INCOMPLETE, into);
    fd = fs->ops->open(fs->ctx, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    result = fs->ops->fdatasync(fs->ctx, fd);
    (void)fs->ops->close(fs->ctx, fd);
    return result < 0 ? result : fs->ops->fsync_dir(fs->ctx, into);
}

int fsck_salvage_begin(const struct fsck_options *options, const char *data_dir, uint32_t shards,
                       struct fsck_report *report)
{
    const char *into = options->salvage;
    const struct fs *fs = &fs_posix;
    char path[PATH_MAX];
    bool has_files = false;
    int result;

    if (strlen(into) > sizeof path - 64)
        return salvage_failed(report, into, -ENAMETOOLONG);
    if (lies_inside(into, data_dir)) {
        snprintf(report->error, sizeof report->error,
                 "'%.200s' is inside the data directory, name one outside it", into);
        return -EINVAL;
    }
    result = fs->ops->mkdir(fs->ctx, into, 0700);
    if (result == 0)
        result = fs->ops->list(fs->ctx, into, note_name, &has_files);
    if (result == 0 && has_files) {
        snprintf(
            report->error, sizeof report->error,
            "'%.200s' is not empty, name a directory that does not exist (nothing was changed)",
            into);
        return -EEXIST;
    }
    if (result == 0)
        result = make_mark(fs, into);
    for (uint32_t i = 0; result == 0 && i < shards; i++) {
        snprintf(path, sizeof path, "%s/shard-%02" PRIu32, into, i);
        result = fs->ops->mkdir(fs->ctx, path, 0700);
    }
    if (result == 0)
        result = fs->ops->fsync_dir(fs->ctx, into);
    return result < 0 ? salvage_failed(report, into, result) : 0;
}

static int write_text(const struct fs *fs, const char *into, const char *name, struct slice text)
{
    char fresh[PATH_MAX], path[PATH_MAX];
    int fd, result;

    snprintf(fresh, sizeof fresh, "%s/MANIFEST.tmp", into);
    snprintf(path, sizeof path, "%s/%s", into, name);
    fd = fs->ops->open(fs->ctx, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    result = fs_pwrite_whole(fs, fd, text.at, text.len, 0);
    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, fd);
    (void)fs->ops->close(fs->ctx, fd);
    return result < 0 ? result : fs_give_name(fs, into, fresh, path, NULL);
}

/* Writes the manifest and its copy. */
static int write_manifest(const struct fs *fs, const char *into,
                          const struct datadir_manifest *manifest)
{
    struct datadir_manifest made = *manifest;
    char bytes[MANIFEST_BYTES_MAX];
    struct slice text;
    int result = 0;

    made.format = DATADIR_FORMAT;
    text = slice_make(bytes, manifest_emit(&made, bytes));
    if (made.is_opened)
        result = write_text(fs, into, DATADIR_MANIFEST_COPY, text);
    return result < 0 ? result : write_text(fs, into, "MANIFEST", text);
}

static int by_topic(const void *a, const void *b)
{
    return strcmp(((const struct fsck_kept *)a)->topic, ((const struct fsck_kept *)b)->topic);
}

/* Merges the entries that a topic has for each shard into one. */
static void join_kept(struct fsck_report *report)
{
    size_t kept = 0;

    if (report->kept_count)
        qsort(report->kept, report->kept_count, sizeof *report->kept, by_topic);
    for (size_t i = 0; i < report->kept_count; i++) {
        struct fsck_kept *last = kept ? &report->kept[kept - 1] : NULL;

        if (last && strcmp(last->topic, report->kept[i].topic) == 0) {
            last->jobs += report->kept[i].jobs;
            last->remembered += report->kept[i].remembered;
        } else {
            report->kept[kept++] = report->kept[i];
        }
    }
    report->kept_count = kept;
}

/* Times of the old log's last batch, used for new batches since no clock is running. */
static int64_t inner_ms, wall_ms;

static int64_t last_inner_ms(struct clock *clock)
{
    (void)clock;
    return inner_ms;
}

static int64_t last_wall_ms(struct clock *clock)
{
    (void)clock;
    return wall_ms;
}

/* Creates an empty log for a shard of which nothing was salvaged, since the directory counts as
 * opened. */
static int make_empty(const struct fsck_options *options, struct marks *saved, uint32_t shard,
                      struct fsck_report *report)
{
    const struct fs *fs = &fs_posix;
    char dir[PATH_MAX];
    struct wal_options log = {.fs = fs,
                              .dir = dir,
                              .file_bytes = LOG_BYTES,
                              .sync = WAL_SYNC_ALWAYS,
                              .identity = {.shard = shard},
                              .inner_ms = last_inner_ms,
                              .wall_ms = last_wall_ms};
    struct wal *wal;
    int result;

    memcpy(log.identity.store, saved->store, sizeof log.identity.store);
    snprintf(dir, sizeof dir, "%.*s/shard-%02" PRIu32, PATH_MAX - 32, options->salvage, shard);
    result = wal_open(&log, NULL, NULL, &wal, NULL, report->error, sizeof report->error);
    if (result < 0)
        return result;
    saved->shard[shard] = (struct marks_shard){.epoch = wal_epoch(wal), .synced = wal_synced(wal)};
    wal_close(wal);
    return 0;
}

int fsck_salvage_end(const struct fsck_options *options, const struct datadir_manifest *manifest,
                     struct marks *saved, struct fsck_report *report)
{
    const struct fs *fs = &fs_posix;
    char mark[PATH_MAX];
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < manifest->shards; i++)
        if (!saved->shard[i].epoch)
            result = make_empty(options, saved, i, report);
    if (result == 0)
        result = marks_write(fs, options->salvage, saved);
    if (result == 0)
        result = write_manifest(fs, options->salvage, manifest);
    snprintf(mark, sizeof mark, "%s/" DATADIR_INCOMPLETE, options->salvage);
    if (result == 0)
        result = fs->ops->unlink(fs->ctx, mark);
    if (result == 0)
        result = fs->ops->fsync_dir(fs->ctx, options->salvage);
    join_kept(report);
    report->is_salvaged = result == 0;
    return result < 0 ? salvage_failed(report, options->salvage, result) : 0;
}

/* ---- records of the old directory ---- */

static int read_log_record(struct fsck_exam *exam, struct record_place place,
                           struct buffer *scratch, struct slice *out)
{
    const struct wal_file *file = wal_files_search(&exam->files, place.file);
    size_t check;
    char *into;
    ssize_t got;

    if (!file)
        return -ENOENT;
    buffer_clear(scratch);
    into = buffer_reserve(scratch, (size_t)place.bytes + WAL_CHECK_BYTES);
    if (!into)
        return -ENOMEM;
    got = fs_pread_some(exam->disk.fs, file->fd, true, into, (size_t)place.bytes + WAL_CHECK_BYTES,
                        place.at);
    if (got < (ssize_t)place.bytes)
        return got < 0 ? (int)got : -EBADMSG;
    *out = slice_make(into, place.bytes);
    check = wal_check_bytes(*out);
    if (got < (ssize_t)(place.bytes + check) ||
        (check && !wal_check_holds(&exam->disk, place, into)))
        return -EBADMSG;
    return 0;
}

/* Reads the record of a job of this lot for the new run, from the log or a run. */
static int read_record(void *ctx, struct record_place place, struct buffer *scratch,
                       struct slice *out)
{
    struct saving *saving = ctx;
    struct saved_job *job = &saving->jobs.at[place.at];
    const struct fsck_run_exam *run;
    const struct fsck_topic *topic;
    struct record record;
    int result = -ENOENT;

    if (!record_place_is_run(job->place)) {
        result = read_log_record(saving->exam, job->place, scratch, out);
    } else {
        run = fsck_run_of(saving->exam, record_place_run(job->place));
        if (run && run->run)
            result = run_read(run->run, job->place.at, 0, true, scratch, out);
    }
    if (result < 0)
        return result;
    if (!fsck_decode(*out, &record))
        return -EBADMSG;
    topic = fsck_topics_of(&saving->kept,
                           record.kind == RECORD_JOB ? record.job.topic : record.done.topic);
    if (!topic)
        return -ENOMEM;
    job->topic = (uint32_t)(topic - saving->kept.at) + 1;
    return 0;
}

static void apply_change(void *ctx, const void *changed, struct record *record)
{
    (void)ctx;
    engine_changed_apply(changed, record);
}

/* ---- a run of the new directory ---- */

static void forget_lot(struct saving *saving)
{
    for (size_t i = 0; i < saving->changes.count; i++)
        engine_changed_free(saving->changes.at[i]);
    saving->changes.count = 0;
    saving->jobs.count = 0;
    saving->items.count = 0;
}

static void count_kept(struct saving *saving, const struct depot_build *build)
{
    for (uint32_t slot = 0; slot < build->slots; slot++) {
        const struct depot_item *item = &build->items[slot];
        struct fsck_topic *topic = &saving->kept.at[saving->jobs.at[item->place.at].topic - 1];

        topic->stored[item->section]++;
        if (item->section == SECTION_DEAD)
            topic->dead_bytes += build->bytes[slot];
        if (item->section == SECTION_KEPT)
            topic->kept_bytes += build->bytes[slot];
    }
}

static int commit_runs(struct saving *saving)
{
    struct catalog_topic *topics = calloc(saving->kept.count + (size_t)1, sizeof *topics);
    struct catalog catalog = {0};
    bool is_fatal = false;
    uint32_t count = 0;
    int result = topics ? 0 : -ENOMEM;

    for (uint32_t i = 0; result == 0 && i < saving->kept.count; i++) {
        const struct fsck_topic *topic = &saving->kept.at[i];

        topics[count].name = slice_of(topic->name);
        topics[count].dead_bytes = topic->dead_bytes;
        topics[count].kept_bytes = topic->kept_bytes;
        memcpy(topics[count++].stored, topic->stored, sizeof topic->stored);
    }
    if (result == 0)
        result = depot_snapshot(saving->depot, wal_current_file(saving->wal),
                                wal_first_sequence(saving->wal, wal_current_file(saving->wal)),
                                topics, count, saving->exam->last_inner_ms,
                                saving->exam->last_wall_ms, &catalog);
    free(topics);
    if (result == 0)
        result = depot_commit(saving->depot, &catalog, &is_fatal);
    if (result == 0)
        depot_committed(saving->depot, &catalog);
    catalog_fini(&catalog);
    return result;
}

/* Writes and commits a run with the jobs of this lot. */
static int write_lot(struct saving *saving)
{
    struct depot_build build = {
        .no_victims = true, .read_log = read_record, .apply = apply_change, .ctx = saving};
    const size_t count = saving->items.count;
    int result;

    if (!count)
        return 0;
    result = depot_plan(saving->depot, &build);
    if (result < 0)
        return result;
    build.items = saving->items.at;
    build.count = count;
    build.cap = saving->items.cap;
    saving->items = (struct saved_items){0};
    result = depot_build(&build);
    if (result == 0 && !depot_install(saving->depot, &build))
        result = -ENOMEM;
    if (result < 0) {
        depot_abandon(saving->depot, &build);
    } else {
        result = depot_installed(saving->depot, &build) ? 0 : -ENOMEM;
        count_kept(saving, &build);
        if (result == 0)
            result = commit_runs(saving);
    }
    depot_build_fini(&build);
    forget_lot(saving);
    if (result == 0)
        fsck_advance(saving->exam, count);
    return result;
}

/* ---- selecting jobs ---- */

static bool add_job(struct saving *saving, struct record_place place, struct depot_item item)
{
    item.place =
        (struct record_place){.file = 1, .at = (uint32_t)saving->jobs.count, .bytes = place.bytes};
    item.when_ms &= (UINT64_C(1) << 48) - 1;
    return saved_jobs_add(&saving->jobs, (struct saved_job){.place = place}) &&
           saved_items_add(&saving->items, item);
}

/* Adds an entry of the engine. If it is in a run, its slot is excluded from the later copy of that
 * run. */
static bool on_entry(void *ctx, const struct engine_item *entry)
{
    struct saving *saving = ctx;
    struct fsck_run_exam *run;

    if (entry->changed && !saved_changes_reserve(&saving->changes, saving->changes.count + 1))
        return false;
    if (record_place_is_run(entry->place)) {
        run = fsck_run_of(saving->exam, record_place_run(entry->place));
        if (run)
            alive_clear(&run->pending, entry->place.at);
    }
    if (!add_job(
            saving, entry->place,
            (struct depot_item){.when_ms = (uint64_t)entry->when_ms & ((UINT64_C(1) << 48) - 1),
                                .section = (uint64_t)entry->section & 0xff,
                                .sequence = entry->sequence,
                                .changed = entry->changed}))
        return false;
    if (entry->changed)
        saved_changes_add(&saving->changes, entry->changed);
    return true;
}

static bool is_any(void *ctx, uint32_t run)
{
    (void)ctx, (void)run;
    return true;
}

static size_t lot_jobs(const struct saving *saving)
{
    const struct fsck_options *options = saving->exam->options;

    return options->lot_jobs ? options->lot_jobs : LOT_JOBS;
}

static int save_entries(struct saving *saving, struct engine_now now)
{
    struct engine_collect collect = {
        .before_file = UINT32_MAX, .is_victim = is_any, .each = on_entry, .ctx = saving};
    int result = 1;

    while (result == 1) {
        const size_t room = lot_jobs(saving) - saving->items.count;

        result = engine_collect(saving->engine, &collect, now,
                                room < COLLECT_STEPS ? room : COLLECT_STEPS);
        if (result >= 0 && saving->items.count >= lot_jobs(saving)) {
            int failed = write_lot(saving);

            result = failed < 0 ? failed : result;
        }
    }
    return result;
}

/* An iteration over the alive slots of a run that are not in the log. */
struct cold_walk {
    struct saving *saving;
    const struct fsck_run_exam *run;
    uint32_t number;
    int result;
};

static int on_slot(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct cold_walk *walk = ctx;
    const struct record_place place = {
        .file = walk->number | RECORD_IN_RUN, .at = slot, .bytes = entry->bytes};

    if (!alive_test(&walk->run->pending, slot))
        return 0;
    if (!add_job(
            walk->saving, place,
            (struct depot_item){.when_ms = (uint64_t)entry->when_ms & ((UINT64_C(1) << 48) - 1),
                                .section = (uint64_t)run_section_of(walk->run->run, slot) & 0xff,
                                .sequence = entry->sequence}))
        walk->result = -ENOMEM;
    else if (walk->saving->items.count >= lot_jobs(walk->saving))
        walk->result = write_lot(walk->saving);
    return walk->result < 0 ? -1 : 0;
}

static int save_run(struct saving *saving, uint32_t index)
{
    const struct fsck_run_exam *run = &saving->exam->runs[index];
    struct cold_walk walk = {
        .saving = saving, .run = run, .number = saving->exam->catalog.runs[index].number};
    struct run_scan scan = {.end = run->pending.slots, .wants = on_slot, .ctx = &walk};

    while (run->run && scan.first < run->pending.slots) {
        uint32_t next = scan.first;
        int result = run_scan(run->run, &scan, &next);

        if (walk.result < 0 || result == -ENOMEM)
            return walk.result < 0 ? walk.result : result;
        if (result == 0)
            break;
        scan.first = run_after_damage(run->run, next);
    }
    return 0;
}

/* ---- topics ---- */

static uint64_t kept_jobs(const struct fsck_topic *topic)
{
    uint64_t jobs = 0;

    for (int section = 0; topic && section < SECTIONS; section++)
        jobs +=
            section == SECTION_REMEMBERED || section == SECTION_KEPT ? 0 : topic->stored[section];
    return jobs;
}

/* Adjusts the totals to the number of kept jobs: lost jobs count as cancelled. */
static void add_up(struct topic_totals *totals, uint64_t jobs)
{
    const int64_t missing =
        (int64_t)(totals->pushed - totals->acked - totals->cancelled - totals->expired - jobs);

    totals->cancelled += missing > 0 ? (uint64_t)missing : 0;
    totals->pushed += missing < 0 ? (uint64_t)-missing : 0;
}

static int commit_log(struct saving *saving)
{
    int result = 0;

    if (wal_seal_sync(saving->wal)) {
        result = wal_commit(saving->wal);
        (void)wal_committed(saving->wal);
    }
    return result;
}

/* Makes room in the log, and creates the next file if one is full. */
static int make_log_room(struct saving *saving, size_t bytes)
{
    int result = wal_has_room(saving->wal, bytes, WAL_FOR_ANSWER);

    for (int i = 0; result == -EAGAIN && i < 3; i++) {
        result = commit_log(saving);
        if (result == 0 && wal_wants_upkeep(saving->wal)) {
            result = wal_upkeep(saving->wal);
            wal_upkept(saving->wal);
        }
        if (result == 0)
            result = wal_has_room(saving->wal, bytes, WAL_FOR_ANSWER);
    }
    return result;
}

/* Writes a topic that the engine carries into the new log, with consistent totals. */
static struct record_place on_topic_record(void *ctx, const struct record *record)
{
    struct saving *saving = ctx;
    struct record copy = *record;

    if (!copy.topic.exists)
        return (struct record_place){0};
    add_up(&copy.topic.totals, kept_jobs(fsck_topics_find(&saving->kept, copy.topic.topic)));
    return wal_append(saving->wal, &copy);
}

static int save_topics(struct saving *saving)
{
    uint32_t at = 0;
    bool is_last = false;
    int result = 0;

    saving->exam->append = on_topic_record;
    saving->exam->append_ctx = saving;
    while (result == 0 && !is_last) {
        result = make_log_room(saving, ENGINE_TOPIC_BYTES_MAX);
        if (result == 0)
            is_last = engine_carry_topics(saving->engine, &at, 1);
    }
    saving->exam->append = NULL;
    return result < 0 ? result : commit_log(saving);
}

static int report_kept(struct saving *saving)
{
    struct fsck_report *report = saving->exam->report;
    struct fsck_kept *grown =
        realloc(report->kept, (report->kept_count + saving->kept.count + 1) * sizeof *grown);

    if (!grown)
        return -ENOMEM;
    report->kept = grown;
    for (uint32_t i = 0; i < saving->kept.count; i++) {
        const struct fsck_topic *topic = &saving->kept.at[i];
        struct fsck_kept *kept = &grown[report->kept_count++];

        *kept = (struct fsck_kept){.jobs = kept_jobs(topic),
                                   .remembered = topic->stored[SECTION_REMEMBERED] +
                                                 topic->stored[SECTION_KEPT]};
        snprintf(kept->topic, sizeof kept->topic, "%s", topic->name);
        report->kept_jobs += kept->jobs;
        report->kept_remembered += kept->remembered;
    }
    return 0;
}

/* ---- a shard ---- */

static int open_new(struct saving *saving, const char *dir)
{
    struct fsck_exam *exam = saving->exam;
    const struct depot_options depot = {.fs = saving->fs,
                                        .dir = dir,
                                        .hash_seed = exam->hash_seed,
                                        .identity = exam->disk.identity};
    const struct wal_options log = {.fs = saving->fs,
                                    .identity = exam->disk.identity,
                                    .dir = dir,
                                    .file_bytes =
                                        exam->log_file_bytes ? exam->log_file_bytes : LOG_BYTES,
                                    .sync = WAL_SYNC_ALWAYS,
                                    .inner_ms = last_inner_ms,
                                    .wall_ms = last_wall_ms};
    struct wal_found found;
    int result;

    if (exam->last_inner_ms == 0) { /* nothing in the log is readable */
        exam->last_inner_ms = exam->catalog.inner_ms;
        exam->last_wall_ms = exam->catalog.wall_ms;
    }
    inner_ms = exam->last_inner_ms;
    wall_ms = exam->last_wall_ms;
    result = depot_open(&depot, &saving->depot, exam->error, sizeof exam->error);
    if (result == 0)
        result = wal_open(&log, NULL, NULL, &saving->wal, &found, exam->error, sizeof exam->error);
    return result;
}

static int save_all(struct saving *saving, struct engine_now now)
{
    struct fsck_exam *exam = saving->exam;
    int result = save_entries(saving, now);

    for (uint32_t i = 0; result == 0 && i < exam->catalog.run_count; i++)
        result = save_run(saving, i);
    if (result == 0)
        result = write_lot(saving);
    if (result == 0)
        result = save_topics(saving);
    return result;
}

/* Returns an epoch above every epoch found, so that old leases are not mistaken for new ones. */
static uint64_t next_epoch(const struct fsck_exam *exam)
{
    const uint64_t read = exam->reader.epoch, stated = exam->manifest.epoch;

    return (stated == UINT64_MAX || read > stated ? read : stated) + 1;
}

int fsck_salvage_shard(struct fsck_exam *exam)
{
    struct saving saving = {.exam = exam, .fs = &fs_posix};
    char dir[PATH_MAX];
    int result;

    if (!exam->replay)
        return 0;
    saving.engine = fsck_replay_engine(exam->replay);
    if (engine_topic_count(saving.engine) == 0)
        return 0; /* there are no jobs */
    engine_start(saving.engine, next_epoch(exam));
    exam->total += engine_entries(saving.engine);
    for (int section = 0; section < SECTIONS; section++)
        exam->total += exam->cold[section];
    snprintf(dir, sizeof dir, "%.*s/shard-%02" PRIu32, PATH_MAX - 16, exam->options->salvage,
             exam->disk.identity.shard);
    result = open_new(&saving, dir);
    if (result == 0)
        result = save_all(&saving, fsck_replay_now(exam->replay));
    if (result == 0)
        result = report_kept(&saving);
    if (result == 0)
        exam->saved->shard[exam->disk.identity.shard] =
            (struct marks_shard){.epoch = wal_epoch(saving.wal), .synced = wal_synced(saving.wal)};
    wal_close(saving.wal);
    depot_close(saving.depot);
    forget_lot(&saving);
    saved_jobs_fini(&saving.jobs);
    saved_items_fini(&saving.items);
    saved_changes_fini(&saving.changes);
    fsck_topics_fini(&saving.kept);
    return result < 0 ? salvage_failed(exam->report, exam->options->salvage, result) : 0;
}
