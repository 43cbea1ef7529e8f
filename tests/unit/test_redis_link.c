/* A link against a real server to which all sorts of things happen. */
#include "base/log.h"
#include "redis/link_private.h"
#include "support/redis_server.h"

#include "fake_clock.h"
#include "link_rig.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CREATED = 1 };

static void url_of(const struct redis_server *server, char out[64])
{
    snprintf(out, 64, "redis://127.0.0.1:%u", (unsigned)server->port);
}

static void start(struct rig *rig, struct redis_server *server)
{
    char url[64];
    url_of(server, url);
    rig_start(rig, url);
    assert_true(RIG_UNTIL(rig, 5, redis_link_is_up(rig->link) && rig->link->news.subscribed));
}

/* A field of the topic's hash; 0 where there is none. */
static long long field(struct redis_server *server, const char *topic, const char *name)
{
    redisReply *reply = redis_server_ask(server, "HGET {tarry:0}:topic:%s %s", topic, name);
    if (!reply) /* its connection had been cut */
        reply = redis_server_ask(server, "HGET {tarry:0}:topic:%s %s", topic, name);
    long long value = reply && reply->str ? atoll(reply->str) : 0;
    if (reply)
        freeReplyObject(reply);
    return value;
}

static long long push_sequence(struct redis_server *server, const char *topic, const char *id)
{
    redisReply *reply = redis_server_ask(server, "HGET {tarry:0}:job:%s %s", topic, id);
    long long value = 0;
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    for (int i = 3; i < 9; i++)
        value = value << 8 | (unsigned char)reply->str[i];
    freeReplyObject(reply);
    return value;
}

/* ---- calls ---- */

static void calls_are_answered(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_true(RIG_UNTIL(&rig, 5, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    assert_true(llabs(push->now_ms - clock_wall_ms()) < 1000);
    free(push);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a"), 5), REDIS_CALL_OK);
    assert_int_equal(field(server, "t", "pushed"), 1);
    assert_int_equal(rig.figures.calls, 2);
    assert_int_equal(rig.figures.resent, 0);
    assert_int_equal(redis_link_calls(rig.link), 0);
    assert_int_equal(redis_link_under_way(rig.link), 0);
    rig_stop(&rig);
    redis_server_free(server);
}

static void no_more_calls_are_under_way_than_there_are_slots(void **state)
{
    enum { PUSHES = 200, GETS = 300 };
    struct redis_server *server = redis_server_new(NULL);
    struct rig_call *calls[PUSHES + GETS];
    struct rig rig = {0};
    char id[16];
    (void)state;
    start(&rig, server);
    for (int i = 0; i < PUSHES + GETS; i++) {
        snprintf(id, sizeof id, "j%d", i);
        calls[i] = i < PUSHES ? rig_push(&rig, "t", id, 1000) : rig_get(&rig, "t", id);
        assert_true(redis_link_under_way(rig.link) <= REDIS_LINK_SLOTS + LINK_READS_MAX);
    }
    assert_int_equal(redis_link_under_way(rig.link), REDIS_LINK_SLOTS + LINK_READS_MAX);
    assert_int_equal(redis_link_calls(rig.link), PUSHES + GETS);
    assert_true(RIG_UNTIL(&rig, 10, redis_link_calls(rig.link) == 0));
    for (int i = 0; i < PUSHES + GETS; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_OK);
        free(calls[i]);
    }
    assert_int_equal(field(server, "t", "pushed"), PUSHES);
    rig_stop(&rig);
    redis_server_free(server);
}

static void stopping_ends_what_is_under_way_and_what_waits(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig_call *calls[10];
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    for (int i = 0; i < 10; i++)
        calls[i] = rig_push(&rig, "t", "a", 1000);
    rig_stop(&rig);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_STOPPING);
        free(calls[i]);
    }
    redis_server_free(server);
}

/* ---- connections that end ---- */

/* While the server sleeps, the call and then the order to cut its connection arrive: it carries out
 * the one, and by the other its reply is dropped. */
static void a_change_whose_reply_was_lost_is_made_once(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    redisReply *reply = NULL;
    (void)state;
    start(&rig, server);
    redisContext *sleeper = redisConnectUnix(server->path),
                 *killer = redisConnectUnix(server->path);
    int done = 0;
    redisAppendCommand(sleeper, "DEBUG SLEEP 0.4");
    while (!done)
        assert_int_equal(redisBufferWrite(sleeper, &done), REDIS_OK);
    rig_run_ms(&rig, 100);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 50);
    redisAppendCommand(killer, "CLIENT KILL TYPE normal SKIPME yes");
    assert_int_equal(redisGetReply(killer, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->integer, 3); /* the link's, the sleeper's, the one of `server` */
    freeReplyObject(reply);
    assert_int_equal(push->end, 0);
    reply = redisCommand(killer, "HGET {tarry:0}:topic:t pushed");
    assert_string_equal(reply->str, "1"); /* so it was carried out, and nobody was told */
    freeReplyObject(reply);

    assert_true(RIG_UNTIL(&rig, 5, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    assert_int_equal(rig.figures.resent, 1);
    assert_int_equal(rig.figures.reconnects, 1);
    assert_int_equal(field(server, "t", "pushed"), 1);
    assert_int_equal(field(server, "t", "replaced"), 0);
    free(push);
    redisFree(sleeper);
    redisFree(killer);
    rig_stop(&rig);
    redis_server_free(server);
}

static void calls_sent_again_keep_their_order(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig_call *calls[8];
    struct rig rig = {0};
    char id[16];
    (void)state;
    start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 10000 WRITE");
    for (int i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "j%d", i);
        calls[i] = rig_push(&rig, "t", id, 1000);
    }
    rig_run_ms(&rig, 50);
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_true(RIG_UNTIL(&rig, 5, rig.figures.reconnects == 1));
    redis_server_do(server, "CLIENT UNPAUSE");
    assert_true(RIG_UNTIL(&rig, 5, redis_link_calls(rig.link) == 0));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_OK);
        assert_int_equal(calls[i]->status, CREATED);
        assert_int_equal(push_sequence(server, "t", calls[i]->id), i + 1);
    }
    for (int i = 0; i < 8; i++)
        free(calls[i]);
    assert_int_equal(rig.figures.resent, REDIS_LINK_SLOTS);
    rig_stop(&rig);
    redis_server_free(server);
}

/* Submits `count` pushes, a few at a time, and calls `disturb` every 20. */
static void push_under(struct rig *rig, struct redis_server *server, int count,
                       void (*disturb)(struct redis_server *server))
{
    struct rig_call **calls = calloc((size_t)count, sizeof(struct rig_call *));
    char id[16];
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "j%d", i);
        calls[i] = rig_push(rig, "t", id, 100000);
        if (i % 20 == 10)
            disturb(server);
        assert_true(RIG_UNTIL(rig, 10, redis_link_calls(rig->link) < 6));
    }
    assert_true(RIG_UNTIL(rig, 10, redis_link_calls(rig->link) == 0));
    for (int i = 0; i < count; i++) {
        if (calls[i]->end != REDIS_CALL_OK || calls[i]->status != CREATED)
            fail_msg("push %d ended with %d, status %d", i, calls[i]->end, calls[i]->status);
        free(calls[i]);
    }
    free(calls);
    assert_int_equal(field(server, "t", "pushed"), count);
    assert_int_equal(field(server, "t", "replaced"), 0);
}

static void flush_scripts(struct redis_server *server)
{
    redis_server_do(server, "FUNCTION FLUSH");
}

static void cut_connections(struct redis_server *server)
{
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
}

static void scripts_that_are_gone_are_loaded_again(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    push_under(&rig, server, 400, flush_scripts);
    assert_int_equal(rig.figures.reconnects, 0);
    assert_true(rig.downs > 5);
    rig_stop(&rig);
    redis_server_free(server);
}

static void connections_may_be_cut_at_any_time(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    push_under(&rig, server, 200, cut_connections);
    assert_int_equal(rig.figures.reconnects, 10);
    rig_stop(&rig);
    redis_server_free(server);
}

static void kill_and_restart(struct redis_server *server)
{
    redis_server_stop(server, SIGKILL);
    redis_server_start(server);
}

static void a_server_that_is_killed_and_comes_back_loses_and_doubles_nothing(void **state)
{
    static const char *const words[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    struct redis_server *server = redis_server_new(&(struct redis_server_options){.words = words});
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    push_under(&rig, server, 60, kill_and_restart);
    assert_true(rig.figures.reconnects >= 3);
    assert_int_equal(rig.figures.failovers, 3);
    rig_stop(&rig);
    redis_server_free(server);
}

static void a_call_waits_no_longer_than_its_patience(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.patience_ms = 400};
    (void)state;
    start(&rig, server);
    redis_server_stop(server, SIGKILL);
    int64_t begin_ms = clock_inner_ms();
    struct rig_call *read = rig_get(&rig, "t", "a");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_UNAVAILABLE);
    assert_true(clock_inner_ms() - begin_ms >= 400 && clock_inner_ms() - begin_ms < 600);
    assert_int_equal(rig_end_of(&rig, read, 1), REDIS_CALL_UNAVAILABLE);
    assert_false(redis_link_is_up(rig.link));
    assert_int_equal(redis_link_calls(rig.link), 0);
    redis_server_start(server);
    assert_true(RIG_UNTIL(&rig, 5, redis_link_is_up(rig.link)));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "b", 1000), 5), REDIS_CALL_OK);
    rig_stop(&rig);
    redis_server_free(server);
}

/* One that is under way, one that waits, and one that comes later still. */
static void a_stop_ends_the_patience_of_all_calls(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.patience_ms = 60000};
    (void)state;
    start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 2000 ALL");
    struct rig_call *flying = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 100);
    redis_server_stop(server, SIGKILL);
    assert_true(RIG_UNTIL(&rig, 5, !redis_link_is_up(rig.link)));
    struct rig_call *waiting = rig_get(&rig, "t", "a");
    int64_t begin_ms = clock_inner_ms();
    redis_link_stop(rig.link, begin_ms + 400);
    struct rig_call *later = rig_push(&rig, "t", "b", 1000);
    assert_int_equal(rig_end_of(&rig, flying, 5), REDIS_CALL_UNAVAILABLE);
    assert_true(clock_inner_ms() - begin_ms >= 400 && clock_inner_ms() - begin_ms < 2000);
    assert_int_equal(rig_end_of(&rig, waiting, 1), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig_end_of(&rig, later, 1), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a"), 1), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(redis_link_calls(rig.link), 0);
    rig_stop(&rig);
    redis_server_free(server);
}

/* A change given up on is fenced off once its slot is used again; until then it may still happen.
 */
static void calls_given_up_leave_room_for_others(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.patience_ms = 300};
    struct rig_call *calls[20];
    (void)state;
    start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 800 ALL");
    for (int i = 0; i < 20; i++)
        calls[i] = i % 2 ? rig_push(&rig, "t", "a", 1000) : rig_get(&rig, "t", "a");
    assert_true(RIG_UNTIL(&rig, 5, redis_link_calls(rig.link) == 0));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_UNAVAILABLE);
        free(calls[i]);
    }
    assert_int_equal(redis_link_under_way(rig.link), 0);
    rig_run_ms(&rig, 450); /* the pause ends while the next one waits */
    struct rig_call *last = rig_push(&rig, "t", "z", 1000);
    assert_true(RIG_UNTIL(&rig, 5, last->end));
    assert_int_equal(last->end, REDIS_CALL_OK);
    assert_int_equal(last->status, CREATED);
    free(last);
    rig_stop(&rig);
    redis_server_free(server);
}

static void a_pause_shorter_than_the_patience_is_only_a_pause(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    redis_server_do(server, "CLIENT PAUSE 1500 ALL");
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a"), 5), REDIS_CALL_OK);
    assert_int_equal(rig_end_of(&rig, push, 1), REDIS_CALL_OK);
    assert_int_equal(rig.figures.reconnects, 0);
    rig_stop(&rig);
    redis_server_free(server);
}

static void a_server_that_falls_silent_is_left_and_found_again(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.patience_ms = 20000};
    (void)state;
    start(&rig, server);
    kill(server->pid, SIGSTOP);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_true(RIG_UNTIL(&rig, 8, rig.downs == 1));
    kill(server->pid, SIGCONT);
    assert_true(RIG_UNTIL(&rig, 8, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    assert_int_equal(field(server, "t", "pushed"), 1);
    free(push);
    rig_stop(&rig);
    redis_server_free(server);
}

/* ---- refusals ---- */

static int lines_with(const char *path, const char *word)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, word) != NULL;
    fclose(file);
    return count;
}

static void a_wrong_password_is_said_once_and_tried_until_it_is_right(void **state)
{
    static const char *const words[] = {"--requirepass", "secret", NULL};
    struct redis_server *server = redis_server_new(&(struct redis_server_options){.words = words});
    char url[80], path[] = "/tmp/tarry-link-log-XXXXXX";
    struct rig rig = {.patience_ms = 3000};
    (void)state;
    close(mkstemp(path));
    assert_true(log_open(path, LOG_INFO, false));
    snprintf(url, sizeof url, "redis://:other@127.0.0.1:%u", (unsigned)server->port);
    rig_start(&rig, url);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(lines_with(path, "WRONGPASS"), 1);
    assert_int_equal(lines_with(path, "other"), 0);
    redis_server_do(server, "AUTH secret");
    redis_server_do(server, "CONFIG SET requirepass other");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_OK);
    assert_int_equal(lines_with(path, "in reach again"), 1);
    assert_true(log_open(NULL, LOG_INFO, false));
    unlink(path);
    rig_stop(&rig);
    redis_server_free(server);
}

static void a_server_without_room_refuses_changes_and_answers_questions(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    redis_server_do(server, "CONFIG SET maxmemory 1");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_NO_SPACE);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a"), 5), REDIS_CALL_OK);
    redis_server_do(server, "CONFIG SET maxmemory 0");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_OK);
    assert_int_equal(rig.downs, 0);
    rig_stop(&rig);
    redis_server_free(server);
}

static void save(struct rig *rig, struct redis_server *server, const char *status)
{
    redisReply *reply = NULL;
    redis_server_do(server, "BGSAVE");
    for (int i = 0; i < 500; i++) {
        rig_run_ms(rig, 10);
        if (reply)
            freeReplyObject(reply);
        reply = redis_server_ask(server, "INFO persistence");
        if (strstr(reply->str, "rdb_bgsave_in_progress:0"))
            break;
    }
    assert_non_null(strstr(reply->str, status));
    freeReplyObject(reply);
}

/* A save that fails makes Redis refuse every change, hello as well: whoever connects then is told
 * at once, not after all its patience. */
static void a_disk_that_fails_is_no_space(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    char in_the_way[128];
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    snprintf(in_the_way, sizeof in_the_way, "%s/dump.rdb", server->directory);
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    redis_server_do(server, "CONFIG SET save %s", "3600 1");
    save(&rig, server, "rdb_last_bgsave_status:err");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_NO_SPACE);
    assert_int_equal(rig.downs, 0);
    cut_connections(server);
    int64_t begin_ms = clock_inner_ms();
    assert_true(RIG_UNTIL(&rig, 5, rig.downs == 1));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_NO_SPACE);
    assert_true(clock_inner_ms() - begin_ms < 3000);
    assert_int_equal(rmdir(in_the_way), 0);
    save(&rig, server, "rdb_last_bgsave_status:ok");
    assert_true(RIG_UNTIL(&rig, 5, redis_link_is_up(rig.link)));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_OK);
    rig_stop(&rig);
    redis_server_free(server);
}

static void a_script_that_runs_long_is_waited_for(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    int done = 0;
    (void)state;
    start(&rig, server);
    redis_server_do(server, "CONFIG SET busy-reply-threshold 50");
    redisContext *other = redisConnectUnix(server->path);
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    while (!done)
        assert_int_equal(redisBufferWrite(other, &done), REDIS_OK);
    rig_run_ms(&rig, 200);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 500);
    assert_int_equal(push->end, 0);
    assert_int_equal(rig.downs, 1);
    redis_server_do(server, "SCRIPT KILL");
    assert_int_equal(rig_end_of(&rig, push, 5), REDIS_CALL_OK);
    redisFree(other);
    rig_stop(&rig);
    redis_server_free(server);
}

static void a_replica_is_no_master(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    redis_server_do(server, "REPLICAOF 127.0.0.1 1");
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 300);
    assert_int_equal(push->end, 0);
    assert_false(redis_link_is_up(rig.link));
    redis_server_do(server, "REPLICAOF NO ONE");
    assert_int_equal(rig_end_of(&rig, push, 5), REDIS_CALL_OK);
    rig_stop(&rig);
    redis_server_free(server);
}

static void a_queue_of_other_shards_is_refused(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.patience_ms = 300};
    (void)state;
    redis_server_do(server, "HSET {tarry:0}:core version 1 shards 8 sequence 0 leaf 0 adjust 0");
    char url[64];
    url_of(server, url);
    rig_start(&rig, url);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 0), 5), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig.ups, 0);
    rig_stop(&rig);
    redis_server_free(server);
}

/* ---- replicas ---- */

static void a_change_that_too_few_replicas_have_is_not_promised(void **state)
{
    struct redis_server *server = redis_server_new(NULL), *replica = redis_server_new(NULL);
    struct rig rig = {.wait_replicas = 1, .patience_ms = 2000};
    (void)state;
    start(&rig, server);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000), 5), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(field(server, "t", "pushed"), 1);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a"), 5), REDIS_CALL_OK);
    redis_server_do(server, "CONFIG SET repl-diskless-sync-delay 0");
    redis_server_do(replica, "REPLICAOF 127.0.0.1 %d", (int)server->port);
    for (int i = 0; i < 20; i++) { /* until the replica is there */
        struct rig_call *push = rig_push(&rig, "t", "b", 1000);
        if (rig_end_of(&rig, push, 5) == REDIS_CALL_OK)
            break;
    }
    struct rig_call *push = rig_push(&rig, "t", "c", 1000);
    assert_true(RIG_UNTIL(&rig, 5, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    assert_int_equal(push->status, CREATED);
    free(push);
    redisReply *reply = redis_server_ask(replica, "HEXISTS {tarry:0}:job:t c");
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    rig_stop(&rig);
    redis_server_free(replica);
    redis_server_free(server);
}

/* Its connection is cut while the answer waits for replicas; asked again it is not said to be on a
 * replica only because nothing new was written. */
static void a_change_asked_for_again_waits_for_its_replicas_too(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.wait_replicas = 1, .patience_ms = 4000};
    (void)state;
    start(&rig, server);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    rig_run_ms(&rig, 200);
    assert_int_equal(push->end, 0);
    redis_server_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_true(RIG_UNTIL(&rig, 5, push->end));
    assert_int_equal(push->end, REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig.figures.resent, 1);
    assert_int_equal(field(server, "t", "pushed"), 1);
    free(push);
    rig_stop(&rig);
    redis_server_free(server);
}

/* ---- news ---- */

static void news_of_other_servers_are_told(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig one = {.server = "11111111"}, two = {.server = "22222222"};
    (void)state;
    start(&one, server);
    start(&two, server);
    assert_int_equal(rig_end_of(&one, rig_push(&one, "t", "a", 60000), 5), REDIS_CALL_OK);
    assert_true(RIG_UNTIL(&two, 5, two.dues == 1));
    assert_true(llabs(two.due_ms - clock_wall_ms() - 60000) < 2000);
    assert_int_equal(two.readies, 0);
    struct rig_call *push = rig_push(&one, "u", "b", 0);
    assert_int_equal(rig_end_of(&one, push, 5), REDIS_CALL_OK);
    assert_true(RIG_UNTIL(&two, 5, two.readies == 1));
    assert_string_equal(two.ready, "u");
    rig_run_ms(&one, 50);
    assert_int_equal(one.readies, 0);
    rig_stop(&two);
    rig_stop(&one);
    redis_server_free(server);
}

static void a_subscription_that_ends_is_made_again_and_said_to_have_missed_news(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    rig_run_ms(&rig, 20);
    int ups = rig.ups;
    redis_server_do(server, "CLIENT KILL TYPE pubsub");
    assert_true(RIG_UNTIL(&rig, 5, rig.ups == ups + 1));
    assert_int_equal(rig.downs, 0);
    assert_true(rig.link->news.subscribed);
    rig_stop(&rig);
    redis_server_free(server);
}

/* ---- clock ---- */

static int64_t now_after(struct rig *rig, const char *id)
{
    struct rig_call *push = rig_push(rig, "t", id, 60000);
    assert_true(RIG_UNTIL(rig, 5, push->end));
    assert_int_equal(push->end, REDIS_CALL_OK);
    int64_t now_ms = push->now_ms;
    free(push);
    return now_ms;
}

static void a_shards_clock_goes_on_when_its_servers_clock_jumps(void **state)
{
    static const int64_t jumps_ms[] = {10000, -7000, 3600000, 900};
    char path[32];
    _Atomic int64_t *clock = fake_clock_open(path);
    int64_t jumped_ms = 0;
    struct redis_server *server =
        redis_server_new(&(struct redis_server_options){.preload = TARRY_FAKE_TIME_LIBRARY});
    struct rig rig = {0}, other = {.server = "fedcba98"};
    (void)state;
    start(&rig, server);
    start(&other, server);
    int64_t apart_ms = now_after(&rig, "a") - clock_inner_ms();
    for (size_t i = 0; i < COUNT_OF(jumps_ms); i++) {
        jumped_ms += jumps_ms[i];
        atomic_store(&clock[1], jumped_ms * 1000);
        (void)now_after(&rig, "b"); /* this one shows it */
        assert_true(RIG_UNTIL(&rig, 5, redis_link_is_up(rig.link)));
        int64_t off_ms = now_after(&rig, "c") - clock_inner_ms() - apart_ms;
        if (llabs(off_ms) > 100)
            fail_msg("after a jump of %d ms it is off by %d ms", (int)jumps_ms[i], (int)off_ms);
        assert_int_equal(rig.figures.clock_disagreements, i + 1);
    }
    (void)now_after(&other, "d");
    assert_int_equal(other.figures.clock_disagreements, 0); /* it was set right before */
    rig_stop(&other);
    rig_stop(&rig);
    redis_server_free(server);
    fake_clock_close(clock, path);
}

/* Ten calls are under way when it shows. */
static void calls_wait_until_the_clock_is_right(void **state)
{
    char path[32];
    _Atomic int64_t *clock = fake_clock_open(path);
    struct redis_server *server =
        redis_server_new(&(struct redis_server_options){.preload = TARRY_FAKE_TIME_LIBRARY});
    struct rig_call *calls[10];
    struct rig rig = {0};
    (void)state;
    start(&rig, server);
    int64_t now_ms = now_after(&rig, "a");
    atomic_store(&clock[1], 20000000);
    for (int i = 0; i < 10; i++)
        calls[i] = rig_push(&rig, "t", "b", 60000);
    assert_true(RIG_UNTIL(&rig, 5, redis_link_calls(rig.link) == 0));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(calls[i]->end, REDIS_CALL_OK);
        assert_true((calls[i]->now_ms - now_ms > 10000) == (i < REDIS_LINK_SLOTS));
        free(calls[i]);
    }
    rig_stop(&rig);
    redis_server_free(server);
    fake_clock_close(clock, path);
}

/* ---- rest ---- */

static bool count_turn(void *ctx)
{
    ++*(int *)ctx;
    return false;
}

static void idle_it_wakes_for_nothing(void **state)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.patience_ms = 500};
    int turns = 0;
    (void)state;
    start(&rig, server);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 60000), 5), REDIS_CALL_OK);
    rig_run_ms(&rig, 600); /* what was set for the call rings once more at most */
    rig_run_ms(&rig, LINK_SILENCE_MS - 500);
    reactor_at_turn_end(rig.reactor, count_turn, &turns);
    uv_timer_start(&rig.tick, rig_on_tick, 1500, 0);
    while (uv_is_active((uv_handle_t *)&rig.tick))
        uv_run(reactor_loop(rig.reactor), UV_RUN_ONCE);
    assert_true(turns <= 2);
    reactor_remove_at_turn_end(rig.reactor, count_turn, &turns);
    rig_stop(&rig);
    redis_server_free(server);
}

/* ---- errors ---- */

static void errors_mean_what_the_table_says(void **state)
{
    static const struct {
        const char *sentence, *error;
        enum link_verdict verdict;
    } rows[] = {
        {"scripts flushed", "NOSCRIPT No matching script. Please use EVAL.", LINK_VERDICT_GREET},
        {"functions flushed", "ERR Function not found", LINK_VERDICT_GREET},
        {"clock set back", "CLOCK it went back", LINK_VERDICT_GREET},
        {"slot is elsewhere", "MOVED 3999 127.0.0.1:6381", LINK_VERDICT_MOVED},
        {"slot is moving", "ASK 3999 127.0.0.1:6381", LINK_VERDICT_AGAIN},
        {"half of it has moved", "TRYAGAIN Multiple keys request during rehashing of slot",
         LINK_VERDICT_AGAIN},
        {"found by the script",
         "ERR Script attempted to access a non local key in a cluster node script: x, on y",
         LINK_VERDICT_AGAIN},
        {"a long script", "BUSY Redis is busy running a script.", LINK_VERDICT_AGAIN},
        {"not the stream error of that name", "BUSYGROUP Consumer Group name already exists",
         LINK_VERDICT_REFUSED},
        {"demoted", "READONLY You can't write against a read only replica.",
         LINK_VERDICT_ELSEWHERE},
        {"memory", "OOM command not allowed when used memory > 'maxmemory'.",
         LINK_VERDICT_NO_SPACE},
        {"disk", "MISCONF Errors writing to the AOF file: No space left on device",
         LINK_VERDICT_NO_SPACE},
        {"too few replicas", "NOREPLICAS Not enough good replicas to write.", LINK_VERDICT_REFUSED},
        {"a fault of ours", "ERR user_script:1: Script attempted to access nonexistent variable",
         LINK_VERDICT_REFUSED},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].sentence, link_judge(rows[i].error) == rows[i].verdict);
}

static void moved_says_where(void **state)
{
    static const struct {
        const char *sentence, *error, *host;
        uint16_t port;
    } rows[] = {
        {"an address", "MOVED 3999 10.0.0.7:6381", "10.0.0.7", 6381},
        {"an IPv6 address", "MOVED 3999 fe80::1:6381", "fe80::1", 6381},
        {"a name", "MOVED 1 node.example:1", "node.example", 1},
        {"no host: the one asked", "MOVED 3999 :6381", "asked", 6381},
        {"unknown host: the one asked", "MOVED 3999 ?:6381", "asked", 6381},
        {"no port", "MOVED 3999 10.0.0.7", NULL, 0},
        {"port 0", "MOVED 3999 10.0.0.7:0", NULL, 0},
        {"a port too large", "MOVED 3999 10.0.0.7:65536", NULL, 0},
        {"nothing", "MOVED", NULL, 0},
    };
    struct redis_endpoint asked = {.host = "asked", .port = 7}, there;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool known = link_read_moved(rows[i].error, &asked, &there);
        CASE_HOLDS(rows[i].sentence, known == (rows[i].host != NULL));
        if (known)
            CASE_HOLDS(rows[i].sentence,
                       strcmp(there.host, rows[i].host) == 0 && there.port == rows[i].port);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_mean_what_the_table_says),
        cmocka_unit_test(moved_says_where),
        cmocka_unit_test(calls_are_answered),
        cmocka_unit_test(no_more_calls_are_under_way_than_there_are_slots),
        cmocka_unit_test(stopping_ends_what_is_under_way_and_what_waits),
        cmocka_unit_test(a_change_whose_reply_was_lost_is_made_once),
        cmocka_unit_test(calls_sent_again_keep_their_order),
        cmocka_unit_test(scripts_that_are_gone_are_loaded_again),
        cmocka_unit_test(connections_may_be_cut_at_any_time),
        cmocka_unit_test(a_server_that_is_killed_and_comes_back_loses_and_doubles_nothing),
        cmocka_unit_test(a_call_waits_no_longer_than_its_patience),
        cmocka_unit_test(a_stop_ends_the_patience_of_all_calls),
        cmocka_unit_test(calls_given_up_leave_room_for_others),
        cmocka_unit_test(a_pause_shorter_than_the_patience_is_only_a_pause),
        cmocka_unit_test(a_server_that_falls_silent_is_left_and_found_again),
        cmocka_unit_test(a_wrong_password_is_said_once_and_tried_until_it_is_right),
        cmocka_unit_test(a_server_without_room_refuses_changes_and_answers_questions),
        cmocka_unit_test(a_disk_that_fails_is_no_space),
        cmocka_unit_test(a_script_that_runs_long_is_waited_for),
        cmocka_unit_test(a_replica_is_no_master),
        cmocka_unit_test(a_queue_of_other_shards_is_refused),
        cmocka_unit_test(a_change_that_too_few_replicas_have_is_not_promised),
        cmocka_unit_test(a_change_asked_for_again_waits_for_its_replicas_too),
        cmocka_unit_test(news_of_other_servers_are_told),
        cmocka_unit_test(a_subscription_that_ends_is_made_again_and_said_to_have_missed_news),
        cmocka_unit_test(a_shards_clock_goes_on_when_its_servers_clock_jumps),
        cmocka_unit_test(calls_wait_until_the_clock_is_right),
        cmocka_unit_test(idle_it_wakes_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
