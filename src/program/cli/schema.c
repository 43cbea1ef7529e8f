/* schema: creates, upgrades or prints the tables of a queue in a SQL database. */
#include "base/buffer.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "sql/sql.h"

#include <string.h>

enum { ERROR_BYTES = 512, SCHEMA_BYTES_MAX = 1 << 20 };

static int show(const char *kind)
{
    struct buffer text;
    buffer_init(&text, SCHEMA_BYTES_MAX);
    int result = CLI_OK;
    if (!sql_schema(kind, &text))
        result = cli_usage("unknown kind of database '%s', write postgres or mysql", kind);
    else if (fwrite(text.at, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        result = cli_error("cannot write to standard output");
    buffer_fini(&text);
    return result;
}

static int migrate(const char *url)
{
    char error[ERROR_BYTES] = "", place[ERROR_BYTES];
    if (!url)
        return cli_usage("give the URL of the database, such as postgres://admin@host/database");
    if (sql_migrate(url, error, sizeof error) != 0)
        return cli_error("%s", error);
    sql_place(url, place, sizeof place);
    printf("the schema tarry in %s now has the version of this program\n", place);
    return CLI_OK;
}

static int sql_command(int argc, char **argv)
{
    const struct cli_flag flags[] = {{0}};
    const struct cli_syntax syntax = {
        .usage = "sql migrate URL | sql schema [postgres|mysql]",
        .about =
            "Creates the schema of a queue in PostgreSQL, MariaDB or MySQL, or upgrades it to "
            "this\n"
            "version; it may be run again. 'sql schema' prints the SQL instead, for manual use\n"
            "(default: PostgreSQL).\n"
            "\n"
            "  tarry sql migrate postgres://admin@db.internal/shop\n"
            "  tarry serve --store postgres://tarry@db.internal/shop\n"
            "  tarry sql migrate mysql://admin@db.internal",
        .flags = flags,
        .least = 1,
        .most = 2,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (strcmp(args.list.at[0], "migrate") == 0)
        return migrate(args.list.count > 1 ? args.list.at[1] : NULL);
    if (strcmp(args.list.at[0], "schema") == 0)
        return show(args.list.count > 1 ? args.list.at[1] : "postgres");
    return cli_usage("unknown '%s', write sql migrate or sql schema", args.list.at[0]);
}

const struct cli_command cli_schema_commands[] = {
    {.name = "sql", .run = sql_command, .help = "create or print the SQL schema"},
    {0},
};
