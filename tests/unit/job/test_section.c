/* Where in a run a record belongs: by state, attempt and clock, and by nothing else. */
#include "job/section.h"
#include "unit/claim.h"

enum { DUE_MS = 5000, SKEW_MS = 700, LEASE_END_MS = 9000 };

struct row {
    enum job_state state;
    uint32_t attempt;
    bool is_wall;
    enum job_section section;
    int64_t when_ms;
};

static const struct row rows[] = {
    {JOB_DELAYED, 0, false, SECTION_DELAYED, DUE_MS},
    {JOB_DELAYED, 0, true, SECTION_DELAYED_WALL, DUE_MS},
    {JOB_DELAYED, 1, false, SECTION_RETRYING, DUE_MS},
    {JOB_DELAYED, 1, true, SECTION_RETRYING_WALL, DUE_MS},
    {JOB_DELAYED, UINT32_MAX, false, SECTION_RETRYING, DUE_MS},
    {JOB_READY, 0, false, SECTION_DELAYED, DUE_MS},
    {JOB_READY, 0, true, SECTION_DELAYED_WALL, DUE_MS},
    {JOB_READY, 3, false, SECTION_RETRYING, DUE_MS},
    {JOB_READY, 3, true, SECTION_RETRYING_WALL, DUE_MS},
    {JOB_LEASED, 1, false, SECTION_LEASED, 0},
    {JOB_LEASED, 7, true, SECTION_LEASED, 0},
    {JOB_DEAD, 0, false, SECTION_DEAD, DUE_MS + SKEW_MS},
    {JOB_DEAD, 4, false, SECTION_DEAD, DUE_MS + SKEW_MS},
    {JOB_DEAD, 4, true, SECTION_DEAD, DUE_MS},
};

static struct record job_of(const struct row *row, int64_t due_ms)
{
    return (struct record){.kind = RECORD_JOB,
                           .job = {.state = row->state,
                                   .attempt = row->attempt,
                                   .due_is_wall = row->is_wall,
                                   .due_ms = due_ms,
                                   .lease_until_ms = LEASE_END_MS}};
}

CLAIM(a_job_belongs_to_the_part_of_its_state_attempt_and_clock)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct record record = job_of(&rows[i], DUE_MS);
        int64_t when_ms = -1;
        assert_int_equal(job_section_of(rows[i].state, rows[i].attempt, rows[i].is_wall),
                         rows[i].section);
        assert_int_equal(job_section_of_record(&record, SKEW_MS, &when_ms), rows[i].section);
        assert_int_equal(when_ms, rows[i].when_ms);
    }
}

/* The directory of a run holds no times before the beginning. */
CLAIM(no_job_comes_up_before_time_zero)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct record record = job_of(&rows[i], 3);
        int64_t when_ms = -1;
        job_section_of_record(&record, -SKEW_MS, &when_ms);
        assert_true(when_ms >= 0 && when_ms <= 3);
    }
    struct record past = job_of(&rows[1], -20);
    int64_t when_ms = -1;
    assert_int_equal(job_section_of_record(&past, SKEW_MS, &when_ms), SECTION_DELAYED_WALL);
    assert_int_equal(when_ms, 0);
}

CLAIM(a_remembered_id_comes_up_when_it_may_be_forgotten)
{
    struct record record = {.kind = RECORD_DONE, .done = {.remember_until_ms = 123}};
    int64_t when_ms = -1;
    assert_int_equal(job_section_of(JOB_FINISHED, 2, true), SECTION_REMEMBERED);
    assert_int_equal(job_section_of_record(&record, SKEW_MS, &when_ms), SECTION_REMEMBERED);
    assert_int_equal(when_ms, 123);
}

CLAIM(a_kept_job_comes_up_when_it_is_no_longer_kept)
{
    struct record record = {.kind = RECORD_DONE,
                            .done = {.remember_until_ms = 123, .keep_until_ms = 100}};
    int64_t when_ms;

    assert_int_equal(job_section_of_record(&record, SKEW_MS, &when_ms), SECTION_KEPT);
    assert_int_equal(when_ms, 100);
    record.done.keep_until_ms = 124;
    assert_int_equal(job_section_of_record(&record, SKEW_MS, &when_ms), SECTION_KEPT);
    assert_int_equal(when_ms, 124);
}

CLAIM(sections_by_wall_clock_are_marked)
{
    for (enum job_section section = SECTION_LEASED; section < SECTIONS; section++)
        assert_int_equal(job_section_is_wall(section),
                         section == SECTION_DELAYED_WALL || section == SECTION_RETRYING_WALL);
}

CLAIMS_MAIN(NULL, NULL)
