#include "store/depot_private.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * The policy over long histories, without a disk. A run here is a list of when its slots die, in
 * the order of their due times; a checkpoint comes every so many log bytes, writes all live
 * jobs, and the victims with them. Dead jobs at a run's front are punched at each commit.
 */
enum {
    RECORD = 250,       /* bytes of a job in a run */
    SLOT = RECORD + 28, /* with checksum and directory */
    LOG_JOBS = 1000,    /* jobs' worth of log bytes between checkpoints */
    RUNS_MAX = 400
};
#define SLACK ((uint64_t)LOG_JOBS * SLOT)

struct sim_job {
    uint64_t due, ends; /* in steps; ends before or at due */
};

struct sim_run {
    struct sim_job *jobs; /* by due */
    uint32_t slots, alive, punched;
};

struct history {
    struct sim_run runs[RUNS_MAX];
    size_t run_count;
    struct sim_job *log; /* what was pushed since the last checkpoint */
    size_t log_count, log_cap;
    uint64_t now;
    uint64_t survivors, written, jobs, checkpoints;
    double worst;
    size_t most_runs;
};

static int by_due(const void *a, const void *b)
{
    const struct sim_job *left = a, *right = b;

    return left->due < right->due ? -1 : left->due > right->due;
}

static uint64_t disk_of(const struct sim_run *run)
{
    return (uint64_t)run->slots * SLOT - (uint64_t)run->punched * RECORD;
}

static uint32_t front_of(const struct sim_run *run, uint64_t now)
{
    uint32_t front = 0;

    while (front < run->slots && run->jobs[front].ends <= now)
        front++;
    return front;
}

static uint64_t alive_in(struct sim_run *run, uint64_t now)
{
    run->alive = 0;
    for (uint32_t i = 0; i < run->slots; i++)
        run->alive += run->jobs[i].ends > now;
    return run->alive;
}

static void put_job(struct history *history, struct sim_job job)
{
    if (history->log_count == history->log_cap) {
        history->log_cap = history->log_cap ? history->log_cap * 2 : 1024;
        history->log = realloc(history->log, history->log_cap * sizeof *history->log);
        assert_non_null(history->log);
    }
    history->log[history->log_count++] = job;
    history->jobs++;
}

static size_t take_alive(const struct sim_job *from, size_t count, uint64_t now,
                         struct sim_job *into)
{
    size_t taken = 0;

    for (size_t i = 0; i < count; i++)
        if (from[i].ends > now)
            into[taken++] = from[i];
    return taken;
}

static bool is_due(struct history *history)
{
    uint64_t disk = 0, alive = 0;

    for (size_t i = 0; i < history->run_count; i++) {
        disk += disk_of(&history->runs[i]);
        alive += alive_in(&history->runs[i], history->now) * SLOT;
    }
    return depot_plan_is_due(disk, alive, SLACK);
}

static void plan_runs(struct history *history, struct depot_plan_run *plan)
{
    const struct depot_plan_limits limits = {.slack_bytes = SLACK,
                                             .victim_bytes_max = SLACK,
                                             .small_run_bytes = SLACK / 16,
                                             .victim_slots_max = 4 * LOG_JOBS};

    for (size_t i = 0; i < history->run_count; i++) {
        struct sim_run *run = &history->runs[i];
        uint32_t front = front_of(run, history->now);

        plan[i] =
            (struct depot_plan_run){.disk_bytes = disk_of(run),
                                    .alive = (uint32_t)alive_in(run, history->now),
                                    .alive_bytes = (uint64_t)run->alive * SLOT,
                                    .prefix_bytes = (uint64_t)(front - run->punched) * RECORD};
    }
    depot_plan_victims(plan, history->run_count, &limits);
}

/* A new run of what lives of the log and of the victims; the dead go, fronts are punched. */
static void checkpoint(struct history *history)
{
    static struct depot_plan_run plan[RUNS_MAX];
    struct sim_run made = {0};
    size_t room = history->log_count, kept = 0;

    plan_runs(history, plan);
    for (size_t i = 0; i < history->run_count; i++)
        room += plan[i].is_victim ? history->runs[i].slots : 0;
    made.jobs = malloc((room + 1) * sizeof *made.jobs);
    assert_non_null(made.jobs);
    made.slots = (uint32_t)take_alive(history->log, history->log_count, history->now, made.jobs);
    history->survivors += made.slots;
    history->log_count = 0;
    for (size_t i = 0; i < history->run_count; i++) {
        struct sim_run *run = &history->runs[i];

        if (plan[i].is_victim)
            made.slots +=
                (uint32_t)take_alive(run->jobs, run->slots, history->now, made.jobs + made.slots);
        if (plan[i].is_victim || plan[i].alive == 0) {
            free(run->jobs);
            continue;
        }
        run->punched = front_of(run, history->now);
        history->runs[kept++] = *run;
    }
    history->run_count = kept;
    history->written += made.slots;
    history->checkpoints++;
    qsort(made.jobs, made.slots, sizeof *made.jobs, by_due);
    assert_true(history->run_count < RUNS_MAX);
    if (made.slots)
        history->runs[history->run_count++] = made;
    else
        free(made.jobs);
    if (history->run_count > history->most_runs)
        history->most_runs = history->run_count;
}

/* Checks the space beyond 1.3 times the live data, in parts of the slack. */
static void judge(struct history *history)
{
    uint64_t disk = 0, alive = 0;

    for (size_t i = 0; i < history->run_count; i++) {
        disk += disk_of(&history->runs[i]);
        alive += alive_in(&history->runs[i], history->now) * SLOT;
    }
    if ((double)disk > 1.3 * (double)alive) {
        double over = ((double)disk - 1.3 * (double)alive) / (double)SLACK;

        if (over > history->worst)
            history->worst = over;
    }
}

/* Simulates one step of time. */
typedef void bring(struct history *history, struct random *random);

static void short_and_a_few_long(struct history *history, struct random *random)
{
    bool is_long = random_below(random, 200) == 0;
    uint64_t due = history->now + 1 + random_below(random, is_long ? 2000 * LOG_JOBS : LOG_JOBS);

    put_job(history, (struct sim_job){.due = due, .ends = due});
}

static void mostly_cancelled(struct history *history, struct random *random)
{
    uint64_t due = history->now + 1 + random_below(random, 60 * LOG_JOBS);
    uint64_t ends = random_below(random, 10)
                        ? history->now + 1 + random_below(random, due - history->now)
                        : due;

    put_job(history, (struct sim_job){.due = due, .ends = ends});
}

/* Simulates jobs that come back again and again: the slot dies when the job is loaded and changed. */
static void retry_loops(struct history *history, struct random *random)
{
    uint64_t wait = LOG_JOBS * (3 + random_below(random, 30));

    put_job(history, (struct sim_job){.due = history->now + wait, .ends = history->now + wait});
}

/* Due at the same time, and ending in any order: nothing is ever dead at the front. */
static void in_any_order(struct history *history, struct random *random)
{
    put_job(history,
            (struct sim_job){.due = 1 + random_below(random, 1000),
                             .ends = history->now + 1 + random_below(random, 100 * LOG_JOBS)});
}

static void all_at_once(struct history *history, struct random *random)
{
    uint64_t era = history->now / (400 * LOG_JOBS), step = history->now % (400 * LOG_JOBS);

    (void)random;
    if (step < 100 * LOG_JOBS) /* all end together, and then for long nothing comes */
        put_job(history, (struct sim_job){.due = (era + 1) * 400 * LOG_JOBS - 200 * LOG_JOBS,
                                          .ends = (era + 1) * 400 * LOG_JOBS - 200 * LOG_JOBS +
                                                  random_below(random, 50 * LOG_JOBS)});
}

/* Ends also take log, so a shard that only drains still makes checkpoints; if it does not,
 * the dead jobs are reason enough. */
static void live(bring *brings, const char *name, uint64_t checkpoints, double amplification_max)
{
    struct random random = seed_random(name);
    struct history *history = calloc(1, sizeof *history);

    assert_non_null(history);
    while (history->now < checkpoints * LOG_JOBS) {
        history->now++;
        brings(history, &random);
        if (history->now % (LOG_JOBS / 4) != 0)
            continue;
        if (history->log_count >= LOG_JOBS)
            checkpoint(history);
        for (int i = 0; i < 8 && is_due(history); i++)
            checkpoint(history);
        judge(history);
    }
    double amplification =
        history->survivors ? (double)history->written / (double)history->survivors : 1.0;
    printf("%s: %llu jobs, %llu outlived the log and were written %.2f times; disk at most 1.3 x "
           "alive + %.2f x slack; %zu runs at most\n",
           name, (unsigned long long)history->jobs, (unsigned long long)history->survivors,
           amplification, history->worst, history->most_runs);
    assert_true(history->worst <= 1.0);
    assert_true(amplification <= amplification_max);
    for (size_t i = 0; i < history->run_count; i++)
        free(history->runs[i].jobs);
    free(history->log);
    free(history);
}

CLAIM(disk_stays_bounded_under_short_jobs_and_a_few_long)
{
    live(short_and_a_few_long, "short_and_a_few_long", 1200, 4);
}

CLAIM(disk_stays_bounded_under_cancels)
{
    live(mostly_cancelled, "mostly_cancelled", 600, 6);
}

CLAIM(disk_stays_bounded_under_retry_loops)
{
    live(retry_loops, "retry_loops", 600, 3);
}

CLAIM(disk_is_bounded_if_jobs_end_in_random_order)
{
    live(in_any_order, "in_any_order", 600, 6);
}

CLAIM(disk_is_bounded_if_all_jobs_end_together)
{
    live(all_at_once, "all_at_once", 800, 3);
}

/* ---- the rules one by one ---- */

static const struct depot_plan_limits LIMITS = {
    .slack_bytes = 100, .victim_bytes_max = 1000, .small_run_bytes = 50, .victim_slots_max = 100};

CLAIM(nothing_is_rewritten_while_little_is_dead)
{
    struct depot_plan_run runs[] = {{.disk_bytes = 1200, .alive_bytes = 1000, .alive = 10},
                                    {.disk_bytes = 1200, .alive_bytes = 1000, .alive = 10}};

    assert_int_equal(depot_plan_victims(runs, 2, &LIMITS), 0);
}

CLAIM(the_deadest_go_first_and_no_more_than_needed)
{
    struct depot_plan_run runs[] = {{.disk_bytes = 1000, .alive_bytes = 600, .alive = 10},
                                    {.disk_bytes = 1000, .alive_bytes = 100, .alive = 10},
                                    {.disk_bytes = 1000, .alive_bytes = 900, .alive = 10}};

    assert_int_equal(depot_plan_victims(runs, 3, &LIMITS), 1);
    assert_true(runs[1].is_victim);
}

CLAIM(a_run_that_will_end_by_itself_is_not_a_victim)
{
    struct depot_plan_run runs[] = {
        {.disk_bytes = 5000, .alive_bytes = 0, .alive = 0},
        {.disk_bytes = 5000, .alive_bytes = 1000, .prefix_bytes = 3900, .alive = 10}};

    assert_int_equal(depot_plan_victims(runs, 2, &LIMITS), 0);
}

CLAIM(an_oversized_run_is_rewritten_separately)
{
    struct depot_plan_run runs[] = {{.disk_bytes = 9000, .alive_bytes = 5000, .alive = 1000},
                                    {.disk_bytes = 9000, .alive_bytes = 5000, .alive = 1000}};

    assert_int_equal(depot_plan_victims(runs, 2, &LIMITS), 1);
}

CLAIM(small_runs_are_made_one)
{
    struct depot_plan_run runs[17];

    for (uint64_t i = 0; i < 17; i++)
        runs[i] = (struct depot_plan_run){.disk_bytes = 10 + i, .alive_bytes = 10 + i, .alive = 1};
    assert_int_equal(depot_plan_victims(runs, 16, &LIMITS), 0);
    assert_int_equal(depot_plan_victims(runs, 17, &LIMITS), 9);
    for (size_t i = 0; i < 17; i++)
        assert_int_equal(runs[i].is_victim, i < 9);
}

CLAIM(runs_that_do_not_fit_stay_while_space_is_short)
{
    static const struct depot_plan_limits limits = {
        .victim_bytes_max = 150, .small_run_bytes = 50, .victim_slots_max = 100, .is_short = true};
    struct depot_plan_run runs[] = {{.disk_bytes = 1000, .alive_bytes = 600, .alive = 10},
                                    {.disk_bytes = 200, .alive_bytes = 100, .alive = 10},
                                    {.disk_bytes = 1000, .alive_bytes = 200, .alive = 10}};
    struct depot_plan_run small[17];

    assert_int_equal(depot_plan_victims(runs, 3, &limits), 1);
    assert_true(runs[1].is_victim);
    for (uint64_t i = 0; i < 17; i++)
        small[i] = (struct depot_plan_run){.disk_bytes = 10, .alive_bytes = 10, .alive = 1};
    assert_int_equal(depot_plan_victims(small, 17, &limits), 0);
}

CLAIMS_MAIN(NULL, NULL)
