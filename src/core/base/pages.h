/*
 * pages: large zeroed memory directly from the system, for tables with random access.
 *
 * No page is resident before it is touched. With `huge`, pages of 2 MiB are requested if the system
 * has them: a random access then costs one cache miss instead of one plus a walk through the page
 * tables. The end of such memory may use small pages. Any thread.
 */
#ifndef TARRY_BASE_PAGES_H
#define TARRY_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Returns NULL when out of memory. Aligned to 2 MiB if `huge`. */
void *pages_take(size_t bytes, bool huge);
/* Zeroes the pages and releases their memory until they are touched. `bytes` as passed to
 * pages_take. */
void pages_forget(void *pages, size_t bytes);
/* Frees the pages. `bytes` and `huge` as passed to pages_take. NULL is allowed. */
void pages_give(void *pages, size_t bytes, bool huge);

#endif
