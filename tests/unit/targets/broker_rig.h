/* broker_rig: one target with a reactor, a guard and a policy file of its own; what was reported is
 * noted by tag. */
#ifndef TARRY_TESTS_BROKER_RIG_H
#define TARRY_TESTS_BROKER_RIG_H

#include "base/clock.h"
#include "guard/resolve.h"
#include "targets/target.h"

#include "unit/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RIG_TAGS_MAX = 20000 };

struct broker_rig {
    struct reactor *reactor;
    struct guard *guard;
    struct resolver *resolver;
    struct target_env env;
    struct target *target;
    struct target_setting setting;
    char to[256];
    uv_timer_t tick;
    bool is_sending, is_closed;
    /* its reports */
    size_t reported, done, failed, refused, unsent, wrong;
    struct target_report last;
    unsigned char outcomes[RIG_TAGS_MAX];
};

static inline void broker_rig_reported(void *owner, uint64_t tag,
                                       const struct target_report *report)
{
    struct broker_rig *rig = owner;
    rig->wrong += rig->is_sending || rig->is_closed || tag >= RIG_TAGS_MAX ||
                  rig->outcomes[tag % RIG_TAGS_MAX];
    rig->outcomes[tag % RIG_TAGS_MAX] = (unsigned char)report->outcome;
    rig->reported++;
    rig->done += report->outcome == TARGET_DONE;
    rig->failed += report->outcome == TARGET_FAILED;
    rig->refused += report->outcome == TARGET_REFUSED;
    rig->unsent += report->outcome == TARGET_UNSENT;
    rig->last = *report;
}

static inline void broker_rig_on_tick(uv_timer_t *tick)
{
    (void)tick;
}

/* `policy`: the text of the policy file, or NULL: nothing is allowed. */
static inline void broker_rig_guard(struct broker_rig *rig, const char *policy)
{
    char path[] = "/tmp/tarry-policy-XXXXXX", error[GUARD_ERROR_BYTES] = "";
    int fd = policy ? mkstemp(path) : -1;
    if (policy) {
        assert_true(fd >= 0);
        assert_int_equal(write(fd, policy, strlen(policy)), (ssize_t)strlen(policy));
        close(fd);
    }
    if (guard_open(policy ? path : NULL, &rig->guard, error) != 0)
        fail_msg("%s", error);
    if (policy)
        unlink(path);
}

/* setting.timeout_ms and the like may be set before. */
static inline void broker_rig_start(struct broker_rig *rig, const char *policy, const char *to)
{
    rig->reactor = reactor_new(0);
    assert_non_null(rig->reactor);
    broker_rig_guard(rig, policy);
    rig->resolver = resolver_new(rig->reactor, rig->guard);
    rig->env = (struct target_env){.reactor = rig->reactor,
                                   .guard = rig->guard,
                                   .resolver = rig->resolver,
                                   .reported = broker_rig_reported,
                                   .owner = rig,
                                   .version = "0"};
    snprintf(rig->to, sizeof rig->to, "%s", to);
    rig->setting.to = rig->to;
    if (!rig->setting.timeout_ms)
        rig->setting.timeout_ms = 10000;
    rig->setting.max_in_flight = 64;
    uv_timer_init(reactor_loop(rig->reactor), &rig->tick);
}

static inline void broker_rig_open(struct broker_rig *rig, const struct target_ops *ops)
{
    char error[TARGET_ERROR_BYTES] = "";
    if (!ops->check(&rig->setting, slice_of(rig->to), error))
        fail_msg("%s", error);
    rig->target = ops->open(&rig->env, &rig->setting, slice_of(rig->to));
    assert_non_null(rig->target);
}

/* Runs the loop until it holds, or for so many seconds at most; whether it holds then. */
#define BROKER_RIG_UNTIL(RIG, SECONDS, CONDITION)                                                  \
    __extension__({                                                                                \
        int64_t rig_end_us = clock_boot_us() + (int64_t)((SECONDS)*1000000);                       \
        uv_timer_start(&(RIG)->tick, broker_rig_on_tick, 0, 5);                                    \
        while (!(CONDITION) && clock_boot_us() < rig_end_us)                                       \
            uv_run(reactor_loop((RIG)->reactor), UV_RUN_ONCE);                                     \
        uv_timer_stop(&(RIG)->tick);                                                               \
        (CONDITION);                                                                               \
    })

static inline void broker_rig_send(struct broker_rig *rig, uint64_t tag, const struct job *job)
{
    struct target_message message = {
        .tag = tag, .job = job, .setting = &rig->setting, .to = slice_of(rig->to)};
    rig->is_sending = true;
    rig->target->ops->send(rig->target, &message, 1);
    rig->is_sending = false;
}

/* A small job: topic "orders", an id of the tag, the body given. */
static inline void broker_rig_send_text(struct broker_rig *rig, uint64_t tag, const char *body)
{
    char id[32];
    snprintf(id, sizeof id, "%d", (int)tag);
    struct job job = {.topic = slice_of("orders"),
                      .id = slice_of(id),
                      .body = slice_of(body),
                      .attempt = 1,
                      .due_ms = 1700000000000};
    broker_rig_send(rig, tag, &job);
}

static inline void broker_rig_on_closed(void *ctx)
{
    struct broker_rig *rig = ctx;
    rig->is_closed = true;
}

static inline void broker_rig_close(struct broker_rig *rig)
{
    rig->target->ops->close(rig->target, broker_rig_on_closed, rig);
    assert_false(rig->is_closed);
    assert_true(BROKER_RIG_UNTIL(rig, 20, rig->is_closed));
    rig->target = NULL;
}

static inline void broker_rig_stop(struct broker_rig *rig)
{
    if (rig->target)
        broker_rig_close(rig);
    resolver_free(rig->resolver);
    uv_close((uv_handle_t *)&rig->tick, NULL);
    reactor_free(rig->reactor);
    guard_free(rig->guard);
    assert_int_equal(rig->wrong, 0);
}

#endif
