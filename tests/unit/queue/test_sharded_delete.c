/* A delete over several shards whose first one leads: what stays marked there is deleted at the
 * next start. */
#include "queue/sharded.h"

#include "base/log.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

enum { PARTS = 3, CALLS_MAX = 16 };

/* A part that answers each topic call as the test sets, and records it. */
struct part {
    struct queue queue;
    enum queue_status mark, unmark, removal;
};

static struct part parts[PARTS];
static char calls[CALLS_MAX][32];
static size_t call_count;
static bool is_marked;

static void on_topic(struct queue *queue, const struct queue_topic_call *call,
                     struct queue_reply_to reply_to)
{
    struct part *part = (struct part *)(void *)queue;
    struct queue_reply reply = {.status = QUEUE_OK};
    const char *what = "get";
    if (call->verb == QUEUE_TOPIC_MARK) {
        what = call->makes ? "mark" : "unmark";
        reply.status = call->makes ? part->mark : part->unmark;
        if (reply.status == QUEUE_OK)
            is_marked = call->makes;
    } else if (call->verb == QUEUE_TOPIC_DELETE) {
        what = "delete";
        reply.status = part->removal;
        if (part == &parts[0] && reply.status == QUEUE_OK)
            is_marked = false;
    }
    assert_true(call_count < CALLS_MAX);
    (void)snprintf(calls[call_count++], sizeof calls[0], "%s %d", what, (int)(part - parts));
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
}

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    assert_int_equal(command->kind, COMMAND_TOPIC);
    on_topic(queue, &command->topic, reply_to);
}

static const struct queue_ops ops = {.submit = on_submit};

static enum queue_status answer;
static unsigned answers;

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    answer = reply->status;
    answers++;
}

static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    (void)ctx;
    (void)topic;
    (void)id;
    return 0;
}

static bool part_of_lease(void *ctx, struct slice lease, uint32_t *part)
{
    (void)ctx;
    (void)lease;
    (void)part;
    return false;
}

static void refuse(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    struct queue_reply reply = {.status = status};
    (void)ctx;
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
}

static void delete_with(enum queue_status first, enum queue_status others)
{
    struct queue *queues[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (struct part){.queue.ops = &ops,
                                 .mark = QUEUE_OK,
                                 .unmark = QUEUE_OK,
                                 .removal = i == 0 ? first : others};
        queues[i] = &parts[i].queue;
    }
    struct sharded *sharded = sharded_new(&(struct sharded_options){.parts = queues,
                                                                    .part_count = PARTS,
                                                                    .leads = true,
                                                                    .part_of_job = part_of_job,
                                                                    .part_of_lease = part_of_lease,
                                                                    .refuse = refuse});
    assert_non_null(sharded);
    call_count = answers = 0;
    is_marked = false;
    struct queue *queue = sharded_queue(sharded);
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_DELETE, .topic = slice_of("t")};
    queue_topic(queue, &call, (struct queue_reply_to){.done = on_done});
    assert_int_equal(answers, 1);
    sharded_free(sharded);
}

CLAIM(a_delete_that_went_well_leaves_no_mark)
{
    delete_with(QUEUE_OK, QUEUE_OK);
    assert_int_equal(answer, QUEUE_OK);
    assert_false(is_marked);
    assert_string_equal(calls[call_count - 1], "delete 0"); /* the first part comes last */
}

CLAIM(a_delete_that_another_part_refused_leaves_no_mark)
{
    delete_with(QUEUE_OK, QUEUE_UNAVAILABLE);
    assert_int_equal(answer, QUEUE_UNAVAILABLE);
    assert_false(is_marked);
}

/* Jobs that are pushed after it would go at the next start. */
CLAIM(a_delete_that_the_first_part_refused_leaves_no_mark)
{
    delete_with(QUEUE_UNAVAILABLE, QUEUE_OK);
    assert_int_equal(answer, QUEUE_UNAVAILABLE);
    assert_false(is_marked);
    assert_string_equal(calls[call_count - 1], "unmark 0");
}

CLAIMS_MAIN(NULL, NULL)
