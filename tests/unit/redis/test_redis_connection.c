/* Commands and replies on a connection to Redis. */
#include "sync_peer.h"
#include "unit/claim.h"

/* ---- replies ---- */

enum { COMMANDS = 10000 };

static void expect_number(struct connection *connection, const redisReply *reply)
{
    char expected[16];
    snprintf(expected, sizeof expected, "%d", connection->replies - 1);
    connection->wrong += reply->type != REDIS_REPLY_STRING || strcmp(reply->str, expected) != 0;
}

CLAIM(replies_come_in_order)
{
    struct connection connection = {.on_reply = expect_number};
    talk_connect_server(&connection);
    int sent = 0;
    for (; sent < COMMANDS / 2; sent++) /* before it is up */
        talk_echo(&connection, sent);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies > 0)
    assert_int_equal(connection.ups, 1);
    for (int in_round = 0; sent < COMMANDS; in_round = 0) {
        for (; in_round < sent % 97 + 1 && sent < COMMANDS; in_round++)
            talk_echo(&connection, sent++);
        (void)uv_run(reactor_loop(connection.reactor), UV_RUN_NOWAIT);
    }
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == COMMANDS)
    assert_int_equal(redis_connection_unsent(connection.connection), 0);
    assert_int_equal(connection.downs, 0);
    talk_finish(&connection);
}

static long long figure(const char *name)
{
    redisReply *reply = redis_server_ask(server, "INFO stats");
    const char *at = strstr(reply->str, name);
    long long value = at ? atoll(at + strlen(name)) : -1;
    freeReplyObject(reply);
    return value;
}

CLAIM(appends_of_one_iteration_are_one_write)
{
    struct connection connection = {.on_reply = expect_number};
    talk_connect_server(&connection);
    SYNC_CONNECTION_UNTIL(&connection, connection.ups == 1)
    long long before = figure("total_reads_processed:");
    for (int i = 0; i < 300; i++)
        talk_echo(&connection, i);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == 300)
    assert_in_range(figure("total_reads_processed:") - before, 2, 5); /* one of them asks */
    talk_finish(&connection);
}

static void measure(struct connection *connection, const redisReply *reply)
{
    for (size_t i = 0; i < reply->elements; i++)
        connection->bytes += reply->element[i]->len;
    connection->bytes += reply->len;
}

/* One text of 64 MiB, and an array of 192 MiB, with the next reply right behind each. */
CLAIM(takes_big_replies)
{
    struct connection connection = {.on_reply = measure};
    redis_server_do(server, "SETRANGE big %d x", 64 * MIB - 1);
    redis_server_do(server, "SETRANGE body %d x", MIB - 1);
    talk_connect_server(&connection);
    redis_command_words(talk_out(&connection), "GET", "big", NULL);
    redis_command_words(talk_out(&connection), "PING", NULL);
    redis_command_begin(talk_out(&connection), 193);
    redis_command_text(talk_out(&connection), "MGET");
    for (int i = 0; i < 192; i++)
        redis_command_text(talk_out(&connection), "body");
    redis_command_words(talk_out(&connection), "PING", NULL);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == 4 || connection.downs)
    assert_int_equal(connection.bytes, (64u + 192u) * MIB + 8);
    talk_finish(&connection);
    redis_server_do(server, "FLUSHALL");
}

CLAIM(speaks_through_a_unix_socket)
{
    struct connection connection = {0};
    talk_connect(&connection, server->path, 0, TIMEOUT_MS);
    redis_command_words(talk_out(&connection), "ECHO", "through the path", NULL);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == 1)
    assert_string_equal(connection.last, "through the path");
    talk_finish(&connection);
}

/* If it resolves to ::1 first, that is refused and the other one is tried. */
CLAIM(a_name_is_resolved)
{
    struct connection connection = {0};
    talk_connect(&connection, "localhost", server->port, TIMEOUT_MS);
    redis_command_words(talk_out(&connection), "ECHO", "by name", NULL);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == 1 || connection.downs)
    assert_string_equal(connection.last, "by name");
    talk_finish(&connection);
}

static void publish(struct connection *connection, const redisReply *reply)
{
    if (connection->replies == 1)
        redis_server_do(server, "PUBLISH news hello");
    connection->wrong += reply->type != REDIS_REPLY_ARRAY || reply->elements != 3;
    if (connection->replies == 2)
        snprintf(connection->last, sizeof connection->last, "%s", reply->element[2]->str);
}

CLAIM(messages_come_as_replies)
{
    struct connection connection = {.on_reply = publish};
    talk_connect_server(&connection);
    redis_command_words(talk_out(&connection), "SUBSCRIBE", "news", NULL);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == 2)
    assert_string_equal(connection.last, "hello");
    talk_finish(&connection);
}

/* ---- sending ---- */

static void expect_ok(struct connection *connection, const redisReply *reply)
{
    connection->wrong +=
        reply->type != (connection->replies < 3 ? REDIS_REPLY_STATUS : REDIS_REPLY_INTEGER);
    connection->bytes = (size_t)reply->integer;
}

CLAIM(unsent_bytes_wait_for_the_server)
{
    struct connection connection = {.on_reply = expect_ok};
    talk_connect_server(&connection);
    SYNC_CONNECTION_UNTIL(&connection, connection.ups == 1)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    talk_append_big(&connection, 48 * MIB);
    assert_true(redis_connection_unsent(connection.connection) > 48 * MIB);
    for (int i = 0; i < 5; i++)
        (void)uv_run(reactor_loop(connection.reactor), UV_RUN_NOWAIT);
    assert_true(redis_connection_unsent(connection.connection) > 24 * MIB);
    talk_append_big(&connection, 7 * MIB);
    redis_command_words(talk_out(&connection), "STRLEN", "big", NULL);
    assert_true(redis_connection_unsent(connection.connection) > 31 * MIB);
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    SYNC_CONNECTION_UNTIL(&connection, connection.replies == 3)
    assert_int_equal(connection.bytes, 7 * MIB);
    assert_int_equal(redis_connection_unsent(connection.connection), 0);
    talk_finish(&connection);
}

CLAIM(may_go_while_it_sends)
{
    struct connection connection = {0};
    talk_connect_server(&connection);
    SYNC_CONNECTION_UNTIL(&connection, connection.ups == 1)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    talk_append_big(&connection, 16 * MIB);
    (void)uv_run(reactor_loop(connection.reactor), UV_RUN_NOWAIT);
    talk_append_big(&connection, MIB);
    assert_true(redis_connection_unsent(connection.connection) > MIB);
    redis_connection_free(connection.connection);
    connection.connection = NULL;
    talk_finish(&connection);
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    assert_int_equal(connection.downs, 0);
}

CLAIMS_MAIN(start_server, stop_server)
