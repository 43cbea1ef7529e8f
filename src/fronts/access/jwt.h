/*
 * jwt: a token of a company's own issuer (RFC 7519, signed as in RFC 7515): whose it is, and what it
 * lets him do. Pure: keys and time are arguments.
 *
 * What a token says of how it is to be checked is not believed: its algorithm must be the one its key
 * serves, keys come from the issuer alone (jku, jwk, x5c are not looked at), and what must be
 * understood to be accepted (crit) refuses it. Members that count and are there twice refuse it too.
 */
#ifndef TARRY_ACCESS_JWT_H
#define TARRY_ACCESS_JWT_H

#include "access/access.h"
#include "access/jwt_keys.h"

enum {
    JWT_LEEWAY_MS = 60 * 1000, /* for clocks that differ */
    JWT_KEYS_TRIED_MAX = 4,    /* where the token does not name its key */
    JWT_NAME_BYTES_MAX = 128
};

struct jwt_rules {
    const char *issuer, *audience; /* what iss is, and one of aud */
    const char *scope_claim, *topics_claim;
};

/* Does it look like one? Three parts with dots between. */
bool jwt_is_formed(struct slice text);

/* What was read; slices lie in `scratch`. */
struct jwt_caller {
    struct slice name; /* sub */
    unsigned scopes;   /* those of tarry, named "push" or "tarry:push"; others are passed over */
    struct slice topics;
    int64_t ends_ms;
};

/* `scratch` is empty, and holds at least three times the token. ACCESS_UNKNOWN_KEY: no key is called as it
 * says; the issuer may have a new one. */
enum access_refusal jwt_read(struct slice text, const struct jwt_keys *keys,
                             const struct jwt_rules *rules, int64_t now_ms, struct buffer *scratch,
                             struct jwt_caller *out);

#endif
