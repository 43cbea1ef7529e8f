#include "load/trace.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(sizeof(struct load_trace_entry) == LOAD_TRACE_BYTES, "entry");

enum { BUFFER_BYTES = 1 << 20 };

struct load_trace {
    FILE *file;
    int error; /* errno of the first failure */
};

struct load_trace *load_trace_open(const char *path)
{
    struct load_trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return NULL;
    trace->file = fopen(path, "wbe");
    if (!trace->file) {
        int error = errno;
        free(trace);
        errno = error;
        return NULL;
    }
    setvbuf(trace->file, NULL, _IOFBF, BUFFER_BYTES);
    return trace;
}

void load_trace_add(struct load_trace *trace, enum load_trace_kind kind, int64_t at_us,
                    int64_t took_us, uint64_t jobs)
{
    assert(jobs <= UINT16_MAX);
    uint64_t took = took_us < 0 ? 0 : (uint64_t)took_us;
    const struct load_trace_entry entry = {
        .at_us = (int64_t)htole64((uint64_t)at_us),
        .took_us = htole32(took < UINT32_MAX ? (uint32_t)took : UINT32_MAX),
        .jobs = htole16((uint16_t)jobs),
        .kind = (uint8_t)kind};
    if (fwrite(&entry, sizeof entry, 1, trace->file) != 1 && !trace->error)
        trace->error = errno ? errno : EIO;
}

bool load_trace_close(struct load_trace *trace)
{
    if (!trace)
        return true;
    int error = trace->error;
    if (fclose(trace->file) != 0 && !error)
        error = errno;
    free(trace);
    errno = error;
    return !error;
}
