/*
 * token_list: the text in which tokens are kept, as a file or in a store. Pure.
 *
 *     # who sends orders; ask Ann
 *     token shop scope=push topics=orders-*,mail rate=1000/s created=2026-11-23T05:00:00.000Z sha256=…
 *     certificate billing.internal scope=consume,read topics=invoices created=…
 *     access-key legacy scope=push topics=mail created=… secret=…
 *
 * A line each, words with blanks between: what it is, its name, then `key=value` in any order; keys
 * that are unknown or twice there are refused. Names are unique. '#' begins a comment at the start
 * of a line or after a blank. A token that was rotated has `old-sha256` and `old-until` as well, one
 * that was revoked stays, with `revoked`. An access key has its secret itself, since signatures are made with
 * it on both sides; its id is its name.
 *
 * What is edited is one line; all others, and comments, stay byte for byte.
 */
#ifndef TARRY_ACCESS_TOKEN_LIST_H
#define TARRY_ACCESS_TOKEN_LIST_H

#include "access/access.h"
#include "access/token.h"
#include "base/table.h"

enum {
    TOKEN_NAME_BYTES_MAX = 128,
    TOKEN_LINE_BYTES_MAX = 4096,
    TOKEN_SECRET_BYTES_MIN = 16, /* of an access key; at most SIGNATURE_SECRET_BYTES_MAX */
    TOKEN_LIST_BYTES_MAX = 8 << 20,
    TOKENS_MAX = 10000
};

struct token_secret {
    unsigned char hash[TOKEN_HASH_BYTES]; /* of a token */
    struct slice text;                    /* of an access key */
    int64_t until_ms;                     /* INT64_MAX: as long as the token */
};

/* One line. Slices lie in the text it was read from. */
struct token {
    enum access_kind kind; /* ACCESS_TOKEN, ACCESS_CERTIFICATE or ACCESS_KEY */
    unsigned scopes;
    struct slice name, topics;
    struct access_limits limits;
    int64_t created_ms, expires_ms, revoked_ms; /* INT64_MAX: never; created 0: unknown */
    size_t secret_count;
    struct token_secret secrets[2]; /* the newest first; none: a certificate's */
    struct slice comment;           /* from its '#' on */
};

/* [A-Za-z0-9] and then also . _ @ : / - up to TOKEN_NAME_BYTES_MAX in all. */
bool token_name_is_valid(struct slice name);

struct token_list {
    struct token *tokens; /* in the text's order */
    size_t count;
};

/* Reads `text`, which must outlive the list. `place` names it in errors: "tokens:3: …". 0, or
 * -EINVAL or -ENOMEM with `error`. */
int token_list_read(struct slice text, const char *place, struct token_list *out,
                    char error[ACCESS_ERROR_BYTES]);
void token_list_fini(struct token_list *list);
/* NULL: absent. */
const struct token *token_list_find(const struct token_list *list, struct slice name);

/* The text with the line of the token of that name replaced, or with one more at its end. */
void token_list_put(struct slice text, const struct token *token, struct buffer *out);

#endif
