/* token_store: where tokens are kept, as the commands are told it: by their own options, or by the
 * variables and the file that the server is configured by. A file, or the store that servers share. */
#ifndef TARRY_CLI_TOKEN_STORE_H
#define TARRY_CLI_TOKEN_STORE_H

#include "access/token_file.h"
#include "server/stored_tokens.h"

struct token_store_flags { /* NULL: not given */
    const char *tokens, *config, *store, *password_file;
};

struct token_store {
    struct config config;
    const struct stored_tokens_ops *ops; /* NULL: they are in a file */
    char place[OPTION_TEXT_BYTES];       /* for people */
};

/* CLI_OK, or the exit code; said. */
int token_store_find(struct token_store *store, const struct token_store_flags *flags);
/* Appends the text of all tokens, nothing where there are none yet. CLI_OK, or the exit code; said. */
int token_store_read(const struct token_store *store, struct buffer *out);
/* As token_file_edit; a positive number that `edit` returns is the exit code. */
int token_store_edit(const struct token_store *store, token_file_editor *edit, void *ctx);

#endif
