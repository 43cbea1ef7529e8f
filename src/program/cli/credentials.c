#include "cli/credentials.h"

#include "cli/profiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct credentials credentials;
static const char *token_file;

void credentials_flags(struct cli_flag rows[CREDENTIALS_FLAGS])
{
    const struct cli_flag all[CREDENTIALS_FLAGS] = {
        {"ca", CLI_TEXT, &credentials.ca_file, "FILE",
         "Trust server certificates signed by these CAs (default: TARRY_CA, then the system's)"},
        {"cert", CLI_TEXT, &credentials.certificate_file, "FILE",
         "Present this client certificate (default: TARRY_CERT)"},
        {"key", CLI_TEXT, &credentials.key_file, "FILE", "Key of --cert (default: TARRY_KEY)"},
        {"token-file", CLI_TEXT, &token_file, "FILE",
         "Send the token in this file (default: TARRY_TOKEN_FILE, then the token TARRY_TOKEN)"},
    };
    memcpy(rows, all, sizeof all);
}

static void stand_in(const char **field, const char *variable)
{
    if (!*field)
        *field = getenv(variable);
    if (*field && !**field)
        *field = NULL;
}

/* Returns whether the token has no character that would end the header early. */
static bool is_token(const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return *text && strlen(text) < CREDENTIALS_TOKEN_BYTES_MAX;
}

static int read_token_file(const char *path)
{
    static char token[CREDENTIALS_TOKEN_BYTES_MAX];
    FILE *file = fopen(path, "re");
    if (!file)
        return cli_usage("cannot read the token in '%s', %s", path, strerror(errno));
    char *line = fgets(token, sizeof token, file);
    fclose(file);
    if (line)
        line[strcspn(line, "\r\n")] = '\0';
    if (!line || !is_token(line))
        return cli_usage("no token in '%s', write it there as one line", path);
    credentials.token = line;
    return -1;
}

static void take_environment(void)
{
    bool is_named = token_file;
    stand_in(&credentials.ca_file, "TARRY_CA");
    stand_in(&credentials.certificate_file, "TARRY_CERT");
    stand_in(&credentials.key_file, "TARRY_KEY");
    stand_in(&token_file, "TARRY_TOKEN_FILE");
    if (!is_named)
        stand_in(&credentials.token, "TARRY_TOKEN");
}

/* The certificate and its key come from one place. */
static void take_profile(const struct profile *profile)
{
    bool has_certificate = credentials.certificate_file || credentials.key_file;
    if (!credentials.ca_file)
        credentials.ca_file = profile->ca_file;
    if (!has_certificate) {
        credentials.certificate_file = profile->certificate_file;
        credentials.key_file = profile->key_file;
    }
    if (!token_file)
        token_file = profile->token_file;
}

int credentials_read(const struct profile *profile)
{
    if (profile)
        take_profile(profile);
    else
        take_environment();
    if (!credentials.certificate_file != !credentials.key_file)
        return cli_usage("a certificate and its key go together, give both --cert FILE and --key "
                         "FILE");
    if (credentials.token && !is_token(credentials.token))
        return cli_usage("bad value '…' for 'TARRY_TOKEN', give a token as 'tarry token new' "
                         "prints it");
    return token_file && !credentials.token ? read_token_file(token_file) : -1;
}

const struct credentials *credentials_get(void)
{
    return &credentials;
}
