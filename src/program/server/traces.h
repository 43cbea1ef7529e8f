/*
 * traces: the export of the server's spans as configured: the tracer, and the headers of each
 * request, which are read from a file.
 *
 * Life: traces_open before the reactors run; traces_stop when jobs no longer change; traces_wait
 * when the reactors have ended; traces_close after the fronts are closed.
 */
#ifndef TARRY_SERVER_TRACES_H
#define TARRY_SERVER_TRACES_H

#include "server/config.h"
#include "trace/tracer.h"

enum { TRACES_HEADERS_MAX = 16, TRACES_FILE_BYTES_MAX = 16 * 1024 };

struct traces {            /* zeroed: closed */
    struct tracer *tracer; /* NULL if tracing is off */
    char *headers_text;
    const char *headers[TRACES_HEADERS_MAX + 1];
};

/* Returns false with `error` (TRACER_ERROR_BYTES), which names the problem and the remedy. */
bool traces_open(struct traces *traces, const struct config *config, char *error);
/* Checks the file of headers. */
bool traces_check(const struct config *config, char *error);
/* Sends the pending spans for at most that long; does not wait. */
void traces_stop(struct traces *traces, int64_t timeout_ms);
/* Waits until that has ended. */
void traces_wait(struct traces *traces);
void traces_close(struct traces *traces);

#endif
