/* drain: makes the server reject new jobs, or accept them again. */
#include "cli/client.h"
#include "cli/commands.h"

static int drain_command(int argc, char **argv)
{
    bool off = false;
    const struct cli_flag flags[] = {
        {"off", CLI_SWITCH, &off, NULL, "Accept new jobs again"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "drain [--off]",
        .about =
            "Makes the server reject new jobs while everything else continues, so that consumers "
            "can\n"
            "empty it. The drain lasts until --off or a restart, and affects only this server.",
        .flags = flags,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    cli_url_add_segment(client_begin(&client), "drain");
    exit_code = client_call(&client, off ? "DELETE" : "POST", NULL, 0);
    if (exit_code == CLI_OK && args.json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        puts(off ? "new jobs are accepted again" : "new jobs are rejected");
    client_close(&client);
    return exit_code;
}

const struct cli_command cli_drain_commands[] = {
    {.name = "drain",
     .run = drain_command,
     .help = "reject new jobs while everything else continues"},
    {0},
};
