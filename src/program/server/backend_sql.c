/* Backend with jobs in a SQL database, shared with other servers and with the users' own
 * transactions: one reactor. */
#include "server/backend.h"
#include "server/callers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json_write.h"
#include "redis/redis.h"
#include "sql/sql.h"
#include "sql/tokens.h"

#include <errno.h>

/* stored_tokens: tokens in a SQL database. */

_Static_assert((int)SQL_TOKENS_ERROR_BYTES <= (int)STORED_TOKENS_ERROR_BYTES,
               "errors are handed through");

static int on_open(const struct config *config, void **out, char *error)
{
    struct sql_tokens *tokens = NULL;
    int result = sql_tokens_open(config->store, &tokens, error);
    *out = tokens;
    return result;
}

static int on_read(void *self, struct buffer *out, bool *is_changed, char *error)
{
    return sql_tokens_read(self, out, is_changed, error);
}

static int on_write(void *self, struct slice text, char *error)
{
    return sql_tokens_write(self, text, error);
}

static void on_close(void *self)
{
    sql_tokens_close(self);
}

const struct stored_tokens_ops stored_tokens_sql = {
    .open = on_open, .read = on_read, .write = on_write, .close = on_close};

/* ---- backend sql ---- */

enum { STOP_MS = SQL_STOP_MS + 5000 };

static bool promises_enough(const struct config *config, const struct sql *sql, char *error)
{
    bool wants_always = config->require_durability == REDIS_DURABILITY_FSYNC_ALWAYS ||
                        config->require_durability == REDIS_DURABILITY_FSYNC_EVERYSEC;
    return !wants_always || sql_is_durable(sql) ||
           error_text(error, BACKEND_ERROR_BYTES,
                      "the store may lose answered changes, %s, or lower --require-durability",
                      sql_durable_settings(sql));
}

static int sql_on_open(struct backend *backend, const struct config *config, backend_failed *failed,
                       void *ctx, char *error)
{
    const struct sql_options options = {.url = config->store,
                                        .migrate = config->migrate,
                                        .body_bytes_max = (uint64_t)config->max_body_bytes,
                                        .topics_max = config->max_topics};
    struct sql *sql = NULL;
    (void)failed; /* an unreachable database may come back: the server keeps running */
    (void)ctx;
    int result = sql_open(&options, &sql, error, BACKEND_ERROR_BYTES);
    backend->self = sql;
    if (result == 0 && !promises_enough(config, sql, error))
        result = -EINVAL;
    sql_place(config->store, backend->place, sizeof backend->place);
    backend->reactors = 1;
    backend->stop_ms = STOP_MS;
    return result;
}

static int on_attach(struct backend *backend, uint32_t index, struct reactor *reactor,
                     struct queue **out, char *error)
{
    (void)index;
    return sql_attach(backend->self, reactor, out, error, BACKEND_ERROR_BYTES);
}

static void on_set_feed(struct backend *backend, struct feed *feed)
{
    sql_set_feed(backend->self, feed);
}

static void on_stop(struct backend *backend, void (*stopped)(void *ctx), void *ctx)
{
    sql_stop(backend->self, stopped, ctx);
}

static const char *on_store_name(struct backend *backend)
{
    return sql_store_name(backend->self);
}

static void on_free(struct backend *backend)
{
    sql_free(backend->self);
}

enum {
    TRANSACTIONS,
    CALLS,
    REPEATED,
    RECONNECTS,
    SETTLED,
    FLUSHED,
    REFUSED,
    COMMIT_DURATION,
    CLOCK_CORRECTIONS,
    CLOCK_ADJUST,
    CLOCK_STEPS,
    OLDEST_TRANSACTION,
    DEAD_ROWS,
    UP
};

#define ON_SQL .when = "with `--store postgres://…` or `mysql://…`"

static const struct metric sql_metrics[] = {
    [TRANSACTIONS] =
        {.name = "tarry_sql_transactions_total",
         .type = PROMETHEUS_COUNTER,
         .help = "Transactions of this server.",
         .meaning = "Each contains all calls that arrived during the previous one; "
                    "`tarry_sql_calls_total` divided by it is the number of calls per transaction.",
         ON_SQL},
    [CALLS] = {.name = "tarry_sql_calls_total",
               .type = PROMETHEUS_COUNTER,
               .help = "Calls in those transactions.",
               .meaning = "The work that the database does for this server.",
               ON_SQL},
    [REPEATED] = {.name = "tarry_sql_repeated_total",
                  .type = PROMETHEUS_COUNTER,
                  .help = "Transactions that failed and were repeated.",
                  .meaning = "Deadlocks, locks of users' transactions, lost connections. Rises "
                             "steadily: a user keeps transactions with jobs open for long.",
                  ON_SQL},
    [RECONNECTS] = {.name = "tarry_sql_reconnects_total",
                    .type = PROMETHEUS_COUNTER,
                    .help = "Reconnects to the database.",
                    .meaning =
                        "Rises repeatedly: find out why the database or the network closes them.",
                    ON_SQL},
    [SETTLED] = {.name = "tarry_sql_settled_total",
                 .type = PROMETHEUS_COUNTER,
                 .help = "Commits without a reply, settled by their tickets.",
                 .meaning = "A connection was lost during a commit. Nothing was done twice.",
                 ON_SQL},
    [FLUSHED] =
        {.name = "tarry_sql_flushed_total",
         .type = PROMETHEUS_COUNTER,
         .help =
             "Transactions whose commit was made durable together with later ones, without a wait.",
         .meaning = "PostgreSQL's disk is slow, and takes overtake the commits that wait "
                    "for it.",
         ON_SQL},
    [REFUSED] = {.name = "tarry_sql_refused_total",
                 .type = PROMETHEUS_COUNTER,
                 .help = "Calls that the database rejected, including the server's own.",
                 .meaning = "A trigger, a constraint or a lock of an application rejects what "
                            "tarry writes: the log has the database's message, and `/v1/status` "
                            "names the problem for a minute.",
                 ON_SQL},
    [COMMIT_DURATION] =
        {.name = "tarry_sql_commit_duration_seconds",
         .type = PROMETHEUS_HISTOGRAM,
         .help = "From sending the part of a transaction that ends with its commit to the reply, "
                 "for transactions that change something.",
         .meaning = "The minimum wait of every push, take and ack. Grows: the disk of the "
                    "database, its replicas, or the network is slow. Runbook page *late*.",
         ON_SQL},
    [CLOCK_CORRECTIONS] =
        {.name = "tarry_sql_clock_corrections_total",
         .type = PROMETHEUS_COUNTER,
         .help = "Times the database's clock deviated and was corrected.",
         .meaning = "The database's clock was set, or is being slewed. Run NTP on the hosts of the "
                    "database: runbook page *clock*.",
         ON_SQL},
    [CLOCK_ADJUST] = {.name = "tarry_sql_clock_adjust_seconds",
                      .type = PROMETHEUS_GAUGE,
                      .help = "Distance of the queue's time to the database's clock; negative: "
                              "behind.",
                      .meaning = "Other than 0: the database's clock was set. The value stays and "
                                 "does no harm.",
                      ON_SQL},
    [CLOCK_STEPS] = {.name = "tarry_sql_clock_steps_total",
                     .type = PROMETHEUS_COUNTER,
                     .help = "Steps of the database's clock by more than 100 ms.",
                     .meaning = "Delays and leases do not follow them. Again and again: runbook "
                                "page *clock*.",
                     ON_SQL},
    [OLDEST_TRANSACTION] =
        {.name = "tarry_sql_oldest_transaction_seconds",
         .type = PROMETHEUS_GAUGE,
         .help = "Age of the oldest open transaction of the database, every 10 s.",
         .meaning = "What it may still read cannot be cleaned away, so the database needs more "
                    "processor time. Requires a right: `pg_read_all_stats` or `PROCESS`. Runbook "
                    "page *bloat*.",
         ON_SQL},
    [DEAD_ROWS] = {.name = "tarry_sql_dead_rows",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Old versions of rows that the database has not cleaned away, every "
                           "10 s.",
                   .meaning = "PostgreSQL: dead rows in tarry's tables, by its statistics. MariaDB "
                              "and MySQL: length of InnoDB's history list, in transactions. Grows: "
                              "runbook page *bloat*.",
                   ON_SQL},
    [UP] = {.name = "tarry_sql_up",
            .type = PROMETHEUS_GAUGE,
            .help = "Whether the database can be reached.",
            .meaning = "0: pushes are answered 503.",
            ON_SQL},
    METRIC_END};

static void on_emit_metrics(struct backend *backend, struct metric_page *page)
{
    struct sql_figures figures;
    sql_figures(backend->self, &figures);
    metric_write(page, &sql_metrics[TRANSACTIONS], figures.transactions);
    metric_write(page, &sql_metrics[CALLS], figures.calls);
    metric_write(page, &sql_metrics[REPEATED], figures.repeated);
    metric_write(page, &sql_metrics[RECONNECTS], figures.reconnects);
    metric_write(page, &sql_metrics[SETTLED], figures.settled);
    metric_write(page, &sql_metrics[FLUSHED], figures.flushed);
    metric_write(page, &sql_metrics[REFUSED], figures.refused);
    metric_begin(page, &sql_metrics[COMMIT_DURATION]);
    metric_histogram(page, NULL, figures.commit_us, &sql_commit_bounds);
    struct clock_steps steps;
    clock_steps(&steps);
    metric_write(page, &sql_metrics[CLOCK_CORRECTIONS], figures.clock_corrections);
    metric_write_time(page, &sql_metrics[CLOCK_ADJUST], figures.clock_adjust_ms, 1000);
    metric_write(page, &sql_metrics[CLOCK_STEPS], steps.count);
    if (figures.oldest_ms >= 0)
        metric_write_time(page, &sql_metrics[OLDEST_TRANSACTION], figures.oldest_ms, 1000);
    if (figures.dead_rows >= 0)
        metric_write(page, &sql_metrics[DEAD_ROWS], (uint64_t)figures.dead_rows);
    metric_write(page, &sql_metrics[UP], figures.is_up);
}

static void on_write_shards(struct backend *backend, struct buffer *out)
{
    struct sql_figures figures;
    sql_figures(backend->self, &figures);
    buffer_append_byte(out, '{');
    json_write_member_number(out, "shard", 0);
    json_write_member_bool(out, "connected", figures.is_up);
    json_write_member_number(out, "waiting_calls", (uint64_t)figures.waiting);
    json_write_member_number(out, "reconnects", figures.reconnects);
    buffer_append_byte(out, '}');
}

const struct backend_ops backend_sql = {.open = sql_on_open,
                                        .set_feed = on_set_feed,
                                        .attach = on_attach,
                                        .stop = on_stop,
                                        .store_name = on_store_name,
                                        .free = on_free,
                                        .write_shards = on_write_shards,
                                        .emit_metrics = on_emit_metrics,
                                        .metrics = sql_metrics};
