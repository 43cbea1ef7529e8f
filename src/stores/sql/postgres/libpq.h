/*
 * libpq: PostgreSQL's client library, loaded when a store needs it, so that the program does not
 * depend on it.
 *
 * Any thread may load it. Connections follow libpq's own rules, in particular that only one thread
 * at a time uses a connection.
 */
#ifndef TARRY_SQL_POSTGRES_LIBPQ_H
#define TARRY_SQL_POSTGRES_LIBPQ_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
