/*
 * sync_connection: one blocking connection to one server, for startup and fsck, which have no
 * reactor. Errors are written into a report, for people.
 */
#ifndef TARRY_REDIS_SYNC_CONNECTION_H
#define TARRY_REDIS_SYNC_CONNECTION_H

#include "base/error.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

enum { REDIS_SYNC_MS = 5000 /* to connect, and for each reply */, REDIS_SYNC_WHY_BYTES = 300 };

/* The destination of the one error that ends the operation. */
struct redis_report {
    char *error;
    size_t error_bytes;
};

/* Writes the error and returns `code`. */
#define REDIS_REPORT(REPORT, CODE, ...)                                                            \
    error_result((CODE), (REPORT)->error, (REPORT)->error_bytes, __VA_ARGS__)

struct redis_sync_connection {
    redisContext *context;
    struct tls_session *session; /* NULL: not encrypted */
    bool has_answered;
    char place[REDIS_ENDPOINT_NAME_BYTES]; /* the server's address, for people */
    const struct redis_report *report;
};

/* Connects and, if there is a user or a password, authenticates. */
int redis_sync_connection_open(struct redis_sync_connection *connection,
                               const struct redis_endpoint *endpoint, const struct redis_tls *tls,
                               const char *user, const char *password,
                               const struct redis_report *report);
/* Does nothing for a zeroed one. */
void redis_sync_connection_close(struct redis_sync_connection *connection);
/* Selects the URL's database. */
int redis_sync_connection_select(struct redis_sync_connection *connection, uint32_t db);
/* Sends a command of NUL-terminated words, with NULL after the last, and returns the reply. Returns
 * NULL, after reporting it, if the connection ended. An error from Redis is a reply. */
redisReply *redis_sync_connection_ask(struct redis_sync_connection *connection,
                                      const char *const *words);
#define REDIS_SYNC_ASK(connection, ...)                                                            \
    redis_sync_connection_ask((connection), (const char *const[]){__VA_ARGS__, NULL})
/* Does the same with words of arbitrary bytes, and reports nothing: `why` (REDIS_SYNC_WHY_BYTES)
 * receives the reason if the connection ended. */
redisReply *redis_sync_connection_try(const struct redis_sync_connection *connection, int argc,
                                      const char **argv, const size_t *lengths, char *why);
/* Reports a reply that is an error (a missing reply has been reported already); `doing` is for
 * people. */
int redis_sync_connection_refused(const struct redis_sync_connection *connection,
                                  const redisReply *reply, const char *doing);
bool redis_sync_connection_is_error(const redisReply *reply, const char *prefix);

#endif
