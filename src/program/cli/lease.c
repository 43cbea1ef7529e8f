/* take, and the consumer's answers: ack, nack, extend. */
#include "cli/body.h"
#include "cli/call.h"
#include "cli/show.h"
#include "cli/wait.h"

#include <string.h>

/* ---- take ---- */

static void print_taken(const struct call *call)
{
    static const char *const heads[] = {"TOPIC", "ID",   ">ATTEMPT", "LEASE UNTIL",
                                        "LEASE", "BODY", NULL};
    const json_t *jobs = call_member(call, "jobs"), *job;
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    if (json_array_size(jobs) == 0) {
        fputs("tarry: no job is ready\n", stderr);
        return;
    }
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

/* No job is CLI_NOTHING. */
static int conclude_take(const struct call *call, int exit_code)
{
    bool is_taken = json_array_size(call_member(call, "jobs")) > 0;
    return exit_code == CLI_OK && !is_taken ? CLI_NOTHING : exit_code;
}

static int check_take(struct call *call)
{
    if (call_value(call, "id") && (call->args.list.count > 1 || call_value(call, "max") ||
                                   call_value(call, "wait") || call_value(call, "order")))
        return cli_usage("'--id' names one job, so give one topic, and leave '--max', '--wait' and "
                         "'--order' out");
    return wait_check(call);
}

/* ---- answers ---- */

enum { LEASES_MAX = 100 }; /* fits into a request line */

static bool is_accepted(const json_t *result)
{
    const char *status = json_string_value(json_object_get(result, "result"));
    return status && strcmp(status, "ok") == 0;
}

static int check_ack(struct call *call)
{
    bool has_result = call_value(call, "result") || call_value(call, "result-file");
    if (has_result && call->args.list.count > 1)
        return cli_usage("a result belongs to one job, give one LEASE");
    if (!has_result && call_value(call, "content-type"))
        return cli_usage("'--content-type' is that of a result, add '--result' or '--result-file'");
    return -1;
}

/* Writes the result, if any, with its content type. */
static int write_result(struct call *call, struct buffer *out)
{
    char header[256];
    const char *text = call_value(call, "result"), *file = call_value(call, "result-file");
    const char *type = call_value(call, "content-type");
    if (text)
        buffer_append_text(out, text);
    int exit_code = file ? body_read(file, out) : CLI_OK;
    if (exit_code != CLI_OK || (!text && !file))
        return exit_code;
    snprintf(header, sizeof header, "Content-Type: %.200s",
             type ? type : body_guess_type(buffer_slice(out)));
    client_add_header(&call->client, header);
    return CLI_OK;
}

/* Prints one line for each rejected lease; the full list only as JSON. */
static int conclude_answers(const struct call *call, int exit_code)
{
    size_t i;
    const json_t *result;
    json_array_foreach(call_member(call, "results"), i, result)
    {
        char status[SHOW_CELL_BYTES], detail[SHOW_CELL_BYTES];
        const char *lease = call_argument(call, i);
        if (is_accepted(result))
            continue;
        show_text(json_object_get(result, "result"), status);
        show_text(json_object_get(result, "detail"), detail);
        exit_code =
            cli_error("'%s' was refused, %s", lease ? lease : "?", detail[0] ? detail : status);
    }
    return exit_code;
}

static void print_answers(const struct call *call)
{
    size_t i, good = 0;
    const json_t *result;
    json_array_foreach(call_member(call, "results"), i, result) good += is_accepted(result);
    if (good > 0)
        printf("%s %zu\n", call->request->done, good);
}

/* ---- again ---- */

/* Sends the new body, if there is one, with its content type. */
static int write_again(struct call *call, struct buffer *out)
{
    char header[256];
    const char *type = call_value(call, "content-type");
    int exit_code = call_body(call, out);
    if (exit_code == CLI_OK && type && (call_value(call, "body") || call_value(call, "file")) &&
        !call_value(call, "force"))
        exit_code = body_check(type, buffer_slice(out));
    if (exit_code == CLI_OK && type) {
        snprintf(header, sizeof header, "Content-Type: %.200s", type);
        client_add_header(&call->client, header);
    }
    return exit_code;
}

static void print_again(const struct call *call)
{
    const json_t *result = json_array_get(call_member(call, "results"), 0);
    char status[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES], due[SHOW_CELL_BYTES];
    show_text(json_object_get(result, "result"), status);
    show_text(json_object_get(result, "id"), id);
    if (json_object_get(result, "due_at"))
        printf("%s %s, due %s\n", status, id,
               show_time_from_now(json_object_get(result, "due_at"), due));
    else
        printf("%s %s\n", status, id);
}

/* ---- the commands ---- */

#define HOLD_HELP "Deliver no job of its group (without a group: of its topic) for this time"

const struct cli_command cli_lease_commands[] = {
    {.name = "take",
     .help = "take ready jobs under a lease",
     .call = {.usage =
                  "take TOPIC... [--max N] [--wait 30s] [--order priority] | take TOPIC --id ID",
              .about =
                  "Takes ready jobs under a lease. Answer each with ack, nack or extend before "
                  "the lease\n"
                  "ends, otherwise it is delivered again. Several topics are served in the "
                  "given order.\n"
                  "Exit code 4 if no job was taken.",
              .least = 1,
              .most = 64,
              .flags = {{"max", CLI_NUMBER, "N", "Take at most this many (default: 1)"},
                        {"wait", CLI_DURATION, "30s",
                         "Wait this long for the first one (default: do not wait)"},
                        {"lease-for", CLI_DURATION, "60s", "Lease time"},
                        {"consumer", CLI_TEXT, "NAME", "Name of the consumer, shown with the jobs"},
                        {"order", CLI_TEXT, "ORDER",
                         "priority: best job of all topics first; named (default): in the given "
                         "order"},
                        {"id", CLI_TEXT, "ID", "Take this job, whether ready, delayed or dead",
                         .is_unsent = true}},
              .check = check_take,
              .requests = {{.flags = {"id"},
                            .method = "POST",
                            .path = "topics/{0}/jobs/{id}/take",
                            .conclude = conclude_take,
                            .print = print_taken},
                           {.least = 2,
                            .method = "POST",
                            .path = "take",
                            .repeat = "topic",
                            .conclude = conclude_take,
                            .print = print_taken},
                           {.method = "POST",
                            .path = "topics/{0}/take",
                            .conclude = conclude_take,
                            .print = print_taken}}}},
    {.name = "ack",
     .help = "acknowledge a taken job as done",
     .call = {.usage = "ack LEASE... | ack LEASE --result TEXT",
              .about = "Acknowledges taken jobs: they are done. The server removes them, or "
                       "keeps them with\n"
                       "their result if the topic has 'keep_finished'. A result also reaches the "
                       "callers that\n"
                       "wait for the job.",
              .least = 1,
              .most = LEASES_MAX,
              .flags = {{"result", CLI_TEXT, "TEXT", "Result of the job", .is_unsent = true},
                        {"result-file", CLI_TEXT, "FILE", "Read the result from FILE",
                         .is_unsent = true},
                        {"content-type", CLI_TEXT, "TYPE",
                         "Content type of the result (default: JSON, text or bytes, by its "
                         "contents)",
                         .is_unsent = true},
                        {"hold", CLI_DURATION, "30s", HOLD_HELP}},
              .pairs = {{"result", "result-file"}},
              .check = check_ack,
              .requests = {{.method = "POST",
                            .path = "ack",
                            .repeat = "lease",
                            .body = write_result,
                            .conclude = conclude_answers,
                            .print = print_answers,
                            .done = "acked"}}}},
    {.name = "nack",
     .help = "report that a taken job failed, so that it is retried",
     .call = {.usage = "nack LEASE... [--delay 10s | --final] [--error TEXT] [--priority N]",
              .about = "Reports that taken jobs failed. They are retried later, and are dead after "
                       "their last\n"
                       "attempt, or immediately with --final.",
              .least = 1,
              .most = LEASES_MAX,
              .flags = {{"delay", CLI_DURATION, "10s",
                         "Retry after this time (default: the job's backoff)"},
                        {"error", CLI_TEXT, "TEXT", "Reason, shown with the job"},
                        {"final", CLI_SWITCH, NULL,
                         "Do not retry: the jobs are dead even if attempts remain"},
                        {"priority", CLI_TEXT, "N", "New priority; 0 comes first"},
                        {"hold", CLI_DURATION, "30s", HOLD_HELP}},
              .requests = {{.method = "POST",
                            .path = "nack",
                            .repeat = "lease",
                            .conclude = conclude_answers,
                            .print = print_answers,
                            .done = "nacked"}}}},
    {.name = "extend",
     .help = "extend the lease of a taken job",
     .call = {.usage = "extend LEASE... [--lease-for 60s] [--progress TEXT]",
              .about = "Extends the leases of taken jobs.",
              .least = 1,
              .most = LEASES_MAX,
              .flags = {{"lease-for", CLI_DURATION, "60s",
                         "Time from now (default: the time of the take)"},
                        {"progress", CLI_TEXT, "TEXT",
                         "Progress of the job, up to 256 bytes, shown with it"}},
              .requests = {{.method = "POST",
                            .path = "extend",
                            .repeat = "lease",
                            .conclude = conclude_answers,
                            .print = print_answers,
                            .done = "extended"}}}},
    {.name = "again",
     .help = "acknowledge a taken job and push it again",
     .call = {.usage = "again LEASE [--delay 30m | --at TIME] [--body TEXT | --file FILE]",
              .about = "Acknowledges a taken job and pushes it again in one step, under the same "
                       "id: for polling\n"
                       "with a state, heartbeats and jobs of several steps. Its attempts start "
                       "again.\n"
                       "Values that are not given stay the same.",
              .least = 1,
              .most = 1,
              .flags =
                  {{"delay", CLI_DURATION, "30m",
                    "Deliver after this delay (default: immediately)"},
                   {"at", CLI_TIME, "TIME", "Deliver at this time"},
                   {"body", CLI_TEXT, "TEXT", "New body (default: the old one)", .is_unsent = true},
                   {"file", CLI_TEXT, "FILE", "Read the new body from FILE", .is_unsent = true},
                   {"content-type", CLI_TEXT, "TYPE",
                    "Content type of the new body (default: the old one)", .is_unsent = true},
                   {"force", CLI_SWITCH, NULL, "Send a body of type JSON that is not valid JSON",
                    .is_unsent = true},
                   {"priority", CLI_TEXT, "N", "New priority; 0 comes first"}},
              .pairs = {{"delay", "at"}, {"body", "file"}},
              .requests = {{.method = "POST",
                            .path = "again",
                            .repeat = "lease",
                            .body = write_again,
                            .print = print_again}}}},
    {0},
};
