#include "api/json_shape.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void json_shape_compact(struct slice raw, struct buffer *out)
{
    bool in_string = false;
    size_t from = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (in_string && c == '\\') {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && is_space(c)) {
            buffer_append(out, raw.at + from, i - from);
            from = i + 1;
        }
    }
    buffer_append(out, raw.at + from, raw.len - from);
}

/* ---- merge patch ---- */

static bool is_same_key(struct slice a, struct slice b)
{
    char name[128];
    struct buffer text = {.at = name, .cap = sizeof name, .bytes_max = sizeof name - 1};
    struct slice bytes;
    if (slice_equals(a, b))
        return true;
    if (!memchr(a.at, '\\', a.len) && !memchr(b.at, '\\', b.len))
        return false;
    /* No known name is that long. */
    if (!json_string_bytes(a, &text, &bytes) || bytes.len >= sizeof name ||
        memchr(bytes.at, 0, bytes.len))
        return false;
    memmove(name, bytes.at, bytes.len);
    name[bytes.len] = 0;
    return json_string_is(b, name);
}

static struct json_value find_member(struct json_value object, struct slice key)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice other;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &other, &value))
        if (is_same_key(other, key))
            return value;
    return (struct json_value){0};
}

/* Checks that the object has few members, each only once. */
static bool is_plain_object(struct json_value object, struct slice *twice)
{
    struct slice keys[JSON_SHAPE_MEMBERS_MAX];
    struct json_cursor cursor = {0};
    struct json_value value;
    size_t count = 0;
    for (;
         count < JSON_SHAPE_MEMBERS_MAX && json_next_member(object, &cursor, &keys[count], &value);
         count++)
        for (size_t i = 0; i < count; i++)
            if (is_same_key(keys[i], keys[count])) {
                *twice = keys[count];
                return false;
            }
    struct slice key;
    return count < JSON_SHAPE_MEMBERS_MAX || !json_next_member(object, &cursor, &key, &value);
}

static bool merge_values(struct json_value target, struct json_value patch, struct buffer *out,
                         struct slice *twice);

static bool merge_member(struct slice key, struct json_value target, struct json_value patch,
                         struct buffer *out, struct slice *twice, bool *is_first)
{
    if (patch.kind == JSON_NULL)
        return true;
    if (!*is_first)
        buffer_append_byte(out, ',');
    *is_first = false;
    buffer_append_slice(out, key);
    buffer_append_byte(out, ':');
    if (patch.kind)
        return merge_values(target, patch, out, twice);
    json_shape_compact(target.raw, out);
    return true;
}

static bool merge_values(struct json_value target, struct json_value patch, struct buffer *out,
                         struct slice *twice)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    bool is_first = true;
    if (patch.kind != JSON_OBJECT) {
        json_shape_compact(patch.raw, out);
        return true;
    }
    if (!is_plain_object(patch, twice))
        return false;
    buffer_append_byte(out, '{');
    while (target.kind == JSON_OBJECT && json_next_member(target, &cursor, &key, &value))
        if (!merge_member(key, value, find_member(patch, key), out, twice, &is_first))
            return false;
    cursor = (struct json_cursor){0};
    while (json_next_member(patch, &cursor, &key, &value))
        if (!find_member(target, key).kind &&
            !merge_member(key, (struct json_value){0}, value, out, twice, &is_first))
            return false;
    buffer_append_byte(out, '}');
    return true;
}

bool json_shape_merge(struct json_value target, struct json_value patch, struct buffer *out,
                      struct slice *twice)
{
    *twice = (struct slice){0};
    return merge_values(target, patch, out, twice);
}
