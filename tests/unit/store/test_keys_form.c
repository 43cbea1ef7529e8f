/* Names and footers of tables of keys: what does not go together is refused, also where its
 * checksum is right. */
#include "job/wire.h"
#include "store/keys_private.h"
#include "unit/claim.h"

#include <errno.h>
#include <string.h>

enum { SEED = 5, NUMBER = 3, FORMAT_AT = 8, ENTRIES_AT = 16, FILTER_AT = 24 };

CLAIM(only_canonical_names_are_tables)
{
    static const struct {
        const char *name;
        uint32_t number;
    } names[] = {
        {"00000001.keys", 1},   {"4294967295.keys", UINT32_MAX},
        {"4294967296.keys", 0}, {"00000000.keys", 0},
        {"1.keys", 0},          {"00000001.keys.new", 0},
        {"00000001.run", 0},    {" 0000001.keys", 0},
        {"-0000001.keys", 0},   {"99999999999999999999999.keys", 0},
        {"x0000001.keys", 0},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(keys_file_number(names[i].name), names[i].number);
}

CLAIM(a_footer_is_of_its_file_s_length_or_refused)
{
    const struct keys_shape shape = keys_shape_of(1000, 10);
    const int64_t bytes = (int64_t)(shape.footer_at + 1) * KEYS_BLOCK_BYTES;
    char block[KEYS_BLOCK_BYTES];
    struct keys_shape found;

    keys_put_footer(block, SEED, NUMBER, &shape);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes, &found), 0);
    assert_int_equal(found.entries, 1000);
    assert_int_equal(found.filter_blocks, 10);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes + 1, &found), -EBADMSG);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, KEYS_BLOCK_BYTES - 1, &found), -EBADMSG);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes + KEYS_BLOCK_BYTES, &found),
                     -EBADMSG);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER + 1, bytes, &found), -EBADMSG);
    assert_int_equal(keys_get_footer(block, SEED + 1, NUMBER, bytes, &found), -EBADMSG);
    block[0] ^= 1;
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes, &found), -EBADMSG);
}

CLAIM(impossible_counts_are_rejected_despite_a_valid_checksum)
{
    static const struct {
        uint64_t entries, filter_blocks;
    } tries[] = {
        {UINT64_MAX, 10}, {1000, UINT64_MAX}, {1000, 0}, {2000, 10}, {1000, 2000}, {999, 10},
    };
    const struct keys_shape shape = keys_shape_of(1000, 10);
    const int64_t bytes = (int64_t)(shape.footer_at + 1) * KEYS_BLOCK_BYTES;
    char block[KEYS_BLOCK_BYTES];
    struct keys_shape found = {.entries = 7};

    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        bool is_fine = tries[i].entries == 999; /* of the same shape in blocks */

        keys_put_footer(block, SEED, NUMBER, &shape);
        wire_put_u64(block + ENTRIES_AT, tries[i].entries);
        wire_put_u64(block + FILTER_AT, tries[i].filter_blocks);
        keys_sign(block, SEED, NUMBER, shape.footer_at);
        assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes, &found),
                         is_fine ? 0 : -EBADMSG);
        assert_int_equal(found.entries, is_fine ? 999 : 7); /* written on success only */
    }
    const struct keys_shape bare = keys_shape_of(1000, 0); /* a table always has a filter */
    keys_put_footer(block, SEED, NUMBER, &bare);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER,
                                     (int64_t)(bare.footer_at + 1) * KEYS_BLOCK_BYTES, &found),
                     -EBADMSG);
    keys_put_footer(block, SEED, NUMBER, &shape);
    block[100] = 1; /* in an unused place */
    keys_sign(block, SEED, NUMBER, shape.footer_at);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes, &found), -EBADMSG);
}

CLAIM(a_footer_of_a_newer_format_is_not_damage)
{
    const struct keys_shape shape = keys_shape_of(1000, 10);
    const int64_t bytes = (int64_t)(shape.footer_at + 1) * KEYS_BLOCK_BYTES;
    char block[KEYS_BLOCK_BYTES];
    struct keys_shape found;

    keys_put_footer(block, SEED, NUMBER, &shape);
    wire_put_u32(block + FORMAT_AT, KEYS_FORMAT + 1);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes, &found), -EBADMSG);
    keys_sign(block, SEED, NUMBER, shape.footer_at);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes, &found), -ENOTSUP);
    wire_put_u32(block + FORMAT_AT, 0); /* there never was one */
    keys_sign(block, SEED, NUMBER, shape.footer_at);
    assert_int_equal(keys_get_footer(block, SEED, NUMBER, bytes, &found), -EBADMSG);
}

CLAIMS_MAIN(NULL, NULL)
