/* The values of a master that INFO and CONFIG GET show. */
#include "redis/master.h"

#include "unit/cases.h"
#include "unit/claim.h"

CLAIM(counts_memory_as_redis_does)
{
    static const struct {
        const char *sentence, *info;
        bool is_full;
    } rows[] = {
        {"no limit", "maxmemory:0\r\nused_memory:200\r\n", false},
        {"below the limit", "maxmemory:200\r\nused_memory:100\r\n", false},
        {"at the limit", "maxmemory:200\r\nused_memory:200\r\n", false},
        {"above the limit", "maxmemory:100\r\nused_memory:200\r\n", true},
        {"buffers do not count",
         "maxmemory:100\r\nused_memory:200\r\nmem_not_counted_for_evict:100\r\n", false},
        {"more than the buffers",
         "maxmemory:100\r\nused_memory:200\r\nmem_not_counted_for_evict:99\r\n", true},
        {"larger buffers than memory",
         "maxmemory:100\r\nused_memory:200\r\nmem_not_counted_for_evict:300\r\n", false},
        {"the file cannot be written", "aof_last_write_status:err\r\n", true},
        {"the file is written", "aof_last_write_status:ok\r\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis_master master = {0};
        redis_master_read_capacity(&master, rows[i].info);
        CASE_HOLDS(rows[i].sentence, master.is_full == rows[i].is_full);
    }
}

CLAIM(finds_a_field_only_by_its_whole_name)
{
    static const char info[] = "# Memory\r\nmaxmemory_policy:noeviction\r\nmaxmemory:5\r\nlast:x";
    static const struct {
        const char *key, *value;
    } rows[] = {
        {"maxmemory", "5"}, {"maxmemory_policy", "noeviction"},
        {"last", "x"},      {"max", ""},
        {"memory", ""},     {"# Memory", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char field[REDIS_FIELD_BYTES];
        redis_info_field(info, rows[i].key, field);
        CASE_HOLDS(rows[i].key, strcmp(field, rows[i].value) == 0);
    }
}

CLAIM(durability_is_unknown_only_if_config_is_hidden_and_a_file_is_written)
{
    static const struct {
        const char *sentence, *info;
        enum redis_durability durability;
    } rows[] = {
        {"no append-only file", "aof_enabled:0\r\n", REDIS_DURABILITY_MEMORY},
        {"an append-only file", "aof_enabled:1\r\n", REDIS_DURABILITY_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        redisReply error = {.type = REDIS_REPLY_ERROR, .str = "ERR unknown command"};
        struct redis_master master = {0};
        redis_master_read_info(&master, rows[i].info);
        redis_master_read_config(&master, &error);
        CASE_HOLDS(rows[i].sentence, master.durability == rows[i].durability);
    }
}

CLAIM(config_values_may_be_missing_or_nil)
{
    redisReply name = {.type = REDIS_REPLY_STRING, .str = "appendonly"},
               sync = {.type = REDIS_REPLY_STRING, .str = "appendfsync"},
               yes = {.type = REDIS_REPLY_STRING, .str = "yes"},
               always = {.type = REDIS_REPLY_STRING, .str = "always"},
               nil = {.type = REDIS_REPLY_NIL};
    redisReply *whole[] = {&nil, &yes, &name, &yes, &sync, &always, &sync};
    redisReply *without[] = {&name, &nil, &sync, &nil};
    redisReply config = {.type = REDIS_REPLY_ARRAY, .elements = 7, .element = whole};
    struct redis_master master = {0};
    redis_master_read_config(&master, &config);
    assert_int_equal(master.durability, REDIS_DURABILITY_FSYNC_ALWAYS);
    config = (redisReply){.type = REDIS_REPLY_ARRAY, .elements = 4, .element = without};
    master = (struct redis_master){.durability = REDIS_DURABILITY_UNKNOWN};
    redis_master_read_config(&master, &config);
    assert_int_equal(master.durability, REDIS_DURABILITY_UNKNOWN);
}

CLAIMS_MAIN(NULL, NULL)
