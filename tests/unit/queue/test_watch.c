/* Which reactors watch which topics. */
#include "queue/watch.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

enum { TOPICS = 500 };

CLAIM(each_reactor_has_its_bit)
{
    struct watch_table *table = watch_table_new();
    assert_non_null(table);
    assert_int_equal(watch_find(table, slice_of("a")), 0);
    assert_true(watch_set(table, slice_of("a"), 0, true));
    assert_true(watch_set(table, slice_of("a"), 63, true));
    assert_true(watch_set(table, slice_of("b"), 5, true));
    assert_true(watch_find(table, slice_of("a")) == (UINT64_C(1) << 63 | 1));
    assert_true(watch_set(table, slice_of("a"), 0, false));
    assert_true(watch_find(table, slice_of("a")) == UINT64_C(1) << 63);
    assert_true(watch_find(table, slice_of("b")) == 1 << 5);
    watch_table_free(table);
}

CLAIM(an_unwatched_topic_is_forgotten)
{
    struct watch_table *table = watch_table_new();
    char topic[32];
    assert_non_null(table);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < TOPICS; i++) {
            (void)snprintf(topic, sizeof topic, "topic-%d", i);
            assert_true(watch_set(table, slice_of(topic), 1, round != 1));
            assert_int_equal(watch_find(table, slice_of(topic)), round != 1 ? 2 : 0);
        }
    assert_true(watch_set(table, slice_of("never there"), 1, false));
    watch_table_free(table); /* with some left */
}

CLAIMS_MAIN(NULL, NULL)
