/*
 * The memory of all fronts of a server together: what clients can make it hold. Counted are
 * buffers of requests that are not whole yet, bodies the store works on, answers that are not
 * written yet, connections and waiting takes. Not counted: what the store itself keeps, and one
 * read and one answer under way of each front.
 */
#include "http/private.h"

#include <inttypes.h>

enum { BUDGET_BYTES = 256 * 1024 * 1024, LARGE_BYTES = 1024 * 1024 };

void http_shared_set_memory(struct http_shared *shared, uint64_t bytes_max)
{
    shared->memory_bytes_max = bytes_max ? bytes_max : BUDGET_BYTES;
}

void http_budget_add(struct http_front *front, size_t bytes)
{
    atomic_fetch_add_explicit(&front->shared->memory_bytes, bytes, memory_order_relaxed);
}

void http_budget_remove(struct http_front *front, size_t bytes)
{
    atomic_fetch_sub_explicit(&front->shared->memory_bytes, bytes, memory_order_relaxed);
}

uint64_t http_budget_used(const struct http_shared *shared)
{
    return atomic_load_explicit(&shared->memory_bytes, memory_order_relaxed);
}

/* The last quarter is not for what is large. */
bool http_budget_has_room(const struct http_front *front, size_t bytes)
{
    uint64_t max = front->shared->memory_bytes_max;
    return http_budget_used(front->shared) + bytes <= (bytes > LARGE_BYTES ? max / 4 * 3 : max);
}

void http_budget_refuse(struct http_front *front, struct http_fault *fault)
{
    uint64_t max = front->shared->memory_bytes_max;
    atomic_fetch_add_explicit(&front->shared->memory_refused, 1, memory_order_relaxed);
    (void)http_fault_set(fault, PROBLEM_TOO_MUCH_MEMORY, max,
                         "requests and answers under way take all of the %" PRIu64
                         " bytes that --max-memory allows: try again later, or ask for less at "
                         "once",
                         max);
}
