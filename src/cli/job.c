/* get, list, cancel, reschedule, run: jobs by their id. */
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/show.h"

#include "base/text.h"

#include <string.h>

static struct buffer *begin_job(struct client *client, const char *topic, const char *id)
{
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, topic);
    cli_url_add_segment(target, "jobs");
    if (id)
        cli_url_add_segment(target, id);
    return target;
}

/* ---- get ---- */

static void print_line(const char *name, const char *value)
{
    if (value[0])
        printf("%-13s %s\n", name, value);
}

/* "history       attempt 1, 2026-11-20 09:00:00.000, failed after 12ms: http 500" */
static void print_history(const json_t *history)
{
    size_t i;
    const json_t *attempt;
    json_array_foreach(history, i, attempt)
    {
        char number[SHOW_CELL_BYTES], at[SHOW_CELL_BYTES], outcome[SHOW_CELL_BYTES],
            took[SHOW_CELL_BYTES], error[SHOW_CELL_BYTES];
        show_text(json_object_get(attempt, "outcome"), outcome);
        for (char *c = outcome; *c; c++)
            *c = *c == '_' ? ' ' : *c;
        show_text(json_object_get(attempt, "error"), error);
        printf("%-14sattempt %s, %s, %s after %s%s%s\n", i ? "" : "history",
               show_text(json_object_get(attempt, "attempt"), number),
               show_time(json_object_get(attempt, "at"), at), outcome,
               show_span(json_object_get(attempt, "duration_ms"), took), error[0] ? ": " : "",
               error);
    }
}

/* Shows one job, a line for each thing that there is to say. */
static void print_job(const json_t *job)
{
    static const struct {
        const char *name, *key;
        const char *(*show)(const json_t *value, char out[SHOW_CELL_BYTES]);
    } rows[] = {
        {"topic", "topic", show_text},           {"id", "id", show_text},
        {"state", "state", show_text},           {"due", "due_at", show_time_from_now},
        {"attempt", "attempt", show_text},       {"max attempts", "max_attempts", show_text},
        {"priority", "priority", show_text},     {"lease until", "lease_until", show_time_from_now},
        {"last error", "last_error", show_text}, {"content type", "content_type", show_text},
    };
    char cell[SHOW_CELL_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        print_line(rows[i].name, rows[i].show(json_object_get(job, rows[i].key), cell));
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(job, "meta"), name, value)
    {
        char label[SHOW_CELL_BYTES];
        snprintf(label, sizeof label, "meta %.64s", name);
        print_line(label, show_text(value, cell));
    }
    print_line("callback", show_text(json_object_get(job, "callback"), cell));
    print_history(json_object_get(job, "history"));
    print_line("body", show_body(job, SHOW_CELL_BYTES, cell));
}

/* The body as it was pushed, byte for byte, and nothing else. */
static int print_body(const struct client *client)
{
    const char *base64 = json_string_value(json_object_get(client->json, "body_base64"));
    struct buffer body;
    int exit_code = CLI_OK;
    buffer_init(&body, client->answer.len + 1);
    if (base64 && text_base64_decode(slice_of(base64), &body))
        fwrite(body.at, 1, body.len, stdout);
    else
        exit_code = cli_error("no body in the answer of '%s', is it a tarry server", client->shown);
    buffer_fini(&body);
    return exit_code;
}

static int get_command(int argc, char **argv)
{
    bool raw = false;
    const struct cli_flag flags[] = {
        {"raw", CLI_SWITCH, &raw, NULL, "print its body as it is, byte for byte, and nothing else"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "get TOPIC ID [--raw]",
        .about = "Shows one job: its state, when it is due, and how its last attempts ended.",
        .flags = flags,
        .least = 2,
        .most = 2,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (raw && args.json)
        return cli_usage("both '--raw' and '--json' are given, choose one");
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    struct buffer *target = begin_job(&client, args.list.at[0], args.list.at[1]);
    cli_url_add_query(target, "body", raw ? "base64" : NULL);
    exit_code = client_call(&client, "GET", NULL, 0);
    if (exit_code == CLI_OK && raw)
        exit_code = print_body(&client);
    else if (exit_code == CLI_OK && args.json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        print_job(client.json);
    client_close(&client);
    return exit_code;
}

/* ---- list ---- */

static void add_job_row(struct show_table *table, const json_t *job)
{
    char cell[SHOW_CELL_BYTES];
    show_table_add(table, show_text(json_object_get(job, "id"), cell));
    show_table_add(table, show_text(json_object_get(job, "state"), cell));
    show_table_add(table, show_time_from_now(json_object_get(job, "due_at"), cell));
    show_table_add(table, show_time_from_now(json_object_get(job, "lease_until"), cell));
    show_table_add(table, show_text(json_object_get(job, "attempt"), cell));
    show_table_add(table, show_text(json_object_get(job, "priority"), cell));
    show_table_add(table, show_text(json_object_get(job, "last_error"), cell));
}

/* Shows one page of a topic's jobs, and the cursor of the next. */
static int list_jobs(struct client *client, const struct cli_args *args, const char *state,
                     uint64_t limit, const char *cursor)
{
    static const char *const heads[] = {"ID",       "STATE",     "DUE",        "LEASE UNTIL",
                                        ">ATTEMPT", ">PRIORITY", "LAST ERROR", NULL};
    struct buffer *target = begin_job(client, args->list.at[0], NULL);
    cli_url_add_query(target, "state", state);
    cli_url_add_query_number(target, "limit", limit);
    cli_url_add_query(target, "cursor", cursor);
    int exit_code = client_call(client, "GET", NULL, 0);
    if (exit_code != CLI_OK)
        return exit_code;
    if (args->json) {
        client_print_json(client);
        return CLI_OK;
    }
    struct show_table table;
    size_t i;
    const json_t *job;
    show_table_init(&table, heads);
    json_array_foreach(json_object_get(client->json, "jobs"), i, job) add_job_row(&table, job);
    show_table_print(&table);
    show_table_fini(&table);
    const char *next = json_string_value(json_object_get(client->json, "cursor"));
    if (next && *next)
        fprintf(stderr, "there are more: --cursor %s\n", next);
    return CLI_OK;
}

static int list_command(int argc, char **argv)
{
    const char *state = NULL, *cursor = NULL;
    uint64_t limit = 100;
    const struct cli_flag flags[] = {
        {"state", CLI_TEXT, &state, "STATE", "only delayed, ready, leased or dead ones"},
        {"limit", CLI_COUNT, &limit, "N", "so many at most; 100"},
        {"cursor", CLI_TEXT, &cursor, "CURSOR", "go on where an earlier list ended"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "list TOPIC [--state STATE] [--limit N]",
        .about = "Lists the jobs of a topic, the one that is due first on top.",
        .flags = flags,
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    exit_code = list_jobs(&client, &args, state, limit, cursor);
    client_close(&client);
    return exit_code;
}

/* ---- cancel, run: several ids, one call each over one connection ---- */

static int change_job(struct client *client, const struct cli_args *args, const char *id,
                      bool is_run)
{
    struct buffer *target = begin_job(client, args->list.at[0], id);
    if (is_run)
        cli_url_add_segment(target, "run");
    int exit_code = client_call(client, is_run ? "POST" : "DELETE", NULL, 0);
    if (exit_code != CLI_OK)
        return exit_code;
    if (args->json)
        client_print_json(client);
    else
        printf("%s %s\n", is_run ? "due now" : "cancelled", id);
    return CLI_OK;
}

/* Makes the same call for each id over one connection; the worst outcome is the exit code. */
static int change_jobs(int argc, char **argv, const struct cli_syntax *syntax, bool is_run)
{
    struct cli_args args;
    struct client client;
    int worst = CLI_OK;
    int exit_code = cli_parse(argc, argv, syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    for (size_t i = 1; i < args.list.count && worst != CLI_UNREACHABLE; i++) {
        exit_code = change_job(&client, &args, args.list.at[i], is_run);
        if (exit_code != CLI_OK && (worst == CLI_OK || exit_code != CLI_NOTHING))
            worst = exit_code;
    }
    client_close(&client);
    return worst;
}

static int cancel_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "cancel TOPIC ID...",
        .about = "Drops jobs that are not wanted any more. A job that a consumer holds cannot be\n"
                 "cancelled (exit code 1); one that is unknown or finished is not found (4).",
        .least = 2,
        .most = CLI_LIST_MAX,
    };
    return change_jobs(argc, argv, &syntax, false);
}

static int run_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "run TOPIC ID...",
        .about = "Makes jobs due now instead of later.",
        .least = 2,
        .most = CLI_LIST_MAX,
    };
    return change_jobs(argc, argv, &syntax, true);
}

/* ---- reschedule ---- */

static int reschedule_command(int argc, char **argv)
{
    const char *delay = NULL, *at = NULL, *priority = NULL;
    const struct cli_flag flags[] = {
        {"delay", CLI_DURATION, &delay, "30m", "due so long from now"},
        {"at", CLI_TIME, &at, "TIME", "due at this time"},
        {"priority", CLI_TEXT, &priority, "N", "0 comes first"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "reschedule TOPIC ID [--delay 30m | --at TIME] [--priority N]",
        .about = "Moves a job to another due time or priority; it keeps its body and attempts.",
        .flags = flags,
        .least = 2,
        .most = 2,
    };
    struct cli_args args;
    struct client client;
    char due[SHOW_CELL_BYTES];
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if ((delay && at) || (!delay && !at && !priority))
        return cli_usage("nothing to change or two due times, give one of '--delay' and '--at', or "
                         "'--priority'");
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    struct buffer *target = begin_job(&client, args.list.at[0], args.list.at[1]);
    cli_url_add_query(target, "delay", delay);
    cli_url_add_query(target, "at", at);
    cli_url_add_query(target, "priority", priority);
    exit_code = client_call(&client, "PATCH", NULL, 0);
    if (exit_code == CLI_OK && args.json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        printf("rescheduled %s, due %s\n", args.list.at[1],
               show_time_from_now(json_object_get(client.json, "due_at"), due));
    client_close(&client);
    return exit_code;
}

const struct cli_command cli_job_commands[] = {
    {.name = "get", .run = get_command, .help = "show one job"},
    {.name = "list", .run = list_command, .help = "list the jobs of a topic by due time"},
    {.name = "cancel", .run = cancel_command, .help = "drop jobs that are not wanted any more"},
    {.name = "reschedule",
     .run = reschedule_command,
     .help = "move a job to another due time or priority"},
    {.name = "run", .run = run_command, .help = "make jobs due now"},
    {0},
};
