/*
 * load_tally: counts what a run saw, and judges each delivery: on time, early, for the second time,
 * or somebody else's. Pure, but for the trace where there is one.
 */
#ifndef TARRY_LOAD_TALLY_H
#define TARRY_LOAD_TALLY_H

#include "load/load.h"
#include "load/stamp.h"
#include "load/trace.h"

struct load_tally {
    struct load_result *result; /* the caller's */
    struct load_trace *trace;   /* the caller's; NULL: none */
    uint32_t run;
    uint64_t *seen; /* one bit per index */
    uint64_t seen_words;
    int64_t push_first_us, push_last_us; /* first sending, last answer; 0: none yet */
    int64_t take_first_us, take_last_us; /* when consuming could begin; the last delivery or ack */
};

void load_tally_init(struct load_tally *tally, struct load_result *result, uint32_t run);
void load_tally_fini(struct load_tally *tally);

void load_tally_pushed(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t sent_us,
                       int64_t now_us);
void load_tally_acked(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t now_us);

/* True if the job is of this run: then it is to be acked, duplicate or not. */
bool load_tally_delivered(struct load_tally *tally, struct slice body, int64_t now_us);

/* Keeps the first problem of the run, made printable. */
void load_tally_problem(struct load_tally *tally, struct slice problem);

/* Fills in durations and what is missing. */
void load_tally_finish(struct load_tally *tally, bool consumed);

#endif
