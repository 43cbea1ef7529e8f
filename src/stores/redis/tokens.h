/*
 * tokens: the access rules, stored in Redis for all servers of a queue: a hash, `{prefix}:tokens`,
 * with the text and a version, a random one after each change. This room does not interpret the
 * text.
 *
 * Blocking: for commands, and for a separate thread of a server. One thread. The connection is kept
 * and remade automatically; the master is looked up again from time to time, so that a former
 * master is not trusted for long.
 */
#ifndef TARRY_REDIS_TOKENS_H
#define TARRY_REDIS_TOKENS_H

#include "base/buffer.h"

enum { REDIS_TOKENS_ERROR_BYTES = 512 };

struct redis_tokens;

/* Returns 0, or a negative errno with `error` (REDIS_TOKENS_ERROR_BYTES). Does not connect yet. */
int redis_tokens_open(const char *url, struct redis_tokens **out, char *error);
void redis_tokens_close(struct redis_tokens *tokens); /* accepts NULL */

/* Appends the text if it has changed since the last call (*is_changed); appends nothing if there is
 * no text. -EACCES: this user lacks permission; -EHOSTUNREACH, … */
int redis_tokens_read(struct redis_tokens *tokens, struct buffer *out, bool *is_changed,
                      char *error);

/* Replaces the text that was read last with `text`. Returns -EAGAIN without an error text if
 * another writer has changed it since: read again. */
int redis_tokens_write(struct redis_tokens *tokens, struct slice text, char *error);

#endif
