/* A session that gets its master from Sentinel. */
#include "support/redis_server.h"

#include "session_rig.h"
#include "unit/claim.h"

#include <signal.h>
#include <unistd.h>

struct trio {
    char config[2][32];
    struct redis_server *master, *replica;
    struct redis_server *ignorant, *sentinel; /* only the second has the master */
};

static bool field_is(struct redis_server *server, const char *section, const char *line)
{
    redisReply *reply = redis_server_ask(server, "INFO %s", section);
    if (!reply) /* a change of roles had cut its connection */
        reply = redis_server_ask(server, "INFO %s", section);
    bool is = reply && reply->str && strstr(reply->str, line);
    if (reply)
        freeReplyObject(reply);
    return is;
}

static bool has_job(struct redis_server *server, const char *id)
{
    redisReply *reply = redis_server_ask(server, "HEXISTS {tarry:0}:job:t %s", id);
    if (!reply)
        reply = redis_server_ask(server, "HEXISTS {tarry:0}:job:t %s", id);
    bool has = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    if (reply)
        freeReplyObject(reply);
    return has;
}

static struct redis_server *sentinel_new(char config[32])
{
    static const char *const words[] = {"--requirepass", "sesame", "--sentinel", NULL};
    strcpy(config, "/tmp/tarry-sentinel-XXXXXX");
    close(mkstemp(config));
    struct redis_server *server =
        redis_server_new(&(struct redis_server_options){.words = words, .config = config});
    redis_server_do(server, "AUTH sesame");
    return server;
}

/* Sets after which silence the master counts as down, and the time that a failover may take: Sentinel gives an
 * ordered one up after it, and begins another of its own only twice as long after the last. */
static void watch(struct redis_server *sentinel, int silent_ms, int failover_ms)
{
    redis_server_do(sentinel, "SENTINEL SET jobs down-after-milliseconds %d failover-timeout %d",
                    silent_ms, failover_ms);
}

static void trio_start(struct trio *trio)
{
    static const char *const words[] = {"--repl-diskless-sync-delay", "0", NULL};
    struct redis_server_options options = {.words = words};
    trio->master = redis_server_new(&options);
    trio->replica = redis_server_new(&options);
    redis_server_do(trio->replica, "REPLICAOF 127.0.0.1 %d", (int)trio->master->port);
    while (!field_is(trio->replica, "replication", "link_status:up"))
        usleep(10000);
    trio->ignorant = sentinel_new(trio->config[0]);
    trio->sentinel = sentinel_new(trio->config[1]);
    redis_server_do(trio->sentinel, "SENTINEL MONITOR jobs 127.0.0.1 %d 1",
                    (int)trio->master->port);
    watch(trio->sentinel, 60000, 60000); /* a busy machine is not a master that is down */
}

static void trio_stop(struct trio *trio)
{
    redis_server_free(trio->sentinel);
    redis_server_free(trio->ignorant);
    redis_server_free(trio->replica);
    redis_server_free(trio->master);
    unlink(trio->config[0]);
    unlink(trio->config[1]);
}

/* The first sentinel named is not there, the second does not know the master. */
static void start(struct rig *rig, const struct trio *trio)
{
    char url[200];
    snprintf(url, sizeof url,
             "redis-sentinel://127.0.0.1:1,127.0.0.1:%u,127.0.0.1:%u/"
             "jobs?sentinel-password=sesame",
             (unsigned)trio->ignorant->port, (unsigned)trio->sentinel->port);
    rig_start(rig, url);
    assert_true(RIG_UNTIL(rig, redis_session_is_up(rig->session)));
}

/* Orders a failover as soon as Sentinel has found the replica fit. */
static void order_failover(struct rig *rig, struct redis_server *sentinel)
{
    bool taken = false;
    for (int i = 0; i < 1000 && !taken; i++) {
        redisReply *reply = redis_server_ask(sentinel, "SENTINEL FAILOVER jobs");
        taken = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        rig_run_ms(rig, 20);
    }
    assert_true(taken);
}

/* Pushes one after the other until the session has followed a failover; all must end well. */
static int push_through_failover(struct rig *rig)
{
    uint64_t failovers = rig->figures.failovers;
    int64_t end_us = clock_boot_us() + 60000000;
    int count = 0;
    while (rig->figures.failovers == failovers && clock_boot_us() < end_us) {
        assert_int_equal(rig_end_of(rig, rig_push(rig, "t", "same", 60000)), REDIS_CALL_OK);
        rig_run_ms(rig, 2);
        count++;
    }
    assert_int_equal(rig->figures.failovers, failovers + 1);
    return count;
}

static void until_replica_has(struct rig *rig, struct redis_server *replica, const char *id)
{
    for (int i = 0;
         i < 1000 && !(field_is(replica, "replication", "link_status:up") && has_job(replica, id));
         i++)
        rig_run_ms(rig, 20);
}

CLAIM(it_follows_the_masters_that_sentinel_names)
{
    struct trio trio;
    struct rig rig = {.timeout_ms = 55000};
    trio_start(&trio);
    start(&rig, &trio);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "first", 60000)), REDIS_CALL_OK);
    until_replica_has(&rig, trio.replica, "first");
    order_failover(&rig, trio.sentinel);
    (void)push_through_failover(&rig);
    assert_true(field_is(trio.replica, "replication", "role:master"));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "second", 60000)), REDIS_CALL_OK);
    assert_true(has_job(trio.replica, "first"));
    assert_true(has_job(trio.replica, "second"));

    until_replica_has(&rig, trio.master, "second");
    watch(trio.sentinel, 500, 1000);
    redis_server_stop(trio.replica, SIGKILL);
    (void)push_through_failover(&rig);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "third", 60000)), REDIS_CALL_OK);
    assert_true(has_job(trio.master, "second"));
    assert_true(has_job(trio.master, "third"));
    rig_stop(&rig);
    trio_stop(&trio);
}

CLAIM(a_master_unknown_to_all_sentinels_is_unreachable)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 500}, later = {0};
    char config[32], url[200];
    struct redis_server *ignorant = sentinel_new(config);
    snprintf(url, sizeof url, "redis-sentinel://127.0.0.1:%u/jobs?sentinel-password=sesame",
             (unsigned)ignorant->port);
    rig_start(&rig, url);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 0)), REDIS_CALL_UNAVAILABLE);
    rig_stop(&rig);
    rig_start(&later, url);
    rig_run_ms(&later, 100);
    redis_server_do(ignorant, "SENTINEL MONITOR jobs 127.0.0.1 %d 1", (int)server->port);
    assert_int_equal(rig_end_of(&later, rig_push(&later, "t", "a", 0)), REDIS_CALL_OK);
    rig_stop(&later);
    redis_server_free(ignorant);
    redis_server_free(server);
    unlink(config);
}

CLAIMS_MAIN(NULL, NULL)
