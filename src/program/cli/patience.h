/*
 * patience: calls that are made again while the server is away, or has no room just now.
 *
 * Pauses grow from a tenth of a second to two seconds; what is given up on is explained on standard
 * error, once. One thread.
 */
#ifndef TARRY_CLI_PATIENCE_H
#define TARRY_CLI_PATIENCE_H

#include "cli/client.h"

#define PATIENCE_TEXT "60s" /* where nothing is said */

struct patience {
    int64_t limit_ms;
    int64_t since_ms; /* the first failure in a row; 0: none */
    int64_t pause_ms;
};

/* "60s". False: it is no such length of time, explained. */
bool patience_parse(const char *text, struct patience *out);

/* After a failure: how long to wait before the next try; -1: no more. */
int64_t patience_pause_ms(struct patience *patience);
/* The same, and waits; at least as long as the server asks for (Retry-After; 0: it does not). False:
 * no more, that would be longer than there is patience, or the user interrupts it. */
bool patience_wait(struct patience *patience, const char *whom, int64_t least_ms);
/* After a success. */
void patience_renew(struct patience *patience);

/* Nothing is wrong with the call itself, and the same may succeed later. */
bool patience_is_passing(const struct client *client, CURLcode code);

/* The same of the result of one job in a batch, by its code. */
bool patience_is_passing_code(const char *code);

/* As client_call, of a call that may be repeated. Also ends when the user interrupts it. */
int patience_call(struct patience *patience, struct client *client, const char *method,
                  const struct slice *body);

#endif
