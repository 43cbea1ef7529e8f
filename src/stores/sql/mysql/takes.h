/*
 * takes: the jobs that the takes of a transaction find, distributed among them in their order and
 * leased together, and the checks for the next waiting jobs.
 */
#ifndef TARRY_SQL_MYSQL_TAKES_H
#define TARRY_SQL_MYSQL_TAKES_H

#include "base/vector.h"
#include "queue/queue.h"
#include "sql/call.h"

struct mysql_link;

struct mysql_topic;
struct mysql_result;

struct mysql_taken { /* A job that a take found. */
    struct queue_job job;
    struct mysql_topic *topic;
    uint32_t level;
    struct sql_call *call;        /* NULL: not assigned */
    const struct sql_call *named; /* take that names this job; NULL: found without its name */
    size_t order;                 /* index among the jobs of its call */
    size_t rank;                  /* index among the jobs found, in table order */
    int64_t lease_ms;
    struct mysql_result *result, *body; /* body: only if it was read separately */
    uint64_t body_bytes;
    bool has_body;
    int64_t own;         /* the number of its own batch; 0: it has none */
    const char *waiting; /* that batch as text, or NULL */
    int64_t group;       /* its number; 0: it has no group */
    size_t position;     /* place in the order of a topic with groups; 0: by due time */
};
VECTOR_DECLARE(mysql_taken_list, struct mysql_taken)

/* Takes that skip locked jobs after one that has met a lock. */
enum { MYSQL_LOCKS_AFTER = 16 };

struct mysql_takes {
    struct mysql_taken_list list;
    uint64_t delivery; /* the first of MYSQL_NUMBERS for deliveries; 0: of `left` */
    uint32_t given;
    /* Numbers that earlier transactions of this connection have reserved and not used. */
    uint64_t left, left_end;
    unsigned misses; /* takes that reserve numbers immediately, since those left were too low */
    /* The takes of the transaction have found one job more than they may get, and skip none. */
    bool find_next;
    unsigned locks; /* takes that skip locked jobs, since an earlier one met a lock */
};

/* Appends queries that find and lock jobs. */
void mysql_append_takes(struct mysql_link *link);
/* Returns whether the numbers that are left are too few, or too low for a job that was found: the numbers of a job and of
 * its deliveries rise. */
bool mysql_takes_need_number(const struct mysql_link *link);
/* Reserves numbers for deliveries. */
void mysql_append_delivery(struct mysql_link *link);
/* Keeps the numbers that the committed transaction has not used. */
void mysql_takes_keep_numbers(struct mysql_link *link);
/* Distributes the jobs among the takes. Returns false if out of memory. */
bool mysql_share_takes(struct mysql_link *link);
/* Appends queries for large bodies. */
void mysql_append_bodies(struct mysql_link *link);
/* Fills in the replies. All bodies must have been read. Returns false if out of memory. */
bool mysql_fill_takes(struct mysql_link *link);
/* Appends statements that lease the jobs. */
void mysql_append_taken(struct mysql_link *link);
/* Appends checks for waiting jobs. */
void mysql_append_looks(struct mysql_link *link);
/* Passes their results to the calls. Returns false if out of memory. */
bool mysql_share_looks(struct mysql_link *link);

#endif
