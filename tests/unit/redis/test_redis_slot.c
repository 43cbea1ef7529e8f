#include "redis/slot.h"

#include "support/redis_server.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum { KEYS = 2000, KEY_BYTES_MAX = 40 };

/* Makes a key of bytes among which braces are frequent. */
static struct slice random_key(struct random *random, char key[KEY_BYTES_MAX])
{
    size_t len = (size_t)random_below(random, KEY_BYTES_MAX + 1);
    for (size_t i = 0; i < len; i++)
        key[i] = random_below(random, 4) ? (char)random_below(random, 256)
                                         : "{}"[random_below(random, 2)];
    return slice_make(key, len);
}

CLAIM(a_key_has_the_slot_that_the_server_computes)
{
    static const char *const words[] = {"--cluster-enabled", "yes", NULL};
    struct redis_server *server = redis_server_new(&(struct redis_server_options){.words = words});
    struct random random = seed_random("a_key_has_the_slot_that_the_server_computes");
    int differing = 0;
    for (int i = 0; i < KEYS; i++) {
        char bytes[KEY_BYTES_MAX];
        struct slice key = random_key(&random, bytes);
        redisReply *reply = redis_server_ask(server, "CLUSTER KEYSLOT %b", key.at, key.len);
        differing +=
            !reply || reply->type != REDIS_REPLY_INTEGER || reply->integer != redis_slot_of(key);
        freeReplyObject(reply);
    }
    redis_server_free(server);
    assert_int_equal(differing, 0);
}

CLAIM(computes_the_slots_of_the_specification)
{
    static const struct {
        const char *key, *same_as, *sentence;
    } rows[] = {
        {"{user1000}.following", "user1000", "what is in the braces counts"},
        {"foo{}{bar}", "foo{}{bar}", "an empty tag is none"},
        {"foo{{bar}}zap", "{bar", "from the first { to the first }"},
        {"foo{bar}{zap}", "bar", "only the first tag counts"},
        {"foo{bar", "foo{bar", "a tag that is not closed is none"},
        {"foo}{bar", "foo}{bar", "a } in front closes nothing"},
        {"{", "{", "nothing behind the {"},
    };
    assert_int_equal(redis_slot_of(slice_of("123456789")), 0x31c3);
    assert_int_equal(redis_slot_of(slice_make(NULL, 0)), 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char as_tag[32];
        struct slice same = slice_of(rows[i].same_as);
        /* A text that holds a brace itself cannot be asked for as it is. */
        if (memchr(same.at, '{', same.len) && strcmp(rows[i].key, rows[i].same_as) != 0) {
            snprintf(as_tag, sizeof as_tag, "{%s}", rows[i].same_as);
            same = slice_of(as_tag);
        }
        CASE_HOLDS(rows[i].sentence, redis_slot_of(slice_of(rows[i].key)) == redis_slot_of(same));
    }
}

CLAIM(a_shards_keys_are_all_in_its_tags_slot)
{
    char tag[REDIS_TAG_BYTES], again[REDIS_TAG_BYTES], key[REDIS_TAG_BYTES + 20];
    for (uint32_t shards = 1; shards <= 64; shards *= 2)
        for (uint32_t shard = 0; shard < shards; shard++) {
            redis_slot_tag("tarry", shard, shards, tag);
            redis_slot_tag("tarry", shard, shards, again);
            assert_string_equal(tag, again);
            assert_int_equal(tag[0], '{');
            assert_int_equal(tag[strlen(tag) - 1], '}');
            snprintf(key, sizeof key, "%s:topic:{x}", tag);
            assert_int_equal(redis_slot_of(slice_of(tag)), redis_slot_of(slice_of(key)));
        }
}

/* Returns the master of a slot as redis-cli divides the slots of a new cluster. */
static uint32_t master_of(uint16_t slot, uint32_t masters)
{
    double per_master = (double)REDIS_SLOTS / masters, from = 0;
    uint32_t master = 0;
    while (master + 1 < masters && slot > (int)(from + per_master - 1 + 0.5)) {
        from += per_master;
        master++;
    }
    return master;
}

CLAIM(shards_weigh_alike_on_any_number_of_masters)
{
    for (uint32_t shards = 1; shards <= 64; shards++)
        for (uint32_t masters = 1; masters <= shards; masters++) {
            uint32_t carried[64] = {0}, least = shards, most = 0;
            for (uint32_t shard = 0; shard < shards; shard++) {
                static char tags[65][64][REDIS_TAG_BYTES];
                if (!tags[shards][shard][0])
                    redis_slot_tag("tarry", shard, shards, tags[shards][shard]);
                carried[master_of(redis_slot_of(slice_of(tags[shards][shard])), masters)]++;
            }
            for (uint32_t i = 0; i < masters; i++) {
                least = carried[i] < least ? carried[i] : least;
                most = carried[i] > most ? carried[i] : most;
            }
            if (most > least + 1)
                fail_msg("%u shards on %u masters: one carries %u, one %u", shards, masters, least,
                         most);
        }
}

CLAIM(the_longest_prefix_fits)
{
    char tag[REDIS_TAG_BYTES];
    redis_slot_tag("12345678901234567890123456789012", 63, 64, tag);
    assert_true(strlen(tag) < REDIS_TAG_BYTES);
    assert_int_equal(strncmp(tag, "{12345678901234567890123456789012:63", 36), 0);
}

CLAIMS_MAIN(NULL, NULL)
