/* command: writes the Redis protocol. Pure. `argc` includes the command's own name; exactly that
 * many arguments must follow. */
#ifndef TARRY_REDIS_COMMAND_H
#define TARRY_REDIS_COMMAND_H

#include "base/buffer.h"

void redis_command_begin(struct buffer *out, size_t argc);
void redis_command_arg(struct buffer *out, struct slice arg);
void redis_command_text(struct buffer *out, const char *arg);
void redis_command_number(struct buffer *out, int64_t arg); /* decimal */
/* Appends a whole command of NUL-terminated words, with NULL after the last. */
void redis_command_words(struct buffer *out, const char *word, ...) __attribute__((sentinel));
/* Appends AUTH if there is a password. Returns whether it did. */
bool redis_command_auth(struct buffer *out, const char *user, const char *password);

#endif
