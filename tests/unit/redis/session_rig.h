/* session_rig: a session with a reactor of its own, calls that note how they ended, and running the loop
 * until something holds. */
#ifndef TARRY_TESTS_SESSION_RIG_H
#define TARRY_TESTS_SESSION_RIG_H

#include "base/clock.h"
#include "redis/command.h"
#include "redis/session.h"

#include "unit/cases.h"

#include <stdio.h>
#include <stdlib.h>

struct rig {
    struct reactor *reactor;
    struct redis_url url;
    struct redis_topology *topology;
    struct redis_session *session;
    struct redis_figures figures;
    struct redis_tally tally;
    struct buckets script_us[REDIS_SCRIPTS_SERVED + 1];
    uv_timer_t tick;
    int64_t timeout_ms;
    uint32_t wait_replicas;
    char server[9], tag[REDIS_TAG_BYTES];
    /* its reports */
    int ups, downs, dues, readies;
    int64_t due_ms;
    char ready[64];
};

struct rig_call {
    struct redis_call call;
    struct rig *rig;
    int order;               /* how many had ended before it */
    enum redis_call_end end; /* 0: not yet */
    int64_t now_ms, adjust_ms;
    uint8_t status; /* first byte of the answer's rest */
    char id[32];
};

/* "d" and a time; "r", the server it is from, and a topic: those of our own are passed over. */
static inline void rig_on_message(void *ctx, struct slice message)
{
    struct rig *rig = ctx;
    if (message.at[0] == 'd') {
        rig->dues++;
        rig->due_ms = atoll(message.at + 1);
    } else if (message.at[0] == 'r' && memcmp(message.at + 1, rig->server, 8) != 0) {
        rig->readies++;
        snprintf(rig->ready, sizeof rig->ready, "%.*s", (int)message.len - 9, message.at + 9);
    }
}

static inline void rig_on_change(void *ctx, bool up)
{
    struct rig *rig = ctx;
    if (up)
        rig->ups++;
    else
        rig->downs++;
}

static inline void rig_on_tick(uv_timer_t *tick)
{
    (void)tick;
}

/* The rest of the rig may be set before: timeout, server, tag, wait_replicas. */
static inline void rig_start(struct rig *rig, const char *url)
{
    char error[256] = "";
    if (!redis_url_parse(url, &rig->url, error, sizeof error))
        fail_msg("%s", error);
    assert_true(redis_scripts_init());
    if (!rig->server[0])
        strcpy(rig->server, "0badcafe");
    if (!rig->tag[0])
        strcpy(rig->tag, "{tarry:0}");
    rig->reactor = reactor_new(0);
    rig->topology = redis_topology_new(rig->reactor, &rig->url);
    struct redis_session_options options = {
        .reactor = rig->reactor,
        .topology = rig->topology,
        .url = &rig->url,
        .shards = 1,
        .wait_replicas = rig->wait_replicas,
        .timeout_ms = rig->timeout_ms ? rig->timeout_ms : 10000,
        .figures = &rig->figures,
        .tally = &rig->tally,
        .script_us = rig->script_us,
        .message = rig_on_message,
        .changed = rig_on_change,
        .ctx = rig,
    };
    memcpy(options.tag, rig->tag, sizeof options.tag);
    memcpy(options.server, rig->server, sizeof options.server);
    rig->session = redis_session_new(&options);
    uv_timer_init(reactor_loop(rig->reactor), &rig->tick);
}

static inline void rig_stop(struct rig *rig)
{
    redis_session_free(rig->session);
    redis_topology_free(rig->topology);
    uv_close((uv_handle_t *)&rig->tick, NULL);
    reactor_free(rig->reactor);
    rig->session = NULL;
}

static inline void rig_run_ms(struct rig *rig, int64_t ms)
{
    int64_t end_us = clock_boot_us() + ms * 1000;
    uv_timer_start(&rig->tick, rig_on_tick, 0, 2);
    while (clock_boot_us() < end_us)
        uv_run(reactor_loop(rig->reactor), UV_RUN_ONCE);
    uv_timer_stop(&rig->tick);
}

/* Runs the loop until it holds, or for a minute at most; whether it holds then. */
#define RIG_UNTIL(RIG, CONDITION)                                                                  \
    __extension__({                                                                                \
        int64_t rig_end_us = clock_boot_us() + 60000000;                                           \
        uv_timer_start(&(RIG)->tick, rig_on_tick, 0, 5);                                           \
        while (!(CONDITION) && clock_boot_us() < rig_end_us)                                       \
            uv_run(reactor_loop((RIG)->reactor), UV_RUN_ONCE);                                     \
        uv_timer_stop(&(RIG)->tick);                                                               \
        (CONDITION);                                                                               \
    })

/* ---- calls ---- */

static inline void rig_done(struct redis_call *call, enum redis_call_end end,
                            const struct redis_head *head, const redisReply *reply)
{
    static int ended;
    struct rig_call *mine = (struct rig_call *)(void *)call;
    assert_int_equal(mine->end, 0);
    assert_true((end == REDIS_CALL_OK) == (head != NULL && reply != NULL));
    mine->end = end;
    mine->order = ended++;
    if (head) {
        mine->now_ms = head->now_ms;
        mine->adjust_ms = head->adjust_ms;
        mine->status = head->rest.len ? (uint8_t)head->rest.at[0] : 0;
    }
    buffer_fini(&call->args);
}

static inline struct rig_call *rig_call_new(struct rig *rig, enum redis_script script, bool changes)
{
    struct rig_call *call = calloc(1, sizeof *call);
    call->rig = rig;
    call->call.script = script;
    call->call.changes = changes;
    call->call.done = rig_done;
    buffer_init(&call->call.args, 1 << 20);
    return call;
}

/* A job with a body of two bytes, due in `delay_ms` (0: now). Free it once it has ended. */
static inline struct rig_call *rig_push(struct rig *rig, const char *topic, const char *id,
                                        int64_t delay_ms)
{
    struct rig_call *call = rig_call_new(rig, REDIS_PUSH, true);
    struct buffer *args = &call->call.args;
    unsigned char spec[11] = {0, 2, 0, 0, 100};
    for (int i = 0; i < 6; i++)
        spec[5 + i] = (unsigned char)((uint64_t)delay_ms >> (8 * (5 - i)));
    snprintf(call->id, sizeof call->id, "%s", id);
    call->call.argc = 5;
    redis_command_text(args, topic);
    redis_command_text(args, "1000");
    redis_command_text(args, id);
    redis_command_arg(args, slice_make(spec, sizeof spec));
    redis_command_text(args, "{}");
    redis_session_submit(rig->session, &call->call);
    return call;
}

static inline struct rig_call *rig_get(struct rig *rig, const char *topic, const char *id)
{
    struct rig_call *call = rig_call_new(rig, REDIS_GET, false);
    call->call.argc = 2;
    redis_command_text(&call->call.args, topic);
    redis_command_text(&call->call.args, id);
    redis_session_submit(rig->session, &call->call);
    return call;
}

/* Runs the loop until it has ended; frees it. */
static inline enum redis_call_end rig_end_of(struct rig *rig, struct rig_call *call)
{
    bool ended = RIG_UNTIL(rig, call->end != 0);
    enum redis_call_end end = call->end;
    assert_true(ended);
    free(call);
    return end;
}

#endif
