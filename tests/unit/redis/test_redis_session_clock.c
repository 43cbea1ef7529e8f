/* A shard's clock where that of its server jumps. */
#include "session_scene.h"
#include "unit/claim.h"
#include "unit/fake_clock.h"

#include <stdatomic.h>

static int64_t now_after(struct rig *rig, const char *id)
{
    struct rig_call *push = rig_push(rig, "t", id, 60000);
    assert_true(RIG_UNTIL(rig, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    int64_t now_ms = push->now_ms;
    free(push);
    return now_ms;
}

CLAIM(a_shard_clock_continues_when_the_redis_clock_jumps)
{
    static const int64_t jumps_ms[] = {10000, -7000, 3600000, 900};
    char path[32];
    _Atomic int64_t *clock = fake_clock_open(path);
    int64_t jumped_ms = 0;
    uint64_t counted = 0;
    struct redis_server *server =
        redis_server_new(&(struct redis_server_options){.preload = TARRY_FAKE_TIME_LIBRARY});
    struct rig rig = {0};
    struct rig others[] = {{.server = "fedcba98"}, {.server = "fedcba99"}, {.server = "fedcba9a"}};
    uint64_t found = 0;
    scene_start(&rig, server);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        scene_start(&others[i], server);
    int64_t apart_ms = now_after(&rig, "a") - clock_inner_ms();
    for (size_t i = 0; i < COUNT_OF(jumps_ms); i++) {
        jumped_ms += jumps_ms[i];
        atomic_store(&clock[1], jumped_ms * 1000);
        (void)now_after(&rig, "b"); /* this one shows it */
        assert_true(RIG_UNTIL(&rig, redis_session_is_up(rig.session)));
        int64_t off_ms = now_after(&rig, "c") - clock_inner_ms() - apart_ms;
        if (llabs(off_ms) > 100)
            fail_msg("after a jump of %d ms it is off by %d ms", (int)jumps_ms[i], (int)off_ms);
        /* Again if the journeys of a slow machine hid a part of the jump. */
        assert_in_range(rig.figures.clock_disagreements - counted, 1, 4);
        counted = rig.figures.clock_disagreements;
    }
    /* The first session has set it. Only what slow journeys hid may be left for one of the others. */
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        (void)now_after(&others[i], "d");
        found += others[i].figures.clock_disagreements;
        rig_stop(&others[i]);
    }
    assert_true(found < COUNT_OF(others));
    rig_stop(&rig);
    redis_server_free(server);
    fake_clock_close(clock, path);
}

/* Ten calls are under way when it shows. */
CLAIM(calls_wait_until_the_clock_is_right)
{
    char path[32];
    _Atomic int64_t *clock = fake_clock_open(path);
    struct redis_server *server =
        redis_server_new(&(struct redis_server_options){.preload = TARRY_FAKE_TIME_LIBRARY});
    struct rig_call *calls[10];
    struct rig rig = {0};
    scene_start(&rig, server);
    int64_t now_ms = now_after(&rig, "a");
    atomic_store(&clock[1], 20000000);
    for (int i = 0; i < 10; i++)
        calls[i] = rig_push(&rig, "t", "b", 60000);
    assert_true(RIG_UNTIL(&rig, redis_session_calls(rig.session) == 0));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_OK);
        assert_true((calls[i]->now_ms - now_ms > 10000) == (i < REDIS_SESSION_SLOTS));
        free(calls[i]);
    }
    rig_stop(&rig);
    redis_server_free(server);
    fake_clock_close(clock, path);
}

CLAIMS_MAIN(NULL, NULL)
