/*
 * libmariadb: the client library of MariaDB and MySQL, loaded when a store needs it, so that the
 * program does not depend on it.
 *
 * Any thread may load it. Connections follow the library's own rules, in particular that only one
 * thread at a time uses a connection. Functions of the library are called through the table
 * below, so the names of this dialect, which also begin with mysql_, do not conflict with them.
 */
#ifndef TARRY_SQL_MYSQL_LIBMARIADB_H
#define TARRY_SQL_MYSQL_LIBMARIADB_H

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>

#define LIBMARIADB_FUNCTIONS(ROW)                                                                  \
    ROW(mysql_affected_rows)                                                                       \
    ROW(mysql_close)                                                                               \
    ROW(mysql_data_seek)                                                                           \
    ROW(mysql_errno)                                                                               \
    ROW(mysql_error)                                                                               \
    ROW(mysql_fetch_lengths)                                                                       \
    ROW(mysql_fetch_row)                                                                           \
    ROW(mysql_free_result)                                                                         \
    ROW(mysql_get_server_info)                                                                     \
    ROW(mysql_get_socket)                                                                          \
    ROW(mysql_init)                                                                                \
    ROW(mysql_insert_id)                                                                           \
    ROW(mysql_more_results)                                                                        \
    ROW(mysql_next_result)                                                                         \
    ROW(mysql_next_result_cont)                                                                    \
    ROW(mysql_next_result_start)                                                                   \
    ROW(mysql_num_fields)                                                                          \
    ROW(mysql_num_rows)                                                                            \
    ROW(mysql_options)                                                                             \
    ROW(mysql_real_connect)                                                                        \
    ROW(mysql_real_query)                                                                          \
    ROW(mysql_real_query_cont)                                                                     \
    ROW(mysql_real_query_start)                                                                    \
    ROW(mysql_sqlstate)                                                                            \
    ROW(mysql_store_result)                                                                        \
    ROW(mysql_store_result_cont)                                                                   \
    ROW(mysql_store_result_start)

#define LIBMARIADB_MEMBER(NAME) __typeof__(&NAME) NAME;
struct libmariadb {
    LIBMARIADB_FUNCTIONS(LIBMARIADB_MEMBER)
};
#undef LIBMARIADB_MEMBER

/* Valid after libmariadb_load has returned true. */
extern struct libmariadb libmariadb;

/* Loads the library. Returns false with a message for the user if it is not installed or too old. */
bool libmariadb_load(char *error, size_t error_bytes);

#endif
