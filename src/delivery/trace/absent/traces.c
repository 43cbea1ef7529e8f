/* Stubs for a build without traces: --otlp is refused, so there is never a tracer, and the
 * functions for spans are never called. */
#include "base/feature.h"
#include "trace/tracer.h"

#include <stdlib.h>

bool tracer_check_endpoint(const char *endpoint, char *error)
{
    (void)endpoint;
    return feature_missing("traces", error, TRACER_ERROR_BYTES);
}

struct tracer *tracer_open(const struct tracer_options *options, char *error)
{
    (void)tracer_check_endpoint(options->endpoint, error);
    return NULL;
}

const struct metric tracer_metrics[] = {METRIC_END};

void tracer_emit_metrics(struct tracer *tracer, struct metric_page *page)
{
    (void)tracer;
    (void)page;
}

void tracer_close(struct tracer *tracer)
{
    (void)tracer;
}

/* The only span without a tracer is NULL. */
void trace_span_free(struct trace_span *span)
{
    (void)span;
}

/* ---- never called without a tracer ---- */

void trace_span_set_topic(struct trace_span *span, struct slice topic)
{
    (void)span;
    (void)topic;
    abort();
}

void trace_span_set_id(struct trace_span *span, struct slice id)
{
    (void)span;
    (void)id;
    abort();
}

void trace_span_set_error(struct trace_span *span, struct slice error)
{
    (void)span;
    (void)error;
    abort();
}

void trace_span_set_place(struct trace_span *span, struct slice place)
{
    (void)span;
    (void)place;
    abort();
}

void tracer_stop(struct tracer *tracer, int64_t timeout_ms)
{
    (void)tracer;
    (void)timeout_ms;
    abort();
}

void tracer_wait(struct tracer *tracer)
{
    (void)tracer;
    abort();
}

struct trace_span *tracer_push(struct tracer *tracer, const struct trace_context *parent,
                               struct slice state)
{
    (void)tracer;
    (void)parent;
    (void)state;
    abort();
}

void tracer_end(struct tracer *tracer, struct trace_span *span, const char *outcome, bool is_error)
{
    (void)tracer;
    (void)span;
    (void)outcome;
    (void)is_error;
    abort();
}

struct trace_span *tracer_delivery(struct tracer *tracer, enum trace_operation operation,
                                   const struct job *job)
{
    (void)tracer;
    (void)operation;
    (void)job;
    abort();
}

void tracer_sent(struct tracer *tracer, const struct trace_span *span, const struct job *job)
{
    (void)tracer;
    (void)span;
    (void)job;
    abort();
}

void tracer_taken(struct tracer *tracer, const struct job *job, struct slice lease)
{
    (void)tracer;
    (void)job;
    (void)lease;
    abort();
}

void tracer_lease_error(struct tracer *tracer, struct slice lease, struct slice error)
{
    (void)tracer;
    (void)lease;
    (void)error;
    abort();
}

void tracer_lease_extended(struct tracer *tracer, struct slice lease, int64_t lease_until_ms)
{
    (void)tracer;
    (void)lease;
    (void)lease_until_ms;
    abort();
}

void tracer_lease_ended(struct tracer *tracer, struct slice lease, const char *outcome,
                        bool is_error)
{
    (void)tracer;
    (void)lease;
    (void)outcome;
    (void)is_error;
    abort();
}
