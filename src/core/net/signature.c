#include "net/signature.h"

#include "base/hex.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <strings.h>

enum { DAY_BYTES = 8, CANONICAL_BYTES_MAX = 256 * 1024 };

#define VERSION "AWS4-"
#define ALGORITHM "AWS4-HMAC-SHA256"
#define SCOPE_END "aws4_request"
#define TIME_HEADER "x-amz-date"
#define DIGEST_HEADER "x-amz-content-sha256"
#define SIGNED_PREFIX "x-amz-"

static bool refuse(const char **why, const char *sentence)
{
    *why = sentence;
    return false;
}

/* ---- the header ---- */

static bool begins_with(struct slice text, const char *start)
{
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.at, start, len) == 0;
}

bool signature_is_claimed(struct slice header)
{
    return begins_with(header, VERSION);
}

/* Cuts the text before the next `sign` from *rest, or all of it without a `sign`. */
static struct slice cut_at(struct slice *rest, char sign)
{
    const char *end = rest->len ? memchr(rest->at, sign, rest->len) : NULL;
    struct slice part = slice_make(rest->at, end ? (size_t)(end - rest->at) : rest->len);
    size_t used = part.len + (end != NULL);
    *rest = slice_make(rest->at + used, rest->len - used);
    return part;
}

static struct slice without_blanks(struct slice text)
{
    while (text.len && (text.at[0] == ' ' || text.at[0] == '\t'))
        text = slice_make(text.at + 1, text.len - 1);
    while (text.len && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Cuts the text after the last slash, and the slash, from `text`. Returns an empty slice without a
 * slash. */
static struct slice cut_last(struct slice *text)
{
    const char *slash = text->len ? memrchr(text->at, '/', text->len) : NULL;
    if (!slash)
        return (struct slice){0};
    size_t before = (size_t)(slash - text->at);
    struct slice part = slice_make(slash + 1, text->len - before - 1);
    text->len = before;
    return part;
}

/* Parses "KEY/20150830/us-east-1/sqs/aws4_request"; the key ID may contain slashes. */
static bool read_credential(struct slice text, struct signature *out)
{
    struct slice rest = text, end = cut_last(&rest);
    out->service = cut_last(&rest);
    out->region = cut_last(&rest);
    out->day = cut_last(&rest);
    out->key_id = rest;
    if (!slice_is(end, SCOPE_END) || !out->service.len || !out->region.len ||
        out->day.len != DAY_BYTES || !out->key_id.len)
        return false;
    out->scope = slice_make(out->day.at, (size_t)(text.at + text.len - out->day.at));
    return true;
}

bool signature_parse(struct slice header, struct signature *out, const char **why)
{
    struct slice rest = header, credential = {0}, headers = {0}, bytes = {0};
    *out = (struct signature){0};
    if (!slice_is(cut_at(&rest, ' '), ALGORITHM))
        return refuse(why, "Only " ALGORITHM " is known here.");
    while (rest.len) {
        struct slice value = without_blanks(cut_at(&rest, ',')), name = cut_at(&value, '=');
        struct slice *into = slice_is(name, "Credential")      ? &credential
                             : slice_is(name, "SignedHeaders") ? &headers
                             : slice_is(name, "Signature")     ? &bytes
                                                               : NULL;
        if (!into || into->at)
            return refuse(why, "The Authorization header has a parameter twice, or one that is "
                               "unknown.");
        *into = value;
    }
    if (!credential.len)
        return refuse(why, "Authorization header requires 'Credential' parameter.");
    if (!headers.len)
        return refuse(why, "Authorization header requires 'SignedHeaders' parameter.");
    if (!bytes.len)
        return refuse(why, "Authorization header requires 'Signature' parameter.");
    if (!read_credential(credential, out))
        return refuse(why, "Credential must have the form "
                           "'ACCESS-KEY/YYYYMMDD/REGION/SERVICE/" SCOPE_END "'.");
    if (!hex_parse_bytes(bytes, out->bytes, SIGNATURE_BYTES))
        return refuse(why, "The signature must have 64 small hexadecimal digits.");
    out->headers = headers;
    return true;
}

/* ---- the request ---- */

static bool name_is(struct slice name, struct slice lower)
{
    return name.len == lower.len && strncasecmp(name.at, lower.at, lower.len) == 0;
}

/* Finds the first header of that name. Returns false if not found. */
static bool find_header(const struct signature_request *request, const char *lower,
                        struct slice *value)
{
    struct slice name;
    for (size_t i = 0; request->next_header(request->headers, i, &name, value); i++)
        if (name_is(name, slice_of(lower)))
            return true;
    return false;
}

static bool is_signed(const struct signature *signature, struct slice name)
{
    struct slice rest = signature->headers;
    while (rest.len)
        if (name_is(name, cut_at(&rest, ';')))
            return true;
    return false;
}

bool signature_covers(const struct signature *signature, const struct signature_request *request,
                      const char **why)
{
    struct slice name, value;
    if (!is_signed(signature, slice_of("host")))
        return refuse(why, "'Host' must be a 'SignedHeader' in the AWS Authorization.");
    for (size_t i = 0; request->next_header(request->headers, i, &name, &value); i++)
        if (name.len >= sizeof SIGNED_PREFIX - 1 &&
            strncasecmp(name.at, SIGNED_PREFIX, sizeof SIGNED_PREFIX - 1) == 0 &&
            !is_signed(signature, name))
            return refuse(why, "There is a header beginning with 'x-amz-' that is not a "
                               "'SignedHeader' in the AWS Authorization.");
    return true;
}

/* Parses "20150830T123600Z" by converting it to RFC 3339. */
static bool read_time(struct slice text, int64_t *ms)
{
    char full[] = "0000-00-00T00:00:00Z";
    static const int places[] = {0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 14, 15, 17, 18, 19};
    _Static_assert(sizeof places / sizeof places[0] == SIGNATURE_TIME_BYTES, "a place for each");
    if (text.len != SIGNATURE_TIME_BYTES)
        return false;
    for (size_t i = 0; i < SIGNATURE_TIME_BYTES; i++)
        full[places[i]] = text.at[i];
    return full[10] == 'T' && timestamp_parse(slice_of(full), ms);
}

bool signature_time(const struct signature *signature, const struct signature_request *request,
                    int64_t *ms, const char **why)
{
    struct slice text;
    if (!find_header(request, TIME_HEADER, &text) || !read_time(text, ms))
        return refuse(why, "The request must have a header 'X-Amz-Date' such as "
                           "20150830T123600Z.");
    if (memcmp(text.at, signature->day.at, DAY_BYTES) != 0)
        return refuse(why, "Date in Credential scope does not match YYYYMMDD from ISO-8601 "
                           "version of date from HTTP.");
    return true;
}

/* ---- the canonical request ---- */

static void append_digest(struct buffer *out, struct slice bytes)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char hex[2 * SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)bytes.at, bytes.len, digest);
    hex_emit_bytes(hex, digest, sizeof digest);
    buffer_append(out, hex, sizeof hex);
}

static int compare_pairs(const void *a, const void *b)
{
    struct slice one = *(const struct slice *)a, other = *(const struct slice *)b;
    struct slice name = cut_at(&one, '='), other_name = cut_at(&other, '=');
    int order = slice_compare(name, other_name);
    return order ? order : slice_compare(one, other);
}

/* Appends the parameters sorted by name, then by value; a name without a value gets an empty
 * one. */
static bool append_query(struct buffer *out, struct slice query)
{
    struct slice pairs[SIGNATURE_PAIRS_MAX];
    size_t count = 0;
    while (query.len) {
        if (count == SIGNATURE_PAIRS_MAX)
            return false;
        pairs[count] = cut_at(&query, '&');
        count += pairs[count].len > 0;
    }
    qsort(pairs, count, sizeof pairs[0], compare_pairs);
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(out, i ? "&" : "");
        buffer_append_slice(out, pairs[i]);
        if (!memchr(pairs[i].at, '=', pairs[i].len))
            buffer_append_byte(out, '=');
    }
    return true;
}

/* Appends a value, trimmed and with runs of blanks collapsed. */
static void append_value(struct buffer *out, struct slice value)
{
    bool was_blank = false;
    value = without_blanks(value);
    for (size_t i = 0; i < value.len; i++) {
        bool is_blank = value.at[i] == ' ' || value.at[i] == '\t';
        if (!is_blank || !was_blank)
            buffer_append_byte(out, is_blank ? ' ' : value.at[i]);
        was_blank = is_blank;
    }
}

/* Appends all headers of the name as one. Returns false if not found. */
static bool append_header(struct buffer *out, const struct signature_request *request,
                          struct slice wanted)
{
    struct slice name, value;
    bool is_there = false;
    buffer_append_slice(out, wanted);
    buffer_append_byte(out, ':');
    for (size_t i = 0; request->next_header(request->headers, i, &name, &value); i++) {
        if (!name_is(name, wanted))
            continue;
        buffer_append_text(out, is_there ? "," : "");
        append_value(out, value);
        is_there = true;
    }
    buffer_append_byte(out, '\n');
    return is_there;
}

bool signature_canonical(const struct signature *signature, const struct signature_request *request,
                         struct buffer *out)
{
    struct slice headers = signature->headers;
    size_t count = 0;
    buffer_append_slice(out, request->method);
    buffer_append_byte(out, '\n');
    text_percent_encode(request->path, "/", out);
    buffer_append_byte(out, '\n');
    if (!append_query(out, request->query))
        return false;
    buffer_append_byte(out, '\n');
    while (headers.len)
        if (count++ == SIGNATURE_HEADERS_MAX || !append_header(out, request, cut_at(&headers, ';')))
            return false;
    buffer_append_byte(out, '\n');
    buffer_append_slice(out, signature->headers);
    buffer_append_byte(out, '\n');
    append_digest(out, request->body);
    return !out->failed;
}

/* ---- the signature ---- */

/* Computes an HMAC; `key` may be `out`. Returns false if the library failed. */
static bool sign(const unsigned char *key, size_t len, struct slice text,
                 unsigned char out[SIGNATURE_BYTES])
{
    unsigned char made[SIGNATURE_BYTES];
    if (!HMAC(EVP_sha256(), key, (int)len, (const unsigned char *)text.at, text.len, made, NULL))
        return false;
    memcpy(out, made, sizeof made);
    return true;
}

bool signature_key(struct slice secret, const struct signature *signature,
                   unsigned char out[SIGNATURE_BYTES])
{
    static const char start[] = {'A', 'W', 'S', '4'};
    unsigned char first[sizeof start + SIGNATURE_SECRET_BYTES_MAX];
    if (secret.len == 0 || secret.len > SIGNATURE_SECRET_BYTES_MAX)
        return false;
    memcpy(first, start, sizeof start);
    memcpy(first + sizeof start, secret.at, secret.len);
    bool is_made = sign(first, sizeof start + secret.len, signature->day, out) &&
                   sign(out, SIGNATURE_BYTES, signature->region, out) &&
                   sign(out, SIGNATURE_BYTES, signature->service, out) &&
                   sign(out, SIGNATURE_BYTES, slice_of(SCOPE_END), out);
    explicit_bzero(first, sizeof first);
    return is_made;
}

bool signature_make(const unsigned char key[SIGNATURE_BYTES], const struct signature *signature,
                    struct slice time, struct slice canonical, unsigned char out[SIGNATURE_BYTES])
{
    struct buffer text;
    buffer_init(&text, 1024 + signature->scope.len);
    buffer_append_text(&text, ALGORITHM "\n");
    buffer_append_slice(&text, time);
    buffer_append_byte(&text, '\n');
    buffer_append_slice(&text, signature->scope);
    buffer_append_byte(&text, '\n');
    append_digest(&text, canonical);
    bool is_made = !text.failed && sign(key, SIGNATURE_BYTES, buffer_slice(&text), out);
    buffer_fini(&text);
    return is_made;
}

/* Compares the digest in the header, if there is one, with that of the body. Values that leave the
 * body unsigned are rejected. */
static bool digest_fits(const struct signature_request *request)
{
    struct slice sent;
    struct buffer digest;
    if (!find_header(request, DIGEST_HEADER, &sent))
        return true;
    buffer_init(&digest, 2 * SIGNATURE_BYTES);
    append_digest(&digest, request->body);
    bool fits = slice_equals(without_blanks(sent), buffer_slice(&digest));
    buffer_fini(&digest);
    return fits;
}

bool signature_holds(const struct signature *signature, const struct signature_request *request,
                     const unsigned char key[SIGNATURE_BYTES])
{
    struct buffer canonical;
    struct slice time;
    unsigned char right[SIGNATURE_BYTES];
    bool holds = false;
    buffer_init(&canonical, CANONICAL_BYTES_MAX);
    if (find_header(request, TIME_HEADER, &time) && digest_fits(request) &&
        signature_canonical(signature, request, &canonical) &&
        signature_make(key, signature, without_blanks(time), buffer_slice(&canonical), right))
        holds = CRYPTO_memcmp(right, signature->bytes, sizeof right) == 0;
    buffer_fini(&canonical);
    return holds;
}
