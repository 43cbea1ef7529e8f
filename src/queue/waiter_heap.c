/* The waiters by the end of their wait: a binary heap whose members know their place. */
#include "queue/waiter_private.h"

#include <stdlib.h>

bool waiter_heap_reserve(struct waiters *waiters)
{
    size_t cap = waiters->heap_cap ? waiters->heap_cap * 2 : 64;
    struct waiter **heap;

    if (waiters->heap_count + 1 < waiters->heap_cap)
        return true;
    heap = realloc(waiters->heap, cap * sizeof(struct waiter *));
    if (!heap)
        return false;
    waiters->heap = heap;
    waiters->heap_cap = cap;
    return true;
}

static void put(struct waiters *waiters, size_t at, struct waiter *waiter)
{
    waiters->heap[at] = waiter;
    waiter->heap_at = (uint32_t)at;
}

static void sift_up(struct waiters *waiters, size_t at, struct waiter *waiter)
{
    while (at > 1 && waiter->deadline_ms < waiters->heap[at / 2]->deadline_ms) {
        put(waiters, at, waiters->heap[at / 2]);
        at /= 2;
    }
    put(waiters, at, waiter);
}

static void sift_down(struct waiters *waiters, size_t at, struct waiter *waiter)
{
    for (;;) {
        size_t child = 2 * at;

        if (child > waiters->heap_count)
            break;
        if (child < waiters->heap_count &&
            waiters->heap[child + 1]->deadline_ms < waiters->heap[child]->deadline_ms)
            child++;
        if (waiters->heap[child]->deadline_ms >= waiter->deadline_ms)
            break;
        put(waiters, at, waiters->heap[child]);
        at = child;
    }
    put(waiters, at, waiter);
}

void waiter_heap_add(struct waiters *waiters, struct waiter *waiter)
{
    sift_up(waiters, ++waiters->heap_count, waiter);
}

void waiter_heap_remove(struct waiters *waiters, struct waiter *waiter)
{
    size_t at = waiter->heap_at;
    struct waiter *last;

    if (at == 0)
        return;
    waiter->heap_at = 0;
    last = waiters->heap[waiters->heap_count--];
    if (last == waiter)
        return;
    if (at > 1 && last->deadline_ms < waiters->heap[at / 2]->deadline_ms)
        sift_up(waiters, at, last);
    else
        sift_down(waiters, at, last);
}

struct waiter *waiter_heap_first(const struct waiters *waiters)
{
    return waiters->heap_count ? waiters->heap[1] : NULL;
}
