/*
 * credentials: how a client command authenticates its server and itself: the trusted CAs, the
 * client certificate and the token. A process has one set of them, filled by cli_parse. Environment
 * variables supply what the command line does not give.
 */
#ifndef TARRY_CLI_CREDENTIALS_H
#define TARRY_CLI_CREDENTIALS_H

#include "cli/cli.h"

struct profile; /* profiles.h */

struct credentials {
    const char *ca_file, *certificate_file, *key_file; /* NULL: not set */
    const char *token;                                 /* NULL: not set */
};

enum { CREDENTIALS_FLAGS = 4, CREDENTIALS_TOKEN_BYTES_MAX = 16 * 1024 /* a JWT may be long */ };

/* Fills in the flags for the credentials. */
void credentials_flags(struct cli_flag rows[CREDENTIALS_FLAGS]);
/* Completes the credentials after the flags are parsed: takes missing values from the profile, or
 * from the environment if there is none (NULL), and reads the token from its file. Returns -1 to
 * continue, else the exit code after printing the error. */
int credentials_read(const struct profile *profile);

const struct credentials *credentials_get(void);

#endif
