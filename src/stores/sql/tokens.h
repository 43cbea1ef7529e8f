/*
 * tokens: the text of the access tokens, stored in the database for all servers of a queue. It is
 * one row with a version, which each change sets to a random value. This room does not interpret
 * the text.
 *
 * Blocking: for commands, and for a thread of the server. One thread. The connection is kept and
 * reopened automatically.
 */
#ifndef TARRY_SQL_TOKENS_H
#define TARRY_SQL_TOKENS_H

#include "base/buffer.h"

enum { SQL_TOKENS_ERROR_BYTES = 512, SQL_TOKENS_VERSION_BYTES = 40 };

struct sql_tokens;

/* Returns 0, or a negative errno with `error` (SQL_TOKENS_ERROR_BYTES). Does not connect yet. */
int sql_tokens_open(const char *url, struct sql_tokens **out, char *error);
void sql_tokens_close(struct sql_tokens *tokens); /* accepts NULL */

/* Appends the text if it differs from that of the last call (*is_changed), nothing if the text is
 * empty. Returns -EACCES if the database user lacks the permission; -EHOSTUNREACH, … */
int sql_tokens_read(struct sql_tokens *tokens, struct buffer *out, bool *is_changed, char *error);

/* Replaces the text that was read last. Returns -EAGAIN without an error text if it has been
 * changed since; the caller must then read again. */
int sql_tokens_write(struct sql_tokens *tokens, struct slice text, char *error);

#endif
