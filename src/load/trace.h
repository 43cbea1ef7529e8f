/*
 * load_trace: every answer and every delivery of a run, one entry each, for programs that look
 * closer than percentiles do: a rate by the second, the longest silence, one stretch of a run.
 *
 * The file is entries of LOAD_TRACE_BYTES, little-endian, in the order in which they happened. What
 * is written passes through a buffer; put the file on a file system in memory, else a slow disk
 * holds up the generator. A trace that could not be written says so when it is closed.
 */
#ifndef TARRY_LOAD_TRACE_H
#define TARRY_LOAD_TRACE_H

#include <stdbool.h>
#include <stdint.h>

struct load_trace;

enum { LOAD_TRACE_BYTES = 16 };
enum load_trace_kind { LOAD_TRACE_PUSHED = 1, LOAD_TRACE_DELIVERED, LOAD_TRACE_ACKED };

struct load_trace_entry { /* as it lies in the file */
    int64_t at_us;        /* since boot: when the answer or the job came */
    uint32_t took_us;     /* PUSHED: since the sending; DELIVERED: since due; ACKED: 0 */
    uint16_t jobs;        /* that it speaks of, refused ones not counted */
    uint8_t kind, unused; /* enum load_trace_kind; 0 */
};

/* NULL with errno: the file could not be made. */
struct load_trace *load_trace_open(const char *path);
void load_trace_add(struct load_trace *trace, enum load_trace_kind kind, int64_t at_us,
                    int64_t took_us, uint64_t jobs);
/* False with errno: not all of it was written. NULL is fine. */
bool load_trace_close(struct load_trace *trace);

#endif
