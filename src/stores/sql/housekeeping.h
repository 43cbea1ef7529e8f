/*
 * housekeeping: operations that a server performs in the database without a request. It ends leases
 * and ttls, checks watched topics, polls for events of other servers if necessary, sends a
 * heartbeat once a second, adopts the jobs of servers that have failed, and signs off.
 *
 * Each operation is a call of its own kind. It enters the call queue when it is due, at most one of
 * each kind at a time. Its result is passed back with its transaction.
 *
 * Used on the reactor's thread.
 */
#ifndef TARRY_SQL_HOUSEKEEPING_H
#define TARRY_SQL_HOUSEKEEPING_H

#include "sql/call_queue.h"
#include "sql/dialect.h"
#include "sql/hints.h"

struct sql_housekeeping {
    const struct sql_dialect *dialect;
    struct sql_hints *hints;
    struct sql_call_queue *calls;
    bool end_under_way, look_under_way, poll_under_way, expire_under_way, upkeep_under_way;
    bool clock_under_way, upkeep_failed, await_under_way, peek_under_way;
    bool adopt_wanted, adopt_under_way, adopt_failed;
    bool goodbye_sent, has_left; /* has_left: the database has recorded it, or never will */
    int64_t upkeep_ms;           /* inner clock: time of the next upkeep */
    bool look_all_wanted;        /* a check without a bound is due, from look_all_ms on */
    int64_t mark;                /* mark of the last upkeep */
    int64_t look_all_ms;         /* elapsed: earliest time for a check without a bound */
    int64_t look_ms;             /* elapsed: next check for pushes without a notification */
    int64_t poll_ms;             /* elapsed: next poll for events of other servers */
    int64_t peek_ms;             /* elapsed: next check for awaited jobs that have ended */
    int64_t
        await_all_ms;  /* elapsed: next look at all awaited jobs, whose ends may have been missed */
    int64_t by_sql_ms; /* elapsed: pushes by SQL are expected until then */
};

/* Initializes the housekeeping. All three arguments must outlive it. */
void sql_housekeeping_init(struct sql_housekeeping *keeping, const struct sql_dialect *dialect,
                           struct sql_hints *hints, struct sql_call_queue *calls);

/* Schedules upkeep, adoption and the end of ttls for a new connection. */
void sql_housekeeping_connected(struct sql_housekeeping *keeping);
/* Adds the operations that are due to the call queue. `is_notification`: the next upkeep must record that a
 * consumer listens here. */
void sql_housekeeping_run(struct sql_housekeeping *keeping, bool is_notification);
/* Records once in the database that this server stops. Replaces all other operations. */
void sql_housekeeping_leave(struct sql_housekeeping *keeping);
/* Returns when the next operation is due, by the inner clock. */
int64_t sql_housekeeping_next_us(const struct sql_housekeeping *keeping);
/* Returns true if nothing is due. For tests that move the clock. */
bool sql_housekeeping_is_quiet(const struct sql_housekeeping *keeping);

/* Applies the results of a committed transaction, which began at `begun_ms` of elapsed time, to the
 * hints. */
void sql_housekeeping_committed(struct sql_housekeeping *keeping, const struct list *calls,
                                int64_t begun_ms);
/* Notes that a call was given up. */
void sql_housekeeping_failed(struct sql_housekeeping *keeping, const struct sql_call *call);

#endif
