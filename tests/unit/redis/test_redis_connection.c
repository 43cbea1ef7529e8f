/* What is said and heard on a connection to Redis. */
#include "redis_talk.h"

/* ---- replies ---- */

enum { COMMANDS = 10000 };

static void expect_number(struct talk *talk, const redisReply *reply)
{
    char expected[16];
    snprintf(expected, sizeof expected, "%d", talk->replies - 1);
    talk->wrong += reply->type != REDIS_REPLY_STRING || strcmp(reply->str, expected) != 0;
}

static void replies_come_in_order(void **state)
{
    struct talk talk = {.on_reply = expect_number};
    (void)state;
    talk_connect_server(&talk);
    int sent = 0;
    for (; sent < COMMANDS / 2; sent++) /* before it is up */
        talk_echo(&talk, sent);
    TALK_UNTIL(&talk, talk.replies > 0)
    assert_int_equal(talk.ups, 1);
    for (int in_turn = 0; sent < COMMANDS; in_turn = 0) {
        for (; in_turn < sent % 97 + 1 && sent < COMMANDS; in_turn++)
            talk_echo(&talk, sent++);
        (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    }
    TALK_UNTIL(&talk, talk.replies == COMMANDS)
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    assert_int_equal(talk.downs, 0);
    talk_finish(&talk);
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
    talk_connect_server(&talk);
    TALK_UNTIL(&talk, talk.ups == 1)
    long long before = figure("total_reads_processed:");
    for (int i = 0; i < 300; i++)
        talk_echo(&talk, i);
    TALK_UNTIL(&talk, talk.replies == 300)
    assert_in_range(figure("total_reads_processed:") - before, 2, 5); /* one of them asks */
    talk_finish(&talk);
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
    talk_connect_server(&talk);
    redis_command_words(talk_out(&talk), "GET", "big", NULL);
    redis_command_words(talk_out(&talk), "PING", NULL);
    redis_command_begin(talk_out(&talk), 193);
    redis_command_text(talk_out(&talk), "MGET");
    for (int i = 0; i < 192; i++)
        redis_command_text(talk_out(&talk), "body");
    redis_command_words(talk_out(&talk), "PING", NULL);
    TALK_UNTIL(&talk, talk.replies == 4 || talk.downs)
    assert_int_equal(talk.bytes, (64u + 192u) * MIB + 8);
    talk_finish(&talk);
    redis_server_do(server, "FLUSHALL");
}

static void speaks_through_a_unix_socket(void **state)
{
    struct talk talk = {0};
    (void)state;
    talk_connect(&talk, server->path, 0, PATIENCE_MS);
    redis_command_words(talk_out(&talk), "ECHO", "through the path", NULL);
    TALK_UNTIL(&talk, talk.replies == 1)
    assert_string_equal(talk.last, "through the path");
    talk_finish(&talk);
}

/* Where it resolves to ::1 first, that is refused and the other one is tried. */
static void a_name_is_resolved(void **state)
{
    struct talk talk = {0};
    (void)state;
    talk_connect(&talk, "localhost", server->port, PATIENCE_MS);
    redis_command_words(talk_out(&talk), "ECHO", "by name", NULL);
    TALK_UNTIL(&talk, talk.replies == 1 || talk.downs)
    assert_string_equal(talk.last, "by name");
    talk_finish(&talk);
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
    talk_connect_server(&talk);
    redis_command_words(talk_out(&talk), "SUBSCRIBE", "news", NULL);
    TALK_UNTIL(&talk, talk.replies == 2)
    assert_string_equal(talk.last, "hello");
    talk_finish(&talk);
}

/* ---- sending ---- */

static void expect_ok(struct talk *talk, const redisReply *reply)
{
    talk->wrong += reply->type != (talk->replies < 3 ? REDIS_REPLY_STATUS : REDIS_REPLY_INTEGER);
    talk->bytes = (size_t)reply->integer;
}

static void what_a_server_does_not_take_waits_for_it(void **state)
{
    struct talk talk = {.on_reply = expect_ok};
    (void)state;
    talk_connect_server(&talk);
    TALK_UNTIL(&talk, talk.ups == 1)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    talk_append_big(&talk, 48 * MIB);
    assert_true(redis_connection_unsent(talk.connection) > 48 * MIB);
    for (int i = 0; i < 5; i++)
        (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    assert_true(redis_connection_unsent(talk.connection) > 24 * MIB);
    talk_append_big(&talk, 7 * MIB);
    redis_command_words(talk_out(&talk), "STRLEN", "big", NULL);
    assert_true(redis_connection_unsent(talk.connection) > 31 * MIB);
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    TALK_UNTIL(&talk, talk.replies == 3)
    assert_int_equal(talk.bytes, 7 * MIB);
    assert_int_equal(redis_connection_unsent(talk.connection), 0);
    talk_finish(&talk);
}

static void may_go_while_it_sends(void **state)
{
    struct talk talk = {0};
    (void)state;
    talk_connect_server(&talk);
    TALK_UNTIL(&talk, talk.ups == 1)
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    talk_append_big(&talk, 16 * MIB);
    (void)uv_run(reactor_loop(talk.reactor), UV_RUN_NOWAIT);
    talk_append_big(&talk, MIB);
    assert_true(redis_connection_unsent(talk.connection) > MIB);
    redis_connection_free(talk.connection);
    talk.connection = NULL;
    talk_finish(&talk);
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    assert_int_equal(talk.downs, 0);
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
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
