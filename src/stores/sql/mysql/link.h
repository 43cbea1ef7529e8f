/*
 * link: a connection to MariaDB or MySQL, and the transaction that it executes.
 */
#ifndef TARRY_SQL_MYSQL_LINK_H
#define TARRY_SQL_MYSQL_LINK_H

#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/mysql/batch.h"
#include "sql/mysql/flow.h"
#include "sql/mysql/history.h"
#include "sql/mysql/kept.h"
#include "sql/mysql/notifications.h"
#include "sql/mysql/prepared.h"
#include "sql/mysql/rows.h"
#include "sql/mysql/settle.h"
#include "sql/mysql/takes.h"
#include "sql/mysql/topics.h"
#include "sql/mysql/transaction.h"
#include "sql/mysql/wire.h"

struct mysql_link {
    struct sql_link link; /* first, so that the handle can be cast to the struct */
    MYSQL *mysql;
    bool is_mariadb;
    size_t packet_bytes_max; /* max_allowed_packet of the database */
    struct sql_context *context;
    bool is_awaited;   /* a client of any server waits for the end of a job */
    int64_t now_ms;    /* the database's time in this transaction */
    bool is_manual;    /* autocommit is off: the first statement begins a transaction */
    bool knows_adjust; /* of the clock, from an earlier transaction: */
    int64_t adjust_ms;
    bool has_asked_transactions, sees_transactions; /* of other sessions, with the health */
    int64_t beat_us;                                /* boot clock: commit of the last heartbeat */
    struct mysql_wire wire;
    struct mysql_prepared prepared;
    struct mysql_transaction transaction;
    struct mysql_topics topics;
    struct mysql_rows rows;
    struct mysql_history history;
    struct mysql_takes takes;
    struct mysql_flow flow;
    struct mysql_batches batches;
    struct mysql_inbox inbox;
    struct mysql_outbox outbox;
};

/* Iterates over the calls of a transaction in their order. */
#define EACH_CALL(LINK, CALL)                                                                      \
    for (struct sql_call *CALL =                                                                   \
             list_entry((LINK)->transaction.plan.calls->next, struct sql_call, list);              \
         &CALL->list != (LINK)->transaction.plan.calls;                                            \
         CALL = list_entry(CALL->list.next, struct sql_call, list))

/* Appends the time of the transaction, which is not known yet during the first flight. */
static inline void mysql_append_now(const struct mysql_link *link, struct buffer *out)
{
    if (link->transaction.part != MYSQL_PART_BEGIN)
        buffer_append_i64(out, link->now_ms);
    else
        buffer_append_text(out, link->transaction.is_quick ? "LAST_INSERT_ID()" : "@tarry_now");
}

/* Returns true if adjacent rows may be named by their first and last row. */
static inline bool mysql_has_runs(const struct mysql_link *link)
{
    return link->is_mariadb && !link->transaction.is_exact;
}

/* Returns true for purge and redrive, which run in steps. */
static inline bool mysql_is_step(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TOPIC &&
           (call->command->topic.verb == QUEUE_TOPIC_PURGE ||
            call->command->topic.verb == QUEUE_TOPIC_REDRIVE);
}

#endif
