#include "load/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    ANSWER_WAIT_S = 5,
    READ_BYTES = 32 * 1024,
    SEALED_BYTES = 1 << 18,
    SEALED_BYTES_MAX = 1 << 28
};

static int connect_to(const char *host, const char *port, char problem[LOAD_TEXT_BYTES_MAX])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "no address for '%.100s': %s", host,
                 gai_strerror(rc));
        return -1;
    }
    int fd = -1, failure = 0;
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0)
            break;
        failure = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "no server answers at '%.100s:%s': %s", host, port,
                 strerror(failure));
        return -1;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* ---- TLS ---- */

/* Buffer for received TLS records: one thread, one read at a time. */
static char sealed_in[SEALED_BYTES];

/* Sends pending TLS records. Returns false with errno if some remain. */
static bool send_sealed(struct load_socket *socket)
{
    struct buffer *sealed = &socket->sealed;
    while (socket->sealed_sent < sealed->len) {
        ssize_t sent = send(socket->fd, sealed->at + socket->sealed_sent,
                            sealed->len - socket->sealed_sent, MSG_NOSIGNAL);
        if (sent < 0)
            return false;
        socket->sealed_sent += (size_t)sent;
    }
    socket->sealed_sent = 0;
    buffer_clear(sealed);
    return true;
}

static bool shake_hands(struct load_socket *socket)
{
    char none;
    while (tls_state_of(socket->tls) == TLS_HANDSHAKE) {
        if (!send_sealed(socket))
            return false;
        ssize_t got = recv(socket->fd, sealed_in, sizeof sealed_in, 0);
        if (got <= 0)
            return false;
        tls_feed(socket->tls, sealed_in, (size_t)got);
        (void)tls_read(socket->tls, &none, 0, &socket->sealed);
    }
    return send_sealed(socket) && tls_state_of(socket->tls) == TLS_OPEN;
}

static bool begin_tls(struct load_socket *socket, const struct load_plan *plan,
                      char problem[LOAD_TEXT_BYTES_MAX])
{
    buffer_init(&socket->sealed, SEALED_BYTES_MAX);
    socket->tls = tls_session_connect(plan->tls, plan->host, &socket->sealed);
    if (socket->tls && shake_hands(socket))
        return true;
    const char *why = socket->tls ? tls_why(socket->tls) : "out of memory";
    snprintf(problem, LOAD_TEXT_BYTES_MAX, "no TLS with '%.100s': %.100s", plan->host,
             *why ? why : "the server ended the connection");
    return false;
}

ssize_t load_socket_send(struct load_socket *socket, const char *bytes, size_t len)
{
    if (!socket->tls)
        return send(socket->fd, bytes, len, MSG_NOSIGNAL);
    if (socket->sealed_plain == 0) {
        if (!tls_write(socket->tls, bytes, len, &socket->sealed)) {
            errno = EPIPE;
            return -1;
        }
        socket->sealed_plain = len;
    }
    if (!send_sealed(socket))
        return -1;
    size_t sent = socket->sealed_plain;
    socket->sealed_plain = 0;
    return (ssize_t)sent;
}

ssize_t load_socket_receive(struct load_socket *socket, char *into, size_t cap)
{
    if (!socket->tls)
        return recv(socket->fd, into, cap, 0);
    size_t room = cap - LOAD_SOCKET_RECORD_BYTES, read = 0;
    ssize_t got = recv(socket->fd, sealed_in, room < sizeof sealed_in ? room : sizeof sealed_in, 0);
    if (got <= 0)
        return got;
    tls_feed(socket->tls, sealed_in, (size_t)got);
    while ((got = tls_read(socket->tls, into + read, cap - read, &socket->sealed)) > 0)
        read += (size_t)got;
    if (read == 0 && got == 0)
        errno = EAGAIN;
    return read ? (ssize_t)read : got < 0 ? 0 : -1;
}

/* ---- opening and calling ---- */

bool load_socket_open(struct load_socket *socket, const struct load_plan *plan, const char *port,
                      bool blocks, char problem[LOAD_TEXT_BYTES_MAX])
{
    *socket = (struct load_socket){.fd = connect_to(plan->host, port, problem)};
    if (socket->fd < 0)
        return false;
    if (plan->tls && !begin_tls(socket, plan, problem)) {
        load_socket_close(socket);
        return false;
    }
    if (!blocks)
        fcntl(socket->fd, F_SETFL, fcntl(socket->fd, F_GETFL) | O_NONBLOCK);
    return true;
}

void load_socket_close(struct load_socket *socket)
{
    if (socket->fd >= 0)
        close(socket->fd);
    socket->fd = -1;
    tls_session_free(socket->tls);
    socket->tls = NULL;
    buffer_fini(&socket->sealed);
}

static bool send_all(struct load_socket *socket, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = load_socket_send(socket, bytes.at, bytes.len);
        if (sent <= 0)
            return false;
        bytes = slice_make(bytes.at + sent, bytes.len - (size_t)sent);
    }
    return true;
}

bool load_socket_call(const struct load_plan *plan, struct slice request, struct buffer *answer,
                      bool (*is_whole)(struct slice answer), char problem[LOAD_TEXT_BYTES_MAX])
{
    struct load_socket socket;
    if (!load_socket_open(&socket, plan, plan->port, true, problem))
        return false;
    struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
    setsockopt(socket.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    bool whole = false, open = send_all(&socket, request);
    while (open && !whole) {
        char *at = buffer_reserve(answer, READ_BYTES);
        errno = 0;
        ssize_t got = at ? load_socket_receive(&socket, at, READ_BYTES) : -1;
        open = got > 0 || (socket.tls && got < 0 && errno == EAGAIN);
        if (got > 0)
            answer->len += (size_t)got;
        whole = is_whole(buffer_slice(answer));
    }
    if (!whole)
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "no complete answer from '%.100s:%s' within %d s",
                 plan->host, plan->port, (int)ANSWER_WAIT_S);
    load_socket_close(&socket);
    return whole;
}
