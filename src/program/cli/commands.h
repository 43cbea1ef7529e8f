/*
 * commands: the subcommands. Each file has a table for its noun, ended by a row without a name.
 *
 * A command that is one request to the server is a row of data, with hooks where it differs.
 */
#ifndef TARRY_CLI_COMMANDS_H
#define TARRY_CLI_COMMANDS_H

#include "cli/cli.h"

enum {
    CALL_FLAGS_MAX = 28,
    CALL_PAIRS_MAX = 2,
    CALL_REQUESTS_MAX = CLI_VERBS_MAX,
    CALL_CHOICES_MAX = 3
};

struct call; /* call.h */
struct buffer;
struct slice;

struct call_flag {
    const char *name; /* without the dashes; NULL ends the table */
    enum cli_flag_kind kind;
    const char *value; /* placeholder of the value in the help */
    const char *help;
    bool is_unsent; /* not a parameter of the query; a hook or the path uses it */
};

struct call_request {
    /* Conditions; the request fits if all that are set are met. */
    const char *verb;                    /* the first argument, or the default if it is absent */
    const char *flags[CALL_CHOICES_MAX]; /* one of these flags is given */
    size_t least;                        /* there are at least this many arguments */
    const char *bulk; /* there are several ids or "-": change them by this verb, printing `done` */
    const char *done; /* "cancelled"; also for hooks */

    const char *method;
    /* "topics/{0}/jobs/{1}?body=base64": {N} is an argument, {name} a flag. If a value is
     * absent, its segment or parameter is left out. */
    const char *path;
    const char *repeat;  /* parameter that is sent once for each argument */
    int64_t wait_ms;     /* time that the server may take in addition to the usual timeout */
    const char *expects; /* member of every valid answer; NULL: not checked */

    /* Writes the body, and may add headers. Returns an exit code. NULL: there is no body. */
    int (*body)(struct call *call, struct buffer *out);
    /* Makes the call in place of client_call. Returns an exit code. */
    int (*make)(struct call *call, const struct slice *body);
    /* Turns the outcome of the call into the exit code of the command. NULL: unchanged. */
    int (*conclude)(const struct call *call, int exit_code);
    /* Prints the answer for the user. */
    void (*print)(const struct call *call);
};

/* A command that is one request: its command line, the request, and how its answer is printed. */
struct call_row {
    const char *usage, *about; /* as in struct cli_syntax */
    size_t least, most;        /* number of arguments that are not flags */
    struct call_flag flags[CALL_FLAGS_MAX + 1];
    const char *pairs[CALL_PAIRS_MAX][2];            /* flags that exclude each other */
    struct call_request requests[CALL_REQUESTS_MAX]; /* the first that fits is made */
    /* Checks the command line further and may set values. Returns -1 to continue, else the exit
     * code after printing an error. */
    int (*check)(struct call *call);
};

struct cli_command {
    const char *name;
    const char *help; /* one line */
    /* One of the two: the request that the command is, or a function, which returns an exit code.
     * argv[0] is the name. */
    struct call_row call;
    int (*run)(int argc, char **argv);
    /* Prints its help by a printer. NULL: cli_parse does, when help is requested. */
    void (*describe)(cli_help_printer *printer);
};

/* Defined in NOUN.c. */
extern const struct cli_command cli_serve_commands[];
extern const struct cli_command cli_push_commands[];
extern const struct cli_command cli_lease_commands[];
extern const struct cli_command cli_work_commands[];
extern const struct cli_command cli_wait_commands[];
extern const struct cli_command cli_batch_commands[];
extern const struct cli_command cli_job_commands[];
extern const struct cli_command cli_topic_commands[];
extern const struct cli_command cli_group_commands[];
extern const struct cli_command cli_clock_commands[];
extern const struct cli_command cli_deliver_commands[];
extern const struct cli_command cli_dead_commands[];
extern const struct cli_command cli_export_commands[];
extern const struct cli_command cli_import_commands[];
extern const struct cli_command cli_bench_commands[];
extern const struct cli_command cli_backup_commands[];
extern const struct cli_command cli_fsck_commands[];
extern const struct cli_command cli_reshard_commands[];
extern const struct cli_command cli_schedule_commands[];
extern const struct cli_command cli_schema_commands[];
extern const struct cli_command cli_token_commands[];
extern const struct cli_command cli_profile_commands[];
extern const struct cli_command cli_tail_commands[];
extern const struct cli_command cli_status_commands[];
extern const struct cli_command cli_top_commands[];
extern const struct cli_command cli_drain_commands[];

/* ---- all commands, in the order of the help (commands.c) ---- */

enum { COMMANDS_MAX = 64 };

/* Adds the commands of the program itself, which come last. To be called first. */
void cli_commands_add_own(const struct cli_command *own);
/* Returns the command after `command`, or NULL after the last one. NULL stands before the first. */
const struct cli_command *cli_command_after(const struct cli_command *command);
const struct cli_command *cli_command_find(const char *name);

#define EACH_COMMAND(COMMAND)                                                                      \
    for (const struct cli_command *COMMAND = cli_command_after(NULL); COMMAND;                     \
         COMMAND = cli_command_after(COMMAND))

/* Returns the title of the section that begins with this command, or NULL. */
const char *cli_command_title(const struct cli_command *command);
/* Runs the command; argv[0] is its name. Returns the exit code. */
int cli_command_run(const struct cli_command *command, int argc, char **argv);
/* Prints its help. Returns the exit code. */
int cli_command_help(const struct cli_command *command);
/* Returns the length of the command's name, with which its usage begins. */
int cli_name_length(const struct cli_syntax *syntax);

/* Describe one command, and every command, by `printer`. */
void cli_command_describe(const struct cli_command *command, cli_help_printer *printer);
void cli_commands_describe(cli_help_printer *printer);

/* The parts of the help that hold for all commands. */
extern const char cli_about_all[], cli_about_exit_codes[];

/* Prints the rows of all metrics as Markdown on standard output. */
void cli_print_metrics(void);

#endif
