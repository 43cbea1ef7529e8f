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

enum { MARIA_LANE_DEAD = 70000, MARIA_NUMBERS = 4096 };

enum maria_step_kind {
    MARIA_NOTHING = 1, /* the result is not used */
    MARIA_TICKET,
    MARIA_NOW,
    MARIA_NUMBER,   /* for pushes */
    MARIA_DELIVERY, /* numbers of deliveries */
    MARIA_TOPICS,
    MARIA_TOPIC_COUNT,
    MARIA_ROWS,     /* jobs, locked */
    MARIA_ACKS,     /* jobs that are only acked */
    MARIA_OWN_ROWS, /* jobs that a purge, redrive or expire has selected itself */
    MARIA_FINISHED,
    MARIA_JOB_COUNT, /* of a topic with a limit of jobs */
    MARIA_TAKE,
    MARIA_BODIES,  /* large bodies of taken jobs */
    MARIA_CHANGED, /* changed as many rows as expected */
    MARIA_LOOK,
    MARIA_NEWS,
    MARIA_MESSAGES,
    MARIA_CALL, /* of one call, which reads the result itself */
    MARIA_AFTER /* after the commit; its failure does not affect the rest */
};

struct maria_topic { /* A topic, as of this transaction or an earlier one. */
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
TABLE_DECLARE(maria_names, struct maria_topic, by_name)
TABLE_DECLARE(maria_numbers, struct maria_topic, by_number)
VECTOR_DECLARE(maria_topic_list, struct maria_topic *)

/* Location of a row in the table. */
struct maria_place {
    uint32_t topic, lane;
    int64_t due_ms;
    uint64_t sequence;
};

/* Adjacent rows that one take leased. Their deliveries have consecutive numbers. */
struct maria_run {
    struct maria_place first, last;
    uint64_t delivery; /* of the first row */
    int64_t taken_ms;
    size_t count;
};

struct maria_row { /* A job that the transaction needs, or an id without a job. */
    struct table_entry by_id, by_place;
    char key[sizeof(uint32_t) + JOB_ID_BYTES_MAX];
    size_t id_bytes;
    struct maria_place stored_at; /* location of the row; valid if `stored` */
    bool stored;
    bool is_whole;            /* all columns were read */
    bool exists;              /* current state */
    bool fresh;               /* to be inserted */
    bool changed;             /* to be updated */
    bool picked;              /* named by a take of the transaction */
    bool extended, requested; /* nothing else has changed */
    struct maria_topic *topic;
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
static inline struct slice maria_row_id(const struct maria_row *row)
{
    return slice_make(row->key + sizeof(uint32_t), row->id_bytes);
}
TABLE_DECLARE(maria_ids, struct maria_row, by_id)
TABLE_DECLARE(maria_places, struct maria_row, by_place)
VECTOR_DECLARE(maria_row_list, struct maria_row *)

struct maria_event { /* An entry of the history. */
    const struct maria_row *row;
    const char *event;
    uint32_t attempt;
    int64_t started_ms;
    char consumer[JOB_CONSUMER_BYTES_MAX];
    size_t consumer_bytes;
    struct slice error; /* owned by the caller */
};
VECTOR_DECLARE(maria_events, struct maria_event)

struct maria_result { /* A result shared by several calls. */
    MYSQL_RES *result;
    int users;
};
VECTOR_DECLARE(maria_results, struct maria_result *)

struct maria_taken { /* A job that a take found. */
    struct queue_job job;
    struct maria_topic *topic;
    uint32_t lane;
    struct sql_call *call;        /* NULL: not assigned */
    const struct sql_call *named; /* take that names this job; NULL: found without its name */
    size_t order;                 /* index among the jobs of its call */
    size_t rank;                  /* index among the jobs found, in table order */
    int64_t lease_ms;
    struct maria_result *result, *body; /* body: only if it was read separately */
    uint64_t body_bytes;
    bool has_body;
};
VECTOR_DECLARE(maria_taken_list, struct maria_taken)

struct maria_step {
    enum maria_step_kind kind;
    struct sql_call *call;
    struct maria_topic *topic;
    uint64_t number;
};
VECTOR_DECLARE(maria_steps, struct maria_step)
VECTOR_DECLARE(maria_ends, size_t)
VECTOR_DECLARE(maria_sequence_list, uint64_t)

struct maria_peer { /* A server whose messages are read. */
    int64_t server;
    uint64_t n, number; /* of the last message read */
    int64_t read_us;    /* boot clock: time of that read */
};
VECTOR_DECLARE(maria_peers, struct maria_peer)

enum maria_part { MARIA_CALLS = 1, MARIA_COMMIT, MARIA_ROLLBACK };

enum maria_flight_state { MARIA_FLIGHT_WAITS = 1, MARIA_FLIGHT_LOST, MARIA_FLIGHT_OVER };

enum maria_op { MARIA_OP_NONE = 0, MARIA_OP_QUERY, MARIA_OP_STORE, MARIA_OP_NEXT };

struct maria_link {
    struct sql_link link; /* first, so that the handle can be cast to the struct */
    MYSQL *mysql;
    bool is_mariadb;
    size_t packet_bytes_max; /* max_allowed_packet of the database */
    struct sql_context *context;

    /* The flight. */
    struct buffer text;
    struct maria_ends ends;         /* end of each packet in `text` */
    struct maria_ends packet_steps; /* number of steps up to the end of each packet */
    size_t packet, step;
    struct maria_steps steps;
    enum maria_op op;
    enum maria_part part;
    bool is_started, is_in_flight;
    int waits; /* MYSQL_WAIT_… */

    /* The transaction. */
    struct sql_turn turn;
    bool has_rows, has_takes, has_pushes; /* among its calls */
    bool is_exact;  /* one call that met a lock before: each row is named individually */
    bool has_runs;  /* adjacent rows are named by their first and last row */
    bool has_moved; /* the number or the lanes of a topic differ from the remembered ones */
    bool is_early;  /* the first flight already contains locks or takes */
    bool is_now_known, is_locked, is_direct, is_decided, is_written, is_taken, is_shared;
    bool has_bodies;
    int made_tries;
    int64_t now_ms;
    uint64_t number, delivery; /* first number for pushes, first number for deliveries */
    uint32_t numbers_used, given;
    int64_t topic_count;
    struct maria_names names;
    struct maria_numbers numbers;
    struct maria_topic_list wanted;
    struct maria_ids ids;
    struct maria_places places;
    struct maria_row_list rows;
    struct maria_events events;
    bool wants_days; /* the history may need another day */
    struct maria_taken_list taken;
    struct maria_results results;

    unsigned upkeeps;                 /* count on this connection */
    int64_t beat_us;                  /* boot clock: commit of the last heartbeat */
    struct sql_news_list news;        /* read but not yet delivered */
    struct maria_sequence_list heard; /* numbers read in the last seconds, as a ring buffer */
    size_t heard_next;
    size_t news_at;

    /* Messages with events. */
    MYSQL_RES *messages; /* read but not yet delivered; NULL: no result */
    struct maria_peers peers;
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

static inline bool maria_has_items(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND &&
           (call->command->kind == COMMAND_PUSH || call->command->kind == COMMAND_CHANGE ||
            call->command->kind == COMMAND_ANSWER);
}

/* Returns true for purge and redrive, which run in steps. */
static inline bool maria_is_step(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TOPIC &&
           (call->command->topic.verb == QUEUE_TOPIC_PURGE ||
            call->command->topic.verb == QUEUE_TOPIC_REDRIVE);
}

/* ---- faults (fault.c): only the first one of a transaction counts ---- */

void maria_note_fault(struct maria_link *link, enum sql_fault_kind kind, const char *state,
                      const char *message);
void maria_note_no_memory(struct maria_link *link);
/* Records the library's error. Returns true if the connection is lost. */
bool maria_note_error(struct maria_link *link);

/* ---- flights (flight.c): building the text and its list of steps ---- */

void maria_flight_begin(struct maria_link *link);
/* Begins a statement: the caller appends to the returned text until the next call. The text's
 * `failed` is set if out of memory. */
struct buffer *maria_say(struct maria_link *link, struct maria_step step);
struct buffer *maria_say_plain(struct maria_link *link, enum maria_step_kind kind);
/* Begins a new packet with the step. Returns the text. */
struct buffer *maria_say_apart(struct maria_link *link, struct maria_step step);
/* Returns the length of the text as maria_quote appends it, without the quotes. */
size_t maria_quoted_bytes(struct slice text);
void maria_quote(struct buffer *out, struct slice text); /* as 'text' */
void maria_quote_bytes(struct buffer *out,
                       struct slice text); /* as _binary'text', or NULL if empty */
int64_t maria_number(const char *text);    /* NULL is read as 0 */
/* Keeps a result until the end of the transaction. Other users are counted in `users`. */
struct maria_result *maria_result_keep(struct maria_link *link, MYSQL_RES *result);
void maria_result_free(void *result);
void maria_results_drop(struct maria_link *link); /* drops the link's reference to each */

/* ---- sending flights (wire.c) ---- */

/* Sends the first packet of the text. Returns false if out of memory or if the connection is lost. */
bool maria_flight_send(struct maria_link *link);
/* Continues the flight. `ready`: MYSQL_WAIT_… of its socket. */
enum maria_flight_state maria_flight_advance(struct maria_link *link, int ready);
/* Shuts the connection down and lets a pending call of the library notice this. */
void maria_flight_abandon(struct maria_link *link);

/* ---- stages (stages.c): the text of the next flight ---- */

/* Returns false if out of memory. */
bool maria_turn_begin(struct maria_link *link, const struct sql_turn *turn);
/* Returns false if the first part needs no further flight. */
bool maria_turn_next(struct maria_link *link);
void maria_turn_commit(struct maria_link *link);
void maria_turn_rollback(struct maria_link *link);

/* ---- the topics that calls name (wanted.c) ---- */

bool maria_want_topics(struct maria_link *link); /* false if out of memory */
/* Appends statements that create missing topics, under a lock on the number of topics. Returns
 * false if no topic must be created. */
bool maria_say_new_topics(struct maria_link *link);

/* ---- topics (topics.c) ---- */

struct maria_topic *maria_topic_want(struct maria_link *link, struct slice name);
struct maria_topic *maria_topic_want_number(struct maria_link *link, uint32_t number);
bool maria_topics_are_read(const struct maria_link *link);
bool maria_topics_are_known(const struct maria_link *link); /* at least from earlier transactions */
void maria_say_topics(struct maria_link *link);
bool maria_read_topics(struct maria_link *link, MYSQL_RES *result);
bool maria_topic_add_lane(struct maria_topic *topic, int32_t lane); /* false if out of memory */
bool maria_topic_has_lane(const struct maria_topic *topic, int32_t lane);
/* Clears the wanted topics for a new transaction. */
void maria_topics_begin(struct maria_link *link);
void maria_topics_free(struct maria_link *link);

/* ---- the rows that calls name (locks.c) ---- */

void maria_say_locks(struct maria_link *link);
/* Reads rows. Returns false if out of memory. `owner`: the call that selected them itself. */
bool maria_read_rows(struct maria_link *link, MYSQL_RES *result, struct sql_call *owner);
bool maria_read_acks(struct maria_link *link, MYSQL_RES *result);
bool maria_read_finished(struct maria_link *link, MYSQL_RES *result);

/* ---- counts and notifications (news.c) ---- */

void maria_say_tallies(struct maria_link *link);
void maria_say_news(struct maria_link *link);
void maria_say_hear(struct maria_link *link);
bool maria_read_news(struct maria_link *link, MYSQL_RES *result); /* false if out of memory */

/* ---- messages with events (messages.c) ---- */

void maria_say_messages(struct maria_link *link); /* about the transaction */
/* Appends a query for messages that servers wrote since the last one. */
void maria_say_messages_since(struct maria_link *link, struct sql_call *call);
bool maria_read_messages(struct maria_link *link, struct sql_call *call,
                         MYSQL_RES *result); /* false if out of memory */
/* Returns false if there are no more messages. */
bool maria_next_message(struct maria_link *link, struct sql_news *out);
void maria_messages_listen(struct maria_link *link, bool listens);
void maria_messages_free(struct maria_link *link);

/* ---- rows (rows.c) ---- */

void maria_rows_clear(struct maria_link *link);
/* Finds or creates the row of an id in the transaction. Returns NULL if out of memory. */
struct maria_row *maria_row_need(struct maria_link *link, struct maria_topic *topic,
                                 struct slice id);
int maria_place_compare(const struct maria_place *a, const struct maria_place *b);
struct maria_row *maria_row_at(struct maria_link *link, const struct maria_place *place);
extern const char maria_row_columns[], maria_ack_columns[];
bool maria_ack_read(struct maria_link *link, MYSQL_ROW row, const unsigned long *lengths);
/* Appends a condition that names rows of one topic and lane, without its last bracket. It compares
 * with rows of values, since the database searches such a list by bisection, but would test a list
 * of conditions one by one. */
void maria_say_place(struct buffer *out, const struct maria_place *place, bool is_first);
/* Appends the whole condition for one row. An UPDATE requires this form: MariaDB does not use a
 * list with one element as a key there, and would scan all jobs of the topic. */
void maria_say_single_place(struct buffer *out, const struct maria_place *place);
/* Runs save the database the parsing of long lists. If a run meets rows that others hold between
 * its own rows, the transaction fails immediately. Its calls are then repeated separately, with
 * each row named individually. */
enum { MARIA_RUN_MIN = 16 }; /* for fewer rows, a statement costs more than it saves */
/* Adds the next row in table order. Returns false if it does not belong to the run, which is then
 * unchanged. */
bool maria_run_add(struct maria_run *run, const struct maria_place *place, uint64_t delivery,
                   int64_t taken_ms);
void maria_say_span(struct buffer *out, const struct maria_place *first,
                    const struct maria_place *last);
void maria_say_run(struct buffer *out, const struct maria_run *run); /* the whole condition */
/* Prefix of a statement that changes a run. With it, MariaDB does not wait for locks. */
extern const char maria_no_wait[];
/* Fills in a row from the result of a statement with those columns. Returns NULL if out of memory. */
struct maria_row *maria_row_read(struct maria_link *link, MYSQL_ROW row,
                                 const unsigned long *lengths);
/* Appends statements for all rows that the transaction has changed. */
void maria_say_rows(struct maria_link *link);

/* ---- history (history.c) ---- */

/* Records an event of a job in the history. Must be called before the job changes. The text `event`
 * is not copied. */
void maria_history_note(struct maria_link *link, const struct maria_row *row, const char *event,
                        struct slice consumer, struct slice error);
void maria_say_history(struct maria_link *link); /* appends all recorded events */
/* Appends, after the commit, the maintenance of days: creates coming ones and drops expired ones. */
void maria_say_history_days(struct maria_link *link);

/* ---- rules (rules.c): transitions of jobs ---- */

/* Returns true if the time is beyond the maximum delay of a job. */
bool maria_is_far(int64_t now_ms, const struct queue_when *when);
void maria_decide(struct maria_link *link, struct sql_call *call);
/* Applies a purge, redrive or expire to a row that it has selected. */
void maria_decide_own(struct maria_link *link, struct sql_call *call, struct maria_row *row);

/* ---- takes (takes.c) ---- */

void maria_say_takes(struct maria_link *link);
bool maria_read_take(struct maria_link *link, const struct maria_step *step, MYSQL_RES *result);
bool maria_share_takes(struct maria_link *link);
void maria_say_bodies(struct maria_link *link);
bool maria_read_bodies(struct maria_link *link, size_t index, MYSQL_RES *result);
bool maria_fill_takes(struct maria_link *link);
/* Appends statements that lease the jobs and check for waiting ones. */
void maria_say_taken(struct maria_link *link);
void maria_say_looks(struct maria_link *link);
void maria_read_look(struct maria_link *link, struct maria_topic *topic, uint64_t which,
                     MYSQL_RES *result);
bool maria_share_looks(struct maria_link *link);

/* ---- calls (calls.c): calls with statements of their own ---- */

void maria_say_call(struct maria_link *link, struct sql_call *call);
bool maria_read_call(struct maria_link *link, const struct maria_step *step, MYSQL_RES *result);
/* Columns for maria_job_read, from tarry.job j. */
extern const char maria_job_columns[];
void maria_job_read(struct job *job, MYSQL_ROW row, const unsigned long *lengths, int64_t now_ms);
uint64_t maria_body_bytes(MYSQL_ROW row);
void maria_say_call_end(struct maria_link *link, struct sql_call *call);
bool maria_step_is_procedure(const struct maria_step *step);
void maria_call_steps_on(struct maria_link *link, struct sql_call *call);

#endif
