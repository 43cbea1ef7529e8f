/* The commands help and version, and the start of the program. */
#include "base/feature.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/completion.h"
#include "cli/environment.h"
#include "cli/manual.h"

#include <string.h>
#include <unistd.h>

/* Words of other programs, and what to use here. */
static const struct {
    const char *word, *instead;
} words[] = {
    {"add", "tarry push"},
    {"completion", "tarry help --completion bash|zsh|fish"},
    {"config", "tarry topic show TOPIC"},
    {"consume", "tarry take TOPIC' or 'tarry work TOPIC"},
    {"count", "tarry topics"},
    {"create", "tarry push"},
    {"cron", "tarry schedule set"},
    {"dead", "tarry list TOPIC --state dead"},
    {"delete", "tarry cancel TOPIC ID' or 'tarry topic delete TOPIC"},
    {"describe", "tarry topic show TOPIC"},
    {"dlq", "tarry list TOPIC --state dead"},
    {"drop", "tarry topic delete TOPIC"},
    {"enqueue", "tarry push"},
    {"find", "tarry locate ID"},
    {"health", "tarry status"},
    {"info", "tarry status"},
    {"jobs", "tarry list TOPIC"},
    {"kick", "tarry redrive"},
    {"log", "tarry tail"},
    {"login", "tarry profile add"},
    {"logs", "tarry tail"},
    {"ls", "tarry topics' or 'tarry list TOPIC"},
    {"monitor", "tarry top"},
    {"peek", "tarry get TOPIC ID' or 'tarry list TOPIC"},
    {"pop", "tarry take"},
    {"publish", "tarry push"},
    {"put", "tarry push"},
    {"queue", "tarry topic"},
    {"queues", "tarry topics"},
    {"receive", "tarry take"},
    {"release", "tarry nack"},
    {"remove", "tarry cancel TOPIC ID' or 'tarry topic delete TOPIC"},
    {"replay", "tarry redrive"},
    {"requeue", "tarry redrive"},
    {"reserve", "tarry take"},
    {"retry", "tarry redrive"},
    {"rm", "tarry cancel TOPIC ID' or 'tarry topic delete TOPIC"},
    {"schedules", "tarry schedule list"},
    {"search", "tarry locate ID' or 'tarry list TOPIC"},
    {"send", "tarry push"},
    {"server", "tarry serve"},
    {"show", "tarry get TOPIC ID' or 'tarry topic show TOPIC"},
    {"start", "tarry serve"},
    {"stats", "tarry topics' or 'tarry top"},
    {"subscribe", "tarry tail"},
    {"touch", "tarry extend"},
    {"unpause", "tarry resume"},
    {"watch", "tarry tail' or 'tarry top"},
    {"worker", "tarry work"},
    {"workers", "tarry consumers TOPIC"},
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
    EACH_COMMAND(command)
    {
        const char *title = cli_command_title(command);
        if (title)
            fprintf(out, "\n%s:\n", title);
        fprintf(out, "  %-12s%s\n", command->name, command->help);
    }
    fprintf(out, "\n%s\nexit codes:\n%s\n'tarry help COMMAND' shows the options of a command\n",
            cli_about_all, cli_about_exit_codes);
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
    return command ? cli_command_help(command) : unknown_command(args.list.at[0]);
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

static const struct cli_command own_commands[] = {
    {.name = "version", .run = version_command, .help = "print the version"},
    {.name = "help", .run = help_command, .help = "print this, or help for a command"},
    {0},
};

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
    cli_commands_add_own(own_commands);
    if (argc < 2) {
        print_commands(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0)
        name = "version";
    if (strcmp(name, "__complete") == 0) /* called by the completion scripts */
        return complete_print(argc - 2, argv + 2);
    if (asks_for_json(argv + 1))
        cli_errors_as_json();
    const struct cli_command *command = cli_command_find(name);
    if (!command)
        return unknown_command(name);
    int exit_code = -1;
    if (command->run != help_command && command->run != version_command)
        exit_code = environment_check(environ);
    if (exit_code < 0)
        exit_code = cli_command_run(command, argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout))
        return exit_code ? exit_code : cli_error("cannot write to standard output");
    return exit_code;
}
