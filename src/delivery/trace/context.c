#include "trace/context.h"

#include "base/hex.h"
#include "base/text.h"

/* ---- traceparent ---- */

enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, SAMPLED = 1 };

static bool has_dashes(const char *text)
{
    return text[TRACE_AT - 1] == '-' && text[SPAN_AT - 1] == '-' && text[FLAGS_AT - 1] == '-';
}

bool trace_parent_parse(struct slice text, struct trace_context *out)
{
    struct trace_context read;
    uint64_t version, flags;
    if (text.len < TRACE_PARENT_BYTES || !has_dashes(text.at) ||
        !hex_parse_u64(text.at + VERSION_AT, 2, &version) || version == 0xff)
        return false;
    if (text.len > TRACE_PARENT_BYTES && (version == 0 || text.at[TRACE_PARENT_BYTES] != '-'))
        return false;
    if (!hex_parse_u64(text.at + TRACE_AT, 16, &read.trace_high) ||
        !hex_parse_u64(text.at + TRACE_AT + 16, 16, &read.trace_low) ||
        !hex_parse_u64(text.at + SPAN_AT, 16, &read.span) ||
        !hex_parse_u64(text.at + FLAGS_AT, 2, &flags))
        return false;
    if (!(read.trace_high | read.trace_low) || !read.span)
        return false;
    read.is_sampled = flags & SAMPLED;
    *out = read;
    return true;
}

void trace_parent_emit(const struct trace_context *context, char out[TRACE_PARENT_BYTES])
{
    memcpy(out, "00-", 3);
    hex_emit_u64(out + TRACE_AT, context->trace_high, 16);
    hex_emit_u64(out + TRACE_AT + 16, context->trace_low, 16);
    out[SPAN_AT - 1] = '-';
    hex_emit_u64(out + SPAN_AT, context->span, 16);
    memcpy(out + FLAGS_AT - 1, context->is_sampled ? "-01" : "-00", 3);
}

/* ---- tracestate ---- */

enum { KEY_BYTES_MAX = 256, TENANT_BYTES_MAX = 241, SYSTEM_BYTES_MAX = 14, VALUE_BYTES_MAX = 256 };

static bool is_letter(char byte)
{
    return byte >= 'a' && byte <= 'z';
}

static bool is_sign(char byte)
{
    return byte == '_' || byte == '-' || byte == '*' || byte == '/';
}

/* Returns true for letters, digits, _ - * /, beginning with a letter, or for a tenant also with a
 * digit. */
static bool name_is_valid(struct slice name, size_t bytes_max, bool is_tenant)
{
    if (name.len == 0 || name.len > bytes_max ||
        !(is_letter(*name.at) || (is_tenant && text_is_digit(*name.at))))
        return false;
    for (size_t i = 1; i < name.len; i++)
        if (!is_letter(name.at[i]) && !text_is_digit(name.at[i]) && !is_sign(name.at[i]))
            return false;
    return true;
}

/* Checks a key: NAME or TENANT@SYSTEM. */
static bool key_is_valid(struct slice key)
{
    const char *sign = memchr(key.at, '@', key.len);
    if (!sign)
        return name_is_valid(key, KEY_BYTES_MAX, false);
    size_t tenant = (size_t)(sign - key.at);
    return name_is_valid(slice_make(key.at, tenant), TENANT_BYTES_MAX, true) &&
           name_is_valid(slice_make(sign + 1, key.len - tenant - 1), SYSTEM_BYTES_MAX, false);
}

/* Checks a value: printable ASCII except ',' and '=', without a blank at its end. */
static bool value_is_valid(struct slice value)
{
    if (value.len == 0 || value.len > VALUE_BYTES_MAX || value.at[value.len - 1] == ' ')
        return false;
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] < ' ' || value.at[i] > '~' || value.at[i] == ',' || value.at[i] == '=')
            return false;
    return true;
}

static struct slice key_of(struct slice member)
{
    const char *sign = memchr(member.at, '=', member.len);
    return slice_make(member.at, sign ? (size_t)(sign - member.at) : member.len);
}

static bool member_is_valid(struct slice member)
{
    struct slice key = key_of(member);
    return key.len < member.len && key_is_valid(key) &&
           value_is_valid(slice_make(member.at + key.len + 1, member.len - key.len - 1));
}

/* Cuts the text up to the next comma from *rest, without blanks around it. */
static struct slice take_member(struct slice *rest)
{
    const char *comma = memchr(rest->at, ',', rest->len);
    struct slice member = slice_make(rest->at, comma ? (size_t)(comma - rest->at) : rest->len);
    size_t used = comma ? member.len + 1 : member.len;
    *rest = slice_make(rest->at + used, rest->len - used);
    while (member.len && (*member.at == ' ' || *member.at == '\t'))
        member = slice_make(member.at + 1, member.len - 1);
    while (member.len && (member.at[member.len - 1] == ' ' || member.at[member.len - 1] == '\t'))
        member.len--;
    return member;
}

/* Returns true if the list has a member with this key; *count is its number of members. */
static bool list_has(struct slice list, struct slice key, size_t *count)
{
    bool found = false;
    for (*count = 0; list.len; ++*count)
        found |= slice_equals(key_of(take_member(&list)), key);
    return found;
}

/* Adds a member. Returns false if it is malformed, its key exists already, or there is no room. */
static bool add_member(struct slice member, struct buffer *out)
{
    size_t count;
    if (!member_is_valid(member) || list_has(buffer_slice(out), key_of(member), &count) ||
        count == TRACE_STATE_MEMBERS_MAX ||
        out->len + (count > 0) + member.len > TRACE_STATE_BYTES_MAX)
        return false;
    if (count)
        buffer_append_byte(out, ',');
    buffer_append_slice(out, member);
    return !out->failed;
}

bool trace_state_add(struct slice text, struct buffer *out)
{
    size_t before = out->len;
    while (text.len) {
        struct slice member = take_member(&text);
        if (member.len && !add_member(member, out)) {
            out->len = before;
            return false;
        }
    }
    return true;
}
