/* deliver test: sends a sample to a topic's target and prints the result. */
#include "cli/body.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/show.h"

#include <string.h>

enum { TEST_MS = 300 * 1000 }; /* the maximum timeout of a target */

static void print_row(const json_t *answer, const char *name, const char *key, const char *unit)
{
    char cell[SHOW_CELL_BYTES];
    const json_t *value = json_object_get(answer, key);
    show_text(value, cell);
    if (value && !cell[0] && strcmp(key, "signed_with") == 0)
        printf("%-14snone, 'sign' is false or the policy file has no key 'default'\n", name);
    if (cell[0])
        printf("%-14s%s%s\n", name, cell, unit);
}

static bool is_done(const json_t *answer)
{
    const char *outcome = json_string_value(json_object_get(answer, "outcome"));
    return outcome && strcmp(outcome, "done") == 0;
}

/* Prints the result, preceded by the target's steps, one per line. */
static void print_test(const json_t *answer)
{
    static const struct {
        const char *name, *key, *unit;
    } rows[] = {
        {"to", "to", ""},
        {"endpoint", "endpoint", ""},
        {"sample", "id", ""},
        {"allowed", "allowed", ""},
        {"signed with", "signed_with", ""},
        {"code", "code", ""},
        {"took", "duration_ms", "ms"},
        {"retry after", "retry_after_ms", "ms"},
        {"outcome", "outcome", ""},
        {"error", "error", ""},
        {"hint", "hint", ""},
    };
    const json_t *line;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    json_array_foreach(json_object_get(answer, "explained"), i, line)
        printf("%-14s%s\n", i ? "" : "steps", show_text(line, cell));
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++)
        print_row(answer, rows[i].name, rows[i].key, rows[i].unit);
    puts(is_done(answer) ? "ok, the target received the sample" : "failed");
}

/* Makes the server send the sample, and prints the result. */
static int test_target(struct client *client, const struct cli_args *args, struct slice body)
{
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, args->list.at[1]);
    cli_url_add_segment(target, "deliver-test");
    int exit_code = client_call(client, "POST", &body, TEST_MS);
    if (exit_code != CLI_OK)
        return exit_code;
    if (args->json)
        client_print_json(client);
    else
        print_test(client->json);
    return is_done(client->json) ? CLI_OK : CLI_REFUSED;
}

static int deliver_command(int argc, char **argv)
{
    const char *text = NULL, *file = NULL;
    const struct cli_flag flags[] = {
        {"body", CLI_TEXT, &text, "TEXT", "Body to send (default: a sample of tarry's own)"},
        {"file", CLI_TEXT, &file, "FILE", "File with the body to send; - is standard input"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "deliver test TOPIC [--body TEXT | --file FILE]",
        .about =
            "Sends one sample, signed like a job, to the target in the topic's settings, and "
            "explains\n"
            "the result. It touches no job. Exit code 0: the target received the sample; 1: it was "
            "not\n"
            "delivered, or the server does not deliver; 4: there is no such topic, or it has no\n"
            "target.",
        .flags = flags,
        .least = 2,
        .most = 2,
    };
    struct cli_args args;
    struct client client;
    struct buffer body;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (strcmp(args.list.at[0], "test") != 0)
        return cli_usage("unknown '%s', usage: tarry %s", args.list.at[0], syntax.usage);
    if (text && file)
        return cli_usage("both '--body' and '--file' are given, choose one");
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    buffer_init(&body, BODY_BYTES_MAX);
    if (text)
        buffer_append_text(&body, text);
    exit_code = file ? body_read(file, &body) : CLI_OK;
    if (exit_code == CLI_OK)
        exit_code = test_target(&client, &args, buffer_slice(&body));
    buffer_fini(&body);
    client_close(&client);
    return exit_code;
}

/* ---- pause, resume ---- */

/* Pauses or resumes a topic. `lasts` NULL: until it is resumed. */
static int pause_or_resume(const struct cli_args *args, const char *verb, const char *done,
                           const char *lasts)
{
    struct client client;
    if (!client_open(&client, args->url))
        return CLI_REFUSED;
    struct buffer *target = client_begin(&client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, args->list.at[0]);
    cli_url_add_segment(target, verb);
    if (lasts)
        cli_url_add_query(target, "for", lasts);
    int exit_code = client_call(&client, "POST", NULL, 0);
    if (exit_code == CLI_OK && args->json)
        client_print_json(&client);
    else if (exit_code == CLI_OK && lasts)
        printf("%s %s for %s\n", done, args->list.at[0], lasts);
    else if (exit_code == CLI_OK)
        printf("%s %s\n", done, args->list.at[0]);
    client_close(&client);
    return exit_code;
}

static int pause_command(int argc, char **argv)
{
    const char *lasts = NULL;
    const struct cli_flag flags[] = {
        {"for", CLI_DURATION, &lasts, "30m", "Resume automatically after this time"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "pause TOPIC [--for 30m]",
        .about = "Stops delivery from a topic until it is resumed, or for a given time. Jobs still "
                 "fall due,\n"
                 "and wait. Another pause replaces the previous one.",
        .flags = flags,
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    return exit_code >= 0 ? exit_code : pause_or_resume(&args, "pause", "paused", lasts);
}

static int resume_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "resume TOPIC",
        .about = "Resumes delivery from a paused topic.",
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    return exit_code >= 0 ? exit_code : pause_or_resume(&args, "resume", "resumed", NULL);
}

const struct cli_command cli_deliver_commands[] = {
    {.name = "deliver", .run = deliver_command, .help = "test the target of a topic"},
    {.name = "pause", .run = pause_command, .help = "stop delivery from a topic"},
    {.name = "resume", .run = resume_command, .help = "resume delivery from a topic"},
    {0},
};
