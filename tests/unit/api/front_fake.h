/* front_fake: a server of front_rig.h whose queue holds its answers back: the test releases them at
 * any time and in any order. */
#ifndef TARRY_TESTS_FRONT_FAKE_H
#define TARRY_TESTS_FRONT_FAKE_H

#include "front_rig.h"

#include <stdatomic.h>

/* ---- the queue ---- */

enum { HELD_MAX = 2000 };

struct held {
    struct queue_reply_to to;
    char topic[32], id[32];
};

struct fake {
    struct queue queue;
    struct reactor *reactor;
    struct held held[HELD_MAX];
    int held_count;
    atomic_int
        holds; /* answer once so many are here, the last one first; 0: at the end of the round */
    atomic_int pushed, most_held, returned;
    atomic_int ready; /* jobs the next take gets */
};

static inline struct held *fake_hold(struct fake *fake, struct queue_reply_to to)
{
    struct held *held = &fake->held[fake->held_count++];
    assert_true(fake->held_count <= HELD_MAX);
    *held = (struct held){.to = to};
    if (fake->held_count > atomic_load(&fake->most_held))
        atomic_store(&fake->most_held, fake->held_count);
    return held;
}

static inline void fake_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                             struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct held *held = fake_hold(fake, to);
    assert_int_equal(count, 1);
    (void)snprintf(held->topic, sizeof held->topic, "%.*s", (int)pushes->topic.len,
                   pushes->topic.at);
    (void)snprintf(held->id, sizeof held->id, "%.*s", (int)pushes->id.len, pushes->id.at);
    atomic_fetch_add(&fake->pushed, 1);
}

struct fake_taken {
    struct letter letter;
    struct fake *fake;
    struct queue_reply_to to;
    int jobs;
};

static inline void fake_answer_take(struct letter *letter)
{
    struct fake_taken *taken = (struct fake_taken *)(void *)letter;
    struct queue_job job = {.job = {.topic = slice_of("t"),
                                    .id = slice_of("1"),
                                    .body = slice_of("\xff raw"),
                                    .content_type = slice_of("a/b"),
                                    .meta = slice_make("k\0v\0", 4),
                                    .state = JOB_LEASED,
                                    .attempt = 1,
                                    .delivery = 7},
                            .lease = slice_of("lease-1")};
    struct queue_reply reply = {.jobs = &job, .job_count = (size_t)taken->jobs};
    taken->to.done(taken->to.owner, taken->to.tag, &reply);
    free(taken);
}

static inline void fake_take(struct queue *queue, const struct queue_take *take,
                             struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct fake_taken *taken = calloc(1, sizeof *taken);
    (void)take;
    taken->letter.run = fake_answer_take;
    taken->to = to;
    taken->jobs = fake->ready;
    fake->ready = 0;
    reactor_post(fake->reactor, &taken->letter);
}

static inline void fake_answer(struct queue *queue, const struct queue_answer *answers,
                               size_t count, struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    (void)to;
    for (size_t i = 0; i < count; i++)
        if (answers[i].verb == QUEUE_RETURN)
            atomic_fetch_add(&fake->returned, 1);
}

static inline void fake_submit(struct queue *queue, const struct command *command,
                               struct queue_reply_to to)
{
    if (command->kind == COMMAND_PUSH) {
        fake_push(queue, command->pushes, command->count, to);
    } else if (command->kind == COMMAND_TAKE) {
        fake_take(queue, &command->take, to);
    } else if (command->kind == COMMAND_GET || command->kind == COMMAND_LIST) {
        (void)fake_hold((struct fake *)queue, to);
    } else {
        assert_int_equal(command->kind, COMMAND_ANSWER);
        fake_answer(queue, command->answers, command->count, to);
    }
}

static const struct queue_ops fake_ops = {
    .submit = fake_submit,
    .watch = front_rig_watch,
    .info = front_rig_info,
};

static inline bool fake_answer_held(void *ctx)
{
    struct fake *fake = ctx;
    if (fake->held_count < fake->holds || !fake->held_count)
        return false;
    while (fake->held_count) {
        struct held *held = &fake->held[--fake->held_count];
        struct queue_result result = {.status = QUEUE_CREATED,
                                      .state = JOB_READY,
                                      .topic = slice_of(held->topic),
                                      .id = slice_of(held->id)};
        struct queue_reply reply = {.results = &result, .result_count = 1};
        held->to.done(held->to.owner, held->to.tag, &reply);
    }
    return false;
}

/* ---- the server ---- */

struct server {
    struct fake fake;
    struct front_rig rig;
    struct letter drain;
    atomic_bool drained;
};

static inline void server_start(struct server *server, struct http_options options)
{
    memset(server, 0, sizeof *server);
    server->fake.queue.ops = &fake_ops;
    front_rig_open(&server->rig, &server->fake.queue, options);
    server->fake.reactor = server->rig.reactor;
    /* After the front's hook: the worst place for it. */
    reactor_at_iteration_end(server->rig.reactor, fake_answer_held, &server->fake);
    assert_int_equal(reactor_start(server->rig.reactor), 0);
}

static inline void server_stop(struct server *server)
{
    front_rig_halt(&server->rig);
    server->fake.holds = 0;
    (void)fake_answer_held(&server->fake);
    front_rig_close(&server->rig);
}

static inline void server_on_drained(void *ctx)
{
    atomic_store((atomic_bool *)ctx, true);
}

static inline void server_run_drain(struct letter *letter)
{
    struct server *server =
        (struct server *)(void *)((char *)letter - offsetof(struct server, drain));
    http_front_drain(server->rig.front, server_on_drained, &server->drained);
    waiters_drain(server->rig.waiters);
}

static inline void server_drain(struct server *server)
{
    server->drain.run = server_run_drain;
    reactor_post(server->rig.reactor, &server->drain);
}

#endif
