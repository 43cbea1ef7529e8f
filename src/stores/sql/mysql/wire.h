/*
 * wire: the pipelines of a connection.
 *
 * A pipeline is a text of several statements, sent together, and their results. Each statement is a
 * step, which names the function that reads its result. Steps are in the order in which their
 * statements are sent and answered. A text that is too long for the database is cut into packets.
 */
#ifndef TARRY_SQL_MYSQL_WIRE_H
#define TARRY_SQL_MYSQL_WIRE_H

#include "base/buffer.h"
#include "base/vector.h"
#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/mysql/libmariadb.h"

struct mysql_link;

struct mysql_result { /* A result shared by several calls. */
    MYSQL_RES *result;
    int users;
};
VECTOR_DECLARE(mysql_results, struct mysql_result *)

struct mysql_step;
struct mysql_topic;

/* Reads the result of a step, NULL if the statement returns no rows. The result is freed afterwards
 * unless the function takes it (mysql_result_take). Returns false if out of memory. */
typedef bool mysql_reader(struct mysql_link *link, const struct mysql_step *step,
                          MYSQL_RES *result);

struct mysql_step {     /* A statement of a pipeline. */
    mysql_reader *read; /* NULL: the result is not used */
    struct sql_call *call;
    struct mysql_topic *topic;
    uint64_t number;
    bool is_procedure; /* returns rows, and then a status that ends the step */
    bool is_optional;  /* after the commit; its failure does not affect the rest */
    bool repeats;      /* is prepared if its form comes again (prepared.h) */
    bool is_guess;     /* if it meets a lock, the transaction is repeated without it */
};
VECTOR_DECLARE(mysql_steps, struct mysql_step)
VECTOR_DECLARE(mysql_ends, size_t)

enum mysql_pipeline_state { MYSQL_PIPELINE_WAITS = 1, MYSQL_PIPELINE_LOST, MYSQL_PIPELINE_OVER };

enum mysql_op { MYSQL_OP_NONE = 0, MYSQL_OP_QUERY, MYSQL_OP_STORE, MYSQL_OP_NEXT };

struct mysql_wire { /* The pipeline in progress. */
    struct buffer text;
    struct mysql_ends ends;         /* end of each packet in `text` */
    struct mysql_ends packet_steps; /* number of steps up to the end of each packet */
    size_t packet, step;
    size_t begun; /* beginning of the last statement in `text` */
    struct mysql_steps steps;
    enum mysql_op op;
    bool is_started; /* the library's call waits for the socket */
    bool is_in_flight;
    int waits;                    /* MYSQL_WAIT_… */
    MYSQL_RES *result;            /* of the step that is read; NULL: taken */
    struct mysql_results results; /* kept until the end of the transaction */
};

/* ---- faults: only the first one of a transaction counts ---- */

void mysql_note_fault(struct mysql_link *link, enum sql_fault_kind kind, const char *state,
                      const char *message);
void mysql_note_no_memory(struct mysql_link *link);

/* ---- the text and its steps ---- */

/* Drops the text and the steps of the pipeline before. */
void mysql_pipeline_begin(struct mysql_link *link);
/* Begins a statement: the caller appends to the returned text until the next call. The text's
 * `failed` is set if out of memory. `read`: reads the result; NULL: it is not used. */
struct buffer *mysql_statement(struct mysql_link *link, mysql_reader *read);
struct buffer *mysql_statement_repeated(struct mysql_link *link, mysql_reader *read);
struct buffer *mysql_statement_of(struct mysql_link *link, struct mysql_step step);
/* The statement must change exactly `count` rows, which the transaction has locked. */
struct buffer *mysql_statement_changing_apart(struct mysql_link *link, size_t count);
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

/* ---- sending ---- */

/* Sends the first packet of the text. Returns false if out of memory or if the connection is lost. */
bool mysql_pipeline_send(struct mysql_link *link);
/* Continues the pipeline. `ready`: MYSQL_WAIT_… of its socket. */
enum mysql_pipeline_state mysql_pipeline_advance(struct mysql_link *link, int ready);
/* Shuts the connection down and lets a pending call of the library notice this. */
void mysql_pipeline_abandon(struct mysql_link *link);

#endif
