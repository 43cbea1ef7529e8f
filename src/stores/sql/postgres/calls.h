/*
 * calls: the calls of a turn as statements of PostgreSQL.
 */
#ifndef TARRY_SQL_POSTGRES_CALLS_H
#define TARRY_SQL_POSTGRES_CALLS_H

#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/postgres/batch.h"

enum {
    POSTGRES_STEP_JOBS = 1000,    /* of a purge or redrive, in one turn */
    POSTGRES_GROUPS_COMPARED = 8, /* the last ones: most pushes are like one of those */
    POSTGRES_OLD_IDS = 16         /* batches of pushes after one that named a job that was there */
};

struct postgres_step {     /* one statement of a turn */
    struct sql_call *call; /* NULL: it is none of a call's, or a batch */
    enum sql_statement statement;
    size_t first, count; /* of a batch: its items in `sent` */
};
VECTOR_DECLARE(postgres_steps, struct postgres_step)

struct postgres_result { /* as long as a call has texts in it */
    PGresult *rows;
    size_t holders;
};

struct postgres_link {
    struct sql_link link; /* first: the handle is the struct */
    PGconn *connection;   /* non-blocking, in pipeline mode, all statements prepared */
    int64_t number;       /* of the connection: a ticket is taken by the last one only */
    PGconn *flusher;      /* of flusher.h; NULL: there is none */
    struct sql_context *context;
    struct postgres_steps steps;
    size_t step; /* which statement is being answered */
    bool is_in_flight, wants_write;
    struct sql_turn turn; /* the last one; is_whole: it is in flight, and commits by itself */
    PGnotify *message;    /* the last news, whose text is in use; NULL: none */
    struct sql_batch pushes, changes, answers,
        acks; /* open, while the turn's statements are sent */
    const struct queue_push *groups[POSTGRES_GROUPS_COMPARED]; /* one of each, of `pushes` */
    int old_ids;                /* so many more batches of pushes look for such jobs first */
    struct sql_batch_keys keys; /* of what is in them */
    struct sql_items sent;      /* in batches of this turn */
};

void postgres_batches_init(struct postgres_link *link);
void postgres_batches_fini(struct postgres_link *link);

/* The statements of a turn's calls, into the pipeline and `steps`: items in batches, then what only
 * reads or takes; a call about topics comes after all before it. False: out of memory, or the
 * connection is gone. */
bool postgres_calls_send(struct list *calls, struct postgres_link *link);
/* Pushes alone, as one statement that commits by itself under the ticket. False: that cannot be, and nothing
 * is sent. */
bool postgres_pushes_send(struct list *calls, struct postgres_link *link, int64_t ticket);
#endif
