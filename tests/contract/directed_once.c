/* Claims about pushes that happen only once. */
#include "directed.h"

enum { LEASE_MS = 60 * 1000, HOUR_MS = 3600 * 1000 };

static bool lacks_once(void)
{
    return w->client.driver->lacks & DRIVER_LACKS_ONCE;
}

static struct queue_push a_push_once(const char *id, const char *once, int64_t for_ms)
{
    struct queue_push job = a_push(id);
    job.once = slice_of(once);
    job.once_for_ms = for_ms;
    return job;
}

static void once_prevents_a_second_push_after_the_ack(void **state)
{
    (void)state;
    if (lacks_once())
        skip();
    assert_int_equal(push(a_push_once("a", "1", 0)), QUEUE_CREATED);
    assert_int_equal(push(a_push_once("a", "1", 0)), QUEUE_EXISTED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(push(a_push_once("a", "1", 0)), QUEUE_EXISTED);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(figures().totals.pushed, 1);
    assert_int_equal(push(a_push_once("a", "2", 0)), QUEUE_CREATED);
    assert_int_equal(push(a_push("a")), QUEUE_REPLACED);
}

static void once_survives_a_restart(void **state)
{
    (void)state;
    if (lacks_once())
        skip();
    assert_int_equal(push(a_push_once("a", "1", HOUR_MS)), QUEUE_CREATED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    restart();
    assert_int_equal(push(a_push_once("a", "1", HOUR_MS)), QUEUE_EXISTED);
}

static void once_ends_after_its_time(void **state)
{
    (void)state;
    if (lacks_once())
        skip();
    assert_int_equal(push(a_push_once("a", "1", 1000)), QUEUE_CREATED);
    pass(500);
    assert_int_equal(push(a_push_once("a", "1", HOUR_MS)), QUEUE_EXISTED);
    pass(600); /* the second push did not prolong it */
    assert_int_equal(push(a_push_once("a", "1", 0)), QUEUE_REPLACED);
    pass(QUEUE_ONCE_MS - 2);
    assert_int_equal(push(a_push_once("a", "1", 0)), QUEUE_EXISTED);
    pass(4);
    assert_int_equal(push(a_push_once("a", "1", 0)), QUEUE_REPLACED);
}

static void once_is_found_by_pushes_without_an_id(void **state)
{
    (void)state;
    if (lacks_once())
        skip();
    for (int i = 0; i < 8; i++)
        assert_int_equal(push(a_push_once("", "made", HOUR_MS)), i ? QUEUE_EXISTED : QUEUE_CREATED);
    assert_int_equal(figures().counts.ready, 1);
    assert_int_equal(push(a_push_once("", "other", HOUR_MS)), QUEUE_CREATED);
}

static void once_comes_before_the_choice_on_conflict(void **state)
{
    struct queue_push job = a_push_once("a", "1", HOUR_MS);
    (void)state;
    if (lacks_once())
        skip();
    assert_int_equal(push(job), QUEUE_CREATED);
    job.on_conflict = CONFLICT_REJECT;
    assert_int_equal(push(job), QUEUE_EXISTED);
    job.once = slice_of("2");
    assert_int_equal(push(job), QUEUE_CONFLICT);
}

/* So the caller may repeat the push later. */
static void refused_push_is_not_remembered(void **state)
{
    struct queue_push job = a_push_once("a", "1", HOUR_MS);
    (void)state;
    if (lacks_once())
        skip();
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    assert_int_equal(push(job), QUEUE_LEASED);
    job.on_conflict = CONFLICT_KEEP;
    assert_int_equal(push(job), QUEUE_EXISTED);
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_int_equal(push(job), QUEUE_CREATED);
}

static void once_belongs_to_its_topic(void **state)
{
    struct queue_push job = a_push_once("a", "1", HOUR_MS);
    (void)state;
    if (lacks_once())
        skip();
    assert_int_equal(push(job), QUEUE_CREATED);
    job.topic = slice_of("u");
    assert_int_equal(push(job), QUEUE_CREATED);
}

static void once_is_not_an_id(void **state)
{
    (void)state;
    if (lacks_once())
        skip();
    put((struct topic_settings){.dedup_window_ms = HOUR_MS});
    assert_int_equal(push(a_push_once("a", "b", HOUR_MS)), QUEUE_CREATED);
    assert_int_equal(push(a_push_in("b", HOUR_MS)), QUEUE_CREATED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(push(a_push_once("c", "a", HOUR_MS)), QUEUE_CREATED);
}

static void items_of_one_call_count_one_after_the_other(void **state)
{
    (void)state;
    if (lacks_once())
        skip();
    const struct queue_push jobs[3] = {a_push_once("a", "1", HOUR_MS),
                                       a_push_once("a", "1", HOUR_MS),
                                       a_push_once("a", "2", HOUR_MS)};
    const struct queue_reply *reply = world_push(w, jobs, 3);
    assert_string_equal(w->fault, "");
    assert_int_equal(reply->results[0].status, QUEUE_CREATED);
    assert_int_equal(reply->results[1].status, QUEUE_EXISTED);
    assert_int_equal(reply->results[2].status, QUEUE_REPLACED);
}

static void bad_once_is_rejected_by_name(void **state)
{
    char longest[JOB_ONCE_BYTES_MAX + 2] = "";
    (void)state;
    memset(longest, 'x', JOB_ONCE_BYTES_MAX + 1);
    assert_int_equal(push(a_push_once("a", longest, 0)), QUEUE_BAD_OPTION);
    assert_int_equal(push(a_push_once("a", "with blank", 0)), QUEUE_BAD_OPTION);
    assert_int_equal(push(a_push_once("a", "", 1000)), QUEUE_BAD_OPTION);
    assert_int_equal(push(a_push_once("a", "1", POLICY_DELAY_MS_MAX + 1)), QUEUE_BAD_OPTION);
    assert_int_equal(push(a_push_once("a", "1", -1)), QUEUE_BAD_OPTION);
    if (lacks_once())
        return;
    longest[JOB_ONCE_BYTES_MAX] = 0;
    assert_int_equal(push(a_push_once("a", longest, POLICY_DELAY_MS_MAX)), QUEUE_CREATED);
    assert_int_equal(push(a_push_once("a", longest, 0)), QUEUE_EXISTED);
}

static enum queue_status push_to_b(const char *id, const char *once)
{
    struct queue_push job = a_push_once(id, once, 0);
    job.topic = slice_of("b");
    return push(job);
}

/* A store that compares hashes of ids and of deduplication texts must not take one for the other. Similar short texts
 * may have the same hash. */
static void once_may_resemble_the_id(void **state)
{
    char id[] = "1", once[] = "0";
    (void)state;
    if (lacks_once())
        skip();
    for (; id[0] <= '9'; id[0]++, once[0]++)
        assert_int_equal(push_to_b(id, once), QUEUE_CREATED);
    for (id[0] = '1', once[0] = '0'; id[0] <= '9'; id[0]++, once[0]++)
        assert_int_equal(push_to_b(id, once), QUEUE_EXISTED);
}

const struct CMUnitTest directed_once[] = {
    CLAIM(once_prevents_a_second_push_after_the_ack),
    CLAIM(once_survives_a_restart),
    CLAIM(once_ends_after_its_time),
    CLAIM(once_is_found_by_pushes_without_an_id),
    CLAIM(once_comes_before_the_choice_on_conflict),
    CLAIM(refused_push_is_not_remembered),
    CLAIM(once_belongs_to_its_topic),
    CLAIM(once_is_not_an_id),
    CLAIM(once_may_resemble_the_id),
    CLAIM(items_of_one_call_count_one_after_the_other),
    CLAIM(bad_once_is_rejected_by_name),
};
const size_t directed_once_count = sizeof directed_once / sizeof directed_once[0];
