/* tail: prints a line for each event of jobs as it happens, and continues after a restart of the
 * server. */
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/colour.h"
#include "cli/commands.h"
#include "cli/event_stream.h"
#include "cli/interrupt.h"
#include "cli/show.h"
#include "job/event.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

enum { PAUSE_MS = 100, PAUSE_MS_MAX = 2000, DETAIL_BYTES = 4 * SHOW_CELL_BYTES };

struct tail {
    struct client client;
    const struct cli_list *topics;
    const char *events; /* NULL: all kinds */
    uint64_t left;      /* events until the command ends; 0: no limit */
    bool is_json;
    bool was_open, was_cut; /* it was open once; it was cut since */
};

/* ---- a line ---- */

static enum colour colour_of(const char *event)
{
    switch (job_event_find(slice_of(event))) {
    case JOB_EVENT_ACKED:
        return COLOUR_GOOD;
    case JOB_EVENT_DEAD:
        return COLOUR_BAD;
    case JOB_EVENT_NACKED:
    case JOB_EVENT_LEASE_ENDED:
    case JOB_EVENT_EXPIRED:
    case JOB_EVENT_FIRE_SKIPPED:
        return COLOUR_WARN;
    case JOB_EVENT_DUE:
    case JOB_EVENT_EXTENDED:
    case JOB_EVENT_RETURNED:
        return COLOUR_QUIET;
    default:
        return COLOUR_NONE;
    }
}

/* Appends a detail, as in "attempt 2, due …". */
static void detail_add(char *detail, const char *before, const char *text)
{
    size_t len = strlen(detail);
    if (*text)
        snprintf(detail + len, DETAIL_BYTES - len, "%s%s%s", len ? ", " : "", before, text);
}

static void detail_of(const json_t *data, char *detail)
{
    static const struct {
        const char *member, *before;
        const char *(*show)(const json_t *value, char out[SHOW_CELL_BYTES]);
    } parts[] = {
        {"attempt", "attempt ", show_text}, {"way", "by ", show_text},
        {"due_at", "due ", show_time},      {"lease_until", "until ", show_time},
        {"count", "jobs: ", show_text},     {"error", "error: ", show_text},
        {"schedule", "", show_text},        {"reason", "reason: ", show_text},
        {"fires", "fires: ", show_text},
    };
    char cell[SHOW_CELL_BYTES];
    detail[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const json_t *value = json_object_get(data, parts[i].member);
        if (value)
            detail_add(detail, parts[i].before, parts[i].show(value, cell));
    }
    show_disarm(detail);
}

static void print_event(const char *event, const json_t *data)
{
    char at[SHOW_CELL_BYTES], topic[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES], detail[DETAIL_BYTES];
    const enum colour colour = colour_of(event);
    show_time(json_object_get(data, "at"), at);
    show_text(json_object_get(data, "topic"), topic);
    show_text(json_object_get(data, "id"), id);
    detail_of(data, detail);
    show_disarm(topic);
    show_disarm(id);
    printf("%s  %s%-11s%s  %s  %s%s%s\n", at, colour_begin(colour), event, colour_end(colour),
           topic, *id ? id : "-", *detail ? "  " : "", detail);
}

static void print_gap(const json_t *data)
{
    const json_t *lost = json_object_get(data, "lost");
    if (lost)
        printf("%sgap: %" JSON_INTEGER_FORMAT " events were lost%s\n", colour_begin(COLOUR_WARN),
               json_integer_value(lost), colour_end(COLOUR_WARN));
    else
        printf("%sgap: the server was away, events of that time are missing%s\n",
               colour_begin(COLOUR_WARN), colour_end(COLOUR_WARN));
}

static void print_json(const char *event, const json_t *data)
{
    json_t *line = json_pack("{s:s}", "event", event);
    json_object_update(line, (json_t *)(uintptr_t)data);
    (void)show_json(line, stdout);
    json_decref(line);
}

static void print_line(const struct tail *tail, const char *event, const json_t *data)
{
    if (tail->is_json)
        print_json(event, data);
    else if (strcmp(event, "gap") == 0)
        print_gap(data);
    else
        print_event(event, data);
    fflush(stdout);
}

/* ---- the stream ---- */

static void on_open(void *ctx)
{
    struct tail *tail = ctx;
    json_t *nothing = json_object();
    if (tail->was_cut)
        print_line(tail, "gap", nothing);
    json_decref(nothing);
    tail->was_open = true;
    tail->was_cut = false;
}

static bool on_event(void *ctx, const char *event, const json_t *data)
{
    struct tail *tail = ctx;
    print_line(tail, event, data);
    bool is_last = tail->left == 1 && strcmp(event, "gap") != 0;
    if (tail->left > 1 && strcmp(event, "gap") != 0)
        tail->left--;
    return !is_last;
}

static void make_target(struct tail *tail)
{
    struct buffer *target = client_begin(&tail->client);
    cli_url_add_segment(target, "events");
    for (size_t i = 0; i < tail->topics->count; i++)
        cli_url_add_query(target, "topic", tail->topics->at[i]);
    cli_url_add_query(target, "event", tail->events);
}

/* Prints events until enough were received. Waits for a server that was reachable before. */
static int tail_run(struct tail *tail)
{
    const struct event_receiver receiver = {.open = on_open, .take = on_event, .ctx = tail};
    int exit_code, pause_ms = PAUSE_MS;
    for (;;) {
        make_target(tail);
        tail->client.is_silent = tail->was_open;
        enum event_stream_end end = event_stream_run(&tail->client, &receiver, &exit_code);
        if (end == EVENT_STREAM_ENOUGH)
            return CLI_OK;
        if (!tail->was_open)
            return exit_code;
        if (end == EVENT_STREAM_REFUSED) {
            cli_error("%s", tail->client.problem);
            return exit_code;
        }
        pause_ms = tail->was_cut ? pause_ms * 2 : PAUSE_MS;
        tail->was_cut = true;
        if (pause_ms > PAUSE_MS_MAX)
            pause_ms = PAUSE_MS_MAX;
        poll(NULL, 0, pause_ms);
        if (interrupt_came())
            return CLI_OK;
    }
}

static int tail_command(int argc, char **argv)
{
    struct tail tail = {0};
    const struct cli_flag flags[] = {
        {"event", CLI_TEXT, &tail.events, "KINDS", "Only these kinds, such as pushed,dead"},
        {"count", CLI_COUNT, &tail.left, "N", "Stop after this many events"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "tail [TOPIC...] [--event pushed,dead] [--count N]",
        .about =
            "Prints a line for each event of these topics, or of all that you may read, as it "
            "happens:\n"
            "pushed, replaced, due, delivered, acked, nacked, extended, returned, lease_ended,\n"
            "expired, cancelled, rescheduled, run, dead, redriven, purged, paused, resumed, "
            "settings,\n"
            "deleted, fire_skipped, progress. A gap line reports dropped events. The command "
            "reconnects "
            "after a restart of "
            "the\n"
            "server. Stop it with Ctrl-C. With --json each line is an object.",
        .flags = flags,
        .most = JOB_EVENT_TOPICS_MAX,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    tail.topics = &args.list;
    tail.is_json = args.json;
    if (!client_open(&tail.client, args.url))
        return CLI_REFUSED;
    interrupt_catch();
    exit_code = tail_run(&tail);
    client_close(&tail.client);
    return exit_code;
}

const struct cli_command cli_tail_commands[] = {
    {.name = "tail", .run = tail_command, .help = "print events of jobs as they happen"},
    {0},
};
