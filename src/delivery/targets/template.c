#include "targets/template.h"

#include "base/error.h"
#include "base/hex.h"
#include "base/text.h"
#include "targets/target.h"

#include <stdio.h>

enum piece_kind { PIECE_TEXT = 1, PIECE_TOPIC, PIECE_ID, PIECE_GROUP, PIECE_META, PIECE_FAULT };

struct piece {
    enum piece_kind kind;
    struct slice text; /* TEXT: the text; META: the name; FAULT: the invalid part */
};

#define META_PREFIX "meta."
enum { META_NAME_BYTES_MAX = 64 };

/* ---- parsing ---- */

static struct slice head_of(struct slice *rest, size_t len)
{
    struct slice head = slice_make(rest->at, len);
    *rest = slice_make(rest->at + len, rest->len - len);
    return head;
}

static bool is_meta_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
            return false;
    }
    return name.len >= 1 && name.len <= META_NAME_BYTES_MAX;
}

/* Takes a field from `rest`, which begins with a single "{". */
static struct piece take_field(struct slice *rest)
{
    const char *end = memchr(rest->at, '}', rest->len);
    if (!end)
        return (struct piece){PIECE_FAULT, *rest};
    struct slice whole = head_of(rest, (size_t)(end - rest->at) + 1);
    struct slice name = slice_make(whole.at + 1, whole.len - 2);
    size_t prefix = strlen(META_PREFIX);
    if (slice_is(name, "topic"))
        return (struct piece){PIECE_TOPIC, name};
    if (slice_is(name, "id"))
        return (struct piece){PIECE_ID, name};
    if (slice_is(name, "group"))
        return (struct piece){PIECE_GROUP, name};
    if (name.len > prefix && memcmp(name.at, META_PREFIX, prefix) == 0) {
        name = slice_make(name.at + prefix, name.len - prefix);
        if (is_meta_name(name))
            return (struct piece){PIECE_META, name};
    }
    return (struct piece){PIECE_FAULT, whole};
}

/* Takes the next piece from the rest, which is not empty. */
static struct piece take_piece(struct slice *rest)
{
    size_t len = 0;
    while (len < rest->len && rest->at[len] != '{' && rest->at[len] != '}')
        len++;
    if (len > 0)
        return (struct piece){PIECE_TEXT, head_of(rest, len)};
    if (rest->len > 1 && rest->at[1] == rest->at[0]) {
        struct slice both = head_of(rest, 2);
        return (struct piece){PIECE_TEXT, slice_make(both.at, 1)};
    }
    return rest->at[0] == '{' ? take_field(rest) : (struct piece){PIECE_FAULT, head_of(rest, 1)};
}

bool template_check(struct slice text, char *error)
{
    struct slice rest = text;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < ' ' || text.at[i] == 0x7f) {
            (void)snprintf(error, TARGET_ERROR_BYTES, "control character at byte %zu, remove it",
                           i);
            return false;
        }
    while (rest.len > 0) {
        size_t at = text.len - rest.len;
        struct piece piece = take_piece(&rest);
        if (piece.kind != PIECE_FAULT)
            continue;
        (void)snprintf(error, TARGET_ERROR_BYTES,
                       "bad field '%.*s' at byte %zu, use {topic}, {id}, {group} or {meta.NAME}; "
                       "write braces as {{ and }}",
                       (int)(piece.text.len < 40 ? piece.text.len : 40), piece.text.at, at);
        return false;
    }
    return true;
}

enum { NAME_BYTES_MAX = 4096 };

bool template_check_name(const char *text, const char *member,
                         const char *(*fault)(struct slice name), char *error)
{
    struct buffer name;
    struct slice rest = slice_of(text ? text : "");
    if (rest.len == 0)
        return true;
    if (!template_check(rest, error))
        return false;
    buffer_init(&name, NAME_BYTES_MAX);
    while (rest.len > 0) {
        struct piece piece = take_piece(&rest);
        buffer_append_slice(&name, piece.kind == PIECE_TEXT ? piece.text : slice_of("x"));
    }
    const char *why = fault(buffer_slice(&name));
    buffer_fini(&name);
    return !why || error_text(error, TARGET_ERROR_BYTES, "bad '%s', %s", member, why);
}

bool template_has_fields(struct slice text)
{
    return text.len > 0 && (memchr(text.at, '{', text.len) || memchr(text.at, '}', text.len));
}

/* ---- filling in ---- */

/* Appends a piece, filled in if it is a field; in a URL, all values are percent-encoded. */
static void append_piece(const struct piece *piece, const struct job *job,
                         enum template_escape escape, struct buffer *out)
{
    bool is_brace = piece->kind == PIECE_TEXT && (*piece->text.at == '{' || *piece->text.at == '}');
    struct slice text = piece->kind == PIECE_TOPIC   ? job->topic
                        : piece->kind == PIECE_ID    ? job->id
                        : piece->kind == PIECE_GROUP ? job->group
                        : piece->kind == PIECE_META  ? job_meta_find(job->meta, piece->text)
                                                     : piece->text;
    if (escape == TEMPLATE_URL && (piece->kind != PIECE_TEXT || is_brace))
        text_percent_encode(text, "", out);
    else
        buffer_append_slice(out, text);
}

bool template_fill(struct slice text, const struct job *job, enum template_escape escape,
                   size_t bytes_max, struct buffer *out)
{
    size_t before = out->len;
    while (text.len > 0 && out->len - before <= bytes_max && !out->failed) {
        struct piece piece = take_piece(&text);
        append_piece(&piece, job, escape, out);
    }
    struct slice filled = {0};
    if (out->len > before)
        filled = slice_make(out->at + before, out->len - before);
    if (!out->failed && filled.len <= bytes_max &&
        (escape != TEMPLATE_URL || !template_leads_up(filled)))
        return true;
    out->len = before;
    return false;
}

/* ---- parent directories ---- */

/* Decodes the byte at *at; a doubly encoded value ("%252e") is decoded only once. */
static char take_byte(struct slice url, size_t *at)
{
    char c = url.at[(*at)++];
    if (c != '%' || *at + 1 >= url.len)
        return c;
    int high = hex_value(url.at[*at]), low = hex_value(url.at[*at + 1]);
    if (high < 0 || low < 0)
        return c;
    *at += 2;
    return (char)(high << 4 | low);
}

/* Returns the start of the path, or of the host before it. A later "://" is part of the path. */
static size_t skip_scheme(struct slice url)
{
    size_t at = 0;
    while (at < url.len && !strchr(":/?#\\", url.at[at]))
        at++;
    return url.len - at >= 3 && memcmp(url.at + at, "://", 3) == 0 ? at + 3 : 0;
}

bool template_leads_up(struct slice url)
{
    size_t at = skip_scheme(url);
    size_t dots = 0, others = 0;
    while (at < url.len && url.at[at] != '?' && url.at[at] != '#') {
        char c = take_byte(url, &at);
        /* Java servers treat "..;x" as "..". */
        if (c == '/' || c == '\\' || c == ';') {
            if (others == 0 && (dots == 1 || dots == 2))
                return true;
            dots = 0;
            others = c == ';';
        } else if (c == '.') {
            dots++;
        } else {
            others++;
        }
    }
    return others == 0 && (dots == 1 || dots == 2);
}
