/*
 * load_tally: counts the events of a run and classifies each delivery: on time, early, duplicate,
 * or foreign. Pure, except for the optional trace.
 *
 * The trace records every answer and every delivery of a run, one entry each, for programs that
 * need more than percentiles: the rate per second, the longest silence, one part of a run. The file
 * consists of entries of LOAD_TRACE_BYTES, little-endian, in chronological order. Writes are
 * buffered. Put the file on a file system in memory, or else a slow disk delays the generator. A
 * write error is reported when the trace is closed.
 */
#ifndef TARRY_LOAD_TALLY_H
#define TARRY_LOAD_TALLY_H

#include "load/body.h"
#include "load/load.h"

#include <stdio.h>

enum { LOAD_TRACE_BYTES = 16 };
enum load_trace_kind { LOAD_TRACE_PUSHED = 1, LOAD_TRACE_DELIVERED, LOAD_TRACE_ACKED };

struct load_trace_entry { /* as stored in the file */
    int64_t at_us;        /* since boot: when the answer or the job came */
    uint32_t took_us;     /* PUSHED: since the sending; DELIVERED: since due; ACKED: 0 */
    uint16_t jobs;        /* jobs in the entry, without rejected ones */
    uint8_t kind, unused; /* enum load_trace_kind; 0 */
};

struct load_tally {
    struct load_result *result; /* the caller's */
    FILE *trace;                /* NULL: no trace */
    int trace_error;            /* errno of the first failure */
    uint32_t run;
    uint64_t *seen; /* one bit per index */
    uint64_t seen_words;
    int64_t push_first_us, push_last_us; /* first sending, last answer; 0: not yet */
    int64_t take_first_us, take_last_us; /* when consuming could begin; the last delivery or ack */
};

/* Initializes a tally. `trace` is the file for a trace, or NULL. Returns false and sets errno if
 * it cannot be created; the run then has no trace. */
bool load_tally_init(struct load_tally *tally, struct load_result *result, uint32_t run,
                     const char *trace);

void load_tally_pushed(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t sent_us,
                       int64_t now_us);
void load_tally_acked(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t now_us);

/* Counts a delivery. Returns true if the job belongs to this run and must be acked, even if it
 * is a duplicate. */
bool load_tally_delivered(struct load_tally *tally, struct slice body, int64_t now_us);

/* Measures the same job by the due time that its server returned, both by the wall clock. Other
 * queues are measured this way if their drivers have no more precise due time. */
void load_tally_late_by_due(struct load_tally *tally, int64_t due_ms, int64_t wall_us);

/* Keeps the first problem of the run, made printable. */
void load_tally_problem(struct load_tally *tally, struct slice problem);

/* Fills in durations and missing jobs, closes the trace and frees the tally. Returns false and
 * sets errno if the trace is incomplete. */
bool load_tally_finish(struct load_tally *tally, bool consumed);

#endif
