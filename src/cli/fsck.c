#include "cli/cli.h"
#include "cli/commands.h"
#include "store/datadir.h"

int cli_fsck(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "fsck DIR",
        .about = "Checks a data directory that no server is using, and changes nothing.",
        .least = 1,
        .most = 1,
        .is_local = true,
    };
    struct cli_args args;
    struct datadir *datadir;
    struct datadir_manifest manifest;
    char error[512];
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (datadir_open_existing(args.list.at[0], &datadir, &manifest, error, sizeof(error)) != 0)
        return cli_error("%s", error);
    datadir_close(datadir);
    return CLI_OK;
}
