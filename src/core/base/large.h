/*
 * large: the memory of a buffer that may become large. From LARGE_BYTES on, it comes directly from the system and grows
 * without a copy of its bytes, so that no step of a loop copies megabytes. Less comes from malloc.
 *
 * The owner keeps the size and passes it to each call. Any thread.
 */
#ifndef TARRY_BASE_LARGE_H
#define TARRY_BASE_LARGE_H

#include <stddef.h>

enum { LARGE_BYTES = 1 << 20 };

/* Grows memory of `from` bytes, NULL if 0, to `to` bytes. Returns the memory, which may have moved; NULL: out of
 * memory, nothing changed. */
void *large_grow(void *at, size_t from, size_t to);
/* Frees the end of memory, down to `to` bytes, at least LARGE_BYTES. */
void large_shrink(void *at, size_t from, size_t to);
/* Frees memory of that many bytes. NULL is allowed. */
void large_free(void *at, size_t bytes);

#endif
