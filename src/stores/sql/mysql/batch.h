/*
 * batch: the batches of jobs (queue/life.h) in a transaction, and what its calls do to their members. The stages of settle.h read and
 * write them.
 */
#ifndef TARRY_SQL_MYSQL_BATCH_H
#define TARRY_SQL_MYSQL_BATCH_H

#include "base/vector.h"
#include "queue/life.h"

struct mysql_link;
struct mysql_row;

/* The due of a job that waits for its members: later than any other. */
#define MYSQL_WAIT_DUE INT64_C(140737488355328)

struct mysql_batch { /* A batch, as of this transaction. */
    int64_t number;
    uint32_t topic; /* of its waiting job */
    char id[JOB_ID_BYTES_MAX];
    size_t id_bytes;
    struct life_batch rules;
    int64_t wait_ms, close_ms, wait_until_ms, close_by_ms;
    int32_t changes[BATCH_OUTCOMES]; /* of the counts, by this transaction */
    bool is_known;                   /* it was read, or is new */
    bool is_new;                     /* this transaction has pushed its waiting job */
    bool is_counted;                 /* must be locked: */
    bool is_locked;
    bool closes, ends, stops, runs; /* by a call, or by a mark in tarry.batch_add */
    bool has_gate;                  /* no other transaction is pushing a member */
    bool wants_gate, wants_members, has_more_members;
    bool has_job; /* its waiting job exists */
    bool is_gone;
    bool has_added;       /* tarry.batch_add had rows of it */
    int64_t members_left; /* members to cancel that were not locked */
    bool is_to_close;     /* it closes once no other transaction is pushing a member */
    bool is_left;         /* something is left to do, since other transactions hold its rows */
};
VECTOR_DECLARE(mysql_batch_list, struct mysql_batch *)

struct mysql_batch_name { /* A batch that pushes of the transaction name. */
    struct slice topic, id;
    int64_t number; /* 0: no such job waits for members */
};
VECTOR_DECLARE(mysql_batch_names, struct mysql_batch_name)
VECTOR_DECLARE(mysql_batch_rows, struct mysql_row *)
VECTOR_DECLARE(mysql_batch_adds, uint64_t)

struct mysql_batches { /* Of a transaction; the last four are of the connection. */
    struct mysql_batch_list list;
    struct mysql_batch_names names;
    struct mysql_batch_rows stopped; /* members to cancel */
    struct mysql_batch_adds added;   /* rows of tarry.batch_add that were read */
    bool has_own;                    /* a row has a batch of its own */
    bool must_fold;                  /* tarry.batch_add may have rows */
    int64_t count, counted_us;       /* batches, as of a time of the boot clock */
    int64_t made;                    /* since */
};

/* ---- of the rules ---- */

/* Finds or creates a batch of the transaction. Out of memory returns NULL and fails the transaction. */
struct mysql_batch *mysql_batch_find(const struct mysql_link *link, int64_t number);
struct mysql_batch *mysql_batch_of(struct mysql_link *link, int64_t number);
/* Returns the batch with the changes of this transaction. */
struct life_batch mysql_batch_now(const struct mysql_batch *batch);
void mysql_batches_begin(struct mysql_link *link);
void mysql_batches_free(struct mysql_link *link);

/* Returns whether the job waits for members. */
bool mysql_row_waits(const struct mysql_row *row);
/* Returns the due as it is shown; 0: it waits for members. */
int64_t mysql_row_shown_due(const struct mysql_row *row);

/* The batches of a push that passes all other checks. */
struct mysql_batch_push {
    struct mysql_batch *joins; /* NULL: it is not a new member */
    bool waits;
};
/* Returns whether the push may be stored. `row`: the job in its place, if any. `is_next`: as a successor. `parent`: the batch of the
 * member whose lease it has, or 0. */
enum queue_status mysql_batch_admit(struct mysql_link *link, const struct queue_push *push,
                                    const struct mysql_row *row, bool is_next, int64_t parent,
                                    struct mysql_batch_push *out, struct queue_result *result);
/* Returns whether the push names another batch than that of the job. */
bool mysql_batch_is_other(const struct mysql_link *link, const struct queue_batch *batch,
                          const struct mysql_row *row);
/* Returns the number of the batch that a push names; 0: no such job waits for members. */
int64_t mysql_batch_named(const struct mysql_link *link, const struct queue_batch *batch);
/* Stores the batches of a push in its row, which is filled. `was`: the state of the job in its place, or 0. */
void mysql_batch_pushed(struct mysql_link *link, struct mysql_row *row,
                        const struct queue_push *push, const struct mysql_batch_push *batches,
                        enum job_state was);
/* Counts a change of the outcome of a member. Does nothing for other jobs. */
void mysql_member_moves(struct mysql_link *link, const struct mysql_row *row,
                        enum batch_outcome before, enum batch_outcome after);
/* Counts the end of a job, which also ends its own batch. */
void mysql_batch_job_ends(struct mysql_link *link, struct mysql_row *row, enum batch_outcome after);
/* Ends the own batch of a job that is not the waiting job any longer. */
void mysql_batch_drop_own(struct mysql_link *link, struct mysql_row *row);
/* Counts a dead member that is tried again. After a stop it is an ordinary job. */
void mysql_member_revives(struct mysql_link *link, struct mysql_row *row);
/* Returns the own batch of a job, to mark what happens to it; NULL if out of memory. */
struct mysql_batch *mysql_batch_own(struct mysql_link *link, const struct mysql_row *row);

bool mysql_batch_is_closed(const struct mysql_batch *batch);
/* Appends a query for all batches with rows in tarry.batch_add. */
void mysql_append_batches_added(struct mysql_link *link);

#endif
