/*
 * connection: a session's connection to the database as the reactor's loop sees it: the link that turns
 * go on, which is told when what it waits for has come, and beside it the one for the disk (flush.h).
 *
 * Everything on the reactor's thread.
 */
#ifndef TARRY_SQL_CONNECTION_H
#define TARRY_SQL_CONNECTION_H

#include "net/reactor.h"
#include "sql/dialect.h"
#include "sql/flush.h"

struct sql_connection {
    struct reactor *reactor;
    struct sql_context *context; /* whose link it is; NULL there: none */
    struct sql_flush flush;
    uv_poll_t *poll;
    int poll_events;
    bool is_lost; /* of no use any more: to be closed */
    /* Something came: answers, of which the part under way may be over, or news. */
    void (*on_advance)(void *ctx, bool is_part_over);
    void *ctx;
};

/* False: out of memory, or there is none for the disk though it is needed; the link is still the
 * caller's. */
bool sql_connection_open(struct sql_connection *connection, struct sql_link *link,
                         bool needs_flush);
void sql_connection_close(struct sql_connection *connection);
/* After something was sent: the link may wait for something else. */
void sql_connection_poll(struct sql_connection *connection);

#endif
