/*
 * credentials: how a client command knows its server and makes itself known: whom it believes, the
 * certificate it shows, the token it sends. A process calls as one, so there is one set of them,
 * filled by cli_parse; the environment stands in for what the command line does not say.
 */
#ifndef TARRY_CLI_CREDENTIALS_H
#define TARRY_CLI_CREDENTIALS_H

#include "cli/cli.h"

struct credentials {
    const char *ca_file, *certificate_file, *key_file; /* NULL: none */
    const char *token;                                 /* NULL: none */
};

enum { CREDENTIALS_FLAGS = 4, CREDENTIALS_TOKEN_BYTES_MAX = 16 * 1024 /* a JWT may be long */ };

/* The flags for them. */
void credentials_flags(struct cli_flag rows[CREDENTIALS_FLAGS]);
/* Once the flags are read: what is missing comes from the environment, and the token is read from its
 * file. -1 to go on, else the exit code: it was explained. */
int credentials_read(void);

const struct credentials *credentials_get(void);

#endif
