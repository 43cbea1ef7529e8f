/*
 * audience: who listens to what happens: at this server, through its feed, and at others on the
 * database. While nobody does nothing is told.
 *
 * That somebody listens here the others know from the database, which is told with each second's
 * upkeep, and so long it believes it (SQL_AUDIENCE_MS). What is told goes to the feed here, and as a
 * message of lines (sql/event.h) behind a line "AT LOST" to the others.
 *
 * The reactor's thread.
 */
#ifndef TARRY_SQL_AUDIENCE_H
#define TARRY_SQL_AUDIENCE_H

#include "base/buffer.h"
#include "feed/feed.h"

enum { SQL_AUDIENCE_MS = 3000 };

struct sql_audience {
    struct feed_desk *desk; /* NULL: nobody listens here, ever */
    struct feed_watch watch;
    bool looks;              /* the database tells nothing: events of others are looked for */
    uint32_t kinds;          /* that somebody here wants */
    bool is_known;           /* the database knows that somebody listens here */
    bool was_cut;            /* and with what is missing since nobody who listens here was told */
    bool is_alone;           /* no other server lives */
    int64_t others_until_ms; /* elapsed time: so long somebody listens elsewhere */
    struct buffer error;     /* of the event that is being told */
};

void sql_audience_init(struct sql_audience *audience, struct feed_desk *desk, bool looks);
void sql_audience_fini(struct sql_audience *audience);

/* In each turn of the loop. True: the database is to be told, soon. */
bool sql_audience_look(struct sql_audience *audience);
/* It was told that somebody listens here, or nobody; so many other servers live, and somebody listens
 * at one of them, or nobody. */
void sql_audience_known(struct sql_audience *audience, bool is_here, int64_t others,
                        bool is_elsewhere);
/* Another server has just begun to. */
void sql_audience_elsewhere(struct sql_audience *audience);
/* Somebody listens here, the database knows, and what others do is to be looked for. */
bool sql_audience_is_looking(const struct sql_audience *audience);
/* Events go by way of the database: to others, or so that they come here in the order of all. */
bool sql_audience_is_by_database(const struct sql_audience *audience);
/* Is anything to be told at all? */
bool sql_audience_is_there(const struct sql_audience *audience);

/* Lines of what this server did, or the database for a user; `lost` more are not among them. */
void sql_audience_tell(struct sql_audience *audience, struct slice lines, int64_t at_ms,
                       uint64_t lost);
/* A message of another server. */
void sql_audience_hear(struct sql_audience *audience, struct slice message);
/* Messages were missed: nobody knows of how many events. */
void sql_audience_miss(struct sql_audience *audience);
/* Messages may be missed from now on, and the database has forgotten who listens: once it knows again the gap
 * is told, so that nothing is lost behind it. */
void sql_audience_cut(struct sql_audience *audience);

#endif
