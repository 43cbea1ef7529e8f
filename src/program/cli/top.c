/*
 * top: shows the activity of a server as a table that is redrawn each second, and continues after a
 * restart of the server. Uses common ANSI sequences and the alternate screen, so that the previous
 * contents of the terminal are restored at the end.
 */
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/colour.h"
#include "cli/commands.h"
#include "cli/event_stream.h"
#include "cli/interrupt.h"
#include "cli/show.h"
#include "cli/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    PAUSE_MS = 1000, /* before reconnecting to an unreachable server */
    COLUMNS = 80,
    ROWS = 24,
    COLUMNS_MAX = 400,
    NUMBERS_COLUMNS = 57, /* columns of a row after the topic */
    TEXT_BYTES_MAX = 1 << 20
};

static const char *const sorts[] = {"activity", "name", "ready", "dead", "oldest"};
enum sort { SORT_ACTIVITY = 0, SORT_NAME, SORT_READY, SORT_DEAD, SORT_OLDEST, SORTS };

struct top {
    struct client client;
    const char *profile; /* " of profile 'NAME'", or "" */
    bool is_json, is_once;
    bool is_screen; /* redrawn repeatedly on a terminal */
    bool is_begun;  /* the alternate screen is active */
    bool has_keys;  /* the terminal delivers each key immediately; `before` holds its settings */
    bool is_open;   /* the server answers; otherwise reconnecting */
    struct termios before;
    json_t *snapshot; /* the latest; NULL: not received yet */
    enum sort sort;
    size_t from;        /* number of topics above the first row */
    struct buffer text; /* text to draw */
    size_t columns, rows, row;
};

/* ---- compact numbers ---- */

/* Formats a number as "12345", "123k" or "12M". */
static const char *format_number(double number, char out[16])
{
    static const char units[] = " kMGT";
    size_t unit = 0;
    while (number >= 99999.5 && unit + 2 < sizeof units) {
        number /= 1000;
        unit++;
    }
    snprintf(out, 16, unit ? "%.0f%c" : "%.0f", number, units[unit]);
    return out;
}

static const char *format_rate(const json_t *rates, const char *name, char out[16])
{
    double rate = json_number_value(json_object_get(rates, name));
    if (rate > 0 && rate < 9.95)
        snprintf(out, 16, "%.1f", rate);
    else
        format_number(rate, out);
    return out;
}

static const char *format_span(const json_t *ms, char out[16])
{
    double span = json_number_value(ms) / 1000;
    if (!json_is_number(ms))
        snprintf(out, 16, "-");
    else if (span < 10)
        snprintf(out, 16, "%.0fms", span * 1000);
    else if (span < 600)
        snprintf(out, 16, "%.0fs", span);
    else if (span < 36000)
        snprintf(out, 16, "%.0fm", span / 60);
    else if (span < 10 * 86400)
        snprintf(out, 16, "%.0fh", span / 3600);
    else
        snprintf(out, 16, "%.0fd", span / 86400);
    return out;
}

static const char *format_count(const json_t *counts, const char *name, char out[16])
{
    return format_number(json_number_value(json_object_get(counts, name)), out);
}

/* ---- lines ---- */

/* Adds one line, cut at the width of the screen. */
static void line_add(struct top *top, enum colour colour, const char *text)
{
    char line[4 * COLUMNS_MAX];
    if (top->is_screen && top->row >= top->rows)
        return;
    snprintf(line, sizeof line, "%.*s", (int)top->columns, text);
    show_disarm(line);
    buffer_append_text(&top->text, colour_begin(colour));
    buffer_append_text(&top->text, line);
    buffer_append_text(&top->text, colour_end(colour));
    /* The last line has no line end, which would scroll the screen. */
    if (top->is_screen)
        buffer_append_text(&top->text, top->row + 1 < top->rows ? "\033[K\r\n" : "\033[K");
    else
        buffer_append_byte(&top->text, '\n');
    top->row++;
}

static void line_format(struct top *top, enum colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void line_format(struct top *top, enum colour colour, const char *format, ...)
{
    char line[2 * COLUMNS_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    line_add(top, colour, line);
}

static void add_status(struct top *top)
{
    const json_t *status = json_object_get(top->snapshot, "status");
    const json_t *problems = json_object_get(status, "problems");
    const char *sentence = json_string_value(json_object_get(status, "sentence"));
    enum colour colour = COLOUR_GOOD;
    if (!json_is_true(json_object_get(status, "well")))
        colour = COLOUR_BAD;
    else if (json_array_size(problems))
        colour = COLOUR_WARN;
    line_add(top, colour, sentence ? sentence : "");
}

static bool is_one(const json_t *counts, const char *name)
{
    return json_integer_value(json_object_get(counts, name)) == 1;
}

static void add_totals(struct top *top)
{
    const json_t *totals = json_object_get(top->snapshot, "totals");
    const json_t *rates = json_object_get(top->snapshot, "rates");
    const json_t *late = json_object_get(top->snapshot, "lateness");
    char a[16], b[16], c[16], d[16], e[16], f[16];
    line_format(top, COLOUR_NONE, "jobs    %s delayed, %s retrying, %s ready, %s leased, %s dead",
                format_count(totals, "delayed", a), format_count(totals, "retrying", b),
                format_count(totals, "ready", c), format_count(totals, "leased", d),
                format_count(totals, "dead", e));
    line_format(top, COLOUR_NONE, "per s   %s pushed, %s delivered, %s acked, %s nacked, %s died",
                format_rate(rates, "pushed_per_s", a), format_rate(rates, "delivered_per_s", b),
                format_rate(rates, "acked_per_s", c), format_rate(rates, "nacked_per_s", d),
                format_rate(rates, "died_per_s", e));
    line_format(top, COLOUR_NONE, "late    p50 %s, p99 %s, oldest ready %s; %s %s, %s %s",
                format_span(json_object_get(late, "p50_ms"), a),
                format_span(json_object_get(late, "p99_ms"), b),
                format_span(json_object_get(top->snapshot, "oldest_ready_age_ms"), c),
                format_count(top->snapshot, "waiting_takes", d),
                is_one(top->snapshot, "waiting_takes") ? "take waits" : "takes wait",
                format_count(top->snapshot, "connections", f),
                is_one(top->snapshot, "connections") ? "connection" : "connections");
}

/* ---- topics ---- */

static double figure_of(const json_t *topic, enum sort sort)
{
    const json_t *counts = json_object_get(topic, "counts");
    if (sort == SORT_READY)
        return json_number_value(json_object_get(counts, "ready"));
    if (sort == SORT_DEAD)
        return json_number_value(json_object_get(counts, "dead"));
    return json_number_value(json_object_get(topic, "oldest_ready_age_ms"));
}

static enum sort sort_order;

static const char *name_of(const json_t *topic)
{
    const char *name = json_string_value(json_object_get(topic, "topic"));
    return name ? name : "";
}

static int topics_compare(const void *a, const void *b)
{
    const json_t *one = *(const json_t *const *)a, *other = *(const json_t *const *)b;
    double first = figure_of(one, sort_order), second = figure_of(other, sort_order);
    if (sort_order != SORT_NAME && (first < second || first > second))
        return first < second ? 1 : -1;
    return strcmp(name_of(one), name_of(other));
}

static void add_topic(struct top *top, const json_t *topic)
{
    const json_t *counts = json_object_get(topic, "counts");
    const json_t *rates = json_object_get(topic, "rates");
    bool is_paused = json_is_true(json_object_get(topic, "paused"));
    int width = (int)(top->columns - NUMBERS_COLUMNS);
    char a[16], b[16], c[16], d[16], e[16], f[16], g[16], name[SHOW_CELL_BYTES];
    snprintf(name, sizeof name, "%s%s", is_paused ? "(paused) " : "", name_of(topic));
    line_format(top, is_paused ? COLOUR_QUIET : COLOUR_NONE, "%-*.*s%9s%8s%8s%8s%8s%8s%8s", width,
                width, name, format_count(counts, "delayed", a), format_count(counts, "ready", b),
                format_count(counts, "leased", c), format_count(counts, "dead", d),
                format_rate(rates, "pushed_per_s", e), format_rate(rates, "delivered_per_s", f),
                format_span(json_object_get(topic, "oldest_ready_age_ms"), g));
}

static void add_topics(struct top *top)
{
    json_t *topics = json_object_get(top->snapshot, "topics");
    size_t count = json_array_size(topics), i;
    const json_t **list = calloc(count + 1, sizeof *list);
    int width = (int)(top->columns - NUMBERS_COLUMNS);
    json_int_t left = json_integer_value(json_object_get(top->snapshot, "topics_left_out"));
    line_format(top, COLOUR_STRONG, "%-*s%9s%8s%8s%8s%8s%8s%8s", width, "TOPIC", "DELAYED", "READY",
                "LEASED", "DEAD", "IN/S", "OUT/S", "OLDEST");
    for (i = 0; list && i < count; i++)
        list[i] = json_array_get(topics, i);
    sort_order = top->sort;
    if (list && top->sort != SORT_ACTIVITY)
        qsort((void *)list, count, sizeof *list, topics_compare);
    if (top->from >= count)
        top->from = count ? count - 1 : 0;
    for (i = top->from; list && i < count && !(top->is_screen && top->row + 1 >= top->rows); i++)
        add_topic(top, list[i]);
    left += (json_int_t)(count - i);
    if (left)
        line_format(top, COLOUR_QUIET, "%" JSON_INTEGER_FORMAT " more", left);
    free((void *)list);
}

/* ---- the screen ---- */

static void measure_screen(struct top *top)
{
    struct winsize size = {0};
    top->columns = COLUMNS;
    top->rows = ROWS;
    if (top->is_screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col &&
        size.ws_row) {
        top->columns = size.ws_col;
        top->rows = size.ws_row;
    }
    if (top->columns < COLUMNS - 10)
        top->columns = COLUMNS - 10; /* the terminal cuts longer lines */
    if (top->columns > COLUMNS_MAX)
        top->columns = COLUMNS_MAX;
}

static void draw(struct top *top)
{
    char at[SHOW_CELL_BYTES];
    buffer_clear(&top->text);
    measure_screen(top);
    top->row = 0;
    if (top->is_screen)
        buffer_append_text(&top->text, "\033[H");
    show_time(json_object_get(top->snapshot, "at"), at);
    line_format(top, COLOUR_STRONG, "%.19s  %s%s%s%s", at, top->client.shown, top->profile,
                top->is_screen ? "   q: quit   s: sort by " : "",
                top->is_screen ? sorts[(top->sort + 1) % SORTS] : "");
    if (top->is_open)
        add_status(top);
    else
        line_add(top, COLOUR_BAD, "the server does not answer: these are its last figures");
    add_totals(top);
    line_add(top, COLOUR_NONE, "");
    add_topics(top);
    if (top->is_screen)
        buffer_append_text(&top->text, "\033[J");
    fwrite(top->text.at, 1, top->text.len, stdout);
    fflush(stdout);
}

/* Makes keys arrive one by one, and switches to the alternate screen. */
static void screen_begin(struct top *top)
{
    struct termios raw;
    top->is_begun = true;
    if (!top->is_screen)
        return;
    signal(SIGTSTP, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    top->has_keys = tcgetattr(STDIN_FILENO, &top->before) == 0;
    if (top->has_keys) {
        raw = top->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        top->has_keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    fputs("\033[?1049h\033[?25l\033[H\033[J", stdout);
    fflush(stdout);
}

static void screen_end(struct top *top)
{
    if (!top->is_screen || !top->is_begun)
        return;
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (top->has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
    top->has_keys = top->is_screen = top->is_begun = false;
}

static void press_key(struct top *top, const char *keys, size_t *i, size_t count)
{
    bool is_arrow = keys[*i] == '\033' && *i + 2 < count && keys[*i + 1] == '[';
    char key = is_arrow ? keys[ *i += 2] : keys[*i];
    if (is_arrow && key == 'A' && top->from)
        top->from--;
    else if (is_arrow && key == 'B')
        top->from++;
    else if (!is_arrow && key == 's')
        top->sort = (top->sort + 1) % SORTS;
}

/* Handles keys. Returns false to quit. */
static bool on_press(void *ctx)
{
    struct top *top = ctx;
    char keys[64];
    ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
    for (size_t i = 0; got > 0 && i < (size_t)got; i++) {
        if (keys[i] == 'q')
            return false;
        press_key(top, keys, &i, (size_t)got);
    }
    if (got > 0 && top->snapshot)
        draw(top);
    return got > 0 || !top->has_keys;
}

/* ---- the stream ---- */

static bool on_event(void *ctx, const char *event, const json_t *data)
{
    struct top *top = ctx;
    if (strcmp(event, "snapshot") != 0)
        return true;
    if (top->is_json) {
        (void)show_json(data, stdout);
        fflush(stdout);
        return !top->is_once;
    }
    json_decref(top->snapshot);
    top->snapshot = json_incref((json_t *)(uintptr_t)data);
    top->is_open = true;
    if (!top->is_begun)
        screen_begin(top);
    draw(top);
    return !top->is_once;
}

/* Waits before reconnecting to an unreachable server. Returns false to quit. */
static bool wait_for_server(struct top *top)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    top->is_open = false;
    if (top->is_screen && top->snapshot)
        draw(top);
    if (poll(&keys, top->has_keys ? 1 : 0, PAUSE_MS) > 0 && !on_press(top))
        return false;
    return !interrupt_came();
}

static int top_run(struct top *top)
{
    struct event_receiver receiver = {.take = on_event, .ctx = top};
    int exit_code;
    bool was_open = false;
    receiver.keys = STDIN_FILENO;
    receiver.press = top->is_screen && isatty(STDIN_FILENO) ? on_press : NULL;
    for (;;) {
        cli_url_add_segment(client_begin(&top->client), "live");
        top->client.is_silent = was_open;
        enum event_stream_end end = event_stream_run(&top->client, &receiver, &exit_code);
        was_open |= top->is_open;
        if (end == EVENT_STREAM_ENOUGH)
            return CLI_OK;
        if (!was_open || !top->is_screen)
            return exit_code;
        if (end == EVENT_STREAM_REFUSED) {
            screen_end(top);
            cli_error("%s", top->client.problem);
            return exit_code;
        }
        if (!wait_for_server(top))
            return CLI_OK;
    }
}

static int top_command(int argc, char **argv)
{
    struct top top = {0};
    const struct cli_flag flags[] = {
        {"once", CLI_SWITCH, &top.is_once, NULL, "Print one table, and stop"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "top [--once]",
        .about =
            "Shows live figures, updated each second: whether all is well, jobs in each state, "
            "rates,\n"
            "lateness, and the busiest topics. Keys: q quits, s changes the sort column, up and "
            "down\n"
            "scroll. If standard output is not a terminal, one table is printed; with --json, one\n"
            "object per line each second, or a single one with --once.",
        .flags = flags,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    bool is_terminal = terminal_can_erase(STDOUT_FILENO);
    top.is_json = args.json;
    top.is_once = top.is_once || (!is_terminal && !args.json);
    top.is_screen = is_terminal && !args.json && !top.is_once;
    top.profile = cli_of_profile(&args);
    if (!client_open(&top.client, args.url))
        return CLI_REFUSED;
    buffer_init(&top.text, TEXT_BYTES_MAX);
    interrupt_catch();
    exit_code = top_run(&top);
    screen_end(&top);
    json_decref(top.snapshot);
    buffer_fini(&top.text);
    client_close(&top.client);
    return exit_code;
}

const struct cli_command cli_top_commands[] = {
    {.name = "top", .run = top_command, .help = "show live figures in a table"},
    {0},
};
