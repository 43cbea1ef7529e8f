/* A log that chance wrote, sound or not: the replay through the engine finds and counts what a table
 * of keys does. */
#include "fsck_rig_run.h"
#include "replay_model.h"

#include "base/random.h"
#include "unit/claim.h"

enum { LOGS = 150, RECORDS = 120, IDS = 12, TOPICS = 3, FINDINGS_MAX = 2 * RECORDS + 64 };

static struct {
    struct model model;
    struct random random;
    const char *output[FINDINGS_MAX];
    uint64_t output_count;
} judge;

static void on_complaint(void *ctx, const char *text)
{
    (void)ctx;
    assert_true(judge.output_count < FINDINGS_MAX);
    judge.output[judge.output_count++] = text;
}

static uint32_t below(uint32_t limit)
{
    return (uint32_t)random_below(&judge.random, limit);
}

static enum job_state some_state(void)
{
    static const enum job_state states[] = {JOB_DELAYED, JOB_LEASED, JOB_DEAD,    JOB_DELAYED,
                                            JOB_LEASED,  JOB_READY,  JOB_FINISHED};

    return states[below(below(8) ? 5 : 7)];
}

/* Mostly as a server writes them: what is there changes, what is not is pushed. */
static void some_record(void)
{
    static const enum record_reason reasons[] = {RECORD_ACKED, RECORD_CANCELLED, RECORD_EXPIRED,
                                                 RECORD_PURGED};
    char topic[] = "t0", id[] = "a";
    struct record record;
    struct hash128 key;
    bool is_there;

    topic[1] = (char)('0' + below(TOPICS));
    id[0] = (char)('a' + below(IDS));
    key = hash_pair(slice_of(topic), slice_of(id), scene.manifest.hash_seed);
    is_there = model_is_there(model_slot_of(&judge.model, key)) != (below(40) == 0);
    record = job_record(topic, id, some_state(), 100 + below(100000), 1 + below(1000));
    if (below(20) == 0)
        record = (struct record){.kind = RECORD_TOPIC,
                                 .topic = {.topic = slice_of(topic),
                                           .exists = below(4) != 0,
                                           .totals = {.pushed = below(30), .acked = below(9)}}};
    else if (!is_there)
        record.origin = RECORD_PUSHED;
    else if (below(3) == 0)
        record.origin = RECORD_PUSHED_REPLACING;
    else if (below(2))
        record = (struct record){
            .kind = RECORD_STATE,
            .state = {.key = key, .state = some_state(), .due_ms = 7, .first_due_ms = 7}};
    else
        record = (struct record){.kind = RECORD_DONE,
                                 .done = {.key = key,
                                          .reason = reasons[below(4)],
                                          .topic = slice_of(topic),
                                          .sequence = 5,
                                          .remember_until_ms = below(4) ? 0 : 1000000}};
    model_record(&judge.model, &record);
    append(&record);
}

static void some_records(void)
{
    for (int i = 0; i < RECORDS; i++)
        some_record();
}

static uint64_t times_output(const char *text)
{
    uint64_t times = 0;

    for (uint64_t i = 0; i < judge.output_count; i++)
        times += strcmp(judge.output[i], text) == 0;
    return times;
}

static uint64_t times_found(const char *text)
{
    uint64_t times = 0;

    for (uint64_t i = 0; i < scene.report.finding_count && i < FSCK_FINDINGS_MAX; i++)
        times += strncmp(scene.report.finding[i].text, text, strlen(text)) == 0;
    return times;
}

static void compare_with_judge(uint64_t seed)
{
    const struct fsck_shard *shard = &scene.report.shard[0];
    struct fsck_shard counted = {0};

    model_end(&judge.model, &counted);
    for (uint64_t i = 0; i < judge.output_count; i++)
        if (times_output(judge.output[i]) != times_found(judge.output[i]))
            fail_msg("seed %" PRIu64 ": '%s' was to be found %" PRIu64 " times, not %" PRIu64, seed,
                     judge.output[i], times_output(judge.output[i]), times_found(judge.output[i]));
    if (judge.output_count != scene.report.finding_count || shard->delayed != counted.delayed ||
        shard->leased != counted.leased || shard->dead != counted.dead ||
        shard->topics != counted.topics)
        fail_msg("seed %" PRIu64 ": %" PRIu64 " findings of %" PRIu64 ", %" PRIu64
                 " delayed of %" PRIu64 ", %" PRIu64 " leased of %" PRIu64 ", %" PRIu64
                 " dead of %" PRIu64 ", %" PRIu64 " topics of %" PRIu64,
                 seed, scene.report.finding_count, judge.output_count, shard->delayed,
                 counted.delayed, shard->leased, counted.leased, shard->dead, counted.dead,
                 shard->topics, counted.topics);
}

CLAIM_BETWEEN(the_engine_matches_the_model, make_bare, remove_scene)
{
    const uint64_t first = random_u64();

    print_message("seed %" PRIu64 "\n", first);
    for (uint64_t i = 0; i < LOGS; i++) {
        judge.random = (struct random){.state = first + i};
        judge.output_count = 0;
        model_init(&judge.model, scene.manifest.hash_seed, on_complaint, NULL);
        write_log(some_records);
        examine();
        if (scene.report.finding_count <= FSCK_FINDINGS_MAX)
            compare_with_judge(first + i);
        model_fini(&judge.model);
        assert_int_equal(remove_scene(state) || make_bare(state), 0);
    }
}

CLAIMS_MAIN(NULL, NULL)
