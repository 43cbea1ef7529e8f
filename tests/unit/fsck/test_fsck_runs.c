/* Findings and repairs in runs, tables of keys and catalogs. */
#include "fsck_rig.h"

#include "store/wal_private.h"
#include "unit/claim.h"

/* ---- claims ---- */

CLAIM_BETWEEN(a_sound_shard_is_clean_and_counted, make_scene, remove_scene)
{
    const struct fsck_shard *shard = &scene.report.shard[0];

    expect_clean();
    assert_int_equal(shard->generation, 5);
    assert_int_equal(shard->runs, 2);
    assert_int_equal(shard->tables, 2);
    /* 19 of orders and the dead one, less a0 and a1 */
    assert_int_equal(shard->cold, 18);
    assert_int_equal(shard->leased, 1);
    assert_int_equal(shard->dead, 1);
    /* the second a1, new, and all cold ones except b0 and the dead */
    assert_int_equal(shard->delayed, 18);
}

CLAIM_BETWEEN(a_damaged_record_is_reported_with_its_known_fields, make_scene, remove_scene)
{
    const struct fsck_finding *finding;

    flip("00000002.run", 4096 + 30);
    examine();
    finding = the_finding("run/00000002.run", "a delayed job of topic 'orders', due 1970-01-01");
    assert_true(finding->has_slot);
    assert_int_equal(finding->slot, 0);
    assert_int_equal(finding->at, 4096);
    assert_int_equal(finding->cure, FSCK_SALVAGE);
}

CLAIM_BETWEEN(a_damaged_record_is_not_saved, make_scene, remove_scene)
{
    flip("00000002.run", scene.second_at + 30);
    repair();
    assert_int_equal(scene.report.mended, 0);
    examine();
    assert_int_equal(the_finding("run/00000002.run", "damaged")->slot, 1);
    save();
    expect_clean();
}

CLAIM_BETWEEN(a_damaged_record_of_a_dead_slot_is_not_a_fault, make_scene, remove_scene)
{
    struct fsck_report *report = &scene.report;

    examine();
    flip("00000001.run", 4096 + 3 * 90);
    examine();
    assert_true(report->finding_count <= 1); /* the flip may have hit a neighbour */
}

CLAIM_BETWEEN(a_missing_run_is_named_with_how_many_jobs_were_in_it, make_scene, remove_scene)
{
    remove_file("00000001.run");
    examine();
    assert_true(scene.report.finding_count >= 1);
    assert_string_equal(scene.report.finding[0].file, "run/00000001.run");
    assert_non_null(strstr(scene.report.finding[0].text, "missing; 10 jobs are in it"));
    repair();
    assert_int_equal(scene.report.mended, 0);
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, JOBS + 2);
}

CLAIM_BETWEEN(a_damaged_footer_is_noted_and_its_copy_in_the_header_counts, make_scene, remove_scene)
{
    flip("00000002.run", -4000);
    expect_clean();
    assert_int_equal(scene.report.note_count, 1);
    assert_non_null(strstr(scene.report.note[0].text, "00000002.run"));
    flip("00000002.run", 40); /* also the copy */
    examine();
    assert_true(scene.report.finding_count >= 1);
    assert_string_equal(scene.report.finding[0].file, "run/00000002.run");
}

CLAIM_BETWEEN(a_damaged_table_is_rewritten, make_scene, remove_scene)
{
    flip("00000002.keys", 40);
    examine();
    assert_int_equal(the_finding("run/00000002.keys", "damaged")->cure, FSCK_REPAIR);
    repair();
    assert_int_equal(scene.report.mended, 1);
    assert_non_null(strstr(scene.output, "writes a new table of keys for run 2"));
    expect_clean();
    assert_int_equal(scene.report.shard[0].generation, 6);
    assert_false(is_there("00000002.keys"));
    assert_true(is_there("00000003.keys"));
}

CLAIM_BETWEEN(a_missing_table_is_rewritten, make_scene, remove_scene)
{
    remove_file("00000001.keys");
    examine();
    the_finding("run/00000001.keys", "missing");
    repair();
    expect_clean();
}

CLAIM_BETWEEN(a_damaged_filter_is_found, make_scene, remove_scene)
{
    flip("00000001.keys", 4096 + 10);
    examine();
    assert_string_equal(scene.report.finding[0].file, "run/00000001.keys");
    repair();
    expect_clean();
}

CLAIM_BETWEEN(a_key_that_is_not_in_its_table_is_found, make_scene, remove_scene)
{
    remove_file("00000002.keys");
    scene.entry_count = JOBS;
    write_table(2, 1);
    examine();
    assert_true(the_finding("run/00000002.run", "finds 1 of its jobs")->has_slot);
    repair();
    expect_clean();
}

CLAIM_BETWEEN(a_key_under_another_hash_is_found, make_scene, remove_scene)
{
    remove_file("00000002.keys");
    scene.entry_count = JOBS;
    scene.entries[4].hash ^= 1;
    write_table(2, 0);
    examine();
    the_finding("run/00000002.run", "under another key");
    repair();
    expect_clean();
}

CLAIM_BETWEEN(wrong_counts_are_corrected, make_scene, remove_scene)
{
    scene.catalog.topics[1].stored[SECTION_DELAYED]++;
    scene.catalog.generation++;
    write_catalog();
    examine();
    assert_string_equal(scene.report.finding[0].file, "run/CATALOG-00000006");
    assert_non_null(
        strstr(scene.report.finding[0].text, "topic 'orders' should have 20 delayed jobs in runs"));
    repair();
    expect_clean();
}

CLAIM_BETWEEN(a_damaged_catalog_without_another_is_left_to_a_backup, make_scene, remove_scene)
{
    flip("CATALOG-00000005", 50);
    examine();
    assert_true(scene.report.finding_count >= 1);
    assert_int_equal(scene.report.finding[0].cure, FSCK_RESTORE);
    repair();
    assert_int_equal(scene.report.mended, 0);
    assert_true(is_there("CATALOG-00000005"));
    save(); /* no record refers to runs: a1 and new were in the log */
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 2);
}

CLAIM_BETWEEN(a_damaged_catalog_with_a_whole_one_before_it_is_overcome, make_scene, remove_scene)
{
    char from[256], into[256], command[600];

    path_of("CATALOG-00000005", from);
    path_of("keep", into);
    snprintf(command, sizeof command, "cp '%s' '%s'", from, into);
    assert_int_equal(system(command), 0);
    scene.catalog.generation++;
    write_catalog();
    assert_int_equal(rename(into, from), 0);
    flip("CATALOG-00000006", 50);
    examine();
    assert_int_equal(scene.report.finding_count, 1);
    assert_non_null(strstr(scene.report.finding[0].text, "newer than generation 5"));
    repair();
    assert_int_equal(scene.report.mended, 1);
    expect_clean();
    assert_int_equal(scene.report.shard[0].generation, 7);
}

/* Notes in the log that there are runs, like a checkpoint that gave files of the log back. */
static void write_that_there_are_runs(void)
{
    struct wal_disk disk = {.fs = &fs_posix};
    struct wal_manifest manifest;
    int fd;

    snprintf(disk.dir, sizeof disk.dir, "%s/shard-00/wal", scene.dir);
    assert_int_equal(wal_manifest_open(&disk, O_RDWR, &fd, &manifest, NULL), 0);
    manifest.has_runs = true;
    assert_int_equal(wal_manifest_write(&disk, fd, &manifest), 0);
    close(fd);
}

CLAIM_BETWEEN(a_missing_catalog_is_found_even_without_runs, make_scene, remove_scene)
{
    write_that_there_are_runs();
    expect_clean();
    remove_file("CATALOG-00000005");
    remove_file("00000001.run");
    remove_file("00000002.run");
    examine();
    assert_int_equal(scene.report.finding_count, 1);
    assert_non_null(strstr(scene.report.finding[0].text, "catalog is missing"));
    assert_int_equal(scene.report.finding[0].cure, FSCK_RESTORE);
    repair();
    assert_int_equal(scene.report.mended, 0);
    assert_true(is_there("00000001.keys"));
}

CLAIM_BETWEEN(a_missing_catalog_invents_nothing_of_its_runs, make_scene, remove_scene)
{
    write_that_there_are_runs();
    remove_file("CATALOG-00000005");
    repair();
    assert_int_equal(scene.report.finding_count, 1);
    assert_non_null(strstr(scene.report.finding[0].text, "no catalog"));
    assert_int_equal(scene.report.mended, 0);
    assert_true(is_there("00000001.run"));
}

CLAIM_BETWEEN(a_log_that_is_gone_from_beside_its_runs_is_found, make_scene, remove_scene)
{
    char command[300];

    snprintf(command, sizeof command, "rm -r '%s/shard-00/wal'", scene.dir);
    assert_int_equal(system(command), 0);
    examine();
    assert_int_equal(scene.report.finding_count, 1);
    assert_non_null(strstr(scene.report.finding[0].text, "MANIFEST' is missing"));
}

CLAIM_BETWEEN(files_that_nothing_names_are_notes_and_go, make_scene, remove_scene)
{
    char path[256];

    write_table(9, 0);
    path_of("00000004.run", path); /* a number the log may name: it stays */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    expect_clean();
    assert_int_equal(scene.report.note_count, 1);
    assert_non_null(strstr(scene.report.note[0].text, "run/00000009.keys"));
    repair();
    assert_false(is_there("00000009.keys"));
    assert_true(is_there("00000004.run"));
    expect_clean();
    assert_int_equal(scene.report.note_count, 0);
}

CLAIM_BETWEEN(totals_include_log_and_runs, make_scene, remove_scene)
{
    write_log((void (*)(void))some_life); /* it all once more: nothing of it changes anything */
    examine();
    assert_true(scene.report.finding_count >= 1);
}

static void wrong_totals(void)
{
    set_totals(2 * JOBS + 3, 2);
}

CLAIM_BETWEEN(totals_that_do_not_add_up_are_found, make_scene, remove_scene)
{
    write_log(wrong_totals);
    examine();
    assert_int_equal(scene.report.finding_count, 1);
    assert_non_null(strstr(scene.report.finding[0].text, "23 pushed, 2 acked"));
}

static void strangers(void)
{
    set_state("nobody", JOB_LEASED, slot(1, 3));
}

CLAIM_BETWEEN(a_state_of_a_job_that_is_nowhere_is_found, make_scene, remove_scene)
{
    write_log(strangers);
    examine();
    assert_int_equal(scene.report.finding_count, 1);
    assert_non_null(strstr(scene.report.finding[0].text, "nowhere"));
}

/* A crash came between them and the catalog that would have had them. */
static void of_runs_that_never_counted(void)
{
    set_state("b5", JOB_LEASED, slot(7, 2));
    finish("b6", slot(7, 3));
}

CLAIM_BETWEEN(records_of_an_uncommitted_run_are_found_by_key, make_scene, remove_scene)
{
    write_log(of_runs_that_never_counted);
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 17);
    assert_int_equal(scene.report.shard[0].leased, 2);
}

CLAIM_BETWEEN(looking_changes_no_byte, make_scene, remove_scene)
{
    char command[300];

    flip("00000002.keys", 40);
    flip("00000001.run", 4096 + 30);
    snprintf(command, sizeof command, "cd '%s' && find . -type f | xargs cksum > ../before",
             scene.dir);
    assert_int_equal(system(command), 0);
    examine();
    assert_true(scene.report.finding_count >= 2);
    snprintf(command, sizeof command, "cd '%s' && find . -type f | xargs cksum | cmp - ../before",
             scene.dir);
    assert_int_equal(system(command), 0);
}

CLAIMS_MAIN(NULL, NULL)
