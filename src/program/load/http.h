/*
 * load_http: tarry's HTTP API as a load protocol, and a few single calls that `bench` also makes.
 *
 * Answers are not parsed as HTTP and JSON in full: status and Content-Length are read, and leases
 * and bodies are found by scanning. This is safe because the server and the bodies are tarry's own,
 * and it lets one core saturate another.
 */
#ifndef TARRY_LOAD_HTTP_H
#define TARRY_LOAD_HTTP_H

#include "load/protocol.h"

/* Reads host and port from "http://host[:port][/]" or https; the default port is 8279. Returns
 * false and fills in `problem` on failure. */
bool load_http_url(const char *url, struct load_plan *plan, char problem[LOAD_TEXT_BYTES_MAX]);

/* Makes one call without a body ("GET", "/v1/info"). Returns its status, or 0 with `problem`.
 * Writes the answer's body to `answer` unless it is NULL. */
int load_http_call(const struct load_plan *plan, const char *method, const char *path,
                   struct buffer *answer, char problem[LOAD_TEXT_BYTES_MAX]);

/* The frame of one answer: its status and the location of its body. load_http_frame returns
 * LOAD_ANSWER, LOAD_PARTIAL (with *need) or LOAD_BROKEN. */
struct load_http_frame {
    int status;
    size_t bytes; /* length of head and body */
    struct slice body;
};
enum load_outcome load_http_frame(struct slice bytes, struct load_http_frame *frame, size_t *need);

#endif
