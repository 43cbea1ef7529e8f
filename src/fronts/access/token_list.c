#include "access/token_list.h"

#include "base/error.h"
#include "base/hex.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define COMMENT_SIGN '#'

/* ---- the keys of a line ---- */

enum key_kind { KEY_SCOPES = 1, KEY_TOPICS, KEY_TIME, KEY_RATE, KEY_COUNT, KEY_HASH, KEY_SECRET };

struct key {
    const char *name;
    enum key_kind kind;
    size_t offset; /* offset in struct token */
    const char *right;
};

#define FIELD(MEMBER) offsetof(struct token, MEMBER)
#define RIGHT_TIME "give a time such as 2026-11-23T05:00:00Z"
#define RIGHT_RATE "give a rate such as 1000/s or 90/m"
#define RIGHT_COUNT "give a number from 1 on, such as 5000 or 1M"
#define RIGHT_HASH "give 64 small hexadecimal digits"
#define RIGHT_SECRET "give 16 to 128 printable bytes without blanks"

/* Keys in the order in which they are written. */
static const struct key keys[] = {
    {"scope", KEY_SCOPES, FIELD(scopes), "give one or more of push,consume,read,admin"},
    {"topics", KEY_TOPICS, FIELD(topics), "give patterns such as 'orders-*,mail', or '*' for all"},
    {"rate", KEY_RATE, FIELD(limits.push_rate), RIGHT_RATE},
    {"requests", KEY_RATE, FIELD(limits.request_rate), RIGHT_RATE},
    {"max-jobs", KEY_COUNT, FIELD(limits.jobs_max), RIGHT_COUNT},
    {"max-waiting", KEY_COUNT, FIELD(limits.waiting_max), RIGHT_COUNT},
    {"max-connections", KEY_COUNT, FIELD(limits.connections_max), RIGHT_COUNT},
    {"created", KEY_TIME, FIELD(created_ms), RIGHT_TIME},
    {"expires", KEY_TIME, FIELD(expires_ms), RIGHT_TIME},
    {"revoked", KEY_TIME, FIELD(revoked_ms), RIGHT_TIME},
    {"sha256", KEY_HASH, FIELD(secrets[0].hash), RIGHT_HASH},
    {"old-sha256", KEY_HASH, FIELD(secrets[1].hash), RIGHT_HASH},
    {"secret", KEY_SECRET, FIELD(secrets[0].text), RIGHT_SECRET},
    {"old-secret", KEY_SECRET, FIELD(secrets[1].text), RIGHT_SECRET},
    {"old-until", KEY_TIME, FIELD(secrets[1].until_ms), RIGHT_TIME},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static const struct key *find_key(struct slice name, uint32_t *bit)
{
    for (uint32_t i = 0; i < KEYS; i++)
        if (slice_is(name, keys[i].name)) {
            *bit = UINT32_C(1) << i;
            return &keys[i];
        }
    return NULL;
}

static bool secret_is_valid(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return false;
    return text.len >= TOKEN_SECRET_BYTES_MIN && text.len <= SIGNATURE_SECRET_BYTES_MAX;
}

static bool parse_value(const struct key *key, struct slice text, struct token *token)
{
    void *field = (char *)token + key->offset;
    switch (key->kind) {
    case KEY_SCOPES:
        return (*(unsigned *)field = access_scopes_parse(text)) != 0;
    case KEY_TOPICS:
        *(struct slice *)field = text;
        return access_topics_are_valid(text);
    case KEY_TIME:
        return timestamp_parse(text, field) && !timestamp_is_in_seconds(text);
    case KEY_RATE:
        return access_rate_parse(text, field);
    case KEY_COUNT:
        return access_count_parse(text, INT64_MAX, field);
    case KEY_HASH:
        return hex_parse_bytes(text, field, TOKEN_HASH_BYTES);
    case KEY_SECRET:
        *(struct slice *)field = text;
        return secret_is_valid(text);
    }
    return false;
}

static bool value_is_set(const struct key *key, const struct token *token)
{
    const void *field = (const char *)token + key->offset;
    bool is_old = key->offset >= FIELD(secrets[1]), is_key = token->kind == ACCESS_KEY;
    switch (key->kind) {
    case KEY_TIME:
        return *(const int64_t *)field != 0 && *(const int64_t *)field != INT64_MAX;
    case KEY_RATE:
        return ((const struct access_rate *)field)->count != 0;
    case KEY_COUNT:
        return *(const uint64_t *)field != 0;
    case KEY_HASH:
        return !is_key && token->secret_count > is_old;
    case KEY_SECRET:
        return is_key && token->secret_count > is_old;
    default:
        return true;
    }
}

/* Appends " key=value", or nothing if the token has no such value. */
static void emit_value(const struct key *key, const struct token *token, struct buffer *out)
{
    const void *field = (const char *)token + key->offset;
    char scopes[ACCESS_SCOPES_TEXT_BYTES], hash[2 * TOKEN_HASH_BYTES];
    if (!value_is_set(key, token))
        return;
    buffer_append_byte(out, ' ');
    buffer_append_text(out, key->name);
    buffer_append_byte(out, '=');
    switch (key->kind) {
    case KEY_SCOPES:
        access_scopes_emit(token->scopes, scopes);
        buffer_append_text(out, scopes);
        break;
    case KEY_TOPICS:
    case KEY_SECRET:
        buffer_append_slice(out, *(const struct slice *)field);
        break;
    case KEY_TIME:
        timestamp_emit(out, *(const int64_t *)field);
        break;
    case KEY_RATE:
        access_rate_emit(*(const struct access_rate *)field, out);
        break;
    case KEY_COUNT:
        buffer_append_u64(out, *(const uint64_t *)field);
        break;
    case KEY_HASH:
        hex_emit_bytes(hash, field, TOKEN_HASH_BYTES);
        buffer_append(out, hash, sizeof hash);
        break;
    }
}

/* ---- lines and words ---- */

bool token_name_is_valid(struct slice name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    if (name.len < 1 || name.len > TOKEN_NAME_BYTES_MAX ||
        !memchr(letters, name.at[0], sizeof letters - 1))
        return false;
    for (size_t i = 1; i < name.len; i++)
        if (!memchr(letters, name.at[i], sizeof letters - 1) && !memchr("._@:/-", name.at[i], 6))
            return false;
    return true;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

/* Cuts the first line from `rest`. Returns false at the end. */
static bool next_line(struct slice *rest, struct slice *line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->at, '\n', rest->len);
    *line = slice_make(rest->at, end ? (size_t)(end - rest->at) : rest->len);
    size_t used = line->len + (end != NULL);
    *rest = slice_make(rest->at + used, rest->len - used);
    return true;
}

/* Splits a line into the text before the comment and the comment, which may be empty. */
static struct slice cut_comment(struct slice line, struct slice *comment)
{
    *comment = slice_make(NULL, 0);
    for (size_t i = 0; i < line.len; i++)
        if (line.at[i] == COMMENT_SIGN && (i == 0 || is_blank(line.at[i - 1]))) {
            *comment = slice_make(line.at + i, line.len - i);
            return slice_make(line.at, i);
        }
    return line;
}

static bool next_word(struct slice *rest, struct slice *word)
{
    while (rest->len && is_blank(rest->at[0]))
        *rest = slice_make(rest->at + 1, rest->len - 1);
    size_t len = 0;
    while (len < rest->len && !is_blank(rest->at[len]))
        len++;
    *word = slice_make(rest->at, len);
    *rest = slice_make(rest->at + len, rest->len - len);
    return len > 0;
}

/* ---- one token ---- */

enum { WORD_SHOWN_BYTES = 64 };

struct place {
    const char *file;
    size_t line;
    char *error;
};

#define REFUSE(PLACE, FORMAT, ...)                                                                 \
    error_text((PLACE)->error, ACCESS_ERROR_BYTES, "%.200s:%zu: " FORMAT, (PLACE)->file,           \
               (PLACE)->line __VA_OPT__(, ) __VA_ARGS__)

static bool read_pair(struct slice word, struct token *token, uint32_t *seen,
                      const struct place *place)
{
    const char *equals = memchr(word.at, '=', word.len);
    struct slice name = slice_make(word.at, equals ? (size_t)(equals - word.at) : word.len);
    uint32_t bit = 0;
    const struct key *key = find_key(name, &bit);
    if (!key)
        return REFUSE(place, "unknown key '%.*s', see docs/security.md",
                      ERROR_SHOWN(name, WORD_SHOWN_BYTES));
    if (*seen & bit)
        return REFUSE(place, "'%s' is given twice, remove one", key->name);
    *seen |= bit;
    struct slice value = equals ? slice_make(equals + 1, word.len - name.len - 1) : slice_of("");
    return parse_value(key, value, token) ||
           REFUSE(place, "bad value for '%s', %s", key->name, key->right);
}

static bool has_key(uint32_t seen, const char *name)
{
    uint32_t bit = 0;
    find_key(slice_of(name), &bit);
    return seen & bit;
}

/* Checks that all keys required for the kind of the line are present. */
static bool check_keys(struct token *token, uint32_t seen, const struct place *place)
{
    bool is_key = token->kind == ACCESS_KEY;
    const char *name = is_key ? "secret" : "sha256", *old = is_key ? "old-secret" : "old-sha256";
    bool has_secret = has_key(seen, name), has_old = has_key(seen, old);
    const char *missing = !has_key(seen, "scope")                            ? "scope"
                          : !has_key(seen, "topics")                         ? "topics"
                          : token->kind != ACCESS_CERTIFICATE && !has_secret ? name
                          : has_old && !has_key(seen, "old-until")           ? "old-until"
                          : !has_old && has_key(seen, "old-until")           ? old
                                                                             : NULL;
    if (missing)
        return REFUSE(place, "'%s' is missing", missing);
    if (token->kind == ACCESS_CERTIFICATE && (has_secret || has_old))
        return REFUSE(place, "a certificate has no 'sha256', remove it");
    if (!is_key && (has_key(seen, "secret") || has_key(seen, "old-secret")))
        return REFUSE(place, "only an access-key has a 'secret', remove it");
    if (is_key && (has_key(seen, "sha256") || has_key(seen, "old-sha256")))
        return REFUSE(place, "an access-key has no 'sha256', remove it");
    token->secret_count = (size_t)has_secret + has_old;
    return true;
}

static bool read_token(struct slice words, struct token *token, const struct place *place)
{
    struct slice word = {0};
    uint32_t seen = 0;
    next_word(&words, &word);
    token->kind = slice_is(word, access_kind_name(ACCESS_TOKEN))         ? ACCESS_TOKEN
                  : slice_is(word, access_kind_name(ACCESS_CERTIFICATE)) ? ACCESS_CERTIFICATE
                  : slice_is(word, access_kind_name(ACCESS_KEY))         ? ACCESS_KEY
                                                                         : 0;
    if (!token->kind)
        return REFUSE(place,
                      "unknown word '%.*s', begin a line with token, certificate or access-key",
                      ERROR_SHOWN(word, WORD_SHOWN_BYTES));
    if (!next_word(&words, &token->name) || !token_name_is_valid(token->name))
        return REFUSE(place, "bad name '%.*s', give 1 to %d of letters, digits and . _ @ : / -",
                      ERROR_SHOWN(token->name, WORD_SHOWN_BYTES), TOKEN_NAME_BYTES_MAX);
    token->expires_ms = token->revoked_ms = INT64_MAX;
    token->secrets[0].until_ms = token->secrets[1].until_ms = INT64_MAX;
    while (next_word(&words, &word))
        if (!read_pair(word, token, &seen, place))
            return false;
    return check_keys(token, seen, place);
}

/* ---- all of them ---- */

struct named {
    struct table_entry by_name, by_hash[2];
};
TABLE_DECLARE(names, struct named, by_name)

/* Checks that no name and no secret occurs twice. */
static bool check_unique(const struct token *token, struct named *named, struct names *names,
                         struct table *hashes, const struct place *place)
{
    named->by_name.key = token->name;
    if (names_find(names, token->name))
        return REFUSE(place, "'%.*s' is given twice, remove one",
                      ERROR_SHOWN(token->name, WORD_SHOWN_BYTES));
    names_add(names, named);
    for (size_t i = 0; token->kind == ACCESS_TOKEN && i < token->secret_count; i++) {
        struct slice hash = slice_make(token->secrets[i].hash, TOKEN_HASH_BYTES);
        if (table_find(hashes, hash))
            return REFUSE(place, "the secret of '%.*s' is given twice, remove one",
                          ERROR_SHOWN(token->name, WORD_SHOWN_BYTES));
        named->by_hash[i].key = hash;
        table_add(hashes, &named->by_hash[i]);
    }
    return true;
}

/* Returns an upper bound of the number of lines with tokens. */
static size_t count_lines(struct slice text)
{
    struct slice line;
    size_t count = 0;
    while (next_line(&text, &line))
        count++;
    return count;
}

static bool read_lines(struct slice text, struct token_list *list, struct named *named,
                       struct place *place)
{
    struct names names = {0};
    struct table hashes = {0};
    struct slice line, comment;
    bool ok = true;
    while (ok && next_line(&text, &line)) {
        struct token *token = &list->tokens[list->count];
        struct slice words = cut_comment(line, &comment), rest = words, word;
        place->line++;
        if (!next_word(&rest, &word))
            continue;
        if (list->count == TOKENS_MAX)
            ok = REFUSE(place, "too many tokens, at most %d", TOKENS_MAX);
        else if (line.len > TOKEN_LINE_BYTES_MAX)
            ok = REFUSE(place, "the line is too long, at most %d bytes", TOKEN_LINE_BYTES_MAX);
        else
            ok = read_token(words, token, place) &&
                 check_unique(token, &named[list->count], &names, &hashes, place);
        token->comment = comment;
        list->count++;
    }
    names_fini(&names);
    table_fini(&hashes);
    return ok;
}

int token_list_read(struct slice text, const char *where, struct token_list *out,
                    char error[ACCESS_ERROR_BYTES])
{
    struct place place = {.file = where, .error = error};
    size_t count_max = count_lines(text);
    struct token_list list = {.tokens = calloc(count_max + 1, sizeof *list.tokens)};
    struct named *named = calloc(count_max + 1, sizeof *named);
    int result = -ENOMEM;
    if (!list.tokens || !named)
        error_write(error, ACCESS_ERROR_BYTES, "out of memory");
    else
        result = read_lines(text, &list, named, &place) ? 0 : -EINVAL;
    free(named);
    if (result == 0)
        *out = list;
    else
        token_list_fini(&list);
    return result;
}

void token_list_fini(struct token_list *list)
{
    free(list->tokens);
    *list = (struct token_list){0};
}

const struct token *token_list_find(const struct token_list *list, struct slice name)
{
    for (size_t i = 0; i < list->count; i++)
        if (slice_equals(list->tokens[i].name, name))
            return &list->tokens[i];
    return NULL;
}

/* ---- editing ---- */

static void emit_token(const struct token *token, struct slice comment, struct buffer *out)
{
    buffer_append_text(out, access_kind_name(token->kind));
    buffer_append_byte(out, ' ');
    buffer_append_slice(out, token->name);
    for (size_t i = 0; i < KEYS; i++)
        emit_value(&keys[i], token, out);
    if (comment.len) {
        buffer_append_byte(out, ' ');
        buffer_append_slice(out, comment);
    }
    buffer_append_byte(out, '\n');
}

static bool line_is_of(struct slice words, struct slice name)
{
    struct slice word;
    return next_word(&words, &word) && next_word(&words, &word) && slice_equals(word, name);
}

void token_list_put(struct slice text, const struct token *token, struct buffer *out)
{
    bool is_put = false;
    struct slice line, comment;
    while (next_line(&text, &line)) {
        if (line_is_of(cut_comment(line, &comment), token->name)) {
            emit_token(token, comment, out);
            is_put = true;
            continue;
        }
        buffer_append_slice(out, line);
        buffer_append_byte(out, '\n');
    }
    if (!is_put)
        emit_token(token, token->comment, out);
}
