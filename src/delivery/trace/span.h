/*
 * span: a period in the life of a job, as shown in a trace. Pure.
 *
 * The code that creates a span owns it until it is given away (exporter.h). Times are microseconds
 * of the wall clock. Long texts are truncated; a text for which there is no memory is omitted.
 */
#ifndef TARRY_TRACE_SPAN_H
#define TARRY_TRACE_SPAN_H

#include "trace/carry.h"

/* Rows of the table in span.c. */
enum trace_operation {
    TRACE_PUSH = 1, /* a push request, until its answer */
    TRACE_WAIT,     /* a waiting job: since its push, or since its last attempt */
    TRACE_TAKE,     /* a job leased to a consumer, until the answer or the end of the lease */
    TRACE_CALLBACK, /* a job sent to an HTTP endpoint, until the answer */
    TRACE_PUBLISH   /* a job sent to a broker */
};

enum trace_kind { /* with the numbers of OTLP */
                  TRACE_KIND_INTERNAL = 1,
                  TRACE_KIND_CLIENT = 3,
                  TRACE_KIND_PRODUCER = 4,
                  TRACE_KIND_CONSUMER = 5
};

struct trace_operation_about {
    const char *name;
    const char *type; /* messaging.operation.type; NULL if the conventions do not define it */
    enum trace_kind kind;
};

const struct trace_operation_about *trace_operation_about(enum trace_operation operation);

struct trace_span {
    struct trace_span *next; /* for the owner */
    enum trace_operation operation;
    struct trace_context self;
    uint64_t parent; /* 0 for the first span of a trace */
    int64_t start_us, end_us;
    int64_t due_us;      /* 0 if not set */
    uint64_t body_bytes; /* of a job */
    uint32_t attempt;    /* number of the attempt, or 0 */
    uint32_t jobs;       /* of a batch; 0 if it is not a batch */
    uint32_t code;       /* HTTP status of an endpoint, or 0 */
    bool is_error;
    const char *outcome; /* "acked"; a static string; NULL if not set */
    char *state;         /* `tracestate`, or NULL */
    char *error;         /* may be NULL */
    char *place;         /* destination: an origin, or NULL */
    uint8_t topic_bytes, id_bytes;
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
};

/* Creates a child of `parent`; if `parent->span` is 0, it is the first span of that trace. `id` is
 * its own ID. Returns NULL when out of memory. */
struct trace_span *trace_span_new(enum trace_operation operation,
                                  const struct trace_context *parent, struct slice state,
                                  uint64_t id);
void trace_span_free(struct trace_span *span);

void trace_span_set_topic(struct trace_span *span, struct slice topic);
void trace_span_set_id(struct trace_span *span, struct slice id);
void trace_span_set_error(struct trace_span *span, struct slice error);
void trace_span_set_place(struct trace_span *span, struct slice place);
/* Copies the attributes of the job. */
void trace_span_set_job(struct trace_span *span, const struct job *job);

#endif
