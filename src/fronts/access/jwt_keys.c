#include "access/jwt_keys.h"

#include "access/access.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

enum {
    RSA_BITS_MIN = 2048,
    RSA_BITS_MAX = 8192,
    P256_BYTES = 32,
    ED25519_BYTES = 32,
    NUMBER_BYTES_MAX = RSA_BITS_MAX / 8
};

enum jwt_algorithm jwt_algorithm_parse(struct slice name)
{
    return slice_is(name, "RS256")   ? JWT_RS256
           : slice_is(name, "ES256") ? JWT_ES256
           : slice_is(name, "EdDSA") ? JWT_EDDSA
                                     : 0;
}

/* ---- base64url ---- */

bool jwt_base64url_decode(struct slice in, unsigned char *out, size_t out_max, size_t *out_bytes)
{
    uint32_t bits = 0, held = 0;
    size_t count = 0;
    if (in.len % 4 == 1 || in.len / 4 * 3 + 2 > out_max)
        return false;
    for (size_t i = 0; i < in.len; i++) {
        int value = text_base64url_value(in.at[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[count++] = (unsigned char)(bits >> held);
        }
    }
    *out_bytes = count;
    return (bits & ((1u << held) - 1)) == 0;
}

/* ---- a key of its numbers ---- */

static EVP_PKEY *pkey_of_params(const char *type, OSSL_PARAM_BLD *build)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (!params || !context || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *rsa_key(const unsigned char *n, size_t n_bytes, const unsigned char *e,
                         size_t e_bytes)
{
    BIGNUM *modulus = BN_bin2bn(n, (int)n_bytes, NULL);
    BIGNUM *exponent = BN_bin2bn(e, (int)e_bytes, NULL);
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;
    if (modulus && exponent && build &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, modulus) &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, exponent))
        key = pkey_of_params("RSA", build);
    OSSL_PARAM_BLD_free(build);
    BN_free(modulus);
    BN_free(exponent);
    return key;
}

/* Creates a P-256 key. OpenSSL rejects a point that is not on the curve. */
static EVP_PKEY *p256_key(const unsigned char *x, const unsigned char *y)
{
    unsigned char point[1 + 2 * P256_BYTES] = {POINT_CONVERSION_UNCOMPRESSED};
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;
    memcpy(point + 1, x, P256_BYTES);
    memcpy(point + 1 + P256_BYTES, y, P256_BYTES);
    if (build &&
        OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) &&
        OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point))
        key = pkey_of_params("EC", build);
    OSSL_PARAM_BLD_free(build);
    return key;
}

/* Returns the algorithm that a key serves; 0 if it is not supported. */
static enum jwt_algorithm algorithm_of(EVP_PKEY *key)
{
    char group[32] = "";
    BIGNUM *exponent = NULL;
    int bits = EVP_PKEY_get_bits(key);
    if (EVP_PKEY_is_a(key, "ED25519"))
        return JWT_EDDSA;
    if (EVP_PKEY_is_a(key, "EC"))
        return EVP_PKEY_get_group_name(key, group, sizeof group, NULL) == 1 &&
                       strcmp(group, "prime256v1") == 0
                   ? JWT_ES256
                   : 0;
    bool ok = EVP_PKEY_is_a(key, "RSA") && bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX &&
              EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &exponent) == 1 &&
              BN_is_odd(exponent) && !BN_is_one(exponent) && BN_num_bits(exponent) <= 64;
    BN_free(exponent);
    return ok ? JWT_RS256 : 0;
}

/* Adds a key and takes ownership of it; frees it if it is not usable. `key` may be NULL. */
static void keys_add(struct jwt_keys *keys, EVP_PKEY *key, struct slice kid)
{
    enum jwt_algorithm algorithm = key ? algorithm_of(key) : 0;
    if (!algorithm || keys->count == JWT_KEYS_MAX) {
        EVP_PKEY_free(key);
        return;
    }
    struct jwt_key *made = &keys->at[keys->count++];
    *made = (struct jwt_key){.algorithm = algorithm, .key = key, .kid_bytes = kid.len};
    if (kid.len)
        memcpy(made->kid, kid.at, kid.len);
}

/* ---- JWKS ---- */

enum member { KTY, CRV, ALG, USE, KID, N, E, X, Y, D, K, MEMBERS };
static const char *const member_names[MEMBERS] = {"kty", "crv", "alg", "use", "kid", "n",
                                                  "e",   "x",   "y",   "d",   "k"};

struct jwk {
    bool has[MEMBERS];
    struct slice text[MEMBERS]; /* points into the JSON or into `scratch` */
    struct buffer scratch;
};

/* Reads the members. Returns false if one is not a text or is present twice. */
static bool jwk_read(struct json_value object, struct jwk *jwk)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice name;
    while (json_next_member(object, &cursor, &name, &value))
        for (int i = 0; i < MEMBERS; i++) {
            if (!json_string_is(name, member_names[i]))
                continue;
            if (jwk->has[i] || value.kind != JSON_STRING ||
                !json_string_bytes(value.raw, &jwk->scratch, &jwk->text[i]))
                return false;
            jwk->has[i] = true;
        }
    return true;
}

static bool jwk_number(const struct jwk *jwk, enum member member, unsigned char *out,
                       size_t out_max, size_t *bytes)
{
    return jwk->has[member] && jwt_base64url_decode(jwk->text[member], out, out_max, bytes);
}

static EVP_PKEY *jwk_key(const struct jwk *jwk)
{
    unsigned char a[NUMBER_BYTES_MAX + 4], b[P256_BYTES + 4];
    size_t a_bytes, b_bytes;
    if (slice_is(jwk->text[KTY], "RSA"))
        return jwk_number(jwk, N, a, sizeof a, &a_bytes) &&
                       jwk_number(jwk, E, b, sizeof b, &b_bytes)
                   ? rsa_key(a, a_bytes, b, b_bytes)
                   : NULL;
    if (slice_is(jwk->text[KTY], "EC") && slice_is(jwk->text[CRV], "P-256"))
        return jwk_number(jwk, X, a, sizeof a, &a_bytes) && a_bytes == P256_BYTES &&
                       jwk_number(jwk, Y, b, sizeof b, &b_bytes) && b_bytes == P256_BYTES
                   ? p256_key(a, b)
                   : NULL;
    if (slice_is(jwk->text[KTY], "OKP") && slice_is(jwk->text[CRV], "Ed25519"))
        return jwk_number(jwk, X, a, sizeof a, &a_bytes) && a_bytes == ED25519_BYTES
                   ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, a, a_bytes)
                   : NULL;
    return NULL;
}

/* Adds a key unless its declared algorithm or use is a different one. */
static void jwk_add(const struct jwk *jwk, struct jwt_keys *keys)
{
    size_t before = keys->count;
    if ((jwk->has[USE] && !slice_is(jwk->text[USE], "sig")) ||
        jwk->text[KID].len > JWT_KID_BYTES_MAX)
        return;
    keys_add(keys, jwk_key(jwk), jwk->text[KID]);
    struct jwt_key *made = &keys->at[before];
    if (keys->count > before && jwk->has[ALG] &&
        jwt_algorithm_parse(jwk->text[ALG]) != made->algorithm) {
        EVP_PKEY_free(made->key);
        keys->count--;
    }
}

static bool read_jwk(struct json_value value, const char *place, struct jwt_keys *keys, char *error)
{
    struct jwk jwk = {0};
    buffer_init(&jwk.scratch, JWT_KEYS_BYTES_MAX);
    bool ok = value.kind == JSON_OBJECT && buffer_reserve(&jwk.scratch, value.raw.len) &&
              jwk_read(value, &jwk);
    if (!ok)
        error_text(error, ACCESS_ERROR_BYTES, "a key in '%.200s' is malformed, give a JWKS", place);
    else if (jwk.has[D] || jwk.has[K])
        ok = error_text(error, ACCESS_ERROR_BYTES,
                        "there is a secret key in '%.200s', give public keys only", place);
    else
        jwk_add(&jwk, keys);
    buffer_fini(&jwk.scratch);
    return ok;
}

/* Reads {"keys": […]} or a single key. */
static bool read_jwks(struct slice text, const char *place, struct jwt_keys *keys, char *error)
{
    struct json_value all, value, list = {0};
    struct json_cursor cursor = {0}, items = {0};
    struct slice name;
    if (!json_check(text, &all, NULL) || all.kind != JSON_OBJECT)
        return error_text(error, ACCESS_ERROR_BYTES, "'%.200s' is neither a JWKS nor PEM", place);
    while (json_next_member(all, &cursor, &name, &value))
        if (json_string_is(name, "keys")) {
            if (list.kind || value.kind != JSON_ARRAY)
                return error_text(error, ACCESS_ERROR_BYTES, "'%.200s' is not a JWKS", place);
            list = value;
        }
    if (!list.kind)
        return read_jwk(all, place, keys, error);
    while (json_next_item(list, &items, &value))
        if (!read_jwk(value, place, keys, error))
            return false;
    return true;
}

/* ---- PEM ---- */

static EVP_PKEY *pem_key(const char *label, const unsigned char *bytes, long count)
{
    if (strcmp(label, PEM_STRING_PUBLIC) == 0)
        return d2i_PUBKEY(NULL, &bytes, count);
    if (strcmp(label, PEM_STRING_X509) != 0)
        return NULL;
    X509 *certificate = d2i_X509(NULL, &bytes, count);
    EVP_PKEY *key = certificate ? X509_get_pubkey(certificate) : NULL;
    X509_free(certificate);
    return key;
}

static bool read_pem(struct slice text, const char *place, struct jwt_keys *keys, char *error)
{
    BIO *bio = BIO_new_mem_buf(text.at, (int)text.len);
    char *label, *header;
    unsigned char *bytes;
    long count;
    bool ok = true;
    while (ok && bio && PEM_read_bio(bio, &label, &header, &bytes, &count) == 1) {
        if (strstr(label, "PRIVATE KEY"))
            ok = error_text(error, ACCESS_ERROR_BYTES,
                            "there is a secret key in '%.200s', give public keys only", place);
        else
            keys_add(keys, pem_key(label, bytes, count), slice_make(NULL, 0));
        OPENSSL_free(label);
        OPENSSL_free(header);
        OPENSSL_clear_free(bytes, (size_t)count);
    }
    BIO_free(bio);
    return ok;
}

/* ---- all ---- */

int jwt_keys_read(struct slice text, const char *place, struct jwt_keys *out, char *error)
{
    struct jwt_keys keys = {.count = 0};
    size_t blank = 0;
    while (blank < text.len && strchr(" \t\r\n", text.at[blank]) && text.at[blank])
        blank++;
    if (text.len > JWT_KEYS_BYTES_MAX)
        return error_result(-EINVAL, error, ACCESS_ERROR_BYTES,
                            "'%.200s' is too large for keys, at most %d bytes", place,
                            JWT_KEYS_BYTES_MAX);
    bool ok = blank < text.len && text.at[blank] == '{' ? read_jwks(text, place, &keys, error)
                                                        : read_pem(text, place, &keys, error);
    if (ok && keys.count == 0)
        ok = error_text(
            error, ACCESS_ERROR_BYTES,
            "no usable key in '%.200s', give RSA of 2048 bits or more, P-256 or Ed25519", place);
    if (ok)
        *out = keys;
    else
        jwt_keys_fini(&keys);
    return ok ? 0 : -EINVAL;
}

void jwt_keys_fini(struct jwt_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        EVP_PKEY_free(keys->at[i].key);
    keys->count = 0;
}

bool jwt_keys_equal(const struct jwt_keys *a, const struct jwt_keys *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!slice_equals(slice_make(a->at[i].kid, a->at[i].kid_bytes),
                          slice_make(b->at[i].kid, b->at[i].kid_bytes)) ||
            EVP_PKEY_eq(a->at[i].key, b->at[i].key) != 1)
            return false;
    return true;
}

/* ---- signatures ---- */

/* Converts r and s, which JOSE concatenates, into the DER form that OpenSSL requires. Returns its
 * length; 0 on failure. */
static size_t der_signature(struct slice raw, unsigned char *out, size_t out_max)
{
    const unsigned char *at = (const unsigned char *)raw.at;
    ECDSA_SIG *signature = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(at, P256_BYTES, NULL), *s = BN_bin2bn(at + P256_BYTES, P256_BYTES, NULL);
    int bytes = 0;
    if (signature && r && s && ECDSA_SIG_set0(signature, r, s) == 1) {
        r = s = NULL; /* now owned by the signature */
        bytes = i2d_ECDSA_SIG(signature, NULL);
        bytes = bytes > 0 && (size_t)bytes <= out_max ? i2d_ECDSA_SIG(signature, &out) : 0;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(signature);
    return bytes > 0 ? (size_t)bytes : 0;
}

bool jwt_key_verifies(const struct jwt_key *key, struct slice message, struct slice signature)
{
    unsigned char der[2 * P256_BYTES + 16];
    if (key->algorithm == JWT_ES256) {
        if (signature.len != 2 * P256_BYTES)
            return false;
        signature = slice_make(der, der_signature(signature, der, sizeof der));
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const EVP_MD *digest = key->algorithm == JWT_EDDSA ? NULL : EVP_sha256();
    bool ok = context && signature.len &&
              EVP_DigestVerifyInit(context, NULL, digest, NULL, key->key) == 1 &&
              EVP_DigestVerify(context, (const unsigned char *)signature.at, signature.len,
                               (const unsigned char *)message.at, message.len) == 1;
    EVP_MD_CTX_free(context);
    return ok;
}
