/* A session whose connection, scripts or server go: nothing is lost, and nothing made twice. */
#include "session_scene.h"
#include "unit/claim.h"

#include <signal.h>

static long long push_sequence(struct redis_server *server, const char *topic, const char *id)
{
    redisReply *reply = redis_server_ask(server, "HGET {tarry:0}:job:%s %s", topic, id);
    long long value = 0;
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    for (int i = 3; i < 9; i++)
        value = value << 8 | (unsigned char)reply->str[i];
    freeReplyObject(reply);
    return value;
}

static redisContext *fall_asleep(struct redis_server *server)
{
    redisContext *sleeper = redisConnectUnix(server->path);
    int done = 0;

    redisAppendCommand(sleeper, "DEBUG SLEEP 2");
    while (!done)
        assert_int_equal(redisBufferWrite(sleeper, &done), REDIS_OK);
    return sleeper;
}

/* Cuts on a separate connection. The push has been executed, without a reply to any caller. */
static void cut_and_see_it_pushed(redisContext *killer)
{
    redisReply *reply = NULL;

    redisAppendCommand(killer, "CLIENT KILL TYPE normal SKIPME yes");
    assert_int_equal(redisGetReply(killer, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->integer, 3); /* the session's, the sleeper's, the one of `server` */
    freeReplyObject(reply);
    reply = redisCommand(killer, "GET {tarry:0}:topic:t");
    struct redis_topic_state topic;
    assert_true(redis_topic_state_read(slice_make(reply->str, reply->len), &topic));
    assert_int_equal(topic.figure[REDIS_FIGURE_PUSHED], 1);
    freeReplyObject(reply);
}

/* While the server sleeps, the call and then the order to cut its connection arrive: it carries out
 * the one, and by the other its reply is dropped. */
CLAIM(a_change_with_a_lost_reply_is_executed_once)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    redisContext *killer = redisConnectUnix(server->path), *sleeper = fall_asleep(server);
    rig_run_ms(&rig, 100);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 50);
    cut_and_see_it_pushed(killer);
    assert_int_equal(push->end, 0);
    assert_true(RIG_UNTIL(&rig, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    assert_int_equal(rig.figures.resent, 1);
    assert_int_equal(rig.figures.reconnects, 1);
    assert_int_equal(rig.tally.reconnects, 1);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), 1);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_REPLACED), 0);
    free(push);
    redisFree(sleeper);
    redisFree(killer);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(calls_sent_again_keep_their_order)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig_call *calls[8];
    struct rig rig = {0};
    char id[16];
    scene_start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 10000 WRITE");
    for (int i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "j%d", i);
        calls[i] = rig_push(&rig, "t", id, 1000);
    }
    rig_run_ms(&rig, 50);
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_true(RIG_UNTIL(&rig, rig.figures.reconnects == 1));
    redis_server_do(server, "CLIENT UNPAUSE");
    assert_true(RIG_UNTIL(&rig, redis_session_calls(rig.session) == 0));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_OK);
        assert_int_equal(calls[i]->status, CREATED);
        assert_int_equal(push_sequence(server, "t", calls[i]->id), i + 1);
    }
    for (int i = 0; i < 8; i++)
        free(calls[i]);
    assert_int_equal(rig.figures.resent, REDIS_SESSION_SLOTS);
    rig_stop(&rig);
    redis_server_free(server);
}

/* Submits `count` pushes, a few at a time, and calls `disturb` every 20. */
static void push_under(struct rig *rig, struct redis_server *server, int count,
                       void (*disturb)(struct redis_server *server))
{
    struct rig_call **calls = calloc((size_t)count, sizeof(struct rig_call *));
    char id[16];
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "j%d", i);
        calls[i] = rig_push(rig, "t", id, 100000);
        if (i % 20 == 10)
            disturb(server);
        assert_true(RIG_UNTIL(rig, redis_session_calls(rig->session) < 6));
    }
    assert_true(RIG_UNTIL(rig, redis_session_calls(rig->session) == 0));
    for (int i = 0; i < count; i++) {
        if (calls[i]->end != REDIS_CALL_OK || calls[i]->status != CREATED)
            fail_msg("push %d ended with %d, status %d", i, calls[i]->end, calls[i]->status);
        free(calls[i]);
    }
    free(calls);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), count);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_REPLACED), 0);
}

static void flush_scripts(struct redis_server *server)
{
    redis_server_do(server, "FUNCTION FLUSH");
}

CLAIM(scripts_that_are_gone_are_loaded_again)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    push_under(&rig, server, 400, flush_scripts);
    assert_int_equal(rig.figures.reconnects, 0);
    assert_true(rig.downs > 5);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(connections_may_be_cut_at_any_time)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    push_under(&rig, server, 200, scene_cut);
    assert_int_equal(rig.figures.reconnects, 10);
    rig_stop(&rig);
    redis_server_free(server);
}

static void kill_and_restart(struct redis_server *server)
{
    redis_server_stop(server, SIGKILL);
    redis_server_start(server);
}

CLAIM(a_server_that_is_killed_and_comes_back_loses_and_doubles_nothing)
{
    static const char *const words[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    struct redis_server *server = redis_server_new(&(struct redis_server_options){.words = words});
    struct rig rig = {0};
    scene_start(&rig, server);
    push_under(&rig, server, 60, kill_and_restart);
    assert_true(rig.figures.reconnects >= 3);
    assert_int_equal(rig.figures.failovers, 3);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIMS_MAIN(NULL, NULL)
