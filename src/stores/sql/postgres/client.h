/*
 * client: a blocking connection to PostgreSQL.
 */
#ifndef TARRY_SQL_POSTGRES_CLIENT_H
#define TARRY_SQL_POSTGRES_CLIENT_H

#include "sql/dialect.h"
#include "sql/postgres/libpq.h"

extern const struct sql_client_ops postgres_client;

/* The dialect's steps of a greeting. */
bool postgres_is_usable(struct sql_client *client, char *error, size_t error_bytes);
bool postgres_set_up(struct sql_client *client, struct sql_greeting *out);

/* Formats the URL without its password and parameters, for display. */
void postgres_place(const char *url, char *out, size_t out_bytes);

#endif
