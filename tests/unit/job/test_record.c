/* The stored form: what goes in comes out, and nothing else gets in. */
#include "job/record.h"

#include "unit/repetitions.h"
#include "unit/seed.h"

#include "unit/claim.h"

#include "unit/random_record.h"

enum { ROUNDS = 20000, BROKEN_ROUNDS = 60, NOISE_ROUNDS = 1000000, ROOM = 16384 };

/* ---- claims ---- */

/* Decoding reads from memory that ends exactly where the record does, so that the sanitizer sees a
 * byte too far. */
static bool decode_copy(const char *bytes, size_t len, struct record *out, char **copy)
{
    *copy = malloc(len ? len : 1);
    assert_non_null(*copy);
    memcpy(*copy, bytes, len);
    return record_decode(slice_make(*copy, len), out);
}

CLAIM(records_survive_encoding_and_decoding)
{
    struct random random = seed_random(__func__);
    static char bytes[ROOM];

    for (int round = 0; round < ROUNDS; round++) {
        struct record record = random_record(&random), decoded;
        size_t len = record_encode(&record, bytes);
        char *copy;

        assert_true(len <= record_bytes_max(&record) && len <= ROOM);
        assert_int_equal(record_next(slice_make(bytes, ROOM)), len);
        assert_true(decode_copy(bytes, len, &decoded, &copy));
        same_record(&record, &decoded);
        free(copy);
    }
}

static struct record plain_job(void)
{
    return (struct record){.kind = RECORD_JOB,
                           .origin = RECORD_PUSHED,
                           .job = {.topic = slice_of("orders.unpaid"),
                                   .id = slice_of("order-8812345"),
                                   .content_type = slice_of("application/json"),
                                   .body = slice_of("{\"order\":8812345}"),
                                   .state = JOB_DELAYED,
                                   .priority = JOB_PRIORITY,
                                   .due_ms = INT64_C(1790000000000),
                                   .first_due_ms = INT64_C(1790000000000),
                                   .sequence = 123456789}};
}

CLAIM(a_plain_job_costs_few_bytes_beside_its_text)
{
    static char bytes[ROOM];
    struct record record = plain_job();
    const struct job *job = &record.job;
    size_t text = job->topic.len + job->id.len + job->content_type.len + job->body.len;

    assert_true(record_encode(&record, bytes) - text <= 22);
}

CLAIM(every_field_at_its_largest_fits_the_bound)
{
    static char bytes[ROOM];
    struct policy policy = {.lease_ms = INT64_MAX,
                            .ttl_ms = INT64_MAX,
                            .backoff = {.kind = BACKOFF_LIST, .step_count = BACKOFF_STEPS_MAX},
                            .max_attempts = UINT32_MAX};
    const struct record_place from = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    struct record record = plain_job(), decoded;
    struct topic_totals *totals = &record.topic.totals;
    struct job_attempt attempt = {UINT32_MAX, INT64_MAX, INT64_MAX, JOB_OUTCOME_REFUSED,
                                  slice_of("e")};
    char history[JOB_HISTORY_BYTES_MAX];

    for (size_t i = 0; i < BACKOFF_STEPS_MAX; i++)
        policy.backoff.steps_ms[i] = (uint32_t)BACKOFF_STEP_MS_MAX;
    size_t len;

    record.job = (struct job){.topic = slice_of("t"),
                              .id = slice_of("i"),
                              .error = slice_of("e"),
                              .state = JOB_FINISHED,
                              .due_is_wall = true,
                              .priority = JOB_PRIORITY_MAX,
                              .attempt = UINT32_MAX,
                              .due_ms = INT64_MAX,
                              .first_due_ms = INT64_MAX - 1,
                              .lease_until_ms = INT64_MAX,
                              .sequence = UINT64_MAX,
                              .delivery = UINT64_MAX,
                              .policy = policy};
    record.from = from;
    record.job.taken_ms = 1;
    record.job.history = slice_make(history, job_history_add((struct slice){0}, &attempt, history));
    len = record_encode(&record, bytes);
    assert_true(len <= record_bytes_max(&record) &&
                record_decode(slice_make(bytes, len), &decoded));
    same_record(&record, &decoded);

    record = (struct record){.kind = RECORD_STATE, .from = from};
    record.state = (struct record_state){.state = JOB_FINISHED,
                                         .priority = JOB_PRIORITY_MAX,
                                         .attempt = UINT32_MAX,
                                         .due_ms = INT64_MAX,
                                         .first_due_ms = INT64_MAX - 1,
                                         .lease_until_ms = INT64_MAX,
                                         .taken_ms = 1,
                                         .delivery = UINT64_MAX,
                                         .error = slice_of("e"),
                                         .ended = {JOB_OUTCOME_REFUSED, INT64_MAX, INT64_MAX}};
    len = record_encode(&record, bytes);
    assert_true(len <= record_bytes_max(&record) &&
                record_decode(slice_make(bytes, len), &decoded));
    same_record(&record, &decoded);

    record = (struct record){.kind = RECORD_DONE, .from = from};
    struct record_kept kept = {.finished_ms = INT64_MAX,
                               .duration_ms = INT64_MAX,
                               .attempt = UINT32_MAX,
                               .id = slice_of("i"),
                               .consumer = slice_of("c"),
                               .result = slice_of("r"),
                               .result_type = slice_of("y"),
                               .progress = slice_of("p")};
    char kept_bytes[300];
    assert_true(record_kept_bytes_max(&kept) <= sizeof kept_bytes);
    record.done =
        (struct record_done){{UINT64_MAX, UINT64_MAX},
                             RECORD_REPLACED,
                             INT64_MAX,
                             UINT64_MAX,
                             slice_of("t"),
                             true,
                             INT64_MAX,
                             slice_make(kept_bytes, record_kept_encode(&kept, kept_bytes))};
    len = record_encode(&record, bytes);
    assert_true(len <= record_bytes_max(&record) &&
                record_decode(slice_make(bytes, len), &decoded));
    same_record(&record, &decoded);

    record = (struct record){.kind = RECORD_TOPIC};
    record.topic = (struct record_topic){.topic = slice_of("t"),
                                         .paused = true,
                                         .paused_until_ms = INT64_MAX,
                                         .sequence = UINT64_MAX,
                                         .settings = {policy,
                                                      CONFLICT_REJECT,
                                                      JOB_PRIORITY_MAX,
                                                      true,
                                                      true,
                                                      INT64_MAX,
                                                      TOPIC_JOBS_MAX,
                                                      {FREQUENCY_COUNT_MAX, FREQUENCY_HOUR},
                                                      slice_of("{}")}};
    const struct flow_limits limits = {
        UINT32_MAX, {FREQUENCY_COUNT_MAX, FREQUENCY_HOUR}, UINT32_MAX};
    record.topic.settings.flow = (struct topic_flow){limits, limits, UINT64_MAX, FLOW_STRICT, true};
    memset(totals, 0xff, sizeof *totals);
    len = record_encode(&record, bytes);
    assert_true(len <= record_bytes_max(&record) &&
                record_decode(slice_make(bytes, len), &decoded));
    same_record(&record, &decoded);
}

CLAIM(the_largest_settings_of_a_group_fit_the_bound)
{
    static char bytes[ROOM];
    struct record decoded, record = {.kind = RECORD_GROUP};

    record.group = (struct record_group){
        .topic = slice_of("t"),
        .group = slice_of("g"),
        .exists = true,
        .settings = {.weight = GROUP_WEIGHT_MAX,
                     .limits = {UINT32_MAX, {FREQUENCY_COUNT_MAX, FREQUENCY_HOUR}, UINT32_MAX},
                     .max_jobs = UINT64_MAX,
                     .paused = true,
                     .paused_until_ms = INT64_MAX}};
    size_t len = record_encode(&record, bytes);
    assert_true(len <= record_bytes_max(&record) &&
                record_decode(slice_make(bytes, len), &decoded));
    same_record(&record, &decoded);
}

CLAIM(a_cut_record_is_refused_at_every_byte)
{
    struct random random = seed_random(__func__);
    static char bytes[ROOM];

    for (int round = 0; round < BROKEN_ROUNDS; round++) {
        struct record record = random_record(&random), decoded;
        size_t len = record_encode(&record, bytes);

        for (size_t cut = 0; cut < len; cut++) {
            char *copy;

            assert_false(decode_copy(bytes, cut, &decoded, &copy));
            assert_int_equal(record_next(slice_make(copy, cut)), 0);
            free(copy);
        }
        assert_false(record_decode(slice_make(bytes, len + 1), &decoded)); /* nor one too long */
    }
}

/* The bytes are rejected, or are the only stored form of the record that they hold. */
static void expect_rejected_or_sane(const char *bytes, size_t len)
{
    static char again[ROOM];
    struct record decoded;
    char *copy;

    if (decode_copy(bytes, len, &decoded, &copy)) {
        assert_true(record_bytes_max(&decoded) <= ROOM);
        assert_int_equal(record_encode(&decoded, again), len);
        assert_memory_equal(again, bytes, len);
    }
    free(copy);
}

CLAIM(a_damaged_byte_is_rejected_or_makes_a_sane_record)
{
    struct random random = seed_random(__func__);
    const uint64_t rounds = repetitions(BROKEN_ROUNDS, BROKEN_ROUNDS / 5);
    static char bytes[ROOM];

    for (uint64_t round = 0; round < rounds; round++) {
        struct record record = random_record(&random);
        size_t len = record_encode(&record, bytes);

        for (size_t at = 0; at < len && at < 200; at++)
            for (int change = 1; change < 256; change++) {
                bytes[at] = (char)(bytes[at] ^ change);
                expect_rejected_or_sane(bytes, len);
                bytes[at] = (char)(bytes[at] ^ change);
            }
    }
}

CLAIM(noise_of_the_right_length_is_rejected_or_makes_a_sane_record)
{
    struct random random = seed_random(__func__);
    const uint64_t rounds = repetitions(NOISE_ROUNDS, NOISE_ROUNDS / 10);
    char bytes[64] = {0};

    for (uint64_t round = 0; round < rounds; round++) {
        size_t len = 5 + random_below(&random, sizeof bytes - 5);

        for (size_t i = 5; i < len; i++) /* small numbers get further */
            bytes[i] = (char)random_number(&random, 8);
        bytes[0] = (char)len;
        bytes[4] = (char)(1 + random_below(&random, 5));
        expect_rejected_or_sane(bytes, len);
    }
}

/* A record that every delivery writes must stay small. */
CLAIM(a_delivery_record_is_small)
{
    static char bytes[ROOM];
    struct record record = {.kind = RECORD_STATE,
                            .state = {.state = JOB_LEASED,
                                      .priority = JOB_PRIORITY,
                                      .attempt = 1,
                                      .due_ms = INT64_C(1790000000000),
                                      .first_due_ms = INT64_C(1790000000000),
                                      .lease_until_ms = INT64_C(1790000060001),
                                      .taken_ms = INT64_C(1790000000000),
                                      .delivery = UINT64_C(1) << 33}};
    size_t with = record_encode(&record, bytes);

    record.state.taken_ms = 0;
    assert_int_equal(with - record_encode(&record, bytes), 3);
    assert_true(with <= 45);
}

struct malformed_row {
    const char *why;
    unsigned char bytes[40];
    size_t len;
};

/* Good: 12 00 00 00 01 | 00 | 11 | 05 | 09 | 01 't' | 02 'i' 'd' | "body!". */
static const struct malformed_row malformed[] = {
    {"state 0", {18, 0, 0, 0, 1, 0, 0x10, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"state 6", {18, 0, 0, 0, 1, 0, 0x16, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"origin 0", {18, 0, 0, 0, 1, 0, 0x01, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"origin 4", {18, 0, 0, 0, 1, 0, 0x41, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"kind 0", {18, 0, 0, 0, 0, 0, 0x11, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"kind 6", {18, 0, 0, 0, 6, 0, 0x11, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"size short", {17, 0, 0, 0, 1, 0, 0x11, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"size long", {19, 0, 0, 0, 1, 0, 0x11, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'}, 18},
    {"usual priority spelled out",
     {18, 0, 0, 0, 1, 1, 0x11, 5, 9, 100, 1, 't', 2, 'i', 'd', 'b', 'o', 'd'},
     18},
    {"attempt 0 spelled out",
     {18, 0, 0, 0, 1, 2, 0x11, 5, 9, 0, 1, 't', 2, 'i', 'd', 'b', 'o', 'd'},
     18},
    {"same first due spelled out",
     {18, 0, 0, 0, 1, 4, 0x11, 5, 9, 5, 1, 't', 2, 'i', 'd', 'b', 'o', 'd'},
     18},
    {"number spelled too long",
     {18, 0, 0, 0, 1, 0, 0x11, 0x85, 0, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd'},
     18},
    {"topic empty", {18, 0, 0, 0, 1, 0, 0x11, 5, 9, 0, 3, 'i', 'd', 'x', 'b', 'o', 'd', 'y'}, 18},
    {"topic with a blank",
     {18, 0, 0, 0, 1, 0, 0x11, 5, 9, 1, ' ', 2, 'i', 'd', 'b', 'o', 'd', 'y'},
     18},
    {"id beyond the end",
     {18, 0, 0, 0, 1, 0, 0x11, 5, 9, 1, 't', 7, 'i', 'd', 'b', 'o', 'd', 'y'},
     18},
    {"id with a line feed",
     {18, 0, 0, 0, 1, 0, 0x11, 5, 9, 1, 't', 2, 'i', 10, 'b', 'o', 'd', 'y'},
     18},
    {"meta without its end",
     {18, 0, 0, 0, 1, 0x80, 1, 0x11, 5, 9, 2, 'n', 0, 1, 't', 1, 'i', 'd'},
     18},
    {"unknown field",
     {20, 0, 0, 0, 1, 0x80, 0x80, 0x40, 0x11, 5, 9, 1, 't', 1, 'i', 'b', 'o', 'd', 'y', '!'},
     20},
    {"history that ends early",
     {22, 0, 0, 0, 1, 0x80, 0x20, 0x11, 5, 9, 5, 1, 1, 1, 1, 1, 1, 't', 1, 'i', 'x', 'y'},
     22},
    {"history spelled out empty",
     {18, 0, 0, 0, 1, 0x80, 0x20, 0x11, 5, 9, 0, 1, 't', 1, 'i', 'b', 'o', 'd'},
     18},
    {"history with outcome 4",
     {20, 0, 0, 0, 1, 0x80, 0x20, 0x11, 5, 9, 5, 1, 1, 1, 4, 0, 1, 't', 1, 'i'},
     20},
    {"taken without a lease",
     {18, 0, 0, 0, 1, 0x80, 0x40, 0x11, 5, 9, 1, 1, 't', 1, 'i', 'b', 'o', 'd'},
     18},
    {"taken when the clock was negative",
     {18, 0, 0, 0, 1, 0x88, 0x40, 0x13, 5, 9, 7, 8, 1, 't', 1, 'i', 'b', 'o'},
     18},
    {"taken at 0 spelled out",
     {18, 0, 0, 0, 1, 0x88, 0x40, 0x13, 5, 9, 7, 7, 1, 't', 1, 'i', 'b', 'o'},
     18},
    {"taken at the lease's end",
     {18, 0, 0, 0, 1, 0x88, 0x40, 0x13, 5, 9, 7, 0, 1, 't', 1, 'i', 'b', 'o'},
     18},
    {"attempt that ended without a number",
     {28, 0, 0, 0, 2, 0x80, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 5, 1, 9, 9},
     28},
    {"attempt that ended with outcome 0",
     {29, 0, 0, 0, 2, 0x82, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 5, 3, 0, 9, 9},
     29},
    {"attempt that ended with outcome 4",
     {29, 0, 0, 0, 2, 0x82, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 5, 3, 4, 9, 9},
     29},
    {"unknown field of a state",
     {27, 0, 0, 0, 2, 0x82, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 5, 3, 9},
     27},
    {"extension spelled out empty",
     {21, 0, 0, 0, 4, 4, 0x40, 1, 't', 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
     21},
    {"unknown field of a topic",
     {22, 0, 0, 0, 4, 4, 0x80, 0x80, 1, 1, 't', 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
     22},
    {"limits of a topic spelled out empty",
     {24, 0, 0, 0, 4, 4, 0x80, 0x40, 1, 't', 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
     24},
    {"group of a job with a blank",
     {20, 0, 0, 0, 1, 0x80, 0x80, 0x20, 0x11, 5, 9, 1, ' ', 1, 't', 1, 'i', 'b', 'o', 'd'},
     20},
    {"settings of a group that does not exist", {11, 0, 0, 0, 5, 0x10, 1, 't', 1, 'g', 5}, 11},
    {"weight of a group above the largest", {11, 0, 0, 0, 5, 0x11, 1, 't', 1, 'g', 101}, 11},
    {"form with its last bit",
     {18, 0, 0, 0, 1, 0, 0x91, 5, 9, 1, 't', 2, 'i', 'd', 'b', 'o', 'd', 'y'},
     18},
    {"from without a run", {18, 0, 0, 0, 1, 0, 0x51, 5, 9, 0, 3, 7, 1, 't', 2, 'i', 'd', 'b'}, 18},
    {"from without bytes", {18, 0, 0, 0, 1, 0, 0x51, 5, 9, 1, 3, 0, 1, 't', 2, 'i', 'd', 'b'}, 18},
    {"from a run beyond 31 bits",
     {22, 0, 0, 0, 1, 0, 0x51, 5, 9, 0x80, 0x80, 0x80, 0x80, 0x08, 3, 7, 1, 't', 2, 'i', 'd', 'b'},
     22},
    {"from that ends early",
     {26, 0, 0, 0, 2, 0, 0x41, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 5, 1, 3},
     26},
    {"state with an origin",
     {24, 0, 0, 0, 2, 0, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 5},
     24},
    {"form of a done with its last bit",
     {23, 0, 0, 0, 3, 0x81, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9},
     23},
    {"negative due",
     {26,   0,    0,    0, 1, 0, 0x11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
      0xff, 0xff, 0xff, 1, 9, 1, 't',  2,    'i',  'd',  'b',  'o',  'd'},
     26},
    {"sequence beyond 64 bits",
     {26,   0,    0,    0,    1, 0, 0x11, 5, 0xff, 0xff, 0xff, 0xff, 0xff,
      0xff, 0xff, 0xff, 0xff, 2, 1, 't',  2, 'i',  'd',  'b',  'o',  'd'},
     26},
};

CLAIM(malformed_records_are_refused)
{
    static const char good[] = "\x12\0\0\0\1\0\x11\5\x09\1t\2idbody";
    /* The undamaged forms of the rows above. */
    static const struct malformed_row fine[] = {
        {"history", {20, 0, 0, 0, 1, 0x80, 0x20, 0x11, 5, 9, 5, 1, 1, 1, 3, 0, 1, 't', 1, 'i'}, 20},
        {"taken", {18, 0, 0, 0, 1, 0x88, 0x40, 0x13, 5, 9, 7, 6, 1, 't', 1, 'i', 'b', 'o'}, 18},
        {"ended",
         {29, 0, 0, 0, 2, 0x82, 1, 1, 1, 2, 3, 4, 5, 6, 7,
          8,  1, 2, 3, 4, 5,    6, 7, 8, 5, 3, 3, 9, 9},
         29},
        {"from of a job", {18, 0, 0, 0, 1, 0, 0x51, 5, 9, 1, 3, 7, 1, 't', 2, 'i', 'd', 'b'}, 18},
        {"from of a state",
         {27, 0, 0, 0, 2, 0, 0x41, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 5, 1, 3, 7},
         27},
        {"from of a done",
         {26, 0, 0, 0, 3, 0x41, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 3, 7},
         26},
        {"group of a job",
         {20, 0, 0, 0, 1, 0x80, 0x80, 0x20, 0x11, 5, 9, 1, 'g', 1, 't', 1, 'i', 'b', 'o', 'd'},
         20},
        {"settings of a group", {11, 0, 0, 0, 5, 0x11, 1, 't', 1, 'g', 100}, 11},
        {"extension",
         {22, 0, 0, 0, 4, 4, 0x40, 1, 't', 9, 1, 'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
         22},
    };
    struct record decoded;

    assert_true(record_decode(slice_make(good, sizeof good - 1), &decoded));
    assert_true(slice_is(decoded.job.body, "body") && decoded.job.due_ms == 5);
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        if (!record_decode(slice_make(fine[i].bytes, fine[i].len), &decoded))
            fail_msg("refused: %s", fine[i].why);
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++)
        if (record_decode(slice_make(malformed[i].bytes, malformed[i].len), &decoded))
            fail_msg("taken: %s", malformed[i].why);
    assert_false(record_decode((struct slice){0}, &decoded));
}

CLAIM(records_can_be_walked_one_after_another)
{
    struct random random = seed_random(__func__);
    static char bytes[100 * ROOM];
    size_t len = 0, at = 0, next;
    int count = 0;

    for (int i = 0; i < 100; i++) {
        struct record record = random_record(&random);

        len += record_encode(&record, bytes + len);
    }
    while ((next = record_next(slice_make(bytes + at, len - at)))) {
        struct record decoded;

        assert_true(record_decode(slice_make(bytes + at, next), &decoded));
        at += next;
        count++;
    }
    assert_int_equal(count, 100);
    assert_int_equal(at, len);
    assert_int_equal(record_next(slice_make(bytes + len, 64)), 0); /* zeros are not a record */
}

CLAIMS_MAIN(NULL, NULL)
