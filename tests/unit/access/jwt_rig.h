/* jwt_rig: an issuer of the test's own, with keys of every kind, and whatever tokens it may be asked
 * for. */
#ifndef TARRY_TESTS_JWT_RIG_H
#define TARRY_TESTS_JWT_RIG_H

#include "access/jwt.h"

#include "unit/cases.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIG_NOW_S 1790000000
#define RIG_CLAIMS                                                                                 \
    "\"iss\":\"https://id.example\",\"aud\":\"tarry\",\"sub\":\"joe\",\"exp\":1790000300"
#define RIG_RIGHTS ",\"scope\":\"openid push tarry:read\",\"topics\":[\"orders-*\",\"mail\"]"
#define RIG_PAYLOAD "{" RIG_CLAIMS RIG_RIGHTS "}"

enum { RIG_TEXT_BYTES = 64 * 1024 };

struct jwt_rig {
    EVP_PKEY *rsa, *other_rsa, *small_rsa, *p256, *p384, *ed25519;
    char jwks[16 * 1024];
    struct jwt_keys keys;
    char text[RIG_TEXT_BYTES]; /* of the last token */
};

static inline size_t rig_base64url(const void *bytes, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const unsigned char *at = bytes;
    size_t count = 0;
    for (size_t i = 0; i < len; i += 3) {
        uint32_t word = (uint32_t)at[i] << 16 | (i + 1 < len ? (uint32_t)at[i + 1] << 8 : 0) |
                        (i + 2 < len ? at[i + 2] : 0);
        for (size_t k = 0; k < 4 && k < len - i + 1; k++)
            out[count++] = digits[word >> (18 - 6 * k) & 63];
    }
    out[count] = '\0';
    return count;
}

static inline void rig_number(const EVP_PKEY *key, const char *name, int bytes, char *out)
{
    unsigned char number[1024];
    BIGNUM *value = NULL;
    assert_int_equal(EVP_PKEY_get_bn_param(key, name, &value), 1);
    if (!bytes)
        bytes = BN_num_bytes(value);
    assert_int_equal(BN_bn2binpad(value, number, bytes), bytes);
    BN_free(value);
    rig_base64url(number, (size_t)bytes, out);
}

static inline void rig_jwk_rsa(const EVP_PKEY *key, const char *more, char *out, size_t out_bytes)
{
    char n[2048], e[64];
    rig_number(key, OSSL_PKEY_PARAM_RSA_N, 0, n);
    rig_number(key, OSSL_PKEY_PARAM_RSA_E, 0, e);
    snprintf(out, out_bytes, "{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"%s\"%s}", n, e, more);
}

static inline void rig_jwk_p256(const EVP_PKEY *key, const char *more, char *out, size_t out_bytes)
{
    char x[64], y[64];
    rig_number(key, OSSL_PKEY_PARAM_EC_PUB_X, 32, x);
    rig_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, 32, y);
    snprintf(out, out_bytes, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"%s\",\"y\":\"%s\"%s}", x, y,
             more);
}

static inline void rig_jwk_ed25519(const EVP_PKEY *key, const char *more, char *out,
                                   size_t out_bytes)
{
    unsigned char raw[32];
    char x[64];
    size_t bytes = sizeof raw;
    assert_int_equal(EVP_PKEY_get_raw_public_key(key, raw, &bytes), 1);
    rig_base64url(raw, bytes, x);
    snprintf(out, out_bytes, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\"%s}", x, more);
}

static inline int rig_jwt_open(void **state)
{
    static struct jwt_rig rig;
    char rsa[4096], p256[512], ed25519[512], error[ACCESS_ERROR_BYTES];
    rig.rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    rig.other_rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    rig.small_rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)1024);
    rig.p256 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    rig.p384 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
    rig.ed25519 = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    rig_jwk_rsa(rig.rsa, ",\"kid\":\"r\",\"alg\":\"RS256\",\"use\":\"sig\"", rsa, sizeof rsa);
    rig_jwk_p256(rig.p256, ",\"kid\":\"e\"", p256, sizeof p256);
    rig_jwk_ed25519(rig.ed25519, ",\"kid\":\"d\"", ed25519, sizeof ed25519);
    snprintf(rig.jwks, sizeof rig.jwks, "{\"keys\":[%s,%s,%s]}", rsa, p256, ed25519);
    if (jwt_keys_read(slice_of(rig.jwks), "jwks", &rig.keys, error) != 0)
        fail_msg("%s", error);
    *state = &rig;
    return 0;
}

static inline int rig_jwt_close(void **state)
{
    struct jwt_rig *rig = *state;
    EVP_PKEY *const all[] = {rig->rsa,  rig->other_rsa, rig->small_rsa,
                             rig->p256, rig->p384,      rig->ed25519};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        EVP_PKEY_free(all[i]);
    jwt_keys_fini(&rig->keys);
    return 0;
}

static inline size_t rig_sign(EVP_PKEY *key, const char *digest, const char *message,
                              unsigned char *out)
{
    unsigned char der[1024];
    size_t bytes = sizeof der;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit_ex(context, NULL, digest, NULL, NULL, key, NULL), 1);
    assert_int_equal(
        EVP_DigestSign(context, der, &bytes, (const unsigned char *)message, strlen(message)), 1);
    EVP_MD_CTX_free(context);
    if (!EVP_PKEY_is_a(key, "EC")) {
        memcpy(out, der, bytes);
        return bytes;
    }
    const unsigned char *at = der;
    int half = (EVP_PKEY_get_bits(key) + 7) / 8;
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &at, (long)bytes);
    BN_bn2binpad(ECDSA_SIG_get0_r(signature), out, half);
    BN_bn2binpad(ECDSA_SIG_get0_s(signature), out + half, half);
    ECDSA_SIG_free(signature);
    return 2 * (size_t)half;
}

/* "header.payload" of what they hold, into rig->text. */
static inline size_t rig_message(struct jwt_rig *rig, const char *header, const char *payload)
{
    size_t len = rig_base64url(header, strlen(header), rig->text);
    rig->text[len++] = '.';
    return len + rig_base64url(payload, strlen(payload), rig->text + len);
}

/* The whole token; good until the next one. */
static inline const char *rig_token(struct jwt_rig *rig, EVP_PKEY *key, const char *header,
                                    const char *payload)
{
    unsigned char signature[1024];
    size_t len = rig_message(rig, header, payload);
    size_t bytes =
        rig_sign(key, EVP_PKEY_is_a(key, "ED25519") ? NULL : "SHA256", rig->text, signature);
    rig->text[len++] = '.';
    rig_base64url(signature, bytes, rig->text + len);
    return rig->text;
}

static const struct jwt_rules rig_rules = {.issuer = "https://id.example",
                                           .audience = "tarry",
                                           .scope_claim = "scope",
                                           .topics_claim = "topics"};

static inline enum access_refusal rig_read_at(const struct jwt_rig *rig, const char *token,
                                              int64_t now_ms)
{
    struct jwt_caller caller;
    struct buffer scratch;
    buffer_init(&scratch, 3 * strlen(token) + 64);
    enum access_refusal refusal =
        jwt_read(slice_of(token), &rig->keys, &rig_rules, now_ms, &scratch, &caller);
    buffer_fini(&scratch);
    return refusal;
}

static inline enum access_refusal rig_read(const struct jwt_rig *rig, const char *token)
{
    return rig_read_at(rig, token, RIG_NOW_S * INT64_C(1000));
}

#endif
