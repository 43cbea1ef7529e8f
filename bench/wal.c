/*
 * wal: how fast records go into the log and come back. bench_wal DIR [RECORDS [BATCH]]
 *
 * Records hold about 250 bytes. The owner appends on one thread while a helper writes and syncs the
 * batch before; upkeep runs on a third. DIR must be on the disk to be measured; what was there of
 * an earlier run goes first.
 */
#include "measure.h"

#include "base/clock.h"
#include "store/wal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct wal *wal;
    int (*perform)(struct wal *wal);
    bool has_work, is_done, stop;
    int result;
};

static void *help(void *ctx)
{
    struct helper *helper = ctx;

    pthread_mutex_lock(&helper->lock);
    for (;;) {
        while (!helper->has_work && !helper->stop)
            pthread_cond_wait(&helper->changed, &helper->lock);
        if (helper->stop)
            break;
        pthread_mutex_unlock(&helper->lock);
        int result = helper->perform(helper->wal);
        pthread_mutex_lock(&helper->lock);
        helper->result = result;
        helper->has_work = false;
        helper->is_done = true;
        pthread_cond_broadcast(&helper->changed);
    }
    pthread_mutex_unlock(&helper->lock);
    return NULL;
}

static void helper_start(struct helper *helper, struct wal *wal, int (*perform)(struct wal *wal))
{
    *helper = (struct helper){.wal = wal, .perform = perform};
    pthread_mutex_init(&helper->lock, NULL);
    pthread_cond_init(&helper->changed, NULL);
    pthread_create(&helper->thread, NULL, help, helper);
}

static void helper_give(struct helper *helper)
{
    pthread_mutex_lock(&helper->lock);
    helper->has_work = true;
    pthread_cond_broadcast(&helper->changed);
    pthread_mutex_unlock(&helper->lock);
}

/* Returns true once after each work; waits for it on request. */
static bool helper_came_back(struct helper *helper, bool wait)
{
    bool done;

    pthread_mutex_lock(&helper->lock);
    while (wait && !helper->is_done)
        pthread_cond_wait(&helper->changed, &helper->lock);
    done = helper->is_done;
    helper->is_done = false;
    pthread_mutex_unlock(&helper->lock);
    if (done && helper->result < 0) {
        fprintf(stderr, "failed: %s\n", strerror(-helper->result));
        exit(1);
    }
    return done;
}

static void helper_stop(struct helper *helper)
{
    pthread_mutex_lock(&helper->lock);
    helper->stop = true;
    pthread_cond_broadcast(&helper->changed);
    pthread_mutex_unlock(&helper->lock);
    pthread_join(helper->thread, NULL);
}

struct run {
    struct wal *wal;
    struct helper committer, librarian;
    bool committing, keeping_up;
};

static void commit_step(struct run *run, bool wait)
{
    if (run->committing && helper_came_back(&run->committer, wait)) {
        wal_committed(run->wal);
        run->committing = false;
    }
    if (run->keeping_up && helper_came_back(&run->librarian, false)) {
        wal_upkept(run->wal);
        run->keeping_up = false;
    }
    if (!run->keeping_up && wal_wants_upkeep(run->wal)) {
        run->keeping_up = true;
        helper_give(&run->librarian);
    }
    if (!run->committing && wal_seal(run->wal)) {
        run->committing = true;
        helper_give(&run->committer);
    }
}

static struct record_place append(struct run *run, uint64_t number)
{
    char id[24], body[220];
    struct record record = {
        .kind = RECORD_JOB,
        .origin = RECORD_PUSHED,
        .job = {.topic = slice_of("orders"),
                .id = slice_make(
                    id, (size_t)snprintf(id, sizeof id, "%016llu", (unsigned long long)number)),
                .body = slice_make(body, sizeof body - 24),
                .state = JOB_DELAYED,
                .priority = JOB_PRIORITY,
                .due_ms = 1700000000000 + (int64_t)number,
                .first_due_ms = 1700000000000 + (int64_t)number,
                .sequence = number}};

    memset(body, 'x', sizeof body);
    while (wal_has_room(run->wal, record_bytes_max(&record), WAL_FOR_PUSH) == -EAGAIN) {
        if (!run->committing && run->keeping_up && helper_came_back(&run->librarian, true)) {
            wal_upkept(run->wal);
            run->keeping_up = false;
        }
        commit_step(run, true);
    }
    return wal_append(run->wal, &record);
}

static bool count_record(void *ctx, const struct record *record, struct record_place place)
{
    (void)record;
    (void)place;
    ++*(uint64_t *)ctx;
    return true;
}

static struct wal *open_log(const char *dir, uint64_t *records)
{
    const struct wal_options options = {.fs = &fs_posix,
                                        .dir = dir,
                                        .sync = WAL_SYNC_ALWAYS,
                                        .clock = &clock_process,
                                        .inner_ms = clock_inner_ms_of,
                                        .wall_ms = clock_wall_ms_of};
    struct wal *wal;
    char error[4096];

    if (wal_open(&options, count_record, records, &wal, NULL, error, sizeof error) < 0) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
    return wal;
}

static void measure_appends(const char *dir, uint64_t records, uint64_t batch)
{
    uint64_t found = 0;
    struct run run = {.wal = open_log(dir, &found)};
    struct wal_stats stats;
    int64_t since_ns;
    double seconds;

    helper_start(&run.committer, run.wal, wal_commit);
    helper_start(&run.librarian, run.wal, wal_upkeep);
    since_ns = measure_ns();
    for (uint64_t i = 1; i <= records; i++) {
        append(&run, i);
        if (i % batch == 0)
            commit_step(&run, batch < 64);
    }
    commit_step(&run, true);
    commit_step(&run, true);
    seconds = (double)(measure_ns() - since_ns) / 1e9;
    if (run.keeping_up && helper_came_back(&run.librarian, true))
        wal_upkept(run.wal);
    wal_stats(run.wal, &stats);
    measure_print("append, committed", records, since_ns);
    printf("%-36s %10.0f syncs/s  %8.1f MB/s  %6.0f records a batch\n", "",
           (double)stats.syncs / seconds, (double)stats.bytes_written / seconds / 1e6,
           (double)records / (double)stats.commits);
    helper_stop(&run.committer);
    helper_stop(&run.librarian);
    wal_close(run.wal);
}

static void measure_replay(const char *dir)
{
    uint64_t records = 0;
    int64_t since_ns = measure_ns();
    struct wal *wal = open_log(dir, &records);

    measure_print("replay at opening", records, since_ns);
    wal_close(wal);
}

int main(int argc, char **argv)
{
    uint64_t records = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000000;
    uint64_t batch = argc > 3 ? strtoull(argv[3], NULL, 10) : 512;
    char command[4200];

    if (argc < 2 || records == 0 || batch == 0) {
        fprintf(stderr, "usage: bench_wal DIR [RECORDS [BATCH]]\n");
        return 2;
    }
    snprintf(command, sizeof command, "rm -rf '%s/wal'", argv[1]);
    if (system(command) != 0)
        return 1;
    measure_appends(argv[1], records, batch);
    measure_replay(argv[1]);
    return 0;
}
