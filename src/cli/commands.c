#include "cli/commands.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/environment.h"
#include "cli/manual.h"

#include "base/text.h"

#include <string.h>
#include <unistd.h>

static int cli_help(int argc, char **argv);
static int cli_version(int argc, char **argv);

const struct cli_command cli_commands[] = {
    {"serve", cli_serve, "run the server"},
    {"push", cli_push, "hand over a job, to be delivered when it is due"},
    {"take", cli_take, "get ready jobs under a lease"},
    {"ack", cli_ack, "a taken job is done"},
    {"nack", cli_nack, "a taken job failed, to be tried again"},
    {"extend", cli_extend, "a taken job needs longer"},
    {"work", cli_work, "run a command for each job that falls due"},
    {"get", cli_get, "show one job"},
    {"list", cli_list, "list the jobs of a topic by due time"},
    {"cancel", cli_cancel, "drop jobs that are not wanted any more"},
    {"reschedule", cli_reschedule, "move a job to another due time or priority"},
    {"run", cli_run, "make jobs due now"},
    {"topics", cli_topics, "show topics and how many jobs they hold"},
    {"topic", cli_topic, "show a topic's settings, change them, or delete it"},
    {"deliver", cli_deliver, "test the target of a topic"},
    {"pause", cli_pause, "stop delivery from a topic"},
    {"resume", cli_resume, "start delivery from a topic again"},
    {"redrive", cli_redrive, "send dead jobs round again"},
    {"purge", cli_purge, "drop all jobs of a topic, or those in one state"},
    {"export", cli_export, "write topics and jobs to a file"},
    {"import", cli_import, "push what an export wrote"},
    {"bench", cli_bench, "measure a server"},
    {"backup", cli_backup, "copy the data directory of a server that works on"},
    {"fsck", cli_fsck, "check a data directory, or a queue in Redis and mend it"},
    {"version", cli_version, "print the version"},
    {"help", cli_help, "print this, or help on a command"},
    {0},
};

const char cli_about_all[] =
    "clients speak to --url, else TARRY_URL, else " CLI_URL_DEFAULT "\n"
    "durations: 1500ms, 30s, 30m, 2h30m, 7d, PT30M; a number needs its unit\n"
    "times: 2026-11-20T09:00:00Z, '2026-11-20 09:00' where you live, or milliseconds since 1970\n";

const char cli_about_exit_codes[] = "  0  done\n"
                                    "  1  refused by the server, or failed\n"
                                    "  2  wrong command line or configuration\n"
                                    "  3  the server cannot be reached\n"
                                    "  4  nothing taken, or not found\n";

static const struct cli_command *find(const char *name)
{
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[sizeof(cli_commands) / sizeof(cli_commands[0])] = {0};
    for (size_t i = 0; cli_commands[i].name; i++)
        names[i] = cli_commands[i].name;
    const char *nearest = text_nearest(name, names);
    if (nearest)
        return cli_usage("unknown command '%s', did you mean 'tarry %s'", name, nearest);
    return cli_usage("unknown command '%s', see 'tarry help'", name);
}

static void print_commands(FILE *out)
{
    fputs("tarry: a durable delay queue. Hand it a job now, get it back when it is due.\n\n"
          "usage: tarry COMMAND [ARGUMENTS]\n\ncommands:\n",
          out);
    for (const struct cli_command *command = cli_commands; command->name; command++)
        fprintf(out, "  %-12s%s\n", command->name, command->help);
    fprintf(out, "\n%s\nexit codes:\n%s\n'tarry help COMMAND' says more\n", cli_about_all,
            cli_about_exit_codes);
}

static int print_help(const struct cli_command *command)
{
    char name[32], help[] = "--help";
    snprintf(name, sizeof(name), "%s", command->name);
    return command->run(2, (char *[]){name, help, NULL});
}

void cli_commands_describe(cli_help_printer *printer)
{
    cli_help_print_by(printer);
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (command->run == cli_serve)
            cli_serve_describe(printer);
        else
            print_help(command);
}

static int cli_help(int argc, char **argv)
{
    const char *page = NULL, *shell = NULL;
    const struct cli_flag flags[] = {
        {"man", CLI_TEXT, &page, "PAGE", "print the manual page tarry or tarry.conf, as roff"},
        {"completion", CLI_TEXT, &shell, "SHELL",
         "print what lets bash, zsh or fish complete commands and options"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "help [COMMAND] | help --man PAGE | help --completion SHELL",
        .about = "Prints the commands, or what one of them does.",
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
    const struct cli_command *command = find(args.list.at[0]);
    return command ? print_help(command) : unknown(args.list.at[0]);
}

static int cli_version(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "version",
        .about = "Prints the version.",
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    puts("tarry " TARRY_VERSION);
    return CLI_OK;
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
    const struct cli_command *command = find(name);
    if (!command)
        return unknown(name);
    int exit_code = -1;
    if (command->run != cli_help && command->run != cli_version)
        exit_code = environment_check(environ);
    if (exit_code < 0)
        exit_code = command->run(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout))
        return exit_code ? exit_code : cli_error("cannot write to standard output");
    return exit_code;
}
