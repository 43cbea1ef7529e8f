/*
 * session: one server's way to the database. It puts the parts together and drives them at the end of
 * each turn of the loop: the call queue, in which calls wait; the transaction, which carries them
 * through and settles what became of a commit whose answer never came; the connection it goes on, and
 * the connector that makes the next one; hints, which a turn leaves behind; housekeeping, by which
 * the server adds calls of its own.
 *
 * What came while a turn was under way goes as the next one. Deadlocks and the like are repeated; calls
 * that failed together go again one by one. While no connection is there, calls wait for as long as
 * their patience.
 *
 * Everything on the reactor's thread.
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
    int64_t patience_ms;    /* how long a call waits for a database out of reach */
    struct feed_desk *desk; /* where what happens is told; NULL: nowhere */
};

struct sql_session_figures {
    uint64_t turns, calls, repeated, reconnects, settled, flushed;
    int64_t waiting; /* calls without a reply */
    bool is_up, is_full;
};

/* The greeting's connection is the session's from then on. NULL: out of memory; then it is still the
 * caller's. */
struct sql_session *sql_session_new(struct reactor *reactor,
                                    const struct sql_session_options *options,
                                    const struct sql_greeting *greeting, struct queue *queue);
void sql_session_submit(struct sql_session *session, const struct command *command,
                        struct queue_reply_to reply_to);
void sql_session_watch(struct sql_session *session, struct slice topic, bool on);
/* New calls are answered STOPPING; `stopped` once the others are answered, or time is over. */
void sql_session_stop(struct sql_session *session, void (*stopped)(void *ctx), void *ctx);
void sql_session_free(struct sql_session *session);

void sql_session_figures(const struct sql_session *session, struct sql_session_figures *out);
/* The last greeting: name, durability, version. */
const struct sql_greeting *sql_session_greeting(const struct sql_session *session);
/* No call under way and nothing due: for tests that move the clock. */
bool sql_session_is_quiet(struct sql_session *session);

#endif
