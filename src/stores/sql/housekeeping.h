/*
 * housekeeping: what a server has the database do by itself, nobody having asked: it ends leases and
 * ttls, looks at topics that are watched, hears other servers' events where those are looked for, says
 * once a second that it lives, takes over from servers that do not, and says goodbye.
 *
 * Each is a call of its own kind in the call queue, put there once it is due, one of a kind at a time.
 * What became of it comes back with its turn.
 *
 * The reactor's thread.
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
    bool end_under_way, look_under_way, hear_under_way, expire_under_way, upkeep_under_way;
    bool upkeep_failed;
    bool adopt_wanted;
    bool goodbye_sent, has_left; /* and the database knows, or never will */
    int64_t upkeep_ms;           /* inner clock: the next upkeep */
    int64_t mark;        /* of the last upkeep, after which all watched topics were looked at */
    int64_t look_all_ms; /* elapsed: no look without a bound before */
    int64_t look_ms;     /* elapsed: the next look for what is not told */
    int64_t hear_ms;     /* elapsed: the next one for events of others */
    int64_t by_sql_ms;   /* elapsed: until then pushes by SQL are expected */
};

/* The three are the caller's, and outlive it. */
void sql_housekeeping_init(struct sql_housekeeping *keeping, const struct sql_dialect *dialect,
                           struct sql_hints *hints, struct sql_call_queue *calls);

/* There is a connection: upkeep, adoption and the ends of ttls are due. */
void sql_housekeeping_connected(struct sql_housekeeping *keeping);
/* Puts what is due by now among the calls. `is_news`: the next upkeep is to tell that somebody listens
 * here. */
void sql_housekeeping_run(struct sql_housekeeping *keeping, bool is_news);
/* In place of all that: the database is told, once, that this server goes. */
void sql_housekeeping_leave(struct sql_housekeeping *keeping);
/* When something is due next, by the inner clock. */
int64_t sql_housekeeping_next_us(const struct sql_housekeeping *keeping);
/* Nothing is due: for tests that move the clock. */
bool sql_housekeeping_is_quiet(const struct sql_housekeeping *keeping);

/* A turn with these calls was committed, begun at that moment of elapsed time: hints are believed. */
void sql_housekeeping_committed(struct sql_housekeeping *keeping, const struct list *calls,
                                int64_t begun_ms);
/* A call was given up. */
void sql_housekeeping_failed(struct sql_housekeeping *keeping, const struct sql_call *call);

#endif
