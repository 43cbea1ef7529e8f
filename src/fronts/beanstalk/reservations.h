/*
 * reservations: the jobs that a client holds, and the commands that reserve them and answer for
 * them.
 *
 * reserve takes jobs from the watched tubes, waits for them and holds them for their TTR. A waiting
 * client receives DEADLINE_SOON in the last second of a TTR. Leases that are shorter than the TTR
 * are renewed.
 *
 * A reservation ends at `until_ms`, one TTR after it was made or touched. The queue's lease behind
 * it may end earlier, since a TTR may be longer than the longest lease. Such a lease must be
 * renewed in time. A zeroed list is a valid empty list. Each call takes logarithmic time in the
 * number of reservations. The calls of the list are pure: the caller passes the time, by the inner
 * clock.
 */
#ifndef TARRY_BEANSTALK_RESERVATIONS_H
#define TARRY_BEANSTALK_RESERVATIONS_H

#include "base/heap.h"
#include "base/table.h"
#include "job/policy.h"

struct beanstalk_reservation {
    struct table_entry entry;
    uint64_t number;
    size_t end_index, renewal_index; /* SIZE_MAX in renewal_index: needs no renewal */
    int64_t until_ms, lease_until_ms;
    uint32_t ttr_s;
    uint8_t lease_bytes, topic_bytes;
    char text[]; /* the lease, then the topic: another topic may have a job with this number */
};

static inline bool beanstalk_reservation_ends_before(struct beanstalk_reservation *const *a,
                                                     struct beanstalk_reservation *const *b)
{
    return (*a)->until_ms < (*b)->until_ms;
}

static inline void beanstalk_reservation_end_placed(struct beanstalk_reservation **at, size_t index)
{
    (*at)->end_index = index;
}

static inline bool beanstalk_reservation_renews_before(struct beanstalk_reservation *const *a,
                                                       struct beanstalk_reservation *const *b)
{
    return (*a)->lease_until_ms < (*b)->lease_until_ms;
}

static inline void beanstalk_reservation_renewal_placed(struct beanstalk_reservation **at,
                                                        size_t index)
{
    (*at)->renewal_index = index;
}

TABLE_DECLARE(beanstalk_reservation_table, struct beanstalk_reservation, entry)
HEAP_DECLARE(beanstalk_reservation_ends, struct beanstalk_reservation *,
             beanstalk_reservation_ends_before, beanstalk_reservation_end_placed)
HEAP_DECLARE(beanstalk_reservation_renewals, struct beanstalk_reservation *,
             beanstalk_reservation_renews_before, beanstalk_reservation_renewal_placed)

struct beanstalk_reservations {
    struct beanstalk_reservation_table table;
    struct beanstalk_reservation_ends ends;
    struct beanstalk_reservation_renewals renewals;
};

void beanstalk_reservations_fini(struct beanstalk_reservations *held);

/* Adds a reservation and replaces an earlier one with the same number. Returns false if out of
 * memory; the earlier one is then kept. */
bool beanstalk_reservations_add(struct beanstalk_reservations *held, uint64_t number,
                                struct slice lease, struct slice topic, uint32_t ttr_s,
                                int64_t until_ms, int64_t lease_until_ms);
/* Returns NULL if the client does not hold the job. */
struct beanstalk_reservation *beanstalk_reservations_find(const struct beanstalk_reservations *held,
                                                          uint64_t number);
void beanstalk_reservations_remove(struct beanstalk_reservations *held,
                                   struct beanstalk_reservation *reservation);
/* Removes reservations that have ended. Returns their count. */
uint64_t beanstalk_reservations_expire(struct beanstalk_reservations *held, int64_t now_ms);
/* Returns when the next reservation ends, or INT64_MAX if the list is empty. */
int64_t beanstalk_reservations_end_ms(const struct beanstalk_reservations *held);

/* Restarts the TTR of a reservation and records the new end of its lease. */
void beanstalk_reservations_touch(struct beanstalk_reservations *held,
                                  struct beanstalk_reservation *reservation, int64_t now_ms,
                                  int64_t lease_until_ms);

/* Returns when the next lease must be renewed, and its reservation. Returns INT64_MAX and NULL if
 * no lease needs a renewal. */
int64_t beanstalk_reservations_renewal_ms(const struct beanstalk_reservations *held);
struct beanstalk_reservation *beanstalk_reservations_renewal(
    const struct beanstalk_reservations *held);
/* Records that the lease was renewed until `lease_until_ms`. */
void beanstalk_reservations_renewed(struct beanstalk_reservations *held,
                                    struct beanstalk_reservation *reservation,
                                    int64_t lease_until_ms);

/* Returns the length of the queue's lease for a TTR. */
static inline int64_t beanstalk_lease_ms(uint32_t ttr_s)
{
    int64_t ttr_ms = (int64_t)ttr_s * 1000;
    return ttr_ms < POLICY_LEASE_MS_MAX ? ttr_ms : POLICY_LEASE_MS_MAX;
}

static inline struct slice beanstalk_reservation_lease(const struct beanstalk_reservation *at)
{
    return slice_make(at->text, at->lease_bytes);
}

static inline struct slice beanstalk_reservation_topic(const struct beanstalk_reservation *at)
{
    return slice_make(at->text + at->lease_bytes, at->topic_bytes);
}

#endif
