/*
 * json_write: JSON text onto a buffer. Pure.
 *
 * The caller writes braces, brackets, commas and literals with buffer_append_text; these do what
 * needs care.
 */
#ifndef TARRY_BASE_JSON_WRITE_H
#define TARRY_BASE_JSON_WRITE_H

#include "base/buffer.h"

/* A quoted string; bytes that are not UTF-8 come out as U+FFFD. Fast where nothing needs escaping.
 */
void json_write_string(struct buffer *out, struct slice text);

/* "key": with the quotes and the colon; `key` must need no escaping. */
void json_write_key(struct buffer *out, const char *key);

/* A member's key behind a comma, but for the first one of its object; then the caller writes the
 * value, or with these a text or a number. */
void json_write_member(struct buffer *out, const char *key);
void json_write_member_text(struct buffer *out, const char *key, struct slice text);
void json_write_member_number(struct buffer *out, const char *key, uint64_t number);

/* A quoted RFC 3339 time. */
void json_write_time(struct buffer *out, int64_t ms);

/* A quoted base64 string (RFC 4648, padded). */
void json_write_base64(struct buffer *out, struct slice bytes);

#endif
