#include "targets/stomp_wire.h"

#include "base/buffer.h"
#include "targets/stomp_tls.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    OUT_BYTES_MAX = 256 * 1024,
    /* Of `out` as a buffer: TLS adds its own to what it is given. */
    OUT_CEILING = 2 * OUT_BYTES_MAX,
    KEEPALIVE_S = 15
};

struct stomp_wire {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    struct reactor *reactor;
    struct stomp_wire_events events;
    void *ctx;
    struct stomp_tls *tls; /* NULL: plain */
    struct buffer out;     /* as it goes over the network */
    struct buffer sending; /* the loop's while is_writing */
    struct turn_end_call turn_end;
    bool is_up, is_writing, wants_room, has_ended, is_freed;
    bool cannot_write; /* reading will come to its end */
    char why[STOMP_TLS_WHY_BYTES];
    char in[64 * 1024];
};

static void end(struct stomp_wire *wire, const char *why)
{
    if (wire->has_ended || wire->is_freed)
        return;
    wire->has_ended = true;
    (void)snprintf(wire->why, sizeof wire->why, "%s", why);
    (void)uv_read_stop((uv_stream_t *)&wire->tcp);
    reactor_once_at_turn_end(wire->reactor, &wire->turn_end);
}

/* ---- out ---- */

static void flush(struct stomp_wire *wire);

/* A peer that ends the conversation may have said why: what it sent can still be read. */
static void fail_write(struct stomp_wire *wire, int error)
{
    if (error == UV_EPIPE || error == UV_ECONNRESET)
        wire->cannot_write = true;
    else
        end(wire, uv_strerror(error));
}

static void on_written(uv_write_t *request, int status)
{
    struct stomp_wire *wire = request->data;
    wire->is_writing = false;
    if (wire->is_freed)
        return;
    buffer_clear(&wire->sending);
    if (status < 0) {
        fail_write(wire, status);
        return;
    }
    flush(wire);
    if (wire->wants_room && wire->out.len < OUT_BYTES_MAX) {
        wire->wants_room = false;
        wire->events.room(wire->ctx);
    }
}

/* What the socket takes at once goes at once, the rest when it can. */
static void flush(struct stomp_wire *wire)
{
    uv_stream_t *stream = (uv_stream_t *)&wire->tcp;
    if (wire->is_writing || wire->has_ended || wire->cannot_write || !wire->out.len)
        return;
    struct buffer swapped = wire->sending;
    wire->sending = wire->out;
    wire->out = swapped;
    uv_buf_t rest = uv_buf_init(wire->sending.at, (unsigned)wire->sending.len);
    int taken = uv_try_write(stream, &rest, 1);
    if (taken > 0) {
        rest.base += taken;
        rest.len -= (size_t)taken;
    }
    if (rest.len == 0) {
        buffer_clear(&wire->sending);
        return;
    }
    int error = uv_write(&wire->writing, stream, &rest, 1, on_written);
    wire->is_writing = error == 0;
    if (error)
        end(wire, uv_strerror(error));
}

static void on_turn_end(struct turn_end_call *call)
{
    struct stomp_wire *wire = list_entry(call, struct stomp_wire, turn_end);
    flush(wire);
    if (wire->has_ended) {
        /* Who acts on it has had its call in this turn already. */
        reactor_turn_again(wire->reactor);
        wire->events.down(wire->ctx, wire->why);
    } else if (wire->wants_room && !wire->is_writing) {
        wire->wants_room = false;
        wire->events.room(wire->ctx);
    }
}

/* What TLS has to say goes out with the rest. */
static void drain_tls(struct stomp_wire *wire)
{
    stomp_tls_take_out(wire->tls, &wire->out);
    if (wire->out.failed)
        end(wire, "out of memory");
    else if (wire->out.len)
        reactor_once_at_turn_end(wire->reactor, &wire->turn_end);
}

size_t stomp_wire_write(struct stomp_wire *wire, const char *at, size_t len)
{
    if (!wire->is_up || wire->has_ended || wire->is_freed)
        return 0;
    size_t room = wire->out.len < OUT_BYTES_MAX ? OUT_BYTES_MAX - wire->out.len : 0;
    size_t taken = len < room ? len : room;
    if (wire->tls) {
        if (taken && !stomp_tls_write(wire->tls, at, taken))
            end(wire, "tls failed");
        drain_tls(wire);
    } else {
        buffer_append(&wire->out, at, taken);
        if (wire->out.failed)
            end(wire, "out of memory");
    }
    wire->wants_room = wire->wants_room || taken < len;
    reactor_once_at_turn_end(wire->reactor, &wire->turn_end);
    return taken;
}

/* ---- in ---- */

static void come_up(struct stomp_wire *wire)
{
    wire->is_up = true;
    wire->events.up(wire->ctx);
}

static void take_tls(struct stomp_wire *wire, const char *bytes, size_t len)
{
    char plain[16 * 1024];
    const char *fault = NULL;
    ssize_t count = 0;
    stomp_tls_take_in(wire->tls, bytes, len);
    if (!wire->is_up) {
        bool is_done = stomp_tls_shake_hands(wire->tls, &fault);
        drain_tls(wire);
        if (is_done)
            come_up(wire);
    }
    while (wire->is_up && !fault && !wire->is_freed && !wire->has_ended &&
           (count = stomp_tls_read(wire->tls, plain, sizeof plain, &fault)) > 0)
        wire->events.bytes(wire->ctx, plain, (size_t)count);
    if (wire->is_freed)
        return;
    drain_tls(wire);
    if (fault)
        end(wire, fault);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
    struct stomp_wire *wire = handle->data;
    (void)wanted;
    *room = uv_buf_init(wire->in, sizeof wire->in);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes)
{
    struct stomp_wire *wire = stream->data;
    if (wire->is_freed || wire->has_ended)
        return;
    if (count == UV_EOF)
        end(wire, "closed by the peer");
    else if (count < 0)
        end(wire, uv_strerror((int)count));
    else if (count > 0 && wire->tls)
        take_tls(wire, bytes->base, (size_t)count);
    else if (count > 0)
        wire->events.bytes(wire->ctx, bytes->base, (size_t)count);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct stomp_wire *wire = request->data;
    const char *fault = NULL;
    if (wire->is_freed)
        return;
    if (status == 0)
        status = uv_read_start((uv_stream_t *)&wire->tcp, on_room, on_read);
    if (status < 0) {
        end(wire, uv_strerror(status));
        return;
    }
    (void)uv_tcp_nodelay(&wire->tcp, 1);
    (void)uv_tcp_keepalive(&wire->tcp, 1, KEEPALIVE_S);
    if (!wire->tls) {
        come_up(wire);
        return;
    }
    (void)stomp_tls_shake_hands(wire->tls, &fault);
    drain_tls(wire);
    if (fault)
        end(wire, fault);
}

/* ---- life ---- */

static void on_closed(uv_handle_t *handle)
{
    struct stomp_wire *wire = handle->data;
    stomp_tls_free(wire->tls);
    buffer_fini(&wire->out);
    buffer_fini(&wire->sending);
    free(wire);
}

static void init(struct stomp_wire *wire, struct reactor *reactor,
                 const struct stomp_wire_events *events, void *ctx)
{
    wire->reactor = reactor;
    wire->events = *events;
    wire->ctx = ctx;
    wire->tcp.data = wire->connecting.data = wire->writing.data = wire;
    wire->turn_end.run = on_turn_end;
    list_init(&wire->turn_end.list);
    buffer_init(&wire->out, OUT_CEILING);
    buffer_init(&wire->sending, OUT_CEILING);
}

struct stomp_wire *stomp_wire_new(struct reactor *reactor, const struct sockaddr *address,
                                  const char *tls_host, const char *ca_file,
                                  const struct stomp_wire_events *events, void *ctx)
{
    struct stomp_wire *wire = malloc(sizeof *wire);
    if (!wire)
        return NULL;
    memset(wire, 0, offsetof(struct stomp_wire, in));
    init(wire, reactor, events, ctx);
    if (tls_host && !(wire->tls = stomp_tls_new(tls_host, ca_file))) {
        free(wire);
        return NULL;
    }
    if (uv_tcp_init(reactor_loop(reactor), &wire->tcp) != 0) {
        stomp_tls_free(wire->tls);
        free(wire);
        return NULL;
    }
    int error = uv_tcp_connect(&wire->connecting, &wire->tcp, address, on_connected);
    if (error)
        end(wire, uv_strerror(error));
    return wire;
}

void stomp_wire_free(struct stomp_wire *wire)
{
    if (!wire)
        return;
    if (wire->is_up)
        flush(wire);
    wire->is_freed = true;
    reactor_cancel_at_turn_end(&wire->turn_end);
    uv_close((uv_handle_t *)&wire->tcp, on_closed);
}
