/*
 * The delay queue on this machine without a network: how many durable pushes, and how many jobs
 * fired, taken and acked a second.
 *
 *   bench_shard DIR [JOBS] [BATCH] [BODY_BYTES]      in a directory that does not exist yet
 */
#include "base/clock.h"
#include "local/local.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { IN_FLIGHT = 4 }; /* batches under way at once, as several connections would have */

struct bench {
    struct queue *queue;
    uint64_t jobs, batch, body_bytes;
    uint64_t sent, answered, in_flight;
    uint64_t taken, acked;
    bool is_empty;
    char *body;
    struct queue_push *pushes;
    char (*ids)[24];
    struct queue_answer *answers;
};

static double seconds(void)
{
    return (double)clock_boot_us() / 1e6;
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct bench *bench = owner;
    (void)tag;
    for (size_t i = 0; i < reply->result_count; i++)
        bench->answered += reply->results[i].status == QUEUE_CREATED;
    bench->in_flight--;
}

static void push_batch(struct bench *bench)
{
    uint64_t count = 0;
    for (; count < bench->batch && bench->sent < bench->jobs; count++, bench->sent++) {
        int bytes =
            snprintf(bench->ids[count], sizeof bench->ids[count], "job-%" PRIu64, bench->sent);
        bench->pushes[count] =
            (struct queue_push){.topic = slice_of("bench"),
                                .id = slice_make(bench->ids[count], (size_t)bytes),
                                .body = slice_make(bench->body, bench->body_bytes),
                                .when = {QUEUE_DUE_AT, clock_wall_ms() + 3600 * 1000},
                                .priority = QUEUE_PRIORITY_UNSET};
    }
    bench->in_flight++;
    bench->queue->ops->push(bench->queue, bench->pushes, count,
                            (struct queue_reply_to){.done = on_pushed, .owner = bench});
}

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
    bench->queue->ops->answer(bench->queue, bench->answers, reply->job_count,
                              (struct queue_reply_to){.done = on_acked, .owner = bench});
}

static void report(const char *what, uint64_t count, double took)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%-8s %10" PRIu64 " in %6.2f s  %10.0f/s   peak RSS %ld MiB\n", what, count, took,
           (double)count / took, usage.ru_maxrss / 1024);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_shard DIR [JOBS] [BATCH] [BODY_BYTES]\n");
        return 2;
    }
    struct bench bench = {.jobs = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000,
                          .batch = argc > 3 ? strtoull(argv[3], NULL, 10) : 256,
                          .body_bytes = argc > 4 ? strtoull(argv[4], NULL, 10) : 200};
    struct local_options options = {.data_dir = argv[1],
                                    .shards = 1,
                                    .sync = WAL_SYNC_ALWAYS,
                                    .body_bytes_max = JOB_BODY_BYTES_MAX,
                                    .topics_max = 100};
    struct local *local;
    uint32_t shards;
    char error[512];
    struct reactor *reactor = reactor_new(0);
    if (local_open(&options, &local, &shards, error, sizeof error) ||
        local_attach(local, 0, reactor, &bench.queue, error, sizeof error)) {
        fprintf(stderr, "bench_shard: %s\n", error);
        return 1;
    }
    bench.body = calloc(1, bench.body_bytes + 1);
    bench.pushes = calloc(QUEUE_BATCH_MAX, sizeof *bench.pushes);
    bench.ids = calloc(QUEUE_BATCH_MAX, sizeof *bench.ids);
    bench.answers = calloc(QUEUE_TAKE_MAX, sizeof *bench.answers);

    /* The first half of the run ends when every push is durable; all are due an hour from now. */
    int64_t inner_ms = clock_inner_ms();
    double began = seconds();
    while (bench.answered < bench.jobs) {
        while (bench.in_flight < IN_FLIGHT && bench.sent < bench.jobs)
            push_batch(&bench);
        uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    }
    report("pushed", bench.answered, seconds() - began);

    /* Now it is an hour later. */
    clock_fake_start(inner_ms, inner_ms);
    clock_fake_advance(2 * 3600 * 1000);
    struct slice topic = slice_of("bench");
    struct queue_take take = {.topics = &topic, .topic_count = 1, .max = (uint32_t)bench.batch};
    began = seconds();
    while (bench.acked < bench.jobs) {
        while (bench.in_flight < IN_FLIGHT && bench.taken < bench.jobs) {
            bench.in_flight++;
            bench.queue->ops->take(bench.queue, &take,
                                   (struct queue_reply_to){.done = on_taken, .owner = &bench});
        }
        uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    }
    report("fired", bench.acked, seconds() - began);
    return 0;
}
