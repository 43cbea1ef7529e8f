/* Look-ups of many jobs in one call: each live job is found once, with its own record, as by a look-up
 * of its own. */

#include "unit/claim.h"

#include "base/random.h"
#include "depot_crowd.h"
#include "store/depot_private.h"
#include "unit/seed.h"

enum { JOBS = 3000, RUNS = 4, WANTS = 5000, NOBODYS_RUN = 77 };

static struct crowd crowd;

static struct {
    struct depot_want wants[WANTS];
    uint32_t jobs[WANTS]; /* the jobs; from RUNS * JOBS on they do not exist */
    uint32_t met[WANTS];
    size_t count;
} scene;

/* Makes runs like checkpoints: one after the other, a table each. */
static void make_runs(struct random *random)
{
    memset(&scene, 0, sizeof scene);
    crowd_start(&crowd);
    for (uint32_t run = 0; run < RUNS; run++)
        crowd_write(&crowd, run * JOBS, JOBS);
    for (uint32_t run = 1; run <= RUNS; run++) {
        crowd_release(&crowd, run, (uint32_t)random_below(random, 5), 400, 3);
        crowd_release(&crowd, run, 1500 + (uint32_t)random_below(random, 300), 900, 1);
    }
}

static struct record_place true_place(uint32_t job)
{
    struct record_place place = crowd_place(job / JOBS + 1, job % JOBS);

    place.bytes = 1;
    return place;
}

/* Possible hints of the log: its slot, nothing, or a slot that a crash has undone. */
static void want(struct random *random, uint32_t job)
{
    struct depot_want *one = &scene.wants[scene.count];

    *one = (struct depot_want){.key = crowd_key(job), .id = (uint32_t)scene.count};
    scene.jobs[scene.count++] = job;
    if (job < RUNS * JOBS && random_below(random, 2))
        one->place = true_place(job);
    else if (random_below(random, 4) == 0) {
        one->place = crowd_place(NOBODYS_RUN, 3);
        one->place.bytes = 1;
    }
}

static void on_met(void *ctx, const struct depot_want *want, const struct record *record)
{
    (void)ctx;
    assert_true(want->is_met);
    assert_ptr_equal(want, &scene.wants[want->id]);
    assert_int_equal(record->job.sequence, scene.jobs[want->id]);
    assert_int_equal(scene.met[want->id]++, 0);
}

static void find_them(void)
{
    assert_int_equal(depot_find_many(depot_view(crowd.depot), CROWD_SEED, scene.wants, scene.count,
                                     on_met, NULL),
                     0);
}

CLAIM(all_that_are_alive_are_met_and_no_others)
{
    struct random random = seed_random(__func__);
    uint32_t met = 0;

    make_runs(&random);
    while (scene.count < WANTS)
        want(&random, (uint32_t)random_below(&random, RUNS * JOBS + 500));
    for (int with_filters = 0; with_filters < 2; with_filters++) {
        memset(scene.met, 0, sizeof scene.met);
        for (size_t i = 0; i < scene.count; i++)
            scene.wants[i].is_met = false;
        find_them();
        for (size_t i = 0; i < scene.count; i++) {
            struct record_place place;
            int there = crowd_find(&crowd, scene.jobs[i], &place);

            assert_int_equal(scene.met[i], there);
            assert_int_equal(scene.wants[i].is_met, there);
            if (there)
                assert_memory_equal(&scene.wants[i].place, &place, sizeof place);
            met += (uint32_t)there;
        }
        assert_int_equal(depot_load_filters((struct depot_view *)depot_view(crowd.depot)), 0);
    }
    assert_in_range(met, WANTS / 2, 2 * WANTS);
    crowd_end(&crowd);
}

/* A single look-up reports the fault. */
CLAIM(an_unreadable_job_does_not_affect_others)
{
    struct random random = seed_random(__func__);
    struct run_slot slot;
    const uint32_t bad = 1200, in_block = bad / 170 * 170;
    int64_t size;

    make_runs(&random);
    for (uint32_t job = 1000; job < 1450; job++)
        want(&random, job);
    for (uint32_t job = JOBS + 1000; job < JOBS + 1450; job++)
        want(&random, job);
    assert_int_equal(run_slots(depot_view(crowd.depot)->runs[0]->run, bad, 1, true, &slot), 0);
    sim_fs_damage(&crowd.sim, "shard/run/00000001.run", (int64_t)slot.offset + 8, 4);
    sim_fs_bytes(&crowd.sim, "shard/run/00000002.run", &size);
    /* Before topics and footer lies the directory. */
    size -= (2 + (JOBS + 169) / 170 - bad / 170) * 4096;
    sim_fs_damage(&crowd.sim, "shard/run/00000002.run", size + 100, 4);
    find_them();
    for (size_t i = 0; i < scene.count; i++) {
        const uint32_t job = scene.jobs[i], in_run = job % JOBS;
        const bool is_read = job < JOBS ? job != bad : in_run < in_block;

        if (!depot_is_alive(crowd.depot, true_place(job)))
            assert_int_equal(scene.met[i], 0);
        else if (is_read)
            assert_int_equal(scene.met[i], 1);
        else if (job == bad || in_run < in_block + 170)
            assert_int_equal(scene.met[i], 0);
    }
    crowd_end(&crowd);
}

/* A place of another job, and another's hash, are no more than hints. */
CLAIM(a_record_of_another_job_is_not_met)
{
    struct random random = seed_random(__func__);
    uint32_t job = 40;

    make_runs(&random);
    while (!depot_is_alive(crowd.depot, true_place(job)) ||
           !depot_is_alive(crowd.depot, true_place(job + 1)))
        job++;
    want(&random, job);
    scene.wants[0].place = true_place(job + 1);
    want(&random, job);
    scene.wants[1].place = (struct record_place){0};
    scene.wants[1].key.high ^= 1;
    find_them();
    assert_int_equal(scene.met[0] + scene.met[1], 0);
    crowd_end(&crowd);
}

CLAIM(an_empty_batch_finds_nothing)
{
    memset(&scene, 0, sizeof scene);
    crowd_start(&crowd);
    find_them();
    scene.wants[scene.count++].key = crowd_key(1);
    find_them();
    assert_int_equal(scene.met[0], 0);
    crowd_end(&crowd);
}

CLAIMS_MAIN(NULL, NULL)
