/* Loading continues through all concurrent changes: runs that come and go, jobs that come by their
 * key or are evicted, steps of the wall clock, damage, the end. */
#include "preload_rig_runs.h"
#include "store/run_private.h"
#include "unit/claim.h"

/* GRAIN_MS: skipped jobs may count as ready this late. */
enum { HORIZON_MS = 10000, GRAIN_MS = 20, QUOTA = 5000 };

/* ---- runs come and go ---- */

static void settle_between(struct rig *rig)
{
    rig_settle(rig);
}

/* Makes runs mostly dead, so that the next checkpoint rewrites them. */
CLAIM(skipped_jobs_are_retried_in_the_replacing_run)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, 500);
    rig.slack_bytes = 1;
    for (unsigned i = 0; i < 20000; i++)
        rig_push_in(&rig, "stalled", i, 1000 + i / 10);
    for (unsigned i = 0; i < 20000; i++)
        rig_push_in(&rig, "later", i, 30000 + i / 10);
    rig_restart(&rig);
    rig_pass(&rig, 4000);
    rig_assert_counts(&rig, "stalled", 0, 20000);
    uint64_t left = 20000;
    for (size_t got; left > 6000 && (got = rig_take(&rig, "stalled", 500, NULL)); left -= got)
        rig_settle(&rig);
    uint32_t before = depot_view(rig.shard.depot)->runs[0]->number;
    rig_push_in(&rig, "other", 1, 100000);
    rig_checkpoint(&rig, settle_between);
    assert_null(depot_view_run(depot_view(rig.shard.depot), before));
    rig_settle(&rig);
    rig_pass(&rig, GRAIN_MS);
    rig_assert_counts(&rig, "stalled", 0, left);
    rig_assert_counts(&rig, "later", 20000, 0);
    for (size_t got; (got = rig_take(&rig, "stalled", 250, NULL));) {
        left -= got;
        rig_settle(&rig);
        rig_assert_counts(&rig, "stalled", 0, left);
    }
    assert_int_equal(left, 0);
    rig_pass(&rig, 40000);
    rig_assert_counts(&rig, "later", 0, 20000);
    for (left = 20000; left;) {
        size_t got = rig_take(&rig, "later", 400, NULL);
        assert_true(got > 0);
        left -= got;
        rig_settle(&rig);
    }
    rig_close(&rig);
}

/* Pushed and ready, so all in memory; then written to a run, and most of them evicted. */
CLAIM(evicted_ready_jobs_return)
{
    struct rig rig;
    enum { JOBS = 60000 };
    rig_open(&rig, HORIZON_MS, 500);
    for (unsigned i = 0; i < JOBS; i++)
        rig_push_in(&rig, "stalled", i, 0);
    for (unsigned i = 0; i < 5000; i++)
        rig_push_in(&rig, "stalled", JOBS + i, 50000);
    rig_advance_engine(&rig);
    rig_assert_counts(&rig, "stalled", 5000, JOBS);
    rig_checkpoint(&rig, settle_between);
    rig_settle(&rig);
    rig_evict(&rig);
    assert_true(engine_entries(rig.shard.engine) < 20000);
    rig_settle(&rig);
    rig_pass(&rig, 2000);
    rig_assert_counts(&rig, "stalled", 5000, JOBS);
    uint64_t left = JOBS;
    for (size_t got; (got = rig_take(&rig, "stalled", 250, NULL));) {
        left -= got;
        rig_settle(&rig);
        rig_pass(&rig, 5);
        rig_assert_counts(&rig, "stalled", 5000, left);
    }
    assert_int_equal(left, 0);
    rig_close(&rig);
}

CLAIM(a_job_that_came_by_its_key_is_counted_once)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, 500);
    for (unsigned i = 0; i < 20000; i++)
        rig_push_in(&rig, "stalled", i, 1000);
    for (unsigned i = 0; i < 5000; i++)
        rig_push_in(&rig, "stalled", 20000 + i, 50000);
    rig_restart(&rig);
    rig_pass(&rig, 2000);
    rig_assert_counts(&rig, "stalled", 5000, 20000);
    uint64_t ready = 20000;
    for (unsigned i = 10000; i < 10100; i++) {
        rig_find(&rig, "stalled", i);
        rig_settle(&rig);
        rig_assert_counts(&rig, "stalled", 5000, ready);
        if (i % 2) {
            rig_cancel(&rig, "stalled", i);
            ready--;
        }
        rig_settle(&rig);
        rig_assert_counts(&rig, "stalled", 5000, ready);
    }
    for (size_t got; (got = rig_take(&rig, "stalled", 250, NULL));) {
        ready -= got;
        rig_settle(&rig);
        rig_assert_counts(&rig, "stalled", 5000, ready);
    }
    assert_int_equal(ready, 0);
    rig_close(&rig);
}

/* ---- the wall clock ---- */

CLAIM(jobs_due_by_the_wall_clock_follow_its_steps)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < 100; i++)
        rig_push(&rig, "orders", i,
                 (struct queue_when){QUEUE_DUE_AT, clock_wall_ms() + 1000 * (i + 1)});
    rig_restart(&rig);
    rig_settle(&rig);
    assert_int_equal(engine_entries(rig.shard.engine), 10);
    clock_fake_step_wall(-3600 * 1000);
    rig_settle(&rig);
    int64_t keep_ms = preload_keep_until_ms(rig.shard.preload, rig_now(&rig));
    assert_true(keep_ms > clock_inner_ms() + 3600 * 1000 + 10000); /* those passed must stay */
    rig_evict(&rig);
    assert_int_equal(engine_entries(rig.shard.engine), 10);
    assert_true(preload_next_ms(rig.shard.preload) >= clock_inner_ms() + 3600 * 1000);
    clock_fake_step_wall(3600 * 1000 + 50000);
    rig_settle(&rig);
    assert_int_equal(engine_entries(rig.shard.engine), 60);
    rig_assert_counts(&rig, "orders", 50, 50);
    clock_fake_step_wall(-20000);
    rig_pass(&rig, 30000);
    clock_fake_step_wall(20000);
    rig_pass(&rig, 21000);
    rig_assert_counts(&rig, "orders", 0, 100);
    rig_close(&rig);
}

CLAIM(skipped_jobs_follow_the_wall_clock)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, 500);
    for (unsigned i = 0; i < 10000; i++)
        rig_push(&rig, "orders", i, (struct queue_when){QUEUE_DUE_AT, clock_wall_ms() + 1 + i});
    rig_restart(&rig);
    rig_settle(&rig);
    assert_int_equal(rig_counts(&rig, "orders").ready, 0);
    clock_fake_step_wall(5000);
    rig_settle(&rig);
    rig_pass(&rig, GRAIN_MS);
    uint64_t ready = rig_counts(&rig, "orders").ready;
    assert_true(ready >= 5000 && ready <= 5000 + GRAIN_MS);
    clock_fake_step_wall(5000);
    rig_pass(&rig, GRAIN_MS);
    rig_assert_counts(&rig, "orders", 0, 10000);
    unsigned left = 10000;
    for (size_t got; (got = rig_take(&rig, "orders", 250, NULL)); left -= (unsigned)got)
        rig_settle(&rig);
    assert_int_equal(left, 0);
    rig_close(&rig);
}

/* ---- what cannot be read ---- */

CLAIM(unreadable_jobs_are_skipped)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, 500);
    for (unsigned i = 0; i < 10000; i++)
        rig_push_in(&rig, "orders", i, 1000 + i / 100);
    rig_restart(&rig);
    for (uint32_t slot = 7; slot < 10000; slot += 1000)
        rig_damage(&rig, slot);
    rig_pass(&rig, 2000);
    unsigned left = 10000;
    for (size_t got; (got = rig_take(&rig, "orders", 250, NULL)); left -= (unsigned)got)
        rig_settle(&rig);
    assert_int_equal(left, 10);
    assert_int_equal(preload_unreadable(rig.shard.preload), 10);
    assert_int_equal(preload_next_ms(rig.shard.preload), INT64_MAX);
    rig_close(&rig);
}

CLAIM(a_damaged_directory_takes_no_more_along_than_its_block)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, 500);
    for (unsigned i = 0; i < 10000; i++)
        rig_push_in(&rig, "orders", i, 1000 + i / 100);
    rig_restart(&rig);
    const struct run *run = depot_view(rig.shard.depot)->runs[0]->run;
    rig_flip(&rig, run->footer.directory_at + 3 * RUN_BLOCK_BYTES + 100);  /* by time */
    rig_flip(&rig, run->footer.directory_at + 40 * RUN_BLOCK_BYTES + 100); /* skipped */
    rig_pass(&rig, 2000);
    unsigned left = 10000;
    for (size_t got; (got = rig_take(&rig, "orders", 250, NULL)); left -= (unsigned)got)
        rig_settle(&rig);
    assert_int_equal(left, 2 * RUN_BLOCK_SLOTS);
    assert_int_equal(preload_unreadable(rig.shard.preload), 2 * RUN_BLOCK_SLOTS);
    assert_int_equal(preload_next_ms(rig.shard.preload), INT64_MAX);
    rig_close(&rig);
}

/* ---- bodies, and the end ---- */

CLAIM(bodies_just_loaded_are_in_memory)
{
    struct rig rig;
    struct slice bytes;
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < 1000; i++)
        rig_push_in(&rig, "orders", i, 1000 + i);
    for (unsigned i = 1000; i < 2000; i++)
        rig_push_in(&rig, "orders", i, 100000);
    rig_restart(&rig);
    rig_settle(&rig);
    const struct depot_run *run = depot_view(rig.shard.depot)->runs[0];
    for (uint32_t slot = 0; slot < 2000; slot++) {
        struct run_slot entry;
        struct buffer scratch;
        struct slice read;
        assert_int_equal(run_slots(run->run, slot, 1, true, &entry), 0);
        struct record_place place = {
            .file = RECORD_IN_RUN | run->number, .at = slot, .bytes = entry.bytes};
        assert_int_equal(preload_recent(rig.shard.preload, place, &bytes), slot < 1000);
        if (slot >= 1000)
            continue;
        buffer_init(&scratch, 1 << 20);
        assert_int_equal(depot_read(depot_view(rig.shard.depot), place, true, &scratch, &read), 0);
        assert_true(slice_equals(read, bytes));
        buffer_fini(&scratch);
        place.bytes++;
        assert_false(preload_recent(rig.shard.preload, place, &bytes));
        place.bytes--;
        place.file++;
        assert_false(preload_recent(rig.shard.preload, place, &bytes));
    }
    rig_close(&rig);
}

CLAIM(begins_nothing_while_stopping)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < 20000; i++)
        rig_push_in(&rig, "orders", i, 1000);
    rig_restart(&rig);
    preload_step(rig.shard.preload, rig_now(&rig));
    assert_true(preload_is_busy(rig.shard.preload));
    rig.shard.stopping = true;
    rig_settle(&rig);
    assert_false(preload_is_busy(rig.shard.preload));
    assert_int_equal(engine_entries(rig.shard.engine), 0);
    assert_int_equal(preload_next_ms(rig.shard.preload), INT64_MAX);
    rig_close(&rig);
}

CLAIMS_MAIN(NULL, NULL)
