/* take, and the consumer's answers: ack, nack, extend. */
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/show.h"

#include "base/duration.h"

#include <string.h>

enum { WAIT_MS_MAX = 4 * 60 * 1000 }; /* the server's maximum */

/* ---- take ---- */

static void print_jobs(const json_t *jobs)
{
    static const char *const heads[] = {"TOPIC", "ID",   ">ATTEMPT", "LEASE UNTIL",
                                        "LEASE", "BODY", NULL};
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    const json_t *job;
    show_table_init(&table, heads);
    json_array_foreach(jobs, i, job)
    {
        show_table_add(&table, show_text(json_object_get(job, "topic"), cell));
        show_table_add(&table, show_text(json_object_get(job, "id"), cell));
        show_table_add(&table, show_text(json_object_get(job, "attempt"), cell));
        show_table_add(&table, show_time(json_object_get(job, "lease_until"), cell));
        show_table_add(&table, show_text(json_object_get(job, "lease"), cell));
        show_table_add(&table, show_body(job, 60, cell));
    }
    show_table_print(&table);
    show_table_fini(&table);
}

struct take_options {
    uint64_t max; /* 0: one job */
    const char *wait, *lease_for, *consumer, *order, *id;
};

/* Takes from one topic, or from several in the given order, and prints the jobs. */
static int take_jobs(struct client *client, const struct cli_args *args,
                     const struct take_options *options)
{
    int64_t wait_ms = 0;
    if (options->wait && !duration_parse(slice_of(options->wait), WAIT_MS_MAX, &wait_ms))
        return cli_usage("bad value '%s' for '--wait', give a time up to 4m such as 30s",
                         options->wait);
    if (options->id && (args->list.count > 1 || options->max || options->wait || options->order))
        return cli_usage("'--id' names one job, so give one topic, and leave '--max', '--wait' and "
                         "'--order' out");
    struct buffer *target = client_begin(client);
    if (args->list.count == 1) {
        cli_url_add_segment(target, "topics");
        cli_url_add_segment(target, args->list.at[0]);
    }
    if (options->id) {
        cli_url_add_segment(target, "jobs");
        cli_url_add_segment(target, options->id);
    }
    cli_url_add_segment(target, "take");
    for (size_t i = 0; args->list.count > 1 && i < args->list.count; i++)
        cli_url_add_query(target, "topic", args->list.at[i]);
    if (!options->id)
        cli_url_add_query_number(target, "max", options->max ? options->max : 1);
    cli_url_add_query(target, "wait", options->wait);
    cli_url_add_query(target, "order", options->order);
    cli_url_add_query(target, "lease_for", options->lease_for);
    cli_url_add_query(target, "consumer", options->consumer);
    int exit_code = client_call(client, "POST", NULL, wait_ms);
    if (exit_code != CLI_OK)
        return exit_code;
    const json_t *jobs = json_object_get(client->json, "jobs");
    if (args->json)
        client_print_json(client);
    else if (json_array_size(jobs) > 0)
        print_jobs(jobs);
    else
        fputs("tarry: no job is ready\n", stderr);
    return json_array_size(jobs) > 0 ? CLI_OK : CLI_NOTHING;
}

static int take_command(int argc, char **argv)
{
    struct take_options options = {0};
    const struct cli_flag flags[] = {
        {"max", CLI_COUNT, &options.max, "N", "Take at most this many (default: 1)"},
        {"wait", CLI_DURATION, &options.wait, "30s",
         "Wait this long for the first one (default: do not wait)"},
        {"lease-for", CLI_DURATION, &options.lease_for, "60s", "Lease time"},
        {"consumer", CLI_TEXT, &options.consumer, "NAME",
         "Name of the consumer, shown with the jobs"},
        {"order", CLI_TEXT, &options.order, "ORDER",
         "priority: best job of all topics first; named (default): in the given order"},
        {"id", CLI_TEXT, &options.id, "ID", "Take this job, whether ready, delayed or dead"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "take TOPIC... [--max N] [--wait 30s] [--order priority] | take TOPIC --id ID",
        .about =
            "Takes ready jobs under a lease. Answer each with ack, nack or extend before the "
            "lease\n"
            "ends, otherwise it is delivered again. Several topics are served in the given order.\n"
            "Exit code 4 if no job was taken.",
        .flags = flags,
        .least = 1,
        .most = 64,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    exit_code = take_jobs(&client, &args, &options);
    client_close(&client);
    return exit_code;
}

/* ---- answers ---- */

static bool is_success(const char *status)
{
    return strcmp(status, "ok") == 0;
}

/* Prints one line for each rejected lease; the full list only as JSON. */
static int print_results(const struct client *client, const struct cli_args *args, const char *done)
{
    const json_t *results = json_object_get(client->json, "results");
    int exit_code = CLI_OK;
    size_t i, good = 0;
    const json_t *result;
    json_array_foreach(results, i, result)
    {
        char status[SHOW_CELL_BYTES], detail[SHOW_CELL_BYTES];
        show_text(json_object_get(result, "result"), status);
        if (is_success(status)) {
            good++;
            continue;
        }
        show_text(json_object_get(result, "detail"), detail);
        exit_code = cli_error("'%s' was refused, %s", i < args->list.count ? args->list.at[i] : "?",
                              detail[0] ? detail : status);
    }
    if (args->json)
        client_print_json(client);
    else if (good > 0)
        printf("%s %zu\n", done, good);
    return exit_code;
}

/* Acks, nacks or extends the leases in one call. Returns CLI_OK if all were accepted. */
static int answer_leases(int argc, char **argv, const struct cli_syntax *syntax, const char *done,
                         const char *const *delay, const char *const *error,
                         const char *const *lease_for, const bool *final,
                         const char *const *priority)
{
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    struct buffer *target = client_begin(&client);
    cli_url_add_segment(target, argv[0]);
    for (size_t i = 0; i < args.list.count; i++)
        cli_url_add_query(target, "lease", args.list.at[i]);
    cli_url_add_query(target, "delay", *delay);
    cli_url_add_query(target, "error", *error);
    cli_url_add_query(target, "lease_for", *lease_for);
    cli_url_add_query(target, "final", *final ? "true" : NULL);
    cli_url_add_query(target, "priority", *priority);
    exit_code = client_call(&client, "POST", NULL, 0);
    if (exit_code == CLI_OK)
        exit_code = print_results(&client, &args, done);
    client_close(&client);
    return exit_code;
}

static const char *const none;
static const bool no;
enum { LEASES_MAX = 100 }; /* fits into a request line */

static int ack_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "ack LEASE...",
        .about = "Acknowledges taken jobs: they are done and removed.",
        .least = 1,
        .most = LEASES_MAX,
    };
    return answer_leases(argc, argv, &syntax, "acked", &none, &none, &none, &no, &none);
}

static int nack_command(int argc, char **argv)
{
    const char *delay = NULL, *error = NULL, *priority = NULL;
    bool final = false;
    const struct cli_flag flags[] = {
        {"delay", CLI_DURATION, &delay, "10s",
         "Retry after this time (default: the job's backoff)"},
        {"error", CLI_TEXT, &error, "TEXT", "Reason, shown with the job"},
        {"final", CLI_SWITCH, &final, NULL,
         "Do not retry: the jobs are dead, whatever attempts remain"},
        {"priority", CLI_TEXT, &priority, "N", "New priority; 0 comes first"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "nack LEASE... [--delay 10s | --final] [--error TEXT] [--priority N]",
        .about = "Reports that taken jobs failed. They are retried later, and are dead after their "
                 "last\n"
                 "attempt, or immediately with --final.",
        .flags = flags,
        .least = 1,
        .most = LEASES_MAX,
    };
    return answer_leases(argc, argv, &syntax, "nacked", &delay, &error, &none, &final, &priority);
}

static int extend_command(int argc, char **argv)
{
    const char *lease_for = NULL;
    const struct cli_flag flags[] = {
        {"lease-for", CLI_DURATION, &lease_for, "60s",
         "Time from now (default: the time of the take)"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "extend LEASE... [--lease-for 60s]",
        .about = "Extends the leases of taken jobs.",
        .flags = flags,
        .least = 1,
        .most = LEASES_MAX,
    };
    return answer_leases(argc, argv, &syntax, "extended", &none, &none, &lease_for, &no, &none);
}

const struct cli_command cli_lease_commands[] = {
    {.name = "take", .run = take_command, .help = "take ready jobs under a lease"},
    {.name = "ack", .run = ack_command, .help = "acknowledge a taken job as done"},
    {.name = "nack",
     .run = nack_command,
     .help = "report that a taken job failed, so that it is retried"},
    {.name = "extend", .run = extend_command, .help = "extend the lease of a taken job"},
    {0},
};
