/*
 * bulk: one change to many jobs of a topic, by ids of the command line or of standard input.
 *
 * As many calls as it takes, a thousand ids each, over one connection. Ids of the command line are
 * told one by one as they are done; of standard input only how many. Those that could not be changed
 * are told on standard error.
 */
#ifndef TARRY_CLI_BULK_H
#define TARRY_CLI_BULK_H

#include "cli/cli.h"

struct bulk_option { /* of the query; value NULL: not given */
    const char *name, *value;
};

struct bulk_change {
    const char *verb;                  /* "cancel" */
    const char *done;                  /* "cancelled" */
    const struct bulk_option *options; /* ends with one without a name; NULL: none */
};

/* Are these more ids than one, or those of standard input (`-`)? They follow the topic. */
bool bulk_is_meant(const struct cli_args *args);
/* The worst outcome is the exit code. */
int bulk_run(const struct cli_args *args, const struct bulk_change *change);

#endif
