#include "base/large.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t in_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Moves memory of malloc to memory of the system. */
static void *move_out(void *at, size_t from, size_t to)
{
    void *out =
        mmap(NULL, in_pages(to), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (out == MAP_FAILED)
        return NULL;
    if (from)
        memcpy(out, at, from);
    free(at);
    return out;
}

void *large_grow(void *at, size_t from, size_t to)
{
    assert(to >= from && to > 0);
    if (to < LARGE_BYTES)
        return realloc(at, to);
    if (from < LARGE_BYTES)
        return move_out(at, from, to);
    void *out = mremap(at, in_pages(from), in_pages(to), MREMAP_MAYMOVE);
    return out == MAP_FAILED ? NULL : out;
}

void large_shrink(void *at, size_t from, size_t to)
{
    size_t kept = in_pages(to), all = in_pages(from);
    assert(to >= LARGE_BYTES && to <= from);
    if (kept < all)
        (void)munmap((char *)at + kept, all - kept);
}

void large_free(void *at, size_t bytes)
{
    if (bytes < LARGE_BYTES)
        free(at);
    else
        (void)munmap(at, in_pages(bytes));
}
