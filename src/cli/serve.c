/* serve: runs the server, whose options are the configuration's. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_syntax syntax = {
    .usage = "serve [OPTIONS]",
    .about =
        "Runs the server until SIGTERM or SIGINT, which let it finish what is under way; a second\n"
        "one stops it at once. SIGHUP opens the log file again and reads the policy file of\n"
        "--deliver anew. Every option can also be a variable (--max-body is TARRY_MAX_BODY) or a\n"
        "line of the file (max-body = 1MiB); a flag beats the environment, which beats the file.\n"
        "Defaults in brackets.",
};

static void print_help(void)
{
    printf("usage: tarry %s\n\n%s\n\noptions:\n", syntax.usage, syntax.about);
    config_print_help(stdout);
}

/* A row of the configuration's table as a flag of the command line. `help` has its text. */
static struct cli_flag flag_of(const struct option *option, char help[OPTION_TEXT_BYTES])
{
    bool is_switch = option->kind == OPTION_SWITCH;
    bool has_default = !is_switch && option->initial[0];
    snprintf(help, OPTION_TEXT_BYTES, "%s%s%s%s", option->help, has_default ? " (" : "",
             has_default ? option->initial : "", has_default ? ")" : "");
    return (struct cli_flag){option->name, is_switch ? CLI_SWITCH : CLI_TEXT, NULL,
                             is_switch ? NULL : option->values, help};
}

/* Its options are the configuration's. */
static void serve_describe(cli_help_printer *printer)
{
    enum { ROWS_MAX = 64 }; /* as many as `given` of struct config has bits */
    static char helps[ROWS_MAX][OPTION_TEXT_BYTES];
    struct cli_flag flags[ROWS_MAX + 2] = {0};
    size_t count;
    const struct option *options = config_options(&count);
    for (size_t i = 0; i < count; i++)
        flags[i] = flag_of(&options[i], helps[i]);
    flags[count] = (struct cli_flag){"help", CLI_SWITCH, NULL, NULL, "print this"};
    printer(&syntax, flags);
}

static int serve_command(int argc, char **argv)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return CLI_OK;
        }
    if (!config_load(&config, argc - 1, argv + 1, getenv, error))
        return cli_usage("%s", error);
    return server_run(&config) ? CLI_OK : CLI_REFUSED;
}

const struct cli_command cli_serve_commands[] = {
    {.name = "serve", .run = serve_command, .help = "run the server", .describe = serve_describe},
    {0},
};
