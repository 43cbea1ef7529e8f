/* cli: what the subcommands share: exit codes, flags and error messages. */
#ifndef TARRY_CLI_CLI_H
#define TARRY_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_REFUSED = 1,     /* rejected by the server, or a local failure */
    CLI_USAGE = 2,       /* invalid command line or configuration */
    CLI_UNREACHABLE = 3, /* no answer from the server */
    CLI_NOTHING = 4      /* no job taken, or not found */
};

/* Runs the command in argv. Returns the exit code. */
int cli_main(int argc, char **argv);

/* Prints "tarry: " and the text on standard error. Returns CLI_REFUSED, for `return
 * cli_error(…)`. */
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a problem that a server returned, with its code and status, in the same way. */
void cli_problem(const char *text, const char *code, long status);
/* Makes errors JSON objects from now on, one per line: {"error":…}, and for a problem of a server
 * also "code" and "status". */
void cli_errors_as_json(void);
/* Prints a command line error in the same way. Returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the error of a store that was opened locally. Returns the exit code for its negative
 * errno. */
int cli_store_error(int result, const char *error);
/* Returns whether a duration, or one within 1s..2s or exp:1s..10m, lacks its unit; it is then
 * rejected. */
bool cli_lacks_unit(const char *text);

/* ---- flags ---- */

enum { CLI_LIST_MAX = 1000 };

struct cli_list { /* values of a flag that may be repeated, or arguments */
    const char *at[CLI_LIST_MAX];
    size_t count;
};

enum cli_flag_kind {
    CLI_TEXT = 1 /* const char * */,
    CLI_SWITCH /* bool */,
    CLI_TIME /* const char *: in the server's format or in that of this program's output */,
    CLI_COUNT /* uint64_t */,
    CLI_NUMBER /* const char *: a number, as text */,
    CLI_DURATION /* const char *; a number without a unit is rejected, also within exp:1s..10m */,
    CLI_LIST
};

struct cli_flag {
    const char *name; /* without the dashes; NULL ends the table */
    enum cli_flag_kind kind;
    void *into;
    const char *value; /* placeholder of the value in the help */
    const char *help;
};

enum { CLI_VERBS_MAX = 12 };

struct cli_syntax {
    const char *usage; /* "push TOPIC [ID]" */
    const char *about; /* sentences for `tarry help push` */
    const struct cli_flag *flags;
    size_t least, most; /* number of arguments that are not flags */
    bool takes_command; /* arguments after "--" are kept unchanged */
    /* Words that the first argument may be, ending with NULL; empty: any. */
    const char *verbs[CLI_VERBS_MAX + 1];
    bool is_local; /* does not use a server: no --url, no --json */
};

/* Prints the help of a command. `flags` holds its own flags and the common ones, and ends with a
 * flag without a name. */
typedef void cli_help_printer(const struct cli_syntax *syntax, const struct cli_flag *flags);

/* Makes cli_parse print help by `printer` instead of as text from now on. */
void cli_help_print_by(cli_help_printer *printer);

struct cli_args {
    struct cli_list list; /* arguments that are not flags */
    char **command;       /* arguments after "--"; NULL: not given */
    const char *url;      /* --url, that of the profile, TARRY_URL or the default */
    const char *profile;  /* the profile in use, or NULL */
    bool json;
};

/* Parses argv by the syntax. Returns -1 to continue, else the exit code after printing the
 * requested help or an error. Strings point into argv. */
int cli_parse(int argc, char **argv, const struct cli_syntax *syntax, struct cli_args *out);

/* Checks a server's URL. Returns -1, or an exit code after printing an error. */
int cli_check_url(const char *text);
/* Returns " of profile 'NAME'" for a sentence about a server, or "" without a profile. Valid until the
 * next call. */
const char *cli_of_profile(const struct cli_args *args);
/* Prints which topic of which profile is about to lose jobs, on standard error: "purging 't' of
 * profile 'prod'". Prints nothing without a profile or with --json. */
void cli_announce(const struct cli_args *args, const char *verb, const char *topic);

#define CLI_URL_DEFAULT "http://127.0.0.1:8279"

#endif
