/* url: the target of a request, put together piece by piece: "/v1/topics/a%2Fb/take?max=10". Pure.
 */
#ifndef TARRY_CLI_URL_H
#define TARRY_CLI_URL_H

#include "base/buffer.h"

#include <stdint.h>

enum { URL_BYTES_MAX = 64 * 1024 };

/* One more segment: a slash and `text`, with everything escaped that is not a letter, a digit or
 * one of "-._~". */
void url_add_segment(struct buffer *url, const char *text);
/* One more parameter, `?` or `&` first. Nothing where `value` is NULL. */
void url_add_query(struct buffer *url, const char *key, const char *value);
void url_add_query_number(struct buffer *url, const char *key, uint64_t value);

#endif
