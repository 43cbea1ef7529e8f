#include "trace/span.h"

#include <assert.h>
#include <stdlib.h>

const struct trace_operation_about *trace_operation_about(enum trace_operation operation)
{
    static const struct trace_operation_about table[] = {
        [TRACE_PUSH] = {"push", "send", TRACE_KIND_PRODUCER},
        [TRACE_WAIT] = {"wait", NULL, TRACE_KIND_INTERNAL},
        [TRACE_TAKE] = {"take", "process", TRACE_KIND_CONSUMER},
        [TRACE_CALLBACK] = {"callback", "send", TRACE_KIND_CLIENT},
        [TRACE_PUBLISH] = {"publish", "send", TRACE_KIND_PRODUCER},
    };
    assert(operation >= TRACE_PUSH && operation <= TRACE_PUBLISH);
    return &table[operation];
}

struct trace_span *trace_span_new(enum trace_operation operation,
                                  const struct trace_context *parent, struct slice state,
                                  uint64_t id)
{
    struct trace_span *span = malloc(sizeof *span);
    if (!span)
        return NULL;
    memset(span, 0, offsetof(struct trace_span, topic));
    span->operation = operation;
    span->self = *parent;
    span->self.span = id;
    span->parent = parent->span;
    if (state.len && state.len <= TRACE_STATE_BYTES_MAX)
        span->state = strndup(state.at, state.len);
    return span;
}

void trace_span_free(struct trace_span *span)
{
    if (!span)
        return;
    free(span->state);
    free(span->error);
    free(span->place);
    free(span);
}

static uint8_t copy_text(char *into, size_t bytes_max, struct slice text)
{
    size_t len = text.len < bytes_max ? text.len : bytes_max;
    if (len)
        memcpy(into, text.at, len);
    return (uint8_t)len;
}

void trace_span_set_topic(struct trace_span *span, struct slice topic)
{
    span->topic_bytes = copy_text(span->topic, sizeof span->topic, topic);
}

void trace_span_set_id(struct trace_span *span, struct slice id)
{
    span->id_bytes = copy_text(span->id, sizeof span->id, id);
}

static void set_text(char **text, struct slice value)
{
    free(*text);
    *text = value.len ? strndup(value.at, value.len) : NULL;
}

void trace_span_set_error(struct trace_span *span, struct slice error)
{
    size_t len = error.len < JOB_ERROR_BYTES_MAX ? error.len : JOB_ERROR_BYTES_MAX;
    set_text(&span->error, slice_make(error.at, len));
}

void trace_span_set_place(struct trace_span *span, struct slice place)
{
    set_text(&span->place, place);
}

void trace_span_set_job(struct trace_span *span, const struct job *job)
{
    trace_span_set_topic(span, job->topic);
    trace_span_set_id(span, job->id);
    span->attempt = job->attempt;
    span->body_bytes = job->body.len;
    span->due_us = job->due_ms * 1000;
}
