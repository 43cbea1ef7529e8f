/* When a server checks for waiting jobs without a bound, which may walk over many deleted jobs. */
#include "sql/housekeeping.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

enum { TOOK_MS = 10000, SHARE = 20 };

/* Returns in how many ms the next check without a bound may be made after one that took TOOK_MS. */
static int64_t wait_after(bool is_good, bool from_the_start)
{
    struct sql_context context = {0};
    struct sql_hints hints = {.context = &context};
    struct sql_housekeeping keeping = {.hints = &hints};
    struct sql_call look = {.kind = SQL_CALL_LOOK,
                            .from_the_start = from_the_start,
                            .since_ms = clock_boot_ms() - TOOK_MS};
    struct list calls;
    list_init(&calls);
    sql_topic_plan_init(&context.plan);
    list_add_last(&calls, &look.list);
    if (is_good)
        sql_housekeeping_committed(&keeping, &calls, look.since_ms);
    else
        sql_housekeeping_failed(&keeping, &look);
    sql_topic_plan_fini(&context.plan);
    return keeping.look_all_ms ? keeping.look_all_ms - clock_boot_ms() : 0;
}

CLAIM(checks_without_a_bound_take_a_small_share_of_the_time)
{
    assert_true(wait_after(true, true) > (int64_t)(SHARE - 1) * TOOK_MS);
    assert_true(wait_after(false, true) > (int64_t)(SHARE - 1) * TOOK_MS);
    assert_int_equal(wait_after(true, false), 0);
    assert_int_equal(wait_after(false, false), 0);
}

CLAIMS_MAIN(NULL, NULL)
