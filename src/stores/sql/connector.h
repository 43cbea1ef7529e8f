/*
 * connector: makes a session's next connection, on a helper thread, since that blocks; again and again,
 * with longer and longer waits, as long as it fails.
 *
 * The reactor's thread.
 */
#ifndef TARRY_SQL_CONNECTOR_H
#define TARRY_SQL_CONNECTOR_H

#include "net/reactor.h"
#include "net/worker.h"
#include "sql/dialect.h"

/* `greeting` NULL: it failed, as `error` says. False: its link is not wanted, and closed. */
typedef bool sql_connected(void *ctx, const struct sql_greeting *greeting, const char *error);

struct sql_connector { /* zeroed: a closed one */
    const struct sql_dialect *dialect;
    char *url;
    struct worker *worker;
    struct sql_attempt *attempt; /* under way; NULL: none */
    int64_t next_ms, wait_ms;    /* elapsed time */
    sql_connected *connected;
    void *ctx;
};

/* False: out of memory; it may be closed all the same. `url` is copied. */
bool sql_connector_open(struct sql_connector *connector, struct reactor *reactor,
                        const struct sql_dialect *dialect, const char *url,
                        sql_connected *connected, void *ctx);
void sql_connector_close(struct sql_connector *connector);

/* Where none is under way, and the wait after the last one that failed is over. */
void sql_connector_try(struct sql_connector *connector, const struct sql_wish *wish);
/* There was one: the next need not wait. */
void sql_connector_reset(struct sql_connector *connector);

#endif
