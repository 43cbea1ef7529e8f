/*
 * Every I/O, read and allocation of a short life fails once, and for ever until it is repaired: no
 * crash, no false OK, and service returns by itself; or, after the log
 * failed, with the next start. If the shard asserts that memory for a refusal is there,
 * the process has ended: that is counted, and the next start recovers from it.
 */
#include "sim.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum fault {
    FAULT_IO = 1,
    FAULT_IO_EVER,
    FAULT_SPACE,
    FAULT_READ,
    FAULT_MEMORY,
    FAULT_MEMORY_EVER
};
enum { FAULTS = FAULT_MEMORY_EVER };
static const char *const fault_names[FAULTS + 1] = {"",     "io",     "io-ever",    "space",
                                                    "read", "memory", "memory-ever"};

static const struct scenario short_life = {.name = "faults",
                                           .commands = 130,
                                           .file_bytes = 16384,
                                           .limits = {.checkpoint_files_min = 1,
                                                      .checkpoint_files_max = 2,
                                                      .horizon_ms = 300,
                                                      .topic_quota = 12,
                                                      .slack_bytes = 400000,
                                                      .victim_bytes_max = 32768,
                                                      .keys_entries_max = 200,
                                                      .keys_fan = 2,
                                                      .scan_changes = WORLD_SMALL_STEP,
                                                      .timers = WORLD_SMALL_STEP},
                                           .weights = {[DO_PUSH] = 60,
                                                       [DO_TAKE] = 15,
                                                       [DO_ACK] = 10,
                                                       [DO_NACK] = 5,
                                                       [DO_CANCEL] = 5,
                                                       [DO_RESCHEDULE] = 3,
                                                       [DO_GET] = 3},
                                           .delay_most_ms = 4000,
                                           .far_percent = 30,
                                           .time_percent = 10,
                                           .step_most_ms = 800};

/* ---- a failed assertion without memory ends the process ---- */

static jmp_buf *on_assert;

void __wrap___assert_fail(const char *expression, const char *file, unsigned line,
                          const char *function) __attribute__((noreturn));
void __real___assert_fail(const char *expression, const char *file, unsigned line,
                          const char *function) __attribute__((noreturn));

void __wrap___assert_fail(const char *expression, const char *file, unsigned line,
                          const char *function)
{
    if (on_assert && memory_fault.failed && world_in_product)
        longjmp(*on_assert, 1);
    __real___assert_fail(expression, file, line, function);
}

/* ---- one run ---- */

struct faulty {
    struct world *world;
    struct sim_fs *disk;
    struct oracle *oracle;
    enum fault fault;
    uint64_t at;
};

static void arm(struct faulty *faulty)
{
    struct sim_fs *disk = faulty->disk;

    faulty->oracle->lenient = faulty->fault >= FAULT_READ;
    faulty->oracle->full = faulty->fault == FAULT_SPACE;
    faulty->oracle->fileless = true;
    disk->fail_errno = faulty->fault == FAULT_SPACE ? ENOSPC : EIO;
    disk->fail_for_ever = faulty->fault == FAULT_IO_EVER || faulty->fault == FAULT_SPACE;
    if (faulty->fault <= FAULT_SPACE)
        disk->fail_at = faulty->at;
    if (faulty->fault == FAULT_READ)
        disk->fail_read_at = faulty->at;
    if (faulty->fault >= FAULT_MEMORY)
        memory_fault.fail_at = faulty->at;
    memory_fault.for_ever = faulty->fault == FAULT_MEMORY_EVER;
}

static void mend(struct faulty *faulty)
{
    faulty->disk->fail_at = faulty->disk->fail_read_at = 0;
    faulty->disk->fail_for_ever = false;
    memory_fault.fail_at = 0;
}

static void live(struct world *world, uint32_t commands)
{
    uint64_t until = world->figures.commands + commands;

    for (uint32_t i = 0; i < commands * 40 && world->figures.commands < until && !world->has_failed;
         i++)
        world_step(world);
}

/* Returns whether the process still runs. */
static bool go_through(struct faulty *faulty)
{
    struct world *world = faulty->world;

    if (world_open(world)) {
        mend(faulty);
        return false;
    }
    live(world, short_life.commands);
    mend(faulty);
    if (!world->has_failed)
        world_wait(world, 5000);
    if (!world_quiet(world))
        oracle_violation(faulty->oracle, "every call is answered", UINT32_MAX, UINT32_MAX,
                         "once what failed is mended");
    return !world->has_failed;
}

/* Service has come back by itself. */
static void serve_again(struct faulty *faulty)
{
    faulty->oracle->full = faulty->oracle->fileless = faulty->oracle->broken = false;
    live(faulty->world, 25);
    if (!world_quiet(faulty->world))
        oracle_violation(faulty->oracle, "every call is answered", UINT32_MAX, UINT32_MAX,
                         "after the fault");
    world_look(faulty->world, false);
}

static void start_again(struct faulty *faulty, bool has_ended)
{
    struct world *before = faulty->world, *world = malloc(sizeof *world);

    assert(world);
    if (!has_ended)
        world_drop(before);
    for (uint32_t i = 0; i < ORACLE_CALLS; i++)
        if (before->calls[i].is_used && before->calls[i].kind == COMMAND_TAKE)
            oracle_take_lost(faulty->oracle, before->calls[i].topic, before->calls[i].since_ms,
                             before->calls[i].lease_ms);
    oracle_crash(faulty->oracle);
    faulty->oracle->broken = faulty->oracle->full = faulty->oracle->fileless = false;
    sim_fs_crash(faulty->disk, 1 + (enum sim_damage)(faulty->at % SIM_DAMAGES_ALL));
    world_init(world, &short_life, faulty->disk, faulty->oracle, faulty->at,
               before->machine.inner_ms + 10, before->machine.wall_ms + 10);
    world->serial = before->serial + 1000000;
    sim_totals.recoveries++;
    if (world_open(world))
        oracle_violation(faulty->oracle, "S: opens after a fault", UINT32_MAX, UINT32_MAX, "%s",
                         world->error);
    else
        world_look(world, true);
    world_drop(world);
    free(world);
}

/* Returns the number of I/Os, reads, allocations. */
static uint64_t counted(const struct faulty *faulty)
{
    if (faulty->fault <= FAULT_SPACE)
        return faulty->disk->ios;
    return faulty->fault == FAULT_READ ? faulty->disk->reads : memory_fault.allocations;
}

static uint64_t run(enum fault fault, uint64_t at, uint64_t seed)
{
    static struct sim_fs disk;
    static struct oracle oracle;
    struct faulty faulty = {.disk = &disk, .oracle = &oracle, .fault = fault, .at = at};
    uint64_t count;
    jmp_buf ended;

    sim_trying("sim fault %s %llu %llu", fault_names[fault], (unsigned long long)seed,
               (unsigned long long)at);
    faulty.world = malloc(sizeof *faulty.world);
    assert(faulty.world);
    sim_fs_init(&disk, seed);
    oracle_init(&oracle);
    world_init(faulty.world, &short_life, &disk, &oracle, seed, 1700000000000, 1700000000000);
    memory_fault = (struct memory_fault){0};
    arm(&faulty);
    on_assert = &ended;
    if (setjmp(ended)) { /* what it had stays behind */
        machine_switch(NULL);
        sim_totals.aborted++;
        world_in_product = memory_fault.counts = false;
        mend(&faulty);
        start_again(&faulty, true);
    } else if (go_through(&faulty)) {
        serve_again(&faulty);
        world_drop(faulty.world);
    } else {
        start_again(&faulty, false);
    }
    on_assert = NULL;
    count = counted(&faulty);
    sim_totals.faults++;
    sim_fs_fini(&disk);
    free(faulty.world);
    memory_fault = (struct memory_fault){0};
    return count;
}

void sim_fault_run(const char *name, uint64_t seed, uint64_t at)
{
    for (int fault = FAULT_IO; fault <= FAULTS; fault++)
        if (strcmp(name, fault_names[fault]) == 0)
            run((enum fault)fault, at, seed);
}

void sim_fault_runs(uint64_t seed, uint32_t runs)
{
    for (int fault = FAULT_IO; fault <= FAULTS; fault++) {
        uint64_t count = run((enum fault)fault, 0, seed);
        uint64_t stride = count / runs ? count / runs : 1;

        for (uint64_t at = 1 + seed % stride; at <= count; at += stride)
            run((enum fault)fault, at, seed);
    }
}
