/* Pushes of members to a queue over several shards: each that joined leaves, without memory, and however often a leave is lost. */
#include "unit/fault_calls.h"

#include "queue/sharded.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { PARTS = 3, VERSION = 5 };

/* A part that keeps a call until the test answers it. */
struct part {
    struct queue queue;
    enum command_kind kind;
    size_t count;
    struct queue_batch_call calls[4];
    uint32_t joined; /* of the first push: the part that it joined for */
    struct queue_reply_to reply_to;
    bool is_asked;
};

static struct part parts[PARTS];
static struct sharded *sharded;
static uint32_t moved; /* by which jobs are in other parts than their ids have it */
static size_t repeats, answers;
static enum queue_status answer; /* of the last push */
/* A rejection by no part, which is sent later. */
static enum queue_status refusal;
static struct queue_reply_to refused;

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct part *part = (struct part *)(void *)queue;
    assert_false(part->is_asked);
    part->kind = command->kind;
    part->count = command->count;
    part->reply_to = reply_to;
    part->is_asked = true;
    for (size_t i = 0; command->kind == COMMAND_BATCH && i < command->count; i++)
        part->calls[i] = command->batches[i];
    if (command->kind == COMMAND_PUSH)
        part->joined = command->pushes[0].batch->part;
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    (void)queue;
    *out = (struct queue_info){.batches = true, .healthy = true};
}

static const struct queue_ops ops = {.submit = on_submit, .info = on_info};

/* Chooses the part by the last digit of the id. */
static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    (void)ctx;
    (void)topic;
    return ((uint32_t)(id.at[id.len - 1] - '0') + moved) % PARTS;
}

static void on_refuse(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    (void)ctx;
    refusal = status;
    refused = reply_to;
}

static void on_repeat(void *ctx)
{
    (void)ctx;
    repeats++;
}

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    answers++;
    answer = reply->result_count ? reply->results[reply->result_count - 1].status : reply->status;
}

static int begin(void **state)
{
    struct queue *queues[PARTS];
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (struct part){.queue.ops = &ops};
        queues[i] = &parts[i].queue;
    }
    repeats = answers = 0;
    moved = 0;
    sharded = sharded_new(&(struct sharded_options){.parts = queues,
                                                    .part_count = PARTS,
                                                    .joins_batches = true,
                                                    .part_of_job = part_of_job,
                                                    .refuse = on_refuse,
                                                    .repeat = on_repeat});
    assert_non_null(sharded);
    return 0;
}

static int end(void **state)
{
    (void)state;
    sharded_free(sharded);
    return 0;
}

/* Answers the call of a part: each item with this status. */
static void reply_with(uint32_t at, enum command_kind kind, enum queue_status status)
{
    struct queue_result results[4] = {0};
    struct part *part = &parts[at];
    assert_true(part->is_asked);
    assert_int_equal(part->kind, kind);
    bool is_version = kind == COMMAND_BATCH && part->calls[0].verb == QUEUE_BATCH_VERSION;
    for (size_t i = 0; i < part->count; i++)
        results[i] =
            (struct queue_result){.status = status,
                                  .batch = (uint64_t)(at + 1) << QUEUE_BATCH_HOME_SHIFT | 7,
                                  .version = status == QUEUE_CREATED || is_version ? VERSION : 0};
    const struct queue_reply reply = {.results = results, .result_count = part->count};
    part->is_asked = false;
    part->reply_to.done(part->reply_to.owner, part->reply_to.tag, &reply);
}

/* Expects `count` joins or leaves at a part. */
static void expect_calls(uint32_t at, enum queue_batch_verb verb, size_t count)
{
    assert_true(parts[at].is_asked);
    assert_int_equal(parts[at].kind, COMMAND_BATCH);
    assert_int_equal(parts[at].count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(parts[at].calls[i].verb, verb);
}

/* Pushes members with these ids to batches whose waiting jobs have these. */
static void push(const char *const *ids, const char *const *waiting, size_t count)
{
    struct queue_batch batches[4] = {0};
    struct queue_push pushes[4] = {0};
    for (size_t i = 0; i < count; i++) {
        batches[i] = (struct queue_batch){.topic = slice_of("t"), .id = slice_of(waiting[i])};
        pushes[i] = (struct queue_push){.topic = slice_of("t"),
                                        .id = slice_of(ids[i]),
                                        .when = {QUEUE_DUE_NOW, 0},
                                        .priority = QUEUE_PRIORITY_UNSET,
                                        .batch = &batches[i]};
    }
    queue_push(sharded_queue(sharded), pushes, count, (struct queue_reply_to){.done = on_done});
}

/* Pushes a member to part 1 up to its result; the home is part 0. */
static void push_one(enum queue_status status)
{
    push((const char *const[]){"1"}, (const char *const[]){"0"}, 1);
    expect_calls(0, QUEUE_BATCH_JOIN, 1);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    reply_with(1, COMMAND_PUSH, status);
    assert_int_equal(answers, 1);
    assert_int_equal(answer, status);
}

CLAIM_BETWEEN(joins_of_several_homes_leave, begin, end)
{
    push((const char *const[]){"1", "2", "4"}, (const char *const[]){"0", "1", "0"}, 3);
    expect_calls(0, QUEUE_BATCH_JOIN, 2);
    expect_calls(1, QUEUE_BATCH_JOIN, 1);
    reply_with(1, COMMAND_BATCH, QUEUE_OK);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    reply_with(2, COMMAND_PUSH, QUEUE_CREATED);
    reply_with(1, COMMAND_PUSH, QUEUE_CREATED);
    expect_calls(0, QUEUE_BATCH_LEAVE, 2);
    expect_calls(1, QUEUE_BATCH_LEAVE, 1);
    assert_int_equal(parts[0].calls[1].part, 1);
    assert_int_equal(parts[0].calls[1].version, VERSION);
    assert_int_equal(parts[1].calls[0].part, 2);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    reply_with(1, COMMAND_BATCH, QUEUE_OK);
    assert_true(sharded_is_idle(sharded));
}

CLAIM_BETWEEN(joins_leave_if_memory_runs_out_before_their_answers, begin, end)
{
    push((const char *const[]){"1", "2"}, (const char *const[]){"0", "1"}, 2);
    calls_left = 0;
    fail_for_ever = true;
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    reply_with(1, COMMAND_BATCH, QUEUE_OK);
    struct queue_reply none = {.status = refusal}; /* the push had no memory either */
    assert_int_equal(refusal, QUEUE_NO_MEMORY);
    refused.done(refused.owner, refused.tag, &none);
    calls_left = -1;
    fail_for_ever = false;
    assert_int_equal(answers, 1);
    assert_int_equal(answer, QUEUE_NO_MEMORY);
    expect_calls(1, QUEUE_BATCH_VERSION, 1);
    expect_calls(2, QUEUE_BATCH_VERSION, 1);
    reply_with(1, COMMAND_BATCH, QUEUE_OK);
    reply_with(2, COMMAND_BATCH, QUEUE_OK);
    sharded_repeat(sharded);
    expect_calls(0, QUEUE_BATCH_LEAVE, 1);
    expect_calls(1, QUEUE_BATCH_LEAVE, 1);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    reply_with(1, COMMAND_BATCH, QUEUE_OK);
    assert_true(sharded_is_idle(sharded));
}

CLAIM_BETWEEN(a_leave_is_sent_until_it_is_confirmed, begin, end)
{
    push_one(QUEUE_CREATED);
    for (size_t i = 1; i <= 2; i++) {
        expect_calls(0, QUEUE_BATCH_LEAVE, 1);
        assert_int_equal(parts[0].calls[0].version, VERSION);
        reply_with(0, COMMAND_BATCH, QUEUE_NO_MEMORY);
        assert_int_equal(repeats, i);
        assert_false(parts[0].is_asked);
        sharded_repeat(sharded);
    }
    expect_calls(0, QUEUE_BATCH_LEAVE, 1);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    assert_int_equal(repeats, 2);
    assert_true(sharded_is_idle(sharded));
}

CLAIM_BETWEEN(only_leaves_that_were_lost_are_sent_again, begin, end)
{
    push((const char *const[]){"1", "2"}, (const char *const[]){"0", "1"}, 2);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    reply_with(1, COMMAND_BATCH, QUEUE_OK);
    reply_with(1, COMMAND_PUSH, QUEUE_CREATED);
    reply_with(2, COMMAND_PUSH, QUEUE_CREATED);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    reply_with(1, COMMAND_BATCH, QUEUE_NO_MEMORY);
    sharded_repeat(sharded);
    assert_false(parts[0].is_asked);
    expect_calls(1, QUEUE_BATCH_LEAVE, 1);
    reply_with(1, COMMAND_BATCH, QUEUE_NO_MEMORY); /* and is forgotten at the end */
}

CLAIM_BETWEEN(a_home_that_stops_or_fails_gets_no_leave_again, begin, end)
{
    push_one(QUEUE_CREATED);
    reply_with(0, COMMAND_BATCH, QUEUE_STOPPING);
    answers = 0;
    push_one(QUEUE_CREATED);
    reply_with(0, COMMAND_BATCH, QUEUE_UNAVAILABLE);
    assert_int_equal(repeats, 0);
    assert_true(sharded_is_idle(sharded));
}

CLAIM_BETWEEN(a_push_with_an_unknown_end_leaves_with_the_version_of_its_part, begin, end)
{
    static const enum queue_status unknown[] = {QUEUE_UNAVAILABLE, QUEUE_STOPPING, QUEUE_NO_MEMORY,
                                                QUEUE_DIRECTORY_MOVED};
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        answers = repeats = 0;
        push_one(unknown[i]);
        assert_false(parts[0].is_asked); /* its member may have been stored */
        for (size_t asked = 1; asked <= 2; asked++) {
            expect_calls(1, QUEUE_BATCH_VERSION, 1);
            reply_with(1, COMMAND_BATCH, asked == 1 ? QUEUE_NO_MEMORY : QUEUE_OK);
            assert_int_equal(repeats, asked);
            sharded_repeat(sharded);
        }
        expect_calls(0, QUEUE_BATCH_LEAVE, 1);
        assert_int_equal(parts[0].calls[0].part, 1);
        assert_int_equal(parts[0].calls[0].version, VERSION);
        reply_with(0, COMMAND_BATCH, QUEUE_OK);
        assert_true(sharded_is_idle(sharded));
    }
}

CLAIM_BETWEEN(a_failed_part_keeps_a_push_under_way, begin, end)
{
    push_one(QUEUE_UNAVAILABLE);
    expect_calls(1, QUEUE_BATCH_VERSION, 1);
    reply_with(1, COMMAND_BATCH, QUEUE_UNAVAILABLE);
    assert_int_equal(repeats, 0);
    assert_false(parts[0].is_asked);
    assert_true(sharded_is_idle(sharded));
}

CLAIM_BETWEEN(a_moved_push_names_the_part_of_its_join, begin, end)
{
    push((const char *const[]){"1"}, (const char *const[]){"0"}, 1);
    moved = 1;
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    assert_int_equal(parts[2].joined, 1); /* so part 2 rejects it */
    reply_with(2, COMMAND_PUSH, QUEUE_ELSEWHERE);
    assert_int_equal(answer, QUEUE_ELSEWHERE);
    expect_calls(0, QUEUE_BATCH_LEAVE, 1);
    assert_int_equal(parts[0].calls[0].part, 1);
    reply_with(0, COMMAND_BATCH, QUEUE_OK);
    assert_true(sharded_is_idle(sharded));
}

CLAIMS_MAIN(NULL, NULL)
