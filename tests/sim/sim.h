/*
 * sim: the runs: crashes at every I/O, faults, regressions by name; what they have met, and how to
 * repeat one that failed.
 */
#ifndef TARRY_TESTS_SIM_SIM_H
#define TARRY_TESTS_SIM_SIM_H

#include "world.h"

/* A choice of one crash of one run, or (zeroed) of all. */
struct sim_choice {
    uint64_t io; /* from 1; 0: every one */
    uint32_t damage, seed;
};

struct sim_totals {
    uint64_t runs, recoveries, within, twice, commands, ios, invalid, faults, aborted;
    struct world_figures figures;
    uint64_t seen[GUESS_STATES], kills_in_flight, redelivered;
    /* witness.c: jobs found by key in runs, and searched without success; a filter's maybe that a look at
     * the table refuted; pauses of merging, and abandoned merges. */
    uint64_t found, not_found, refuted, merges_cut, merges_abandoned;
};
extern struct sim_totals sim_totals;

/* Prints how to repeat the present attempt. */
void sim_trying(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_report(void); /* for violations and aborts */
extern uint64_t sim_violations;

const struct scenario *sim_scenario(const char *name); /* NULL: no scenario of that name */
extern const struct scenario sim_scenarios[];
extern const size_t sim_scenario_count;

/* A run with crashes at every I/O that is wanted, `seeds` of each damage. */
struct sim_crashing {
    const struct scenario *scenario;
    uint64_t seed;
    uint64_t stride, from; /* every stride-th, beginning with one of the first */
    uint32_t seeds;
    uint64_t recoveries_max; /* 0: no limit */
    struct sim_choice only;
};
void sim_crash_run(const struct sim_crashing *crashing);

/* About so many of each kind, spread over all there could be. */
void sim_fault_runs(uint64_t seed, uint32_t runs);
void sim_fault_run(const char *name, uint64_t seed, uint64_t at);

/* Runs so many lives, the first one with this seed. */
void sim_churn(uint64_t seed, uint32_t lives);

#endif
