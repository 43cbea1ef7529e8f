/*
 * turn: one transaction of a server in MariaDB or MySQL, while it is carried out.
 *
 * A flight is a text of several statements and their answers. The rows that calls name are read and
 * locked first; what becomes of them is decided here, call by call in their order, by the same rules
 * as everywhere; then each table is written with few statements for many rows. Takes come last.
 *
 * Steps stand in the order in which their statements are sent and answered.
 */
#ifndef TARRY_SQL_MYSQL_TURN_H
#define TARRY_SQL_MYSQL_TURN_H

#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/mysql/libmariadb.h"

enum { MARIA_LANE_DEAD = 70000, MARIA_NUMBERS = 4096 };

enum maria_step_kind {
    MARIA_NOTHING = 1, /* its answer says nothing */
    MARIA_TICKET,
    MARIA_NOW,
    MARIA_NUMBER,   /* of pushes */
    MARIA_DELIVERY, /* numbers of deliveries */
    MARIA_TOPICS,
    MARIA_TOPIC_COUNT,
    MARIA_ROWS,     /* jobs, locked */
    MARIA_ACKS,     /* such that are only acked */
    MARIA_OWN_ROWS, /* such that a call of its own asked for: purge, redrive, expire */
    MARIA_FINISHED,
    MARIA_JOB_COUNT, /* of a topic whose jobs are limited */
    MARIA_TAKE,
    MARIA_BODIES,  /* of taken jobs: the big ones */
    MARIA_CHANGED, /* so many rows as expected */
    MARIA_LOOK,
    MARIA_NEWS,
    MARIA_MESSAGES,
    MARIA_CALL, /* of one call, which reads it by itself */
    MARIA_AFTER /* behind the commit: where it fails, nothing else does */
};

struct maria_topic { /* as of this turn, or an earlier one */
    struct table_entry by_name, by_number;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    uint32_t number; /* 0: there is none of this name */
    bool is_read;    /* in this turn */
    bool is_wanted, is_to_be_made, is_made, is_pushed_to;
    bool paused;
    int64_t paused_until_ms;
    struct topic_settings settings;
    bool has_extension;
    bool is_found; /* while topics are read */
    int32_t *lanes;
    size_t lane_count, lane_cap;
    int64_t jobs;       /* where max_jobs is set: how many it has */
    uint32_t take_max;  /* of all takes of the turn */
    int64_t next_ms[2]; /* seen by looks: at or above the bound, and from 0 */
    bool is_looked[2];
    bool looks_back; /* its look begins some time before the bound */
};
TABLE_DECLARE(maria_names, struct maria_topic, by_name)
TABLE_DECLARE(maria_numbers, struct maria_topic, by_number)
VECTOR_DECLARE(maria_topic_list, struct maria_topic *)

/* Where a row lies in the table. */
struct maria_place {
    uint32_t topic, lane;
    int64_t due_ms;
    uint64_t sequence;
};

/* Jobs that one take leased, side by side in the table: their deliveries are numbered from the first one's. */
struct maria_run {
    struct maria_place first, last;
    uint64_t delivery; /* the first one's */
    int64_t taken_ms;
    size_t count;
};

struct maria_row { /* a job that the turn is about, or an id without one */
    struct table_entry by_id, by_place;
    char key[sizeof(uint32_t) + JOB_ID_BYTES_MAX];
    size_t id_bytes;
    struct maria_place stored_at; /* where it lies; valid where `stored` */
    bool stored;
    bool is_whole;            /* all of it was read */
    bool exists;              /* by now */
    bool fresh;               /* to be inserted */
    bool changed;             /* to be updated */
    bool picked;              /* a take of the turn has named it */
    bool extended, requested; /* only that is changed */
    struct maria_topic *topic;
    const struct sql_call *owner; /* that found it by itself: purge, redrive, expire */
    int64_t finished_until_ms;
    bool finished_anew;

    enum job_state state; /* JOB_DELAYED: it waits; JOB_LEASED, JOB_DEAD */
    int32_t lane, priority;
    int64_t due_ms, first_due_ms, lease_until_ms, taken_ms, lease_span_ms, expire_ms;
    uint64_t sequence, delivery;
    int64_t server;
    uint32_t attempt;
    bool cancel_requested;
    struct policy policy;
    uint64_t body_bytes, meta_bytes;
    const struct queue_push *push; /* of a fresh one */
    struct slice error;            /* that of an answer or a push, the caller's */
    bool has_error;                /* it is a new one, with its history */
    char history[JOB_HISTORY_BYTES_MAX];
    size_t history_bytes;
    char consumer[JOB_CONSUMER_BYTES_MAX]; /* who holds it */
    size_t consumer_bytes;
};
static inline struct slice maria_row_id(const struct maria_row *row)
{
    return slice_make(row->key + sizeof(uint32_t), row->id_bytes);
}
TABLE_DECLARE(maria_ids, struct maria_row, by_id)
TABLE_DECLARE(maria_places, struct maria_row, by_place)
VECTOR_DECLARE(maria_row_list, struct maria_row *)

struct maria_event { /* of the history */
    const struct maria_row *row;
    const char *event;
    uint32_t attempt;
    int64_t started_ms;
    char consumer[JOB_CONSUMER_BYTES_MAX];
    size_t consumer_bytes;
    struct slice error; /* the caller's */
};
VECTOR_DECLARE(maria_events, struct maria_event)

struct maria_result { /* of several calls */
    MYSQL_RES *result;
    int users;
};
VECTOR_DECLARE(maria_results, struct maria_result *)

struct maria_taken { /* a job that a take found */
    struct queue_job job;
    struct maria_topic *topic;
    uint32_t lane;
    struct sql_call *call;        /* NULL: nobody's */
    const struct sql_call *named; /* that names this job; NULL: none does */
    size_t order;                 /* among those of its call */
    size_t rank;                  /* among those found, which lie in the order of the table */
    int64_t lease_ms;
    struct maria_result *result, *body; /* body: of one that was read by itself */
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

struct maria_peer { /* a server whose messages are read */
    int64_t server;
    uint64_t n, number; /* of the last one that was read */
    int64_t read_us;    /* by the boot clock: when that was */
};
VECTOR_DECLARE(maria_peers, struct maria_peer)

enum maria_part { MARIA_CALLS = 1, MARIA_COMMIT, MARIA_ROLLBACK };

enum maria_flight_state { MARIA_FLIGHT_WAITS = 1, MARIA_FLIGHT_LOST, MARIA_FLIGHT_OVER };

enum maria_op { MARIA_OP_NONE = 0, MARIA_OP_QUERY, MARIA_OP_STORE, MARIA_OP_NEXT };

struct maria_link {
    struct sql_link link; /* first: the handle is the struct */
    MYSQL *mysql;
    bool is_mariadb;
    struct sql_context *context;

    /* The flight. */
    struct buffer text;
    struct maria_ends ends;         /* where each packet of it ends */
    struct maria_ends packet_steps; /* how many steps the packets up to it have */
    size_t packet, step;
    struct maria_steps steps;
    enum maria_op op;
    enum maria_part part;
    bool is_started, is_in_flight;
    int waits; /* MYSQL_WAIT_… */

    /* The turn. */
    struct sql_turn turn;
    bool has_rows, has_takes, has_pushes; /* among its calls */
    bool is_exact;  /* it is one call that met a lock before: each row is named for itself */
    bool has_runs;  /* rows side by side are named by where they begin and end */
    bool has_moved; /* a number or the lanes of a topic are others than was thought */
    bool is_early;  /* the first flight has locks or takes already */
    bool is_now_known, is_locked, is_direct, is_decided, is_written, is_taken, is_shared;
    bool has_bodies;
    int made_tries;
    int64_t now_ms;
    uint64_t number, delivery; /* first of those for pushes, of those for deliveries */
    uint32_t numbers_used, given;
    int64_t topic_count;
    struct maria_names names;
    struct maria_numbers numbers;
    struct maria_topic_list wanted;
    struct maria_ids ids;
    struct maria_places places;
    struct maria_row_list rows;
    struct maria_events events;
    bool wants_days; /* of the history: another one may have to be made */
    struct maria_taken_list taken;
    struct maria_results results;

    unsigned upkeeps;                 /* of this connection */
    int64_t beat_us;                  /* by the boot clock: when its last beat was committed */
    struct sql_news_list news;        /* heard and not told yet */
    struct maria_sequence_list heard; /* of the last seconds, as a ring */
    size_t heard_next;
    size_t news_at;

    /* Messages of events. */
    MYSQL_RES *messages; /* read and not told yet; NULL: none */
    struct maria_peers peers;
    int64_t listens_since_ms; /* 0: nobody listens here */
    uint64_t message_number;  /* of the last one told, as of the last commit */
    uint64_t messages_said;   /* with the turn's commit */
    int64_t second_us;        /* by the boot clock: when the second of `second_bytes` began */
    size_t second_bytes;
};

/* The calls of a turn, in their order. */
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

/* Purge and redrive, which go in steps. */
static inline bool maria_is_step(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TOPIC &&
           (call->command->topic.verb == QUEUE_TOPIC_PURGE ||
            call->command->topic.verb == QUEUE_TOPIC_REDRIVE);
}

/* ---- faults (fault.c): the first one of a turn counts ---- */

void maria_note_fault(struct maria_link *link, enum sql_fault_kind kind, const char *state,
                      const char *message);
void maria_note_no_memory(struct maria_link *link);
/* What the library says. True: the connection is lost. */
bool maria_note_error(struct maria_link *link);

/* ---- flights (flight.c): statements into the text, with what their answers are ---- */

void maria_flight_begin(struct maria_link *link);
/* A statement begins: what is appended to the text from now on, up to the next one. NULL: out of
 * memory. */
struct buffer *maria_say(struct maria_link *link, struct maria_step step);
struct buffer *maria_say_plain(struct maria_link *link, enum maria_step_kind kind);
void maria_quote(struct buffer *out, struct slice text); /* 'text' */
void maria_quote_bytes(struct buffer *out,
                       struct slice text); /* _binary'text', or NULL where empty */
int64_t maria_number(const char *text);    /* NULL: 0 */
/* The link keeps what it is given until the turn is over; users beside it count in `users`. */
struct maria_result *maria_result_keep(struct maria_link *link, MYSQL_RES *result);
void maria_result_free(void *result);
void maria_results_drop(struct maria_link *link); /* the link's part in all of them */

/* ---- a flight on its way (wire.c) ---- */

/* The text is ready: its first packet goes. False: out of memory, or the connection is gone. */
bool maria_flight_send(struct maria_link *link);
/* `ready`: MYSQL_WAIT_… of its socket. */
enum maria_flight_state maria_flight_advance(struct maria_link *link, int ready);
/* A call of the library's that still waits is let see the end of its connection first. */
void maria_flight_abandon(struct maria_link *link);

/* ---- stages (stages.c): the text of the next flight ---- */

bool maria_turn_begin(struct maria_link *link, const struct sql_turn *turn); /* false: no memory */
bool maria_turn_next(struct maria_link *link); /* false: the first part has no other one */
void maria_turn_commit(struct maria_link *link);
void maria_turn_rollback(struct maria_link *link);

/* ---- the topics that calls name (wanted.c) ---- */

bool maria_want_topics(struct maria_link *link); /* false: out of memory */
/* Those that are to be made, under a lock on how many there are. False: none is. */
bool maria_say_new_topics(struct maria_link *link);

/* ---- topics (topics.c) ---- */

struct maria_topic *maria_topic_want(struct maria_link *link, struct slice name);
struct maria_topic *maria_topic_want_number(struct maria_link *link, uint32_t number);
bool maria_topics_are_read(const struct maria_link *link);
bool maria_topics_are_known(const struct maria_link *link); /* from earlier turns, at least */
void maria_say_topics(struct maria_link *link);
bool maria_read_topics(struct maria_link *link, MYSQL_RES *result);
bool maria_topic_add_lane(struct maria_topic *topic, int32_t lane); /* false: out of memory */
bool maria_topic_has_lane(const struct maria_topic *topic, int32_t lane);
void maria_topics_begin(struct maria_link *link); /* of a turn: none is wanted */
void maria_topics_free(struct maria_link *link);

/* ---- the rows that calls name (locks.c) ---- */

void maria_say_locks(struct maria_link *link);
/* False: out of memory. `owner`: the call that found them by itself. */
bool maria_read_rows(struct maria_link *link, MYSQL_RES *result, struct sql_call *owner);
bool maria_read_acks(struct maria_link *link, MYSQL_RES *result);
bool maria_read_finished(struct maria_link *link, MYSQL_RES *result);

/* ---- counts and news (news.c) ---- */

void maria_say_tallies(struct maria_link *link);
void maria_say_news(struct maria_link *link);
void maria_say_hear(struct maria_link *link);
bool maria_read_news(struct maria_link *link, MYSQL_RES *result); /* false: out of memory */

/* ---- messages of events (messages.c) ---- */

void maria_say_messages(struct maria_link *link); /* of what the turn did */
/* That servers told since the last time. */
void maria_say_messages_since(struct maria_link *link, struct sql_call *call);
bool maria_read_messages(struct maria_link *link, struct sql_call *call,
                         MYSQL_RES *result);                            /* false: out of memory */
bool maria_next_message(struct maria_link *link, struct sql_news *out); /* false: no more */
void maria_messages_listen(struct maria_link *link, bool listens);
void maria_messages_free(struct maria_link *link);

/* ---- rows (rows.c) ---- */

void maria_rows_clear(struct maria_link *link);
/* That of an id, made where the turn has not met it. NULL: out of memory. */
struct maria_row *maria_row_need(struct maria_link *link, struct maria_topic *topic,
                                 struct slice id);
int maria_place_compare(const struct maria_place *a, const struct maria_place *b);
struct maria_row *maria_row_at(struct maria_link *link, const struct maria_place *place);
extern const char maria_row_columns[], maria_ack_columns[];
bool maria_ack_read(struct maria_link *link, MYSQL_ROW row, const unsigned long *lengths);
/* The condition that names rows of one topic and lane, up to its last bracket; by rows of values, since
 * those are looked for by halves, where many conditions would be gone through one by one. */
void maria_say_place(struct buffer *out, const struct maria_place *place, bool is_first);
/* The whole condition for one row. An UPDATE wants it: MariaDB does not take a list of one for a key there, and
 * goes through all jobs of the topic. */
void maria_say_single_place(struct buffer *out, const struct maria_place *place);
/* Runs spare the database the reading of long lists. They meet rows that others hold between their own ones, which
 * ends the turn at once: its calls go again by themselves, and name each row. */
enum { MARIA_RUN_MIN = 16 }; /* a statement for fewer costs more than it spares */
/* The next one in the order of the table. False: it does not belong to the run, which stays as it was. */
bool maria_run_add(struct maria_run *run, const struct maria_place *place, uint64_t delivery,
                   int64_t taken_ms);
void maria_say_span(struct buffer *out, const struct maria_place *first,
                    const struct maria_place *last);
void maria_say_run(struct buffer *out, const struct maria_run *run); /* the whole condition */
/* In front of a statement that changes a run: MariaDB then waits for nobody. */
extern const char maria_no_wait[];
/* Fills in what a statement of those columns brought. NULL: out of memory. */
struct maria_row *maria_row_read(struct maria_link *link, MYSQL_ROW row,
                                 const unsigned long *lengths);
/* All that the turn has changed. */
void maria_say_rows(struct maria_link *link);

/* ---- history (history.c) ---- */

/* What became of a job, as it is before it changes. Its text `event` stays. */
void maria_history_note(struct maria_link *link, const struct maria_row *row, const char *event,
                        struct slice consumer, struct slice error);
void maria_say_history(struct maria_link *link); /* all that was noted */
/* Behind the commit: days that are to come, and those that nobody wants any more. */
void maria_say_history_days(struct maria_link *link);

/* ---- rules (rules.c): what becomes of a job ---- */

bool maria_is_far(int64_t now_ms, const struct queue_when *when); /* further than jobs may wait */
void maria_decide(struct maria_link *link, struct sql_call *call);
/* One row that a call of the kinds purge, redrive, expire has found. */
void maria_decide_own(struct maria_link *link, struct sql_call *call, struct maria_row *row);

/* ---- takes (takes.c) ---- */

void maria_say_takes(struct maria_link *link);
bool maria_read_take(struct maria_link *link, const struct maria_step *step, MYSQL_RES *result);
bool maria_share_takes(struct maria_link *link);
void maria_say_bodies(struct maria_link *link);
bool maria_read_bodies(struct maria_link *link, size_t index, MYSQL_RES *result);
bool maria_fill_takes(struct maria_link *link);
/* They are leased; what waits now. */
void maria_say_taken(struct maria_link *link);
void maria_say_looks(struct maria_link *link);
void maria_read_look(struct maria_link *link, struct maria_topic *topic, uint64_t which,
                     MYSQL_RES *result);
bool maria_share_looks(struct maria_link *link);

/* ---- calls (calls.c): those that read or write by themselves ---- */

void maria_say_call(struct maria_link *link, struct sql_call *call);
bool maria_read_call(struct maria_link *link, const struct maria_step *step, MYSQL_RES *result);
/* The columns that maria_job_read reads, of tarry.job j. */
extern const char maria_job_columns[];
void maria_job_read(struct job *job, MYSQL_ROW row, const unsigned long *lengths, int64_t now_ms);
uint64_t maria_body_bytes(MYSQL_ROW row);
void maria_say_call_end(struct maria_link *link, struct sql_call *call);
bool maria_step_is_procedure(const struct maria_step *step);
void maria_call_steps_on(struct maria_link *link, struct sql_call *call);

#endif
