/* get, history, locate, list, cancel, reschedule, run: commands for jobs by their id. */
#include "cli/call.h"
#include "cli/show.h"
#include "cli/sweep.h"

#include "base/text.h"

#include <string.h>

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

/* Prints a text or JSON as it is, and other bytes as their size and type. */
static void print_result(const json_t *job)
{
    const json_t *result = json_object_get(job, "result");
    char cell[SHOW_CELL_BYTES];
    if (!result) {
        print_line("result", show_result_size(job, cell));
        return;
    }
    print_line("result type", show_text(json_object_get(job, "result_type"), cell));
    show_lines("result", result);
}

/* ---- why a job is not delivered ---- */

/* Returns the text of a member, or NULL if it is absent. */
static const char *text_of(const json_t *object, const char *member)
{
    return json_string_value(json_object_get(object, member));
}

/* Writes what a ready job waits for. `topic` may be NULL. */
static void write_ready_reason(const json_t *job, const json_t *topic, char out[SHOW_CELL_BYTES])
{
    const json_t *deliver = json_object_get(json_object_get(topic, "settings"), "deliver");
    if (deliver)
        snprintf(out, SHOW_CELL_BYTES,
                 "delivery by the server; 'tarry deliver test %.180s' tries the target",
                 text_of(job, "topic"));
    else if (text_of(job, "callback"))
        snprintf(out, SHOW_CELL_BYTES,
                 "a consumer: the topic has no 'deliver', so no callback is sent");
    else
        snprintf(out, SHOW_CELL_BYTES, "a consumer that takes from the topic");
}

static void write_dead_reason(const json_t *job, char out[SHOW_CELL_BYTES])
{
    const json_int_t attempts = json_integer_value(json_object_get(job, "attempt"));
    char error[SHOW_CELL_BYTES];
    show_text(json_object_get(job, "last_error"), error);
    snprintf(out, SHOW_CELL_BYTES,
             "a redrive: it is dead after %" JSON_INTEGER_FORMAT " attempt%s%s%.200s", attempts,
             attempts == 1 ? "" : "s", error[0] ? ": " : "", error);
}

/* Writes what keeps a ready job from its consumer (docs/flow.md). */
static void write_held_reason(const json_t *job, char out[SHOW_CELL_BYTES])
{
    static const struct {
        const char *held_by, *text;
    } rows[] = {{"limit", "the end of a lease: the topic has as many as its 'limit'"},
                {"rate", "the 'rate' of its topic"},
                {"group_limit", "the end of a lease: its group has as many as its limit"},
                {"group_rate", "the rate of its group"},
                {"group_paused", "its group, which is paused"},
                {"group_order", "the job before it in its group"},
                {"hold", "the end of a hold, which a consumer requested"}};
    const char *held_by = text_of(job, "held_by");
    snprintf(out, SHOW_CELL_BYTES, "%.200s", held_by);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(held_by, rows[i].held_by) == 0)
            snprintf(out, SHOW_CELL_BYTES, "%s", rows[i].text);
}

/* Writes for what the job waits, so that the user sees why it is not delivered. */
static void write_reason(const json_t *job, const json_t *topic, char out[SHOW_CELL_BYTES])
{
    const char *state = text_of(job, "state");
    const bool is_retry = json_integer_value(json_object_get(job, "attempt")) > 0;
    char name[SHOW_CELL_BYTES], time[SHOW_CELL_BYTES];
    out[0] = '\0';
    if (!state || strcmp(state, "finished") == 0)
        return;
    if (strcmp(state, "dead") == 0) {
        write_dead_reason(job, out);
    } else if (strcmp(state, "leased") == 0) {
        show_text(json_object_get(job, "consumer"), name);
        snprintf(out, SHOW_CELL_BYTES, "the answer of %.100s, until %.100s",
                 name[0] ? name : "the consumer that took it",
                 show_time_from_now(json_object_get(job, "lease_until"), time));
    } else if (json_is_true(json_object_get(topic, "paused"))) {
        show_time_from_now(json_object_get(topic, "paused_until"), time);
        snprintf(out, SHOW_CELL_BYTES, "its topic, which is paused%s%.100s",
                 time[0] ? " until " : "", time);
    } else if (text_of(job, "held_by")) {
        write_held_reason(job, out);
    } else if (strcmp(state, "ready") == 0) {
        write_ready_reason(job, topic, out);
    } else {
        snprintf(out, SHOW_CELL_BYTES, "%s", is_retry ? "its next attempt" : "its due time");
    }
}

/* Prints for what the job waits. It requests the topic for that, and does without if the call fails. */
static void print_reason(const struct call *call)
{
    const json_t *job = call->client.json;
    char reason[SHOW_CELL_BYTES];
    struct client client;
    if (!client_open(&client, call->args.url))
        return;
    client.is_silent = true;
    struct buffer *target = client_begin(&client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, call_argument(call, 0));
    write_reason(job, client_call(&client, "GET", NULL, 0) == CLI_OK ? client.json : NULL, reason);
    print_line("waits for", reason);
    client_close(&client);
}

/* ---- batches ---- */

/* Writes members by their outcome: "2 unfinished, 1 acked". Outcomes without members are left out. */
static void write_outcomes(const json_t *outcomes, char out[SHOW_CELL_BYTES])
{
    const char *name;
    json_t *count;
    size_t len = 0;
    out[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)outcomes, name, count)
    {
        if (json_integer_value(count) && len < SHOW_CELL_BYTES)
            len += (size_t)snprintf(out + len, SHOW_CELL_BYTES - len,
                                    "%s%" JSON_INTEGER_FORMAT " %.20s", len ? ", " : "",
                                    json_integer_value(count), name);
    }
}

/* Prints the batch that the job waits for, and the batch of which it is a member. */
static void print_batch(const json_t *job)
{
    const json_t *waits_for = json_object_get(job, "waits_for"),
                 *batch = json_object_get(job, "batch");
    const json_int_t members = json_integer_value(waits_for);
    const bool is_closed = json_is_true(json_object_get(job, "closed"));
    char text[SHOW_CELL_BYTES], topic[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES];
    if (waits_for) {
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT " member%s%s", members,
                 members == 1 ? "" : "s", is_closed ? "" : ", and the close of its batch");
        print_line("waits for", text);
        write_outcomes(json_object_get(job, "outcomes"), text);
        print_line("members", text);
        print_line("on dead", show_text(json_object_get(job, "on_dead"), text));
        print_line("wait at most", show_text(json_object_get(job, "wait_at_most"), text));
        if (!is_closed)
            print_line("close within", show_text(json_object_get(job, "close_within"), text));
    }
    if (batch)
        printf("%-13s %s %s\n", "member of", show_text(json_object_get(batch, "topic"), topic),
               show_text(json_object_get(batch, "id"), id));
}

/* Prints one job, a line per property. */
static void print_job(const struct call *call)
{
    const json_t *job = call->client.json;
    static const struct {
        const char *name, *key;
        const char *(*show)(const json_t *value, char out[SHOW_CELL_BYTES]);
    } rows[] = {
        {"topic", "topic", show_text},
        {"id", "id", show_text},
        {"state", "state", show_text},
        {"outcome", "outcome", show_text},
        {"finished", "finished_at", show_time_from_now},
        {"duration", "duration_ms", show_span},
        {"due", "due_at", show_time_from_now},
        {"attempt", "attempt", show_text},
        {"max attempts", "max_attempts", show_text},
        {"priority", "priority", show_text},
        {"group", "group", show_text},
        {"held by", "held_by", show_text},
        {"held until", "held_until", show_time_from_now},
        {"lease until", "lease_until", show_time_from_now},
        {"consumer", "consumer", show_text},
        {"cancel requested", "cancel_requested", show_text},
        {"progress", "progress", show_text},
        {"last error", "last_error", show_text},
        {"content type", "content_type", show_text},
    };
    char cell[SHOW_CELL_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!json_object_get(job, rows[i].key))
            continue;
        print_line(rows[i].name, rows[i].show(json_object_get(job, rows[i].key), cell));
        if (rows[i].show == show_time_from_now && strcmp(rows[i].key, "due_at") == 0)
            print_reason(call);
    }
    print_batch(job);
    print_line("successor due",
               show_time_from_now(json_object_get(json_object_get(job, "next"), "due_at"), cell));
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
    print_result(job);
}

/* Writes only the body, byte for byte as it was pushed. */
static int write_body(const struct call *call, int exit_code)
{
    const char *base64 = json_string_value(call_member(call, "body_base64"));
    struct buffer body;
    if (exit_code != CLI_OK)
        return exit_code;
    buffer_init(&body, call->client.answer.len + 1);
    if (base64 && text_base64_decode(slice_of(base64), &body))
        fwrite(body.at, 1, body.len, stdout);
    else
        exit_code = cli_error("no body in the answer of '%s', check that it is a tarry server",
                              call->client.shown);
    buffer_fini(&body);
    return exit_code;
}

static int check_get(struct call *call)
{
    if (call_value(call, "raw") && call->args.json)
        return cli_usage("both '--raw' and '--json' are given, choose one");
    return -1;
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

static void print_located(const struct call *call)
{
    static const char *const heads[] = {"TOPIC",       "ID",       "STATE",     "DUE",
                                        "LEASE UNTIL", ">ATTEMPT", ">PRIORITY", "CONSUMER",
                                        "LAST ERROR",  NULL};
    const json_t *jobs = call_member(call, "jobs"), *job;
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    if (json_array_size(jobs) == 0) {
        fprintf(stderr, "tarry: no topic has a job '%s'\n", call_argument(call, 0));
        return;
    }
    show_table_init(&table, heads);
    json_array_foreach(jobs, i, job)
    {
        show_table_add(&table, show_text(json_object_get(job, "topic"), cell));
        add_job_row(&table, job);
    }
    show_table_print(&table);
    show_table_fini(&table);
    if (json_is_false(call_member(call, "complete")))
        fprintf(stderr, "there may be more: give a higher --limit than %zu (at most 1000)\n",
                json_array_size(jobs));
}

/* No topic with the job is CLI_NOTHING. */
static int conclude_located(const struct call *call, int exit_code)
{
    bool is_found = json_array_size(call_member(call, "jobs")) > 0;
    return exit_code == CLI_OK && !is_found ? CLI_NOTHING : exit_code;
}

static void add_finished_row(struct show_table *table, const json_t *job)
{
    const json_t *duration = json_object_get(job, "duration_ms");
    char cell[SHOW_CELL_BYTES];
    show_table_add(table, show_text(json_object_get(job, "id"), cell));
    show_table_add(table, show_text(json_object_get(job, "outcome"), cell));
    show_table_add(table, show_time_from_now(json_object_get(job, "finished_at"), cell));
    show_table_add(table, duration ? show_span(duration, cell) : "");
    show_table_add(table, show_text(json_object_get(job, "attempt"), cell));
    show_table_add(table, show_text(json_object_get(job, "consumer"), cell));
    show_table_add(table, show_result_size(job, cell));
}

/* Prints one page of a topic's jobs, and the cursor of the next page. */
static void print_list(const struct call *call)
{
    static const char *const finished[] = {"ID",       "OUTCOME",  "FINISHED", ">DURATION",
                                           ">ATTEMPT", "CONSUMER", "RESULT",   NULL};
    static const char *const heads[] = {"ID",          "STATE",      "DUE",
                                        "LEASE UNTIL", ">ATTEMPT",   ">PRIORITY",
                                        "CONSUMER",    "LAST ERROR", NULL};
    struct show_table table;
    size_t i;
    const json_t *job;
    const char *state = call_value(call, "state");
    bool is_finished = state && strcmp(state, "finished") == 0;
    show_table_init(&table, is_finished ? finished : heads);
    json_array_foreach(call_member(call, "jobs"), i, job)
    {
        if (is_finished)
            add_finished_row(&table, job);
        else
            add_job_row(&table, job);
    }
    show_table_print(&table);
    show_table_fini(&table);
    call_print_next(call);
}

/* ---- cancel, run, reschedule ---- */

static void print_changed(const struct call *call)
{
    bool is_requested = call->client.status == 202;
    printf("%s %s\n", is_requested ? "cancel requested from the consumer of" : call->request->done,
           call_argument(call, 1));
}

static void print_rescheduled(const struct call *call)
{
    char due[SHOW_CELL_BYTES];
    printf("rescheduled %s%s\n", call_argument(call, 1), show_due(call->client.json, due));
}

/* ---- waiting jobs by a filter ---- */

/* Flags of the three commands. */
#define WAITING_FLAGS                                                                              \
    {"id-prefix", CLI_TEXT, "TEXT", "Only waiting jobs whose id begins with TEXT"},                \
        {"meta", CLI_TEXT, "NAME:VALUE",                                                           \
         "Only waiting jobs with this meta; NAME: matches any value"},                             \
        {"due-after", CLI_TIME, "TIME", "Only jobs that are due at or after this time"},           \
        {"due-before", CLI_TIME, "TIME", "Only jobs that are due before this time"},               \
        {"state", CLI_TEXT, "STATE", "Only jobs in this state: delayed or ready"},                 \
        {"max", CLI_TEXT, "N", "At most this many (default: all)"},                                \
    {                                                                                              \
        "dry-run", CLI_SWITCH, NULL, "Only count them"                                             \
    }

/* Checks that either ids or a filter select the jobs. */
static int check_selection(struct call *call)
{
    bool selects = call_value(call, "id-prefix") || call_value(call, "meta") ||
                   call_value(call, "due-after") || call_value(call, "due-before") ||
                   call_value(call, "state");
    bool has_filter = selects || call_value(call, "max") || call_value(call, "dry-run");
    if (call_argument(call, 1) && has_filter)
        return cli_usage("both an ID and a filter, '--max' or '--dry-run' are given, choose one");
    if (!call_argument(call, 1) && !selects)
        return cli_usage("no jobs are selected: give an ID, - for those on standard input, or a "
                         "filter such as '--id-prefix'");
    return -1;
}

static int check_cancel(struct call *call)
{
    int exit_code = check_selection(call);
    if (exit_code < 0 && call_value(call, "members") &&
        (!call_argument(call, 1) || call->request->bulk))
        return cli_usage("'--members' is for one waiting job and its members: give its ID");
    if (exit_code >= 0 || call_argument(call, 1))
        return exit_code;
    if (call_value(call, "request"))
        return cli_usage("'--request' is for leased jobs, which a filter does not select: give "
                         "their IDs");
    if (!call_value(call, "yes") && !call_value(call, "dry-run"))
        return cli_usage("removes jobs of '%s'%s and cannot be undone, add --yes",
                         call_argument(call, 0), cli_of_profile(&call->args));
    if (!call_value(call, "dry-run"))
        cli_announce(&call->args, "cancelling jobs of", call_argument(call, 0));
    return -1;
}

static int change_waiting(struct call *call, const struct slice *none)
{
    (void)none;
    return sweep_call(call, (struct sweep_jobs){.state = call_value(call, "state")});
}

static int check_reschedule(struct call *call)
{
    const char *delay = call_value(call, "delay"), *at = call_value(call, "at");
    if (delay && at)
        return cli_usage("both '--delay' and '--at' are given, choose one");
    if (!delay && !at && !call_value(call, "priority"))
        return cli_usage("nothing to change, give '--delay', '--at' or '--priority'");
    return check_selection(call);
}

/* ---- history ---- */

static void print_events(const struct call *call)
{
    size_t i;
    const json_t *event;
    json_array_foreach(call_member(call, "history"), i, event)
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

/* ---- the commands ---- */

const struct cli_command cli_job_commands[] = {
    {.name = "get",
     .help = "show one job",
     .call = {.usage = "get TOPIC ID [--raw]",
              .about = "Shows one job: its state, when it is due, and how its last "
                       "attempts ended.",
              .least = 2,
              .most = 2,
              .flags = {{"raw", CLI_SWITCH, NULL, "Print only the body, byte for byte",
                         .is_unsent = true}},
              .check = check_get,
              .requests = {{.flags = {"raw"},
                            .method = "GET",
                            .path = "topics/{0}/jobs/{1}?body=base64",
                            .expects = "id",
                            .conclude = write_body},
                           {.method = "GET",
                            .path = "topics/{0}/jobs/{1}",
                            .expects = "id",
                            .print = print_job}}}},
    {.name = "history",
     .help = "show the history of a job in a SQL store, even after its end",
     .call = {.usage = "history TOPIC ID",
              .about = "Shows the history of a job, even after its end: how and when each attempt "
                       "ended, and\n"
                       "which consumer held the job. It requires the topic setting 'history' and a "
                       "store that\n"
                       "keeps one: PostgreSQL, MariaDB or MySQL.",
              .least = 2,
              .most = 2,
              .requests = {{.method = "GET",
                            .path = "topics/{0}/jobs/{1}/history",
                            .print = print_events}}}},
    {.name = "locate",
     .help = "show the topics with a job of this id",
     .call = {.usage = "locate ID [--limit N]",
              .about = "Shows the topics with a job of this id, and its state. Exit "
                       "code 4 if no topic has it.",
              .least = 1,
              .most = 1,
              .flags = {{"limit", CLI_NUMBER, "N",
                         "Show at most this many, up to 1000 (default: 100)"}},
              .requests = {{.method = "GET",
                            .path = "jobs/{0}",
                            .conclude = conclude_located,
                            .print = print_located}}}},
    {.name = "list",
     .help = "list the jobs of a topic by due time",
     .call = {.usage = "list TOPIC [--state STATE] [--id-prefix TEXT] [--meta NAME:VALUE] "
                       "[--error TEXT] ...",
              .about = "Lists the jobs of a topic, ordered by due time: all, or those that match "
                       "all given\n"
                       "options. Finished jobs are listed newest first, with their outcome and the "
                       "duration of\n"
                       "their last attempt.",
              .least = 1,
              .most = 1,
              .flags = {{"state", CLI_TEXT, "STATE",
                         "Only jobs in this state: delayed, ready, leased, dead or finished"},
                        {"id-prefix", CLI_TEXT, "TEXT", "Only jobs whose id begins with TEXT"},
                        {"meta", CLI_TEXT, "NAME:VALUE",
                         "Only jobs with this meta; NAME: matches any value"},
                        {"error", CLI_TEXT, "TEXT", "Only jobs whose last error contains TEXT"},
                        {"limit", CLI_NUMBER, "N", "At most this many (default: 100)"},
                        {"cursor", CLI_TEXT, "CURSOR", "Continue an earlier list"}},
              .requests = {{.method = "GET",
                            .path = "topics/{0}/jobs",
                            .expects = "jobs",
                            .print = print_list}}}},
    {.name = "cancel",
     .help = "cancel jobs",
     .call =
         {.usage = "cancel TOPIC ID... | - [--request] [--members] | --id-prefix TEXT ... --yes",
          .about = "Cancels jobs by their ids (- reads ids from standard input, one per line), "
                   "or the waiting\n"
                   "jobs that match all given options. A job that a consumer holds cannot be "
                   "cancelled (exit\n"
                   "code 1); use --request. An unknown or finished job is not found (exit "
                   "code 4).",
          .least = 1,
          .most =
              CLI_LIST_MAX,
          .flags = {{"request", CLI_SWITCH, NULL,
                     "If the job is leased, request a cancel: unless its consumer acks it, it is "
                     "cancelled"},
                    {"members", CLI_SWITCH, NULL,
                     "Also cancel the members that the job waits for; leased ones get a request"},
                    WAITING_FLAGS,
                    {"yes", CLI_SWITCH, NULL, "Confirm a cancel by a filter", .is_unsent = true}},
          .check = check_cancel,
          .requests = {{.bulk = "cancel", .done = "cancelled"},
                       {.least = 2,
                        .method = "DELETE",
                        .path = "topics/{0}/jobs/{1}",
                        .print = print_changed,
                        .done = "cancelled"},
                       {.path = "topics/{0}/cancel",
                        .make = change_waiting,
                        .wait_ms = SWEEP_MS,
                        .print = sweep_print,
                        .done = "cancelled"}}}},
    {.name = "reschedule",
     .help = "change the due time or priority of jobs",
     .call = {.usage = "reschedule TOPIC ID... | - | --id-prefix TEXT ... [--delay 30m | --at "
                       "TIME] [--priority N]",
              .about = "Changes the due time or priority of jobs; they keep their bodies and "
                       "attempts. The jobs are\n"
                       "given by their ids (- reads ids from standard input, one per line), or are "
                       "the waiting ones\n"
                       "that match all given options.",
              .least = 1,
              .most = CLI_LIST_MAX,
              .flags = {{"delay", CLI_DURATION, "30m", "Make them due after this delay"},
                        {"at", CLI_TIME, "TIME", "Make them due at this time"},
                        {"priority", CLI_TEXT, "N", "New priority; 0 comes first"},
                        WAITING_FLAGS},
              .check = check_reschedule,
              .requests = {{.bulk = "reschedule", .done = "rescheduled"},
                           {.least = 2,
                            .method = "PATCH",
                            .path = "topics/{0}/jobs/{1}",
                            .print = print_rescheduled},
                           {.path = "topics/{0}/reschedule",
                            .make = change_waiting,
                            .wait_ms = SWEEP_MS,
                            .print = sweep_print,
                            .done = "rescheduled"}}}},
    {.name = "run",
     .help = "make jobs due now",
     .call = {.usage = "run TOPIC ID... | - | --id-prefix TEXT ...",
              .about = "Makes jobs due now instead of later: those given by their ids (- reads ids "
                       "from standard\n"
                       "input, one per line), or the delayed ones that match all given options.",
              .least = 1,
              .most = CLI_LIST_MAX,
              .flags = {WAITING_FLAGS},
              .check = check_selection,
              .requests = {{.bulk = "run", .done = "due now"},
                           {.least = 2,
                            .method = "POST",
                            .path = "topics/{0}/jobs/{1}/run",
                            .print = print_changed,
                            .done = "due now"},
                           {.path = "topics/{0}/run",
                            .make = change_waiting,
                            .wait_ms = SWEEP_MS,
                            .print = sweep_print,
                            .done = "due now"}}}},
    {0},
};
