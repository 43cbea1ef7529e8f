/* One conversation with a real server. Where a peer has to misbehave as no Redis does, it is a bare
 * socket of the test's own. */
#include "redis/command.h"
#include "redis/connection.h"

#include "cases.h"
#include "support/redis_server.h"

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

static void on_up(void *ctx)
{
    struct talk *talk = ctx;
    talk->ups++;
    if (talk->on_up)
        talk->on_up(talk);
}

static void on_down(void *ctx, const char *why)
{
    struct talk *talk = ctx;
    talk->wrong += talk->is_down;
    talk->is_down = true;
    talk->downs++;
    snprintf(talk->why, sizeof talk->why, "%s", why);
    if (talk->on_down)
        talk->on_down(talk);
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct talk *talk = ctx;
    talk->wrong += talk->is_down || !talk->ups;
    talk->replies++;
    if (reply->str)
        snprintf(talk->last, sizeof talk->last, "%s", reply->str);
    if (talk->on_reply)
        talk->on_reply(talk, reply);
}

static const struct redis_connection_events events = {
    .up = on_up, .down = on_down, .reply = on_reply};

static void connect_to(struct talk *talk, const char *host, uint16_t port, int64_t connect_ms)
{
    struct redis_endpoint endpoint = {.port = port};
    snprintf(endpoint.host, sizeof endpoint.host, "%s", host);
    if (!talk->reactor)
        talk->reactor = reactor_new(0);
    talk->connection = redis_connection_new(talk->reactor, &endpoint, connect_ms, &events, talk);
    assert_non_null(talk->connection);
    assert_int_equal(talk->ups + talk->downs, 0); /* no callback inside the call */
}

static void connect_to_server(struct talk *talk)
{
    connect_to(talk, "127.0.0.1", server->port, PATIENCE_MS);
}

#define RUN_UNTIL(TALK, CONDITION)                                                                 \
    while (!(CONDITION))                                                                           \
        (void)uv_run(reactor_loop((TALK)->reactor), UV_RUN_ONCE);

/* What else the loop has to say is heard before the end. */
static void finish(struct talk *talk)
{
    for (int i = 0; i < 5; i++)
        (void)uv_run(reactor_loop(talk->reactor), UV_RUN_NOWAIT);
    redis_connection_free(talk->connection);
    reactor_free(talk->reactor);
    assert_int_equal(talk->wrong, 0);
}

static struct buffer *out(struct talk *talk)
{
    return redis_connection_out(talk->connection);
}

static int start_server(void **state)
{
    (void)state;
    (void)alarm(TEST_S);
    server = redis_server_new(NULL);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    redis_server_free(server);
    server = NULL;
    return 0;
}

/* ---- replies ---- */

enum { COMMANDS = 10000 };

static void expect_number(struct talk *talk, const redisReply *reply)
{
    char expected[16];
    snprintf(expected, sizeof expected, "%d", talk->replies - 1);
    talk->wrong += reply->type != REDIS_REPLY_STRING || strcmp(reply->str, expected) != 0;
}

static void append_echo(struct talk *talk, int number)
{
    redis_command_begin(out(talk), 2);
    redis_command_text(out(talk), "ECHO");
    redis_command_number(out(talk), number);
}

static void replies_come_in_order(void **state)
{
    struct talk talk = {.on_reply = expect_number};
    (void)state;
    connect_to_server(&talk);
    int sent = 0;
    for (; sent < COMMANDS / 2; sent++) /* before it is up */
        append_echo(&talk, sent);
    RUN_UNTIL(&talk, talk.replies > 0)
    assert_int_equal(talk.ups, 1);
    for (int in_turn = 0; sent < COMMANDS; in_turn = 0) {
        for (; in_turn < sent % 97 + 1 && sent < COMMANDS; in_turn++)
            append_echo(&talk, sent++);
        (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    }
    RUN_UNTIL(&talk, talk.replies == COMMANDS)
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    assert_int_equal(talk.downs, 0);
    finish(&talk);
}

static long long figure(const char *name)
{
    redisReply *reply = redis_server_ask(server, "INFO stats");
    const char *at = strstr(reply->str, name);
    long long value = at ? atoll(at + strlen(name)) : -1;
    freeReplyObject(reply);
    return value;
}

static void what_a_turn_appends_is_one_write(void **state)
{
    struct talk talk = {.on_reply = expect_number};
    (void)state;
    connect_to_server(&talk);
    RUN_UNTIL(&talk, talk.ups == 1)
    long long before = figure("total_reads_processed:");
    for (int i = 0; i < 300; i++)
        append_echo(&talk, i);
    RUN_UNTIL(&talk, talk.replies == 300)
    assert_in_range(figure("total_reads_processed:") - before, 2, 5); /* one of them asks */
    finish(&talk);
}

static void measure(struct talk *talk, const redisReply *reply)
{
    for (size_t i = 0; i < reply->elements; i++)
        talk->bytes += reply->element[i]->len;
    talk->bytes += reply->len;
}

/* One text of 64 MiB, and an array of 192 MiB, with the next reply right behind each. */
static void takes_big_replies(void **state)
{
    struct talk talk = {.on_reply = measure};
    (void)state;
    redis_server_do(server, "SETRANGE big %d x", 64 * MIB - 1);
    redis_server_do(server, "SETRANGE body %d x", MIB - 1);
    connect_to_server(&talk);
    redis_command_words(out(&talk), "GET", "big", NULL);
    redis_command_words(out(&talk), "PING", NULL);
    redis_command_begin(out(&talk), 193);
    redis_command_text(out(&talk), "MGET");
    for (int i = 0; i < 192; i++)
        redis_command_text(out(&talk), "body");
    redis_command_words(out(&talk), "PING", NULL);
    RUN_UNTIL(&talk, talk.replies == 4 || talk.downs)
    assert_int_equal(talk.bytes, (64u + 192u) * MIB + 8);
    finish(&talk);
    redis_server_do(server, "FLUSHALL");
}

static void speaks_through_a_unix_socket(void **state)
{
    struct talk talk = {0};
    (void)state;
    connect_to(&talk, server->path, 0, PATIENCE_MS);
    redis_command_words(out(&talk), "ECHO", "through the path", NULL);
    RUN_UNTIL(&talk, talk.replies == 1)
    assert_string_equal(talk.last, "through the path");
    finish(&talk);
}

/* Where it resolves to ::1 first, that is refused and the other one is tried. */
static void a_name_is_resolved(void **state)
{
    struct talk talk = {0};
    (void)state;
    connect_to(&talk, "localhost", server->port, PATIENCE_MS);
    redis_command_words(out(&talk), "ECHO", "by name", NULL);
    RUN_UNTIL(&talk, talk.replies == 1 || talk.downs)
    assert_string_equal(talk.last, "by name");
    finish(&talk);
}

static void publish(struct talk *talk, const redisReply *reply)
{
    if (talk->replies == 1)
        redis_server_do(server, "PUBLISH news hello");
    talk->wrong += reply->type != REDIS_REPLY_ARRAY || reply->elements != 3;
    if (talk->replies == 2)
        snprintf(talk->last, sizeof talk->last, "%s", reply->element[2]->str);
}

static void messages_come_as_replies(void **state)
{
    struct talk talk = {.on_reply = publish};
    (void)state;
    connect_to_server(&talk);
    redis_command_words(out(&talk), "SUBSCRIBE", "news", NULL);
    RUN_UNTIL(&talk, talk.replies == 2)
    assert_string_equal(talk.last, "hello");
    finish(&talk);
}

/* ---- sending ---- */

static void append_big(struct talk *talk, size_t bytes)
{
    char *value = calloc(1, bytes);
    redis_command_begin(out(talk), 3);
    redis_command_text(out(talk), "SET");
    redis_command_text(out(talk), "big");
    redis_command_arg(out(talk), slice_make(value, bytes));
    free(value);
}

static void expect_ok(struct talk *talk, const redisReply *reply)
{
    talk->wrong += reply->type != (talk->replies < 3 ? REDIS_REPLY_STATUS : REDIS_REPLY_INTEGER);
    talk->bytes = (size_t)reply->integer;
}

static void what_a_server_does_not_take_waits_for_it(void **state)
{
    struct talk talk = {.on_reply = expect_ok};
    (void)state;
    connect_to_server(&talk);
    RUN_UNTIL(&talk, talk.ups == 1)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    append_big(&talk, 48 * MIB);
    assert_true(redis_connection_unsent(talk.connection) > 48 * MIB);
    for (int i = 0; i < 5; i++)
        (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    assert_true(redis_connection_unsent(talk.connection) > 24 * MIB);
    append_big(&talk, 7 * MIB);
    redis_command_words(out(&talk), "STRLEN", "big", NULL);
    assert_true(redis_connection_unsent(talk.connection) > 31 * MIB);
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    RUN_UNTIL(&talk, talk.replies == 3)
    assert_int_equal(talk.bytes, 7 * MIB);
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    finish(&talk);
}

static void may_go_while_it_sends(void **state)
{
    struct talk talk = {0};
    (void)state;
    connect_to_server(&talk);
    RUN_UNTIL(&talk, talk.ups == 1)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    append_big(&talk, 16 * MIB);
    (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    append_big(&talk, MIB);
    assert_true(redis_connection_unsent(talk.connection) > MIB);
    redis_connection_free(talk.connection);
    talk.connection = NULL;
    finish(&talk);
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    assert_int_equal(talk.downs, 0);
}

/* ---- no connection ---- */

static int listen_on(int backlog, uint16_t *port)
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

static void expect_down(struct talk *talk, const char *begins, const char *holds)
{
    RUN_UNTIL(talk, talk->downs)
    finish(talk);
    assert_int_equal(talk->downs, 1);
    if (strncmp(talk->why, begins, strlen(begins)) != 0 || !strstr(talk->why, holds))
        fail_msg("'%s' is not '%s…%s'", talk->why, begins, holds);
}

static void a_port_that_refuses_is_told(void **state)
{
    struct talk talk = {0};
    uint16_t port;
    char begins[64];
    (void)state;
    int fd = listen_on(-1, &port); /* bound, and nobody listens */
    snprintf(begins, sizeof begins, "no connection to '127.0.0.1:%u'", port);
    connect_to(&talk, "127.0.0.1", port, PATIENCE_MS);
    redis_command_words(out(&talk), "PING", NULL);
    expect_down(&talk, begins, "refused");
    assert_int_equal(talk.ups, 0);
    close(fd);
}

static void a_name_that_does_not_resolve_is_told(void **state)
{
    struct talk talk = {0};
    (void)state;
    connect_to(&talk, "nowhere.invalid", 6379, 5000);
    expect_down(&talk, "no address of 'nowhere.invalid:6379'", ": ");
}

static void a_path_without_a_socket_is_told(void **state)
{
    struct talk talk = {0}, longer = {0};
    char path[200] = "/";
    (void)state;
    connect_to(&talk, "/nowhere/socket", 0, PATIENCE_MS);
    expect_down(&talk, "no connection to '/nowhere/socket'", "no such file");
    memset(path + 1, 'x', 150);
    connect_to(&longer, path, 0, PATIENCE_MS);
    expect_down(&longer, "no connection to '/xxx", "at most 107 bytes");
}

/* A listener whose queue is full answers nothing at all. */
static void connecting_has_an_end(void **state)
{
    struct talk talk = {0};
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fillers[4];
    uint16_t port;
    (void)state;
    int fd = listen_on(0, &port);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < COUNT_OF(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    connect_to(&talk, "127.0.0.1", port, 50);
    expect_down(&talk, "no connection to", "it took longer than 50 ms");
    assert_int_equal(talk.ups, 0);
    for (size_t i = 0; i < COUNT_OF(fillers); i++)
        close(fillers[i]);
    close(fd);
}

static void may_go_before_it_is_connected(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "nowhere.invalid", "::1"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(hosts); i++)
        for (int turns = 0; turns < 2; turns++) {
            struct talk talk = {0};
            connect_to(&talk, hosts[i], server->port, PATIENCE_MS);
            redis_command_words(out(&talk), "PING", NULL);
            for (int turn = 0; turn < turns; turn++)
                (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
            redis_connection_free(talk.connection);
            talk.connection = NULL;
            int told = talk.ups + talk.downs;
            finish(&talk);
            assert_int_equal(talk.ups + talk.downs, told);
        }
}

/* ---- its end ---- */

/* With a hundred commands sent and none answered. */
static void a_server_that_dies_is_told_once(void **state)
{
    struct talk talk = {0};
    (void)state;
    connect_to_server(&talk);
    for (int i = 0; i < 10; i++)
        redis_command_words(out(&talk), "PING", NULL);
    RUN_UNTIL(&talk, talk.replies == 10)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    for (int i = 0; i < 100; i++)
        append_echo(&talk, i);
    (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    redis_server_stop(server, SIGKILL);
    expect_down(&talk, "connection lost to '127.0.0.1:", "connection reset");
    assert_int_equal(talk.replies, 10);
    redis_server_start(server);
}

static void a_connection_that_the_server_cuts_is_told_once(void **state)
{
    struct talk talk = {0};
    (void)state;
    connect_to_server(&talk);
    redis_command_words(out(&talk), "PING", NULL);
    RUN_UNTIL(&talk, talk.replies == 1)
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    expect_down(&talk, "connection closed by '127.0.0.1:", "");
}

/* It writes its reason and closes while our commands are on their way to it. */
static void what_a_server_says_last_is_heard(void **state)
{
    (void)state;
    redis_server_do(server, "CONFIG SET maxclients 1");
    for (int i = 0; i < 20; i++) {
        struct talk talk = {0};
        connect_to_server(&talk);
        append_big(&talk, i % 2 ? MIB : 10);
        expect_down(&talk, "connection ", "'127.0.0.1:");
        assert_int_equal(talk.replies, 1);
        assert_string_equal(talk.last, "ERR max number of clients reached");
    }
    redis_server_do(server, "CONFIG SET maxclients 100");
}

static void accept_peer(struct talk *talk)
{
    talk->peer = accept(talk->peer, NULL, NULL);
}

/* It closes over a command that it has not read, so the next one fails to be written before we have
 * read a thing. */
static void what_a_peer_says_last_is_heard_though_writing_fails(void **state)
{
    struct talk talk = {.on_up = accept_peer};
    uint16_t port;
    (void)state;
    int fd = talk.peer = listen_on(5, &port);
    connect_to(&talk, "127.0.0.1", port, PATIENCE_MS);
    RUN_UNTIL(&talk, talk.ups)
    append_echo(&talk, 1);
    (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    assert_int_equal(write(talk.peer, "-ERR go away\r\n", 14), 14);
    close(talk.peer);
    append_echo(&talk, 2);
    expect_down(&talk, "connection ", "'127.0.0.1:");
    assert_int_equal(talk.replies, 1);
    assert_string_equal(talk.last, "ERR go away");
    close(fd);
}

static void answer_as_http(struct talk *talk)
{
    int fd = accept(talk->peer, NULL, NULL);
    assert_int_equal(write(fd, "+OK\r\nHTTP/1.1 400 Bad Request\r\n", 31), 31);
    close(fd);
}

static void what_is_no_redis_is_told(void **state)
{
    struct talk talk = {.on_up = answer_as_http};
    uint16_t port;
    (void)state;
    talk.peer = listen_on(5, &port);
    connect_to(&talk, "127.0.0.1", port, PATIENCE_MS);
    expect_down(&talk, "no replies can be read from '127.0.0.1:", "\"H\"");
    assert_int_equal(talk.replies, 1);
    close(talk.peer);
}

static void what_is_appended_after_the_end_costs_nothing(void **state)
{
    struct talk talk = {0};
    (void)state;
    connect_to_server(&talk);
    RUN_UNTIL(&talk, talk.ups)
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(&talk, talk.downs)
    for (int i = 0; i < 100; i++)
        append_big(&talk, MIB);
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    finish(&talk);
    assert_int_equal(talk.downs, 1);
}

/* ---- freed in a callback ---- */

static void free_it(struct talk *talk)
{
    redis_connection_free(talk->connection);
    talk->connection = NULL;
}

static void free_at_second(struct talk *talk, const redisReply *reply)
{
    if (talk->replies == 2)
        free_it(talk);
    (void)reply->type; /* still there */
}

static void may_go_in_its_callbacks(void **state)
{
    struct talk up = {.on_up = free_it}, reply = {.on_reply = free_at_second},
                down = {.on_down = free_it};
    (void)state;
    connect_to_server(&up);
    redis_command_words(out(&up), "PING", NULL);
    RUN_UNTIL(&up, up.ups)
    finish(&up);
    assert_int_equal(up.ups + up.replies + up.downs, 1);

    connect_to_server(&reply);
    for (int i = 0; i < 1000; i++)
        append_echo(&reply, i);
    RUN_UNTIL(&reply, !reply.connection)
    finish(&reply);
    assert_int_equal(reply.replies, 2);
    assert_int_equal(reply.downs, 0);

    connect_to(&down, "/nowhere", 0, PATIENCE_MS);
    RUN_UNTIL(&down, down.downs)
    finish(&down);
    assert_int_equal(down.downs, 1);

    struct talk cut = {.on_down = free_it};
    connect_to_server(&cut);
    RUN_UNTIL(&cut, cut.ups)
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(&cut, cut.downs)
    finish(&cut);
    assert_int_equal(cut.downs, 1);
}

static void dial_again(struct talk *talk)
{
    redis_connection_free(talk->connection);
    talk->ups = 0;
    talk->is_down = false;
    talk->connection = NULL;
    if (talk->downs == 50)
        return;
    struct redis_endpoint endpoint = {.port = server->port};
    strcpy(endpoint.host, "127.0.0.1");
    talk->connection = redis_connection_new(talk->reactor, &endpoint, PATIENCE_MS, &events, talk);
    redis_command_words(out(talk), "QUIT", NULL);
}

static void another_may_be_made_in_its_end(void **state)
{
    struct talk talk = {.on_down = dial_again};
    (void)state;
    connect_to_server(&talk);
    redis_command_words(out(&talk), "QUIT", NULL);
    RUN_UNTIL(&talk, talk.downs == 50)
    finish(&talk);
    assert_int_equal(talk.replies, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_come_in_order),
        cmocka_unit_test(what_a_turn_appends_is_one_write),
        cmocka_unit_test(takes_big_replies),
        cmocka_unit_test(speaks_through_a_unix_socket),
        cmocka_unit_test(a_name_is_resolved),
        cmocka_unit_test(messages_come_as_replies),
        cmocka_unit_test(what_a_server_does_not_take_waits_for_it),
        cmocka_unit_test(may_go_while_it_sends),
        cmocka_unit_test(a_port_that_refuses_is_told),
        cmocka_unit_test(a_name_that_does_not_resolve_is_told),
        cmocka_unit_test(a_path_without_a_socket_is_told),
        cmocka_unit_test(connecting_has_an_end),
        cmocka_unit_test(may_go_before_it_is_connected),
        cmocka_unit_test(a_server_that_dies_is_told_once),
        cmocka_unit_test(a_connection_that_the_server_cuts_is_told_once),
        cmocka_unit_test(what_a_server_says_last_is_heard),
        cmocka_unit_test(what_a_peer_says_last_is_heard_though_writing_fails),
        cmocka_unit_test(what_is_no_redis_is_told),
        cmocka_unit_test(what_is_appended_after_the_end_costs_nothing),
        cmocka_unit_test(may_go_in_its_callbacks),
        cmocka_unit_test(another_may_be_made_in_its_end),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
