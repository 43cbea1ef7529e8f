/*
 * kind: what a broker has besides the common part of an intake: a consumer with a thread of its own,
 * which turns messages into jobs and passes them on in batches.
 *
 * A message that can never be accepted is rejected. A message that cannot be accepted now stays with
 * the consumer, unacknowledged, and is offered again every second; nothing more is read meanwhile. The
 * consumer reconnects forever.
 */
#ifndef TARRY_INTAKE_KIND_H
#define TARRY_INTAKE_KIND_H

#include "base/list.h"
#include "intake/intake.h"

#include <stdatomic.h>

enum intake_refusal { /* why a message can never be accepted */
                      INTAKE_TAKEN = 0,
                      INTAKE_BAD_DELAY,
                      INTAKE_BAD_DESTINATION,
                      INTAKE_PROPERTIES_TOO_BIG,
                      INTAKE_UNDECODABLE,
                      INTAKE_NO_MEMORY, /* temporary: the message is accepted later */
                      INTAKE_BODY_TOO_BIG,
                      INTAKE_BAD_JOB /* rejected by the queue; the last value */
};
const char *intake_refusal_name(enum intake_refusal refusal); /* "bad_delay", … */

/* Headers of a message that are read by every kind: milliseconds; a time, which comes first. */
#define INTAKE_HEADER_DELAY "x-delay"
#define INTAKE_HEADER_AT "x-deliver-at"

/* ---- jobs ---- */

struct intake_job {
    struct list list;
    uint64_t tag; /* identifies the message for its consumer */
    struct queue_when when;
    enum queue_status status; /* result of the push */
    bool may_be_there;        /* delivered before, or pushed without a definite answer */
    struct slice id, content_type, meta, body;
    char bytes[];
};

/* Copies the parts of a job. A content type that a job cannot have is left out. Returns NULL when out
 * of memory; freed with free(). */
struct intake_job *intake_job_new(struct slice id, struct slice content_type, struct slice meta,
                                  struct slice body);

/* Reads a number of milliseconds. */
bool intake_number_read(struct slice text, int64_t *out);
/* Sets the due time: at `ms` since 1970, or after `ms`. Returns false if that is beyond the limit
 * of a delay; `why` (INTAKE_ERROR_BYTES) describes the problem. */
bool intake_when_set(struct queue_when *out, bool is_at, int64_t ms, char *why);

/* Adds the trace context of a message to the meta if it fits; `parent` may be empty. */
void intake_trace_add(struct buffer *meta, struct slice parent, struct slice state);

/* ---- batches ---- */

enum { INTAKE_BATCH = 256 };

/* A batch of jobs, which goes to the queue's thread and returns with the status of each job. Freed
 * by its current owner. */
struct intake_batch {
    struct list list;
    uint64_t
        generation; /* of the consumer's connection or assignment that its messages belong to */
    size_t count;
    struct intake_job *jobs[INTAKE_BATCH];
};
void intake_batch_free(struct intake_batch *batch); /* with its jobs; NULL is allowed */

/* ---- a consumer ---- */

struct intake_counts { /* readable from any thread */
    _Atomic uint64_t received, taken, again, rejected[INTAKE_BAD_JOB + 1], connections;
    atomic_bool is_connected, is_refused; /* is_refused: the queue currently accepts no jobs */
};

struct intake_events {                                    /* called on the consumer's thread */
    void (*batch)(void *ctx, struct intake_batch *batch); /* takes ownership of the batch */
    void (*ended)(void *ctx);                             /* last event; join the thread now */
};

struct intake_consumer_options {
    struct guard *guard;
    const char *version, *url;
    struct intake_counts *counts;
    const struct intake_events *events;
    void *ctx;
};

/* The lines of the log, which differ by the name of the kind. */
struct intake_lines {
    const char *connected, *not_connected, *paused, *resumes, *rejected;
};

struct intake_kind {
    const char *name;             /* "amqp-in": of its option and in the log */
    const struct metric *metrics; /* INTAKE_METRICS; NULL: not in this build */
    /* Checks a source URL. Pure. Returns false with `error` (INTAKE_ERROR_BYTES). */
    bool (*check)(struct slice url, char *error);
    /* Creates a consumer. Returns NULL with `error` (INTAKE_ERROR_BYTES). */
    void *(*open)(const struct intake_consumer_options *options, char *error);
    const char *(*topic)(const void *consumer); /* of the jobs */
    /* Appends the value of `deliver` that the topic gets if its settings lack it. */
    void (*emit_deliver)(const void *consumer, struct buffer *out);
    bool (*start)(void *consumer); /* starts the thread; false if that fails */
    /* Returns a batch to the consumer. Any thread. */
    void (*settle)(void *consumer, struct intake_batch *batch);
    /* Stops reading, acknowledges batches that come back within two seconds, then ends. `at_once`
     * also interrupts a blocking call. Any thread. */
    void (*stop)(void *consumer, bool at_once);
    /* Frees the consumer after its thread has ended, and stops the thread immediately if it was not
     * asked to stop. Does not wait for batches that have not come back. NULL is allowed. */
    void (*free)(void *consumer);
};

/* ---- what consumers log ---- */

/* The lines about rejected messages of a second; the others are counted. */
struct intake_rejections {
    int64_t second;
    unsigned lines, left_out;
};

/* Counts and logs a rejected message. `place` names the kind of its place in the log ("queue"). */
void intake_reject(struct intake_rejections *rejections, const struct intake_lines *lines,
                   struct intake_counts *counts, enum intake_refusal refusal,
                   const char *place_name, const char *place, const char *why);

/* Parties of TROUBLE_INTAKE: a kind has two. */
enum { INTAKE_PARTY_AMQP = 0, INTAKE_PARTY_KAFKA = 2 };
/* Records whether the consumer has a connection. */
void intake_set_connected(struct intake_counts *counts, uint32_t party, bool is_connected);
/* Records whether the queue refuses jobs, and logs changes only. */
void intake_set_refused(struct intake_counts *counts, uint32_t party,
                        const struct intake_lines *lines, bool is_refused, const char *why);

/* ---- figures ---- */

enum intake_metric {
    INTAKE_METRIC_RECEIVED,
    INTAKE_METRIC_TAKEN,
    INTAKE_METRIC_REJECTED,
    INTAKE_METRIC_AGAIN,
    INTAKE_METRIC_CONNECTIONS,
    INTAKE_METRIC_CONNECTED,
    INTAKE_METRIC_PAUSED
};

/* The rows of a kind: the part of their names, the option, the broker, what becomes of a rejected
 * message. */
#define INTAKE_METRICS(PART, OPTION, BROKER, FATE)                                                 \
    {                                                                                              \
        [INTAKE_METRIC_RECEIVED] = {.name = "tarry_" PART "_received_total",                       \
                                    .type = PROMETHEUS_COUNTER,                                    \
                                    .help = "Messages that " BROKER " delivered to " OPTION ".",   \
                                    .meaning = "Does not change while messages wait in " BROKER    \
                                               ": check `tarry_" PART                              \
                                               "_connected` and `tarry_" PART "_paused`.",         \
                                    .when = "with `" OPTION "`"},                                  \
        [INTAKE_METRIC_TAKEN] = {.name = "tarry_" PART "_taken_total",                             \
                                 .type = PROMETHEUS_COUNTER,                                       \
                                 .help = "Messages of " OPTION                                     \
                                         " that were stored as jobs and acknowledged.",            \
                                 .meaning = "Less than the received ones if messages are "         \
                                            "rejected or put aside.",                              \
                                 .when = "with `" OPTION "`"},                                     \
        [INTAKE_METRIC_REJECTED] = {.name = "tarry_" PART "_rejected_total",                       \
                                    .type = PROMETHEUS_COUNTER,                                    \
                                    .labels = {"reason"},                                          \
                                    .help = "Messages of " OPTION                                  \
                                            " that can never be accepted, by reason.",             \
                                    .meaning = "A publisher sends invalid messages. " FATE,        \
                                    .when = "with `" OPTION "`"},                                  \
        [INTAKE_METRIC_AGAIN] = {.name = "tarry_" PART "_offered_again_total",                     \
                                 .type = PROMETHEUS_COUNTER,                                       \
                                 .help = "Times a message of " OPTION                              \
                                         " was put aside for a later try.",                        \
                                 .meaning = "Rises while the store accepts no jobs, or a topic "   \
                                            "is full. `tarry_limits_met_total` and "               \
                                            "`tarry_store_accepting` show the cause.",             \
                                 .when = "with `" OPTION "`"},                                     \
        [INTAKE_METRIC_CONNECTIONS] = {.name = "tarry_" PART "_connections_total",                 \
                                       .type = PROMETHEUS_COUNTER,                                 \
                                       .help = "Connections that " OPTION " has made.",            \
                                       .meaning = "Rises repeatedly: " BROKER                      \
                                                  " or the network cuts it. The log has each "     \
                                                  "reason.",                                       \
                                       .when = "with `" OPTION "`"},                               \
        [INTAKE_METRIC_CONNECTED] = {.name = "tarry_" PART "_connected",                           \
                                     .type = PROMETHEUS_GAUGE,                                     \
                                     .help = "1 while " OPTION " is connected and consumes.",      \
                                     .meaning = "0 for a minute: no message arrives from " BROKER  \
                                                ". The log has the reason.",                       \
                                     .when = "with `" OPTION "`"},                                 \
        [INTAKE_METRIC_PAUSED] = {.name = "tarry_" PART "_paused",                                 \
                                  .type = PROMETHEUS_GAUGE,                                        \
                                  .help = "1 while the store accepts nothing from " OPTION ".",    \
                                  .meaning = "The store refuses pushes: see the runbook page "     \
                                             "*full*.",                                            \
                                  .when = "with `" OPTION "`"},                                    \
        METRIC_END                                                                                 \
    }

#endif
