/*
 * The table of all subcommands, and the help, shell completion and manual pages generated from it.
 */
#include "cli/commands.h"

#include "base/feature.h"
#include "base/text.h"
#include "cli/call.h"
#include "cli/environment.h"
#include "server/config.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

static int help_command(int argc, char **argv);
static int version_command(int argc, char **argv);

static const struct cli_command own_commands[] = {
    {.name = "version", .run = version_command, .help = "print the version"},
    {.name = "help", .run = help_command, .help = "print this, or help for a command"},
    {0},
};

/* In the order of the help. */
static const struct cli_command *const tables[] = {
    cli_serve_commands,    cli_push_commands,   cli_lease_commands,   cli_work_commands,
    cli_schedule_commands, cli_job_commands,    cli_topic_commands,   cli_status_commands,
    cli_top_commands,      cli_tail_commands,   cli_deliver_commands, cli_dead_commands,
    cli_export_commands,   cli_import_commands, cli_bench_commands,   cli_backup_commands,
    cli_drain_commands,    cli_fsck_commands,   cli_reshard_commands, cli_schema_commands,
    cli_token_commands,    cli_clock_commands,  own_commands,
};

enum { TABLES = sizeof tables / sizeof tables[0], COMMANDS_MAX = 64 };

#define EACH_COMMAND(COMMAND)                                                                      \
    for (size_t table = 0; table < TABLES; table++)                                                \
        for (const struct cli_command *COMMAND = tables[table]; COMMAND->name; COMMAND++)

static const char about_all[] =
    "clients connect to --url, then TARRY_URL, then " CLI_URL_DEFAULT "\n"
    "durations: 1500ms, 30s, 30m, 2h30m, 7d, PT30M; a unit is required\n"
    "times: 2026-11-20T09:00:00Z, '2026-11-20 09:00' in your time zone, or milliseconds since "
    "1970\n";

static const char about_exit_codes[] = "  0  done\n"
                                       "  1  rejected by the server, or failed\n"
                                       "  2  wrong command line or configuration\n"
                                       "  3  the server cannot be reached\n"
                                       "  4  no job taken, or not found\n";

static const struct cli_command *find_command(const char *name)
{
    EACH_COMMAND(command)
    if (strcmp(command->name, name) == 0)
        return command;
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[COMMANDS_MAX + 1] = {0};
    size_t count = 0;
    EACH_COMMAND(command)
    names[count++] = command->name;
    const char *nearest = text_nearest(name, names);
    if (nearest)
        return cli_usage("unknown command '%s', did you mean 'tarry %s'", name, nearest);
    return cli_usage("unknown command '%s', see 'tarry help'", name);
}

/* ---- help ---- */

static void print_commands(FILE *out)
{
    fputs("tarry: a durable delay queue. Hand it a job now, get it back when it is due.\n\n"
          "usage: tarry COMMAND [ARGUMENTS]\n\ncommands:\n",
          out);
    EACH_COMMAND(command)
    fprintf(out, "  %-12s%s\n", command->name, command->help);
    fprintf(out, "\n%s\nexit codes:\n%s\n'tarry help COMMAND' shows the options of a command\n",
            about_all, about_exit_codes);
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    return command->call.usage ? call_run(&command->call, argc, argv) : command->run(argc, argv);
}

static int print_help(const struct cli_command *command)
{
    char name[32], help[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    return run_command(command, 2, (char *[]){name, help, NULL});
}

/* Describes every command by `printer`. */
static void describe_all(cli_help_printer *printer)
{
    cli_help_print_by(printer);
    EACH_COMMAND(command)
    if (command->describe)
        command->describe(printer);
    else
        print_help(command);
}

/* ---- completion ---- */

static void print_names(void)
{
    EACH_COMMAND(command)
    printf("%s%s", command == tables[0] ? "" : " ", command->name);
}

static int name_length(const struct cli_syntax *syntax)
{
    return (int)strcspn(syntax->usage, " ");
}

/* Prints the literal words after the command: "show" and "set" of "topic show TOPIC | topic set
 * TOPIC". Each is surrounded by `before` and `after`. */
static void print_words(const struct cli_syntax *syntax, const char *before, const char *after)
{
    for (const char *usage = syntax->usage; usage; usage = strstr(usage, " | ")) {
        usage += strncmp(usage, " | ", 3) == 0 ? 3 : 0;
        const char *word = usage + strcspn(usage, " ");
        word += *word == ' ';
        size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyz");
        if (len > 0 && (word[len] == ' ' || word[len] == '\0'))
            printf("%s%.*s%s", before, (int)len, word, after);
    }
}

/* Prints text for use inside single quotes in a shell, with a backslash before each character of
 * `special`. */
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", stdout);
        else if (strchr(special, *text))
            putchar('\\');
        putchar(*text);
    }
}

/* ---- completion: bash ---- */

static void print_bash_command(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    printf("    %.*s)\n        options='", name_length(syntax), syntax->usage);
    for (const struct cli_flag *flag = flags; flag->name; flag++)
        printf("%s--%s", flag == flags ? "" : " ", flag->name);
    fputs("'\n        words='", stdout);
    print_words(syntax, " ", "");
    puts("' ;;");
}

static void print_bash(void)
{
    fputs("# Completion of tarry for bash; printed by `tarry help --completion bash`.\n"
          "_tarry()\n{\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} commands options= words=\n"
          "    commands='",
          stdout);
    print_names();
    puts("'\n    case ${COMP_WORDS[1]} in");
    describe_all(print_bash_command);
    puts("    esac\n"
         "    [ \"$COMP_CWORD\" -eq 2 ] || words=\n"
         "    [ \"${COMP_WORDS[1]}\" != help ] || words=$commands\n"
         "    [ \"$COMP_CWORD\" -ne 1 ] || options= words=\"$commands --help --version\"\n"
         "    case $word in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options $words\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    esac\n"
         "}\n"
         "complete -o default -F _tarry tarry");
}

/* ---- completion: zsh ---- */

static void print_zsh_command(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    printf("    %.*s)\n        _arguments", name_length(syntax), syntax->usage);
    for (const struct cli_flag *flag = flags; flag->name; flag++) {
        printf(" \\\n            '%s--%s%s[", flag->kind == CLI_LIST ? "*" : "", flag->name,
               flag->value ? "=" : "");
        print_quoted(flag->help, "[]:\\");
        putchar(']');
        if (flag->value) {
            putchar(':');
            print_quoted(flag->value, "[]:\\");
            fputs(":_files", stdout);
        }
        putchar('\'');
    }
    fputs(" \\\n            '1:word:(", stdout);
    if (strncmp(syntax->usage, "help", 4) == 0)
        print_names();
    else
        print_words(syntax, "", " ");
    puts(")' '*:file:_files' ;;");
}

static void print_zsh(void)
{
    puts(
        "#compdef tarry\n# Completion of tarry for zsh; printed by `tarry help --completion zsh`.\n"
        "local -a commands\ncommands=(");
    EACH_COMMAND(command)
    {
        printf("    '%s:", command->name);
        print_quoted(command->help, "");
        puts("'");
    }
    puts(")\nif ((CURRENT == 2)); then\n    _describe command commands\n    return\nfi\n"
         "shift words\n((CURRENT--))\ncase $words[1] in");
    describe_all(print_zsh_command);
    puts("esac");
}

/* ---- completion: fish ---- */

static void print_fish_command(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    for (const struct cli_flag *flag = flags; flag->name; flag++) {
        printf("complete -c tarry -n '__fish_seen_subcommand_from %.*s' -l %s%s -d '",
               name_length(syntax), syntax->usage, flag->name, flag->value ? " -r" : "");
        print_quoted(flag->help, "\\");
        puts("'");
    }
    char before[128];
    snprintf(before, sizeof before, "complete -c tarry -n '__fish_seen_subcommand_from %.*s' -a ",
             name_length(syntax), syntax->usage);
    print_words(syntax, before, "\n");
}

static void print_fish(void)
{
    puts("# Completion of tarry for fish; printed by `tarry help --completion fish`.");
    EACH_COMMAND(command)
    {
        printf("complete -c tarry -n __fish_use_subcommand -a %s -d '", command->name);
        print_quoted(command->help, "\\");
        puts("'");
    }
    describe_all(print_fish_command);
}

/* Prints the script by which a shell completes commands and their options. */
static int print_completion(const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        print_bash();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else if (strcmp(shell, "fish") == 0)
        print_fish();
    else
        return cli_usage("no completion for '%s', give bash, zsh or fish", shell);
    return CLI_OK;
}

/* ---- manual pages, as roff ---- */

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
    roff_example(about_all);
    puts(".SH COMMANDS\nEach command also accepts\n.BR \\-\\-help .");
    describe_all(roff_command);
    puts(".SH EXIT STATUS");
    roff_example(about_exit_codes);
    puts(
        ".SH ENVIRONMENT\n.TP\n.B TARRY_URL\nthe server, if\n.B \\-\\-url\nis not given\n"
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
        (size_t)snprintf(other, sizeof other, " | %.*s ", name_length(syntax), syntax->usage);
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
    roff_example(about_exit_codes);
    puts(".SH SEE ALSO\n.BR tarry (1),\n.BR tarry.conf (5)");
}

static void roff_one(const struct cli_command *command)
{
    char name[64];
    snprintf(name, sizeof name, "tarry\\-%s", command->name);
    roff_head(name, 1, command->help);
    cli_help_print_by(roff_command_page);
    if (command->describe)
        command->describe(roff_command_page);
    else
        print_help(command);
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

/* Prints a manual page: tarry(1), tarry.conf(5), or that of a command. */
static int print_manual(const char *page)
{
    const struct cli_command *command =
        strncmp(page, "tarry-", 6) == 0 ? find_command(page + 6) : NULL;
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

/* ---- help, version ---- */

static int help_command(int argc, char **argv)
{
    const char *page = NULL, *shell = NULL;
    const struct cli_flag flags[] = {
        {"man", CLI_TEXT, &page, "PAGE",
         "Print the manual page tarry, tarry-COMMAND or tarry.conf, as roff"},
        {"completion", CLI_TEXT, &shell, "SHELL",
         "Print the completion script for bash, zsh or fish"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "help [COMMAND] | help metrics | help --man PAGE | help --completion SHELL",
        .about = "Prints the list of commands, or the help of one. 'help metrics' prints the "
                 "meaning of each\n"
                 "metric at /metrics, and what to do when it changes.",
        .flags = flags,
        .most = 1,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (page)
        return print_manual(page);
    if (shell)
        return print_completion(shell);
    if (args.list.count == 0) {
        print_commands(stdout);
        return CLI_OK;
    }
    if (strcmp(args.list.at[0], "metrics") == 0) {
        cli_print_metrics();
        return CLI_OK;
    }
    const struct cli_command *command = find_command(args.list.at[0]);
    return command ? print_help(command) : unknown_command(args.list.at[0]);
}

/* Prints one feature per line, or one JSON object with the version. */
static void print_features(bool json)
{
    size_t count;
    const struct feature *features = feature_all(&count);
    if (!json)
        puts("tarry " TARRY_VERSION);
    else
        fputs("{\"name\":\"tarry\",\"version\":\"" TARRY_VERSION "\",\"features\":{", stdout);
    for (size_t i = 0; i < count; i++) {
        const struct feature *feature = &features[i];
        if (json)
            printf("%s\"%s\":%s", i ? "," : "", feature->name,
                   feature->is_built ? "true" : "false");
        else
            printf("%-10s%-5s%s\n", feature->name, feature->is_built ? "yes" : "no",
                   feature->title);
    }
    if (json)
        puts("}}");
}

static int version_command(int argc, char **argv)
{
    bool features = false, json = false;
    const struct cli_flag flags[] = {
        {"features", CLI_SWITCH, &features, NULL, "Also print the optional parts of this build"},
        {"json", CLI_SWITCH, &json, NULL, "Print one JSON object"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "version [--features] [--json]",
        .about = "Prints the version.",
        .flags = flags,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (features)
        print_features(json);
    else
        puts(json ? "{\"name\":\"tarry\",\"version\":\"" TARRY_VERSION "\"}"
                  : "tarry " TARRY_VERSION);
    return CLI_OK;
}

/* ---- the program ---- */

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0)
        name = "version";
    const struct cli_command *command = find_command(name);
    if (!command)
        return unknown_command(name);
    int exit_code = -1;
    if (command->run != help_command && command->run != version_command)
        exit_code = environment_check(environ);
    if (exit_code < 0)
        exit_code = run_command(command, argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout))
        return exit_code ? exit_code : cli_error("cannot write to standard output");
    return exit_code;
}
