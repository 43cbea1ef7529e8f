#include "cli/complete.h"

#include "cli/commands.h"
#include "cli/profiles.h"
#include "cli/topic.h"
#include "server/config_rows.h"

#include <string.h>
#include <unistd.h>

/* `tarry serve` has the most options. */
enum { FLAGS_MAX = CONFIG_OPTIONS_MAX + 2, ANSWER_SECONDS = 2, TOKEN_BYTES = 64 };

static const struct {
    const char *placeholder, *words; /* of the value of an option */
} values[] = {
    {"STATE", "delayed retrying ready leased dead finished"},
    {"COLUMN", "name delayed retrying ready leased dead oldest"},
    {"ORDER", "named priority"},
    {"GROUPS", "name ready leased held"},
    {"WHAT", "replace keep reject after"},
    {"EFFECT", "go hold stop"},
    {"OUTCOME", "unfinished acked dead cancelled expired"},
    {"SHELL", "bash zsh fish"},
    {"SCOPES", "push consume read admin"},
};

static const char settings[] =
    "lease_for= ttl= max_attempts= backoff= on_conflict= priority= dedup_window= "
    "dead_letter_expired= max_jobs= push_rate= history= keep_finished= keep_finished_max= "
    "keep_finished_bytes= keep_body= limit= rate= burst= group_limit= group_rate= group_burst= "
    "group_max_jobs= group_order= one_shard=";

/* ---- the command line so far ---- */

/* The syntax of the command, as its help describes it. */
static struct {
    const char *usage;
    size_t name_len; /* of the command, at the start of the usage */
    struct cli_flag flags[FLAGS_MAX + 1];
} known;

static void note_syntax(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    size_t count = 0;
    known.usage = syntax->usage;
    known.name_len = (size_t)cli_name_length(syntax);
    for (; flags->name && count < FLAGS_MAX; flags++)
        known.flags[count++] = *flags;
    known.flags[count] = (struct cli_flag){0};
}

static const struct cli_flag *find_flag(const char *word)
{
    for (const struct cli_flag *flag = known.flags; flag->name; flag++)
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, flag->name) == 0)
            return flag;
    return NULL;
}

static bool takes_value(const char *word)
{
    const struct cli_flag *flag = find_flag(word);
    return flag && flag->kind != CLI_SWITCH;
}

/* ---- the usage ---- */

struct token {
    char text[TOKEN_BYTES];
    bool repeats; /* followed by dots */
};

/* Reads the next argument of a form, without brackets and dots, and skips groups of options. Returns
 * the rest, or NULL at the end of the arguments. */
static const char *next_token(const char *at, struct token *out)
{
    while (*at == ' ' || *at == '\n' || strncmp(at, "[-", 2) == 0) {
        at += *at == '[' ? strcspn(at, "]") : 0;
        at += *at != '\0';
    }
    at += *at == '[';
    size_t len = strcspn(at, " \n].");
    if (len == 0 || *at == '-' || *at == '|')
        return NULL;
    snprintf(out->text, sizeof out->text, "%.*s", (int)len, at);
    at += len + (at[len] == ']');
    out->repeats = strncmp(at, "...", 3) == 0;
    return at + strspn(at, ".]");
}

/* Finds the placeholder for argument `index` in one form of the usage. The arguments before it must
 * be the literal words of the form. Returns false if there is none. */
static bool find_placeholder(const char *form, char **arguments, size_t index,
                             char out[TOKEN_BYTES])
{
    struct token token = {0};
    const char *at = next_token(form, &token); /* the command itself */
    for (size_t i = 0; at && i <= index; i++) {
        const char *rest = token.repeats ? at : next_token(at, &token);
        bool is_literal = token.text[0] >= 'a' && token.text[0] <= 'z';
        if (!rest || (is_literal && (i == index || strcmp(token.text, arguments[i]) != 0)))
            return false;
        at = rest;
    }
    snprintf(out, TOKEN_BYTES, "%s", token.text);
    return at;
}

static bool placeholder_of(char **arguments, size_t index, char out[TOKEN_BYTES])
{
    for (const char *form = known.usage; form; form = strstr(form, " | ")) {
        form += strncmp(form, " | ", 3) == 0 ? 3 : 0;
        if (strncmp(form, known.usage, known.name_len) == 0 &&
            find_placeholder(form, arguments, index, out))
            return true;
    }
    return false;
}

/* ---- candidates ---- */

static void print_words(const char *words)
{
    while (*words) {
        size_t len = strcspn(words, " ");
        printf("%.*s\n", (int)len, words);
        words += len + (words[len] == ' ');
    }
}

static void print_profiles(void)
{
    json_t *all, *value;
    const char *name;
    if (profiles_read(&all) >= 0)
        return;
    json_object_foreach(all, name, value) puts(name);
    json_decref(all);
}

/* Prints the names of topics of the server that the options select. */
static void print_topics(int count, char **words)
{
    static char command[] = "topics";
    char *options[FLAGS_MAX + 2] = {command};
    const struct cli_syntax syntax = {.usage = command, .about = ""};
    struct cli_args args;
    struct client client;
    int used = 1;
    json_t *all, *topic;
    size_t i;
    for (int at = 1; at + 1 < count && used + 2 < FLAGS_MAX; at++)
        if (strcmp(words[at], "--url") == 0 || strcmp(words[at], "--profile") == 0 ||
            strcmp(words[at], "--token-file") == 0 || strcmp(words[at], "--ca") == 0 ||
            strcmp(words[at], "--cert") == 0 || strcmp(words[at], "--key") == 0) {
            options[used++] = words[at++];
            options[used++] = words[at];
        }
    alarm(ANSWER_SECONDS);
    if (cli_parse(used, options, &syntax, &args) >= 0 || !client_open(&client, args.url))
        return;
    client.is_silent = true;
    if (topic_pages(&client, &all) == CLI_OK) {
        json_array_foreach(json_object_get(all, "topics"), i, topic)
            puts(json_string_value(json_object_get(topic, "topic")));
        json_decref(all);
    }
    client_close(&client);
}

static void print_values(const struct cli_flag *flag)
{
    if (strcmp(flag->name, "profile") == 0)
        print_profiles();
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strcmp(flag->value, values[i].placeholder) == 0)
            print_words(values[i].words);
}

int complete_print(int count, char **words)
{
    const struct cli_command *command = count > 1 ? cli_command_find(words[0]) : NULL;
    char placeholder[TOKEN_BYTES], *arguments[CLI_LIST_MAX];
    size_t index = 0;
    if (!command)
        return CLI_OK;
    cli_command_describe(command, note_syntax);
    if (takes_value(words[count - 2])) {
        print_values(find_flag(words[count - 2]));
        return CLI_OK;
    }
    for (int at = 1; at + 1 < count && index < CLI_LIST_MAX; at++)
        if (strncmp(words[at], "--", 2) != 0)
            arguments[index++] = words[at];
        else
            at += takes_value(words[at]);
    if (!placeholder_of(arguments, index, placeholder))
        return CLI_OK;
    if (strncmp(placeholder, "TOPIC", 5) == 0 || strcmp(placeholder, "PATTERN") == 0)
        print_topics(count, words);
    else if (strcmp(placeholder, "NAME=VALUE") == 0)
        print_words(settings);
    else if (strcmp(placeholder, "NAME") == 0 && strcmp(command->name, "profile") == 0)
        print_profiles();
    return CLI_OK;
}
