/*
 * tokens: the text of who may do what, kept in the database for all servers of a queue: one row,
 * with a version, a random one after each change. What the text says is nothing to this room.
 *
 * Blocking: for commands, and for a thread of a server's own. One thread. A connection is kept, and
 * made again by itself.
 */
#ifndef TARRY_SQL_TOKENS_H
#define TARRY_SQL_TOKENS_H

#include "base/buffer.h"

enum { SQL_TOKENS_ERROR_BYTES = 512, SQL_TOKENS_VERSION_BYTES = 40 };

struct sql_tokens;

/* 0, or negative errno with `error` (SQL_TOKENS_ERROR_BYTES). Connects to nobody yet. */
int sql_tokens_open(const char *url, struct sql_tokens **out, char *error);
void sql_tokens_close(struct sql_tokens *tokens); /* NULL: nothing */

/* Appends the text where it is another than at the last call (*is_changed); none where there is none.
 * -EACCES: this user may not; -EHOSTUNREACH, … */
int sql_tokens_read(struct sql_tokens *tokens, struct buffer *out, bool *is_changed, char *error);

/* Puts `text` in the place of what was read last. -EAGAIN, and no error: another one has changed it
 * since, read again. */
int sql_tokens_write(struct sql_tokens *tokens, struct slice text, char *error);

/* For a dialect: the row is not there, which is no queue without tokens. */
int sql_tokens_absent(char *error);

/* What a dialect does for it, each with one connection. */
struct sql_tokens_ops {
    /* NULL: `error` says why. */
    void *(*connect)(const char *url, char *error);
    void (*disconnect)(void *connection);
    /* The present version; the text is appended where that is not the one in `version`. */
    int (*read)(void *connection, char version[SQL_TOKENS_VERSION_BYTES], struct buffer *out,
                char *error);
    /* Where the present version is still `version`, the next one is `next`; else -EAGAIN. */
    int (*write)(void *connection, const char *version, const char *next, struct slice text,
                 char *error);
};

#endif
