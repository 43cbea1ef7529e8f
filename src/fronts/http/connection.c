#include "http/connection.h"

#include "base/log.h"
#include "http/channel.h"
#include "http/http2.h"
#include "http/input.h"
#include "http/output.h"
#include "http/phase.h"
#include "net/activity.h"
#include "net/proxy_protocol.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    EXCESS_MAX = 64,     /* excess connections that get an answer before the close */
    GREETING_MAX = 2048, /* before their first request; closes the oldest above it */
    HANDSHAKES_MAX = 2, /* per loop iteration, so that established connections do not wait longer */
    HANDSHAKE_US = 250, /* after a step that took longer, an iteration has only one */
    ITERATION_READ_BYTES = 128 * 1024, /* of a connection in an iteration: one read */
    LATE_READ_BYTES = 16 * 1024,       /* the same, in an iteration that is late */
    CONNECTION_BYTES = 1024,           /* approximate memory of an open connection */
    /* A leftover up to this size is copied in front of the next bytes; a longer one gets its own
     * growing buffer. */
    LEFTOVER_BYTES = 4096,
};

/* ---- end of a connection ---- */

/* Frees the connection after the loop has released its handle. */
static void on_connection_closed(uv_handle_t *handle)
{
    struct http_connection *connection = handle->data;
    connection->front->open_handles--;
    reactor_iterate_again(connection->front->reactor); /* drain may wait for the last one */
    free(connection);
}

/* Ends the phase before requests, whether it succeeded or not. */
static void end_greeting(struct http_connection *connection)
{
    connection->front->greeting_count -= connection->socket.is_greeting;
    connection->socket.is_greeting = false;
}

/* Closes the connection immediately. Its exchanges are orphaned and waiting takes are cancelled. */
static void cut_connection(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    if (connection->is_cut)
        return;
    connection->is_cut = true;
    connection->wire->cut(connection);
    connection->exchange_count = 0;
    list_remove(&connection->node);
    list_remove(&connection->dirty);
    list_remove(&connection->timed);
    list_remove(&connection->socket.put_off);
    list_remove(&connection->socket.sated);
    http_input_drop(connection);
    http_output_drop(connection);
    http_gate_fini(connection);
    http_quota_fini(connection);
    http_channel_free(connection->socket.channel, front);
    connection->socket.channel = NULL;
    end_greeting(connection);
    http_budget_remove(front, CONNECTION_BYTES);
    front->connection_count--;
    http_count(&connection->listener->open, UINT64_MAX);
    front->excess_count -= connection->is_excess;
    atomic_store_explicit(&front->counters.connections, front->connection_count,
                          memory_order_relaxed);
    uv_close(&connection->socket.handle, on_connection_closed);
}

/* Sends a last answer, and discards further input. */
static void refuse_connection(struct http_connection *connection, const struct http_fault *fault)
{
    if (connection->http2) { /* there is no request that this could answer */
        connection->wire->end_waits(connection);
        return;
    }
    struct http_exchange *exchange = http_exchange_add(connection);
    connection->is_closing = connection->socket.lingers = true;
    http_input_drop(connection);
    http_phase_enter(connection, HTTP_PHASE_NONE);
    if (exchange) {
        exchange->route = connection->parser.refuser;
        http_answer_fault(exchange, fault);
    }
    http_connection_touch(connection);
}

/* ---- input ---- */

static void stop_reading(struct http_connection *connection)
{
    if (connection->socket.is_reading)
        (void)uv_read_stop(&connection->socket.stream);
    connection->socket.is_reading = false;
}

/* Returns when an idle connection became idle. Not while draining. */
static int64_t idle_since_ms(const struct http_connection *connection)
{
    return connection->until_ms - connection->front->options.idle_ms;
}

/* Notes how long the client paused before this request. */
static void note_pause(struct http_connection *connection)
{
    const struct http_front *front = connection->front;
    if (connection->phase != HTTP_PHASE_IDLE || front->is_draining)
        return;
    int64_t pause_ms = http_front_now_ms(connection->front) - idle_since_ms(connection);
    connection->pause_ms -= connection->pause_ms / 4;
    if (pause_ms <= HTTP_RECENT_MS && pause_ms > connection->pause_ms)
        connection->pause_ms = pause_ms;
    connection->is_used = true;
}

/* Does what the wire of the connection requires after it has handled input. */
static void follow_wire(struct http_connection *connection, enum http_fed fed,
                        const struct http_fault *fault)
{
    if (fed == HTTP_FED_REFUSED)
        refuse_connection(connection, fault);
    else if (fed == HTTP_FED_FAILED)
        cut_connection(connection);
    else if (fed == HTTP_FED_HELD)
        stop_reading(connection);
}

/* Finds out what the connection speaks: HTTP/2 if the handshake has chosen it or if its first bytes
 * begin it, else HTTP/1.1. Returns false if more bytes are needed, or the connection is closed. */
static bool choose_wire(struct http_connection *connection, const char *bytes, size_t len)
{
    bool is_short = false;
    if (!http_channel_chose(connection->socket.channel, HTTP2_PROTOCOL) &&
        !http2_begins(slice_make(bytes, len), &is_short)) {
        connection->has_wire = !is_short;
        if (!is_short)
            return true;
        http_phase_enter(connection, HTTP_PHASE_HEAD);
        if (!http_input_keep(connection, bytes, len))
            cut_connection(connection);
        return false;
    }
    connection->has_wire = true;
    if (http2_start(connection))
        return true;
    cut_connection(connection);
    return false;
}

/* Handles decrypted bytes. `bytes` is the shared buffer or the connection's own. */
static void feed_input(struct http_connection *connection, char *bytes, size_t len)
{
    struct http_fault fault;
    if (!connection->has_wire && !choose_wire(connection, bytes, len))
        return;
    note_pause(connection);
    follow_wire(connection, connection->wire->feed(connection, bytes, len, &fault), &fault);
}

/* Returns whether the next bytes are encrypted. */
static bool is_sealed(const struct http_connection *connection)
{
    return connection->socket.channel && !connection->socket.awaits_proxy;
}

/* Returns how many steps of handshakes an iteration may have, by the duration of the last one. */
static uint32_t handshakes_max(const struct http_front *front)
{
    return front->handshake_us > HANDSHAKE_US ? 1 : HANDSHAKES_MAX;
}

/* Returns whether its handshake must wait, because others wait or this iteration had enough of
 * them. */
static bool must_put_off(const struct http_connection *connection)
{
    const struct http_front *front = connection->front;
    return connection->socket.is_greeting && !connection->socket.may_shake &&
           (front->handshake_count >= handshakes_max(front) || !list_is_empty(&front->put_off));
}

/* Returns how much of `room` one read may fill: a small part if the iteration is late, because many connections can have
 * large requests in it. */
static unsigned read_bytes_of(const struct http_connection *connection, size_t room)
{
    size_t most =
        reactor_is_late(connection->front->reactor) ? LATE_READ_BYTES : ITERATION_READ_BYTES;
    return (unsigned)(room < most ? room : most);
}

/* Provides the buffer of a read: the shared buffer, after a short leftover, or the connection's own
 * as far as the budget allows. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct http_connection *connection = handle->data;
    (void)suggested;
    if (is_sealed(connection)) {
        connection->socket.is_put_off = must_put_off(connection);
        *out = uv_buf_init(connection->front->sealed_at,
                           connection->socket.is_put_off ? 0 : HTTP_SEALED_READ_BYTES);
        return;
    }
    if (connection->parser.in_len <= LEFTOVER_BYTES) {
        char *shared = connection->front->read_at;
        if (connection->parser.in_len)
            memcpy(shared, connection->parser.in, connection->parser.in_len);
        size_t cap = connection->socket.channel ? HTTP_SEALED_READ_BYTES : HTTP_READ_BYTES;
        *out = uv_buf_init(shared + connection->parser.in_len,
                           read_bytes_of(connection, cap - connection->parser.in_len));
        return;
    }
    size_t cap = http_input_cap_wanted(connection);
    bool has_room = cap <= connection->parser.in_cap ||
                    http_budget_has(connection->front, cap - connection->parser.in_cap);
    if (!has_room) {
        cap = connection->parser.in_len + LEFTOVER_BYTES;
        has_room = cap <= BUDGET_SMALL_BYTES;
    }
    connection->parser.is_starved = !has_room;
    if (!has_room || !http_input_grow(connection, cap))
        *out = uv_buf_init(NULL, 0);
    else
        *out = uv_buf_init(connection->parser.in + connection->parser.in_len,
                           read_bytes_of(connection, cap - connection->parser.in_len));
}

/* Handles the end of the peer's output. The peer may still read, so requests in progress are
 * answered. Waiting takes and streams end, since the peer may be gone. */
static void end_waits(struct http_connection *connection)
{
    connection->socket.peer_ended = true;
    connection->wire->end_waits(connection);
}

static void end_input(struct http_connection *connection)
{
    connection->socket.saw_end = connection->is_closing = true;
    stop_reading(connection);
    http_input_drop(connection);
    end_waits(connection);
    http_phase_enter(connection, HTTP_PHASE_NONE);
    http_connection_touch(connection);
}

/* Asks the system whether the peer has closed its side or is gone, since nothing is read while
 * requests are held back. If the peer may still read, held requests are carried out. */
static void probe_peer(struct http_connection *connection)
{
    struct pollfd asked = {.events = POLLRDHUP};
    if (uv_fileno(&connection->socket.handle, &asked.fd) == 0 && poll(&asked, 1, 0) > 0) {
        if (asked.revents & (POLLERR | POLLHUP)) {
            cut_connection(connection);
            return;
        }
        end_waits(connection);
    }
    http_phase_begin(connection, HTTP_PHASE_HELD);
}

/* Returns whether a request may be outdated because the loop stood still: its client may have gone
 * long ago and would not expect the request to be carried out. */
static bool is_stale(struct http_connection *connection)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    int fd;
    connection->socket.pauses = connection->front->pauses;
    if (connection->listener->about->kind != LISTENER_TCP) /* the age of the bytes is unknown */
        return false;
    if (uv_fileno(&connection->socket.handle, &fd) != 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return false;
    return info.tcpi_state == TCP_CLOSE ||
           (info.tcpi_state == TCP_CLOSE_WAIT && info.tcpi_last_data_recv > HTTP_LATE_MS);
}

static void refuse_stale(struct http_connection *connection)
{
    struct http_fault fault;
    (void)http_fault_set(&fault, PROBLEM_CONNECTION_ENDED, 0,
                         "the client closed its side before the suspended server read the request: "
                         "nothing was done, send it again");
    refuse_connection(connection, &fault);
}

/* Refuses input for lack of memory: the budget is spent, or the allocation failed. */
static void refuse_read_for_memory(struct http_connection *connection)
{
    struct http_fault fault;
    if (connection->parser.is_starved)
        http_budget_refuse(connection->front, &fault);
    else
        (void)http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    refuse_connection(connection, &fault);
}

/* Closes a connection that sent no valid greeting in time. There is no protocol to answer in. */
static void cut_ungreeted(struct http_connection *connection)
{
    http_count(&connection->listener->ungreeted, 1);
    cut_connection(connection);
}

/* Checks the quota of the client, not of the proxy in front of it. */
static bool is_within_quota(struct http_connection *connection)
{
    struct http_fault fault;
    http_quota_fini(connection);
    if (http_quota_accept(connection, &fault))
        return true;
    http_count(&connection->front->counters.refused, 1);
    if (connection->socket.channel)
        cut_connection(connection);
    else
        refuse_connection(connection, &fault);
    return false;
}

/* Reads the proxy header, which holds the client's address. On true, *used bytes were read and the
 * rest is the client's. */
static bool read_proxy_header(struct http_connection *connection, char *bytes, size_t len,
                              size_t *used)
{
    struct peer client;
    switch (proxy_protocol_read(slice_make(bytes, len), &client, used)) {
    case PROXY_PROTOCOL_WHOLE:
        connection->socket.awaits_proxy = false;
        if (client.kind != PEER_UNKNOWN)
            connection->peer = client;
        return is_within_quota(connection);
    case PROXY_PROTOCOL_MORE:
        if (http_input_keep(connection, bytes, len))
            return false;
        cut_connection(connection);
        return false;
    case PROXY_PROTOCOL_BAD:
        cut_ungreeted(connection);
        return false;
    }
    return false;
}

/* Returns whether the bytes begin a TLS handshake; no request begins with that byte. */
static bool is_handshake(const struct http_connection *connection, const char *bytes, size_t len)
{
    return len > 0 && bytes[0] == 0x16 && !connection->parser.framing.head_bytes;
}

/* Refuses a connection on which only one side speaks TLS. */
static void refuse_language(struct http_connection *connection)
{
    struct http_fault fault;
    bool is_tls = connection->socket.channel;
    http_channel_free(connection->socket.channel, connection->front);
    connection->socket.channel = NULL;
    end_greeting(connection);
    (void)http_fault_set(&fault, PROBLEM_BAD_REQUEST, 0,
                         is_tls ? "plain HTTP was sent to a port that speaks TLS, "
                                  "give a URL that begins with https://"
                                : "TLS was sent to a port that speaks plain HTTP, "
                                  "give a URL that begins with http://");
    refuse_connection(connection, &fault);
}

/* Ends a connection whose input cannot be decrypted. During the handshake the peer gets an alert
 * and time to read it. Later, the input was damaged or forged. */
static void end_bad_channel(struct http_connection *connection)
{
    bool is_greeting = connection->socket.is_greeting;
    struct buffer *sealed = &connection->socket.channel->sealed;
    if (is_greeting) {
        char client[PEER_TEXT_BYTES];
        peer_emit(&connection->peer, client);
        http_count(&connection->listener->ungreeted, 1);
        log_event(LOG_DEBUG, "handshake failed", LOG_TEXT("client", client),
                  LOG_TEXT("listener", connection->listener->about->name),
                  LOG_TEXT("error", http_channel_why(connection->socket.channel)));
    }
    if (is_greeting && sealed->len && !connection->socket.writing) {
        connection->is_closing = connection->socket.lingers = true;
        http_phase_enter(connection, HTTP_PHASE_NONE);
        http_connection_touch(connection);
        return;
    }
    if (sealed->len && !connection->socket.writing) {
        uv_buf_t alert = uv_buf_init(sealed->at, (unsigned)sealed->len);
        (void)uv_try_write(&connection->socket.stream, &alert, 1);
    }
    cut_connection(connection);
}

/* Returns where `len` encrypted bytes are decrypted to, after the leftover of a request, or NULL if
 * out of memory. */
static char *opening_place(struct http_connection *connection, size_t len)
{
    size_t cap = connection->parser.in_len + len + HTTP_RECORD_BYTES;
    if (connection->parser.in_len <= LEFTOVER_BYTES) {
        if (connection->parser.in_len)
            memcpy(connection->front->read_at, connection->parser.in, connection->parser.in_len);
        return connection->front->read_at;
    }
    if (cap <= connection->parser.in_cap)
        return connection->parser.in;
    if (http_input_cap_wanted(connection) > cap)
        cap = http_input_cap_wanted(connection);
    connection->parser.is_starved =
        !http_budget_has(connection->front, cap - connection->parser.in_cap);
    return !connection->parser.is_starved && http_input_grow(connection, cap)
               ? connection->parser.in
               : NULL;
}

/* Ends the greeting after a complete handshake. */
static void greet(struct http_connection *connection)
{
    end_greeting(connection);
    http_phase_enter(connection, HTTP_PHASE_IDLE);
}

/* Decrypts input and handles it. `sealed` is not in a buffer of a connection. */
static void open_input(struct http_connection *connection, const char *sealed, size_t len)
{
    struct http_channel *channel = connection->socket.channel;
    size_t got, kept = connection->parser.in_len;
    char *into = opening_place(connection, len);
    if (!into) {
        refuse_read_for_memory(connection);
        return;
    }
    struct http_front *front = connection->front;
    bool is_greeting = connection->socket.is_greeting;
    front->handshake_count += is_greeting && !connection->socket.may_shake;
    connection->socket.may_shake = false;
    int64_t began_us = is_greeting ? clock_awake_us() : 0;
    enum http_opened opened = http_channel_open(channel, front, sealed, len, into + kept, &got);
    if (is_greeting)
        front->handshake_us = clock_awake_us() - began_us;
    if (opened == HTTP_OPENED_PLAIN) {
        refuse_language(connection);
        return;
    }
    if (connection->socket.is_greeting && http_channel_is_open(channel))
        greet(connection);
    /* A peer that triggers replies within TLS and does not read them is hostile. */
    if (connection->socket.writing && channel->sealed.len > HTTP_RECORD_BYTES) {
        cut_connection(connection);
        return;
    }
    if (channel->sealed.len)
        http_connection_touch(connection);
    if (got)
        feed_input(connection, into, kept + got);
    if (connection->is_cut || opened == HTTP_OPENED)
        return;
    if (opened == HTTP_OPENED_BAD)
        end_bad_channel(connection);
    else if (!connection->is_closing)
        end_input(connection);
}

/* Decrypts the bytes after a proxy header. */
static void open_rest(struct http_connection *connection, const char *bytes, size_t len)
{
    char *sealed = connection->front->sealed_at;
    memcpy(sealed, bytes, len);
    http_input_drop_bytes(connection);
    if (len)
        open_input(connection, sealed, len);
}

/* Handles received bytes. `bytes` is the shared buffer or the connection's own. */
static void receive(struct http_connection *connection, char *bytes, size_t len)
{
    size_t used = 0;
    if (connection->socket.awaits_proxy && !read_proxy_header(connection, bytes, len, &used))
        return;
    bytes += used;
    len -= used;
    if (connection->socket.channel) {
        open_rest(connection, bytes, len);
        return;
    }
    end_greeting(connection);
    if (is_handshake(connection, bytes, len))
        refuse_language(connection);
    else
        feed_input(connection, bytes, len);
}

/* Handles the end of the stream. Encrypted input ends with close_notify; an end within a request
 * does not come from the peer. */
static void end_stream(struct http_connection *connection)
{
    if (connection->socket.is_greeting)
        cut_ungreeted(connection);
    else if (connection->socket.channel && connection->parser.in_len && !connection->is_closing)
        cut_connection(connection);
    else
        end_input(connection);
}

/* Queues the connection and stops reading until it is at the front of the queue. */
static void put_off(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    stop_reading(connection);
    if (list_is_empty(&front->put_off))
        reactor_iterate_again(front->reactor);
    if (list_is_empty(&connection->socket.put_off))
        list_add_last(&front->put_off, &connection->socket.put_off);
}

/* Ends reading in this iteration. The loop would read a connection that fills its buffers again and
 * again, up to 32 times. */
static void rest_after_share(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    if (!connection->socket.is_reading || connection->is_cut)
        return;
    stop_reading(connection);
    if (list_is_empty(&front->sated))
        reactor_iterate_again(front->reactor);
    list_add_last(&front->sated, &connection->socket.sated);
}

static void read_input(struct http_connection *connection, ssize_t got, const uv_buf_t *buf);

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct http_connection *connection = stream->data;
    bool has_more = got > 0 && (size_t)got == buf->len;
    read_input(connection, got, buf);
    if (has_more)
        rest_after_share(connection);
}

static void read_input(struct http_connection *connection, ssize_t got, const uv_buf_t *buf)
{
    struct http_front *front = connection->front;
    if (got == UV_EOF) {
        end_stream(connection);
    } else if (got == UV_ENOBUFS && connection->socket.is_put_off) {
        put_off(connection);
    } else if (got == UV_ENOBUFS && !connection->is_closing) {
        refuse_read_for_memory(connection);
    } else if (got < 0) {
        cut_connection(connection);
    } else if (got > 0 && !connection->is_closing) {
        http_count(&front->counters.bytes_in, (uint64_t)got);
        activity_begin("requests");
        http_wake_sleeper(front->shared);
        (void)http_front_now_ms(front);
        if (connection->socket.pauses != front->pauses && is_stale(connection))
            refuse_stale(connection);
        else if (is_sealed(connection))
            open_input(connection, buf->base, (size_t)got);
        else
            receive(connection, buf->base - connection->parser.in_len,
                    connection->parser.in_len + (size_t)got);
    }
}

static void start_reading(struct http_connection *connection)
{
    if (connection->socket.is_reading || connection->socket.saw_end || connection->is_cut ||
        !list_is_empty(&connection->socket.put_off) || !list_is_empty(&connection->socket.sated))
        return;
    connection->socket.is_reading =
        uv_read_start(&connection->socket.stream, on_alloc, on_read) == 0;
    if (!connection->socket.is_reading)
        cut_connection(connection);
}

/* Continues with held requests when there is room again. */
static void resume_input(struct http_connection *connection)
{
    struct http_fault fault;
    enum http_fed fed = connection->wire->resume(connection, &fault);
    if (fed == HTTP_FED_NONE)
        return;
    follow_wire(connection, fed, &fault);
    if (!connection->is_cut && fed != HTTP_FED_HELD)
        start_reading(connection);
}

/* ---- output ---- */

/* Called when the rest of a write has been sent, or cannot be sent. */
static void on_written(struct http_connection *connection, bool is_good)
{
    if (!is_good) {
        cut_connection(connection);
        return;
    }
    if (connection->phase == HTTP_PHASE_WRITE)
        http_phase_enter(connection, HTTP_PHASE_NONE);
    http_connection_touch(connection);
}

/* Writes the output. Returns false if the peer is gone. */
static bool write_output(struct http_connection *connection)
{
    connection->wire->flush(connection);
    return http_output_write(connection, on_written);
}

static void on_output_shut(uv_shutdown_t *request, int status)
{
    (void)status;
    free(request);
}

/* Shuts down the sending side and reads the input to its end. Closing with unread input would reset
 * the connection before the peer has read the answer. */
static bool linger_on(struct http_connection *connection)
{
    if (!connection->socket.lingers || connection->socket.saw_end)
        return false;
    if (connection->socket.is_lingering)
        return true;
    uv_shutdown_t *request = malloc(sizeof *request);
    if (!request || uv_shutdown(request, &connection->socket.stream, on_output_shut) != 0) {
        free(request);
        return false;
    }
    connection->socket.is_lingering = true;
    http_phase_enter(connection, HTTP_PHASE_LINGER);
    start_reading(connection);
    return true;
}

/* Decides the next step of the connection. */
static void settle_connection(struct http_connection *connection)
{
    struct http_channel *channel = connection->socket.channel;
    bool is_done =
        !connection->exchange_count && !connection->socket.out.len && !connection->socket.writing;
    if (is_done && connection->is_closing) {
        if (channel && http_channel_end(channel, connection->front)) {
            http_connection_touch(connection);
            return;
        }
        if (!linger_on(connection))
            cut_connection(connection);
        return;
    }
    resume_input(connection);
    if (!connection->is_cut && is_done && !connection->exchange_count &&
        connection->phase == HTTP_PHASE_NONE)
        http_phase_enter(connection, HTTP_PHASE_IDLE);
}

/* Lets the first handshakes of the queue read in the next iteration. Returns false if the queue is
 * empty. */
static bool resume_handshakes(struct http_front *front)
{
    bool has_some = !list_is_empty(&front->put_off);
    while (!list_is_empty(&front->put_off) && front->handshake_count < handshakes_max(front)) {
        struct http_connection *connection =
            list_entry(front->put_off.next, struct http_connection, socket.put_off);
        list_remove(&connection->socket.put_off);
        connection->socket.is_put_off = false;
        connection->socket.may_shake = true;
        front->handshake_count++;
        start_reading(connection);
    }
    return has_some;
}

/* Lets the connections that had their share read on. Returns false if no such connection exists. */
static bool resume_sated(struct http_front *front)
{
    bool has_some = !list_is_empty(&front->sated);
    while (!list_is_empty(&front->sated)) {
        struct http_connection *connection =
            list_entry(front->sated.next, struct http_connection, socket.sated);
        list_remove(&connection->socket.sated);
        if (!connection->parser.is_blocked || connection->socket.is_lingering)
            start_reading(connection);
    }
    return has_some;
}

bool http_connections_flush(struct http_front *front)
{
    struct list now;
    front->handshake_count = front->iteration_requests = front->iteration_heavy = 0;
    bool has_waiting = resume_handshakes(front);
    has_waiting = resume_sated(front) || has_waiting;
    if (list_is_empty(&front->dirty))
        return has_waiting;
    uint32_t serial = front->serial;
    bool has_cut = false;
    activity_begin("replies");
    /* Connections that become dirty from here on are handled in the next iteration. */
    now = front->dirty;
    now.next->prev = now.prev->next = &now;
    list_init(&front->dirty);
    while (!list_is_empty(&now)) {
        struct http_connection *connection = list_entry(now.next, struct http_connection, dirty);
        list_remove(&connection->dirty);
        if (!write_output(connection))
            cut_connection(connection);
        else
            settle_connection(connection);
        has_cut |= connection->is_cut;
    }
    /* The queue has already run in this iteration: run again, so that new calls do not wait for
     * another event. */
    return !list_is_empty(&front->dirty) || front->serial != serial || has_cut || has_waiting;
}

/* ---- all connections of a front ---- */

static int init_handle(struct http_connection *connection)
{
    uv_loop_t *loop = reactor_loop(connection->front->reactor);
    return connection->listener->about->kind == LISTENER_UNIX
               ? uv_pipe_init(loop, &connection->socket.unix_socket, 0)
               : uv_tcp_init(loop, &connection->socket.tcp);
}

static int open_handle(struct http_connection *connection, int fd)
{
    if (connection->listener->about->kind == LISTENER_UNIX)
        return uv_pipe_open(&connection->socket.unix_socket, fd);
    int code = uv_tcp_open(&connection->socket.tcp, fd);
    if (code == 0)
        (void)uv_tcp_nodelay(&connection->socket.tcp, 1);
    return code;
}

/* Creates a connection without a socket. Returns NULL if out of memory. */
static struct http_connection *connection_new(struct http_listener *listener)
{
    struct http_front *front = listener->front;
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->front = front;
    connection->listener = listener;
    connection->wire = &http1_wire;
    if (init_handle(connection) != 0) {
        free(connection);
        return NULL;
    }
    connection->socket.handle.data = connection;
    list_init(&connection->dirty);
    list_init(&connection->timed);
    list_init(&connection->long_line);
    list_init(&connection->socket.put_off);
    list_init(&connection->socket.sated);
    (void)http_front_now_ms(front);
    /* A connection that arrived while the loop stood still is checked for liveness. */
    connection->socket.pauses = front->pauses - front->is_late;
    http_budget_add(front, CONNECTION_BYTES);
    list_add_last(&front->connections, &connection->node);
    front->open_handles++;
    front->connection_count++;
    http_count(&listener->open, 1);
    atomic_store_explicit(&front->counters.connections, front->connection_count,
                          memory_order_relaxed);
    return connection;
}

/* Begins the phase before the first request. If too many connections are in it, closes the oldest
 * one: a prompt client needs only a few round trips. */
static void begin_greeting(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    struct list *waiting = &front->timed[HTTP_PHASE_GREET];
    if (front->greeting_count >= GREETING_MAX && !list_is_empty(waiting))
        cut_ungreeted(list_entry(waiting->next, struct http_connection, timed));
    connection->socket.is_greeting = true;
    front->greeting_count++;
    http_phase_enter(connection, HTTP_PHASE_GREET);
}

void http_connection_enter(struct http_listener *listener, int fd, const struct peer *peer)
{
    struct http_front *front = listener->front;
    struct http_connection *connection = connection_new(listener);
    struct http_fault fault;
    if (!connection) {
        (void)close(fd);
        return;
    }
    connection->peer = *peer;
    connection->socket.awaits_proxy = listener->about->options.proxy_protocol;
    connection->socket.channel = listener->about->options.tls ? http_channel_new() : NULL;
    if (listener->about->options.tls && !connection->socket.channel) {
        (void)close(fd);
        cut_connection(connection);
        return;
    }
    if (open_handle(connection, fd) != 0) {
        (void)close(fd);
        cut_connection(connection);
        return;
    }
    bool is_over = !connection->socket.awaits_proxy && !http_quota_accept(connection, &fault);
    bool is_excess =
        is_over || front->connection_count - front->excess_count > front->options.connections_max;
    if (is_excess && (front->excess_count >= EXCESS_MAX || connection->socket.channel)) {
        cut_connection(connection);
        return;
    }
    if (is_excess) {
        connection->is_excess = true;
        front->excess_count++;
        http_count(&front->counters.refused, 1);
        if (!is_over)
            (void)http_fault_set(&fault, PROBLEM_TOO_MANY_CONNECTIONS,
                                 front->options.connections_max,
                                 "the limit of connections, %u, is reached: close some",
                                 front->options.connections_max);
        refuse_connection(connection, &fault);
        return;
    }
    http_count(&front->counters.accepted, 1);
    http_count(&listener->accepted, 1);
    if (front->is_draining)
        front->polite_ms = HTTP_RECENT_MS;
    start_reading(connection);
    if (connection->socket.awaits_proxy || connection->socket.channel)
        begin_greeting(connection);
    else
        http_phase_enter(connection, HTTP_PHASE_IDLE);
}

/* Returns whether the socket has unread bytes. */
static bool has_unread(const struct http_connection *connection)
{
    int fd, bytes = 0;
    return connection->socket.is_reading && uv_fileno(&connection->socket.handle, &fd) == 0 &&
           ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* Handles the expiry of its phase. */
static void give_up_connection(struct http_connection *connection)
{
    struct http_fault fault;
    enum http_phase phase = connection->phase;
    enum http_fed fed =
        connection->wire->expire ? connection->wire->expire(connection, phase) : HTTP_FED_NONE;
    if (fed != HTTP_FED_NONE) {
        follow_wire(connection, fed, &fault);
        return;
    }
    if (phase == HTTP_PHASE_HELD) {
        probe_peer(connection);
        return;
    }
    if (phase == HTTP_PHASE_HEAD || phase == HTTP_PHASE_BODY) {
        (void)http_fault_set(&fault, PROBLEM_REQUEST_TIMEOUT, 0,
                             "the %s took longer than %lld ms to arrive",
                             phase == HTTP_PHASE_HEAD ? "header" : "body",
                             (long long)http_phase_timeout_ms(connection->front, phase));
        refuse_connection(connection, &fault);
        return;
    }
    if (phase == HTTP_PHASE_GREET) {
        cut_ungreeted(connection);
        return;
    }
    if (phase == HTTP_PHASE_IDLE && connection->front->is_draining && has_unread(connection)) {
        http_phase_begin(connection, phase);
        return;
    }
    if (phase == HTTP_PHASE_IDLE && connection->socket.channel) {
        connection->is_closing = true;
        http_input_drop(connection);
        http_phase_enter(connection, HTTP_PHASE_NONE);
        http_connection_touch(connection);
        return;
    }
    size_t left = phase == HTTP_PHASE_WRITE ? http_output_left(connection) : 0;
    if (left < connection->socket.write_left && phase == HTTP_PHASE_WRITE) {
        connection->socket.write_left = left;
        http_phase_begin(connection, phase);
        return;
    }
    cut_connection(connection);
}

void http_connections_hurry(struct http_front *front)
{
    http_phases_shorten(front);
    http_connections_expire(front);
}

void http_connections_expire(struct http_front *front)
{
    int64_t now_ms = http_front_now_ms(front);
    struct http_connection *connection;
    while ((connection = http_phases_find_over(front, now_ms)))
        give_up_connection(connection);
    http_phases_set_alarm(front);
}

/* Returns whether a further request must be answered before the end: no request in progress could
 * get the last answer, but one has begun to arrive or may be on its way. The previous answer did
 * not announce the end. */
static bool has_more_to_send(const struct http_connection *connection)
{
    if (connection->is_closing || connection->exchange_count)
        return false;
    if (connection->phase != HTTP_PHASE_IDLE)
        return true;
    return has_unread(connection) ||
           http_front_now_ms(connection->front) - idle_since_ms(connection) < HTTP_RECENT_MS;
}

/* Returns how long the next request of an idle connection may take to arrive. A client that made a
 * new connection will use it. Another one may be as slow as it was before: on a loaded machine it
 * can take long until it has read the last answer. */
static int64_t polite_ms(const struct http_connection *connection)
{
    int64_t ms = connection->is_used ? HTTP_PAUSES * connection->pause_ms : HTTP_RECENT_MS;
    if (connection->phase != HTTP_PHASE_IDLE || ms < HTTP_POLITE_MS)
        return HTTP_POLITE_MS;
    return ms < HTTP_RECENT_MS ? ms : HTTP_RECENT_MS;
}

static void end_connection(struct http_connection *connection)
{
    connection->is_closing = true;
    http_input_drop(connection);
    if (connection->phase != HTTP_PHASE_WRITE && connection->phase != HTTP_PHASE_LINGER)
        http_phase_enter(connection, HTTP_PHASE_NONE);
    http_connection_touch(connection);
}

/* Determines one time for all idle connections, so that their list stays ordered. */
static void choose_polite_ms(struct http_front *front)
{
    front->polite_ms = HTTP_POLITE_MS;
    for (struct list *node = front->connections.next; node != &front->connections;
         node = node->next) {
        const struct http_connection *connection = list_entry(node, struct http_connection, node);
        if (has_more_to_send(connection) && polite_ms(connection) > front->polite_ms)
            front->polite_ms = polite_ms(connection);
    }
}

void http_connections_drain(struct http_front *front)
{
    choose_polite_ms(front);
    for (struct list *node = front->connections.next, *next; node != &front->connections;
         node = next) {
        struct http_connection *connection = list_entry(node, struct http_connection, node);
        next = node->next;
        enum http_fed done = connection->wire->drain(connection);
        if (done == HTTP_FED_FAILED)
            cut_connection(connection);
        else if (done != HTTP_FED_NONE)
            continue;
        else if (has_more_to_send(connection))
            http_phase_begin(connection,
                             connection->phase); /* restarts it with the shorter timeout */
        else
            end_connection(connection);
    }
}

void http_connections_cut(struct http_front *front)
{
    while (!list_is_empty(&front->connections))
        cut_connection(list_entry(front->connections.next, struct http_connection, node));
}
