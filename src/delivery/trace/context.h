/*
 * context: a trace context as in W3C Trace Context (Recommendation, level 1): the trace, the parent
 * span, and whether it is sampled. Pure.
 *
 * Parsing is strict, and malformed contexts are ignored: no request fails because of its trace. An
 * unknown version is parsed like version 00, and written as 00.
 */
#ifndef TARRY_TRACE_CONTEXT_H
#define TARRY_TRACE_CONTEXT_H

#include "base/buffer.h"

enum {
    TRACE_PARENT_BYTES = 55, /* 00-TRACE-SPAN-FLAGS */
    TRACE_STATE_BYTES_MAX = 512,
    TRACE_STATE_MEMBERS_MAX = 32
};

struct trace_context {
    uint64_t trace_high, trace_low; /* not both 0 */
    uint64_t span;                  /* not 0 */
    bool is_sampled;
};

/* Parses a `traceparent`. Returns false if malformed; *out is then unchanged. */
bool trace_parent_parse(struct slice text, struct trace_context *out);
void trace_parent_emit(const struct trace_context *context, char out[TRACE_PARENT_BYTES]);

/* Appends the members of a `tracestate` to those in `out`, without the blanks between them. Returns
 * false if it is malformed, has too many members or is too long; `out` is then unchanged. */
bool trace_state_add(struct slice text, struct buffer *out);

#endif
