/*
 * transaction: the turn of a session that is under way. It takes calls from the call queue, carries them
 * through, and gives them back there: to be answered, to go again, or refused.
 *
 * One at a time goes on a connection, in two flights, of which this sends each once the one before it
 * is answered:
 *
 *     IDLE -> CALLS -> COMMIT -> IDLE      committed
 *     CALLS, COMMIT -> ROLLBACK -> IDLE    rolled back, as `fault` says
 *     CALLS -> IDLE                        committed: a single turn, or one of new jobs alone, has
 *                                          no second flight
 *     any -> DOWN                          the connection is lost
 *
 * Each turn that changes anything sets the ticket to the next number. So where a connection is lost
 * with a commit under way, the next connection tells by the number it finds what became of that; until
 * then the calls stay here. Calls whose commit did not wait for the disk stay with the flush.
 *
 * The reactor's thread.
 */
#ifndef TARRY_SQL_TRANSACTION_H
#define TARRY_SQL_TRANSACTION_H

#include "sql/call_queue.h"
#include "sql/connection.h"
#include "sql/housekeeping.h"

enum sql_phase {
    SQL_PHASE_DOWN = 1, /* no connection */
    SQL_PHASE_IDLE,
    SQL_PHASE_CALLS,  /* the first part */
    SQL_PHASE_COMMIT, /* the second */
    SQL_PHASE_ROLLBACK
};

struct sql_transaction_figures {
    uint64_t turns, repeated, settled, flushed;
    bool is_full; /* the last turn had no room on the database's disk */
};

struct sql_transaction {
    struct sql_connection *connection;
    struct sql_flush *flush; /* the connection's */
    struct sql_context *context;
    struct sql_housekeeping *housekeeping;
    struct sql_call_queue *queue;
    enum sql_phase phase;
    struct list calls;
    int64_t ticket;   /* the last number that was committed */
    bool has_ticket;  /* it takes the next one */
    bool is_durable;  /* it has what must be */
    bool is_flushed;  /* that is made so after its commit */
    bool is_single;   /* the first part is all of it */
    bool is_whole;    /* it is committed with the first part if all of its pushes create a job */
    bool is_retry;    /* of a call that found its rows locked: it waits for a moment only */
    bool commit_sent; /* and what became of it is not known */
    int64_t begun_ms; /* elapsed */
    int64_t part_begun_ms;
    int64_t commit_begun_us;
    struct sql_fault fault; /* the first one */
    struct sql_transaction_figures figures;
};

/* Both are the caller's, and outlive it. */
void sql_transaction_init(struct sql_transaction *turn, struct sql_connection *connection,
                          struct sql_housekeeping *housekeeping);

/* From IDLE, where there are calls that may go. */
void sql_transaction_begin(struct sql_transaction *turn);
/* The answers of the part under way are there: the next one begins, or the turn ends. */
void sql_transaction_part_over(struct sql_transaction *turn);
/* Answers what the disk has by now, where a flush is over. */
void sql_transaction_flush_over(struct sql_transaction *turn);
/* A take comes: is it one that waits while a slow disk is waited for? */
void sql_transaction_note_take(struct sql_transaction *turn);
/* Gives up a connection on which nothing was answered for too long. */
void sql_transaction_check_silence(struct sql_transaction *turn);

/* The connection is lost, and closed. */
void sql_transaction_down(struct sql_transaction *turn);
/* Are there commits of which only a flush makes certain that they are on the disk? */
bool sql_transaction_needs_flush(const struct sql_transaction *turn);
/* A new connection found this ticket, set at that moment: what became of all commits that are not answered
 * yet. */
void sql_transaction_settle(struct sql_transaction *turn, int64_t ticket, int64_t ticket_ms);

#endif
