/* The findings of fsck, as text and as JSON: every kind, once and in full. */
#include "fsck/fsck.h"
#include "unit/claim.h"

#include <jansson.h>

#include <stdlib.h>
#include <string.h>

static struct fsck_report report;
static struct buffer out;

static int begin(void **state)
{
    (void)state;
    memset(&report, 0, sizeof report);
    buffer_init(&out, 1 << 20);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    buffer_fini(&out);
    return 0;
}

static const char *text(void)
{
    buffer_clear(&out);
    fsck_emit_text(&out, &report);
    buffer_append_byte(&out, '\0');
    assert_false(out.failed);
    return out.at;
}

static json_t *json(void)
{
    buffer_clear(&out);
    fsck_emit_json(&out, &report);
    assert_false(out.failed);
    json_t *parsed = json_loadb(out.at, out.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(parsed);
    return parsed;
}

static struct fsck_finding *add(enum fsck_cure cure, const char *file, const char *what)
{
    struct fsck_finding *finding = &report.finding[report.finding_count++];

    finding->cure = cure;
    strcpy(finding->file, file);
    strcpy(finding->text, what);
    return finding;
}

CLAIM_BETWEEN(a_sound_directory_is_clean, begin, finish)
{
    report.shards = 2;
    report.shard[1] = (struct fsck_shard){.first_file = 3,
                                          .files = 4,
                                          .batches = 5,
                                          .records = 6,
                                          .bytes = 7,
                                          .topics = 8,
                                          .delayed = 9,
                                          .leased = 10,
                                          .dead = 11,
                                          .generation = 12,
                                          .runs = 13,
                                          .tables = 14,
                                          .cold = 15,
                                          .remembered = 16};
    assert_string_equal(
        text(), "shard 00: no log yet\n"
                "shard 01: 4 log files from 3, 5 batches, 6 records, 7 bytes\n"
                "shard 01: 8 topics; jobs: 9 delayed or ready, 10 leased, 11 dead\n"
                "shard 01: catalog 12, 13 runs, 14 tables of keys; in runs: 15 jobs, 16 remembered "
                "ids\n"
                "clean\n");
    json_t *parsed = json();
    const json_t *shard = json_array_get(json_object_get(parsed, "shards"), 1);
    assert_true(json_is_true(json_object_get(parsed, "clean")));
    assert_null(json_object_get(parsed, "error"));
    assert_int_equal(json_array_size(json_object_get(parsed, "findings")), 0);
    assert_int_equal(json_integer_value(json_object_get(shard, "shard")), 1);
    assert_int_equal(json_integer_value(json_object_get(shard, "dead")), 11);
    assert_int_equal(json_integer_value(json_object_get(shard, "remembered")), 16);
    json_decref(parsed);
}

CLAIM_BETWEEN(a_single_finding_is_printed_in_the_singular, begin, finish)
{
    report.shards = 1;
    report.shard[0] = (struct fsck_shard){.first_file = 1,
                                          .files = 1,
                                          .batches = 1,
                                          .records = 1,
                                          .bytes = 1,
                                          .topics = 1,
                                          .generation = 1,
                                          .runs = 1,
                                          .tables = 1,
                                          .cold = 1,
                                          .remembered = 1};
    assert_string_equal(text(), "shard 00: 1 log file from 1, 1 batch, 1 record, 1 byte\n"
                                "shard 00: 1 topic; jobs: 0 delayed or ready, 0 leased, 0 dead\n"
                                "shard 00: catalog 1, 1 run, 1 table of keys; in runs: 1 job, 1 "
                                "remembered id\n"
                                "clean\n");
}

CLAIM_BETWEEN(traces_of_a_crash_are_notes, begin, finish)
{
    report.shards = 1;
    report.shard[0] = (struct fsck_shard){.files = 1, .torn_bytes = 300, .manifest_copies_bad = 1};
    report.note[0].shard = 0;
    strcpy(report.note[0].text, "run/00000009.run is named by nothing");
    report.note_count = 1;
    const char *output = text();
    assert_non_null(strstr(output, "shard 00: 300 bytes of a half-written tail"));
    assert_non_null(strstr(output, "one of the two copies of the log's MANIFEST is half-written"));
    assert_non_null(strstr(output, "shard 00: run/00000009.run is named by nothing\nclean\n"));
    json_t *parsed = json();
    const json_t *note = json_array_get(json_object_get(parsed, "notes"), 0);
    assert_true(json_is_true(json_object_get(parsed, "clean")));
    assert_string_equal(json_string_value(json_object_get(note, "text")),
                        "run/00000009.run is named by nothing");
    json_decref(parsed);
}

CLAIM_BETWEEN(each_finding_has_a_place_and_a_remedy, begin, finish)
{
    static const char *const cures[] = {"restore", "repair", "salvage", "repair"};

    add(FSCK_RESTORE, "wal/00000001.log", "a \"batch\" is damaged")->at = 4096;
    add(FSCK_REPAIR, "run/00000002.keys", "is missing")->shard = 1;
    struct fsck_finding *slot = add(FSCK_SALVAGE, "run/00000003.run", "cannot be read");
    slot->has_slot = true;
    slot->slot = 17;
    add(FSCK_REPAIR, "", "counts are wrong")->is_mended = true;
    report.mended = 1;
    assert_string_equal(
        text(),
        "shard 00, wal/00000001.log, byte 4096: a \"batch\" is damaged; restore a backup, or save "
        "what can be read with 'tarry fsck --salvage'\n"
        "shard 01, run/00000002.keys: is missing; 'tarry fsck --repair' repairs it\n"
        "shard 00, run/00000003.run, slot 17: cannot be read; restore a backup, or save the "
        "rest with 'tarry fsck --salvage'\n"
        "shard 00: counts are wrong; repaired\n"
        "4 findings, 1 repaired\n");
    json_t *parsed = json();
    const json_t *findings = json_object_get(parsed, "findings");
    assert_true(json_is_false(json_object_get(parsed, "clean")));
    assert_int_equal(json_integer_value(json_object_get(parsed, "mended")), 1);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(findings, i), "cure")),
                            cures[i]);
    assert_string_equal(json_string_value(json_object_get(json_array_get(findings, 0), "text")),
                        "a \"batch\" is damaged");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(findings, 2), "slot")), 17);
    assert_null(json_object_get(json_array_get(findings, 1), "slot"));
    assert_null(json_object_get(json_array_get(findings, 3), "file"));
    assert_true(json_is_true(json_object_get(json_array_get(findings, 3), "mended")));
    json_decref(parsed);
}

CLAIM_BETWEEN(findings_beyond_the_limit_are_counted, begin, finish)
{
    add(FSCK_RESTORE, "", "bad");
    assert_non_null(strstr(text(), "\n1 finding\n"));
    report.finding_count = 0;
    for (int i = 0; i < FSCK_FINDINGS_MAX; i++)
        add(FSCK_RESTORE, "", "bad");
    report.finding_count = 5000;
    report.note_count = 5000;
    assert_non_null(strstr(text(), "5000 findings\n"));
    json_t *parsed = json();
    assert_int_equal(json_integer_value(json_object_get(parsed, "finding_count")), 5000);
    assert_int_equal(json_array_size(json_object_get(parsed, "findings")), FSCK_FINDINGS_MAX);
    assert_int_equal(json_array_size(json_object_get(parsed, "notes")), FSCK_NOTES_MAX);
    json_decref(parsed);
}

CLAIM_BETWEEN(a_report_without_memory_is_reported_as_missing, begin, finish)
{
    struct buffer none;

    report.shards = 1;
    add(FSCK_RESTORE, "wal/00000001.log", "bad");
    buffer_init(&none, 0);
    fsck_emit_json(&none, &report);
    fsck_emit_text(&none, &report);
    assert_true(none.failed);
    assert_int_equal(none.len, 0);
    buffer_fini(&none);
}

CLAIM_BETWEEN(an_unexamined_directory_is_not_clean, begin, finish)
{
    strcpy(report.error, "cannot open '/x': in use");
    assert_string_equal(text(), "cannot open '/x': in use\n");
    json_t *parsed = json();
    assert_true(json_is_false(json_object_get(parsed, "clean")));
    assert_string_equal(json_string_value(json_object_get(parsed, "error")),
                        "cannot open '/x': in use");
    json_decref(parsed);
}

CLAIMS_MAIN(NULL, NULL)
