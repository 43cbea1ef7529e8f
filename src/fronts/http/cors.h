/*
 * cors: pages of which other sites may use the API, and what their browsers are told (the Fetch
 * standard, "CORS protocol"). Without origins that were given there are none, and no word of it.
 *
 * A browser lets a page read an answer, or send what is no plain form, only where the server names
 * the page's origin. No credentials of the browser's own (cookies, certificates) are ever allowed: a
 * page brings its token in Authorization.
 *
 * Pure.
 */
#ifndef TARRY_HTTP_CORS_H
#define TARRY_HTTP_CORS_H

#include "base/buffer.h"
#include "http/request.h"

/* Origins with commas or blanks between, as a browser sends them: "https://console.example",
 * "http://localhost:3000". False: *bad is one that is none. */
bool http_cors_check(struct slice origins, struct slice *bad);

/* Which of them it is, from 1; 0: none. */
uint16_t http_cors_find(struct slice origins, struct slice origin);

/* A browser asks first, before it sends what the page wants to send? */
bool http_cors_is_preflight(const struct http_request *request);
/* The lines of its answer: which methods the path has (`allow`, as in the field Allow), and which of
 * the fields that the page wants to send it may. */
void http_cors_emit_preflight(const struct http_request *request, struct slice allow,
                              struct buffer *out);

/* Those of every answer; `index` is what http_cors_find gave for its request. */
void http_cors_emit(struct slice origins, uint16_t index, struct buffer *out);

#endif
