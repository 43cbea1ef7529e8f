/*
 * turn: a transaction of a server in MariaDB or MySQL while it is executed.
 *
 * A flight is a text of several statements, sent together, and their results. The rows that calls
 * name are read and locked first. Then the new state of the jobs is determined here, call by call
 * in their order, by the same rules as in the other stores. Then each table is written with few
 * statements for many rows. Takes come last.
 *
 * Steps are in the order in which their statements are sent and answered.
 */
#ifndef TARRY_SQL_MYSQL_TURN_H
#define TARRY_SQL_MYSQL_TURN_H

#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/mysql/libmariadb.h"

struct mysql_link;
struct mysql_step;

enum { MYSQL_LANE_DEAD = 70000, MYSQL_NUMBERS = 4096 };

struct mysql_topic { /* A topic, as of this transaction or an earlier one. */
    struct table_entry by_name, by_number;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    uint32_t number; /* 0: no topic of this name */
    bool is_read;    /* in this transaction */
    bool is_wanted, is_to_be_made, is_made, is_pushed_to;
    bool paused;
    int64_t paused_until_ms;
    struct topic_settings settings;
    bool has_extension;
    bool is_found; /* used while topics are read */
    int32_t *lanes;
    size_t lane_count, lane_cap;
    int64_t jobs;       /* number of jobs, if max_jobs is set */
    uint32_t take_max;  /* sum over all takes of the transaction */
    int64_t next_ms[2]; /* found by checks: at or above the bound, and from 0 */
    bool is_looked[2];
    bool looks_back; /* its check begins some time before the bound */
};
TABLE_DECLARE(mysql_names, struct mysql_topic, by_name)
TABLE_DECLARE(mysql_numbers, struct mysql_topic, by_number)
VECTOR_DECLARE(mysql_topic_list, struct mysql_topic *)

/* Location of a row in the table. */
struct mysql_place {
    uint32_t topic, lane;
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

struct mysql_row { /* A job that the transaction needs, or an id without a job. */
    struct table_entry by_id, by_place;
    char key[sizeof(uint32_t) + JOB_ID_BYTES_MAX];
    size_t id_bytes;
    struct mysql_place stored_at; /* location of the row; valid if `stored` */
    bool stored;
    bool is_whole;            /* all columns were read */
    bool exists;              /* current state */
    bool fresh;               /* to be inserted */
    bool changed;             /* to be updated */
    bool picked;              /* named by a take of the transaction */
    bool extended, requested; /* nothing else has changed */
    struct mysql_topic *topic;
    const struct sql_call *owner; /* call that selected the row itself: purge, redrive, expire */
    int64_t finished_until_ms;
    bool finished_anew;

    enum job_state state; /* JOB_DELAYED: waiting; JOB_LEASED, JOB_DEAD */
    int32_t lane, priority;
    int64_t due_ms, first_due_ms, lease_until_ms, taken_ms, lease_span_ms, expire_ms;
    uint64_t sequence, delivery;
    int64_t server;
    uint32_t attempt;
    bool cancel_requested;
    struct policy policy;
    uint64_t body_bytes, meta_bytes;
    const struct queue_push *push; /* of a fresh row */
    struct slice error;            /* error of an answer or a push, owned by the caller */
    bool has_error;                /* the error is new, as is its history */
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

struct mysql_event { /* An entry of the history. */
    const struct mysql_row *row;
    const char *event;
    uint32_t attempt;
    int64_t started_ms;
    char consumer[JOB_CONSUMER_BYTES_MAX];
    size_t consumer_bytes;
    struct slice error; /* owned by the caller */
};
VECTOR_DECLARE(mysql_events, struct mysql_event)

struct mysql_result { /* A result shared by several calls. */
    MYSQL_RES *result;
    int users;
};
VECTOR_DECLARE(mysql_results, struct mysql_result *)

struct mysql_taken { /* A job that a take found. */
    struct queue_job job;
    struct mysql_topic *topic;
    uint32_t lane;
    struct sql_call *call;        /* NULL: not assigned */
    const struct sql_call *named; /* take that names this job; NULL: found without its name */
    size_t order;                 /* index among the jobs of its call */
    size_t rank;                  /* index among the jobs found, in table order */
    int64_t lease_ms;
    struct mysql_result *result, *body; /* body: only if it was read separately */
    uint64_t body_bytes;
    bool has_body;
};
VECTOR_DECLARE(mysql_taken_list, struct mysql_taken)

/* Reads the result of a step, NULL if the statement returns no rows. The result is freed afterwards
 * unless the function takes it (mysql_result_take). Returns false if out of memory. */
typedef bool mysql_reader(struct mysql_link *link, const struct mysql_step *step,
                          MYSQL_RES *result);

struct mysql_step {     /* A statement of a flight. */
    mysql_reader *read; /* NULL: the result is not used */
    struct sql_call *call;
    struct mysql_topic *topic;
    uint64_t number;
    bool is_procedure; /* returns rows, and then a status that ends the step */
    bool is_optional;  /* after the commit; its failure does not affect the rest */
};
VECTOR_DECLARE(mysql_steps, struct mysql_step)
VECTOR_DECLARE(mysql_ends, size_t)
VECTOR_DECLARE(mysql_sequence_list, uint64_t)

struct mysql_peer { /* A server whose messages are read. */
    int64_t server;
    uint64_t n, number; /* of the last message read */
    int64_t read_us;    /* boot clock: time of that read */
};
VECTOR_DECLARE(mysql_peers, struct mysql_peer)

enum mysql_part { /* Bits. The first two are the first part of the dialect's interface. */
                  MYSQL_PART_BEGIN = 1, /* the first flight */
                  MYSQL_PART_CALLS = 2,
                  MYSQL_PART_COMMIT = 4,
                  MYSQL_PART_ROLLBACK = 8
};

/* What a transaction does, in this order (the table in transaction.c). */
enum mysql_stage {
    MYSQL_STAGE_BEGIN = 1,
    MYSQL_STAGE_HEAR,     /* reads notifications of other servers */
    MYSQL_STAGE_MESSAGES, /* reads their events */
    MYSQL_STAGE_BEGUN,    /* evaluates the first flight */
    MYSQL_STAGE_TOPICS,
    MYSQL_STAGE_TOPIC_COUNT,
    MYSQL_STAGE_NEW_TOPICS,
    MYSQL_STAGE_LOCK,   /* locks and reads the rows that calls name */
    MYSQL_STAGE_CALLS,  /* statements of single calls */
    MYSQL_STAGE_DECIDE, /* applies the rules to the rows */
    MYSQL_STAGE_WRITE,  /* writes the rows */
    MYSQL_STAGE_TAKE,   /* finds and locks jobs for takes */
    MYSQL_STAGE_SHARE,  /* distributes them */
    MYSQL_STAGE_BODIES, /* reads large bodies */
    MYSQL_STAGE_LEASE,  /* leases the jobs */
    MYSQL_STAGE_LOOK,   /* checks for waiting jobs */
    MYSQL_STAGE_END,    /* statements of single calls, after the rows are written */
    MYSQL_STAGE_COUNTS,
    MYSQL_STAGE_NEWS,   /* notifications for other servers */
    MYSQL_STAGE_EVENTS, /* messages with events */
    MYSQL_STAGE_COMMIT,
    MYSQL_STAGE_DAYS, /* maintenance of the history, after the commit */
    MYSQL_STAGE_ROLLBACK,
    MYSQL_STAGES
};

enum mysql_flight_state { MYSQL_FLIGHT_WAITS = 1, MYSQL_FLIGHT_LOST, MYSQL_FLIGHT_OVER };

enum mysql_op { MYSQL_OP_NONE = 0, MYSQL_OP_QUERY, MYSQL_OP_STORE, MYSQL_OP_NEXT };

struct mysql_link {
    struct sql_link link; /* first, so that the handle can be cast to the struct */
    MYSQL *mysql;
    MYSQL_RES *result; /* of the step that is read; NULL: taken */
    bool is_mariadb;
    size_t packet_bytes_max; /* max_allowed_packet of the database */
    struct sql_context *context;

    /* The flight. */
    struct buffer text;
    struct mysql_ends ends;         /* end of each packet in `text` */
    struct mysql_ends packet_steps; /* number of steps up to the end of each packet */
    size_t packet, step;
    struct mysql_steps steps;
    enum mysql_op op;
    enum mysql_part part;
    bool is_started, is_in_flight;
    int waits; /* MYSQL_WAIT_… */

    /* The transaction. */
    struct sql_turn turn;
    unsigned stages;                      /* bits of those that have run */
    bool has_rows, has_takes, has_pushes; /* among its calls */
    bool is_exact;  /* one call that met a lock before: each row is named individually */
    bool has_moved; /* the number or the lanes of a topic differ from the remembered ones */
    int64_t now_ms;
    uint64_t number, delivery; /* first number for pushes, first number for deliveries */
    uint32_t numbers_used, given;
    int64_t topic_count;
    struct mysql_names names;
    struct mysql_numbers numbers;
    struct mysql_topic_list wanted;
    struct mysql_ids ids;
    struct mysql_places places;
    struct mysql_row_list rows;
    struct mysql_events events;
    bool wants_days; /* the history may need another day */
    struct mysql_taken_list taken;
    struct mysql_results results;

    unsigned upkeeps;                 /* count on this connection */
    int64_t beat_us;                  /* boot clock: commit of the last heartbeat */
    struct sql_news_list news;        /* read but not yet delivered */
    struct mysql_sequence_list heard; /* numbers read in the last seconds, as a ring buffer */
    size_t heard_next;
    size_t news_at;

    /* Messages with events. */
    MYSQL_RES *messages; /* read but not yet delivered; NULL: no result */
    struct mysql_peers peers;
    int64_t listens_since_ms; /* 0: no local listener */
    uint64_t message_number;  /* of the last message written, as of the last commit */
    uint64_t messages_said;   /* number of messages in the current transaction */
    int64_t second_us;        /* boot clock: start of the second that `second_bytes` counts */
    size_t second_bytes;
};

/* Iterates over the calls of a transaction in their order. */
#define EACH_CALL(LINK, CALL)                                                                      \
    for (struct sql_call *CALL = list_entry((LINK)->turn.calls->next, struct sql_call, list);      \
         &CALL->list != (LINK)->turn.calls;                                                        \
         CALL = list_entry(CALL->list.next, struct sql_call, list))

/* Returns true if adjacent rows may be named by their first and last row. */
static inline bool mysql_has_runs(const struct mysql_link *link)
{
    return link->is_mariadb && !link->is_exact;
}

static inline bool mysql_has_items(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND &&
           (call->command->kind == COMMAND_PUSH || call->command->kind == COMMAND_CHANGE ||
            call->command->kind == COMMAND_ANSWER);
}

/* Returns true for purge and redrive, which run in steps. */
static inline bool mysql_is_step(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TOPIC &&
           (call->command->topic.verb == QUEUE_TOPIC_PURGE ||
            call->command->topic.verb == QUEUE_TOPIC_REDRIVE);
}

/* ---- faults (wire.c): only the first one of a transaction counts ---- */

void mysql_note_fault(struct mysql_link *link, enum sql_fault_kind kind, const char *state,
                      const char *message);
void mysql_note_no_memory(struct mysql_link *link);

/* ---- flights (wire.c): building the text and its list of steps ---- */

void mysql_flight_begin(struct mysql_link *link);
/* Begins a statement: the caller appends to the returned text until the next call. The text's
 * `failed` is set if out of memory. `read`: reads the result; NULL: it is not used. */
struct buffer *mysql_statement(struct mysql_link *link, mysql_reader *read);
struct buffer *mysql_statement_of(struct mysql_link *link, struct mysql_step step);
/* The statement must change exactly `count` rows, which the transaction has locked. */
struct buffer *mysql_statement_changing(struct mysql_link *link, size_t count);
/* Begins a new packet with a statement whose result is not used. */
struct buffer *mysql_statement_apart(struct mysql_link *link);
/* Returns the length of the text as mysql_quote appends it, without the quotes. */
size_t mysql_quoted_bytes(struct slice text);
void mysql_quote(struct buffer *out, struct slice text); /* as 'text' */
void mysql_quote_bytes(struct buffer *out,
                       struct slice text); /* as _binary'text', or NULL if empty */
int64_t mysql_number(const char *text);    /* NULL is read as 0 */
/* Takes the ownership of the result that is being read. */
MYSQL_RES *mysql_result_take(struct mysql_link *link);
/* Takes the result and keeps it until the end of the transaction. Other users are counted in
 * `users`. */
struct mysql_result *mysql_result_keep(struct mysql_link *link);
void mysql_result_free(void *result);
void mysql_results_drop(struct mysql_link *link); /* drops the link's reference to each */

/* ---- sending flights (wire.c) ---- */

/* Sends the first packet of the text. Returns false if out of memory or if the connection is lost. */
bool mysql_flight_send(struct mysql_link *link);
/* Continues the flight. `ready`: MYSQL_WAIT_… of its socket. */
enum mysql_flight_state mysql_flight_advance(struct mysql_link *link, int ready);
/* Shuts the connection down and lets a pending call of the library notice this. */
void mysql_flight_abandon(struct mysql_link *link);

/* ---- the transaction (transaction.c) ---- */

/* Begins a transaction: appends its first flight. Returns false if out of memory. */
bool mysql_transaction_begin(struct mysql_link *link, const struct sql_turn *turn);
/* Appends the next flight. Returns false if the part needs no further one. */
bool mysql_transaction_next(struct mysql_link *link);
/* Append the flight of the commit or rollback. */
void mysql_transaction_commit(struct mysql_link *link);
void mysql_transaction_rollback(struct mysql_link *link);
/* Passes the results of a part to its calls. */
void mysql_transaction_part_over(struct mysql_link *link);

/* ---- the topics that calls name (topics.c) ---- */

bool mysql_want_topics(struct mysql_link *link); /* false if out of memory */
/* Marks topics that pushes must create. */
void mysql_mark_new_topics(struct mysql_link *link);
/* Returns true if a topic must be created. */
bool mysql_topics_are_missing(const struct mysql_link *link);
/* Appends a count of topics, locked so that two servers cannot count at the same time. */
void mysql_append_topic_count(struct mysql_link *link);
/* Appends statements that create missing topics, up to the maximum number. */
void mysql_append_new_topics(struct mysql_link *link);

/* ---- topics (topics.c) ---- */

struct mysql_topic *mysql_topic_want_number(struct mysql_link *link, uint32_t number);
bool mysql_topics_are_read(const struct mysql_link *link);
bool mysql_topics_are_known(const struct mysql_link *link); /* at least from earlier transactions */
void mysql_append_topics(struct mysql_link *link);
bool mysql_topic_add_lane(struct mysql_topic *topic, int32_t lane); /* false if out of memory */
bool mysql_topic_has_lane(const struct mysql_topic *topic, int32_t lane);
/* Clears the wanted topics for a new transaction. */
void mysql_topics_begin(struct mysql_link *link);
void mysql_topics_free(struct mysql_link *link);

/* ---- the rows that calls name (rows.c) ---- */

void mysql_append_locks(struct mysql_link *link);
/* Reads rows. `step->call`: the call that has selected them itself, or NULL. */
mysql_reader mysql_read_rows;

/* ---- counts and notifications (notifications.c) ---- */

void mysql_append_tallies(struct mysql_link *link);
void mysql_append_news(struct mysql_link *link);
void mysql_append_hear(struct mysql_link *link);

/* ---- messages with events (notifications.c) ---- */

void mysql_append_messages(struct mysql_link *link); /* about the transaction */
/* Appends a query for messages that servers wrote since the last one. */
void mysql_append_messages_since(struct mysql_link *link, struct sql_call *call);
/* Returns false if there are no more messages. */
bool mysql_next_message(struct mysql_link *link, struct sql_news *out);
void mysql_messages_listen(struct mysql_link *link, bool listens);
void mysql_messages_free(struct mysql_link *link);

/* ---- rows (rows.c) ---- */

void mysql_rows_clear(struct mysql_link *link);
/* Finds or creates the row of an id in the transaction. Returns NULL if out of memory. */
struct mysql_row *mysql_row_need(struct mysql_link *link, struct mysql_topic *topic,
                                 struct slice id);
struct mysql_row *mysql_row_at(struct mysql_link *link, const struct mysql_place *place);
extern const char mysql_row_columns[];
/* Appends a condition that names rows of one topic and lane, without its last bracket. It compares
 * with rows of values, since the database searches such a list by bisection, but would test a list
 * of conditions one by one. */
void mysql_append_place(struct buffer *out, const struct mysql_place *place, bool is_first);
/* Appends the whole condition for one row. An UPDATE requires this form: MariaDB does not use a
 * list with one element as a key there, and would scan all jobs of the topic. */
void mysql_append_single_place(struct buffer *out, const struct mysql_place *place);
/* Runs save the database the parsing of long lists. If a run meets rows that others hold between
 * its own rows, the transaction fails immediately. Its calls are then repeated separately, with
 * each row named individually. */
enum { MYSQL_RUN_MIN = 16 }; /* for fewer rows, a statement costs more than it saves */
void mysql_append_span(struct buffer *out, const struct mysql_place *first,
                       const struct mysql_place *last);
/* Prefix of a statement that changes a run. With it, MariaDB does not wait for locks. */
extern const char mysql_no_wait[];
/* Appends statements for all rows that the transaction has changed. */
void mysql_append_rows(struct mysql_link *link);

/* ---- history (history.c) ---- */

/* Records an event of a job in the history. Must be called before the job changes. The text `event`
 * is not copied. */
void mysql_history_note(struct mysql_link *link, const struct mysql_row *row, const char *event,
                        struct slice consumer, struct slice error);
void mysql_append_history(struct mysql_link *link); /* appends all recorded events */
/* Appends, after the commit, the maintenance of days: creates coming ones and drops expired ones. */
void mysql_append_history_days(struct mysql_link *link);

/* ---- rules (rules.c): transitions of jobs ---- */

/* Returns true if the time is beyond the maximum delay of a job. */
bool mysql_is_far(int64_t now_ms, const struct queue_when *when);
void mysql_decide(struct mysql_link *link, struct sql_call *call);
/* Applies a purge, redrive or expire to a row that it has selected. */
void mysql_decide_own(struct mysql_link *link, struct sql_call *call, struct mysql_row *row);

/* ---- takes (takes.c) ---- */

void mysql_append_takes(struct mysql_link *link);
bool mysql_share_takes(struct mysql_link *link);
void mysql_append_bodies(struct mysql_link *link);
bool mysql_fill_takes(struct mysql_link *link);
/* Appends statements that lease the jobs and check for waiting ones. */
void mysql_append_taken(struct mysql_link *link);
void mysql_append_looks(struct mysql_link *link);
bool mysql_share_looks(struct mysql_link *link);

/* ---- calls (calls.c): calls with statements of their own ---- */

void mysql_append_call(struct mysql_link *link, struct sql_call *call);
/* Columns for mysql_job_read, from tarry.job j. */
extern const char mysql_job_columns[];
void mysql_job_read(struct job *job, MYSQL_ROW row, const unsigned long *lengths, int64_t now_ms);
uint64_t mysql_body_bytes(MYSQL_ROW row);
void mysql_append_call_end(struct mysql_link *link, struct sql_call *call);
void mysql_call_steps_on(struct mysql_link *link, struct sql_call *call);

#endif
