/* The table of all subcommands, and the help. */
#include "cli/commands.h"

#include "base/feature.h"
#include "base/text.h"
#include "cli/call.h"
#include "cli/completion.h"
#include "cli/environment.h"
#include "cli/manual.h"

#include <string.h>
#include <unistd.h>

static int help_command(int argc, char **argv);
static int version_command(int argc, char **argv);

static const struct cli_command own_commands[] = {
    {.name = "version", .run = version_command, .help = "print the version"},
    {.name = "help", .run = help_command, .help = "print this, or help for a command"},
    {0},
};

struct section { /* of the help */
    const char *title; /* NULL: the section before goes on */
    const struct cli_command *commands;
};

/* In the order of the help. */
static const struct section sections[] = {
    {"Jobs", cli_push_commands},
    {NULL, cli_lease_commands},
    {NULL, cli_work_commands},
    {NULL, cli_job_commands},
    {"Schedules", cli_schedule_commands},
    {"Topics", cli_topic_commands},
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
    {"Stored data", cli_export_commands},
    {NULL, cli_import_commands},
    {NULL, cli_backup_commands},
    {NULL, cli_fsck_commands},
    {NULL, cli_reshard_commands},
    {NULL, cli_schema_commands},
    {"Help", own_commands},
};

enum { SECTIONS = sizeof sections / sizeof sections[0] };

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
    "clients connect to --url, then TARRY_URL, then " CLI_URL_DEFAULT "\n"
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

/* Words of other programs, and what to use here. */
static const struct {
    const char *word, *instead;
} words[] = {
    {"add", "tarry push"},
    {"cron", "tarry schedule set"},
    {"dead", "tarry list TOPIC --state dead"},
    {"delete", "tarry cancel TOPIC ID' or 'tarry topic delete TOPIC"},
    {"dlq", "tarry list TOPIC --state dead"},
    {"drop", "tarry topic delete TOPIC"},
    {"enqueue", "tarry push"},
    {"info", "tarry status"},
    {"jobs", "tarry list TOPIC"},
    {"kick", "tarry redrive"},
    {"log", "tarry tail"},
    {"logs", "tarry tail"},
    {"ls", "tarry topics' or 'tarry list TOPIC"},
    {"monitor", "tarry top"},
    {"peek", "tarry get TOPIC ID' or 'tarry list TOPIC"},
    {"pop", "tarry take"},
    {"put", "tarry push"},
    {"queue", "tarry topic"},
    {"queues", "tarry topics"},
    {"receive", "tarry take"},
    {"release", "tarry nack"},
    {"remove", "tarry cancel TOPIC ID' or 'tarry topic delete TOPIC"},
    {"requeue", "tarry redrive"},
    {"reserve", "tarry take"},
    {"retry", "tarry redrive"},
    {"rm", "tarry cancel TOPIC ID' or 'tarry topic delete TOPIC"},
    {"schedules", "tarry schedule list"},
    {"send", "tarry push"},
    {"server", "tarry serve"},
    {"show", "tarry get TOPIC ID' or 'tarry topic show TOPIC"},
    {"start", "tarry serve"},
    {"stats", "tarry topics' or 'tarry top"},
    {"touch", "tarry extend"},
    {"watch", "tarry tail' or 'tarry top"},
    {"worker", "tarry work"},
};

static int unknown_command(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(name, words[i].word) == 0)
            return cli_usage("unknown command '%s', use '%s'", name, words[i].instead);
    const char *names[COMMANDS_MAX + 1] = {0};
    size_t count = 0;
    EACH_COMMAND(command)
    names[count++] = command->name;
    const char *nearest = text_nearest(name, names);
    if (nearest)
        return cli_usage("unknown command '%s', did you mean 'tarry %s'", name, nearest);
    return cli_usage("unknown command '%s', see 'tarry help'", name);
}

/* ---- help ---- */

static void print_commands(FILE *out)
{
    fputs("tarry: a durable delay queue. Hand it a job now, get it back when it is due.\n\n"
          "usage: tarry COMMAND [ARGUMENTS]\n",
          out);
    for (size_t i = 0; i < SECTIONS; i++) {
        if (sections[i].title)
            fprintf(out, "\n%s:\n", sections[i].title);
        for (const struct cli_command *at = sections[i].commands; at->name; at++)
            fprintf(out, "  %-12s%s\n", at->name, at->help);
    }
    fprintf(out, "\n%s\nexit codes:\n%s\n'tarry help COMMAND' shows the options of a command\n",
            cli_about_all, cli_about_exit_codes);
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    return command->call.usage ? call_run(&command->call, argc, argv) : command->run(argc, argv);
}

static int print_help(const struct cli_command *command)
{
    char name[32], help[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    return run_command(command, 2, (char *[]){name, help, NULL});
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
        print_help(command);
}

void cli_commands_describe(cli_help_printer *printer)
{
    EACH_COMMAND(command)
    cli_command_describe(command, printer);
}

/* ---- help, version ---- */

static int help_command(int argc, char **argv)
{
    const char *page = NULL, *shell = NULL;
    const struct cli_flag flags[] = {
        {"man", CLI_TEXT, &page, "PAGE",
         "Print the manual page tarry, tarry-COMMAND or tarry.conf, as roff"},
        {"completion", CLI_TEXT, &shell, "SHELL",
         "Print the completion script for bash, zsh or fish"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "help [COMMAND] | help metrics | help --man PAGE | help --completion SHELL",
        .about = "Prints the list of commands, or the help of one. 'help metrics' prints the "
                 "meaning of each\n"
                 "metric at /metrics, and what to do when it changes.",
        .flags = flags,
        .most = 1,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (page)
        return manual_print(page);
    if (shell)
        return completion_print(shell);
    if (args.list.count == 0) {
        print_commands(stdout);
        return CLI_OK;
    }
    if (strcmp(args.list.at[0], "metrics") == 0) {
        cli_print_metrics();
        return CLI_OK;
    }
    const struct cli_command *command = cli_command_find(args.list.at[0]);
    return command ? print_help(command) : unknown_command(args.list.at[0]);
}

/* Prints one feature per line, or one JSON object with the version. */
static void print_features(bool json)
{
    size_t count;
    const struct feature *features = feature_all(&count);
    if (!json)
        puts("tarry " TARRY_VERSION);
    else
        fputs("{\"name\":\"tarry\",\"version\":\"" TARRY_VERSION "\",\"features\":{", stdout);
    for (size_t i = 0; i < count; i++) {
        const struct feature *feature = &features[i];
        if (json)
            printf("%s\"%s\":%s", i ? "," : "", feature->name,
                   feature->is_built ? "true" : "false");
        else
            printf("%-10s%-5s%s\n", feature->name, feature->is_built ? "yes" : "no",
                   feature->title);
    }
    if (json)
        puts("}}");
}

static int version_command(int argc, char **argv)
{
    bool features = false, json = false;
    const struct cli_flag flags[] = {
        {"features", CLI_SWITCH, &features, NULL, "Also print the optional parts of this build"},
        {"json", CLI_SWITCH, &json, NULL, "Print one JSON object"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "version [--features] [--json]",
        .about = "Prints the version.",
        .flags = flags,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (features)
        print_features(json);
    else
        puts(json ? "{\"name\":\"tarry\",\"version\":\"" TARRY_VERSION "\"}"
                  : "tarry " TARRY_VERSION);
    return CLI_OK;
}

/* ---- the program ---- */

/* Errors of the command line itself are JSON too, so this comes before it is parsed. */
static bool asks_for_json(char *const *argv)
{
    while (*argv && strcmp(*argv, "--") != 0 && strcmp(*argv, "--json") != 0)
        argv++;
    return *argv && strcmp(*argv, "--json") == 0;
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0)
        name = "version";
    const struct cli_command *command = cli_command_find(name);
    if (!command)
        return unknown_command(name);
    if (asks_for_json(argv + 1))
        cli_errors_as_json();
    int exit_code = -1;
    if (command->run != help_command && command->run != version_command)
        exit_code = environment_check(environ);
    if (exit_code < 0)
        exit_code = run_command(command, argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout))
        return exit_code ? exit_code : cli_error("cannot write to standard output");
    return exit_code;
}
