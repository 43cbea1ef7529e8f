/* A queue that goes over into another one while calls on it go on: which of the two is asked, and in
 * what order. The two are small tables of ids. */
#include "queue/handover.h"

#include "base/clock.h"
#include "unit/cases.h"

#include <stdio.h>

enum { JOBS_MAX = 8, LOG_BYTES = 512, FROM = 0, INTO = 1 };

/* A queue of a few ids; what it is asked is noted. */
struct fake {
    struct queue queue;
    char name;
    bool is_sealed;            /* takes no new ids */
    const char *ids[JOBS_MAX]; /* of its jobs */
    const char *moving;        /* one that is on its way */
};

static struct fake fakes[2];
static char asked[LOG_BYTES];

static void note(const struct fake *fake, const char *what, struct slice id)
{
    size_t len = strlen(asked);
    (void)snprintf(asked + len, sizeof asked - len, "%c:%s:%.*s ", fake->name, what, (int)id.len,
                   id.at ? id.at : "");
}

static const char **find(struct fake *fake, struct slice id)
{
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (fake->ids[i] && slice_is(id, fake->ids[i]))
            return &fake->ids[i];
    return NULL;
}

static const char *const known_ids[] = {"a", "b", "c", "d", NULL};

static void put(struct fake *fake, struct slice id)
{
    for (size_t i = 0; known_ids[i]; i++)
        if (slice_is(id, known_ids[i]))
            fake->ids[i] = known_ids[i];
}

static bool is_moving(const struct fake *fake, struct slice id)
{
    return fake->moving && slice_is(id, fake->moving);
}

static enum queue_status push_one(struct fake *fake, const struct queue_push *push)
{
    note(fake, "push", push->id);
    if (is_moving(fake, push->id))
        return QUEUE_MOVING;
    if (find(fake, push->id))
        return QUEUE_EXISTED;
    if (fake->is_sealed)
        return QUEUE_ELSEWHERE;
    put(fake, push->id);
    return QUEUE_CREATED;
}

static enum queue_status cancel_one(struct fake *fake, const struct queue_change *change)
{
    note(fake, "cancel", change->id);
    if (is_moving(fake, change->id))
        return QUEUE_MOVING;
    const char **job = find(fake, change->id);
    if (!job)
        return QUEUE_NOT_FOUND;
    *job = NULL;
    return QUEUE_CANCELLED;
}

static void reply_items(struct fake *fake, const struct command *command,
                        struct queue_reply_to reply_to)
{
    struct queue_result results[JOBS_MAX] = {0};
    for (size_t i = 0; i < command->count; i++)
        results[i].status = command->kind == COMMAND_PUSH ? push_one(fake, &command->pushes[i])
                                                          : cancel_one(fake, &command->changes[i]);
    struct queue_reply reply = {.results = results, .result_count = command->count};
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
}

static void reply_list(struct fake *fake, struct queue_reply_to reply_to)
{
    struct queue_job jobs[JOBS_MAX] = {0};
    struct queue_reply reply = {.jobs = jobs};
    note(fake, "list", (struct slice){0});
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (fake->ids[i])
            jobs[reply.job_count++].job = (struct job){
                .id = slice_of(fake->ids[i]), .due_ms = 5, .sequence = (uint64_t)i + 1};
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
}

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct fake *fake = (struct fake *)(void *)queue;
    struct queue_reply reply = {.status = QUEUE_OK};
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_CHANGE:
        reply_items(fake, command, reply_to);
        return;
    case COMMAND_LIST:
        reply_list(fake, reply_to);
        return;
    case COMMAND_GET:
        note(fake, "get", command->get.id);
        reply.status = is_moving(fake, command->get.id) ? QUEUE_MOVING
                       : find(fake, command->get.id)    ? QUEUE_OK
                                                        : QUEUE_NOT_FOUND;
        break;
    case COMMAND_TOPIC:
        note(fake, command->topic.verb == QUEUE_TOPIC_PURGE ? "purge" : "topic",
             command->topic.topic);
        reply.affected = 3;
        break;
    default:
        note(fake, "other", (struct slice){0});
        break;
    }
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    note((struct fake *)(void *)queue, on ? "watch" : "unwatch", topic);
}

static bool is_sealed(void *ctx)
{
    (void)ctx;
    return fakes[FROM].is_sealed;
}

static const struct queue_ops ops = {.submit = on_submit, .watch = on_watch};

static bool part_of_lease(void *ctx, struct slice lease, uint32_t *part)
{
    (void)ctx;
    *part = lease.at[0] == 'i' ? INTO : FROM;
    return true;
}

static void refuse(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    struct queue_reply reply = {.status = status};
    (void)ctx;
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
}

/* ---- one handover, and what it replies ---- */

static struct handover *handover;
static unsigned replies;
static enum queue_status statuses[JOBS_MAX];
static char listed[64];
static uint64_t affected;

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    replies++;
    affected = reply->affected;
    statuses[0] = reply->status;
    for (size_t i = 0; i < reply->result_count; i++)
        statuses[i] = reply->results[i].status;
    listed[0] = 0;
    for (size_t i = 0; i < reply->job_count; i++)
        strncat(listed, reply->jobs[i].job.id.at, reply->jobs[i].job.id.len);
}

static const struct queue_reply_to to = {.done = on_done};

static void begin(int64_t timeout_ms)
{
    for (int i = 0; i < 2; i++)
        fakes[i] = (struct fake){.queue.ops = &ops, .name = i == FROM ? 'f' : 'i'};
    handover = handover_new(&(struct handover_options){.queue = &fakes[FROM].queue,
                                                       .is_sealed = is_sealed,
                                                       .part_of_lease = part_of_lease,
                                                       .refuse = refuse,
                                                       .timeout_ms = timeout_ms});
    assert_non_null(handover);
    replies = 0;
    asked[0] = 0;
}

static void begin_two(int64_t timeout_ms)
{
    begin(timeout_ms);
    assert_true(handover_begin(handover, &fakes[INTO].queue));
    fakes[FROM].is_sealed = true;
}

static void push_ids(const char *ids, bool made)
{
    struct queue_push pushes[JOBS_MAX];
    size_t count = strlen(ids);
    for (size_t i = 0; i < count; i++)
        pushes[i] = (struct queue_push){
            .topic = slice_of("t"), .id = slice_make(ids + i, 1), .id_is_made = made};
    queue_push(handover_queue(handover), pushes, count, to);
}

static void cancel(const char *id)
{
    struct queue_change change = {.verb = QUEUE_CANCEL, .topic = slice_of("t"), .id = slice_of(id)};
    queue_change(handover_queue(handover), &change, 1, to);
}

/* ---- the cases ---- */

static void a_single_part_gets_all_calls(void **state)
{
    (void)state;
    begin(100);
    push_ids("a", false);
    assert_string_equal(asked, "f:push:a ");
    assert_int_equal(statuses[0], QUEUE_CREATED);
    assert_true(handover_is_over(handover));
    handover_free(handover);
}

static void an_id_unknown_to_the_old_part_goes_to_the_new_one(void **state)
{
    (void)state;
    begin_two(100);
    put(&fakes[FROM], slice_of("b"));
    push_ids("abc", false);
    assert_int_equal(replies, 1);
    assert_int_equal(statuses[0], QUEUE_CREATED);
    assert_int_equal(statuses[1], QUEUE_EXISTED);
    assert_int_equal(statuses[2], QUEUE_CREATED);
    assert_string_equal(asked, "f:push:a f:push:b f:push:c i:push:a i:push:c ");
    handover_free(handover);
}

static void a_generated_id_goes_directly_to_the_new_part(void **state)
{
    (void)state;
    begin_two(100);
    push_ids("ab", true);
    assert_string_equal(asked, "i:push:a i:push:b ");
    handover_free(handover);
}

/* Otherwise the job could be pushed again under that id, and `from` would not know it. */
static void a_made_id_stays_while_the_old_part_takes_new_ones(void **state)
{
    (void)state;
    begin_two(100);
    fakes[FROM].is_sealed = false;
    push_ids("a", true);
    push_ids("a", false);
    assert_int_equal(statuses[0], QUEUE_EXISTED);
    assert_string_equal(asked, "f:push:a f:push:a ");
    handover_free(handover);
}

static void a_job_is_cancelled_in_its_part(void **state)
{
    (void)state;
    begin_two(100);
    put(&fakes[FROM], slice_of("a"));
    put(&fakes[INTO], slice_of("b"));
    cancel("a");
    assert_int_equal(statuses[0], QUEUE_CANCELLED);
    assert_string_equal(asked, "f:cancel:a ");
    cancel("b");
    assert_int_equal(statuses[0], QUEUE_CANCELLED);
    cancel("c");
    assert_int_equal(statuses[0], QUEUE_NOT_FOUND);
    assert_int_equal(replies, 3);
    handover_free(handover);
}

static void a_job_on_its_way_is_waited_for(void **state)
{
    (void)state;
    begin_two(1000000);
    fakes[FROM].moving = "a";
    cancel("a");
    assert_int_equal(replies, 0);
    int64_t at_ms = handover_step(handover, clock_inner_ms() - 1000);
    assert_true(at_ms < INT64_MAX);
    fakes[FROM].moving = NULL;
    put(&fakes[INTO], slice_of("a"));
    (void)handover_step(handover, at_ms);
    assert_int_equal(replies, 1);
    assert_int_equal(statuses[0], QUEUE_CANCELLED);
    assert_string_equal(asked, "f:cancel:a f:cancel:a i:cancel:a ");
    handover_free(handover);
}

static void a_job_that_stays_on_its_way_is_unavailable(void **state)
{
    (void)state;
    begin_two(0);
    fakes[FROM].moving = "a";
    cancel("a");
    assert_int_equal(replies, 1);
    assert_int_equal(statuses[0], QUEUE_UNAVAILABLE);
    queue_get(handover_queue(handover), slice_of("t"), slice_of("a"), to);
    assert_int_equal(statuses[0], QUEUE_UNAVAILABLE);
    handover_free(handover);
}

static void a_get_tries_both_parts(void **state)
{
    (void)state;
    begin_two(100);
    put(&fakes[INTO], slice_of("a"));
    queue_get(handover_queue(handover), slice_of("t"), slice_of("a"), to);
    assert_int_equal(statuses[0], QUEUE_OK);
    assert_string_equal(asked, "f:get:a i:get:a ");
    handover_free(handover);
}

static void a_list_shows_a_job_once_that_moved_meanwhile(void **state)
{
    (void)state;
    const struct queue_list list = {.topic = slice_of("t"), .limit = 10};
    begin_two(100);
    put(&fakes[FROM], slice_of("a"));
    put(&fakes[FROM], slice_of("b"));
    put(&fakes[INTO], slice_of("b"));
    put(&fakes[INTO], slice_of("c"));
    queue_list(handover_queue(handover), &list, to);
    assert_string_equal(listed, "abc");
    assert_string_equal(asked, "f:list: i:list: ");
    handover_free(handover);
}

static void a_purge_follows_the_jobs(void **state)
{
    (void)state;
    const struct queue_topic_call purge = {.verb = QUEUE_TOPIC_PURGE, .topic = slice_of("t")};
    begin_two(100);
    queue_topic(handover_queue(handover), &purge, to);
    assert_string_equal(asked, "f:purge:t i:purge:t ");
    assert_int_equal(affected, 6);
    handover_free(handover);
}

static void an_answer_goes_by_its_lease(void **state)
{
    (void)state;
    const struct queue_answer answer = {.verb = QUEUE_ACK, .lease = slice_of("i1")};
    begin_two(100);
    queue_answer(handover_queue(handover), &answer, 1, to);
    assert_string_equal(asked, "i:other: ");
    handover_free(handover);
}

static void watched_topics_are_watched_in_both_then_in_the_new_one(void **state)
{
    (void)state;
    begin(100);
    queue_watch(handover_queue(handover), slice_of("t"), true);
    assert_true(handover_begin(handover, &fakes[INTO].queue));
    handover_end(handover);
    assert_true(handover_is_over(handover));
    assert_string_equal(asked, "f:watch:t i:watch:t f:unwatch:t ");
    asked[0] = 0;
    queue_watch(handover_queue(handover), slice_of("t"), false);
    push_ids("a", false);
    assert_string_equal(asked, "i:unwatch:t i:push:a ");
    handover_free(handover);
}

static void ends_with_the_last_call(void **state)
{
    (void)state;
    begin_two(1000000);
    fakes[FROM].moving = "a";
    cancel("a");
    handover_end(handover);
    assert_false(handover_is_over(handover));
    fakes[FROM].moving = NULL;
    (void)handover_step(handover, INT64_MAX - 1);
    assert_int_equal(replies, 1);
    assert_true(handover_is_over(handover));
    handover_free(handover);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_single_part_gets_all_calls),
        cmocka_unit_test(an_id_unknown_to_the_old_part_goes_to_the_new_one),
        cmocka_unit_test(a_generated_id_goes_directly_to_the_new_part),
        cmocka_unit_test(a_made_id_stays_while_the_old_part_takes_new_ones),
        cmocka_unit_test(a_job_is_cancelled_in_its_part),
        cmocka_unit_test(a_job_on_its_way_is_waited_for),
        cmocka_unit_test(a_job_that_stays_on_its_way_is_unavailable),
        cmocka_unit_test(a_get_tries_both_parts),
        cmocka_unit_test(a_list_shows_a_job_once_that_moved_meanwhile),
        cmocka_unit_test(a_purge_follows_the_jobs),
        cmocka_unit_test(an_answer_goes_by_its_lease),
        cmocka_unit_test(watched_topics_are_watched_in_both_then_in_the_new_one),
        cmocka_unit_test(ends_with_the_last_call),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
