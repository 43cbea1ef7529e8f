/* Runs: every slot in order, every alive record; and their key tables: in order, each alive slot found under its key. */
#include "fsck/exam.h"

#include "base/timestamp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROGRESS_RECORDS = 4096 };

/* An examination of one run. */
struct walk {
    struct fsck_exam *exam;
    const struct catalog_run *about;
    struct fsck_run_exam *run;
    char file[48];
    struct run_slot before; /* the previous readable entry, if any, of slot before_slot */
    uint32_t before_slot;
};

static uint64_t mix(uint64_t hash, uint32_t slot)
{
    uint64_t mixed = hash ^ ((uint64_t)slot + 1) * 0x9e3779b97f4a7c15u;

    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    return mixed ^ mixed >> 29;
}

bool fsck_decode(struct slice bytes, struct record *out)
{
    return bytes.len && record_decode(bytes, out) &&
           (out->kind == RECORD_JOB || out->kind == RECORD_DONE);
}

struct hash128 fsck_key_of(const struct fsck_exam *exam, const struct record *record)
{
    if (record->kind == RECORD_DONE)
        return record->done.key;
    return hash_pair(record->job.topic, record->job.id, exam->hash_seed);
}

static struct fsck_where at_slot(const struct walk *walk, uint32_t slot,
                                 const struct run_slot *entry)
{
    return (struct fsck_where){.file = walk->file, .at = entry ? entry->offset : 0, .slot = slot};
}

/* ---- description of a job whose record is lost ---- */

static void describe(const struct walk *walk, uint32_t slot, const struct run_slot *entry,
                     char *out, size_t out_bytes)
{
    static const char *const names[SECTIONS] = {
        [SECTION_LEASED] = "a leased job",
        [SECTION_DELAYED] = "a delayed job",
        [SECTION_DELAYED_WALL] = "a delayed job",
        [SECTION_RETRYING] = "a job to be retried",
        [SECTION_RETRYING_WALL] = "a job to be retried",
        [SECTION_REMEMBERED] = "a remembered id",
        [SECTION_KEPT] = "a finished job",
        [SECTION_DEAD] = "a dead job",
    };
    const struct catalog *catalog = &walk->exam->catalog;
    enum job_section section = run_section_of(walk->run->run, slot);
    struct slice topic = run_topic_name(walk->run->run, entry->topic);
    char when[TIMESTAMP_BYTES + 1] = "";
    int64_t when_ms = entry->when_ms;

    if (section != SECTION_DEAD && !job_section_is_wall(section))
        when_ms += catalog->wall_ms - catalog->inner_ms;
    timestamp_write(when, when_ms);
    when[TIMESTAMP_BYTES] = '\0';
    snprintf(out, out_bytes, "%s of topic '%.*s'%s%s", names[section], (int)topic.len, topic.at,
             section == SECTION_LEASED       ? ""
             : section == SECTION_REMEMBERED ? ", until "
                                             : ", due ",
             section == SECTION_LEASED ? "" : when);
}

/* Counts a job as lost, unless it is in a backup. */
static void lose(struct walk *walk, uint32_t slot, const struct run_slot *entry)
{
    struct fsck_topic *topic = &walk->exam->topics.at[walk->run->topics[entry->topic] - 1];
    enum job_section section = run_section_of(walk->run->run, slot);

    walk->run->lost++;
    topic->lost++;
    walk->exam->has_lost = true;
    alive_clear(&walk->run->pending, slot);
    if (!walk->exam->options->salvage)
        return;
    alive_clear(&walk->run->alive, slot);
    walk->run->bytes -= entry->bytes;
    topic->stored[section]--;
    topic->given_up[section]++;
    if (section == SECTION_DEAD)
        topic->dead_bytes -= entry->bytes;
    if (section == SECTION_KEPT)
        topic->kept_bytes -= entry->bytes;
}

/* ---- slots ---- */

static bool is_in_order(const struct walk *walk, uint32_t slot, const struct run_slot *entry)
{
    const struct run_slot *before = &walk->before;

    if (entry->offset <= before->offset) /* zero before the first */
        return false;
    if (run_section_of(walk->run->run, slot) != run_section_of(walk->run->run, walk->before_slot))
        return true;
    return entry->when_ms > before->when_ms ||
           (entry->when_ms == before->when_ms && entry->sequence >= before->sequence);
}

/* Counts a slot by its directory entry, which may be intact even if the record is not. */
static void count(struct walk *walk, uint32_t slot, const struct run_slot *entry)
{
    struct fsck_topic *topic = &walk->exam->topics.at[walk->run->topics[entry->topic] - 1];
    enum job_section section = run_section_of(walk->run->run, slot);

    topic->stored[section]++;
    if (section == SECTION_DEAD)
        topic->dead_bytes += entry->bytes;
    if (section == SECTION_KEPT)
        topic->kept_bytes += entry->bytes;
    walk->run->bytes += entry->bytes;
}

static int on_entry(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct walk *walk = ctx;

    if (!is_in_order(walk, slot, entry))
        fsck_find(walk->exam, at_slot(walk, slot, entry), FSCK_RESTORE, "the slot is out of order");
    walk->before = *entry;
    walk->before_slot = slot;
    if (slot % PROGRESS_RECORDS == 0)
        fsck_advance(walk->exam, PROGRESS_RECORDS);
    if (!alive_test(&walk->run->alive, slot))
        return 0;
    count(walk, slot, entry);
    return 1;
}

/* ---- records ---- */

static const char *disagreement(const struct walk *walk, uint32_t slot,
                                const struct run_slot *entry, const struct record *record)
{
    const uint64_t mask = (UINT64_C(1) << 56) - 1; /* number of bits that an engine keeps */
    bool is_job = record->kind == RECORD_JOB;
    struct slice name = run_topic_name(walk->run->run, entry->topic);
    struct slice topic = is_job ? record->job.topic : record->done.topic;
    enum job_section section;
    int64_t when_ms;

    if (is_job && (record->job.state == JOB_READY || record->job.state == JOB_FINISHED))
        return "a job is stored in an invalid state";
    section = job_section_of_record(record, 0, &when_ms);
    if (section != run_section_of(walk->run->run, slot))
        return "the record belongs to another part of the run";
    if (section != SECTION_DEAD && when_ms != entry->when_ms)
        return "the record has another time than its slot";
    if (((is_job ? record->job.sequence : record->done.sequence) & mask) !=
        (entry->sequence & mask))
        return "the record has another sequence than its slot";
    if (topic.len != name.len || memcmp(topic.at, name.at, name.len) != 0)
        return "the record has another topic than its slot";
    if (entry->group !=
        (is_job ? flow_group_mark(topic, record->job.group, walk->exam->hash_seed) : 0))
        return "the record has another group than its slot";
    return NULL;
}

static bool on_record(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice bytes)
{
    struct walk *walk = ctx;
    struct record record;
    const char *why;
    char what[JOB_TOPIC_BYTES_MAX + 80];

    if (!fsck_decode(bytes, &record)) {
        describe(walk, slot, entry, what, sizeof what);
        fsck_find(walk->exam, at_slot(walk, slot, entry), FSCK_SALVAGE, "the record %s: %s",
                  walk->exam->reading.error ? "cannot be read" : "is damaged", what);
        lose(walk, slot, entry);
        return true;
    }
    why = disagreement(walk, slot, entry, &record);
    if (why)
        fsck_find(walk->exam, at_slot(walk, slot, entry), FSCK_RESTORE, "%s", why);
    const struct hash128 key = fsck_key_of(walk->exam, &record);

    fsck_owner_check(walk->exam, at_slot(walk, slot, entry), key,
                     record.kind == RECORD_DONE ? record.done.topic : record.job.topic);
    walk->run->sum += mix(key.low, slot);
    return true;
}

/* ---- a run ---- */

/* Counts the jobs of an unreadable directory block as lost, since nothing is known about them. */
static void lose_block(struct walk *walk, uint32_t first, uint32_t end)
{
    uint32_t lost = 0;

    for (uint32_t slot = alive_next(&walk->run->alive, first, end); slot < end;
         slot = alive_next(&walk->run->alive, slot + 1, end)) {
        lost++;
        alive_clear(&walk->run->pending, slot);
        if (walk->exam->options->salvage)
            alive_clear(&walk->run->alive, slot);
    }
    if (lost == 0) { /* perhaps given up before */
        fsck_note(walk->exam,
                  "the directory of %s is damaged from slot %" PRIu32 " to %" PRIu32
                  ", which have no pending jobs",
                  walk->file, first, end - 1);
        return;
    }
    walk->run->lost += lost;
    walk->exam->has_lost = true;
    walk->exam->are_counts_unknown = true;
    fsck_find(walk->exam, at_slot(walk, first, NULL), FSCK_SALVAGE,
              "the directory %s from slot %" PRIu32 " to %" PRIu32 ": the %" PRIu32
              " pending jobs in it are unknown",
              walk->exam->reading.error ? "cannot be read" : "is damaged", first, end - 1, lost);
}

static int map_topics(struct walk *walk)
{
    const struct run_info *info = run_info(walk->run->run);

    walk->run->topics = calloc(info->topics + 1, sizeof *walk->run->topics);
    if (!walk->run->topics)
        return -ENOMEM;
    for (uint32_t i = 0; i < info->topics; i++) {
        const struct fsck_topic *topic =
            fsck_topics_of(&walk->exam->topics, run_topic_name(walk->run->run, i));

        if (!topic)
            return -ENOMEM;
        walk->run->topics[i] = (uint32_t)(topic - walk->exam->topics.at) + 1;
    }
    return 0;
}

static int go_over(struct walk *walk)
{
    const uint32_t slots = run_info(walk->run->run)->slots;
    struct run_scan scan = {.end = slots, .wants = on_entry, .each = on_record, .ctx = walk};
    int result = 0;

    while (scan.first < slots) {
        uint32_t next = scan.first;

        result = run_scan(walk->run->run, &scan, &next);
        if (result == -ENOMEM)
            return result;
        if (result == 0)
            break;
        scan.first = run_after_damage(walk->run->run, next);
        lose_block(walk, next, scan.first);
    }
    return 0;
}

static void on_unread(void *ctx, uint64_t at)
{
    const struct walk *walk = ctx;

    fsck_note(walk->exam,
              "%s, byte %" PRIu64 ": differs from what was written; this byte is unused and "
              "nothing is lost, but the disk does not store data reliably",
              walk->file, at);
}

/* Checks the parts that are never read. Neither damage nor read errors there affect any job. */
static void look_at_unread(struct walk *walk)
{
    const int result = run_check_unread(walk->run->run, on_unread, walk);

    if (result < 0)
        fsck_note(walk->exam, "%s: an unused part of it cannot be read: %s", walk->file,
                  strerror(-result));
}

static int open_run(struct walk *walk)
{
    struct fsck_exam *exam = walk->exam;
    const struct catalog_run *about = walk->about;
    struct run *run = NULL;
    int result = run_open(&exam->reading.fs, exam->run_dir, about->number, exam->catalog.seed, &run,
                          exam->error, sizeof exam->error);

    if (result == -ENOMEM)
        return result;
    if (result == 0 && run_info(run)->slots == about->slots) {
        walk->run->run = run;
        return 0;
    }
    if (result == 0)
        snprintf(exam->error, sizeof exam->error,
                 "it has %" PRIu32 " slots, and the catalog has %" PRIu32, run_info(run)->slots,
                 about->slots);
    run_close(run);
    walk->run->lost = about->alive_count;
    exam->has_lost = exam->are_counts_unknown = true;
    fsck_find(exam, at_slot(walk, FSCK_NO_SLOT, NULL), FSCK_SALVAGE,
              "%s; %" PRIu32 " jobs are in it",
              result == -ENOENT ? "the run is missing" : exam->error, about->alive_count);
    return 0;
}

static int examine_run(struct fsck_exam *exam, uint32_t index)
{
    struct walk walk = {
        .exam = exam, .about = &exam->catalog.runs[index], .run = &exam->runs[index]};
    char name[32];
    int result;

    run_file_name(walk.about->number, name);
    snprintf(walk.file, sizeof walk.file, "run/%s", name);
    if (!alive_load(&walk.run->alive, walk.about->slots, walk.about->alive) ||
        !alive_load(&walk.run->pending, walk.about->slots, walk.about->alive))
        /* catalog_decode rejects bits beyond the last slot, and a wrong number of bits */
        return -ENOMEM;
    result = open_run(&walk);
    if (result == 0 && walk.run->run) {
        look_at_unread(&walk);
        result = map_topics(&walk);
    }
    if (result == 0 && walk.run->run)
        result = go_over(&walk);
    return result;
}

/*
 * ---- key tables ----
 *
 * Each alive slot must be found under its key. The runs were examined before: one bit per slot
 * marks slots that are still to be found, and a sum over all their hashes verifies that they are
 * found under the right keys. So tables are read once, sequentially, and nothing is looked up.
 */

static struct fsck_where in_table(const struct fsck_exam *exam, uint32_t index, char file[48])
{
    char name[32];

    keys_file_name(exam->catalog.keys[index], name);
    snprintf(file, 48, "run/%s", name);
    return (struct fsck_where){.file = file, .slot = FSCK_NO_SLOT};
}

/* Marks a table as bad. Its runs get a new one. */
static void condemn(struct fsck_exam *exam, uint32_t index)
{
    exam->is_table_bad[index] = true;
    keys_close(exam->tables[index]);
    exam->tables[index] = NULL;
    for (uint32_t i = 0; i < exam->catalog.run_count; i++)
        exam->runs[i].wants_table |= exam->catalog.runs[i].keys == exam->catalog.keys[index];
}

static void find_in(struct fsck_exam *exam, const struct keys_entry *entry)
{
    struct fsck_run_exam *run = fsck_run_of(exam, entry->run);

    if (!run || !run->run || entry->slot >= run->alive.slots)
        return;
    if (alive_clear(&run->pending, entry->slot))
        run->sum -= mix(entry->hash, entry->slot);
}

/* Returns what is wrong with a table, or NULL. *result is negative if reading failed. */
static const char *walk_table(struct fsck_exam *exam, struct keys *keys, int *result)
{
    struct keys_cursor cursor = {.keys = keys};
    struct keys_entry entry;
    const char *why = NULL;

    while (!why && (*result = keys_cursor_next(&cursor, &entry)) == 1) {
        if (keys_maybe(keys, entry.hash))
            find_in(exam, &entry);
        else
            why = "its filter lacks a key that the table has";
    }
    keys_cursor_fini(&cursor);
    return *result < 0 ? "a block of it is damaged, or its keys are out of order" : why;
}

static int examine_table(struct fsck_exam *exam, uint32_t index)
{
    char file[48];
    const struct fsck_where where = in_table(exam, index, file);
    const char *why = NULL;
    int result =
        keys_open(&exam->reading.fs, exam->run_dir, exam->catalog.keys[index], exam->catalog.seed,
                  &exam->tables[index], exam->error, sizeof exam->error);

    if (result == -ENOMEM)
        return result;
    if (result < 0) {
        why = result == -ENOENT ? "the table of keys is missing" : exam->error;
        exam->tables[index] = NULL;
    } else if ((result = keys_load_filter(exam->tables[index])) < 0) {
        why = "its filter is damaged";
    } else {
        why = walk_table(exam, exam->tables[index], &result);
    }
    if (result == -ENOMEM)
        return result;
    if (why) {
        fsck_find(exam, where, FSCK_REPAIR, "%s", why);
        condemn(exam, index);
    }
    return 0;
}

/* ---- slots not found ---- */

/* Marks the table of a run as bad. The other runs in that table also get new ones. */
static void condemn_of(struct fsck_exam *exam, uint32_t run)
{
    for (uint32_t i = 0; i < exam->catalog.key_count; i++)
        if (exam->catalog.keys[i] == exam->catalog.runs[run].keys)
            condemn(exam, i);
    exam->runs[run].wants_table = true;
}

static void report_run(struct fsck_exam *exam, uint32_t index)
{
    struct fsck_run_exam *run = &exam->runs[index];
    char name[32], file[48];
    uint32_t first = alive_next(&run->pending, 0, run->pending.slots);

    run_file_name(exam->catalog.runs[index].number, name);
    snprintf(file, sizeof file, "run/%s", name);
    if (run->wants_table) /* already reported for its table */
        return;
    if (first < run->pending.slots) {
        condemn_of(exam, index);
        fsck_find(exam, (struct fsck_where){.file = file, .slot = first}, FSCK_REPAIR,
                  "no table of keys finds %" PRIu32 " of its jobs, the first is in this slot",
                  run->pending.count);
    } else if (run->sum) {
        condemn_of(exam, index);
        fsck_find(exam, (struct fsck_where){.file = file, .slot = FSCK_NO_SLOT}, FSCK_REPAIR,
                  "a table of keys has one of its jobs under another key");
    }
}

static bool names_table(const struct fsck_exam *exam, uint32_t number)
{
    for (uint32_t i = 0; i < exam->catalog.key_count; i++)
        if (exam->catalog.keys[i] == number)
            return true;
    return false;
}

static int examine_tables(struct fsck_exam *exam)
{
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < exam->catalog.key_count; i++)
        result = examine_table(exam, i);
    for (uint32_t i = 0; result == 0 && i < exam->catalog.run_count; i++)
        if (exam->runs[i].run) {
            report_run(exam, i);
            exam->runs[i].wants_table |= !names_table(exam, exam->catalog.runs[i].keys);
        }
    return result;
}

int fsck_runs(struct fsck_exam *exam)
{
    int result = 0;

    for (uint32_t i = 0; i < exam->catalog.run_count; i++)
        exam->total += exam->catalog.runs[i].slots;
    for (uint32_t i = 0; result == 0 && i < exam->catalog.run_count; i++)
        result = examine_run(exam, i);
    if (result == 0)
        fsck_topics_report_lost(exam);
    return result ? result : examine_tables(exam);
}
