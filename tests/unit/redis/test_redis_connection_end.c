/* The end of a connection to Redis, and connections that are let go of in a callback. */
#include "redis_talk.h"

/* With a hundred commands sent and none answered. */
static void a_server_that_dies_is_told_once(void **state)
{
    struct talk talk = {0};
    (void)state;
    talk_connect_server(&talk);
    for (int i = 0; i < 10; i++)
        redis_command_words(talk_out(&talk), "PING", NULL);
    TALK_UNTIL(&talk, talk.replies == 10)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    for (int i = 0; i < 100; i++)
        talk_echo(&talk, i);
    (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    redis_server_stop(server, SIGKILL);
    talk_expect_down(&talk, "connection lost to '127.0.0.1:", "connection reset");
    assert_int_equal(talk.replies, 10);
    redis_server_start(server);
}

static void a_connection_that_the_server_cuts_is_told_once(void **state)
{
    struct talk talk = {0};
    (void)state;
    talk_connect_server(&talk);
    redis_command_words(talk_out(&talk), "PING", NULL);
    TALK_UNTIL(&talk, talk.replies == 1)
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    talk_expect_down(&talk, "connection closed by '127.0.0.1:", "");
}

/* It writes its reason and closes while our commands are on their way to it. */
static void what_a_server_says_last_is_heard(void **state)
{
    (void)state;
    redis_server_do(server, "CONFIG SET maxclients 1");
    for (int i = 0; i < 20; i++) {
        struct talk talk = {0};
        talk_connect_server(&talk);
        talk_append_big(&talk, i % 2 ? MIB : 10);
        talk_expect_down(&talk, "connection ", "'127.0.0.1:");
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
    int fd = talk.peer = talk_listen(5, &port);
    talk_connect(&talk, "127.0.0.1", port, PATIENCE_MS);
    TALK_UNTIL(&talk, talk.ups)
    talk_echo(&talk, 1);
    (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    assert_int_equal(write(talk.peer, "-ERR go away\r\n", 14), 14);
    close(talk.peer);
    talk_echo(&talk, 2);
    talk_expect_down(&talk, "connection ", "'127.0.0.1:");
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
    talk.peer = talk_listen(5, &port);
    talk_connect(&talk, "127.0.0.1", port, PATIENCE_MS);
    talk_expect_down(&talk, "no replies can be read from '127.0.0.1:", "\"H\"");
    assert_int_equal(talk.replies, 1);
    close(talk.peer);
}

static void what_is_appended_after_the_end_costs_nothing(void **state)
{
    struct talk talk = {0};
    (void)state;
    talk_connect_server(&talk);
    TALK_UNTIL(&talk, talk.ups)
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    TALK_UNTIL(&talk, talk.downs)
    for (int i = 0; i < 100; i++)
        talk_append_big(&talk, MIB);
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    talk_finish(&talk);
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

static void may_go_when_it_is_up(void)
{
    struct talk talk = {.on_up = free_it};

    talk_connect_server(&talk);
    redis_command_words(talk_out(&talk), "PING", NULL);
    TALK_UNTIL(&talk, talk.ups)
    talk_finish(&talk);
    assert_int_equal(talk.ups + talk.replies + talk.downs, 1);
}

static void may_go_at_a_reply(void)
{
    struct talk talk = {.on_reply = free_at_second};

    talk_connect_server(&talk);
    for (int i = 0; i < 1000; i++)
        talk_echo(&talk, i);
    TALK_UNTIL(&talk, !talk.connection)
    talk_finish(&talk);
    assert_int_equal(talk.replies, 2);
    assert_int_equal(talk.downs, 0);
}

static void may_go_when_nobody_answers(void)
{
    struct talk talk = {.on_down = free_it};

    talk_connect(&talk, "/nowhere", 0, PATIENCE_MS);
    TALK_UNTIL(&talk, talk.downs)
    talk_finish(&talk);
    assert_int_equal(talk.downs, 1);
}

static void may_go_when_it_is_cut(void)
{
    struct talk talk = {.on_down = free_it};

    talk_connect_server(&talk);
    TALK_UNTIL(&talk, talk.ups)
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    TALK_UNTIL(&talk, talk.downs)
    talk_finish(&talk);
    assert_int_equal(talk.downs, 1);
}

static void may_go_in_its_callbacks(void **state)
{
    (void)state;
    may_go_when_it_is_up();
    may_go_at_a_reply();
    may_go_when_nobody_answers();
    may_go_when_it_is_cut();
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
    talk->connection =
        redis_connection_new(talk->reactor, &endpoint, PATIENCE_MS, &talk_events, talk);
    redis_command_words(talk_out(talk), "QUIT", NULL);
}

static void another_may_be_made_in_its_end(void **state)
{
    struct talk talk = {.on_down = dial_again};
    (void)state;
    talk_connect_server(&talk);
    redis_command_words(talk_out(&talk), "QUIT", NULL);
    TALK_UNTIL(&talk, talk.downs == 50)
    talk_finish(&talk);
    assert_int_equal(talk.replies, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
