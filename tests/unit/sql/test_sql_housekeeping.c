/* When a server checks for waiting jobs without a bound, which may walk over many deleted jobs. */
#include "sql/housekeeping.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

enum { TOOK_MS = 2000, SHARE = 20, MINUTE_MS = 60000 };

/* Returns in how many ms the next check without a bound may be made after one that took `took_ms`. */
static int64_t wait_after(bool is_good, bool from_the_start, int64_t took_ms)
{
    int64_t now_ms = clock_boot_ms();
    struct sql_context context = {0};
    struct sql_hints hints = {.context = &context};
    struct sql_housekeeping keeping = {.hints = &hints};
    struct sql_call look = {
        .kind = SQL_CALL_LOOK, .from_the_start = from_the_start, .since_ms = now_ms - took_ms};
    struct list calls;
    list_init(&calls);
    sql_topic_plan_init(&context.plan);
    list_add_last(&calls, &look.list);
    if (is_good)
        sql_housekeeping_committed(&keeping, &calls, look.since_ms);
    else
        sql_housekeeping_failed(&keeping, &look);
    sql_topic_plan_fini(&context.plan);
    return keeping.look_all_ms ? keeping.look_all_ms - now_ms : 0;
}

CLAIM(checks_without_a_bound_take_a_small_share_of_the_time)
{
    assert_true(wait_after(true, true, TOOK_MS) >= SHARE * TOOK_MS);
    assert_true(wait_after(false, true, TOOK_MS) >= SHARE * TOOK_MS);
    assert_int_equal(wait_after(true, false, TOOK_MS), 0);
    assert_int_equal(wait_after(false, false, TOOK_MS), 0);
}

CLAIM(a_slow_transaction_delays_checks_without_a_bound_for_a_minute)
{
    assert_true(wait_after(true, true, 10 * MINUTE_MS) < 2 * MINUTE_MS);
    assert_true(wait_after(false, true, 10 * MINUTE_MS) < 2 * MINUTE_MS);
}

/* ---- a server with a watched topic ---- */

static struct watching {
    struct sql_context context;
    struct sql_hints hints;
    struct sql_call_queue calls;
    struct sql_housekeeping keeping;
} watching;

static void watching_start(void)
{
    memset(&watching, 0, sizeof watching);
    watching.hints.context = &watching.context;
    sql_topic_plan_init(&watching.context.plan);
    sql_call_queue_init(&watching.calls, MINUTE_MS);
    sql_housekeeping_init(&watching.keeping, NULL, &watching.hints, &watching.calls);
    struct sql_topic *topic = sql_topics_need(&watching.context.topics, slice_of("t"));
    assert_true(sql_topic_plan_watch(&watching.context.plan, topic, true));
}

static void watching_stop(void)
{
    assert_true(list_is_empty(&watching.calls.waiting));
    sql_topics_free(&watching.context.topics);
    sql_topic_plan_fini(&watching.context.plan);
}

static void commit(struct sql_call *call)
{
    struct list calls;
    list_init(&calls);
    list_add_last(&calls, &call->list);
    sql_housekeeping_committed(&watching.keeping, &calls, clock_boot_ms());
    list_remove(&call->list);
}

/* Commits an upkeep that read this mark. */
static void keep_up(int64_t mark)
{
    struct sql_call upkeep = {.kind = SQL_CALL_UPKEEP, .mark = mark, .next_expire_ms = INT64_MAX};
    commit(&upkeep);
}

enum look { LOOK_NONE = 1, LOOK_FROM_THE_BOUND, LOOK_FROM_THE_START };

/* Removes the check that waits, commits or fails it, and returns which one it is. */
static enum look take_look(bool is_good)
{
    if (list_is_empty(&watching.calls.waiting))
        return LOOK_NONE;
    struct sql_call *call = sql_call_first(&watching.calls.waiting);
    enum look look = call->from_the_start ? LOOK_FROM_THE_START : LOOK_FROM_THE_BOUND;
    assert_int_equal(call->kind, SQL_CALL_LOOK);
    list_remove(&call->list);
    sql_topics_find(&watching.context.topics, slice_of("t"))->look = false;
    if (is_good)
        commit(call);
    else
        sql_housekeeping_failed(&watching.keeping, call);
    sql_call_free(call);
    return look;
}

CLAIM(a_check_without_a_bound_that_was_put_off_is_made_later)
{
    watching_start();
    watching.keeping.look_all_ms = INT64_MAX;
    keep_up(1);
    assert_int_equal(take_look(true), LOOK_FROM_THE_BOUND);
    keep_up(1);
    assert_int_equal(take_look(true), LOOK_NONE);
    watching.keeping.look_all_ms = 0;
    keep_up(1);
    assert_int_equal(take_look(false), LOOK_FROM_THE_START);
    watching.keeping.look_all_ms = 0;
    keep_up(1); /* again, since it failed */
    assert_int_equal(take_look(true), LOOK_FROM_THE_START);
    watching.keeping.look_all_ms = 0;
    keep_up(1);
    assert_int_equal(take_look(true), LOOK_NONE);
    watching_stop();
}

CLAIM(a_new_connection_may_check_without_a_bound_at_once)
{
    watching_start();
    watching.keeping.look_all_ms = INT64_MAX;
    sql_housekeeping_connected(&watching.keeping);
    keep_up(1);
    assert_int_equal(take_look(true), LOOK_FROM_THE_START);
    watching_stop();
}

CLAIMS_MAIN(NULL, NULL)
