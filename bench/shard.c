/*
 * The delay queue on this machine without a network: how many durable pushes, how many jobs fired,
 * taken and acked a second, and what was written to the disk for each.
 *
 *   bench_shard [--outlive JOBS | --short JOBS] [--batch N] [--body BYTES] [--json] DIR
 *
 * DIR must not exist yet. --outlive (a million): all are pushed, due in an hour, and lie in runs
 * before that hour comes. --short: jobs are pushed, fired and acked by ten thousands, so that no
 * checkpoint finds one alive. Before both, jobs go through until the log's files are there, since
 * those are written once and then used again and again.
 */
#include "base/clock.h"
#include "job/record.h"
#include "local/local.h"

#include <dirent.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    IN_FLIGHT = 4, /* concurrent batches, as several connections would have */
    ID_BYTES = 26, /* as the server makes them */
    ROUND = 10000, /* short-lived jobs at a time */
    HOUR_MS = 3600 * 1000
};
static const uint64_t warm_up_bytes = UINT64_C(512) << 20;
static const double quiet_s = 1;

struct bench {
    struct reactor *reactor;
    struct queue *queue;
    uint64_t batch, body_bytes;
    uint64_t named; /* jobs so far, for their ids */
    uint64_t wanted, sent, answered, in_flight;
    uint64_t taken, acked;
    double faked_s; /* when the clocks were last moved */
    char *body;
    struct queue_push *pushes;
    char (*ids)[ID_BYTES + 1];
    struct queue_answer *answers;
};

struct written {
    uint64_t all, log, filled, runs;
};

struct found {
    uint64_t jobs, record_bytes;
    uint64_t until_due_bytes; /* of those in `written` */
    struct written written;
    double push_s, fire_s;
    uint64_t checkpoints, runs_before_firing, far_before_firing;
    bool outlives;
};

static double seconds(void)
{
    return (double)clock_boot_us() / 1e6;
}

/* Returns the bytes that threads of this name (NULL: all threads) have passed to write calls. The kernel's
 * other count, of pages that became dirty, counts a large folio whole each time a part of it does. */
static uint64_t written_by(const char *name)
{
    uint64_t total = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return 0;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], line[128] = "";
        uint64_t written = 0;
        if (*entry->d_name == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        bool counts = file && fgets(line, sizeof line, file) &&
                      (!name || strncmp(line, name, strlen(name)) == 0);
        if (file)
            fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/io", entry->d_name);
        if (!counts || !(file = fopen(path, "re")))
            continue;
        while (fgets(line, sizeof line, file))
            sscanf(line, "wchar: %" SCNu64, &written);
        fclose(file);
        total += written;
    }
    closedir(tasks);
    return total;
}

/* The log: the committer; new log files filled with zeros: the librarian; runs and their tables:
 * the archivist. */
static struct written written_now(void)
{
    return (struct written){.all = written_by(NULL),
                            .log = written_by("committer"),
                            .filled = written_by("librarian"),
                            .runs = written_by("archivist")};
}

static struct written written_since(struct written before)
{
    struct written now = written_now();
    return (struct written){now.all - before.all, now.log - before.log, now.filled - before.filled,
                            now.runs - before.runs};
}

/* ---- time: an hour can be gone over, else it passes as it does outside ---- */

static void fake_time(struct bench *bench)
{
    clock_fake_start(clock_inner_ms(), clock_wall_ms());
    bench->faked_s = seconds();
}

static void iterate(struct bench *bench)
{
    uv_run(reactor_loop(bench->reactor), UV_RUN_NOWAIT);
    int64_t gone_ms = bench->faked_s > 0 ? (int64_t)((seconds() - bench->faked_s) * 1000) : 0;
    if (gone_ms > 0) {
        clock_fake_advance(gone_ms);
        bench->faked_s += (double)gone_ms / 1000;
    }
}

static struct queue_info info_of(struct bench *bench)
{
    struct queue_info info = {0};
    queue_info(bench->queue, &info);
    return info;
}

/* Waits until no checkpoint has ended and nothing was written for a while. */
static void settle(struct bench *bench)
{
    uint64_t checkpoints = 0, written = 0;
    double since = seconds();
    while (seconds() - since < quiet_s) {
        for (int i = 0; i < 20; i++, usleep(1000))
            iterate(bench);
        uint64_t checkpoints_now = info_of(bench).checkpoints;
        uint64_t runs_now = written_by("archivist") + written_by("librarian");
        if (checkpoints_now != checkpoints || runs_now > written + 4096)
            since = seconds();
        checkpoints = checkpoints_now;
        written = runs_now;
    }
}

/* ---- pushing ---- */

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct bench *bench = owner;
    (void)tag;
    for (size_t i = 0; i < reply->result_count; i++)
        bench->answered += reply->results[i].status == QUEUE_CREATED;
    bench->in_flight--;
}

static struct queue_push next_push(struct bench *bench, char id[ID_BYTES + 1])
{
    snprintf(id, ID_BYTES + 1, "%0*" PRIu64, ID_BYTES, bench->named++);
    return (struct queue_push){.topic = slice_of("bench"),
                               .id = slice_make(id, ID_BYTES),
                               .body = slice_make(bench->body, bench->body_bytes),
                               .when = {QUEUE_DUE_DELAY, HOUR_MS},
                               .priority = QUEUE_PRIORITY_UNSET};
}

static void push_batch(struct bench *bench)
{
    uint64_t count = 0;
    for (; count < bench->batch && bench->sent < bench->wanted; count++, bench->sent++)
        bench->pushes[count] = next_push(bench, bench->ids[count]);
    bench->in_flight++;
    queue_push(bench->queue, bench->pushes, count,
               (struct queue_reply_to){.done = on_pushed, .owner = bench});
}

/* Pushes jobs and waits until all are durable. */
static void push_all(struct bench *bench, uint64_t jobs)
{
    bench->wanted = jobs;
    bench->sent = bench->answered = 0;
    while (bench->answered < jobs) {
        while (bench->in_flight < IN_FLIGHT && bench->sent < jobs)
            push_batch(bench);
        iterate(bench);
    }
}

/* ---- firing ---- */

static void on_acked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct bench *bench = owner;
    (void)tag;
    for (size_t i = 0; i < reply->result_count; i++)
        bench->acked += reply->results[i].status == QUEUE_OK;
    bench->in_flight--;
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct bench *bench = owner;
    (void)tag;
    if (!reply->job_count) {
        bench->in_flight--;
        return;
    }
    bench->taken += reply->job_count;
    for (size_t i = 0; i < reply->job_count; i++)
        bench->answers[i] = (struct queue_answer){.verb = QUEUE_ACK, .lease = reply->jobs[i].lease};
    queue_answer(bench->queue, bench->answers, reply->job_count,
                 (struct queue_reply_to){.done = on_acked, .owner = bench});
}

/* Fires jobs and waits until all are acked. */
static void fire_all(struct bench *bench, uint64_t jobs)
{
    struct slice topic = slice_of("bench");
    struct queue_take take = {.topics = &topic, .topic_count = 1, .max = (uint32_t)bench->batch};
    bench->taken = bench->acked = 0;
    while (bench->acked < jobs) {
        while (bench->in_flight < IN_FLIGHT && bench->taken < jobs) {
            bench->in_flight++;
            queue_take(bench->queue, &take,
                       (struct queue_reply_to){.done = on_taken, .owner = bench});
        }
        iterate(bench);
    }
}

/* ---- the two lives of a job ---- */

static void short_lives(struct bench *bench, uint64_t jobs, struct found *found)
{
    for (uint64_t done = 0; done < jobs; done += ROUND) {
        uint64_t count = jobs - done < ROUND ? jobs - done : ROUND;
        double began = seconds();
        push_all(bench, count);
        double pushed = seconds();
        clock_fake_advance(HOUR_MS + 1000);
        fire_all(bench, count);
        found->push_s += pushed - began;
        found->fire_s += seconds() - pushed;
    }
}

static void long_lives(struct bench *bench, uint64_t jobs, struct found *found)
{
    struct written before = written_now();
    double began = seconds();
    push_all(bench, jobs);
    found->push_s = seconds() - began;
    settle(bench);
    found->until_due_bytes = written_since(before).all;
    found->runs_before_firing = info_of(bench).runs;
    found->far_before_firing = info_of(bench).cold_jobs;

    clock_fake_advance(HOUR_MS + 60 * 1000);
    began = seconds();
    fire_all(bench, jobs);
    found->fire_s = seconds() - began;
    settle(bench);
    found->written = written_since(before);
}

static uint64_t record_bytes(struct bench *bench)
{
    char id[ID_BYTES + 1], bytes[4096];
    struct queue_push push = next_push(bench, id);
    const struct record record = {.kind = RECORD_JOB,
                                  .origin = RECORD_PUSHED,
                                  .job = {.topic = push.topic,
                                          .id = push.id,
                                          .body = push.body,
                                          .state = JOB_DELAYED,
                                          .priority = JOB_PRIORITY,
                                          .due_ms = clock_inner_ms(),
                                          .first_due_ms = clock_inner_ms(),
                                          .sequence = UINT64_C(1) << 32}};
    return record_encode(&record, bytes);
}

static void measure(struct bench *bench, uint64_t jobs, struct found *found)
{
    found->jobs = jobs;
    found->record_bytes = record_bytes(bench);
    fake_time(bench);
    short_lives(bench, warm_up_bytes / found->record_bytes, &(struct found){0});
    settle(bench);
    uint64_t checkpoints = info_of(bench).checkpoints;
    if (found->outlives) {
        long_lives(bench, jobs, found);
    } else {
        struct written before = written_now();
        short_lives(bench, jobs, found);
        settle(bench);
        found->written = written_since(before);
    }
    found->checkpoints = info_of(bench).checkpoints - checkpoints;
}

/* ---- what is printed ---- */

static double per_job(const struct found *found, uint64_t bytes)
{
    return (double)bytes / (double)found->jobs;
}

static double ratio_of(const struct found *found, uint64_t bytes)
{
    return per_job(found, bytes) / (double)found->record_bytes;
}

static long peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

static void print_rows(const struct found *found)
{
    double jobs = (double)found->jobs;
    printf("| %" PRIu64 " jobs that %s | |\n|---|---|\n", found->jobs,
           found->outlives ? "outlive the log" : "do not outlive the log");
    printf("| durable pushes | %.0f/s |\n", jobs / found->push_s);
    printf("| fired, taken and acked | %.0f/s |\n", jobs / found->fire_s);
    const struct written *written = &found->written;
    printf("| bytes written a job | %.0f: %.2f times its record of %" PRIu64 " |\n",
           per_job(found, written->all), ratio_of(found, written->all), found->record_bytes);
    printf("| of these log, runs, new log files filled with zeros | %.0f, %.0f, %.0f |\n",
           per_job(found, written->log), per_job(found, written->runs),
           per_job(found, written->filled));
    if (found->outlives)
        printf("| of these until it was due | %.0f |\n", per_job(found, found->until_due_bytes));
    printf("| checkpoints; before firing: runs, jobs in them | %" PRIu64 "; %" PRIu64 ", %" PRIu64
           " |\n",
           found->checkpoints, found->runs_before_firing, found->far_before_firing);
    printf("| most resident memory | %ld MiB |\n", peak_mib());
}

static void print_json(const struct found *found)
{
    double jobs = (double)found->jobs;
    printf("{\"jobs\":%" PRIu64 ",\"outlives\":%s,\"pushed_per_s\":%.0f,\"fired_per_s\":%.0f,",
           found->jobs, found->outlives ? "true" : "false", jobs / found->push_s,
           jobs / found->fire_s);
    const struct written *written = &found->written;
    printf("\"record_bytes\":%" PRIu64 ",\"written_per_job\":%.1f,\"ratio\":%.3f,"
           "\"log_ratio\":%.3f,\"runs_ratio\":%.3f,\"filled_ratio\":%.3f,\"until_due_ratio\":%.3f,",
           found->record_bytes, per_job(found, written->all), ratio_of(found, written->all),
           ratio_of(found, written->log), ratio_of(found, written->runs),
           ratio_of(found, written->filled), ratio_of(found, found->until_due_bytes));
    printf("\"checkpoints\":%" PRIu64 ",\"runs_before_firing\":%" PRIu64
           ",\"far_before_firing\":%" PRIu64 ",\"peak_mib\":%ld}\n",
           found->checkpoints, found->runs_before_firing, found->far_before_firing, peak_mib());
}

/* ---- the command line ---- */

static bool open_queue(struct bench *bench, const char *dir)
{
    static struct local_options options = {.shards = 1,
                                           .sync = WAL_SYNC_ALWAYS,
                                           .body_bytes_max = JOB_BODY_BYTES_MAX,
                                           .topics_max = 100};
    struct local *local;
    uint32_t shards;
    char error[512];
    options.data_dir = dir;
    bench->reactor = reactor_new(0);
    if (local_open(&options, &local, &shards, error, sizeof error) ||
        local_attach(local, 0, bench->reactor, &bench->queue, error, sizeof error)) {
        fprintf(stderr, "bench_shard: %s\n", error);
        return false;
    }
    bench->body = calloc(1, bench->body_bytes + 1);
    bench->pushes = calloc(QUEUE_BATCH_MAX, sizeof *bench->pushes);
    bench->ids = calloc(QUEUE_BATCH_MAX, sizeof *bench->ids);
    bench->answers = calloc(QUEUE_TAKE_MAX, sizeof *bench->answers);
    return bench->body && bench->pushes && bench->ids && bench->answers;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"outlive", required_argument, NULL, 'o'}, {"short", required_argument, NULL, 's'},
        {"batch", required_argument, NULL, 'b'},   {"body", required_argument, NULL, 'y'},
        {"json", no_argument, NULL, 'j'},          {0}};
    struct bench bench = {.batch = 256, .body_bytes = 200};
    struct found found = {.outlives = true};
    uint64_t jobs = 1000000;
    bool json = false, good = true;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
        uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;
        if (c == 'o' || c == 's') {
            found.outlives = c == 'o';
            jobs = number;
        }
        good = good && c != '?' && (number > 0 || c == 'j');
        bench.batch = c == 'b' ? number : bench.batch;
        bench.body_bytes = c == 'y' ? number : bench.body_bytes;
        json = json || c == 'j';
    }
    if (!good || optind + 1 != argc || bench.batch > QUEUE_TAKE_MAX || bench.body_bytes > 3000) {
        fprintf(stderr, "usage: bench_shard [--outlive JOBS | --short JOBS] [--batch N] "
                        "[--body BYTES] [--json] DIR\n");
        return 2;
    }
    if (!open_queue(&bench, argv[optind]))
        return 1;
    measure(&bench, jobs, &found);
    if (json)
        print_json(&found);
    else
        print_rows(&found);
    return 0;
}
