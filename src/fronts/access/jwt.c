#include "access/jwt.h"

#include "base/json_read.h"

#include <assert.h>
#include <strings.h>

#define SECONDS_MAX INT64_C(253402300799) /* the end of the year 9999 */

/* ---- parts ---- */

struct parts {
    struct slice header, payload, signature;
    struct slice signed_part; /* header, dot and payload */
};

/* Splits a token. Returns false unless there are exactly two dots. */
static bool split(struct slice text, struct parts *out)
{
    const char *first = text.len ? memchr(text.at, '.', text.len) : NULL;
    const char *end = text.at + text.len;
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
    if (!second || memchr(second + 1, '.', (size_t)(end - second - 1)))
        return false;
    *out = (struct parts){.header = slice_make(text.at, (size_t)(first - text.at)),
                          .payload = slice_make(first + 1, (size_t)(second - first - 1)),
                          .signature = slice_make(second + 1, (size_t)(end - second - 1)),
                          .signed_part = slice_make(text.at, (size_t)(second - text.at))};
    return true;
}

bool jwt_is_formed(struct slice text)
{
    struct parts parts;
    return split(text, &parts);
}

/* Decodes a part and parses its JSON object. */
static bool read_object(struct slice part, struct buffer *scratch, struct json_value *out)
{
    size_t bytes = 0, room = part.len / 4 * 3 + 3;
    unsigned char *into = (unsigned char *)buffer_reserve(scratch, room);
    if (!into || !jwt_base64url_decode(part, into, room, &bytes))
        return false;
    scratch->len += bytes;
    return json_check(slice_make(into, bytes), out, NULL) && out->kind == JSON_OBJECT;
}

/* Finds the values of the named members; JSON_NONE if absent. Returns false if one is present
 * twice. */
static bool find_members(struct json_value object, const char *const *names, size_t count,
                         struct json_value *out)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice name;
    memset(out, 0, count * sizeof *out);
    while (json_next_member(object, &cursor, &name, &value))
        for (size_t i = 0; i < count; i++)
            if (json_string_is(name, names[i])) {
                if (out[i].kind)
                    return false;
                out[i] = value;
            }
    return true;
}

static bool read_text(struct json_value value, struct buffer *scratch, struct slice *out)
{
    return value.kind == JSON_STRING && json_string_bytes(value.raw, scratch, out);
}

/* ---- the header ---- */

struct header {
    enum jwt_algorithm algorithm;
    bool has_kid;
    struct slice kid;
};

static bool type_is_known(struct slice type)
{
    static const char *const known[] = {"JWT", "at+jwt", "application/at+jwt"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (type.len == strlen(known[i]) && strncasecmp(type.at, known[i], type.len) == 0)
            return true;
    return false;
}

static bool read_header(struct slice part, struct buffer *scratch, struct header *out)
{
    enum { ALG, KID, TYP, CRIT, B64, MEMBERS };
    static const char *const names[MEMBERS] = {"alg", "kid", "typ", "crit", "b64"};
    struct json_value object, value[MEMBERS];
    struct slice text;
    *out = (struct header){0};
    if (!read_object(part, scratch, &object) || !find_members(object, names, MEMBERS, value) ||
        value[CRIT].kind || value[B64].kind)
        return false;
    if (value[TYP].kind && (!read_text(value[TYP], scratch, &text) || !type_is_known(text)))
        return false;
    if (!read_text(value[ALG], scratch, &text) || !(out->algorithm = jwt_algorithm_parse(text)))
        return false;
    out->has_kid = value[KID].kind != JSON_NONE;
    return !out->has_kid || read_text(value[KID], scratch, &out->kid);
}

/* ---- the signature ---- */

static bool key_is_named(const struct jwt_key *key, const struct header *header)
{
    return !header->has_kid || key->kid_bytes == 0 ||
           slice_equals(slice_make(key->kid, key->kid_bytes), header->kid);
}

static enum access_refusal check_signature(const struct parts *parts, const struct header *header,
                                           const struct jwt_keys *keys)
{
    unsigned char signature[JWT_SIGNATURE_BYTES_MAX + 4];
    size_t bytes, tried = 0;
    bool is_named = false;
    if (!jwt_base64url_decode(parts->signature, signature, sizeof signature, &bytes))
        return ACCESS_MALFORMED;
    for (size_t i = 0; i < keys->count && tried < JWT_KEYS_TRIED_MAX; i++) {
        const struct jwt_key *key = &keys->at[i];
        if (!key_is_named(key, header))
            continue;
        is_named = true;
        if (key->algorithm != header->algorithm)
            continue;
        tried++;
        if (jwt_key_verifies(key, parts->signed_part, slice_make(signature, bytes)))
            return ACCESS_OK;
    }
    return is_named ? ACCESS_FORGED : ACCESS_UNKNOWN_KEY;
}

/* ---- claims ---- */

/* Reads seconds since 1970; truncates fractions. */
static bool read_seconds(struct json_value value, int64_t *out)
{
    struct slice raw = value.raw;
    const char *dot = raw.len ? memchr(raw.at, '.', raw.len) : NULL;
    int64_t seconds;
    if (value.kind != JSON_NUMBER)
        return false;
    if (dot) {
        for (const char *at = dot + 1; at < raw.at + raw.len; at++)
            if (*at < '0' || *at > '9')
                return false;
        raw.len = (size_t)(dot - raw.at);
    }
    if (!json_number_i64(raw, &seconds) || seconds < 0 || seconds > SECONDS_MAX)
        return false;
    *out = seconds;
    return true;
}

/* Returns true if the value is the audience, or a list that contains it. */
static bool names_audience(struct json_value value, const char *audience)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    bool found = false;
    if (value.kind == JSON_STRING)
        return json_string_is(value.raw, audience);
    if (value.kind != JSON_ARRAY)
        return false;
    while (json_next_item(value, &cursor, &item)) {
        if (item.kind != JSON_STRING)
            return false;
        found = found || json_string_is(item.raw, audience);
    }
    return found;
}

static unsigned scope_of(struct slice word)
{
    static const char own[] = "tarry:";
    if (word.len > sizeof own - 1 && memcmp(word.at, own, sizeof own - 1) == 0)
        word = slice_make(word.at + sizeof own - 1, word.len - (sizeof own - 1));
    for (unsigned scope = 1; scope <= ACCESS_SCOPES_ALL; scope <<= 1)
        if (slice_is(word, access_scope_name(scope)))
            return scope;
    return 0;
}

/* Calls `each` with the words of a text (separated by blanks or commas) or with the items of a
 * list. Returns false if the value is neither, or if `each` returned false. */
static bool each_word(struct json_value value, struct buffer *scratch,
                      bool (*each)(void *ctx, struct slice word), void *ctx)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    struct slice text;
    if (value.kind == JSON_ARRAY) {
        while (json_next_item(value, &cursor, &item))
            if (!read_text(item, scratch, &text) || !each(ctx, text))
                return false;
        return true;
    }
    if (!read_text(value, scratch, &text))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        size_t start = i;
        while (i < text.len && text.at[i] != ' ' && text.at[i] != ',')
            i++;
        if (i > start && !each(ctx, slice_make(text.at + start, i - start)))
            return false;
    }
    return true;
}

static bool add_scope(void *ctx, struct slice word)
{
    struct jwt_caller *caller = ctx;
    caller->scopes |= scope_of(word);
    return true;
}

/* Appends a pattern to the end of the scratch buffer, which has enough space. */
static bool add_topic(void *ctx, struct slice word)
{
    struct buffer *topics = ctx;
    if (!access_topics_are_valid(word) || memchr(word.at, ',', word.len))
        return false;
    if (topics->len)
        buffer_append_byte(topics, ',');
    buffer_append_slice(topics, word);
    return !topics->failed;
}

static bool read_topics(struct json_value value, struct buffer *scratch, struct jwt_caller *out)
{
    struct buffer topics;
    bool ok = true;
    buffer_init(&topics, ACCESS_TOPICS_TEXT_BYTES_MAX);
    if (value.kind)
        ok = each_word(value, scratch, add_topic, &topics);
    char *kept = ok ? buffer_reserve(scratch, topics.len) : NULL;
    if (kept && topics.len)
        memcpy(kept, topics.at, topics.len);
    if (kept) {
        out->topics = slice_make(kept, topics.len);
        scratch->len += topics.len;
    }
    buffer_fini(&topics);
    return kept;
}

/* Rejects control bytes, which would corrupt logs. */
static bool name_is_valid(struct slice name)
{
    if (name.len < 1 || name.len > JWT_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < ' ' || name.at[i] == 0x7f)
            return false;
    return true;
}

static enum access_refusal check_time(struct json_value exp, struct json_value nbf, int64_t now_ms,
                                      int64_t *ends_ms)
{
    int64_t until, from = 0;
    if (!read_seconds(exp, &until) || (nbf.kind && !read_seconds(nbf, &from)))
        return ACCESS_CLAIMS;
    *ends_ms = until * 1000 + JWT_LEEWAY_MS;
    if (now_ms >= *ends_ms)
        return ACCESS_EXPIRED;
    return now_ms < from * 1000 - JWT_LEEWAY_MS ? ACCESS_CLAIMS : ACCESS_OK;
}

static enum access_refusal read_claims(struct slice part, const struct jwt_rules *rules,
                                       int64_t now_ms, struct buffer *scratch,
                                       struct jwt_caller *out)
{
    enum { ISS, AUD, EXP, NBF, SUB, SCOPE, TOPICS, MEMBERS };
    const char *const names[MEMBERS] = {
        "iss", "aud", "exp", "nbf", "sub", rules->scope_claim, rules->topics_claim};
    struct json_value object, value[MEMBERS];
    if (!read_object(part, scratch, &object) || !find_members(object, names, MEMBERS, value))
        return ACCESS_MALFORMED;
    if (value[ISS].kind != JSON_STRING || !json_string_is(value[ISS].raw, rules->issuer) ||
        !names_audience(value[AUD], rules->audience))
        return ACCESS_CLAIMS;
    enum access_refusal refusal = check_time(value[EXP], value[NBF], now_ms, &out->ends_ms);
    if (refusal)
        return refusal;
    if (!read_text(value[SUB], scratch, &out->name) || !name_is_valid(out->name))
        return ACCESS_CLAIMS;
    if (value[SCOPE].kind && !each_word(value[SCOPE], scratch, add_scope, out))
        return ACCESS_CLAIMS;
    return read_topics(value[TOPICS], scratch, out) ? ACCESS_OK : ACCESS_CLAIMS;
}

enum access_refusal jwt_read(struct slice text, const struct jwt_keys *keys,
                             const struct jwt_rules *rules, int64_t now_ms, struct buffer *scratch,
                             struct jwt_caller *out)
{
    struct parts parts;
    struct header header;
    assert(scratch->len == 0 && scratch->bytes_max >= 3 * text.len);
    *out = (struct jwt_caller){0};
    /* Reserves space for everything that is unescaped or appended, so that the buffer never
     * moves. */
    if (!buffer_reserve(scratch, scratch->bytes_max))
        return ACCESS_UNAVAILABLE;
    if (!split(text, &parts) || !read_header(parts.header, scratch, &header))
        return ACCESS_MALFORMED;
    enum access_refusal refusal = check_signature(&parts, &header, keys);
    return refusal ? refusal : read_claims(parts.payload, rules, now_ms, scratch, out);
}
