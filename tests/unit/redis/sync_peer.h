/* redis_sync_connection: one conversation with a real server, or with a bare socket if a peer has to
 * misbehave as no Redis does; it notes its callbacks, and checks the promises of
 * redis/connection.h. A program has one server, from start_server to stop_server. */
#ifndef TARRY_TESTS_SYNC_PEER_H
#define TARRY_TESTS_SYNC_PEER_H

#include "redis/command.h"
#include "redis/connection.h"

#include "support/redis_server.h"
#include "unit/cases.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000, TEST_S = 600, MIB = 1 << 20 };

static struct redis_server *server;

struct connection {
    struct reactor *reactor;
    struct redis_connection *connection;
    int ups, downs, replies, wrong;
    bool is_down;
    char why[512];
    /* Actions of a test in its callbacks. */
    void (*on_up)(struct connection *connection);
    void (*on_reply)(struct connection *connection, const redisReply *reply);
    void (*on_down)(struct connection *connection);
    int peer; /* of a bare socket */
    size_t bytes;
    char last[128];
};

static inline void talk_on_up(void *ctx)
{
    struct connection *connection = ctx;
    connection->ups++;
    if (connection->on_up)
        connection->on_up(connection);
}

static inline void talk_on_down(void *ctx, const char *why)
{
    struct connection *connection = ctx;
    connection->wrong += connection->is_down;
    connection->is_down = true;
    connection->downs++;
    snprintf(connection->why, sizeof connection->why, "%s", why);
    if (connection->on_down)
        connection->on_down(connection);
}

static inline void talk_on_reply(void *ctx, const redisReply *reply)
{
    struct connection *connection = ctx;
    connection->wrong += connection->is_down || !connection->ups;
    connection->replies++;
    if (reply->str)
        snprintf(connection->last, sizeof connection->last, "%s", reply->str);
    if (connection->on_reply)
        connection->on_reply(connection, reply);
}

static const struct redis_connection_events talk_events = {
    .up = talk_on_up, .down = talk_on_down, .reply = talk_on_reply};

static inline void talk_connect(struct connection *connection, const char *host, uint16_t port,
                                int64_t connect_ms)
{
    struct redis_endpoint endpoint = {.port = port};
    snprintf(endpoint.host, sizeof endpoint.host, "%s", host);
    if (!connection->reactor)
        connection->reactor = reactor_new(0);
    connection->connection = redis_connection_new(connection->reactor, &endpoint, NULL, connect_ms,
                                                  &talk_events, connection);
    assert_non_null(connection->connection);
    assert_int_equal(connection->ups + connection->downs, 0); /* no callback inside the call */
}

static inline void talk_connect_server(struct connection *connection)
{
    talk_connect(connection, "127.0.0.1", server->port, TIMEOUT_MS);
}

#define SYNC_CONNECTION_UNTIL(TALK, CONDITION)                                                     \
    while (!(CONDITION))                                                                           \
        (void)uv_run(reactor_loop((TALK)->reactor), UV_RUN_ONCE);

/* Waits until the server has accepted the connection, which the kernel completes earlier. Only then
 * can the server cut it. */
static inline void talk_until_served(struct connection *connection)
{
    redis_command_words(redis_connection_out(connection->connection), "PING", NULL);
    SYNC_CONNECTION_UNTIL(connection, connection->replies == 1)
}

/* Runs the rest of the loop's reports before the end. */
static inline void talk_finish(struct connection *connection)
{
    for (int i = 0; i < 5; i++)
        (void)uv_run(reactor_loop(connection->reactor), UV_RUN_NOWAIT);
    redis_connection_free(connection->connection);
    reactor_free(connection->reactor);
    assert_int_equal(connection->wrong, 0);
}

static inline struct buffer *talk_out(struct connection *connection)
{
    return redis_connection_out(connection->connection);
}

static inline int start_server(void **state)
{
    (void)state;
    (void)alarm(TEST_S);
    server = redis_server_new(NULL);
    return 0;
}

static inline int stop_server(void **state)
{
    (void)state;
    redis_server_free(server);
    server = NULL;
    return 0;
}

static inline void talk_echo(struct connection *connection, int number)
{
    redis_command_begin(talk_out(connection), 2);
    redis_command_text(talk_out(connection), "ECHO");
    redis_command_number(talk_out(connection), number);
}

static inline void talk_append_big(struct connection *connection, size_t bytes)
{
    char *value = calloc(1, bytes);
    redis_command_begin(talk_out(connection), 3);
    redis_command_text(talk_out(connection), "SET");
    redis_command_text(talk_out(connection), "big");
    redis_command_arg(talk_out(connection), slice_make(value, bytes));
    free(value);
}

static inline int talk_listen(int backlog, uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    if (backlog >= 0)
        assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline void talk_expect_down(struct connection *connection, const char *begins,
                                    const char *holds)
{
    SYNC_CONNECTION_UNTIL(connection, connection->downs)
    talk_finish(connection);
    assert_int_equal(connection->downs, 1);
    if (strncmp(connection->why, begins, strlen(begins)) != 0 || !strstr(connection->why, holds))
        fail_msg("'%s' is not '%s…%s'", connection->why, begins, holds);
}

#endif
