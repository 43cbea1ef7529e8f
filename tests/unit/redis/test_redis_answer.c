/* The meaning of Redis errors. */
#include "redis/answer.h"

#include "unit/cases.h"
#include "unit/claim.h"

static bool read_head(const char *text, size_t len, struct redis_head *out)
{
    redisReply first = {.type = REDIS_REPLY_STRING, .str = (char *)text, .len = len};
    redisReply *elements[] = {&first};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements};
    return redis_head_read(&reply, out);
}

CLAIM(a_head_has_the_next_event_and_its_topic)
{
    static const char head[] = "\0\0\0\0\0\5\0\0\0\0\1\0\377\377\377\377\377\376\6ordersrest";
    static const char bare[] = "\0\0\0\0\0\5\377\377\377\377\377\377\0\0\0\0\0\0\0";
    struct redis_head out;
    assert_true(read_head(head, sizeof head - 1, &out));
    assert_int_equal(out.now_ms, 5);
    assert_int_equal(out.next_ms, 256);
    assert_int_equal(out.adjust_ms, -2);
    assert_true(slice_is(out.next_topic, "orders"));
    assert_true(slice_is(out.rest, "rest"));
    for (size_t len = 0; len < REDIS_HEAD_BYTES + 6; len++)
        assert_false(read_head(head, len, &out));
    assert_true(read_head(bare, sizeof bare - 1, &out));
    assert_true(out.next_ms == INT64_MAX && out.next_topic.len == 0 && out.rest.len == 0);
}

CLAIM(errors_follow_the_table)
{
    static const struct {
        const char *sentence, *error;
        enum redis_decision decision;
    } rows[] = {
        {"scripts flushed", "NOSCRIPT No matching script. Please use EVAL.", REDIS_DECISION_GREET},
        {"functions flushed", "ERR Function not found", REDIS_DECISION_GREET},
        {"clock set back", "CLOCK it went back", REDIS_DECISION_CLOCK},
        {"the layout is newer", "VERSION the jobs were stored by a newer tarry",
         REDIS_DECISION_REFUSED},
        {"all was flushed", "GONE the core of this shard is not there, Redis lost its data",
         REDIS_DECISION_GONE},
        {"slot is elsewhere", "MOVED 3999 127.0.0.1:6381", REDIS_DECISION_MOVED},
        {"slot is moving", "ASK 3999 127.0.0.1:6381", REDIS_DECISION_AGAIN},
        {"half of it has moved", "TRYAGAIN Multiple keys request during rehashing of slot",
         REDIS_DECISION_AGAIN},
        {"found by the script",
         "ERR Script attempted to access a non local key in a cluster node script: x, on y",
         REDIS_DECISION_AGAIN},
        {"a long script", "BUSY Redis is busy running a script.", REDIS_DECISION_AGAIN},
        {"not the stream error of that name", "BUSYGROUP Consumer Group name already exists",
         REDIS_DECISION_REFUSED},
        {"demoted", "READONLY You can't write against a read only replica.",
         REDIS_DECISION_ELSEWHERE},
        {"memory", "OOM command not allowed when used memory > 'maxmemory'.",
         REDIS_DECISION_NO_SPACE},
        {"disk", "MISCONF Errors writing to the AOF file: No space left on device",
         REDIS_DECISION_NO_SPACE},
        {"too few replicas", "NOREPLICAS Not enough good replicas to write.",
         REDIS_DECISION_REFUSED},
        {"a fault of ours", "ERR user_script:1: Script attempted to access nonexistent variable",
         REDIS_DECISION_REFUSED},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].sentence, redis_error_classify(rows[i].error) == rows[i].decision);
}

CLAIM(moved_names_the_node)
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
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool known = redis_error_endpoint(rows[i].error, &asked, &there);
        CASE_HOLDS(rows[i].sentence, known == (rows[i].host != NULL));
        if (known)
            CASE_HOLDS(rows[i].sentence,
                       strcmp(there.host, rows[i].host) == 0 && there.port == rows[i].port);
    }
}

CLAIMS_MAIN(NULL, NULL)
