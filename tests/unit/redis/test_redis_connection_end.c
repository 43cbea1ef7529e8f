/* The end of a connection to Redis, and connections that are let go of in a callback. */
#include "sync_peer.h"
#include "unit/claim.h"

/* With a hundred commands sent and no reply. */
CLAIM(a_crashed_server_is_reported_once)
{
    struct connection connection = {0};
    talk_connect_server(&connection);
    for (int i = 0; i < 10; i++)
        redis_command_words(talk_out(&connection), "PING", NULL);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == 10)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    for (int i = 0; i < 100; i++)
        talk_echo(&connection, i);
    (void)uv_run(reactor_loop(connection.reactor), UV_RUN_NOWAIT);
    assert_int_equal(redis_connection_unsent(connection.connection), 0);
    redis_server_stop(server, SIGKILL);
    talk_expect_down(&connection, "connection lost to '127.0.0.1:", "connection reset");
    assert_int_equal(connection.replies, 10);
    redis_server_start(server);
}

CLAIM(a_closed_connection_is_reported_once)
{
    struct connection connection = {0};
    talk_connect_server(&connection);
    talk_until_served(&connection);
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    talk_expect_down(&connection, "connection closed by '127.0.0.1:", "");
}

/* It writes its reason and closes while our commands are on their way to it. */
CLAIM(the_last_reply_before_the_end_arrives)
{
    redis_server_do(server, "CONFIG SET maxclients 1");
    for (int i = 0; i < 20; i++) {
        struct connection connection = {0};
        talk_connect_server(&connection);
        talk_append_big(&connection, i % 2 ? MIB : 10);
        talk_expect_down(&connection, "connection ", "'127.0.0.1:");
        assert_int_equal(connection.replies, 1);
        assert_string_equal(connection.last, "ERR max number of clients reached");
    }
    redis_server_do(server, "CONFIG SET maxclients 100");
}

static void accept_peer(struct connection *connection)
{
    connection->peer = accept(connection->peer, NULL, NULL);
}

/* It closes over a command that it has not read, so the next one fails to be written before we have
 * read a thing. */
CLAIM(the_last_reply_arrives_although_writing_fails)
{
    struct connection connection = {.on_up = accept_peer};
    uint16_t port;
    int fd = connection.peer = talk_listen(5, &port);
    talk_connect(&connection, "127.0.0.1", port, TIMEOUT_MS);
    SYNC_CONNECTION_UNTIL(&connection, connection.ups)
    talk_echo(&connection, 1);
    (void)uv_run(reactor_loop(connection.reactor), UV_RUN_NOWAIT);
    assert_int_equal(write(connection.peer, "-ERR go away\r\n", 14), 14);
    close(connection.peer);
    talk_echo(&connection, 2);
    talk_expect_down(&connection, "connection ", "'127.0.0.1:");
    assert_int_equal(connection.replies, 1);
    assert_string_equal(connection.last, "ERR go away");
    close(fd);
}

static void answer_as_http(struct connection *connection)
{
    int fd = accept(connection->peer, NULL, NULL);
    assert_int_equal(write(fd, "+OK\r\nHTTP/1.1 400 Bad Request\r\n", 31), 31);
    close(fd);
}

CLAIM(a_peer_that_is_not_redis_is_reported)
{
    struct connection connection = {.on_up = answer_as_http};
    uint16_t port;
    connection.peer = talk_listen(5, &port);
    talk_connect(&connection, "127.0.0.1", port, TIMEOUT_MS);
    talk_expect_down(&connection, "no replies can be read from '127.0.0.1:", "\"H\"");
    assert_int_equal(connection.replies, 1);
    close(connection.peer);
}

CLAIM(appending_after_the_end_has_no_effect)
{
    struct connection connection = {0};
    talk_connect_server(&connection);
    talk_until_served(&connection);
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    SYNC_CONNECTION_UNTIL(&connection, connection.downs)
    for (int i = 0; i < 100; i++)
        talk_append_big(&connection, MIB);
    assert_int_equal(redis_connection_unsent(connection.connection), 0);
    talk_finish(&connection);
    assert_int_equal(connection.downs, 1);
}

/* ---- freed in a callback ---- */

static void free_it(struct connection *connection)
{
    redis_connection_free(connection->connection);
    connection->connection = NULL;
}

static void free_at_second(struct connection *connection, const redisReply *reply)
{
    if (connection->replies == 2)
        free_it(connection);
    (void)reply->type; /* still there */
}

static void may_go_when_it_is_up(void)
{
    struct connection connection = {.on_up = free_it};

    talk_connect_server(&connection);
    redis_command_words(talk_out(&connection), "PING", NULL);
    SYNC_CONNECTION_UNTIL(&connection, connection.ups)
    talk_finish(&connection);
    assert_int_equal(connection.ups + connection.replies + connection.downs, 1);
}

static void may_go_at_a_reply(void)
{
    struct connection connection = {.on_reply = free_at_second};

    talk_connect_server(&connection);
    for (int i = 0; i < 1000; i++)
        talk_echo(&connection, i);
    SYNC_CONNECTION_UNTIL(&connection, !connection.connection)
    talk_finish(&connection);
    assert_int_equal(connection.replies, 2);
    assert_int_equal(connection.downs, 0);
}

static void may_go_when_nobody_answers(void)
{
    struct connection connection = {.on_down = free_it};

    talk_connect(&connection, "/nowhere", 0, TIMEOUT_MS);
    SYNC_CONNECTION_UNTIL(&connection, connection.downs)
    talk_finish(&connection);
    assert_int_equal(connection.downs, 1);
}

static void may_go_when_it_is_cut(void)
{
    struct connection connection = {.on_down = free_it};

    talk_connect_server(&connection);
    talk_until_served(&connection);
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    SYNC_CONNECTION_UNTIL(&connection, connection.downs)
    talk_finish(&connection);
    assert_int_equal(connection.downs, 1);
}

CLAIM(may_go_in_its_callbacks)
{
    may_go_when_it_is_up();
    may_go_at_a_reply();
    may_go_when_nobody_answers();
    may_go_when_it_is_cut();
}

static void dial_again(struct connection *connection)
{
    redis_connection_free(connection->connection);
    connection->ups = 0;
    connection->is_down = false;
    connection->connection = NULL;
    if (connection->downs == 50)
        return;
    struct redis_endpoint endpoint = {.port = server->port};
    strcpy(endpoint.host, "127.0.0.1");
    connection->connection = redis_connection_new(connection->reactor, &endpoint, NULL, TIMEOUT_MS,
                                                  &talk_events, connection);
    redis_command_words(talk_out(connection), "QUIT", NULL);
}

CLAIM(another_may_be_made_in_its_end)
{
    struct connection connection = {.on_down = dial_again};
    talk_connect_server(&connection);
    redis_command_words(talk_out(&connection), "QUIT", NULL);
    SYNC_CONNECTION_UNTIL(&connection, connection.downs == 50)
    talk_finish(&connection);
    assert_int_equal(connection.replies, 50);
}

CLAIMS_MAIN(start_server, stop_server)
