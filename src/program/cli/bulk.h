/*
 * bulk: applies one change to many jobs of a topic, with ids from the command line or standard
 * input.
 *
 * Sends a thousand ids per call over one connection. Ids from the command line are reported one by
 * one as they are done; for standard input only the count is reported. Jobs that could not be
 * changed are reported on standard error.
 */
#ifndef TARRY_CLI_BULK_H
#define TARRY_CLI_BULK_H

#include "cli/cli.h"

struct bulk_option { /* a query parameter; value NULL: not given */
    const char *name, *value;
};

struct bulk_change {
    const char *verb;                  /* "cancel" */
    const char *done;                  /* "cancelled" */
    const struct bulk_option *options; /* ends with an option without a name; NULL: no options */
};

/* Returns whether several ids, or those on standard input (`-`), follow the topic. */
bool bulk_is_meant(const struct cli_args *args);
/* Runs the change. Returns the worst outcome as the exit code. */
int bulk_run(const struct cli_args *args, const struct bulk_change *change);

#endif
