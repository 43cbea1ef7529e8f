/*
 * audience: the listeners to events: at this server, through its feed, and at other servers of the
 * database. Without listeners no events are sent.
 *
 * Each second's upkeep records in the database that a consumer listens here, so that the other
 * servers know. The record is valid for SQL_AUDIENCE_MS. Events go to the local feed, and to the
 * other servers as a message of lines (sql/effect.h) after a first line "AT LOST".
 *
 * Used on the reactor's thread.
 */
#ifndef TARRY_SQL_AUDIENCE_H
#define TARRY_SQL_AUDIENCE_H

#include "base/buffer.h"
#include "feed/feed.h"

enum { SQL_AUDIENCE_MS = 3000 };

struct sql_audience {
    struct feed_desk *desk; /* NULL: never any listener here */
    struct feed_watch watch;
    bool looks; /* the database does not send notifications: events of other servers are polled */
    uint32_t kinds; /* event kinds that local listeners have requested */
    bool is_known;  /* the database has recorded that a consumer listens here */
    bool was_cut;   /* messages may be missed since, and local listeners were not notified of it */
    bool is_alone;  /* no other server is alive */
    int64_t others_until_ms; /* elapsed time: another server listens until then */
    struct buffer error;     /* error of the current event */
};

void sql_audience_init(struct sql_audience *audience, struct feed_desk *desk, bool looks);
void sql_audience_fini(struct sql_audience *audience);

/* Checks for changes of local listeners in each loop iteration. Returns true if the database must
 * be updated soon. */
bool sql_audience_look(struct sql_audience *audience);
/* Records the result of an upkeep: whether the database has recorded listeners here, the number of
 * other live servers, and whether any of them has listeners. */
void sql_audience_known(struct sql_audience *audience, bool is_here, int64_t others,
                        bool is_elsewhere);
/* Records that another server has just got a listener. */
void sql_audience_elsewhere(struct sql_audience *audience);
/* Returns true if local listeners are recorded in the database and events of others must be
 * polled. */
bool sql_audience_is_looking(const struct sql_audience *audience);
/* Returns true if events must go through the database: to other servers, or to return here in the
 * global order. */
bool sql_audience_is_by_database(const struct sql_audience *audience);
/* Returns true if there is any listener. */
bool sql_audience_is_there(const struct sql_audience *audience);

/* Sends lines about changes made by this server, or by the database for a user, to the feed. `lost`
 * is the number of missing events. `adjust_ms`: the queue's time minus the wall clock. */
void sql_audience_publish(struct sql_audience *audience, struct slice lines, int64_t at_ms,
                          int64_t adjust_ms, uint64_t lost);
/* Handles a message of another server. */
void sql_audience_receive(struct sql_audience *audience, struct slice message, int64_t adjust_ms);
/* Records that messages were missed; the number of events is unknown. */
void sql_audience_miss(struct sql_audience *audience);
/* Notes that messages may be missed from now on and that the database has dropped the record of
 * listeners. The gap is reported when the record is restored, so that no event after the report is
 * lost. */
void sql_audience_cut(struct sql_audience *audience);

#endif
