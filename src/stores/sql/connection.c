#include "sql/connection.h"

#include "base/clock.h"
#include "net/activity.h"
#include "sql/schema.h"

#include <stdlib.h>
#include <string.h>

/* ---- flushes ---- */

enum {
    DISK_SLOW_US = 2000,
    DISK_SAMPLES = 8,
    OVERLAPS = 16 /* number of durable transactions flushed after a take that arrived during one */
};

void sql_flush_init(struct sql_flush *flush, struct reactor *reactor)
{
    *flush = (struct sql_flush){.reactor = reactor};
    list_init(&flush->calls);
}

static void on_flush_poll(uv_poll_t *poll, int status, int events)
{
    struct sql_flush *flush = poll->data;
    enum sql_progress progress = flush->link->dialect->advance_flush(flush->link);
    (void)events;
    flush->is_lost = flush->is_lost || status < 0 || progress == SQL_LOST;
    if (progress == SQL_PART_OVER && flush->is_under_way) {
        flush->is_under_way = false;
        flush->is_over = true;
    }
    if (flush->is_lost)
        (void)uv_poll_stop(poll);
    reactor_iterate_again(flush->reactor);
}

bool sql_flush_connect(struct sql_flush *flush, struct sql_link *link)
{
    uv_poll_t *poll;
    int socket = link->dialect->flush_socket ? link->dialect->flush_socket(link) : -1;
    if (socket < 0)
        return true;
    poll = malloc(sizeof *poll);
    if (!poll)
        return false;
    if (uv_poll_init(reactor_loop(flush->reactor), poll, socket) != 0) {
        free(poll);
        return false;
    }
    poll->data = flush;
    flush->poll = poll;
    flush->link = link;
    (void)uv_poll_start(poll, UV_READABLE, on_flush_poll);
    return true;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void sql_flush_disconnect(struct sql_flush *flush)
{
    if (flush->poll) {
        (void)uv_poll_stop(flush->poll);
        uv_close((uv_handle_t *)flush->poll, on_closed);
    }
    flush->poll = NULL;
    flush->link = NULL;
    flush->is_cut = flush->is_cut || flush->is_under_way;
    flush->is_under_way = flush->is_lost = false;
}

bool sql_flush_choose(struct sql_flush *flush, bool is_durable, bool is_of_schedules)
{
    bool is_wanted = flush->overlaps > 0 && (is_of_schedules || flush->disk_us >= DISK_SLOW_US);
    flush->overlaps -= is_durable && flush->overlaps > 0;
    return is_durable && is_wanted && flush->link;
}

void sql_flush_note_take(struct sql_flush *flush)
{
    flush->overlaps = OVERLAPS;
}

/* Updates a moving average. */
void sql_flush_note_disk(struct sql_flush *flush, int64_t begun_us)
{
    flush->disk_us += (clock_boot_us() - begun_us - flush->disk_us) / DISK_SAMPLES;
}

bool sql_flush_is_busy(const struct sql_flush *flush)
{
    return flush->is_under_way || !list_is_empty(&flush->calls);
}

void sql_flush_add(struct sql_flush *flush, struct sql_call *call)
{
    list_add_last(&flush->calls, &call->list);
}

void sql_flush_begin(struct sql_flush *flush)
{
    if (!flush->link || flush->is_under_way || flush->is_over || list_is_empty(&flush->calls))
        return;
    flush->begun_us = clock_boot_us();
    flush->is_under_way = flush->link->dialect->send_flush(flush->link);
    flush->is_lost = flush->is_lost || !flush->is_under_way;
}

void sql_flush_take(struct sql_flush *flush, struct list *out)
{
    sql_flush_note_disk(flush, flush->begun_us);
    list_init(out);
    list_take_all(out, &flush->calls);
    flush->is_over = false;
}

void sql_flush_take_lost(struct sql_flush *flush, int64_t ticket, struct list *out)
{
    struct list *at = flush->calls.next;
    list_init(out);
    while (at != &flush->calls) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        at = at->next;
        if (call->ticket <= ticket)
            continue;
        list_remove(&call->list);
        list_add_last(out, &call->list);
    }
}

/* ---- the connection ---- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sql_connection *connection = poll->data;
    struct sql_link *link = connection->context->link;
    enum sql_progress progress;
    if (connection->is_lost)
        return;
    int ready = (events & UV_READABLE || status < 0 ? SQL_READABLE : 0) |
                (events & UV_WRITABLE ? SQL_WRITABLE : 0);
    activity_begin("replies of the database");
    progress = link->dialect->advance(link, connection->context, ready);
    /* On an error, libuv stops polling. All that could be read has been read. */
    connection->is_lost = progress == SQL_LOST || status < 0;
    connection->on_advance(connection->ctx, progress == SQL_PART_OVER);
    sql_connection_poll(connection);
}

void sql_connection_poll(struct sql_connection *connection)
{
    const struct sql_link *link = connection->context->link;
    if (connection
            ->is_lost) { /* the library may have closed the socket, which libuv must not use */
        (void)uv_poll_stop(connection->poll);
        connection->poll_events = 0;
        return;
    }
    int wants = link->dialect->wants(link), events = 0;
    if (wants & SQL_READABLE)
        events |= UV_READABLE;
    if (wants & SQL_WRITABLE)
        events |= UV_WRITABLE;
    if (events != connection->poll_events)
        (void)uv_poll_start(connection->poll, events, on_poll);
    connection->poll_events = events;
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

/* ---- the next connection ---- */

enum { WAIT_MS = 100, WAIT_MS_MAX = 2000 };

struct sql_attempt {
    struct work work;
    struct sql_connector *connector;
    struct sql_wish wish;
    struct sql_greeting greeting;
    bool is_done;
};

bool sql_connector_open(struct sql_connector *connector, struct reactor *reactor,
                        const struct sql_dialect *dialect, const char *url,
                        sql_connected *connected, void *ctx)
{
    *connector = (struct sql_connector){.dialect = dialect, .connected = connected, .ctx = ctx};
    connector->url = strdup(url);
    connector->worker = worker_new(reactor, dialect->name);
    sql_connector_reset(connector);
    return connector->url && connector->worker;
}

void sql_connector_close(struct sql_connector *connector)
{
    if (connector->worker)
        worker_free(connector->worker);
    if (connector->attempt && connector->attempt->is_done)
        connector->dialect->close(connector->attempt->greeting.link);
    free(connector->attempt);
    free(connector->url);
    *connector = (struct sql_connector){0};
}

void sql_connector_reset(struct sql_connector *connector)
{
    connector->next_ms = clock_boot_ms();
    connector->wait_ms = WAIT_MS;
}

static void attempt_perform(struct work *work)
{
    struct sql_attempt *attempt = (struct sql_attempt *)(void *)work;
    attempt->is_done = sql_greet(attempt->connector->dialect, &attempt->wish, &attempt->greeting);
}

static void attempt_failed(struct sql_connector *connector)
{
    connector->next_ms = clock_boot_ms() + connector->wait_ms;
    connector->wait_ms =
        connector->wait_ms * 2 < WAIT_MS_MAX ? connector->wait_ms * 2 : WAIT_MS_MAX;
}

static void attempt_done(struct work *work)
{
    struct sql_attempt *attempt = (struct sql_attempt *)(void *)work;
    struct sql_connector *connector = attempt->connector;
    connector->attempt = NULL;
    if (!attempt->is_done) {
        attempt_failed(connector);
        (void)connector->connected(connector->ctx, NULL, attempt->greeting.error);
    } else if (!connector->connected(connector->ctx, &attempt->greeting, NULL)) {
        attempt_failed(connector);
        connector->dialect->close(attempt->greeting.link);
    }
    free(attempt);
}

void sql_connector_try(struct sql_connector *connector, const struct sql_wish *wish)
{
    if (connector->attempt || clock_boot_ms() < connector->next_ms)
        return;
    struct sql_attempt *attempt = calloc(1, sizeof *attempt);
    if (!attempt)
        return;
    attempt->connector = connector;
    attempt->wish = *wish;
    attempt->wish.url = connector->url;
    attempt->work.perform = attempt_perform;
    attempt->work.done = attempt_done;
    connector->attempt = attempt;
    worker_give(connector->worker, &attempt->work);
}
