/* session_scene: a session of session_rig.h against a real server that a test does things to. */
#ifndef TARRY_TESTS_SESSION_SCENE_H
#define TARRY_TESTS_SESSION_SCENE_H

#include "redis/session_state.h"
#include "redis/state.h"
#include "support/redis_server.h"

#include "session_rig.h"

enum { CREATED = 1 };

static inline void scene_url(const struct redis_server *server, char out[64])
{
    snprintf(out, 64, "redis://127.0.0.1:%u", (unsigned)server->port);
}

static inline void scene_start(struct rig *rig, struct redis_server *server)
{
    char url[64];
    scene_url(server, url);
    rig_start(rig, url);
    assert_true(RIG_UNTIL(rig, redis_session_is_up(rig->session) &&
                                   rig->session->notifications.is_subscribed));
}

/* Returns a figure of the topic; 0 without a topic. */
static inline long long scene_figure(struct redis_server *server, const char *topic,
                                     enum redis_figure figure)
{
    redisReply *reply = redis_server_ask(server, "GET {tarry:0}:topic:%s", topic);
    if (!reply) /* its connection had been cut */
        reply = redis_server_ask(server, "GET {tarry:0}:topic:%s", topic);
    struct redis_topic_state state = {0};
    if (reply && reply->str)
        redis_topic_state_read(slice_make(reply->str, reply->len), &state);
    if (reply)
        freeReplyObject(reply);
    return state.figure[figure];
}

static inline void scene_cut(struct redis_server *server)
{
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
}

#endif
