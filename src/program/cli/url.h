/*
 * url: builds the target of a request piece by piece, such as "/v1/topics/a%2Fb/take?max=10", and
 * hides the user and password of a server's URL for display. Pure.
 */
#ifndef TARRY_CLI_URL_H
#define TARRY_CLI_URL_H

#include "base/buffer.h"

#include <stdint.h>

enum { CLI_URL_BYTES_MAX = 64 * 1024 };

/* Appends a segment: a slash and `text`, with all characters escaped except letters, digits and
 * "-._~". */
void cli_url_add_segment(struct buffer *url, const char *text);
/* Appends a parameter, preceded by `?` or `&`. Appends nothing if `value` is NULL. */
void cli_url_add_query(struct buffer *url, const char *key, const char *value);
void cli_url_add_query_number(struct buffer *url, const char *key, uint64_t value);
void cli_url_add_query_ms(struct buffer *url, const char *key, int64_t ms);

enum { CLI_URL_SHOWN_BYTES = 512 };

/* Writes a URL for display, with user and password replaced by "…". In a malformed URL, the text
 * before the last "@" and a port that is not a number are treated as such. */
void cli_url_show(const char *url, char *out, size_t out_bytes);
/* Writes a sentence for display, such as an error message. Replaces anything in it that may be a
 * user and a password; if `is_careful` is set, also without a scheme before it. */
void cli_url_show_sentence(const char *sentence, bool is_careful, char *out, size_t out_bytes);

#endif
