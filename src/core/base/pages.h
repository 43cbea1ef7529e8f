/*
 * pages: large zeroed memory straight from the system, for tables that are hit at random.
 *
 * Nothing is resident before it is touched. With `huge` the system is asked for pages of 2 MiB
 * where it has them: a random access then costs one cache miss rather than a walk through the page
 * tables as well. The end of such memory may lie in small pages. Any thread.
 */
#ifndef TARRY_BASE_PAGES_H
#define TARRY_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* NULL when out of memory. Aligned to 2 MiB where huge. */
void *pages_take(size_t bytes, bool huge);
/* What lies there is zero again and takes no memory until it is touched. `bytes` as taken with. */
void pages_forget(void *pages, size_t bytes);
/* `bytes` and `huge` as they were taken with. NULL is fine. */
void pages_give(void *pages, size_t bytes, bool huge);

#endif
