/* How an engine shares workers between groups, compared with an ideal server, in simulated time. (The rules themselves: tests/contract/directed_flow.c.) */
#include "engine_owner.h"
#include "unit/claim.h"

#include "unit/repetitions.h"

enum { GROUPS_MAX = 300, WORKERS_MAX = 400, NUMBERS_MAX = 1 << 18 };

/* A server with workers that take one job at a time, and the groups of its jobs. A unit of time is whatever the test makes of it. */
struct office {
    struct owner owner;
    struct random random;
    size_t groups, workers, busy, jobs;
    struct worker {
        struct engine_lease lease;
        int64_t end; /* 0: idle */
        uint32_t group;
    } worker[WORKERS_MAX];
    uint32_t group_of[NUMBERS_MAX]; /* of jobs, by the low part of their sequence */
    uint64_t waiting[GROUPS_MAX], served[GROUPS_MAX];
    int64_t worked[GROUPS_MAX]; /* time of workers */
    uint32_t weight[GROUPS_MAX];
};

static struct office *office_open(uint64_t seed, size_t groups, size_t workers)
{
    struct office *office = calloc(1, sizeof *office);
    assert_non_null(office);
    assert_true(groups <= GROUPS_MAX && workers <= WORKERS_MAX);
    office->random = (struct random){seed};
    office->groups = groups;
    office->workers = workers;
    open_owner(&office->owner);
    for (size_t i = 0; i < groups; i++)
        office->weight[i] = 1;
    return office;
}

static void office_close(struct office *office)
{
    close_owner(&office->owner);
    free(office);
}

static void name_group(size_t group, char *name, size_t bytes)
{
    snprintf(name, bytes, "g%zu", group);
}

static void set_weight(struct office *office, size_t group, uint32_t weight)
{
    char name[16];
    name_group(group, name, sizeof name);
    office->weight[group] = weight;
    assert_int_equal(engine_group_put(office->owner.rig->engine, topic_name(0), slice_of(name),
                                      &(struct group_settings){.weight = weight}),
                     QUEUE_OK);
}

/* Pushes a job of a group. */
static void arrive(struct office *office, size_t group)
{
    char name[16], id[16];
    struct engine *engine = office->owner.rig->engine;
    struct queue_result result = {0};
    struct engine_view view;
    name_group(group, name, sizeof name);
    snprintf(id, sizeof id, "%zu", office->jobs++);
    const struct queue_push push = {.topic = topic_name(0),
                                    .id = slice_of(id),
                                    .group = slice_of(name),
                                    .body = slice_of("b"),
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .when = {.due = QUEUE_DUE_NOW}};
    engine_push(engine, &push, office->owner.now, &result);
    assert_int_equal(result.status, QUEUE_CREATED);
    assert_true(engine_find(engine, topic_name(0), slice_of(id), office->owner.now, &view));
    office->group_of[view.sequence % NUMBERS_MAX] = (uint32_t)group;
    office->waiting[group]++;
    engine_view_fini(&view);
}

/* Gives the next job to a worker. Returns false if no job is ready. *waited: since its due. */
static bool begin(struct office *office, struct worker *worker, int64_t *waited)
{
    struct engine_view view;
    if (!engine_take(office->owner.rig->engine, topic_name(0), 1, SIZE_MAX, COLD_MS,
                     (struct slice){0}, office->owner.now, &view))
        return false;
    worker->lease = (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
    worker->group = office->group_of[view.sequence % NUMBERS_MAX];
    *waited = office->owner.now.wall_ms - view.due_ms;
    office->waiting[worker->group]--;
    office->served[worker->group]++;
    engine_view_fini(&view);
    return true;
}

/* Ends the jobs whose time has come. */
static void end_some(struct office *office)
{
    for (size_t i = 0; i < office->workers; i++) {
        struct worker *worker = &office->worker[i];
        if (!worker->end || worker->end > office->owner.now.inner_ms)
            continue;
        answer(&office->owner, worker->lease, (struct queue_answer){.verb = QUEUE_ACK});
        worker->end = 0;
    }
}

static void pass_a_unit(struct office *office)
{
    office->owner.now.inner_ms++;
    office->owner.now.wall_ms++;
}

/* ---- one worker: turns ---- */

/* The difference of the work of two groups, per weight, since both of them have jobs. */
struct pair {
    double difference, least, most;
};

/* Compares each two groups that have had jobs all the time: the bound is that of start-time fair queueing, one job of each, in any interval. */
static void compare(const struct office *office, struct pair pairs[GROUPS_MAX][8],
                    const bool *had_jobs)
{
    for (size_t a = 0; a < office->groups; a++)
        for (size_t b = a + 1; b < office->groups; b++) {
            struct pair *pair = &pairs[a][b];
            double now = (double)office->served[a] / office->weight[a] -
                         (double)office->served[b] / office->weight[b];
            if (!had_jobs[a] || !had_jobs[b]) {
                *pair = (struct pair){now, now, now};
                continue;
            }
            pair->least = now < pair->least ? now : pair->least;
            pair->most = now > pair->most ? now : pair->most;
            assert_true(pair->most - pair->least <=
                        1.0 / office->weight[a] + 1.0 / office->weight[b] + 1e-9);
        }
}

CLAIM(groups_with_jobs_differ_by_at_most_a_job_of_each_in_any_interval)
{
    static const uint32_t weights[] = {1, 1, 1, 2, 4, 5, 10, 100}; /* divide a step */
    for (uint64_t run = 0; run < repetitions(2000, 100); run++) {
        struct random random = {run + 1};
        struct office *office = office_open(run + 1, 2 + random_below(&random, 5), 1);
        struct pair pairs[GROUPS_MAX][8];
        bool had_jobs[GROUPS_MAX] = {false};
        for (size_t i = 0; i < office->groups; i++)
            set_weight(office, i, weights[random_below(&random, 8)]);
        for (int turn = 0; turn < 150; turn++) {
            for (uint64_t jobs = random_below(&random, 4); jobs; jobs--)
                arrive(office, random_below(&random, office->groups));
            int64_t waited;
            for (size_t i = 0; i < office->groups; i++)
                had_jobs[i] = had_jobs[i] && office->waiting[i];
            if (turn == 0)
                compare(office, pairs, (const bool[GROUPS_MAX]){false});
            if (begin(office, &office->worker[0], &waited)) {
                office->worker[0].end = office->owner.now.inner_ms;
                end_some(office);
            }
            compare(office, pairs, had_jobs);
            for (size_t i = 0; i < office->groups; i++)
                had_jobs[i] = office->waiting[i];
            pass_a_unit(office);
        }
        office_close(office);
    }
}

/* ---- many workers: slots ---- */

/* Serves groups that always have jobs, until so many were delivered. */
static void serve_greedy(struct office *office, uint64_t deliveries, uint64_t longest)
{
    for (uint64_t count = 0; count < deliveries; pass_a_unit(office)) {
        end_some(office);
        for (size_t i = 0; i < office->groups; i++)
            while (office->waiting[i] < 4)
                arrive(office, i);
        for (size_t i = 0; i < office->workers; i++) {
            struct worker *worker = &office->worker[i];
            int64_t waited, time = 1 + (int64_t)random_below(&office->random, longest);
            if (worker->end)
                continue;
            assert_true(begin(office, worker, &waited));
            worker->end = office->owner.now.inner_ms + time;
            office->worked[worker->group] += time;
            arrive(office, worker->group);
            count++;
        }
    }
}

CLAIM(weights_share_the_time_of_workers_within_one_percent)
{
    for (uint64_t run = 0; run < repetitions(10, 2); run++) {
        struct random random = {run + 1};
        struct office *office = office_open(run + 1, 2 + random_below(&random, 5), 0);
        uint64_t sum = 0;
        int64_t worked = 0;
        for (size_t i = 0; i < office->groups; i++) {
            set_weight(office, i, 1 + (uint32_t)random_below(&random, 10));
            sum += office->weight[i];
        }
        office->workers = 3 * sum;
        serve_greedy(office, 30000, 50);
        for (size_t i = 0; i < office->groups; i++)
            worked += office->worked[i];
        for (size_t i = 0; i < office->groups; i++) {
            double share = (double)office->worked[i] / (double)worked;
            double wanted = (double)office->weight[i] / (double)sum;
            assert_true(share > wanted * 0.99 && share < wanted * 1.01);
        }
        office_close(office);
    }
}

CLAIM(a_hundred_greedy_groups_get_the_same)
{
    struct office *office = office_open(1, 100, 20);
    double sum = 0, squares = 0;
    serve_greedy(office, 10000, 10);
    for (size_t i = 0; i < office->groups; i++) {
        sum += (double)office->served[i];
        squares += (double)office->served[i] * (double)office->served[i];
    }
    assert_true(sum * sum / (100 * squares) >= 0.999); /* Jain's index */
    office_close(office);
}

/* ---- a noisy group beside quiet ones ---- */

enum { QUIET = 250, NOISY = QUIET, UNITS_PER_SECOND = 10000, SERVICE = 200, SECONDS = 4 };

static int by_number(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return first < second ? -1 : first > second;
}

/* Returns the 99th percentile of the time from the due of a quiet job to its end. Each of 250 quiet groups has 8 jobs of up to 40 ms each second, which 100 workers do
 * in 40 % of their time. noisy: jobs of another group that are ready from the beginning. */
static int64_t quiet_p99(size_t noisy)
{
    struct office *office = office_open(7, QUIET + 1, 100);
    int64_t *times = calloc(NUMBERS_MAX, sizeof *times), waited;
    size_t count = 0;
    for (size_t i = 0; i < noisy; i++)
        arrive(office, NOISY);
    for (int64_t unit = 0; unit < (int64_t)UNITS_PER_SECOND * SECONDS; unit++) {
        for (size_t chance = 0; chance < 2; chance++)
            if (random_below(&office->random, UNITS_PER_SECOND) < QUIET * 8 / 2)
                arrive(office, random_below(&office->random, QUIET));
        end_some(office);
        for (size_t i = 0; i < office->workers; i++) {
            struct worker *worker = &office->worker[i];
            if (worker->end)
                continue;
            if (!begin(office, worker, &waited))
                break;
            int64_t time = 1 + (int64_t)random_below(&office->random, 2 * SERVICE);
            worker->end = office->owner.now.inner_ms + time;
            if (worker->group != NOISY && unit >= UNITS_PER_SECOND)
                times[count++] = waited + time;
        }
        pass_a_unit(office);
    }
    assert_true(!noisy || office->waiting[NOISY]); /* it had jobs all the time */
    qsort(times, count, sizeof *times, by_number);
    int64_t p99 = times[count * 99 / 100];
    free(times);
    office_close(office);
    return p99;
}

CLAIM(a_noisy_group_does_not_delay_quiet_ones)
{
    int64_t without = quiet_p99(0), with = quiet_p99(20000);
    assert_in_range(without, SERVICE, 2 * SERVICE);
    assert_true(with * 10 <= without * 11);
}

CLAIMS_MAIN(NULL, NULL)
