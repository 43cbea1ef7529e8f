/* Findings in misleading tables of keys, in runs without a table, in catalogs and in
 * files that are not named. */
#include "fsck_rig_run.h"
#include "unit/claim.h"

/* ---- tables ---- */

static void add_entry(uint64_t hash, uint32_t run, uint32_t number)
{
    scene.entries[scene.entry_count++] =
        (struct keys_entry){.hash = hash, .run = run, .slot = number};
}

/* Rewrites the table of run 2, with the additions. */
static void rewrite_table(void)
{
    remove_file("00000002.keys");
    write_table(2, 0);
}

/* An entry is a hint: what it leads to may be gone. */
CLAIM_BETWEEN(dangling_entries_are_not_a_fault, make_scene, remove_scene)
{
    add_entry(7, 1, 3);   /* dead */
    add_entry(8, 9, 0);   /* no such run */
    add_entry(9, 2, 999); /* no such slot */
    rewrite_table();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 18);
}

static char ghost[16];

static void lease_the_ghost(void)
{
    set_state(ghost, JOB_LEASED, slot(7, 0)); /* of a run that never counted */
}

/* An id whose hash comes behind that of b4. */
static uint64_t find_ghost(void)
{
    for (int i = 0;; i++) {
        snprintf(ghost, sizeof ghost, "ghost%d", i);
        if (key_of(ghost).low > key_of("b4").low)
            return key_of(ghost).low;
    }
}

CLAIM_BETWEEN(table_entries_are_verified_against_records, make_scene, remove_scene)
{
    uint64_t hash = find_ghost();

    add_entry(hash, 2, 4); /* another job */
    add_entry(hash, 2, 999);
    add_entry(hash, 9, 0);
    add_entry(hash, 1, 3); /* dead */
    rewrite_table();
    write_log(lease_the_ghost);
    examine();
    the_finding("wal/00000001.log", "the state of a job changes that is stored nowhere");
    assert_int_equal(scene.report.shard[0].cold, 18);
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 20);
}

static void copy_blocks(const char *from, const char *into, int64_t first, int64_t count)
{
    char path[2][256], block[KEYS_BLOCK_BYTES];
    int fds[2];

    path_of(from, path[0]);
    path_of(into, path[1]);
    fds[0] = open(path[0], O_RDONLY);
    fds[1] = open(path[1], O_WRONLY);
    for (int64_t i = first; i < first + count; i++) {
        assert_int_equal(pread(fds[0], block, sizeof block, i * KEYS_BLOCK_BYTES), sizeof block);
        assert_int_equal(pwrite(fds[1], block, sizeof block, i * KEYS_BLOCK_BYTES), sizeof block);
    }
    close(fds[0]);
    close(fds[1]);
}

CLAIM_BETWEEN(a_filter_that_denies_a_key_of_its_table_is_found, make_scene, remove_scene)
{
    char kept[256], made_path[256];

    path_of("00000002.keys", made_path);
    path_of("kept", kept);
    assert_int_equal(rename(made_path, kept), 0);
    for (size_t i = 0; i < scene.entry_count; i++)
        scene.entries[i].hash += UINT64_C(0x1234567890abcdef);
    write_table(2, 0); /* as many keys, others */
    copy_blocks("00000002.keys", "kept", 1, 1);
    assert_int_equal(rename(kept, made_path), 0);
    examine();
    assert_int_equal(
        the_finding("run/00000002.keys", "its filter lacks a key that the table has")->cure,
        FSCK_REPAIR);
    repair();
    expect_all_mended();
}

static void leased_and_ended_by_key(void)
{
    set_state("b5", JOB_LEASED, slot(7, 0));
    set_state("b5", JOB_DELAYED, (struct record_place){0});
    finish("b6", slot(7, 1));
    set_totals(99, 3);
    remove_topic("orders");
}

/* They may be in places that only the table had. */
CLAIM_BETWEEN(jobs_that_a_damaged_table_may_have_are_not_lost, make_scene, remove_scene)
{
    flip("00000002.keys", 40);
    write_log(leased_and_ended_by_key);
    examine();
    the_finding("run/00000002.keys", "damaged, or its keys are out of order");
}

static void ended_by_key(void)
{
    finish("b6", slot(7, 1));
    finish("nobody", slot(7, 2));
    set_totals(2 * JOBS + 2, 4);
}

CLAIM_BETWEEN(an_end_without_a_push_is_uncertain, make_scene, remove_scene)
{
    write_log(ended_by_key);
    expect_clean();
    flip("00000002.keys", 40);
    examine();
    assert_int_equal(scene.report.finding_count, 1);
    repair();
    expect_all_mended();
    assert_int_equal(scene.report.shard[0].cold, 17);
}

/* A job moved from one run to another; the table was merged of both. */
CLAIM_BETWEEN(one_table_for_two_runs_is_valid, make_scene, remove_scene)
{
    struct catalog *catalog = &scene.catalog;
    struct keys_entry first;
    struct record record = job_record("twice", "t", JOB_DELAYED, 100000, 1);

    begin_run(3);
    add_to_run("twice", &record);
    end_run();
    first = scene.entries[0];
    begin_run(4);
    add_to_run("twice", &record);
    end_run();
    scene.entries[scene.entry_count++] = first;
    write_table(5, 0);
    catalog->keys[2] = catalog->runs[2].keys = catalog->runs[3].keys = 5;
    catalog->key_count = 3;
    catalog->next_keys = 6;
    free(catalog->runs[2].alive);
    set_alive(&catalog->runs[2], 3, 1, 0);
    catalog->runs[2].keys = 5;
    catalog_topic_of(slice_of("twice"))->stored[SECTION_DELAYED] = 1;
    renew_catalog();
    expect_clean();
    flip("00000005.keys", 40);
    repair();
    expect_all_mended();
}

/* ---- runs ---- */

static void lease_a5(void)
{
    set_state("a5", JOB_LEASED, slot(7, 0));
}

CLAIM_BETWEEN(a_job_of_a_missing_run_is_nowhere, make_scene, remove_scene)
{
    remove_file("00000001.run");
    write_log(lease_a5);
    examine();
    assert_true(scene.report.finding_count > 1);
    finding(0, "the run is missing; 10 jobs are in it");
    finding(1, "stored nowhere");
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, JOBS + 2);
}

/* Nothing of it is given up without leave; and when it comes back, nothing is missing. */
CLAIM_BETWEEN(a_run_that_comes_back_after_a_repair_is_whole, make_scene, remove_scene)
{
    char path[256], away[256];

    path_of("00000001.run", path);
    path_of("away", away);
    assert_int_equal(rename(path, away), 0);
    remove_file("00000001.keys");
    flip("00000002.run", scene.second_at + 30);
    remove_file("00000002.keys");
    repair();
    assert_int_equal(scene.report.mended, 2); /* the tables */
    assert_int_equal(rename(away, path), 0);
    flip("00000002.run", scene.second_at + 30);
    examine(); /* neither had its keys in a new table */
    assert_true(scene.report.finding_count > 0);
    for (uint64_t i = 0; i < scene.report.finding_count; i++)
        assert_int_equal(scene.report.finding[i].cure, FSCK_REPAIR);
    repair();
    expect_all_mended();
    assert_int_equal(scene.report.shard[0].cold, 18);
}

static void beyond(void)
{
    finish("a0", slot(1, 999)); /* there is no such slot, and it ended before */
    set_totals(2 * JOBS + 1, 2);
}

CLAIM_BETWEEN(an_end_in_a_missing_slot_has_no_effect, make_scene, remove_scene)
{
    write_log(beyond);
    examine();
    finding(0, "totals fall");
    assert_int_equal(scene.report.shard[0].cold, 18);
}

/* ---- catalogs ---- */

static void keep_catalog(void)
{
    char command[600];

    snprintf(command, sizeof command, "cp '%s/CATALOG-00000005' '%s/kept'", scene.run_dir,
             scene.run_dir);
    assert_int_equal(system(command), 0);
}

static void bring_catalog_back(void)
{
    char path[2][256];

    path_of("kept", path[0]);
    path_of("CATALOG-00000005", path[1]);
    assert_int_equal(rename(path[0], path[1]), 0);
}

/* Two newer ones, both damaged. */
static void pass_two_over(void)
{
    char path[2][256];

    keep_catalog();
    renew_catalog();
    path_of("CATALOG-00000006", path[0]);
    path_of("six", path[1]);
    assert_int_equal(rename(path[0], path[1]), 0);
    renew_catalog();
    assert_int_equal(rename(path[1], path[0]), 0);
    bring_catalog_back();
    flip("CATALOG-00000006", 50);
    flip("CATALOG-00000007", 50);
}

CLAIM_BETWEEN(several_damaged_catalogs_are_repaired_together, make_scene, remove_scene)
{
    pass_two_over();
    examine();
    the_finding("", "2 catalogs newer than generation 5 cannot be read");
    repair();
    expect_all_mended();
    assert_int_equal(scene.report.shard[0].generation, 8);
    assert_false(is_there("CATALOG-00000007"));
}

/* The damaged one may be the only one that knows better. */
CLAIM_BETWEEN(a_catalog_that_does_not_fit_the_rest_is_not_made_the_truth, make_scene, remove_scene)
{
    pass_two_over();
    flip("00000002.run", scene.second_at + 30);
    repair();
    assert_non_null(
        strstr(scene.output, "the catalog before the damaged one does not match the rest"));
    assert_int_equal(scene.report.mended, 0);
    assert_true(is_there("CATALOG-00000007"));
    save(); /* that was accepted */
    expect_clean();
}

static void spoil_log(void)
{
    append(&(struct record){.kind = RECORD_DONE, .done = {.reason = RECORD_ACKED}});
}

CLAIM_BETWEEN(no_table_is_rewritten_if_only_a_backup_helps, make_scene, remove_scene)
{
    pass_two_over();
    write_log(spoil_log);
    repair();
    assert_int_equal(scene.report.finding_count, 2);
    assert_int_equal(finding(1, "the record does not name its topic")->cure, FSCK_RESTORE);
    assert_int_equal(scene.report.mended, 0);
    assert_true(is_there("CATALOG-00000007"));
}

CLAIM_BETWEEN(a_catalog_of_another_time_than_the_log_is_found, make_scene, remove_scene)
{
    scene.catalog.log_first_sequence = 4;
    renew_catalog();
    save();
    assert_int_equal(the_finding("", "they are from different times")->cure, FSCK_RESTORE);
    assert_int_equal(scene.report.mended, 0);
}

/* ---- files that are not named ---- */

static void make_file(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    path_of(name, path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

CLAIM_BETWEEN(only_unnamed_files_of_the_store_are_removed, make_scene, remove_scene)
{
    static const char *const goes[] = {"00000003.run", "00000008.keys", "CATALOG.tmp",
                                       "CATALOG-00000002"};
    static const char *const stays[] = {"00000005.run", "notes", "a.b", ".tmp"};

    scene.catalog.next_run = 4;
    renew_catalog();
    for (size_t i = 0; i < 4; i++) {
        make_file(goes[i], "x");
        make_file(stays[i], "x");
    }
    expect_clean();
    assert_int_equal(scene.report.note_count, 4);
    repair();
    for (size_t i = 0; i < 4; i++) {
        assert_false(is_there(goes[i]));
        assert_true(is_there(stays[i]));
    }
    expect_clean();
    assert_int_equal(scene.report.note_count, 0);
    assert_int_equal(scene.report.shard[0].cold, 18);
}

/* Another catalog, which a user may still have, could name them. */
CLAIM_BETWEEN(no_file_is_removed_next_to_damage_that_needs_a_backup, make_scene, remove_scene)
{
    static const char *const stays[] = {"00000003.run", "00000008.keys", "CATALOG-00000002"};

    scene.catalog.next_run = 4;
    scene.catalog.log_first_sequence = 4;
    renew_catalog();
    for (size_t i = 0; i < 3; i++)
        make_file(stays[i], "x");
    repair();
    the_finding("", "they are from different times");
    for (size_t i = 0; i < 3; i++)
        assert_true(is_there(stays[i]));
}

CLAIM_BETWEEN(notes_beyond_the_limit_are_counted, make_scene, remove_scene)
{
    char name[32];

    for (uint32_t i = 0; i < FSCK_NOTES_MAX + 5; i++) {
        keys_file_name(100 + i, name);
        make_file(name, "");
    }
    expect_clean();
    assert_int_equal(scene.report.note_count, FSCK_NOTES_MAX + 5);
    assert_non_null(strstr(scene.report.note[FSCK_NOTES_MAX - 1].text, "not in the catalog"));
}

/* They only reserve their numbers. */
CLAIM_BETWEEN(empty_runs_need_no_catalog, make_scene, remove_scene)
{
    forget_shard();
    make_file("00000001.run", "");
    make_file("00000002.run", "");
    make_file("00000003.run", "");
    make_file("00000001.keys", "x");
    expect_clean();
    make_file("00000001.run", "x"); /* that is the one a crash may leave */
    expect_clean();
    make_file("00000002.run", "x");
    examine();
    the_finding("", "there are 2 runs, but no catalog");
}

static void an_empty_batch(void)
{
}

/* A power cut within a recovery may leave several: all that counts is in the log. */
CLAIM_BETWEEN(runs_beside_a_log_from_its_first_file_need_no_catalog, make_scene, remove_scene)
{
    forget_shard();
    write_log(an_empty_batch);
    make_file("00000001.run", "x");
    make_file("00000002.run", "x");
    expect_clean();
}

CLAIMS_MAIN(NULL, NULL)
