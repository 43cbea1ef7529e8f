/* Claims about groups, limits, rates and holds (job/flow.h). The model does not know them, so these claims call the queue directly. */
#include "directed.h"

#include "base/clock.h"
#include "queue/queue.h"
#include "unit/seed.h"

#include <stdlib.h>

enum { LEASE_MS = 60 * 1000, HOUR_MS = 3600 * 1000, TAKEN_MAX = 1000 };

static const struct driver *driver(void)
{
    return w->client.driver;
}

#define NEEDS_GROUPS()                                                                             \
    if (!driver()->groups)                                                                         \
        skip();                                                                                    \
    is_in_one_shard = false

/* Several shards share a limit, and each has an order of its own, unless all jobs of the topic are in one of them. */
#define NEEDS_ONE_SHARD()                                                                          \
    if (!driver()->groups ||                                                                       \
        (driver()->shards != 1 && !driver()->one_shard && !driver()->one_shard_by_name))           \
        skip();                                                                                    \
    begin_one_shard()

#define NEEDS_STRICT()                                                                             \
    if (!driver()->strict_groups)                                                                  \
        skip();                                                                                    \
    is_in_one_shard = driver()->one_shard_by_name;                                                 \
    if (is_in_one_shard)                                                                           \
    claim_topic = "t.one"

/* ---- the clock ---- */

static void pass_time(int64_t ms)
{
    struct client *client = &w->client;
    driver()->moved(client->self);
    int64_t until_ms = clock_inner_ms() + ms;
    while (driver()->next_ms) {
        int64_t next_ms = driver()->next_ms(client->self), now = clock_inner_ms();
        if (next_ms >= until_ms)
            break;
        clock_fake_advance(next_ms > now ? next_ms - now : 1);
        driver()->moved(client->self);
    }
    clock_fake_advance(until_ms - clock_inner_ms());
    driver()->moved(client->self);
}

static void reopen(void)
{
    client_begin(&w->client);
    assert_true(client_reopen(&w->client));
}

/* ---- settings ---- */

static bool is_in_one_shard; /* the topic of the running claim, if there are several */

static void set(struct topic_flow flow)
{
    flow.one_shard |= is_in_one_shard;
    const struct queue_reply *reply =
        client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_PUT,
                                                            .topic = slice_of(claim_topic),
                                                            .settings = {.flow = flow}});
    assert_true(reply->status == QUEUE_OK || reply->status == QUEUE_CREATED);
}

static void begin_one_shard(void)
{
    is_in_one_shard = driver()->shards > 1;
    if (driver()->one_shard_by_name)
        claim_topic = "t.one";
    if (is_in_one_shard)
        set((struct topic_flow){0});
}

static uint32_t of_all_shards(uint32_t limit)
{
    return is_in_one_shard ? limit : limit * driver()->shards;
}

static struct frequency per_second(uint32_t count)
{
    return (struct frequency){of_all_shards(count), FREQUENCY_SECOND};
}

static const struct queue_reply *submit(const struct command *command)
{
    struct client *client = &w->client;
    client_begin(client);
    struct queue_reply_to to = client_add(client);
    queue_submit(client->queue, (struct command[]){*command}, to);
    client_sent(client);
    client_wait(client);
    return &client->calls[0].outcome.reply;
}

static const struct queue_reply *group_call(enum queue_group_verb verb, const char *group,
                                            struct group_settings settings)
{
    return submit(&(struct command){.kind = COMMAND_GROUP,
                                    .group = {.verb = verb,
                                              .topic = slice_of(claim_topic),
                                              .group = slice_of(group),
                                              .settings = settings}});
}

static void set_group(const char *group, struct group_settings settings)
{
    const struct queue_reply *reply = group_call(QUEUE_GROUP_PUT, group, settings);
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->group_count, 1);
    assert_true(slice_is(reply->groups[0].name, group));
    assert_true(reply->groups[0].has_settings);
}

static void reset_group(const char *group)
{
    const struct queue_reply *reply =
        group_call(QUEUE_GROUP_DELETE, group, (struct group_settings){0});
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->group_count, 1);
    assert_true(slice_is(reply->groups[0].name, group));
    assert_false(reply->groups[0].has_settings);
}

static struct queue_group group_of(const char *group)
{
    const struct queue_reply *reply =
        group_call(QUEUE_GROUP_GET, group, (struct group_settings){0});
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->group_count, 1);
    return reply->groups[0];
}

static const struct queue_reply *list_groups(enum queue_groups_order order, uint32_t limit,
                                             struct slice cursor)
{
    return submit(&(struct command){
        .kind = COMMAND_GROUPS,
        .groups = {
            .topic = slice_of(claim_topic), .order = order, .limit = limit, .cursor = cursor}});
}

static struct queue_counts counts(void)
{
    const struct queue_reply *reply =
        client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_GET,
                                                            .topic = slice_of(claim_topic)});
    assert_int_equal(reply->topic_count, 1);
    return reply->topics[0].counts;
}

/* ---- pushes ---- */

static struct queue_push grouped(const char *group, const char *id)
{
    struct queue_push push = a_push(id);
    push.group = slice_of(group);
    return push;
}

static enum queue_status push_one(struct queue_push push)
{
    return client_push(&w->client, &push, 1)->results[0].status;
}

static void push_in(const char *group, const char *id)
{
    assert_int_equal(push_one(grouped(group, id)), QUEUE_CREATED);
}

/* Pushes jobs of a group, with ids from its name and a number. */
static void push_many(const char *group, int count)
{
    static int number;
    for (int i = 0; i < count; i++) {
        char id[80];
        snprintf(id, sizeof id, "%s-%d", group[0] ? group : "none", number++);
        push_in(group, id);
    }
}

/* ---- taking and answering ---- */

static struct {
    char id[80], group[JOB_GROUP_BYTES_MAX + 1];
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX + 1];
} taken[TAKEN_MAX]; /* by the last take */

static void copy_text(char *into, struct slice text)
{
    memcpy(into, text.at, text.len);
    into[text.len] = '\0';
}

/* Takes jobs into `taken`. Returns how many. */
static size_t take_up_to(uint32_t max, int64_t lease_ms)
{
    struct slice topic = slice_of(claim_topic);
    const struct queue_reply *reply = client_take(
        &w->client,
        &(struct queue_take){.topics = &topic, .topic_count = 1, .max = max, .lease_ms = lease_ms});
    assert_int_equal(reply->status, QUEUE_OK);
    assert_true(reply->job_count <= max);
    for (size_t i = 0; i < reply->job_count; i++) {
        copy_text(taken[i].id, reply->jobs[i].job.id);
        copy_text(taken[i].group, reply->jobs[i].job.group);
        copy_text(taken[i].lease, reply->jobs[i].lease);
    }
    return reply->job_count;
}

/* Takes all that can be taken, whatever shard has it. */
static size_t take_all(void)
{
    size_t count = 0, got;
    static char leases[TAKEN_MAX][sizeof taken[0].lease], groups[TAKEN_MAX][sizeof taken[0].group],
        ids[TAKEN_MAX][sizeof taken[0].id];
    while ((got = take_up_to(50, LEASE_MS))) {
        assert_true(count + got <= TAKEN_MAX);
        for (size_t i = 0; i < got; i++, count++) {
            memcpy(leases[count], taken[i].lease, sizeof taken[i].lease);
            memcpy(groups[count], taken[i].group, sizeof taken[i].group);
            memcpy(ids[count], taken[i].id, sizeof taken[i].id);
        }
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(taken[i].lease, leases[i], sizeof taken[i].lease);
        memcpy(taken[i].group, groups[i], sizeof taken[i].group);
        memcpy(taken[i].id, ids[i], sizeof taken[i].id);
    }
    return count;
}

static size_t taken_of(const char *group, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += strcmp(taken[i].group, group) == 0;
    return found;
}

static enum queue_status answer_one(struct queue_answer answer)
{
    return client_answer(&w->client, &answer, 1)->results[0].status;
}

static enum queue_status ack_at(size_t i)
{
    return answer_one((struct queue_answer){.verb = QUEUE_ACK, .lease = slice_of(taken[i].lease)});
}

static void ack_all(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ack_at(i), QUEUE_OK);
}

/* Takes one job and expects its group. Its lease is in taken[0]. */
static void expect_group(const char *group)
{
    assert_int_equal(take_up_to(1, LEASE_MS), 1);
    assert_string_equal(taken[0].group, group);
}

static void expect_job(const char *id)
{
    assert_int_equal(take_up_to(1, LEASE_MS), 1);
    assert_string_equal(taken[0].id, id);
}

static void expect_nothing(void)
{
    assert_int_equal(take_up_to(1, LEASE_MS), 0);
}

static struct queue_job shown(const char *id)
{
    const struct queue_reply *reply = client_get(&w->client, slice_of(claim_topic), slice_of(id));
    assert_int_equal(reply->status, QUEUE_OK);
    return reply->jobs[0];
}

/* ---- order ---- */

static void fewest_in_flight_comes_first(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    push_many("a", 10);
    for (int i = 0; i < 4; i++)
        expect_group("a");
    push_many("b", 3);
    push_many("", 2);
    expect_group("b");
    expect_group("");
    expect_group("b");
    char second_of_b[sizeof taken[0].lease];
    memcpy(second_of_b, taken[0].lease, sizeof second_of_b);
    expect_group("");
    expect_group("b");
    expect_group("a");
    assert_int_equal(
        answer_one((struct queue_answer){.verb = QUEUE_ACK, .lease = slice_of(second_of_b)}),
        QUEUE_OK);
    push_many("b", 1);
    expect_group("b");
    expect_group("a");
}

static void priority_comes_before_fairness(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    push_many("b", 2);
    struct queue_push urgent = grouped("a", "urgent");
    urgent.priority = 1;
    assert_int_equal(push_one(urgent), QUEUE_CREATED);
    urgent.id = slice_of("urgent-2");
    assert_int_equal(push_one(urgent), QUEUE_CREATED);
    expect_job("urgent");
    expect_job("urgent-2");
    expect_group("b");
}

static void turns_are_even_within_one_job(void **state)
{
    int served[3] = {0};
    (void)state;
    NEEDS_ONE_SHARD();
    push_many("a", 30);
    push_many("b", 30);
    push_many("", 30);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(take_up_to(1, LEASE_MS), 1);
        served[taken[0].group[0] ? taken[0].group[0] - 'a' : 2]++;
        assert_int_equal(ack_at(0), QUEUE_OK);
        for (int j = 0; j < 3; j++)
            assert_in_range(served[j], i / 3, i / 3 + 1);
    }
}

static void a_waking_group_does_not_catch_up(void **state)
{
    int served = 0;
    (void)state;
    NEEDS_ONE_SHARD();
    push_many("b", 1);
    push_many("a", 60);
    for (int i = 0; i < 41; i++) {
        assert_int_equal(take_up_to(1, LEASE_MS), 1);
        assert_int_equal(ack_at(0), QUEUE_OK);
    }
    push_many("b", 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(take_up_to(1, LEASE_MS), 1);
        served += taken[0].group[0] == 'b';
        assert_int_equal(ack_at(0), QUEUE_OK);
    }
    assert_in_range(served, 9, 11);
}

static void weights_share_within_one_percent(void **state)
{
    enum { TURNS = 400, HELD = 40 };
    int served = 0;
    (void)state;
    NEEDS_ONE_SHARD();
    set_group("b", (struct group_settings){.weight = 3});
    push_many("a", 200);
    push_many("b", 350);
    for (int i = 0; i < TURNS; i++) {
        assert_int_equal(take_up_to(1, LEASE_MS), 1);
        served += taken[0].group[0] == 'b';
        assert_int_equal(ack_at(0), QUEUE_OK);
    }
    assert_in_range(served, TURNS * 3 / 4 - TURNS / 100, TURNS * 3 / 4 + TURNS / 100);
    assert_int_equal(take_up_to(HELD, LEASE_MS), HELD); /* of the jobs in flight as well */
    assert_in_range(taken_of("b", HELD), HELD * 3 / 4 - 1, HELD * 3 / 4 + 1);
}

/* ---- limits ---- */

static void a_limit_is_never_exceeded(void **state)
{
    (void)state;
    NEEDS_GROUPS();
    set((struct topic_flow){.topic.limit = of_all_shards(3)});
    push_many("", 30);
    size_t count = take_all();
    assert_in_range(count, 1, of_all_shards(3));
    assert_int_equal(counts().leased, count);
    if (driver()->shards == 1)
        assert_int_equal(count, 3);
    assert_int_equal(ack_at(0), QUEUE_OK);
    assert_in_range(take_all(), 0, 1);
    assert_in_range(counts().leased, 1, of_all_shards(3));
    set((struct topic_flow){.group.limit = of_all_shards(2)});
    push_many("a", 30);
    push_many("b", 30);
    count = take_all();
    assert_in_range(taken_of("a", count), 1, of_all_shards(2));
    assert_in_range(taken_of("b", count), 1, of_all_shards(2));
    if (driver()->shards == 1)
        assert_int_equal(taken_of("a", count) + taken_of("b", count), 4);
    set((struct topic_flow){.topic.limit = of_all_shards(9), .group.limit = of_all_shards(4)});
    take_all();
    assert_in_range(counts().leased, 1, of_all_shards(9));
    assert_in_range(group_of("a").leased, 1, of_all_shards(4));
}

static void take_by_id(const char *id)
{
    struct slice topic = slice_of(claim_topic);
    const struct queue_reply *reply =
        client_take(&w->client, &(struct queue_take){.topics = &topic,
                                                     .topic_count = 1,
                                                     .id = slice_of(id),
                                                     .max = 1,
                                                     .lease_ms = LEASE_MS});
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->job_count, 1);
    copy_text(taken[0].lease, reply->jobs[0].lease);
}

static void a_take_by_id_ignores_limits_and_counts(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    if (driver()->lacks & DRIVER_LACKS_CHOICE)
        skip();
    set((struct topic_flow){.group.limit = 2});
    push_in("a", "1");
    push_in("a", "2");
    push_in("a", "3");
    push_in("a", "4");
    take_by_id("2");
    expect_job("1");
    expect_nothing();
    take_by_id("4");
    assert_int_equal(group_of("a").leased, 3);
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_nothing();
}

/* Takes many jobs by their ids; then one job is delivered as if nothing had happened. */
static void takes_by_id_leave_the_rate(struct topic_flow flow)
{
    char id[16];
    set(flow);
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "%d", i);
        push_in("a", id);
    }
    for (int i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "%d", i);
        take_by_id(id);
    }
    expect_group("a");
    expect_nothing();
    pass_time(2000);
    expect_group("a");
}

static void takes_by_id_spend_nothing_of_a_rate(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    if (driver()->lacks & DRIVER_LACKS_CHOICE)
        skip();
    takes_by_id_leave_the_rate(
        (struct topic_flow){.topic = {.rate = {1, FREQUENCY_SECOND}, .burst = 1}});
}

static void takes_by_id_spend_nothing_of_a_rate_of_groups(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    if (driver()->lacks & DRIVER_LACKS_CHOICE)
        skip();
    takes_by_id_leave_the_rate(
        (struct topic_flow){.group = {.rate = {1, FREQUENCY_SECOND}, .burst = 1}});
}

enum end { END_ACK, END_NACK, END_FINAL, END_RETURN, END_EXPIRY, END_CANCEL, END_RESTART, ENDS };

/* Ends the lease of the job in taken[0]. */
static void end_lease(enum end end)
{
    const struct queue_change request = {.verb = QUEUE_CANCEL,
                                         .topic = slice_of(claim_topic),
                                         .id = slice_of(taken[0].id),
                                         .priority = QUEUE_PRIORITY_UNSET,
                                         .request = true};
    struct queue_answer answer = {.lease = slice_of(taken[0].lease), .delay_ms = HOUR_MS};
    switch (end) {
    case END_ACK:
        assert_int_equal(ack_at(0), QUEUE_OK);
        break;
    case END_FINAL:
        answer.final = true;
        answer.verb = QUEUE_NACK;
        assert_int_equal(answer_one(answer), QUEUE_OK);
        break;
    case END_NACK:
        answer.verb = QUEUE_NACK;
        assert_int_equal(answer_one(answer), QUEUE_OK);
        break;
    case END_RETURN:
        answer.verb = QUEUE_RETURN;
        assert_int_equal(answer_one(answer), QUEUE_OK);
        break;
    case END_EXPIRY:
        pass_time(LEASE_MS + 10);
        break;
    case END_CANCEL:
        assert_int_equal(client_change(&w->client, &request, 1)->results[0].status,
                         QUEUE_REQUESTED);
        expect_nothing();
        pass_time(LEASE_MS + 10);
        break;
    case END_RESTART:
        reopen();
        expect_nothing(); /* the lease continues after the restart */
        pass_time(LEASE_MS + 60 * 1000);
        break;
    case ENDS:
        break;
    }
}

static void every_end_of_a_lease_frees_the_slot(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    for (int by_group = 0; by_group < 2; by_group++)
        for (enum end end = 0; end < ENDS; end++) {
            set(by_group ? (struct topic_flow){.group.limit = 1}
                         : (struct topic_flow){.topic.limit = 1});
            push_in("a", "first");
            push_in("a", "second");
            expect_job("first");
            char lease[sizeof taken[0].lease];
            memcpy(lease, taken[0].lease, sizeof lease);
            expect_nothing();
            memcpy(taken[0].id, "first", sizeof "first");
            memcpy(taken[0].lease, lease, sizeof lease);
            end_lease(end);
            expect_group("a");
            expect_nothing();
            client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE,
                                                                .topic = slice_of(claim_topic)});
            push_in("a", "after-the-delete");
            expect_group("a");
            client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE,
                                                                .topic = slice_of(claim_topic)});
        }
}

static void an_extend_keeps_the_slot(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group.limit = 1});
    push_many("a", 2);
    expect_group("a");
    assert_int_equal(answer_one((struct queue_answer){.verb = QUEUE_EXTEND,
                                                      .lease = slice_of(taken[0].lease),
                                                      .lease_ms = LEASE_MS}),
                     QUEUE_OK);
    expect_nothing();
    assert_int_equal(group_of("a").leased, 1);
}

static void limits_survive_a_restart(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.topic.limit = 4,
                            .group = {.limit = 2, .rate = {1000, FREQUENCY_SECOND}, .burst = 50}});
    set_group("b", (struct group_settings){.weight = 7, .limits.limit = 1, .max_jobs = 9});
    push_many("a", 5);
    push_many("b", 5);
    assert_int_equal(take_all(), 3);
    reopen();
    const struct queue_reply *reply =
        client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_GET,
                                                            .topic = slice_of(claim_topic)});
    const struct topic_flow *flow = &reply->topics[0].settings.flow;
    assert_int_equal(flow->topic.limit, 4);
    assert_int_equal(flow->group.limit, 2);
    assert_int_equal(flow->group.rate.count, 1000);
    assert_int_equal(flow->group.burst, 50);
    struct queue_group group = group_of("b");
    assert_true(group.has_settings);
    assert_int_equal(group.settings.weight, 7);
    assert_int_equal(group.settings.limits.limit, 1);
    assert_int_equal(group.settings.max_jobs, 9);
    assert_int_equal(group.leased, 1);
    assert_int_equal(group.ready, 4);
    assert_int_equal(take_all(), 0);
    push_many("c", 5);
    assert_int_equal(take_all(), 1); /* the limit of the topic is 4 */
}

static void lowering_a_limit_revokes_nothing(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    for (int by_group = 0; by_group < 2; by_group++) {
        set(by_group ? (struct topic_flow){.group.limit = 5}
                     : (struct topic_flow){.topic.limit = 5});
        push_many("a", 10);
        assert_int_equal(take_up_to(10, LEASE_MS), 5);
        set(by_group ? (struct topic_flow){.group.limit = 2}
                     : (struct topic_flow){.topic.limit = 2});
        for (size_t i = 0; i < 4; i++) {
            char leases[5][sizeof taken[0].lease];
            for (size_t j = 0; j < 5; j++)
                memcpy(leases[j], taken[j].lease, sizeof leases[j]);
            assert_int_equal(take_up_to(10, LEASE_MS), 0);
            for (size_t j = 0; j < 5; j++)
                memcpy(taken[j].lease, leases[j], sizeof leases[j]);
            assert_int_equal(ack_at(i), QUEUE_OK);
        }
        assert_int_equal(ack_at(4), QUEUE_OK);
        assert_int_equal(take_up_to(10, LEASE_MS), 2);
        client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE,
                                                            .topic = slice_of(claim_topic)});
    }
}

/* ---- rates ---- */

enum { DELIVERIES_MAX = 400 };

/* Takes every 10 ms, and returns the times of the deliveries of a group. */
static size_t deliveries(int64_t for_ms, const char *group, int64_t at_ms[DELIVERIES_MAX])
{
    size_t count = 0;
    for (int64_t end_ms = clock_inner_ms() + for_ms; clock_inner_ms() < end_ms; pass_time(10)) {
        size_t got = take_up_to(100, LEASE_MS);
        for (size_t i = 0; i < got; i++)
            if (strcmp(taken[i].group, group) == 0) {
                assert_true(count < DELIVERIES_MAX);
                at_ms[count++] = clock_inner_ms();
            }
    }
    return count;
}

static void expect_bound(const int64_t at_ms[], size_t count, size_t bound)
{
    for (size_t i = 0; i + bound < count; i++)
        assert_true(at_ms[i + bound] - at_ms[i] >= 1000);
}

static void a_rate_holds_in_every_window(void **state)
{
    int64_t at_ms[DELIVERIES_MAX];
    (void)state;
    NEEDS_GROUPS();
    set((struct topic_flow){.topic = {.rate = per_second(10), .burst = 1}});
    push_many("", 200);
    size_t count = deliveries(3000, "", at_ms);
    assert_in_range(count, 20 * driver()->shards, 31 * driver()->shards);
    expect_bound(at_ms, count, of_all_shards(10));
    pass_time(5000); /* idle time does not save up more than the burst */
    count = deliveries(2000, "", at_ms);
    expect_bound(at_ms, count, of_all_shards(10));
    set((struct topic_flow){.group = {.rate = per_second(10), .burst = 5}});
    push_many("a", 200);
    push_many("b", 200);
    count = deliveries(3000, "a", at_ms);
    assert_in_range(count, 20 * driver()->shards, 36 * driver()->shards);
    expect_bound(at_ms, count, of_all_shards(10 + 4));
}

/* The next delivery comes a second after the last one, not half an hour. */
static void a_raised_rate_ends_the_wait_of_the_old_one(void **state)
{
    const struct flow_limits slow = {.rate = {of_all_shards(2), FREQUENCY_HOUR}, .burst = 1};
    const struct flow_limits fast = {.rate = per_second(1), .burst = 1};
    (void)state;
    NEEDS_GROUPS();
    for (int by = 0; by < 3; by++) { /* a topic, all groups, one group */
        set(by == 0 ? (struct topic_flow){.topic = slow}
                    : (struct topic_flow){.group = by == 1 ? slow : (struct flow_limits){0}});
        if (by == 2)
            set_group("g", (struct group_settings){.limits = slow});
        push_many("g", 100);
        pass_time(HOUR_MS); /* the token of the last round has come */
        (void)take_all();
        pass_time(5000);
        expect_nothing();
        if (by == 2)
            set_group("g", (struct group_settings){.limits = fast});
        else
            set(by == 0 ? (struct topic_flow){.topic = fast} : (struct topic_flow){.group = fast});
        pass_time(1001);
        assert_in_range(take_all(), 1, 2 * driver()->shards);
    }
    reset_group("g");
}

static void both_rates_and_limits_apply(void **state)
{
    int64_t at_ms[DELIVERIES_MAX];
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.topic = {.rate = {10, FREQUENCY_SECOND}, .burst = 1},
                            .group = {.rate = {3, FREQUENCY_SECOND}, .burst = 1}});
    push_many("a", 60);
    push_many("b", 60);
    size_t count = deliveries(3000, "a", at_ms);
    assert_in_range(count, 8, 10);
    expect_bound(at_ms, count, 3);
    set((struct topic_flow){.topic = {.limit = 7, .rate = {10, FREQUENCY_SECOND}, .burst = 1}});
    assert_int_equal(take_all(), 0); /* more than 7 are leased */
}

static void retries_count_toward_the_rate(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    for (int by_group = 0; by_group < 2; by_group++) {
        const struct flow_limits slow = {.rate = {1, FREQUENCY_SECOND}, .burst = 1};
        set(by_group ? (struct topic_flow){.group = slow} : (struct topic_flow){.topic = slow});
        const char *group = by_group ? "a" : "b";
        push_many(group, 1);
        expect_group(group);
        assert_int_equal(answer_one((struct queue_answer){.verb = QUEUE_NACK,
                                                          .lease = slice_of(taken[0].lease)}),
                         QUEUE_OK);
        pass_time(20);
        expect_nothing();
        pass_time(900);
        expect_nothing();
        pass_time(100);
        expect_group(group);
        assert_int_equal(answer_one((struct queue_answer){.verb = QUEUE_RETURN,
                                                          .lease = slice_of(taken[0].lease)}),
                         QUEUE_OK);
        expect_nothing(); /* a returned job gives no token back */
        pass_time(1010);
        expect_group(group);
        assert_int_equal(ack_at(0), QUEUE_OK);
        pass_time(1010);
    }
}

/* ---- holds and pauses ---- */

static void a_hold_ends_on_time(void **state)
{
    static const enum queue_verb verbs[] = {QUEUE_ACK, QUEUE_NACK, QUEUE_RETURN};
    (void)state;
    NEEDS_ONE_SHARD();
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        push_many("a", 3);
        expect_group("a");
        assert_int_equal(answer_one((struct queue_answer){
                             .verb = verbs[i], .lease = slice_of(taken[0].lease), .hold_ms = 5000}),
                         QUEUE_OK);
        push_many("b", 1);
        expect_group("b");
        assert_int_equal(ack_at(0), QUEUE_OK);
        expect_nothing();
        pass_time(4980);
        expect_nothing();
        pass_time(30);
        size_t count = take_all();
        assert_int_equal(count, verbs[i] == QUEUE_ACK ? 2 : 3);
        ack_all(count);
    }
    push_many("", 3);
    push_many("a", 1);
    expect_group(""); /* a job without a group holds the topic */
    assert_int_equal(answer_one((struct queue_answer){
                         .verb = QUEUE_ACK, .lease = slice_of(taken[0].lease), .hold_ms = 5000}),
                     QUEUE_OK);
    expect_nothing();
    pass_time(5010);
    assert_int_equal(take_all(), 3);
}

static void begin_hold(void)
{
    assert_int_equal(take_up_to(1, LEASE_MS), 1);
    assert_int_equal(answer_one((struct queue_answer){
                         .verb = QUEUE_NACK, .lease = slice_of(taken[0].lease), .hold_ms = 5000}),
                     QUEUE_OK);
}

static void a_hold_stops_the_jobs_of_all_shards(void **state)
{
    enum { JOBS = 20 }; /* in all shards */
    static const char *const names[] = {"a", ""};
    (void)state;
    NEEDS_GROUPS();
    for (size_t i = 0; i < 2; i++) {
        push_many(names[i], 1); /* the other shards do not know the topic yet */
        begin_hold();
        push_many(names[i], JOBS);
        assert_int_equal(take_all(), 0);
        push_many("b", JOBS);
        size_t count = take_all(); /* a job without a group holds the topic */
        assert_int_equal(count, i ? 0 : JOBS);
        ack_all(count);
        pass_time(5010);
        count = take_all();
        assert_int_equal(count, 1 + JOBS + (i ? JOBS : 0));
        ack_all(count);
        push_many(names[i], JOBS); /* now all know it */
        begin_hold();
        assert_int_equal(take_all(), 0);
        pass_time(5010);
        count = take_all();
        assert_int_equal(count, JOBS);
        ack_all(count);
    }
}

/* Jobs of a topic without groups are delivered as those of a topic with one group: by priority, due time and push order. */
static void a_topic_without_groups_is_unchanged(void **state)
{
    enum { ROUNDS = 6, JOBS = 24 };
    struct random random;
    (void)state;
    NEEDS_ONE_SHARD();
    random = seed_random("two topics with the same jobs");
    char plain[JOBS][sizeof taken[0].id];
    const char *const topic = claim_topic;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t priorities[JOBS], delays[JOBS], sizes[JOBS];
        for (size_t i = 0; i < JOBS; i++) {
            priorities[i] = random_below(&random, 3);
            delays[i] = random_below(&random, 4);
            sizes[i] = 1 + random_below(&random, 4);
        }
        for (int is_grouped = 0; is_grouped < 2; is_grouped++) {
            char name[16], id[40];
            snprintf(name, sizeof name, "%s%s", is_grouped ? "g" : "p", topic);
            claim_topic = name;
            if (is_in_one_shard)
                set((struct topic_flow){0});
            for (size_t i = 0; i < JOBS; i++) {
                snprintf(id, sizeof id, "%d-%zu", round, i);
                struct queue_push job = a_push_in(id, (int64_t)delays[i]);
                job.group = slice_of(is_grouped ? "one" : "");
                job.priority = (int32_t)priorities[i];
                assert_int_equal(push_one(job), QUEUE_CREATED);
            }
            pass_time(10);
            size_t at = 0;
            for (size_t take = 0; at < JOBS; take++) {
                size_t got = take_up_to((uint32_t)sizes[take % JOBS], LEASE_MS);
                assert_true(got);
                for (size_t i = 0; i < got; i++, at++)
                    if (!is_grouped)
                        memcpy(plain[at], taken[i].id, sizeof plain[at]);
                    else
                        assert_string_equal(taken[i].id, plain[at]);
                ack_all(got);
            }
            claim_topic = topic;
        }
    }
}

static void the_later_end_of_two_holds_counts(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    push_many("a", 4);
    assert_int_equal(take_up_to(2, LEASE_MS), 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(answer_one((struct queue_answer){.verb = QUEUE_ACK,
                                                          .lease = slice_of(taken[i].lease),
                                                          .hold_ms = i ? 1000 : 5000}),
                         QUEUE_OK);
    pass_time(4000);
    expect_nothing();
    pass_time(1010);
    expect_group("a");
    assert_int_equal(answer_one((struct queue_answer){
                         .verb = QUEUE_ACK, .lease = slice_of(taken[0].lease), .hold_ms = HOUR_MS}),
                     QUEUE_OK);
    expect_nothing();
    reset_group("a"); /* ends the hold */
    expect_group("a");
}

static void held_jobs_expire_by_their_ttl(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group.limit = 1});
    push_many("a", 1);
    expect_group("a");
    struct queue_push push = grouped("a", "short");
    push.policy.ttl_ms = 1000;
    assert_int_equal(push_one(push), QUEUE_CREATED);
    assert_int_equal(counts().held, 1);
    pass_time(1100);
    assert_int_equal(client_get(&w->client, slice_of(claim_topic), slice_of("short"))->status,
                     QUEUE_NOT_FOUND);
    assert_int_equal(counts().held, 0);
    assert_int_equal(counts().ready, 0);
}

static void a_paused_group_delivers_nothing(void **state)
{
    (void)state;
    NEEDS_GROUPS();
    push_many("a", 10);
    push_many("b", 10);
    set_group("a", (struct group_settings){.paused = true});
    assert_int_equal(taken_of("b", take_all()), 10);
    reopen();
    assert_int_equal(take_all(), 0);
    set_group("a", (struct group_settings){0});
    assert_int_equal(taken_of("a", take_all()), 10);
    push_many("a", 10);
    set_group("a",
              (struct group_settings){.paused = true, .paused_until_ms = clock_wall_ms() + 5000});
    assert_int_equal(take_all(), 0);
    pass_time(4900);
    assert_int_equal(take_all(), 0);
    pass_time(200);
    assert_int_equal(take_all(), 10);
}

static void settings_of_a_group_replace_those_of_the_topic(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group.limit = 1});
    set_group("a", (struct group_settings){.limits.limit = 3});
    push_many("a", 5);
    push_many("b", 5);
    size_t count = take_all();
    assert_int_equal(taken_of("a", count), 3);
    assert_int_equal(taken_of("b", count), 1);
    ack_all(count);
    reset_group("a");
    assert_false(group_of("a").has_settings);
    count = take_all();
    assert_int_equal(taken_of("a", count), 1);
    assert_int_equal(taken_of("b", count), 1);
    assert_int_equal(submit(&(struct command){.kind = COMMAND_GROUP,
                                              .group = {.verb = QUEUE_GROUP_GET,
                                                        .topic = slice_of("unknown"),
                                                        .group = slice_of("a")}})
                         ->status,
                     QUEUE_NOT_FOUND);
}

static void settings_of_a_group_end_with_its_topic(void **state)
{
    (void)state;
    NEEDS_GROUPS();
    set_group("a", (struct group_settings){.paused = true});
    client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE,
                                                        .topic = slice_of(claim_topic)});
    push_many("a", 3);
    assert_int_equal(take_all(), 3);
    reopen();
    assert_false(group_of("a").has_settings);
}

/* ---- what is shown ---- */

static void a_held_job_names_its_reason(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group.limit = 1});
    push_in("a", "1");
    push_in("a", "2");
    push_in("b", "3");
    assert_int_equal(shown("1").held_by, FLOW_NOT_HELD);
    assert_true(slice_is(shown("1").job.group, "a"));
    expect_job("1");
    assert_int_equal(shown("1").held_by, FLOW_NOT_HELD);
    assert_int_equal(shown("2").held_by, FLOW_HELD_GROUP_LIMIT);
    assert_int_equal(shown("2").held_until_ms, 0);
    assert_int_equal(shown("3").held_by, FLOW_NOT_HELD);
    assert_int_equal(counts().held, 1);
    assert_int_equal(counts().ready, 2);
    const struct queue_reply *reply = client_list(
        &w->client,
        &(struct queue_list){.topic = slice_of(claim_topic), .state = JOB_READY, .limit = 10});
    assert_int_equal(reply->job_count, 2);
    assert_int_equal(reply->jobs[0].held_by, FLOW_HELD_GROUP_LIMIT);
    assert_int_equal(reply->jobs[1].held_by, FLOW_NOT_HELD);
    set((struct topic_flow){.topic.limit = 1});
    assert_int_equal(shown("3").held_by, FLOW_HELD_LIMIT);
    assert_int_equal(counts().held, 2);
    reply = list_groups(QUEUE_GROUPS_HELD, 10, slice_of(""));
    assert_int_equal(reply->group_count, 2);
    assert_int_equal(reply->groups[0].held_by, FLOW_HELD_LIMIT);
    assert_int_equal(reply->groups[1].held_by, FLOW_HELD_LIMIT);
    set((struct topic_flow){.topic.limit = 1, .group.limit = 1});
    assert_int_equal(shown("2").held_by, FLOW_HELD_LIMIT); /* the topic's reason comes first */
    set((struct topic_flow){.group = {.rate = {1, FREQUENCY_SECOND}, .burst = 1}});
    expect_job("3");
    push_in("b", "4");
    assert_int_equal(shown("4").held_by, FLOW_HELD_GROUP_RATE);
    assert_in_range(shown("4").held_until_ms, clock_wall_ms() + 900, clock_wall_ms() + 1100);
    set((struct topic_flow){0});
    set_group("b", (struct group_settings){.paused = true});
    assert_int_equal(shown("4").held_by, FLOW_HELD_GROUP_PAUSED);
    expect_job("2");
    assert_int_equal(answer_one((struct queue_answer){
                         .verb = QUEUE_RETURN, .lease = slice_of(taken[0].lease), .hold_ms = 5000}),
                     QUEUE_OK);
    assert_int_equal(shown("2").held_by, FLOW_HELD_HOLD);
    assert_in_range(shown("2").held_until_ms, clock_wall_ms() + 4900, clock_wall_ms() + 5100);
    assert_int_equal(counts().held, 2);
    set((struct topic_flow){.topic = {.rate = {1, FREQUENCY_SECOND}, .burst = 1}});
    push_in("c", "5");
    push_in("c", "6");
    expect_job("5");
    assert_int_equal(shown("6").held_by, FLOW_HELD_RATE);
}

static void a_limit_is_the_reason_of_a_group_only_while_jobs_wait(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group = {.limit = 1, .rate = {1, FREQUENCY_HOUR}}});
    push_many("a", 1);
    expect_group("a");
    assert_int_equal(group_of("a").leased, 1);
    assert_int_equal(group_of("a").held_by, FLOW_NOT_HELD);
    assert_int_equal(group_of("a").held_until_ms, 0);
    push_many("a", 1);
    assert_int_equal(group_of("a").held_by, FLOW_HELD_GROUP_LIMIT);
    set_group("b", (struct group_settings){.paused = true});
    assert_int_equal(group_of("b").held_by, FLOW_HELD_GROUP_PAUSED); /* without jobs, too */
    const struct queue_group unknown = group_of("never-named");
    assert_true(slice_is(unknown.name, "never-named"));
    assert_int_equal(unknown.ready + unknown.leased + unknown.held_by + unknown.has_settings, 0);
}

static void groups_are_listed_with_their_counts(void **state)
{
    char cursor[256];
    (void)state;
    NEEDS_ONE_SHARD();
    push_many("c", 2);
    push_many("a", 7);
    push_many("b", 5);
    push_many("", 1);
    set_group("a", (struct group_settings){.limits.limit = 2});
    set_group("idle", (struct group_settings){.weight = 2});
    assert_int_equal(take_up_to(6, LEASE_MS), 6);
    static const struct {
        const char *name;
        uint64_t ready, leased;
    } rows[] = {{"", 0, 1}, {"a", 5, 2}, {"b", 4, 1}, {"c", 0, 2}, {"idle", 0, 0}};
    size_t taken_by_b_and_c = taken_of("b", 6) + taken_of("c", 6);
    assert_int_equal(taken_by_b_and_c, 3);
    const struct queue_reply *reply = list_groups(QUEUE_GROUPS_BY_NAME, 10, slice_of(""));
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->group_count, 5);
    assert_int_equal(reply->cursor.len, 0);
    for (size_t i = 0; i < 5; i++) {
        assert_true(slice_is(reply->groups[i].name, rows[i].name));
        if (rows[i].name[0] == 'b' || rows[i].name[0] == 'c')
            continue; /* who of them has two in flight is open */
        assert_int_equal(reply->groups[i].ready, rows[i].ready);
        assert_int_equal(reply->groups[i].leased, rows[i].leased);
    }
    assert_int_equal(reply->groups[1].held_by, FLOW_HELD_GROUP_LIMIT);
    assert_true(reply->groups[1].oldest_ready_due_ms > 0);
    assert_int_equal(reply->groups[1].settings.limits.limit, 2);
    assert_true(reply->groups[4].has_settings);
    reply = list_groups(QUEUE_GROUPS_HELD, 10, slice_of(""));
    assert_int_equal(reply->group_count, 1);
    assert_true(slice_is(reply->groups[0].name, "a"));
    reply = list_groups(QUEUE_GROUPS_BY_READY, 2, slice_of(""));
    assert_int_equal(reply->group_count, 2);
    assert_true(slice_is(reply->groups[0].name, "a"));
    assert_true(slice_is(reply->groups[1].name, "b"));
    size_t found = 2;
    uint64_t last = reply->groups[1].ready;
    while (reply->cursor.len) {
        assert_true(reply->cursor.len < sizeof cursor);
        copy_text(cursor, reply->cursor);
        reply = list_groups(QUEUE_GROUPS_BY_READY, 2, slice_of(cursor));
        assert_int_equal(reply->status, QUEUE_OK);
        for (size_t i = 0; i < reply->group_count; i++, found++) {
            assert_true(reply->groups[i].ready <= last);
            last = reply->groups[i].ready;
        }
    }
    assert_int_equal(found, 5);
    reply = list_groups(QUEUE_GROUPS_BY_NAME, 2, slice_of(""));
    copy_text(cursor, reply->cursor);
    reply = list_groups(QUEUE_GROUPS_BY_NAME, 2, slice_of(cursor));
    assert_true(slice_is(reply->groups[0].name, "b"));
    reply = list_groups(QUEUE_GROUPS_BY_LEASED, 1, slice_of(""));
    assert_true(reply->groups[0].leased == 2);
}

static void a_replacing_push_sets_its_own_group(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    push_in("a", "1");
    assert_int_equal(push_one(grouped("b", "1")), QUEUE_REPLACED);
    assert_true(slice_is(shown("1").job.group, "b"));
    assert_int_equal(group_of("a").ready, 0);
    assert_int_equal(group_of("b").ready, 1);
    const struct queue_change change = {.verb = QUEUE_RESCHEDULE,
                                        .topic = slice_of(claim_topic),
                                        .id = slice_of("1"),
                                        .when = {.due = QUEUE_DUE_DELAY, .ms = 1000},
                                        .priority = QUEUE_PRIORITY_UNSET};
    assert_int_equal(client_change(&w->client, &change, 1)->results[0].status, QUEUE_OK);
    assert_true(slice_is(shown("1").job.group, "b"));
    pass_time(1010);
    expect_group("b");
    assert_int_equal(
        answer_one((struct queue_answer){.verb = QUEUE_NACK, .lease = slice_of(taken[0].lease)}),
        QUEUE_OK);
    pass_time(10);
    reopen();
    expect_group("b");
    assert_int_equal(push_one(grouped("", "2")), QUEUE_CREATED);
    assert_int_equal(shown("2").job.group.len, 0);
    if (driver()->lacks & DRIVER_LACKS_AGAIN)
        return;
    const struct queue_again again = {.when = {.due = QUEUE_DUE_NOW},
                                      .priority = QUEUE_PRIORITY_UNSET};
    assert_int_equal(answer_one((struct queue_answer){
                         .verb = QUEUE_AGAIN, .lease = slice_of(taken[0].lease), .again = &again}),
                     QUEUE_CREATED);
    assert_true(slice_is(shown("1").job.group, "b"));
}

static void a_successor_has_its_own_group(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group.limit = 1});
    push_in("a", "1");
    expect_job("1");
    struct queue_push next = grouped("b", "1");
    next.on_conflict = CONFLICT_AFTER;
    if (push_one(next) != QUEUE_CREATED)
        return; /* this store has no successors */
    assert_true(slice_is(shown("1").job.group, "a"));
    reopen();
    assert_true(slice_is(shown("1").job.group, "a"));
    assert_int_equal(ack_at(0), QUEUE_OK);
    assert_true(slice_is(shown("1").job.group, "b"));
    push_many("a", 1);
    assert_int_equal(take_all(), 2);
    reopen();
    assert_int_equal(group_of("a").leased, 1);
    assert_int_equal(group_of("b").leased, 1);
}

/* ---- strict order ---- */

static const struct topic_flow strict = {.group_order = FLOW_STRICT};

static enum queue_status nack_at(size_t i, int64_t delay_ms)
{
    return answer_one((struct queue_answer){
        .verb = QUEUE_NACK, .lease = slice_of(taken[i].lease), .delay_ms = delay_ms});
}

static void a_strict_group_has_one_job_in_flight(void **state)
{
    (void)state;
    NEEDS_STRICT();
    set(strict);
    push_many("a", 3);
    push_many("b", 2);
    push_many("", 2);
    for (size_t rounds = 3; rounds; rounds--) {
        size_t count = take_all();
        assert_int_equal(count, rounds == 1 ? 1 : 3);
        assert_int_equal(taken_of("a", count), 1);
        assert_int_equal(counts().held, rounds == 3 ? 4 : rounds == 2 ? 1 : 0);
        expect_nothing();
        ack_all(count);
    }
    expect_nothing();
}

static void a_strict_group_waits_for_its_retry(void **state)
{
    (void)state;
    NEEDS_STRICT();
    set(strict);
    push_in("a", "1");
    push_in("a", "2");
    push_in("b", "3");
    expect_job("1");
    assert_int_equal(nack_at(0, 5000), QUEUE_OK);
    expect_job("3");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_nothing();
    assert_int_equal(shown("2").held_by, FLOW_HELD_GROUP_ORDER);
    assert_int_equal(counts().held, 1);
    assert_int_equal(group_of("a").held_by, FLOW_HELD_GROUP_ORDER);
    struct queue_push urgent = grouped("a", "urgent");
    urgent.priority = 0;
    assert_int_equal(push_one(urgent), QUEUE_CREATED);
    reopen();
    expect_nothing();
    pass_time(4900);
    expect_nothing();
    pass_time(200);
    assert_int_equal(shown("2").held_by, FLOW_NOT_HELD);
    expect_job("1"); /* its due is later, and its place is earlier */
    reopen();
    expect_nothing();
    pass_time(LEASE_MS + 100); /* the lease ends, and the retry waits for its backoff */
    pass_time(HOUR_MS);
    expect_job("1");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_job("urgent");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_job("2");
    assert_int_equal(ack_at(0), QUEUE_OK);
    assert_int_equal(counts().held, 0);
}

static void every_end_of_a_job_releases_its_strict_group(void **state)
{
    (void)state;
    NEEDS_STRICT();
    set(strict);
    push_in("a", "dies");
    push_in("a", "is-cancelled");
    push_in("a", "expires");
    push_in("a", "is-replaced");
    push_in("a", "last");
    expect_job("dies");
    assert_int_equal(answer_one((struct queue_answer){
                         .verb = QUEUE_NACK, .lease = slice_of(taken[0].lease), .final = true}),
                     QUEUE_OK);
    expect_job("is-cancelled");
    assert_int_equal(nack_at(0, HOUR_MS), QUEUE_OK);
    expect_nothing();
    const struct queue_change cancel = {.verb = QUEUE_CANCEL,
                                        .topic = slice_of(claim_topic),
                                        .id = slice_of("is-cancelled"),
                                        .priority = QUEUE_PRIORITY_UNSET};
    assert_int_equal(client_change(&w->client, &cancel, 1)->results[0].status, QUEUE_CANCELLED);
    struct queue_push push = grouped("a", "expires");
    push.policy.ttl_ms = 1000;
    assert_int_equal(push_one(push), QUEUE_REPLACED);
    expect_job("is-replaced");
    assert_int_equal(nack_at(0, HOUR_MS), QUEUE_OK);
    expect_nothing();
    assert_int_equal(push_one(grouped("a", "is-replaced")), QUEUE_REPLACED);
    expect_job("last"); /* the push that replaced made a new job, behind it */
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_job("expires");
    assert_int_equal(nack_at(0, 500), QUEUE_OK);
    expect_nothing();
    pass_time(1100);
    expect_job("is-replaced");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_nothing();
}

/* Has a retry of a group wait for an hour, behind which `second` waits. */
static void leave_a_retry(const char *first, const char *second)
{
    push_in("a", first);
    push_in("a", second);
    expect_job(first);
    assert_int_equal(nack_at(0, HOUR_MS), QUEUE_OK);
    expect_nothing();
}

static void a_retry_that_is_taken_by_id_or_purged_releases_its_strict_group(void **state)
{
    (void)state;
    NEEDS_STRICT();
    set(strict);
    if (!(driver()->lacks & DRIVER_LACKS_CHOICE)) {
        leave_a_retry("1", "2");
        take_by_id("1");
        expect_nothing();
        assert_int_equal(ack_at(0), QUEUE_OK);
        expect_job("2");
        assert_int_equal(ack_at(0), QUEUE_OK);
    }
    leave_a_retry("3", "4");
    const struct queue_topic_call purge = {
        .verb = QUEUE_TOPIC_PURGE, .topic = slice_of(claim_topic), .state = JOB_DELAYED};
    assert_int_equal(client_topic(&w->client, &purge)->status, QUEUE_OK);
    expect_job("4");
    assert_int_equal(ack_at(0), QUEUE_OK);
}

static void a_returned_job_keeps_its_place(void **state)
{
    (void)state;
    NEEDS_STRICT();
    set(strict);
    push_in("a", "1");
    push_in("a", "2");
    expect_job("1");
    pass_time(1000);
    assert_int_equal(
        answer_one((struct queue_answer){.verb = QUEUE_RETURN, .lease = slice_of(taken[0].lease)}),
        QUEUE_OK);
    expect_job("1");
    assert_int_equal(nack_at(0, 1), QUEUE_OK);
    pass_time(1000);
    expect_job("1");
    assert_int_equal(answer_one((struct queue_answer){.verb = QUEUE_RETURN,
                                                      .lease = slice_of(taken[0].lease),
                                                      .delay_ms = 5000}),
                     QUEUE_OK);
    expect_nothing(); /* it was tried before */
    pass_time(5100);
    expect_job("1");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_job("2");
    assert_int_equal(answer_one((struct queue_answer){.verb = QUEUE_RETURN,
                                                      .lease = slice_of(taken[0].lease),
                                                      .delay_ms = 5000}),
                     QUEUE_OK);
    push_in("a", "3");
    expect_job("3"); /* 2 was not tried, and has the place of its new due */
    assert_int_equal(ack_at(0), QUEUE_OK);
}

static void a_take_by_id_holds_its_strict_group(void **state)
{
    (void)state;
    NEEDS_STRICT();
    if (driver()->lacks & DRIVER_LACKS_CHOICE)
        skip();
    set(strict);
    push_in("a", "1");
    push_in("a", "2");
    push_in("a", "3");
    take_by_id("2");
    expect_nothing();
    assert_int_equal(nack_at(0, 1000), QUEUE_OK);
    expect_nothing();
    pass_time(1100);
    expect_job("2");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_job("1");
}

static void a_job_that_is_not_due_holds_nothing(void **state)
{
    (void)state;
    NEEDS_STRICT();
    set(strict);
    struct queue_push later = grouped("a", "later");
    later.when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = 5000};
    assert_int_equal(push_one(later), QUEUE_CREATED);
    push_in("a", "1");
    expect_job("1");
    pass_time(5100);
    push_in("a", "2");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_job("later");
    assert_int_equal(ack_at(0), QUEUE_OK);
    expect_job("2");
}

static void the_order_changes_only_without_waiting_jobs(void **state)
{
    (void)state;
    NEEDS_STRICT();
    set((struct topic_flow){0});
    push_in("a", "1");
    const struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_PUT, .topic = slice_of(claim_topic), .settings = {.flow = strict}};
    assert_int_equal(client_topic(&w->client, &call)->status, QUEUE_NOT_EMPTY);
    const struct queue_reply *reply =
        client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_GET,
                                                            .topic = slice_of(claim_topic)});
    assert_int_equal(reply->topics[0].settings.flow.group_order, FLOW_FREE);
    expect_job("1");
    assert_int_equal(client_topic(&w->client, &call)->status, QUEUE_NOT_EMPTY);
    assert_int_equal(ack_at(0), QUEUE_OK);
    assert_int_equal(client_topic(&w->client, &call)->status, QUEUE_OK);
    push_many("a", 2);
    assert_int_equal(take_all(), 1);
    set((struct topic_flow){.group_order = FLOW_STRICT, .group.limit = 5}); /* keeps the order */
    expect_nothing();
}

/* ---- the number of jobs of a group ---- */

static const char *const sized_groups[] = {"", "a", "b"};

static void a_full_group_rejects_new_jobs(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group_max_jobs = 2});
    for (size_t i = 0; i < 3; i++) {
        push_many(sized_groups[i], 1);
        struct queue_push later =
            grouped(sized_groups[i], sized_groups[i][0] ? sized_groups[i] : "none");
        later.when = a_push_in("later", HOUR_MS).when;
        assert_int_equal(push_one(later), QUEUE_CREATED);
        assert_int_equal(push_one(grouped(sized_groups[i], "further")), QUEUE_GROUP_FULL);
        assert_int_equal(push_one(later), QUEUE_REPLACED); /* it is not a new job */
    }
    assert_int_equal(push_one(grouped("b", "a")), QUEUE_REPLACED); /* also in a full group */
    assert_int_equal(push_one(grouped("b", "further")), QUEUE_GROUP_FULL);
    push_in("a", "in-its-place");
    assert_int_equal(push_one(grouped("a", "further")), QUEUE_GROUP_FULL);
    assert_int_equal(counts().ready + counts().delayed, 7);
}

static void pushes_of_one_call_count_for_each_other(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group_max_jobs = 2});
    const struct queue_push pushes[] = {grouped("a", "1"), grouped("b", "2"), grouped("a", "3"),
                                        grouped("a", "4"), grouped("a", "1"), grouped("b", "5")};
    const struct queue_reply *reply = client_push(&w->client, pushes, 6);
    size_t full = 0;
    for (size_t i = 0; i < 6; i++)
        full += reply->results[i].status == QUEUE_GROUP_FULL;
    assert_int_equal(full, 1);
    assert_int_equal(counts().ready, 4);
}

static void the_maximum_of_a_group_replaces_that_of_the_topic(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    push_in("a", "1");
    push_in("b", "2"); /* before there is any maximum */
    set_group("a", (struct group_settings){.max_jobs = 2});
    push_in("a", "3");
    assert_int_equal(push_one(grouped("a", "4")), QUEUE_GROUP_FULL);
    push_many("b", 3);
    set((struct topic_flow){.group_max_jobs = 1});
    assert_int_equal(push_one(grouped("b", "5")), QUEUE_GROUP_FULL);
    set_group("a", (struct group_settings){.max_jobs = 3});
    push_in("a", "4");
    assert_int_equal(push_one(grouped("a", "5")), QUEUE_GROUP_FULL);
    reopen();
    assert_int_equal(push_one(grouped("a", "5")), QUEUE_GROUP_FULL);
    reset_group("a");
    assert_int_equal(push_one(grouped("a", "5")), QUEUE_GROUP_FULL);
    set((struct topic_flow){0});
    push_in("a", "5");
}

static void every_end_of_a_job_makes_room_in_its_group(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group_max_jobs = 1});
    push_in("a", "1");
    expect_job("1");
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL);
    reopen();
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL); /* leased */
    pass_time(2 * LEASE_MS);
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL); /* its lease has ended */
    pass_time(HOUR_MS);
    expect_job("1");
    assert_int_equal(nack_at(0, HOUR_MS), QUEUE_OK);
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL); /* it waits for its retry */
    reopen();
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL);
    pass_time(HOUR_MS + 10);
    expect_job("1");
    assert_int_equal(ack_at(0), QUEUE_OK);
    push_in("a", "dies");
    expect_job("dies");
    assert_int_equal(answer_one((struct queue_answer){
                         .verb = QUEUE_NACK, .lease = slice_of(taken[0].lease), .final = true}),
                     QUEUE_OK);
    push_in("a", "is-cancelled");
    reopen();
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL);
    const struct queue_change cancel = {.verb = QUEUE_CANCEL,
                                        .topic = slice_of(claim_topic),
                                        .id = slice_of("is-cancelled"),
                                        .priority = QUEUE_PRIORITY_UNSET};
    assert_int_equal(client_change(&w->client, &cancel, 1)->results[0].status, QUEUE_CANCELLED);
    struct queue_push expiring = grouped("a", "expires");
    expiring.policy.ttl_ms = 1000;
    assert_int_equal(push_one(expiring), QUEUE_CREATED);
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL);
    pass_time(1100);
    expect_nothing();
    push_in("a", "is-purged");
    const struct queue_topic_call purge = {
        .verb = QUEUE_TOPIC_PURGE, .topic = slice_of(claim_topic), .state = JOB_READY};
    assert_int_equal(client_topic(&w->client, &purge)->status, QUEUE_OK);
    push_in("a", "last");
    const struct queue_topic_call redrive = {
        .verb = QUEUE_TOPIC_REDRIVE, .topic = slice_of(claim_topic), .id = slice_of("dies")};
    assert_int_equal(client_topic(&w->client, &redrive)->status, QUEUE_OK);
    expect_job("dies"); /* it is not a new job, so its redrive was not rejected */
    assert_int_equal(ack_at(0), QUEUE_OK);
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL);
    expect_job("last");
    assert_int_equal(ack_at(0), QUEUE_OK);
    push_in("a", "2");
}

static void a_successor_counts_in_its_own_group_from_its_start(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    set((struct topic_flow){.group_max_jobs = 1});
    push_in("a", "1");
    expect_job("1");
    struct queue_push next = grouped("b", "1");
    next.on_conflict = CONFLICT_AFTER;
    assert_int_equal(push_one(next), QUEUE_CREATED);
    assert_int_equal(push_one(grouped("a", "2")), QUEUE_GROUP_FULL);
    assert_int_equal(ack_at(0), QUEUE_OK);
    push_in("a", "2");
    assert_int_equal(push_one(grouped("b", "3")), QUEUE_GROUP_FULL);
}

/* The jobs of a random run: the group of each that waits or is leased. */
enum { SIZED_JOBS = 12, SIZED_STEPS = 300 };

struct sized {
    uint8_t group[SIZED_JOBS]; /* 0: it does not wait and is not leased; else 1 + number */
    bool is_leased[SIZED_JOBS], is_dead[SIZED_JOBS];
    uint8_t dead_group[SIZED_JOBS];
    uint64_t most, own[3];
};

static enum queue_status sized_expect(const struct sized *sized, size_t id, size_t group)
{
    uint64_t jobs = 0, most = sized->own[group] ? sized->own[group] : sized->most;
    for (size_t i = 0; i < SIZED_JOBS; i++)
        jobs += sized->group[i] == group + 1;
    if (sized->is_leased[id])
        return QUEUE_LEASED;
    if (sized->group[id] || sized->is_dead[id])
        return QUEUE_REPLACED;
    return most && jobs >= most ? QUEUE_GROUP_FULL : QUEUE_CREATED;
}

static void sized_push(struct sized *sized, size_t id, size_t group)
{
    char name[8];
    snprintf(name, sizeof name, "j%zu", id);
    enum queue_status expected = sized_expect(sized, id, group);
    assert_int_equal(push_one(grouped(sized_groups[group], name)), expected);
    if (expected == QUEUE_GROUP_FULL || expected == QUEUE_LEASED)
        return;
    sized->group[id] = (uint8_t)(group + 1);
    sized->is_dead[id] = false;
}

/* Takes a job and answers it, or leaves it leased: then the next restart ends its lease. */
static void sized_take(struct sized *sized, struct random *random)
{
    if (!take_up_to(1, LEASE_MS))
        return;
    size_t id = (size_t)atoi(taken[0].id + 1);
    assert_true(sized->group[id] && !sized->is_leased[id]);
    struct queue_answer answer = {.lease = slice_of(taken[0].lease)};
    switch (random_below(random, 5)) {
    case 0:
        answer.verb = QUEUE_ACK;
        sized->group[id] = 0;
        break;
    case 1:
        answer.verb = QUEUE_NACK;
        break;
    case 2:
        answer.verb = QUEUE_RETURN;
        break;
    case 3:
        answer.verb = QUEUE_NACK;
        answer.final = true;
        sized->is_dead[id] = true;
        sized->dead_group[id] = sized->group[id];
        sized->group[id] = 0;
        break;
    default:
        sized->is_leased[id] = true;
        return;
    }
    assert_int_equal(answer_one(answer), QUEUE_OK);
}

static void sized_cancel(struct sized *sized, size_t id)
{
    char name[8];
    snprintf(name, sizeof name, "j%zu", id);
    const struct queue_change cancel = {.verb = QUEUE_CANCEL,
                                        .topic = slice_of(claim_topic),
                                        .id = slice_of(name),
                                        .priority = QUEUE_PRIORITY_UNSET};
    enum queue_status status = client_change(&w->client, &cancel, 1)->results[0].status;
    if (sized->is_leased[id]) {
        assert_int_equal(status, QUEUE_LEASED);
        return;
    }
    bool exists = sized->group[id] || sized->is_dead[id];
    assert_int_equal(status, exists ? QUEUE_CANCELLED : QUEUE_NOT_FOUND);
    sized->group[id] = 0;
    sized->is_dead[id] = false;
}

static void sized_redrive(struct sized *sized)
{
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic = slice_of(claim_topic)};
    assert_int_equal(client_topic(&w->client, &redrive)->status, QUEUE_OK);
    for (size_t i = 0; i < SIZED_JOBS; i++) {
        if (sized->is_dead[i])
            sized->group[i] = sized->dead_group[i];
        sized->is_dead[i] = false;
    }
}

static void sized_step(struct sized *sized, struct random *random)
{
    size_t id = random_below(random, SIZED_JOBS), group = random_below(random, 3);
    switch (random_below(random, 20)) {
    case 0:
        reopen();
        break;
    case 1:
        pass_time(HOUR_MS); /* all leases end */
        memset(sized->is_leased, 0, sizeof sized->is_leased);
        break;
    case 2:
        sized->most = random_below(random, 4);
        set((struct topic_flow){.group_max_jobs = sized->most});
        break;
    case 3:
        if (!group)
            break; /* jobs without a group have no settings of their own */
        sized->own[group] = random_below(random, 4);
        if (sized->own[group])
            set_group(sized_groups[group], (struct group_settings){.max_jobs = sized->own[group]});
        else
            reset_group(sized_groups[group]);
        break;
    case 4:
        sized_redrive(sized);
        break;
    case 5:
    case 6:
        sized_cancel(sized, id);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
        sized_take(sized, random);
        break;
    default:
        sized_push(sized, id, group);
    }
}

static void job_counts_of_groups_match_a_model(void **state)
{
    (void)state;
    NEEDS_ONE_SHARD();
    struct random random = seed_random("max_jobs of groups");
    struct sized sized = {.most = 2};
    set((struct topic_flow){.group_max_jobs = 2});
    for (size_t step = 0; step < SIZED_STEPS; step++)
        sized_step(&sized, &random);
}

/* ---- one of several shards ---- */

#define NEEDS_SEVERAL_SHARDS()                                                                     \
    if (!driver()->one_shard)                                                                      \
        skip();                                                                                    \
    is_in_one_shard = false

static enum queue_status try_to_set(struct topic_flow flow)
{
    return client_topic(&w->client, &(struct queue_topic_call){.verb = QUEUE_TOPIC_PUT,
                                                               .topic = slice_of(claim_topic),
                                                               .settings = {.flow = flow}})
        ->status;
}

static const struct topic_flow one_shard = {.one_shard = true}, spread;

static void a_store_of_one_shard_keeps_the_setting(void **state)
{
    (void)state;
    if (!driver()->groups || driver()->shards != 1)
        skip();
    set(one_shard);
    push_in("a", "1");
    reopen();
    const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = slice_of(claim_topic)};
    assert_true(client_topic(&w->client, &get)->topics[0].settings.flow.one_shard);
    set(spread); /* also with a job */
    assert_false(client_topic(&w->client, &get)->topics[0].settings.flow.one_shard);
    expect_job("1");
}

static void a_topic_moves_to_one_shard_only_without_jobs(void **state)
{
    (void)state;
    NEEDS_SEVERAL_SHARDS();
    for (int i = 0; i < 12; i++) { /* whatever shard has the job */
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        bool is_one = i % 2;
        set(is_one ? one_shard : spread);
        push_in("a", id);
        assert_int_equal(try_to_set(is_one ? spread : one_shard), QUEUE_NOT_EMPTY);
        assert_int_equal(try_to_set(is_one ? spread : strict), QUEUE_NOT_EMPTY);
        assert_int_equal(shown(id).job.state, JOB_READY);
        expect_job(id);
        assert_int_equal(try_to_set(is_one ? spread : one_shard), QUEUE_NOT_EMPTY);
        assert_int_equal(answer_one((struct queue_answer){
                             .verb = QUEUE_NACK, .lease = slice_of(taken[0].lease), .final = true}),
                         QUEUE_OK);
        assert_int_equal(try_to_set(is_one ? spread : one_shard), QUEUE_NOT_EMPTY);
        assert_int_equal(push_one(grouped("b", id)), QUEUE_REPLACED); /* none has moved */
        expect_job(id);
        assert_int_equal(ack_at(0), QUEUE_OK);
    }
}

enum { MOVED_JOBS = 24, MOVE_ROUNDS = 120 };

static void moved_name(char into[24], size_t i)
{
    snprintf(into, 24, "j%zu", i);
}

/* Sends up to 16 pushes, changes of the shard and deletes to several threads without waiting. Returns how many changes succeeded. `deleted`: which
 * jobs exist is not known. */
static unsigned moves_race(struct random *random, bool exists[MOVED_JOBS], bool *deleted)
{
    struct client *client = &w->client;
    size_t ids[16], calls = 1 + random_below(random, 16);
    unsigned moves = 0;
    *deleted = false;
    client_begin(client);
    for (size_t i = 0; i < calls; i++) {
        struct queue *queue =
            driver()->queue_at(client->self, (uint32_t)random_below(random, driver()->shards));
        bool moves_topic = random_below(random, 4) == 0;
        ids[i] = moves_topic ? MOVED_JOBS : random_below(random, MOVED_JOBS);
        struct queue_reply_to to = client_add(client);
        if (moves_topic) {
            struct topic_flow flow = {.one_shard = random_below(random, 2)};
            bool deletes = random_below(random, 8) == 0;
            *deleted |= deletes;
            queue_topic(
                queue,
                &(struct queue_topic_call){.verb = deletes ? QUEUE_TOPIC_DELETE : QUEUE_TOPIC_PUT,
                                           .topic = slice_of(claim_topic),
                                           .settings = {.flow = flow}},
                to);
        } else {
            char name[24];
            moved_name(name, ids[i]);
            struct queue_push push = a_push(name);
            queue_push(queue, &push, 1, to);
        }
        client_sent(client);
        if (random_below(random, 3) == 0)
            client_idle(client);
    }
    client_wait(client);
    for (size_t i = 0; i < calls; i++) {
        const struct queue_reply *reply = &client->calls[i].outcome.reply;
        if (ids[i] == MOVED_JOBS) {
            moves += reply->status == QUEUE_OK || reply->status == QUEUE_CREATED;
            continue;
        }
        enum queue_status status = reply->result_count ? reply->results[0].status : reply->status;
        if (status == QUEUE_CREATED || status == QUEUE_REPLACED)
            exists[ids[i]] = true;
        else
            assert_int_equal(status, QUEUE_ELSEWHERE);
    }
    return moves;
}

/* Each job is found by its id exactly if its push succeeded. Cancels all if `ends`. */
static void moves_verify(struct random *random, bool exists[MOVED_JOBS], bool deleted, bool ends)
{
    size_t count = 0;
    for (int i = 0; i < 5; i++) { /* no shard rejects a job any more */
        char name[24];
        size_t id = random_below(random, MOVED_JOBS);
        moved_name(name, id);
        enum queue_status status = push_one(a_push(name));
        assert_true(status == QUEUE_CREATED || status == QUEUE_REPLACED);
        exists[id] = true;
    }
    for (size_t i = 0; i < MOVED_JOBS; i++) {
        char name[24];
        moved_name(name, i);
        const struct queue_reply *reply =
            client_get(&w->client, slice_of(claim_topic), slice_of(name));
        if (deleted && reply->status == QUEUE_NOT_FOUND)
            exists[i] = false;
        assert_int_equal(reply->status, exists[i] ? QUEUE_OK : QUEUE_NOT_FOUND);
        count += exists[i];
        const struct queue_change cancel = {.verb = QUEUE_CANCEL,
                                            .topic = slice_of(claim_topic),
                                            .id = slice_of(name),
                                            .priority = QUEUE_PRIORITY_UNSET};
        if (!ends)
            continue;
        assert_int_equal(client_change(&w->client, &cancel, 1)->results[0].status,
                         exists[i] ? QUEUE_CANCELLED : QUEUE_NOT_FOUND);
        exists[i] = false;
    }
    assert_int_equal(counts().ready, ends ? 0 : count);
}

static void pushes_that_race_with_moves_lose_no_job(void **state)
{
    (void)state;
    NEEDS_SEVERAL_SHARDS();
    struct random random = seed_random("moves of a topic");
    bool exists[MOVED_JOBS] = {false};
    unsigned moves = 0;
    set(spread);
    for (int round = 0; round < MOVE_ROUNDS; round++) {
        bool deleted;
        moves += moves_race(&random, exists, &deleted);
        if (random_below(&random, 8) == 0)
            reopen();
        moves_verify(&random, exists, deleted, random_below(&random, 3) != 0);
    }
    assert_true(moves > 20);
}

const struct CMUnitTest directed_flow[] = {
    CLAIM(fewest_in_flight_comes_first),
    CLAIM(priority_comes_before_fairness),
    CLAIM(turns_are_even_within_one_job),
    CLAIM(a_waking_group_does_not_catch_up),
    CLAIM(weights_share_within_one_percent),
    CLAIM(a_limit_is_never_exceeded),
    CLAIM(a_take_by_id_ignores_limits_and_counts),
    CLAIM(takes_by_id_spend_nothing_of_a_rate),
    CLAIM(takes_by_id_spend_nothing_of_a_rate_of_groups),
    CLAIM(every_end_of_a_lease_frees_the_slot),
    CLAIM(an_extend_keeps_the_slot),
    CLAIM(limits_survive_a_restart),
    CLAIM(lowering_a_limit_revokes_nothing),
    CLAIM(a_rate_holds_in_every_window),
    CLAIM(a_raised_rate_ends_the_wait_of_the_old_one),
    CLAIM(both_rates_and_limits_apply),
    CLAIM(retries_count_toward_the_rate),
    CLAIM(a_hold_ends_on_time),
    CLAIM(a_hold_stops_the_jobs_of_all_shards),
    CLAIM(a_topic_without_groups_is_unchanged),
    CLAIM(the_later_end_of_two_holds_counts),
    CLAIM(held_jobs_expire_by_their_ttl),
    CLAIM(a_paused_group_delivers_nothing),
    CLAIM(settings_of_a_group_replace_those_of_the_topic),
    CLAIM(settings_of_a_group_end_with_its_topic),
    CLAIM(a_held_job_names_its_reason),
    CLAIM(a_limit_is_the_reason_of_a_group_only_while_jobs_wait),
    CLAIM(groups_are_listed_with_their_counts),
    CLAIM(a_replacing_push_sets_its_own_group),
    CLAIM(a_successor_has_its_own_group),
    CLAIM(a_strict_group_has_one_job_in_flight),
    CLAIM(a_strict_group_waits_for_its_retry),
    CLAIM(every_end_of_a_job_releases_its_strict_group),
    CLAIM(a_retry_that_is_taken_by_id_or_purged_releases_its_strict_group),
    CLAIM(a_returned_job_keeps_its_place),
    CLAIM(a_take_by_id_holds_its_strict_group),
    CLAIM(a_job_that_is_not_due_holds_nothing),
    CLAIM(the_order_changes_only_without_waiting_jobs),
    CLAIM(a_full_group_rejects_new_jobs),
    CLAIM(pushes_of_one_call_count_for_each_other),
    CLAIM(the_maximum_of_a_group_replaces_that_of_the_topic),
    CLAIM(every_end_of_a_job_makes_room_in_its_group),
    CLAIM(a_successor_counts_in_its_own_group_from_its_start),
    CLAIM(job_counts_of_groups_match_a_model),
    CLAIM(a_store_of_one_shard_keeps_the_setting),
    CLAIM(a_topic_moves_to_one_shard_only_without_jobs),
    CLAIM(pushes_that_race_with_moves_lose_no_job),
};
const size_t directed_flow_count = sizeof directed_flow / sizeof directed_flow[0];
