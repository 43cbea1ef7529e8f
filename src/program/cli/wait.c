#include "cli/wait.h"

#include "base/duration.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>

enum { WAIT_MS_MAX = 4 * 60 * 1000 }; /* the server's maximum */

int wait_check(struct call *call)
{
    const char *wait = call_value(call, "wait");
    if (!wait || duration_parse(slice_of(wait), WAIT_MS_MAX, &call->wait_ms))
        return -1;
    return cli_usage("bad value '%s' for '--wait', give a time up to 4m such as 30s", wait);
}

static const char *state_of(const json_t *job)
{
    const char *outcome = json_string_value(json_object_get(job, "outcome"));
    const char *state = json_string_value(json_object_get(job, "state"));
    return outcome ? outcome : state ? state : "unknown";
}

void wait_print(const json_t *job)
{
    char state[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES], cell[SHOW_CELL_BYTES];
    const json_t *result = json_object_get(job, "result");
    snprintf(state, sizeof state, "%s", state_of(job));
    show_disarm(state);
    printf("%s %s", state, show_text(json_object_get(job, "id"), id));
    if (json_object_get(job, "finished_at"))
        printf(", %s", show_time_from_now(json_object_get(job, "finished_at"), cell));
    if (result)
        printf(", result %s", show_text(result, cell));
    else if (json_object_get(job, "result_base64"))
        printf(", result of %s bytes", show_text(json_object_get(job, "result_bytes"), cell));
    if (json_object_get(job, "last_error"))
        printf(", %s", show_text(json_object_get(job, "last_error"), cell));
    putchar('\n');
}

int wait_exit_code(const json_t *job)
{
    const char *state = state_of(job);
    bool has_failed = strcmp(state, "dead") == 0 || strcmp(state, "cancelled") == 0 ||
                      strcmp(state, "expired") == 0;
    return strcmp(state, "acked") == 0 ? CLI_OK : has_failed ? CLI_REFUSED : CLI_NOTHING;
}

/* ---- the command ---- */

static int write_jobs(struct call *call, struct buffer *out)
{
    json_t *jobs = json_array();
    const char *wait = call_value(call, "wait");
    for (size_t i = 1; i < call->args.list.count; i++)
        json_array_append_new(jobs, json_pack("{s:s,s:s}", "topic", call_argument(call, 0), "id",
                                              call_argument(call, i)));
    json_t *body = json_pack("{s:o,s:s,s:s}", "jobs", jobs, "for",
                             call_value(call, "any") ? "any" : "all", "wait", wait);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    buffer_append_text(out, text ? text : "");
    free(text);
    json_decref(body);
    client_add_header(&call->client, "Content-Type: application/json");
    return text ? CLI_OK : cli_usage("an id is not UTF-8, which a call with JSON needs");
}

static int check_wait(struct call *call)
{
    if (!call_value(call, "wait"))
        call_set(call, "wait", "4m");
    return wait_check(call);
}

static void print_waited(const struct call *call)
{
    size_t i;
    const json_t *job;
    json_array_foreach(call_member(call, "jobs"), i, job) wait_print(job);
}

/* The exit code is that of the worst job, or with --any of the first one, which has ended first. */
static int conclude_wait(const struct call *call, int exit_code)
{
    size_t i;
    const json_t *job;
    json_array_foreach(call_member(call, "jobs"), i, job)
    {
        int code = exit_code == CLI_OK ? wait_exit_code(job) : exit_code;
        if (code != CLI_OK || call_value(call, "any"))
            return code;
    }
    return exit_code;
}

const struct cli_command cli_wait_commands[] = {
    {.name = "wait",
     .help = "wait until jobs have ended",
     .call = {.usage = "wait TOPIC ID... [--any] [--wait 30s]",
              .about =
                  "Waits until the jobs have ended. Prints the outcome of each (acked, cancelled, "
                  "expired or\n"
                  "dead) and its result. A job that ended before the call is found only if its "
                  "topic has\n"
                  "'keep_finished'.\n"
                  "Exit code 0 if all were acked, 1 if one ended otherwise, 4 if one has not ended "
                  "or is unknown.\n"
                  "\n"
                  "  tarry topic set sums keep_finished=1d\n"
                  "  tarry push sums 1 --body '{\"a\":1,\"b\":2}' --wait 30s\n"
                  "  tarry wait sums 1 2 3",
              .least = 2,
              .most = CLI_LIST_MAX,
              .flags = {{"any", CLI_SWITCH, NULL, "Wait until one of them has ended",
                         .is_unsent = true},
                        {"wait", CLI_DURATION, "30s", "Wait at most this long (default: 4m)",
                         .is_unsent = true}},
              .check = check_wait,
              .requests = {{.method = "POST",
                            .path = "wait",
                            .body = write_jobs,
                            .expects = "jobs",
                            .conclude = conclude_wait,
                            .print = print_waited}}}},
    {0},
};
