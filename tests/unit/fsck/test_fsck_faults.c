/* Every call to the disk and every allocation fails once while fsck examines and repairs, in a short
 * run every third: fsck never calls damage clean, and the next repair completes an interrupted one. */
#include "fsck_rig_run.h"
#include "unit/claim.h"
#include "unit/fault_calls.h"
#include "unit/repetitions.h"

/* ---- claims ---- */

enum { CALLS_MAX = 4000 };

/* Returns the distance between two failing calls. */
static int64_t stride_of_calls(int64_t stride)
{
    return stride * (int64_t)repetitions(1, 3);
}

/* Checks with one failing call; returns true if the check ended before that call. */
static bool look_with_fault(int64_t call, int *result)
{
    failed = 0;
    calls_left = call;
    *result = fsck_run(scene.dir, &scene.report);
    calls_left = -1;
    if (*result < 0)
        assert_true(*scene.report.error != '\0');
    return failed == 0;
}

CLAIM_BETWEEN(damage_is_never_clean_despite_disk_errors, make_scene, remove_scene)
{
    bool is_through = false;
    int result;

    flip("00000002.run", scene.second_at + 30);
    for (int64_t call = 0; !is_through && call < CALLS_MAX; call += stride_of_calls(1)) {
        is_through = look_with_fault(call, &result);
        if (result == 0 && scene.report.finding_count == 0)
            fail_msg("clean, though call %ld failed", (long)call);
    }
    assert_true(is_through);
}

CLAIM_BETWEEN(examining_with_a_failing_disk_changes_nothing, make_scene, remove_scene)
{
    bool is_through = false;
    int result;

    for (int64_t call = 0; !is_through && call < CALLS_MAX; call += stride_of_calls(1))
        is_through = look_with_fault(call, &result);
    assert_true(is_through);
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 18);
}

/* Repairs, each time from the same damage. Whether the repair fails or not, the next one ends it. */
static void mend_with_faults(void (*damage)(void), int64_t stride)
{
    bool is_through = false;

    for (int64_t call = 0; !is_through && call < CALLS_MAX; call += stride_of_calls(stride)) {
        const struct fsck_options options = {.repair = true};
        int result;

        assert_int_equal(make_scene(NULL), 0);
        damage();
        failed = 0;
        calls_left = call;
        result = fsck_run_with(scene.dir, &options, &scene.report);
        calls_left = -1;
        is_through = failed == 0;
        assert_true(result == 0 || *scene.report.error);
        repair();
        expect_clean();
        assert_int_equal(scene.report.shard[0].cold, 18);
        remove_scene(NULL);
    }
    assert_true(is_through);
}

static void lose_a_table(void)
{
    remove_file("00000002.keys");
}

static void break_a_record(void)
{
    flip("00000002.run", scene.second_at + 30);
}

CLAIM(the_next_repair_completes_an_interrupted_repair)
{
    mend_with_faults(lose_a_table, 9);
}

/* However far it came: the old directory is unchanged, a half-made new one is not accepted, and
 * the next attempt saves all. */
CLAIM(an_interrupted_salvage_leaves_no_incomplete_directory)
{
    bool is_through = false;

    for (int64_t call = 0; !is_through && call < CALLS_MAX; call += stride_of_calls(9)) {
        char into[96];
        const struct fsck_options options = {.salvage = into};
        int result;

        assert_int_equal(make_scene(NULL), 0);
        break_a_record();
        snprintf(into, sizeof into, "%s/half", scene.root);
        failed = 0;
        calls_left = call;
        result = fsck_run_with(scene.dir, &options, &scene.report);
        calls_left = -1;
        is_through = failed == 0;
        assert_true(result == 0 || *scene.report.error);
        fsck_report_fini(&scene.report);
        if (result < 0) {
            struct fsck_report half;

            if (fsck_run(into, &half) == 0) /* but for its last sync */
                assert_int_equal(half.finding_count, 0);
        }
        save();
        expect_clean();
        assert_int_equal(scene.report.shard[0].cold, 19);
        remove_scene(NULL);
    }
    assert_true(is_through);
}

/* ---- the first of what is looked at ---- */

static void a_state_first(void)
{
    set_state("a0", JOB_LEASED, slot(1, 0));
}

static void a_job_first(void)
{
    push_to("orders", "new", RECORD_PUSHED);
}

static void an_end_first(void)
{
    finish("a0", slot(1, 0));
}

static void a_topic_first(void)
{
    notify_topic("others", &(struct topic_totals){0});
}

/* Writes one batch that is larger than a single read of a file. */
static void a_large_batch(void)
{
    static char body[900000];
    struct record record = job_record("orders", "large", JOB_DELAYED, 9, 3000);
    const struct wal_options options = {.fs = &fs_posix,
                                        .dir = scene.run_dir,
                                        .file_bytes = 4 << 20,
                                        .batch_bytes_max = 3 << 20,
                                        .sync = WAL_SYNC_ALWAYS,
                                        .identity = scene.catalog.identity,
                                        .inner_ms = now_ms,
                                        .wall_ms = now_ms};
    char error[600], *end = strrchr(scene.run_dir, '/');

    wal_close(scene.wal);
    forget_log();
    *end = '\0';
    assert_int_equal(wal_open(&options, NULL, NULL, &scene.wal, NULL, error, sizeof error), 0);
    *end = '/';
    memset(body, 'b', sizeof body);
    record.job.body = slice_make(body, sizeof body);
    for (int i = 0; i < 3; i++)
        append(&record);
}

/* Expects the same findings, or an error, with each failing call. */
static void look_with_all_faults(void)
{
    bool is_through = false;
    uint64_t findings;
    int result;

    examine();
    findings = scene.report.finding_count;
    for (int64_t call = 0; !is_through && call < CALLS_MAX; call += stride_of_calls(1)) {
        is_through = look_with_fault(call, &result);
        if (result == 0)
            assert_int_equal(scene.report.finding_count, findings);
        else
            assert_true(result == -ENOMEM || result == -EIO);
    }
    assert_true(is_through);
}

/* Whichever damage it meets first, without memory it reports only the missing memory. */
CLAIM(missing_memory_is_the_only_finding)
{
    static void (*const fills[])(void) = {a_state_first, a_job_first, an_end_first, a_topic_first,
                                          a_large_batch};

    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        assert_int_equal(make_scene(NULL), 0);
        forget_log();
        write_log(fills[i]);
        look_with_all_faults();
        remove_scene(NULL);
    }
}

/* More than fsck has room for at first; then more than the catalog knows. */
CLAIM_BETWEEN(reports_only_the_lack_of_memory_with_many_topics_in_runs, make_scene, remove_scene)
{
    enum { TOPICS = 180, KNOWN = 64 }; /* also more findings than are kept */
    struct catalog *catalog = &scene.catalog;
    char topic[16];

    begin_run(3);
    for (uint32_t i = 0; i < TOPICS; i++) {
        snprintf(topic, sizeof topic, "t%u", i);
        const struct record record = job_record(topic, "j", JOB_DELAYED, 100000, 1 + i);

        add_to_run(topic, &record);
    }
    end_run();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 18 + TOPICS);
    look_with_all_faults();
    while (catalog->topic_count > KNOWN)
        free((char *)catalog->topics[--catalog->topic_count].name.at);
    renew_catalog();
    look_with_all_faults();
    assert_int_equal(scene.report.finding_count, 2 + TOPICS - KNOWN);
    repair();
    expect_all_mended();
}

CLAIMS_MAIN(NULL, NULL)
