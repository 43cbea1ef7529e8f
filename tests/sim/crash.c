/*
 * A run, and at every I/O of it what a power cut at that moment would leave: the disk and the oracle
 * are copied, the copy is damaged and recovered, while the run itself waits. So are crashes inside
 * recoveries.
 */
#include "sim.h"

#include "local/checkpoint.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#pragma weak checkpoint_figures
#pragma weak depot_stats

enum { DEPTH_MAX = 4 };

struct trying {
    const struct sim_crashing *crashing;
    struct world *world;
    uint32_t depth;
    uint64_t ios, found; /* recoveries so far */
    uint64_t crash_at;   /* within a recovery; 0: never, UINT64_MAX: at each */
    uint64_t random;
};

struct sim_totals sim_totals;

/* ---- figures ---- */

static void add_figures(struct world *world)
{
    struct world_figures *to = &sim_totals.figures;
    struct checkpoint_figures checkpoints = {0};

    if (world->shard && checkpoint_figures && world->shard->checkpoint)
        checkpoint_figures(world->shard->checkpoint, &checkpoints);
    to->checkpoints += checkpoints.checkpoints;
    to->failed_checkpoints += checkpoints.failed;
    to->merges += checkpoints.keys_merges;
    to->amid_merges += checkpoints.amid_merges;
    to->commands += world->figures.commands;
    to->replies += world->figures.replies;
    to->quiets += world->figures.quiets;
    to->no_space += world->figures.no_space;
    world->figures = (struct world_figures){0};
}

/* ---- one crash ---- */

/* Checks after a crash: the effects of calls in progress may stay. */
static void crash_check(const struct world *world, struct oracle *oracle)
{
    for (uint32_t i = 0; i < ORACLE_CALLS; i++)
        if (world->calls[i].is_used && world->calls[i].kind == COMMAND_TAKE)
            oracle_take_lost(oracle, world->calls[i].topic, world->calls[i].since_ms,
                             world->calls[i].lease_ms);
    oracle_crash(oracle);
}

static struct oracle *oracle_of_depth(uint32_t depth)
{
    static struct oracle *checks[DEPTH_MAX + 1];

    if (!checks[depth])
        checks[depth] = malloc(sizeof **checks);
    assert(checks[depth]);
    return checks[depth];
}

static struct sim_fs *disk_of_depth(uint32_t depth)
{
    static struct sim_fs *disks[DEPTH_MAX + 1];

    if (!disks[depth])
        disks[depth] = malloc(sizeof **disks);
    assert(disks[depth]);
    return disks[depth];
}

static void at_io(void *ctx);

static int64_t some_downtime(struct random *random)
{
    static const uint64_t most[] = {1, 1, 100, 5000, 24 * 3600 * 1000};

    return (int64_t)random_below(random, most[random_below(random, 5)]);
}

/* Continues to live for a while. */
static void live_on(struct world *world, uint32_t commands)
{
    for (uint32_t i = 0; i < commands * 8 && world->figures.commands < commands; i++)
        world_step(world);
    if (!world_quiet(world))
        oracle_violation(world->oracle, "every call is answered", UINT32_MAX, UINT32_MAX,
                         "after a recovery");
    world_look(world, false);
}

static void recover(struct trying *from, enum sim_damage damage, uint64_t seed)
{
    uint32_t depth = from->depth + 1;
    struct oracle *oracle = oracle_of_depth(depth);
    struct sim_fs *disk = disk_of_depth(depth);
    struct world *world = malloc(sizeof *world);
    struct random random = {.state = seed};
    struct trying trying = {.crashing = from->crashing, .world = world, .depth = depth};
    int64_t down_ms = some_downtime(&random), wall_step_ms = 0;

    assert(world && depth <= DEPTH_MAX);
    if (random_below(&random, 8) == 0)
        wall_step_ms = (int64_t)random_below(&random, 120000) - 60000;
    sim_fs_clone(disk, from->world->disk, random_next(&random));
    sim_fs_crash(disk, damage);
    oracle_copy(oracle, from->world->oracle);
    memset(oracle->seen, 0, sizeof oracle->seen);
    oracle->kills_in_flight = oracle->redelivered = 0;
    crash_check(from->world, oracle);
    oracle->broken = false;
    world_init(world, from->world->scenario, disk, oracle, random_next(&random),
               from->world->machine.inner_ms + down_ms,
               from->world->machine.wall_ms + down_ms + wall_step_ms);
    world->serial = from->world->serial + 1000000 * depth;
    if (depth < DEPTH_MAX && random_below(&random, depth == 1 ? 8 : 3) == 0)
        trying.crash_at = random_below(&random, 16) ? 1 + random_below(&random, 12) : UINT64_MAX;
    disk->at_io = at_io;
    disk->at_io_ctx = &trying;
    sim_totals.recoveries++;
    sim_totals.within += depth > 1;
    if (world_open(world)) {
        oracle_violation(oracle, "S: opens after every crash", UINT32_MAX, UINT32_MAX, "%s",
                         world->error);
    } else {
        world_look(world, true);
        trying.crash_at = 0;
        if (random_below(&random, 16) == 0)
            live_on(world, 30);
        if (depth < DEPTH_MAX && random_below(&random, 4) == 0) {
            sim_totals.twice++;
            recover(&trying, 1 + (enum sim_damage)random_below(&random, SIM_DAMAGES_ALL),
                    random_next(&random));
        }
    }
    for (int i = 0; i < GUESS_STATES; i++)
        sim_totals.seen[i] += oracle->seen[i];
    sim_totals.kills_in_flight += oracle->kills_in_flight;
    sim_totals.redelivered += oracle->redelivered;
    disk->at_io = NULL;
    world_drop(world);
    sim_fs_fini(disk);
    free(world);
}

/* ---- at an I/O ---- */

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    struct random random = {.state = a ^ b << 40 ^ c << 32 ^ d << 20};

    return random_next(&random);
}

static void crash_all_ways(struct trying *trying)
{
    const struct sim_crashing *crashing = trying->crashing;
    const struct sim_choice *only = &crashing->only;

    for (uint32_t damage = 1; damage <= SIM_DAMAGES_ALL; damage++)
        for (uint32_t seed = 0; seed < crashing->seeds; seed++) {
            if (only->io && (only->damage != damage || only->seed != seed))
                continue;
            if (crashing->recoveries_max && sim_totals.recoveries >= crashing->recoveries_max)
                return;
            sim_trying("sim crash %s %llu %llu %u %u", crashing->scenario->name,
                       (unsigned long long)crashing->seed, (unsigned long long)trying->ios, damage,
                       seed);
            recover(trying, damage, mix(crashing->seed, trying->ios, damage, seed));
        }
    sim_trying("sim crash %s %llu", crashing->scenario->name, (unsigned long long)crashing->seed);
}

static void at_io(void *ctx)
{
    struct trying *trying = ctx;
    const struct sim_crashing *crashing = trying->crashing;
    struct memory_fault memory = memory_fault;
    bool in_product = world_in_product;

    trying->ios++;
    memory_fault = (struct memory_fault){0};
    if (trying->depth == 0) {
        sim_totals.ios++;
        if (crashing->only.io
                ? trying->ios == crashing->only.io
                : crashing->stride && trying->ios % crashing->stride == crashing->from)
            crash_all_ways(trying);
    } else if (trying->crash_at == trying->ios || trying->crash_at == UINT64_MAX) {
        uint64_t seed = mix(trying->world->random.state, trying->ios, trying->depth, 1);

        recover(trying, 1 + (enum sim_damage)(seed % SIM_DAMAGES_ALL), seed);
    }
    memory_fault = memory;
    world_in_product = in_product;
}

/* ---- the run ---- */

static void reopen(struct world *world)
{
    int result;

    if (!world_quiet(world) || !world_stop(world)) {
        oracle_violation(world->oracle, "every call is answered", UINT32_MAX, UINT32_MAX,
                         "while it stops");
        return;
    }
    oracle_crash(world->oracle); /* all is durable: nothing comes back */
    world->has_stopped = false;
    result = world_open(world);
    sim_totals.figures.reopened++;
    if (result)
        oracle_violation(world->oracle, "S: opens after a stop", UINT32_MAX, UINT32_MAX, "%s",
                         world->error);
    else
        world_look(world, true);
}

static void live(struct world *world)
{
    const struct scenario *scenario = world->scenario;
    uint64_t next_look = 60, next_close = scenario->closes ? 100 : UINT64_MAX;

    for (uint64_t i = 0; i < 100ull * scenario->commands && world->shard &&
                         world->figures.commands < scenario->commands;
         i++) {
        world_step(world);
        if (world->figures.commands >= next_close) {
            next_close += 100;
            reopen(world);
        } else if (world->figures.commands >= next_look && !scenario->no_quiet) {
            next_look += 60;
            if (!world_quiet(world))
                oracle_violation(world->oracle, "every call is answered", UINT32_MAX, UINT32_MAX,
                                 "half-way");
            world_look(world, false);
        }
    }
    if (!world_quiet(world))
        oracle_violation(world->oracle, "every call is answered", UINT32_MAX, UINT32_MAX,
                         "at the end");
    world_look(world, false);
}

void sim_crash_run(const struct sim_crashing *crashing)
{
    struct world *world = malloc(sizeof *world);
    struct trying trying = {.crashing = crashing, .world = world};
    struct oracle *oracle = oracle_of_depth(0);
    struct sim_fs *disk = disk_of_depth(0);

    assert(world);
    sim_trying("sim crash %s %llu", crashing->scenario->name, (unsigned long long)crashing->seed);
    sim_fs_init(disk, crashing->seed);
    disk->bytes_max = crashing->scenario->disk_bytes_max;
    oracle_init(oracle);
    oracle->full = disk->bytes_max != 0;
    world_init(world, crashing->scenario, disk, oracle, crashing->seed, 1700000000000,
               1700000000000);
    disk->at_io = at_io;
    disk->at_io_ctx = &trying;
    if (world_open(world))
        oracle_violation(oracle, "a new directory opens", UINT32_MAX, UINT32_MAX, "%s",
                         world->error);
    else
        live(world);
    sim_totals.runs++;
    sim_totals.kills_in_flight += oracle->kills_in_flight;
    sim_totals.redelivered += oracle->redelivered;
    add_figures(world);
    disk->at_io = NULL;
    world_drop(world);
    sim_fs_fini(disk);
    free(world);
}
