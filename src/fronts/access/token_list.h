/*
 * token_list: the text format in which tokens are stored, in a file or in a store. Pure.
 *
 *     # who sends orders; ask Ann
 *     token shop scope=push topics=orders-*,mail rate=1000/s created=2026-11-23T05:00:00.000Z
 *     sha256=… certificate billing.internal scope=consume,read topics=invoices created=…
 *     access-key legacy scope=push topics=mail created=… secret=…
 *
 * Each line contains words separated by blanks: the kind, the name, then `key=value` pairs in any
 * order. Unknown and repeated keys are rejected. Names are unique. '#' begins a comment at the
 * start of a line or after a blank. A rotated token also has `old-sha256` and `old-until`. A
 * revoked token remains, with `revoked`. An access key contains its secret itself, because both
 * sides compute signatures with it; its ID is its name.
 *
 * An edit changes one line; all other lines and comments stay byte for byte.
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
    int64_t until_ms;                     /* INT64_MAX: as long as the token is valid */
};

/* A line of the list. Slices point into the text. */
struct token {
    enum access_kind kind; /* ACCESS_TOKEN, ACCESS_CERTIFICATE or ACCESS_KEY */
    unsigned scopes;
    struct slice name, topics;
    struct access_limits limits;
    /* expires and revoked: INT64_MAX if never; created: 0 if unknown */
    int64_t created_ms, expires_ms, revoked_ms;
    size_t secret_count;
    struct token_secret secrets[2]; /* newest first; empty for a certificate */
    struct slice comment;           /* from its '#' */
};

/* Returns true if the name begins with a letter or digit and otherwise contains only letters,
 * digits and . _ @ : / - with at most TOKEN_NAME_BYTES_MAX bytes in total. */
bool token_name_is_valid(struct slice name);

struct token_list {
    struct token *tokens; /* in the order of the text */
    size_t count;
};

/* Parses `text`, which must outlive the list. `place` is its name in errors: "tokens:3: …". Returns
 * 0, or -EINVAL or -ENOMEM with `error`. */
int token_list_read(struct slice text, const char *place, struct token_list *out,
                    char error[ACCESS_ERROR_BYTES]);
void token_list_fini(struct token_list *list);
/* Returns NULL if there is no such token. */
const struct token *token_list_find(const struct token_list *list, struct slice name);

/* Appends the text with the line of the token of that name replaced, or with a new line at the
 * end. */
void token_list_put(struct slice text, const struct token *token, struct buffer *out);

#endif
