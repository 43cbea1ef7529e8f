/*
 * judge_jansson: checks with jansson whether a text is JSON, and its value, to compare ours with it.
 *
 * If the two may differ by intent, jansson's answer is "no opinion": numbers too great for its
 * types, a NUL in a key, and nesting that is within its limit and beyond ours.
 */
#ifndef TARRY_TESTS_JUDGE_JANSSON_H
#define TARRY_TESTS_JUDGE_JANSSON_H

#include "base/json_read.h"

/* Both name the kinds of values alike. */
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_TRUE JANSSON_TRUE
#define JSON_FALSE JANSSON_FALSE
#define JSON_NULL JANSSON_NULL
#include <jansson.h>
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_TRUE
#undef JSON_FALSE
#undef JSON_NULL

enum decision { DECISION_YES = 1, DECISION_NO, DECISION_NO_OPINION };

/* Returns the depth of brackets outside of strings; only correct for valid JSON. */
static inline int judge_depth(struct slice text)
{
    int depth = 0, deepest = 0;
    bool in_string = false;

    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        if (in_string && byte == '\\')
            i++;
        else if (byte == '"')
            in_string = !in_string;
        else if (!in_string && (byte == '[' || byte == '{'))
            deepest = ++depth > deepest ? depth : deepest;
        else if (!in_string && (byte == ']' || byte == '}'))
            depth--;
    }
    return deepest;
}

/* *tree is the caller's to json_decref; NULL unless the decision is yes. */
static inline enum decision judge_json(struct slice text, json_t **tree)
{
    json_error_t error;

    *tree = json_loadb(text.at, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!*tree) {
        enum json_error_code code = json_error_code(&error);
        bool silent = code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
        return silent ? DECISION_NO_OPINION : DECISION_NO;
    }
    bool lost_nul = memchr(text.at, 0, text.len) != NULL;
    if (!lost_nul && judge_depth(text) <= JSON_DEPTH_MAX)
        return DECISION_YES;
    json_decref(*tree);
    *tree = NULL;
    return lost_nul ? DECISION_NO : DECISION_NO_OPINION;
}

static inline bool judge_same(struct json_value ours, json_t *theirs);

static inline bool judge_same_string(struct slice raw, const char *at, size_t len)
{
    struct buffer scratch;
    struct slice bytes;

    buffer_init(&scratch, raw.len);
    bool same =
        json_string_bytes(raw, &scratch, &bytes) && slice_equals(bytes, slice_make(at, len));
    if (same && !memchr(at, 0, len))
        same = json_string_is(raw, at);
    buffer_fini(&scratch);
    return same;
}

static inline bool judge_same_array(struct json_value ours, json_t *theirs)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    size_t count = 0;

    while (json_next_item(ours, &cursor, &item)) {
        json_t *their_item = json_array_get(theirs, count++);
        if (!their_item || !judge_same(item, their_item))
            return false;
    }
    return count == json_array_size(theirs);
}

/* Compares objects: of members with the same key jansson keeps the last, ours keeps all. */
static inline bool judge_same_object(struct json_value ours, json_t *theirs)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    size_t same = 0;

    while (json_next_member(ours, &cursor, &key, &value)) {
        struct buffer scratch;
        buffer_init(&scratch, key.len + 1);
        struct slice name;
        bool fits = json_string_bytes(key, &scratch, &name);
        json_t *their_value = fits ? json_object_getn(theirs, name.at, name.len) : NULL;
        same += their_value && judge_same(value, their_value);
        buffer_fini(&scratch);
        if (!their_value)
            return false;
    }
    return same >= json_object_size(theirs);
}

static inline bool judge_same(struct json_value ours, json_t *theirs)
{
    int64_t number;

    switch (json_typeof(theirs)) {
    case JANSSON_OBJECT:
        return ours.kind == JSON_OBJECT && judge_same_object(ours, theirs);
    case JANSSON_ARRAY:
        return ours.kind == JSON_ARRAY && judge_same_array(ours, theirs);
    case JANSSON_STRING:
        return ours.kind == JSON_STRING &&
               judge_same_string(ours.raw, json_string_value(theirs), json_string_length(theirs));
    case JSON_INTEGER:
        return ours.kind == JSON_NUMBER && json_number_i64(ours.raw, &number) &&
               number == json_integer_value(theirs);
    case JSON_REAL:
        return ours.kind == JSON_NUMBER && !json_number_i64(ours.raw, &number);
    case JANSSON_TRUE:
        return ours.kind == JSON_TRUE;
    case JANSSON_FALSE:
        return ours.kind == JSON_FALSE;
    default:
        return ours.kind == JSON_NULL;
    }
}

#endif
