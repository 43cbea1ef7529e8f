/*
 * carry: the trace context of a job, stored as its metas traceparent and tracestate, so that every
 * store keeps it and every consumer and target receives it. Pure.
 */
#ifndef TARRY_TRACE_CARRY_H
#define TARRY_TRACE_CARRY_H

#include "job/job.h"
#include "trace/context.h"

enum {
    TRACE_META_BYTES_MAX = 128 + TRACE_STATE_BYTES_MAX
}; /* maximum size of all of it in a job's meta */

struct trace_carry {
    struct trace_context context;
    uint16_t state_bytes;
    char state[TRACE_STATE_BYTES_MAX]; /* `tracestate` */
};

/* Sets the context from the two headers. Returns false if there is no valid traceparent; then both
 * are ignored. A malformed `state` is ignored. */
bool trace_carry_set(struct trace_carry *carry, struct slice parent, struct slice state);
static inline struct slice trace_carry_state(const struct trace_carry *carry)
{
    return slice_make(carry->state, carry->state_bytes);
}

/* Returns true if the meta has a traceparent or a tracestate, valid or not. */
bool trace_meta_names(struct slice meta);
/* Finds the context in a job's meta. Returns false, and sets nothing, if it is missing or
 * malformed. `state` is the text as stored, or empty. */
bool trace_meta_find(struct slice meta, struct trace_context *context, struct slice *state);
/* Returns true if it is valid and its trace is sampled. */
bool trace_meta_is_sampled(struct slice meta);
/* Returns the text of the job's traceparent, valid or not; `at` is NULL if it is missing. */
struct slice trace_meta_parent(struct slice meta);
/* Returns the time of the push; 0 if it was not recorded. */
int64_t trace_meta_pushed_us(struct slice meta);

/* Adds the context to the meta of a push. A meta with its own context keeps that. If there is no
 * room, the job has no context: a push never fails because of its trace. Returns true if the job
 * has the context. */
bool trace_meta_add(struct buffer *meta, const struct trace_carry *carry);
/* Appends the meta with its traceparent replaced by `context`. */
void trace_meta_renew(struct slice meta, const struct trace_context *context, struct buffer *out);
/* Adds the time of the push to the meta, if there is room. */
void trace_meta_add_pushed(struct buffer *meta, int64_t pushed_us);

#endif
