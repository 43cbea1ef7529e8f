/* Findings and repairs of a run whose directory takes more than one block. */
#include "fsck_rig_run.h"
#include "unit/claim.h"

/* Run 3: 200 delayed jobs and behind them 200 that are due sooner, by the wall clock: the border
 * is inside the second of three blocks. */
enum { HALF = 200, SLOTS = 2 * HALF, BLOCK = RUN_BLOCK_SLOTS, LATER_MS = 100000, SOONER_MS = 50 };

static int make_long(void **state)
{
    int result = make_scene(state);
    char id[16];

    begin_run(3);
    for (uint32_t i = 0; result == 0 && i < SLOTS; i++) {
        struct record record =
            job_record("long", id, JOB_DELAYED, i < HALF ? LATER_MS : SOONER_MS, 100 + i);

        snprintf(id, sizeof id, "%03u", i);
        record.job.id = slice_of(id);
        record.job.body = slice_of("b");
        record.job.due_is_wall = i >= HALF;
        add_to_run("long", &record);
    }
    end_run();
    return result;
}

static void flip_block(uint32_t block)
{
    flip(made.name, directory_at(block) + 100);
}

CLAIM_BETWEEN(a_long_run_is_clean, make_long, remove_scene)
{
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 18 + SLOTS);
}

/* The slots behind it are compared with those before it only where both are of one kind. */
CLAIM_BETWEEN(a_damaged_block_with_a_border_in_it_is_one_finding, make_long, remove_scene)
{
    const struct fsck_finding *found;

    flip_block(1);
    examine();
    found = the_finding("run/00000003.run",
                        "the directory is damaged from slot 170 to 339: the 170 pending jobs in it "
                        "are unknown");
    assert_int_equal(found->slot, BLOCK);
    assert_int_equal(found->cure, FSCK_SALVAGE);
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 20 + SLOTS - BLOCK);
}

CLAIM_BETWEEN(a_table_is_written_around_a_damaged_block, make_long, remove_scene)
{
    flip_block(0);
    flip_block(2);
    remove_file("00000003.keys");
    repair();
    assert_int_equal(scene.report.finding_count, 3);
    assert_int_equal(scene.report.mended, 1);
    assert_true(is_there("00000004.keys"));
    examine(); /* the two blocks are still there to be brought back */
    assert_int_equal(scene.report.finding_count, 2);
    flip_block(0);
    flip_block(2);
    examine();
    the_finding("run/00000003.run", "no table of keys finds 230 of its jobs");
    repair();
    expect_all_mended();
    assert_int_equal(scene.report.shard[0].cold, 18 + SLOTS);
}

CLAIM_BETWEEN(findings_that_are_not_kept_are_counted, make_long, remove_scene)
{
    enum { LOST = FSCK_FINDINGS_MAX + 20 };

    for (uint32_t i = 0; i < LOST; i++)
        flip(made.name, made.at[i] + 8);
    save();
    assert_int_equal(scene.report.finding_count, LOST);
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 20 + SLOTS - LOST);
}

CLAIM_BETWEEN(a_slot_that_comes_before_its_neighbour_is_found, make_long, remove_scene)
{
    replace_word(20, 0, LATER_MS - 1);
    examine();
    assert_int_equal(finding(0, "the slot is out of order")->slot, 20);
    replace_word(20, 0, LATER_MS);
    expect_clean();
    replace_word(20, 1, 100); /* its sequence */
    examine();
    assert_int_equal(finding(0, "the slot is out of order")->slot, 20);
}

/* Within a block that is a record of no bytes. */
CLAIM_BETWEEN(an_out_of_order_record_is_found, make_long, remove_scene)
{
    uint64_t word;

    read_run(directory_at(1) + 16, &word, sizeof word);
    replace_word(BLOCK, 2, word - (uint64_t)made.at[BLOCK] + 4096);
    examine();
    assert_int_equal(finding(0, "the slot is out of order")->slot, BLOCK);
    assert_int_equal(finding(1, "the record is damaged")->slot, BLOCK);
    assert_int_equal(scene.report.finding_count, 2);
}

/* Nothing of them is to be merged, but both must be in the table. */
CLAIM_BETWEEN(two_jobs_under_one_key_are_both_found_again, make_long, remove_scene)
{
    char bytes[1024];

    read_run(made.at[11], bytes, made.bytes[11]);
    for (uint32_t i = 0; i + 3 <= made.bytes[11]; i++)
        if (memcmp(bytes + i, "011", 3) == 0)
            memcpy(bytes + i, "010", 3);
    replace_record(11, bytes);
    remove_file("00000003.keys");
    repair();
    expect_all_mended();
    assert_int_equal(scene.report.shard[0].cold, 18 + SLOTS);
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;

    assert_true(done > *last || total == 0);
    assert_int_equal(total, SLOTS_1 + JOBS + SLOTS);
    *last = done;
}

CLAIM_BETWEEN(progress_rises, make_long, remove_scene)
{
    uint64_t last = 0;
    const struct fsck_options options = {.progress = on_progress, .ctx = &last};

    assert_int_equal(fsck_run_with(scene.dir, &options, &scene.report), 0);
    assert_true(last > 0);
}

CLAIMS_MAIN(NULL, NULL)
