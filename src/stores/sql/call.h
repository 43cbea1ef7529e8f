/*
 * call: a call of the queue, or something the server does by itself, on its way through a turn: what
 * its statements answered, its reply. Dialects send and read it.
 *
 * One thread. A call may be sent more than once, after a transaction that came to nothing; only what
 * the last one answered counts.
 */
#ifndef TARRY_SQL_CALL_H
#define TARRY_SQL_CALL_H

#include "base/list.h"
#include "queue/queue.h"
#include "sql/effect.h"

enum sql_call_kind {
    SQL_CALL_COMMAND = 1,
    SQL_CALL_END,    /* leases end by themselves */
    SQL_CALL_LOOK,   /* what waits in watched topics */
    SQL_CALL_HEAR,   /* events that servers told, where those are looked for */
    SQL_CALL_EXPIRE, /* ttls end */
    SQL_CALL_UPKEEP,
    SQL_CALL_ADOPT,
    SQL_CALL_GOODBYE
};

enum { SQL_CALL_ARRAY_BYTES_MAX = 64 * 1024, SQL_HISTORY_ENTRIES_MAX = 1000 };

struct sql_sight {      /* what a look saw of a topic */
    struct slice topic; /* points into `results` */
    int64_t
        next_ms; /* when the next job that waits at or above the bound is due; INT64_MAX: none */
    bool is_paused;
    int64_t resume_ms; /* 0: none, or never */
    int64_t
        seen_ms; /* a moment before this looked; what was committed since may be due from then on */
};
VECTOR_DECLARE(sql_sights, struct sql_sight)
VECTOR_DECLARE(sql_results, void *)
VECTOR_DECLARE(sql_leases, struct sql_lease)

struct sql_call {
    struct list list;
    enum sql_call_kind kind;
    struct command *command; /* a copy */
    struct queue_reply_to reply_to;
    int64_t since_ms, retry_ms; /* elapsed time: when it came; not to be sent before */
    int64_t ticket;             /* the one it was committed under */
    bool alone;                 /* it goes in a turn of its own */
    bool has_more;              /* another step is to follow */
    enum queue_status status;
    uint64_t affected; /* by the steps that are committed */
    uint64_t step_affected;
    bool drained;
    unsigned empty_takes; /* TAKE: how often it came away with nothing where something was due */

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
    struct sql_results results; /* a dialect's own, kept until the reply */
    void (*result_free)(void *result);
    struct sql_sights sights;               /* TAKE, LOOK: to be believed after the commit */
    bool listens;                           /* UPKEEP: somebody does here, to events */
    bool is_heard;                          /* UPKEEP: somebody does elsewhere */
    int64_t others, silent, next_expire_ms; /* UPKEEP, EXPIRE */
    int64_t
        mark; /* UPKEEP: how many changes made jobs wait so far, where all of them can be seen by
                     now; the same again: there is nothing new. 0: not known */
};

/* NULL: out of memory. `command` NULL: something of the server's own. */
struct sql_call *sql_call_new(enum sql_call_kind kind, const struct command *command,
                              struct queue_reply_to reply_to);
void sql_call_free(struct sql_call *call);

/* Of a list of calls. NULL: it is empty. */
static inline struct sql_call *sql_call_first(const struct list *calls)
{
    return list_is_empty(calls) ? NULL : list_entry(calls->next, struct sql_call, list);
}

/* Does it change anything that must survive; does it change anything at all; does it count jobs. */
bool sql_call_is_durable(const struct sql_call *call);
bool sql_call_is_change(const struct sql_call *call);
bool sql_call_is_figures(const struct sql_call *call);
/* Does it only read, or what may be done twice: it needs no transaction of more than one statement. */
bool sql_call_is_single(const struct sql_call *call);
/* When a job pushed or moved at that moment is due; what the schema's tarry._due says. */
int64_t sql_call_due_ms(int64_t now_ms, const struct queue_when *when);
/* A push created its job at that moment. */
void sql_call_created(struct sql_call *call, size_t item, int64_t now_ms);
/* All of a call did, but those that were never sent. */
void sql_call_all_created(struct sql_call *call, int64_t now_ms);
size_t sql_call_weight(const struct sql_call *call); /* how many items */
size_t sql_call_bytes(const struct sql_call *call);

/* Keeps a result that texts of the reply point into. False: out of memory, and it is freed. */
bool sql_call_keep(struct sql_call *call, void *result, void (*result_free)(void *result));
/* Forgets what was answered: it is sent again. */
void sql_call_again(struct sql_call *call);
/* After the commit. */
void sql_call_reply(struct sql_call *call);
/* In place of an answer. */
void sql_call_refuse(struct sql_call *call, enum queue_status status);

#endif
