/* status, drain, clock: commands for the server itself. */
#include "cli/call.h"
#include "cli/colour.h"
#include "cli/local_time.h"
#include "cli/show.h"

#include <string.h>

/* ---- status ---- */

/* Exit codes by the convention of Nagios; they differ from those of the other commands. */
enum status_exit {
    STATUS_WELL = 0,
    STATUS_WARNINGS = 1,
    STATUS_CRITICAL = 2,
    STATUS_UNKNOWN = 3 /* the server is unreachable or does not report its status */
};

static bool is_critical(const json_t *problem)
{
    const char *severity = json_string_value(json_object_get(problem, "severity"));
    return severity && strcmp(severity, "critical") == 0;
}

static enum status_exit status_of(const struct call *call)
{
    if (!json_is_true(call_member(call, "well")))
        return STATUS_CRITICAL;
    return json_array_size(call_member(call, "problems")) ? STATUS_WARNINGS : STATUS_WELL;
}

static int conclude_status(const struct call *call, int exit_code)
{
    if (exit_code == CLI_OK)
        return (int)status_of(call);
    return exit_code == CLI_USAGE ? CLI_USAGE : STATUS_UNKNOWN;
}

/* Adds the address of a runbook; over a unix socket, which has no address, its name. */
static void add_runbook(struct show_table *table, const char *url, const json_t *name)
{
    char text[SHOW_CELL_BYTES];
    struct buffer cell;
    buffer_init(&cell, 2 * SHOW_CELL_BYTES);
    if (strncmp(url, "unix:", 5) != 0)
        buffer_append_format(&cell, "%s/runbooks/", url);
    buffer_append_text(&cell, show_text(name, text));
    buffer_append_byte(&cell, '\0');
    show_table_add(table, cell.failed ? text : cell.at);
    buffer_fini(&cell);
}

static void print_problems(const json_t *problems, const char *url)
{
    static const char *const heads[] = {"severity", "code", "what", "runbook", NULL};
    char cell[SHOW_CELL_BYTES];
    struct show_table table;
    size_t i;
    const json_t *problem;
    show_table_init(&table, heads);
    json_array_foreach(problems, i, problem)
    {
        show_table_add(&table, is_critical(problem) ? "critical" : "warning");
        show_table_add(&table, show_text(json_object_get(problem, "code"), cell));
        show_table_add(&table, show_text(json_object_get(problem, "sentence"), cell));
        add_runbook(&table, url, json_object_get(problem, "runbook"));
    }
    if (i)
        show_table_print(&table);
    show_table_fini(&table);
}

static void print_status(const struct call *call)
{
    static const enum colour colours[] = {[STATUS_WELL] = COLOUR_GOOD,
                                          [STATUS_WARNINGS] = COLOUR_WARN,
                                          [STATUS_CRITICAL] = COLOUR_BAD};
    const char *url = call->client.shown;
    enum status_exit status = status_of(call);
    char sentence[SHOW_CELL_BYTES];
    show_text(call_member(call, "sentence"), sentence);
    printf("%s%s%s\n", colour_begin(colours[status]), sentence, colour_end(colours[status]));
    print_problems(call_member(call, "problems"), url);
    json_int_t left = json_integer_value(call_member(call, "problems_left_out"));
    if (left)
        printf("and %" JSON_INTEGER_FORMAT " more topics\n", left);
}

const struct cli_command cli_status_commands[] = {
    {.name = "status",
     .help = "show whether all is well, for users and monitors",
     .call = {.usage = "status",
              .about = "Shows whether all is well, and the problems, most severe first, each with "
                       "its runbook.\n"
                       "The exit code is for monitors, by the convention of Nagios: 0 all is well, "
                       "1 warnings,\n"
                       "2 critical problems, 3 the server cannot be reached or does not answer. A "
                       "wrong command\n"
                       "line also returns 2.",
              .requests = {{.method = "GET",
                            .path = "status",
                            .expects = "sentence",
                            .conclude = conclude_status,
                            .print = print_status}}}},
    {0},
};

/* ---- drain ---- */

static void print_drain(const struct call *call)
{
    puts(call_value(call, "off") ? "new jobs are accepted again" : "new jobs are rejected");
}

const struct cli_command cli_drain_commands[] = {
    {.name = "drain",
     .help = "reject new jobs while everything else continues",
     .call = {.usage = "drain [--off]",
              .about = "Makes the server reject new jobs while everything else continues, so that "
                       "consumers can\n"
                       "empty it. The drain lasts until --off or a restart, and affects only this "
                       "server.",
              .flags = {{"off", CLI_SWITCH, NULL, "Accept new jobs again", .is_unsent = true}},
              .requests =
                  {{.flags = {"off"}, .method = "DELETE", .path = "drain", .print = print_drain},
                   {.method = "POST", .path = "drain", .print = print_drain}}}},
    {0},
};

/* ---- clock ---- */

enum { CLOCK_MS = 30 * 1000, CLOCK_MS_MAX = 10 * 60 * 1000 }; /* time to settle */

static void print_clock(const struct call *call)
{
    char now[SHOW_CELL_BYTES], start[SHOW_CELL_BYTES];
    json_int_t happened = json_integer_value(call_member(call, "happened"));
    printf("%s, began at %s%s\n", show_text(call_member(call, "now"), now),
           show_text(call_member(call, "start"), start),
           json_is_true(call_member(call, "auto")) ? ", moves automatically" : "");
    if (happened)
        printf("%" JSON_INTEGER_FORMAT " event%s on the way\n", happened, happened == 1 ? "" : "s");
}

static int check_clock(struct call *call)
{
    static char time[TIMESTAMP_BYTES + 1];
    const char *verb = call_argument(call, 0), *to = call_value(call, "to");
    bool advances = verb && strcmp(verb, "advance") == 0;
    for (size_t i = 0; !advances && call->row->flags[i].name; i++)
        if (call->values[i])
            return cli_usage("flags are for 'tarry clock advance', '%s' takes no flags",
                             verb ? verb : "show");
    if (to && !local_time_read("to", to, time))
        return CLI_USAGE;
    if (to && *time)
        call_set(call, "to", time);
    if (call_value(call, "wait"))
        call->wait_ms = call_value(call, "timeout") ? CLOCK_MS_MAX : 2 * CLOCK_MS;
    return -1;
}

const struct cli_command cli_clock_commands[] = {
    {.name = "clock",
     .help = "show or move the clock of a test server",
     .call =
         {.usage = "clock [show|advance|reset]",
          .about =
              "Shows or moves the clock of a server that was started with --test-clock. The "
              "clock stands\n"
              "still until it is moved. advance moves from event to event and returns when all "
              "due jobs\n"
              "are ready; reset deletes all topics and jobs and sets the clock back to its "
              "start. Real\n"
              "servers reject all three.",
          .most = 1,
          .flags = {{"by", CLI_DURATION, "TIME", "advance: Move until a delay of TIME has ended"},
                    {"to", CLI_TEXT, "TIME|next",
                     "advance: Move to this time, or to the next event"},
                    {"wait", CLI_TEXT, "idle",
                     "advance: At each moment, wait until deliveries and takes are settled"},
                    {"timeout", CLI_DURATION, "TIME",
                     "Longest wait for this, in real time (default: 30s)"},
                    {"auto", CLI_TEXT, "true|false",
                     "advance: From now on move to the next event automatically whenever no job is "
                     "leased"}},
          .check = check_clock,
          .requests = {{.verb = "show",
                        .method = "GET",
                        .path = "clock",
                        .wait_ms = CLOCK_MS,
                        .print = print_clock},
                       {.verb = "advance",
                        .method = "POST",
                        .path = "clock/advance",
                        .wait_ms = CLOCK_MS,
                        .print = print_clock},
                       {.verb = "reset",
                        .method = "POST",
                        .path = "reset",
                        .wait_ms = CLOCK_MS,
                        .print = print_clock}}}},
    {0},
};
