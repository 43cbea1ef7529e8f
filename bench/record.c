/* How long the stored form of the commonest records takes: a push of 200 bytes, a take, an ack; and
 * how many bytes they are together. */
#include "job/record.h"

#include "measure.h"

enum { ROUNDS = 5000000, AHEAD = 64, ROOM = 512 };

static char bytes[AHEAD * ROOM];
static char body[200];

/* Numbers of a shard that was started once and has seen some millions of jobs. */
#define SEQUENCE ((UINT64_C(1) << 32) + 12345678)

static const struct record job = {
    .kind = RECORD_JOB,
    .origin = RECORD_PUSHED,
    .job = {.topic = {"orders", 6},
            .id = {"01hzx3j5k8m2n4p6q8r0s2t4v6", 26}, /* as the server makes them */
            .body = {body, sizeof body},
            .state = JOB_DELAYED,
            .priority = JOB_PRIORITY,
            .due_ms = INT64_C(1790000000000),
            .first_due_ms = INT64_C(1790000000000),
            .sequence = SEQUENCE},
};
static const struct record state = {
    .kind = RECORD_STATE,
    .state = {.key = {UINT64_MAX / 3, UINT64_MAX / 5},
              .state = JOB_LEASED,
              .priority = JOB_PRIORITY,
              .attempt = 1,
              .due_ms = INT64_C(1790000000000),
              .first_due_ms = INT64_C(1790000000000),
              .lease_until_ms = INT64_C(1790000060003),
              .taken_ms = INT64_C(1790000000003),
              .delivery = SEQUENCE + 1},
};
static const struct record done = {
    .kind = RECORD_DONE,
    .done = {.key = {UINT64_MAX / 3, UINT64_MAX / 5},
             .reason = RECORD_ACKED,
             .sequence = SEQUENCE,
             .topic = {"orders", 6}},
};

static void run(const char *name, const struct record *like)
{
    struct record record = *like, decoded;
    char label[64];
    int64_t since_ns = measure_ns();
    size_t len = 0, good = 0;

    for (size_t i = 0; i < ROUNDS; i++) {
        __asm__ volatile("" : "+m"(record)); /* as if it were another one */
        len = record_encode(&record, bytes + i % AHEAD * ROOM);
    }
    snprintf(label, sizeof label, "encode %s (%zu bytes)", name, len);
    measure_print(label, ROUNDS, since_ns);

    since_ns = measure_ns();
    for (size_t i = 0; i < ROUNDS; i++)
        good += record_decode(slice_make(bytes + i % AHEAD * ROOM, len), &decoded);
    snprintf(label, sizeof label, "decode %s", name);
    measure_print(label, good, since_ns);
}

/* Prints the bytes of a record in the log: the check only covers the job. */
static void print_bytes(void)
{
    enum { CHECK_BYTES = 4 };
    size_t alone = record_encode(&job, bytes);
    size_t all = alone + CHECK_BYTES + record_encode(&state, bytes) + record_encode(&done, bytes);

    printf("push, take and ack: %zu bytes, %.3f times the JOB's %zu\n", all,
           (double)all / (double)alone, alone);
}

int main(void)
{
    print_bytes();
    run("JOB", &job);
    run("STATE", &state);
    run("DONE", &done);
    return 0;
}
