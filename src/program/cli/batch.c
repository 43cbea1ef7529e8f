/* close, members, batch: commands for jobs that wait for other jobs (docs/batches.md). */
#include "cli/body.h"
#include "cli/call.h"
#include "cli/show.h"

#include <string.h>

static void print_closed(const struct call *call)
{
    printf("closed the batch of %s\n", call_argument(call, 1));
}

/* ---- members ---- */

static void add_member(struct show_table *table, const json_t *job)
{
    const json_t *outcome = json_object_get(job, "outcome");
    char cell[SHOW_CELL_BYTES];
    show_table_add(table, show_text(json_object_get(job, "topic"), cell));
    show_table_add(table, show_text(json_object_get(job, "id"), cell));
    show_table_add(table, show_text(outcome ? outcome : json_object_get(job, "state"), cell));
    show_table_add(table, show_time_from_now(json_object_get(job, "due_at"), cell));
    show_table_add(table, show_text(json_object_get(job, "attempt"), cell));
    show_table_add(table, show_text(json_object_get(job, "consumer"), cell));
    show_table_add(table, show_text(json_object_get(job, "last_error"), cell));
    show_table_add(table, json_object_get(job, "result")
                              ? show_text(json_object_get(job, "result"), cell)
                              : show_result_size(job, cell));
}

static void print_members(const struct call *call)
{
    static const char *const heads[] = {"TOPIC",    "ID",         "STATE",  "DUE", ">ATTEMPT",
                                        "CONSUMER", "LAST ERROR", "RESULT", NULL};
    struct show_table table;
    size_t i;
    const json_t *job;
    show_table_init(&table, heads);
    json_array_foreach(call_member(call, "members"), i, job) add_member(&table, job);
    show_table_print(&table);
    show_table_fini(&table);
    call_print_next(call);
}

/* ---- a batch in one call ---- */

static int write_batch(struct call *call, struct buffer *out)
{
    static const char type[] = "application/json";
    char header[64];
    int exit_code = body_read(call_argument(call, 0), out);
    snprintf(header, sizeof header, "Content-Type: %s", type);
    client_add_header(&call->client, header);
    return exit_code == CLI_OK ? body_check(type, buffer_slice(out)) : exit_code;
}

static const char *detail_of(const json_t *result)
{
    return json_string_value(json_object_get(result, "detail"));
}

/* Reports rejected jobs. They leave a batch open, and the call can be repeated. */
static int conclude_batch(const struct call *call, int exit_code)
{
    char topic[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES], code[SHOW_CELL_BYTES];
    size_t i;
    const json_t *result;
    if (exit_code != CLI_OK)
        return exit_code;
    json_array_foreach(call_member(call, "results"), i, result)
    {
        if (detail_of(result))
            exit_code =
                cli_error("'%s %s': %s (%s)", show_text(json_object_get(result, "topic"), topic),
                          show_text(json_object_get(result, "id"), id), detail_of(result),
                          show_text(json_object_get(result, "result"), code));
    }
    if (!json_is_true(call_member(call, "closed")))
        exit_code = cli_error("a batch is still open, correct what was rejected and push the "
                              "file again");
    return exit_code;
}

static void print_batch(const struct call *call)
{
    char topic[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES], done[SHOW_CELL_BYTES];
    size_t i;
    const json_t *result;
    json_array_foreach(call_member(call, "results"), i, result)
    {
        if (!detail_of(result))
            printf("%s %s %s\n", show_text(json_object_get(result, "result"), done),
                   show_text(json_object_get(result, "topic"), topic),
                   show_text(json_object_get(result, "id"), id));
    }
}

/* ---- the commands ---- */

const struct cli_command cli_batch_commands[] = {
    {.name = "batch",
     .help = "push a job that waits, and the jobs it waits for",
     .call = {.usage = "batch FILE",
              .about = "Pushes a waiting job and its members, up to 1,000 jobs in all, and closes "
                       "the batch. FILE (-\n"
                       "is standard input) has JSON, in which members may have members of their "
                       "own:\n"
                       "\n"
                       "  {\"job\":{\"topic\":\"t\",\"id\":\"last\"},\"members\":[{\"topic\":"
                       "\"t\",\"id\":\"first\"}]}\n"
                       "\n"
                       "Every job needs an id, so that the same file can be pushed again if the "
                       "answer was lost.",
              .least = 1,
              .most = 1,
              .requests = {{.method = "POST",
                            .path = "batches",
                            .expects = "results",
                            .body = write_batch,
                            .conclude = conclude_batch,
                            .print = print_batch}}}},
    {.name = "close",
     .help = "close the batch of a waiting job",
     .call = {.usage = "close TOPIC ID",
              .about = "Closes the batch of a waiting job. The job becomes due when all members "
                       "have ended. Only a\n"
                       "running member can still add members, see 'tarry help push', --parent.",
              .least = 2,
              .most = 2,
              .requests = {{.method = "POST",
                            .path = "topics/{0}/jobs/{1}/close",
                            .print = print_closed}}}},
    {.name = "members",
     .help = "list the jobs that a job waits for",
     .call = {.usage = "members TOPIC ID [--outcome OUTCOME] [--results]",
              .about = "Lists the members of the batch of a job. Finished members are listed only "
                       "if their topic\n"
                       "keeps them (the setting keep_finished).",
              .least = 2,
              .most = 2,
              .flags = {{"outcome", CLI_TEXT, "OUTCOME",
                         "Only these: unfinished, acked, dead, cancelled or expired"},
                        {"results", CLI_SWITCH, NULL,
                         "Print the results of finished members instead of their sizes"},
                        {"limit", CLI_NUMBER, "N", "At most this many (default: 100)"},
                        {"cursor", CLI_TEXT, "CURSOR", "Continue an earlier list"}},
              .requests = {{.method = "GET",
                            .path = "topics/{0}/jobs/{1}/members",
                            .expects = "members",
                            .print = print_members}}}},
    {0},
};
