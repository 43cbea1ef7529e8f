/*
 * sync_connection: one blocking conversation with one server, for the start and for fsck, which have no
 * reactor. What goes wrong is written into a report, for people.
 */
#ifndef TARRY_REDIS_SYNC_CONNECTION_H
#define TARRY_REDIS_SYNC_CONNECTION_H

#include "base/error.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

enum { REDIS_SYNC_MS = 5000 /* to connect, and for each answer */, REDIS_SYNC_WHY_BYTES = 300 };

/* Takes the one error that ends it all. */
struct redis_report {
    char *error;
    size_t error_bytes;
};

/* Writes the error; gives `code` back. */
#define REDIS_REPORT(REPORT, CODE, ...)                                                            \
    error_result((CODE), (REPORT)->error, (REPORT)->error_bytes, __VA_ARGS__)

struct redis_sync_connection {
    redisContext *context;
    struct tls_session *session; /* NULL: plain */
    bool has_answered;
    char place[REDIS_ENDPOINT_NAME_BYTES]; /* for people */
    const struct redis_report *report;
};

/* Connects and, where there is a user or a password, logs in. */
int redis_sync_connection_open(struct redis_sync_connection *connection,
                               const struct redis_endpoint *endpoint, const struct redis_tls *tls,
                               const char *user, const char *password,
                               const struct redis_report *report);
/* Of a zeroed one: nothing. */
void redis_sync_connection_close(struct redis_sync_connection *connection);
/* Makes the URL's database the one that is asked. */
int redis_sync_connection_select(struct redis_sync_connection *connection, uint32_t db);
/* The answer to a command of NUL-terminated words, NULL behind the last; NULL where the connection
 * ended (reported). An error of Redis' is an answer. */
redisReply *redis_sync_connection_ask(struct redis_sync_connection *connection,
                                      const char *const *words);
#define REDIS_SYNC_ASK(connection, ...)                                                            \
    redis_sync_connection_ask((connection), (const char *const[]){__VA_ARGS__, NULL})
/* The same of words of any bytes, which reports nothing: `why` (REDIS_SYNC_WHY_BYTES) says why the
 * connection ended. */
redisReply *redis_sync_connection_try(const struct redis_sync_connection *connection, int argc,
                                      const char **argv, const size_t *lengths, char *why);
/* Reports an answer that is an error (or missing: has been reported); `doing` is for people. */
int redis_sync_connection_refused(const struct redis_sync_connection *connection,
                                  const redisReply *reply, const char *doing);
bool redis_sync_connection_is_error(const redisReply *reply, const char *prefix);

#endif
