/* JWTs and their keys: the first byte chooses the kind of input: a whole header Authorization, a header and a payload of JSON that are signed
 * here by the right key, or a set of keys. An accepted token is in bounds. */
#include "access/access.h"
#include "access/jwt.h"

#include "claim.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { TEXT_BYTES_MAX = 64 * 1024, KEYS_BYTES_MAX = 256 };
#define NOW_MS INT64_C(1790000000000)

static const struct jwt_rules rules = {.issuer = "https://id.example",
                                       .audience = "tarry",
                                       .scope_claim = "scope",
                                       .topics_claim = "topics"};
static EVP_PKEY *secret;
static struct jwt_keys keys;
static struct access *server;

static size_t emit_base64url(const unsigned char *at, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t count = 0;
    for (size_t i = 0; i < len; i += 3) {
        uint32_t word = (uint32_t)at[i] << 16 | (i + 1 < len ? (uint32_t)at[i + 1] << 8 : 0) |
                        (i + 2 < len ? at[i + 2] : 0);
        for (size_t k = 0; k < 4 && k < len - i + 1; k++)
            out[count++] = digits[word >> (18 - 6 * k) & 63];
    }
    return count;
}

/* Draws one Ed25519 key: the issuer's; the server trusts it. */
static void set_up(void)
{
    unsigned char raw[32];
    char x[64], text[KEYS_BYTES_MAX], error[ACCESS_ERROR_BYTES];
    size_t bytes = sizeof raw;
    struct access_change change = {0};
    const struct access_options options = {.jwt = {.issuer = rules.issuer,
                                                   .audience = rules.audience,
                                                   .scope_claim = "scope",
                                                   .topics_claim = "topics"}};
    secret = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    CLAIM("there is a key", secret && EVP_PKEY_get_raw_public_key(secret, raw, &bytes) == 1);
    x[emit_base64url(raw, bytes, x)] = '\0';
    int text_len = snprintf(
        text, sizeof text,
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"d\",\"x\":\"%s\"}]}", x);
    struct slice set = slice_make(text, (size_t)text_len);
    CLAIM("the key is read", jwt_keys_read(set, "k", &keys, error) == 0);
    CLAIM("there is a server", access_new(&options, &server, error) == 0);
    CLAIM("it has the key", access_set_jwt_keys(server, set, "k", &change, error) == 0);
}

static void check_caller(const struct jwt_caller *caller)
{
    CLAIM("it has a name", caller->name.len >= 1 && caller->name.len <= JWT_NAME_BYTES_MAX);
    for (size_t i = 0; i < caller->name.len; i++)
        CLAIM("no control bytes in a name", (unsigned char)caller->name.at[i] >= ' ');
    CLAIM("no scopes but those there are", !(caller->scopes & ~(unsigned)ACCESS_SCOPES_ALL));
    CLAIM("patterns are valid", caller->topics.len == 0 || access_topics_are_valid(caller->topics));
    CLAIM("it is not over", caller->ends_ms > NOW_MS);
}

static enum access_refusal read_token(struct slice text)
{
    struct buffer scratch;
    struct jwt_caller caller;
    buffer_init(&scratch, 3 * text.len + 64);
    enum access_refusal refusal = jwt_read(text, &keys, &rules, NOW_MS, &scratch, &caller);
    if (refusal == ACCESS_OK)
        check_caller(&caller);
    buffer_fini(&scratch);
    return refusal;
}

/* Tries an unsigned header, which must be rejected. */
static void try_header(struct slice header)
{
    struct access_caller *caller = NULL;
    const struct access_asked asked = {
        .authorization = header, .needs_caller = true, .now_ms = NOW_MS};
    CLAIM("a stranger is refused", access_admit(server, &asked, &caller) != ACCESS_OK);
    CLAIM("and is nobody", !caller);
    (void)read_token(header);
}

/* "HEADER NUL PAYLOAD", signed as they are: all that is read of them is within bounds. */
static void try_signed(const uint8_t *bytes, size_t len)
{
    static char text[TEXT_BYTES_MAX];
    unsigned char signature[64];
    size_t signature_bytes = sizeof signature;
    const uint8_t *nul = memchr(bytes, 0, len);
    if (!nul || len > TEXT_BYTES_MAX / 2)
        return;
    size_t at = emit_base64url(bytes, (size_t)(nul - bytes), text);
    text[at++] = '.';
    at += emit_base64url(nul + 1, len - (size_t)(nul - bytes) - 1, text + at);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    CLAIM("it is signed",
          EVP_DigestSignInit(context, NULL, NULL, NULL, secret) == 1 &&
              EVP_DigestSign(context, signature, &signature_bytes, (unsigned char *)text, at) == 1);
    EVP_MD_CTX_free(context);
    text[at++] = '.';
    at += emit_base64url(signature, signature_bytes, text + at);
    enum access_refusal refusal = read_token(slice_make(text, at));
    CLAIM("a signature that is right is not called forged",
          refusal != ACCESS_FORGED || memmem(bytes, len, "256", 3));
    if (refusal != ACCESS_OK)
        return;
    text[at - 1] = text[at - 1] == 'A' ? 'Q' : 'A';
    text[at - 5] = text[at - 5] == 'A' ? 'B' : 'A';
    CLAIM("with another signature it is refused",
          read_token(slice_make(text, at)) == ACCESS_FORGED);
}

static void try_keys(struct slice text)
{
    char error[ACCESS_ERROR_BYTES] = "";
    struct jwt_keys read = {.count = 0};
    int result = jwt_keys_read(text, "k", &read, error);
    CLAIM("keys that are read serve", result != 0 || (read.count && read.count <= JWT_KEYS_MAX));
    CLAIM("a refusal has its reason", result == 0 || *error);
    jwt_keys_fini(&read);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!secret)
        set_up();
    if (len == 0)
        return 0;
    if (bytes[0] == 'h')
        try_header(slice_make(bytes + 1, len - 1));
    else if (bytes[0] == 's')
        try_signed(bytes + 1, len - 1);
    else
        try_keys(slice_make(bytes + 1, len - 1));
    return 0;
}
