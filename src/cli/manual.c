#include "cli/manual.h"

#include "cli/cli.h"
#include "server/config.h"

#include <string.h>

/* One character of text; at the beginning of a line a dot or a quote would be a request of roff's.
 */
static void print_character(char c, bool begins_line)
{
    if (begins_line && (c == '.' || c == '\''))
        fputs("\\&", stdout);
    if (c == '\\')
        fputs("\\e", stdout);
    else if (c == '-')
        fputs("\\-", stdout);
    else if (c == '\'')
        fputs("\\(aq", stdout);
    else
        putchar(c);
}

static void print_span(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        print_character(text[i], i == 0);
}

static void print_line(const char *text)
{
    print_span(text, strlen(text));
    putchar('\n');
}

/* Text as it stands, line by line. */
static void print_example(const char *text)
{
    puts(".nf");
    while (*text) {
        size_t len = strcspn(text, "\n");
        print_span(text, len);
        putchar('\n');
        text += len + (text[len] == '\n');
    }
    puts(".fi");
}

/* Sentences; lines that begin with a blank are shown as they stand, an empty line ends a paragraph.
 */
static void print_about(const char *text)
{
    bool is_example = false;
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool is_indented = text[0] == ' ';
        if (is_indented != is_example)
            puts(is_indented ? ".nf" : ".fi");
        is_example = is_indented;
        if (len == 0)
            puts(".PP");
        else {
            print_span(text, len);
            putchar('\n');
        }
        text += len + (text[len] == '\n');
    }
    if (is_example)
        puts(".fi");
}

static void print_head(const char *name, int section, const char *what)
{
    printf(".TH %s %d \"\" \"tarry " TARRY_VERSION "\" \"tarry\"\n.SH NAME\n%s \\- %s\n", name,
           section, name, what);
}

/* ---- tarry(1) ---- */

static void print_flag(const struct cli_flag *flag)
{
    fputs(".TP\n\\fB\\-\\-", stdout);
    print_span(flag->name, strlen(flag->name));
    fputs("\\fR", stdout);
    if (flag->value) {
        fputs(" \\fI", stdout);
        print_span(flag->value, strlen(flag->value));
        fputs("\\fR", stdout);
    }
    putchar('\n');
    print_line(flag->help);
}

static void print_command(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    printf(".SS ");
    print_span(syntax->usage, strcspn(syntax->usage, " "));
    printf("\n.B tarry ");
    print_line(syntax->usage);
    puts(".PP");
    print_about(syntax->about);
    for (const struct cli_flag *flag = flags; flag->name; flag++)
        if (strcmp(flag->name, "help") != 0)
            print_flag(flag);
}

static void print_program(void)
{
    print_head("tarry", 1, "a durable delay queue");
    puts(".SH SYNOPSIS\n.B tarry\n.I COMMAND\n.RI [ ARGUMENTS ]\n.SH DESCRIPTION\n"
         "Hand it a job now, get it back when it is due.\n"
         ".B tarry serve\nis the server; the other commands speak to it over HTTP, or work on its "
         "files.\n"
         ".PP");
    print_example(cli_about_all);
    puts(".SH COMMANDS\nEach takes\n.B \\-\\-help\nas well.");
    cli_commands_describe(print_command);
    puts(".SH EXIT STATUS");
    print_example(cli_about_exit_codes);
    puts(
        ".SH ENVIRONMENT\n.TP\n.B TARRY_URL\nthe server, where\n.B \\-\\-url\nis not given\n"
        ".TP\n.BI TARRY_ OPTION\nan option of\n.BR \"tarry serve\" ,\nin capitals, with _ for \\-\n"
        ".PP\nOther variables that begin with TARRY_ are refused, those of\n.B tarry work\n"
        "and of tests apart.\n"
        ".SH SEE ALSO\n.BR tarry.conf (5)");
}

/* ---- tarry.conf(5) ---- */

static void print_key(const struct option *option)
{
    const char *values = option->kind == OPTION_SWITCH ? "true|false" : option->values;
    fputs(".TP\n\\fB", stdout);
    print_span(option->name, strlen(option->name));
    fputs("\\fR = \\fI", stdout);
    print_span(values, strlen(values));
    puts("\\fR");
    print_line(option->help);
    if (option->initial[0]) {
        fputs("(default: ", stdout);
        print_span(option->initial, strlen(option->initial));
        puts(")");
    }
}

static void print_configuration(void)
{
    size_t count;
    const struct option *options = config_options(&count);
    print_head("tarry.conf", 5, "configuration of the server of a durable delay queue");
    puts(".SH SYNOPSIS\n.B tarry serve \\-\\-config\n.I FILE\n.SH DESCRIPTION\n"
         "One\n.IB \"key \" = \" value\"\na line; # begins a comment at the start of a line or "
         "after a blank; "
         "each key at most once.\nEach is an option of\n.B tarry serve\nas well, and a variable: "
         "max\\-body is\n"
         ".B \\-\\-max\\-body\nand\n.BR TARRY_MAX_BODY .\n"
         "A flag beats the environment, which beats the file. A change needs a restart.\n.SH KEYS");
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, "config") != 0)
            print_key(&options[i]);
    puts(
        ".SH EXAMPLE\n.nf\ndata = /var/lib/tarry\nlisten = 127.0.0.1:8279\nmax\\-body = 4MiB\n.fi\n"
        ".SH FILES\n.TP\n.I /etc/tarry/tarry.conf\nwhat the unit tarry.service reads\n"
        ".SH SEE ALSO\n.BR tarry (1)");
}

int manual_print(const char *page)
{
    if (strcmp(page, "tarry") == 0)
        print_program();
    else if (strcmp(page, "tarry.conf") == 0)
        print_configuration();
    else
        return cli_usage("no manual page '%s', give tarry or tarry.conf", page);
    return CLI_OK;
}
