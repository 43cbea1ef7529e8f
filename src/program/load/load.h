/*
 * load: loads a queue server as heavily as one thread can, and reports what it measured.
 *
 * There are two kinds of connections. Pushers keep `pipeline` requests in flight (or follow a given
 * rate). Consumers take ready jobs and ack them. Each job's body holds its due time (body.h), so
 * that lateness needs neither a table nor a second clock: it is the time of receipt minus (time of
 * sending + delay). Since the server cannot start counting before the sending, this never makes a
 * server look more punctual than it is.
 *
 * One thread, blocking, Linux (epoll). The engine is independent of the protocol: see protocol.h.
 */
#ifndef TARRY_LOAD_H
#define TARRY_LOAD_H

#include "base/histogram.h"
#include "base/slice.h"

#include <stdint.h>

struct load_protocol;
struct tls_context;

enum {
    LOAD_CONNECTIONS_MAX = 10000,
    LOAD_PIPELINE_MAX = 4096,
    LOAD_BATCH_MAX = 1000,
    LOAD_TAKE_MAX = 1000,
    LOAD_BODY_BYTES_MAX = 1 << 20,
    LOAD_TEXT_BYTES_MAX = 256
};

struct load_plan {
    const struct load_protocol *protocol;
    char host[LOAD_TEXT_BYTES_MAX];
    char port[8];
    bool wants_tls;          /* the URL begins with https */
    struct tls_context *tls; /* NULL: plain */
    const char *token;       /* NULL: no token */
    /* Port of another server of the same queue, used by every second connection; empty: all use
     * `port`. */
    char second_port[8];
    char topic[LOAD_TEXT_BYTES_MAX];
    uint64_t jobs;       /* total to push; 0: as many as fit into duration_ms */
    int64_t duration_ms; /* when to stop pushing; 0: after `jobs` */
    /* Open loop: jobs pushed per second, regardless of answers; 0: as fast as answers come. */
    uint64_t rate_per_s;
    unsigned connections;               /* pushers */
    unsigned pipeline;                  /* requests in flight on each of them */
    unsigned batch;                     /* jobs in a request */
    unsigned consumers;                 /* connections that take and ack; 0: no consumers */
    unsigned take_max;                  /* jobs in one take */
    size_t body_bytes;                  /* at least LOAD_STAMP_BYTES */
    int64_t delay_min_ms, delay_max_ms; /* evenly distributed */
    /* All jobs are due at one moment, this long after the start of the run; 0: by delay. If
     * pushing takes longer, the remaining jobs are due immediately. */
    int64_t due_in_ms;
    int64_t timeout_ms; /* give up when no job has come for the longest delay plus this time */
    bool take_after;    /* consumers begin when all jobs are pushed */
    bool own_ids;       /* the generator chooses the job ids, LOAD_ID_BYTES each */
    bool progress;      /* a line on standard error twice a second */
    const char *trace;  /* file for each answer and delivery (load/tally.h); NULL: no trace */
};

struct load_result {
    uint32_t run;     /* source of the generated ids (load_stamp_id) */
    int64_t began_us; /* since boot */
    uint64_t pushed, push_failed;
    uint64_t delivered, early, duplicates, foreign; /* foreign: of another run; not acked */
    uint64_t missing; /* pushed, but not delivered although consumers waited */
    uint64_t acked, ack_failed;
    uint64_t takes, takes_empty;
    int64_t early_max_us;
    double push_s; /* from the first sending to the last answer */
    double take_s; /* from the first moment a job could be taken to the last ack */
    double life_s; /* from the first sending to the last ack */
    struct histogram push_us, late_us;
    struct histogram late_by_due_us; /* after the due time that the server returned with the job */
    char problem[LOAD_TEXT_BYTES_MAX]; /* the first rejection or failure; "" on success */
};

/* Runs the plan. Returns false if the run could not begin or was aborted: result->problem
 * describes the error, and the figures are valid up to then. SIGINT ends a run early and counts
 * as success. */
bool load_run(const struct load_plan *plan, struct load_result *result);

/* Print the result on standard output, as text with histograms or as one JSON object. */
void load_report(const struct load_plan *plan, const struct load_result *result);
void load_report_json(const struct load_plan *plan, const struct load_result *result);

/* Overwrites the progress line on standard error during a run; removes it if `result` is NULL. */
void load_progress_print(const struct load_plan *plan, const struct load_result *result,
                         int64_t elapsed_us);

#endif
