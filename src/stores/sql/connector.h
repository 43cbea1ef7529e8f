/*
 * connector: makes a session's next connection on a helper thread, since connecting blocks. Retries
 * with increasing delays until it succeeds.
 *
 * Used on the reactor's thread.
 */
#ifndef TARRY_SQL_CONNECTOR_H
#define TARRY_SQL_CONNECTOR_H

#include "net/reactor.h"
#include "net/worker.h"
#include "sql/dialect.h"

/* Receives the result. `greeting` is NULL if the attempt failed, with the reason in `error`.
 * Returns false to reject the link, which is then closed. */
typedef bool sql_connected(void *ctx, const struct sql_greeting *greeting, const char *error);

struct sql_connector { /* A connector; closed if zeroed. */
    const struct sql_dialect *dialect;
    char *url;
    struct worker *worker;
    struct sql_attempt *attempt; /* in progress, or NULL */
    int64_t next_ms, wait_ms;    /* elapsed time */
    sql_connected *connected;
    void *ctx;
};

/* Opens a connector and copies `url`. Returns false if out of memory; closing it is still allowed. */
bool sql_connector_open(struct sql_connector *connector, struct reactor *reactor,
                        const struct sql_dialect *dialect, const char *url,
                        sql_connected *connected, void *ctx);
void sql_connector_close(struct sql_connector *connector);

/* Starts an attempt if no other is in progress and the delay after the last failure has passed. */
void sql_connector_try(struct sql_connector *connector, const struct sql_wish *wish);
/* Resets the delay after a successful connection. */
void sql_connector_reset(struct sql_connector *connector);

#endif
