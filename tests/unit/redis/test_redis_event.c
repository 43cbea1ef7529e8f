/* Events that a server receives of topics: of its own calls, of another server's, and after lost
 * messages. Two servers on one reactor and one real Redis, on the real clock. */
#include "base/clock.h"
#include "base/log.h"
#include "redis/redis.h"
#include "redis/slot.h"
#include "support/redis_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SERVERS = 2, SHARDS = 2, RECEIVED_MAX = 256 };
enum { PATIENCE_US = 10 * 1000 * 1000, LOOK_US = 3 * 1000 * 1000 /* on a busy machine */ };

struct received {
    enum queue_event event;
    char topic[16];
};

struct server {
    struct redis *redis;
    struct queue *queue;
    struct received received[RECEIVED_MAX];
    size_t count;
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    bool waits, has_stopped;
};

struct rig {
    struct redis_server *redis;
    struct reactor *reactor;
    struct server servers[SERVERS];
};

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct server *server = owner;
    struct received *received = &server->received[server->count++ % RECEIVED_MAX];

    received->event = event;
    snprintf(received->topic, sizeof received->topic, "%.*s", (int)topic.len, topic.at);
}

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct server *server = owner;

    (void)tag;
    assert_true(reply->status == QUEUE_OK || reply->status == QUEUE_CREATED);
    if (reply->job_count) {
        server->lease_bytes = reply->jobs[0].lease.len;
        memcpy(server->lease, reply->jobs[0].lease.at, server->lease_bytes);
    }
    server->waits = false;
}

static struct queue_reply_to reply_of(struct server *server)
{
    server->waits = true;
    return (struct queue_reply_to){.done = on_reply, .owner = server};
}

static void iterate(struct rig *rig)
{
    uv_run(reactor_loop(rig->reactor), UV_RUN_NOWAIT);
}

static void await_reply(struct rig *rig, struct server *server)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;

    while (server->waits) {
        assert_true(clock_boot_us() < until_us);
        iterate(rig);
    }
}

static size_t times_received(const struct server *server, enum queue_event event, const char *topic)
{
    size_t times = 0;

    for (size_t i = 0; i < server->count && i < RECEIVED_MAX; i++)
        times +=
            server->received[i].event == event && strcmp(server->received[i].topic, topic) == 0;
    return times;
}

/* Waits for an event by name or, if a check was faster than the message, without. Returns how long it took. */
static int64_t await_event(struct rig *rig, struct server *server, enum queue_event event,
                           const char *topic)
{
    int64_t from_us = clock_boot_us();

    while (!times_received(server, event, topic) && !times_received(server, event, "")) {
        assert_true(clock_boot_us() - from_us < PATIENCE_US);
        iterate(rig);
        usleep(100);
    }
    return clock_boot_us() - from_us;
}

static void pass(struct rig *rig, int64_t ms)
{
    int64_t until_us = clock_boot_us() + ms * 1000;

    while (clock_boot_us() < until_us) {
        iterate(rig);
        usleep(1000);
    }
}

static void forget(struct rig *rig)
{
    for (int i = 0; i < SERVERS; i++)
        rig->servers[i].count = 0;
}

/* ---- calls ---- */

static void call_topic(struct rig *rig, struct server *server, enum queue_topic_verb verb,
                       const char *extension)
{
    struct queue_topic_call call = {
        .verb = verb, .topic = slice_of("t"), .settings = {.extension = slice_of(extension)}};

    queue_topic(server->queue, &call, reply_of(server));
    await_reply(rig, server);
}

static void push_and_take(struct rig *rig, struct server *server)
{
    struct slice topic = slice_of("t");
    struct queue_push push = {.topic = topic,
                              .id = slice_of("a"),
                              .when.due = QUEUE_DUE_NOW,
                              .priority = QUEUE_PRIORITY_UNSET};
    struct queue_take take = {.topics = &topic, .topic_count = 1, .max = 1};

    queue_push(server->queue, &push, 1, reply_of(server));
    await_reply(rig, server);
    server->lease_bytes = 0;
    queue_take(server->queue, &take, reply_of(server));
    await_reply(rig, server);
    assert_int_not_equal(server->lease_bytes, 0);
}

/* A job dies by this server's call. */
static void let_die(struct rig *rig, struct server *server)
{
    push_and_take(rig, server);
    struct queue_answer answer = {.verb = QUEUE_NACK,
                                  .final = true,
                                  .delay_ms = -1,
                                  .error = slice_of("no"),
                                  .lease = {server->lease, server->lease_bytes}};
    queue_answer(server->queue, &answer, 1, reply_of(server));
    await_reply(rig, server);
}

/* ---- the rig ---- */

static void open_server(struct rig *rig, struct server *server, const char *user)
{
    char url[256], error[512] = "";
    struct redis_options options = {
        .url = url, .shards = SHARDS, .body_bytes_max = 1000, .topics_max = 10};

    snprintf(url, sizeof url, "redis://%s127.0.0.1:%d", user, (int)rig->redis->port);
    if (redis_open(&options, &server->redis, error, sizeof error) != 0 ||
        redis_attach(server->redis, rig->reactor, &server->queue, error, sizeof error) != 0)
        fail_msg("%s", error);
    server->queue->on_event = on_event;
    server->queue->on_event_owner = server;
}

/* Starts a rig; `user`: of the URL. Ready once each server was notified that there may have been changes before it
 * came, of both shards; then the next check is most of a second away. */
static struct rig *rig_new(const char *user)
{
    struct rig *rig = calloc(1, sizeof *rig);

    assert_non_null(rig);
    rig->redis = redis_server_new(NULL);
    redis_server_do(rig->redis, "ACL SETUSER mute on >pw ~* &* +@all -publish -spublish");
    rig->reactor = reactor_new(0);
    for (int i = 0; i < SERVERS; i++)
        open_server(rig, &rig->servers[i], user);
    for (int i = 0; i < SERVERS; i++) {
        await_event(rig, &rig->servers[i], QUEUE_EVENT_TOPIC, "");
        await_event(rig, &rig->servers[i], QUEUE_EVENT_DEAD, "");
    }
    pass(rig, 200);
    forget(rig);
    return rig;
}

static void stopped(void *ctx)
{
    ((struct server *)ctx)->has_stopped = true;
}

static void rig_free(struct rig *rig)
{
    for (int i = 0; i < SERVERS; i++) {
        struct server *server = &rig->servers[i];
        redis_stop(server->redis, stopped, server);
        while (!server->has_stopped)
            iterate(rig);
        redis_free(server->redis);
    }
    reactor_free(rig->reactor);
    redis_server_free(rig->redis);
    free(rig);
}

/* ---- claims ---- */

static void put(struct rig *rig, struct server *server)
{
    call_topic(rig, server, QUEUE_TOPIC_PUT, "{}");
}

static void delete (struct rig *rig, struct server *server)
{
    call_topic(rig, server, QUEUE_TOPIC_DELETE, "");
    put(rig, server);
}

/* A message has the name, a check does not; now and then a check is faster. */
static bool is_reported_by_name(struct rig *rig, void (*act)(struct rig *, struct server *),
                                struct server *by, enum queue_event event)
{
    for (int attempt = 0; attempt < 5; attempt++) {
        forget(rig);
        act(rig, by);
        for (int i = 0; i < SERVERS; i++)
            (void)await_event(rig, &rig->servers[i], event, "t");
        pass(rig, 50);
        if (times_received(&rig->servers[0], event, "t") &&
            times_received(&rig->servers[1], event, "t"))
            return true;
    }
    return false;
}

static void changed_settings_of_any_server_are_received_by_topic(void **state)
{
    struct rig *rig = rig_new("");

    (void)state;
    assert_true(is_reported_by_name(rig, put, &rig->servers[1], QUEUE_EVENT_TOPIC));
    assert_true(is_reported_by_name(rig, delete, &rig->servers[1], QUEUE_EVENT_TOPIC));
    rig_free(rig);
}

/* A check finds a change that was already received: it reports nothing again. */
static void received_changes_are_not_repeated_by_checks(void **state)
{
    struct rig *rig = rig_new("");
    struct server *here = &rig->servers[0], *there = &rig->servers[1];

    (void)state;
    put(rig, there);
    let_die(rig, there);
    (void)await_event(rig, here, QUEUE_EVENT_DEAD, "t");
    (void)await_event(rig, there, QUEUE_EVENT_DEAD, "t");
    pass(rig, 200);
    forget(rig);
    pass(rig, 1200);
    assert_int_equal(here->count, 0);
    assert_int_equal(there->count, 0);
    rig_free(rig);
}

static void deaths_are_received_only_by_interested_servers(void **state)
{
    struct rig *rig = rig_new("");
    struct server *here = &rig->servers[0], *there = &rig->servers[1];

    (void)state;
    call_topic(rig, there, QUEUE_TOPIC_PUT, "");
    let_die(rig, there);
    pass(rig, 1100);
    assert_int_equal(times_received(here, QUEUE_EVENT_DEAD, "t"), 0);
    assert_int_equal(times_received(there, QUEUE_EVENT_DEAD, "t"), 0);
    assert_int_equal(times_received(here, QUEUE_EVENT_DEAD, ""), 0);
    put(rig, here);
    assert_true(is_reported_by_name(rig, let_die, there, QUEUE_EVENT_DEAD));
    rig_free(rig);
}

/* Neither may publish, so no message comes. */
static void without_messages_a_check_finds_changes_within_a_second(void **state)
{
    struct rig *rig = rig_new("mute:pw@");
    struct server *here = &rig->servers[0], *there = &rig->servers[1];

    (void)state;
    put(rig, there);
    (void)await_event(rig, there, QUEUE_EVENT_TOPIC, "t");
    assert_true(await_event(rig, here, QUEUE_EVENT_TOPIC, "") < LOOK_US);
    forget(rig);
    let_die(rig, there);
    assert_true(await_event(rig, here, QUEUE_EVENT_DEAD, "") < LOOK_US);
    assert_true(await_event(rig, there, QUEUE_EVENT_DEAD, "") < LOOK_US);
    pass(rig, 100); /* the other shard's look */
    forget(rig);
    pass(rig, 1500);
    assert_int_equal(here->count, 0);
    rig_free(rig);
}

/* The last changes are lost with Redis' memory: the numbers begin again. */
static void numbers_that_went_back_are_noticed(void **state)
{
    struct rig *rig = rig_new("");
    struct server *here = &rig->servers[0], *there = &rig->servers[1];
    char tag[REDIS_TAG_BYTES];

    (void)state;
    for (int i = 0; i < 3; i++)
        put(rig, there);
    pass(rig, 300);
    forget(rig);
    redis_slot_tag("tarry", 0, SHARDS, tag);
    char key[REDIS_TAG_BYTES + 8];
    snprintf(key, sizeof key, "%s:core", tag);
    redisReply *reply =
        redis_server_ask(rig->redis, "SETRANGE %s 10 %b", key, "\0\0\0\0\0\1", (size_t)6);
    freeReplyObject(reply);
    assert_true(await_event(rig, here, QUEUE_EVENT_TOPIC, "") < LOOK_US);
    assert_true(is_reported_by_name(rig, put, there, QUEUE_EVENT_TOPIC));
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_settings_of_any_server_are_received_by_topic),
        cmocka_unit_test(received_changes_are_not_repeated_by_checks),
        cmocka_unit_test(deaths_are_received_only_by_interested_servers),
        cmocka_unit_test(without_messages_a_check_finds_changes_within_a_second),
        cmocka_unit_test(numbers_that_went_back_are_noticed),
    };

    log_open(NULL, LOG_ERROR, false);
    return cmocka_run_group_tests_name("notifications of topics on Redis", tests, NULL, NULL);
}
