/* The flags of `tarry bench`: what plan they make. */
#include "cli/bench.h"
#include "unit/cases.h"
#include "unit/claim.h"

static int plan_with(const char *delay, const char *due_in, struct load_plan *plan)
{
    static struct load_flags flags;
    load_flags_table(&flags);
    flags.delay = delay;
    flags.due_in = due_in;
    *plan = (struct load_plan){0};
    return load_flags_plan(&flags, plan);
}

CLAIM(jobs_are_due_by_delays_or_at_one_moment)
{
    struct load_plan plan;
    assert_int_equal(plan_with(NULL, NULL, &plan), -1);
    assert_true(plan.delay_min_ms == 1000 && plan.delay_max_ms == 2000 && !plan.due_in_ms);
    assert_int_equal(plan_with("0..10s", NULL, &plan), -1);
    assert_true(plan.delay_min_ms == 0 && plan.delay_max_ms == 10000 && !plan.due_in_ms);
    /* Nothing has come for so long is counted from the longest delay. */
    assert_int_equal(plan_with(NULL, "30s", &plan), -1);
    assert_true(plan.due_in_ms == 30000 && plan.delay_max_ms == 30000 && !plan.delay_min_ms);
    assert_int_equal(plan_with("10s", "30s", &plan), CLI_USAGE);
    assert_int_equal(plan_with(NULL, "0", &plan), CLI_USAGE);
    assert_int_equal(plan_with(NULL, "soon", &plan), CLI_USAGE);
}

CLAIMS_MAIN(NULL, NULL)
