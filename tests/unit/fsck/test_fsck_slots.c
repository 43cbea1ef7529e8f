/* Findings in a run whose slots differ from the catalog, and in unused bytes
 * of one. */
#include "fsck_rig.h"
#include "unit/claim.h"

/* ---- unused bytes ---- */

CLAIM_BETWEEN(a_damaged_unused_byte_is_a_note, make_scene, remove_scene)
{
    flip("00000001.run", 100);   /* the header's rest */
    flip("00000001.run", 8191);  /* behind the last record */
    flip("00000002.run", -5000); /* behind the topics */
    expect_clean();
    assert_int_equal(scene.report.note_count, 3);
    assert_non_null(strstr(scene.report.note[0].text, "run/00000001.run, byte 100: "));
    assert_non_null(strstr(scene.report.note[1].text, "run/00000001.run, byte 8191: "));
    assert_non_null(strstr(scene.report.note[2].text, "run/00000002.run, byte "));
    assert_int_equal(scene.report.shard[0].cold, 18);
}

/* ---- a run that is not the catalog's ---- */

static void expect_note(const char *text)
{
    for (uint64_t i = 0; i < scene.report.note_count; i++)
        if (strcmp(scene.report.note[i].text, text) == 0)
            return;
    fail_msg("there is no note '%s'", text);
}

/* The bits of its ended jobs were in another run: no job can be kept, and all are counted. */
CLAIM_BETWEEN(a_run_of_another_length_is_lost_with_all_its_jobs_by_topic, make_scene, remove_scene)
{
    const struct fsck_finding *finding;

    write_run(1, 'c', false);
    examine();
    finding = &scene.report.finding[0]; /* also the log's totals do not add up */
    assert_string_equal(finding->file, "run/00000001.run");
    assert_string_equal(finding->text,
                        "it has 10 slots, and the catalog has 11; 10 jobs are in it");
    assert_int_equal(finding->cure, FSCK_SALVAGE);
    assert_int_equal(scene.report.note_count, 2);
    expect_note("in unreadable parts: topic 'mails', jobs: 1, remembered ids: 0");
    expect_note("in unreadable parts: topic 'orders', jobs: 9, remembered ids: 0");
    repair();
    assert_int_equal(scene.report.mended, 0);
    save();
    expect_note("in unreadable parts: topic 'orders', jobs: 9, remembered ids: 0");
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, JOBS + 2);
}

/* One damaged record is named by itself, and is not one of those. */
CLAIM_BETWEEN(individually_named_jobs_are_not_counted_again, make_scene, remove_scene)
{
    remove_file("00000001.run");
    flip("00000002.run", scene.second_at + 30);
    for (int accept = 0; accept < 2; accept++) {
        if (accept)
            save();
        else
            examine();
        assert_int_equal(scene.report.note_count, 2);
        expect_note("in unreadable parts: topic 'mails', jobs: 1, remembered ids: 0");
        expect_note("in unreadable parts: topic 'orders', jobs: 9, remembered ids: 0");
    }
}

CLAIM_BETWEEN(inconsistent_counts_give_no_estimate, make_scene, remove_scene)
{
    scene.catalog.generation++;
    scene.catalog.topics[1].stored[SECTION_DELAYED]++;
    write_catalog();
    write_run(1, 'c', false);
    examine();
    expect_note("the topics of the 10 unreadable jobs are unknown");
}

CLAIMS_MAIN(NULL, NULL)
