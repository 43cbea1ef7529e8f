/*
 * bench: measures a running server with the load generator (load.h), and defines the command line
 * flags of a run, which bench/peers shares.
 *
 * Usage: zero the struct, then call load_flags_table, cli_parse with `rows`, and load_flags_plan.
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
    const char *duration, *delay, *due_in, *timeout, *topic, *trace;
    bool own_ids, take_after;
};

/* Fills `rows` with the shared flags and sets their values to the defaults. */
void load_flags_table(struct load_flags *flags);

/* Adds a flag that is specific to one program. */
void load_flags_add(struct load_flags *flags, struct cli_flag row);

/* Checks the values and fills in the plan except host, port and protocol. Generates a topic if
 * --topic is not given. Returns -1 to continue, else the exit code after printing the error. */
int load_flags_plan(const struct load_flags *flags, struct load_plan *plan);

#endif
