/*
 * jwt_keys: the public keys of an issuer, read from a JWKS (RFC 7517) or from PEM: any number of
 * concatenated public keys and certificates.
 *
 * A key serves one algorithm, which follows from its type: RS256 for RSA (2048 to 8192 bits), ES256
 * for P-256, EdDSA for Ed25519. In a JWKS, keys of other types and for other uses are skipped. A
 * set with private or symmetric keys is rejected as a whole, because they do not belong there.
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
/* Returns 0 if the algorithm is not supported. */
enum jwt_algorithm jwt_algorithm_parse(struct slice name);

struct jwt_key {
    enum jwt_algorithm algorithm;
    EVP_PKEY *key;
    size_t kid_bytes;
    /* kid_bytes is 0 if the key has no ID; it then matches any token */
    char kid[JWT_KID_BYTES_MAX];
};

struct jwt_keys {
    struct jwt_key at[JWT_KEYS_MAX];
    size_t count;
};

/* Parses the keys. `place` names the text in errors. Returns 0, or -EINVAL or -ENOMEM with `error`
 * (ACCESS_ERROR_BYTES); a text without a usable key is an error. */
int jwt_keys_read(struct slice text, const char *place, struct jwt_keys *out, char *error);
void jwt_keys_fini(struct jwt_keys *keys);
bool jwt_keys_equal(const struct jwt_keys *a, const struct jwt_keys *b);

/* Returns true if the signature of the message was made with the key. Any thread. */
bool jwt_key_verifies(const struct jwt_key *key, struct slice message, struct slice signature);

/* Decodes base64url without padding (RFC 4648, section 5). Returns false if there are other bytes
 * or if unused bits are set. `out_max` must be at least 3/4 of the input's length. */
bool jwt_base64url_decode(struct slice in, unsigned char *out, size_t out_max, size_t *out_bytes);

#endif
