/*
 * calls: converts the calls of a transaction to PostgreSQL statements.
 */
#ifndef TARRY_SQL_POSTGRES_CALLS_H
#define TARRY_SQL_POSTGRES_CALLS_H

#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/postgres/batch.h"

enum {
    POSTGRES_STEP_JOBS = 1000,    /* per transaction of a purge or redrive */
    POSTGRES_GROUPS_COMPARED = 8, /* recent groups; most pushes match one of these */
    POSTGRES_OLD_IDS = 16         /* batches that check for existing jobs after one was found */
};

struct postgres_step {     /* One statement of a transaction. */
    struct sql_call *call; /* NULL: a batch, or a statement without a call */
    enum postgres_statement statement;
    size_t first, count; /* for a batch: its items in `sent` */
};
VECTOR_DECLARE(postgres_steps, struct postgres_step)

struct postgres_result { /* A result, kept as long as a call has texts in it. */
    PGresult *rows;
    size_t holders;
};

struct postgres_link {
    struct sql_link link; /* first, so that the handle can be cast to the struct */
    PGconn *connection;   /* non-blocking, in pipeline mode, all statements prepared */
    int64_t number;  /* number of the connection; only the latest connection can set a ticket */
    PGconn *flusher; /* see flusher.h; NULL: no flusher */
    struct sql_context *context;
    struct postgres_steps steps;
    size_t step; /* index of the statement that is being answered */
    bool is_in_flight, wants_write;
    /* the last transaction; is_whole: it is in progress and commits by itself */
    struct sql_plan plan;
    PGnotify *message; /* the last notification, whose text is in use, or NULL */
    struct postgres_batch pushes, changes, answers, agains, acks, awaits, leaves, ended,
        batches; /* open while the transaction's statements are sent */
    const struct queue_push
        *groups[POSTGRES_GROUPS_COMPARED]; /* one push of each group in `pushes` */
    int old_ids; /* number of further batches of pushes that check for existing jobs first */
    struct postgres_batch_keys keys; /* keys of the items in the batches */
    struct postgres_items sent;      /* items in sent batches of this transaction */
};

void postgres_batches_init(struct postgres_link *link);
void postgres_batches_fini(struct postgres_link *link);

/* Sends the statements of a transaction's calls into the pipeline and records them in `steps`:
 * items in batches, then calls that only read or take. A call about topics follows all calls before
 * it. Returns false if out of memory or if the connection is lost. */
bool postgres_calls_send(struct list *calls, struct postgres_link *link);
/* Sets how awaited jobs have ended that the transaction acked or cancelled. Its other ends are set
 * by the schema. */
bool postgres_ended_send(struct postgres_link *link, const struct list *calls);
/* Adds up what the transaction did to members of batches, as its last statement before the commit. */
bool postgres_batches_send(struct postgres_link *link);
/* Adds the rows of pushes whose end is awaited, after the ends of the jobs before them. */
bool postgres_registers_send(struct postgres_link *link, const struct list *calls);
/* Sends a transaction that consists of pushes as one statement, which commits by itself under the
 * ticket. Returns false, without sending anything, if that is not possible. */
bool postgres_pushes_send(struct list *calls, struct postgres_link *link, int64_t ticket);
#endif
