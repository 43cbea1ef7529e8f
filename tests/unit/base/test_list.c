/* Lists: what moves from one to another keeps its order, and the one it left is empty. */
#include "base/list.h"

#include "unit/cases.h"

struct item {
    struct list list;
    int number;
};

static void all_of_a_list_move_in_their_order(void **state)
{
    struct item items[3];
    struct list from, into;
    (void)state;
    for (int count = 0; count <= 3; count++) {
        list_init(&from);
        for (int i = 0; i < count; i++) {
            items[i].number = i;
            list_add_last(&from, &items[i].list);
        }
        list_take_all(&into, &from);
        assert_true(list_is_empty(&from));
        for (int i = 0; i < count; i++) {
            struct list *first = into.next;
            assert_int_equal(list_entry(first, struct item, list)->number, i);
            assert_ptr_equal(first->prev, &into);
            list_remove(first);
        }
        assert_true(list_is_empty(&into) && into.prev == &into);
        list_add_last(&from, &items[0].list); /* it stays a valid list */
        assert_ptr_equal(from.prev, &items[0].list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_of_a_list_move_in_their_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
