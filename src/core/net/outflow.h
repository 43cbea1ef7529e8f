/*
 * outflow: writes a long text to a stream piece by piece.
 *
 * A socket whose peer does not read takes megabytes in one call, and the loop stands still while the system copies
 * them. So each call writes at most OUTFLOW_PIECE_BYTES. Once the iteration is late, the outflows of a reactor
 * alternate, a piece each. While the socket takes nothing, only OUTFLOW_PROBE_BYTES wait for it, because the loop
 * writes these of all sockets in one iteration.
 *
 * The owner embeds it, zeroed and with its task initialized by outflow_init, and keeps the text until `ended`. Runs on
 * the reactor's thread.
 */
#ifndef TARRY_NET_OUTFLOW_H
#define TARRY_NET_OUTFLOW_H

#include "net/reactor.h"

enum { OUTFLOW_PIECE_BYTES = 64 * 1024, OUTFLOW_PROBE_BYTES = 16 * 1024 };

struct outflow;

/* Called once, when everything has been written (0), when the peer is gone (an error of libuv), or when the outflow
 * ended before (UV_ECANCELED). The outflow may be freed. */
typedef void outflow_ended(struct outflow *outflow, int status);

struct outflow {
    uv_write_t probe;
    struct reactor_task task;
    struct reactor *reactor;
    uv_stream_t *stream;
    outflow_ended *ended;
    const char *at;
    size_t len, done; /* written bytes, without those of a probe in progress */
    size_t probe_bytes;
};

void outflow_init(struct outflow *outflow, struct reactor *reactor, uv_stream_t *stream,
                  outflow_ended *ended);
/* Writes as much as the socket takes and the iteration has time for. Returns 1 if that was everything, 0 if the rest
 * follows and `ended` will be called, or an error of libuv. */
int outflow_start(struct outflow *outflow, const char *at, size_t len);
/* Ends it. If the socket has a probe, `ended` follows after the close of the stream; else it is called here. */
void outflow_cancel(struct outflow *outflow);

/* Returns how many bytes the socket has not taken yet. Not within `ended` after an error. */
size_t outflow_left(const struct outflow *outflow);
/* Returns the same, with all of the probe in progress: also after an error. */
static inline size_t outflow_left_at_most(const struct outflow *outflow)
{
    return outflow->len - outflow->done;
}

#endif
