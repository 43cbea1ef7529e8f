/* The table of all subcommands. */
#include "cli/commands.h"

#include "cli/call.h"

#include <string.h>

struct section {       /* of the help */
    const char *title; /* NULL: the section before goes on */
    const struct cli_command *commands;
};

/* In the order of the help. */
static struct section sections[] = {
    {"Jobs", cli_push_commands},
    {NULL, cli_lease_commands},
    {NULL, cli_work_commands},
    {NULL, cli_job_commands},
    {NULL, cli_wait_commands},
    {NULL, cli_batch_commands},
    {"Schedules", cli_schedule_commands},
    {"Topics", cli_topic_commands},
    {NULL, cli_group_commands},
    {NULL, cli_deliver_commands},
    {NULL, cli_dead_commands},
    {"Server", cli_serve_commands},
    {NULL, cli_status_commands},
    {NULL, cli_top_commands},
    {NULL, cli_tail_commands},
    {NULL, cli_token_commands},
    {NULL, cli_drain_commands},
    {NULL, cli_clock_commands},
    {NULL, cli_bench_commands},
    {NULL, cli_profile_commands},
    {"Stored data", cli_export_commands},
    {NULL, cli_import_commands},
    {NULL, cli_backup_commands},
    {NULL, cli_fsck_commands},
    {NULL, cli_reshard_commands},
    {NULL, cli_schema_commands},
    {"Help", NULL}, /* cli_commands_add_own */
};

enum { SECTIONS = sizeof sections / sizeof sections[0] };

void cli_commands_add_own(const struct cli_command *own)
{
    sections[SECTIONS - 1].commands = own;
}

/* Returns the first command from a section on. */
static const struct cli_command *first_from(size_t section)
{
    while (section < SECTIONS && !sections[section].commands->name)
        section++;
    return section < SECTIONS ? sections[section].commands : NULL;
}

static bool is_of(const struct section *section, const struct cli_command *command)
{
    const struct cli_command *at = section->commands;
    while (at->name && at != command)
        at++;
    return at->name;
}

const struct cli_command *cli_command_after(const struct cli_command *command)
{
    size_t section = 0;
    if (!command)
        return first_from(0);
    if (command[1].name)
        return command + 1;
    while (!is_of(&sections[section], command))
        section++;
    return first_from(section + 1);
}

const char cli_about_all[] =
    "clients connect to --url, or the server of --profile or TARRY_PROFILE, then TARRY_URL, "
    "then " CLI_URL_DEFAULT "\n"
    "durations: 1500ms, 30s, 30m, 2h30m, 7d, PT30M; a unit is required\n"
    "times: 2026-11-20T09:00:00Z, '2026-11-20 09:00' in your time zone, or milliseconds since "
    "1970\n";

const char cli_about_exit_codes[] = "  0  done\n"
                                    "  1  rejected by the server, or failed\n"
                                    "  2  wrong command line or configuration\n"
                                    "  3  the server cannot be reached\n"
                                    "  4  no job taken, or not found\n";

const struct cli_command *cli_command_find(const char *name)
{
    EACH_COMMAND(command)
    if (strcmp(command->name, name) == 0)
        return command;
    return NULL;
}

const char *cli_command_title(const struct cli_command *command)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (sections[i].commands == command)
            return sections[i].title;
    return NULL;
}

int cli_command_run(const struct cli_command *command, int argc, char **argv)
{
    return command->call.usage ? call_run(&command->call, argc, argv) : command->run(argc, argv);
}

int cli_command_help(const struct cli_command *command)
{
    char name[32], help[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    return cli_command_run(command, 2, (char *[]){name, help, NULL});
}

int cli_name_length(const struct cli_syntax *syntax)
{
    return (int)strcspn(syntax->usage, " ");
}

void cli_command_describe(const struct cli_command *command, cli_help_printer *printer)
{
    cli_help_print_by(printer);
    if (command->describe)
        command->describe(printer);
    else
        cli_command_help(command);
}

void cli_commands_describe(cli_help_printer *printer)
{
    EACH_COMMAND(command)
    cli_command_describe(command, printer);
}
