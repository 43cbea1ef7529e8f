#include "sql/connector.h"

#include "base/clock.h"
#include "sql/greeting.h"

#include <stdlib.h>
#include <string.h>

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
