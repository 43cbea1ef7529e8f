/*
 * run: how fast runs are written, scanned, and read one by one. bench_run DIR [SLOTS]
 *
 * Records hold about 250 bytes. DIR must be on the disk to be measured; the run made there goes
 * again. Reading is from the page cache.
 */
#include "measure.h"

#include "base/random.h"
#include "store/run.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER = 1, SEED = 1, READS = 200000 };

static void must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s failed: %s\n", what, strerror(-result));
    exit(1);
}

static size_t encode(uint64_t number, char *into)
{
    char id[24], body[196];
    struct record record = {
        .kind = RECORD_JOB,
        .origin = RECORD_CARRIED,
        .job = {.topic = slice_of("orders"),
                .id = slice_make(
                    id, (size_t)snprintf(id, sizeof id, "%016llu", (unsigned long long)number)),
                .body = slice_make(body, sizeof body),
                .state = JOB_DELAYED,
                .priority = JOB_PRIORITY,
                .due_ms = 1700000000000 + (int64_t)number,
                .first_due_ms = 1700000000000 + (int64_t)number,
                .sequence = number}};

    memset(body, 'x', sizeof body);
    return record_encode(&record, into);
}

static void measure_writing(const char *dir, uint32_t slots)
{
    const struct run_writing writing = {
        .fs = &fs_posix, .dir = dir, .number = NUMBER, .seed = SEED};
    struct run_writer *writer;
    struct run_info info;
    char record[512];
    int64_t since_ns = measure_ns();
    double seconds;

    must(run_writer_new(&writing, &writer), "making a run");
    for (uint32_t i = 0; i < slots; i++) {
        size_t bytes = encode(i, record);

        must(run_writer_add(writer, PART_DELAYED, 1700000000000 + (int64_t)i, i, slice_of("orders"),
                            0, slice_make(record, bytes)),
             "writing");
    }
    must(run_writer_finish(writer, &info), "writing");
    seconds = (double)(measure_ns() - since_ns) / 1e9;
    measure_print("write, synced", slots, since_ns);
    printf("%-36s %10.1f MB/s  %6.1f bytes a slot beside its record\n", "",
           (double)info.file_bytes / seconds / 1e6,
           (double)(info.file_bytes - info.record_bytes) / slots);
}

static int wants_some(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    (void)entry;
    return slot % *(uint32_t *)ctx == 0;
}

static bool take(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    (void)ctx, (void)slot, (void)entry;
    if (record.len)
        return true;
    fprintf(stderr, "slot %u is damaged\n", slot);
    exit(1);
}

static void measure_scan(const struct run *run, uint32_t of)
{
    uint32_t next, slots = run_info(run)->slots;
    struct run_scan scan = {.end = slots, .wants = wants_some, .each = take, .ctx = &of};
    char what[64];
    int64_t since_ns = measure_ns();

    must(run_scan(run, &scan, &next), "scanning");
    snprintf(what, sizeof what, "scan, one of %u wanted", of);
    measure_print(what, slots, since_ns);
}

static void measure_reads(const struct run *run)
{
    struct random random = {.state = 1};
    struct buffer scratch;
    struct slice record;
    int64_t since_ns = measure_ns();

    buffer_init(&scratch, 1 << 20);
    for (int i = 0; i < READS; i++)
        must(run_read(run, (uint32_t)random_below(&random, run_info(run)->slots), 0, true, &scratch,
                      &record),
             "reading");
    measure_print("read, one by one", READS, since_ns);
    buffer_fini(&scratch);
}

int main(int argc, char **argv)
{
    uint32_t slots = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2000000;
    char error[512], path[4200], name[32];
    int64_t since_ns;
    struct run *run;

    if (argc < 2 || slots == 0) {
        fprintf(stderr, "usage: bench_run DIR [SLOTS]\n");
        return 2;
    }
    measure_writing(argv[1], slots);
    since_ns = measure_ns();
    if (run_open(&fs_posix, argv[1], NUMBER, SEED, &run, error, sizeof error) < 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    measure_print("open", 1, since_ns);
    measure_scan(run, 1);
    measure_scan(run, 10);
    measure_scan(run, 1000);
    measure_reads(run);
    run_close(run);
    run_file_name(NUMBER, name);
    snprintf(path, sizeof path, "%s/%s", argv[1], name);
    return remove(path) != 0;
}
