#include "beanstalk/reservations.h"

enum {
    RENEW_MS = 3600 * 1000, /* time before the end of a lease when it is renewed */
    EQUAL_MS = 500 /* ends at most this far apart count as equal, since two clocks measured them */
};

static struct slice key_of(const uint64_t *number)
{
    return slice_make(number, sizeof *number);
}

struct beanstalk_reservation *beanstalk_reservations_find(const struct beanstalk_reservations *held,
                                                          uint64_t number)
{
    return beanstalk_reservation_table_find(&held->table, key_of(&number));
}

/* Adds the reservation to the renewals or removes it, depending on its two ends. Needs reserved
 * space. */
static void renewal_place(struct beanstalk_reservations *held, struct beanstalk_reservation *at)
{
    bool is_in = at->renewal_index != SIZE_MAX,
         needs = at->lease_until_ms + EQUAL_MS < at->until_ms;
    if (is_in && needs) {
        beanstalk_reservation_renewals_changed(&held->renewals, at->renewal_index);
    } else if (is_in) {
        (void)beanstalk_reservation_renewals_remove(&held->renewals, at->renewal_index);
        at->renewal_index = SIZE_MAX;
    } else if (needs) {
        (void)beanstalk_reservation_renewals_add(&held->renewals, at);
    }
}

void beanstalk_reservations_remove(struct beanstalk_reservations *held,
                                   struct beanstalk_reservation *reservation)
{
    beanstalk_reservation_table_remove(&held->table, reservation);
    (void)beanstalk_reservation_ends_remove(&held->ends, reservation->end_index);
    if (reservation->renewal_index != SIZE_MAX)
        (void)beanstalk_reservation_renewals_remove(&held->renewals, reservation->renewal_index);
    free(reservation);
}

void beanstalk_reservations_fini(struct beanstalk_reservations *held)
{
    while (held->ends.count)
        beanstalk_reservations_remove(held, held->ends.at[0]);
    beanstalk_reservation_table_fini(&held->table);
    beanstalk_reservation_ends_fini(&held->ends);
    beanstalk_reservation_renewals_fini(&held->renewals);
}

bool beanstalk_reservations_add(struct beanstalk_reservations *held, uint64_t number,
                                struct slice lease, uint32_t ttr_s, int64_t until_ms,
                                int64_t lease_until_ms)
{
    size_t count = held->ends.count + 1;
    struct beanstalk_reservation *before = beanstalk_reservations_find(held, number);
    struct beanstalk_reservation *added = calloc(1, sizeof *added + lease.len);
    if (!added || !beanstalk_reservation_ends_reserve(&held->ends, count) ||
        !beanstalk_reservation_renewals_reserve(&held->renewals, count)) {
        free(added);
        return false;
    }
    if (before)
        beanstalk_reservations_remove(held, before);
    added->number = number;
    added->entry.key = key_of(&added->number);
    added->renewal_index = SIZE_MAX;
    added->ttr_s = ttr_s;
    added->until_ms = until_ms;
    added->lease_until_ms = lease_until_ms;
    added->lease_bytes = (uint8_t)lease.len;
    memcpy(added->lease, lease.at, lease.len);
    beanstalk_reservation_table_add(&held->table, added);
    (void)beanstalk_reservation_ends_add(&held->ends, added);
    renewal_place(held, added);
    return true;
}

uint64_t beanstalk_reservations_expire(struct beanstalk_reservations *held, int64_t now_ms)
{
    uint64_t count = 0;
    for (; held->ends.count && held->ends.at[0]->until_ms <= now_ms; count++)
        beanstalk_reservations_remove(held, held->ends.at[0]);
    return count;
}

int64_t beanstalk_reservations_end_ms(const struct beanstalk_reservations *held)
{
    return held->ends.count ? held->ends.at[0]->until_ms : INT64_MAX;
}

void beanstalk_reservations_touch(struct beanstalk_reservations *held,
                                  struct beanstalk_reservation *reservation, int64_t now_ms,
                                  int64_t lease_until_ms)
{
    reservation->until_ms = now_ms + (int64_t)reservation->ttr_s * 1000;
    beanstalk_reservation_ends_changed(&held->ends, reservation->end_index);
    beanstalk_reservations_renewed(held, reservation, lease_until_ms);
}

int64_t beanstalk_reservations_renewal_ms(const struct beanstalk_reservations *held)
{
    return held->renewals.count ? held->renewals.at[0]->lease_until_ms - RENEW_MS : INT64_MAX;
}

struct beanstalk_reservation *beanstalk_reservations_renewal(
    const struct beanstalk_reservations *held)
{
    return held->renewals.count ? held->renewals.at[0] : NULL;
}

void beanstalk_reservations_renewed(struct beanstalk_reservations *held,
                                    struct beanstalk_reservation *reservation,
                                    int64_t lease_until_ms)
{
    reservation->lease_until_ms = lease_until_ms;
    renewal_place(held, reservation);
}
