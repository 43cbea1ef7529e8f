#include "store/alive.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <string.h>

enum { SLOTS_MAX = 1000 };

/* A naive one beside. */
struct pair {
    struct alive alive;
    bool model[SLOTS_MAX];
};

static uint32_t model_next(const struct pair *pair, uint32_t slot, uint32_t end)
{
    while (slot < end && !pair->model[slot])
        slot++;
    return slot < end ? slot : end;
}

static void check(const struct pair *pair, const struct alive *alive)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < alive->slots; i++) {
        assert_int_equal(alive_test(alive, i), pair->model[i]);
        count += pair->model[i];
    }
    assert_int_equal(alive->count, count);
}

static void check_next(const struct pair *pair, struct random *random)
{
    for (int i = 0; i < 200; i++) {
        uint32_t end = (uint32_t)random_below(random, pair->alive.slots + 1);
        uint32_t slot = (uint32_t)random_below(random, pair->alive.slots + 1);

        assert_int_equal(alive_next(&pair->alive, slot, end), model_next(pair, slot, end));
    }
}

static void check_saved(const struct pair *pair)
{
    char bytes[SLOTS_MAX / 8 + 8];
    struct alive again;

    alive_save(&pair->alive, bytes);
    assert_true(alive_load(&again, pair->alive.slots, bytes));
    check(pair, &again);
    alive_fini(&again);
}

CLAIM(does_as_the_naive_one)
{
    static const uint32_t sizes[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 640, SLOTS_MAX};
    struct random random = seed_random(__func__);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct pair pair;

        assert_true(alive_init(&pair.alive, sizes[i]));
        memset(pair.model, true, sizeof pair.model);
        check(&pair, &pair.alive);
        for (uint32_t n = 0; n < sizes[i] * 3; n++) {
            uint32_t slot = (uint32_t)random_below(&random, sizes[i]);

            assert_int_equal(alive_clear(&pair.alive, slot), pair.model[slot]);
            pair.model[slot] = false;
            if (n % 64 == 0)
                check_next(&pair, &random);
        }
        check(&pair, &pair.alive);
        check_next(&pair, &random);
        check_saved(&pair);
        alive_fini(&pair.alive);
    }
}

CLAIM(the_stored_form_is_words_little_endian)
{
    struct alive alive;
    unsigned char bytes[16];

    assert_int_equal(alive_bytes(0), 0);
    assert_int_equal(alive_bytes(64), 8);
    assert_int_equal(alive_bytes(65), 16);
    assert_int_equal(alive_bytes(UINT32_MAX), (size_t)1 << 29);
    assert_true(alive_init(&alive, 70));
    alive_clear(&alive, 1);
    alive_clear(&alive, 66);
    alive_save(&alive, (char *)bytes);
    assert_int_equal(bytes[0], 0xfd);
    assert_int_equal(bytes[8], 0x3b);
    assert_int_equal(bytes[9], 0);
    alive_fini(&alive);
}

CLAIM(bits_beyond_the_last_slot_are_refused)
{
    struct alive alive;
    unsigned char bytes[16] = {0};

    for (int bit = 0; bit < 128; bit++) {
        memset(bytes, 0, sizeof bytes);
        bytes[bit / 8] = (unsigned char)(1 << bit % 8);
        assert_int_equal(alive_load(&alive, 70, (const char *)bytes), bit < 70);
        alive_fini(&alive);
        assert_true(alive_load(&alive, 128, (const char *)bytes));
        alive_fini(&alive);
    }
}

CLAIMS_MAIN(NULL, NULL)
