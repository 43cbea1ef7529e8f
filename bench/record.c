/* How long the stored form of the commonest records takes: a push of 200 bytes, a take, an ack. */
#include "job/record.h"

#include "measure.h"

enum { ROUNDS = 5000000, AHEAD = 64, ROOM = 512 };

static char bytes[AHEAD * ROOM];
static char body[200];

static const struct record job = {
    .kind = RECORD_JOB,
    .origin = RECORD_PUSHED,
    .job = {.topic = {"orders.unpaid", 13},
            .id = {"order-88123456", 14},
            .content_type = {"application/json", 16},
            .body = {body, sizeof body},
            .state = JOB_DELAYED,
            .priority = JOB_PRIORITY,
            .due_ms = INT64_C(1790000000000),
            .first_due_ms = INT64_C(1790000000000),
            .sequence = 12345678},
};
static const struct record state = {
    .kind = RECORD_STATE,
    .state = {.key = {UINT64_MAX / 3, UINT64_MAX / 5},
              .state = JOB_LEASED,
              .priority = JOB_PRIORITY,
              .attempt = 1,
              .due_ms = INT64_C(1790000000000),
              .first_due_ms = INT64_C(1790000000000),
              .lease_until_ms = INT64_C(1790000060000),
              .delivery = 12345678},
};
static const struct record done = {
    .kind = RECORD_DONE,
    .done = {.key = {UINT64_MAX / 3, UINT64_MAX / 5}, .reason = RECORD_ACKED, .sequence = 12345678},
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

int main(void)
{
    run("JOB", &job);
    run("STATE", &state);
    run("DONE", &done);
    return 0;
}
