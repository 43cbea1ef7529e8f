/* Key tables: in order, and each alive slot found under its key. */
#include "fsck/exam.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/*
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
        run->sum -= fsck_mix(entry->hash, entry->slot);
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

int fsck_keys(struct fsck_exam *exam)
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
