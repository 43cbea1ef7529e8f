/*
 * tracer: creates spans for jobs whose trace is sampled, and exports them. It is the interface of
 * this directory for code that handles jobs. In a build without traces, absent/traces.c replaces
 * it.
 *
 * Without a tracer (NULL) these functions are not called, and jobs have no extra cost. With a
 * tracer, the cost per job is a check of its meta unless its trace is sampled. A received context
 * decides whether its trace is sampled. New traces are sampled by the ratio.
 *
 * Spans of a job's trace:
 *   push      the request, a child of the caller's span
 *   wait      from the push to the delivery        } children of the context in the job: the push,
 *   take, callback, publish   until its outcome    } or the span that the job's meta contained
 *
 * Any thread. No function waits for a collector.
 */
#ifndef TARRY_TRACE_TRACER_H
#define TARRY_TRACE_TRACER_H

#include "base/metric.h"
#include "job/job.h"
#include "trace/carry.h"
#include "trace/span.h"

struct tracer;

enum { TRACER_ERROR_BYTES = 512, TRACER_SHARE_ALL = 1000000000 };

struct tracer_options {         /* the texts outlive the tracer */
    const char *endpoint;       /* http(s)://host:port[/path]; /v1/traces is appended */
    const char *const *headers; /* see exporter.h */
    const char *ca_file;        /* empty: the system's CAs */
    const char *service_name, *version;
    uint32_t share; /* share of new traces, out of TRACER_SHARE_ALL */
    /* other servers also receive answers: a lease that ends here without an answer may have been
     * answered there */
    bool store_is_shared;
};

/* Checks that it is a base URL as in OTLP. Returns false with `error` (TRACER_ERROR_BYTES), which
 * names a valid form. */
bool tracer_check_endpoint(const char *endpoint, char *error);
/* Returns NULL with `error` on failure. */
struct tracer *tracer_open(const struct tracer_options *options, char *error);
void tracer_emit_metrics(struct tracer *tracer, struct metric_page *page);
extern const struct metric tracer_metrics[];
/* Sends the pending spans for at most that long; does not wait for this. */
void tracer_stop(struct tracer *tracer, int64_t timeout_ms);
/* Waits until that has ended; later spans are discarded. */
void tracer_wait(struct tracer *tracer);
/* Accepts NULL. */
void tracer_close(struct tracer *tracer);

/* ---- pushes ---- */

/*
 * Begins a push with the client's context, which may be NULL. Returns NULL if it is not sampled or
 * when out of memory. Otherwise span->self is the context for its jobs, and the calling code sets
 * its start. End it with tracer_end, or free it with trace_span_free.
 */
struct trace_span *tracer_push(struct tracer *tracer, const struct trace_context *parent,
                               struct slice state);
/* Ends the span now. `outcome` is a static string. */
void tracer_end(struct tracer *tracer, struct trace_span *span, const char *outcome, bool is_error);

/* ---- deliveries ---- */

/* Begins the delivery of a job to its endpoint. Returns NULL if it is not sampled or when out of
 * memory. span->self is the context to send with the job. tracer_sent reports its wait. */
struct trace_span *tracer_delivery(struct tracer *tracer, enum trace_operation operation,
                                   const struct job *job);
/* Records that it was sent, which ends the wait. */
void tracer_sent(struct tracer *tracer, const struct trace_span *span, const struct job *job);

/* ---- takes ---- */

/* Records that a consumer receives the job; due_ms and lease_until_ms are wall clock. */
void tracer_taken(struct tracer *tracer, const struct job *job, struct slice lease);
/* Record the reason for giving it back, an extension of the lease, or its end. */
void tracer_lease_error(struct tracer *tracer, struct slice lease, struct slice error);
void tracer_lease_extended(struct tracer *tracer, struct slice lease, int64_t lease_until_ms);
void tracer_lease_ended(struct tracer *tracer, struct slice lease, const char *outcome,
                        bool is_error);

#endif
