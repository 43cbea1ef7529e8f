/*
 * A table of SQLite as a delay queue, in memory: what bench/library.c does, with the same ids, bodies, delays and words
 * on the command line. Each operation is a transaction of its own; time is a counter.
 *
 *   bench_sqlite hold PENDING 1     takes the one that is due, and pushes another with a random later due
 *   bench_sqlite ids PENDING        pushes; a random one is cancelled and pushed
 */
#include "base/random.h"
#include "measure.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BODY_BYTES = 200, ID_BYTES = 26, ROUNDS = 5, ROUND_CPU_NS = 700000000 };

static sqlite3 *base;
static sqlite3_stmt *insert, *first, *erase, *erase_id, *begin, *commit;
static char body[BODY_BYTES];
static int64_t now_ms;

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void check(int code, int wanted)
{
    if (code == wanted)
        return;
    fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(base));
    exit(1);
}

static void run(sqlite3_stmt *statement)
{
    check(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_reset(statement);
}

static sqlite3_stmt *prepare(const char *text)
{
    sqlite3_stmt *statement = NULL;
    check(sqlite3_prepare_v2(base, text, -1, &statement, NULL), SQLITE_OK);
    return statement;
}

static void open_base(void)
{
    check(sqlite3_open(":memory:", &base), SQLITE_OK);
    check(sqlite3_exec(
              base,
              "CREATE TABLE job (topic TEXT, id TEXT, due INTEGER, body BLOB, "
              "PRIMARY KEY (topic, id)) WITHOUT ROWID; CREATE INDEX job_due ON job (topic, due)",
              NULL, NULL, NULL),
          SQLITE_OK);
    insert = prepare("INSERT INTO job VALUES ('t', ?, ?, ?)");
    first = prepare("SELECT id, body FROM job WHERE topic = 't' AND due <= ? ORDER BY due LIMIT 1");
    erase = erase_id = prepare("DELETE FROM job WHERE topic = 't' AND id = ?");
    begin = prepare("BEGIN");
    commit = prepare("COMMIT");
}

static void id_write(char id[ID_BYTES], char kind, uint64_t number)
{
    for (int i = ID_BYTES - 1; i > 0; i--, number /= 10)
        id[i] = (char)('0' + number % 10);
    id[0] = kind;
}

static void push_one(char kind, uint64_t number, int64_t delay_ms)
{
    char id[ID_BYTES];
    id_write(id, kind, number);
    sqlite3_bind_text(insert, 1, id, ID_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 2, now_ms + delay_ms);
    sqlite3_bind_blob(insert, 3, body, BODY_BYTES, SQLITE_STATIC);
    run(insert);
}

static void pop_one(void)
{
    static char taken[BODY_BYTES];
    for (;;) {
        sqlite3_bind_int64(first, 1, now_ms);
        int code = sqlite3_step(first);
        if (code == SQLITE_ROW)
            break;
        check(code, SQLITE_DONE);
        sqlite3_reset(first);
        now_ms += 32;
    }
    memcpy(taken, sqlite3_column_blob(first, 1), BODY_BYTES);
    sqlite3_bind_text(erase, 1, (const char *)sqlite3_column_text(first, 0), ID_BYTES,
                      SQLITE_TRANSIENT);
    sqlite3_reset(first);
    run(erase);
}

static void hold(uint64_t pending)
{
    struct random random = {1};
    double best_cpu = 0, best_wall = 0;
    run(begin);
    for (uint64_t i = 0; i < pending; i++)
        push_one('p', i, 1 + (int64_t)random_below(&random, 2 * pending));
    run(commit);
    uint64_t number = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t wall = measure_ns(), cpu = cpu_ns();
        uint64_t before = number;
        while (cpu_ns() - cpu < ROUND_CPU_NS) {
            run(begin);
            pop_one();
            push_one('A', number++, 1 + (int64_t)random_below(&random, 2 * pending));
            run(commit);
        }
        double done = (double)(number - before);
        double by_cpu = done * 1e9 / (double)(cpu_ns() - cpu);
        double by_wall = done * 1e9 / (double)(measure_ns() - wall);
        best_cpu = by_cpu > best_cpu ? by_cpu : best_cpu;
        best_wall = by_wall > best_wall ? by_wall : best_wall;
    }
    printf("{\"what\":\"hold\",\"pending\":%lu,\"threads\":1,\"per_cpu_s\":%.0f,\"per_s\":%.0f}\n",
           (unsigned long)pending, best_cpu, best_wall);
}

static void ids(uint64_t pending)
{
    struct random random = {1};
    uint64_t count = 200000;
    int64_t before = sqlite3_memory_used(), since = cpu_ns();
    for (uint64_t i = 0; i < pending; i++)
        push_one('p', i, 1 + (int64_t)random_below(&random, 3600000));
    printf("{\"what\":\"push\",\"pending\":%lu,\"per_cpu_s\":%.0f}\n", (unsigned long)pending,
           (double)pending * 1e9 / (double)(cpu_ns() - since));
    printf("{\"what\":\"bytes\",\"pending\":%lu,\"bytes\":%.0f}\n", (unsigned long)pending,
           (double)(sqlite3_memory_used() - before) / (double)pending);
    since = cpu_ns();
    for (uint64_t i = 0; i < count; i++) {
        char id[ID_BYTES];
        uint64_t number = random_below(&random, pending);
        id_write(id, 'p', number);
        sqlite3_bind_text(erase_id, 1, id, ID_BYTES, SQLITE_STATIC);
        run(erase_id);
        push_one('p', number, 1 + (int64_t)random_below(&random, 3600000));
    }
    printf("{\"what\":\"cancel_push\",\"pending\":%lu,\"per_cpu_s\":%.0f}\n",
           (unsigned long)pending, (double)count * 1e9 / (double)(cpu_ns() - since));
}

int main(int argc, char **argv)
{
    uint64_t pending = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    open_base();
    if (argc > 3 && !strcmp(argv[1], "hold") && !strcmp(argv[3], "1") && pending)
        hold(pending);
    else if (argc > 2 && !strcmp(argv[1], "ids") && pending)
        ids(pending);
    else
        return fprintf(stderr, "usage: bench_sqlite hold PENDING 1 | ids PENDING\n"), 2;
    sqlite3_stmt *const statements[] = {insert, first, erase, begin, commit};
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        sqlite3_finalize(statements[i]);
    sqlite3_close(base);
    return 0;
}
