#include "trace/tracer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/url.h"
#include "trace/exporter.h"
#include "trace/lease_table.h"

#include <stdio.h>
#include <stdlib.h>

#define TRACES_PATH "/v1/traces"

enum {
    URL_BYTES = 1100,
    INSTANCE_BYTES = 37,
    SWEEP_MS_MIN = 1000 /* minimum interval between searches for ended leases */
};

struct tracer {
    struct trace_exporter *exporter;
    struct lease_table leases;
    /* a new trace is sampled if the low half of its ID is below this; 0: never */
    uint64_t root_below;
    bool samples_all, store_is_shared;
    char url[URL_BYTES], instance[INSTANCE_BYTES];
};

/* ---- ids ---- */

/* Returns a random ID from a generator per thread, so that threads need not wait. */
static uint64_t new_id(void)
{
    static _Thread_local struct random random;
    uint64_t id = 0;
    if (!random.state)
        random.state = random_u64();
    while (!id)
        id = random_next(&random);
    return id;
}

/* ---- pushes ---- */

/* Begins a new trace. Returns false if it is not sampled. */
static bool begin_trace(const struct tracer *tracer, struct trace_context *out)
{
    uint64_t low = new_id();
    if (!tracer->samples_all && low >= tracer->root_below)
        return false;
    *out = (struct trace_context){.trace_high = new_id(), .trace_low = low, .is_sampled = true};
    return true;
}

struct trace_span *tracer_push(struct tracer *tracer, const struct trace_context *parent,
                               struct slice state)
{
    struct trace_context context;
    if (parent)
        context = *parent;
    else if (!begin_trace(tracer, &context))
        return NULL;
    return context.is_sampled ? trace_span_new(TRACE_PUSH, &context, state, new_id()) : NULL;
}

void tracer_end(struct tracer *tracer, struct trace_span *span, const char *outcome, bool is_error)
{
    int64_t now_us = clock_wall_us();
    span->end_us = now_us > span->start_us ? now_us : span->start_us;
    span->outcome = outcome;
    span->is_error = is_error;
    trace_exporter_add(tracer->exporter, span);
}

/* ---- deliveries ---- */

/* Begins a span of a job now, as a child of the job's context. */
static struct trace_span *begin_of_job(enum trace_operation operation, const struct job *job)
{
    struct trace_context context;
    struct slice state;
    struct trace_span *span = NULL;
    if (job->meta.len && trace_meta_find(job->meta, &context, &state) && context.is_sampled)
        span = trace_span_new(operation, &context, state, new_id());
    if (span) {
        trace_span_set_job(span, job);
        span->start_us = clock_wall_us();
    }
    return span;
}

/* Returns the time since when the job waited: its push, or the end of its last attempt; 0 if
 * unknown. */
static int64_t waits_since_us(const struct job *job)
{
    struct job_attempt attempt;
    int64_t since_ms = 0;
    if (job->attempt <= 1)
        return trace_meta_pushed_us(job->meta);
    for (size_t at = 0; job_history_next(job->history, &at, &attempt);)
        since_ms = attempt.started_ms + attempt.duration_ms;
    return since_ms * 1000;
}

void tracer_sent(struct tracer *tracer, const struct trace_span *span, const struct job *job)
{
    int64_t since_us = waits_since_us(job);
    struct trace_context parent = span->self;
    parent.span = span->parent;
    if (since_us <= 0 || since_us > span->start_us)
        return;
    struct trace_span *wait = trace_span_new(
        TRACE_WAIT, &parent, span->state ? slice_of(span->state) : (struct slice){0}, new_id());
    if (!wait)
        return;
    trace_span_set_job(wait, job);
    wait->start_us = since_us;
    wait->end_us = span->start_us;
    trace_exporter_add(tracer->exporter, wait);
}

struct trace_span *tracer_delivery(struct tracer *tracer, enum trace_operation operation,
                                   const struct job *job)
{
    (void)tracer;
    return begin_of_job(operation, job);
}

/* ---- takes ---- */

void tracer_taken(struct tracer *tracer, const struct job *job, struct slice lease)
{
    struct trace_span *span = begin_of_job(TRACE_TAKE, job);
    if (!span)
        return;
    tracer_sent(tracer, span, job);
    int64_t ends_us = job->lease_until_ms * 1000, left_us = ends_us - span->start_us;
    if (!lease_table_add(&tracer->leases, lease, ends_us, span)) {
        trace_span_free(span);
        trace_exporter_count_dropped(tracer->exporter);
        return;
    }
    left_us = left_us > SWEEP_MS_MIN * 1000LL ? left_us : SWEEP_MS_MIN * 1000LL;
    trace_exporter_wake_by(tracer->exporter, clock_awake_us() + left_us);
}

void tracer_lease_error(struct tracer *tracer, struct slice lease, struct slice error)
{
    if (!lease_table_is_empty(&tracer->leases))
        lease_table_note_error(&tracer->leases, lease, error);
}

void tracer_lease_extended(struct tracer *tracer, struct slice lease, int64_t lease_until_ms)
{
    if (!lease_table_is_empty(&tracer->leases))
        lease_table_extend(&tracer->leases, lease, lease_until_ms * 1000);
}

void tracer_lease_ended(struct tracer *tracer, struct slice lease, const char *outcome,
                        bool is_error)
{
    struct trace_span *span =
        lease_table_is_empty(&tracer->leases) ? NULL : lease_table_take(&tracer->leases, lease);
    if (span)
        tracer_end(tracer, span, outcome, is_error);
}

/* Ends the spans of leases that were not answered here in time; on the exporter's thread. */
static void on_woken(void *ctx)
{
    struct tracer *tracer = ctx;
    int64_t now_us = clock_wall_us(), next_us;
    struct trace_span *span = lease_table_take_ended(&tracer->leases, now_us, &next_us);
    while (span) {
        struct trace_span *next = span->next;
        span->is_error = !tracer->store_is_shared;
        span->outcome = tracer->store_is_shared ? "unanswered" : "lease_ended";
        trace_exporter_add(tracer->exporter, span);
        span = next;
    }
    if (next_us == INT64_MAX)
        return;
    int64_t left_us = next_us - now_us;
    left_us = left_us > SWEEP_MS_MIN * 1000LL ? left_us : SWEEP_MS_MIN * 1000LL;
    trace_exporter_wake_by(tracer->exporter, clock_awake_us() + left_us);
}

/* ---- life ---- */

bool tracer_check_endpoint(const char *endpoint, char *error)
{
    struct url url;
    enum url_fault fault = url_parse(slice_of(endpoint), &url);
    if (fault != URL_OK)
        return error_text(error, TRACER_ERROR_BYTES, "bad '--otlp', %s", url_fault_text(fault));
    if (!url_scheme_is(&url, "http") && !url_scheme_is(&url, "https"))
        return error_text(error, TRACER_ERROR_BYTES,
                          "bad '--otlp', give a URL of http or https, such as "
                          "http://collector:4318");
    if (url.has_user)
        return error_text(error, TRACER_ERROR_BYTES,
                          "bad '--otlp', it contains a password, which lists of processes show, "
                          "give the header in --otlp-headers-file");
    if (url.host_count != 1 || url.has_query)
        return error_text(error, TRACER_ERROR_BYTES,
                          "bad '--otlp', give one host and no query: " TRACES_PATH
                          " is added to its path");
    return true;
}

/* Appends the path to a base URL as in the specification. */
static void join_url(const char *endpoint, char out[URL_BYTES])
{
    size_t len = strlen(endpoint);
    while (len > 0 && endpoint[len - 1] == '/')
        len--;
    snprintf(out, URL_BYTES, "%.*s" TRACES_PATH, (int)len, endpoint);
}

/* Writes a UUID of version 4 (RFC 9562), as the conventions require. */
static void make_instance(char out[INSTANCE_BYTES])
{
    uint64_t high = random_u64(), low = random_u64();
    snprintf(out, INSTANCE_BYTES, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xfff),
             (unsigned)(low >> 48 & 0x3fff) | 0x8000u,
             (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

struct tracer *tracer_open(const struct tracer_options *options, char *error)
{
    struct tracer *tracer;
    if (!tracer_check_endpoint(options->endpoint, error))
        return NULL;
    tracer = calloc(1, sizeof *tracer);
    if (!tracer) {
        error_write(error, TRACER_ERROR_BYTES, "out of memory");
        return NULL;
    }
    lease_table_init(&tracer->leases);
    join_url(options->endpoint, tracer->url);
    make_instance(tracer->instance);
    tracer->samples_all = options->share >= TRACER_SHARE_ALL;
    tracer->root_below = options->share * (UINT64_MAX / TRACER_SHARE_ALL);
    tracer->store_is_shared = options->store_is_shared;
    const struct trace_exporter_options exporter = {
        .url = tracer->url,
        .ca_file = options->ca_file,
        .headers = options->headers,
        .resource = {.service_name = options->service_name,
                     .version = options->version,
                     .instance = tracer->instance},
        .woken = on_woken,
        .ctx = tracer};
    tracer->exporter = trace_exporter_new(&exporter);
    if (tracer->exporter)
        return tracer;
    error_write(error, TRACER_ERROR_BYTES, "cannot export traces, out of memory or threads");
    tracer_close(tracer);
    return NULL;
}

void tracer_stop(struct tracer *tracer, int64_t timeout_ms)
{
    trace_exporter_stop(tracer->exporter, timeout_ms);
}

void tracer_wait(struct tracer *tracer)
{
    trace_exporter_wait(tracer->exporter);
}

void tracer_close(struct tracer *tracer)
{
    if (!tracer)
        return;
    trace_exporter_free(tracer->exporter);
    lease_table_fini(&tracer->leases);
    free(tracer);
}

enum { SPANS, FAILURES };

void tracer_emit_metrics(struct tracer *tracer, struct metric_page *page)
{
    struct trace_exporter_counts counts;
    if (!tracer)
        return;
    trace_exporter_read(tracer->exporter, &counts);
    metric_begin(page, &tracer_metrics[SPANS]);
    metric_sample(page, METRIC_LABELS(slice_of("sent")), counts.sent);
    metric_sample(page, METRIC_LABELS(slice_of("dropped")), counts.dropped);
    metric_sample(page, METRIC_LABELS(slice_of("failed")), counts.failed);
    metric_write(page, &tracer_metrics[FAILURES], counts.failures);
}

const struct metric tracer_metrics[] = {
    [SPANS] = {.name = "tarry_trace_spans_total",
               .type = PROMETHEUS_COUNTER,
               .labels = {"outcome"},
               .help = "Spans, by outcome.",
               .meaning = "`dropped`: no room; `failed`: not accepted. Check the collector, or "
                          "sample less. Neither delays jobs.",
               .when = "with `--otlp`"},
    [FAILURES] = {.name = "tarry_trace_export_failures_total",
                  .type = PROMETHEUS_COUNTER,
                  .help = "Failed requests to the collector.",
                  .meaning = "Rises: the collector cannot be reached, is busy, or rejects spans; "
                             "the log has the reason "
                             "(`traces not exported`).",
                  .when = "with `--otlp`"},
    METRIC_END};
