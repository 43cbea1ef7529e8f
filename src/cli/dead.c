/* redrive, purge: dead jobs sent round again or dropped, and others dropped. */
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/edit.h"

#include <string.h>

enum { SWEEP_MS = 6 * 3600 * 1000 }; /* the server answers when all pages are done */

struct filter {
    const char *error, *id_prefix, *died_after, *died_before, *max;
    bool dry_run;
};

#define FILTER_FLAGS(FILTER)                                                                       \
    {"error", CLI_TEXT, &(FILTER).error, "TEXT", "only dead ones whose last error holds TEXT"},    \
        {"id-prefix", CLI_TEXT, &(FILTER).id_prefix, "TEXT", "only dead ones whose id begins so"}, \
        {"died-after", CLI_TIME, &(FILTER).died_after, "TIME",                                     \
         "only those whose last attempt ended then or later"},                                     \
        {"died-before", CLI_TIME, &(FILTER).died_before, "TIME", "or before"},                     \
        {"max", CLI_TEXT, &(FILTER).max, "N", "so many at most; all"},                             \
    {                                                                                              \
        "dry-run", CLI_SWITCH, &(FILTER).dry_run, NULL, "count them only"                          \
    }

/* Only dead jobs have what it asks for. */
static bool is_of_the_dead(const struct filter *filter)
{
    return filter->error || filter->id_prefix || filter->died_after || filter->died_before;
}

static void print(const struct client *client, const char *done)
{
    long long jobs = json_integer_value(json_object_get(client->json, "jobs"));
    bool is_dry_run = json_is_true(json_object_get(client->json, "dry_run"));
    printf("%s%s %lld\n", is_dry_run ? "would be " : "", done, jobs);
    if (json_is_false(json_object_get(client->json, "complete")))
        fputs("tarry: there may be more\n", stderr);
}

static int act(const struct cli_args *args, const char *verb, const char *done,
               const struct filter *filter, const char *key, const char *value)
{
    struct client client;
    if (!client_open(&client, args->url))
        return CLI_REFUSED;
    struct buffer *target = client_begin(&client);
    url_add_segment(target, "topics");
    url_add_segment(target, args->list.at[0]);
    url_add_segment(target, verb);
    url_add_query(target, key, value);
    url_add_query(target, "error", filter->error);
    url_add_query(target, "id_prefix", filter->id_prefix);
    url_add_query(target, "died_after", filter->died_after);
    url_add_query(target, "died_before", filter->died_before);
    url_add_query(target, "max", filter->max);
    url_add_query(target, "dry_run", filter->dry_run ? "true" : NULL);
    int exit_code = client_call(&client, "POST", NULL, SWEEP_MS);
    if (exit_code == CLI_OK && args->json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        print(&client, done);
    client_close(&client);
    return exit_code;
}

int cli_redrive(int argc, char **argv)
{
    struct filter filter = {0};
    struct edit edit = {0};
    const struct cli_flag flags[] = {
        FILTER_FLAGS(filter),
        {"body", CLI_TEXT, &edit.body, "TEXT", "of ID: with another body"},
        {"file", CLI_TEXT, &edit.file, "FILE", "or with what is in FILE; - is standard input"},
        {"edit", CLI_SWITCH, &edit.in_editor, NULL,
         "or with its own as VISUAL or EDITOR leaves it"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "redrive TOPIC [ID [--body TEXT | --file FILE | --edit]] [--error TEXT] ...",
        .about =
            "Sends dead jobs round again, with their attempts starting anew: all, one, or those\n"
            "that match all that is given. One may get another body on the way.",
        .flags = flags,
        .least = 1,
        .most = 2,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    const char *id = args.list.count > 1 ? args.list.at[1] : NULL;
    int bodies = (edit.body != NULL) + (edit.file != NULL) + edit.in_editor;
    if (id && (is_of_the_dead(&filter) || filter.dry_run))
        return cli_usage("both an ID and which others are given, choose one");
    if (bodies > 1)
        return cli_usage("'--body', '--file' and '--edit' exclude each other, choose one");
    if (bodies && !id)
        return cli_usage("one body for all dead jobs of '%s' cannot be meant, give an ID",
                         args.list.at[0]);
    return bodies ? edit_redrive(&args, &edit)
                  : act(&args, "redrive", "redriven", &filter, "id", id);
}

int cli_purge(int argc, char **argv)
{
    const char *state = NULL;
    bool yes = false;
    struct filter filter = {0};
    const struct cli_flag flags[] = {
        {"state", CLI_TEXT, &state, "STATE", "only delayed, ready or dead ones"},
        FILTER_FLAGS(filter),
        {"yes", CLI_SWITCH, &yes, NULL, "yes, drop them for good"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "purge TOPIC [--state STATE] [--error TEXT] ... --yes",
        .about =
            "Drops the jobs of a topic for good: all, those in one state, or those dead ones that\n"
            "match all that is given. Jobs that a consumer holds stay.",
        .flags = flags,
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!yes && !filter.dry_run)
        return cli_usage("nothing purged, the jobs of '%s' would be gone for good, give --yes",
                         args.list.at[0]);
    if (!state && is_of_the_dead(&filter))
        state = "dead";
    return act(&args, "purge", "purged", &filter, "state", state);
}
