/* The master of each slot, from the replies of cluster nodes. */
#include "redis/topology.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>
#include <string.h>

static redisReply *parse(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    redisReaderFeed(reader, text, strlen(text));
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static bool read_text(struct redis_map *map, const char *text)
{
    struct redis_endpoint asked = {.host = "asked", .port = 7};
    redisReply *reply = parse(text);
    bool good = redis_map_read(map, reply, &asked);
    freeReplyObject(reply);
    return good;
}

static bool serves(const struct redis_map *map, uint16_t slot, const char *host, uint16_t port)
{
    const struct redis_endpoint *endpoint = redis_map_find(map, slot);
    return endpoint && strcmp(endpoint->host, host) == 0 && endpoint->port == port;
}

#define NODE(HOST, PORT) "*3\r\n" HOST ":" PORT "\r\n+id\r\n"
#define NAME_A "$1\r\na\r\n"

CLAIM(masters_serve_their_ranges_and_replicas_are_listed)
{
    struct redis_map map;
    map = (struct redis_map){0};
    assert_true(read_text(
        &map, "*2\r\n"
              "*4\r\n:0\r\n:99\r\n" NODE(NAME_A, "1")
                  NODE("$1\r\nb\r\n", "2") "*3\r\n:200\r\n:16383\r\n" NODE("$1\r\nc\r\n", "3")));
    assert_true(serves(&map, 0, "a", 1));
    assert_true(serves(&map, 99, "a", 1));
    assert_null(redis_map_find(&map, 100));
    assert_null(redis_map_find(&map, 199));
    assert_true(serves(&map, 200, "c", 3));
    assert_true(serves(&map, 16383, "c", 3));
    assert_int_equal(map.nodes.count, 3);
    redis_map_fini(&map);
}

CLAIM(a_missing_host_is_the_queried_server)
{
    static const struct {
        const char *sentence, *reply;
    } rows[] = {
        {"empty", "*1\r\n*3\r\n:0\r\n:1\r\n" NODE("$0\r\n\r\n", "5")},
        {"unknown", "*1\r\n*3\r\n:0\r\n:1\r\n" NODE("$1\r\n?\r\n", "5")},
        {"nil", "*1\r\n*3\r\n:0\r\n:1\r\n" NODE("$-1\r\n", "5")},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis_map map = {0};
        CASE_HOLDS(rows[i].sentence, read_text(&map, rows[i].reply));
        CASE_HOLDS(rows[i].sentence, serves(&map, 1, "asked", 5));
        redis_map_fini(&map);
    }
}

CLAIM(an_invalid_topology_changes_nothing)
{
    static const struct {
        const char *sentence, *reply;
    } rows[] = {
        {"not a list", "+OK\r\n"},
        {"an empty one", "*0\r\n"},
        {"ranges that are no lists", "*1\r\n:1\r\n"},
        {"no master", "*1\r\n*2\r\n:0\r\n:1\r\n"},
        {"a slot that is none", "*1\r\n*3\r\n:0\r\n:16384\r\n" NODE(NAME_A, "1")},
        {"a range backwards", "*1\r\n*3\r\n:5\r\n:4\r\n" NODE(NAME_A, "1")},
        {"below the first slot", "*1\r\n*3\r\n:-1\r\n:4\r\n" NODE(NAME_A, "1")},
        {"no port", "*1\r\n*3\r\n:0\r\n:4\r\n*1\r\n" NAME_A},
        {"a port that is none", "*1\r\n*3\r\n:0\r\n:4\r\n" NODE(NAME_A, "65536")},
        {"good, then not",
         "*2\r\n*3\r\n:0\r\n:4\r\n" NODE(NAME_A, "9") "*3\r\n:5\r\n:4\r\n" NODE(NAME_A, "1")},
    };
    struct redis_map map;
    map = (struct redis_map){0};
    assert_true(read_text(&map, "*1\r\n*3\r\n:3\r\n:3\r\n" NODE("$1\r\nk\r\n", "1")));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CASE_HOLDS(rows[i].sentence, !read_text(&map, rows[i].reply));
        CASE_HOLDS(rows[i].sentence, serves(&map, 3, "k", 1) && !redis_map_find(&map, 4));
    }
    redis_map_fini(&map);
}

CLAIM(a_slot_can_be_set_by_itself)
{
    struct redis_endpoint a = {.host = "a", .port = 1}, b = {.host = "b", .port = 1};
    struct redis_map map;
    map = (struct redis_map){0};
    assert_null(redis_map_find(&map, 8));
    redis_map_set(&map, 8, &a);
    redis_map_set(&map, 9, &a);
    redis_map_set(&map, 8, &b);
    assert_true(serves(&map, 8, "b", 1));
    assert_true(serves(&map, 9, "a", 1));
    assert_int_equal(map.nodes.count, 2);
    redis_map_fini(&map);
}

CLAIM(no_more_nodes_are_kept_than_a_cluster_can_have)
{
    struct redis_endpoint node = {.host = "n"};
    struct redis_map map;
    map = (struct redis_map){0};
    for (uint16_t i = 1; i <= REDIS_NODES_MAX + 5; i++) {
        node.port = i;
        redis_map_set(&map, i, &node);
    }
    assert_int_equal(map.nodes.count, REDIS_NODES_MAX);
    assert_true(serves(&map, REDIS_NODES_MAX, "n", REDIS_NODES_MAX));
    assert_null(redis_map_find(&map, REDIS_NODES_MAX + 1));
    redis_map_fini(&map);
}

CLAIMS_MAIN(NULL, NULL)
