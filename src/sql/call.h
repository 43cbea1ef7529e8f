/*
 * call: a call of the queue, or something the server does by itself, on its way through a turn: its
 * statements, what they answered, its reply.
 *
 * One thread. A call may be sent more than once, after a transaction that came to nothing; only what
 * the last one answered counts.
 */
#ifndef TARRY_SQL_CALL_H
#define TARRY_SQL_CALL_H

#include "base/list.h"
#include "queue/queue.h"
#include "sql/effect.h"
#include "sql/postgres/batch.h"
#include "sql/topic.h"

enum sql_call_kind {
    SQL_CALL_COMMAND = 1,
    SQL_CALL_END,    /* leases end by themselves */
    SQL_CALL_LOOK,   /* what waits in watched topics */
    SQL_CALL_EXPIRE, /* ttls end */
    SQL_CALL_UPKEEP,
    SQL_CALL_ADOPT,
    SQL_CALL_GOODBYE
};

struct sql_call;

struct sql_step { /* one statement of a turn */
    struct sql_call *call; /* NULL: the turn's own, or a batch */
    enum sql_statement statement;
    size_t first, count; /* of a batch: its items in `sent` */
};
VECTOR_DECLARE(sql_steps, struct sql_step)

struct sql_result { /* the answer to a statement, as long as a call has texts in it */
    PGresult *rows;
    size_t holders;
};
VECTOR_DECLARE(sql_results, struct sql_result *)
VECTOR_DECLARE(sql_leases, struct sql_lease)

struct sql_call {
    struct list list;
    enum sql_call_kind kind;
    struct command *command; /* a copy */
    struct queue_reply_to reply_to;
    int64_t since_ms, retry_ms; /* elapsed time: when it came; not to be sent before */
    bool alone;                 /* it goes in a turn of its own */
    bool has_more;              /* another step is to follow */
    enum queue_status status;
    uint64_t affected; /* by the steps that are committed */
    uint64_t step_affected;
    bool drained;

    struct sql_leases ends;      /* END */
    struct buffer names, bounds; /* TAKE, LOOK: arrays as SQL writes them */
    bool from_the_start;         /* LOOK: with no bound */

    /* Of the reply. Texts point into `results` and `tokens`. */
    struct queue_result *items;
    struct queue_job *jobs;
    struct queue_topic *topics;
    size_t job_count, topic_count;
    char *tokens;
    char cursor[64];
    size_t cursor_bytes;
    struct queue_forecast *forecast;
    struct sql_results results;
    const PGresult *look;                   /* TAKE, LOOK: to be believed after the commit */
    int64_t others, silent, next_expire_ms; /* UPKEEP, EXPIRE */
};

/* What calls of one server have in common. */
struct sql_context {
    PGconn *connection;
    struct mac_key key;
    int64_t server;
    uint32_t topics_max;
    int64_t now_ms; /* the database's, as of the last answer; steps of one turn differ by little */
    struct sql_topics topics;
    struct sql_steps steps;
    struct sql_effects effects;
    struct sql_batch pushes, changes, answers; /* open, while the turn's statements are sent */
    struct sql_batch_keys keys;                /* of what is in them */
    struct sql_items sent;                     /* in batches of this turn */
};

void sql_context_init(struct sql_context *context);
void sql_context_fini(struct sql_context *context);

/* NULL: out of memory. `command` NULL: something of the server's own. */
struct sql_call *sql_call_new(enum sql_call_kind kind, const struct command *command,
                              struct queue_reply_to reply_to);
void sql_call_free(struct sql_call *call);

/* Does it change anything that must survive; does it change anything at all; does it count jobs. */
bool sql_call_is_durable(const struct sql_call *call);
bool sql_call_is_change(const struct sql_call *call);
bool sql_call_is_figures(const struct sql_call *call);
size_t sql_call_weight(const struct sql_call *call); /* how many items */
size_t sql_call_bytes(const struct sql_call *call);

/* The statements of a turn's calls, into the pipeline and `steps`: items in batches, then what only
 * reads or takes; a call about topics comes after all before it. False: out of memory, or the
 * connection is gone. */
bool sql_calls_send(struct list *calls, struct sql_context *context);
/* One of them was answered with `rows`, which are taken over. False: out of memory. */
bool sql_step_read(const struct sql_step *step, struct sql_context *context, PGresult *rows);
/* Forgets what was answered: it is sent again. */
void sql_call_again(struct sql_call *call);
/* After the commit. */
void sql_call_reply(struct sql_call *call);
/* In place of an answer. */
void sql_call_refuse(struct sql_call *call, enum queue_status status);

#endif
