/*
 * tracer: makes spans of what happens to jobs whose trace is sampled, and has them exported: the face of this
 * room for those who handle jobs. In a build without traces, absent/traces.c stands in its place.
 *
 * Without a tracer (NULL) nothing of this is called, and a job costs nothing. With one, a job costs a look at
 * its meta unless its trace is sampled. A context that was given is obeyed: sampled where it says so. A trace
 * that begins here is sampled by the ratio.
 *
 * Spans of a job's trace:
 *   push      the request, a child of the caller's span
 *   wait      from the push to the delivery        } children of what the job carries: the push, or the
 *   take, callback, publish   until its outcome    } span that the job's meta named itself
 *
 * Any thread. Nothing here waits for a collector.
 */
#ifndef TARRY_TRACE_TRACER_H
#define TARRY_TRACE_TRACER_H

#include "base/metric.h"
#include "job/job.h"
#include "trace/carry.h"
#include "trace/span.h"

struct tracer;

enum { TRACER_ERROR_BYTES = 512, TRACER_SHARE_ALL = 1000000000 };

struct tracer_options {         /* texts outlive it */
    const char *endpoint;       /* http(s)://host:port[/path]; /v1/traces is added */
    const char *const *headers; /* see exporter.h */
    const char *ca_file;        /* empty: the system's */
    const char *service_name, *version;
    uint32_t share; /* of traces that begin here, out of TRACER_SHARE_ALL */
    bool
        store_is_shared; /* other servers hear answers too: a lease that ends unanswered here may be theirs */
};

/* Is it a base URL as OTLP wants it? False: `error` (TRACER_ERROR_BYTES) says what would be right. */
bool tracer_check_endpoint(const char *endpoint, char *error);
/* NULL: `error` says why. */
struct tracer *tracer_open(const struct tracer_options *options, char *error);
void tracer_emit_metrics(struct tracer *tracer, struct metric_page *page);
extern const struct metric tracer_metrics[];
/* Sends what there is, for so long at most; does not wait for that. */
void tracer_stop(struct tracer *tracer, int64_t patience_ms);
/* Waits for the end of that; what comes later goes nowhere. */
void tracer_wait(struct tracer *tracer);
/* NULL is fine. */
void tracer_close(struct tracer *tracer);

/* ---- pushes ---- */

/*
 * A push begins, with the caller's context, or with none (NULL). NULL: it is not sampled, or there is no
 * memory. Else what its jobs are to carry is span->self, and the caller says when it began. Ended by tracer_end, or freed by
 * trace_span_free.
 */
struct trace_span *tracer_push(struct tracer *tracer, const struct trace_context *parent,
                               struct slice state);
/* The span ends now. `outcome` lives for ever. */
void tracer_end(struct tracer *tracer, struct trace_span *span, const char *outcome, bool is_error);

/* ---- deliveries ---- */

/* A job goes to its endpoint. NULL: it is not sampled, or there is no memory. What goes along with the job is
 * span->self. Its wait is told by tracer_sent. */
struct trace_span *tracer_delivery(struct tracer *tracer, enum trace_operation operation,
                                   const struct job *job);
/* It has left: the wait is over. */
void tracer_sent(struct tracer *tracer, const struct trace_span *span, const struct job *job);

/* ---- takes ---- */

/* A consumer gets the job; due_ms and lease_until_ms are wall clock. */
void tracer_taken(struct tracer *tracer, const struct job *job, struct slice lease);
/* He says why he gives it back, or asks for more time, or is done with it. */
void tracer_lease_error(struct tracer *tracer, struct slice lease, struct slice error);
void tracer_lease_extended(struct tracer *tracer, struct slice lease, int64_t lease_until_ms);
void tracer_lease_ended(struct tracer *tracer, struct slice lease, const char *outcome,
                        bool is_error);

#endif
