/*
 * cors: pages of other sites that may use the API, and the header fields for their browsers (the
 * Fetch standard, "CORS protocol"). Without configured origins no page may, and no field is sent.
 *
 * A browser lets a page read an answer, or send more than a plain form, only if the server names
 * the origin of the page. Credentials of the browser (cookies, certificates) are never allowed: a
 * page sends its token in Authorization.
 *
 * Pure.
 */
#ifndef TARRY_HTTP_CORS_H
#define TARRY_HTTP_CORS_H

#include "base/buffer.h"
#include "http/request.h"

/* Checks a list of origins as a browser sends them, separated by commas or blanks:
 * "https://console.example", "http://localhost:3000". On false, *bad is the invalid origin. */
bool http_cors_check(struct slice origins, struct slice *bad);

/* Returns the position of the origin in the list, from 1, or 0 if it is not in the list. */
uint16_t http_cors_find(struct slice origins, struct slice origin);

/* Returns whether the request is a preflight request. */
bool http_cors_is_preflight(const struct http_request *request);
/* Writes the header fields of its answer: the methods of the path (`allow`, as in the field Allow)
 * and which of the fields that the page requests are allowed. */
void http_cors_emit_preflight(const struct http_request *request, struct slice allow,
                              struct buffer *out);

/* Writes the header fields of any other answer. `index` is the result of http_cors_find for its
 * request. */
void http_cors_emit(struct slice origins, uint16_t index, struct buffer *out);

#endif
