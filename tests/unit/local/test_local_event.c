/* Events of topics on any shard, reported on the thread of the one handle that listens. The other
 * reactors run on threads of their own. */
#include "local/local.h"

#include "base/clock.h"
#include "base/log.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SHARDS = 3, LISTENER = 0, BURST = 300, TIMEOUT_MS = 30000 };

struct world {
    char dir[64];
    struct local *local;
    struct reactor *reactors[SHARDS];
    struct queue *queues[SHARDS];
    pthread_t thread; /* the listener's */
    size_t topic_events, dead_events;
    char last_topic[32];
    bool answered, stopped;
    struct queue_reply reply; /* its numbers; not what it points at */
    char leases[BURST][QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes[BURST];
};

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct world *world = owner;

    assert_true(pthread_equal(pthread_self(), world->thread));
    world->topic_events += event == QUEUE_EVENT_TOPIC;
    world->dead_events += event == QUEUE_EVENT_DEAD;
    snprintf(world->last_topic, sizeof world->last_topic, "%.*s", (int)topic.len, topic.at);
}

/* ---- the world ---- */

static int open_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    char error[512] = "";
    uint32_t shards;

    assert_true(scratch_make(world->dir));
    struct local_options options = {.data_dir = world->dir,
                                    .shards = SHARDS,
                                    .sync = WAL_SYNC_NEVER,
                                    .wal_file_bytes = 1 << 20,
                                    .body_bytes_max = 1 << 10,
                                    .topics_max = 100};
    log_open(NULL, LOG_ERROR, false);
    if (local_open(&options, &world->local, &shards, error, sizeof error))
        fail_msg("%s", error);
    for (uint32_t i = 0; i < SHARDS; i++) {
        world->reactors[i] = reactor_new(i);
        if (local_attach(world->local, i, world->reactors[i], &world->queues[i], error,
                         sizeof error))
            fail_msg("%s", error);
    }
    world->thread = pthread_self();
    world->queues[LISTENER]->on_event = on_event;
    world->queues[LISTENER]->on_event_owner = world;
    for (uint32_t i = 0; i < SHARDS; i++)
        if (i != LISTENER)
            assert_int_equal(reactor_start(world->reactors[i]), 0);
    *state = world;
    return 0;
}

static void iterate(struct world *world)
{
    uv_run(reactor_loop(world->reactors[LISTENER]), UV_RUN_NOWAIT);
    usleep(20);
}

static void wait_for(struct world *world, const bool *flag)
{
    int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;

    while (!*flag && clock_boot_us() < until_us)
        iterate(world);
    assert_true(*flag);
}

/* More than `before`. */
static void wait_for_more(struct world *world, const size_t *events, size_t before)
{
    int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;

    while (*events <= before && clock_boot_us() < until_us)
        iterate(world);
    assert_true(*events > before);
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->stopped = true;
}

static int close_world(void **state)
{
    struct world *world = *state;

    local_stop(world->local, on_stopped, world);
    wait_for(world, &world->stopped);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (i != LISTENER) {
            reactor_stop(world->reactors[i]);
            reactor_join(world->reactors[i]);
        }
    local_free(world->local);
    for (uint32_t i = 0; i < SHARDS; i++)
        reactor_free(world->reactors[i]);
    int result = scratch_remove(world->dir);
    free(world);
    return result;
}

/* ---- calls from the listener's handle, each waited for ---- */

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct world *world = owner;

    (void)tag;
    world->answered = true;
    world->reply = *reply;
    for (size_t i = 0; i < reply->job_count && i < BURST; i++) {
        world->lease_bytes[i] = reply->jobs[i].lease.len;
        memcpy(world->leases[i], reply->jobs[i].lease.at, reply->jobs[i].lease.len);
    }
}

static struct queue_reply_to to(struct world *world)
{
    world->answered = false;
    return (struct queue_reply_to){.done = on_done, .owner = world};
}

static void put(struct world *world, const char *topic, const char *extension)
{
    struct queue *queue = world->queues[LISTENER];
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_PUT,
                                    .topic = slice_of(topic),
                                    .settings = {.extension = slice_of(extension)}};

    queue_topic(queue, &call, to(world));
    wait_for(world, &world->answered);
}

/* Pushes, takes and finally nacks jobs first..first+count-1 in one call. */
static void let_die(struct world *world, const char *topic, int first, size_t count)
{
    static char ids[BURST][16];
    struct queue_push pushes[BURST];
    struct queue_answer answers[BURST];
    struct queue *queue = world->queues[LISTENER];
    struct slice name = slice_of(topic);
    struct queue_take take = {.topics = &name, .topic_count = 1, .max = (uint32_t)count};

    for (size_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", first + (int)i);
        pushes[i] = (struct queue_push){.topic = name,
                                        .id = slice_of(ids[i]),
                                        .when.due = QUEUE_DUE_NOW,
                                        .priority = QUEUE_PRIORITY_UNSET};
    }
    queue_push(queue, pushes, count, to(world));
    wait_for(world, &world->answered);
    queue_take(queue, &take, to(world));
    wait_for(world, &world->answered);
    assert_int_equal(world->reply.job_count, count);
    for (size_t i = 0; i < count; i++)
        answers[i] =
            (struct queue_answer){.verb = QUEUE_NACK,
                                  .lease = slice_make(world->leases[i], world->lease_bytes[i]),
                                  .final = true};
    queue_answer(queue, answers, count, to(world));
    wait_for(world, &world->answered);
}

/* ---- the claims ---- */

CLAIM_BETWEEN(a_death_on_any_shard_reaches_the_listener, open_world, close_world)
{
    struct world *world = *state;

    put(world, "t", "{}");
    for (int i = 0; i < 40; i++) { /* on each of three shards, but once in ten million runs */
        size_t before = world->dead_events;

        let_die(world, "t", i, 1);
        wait_for_more(world, &world->dead_events, before);
        assert_string_equal(world->last_topic, "t");
    }
}

CLAIM_BETWEEN(a_burst_of_deaths_is_reported_in_a_few_events, open_world, close_world)
{
    struct world *world = *state;

    put(world, "t", "{}");
    let_die(world, "t", 0, BURST);
    wait_for_more(world, &world->dead_events, 0);
    for (int i = 0; i < 100; i++)
        iterate(world);
    assert_in_range(world->dead_events, 1, 2 * SHARDS); /* a batch's part may be cut in two */
}

CLAIM_BETWEEN(a_topic_without_an_extension_reports_no_deaths, open_world, close_world)
{
    struct world *world = *state;

    put(world, "t", "");
    let_die(world, "t", 0, 50);
    for (int i = 0; i < 100; i++)
        iterate(world);
    assert_int_equal(world->dead_events, 0);
    put(world, "other", "{}");
    let_die(world, "other", 0, 50);
    wait_for_more(world, &world->dead_events, 0);
    for (int i = 0; i < 100; i++)
        iterate(world);
    assert_string_equal(world->last_topic, "other");
    assert_in_range(world->dead_events, 1, 2 * SHARDS);
}

struct abroad {
    struct letter letter;
    struct world *world;
    atomic_bool done;
};

static void done_abroad(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    assert_int_equal(reply->status, QUEUE_CREATED);
    atomic_store(&((struct abroad *)owner)->done, true);
}

static void put_abroad(struct letter *letter)
{
    struct abroad *abroad = (struct abroad *)(void *)letter;
    struct queue *queue = abroad->world->queues[2];
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_PUT,
                                    .topic = slice_of("abroad"),
                                    .settings = {.extension = slice_of("{}")}};

    queue_topic(queue, &call, (struct queue_reply_to){.done = done_abroad, .owner = abroad});
}

CLAIM_BETWEEN(a_change_through_another_handle_sends_an_event, open_world, close_world)
{
    struct world *world = *state;
    struct abroad abroad = {.letter.run = put_abroad, .world = world};

    reactor_post(world->reactors[2], &abroad.letter);
    wait_for_more(world, &world->topic_events, 0);
    assert_string_equal(world->last_topic, "abroad");
    while (!atomic_load(&abroad.done))
        iterate(world);
}

CLAIMS_MAIN(NULL, NULL)
