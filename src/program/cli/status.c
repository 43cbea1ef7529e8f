/* status: the health of a server, as a sentence for the user and an exit code for monitors. */
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/colour.h"
#include "cli/commands.h"
#include "cli/show.h"

#include <string.h>

/* Exit codes by the convention of Nagios; they differ from those of the other commands. */
enum status_exit {
    STATUS_WELL = 0,
    STATUS_WARNINGS = 1,
    STATUS_CRITICAL = 2,
    STATUS_UNKNOWN = 3 /* the server is unreachable or does not report its status */
};

static bool is_critical(const json_t *problem)
{
    const char *severity = json_string_value(json_object_get(problem, "severity"));
    return severity && strcmp(severity, "critical") == 0;
}

static enum status_exit judge(const json_t *status)
{
    const json_t *problems = json_object_get(status, "problems");
    if (!json_is_true(json_object_get(status, "well")))
        return STATUS_CRITICAL;
    return json_array_size(problems) ? STATUS_WARNINGS : STATUS_WELL;
}

static void print_problems(const json_t *problems)
{
    static const char *const heads[] = {"severity", "code", "what", "runbook", NULL};
    char cell[SHOW_CELL_BYTES];
    struct show_table table;
    size_t i;
    json_t *problem;
    show_table_init(&table, heads);
    json_array_foreach((json_t *)(uintptr_t)problems, i, problem)
    {
        show_table_add(&table, is_critical(problem) ? "critical" : "warning");
        show_table_add(&table, show_text(json_object_get(problem, "code"), cell));
        show_table_add(&table, show_text(json_object_get(problem, "sentence"), cell));
        show_table_add(&table, show_text(json_object_get(problem, "runbook"), cell));
    }
    if (i)
        show_table_print(&table);
    show_table_fini(&table);
}

static void print_status(const json_t *status, enum status_exit exit_code, const char *url)
{
    static const enum colour colours[] = {[STATUS_WELL] = COLOUR_GOOD,
                                          [STATUS_WARNINGS] = COLOUR_WARN,
                                          [STATUS_CRITICAL] = COLOUR_BAD};
    char sentence[SHOW_CELL_BYTES];
    show_text(json_object_get(status, "sentence"), sentence);
    show_disarm(sentence);
    printf("%s%s%s\n", colour_begin(colours[exit_code]), sentence, colour_end(colours[exit_code]));
    print_problems(json_object_get(status, "problems"));
    json_int_t left = json_integer_value(json_object_get(status, "problems_left_out"));
    if (left)
        printf("and %" JSON_INTEGER_FORMAT " more topics\n", left);
    if (exit_code != STATUS_WELL && strncmp(url, "unix:", 5) != 0)
        printf("runbooks: %s/runbooks/NAME\n", url);
}

static int status_command(int argc, char **argv)
{
    const struct cli_flag flags[] = {{0}};
    const struct cli_syntax syntax = {
        .usage = "status",
        .about = "Shows whether all is well, and the problems, most severe first, each with its "
                 "runbook.\n"
                 "The exit code is for monitors, by the convention of Nagios: 0 all is well, 1 "
                 "warnings,\n"
                 "2 critical problems, 3 the server cannot be reached or does not answer. A wrong "
                 "command\n"
                 "line also returns 2.",
        .flags = flags,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return STATUS_UNKNOWN;
    cli_url_add_segment(client_begin(&client), "status");
    exit_code = client_call(&client, "GET", NULL, 0);
    if (exit_code == CLI_OK && !json_is_string(json_object_get(client.json, "sentence")))
        exit_code = cli_error(
            "unexpected answer from '%s', check that it is a tarry server of this version",
            client.shown);
    if (exit_code != CLI_OK) {
        exit_code = exit_code == CLI_USAGE ? CLI_USAGE : STATUS_UNKNOWN;
    } else {
        exit_code = (int)judge(client.json);
        if (args.json)
            client_print_json(&client);
        else
            print_status(client.json, (enum status_exit)exit_code, client.shown);
    }
    client_close(&client);
    return exit_code;
}

const struct cli_command cli_status_commands[] = {
    {.name = "status",
     .run = status_command,
     .help = "show whether all is well, for users and monitors"},
    {0},
};
