#include "queue/groups.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the number that the order sorts by, the highest first. */
static uint64_t number_of(enum queue_groups_order order, const struct queue_group *group)
{
    if (order == QUEUE_GROUPS_BY_READY)
        return group->ready;
    return order == QUEUE_GROUPS_BY_LEASED ? group->leased : 0;
}

static bool place_before(uint64_t a, struct slice a_name, uint64_t b, struct slice b_name)
{
    return a != b ? a > b : slice_compare(a_name, b_name) < 0;
}

bool groups_before(enum queue_groups_order order, const struct queue_group *a,
                   const struct queue_group *b)
{
    return place_before(number_of(order, a), a->name, number_of(order, b), b->name);
}

bool groups_place_parse(const struct queue_groups_call *call, struct groups_place *out)
{
    struct slice cursor = call->cursor;
    struct groups_place place = {.is_set = true};
    if (!cursor.len) {
        *out = (struct groups_place){0};
        return true;
    }
    const char *equals = memchr(cursor.at, '=', cursor.len);
    if (!equals)
        return false;
    size_t len = (size_t)(equals - cursor.at);
    place.name = slice_make(equals + 1, cursor.len - len - 1);
    if (!text_parse_u64(slice_make(cursor.at, len), UINT64_MAX, &place.number) ||
        (place.name.len && !flow_group_is_valid(place.name)))
        return false;
    *out = place;
    return true;
}

bool groups_is_after(enum queue_groups_order order, const struct groups_place *place,
                     const struct queue_group *group)
{
    if (order == QUEUE_GROUPS_HELD && !group->held_by)
        return false;
    return !place->is_set ||
           place_before(place->number, place->name, number_of(order, group), group->name);
}

size_t groups_cursor_write(char out[GROUPS_CURSOR_BYTES_MAX], enum queue_groups_order order,
                           const struct queue_group *last)
{
    char number[24];
    int len = snprintf(number, sizeof number, "%" PRIu64 "=", number_of(order, last));
    memcpy(out, number, (size_t)len);
    if (last->name.len)
        memcpy(out + len, last->name.at, last->name.len);
    return (size_t)len + last->name.len;
}

void groups_page_fini(struct groups_page *page)
{
    free(page->groups);
    page->groups = NULL;
}

bool groups_page_init(struct groups_page *page, const struct queue_groups_call *call)
{
    *page = (struct groups_page){.order = call->order, .limit = call->limit};
    page->groups = malloc((page->limit + 1) * sizeof *page->groups);
    if (page->groups && groups_place_parse(call, &page->after))
        return true;
    groups_page_fini(page);
    return false;
}

/* Returns how many groups of the page come before this one. */
static size_t rank_of(const struct groups_page *page, const struct queue_group *group)
{
    size_t low = 0, high = page->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (groups_before(page->order, &page->groups[middle], group))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void groups_page_add(struct groups_page *page, const struct queue_group *group)
{
    struct queue_group *groups = page->groups;
    if (!groups_is_after(page->order, &page->after, group))
        return;
    bool is_full = page->count == page->limit + 1;
    if (is_full && !groups_before(page->order, group, &groups[page->count - 1]))
        return;
    size_t rank = rank_of(page, group);
    page->count += !is_full;
    memmove(&groups[rank + 1], &groups[rank], (page->count - 1 - rank) * sizeof *groups);
    groups[rank] = *group;
}

void groups_page_end(struct groups_page *page, struct queue_reply *reply)
{
    bool has_more = page->count > page->limit;
    reply->groups = page->groups;
    reply->group_count = has_more ? page->limit : page->count;
    if (has_more)
        reply->cursor =
            slice_make(page->cursor, groups_cursor_write(page->cursor, page->order,
                                                         &page->groups[page->limit - 1]));
}
