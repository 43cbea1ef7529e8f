/*
 * load_tally: counts what a run saw, and judges each delivery: on time, early, for the second time,
 * or somebody else's. Pure, but for the trace where there is one.
 *
 * The trace is every answer and every delivery of a run, one entry each, for programs that look
 * closer than percentiles do: a rate by the second, the longest silence, one stretch of a run. The
 * file is entries of LOAD_TRACE_BYTES, little-endian, in the order in which they happened. What is
 * written passes through a buffer; put the file on a file system in memory, else a slow disk holds
 * up the generator. A trace that could not be written says so when it is closed.
 */
#ifndef TARRY_LOAD_TALLY_H
#define TARRY_LOAD_TALLY_H

#include "load/load.h"
#include "load/stamp.h"

#include <stdio.h>

enum { LOAD_TRACE_BYTES = 16 };
enum load_trace_kind { LOAD_TRACE_PUSHED = 1, LOAD_TRACE_DELIVERED, LOAD_TRACE_ACKED };

struct load_trace_entry { /* as it lies in the file */
    int64_t at_us;        /* since boot: when the answer or the job came */
    uint32_t took_us;     /* PUSHED: since the sending; DELIVERED: since due; ACKED: 0 */
    uint16_t jobs;        /* that it speaks of, refused ones not counted */
    uint8_t kind, unused; /* enum load_trace_kind; 0 */
};

struct load_tally {
    struct load_result *result; /* the caller's */
    FILE *trace;                /* NULL: none */
    int trace_error;            /* errno of the first failure */
    uint32_t run;
    uint64_t *seen; /* one bit per index */
    uint64_t seen_words;
    int64_t push_first_us, push_last_us; /* first sending, last answer; 0: none yet */
    int64_t take_first_us, take_last_us; /* when consuming could begin; the last delivery or ack */
};

/* `trace`: the file for a trace, or NULL. False with errno: it cannot be made, there will be none. */
bool load_tally_init(struct load_tally *tally, struct load_result *result, uint32_t run,
                     const char *trace);

void load_tally_pushed(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t sent_us,
                       int64_t now_us);
void load_tally_acked(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t now_us);

/* True if the job is of this run: then it is to be acked, duplicate or not. */
bool load_tally_delivered(struct load_tally *tally, struct slice body, int64_t now_us);

/* The same job by the due time its server told, both by the wall clock: what other queues, whose
 * drivers know no finer due time than that, are judged by. */
void load_tally_told(struct load_tally *tally, int64_t due_ms, int64_t wall_us);

/* Keeps the first problem of the run, made printable. */
void load_tally_problem(struct load_tally *tally, struct slice problem);

/* Fills in durations and what is missing, closes the trace, frees. False with errno: not all of the
 * trace was written. */
bool load_tally_finish(struct load_tally *tally, bool consumed);

#endif
