/* Every allocation fails, once and then for ever, while a depot is opened, read, and runs
 * checkpoints and a merge of its tables in steps: a failing step reports it, nothing is lost, and nothing
 * leaks. */
#include "unit/fault_calls.h"

#include "unit/claim.h"
#include "unit/repetitions.h"
#include "unit/seed.h"

#include "depot_rig.h"

enum { CALLS_MAX = 5000, ROUNDS = 5, TRIES = 3, KEYS = 12 };

/* ---- only the depot's own allocations fail ---- */

static int64_t left_to_fail = -1;

static void arm(void)
{
    calls_left = left_to_fail;
}

static void disarm(void)
{
    left_to_fail = calls_left;
    calls_left = -1;
}

#define ARMED(CALL)                                                                                \
    ({                                                                                             \
        arm();                                                                                     \
        __auto_type armed_result = (CALL);                                                         \
        disarm();                                                                                  \
        armed_result;                                                                              \
    })

/* Allocations of the simulated disk do not count. */
static struct sim_fs sim;

#define QUIETLY(CALL)                                                                              \
    ({                                                                                             \
        int64_t quiet_left = calls_left;                                                           \
        calls_left = -1;                                                                           \
        __auto_type quiet_result = (CALL);                                                         \
        calls_left = quiet_left;                                                                   \
        quiet_result;                                                                              \
    })

static int quiet_open(void *ctx, const char *path, int flags, int mode)
{
    return QUIETLY(sim.fs.ops->open(ctx, path, flags, mode));
}

static ssize_t quiet_pwrite(void *ctx, int fd, const void *from, size_t len, int64_t offset)
{
    return QUIETLY(sim.fs.ops->pwrite(ctx, fd, from, len, offset));
}

static int quiet_fdatasync(void *ctx, int fd)
{
    return QUIETLY(sim.fs.ops->fdatasync(ctx, fd));
}

static int quiet_truncate(void *ctx, int fd, int64_t size)
{
    return QUIETLY(sim.fs.ops->truncate(ctx, fd, size));
}

static int quiet_rename(void *ctx, const char *from, const char *to)
{
    return QUIETLY(sim.fs.ops->rename(ctx, from, to));
}

static int quiet_unlink(void *ctx, const char *path)
{
    return QUIETLY(sim.fs.ops->unlink(ctx, path));
}

static int quiet_fsync_dir(void *ctx, const char *path)
{
    return QUIETLY(sim.fs.ops->fsync_dir(ctx, path));
}

static int quiet_punch(void *ctx, int fd, int64_t offset, int64_t bytes)
{
    return QUIETLY(sim.fs.ops->punch(ctx, fd, offset, bytes));
}

static struct fs quiet_disk(void)
{
    static struct fs_ops ops;

    ops = *sim.fs.ops;
    ops.open = quiet_open;
    ops.pwrite = quiet_pwrite;
    ops.fdatasync = quiet_fdatasync;
    ops.truncate = quiet_truncate;
    ops.rename = quiet_rename;
    ops.unlink = quiet_unlink;
    ops.fsync_dir = quiet_fsync_dir;
    ops.punch = quiet_punch;
    return (struct fs){.ops = &ops, .ctx = &sim};
}

/* ---- a shard that gets "out of memory" ---- */

static void depot_tidy_armed(struct rig *rig)
{
    arm();
    depot_tidy(rig->depot);
    disarm();
}

static void expect_reported(int result, const char *words)
{
    assert_true(result == -ENOMEM);
    assert_true(*words != '\0');
}

/* Returns false if it has failed, and only closing follows. */
static bool commit_once(struct rig *rig, uint32_t before, bool *fatal)
{
    const struct catalog_topic topic = {.name = slice_of("orders"), .stored = {1, 2}};
    struct catalog catalog;
    int result = ARMED(depot_snapshot(rig->depot, 1, before, &topic, 1, 5, 6, &catalog));

    *fatal = false;
    if (result < 0) {
        assert_int_equal(result, -ENOMEM);
        return false;
    }
    rig->log_synced = rig->log_count;
    result = ARMED(depot_commit(rig->depot, &catalog, fatal));
    if (result < 0) {
        assert_int_equal(result, -ENOMEM);
        catalog_fini(&catalog);
        return false;
    }
    arm();
    depot_committed(rig->depot, &catalog);
    disarm();
    rig->log_first = before;
    depot_check(rig->depot);
    depot_tidy_armed(rig);
    depot_check(rig->depot);
    return true;
}

static bool commit(struct rig *rig, uint32_t before)
{
    bool fatal = false;

    for (int i = 0; i < TRIES && !fatal; i++)
        if (commit_once(rig, before, &fatal))
            return true;
    return false;
}

static void give_up(struct rig *rig, struct depot_build *build)
{
    arm();
    depot_abandon(rig->depot, build);
    disarm();
    depot_build_fini(build);
    depot_check(rig->depot);
    depot_tidy_armed(rig);
    rig->gave_up++;
}

static bool installed(struct rig *rig, struct depot_build *build)
{
    for (int i = 0; i < TRIES; i++)
        if (ARMED(depot_installed(rig->depot, build)))
            return true;
    return false;
}

/* Returns false if the shard cannot continue. `gives_up`: after the new run could be named. */
static bool checkpoint(struct rig *rig, bool gives_up)
{
    struct depot_build build = {.read_log = rig_read_log, .apply = rig_apply, .ctx = rig};
    uint32_t before = rig->log_count;
    bool goes_on;
    int result = ARMED(depot_plan(rig->depot, &build));

    if (result < 0) {
        assert_int_equal(result, -ENOMEM);
        depot_check(rig->depot);
        return true;
    }
    rig->victims += build.victim_count;
    rig_collect(rig, &build, before);
    result = ARMED(depot_build(&build));
    rig_free_changed(&build);
    if (result < 0)
        expect_reported(result, build.error);
    assert_int_equal(build.failed, 0); /* damage and missing memory are distinguished */
    assert_int_equal(build.kept, 0);
    if (result < 0 || !ARMED(depot_install(rig->depot, &build)) || gives_up) {
        give_up(rig, &build);
        return true;
    }
    for (uint32_t i = 0; i < build.slots; i++)
        rig_settle(rig, &build, i, before);
    goes_on = installed(rig, &build) && commit(rig, before);
    rig->checkpoints += goes_on;
    depot_build_fini(&build);
    return goes_on;
}

static bool merge(struct rig *rig)
{
    struct depot_keys_merge merge;
    bool goes_on = true;
    int result = 0;

    if (!ARMED(depot_keys_wanted(rig->depot, &merge)))
        return true;
    for (int step = 0; goes_on; step++) {
        result = ARMED(depot_keys_merge(rig->depot, &merge, 50));
        if (result != 1)
            break;
        if (step == 0) {
            rig_live(rig, 30);
            goes_on = checkpoint(rig, false);
        }
    }
    if (goes_on && result == 0 && ARMED(depot_keys_install(rig->depot, &merge))) {
        depot_check(rig->depot);
        rig->merges++;
        return commit(rig, rig->log_first);
    }
    assert_true(!goes_on || result == 0 || result == -ENOMEM);
    depot_keys_abandon(rig->depot, &merge);
    return goes_on;
}

/* Reports missing memory or the true result; never "not found". */
static void find_some(struct rig *rig)
{
    struct depot_view *view = depot_hold(rig->depot);
    int result = ARMED(depot_load_filters(view));

    assert_true(result == 0 || result == -ENOMEM);
    for (uint32_t job = 0; job < KEYS; job++) {
        const struct rig_job *truth = &rig->jobs[job];
        bool cold = truth->is_alive && record_place_is_run(truth->place);
        struct buffer records;
        struct depot_hit hit;

        buffer_init(&records, 1 << 20);
        result = ARMED(depot_find(view, RIG_SEED, rig_key(job), &records, &hit));
        assert_true(result == cold || result == -ENOMEM);
        if (result == 1)
            assert_true(rig_same_place(hit.place, truth->place));
        assert_true(!cold || !depot_is_absent(rig->depot, rig_key(job)));
        buffer_fini(&records);
    }
    depot_let_go(view);
}

/* ---- the scene ---- */

static int open_armed(struct rig *rig)
{
    int result = ARMED(depot_open(&rig->options, &rig->depot, rig->error, sizeof rig->error));

    if (result < 0) {
        expect_reported(result, rig->error);
        rig->depot = NULL;
    }
    return result;
}

static bool open_and_replay(struct rig *rig)
{
    if (open_armed(rig) < 0 && open_armed(rig) < 0)
        return false;
    rig_replay(rig);
    depot_remove_orphans(rig->depot);
    depot_forget_catalog(rig->depot);
    return true;
}

static void live_through_it(struct rig *rig)
{
    bool goes_on = open_and_replay(rig);

    for (int round = 0; goes_on && round < ROUNDS; round++) {
        rig_live(rig, round == 0 ? 80 : 40);
        goes_on = checkpoint(rig, round == 1);
        if (goes_on)
            find_some(rig);
        if (goes_on)
            goes_on = merge(rig);
        if (goes_on && round == 2) {
            depot_close(rig->depot);
            rig->depot = NULL;
            goes_on = open_and_replay(rig);
        }
    }
}

/* Totals of all steps. */
static uint64_t checkpoints, victims, merges, gave_up;

/* False: nothing was left to fail. */
static bool fail_allocation(uint64_t seed, int64_t number, bool for_ever)
{
    struct rig *rig = malloc(sizeof *rig);
    struct fs disk;

    assert_non_null(rig);
    sim_fs_init(&sim, seed);
    disk = quiet_disk();
    assert_int_equal(sim.fs.ops->mkdir(&sim, "shard", 0700), 0);
    rig_init(rig, &sim, seed);
    rig->options.fs = &disk;
    rig->options.slack_bytes = 38000;
    rig->options.keys_fan = 2;
    failed = 0;
    left_to_fail = number;
    fail_for_ever = for_ever;
    live_through_it(rig);
    left_to_fail = -1;
    if (rig->depot)
        depot_close(rig->depot);
    assert_int_equal(rig_open(rig), 0);
    if (number % 8 == 0) {
        rig_live(rig, 30);
        assert_int_equal(rig_checkpoint(rig), 0);
        rig_find_all(rig);
    }
    depot_close(rig->depot);
    checkpoints += rig->checkpoints;
    victims += rig->victims;
    merges += rig->merges;
    gave_up += rig->gave_up;
    sim_fs_fini(&sim);
    free(rig);
    return failed > 0;
}

static void every_allocation_fails(uint64_t seed, bool for_ever)
{
    const int64_t stride = (int64_t)repetitions(1, 4);
    int64_t number = 0;

    checkpoints = victims = merges = gave_up = 0;
    while (fail_allocation(seed, number, for_ever)) {
        number += stride;
        assert_true(number < CALLS_MAX);
    }
    printf("%lld allocations, %llu checkpoints, %llu victims, %llu merges, %llu given up\n",
           (long long)number, (unsigned long long)checkpoints, (unsigned long long)victims,
           (unsigned long long)merges, (unsigned long long)gave_up);
    assert_true(number > 100 && checkpoints > 0 && victims > 0 && merges > 0 && gave_up > 0);
}

CLAIM(loses_nothing_when_an_allocation_fails_once)
{
    struct random random = seed_random(__func__);

    every_allocation_fails(random_next(&random), false);
}

CLAIM(loses_nothing_when_all_allocations_fail_from_one_on)
{
    struct random random = seed_random(__func__);

    every_allocation_fails(random_next(&random), true);
}

CLAIMS_MAIN(NULL, NULL)
