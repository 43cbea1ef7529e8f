/* Repair: rewrites files that can be derived from others. */
#include "fsck/exam.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Findings are repaired in a new catalog: new tables are written first, then the catalog, and then
 * files that it no longer names are removed. Before the catalog is written, nothing changes; all
 * changes take effect with it.
 */

static void report_step(const struct fsck_exam *exam, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report_step(const struct fsck_exam *exam, const char *format, ...)
{
    char text[FSCK_TEXT_BYTES];
    int len = snprintf(text, sizeof text, "shard %02" PRIu32 ": ", exam->shard);
    va_list args;

    if (!exam->options->report_step)
        return;
    va_start(args, format);
    vsnprintf(text + len, sizeof text - (size_t)len, format, args);
    va_end(args);
    exam->options->report_step(exam->options->ctx, text);
}

static int fail(struct fsck_exam *exam, int result, const char *what)
{
    snprintf(exam->report->error, sizeof exam->report->error,
             "shard %02" PRIu32 ": cannot %s: %s (nothing was changed)", exam->shard, what,
             strerror(-result));
    return result;
}

/* ---- a table of keys from its run ---- */

struct gathering {
    struct fsck_exam *exam;
    const struct fsck_run_exam *run;
    uint32_t number;
    struct keys_entry *entries;
    size_t count;
};

static int wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    const struct gathering *gathering = ctx;

    (void)entry;
    return alive_test(&gathering->run->alive, slot);
}

static bool gather(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice bytes)
{
    struct gathering *gathering = ctx;
    struct record record;

    (void)entry;
    if (fsck_decode(bytes, &record))
        gathering->entries[gathering->count++] =
            (struct keys_entry){.hash = fsck_key_of(gathering->exam, &record).low,
                                .run = gathering->number,
                                .slot = slot};
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct keys_entry *a = left, *b = right;

    return a->hash != b->hash ? (a->hash > b->hash) - (a->hash < b->hash)
                              : (a->slot > b->slot) - (a->slot < b->slot);
}

/* Collects the entries. Damaged blocks of the directory are skipped, since the keys of their slots
 * are unknown, and so are damaged records; but only those that were already reported, because
 * otherwise a job could no longer be found by its key. */
static int gather_all(struct gathering *gathering)
{
    const uint32_t slots = gathering->run->alive.slots;
    struct run_scan scan = {.end = slots, .wants = wants, .each = gather, .ctx = gathering};

    while (scan.first < slots) {
        uint32_t next = scan.first;
        int result = run_scan(gathering->run->run, &scan, &next);

        if (result == -ENOMEM)
            return result;
        if (result == 0)
            break;
        scan.first = run_after_damage(gathering->run->run, next);
    }
    if (gathering->count != gathering->run->alive.count - gathering->run->lost)
        return -EIO;
    qsort(gathering->entries, gathering->count, sizeof *gathering->entries, compare);
    return 0;
}

static int write_entries(struct fsck_exam *exam, const struct gathering *gathering, uint32_t number)
{
    const struct keys_writing writing = {.fs = exam->reading.below,
                                         .dir = exam->run_dir,
                                         .number = number,
                                         .seed = exam->catalog.seed,
                                         .entries_max = gathering->count};
    struct keys_writer *writer;
    int result = keys_writer_new(&writing, &writer);

    if (result < 0)
        return result;
    for (size_t i = 0; result == 0 && i < gathering->count; i++)
        result = keys_writer_add(writer, &gathering->entries[i]);
    if (result < 0) {
        keys_writer_abandon(writer);
        return result;
    }
    return keys_writer_finish(writer);
}

static int write_table(struct fsck_exam *exam, uint32_t index, uint32_t number)
{
    const struct fsck_run_exam *run = &exam->runs[index];
    struct gathering gathering = {
        .exam = exam, .run = run, .number = exam->catalog.runs[index].number};
    int result;

    report_step(exam, "writes a new table of keys for run %" PRIu32, gathering.number);
    gathering.entries = malloc((run->alive.count + 1) * sizeof *gathering.entries);
    if (!gathering.entries)
        return -ENOMEM;
    result = gather_all(&gathering);
    if (result == 0)
        result = write_entries(exam, &gathering, number);
    free(gathering.entries);
    return result;
}

/* ---- the new catalog ---- */

/* Removes bad tables from the catalog and adds new ones. */
static int renew_tables(struct fsck_exam *exam)
{
    struct catalog *catalog = &exam->catalog;
    uint32_t *keys = calloc(catalog->key_count + catalog->run_count + 1, sizeof *keys);
    uint32_t count = 0;
    int result = 0;

    if (!keys)
        return -ENOMEM;
    for (uint32_t i = 0; i < catalog->key_count; i++)
        if (!exam->is_table_bad[i])
            keys[count++] = catalog->keys[i];
    for (uint32_t i = 0; result == 0 && i < catalog->run_count; i++) {
        if (!exam->runs[i].wants_table || !exam->runs[i].run)
            continue;
        result = write_table(exam, i, catalog->next_keys);
        catalog->runs[i].keys = keys[count++] = catalog->next_keys++;
    }
    free(catalog->keys);
    catalog->keys = keys;
    catalog->key_count = count;
    return result;
}

static int write_counts(struct fsck_exam *exam)
{
    struct catalog *catalog = &exam->catalog;
    struct catalog_topic *topics = calloc(exam->topics.count + 1, sizeof *topics);
    uint32_t count = 0;

    if (!topics)
        return -ENOMEM;
    for (uint32_t i = 0; i < exam->topics.count; i++) {
        const struct fsck_topic *from = &exam->topics.at[i];
        uint64_t sum = 0;
        char *name = strdup(from->name);

        if (!name) {
            while (count)
                free((char *)topics[--count].name.at);
            free(topics);
            return -ENOMEM;
        }
        for (int section = 0; section < SECTIONS; section++)
            sum += from->stored[section];
        if (sum == 0) {
            free(name);
            continue;
        }
        topics[count].name = slice_of(name);
        topics[count].dead_bytes = from->dead_bytes;
        topics[count].kept_bytes = from->kept_bytes;
        memcpy(topics[count++].stored, from->stored, sizeof from->stored);
    }
    for (uint32_t i = 0; i < catalog->topic_count; i++)
        free((char *)catalog->topics[i].name.at);
    free(catalog->topics);
    catalog->topics = topics;
    catalog->topic_count = count;
    return 0;
}

/* ---- deciding ---- */

static bool wants_tables(const struct fsck_exam *exam)
{
    bool wants = false;

    for (uint32_t i = 0; i < exam->catalog.key_count; i++)
        wants |= exam->is_table_bad[i];
    for (uint32_t i = 0; i < exam->catalog.run_count; i++)
        wants |= exam->runs[i].wants_table;
    return wants;
}

/* Returns whether there are findings that repair cannot fix: then a catalog that was skipped may be
 * the only correct one. */
static bool has_worse(const struct fsck_exam *exam)
{
    return exam->found[FSCK_RESTORE] || exam->found[FSCK_SALVAGE];
}

static void remove_orphan(struct fsck_exam *exam, const char *name)
{
    char path[PATH_MAX];

    report_step(exam, "removes run/%s, which is not in the catalog", name);
    snprintf(path, sizeof path, "%s/%s", exam->run_dir, name);
    (void)exam->reading.below->ops->unlink(exam->reading.below->ctx,
                                           path); /* the next start tries again */
}

static int commit(struct fsck_exam *exam)
{
    bool is_fatal = false;
    int result;

    result = renew_tables(exam);
    if (result < 0)
        return fail(exam, result, "write a table of keys");
    if (exam->are_counts_wrong && !exam->has_lost) {
        report_step(exam, "counts the jobs of %" PRIu32 " topics again", exam->topics.count);
        result = write_counts(exam);
    }
    if (result < 0)
        return result;
    exam->catalog.generation += exam->newer_damaged + 1;
    report_step(exam, "writes catalog %" PRIu64, exam->catalog.generation);
    result = catalog_write(exam->reading.below, exam->run_dir, &exam->catalog, &is_fatal);
    return result < 0 ? fail(exam, result, "write the catalog") : 0;
}

static void mark_mended(struct fsck_exam *exam)
{
    struct fsck_report *report = exam->report;

    for (uint64_t i = 0; i < report->finding_count && i < FSCK_FINDINGS_MAX; i++)
        if (report->finding[i].shard == exam->shard)
            report->finding[i].is_mended = report->finding[i].cure == FSCK_REPAIR;
    report->mended += exam->found[FSCK_REPAIR]; /* including findings that are not kept */
}

int fsck_repair(struct fsck_exam *exam)
{
    int result = 0;

    if (exam->has_unread) {
        report_step(exam,
                    "is not changed: the disk failed to read a part of it, which may be intact; "
                    "repair the disk, or copy the directory to another disk, and check again");
        return 0;
    }
    if (exam->is_catalog_bad)
        return 0;
    if (exam->newer_damaged && has_worse(exam)) {
        report_step(exam,
                    "is not changed: the catalog before the damaged one does not match the rest, "
                    "restore a backup");
        return 0;
    }
    if (exam->catalog.generation && (wants_tables(exam) || exam->are_counts_wrong ||
                                     exam->newer_damaged || exam->is_copy_bad)) {
        result = commit(exam);
        if (result == 0)
            mark_mended(exam);
    }
    /* If there is damage that only a backup fixes, the files may have been named by a lost
     * catalog. */
    if (result < 0 || has_worse(exam))
        return result;
    return fsck_orphans(exam, remove_orphan);
}
