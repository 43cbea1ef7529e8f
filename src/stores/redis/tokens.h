/*
 * tokens: the text of who may do what, kept in Redis for all servers of a queue: a hash,
 * `{prefix}:tokens`, with the text and a version, a random one after each change. What the text says is
 * nothing to this room.
 *
 * Blocking: for commands, and for a thread of a server's own. One thread. A connection is kept, and
 * made again by itself; who is master is looked up again now and then, so that one that is no longer
 * is not believed for long.
 */
#ifndef TARRY_REDIS_TOKENS_H
#define TARRY_REDIS_TOKENS_H

#include "base/buffer.h"

enum { REDIS_TOKENS_ERROR_BYTES = 512 };

struct redis_tokens;

/* 0, or negative errno with `error` (REDIS_TOKENS_ERROR_BYTES). Connects to nobody yet. */
int redis_tokens_open(const char *url, struct redis_tokens **out, char *error);
void redis_tokens_close(struct redis_tokens *tokens); /* NULL: nothing */

/* Appends the text where it is another than at the last call (*is_changed); none where there is none.
 * -EACCES: this user may not; -EHOSTUNREACH, … */
int redis_tokens_read(struct redis_tokens *tokens, struct buffer *out, bool *is_changed,
                      char *error);

/* Puts `text` in the place of what was read last. -EAGAIN, and no error: another one has changed it
 * since, read again. */
int redis_tokens_write(struct redis_tokens *tokens, struct slice text, char *error);

#endif
