/* deliver test, pause, resume: test the target of a topic, and stop its delivery. */
#include "cli/call.h"
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
static void print_test(const struct call *call)
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
    const json_t *answer = call->client.json, *line;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    json_array_foreach(json_object_get(answer, "explained"), i, line)
        printf("%-14s%s\n", i ? "" : "steps", show_text(line, cell));
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++)
        print_row(answer, rows[i].name, rows[i].key, rows[i].unit);
    puts(is_done(answer) ? "ok, the target received the sample" : "failed");
}

/* A sample that was not delivered is CLI_REFUSED. */
static int conclude_test(const struct call *call, int exit_code)
{
    return exit_code == CLI_OK && !is_done(call->client.json) ? CLI_REFUSED : exit_code;
}

static void print_paused(const struct call *call)
{
    const char *lasts = call_value(call, "for");
    printf("paused %s%s%s\n", call_argument(call, 0), lasts ? " for " : "", lasts ? lasts : "");
}

const struct cli_command cli_deliver_commands[] = {
    {.name = "deliver",
     .help = "test the target of a topic",
     .call = {.usage = "deliver test TOPIC [--body TEXT | --file FILE]",
              .about =
                  "Sends one sample, signed like a job, to the target in the topic's settings, "
                  "and explains\n"
                  "the result. It changes no job. Exit code 0: the target received the sample; "
                  "1: it was not\n"
                  "delivered, or the server does not deliver; 4: there is no such topic, or it "
                  "has no\n"
                  "target.",
              .least = 2,
              .most = 2,
              .flags = {{"body", CLI_TEXT, "TEXT",
                         "Body to send (default: a sample of tarry's own)", .is_unsent = true},
                        {"file", CLI_TEXT, "FILE",
                         "File with the body to send; - is standard input", .is_unsent = true}},
              .pairs = {{"body", "file"}},
              .requests = {{.verb = "test",
                            .method = "POST",
                            .path = "topics/{1}/deliver-test",
                            .body = call_body,
                            .wait_ms = TEST_MS,
                            .conclude = conclude_test,
                            .print = print_test}}}},
    {.name = "pause",
     .help = "stop delivery from a topic",
     .call = {.usage = "pause TOPIC [--for 30m]",
              .about = "Stops delivery from a topic until it is resumed, or for a given time. Jobs "
                       "still fall due,\n"
                       "and wait. Another pause replaces the previous one.",
              .least = 1,
              .most = 1,
              .flags = {{"for", CLI_DURATION, "30m", "Resume automatically after this time"}},
              .requests = {{.method = "POST", .path = "topics/{0}/pause", .print = print_paused}}}},
    {.name = "resume",
     .help = "resume delivery from a topic",
     .call = {.usage = "resume TOPIC",
              .about = "Resumes delivery from a paused topic.",
              .least = 1,
              .most = 1,
              .requests = {{.method = "POST",
                            .path = "topics/{0}/resume",
                            .print = call_print_done,
                            .done = "resumed"}}}},
    {0},
};
