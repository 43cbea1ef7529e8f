/* The slab and the list. */
#include "base/slab.h"

#include "base/list.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <string.h>

struct item {
    uint32_t number, mark;
    uint64_t rest[2];
};

static bool is_zero(const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (((const char *)bytes)[i])
            return false;
    return true;
}

CLAIM(never_gives_id_zero)
{
    struct slab slab;

    slab_init(&slab, 8);
    for (uint32_t i = 1; i <= 3 * SLAB_CHUNK_ITEMS; i++)
        assert_int_equal(slab_add(&slab), i);
    assert_int_equal(slab.top, 3 * SLAB_CHUNK_ITEMS);
    assert_int_equal(slab.live, 3 * SLAB_CHUNK_ITEMS);
    slab_fini(&slab);
    assert_int_equal(slab.top, 0);
}

CLAIM(never_moves_an_item)
{
    struct slab slab;

    slab_init(&slab, sizeof(struct item));
    uint32_t id = slab_add(&slab);
    struct item *first = slab_at(&slab, id);
    first->mark = 7;
    for (int i = 0; i < 4 * SLAB_CHUNK_ITEMS; i++)
        assert_int_not_equal(slab_add(&slab), 0);
    assert_ptr_equal(slab_at(&slab, id), first);
    assert_int_equal(first->mark, 7);
    slab_fini(&slab);
}

CLAIM(rounds_items_up_to_eight_bytes)
{
    struct slab slab;

    slab_init(&slab, 1);
    assert_int_equal(slab.item_bytes, 8);
    slab_init(&slab, 17);
    assert_int_equal(slab.item_bytes, 24);
}

CLAIM(zeroes_all_but_the_link_of_a_removed_item)
{
    struct slab slab;

    slab_init(&slab, sizeof(struct item));
    for (uint32_t i = 1; i <= 10; i++)
        memset(slab_at(&slab, slab_add(&slab)), 0xff, sizeof(struct item));
    for (uint32_t id = 1; id <= 10; id += 2) {
        slab_remove(&slab, id);
        assert_true(is_zero((char *)slab_at(&slab, id) + 4, sizeof(struct item) - 4));
    }
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t id = slab_add(&slab);
        assert_int_equal(id % 2, 1);
        assert_true(is_zero(slab_at(&slab, id), sizeof(struct item)));
    }
    assert_int_equal(slab.top, 10);
    slab_fini(&slab);
}

/* Against a plain array of what lives. */
CLAIM(never_gives_an_id_that_lives)
{
    enum { ITEMS = 20000 };
    static uint32_t live[ITEMS];
    struct random random = seed_random("never_gives_an_id_that_lives");
    struct slab slab;
    uint32_t count = 0;

    slab_init(&slab, sizeof(struct item));
    for (int step = 0; step < 200000; step++) {
        if (count < ITEMS && (count == 0 || random_below(&random, 100) < 55)) {
            uint32_t id = slab_add(&slab);
            struct item *item = slab_at(&slab, id);
            assert_true(is_zero(item, sizeof *item));
            *item = (struct item){.number = id, .mark = 1};
            live[count++] = id;
        } else {
            uint32_t i = (uint32_t)random_below(&random, count);
            assert_int_equal(((struct item *)slab_at(&slab, live[i]))->number, live[i]);
            slab_remove(&slab, live[i]);
            live[i] = live[--count];
        }
        assert_int_equal(slab.live, count);
    }
    uint32_t marked = 0;
    for (uint32_t id = 1; id <= slab.top; id++)
        marked += ((struct item *)slab_at(&slab, id))->mark;
    assert_int_equal(marked, count);
    slab_fini(&slab);
}

/* Which are the lowest, and zero, also where their memory went back meanwhile. */
CLAIM(fills_the_lowest_chunk_first_and_gives_empty_ones_back)
{
    enum { CHUNKS = 3, ALL = CHUNKS * SLAB_CHUNK_ITEMS - 1 };
    struct slab slab;

    slab_init(&slab, sizeof(struct item));
    for (uint32_t i = 1; i <= ALL; i++)
        memset(slab_at(&slab, slab_add(&slab)), 0xff, sizeof(struct item));
    for (uint32_t id = SLAB_CHUNK_ITEMS; id <= ALL; id++)
        slab_remove(&slab, id);
    assert_int_equal(slab.rooms[1].used, SLAB_CHUNK_ITEMS); /* the spare one */
    assert_int_equal(slab.rooms[2].used, 0);
    assert_true(is_zero(slab_at(&slab, ALL), sizeof(struct item)));
    slab_remove(&slab, 5);
    assert_int_equal(slab_add(&slab), 5);
    for (uint32_t i = 0; i < SLAB_CHUNK_ITEMS; i++) {
        uint32_t id = slab_add(&slab);
        assert_int_equal(id >> SLAB_CHUNK_BITS, 1);
        assert_true(is_zero(slab_at(&slab, id), sizeof(struct item)));
    }
    assert_int_equal(slab_add(&slab), 2 * SLAB_CHUNK_ITEMS);
    assert_int_equal(slab.top, ALL);
    assert_int_equal(slab.live, 2 * SLAB_CHUNK_ITEMS);
    slab_fini(&slab);
}

struct entry {
    int number;
    struct list node;
};

CLAIM(lists_keep_the_order_of_arrival)
{
    struct entry entries[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct list head;

    list_init(&head);
    assert_true(list_is_empty(&head));
    for (int i = 0; i < 4; i++)
        list_add_last(&head, &entries[i].node);
    list_remove(&entries[2].node);
    list_remove(&entries[2].node); /* twice does no harm */
    list_remove(&entries[0].node);
    assert_int_equal(list_entry(head.next, struct entry, node)->number, 1);
    assert_int_equal(list_entry(head.prev, struct entry, node)->number, 3);
    list_remove(head.next);
    list_remove(head.next);
    assert_true(list_is_empty(&head));
}

CLAIMS_MAIN(NULL, NULL)
