/*
 * span: a part of what happened to a job, from then to then, as a trace shows it. Pure.
 *
 * It belongs to whoever makes it until it is given away (exporter.h). Times are microseconds of the wall
 * clock. Texts are cut where they are too long; a text for which there is no memory is left out.
 */
#ifndef TARRY_TRACE_SPAN_H
#define TARRY_TRACE_SPAN_H

#include "trace/carry.h"

/* Rows of the table in span.c. */
enum trace_operation {
    TRACE_PUSH = 1, /* a request that pushes, until its answer */
    TRACE_WAIT,     /* a job that waits: since it was pushed, or since its last attempt */
    TRACE_TAKE,     /* a job with a consumer, until his answer or the end of the lease */
    TRACE_CALLBACK, /* a job on its way to an endpoint of HTTP, until the answer */
    TRACE_PUBLISH   /* to a broker */
};

enum trace_kind { /* as OTLP numbers them */
                  TRACE_KIND_INTERNAL = 1,
                  TRACE_KIND_CLIENT = 3,
                  TRACE_KIND_PRODUCER = 4,
                  TRACE_KIND_CONSUMER = 5
};

struct trace_operation_about {
    const char *name;
    const char *type; /* messaging.operation.type; NULL: none that the conventions know */
    enum trace_kind kind;
};

const struct trace_operation_about *trace_operation_about(enum trace_operation operation);

struct trace_span {
    struct trace_span *next; /* of whoever has it */
    enum trace_operation operation;
    struct trace_context self;
    uint64_t parent; /* 0: it is the first of its trace */
    int64_t start_us, end_us;
    int64_t due_us;      /* 0: nothing to say */
    uint64_t body_bytes; /* of a job */
    uint32_t attempt;    /* 0: none */
    uint32_t jobs;       /* of a batch; 0: it is no batch */
    uint32_t code;       /* HTTP status of an endpoint; 0: none */
    bool is_error;
    const char *outcome; /* "acked"; lives for ever; NULL: nothing to say */
    char *state;         /* `tracestate`; NULL: none */
    char *error;         /* NULL: none */
    char *place;         /* where it was sent: an origin; NULL: nowhere */
    uint8_t topic_bytes, id_bytes;
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
};

/* A child of `parent`; of no span where `parent->span` is 0: then it is the first of that trace. `id` is its own.
 * NULL: out of memory. */
struct trace_span *trace_span_new(enum trace_operation operation,
                                  const struct trace_context *parent, struct slice state,
                                  uint64_t id);
void trace_span_free(struct trace_span *span);

void trace_span_set_topic(struct trace_span *span, struct slice topic);
void trace_span_set_id(struct trace_span *span, struct slice id);
void trace_span_set_error(struct trace_span *span, struct slice error);
void trace_span_set_place(struct trace_span *span, struct slice place);
/* What is known of the job itself. */
void trace_span_set_job(struct trace_span *span, const struct job *job);

#endif
