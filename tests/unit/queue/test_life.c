/* The rules of a job's life, case by case. */
#include "support/life_cases.h"

#include "unit/cases.h"
#include "unit/claim.h"

static void compare(const char *name, size_t column, struct life got, struct life expected)
{
    if (got.status != expected.status || got.step != expected.step)
        fail_msg("%s, column %zu: status %d and step %d, expected %d and %d", name, column,
                 (int)got.status, (int)got.step, (int)expected.status, (int)expected.step);
}

CLAIM(push_follows_the_state_and_the_choice_on_conflict)
{
    for (size_t i = 0; i < LIFE_CASES(life_push_cases); i++)
        for (size_t k = 0; k < LIFE_COLUMNS; k++) {
            const struct life_push_case *row = &life_push_cases[i];
            compare(row->name, k, life_push(life_columns[k], row->on_conflict, row->is_full, false),
                    row->outcomes[k]);
        }
}

CLAIM(change_follows_the_state_and_the_named_delivery)
{
    enum { LAST = 7, OTHER = 8 };
    for (size_t i = 0; i < LIFE_CASES(life_change_cases); i++)
        for (size_t k = 0; k < LIFE_COLUMNS; k++) {
            const struct life_change_case *row = &life_change_cases[i];
            const struct queue_change change = {
                .verb = row->verb,
                .request = row->request,
                .only_dead = row->only_dead,
                .lease = slice_of(row->by_lease ? "a lease" : ""),
            };
            uint64_t meant = row->names == LIFE_NAMES_OTHER ? OTHER : LAST;
            compare(row->name, k, life_change(&change, life_columns[k], LAST, meant),
                    row->outcomes[k]);
        }
}

CLAIM(lease_of_no_job_matches_no_job)
{
    const struct queue_change change = {.verb = QUEUE_CANCEL, .lease = slice_of("a lease")};
    compare("never delivered", 0, life_change(&change, JOB_READY, 0, QUEUE_DELIVERY_NONE),
            (struct life){QUEUE_CONFLICT, LIFE_STAYS});
}

CLAIM(take_by_id_follows_the_state)
{
    for (size_t k = 0; k < LIFE_COLUMNS; k++)
        compare("take by id", k, life_pick(life_columns[k]), life_pick_outcomes[k]);
}

static struct life answer(const struct life_answer_case *row)
{
    const struct policy policy = {.max_attempts = 3};
    const struct queue_answer answer = {.verb = row->verb, .final = row->final};
    struct life life = row->verb ? life_answer(&answer, row->cancel_requested)
                                 : (struct life){QUEUE_OK, life_lease_end(row->cancel_requested)};
    enum job_outcome outcome = !row->verb   ? JOB_OUTCOME_LEASE_ENDED
                               : row->final ? JOB_OUTCOME_REFUSED
                                            : JOB_OUTCOME_FAILED;
    if (life.step == LIFE_RETRIED)
        life.step = life_fail(outcome, row->last ? 3 : 2, &policy);
    return life;
}

CLAIM(answer_follows_the_attempts_and_a_request_to_cancel)
{
    for (size_t i = 0; i < LIFE_CASES(life_answer_cases); i++) {
        const struct life_answer_case *row = &life_answer_cases[i];
        compare(row->name, 0, answer(row), (struct life){row->status, row->step});
    }
}

CLAIM(successor_starts_at_every_end_of_the_lease)
{
    for (size_t i = 0; i < LIFE_CASES(life_next_cases); i++) {
        const struct life_next_case *row = &life_next_cases[i];
        const struct queue_answer answer = {.verb = row->verb, .final = row->final};
        struct life life = row->verb
                               ? life_answer(&answer, row->cancel_requested)
                               : (struct life){QUEUE_OK, life_lease_end(row->cancel_requested)};
        assert_int_equal(life_next(life.step, row->verb), row->after);
        assert_int_equal(life_next_status(life), row->status);
    }
    assert_int_equal(life_next(LIFE_EXTENDED, QUEUE_EXTEND), RECORD_NEXT_STAYS);
}

CLAIM(newer_successor_replaces_the_earlier_one)
{
    compare("after", 0, life_push(JOB_LEASED, CONFLICT_AFTER, false, true),
            (struct life){QUEUE_REPLACED, LIFE_NEXT});
}

CLAIM(only_a_cancel_whose_conditions_hold_removes_the_successor)
{
    struct queue_change change = {.verb = QUEUE_CANCEL};
    assert_true(life_drops_next(&change, JOB_LEASED, 7, 0));
    assert_false(life_drops_next(&change, JOB_READY, 7, 0));
    change.lease = slice_of("a lease");
    assert_false(life_drops_next(&change, JOB_LEASED, 7, 7));
    change = (struct queue_change){.verb = QUEUE_RESCHEDULE};
    assert_false(life_drops_next(&change, JOB_LEASED, 7, 0));
}

CLAIM(job_pushed_again_keeps_members_that_are_not_given)
{
    const struct job job = {.topic = slice_of("t"),
                            .id = slice_of("a"),
                            .content_type = slice_of("text/plain"),
                            .meta = slice_of("k"),
                            .body = slice_of("old"),
                            .priority = 7,
                            .attempt = 3,
                            .policy = {.max_attempts = 9}};
    struct queue_again again = {.when = {.due = QUEUE_DUE_DELAY, .ms = 5},
                                .priority = QUEUE_PRIORITY_UNSET};
    struct queue_push push = life_again(&job, &again);
    assert_true(slice_equals(push.topic, job.topic) && slice_equals(push.id, job.id));
    assert_true(slice_equals(push.body, job.body) && slice_equals(push.meta, job.meta));
    assert_true(slice_equals(push.content_type, job.content_type));
    assert_int_equal(push.priority, 7);
    assert_int_equal(push.policy.max_attempts, 9);
    assert_int_equal(push.past.attempt, 0);
    assert_int_equal(push.when.ms, 5);

    again.priority = 0;
    again.has_body = true;
    push = life_again(&job, &again);
    assert_int_equal(push.priority, 0);
    assert_int_equal(push.body.len, 0);
    assert_true(slice_equals(push.content_type, job.content_type));
    again.content_type = slice_of("application/json");
    push = life_again(&job, &again);
    assert_true(slice_equals(push.content_type, again.content_type));
}

CLAIM(unlimited_attempts_are_never_used_up)
{
    const struct policy policy = {.max_attempts = POLICY_ATTEMPTS_NONE};
    assert_int_equal(life_fail(JOB_OUTCOME_FAILED, UINT32_MAX - 1, &policy), LIFE_RETRIED);
}

CLAIM(end_of_the_ttl_follows_the_topic)
{
    for (size_t i = 0; i < LIFE_CASES(life_expire_cases); i++) {
        const struct topic_settings settings = {.dead_letter_expired =
                                                    life_expire_cases[i].dead_letter_expired};
        assert_int_equal(life_expire(&settings), life_expire_cases[i].step);
    }
}

CLAIM(ttl_counts_from_the_first_due_but_ends_no_earlier_than_the_due)
{
    assert_int_equal(life_expire_ms(1000, 1000, 0), 0);
    assert_int_equal(life_expire_ms(1000, 1000, 500), 1500);
    assert_int_equal(life_expire_ms(1000, 1400, 500), 1500);
    assert_int_equal(life_expire_ms(1000, 9000, 500), 9000); /* a retry after the end */
}

CLAIM(job_is_kept_by_the_way_it_ended_and_by_its_push_or_else_its_topic)
{
    for (size_t i = 0; i < LIFE_CASES(life_end_cases); i++)
        for (size_t k = 0; k < LIFE_CASES(life_keep_cases); k++) {
            const struct life_keep_case *keep = &life_keep_cases[k];
            const struct topic_settings settings = {.keep_finished_ms = keep->topic_ms};
            if (!life_end_cases[i].reason)
                continue;
            enum job_end end = life_end(life_end_cases[i].reason);
            assert_int_equal(end, life_end_cases[i].end);
            assert_int_equal(life_keep_ms(end, keep->has_own, keep->own_ms, &settings),
                             end ? keep->kept_ms : 0);
        }
}

CLAIMS_MAIN(NULL, NULL)
