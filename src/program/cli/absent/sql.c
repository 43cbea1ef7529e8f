/* Stubs for a build without PostgreSQL: the commands print that it is not built in. */
#include "base/feature.h"
#include "cli/commands.h"
#include "cli/fsck_sql.h"

#include <string.h>

enum { ERROR_BYTES = 256 };

static int sql_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "sql",
        .about = "Not in this build, which has no PostgreSQL.",
        .most = CLI_LIST_MAX,
        .is_local = true,
    };
    bool asks_for_help = argc == 2 && argv[1][0] == '-' && argv[1][1] != 's';
    struct cli_args args;
    char error[ERROR_BYTES];
    if (asks_for_help)
        return cli_parse(argc, argv, &syntax, &args);
    (void)feature_missing("sql", error, sizeof error);
    return cli_usage("%s", error);
}

bool fsck_sql_is_store(const char *store)
{
    return strncmp(store, "postgres", strlen("postgres")) == 0;
}

int fsck_sql(const char *store, bool repair, bool json)
{
    char error[ERROR_BYTES];
    (void)store;
    (void)repair;
    (void)json;
    (void)feature_missing("sql", error, sizeof error);
    return cli_usage("%s", error);
}

const struct cli_command cli_schema_commands[] = {
    {.name = "sql", .run = sql_command, .help = "not in this build, which has no PostgreSQL"},
    {0},
};
