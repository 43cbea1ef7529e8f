/*
 * transaction: a transaction of a server while it is executed, as a table of stages.
 *
 * The rows that calls name are read and locked first. Then the new state of the jobs is determined
 * here, call by call in their order, by the same rules as in the other stores. Then each table is
 * written with few statements for many rows. Takes come last.
 */
#ifndef TARRY_SQL_MYSQL_TRANSACTION_H
#define TARRY_SQL_MYSQL_TRANSACTION_H

#include "sql/dialect.h"

struct mysql_link;

enum mysql_part { /* Bits. The first two are the first part of the dialect's interface. */
                  MYSQL_PART_BEGIN = 1, /* the first pipeline */
                  MYSQL_PART_CALLS = 2,
                  MYSQL_PART_COMMIT = 4,
                  MYSQL_PART_ROLLBACK = 8
};

/* The stages of a transaction, in their order (the table in transaction.c). */
enum mysql_stage {
    MYSQL_STAGE_BEGIN = 1,
    MYSQL_STAGE_POLL,     /* reads notifications of other servers */
    MYSQL_STAGE_MESSAGES, /* reads their events */
    MYSQL_STAGE_BEGUN,    /* evaluates the first pipeline */
    MYSQL_STAGE_TOPICS,
    MYSQL_STAGE_TOPIC_COUNT,
    MYSQL_STAGE_NEW_TOPICS,
    MYSQL_STAGE_GROUPS, /* reads the groups that pushes name */
    MYSQL_STAGE_NEW_GROUPS,
    MYSQL_STAGE_LOCK,        /* locks and reads the rows that calls name */
    MYSQL_STAGE_BATCH_NAMES, /* reads the batches that pushes name */
    MYSQL_STAGE_CALLS,       /* statements of single calls */
    MYSQL_STAGE_BATCH_OWN,   /* reads the batches of the rows */
    MYSQL_STAGE_DECIDE,      /* applies the rules to the rows */
    MYSQL_STAGE_BATCH_LOCK,  /* locks the batches whose members have changed */
    MYSQL_STAGE_BATCH_NEEDS, /* reads what they need */
    MYSQL_STAGE_BATCH_DECIDE,
    MYSQL_STAGE_AWAITED, /* finds the ended jobs that clients wait for */
    MYSQL_STAGE_KEEP,    /* stores finished jobs that are kept */
    MYSQL_STAGE_WRITE,   /* writes the rows */
    MYSQL_STAGE_BATCHES, /* writes the batches */
    MYSQL_STAGE_FLOW,    /* writes what that means for groups */
    MYSQL_STAGE_HISTORY,
    MYSQL_STAGE_FLOW_READ, /* takes from topics with groups and limits */
    MYSQL_STAGE_FLOW_LOCK,
    MYSQL_STAGE_FLOW_FIND, /* repeated until it has chosen */
    MYSQL_STAGE_FLOW_CHOSEN,
    MYSQL_STAGE_TAKE,     /* finds and locks jobs for takes */
    MYSQL_STAGE_DELIVERY, /* reserves numbers for them */
    MYSQL_STAGE_SHARE,    /* distributes them */
    MYSQL_STAGE_BODIES,   /* reads large bodies */
    MYSQL_STAGE_LEASE,    /* leases the jobs */
    MYSQL_STAGE_FLOW_WRITE,
    MYSQL_STAGE_LOOK, /* checks for waiting jobs */
    MYSQL_STAGE_END,  /* statements of single calls, after the rows are written */
    MYSQL_STAGE_COUNTS,
    MYSQL_STAGE_NOTIFY, /* notifications for other servers */
    MYSQL_STAGE_EVENTS, /* messages with events */
    MYSQL_STAGE_COMMIT,
    MYSQL_STAGE_DAYS,   /* maintenance of the history, after the commit */
    MYSQL_STAGE_HEALTH, /* reads what keeps the database from cleaning up */
    MYSQL_STAGE_ROLLBACK,
    MYSQL_STAGES
};

struct mysql_transaction {
    struct sql_plan plan;
    enum mysql_part part;
    uint64_t stages;                      /* bits of those that have run */
    bool has_rows, has_takes, has_pushes; /* among its calls */
    bool is_exact; /* one call that met a lock before: each row is named individually */
    /* the time comes with the ticket, with the adjustment of the clock that is known; otherwise it is
     * read first, into @tarry_now */
    bool is_quick;
};

/* Begins a transaction: appends its first pipeline. Returns false if out of memory. */
bool mysql_transaction_begin(struct mysql_link *link, const struct sql_plan *plan);
/* Appends the next pipeline. Returns false if the part needs no further one. */
bool mysql_transaction_next(struct mysql_link *link);
/* Append the pipeline of the commit or rollback. */
void mysql_transaction_commit(struct mysql_link *link);
void mysql_transaction_rollback(struct mysql_link *link);
/* Passes the results of a part to its calls. */
void mysql_transaction_part_over(struct mysql_link *link);

#endif
