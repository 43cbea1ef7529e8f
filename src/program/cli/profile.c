/* profile add, profile list, profile remove: names for servers and their credentials. */
#include "cli/commands.h"
#include "cli/profiles.h"
#include "cli/show.h"
#include "cli/url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- add ---- */

struct wish {
    const char *url, *ca, *cert, *key, *token_file;
    bool replaces;
};

static bool is_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);
    return len > 0 && len <= PROFILE_NAME_BYTES_MAX && strspn(name, allowed) == len;
}

/* Adds the absolute path of a file, so that the profile works in every directory. */
static int add_file(json_t *profile, const char *member, const char *path)
{
    if (!path)
        return CLI_OK;
    char *whole = realpath(path, NULL);
    if (!whole)
        return cli_usage("cannot find '%s', %s", path, strerror(errno));
    json_object_set_new(profile, member, json_string(whole));
    free(whole);
    return CLI_OK;
}

static int make_profile(const struct wish *wish, json_t *profile)
{
    int exit_code = CLI_OK;
    json_object_set_new(profile, "url", json_string(wish->url));
    exit_code = add_file(profile, "ca", wish->ca);
    if (exit_code == CLI_OK)
        exit_code = add_file(profile, "cert", wish->cert);
    if (exit_code == CLI_OK)
        exit_code = add_file(profile, "key", wish->key);
    return exit_code == CLI_OK ? add_file(profile, "token_file", wish->token_file) : exit_code;
}

static int add_profile(json_t *all, const char *name, const struct wish *wish)
{
    if (!is_name(name))
        return cli_usage("bad name '%s', give 1 to %d of letters, digits and . _ -", name,
                         PROFILE_NAME_BYTES_MAX);
    if (!wish->url)
        return cli_usage("no URL, write 'tarry profile add %s --url URL'", name);
    if (!wish->cert != !wish->key)
        return cli_usage("a certificate and its key go together, give both --cert FILE and --key "
                         "FILE");
    if (json_object_get(all, name) && !wish->replaces)
        return cli_usage("the profile '%s' exists, add --replace or choose another name", name);
    int exit_code = cli_check_url(wish->url);
    json_t *profile = json_object();
    exit_code = exit_code >= 0 ? exit_code : make_profile(wish, profile);
    if (exit_code == CLI_OK)
        json_object_set(all, name, profile);
    json_decref(profile);
    exit_code = exit_code == CLI_OK ? profiles_write(all) : exit_code;
    if (exit_code == CLI_OK)
        printf("added %s; use it with --profile %s or TARRY_PROFILE=%s\n", name, name, name);
    return exit_code;
}

/* ---- list, remove ---- */

static int list_profiles(const json_t *all, bool json)
{
    static const char *const heads[] = {"PROFILE", "URL", "TOKEN FILE", "CA", "CERTIFICATE", NULL};
    static const char *const members[] = {"token_file", "ca", "cert"};
    char cell[SHOW_CELL_BYTES];
    struct show_table table;
    const char *name;
    json_t *profile;
    if (json) {
        bool is_shown = show_json(all, stdout);
        putchar('\n');
        return is_shown ? CLI_OK : CLI_REFUSED;
    }
    show_table_init(&table, heads);
    json_object_foreach((json_t *)all, name, profile)
    {
        show_table_add(&table, name);
        cli_url_show(json_string_value(json_object_get(profile, "url")), cell, sizeof cell);
        show_table_add(&table, cell);
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
            show_table_add(&table, show_text(json_object_get(profile, members[i]), cell));
    }
    show_table_print(&table);
    show_table_fini(&table);
    return CLI_OK;
}

static int remove_profile(json_t *all, const char *name)
{
    if (json_object_del(all, name) != 0) {
        cli_error("no profile '%s', 'tarry profile list' shows all", name);
        return CLI_NOTHING;
    }
    int exit_code = profiles_write(all);
    if (exit_code == CLI_OK)
        printf("removed %s\n", name);
    return exit_code;
}

/* ---- the command ---- */

static int run_verb(json_t *all, const struct cli_list *words, const struct wish *wish, bool json)
{
    const char *verb = words->at[0], *name = words->count > 1 ? words->at[1] : NULL;
    if (strcmp(verb, "list") == 0 && name)
        return cli_usage("unexpected argument '%s', usage: tarry profile list", name);
    if (strcmp(verb, "list") == 0)
        return list_profiles(all, json);
    if (strcmp(verb, "add") != 0 && strcmp(verb, "remove") != 0)
        return cli_usage("unknown '%s', give add, list or remove", verb);
    if (!name)
        return cli_usage("no name, write 'tarry profile %s NAME'", verb);
    return strcmp(verb, "add") == 0 ? add_profile(all, name, wish) : remove_profile(all, name);
}

static int profile_command(int argc, char **argv)
{
    struct wish wish = {0};
    bool json = false;
    const struct cli_flag flags[] = {
        {"url", CLI_TEXT, &wish.url, "URL", "add: Server, also https:// and unix:PATH"},
        {"ca", CLI_TEXT, &wish.ca, "FILE", "add: Trust server certificates signed by these CAs"},
        {"cert", CLI_TEXT, &wish.cert, "FILE", "add: Present this client certificate"},
        {"key", CLI_TEXT, &wish.key, "FILE", "add: Key of --cert"},
        {"token-file", CLI_TEXT, &wish.token_file, "FILE", "add: Send the token in this file"},
        {"replace", CLI_SWITCH, &wish.replaces, NULL, "add: Replace a profile of this name"},
        {"json", CLI_SWITCH, &json, NULL, "list: Print one JSON object"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "profile add NAME --url URL | profile list | profile remove NAME",
        .about =
            "Manages profiles: names for servers with their credentials. A command uses the\n"
            "profile of --profile or TARRY_PROFILE in place of TARRY_URL, TARRY_CA, TARRY_CERT,\n"
            "TARRY_KEY, TARRY_TOKEN_FILE and TARRY_TOKEN. Its options override the profile's.\n"
            "\n"
            "  tarry profile add prod --url https://tarry.shop.example:8279 --token-file "
            "ops.token\n"
            "  TARRY_PROFILE=prod tarry top\n"
            "\n"
            "The profiles are in ~/.config/tarry/profiles.json, which only you can read. Tokens\n"
            "stay in their own files.",
        .flags = flags,
        .least = 1,
        .most = 2,
        .is_local = true,
    };
    struct cli_args args;
    json_t *all = NULL;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code < 0)
        exit_code = profiles_read(&all);
    if (exit_code < 0)
        exit_code = run_verb(all, &args.list, &wish, json);
    json_decref(all);
    return exit_code;
}

const struct cli_command cli_profile_commands[] = {
    {.name = "profile", .run = profile_command, .help = "name servers with their credentials"},
    {0},
};
