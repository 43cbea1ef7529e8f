/*
 * client: a blocking connection to a database, for everything but the transactions of a session:
 * the greeting, the schema, tokens and fsck.
 *
 * A question is a text with its arguments. Its answer is rows of texts, which are copies. A dialect
 * provides the connection and its own statements; the questions are asked in common files.
 *
 * One thread at a time. Not on a reactor's thread.
 */
#ifndef TARRY_SQL_CLIENT_H
#define TARRY_SQL_CLIENT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sql_dialect;

enum { SQL_REFUSAL_BYTES = 400 };

enum sql_refusal { /* Why the last question failed. */
                   SQL_REFUSAL_NONE = 0,
                   SQL_REFUSAL_LOST,   /* the connection is lost */
                   SQL_REFUSAL_LOCKED, /* another transaction holds a lock */
                   SQL_REFUSAL_DENIED, /* the user lacks a right */
                   SQL_REFUSAL_ABSENT, /* there is no such schema or table */
                   SQL_REFUSAL_OTHER
};

struct sql_client {
    const struct sql_dialect *dialect;
    void *connection; /* of the client library; NULL: not connected */
    enum sql_refusal refusal;
    char message[SQL_REFUSAL_BYTES]; /* of the database, as one line */
};

/* An argument, which the text names $1, $2, … . Texts end with NUL. */
struct sql_arg {
    enum sql_arg_kind { SQL_ARG_NUMBER = 1, SQL_ARG_TEXT, SQL_ARG_BYTES } kind;
    int64_t number;
    struct slice text;
};
enum { SQL_ARGS_MAX = 3 };
struct sql_args {
    size_t count;
    struct sql_arg at[SQL_ARGS_MAX];
};

static inline struct sql_arg sql_arg_number(int64_t number)
{
    return (struct sql_arg){.kind = SQL_ARG_NUMBER, .number = number};
}
static inline struct sql_arg sql_arg_text(const char *text)
{
    return (struct sql_arg){.kind = SQL_ARG_TEXT, .text = slice_of(text)};
}
static inline struct sql_arg sql_arg_bytes(struct slice bytes)
{
    return (struct sql_arg){.kind = SQL_ARG_BYTES, .text = bytes};
}

struct sql_rows { /* An answer; empty if zeroed. */
    size_t count, columns;
    uint64_t changed; /* number of rows that the statement has changed */
    /* Row by row, each followed by NUL. `at` is NULL for NULL. */
    struct slice *cells;
    size_t cell_count, bytes; /* filled in so far */
};

/* Operations of a dialect. */
struct sql_client_ops {
    /* Returns NULL on failure, with the reason in `error`. */
    void *(*connect)(const char *url, char *error, size_t error_bytes);
    void (*disconnect)(void *connection);
    /* Fills in `rows`, which is empty, or sets the client's refusal and message. `args` may be NULL. */
    bool (*ask)(struct sql_client *client, const char *text, const struct sql_args *args,
                struct sql_rows *rows);
};

/* Connects. Returns false with the reason in `error`. */
bool sql_client_open(struct sql_client *client, const struct sql_dialect *dialect, const char *url,
                     char *error, size_t error_bytes);
void sql_client_close(struct sql_client *client); /* accepts one that is not connected */

/* Asks. The statements of a text with several ones are separated by semicolons; they have no
 * arguments, and the rows are those of the last one. Returns false if the question failed, with
 * `refusal` and `message`. The caller frees the rows; NULL: they are not needed. */
bool sql_ask(struct sql_client *client, const char *text, const struct sql_args *args,
             struct sql_rows *rows);
/* Asks for exactly one row. Another number counts as a failure. */
bool sql_ask_row(struct sql_client *client, const char *text, const struct sql_args *args,
                 struct sql_rows *row);
void sql_rows_fini(struct sql_rows *rows);

struct slice sql_rows_text(const struct sql_rows *rows, size_t row, size_t column);
bool sql_rows_is_null(const struct sql_rows *rows, size_t row, size_t column);
/* NULL is read as 0. */
int64_t sql_rows_number(const struct sql_rows *rows, size_t row, size_t column);

/* Makes room for so many cells with so many bytes in total; for dialects. Returns false if out of
 * memory. */
bool sql_rows_init(struct sql_rows *rows, size_t count, size_t columns, size_t bytes);
/* Returns the memory of the next cell, for its bytes. */
char *sql_rows_add(struct sql_rows *rows, size_t bytes);
void sql_rows_add_null(struct sql_rows *rows);
/* Notes why a question failed. Returns false. The message becomes one line. */
bool sql_client_refuse(struct sql_client *client, enum sql_refusal refusal, const char *message);

/* ---- libraries of databases ---- */

/*
 * Loads a database's own client library when a store needs it, so that the program
 * does not depend on it. Any thread.
 */
struct sql_client_library {
    const char *file;     /* for example libpq.so.5 */
    const char *database; /* name of its database */
    const char *package;  /* name of its Debian package */
    /* Functions to load, and where to store their addresses. */
    const struct sql_client_function {
        const char *name;
        void *into;
    } * functions;
    size_t count;
    bool is_loaded;
};

/* Loads the library. Returns false with a message for the user if it is not installed or too old. A
 * loaded library is never unloaded. */
bool sql_client_library_load(struct sql_client_library *library, char *error, size_t error_bytes);

#endif
