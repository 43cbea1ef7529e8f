/*
 * session: one server's access to the database. It combines the parts and runs them at the end of
 * each loop iteration: the call queue, in which calls wait; the transaction, which executes them
 * and determines the outcome of a commit without an answer; the connection, and the connector that
 * makes the next one; hints, which a transaction updates; housekeeping, which adds the server's own
 * calls.
 *
 * Calls that arrive during a transaction form the next one. Deadlocks and similar faults are
 * retried. Calls that failed together are retried one by one. While there is no connection, calls
 * wait until they time out.
 *
 * Used on the reactor's thread only.
 */
#ifndef TARRY_SQL_SESSION_H
#define TARRY_SQL_SESSION_H

#include "feed/feed.h"
#include "net/reactor.h"
#include "queue/queue.h"
#include "sql/dialect.h"

struct sql_session;

struct sql_session_options {
    const char *url; /* copied */
    uint32_t topics_max;
    int64_t timeout_ms;     /* timeout for calls while the database is unreachable */
    struct feed_desk *desk; /* receives events; NULL: no feed */
};

struct sql_session_figures {
    uint64_t turns, calls, repeated, reconnects, settled, flushed, refused, clock_corrections;
    int64_t clock_adjust_ms;
    int64_t waiting; /* calls without a reply */
    bool is_up, is_full;
};

/* Creates a session and takes ownership of the greeting's connection. Returns NULL if out of
 * memory; the caller then still owns the connection. */
struct sql_session *sql_session_new(struct reactor *reactor,
                                    const struct sql_session_options *options,
                                    const struct sql_greeting *greeting, struct queue *queue);
void sql_session_submit(struct sql_session *session, const struct command *command,
                        struct queue_reply_to reply_to);
void sql_session_watch(struct sql_session *session, struct slice topic, bool on);
/* Stops the session: new calls are answered STOPPING. Calls `stopped` when the others are answered,
 * or after a timeout. */
void sql_session_stop(struct sql_session *session, void (*stopped)(void *ctx), void *ctx);
void sql_session_free(struct sql_session *session);

void sql_session_figures(const struct sql_session *session, struct sql_session_figures *out);
/* Returns the last greeting: name, durability, version. */
const struct sql_greeting *sql_session_greeting(const struct sql_session *session);
/* Returns true if no call is in progress and nothing is due. For tests that move the clock. */
bool sql_session_is_quiet(struct sql_session *session);

#endif
