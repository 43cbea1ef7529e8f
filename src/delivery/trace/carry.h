/*
 * carry: the context of a trace on its way with a job: as its metas traceparent and tracestate, so that
 * every store keeps it and every consumer and target sees it. Pure.
 */
#ifndef TARRY_TRACE_CARRY_H
#define TARRY_TRACE_CARRY_H

#include "job/job.h"
#include "trace/context.h"

enum {
    TRACE_META_BYTES_MAX = 128 + TRACE_STATE_BYTES_MAX
}; /* that all of it takes in a job's meta */

struct trace_carry {
    struct trace_context context;
    uint16_t state_bytes;
    char state[TRACE_STATE_BYTES_MAX]; /* `tracestate` */
};

/* False: both as if there were no header. `state` empty or malformed: there is none. */
bool trace_carry_set(struct trace_carry *carry, struct slice parent, struct slice state);
static inline struct slice trace_carry_state(const struct trace_carry *carry)
{
    return slice_make(carry->state, carry->state_bytes);
}

/* Does the meta name a traceparent or a tracestate, be it a good one or not? */
bool trace_meta_names(struct slice meta);
/* The context that a job's meta carries. False: none, or a malformed one; nothing is written. `state` is
 * as it stands there, empty where there is none. */
bool trace_meta_find(struct slice meta, struct trace_context *context, struct slice *state);
/* Is it a good one, of a trace that is sampled? */
bool trace_meta_is_sampled(struct slice meta);
/* The text of the job's traceparent, good or not; `at` NULL: there is none. */
struct slice trace_meta_parent(struct slice meta);
/* When the job was pushed; 0: nobody noted it. */
int64_t trace_meta_pushed_us(struct slice meta);

/* Adds what is carried to the meta of a push. One that names a context itself keeps that. Where there
 * is no room the job goes without: nobody is refused for his trace. True: the job carries it. */
bool trace_meta_add(struct buffer *meta, const struct trace_carry *carry);
/* Appends the meta with `context` in place of the traceparent that it has. */
void trace_meta_renew(struct slice meta, const struct trace_context *context, struct buffer *out);
/* Notes in the meta when the job was pushed, where there is room. */
void trace_meta_add_pushed(struct buffer *meta, int64_t pushed_us);

#endif
