/* The scripts by which shells complete the commands, generated from the tables of the commands. */
#include "cli/completion.h"

#include "cli/commands.h"

#include <string.h>

static void print_names(void)
{
    EACH_COMMAND(command)
    printf("%s%s", command == cli_command_after(NULL) ? "" : " ", command->name);
}

/* Returns the first argument in a form of the usage. */
static const char *first_argument(const char *form)
{
    form += strcspn(form, " ");
    return form + strspn(form, " [");
}

/* Prints the literal words after the command: "show" and "set" of "topic show TOPIC | topic set
 * TOPIC" or of "topic show|set". Each is surrounded by `before` and `after`. */
static void print_words(const struct cli_syntax *syntax, const char *before, const char *after)
{
    for (const char *usage = syntax->usage; usage; usage = strstr(usage, " | ")) {
        usage += strncmp(usage, " | ", 3) == 0 ? 3 : 0;
        size_t len;
        for (const char *word = first_argument(usage);
             (len = strspn(word, "abcdefghijklmnopqrstuvwxyz")) > 0 && strchr(" |]", word[len]);
             word += len + (word[len] == '|'))
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
    printf("    %.*s)\n        options='", cli_name_length(syntax), syntax->usage);
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
    cli_commands_describe(print_bash_command);
    puts("    esac\n"
         "    [ \"$COMP_CWORD\" -eq 2 ] || words=\n"
         "    [ \"${COMP_WORDS[1]}\" != help ] || words=$commands\n"
         "    [ \"$COMP_CWORD\" -ne 1 ] || options= words=\"$commands --help --version\"\n"
         "    case $word in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options $words\" -- \"$word\")) ;;\n"
         "    *) [ \"$COMP_CWORD\" -lt 2 ] ||\n"
         "           words=\"$words $(\"${COMP_WORDS[0]}\" __complete "
         "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2> /dev/null)\"\n"
         "       COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    esac\n"
         "    [[ \"${COMPREPLY[0]}\" != *= ]] || compopt -o nospace 2> /dev/null\n"
         "}\n"
         "complete -o default -F _tarry tarry");
}

/* ---- completion: zsh ---- */

static void print_zsh_command(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    printf("    %.*s)\n        _arguments", cli_name_length(syntax), syntax->usage);
    for (const struct cli_flag *flag = flags; flag->name; flag++) {
        printf(" \\\n            '%s--%s%s[", flag->kind == CLI_LIST ? "*" : "", flag->name,
               flag->value ? "=" : "");
        print_quoted(flag->help, "[]:\\");
        putchar(']');
        if (flag->value) {
            putchar(':');
            print_quoted(flag->value, "[]:\\");
            fputs(":_tarry_words", stdout);
        }
        putchar('\'');
    }
    bool is_help = strncmp(syntax->usage, "help", 4) == 0;
    if (is_help || *first_argument(syntax->usage) >= 'a') { /* a literal word */
        fputs(" \\\n            '1:word:(", stdout);
        if (is_help)
            print_names();
        else
            print_words(syntax, "", " ");
        fputs(")'", stdout);
    }
    puts(" '*:word:_tarry_words' ;;");
}

static void print_zsh(void)
{
    puts(
        "#compdef tarry\n# Completion of tarry for zsh; printed by `tarry help --completion zsh`.\n"
        "_tarry_words()\n{\n"
        "    local -a found=(${(f)\"$(_call_program words tarry __complete ${(qq)words} 2> "
        "/dev/null)\"})\n"
        "    if (( $#found )); then\n"
        "        compadd -q -S ' ' -r = -- $found\n"
        "    else\n"
        "        _files\n"
        "    fi\n}\n"
        "local -a commands\ncommands=(");
    EACH_COMMAND(command)
    {
        printf("    '%s:", command->name);
        print_quoted(command->help, "");
        puts("'");
    }
    puts(")\nif ((CURRENT == 2)); then\n    _describe command commands\n    return\nfi\n"
         "shift words\n((CURRENT--))\ncase $words[1] in");
    cli_commands_describe(print_zsh_command);
    puts("esac");
}

/* ---- completion: fish ---- */

static void print_fish_command(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    for (const struct cli_flag *flag = flags; flag->name; flag++) {
        printf("complete -c tarry -n '__fish_seen_subcommand_from %.*s' -l %s%s -d '",
               cli_name_length(syntax), syntax->usage, flag->name,
               flag->value ? " -r -a '(_tarry_words)'" : "");
        print_quoted(flag->help, "\\");
        puts("'");
    }
    char before[128];
    snprintf(before, sizeof before, "complete -c tarry -n '__fish_seen_subcommand_from %.*s' -a ",
             cli_name_length(syntax), syntax->usage);
    print_words(syntax, before, "\n");
}

static void print_fish(void)
{
    puts("# Completion of tarry for fish; printed by `tarry help --completion fish`.\n"
         "function _tarry_words\n"
         "    tarry __complete (commandline -opc)[2..] (commandline -ct) 2> /dev/null\n"
         "end");
    EACH_COMMAND(command)
    {
        printf("complete -c tarry -n __fish_use_subcommand -a %s -d '", command->name);
        print_quoted(command->help, "\\");
        puts("'");
    }
    cli_commands_describe(print_fish_command);
    puts("complete -c tarry -n 'not __fish_use_subcommand' -a '(_tarry_words)'");
}

int completion_print(const char *shell)
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
