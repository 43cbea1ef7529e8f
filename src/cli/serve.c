#include "cli/cli.h"
#include "cli/commands.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>

static void print_help(void)
{
    puts(
        "usage: tarry serve [OPTIONS]\n\n"
        "Runs the server until SIGTERM or SIGINT, which let it finish what is under way; a second\n"
        "one stops it at once. SIGHUP opens the log file again and reads the policy file of\n"
        "--deliver anew. Every option can also be a variable (--max-body is TARRY_MAX_BODY) or a\n"
        "line of the file (max-body = 1MiB); a flag beats the environment, which beats the file.\n"
        "Defaults in brackets.\n\noptions:");
    config_print_help(stdout);
}

int cli_serve(int argc, char **argv)
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
