/*
 * jwt: verifies a token of an external issuer (RFC 7519, signed as in RFC 7515) and reads its
 * subject and rights. Pure: keys and time are arguments.
 *
 * The token has no influence on how it is verified. Its algorithm must be the one of its key. Keys
 * come only from the issuer (jku, jwk and x5c are ignored). A token with critical extensions (crit)
 * is rejected. A token that contains a relevant member twice is also rejected.
 */
#ifndef TARRY_ACCESS_JWT_H
#define TARRY_ACCESS_JWT_H

#include "access/access.h"
#include "access/jwt_keys.h"

enum {
    JWT_LEEWAY_MS = 60 * 1000, /* tolerance for clock differences */
    JWT_KEYS_TRIED_MAX = 4,    /* for tokens that do not name their key */
    JWT_NAME_BYTES_MAX = 128
};

struct jwt_rules {
    const char *issuer, *audience; /* required iss, and a required member of aud */
    const char *scope_claim, *topics_claim;
};

/* Returns true if the text has the form of a JWT: three parts separated by dots. */
bool jwt_is_formed(struct slice text);

/* The content of a token. Slices point into `scratch`. */
struct jwt_caller {
    struct slice name; /* sub */
    unsigned scopes;   /* tarry's scopes, named "push" or "tarry:push"; others are ignored */
    struct slice topics;
    int64_t ends_ms;
};

/* Verifies and reads a token. `scratch` is empty and has room for at least three times the token.
 * Returns ACCESS_UNKNOWN_KEY if no key has the token's key ID; the issuer may have a new one. */
enum access_refusal jwt_read(struct slice text, const struct jwt_keys *keys,
                             const struct jwt_rules *rules, int64_t now_ms, struct buffer *scratch,
                             struct jwt_caller *out);

#endif
