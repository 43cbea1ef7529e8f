#include "unit/access/jwt_rig.h"
#include "unit/claim.h"

#define RS "{\"alg\":\"RS256\",\"kid\":\"r\"}"
#define ES "{\"alg\":\"ES256\",\"kid\":\"e\"}"
#define ED "{\"alg\":\"EdDSA\",\"kid\":\"d\"}"

CLAIM(token_of_each_kind_of_key_is_good)
{
    struct jwt_rig *rig = *state;
    assert_int_equal(rig_read(rig, rig_token(rig, rig->rsa, RS, RIG_PAYLOAD)), ACCESS_OK);
    assert_int_equal(rig_read(rig, rig_token(rig, rig->p256, ES, RIG_PAYLOAD)), ACCESS_OK);
    assert_int_equal(rig_read(rig, rig_token(rig, rig->ed25519, ED, RIG_PAYLOAD)), ACCESS_OK);
    assert_int_equal(rig_read(rig, rig_token(rig, rig->rsa, "{\"alg\":\"RS256\"}", RIG_PAYLOAD)),
                     ACCESS_OK);
    assert_int_equal(
        rig_read(rig,
                 rig_token(rig, rig->rsa, "{\"alg\":\"RS256\",\"typ\":\"at+JWT\"}", RIG_PAYLOAD)),
        ACCESS_OK);
}

CLAIM(claims_become_rights)
{
    struct jwt_rig *rig = *state;
    struct jwt_caller caller;
    struct buffer scratch;
    const char *token = rig_token(rig, rig->rsa, RS, RIG_PAYLOAD);
    buffer_init(&scratch, 3 * strlen(token) + 64);
    assert_int_equal(jwt_read(slice_of(token), &rig->keys, &rig_rules, RIG_NOW_S * INT64_C(1000),
                              &scratch, &caller),
                     ACCESS_OK);
    assert_true(slice_is(caller.name, "joe"));
    assert_true(slice_is(caller.topics, "orders-*,mail"));
    assert_int_equal(caller.scopes, ACCESS_PUSH | ACCESS_READ);
    assert_int_equal(caller.ends_ms, INT64_C(1790000300000) + JWT_LEEWAY_MS);
    buffer_fini(&scratch);
}

CLAIM(missing_scope_and_topics_give_no_rights)
{
    struct jwt_rig *rig = *state;
    struct jwt_caller caller;
    struct buffer scratch;
    const char *token = rig_token(rig, rig->rsa, RS, "{" RIG_CLAIMS "}");
    buffer_init(&scratch, 3 * strlen(token) + 64);
    assert_int_equal(jwt_read(slice_of(token), &rig->keys, &rig_rules, RIG_NOW_S * INT64_C(1000),
                              &scratch, &caller),
                     ACCESS_OK);
    assert_int_equal(caller.scopes, 0);
    assert_false(access_topics_match(caller.topics, slice_of("orders")));
    assert_false(access_topics_match(caller.topics, slice_of("")));
    buffer_fini(&scratch);
}

CLAIM(header_that_is_not_as_it_must_be_is_refused)
{
    struct jwt_rig *rig = *state;
    static const struct {
        const char *sentence, *header;
        enum access_refusal refusal;
    } rows[] = {
        {"alg none", "{\"alg\":\"none\"}", ACCESS_MALFORMED},
        {"alg None", "{\"alg\":\"None\"}", ACCESS_MALFORMED},
        {"no alg", "{\"kid\":\"r\"}", ACCESS_MALFORMED},
        {"alg of no text", "{\"alg\":1}", ACCESS_MALFORMED},
        {"HS256", "{\"alg\":\"HS256\",\"kid\":\"r\"}", ACCESS_MALFORMED},
        {"RS512", "{\"alg\":\"RS512\",\"kid\":\"r\"}", ACCESS_MALFORMED},
        {"rs256", "{\"alg\":\"rs256\",\"kid\":\"r\"}", ACCESS_MALFORMED},
        {"alg twice", "{\"alg\":\"none\",\"alg\":\"RS256\"}", ACCESS_MALFORMED},
        {"alg twice, once escaped", "{\"alg\":\"RS256\",\"\\u0061lg\":\"RS256\"}",
         ACCESS_MALFORMED},
        {"kid twice", "{\"alg\":\"RS256\",\"kid\":\"r\",\"kid\":\"r\"}", ACCESS_MALFORMED},
        {"kid of no text", "{\"alg\":\"RS256\",\"kid\":7}", ACCESS_MALFORMED},
        {"critical header", "{\"alg\":\"RS256\",\"crit\":[\"x\"],\"x\":1}", ACCESS_MALFORMED},
        {"critical, empty", "{\"alg\":\"RS256\",\"crit\":[]}", ACCESS_MALFORMED},
        {"b64 false", "{\"alg\":\"RS256\",\"b64\":false}", ACCESS_MALFORMED},
        {"another type", "{\"alg\":\"RS256\",\"typ\":\"logout+jwt\"}", ACCESS_MALFORMED},
        {"no object", "[\"RS256\"]", ACCESS_MALFORMED},
        {"no JSON", "{\"alg\":\"RS256\"", ACCESS_MALFORMED},
        {"two objects", "{\"alg\":\"RS256\"}{}", ACCESS_MALFORMED},
        {"kid of another key", "{\"alg\":\"RS256\",\"kid\":\"e\"}", ACCESS_FORGED},
        {"kid of none", "{\"alg\":\"RS256\",\"kid\":\"new\"}", ACCESS_UNKNOWN_KEY},
        {"kid empty", "{\"alg\":\"RS256\",\"kid\":\"\"}", ACCESS_UNKNOWN_KEY},
        {"algorithm of another key", "{\"alg\":\"ES256\",\"kid\":\"r\"}", ACCESS_FORGED},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].sentence, rig_read(rig, rig_token(rig, rig->rsa, rows[i].header,
                                                             RIG_PAYLOAD)) == rows[i].refusal);
}

CLAIM(a_key_inside_the_token_is_ignored)
{
    struct jwt_rig *rig = *state;
    char jwk[4096], header[8192];
    rig_jwk_rsa(rig->other_rsa, "", jwk, sizeof jwk);
    snprintf(header, sizeof header, "{\"alg\":\"RS256\",\"jwk\":%s,\"jku\":\"https://evil\"}", jwk);
    assert_int_equal(rig_read(rig, rig_token(rig, rig->other_rsa, header, RIG_PAYLOAD)),
                     ACCESS_FORGED);
    assert_int_equal(rig_read(rig, rig_token(rig, rig->other_rsa, RS, RIG_PAYLOAD)), ACCESS_FORGED);
}

/* The public key is not secret: as the key of an HMAC it would let anyone sign. */
CLAIM(a_public_key_does_not_verify_as_a_shared_secret)
{
    struct jwt_rig *rig = *state;
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_bytes = 0;
    char *pem;
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PUBKEY(bio, rig->rsa);
    long pem_bytes = BIO_get_mem_data(bio, &pem);
    size_t len = rig_message(rig, "{\"alg\":\"HS256\",\"kid\":\"r\"}", RIG_PAYLOAD);
    HMAC(EVP_sha256(), pem, (int)pem_bytes, (const unsigned char *)rig->text, len, mac, &mac_bytes);
    rig->text[len++] = '.';
    rig_base64url(mac, mac_bytes, rig->text + len);
    assert_int_equal(rig_read(rig, rig->text), ACCESS_MALFORMED);
    BIO_free(bio);
}

CLAIM(one_byte_changed_is_refused)
{
    struct jwt_rig *rig = *state;
    const char *token = rig_token(rig, rig->p256, ES, "{" RIG_CLAIMS "}");
    size_t len = strlen(token);
    char changed[2048];
    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 7; bit++) {
            strcpy(changed, token);
            changed[i] ^= (char)(1 << bit);
            if (changed[i])
                assert_int_not_equal(rig_read(rig, changed), ACCESS_OK);
        }
    for (size_t i = 0; i < len; i++) {
        snprintf(changed, sizeof changed, "%.*s", (int)i, token);
        assert_int_not_equal(rig_read(rig, changed), ACCESS_OK);
    }
}

CLAIM(only_the_one_spelling_is_taken)
{
    struct jwt_rig *rig = *state;
    char token[4096], other[4200];
    static const char *const behind[] = {"=", "A", " ", "\n", ".", ".x"};
    strcpy(token, rig_token(rig, rig->rsa, RS, RIG_PAYLOAD));
    for (size_t i = 0; i < COUNT_OF(behind); i++) {
        snprintf(other, sizeof other, "%s%s", token, behind[i]);
        CASE_HOLDS(behind[i], rig_read(rig, other) != ACCESS_OK);
    }
    /* 256 bytes are 342 digits, of which the last four bits are unused. */
    strcpy(other, token);
    size_t last = strlen(other) - 1;
    assert_non_null(strchr("AQgw", other[last]));
    other[last]++;
    assert_int_equal(rig_read(rig, other), ACCESS_MALFORMED);
}

CLAIM(signatures_of_nothing_are_refused)
{
    struct jwt_rig *rig = *state;
    unsigned char zeros[512] = {0};
    static const struct {
        const char *header;
        size_t bytes;
    } rows[] = {{ES, 64}, {ES, 0}, {ES, 63}, {ES, 96}, {RS, 256}, {RS, 0}, {ED, 64}, {ED, 0}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t len = rig_message(rig, rows[i].header, RIG_PAYLOAD);
        rig->text[len++] = '.';
        rig_base64url(zeros, rows[i].bytes, rig->text + len);
        rig->text[len + (rows[i].bytes ? strlen(rig->text + len) : 0)] = '\0';
        CASE_HOLDS(rows[i].header, rig_read(rig, rig->text) == ACCESS_FORGED);
    }
    /* As DER, which is what OpenSSL itself writes. */
    unsigned char der[128];
    size_t der_bytes = sizeof der, len = rig_message(rig, ES, RIG_PAYLOAD);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, rig->p256, NULL);
    EVP_DigestSign(context, der, &der_bytes, (const unsigned char *)rig->text, len);
    EVP_MD_CTX_free(context);
    rig->text[len++] = '.';
    rig_base64url(der, der_bytes, rig->text + len);
    assert_int_equal(rig_read(rig, rig->text), ACCESS_FORGED);
}

CLAIM(claims_that_do_not_hold_are_refused)
{
    struct jwt_rig *rig = *state;
#define ISS "\"iss\":\"https://id.example\""
#define AUD ",\"aud\":\"tarry\""
#define SUB ",\"sub\":\"joe\""
#define EXP ",\"exp\":1790000300"
    static const struct {
        const char *sentence, *payload;
        enum access_refusal refusal;
    } rows[] = {
        {"all as it must be", "{" ISS AUD SUB EXP "}", ACCESS_OK},
        {"a list of audiences", "{" ISS SUB EXP ",\"aud\":[\"a\",\"tarry\"]}", ACCESS_OK},
        {"a fraction of a second", "{" ISS AUD SUB ",\"exp\":1790000300.75}", ACCESS_OK},
        {"over, within the leeway", "{" ISS AUD SUB ",\"exp\":1789999941}", ACCESS_OK},
        {"over", "{" ISS AUD SUB ",\"exp\":1789999940}", ACCESS_EXPIRED},
        {"over for years", "{" ISS AUD SUB ",\"exp\":0}", ACCESS_EXPIRED},
        {"not yet, within the leeway", "{" ISS AUD SUB EXP ",\"nbf\":1790000060}", ACCESS_OK},
        {"not yet", "{" ISS AUD SUB EXP ",\"nbf\":1790000061}", ACCESS_CLAIMS},
        {"nbf of no number", "{" ISS AUD SUB EXP ",\"nbf\":\"0\"}", ACCESS_CLAIMS},
        {"another issuer", "{\"iss\":\"https://id.example/\"" AUD SUB EXP "}", ACCESS_CLAIMS},
        {"no issuer", "{\"sub\":\"joe\"" AUD EXP "}", ACCESS_CLAIMS},
        {"issuer in a list", "{\"iss\":[\"https://id.example\"]" AUD SUB EXP "}", ACCESS_CLAIMS},
        {"issuer twice", "{" ISS "," ISS AUD SUB EXP "}", ACCESS_MALFORMED},
        {"for others", "{" ISS SUB EXP ",\"aud\":\"Tarry\"}", ACCESS_CLAIMS},
        {"for a list of others", "{" ISS SUB EXP ",\"aud\":[\"a\"]}", ACCESS_CLAIMS},
        {"for an empty list", "{" ISS SUB EXP ",\"aud\":[]}", ACCESS_CLAIMS},
        {"a list with no text", "{" ISS SUB EXP ",\"aud\":[\"tarry\",1]}", ACCESS_CLAIMS},
        {"no audience", "{" ISS SUB EXP "}", ACCESS_CLAIMS},
        {"audience twice", "{" ISS AUD AUD SUB EXP "}", ACCESS_MALFORMED},
        {"no end", "{" ISS AUD SUB "}", ACCESS_CLAIMS},
        {"an end that is a text", "{" ISS AUD SUB ",\"exp\":\"1790000300\"}", ACCESS_CLAIMS},
        {"an end with an exponent", "{" ISS AUD SUB ",\"exp\":1e300}", ACCESS_CLAIMS},
        {"an end that overflows", "{" ISS AUD SUB ",\"exp\":9223372036854775807}", ACCESS_CLAIMS},
        {"an end before 1970", "{" ISS AUD SUB ",\"exp\":-1}", ACCESS_CLAIMS},
        {"end twice", "{" ISS AUD SUB EXP EXP "}", ACCESS_MALFORMED},
        {"no subject", "{" ISS AUD EXP "}", ACCESS_CLAIMS},
        {"an empty subject", "{" ISS AUD EXP ",\"sub\":\"\"}", ACCESS_CLAIMS},
        {"a subject with a line end", "{" ISS AUD EXP ",\"sub\":\"a\\nb\"}", ACCESS_CLAIMS},
        {"a subject with NUL", "{" ISS AUD EXP ",\"sub\":\"a\\u0000b\"}", ACCESS_CLAIMS},
        {"a scope of no text", "{" ISS AUD SUB EXP ",\"scope\":1}", ACCESS_CLAIMS},
        {"scope twice", "{" ISS AUD SUB EXP ",\"scope\":\"a\",\"scope\":\"b\"}", ACCESS_MALFORMED},
        {"a list of scopes", "{" ISS AUD SUB EXP ",\"scope\":[\"push\"]}", ACCESS_OK},
        {"a pattern that is none", "{" ISS AUD SUB EXP ",\"topics\":\"a*b\"}", ACCESS_CLAIMS},
        {"a pattern with a comma", "{" ISS AUD SUB EXP ",\"topics\":[\"a,*\"]}", ACCESS_CLAIMS},
        {"a list of no texts", "{" ISS AUD SUB EXP ",\"topics\":[1]}", ACCESS_CLAIMS},
        {"a list", "[1]", ACCESS_MALFORMED},
        {"nothing", "", ACCESS_MALFORMED},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].sentence,
                   rig_read(rig, rig_token(rig, rig->rsa, RS, rows[i].payload)) == rows[i].refusal);
}

CLAIM(giant_tokens_are_read_or_refused_in_bounds)
{
    struct jwt_rig *rig = *state;
    static char payload[40000];
    size_t len = (size_t)sprintf(payload, "{" RIG_CLAIMS ",\"topics\":[");
    while (len < sizeof payload - 64)
        len += (size_t)sprintf(payload + len, "\"\\u0061\\u0062\",");
    strcpy(payload + len, "\"a\"]}");
    assert_int_equal(rig_read(rig, rig_token(rig, rig->rsa, RS, payload)), ACCESS_CLAIMS);
    memset(payload, '[', sizeof payload - 1);
    assert_int_equal(rig_read(rig, rig_token(rig, rig->rsa, RS, payload)), ACCESS_MALFORMED);
}

CLAIM(keys_that_do_not_serve_are_refused)
{
    struct jwt_rig *rig = *state;
    char rsa[4096], small[4096], enc[4096], pss[4096], text[20000], error[ACCESS_ERROR_BYTES];
    struct jwt_keys keys = {.count = 0};
    rig_jwk_rsa(rig->rsa, "", rsa, sizeof rsa);
    rig_jwk_rsa(rig->small_rsa, "", small, sizeof small);
    rig_jwk_rsa(rig->rsa, ",\"use\":\"enc\"", enc, sizeof enc);
    rig_jwk_rsa(rig->rsa, ",\"alg\":\"PS256\"", pss, sizeof pss);
    const struct {
        const char *sentence, *keys;
        int count;
    } rows[] = {
        {"one", rsa, 1},
        {"1024 bits are too few", small, 0},
        {"for encryption", enc, 0},
        {"for another algorithm", pss, 0},
        {"a shared secret", "{\"kty\":\"oct\",\"k\":\"AAAA\"}", -1},
        {"P-256, a point beside the curve",
         "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\","
         "\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\"}",
         0},
        {"another curve", "{\"kty\":\"EC\",\"crv\":\"secp256k1\",\"x\":\"AA\",\"y\":\"AA\"}", 0},
        {"an unknown kind", "{\"kty\":\"X\"}", 0},
        {"kty twice", "{\"kty\":\"RSA\",\"kty\":\"RSA\"}", -1},
        {"no text", "{\"kty\":1}", -1},
        {"no object", "7", -1},
        {"exponent one", "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQ\"}", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text, "{\"keys\":[%s,%s]}", rows[i].keys,
                 rows[i].count < 0 ? rsa : "{\"kty\":\"none\"}");
        int result = jwt_keys_read(slice_of(text), "k", &keys, error);
        CASE_HOLDS(rows[i].sentence, (result == 0) == (rows[i].count > 0));
        jwt_keys_fini(&keys);
    }
}

CLAIM(keys_are_read_from_pem)
{
    struct jwt_rig *rig = *state;
    EVP_PKEY *const serve[] = {rig->rsa, rig->p256, rig->ed25519, rig->p384, rig->small_rsa};
    struct jwt_keys keys = {.count = 0}, kept = rig->keys;
    char error[ACCESS_ERROR_BYTES], *pem;
    BIO *bio = BIO_new(BIO_s_mem());
    for (size_t i = 0; i < COUNT_OF(serve); i++)
        PEM_write_bio_PUBKEY(bio, serve[i]);
    long bytes = BIO_get_mem_data(bio, &pem);
    assert_int_equal(jwt_keys_read(slice_make(pem, (size_t)bytes), "pem", &keys, error), 0);
    assert_int_equal(keys.count, 3);
    rig->keys = keys;
    assert_int_equal(rig_read(rig, rig_token(rig, rig->p256, ES, RIG_PAYLOAD)), ACCESS_OK);
    rig->keys = kept;
    jwt_keys_fini(&keys);
    PEM_write_bio_PrivateKey(bio, rig->ed25519, NULL, NULL, 0, NULL, NULL);
    bytes = BIO_get_mem_data(bio, &pem);
    assert_int_equal(jwt_keys_read(slice_make(pem, (size_t)bytes), "pem", &keys, error), -EINVAL);
    assert_non_null(strstr(error, "there is a secret key in 'pem'"));
    BIO_free(bio);
}

CLAIMS_MAIN(rig_jwt_open, rig_jwt_close)
