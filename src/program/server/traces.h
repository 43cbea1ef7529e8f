/*
 * traces: where the server's spans go, as its configuration says: the tracer, and the headers that go with each
 * request, from their file.
 *
 * Life: traces_open before the reactors run; traces_stop once nothing more happens to jobs; traces_wait when the
 * reactors have ended; traces_close when the fronts are gone.
 */
#ifndef TARRY_SERVER_TRACES_H
#define TARRY_SERVER_TRACES_H

#include "server/config.h"
#include "trace/tracer.h"

enum { TRACES_HEADERS_MAX = 16, TRACES_FILE_BYTES_MAX = 16 * 1024 };

struct traces {            /* zeroed: closed */
    struct tracer *tracer; /* NULL: nothing is traced */
    char *headers_text;
    const char *headers[TRACES_HEADERS_MAX + 1];
};

/* False: `error` (TRACER_ERROR_BYTES) says what and what to do. */
bool traces_open(struct traces *traces, const struct config *config, char *error);
/* Would the file of headers do? */
bool traces_check(const struct config *config, char *error);
/* Sends what there is, for so long at most; does not wait for that. */
void traces_stop(struct traces *traces, int64_t patience_ms);
/* Waits for the end of that. */
void traces_wait(struct traces *traces);
void traces_close(struct traces *traces);

#endif
