/* redis_talk: one conversation with a real server, or with a bare socket where a peer has to
 * misbehave as no Redis does; it notes what it was told, and holds it to the promises of
 * redis/connection.h. A program has one server, from start_server to stop_server. */
#ifndef TARRY_TESTS_REDIS_TALK_H
#define TARRY_TESTS_REDIS_TALK_H

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

enum { PATIENCE_MS = 20000, TEST_S = 120, MIB = 1 << 20 };

static struct redis_server *server;

struct talk {
    struct reactor *reactor;
    struct redis_connection *connection;
    int ups, downs, replies, wrong;
    bool is_down;
    char why[512];
    /* What a test does in its callbacks. */
    void (*on_up)(struct talk *talk);
    void (*on_reply)(struct talk *talk, const redisReply *reply);
    void (*on_down)(struct talk *talk);
    int peer; /* of a bare socket */
    size_t bytes;
    char last[128];
};

static inline void talk_on_up(void *ctx)
{
    struct talk *talk = ctx;
    talk->ups++;
    if (talk->on_up)
        talk->on_up(talk);
}

static inline void talk_on_down(void *ctx, const char *why)
{
    struct talk *talk = ctx;
    talk->wrong += talk->is_down;
    talk->is_down = true;
    talk->downs++;
    snprintf(talk->why, sizeof talk->why, "%s", why);
    if (talk->on_down)
        talk->on_down(talk);
}

static inline void talk_on_reply(void *ctx, const redisReply *reply)
{
    struct talk *talk = ctx;
    talk->wrong += talk->is_down || !talk->ups;
    talk->replies++;
    if (reply->str)
        snprintf(talk->last, sizeof talk->last, "%s", reply->str);
    if (talk->on_reply)
        talk->on_reply(talk, reply);
}

static const struct redis_connection_events talk_events = {
    .up = talk_on_up, .down = talk_on_down, .reply = talk_on_reply};

static inline void talk_connect(struct talk *talk, const char *host, uint16_t port,
                                int64_t connect_ms)
{
    struct redis_endpoint endpoint = {.port = port};
    snprintf(endpoint.host, sizeof endpoint.host, "%s", host);
    if (!talk->reactor)
        talk->reactor = reactor_new(0);
    talk->connection =
        redis_connection_new(talk->reactor, &endpoint, connect_ms, &talk_events, talk);
    assert_non_null(talk->connection);
    assert_int_equal(talk->ups + talk->downs, 0); /* no callback inside the call */
}

static inline void talk_connect_server(struct talk *talk)
{
    talk_connect(talk, "127.0.0.1", server->port, PATIENCE_MS);
}

#define TALK_UNTIL(TALK, CONDITION)                                                                \
    while (!(CONDITION))                                                                           \
        (void)uv_run(reactor_loop((TALK)->reactor), UV_RUN_ONCE);

/* What else the loop has to say is heard before the end. */
static inline void talk_finish(struct talk *talk)
{
    for (int i = 0; i < 5; i++)
        (void)uv_run(reactor_loop(talk->reactor), UV_RUN_NOWAIT);
    redis_connection_free(talk->connection);
    reactor_free(talk->reactor);
    assert_int_equal(talk->wrong, 0);
}

static inline struct buffer *talk_out(struct talk *talk)
{
    return redis_connection_out(talk->connection);
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

static inline void talk_echo(struct talk *talk, int number)
{
    redis_command_begin(talk_out(talk), 2);
    redis_command_text(talk_out(talk), "ECHO");
    redis_command_number(talk_out(talk), number);
}

static inline void talk_append_big(struct talk *talk, size_t bytes)
{
    char *value = calloc(1, bytes);
    redis_command_begin(talk_out(talk), 3);
    redis_command_text(talk_out(talk), "SET");
    redis_command_text(talk_out(talk), "big");
    redis_command_arg(talk_out(talk), slice_make(value, bytes));
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

static inline void talk_expect_down(struct talk *talk, const char *begins, const char *holds)
{
    TALK_UNTIL(talk, talk->downs)
    talk_finish(talk);
    assert_int_equal(talk->downs, 1);
    if (strncmp(talk->why, begins, strlen(begins)) != 0 || !strstr(talk->why, holds))
        fail_msg("'%s' is not '%s…%s'", talk->why, begins, holds);
}

#endif
