/* The door checks groups, limits, rates and holds, and rejects those that the store does not have. */
#include "queue/door.h"

#include "unit/cases.h"
#include "unit/claim.h"

static struct queue_info store;
static enum queue_status status;

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    (void)queue;
    (void)reply_to;
    status = command->checks ? command->checks[0].status : command->status;
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    (void)queue;
    *out = store;
}

static const struct queue_ops ops = {.submit = on_submit, .info = on_info};
static struct queue queue = {.ops = &ops};

static enum queue_status submit(struct command command)
{
    queue_submit(&queue, &command, (struct queue_reply_to){0});
    return status;
}

static enum queue_status push_of_group(const char *group)
{
    struct queue_push push = {.topic = slice_of("t"),
                              .id = slice_of("1"),
                              .when = {QUEUE_DUE_NOW, 0},
                              .priority = QUEUE_PRIORITY_UNSET,
                              .group = slice_of(group)};
    return submit((struct command){.kind = COMMAND_PUSH, .count = 1, .pushes = &push});
}

static enum queue_status answer_with_hold(enum queue_verb verb, int64_t hold_ms)
{
    static const struct queue_again again = {.when = {QUEUE_DUE_NOW, 0},
                                             .priority = QUEUE_PRIORITY_UNSET};
    struct queue_answer answer = {
        .verb = verb, .lease = slice_of("l"), .delay_ms = -1, .again = &again, .hold_ms = hold_ms};
    return submit((struct command){.kind = COMMAND_ANSWER, .count = 1, .answers = &answer});
}

static enum queue_status put_flow(struct topic_flow flow)
{
    struct command command = {.kind = COMMAND_TOPIC,
                              .topic = {.verb = QUEUE_TOPIC_PUT, .topic = slice_of("t")}};
    command.topic.settings.flow = flow;
    return submit(command);
}

static enum queue_status put_group(struct group_settings settings)
{
    return submit((struct command){.kind = COMMAND_GROUP,
                                   .group = {.verb = QUEUE_GROUP_PUT,
                                             .topic = slice_of("t"),
                                             .group = slice_of("g"),
                                             .settings = settings}});
}

static enum queue_status list(enum queue_groups_order order, uint32_t limit, const char *cursor)
{
    return submit((struct command){
        .kind = COMMAND_GROUPS,
        .groups = {
            .topic = slice_of("t"), .order = order, .limit = limit, .cursor = slice_of(cursor)}});
}

static const struct frequency one_a_second = {1, FREQUENCY_SECOND},
                              ten_a_second = {10, FREQUENCY_SECOND};

static int with_groups(void **state)
{
    (void)state;
    store = (struct queue_info){.groups = true, .shards = 1};
    return 0;
}

CLAIM_BETWEEN(names_of_groups_are_printable_without_blanks, with_groups, NULL)
{
    char longest[JOB_GROUP_BYTES_MAX + 2] = {0};
    memset(longest, 'g', JOB_GROUP_BYTES_MAX);
    assert_int_equal(push_of_group("shop-7/eu"), QUEUE_OK);
    assert_int_equal(push_of_group(longest), QUEUE_OK);
    longest[JOB_GROUP_BYTES_MAX] = 'g';
    assert_int_equal(push_of_group(longest), QUEUE_BAD_OPTION);
    assert_int_equal(push_of_group("a b"), QUEUE_BAD_OPTION);
    assert_int_equal(push_of_group("sch\xc3\xb6n"), QUEUE_BAD_OPTION);
}

CLAIM_BETWEEN(a_hold_is_part_of_an_ack_a_nack_or_a_return, with_groups, NULL)
{
    static const struct {
        enum queue_verb verb;
        int64_t hold_ms;
        enum queue_status status;
    } rows[] = {{QUEUE_ACK, 1, QUEUE_OK},
                {QUEUE_NACK, 30000, QUEUE_OK},
                {QUEUE_RETURN, FLOW_HOLD_MS_MAX, QUEUE_OK},
                {QUEUE_RETURN, FLOW_HOLD_MS_MAX + 1LL, QUEUE_BAD_OPTION},
                {QUEUE_ACK, -1, QUEUE_BAD_OPTION},
                {QUEUE_EXTEND, 1, QUEUE_BAD_OPTION},
                {QUEUE_AGAIN, 1, QUEUE_BAD_OPTION}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(answer_with_hold(rows[i].verb, rows[i].hold_ms), rows[i].status);
}

CLAIM_BETWEEN(settings_are_within_their_limits, with_groups, NULL)
{
    store.group_max_jobs = true;
    assert_int_equal(put_flow((struct topic_flow){.topic = {3, one_a_second, 2},
                                                  .group = {1, ten_a_second, 0},
                                                  .group_max_jobs = 9}),
                     QUEUE_OK);
    assert_int_equal(put_flow((struct topic_flow){.topic.limit = FLOW_LIMIT_MAX + 1}),
                     QUEUE_BAD_OPTION);
    assert_int_equal(put_flow((struct topic_flow){.group.limit = FLOW_LIMIT_MAX + 1}),
                     QUEUE_BAD_OPTION);
    assert_int_equal(put_flow((struct topic_flow){.topic.rate = {5, 0}}), QUEUE_BAD_OPTION);
    assert_int_equal(put_flow((struct topic_flow){.topic.burst = 5}), QUEUE_BAD_OPTION);
    assert_int_equal(put_flow((struct topic_flow){.group_max_jobs = TOPIC_JOBS_MAX + 1}),
                     QUEUE_BAD_OPTION);
    assert_int_equal(put_group((struct group_settings){.weight = 100,
                                                       .limits = {1, one_a_second, 3},
                                                       .max_jobs = 1,
                                                       .paused = true,
                                                       .paused_until_ms = 1700000000000}),
                     QUEUE_OK);
    assert_int_equal(put_group((struct group_settings){.limits.burst = 3}), QUEUE_OK);
    assert_int_equal(put_group((struct group_settings){.weight = 101}), QUEUE_BAD_OPTION);
    assert_int_equal(put_group((struct group_settings){.paused_until_ms = 1700000000000}),
                     QUEUE_BAD_OPTION);
}

CLAIM(a_store_without_groups_rejects_all_of_it)
{
    store = (struct queue_info){.shards = 1, .keeps_finished = true};
    assert_int_equal(push_of_group("g"), QUEUE_UNSUPPORTED);
    assert_int_equal(push_of_group(""), QUEUE_OK);
    assert_int_equal(answer_with_hold(QUEUE_NACK, 1), QUEUE_UNSUPPORTED);
    assert_int_equal(answer_with_hold(QUEUE_NACK, 0), QUEUE_OK);
    assert_int_equal(put_flow((struct topic_flow){.topic.limit = 1}), QUEUE_UNSUPPORTED);
    assert_int_equal(put_flow((struct topic_flow){0}), QUEUE_OK);
    assert_int_equal(put_group((struct group_settings){0}), QUEUE_UNSUPPORTED);
    assert_int_equal(list(QUEUE_GROUPS_BY_NAME, 1, ""), QUEUE_UNSUPPORTED);
}

CLAIM_BETWEEN(a_store_may_lack_single_settings, with_groups, NULL)
{
    assert_int_equal(put_flow((struct topic_flow){.group_order = FLOW_STRICT}), QUEUE_UNSUPPORTED);
    assert_int_equal(put_flow((struct topic_flow){.one_shard = true}), QUEUE_UNSUPPORTED);
    assert_int_equal(put_flow((struct topic_flow){.group_max_jobs = 1}), QUEUE_UNSUPPORTED);
    assert_int_equal(put_group((struct group_settings){.max_jobs = 1}), QUEUE_UNSUPPORTED);
    store.strict_groups = store.one_shard = store.group_max_jobs = true;
    assert_int_equal(put_flow((struct topic_flow){
                         .group_order = FLOW_STRICT, .one_shard = true, .group_max_jobs = 1}),
                     QUEUE_OK);
    assert_int_equal(put_group((struct group_settings){.max_jobs = 1}), QUEUE_OK);
}

CLAIM_BETWEEN(a_limit_below_the_number_of_shards_is_rejected, with_groups, NULL)
{
    store.shards = 4;
    assert_int_equal(put_flow((struct topic_flow){.topic.limit = 4}), QUEUE_OK);
    assert_int_equal(put_flow((struct topic_flow){.topic.limit = 3}), QUEUE_BAD_OPTION);
    assert_int_equal(put_flow((struct topic_flow){.group.limit = 1}), QUEUE_BAD_OPTION);
    assert_int_equal(put_flow((struct topic_flow){.topic.rate = one_a_second}), QUEUE_BAD_OPTION);
    assert_int_equal(put_flow((struct topic_flow){.topic.rate = ten_a_second}), QUEUE_OK);
    assert_int_equal(put_group((struct group_settings){.limits.limit = 3}), QUEUE_BAD_OPTION);
    store.one_shard = true;
    assert_int_equal(put_flow((struct topic_flow){.topic.limit = 1, .one_shard = true}), QUEUE_OK);
    assert_int_equal(put_flow((struct topic_flow){.topic.limit = 1}), QUEUE_BAD_OPTION);
}

static enum queue_status put_flow_of(const char *topic, struct topic_flow flow)
{
    return submit((struct command){
        .kind = COMMAND_TOPIC,
        .topic = {.verb = QUEUE_TOPIC_PUT, .topic = slice_of(topic), .settings = {.flow = flow}}});
}

CLAIM_BETWEEN(a_name_may_decide_about_one_shard, with_groups, NULL)
{
    static const struct topic_flow one = {.one_shard = true}, strict = {.group_order = FLOW_STRICT};
    store.shards = 4;
    store.one_shard = store.strict_groups = store.one_shard_by_name = true;
    assert_int_equal(put_flow_of("calls", one), QUEUE_UNSUPPORTED);
    assert_int_equal(put_flow_of("calls", strict), QUEUE_UNSUPPORTED);
    assert_int_equal(put_flow_of("calls.one", one), QUEUE_OK);
    assert_int_equal(put_flow_of("calls.fifo", strict), QUEUE_OK);
    assert_int_equal(put_flow_of("calls.one", (struct topic_flow){.topic.limit = 1}), QUEUE_OK);
    assert_int_equal(put_flow_of("calls", (struct topic_flow){.topic.limit = 3}), QUEUE_BAD_OPTION);
    assert_int_equal(put_group((struct group_settings){.limits.limit = 3}), QUEUE_BAD_OPTION);
    store.shards = 1;
    assert_int_equal(put_flow_of("calls", one), QUEUE_OK);
    assert_true(flow_name_is_one_shard(slice_of("a.fifo")));
    assert_false(flow_name_is_one_shard(slice_of(".one")));
    assert_false(flow_name_is_one_shard(slice_of("someone")));
    assert_false(flow_name_is_one_shard(slice_of("a.ones")));
    assert_false(flow_name_is_one_shard((struct slice){0}));
}

CLAIM_BETWEEN(a_list_of_groups_has_an_order_a_limit_and_a_cursor, with_groups, NULL)
{
    assert_int_equal(list(QUEUE_GROUPS_HELD, 1000, "0=shop-7"), QUEUE_OK);
    assert_int_equal(list(QUEUE_GROUPS_BY_READY, 1, "17="),
                     QUEUE_OK); /* the jobs without a group */
    assert_int_equal(list(QUEUE_GROUPS_HELD + 1, 1, ""), QUEUE_BAD_OPTION);
    assert_int_equal(list(QUEUE_GROUPS_BY_NAME, 0, ""), QUEUE_BAD_OPTION);
    assert_int_equal(list(QUEUE_GROUPS_BY_NAME, 1001, ""), QUEUE_BAD_OPTION);
    assert_int_equal(list(QUEUE_GROUPS_BY_NAME, 1, "shop-7"), QUEUE_BAD_CURSOR);
    assert_int_equal(list(QUEUE_GROUPS_BY_NAME, 1, "0=a b"), QUEUE_BAD_CURSOR);
}

CLAIMS_MAIN(NULL, NULL)
