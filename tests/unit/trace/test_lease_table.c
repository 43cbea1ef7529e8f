#include "trace/lease_table.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

static const struct trace_context parent = {.trace_low = 1, .span = 1, .is_sampled = true};

static struct trace_span *new_span(uint64_t id)
{
    struct trace_span *span = trace_span_new(TRACE_TAKE, &parent, slice_of(""), id);
    assert_non_null(span);
    return span;
}

CLAIM(a_span_is_found_once_by_its_lease)
{
    struct lease_table table;
    lease_table_init(&table);
    assert_true(lease_table_is_empty(&table));
    assert_true(lease_table_add(&table, slice_of("one"), 100, new_span(1)));
    assert_true(lease_table_add(&table, slice_of("two"), 100, new_span(2)));
    assert_null(lease_table_take(&table, slice_of("three")));
    lease_table_note_error(&table, slice_of("one"), slice_of("why"));
    lease_table_note_error(&table, slice_of("three"), slice_of("why"));
    struct trace_span *span = lease_table_take(&table, slice_of("one"));
    assert_true(span->self.span == 1);
    assert_string_equal(span->error, "why");
    assert_null(lease_table_take(&table, slice_of("one")));
    assert_false(lease_table_is_empty(&table));
    trace_span_free(span);
    lease_table_fini(&table);
}

CLAIM(ended_leases_are_removed_with_their_end)
{
    struct lease_table table;
    int64_t next_us;
    lease_table_init(&table);
    assert_null(lease_table_take_ended(&table, 1000, &next_us));
    assert_true(next_us == INT64_MAX);
    assert_true(lease_table_add(&table, slice_of("early"), 100, new_span(1)));
    assert_true(lease_table_add(&table, slice_of("longer"), 100, new_span(2)));
    assert_true(lease_table_add(&table, slice_of("late"), 300, new_span(3)));
    lease_table_extend(&table, slice_of("longer"), 200);
    assert_null(lease_table_take_ended(&table, 99, &next_us));
    assert_true(next_us == 100);
    struct trace_span *span = lease_table_take_ended(&table, 199, &next_us);
    assert_true(span->self.span == 1 && span->end_us == 100 && !span->next);
    assert_true(next_us == 200);
    trace_span_free(span);
    lease_table_fini(&table);
}

CLAIM(a_full_table_accepts_no_lease)
{
    struct lease_table table;
    char lease[32], too_long[LEASE_TEXT_BYTES_MAX + 1];
    lease_table_init(&table);
    for (unsigned i = 0; i < LEASE_TABLE_MAX; i++) {
        snprintf(lease, sizeof lease, "%u", i);
        assert_true(lease_table_add(&table, slice_of(lease), 100, new_span(i + 1)));
    }
    struct trace_span *more = new_span(7);
    assert_false(lease_table_add(&table, slice_of("more"), 100, more));
    trace_span_free(lease_table_take(&table, slice_of("77")));
    memset(too_long, 'x', sizeof too_long);
    assert_false(lease_table_add(&table, slice_make(too_long, sizeof too_long), 100, more));
    assert_true(lease_table_add(&table, slice_of("more"), 100, more));
    lease_table_fini(&table);
}

CLAIMS_MAIN(NULL, NULL)
