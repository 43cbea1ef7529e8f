/*
 * transaction: the transaction of a session that is in progress. It takes calls from the call
 * queue, executes them, and returns them there to be answered, repeated or refused.
 *
 * A connection runs one transaction at a time, in two parts. The second part is sent when the first
 * one has been answered:
 *
 *     IDLE -> CALLS -> COMMIT -> IDLE      committed
 *     CALLS, COMMIT -> ROLLBACK -> IDLE    rolled back, reason in `fault`
 *     CALLS -> IDLE                        committed: a single transaction (dialect.h), or one that
 *                                          consists of new jobs, has no second part
 *     any -> DOWN                          the connection is lost
 *
 * Each transaction that changes anything sets the ticket to the next number. If a connection is
 * lost during a commit, the next connection determines the outcome from the number that it finds.
 * Until then the calls stay here. Calls whose commit did not wait for the disk stay with the flush.
 *
 * Used on the reactor's thread.
 */
#ifndef TARRY_SQL_TRANSACTION_H
#define TARRY_SQL_TRANSACTION_H

#include "base/buckets.h"
#include "sql/call_queue.h"
#include "sql/connection.h"
#include "sql/housekeeping.h"

enum sql_phase {
    SQL_PHASE_DOWN = 1, /* no connection */
    SQL_PHASE_IDLE,
    SQL_PHASE_CALLS,  /* the first part */
    SQL_PHASE_COMMIT, /* the second part */
    SQL_PHASE_ROLLBACK
};

struct sql_transaction_figures {
    uint64_t transactions, repeated, settled, flushed, refused;
    bool is_full;             /* the last transaction found the database's disk full */
    struct buckets commit_us; /* of transactions that change something; bounds: sql_commit_bounds */
};

struct sql_transaction {
    struct sql_connection *connection;
    struct sql_flush *flush; /* of the connection */
    struct sql_context *context;
    struct sql_housekeeping *housekeeping;
    struct sql_call_queue *queue;
    enum sql_phase phase;
    struct list calls;
    int64_t ticket;   /* last committed number */
    bool has_ticket;  /* the transaction uses the next number */
    bool is_change;   /* the transaction has calls that change something */
    bool is_durable;  /* the transaction has calls that must be durable */
    bool is_flushed;  /* a flush makes them durable after the commit */
    bool is_single;   /* the transaction consists of the first part only */
    bool is_whole;    /* committed with the first part if each of its pushes creates a job */
    bool is_retry;    /* retries a call that found its rows locked; waits only briefly for locks */
    bool is_apart;    /* the time of the transaction was wrong */
    bool commit_sent; /* the outcome of the commit is unknown */
    int64_t begun_ms; /* elapsed time */
    int64_t part_begun_ms;
    int64_t sent_us;         /* inner clock: the first part */
    int64_t commit_begun_us; /* boot clock: the part with the commit was sent */
    struct sql_fault fault;  /* the first fault */
    struct sql_transaction_figures figures;
};

/* Initializes the transaction. Both arguments must outlive it. */
void sql_transaction_init(struct sql_transaction *transaction, struct sql_connection *connection,
                          struct sql_housekeeping *housekeeping);

/* Begins a transaction in phase IDLE if there are calls that may go. */
void sql_transaction_begin(struct sql_transaction *transaction);
/* Handles the end of the part in progress: begins the next part or ends the transaction. */
void sql_transaction_part_over(struct sql_transaction *transaction);
/* Answers the calls that are on disk if a flush has ended. */
void sql_transaction_flush_over(struct sql_transaction *transaction);
/* Notes the arrival of a take, which may have to wait for a slow disk. */
void sql_transaction_note_take(struct sql_transaction *transaction);
/* Gives up the connection if nothing was received for too long. */
void sql_transaction_check_silence(struct sql_transaction *transaction);

/* Handles the loss of the connection, which is already closed. */
void sql_transaction_down(struct sql_transaction *transaction);
/* Returns true if there are commits that only a flush can confirm to be on disk. */
bool sql_transaction_needs_flush(const struct sql_transaction *transaction);
/* Determines the outcome of all unanswered commits from the ticket that a new connection found, set
 * at `ticket_ms`. */
void sql_transaction_settle(struct sql_transaction *transaction, int64_t ticket, int64_t ticket_ms);

#endif
