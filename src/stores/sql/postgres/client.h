/*
 * client: a blocking connection to PostgreSQL.
 */
#ifndef TARRY_SQL_POSTGRES_CLIENT_H
#define TARRY_SQL_POSTGRES_CLIENT_H

#include "sql/dialect.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * libpq: PostgreSQL's client library, loaded when a store needs it, so that the program does not
 * depend on it.
 *
 * Any thread may load it. Connections follow libpq's own rules, in particular that only one thread
 * at a time uses a connection.
 */

#define LIBPQ_FUNCTIONS(ROW)                                                                       \
    ROW(PQbackendPID)                                                                              \
    ROW(PQclear)                                                                                   \
    ROW(PQcmdTuples)                                                                               \
    ROW(PQconnectdbParams)                                                                         \
    ROW(PQconninfoFree)                                                                            \
    ROW(PQconninfoParse)                                                                           \
    ROW(PQconsumeInput)                                                                            \
    ROW(PQenterPipelineMode)                                                                       \
    ROW(PQerrorMessage)                                                                            \
    ROW(PQexec)                                                                                    \
    ROW(PQexecParams)                                                                              \
    ROW(PQfinish)                                                                                  \
    ROW(PQflush)                                                                                   \
    ROW(PQfreemem)                                                                                 \
    ROW(PQftype)                                                                                   \
    ROW(PQgetResult)                                                                               \
    ROW(PQgetisnull)                                                                               \
    ROW(PQgetlength)                                                                               \
    ROW(PQgetvalue)                                                                                \
    ROW(PQisBusy)                                                                                  \
    ROW(PQnfields)                                                                                 \
    ROW(PQnotifies)                                                                                \
    ROW(PQntuples)                                                                                 \
    ROW(PQpipelineSync)                                                                            \
    ROW(PQprepare)                                                                                 \
    ROW(PQresultErrorField)                                                                        \
    ROW(PQresultErrorMessage)                                                                      \
    ROW(PQresultStatus)                                                                            \
    ROW(PQsendQueryPrepared)                                                                       \
    ROW(PQserverVersion)                                                                           \
    ROW(PQsetNoticeProcessor)                                                                      \
    ROW(PQsetnonblocking)                                                                          \
    ROW(PQsocket)                                                                                  \
    ROW(PQstatus)

#define LIBPQ_MEMBER(NAME) __typeof__(&NAME) NAME;
struct libpq {
    LIBPQ_FUNCTIONS(LIBPQ_MEMBER)
};
#undef LIBPQ_MEMBER

/* Valid after libpq_load has returned true. */
extern struct libpq libpq;

/* Loads the library. Returns false with a message for the user if it is not installed or too old. */
bool libpq_load(char *error, size_t error_bytes);

extern const struct sql_client_ops postgres_client;

/* The dialect's steps of a greeting. */
bool postgres_is_usable(struct sql_client *client, char *error, size_t error_bytes);
bool postgres_set_up(struct sql_client *client, struct sql_greeting *out);

/* Formats the URL without its password and parameters, for display. */
void postgres_place(const char *url, char *out, size_t out_bytes);

#endif
