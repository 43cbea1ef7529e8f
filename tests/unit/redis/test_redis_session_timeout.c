/* How long a call waits for a server that is away. */
#include "session_scene.h"
#include "unit/claim.h"

#include <signal.h>

CLAIM(a_call_waits_no_longer_than_its_timeout)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 2000};
    scene_start(&rig, server);
    redis_server_stop(server, SIGKILL);
    int64_t begin_ms = clock_inner_ms();
    struct rig_call *read = rig_get(&rig, "t", "a");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_UNAVAILABLE);
    assert_true(clock_inner_ms() - begin_ms >= 2000);
    assert_int_equal(rig_end_of(&rig, read), REDIS_CALL_UNAVAILABLE);
    assert_false(redis_session_is_up(rig.session));
    assert_int_equal(redis_session_calls(rig.session), 0);
    redis_server_start(server);
    assert_true(RIG_UNTIL(&rig, redis_session_is_up(rig.session)));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "b", 1000)), REDIS_CALL_OK);
    rig_stop(&rig);
    redis_server_free(server);
}

/* One that is under way, one that waits, and one that comes later still. */
CLAIM(a_stop_ends_the_timeout_of_all_calls)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 60000};
    scene_start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 60000 ALL");
    struct rig_call *flying = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 100);
    redis_server_stop(server, SIGKILL);
    assert_true(RIG_UNTIL(&rig, !redis_session_is_up(rig.session)));
    struct rig_call *waiting = rig_get(&rig, "t", "a");
    int64_t begin_ms = clock_inner_ms();
    redis_session_stop(rig.session, begin_ms + 400);
    struct rig_call *later = rig_push(&rig, "t", "b", 1000);
    assert_int_equal(rig_end_of(&rig, flying), REDIS_CALL_UNAVAILABLE);
    assert_true(clock_inner_ms() - begin_ms >= 400);
    assert_int_equal(rig_end_of(&rig, waiting), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig_end_of(&rig, later), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a")), REDIS_CALL_UNAVAILABLE);
    assert_true(clock_inner_ms() - begin_ms < rig.timeout_ms);
    assert_int_equal(redis_session_calls(rig.session), 0);
    rig_stop(&rig);
    redis_server_free(server);
}

/* A change given up on is fenced off once its slot is used again; until then it may still happen.
 */
CLAIM(calls_given_up_leave_room_for_others)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 5000};
    struct rig_call *calls[20];
    scene_start(&rig, server);
    kill(server->pid, SIGSTOP);
    for (int i = 0; i < 20; i++)
        calls[i] = i % 2 ? rig_push(&rig, "t", "a", 1000) : rig_get(&rig, "t", "a");
    assert_true(RIG_UNTIL(&rig, redis_session_calls(rig.session) == 0));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_UNAVAILABLE);
        free(calls[i]);
    }
    assert_int_equal(redis_session_under_way(rig.session), 0);
    struct rig_call *last = rig_push(&rig, "t", "z", 1000);
    rig_run_ms(&rig, 50);
    kill(server->pid, SIGCONT);
    assert_true(RIG_UNTIL(&rig, last->end));
    assert_int_equal(last->end, REDIS_CALL_OK);
    assert_int_equal(last->status, CREATED);
    free(last);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(a_pause_shorter_than_the_timeout_is_only_a_pause)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 1500 ALL");
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a")), REDIS_CALL_OK);
    assert_int_equal(rig_end_of(&rig, push), REDIS_CALL_OK);
    assert_int_equal(rig.figures.reconnects, 0);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(a_server_that_falls_silent_is_left_and_found_again)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 20000};
    scene_start(&rig, server);
    kill(server->pid, SIGSTOP);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_true(RIG_UNTIL(&rig, rig.downs == 1));
    kill(server->pid, SIGCONT);
    assert_true(RIG_UNTIL(&rig, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), 1);
    free(push);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIMS_MAIN(NULL, NULL)
