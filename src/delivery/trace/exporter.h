/*
 * exporter: sends spans to a collector with OTLP over HTTP, in batches, on its own thread.
 *
 * Guarantees: adding a span never waits for the collector. The number of waiting spans is limited;
 * further ones are dropped and counted. Without waiting spans there are no wake-ups. A batch is
 * sent when it is full or its first span is EXPORTER_DELAY_MS old. If the collector is temporarily
 * unavailable (no connection, 429, 502, 503, 504), the batch is retried for EXPORTER_TIMEOUT_MS,
 * with the delay of Retry-After or increasing delays. Any other answer is final.
 *
 * trace_exporter_add may be called on any thread. The collector's certificate is verified;
 * redirects are not followed, and proxies from the environment are not used.
 */
#ifndef TARRY_TRACE_EXPORTER_H
#define TARRY_TRACE_EXPORTER_H

#include "trace/otlp.h"

enum {
    EXPORTER_BATCH_MAX = 512,
    EXPORTER_WAITING_MAX = 4096,
    EXPORTER_DELAY_MS = 5000,
    EXPORTER_ATTEMPT_MS = 10 * 1000,
    EXPORTER_TIMEOUT_MS = 60 * 1000,
    EXPORTER_HEADERS_MAX = 16
};

struct trace_exporter;

struct trace_exporter_options { /* the texts outlive the exporter */
    const char *url;            /* complete, with its path */
    const char *ca_file;        /* empty: the system's CAs */
    const char *const *headers; /* "Name: value", terminated by NULL */
    struct otlp_resource resource;
    /* Called on the exporter's thread at the time set by trace_exporter_wake_by. NULL: never. */
    void (*woken)(void *ctx);
    void *ctx;
};

struct trace_exporter_counts {
    uint64_t sent, dropped,
        failed; /* spans; dropped: there was no room; failed: the collector did not accept them */
    uint64_t failures; /* requests without a successful answer */
};

/* Returns NULL without memory or a thread. */
struct trace_exporter *trace_exporter_new(const struct trace_exporter_options *options);
/* Takes ownership of the span in every case. */
void trace_exporter_add(struct trace_exporter *exporter, struct trace_span *span);
/* Counts a span that could not be stored until its end. */
void trace_exporter_count_dropped(struct trace_exporter *exporter);
/* Calls `woken` at that time at the latest (clock_awake_us). */
void trace_exporter_wake_by(struct trace_exporter *exporter, int64_t at_us);
void trace_exporter_read(struct trace_exporter *exporter, struct trace_exporter_counts *out);
/* Sends waiting spans for `timeout_ms` at most; does not wait for this. */
void trace_exporter_stop(struct trace_exporter *exporter, int64_t timeout_ms);
/* Waits for its end; if it was not stopped before, it ends immediately. Later spans are kept until
 * it is freed, and dropped. */
void trace_exporter_wait(struct trace_exporter *exporter);
void trace_exporter_free(struct trace_exporter *exporter);

#endif
