/* clock: shows, advances and resets the test clock of a server (serve --test-clock). */
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/local_time.h"
#include "cli/show.h"

#include <string.h>

struct clock_flags {
    const char *by, *to, *wait, *timeout, *is_auto;
};

static void print_clock(const json_t *answer)
{
    char now[SHOW_CELL_BYTES], start[SHOW_CELL_BYTES];
    const json_t *happened = json_object_get(answer, "happened");
    show_text(json_object_get(answer, "now"), now);
    show_text(json_object_get(answer, "start"), start);
    show_disarm(now);
    show_disarm(start);
    printf("%s, began at %s%s\n", now, start,
           json_is_true(json_object_get(answer, "auto")) ? ", moves automatically" : "");
    if (json_is_integer(happened) && json_integer_value(happened))
        printf("%" JSON_INTEGER_FORMAT " event%s on the way\n", json_integer_value(happened),
               json_integer_value(happened) == 1 ? "" : "s");
}

/* Returns the longest time that the server may take. */
static int64_t patience_ms(const struct clock_flags *flags)
{
    enum { LONGEST_MS = 10 * 60 * 1000, USUAL_MS = 30 * 1000 };
    return !flags->wait ? USUAL_MS : flags->timeout ? LONGEST_MS : 2 * USUAL_MS;
}

static int call_advance(struct client *client, const struct clock_flags *flags)
{
    char time[TIMESTAMP_BYTES + 1] = "";
    if (flags->to && !local_time_read("to", flags->to, time))
        return CLI_USAGE;
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "clock");
    cli_url_add_segment(target, "advance");
    cli_url_add_query(target, "by", flags->by);
    cli_url_add_query(target, "to", *time ? time : flags->to);
    cli_url_add_query(target, "wait", flags->wait);
    cli_url_add_query(target, "timeout", flags->timeout);
    cli_url_add_query(target, "auto", flags->is_auto);
    return client_call(client, "POST", NULL, patience_ms(flags));
}

static int call_clock(struct client *client, const char *verb, const struct clock_flags *flags)
{
    bool resets = strcmp(verb, "reset") == 0;
    if (strcmp(verb, "advance") == 0)
        return call_advance(client, flags);
    if (flags->by || flags->to || flags->wait || flags->timeout || flags->is_auto)
        return cli_usage("flags are for 'tarry clock advance', '%s' takes no flags", verb);
    if (!resets && strcmp(verb, "show") != 0)
        return cli_usage("unknown '%.40s', give show, advance or reset", verb);
    cli_url_add_segment(client_begin(client), resets ? "reset" : "clock");
    return client_call(client, resets ? "POST" : "GET", NULL, patience_ms(flags));
}

static int clock_command(int argc, char **argv)
{
    struct clock_flags given = {0};
    const struct cli_flag flags[] = {
        {"by", CLI_DURATION, &given.by, "TIME", "advance: Move until a delay of TIME has ended"},
        {"to", CLI_TEXT, &given.to, "TIME|next",
         "advance: Move to this time, or to the next event"},
        {"wait", CLI_TEXT, &given.wait, "idle",
         "advance: At each moment, wait until deliveries and takes are settled"},
        {"timeout", CLI_DURATION, &given.timeout, "TIME",
         "Longest wait for this, in real time (default: 30s)"},
        {"auto", CLI_TEXT, &given.is_auto, "true|false",
         "advance: From now on move to the next event automatically whenever no job is leased"},
        {0}};
    const struct cli_syntax syntax = {
        .usage = "clock [show|advance|reset]",
        .about = "Shows or moves the clock of a server that was started with --test-clock. The "
                 "clock stands\n"
                 "still until it is moved. advance moves from event to event and returns when all "
                 "due jobs\n"
                 "are ready; reset deletes all topics and jobs and sets the clock back to its "
                 "start. Real\n"
                 "servers reject all three.",
        .flags = flags,
        .most = 1,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    exit_code = call_clock(&client, args.list.count ? args.list.at[0] : "show", &given);
    if (exit_code == CLI_OK && args.json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        print_clock(client.json);
    client_close(&client);
    return exit_code;
}

const struct cli_command cli_clock_commands[] = {
    {.name = "clock", .run = clock_command, .help = "show or move the clock of a test server"},
    {0},
};
