/*
 * json_write: appends JSON text to a buffer. Pure.
 *
 * The caller writes braces, brackets, commas and literals with buffer_append_text. These functions
 * write the parts that need escaping or formatting.
 */
#ifndef TARRY_BASE_JSON_WRITE_H
#define TARRY_BASE_JSON_WRITE_H

#include "base/buffer.h"

#include <stdbool.h>

/* Appends a quoted string; bytes that are not UTF-8 become U+FFFD. Fast if no byte needs
 * escaping. */
void json_write_string(struct buffer *out, struct slice text);
/* Writes a string; null if it is empty. */
void json_write_string_or_null(struct buffer *out, struct slice text);

/* Appends a quoted string in the same way, for output that may reach a terminal: characters that a
 * terminal interprets (text_unshown_bytes) are escaped. */
void json_write_shown(struct buffer *out, struct slice text);

/* Appends "key": with the quotes and the colon. `key` must need no escaping. */
void json_write_key(struct buffer *out, const char *key);

/* Appends a member's key, with a comma before it unless it is the first of its object. The caller
 * then writes the value, or uses the functions for a text or a number. */
void json_write_member(struct buffer *out, const char *key);
void json_write_member_text(struct buffer *out, const char *key, struct slice text);
void json_write_member_number(struct buffer *out, const char *key, uint64_t number);
void json_write_member_bool(struct buffer *out, const char *key, bool value);
/* Writes a time; null if it is 0. */
void json_write_member_time(struct buffer *out, const char *key, int64_t ms);

void json_write_bool(struct buffer *out, bool value);

/* Appends a quoted RFC 3339 time. */
void json_write_time(struct buffer *out, int64_t ms);

/* Appends a quoted base64 string (RFC 4648, padded). */
void json_write_base64(struct buffer *out, struct slice bytes);

#endif
