/* The manual pages, as roff, generated from the tables of the commands and of the options. */
#include "cli/manual.h"

#include "cli/commands.h"
#include "server/config.h"

#include <string.h>

/* Prints one character of text. A dot or quote at the beginning of a line is escaped because
 * roff treats it as a request. */
static void roff_character(char c, bool begins_line)
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

static void roff_span(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        roff_character(text[i], i == 0);
}

static void roff_line(const char *text)
{
    roff_span(text, strlen(text));
    putchar('\n');
}

/* Prints text unchanged, line by line. */
static void roff_example(const char *text)
{
    puts(".nf");
    while (*text) {
        size_t len = strcspn(text, "\n");
        roff_span(text, len);
        putchar('\n');
        text += len + (text[len] == '\n');
    }
    puts(".fi");
}

/* Prints sentences. Lines that begin with a blank are printed unchanged; an empty line ends a
 * paragraph. */
static void roff_about(const char *text)
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
            roff_span(text, len);
            putchar('\n');
        }
        text += len + (text[len] == '\n');
    }
    if (is_example)
        puts(".fi");
}

static void roff_head(const char *name, int section, const char *what)
{
    printf(".TH %s %d \"\" \"tarry " TARRY_VERSION "\" \"tarry\"\n.SH NAME\n%s \\- %s\n", name,
           section, name, what);
}

/* ---- the manual page tarry(1) ---- */

static void roff_flag(const struct cli_flag *flag)
{
    fputs(".TP\n\\fB\\-\\-", stdout);
    roff_span(flag->name, strlen(flag->name));
    fputs("\\fR", stdout);
    if (flag->value) {
        fputs(" \\fI", stdout);
        roff_span(flag->value, strlen(flag->value));
        fputs("\\fR", stdout);
    }
    putchar('\n');
    roff_line(flag->help);
}

static void roff_command(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    printf(".SS ");
    roff_span(syntax->usage, strcspn(syntax->usage, " "));
    printf("\n.B tarry ");
    roff_line(syntax->usage);
    puts(".PP");
    roff_about(syntax->about);
    for (const struct cli_flag *flag = flags; flag->name; flag++)
        if (strcmp(flag->name, "help") != 0)
            roff_flag(flag);
}

/* Prints the page tarry(1), generated from the help of every command. */
static void roff_program(void)
{
    roff_head("tarry", 1, "a durable delay queue");
    puts(".SH SYNOPSIS\n.B tarry\n.I COMMAND\n.RI [ ARGUMENTS ]\n.SH DESCRIPTION\n"
         "Hand it a job now, get it back when it is due.\n"
         ".B tarry serve\nis the server; the other commands call it over HTTP, or work on its "
         "files.\n"
         ".PP");
    roff_example(cli_about_all);
    puts(".SH COMMANDS\nEach command also accepts\n.BR \\-\\-help .");
    cli_commands_describe(roff_command);
    puts(".SH EXIT STATUS");
    roff_example(cli_about_exit_codes);
    puts(
        ".SH ENVIRONMENT\n.TP\n.B TARRY_PROFILE\nthe profile, if neither\n.B "
        "\\-\\-profile\nnor\n.B \\-\\-url\nis given\n"
        ".TP\n.B TARRY_URL\nthe server, if no profile and no\n.B \\-\\-url\nis given\n"
        ".TP\n.BI TARRY_ OPTION\nan option of\n.BR \"tarry serve\" ,\nin capitals, with _ for \\-\n"
        ".PP\nOther variables that begin with TARRY_ are rejected, except those of\n.B tarry "
        "work\nand of tests.\n"
        ".SH SEE ALSO\n.BR tarry.conf (5)");
}

/* ---- the manual page of one command, tarry-push(1) ---- */

/* Prints each form of the command on a line; " | topic set" begins another form, as does a line
 * of the usage. */
static void roff_synopsis(const struct cli_syntax *syntax)
{
    char other[64];
    size_t other_len =
        (size_t)snprintf(other, sizeof other, " | %.*s ", cli_name_length(syntax), syntax->usage);
    fputs(".SH SYNOPSIS\n.B tarry ", stdout);
    for (const char *at = syntax->usage; *at;) {
        size_t skipped = strncmp(at, other, other_len) == 0 ? 3
                         : *at == '\n'                      ? 1 + strspn(at + 1, " ")
                                                            : 0;
        if (skipped == 3)
            fputs("\n.br\n.B tarry ", stdout);
        else if (skipped)
            fputs("\n.br\n.B ", stdout);
        else
            roff_character(*at, false);
        at += skipped ? skipped : 1;
    }
    putchar('\n');
}

static void roff_command_page(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    roff_synopsis(syntax);
    puts(".SH DESCRIPTION");
    roff_about(syntax->about);
    puts(".SH OPTIONS");
    for (const struct cli_flag *flag = flags; flag->name; flag++)
        roff_flag(flag);
    puts(".SH EXIT STATUS");
    roff_example(cli_about_exit_codes);
    puts(".SH SEE ALSO\n.BR tarry (1),\n.BR tarry.conf (5)");
}

static void roff_one(const struct cli_command *command)
{
    char name[64];
    snprintf(name, sizeof name, "tarry\\-%s", command->name);
    roff_head(name, 1, command->help);
    cli_command_describe(command, roff_command_page);
}

/* ---- the manual page tarry.conf(5) ---- */

static void roff_key(const struct option *option)
{
    const char *values = option->kind == OPTION_SWITCH  ? "true|false"
                         : option->kind == OPTION_CLOCK ? "true|false|TIME"
                                                        : option->values;
    fputs(".TP\n\\fB", stdout);
    roff_span(option->name, strlen(option->name));
    fputs("\\fR = \\fI", stdout);
    roff_span(values, strlen(values));
    puts("\\fR");
    roff_line(option->help);
    if (option->initial[0]) {
        fputs("(default: ", stdout);
        roff_span(option->initial, strlen(option->initial));
        puts(")");
    }
}

/* Prints the page tarry.conf(5), generated from the server's options. */
static void roff_configuration(void)
{
    size_t count;
    const struct option *options = config_options(&count);
    roff_head("tarry.conf", 5, "configuration of the server of a durable delay queue");
    puts(".SH SYNOPSIS\n.B tarry serve \\-\\-config\n.I FILE\n.SH DESCRIPTION\n"
         "One\n.IB \"key \" = \" value\"\nper line. # begins a comment at the start of a line or "
         "after a blank. Each key may be given once.\nEach key is also an option of\n.B tarry "
         "serve\nand a variable: max\\-body is\n.B \\-\\-max\\-body\nand\n.BR TARRY_MAX_BODY .\nA "
         "flag overrides the environment, which overrides the file. SIGHUP reads the file again; "
         "the log lists\noptions that need a restart.\n.SH KEYS");
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, "config") != 0)
            roff_key(&options[i]);
    puts(
        ".SH EXAMPLE\n.nf\ndata = /var/lib/tarry\nlisten = 127.0.0.1:8279\nmax\\-body = 4MiB\n.fi\n"
        ".SH FILES\n.TP\n.I /etc/tarry/tarry.conf\nread by the unit tarry.service\n"
        ".SH SEE ALSO\n.BR tarry (1)");
}

int manual_print(const char *page)
{
    const struct cli_command *command =
        strncmp(page, "tarry-", 6) == 0 ? cli_command_find(page + 6) : NULL;
    if (strcmp(page, "tarry") == 0)
        roff_program();
    else if (strcmp(page, "tarry.conf") == 0)
        roff_configuration();
    else if (command)
        roff_one(command);
    else
        return cli_usage("no manual page '%s', give tarry, tarry-COMMAND or tarry.conf", page);
    return CLI_OK;
}
