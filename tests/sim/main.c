/*
 * sim crashes 0|1                what `make test` runs: a half of the scenarios each
 * sim faults [N]                 and this: about N faults of each kind
 * sim crash SCENARIO SEED [IO DAMAGE DAMAGE_SEED]   one run, or one crash of it
 * sim churn [N]                  and this: N lives in which calls cross every step of a checkpoint
 * sim torture RECOVERIES         until so many crashes were recovered from
 * sim fault KIND SEED N          the N-th of that kind fails
 */
#include "sim.h"

#include "unit/repetitions.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

uint64_t sim_violations;
static char trying[256];

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:quarantine_size_mb=8:detect_stack_use_after_return=0";
}

void sim_trying(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(trying, sizeof trying, format, arguments);
    va_end(arguments);
}

void sim_report(void)
{
    sim_violations++;
    printf("repeat with: %s\n", trying);
    machine_log_show();
    fflush(stdout);
    if (sim_violations >= 10) {
        printf("enough\n0 passed, 1 failed\n");
        exit(1);
    }
}

static void on_abort(int signal_number)
{
    (void)signal_number;
    /* Not safe in a signal handler in general; the process ends here. */
    printf("ABORTED; repeat with: %s\n", trying);
    fflush(stdout);
    _exit(3);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- what a run must have met ---- */

static void require(bool met, const char *what)
{
    if (met)
        return;
    sim_totals.invalid++;
    printf("INVALID: %s\n", what);
}

static void print_totals(double began)
{
    const struct world_figures *figures = &sim_totals.figures;
    const uint64_t *seen = sim_totals.seen;

    printf("%" PRIu64 " runs, %" PRIu64 " commands, %" PRIu64 " I/Os; %" PRIu64
           " recoveries, %" PRIu64 " of these inside or after another; %" PRIu64
           " looks at all jobs; %.1f s\n",
           sim_totals.runs, figures->commands, sim_totals.ios, sim_totals.recoveries,
           sim_totals.within, figures->quiets, seconds() - began);
    printf("%" PRIu64 " checkpoints, %" PRIu64 " given up, %" PRIu64 " merges of keys, %" PRIu64
           " stops, %" PRIu64 " refusals for want of space, %" PRIu64
           " waits for room in the log\n",
           figures->checkpoints, figures->failed_checkpoints, figures->merges, figures->reopened,
           figures->no_space, world_waits_for_room);
    printf("%" PRIu64 " checkpoints amid a merge, %" PRIu64 " pauses of merging, %" PRIu64
           " given up; looked for in runs: %" PRIu64 " found, %" PRIu64 " not; %" PRIu64
           " times a filter was refuted at once\n",
           figures->amid_merges, sim_totals.merges_cut, sim_totals.merges_abandoned,
           sim_totals.found, sim_totals.not_found, sim_totals.refuted);
    printf("when the power went: waiting %" PRIu64 ", leased %" PRIu64 ", dead %" PRIu64
           ", remembered %" PRIu64 "\n",
           seen[GUESS_WAITING], seen[GUESS_LEASED], seen[GUESS_DEAD], seen[GUESS_REMEMBERED]);
    printf("%" PRIu64 " faults, of which %" PRIu64
           " ended the process for want of memory to refuse with\n",
           sim_totals.faults, sim_totals.aborted);
    if (sim_totals.recoveries && !sim_violations)
        printf("no failure in %" PRIu64 " recoveries: fewer than %.2g at 95 %%\n",
               sim_totals.recoveries, 3.0 / (double)sim_totals.recoveries);
}

/* NULL: everything that must be met was. */
static const char *what_is_missing(void)
{
    for (int i = GUESS_WAITING; i < GUESS_STATES; i++)
        if (!sim_totals.seen[i])
            return "a state that no job was in when the power went";
    if (!sim_totals.kills_in_flight)
        return "no command was under way when the power went";
    if (!sim_totals.within)
        return "no crash within a recovery";
    if (!sim_totals.redelivered)
        return "no job was delivered twice";
    if (!sim_totals.figures.checkpoints)
        return "no checkpoint was committed";
    if (!sim_totals.figures.merges)
        return "no tables of keys were merged";
    if (!sim_totals.figures.amid_merges)
        return "no checkpoint was made between two steps of a merge";
    if (!sim_totals.found || !sim_totals.not_found)
        return "no job was looked for in runs";
    if (!world_waits_for_room)
        return "no call waited for room in the log";
    return NULL;
}

static int summary(const char *what)
{
    bool failed;

    if (!strcmp(what, "churn")) {
        require(sim_totals.figures.checkpoints > 50, "few checkpoints");
        require(world_waits_for_room > 0, "no call waited for room in the log");
    } else if (!strcmp(what, "faults")) {
        require(sim_totals.faults > 100, "few faults");
        require(sim_totals.recoveries > 0, "no fault stopped a shard");
    } else {
        require(!what_is_missing(), what_is_missing());
    }
    failed = sim_violations || sim_totals.invalid;
    printf("%d passed, %d failed\n", !failed, failed);
    return failed;
}

/* ---- what to run ---- */

enum {
    CRASHES = 13000,
    CRASHES_SHORT = 4000,
    STRIDE = 37, /* each seed begins with another I/O */
    STRIDE_SHORT = 111,
    ROUNDS_MAX = 5, /* of seeds that do not meet all */
    SAY_FROM = 100000
};

static int usage(void)
{
    printf("sim: give one of: crashes 0|1, faults [N], churn [N], torture RECOVERIES, crash "
           "SCENARIO SEED, "
           "fault KIND SEED N\n");
    return 2;
}

static uint64_t seed_of_run(void)
{
    const char *given = getenv("TARRY_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) % 1000000;

    printf("sim: TARRY_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static bool goes_on(uint64_t recoveries, uint64_t round)
{
    if (sim_totals.recoveries < recoveries)
        return true;
    if (!what_is_missing() || round >= ROUNDS_MAX)
        return false;
    printf("another seed: %s\n", what_is_missing());
    return true;
}

/* Every scenario has its share, the half of them in one section of two. A seed need not meet all that
 * must be met: then the next one follows. */
static void crash_until(uint64_t recoveries, uint64_t seed, uint64_t stride, size_t first,
                        size_t step)
{
    for (uint64_t round = 0; goes_on(recoveries, round) && sim_violations == 0; round++) {
        for (size_t i = first; i < sim_scenario_count; i += step) {
            struct sim_crashing crashing = {.scenario = &sim_scenarios[i],
                                            .seed = seed + round,
                                            .stride = stride,
                                            .from = (seed + round) % stride,
                                            .seeds = 4};

            sim_crash_run(&crashing);
        }
        if (recoveries >= SAY_FROM)
            printf("seed %" PRIu64 ": %" PRIu64 " recoveries so far\n", seed + round,
                   sim_totals.recoveries);
    }
}

static int run_one(int count, char **arguments)
{
    struct sim_crashing crashing = {.scenario = sim_scenario(arguments[0]),
                                    .seed = strtoull(arguments[1], NULL, 0),
                                    .stride = 1,
                                    .seeds = 4};
    double began = seconds();

    if (!crashing.scenario) {
        printf("no scenario '%s'\n", arguments[0]);
        return 2;
    }
    if (count == 3)
        crashing.stride = strtoull(arguments[2], NULL, 0);
    if (count >= 5)
        crashing.only = (struct sim_choice){.io = strtoull(arguments[2], NULL, 0),
                                            .damage = (uint32_t)strtoul(arguments[3], NULL, 0),
                                            .seed = (uint32_t)strtoul(arguments[4], NULL, 0)};
    sim_crash_run(&crashing);
    print_totals(began);
    return sim_violations != 0;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    uint64_t number = count > 2 ? strtoull(arguments[2], NULL, 0) : 0;
    double began = seconds();

    signal(SIGABRT, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count >= 4 && !strcmp(what, "crash"))
        return run_one(count - 2, arguments + 2);
    if (count >= 5 && !strcmp(what, "fault")) {
        sim_fault_run(arguments[2], strtoull(arguments[3], NULL, 0),
                      strtoull(arguments[4], NULL, 0));
        return sim_violations != 0;
    }
    if (!strcmp(what, "faults"))
        sim_fault_runs(seed_of_run(), number ? (uint32_t)number : (uint32_t)repetitions(60, 20));
    else if (!strcmp(what, "churn"))
        sim_churn(seed_of_run(), number ? (uint32_t)number : 20);
    else if (!strcmp(what, "torture"))
        crash_until(number, seed_of_run(), STRIDE, 0, 1);
    else if (!strcmp(what, "crashes"))
        crash_until(repetitions(CRASHES, CRASHES_SHORT) / 2, seed_of_run(),
                    repetitions(STRIDE, STRIDE_SHORT), number % 2, 2);
    else
        return usage();
    print_totals(began);
    return summary(what);
}
