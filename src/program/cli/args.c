/* The command line: flags defined by a table, from which the help is generated. */
#include "base/url.h"
#include "cli/cli.h"
#include "cli/credentials.h"
#include "cli/local_time.h"
#include "cli/profiles.h"
#include "cli/show.h"
#include "cli/url.h"

#include "base/duration.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- flags of a command, including the common ones ---- */

enum { FLAGS_MAX = 40 };

struct flags {
    struct cli_flag rows[FLAGS_MAX + 1];
    bool help;
    const char *profile; /* --profile */
};

/* Collects the flags of one command and the common ones. */
static void collect_flags(struct flags *flags, const struct cli_syntax *syntax,
                          struct cli_args *out)
{
    size_t count = 0;
    for (const struct cli_flag *flag = syntax->flags; flag && flag->name; flag++)
        flags->rows[count++] = *flag;
    if (!syntax->is_local) {
        flags->rows[count++] = (struct cli_flag){
            "url", CLI_TEXT, &out->url, "URL",
            "Server, also https:// and unix:PATH (default: TARRY_URL, then " CLI_URL_DEFAULT ")"};
        flags->rows[count++] = (struct cli_flag){
            "profile", CLI_TEXT, &flags->profile, "NAME",
            "Use the server and credentials of this profile (default: TARRY_PROFILE)"};
        flags->rows[count++] = (struct cli_flag){"json", CLI_SWITCH, &out->json, NULL,
                                                 "Print the server's answer as JSON"};
        credentials_flags(&flags->rows[count]);
        count += CREDENTIALS_FLAGS;
    }
    flags->rows[count++] =
        (struct cli_flag){"help", CLI_SWITCH, &flags->help, NULL, "Print this help"};
    flags->rows[count] = (struct cli_flag){0};
}

static const struct cli_flag *find_flag(const struct flags *flags, const char *name, size_t len)
{
    for (const struct cli_flag *flag = flags->rows; flag->name; flag++)
        if (strlen(flag->name) == len && memcmp(flag->name, name, len) == 0)
            return flag;
    return NULL;
}

/* Returns the setting that an option would be: "max_attempts" for "max-attempts=5". */
static const char *as_setting(const char *name, char out[64])
{
    size_t len = strcspn(name, "=");
    snprintf(out, 64, "%.*s", (int)len, name);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : *c;
    return out;
}

static int unknown_flag(const struct flags *flags, const struct cli_syntax *syntax,
                        const char *command, const char *name)
{
    const char *names[FLAGS_MAX + 1] = {0};
    char setting[64];
    for (size_t i = 0; flags->rows[i].name; i++)
        names[i] = flags->rows[i].name;
    const char *nearest = text_nearest(name, names);
    if (nearest)
        return cli_usage("unknown option '--%s', did you mean --%s", name, nearest);
    if (strstr(syntax->usage, "[NAME=VALUE]"))
        return cli_usage("unknown option '--%s', write a setting as %s=VALUE", name,
                         as_setting(name, setting));
    return cli_usage("unknown option '--%s', see 'tarry help %s'", name, command);
}

static void print_help(const struct cli_syntax *syntax, const struct cli_flag *flags)
{
    printf("usage: tarry %s\n\n%s\n\noptions:\n", syntax->usage, syntax->about);
    for (const struct cli_flag *flag = flags; flag->name; flag++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", flag->name, flag->value ? " " : "",
                 flag->value ? flag->value : "");
        printf("  %-24s  %s\n", left, flag->help);
    }
}

static cli_help_printer *help_printer = print_help;

void cli_help_print_by(cli_help_printer *printer)
{
    help_printer = printer;
}

bool cli_lacks_unit(const char *text)
{
    return duration_lacks_unit(slice_of(text));
}

/* Converts a time in this program's own output format, "2026-11-20 09:00:00.000 (in 3d)", to the
 * server's format. Returns any other value unchanged for the server to check. Returns NULL after
 * printing an error if the time does not exist. */
static const char *read_time(const char *name, const char *value)
{
    enum { TIMES_MAX = 4 };
    static char times[TIMES_MAX][TIMESTAMP_BYTES + 1];
    static unsigned count;
    char *out = times[count % TIMES_MAX];
    if (!local_time_read(name, value, out))
        return NULL;
    if (!*out)
        return value;
    count++;
    return out;
}

/* Returns whether the value is a date without a time of day, such as "2026-11-20". Midnight is
 * not what all users mean by it. */
static bool is_date_alone(const char *value)
{
    static const char form[] = "dddd-dd-dd";
    size_t i = 0;
    for (; form[i]; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)value[i]) : value[i] != form[i])
            return false;
    return value[i] == '\0';
}

/* Rejects what is not a time. Times of the server's clock that it rejects itself are left to it. */
static int check_time(const struct cli_flag *flag, const char *value)
{
    int64_t ms;
    if (timestamp_parse(slice_of(value), &ms) || timestamp_is_in_seconds(slice_of(value)))
        return -1;
    if (timestamp_lacks_zone(slice_of(value)))
        return cli_usage("no time zone in '%s' for '--%s', add Z or an offset such as +01:00, or "
                         "write a blank in place of the T for local time",
                         value, flag->name);
    return cli_usage("bad value '%s' for '--%s', write it as in '2026-11-20 09:00' (local time), "
                     "2026-11-20T09:00:00Z (from 1970 on), or in milliseconds since 1970",
                     value, flag->name);
}

/* Stores the flag's value. Returns false if it is invalid for the kind. */
static bool store_value(const struct cli_flag *flag, const char *value)
{
    struct cli_list *list = flag->into;
    uint64_t number;
    switch (flag->kind) {
    case CLI_TEXT:
    case CLI_DURATION:
        *(const char **)flag->into = value;
        return true;
    case CLI_TIME:
        *(const char **)flag->into = value;
        return true;
    case CLI_SWITCH:
        *(bool *)flag->into = true;
        return true;
    case CLI_NUMBER:
        *(const char **)flag->into = value;
        return text_parse_u64(slice_of(value), INT64_MAX, &number);
    case CLI_COUNT:
        return text_parse_u64(slice_of(value), INT64_MAX, flag->into);
    case CLI_LIST:
        if (list->count == CLI_LIST_MAX)
            return false;
        list->at[list->count++] = value;
        return true;
    }
    return false;
}

/* Returns whether the option takes one duration, and not a range or a backoff. */
static bool is_plain_duration(const struct cli_flag *flag)
{
    return flag->value &&
           (isdigit((unsigned char)flag->value[0]) || strcmp(flag->value, "TIME") == 0);
}

/* Parses the flag at argv[*i]. Returns -1 to continue. */
static int read_flag(const struct flags *flags, const struct cli_syntax *syntax, int argc,
                     char **argv, int *i)
{
    const char *name = argv[*i] + 2;
    size_t len = strcspn(name, "=");
    const struct cli_flag *flag = find_flag(flags, name, len);
    if (!flag)
        return unknown_flag(flags, syntax, argv[0], name);
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (flag->kind == CLI_SWITCH && value)
        return cli_usage("option '--%s' takes no value, write it without one", flag->name);
    if (flag->kind != CLI_SWITCH && !value) {
        if (*i + 1 >= argc)
            return cli_usage("option '--%s' needs a value: --%s %s", flag->name, flag->name,
                             flag->value);
        value = argv[++*i];
    }
    if (flag->kind == CLI_DURATION && cli_lacks_unit(value))
        return cli_usage("no unit in '%s' for '--%s', write it as in %s (ms, s, m, h, d)", value,
                         flag->name,
                         flag->value && strpbrk(flag->value, "0123456789") ? flag->value : "30s");
    if (flag->kind == CLI_DURATION && is_plain_duration(flag) &&
        !duration_parse(slice_of(value), INT64_MAX, &(int64_t){0}))
        return cli_usage("bad value '%s' for '--%s', write it as in 30m or 2h30m (ms, s, m, h, "
                         "d)",
                         value, flag->name);
    if (flag->kind == CLI_TIME && is_date_alone(value))
        return cli_usage("no time of day in '%s' for '--%s', write it as in '%s 09:00'", value,
                         flag->name, value);
    if (flag->kind == CLI_TIME && !(value = read_time(flag->name, value)))
        return CLI_USAGE;
    if (flag->kind == CLI_TIME && check_time(flag, value) >= 0)
        return CLI_USAGE;
    if (!store_value(flag, value))
        return cli_usage("bad value '%s' for '--%s', give a number", value, flag->name);
    return -1;
}

static bool is_verb(const struct cli_syntax *syntax, const char *word)
{
    for (size_t i = 0; syntax->verbs[i]; i++)
        if (strcmp(word, syntax->verbs[i]) == 0)
            return true;
    return !syntax->verbs[0];
}

static int check_arguments(const struct cli_syntax *syntax, const struct cli_args *args)
{
    if (args->list.count > 0 && !is_verb(syntax, args->list.at[0]))
        return cli_usage("unknown '%s', usage: tarry %s", args->list.at[0], syntax->usage);
    if (args->list.count < syntax->least)
        return cli_usage("too few arguments, usage: tarry %s", syntax->usage);
    if (args->list.count > syntax->most)
        return cli_usage("unexpected argument '%s', usage: tarry %s", args->list.at[syntax->most],
                         syntax->usage);
    if (syntax->takes_command && (!args->command || !args->command[0]))
        return cli_usage("no command after '--', usage: tarry %s", syntax->usage);
    return -1;
}

static bool is_http(struct slice scheme)
{
    return (scheme.len == 4 && strncasecmp(scheme.at, "http", 4) == 0) ||
           (scheme.len == 5 && strncasecmp(scheme.at, "https", 5) == 0);
}

/* Checks the URL. A '?' or '#' would remove the path of every call, and without a host curl
 * would resolve "v1". curl uses http for a URL without a scheme. */
int cli_check_url(const char *text)
{
    char whole[CLI_URL_SHOWN_BYTES + 8], shown[CLI_URL_SHOWN_BYTES];
    struct url url;
    if (strncmp(text, "unix:", 5) == 0)
        return -1;
    int len = snprintf(whole, sizeof whole, "%s%s", strstr(text, "://") ? "" : "http://", text);
    if ((size_t)len < sizeof whole && url_parse(slice_of(whole), &url) == URL_OK &&
        url.host_count == 1 && !url.has_query && is_http(url.scheme))
        return -1;
    cli_url_show(text, shown, sizeof shown);
    return cli_usage("bad URL '%s', give one such as " CLI_URL_DEFAULT, shown);
}

/* Finds the server and the credentials. A profile of the environment is ignored if a URL is given, so
 * that its token goes to its own server alone. */
static int find_server(const char *given, struct cli_args *out)
{
    struct profile profile = {0};
    const char *name = given || out->url ? given : getenv("TARRY_PROFILE");
    if (given && out->url)
        return cli_usage("both '--profile' and '--url' are given, choose one");
    if (name && *name) {
        int exit_code = profiles_find(name, &profile);
        if (exit_code >= 0)
            return exit_code;
        out->profile = name;
        out->url = profile.url;
        /* For the commands that `tarry work` runs. */
        if (setenv("TARRY_PROFILE", name, 1) != 0)
            return cli_error("out of memory");
    }
    if (!out->url)
        out->url = getenv("TARRY_URL");
    if (!out->url || !*out->url)
        out->url = CLI_URL_DEFAULT;
    int exit_code = cli_check_url(out->url);
    return exit_code >= 0 ? exit_code : credentials_read(profile.name ? &profile : NULL);
}

int cli_parse(int argc, char **argv, const struct cli_syntax *syntax, struct cli_args *out)
{
    struct flags flags = {0};
    *out = (struct cli_args){0};
    collect_flags(&flags, syntax, out);
    bool flags_over = false;
    for (int i = 1; i < argc; i++) {
        if (!flags_over && strcmp(argv[i], "--") == 0) {
            if (syntax->takes_command) {
                out->command = argv + i + 1;
                break;
            }
            flags_over = true;
        } else if (!flags_over && (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)) {
            help_printer(syntax, flags.rows);
            return CLI_OK;
        } else if (!flags_over && strncmp(argv[i], "--", 2) == 0) {
            int exit_code = read_flag(&flags, syntax, argc, argv, &i);
            if (exit_code >= 0)
                return exit_code;
        } else if (!flags_over && argv[i][0] == '-' && argv[i][1]) {
            return cli_usage("unknown option '%s', see 'tarry help %s'", argv[i], argv[0]);
        } else if (out->list.count < CLI_LIST_MAX) {
            out->list.at[out->list.count++] = argv[i];
        } else {
            return cli_usage("too many arguments, at most %d", CLI_LIST_MAX);
        }
    }
    int exit_code = check_arguments(syntax, out);
    if (exit_code >= 0 || syntax->is_local)
        return exit_code;
    exit_code = find_server(flags.profile, out);
    if (exit_code < 0 && !out->json)
        local_time_warn();
    return exit_code;
}

const char *cli_of_profile(const struct cli_args *args)
{
    static char text[PROFILE_NAME_BYTES_MAX + 32];
    snprintf(text, sizeof text, args->profile ? " of profile '%s'" : "%s",
             args->profile ? args->profile : "");
    return text;
}

void cli_announce(const struct cli_args *args, const char *verb, const char *topic)
{
    char line[1024];
    if (!args->profile || args->json)
        return;
    snprintf(line, sizeof line, "%s '%s'%s", verb, topic, cli_of_profile(args));
    show_disarm(line);
    fprintf(stderr, "%s\n", line);
}
