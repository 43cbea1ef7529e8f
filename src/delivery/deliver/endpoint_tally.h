/*
 * endpoint_tally: the state of an endpoint and its counters of results, for metrics and the API.
 *
 * It outlives its endpoint, which is closed when idle, so that its counters never decrease. At most
 * ENDPOINT_TALLIES_MAX are kept. After that, the one without an endpoint for the longest time is
 * removed, and its sums are added to those of the removed ones.
 *
 * The reactor's thread changes it. Any thread may read it, under the lock. Numbers are atomic
 * counters, so counting a message needs no lock.
 */
#ifndef TARRY_DELIVER_ENDPOINT_TALLY_H
#define TARRY_DELIVER_ENDPOINT_TALLY_H

#include "base/buckets.h"
#include "base/list.h"
#include "base/table.h"
#include "deliver/breaker.h"
#include "targets/target.h"

#include <pthread.h>

enum { ENDPOINT_TALLIES_MAX = 2048 };

enum endpoint_state {
    ENDPOINT_CLOSED = 1, /* breaker closed: everything passes */
    ENDPOINT_OPEN,       /* breaker open */
    ENDPOINT_HALF_OPEN   /* a probe is in flight */
};

struct endpoint_sums {
    _Atomic uint64_t outcomes[TARGET_UNSENT + 1];
    /* time from passing on a message to its report; bounds: endpoint_took_bounds */
    struct buckets took_us;
};
extern const struct bucket_bounds endpoint_took_bounds;

struct endpoint_tally {
    struct table_entry entry; /* by name */
    struct list idle;         /* in endpoint_tallies.idle while it has no endpoint */
    char *name;
    const char *kind; /* the plain scheme: "http", "amqp" */
    struct endpoint_sums sums;
    _Atomic uint64_t in_flight;
    _Atomic uint64_t state, since_ms; /* enum endpoint_state; inner clock */
    _Atomic uint64_t wait_until_ms; /* nothing is sent before this time; inner clock; 0: no wait */
    /* Protected by the lock: error of the last unsuccessful message, or empty. */
    char error[TARGET_ERROR_BYTES];
    int64_t error_at_ms; /* inner clock */
};

TABLE_DECLARE(endpoint_tally_table, struct endpoint_tally, entry)

struct endpoint_tallies {
    struct endpoint_tally_table table;
    struct list idle; /* without an endpoint, the longest first */
    struct endpoint_sums gone;
    pthread_mutex_t lock;
};

void endpoint_tallies_init(struct endpoint_tallies *tallies);
void endpoint_tallies_fini(struct endpoint_tallies *tallies);

/* Returns the tally of an endpoint that is being opened; reuses its previous one if it was kept.
 * Returns NULL when out of memory. */
struct endpoint_tally *endpoint_tally_open(struct endpoint_tallies *tallies, struct slice name,
                                           const char *kind, int64_t now_ms);
/* Records that its endpoint is closed. */
void endpoint_tally_close(struct endpoint_tallies *tallies, struct endpoint_tally *tally,
                          int64_t now_ms);
void endpoint_tally_report(struct endpoint_tallies *tallies, struct endpoint_tally *tally,
                           const struct target_report *report, int64_t took_us, int64_t now_ms);
/* Updates the tally to the state of its endpoint. */
void endpoint_tally_show(struct endpoint_tally *tally, const struct breaker *breaker,
                         uint32_t in_flight, int64_t now_ms);

#endif
