#include "regressions.h"

#define RUN(NAME) cmocka_unit_test(NAME)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(test_jobs_released_for_ever_do_not_grow_the_disk),
        RUN(test_a_few_jobs_years_away_do_not_keep_the_short_ones),
        RUN(test_an_interrupted_purge_reports_its_progress),
        RUN(test_an_interrupted_delete_of_a_topic_reports_its_progress),
        RUN(test_an_interrupted_redrive_reports_its_progress),
        RUN(test_a_delay_above_2_to_the_32_is_not_cut),
        RUN(test_a_restart_adds_nothing_to_a_delay),
        RUN(test_a_stalled_consumer_loses_nothing),
        RUN(test_a_hundred_thousand_timers_are_not_late),
        RUN(test_many_jobs_due_in_one_second_all_come),
        RUN(test_jobs_that_wait_for_a_retry_keep_no_ready_job_on_the_disk),
        RUN(test_a_redrive_takes_far_jobs_though_others_die_meanwhile),
        RUN(test_a_flipped_bit_is_reported_and_harms_at_most_one_job),
    };

    return cmocka_run_group_tests_name("regressions", tests, NULL, NULL);
}
