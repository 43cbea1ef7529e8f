/* commands: the subcommands. Each file has a table for its noun, ended by a row without a name. */
#ifndef TARRY_CLI_COMMANDS_H
#define TARRY_CLI_COMMANDS_H

#include "cli/cli.h"

struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns an exit code */
    const char *help;                  /* one line */
    /* Prints its help by a printer. NULL: `run` does, by cli_parse, when help is requested. */
    void (*describe)(cli_help_printer *printer);
};

/* Defined in NOUN.c. */
extern const struct cli_command cli_serve_commands[];
extern const struct cli_command cli_push_commands[];
extern const struct cli_command cli_lease_commands[];
extern const struct cli_command cli_work_commands[];
extern const struct cli_command cli_job_commands[];
extern const struct cli_command cli_topic_commands[];
extern const struct cli_command cli_clock_commands[];
extern const struct cli_command cli_deliver_commands[];
extern const struct cli_command cli_dead_commands[];
extern const struct cli_command cli_export_commands[];
extern const struct cli_command cli_import_commands[];
extern const struct cli_command cli_bench_commands[];
extern const struct cli_command cli_backup_commands[];
extern const struct cli_command cli_fsck_commands[];
extern const struct cli_command cli_reshard_commands[];
extern const struct cli_command cli_schema_commands[];
extern const struct cli_command cli_token_commands[];
extern const struct cli_command cli_tail_commands[];
extern const struct cli_command cli_status_commands[];
extern const struct cli_command cli_top_commands[];
extern const struct cli_command cli_drain_commands[];

/* Prints the rows of all metrics as Markdown on standard output. */
void cli_print_metrics(void);

#endif
