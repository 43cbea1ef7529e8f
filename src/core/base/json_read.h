/*
 * json_read: strict RFC 8259 in place: no tree, no copies. Pure.
 *
 * Why our own: a pushed body that is JSON must come out byte for byte as it went in, so values are
 * needed as spans of the input; and batches arrive at half a million jobs a second. The tests hold
 * it against jansson as the judge. Strict: UTF-8 checked (no surrogates, no overlong forms), no
 * control bytes in strings, no escape that is half a surrogate pair, no trailing commas, depth at
 * most JSON_DEPTH_MAX, one value and white space only.
 */
#ifndef TARRY_BASE_JSON_READ_H
#define TARRY_BASE_JSON_READ_H

#include "base/buffer.h"

enum { JSON_DEPTH_MAX = 64 };

enum json_kind {
    JSON_NONE = 0,
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

/* A value: its kind and the exact bytes it takes in the input (a string with its quotes). */
struct json_value {
    enum json_kind kind;
    struct slice raw;
};

/* True if `text` is one JSON value and nothing else; *value then spans it. On false *error_at (may
 * be NULL) is the byte offset of the first fault. */
bool json_check(struct slice text, struct json_value *value, size_t *error_at);

/* Walks the members of a checked object or the items of a checked array. Start with a zeroed
 * cursor. json_next_member: *key is the raw string (with quotes). False at the end. */
struct json_cursor {
    const char *at;
};
bool json_next_member(struct json_value object, struct json_cursor *cursor, struct slice *key,
                      struct json_value *value);
bool json_next_item(struct json_value array, struct json_cursor *cursor, struct json_value *item);

/* The first member of this name; JSON_NONE: there is none, or `object` is none. */
struct json_value json_member(struct json_value object, const char *name);

/* True if the raw string `raw` (with quotes) spells `text`, escapes considered. */
bool json_string_is(struct slice raw, const char *text);

/* The bytes a raw string stands for. Where it has no escapes: a slice of the input itself. Else
 * unescaped into `scratch` (appended), which must outlive *out. Beware: an *out in `scratch` is
 * lost when `scratch` grows. Who keeps several reserves as many bytes as the input has first:
 * unescaped they are never more. False when scratch failed. "\u0000" is allowed: the caller refuses
 * it if it must. */
bool json_string_bytes(struct slice raw, struct buffer *scratch, struct slice *out);

/* A number with no fraction or exponent that fits. */
bool json_number_i64(struct slice raw, int64_t *out);

/* True if all bytes are well-formed UTF-8 (RFC 3629). */
bool json_utf8_is_valid(struct slice text);

#endif
