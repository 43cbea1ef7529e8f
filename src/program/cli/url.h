/*
 * url: the target of a request, put together piece by piece: "/v1/topics/a%2Fb/take?max=10"; and
 * what may be shown of a server's URL, whose user and password are secrets. Pure.
 */
#ifndef TARRY_CLI_URL_H
#define TARRY_CLI_URL_H

#include "base/buffer.h"

#include <stdint.h>

enum { CLI_URL_BYTES_MAX = 64 * 1024 };

/* One more segment: a slash and `text`, with everything escaped that is not a letter, a digit or
 * one of "-._~". */
void cli_url_add_segment(struct buffer *url, const char *text);
/* One more parameter, `?` or `&` first. Nothing where `value` is NULL. */
void cli_url_add_query(struct buffer *url, const char *key, const char *value);
void cli_url_add_query_number(struct buffer *url, const char *key, uint64_t value);
void cli_url_add_query_ms(struct buffer *url, const char *key, int64_t ms);

enum { CLI_URL_SHOWN_BYTES = 512 };

/* A URL for people's eyes: user and password give way to "…". In one that is malformed they are
 * what stands before the last "@", and a port that is no number. */
void cli_url_show(const char *url, char *out, size_t out_bytes);
/* A sentence for people's eyes, such as an error: what may be a user and a password in it gives way
 * likewise; where `is_careful` also without a scheme before it. */
void cli_url_show_sentence(const char *sentence, bool is_careful, char *out, size_t out_bytes);

#endif
