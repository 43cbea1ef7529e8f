/* A lease as text: it is read back, and a text with any difference is invalid. */
#include "engine/lease.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

static const struct mac_key *key_of(struct random *random)
{
    static struct mac_key key;
    for (size_t i = 0; i < sizeof key; i++)
        ((unsigned char *)&key)[i] = (unsigned char)random_below(random, 256);
    return &key;
}

CLAIM(a_written_lease_is_read_back)
{
    struct random random = seed_random("a_written_lease_is_read_back");
    for (int i = 0; i < 1000; i++) {
        const struct mac_key *key = key_of(&random);
        struct engine_lease lease = {.key_low = random_next(&random),
                                     .delivery = random_below(&random, UINT64_C(1) << 56)};
        struct engine_lease found = {0};
        uint32_t shard = (uint32_t)random_below(&random, 256), found_shard;
        char text[LEASE_TEXT_BYTES];
        lease_write(text, key, &lease, shard);
        assert_true(lease_parse(slice_make(text, sizeof text), key, &found, &found_shard));
        assert_true(found.key_low == lease.key_low && found.delivery == lease.delivery);
        assert_int_equal(found_shard, shard);
    }
}

CLAIM(a_text_with_any_difference_is_invalid)
{
    struct random random = seed_random("a_text_with_any_difference_is_invalid");
    const struct mac_key *key = key_of(&random);
    struct engine_lease lease = {.key_low = 12345, .delivery = 7}, found = {0};
    char text[LEASE_TEXT_BYTES];
    uint32_t shard;
    lease_write(text, key, &lease, 1);
    for (size_t at = 0; at < sizeof text; at++) {
        char was = text[at];
        text[at] = was == '0' ? '1' : '0';
        assert_false(lease_parse(slice_make(text, sizeof text), key, &found, &shard));
        text[at] = was;
    }
    assert_true(lease_parse(slice_make(text, sizeof text), key, &found, &shard));
}

CLAIM(a_lease_of_another_store_is_invalid)
{
    struct random random = seed_random("a_lease_of_another_store_is_invalid");
    struct engine_lease lease = {.key_low = 12345, .delivery = 7}, found = {0};
    char text[LEASE_TEXT_BYTES];
    uint32_t shard;
    lease_write(text, key_of(&random), &lease, 0);
    assert_false(lease_parse(slice_make(text, sizeof text), key_of(&random), &found, &shard));
}

CLAIMS_MAIN(NULL, NULL)
