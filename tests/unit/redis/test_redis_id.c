/* Ids as Redis keeps them, and the tokens of leases. */
#include "job/ulid.h"
#include "redis/id.h"

#include "unit/claim.h"
#include "unit/seed.h"

#include <stdio.h>

enum { ROUNDS = 20000 };

static struct slice stored_of(struct slice id)
{
    static char room[REDIS_ID_PACKED_BYTES];

    return redis_id_store(id, room);
}

static void assert_comes_back(struct slice id)
{
    char room[REDIS_ID_ROOM_BYTES];
    struct slice stored = stored_of(id), shown;

    assert_true(redis_id_show(stored, room, &shown));
    assert_true(slice_equals(shown, id));
}

CLAIM(an_id_made_here_takes_seventeen_bytes)
{
    struct random random = seed_random(__func__);
    struct ulid ulid;
    char id[ULID_BYTES];

    ulid_init(&ulid, random_next(&random));
    for (int i = 0; i < ROUNDS; i++) {
        ulid_write(&ulid, (int64_t)(random_next(&random) >> (16 + random_below(&random, 40))), id);
        assert_int_equal(stored_of(slice_make(id, sizeof id)).len, 17);
        assert_comes_back(slice_make(id, sizeof id));
    }
}

CLAIM(a_uuid_takes_seventeen_bytes)
{
    struct random random = seed_random(__func__);
    char id[37];

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = random_next(&random), b = random_next(&random);
        snprintf(id, sizeof id, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32),
                 (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xffff), (unsigned)(b >> 48),
                 (unsigned long long)(b & 0xffffffffffff));
        assert_int_equal(stored_of(slice_of(id)).len, 17);
        assert_comes_back(slice_of(id));
    }
}

CLAIM(other_ids_are_kept_unchanged)
{
    static const char *const ids[] = {
        "123e4567-e89b-12d3-a456-42661417400",   /* 35 characters */
        "123e4567-e89b-12d3-a456-4266141740000", /* 37 */
        "123E4567-e89b-12d3-a456-426614174000",  /* upper case is another id */
        "123e4567e-89b-12d3-a456-426614174000",  /* a hyphen elsewhere */
        "123e4567-e89b-12d3-a456-42661417400g",
        "123e4567_e89b-12d3-a456-426614174000",
        "a",
        "order-8812345",
        "01ARZ3NDEKTSV4RRFFQ69G5FA",   /* 25 characters */
        "01ARZ3NDEKTSV4RRFFQ69G5FAVA", /* 27 */
        "01arz3ndektsv4rrffq69g5fav",  /* lower case is another id */
        "81ARZ3NDEKTSV4RRFFQ69G5FAV",  /* more than 128 bits */
        "01ARZ3NDEKTSV4RRFFQ69G5FAI",  /* I, L, O and U are not digits */
        "0LARZ3NDEKTSV4RRFFQ69G5FAV",
    };

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        assert_true(slice_is(stored_of(slice_of(ids[i])), ids[i]));
        assert_comes_back(slice_of(ids[i]));
    }
}

CLAIM(the_lowest_and_the_highest_come_back)
{
    char high[REDIS_ID_PACKED_BYTES];

    assert_comes_back(slice_of("00000000000000000000000000"));
    assert_comes_back(slice_of("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"));
    memset(high, 0xff, sizeof high);
    high[0] = 1;
    assert_true(slice_equals(stored_of(slice_of("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")),
                             slice_make(high, sizeof high)));
    assert_int_equal(stored_of(slice_of("00000000000000000000000001")).at[16], 1);
}

/* A value stored under one name must not be found under another. */
CLAIM(two_ids_never_share_a_form)
{
    struct random random = seed_random(__func__);
    char a[REDIS_ID_PACKED_BYTES], b[REDIS_ID_PACKED_BYTES], x[ULID_BYTES], y[ULID_BYTES];
    struct ulid ulid;

    ulid_init(&ulid, random_next(&random));
    for (int i = 0; i < ROUNDS; i++) {
        size_t at = (size_t)random_below(&random, ULID_BYTES);

        ulid_write(&ulid, 1700000000000, x);
        memcpy(y, x, sizeof y);
        y[at] = (char)(0x21 + random_below(&random, 0x5e));
        assert_int_equal(slice_equals(redis_id_store(slice_make(x, sizeof x), a),
                                      redis_id_store(slice_make(y, sizeof y), b)),
                         x[at] == y[at]);
    }
}

CLAIM(rejects_invalid_ids)
{
    char room[REDIS_ID_ROOM_BYTES], longest[JOB_ID_BYTES_MAX + 1];
    struct slice id;

    memset(longest, 'x', sizeof longest);
    assert_false(redis_id_show(slice_make("", 0), room, &id));
    assert_false(redis_id_show(slice_make("\x01", 1), room, &id));
    assert_false(redis_id_show(slice_make("\x01 sixteen bytes..", 16), room, &id));
    assert_false(redis_id_show(slice_make("\x03 seventeen bytes", 17), room, &id));
    assert_false(redis_id_show(slice_make("a b", 3), room, &id));
    assert_false(redis_id_show(slice_make(longest, sizeof longest), room, &id));
}

/* ---- tokens ---- */

CLAIM(a_token_names_shard_and_delivery)
{
    struct random random = seed_random(__func__);
    char text[REDIS_LEASE_BYTES];
    const struct mac_key key = {random_next(&random), random_next(&random)}, other = {1, 2};

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t shard = (uint32_t)random_below(&random, 64), shard_read;
        uint64_t delivery = random_next(&random) >> (16 + random_below(&random, 48)), read;

        redis_lease_write(text, &key, shard, delivery);
        assert_true(redis_lease_find_shard(slice_make(text, sizeof text), &shard_read));
        assert_int_equal(shard_read, shard);
        assert_true(redis_lease_parse(slice_make(text, sizeof text), &key, &shard_read, &read));
        assert_int_equal(shard_read, shard);
        assert_int_equal(read, delivery);
        assert_false(redis_lease_parse(slice_make(text, sizeof text), &other, &shard_read, &read));
        size_t at = random_below(&random, sizeof text);
        text[at] = text[at] == '0' ? '1' : '0';
        assert_false(redis_lease_parse(slice_make(text, sizeof text), &key, &shard_read, &read));
    }
}

CLAIM(rejects_invalid_tokens)
{
    static const char *const texts[] = {"",
                                        "0",
                                        "00000000000001",
                                        "00000000000000000000000000000",
                                        "0000000000000000000000000000001",
                                        "00000000000000000000000000000G",
                                        "00000000000000000000000000000A",
                                        "00-000000000010000000000000000",
                                        " 00000000000010000000000000000",
                                        "00 000000000010000000000000000"};
    const struct mac_key key = {3, 4};
    uint32_t shard;
    uint64_t delivery;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(redis_lease_parse(slice_of(texts[i]), &key, &shard, &delivery));
    assert_false(redis_lease_parse(slice_make("00000000000000000000000000000\0", 30), &key, &shard,
                                   &delivery));
}

CLAIMS_MAIN(NULL, NULL)
