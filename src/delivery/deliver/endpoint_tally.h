/*
 * endpoint_tally: how an endpoint stands and what became of what was sent to it, for whoever looks.
 *
 * It outlives its endpoint, which is closed where it is idle, so that what it counts never falls. At
 * most ENDPOINT_TALLIES_MAX are kept: then the one that was without its endpoint for longest goes,
 * and its sums are added to those that are gone.
 *
 * The reactor's thread changes it. Any thread may look, under the lock; numbers are counters, so
 * that what is counted for each message takes no lock.
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
    ENDPOINT_CLOSED = 1, /* its breaker is: everything passes */
    ENDPOINT_OPEN,       /* it rests */
    ENDPOINT_HALF_OPEN   /* a probe is under way */
};

struct endpoint_sums {
    _Atomic uint64_t outcomes[TARGET_UNSENT + 1];
    struct buckets took_us; /* from handing a message over to its report; endpoint_took_bounds */
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
    _Atomic uint64_t wait_until_ms;   /* nothing is sent before; inner clock; 0: no wait */
    /* Under the lock: of the last message that was not done; empty: there was none. */
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

/* Of an endpoint that is being opened; the one it had before, where that is kept. NULL: out of
 * memory. */
struct endpoint_tally *endpoint_tally_open(struct endpoint_tallies *tallies, struct slice name,
                                           const char *kind, int64_t now_ms);
/* Its endpoint is closed. */
void endpoint_tally_close(struct endpoint_tallies *tallies, struct endpoint_tally *tally,
                          int64_t now_ms);
void endpoint_tally_report(struct endpoint_tallies *tallies, struct endpoint_tally *tally,
                           const struct target_report *report, int64_t took_us, int64_t now_ms);
/* As its endpoint stands now. */
void endpoint_tally_show(struct endpoint_tally *tally, const struct breaker *breaker,
                         uint32_t in_flight, int64_t now_ms);

#endif
