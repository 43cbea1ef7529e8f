/*
 * json_read: a strict RFC 8259 parser that works in place: no tree, no copies. Pure.
 *
 * Why our own: a pushed body that is JSON must be returned byte for byte, so values are needed as
 * spans of the input; and batches arrive at half a million jobs a second. The tests compare it with
 * jansson. Strict: UTF-8 is checked (no surrogates, no overlong forms), no control bytes in
 * strings, no escape that is half a surrogate pair, no trailing commas, depth at most
 * JSON_DEPTH_MAX, only one value and white space.
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

/* A value: its kind and its exact bytes in the input (a string with its quotes). */
struct json_value {
    enum json_kind kind;
    struct slice raw;
};

/* Returns true if `text` is one JSON value and nothing else; *value then spans it. On false,
 * *error_at (may be NULL) is the byte offset of the first fault. */
bool json_check(struct slice text, struct json_value *value, size_t *error_at);

/* A cursor over the members of a checked object or the items of a checked array. Start with a
 * zeroed cursor. json_next_member sets *key to the raw string (with quotes). Both functions return
 * false at the end. */
struct json_cursor {
    const char *at;
};
bool json_next_member(struct json_value object, struct json_cursor *cursor, struct slice *key,
                      struct json_value *value);
bool json_next_item(struct json_value array, struct json_cursor *cursor, struct json_value *item);

/* Returns the first member of this name, or JSON_NONE if the member is missing or `object` is not
 * an object. */
struct json_value json_member(struct json_value object, const char *name);

/* Returns true if the raw string `raw` (with quotes) represents `text`, with escapes decoded. */
bool json_string_is(struct slice raw, const char *text);

/* Returns the bytes that a raw string represents: a slice of the input if it has no escapes, else
 * unescaped and appended to `scratch`, which must outlive *out. An *out in `scratch` is lost when
 * `scratch` grows: to keep several, first reserve as many bytes as the input has, because
 * unescaping never adds bytes. Returns false if scratch failed. "\u0000" is allowed: the caller
 * must refuse it if necessary. */
bool json_string_bytes(struct slice raw, struct buffer *scratch, struct slice *out);

/* Reads a number without fraction or exponent that fits. */
bool json_number_i64(struct slice raw, int64_t *out);

/* Returns true if all bytes are well-formed UTF-8 (RFC 3629). */
bool json_utf8_is_valid(struct slice text);

#endif
