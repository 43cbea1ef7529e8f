/* Reservations of a client: thousands of random steps, each compared with an array that is searched from end to end. */
#include "beanstalk/reservations.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum { NUMBERS = 40, STEPS = 20000, HOUR_MS = 3600 * 1000 };

/* Number i is held where `until_ms` is not 0. */
struct model {
    int64_t until_ms, lease_until_ms;
    uint32_t ttr_s;
};

static int64_t first_end_ms(const struct model *model)
{
    int64_t first_ms = INT64_MAX;
    for (int i = 0; i < NUMBERS; i++)
        if (model[i].until_ms && model[i].until_ms < first_ms)
            first_ms = model[i].until_ms;
    return first_ms;
}

/* Returns the first renewal of those whose lease ends well before their time. */
static int64_t first_renewal_ms(const struct model *model)
{
    int64_t first_ms = INT64_MAX;
    for (int i = 0; i < NUMBERS; i++)
        if (model[i].until_ms && model[i].lease_until_ms + 500 < model[i].until_ms &&
            model[i].lease_until_ms - HOUR_MS < first_ms)
            first_ms = model[i].lease_until_ms - HOUR_MS;
    return first_ms;
}

static void check(const struct beanstalk_reservations *held, const struct model *model)
{
    size_t count = 0;
    for (uint64_t i = 0; i < NUMBERS; i++) {
        struct beanstalk_reservation *found = beanstalk_reservations_find(held, i);
        assert_int_equal(found != NULL, model[i].until_ms != 0);
        count += found != NULL;
        if (found) {
            assert_true(found->number == i && found->until_ms == model[i].until_ms);
            assert_true(found->lease_until_ms == model[i].lease_until_ms);
            assert_true(slice_is(beanstalk_reservation_lease(found), "a lease"));
        }
    }
    assert_int_equal(held->ends.count, count);
    assert_true(beanstalk_reservations_end_ms(held) == first_end_ms(model));
    assert_true(beanstalk_reservations_renewal_ms(held) == first_renewal_ms(model));
}

static int64_t expire(struct model *model, int64_t now_ms)
{
    int64_t count = 0;
    for (int i = 0; i < NUMBERS; i++)
        if (model[i].until_ms && model[i].until_ms <= now_ms) {
            model[i].until_ms = 0;
            count++;
        }
    return count;
}

CLAIM(the_list_agrees_with_an_array)
{
    struct random random = seed_random("reservations");
    struct beanstalk_reservations held = {0};
    struct model model[NUMBERS] = {0};
    int64_t now_ms = 1000;
    for (int step = 0; step < STEPS; step++) {
        uint64_t number = random_below(&random, NUMBERS);
        struct model *one = &model[number];
        struct beanstalk_reservation *found = beanstalk_reservations_find(&held, number);
        uint32_t ttr_s =
            1 + (uint32_t)random_below(&random, random_below(&random, 2) ? 60 : 400000);
        int64_t lease_ms = beanstalk_lease_ms(ttr_s) - (int64_t)random_below(&random, 3);
        now_ms += (int64_t)random_below(&random, 20000);
        switch (random_below(&random, 5)) {
        case 0:
        case 1:
            *one = (struct model){now_ms + (int64_t)ttr_s * 1000, now_ms + lease_ms, ttr_s};
            assert_true(beanstalk_reservations_add(&held, number, slice_of("a lease"),
                                                   slice_of("mail"), ttr_s, one->until_ms,
                                                   one->lease_until_ms));
            break;
        case 2:
            if (found) {
                beanstalk_reservations_remove(&held, found);
                one->until_ms = 0;
            }
            break;
        case 3:
            if (found) {
                lease_ms = beanstalk_lease_ms(one->ttr_s);
                beanstalk_reservations_touch(&held, found, now_ms, now_ms + lease_ms);
                *one = (struct model){now_ms + (int64_t)one->ttr_s * 1000, now_ms + lease_ms,
                                      one->ttr_s};
            }
            break;
        default:
            assert_int_equal(beanstalk_reservations_expire(&held, now_ms), expire(model, now_ms));
            found = beanstalk_reservations_renewal(&held);
            if (found && beanstalk_reservations_renewal_ms(&held) <= now_ms) {
                one = &model[found->number];
                one->lease_until_ms = now_ms + POLICY_LEASE_MS_MAX;
                beanstalk_reservations_renewed(&held, found, one->lease_until_ms);
            }
        }
        check(&held, model);
    }
    beanstalk_reservations_fini(&held);
}

CLAIM(a_lease_that_ends_with_its_time_is_not_renewed)
{
    struct beanstalk_reservations held = {0};
    assert_true(
        beanstalk_reservations_add(&held, 1, slice_of("a"), slice_of("mail"), 60, 60000, 59999));
    assert_null(beanstalk_reservations_renewal(&held));
    assert_true(beanstalk_reservations_renewal_ms(&held) == INT64_MAX);
    assert_true(beanstalk_reservations_add(&held, 2, slice_of("b"), slice_of("mail"), 100000,
                                           100000000, POLICY_LEASE_MS_MAX));
    assert_int_equal(beanstalk_reservations_renewal(&held)->number, 2);
    beanstalk_reservations_fini(&held);
}

CLAIMS_MAIN(NULL, NULL)
