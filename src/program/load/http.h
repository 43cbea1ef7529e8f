/*
 * load_http: tarry's HTTP API as a load protocol, and the few single calls `bench` makes besides.
 *
 * The answers are not parsed as HTTP and JSON in full: status and Content-Length are read, leases
 * and bodies found by scanning. That is safe with a server of ours and bodies of ours, and is what
 * lets one core saturate another.
 */
#ifndef TARRY_LOAD_HTTP_H
#define TARRY_LOAD_HTTP_H

#include "load/protocol.h"

/* Fills in host and port from "http://host[:port][/]" or https; the default port is 8279. False with
 * `problem`. */
bool load_http_url(const char *url, struct load_plan *plan, char problem[LOAD_TEXT_BYTES_MAX]);

/* One bodiless call ("GET", "/v1/info"); its status, or 0 with `problem`. `answer` (may be NULL)
 * gets the answer's body. */
int load_http_call(const struct load_plan *plan, const char *method, const char *path,
                   struct buffer *answer, char problem[LOAD_TEXT_BYTES_MAX]);

/* Frames one answer: its status, and where its body is. LOAD_ANSWER, LOAD_PARTIAL (*need) or
 * LOAD_BROKEN. */
struct load_http_frame {
    int status;
    size_t bytes; /* head and body */
    struct slice body;
};
enum load_outcome load_http_frame(struct slice bytes, struct load_http_frame *frame, size_t *need);

#endif
