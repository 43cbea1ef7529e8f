/* Stubs for a build without Redis: the commands print that it is not built in. */
#include "base/feature.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/fsck_redis.h"

enum { ERROR_BYTES = 256 };

static int refuse(void)
{
    char error[ERROR_BYTES];
    (void)feature_missing("redis", error, sizeof error);
    return cli_usage("%s", error);
}

int fsck_redis(const char *store, const char *password_file, bool repair, bool json)
{
    (void)store;
    (void)password_file;
    (void)repair;
    (void)json;
    return refuse();
}

static int reshard_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "reshard",
        .about = "Not in this build, which has no Redis.",
        .most = CLI_LIST_MAX,
        .is_local = true,
    };
    bool asks_for_help = argc == 2 && argv[1][0] == '-' && argv[1][1] != 's';
    struct cli_args args;
    return asks_for_help ? cli_parse(argc, argv, &syntax, &args) : refuse();
}

const struct cli_command cli_reshard_commands[] = {
    {.name = "reshard", .run = reshard_command, .help = "not in this build, which has no Redis"},
    {0},
};
