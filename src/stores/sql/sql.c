#include "sql/sql.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "feed/feed.h"
#include "net/reactor.h"
#include "queue/door.h"
#include "queue/queue.h"
#include "sql/call.h"
#include "sql/call_queue.h"
#include "sql/connection.h"
#include "sql/dialect.h"
#include "sql/hints.h"
#include "sql/housekeeping.h"
#include "sql/schema.h"
#include "sql/transaction.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the session ---- */

/*
 * The access of a server to the database. It combines the parts and runs them at the end of
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
struct session_options {
    const char *url; /* copied */
    uint32_t topics_max;
    int64_t timeout_ms;     /* timeout for calls while the database is unreachable */
    struct feed_desk *desk; /* receives events; NULL: no feed */
};

struct session_figures {
    uint64_t transactions, calls, repeated, reconnects, settled, flushed, refused,
        clock_corrections;
    int64_t clock_adjust_ms, oldest_ms, dead_rows;
    int64_t waiting; /* calls without a reply */
    const struct buckets *commit_us;
    bool is_up, is_full;
};

enum { STOP_MS = 3000 };

struct session {
    const struct sql_dialect *dialect;
    struct reactor *reactor;
    struct deadline *deadline;
    struct sql_context context;
    struct sql_greeting greeting;
    struct sql_connector connector;
    struct sql_connection connection;
    struct sql_call_queue calls;
    struct sql_hints hints;
    struct sql_housekeeping housekeeping;
    struct sql_transaction transaction;

    bool hooked, stopping, ended;
    int64_t stop_until_ms;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    uint64_t submitted, reconnects;
};

/* ---- calls ---- */

/* Begins or ends a wait. The call is answered when it is refused, and immediately if it ends another wait. */
static void session_await(struct session *session, struct sql_call *call)
{
    const struct command *command = call->command;
    struct sql_awaits *awaits = &session->context.awaits;
    enum queue_status status = !command            ? QUEUE_NO_MEMORY
                               : command->status   ? command->status
                               : session->stopping ? QUEUE_STOPPING
                                                   : QUEUE_OK;
    reactor_iterate_again(session->reactor);
    if (status == QUEUE_OK && !command->await.cancels) {
        if (sql_awaits_add(awaits, command->await.topic, command->await.id, call->reply_to)) {
            sql_call_queue_drop(&session->calls, call);
            return;
        }
        status = QUEUE_NO_MEMORY;
    }
    if (status == QUEUE_OK)
        (void)sql_awaits_cancel(awaits, command->await.topic, command->await.id,
                                command->await.cancels);
    sql_call_queue_refuse(&session->calls, call, status);
}

static void session_submit(struct session *session, const struct command *command,
                           struct queue_reply_to reply_to)
{
    struct sql_call *call = sql_call_queue_add(&session->calls, command, reply_to);
    session->submitted++;
    if (command->kind == COMMAND_AWAIT) {
        session_await(session, call);
        return;
    }
    if (command->kind == COMMAND_TAKE)
        sql_transaction_note_take(&session->transaction);
    if (!call->command)
        sql_call_queue_refuse(&session->calls, call, QUEUE_NO_MEMORY);
    else if (command->status != QUEUE_OK)
        sql_call_queue_refuse(&session->calls, call, command->status);
    else if (session->stopping)
        sql_call_queue_refuse(&session->calls, call, QUEUE_STOPPING);
    else if (!sql_awaits_push(&session->context.awaits, call->command))
        sql_call_queue_refuse(&session->calls, call, QUEUE_NO_MEMORY);
    else
        sql_wall_read(call->command, session->context.adjust_ms);
    reactor_iterate_again(session->reactor);
}

static void session_watch(struct session *session, struct slice name, bool on)
{
    if (sql_hints_watch(&session->hints, name, on))
        reactor_iterate_again(session->reactor);
}

/* ---- connections ---- */

static void on_advance(void *ctx, bool is_part_over)
{
    struct session *session = ctx;
    struct sql_notification notification;
    if (is_part_over)
        sql_transaction_part_over(&session->transaction);
    while (session->transaction.phase == SQL_PHASE_IDLE && !session->connection.is_lost &&
           session->dialect->next_notification(session->context.link, &notification))
        sql_hints_receive(&session->hints, &notification);
}

static void connection_is_lost(struct session *session)
{
    const struct sql_fault *fault = &session->transaction.fault;
    if (!fault->message[0])
        fault = &session->context.link->fault;
    log_event(LOG_WARN, "the connection to the database is lost",
              LOG_TEXT("store", session->dialect->name), LOG_TEXT("state", fault->state),
              LOG_TEXT("message", fault->message));
    sql_connection_close(&session->connection);
    sql_transaction_down(&session->transaction);
    sql_audience_cut(&session->hints.audience);
    sql_connector_reset(&session->connector);
    reactor_iterate_again(session->reactor);
}

/* Installs a new connection. Its ticket will determine the outcome of unanswered transactions. */
static bool connection_set(struct session *session, const struct sql_greeting *greeting)
{
    if (!sql_connection_open(&session->connection, greeting->link,
                             sql_transaction_needs_flush(&session->transaction)))
        return false;
    session->greeting = *greeting;
    session->context.key = greeting->key;
    session->context.server = greeting->server;
    session->context.health = (struct sql_health){.oldest_ms = -1, .dead_rows = -1};
    session->context.now_ms = greeting->times.last_ms;
    session->context.adjust_ms = greeting->times.adjust_ms;
    (void)sql_clock_observe(&session->context.clock,
                            &greeting->times); /* corrected by housekeeping */
    sql_housekeeping_connected(&session->housekeeping);
    return true;
}

static void log_unset(const struct session *session)
{
    const char *error = "out of memory";
    if (sql_transaction_needs_flush(&session->transaction))
        error = "the second connection, which confirms that commits are on disk, is not possible: "
                "allow this account two connections";
    log_event(LOG_WARN, "a connection to the database was closed",
              LOG_TEXT("store", session->dialect->name), LOG_TEXT("error", error));
}

static bool on_connected(void *ctx, const struct sql_greeting *greeting, const char *error)
{
    struct session *session = ctx;
    reactor_iterate_again(session->reactor);
    if (!greeting) {
        log_event(LOG_WARN, "the database cannot be reached",
                  LOG_TEXT("store", session->dialect->name), LOG_TEXT("error", error));
        return false;
    }
    if (session->ended)
        return false;
    if (!connection_set(session, greeting)) {
        log_unset(session);
        return false;
    }
    log_event(LOG_INFO, "connected to the database", LOG_TEXT("store", session->dialect->name),
              LOG_NUMBER("server", session->context.server));
    if (greeting->moved_ms)
        log_event(LOG_WARN,
                  "the database is on another machine, and its clock difference is corrected",
                  LOG_NUMBER("by_ms", greeting->moved_ms));
    session->reconnects++;
    sql_audience_elsewhere(&session->hints.audience); /* assumed until known */
    sql_transaction_settle(&session->transaction, greeting->ticket, greeting->ticket_ms);
    sql_hints_doubt(&session->hints);
    return true;
}

/* Handles the time without a connection. The outcome of the last transactions is known only with
 * the next connection, which may be too late for their calls. */
static void while_down(struct session *session)
{
    sql_call_queue_refuse_late(&session->calls, &session->transaction.calls);
    sql_call_queue_refuse_late(&session->calls, &session->connection.flush.calls);
    if (!session->ended)
        sql_connector_try(
            &session->connector,
            &(struct sql_wish){.server = session->context.server,
                               .knows_time = true,
                               .offset_us = session->context.clock.peer.offset_min_us});
}

/* ---- end of each loop iteration ---- */

static void do_what_is_due(struct session *session)
{
    bool is_notification = sql_audience_look(&session->hints.audience);
    if (session->transaction.phase != SQL_PHASE_DOWN && !session->stopping)
        sql_housekeeping_run(&session->housekeeping, is_notification);
}

static void stop_if_done(struct session *session)
{
    enum sql_phase phase = session->transaction.phase;
    bool is_over = clock_boot_ms() >= session->stop_until_ms;
    bool is_empty = session->calls.commands == 0;
    if (!session->stopping || session->ended)
        return;
    if (phase == SQL_PHASE_IDLE && is_empty)
        sql_housekeeping_leave(&session->housekeeping);
    if (is_over || (phase == SQL_PHASE_DOWN && is_empty))
        session->ended = true;
}

static void end(struct session *session)
{
    void (*stopped)(void *ctx) = session->stopped;
    session->stopped = NULL;
    sql_call_queue_refuse_all(&session->calls, &session->transaction.calls);
    sql_call_queue_refuse_all(&session->calls, &session->connection.flush.calls);
    sql_call_queue_end(&session->calls);
    sql_awaits_refuse(&session->context.awaits, QUEUE_STOPPING);
    sql_connection_close(&session->connection);
    session->transaction.phase = SQL_PHASE_DOWN;
    if (stopped)
        stopped(session->stopped_ctx);
}

static void set_deadline(struct session *session)
{
    enum sql_phase phase = session->transaction.phase;
    int64_t inner_us = clock_inner_us(), next = inner_us + SQL_RETRY_MS * 1000;
    int64_t retry_ms = sql_call_queue_next_ms(&session->calls);
    if (phase != SQL_PHASE_DOWN && !session->stopping)
        next = sql_housekeeping_next_us(&session->housekeeping);
    if (phase == SQL_PHASE_IDLE && retry_ms != INT64_MAX) {
        int64_t retry_us = inner_us + (retry_ms - clock_boot_ms()) * 1000;
        next = retry_us < next ? retry_us : next;
    }
    deadline_set_us(session->deadline, next);
}

static bool at_iteration_end(void *ctx)
{
    struct session *session = ctx;
    struct sql_transaction *transaction = &session->transaction;
    const struct sql_connection *connection = &session->connection;
    session->ended = session->ended || session->housekeeping.has_left;
    if (session->ended && !session->stopped)
        return false;
    sql_transaction_flush_over(transaction);
    sql_transaction_check_silence(transaction);
    if ((connection->is_lost || connection->flush.is_lost) && transaction->phase != SQL_PHASE_DOWN)
        connection_is_lost(session);
    if (transaction->phase != SQL_PHASE_IDLE || connection->flush.is_under_way)
        sql_call_queue_refuse_late(&session->calls, &session->calls.waiting);
    if (transaction->phase == SQL_PHASE_DOWN)
        while_down(session);
    do_what_is_due(session);
    stop_if_done(session);
    if (transaction->phase == SQL_PHASE_IDLE && !session->ended)
        sql_transaction_begin(transaction);
    sql_call_queue_reply(&session->calls); /* while the database is busy */
    sql_awaits_reply(&session->context.awaits);
    if (session->ended)
        end(session);
    else
        set_deadline(session);
    return !list_is_empty(&session->calls.answered) || connection->is_lost;
}

static void on_deadline(void *ctx)
{
    (void)ctx; /* the hook at the end of the loop iteration does the work */
}

/* ---- life ---- */

static void session_free(struct session *session)
{
    if (!session)
        return;
    if (session->hooked)
        reactor_remove_at_iteration_end(session->reactor, at_iteration_end, session);
    sql_connector_close(&session->connector);
    if (session->deadline)
        deadline_free(session->deadline);
    sql_hints_fini(&session->hints);
    sql_effects_fini(&session->context.effects);
    free(session);
}

static struct session *session_new(struct reactor *reactor, const struct session_options *options,
                                   const struct sql_greeting *greeting, struct queue *queue)
{
    const struct sql_dialect *dialect = greeting->link->dialect;
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->dialect = dialect;
    session->reactor = reactor;
    session->context.topics_max = options->topics_max;
    session->deadline = deadline_new(reactor, on_deadline, session);
    session->connection = (struct sql_connection){
        .reactor = reactor, .context = &session->context, .on_advance = on_advance, .ctx = session};
    sql_effects_init(&session->context.effects);
    sql_flush_init(&session->connection.flush, reactor);
    sql_call_queue_init(&session->calls, options->timeout_ms);
    session->calls.awaits = &session->context.awaits;
    sql_hints_init(&session->hints, &session->context, queue, options->desk, dialect->look_ms != 0);
    sql_housekeeping_init(&session->housekeeping, dialect, &session->hints, &session->calls);
    sql_transaction_init(&session->transaction, &session->connection, &session->housekeeping);
    if (!sql_connector_open(&session->connector, reactor, dialect, options->url, on_connected,
                            session) ||
        !session->deadline || !connection_set(session, greeting)) {
        session_free(session);
        return NULL;
    }
    sql_transaction_settle(&session->transaction, greeting->ticket, greeting->ticket_ms);
    reactor_at_iteration_end(reactor, at_iteration_end, session);
    session->hooked = true;
    return session;
}

static void session_stop(struct session *session, void (*stopped)(void *ctx), void *ctx)
{
    session->stopping = true;
    session->stopped = stopped;
    session->stopped_ctx = ctx;
    session->stop_until_ms = clock_boot_ms() + STOP_MS;
    reactor_iterate_again(session->reactor);
}

static void session_figures(const struct session *session, struct session_figures *out)
{
    const struct sql_transaction_figures *figures = &session->transaction.figures;
    *out = (struct session_figures){.transactions = figures->transactions,
                                    .calls = session->submitted,
                                    .repeated = figures->repeated,
                                    .reconnects = session->reconnects,
                                    .settled = figures->settled,
                                    .flushed = figures->flushed,
                                    .refused = figures->refused,
                                    .clock_corrections = session->context.clock.corrections,
                                    .clock_adjust_ms = session->context.clock.peer.adjust_ms,
                                    .oldest_ms = session->context.health.oldest_ms,
                                    .dead_rows = session->context.health.dead_rows,
                                    .waiting = session->calls.commands,
                                    .commit_us = &figures->commit_us,
                                    .is_up = session->transaction.phase != SQL_PHASE_DOWN,
                                    .is_full = figures->is_full};
}

static const struct sql_greeting *session_greeting(const struct session *session)
{
    return &session->greeting;
}

static bool session_is_quiet(struct session *session)
{
    return session->transaction.phase == SQL_PHASE_IDLE && list_is_empty(&session->calls.waiting) &&
           list_is_empty(&session->calls.answered) &&
           list_is_empty(&session->connection.flush.calls) && !session->connection.is_lost &&
           sql_housekeeping_is_quiet(&session->housekeeping);
}

/* ---- the queue ---- */

enum { TIMEOUT_MS = 10000 };

struct sql {
    struct queue queue; /* first, so that the handle can be cast to the struct */
    const struct sql_dialect *dialect;
    struct sql_options options;
    char *url;
    struct sql_greeting greeting; /* from sql_open, until the session owns it */
    struct session *session;
    struct feed_desk *desk;
};

static struct sql *sql_of(struct queue *queue)
{
    return (struct sql *)(void *)queue;
}

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    session_submit(sql_of(queue)->session, command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    session_watch(sql_of(queue)->session, topic, on);
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    const struct sql *sql = sql_of(queue);
    const struct sql_greeting *greeting = session_greeting(sql->session);
    struct session_figures figures;
    session_figures(sql->session, &figures);
    *out = (struct queue_info){
        .store = sql->dialect->name,
        .durability = greeting->is_durable ? sql->dialect->durable : sql->dialect->frail,
        .durability_class = greeting->is_durable ? "always" : "no",
        .sync = greeting->sync,
        .shards = 1,
        .body_bytes_max = sql->options.body_bytes_max,
        .keeps_history = true,
        .keeps_finished = sql->dialect->keeps_finished,
        .awaits = sql->dialect->keeps_finished,
        .soon = true,
        .groups = sql->dialect->groups,
        .strict_groups = sql->dialect->strict_groups,
        .one_shard = true,
        .batches = sql->dialect->batches,
        .group_max_jobs = sql->dialect->groups,
        .healthy = figures.is_up,
        .accepting = !figures.is_full,
    };
    memcpy(out->finished_dropped, sql->session->context.dropped, sizeof out->finished_dropped);
}

static const struct queue_ops sql_ops = {.submit = on_submit, .watch = on_watch, .info = on_info};

int sql_open(const struct sql_options *options, struct sql **out, char *error, size_t error_bytes)
{
    const struct sql_dialect *dialect = sql_dialect_of(options->url);
    struct sql *sql = dialect ? calloc(1, sizeof *sql) : NULL;
    struct sql_wish wish = {.url = options->url, .migrate = options->migrate};
    if (!dialect) {
        error_write(error, error_bytes, "the URL has an unknown kind of database");
        return -EINVAL;
    }
    if (!sql || !(sql->url = strdup(options->url))) {
        free(sql);
        return -ENOMEM;
    }
    sql->dialect = dialect;
    sql->options = *options;
    sql->options.url = sql->url;
    if (!sql->options.timeout_ms)
        sql->options.timeout_ms = TIMEOUT_MS;
    if (!sql_greet(dialect, &wish, &sql->greeting)) {
        error_write(error, error_bytes, "%s", sql->greeting.error);
        free(sql->url);
        free(sql);
        return -EHOSTUNREACH;
    }
    *out = sql;
    return 0;
}

void sql_set_feed(struct sql *sql, struct feed *feed)
{
    sql->desk = feed_desk_at(feed, 0);
}

int sql_attach(struct sql *sql, struct reactor *reactor, struct queue **out, char *error,
               size_t error_bytes)
{
    const struct session_options options = {.url = sql->url,
                                            .topics_max = sql->options.topics_max,
                                            .timeout_ms = sql->options.timeout_ms,
                                            .desk = sql->desk};
    sql->queue.ops = &sql_ops;
    sql->queue.door = queue_door_new(sql->options.body_bytes_max, random_u64(), clock_wall_ms);
    if (sql->queue.door)
        sql->session = session_new(reactor, &options, &sql->greeting, &sql->queue);
    if (!sql->session) {
        error_write(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    sql->greeting.link = NULL;
    *out = &sql->queue;
    return 0;
}

void sql_stop(struct sql *sql, void (*stopped)(void *ctx), void *ctx)
{
    session_stop(sql->session, stopped, ctx);
}

void sql_free(struct sql *sql)
{
    if (!sql)
        return;
    session_free(sql->session);
    if (sql->greeting.link)
        sql->dialect->close(sql->greeting.link);
    queue_door_free(sql->queue.door);
    explicit_bzero(sql->url, strlen(sql->url));
    free(sql->url);
    free(sql);
}

bool sql_is_durable(const struct sql *sql)
{
    return sql->session ? session_greeting(sql->session)->is_durable : sql->greeting.is_durable;
}

const char *sql_store_name(const struct sql *sql)
{
    return sql->session ? session_greeting(sql->session)->name : sql->greeting.name;
}

void sql_figures(const struct sql *sql, struct sql_figures *out)
{
    struct session_figures figures;
    session_figures(sql->session, &figures);
    *out = (struct sql_figures){.transactions = figures.transactions,
                                .calls = figures.calls,
                                .repeated = figures.repeated,
                                .reconnects = figures.reconnects,
                                .settled = figures.settled,
                                .flushed = figures.flushed,
                                .refused = figures.refused,
                                .clock_corrections = figures.clock_corrections,
                                .clock_adjust_ms = figures.clock_adjust_ms,
                                .oldest_ms = figures.oldest_ms,
                                .dead_rows = figures.dead_rows,
                                .waiting = figures.waiting,
                                .commit_us = figures.commit_us,
                                .is_up = figures.is_up};
}

const char *sql_durable_settings(const struct sql *sql)
{
    return sql->dialect->durable_settings;
}

const char *sql_kind(const char *url)
{
    const struct sql_dialect *dialect = sql_dialect_of(url);
    return dialect ? dialect->name : NULL;
}

void sql_place(const char *url, char *out, size_t out_bytes)
{
    const struct sql_dialect *dialect = sql_dialect_of(url);
    *out = '\0';
    if (dialect)
        dialect->place(url, out, out_bytes);
}

int sql_migrate(const char *url, char *error, size_t error_bytes)
{
    const struct sql_dialect *dialect = sql_dialect_of(url);
    if (!dialect) {
        error_write(error, error_bytes,
                    "'%s' has an unknown kind of database, write postgres://USER@HOST/DATABASE",
                    url);
        return -EINVAL;
    }
    struct sql_client client;
    bool is_done = sql_client_open(&client, dialect, url, error, error_bytes) &&
                   dialect->is_usable(&client, error, error_bytes) &&
                   sql_schema_check(&client, true, error, error_bytes);
    sql_client_close(&client);
    return is_done ? 0 : -EPROTO;
}

bool sql_schema(const char *kind, struct buffer *out)
{
    for (size_t i = 0; sql_dialects[i]; i++)
        if (strcmp(sql_dialects[i]->name, kind) == 0)
            return sql_schema_emit(sql_dialects[i]->questions, out);
    return false;
}

bool sql_is_quiet(struct sql *sql)
{
    return session_is_quiet(sql->session);
}
