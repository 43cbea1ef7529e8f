/*
 * cli: what the subcommands share: exit codes, flags, errors for people.
 */
#ifndef TARRY_CLI_CLI_H
#define TARRY_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_REFUSED = 1,     /* the server said no, or something failed here */
    CLI_USAGE = 2,       /* the command line or the configuration is wrong */
    CLI_UNREACHABLE = 3, /* no answer from the server */
    CLI_NOTHING = 4      /* nothing taken, or not found */
};

/* Runs what argv says. Returns the exit code. */
int cli_main(int argc, char **argv);

/* "tarry: " and the text, on standard error. Returns CLI_REFUSED, for `return cli_error(…)`. */
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a wrong command line: CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What a store that is opened here says: the exit code for its negative errno. */
int cli_store_error(int result, const char *error);
/* Does a duration, or one within 1s..2s or exp:1s..10m, lack its unit? Who wrote it is asked. */
bool cli_lacks_unit(const char *text);

/* ---- flags ---- */

enum { CLI_LIST_MAX = 1000 };

struct cli_list { /* of a flag that may be given several times, or of arguments */
    const char *at[CLI_LIST_MAX];
    size_t count;
};

enum cli_flag_kind {
    CLI_TEXT = 1 /* const char * */,
    CLI_SWITCH /* bool */,
    CLI_TIME /* const char *: as the server takes it; also as it is shown here */,
    CLI_COUNT /* uint64_t */,
    CLI_DURATION /* const char *; a bare number is asked for its unit, also within exp:1s..10m */,
    CLI_LIST
};

struct cli_flag {
    const char *name; /* without the dashes; NULL ends the table */
    enum cli_flag_kind kind;
    void *into;
    const char *value; /* how the value is called in the help */
    const char *help;
};

struct cli_syntax {
    const char *usage; /* "push TOPIC [ID]" */
    const char *about; /* sentences for `tarry help push` */
    const struct cli_flag *flags;
    size_t least, most; /* arguments that are no flags */
    bool takes_command; /* arguments go on after "--" untouched */
    bool is_local;      /* speaks to no server: no --url, no --json */
};

/* Shows a command; `flags` has its own and those that all have, and ends with one without a name.
 */
typedef void cli_help_printer(const struct cli_syntax *syntax, const struct cli_flag *flags);

/* From here on cli_parse shows a command by `printer`, not as text, where its help is asked for. */
void cli_help_print_by(cli_help_printer *printer);

struct cli_args {
    struct cli_list list; /* arguments that are no flags */
    char **command;       /* what follows "--"; NULL: nothing */
    const char *url;      /* --url, TARRY_URL or the default */
    bool json;
};

/* Reads argv by the syntax. Returns -1 to go on, else the exit code: the help was asked for and
 * printed, or there was an error and it was explained. Strings point into argv. */
int cli_parse(int argc, char **argv, const struct cli_syntax *syntax, struct cli_args *out);

#define CLI_URL_DEFAULT "http://127.0.0.1:8279"

#endif
