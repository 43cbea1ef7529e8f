/* A session against a real server: calls, what waits for replicas, notifications of other servers. */
#include "session_scene.h"
#include "unit/claim.h"

/* ---- calls ---- */

CLAIM(calls_are_answered)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_true(RIG_UNTIL(&rig, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    assert_true(llabs(push->now_ms - clock_wall_ms()) < 1000);
    free(push);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a")), REDIS_CALL_OK);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), 1);
    assert_int_equal(rig.figures.calls, 2);
    assert_int_equal(rig.figures.resent, 0);
    assert_int_equal(redis_session_calls(rig.session), 0);
    assert_int_equal(redis_session_under_way(rig.session), 0);
    rig_stop(&rig);
    redis_server_free(server);
}

/* Redis is blocked: the call's time lasts until its reply, whatever the cause. */
CLAIM(calls_are_timed_for_their_shard_and_by_script)
{
    enum { HELD_MS = 60 };
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    uint64_t sent = rig.figures.bytes_sent, received = rig.figures.bytes_received;
    assert_true(sent > 0 && received > 0); /* the greeting */
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a")), REDIS_CALL_OK);
    redis_server_do(server, "CLIENT PAUSE 10000 WRITE");
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, HELD_MS);
    redis_server_do(server, "CLIENT UNPAUSE");
    assert_int_equal(rig_end_of(&rig, push), REDIS_CALL_OK);
    assert_int_equal(buckets_total(&rig.tally.round_trip_us), 2);
    assert_int_equal(buckets_total(&rig.script_us[REDIS_GET]), 1);
    assert_int_equal(buckets_total(&rig.script_us[REDIS_PUSH]), 1);
    assert_true(rig.script_us[REDIS_PUSH].sum >= HELD_MS * 1000);
    assert_int_equal(rig.tally.last_round_trip_us, rig.script_us[REDIS_PUSH].sum);
    assert_true(rig.figures.bytes_sent > sent + 100);
    assert_true(rig.figures.bytes_received > received);
    assert_string_equal(redis_session_endpoint(rig.session)->host, rig.url.hosts[0].host);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(at_most_one_call_per_slot_is_in_flight)
{
    enum { PUSHES = 200, GETS = 300 };
    struct redis_server *server = redis_server_new(NULL);
    struct rig_call *calls[PUSHES + GETS];
    struct rig rig = {0};
    char id[16];
    scene_start(&rig, server);
    for (int i = 0; i < PUSHES + GETS; i++) {
        snprintf(id, sizeof id, "j%d", i);
        calls[i] = i < PUSHES ? rig_push(&rig, "t", id, 1000) : rig_get(&rig, "t", id);
        assert_true(redis_session_under_way(rig.session) <=
                    REDIS_SESSION_SLOTS + SESSION_READS_MAX);
    }
    assert_int_equal(redis_session_under_way(rig.session), REDIS_SESSION_SLOTS + SESSION_READS_MAX);
    assert_int_equal(redis_session_calls(rig.session), PUSHES + GETS);
    assert_true(RIG_UNTIL(&rig, redis_session_calls(rig.session) == 0));
    for (int i = 0; i < PUSHES + GETS; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_OK);
        free(calls[i]);
    }
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), PUSHES);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(stopping_ends_calls_in_flight_and_waiting_ones)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig_call *calls[10];
    struct rig rig = {0};
    scene_start(&rig, server);
    for (int i = 0; i < 10; i++)
        calls[i] = rig_push(&rig, "t", "a", 1000);
    rig_stop(&rig);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_STOPPING);
        free(calls[i]);
    }
    redis_server_free(server);
}

/* ---- replicas ---- */

CLAIM(a_change_on_too_few_replicas_is_not_confirmed)
{
    struct redis_server *server = redis_server_new(NULL), *replica = redis_server_new(NULL);
    struct rig rig = {.wait_replicas = 1, .timeout_ms = 2000};
    scene_start(&rig, server);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), 1);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a")), REDIS_CALL_OK);
    redis_server_do(server, "CONFIG SET repl-diskless-sync-delay 0");
    redis_server_do(replica, "REPLICAOF 127.0.0.1 %d", (int)server->port);
    for (int i = 0; i < 20; i++) { /* until the replica is there */
        struct rig_call *push = rig_push(&rig, "t", "b", 1000);
        if (rig_end_of(&rig, push) == REDIS_CALL_OK)
            break;
    }
    struct rig_call *push = rig_push(&rig, "t", "c", 1000);
    assert_true(RIG_UNTIL(&rig, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    free(push);
    redisReply *reply = redis_server_ask(replica, "HEXISTS {tarry:0}:job:t c");
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    rig_stop(&rig);
    redis_server_free(replica);
    redis_server_free(server);
}

/* Its connection is cut while the answer waits for replicas; a repeated call is not reported as
 * replicated only because nothing new was written. */
CLAIM(a_repeated_change_also_waits_for_its_replicas)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.wait_replicas = 1, .timeout_ms = 4000};
    scene_start(&rig, server);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 200);
    assert_int_equal(push->end, 0);
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_true(RIG_UNTIL(&rig, push->end));
    assert_int_equal(push->end, REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig.figures.resent, 1);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), 1);
    free(push);
    rig_stop(&rig);
    redis_server_free(server);
}

/* ---- notifications ---- */

CLAIM(messages_of_other_servers_are_reported)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig one = {.server = "11111111"}, two = {.server = "22222222"};
    scene_start(&one, server);
    scene_start(&two, server);
    assert_int_equal(rig_end_of(&one, rig_push(&one, "t", "a", 60000)), REDIS_CALL_OK);
    assert_true(RIG_UNTIL(&two, two.dues == 1));
    assert_true(llabs(two.due_ms - clock_wall_ms() - 60000) < 2000);
    assert_int_equal(two.readies, 0);
    struct rig_call *push = rig_push(&one, "u", "b", 0);
    assert_int_equal(rig_end_of(&one, push), REDIS_CALL_OK);
    assert_true(RIG_UNTIL(&two, two.readies == 1));
    assert_string_equal(two.ready, "u");
    rig_run_ms(&one, 50);
    assert_int_equal(one.readies, 0);
    rig_stop(&two);
    rig_stop(&one);
    redis_server_free(server);
}

CLAIM(a_lost_subscription_is_renewed_and_reports_missed_messages)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    rig_run_ms(&rig, 20);
    int ups = rig.ups;
    redis_server_do(server, "CLIENT KILL TYPE pubsub");
    assert_true(RIG_UNTIL(&rig, rig.ups == ups + 1));
    assert_int_equal(rig.downs, 0);
    assert_true(rig.session->notifications.is_subscribed);
    rig_stop(&rig);
    redis_server_free(server);
}

/* ---- rest ---- */

static bool count_iteration(void *ctx)
{
    ++*(int *)ctx;
    return false;
}

CLAIM(idle_it_wakes_for_nothing)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 5000};
    int rounds = 0;
    scene_start(&rig, server);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 60000)), REDIS_CALL_OK);
    rig_run_ms(&rig,
               SESSION_SILENCE_MS + 100); /* what was set for the call rings once more at most */
    reactor_at_iteration_end(rig.reactor, count_iteration, &rounds);
    uv_timer_start(&rig.tick, rig_on_tick, 1500, 0);
    while (uv_is_active((uv_handle_t *)&rig.tick))
        uv_run(reactor_loop(rig.reactor), UV_RUN_ONCE);
    assert_true(rounds <= 2);
    reactor_remove_at_iteration_end(rig.reactor, count_iteration, &rounds);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIMS_MAIN(NULL, NULL)
