/* Settings that move a topic to one of several parts, or spread it again: in which order the parts change. */
#include "queue/sharded.h"

#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 4, HOME = 2 };

struct part {
    struct queue queue;
    bool is_one, rejects;
    bool has_work; /* rejects another order */
    enum flow_order order;
};

static struct part parts[PARTS];
static char
    seen[256]; /* "3+ 1+ 0! " and so on: part, and on, off or rejected; u: undone; = : kept */
static enum queue_status status;
static bool is_placed, is_busy;
static int gets_until_failure; /* 0: none fails */

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct part *part = (struct part *)(void *)queue;
    const struct queue_topic_call *call = &command->topic;
    struct queue_topic topic = {.name = call->topic};
    struct queue_reply reply = {.topics = &topic, .topic_count = 1};
    if (call->verb == QUEUE_TOPIC_PUT && part->rejects && call->place == QUEUE_PLACE_MOVED) {
        reply = (struct queue_reply){.status = QUEUE_NOT_EMPTY};
    } else if (call->verb == QUEUE_TOPIC_PUT && part->has_work &&
               call->settings.flow.group_order != part->order) {
        reply = (struct queue_reply){.status = QUEUE_NOT_EMPTY};
    } else if (call->verb == QUEUE_TOPIC_PUT) {
        part->is_one = flow_is_one_shard(&call->settings.flow);
        part->order = call->settings.flow.group_order;
    } else if (gets_until_failure && --gets_until_failure == 0) {
        reply = (struct queue_reply){.status = QUEUE_NO_MEMORY};
    }
    topic.settings.flow =
        (struct topic_flow){.one_shard = part->is_one, .group_order = part->order};
    if (call->verb == QUEUE_TOPIC_PUT) {
        const char *word = reply.status                        ? "!"
                           : call->place == QUEUE_PLACE_UNDONE ? "u"
                           : call->place == QUEUE_PLACE_KEPT   ? "="
                           : part->is_one                      ? "+"
                                                               : "-";
        size_t len = strlen(seen);
        (void)snprintf(seen + len, sizeof seen - len, "%d%s ", (int)(part - parts), word);
    }
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
}

static const struct queue_ops ops = {.submit = on_submit};

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    status = reply->status;
}

static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    (void)ctx;
    (void)topic;
    return id.len ? 1 : HOME;
}

static bool place_begin(void *ctx, struct slice topic, bool deletes)
{
    (void)ctx;
    (void)topic;
    (void)deletes;
    if (is_busy)
        return false;
    is_busy = true;
    return true;
}

static bool place(void *ctx, struct slice topic, bool is_one)
{
    bool was = is_placed;
    (void)ctx;
    (void)topic;
    is_placed = is_one;
    return was;
}

static void place_end(void *ctx, struct slice topic, bool deletes)
{
    (void)ctx;
    (void)topic;
    (void)deletes;
    is_busy = false;
}

static void put(struct topic_flow flow)
{
    struct queue *queues[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i].queue.ops = &ops;
        queues[i] = &parts[i].queue;
    }
    struct sharded *sharded = sharded_new(&(struct sharded_options){.parts = queues,
                                                                    .part_count = PARTS,
                                                                    .leads = true,
                                                                    .part_of_job = part_of_job,
                                                                    .place_begin = place_begin,
                                                                    .place = place,
                                                                    .place_end = place_end});
    struct command command = {
        .kind = COMMAND_TOPIC,
        .topic = {.verb = QUEUE_TOPIC_PUT, .topic = slice_of("t"), .settings = {.flow = flow}}};
    seen[0] = '\0';
    sharded_queue(sharded)->ops->submit(sharded_queue(sharded), &command,
                                        (struct queue_reply_to){.done = on_done});
    assert_true(sharded_is_idle(sharded));
    sharded_free(sharded);
}

static int begin(void **state)
{
    (void)state;
    memset(parts, 0, sizeof parts);
    is_placed = is_busy = false;
    gets_until_failure = 0;
    return 0;
}

/* A crash before the first part has changed leaves the topic spread, as that part leads. */
CLAIM_BETWEEN(the_leading_part_moves_last_to_one_part, begin, NULL)
{
    put((struct topic_flow){.one_shard = true});
    assert_int_equal(status, QUEUE_OK);
    assert_string_equal(seen, "1+ 2+ 3+ 0+ ");
    assert_true(is_placed && !is_busy);
    put((struct topic_flow){.one_shard = true, .topic.limit = 5}); /* it is there already */
    assert_string_equal(seen, "0= 1= 2= 3= ");
}

/* The home has all jobs, so it finds out whether there are any before another part accepts some. */
CLAIM_BETWEEN(the_home_is_the_first_to_be_spread, begin, NULL)
{
    put((struct topic_flow){.group_order = FLOW_STRICT});
    put((struct topic_flow){.topic.limit = 5});
    assert_int_equal(status, QUEUE_OK);
    assert_string_equal(seen, "2- 0- 1- 3- ");
    assert_false(is_placed || is_busy);
}

CLAIM_BETWEEN(a_part_with_jobs_ends_the_move_everywhere, begin, NULL)
{
    parts[3].rejects = true;
    put((struct topic_flow){.one_shard = true});
    assert_int_equal(status, QUEUE_NOT_EMPTY);
    assert_string_equal(seen, "1+ 2+ 3! 2u 1u ");
    for (int i = 0; i < PARTS; i++)
        assert_false(parts[i].is_one);
    assert_false(is_placed || is_busy);
}

CLAIM_BETWEEN(a_second_move_is_rejected_while_one_is_in_progress, begin, NULL)
{
    is_busy = true;
    put((struct topic_flow){.one_shard = true});
    assert_int_equal(status, QUEUE_ELSEWHERE);
    assert_string_equal(seen, "");
}

/* Each call reads the topic twice before it moves it. */
CLAIM_BETWEEN(no_part_changes_if_the_topic_cannot_be_read, begin, NULL)
{
    for (int get = 1; get <= 2 * PARTS; get++) {
        gets_until_failure = get;
        parts[3].rejects = true;
        put((struct topic_flow){.one_shard = true});
        assert_int_equal(status, QUEUE_NO_MEMORY);
        assert_string_equal(seen, "");
        assert_false(is_placed || is_busy);
    }
}

CLAIM_BETWEEN(the_home_is_the_first_to_change_the_order, begin, NULL)
{
    put((struct topic_flow){.one_shard = true});
    parts[HOME].has_work = true;
    put((struct topic_flow){.group_order = FLOW_STRICT});
    assert_int_equal(status, QUEUE_NOT_EMPTY);
    assert_string_equal(seen, "2! ");
    parts[HOME].has_work = false;
    put((struct topic_flow){.group_order = FLOW_STRICT});
    assert_int_equal(status, QUEUE_OK);
    assert_string_equal(seen, "2= 0= 1= 2= 3= ");
    for (int i = 0; i < PARTS; i++)
        assert_int_equal(parts[i].order, FLOW_STRICT);
}

CLAIMS_MAIN(NULL, NULL)
