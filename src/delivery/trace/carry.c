#include "trace/carry.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

bool trace_carry_set(struct trace_carry *carry, struct slice parent, struct slice state)
{
    struct buffer members;
    *carry = (struct trace_carry){0};
    if (!trace_parent_parse(parent, &carry->context))
        return false;
    buffer_init(&members, TRACE_STATE_BYTES_MAX + 1);
    if (state.len && trace_state_add(state, &members) && members.len) {
        memcpy(carry->state, members.at, members.len);
        carry->state_bytes = (uint16_t)members.len;
    }
    buffer_fini(&members);
    return true;
}

bool trace_meta_names(struct slice meta)
{
    return meta.len && (job_meta_find(meta, slice_of(JOB_META_TRACEPARENT)).at ||
                        job_meta_find(meta, slice_of(JOB_META_TRACESTATE)).at);
}

struct slice trace_meta_parent(struct slice meta)
{
    return job_meta_find(meta, slice_of(JOB_META_TRACEPARENT));
}

bool trace_meta_find(struct slice meta, struct trace_context *context, struct slice *state)
{
    struct slice parent =
        meta.len ? job_meta_find(meta, slice_of(JOB_META_TRACEPARENT)) : (struct slice){0};
    if (!parent.at || !trace_parent_parse(parent, context))
        return false;
    *state = job_meta_find(meta, slice_of(JOB_META_TRACESTATE));
    return true;
}

bool trace_meta_is_sampled(struct slice meta)
{
    struct trace_context context;
    struct slice state;
    return trace_meta_find(meta, &context, &state) && context.is_sampled;
}

int64_t trace_meta_pushed_us(struct slice meta)
{
    uint64_t pushed_us = 0;
    struct slice value = job_meta_find(meta, slice_of(JOB_META_PUSHED));
    return value.at && text_parse_u64(value, INT64_MAX, &pushed_us) ? (int64_t)pushed_us : 0;
}

bool trace_meta_add(struct buffer *meta, const struct trace_carry *carry)
{
    char parent[TRACE_PARENT_BYTES];
    if (trace_meta_names(buffer_slice(meta)))
        return false;
    trace_parent_emit(&carry->context, parent);
    if (job_meta_add(meta, slice_of(JOB_META_TRACEPARENT), slice_make(parent, sizeof parent)) !=
        JOB_META_OK)
        return false;
    if (carry->state_bytes)
        (void)job_meta_add(meta, slice_of(JOB_META_TRACESTATE), trace_carry_state(carry));
    return true;
}

void trace_meta_renew(struct slice meta, const struct trace_context *context, struct buffer *out)
{
    char parent[TRACE_PARENT_BYTES];
    struct slice name, value;
    trace_parent_emit(context, parent);
    for (size_t at = 0; job_meta_next(meta, &at, &name, &value);) {
        if (slice_is(name, JOB_META_TRACEPARENT))
            value = slice_make(parent, sizeof parent);
        buffer_append_slice(out, name);
        buffer_append_byte(out, '\0');
        buffer_append_slice(out, value);
        buffer_append_byte(out, '\0');
    }
}

void trace_meta_add_pushed(struct buffer *meta, int64_t pushed_us)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRId64, pushed_us);
    (void)job_meta_add(meta, slice_of(JOB_META_PUSHED), slice_make(text, (size_t)len));
}
