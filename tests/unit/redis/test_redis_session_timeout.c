/* How long a call waits for a server that is away. */
#include "session_scene.h"
#include "unit/claim.h"

#include <signal.h>

CLAIM(a_call_waits_no_longer_than_its_timeout)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 400};
    scene_start(&rig, server);
    redis_server_stop(server, SIGKILL);
    int64_t begin_ms = clock_inner_ms();
    struct rig_call *read = rig_get(&rig, "t", "a");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_UNAVAILABLE);
    assert_true(clock_inner_ms() - begin_ms >= 400 && clock_inner_ms() - begin_ms < 5000);
    assert_int_equal(rig_end_of(&rig, read, 1), REDIS_CALL_UNAVAILABLE);
    assert_false(redis_session_is_up(rig.session));
    assert_int_equal(redis_session_calls(rig.session), 0);
    redis_server_start(server);
    assert_true(RIG_UNTIL(&rig, 5, redis_session_is_up(rig.session)));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "b", 1000), 5), REDIS_CALL_OK);
    rig_stop(&rig);
    redis_server_free(server);
}

/* One that is under way, one that waits, and one that comes later still. */
CLAIM(a_stop_ends_the_timeout_of_all_calls)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 60000};
    scene_start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 2000 ALL");
    struct rig_call *flying = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 100);
    redis_server_stop(server, SIGKILL);
    assert_true(RIG_UNTIL(&rig, 5, !redis_session_is_up(rig.session)));
    struct rig_call *waiting = rig_get(&rig, "t", "a");
    int64_t begin_ms = clock_inner_ms();
    redis_session_stop(rig.session, begin_ms + 400);
    struct rig_call *later = rig_push(&rig, "t", "b", 1000);
    assert_int_equal(rig_end_of(&rig, flying, 5), REDIS_CALL_UNAVAILABLE);
    assert_true(clock_inner_ms() - begin_ms >= 400 && clock_inner_ms() - begin_ms < 5000);
    assert_int_equal(rig_end_of(&rig, waiting, 1), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig_end_of(&rig, later, 1), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a"), 1), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(redis_session_calls(rig.session), 0);
    rig_stop(&rig);
    redis_server_free(server);
}

/* A change given up on is fenced off once its slot is used again; until then it may still happen.
 */
CLAIM(calls_given_up_leave_room_for_others)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 300};
    struct rig_call *calls[20];
    scene_start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 800 ALL");
    for (int i = 0; i < 20; i++)
        calls[i] = i % 2 ? rig_push(&rig, "t", "a", 1000) : rig_get(&rig, "t", "a");
    assert_true(RIG_UNTIL(&rig, 5, redis_session_calls(rig.session) == 0));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_UNAVAILABLE);
        free(calls[i]);
    }
    assert_int_equal(redis_session_under_way(rig.session), 0);
    rig_run_ms(&rig, 450); /* the pause ends while the next one waits */
    struct rig_call *last = rig_push(&rig, "t", "z", 1000);
    assert_true(RIG_UNTIL(&rig, 5, last->end));
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
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a"), 5), REDIS_CALL_OK);
    assert_int_equal(rig_end_of(&rig, push, 1), REDIS_CALL_OK);
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
    assert_true(RIG_UNTIL(&rig, 8, rig.downs == 1));
    kill(server->pid, SIGCONT);
    assert_true(RIG_UNTIL(&rig, 8, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    assert_int_equal(scene_figure(server, "t", REDIS_FIGURE_PUSHED), 1);
    free(push);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIMS_MAIN(NULL, NULL)
