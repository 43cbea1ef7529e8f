/* The table, against a list of keys that is searched from end to end. */
#include "base/table.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/fault_calls.h"
#include "unit/seed.h"

#include <stdio.h>

enum { KEYS = 600, STEPS = 20000 };

struct item {
    int mark; /* so that the entry is not the first member */
    struct table_entry entry;
    bool is_in, was_met;
    char name[16];
};
TABLE_DECLARE(items, struct item, entry)

static struct item all[KEYS];

static void name_all(void)
{
    for (int i = 0; i < KEYS; i++) {
        all[i] = (struct item){.mark = i};
        (void)snprintf(all[i].name, sizeof all[i].name, "key %d", i);
        all[i].entry.key = slice_of(all[i].name);
    }
}

/* Compares the table with the model, by look-ups and by a walk. */
static void check_items(const struct items *table)
{
    size_t count = 0, met = 0;
    for (int i = 0; i < KEYS; i++) {
        assert_ptr_equal(items_find(table, slice_of(all[i].name)), all[i].is_in ? &all[i] : NULL);
        all[i].was_met = false;
        count += all[i].is_in;
    }
    assert_int_equal(table->table.count, count);
    for (struct item *item = items_first(table); item; item = items_next(table, item)) {
        assert_true(item->is_in && !item->was_met);
        item->was_met = true;
        met++;
    }
    assert_int_equal(met, count);
}

static void work_at_random(struct items *table, struct random *random)
{
    for (int step = 0; step < STEPS; step++) {
        struct item *item = &all[random_below(random, KEYS)];
        if (item->is_in)
            items_remove(table, item);
        else
            items_add(table, item);
        item->is_in = !item->is_in;
        if (step % 500 == 0)
            check_items(table);
    }
    check_items(table);
}

CLAIM(contains_exactly_the_entries_that_were_added_and_not_removed)
{
    struct random random = seed_random("table");
    struct items table = {0};
    name_all();
    work_at_random(&table, &random);
    assert_non_null(table.table.buckets);
    items_fini(&table);
    assert_null(items_first(&table));
}

CLAIM(a_zeroed_table_is_empty)
{
    struct items table = {0};
    assert_null(items_find(&table, slice_of("anything")));
    assert_null(items_find(&table, (struct slice){0}));
    assert_null(items_first(&table));
    items_fini(&table);
}

CLAIM(all_may_go_while_it_is_walked)
{
    struct items table = {0};
    name_all();
    for (int i = 0; i < KEYS; i++)
        items_add(&table, &all[i]);
    for (struct item *item = items_first(&table), *next; item; item = next) {
        next = items_next(&table, item);
        items_remove(&table, item);
    }
    assert_int_equal(table.table.count, 0);
    items_fini(&table);
}

CLAIM(works_without_memory)
{
    struct random random = seed_random("table without memory");
    struct items table = {0};
    name_all();
    calls_left = 0;
    fail_for_ever = true;
    work_at_random(&table, &random);
    calls_left = -1;
    fail_for_ever = false;
    assert_null(table.table.buckets);
    work_at_random(&table, &random); /* and grows once there is some again */
    assert_non_null(table.table.buckets);
    items_fini(&table);
}

CLAIM(still_works_if_it_cannot_grow)
{
    struct items table = {0};
    name_all();
    for (int i = 0; i < KEYS; i++) {
        if (i == 40) {
            calls_left = 0;
            fail_for_ever = true;
        }
        items_add(&table, &all[i]);
        all[i].is_in = true;
    }
    calls_left = -1;
    fail_for_ever = false;
    assert_int_equal(table.table.bucket_mask, 63);
    check_items(&table);
    items_fini(&table);
}

CLAIMS_MAIN(NULL, NULL)
