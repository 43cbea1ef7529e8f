/*
 * bench: measures a running server with the load generator (load.h); and the plan of a run as
 * command line flags, which bench/peers shares.
 *
 * Usage: zeroed struct; load_flags_table; cli_parse with `rows`; load_flags_plan.
 */
#ifndef TARRY_CLI_BENCH_H
#define TARRY_CLI_BENCH_H

#include "cli/cli.h"
#include "load/load.h"

enum { LOAD_FLAGS_MAX = 20 };

struct load_flags {
    struct cli_flag rows[LOAD_FLAGS_MAX];
    size_t row_count;
    uint64_t jobs, connections, pipeline, batch, body, consumers, take, rate;
    const char *duration, *delay, *due_in, *patience, *topic, *trace;
    bool own_ids, take_after;
};

/* Fills rows with the shared flags, their values with the defaults. */
void load_flags_table(struct load_flags *flags);

/* One more row, for what only one of the programs knows. */
void load_flags_add(struct load_flags *flags, struct cli_flag row);

/* Checks the values and fills in all of the plan but host, port and protocol; without a --topic it
 * makes one up. -1 to go on, else the exit code: the error was explained. */
int load_flags_plan(const struct load_flags *flags, struct load_plan *plan);

#endif
