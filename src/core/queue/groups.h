/*
 * groups: the order and the pages of lists of groups (COMMAND_GROUPS), for all implementations.
 *
 * The cursor of a page is the place of its last group: the number that the order sorts by, "=", and the name. By name, and of held
 * groups, the number is 0. A place need not have a group any more, and the cursor of one store or shard is valid in another.
 *
 *     struct groups_page page;
 *     groups_page_init(&page, &command->groups)       false: out of memory
 *     for each group: groups_page_add(&page, &group); keeps the first ones of the page
 *     groups_page_end(&page, &reply);                 sets groups, group_count and cursor
 *     … send the reply …
 *     groups_page_fini(&page);
 *
 * Names must stay valid until the reply was sent. One thread.
 */
#ifndef TARRY_QUEUE_GROUPS_H
#define TARRY_QUEUE_GROUPS_H

#include "queue/queue.h"

enum { GROUPS_CURSOR_BYTES_MAX = 20 + 1 + JOB_GROUP_BYTES_MAX };

/* The place of a group in an order. Zeroed: the beginning. */
struct groups_place {
    bool is_set;
    uint64_t number;
    struct slice name; /* may be empty */
};

/* Returns whether `a` comes before `b` in a list. */
bool groups_before(enum queue_groups_order order, const struct queue_group *a,
                   const struct queue_group *b);

/* Reads the cursor of a call; the name points into it. Returns false for an invalid cursor. */
bool groups_place_parse(const struct queue_groups_call *call, struct groups_place *out);

/* Returns whether a group belongs on the page after a place: it comes later, and is held if the order shows only those. */
bool groups_is_after(enum queue_groups_order order, const struct groups_place *place,
                     const struct queue_group *group);

/* Writes the cursor after a group and returns its length. */
size_t groups_cursor_write(char out[GROUPS_CURSOR_BYTES_MAX], enum queue_groups_order order,
                           const struct queue_group *last);

struct groups_page {
    enum queue_groups_order order;
    struct groups_place after;
    struct queue_group
        *groups; /* the first ones so far in their order, one more than the page has */
    size_t count, limit;
    char cursor[GROUPS_CURSOR_BYTES_MAX];
};

/* Begins the page of a checked call, whose cursor must stay valid. Returns false if out of memory. */
bool groups_page_init(struct groups_page *page, const struct queue_groups_call *call);
void groups_page_fini(struct groups_page *page);
void groups_page_add(struct groups_page *page, const struct queue_group *group);
void groups_page_end(struct groups_page *page, struct queue_reply *reply);

#endif
