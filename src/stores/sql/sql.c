#include "sql/sql.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "queue/door.h"
#include "sql/greeting.h"
#include "sql/schema.h"
#include "sql/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 10000 };

struct sql {
    struct queue queue; /* first, so that the handle can be cast to the struct */
    const struct sql_dialect *dialect;
    struct sql_options options;
    char *url;
    struct sql_greeting greeting; /* from sql_open, until the session owns it */
    struct sql_session *session;
    struct feed_desk *desk;
};

static struct sql *sql_of(struct queue *queue)
{
    return (struct sql *)(void *)queue;
}

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    sql_session_submit(sql_of(queue)->session, command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    sql_session_watch(sql_of(queue)->session, topic, on);
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    const struct sql *sql = sql_of(queue);
    const struct sql_greeting *greeting = sql_session_greeting(sql->session);
    struct sql_session_figures figures;
    sql_session_figures(sql->session, &figures);
    *out = (struct queue_info){
        .store = sql->dialect->name,
        .durability = greeting->is_durable ? sql->dialect->durable : sql->dialect->frail,
        .durability_class = greeting->is_durable ? "always" : "no",
        .sync = greeting->sync,
        .shards = 1,
        .body_bytes_max = sql->options.body_bytes_max,
        .keeps_history = true,
        .healthy = figures.is_up,
        .accepting = !figures.is_full,
    };
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
    const struct sql_session_options options = {.url = sql->url,
                                                .topics_max = sql->options.topics_max,
                                                .timeout_ms = sql->options.timeout_ms,
                                                .desk = sql->desk};
    sql->queue.ops = &sql_ops;
    sql->queue.door = queue_door_new(sql->options.body_bytes_max, random_u64(), clock_wall_ms);
    if (sql->queue.door)
        sql->session = sql_session_new(reactor, &options, &sql->greeting, &sql->queue);
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
    sql_session_stop(sql->session, stopped, ctx);
}

void sql_free(struct sql *sql)
{
    if (!sql)
        return;
    sql_session_free(sql->session);
    if (sql->greeting.link)
        sql->dialect->close(sql->greeting.link);
    queue_door_free(sql->queue.door);
    explicit_bzero(sql->url, strlen(sql->url));
    free(sql->url);
    free(sql);
}

bool sql_is_durable(const struct sql *sql)
{
    return sql->session ? sql_session_greeting(sql->session)->is_durable : sql->greeting.is_durable;
}

const char *sql_store_name(const struct sql *sql)
{
    return sql->session ? sql_session_greeting(sql->session)->name : sql->greeting.name;
}

void sql_figures(const struct sql *sql, struct sql_figures *out)
{
    struct sql_session_figures figures;
    sql_session_figures(sql->session, &figures);
    *out = (struct sql_figures){.turns = figures.turns,
                                .calls = figures.calls,
                                .repeated = figures.repeated,
                                .reconnects = figures.reconnects,
                                .settled = figures.settled,
                                .flushed = figures.flushed,
                                .refused = figures.refused,
                                .clock_corrections = figures.clock_corrections,
                                .clock_adjust_ms = figures.clock_adjust_ms,
                                .waiting = figures.waiting,
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
    return sql_session_is_quiet(sql->session);
}
