/* serve: runs the server. Its options are those of the configuration. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "server/config.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_syntax syntax = {
    .usage = "serve [OPTIONS]",
    .about =
        "Runs the server until SIGTERM or SIGINT, which let requests in progress end; a second "
        "one\n"
        "stops it immediately. SIGHUP reopens the log and reads configuration, policy, tokens and\n"
        "certificates again; the log lists options that need a restart. Every option can also be "
        "a\n"
        "variable (--max-body is TARRY_MAX_BODY) or a line of the file (max-body = 1MiB); a flag\n"
        "overrides the environment, which overrides the file. Defaults are in brackets.",
};

#define CHECK_HELP "Report all faults of the configuration and the files it names, without starting"

static void print_help(void)
{
    printf("usage: tarry %s\n\n%s\n\noptions:\n", syntax.usage, syntax.about);
    config_print_help(stdout);
    printf("  --check\n      %s\n", CHECK_HELP);
}

/* Converts a row of the configuration table to a command line flag. `help` holds its text. */
static struct cli_flag flag_of(const struct option *option, char help[OPTION_TEXT_BYTES])
{
    bool is_switch = option->kind == OPTION_SWITCH || option->kind == OPTION_CLOCK;
    bool has_default = !is_switch && option->initial[0];
    snprintf(help, OPTION_TEXT_BYTES, "%s%s%s%s", option->help, has_default ? " (" : "",
             has_default ? option->initial : "", has_default ? ")" : "");
    return (struct cli_flag){option->name, is_switch ? CLI_SWITCH : CLI_TEXT, NULL,
                             is_switch ? NULL : option->values, help};
}

/* Describes the command with the options of the configuration. */
static void serve_describe(cli_help_printer *printer)
{
    static char helps[CONFIG_OPTIONS_MAX][OPTION_TEXT_BYTES];
    struct cli_flag flags[CONFIG_OPTIONS_MAX + 3] = {0};
    size_t count;
    const struct option *options = config_options(&count);
    for (size_t i = 0; i < count; i++)
        flags[i] = flag_of(&options[i], helps[i]);
    flags[count++] = (struct cli_flag){"check", CLI_SWITCH, NULL, NULL, CHECK_HELP};
    flags[count] = (struct cli_flag){"help", CLI_SWITCH, NULL, NULL, "Print this help"};
    printer(&syntax, flags);
}

/* ---- serve --check ---- */

static void print_fault(void *ctx, const char *fault)
{
    (void)ctx;
    fprintf(stderr, "tarry: %s\n", fault);
}

static void print_listeners(const struct config *config)
{
    for (uint32_t i = 0; i < config->listen.count; i++) {
        const struct listener_options *listener = &config->listen.at[i];
        char name[ADDRESS_TEXT_BYTES];
        address_emit(listener, name);
        printf("listens on %s%s%s%s\n", name, listener->tls ? ", with TLS" : "",
               config_can_prove(config, listener) && listener->token != LISTENER_TOKEN_NONE
                   ? ", clients must authenticate"
                   : "",
               listener->proxy_protocol ? ", behind a proxy" : "");
    }
}

/* Prints what the server would do with this configuration. */
static void print_configuration(const struct config *config)
{
    print_listeners(config);
    if (config_is_sql(config))
        printf("stores jobs in %s, which was not contacted\n",
               config_is_mysql(config) ? "MariaDB or MySQL" : "PostgreSQL");
    else if (config_is_redis(config))
        printf("stores jobs in Redis, which was not contacted\n");
    else
        printf("stores jobs in %s\n", config->data);
    printf("%s\n",
           config->deliver[0] ? "delivers jobs to targets" : "does not deliver jobs to targets");
    printf("a stop takes at most %lld s\n", (long long)(config->grace_ms / 1000));
}

static int check_command(int argc, char *const *args)
{
    struct config config;
    uint32_t faults = config_check(&config, argc, args, getenv, print_fault, NULL);
    if (faults == 0)
        faults = server_check(&config, print_fault, NULL);
    if (faults) {
        fprintf(stderr, "%u fault%s\n", faults, faults == 1 ? "" : "s");
        return CLI_USAGE;
    }
    print_configuration(&config);
    printf("the configuration is valid\n");
    return CLI_OK;
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
    int count = 0;
    bool checks = false;
    for (int i = 1; i < argc; i++) { /* anywhere on the command line */
        if (strcmp(argv[i], "--check") == 0)
            checks = true;
        else
            argv[1 + count++] = argv[i];
    }
    if (checks)
        return check_command(count, argv + 1);
    char fault[SERVER_ERROR_BYTES];
    if (!config_load(&config, count, argv + 1, getenv, error))
        return cli_usage("%s", error);
    if (!server_check_options(&config, fault))
        return cli_usage("%s", fault);
    return server_run(&config, count, argv + 1) ? CLI_OK : CLI_REFUSED;
}

const struct cli_command cli_serve_commands[] = {
    {.name = "serve", .run = serve_command, .help = "run the server", .describe = serve_describe},
    {0},
};
