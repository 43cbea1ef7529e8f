/*
 * retry: retries calls while the server is unreachable or temporarily full.
 *
 * Pauses grow from a tenth of a second to two seconds. When retrying stops, the error is printed on
 * standard error once. One thread.
 */
#ifndef TARRY_CLI_RETRY_H
#define TARRY_CLI_RETRY_H

#include "cli/client.h"

#define RETRY_TEXT "60s" /* default */

struct retry {
    int64_t limit_ms;
    int64_t since_ms; /* first failure in a row; 0: no failure */
    int64_t pause_ms;
};

/* Parses "60s". Returns false after printing an error if the text is not a duration. */
bool retry_parse(const char *text, struct retry *out);

/* Returns the time to wait after a failure before the next attempt; -1: stop retrying. */
int64_t retry_pause_ms(struct retry *retry);
/* Waits before the next attempt, at least as long as the server requests (Retry-After; 0: not
 * given). Returns false if retrying must stop: the time limit would be exceeded, or the user
 * interrupts it. */
bool retry_wait(struct retry *retry, const char *whom, int64_t least_ms);
/* Resets the limit after a success. */
void retry_reset(struct retry *retry);

/* Returns whether the failure is temporary: the call is valid and may succeed later. */
bool retry_helps(const struct client *client, CURLcode code);

/* Returns the same for the result of one job in a batch, by its code. */
bool retry_helps_code(const char *code);

/* Makes a call that may be repeated, as client_call does. Also ends when the user interrupts it. */
int retry_call(struct retry *retry, struct client *client, const char *method,
               const struct slice *body);

#endif
