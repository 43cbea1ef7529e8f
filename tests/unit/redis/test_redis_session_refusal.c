/* A server that is there and refuses: no password, no room, no disk, no master, another queue. */
#include "base/log.h"

#include "session_scene.h"
#include "unit/claim.h"

#include <sys/stat.h>
#include <unistd.h>

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

CLAIM(a_wrong_password_is_logged_once_and_retried)
{
    static const char *const words[] = {"--requirepass", "secret", NULL};
    struct redis_server *server = redis_server_new(&(struct redis_server_options){.words = words});
    char url[80], path[] = "/tmp/tarry-link-log-XXXXXX";
    struct rig rig = {.timeout_ms = 3000};
    close(mkstemp(path));
    assert_true(log_open(path, LOG_INFO, false));
    snprintf(url, sizeof url, "redis://:other@127.0.0.1:%u", (unsigned)server->port);
    rig_start(&rig, url);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(lines_with(path, "WRONGPASS"), 1);
    assert_int_equal(lines_with(path, "other"), 0);
    redis_server_do(server, "AUTH secret");
    redis_server_do(server, "CONFIG SET requirepass other");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_OK);
    assert_int_equal(lines_with(path, "can be reached again"), 1);
    assert_true(log_open(NULL, LOG_INFO, false));
    unlink(path);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(a_server_without_room_refuses_changes_and_answers_questions)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    redis_server_do(server, "CONFIG SET maxmemory 1");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_NO_SPACE);
    assert_int_equal(rig_end_of(&rig, rig_get(&rig, "t", "a")), REDIS_CALL_OK);
    redis_server_do(server, "CONFIG SET maxmemory 0");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_OK);
    assert_int_equal(rig.downs, 0);
    rig_stop(&rig);
    redis_server_free(server);
}

static void save(struct rig *rig, struct redis_server *server, const char *status)
{
    redisReply *reply = NULL;
    redis_server_do(server, "BGSAVE");
    for (int i = 0; i < 6000; i++) {
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

/* A save that fails makes Redis refuse every change, including hello: a new connection is refused
 * immediately, not after the timeout. */
CLAIM(a_failing_disk_is_reported_as_no_space)
{
    struct redis_server *server = redis_server_new(NULL);
    char in_the_way[128];
    struct rig rig = {0};
    scene_start(&rig, server);
    snprintf(in_the_way, sizeof in_the_way, "%s/dump.rdb", server->directory);
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    redis_server_do(server, "CONFIG SET save %s", "3600 1");
    save(&rig, server, "rdb_last_bgsave_status:err");
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_NO_SPACE);
    assert_int_equal(rig.downs, 0);
    scene_cut(server);
    int64_t begin_ms = clock_inner_ms();
    assert_true(RIG_UNTIL(&rig, rig.downs == 1));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_NO_SPACE);
    assert_true(clock_inner_ms() - begin_ms < 9000);
    assert_int_equal(rmdir(in_the_way), 0);
    save(&rig, server, "rdb_last_bgsave_status:ok");
    assert_true(RIG_UNTIL(&rig, redis_session_is_up(rig.session)));
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 1000)), REDIS_CALL_OK);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(a_script_that_runs_long_is_waited_for)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    int done = 0;
    scene_start(&rig, server);
    redis_server_do(server, "CONFIG SET busy-reply-threshold 50");
    redisContext *other = redisConnectUnix(server->path);
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    while (!done)
        assert_int_equal(redisBufferWrite(other, &done), REDIS_OK);
    rig_run_ms(&rig, 200);
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_true(RIG_UNTIL(&rig, rig.downs == 1));
    assert_int_equal(push->end, 0);
    redis_server_do(server, "SCRIPT KILL");
    assert_int_equal(rig_end_of(&rig, push), REDIS_CALL_OK);
    redisFree(other);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(a_replica_is_not_accepted_as_master)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {0};
    scene_start(&rig, server);
    redis_server_do(server, "REPLICAOF 127.0.0.1 1");
    struct rig_call *push = rig_push(&rig, "t", "a", 1000);
    assert_true(RIG_UNTIL(&rig, !redis_session_is_up(rig.session)));
    rig_run_ms(&rig, 300);
    assert_int_equal(push->end, 0);
    assert_false(redis_session_is_up(rig.session));
    redis_server_do(server, "REPLICAOF NO ONE");
    assert_int_equal(rig_end_of(&rig, push), REDIS_CALL_OK);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIM(a_queue_of_other_shards_is_refused)
{
    struct redis_server *server = redis_server_new(NULL);
    struct rig rig = {.timeout_ms = 300};
    char core[86] = {[0] = 1, [6] = 8, [69] = 16}; /* layout, shards, length of the lease key */
    redisReply *reply = redis_server_ask(server, "SET {tarry:0}:core %b", core, sizeof core);
    freeReplyObject(reply);
    char url[64];
    scene_url(server, url);
    rig_start(&rig, url);
    assert_int_equal(rig_end_of(&rig, rig_push(&rig, "t", "a", 0)), REDIS_CALL_UNAVAILABLE);
    assert_int_equal(rig.ups, 0);
    rig_stop(&rig);
    redis_server_free(server);
}

CLAIMS_MAIN(NULL, NULL)
