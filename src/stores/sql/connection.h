/*
 * connection: a session's connection to the database on the reactor's loop: the link for
 * transactions, which is advanced when its socket is ready, and the second connection for the disk
 * (flush.h).
 *
 * Used on the reactor's thread only.
 */
#ifndef TARRY_SQL_CONNECTION_H
#define TARRY_SQL_CONNECTION_H

#include "net/reactor.h"
#include "sql/dialect.h"
#include "sql/flush.h"

struct sql_connection {
    struct reactor *reactor;
    struct sql_context *context; /* owner of the link; its link is NULL if not connected */
    struct sql_flush flush;
    uv_poll_t *poll;
    int poll_events;
    bool is_lost; /* no longer usable, must be closed */
    /* Called when data has arrived: results, which may complete the part in progress, or
     * notifications. */
    void (*on_advance)(void *ctx, bool is_part_over);
    void *ctx;
};

/* Returns false if out of memory, or if a connection for the disk is needed but missing. The caller
 * then still owns the link. */
bool sql_connection_open(struct sql_connection *connection, struct sql_link *link,
                         bool needs_flush);
void sql_connection_close(struct sql_connection *connection);
/* Updates the events to wait for. Must be called after each send. */
void sql_connection_poll(struct sql_connection *connection);

#endif
