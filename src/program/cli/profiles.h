/*
 * profiles: servers with a name, each with the URL and the credentials that its commands use. They
 * are a JSON object in a file that only its owner reads: profiles.json in the folder tarry of
 * XDG_CONFIG_HOME, or of .config in the home directory. One thread.
 */
#ifndef TARRY_CLI_PROFILES_H
#define TARRY_CLI_PROFILES_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

enum { PROFILE_NAME_BYTES_MAX = 64 };

struct profile { /* NULL: not set; strings live until the process ends */
    const char *name, *url, *ca_file, *certificate_file, *key_file, *token_file;
};

/* Finds a profile. Returns -1, or an exit code after printing an error. */
int profiles_find(const char *name, struct profile *out);

/* Writes the path of the file. Returns -1, or an exit code after printing an error. */
int profiles_path(char out[PATH_MAX]);
/* Reads all profiles, as an object of objects by their names; empty if there is no file. The caller
 * releases it. Returns -1, or an exit code after printing an error. */
int profiles_read(json_t **out);
/* Replaces all profiles. Returns an exit code, after printing an error unless it is CLI_OK. */
int profiles_write(const json_t *all);

#endif
