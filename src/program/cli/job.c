/* get, history, locate, list, cancel, reschedule, run: commands for jobs by their id. */
#include "cli/bulk.h"
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

/* Prints lines such as "history attempt 1, 2026-11-20 09:00:00.000, failed after 12ms: http
 * 500". */
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

/* Prints one job, a line per property. */
static void print_job(const json_t *job)
{
    static const struct {
        const char *name, *key;
        const char *(*show)(const json_t *value, char out[SHOW_CELL_BYTES]);
    } rows[] = {
        {"topic", "topic", show_text},
        {"id", "id", show_text},
        {"state", "state", show_text},
        {"due", "due_at", show_time_from_now},
        {"attempt", "attempt", show_text},
        {"max attempts", "max_attempts", show_text},
        {"priority", "priority", show_text},
        {"lease until", "lease_until", show_time_from_now},
        {"consumer", "consumer", show_text},
        {"cancel requested", "cancel_requested", show_text},
        {"last error", "last_error", show_text},
        {"content type", "content_type", show_text},
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

/* Prints only the body, byte for byte as it was pushed. */
static int print_body(const struct client *client)
{
    const char *base64 = json_string_value(json_object_get(client->json, "body_base64"));
    struct buffer body;
    int exit_code = CLI_OK;
    buffer_init(&body, client->answer.len + 1);
    if (base64 && text_base64_decode(slice_of(base64), &body))
        fwrite(body.at, 1, body.len, stdout);
    else
        exit_code = cli_error("no body in the answer of '%s', check that it is a tarry server",
                              client->shown);
    buffer_fini(&body);
    return exit_code;
}

static int get_command(int argc, char **argv)
{
    bool raw = false;
    const struct cli_flag flags[] = {
        {"raw", CLI_SWITCH, &raw, NULL, "Print only the body, byte for byte"},
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
    if (exit_code == CLI_OK)
        exit_code = client_expect(&client, "id");
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
    show_table_add(table, show_text(json_object_get(job, "consumer"), cell));
    show_table_add(table, show_text(json_object_get(job, "last_error"), cell));
}

/* ---- locate ---- */

static void print_located(const json_t *jobs)
{
    static const char *const heads[] = {"TOPIC",       "ID",       "STATE",     "DUE",
                                        "LEASE UNTIL", ">ATTEMPT", ">PRIORITY", "CONSUMER",
                                        "LAST ERROR",  NULL};
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    const json_t *job;
    show_table_init(&table, heads);
    json_array_foreach(jobs, i, job)
    {
        show_table_add(&table, show_text(json_object_get(job, "topic"), cell));
        add_job_row(&table, job);
    }
    show_table_print(&table);
    show_table_fini(&table);
}

static int locate_command(int argc, char **argv)
{
    const struct cli_flag flags[] = {{0}};
    const struct cli_syntax syntax = {
        .usage = "locate ID",
        .about = "Shows the topics with a job of this id, and its state. Exit code 4 if no topic "
                 "has it.",
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
    struct buffer *target = client_begin(&client);
    cli_url_add_segment(target, "jobs");
    cli_url_add_segment(target, args.list.at[0]);
    exit_code = client_call(&client, "GET", NULL, 0);
    if (exit_code == CLI_OK) {
        const json_t *jobs = json_object_get(client.json, "jobs");
        if (args.json)
            client_print_json(&client);
        else if (json_array_size(jobs) > 0)
            print_located(jobs);
        else
            fprintf(stderr, "tarry: no topic has a job '%s'\n", args.list.at[0]);
        exit_code = json_array_size(jobs) > 0 ? CLI_OK : CLI_NOTHING;
    }
    client_close(&client);
    return exit_code;
}

struct list_options {
    const char *state, *cursor, *id_prefix, *meta, *error;
    uint64_t limit;
};

/* Prints how to continue a list. A search may end before it finds a job. */
static void print_next(const struct client *client)
{
    const char *next = json_string_value(json_object_get(client->json, "cursor"));
    json_int_t seen = json_integer_value(json_object_get(client->json, "seen"));
    if (!next || !*next)
        return;
    if (seen)
        fprintf(stderr, "%lld jobs searched, ", (long long)seen);
    fprintf(stderr, "there are more: --cursor %s\n", next);
}

/* Prints one page of a topic's jobs, and the cursor of the next page. */
static int list_jobs(struct client *client, const struct cli_args *args,
                     const struct list_options *options)
{
    static const char *const heads[] = {"ID",          "STATE",      "DUE",
                                        "LEASE UNTIL", ">ATTEMPT",   ">PRIORITY",
                                        "CONSUMER",    "LAST ERROR", NULL};
    struct buffer *target = begin_job(client, args->list.at[0], NULL);
    cli_url_add_query(target, "state", options->state);
    cli_url_add_query_number(target, "limit", options->limit);
    cli_url_add_query(target, "cursor", options->cursor);
    cli_url_add_query(target, "id_prefix", options->id_prefix);
    cli_url_add_query(target, "meta", options->meta);
    cli_url_add_query(target, "error", options->error);
    int exit_code = client_call(client, "GET", NULL, 0);
    if (exit_code == CLI_OK)
        exit_code = client_expect(client, "jobs");
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
    print_next(client);
    return CLI_OK;
}

static int list_command(int argc, char **argv)
{
    struct list_options options = {.limit = 100};
    const struct cli_flag flags[] = {
        {"state", CLI_TEXT, &options.state, "STATE",
         "Only jobs in this state: delayed, ready, leased or dead"},
        {"id-prefix", CLI_TEXT, &options.id_prefix, "TEXT", "Only jobs whose id begins with TEXT"},
        {"meta", CLI_TEXT, &options.meta, "NAME:VALUE",
         "Only jobs with this meta; NAME: matches any value"},
        {"error", CLI_TEXT, &options.error, "TEXT", "Only jobs whose last error contains TEXT"},
        {"limit", CLI_COUNT, &options.limit, "N", "At most this many (default: 100)"},
        {"cursor", CLI_TEXT, &options.cursor, "CURSOR", "Continue an earlier list"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage =
            "list TOPIC [--state STATE] [--id-prefix TEXT] [--meta NAME:VALUE] [--error TEXT] ...",
        .about =
            "Lists the jobs of a topic, ordered by due time: all, or those that match all given\n"
            "options.",
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
    exit_code = list_jobs(&client, &args, &options);
    client_close(&client);
    return exit_code;
}

/* ---- cancel, run ---- */

static int change_one(const struct cli_args *args, const struct bulk_change *change, bool is_run)
{
    const char *id = args->list.at[1];
    struct client client;
    if (!client_open(&client, args->url))
        return CLI_REFUSED;
    struct buffer *target = begin_job(&client, args->list.at[0], id);
    if (is_run)
        cli_url_add_segment(target, "run");
    for (const struct bulk_option *option = change->options; option && option->name; option++)
        cli_url_add_query(target, option->name, option->value);
    int exit_code = client_call(&client, is_run ? "POST" : "DELETE", NULL, 0);
    if (exit_code == CLI_OK && args->json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        printf("%s %s\n", client.status == 202 ? "requested of its consumer:" : change->done, id);
    client_close(&client);
    return exit_code;
}

/* Cancels or runs jobs. If `request` is set, requests a cancel from the consumers of leased
 * jobs. */
static int change_jobs(int argc, char **argv, const struct cli_syntax *syntax, bool is_run,
                       const bool *request)
{
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    const struct bulk_option options[] = {{"request", request && *request ? "true" : NULL}, {0}};
    const struct bulk_change bulk = {.verb = is_run ? "run" : "cancel",
                                     .done = is_run ? "due now" : "cancelled",
                                     .options = options};
    return bulk_is_meant(&args) ? bulk_run(&args, &bulk) : change_one(&args, &bulk, is_run);
}

static int cancel_command(int argc, char **argv)
{
    bool request = false;
    const struct cli_flag flags[] = {
        {"request", CLI_SWITCH, &request, NULL,
         "If the job is leased, request a cancel: unless its consumer acks it, it is cancelled"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "cancel TOPIC ID... | - [--request]",
        .about =
            "Cancels jobs; - reads ids from standard input, one per line. A job that a consumer "
            "holds\n"
            "cannot be cancelled (exit code 1); use --request. An unknown or finished job is not\n"
            "found (exit code 4).",
        .flags = flags,
        .least = 2,
        .most = CLI_LIST_MAX,
    };
    return change_jobs(argc, argv, &syntax, false, &request);
}

static int run_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "run TOPIC ID... | -",
        .about =
            "Makes jobs due now instead of later; - reads ids from standard input, one per line.",
        .least = 2,
        .most = CLI_LIST_MAX,
    };
    return change_jobs(argc, argv, &syntax, true, NULL);
}

/* ---- reschedule ---- */

static int reschedule_one(const struct cli_args *args, const struct bulk_option *options)
{
    struct client client;
    char due[SHOW_CELL_BYTES];
    if (!client_open(&client, args->url))
        return CLI_REFUSED;
    struct buffer *target = begin_job(&client, args->list.at[0], args->list.at[1]);
    for (; options->name; options++)
        cli_url_add_query(target, options->name, options->value);
    int exit_code = client_call(&client, "PATCH", NULL, 0);
    if (exit_code == CLI_OK && args->json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        printf("rescheduled %s, due %s\n", args->list.at[1],
               show_time_from_now(json_object_get(client.json, "due_at"), due));
    client_close(&client);
    return exit_code;
}

static int reschedule_command(int argc, char **argv)
{
    const char *delay = NULL, *at = NULL, *priority = NULL;
    const struct cli_flag flags[] = {
        {"delay", CLI_DURATION, &delay, "30m", "Make them due after this delay"},
        {"at", CLI_TIME, &at, "TIME", "Make them due at this time"},
        {"priority", CLI_TEXT, &priority, "N", "New priority; 0 comes first"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "reschedule TOPIC ID... | - [--delay 30m | --at TIME] [--priority N]",
        .about = "Changes the due time or priority of jobs; they keep their bodies and attempts.\n"
                 "- reads ids from standard input, one per line.",
        .flags = flags,
        .least = 2,
        .most = CLI_LIST_MAX,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if ((delay && at) || (!delay && !at && !priority))
        return cli_usage("nothing to change or two due times, give one of '--delay' and '--at', or "
                         "'--priority'");
    const struct bulk_option options[] = {
        {"delay", delay}, {"at", at}, {"priority", priority}, {NULL, NULL}};
    const struct bulk_change bulk = {
        .verb = "reschedule", .done = "rescheduled", .options = options};
    return bulk_is_meant(&args) ? bulk_run(&args, &bulk) : reschedule_one(&args, options);
}

/* ---- history ---- */

static void print_events(const json_t *events)
{
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        char at[SHOW_CELL_BYTES], what[SHOW_CELL_BYTES], attempt[SHOW_CELL_BYTES],
            by[SHOW_CELL_BYTES], error[SHOW_CELL_BYTES];
        show_text(json_object_get(event, "by"), by);
        show_text(json_object_get(event, "error"), error);
        printf("%s  %-12s attempt %s%s%s%s%s\n", show_time(json_object_get(event, "at"), at),
               show_text(json_object_get(event, "event"), what),
               show_text(json_object_get(event, "attempt"), attempt), by[0] ? ", by " : "", by,
               error[0] ? ": " : "", error);
    }
}

static int history_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "history TOPIC ID",
        .about = "Shows the history of a job, also after it is gone: how each attempt ended, when, "
                 "and which\n"
                 "consumer held it. It requires the topic setting 'history', and a store that "
                 "keeps one:\n"
                 "PostgreSQL, MariaDB or MySQL.",
        .least = 2,
        .most = 2,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    struct buffer *target = begin_job(&client, args.list.at[0], args.list.at[1]);
    cli_url_add_segment(target, "history");
    exit_code = client_call(&client, "GET", NULL, 0);
    if (exit_code == CLI_OK && args.json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        print_events(json_object_get(client.json, "history"));
    client_close(&client);
    return exit_code;
}

const struct cli_command cli_job_commands[] = {
    {.name = "get", .run = get_command, .help = "show one job"},
    {.name = "history",
     .run = history_command,
     .help = "show the history of a job, also after it is gone"},
    {.name = "locate", .run = locate_command, .help = "show the topics with a job of this id"},
    {.name = "list", .run = list_command, .help = "list the jobs of a topic by due time"},
    {.name = "cancel", .run = cancel_command, .help = "cancel jobs"},
    {.name = "reschedule",
     .run = reschedule_command,
     .help = "change the due time or priority of jobs"},
    {.name = "run", .run = run_command, .help = "make jobs due now"},
    {0},
};
