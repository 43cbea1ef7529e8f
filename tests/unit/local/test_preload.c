/* Cold jobs come to memory just ahead of their time, in order, each once, and no more of a topic
 * than its quota. */
#include "preload_rig_runs.h"
#include "unit/claim.h"
#include "unit/seed.h"

/* GRAIN_MS: skipped jobs may count as ready this late. */
enum { HORIZON_MS = 10000, GRAIN_MS = 20, QUOTA = 5000, SLICES = 3 * 4096 };

CLAIM(loads_jobs_due_within_the_horizon)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < 100; i++)
        rig_push_in(&rig, "orders", i, 1000 * (i + 1));
    rig_restart(&rig);
    assert_int_equal(engine_entries(rig.shard.engine), 0);
    rig_settle(&rig);
    assert_int_equal(engine_entries(rig.shard.engine), 10);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(rig_knows(&rig, "orders", i), i < 10);
    rig_assert_counts(&rig, "orders", 100, 0);
    /* Nothing is to be done before the next is three quarters of the horizon away. */
    assert_int_equal(preload_next_ms(rig.shard.preload), clock_inner_ms() + 11000 - 7500);
    rig_pass(&rig, 50000);
    rig_assert_counts(&rig, "orders", 50, 50);
    assert_true(rig_knows(&rig, "orders", 56));
    assert_false(rig_knows(&rig, "orders", 60));
    rig_pass(&rig, 50000);
    rig_assert_counts(&rig, "orders", 0, 100);
    assert_int_equal(preload_next_ms(rig.shard.preload), INT64_MAX);
    rig_close(&rig);
}

CLAIM(loads_in_the_order_of_due)
{
    struct rig rig;
    unsigned ids[300];
    struct random random = seed_random("loads_in_the_order_of_due");
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned round = 0; round < 3; round++) { /* three runs, interleaved */
        for (unsigned i = round; i < 300; i += 3)
            rig_push_in(&rig, "orders", i, 20000 + 100 * i + (int64_t)random_below(&random, 90));
        rig_checkpoint(&rig, NULL);
    }
    rig_restart(&rig);
    rig_pass(&rig, 100000);
    for (unsigned i = 0; i < 300; i += 50)
        assert_int_equal(rig_take(&rig, "orders", 50, ids + i), 50);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(ids[i], i);
    rig_settle(&rig);
    rig_assert_counts(&rig, "orders", 0, 0);
    rig_close(&rig);
}

CLAIM(leased_jobs_are_loaded_before_serving)
{
    struct rig rig;
    struct engine_view views[20];
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < 50; i++)
        rig_push_in(&rig, "orders", i, 0);
    rig_advance_engine(&rig);
    assert_int_equal(engine_take(rig.shard.engine, slice_of("orders"), 20, SIZE_MAX, 60000,
                                 (struct slice){0}, rig_now(&rig), views),
                     20);
    rig_restart(&rig);
    assert_int_equal(engine_entries(rig.shard.engine), 20);
    assert_int_equal(rig_counts(&rig, "orders").leased, 20);
    rig_settle(&rig);
    rig_assert_counts(&rig, "orders", 0, 30);
    rig_pass(&rig, 60001); /* their leases end */
    assert_int_equal(rig_counts(&rig, "orders").leased, 0);
    for (int i = 0; i < 20; i++)
        engine_view_fini(&views[i]);
    rig_close(&rig);
}

/* ---- the quota ---- */

CLAIM(a_stalled_topic_stays_on_the_disk_and_is_shown_as_ready)
{
    struct rig rig;
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < 40000; i++)
        rig_push_in(&rig, "stalled", i, 1000 + i % 3000);
    for (unsigned i = 0; i < 1000; i++)
        rig_push_in(&rig, "stalled", 40000 + i, 100000);
    rig_restart(&rig);
    rig_settle(&rig);
    rig_assert_counts(&rig, "stalled", 41000, 0);
    rig_pass(&rig, 2000);
    uint64_t ready = rig_counts(&rig, "stalled").ready;
    assert_true(ready <= 14013 && ready >= 14013 - 14 * GRAIN_MS);
    rig_pass(&rig, 3000);
    rig_assert_counts(&rig, "stalled", 1000, 40000);
    assert_true(rig.entries_most <= QUOTA + SLICES);
    /* It continues when a job is taken. */
    uint64_t taken = 0;
    for (size_t got; (got = rig_take(&rig, "stalled", 700, NULL));) {
        taken += got;
        rig_settle(&rig);
        rig_assert_counts(&rig, "stalled", 1000, 40000 - taken);
    }
    assert_int_equal(taken, 40000);
    assert_true(rig.entries_most <= QUOTA + SLICES);
    rig_pass(&rig, 100000);
    rig_assert_counts(&rig, "stalled", 0, 1000);
    rig_close(&rig);
}

CLAIM(each_job_is_taken_once_and_in_order)
{
    struct rig rig;
    enum { JOBS = 30000 };
    unsigned *ids = calloc(JOBS + 100, sizeof *ids);
    rig_open(&rig, HORIZON_MS, 1000);
    for (unsigned i = 0; i < JOBS; i++)
        rig_push_in(&rig, "orders", i, 1000 + i / 10);
    rig_restart(&rig);
    unsigned taken = 0;
    for (int round = 0; taken < JOBS && round < 10000; round++) {
        rig_pass(&rig, 20);
        taken += (unsigned)rig_take(&rig, "orders", 100, ids + taken);
    }
    assert_int_equal(taken, JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(ids[i], i);
    rig_settle(&rig);
    rig_assert_counts(&rig, "orders", 0, 0);
    assert_true(rig.entries_most <= 1000 + SLICES);
    free(ids);
    rig_close(&rig);
}

static int consume_others(struct rig *rig)
{
    int got = 0;
    for (int topic = 1; topic < 10; topic++) {
        char name[24];
        snprintf(name, sizeof name, "topic-%d", topic);
        got += (int)rig_take(rig, name, 100, NULL);
    }
    rig->taken += (uint64_t)got;
    return got;
}

CLAIM(one_stalled_topic_holds_up_no_other)
{
    struct rig rig;
    char name[16];
    rig_open(&rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < 300000; i++)
        rig_push_in(&rig, "topic-0", i, 1000 + i % 20000);
    for (unsigned i = 0; i < 90000; i++) {
        snprintf(name, sizeof name, "topic-%u", 1 + i % 9);
        rig_push_in(&rig, name, i, 1000 + i % 20000);
    }
    rig_restart(&rig);
    rig.consume = consume_others;
    for (int64_t ms = 0; ms < 21000; ms += 1000) {
        uint64_t due = ms > 1000 ? (uint64_t)ms - 1000 : 0;
        rig_pass(&rig, 1000);
        assert_true(rig.taken >= due * 90000 / 20000);
    }
    assert_int_equal(rig.taken, 90000);
    rig_pass(&rig, GRAIN_MS);
    rig_assert_counts(&rig, "topic-0", 0, 300000);
    assert_true(rig.entries_most <= QUOTA + 90000 / 2 + SLICES);
    rig_close(&rig);
}

CLAIM(many_topics_share_the_memory)
{
    struct rig rig;
    char name[16];
    enum { MANY = 40, EACH = 1500 };
    rig_open(&rig, HORIZON_MS, 100);
    for (unsigned i = 0; i < MANY * EACH; i++) {
        snprintf(name, sizeof name, "topic-%u", i % MANY);
        rig_push_in(&rig, name, i, 1000);
    }
    rig_restart(&rig);
    rig_pass(&rig, 1000 + GRAIN_MS);
    assert_true(engine_entries(rig.shard.engine) <= MANY * 100 + SLICES);
    for (unsigned left = EACH; left; left -= 50)
        for (unsigned topic = 0; topic < MANY; topic++) {
            snprintf(name, sizeof name, "topic-%u", topic);
            rig_assert_counts(&rig, name, 0, left);
            assert_int_equal(rig_take(&rig, name, 50, NULL), 50);
            rig_settle(&rig);
            rig_assert_counts(&rig, name, 0, left - 50);
        }
    assert_int_equal(engine_entries(rig.shard.engine), 0);
    assert_true(rig.entries_most <= MANY * 100 + SLICES);
    rig_close(&rig);
}

CLAIMS_MAIN(NULL, NULL)
