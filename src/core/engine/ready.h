/* ready: a binary heap of ready jobs by priority, due, push order. An entry has its position, so any entry can be removed. Tried jobs of a
 * strict topic (job/flow.h) come before all others. */
#ifndef TARRY_ENGINE_READY_H
#define TARRY_ENGINE_READY_H

#include "engine/engine.h"

struct ready_item {
    uint64_t order; /* priority << 48 | due (inner); 0: comes first, because it is tried */
    uint64_t sequence;
    uint32_t id;
    uint16_t priority;
    bool is_tried; /* and its topic is strict */
};

struct ready_heap {
    struct ready_item *items; /* from 0 */
    uint32_t count, cap;
};

static inline bool ready_comes_before(const struct ready_item *a, const struct ready_item *b)
{
    return a->order != b->order ? a->order < b->order : a->sequence < b->sequence;
}

#endif
