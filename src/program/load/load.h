/*
 * load: drives a queue server as hard as one thread can, and says what it saw.
 *
 * Connections are of two kinds: pushers keep `pipeline` requests on their way (or follow a given
 * rate), consumers take ready jobs, and ack what they got. What is due when travels in each job's
 * body (stamp.h), so that lateness needs no table and no second clock: it is the time of
 * receipt minus (time of sending + delay). As the server cannot have counted from before the
 * sending, this never makes a server look more punctual than it is.
 *
 * One thread, blocking, Linux (epoll). The engine knows no protocol: see protocol.h.
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
    bool wants_tls;          /* the URL says https */
    struct tls_context *tls; /* NULL: plain */
    const char *token;       /* NULL: none */
    /* Of another server of the same queue: every second connection goes there; empty: all go to
     * `port`. */
    char second_port[8];
    char topic[LOAD_TEXT_BYTES_MAX];
    uint64_t jobs;       /* pushed in all; 0: as many as fit into duration_ms */
    int64_t duration_ms; /* pushing stops after it; 0: after `jobs` */
    /* Open loop: so many jobs a second, come what may; 0: as fast as answers come. */
    uint64_t rate_per_s;
    unsigned connections;               /* pushers */
    unsigned pipeline;                  /* requests on their way on each of them */
    unsigned batch;                     /* jobs in a request */
    unsigned consumers;                 /* connections that take and ack; 0: nobody does */
    unsigned take_max;                  /* jobs in one take */
    size_t body_bytes;                  /* at least LOAD_STAMP_BYTES */
    int64_t delay_min_ms, delay_max_ms; /* evenly spread */
    /* All jobs are due at one moment, so long after the run began; 0: by delay. Where pushing takes
     * longer, the rest is due at once. */
    int64_t due_in_ms;
    int64_t patience_ms; /* give up when nothing has come for the longest delay and so long */
    bool take_after;     /* consumers begin when all is pushed */
    bool own_ids;        /* the generator names the jobs, LOAD_ID_BYTES each */
    bool progress;       /* a line on standard error twice a second */
    const char *trace;   /* file for each answer and delivery (load/tally.h); NULL: none */
};

struct load_result {
    uint32_t run;     /* what own ids are made from (load_stamp_id) */
    int64_t began_us; /* since boot */
    uint64_t pushed, push_failed;
    uint64_t delivered, early, duplicates, foreign; /* foreign: not of this run; left alone */
    uint64_t missing; /* pushed, but not delivered although consumers waited */
    uint64_t acked, ack_failed;
    uint64_t takes, takes_empty;
    int64_t early_max_us;
    double push_s; /* from the first sending to the last answer */
    double take_s; /* from the first moment a job could be taken to the last ack */
    double life_s; /* from the first sending to the last ack */
    struct histogram push_us, late_us;
    struct histogram late_told_us;     /* after the due time that the server told with the job */
    char problem[LOAD_TEXT_BYTES_MAX]; /* the first refusal or failure; "" if none */
};

/* False when the run could not begin or broke off: result->problem says why, the figures hold up to
 * then. SIGINT ends a run early and counts as success. */
bool load_run(const struct load_plan *plan, struct load_result *result);

/* For people (with histograms), on standard output; or one JSON object. */
void load_report(const struct load_plan *plan, const struct load_result *result);
void load_report_json(const struct load_plan *plan, const struct load_result *result);

/* The line on standard error that is written over while a run goes on; `result` NULL: removes it. */
void load_progress_print(const struct load_plan *plan, const struct load_result *result,
                         int64_t elapsed_us);

#endif
