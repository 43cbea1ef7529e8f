#include "cli/profiles.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/private_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROFILES_MAX = 1000, OWNER_ONLY = S_IRWXU };

int profiles_path(char out[PATH_MAX])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int len = -1;
    if (config && config[0] == '/')
        len = snprintf(out, PATH_MAX, "%s/tarry/profiles.json", config);
    else if (home && home[0] == '/')
        len = snprintf(out, PATH_MAX, "%s/.config/tarry/profiles.json", home);
    else
        return cli_usage("no place for profiles, set HOME");
    return len < PATH_MAX ? -1 : cli_usage("the path of HOME is too long for profiles");
}

int profiles_read(json_t **out)
{
    char path[PATH_MAX];
    json_error_t error;
    int exit_code = profiles_path(path);
    if (exit_code >= 0)
        return exit_code;
    FILE *file = fopen(path, "re");
    if (!file && errno != ENOENT)
        return cli_usage("cannot read the profiles in '%s', %s", path, strerror(errno));
    *out = file ? json_loadf(file, JSON_REJECT_DUPLICATES, &error) : json_object();
    if (file)
        fclose(file);
    if (json_is_object(*out))
        return -1;
    if (*out)
        snprintf(error.text, sizeof error.text, "it is no object");
    json_decref(*out);
    *out = NULL;
    return cli_usage("the profiles in '%s' are not valid JSON, %s; mend or remove the file", path,
                     error.text);
}

/* Creates the folders above a file. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, OWNER_ONLY); /* a failure shows when the file is opened */
        *slash = '/';
    }
}

int profiles_write(const json_t *all)
{
    char path[PATH_MAX], fresh[PATH_MAX + 8];
    int exit_code = profiles_path(path);
    if (exit_code >= 0)
        return exit_code;
    make_folders(path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = private_file_open(fresh, "w", 0);
    if (!file)
        return cli_error("cannot write the profiles to '%s', %s", fresh, strerror(errno));
    bool is_written = json_dumpf(all, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF &&
                      fflush(file) == 0 && fsync(fileno(file)) == 0;
    is_written = fclose(file) == 0 && is_written && rename(fresh, path) == 0;
    return is_written ? CLI_OK
                      : cli_error("cannot write the profiles to '%s', %s", path, strerror(errno));
}

/* ---- finding ---- */

static int unknown_profile(const json_t *all, const char *name)
{
    const char *names[PROFILES_MAX + 1] = {0}, *each;
    json_t *value;
    size_t count = 0;
    json_object_foreach((json_t *)all, each, value)
    {
        if (count < PROFILES_MAX)
            names[count++] = each;
    }
    const char *nearest = text_nearest(name, names);
    if (nearest)
        return cli_usage("unknown profile '%s', did you mean %s", name, nearest);
    return cli_usage("unknown profile '%s', 'tarry profile list' shows all", name);
}

int profiles_find(const char *name, struct profile *out)
{
    static json_t *all; /* kept, because the strings are used */
    json_decref(all);
    all = NULL;
    int exit_code = profiles_read(&all);
    if (exit_code >= 0)
        return exit_code;
    const json_t *found = json_object_get(all, name);
    if (!found)
        return unknown_profile(all, name);
    *out = (struct profile){
        .name = name,
        .url = json_string_value(json_object_get(found, "url")),
        .ca_file = json_string_value(json_object_get(found, "ca")),
        .certificate_file = json_string_value(json_object_get(found, "cert")),
        .key_file = json_string_value(json_object_get(found, "key")),
        .token_file = json_string_value(json_object_get(found, "token_file")),
    };
    return out->url ? -1 : cli_usage("the profile '%s' has no URL, add it again", name);
}
