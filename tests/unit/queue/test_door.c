/* The door of a queue: what is wrong with a call is written into the command there, and nowhere
 * behind it. */
#include "queue/caller.h"
#include "queue/door.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { BODY_BYTES_MAX = 4 };

/* A queue that keeps what came through its door: one call, and its items as they were. */
static const struct command *sent;
static struct command got;
static struct queue_reply_to sent_to;
static struct queue_push pushes[3];
static struct queue_check checks[3];
static char ids[3][JOB_ID_BYTES_MAX];

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    (void)queue;
    sent = command;
    sent_to = reply_to;
    got = *command;
    assert_true(command->count <= 3);
    for (size_t i = 0; i < command->count && command->kind == COMMAND_PUSH; i++) {
        pushes[i] = command->pushes[i];
        memcpy(ids[i], pushes[i].id.at, pushes[i].id.len);
        pushes[i].id.at = ids[i];
    }
    for (size_t i = 0; i < command->count && command->checks; i++)
        checks[i] = command->checks[i];
}

static const struct queue_ops ops = {.submit = on_submit};
static struct queue queue;

static int64_t wall_ms(void)
{
    return 1700000000000;
}

static int open_door(void **state)
{
    (void)state;
    queue = (struct queue){.ops = &ops, .door = queue_door_new(BODY_BYTES_MAX, 1, wall_ms)};
    return queue.door ? 0 : -1;
}

static int close_door(void **state)
{
    (void)state;
    queue_door_free(queue.door);
    return 0;
}

static struct queue_push a_push(const char *id, const char *body)
{
    return (struct queue_push){.topic = slice_of("t"),
                               .id = slice_of(id),
                               .body = slice_of(body),
                               .when = {QUEUE_DUE_NOW, 0},
                               .priority = QUEUE_PRIORITY_UNSET};
}

CLAIM_BETWEEN(a_good_call_passes_unchanged, open_door, close_door)
{
    struct queue_push push = a_push("1", "");
    struct command command = {.kind = COMMAND_PUSH, .count = 1, .pushes = &push};
    queue_submit(&queue, &command, (struct queue_reply_to){0});
    assert_ptr_equal(sent, &command); /* nothing is copied */
    assert_null(got.checks);
}

CLAIM_BETWEEN(a_bad_item_is_rejected_next_to_good_ones, open_door, close_door)
{
    struct queue_push three[] = {a_push("1", "long one"), a_push("2", ""), a_push("3", "")};
    struct queue_result result = {0};
    three[2].priority = -7;
    queue_push(&queue, three, 3, (struct queue_reply_to){0});
    assert_non_null(got.checks);
    assert_int_equal(got.status, QUEUE_OK); /* the call as a whole is carried out */
    got.checks = checks;
    assert_false(command_item_is_good(&got, 0, &result));
    assert_int_equal(result.status, QUEUE_BODY_TOO_BIG);
    assert_true(command_item_is_good(&got, 1, &result));
    assert_false(command_item_is_good(&got, 2, &result));
    assert_int_equal(result.status, QUEUE_BAD_OPTION);
    assert_string_equal(result.detail, "priority");
}

CLAIM_BETWEEN(items_behind_one_without_an_id_are_looked_at, open_door, close_door)
{
    struct queue_push two[] = {a_push("", ""), a_push("2", "long one")};
    queue_push(&queue, two, 2, (struct queue_reply_to){0});
    assert_non_null(got.checks);
    assert_int_equal(checks[0].status, QUEUE_OK);
    assert_int_equal(checks[1].status, QUEUE_BODY_TOO_BIG);
    assert_true(job_id_is_valid(pushes[0].id));
}

CLAIM_BETWEEN(a_call_without_items_is_refused_as_a_whole, open_door, close_door)
{
    struct slice topic = slice_of("no topic");
    queue_take(&queue, &(struct queue_take){.topics = &topic, .topic_count = 1, .max = 1},
               (struct queue_reply_to){0});
    assert_int_equal(got.status, QUEUE_BAD_TOPIC);
    queue_get(&queue, slice_of("t"), slice_of("no id"), (struct queue_reply_to){0});
    assert_int_equal(got.status, QUEUE_BAD_ID);
    queue_list(&queue, &(struct queue_list){.topic = slice_of("t")}, (struct queue_reply_to){0});
    assert_int_equal(got.status, QUEUE_BAD_OPTION);
    queue_topics(&queue, (struct queue_reply_to){0});
    assert_int_equal(got.status, QUEUE_OK);
}

CLAIM_BETWEEN(every_push_has_an_id_behind_it, open_door, close_door)
{
    struct queue_push three[] = {a_push("", ""), a_push("2", ""), a_push("", "")};
    queue_push(&queue, three, 3, (struct queue_reply_to){0});
    assert_true(job_id_is_valid(pushes[0].id) && pushes[0].id_is_made);
    assert_true(slice_is(pushes[1].id, "2") && !pushes[1].id_is_made);
    assert_true(job_id_is_valid(pushes[2].id) && pushes[2].id_is_made);
    assert_false(slice_equals(pushes[0].id, pushes[2].id));
    assert_int_equal(three[0].id.len, 0); /* the caller's own stay as they are */
}

CLAIM_BETWEEN(a_bad_push_also_gets_an_id, open_door, close_door)
{
    struct queue_push push = a_push("", "long one");
    queue_push(&queue, &push, 1, (struct queue_reply_to){0});
    assert_int_equal(checks[0].status, QUEUE_BODY_TOO_BIG);
    assert_true(job_id_is_valid(pushes[0].id)); /* its answer names it */
}

/* ---- the rules of a caller ---- */

/* A caller that may push the topics in `allowed`, and nothing else. */
static struct rules_seen {
    size_t asked, begun, ended, replied;
    enum queue_status ended_with;
} seen;

static bool admit(const struct queue_caller *caller, const struct command *command, size_t i,
                  struct queue_check *out)
{
    (void)caller;
    seen.asked++;
    if (command->kind == COMMAND_PUSH && slice_is(command->pushes[i].topic, "allowed"))
        return true;
    *out = (struct queue_check){.status = QUEUE_TOO_FAST, .retry_s = 7, .limit = 3};
    return false;
}

static void *begin(const struct queue_caller *caller, const struct command *command)
{
    (void)caller;
    (void)command;
    seen.begun++;
    return &seen;
}

static void end(void *begun, const struct queue_reply *reply)
{
    assert_ptr_equal(begun, &seen);
    assert_int_equal(seen.replied, 0); /* the caller comes behind */
    seen.ended++;
    seen.ended_with = reply->status;
}

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)reply;
    assert_ptr_equal(owner, &queue);
    assert_int_equal(tag, 42);
    seen.replied++;
}

static const struct queue_rules rules = {.admit = admit, .begin = begin, .end = end};
static const struct queue_caller caller = {.rules = &rules};

static struct queue_reply_to of_caller(void)
{
    seen = (struct rules_seen){0};
    return (struct queue_reply_to){.done = on_reply, .owner = &queue, .tag = 42, .caller = &caller};
}

static struct queue_push push_to(const char *topic)
{
    struct queue_push push = a_push("1", "");
    push.topic = slice_of(topic);
    return push;
}

CLAIM_BETWEEN(each_item_is_checked_once_and_rejected_separately, open_door, close_door)
{
    struct queue_push three[] = {push_to("allowed"), push_to("other"), push_to("allowed")};
    struct queue_result result = {0};
    queue_push(&queue, three, 3, of_caller());
    assert_int_equal(seen.asked, 3);
    got.checks = checks;
    assert_true(command_item_is_good(&got, 0, &result) && command_item_is_good(&got, 2, &result));
    assert_false(command_item_is_good(&got, 1, &result));
    assert_int_equal(result.status, QUEUE_TOO_FAST);
    assert_int_equal(result.retry_s, 7);
    assert_int_equal(result.limit, 3);
}

CLAIM_BETWEEN(malformed_items_are_not_charged, open_door, close_door)
{
    struct queue_push two[] = {a_push("1", "long one"), push_to("allowed")};
    queue_push(&queue, two, 2, of_caller());
    assert_int_equal(seen.asked, 1);
    assert_int_equal(checks[0].status, QUEUE_BODY_TOO_BIG);
    assert_int_equal(checks[1].status, QUEUE_OK);
}

CLAIM_BETWEEN(an_admitted_push_passes_unchanged, open_door, close_door)
{
    struct queue_push push = push_to("allowed");
    queue_push(&queue, &push, 1, of_caller());
    assert_null(got.checks);
    assert_true(sent_to.done == on_reply);
}

CLAIM_BETWEEN(internal_calls_pass_without_rules, open_door, close_door)
{
    struct queue_push push = push_to("other");
    queue_push(&queue, &push, 1, (struct queue_reply_to){0});
    assert_null(got.checks);
}

/* ---- callbacks of jobs ---- */

static bool allows_good(void *ctx, struct slice url)
{
    (*(size_t *)ctx)++;
    return slice_is(url, "https://good/");
}

static struct queue_push push_with(struct buffer *meta, const char *name, const char *value)
{
    struct queue_push push = push_to("allowed");
    buffer_init(meta, JOB_META_BYTES_MAX);
    assert_int_equal(job_meta_add(meta, slice_of("a"), slice_of("b")), JOB_META_OK);
    assert_int_equal(job_meta_add(meta, slice_of(name), slice_of(value)), JOB_META_OK);
    push.meta = buffer_slice(meta);
    return push;
}

CLAIM_BETWEEN(a_callers_job_may_only_have_an_allowed_callback, open_door, close_door)
{
    size_t calls = 0;
    const struct queue_callback_rule rule = {.allows = allows_good, .ctx = &calls};
    struct buffer metas[3];
    struct queue_push three[] = {push_with(&metas[0], JOB_META_CALLBACK, "https://good/"),
                                 push_with(&metas[1], JOB_META_CALLBACK, "https://bad/"),
                                 push_with(&metas[2], "callback", "https://bad/")};
    queue_rule_callbacks(&queue, &rule);
    queue_push(&queue, three, 3, of_caller());
    assert_int_equal(checks[0].status, QUEUE_OK);
    assert_int_equal(checks[1].status, QUEUE_BAD_OPTION);
    assert_string_equal(checks[1].detail, "callback");
    assert_int_equal(checks[2].status, QUEUE_OK);
    assert_int_equal(seen.asked, 2); /* the bad one is not charged */
    queue_push(&queue, &three[1], 1, (struct queue_reply_to){0});
    assert_null(got.checks); /* tarry's own */
    for (size_t i = 0; i < COUNT_OF(metas); i++)
        buffer_fini(&metas[i]);
}

CLAIM_BETWEEN(without_a_rule_no_callers_job_has_a_callback, open_door, close_door)
{
    struct buffer meta;
    struct queue_push push = push_with(&meta, JOB_META_CALLBACK, "https://good/");
    queue_push(&queue, &push, 1, of_caller());
    assert_int_equal(checks[0].status, QUEUE_BAD_OPTION);
    assert_int_equal(seen.asked, 0);
    buffer_fini(&meta);
}

CLAIM_BETWEEN(a_rejected_topic_change_is_audited_before_its_reply, open_door, close_door)
{
    const struct queue_topic_call purge = {.verb = QUEUE_TOPIC_PURGE, .topic = slice_of("t")};
    const struct queue_reply reply = {.status = QUEUE_TOO_FAST};
    queue_topic(&queue, &purge, of_caller());
    assert_int_equal(got.status, QUEUE_TOO_FAST);
    assert_int_equal(seen.begun, 1);
    sent_to.done(sent_to.owner, sent_to.tag, &reply);
    assert_int_equal(seen.ended, 1);
    assert_int_equal(seen.ended_with, QUEUE_TOO_FAST);
    assert_int_equal(seen.replied, 1);
}

CLAIM_BETWEEN(gets_lists_and_answers_are_not_checked, open_door, close_door)
{
    const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = slice_of("t")};
    const struct queue_answer ack = {.verb = QUEUE_ACK, .lease = slice_of("x")};
    queue_topic(&queue, &get, of_caller());
    queue_answer(&queue, &ack, 1, of_caller());
    assert_int_equal(seen.asked + seen.begun, 0);
}

CLAIMS_MAIN(NULL, NULL)
