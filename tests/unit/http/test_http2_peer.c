#include "http/http2_peer.h"

#include "unit/claim.h"

/* Counts frames of a kind at a moment. Returns whether all were allowed. */
static bool count(struct http2_flood *flood, enum http2_flood_kind kind, int frames, int64_t now_ms)
{
    bool is_good = true;
    for (int i = 0; i < frames; i++)
        is_good = http2_flood_count(flood, kind, now_ms);
    return is_good;
}

CLAIM(a_thousand_frames_in_a_second_are_allowed)
{
    struct http2_flood flood = {0};
    assert_true(count(&flood, HTTP2_FLOOD_CONTROL, 1000, 5000));
    assert_false(count(&flood, HTTP2_FLOOD_CONTROL, 1, 5999));
}

CLAIM(a_new_second_begins_at_zero)
{
    struct http2_flood flood = {0};
    assert_true(count(&flood, HTTP2_FLOOD_CONTROL, 1000, 5000));
    assert_true(count(&flood, HTTP2_FLOOD_CONTROL, 1000, 6000));
}

CLAIM(each_kind_is_counted_separately)
{
    struct http2_flood flood = {0};
    for (int kind = 0; kind < HTTP2_FLOODS; kind++)
        assert_true(count(&flood, (enum http2_flood_kind)kind, 1000, 5000));
}

CLAIM(an_answer_makes_up_for_one_reset_and_not_in_advance)
{
    struct http2_flood flood = {.since_ms = 5000};
    http2_flood_forgive(&flood);
    assert_true(count(&flood, HTTP2_FLOOD_RESET, 1000, 5000));
    http2_flood_forgive(&flood);
    assert_true(count(&flood, HTTP2_FLOOD_RESET, 1, 5000));
    assert_false(count(&flood, HTTP2_FLOOD_RESET, 1, 5000));
}

CLAIM(the_last_closed_streams_are_remembered)
{
    struct http2_closed closed = {0};
    assert_false(http2_closed_has(&closed, 0));
    for (int32_t id = 1; id <= 2 * HTTP2_CLOSED_KEPT + 1; id += 2)
        http2_closed_add(&closed, id);
    assert_false(http2_closed_has(&closed, 1));
    for (int32_t id = 3; id <= 2 * HTTP2_CLOSED_KEPT + 1; id += 2)
        assert_true(http2_closed_has(&closed, id));
}

CLAIMS_MAIN(NULL, NULL)
