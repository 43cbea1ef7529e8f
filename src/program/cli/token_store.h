/* token_store: where tokens are stored, as given to the commands by their own options or by the
 * server's environment variables and configuration file. Either a file or the store that servers
 * share. */
#ifndef TARRY_CLI_TOKEN_STORE_H
#define TARRY_CLI_TOKEN_STORE_H

#include "access/token_file.h"
#include "server/callers.h"

struct token_store_flags { /* NULL: not given */
    const char *tokens, *config, *store, *password_file;
};

struct token_store {
    struct config config;
    const struct stored_tokens_ops *ops; /* NULL: tokens are stored in a file */
    char place[OPTION_TEXT_BYTES];       /* for display */
};

/* Finds the store. Returns CLI_OK, or the exit code after printing the error. */
int token_store_find(struct token_store *store, const struct token_store_flags *flags);
/* Appends the text of all tokens; appends nothing if there are no tokens yet. Returns CLI_OK, or
 * the exit code after printing the error. */
int token_store_read(const struct token_store *store, struct buffer *out);
/* Edits the tokens as token_file_edit does; a positive number that `edit` returns is the exit
 * code. */
int token_store_edit(const struct token_store *store, token_file_editor *edit, void *ctx);

#endif
