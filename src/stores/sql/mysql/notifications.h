/*
 * notifications: what servers report to each other: counts and notifications about topics, which are
 * written with the commit, and messages with events.
 */
#ifndef TARRY_SQL_MYSQL_NOTIFICATIONS_H
#define TARRY_SQL_MYSQL_NOTIFICATIONS_H

#include "base/vector.h"
#include "sql/dialect.h"
#include "sql/mysql/libmariadb.h"

struct mysql_link;

VECTOR_DECLARE(mysql_sequence_list, uint64_t)

struct mysql_peer { /* A server whose messages are read. */
    int64_t server;
    uint64_t n, number; /* of the last message read */
    int64_t read_us;    /* boot clock: time of that read */
};
VECTOR_DECLARE(mysql_peers, struct mysql_peer)

struct mysql_inbox { /* Read, but not yet delivered. */
    struct sql_notification_list notifications;
    size_t notified_at;
    struct mysql_sequence_list received; /* numbers read in the last seconds, as a ring buffer */
    size_t received_next;
    MYSQL_RES *messages; /* NULL: no result */
    struct mysql_peers peers;
    int64_t listens_since_ms; /* 0: no local listener */
};

struct mysql_outbox {  /* Messages that this server writes. */
    uint64_t number;   /* of the last one, as of the last commit */
    uint64_t written;  /* in the current transaction */
    int64_t second_us; /* boot clock: start of the second that `second_bytes` counts */
    size_t second_bytes;
};

/* Appends the changed counts of topics. */
void mysql_append_tallies(struct mysql_link *link);
/* Appends notifications about the transaction. */
void mysql_append_notifications(struct mysql_link *link);
/* Appends a query for notifications of other servers. */
void mysql_append_poll(struct mysql_link *link);
/* Appends messages with the events of the transaction. */
void mysql_append_messages(struct mysql_link *link);
/* Appends a query for messages that servers wrote since the last one. */
void mysql_append_messages_since(struct mysql_link *link);
/* Returns false if there are no more messages. */
bool mysql_next_message(struct mysql_link *link, struct sql_notification *out);
/* Starts or stops reading messages. */
void mysql_messages_listen(struct mysql_link *link, bool listens);
void mysql_messages_free(struct mysql_link *link);

#endif
