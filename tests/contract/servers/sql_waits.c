/*
 * Three servers on one real database: one pushes, one acks, one waits for the end, while the database cuts their connections.
 *
 *     sql_waits postgres|mariadb
 */
#include "base/clock.h"
#include "base/log.h"
#include "sql/mysql/client.h"
#include "sql/postgres/client.h"
#include "sql/sql.h"
#include "support/mariadb_server.h"
#include "support/postgres_server.h"
#include "unit/claim.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVERS = 3, ROUNDS = 12, PATIENCE_MS = 15000, WAIT_MS_MAX = 1000, LEASE_MS = 60000 };
enum { PUSHER, WORKER, WAITER };

struct server {
    struct reactor *reactor;
    struct sql *sql;
    struct queue *queue;
    bool stopped;
};

struct answer { /* The reply to a call. */
    bool has_come;
    int64_t at_ms;
    enum queue_status status, item_status;
    enum job_state state;
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX + 1], result[32];
};

static struct server servers[SERVERS];
static int64_t down_ms; /* when a server was last without a connection */
static PGconn *postgres;
static MYSQL *mariadb;

/* ---- the database ---- */

static void postgres_do(const char *text)
{
    PGresult *result = libpq.PQexec(postgres, text);
    assert_true(libpq.PQresultStatus(result) == PGRES_TUPLES_OK ||
                libpq.PQresultStatus(result) == PGRES_COMMAND_OK);
    libpq.PQclear(result);
}

static void cut_mariadb(void)
{
    char kills[64][48];
    size_t count = 0;
    const char *text = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() "
                       "AND user <> 'system user'";
    assert_int_equal(libmariadb.mysql_real_query(mariadb, text, strlen(text)), 0);
    MYSQL_RES *rows = libmariadb.mysql_store_result(mariadb);
    MYSQL_ROW row;
    while (rows && count < 64 && (row = libmariadb.mysql_fetch_row(rows)))
        (void)snprintf(kills[count++], sizeof kills[0], "KILL %s", row[0]);
    libmariadb.mysql_free_result(rows);
    for (size_t i = 0; i < count; i++) /* it may have ended by itself */
        (void)libmariadb.mysql_real_query(mariadb, kills[i], strlen(kills[i]));
}

static int awaited_jobs(void)
{
    static const char text[] = "SELECT count(*) FROM tarry.awaited";
    int count = 0;
    if (postgres) {
        PGresult *result = libpq.PQexec(postgres, text);
        assert_int_equal(libpq.PQresultStatus(result), PGRES_TUPLES_OK);
        count = atoi(libpq.PQgetvalue(result, 0, 0));
        libpq.PQclear(result);
        return count;
    }
    assert_int_equal(libmariadb.mysql_real_query(mariadb, text, strlen(text)), 0);
    MYSQL_RES *rows = libmariadb.mysql_store_result(mariadb);
    count = atoi(libmariadb.mysql_fetch_row(rows)[0]);
    libmariadb.mysql_free_result(rows);
    return count;
}

/* Ends the connections of all servers. */
static void cut(void)
{
    if (postgres)
        postgres_do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
                    "pg_backend_pid() AND backend_type = 'client backend'");
    else
        cut_mariadb();
}

/* ---- servers ---- */

static void run(void)
{
    struct pollfd answers[SERVERS];
    for (size_t i = 0; i < SERVERS; i++) {
        uv_loop_t *loop = reactor_loop(servers[i].reactor);
        answers[i] = (struct pollfd){.fd = uv_backend_fd(loop), .events = POLLIN};
        uv_run(loop, UV_RUN_NOWAIT);
        struct sql_figures figures;
        sql_figures(servers[i].sql, &figures);
        if (!figures.is_up)
            down_ms = clock_boot_ms();
    }
    (void)poll(answers, SERVERS, 1);
}

static void wait_for(const struct answer *answer)
{
    int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
    while (!answer->has_come && clock_boot_ms() < until_ms)
        run();
    assert_true(answer->has_come);
}

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct answer *answer = owner;
    (void)tag;
    answer->has_come = true;
    answer->at_ms = clock_boot_ms();
    answer->status = reply->status;
    if (reply->result_count)
        answer->item_status = reply->results[0].status;
    if (!reply->job_count)
        return;
    const struct queue_job *job = &reply->jobs[0];
    answer->state = job->job.state;
    (void)snprintf(answer->lease, sizeof answer->lease, "%.*s", (int)job->lease.len, job->lease.at);
    if (job->end)
        (void)snprintf(answer->result, sizeof answer->result, "%.*s", (int)job->end->result.len,
                       job->end->result.at);
}

static struct queue_reply_to to(struct answer *answer)
{
    *answer = (struct answer){0};
    return (struct queue_reply_to){.done = on_reply, .owner = answer};
}

static void push(const char *id, const struct queue_reply_to *ended)
{
    struct answer pushed;
    const struct queue_push push = {.topic = slice_of("t"),
                                    .id = slice_of(id),
                                    .when = {.due = QUEUE_DUE_NOW},
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .ended = ended};
    do {
        queue_push(servers[PUSHER].queue, &push, 1, to(&pushed));
        wait_for(&pushed);
    } while (pushed.item_status == QUEUE_UNAVAILABLE);
    assert_int_equal(pushed.item_status, QUEUE_CREATED);
}

static void take(const char *id, struct answer *taken)
{
    const struct slice topic = slice_of("t");
    const struct queue_take take = {
        .topics = &topic, .topic_count = 1, .id = slice_of(id), .max = 1, .lease_ms = LEASE_MS};
    queue_take(servers[WORKER].queue, &take, to(taken));
    wait_for(taken);
    assert_int_equal(taken->status, QUEUE_OK);
    assert_true(taken->lease[0]);
}

/* Acks with the id as the result. Returns when the answer came. */
static int64_t ack(const char *id, const struct answer *taken)
{
    struct answer acked;
    const struct queue_answer answer = {
        .verb = QUEUE_ACK, .lease = slice_of(taken->lease), .result = slice_of(id)};
    queue_answer(servers[WORKER].queue, &answer, 1, to(&acked));
    wait_for(&acked);
    assert_int_equal(acked.item_status, QUEUE_OK);
    return acked.at_ms;
}

/* The wait ends within a second of the ack, or of the moment at which all servers are connected again. */
static void assert_ended(const char *id, const struct answer *waited, int64_t acked_ms)
{
    wait_for(waited);
    int64_t from_ms = down_ms > acked_ms ? down_ms : acked_ms;
    assert_int_equal(waited->status, QUEUE_OK);
    assert_int_equal(waited->state, JOB_FINISHED);
    assert_string_equal(waited->result, id);
    assert_true(waited->at_ms - from_ms < WAIT_MS_MAX);
}

static void keep_for(int64_t ms)
{
    struct answer put;
    queue_topic(servers[PUSHER].queue,
                &(struct queue_topic_call){.verb = QUEUE_TOPIC_PUT,
                                           .topic = slice_of("t"),
                                           .settings = {.keep_finished_ms = ms}},
                to(&put));
    wait_for(&put);
}

/* Begins a wait, and returns once the database knows it. */
static void begin_wait(const char *id, struct answer *waited)
{
    int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
    queue_await(servers[WAITER].queue, slice_of("t"), slice_of(id), NULL, to(waited));
    while (!awaited_jobs() && clock_boot_ms() < until_ms)
        run();
    assert_int_equal(awaited_jobs(), 1);
}

/* ---- claims ---- */

CLAIM(a_wait_at_another_server_ends_within_a_second)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct answer waited, taken;
        char id[24];
        (void)snprintf(id, sizeof id, "plain-%d", round);
        keep_for(round % 2 ? 60000 : 0);
        push(id, NULL);
        begin_wait(id, &waited);
        take(id, &taken);
        assert_ended(id, &waited, ack(id, &taken));
    }
}

CLAIM(a_wait_survives_cut_connections)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct answer waited, taken;
        char id[24];
        (void)snprintf(id, sizeof id, "cut-%d", round);
        keep_for(round % 2 ? 60000 : 0);
        push(id, NULL);
        begin_wait(id, &waited);
        if (round % 3 == 0)
            cut();
        take(id, &taken);
        if (round % 3 == 1)
            cut();
        int64_t acked_ms = ack(id, &taken);
        if (round % 3 == 2)
            cut();
        assert_ended(id, &waited, acked_ms);
    }
}

CLAIM(a_push_learns_of_the_ack_at_another_server)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct answer waited, taken;
        char id[24];
        (void)snprintf(id, sizeof id, "own-%d", round);
        keep_for(0);
        struct queue_reply_to ended = to(&waited);
        push(id, &ended);
        take(id, &taken);
        if (round % 2)
            cut();
        assert_ended(id, &waited, ack(id, &taken));
    }
}

/* ---- the world ---- */

static struct postgres_server *postgres_server;
static struct mariadb_server *mariadb_server;

static const char *begin_database(const char *kind)
{
    static const char *const names[] = {"dbname", NULL};
    char error[512];
    if (strcmp(kind, "postgres") == 0) {
        postgres_server = postgres_server_new();
        if (!libpq_load(error, sizeof error))
            return NULL;
        postgres =
            libpq.PQconnectdbParams(names, (const char *const[]){postgres_server->url, NULL}, 1);
        return postgres_server->url;
    }
    mariadb_server = mariadb_server_new(NULL);
    mariadb = mysql_client.connect(mariadb_server->url, error, sizeof error);
    return mariadb ? mariadb_server->url : NULL;
}

static void on_stopped(void *ctx)
{
    ((struct server *)ctx)->stopped = true;
}

static const char *database_kind;

static int begin(void **state)
{
    struct sql_options options = {.body_bytes_max = 1 << 20, .topics_max = 100, .migrate = true};
    char error[512] = "";
    (void)state;
    options.url = begin_database(database_kind);
    for (size_t i = 0; i < SERVERS; i++)
        if (!(servers[i].reactor = reactor_new((uint32_t)i)) || !options.url ||
            sql_open(&options, &servers[i].sql, error, sizeof error) != 0 ||
            sql_attach(servers[i].sql, servers[i].reactor, &servers[i].queue, error,
                       sizeof error) != 0) {
            fprintf(stderr, "%s\n", error);
            return -1;
        }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVERS; i++) {
        sql_stop(servers[i].sql, on_stopped, &servers[i]);
        while (!servers[i].stopped)
            run();
    }
    for (size_t i = 0; i < SERVERS; i++) {
        sql_free(servers[i].sql);
        reactor_free(servers[i].reactor);
    }
    if (postgres)
        libpq.PQfinish(postgres);
    if (mariadb)
        libmariadb.mysql_close(mariadb);
    postgres_server_free(postgres_server);
    mariadb_server_free(mariadb_server);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: sql_waits postgres|mariadb\n");
        return 2;
    }
    log_open(NULL, LOG_ERROR, false);
    database_kind = argv[1];
    return _cmocka_run_group_tests("waits over three servers", claims, claim_count, begin, end) ? 1
                                                                                                : 0;
}
