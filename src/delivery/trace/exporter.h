/*
 * exporter: sends spans to a collector by OTLP over HTTP, in batches, on a thread of its own.
 *
 * Promises: whoever gives a span never waits for the collector; what waits is bounded, and what comes
 * beyond it is dropped and counted; where nothing waits nothing wakes up. A batch leaves once it is full
 * or its first span is EXPORTER_DELAY_MS old. One that the collector cannot take now (no connection,
 * 429, 502, 503, 504) is tried again, as its Retry-After says or later and later, for
 * EXPORTER_PATIENCE_MS; any other answer is final.
 *
 * trace_exporter_add may be called on any thread. The collector's certificate is verified; redirects are not
 * followed, and no proxy of the environment is used.
 */
#ifndef TARRY_TRACE_EXPORTER_H
#define TARRY_TRACE_EXPORTER_H

#include "trace/otlp.h"

enum {
    EXPORTER_BATCH_MAX = 512,
    EXPORTER_WAITING_MAX = 4096,
    EXPORTER_DELAY_MS = 5000,
    EXPORTER_ATTEMPT_MS = 10 * 1000,
    EXPORTER_PATIENCE_MS = 60 * 1000,
    EXPORTER_HEADERS_MAX = 16
};

struct trace_exporter;

struct trace_exporter_options { /* texts outlive it */
    const char *url;            /* whole, with its path */
    const char *ca_file;        /* empty: the system's */
    const char *const *headers; /* "Name: value", ended by NULL */
    struct otlp_resource resource;
    /* On the exporter's thread, by when trace_exporter_wake_by says. NULL: never. */
    void (*woken)(void *ctx);
    void *ctx;
};

struct trace_exporter_counts {
    uint64_t sent, dropped,
        failed;        /* spans; dropped: there was no room; failed: nobody took them */
    uint64_t failures; /* requests without a good answer */
};

/* NULL: no memory or no thread. */
struct trace_exporter *trace_exporter_new(const struct trace_exporter_options *options);
/* Takes the span over, whatever becomes of it. */
void trace_exporter_add(struct trace_exporter *exporter, struct trace_span *span);
/* A span that nobody could keep until its end. */
void trace_exporter_count_dropped(struct trace_exporter *exporter);
/* `woken` is called by then (clock_awake_us). */
void trace_exporter_wake_by(struct trace_exporter *exporter, int64_t at_us);
void trace_exporter_read(struct trace_exporter *exporter, struct trace_exporter_counts *out);
/* Sends what waits, for `patience_ms` at most; does not wait for that. */
void trace_exporter_stop(struct trace_exporter *exporter, int64_t patience_ms);
/* Waits for its end. Stopped before, or it ends at once. What comes later is kept until it is freed, and dropped. */
void trace_exporter_wait(struct trace_exporter *exporter);
void trace_exporter_free(struct trace_exporter *exporter);

#endif
