#include "targets/stream.h"

#include "base/buffer.h"
#include "net/activity.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    OUT_BYTES_MAX = 256 * 1024,
    /* Limit of `out`, larger because TLS adds to the data. */
    OUT_CEILING = 2 * OUT_BYTES_MAX,
    KEEPALIVE_S = 15,
    WHY_BYTES = 160
};

/* ---- TLS between buffers ----
 *
 * The owner of the socket transfers the bytes. The peer's certificate is checked against the
 * system's CAs and its name or address. */

struct stream_tls {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* owned by the ssl */
    char why[WHY_BYTES];
};

static bool is_ip_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool tls_expect_host(SSL *ssl, const char *host)
{
    if (is_ip_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

static bool tls_set_up_context(SSL_CTX *context, const char *ca_file)
{
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_default_verify_paths(context) == 1 &&
           (!ca_file || SSL_CTX_load_verify_locations(context, ca_file, NULL) == 1);
}

static bool tls_set_up(struct stream_tls *tls, const char *host, const char *ca_file)
{
    tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls->context || !tls_set_up_context(tls->context, ca_file))
        return false;
    tls->ssl = SSL_new(tls->context);
    if (!tls->ssl || !tls_expect_host(tls->ssl, host))
        return false;
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->in || !tls->out) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        return false;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    return true;
}

static void tls_free(struct stream_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    free(tls);
}

/* Returns NULL when out of memory or if the file cannot be read. */
static struct stream_tls *tls_new(const char *host, const char *ca_file)
{
    struct stream_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    ERR_clear_error();
    if (tls_set_up(tls, host, ca_file))
        return tls;
    tls_free(tls);
    return NULL;
}

/* Passes received bytes to TLS. Memory BIOs accept everything; a failure shows later as a broken
 * connection. */
static void tls_take_in(struct stream_tls *tls, const char *at, size_t len)
{
    (void)BIO_write(tls->in, at, (int)len);
}

static void tls_take_out(struct stream_tls *tls, struct buffer *out)
{
    size_t waiting;
    while ((waiting = BIO_ctrl_pending(tls->out)) > 0) {
        char *at = buffer_reserve(out, waiting);
        int count = at ? BIO_read(tls->out, at, (int)waiting) : 0;
        if (count <= 0)
            return;
        out->len += (size_t)count;
    }
}

/* Describes a failure briefly: the reason why a certificate was rejected, or the library's text. */
static const char *tls_explain(struct stream_tls *tls, const char *what)
{
    long decision = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_peek_last_error();
    const char *reason = decision != X509_V_OK ? X509_verify_cert_error_string(decision)
                         : code                ? ERR_reason_error_string(code)
                                               : NULL;
    (void)snprintf(tls->why, sizeof tls->why, "%s%s%s", what, reason ? ": " : "",
                   reason ? reason : "");
    ERR_clear_error();
    return tls->why;
}

/* Continues the handshake. Returns true when it is complete. Otherwise more data from the peer is
 * needed, or *fault is the error (valid as long as `tls`). */
static bool tls_shake_hands(struct stream_tls *tls, const char **fault)
{
    ERR_clear_error();
    int done = SSL_do_handshake(tls->ssl);
    int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, done);
    if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ)
        *fault = tls_explain(tls, "tls failed");
    return error == SSL_ERROR_NONE;
}

/* Returns the number of bytes read; 0: no data now, or the end, or *fault is set. */
static ssize_t tls_read(struct stream_tls *tls, char *into, size_t len, const char **fault)
{
    ERR_clear_error();
    int count = SSL_read(tls->ssl, into, (int)len);
    if (count > 0)
        return count;
    int error = SSL_get_error(tls->ssl, count);
    if (error == SSL_ERROR_ZERO_RETURN)
        *fault = "closed by the peer";
    else if (error != SSL_ERROR_WANT_READ)
        *fault = tls_explain(tls, "tls failed");
    return 0;
}

/* Writes all bytes. Returns false if the connection is broken. */
static bool tls_write(struct stream_tls *tls, const char *at, size_t len)
{
    ERR_clear_error();
    return SSL_write(tls->ssl, at, (int)len) == (int)len;
}

/* ---- the connection ---- */

struct stream {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    struct reactor *reactor;
    struct stream_events events;
    void *ctx;
    struct stream_tls *tls; /* NULL if plain */
    struct buffer out;      /* in network form */
    struct buffer sending;  /* used by the loop while is_writing */
    struct iteration_end_call iteration_end;
    bool is_up, is_writing, wants_room, has_ended, is_freed;
    bool cannot_write; /* the end is detected by reading */
    char why[WHY_BYTES];
    char in[64 * 1024];
};

static void stream_end(struct stream *stream, const char *why)
{
    if (stream->has_ended || stream->is_freed)
        return;
    stream->has_ended = true;
    (void)snprintf(stream->why, sizeof stream->why, "%s", why);
    (void)uv_read_stop((uv_stream_t *)&stream->tcp);
    reactor_once_at_iteration_end(stream->reactor, &stream->iteration_end);
}

/* ---- writing ---- */

static void stream_flush(struct stream *stream);

/* Handles a write error. A peer that ends the connection may have sent the reason, which can still
 * be read. */
static void stream_fail_write(struct stream *stream, int error)
{
    if (error == UV_EPIPE || error == UV_ECONNRESET)
        stream->cannot_write = true;
    else
        stream_end(stream, uv_strerror(error));
}

/* Runs when the loop has sent what uv_try_write left. */
static void on_written(uv_write_t *request, int status)
{
    struct stream *stream = request->data;
    stream->is_writing = false;
    if (stream->is_freed)
        return;
    buffer_clear(&stream->sending);
    if (status < 0) {
        stream_fail_write(stream, status);
        return;
    }
    stream_flush(stream);
    if (stream->wants_room && stream->out.len < OUT_BYTES_MAX) {
        stream->wants_room = false;
        stream->events.room(stream->ctx);
    }
}

/* Sends as much as the socket accepts now, and the rest later. */
static void stream_flush(struct stream *stream)
{
    uv_stream_t *tcp = (uv_stream_t *)&stream->tcp;
    if (stream->is_writing || stream->has_ended || stream->cannot_write || !stream->out.len)
        return;
    struct buffer swapped = stream->sending;
    stream->sending = stream->out;
    stream->out = swapped;
    uv_buf_t rest = uv_buf_init(stream->sending.at, (unsigned)stream->sending.len);
    int taken = uv_try_write(tcp, &rest, 1);
    if (taken > 0) {
        rest.base += taken;
        rest.len -= (size_t)taken;
    }
    if (rest.len == 0) {
        buffer_clear(&stream->sending);
        return;
    }
    int error = uv_write(&stream->writing, tcp, &rest, 1, on_written);
    stream->is_writing = error == 0;
    if (error)
        stream_end(stream, uv_strerror(error));
}

/* Sends the data collected in this loop iteration; reports the end or room to the owner. */
static void on_iteration_end(struct iteration_end_call *call)
{
    struct stream *stream = list_entry(call, struct stream, iteration_end);
    stream_flush(stream);
    if (stream->has_ended) {
        /* The code that acts on it may have run in this iteration already. */
        reactor_iterate_again(stream->reactor);
        stream->events.down(stream->ctx, stream->why);
    } else if (stream->wants_room && !stream->is_writing) {
        stream->wants_room = false;
        stream->events.room(stream->ctx);
    }
}

/* Adds the output of TLS to the data to send. */
static void stream_drain_tls(struct stream *stream)
{
    tls_take_out(stream->tls, &stream->out);
    if (stream->out.failed)
        stream_end(stream, "out of memory");
    else if (stream->out.len)
        reactor_once_at_iteration_end(stream->reactor, &stream->iteration_end);
}

size_t stream_write(struct stream *stream, const char *at, size_t len)
{
    if (!stream->is_up || stream->has_ended || stream->is_freed)
        return 0;
    size_t room = stream->out.len < OUT_BYTES_MAX ? OUT_BYTES_MAX - stream->out.len : 0;
    size_t taken = len < room ? len : room;
    if (stream->tls) {
        if (taken && !tls_write(stream->tls, at, taken))
            stream_end(stream, "tls failed");
        stream_drain_tls(stream);
    } else {
        buffer_append(&stream->out, at, taken);
        if (stream->out.failed)
            stream_end(stream, "out of memory");
    }
    stream->wants_room = stream->wants_room || taken < len;
    reactor_once_at_iteration_end(stream->reactor, &stream->iteration_end);
    return taken;
}

/* ---- reading ---- */

static void stream_come_up(struct stream *stream)
{
    stream->is_up = true;
    stream->events.up(stream->ctx);
}

/* Passes received bytes through TLS; the owner may free the stream in its event. */
static void stream_take_tls(struct stream *stream, const char *bytes, size_t len)
{
    char plain[16 * 1024];
    const char *fault = NULL;
    ssize_t count = 0;
    tls_take_in(stream->tls, bytes, len);
    if (!stream->is_up) {
        bool is_done = tls_shake_hands(stream->tls, &fault);
        stream_drain_tls(stream);
        if (is_done)
            stream_come_up(stream);
    }
    while (stream->is_up && !fault && !stream->is_freed && !stream->has_ended &&
           (count = tls_read(stream->tls, plain, sizeof plain, &fault)) > 0)
        stream->events.bytes(stream->ctx, plain, (size_t)count);
    if (stream->is_freed)
        return;
    stream_drain_tls(stream);
    if (fault)
        stream_end(stream, fault);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
    struct stream *stream = handle->data;
    (void)wanted;
    *room = uv_buf_init(stream->in, sizeof stream->in);
}

static void on_read(uv_stream_t *tcp, ssize_t count, const uv_buf_t *bytes)
{
    struct stream *stream = tcp->data;
    activity_begin("deliveries");
    if (stream->is_freed || stream->has_ended)
        return;
    if (count == UV_EOF)
        stream_end(stream, "closed by the peer");
    else if (count < 0)
        stream_end(stream, uv_strerror((int)count));
    else if (count > 0 && stream->tls)
        stream_take_tls(stream, bytes->base, (size_t)count);
    else if (count > 0)
        stream->events.bytes(stream->ctx, bytes->base, (size_t)count);
}

/* Sends the first message of the handshake. */
static void stream_begin_handshake(struct stream *stream)
{
    const char *fault = NULL;
    (void)tls_shake_hands(stream->tls, &fault);
    stream_drain_tls(stream);
    if (fault)
        stream_end(stream, fault);
}

bool stream_start_tls(struct stream *stream, const char *tls_host, const char *ca_file)
{
    assert(stream->is_up && !stream->tls);
    if (!(stream->tls = tls_new(tls_host, ca_file)))
        return false;
    stream->is_up = false;
    stream_begin_handshake(stream);
    return true;
}

/* Handles the connected socket: a plain stream is up, TLS begins the handshake. */
static void on_connected(uv_connect_t *request, int status)
{
    struct stream *stream = request->data;
    if (stream->is_freed)
        return;
    if (status == 0)
        status = uv_read_start((uv_stream_t *)&stream->tcp, on_room, on_read);
    if (status < 0) {
        stream_end(stream, uv_strerror(status));
        return;
    }
    (void)uv_tcp_nodelay(&stream->tcp, 1);
    (void)uv_tcp_keepalive(&stream->tcp, 1, KEEPALIVE_S);
    if (stream->tls)
        stream_begin_handshake(stream);
    else
        stream_come_up(stream);
}

/* ---- life ---- */

static void on_closed(uv_handle_t *handle)
{
    struct stream *stream = handle->data;
    tls_free(stream->tls);
    buffer_fini(&stream->out);
    buffer_fini(&stream->sending);
    free(stream);
}

static void stream_init(struct stream *stream, struct reactor *reactor,
                        const struct stream_events *events, void *ctx)
{
    stream->reactor = reactor;
    stream->events = *events;
    stream->ctx = ctx;
    stream->tcp.data = stream->connecting.data = stream->writing.data = stream;
    stream->iteration_end.run = on_iteration_end;
    list_init(&stream->iteration_end.list);
    buffer_init(&stream->out, OUT_CEILING);
    buffer_init(&stream->sending, OUT_CEILING);
}

struct stream *stream_new(struct reactor *reactor, const struct sockaddr *address,
                          const char *tls_host, const char *ca_file,
                          const struct stream_events *events, void *ctx)
{
    struct stream *stream = malloc(sizeof *stream);
    if (!stream)
        return NULL;
    memset(stream, 0, offsetof(struct stream, in));
    stream_init(stream, reactor, events, ctx);
    if (tls_host && !(stream->tls = tls_new(tls_host, ca_file))) {
        free(stream);
        return NULL;
    }
    if (uv_tcp_init(reactor_loop(reactor), &stream->tcp) != 0) {
        tls_free(stream->tls);
        free(stream);
        return NULL;
    }
    int error = uv_tcp_connect(&stream->connecting, &stream->tcp, address, on_connected);
    if (error)
        stream_end(stream, uv_strerror(error));
    return stream;
}

void stream_free(struct stream *stream)
{
    if (!stream)
        return;
    if (stream->is_up)
        stream_flush(stream);
    stream->is_freed = true;
    reactor_cancel_at_iteration_end(&stream->iteration_end);
    uv_close((uv_handle_t *)&stream->tcp, on_closed);
}
