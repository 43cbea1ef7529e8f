#include "sql/connection.h"

#include <stdlib.h>

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sql_connection *connection = poll->data;
    struct sql_link *link = connection->context->link;
    enum sql_progress progress;
    if (connection->is_lost)
        return;
    int ready = (events & UV_READABLE || status < 0 ? SQL_READABLE : 0) |
                (events & UV_WRITABLE ? SQL_WRITABLE : 0);
    progress = link->dialect->advance(link, connection->context, ready);
    /* On an error, libuv stops polling. All that could be read has been read. */
    connection->is_lost = progress == SQL_LOST || status < 0;
    connection->on_advance(connection->ctx, progress == SQL_PART_OVER);
    sql_connection_poll(connection);
}

void sql_connection_poll(struct sql_connection *connection)
{
    const struct sql_link *link = connection->context->link;
    int wants = link->dialect->wants(link), events = 0;
    if (wants & SQL_READABLE)
        events |= UV_READABLE;
    if (wants & SQL_WRITABLE)
        events |= UV_WRITABLE;
    if (events != connection->poll_events)
        (void)uv_poll_start(connection->poll, events, on_poll);
    connection->poll_events = events;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static uv_poll_t *poll_new(struct sql_connection *connection, const struct sql_link *link)
{
    uv_poll_t *poll = malloc(sizeof *poll);
    if (poll &&
        uv_poll_init(reactor_loop(connection->reactor), poll, link->dialect->socket(link)) != 0) {
        free(poll);
        return NULL;
    }
    if (poll)
        poll->data = connection;
    return poll;
}

bool sql_connection_open(struct sql_connection *connection, struct sql_link *link, bool needs_flush)
{
    if (!sql_flush_connect(&connection->flush, link))
        return false;
    connection->poll = connection->flush.link || !needs_flush ? poll_new(connection, link) : NULL;
    if (!connection->poll) {
        sql_flush_disconnect(&connection->flush);
        return false;
    }
    connection->poll_events = 0;
    connection->context->link = link;
    sql_connection_poll(connection);
    return true;
}

void sql_connection_close(struct sql_connection *connection)
{
    struct sql_link *link = connection->context->link;
    sql_flush_disconnect(&connection->flush);
    if (!link)
        return;
    (void)uv_poll_stop(connection->poll);
    uv_close((uv_handle_t *)connection->poll, on_closed);
    connection->poll = NULL;
    connection->is_lost = false;
    link->dialect->close(link);
    connection->context->link = NULL;
}
