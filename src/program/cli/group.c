/* groups: the groups of a topic and their settings. */
#include "base/duration.h"
#include "cli/call.h"
#include "cli/show.h"
#include "cli/terminal.h"
#include "cli/topic.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_MS_MIN = 100 };

/* ---- list ---- */

/* Returns the text of a group's reason and its end, such as "rate until in 3s". */
static const char *show_held(const json_t *group, char out[SHOW_CELL_BYTES])
{
    char reason[SHOW_CELL_BYTES], until[SHOW_CELL_BYTES];
    show_text(json_object_get(group, "held_by"), reason);
    if (!json_object_get(group, "held_until"))
        return show_text(json_object_get(group, "held_by"), out);
    show_time_from_now(json_object_get(group, "held_until"), until);
    snprintf(out, SHOW_CELL_BYTES, "%.100s until %.100s", reason, until);
    return out;
}

/* Writes the settings as "weight=2 limit=5". */
static const char *show_settings(const json_t *settings, char out[SHOW_CELL_BYTES])
{
    const char *name;
    const json_t *value;
    size_t len = 0;
    out[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)settings, name, value)
    {
        char text[SHOW_CELL_BYTES];
        if (len < SHOW_CELL_BYTES)
            len += (size_t)snprintf(out + len, SHOW_CELL_BYTES - len, "%s%s=%s", len ? " " : "",
                                    name, show_text(value, text));
    }
    return out;
}

static void print_groups(const struct call *call)
{
    static const char *const heads[] = {"GROUP",        ">READY",   ">LEASED", "HELD BY",
                                        "OLDEST READY", "SETTINGS", NULL};
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    const json_t *group;
    show_table_init(&table, heads);
    json_array_foreach(call_member(call, "groups"), i, group)
    {
        const char *name = json_string_value(json_object_get(group, "group"));
        show_table_add(&table,
                       name && *name ? show_text(json_object_get(group, "group"), cell) : "(none)");
        show_table_add(&table, show_text(json_object_get(group, "ready"), cell));
        show_table_add(&table, show_text(json_object_get(group, "leased"), cell));
        show_table_add(&table, show_held(group, cell));
        show_table_add(&table,
                       show_time_from_now(json_object_get(group, "oldest_ready_due_at"), cell));
        show_table_add(&table, show_settings(json_object_get(group, "settings"), cell));
    }
    if (i)
        show_table_print(&table);
    else
        fputs("tarry: no group has jobs, a hold or settings\n", stderr);
    show_table_fini(&table);
    if (json_is_string(call_member(call, "cursor")))
        fputs("there are more groups: give a higher --limit, or another --order\n", stderr);
}

/* Prints the table again and again, each time on an empty screen if the output is a terminal. */
static int watch_groups(struct call *call, int64_t pause_ms)
{
    const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    int exit_code;
    for (;;) {
        call_begin(call);
        if ((exit_code = client_call(&call->client, "GET", NULL, 0)) != CLI_OK)
            return exit_code;
        if (terminal_can_erase(STDOUT_FILENO))
            fputs("\033[H\033[J", stdout);
        if (call->args.json)
            client_print_json(&call->client);
        else
            print_groups(call);
        if (fflush(stdout) != 0)
            return CLI_REFUSED;
        nanosleep(&pause, NULL);
    }
}

static int make_groups(struct call *call, const struct slice *body)
{
    int64_t pause_ms;
    (void)body;
    if (call_value(call, "watch") &&
        duration_parse(slice_of(call_value(call, "watch")), INT64_MAX, &pause_ms))
        return watch_groups(call, pause_ms);
    call_begin(call);
    return client_call(&call->client, "GET", NULL, 0);
}

static int check_groups(struct call *call)
{
    const char *watch = call_value(call, "watch");
    int64_t pause_ms;
    if (watch &&
        (!duration_parse(slice_of(watch), INT64_MAX, &pause_ms) || pause_ms < WATCH_MS_MIN))
        return cli_usage("bad value '%s' for '--watch', give at least 100ms", watch);
    return -1;
}

/* ---- one group ---- */

static void print_group(const struct call *call)
{
    static const char *const rows[] = {"ready", "leased", NULL};
    char cell[SHOW_CELL_BYTES];
    printf("group           %s\n", show_text(call_member(call, "group"), cell));
    for (size_t i = 0; rows[i]; i++)
        printf("%-16s%s\n", rows[i], show_text(call_member(call, rows[i]), cell));
    if (call_member(call, "held_by"))
        printf("held by         %s\n", show_held(call->client.json, cell));
    settings_print("settings", call_member(call, "settings"));
}

static int check_group(struct call *call)
{
    const char *verb = call->request->verb, *rest = call_argument(call, 3);
    if (strcmp(verb, "set") != 0 && rest)
        return cli_usage("unexpected argument '%s', did you mean 'tarry group set'", rest);
    if (strcmp(verb, "set") == 0 && !rest)
        return cli_usage("nothing to set, give NAME=VALUE, or 'tarry group reset'");
    if (strcmp(verb, "pause") != 0 && call_value(call, "for"))
        return cli_usage("'--for' is for 'tarry group pause', leave it out");
    return -1;
}

/* Reads the given settings; a removed one is null. */
static int write_changes(struct call *call, struct buffer *out)
{
    json_t *changes = json_object();
    int exit_code = CLI_OK;
    for (size_t i = 3; exit_code == CLI_OK && i < call->args.list.count; i++)
        exit_code = settings_add(changes, call->args.list.at[i]);
    char *text = exit_code == CLI_OK ? json_dumps(changes, JSON_COMPACT) : NULL;
    buffer_append_text(out, text ? text : "");
    free(text);
    json_decref(changes);
    return exit_code;
}

/* Puts the settings of the group together with the changes. A topic that does not exist has no settings of groups. */
static int change_group(struct call *call, const struct slice *changes)
{
    struct client *client = &call->client;
    bool is_new;
    CURLcode code;
    call_begin(call);
    if (!client_look(client, &code, &is_new))
        return CLI_REFUSED;
    int exit_code = is_new ? CLI_OK : client_finish(client, code);
    if (exit_code != CLI_OK)
        return exit_code;
    json_t *given = json_loadb(changes->at, changes->len, 0, NULL);
    json_t *settings = is_new ? json_object() : json_deep_copy(call_member(call, "settings"));
    if (!settings)
        settings = json_object();
    json_object_update(settings, given);
    settings_drop_nulls(settings);
    char *text = json_dumps(settings, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    call_begin(call);
    client_add_header(client, "Content-Type: application/json");
    exit_code = client_call(client, "PUT", &body, 0);
    free(text);
    json_decref(settings);
    json_decref(given);
    return exit_code;
}

/* ---- the commands ---- */

const struct cli_command cli_group_commands[] = {
    {.name = "groups",
     .help = "show the groups of a topic, and what holds them",
     .call = {.usage = "groups TOPIC [--order name|ready|leased|held] [--limit N] [--watch 2s]",
              .about = "Shows the groups of a topic that have ready or leased jobs, a hold or "
                       "settings. HELD BY is\n"
                       "the reason for which no job of the group is delivered now.\n"
                       "\n"
                       "  tarry groups calls --order ready --watch 2s\n"
                       "  tarry groups calls --order held",
              .least = 1,
              .most = 1,
              .flags = {{"order", CLI_TEXT, "GROUPS",
                         "name (default); ready or leased: most first; held: only held groups"},
                        {"limit", CLI_NUMBER, "N", "Show at most this many (default: 100)"},
                        {"watch", CLI_DURATION, "2s", "Print the groups again at this interval",
                         .is_unsent = true}},
              .check = check_groups,
              .requests = {{.method = "GET",
                            .path = "topics/{0}/groups",
                            .make = make_groups,
                            .print = print_groups}}}},
    {.name = "group",
     .help = "show or change the settings of a group, or pause it",
     .call =
         {.usage = "group show TOPIC GROUP | group set TOPIC GROUP NAME=VALUE... | "
                   "group reset TOPIC GROUP | group pause TOPIC GROUP [--for 30m] | "
                   "group resume TOPIC GROUP",
          .about =
              "Shows a group, changes the given settings, or resets all of them, which also ends "
              "a hold.\n"
              "A setting that a group does not have is that of its topic. Names: weight (1 to "
              "100),\n"
              "limit, rate, burst, max_jobs, paused, paused_until. NAME= resets a setting.\n"
              "\n"
              "  tarry group set calls shop-7 limit=2 rate=10/s\n"
              "  tarry group set calls big-customer weight=5\n"
              "  tarry group pause calls shop-7 --for 30m",
          .least = 3,
          .most = CLI_LIST_MAX,
          .flags = {{"for", CLI_DURATION, "30m",
                     "pause: Resume automatically after this time (default: only when resumed)"}},
          .check = check_group,
          .requests = {{.verb = "show",
                        .method = "GET",
                        .path = "topics/{1}/groups/{2}",
                        .print = print_group},
                       {.verb = "set",
                        .path = "topics/{1}/groups/{2}",
                        .body = write_changes,
                        .make = change_group,
                        .print = print_group},
                       {.verb = "reset",
                        .method = "DELETE",
                        .path = "topics/{1}/groups/{2}",
                        .print = print_group},
                       {.verb = "pause",
                        .method = "POST",
                        .path = "topics/{1}/groups/{2}/pause",
                        .print = print_group},
                       {.verb = "resume",
                        .method = "POST",
                        .path = "topics/{1}/groups/{2}/resume",
                        .print = print_group}}}},
    {0},
};
