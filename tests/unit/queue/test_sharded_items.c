/* A batch over several shards: each gets its items, what is wrong with them goes along, and the
 * results come back in the order of the items. */
#include "queue/sharded.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { PARTS = 3, ITEMS = 7 };

/* A part that creates good items, and holds its reply back until the test releases it. */
struct part {
    struct queue queue;
    struct queue_result results[ITEMS];
    size_t count;
    struct queue_reply_to reply_to;
};

static struct part parts[PARTS];
static struct queue_result answers[ITEMS];
static size_t answer_count;

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct part *part = (struct part *)(void *)queue;
    assert_int_equal(command->kind, COMMAND_PUSH);
    part->count = command->count;
    part->reply_to = reply_to;
    for (size_t i = 0; i < command->count; i++) {
        part->results[i] = (struct queue_result){.due_ms = command->pushes[i].when.ms};
        if (command_item_is_good(command, i, &part->results[i]))
            part->results[i].status = QUEUE_CREATED;
    }
}

static const struct queue_ops ops = {.submit = on_submit};

static void reply_of(struct part *part)
{
    struct queue_reply reply = {.results = part->results, .result_count = part->count};
    part->reply_to.done(part->reply_to.owner, part->reply_to.tag, &reply);
}

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    answer_count = reply->result_count;
    memcpy(answers, reply->results, reply->result_count * sizeof *answers);
}

/* Chooses the part by the last digit of the id. */
static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    (void)ctx;
    (void)topic;
    return (uint32_t)(id.at[id.len - 1] - '0') % PARTS;
}

CLAIM(a_batch_comes_back_in_its_order)
{
    static const char *const ids[ITEMS] = {"0", "1", "4", "2", "3", "7", "5"};
    struct queue *queues[PARTS];
    struct queue_push pushes[ITEMS];
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (struct part){.queue.ops = &ops};
        queues[i] = &parts[i].queue;
    }
    for (int i = 0; i < ITEMS; i++)
        pushes[i] = (struct queue_push){.topic = slice_of("t"),
                                        .id = slice_of(ids[i]),
                                        .when = {QUEUE_DUE_DELAY, i},
                                        .priority = i == 2 || i == 3 ? -7 : QUEUE_PRIORITY_UNSET};
    struct sharded *sharded = sharded_new(&(struct sharded_options){
        .parts = queues, .part_count = PARTS, .part_of_job = part_of_job});
    assert_non_null(sharded);
    queue_push(sharded_queue(sharded), pushes, ITEMS, (struct queue_reply_to){.done = on_done});
    assert_int_equal(parts[0].count, 2);
    assert_int_equal(parts[1].count, 3);
    assert_int_equal(parts[2].count, 2);
    for (int i = PARTS - 1; i >= 0; i--) /* the last one answers first */
        reply_of(&parts[i]);
    assert_int_equal(answer_count, ITEMS);
    for (int i = 0; i < ITEMS; i++) {
        bool is_bad = i == 2 || i == 3;
        assert_int_equal(answers[i].due_ms, i);
        assert_int_equal(answers[i].status, is_bad ? QUEUE_BAD_OPTION : QUEUE_CREATED);
        if (is_bad)
            assert_string_equal(answers[i].detail, "priority");
    }
    sharded_free(sharded);
}

CLAIMS_MAIN(NULL, NULL)
