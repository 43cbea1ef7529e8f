/*
 * jwt_keys: the public keys of an issuer, read from a JWKS (RFC 7517) or from PEM: public keys and
 * certificates, any number one after the other.
 *
 * A key serves one algorithm, which its type says: RSA (2048 to 8192 bits) RS256, P-256 ES256,
 * Ed25519 EdDSA. Of a JWKS, keys of other kinds and those for other uses are passed over; private
 * and symmetric ones are refused with the whole: they have no business here.
 */
#ifndef TARRY_ACCESS_JWT_KEYS_H
#define TARRY_ACCESS_JWT_KEYS_H

#include "base/slice.h"

#include <openssl/evp.h>

enum {
    JWT_KEYS_MAX = 64,
    JWT_KEYS_BYTES_MAX = 1 << 20,
    JWT_KID_BYTES_MAX = 256,
    JWT_SIGNATURE_BYTES_MAX = 1024
};

enum jwt_algorithm { JWT_RS256 = 1, JWT_ES256, JWT_EDDSA };
/* 0: it is none of them. */
enum jwt_algorithm jwt_algorithm_parse(struct slice name);

struct jwt_key {
    enum jwt_algorithm algorithm;
    EVP_PKEY *key;
    size_t kid_bytes;
    char kid[JWT_KID_BYTES_MAX]; /* kid_bytes 0: it has none, and any will do */
};

struct jwt_keys {
    struct jwt_key at[JWT_KEYS_MAX];
    size_t count;
};

/* `place` names the text in errors. 0; or -EINVAL or -ENOMEM with `error` (ACCESS_ERROR_BYTES), also
 * where there is no key that serves. */
int jwt_keys_read(struct slice text, const char *place, struct jwt_keys *out, char *error);
void jwt_keys_fini(struct jwt_keys *keys);
bool jwt_keys_equal(const struct jwt_keys *a, const struct jwt_keys *b);

/* Is it the key's signature of the message? Any thread. */
bool jwt_key_verifies(const struct jwt_key *key, struct slice message, struct slice signature);

/* Appends what base64url without padding (RFC 4648, 5) stands for: no other bytes, no bits set that
 * nobody reads. False where it is anything else; `out_bytes` is room enough for 3/4 of it. */
bool jwt_base64url_decode(struct slice in, unsigned char *out, size_t out_max, size_t *out_bytes);

#endif
