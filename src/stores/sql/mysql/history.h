/*
 * history: the history of attempts and jobs, for topics that keep it. The rules record events, which
 * are written with the rows.
 */
#ifndef TARRY_SQL_MYSQL_HISTORY_H
#define TARRY_SQL_MYSQL_HISTORY_H

#include "base/slice.h"
#include "base/vector.h"
#include "job/job.h"

struct mysql_link;

struct mysql_row;

struct mysql_event { /* An entry of the history. */
    const struct mysql_row *row;
    const char *event;
    uint32_t attempt;
    int64_t started_ms;
    char consumer[JOB_CONSUMER_BYTES_MAX];
    size_t consumer_bytes;
    struct slice error; /* owned by the caller */
};
VECTOR_DECLARE(mysql_events, struct mysql_event)

struct mysql_history {
    struct mysql_events events; /* of the transaction */
    bool wants_days;            /* another day may be needed */
    unsigned upkeeps;           /* count on this connection */
};

/* Records an event of a job in the history. Must be called before the job changes. The text `event`
 * is not copied. */
void mysql_history_note(struct mysql_link *link, const struct mysql_row *row, const char *event,
                        struct slice consumer, struct slice error);
void mysql_append_history(struct mysql_link *link); /* appends all recorded events */
/* Appends, after the commit, the maintenance of days: creates coming ones and drops expired ones. */
void mysql_append_history_days(struct mysql_link *link);

#endif
