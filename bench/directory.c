/*
 * A queue in a directory, through the functions of tarry.h, compared with a table of SQLite used as one (WAL,
 * synchronous=FULL): both synced, in turns, in one run.
 *
 *   bench_directory batch DIR [JOBS]      one thread pushes JOBS (256,000) by 256 a round
 *   bench_directory flight DIR [JOBS]     the same, the queue's with 4 concurrent calls (tarry_submit)
 *   bench_directory single DIR [SECONDS]  64 threads push one by one, each when its last is on the disk; SQLite's has one
 *                                         thread, since they would wait for its one writer
 *   bench_directory cycle DIR [JOBS]      one thread pushes by 256, takes and acks by 100
 *
 * Each job has an id of 26 bytes, a body of 200 and is due now (cycle) or in a day. DIR is made; empty it manually.
 * Medians of five rounds, by the wall clock and for each second of the process's CPU: the former is unreliable on a machine that others
 * use.
 */
#include "measure.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tarry.h>
#include <unistd.h>

enum { BODY_BYTES = 200, ID_BYTES = 26, BATCH = 256, TAKE = 100, THREADS = 64, ROUNDS = 5 };
enum { DAY_MS = 86400000, PATH_BYTES = 1024 };

static tarry *queue;
static sqlite3 *table;
static sqlite3_stmt *insert, *begin, *commit, *find, *delete;
static char body[BODY_BYTES];
static uint64_t made;

static void stop_at(int code, const char *what)
{
    if (!code)
        return;
    fprintf(stderr, "%s: %s\n", what, tarry_strerror(code));
    exit(1);
}

static void stop_at_table(bool is_good)
{
    if (is_good)
        return;
    fprintf(stderr, "SQLite: %s\n", sqlite3_errmsg(table));
    exit(1);
}

static void id_write(char id[ID_BYTES + 1], uint64_t number)
{
    snprintf(id, ID_BYTES + 1, "j%025" PRIu64, number);
}

/* ---- both as they are opened ---- */

static void queue_open(const char *dir)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    char error[400], path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/queue", dir);
    options.dir = path;
    if (tarry_open(&options, &queue, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static sqlite3_stmt *prepare(const char *text)
{
    sqlite3_stmt *statement;
    stop_at_table(sqlite3_prepare_v2(table, text, -1, &statement, NULL) == SQLITE_OK);
    return statement;
}

static void table_open(const char *dir)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/table.sqlite", dir);
    stop_at_table(sqlite3_open(path, &table) == SQLITE_OK);
    static const char *const texts[] = {
        "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
        "CREATE TABLE IF NOT EXISTS jobs (topic TEXT, id TEXT, due INTEGER, body BLOB, PRIMARY KEY "
        "(topic, id)) WITHOUT ROWID",
        "CREATE INDEX IF NOT EXISTS by_due ON jobs (topic, due)"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        stop_at_table(sqlite3_exec(table, texts[i], NULL, NULL, NULL) == SQLITE_OK);
    insert = prepare("INSERT OR REPLACE INTO jobs VALUES ('t', ?, ?, ?)");
    find = prepare("SELECT id, body FROM jobs WHERE topic = 't' ORDER BY due LIMIT 100");
    delete = prepare("DELETE FROM jobs WHERE topic = 't' AND id = ?");
    begin = prepare("BEGIN");
    commit = prepare("COMMIT");
}

static void step(sqlite3_stmt *statement)
{
    stop_at_table(sqlite3_step(statement) == SQLITE_DONE && !sqlite3_reset(statement));
}

/* ---- pushes of one call ---- */

static void pushes_write(struct tarry_push *pushes, char ids[][ID_BYTES + 1], uint64_t first,
                         int count, int64_t delay_ms)
{
    for (int i = 0; i < count; i++) {
        id_write(ids[i], first + (uint64_t)i);
        pushes[i] = (struct tarry_push){.size = sizeof pushes[i],
                                        .topic = "t",
                                        .id = ids[i],
                                        .body = body,
                                        .body_bytes = sizeof body,
                                        .delay_ms = delay_ms};
    }
}

static void queue_push(uint64_t first, int count, int64_t delay_ms)
{
    char ids[BATCH][ID_BYTES + 1];
    struct tarry_push pushes[BATCH];
    pushes_write(pushes, ids, first, count, delay_ms);
    stop_at(tarry_push(queue, pushes, (size_t)count, NULL), "push");
}

static int in_flight;

static void on_pushed(void *owner, const struct tarry_reply *reply)
{
    (void)owner;
    stop_at(reply->code, "push");
    in_flight--;
}

/* Waits if the limit of concurrent calls is reached; after the last call, until all are done. */
static void queue_fly(uint64_t first, int count, int64_t delay_ms)
{
    enum { FLIGHT = 4 };
    char ids[BATCH][ID_BYTES + 1];
    struct tarry_push pushes[BATCH];
    struct tarry_call call = TARRY_CALL_INIT;
    struct pollfd poller = {.fd = tarry_fd(queue), .events = POLLIN};
    pushes_write(pushes, ids, first, count, delay_ms);
    call.kind = TARRY_CALL_PUSH;
    call.items = pushes;
    call.n = (size_t)count;
    stop_at(tarry_submit(queue, &call, on_pushed, NULL), "submit");
    in_flight++;
    while (in_flight >= FLIGHT) {
        poll(&poller, 1, -1);
        tarry_dispatch(queue, 0);
    }
}

static void table_push(uint64_t first, int count, int64_t delay_ms)
{
    char id[ID_BYTES + 1];
    step(begin);
    for (int i = 0; i < count; i++) {
        id_write(id, first + (uint64_t)i);
        sqlite3_bind_text(insert, 1, id, ID_BYTES, SQLITE_STATIC);
        sqlite3_bind_int64(insert, 2, (int64_t)first + delay_ms);
        sqlite3_bind_blob(insert, 3, body, sizeof body, SQLITE_STATIC);
        step(insert);
    }
    step(commit);
}

/* ---- takes and acks ---- */

static void queue_drain(uint64_t count)
{
    static const char *const topics[] = {"t"};
    struct tarry_take take = TARRY_TAKE_INIT;
    tarry_job *jobs[TAKE];
    struct tarry_answer answers[TAKE];
    size_t n;
    take.topics = topics;
    take.topic_count = 1;
    take.max = TAKE;
    while (count) {
        stop_at(tarry_take(queue, &take, -1, jobs, &n), "take");
        for (size_t i = 0; i < n; i++)
            answers[i] = (struct tarry_answer){.size = sizeof answers[i], .job = jobs[i]};
        stop_at(tarry_ack(queue, answers, n, NULL), "ack");
        for (size_t i = 0; i < n; i++)
            tarry_job_free(jobs[i]);
        count -= n;
    }
}

/* Reads and deletes jobs. A single process writes no leases. */
static void table_drain(uint64_t count)
{
    static char ids[TAKE][ID_BYTES + 1];
    while (count) {
        size_t n = 0;
        while (sqlite3_step(find) == SQLITE_ROW)
            memcpy(ids[n++], sqlite3_column_text(find, 0), ID_BYTES + 1);
        stop_at_table(n && !sqlite3_reset(find));
        step(begin);
        for (size_t i = 0; i < n; i++) {
            sqlite3_bind_text(delete, 1, ids[i], ID_BYTES, SQLITE_STATIC);
            step(delete);
        }
        step(commit);
        count -= n;
    }
}

/* ---- rounds ---- */

/* A rate by the wall clock, and per second of CPU. */
struct rate {
    double wall, cpu;
};

struct watch {
    int64_t wall_ns, cpu_ns;
};

static struct watch watch_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (struct watch){measure_ns(), (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
}

static struct rate rate_since(struct watch since, uint64_t count)
{
    struct watch now = watch_now();
    return (struct rate){(double)count * 1e9 / (double)(now.wall_ns - since.wall_ns),
                         (double)count * 1e9 / (double)(now.cpu_ns - since.cpu_ns)};
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const struct rate *rates, bool by_cpu)
{
    double sorted[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        sorted[i] = by_cpu ? rates[i].cpu : rates[i].wall;
    qsort(sorted, ROUNDS, sizeof *sorted, compare);
    return sorted[ROUNDS / 2];
}

static void print_medians(const char *what, const struct rate *rates, const struct rate *beside)
{
    for (int by_cpu = 0; by_cpu < 2; by_cpu++) {
        double mine = median(rates, by_cpu), its = median(beside, by_cpu);
        printf("%-9s queue %9.0f, SQLite %9.0f a second %-10s %5.1f times\n", what, mine, its,
               by_cpu ? "of CPU," : "(wall),", mine / its);
    }
}

static struct rate rate_of(void (*push)(uint64_t, int, int64_t), void (*drain)(uint64_t),
                           uint64_t jobs)
{
    struct watch since = watch_now();
    for (uint64_t done = 0; done < jobs; done += BATCH, made += BATCH)
        push(made, BATCH, drain ? 0 : DAY_MS);
    if (drain)
        drain(jobs);
    return rate_since(since, jobs);
}

/* The log's files are written once, and used again and again: before the first round, as many as the rounds or a checkpoint
 * need. */
static void warm_up(uint64_t jobs)
{
    enum { JOBS_MAX = (300 << 20) / BODY_BYTES };
    uint64_t until = made + (jobs * ROUNDS < JOBS_MAX ? jobs * ROUNDS : JOBS_MAX);
    for (; made < until; made += BATCH)
        queue_push(made, BATCH, DAY_MS);
}

static void batches(uint64_t jobs, bool drains, bool flies)
{
    struct rate rates[ROUNDS], beside[ROUNDS];
    jobs -= jobs % BATCH;
    warm_up(jobs);
    for (int i = 0; i < ROUNDS; i++) {
        rates[i] = rate_of(flies ? queue_fly : queue_push, drains ? queue_drain : NULL, jobs);
        beside[i] = rate_of(table_push, drains ? table_drain : NULL, jobs / 4 - jobs / 4 % BATCH);
    }
    print_medians(drains ? "cycle" : flies ? "in flight" : "by 256", rates, beside);
}

/* ---- one by one ---- */

static atomic_bool is_over;
static atomic_uint_fast64_t pushed;

static void *single_run(void *ctx)
{
    uint64_t number = *(const uint64_t *)ctx;
    for (; !atomic_load_explicit(&is_over, memory_order_relaxed); number++) {
        queue_push(number, 1, DAY_MS);
        atomic_fetch_add_explicit(&pushed, 1, memory_order_relaxed);
    }
    return NULL;
}

static struct rate single_queue(int round, unsigned seconds)
{
    pthread_t threads[THREADS];
    uint64_t firsts[THREADS];
    atomic_store(&is_over, false);
    atomic_store(&pushed, 0);
    struct watch since = watch_now();
    for (int i = 0; i < THREADS; i++) {
        firsts[i] = (uint64_t)(round * THREADS + i + 1) << 32;
        pthread_create(&threads[i], NULL, single_run, &firsts[i]);
    }
    sleep(seconds);
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return rate_since(since, atomic_load(&pushed));
}

static struct rate single_table(unsigned seconds)
{
    struct watch since = watch_now();
    uint64_t count = 0;
    for (; measure_ns() - since.wall_ns < (int64_t)seconds * 1000000000; count++)
        table_push(made++, 1, DAY_MS);
    return rate_since(since, count);
}

static void singles(unsigned seconds)
{
    struct rate rates[ROUNDS], beside[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        rates[i] = single_queue(i, seconds);
        beside[i] = single_table(seconds);
    }
    print_medians("one by 1", rates, beside);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    uint64_t number = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    bool is_batch = !strcmp(what, "batch"), is_cycle = !strcmp(what, "cycle");
    bool flies = !strcmp(what, "flight");
    if (!is_batch && !is_cycle && !flies && strcmp(what, "single") != 0)
        return fprintf(stderr, "usage: bench_directory batch|flight|single|cycle DIR [NUMBER]\n"),
               2;
    (void)mkdir(argv[2], 0700);
    queue_open(argv[2]);
    table_open(argv[2]);
    if (is_batch || is_cycle || flies)
        batches(number ? number : 256000, is_cycle, flies);
    else
        singles(number ? (unsigned)number : 2);
    sqlite3_finalize(insert), sqlite3_finalize(begin), sqlite3_finalize(commit);
    sqlite3_finalize(find), sqlite3_finalize(delete);
    sqlite3_close(table);
    return tarry_close(queue);
}
