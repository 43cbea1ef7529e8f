/*
 * call: runs a command that is one request to the server, from its row (struct call_row in
 * commands.h), and serves the hooks of the row.
 *
 * Values of flags are checked by their kind and sent as parameters of the query. With --json the
 * answer is printed as received. Errors are printed on standard error. One thread.
 */
#ifndef TARRY_CLI_CALL_H
#define TARRY_CLI_CALL_H

#include "cli/client.h"
#include "cli/commands.h"

/* A command line that was read, and its request. */
struct call {
    const struct call_row *row;
    const struct call_request *request;
    struct cli_args args;
    struct client client;
    const char *values[CALL_FLAGS_MAX]; /* by the row's flags, as text; NULL: not given */
    struct cli_list list;               /* the values of the flag of kind CLI_LIST */
    int64_t wait_ms;                    /* the request's, unless `check` changes it */
};

/* Runs the command of a row. Returns an exit code. */
int call_run(const struct call_row *row, int argc, char **argv);

/* Returns the argument at an index, or NULL if there are fewer. */
const char *call_argument(const struct call *call, size_t i);
/* Returns the value of a flag, or NULL if it was not given. A switch that was given is "true". */
const char *call_value(const struct call *call, const char *flag);
void call_set(struct call *call, const char *flag, const char *value);
/* Returns a member of the answer, or NULL. */
const json_t *call_member(const struct call *call, const char *member);

/* Begins the request's target, with its path and parameters. */
void call_begin(struct call *call);

/* Bodies from --body or --file; without them, empty or standard input. */
int call_body(struct call *call, struct buffer *out);
int call_body_or_input(struct call *call, struct buffer *out);

/* Prints how to continue a list. A search may end before it finds a job. */
void call_print_next(const struct call *call);

/* Prints "{done} {0}". */
void call_print_done(const struct call *call);

#endif
