/* Sessions on a real cluster whose slots move and whose masters fall. */
#include "redis/state.h"
#include "support/redis_cluster.h"

#include "session_rig.h"
#include "unit/claim.h"
#include "unit/fake_clock.h"

#include <signal.h>

enum { PUSHES_MAX = 20000, CREATED = 1, AHEAD_MS = 10000 };

struct cluster_url {
    char text[64];
};

static struct cluster_url url_of(const struct redis_cluster *cluster, uint32_t node)
{
    struct cluster_url url;
    snprintf(url.text, sizeof url.text, "redis-cluster://127.0.0.1:%u",
             (unsigned)cluster->nodes[node]->port);
    return url;
}

/* A rig for a shard whose slot the first master serves. */
static void start(struct rig *rig, struct redis_cluster *cluster)
{
    redis_slot_tag("tarry", 0, cluster->masters, rig->tag);
    rig_start(rig, url_of(cluster, cluster->masters - 1).text);
    assert_true(RIG_UNTIL(rig, redis_session_is_up(rig->session)));
    assert_ptr_equal(redis_cluster_master(cluster, redis_slot_of(slice_of(rig->tag))),
                     cluster->nodes[0]);
}

/* ---- a stream of pushes, four under way at any time ---- */

struct stream {
    struct rig *rig;
    struct rig_call *calls[PUSHES_MAX];
    int submitted;
};

static void stream_fill(struct stream *stream)
{
    char id[16];
    while (redis_session_calls(stream->rig->session) < 6 && stream->submitted < PUSHES_MAX) {
        snprintf(id, sizeof id, "j%d", stream->submitted);
        stream->calls[stream->submitted++] = rig_push(stream->rig, "t", id, 3600000);
    }
}

static void stream_run(struct stream *stream, int64_t ms)
{
    int64_t end_us = clock_boot_us() + ms * 1000;
    while (clock_boot_us() < end_us) {
        stream_fill(stream);
        rig_run_ms(stream->rig, 2);
    }
}

/* Ends the stream: all calls are answered, with one of two results (`other` 0: only with success). */
static int stream_finish(struct stream *stream, enum redis_call_end other)
{
    int good = 0;
    assert_true(RIG_UNTIL(stream->rig, redis_session_calls(stream->rig->session) == 0));
    for (int i = 0; i < stream->submitted; i++) {
        struct rig_call *call = stream->calls[i];
        if (call->end == REDIS_CALL_OK)
            good++;
        else if (call->end != other)
            fail_msg("push %d ended with %d", i, call->end);
        if (call->end == REDIS_CALL_OK && call->status != CREATED)
            fail_msg("push %d was made twice: status %d", i, call->status);
    }
    return good;
}

static void stream_free(struct stream *stream)
{
    for (int i = 0; i < stream->submitted; i++)
        free(stream->calls[i]);
    free(stream);
}

static struct stream *stream_new(struct rig *rig)
{
    struct stream *stream = calloc(1, sizeof *stream);
    stream->rig = rig;
    return stream;
}

static bool has_job(struct redis_server *server, const struct rig *rig, const char *id)
{
    redisReply *reply = redis_server_ask(server, "HEXISTS %s:job:t %s", rig->tag, id);
    bool has = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    if (reply)
        freeReplyObject(reply);
    return has;
}

static long long pushed(struct redis_server *server, const struct rig *rig)
{
    redisReply *reply = redis_server_ask(server, "GET %s:topic:t", rig->tag);
    struct redis_topic_state topic = {0};
    if (reply && reply->str)
        redis_topic_state_read(slice_make(reply->str, reply->len), &topic);
    if (reply)
        freeReplyObject(reply);
    return topic.figure[REDIS_FIGURE_PUSHED];
}

/* Returns the last call that was answered, or NULL. */
static struct rig_call *last_answered(const struct stream *stream)
{
    for (int i = stream->submitted; i-- > 0;)
        if (stream->calls[i]->end == REDIS_CALL_OK)
            return stream->calls[i];
    return NULL;
}

/* ---- claims ---- */

CLAIM(a_slot_that_moves_under_calls_takes_them_along)
{
    struct redis_cluster *cluster = redis_cluster_new(3, 0, NULL);
    struct redis_server *from = cluster->nodes[0], *to = cluster->nodes[1];
    struct rig rig = {0};
    start(&rig, cluster);
    uint16_t slot = redis_slot_of(slice_of(rig.tag));
    struct stream *stream = stream_new(&rig);
    for (int round = 0; round < 3; round++) {
        stream_run(stream, 150);
        redis_cluster_move_begin(from, to, slot);
        stream_run(stream, 50);
        while (redis_cluster_move_keys(from, to, slot, 1))
            stream_run(stream, 40);
        redis_cluster_move_end(cluster, from, to, slot);
        assert_true(RIG_UNTIL(&rig, redis_session_is_up(rig.session)));
        stream_run(stream, 150);
        struct redis_server *was_from = from;
        from = to;
        to = was_from;
    }
    while (stream->submitted <= 100)
        stream_run(stream, 50);
    assert_int_equal(stream_finish(stream, 0), stream->submitted);
    assert_int_equal(pushed(from, &rig), stream->submitted);
    assert_true(rig.figures.redirects >= 3);
    assert_int_equal(redis_cluster_master(cluster, slot)->port, from->port);
    rig_run_ms(&rig, 50);
    struct rig other = {.server = "fedcba98"}; /* notifications come from where the slot is now */
    memcpy(other.tag, rig.tag, sizeof other.tag);
    rig_start(&other, url_of(cluster, 2).text);
    assert_int_equal(rig_end_of(&other, rig_push(&other, "u", "now", 0)), REDIS_CALL_OK);
    assert_true(RIG_UNTIL(&rig, rig.readies == 1));
    stream_free(stream);
    rig_stop(&other);
    rig_stop(&rig);
    redis_cluster_free(cluster);
}

CLAIM(a_failover_that_was_ordered_costs_no_change)
{
    struct redis_cluster *cluster = redis_cluster_new(3, 1, NULL);
    struct redis_server *promoted = cluster->nodes[3];
    struct rig rig = {0};
    start(&rig, cluster);
    uint16_t slot = redis_slot_of(slice_of(rig.tag));
    struct stream *stream = stream_new(&rig);
    stream_run(stream, 100);
    redis_server_do(promoted, "CLUSTER FAILOVER");
    for (int i = 0; i < 1000 && redis_cluster_master(cluster, slot) != promoted; i++)
        stream_run(stream, 50);
    stream_run(stream, 300);
    assert_int_equal(stream_finish(stream, 0), stream->submitted);
    assert_ptr_equal(redis_cluster_master(cluster, slot), promoted);
    assert_int_equal(pushed(promoted, &rig), stream->submitted);
    assert_int_equal(rig.figures.failovers, 1);
    assert_int_equal(rig.tally.failovers, 1);
    stream_free(stream);
    rig_stop(&rig);
    redis_cluster_free(cluster);
}

/* With a change answered once a replica has it, what was answered outlives the master; and the
 * clock of the replica, ten seconds ahead, does not become the shard's. */
CLAIM(a_master_that_is_killed_is_replaced_without_a_loss_or_a_jump)
{
    char path[32];
    _Atomic int64_t *clock = fake_clock_open(path);
    atomic_store(&clock[1], (int64_t)AHEAD_MS * 1000);
    struct redis_cluster *cluster = redis_cluster_new(3, 2, TARRY_FAKE_TIME_LIBRARY);
    struct rig rig = {.wait_replicas = 1, .timeout_ms = 14000};
    start(&rig, cluster);
    uint16_t slot = redis_slot_of(slice_of(rig.tag));
    struct stream *stream = stream_new(&rig);
    /* On a busy machine no change may have reached a replica in this time; then none can be kept. */
    for (int i = 0; i < 100 && !(i && last_answered(stream)); i++)
        stream_run(stream, 300);
    struct rig_call *last = last_answered(stream);
    assert_non_null(last);
    int64_t apart_ms = last->now_ms - clock_inner_ms();
    redis_server_stop(cluster->nodes[0], SIGKILL);
    assert_true(RIG_UNTIL(&rig, rig.figures.failovers && redis_session_is_up(rig.session)));
    stream_run(stream, 300);
    (void)stream_finish(stream, REDIS_CALL_UNAVAILABLE);

    struct redis_server *promoted = redis_cluster_master(cluster, slot);
    assert_non_null(promoted);
    for (int i = 0; i < stream->submitted; i++)
        if (stream->calls[i]->end == REDIS_CALL_OK &&
            !has_job(promoted, &rig, stream->calls[i]->id))
            fail_msg("'%s' was answered and is lost", stream->calls[i]->id);
    /* Again if the journeys of a slow machine hid a part of the difference. */
    assert_in_range(rig.figures.clock_disagreements, 1, 4);
    last = rig_push(&rig, "t", "last", 0);
    assert_true(RIG_UNTIL(&rig, last->end));
    assert_int_equal(last->end, REDIS_CALL_OK);
    assert_true(llabs(last->now_ms - clock_inner_ms() - apart_ms) < 2000);
    free(last);
    stream_free(stream);
    rig_stop(&rig);
    redis_cluster_free(cluster);
    fake_clock_close(clock, path);
}

CLAIMS_MAIN(NULL, NULL)
