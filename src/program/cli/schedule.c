/* schedule: sets, shows, lists and deletes recurring jobs, and imports those of other programs. */
#include "cli/body.h"
#include "cli/call.h"
#include "cli/schedule_import.h"
#include "cli/show.h"
#include "cli/topic.h"

#include <stdlib.h>
#include <string.h>

/* ---- set ---- */

/* Adds a flag as a text member. */
static void add_text(const struct call *call, const char *flag, json_t *spec)
{
    if (call_value(call, flag))
        json_object_set_new(spec, flag, json_string(call_value(call, flag)));
}

static void add_crons(const struct call *call, json_t *spec)
{
    json_t *list = json_array();
    for (size_t i = 0; i < call->list.count; i++)
        json_array_append_new(list, json_string(call->list.at[i]));
    if (call->list.count == 1)
        json_object_set_new(spec, "cron", json_incref(json_array_get(list, 0)));
    else if (call->list.count)
        json_object_set(spec, "cron", list);
    json_decref(list);
}

/* Adds the body: JSON as such, other text as text, other bytes in base64. */
static int add_body(struct call *call, json_t *spec)
{
    struct buffer body;
    if (!call_value(call, "body") && !call_value(call, "file"))
        return CLI_OK;
    buffer_init(&body, BODY_BYTES_MAX);
    int exit_code = call_body(call, &body);
    json_t *value = json_loadb(body.at ? body.at : "", body.len, 0, NULL);
    if (exit_code == CLI_OK && !value)
        value = json_stringn(body.at ? body.at : "", body.len);
    if (exit_code == CLI_OK && !value)
        exit_code = cli_usage("the body is not UTF-8, give 'body_base64=…' instead");
    if (value)
        json_object_set_new(spec, "body", value);
    buffer_fini(&body);
    return exit_code;
}

static int write_spec(struct call *call, struct buffer *out)
{
    json_t *spec = json_object();
    add_text(call, "topic", spec);
    add_crons(call, spec);
    add_text(call, "every", spec);
    add_text(call, "zone", spec);
    add_text(call, "owner", spec);
    int exit_code = add_body(call, spec);
    for (size_t i = 2; exit_code == CLI_OK && i < call->args.list.count; i++)
        exit_code = settings_add(spec, call->args.list.at[i]);
    char *text = json_dumps(spec, JSON_COMPACT);
    buffer_append_text(out, text ? text : "");
    client_add_header(&call->client, "Content-Type: application/json");
    free(text);
    json_decref(spec);
    return exit_code;
}

static void print_changed(const struct call *call)
{
    char result[SHOW_CELL_BYTES], next[SHOW_CELL_BYTES];
    const json_t *at = call_member(call, "next");
    printf("%s %s", show_text(call_member(call, "result"), result), call_argument(call, 1));
    if (json_is_true(call_member(call, "paused")))
        printf(", paused");
    if (json_is_string(at))
        printf(", next %s", show_time_from_now(at, next));
    putchar('\n');
}

/* ---- show and list ---- */

static void print_last(const json_t *last)
{
    size_t i;
    const json_t *fire;
    json_array_foreach(last, i, fire)
    {
        char at[SHOW_CELL_BYTES], result[SHOW_CELL_BYTES], more[SHOW_CELL_BYTES];
        bool is_skipped = json_object_get(fire, "reason");
        printf("%-8s %s  %s%s%s\n", i ? "" : "last", show_time(json_object_get(fire, "at"), at),
               show_text(json_object_get(fire, "result"), result), is_skipped ? ": " : "  ",
               show_text(json_object_get(fire, is_skipped ? "reason" : "job"), more));
    }
}

static void print_schedule(const struct call *call)
{
    const json_t *schedule = call->client.json;
    const json_t *totals = json_object_get(schedule, "totals");
    const json_t *until = json_object_get(schedule, "paused_until");
    char cell[SHOW_CELL_BYTES];
    const char *reason;
    json_t *count;
    printf("%s", show_text(json_object_get(schedule, "name"), cell));
    if (json_is_true(json_object_get(schedule, "paused")))
        printf(", paused");
    if (json_is_string(until))
        printf(" until %s", show_time_from_now(until, cell));
    putchar('\n');
    settings_print("", json_object_get(schedule, "spec"));
    if (json_is_string(json_object_get(schedule, "next")))
        printf("%-8s %s\n", "next", show_time_from_now(json_object_get(schedule, "next"), cell));
    else
        printf("%-8s no further fire\n", "next");
    printf("%-8s %s fired", "totals", show_text(json_object_get(totals, "fired"), cell));
    json_object_foreach(json_object_get(totals, "skipped"), reason, count)
    {
        if (json_integer_value(count))
            printf(", %lld skipped: %s", (long long)json_integer_value(count), reason);
    }
    putchar('\n');
    print_last(json_object_get(schedule, "last"));
}

/* Prints what a schedule fires at. */
static void add_plan(struct show_table *table, const json_t *spec)
{
    char cell[SHOW_CELL_BYTES], zone[SHOW_CELL_BYTES], plan[2 * SHOW_CELL_BYTES + 8];
    const json_t *every = json_object_get(spec, "every");
    show_text(every ? every : json_object_get(spec, "cron"), cell);
    show_text(json_object_get(spec, "zone"), zone);
    snprintf(plan, sizeof plan, "%s%s%s%s", every ? "every " : "", cell, zone[0] ? " " : "", zone);
    show_table_add(table, plan);
}

static void print_schedules(const struct call *call)
{
    static const char *const heads[] = {"NAME",   "TOPIC",    "PLAN", "NEXT",
                                        ">FIRED", ">SKIPPED", NULL};
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    const json_t *schedule;
    show_table_init(&table, heads);
    json_array_foreach(call_member(call, "schedules"), i, schedule)
    {
        const json_t *spec = json_object_get(schedule, "spec"), *next;
        const json_t *totals = json_object_get(schedule, "totals");
        const char *reason;
        json_t *count;
        long long skipped = 0;
        json_object_foreach(json_object_get(totals, "skipped"), reason, count) skipped +=
            json_integer_value(count);
        next = json_object_get(schedule, "next");
        show_table_add(&table, show_text(json_object_get(schedule, "name"), cell));
        show_table_add(&table, show_text(json_object_get(spec, "topic"), cell));
        add_plan(&table, spec);
        show_table_add(&table, json_is_true(json_object_get(schedule, "paused")) ? "paused"
                               : json_is_string(next) ? show_time_from_now(next, cell)
                                                      : "ended");
        show_table_add(&table, show_text(json_object_get(totals, "fired"), cell));
        snprintf(cell, sizeof cell, "%lld", skipped);
        show_table_add(&table, cell);
    }
    if (i)
        show_table_print(&table);
    else
        fputs("tarry: no schedules\n", stderr);
    show_table_fini(&table);
    if (json_is_string(call_member(call, "cursor")))
        fprintf(stderr, "there are more, continue with --cursor %s\n",
                show_text(call_member(call, "cursor"), cell));
}

/* ---- next ---- */

static void print_next(const struct call *call)
{
    size_t i;
    const json_t *fire;
    json_array_foreach(call_member(call, "fires"), i, fire)
    {
        char at[SHOW_CELL_BYTES], local[SHOW_CELL_BYTES], remark[SHOW_CELL_BYTES];
        show_text(json_object_get(fire, "remark"), remark);
        printf("%s  %s%s%s\n", show_text(json_object_get(fire, "at"), at),
               show_text(json_object_get(fire, "local"), local), remark[0] ? "  " : "", remark);
    }
    if (!i)
        fputs("tarry: no further fire\n", stderr);
}

/* ---- run, backfill, apply ---- */

static void print_run(const struct call *call)
{
    char result[SHOW_CELL_BYTES], topic[SHOW_CELL_BYTES], job[SHOW_CELL_BYTES];
    printf("%s %s: job %s in %s\n", show_text(call_member(call, "result"), result),
           call_argument(call, 1), show_text(call_member(call, "job"), job),
           show_text(call_member(call, "topic"), topic));
}

static void print_backfilled(const struct call *call)
{
    printf("pushed %lld, existed %lld\n",
           (long long)json_integer_value(call_member(call, "pushed")),
           (long long)json_integer_value(call_member(call, "existed")));
}

static int write_set(struct call *call, struct buffer *out)
{
    const char *file = call_argument(call, 1);
    client_add_header(&call->client, "Content-Type: application/json");
    return body_read(file ? file : "-", out);
}

static void print_results(const struct call *call)
{
    size_t i;
    const json_t *row;
    json_array_foreach(call_member(call, "results"), i, row)
    {
        char result[SHOW_CELL_BYTES], name[SHOW_CELL_BYTES], detail[SHOW_CELL_BYTES];
        show_text(json_object_get(row, "detail"), detail);
        printf("%-9s %s%s%s\n", show_text(json_object_get(row, "result"), result),
               show_text(json_object_get(row, "name"), name), detail[0] ? ": " : "", detail);
    }
}

/* ---- the command ---- */

/* Returns whether the help of an option, such as "set, list: ...", names the verb. */
static bool option_serves(const char *help, const char *verb)
{
    size_t len = strlen(verb);
    while (true) {
        size_t word = strcspn(help, ",:");
        if (word == len && strncmp(help, verb, len) == 0)
            return true;
        if (help[word] != ',')
            return false;
        help += word + strspn(help + word, ", ");
    }
}

/* Rejects options that the verb does not have. */
static int check_options(const struct call *call)
{
    const char *verb = call->request->verb;
    for (size_t i = 0; call->row->flags[i].name; i++) {
        const struct call_flag *flag = &call->row->flags[i];
        bool is_given =
            flag->kind == CLI_LIST ? call->list.count > 0 : call_value(call, flag->name) != NULL;
        if (is_given && !option_serves(flag->help, verb))
            return cli_usage("'tarry schedule %s' has no option '--%s', which is one of: %.*s",
                             verb, flag->name, (int)strcspn(flag->help, ":"), flag->help);
    }
    return CLI_OK;
}

static int check_schedule(struct call *call)
{
    const char *verb = call->request->verb, *name = call_argument(call, 1);
    bool takes_more = strcmp(verb, "set") == 0;
    bool needs_name = strcmp(verb, "list") != 0 && strcmp(verb, "apply") != 0;
    if (needs_name && !name)
        return cli_usage("the name of a schedule is missing, usage: tarry schedule %s NAME", verb);
    if (strcmp(verb, "list") == 0 && name)
        return cli_usage("unexpected argument '%s', give --prefix %s or 'tarry schedule show %s'",
                         name, name, name);
    if (!takes_more && call_argument(call, 2))
        return cli_usage("unexpected argument '%s', give one name at a time",
                         call_argument(call, 2));
    if (check_options(call) != CLI_OK)
        return CLI_USAGE;
    if (call->list.count && call_value(call, "every"))
        return cli_usage("both '--cron' and '--every' are given, choose one");
    if (call_value(call, "body") && call_value(call, "file"))
        return cli_usage("both '--body' and '--file' are given, choose one");
    return -1;
}

static int schedule_run(int argc, char **argv);

static const struct call_row schedule_row = {
    .usage = "schedule set|show|list|next|run|pause|resume|backfill|delete|apply|import ...",
    .about =
        "Recurring jobs: a schedule pushes a job each time a cron expression or an interval "
        "fires.\n"
        "\n"
        "  tarry schedule set NAME --topic TOPIC --cron '0 2 * * *' [--zone Europe/Berlin]\n"
        "      [--body TEXT] [MEMBER=VALUE]...   create or replace a schedule\n"
        "  tarry schedule show|delete|run|resume NAME\n"
        "  tarry schedule pause NAME [--for 1h]  skip its fires\n"
        "  tarry schedule list [--owner OWNER] [--prefix PREFIX]\n"
        "  tarry schedule next NAME [--n 10] [--from TIME]\n"
        "  tarry schedule backfill NAME --from TIME --to TIME [--pace 1s]\n"
        "  tarry schedule apply [FILE] [--owner OWNER [--prune] [--take-over]]   apply a set\n"
        "  tarry schedule import KIND [FILE]   print a set for 'apply'\n"
        "\n"
        "Members: phase, except, start, end, count, gap, fold, jitter, missed, catch_up, "
        "grace,\n"
        "overlap, paused, note, meta, priority, group, ttl, lease_for, max_attempts, backoff,\n"
        "callback (see docs/schedules.md).",
    .least = 1,
    .most = CLI_LIST_MAX,
    .flags = {{"topic", CLI_TEXT, "TOPIC", "set, list: Topic of the jobs", .is_unsent = true},
              {"cron", CLI_LIST, "EXPRESSION", "set: Cron expression; repeatable",
               .is_unsent = true},
              {"every", CLI_DURATION, "TIME", "set: Interval from 1s to 365d, instead of --cron",
               .is_unsent = true},
              {"zone", CLI_TEXT, "ZONE", "set: Time zone such as Europe/Berlin (default: UTC)",
               .is_unsent = true},
              {"body", CLI_TEXT, "TEXT", "set: Body of the jobs", .is_unsent = true},
              {"file", CLI_TEXT, "FILE", "set: File with the body; -: standard input",
               .is_unsent = true},
              {"owner", CLI_TEXT, "OWNER", "set, list, apply: Application of the schedules",
               .is_unsent = true},
              {"prefix", CLI_TEXT, "PREFIX", "list: Only names that begin with it",
               .is_unsent = true},
              {"limit", CLI_NUMBER, "N", "list: Maximum number (default: 100)", .is_unsent = true},
              {"cursor", CLI_TEXT, "CURSOR", "list: Continue after a page", .is_unsent = true},
              {"n", CLI_NUMBER, "N", "next: Number of fires (default: 10)", .is_unsent = true},
              {"from", CLI_TIME, "TIME", "next, backfill: Beginning of the span",
               .is_unsent = true},
              {"to", CLI_TIME, "TIME", "backfill: End of the span", .is_unsent = true},
              {"pace", CLI_DURATION, "TIME", "backfill: Time between two jobs (default: 1s)",
               .is_unsent = true},
              {"for", CLI_DURATION, "TIME", "pause: Resume automatically after this time",
               .is_unsent = true},
              {"prune", CLI_SWITCH,
               NULL, "apply: Delete the schedules of the owner that are missing from the set",
               .is_unsent = true},
              {"take-over", CLI_SWITCH, NULL, "set, apply: Also change schedules of another owner",
               .is_unsent = true}},
    .check = check_schedule,
    .requests = {
        {.verb = "set",
         .method = "PUT",
         .path = "schedules/{1}?take_over={take-over}",
         .body = write_spec,
         .print = print_changed},
        {.verb = "show", .method = "GET", .path = "schedules/{1}", .print = print_schedule},
        {.verb = "list",
         .method = "GET",
         .path = "schedules?owner={owner}&prefix={prefix}&topic={topic}&limit={limit}&cursor="
                 "{cursor}",
         .expects = "schedules",
         .print = print_schedules},
        {.verb = "next",
         .method = "GET",
         .path = "schedules/{1}/next?n={n}&from={from}",
         .print = print_next},
        {.verb = "run", .method = "POST", .path = "schedules/{1}/run", .print = print_run},
        {.verb = "pause",
         .method = "POST",
         .path = "schedules/{1}/pause?for={for}",
         .print = print_changed},
        {.verb = "resume",
         .method = "POST",
         .path = "schedules/{1}/resume",
         .print = print_changed},
        {.verb = "backfill",
         .method = "POST",
         .path = "schedules/{1}/backfill?from={from}&to={to}&pace={pace}",
         .print = print_backfilled},
        {.verb = "delete", .method = "DELETE", .path = "schedules/{1}", .print = print_changed},
        {.verb = "apply",
         .method = "PUT",
         .path = "schedules?owner={owner}&prune={prune}&take_over={take-over}",
         .wait_ms = 60000,
         .body = write_set,
         .print = print_results},
    }};

/* `import` makes no request and has flags of its own. */
static int schedule_run(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "import") == 0)
        return schedule_import(argc - 1, argv + 1);
    return call_run(&schedule_row, argc, argv);
}

const struct cli_command cli_schedule_commands[] = {
    {.name = "schedule", .help = "set, show and list recurring jobs", .run = schedule_run},
    {0},
};
