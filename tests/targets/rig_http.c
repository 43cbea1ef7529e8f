/* A small HTTP server on a thread: takes each POST and answers 200. */
#include "rig.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONNECTIONS_MAX = 1024, BYTES_MAX = 64 * 1024 };

struct connection {
    int fd;
    size_t len;
    char bytes[BYTES_MAX];
};

static struct {
    pthread_t thread;
    int listener;
    uint16_t port;
    atomic_bool is_running, is_stalled;
    atomic_size_t count;
    struct connection *connections[CONNECTIONS_MAX];
    size_t connection_count;
} peer;

static void drop(size_t i)
{
    close(peer.connections[i]->fd);
    free(peer.connections[i]);
    peer.connections[i] = peer.connections[--peer.connection_count];
}

/* The size of the request that the bytes begin with; 0: not all of it is there. */
static size_t request_bytes(const struct connection *connection)
{
    const char *end = memmem(connection->bytes, connection->len, "\r\n\r\n", 4);
    if (!end)
        return 0;
    size_t head = (size_t)(end - connection->bytes) + 4;
    char text[BYTES_MAX];
    memcpy(text, connection->bytes, head);
    text[head - 1] = '\0';
    const char *field = strcasestr(text, "\r\ncontent-length:");
    size_t body = field ? strtoul(field + 17, NULL, 10) : 0;
    return head + body <= connection->len ? head + body : 0;
}

static bool answer(struct connection *connection)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    size_t bytes;
    while (!peer.is_stalled && (bytes = request_bytes(connection)) > 0) {
        peer.count++;
        if (send(connection->fd, text, sizeof(text) - 1, MSG_NOSIGNAL) < 0)
            return false;
        memmove(connection->bytes, connection->bytes + bytes, connection->len - bytes);
        connection->len -= bytes;
    }
    return true;
}

static bool read_some(struct connection *connection)
{
    ssize_t got =
        recv(connection->fd, connection->bytes + connection->len, BYTES_MAX - connection->len, 0);
    if (got <= 0)
        return false;
    connection->len += (size_t)got;
    return answer(connection);
}

static void accept_one(void)
{
    int fd = accept(peer.listener, NULL, NULL);
    if (fd < 0)
        return;
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection || peer.connection_count == CONNECTIONS_MAX) {
        free(connection);
        close(fd);
        return;
    }
    connection->fd = fd;
    peer.connections[peer.connection_count++] = connection;
}

static void *serve(void *ctx)
{
    struct pollfd polls[CONNECTIONS_MAX + 1];
    (void)ctx;
    while (peer.is_running) {
        polls[0] = (struct pollfd){.fd = peer.listener, .events = POLLIN};
        for (size_t i = 0; i < peer.connection_count; i++)
            polls[i + 1] = (struct pollfd){.fd = peer.connections[i]->fd, .events = POLLIN};
        size_t count = peer.connection_count;
        poll(polls, count + 1, 20);
        for (size_t i = count; i-- > 0;)
            if (polls[i + 1].revents ? !read_some(peer.connections[i])
                                     : !answer(peer.connections[i]))
                drop(i);
        if (polls[0].revents & POLLIN)
            accept_one();
    }
    close(peer.listener);
    while (peer.connection_count > 0)
        drop(0);
    return NULL;
}

static void start(void)
{
    const int on = 1;
    struct sockaddr_in place = {.sin_family = AF_INET,
                                .sin_port = htons(peer.port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(place);
    peer.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer.listener >= 0);
    setsockopt(peer.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(peer.listener, (struct sockaddr *)&place, bytes), 0);
    assert_int_equal(listen(peer.listener, 512), 0);
    getsockname(peer.listener, (struct sockaddr *)&place, &bytes);
    peer.port = ntohs(place.sin_port);
    peer.is_running = true;
    peer.is_stalled = false;
    assert_int_equal(pthread_create(&peer.thread, NULL, serve, NULL), 0);
}

static void stop(void)
{
    peer.is_running = false;
    pthread_join(peer.thread, NULL);
}

static void stall(bool on)
{
    peer.is_stalled = on;
}

static size_t count(void)
{
    return peer.count;
}

static const char *to(void)
{
    static char text[64];
    snprintf(text, sizeof(text), "http://127.0.0.1:%u/taken/{id}", peer.port);
    return text;
}

const struct target_rig rig_http = {.name = "http",
                                    .start = start,
                                    .stop = stop,
                                    .stall = stall,
                                    .count = count,
                                    .to = to,
                                    .setting = "",
                                    .back_ms = 3000};
