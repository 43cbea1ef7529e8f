#include "queue/cursor.h"

#include "unit/cases.h"
#include "unit/claim.h"

static struct queue_cursor read_again(const struct queue_cursor *cursor)
{
    char text[QUEUE_CURSOR_BYTES_MAX];
    struct queue_cursor out = {0};
    size_t len = queue_cursor_write(text, cursor);
    assert_true(len < sizeof text);
    assert_true(queue_cursor_parse(slice_make(text, len), &out));
    return out;
}

CLAIM(a_written_cursor_is_read_again)
{
    const struct queue_cursor all[] = {
        {.due_ms = 0},
        {.due_ms = 1900000000000, .sequence = 7, .shard = 3},
        {.due_ms = INT64_MAX, .sequence = UINT64_MAX, .shard = UINT32_MAX},
        {.due_ms = 5, .has_skew = true},
        {.due_ms = INT64_MAX, .sequence = 1, .shard = 64, .has_skew = true, .skew_ms = -3600000},
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct queue_cursor out = read_again(&all[i]);
        assert_int_equal(out.due_ms, all[i].due_ms);
        assert_int_equal(out.sequence, all[i].sequence);
        assert_int_equal(out.shard, all[i].shard);
        assert_int_equal(out.has_skew, all[i].has_skew);
        assert_int_equal(out.skew_ms, all[i].skew_ms);
    }
}

CLAIM(rejects_other_texts)
{
    static const char *const texts[] = {"",          "1",      "1-2",    "1-2-",
                                        "-1-2-3",    "1-2-3-", "x-2-3",  "1-2-3-4-",
                                        "1-2-3-4-5", "1-2-3 ", "1--2-3", "ffffffffffffffff-2-3",
                                        "1-2-3-xyz"};
    struct queue_cursor out;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (queue_cursor_parse(slice_of(texts[i]), &out))
            fail_msg("'%s' was accepted", texts[i]);
}

static int64_t followed(int64_t at_ms, int64_t skew_ms, int64_t now_ms, bool is_finished)
{
    struct queue_cursor cursor = {.due_ms = at_ms, .has_skew = true, .skew_ms = skew_ms};
    queue_cursor_follow(&cursor, now_ms, is_finished);
    return cursor.due_ms;
}

CLAIM(a_clock_set_back_moves_the_place_back_and_one_set_forward_does_not)
{
    assert_in_range(followed(100000, 50, -950, false), 98000, 98900);
    assert_in_range(followed(100000, 50, 0, false), 99900, 99949);
    assert_int_equal(followed(100000, -950, 50, false), 100000);
    assert_int_equal(followed(100000, 50, 49, false), 100000); /* noise */
    assert_int_equal(followed(1000, 0, -5000, false), 0);
}

CLAIM(finished_jobs_all_move_with_the_clock)
{
    assert_in_range(followed(100000, 50, -950, true), 100500, 100900);
    assert_in_range(followed(100000, -950, 50, true), 98500, 98900);
}

CLAIM(a_cursor_without_the_difference_stays)
{
    struct queue_cursor cursor = {.due_ms = 1000};
    queue_cursor_follow(&cursor, -100000, false);
    assert_int_equal(cursor.due_ms, 1000);
}

CLAIMS_MAIN(NULL, NULL)
