/* list: an intrusive, doubly linked, circular list. A zeroed head must be initialized before
 * use. */
#ifndef TARRY_BASE_LIST_H
#define TARRY_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
    head->prev = head->next = head;
}

static inline bool list_is_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_add_last(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_add_first(struct list *head, struct list *node)
{
    list_add_last(head->next, node);
}

/* Moves all nodes of `from` to `into`, in their order. The previous content of `into` is
 * dropped. */
static inline void list_take_all(struct list *into, struct list *from)
{
    if (list_is_empty(from)) {
        list_init(into);
        return;
    }
    *into = *from;
    into->next->prev = into->prev->next = into;
    list_init(from);
}

/* Moves all nodes of `from`, in their order, in front of those of `into`. */
static inline void list_add_all_first(struct list *into, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->prev->next = into->next;
    into->next->prev = from->prev;
    from->next->prev = into;
    into->next = from->next;
    list_init(from);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = node;
}

#endif
