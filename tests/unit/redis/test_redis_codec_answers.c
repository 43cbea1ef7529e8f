/* Answers, changes, steps and checks on their way to the scripts, and the scripts' replies. */
#include "redis/codec.h"
#include "redis/id.h"

#include "redis_args.h"
#include "unit/claim.h"

/* ---- answers, changes ---- */

CLAIM(a_nack_without_a_time_goes_by_backoff)
{
    struct queue_answer answer = {.verb = QUEUE_NACK, .delay_ms = -1, .error = slice_of("no")};
    struct buffer args;
    struct slice rest, packed;

    buffer_init(&args, SIZE_MAX / 2);
    redis_pack_answer(&args, &answer, 0x010203040506);
    rest = buffer_slice(&args);
    packed = next_arg(&rest);
    assert_true(slice_equals(packed, slice_make("\1\2\3\4\5\6\2\xff\xff\xff\xff\xff\xff", 13)));
    assert_true(slice_is(next_arg(&rest), "no"));
    assert_int_equal(rest.len, 0);
    buffer_fini(&args);
}

static struct slice packed_answer(struct buffer *args, const struct queue_answer *answer)
{
    buffer_clear(args);
    redis_pack_answer(args, answer, 1);
    struct slice rest = buffer_slice(args), packed = next_arg(&rest);
    return slice_make(packed.at + 6, packed.len - 6);
}

CLAIM(for_good_is_a_verb_of_its_own_and_a_return_may_wait)
{
    struct buffer args;
    struct queue_answer answer = {.verb = QUEUE_NACK, .delay_ms = 258, .final = true};

    buffer_init(&args, SIZE_MAX / 2);
    assert_true(slice_equals(packed_answer(&args, &answer), slice_make("\5\0\0\0\0\1\2", 7)));
    answer.verb = QUEUE_RETURN;
    assert_true(slice_equals(packed_answer(&args, &answer), slice_make("\4\0\0\0\0\1\2", 7)));
    answer.delay_ms = -1;
    assert_true(slice_equals(packed_answer(&args, &answer), slice_make("\4\0\0\0\0\0\0", 7)));
    buffer_fini(&args);
}

CLAIM(a_hold_ends_the_numbers_of_an_answer)
{
    struct buffer args;
    struct queue_answer answer = {.verb = QUEUE_ACK, .hold_ms = 258};

    buffer_init(&args, SIZE_MAX / 2);
    assert_true(slice_equals(packed_answer(&args, &answer),
                             slice_make("\x41\0\0\0\0\0\0\0\0\0\0\1\2", 13)));
    answer = (struct queue_answer){
        .verb = QUEUE_NACK, .delay_ms = 0, .has_priority = true, .priority = 7, .hold_ms = 1};
    assert_true(slice_equals(packed_answer(&args, &answer),
                             slice_make("\x42\0\0\0\0\0\0\0\7\0\0\0\0\0\1", 15)));
    buffer_fini(&args);
}

CLAIM(a_result_follows_an_ack_and_a_final_nack_with_its_type)
{
    struct buffer args;
    struct queue_answer answer = {
        .verb = QUEUE_ACK, .result = slice_of("yes"), .result_type = slice_of("text/own")};

    buffer_init(&args, SIZE_MAX / 2);
    redis_pack_answer(&args, &answer, 1);
    struct slice rest = buffer_slice(&args), packed = next_arg(&rest);
    assert_true(slice_equals(packed, slice_make("\0\0\0\0\0\1\1\0\0\0\0\0\0\1", 14)));
    assert_true(slice_is(next_arg(&rest), "\10text/ownyes"));
    buffer_clear(&args);
    answer = (struct queue_answer){.verb = QUEUE_NACK,
                                   .final = true,
                                   .delay_ms = -1,
                                   .error = slice_of("why"),
                                   .result = slice_of("{}"),
                                   .result_type = slice_of("application/json")};
    redis_pack_answer(&args, &answer, 1);
    rest = buffer_slice(&args);
    packed = next_arg(&rest);
    assert_int_equal(packed.at[6], 7);
    assert_true(slice_equals(next_arg(&rest), slice_make("\0\3why\202{}", 8)));
    buffer_fini(&args);
}

CLAIM(an_extend_carries_its_progress)
{
    struct buffer args;
    struct queue_answer answer = {.verb = QUEUE_EXTEND, .progress = slice_of("half")};

    buffer_init(&args, SIZE_MAX / 2);
    redis_pack_answer(&args, &answer, 1);
    struct slice rest = buffer_slice(&args);
    (void)next_arg(&rest);
    assert_true(slice_is(next_arg(&rest), "half"));
    buffer_fini(&args);
}

/* flags 127, expired, number 5, ends 2000, finished 1000, attempt 2, duration 9; meta, consumer, no
 * attempts, progress, result, type, body. */
static const char kept[] = "\173\3\0\0\0\0\0\5\0\0\0\0\7\320\0\0\0\0\3\350\0\0\0\2\0\0\0\11"
                           "\0\4k\0v\0\3two\0\4half\0\0\0\4\0yes\202body";

CLAIM(a_kept_job_is_unpacked_on_the_wall_clock)
{
    struct job job;
    struct queue_end end;

    assert_true(redis_unpack_kept(slice_make(kept, sizeof kept - 1), 400, &job, &end));
    assert_int_equal(job.state, JOB_FINISHED);
    assert_int_equal(end.outcome, JOB_END_EXPIRED);
    assert_int_equal(end.finished_ms, 600);
    assert_int_equal(end.duration_ms, 9);
    assert_int_equal(job.attempt, 2);
    assert_int_equal(job.due_ms, queue_finished_rank(1600));
    assert_int_equal(job.sequence, queue_finished_rank_sequence(5));
    assert_true(slice_is(job_meta_find(job.meta, slice_of("k")), "v"));
    assert_true(slice_is(job.consumer, "two"));
    assert_true(slice_is(job.progress, "half"));
    assert_true(slice_is(end.result, "yes"));
    assert_int_equal(end.result_type.len, 0);
    assert_true(slice_is(job.content_type, "application/json"));
    assert_true(end.has_body);
    assert_true(slice_is(job.body, "body"));
}

CLAIM(a_kept_job_cut_short_is_rejected)
{
    struct job job;
    struct queue_end end;

    for (size_t len = 0; len < sizeof kept - 1 - strlen("body"); len++)
        assert_false(redis_unpack_kept(slice_make(kept, len), 0, &job, &end));
}

CLAIM(the_end_of_an_awaited_job_is_unpacked)
{
    struct redis_ended ended;
    struct slice message = slice_make("\4\0\0\0\0\1\0\1\1t\2idjob", 16);

    assert_true(redis_unpack_ended(message, &ended));
    assert_int_equal(ended.outcome, REDIS_DIED);
    assert_int_equal(ended.number, 256);
    assert_true(slice_is(ended.topic, "t"));
    assert_true(slice_is(ended.stored, "id"));
    assert_true(ended.has_job);
    assert_true(slice_is(ended.job, "job"));
    for (size_t len = 0; len < 13; len++)
        assert_false(redis_unpack_ended(slice_make(message.at, len), &ended));
    assert_false(redis_unpack_ended(slice_make("\7\0\0\0\0\1\0\1\1t\2id", 13), &ended));
}

CLAIM(a_look_returns_three_numbers)
{
    uint64_t changes, deaths, ends;
    struct slice rest = slice_make("\0\0\0\0\0\7\0\0\0\0\1\2\0\0\0\0\0\11\3", 19);

    assert_true(redis_unpack_counters(&rest, &changes, &deaths, &ends));
    assert_int_equal(changes, 7);
    assert_int_equal(deaths, 258);
    assert_int_equal(ends, 9);
    assert_int_equal(rest.len, 1);
    rest = slice_make("\0\0\0\0\0\7\0\0\0\0\1\2\0\0\0\0\0", 17);
    assert_false(redis_unpack_counters(&rest, &changes, &deaths, &ends));
}

CLAIM(a_long_error_is_cut)
{
    char long_error[1000];
    struct queue_answer answer = {.verb = QUEUE_NACK, .error = {long_error, sizeof long_error}};
    struct buffer args;
    struct slice rest;

    memset(long_error, 'e', sizeof long_error);
    buffer_init(&args, SIZE_MAX / 2);
    redis_pack_answer(&args, &answer, 1);
    rest = buffer_slice(&args);
    (void)next_arg(&rest);
    assert_int_equal(next_arg(&rest).len, JOB_ERROR_BYTES_MAX);
    buffer_fini(&args);
}

CLAIM(a_change_carries_only_changed_fields)
{
    struct queue_change change = {.verb = QUEUE_RESCHEDULE,
                                  .id = slice_of("a"),
                                  .priority = 513,
                                  .when = {QUEUE_DUE_DELAY, 0x0102}};
    struct buffer args;
    struct slice rest;

    buffer_init(&args, SIZE_MAX / 2);
    redis_pack_change(&args, &change);
    change.verb = QUEUE_CANCEL;
    redis_pack_change(&args, &change);
    rest = buffer_slice(&args);
    assert_true(slice_is(next_arg(&rest), "a"));
    assert_true(slice_equals(next_arg(&rest), slice_make("\2\2\1\2\1\0\0\0\0\1\2", 11)));
    assert_true(slice_is(next_arg(&rest), "a"));
    assert_true(slice_equals(next_arg(&rest), slice_make("\1\0\0\0\0\0\0\0\0\0\0", 11)));
    buffer_fini(&args);
}

CLAIM(results_are_read_one_after_the_other)
{
    static const char text[] = "\1\2\0\0\0\0\1\0"
                               "\14\0\0\0\0\0\0\0"
                               "\0\3\0\0\0\0\0\5\0\0\0\0\0\6";
    struct slice rest = slice_make(text, sizeof text - 1);
    struct queue_result result = {0};

    assert_true(redis_unpack_result(&rest, 56, &result));
    assert_int_equal(result.status, QUEUE_CREATED);
    assert_int_equal(result.state, JOB_READY);
    assert_int_equal(result.due_ms, 200);
    assert_null(result.detail);
    assert_true(redis_unpack_result(&rest, 56, &result));
    assert_int_equal(result.status, QUEUE_BAD_OPTION);
    assert_int_equal(result.due_ms, 0); /* no error */
    assert_string_equal(result.detail, "at");
    assert_true(redis_unpack_answered(&rest, 1, &result));
    assert_int_equal(result.state, JOB_LEASED);
    assert_int_equal(result.due_ms, 4);
    assert_int_equal(result.lease_until_ms, 5);
    assert_false(redis_unpack_result(&rest, 0, &result));
}

CLAIM(created_pushes_are_answered_by_their_time)
{
    static const struct {
        struct queue_when when;
        enum job_state state;
        int64_t due_ms;
    } cases[] = {
        {{.due = QUEUE_DUE_NOW}, JOB_READY, 9000},
        {{.due = QUEUE_DUE_DELAY}, JOB_READY, 9000},
        {{.due = QUEUE_DUE_DELAY, .ms = 1}, JOB_DELAYED, 9002}, /* never early */
        {{.due = QUEUE_DUE_AT, .ms = 9000}, JOB_READY, 9000},
        {{.due = QUEUE_DUE_AT, .ms = 9001}, JOB_DELAYED, 9001},
        {{.due = QUEUE_DUE_AT, .ms = 1}, JOB_READY, 9000},
    };
    int64_t now_ms = 0;

    assert_true(redis_unpack_all_made(slice_make("\0\0\0\0\x27\x10", 6), &now_ms));
    assert_int_equal(now_ms, 10000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct queue_result result = {0};
        redis_result_of_made(&cases[i].when, now_ms, 1000, &result);
        assert_int_equal(result.status, QUEUE_CREATED);
        assert_int_equal(result.state, cases[i].state);
        assert_int_equal(result.due_ms, cases[i].due_ms);
    }
    assert_false(redis_unpack_all_made(slice_make("\1\2\0\0\0\0\1\0", 8), &now_ms));
    assert_false(redis_unpack_all_made(slice_make("\0\0\0\0\1", 5), &now_ms));
}

CLAIM(an_unknown_status_or_state_is_refused)
{
    struct slice status = slice_make("\x7f\0\0\0\0\0\0\0", 8),
                 is = slice_make("\0\x7f\0\0\0\0\0\0", 8);
    struct queue_result result = {0};

    assert_false(redis_unpack_result(&status, 0, &result));
    assert_false(redis_unpack_result(&is, 0, &result));
}

CLAIM(a_ready_job_of_a_held_topic_is_marked)
{
    struct slice held = slice_make("\1\x42\0\0\0\0\0\0", 8);
    struct queue_result result = {0};

    assert_true(redis_result_is_held(held));
    assert_true(redis_unpack_result(&held, 0, &result));
    assert_int_equal(result.state, JOB_READY);
    assert_false(redis_result_is_held(slice_make("\1\2\0\0\0\0\0\0", 8)));
    assert_false(redis_result_is_held(slice_of("")));
}

/* ---- steps ---- */

CLAIM(a_step_has_the_number_of_answers_and_takes)
{
    struct buffer args;
    struct slice rest;

    buffer_init(&args, SIZE_MAX / 2);
    redis_pack_step(&args, 0x010203040506, 500, 258, 3);
    rest = buffer_slice(&args);
    assert_true(slice_equals(next_arg(&rest), slice_make("\1\2\3\4\5\6\1\xf4\1\2\0\3", 12)));
    assert_int_equal(rest.len, 0);
    buffer_fini(&args);
}

CLAIM(a_take_has_its_maximum_and_lease_length)
{
    struct buffer args;
    struct slice rest;

    buffer_init(&args, SIZE_MAX / 2);
    redis_pack_take(&args, slice_of("orders"), 500, 16 << 20, 30000, JOB_WAY_CALLBACK,
                    slice_of("worker 1"));
    redis_pack_take(&args, slice_of("mails"), 1, 1, 0,
                    JOB_WAY_TAKE, /* for the length of the policy */
                    (struct slice){0});
    rest = buffer_slice(&args);
    assert_true(slice_is(next_arg(&rest), "orders"));
    assert_true(slice_equals(next_arg(&rest),
                             slice_make("\0\0\1\xf4\1\0\0\0\0\0\0\0\x75\x30\2worker 1", 23)));
    assert_true(slice_is(next_arg(&rest), "mails"));
    assert_true(slice_equals(next_arg(&rest), slice_make("\0\0\0\1\0\0\0\1\0\0\0\0\0\0\1", 15)));
    assert_int_equal(rest.len, 0);
    buffer_fini(&args);
}

CLAIMS_MAIN(NULL, NULL)
