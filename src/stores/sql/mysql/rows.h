/*
 * rows: the jobs of a transaction. Jobs that calls name are locked and read by id or location, and
 * written together.
 */
#ifndef TARRY_SQL_MYSQL_ROWS_H
#define TARRY_SQL_MYSQL_ROWS_H

#include "base/table.h"
#include "base/vector.h"
#include "queue/queue.h"
#include "sql/mysql/wire.h"

struct mysql_link;

enum { MYSQL_LEVEL_DEAD = 70000, MYSQL_NUMBERS = 4096 };

struct mysql_topic;

/* Location of a row in the table. */
struct mysql_place {
    uint32_t topic, level;
    int64_t due_ms;
    uint64_t sequence;
};

/* Adjacent rows that one take leased. Their deliveries have consecutive numbers. */
struct mysql_run {
    struct mysql_place first, last;
    uint64_t delivery; /* of the first row */
    int64_t taken_ms;
    size_t count;
};

/* The successor of a leased job. */
struct mysql_next {
    bool waits;
    int64_t due_ms, ttl_ms;
    uint64_t sequence;
    int32_t priority;
    bool has_keep;
    int64_t keep_ms;
    int64_t group; /* 0: it has no group */
};
enum mysql_next_change { MYSQL_NEXT_SET = 1, MYSQL_NEXT_DROPPED, MYSQL_NEXT_STARTED };

/* How a job has ended in the transaction, for those who keep it or wait for it. */
enum { MYSQL_END_DEAD = 4, MYSQL_END_PURGED = 9 }; /* besides enum job_end */
struct mysql_end {
    int outcome;     /* 0: it has not */
    int64_t keep_ms; /* 0: it is not kept */
    uint64_t bytes;  /* of the kept job */
    int64_t taken_ms;
    uint32_t attempt;
    bool is_fresh; /* the transaction has pushed it, so it is not stored: see `push` */
    bool is_awaited;
    struct slice result, result_type; /* owned by the caller */
};

struct mysql_row { /* A job that the transaction needs, or an id without a job. */
    struct table_entry by_id, by_place;
    char key[sizeof(uint32_t) + QUEUE_ONCE_ID_BYTES_MAX];
    size_t id_bytes;
    struct mysql_place stored_at; /* location of the row; valid if `stored` */
    bool stored;
    bool is_deleted;          /* by an early ack */
    bool is_whole;            /* all columns were read */
    bool exists;              /* current state */
    bool fresh;               /* to be inserted */
    bool changed;             /* to be updated */
    bool picked;              /* named by a take of the transaction */
    bool extended, requested; /* nothing else has changed */
    struct mysql_topic *topic;
    const struct sql_call *owner; /* call that selected the row itself: purge, redrive, expire */
    int64_t finished_until_ms;
    bool finishes_again;
    bool is_once; /* the name of a `once`, which must not be remembered by two transactions */

    int64_t batch, stored_batch; /* number of the batch whose member it is, or 0 */
    int64_t own, stored_own;     /* number of the batch of its own members, or 0 */
    char *form;                  /* of a member: its batch, as it is stored */
    size_t form_bytes;

    enum job_state state; /* JOB_DELAYED: waiting; JOB_LEASED, JOB_DEAD */
    int32_t level, priority;
    int64_t due_ms, first_due_ms, lease_until_ms, taken_ms, lease_span_ms, expire_ms;
    uint64_t sequence, delivery;
    int64_t server;
    uint32_t attempt;
    bool cancel_requested;
    int64_t group, stored_group; /* numbers: now, and of the stored row; 0: it has no group */
    uint32_t stored_attempt;
    bool was_leased; /* the stored row is leased */
    int slot;        /* what that lease is counted in (flow.h) */
    struct policy policy;
    bool has_keep; /* as in struct job */
    int64_t keep_ms;
    struct slice progress;   /* new with an extension, owned by the caller */
    struct mysql_end end;    /* see kept.h */
    uint64_t old_kept_bytes; /* of the kept job with this id, else 0 */
    bool drops_kept;         /* a push has taken its id */
    uint64_t body_bytes, meta_bytes;
    const struct queue_push *push;   /* of a fresh row */
    const struct queue_again *again; /* of a job that is pushed again in its row */
    uint32_t
        acked_attempt; /* of such a job, and of one whose successor started: the attempt before */
    struct mysql_next next;
    enum mysql_next_change next_change; /* 0: it stays */
    const struct queue_push *next_push; /* of a successor that this transaction stores */
    bool has_started_next;
    struct slice error; /* error of an answer or a push, owned by the caller */
    bool has_error;     /* the error is new, as is its history */
    char history[JOB_HISTORY_BYTES_MAX];
    size_t history_bytes;
    char consumer[JOB_CONSUMER_BYTES_MAX]; /* holder of the lease */
    size_t consumer_bytes;
};
static inline struct slice mysql_row_id(const struct mysql_row *row)
{
    return slice_make(row->key + sizeof(uint32_t), row->id_bytes);
}
TABLE_DECLARE(mysql_ids, struct mysql_row, by_id)
TABLE_DECLARE(mysql_places, struct mysql_row, by_place)
VECTOR_DECLARE(mysql_row_list, struct mysql_row *)

/* Acks that the first pipeline carries out, without a look at the jobs before. */
enum mysql_early { MYSQL_EARLY_SENT = 1, MYSQL_EARLY_DONE, MYSQL_EARLY_MISSED };

struct mysql_rows {
    struct mysql_ids ids;
    struct mysql_places places;
    struct mysql_row_list list;
    uint64_t number; /* the first of MYSQL_NUMBERS for pushes */
    uint32_t numbers_used;
    enum mysql_early early; /* 0: no such ack in this transaction */
    unsigned early_misses;  /* acks that look first, since an early one met another kind of job */
};

/* Appends queries that lock the rows that calls name. */
void mysql_append_locks(struct mysql_link *link);
/* Reads rows. `step->call`: the call that has selected them itself, or NULL. */
mysql_reader mysql_read_rows;

void mysql_rows_clear(struct mysql_link *link);
/* Finds or creates the row of an id in the transaction. Returns NULL if out of memory. */
struct mysql_row *mysql_row_need(struct mysql_link *link, struct mysql_topic *topic,
                                 struct slice id);
/* The same for the `once` of a push. */
struct mysql_row *mysql_row_of_once(struct mysql_link *link, struct mysql_topic *topic,
                                    struct slice once);
/* Finds the row of an id in the transaction. Returns NULL if no call needs it. */
struct mysql_row *mysql_row_find(const struct mysql_link *link, uint32_t topic, struct slice id);
/* Reads a row that no call has named, and its topic. Returns NULL if out of memory. */
struct mysql_row *mysql_row_take(struct mysql_link *link, MYSQL_ROW row,
                                 const unsigned long *lengths);
/* Sets the topic of such a row. Returns false if it was deleted. */
bool mysql_row_resolve(struct mysql_link *link, struct mysql_row *row);
struct mysql_row *mysql_row_at(struct mysql_link *link, const struct mysql_place *place);
extern const char mysql_row_columns[];
/* Appends a condition that names rows of one topic and level, without its last bracket. It compares
 * with rows of values, since the database searches such a list by bisection, but would test a list
 * of conditions one by one. */
void mysql_append_place(struct buffer *out, const struct mysql_place *place, bool is_first);
/* Appends the whole condition for one row. An UPDATE requires this form: MariaDB does not use a
 * list with one element as a key there, and would scan all jobs of the topic. */
void mysql_append_single_place(struct buffer *out, const struct mysql_place *place);
/* Runs save the database the parsing of long lists. If a run meets rows that others hold between
 * its own rows, the transaction fails immediately. Its calls are then repeated separately, with
 * each row named individually. */
enum { MYSQL_RUN_MIN = 6 }; /* for fewer rows, a statement costs more than it saves */
void mysql_append_span(struct buffer *out, const struct mysql_place *first,
                       const struct mysql_place *last);
/* Prefix of a statement that changes a run. With it, MariaDB does not wait for locks. */
extern const char mysql_no_wait[];
/* Appends statements for all rows that the transaction has changed. */
void mysql_append_rows(struct mysql_link *link);

#endif
