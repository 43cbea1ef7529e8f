/*
 * context: the context of a trace as W3C Trace Context has it (Recommendation, level 1): which trace,
 * which span of it is the parent, and whether it is sampled. Pure.
 *
 * Reading is strict, and what is malformed is as if it were not there: nobody is refused for his
 * trace. A version that is not known is read as far as version 00 goes, and written as 00.
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

/* `traceparent`. False: malformed; *out is not written. */
bool trace_parent_parse(struct slice text, struct trace_context *out);
void trace_parent_emit(const struct trace_context *context, char out[TRACE_PARENT_BYTES]);

/* `tracestate`: appends its members to `out`, without the blanks between them, behind those that are
 * there. False: malformed, or too many together, or too long; then `out` is as it was. */
bool trace_state_add(struct slice text, struct buffer *out);

#endif
