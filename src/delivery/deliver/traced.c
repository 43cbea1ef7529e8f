#include "deliver/traced.h"

#include <stdlib.h>
#include <strings.h>

struct traced {
    struct tracer *tracer;
    struct trace_span *span; /* NULL if ended */
    struct job job;
    struct buffer meta;
};

static bool is_http(struct slice endpoint)
{
    return endpoint.len > 4 && strncasecmp(endpoint.at, "http", 4) == 0;
}

static struct traced *traced_make(struct tracer *tracer, struct trace_span *span,
                                  const struct job *job)
{
    struct traced *traced = malloc(sizeof *traced);
    if (!traced) {
        trace_span_free(span);
        return NULL;
    }
    *traced = (struct traced){.tracer = tracer, .span = span, .job = *job};
    buffer_init(&traced->meta, job->meta.len + TRACE_META_BYTES_MAX);
    trace_meta_renew(job->meta, &span->self, &traced->meta);
    if (!traced->meta.failed)
        traced->job.meta = buffer_slice(&traced->meta);
    return traced;
}

struct traced *traced_new(struct tracer *tracer, const struct target_message *message,
                          struct slice endpoint)
{
    if (!tracer || !message->job->meta.len)
        return NULL;
    struct trace_span *span =
        tracer_delivery(tracer, is_http(endpoint) ? TRACE_CALLBACK : TRACE_PUBLISH, message->job);
    if (!span)
        return NULL;
    trace_span_set_place(span, endpoint);
    return traced_make(tracer, span, message->job);
}

void traced_free(struct traced *traced)
{
    if (!traced)
        return;
    trace_span_free(traced->span);
    buffer_fini(&traced->meta);
    free(traced);
}

const struct job *traced_job(const struct traced *traced)
{
    return &traced->job;
}

void traced_sent(struct traced *traced)
{
    tracer_sent(traced->tracer, traced->span, &traced->job);
}

void traced_end(struct traced *traced, const struct target_report *report)
{
    static const char *const outcomes[] = {[TARGET_DONE] = "acked",
                                           [TARGET_FAILED] = "nacked",
                                           [TARGET_REFUSED] = "refused",
                                           [TARGET_UNSENT] = "returned"};
    struct trace_span *span = traced->span;
    span->code = report->code;
    if (report->error[0])
        trace_span_set_error(span, slice_of(report->error));
    tracer_end(traced->tracer, span, outcomes[report->outcome], report->outcome != TARGET_DONE);
    traced->span = NULL;
}
