/* The context of a trace: traceparent on the first line, tracestate behind it. A context that was read is written
 * unchanged, and a job's meta carries it from one end to the other. */
#include "trace/carry.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool same(const struct trace_context *a, const struct trace_context *b)
{
    return a->trace_high == b->trace_high && a->trace_low == b->trace_low && a->span == b->span &&
           a->is_sampled == b->is_sampled;
}

static void check_parent(struct slice text)
{
    struct trace_context read, again;
    char written[TRACE_PARENT_BYTES];
    if (!trace_parent_parse(text, &read))
        return;
    CLAIM("it names a trace and a span", (read.trace_high | read.trace_low) && read.span);
    trace_parent_emit(&read, written);
    CLAIM("what is written can be read",
          trace_parent_parse(slice_make(written, sizeof written), &again));
    CLAIM("it is the same", same(&read, &again));
    CLAIM("ids stay as they came", memcmp(written + 3, text.at + 3, TRACE_PARENT_BYTES - 5) == 0);
}

static void check_state(struct slice text)
{
    struct buffer once, twice;
    buffer_init(&once, TRACE_STATE_BYTES_MAX + 1);
    buffer_init(&twice, TRACE_STATE_BYTES_MAX + 1);
    bool is_good = trace_state_add(text, &once);
    CLAIM("there is a limit", once.len <= TRACE_STATE_BYTES_MAX);
    CLAIM("nothing is left of a bad one", is_good || once.len == 0);
    CLAIM("it can be read again", trace_state_add(buffer_slice(&once), &twice));
    CLAIM("it is the same", slice_equals(buffer_slice(&once), buffer_slice(&twice)));
    CLAIM("no key twice", once.len == 0 || !trace_state_add(buffer_slice(&once), &twice));
    buffer_fini(&once);
    buffer_fini(&twice);
}

static void check_carry(struct slice parent, struct slice state)
{
    struct trace_carry carry;
    struct trace_context context;
    struct buffer meta;
    struct slice found;
    if (!trace_carry_set(&carry, parent, state))
        return;
    buffer_init(&meta, JOB_META_BYTES_MAX);
    CLAIM("an empty meta has room", trace_meta_add(&meta, &carry));
    CLAIM("it takes what is reserved for it at most", meta.len <= TRACE_META_BYTES_MAX);
    CLAIM("it comes out as it went in", trace_meta_find(buffer_slice(&meta), &context, &found) &&
                                            same(&context, &carry.context) &&
                                            slice_equals(found, trace_carry_state(&carry)));
    CLAIM("the first one stays", !trace_meta_add(&meta, &carry));
    buffer_fini(&meta);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const uint8_t *end = len ? memchr(bytes, '\n', len) : NULL;
    size_t parent_bytes = end ? (size_t)(end - bytes) : len;
    struct slice parent = slice_make(bytes, parent_bytes), state = {0};
    if (end)
        state = slice_make(end + 1, len - parent_bytes - 1);
    check_parent(parent);
    check_state(state);
    check_carry(parent, state);
    return 0;
}
