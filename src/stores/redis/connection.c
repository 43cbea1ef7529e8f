#include "redis/connection.h"

#include "base/clock.h"
#include "net/activity.h"
#include "redis/tls.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

/* ---- connecting ---- */

/* Detection of a silently lost peer: by keepalive probes if nothing is in transit, and by
 * unacknowledged data otherwise (the system's default timeout for this is a quarter of an hour). */
enum { ADDRESSES_MAX = 16, KEEPALIVE_S = 15, UNTAKEN_MS = 20000, WHY_BYTES = 512 };

enum { SOCKET_IN_BYTES = 16 * 1024 };

/* A stream, and the memory that must live as long as its handle. On the heap; freed by
 * socket_close. */
struct socket {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    void *owner; /* NULL after it was closed: callbacks of its requests may still run */
    uv_connect_t connecting;
    uv_write_t writing;
    struct buffer sending; /* the data that `writing` sends */
    char in[SOCKET_IN_BYTES];
};

/* A resolver request, which outlives its connector if it can no longer be cancelled. */
struct lookup {
    uv_getaddrinfo_t request;
    struct connector *connector;
};

/* Reports the result of a connector. If `socket` is NULL, `why` is the reason for people. Otherwise
 * the socket and its `owner` field belong to the caller. Called once, never inside a call. */
typedef void connector_done(void *ctx, struct socket *socket, const char *why);

/* A connection attempt, from endpoint to connected stream: resolves the name and tries each address
 * in turn with its share of the remaining time. */
struct connector {
    struct reactor *reactor;
    struct redis_endpoint endpoint;
    connector_done *done;
    void *ctx;
    int64_t connect_ms, until_ms;
    struct deadline *deadline;
    struct lookup *lookup; /* in progress */
    struct socket *socket; /* in progress */
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    uint32_t address_count, next;
    struct iteration_end_call failing; /* reports a failure after the call in which it occurred */
    char why[WHY_BYTES];
};

/* ---- sockets ---- */

static void on_closed(uv_handle_t *handle)
{
    struct socket *socket = handle->data;
    buffer_fini(&socket->sending);
    free(socket);
}

static void socket_close(struct socket *socket)
{
    if (!socket)
        return;
    socket->owner = NULL;
    uv_close(&socket->handle, on_closed);
}

static struct socket *socket_new(struct connector *connector)
{
    uv_loop_t *loop = reactor_loop(connector->reactor);
    struct socket *socket = malloc(sizeof *socket);
    if (!socket)
        return NULL;
    memset(socket, 0, offsetof(struct socket, in));
    int error = connector->endpoint.port == 0 ? uv_pipe_init(loop, &socket->pipe, 0)
                                              : uv_tcp_init(loop, &socket->tcp);
    if (error) {
        free(socket);
        return NULL;
    }
    socket->handle.data = socket;
    socket->connecting.data = socket;
    socket->writing.data = socket;
    socket->owner = connector;
    return socket;
}

static void socket_tune(struct socket *socket)
{
    uv_os_fd_t fd;
    unsigned untaken_ms = UNTAKEN_MS;
    if (socket->handle.type != UV_TCP || uv_fileno(&socket->handle, &fd) != 0)
        return;
    (void)uv_tcp_nodelay(&socket->tcp, 1);
    (void)uv_tcp_keepalive(&socket->tcp, 1, KEEPALIVE_S);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &untaken_ms, sizeof untaken_ms);
}

/* ---- trying the addresses in turn ---- */

static void connector_fail(struct connector *connector, const char *what, const char *reason)
{
    char name[REDIS_ENDPOINT_NAME_BYTES];
    redis_endpoint_name(&connector->endpoint, name);
    (void)snprintf(connector->why, sizeof connector->why, "%s '%s': %s", what, name, reason);
    deadline_set(connector->deadline, INT64_MAX);
    reactor_once_at_iteration_end(connector->reactor, &connector->failing);
}

static void try_address(struct connector *connector, const char *reason);

static void on_connected(uv_connect_t *request, int status)
{
    struct socket *socket = request->data;
    struct connector *connector = socket->owner;
    if (!connector)
        return;
    connector->socket = NULL;
    if (status < 0) {
        socket_close(socket);
        try_address(connector, uv_strerror(status));
        return;
    }
    deadline_set(connector->deadline, INT64_MAX);
    socket->owner = NULL;
    socket_tune(socket);
    connector->done(connector->ctx, socket, NULL);
}

static int connector_start(struct connector *connector, const struct sockaddr_storage *address)
{
    struct socket *socket = connector->socket = socket_new(connector);
    if (!socket)
        return UV_ENOMEM;
    if (address)
        return uv_tcp_connect(&socket->connecting, &socket->tcp,
                              (const struct sockaddr *)(const void *)address, on_connected);
    uv_pipe_connect(&socket->connecting, &socket->pipe, connector->endpoint.host, on_connected);
    return 0;
}

/* Tries the next address. `reason`: why the previous one failed. */
static void try_address(struct connector *connector, const char *reason)
{
    while (connector->next < connector->address_count) {
        int64_t now_ms = clock_inner_ms(), left_ms = connector->until_ms - now_ms;
        int64_t share_ms = left_ms / (connector->address_count - connector->next);
        int error = connector_start(connector, &connector->addresses[connector->next++]);
        if (error == 0) {
            deadline_set(connector->deadline, now_ms + (share_ms > 1 ? share_ms : 1));
            return;
        }
        socket_close(connector->socket);
        connector->socket = NULL;
        reason = uv_strerror(error);
    }
    connector_fail(connector, "no connection to", reason);
}

static void connect_path(struct connector *connector)
{
    const struct sockaddr_un *limit = NULL;
    if (strlen(connector->endpoint.host) >= sizeof limit->sun_path) {
        connector_fail(connector, "no connection to", "a socket's path has at most 107 bytes");
        return;
    }
    deadline_set(connector->deadline, connector->until_ms);
    if (connector_start(connector, NULL) != 0)
        connector_fail(connector, "no connection to", uv_strerror(UV_ENOMEM));
}

/* ---- resolving the name ---- */

static void take_addresses(struct connector *connector, const struct addrinfo *found)
{
    for (; found && connector->address_count < ADDRESSES_MAX; found = found->ai_next)
        if (found->ai_addrlen <= sizeof connector->addresses[0])
            memcpy(&connector->addresses[connector->address_count++], found->ai_addr,
                   found->ai_addrlen);
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct lookup *lookup = request->data;
    struct connector *connector = lookup->connector;
    free(lookup);
    if (connector) {
        connector->lookup = NULL;
        take_addresses(connector, found);
        if (status < 0)
            connector_fail(connector, "no address of", uv_strerror(status));
        else
            try_address(connector, "it has no address");
    }
    uv_freeaddrinfo(found);
}

static void look_up(struct connector *connector)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    (void)snprintf(port, sizeof port, "%u", (unsigned)connector->endpoint.port);
    struct lookup *lookup = calloc(1, sizeof *lookup);
    int error = UV_ENOMEM;
    if (lookup) {
        lookup->request.data = lookup;
        lookup->connector = connector;
        error = uv_getaddrinfo(reactor_loop(connector->reactor), &lookup->request, on_found,
                               connector->endpoint.host, port, &hints);
    }
    if (error) {
        free(lookup);
        connector_fail(connector, "no address of", uv_strerror(error));
        return;
    }
    connector->lookup = lookup;
    deadline_set(connector->deadline, connector->until_ms);
}

/* Parses the host as an address. An address needs no resolver, whose threads may all be busy with
 * names that do not resolve. */
static bool is_address(struct connector *connector)
{
    void *into = &connector->addresses[0];
    if (uv_ip4_addr(connector->endpoint.host, connector->endpoint.port, into) != 0 &&
        uv_ip6_addr(connector->endpoint.host, connector->endpoint.port, into) != 0)
        return false;
    connector->address_count = 1;
    return true;
}

/* Releases the socket and the lookup in progress. */
static void connector_drop(struct connector *connector)
{
    socket_close(connector->socket);
    connector->socket = NULL;
    if (connector->lookup) {
        connector->lookup->connector = NULL;
        (void)uv_cancel((uv_req_t *)&connector->lookup->request);
        connector->lookup = NULL;
    }
}

static void on_connect_deadline(void *ctx)
{
    struct connector *connector = ctx;
    char reason[64];
    bool in_lookup = connector->lookup;
    connector_drop(connector);
    (void)snprintf(reason, sizeof reason, "it took longer than %lld ms",
                   (long long)connector->connect_ms);
    if (in_lookup)
        connector_fail(connector, "no address of", reason);
    else
        try_address(connector, reason);
}

static void on_connect_failing(struct iteration_end_call *call)
{
    struct connector *connector = list_entry(call, struct connector, failing);
    connector->done(connector->ctx, NULL, connector->why);
}

static struct connector *connector_new(struct reactor *reactor,
                                       const struct redis_endpoint *endpoint, int64_t connect_ms,
                                       connector_done *done, void *ctx)
{
    struct connector *connector = calloc(1, sizeof *connector);
    if (!connector)
        return NULL;
    connector->deadline = deadline_new(reactor, on_connect_deadline, connector);
    if (!connector->deadline) {
        free(connector);
        return NULL;
    }
    connector->reactor = reactor;
    connector->endpoint = *endpoint;
    connector->done = done;
    connector->ctx = ctx;
    connector->connect_ms = connect_ms;
    connector->until_ms = clock_inner_ms() + connect_ms;
    connector->failing.run = on_connect_failing;
    list_init(&connector->failing.list);
    if (endpoint->port == 0)
        connect_path(connector);
    else if (is_address(connector))
        try_address(connector, "");
    else
        look_up(connector);
    return connector;
}

static void connector_free(struct connector *connector)
{
    if (!connector)
        return;
    connector_drop(connector);
    reactor_cancel_at_iteration_end(&connector->failing);
    deadline_free(connector->deadline);
    free(connector);
}

/* ---- the connection ---- */

/*
 * Unsent commands are limited so that a stuck server cannot exhaust memory; a caller that checks
 * redis_connection_unsent stays far below the limit. Buffers keep some memory between loop
 * iterations and release what a rare large one needed.
 */
#define OUT_BYTES_MAX ((size_t)3 << 30)
enum { BYTES_KEPT = 1024 * 1024 };

struct redis_connection {
    struct reactor *reactor;
    struct redis_connection_events events;
    void *ctx;
    char name[REDIS_ENDPOINT_NAME_BYTES];
    struct connector *connector; /* NULL when done */
    struct socket *socket;       /* NULL: not connected */
    redisReader *reader;
    redisReply *reply; /* valid while its callback runs and has not taken it */
    struct buffer out;
    const struct redis_tls *tls;
    struct redis_endpoint endpoint; /* used with TLS */
    struct tls_session *session;    /* NULL: not encrypted, or not connected */
    struct buffer sealed;           /* encrypted bytes to be sent */
    struct deadline *greeting;      /* with TLS: time limit of the handshake */
    int64_t connect_ms;
    struct iteration_end_call iteration_end;
    uint64_t *bytes_sent, *bytes_received; /* may be NULL */
    bool is_up;
    bool is_sending;   /* the socket has bytes that it did not accept immediately */
    bool cannot_write; /* writing has failed; reading continues to the end */
    bool has_ended, notified_down;
    bool in_callback, is_freed;
    char why[REDIS_ENDPOINT_NAME_BYTES + 256];
};

/* ---- notifying the owner ---- */

static void connection_release(struct redis_connection *connection)
{
    if (connection->reader)
        redisReaderFree(connection->reader);
    tls_session_free(connection->session);
    deadline_free(connection->greeting);
    buffer_fini(&connection->sealed);
    buffer_fini(&connection->out);
    free(connection);
}

/* Begins a callback; callback_leave ends it and returns false if the owner freed the connection in
 * it. */
static void callback_enter(struct redis_connection *connection)
{
    assert(!connection->in_callback);
    connection->in_callback = true;
}

static bool callback_leave(struct redis_connection *connection)
{
    connection->in_callback = false;
    if (!connection->is_freed)
        return true;
    connection_release(connection);
    return false;
}

static void connection_touch(struct redis_connection *connection)
{
    reactor_once_at_iteration_end(connection->reactor, &connection->iteration_end);
}

/* Ends the connection. The owner is notified at the end of the loop iteration. Bytes appended later
 * are discarded. */
static void connection_end(struct redis_connection *connection, const char *what,
                           const char *reason)
{
    if (connection->has_ended)
        return;
    connection->has_ended = true;
    (void)snprintf(connection->why, sizeof connection->why, "%s '%s'%s%s", what, connection->name,
                   reason ? ": " : "", reason ? reason : "");
    socket_close(connection->socket);
    connection->socket = NULL;
    if (connection->greeting)
        deadline_set(connection->greeting, INT64_MAX);
    buffer_fini(&connection->out);
    buffer_fini(&connection->sealed);
    connection->out.bytes_max = 0;
    connection_touch(connection);
}

static void notify_down(struct redis_connection *connection)
{
    connection->notified_down = true;
    /* Other hooks may already have run in this iteration: run them again. */
    reactor_iterate_again(connection->reactor);
    callback_enter(connection);
    connection->events.down(connection->ctx, connection->why);
    (void)callback_leave(connection);
}

/* ---- receiving ---- */

/* Passes a reply to the owner. Returns false if reading must stop. */
static bool hand_on(struct redis_connection *connection, redisReply *reply)
{
    callback_enter(connection);
    connection->reply = reply;
    connection->events.reply(connection->ctx, reply);
    if (connection->reply)
        freeReplyObject(connection->reply);
    connection->reply = NULL;
    return callback_leave(connection) && !connection->has_ended;
}

redisReply *redis_connection_take_reply(struct redis_connection *connection)
{
    redisReply *reply = connection->reply;
    connection->reply = NULL;
    return reply;
}

static void take_in(struct redis_connection *connection, const char *bytes, size_t len)
{
    void *reply = NULL;
    activity_begin("replies of Redis");
    int status = redisReaderFeed(connection->reader, bytes, len);
    while (status == REDIS_OK) {
        status = redisReaderGetReply(connection->reader, &reply);
        if (status != REDIS_OK)
            break;
        if (!reply || !hand_on(connection, reply))
            return;
    }
    connection_end(connection, "no replies can be read from", connection->reader->errstr);
}

static void notify_up(struct redis_connection *connection)
{
    connection->is_up = true;
    connection_touch(connection);
    callback_enter(connection);
    connection->events.up(connection->ctx);
    (void)callback_leave(connection);
}

static void end_by_tls(struct redis_connection *connection)
{
    char reason[256];
    if (tls_state_of(connection->session) == TLS_ENDED) {
        connection_end(connection, "connection closed by", NULL);
        return;
    }
    redis_tls_explain(connection->session, reason, sizeof reason);
    connection_end(connection, connection->is_up ? "connection lost to" : "no connection to",
                   reason);
}

/* Decrypts and processes received bytes, until the owner releases the connection in a callback. */
static void take_in_sealed(struct redis_connection *connection, const char *bytes, size_t len)
{
    struct socket *socket = connection->socket;
    struct tls_session *session = connection->session;
    char plain[SOCKET_IN_BYTES];
    ssize_t got = 0;
    tls_feed(session, bytes, len);
    do {
        got = tls_read(session, plain, sizeof plain, &connection->sealed);
        if (!connection->is_up && tls_state_of(session) == TLS_OPEN) {
            deadline_set(connection->greeting, INT64_MAX);
            notify_up(connection);
        }
        if (got > 0 && socket->owner)
            take_in(connection, plain, (size_t)got);
    } while (got > 0 && socket->owner);
    if (!socket->owner)
        return;
    connection_touch(connection);
    if (got < 0)
        end_by_tls(connection);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
    struct socket *socket = handle->data;
    (void)wanted;
    *room = uv_buf_init(socket->in, sizeof socket->in);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes)
{
    struct socket *socket = stream->data;
    struct redis_connection *connection = socket->owner;
    if (!connection)
        return;
    if (count > 0 && connection->bytes_received)
        *connection->bytes_received += (uint64_t)count;
    if (count == UV_EOF)
        connection_end(connection, "connection closed by", NULL);
    else if (count < 0)
        connection_end(connection, "connection lost to", uv_strerror((int)count));
    else if (count > 0 && connection->session)
        take_in_sealed(connection, bytes->base, (size_t)count);
    else if (count > 0)
        take_in(connection, bytes->base, (size_t)count);
}

/* ---- sending ---- */

/* Handles a failed write. A peer that closes the connection may have sent the reason: that can
 * still be read, and reading then reaches the end on its own. */
static void fail_write(struct redis_connection *connection, int error)
{
    if (error == UV_EPIPE || error == UV_ECONNRESET)
        connection->cannot_write = true;
    else
        connection_end(connection, "connection lost to", uv_strerror(error));
}

static void on_written(uv_write_t *request, int status)
{
    struct socket *socket = request->data;
    struct redis_connection *connection = socket->owner;
    buffer_clear_and_trim(&socket->sending, BYTES_KEPT);
    if (!connection)
        return;
    connection->is_sending = false;
    if (status < 0)
        fail_write(connection, status);
    else if (connection->out.len || connection->sealed.len)
        connection_touch(connection);
}

/* Leaves the rest to the socket to send when it can; meanwhile the other buffer fills. */
static int write_later(struct redis_connection *connection, struct buffer *sent, size_t done)
{
    struct socket *socket = connection->socket;
    struct buffer emptied = socket->sending;
    uv_buf_t rest = {.base = sent->at + done, .len = sent->len - done};
    socket->sending = *sent;
    *sent = emptied;
    sent->bytes_max = OUT_BYTES_MAX;
    connection->is_sending = true; /* also if this fails, because the connection then ends */
    return uv_write(&socket->writing, &socket->stream, &rest, 1, on_written);
}

/* Encrypts pending commands, with TLS, once the handshake has completed. */
static bool seal_out(struct redis_connection *connection)
{
    struct buffer *out = &connection->out;
    if (out->len && tls_state_of(connection->session) != TLS_HANDSHAKE) {
        if (!tls_write(connection->session, out->at, out->len, &connection->sealed))
            return false;
        buffer_clear_and_trim(out, BYTES_KEPT);
    }
    return !connection->sealed.failed;
}

static void write_out(struct redis_connection *connection)
{
    struct buffer *sent = connection->session ? &connection->sealed : &connection->out;
    bool can_write = connection->socket && !connection->is_sending && !connection->cannot_write;
    if (connection->out.failed || (connection->session && can_write && !seal_out(connection))) {
        connection_end(connection, "no memory for what is to be sent to", NULL);
        return;
    }
    if (!can_write || !sent->len)
        return;
    uv_buf_t all = {.base = sent->at, .len = sent->len};
    if (connection->bytes_sent)
        *connection->bytes_sent += sent->len;
    int done = uv_try_write(&connection->socket->stream, &all, 1);
    if (done == UV_EAGAIN)
        done = 0;
    if (done >= 0 && (size_t)done == sent->len) {
        buffer_clear_and_trim(sent, BYTES_KEPT);
        return;
    }
    int error = done < 0 ? done : write_later(connection, sent, (size_t)done);
    if (error)
        fail_write(connection, error);
}

static void on_iteration_end(struct iteration_end_call *call)
{
    struct redis_connection *connection = list_entry(call, struct redis_connection, iteration_end);
    if (!connection->has_ended)
        write_out(connection);
    if (connection->has_ended && !connection->notified_down)
        notify_down(connection);
}

/* ---- life cycle ---- */

static void on_greeting_over(void *ctx)
{
    struct redis_connection *connection = ctx;
    char reason[80];
    (void)snprintf(reason, sizeof reason, "its TLS handshake took longer than %lld ms",
                   (long long)connection->connect_ms);
    connection_end(connection, "no connection to", reason);
}

/* Returns false if memory runs out. */
static bool begin_tls(struct redis_connection *connection)
{
    connection->greeting = deadline_new(connection->reactor, on_greeting_over, connection);
    connection->session =
        redis_tls_connect(connection->tls, &connection->endpoint, &connection->sealed);
    if (!connection->greeting || !connection->session)
        return false;
    deadline_set(connection->greeting, clock_inner_ms() + connection->connect_ms);
    return true;
}

static void on_dialled(void *ctx, struct socket *socket, const char *why)
{
    struct redis_connection *connection = ctx;
    if (!socket) {
        connection->has_ended = true;
        (void)snprintf(connection->why, sizeof connection->why, "%s", why);
    }
    connector_free(connection->connector);
    connection->connector = NULL;
    if (!socket) {
        notify_down(connection);
        return;
    }
    connection->socket = socket;
    socket->owner = connection;
    if (connection->tls && connection->tls->is_on && !begin_tls(connection)) {
        connection_end(connection, "no memory for a connection to", NULL);
        return;
    }
    int error = uv_read_start(&socket->stream, on_room, on_read);
    if (error)
        connection_end(connection, "connection lost to", uv_strerror(error));
    else if (connection->session)
        connection_touch(connection);
    else
        notify_up(connection);
}

struct redis_connection *redis_connection_new(struct reactor *reactor,
                                              const struct redis_endpoint *endpoint,
                                              const struct redis_tls *tls, int64_t connect_ms,
                                              const struct redis_connection_events *events,
                                              void *ctx)
{
    struct redis_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->reader = redisReaderCreate();
    if (connection->reader)
        connection->connector =
            connector_new(reactor, endpoint, connect_ms, on_dialled, connection);
    if (!connection->connector) {
        connection_release(connection);
        return NULL;
    }
    connection->reader->maxbuf = BYTES_KEPT;
    connection->reactor = reactor;
    connection->events = *events;
    connection->ctx = ctx;
    connection->tls = tls;
    connection->endpoint = *endpoint;
    connection->connect_ms = connect_ms;
    redis_endpoint_name(endpoint, connection->name);
    buffer_init(&connection->out, OUT_BYTES_MAX);
    buffer_init(&connection->sealed, OUT_BYTES_MAX);
    connection->iteration_end.run = on_iteration_end;
    list_init(&connection->iteration_end.list);
    return connection;
}

void redis_connection_free(struct redis_connection *connection)
{
    if (!connection)
        return;
    assert(!connection->is_freed);
    connector_free(connection->connector);
    socket_close(connection->socket);
    connection->socket = NULL;
    reactor_cancel_at_iteration_end(&connection->iteration_end);
    connection->has_ended = connection->is_freed = true;
    if (!connection->in_callback)
        connection_release(connection);
}

void redis_connection_count(struct redis_connection *connection, uint64_t *sent, uint64_t *received)
{
    connection->bytes_sent = sent;
    connection->bytes_received = received;
}

struct buffer *redis_connection_out(struct redis_connection *connection)
{
    if (!connection->has_ended)
        connection_touch(connection);
    return &connection->out;
}

size_t redis_connection_unsent(const struct redis_connection *connection)
{
    size_t with_socket =
        connection->socket ? uv_stream_get_write_queue_size(&connection->socket->stream) : 0;
    return connection->out.len + connection->sealed.len + with_socket;
}
