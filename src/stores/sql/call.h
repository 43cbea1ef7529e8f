/*
 * call: one queue call, or one operation of the server itself, from its arrival to its reply.
 * Dialects send calls and read their results.
 *
 * One thread. A call may be sent several times if a transaction fails. Only the results of the last
 * transaction count.
 */
#ifndef TARRY_SQL_CALL_H
#define TARRY_SQL_CALL_H

#include "base/list.h"
#include "queue/groups.h"
#include "queue/traits.h"
#include "sql/effect.h"

enum sql_call_kind {
    SQL_CALL_COMMAND = 1,
    SQL_CALL_END_LEASES, /* end leases that have expired */
    SQL_CALL_LOOK,       /* check for waiting jobs in watched topics */
    SQL_CALL_POLL,       /* poll for events of other servers, for dialects that must poll */
    SQL_CALL_EXPIRE,     /* end ttls */
    SQL_CALL_UPKEEP,     /* delete what is old, add up counts, note that this server lives */
    SQL_CALL_CLOCK,      /* set the database's clock to continue as it ran */
    SQL_CALL_PEEK,       /* check whether awaited jobs have ended, for dialects that must poll */
    SQL_CALL_AWAIT,      /* add and remove waits, and return the jobs that have ended */
    SQL_CALL_ADOPT,      /* take over the leases of servers that have gone silent */
    SQL_CALL_GOODBYE     /* note that this server stops */
};

enum { SQL_CALL_ARRAY_BYTES_MAX = 64 * 1024, SQL_HISTORY_ENTRIES_MAX = 1000 };

/* The result of a check of a topic. */
struct sql_observation {
    struct slice topic; /* points into `results` */
    /* due time of the next waiting job at or above the bound; INT64_MAX: no such job */
    int64_t next_ms;
    bool is_paused;
    int64_t resume_ms; /* 0: not set, or never */
    /* a time before the check began: a job committed after it may be missing from next_ms, but is
     * not due earlier */
    int64_t seen_ms;
    bool has_no_bound; /* jobs that are held may be due before next_ms */
    bool is_limited;   /* the end of a lease may make a job of the topic ready for delivery */
};
VECTOR_DECLARE(sql_observations, struct sql_observation)
VECTOR_DECLARE(sql_results, void *)
VECTOR_DECLARE(sql_leases, struct sql_lease)

struct sql_call {
    struct list list;
    enum sql_call_kind kind;
    struct command *command; /* a copy */
    struct queue_reply_to reply_to;
    int64_t since_ms, retry_ms; /* elapsed time: arrival; earliest time to send */
    int64_t ticket;             /* number under which the call was committed */
    bool is_separate;           /* runs in a transaction of its own */
    unsigned connections_lost;  /* number of connections that ended while the call was sent */
    bool has_more;              /* another step must follow */
    enum queue_status status;
    uint64_t affected; /* sum over the committed steps */
    uint64_t step_affected;
    bool drained;         /* TAKE: no watched topic has a job that is due now */
    unsigned empty_takes; /* TAKE: number of times that it found no job although one was due */

    struct sql_leases ends;      /* END */
    struct buffer names, bounds; /* TAKE, LOOK: arrays in SQL syntax */
    bool from_the_start;         /* LOOK: without a bound */

    /* The reply. Its texts point into `results` and `tokens`. */
    struct queue_result *items;
    struct queue_job *jobs;
    struct queue_end *finished; /* ends of the jobs; NULL if no job has finished */
    struct queue_topic *topics;
    struct queue_group *groups;
    size_t job_count, topic_count, group_count;
    char *tokens;
    char cursor[GROUPS_CURSOR_BYTES_MAX]; /* of groups, or a shorter one */
    size_t cursor_bytes;
    struct queue_forecast *forecast;
    struct sql_results results; /* owned by the dialect, kept until the reply */
    void (*result_free)(void *result);
    struct sql_results blocks;            /* allocated, with more texts of the reply */
    struct sql_observations observations; /* TAKE, LOOK: applied after the commit */
    bool listens;                         /* UPKEEP: a consumer of this server listens to events */
    bool others_listen; /* UPKEEP: a consumer of another server listens to events */
    bool part_failed;   /* UPKEEP: a part failed, the rest was done */
    bool more_kept;     /* UPKEEP: more kept jobs are to be removed than one transaction removes */
    int64_t other_servers;  /* UPKEEP: number of other servers that live */
    int64_t silent_servers; /* UPKEEP: number of servers that have gone silent */
    int64_t next_expire_ms; /* UPKEEP, EXPIRE: when to end ttls next; INT64_MAX: no job has one */
    /* UPKEEP: number of commits so far that added waiting jobs. If it equals that of the last upkeep,
     * there is nothing to look for. 0: unknown, because a commit is still open */
    int64_t mark;
};

/* Returns NULL if out of memory. `command` is NULL for an operation of the server itself. */
struct sql_call *sql_call_new(enum sql_call_kind kind, const struct command *command,
                              struct queue_reply_to reply_to);
void sql_call_free(struct sql_call *call);

/* Returns true if the call has items that change jobs. */
static inline bool sql_call_writes_items(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && command_writes_items(call->command);
}

/* Returns the first call of a list, or NULL if the list is empty. */
static inline struct sql_call *sql_call_first(const struct list *calls)
{
    return list_is_empty(calls) ? NULL : list_entry(calls->next, struct sql_call, list);
}

/* Returns true if the call changes anything that must survive. */
bool sql_call_is_durable(const struct sql_call *call);
/* Returns true if the call pushes fires or schedules, or looks like it: it names a `once`, or pushes
 * jobs again. */
bool sql_call_is_of_schedules(const struct sql_call *call);
/* Returns true if the call changes anything. */
bool sql_call_is_change(const struct sql_call *call);
/* Returns true if the call counts jobs. */
bool sql_call_is_count(const struct sql_call *call);
/* Returns true if the call only reads, or may be repeated without harm. It then needs no
 * transaction of several statements. */
bool sql_call_is_single(const struct sql_call *call);
/* Returns the due time of a job pushed or moved at `now_ms`. A delay ends one millisecond later than
 * the sum: now is rounded down, and no job may be early. Must agree with tarry._due of the
 * schema. */
int64_t sql_call_due_ms(int64_t now_ms, const struct queue_when *when);
/* Records that a push created its job at `now_ms`. */
void sql_call_created(struct sql_call *call, size_t item, int64_t now_ms);
/* Records that all pushes of a call created their jobs, except those that already have a status. */
void sql_call_all_created(struct sql_call *call, int64_t now_ms);
size_t sql_call_weight(const struct sql_call *call); /* number of items */
/* Returns the size of the bodies to push: the part of a call that can be large. */
size_t sql_call_bytes(const struct sql_call *call);

/* Name of the first job of a call, for the log. */
struct sql_call_name {
    char topic[JOB_TOPIC_BYTES_MAX + 1], id[JOB_ID_BYTES_MAX + 1];
    size_t jobs; /* number of jobs that the call names; 0 for calls such as an answer to a lease */
};
void sql_call_name(const struct sql_call *call, struct sql_call_name *out);

/* Takes ownership of `result`, to which texts of the reply point. Returns false if out of memory; the
 * result is then freed. */
bool sql_call_keep(struct sql_call *call, void *result, void (*result_free)(void *result));
/* Discards the results. Used before the call is sent again, refused or freed. */
void sql_call_reset_results(struct sql_call *call);
/* Replies to the caller. Only after the commit. */
void sql_call_reply(struct sql_call *call);
/* Replies with an error instead of a result. */
void sql_call_refuse(struct sql_call *call, enum queue_status status);

/* ---- times of callers ---- */

/*
 * Times of callers, which are those of the database's wall clock, and times of the queue, which
 * differ by the adjustment of the database's clock (database_clock.h).
 */
/* Converts the times of a command from the wall clock. */
void sql_wall_read(struct command *command, int64_t adjust_ms);
/* Converts the times of a reply to the wall clock. */
void sql_wall_write(struct sql_call *call, int64_t adjust_ms);

#endif
